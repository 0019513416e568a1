use proptest::prelude::*;

use super::*;

const FILE: &str = "---\ntask: 1 # first\nstatus: pending  # how it stands\nbackpressure: 'make test'\nextra: {a: [1, 2]}\n---\n\n# Title\n\n```yaml\n---\nstatus: pending\n---\n```\n";

fn changed(text: &str, status: TaskStatus) -> String {
    String::from_utf8(with_status(text.as_bytes(), status).unwrap()).unwrap()
}

#[test]
fn only_the_first_block_counts() {
    // req 5, fault I7
    for (file, yaml, body) in [
        ("---\na: 1\n---\nbody\n---\nx: 2\n---\n", "a: 1\n", "body\n---\nx: 2\n---\n"),
        ("---\r\na: 1\r\n---\r\nbody", "a: 1\r\n", "body"),
        ("\u{feff}---\na: 1\n---", "a: 1\n", ""),
        ("---  \na: |\n  ---\n  x\n--- \n", "a: |\n  ---\n  x\n", ""),
        ("---\n---\n", "", ""),
        ("---\na: 1\n----\n---x\n---\n", "a: 1\n----\n---x\n", ""),
    ] {
        assert_eq!(
            split(file.as_bytes()).unwrap(),
            FrontmatterFile { yaml, first_line: 2, body },
            "{file:?}"
        );
    }
}

#[test]
fn a_file_without_a_whole_block_says_why_and_where() {
    // req 5, fault I3, fault I7
    let large = format!("---\na: '{}'\n---\n", "x".repeat(yaml::MAX_BYTES));
    let larger = format!("---\na: 1\n---\n{}", "x".repeat(MAX_FILE_BYTES));
    for (file, line, column, what) in [
        (&b""[..], 1, 1, "there is no frontmatter: the first line must be `---`"),
        (b"# Title\n---\na: 1\n---\n", 1, 1, "there is no frontmatter: the first line must be `---`"),
        (b"\n---\na: 1\n---\n", 1, 1, "there is no frontmatter: the first line must be `---`"),
        (b"----\na: 1\n---\n", 1, 1, "there is no frontmatter: the first line must be `---`"),
        (b"---\na: 1\n\n# Title\n", 1, 1, "the frontmatter is not closed: a line `---` must follow it"),
        (b"---", 1, 1, "the frontmatter is not closed: a line `---` must follow it"),
        (b"---\na: 1\n---\nx\ny\xff", 5, 2, "not UTF-8"),
        (b"---\na: 1\n---\nx\0", 4, 2, "a NUL character is not allowed"),
        (large.as_bytes(), 1, 1, "the frontmatter is larger than 64 KiB"),
        (larger.as_bytes(), 1, 1, "larger than 1024 KiB"),
    ] {
        assert_eq!(split(file), Err(Wrong::at(TextPlace { line, column }, what)));
    }
}

