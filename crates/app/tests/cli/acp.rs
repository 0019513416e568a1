//! `--transport acp`: one agent that stays for the whole loop and works on one prompt after the other.

use std::fs;

use dacapo_testkit::{Output, Running, Signal, TestEnv, acp_agent};
use serde_json::{Value, json};

use crate::support::{LONG, Task, assert_has, last_line, world};

fn args(env: &TestEnv, agent: &[&str], extra: &[&str]) -> Vec<String> {
    let log = env.root().join("acp.log");
    let words = agent.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let agent = format!("{} --log {} {words}", acp_agent().display(), log.display());
    let fixed =
        ["run", "do it", "--project", "p", "--task", "t", "--transport", "acp", "--restart-delay", "0s"];
    let fixed = fixed.iter().copied().chain(["--agent-cmd", &agent]).chain(extra.iter().copied());
    fixed.map(str::to_owned).collect()
}

#[track_caller]
fn run(env: &TestEnv, agent: &[&str], extra: &[&str]) -> Output {
    env.run(args(env, agent, extra))
}

fn start(env: &TestEnv, agent: &[&str], extra: &[&str]) -> Running {
    env.spawn(args(env, agent, extra))
}

/// What the agent was told, in order, and when it was started.
fn told(env: &TestEnv) -> Vec<Value> {
    let log = fs::read_to_string(env.root().join("acp.log")).unwrap_or_default();
    log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn methods(env: &TestEnv) -> Vec<String> {
    let name = |message: &Value| match message["method"].as_str() {
        Some(method) => method.to_owned(),
        None if message.get("started").is_some() => "started".to_owned(),
        None => "answer".to_owned(),
    };
    told(env).iter().map(name).collect()
}

fn is_alive(pid: u64) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn every_iteration_is_a_prompt_in_the_same_session_of_the_same_process() {
    let env = world();
    let turns = ["say one; used 100 10", "say two; used 200 20", "write work; used 300 30; promise"];
    run(&env, &turns, &["--gate", "test -e work"]).assert_code(0);
    assert_eq!(
        methods(&env),
        ["started", "initialize", "session/new", "session/prompt", "session/prompt", "session/prompt"]
    );
    let exits = env.events_of("t", "agent_exited");
    assert_eq!(exits.len(), 3);
    for (exit, input) in exits.iter().zip([100, 200, 300]) {
        assert_eq!((&exit["session"], &exit["outcome"]), (&json!("s1"), &json!("completed")), "{exit}");
        assert_eq!(exit["usage"]["input"], input, "{exit}");
    }
    let prompts: Vec<Value> =
        told(&env).into_iter().filter(|said| said["method"] == "session/prompt").collect();
    for (number, prompt) in prompts.iter().enumerate() {
        assert_eq!(prompt["params"]["sessionId"], "s1");
        let text = prompt["params"]["prompt"][0]["text"].as_str().unwrap();
        assert_has(text, "do it");
        assert_has(text, &format!("this is iteration {} of", number + 1));
    }
    // Its words are in the log as any agent's are.
    let logs = env.run(["logs", "t"]).assert_code(0).stdout;
    assert!(logs.contains("one") && logs.contains("two") && !logs.contains("sessionUpdate"), "{logs}");
    assert!(env.survivors().is_empty());
}

#[test]
fn fresh_begins_a_session_for_each_iteration_in_the_same_process() {
    let env = world();
    run(&env, &["say one", "promise"], &["--fresh"]).assert_code(0);
    let expected =
        ["started", "initialize", "session/new", "session/prompt", "session/new", "session/prompt"];
    assert_eq!(methods(&env), expected);
    let sessions: Vec<Value> = told(&env)
        .iter()
        .filter(|said| said["method"] == "session/prompt")
        .map(|said| said["params"]["sessionId"].clone())
        .collect();
    assert_eq!(sessions, ["s1", "s2"]);
}

#[test]
fn nothing_of_the_agent_runs_while_its_work_is_checked() {
    let env = world();
    // The gate sees that the agent is stopped, and that what it left behind in another session is gone.
    // In a sandbox the gate could not see the agent at all.
    env.without_sandbox();
    let gate = "state=$(cut -d')' -f2 /proc/$(cat agent.pid)/stat | cut -c2); test \"$state\" = T || exit 3; \
                ! kill -0 $(cat left.pid) 2>/dev/null || exit 4; test -e work";
    let first = "sh echo $PPID >agent.pid; leave echo $$ >left.pid && exec sleep 600; wait left.pid; promise";
    let output = run(&env, &[first, "write work; promise"], &["--gate", gate, "--kill-grace", "2s"]);
    output.assert_code(0);
    let gates: Vec<Value> =
        env.events_of("t", "gate_finished").iter().map(|gate| gate["exit_code"].clone()).collect();
    assert_eq!(gates, [1, 0], "only the missing file is complained of");
    assert_eq!(env.events_of("t", "agent_exited")[0]["leftovers"], 1);
    assert_eq!(methods(&env).iter().filter(|method| *method == "started").count(), 1);
}

#[test]
fn what_the_agent_itself_has_begun_may_end_by_itself_and_what_does_not_end_is_left_behind() {
    // As `claude-agent-acp` asks `claude auth status` after each turn.
    let env = world();
    let turns = ["begin sleep 0.3 && touch answered; promise", "begin exec sleep 600; write work; promise"];
    run(&env, &turns, &["--gate", "test -e answered && test -e work"]).assert_code(0);
    let left: Vec<Value> =
        env.events_of("t", "agent_exited").iter().map(|exit| exit["leftovers"].clone()).collect();
    assert_eq!(left, [0, 1]);
    assert!(env.survivors().is_empty());
}

#[test]
fn an_agent_that_opens_no_session_is_given_the_time_that_is_set() {
    let env = world();
    let agent = format!("{} --mute", acp_agent().display());
    let words: Vec<String> = agent.split(' ').map(str::to_owned).collect();
    let config = json!({"agents": {"slow": {"command": ["none"], "acp": words, "opening_timeout": "1s"}}});
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), config.to_string()).unwrap();
    let args = ["run", "do it", "--task", "t", "--agent", "slow", "--transport", "acp", "-n", "1"];
    env.run(args.iter().chain(&["--kill-grace", "200ms"])).assert_code(3);
    let exits = env.events_of("t", "agent_exited");
    assert_eq!((exits.len(), &exits[0]["outcome"]), (1, &json!("hang")), "{exits:?}");
    assert!(exits[0]["duration_ms"].as_u64().is_some_and(|took| took < 60_000), "{exits:?}");
}

