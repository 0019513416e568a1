//! SIGKILL of dacapo while an agent's tool runs: nothing is left of either, and the loop can go on.

use dacapo_testkit::{
    RealAgent, Signal,
    model_server::{ScriptedTurn, ToolCall},
    wait_until,
};
use serde_json::json;

use crate::stage::{LONG, Stage};

#[track_caller]
fn leaves_nothing_when_dacapo_is_killed(agent: RealAgent) -> Stage {
    let stage = Stage::set(agent, [ScriptedTurn::call(ToolCall::shell("touch started; sleep 300"))]);
    let running = stage.spawn(&["-n", "5", "--kill-grace", "1s"]);
    let started = stage.env.workspace().join("started");
    wait_until("the tool runs", LONG, || started.exists());
    running.signal(Signal::KILL);
    running.wait(LONG);
    wait_until("all of it is dead", LONG, || stage.env.survivors().is_empty());
    stage
}

/// The iteration that was cut is charged; the next one ends the loop.
#[track_caller]
fn goes_on_after_the_kill(stage: &Stage) {
    stage.server.set_turns([ScriptedTurn::say("All is done.\n<promise>DONE</promise>")]);
    stage.resume().wait(LONG).assert_code(0);
    let status = stage.status();
    assert_eq!((&status["state"], &status["iteration"]), (&json!("completed"), &json!(2)), "{status}");
    stage.assert_nothing_left();
}

#[test]
fn claude_leaves_nothing_when_dacapo_is_killed() {
    // req 83, req 203, fault F12: killed alone, it leaves its tool behind.
    goes_on_after_the_kill(&leaves_nothing_when_dacapo_is_killed(RealAgent::Claude));
}

#[test]
fn codex_leaves_nothing_when_dacapo_is_killed() {
    // req 83, req 203, fault F12
    goes_on_after_the_kill(&leaves_nothing_when_dacapo_is_killed(RealAgent::Codex));
}

#[test]
fn gemini_leaves_nothing_when_dacapo_is_killed() {
    // req 83, fault F12: it leaves its tool behind however it is ended.
    leaves_nothing_when_dacapo_is_killed(RealAgent::Gemini);
}
