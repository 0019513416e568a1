//! `dacapo` below an agent: it asks the supervisor of the agent's loop, which knows who asks and what an agent may not.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
};

use dacapo_testkit::{Signal, TestEnv};
use serde_json::{Value, json};

use crate::support::{LONG, Task, assert_has, last_line, world};

/// A line of a script: a command of the shell, whose output and exit code go to `NAME.out` and `NAME.code`.
fn noted(name: &str, command: &str) -> String {
    format!("sh '{command} >{name}.out 2>&1; echo $? >{name}.code'\n")
}

#[track_caller]
fn assert_refused(env: &TestEnv, name: &str, code: &str, words: &str) {
    let out = env.read(format!("{name}.out"));
    assert_eq!(env.read(format!("{name}.code")).trim(), code, "{name}: {out}");
    assert!(out.contains(words), "{name}: no `{words}` in:\n{out}");
}

fn answer(env: &TestEnv, file: &str) -> Value {
    serde_json::from_str(&env.read(file)).expect("a line of JSON")
}

#[test]
fn an_agent_reads_its_own_loop_through_its_supervisor() {
    let env = world();
    let script = [
        "say hello from the agent\n",
        &noted("status", "dacapo status --json"),
        &noted("why", "dacapo why t"),
        &noted("events", "dacapo events t --json"),
        &noted("logs", "dacapo logs t"),
        &noted("post", "dacapo bus post --type INFO \"a word\""),
        &noted("read", "dacapo bus read"),
        &noted("project", "dacapo bus post --project p --type FACT \"for all\""),
        &noted("doctor", "dacapo doctor"),
        "promise",
    ]
    .concat();
    env.run_loop(&script, &[]).assert_code(0);
    let id = env.status("t")["id"].clone();
    for name in ["status", "why", "events", "logs", "post", "read", "project"] {
        assert_eq!(
            env.read(format!("{name}.code")).trim(),
            "0",
            "{name}: {}",
            env.read(format!("{name}.out"))
        );
    }
    let status: Value = serde_json::from_str(&env.read("status.out")).unwrap();
    assert_eq!((status.as_array().unwrap().len(), &status[0]["id"]), (1, &id));
    assert_eq!(status[0]["state"], "running");
    assert_has(&env.read("events.out"), "\"type\":\"agent_started\"");
    assert_has(&env.read("logs.out"), "hello from the agent");
    assert_has(&env.read("read.out"), "INFO t: a word");
    assert_has(&env.read("doctor.out"), "whose supervisor answers");
    env.assert_on_bus("INFO", "a word");
    let project = env.run(["bus", "read", "--project", "p", "--json"]).assert_code(0).stdout;
    let first: Value = serde_json::from_str(project.lines().next().unwrap()).unwrap();
    assert_eq!((&first["type"], &first["loop"]), (&json!("FACT"), &id), "the supervisor says who posted");
}

