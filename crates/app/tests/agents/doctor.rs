//! `dacapo doctor` about agents, and `--probe`.

use std::{fs, path::Path};

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

use crate::{CURIOUS, assert_has, dacapo, install, is_root, json, last_line, run, user, world};

fn agents(findings: &Value) -> Vec<(String, Value, Value, String)> {
    let all = findings.as_array().expect("a list").iter().filter(|finding| finding["name"] == "agent");
    all.map(|finding| {
        let agent = &finding["agent"];
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        (text(&agent["name"]), agent["version"].clone(), agent["signed_in"].clone(), text(&finding["level"]))
    })
    .collect()
}

#[test]
fn agents_are_found_with_their_version_and_whether_they_are_signed_in() {
    let env = world();
    install(&env, "claude", CURIOUS);
    install(&env, "codex", "echo codex-cli 0.166.0");
    install(&env, "gemini", "exit 3");
    install(&env, "mine", CURIOUS);
    user(&env, "agents: {own: {command: [mine]}, gone: {command: [nowhere]}}\n");
    fs::create_dir(env.home().join(".codex")).unwrap();
    fs::write(env.home().join(".codex/auth.json"), r#"{"token": "canary-4711"}"#).unwrap();
    let command = |args: &[&str]| {
        let mut command = dacapo(&env, args);
        command.env("GEMINI_API_KEY", "canary-4711");
        env.run_command(command).assert_code(0)
    };
    let told = command(&["doctor", "--json"]);
    let findings: Value = serde_json::from_str(&told.stdout).unwrap();
    let row = |name: &str, version: Value, signed_in: Value, level: &str| {
        (name.to_owned(), version, signed_in, level.to_owned())
    };
    assert_eq!(
        agents(&findings),
        [
            row("claude", json!("9.9.9 (Test)"), json!(false), "warn"),
            row("codex", json!("codex-cli 0.166.0"), json!(true), "ok"),
            row("gemini", Value::Null, json!(true), "ok"),
            row("own", json!("9.9.9 (Test)"), Value::Null, "ok"),
        ]
    );
    let text = command(&["doctor"]).stdout;
    assert_has(&text, "claude 9.9.9 (Test), not signed in as far as can be told");
    assert_has(&text, "hint: run `claude`, then `/login`");
    assert_has(&text, "signed in by GEMINI_API_KEY");
    assert_has(&text, "not installed: opencode, qwen, copilot, pi, gone");
    // fault K6: what signs in is named, never shown.
    assert!(!text.contains("4711") && !told.stdout.contains("4711"));
}

#[test]
fn without_any_agent_the_way_to_get_one_is_told() {
    let env = world();
    let findings = json(&env, ["doctor", "--json"]);
    let last = findings.as_array().unwrap().last().unwrap();
    assert_eq!((&last["name"], &last["level"]), (&json!("agents"), &json!("warn")));
    assert_has(last["hint"].as_str().unwrap(), "npm install -g @anthropic-ai/claude-code");
    user(&env, "agents: 5\n");
    let output = run(&env, ["doctor"]).assert_code(5);
    assert_has(&output.stdout, "`agents` must be a map of names");
}

/// What Claude Code prints around an answer.
fn claude(result: &str) -> String {
    format!(
        "cat >/dev/null\n\
         echo '{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\"}}'\n{result}"
    )
}

const READY: &str = r#"echo '{"type":"assistant","message":{"id":"1","role":"assistant","content":[{"type":"text","text":"READY"}],"usage":{"input_tokens":1,"output_tokens":1}},"session_id":"s"}'
echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"READY","session_id":"s","total_cost_usd":0.01,"usage":{"input_tokens":1,"output_tokens":1}}'"#;

const SIGNED_OUT: &str = r#"echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"terminal_reason":"api_error","result":"Failed to authenticate. API Error: 401","session_id":"s","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}'
exit 1"#;

#[test]
fn a_probe_says_what_came_of_one_tiny_prompt() {
    // req 20, fault C4
    let env = world();
    let seen = env.root().join("seen");
    for (script, code, outcome, words, hint) in [
        (claude(READY), 0, "completed", "READY", None),
        (claude(SIGNED_OUT), 4, "auth", "401", Some("/login")),
        ("echo 'segfault ahead' >&2; exit 139".to_owned(), 1, "crash", "segfault ahead", None),
    ] {
        // What it was given, kept where the test can see it.
        let script = format!("pwd >{0}; printf '%s\\n' \"$@\" >>{0}\n{script}", seen.display());
        install(&env, "claude", &script);
        let output = run(&env, ["doctor", "--probe", "claude", "--json"]).assert_code(code);
        let told: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(output.stderr, "", "scripts are told nothing else");
        assert_eq!(told["outcome"], outcome, "{told}");
        assert_has(told["detail"].as_str().unwrap(), words);
        match hint {
            Some(hint) => assert_has(told["hint"].as_str().unwrap(), hint),
            None => assert_eq!(told["hint"], Value::Null),
        }
        let output = run(&env, ["doctor", "--probe", "claude"]).assert_code(code);
        assert_has(&output.stderr, "asking claude … up to 2m0s\n");
        assert_has(&output.stdout, &format!("claude: {outcome} after"));
        assert_has(&fs::read_to_string(&seen).unwrap(), "--dangerously-skip-permissions");
    }
    assert_cleaned(&env, &seen);
}

/// The folder that an agent was asked in is gone, and the repository was not it.
fn assert_cleaned(env: &TestEnv, seen: &Path) {
    let seen = fs::read_to_string(seen).expect("it ran");
    let folder = seen.lines().next().unwrap_or_default();
    assert!(folder.contains("dacapo-probe") && !Path::new(folder).exists(), "{folder}");
    assert_eq!(fs::read_dir(env.workspace()).expect("it is there").count(), 0);
    assert_eq!(env.survivors(), [0; 0]);
}

#[test]
fn a_probe_leaves_no_process_behind() {
    // fault B1
    let env = world();
    install(&env, "mine", "sleep 300 & sleep 300 >/dev/null 2>&1 & echo READY");
    user(&env, "agents: {mine: {command: [mine]}}\n");
    let told = json(&env, ["doctor", "--probe", "mine", "--json"]);
    assert_eq!((&told["outcome"], &told["detail"]), (&json!("completed"), &json!("READY")));
    assert_eq!(env.survivors(), [0; 0]);
}

#[test]
fn a_probe_of_what_cannot_start_says_why() {
    let env = world();
    let output = run(&env, ["doctor", "--probe", "codex"]).assert_code(5);
    assert_has(&output.stderr, "`npm install -g @openai/codex` installs it");
    let output = run(&env, ["doctor", "--probe", "codx"]).assert_code(2);
    assert_has(last_line(&output), "did you mean `codex`?");
    if is_root() {
        install(&env, "claude", CURIOUS);
        user(&env, "");
        let output = run(&env, ["doctor", "--probe", "claude"]).assert_code(4);
        assert_has(&output.stderr, "allow_root: true");
    }
}
