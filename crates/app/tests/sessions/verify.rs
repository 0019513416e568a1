//! `--verify`: dacapo judges beside a goal of the host's own.

use serde_json::{Value, json};

use crate::support::{Host, assert_let_go};

fn stop(host: &Host, words: &str) -> Value {
    host.hook(&["stop", "--agent", "claude", "--verify"], &host.stop_input("s1", words))
}

fn prompt(host: &Host) {
    let input = json!({"session_id": "s1", "cwd": host.env.workspace(), "prompt": "/goal make it work"});
    assert_eq!(host.hook(&["prompt", "--agent", "claude", "--verify"], &input), Value::Null);
}

#[test]
fn work_that_fails_its_gates_is_sent_back_with_the_reason_and_released_when_it_passes() {
    let host = Host::new();
    host.user("gates: [{name: tests, run: 'echo 3 failed; test -f fixed'}]\n");
    prompt(&host);
    assert_eq!(stop(&host, "I only looked."), Value::Null, "nothing was changed, nothing is judged");
    host.env.write("work", "1");
    let answer = stop(&host, "It is done.");
    assert_eq!(answer["decision"], "block", "{answer}");
    let reason = answer["reason"].as_str().expect("as the test has it");
    assert!(reason.contains("3 failed") && !reason.contains("RALPH LOOP"), "{reason}");
    host.env.write("fixed", "");
    let answer = stop(&host, "Now it is.");
    assert_eq!(answer, json!({"systemMessage": "Verified: The work passed its checks"}));
    host.env.run(["receipt"]).assert_code(0);
}

#[test]
fn a_protected_path_refuses_the_work_and_without_anything_to_judge_by_nothing_happens() {
    let host = Host::new();
    host.env.write("tests/a", "1");
    prompt(&host);
    host.env.write("work", "1");
    assert_eq!(stop(&host, "done"), Value::Null, "no gate, no protected path");
    assert!(!host.env.dacapo_home().join("dacapo.db").exists());

    host.user("protect: ['tests/**']\n");
    host.env.git(["add", "-A"]);
    host.env.git(["commit", "-qm", "more"]);
    prompt(&host);
    host.env.write("tests/a", "weaker");
    let answer = stop(&host, "done");
    assert!(answer["reason"].as_str().expect("as the test has it").contains("tests/a"), "{answer}");
    host.env.write("tests/a", "1");
    host.env.write("work", "2");
    assert_let_go(&stop(&host, "restored"));
}