#[test]
fn what_an_agent_says_through_the_socket_counts_as_if_it_had_written_it() {
    let env = world();
    let script = "@1: ask ask.json {\"v\":1,\"ask\":\"question\",\"text\":\"Which one?\"}
        wait-file seen
        ask wait.json {\"v\":1,\"ask\":\"wait\",\"why\":\"an answer\"}
        @2: ask claim.json {\"v\":1,\"ask\":\"claim\",\"note\":\"all of it\"}";
    let running = env.spawn(env.loop_args(script, &[]));
    // Shown while the agent still runs.
    env.wait_until("the question is seen", LONG, || {
        env.run(["status", "t", "--json"]).stdout.contains("Which one?")
    });
    env.write("seen", "");
    let output = running.wait(LONG).assert_code(4);
    assert_has(last_line(&output), "stopped (question): Which one?");
    for file in ["ask.json", "wait.json"] {
        assert_eq!(answer(&env, file)["answer"], "taken", "{file}");
    }
    env.run(["resume", "t"]).assert_code(0);
    assert_eq!(answer(&env, "claim.json")["answer"], "taken");
    assert_eq!(fs::read_to_string(env.folder("t").join("DONE")).unwrap(), "all of it");
}

#[test]
fn an_agent_claims_waits_and_asks_by_commands() {
    let env = world();
    let script = [
        "@1: ",
        &noted("ask", "dacapo ask \"Which one?\""),
        "@1: wait-file seen\n",
        "@1: ",
        &noted("wait", "dacapo wait \"for an answer\""),
        "@2: touch work\n",
        "@2: ",
        &noted("claim", "dacapo claim \"all of it\""),
    ]
    .concat();
    let running = env.spawn(env.loop_args(&script, &["--gate", "test -e work"]));
    // Shown while the agent still runs.
    env.wait_until("the question is seen", LONG, || {
        env.run(["status", "t", "--json"]).stdout.contains("Which one?")
    });
    env.write("seen", "");
    let output = running.wait(LONG).assert_code(4);
    assert_has(last_line(&output), "stopped (question): Which one?");
    env.assert_on_bus("QUESTION", "Which one?");
    env.assert_on_bus("wait_without_restart", "for an answer");
    env.run(["resume", "t"]).assert_code(0);
    for (name, words) in [
        ("ask", "Asked. The answer will be in the next prompt."),
        ("wait", "it is not started again before the user has done something"),
        ("claim", "these gates decide: test -e work"),
    ] {
        assert_refused(&env, name, "0", words);
    }
    assert_eq!(fs::read_to_string(env.folder("t").join("DONE")).unwrap(), "all of it");
    assert_eq!(env.events_of("t", "claim_accepted").len(), 1);
    for (command, word) in [("claim", "it is done"), ("wait", "for you"), ("ask", "why?")] {
        let output = env.run([command, word]).assert_code(2);
        assert_has(last_line(&output), "is for the agent of a loop");
    }
}

/// Less than a follower waits before it looks without having been told.
const TOLD: std::time::Duration = std::time::Duration::from_secs(20);

#[test]
fn what_follows_below_an_agent_is_told_at_once() {
    let env = world();
    let script = "sh 'dacapo events t -f --json >events.out 2>&1 &'
        sh 'dacapo bus follow --json >bus.out 2>&1 &'
        sh 'dacapo logs t --stderr -f >logs.out 2>&1 &'
        touch ready
        wait-file more
        sh 'echo a line on standard error >&2'
        wait-file seen
        promise";
    let running = env.start_loop(script, &[]);
    env.wait_until("the events so far are shown", LONG, || env.read("events.out").contains("agent_started"));
    env.run(["steer", "t", "a word"]).assert_code(0);
    env.wait_until("the steer is told", TOLD, || env.read("events.out").contains("\"type\":\"steered\""));
    // A follower shows what is posted after it has begun, so this is said until it has.
    env.wait_until("a message is told", TOLD, || {
        env.run(["bus", "post", "--project", "p", "--task", "t", "--type", "INFO", "a message"])
            .assert_code(0);
        env.read("bus.out").contains("a message")
    });
    env.write("more", "");
    env.wait_until("a line is told", TOLD, || env.read("logs.out").contains("a line on standard error"));
    env.write("seen", "");
    running.wait(LONG).assert_code(0);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn what_decides_is_refused_below_an_agent() {
    // fault K1
    let env = world();
    let other = env.spawn(env.run_agent_args("touch other; hang", ["--project", "p", "--task", "other"]));
    env.wait_for_file("other");
    let commands = [
        ("trust", "dacapo trust --yes"),
        ("revoke", "dacapo trust --revoke"),
        ("steer", "dacapo steer t \"go on\""),
        ("pause", "dacapo pause t"),
        ("resume", "dacapo resume t"),
        ("cancel", "dacapo cancel t"),
        ("restore", "dacapo restore t@0"),
        ("clean", "dacapo clean"),
        ("verify", "dacapo verify t"),
        ("units", "dacapo unit run"),
        ("approve", "dacapo approve t"),
        ("signal", "dacapo signal t deployed"),
    ];
    let mut script: String = commands.iter().map(|(name, command)| noted(name, command)).collect();
    script += &noted("stranger", "dacapo cancel other");
    script += &noted("strangers-bus", "dacapo bus post --task other --type wait_without_restart x");
    script += &noted("help", "dacapo run --help");
    script += &noted("words", "dacapo completions bash");
    script += "promise";
    env.run_loop(&script, &["-n", "1"]).assert_code(0);
    for (name, _) in commands {
        assert_refused(&env, name, "4", "the agent of a loop cannot");
    }
    assert_refused(&env, "stranger", "2", "neither this loop nor a child of it");
    assert_refused(&env, "strangers-bus", "4", "neither its own nor a child's");
    for name in ["help", "words"] {
        assert_eq!(env.read(format!("{name}.code")).trim(), "0", "{name}");
    }
    assert_eq!(env.status("other")["state"], "running");
    env.run(["cancel", "other"]).assert_code(0);
    other.wait(LONG).assert_code(130);
}

#[test]
fn an_environment_that_an_agent_forges_opens_nothing() {
    let env = world();
    let other = env.spawn(env.run_agent_args("touch other; hang", ["--project", "p", "--task", "other"]));
    env.wait_for_file("other");
    let id = env.status("other")["id"].as_str().unwrap().to_owned();
    let script = [
        &noted("unset", "env -u DACAPO_SOCKET dacapo status"),
        &noted("bare", "env -u DACAPO_SOCKET -u DACAPO_LOOP dacapo cancel other"),
        &noted("spelled", "env -u DACAPO_SOCKET DACAPO_HOME=$DACAPO_HOME/../state/. dacapo status"),
        &noted("nowhere", "DACAPO_SOCKET=/nowhere/at/all dacapo status"),
        &noted("theirs", &format!("DACAPO_SOCKET=$DACAPO_HOME/sockets/{id} dacapo status")),
        &noted("posted", &format!("DACAPO_LOOP={id} dacapo bus post --type INFO forged")),
        &noted("child", &format!("echo \"{{\\\"v\\\":1,\\\"parent\\\":\\\"{id}\\\",\\\"args\\\":[\\\"run\\\",\\\"x\\\"],\\\"dir\\\":\\\"/\\\",\\\"env\\\":[]}}\" | dacapo child")),
        "promise",
    ]
    .map(ToString::to_string)
    .concat();
    env.run_loop(&script, &["-n", "1"]).assert_code(0);
    for name in ["unset", "bare", "spelled"] {
        assert_refused(&env, name, "5", "DACAPO_SOCKET does not say where");
    }
    assert_refused(&env, "nowhere", "5", "DACAPO_SOCKET names `/nowhere/at/all`");
    assert_refused(&env, "theirs", "4", "only what the agent of this loop has started");
    assert_refused(&env, "child", "4", "the agent of a loop cannot");
    let bus = env.run(["bus", "read", "--project", "p", "--task", "t", "--json"]).assert_code(0).stdout;
    let forged: Value = bus
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|m: &Value| m["body"] == "forged")
        .unwrap();
    assert_eq!(forged["loop"], env.status("t")["id"], "who posts is known, not said");
    assert_eq!(env.status("other")["state"], "running");
    env.run(["cancel", "other"]).assert_code(0);
    other.wait(LONG).assert_code(130);
}

#[test]
fn a_process_outside_the_agent_is_refused_at_the_socket() {
    let env = world();
    let running = env.start_loop("touch ready; hang", &[]);
    let id = env.status("t")["id"].as_str().unwrap().to_owned();
    let sockets = env.dacapo_home().join("sockets");
    assert_eq!(fs::metadata(&sockets).unwrap().permissions().mode() & 0o777, 0o700);
    let socket = sockets.join(&id);
    let mut stream = UnixStream::connect(&socket).unwrap();
    // The supervisor refuses by who is connected, perhaps before anything was sent.
    let _ = stream.write_all(b"{\"v\":1,\"ask\":\"claim\",\"note\":\"\"}\n");
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert_has(&line, "only what the agent of this loop has started");
    assert!(!env.folder("t").join("DONE").exists());
    let mut command = env.dacapo(["bus", "post", "--type", "INFO", "x"]);
    command.env("DACAPO_SOCKET", &socket);
    let output = env.run_command(command).assert_code(4);
    assert_has(last_line(&output), "only what the agent of this loop has started");
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert!(!socket.exists(), "the end of a loop is the end of its socket");
}

#[test]
fn a_crowd_at_the_socket_stops_neither_the_loop_nor_others_who_ask() {
    let env = world();
    let script = "crowd 100; sh 'dacapo bus post --type INFO through'; crowd 20; promise";
    env.run_loop(script, &["-n", "1"]).assert_code(0);
    env.assert_on_bus("INFO", "through");
}

#[test]
fn a_flood_of_connections_does_not_hold_up_what_the_user_asks() {
    let env = world();
    env.write("flood.sh", "while :; do dacapo status >/dev/null 2>&1; done");
    let script = "spawn 'crowd 128; hang'; sh 'sh flood.sh &'; touch ready; hang";
    let running = env.start_loop(script, &[]);
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn what_an_agent_puts_in_place_of_a_file_does_not_hold_up_its_supervisor() {
    let env = world();
    // In a sandbox nothing could be put there.
    env.without_sandbox();
    env.write("pipe.sh", "mkfifo $TASK_FOLDER/runs/$DACAPO_LOOP.gates\n");
    let script = ["sh sh pipe.sh\n", &noted("logs", "dacapo logs --gates"), "promise"].concat();
    env.run_loop(&script, &["-n", "1"]).assert_code(0);
    assert_refused(&env, "logs", "5", "it is no file");
}

#[test]
fn nonsense_is_answered_in_words() {
    let env = world();
    let script = "ask a.json nonsense
        ask b.json {\"v\":9,\"ask\":\"family\"}
        ask c.json {\"v\":1,\"ask\":\"approve\"}
        ask d.json {\"v\":1,\"ask\":\"start\",\"args\":[\"clean\"],\"dir\":\"/\",\"env\":[],\"input\":null,\"is_detached\":false}
        ask e.json {\"v\":1,\"ask\":\"start\",\"args\":[\"run\"],\"dir\":\"/\",\"env\":[],\"input\":null,\"is_detached\":false}
        promise";
    env.run_loop(script, &["-n", "1"]).assert_code(0);
    for (file, why) in [
        ("a.json", "not understood"),
        ("b.json", "version 1 of its protocol, not 9"),
        ("c.json", "not understood"),
        ("d.json", "by `dacapo run` only"),
        ("e.json", "two descriptors"),
    ] {
        let said = answer(&env, file);
        assert_eq!(said["answer"], "refused", "{file}: {said}");
        assert_has(said["why"].as_str().unwrap(), why);
    }
}

#[test]
fn the_socket_of_a_killed_supervisor_is_cleared_away_by_the_next_dacapo() {
    // fault F14
    let env = world();
    let running = env.start_loop("touch ready; hang", &[]);
    let id = env.status("t")["id"].as_str().unwrap().to_owned();
    let socket = env.dacapo_home().join("sockets").join(&id);
    let other = env.spawn(env.run_agent_args("touch other; wait-file go; promise", ["--task", "other"]));
    env.wait_for_file("other");
    running.signal(Signal::KILL);
    drop(running);
    env.wait_until("it is seen dead", LONG, || env.status("t")["state"] == "stopped");
    assert!(socket.exists(), "nobody was left to remove it");
    // Whatever runs next puts in order what the dead one left.
    env.run_agent("promise", ["--project", "p", "--task", "next"]).assert_code(0);
    assert!(!socket.exists());
    assert_eq!(fs::read_dir(env.dacapo_home().join("sockets")).unwrap().count(), 1, "the other loop's stays");
    env.write("go", "");
    other.wait(LONG).assert_code(0);
}

#[test]
fn another_state_folder_below_an_agent_is_another_world() {
    // A program under test may run loops of its own, and the demo does.
    let env = world();
    let script = [
        &noted(
            "own",
            &format!("DACAPO_HOME=$PWD/own {}", env.shell_line("own", "promise", "-n 1").replace('\'', "\"")),
        ),
        &noted("demo", "dacapo demo -q"),
        "promise",
    ]
    .map(ToString::to_string)
    .concat();
    env.run_loop(&script, &["-n", "1"]).assert_code(0);
    for name in ["own", "demo"] {
        assert_eq!(
            env.read(format!("{name}.code")).trim(),
            "0",
            "{name}: {}",
            env.read(format!("{name}.out"))
        );
    }
    env.run(["status", "own"]).assert_code(2);
}
