//! Recorded conversations over the Agent Client Protocol: what is heard in them, turn by turn, and that dacapo's side of the
//! conversation takes the same course.

use std::{collections::HashMap, fs, path::Path};

use dacapo_core::agent::{
    Format,
    acp::{AcpConversation, AcpSettings, AcpStep, AcpUsage},
    transcript::{OutputEvent, OutputSummary, Transcript},
};
use dacapo_core::limits::Meter;
use serde_json::{Value, json};

/// The messages of one recording, each with whether it came from the agent.
fn recording(name: &str) -> Vec<(bool, Value)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/acp").join(format!("{name}.jsonl"));
    let text = fs::read_to_string(file).expect("a recording");
    text.lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).expect("JSON");
            (line["dir"] == "in", line["msg"].take())
        })
        .collect()
}

/// What was heard in one turn: messages, tools, tokens read and written, money, and how it ended.
struct Turn {
    messages: Vec<String>,
    tools: Vec<String>,
    tokens: (u64, u64),
    cost: Option<f64>,
    told: OutputSummary,
}

/// Plays a recording to dacapo's side of the conversation and to the transcript of each turn.
fn play(name: &str, usage: AcpUsage) -> Vec<Turn> {
    let settings = AcpSettings { allows: true, ..AcpSettings::default() };
    let mut talk = AcpConversation::new(settings, "/home/dev/project", None, None);
    let mut said: Vec<Value> = vec![serde_json::from_slice(&talk.begin()).unwrap()];
    // The numbers of requests are dacapo's own.
    let mut ids: HashMap<String, Value> = HashMap::new();
    let mut turns = Vec::new();
    let mut output = Vec::new();
    for (is_agents, mut message) in recording(name) {
        if !is_agents {
            match message["method"].as_str() {
                Some("session/prompt") => {
                    let text = message["params"]["prompt"][0]["text"].as_str().unwrap();
                    said.push(serde_json::from_slice(&talk.prompt(text)).unwrap());
                }
                Some("session/cancel") => said.push(serde_json::from_slice(&talk.cancel()).unwrap()),
                _ => {}
            }
            let own = said.remove(0);
            assert_eq!(own["method"], message["method"], "{name}: {own}");
            for part in ["sessionId", "prompt", "cwd", "mcpServers", "clientCapabilities", "protocolVersion"]
            {
                assert_eq!(own["params"][part], message["params"][part], "{name}: {own}");
            }
            assert_eq!(own["result"], message["result"], "{name}: the answer to a request of the agent");
            ids.insert(message["id"].to_string(), own["id"].clone());
            continue;
        }
        if message.get("method").is_none() {
            message["id"] = ids[&message["id"].to_string()].clone();
        }
        let line = format!("{message}\n");
        output.extend_from_slice(line.as_bytes());
        for step in talk.hear(line.as_bytes()) {
            match step {
                AcpStep::Send(line) => said.push(serde_json::from_slice(&line).unwrap()),
                AcpStep::TurnOver => turns.push(std::mem::take(&mut output)),
                AcpStep::Ready => {}
                AcpStep::Failed | AcpStep::Warn(_) => panic!("{name}: {step:?}"),
            }
        }
    }
    assert!(said.is_empty(), "{name}: {said:?}");
    turns.iter().map(|output| listen(output, usage)).collect()
}

fn listen(output: &[u8], usage: AcpUsage) -> Turn {
    let mut transcript = Transcript::new(Format::Acp(usage));
    let (mut messages, mut tools, mut meter) = (Vec::new(), Vec::new(), Meter::new(None, None));
    let mut hear = |event: OutputEvent<'_>| {
        event.meter(&mut meter);
        match event {
            OutputEvent::Message(text) => messages.push(text.to_owned()),
            OutputEvent::Tool { name, input } => tools.push(format!("{name} {input}")),
            _ => {}
        }
    };
    for piece in output.chunks(7) {
        transcript.push(piece, &mut hear);
    }
    let told = transcript.finish(&mut hear);
    let total = meter.total();
    Turn { messages, tools, tokens: (total.usage.input, total.usage.output), cost: total.cost_usd, told }
}