#[test]
fn permissions_are_given_and_neither_files_nor_terminals_are() {
    let env = world();
    run(&env, &["permit asked; read-file; garbage; promise"], &[]).assert_code(0);
    assert_eq!(env.read("asked"), r#"{"optionId":"yes","outcome":"selected"}"#);
    let refused = told(&env).into_iter().find(|said| said["id"] == 8).unwrap();
    assert_eq!(refused["error"]["code"], -32601);
}

#[test]
fn a_cancel_is_told_to_the_agent_and_an_agent_that_obeys_is_not_killed() {
    let env = world();
    let running = start(&env, &["write ready; until-cancel; write obeyed"], &["--kill-grace", "20s"]);
    env.wait_for_file("ready");
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert!(env.workspace().join("obeyed").exists());
    assert_eq!(methods(&env).last().map(String::as_str), Some("session/cancel"));
    assert!(env.survivors().is_empty());
}

#[test]
fn an_agent_that_never_answers_is_ended_by_the_timeouts_and_another_takes_up_its_session() {
    for (limit, outcome) in [("--iteration-timeout", "timeout"), ("--idle-timeout", "hang")] {
        let env = world();
        let flags = [limit, "3s", "--kill-grace", "200ms", "-n", "2"];
        run(&env, &["sh test -e second || touch first; hang"], &flags).assert_code(3);
        let exits = env.events_of("t", "agent_exited");
        assert_eq!(exits.len(), 2);
        assert!(exits.iter().all(|exit| exit["outcome"] == outcome), "{exits:?}");
        let expected = [
            "started",
            "initialize",
            "session/new",
            "session/prompt",
            "started",
            "initialize",
            "session/load",
            "session/prompt",
        ];
        assert_eq!(
            methods(&env),
            expected,
            "what was said in the session before is no claim of the new turn"
        );
        assert!(env.survivors().is_empty());
    }
}

#[test]
fn an_agent_that_does_not_exit_is_killed_when_the_loop_is_over() {
    let env = world();
    run(&env, &["--stay", "promise"], &["--kill-grace", "300ms"]).assert_code(0);
    assert!(env.survivors().is_empty());
}

#[test]
fn an_error_of_the_agent_is_judged_by_its_words_and_a_new_process_goes_on() {
    let env = world();
    run(&env, &["error Something broke in here"], &["-n", "2"]).assert_code(3);
    let exits = env.events_of("t", "agent_exited");
    assert_eq!(exits[0]["outcome"], "crash");
    assert_has(exits[0]["detail"].as_str().unwrap_or_default(), "Something broke in here");
    assert_eq!(methods(&env).iter().filter(|method| *method == "started").count(), 2);

    let env = world();
    run(&env, &["exit 3", "say unreachable"], &["-n", "1"]).assert_code(3);
    assert_eq!(env.events_of("t", "agent_exited")[0]["exit_code"], 3);
}

#[test]
fn what_cannot_begin_says_why() {
    for (flag, words, code) in [
        ("--signed-out", "Authentication required", 4),
        ("--speaks 2", "it speaks version 2 of the Agent Client Protocol", 5),
    ] {
        let env = world();
        let agent: Vec<&str> = flag.split(' ').chain(["promise"]).collect();
        let output = run(&env, &agent, &["-n", "1", "--kill-grace", "200ms"]).assert_code(code);
        let detail = env.events_of("t", "agent_exited")[0]["detail"].to_string();
        assert_has(&detail, words);
        assert!(!last_line(&output).is_empty());
    }
    // An agent that is none: it prints what it likes and reads nothing.
    let env = world();
    let output = env.run([
        "run",
        "do it",
        "--task",
        "t",
        "--project",
        "p",
        "--transport",
        "acp",
        "--agent-cmd",
        "echo hello",
        "-n",
        "1",
    ]);
    output.assert_code(3);
    assert_eq!(env.events_of("t", "agent_exited")[0]["outcome"], "crash");
}

#[test]
fn a_loop_whose_supervisor_was_killed_goes_on_in_the_same_session() {
    let env = world();
    let turns = ["sh touch ready; sh test -e go || sleep 600", "write second; promise"];
    let running = start(&env, &turns, &[]);
    env.wait_for_file("ready");
    running.signal(Signal::KILL);
    running.wait(LONG);
    env.wait_until("the agent has died with it", LONG, || env.survivors().is_empty());
    env.write("go", "");
    env.run(["resume", "t"]).assert_code(0);
}

#[test]
fn an_agent_at_rest_uses_no_processor() {
    let env = world();
    let gate = "touch gating; while :; do sleep 1; done";
    let running = start(&env, &["write work; promise"], &["--gate", gate, "--kill-grace", "200ms"]);
    env.wait_for_file("gating");
    let pid = u64::from(env.outer_pid(told(&env)[0]["started"].as_u64().unwrap() as u32));
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next()
    };
    assert_eq!(state(), Some('T'), "stopped, and woken by nothing");
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert!(!is_alive(pid));
}

