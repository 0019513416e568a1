//! Tables of outputs and what is found in them, each cut into chunks at every point.

use proptest::prelude::*;

use super::MissReason::{Echo, InCode, NotAlone, Quoted, WrongCase};
use super::*;
use crate::judge::promise::{LetterCase, PlainWord};

/// What a case expects.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Want {
    Promise,
    Miss(MissReason),
    Nothing,
}
use Want::{Miss, Nothing, Promise};

fn rule() -> PromiseRule {
    PromiseRule::new("COMPLETE").unwrap()
}

fn detect(rule: &PromiseRule, prompt: &str, chunks: &[&[u8]]) -> Detection {
    let mut detector = PromiseDetector::new(rule, "k7", prompt);
    for chunk in chunks {
        detector.push(chunk);
    }
    detector.finish()
}

fn outcome(detection: &Detection) -> Want {
    match detection {
        Detection { promise: Some(_), near_miss: None, .. } => Promise,
        Detection { promise: None, near_miss: Some(miss), .. } => Miss(miss.reason),
        Detection { promise: None, near_miss: None, .. } => Nothing,
        Detection { promise: Some(_), near_miss: Some(_), .. } => panic!("both: {detection:?}"),
    }
}

/// Checks one output: in one push, cut in two at every point, and byte by byte.
fn check(rule: &PromiseRule, prompt: &str, output: impl AsRef<[u8]>, want: Want) {
    let output = output.as_ref();
    let shown = String::from_utf8_lossy(output);
    let whole = detect(rule, prompt, &[output]);
    assert_eq!(outcome(&whole), want, "{shown:?} after prompt {prompt:?}");
    for cut in 0..=output.len() {
        let (left, right) = output.split_at(cut);
        assert_eq!(detect(rule, prompt, &[left, right]), whole, "{shown:?} cut at {cut}");
    }
    let bytes: Vec<&[u8]> = output.chunks(1).collect();
    assert_eq!(detect(rule, prompt, &bytes), whole, "{shown:?} byte by byte");
}

fn check_all(rule: &PromiseRule, cases: &[(&str, Want)]) {
    for &(output, want) in cases {
        check(rule, "", output, want);
    }
}

// req 204, fault A3, fault D2: what counts by default, wherever the chunks are cut.
#[test]
fn a_tag_counts_alone_on_its_line_or_last() {
    check_all(
        &rule(),
        &[
            ("<promise>COMPLETE</promise>", Promise),
            ("work\n<promise>COMPLETE</promise>\nmore work\n", Promise),
            ("work\r\n<promise>COMPLETE</promise>\r\nmore work\r\n", Promise),
            ("10%\r<promise>COMPLETE</promise>\rmore work", Promise),
            ("work\n   <promise>COMPLETE</promise> \t \nmore", Promise),
            ("<Promise>complete</PROMISE>", Promise),
            ("<promise>\t COMPLETE  </promise>", Promise),
            ("<promise>\u{a0}COMPLETE\u{3000}</promise>", Promise),
            ("All done: <promise>COMPLETE</promise>", Promise),
            ("All done: <promise>COMPLETE</promise> \n\n \t\r\n", Promise),
            ("fertig, schön 🎉 <promise>COMPLETE</promise>", Promise),
            ("<promise>OTHER</promise> <promise>COMPLETE</promise>", Promise),
            ("<promise>a<promise>COMPLETE</promise>", Promise),
            ("not yet <promise>COMPLETE</promise> but\n\n<promise>COMPLETE</promise>", Promise),
            ("<promise>COMPLETE</promise>\n`<promise>COMPLETE</promise>`", Promise),
            // Beside other text, and not last.
            ("All done: <promise>COMPLETE</promise>\nmore", Miss(NotAlone)),
            ("I will not write <promise>COMPLETE</promise> yet", Miss(NotAlone)),
            ("<promise>COMPLETE</promise> it is", Miss(NotAlone)),
            ("<promise>COMPLETE</promise>.", Miss(NotAlone)),
            ("\"<promise>COMPLETE</promise>\"", Miss(NotAlone)),
            ("(<promise>COMPLETE</promise>)", Miss(NotAlone)),
            ("**<promise>COMPLETE</promise>**", Miss(NotAlone)),
            ("<b><promise>COMPLETE</promise></b>", Miss(NotAlone)),
            ("<promise>COMPLETE</promise><promise>OTHER</promise>", Miss(NotAlone)),
            ("> <promise>COMPLETE</promise>", Miss(Quoted)),
            ("  >> see <promise>COMPLETE</promise>", Miss(Quoted)),
        ],
    );
}

