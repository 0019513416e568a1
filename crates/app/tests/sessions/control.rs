//! The user's commands about the loop of a session.

use std::time::Duration;

use dacapo_testkit::{Running, Signal};
use serde_json::{Value, json};

use crate::support::{Host, assert_let_go, assert_sent_back};

#[test]
fn a_loop_between_two_hooks_is_neither_dead_nor_interrupted() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let status = host.env.run(["status"]).assert_code(0).stdout;
    assert!(status.contains("session-s1 (claude): iteration 1/100"), "{status}");
    // Another loop reconciles those whose supervisor died.
    host.env.run_agent("promise", ["--task", "t"]).assert_code(0);
    assert_eq!(host.state("s1")["active"], true);
    let why = host.env.run(["why", "session-s1"]).assert_code(0).stdout;
    assert!(why.contains("runs in the chat session"), "{why}");
    let doctor = host.env.run(["doctor"]).stdout;
    assert!(!doctor.contains("dead"), "{doctor}");
    assert_sent_back(&host.work_and_stop("s1", "working"), "2/100");
    let logs = host.env.run(["logs", "session-s1"]).assert_code(0).stdout;
    assert!(logs.contains("working"), "{logs}");
}

#[test]
fn cancel_ends_it_for_good() {
    // req 109, req 131, req 134
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    host.work_and_stop("s1", "one");
    let answer = host.prompt("s1", "/cancel-ralph");
    assert_eq!(
        answer,
        json!({"decision": "block", "reason": "Ralph Loop Cancelled: Stopped at iteration 2"})
    );
    assert_eq!((host.state("s1"), host.stop("s1", "<promise>DONE</promise>")), (Value::Null, Value::Null));
    let again = host.env.run(["session", "cancel", "--session", "s1"]).assert_code(1);
    assert_eq!(again.stdout, "No Active Loop: No Ralph Loop is currently running\n");

    host.start("s2", &[]).assert_code(0);
    let cancelled = host.env.run(["session", "cancel", "--session", "s2"]).assert_code(0);
    assert_eq!(cancelled.stdout, "Ralph Loop Cancelled: Stopped at iteration 1\n");
    host.start("s3", &[]).assert_code(0);
    host.env.run(["cancel", "session-s3"]).assert_code(0);
    assert_let_go(&host.work_and_stop("s3", "more"));
    assert_eq!(host.end()["reason"], "cancelled");
}

#[test]
fn words_a_pause_and_more_iterations_reach_the_session() {
    let host = Host::new();
    host.start("s1", &["--max-iterations=3"]).assert_code(0);
    host.env.run(["steer", "session-s1", "use the second approach"]).assert_code(0);
    let answer = host.work_and_stop("s1", "one");
    assert!(
        answer["reason"].as_str().expect("as the test has it").contains("use the second approach"),
        "{answer}"
    );
    host.env.run(["pause", "session-s1"]).assert_code(0);
    assert_let_go(&host.work_and_stop("s1", "two"));
    assert_eq!(host.state("s1")["active"], false);
    host.env.run(["resume", "session-s1"]).assert_code(0);
    assert_sent_back(&host.work_and_stop("s1", "three"), "3/3");
    assert_let_go(&host.work_and_stop("s1", "four"));
    assert_eq!(host.end()["reason"], "max_iterations");
    host.env.run(["resume", "session-s1", "-n", "+2"]).assert_code(0);
    assert_sent_back(&host.work_and_stop("s1", "five"), "4/5");
}

#[test]
fn a_hook_that_is_killed_while_a_gate_runs_refuses_the_claim() {
    let host = Host::new();
    host.user(
        "gates: [{name: slow, run: 'touch ../gating; while test -f ../gating; do sleep 0.05; done'}]\n",
    );
    host.start("s1", &[]).assert_code(0);
    host.env.write("work", "1");
    let input = host.env.root().join("input");
    std::fs::write(&input, host.stop_input("s1", "<promise>DONE</promise>").to_string())
        .expect("as the test has it");
    let mut command = host.env.dacapo(["hook", "stop", "--agent", "claude"]);
    command.stdin(std::fs::File::open(input).expect("as the test has it"));
    let hook = Running::start(command);
    let gating = host.env.root().join("gating");
    host.env.wait_until("the gate runs", Duration::from_secs(60), || gating.exists());
    hook.signal(Signal::KILL);
    hook.wait(Duration::from_secs(60));
    host.env.wait_until("the gate is dead", Duration::from_secs(60), || host.env.survivors().is_empty());
    assert!(host.state("s1").is_object(), "never a release");
    let _ = std::fs::remove_file(gating);
    let answer = host.work_and_stop("s1", "the user typed something");
    let reason = answer["reason"].as_str().expect("as the test has it");
    assert!(reason.contains("the host ended the hook before the check `slow` had finished"), "{reason}");
}

#[test]
fn a_loop_that_the_agent_starts_is_a_child_and_is_waited_for() {
    // req 134
    let host = Host::new();
    host.user("gates: ['true']\n");
    host.start("s1", &[]).assert_code(0);
    let mut command = host.env.dacapo(host.env.run_agent_args("write ready; hang", ["--task", "child"]));
    command.env("CLAUDE_CODE_SESSION_ID", "s1");
    let child = Running::start(command);
    let ready = host.env.workspace().join("ready");
    host.env.wait_until("the child works", Duration::from_secs(60), || ready.exists());
    assert_eq!(host.stop("s1", "I wait for the child"), Value::Null, "not sent back");
    child.signal(Signal::TERM);
    child.wait(Duration::from_secs(60));
    assert_sent_back(&host.work_and_stop("s1", "it is over"), "2/100");
}
