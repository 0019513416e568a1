//! Whatever a host says, the session is never harmed: exit 0, no decision, and a message for the person.

use serde_json::{Value, json};

use crate::support::{Host, assert_sent_back};

#[test]
fn input_that_makes_no_sense_lets_the_session_stop() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let before = host.env.events(None).len();
    for (input, message) in [
        ("", "the host said nothing"),
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "names no session"),
        (r#"{"session_id": ""}"#, "names no session"),
        ("\u{0}\u{1}", "is not JSON"),
    ] {
        for args in [&["hook", "stop", "--agent", "claude"], &["hook", "failure", "--agent", "claude"]] {
            let output = host.with_input(args, input.as_bytes()).assert_code(0);
            assert_eq!(output.stdout, "", "{input}");
            assert!(output.stderr.contains(message), "{input}: {}", output.stderr);
        }
    }
    for args in [
        &["hook", "stop"][..],
        &["hook", "stop", "--agent", "vim"],
        &["hook", "stop", "--agent", "claude", "--nonsense"],
        &["hook", "event", "session.boom", "--agent", "opencode"],
    ] {
        let output = host.with_input(args, br#"{"session_id": "s1"}"#).assert_code(0);
        assert!(!output.stdout.contains("block") && !output.stderr.is_empty(), "{args:?}: {output:?}");
    }
    assert_eq!(host.env.events(None).len(), before);
    assert_sent_back(&host.work_and_stop("s1", "working"), "2/100");
}

#[test]
fn a_session_without_a_loop_is_left_alone_and_leaves_nothing_behind() {
    // req 120
    let host = Host::new();
    assert_eq!(host.stop("nobody", "<promise>DONE</promise>"), Value::Null);
    assert_eq!(host.prompt("nobody", "please fix it"), Value::Null);
    assert!(!host.env.dacapo_home().exists(), "not even a folder");
    let cancel = host.prompt("nobody", "/cancel-ralph");
    assert_eq!(cancel["reason"], "No Active Loop: No Ralph Loop is currently running");
}

#[test]
fn a_journal_that_cannot_be_read_is_no_state_and_a_warning() {
    // req 105
    let host = Host::new();
    let none = host.env.run(["session", "state", "--json"]).assert_code(0);
    assert_eq!(none.stdout, "null\n");
    std::fs::create_dir_all(host.env.dacapo_home()).expect("as the test has it");
    std::fs::write(
        host.env.dacapo_home().join("dacapo.db"),
        "this is no database, but long enough to look like one",
    )
    .expect("as the test has it");
    let output = host.env.run(["session", "state", "--session", "s1", "--json"]).assert_code(0);
    assert_eq!(output.stdout, "null\n");
    assert!(output.stderr.contains("is damaged"), "{}", output.stderr);
    let output = host.with_input(
        &["hook", "stop", "--agent", "claude"],
        host.stop_input("s1", "x").to_string().as_bytes(),
    );
    let output = output.assert_code(0);
    assert!(!output.stdout.contains("decision") && output.stderr.contains("is damaged"), "{output:?}");
    let answer: Value = serde_json::from_str(&output.stdout).expect("as the test has it");
    assert!(
        answer["systemMessage"].as_str().expect("as the test has it").contains("is damaged"),
        "the person is told: {answer}"
    );
    let start = host.start("s1", &[]).assert_code(5);
    assert!(
        !start.stdout.contains("Ralph Loop Started"),
        "a failed write starts nothing and shows no toast (req 108)"
    );
}

#[test]
fn a_prompt_that_cannot_begin_a_loop_says_why_and_is_not_left_to_the_agent() {
    // req 107, req 130
    let host = Host::new();
    for (prompt, message) in [
        ("/ralph", "/ralph needs a task"),
        ("/ralph \"x\" --max-iterations=ten", "is not a whole number"),
        ("/ralph \"x\" --max-iteration=3", "did you mean `--max-iterations`?"),
    ] {
        let answer = host.prompt("s1", prompt);
        assert_eq!(answer["decision"], "block", "{prompt}: {answer}");
        assert!(
            answer["reason"].as_str().expect("as the test has it").contains(message),
            "{prompt}: {answer}"
        );
        assert_eq!(host.state("s1"), Value::Null, "{prompt}");
    }
    host.user("session: {enabled: false}\n");
    let answer = host.prompt("s1", "/ralph \"x\"");
    assert!(answer["reason"].as_str().expect("as the test has it").contains("switched off"), "{answer}");
    host.start("s1", &[]).assert_code(2);
    for args in [
        &["session", "start", "--session", "", "x"][..],
        &["session", "start", "--session", "s1", " "],
        &["session", "start", "--session", "s1", "x", "--max-iterations=0"],
        &["session", "start", "--session", "s1", "x", "--completion-promise", "<promise>X</promise>"],
    ] {
        host.user("");
        host.env.run(args).assert_code(2);
    }
}

#[test]
fn configuration_that_does_not_parse_is_told_with_its_place_and_stops_no_loop_that_runs() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    host.user("gates: [[\n");
    for answer in [
        host.prompt("s2", "/ralph \"x\"")["reason"].take(),
        host.hook(&["stop", "--agent", "claude", "--verify"], &host.stop_input("s2", "x"))["systemMessage"]
            .take(),
    ] {
        let told = answer.as_str().expect("the person is told");
        assert!(told.contains("config.yaml:1:9: not YAML"), "{told}");
    }
    assert_sent_back(&host.work_and_stop("s1", "working"), "2/100");
}

#[test]
fn a_repository_that_is_not_trusted_begins_no_loop() {
    let host = Host::new();
    host.env.write(".dacapo/config.yaml", "gates: ['touch ../ran']\n");
    let answer = host.prompt("s1", "/ralph \"x\"");
    assert!(answer["reason"].as_str().expect("as the test has it").contains("untrusted"), "{answer}");
    host.start("s1", &[]).assert_code(4);
    assert!(!host.env.root().join("ran").exists());
    host.start("s1", &["--trust"]).assert_code(0);
}

#[test]
fn a_loop_whose_folder_is_gone_lets_its_session_stop() {
    // fault B10
    let host = Host::new();
    let folder = host.env.workspace().join("below");
    std::fs::create_dir(&folder).expect("as the test has it");
    host.start("s1", &["--dir", &folder.to_string_lossy()]).assert_code(0);
    std::fs::remove_dir_all(&folder).expect("as the test has it");
    let input =
        json!({"session_id": "s1", "cwd": folder, "last_assistant_message": "<promise>DONE</promise>"});
    let answer = host.hook(&["stop", "--agent", "claude"], &input);
    let told = format!("Ralph Loop Stopped: the workspace `{}` is gone", folder.display());
    assert_eq!(answer, json!({"systemMessage": told}), "no promise is believed there");
    assert_eq!((&host.end()["reason"], host.state("s1")), (&json!("agent"), Value::Null));
    assert_eq!(host.hook(&["stop", "--agent", "claude"], &input), Value::Null, "told once");
}