#[test]
fn every_agent_is_heard_turn_by_turn() {
    // A promise that was cut into pieces is whole; what codex says of itself stands before the agent's own words.
    let banner = "Model metadata for `gpt-5-codex` not found. Defaulting to fallback metadata; this can degrade \
                  performance and cause issues.";
    for (name, usage, begins, tool, tokens, second) in [
        ("claude-prompt", AcpUsage::Turn, "", "Write /home/dev/project/hello.txt", (2400, 68), (1200, 34)),
        ("codex-prompt", AcpUsage::Never, banner, "execute ", (0, 0), (0, 0)),
        ("gemini-prompt", AcpUsage::Turn, "", "edit Writing to hello.txt", (2400, 68), (1200, 34)),
        ("opencode-prompt", AcpUsage::Turn, "", "edit /home/dev/project/hello.txt", (1200, 34), (1200, 34)),
    ] {
        let turns = play(name, usage);
        let [first, again] = turns.as_slice() else { panic!("{name}: {} turns", turns.len()) };
        assert_eq!(first.messages[0], format!("{begins}I will write it."), "{name}");
        assert_eq!(first.messages[1], "All done. <promise>DONE</promise>", "{name}");
        assert_eq!(again.messages, [format!("{begins}Made progress; more is left.")], "{name}");
        assert!(first.tools.len() == 1 && first.tools[0].starts_with(tool), "{name}: {:?}", first.tools);
        for (turn, tokens) in [(first, tokens), (again, second)] {
            assert!(turn.told.ending.as_ref().is_some_and(|ending| ending.is_ok), "{name}");
            assert!(turn.told.session.is_some(), "{name}");
            if usage != AcpUsage::Never {
                assert_eq!(turn.tokens, tokens, "{name}");
            }
        }
    }
    let claude = play("claude-prompt", AcpUsage::Turn);
    assert_eq!((claude[0].cost, claude[0].told.model.as_deref()), (Some(0.01644), Some("claude-opus-5-5")));
}

#[test]
fn a_turn_that_was_cancelled_has_no_end_of_the_agent_s_own() {
    for name in ["claude-cancel", "codex-cancel", "gemini-cancel", "opencode-cancel", "copilot-cancel"] {
        let turns = play(name, AcpUsage::Turn);
        let last = turns.last().unwrap_or_else(|| panic!("{name}: no turn"));
        assert_eq!(last.told.ending, None, "{name}");
        assert!(last.messages.iter().all(|text| !text.contains("slow slow")), "{name}: {:?}", last.messages);
    }
}

#[test]
fn a_provider_s_limit_is_an_error_however_it_is_put() {
    for (name, words, status) in [
        ("codex-rate-limit", "exceeded retry limit, last status: 429 Too Many Requests", Some(429)),
        ("opencode-rate-limit", "This request would exceed your organization's rate limit", None),
        ("copilot-rate-limit", "Error: Failed to get response from the AI model", None),
    ] {
        let turns = play(name, AcpUsage::Never);
        let ending = turns[0].told.ending.as_ref().unwrap_or_else(|| panic!("{name}: no end"));
        assert!(!ending.is_ok && ending.message.starts_with(words), "{name}: {ending:?}");
        assert_eq!(ending.status, status, "{name}");
        let judged = dacapo_core::agent::outcome::outcome(&turns[0].told, &Default::default(), "");
        assert_eq!(judged.outcome, dacapo_core::event::Outcome::RateLimit, "{name}: {judged:?}");
    }
    // These ask again by themselves and had not answered when the recording was cut.
    for name in ["claude-rate-limit", "gemini-rate-limit"] {
        assert!(play(name, AcpUsage::Turn).is_empty(), "{name}");
    }
}

#[test]
fn the_past_of_a_session_that_is_taken_up_again_is_not_heard() {
    let said = |text: &str| {
        let update =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    };
    let lines = [
        json!({"id": 11, "result": {"protocolVersion": 1}}),
        said("<promise>DONE</promise>"),
        json!({"id": 22, "result": null}),
        said("Not yet."),
        json!({"id": 34, "result": {"stopReason": "end_turn"}}),
    ];
    let output: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let turn = listen(output.as_bytes(), AcpUsage::Turn);
    assert_eq!(turn.messages, ["Not yet."]);
}

#[test]
fn ends_of_other_kinds_are_told_apart() {
    for (result, is_ok, words) in [
        (json!({"result": {"stopReason": "end_turn"}}), true, ""),
        (json!({"result": {"stopReason": "max_tokens"}}), false, "cut off"),
        (json!({"result": {"stopReason": "refusal"}}), false, "refused"),
        (json!({"result": {"stopReason": "max_turn_requests"}}), false, "turns are used up"),
        (json!({"result": {"stopReason": "something new"}}), false, "`something new`"),
        (json!({"result": 7}), false, "``"),
        (json!({"error": {"code": -32603, "message": "Internal error: boom"}}), false, "boom"),
        (json!({"error": {"code": -32603, "message": "x", "data": {"details": "why"}}}), false, "why"),
        (json!({"error": "?"}), false, ""),
    ] {
        let mut line = result.clone();
        line["id"] = 34.into();
        let turn = listen(format!("{line}\n").as_bytes(), AcpUsage::Turn);
        let ending = turn.told.ending.unwrap_or_else(|| panic!("{result}"));
        assert!(ending.is_ok == is_ok && ending.message.contains(words), "{result}: {ending:?}");
    }
    // Not signed in: the protocol has a number for it.
    let line = json!({"id": 23, "error": {"code": -32000, "message": "Authentication required"}});
    let turn = listen(format!("{line}\n").as_bytes(), AcpUsage::Turn);
    let judged = dacapo_core::agent::outcome::outcome(&turn.told, &Default::default(), "");
    assert_eq!(judged.outcome, dacapo_core::event::Outcome::Auth);
}
