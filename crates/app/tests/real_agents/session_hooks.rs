//! A loop inside the session of a real agent: its own hooks run dacapo.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, time::Duration};

use dacapo_testkit::{
    RealAgent, Running, Signal,
    model_server::{ScriptedTurn, ToolCall},
};
use serde_json::{Value, json};

use crate::stage::{LONG, Stage, assert_has};

const RALPH: &str = "/ralph \"Write the steps\" --max-iterations=9 --completion-promise=ALL_FIXED";
const DACAPO: &str = env!("CARGO_BIN_EXE_dacapo");

/// An agent whose hooks run dacapo, in a repository whose gate wants the file `fixed`.
fn hooked(agent: RealAgent) -> Stage {
    let stage = Stage::set(agent, [ScriptedTurn::say("unused")]);
    stage.user("gates: [{name: tests, run: 'echo 1 failed; test -f fixed'}]\n");
    let command = |hook: &str| format!("{DACAPO} hook {hook} --agent {}", agent.name());
    let of = |hook: &str, timeout: u32| json!([{"hooks": [{"type": "command", "command": command(hook), "timeout": timeout}]}]);
    let home = stage.env.home();
    match agent {
        RealAgent::Claude | RealAgent::Gemini => {
            let (file, stop, prompt, timeout) = match agent {
                RealAgent::Claude => (".claude/settings.json", "Stop", "UserPromptSubmit", 60),
                _ => (".gemini/settings.json", "AfterAgent", "BeforeAgent", 60_000),
            };
            let file = home.join(file);
            let mut settings: Value =
                serde_json::from_str(&fs::read_to_string(&file).expect("as the test has it"))
                    .expect("as the test has it");
            settings["hooks"] = json!({stop: of("stop", timeout), prompt: of("prompt", timeout)});
            fs::write(file, settings.to_string()).expect("as the test has it");
        }
        _ => {
            let file = home.join(".codex/config.toml");
            let mut config = fs::read_to_string(&file).expect("as the test has it");
            for (event, hook) in [("Stop", "stop"), ("UserPromptSubmit", "prompt")] {
                config.push_str(&format!(
                    "\n[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = \"{}\"\ntimeout = 60\n",
                    command(hook)
                ));
            }
            fs::write(file, config).expect("as the test has it");
        }
    }
    stage
}

fn start(stage: &Stage, args: &[&str], prompt: &str) -> Running {
    let mut command = stage.agent.command(&stage.env);
    command.args(args);
    let file = stage.env.root().join("typed");
    fs::write(&file, prompt).expect("as the test has it");
    command.stdin(fs::File::open(file).expect("as the test has it"));
    Running::start(command)
}

/// A turn that runs a command in a shell.
fn shell(command: &str) -> ScriptedTurn {
    ScriptedTurn::call(ToolCall::shell(command))
}

fn ends(stage: &Stage) -> Vec<Value> {
    let events = stage.env.events(None).into_iter();
    events.filter(|event| event["type"] == "loop_finished").map(|mut event| event["reason"].take()).collect()
}

/// Sent back twice, and released on a promise that the gate first refused.
#[track_caller]
fn is_sent_back_twice_and_released(agent: RealAgent, args: &[&str]) -> Stage {
    let stage = hooked(agent);
    stage.server.set_turns([
        shell("echo one >> steps"),
        ScriptedTurn::say("The first step is written."),
        ScriptedTurn::say("All done. <promise>ALL_FIXED</promise>"),
        shell("touch fixed"),
        ScriptedTurn::say("Now really. <promise>ALL_FIXED</promise>"),
        ScriptedTurn::say("too far"),
    ]);
    let output = start(&stage, args, RALPH).wait(LONG).assert_code(0);
    let requests = stage.server.main_requests();
    assert_eq!(requests.len(), 5, "{output:#?}");
    assert_has(requests[2].last_user_text(), "[RALPH LOOP - ITERATION 2/9]");
    assert_has(requests[2].last_user_text(), "Original task:\nWrite the steps");
    assert_has(requests[3].last_user_text(), "the check `tests` exited 1");
    assert_eq!(ends(&stage), ["done"]);
    let receipt = stage.env.run(["receipt", "--json"]).assert_code(0).stdout;
    let receipt: Value = serde_json::from_str(&receipt).expect("as the test has it");
    assert_eq!((&receipt["iterations"], &receipt["gates"][0]["exit_code"]), (&json!(3), &json!(0)));
    stage
}

#[test]
fn claude_is_sent_back_by_its_stop_hook_until_the_gate_agrees() {
    // req 125, req 130
    is_sent_back_twice_and_released(RealAgent::Claude, &[]);
}

#[test]
fn codex_is_sent_back_by_its_stop_hook_until_the_gate_agrees() {
    is_sent_back_twice_and_released(RealAgent::Codex, &["--dangerously-bypass-hook-trust"]);
}

#[test]
fn gemini_is_sent_back_after_its_agent_until_the_gate_agrees() {
    is_sent_back_twice_and_released(RealAgent::Gemini, &[]);
}

#[test]
fn a_killed_claude_goes_on_with_its_loop_and_another_session_is_left_alone() {
    // req 132, fault B11
    let stage = hooked(RealAgent::Claude);
    let id = "7b0a2f66-0d0e-4d5c-9c5d-0f3a2b1c4d5e";
    stage.server.set_turns([
        shell("echo one >> steps"),
        ScriptedTurn::say("One is written."),
        ScriptedTurn::hang(),
    ]);
    let claude = start(&stage, &["--session-id", id], RALPH);
    stage.server.wait_for_main_requests(3, LONG);
    claude.signal(Signal::KILL);
    claude.wait(Duration::from_secs(60));
    let state = || -> Value {
        let output = stage.env.run(["session", "state", "--session", id, "--json"]).assert_code(0).stdout;
        serde_json::from_str(&output).expect("as the test has it")
    };
    assert_eq!(state()["iteration"], 2, "the loop is still there");

    // Another session in the folder, whose agent makes the very promise.
    stage.server.set_turns([ScriptedTurn::say("<promise>ALL_FIXED</promise>"), ScriptedTurn::say("too far")]);
    start(&stage, &[], "just say it").wait(LONG).assert_code(0);
    assert_eq!(state()["iteration"], 2, "not touched");

    stage.server.set_turns([
        shell("touch fixed"),
        ScriptedTurn::say("Back again."),
        ScriptedTurn::say("<promise>ALL_FIXED</promise>"),
        ScriptedTurn::say("too far"),
    ]);
    start(&stage, &["--resume", id], "go on").wait(LONG).assert_code(0);
    assert_eq!((state(), ends(&stage)), (Value::Null, vec![json!("done")]));
}