// req 204, fault A4: other words, and what only looks like the tag.
#[test]
fn other_words_and_other_tags_are_nothing() {
    check_all(
        &rule(),
        &[
            ("", Nothing),
            (" \n\t\r\n", Nothing),
            ("COMPLETE", Nothing),
            ("<promise>INCOMPLETE</promise>", Nothing),
            ("<promise>COMPLETED</promise>", Nothing),
            ("<promise>COMPLETE COMPLETE</promise>", Nothing),
            ("<promise>COM PLETE</promise>", Nothing),
            ("<promise>\u{421}OMPLETE</promise>", Nothing), // a Cyrillic letter
            ("<promise></promise>", Nothing),
            ("<promise> </promise>", Nothing),
            ("< promise >COMPLETE</ promise >", Nothing),
            ("<promise >COMPLETE</promise>", Nothing),
            ("<promise id=1>COMPLETE</promise>", Nothing),
            ("<promises>COMPLETE</promises>", Nothing),
            ("<promise>COMPLETE", Nothing),
            ("<promise>COMPLETE<promise>", Nothing),
            ("<promise>COMPLETE</promise", Nothing),
            ("COMPLETE</promise>", Nothing),
            ("&lt;promise&gt;COMPLETE&lt;/promise&gt;", Nothing),
            ("<promise>\nCOMPLETE\n</promise>", Nothing),
            ("<promise>COMPLETE\n</promise>", Nothing),
            ("<prom\nise>COMPLETE</promise>", Nothing),
        ],
    );
    // No letter folds into an ASCII one: the Kelvin sign is not a `k`.
    let kelvin = PromiseRule::new("OK").unwrap();
    check(&kelvin, "", "<promise>O\u{212a}</promise>", Nothing);
    check(&PromiseRule::new("ÜBER").unwrap(), "", "<promise>über</promise>", Promise);
}

// req 204: a tag in code is an explanation.
#[test]
fn a_tag_in_code_does_not_count() {
    let cases = [
        ("```\n<promise>COMPLETE</promise>\n```", Miss(InCode)),
        ("```xml\n<promise>COMPLETE</promise>\n```\nmore", Miss(InCode)),
        ("      ~~~~\n<promise>COMPLETE</promise>\n~~~~", Miss(InCode)),
        ("```\ncode\n```\n<promise>COMPLETE</promise>", Promise),
        ("```\r\ncode\r\n```\r\n<promise>COMPLETE</promise>", Promise),
        ("```\ncode\n  ````  \n<promise>COMPLETE</promise>", Promise),
        // Not closed: fewer, other or further marks, or never.
        ("````\n```\n<promise>COMPLETE</promise>", Miss(InCode)),
        ("```\n~~~\n<promise>COMPLETE</promise>", Miss(InCode)),
        ("```\n``` x\n<promise>COMPLETE</promise>", Miss(InCode)),
        ("```\ncode\n\n\n<promise>COMPLETE</promise>", Miss(InCode)),
        // Not opened: code within the line, too short.
        ("```x```\n<promise>COMPLETE</promise>", Promise),
        ("``\n<promise>COMPLETE</promise>", Promise),
        ("~~~ <promise>COMPLETE</promise>", Miss(InCode)),
        ("~~~ a`b\n<promise>COMPLETE</promise>", Miss(InCode)),
        ("```<promise>COMPLETE</promise>```", Miss(InCode)),
        ("`<promise>COMPLETE</promise>`", Miss(InCode)),
        ("write `<promise>COMPLETE</promise>", Miss(InCode)),
        ("ran `make`: <promise>COMPLETE</promise>", Promise),
        ("a `b` `<promise>COMPLETE</promise>", Miss(InCode)),
        // Indented.
        ("    <promise>COMPLETE</promise>", Miss(InCode)),
        ("\t<promise>COMPLETE</promise>\n", Miss(InCode)),
        ("text\n\n    <promise>COMPLETE</promise>\n\ntext", Miss(InCode)),
        ("text\n \n    a\n    <promise>COMPLETE</promise>", Miss(InCode)),
        ("text\n    <promise>COMPLETE</promise>", Promise),
        ("text\r\n    <promise>COMPLETE</promise>", Promise),
        ("text\n\n   <promise>COMPLETE</promise>", Promise),
        ("text\n\n    a\nb\n    <promise>COMPLETE</promise>", Promise),
    ];
    check_all(&rule(), &cases);
    let regardless = PromiseRule { ignore_code: false, ..rule() };
    for (output, want) in cases {
        let want = match output {
            // Beside backticks it is still not alone.
            "```<promise>COMPLETE</promise>```" | "`<promise>COMPLETE</promise>`" => Miss(NotAlone),
            _ if want == Miss(InCode) => Promise,
            _ => want,
        };
        check(&regardless, "", output, want);
    }
    check(&regardless, "", "> <promise>COMPLETE</promise>", Miss(Quoted));
}

// fault D3, fault D4.
#[test]
fn bytes_that_are_not_text_do_not_matter() {
    let cases: &[(&[u8], Want)] = &[
        (b"\x1b[32m<promise>COMPLETE</promise>\x1b[0m\x1b[K\r\n", Promise),
        (b"\x1b]0;t\x07<pro\x1b[1mmise>COMP\x1b[0mLETE</promise>", Promise),
        (b"done: <promise>COMPLETE</promise>\x1b[?25h\x1b]8;;\x1b\\", Promise),
        (b"\x1b]0;<promise>COMPLETE</promise>\x07", Nothing),
        (b"\xff\xfe\n<promise>COMPLETE</promise>\n\xc3", Promise),
        (b"\xff <promise>COMPLETE</promise>", Promise),
        (b"<promise>COMPLETE</promise>\xff", Miss(NotAlone)),
        (b"<promise>COMPLETE\xff</promise>", Nothing),
        (b"\0\0\n<promise>COMPLETE</promise>", Promise),
    ];
    for &(output, want) in cases {
        check(&rule(), "", output, want);
    }
}

