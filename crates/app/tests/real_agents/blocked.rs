//! An agent that cannot do what it was asked: its makers' CLIs carry its words, and a person decides.

use dacapo_testkit::{RealAgent, model_server::ScriptedTurn};
use serde_json::json;

use crate::stage::{Stage, assert_has, last_line};

const WHY: &str = "The folder holds no program that could be mended.";

/// Blocked at first; then a person speaks, and it is done.
#[track_caller]
fn says_why_and_goes_on(agent: RealAgent) {
    let stage = Stage::set(
        agent,
        [
            ScriptedTurn::say(format!("I looked at all of it.\n\n<blocked>{WHY}</blocked>")),
            ScriptedTurn::say("Then nothing is left.\n\n<promise>DONE</promise>"),
        ],
    );
    let output = stage.run(&["-n", "5"]).assert_code(4);
    assert_has(last_line(&output), &format!("stopped (blocked): the agent is blocked: {WHY}"));
    assert_eq!(stage.events("blocked")[0]["why"], WHY);
    assert_eq!(stage.status()["reason"], json!("blocked"));
    let prompt = stage.server.main_requests()[0].last_user_text().to_owned();
    assert_has(&prompt, "<blocked>your reason</blocked> and nothing else on it");
    stage.assert_nothing_left();

    stage.resume().wait(crate::stage::LONG).assert_code(0);
    let requests = stage.server.main_requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert_has(requests[1].last_user_text(), &format!("it cannot be done as asked: {WHY}"));
}

#[test]
fn claude_says_why_and_goes_on() {
    says_why_and_goes_on(RealAgent::Claude);
}

#[test]
fn codex_says_why_and_goes_on() {
    says_why_and_goes_on(RealAgent::Codex);
}

#[test]
fn gemini_says_why_and_goes_on() {
    says_why_and_goes_on(RealAgent::Gemini);
}
