//! A task through its stages with two real agents: one codes, the other reviews.

use dacapo_testkit::{
    RealAgent, Running,
    model_server::{ScriptedTurn, ToolCall},
};
use serde_json::Value;

use crate::stage::{LONG, Stage};

fn passes_its_stages(coder: RealAgent, reviewer: RealAgent) {
    let shell = |command: &str| ScriptedTurn::call(ToolCall::shell(command));
    let stage = Stage::set(
        coder,
        [
            shell("echo hello >hello.txt && git add -A && git commit -qm 'Say hello'"),
            ScriptedTurn::say("It is committed.\n\n<promise>IMPLEMENTATION_COMPLETE</promise>"),
            ScriptedTurn::say("CHANGES REQUESTED:\n- it does not say goodbye"),
            shell("echo goodbye >>hello.txt && git add -A && git commit -qm 'Say goodbye'"),
            ScriptedTurn::say("FIXED F1\n\nCommitted.\n\n<promise>IMPLEMENTATION_COMPLETE</promise>"),
            ScriptedTurn::say("FIXED F1\n\nREVIEW PASSED\n\n<promise>REVIEW_COMPLETE</promise>"),
            ScriptedTurn::say("1 test passed.\n\n<promise>TESTS_COMPLETE</promise>"),
            ScriptedTurn::say("I read it aloud.\n\n<promise>QA_PASSED</promise>"),
        ],
    );
    let other = reviewer.prepare(&stage.env, &stage.server).unwrap_or_else(|error| panic!("{error}"));
    stage.user(&format!(
        "agent: {}\npermissions: {{allow_root: true}}\nstages: {{reviewer: {{agent: {}}}}}\n",
        coder.name(),
        reviewer.name()
    ));
    let env = &stage.env;
    env.run(["task", "add", "--title", "Say hello and goodbye"]).assert_code(0);
    let mut command = stage.dacapo(&["task", "run", "--restart-delay", "0s", "--kill-grace", "1s"]);
    other.give_to(&mut command);
    let output = Running::start(command).wait(LONG).assert_code(0);
    assert!(!output.stderr.contains("the coder's own agent"), "{}", output.stderr);
    assert_eq!(env.read("hello.txt"), "hello\ngoodbye\n");
    let merges = env.git(["log", "--first-parent", "--merges", "--format=%s"]);
    assert_eq!(merges, "Merge task TASK-001: Say hello and goodbye\n");
    let events = env.run(["events", "TASK-001", "--json"]).assert_code(0).stdout;
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let agents: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "agent_started")
        .filter_map(|event| event["agent"].as_str())
        .collect();
    let (one, two) = (coder.name(), reviewer.name());
    assert_eq!(agents, [one, two, one, two, one, one]);
    let receipt = env.run(["receipt", "TASK-001", "--json"]).assert_code(0).stdout;
    let receipt: Value = serde_json::from_str(&receipt).expect("JSON");
    assert_eq!(receipt["findings"][0]["text"], "it does not say goodbye");
    assert_eq!(receipt["findings"][0]["state"], "fixed");
    stage.assert_nothing_left();
}

#[test]
fn claude_codes_and_codex_reviews() {
    // req 182, req 183, req 184, req 196
    passes_its_stages(RealAgent::Claude, RealAgent::Codex);
}

#[test]
fn codex_codes_and_claude_reviews() {
    // req 182, req 183, req 184, req 196
    passes_its_stages(RealAgent::Codex, RealAgent::Claude);
}