#[test]
fn the_other_placements() {
    use Placement::{Anywhere, LastLine, OwnLine};
    for (placement, output, want) in [
        (OwnLine, "a\n<promise>COMPLETE</promise>\nb", Promise),
        (OwnLine, "a <promise>COMPLETE</promise>", Miss(NotAlone)),
        (OwnLine, "<promise>\nCOMPLETE</promise>", Nothing),
        (LastLine, "a\n<promise>COMPLETE</promise>\n\n \n", Promise),
        (LastLine, "a\n<promise>COMPLETE</promise>\nb", Miss(NotAlone)),
        (LastLine, "a <promise>COMPLETE</promise>", Miss(NotAlone)),
        (LastLine, "```\n<promise>COMPLETE</promise>", Miss(InCode)),
        (Anywhere, "a <promise>COMPLETE</promise> b\nc", Promise),
        (Anywhere, "\"<promise>COMPLETE</promise>\" b", Promise),
        (Anywhere, "a <promise>\n  COMPLETE\r\n</promise> b\nc", Promise),
        (Anywhere, "a <promise>\n\n\nCOMPLETE</promise> b\nc", Promise),
        (Anywhere, "<promise>a\n<promise>\nCOMPLETE</promise> b", Promise),
        (Anywhere, "<promise>\nIN\nCOMPLETE</promise>", Nothing),
        (Anywhere, "<promise\n>COMPLETE</promise>", Nothing),
        (Anywhere, "a `<promise>COMPLETE</promise>` b", Miss(InCode)),
        (Anywhere, "a `<promise>COMPLETE</promise>` b <promise>COMPLETE</promise> c", Promise),
        (Anywhere, "a <promise>COMPLETE</promise> b `<promise>COMPLETE</promise>", Promise),
        (Anywhere, "a `<promise>\nCOMPLETE</promise>` b", Miss(InCode)),
        (Anywhere, "```\n<promise>\nCOMPLETE</promise>\n```", Miss(InCode)),
        (Anywhere, "`<promise>\nCOMPLETE</promise> <promise>COMPLETE</promise> b", Promise),
        (Anywhere, "> a <promise>COMPLETE</promise> b", Miss(Quoted)),
    ] {
        check(&PromiseRule { placement, ..rule() }, "", output, want);
    }
    let regardless = PromiseRule { placement: Anywhere, ignore_code: false, ..rule() };
    check(&regardless, "", "```\na <promise>\nCOMPLETE</promise> b", Promise);
}

// req 175: a stage's promise stands alone on its line, to the letter.
#[test]
fn the_strict_rule_of_stages() {
    let strict = PromiseRule {
        case: LetterCase::Sensitive,
        placement: Placement::OwnLine,
        ..PromiseRule::new("TESTS_COMPLETE").unwrap()
    };
    for (output, want) in [
        ("All is well.\n<promise>TESTS_COMPLETE</promise>\nBye.", Promise),
        ("<promise>TESTS_COMPLETE</promise>", Promise),
        ("<promise>tests_complete</promise>", Miss(WrongCase)),
        ("<promise>TESTS_COMPLETE!</promise>", Nothing),
        ("<promise>QA_PASSED</promise>", Nothing),
        ("Here: <promise>TESTS_COMPLETE</promise>", Miss(NotAlone)),
        ("<promise>TESTS_COMPLETE</promise> it is", Miss(NotAlone)),
        ("TESTS_COMPLETE", Nothing),
        ("", Nothing),
    ] {
        check(&strict, "", output, want);
    }
}

// req 204, fault A6: several words are one opaque string.
#[test]
fn wording() {
    let words = PromiseRule::new("ALL  TESTS (a+b)* green").unwrap();
    let sensitive = PromiseRule { case: LetterCase::Sensitive, ..rule() };
    let exact = PromiseRule { trim: false, ..PromiseRule::new("ALL DONE").unwrap() };
    let nonce = PromiseRule { nonce: true, ..rule() };
    // The fields are open, so a blank text can be set after all (fault A5).
    let blank = PromiseRule { text: " ".into(), plain: PlainWord::Substring, ..rule() };
    let blank_exact = PromiseRule { text: String::new(), trim: false, ..blank.clone() };
    for (rule, output, want) in [
        (&words, "<promise>all tests\t (A+B)*  Green</promise>", Promise),
        (&words, "<promise>ALL</promise>", Nothing),
        (&words, "<promise>ALL TESTS aab green</promise>", Nothing),
        (&sensitive, "<promise>COMPLETE</promise>", Promise),
        (&sensitive, "<PROMISE> COMPLETE </PROMISE>", Promise),
        (&sensitive, "<promise>Complete</promise>", Miss(WrongCase)),
        (&sensitive, "`<promise>Complete</promise>`", Miss(InCode)),
        (&exact, "<promise>ALL DONE</promise>", Promise),
        (&exact, "<promise>all done</promise>", Promise),
        (&exact, "<promise> ALL DONE</promise>", Nothing),
        (&exact, "<promise>ALL  DONE</promise>", Nothing),
        (&nonce, "<promise>COMPLETE k7</promise>", Promise),
        (&nonce, "<promise>COMPLETE</promise>", Nothing),
        (&nonce, "<promise>COMPLETE k6</promise>", Nothing),
        (&blank, "<promise> </promise>", Nothing),
        (&blank, "words", Nothing),
        (&blank_exact, "<promise></promise>", Nothing),
    ] {
        check(rule, "", output, want);
    }
}

