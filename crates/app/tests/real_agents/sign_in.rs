//! A key that is no good: the loop ends at once and says how to sign in.

use std::fs;

use dacapo_testkit::{
    RealAgent,
    model_server::{Failure, ScriptedTurn},
};
use serde_json::{Value, json};

use crate::stage::{Stage, assert_has, last_line};

#[track_caller]
fn is_told_to_sign_in(stage: &Stage, command: &str) {
    let output = stage.run(&["-n", "5"]).assert_code(4);
    assert_has(last_line(&output), command);
    assert_has(&stage.told(&["why"]), command);
    let status = stage.status();
    assert_eq!((&status["state"], &status["reason"]), (&json!("stopped"), &json!("auth")), "{status}");
    let exits = stage.events("agent_exited");
    assert_eq!(exits.len(), 1, "{exits:?}");
    assert_eq!(stage.events("iteration_finished"), [] as [Value; 0], "nothing is charged");
    stage.assert_nothing_left();
}

#[test]
fn claude_is_told_to_sign_in() {
    // fault E6: by itself it would try for three minutes.
    let stage = Stage::set(RealAgent::Claude, [ScriptedTurn::fail(Failure::Unauthorized)]);
    let quiet = json!({"env": {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}});
    fs::write(stage.env.home().join(".claude/settings.json"), quiet.to_string()).expect("its settings");
    is_told_to_sign_in(&stage, "run `claude`, then `/login`");
    let asked = stage.server.main_requests().len();
    assert!(asked <= 3, "asked {asked} times");
}

#[test]
fn codex_is_told_to_sign_in() {
    // fault E6
    let stage = Stage::set(RealAgent::Codex, [ScriptedTurn::fail(Failure::Unauthorized)]);
    is_told_to_sign_in(&stage, "run `codex login`");
}

#[test]
fn gemini_is_told_to_sign_in() {
    // fault E6
    let stage = Stage::set(RealAgent::Gemini, [ScriptedTurn::fail(Failure::Unauthorized)]);
    is_told_to_sign_in(&stage, "run `gemini` and choose how to sign in, or set GEMINI_API_KEY");
}
