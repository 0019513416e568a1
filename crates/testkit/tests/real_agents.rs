//! The agents as their makers ship them work with the scripted model, without dacapo and without leaving the machine.
//!
//! They are installed by `scripts/install-agents`; those that are ignored here need its `--more`.

use dacapo_testkit::{
    RealAgent, TestEnv,
    model_server::{ModelServer, Request, ScriptedTurn, ToolCall},
};
use serde_json::{Value, json};

const KEY: &str = "scripted-key";
const LAST_WORDS: &str = "All is done now. <promise>DONE</promise>";

/// What one run left: its events, its last one again, and what the model was asked.
struct Run {
    events: Vec<Value>,
    last: Value,
    requests: Vec<Request>,
}

/// Has the agent write a file by its tool and then say so.
#[track_caller]
fn make_a_file(agent: RealAgent) -> Run {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_fake-agent"));
    env.git_init();
    let made = env.workspace().join("made.txt");
    let server = ModelServer::start([
        ScriptedTurn::call(ToolCall::write(made, "made by a tool, isn't it?\n")),
        ScriptedTurn::say(LAST_WORDS),
    ]);
    let output =
        agent.prepare(&env, &server).expect("installed").run(&env, "Make the file, please.").assert_code(0);
    assert_eq!(env.read("made.txt"), "made by a tool, isn't it?\n", "{output:#?}");
    assert!(env.survivors().is_empty(), "something outlived the agent");
    let requests = server.main_requests();
    assert_eq!(requests.len(), 2, "{:?}", server.requests());
    for request in &requests {
        assert!(request.last_user_text().trim().ends_with("Make the file, please."), "{request:?}");
        assert_eq!(request.key(), Some(KEY));
    }
    assert_eq!((requests[0].tool_results().len(), requests[1].tool_results().len()), (0, 1));
    let events: Vec<Value> =
        output.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let last = events.last().unwrap_or_else(|| panic!("no events: {output:#?}")).clone();
    Run { events, last, requests }
}

#[test]
fn claude() {
    let Run { last, requests, .. } = make_a_file(RealAgent::Claude);
    assert_eq!(requests[0].path, "/v1/messages?beta=true");
    assert_eq!((&last["type"], &last["is_error"]), (&json!("result"), &json!(false)));
    assert_eq!(last["result"], LAST_WORDS);
    assert_eq!((&last["usage"]["input_tokens"], &last["usage"]["output_tokens"]), (&json!(2400), &json!(68)));
}

#[test]
fn codex() {
    let Run { events, last, requests } = make_a_file(RealAgent::Codex);
    assert_eq!(requests[0].path, "/v1/responses");
    assert_eq!(events[events.len() - 2]["item"]["text"], LAST_WORDS);
    assert_eq!(last["type"], "turn.completed");
    assert_eq!((&last["usage"]["input_tokens"], &last["usage"]["output_tokens"]), (&json!(2400), &json!(68)));
}

#[test]
fn gemini() {
    let Run { events, last, requests } = make_a_file(RealAgent::Gemini);
    assert_eq!(requests[0].path, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse");
    let said = events.iter().filter(|event| event["role"] == "assistant");
    assert_eq!(said.filter_map(|event| event["content"].as_str()).collect::<String>(), LAST_WORDS);
    assert_eq!((&last["type"], &last["status"]), (&json!("result"), &json!("success")));
    assert_eq!((&last["stats"]["input_tokens"], &last["stats"]["output_tokens"]), (&json!(2400), &json!(68)));
}

#[test]
#[ignore = "scripts/test --more"]
fn opencode() {
    let Run { events, last, .. } = make_a_file(RealAgent::Opencode);
    assert_eq!(events[events.len() - 2]["part"]["text"], LAST_WORDS);
    assert_eq!((&last["type"], &last["part"]["reason"]), (&json!("step_finish"), &json!("stop")));
}

#[test]
#[ignore = "scripts/test --more"]
fn qwen() {
    let Run { last, .. } = make_a_file(RealAgent::Qwen);
    assert_eq!((&last["type"], &last["is_error"]), (&json!("result"), &json!(false)));
    assert_eq!(last["result"], LAST_WORDS);
}

#[test]
#[ignore = "scripts/test --more"]
fn copilot() {
    let Run { events, last, .. } = make_a_file(RealAgent::Copilot);
    let said = events.iter().rev().find(|event| event["type"] == "assistant.message");
    assert_eq!(said.unwrap()["data"]["content"], LAST_WORDS);
    assert_eq!((&last["type"], &last["exitCode"]), (&json!("result"), &json!(0)));
}

#[test]
#[ignore = "scripts/test --more"]
fn pi() {
    let Run { last, .. } = make_a_file(RealAgent::Pi);
    assert_eq!(last["type"], "agent_end");
    let message = last["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(message["content"][0]["text"], LAST_WORDS);
}
