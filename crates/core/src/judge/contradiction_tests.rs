//! Which words contradict a promise, and which only look like it.

use proptest::prelude::*;

use super::*;

/// Texts with the phrase that is found in them.
const CONTRADICTED: &[(&str, &str)] = &[
    ("TODO: write the parser", "TODO:"),
    ("todo: write the parser", "TODO:"),
    ("- [ ] TODO: write the parser", "TODO:"),
    ("**TODO:** write the parser", "TODO:"),
    ("Done.\n\nFIXME: leaks", "FIXME:"),
    ("The export is not yet implemented.", "not yet implemented"),
    ("Not Yet Implemented", "not yet implemented"),
    ("*Not yet* implemented", "not yet implemented"),
    ("The export is not yet\nimplemented.", "not yet implemented"),
    ("I still need to add tests", "still need to"),
    ("We still  need\tto add tests", "still need to"),
    ("Remaining work: the docs", "remaining work"),
    ("There is remaining work.", "remaining work"),
    ("I am blocked by the network", "blocked by"),
    ("Blocked by: missing key", "blocked by"),
    ("I cannot complete this", "cannot complete"),
    ("This cannot complete without a key", "cannot complete"),
    ("2 tests failed", "tests? fail"),
    ("10 tests failed", "tests? fail"),
    ("The tests fail on CI", "tests? fail"),
    ("One test fails", "tests? fail"),
    ("1 test failure", "tests? fail"),
    ("There are test failures", "tests? fail"),
    ("tests are green but 1 test failing", "tests? fail"),
    ("Tests failed: 3", "tests? fail"),
    ("tests **failed**", "tests? fail"),
    ("No, tests fail", "tests? fail"),
    ("No luck. Tests fail", "tests? fail"),
    ("0 passed, 3 tests failed", "tests? fail"),
    ("No wonder the tests fail", "tests? fail"),
    ("Not sure why tests fail", "tests? fail"),
    ("100 tests failed", "tests? fail"),
    ("1. tests fail", "tests? fail"),
    ("      deep: tests fail", "tests? fail"),
    ("> quoted\n\ntests fail", "tests? fail"),
    ("```\ncode\n```\ntests fail", "tests? fail"),
    ("~~~\ncode\n~~~\ntests fail", "tests? fail"),
    ("`code` but tests fail", "tests? fail"),
    ("a ` backtick and tests fail", "tests? fail"),
    ("a \" quote and tests fail", "tests? fail"),
    ("\"quoted\" and tests fail", "tests? fail"),
    ("5\" screen, \"x\" and tests fail", "tests? fail"),
    ("it doesn\u{2019}t matter that tests fail", "tests? fail"),
    ("Remaining work:\n- none of it is easy", "remaining work"),
    ("<promise>DONE</promise>\nbut tests fail", "tests? fail"),
    ("<promise>tests fail", "tests? fail"),
    ("| tests failed | 3 |", "tests? fail"),
    ("TODO: a\nFIXME: b", "TODO:"),
];

/// Texts that contradict nothing.
const AGREEING: &[&str] = &[
    "",
    "All done.",
    "No tests failed",
    "no tests fail",
    "0 tests failed",
    "Zero tests failed.",
    "zero of the tests fail",
    "0 of 42 tests failed",
    "None of the tests failed",
    "none of the 42 tests fail",
    "Not a single test failed",
    "**No** tests failed",
    "All is well, no unit tests failed",
    "ran without tests failing",
    "without any test failing",
    "without any test failures",
    "There are no test failures",
    "42 passed (0 tests failed)",
    "42 passed, 0 tests failed",
    "Tests failed: 0",
    "tests failed = 0",
    "Test failures: none",
    "test failures: **0**",
    "| tests failed | 0 |",
    "No longer blocked by the network",
    "It is no longer blocked by it",
    "not blocked by anything",
    "isn't blocked by anything",
    "isn\u{2019}t blocked by anything",
    "Blocked by: nothing",
    "blocked by nothing",
    "unblocked by the fix",
    "No remaining work",
    "There is no remaining work.",
    "without any remaining work",
    "Remaining work: none",
    "Remaining work: None.",
    "Remaining work \u{2014} nothing",
    "no TODO: is left",
    "TODO: none",
    "I don't still need to do anything",
    "The script exits 1 if tests fail",
    "It stops whenever a test fails",
    "contests fail",
    "the test failover works",
    "I still need tools",
    "remaining workflows pass",
    "It cannot completely rule that out",
    "TODO list is empty",
    "the to-do: fine",
    "> tests fail",
    "  > TODO: quoted",
    "`TODO: x` is gone",
    "the ``tests ` fail`` case",
    "```\nTODO: x\n```",
    "```rust\n// FIXME: x\n```\nfine",
    "~~~\ntests fail\n~~~",
    "- ```\n  TODO: x\n  ```",
    "```\nTODO: the fence is never closed",
    "I replaced \"tests fail\" by a better name",
    "\u{201c}not yet implemented\u{201d} was the message",
    "<promise>NO TESTS FAIL</promise>",
    "<promise>TODO: none, tests fail never</promise>",
    "run the tests\n- fail early",
    "run the tests\n\nfail early",
    "run the tests `x` fail",
];