// req 204, fault A4: the bare word, where it is asked for.
#[test]
fn plain_words() {
    let own = PromiseRule { plain: PlainWord::OwnLineOrEnd, ..rule() };
    let substring = PromiseRule { plain: PlainWord::Substring, ..rule() };
    let ticks = PromiseRule { text: "a`a".into(), ..substring.clone() };
    for (rule, output, want) in [
        (&own, "COMPLETE", Promise),
        (&own, "a\n  COMPLETE \nb", Promise),
        (&own, "it is COMPLETE\n\n", Promise),
        (&own, "<promise>complete</promise>", Promise),
        (&own, "it is COMPLETE\nb", Nothing),
        (&own, "complete", Nothing),
        (&own, "INCOMPLETE", Nothing),
        (&own, "in-COMPLETE", Nothing),
        (&own, "COMPLETED", Nothing),
        (&own, "COMPLETE.", Nothing),
        (&own, "not COMPLETE yet", Nothing),
        (&own, "```\nCOMPLETE\n```", Nothing),
        (&own, "is `x COMPLETE", Nothing),
        (&own, "> COMPLETE", Nothing),
        (&substring, "not COMPLETED yet\nmore", Promise),
        (&substring, "complete", Nothing),
        (&substring, "COMPLET\nE", Nothing),
        (&substring, "`COMPLETE`", Nothing),
        (&substring, "`COMPLETE` `COMPLETE` COMPLETE, `COMPLETE`", Promise),
        (&substring, "```\nCOMPLETE\n```", Nothing),
        (&ticks, "`a`a`a", Promise),
    ] {
        check(rule, "", output, want);
    }
}

// req 204, fault A1: agents of plain text may repeat the prompt.
#[test]
fn echoes() {
    const PROMPT: &str = "Do it.\nWhen done, write\n\n  <promise>COMPLETE</promise>\n\nand stop.\n";
    const ALONE: &str = "<promise>COMPLETE</promise>";
    const INLINE: &str = "Do it.\nWhen done, write <promise>COMPLETE</promise>";
    for (prompt, output, want) in [
        (PROMPT, PROMPT, Miss(Echo)),
        (PROMPT, "When done, write\n<promise>COMPLETE</promise>", Miss(Echo)),
        (PROMPT, "user:\n<promise>COMPLETE</promise>\r\n\r\nand stop.\r\nI did.", Miss(Echo)),
        (PROMPT, "When done, write\n\n<promise>complete</promise>\n", Promise),
        (PROMPT, "<promise>COMPLETE</promise>", Promise),
        (PROMPT, "\n\n<promise>COMPLETE</promise>\n\n", Promise),
        (PROMPT, "I did.\n\n<promise>COMPLETE</promise>\n", Promise),
        (PROMPT, "I did.\n<promise>COMPLETE</promise>\nBye.", Promise),
        (PROMPT, "Do it.\n<promise>COMPLETE</promise>\nWhen done, write", Promise),
        (PROMPT, "I did: <promise>COMPLETE</promise>", Promise),
        (ALONE, ALONE, Miss(Echo)),
        (ALONE, "\n<promise>COMPLETE</promise>\n\n", Miss(Echo)),
        (ALONE, "I did.\n<promise>COMPLETE</promise>", Promise),
        (ALONE, "<promise>COMPLETE</promise>\nBye.", Promise),
        (INLINE, INLINE, Miss(Echo)),
        (INLINE, "Hello.\nWhen done, write <promise>COMPLETE</promise>\n", Miss(Echo)),
        (INLINE, "I did it: <promise>COMPLETE</promise>", Promise),
        (INLINE, "I did it.\n<promise>COMPLETE</promise>", Promise),
        // Each place in the prompt has its own neighbours.
        (
            "a\n<promise>COMPLETE</promise>\nb\n<promise>COMPLETE</promise>\nc",
            "b\n<promise>COMPLETE</promise>",
            Miss(Echo),
        ),
        (
            "a\n<promise>COMPLETE</promise>\nb\n<promise>COMPLETE</promise>\nc",
            "a\n<promise>COMPLETE</promise>\nc",
            Miss(Echo),
        ),
        (
            "a\n<promise>COMPLETE</promise>\nb\n<promise>COMPLETE</promise>\nc",
            "d\n<promise>COMPLETE</promise>\ne",
            Promise,
        ),
    ] {
        check(&rule(), prompt, output, want);
    }
    let repeated = format!("{PROMPT}\nDid it.\n<promise>COMPLETE</promise>");
    check(&rule(), PROMPT, repeated, Promise);

    let last_line = PromiseRule { placement: Placement::LastLine, ..rule() };
    check(&last_line, PROMPT, "write\n<promise>COMPLETE</promise>", Promise);
    check(&last_line, PROMPT, "When done, write\n<promise>COMPLETE</promise>", Miss(Echo));

    let plain = PromiseRule { plain: PlainWord::OwnLineOrEnd, ..rule() };
    check(&plain, "When done, write\nCOMPLETE", "When done, write\nCOMPLETE", Nothing);
    check(&plain, "When done, write COMPLETE", "When done, write COMPLETE", Nothing);
    check(&plain, "When done, write\nCOMPLETE", "I did.\nCOMPLETE", Promise);

    let anywhere = PromiseRule { placement: Placement::Anywhere, ..rule() };
    let spread = "Do it, then\n<promise>\nCOMPLETE\n</promise>\nand stop.";
    check(&anywhere, spread, spread, Miss(Echo));
    check(&anywhere, spread, "I did.\n<promise>\nCOMPLETE\n</promise>\n", Promise);
    check(&anywhere, spread, "I did.\n<promise>\nCOMPLETE\n</promise>\n\nand stop.", Miss(Echo));
    check(
        &anywhere,
        "write <promise>COMPLETE</promise> then",
        "write <promise>COMPLETE</promise> then",
        Miss(Echo),
    );
    check(
        &anywhere,
        "write <promise>COMPLETE</promise> then",
        "so <promise>COMPLETE</promise> it is",
        Promise,
    );
}

