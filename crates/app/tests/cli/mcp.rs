//! `dacapo mcp`: an agent talks to the supervisor of its loop by calling tools.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

use crate::support::{LONG, Task, assert_has, last_line, world};

/// The line that calls a tool; its id is the name of the tool.
fn call(tool: &str, arguments: Value) -> String {
    json!({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
        .to_string()
}

/// Lets the workspace hold `NAME.in`, and gives the command of a script that has these lines answered in `NAME.out`.
fn calls(env: &TestEnv, name: &str, flags: &str, lines: &[String]) -> String {
    let greeting = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}});
    let mut text = format!("{greeting}\n");
    for line in lines {
        text.push_str(&format!("{line}\n"));
    }
    env.write(format!("{name}.in"), text);
    format!("sh 'dacapo mcp {flags} <{name}.in >{name}.out 2>{name}.err'\n")
}

/// What was answered to the call with this id.
#[track_caller]
fn answer(env: &TestEnv, name: &str, id: &str) -> Value {
    let out = env.read(format!("{name}.out"));
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let found = answers.into_iter().find(|answer| answer["id"] == id);
    found.unwrap_or_else(|| panic!("no answer to {id} in:\n{out}{}", env.read(format!("{name}.err"))))
}

#[track_caller]
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn done_is_a_claim_that_gates_judge_and_the_refusal_can_be_read() {
    let env = world();
    let done = |name| calls(&env, name, "", &[call("done", json!({"note": "all of it"}))]);
    let first = done("first");
    let read = [call("refusal", json!({})), call("task", json!({})), call("limits", json!({}))];
    let second = calls(&env, "read", "", &read);
    let script = format!("@1: {first}@2: {second}@2: touch work\n@2: {}", done("last"));
    let output = env.run_loop(&script, &["--gate", "test -e work", "--max-time", "1h", "-n", "5"]);
    output.assert_code(0);
    assert_has(text(&answer(&env, "first", "done")), "these gates decide: test -e work");
    assert_eq!(
        answer(&env, "first", "done")["result"]["structuredContent"]["gates"],
        json!(["test -e work"])
    );
    assert_eq!((env.events_of("t", "claim_made").len(), env.events_of("t", "claim_refused").len()), (2, 1));
    assert_has(text(&answer(&env, "read", "refusal")), "The claim of iteration 1 was refused");
    let task = answer(&env, "read", "task");
    assert_has(text(&task), "test -e work");
    assert_eq!(task["result"]["structuredContent"]["project"], "p");
    let limits = answer(&env, "read", "limits");
    assert_has(text(&limits), "Iteration 2 of at most 5.");
    assert_eq!(limits["result"]["structuredContent"]["max_time_ms"], 3_600_000, "{limits}");
}

#[test]
fn blocked_ask_wait_progress_and_post_do_what_the_agent_could_do_without_tools() {
    let env = world();
    let said = calls(
        &env,
        "said",
        "",
        &[
            call("progress", json!({"text": "half of it"})),
            call("post", json!({"type": "FACT", "body": "for all", "project": true})),
            call("blocked", json!({"why": "there is\nno key"})),
        ],
    );
    let output = env.run_loop(&said, &[]).assert_code(4);
    assert_has(last_line(&output), "there is no key");
    assert_eq!(env.events_of("t", "blocked")[0]["why"], "there is no key");
    env.assert_on_bus("PROGRESS", "half of it");
    assert_has(&env.run(["bus", "read", "--project", "p", "--json"]).stdout, "for all");

    let env = world();
    let asked = calls(
        &env,
        "asked",
        "",
        &[
            call("ask", json!({"question": "Which one?"})),
            call("done", json!({})),
            call("wait", json!({"why": "the answer"})),
        ],
    );
    let output = env.run_loop(&asked, &[]).assert_code(4);
    assert_has(last_line(&output), "stopped (question): Which one?");
    let refused = answer(&env, "asked", "done");
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_has(text(&refused), "your question is not answered yet: Which one?");
    assert!(env.events_of("t", "claim_made").is_empty());
}

