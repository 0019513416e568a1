//! Real agents over the Agent Client Protocol: three turns each in one session, with a claim that a gate refuses on the way.

use dacapo_testkit::{RealAgent, model_server::ScriptedTurn};
use serde_json::Value;

use crate::stage::{Stage, assert_has};

#[track_caller]
fn works_three_turns_in_one_session(agent: RealAgent) -> Stage {
    let stage = Stage::set(
        agent,
        [
            Stage::step("one"),
            ScriptedTurn::say("One of three."),
            Stage::step("two"),
            // Too early.
            ScriptedTurn::say("All of it.\n<promise>DONE</promise>"),
            Stage::step("three"),
            ScriptedTurn::say("Now it is.\n<promise>DONE</promise>"),
        ],
    );
    agent.prepare_adapter(&stage.env).unwrap_or_else(|error| panic!("{error}"));
    let gate = "test $(wc -l <steps) -eq 3";
    stage.run(&["-n", "5", "--transport", "acp", "--gate", gate]).assert_code(0);
    assert_eq!(stage.env.read("steps"), "one\ntwo\nthree\n");

    let requests = stage.server.main_requests();
    assert_eq!(requests.len(), 6, "{:?}", stage.server.requests());
    // The third prompt comes on top of the first two, in the same conversation.
    let prompts = |text: &String| text.contains("Write the steps.");
    let last: Vec<&String> = requests[5].user_texts().iter().filter(|text| prompts(text)).collect();
    assert_eq!(last.len(), 3, "{:?}", requests[5].user_texts());
    assert_has(last[2], "The claim of iteration 2 was refused");

    let exits = stage.events("agent_exited");
    let sessions: Vec<&Value> = exits.iter().map(|exit| &exit["session"]).collect();
    assert!(sessions.len() == 3 && sessions[0].is_string(), "{exits:?}");
    assert!(sessions.iter().all(|session| *session == sessions[0]), "{sessions:?}");
    assert!(exits.iter().all(|exit| exit["outcome"] == "completed"), "{exits:?}");
    assert_eq!((stage.events("claim_refused").len(), stage.events("claim_accepted").len()), (1, 1));
    stage.assert_nothing_left();
    stage
}

#[test]
fn claude_stays_for_three_turns() {
    let stage = works_three_turns_in_one_session(RealAgent::Claude);
    for exit in stage.events("agent_exited") {
        assert_eq!((&exit["usage"]["input"], &exit["usage"]["output"]), (&2400.into(), &68.into()), "{exit}");
    }
}

#[test]
fn codex_stays_for_three_turns() {
    let stage = works_three_turns_in_one_session(RealAgent::Codex);
    // It says nothing of what it used, so a budget is refused rather than held by guessing.
    let output = stage
        .env
        .run(["run", "x", "-a", "codex", "--transport", "acp", "--max-tokens", "1000"])
        .assert_code(2);
    assert_has(&output.stderr, "codex");
}

#[test]
fn gemini_stays_for_three_turns() {
    let stage = works_three_turns_in_one_session(RealAgent::Gemini);
    for exit in stage.events("agent_exited") {
        assert_eq!((&exit["usage"]["input"], &exit["usage"]["output"]), (&2400.into(), &68.into()), "{exit}");
    }
}

#[test]
#[ignore = "scripts/test --more"]
fn opencode_stays_for_three_turns() {
    let stage = works_three_turns_in_one_session(RealAgent::Opencode);
    // It tells of the last step of a turn only.
    for exit in stage.events("agent_exited") {
        assert_eq!((&exit["usage"]["input"], &exit["usage"]["output"]), (&1200.into(), &34.into()), "{exit}");
    }
}

#[test]
#[ignore = "scripts/test --more"]
fn qwen_stays_for_turns_in_one_session() {
    // It asks its model for more than its work with tools, so a script that counts its requests would go astray.
    let promise = ScriptedTurn::say("All of it.\n<promise>DONE</promise>");
    let stage = Stage::set(RealAgent::Qwen, [Stage::step("one"), ScriptedTurn::say("One."), promise]);
    // Not beside the workspace: a claim is checked in a fresh checkout, too. Nothing is tried ahead, because that would count.
    let tries = stage.env.root().join("tries").display().to_string();
    let gate = format!("echo x >>'{tries}'; test $(wc -l <'{tries}') -ge 2");
    stage.run(&["-n", "5", "--no-probe", "--transport", "acp", "--gate", &gate]).assert_code(0);
    let exits = stage.events("agent_exited");
    let is_one =
        exits.iter().all(|exit| exit["session"].is_string() && exit["session"] == exits[0]["session"]);
    assert!(is_one && exits.len() >= 2, "{exits:?}");
    assert!(exits.iter().all(|exit| exit["outcome"] == "completed"), "{exits:?}");
    assert_eq!((stage.events("claim_refused").len(), stage.events("claim_accepted").len()), (1, 1));
    stage.assert_nothing_left();
}

#[test]
#[ignore = "scripts/test --more"]
fn copilot_stays_for_three_turns() {
    // It tells what the whole session has used, and each turn is charged with its own part.
    let stage = works_three_turns_in_one_session(RealAgent::Copilot);
    for exit in stage.events("agent_exited") {
        assert_eq!((&exit["usage"]["input"], &exit["usage"]["output"]), (&2400.into(), &68.into()), "{exit}");
    }
}