#[test]
fn the_finding_shows_what_was_written() {
    let found = detect(&rule(), "", &[b"So: <Promise> complete\t</promise>\n"]);
    let promise = Some("<Promise> complete\t</promise>".to_owned());
    assert_eq!(found, Detection { promise, ..Detection::default() });

    let found =
        detect(&rule(), "", &[b"```\n<promise>COMPLETE</promise>\n```\n> <promise>complete</promise>\n"]);
    let near_miss = Some(NearMiss { tag: "<promise>complete</promise>".to_owned(), reason: Quoted });
    assert_eq!(found, Detection { near_miss, ..Detection::default() });
    assert_eq!(
        serde_json::to_string(&found).unwrap(),
        r#"{"promise":null,"near_miss":{"tag":"<promise>complete</promise>","reason":"quoted"}}"#
    );
}

/// Pushes `start`, then `filler` often enough for `mib` MiB, then `end`; watches the memory held.
fn push_giant(rule: &PromiseRule, mib: usize, [start, filler, end]: [&[u8]; 3]) -> Detection {
    // The prompt holds the tag, so the lines before a tag are remembered too.
    let prompt = "Write\n<promise>COMPLETE</promise>\nwhen done";
    let chunk: Vec<u8> =
        filler.iter().copied().cycle().take(filler.len() * (65_536 / filler.len())).collect();
    let mut detector = PromiseDetector::new(rule, "", prompt);
    let limit = if rule.placement == Placement::Anywhere { 96 * 1024 } else { 24 * 1024 };
    detector.push(start);
    for _ in 0..mib * 16 {
        detector.push(&chunk);
        assert!(detector.buffered() <= limit, "{} bytes held", detector.buffered());
    }
    detector.push(end);
    assert!(detector.buffered() <= limit, "{} bytes held", detector.buffered());
    detector.finish()
}

// fault D1: a line may be as long as the output.
#[test]
fn a_giant_line_is_judged_in_little_memory() {
    const TAG: &[u8] = b"<promise>COMPLETE</promise>";
    assert_eq!(outcome(&push_giant(&rule(), 64, [b"{", b"x ", TAG])), Promise);

    let anywhere = PromiseRule { placement: Placement::Anywhere, ..rule() };
    let plain = PromiseRule { plain: PlainWord::OwnLineOrEnd, ..rule() };
    let substring = PromiseRule { plain: PlainWord::Substring, ..rule() };
    let with_end = [b"\n".as_slice(), TAG].concat();
    let before = [TAG, b" more"].concat();
    for (rule, parts, want) in [
        (&rule(), [b"", b"x", b""], Nothing),
        (&rule(), [b"", b"x", &with_end], Promise),
        (&rule(), [b"", b"x ", TAG], Promise),
        (&rule(), [b"`", b"x ", TAG], Miss(InCode)),
        (&rule(), [b"", b"`x ", TAG], Promise), // an even number of them
        (&rule(), [b"", b" ", TAG], Miss(InCode)),
        (&rule(), [TAG, b" ", b""], Promise),
        (&rule(), [TAG, b" ", b"x"], Miss(NotAlone)),
        (&rule(), [TAG, b"x", b""], Miss(NotAlone)),
        (&rule(), [b"", b"<promise>", b""], Nothing),
        (&rule(), [b"<promise>", b" ", b"COMPLETE</promise>"], Nothing),
        (&rule(), [b"", b"```", TAG], Promise),
        (&rule(), [b"```\n", b"x\n", TAG], Miss(InCode)),
        (&rule(), [b"\x1b]0;", b"x", b"\x07<promise>COMPLETE</promise>"], Promise),
        (&rule(), [b"\x1b[", b"1;", b"m<promise>COMPLETE</promise>"], Promise),
        (&anywhere, [b"", b"x", &before], Promise),
        (&anywhere, [b"<promise>", b" \n", b"COMPLETE</promise>"], Nothing),
        (&plain, [b"", b"x", b" COMPLETE"], Promise),
        (&plain, [b"", b"x", b"COMPLETE"], Nothing),
        (&substring, [b"COMPLETE", b"x", b""], Promise),
        (&substring, [b"", b"x", b"COMPLETEx"], Promise),
    ] as [(&PromiseRule, [&[u8]; 3], Want); 21]
    {
        let found = push_giant(rule, 1, parts);
        assert_eq!(outcome(&found), want, "{:?}", parts.map(String::from_utf8_lossy));
    }
}