#[test]
fn run_starts_a_child_only_where_that_is_allowed_and_done_waits_for_it() {
    let env = world();
    let config = env.home().join(".config/dacapo/config.yaml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let command = "cat >given.new; mv given.new given; while ! test -e go; do sleep 0.02; done; echo '<promise>DONE</promise>'";
    fs::write(config, format!("agents: {{mine: {{command: [sh, -c, \"{command}\"]}}}}\n")).unwrap();
    let run = call("run", json!({"prompt": "- a part of it", "agent": "mine", "max_iterations": 1}));
    let forbidden = calls(&env, "forbidden", "", std::slice::from_ref(&run));
    let begun = calls(&env, "begun", "--allow-run", &[run, call("done", json!({}))]);
    let script = format!("{forbidden}{begun}touch ready\nwait-file over\npromise");
    let running = env.start_loop(&script, &["-n", "1"]);
    assert_eq!(answer(&env, "forbidden", "run")["error"]["code"], -32602);
    let id = answer(&env, "begun", "run")["result"]["structuredContent"]["id"].as_str().unwrap().to_owned();
    let refused = answer(&env, "begun", "done");
    assert_has(text(&refused), &format!("child loops of yours still run: {id}"));
    env.wait_for_file("given");
    assert_has(&env.read("given"), "- a part of it");
    env.write("go", "");
    env.wait_until("the child has ended", LONG, || {
        env.run(["status", &id, "--json"]).stdout.contains("completed")
    });
    env.write("over", "");
    running.wait(LONG).assert_code(0);
    let loops: Value = serde_json::from_str(&env.run(["status", "--all", "--json"]).stdout).unwrap();
    let child = loops.as_array().unwrap().iter().find(|seen| seen["id"] == id.as_str()).unwrap();
    assert_eq!(child["parent"], env.status("t")["id"]);
}

#[test]
fn a_child_is_watched_to_its_end() {
    let env = world();
    let config = env.home().join(".config/dacapo/config.yaml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(config, "agents: {mine: {command: [sh, -c, \"echo '<promise>DONE</promise>'\"]}}\n").unwrap();
    // One line after the other: the second names what the first was answered.
    env.write(
        "watch.sh",
        r#"mkfifo in; dacapo mcp --allow-run <in >out & exec 3>in
echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{"prompt":"x","agent":"mine"}}}' >&3
until grep -q '"id":1' out; do :; done
id=$(sed 's/.*"structuredContent":{"id":"\([a-z0-9]*\)".*/\1/' out)
printf '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"id":"%s","wait":30}}}\n' "$id" >&3
printf '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run","arguments":{"id":"nobody"}}}\n' >&3
exec 3>&-; wait
"#,
    );
    env.run_loop("sh sh watch.sh; promise", &["-n", "1"]).assert_code(0);
    let answers: Vec<Value> =
        env.read("out").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen = &answers[1]["result"]["structuredContent"]["loops"][0];
    assert_eq!((&seen["state"], &seen["running"]), (&json!("completed"), &json!(false)), "{answers:?}");
    assert_has(text(&answers[2]), "you have no child loop `nobody`");
}

#[test]
fn nonsense_is_answered_and_never_ends_the_server() {
    let env = world();
    let mut command = env.command(env!("CARGO_BIN_EXE_dacapo"));
    let mut server = command
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(5 << 20));
    for (line, code) in [("{", -32700), ("[]", -32600), (long.as_str(), -32600), ("\u{0}\u{1}", -32700)] {
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        let mut said = String::new();
        output.read_line(&mut said).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["error"]["code"], code, "{said}");
    }
    // Outside of every loop its tools say so, and it is there all the same.
    writeln!(input, "{}", call("done", json!({}))).unwrap();
    let mut said = String::new();
    output.read_line(&mut said).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["result"]["isError"], true);
    assert_has(text(&said), "does not run in a loop");
    // It waits for its next line without using the processor.
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
        let mut fields = stat.rsplit(") ").next().unwrap().split(' ').skip(11);
        let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
        (stat.rsplit(") ").next().unwrap().chars().next(), next() + next())
    };
    env.wait_until("it sleeps", LONG, || ticks().0 == Some('S'));
    drop(input);
    assert!(server.wait().unwrap().success(), "the end of its input is its end");
}
