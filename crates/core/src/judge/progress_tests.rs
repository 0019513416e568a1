//! What is progress and what is the same failure again.

use proptest::prelude::*;

use super::*;

/// Judges an iteration and takes it in; whether it made progress.
fn observe(log: &mut ProgressLog, tree: Option<&str>, signature: Option<&str>, is_accepted: bool) -> bool {
    let progress = log.judge(tree, signature, is_accepted);
    log.take(tree, signature, progress);
    progress == IterationProgress::Made
}

#[test]
fn what_differs_from_run_to_run_is_masked() {
    // req 207
    for (line, expected) in [
        ("test result: FAILED. 3 passed; 12 failed", "test result: FAILED. # passed; # failed"),
        ("finished in 0.03s", "finished in #"),
        ("finished in 900ms", "finished in #"),
        ("took 1m30s", "took ##"),
        ("  thread 'main' (2184)\tpanicked", "thread 'main' (#) panicked"),
        ("at src/lib.rs:10:5", "at PATH:#:#"),
        ("File \"/tmp/x1/a.py\", line 3", "File \"PATH\", line #"),
        ("C:\\a\\b.rs failed", "C:PATH failed"),
        ("at 0x7ffd1234abcd", "at #"),
        ("commit deadbee1 of facade", "commit # of facade"),
        ("id 3f2a9c10-1b2c-4d5e", "id #"),
        ("test_1 utf8 v2", "test_# utf# v#"),
        ("a / b", "a / b"),
        ("caf\u{e9} 3\u{b5}s", "caf\u{e9} #"),
        ("", ""),
    ] {
        assert_eq!(masked(line), expected, "{line:?}");
    }
}

#[test]
fn the_same_failure_has_the_same_signature() {
    // req 207
    let signature = |output: &str| failure_signature("tests", 101, output.as_bytes());
    let one = signature("test a ... FAILED\ntest b ... FAILED\nfailed in 1.5s at /tmp/1/x");
    assert_eq!(one.len(), 16);
    assert_eq!(
        one,
        signature("test b ... FAILED\n\n\x1b[31mtest a ... FAILED\x1b[0m\nfailed in 20ms at /tmp/2/y\n")
    );
    assert_ne!(one, signature("test a ... FAILED\nfailed in 1.5s at /tmp/1/x"));
    assert_ne!(one, failure_signature("tests", 1, b"test a ... FAILED"));
    assert_ne!(failure_signature("ab", 1, b"c"), failure_signature("a", 1, b"bc"));
    assert_ne!(failure_signature("a", 1, b""), failure_signature("b", 1, b""));
    assert_ne!(failure_signature("a", 1, b""), failure_signature("a", -1, b""));

    let tail: String = ('a'..='z').chain('A'..='Z').take(SIGNATURE_LINES).map(|c| format!("{c}\n")).collect();
    assert_eq!(signature(&tail), signature(&format!("earlier\n{tail}")), "only the end counts");
}

#[test]
fn a_signature_never_changes_between_versions() {
    // It is kept in journals.
    assert_eq!(failure_signature("tests", 1, b"2 failed"), "beeb47aecfc4d193");
}

#[test]
fn progress_is_judged_by_outcome() {
    // req 207, fault B3, fault B4
    type Seen<'a> = (Option<&'a str>, Option<&'a str>, bool);
    let cases: &[(&str, &[Seen<'_>], &[u32])] = &[
        ("a new tree each time", &[(Some("1"), None, false), (Some("2"), None, false)], &[0, 0]),
        ("nothing changes", &[(Some("0"), None, false), (Some("0"), None, false)], &[1, 2]),
        // fault B3: after a commit the tree is new though nothing is uncommitted.
        ("committed by the agent", &[(Some("0"), None, false), (Some("1"), None, false)], &[1, 0]),
        // fault B4: the same message for every task is no repetition while tasks are closed.
        ("a task closed", &[(Some("0"), None, true), (Some("0"), None, true)], &[0, 0]),
        (
            "to and fro between two trees",
            &[(Some("1"), None, false), (Some("0"), None, false), (Some("1"), None, false)],
            &[0, 1, 2],
        ),
        (
            "the same failure again, then a new one",
            &[(Some("0"), Some("x"), false), (Some("0"), Some("x"), false), (Some("0"), Some("y"), false)],
            &[0, 1, 0],
        ),
        (
            "a new tree with the old failure",
            &[(Some("1"), Some("x"), false), (Some("2"), Some("x"), false), (Some("2"), Some("x"), false)],
            &[0, 0, 1],
        ),
        ("nothing is known", &[(None, None, false), (None, None, false)], &[0, 0]),
        ("only the failure is known", &[(None, Some("x"), false), (None, Some("x"), false)], &[0, 1]),
        (
            "ignorance clears nothing",
            &[(Some("0"), None, false), (None, None, false), (Some("0"), None, false)],
            &[1, 1, 2],
        ),
    ];
    for (name, iterations, expected) in cases {
        let mut log = ProgressLog::starting_at(Some("0"));
        let mut counts = Vec::new();
        for (tree, signature, closed) in *iterations {
            let before = log.without_progress();
            let progress = observe(&mut log, *tree, *signature, *closed);
            assert!(if progress { log.without_progress() == 0 } else { log.without_progress() >= before });
            counts.push(log.without_progress());
        }
        assert_eq!(counts, *expected, "{name}");
    }
}

#[test]
fn an_outline_is_made_of_path_size_and_time_in_any_order() {
    // req 207
    type File<'a> = (&'a [u8], u64, (i64, i64));
    let outline = |files: &[File<'_>]| {
        let mut outline = Outline::default();
        for (path, size, modified) in files {
            outline.add(path, *size, *modified);
        }
        assert_eq!(outline.files(), files.len() as u64);
        outline.text()
    };
    let (a, b): (File<'_>, File<'_>) = ((b"a", 1, (10, 5)), (b"dir/b", 2, (20, 0)));
    let same = outline(&[a, b]);
    assert_eq!(same, outline(&[b, a]));
    for other in [
        vec![a],
        vec![a, b, b],
        vec![a, (b"dir/c", 2, (20, 0))],
        vec![a, (b"dir/b", 3, (20, 0))],
        vec![a, (b"dir/b", 2, (21, 0))],
        vec![a, (b"dir/b", 2, (20, 1))],
        vec![(b"a", 2, (20, 0)), (b"dir/b", 1, (10, 5))],
        vec![],
    ] {
        assert_ne!(outline(&other), same, "{other:?}");
    }
    // It is kept in journals.
    assert_eq!(same, "2:6f123f666663ab9d");
}

#[test]
fn memory_is_bounded_and_the_log_is_data() {
    let mut log = ProgressLog::default();
    for tree in 0..3 * REMEMBERED {
        assert!(observe(&mut log, Some(&tree.to_string()), Some(&tree.to_string()), false));
    }
    assert_eq!((log.trees.0.len(), log.signatures.0.len()), (REMEMBERED, REMEMBERED));
    let json = serde_json::to_string(&log).unwrap();
    assert_eq!(serde_json::from_str::<ProgressLog>(&json).unwrap(), log);
}

proptest! {
    #[test]
    fn any_output_has_a_signature_that_digits_do_not_change(output in any::<Vec<u8>>(), words in "[a-c 0-9]{0,40}") {
        let _ = failure_signature("g", 1, &output);
        let other: String = words.chars().map(|c| if c.is_ascii_digit() { '7' } else { c }).collect();
        prop_assert_eq!(
            failure_signature("g", 1, words.as_bytes()),
            failure_signature("g", 1, other.as_bytes())
        );
    }
}
