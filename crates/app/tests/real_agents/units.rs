//! A unit worked off by the agents as their makers ship them: a false claim, the fix, the commit, the merge.

use dacapo_testkit::{
    RealAgent, Running,
    model_server::{ScriptedTurn, ToolCall},
};

use crate::stage::{LONG, Stage, assert_has};

const TASK: &str = "specs/tasks/steps/01-one.md";

/// One unit with one task, claimed twice: before the work is done, and after.
#[track_caller]
fn works_a_unit_off(agent: RealAgent) {
    let claim = format!("sed -i 's/^status: .*/status: complete/' {TASK}");
    let stage = Stage::set(
        agent,
        [
            ScriptedTurn::call(ToolCall::shell(format!("echo half > half.txt; {claim}"))),
            ScriptedTurn::say("The task is complete."),
            ScriptedTurn::call(ToolCall::shell(format!("echo one > one.txt; {claim}"))),
            ScriptedTurn::say("Now it really is."),
        ],
    );
    let task =
        "---\ntask: 1\nstatus: pending\nbackpressure: test -f one.txt\n---\n\n# Write one\n\nMake one.txt.\n";
    stage.env.write(TASK, task).write("specs/tasks/steps/IMPLEMENTATION_PLAN.md", "# Steps\n");
    stage.env.git(["add", "-A"]);
    stage.env.git(["commit", "-qm", "specs"]);
    let run = ["unit", "run", "--trust", "--restart-delay", "0s", "-a", agent.name()];
    let own: &[&str] = match agent {
        // Left to itself, it asks another model first which one to ask.
        RealAgent::Gemini => &["--model", "gemini-2.5-pro"],
        _ => &[],
    };
    let output = Running::start(stage.dacapo(&[&run, own].concat())).wait(LONG).assert_code(0);
    assert_has(&output.stdout, "#1 Write one: refused, its backpressure exited 1");
    assert_has(&output.stdout, "#1 Write one: proven");
    stage.assert_nothing_left();
    assert_eq!(stage.env.read("one.txt"), "one\n");
    assert_has(&stage.env.git(["log", "--format=%s"]), "feat(steps): complete task #1 - Write one");
    assert_has(&stage.env.read(TASK), "status: complete");
    // Both prompts hold the task; the second also what was wrong.
    let requests = stage.server.main_requests();
    assert_has(requests[0].last_user_text(), "- Task #1: Write one");
    assert_has(requests[2].last_user_text(), "Its command: test -f one.txt");
}

#[test]
fn claude_works_a_unit_off() {
    // req 20, req 40
    works_a_unit_off(RealAgent::Claude);
}

#[test]
fn codex_works_a_unit_off() {
    works_a_unit_off(RealAgent::Codex);
}

#[test]
fn gemini_works_a_unit_off() {
    works_a_unit_off(RealAgent::Gemini);
}
