//! Tests that the agent of a session changes, where the configuration has them looked after.

use serde_json::json;

use crate::support::{Host, assert_sent_back};

/// A project with a test, and a gate that runs all tests.
fn tested(mode: &str) -> Host {
    let host = Host::new();
    host.env.write("run.sh", "for t in tests/*.sh; do sh \"$t\" || exit 1; done\n");
    host.env.write("tests/a.sh", "grep -q fixed work\n").write("work", "broken\n");
    host.env.git(["add", "-A"]);
    host.env.git(["commit", "-qm", "tests"]);
    host.user(&format!("gates: [{{name: tests, run: sh run.sh}}]\n{mode}\n"));
    host.start("s1", &["--max-iterations", "9"]).assert_code(0);
    host
}

fn refusal(host: &Host) -> String {
    let refused = host.env.events(None).into_iter().rfind(|event| event["type"] == "claim_refused");
    refused.expect("a refusal")["reason"].as_str().expect("its reason").to_owned()
}

#[test]
fn work_that_passes_only_with_the_agents_own_tests_is_refused() {
    let host = tested("tests: {mode: checked}");
    host.env.write("tests/a.sh", "true\n");
    let answer = host.stop("s1", "<promise>DONE</promise>");
    assert_eq!((&answer["decision"], refusal(&host).as_str()), (&json!("block"), "narrowed"), "{answer}");
    // Every hook is a process of its own and knows the tests of the start again.
    host.env.write("work", "broken in another way\n");
    assert_sent_back(&host.stop("s1", "It is done all the same. <promise>DONE</promise>"), "3/9");
    assert_eq!(refusal(&host), "narrowed");
    host.env.write("work", "fixed\n");
    let answer = host.stop("s1", "Now really. <promise>DONE</promise>");
    assert_eq!(answer["systemMessage"], "Ralph Loop Complete!: Task completed after 3 iteration(s)");
    assert!(host.env.survivors().is_empty());
}

#[test]
fn tests_are_checked_where_the_configuration_says_nothing_of_them() {
    let host = tested("");
    host.env.write("tests/a.sh", "true\n");
    let answer = host.stop("s1", "<promise>DONE</promise>");
    assert_eq!((&answer["decision"], refusal(&host).as_str()), (&json!("block"), "narrowed"), "{answer}");
}

#[test]
fn sealed_tests_may_not_change_at_all_and_free_ones_may() {
    for (mode, reason) in [("sealed", Some("tampered")), ("free", None)] {
        let host = tested(&format!("tests: {{mode: {mode}}}"));
        host.env.write("tests/a.sh", "grep -q fixed work # more\n").write("work", "fixed\n");
        let answer = host.stop("s1", "<promise>DONE</promise>");
        match reason {
            Some(reason) => {
                assert_eq!((&answer["decision"], refusal(&host).as_str()), (&json!("block"), reason))
            }
            None => assert_eq!(host.end()["reason"], "done", "{answer}"),
        }
    }
}