#[test]
fn prose_that_contradicts_is_found() {
    // req 181
    for (text, pattern) in CONTRADICTED {
        let hit = find(text, &Patterns::default());
        assert_eq!(hit.as_ref().map(|hit| hit.pattern.as_str()), Some(*pattern), "{text:?}: {hit:?}");
    }
}

#[test]
fn denials_code_and_quotes_are_passed_over() {
    // req 181
    for text in AGREEING {
        assert_eq!(find(text, &Patterns::default()), None, "{text:?}");
    }
    assert!(CONTRADICTED.len() + AGREEING.len() >= 60);
}

#[test]
fn a_hit_tells_the_sentence() {
    // req 185: it is told to the agent.
    let long = format!("{} tests fail {}", "a".repeat(300), "b ".repeat(300));
    for (text, expected) in [
        ("All good. Two tests fail in v1.2 now! Bye.", "Two tests fail in v1.2 now!"),
        ("- a\n- the *tests*\n  fail here\n- c", "- the tests fail here"),
    ] {
        assert_eq!(find(text, &Patterns::default()).unwrap().text, expected);
    }
    let cut = find(&long, &Patterns::default()).unwrap().text;
    assert!(cut.contains("tests fail") && cut.chars().count() <= MAX_EXCERPT, "{cut}");
}

#[test]
fn the_phrases_are_a_setting() {
    // req 181
    let own: Patterns = serde_json::from_str(r#"["works? around", "really\\?"]"#).unwrap();
    for (text, pattern) in [
        ("It work around that", Some("works? around")),
        ("It WORKS around that", Some("works? around")),
        ("Really?", Some("really\\?")),
        ("really", None),
        ("TODO: x", None),
    ] {
        assert_eq!(find(text, &own).map(|hit| hit.pattern).as_deref(), pattern, "{text:?}");
    }
    for off in [r#""off""#, r#""OFF""#, "false", "[]"] {
        let off: Patterns = serde_json::from_str(off).unwrap();
        assert!(off.is_off());
        assert_eq!(find("TODO: x", &off), None);
    }
    for (json, word) in [(r#""on""#, "`on`"), (r#"[" "]"#, "` `"), (r#"["s?"]"#, "`s?`"), (r#"[""]"#, "``")] {
        let error = serde_json::from_str::<Patterns>(json).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    for patterns in [Patterns::default(), Patterns::off(), own] {
        let json = serde_json::to_string(&patterns).unwrap();
        assert_eq!(serde_json::from_str::<Patterns>(&json).unwrap(), patterns);
    }
    assert_eq!(Patterns::default().phrases().len(), 8);
}

#[test]
fn long_texts_cost_little() {
    for text in ["` `` ".repeat(20_000), "\"".repeat(99_999), "tests ".repeat(20_000), "no ".repeat(20_000)] {
        assert_eq!(find(&text, &Patterns::default()), None);
    }
    let many = Patterns::new(&["a?".repeat(30) + &"a".repeat(30)]).unwrap();
    assert_eq!(find(&"a".repeat(29), &many), None);
}

proptest! {
    #[test]
    fn any_text_is_read(text in r#"([ a`"'>#~*.\n\u{201c}\u{fffd}-]|tests? |fail|TODO: |no |<promise>|</promise>){0,40}"#) {
        let _ = find(&text, &Patterns::default());
    }
}

#[test]
fn what_is_quoted_of_an_agent_can_be_read() {
    for (text, quoted) in [
        ("TODO still need to test\n<promise>DONE</promise>\n", "TODO still need to test"),
        ("I still need to run `make test` and more", "I still need to run … and more"),
    ] {
        let hit = find(text, &Patterns::default()).unwrap();
        assert_eq!(hit.text, quoted);
    }
}
