use super::*;

fn complaints(text: impl AsRef<[u8]>) -> Vec<String> {
    read(text.as_ref())
        .1
        .iter()
        .map(|wrong| format!("{}:{} {}", wrong.place.line, wrong.place.column, wrong.what))
        .collect()
}

#[test]
fn a_tree_knows_its_places() {
    let (root, wrong) = read(b"# words\na: [x, \"1\"]\nb:\n  c: |\n    two\n    lines\n");
    assert_eq!(wrong, []);
    let Some(YamlNode { value: YamlValue::Map(entries), .. }) = root else { panic!("{root:?}") };
    let scalar = |line, column, text: &str, is_plain| YamlNode {
        place: TextPlace { line, column },
        value: YamlValue::Scalar { text: text.to_owned(), is_plain },
    };
    assert_eq!(entries[0].0, YamlKey { place: TextPlace { line: 2, column: 1 }, name: "a".to_owned() });
    assert_eq!(entries[0].1.value, YamlValue::List(vec![scalar(2, 5, "x", true), scalar(2, 8, "1", false)]));
    let YamlValue::Map(inner) = &entries[1].1.value else { panic!("{entries:?}") };
    assert_eq!(inner[0].1.value, YamlValue::Scalar { text: "two\nlines\n".to_owned(), is_plain: false });
}

#[test]
fn nothing_is_a_document_too() {
    for text in ["", "\n\n", "# only words\n", "---\n", "\u{feff}", "\u{feff}# words"] {
        assert_eq!(complaints(text), [""; 0], "{text:?}");
    }
}

#[test]
fn cleverness_is_refused_where_it_stands() {
    // fault I3, fault I7
    for (text, expected) in [
        ("a: &x 1\n", vec!["1:7 anchors (`&name`) are not allowed"]),
        (
            "a: &x 1\nb: *x\n",
            vec!["1:7 anchors (`&name`) are not allowed", "2:4 aliases (`*name`) are not allowed"],
        ),
        ("b: *x\n", vec!["1:4 aliases (`*name`) are not allowed"]),
        ("a: !!str x\n", vec!["1:10 tags (`!name`) are not allowed"]),
        ("a: !include /etc/passwd\n", vec!["1:13 tags (`!name`) are not allowed"]),
        ("<<: {a: 1}\nb: 2\n", vec!["1:1 merge keys (`<<`) are not allowed"]),
        ("a: 1\nb: 2\na: 3\n", vec!["3:1 `a` is there twice, first in line 1"]),
        ("a: 1\r\na: 2\r\n", vec!["2:1 `a` is there twice, first in line 1"]),
        ("a: 1\n\"a\": 2\n", vec!["2:1 `a` is there twice, first in line 1"]),
        ("[a]: 1\n", vec!["1:1 a key must be a word"]),
        ("a: 1\n---\nb: 2\n", vec!["2:1 a second document (`---`) is not allowed"]),
        ("a: \"x\\0y\"\n", vec!["1:4 a NUL character is not allowed"]),
        ("a: 1\nb: x\0y\n", vec!["2:5 a character that cannot be seen: U+0000"]),
        ("a: 1\rb: 2\n", vec!["1:5 a character that cannot be seen: U+000D"]),
        ("a: \u{1b}[31m\n", vec!["1:4 a character that cannot be seen: U+001B"]),
        ("a: x\u{202e}y\n", vec!["1:5 a character that cannot be seen: U+202E"]),
        ("a: 1\n\u{feff}b: 2\n", vec!["2:1 a character that cannot be seen: U+FEFF"]),
    ] {
        assert_eq!(complaints(text), expected, "{text:?}");
    }
    assert_eq!(complaints(b"a: 1\nb: \xff\n"), ["2:4 not UTF-8"]);
    assert_eq!(complaints(vec![b' '; MAX_BYTES + 1]), ["1:1 larger than 64 KiB"]);
    for text in ["a: [1\n", "a: 'x\n", "a:\n\tb: 1\n", "%YAML 1.2\n---\na: 1\n", "a: b: c\n"] {
        let complaints = complaints(text);
        assert!(complaints.len() == 1 && complaints[0].contains(" not YAML: "), "{text:?}: {complaints:?}");
    }
}

#[test]
fn depth_has_a_limit_and_costs_no_stack() {
    // fault I4
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(complaints(nested(16)), [""; 0]);
    assert_eq!(complaints(nested(17)), ["1:17 nested deeper than 16 levels"]);
    assert_eq!(complaints(format!("a: {}\nb: {}\n", nested(16), nested(16))).len(), 2);
    for deep in [nested(10_000), "[".repeat(60_000), "{a: ".repeat(16_000), "- ".repeat(30_000)] {
        assert!(!complaints(&deep).is_empty());
    }
}

#[test]
fn bombs_do_not_go_off() {
    // fault I3: the first would unfold to 9^10 words, which no test run outlives.
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (name, of) in "bcdefghij".chars().zip("abcdefghi".chars()) {
        let aliases = vec![format!("*{of}"); 9].join(",");
        bomb += &format!("{name}: &{name} [{aliases}]\n");
    }
    let wide = format!("a: &a {}\nb: [{}]\n", "x".repeat(1000), vec!["*a"; 15_000].join(","));
    for bomb in [bomb, wide] {
        assert!(!complaints(&bomb).is_empty());
    }
}