#[test]
fn places_are_lines_of_the_file() {
    let block = split(b"---\na: 1\nb: &x 2\na: 3\n---\n").unwrap();
    let places: Vec<(u32, u32)> =
        entries(&block).unwrap_err().iter().map(|wrong| (wrong.place.line, wrong.place.column)).collect();
    assert_eq!(places.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn a_new_status_changes_nothing_else() {
    // req 6
    for (from, to) in [
        ("status: pending  # how", "status: complete  # how"),
        ("status: pending", "status: complete"),
        ("status:pending: x", "status:pending: x\nstatus: complete"),
        ("status: \"pending\" # x", "status: complete # x"),
        ("status: 'in_progress'", "status: complete"),
        ("\"status\" : failed", "\"status\" : complete"),
        ("status:", "status: complete"),
        ("status: ", "status: complete "),
        ("status:   # none yet", "status: complete   # none yet"),
        ("status: ~", "status: complete"),
        ("status: pending#not-a-comment", "status: complete"),
        ("Status: x", "Status: x\nstatus: complete"),
        ("# status: pending", "# status: pending\nstatus: complete"),
        ("other: {status: pending}", "other: {status: pending}\nstatus: complete"),
        ("other:\n  status: pending", "other:\n  status: pending\nstatus: complete"),
        ("note: |\n  status: pending", "note: |\n  status: pending\nstatus: complete"),
    ] {
        for line_end in ["\n", "\r\n"] {
            let whole = |head: &str| {
                format!("\u{feff}---\ntask: 1\n{head}\n---\nstatus: pending\n---\n").replace('\n', line_end)
            };
            assert_eq!(changed(&whole(from), TaskStatus::Complete), whole(to), "{from:?} {line_end:?}");
        }
    }
    assert_eq!(changed("---\n---\nx", TaskStatus::Failed), "---\nstatus: failed\n---\nx");
    assert_eq!(
        changed("---\n  task: 1\n---\n", TaskStatus::InProgress),
        "---\n  task: 1\n  status: in_progress\n---\n"
    );
    assert_eq!(changed(FILE, TaskStatus::Pending), FILE, "what it says already");
}

#[test]
fn a_status_that_cannot_be_changed_alone_is_left_alone() {
    for head in [
        "{task: 1, status: pending}",
        "status:\n  pending",
        "status: pending\n  really",
        "status: |\n  pending",
        "status: >-\n  pending",
        "status: [pending]",
        "status: {a: b}",
        "? status\n: pending",
        "status: \"pen\\\n  ding\"",
        "status: !!str pending",
        "status: &a pending",
        "status: a\nstatus: b",
        "- status",
        "word",
        "task: 1\n...",
        "task: [",
    ] {
        let file = format!("---\n{head}\n---\n");
        assert!(with_status(file.as_bytes(), TaskStatus::Complete).is_err(), "{head:?}");
    }
    let wrong = with_status(b"---\n# x\n{status: pending}\n---\n", TaskStatus::Complete).unwrap_err();
    assert_eq!(wrong.what, "the frontmatter must be lines of `key: value`, not one map in braces");
}

#[test]
fn a_file_is_known_again_by_all_but_its_status_and_body() {
    // req 41, fault K2
    let with = |from: &str, to: &str| {
        assert!(FILE.contains(from), "{from}");
        FILE.replacen(from, to, 1)
    };
    for (file, is_same, is_only_status) in [
        (FILE.to_owned(), true, true),
        (with("status: pending  # how it stands", "status: complete"), true, true),
        (with("status: pending  # how it stands\n", ""), true, true),
        (with("status: pending ", "status: 'failed' "), true, true),
        (with("# Title", "# Other"), true, false),
        (with("'make test'", "'make tesT'"), false, false),
        (with("'make test'", "\"make test\""), false, false),
        (with("# first", "# second"), false, false),
        (with("extra: {a: [1, 2]}", "extra: {a: [1, 2], status: pending}"), false, false),
        (with("task: 1 # first\n", ""), false, false),
        (with("---\ntask", "---\nstatus: complete\ntask"), false, false),
        ("task: 1 # first\nbackpressure: 'make test'\nextra: {a: [1, 2]}\n".to_owned(), false, false),
        (String::new(), false, false),
    ] {
        assert_eq!(frozen(file.as_bytes()) == frozen(FILE.as_bytes()), is_same, "{file}");
        assert_eq!(changes_only_status(FILE.as_bytes(), file.as_bytes()), is_only_status, "{file}");
    }
    assert_eq!(frozen(FILE.as_bytes()).len(), 64);
    assert_ne!(frozen(b"one"), frozen(b"two"));
    assert!(changes_only_status(b"one", b"one") && !changes_only_status(b"one", b"two"));
}

/// Pieces from which both good and bad heads arise.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "---\n",
        "---",
        "\n",
        "\r\n",
        "status: pending\n",
        "status: complete # x\n",
        "status:\n",
        "status: 'failed'\n",
        "task: 1\n",
        "  indented: 2\n",
        "list:\n- a\n",
        "text: |\n  status: x\n",
        "# heading\n",
        "```\n",
        "{",
        "}",
        ": ",
        "\"",
        "'",
        "&a ",
        "*a",
        "\u{feff}",
        "é",
        "\0",
        "\t",
        "status",
        "# comment\n",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (split(&bytes), with_status(&bytes, TaskStatus::Complete), frozen(&bytes));
    }

    #[test]
    fn a_status_goes_there_and_back_and_nothing_else_moves(text in pieces(), has_head in any::<bool>()) {
        let text = if has_head { format!("---\n{text}\n---\nbody\n") } else { text };
        let bytes = text.as_bytes();
        if let Ok(one) = with_status(bytes, TaskStatus::Complete) {
            prop_assert!(changes_only_status(bytes, &one));
            prop_assert_eq!(frozen(bytes), frozen(&one));
            prop_assert_eq!(&with_status(&one, TaskStatus::Complete).unwrap(), &one);
            // From here on the value has its plain form, so that the way back ends at the very same bytes.
            let two = with_status(&one, TaskStatus::InProgress).unwrap();
            prop_assert_eq!(with_status(&two, TaskStatus::Complete).unwrap(), one);
        }
    }
}
