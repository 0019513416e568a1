//! Loops in the sessions of real agents, with the hooks that `dacapo hook install` writes.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
    time::Duration,
};

use dacapo_testkit::{
    RealAgent, Running,
    model_server::{ScriptedTurn, ToolCall},
    wait_until,
};
use serde_json::{Value, json};

use crate::stage::{LONG, Stage, assert_has};

/// A task that a shell or a template would not leave as it is.
const TASK: &str = "Write $(touch pwned) the !`touch pwned` steps; it's $ARGUMENTS {{args}} !{touch pwned}";

fn typed(command: &str) -> String {
    format!("{command} \"{TASK}\" --max-iterations 9 --completion-promise=ALL_FIXED")
}

/// An agent with dacapo's hooks in a repository whose gate wants the file `fixed`.
#[track_caller]
fn installed(agent: RealAgent, arguments: &[&str]) -> Stage {
    let stage = Stage::set(agent, [ScriptedTurn::say("unused")]);
    stage.user("gates: [{name: tests, run: 'echo 1 failed; test -f fixed'}]\n");
    let install = [&["hook", "install", agent.name()], arguments].concat();
    stage.env.run(install).assert_code(0);
    stage
}

/// Starts the agent alone, with a prompt on its standard input.
fn start(stage: &Stage, arguments: &[&str], prompt: &str) -> Running {
    let mut command = stage.agent.command(&stage.env);
    command.args(arguments);
    let file = stage.env.root().join("typed");
    fs::write(&file, prompt).expect("the prompt can be written");
    command.stdin(fs::File::open(file).expect("the prompt can be read"));
    Running::start(command)
}

fn work(stage: &Stage) {
    stage.server.set_turns([
        ScriptedTurn::call(ToolCall::shell("echo one >> steps")),
        ScriptedTurn::say("The first step is written."),
        ScriptedTurn::say("All done. <promise>ALL_FIXED</promise>"),
        ScriptedTurn::call(ToolCall::shell("touch fixed")),
        ScriptedTurn::say("Now really. <promise>ALL_FIXED</promise>"),
        ScriptedTurn::say("too far"),
    ]);
}

fn ends(stage: &Stage) -> Vec<Value> {
    let events = stage.env.events(None).into_iter();
    events.filter(|event| event["type"] == "loop_finished").map(|mut event| event["reason"].take()).collect()
}

/// The agent was sent back twice, the second time with the refusal of the gate, and then let go.
#[track_caller]
fn assert_worked(stage: &Stage) {
    assert_eq!(ends(stage), ["done"]);
    let requests = stage.server.main_requests();
    let texts: Vec<&str> = requests.iter().map(|request| request.last_user_text()).collect();
    let has = |part: &str| texts.iter().any(|text| text.contains(part));
    assert!(has("[RALPH LOOP - ITERATION 2/9]"), "{texts:#?}");
    assert!(has(&format!("Original task:\n{TASK}")), "the task is as it was typed: {texts:#?}");
    assert!(has("the check `tests` exited 1"), "{texts:#?}");
    assert!(!requests.iter().any(|request| request.body.to_string().contains("too far")), "{texts:#?}");
    assert!(!stage.env.workspace().join("pwned").exists(), "nothing of the task was run");
}

#[track_caller]
fn works_with_installed_hooks(agent: RealAgent, arguments: &[&str]) -> Stage {
    let stage = installed(agent, &[]);
    work(&stage);
    start(&stage, arguments, &typed("/ralph")).wait(LONG).assert_code(0);
    assert_worked(&stage);
    stage
}

#[test]
fn claude_works_in_a_loop_with_the_hooks_that_were_installed() {
    // req 130: flags in both forms, none of them in the task
    let stage = works_with_installed_hooks(RealAgent::Claude, &[]);
    // Another session in the same folder has no loop and is not sent back, whatever its agent says.
    let before = stage.server.main_requests().len();
    stage.server.set_turns([ScriptedTurn::say("Working on it."), ScriptedTurn::say("too far")]);
    start(&stage, &[], "hello").wait(LONG).assert_code(0);
    assert_eq!(stage.server.main_requests().len(), before + 1);
}

#[test]
fn claude_is_not_asked_when_ralph_cannot_begin() {
    let stage = installed(RealAgent::Claude, &["--project"]);
    for (prompt, words) in [
        ("/ralph \"x\" --max-iterations=many", "is not a whole number"),
        ("/cancel-ralph", "No Ralph Loop is currently running"),
    ] {
        let output = start(&stage, &[], prompt).wait(LONG).assert_code(0);
        assert_has(&output.stdout, words);
        assert_eq!(stage.server.main_requests().len(), 0, "{prompt}");
    }
}