#[test]
fn lines_as_long_as_what_is_kept_are_judged_alike_in_any_chunks() {
    let plain = PromiseRule { plain: PlainWord::OwnLineOrEnd, ..rule() };
    for len in [2030, 2040, 2048, 2049, 2056, 4080, 4088, 4096, 4097, 4105, 9000] {
        let filler = "x".repeat(len);
        for (rule, end) in [(&rule(), "<promise>COMPLETE</promise>"), (&plain, "COMPLETE")] {
            let output = format!("{filler} {end}   \n");
            let prompt = format!("{filler} {end}");
            for size in [1, 7, 1000, 2048, 4096, 20_000] {
                let chunks: Vec<&[u8]> = output.as_bytes().chunks(size).collect();
                let found = detect(rule, "", &chunks);
                assert_eq!(outcome(&found), Promise, "{len} in chunks of {size}");
                assert_eq!(detect(rule, &prompt, &chunks).promise, None, "{len} echoed");
            }
        }
    }
}

/// Pieces that random bytes would hardly ever form.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known: &[&[u8]] = &[
        b"<promise>",
        b"</promise>",
        b"COMPLETE",
        b"complete",
        b"<promise>COMPLETE</promise>",
        b"<blocked>",
        b"</blocked>",
        b"<blocked>no key</blocked>",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b" ",
        b"    ",
        b"\t",
        b"`",
        b"```",
        b"~~~",
        b">",
        b"<",
        b"\x1b[1m",
        b"\x1b]0;",
        b"\x07",
        b"\x1b",
        b"Write",
        b"when done",
        b"\xc3\xa9",
        b"\xff",
    ];
    prop_oneof![
        4 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

fn any_rule() -> impl Strategy<Value = PromiseRule> {
    use Placement::{Anywhere, LastLine, OwnLine, OwnLineOrEnd};
    (
        prop::sample::select(vec![OwnLine, OwnLineOrEnd, LastLine, Anywhere]),
        prop::sample::select(vec![PlainWord::Off, PlainWord::OwnLineOrEnd, PlainWord::Substring]),
        prop::sample::select(vec![LetterCase::Sensitive, LetterCase::Insensitive]),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(placement, plain, case, trim, ignore_code)| PromiseRule {
            placement,
            plain,
            case,
            trim,
            ignore_code,
            ..rule()
        })
}

proptest! {
    // fault D2, fault D3: nothing panics, and chunks do not matter.
    #[test]
    fn any_output_gives_one_finding_in_any_chunks(
        rule in any_rule(),
        echoes in any::<bool>(),
        fragments in prop::collection::vec(fragment(), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let output = fragments.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(output.len() + 1)).collect();
        cuts.extend([0, output.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &output[cut[0]..cut[1]]).collect();
        let prompt = if echoes { "Write\n<promise>COMPLETE</promise>\nwhen done COMPLETE\n<blocked>no key</blocked>" } else { "" };
        let whole = detect(&rule, prompt, &[&output]);
        prop_assert_eq!(detect(&rule, prompt, &chunks), whole.clone());
        let bytes: Vec<&[u8]> = output.chunks(1).collect();
        prop_assert_eq!(detect(&rule, prompt, &bytes), whole);
    }

    // fault A6: the tag of any text is found, and as a whole.
    #[test]
    fn any_text_is_a_promise_of_its_own(text in "[^\\p{Cc}]{1,40}", more in "[a-zA-Z0-9]{1,5}") {
        let Ok(rule) = PromiseRule::new(text.as_str()) else { return Ok(()) };
        let tag = rule.tag("");
        prop_assert_eq!(outcome(&detect(&rule, "", &[tag.as_bytes()])), Promise);
        // fault A4: a longer text is another.
        for other in [format!("{text}{more}"), format!("{more}{text}"), format!("{more} {text}")] {
            let tag = format!("<promise>{other}</promise>");
            prop_assert_eq!(outcome(&detect(&rule, "", &[tag.as_bytes()])), Nothing);
        }
    }
}

// A fence that opens behind a list marker is a fence: what follows its end is text again.
#[test]
fn a_fence_may_open_in_a_list_item() {
    check_all(
        &rule(),
        &[
            ("- ```\n  code\n  ```\n<promise>COMPLETE</promise>\n", Promise),
            ("1. ~~~sh\n<promise>COMPLETE</promise>\n~~~\n", Miss(InCode)),
            ("-```\n<promise>COMPLETE</promise>\n", Promise),
        ],
    );
}

// An agent that repeats the instruction in which the tag is mentioned made no attempt at it.
#[test]
fn repeating_the_prompts_mention_of_the_tag_is_an_echo() {
    let prompt = "Do it.\nThen print the line <promise>COMPLETE</promise> and nothing else on it.\n";
    check(&rule(), prompt, prompt, Miss(Echo));
    check(&rule(), prompt, format!("{prompt}Done: **<promise>COMPLETE</promise>**\n"), Miss(NotAlone));
}

/// What is made of `<blocked>` tags in one output, in one push, cut in two at every point, and byte by byte.
fn blocked(prompt: &str, output: &str) -> (Option<String>, Option<MissReason>) {
    let output = output.as_bytes();
    let whole = detect(&rule(), prompt, &[output]);
    for cut in 0..=output.len() {
        let (left, right) = output.split_at(cut);
        assert_eq!(detect(&rule(), prompt, &[left, right]), whole, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = output.chunks(1).collect();
    assert_eq!(detect(&rule(), prompt, &bytes), whole, "byte by byte");
    (whole.blocked, whole.blocked_near_miss)
}

// Placed as a promise must be: alone on its line or last, in plain text.
#[test]
fn a_blocked_tag_counts_where_a_promise_would() {
    for (output, why, miss) in [
        ("<blocked>no key</blocked>", Some("no key"), None),
        ("work\n<blocked>no key</blocked>\nmore work\n", Some("no key"), None),
        ("  <Blocked> no  key </BLOCKED> \t\r\nmore", Some("no key"), None),
        ("I stop here. <blocked>no key</blocked>\n\n", Some("no key"), None),
        ("\u{1b}[1m<blocked>no \u{1b}[31mkey</blocked>\u{1b}[0m\n", Some("no key"), None),
        // A reason is a sentence or two: it may spread over lines, from the start of one to the end of another.
        (
            "<blocked>\nThere is no key,\n\nand none can be made.\n</blocked>\nmore",
            Some("There is no key, and none can be made."),
            None,
        ),
        ("<blocked>There is\nno key</blocked>\nmore", Some("There is no key"), None),
        ("I stop: <blocked>There is\nno key</blocked>", Some("There is no key"), None),
        ("I stop: <blocked>There is\nno key</blocked>\nmore", None, Some(NotAlone)),
        ("<blocked>There is\nno key</blocked> more", None, Some(NotAlone)),
        // The first tag that counts is taken, with any text after it; the second tag of a line does not stand alone.
        ("<blocked>a</blocked>\n<blocked>b</blocked>", Some("a"), None),
        ("<blocked>a</blocked> <blocked>b</blocked>", Some("b"), None),
        ("see <blocked>a</blocked> there\n<blocked>b</blocked>\nend", Some("b"), None),
        ("I might print <blocked>no key</blocked> later.\n", None, Some(NotAlone)),
        ("`<blocked>no key</blocked>`\n", None, Some(InCode)),
        ("```\n<blocked>no key</blocked>\n```\nend", None, Some(InCode)),
        ("text\n\n    <blocked>no key</blocked>\nend", None, Some(InCode)),
        ("> <blocked>no key</blocked>\n", None, Some(Quoted)),
        // Nothing is said in these.
        ("<blocked></blocked>\n", None, None),
        ("<blocked> \n </blocked>\n", None, None),
        ("<blocked>your reason</blocked>\n", None, None),
        ("<blocked>no key\n", None, None),
        ("no key</blocked>\n", None, None),
        ("<blocked why>no key</blocked>\n", None, None),
        ("I am blocked: no key\n", None, None),
    ] {
        assert_eq!(blocked("", output), (why.map(str::to_owned), miss), "{output:?}");
    }
}

#[test]
fn a_blocked_tag_repeated_from_the_prompt_does_not_count() {
    let prompt = "Do it.\nIf there is no key print\n<blocked>no key</blocked>\nand stop.";
    let own = Some("no key".to_owned());
    for (output, why, miss) in [
        (prompt, None, Some(Echo)),
        ("If there is no key print\n<blocked>no key</blocked>\n", None, Some(Echo)),
        ("<blocked>no key</blocked>\nand stop.\n", None, Some(Echo)),
        ("I looked everywhere.\n<blocked>no key</blocked>\n", own.clone(), None),
        ("<blocked>no key</blocked>", own.clone(), None),
        ("<blocked>no lock</blocked>\nand stop.\n", Some("no lock".to_owned()), None),
    ] {
        assert_eq!(blocked(prompt, output), (why, miss), "{output:?}");
    }
    let sentence = "If it cannot be done, print the line <blocked>no key</blocked> and nothing else.";
    assert_eq!(blocked(sentence, sentence), (None, Some(Echo)));
    assert_eq!(blocked(sentence, &format!("{sentence}\n<blocked>no key</blocked>\n")), (own, None));
}

#[test]
fn a_promise_and_a_blocked_tag_are_heard_beside_each_other() {
    let promise = Some("<promise>COMPLETE</promise>".to_owned());
    let why = Some("no key".to_owned());
    for output in [
        "<promise>COMPLETE</promise>\n<blocked>no key</blocked>\n",
        "<blocked>no key</blocked>\nwell\n<promise>COMPLETE</promise>\n",
        "<blocked>\nno\nkey\n</blocked>\n<promise>COMPLETE</promise>",
    ] {
        for chunk in [1, 7, 1000] {
            let chunks: Vec<&[u8]> = output.as_bytes().chunks(chunk).collect();
            let found = detect(&rule(), "", &chunks);
            assert_eq!((&found.promise, &found.blocked), (&promise, &why), "{output:?} by {chunk}");
        }
    }
    // However freely a promise may stand.
    let free = PromiseRule { placement: Placement::Anywhere, ignore_code: false, ..rule() };
    let found = detect(&free, "", &[b"now <promise>COMPLETE</promise> and <blocked>no key</blocked> there"]);
    assert_eq!((found.promise, found.blocked, found.blocked_near_miss), (promise, None, Some(NotAlone)));
}

#[test]
fn a_blocked_tag_ends_with_the_message_that_holds_it() {
    let heard = |messages: &[&str]| {
        let mut detector = PromiseDetector::new(&rule(), "", "");
        for message in messages {
            detector.push_message(message);
        }
        detector.finish()
    };
    assert_eq!(heard(&["work", "I stop. <blocked>no key</blocked>"]).blocked.as_deref(), Some("no key"));
    assert_eq!(heard(&["I stop. <blocked>no key</blocked>", "work"]).blocked_near_miss, Some(NotAlone));
    assert_eq!(heard(&["<blocked>no", "key</blocked>"]).blocked, None);
    assert_eq!(heard(&["```\nopen", "<blocked>no key</blocked>"]).blocked.as_deref(), Some("no key"));
    assert_eq!(heard(&["<blocked>no\nkey</blocked>", "work"]).blocked.as_deref(), Some("no key"));
}

/// What is heard of a refusal in one output, in one push, cut in two at every point, and byte by byte.
fn refusal(prompt: &str, output: &str) -> Option<String> {
    let words = ["REVIEW FAILED", "CHANGES REQUESTED:"].map(str::to_owned);
    let heard = |chunks: &[&[u8]]| {
        let mut detector = PromiseDetector::with_refusals(&rule(), &words, "k7", prompt);
        chunks.iter().for_each(|chunk| detector.push(chunk));
        detector.finish()
    };
    let bytes = output.as_bytes();
    let whole = heard(&[bytes]);
    for at in 0..bytes.len() {
        assert_eq!(heard(&[&bytes[..at], &bytes[at..]]), whole, "cut at {at}: {output:?}");
    }
    assert_eq!(heard(&bytes.chunks(1).collect::<Vec<_>>()), whole, "{output:?}");
    whole.refusal
}

#[test]
fn a_refusal_is_a_line_of_the_agent_s_own_that_begins_with_its_words() {
    let prompt = "Judge it.\nCHANGES REQUESTED: is how you refuse\nREVIEW FAILED\nEnd.";
    for (output, heard) in [
        ("REVIEW FAILED", Some("REVIEW FAILED")),
        ("ok\n**REVIEW FAILED**: no tests\n", Some("**REVIEW FAILED**: no tests")),
        ("## CHANGES REQUESTED:\n- x\n", Some("## CHANGES REQUESTED:")),
        ("\u{1b}[31mREVIEW FAILED\u{1b}[0m\r\n", Some("REVIEW FAILED")),
        ("REVIEW FAILED: a\nREVIEW FAILED: b", Some("REVIEW FAILED: a")),
        // It counts beside a promise and a way out.
        ("<promise>COMPLETE</promise>\n<blocked>no key</blocked>\nREVIEW FAILED", Some("REVIEW FAILED")),
        ("CHANGES REQUESTED\n- x", None),
        ("I would not say REVIEW FAILED here.", None),
        ("review failed", None),
        ("> REVIEW FAILED", None),
        ("```\nREVIEW FAILED\n```\n", None),
        ("`REVIEW FAILED`", None),
        ("Words:\n\n    REVIEW FAILED\n", None),
        // An echo: with more words the line alone tells, without them its neighbours do.
        ("CHANGES REQUESTED: is how you refuse", None),
        (prompt, None),
        ("REVIEW FAILED\nEnd.", None),
        ("It leaks.\nREVIEW FAILED\nSorry.", Some("REVIEW FAILED")),
    ] {
        assert_eq!(refusal(prompt, output).as_deref(), heard, "{output:?}");
    }
    let long = format!("REVIEW FAILED: {}", "word ".repeat(5000));
    let mut detector = PromiseDetector::with_refusals(&rule(), &["REVIEW FAILED".to_owned()], "k7", "");
    detector.push(long.as_bytes());
    assert!(detector.buffered() < 20_000);
    assert!(detector.finish().refusal.is_some_and(|words| words.ends_with("word…") && words.len() < 520));
    let mut deaf = PromiseDetector::new(&rule(), "k7", "");
    deaf.push(b"REVIEW FAILED\n");
    assert_eq!(deaf.finish(), Detection::default(), "no words, no refusal");
}