#[test]
fn an_agent_that_stays_can_ask_its_supervisor() {
    let env = world();
    let turns = ["sh dacapo ask \"Which one?\" >out 2>&1", "sh dacapo claim all >claimed 2>&1"];
    run(&env, &turns, &["-n", "2"]).assert_code(0);
    assert_has(&env.read("out"), "Asked.");
    assert_has(&env.read("claimed"), "Taken.");
    env.assert_on_bus("QUESTION", "Which one?");
}

#[test]
fn tools_are_handed_over_where_the_agent_can_take_them() {
    let env = world();
    run(&env, &["promise"], &["--mcp"]).assert_code(0);
    let new = told(&env).into_iter().find(|said| said["method"] == "session/new").unwrap();
    let server = &new["params"]["mcpServers"][0];
    assert_eq!((&server["name"], &server["args"]), (&json!("dacapo"), &json!(["mcp"])), "{new}");
    assert!(server["command"].as_str().is_some_and(|command| fs::metadata(command).is_ok()), "{server}");
    for (flags, words) in [
        (&["--mcp", "--agent-cmd", "cat"][..], "cat cannot be given tools on its command line"),
        (&["--mcp", "--agent", "gemini"], "gemini cannot be given tools on its command line"),
        (&["--transport", "acp", "--agent", "pi"], "pi does not speak the Agent Client Protocol"),
        (&["--transport", "tcp"], "invalid value 'tcp'"),
    ] {
        let output = env.run(["run", "x"].iter().chain(flags)).assert_code(2);
        assert_has(&output.stderr, words);
    }
}