#[test]
fn claude_is_sent_back_more_often_than_it_would_allow_by_itself() {
    // It lets its agent go after 8 refusals in a row without a tool call, unless the settings that are installed lift that.
    let stage = installed(RealAgent::Claude, &[]);
    stage.env.write("fixed", "");
    let rounds = 11;
    let mut turns: Vec<ScriptedTurn> =
        (1..=rounds).map(|round| ScriptedTurn::say(format!("Thought {round}."))).collect();
    turns.extend([ScriptedTurn::say("<promise>DONE</promise>"), ScriptedTurn::say("too far")]);
    stage.server.set_turns(turns);
    let claude = start(&stage, &[], "/ralph \"Think\" --max-iterations=20");
    // Without a change the loop would end as stuck; while the promise is judged nothing may change.
    let mut at = 0;
    wait_until("the last turn", LONG, || {
        at += 1;
        stage.env.write("thoughts", at.to_string());
        stage.server.main_requests().len() > rounds
    });
    claude.wait(LONG).assert_code(0);
    assert_eq!((stage.server.main_requests().len(), ends(&stage)), (rounds + 1, vec![json!("done")]));
}

#[test]
fn claude_takes_the_hooks_of_a_plugin() {
    for command in ["/ralph", "/ralph:ralph"] {
        let stage = installed(RealAgent::Claude, &["--plugin", "../plugin"]);
        let folder = stage.env.root().join("plugin");
        work(&stage);
        let arguments = ["--plugin-dir", folder.to_str().unwrap()];
        start(&stage, &arguments, &typed(command)).wait(LONG).assert_code(0);
        assert_worked(&stage);
    }
}

#[test]
fn codex_works_in_a_loop_once_its_hooks_are_trusted() {
    let stage = installed(RealAgent::Codex, &[]);
    // Codex says nothing when it skips them, so doctor does.
    let doctor = stage.env.run(["doctor"]).stdout;
    assert_has(&doctor, "Codex skips them");
    stage.server.set_turns([ScriptedTurn::say("Working on it."), ScriptedTurn::say("too far")]);
    start(&stage, &[], &typed("/ralph")).wait(LONG).assert_code(0);
    assert_eq!(stage.server.main_requests().len(), 1);
    work(&stage);
    start(&stage, &["--dangerously-bypass-hook-trust"], &typed("/ralph")).wait(LONG).assert_code(0);
    assert_worked(&stage);
}

#[test]
fn gemini_works_in_a_loop_with_the_hooks_that_were_installed() {
    works_with_installed_hooks(RealAgent::Gemini, &[]);
}

#[test]
#[ignore = "scripts/test --more"]
fn qwen_works_in_a_loop_with_the_hooks_that_were_installed() {
    works_with_installed_hooks(RealAgent::Qwen, &[]);
}

#[test]
#[ignore = "scripts/test --more"]
fn copilot_works_in_a_loop_with_the_hooks_that_were_installed() {
    works_with_installed_hooks(RealAgent::Copilot, &[]);
}

/// One request to a server on this machine, and the JSON that it answers with.
fn post(address: &str, path: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .expect("it can be asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let json = answer.find(['{']).map_or("null", |at| &answer[at..]);
    let end = json.rfind('}').map_or(json.len(), |at| at + 1);
    serde_json::from_str(&json[..end]).unwrap_or(Value::Null)
}

#[test]
#[ignore = "scripts/test --more"]
fn opencode_works_in_a_loop_with_the_plugin_that_was_installed() {
    let stage = installed(RealAgent::Opencode, &[]);
    work(&stage);
    let mut command: Command = stage.env.command(stage.env.root().join("bin/opencode"));
    stage.agent.give_to(&mut command).args(["serve", "--port", "0", "--hostname", "127.0.0.1"]);
    let server = Running::start(command);
    let line = server.wait_for_line(|line| line.contains("listening on http://"), LONG);
    let address = line.rsplit("http://").next().unwrap().trim().to_owned();
    let session = post(&address, "/session", &json!({}));
    let id = session["id"].as_str().unwrap_or_else(|| panic!("no session: {session}"));
    let prompt = json!({"parts": [{"type": "text", "text": typed("/ralph")}]});
    post(&address, &format!("/session/{id}/message"), &prompt);
    wait_until("the end of the loop", LONG, || !ends(&stage).is_empty());
    assert_worked(&stage);
    stage.env.stop(&server, Duration::from_secs(20));
}
