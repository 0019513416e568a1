//! Going on with a session: what the model is sent again, and what that is counted as.

use dacapo_testkit::{RealAgent, model_server::ScriptedTurn};
use serde_json::{Value, json};

use crate::stage::{PROMPT, Stage, assert_has};

const SECRET: &str = "The colour I thought of is vermilion.";

/// Two iterations in one session. What both used together is told once, however the agent sums up.
#[track_caller]
fn goes_on_with_its_session(agent: RealAgent) -> Stage {
    let stage = Stage::set(
        agent,
        [ScriptedTurn::say(SECRET), ScriptedTurn::say("It was that.\n<promise>DONE</promise>")],
    );
    stage.run(&["-n", "3", "--continue-session"]).assert_code(0);
    let requests = stage.server.main_requests();
    assert_eq!(requests.len(), 2, "{:?}", stage.server.requests());
    assert_eq!(requests[0].user_texts().len(), 1);
    // The first turn again, what was answered to it, and the next.
    let [first, second] = requests[1].user_texts() else { panic!("{:?}", requests[1].user_texts()) };
    assert_eq!(first, requests[0].last_user_text());
    assert_has(second, PROMPT.trim_end());
    assert_has(&requests[1].body.to_string(), SECRET);

    let exits = stage.events("agent_exited");
    let sessions: Vec<&Value> = exits.iter().map(|exit| &exit["session"]).collect();
    assert!(sessions.len() == 2 && sessions[0].is_string() && sessions[0] == sessions[1], "{sessions:?}");
    for exit in &exits {
        let usage = &exit["usage"];
        assert_eq!((&usage["input"], &usage["output"]), (&json!(1200), &json!(34)), "{exit}");
    }
    let tokens = &stage.status()["tokens"];
    assert_eq!((&tokens["input"], &tokens["output"]), (&json!(2400), &json!(68)));
    stage
}

#[test]
fn claude_goes_on_with_its_session() {
    // req 150, req 151, fault J4; its cost is the session's so far, its tokens are not.
    let stage = goes_on_with_its_session(RealAgent::Claude);
    let costs: Vec<f64> =
        stage.events("agent_exited").iter().filter_map(|exit| exit["cost_usd"].as_f64()).collect();
    assert!(costs.len() == 2 && costs[0] > 0.0 && (costs[0] - costs[1]).abs() < 1e-9, "{costs:?}");
}

#[test]
fn codex_goes_on_with_its_session() {
    // req 150, req 151; its tokens are the session's so far.
    goes_on_with_its_session(RealAgent::Codex);
}

#[test]
fn gemini_goes_on_with_its_session() {
    goes_on_with_its_session(RealAgent::Gemini);
}

#[test]
fn a_session_that_is_gone_is_followed_by_a_fresh_one() {
    // fault C10
    let stage = Stage::set(RealAgent::Claude, [ScriptedTurn::say(SECRET)]);
    let lose = "rm -rf \"$HOME\"/.claude/projects; false";
    stage
        .server
        .set_turns([ScriptedTurn::say(SECRET), ScriptedTurn::say("Who are you?\n<promise>DONE</promise>")]);
    stage.run(&["-n", "5", "--continue-session", "--until-cmd", lose]).assert_code(0);
    let requests = stage.server.main_requests();
    assert_eq!(requests.len(), 2, "{:?}", stage.server.requests());
    assert_eq!(requests[1].user_texts().len(), 1);
    let warnings = stage.events("warned");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_has(&warnings[0].to_string(), "a fresh session begins: No conversation found");
    // To find out that it is gone is no iteration.
    let status = stage.status();
    assert_eq!(status["iteration"], 2, "{status}");
}
