//! What the tests of runs share: a world with the workflow `w`, its run, and looks at it.

use std::{fs, time::Duration};

use dacapo_testkit::{Output, TestEnv, fake_agent};
use serde_json::{Value, json};

pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env
}

/// A world with the workflow `w`.
pub(crate) fn with(text: &str) -> TestEnv {
    let env = env();
    env.write(".dacapo/workflows/w.yaml", format!("name: w\ndescription: d\n{text}"));
    env
}

pub(crate) fn args(env: &TestEnv, extra: &[&str]) -> Vec<String> {
    let mut args: Vec<String> =
        ["workflow", "run", "w", "--trust", "--restart-delay", "0s", "--agent-cmd"].map(str::to_owned).into();
    args.push(env.agent_cmd());
    args.extend(extra.iter().map(|word| (*word).to_owned()));
    args
}

pub(crate) fn run(env: &TestEnv, extra: &[&str]) -> Output {
    env.run(args(env, extra))
}

/// The id in the last line on standard error.
pub(crate) fn run_id(output: &Output) -> String {
    let (_, rest) = output.stderr.rsplit_once("[run ").expect("a last line");
    rest.split(']').next().unwrap().to_owned()
}

pub(crate) fn events(env: &TestEnv, id: &str) -> Vec<Value> {
    let output = env.run(["events", id, "--json"]).assert_code(0);
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

pub(crate) fn status(env: &TestEnv, id: &str) -> Value {
    let text = env.run(["status", id, "--json"]).assert_code(0).stdout;
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

/// A loop that says what it does, five times at most.
pub(crate) const LOOP: &str = "loop: {until: COMPLETE, max_iterations: 5}\nprompt: do $USER_MESSAGE\n";

// --- an agent that prints events ----------------------------------------------------------------------------

/// The user has configured the agent `mine`, which prints what Claude Code prints; each of its runs takes the next script.
pub(crate) fn with_events_agent(env: &TestEnv, turns: &[&str]) {
    let (program, turns) = (fake_agent(), env.turns(turns));
    let config = format!(
        "agents:\n  mine:\n    command: [\"{}\", --turns, \"{}\"]\n    output: claude\n    resume: [--resume, \"{{session}}\"]\n",
        program.display(),
        turns.display()
    );
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), config).unwrap();
}

/// The arguments of `workflow run w` with that agent.
pub(crate) fn mine(extra: &[&str]) -> Vec<String> {
    let fixed = ["workflow", "run", "w", "--trust", "--restart-delay", "0s", "--agent", "mine"];
    fixed.iter().chain(extra).map(|word| (*word).to_owned()).collect()
}

fn event(value: &Value) -> String {
    format!("say '{value}'")
}

pub(crate) fn message(text: &str) -> String {
    event(&json!({"type": "assistant", "message": {
        "id": text, "model": "claude-opus-5-5", "role": "assistant", "content": [{"type": "text", "text": text}],
    }}))
}

pub(crate) fn tool(command: &str) -> String {
    event(&json!({"type": "assistant", "message": {
        "id": command, "model": "claude-opus-5-5", "content": [{"type": "tool_use", "name": "Bash", "input": {"command": command}}],
    }}))
}

/// The final event, with the session and what was spent.
pub(crate) fn result(session: &str, cost_usd: f64) -> String {
    event(&json!({
        "type": "result", "subtype": "success", "is_error": false, "session_id": session, "result": "",
        "total_cost_usd": cost_usd, "usage": {"input_tokens": 10, "output_tokens": 10},
    }))
}

pub(crate) fn script(commands: &[String]) -> String {
    commands.join("\n")
}
