//! Loops that an agent starts itself, and tasks that wait for other tasks.

use std::fs;

use dacapo_testkit::{Signal, TestEnv};
use serde_json::Value;

use crate::support::{LONG, Task, assert_has, last_line, world};

/// Lets the workspace hold `child.sh`, which starts a loop of task `c` and waits until it has begun.
fn child(env: &TestEnv, script: &str) {
    let line = env.shell_line("c", script, "");
    let wait = "while ! dacapo events c --json 2>/dev/null | grep -q agent_started; do :; done";
    env.write("child.sh", format!("{line} >child.out 2>&1 &\n{wait}\n"));
}

#[test]
fn a_loop_started_by_an_agent_belongs_to_its_loop() {
    // req 72, req 93
    let env = world();
    env.write("child.sh", env.shell_line("c", "env-to env; promise", "-n 1"));
    env.run_loop("sh sh child.sh; promise", &[]).assert_code(0);
    let (parent, child) = (env.status("t"), env.status("c"));
    assert_eq!(child["parent"], parent["id"]);
    assert_eq!(child["state"], "completed");
    assert_has(&env.read("env"), &format!("DACAPO_PARENT={}\n", parent["id"].as_str().unwrap()));
}

#[test]
fn a_claim_waits_for_child_loops() {
    // req 69, req 70, req 71
    let env = world();
    child(&env, "wait-file go; promise");
    let running = env.spawn(env.loop_args("sh sh child.sh; done", &["--poll-interval", "20ms"]));
    env.wait_for_event("t", "children_awaited");
    let id = env.status("c")["id"].as_str().unwrap().to_owned();
    env.assert_on_bus("INFO", &format!("waiting for child loops: {id}"));
    assert_eq!(env.status("c")["state"], "running");
    env.write("go", "");
    let output = running.wait(LONG).assert_code(0);
    assert_has(last_line(&output), "task completed (all children finished)");
    env.assert_on_bus("INFO", "task completed (all children finished)");
    assert_eq!(env.status("c")["state"], "completed");
}

#[test]
fn a_child_loop_outlives_the_agent_that_started_it_however_it_ended() {
    // req 72
    for (end, extra) in
        [("exit 0", vec![]), ("kill KILL", vec![]), ("hang", vec!["--iteration-timeout", "2s"])]
    {
        let env = world();
        child(&env, "write child-started; wait-file go; promise");
        let script = format!("@1: sh sh child.sh; {end}\n@2: write go; done");
        let poll = [vec!["--poll-interval", "20ms", "-n", "2"], extra].concat();
        env.run_loop(&script, &poll).assert_code(0);
        let status = env.status("c");
        assert_eq!(
            (&status["state"], &status["iteration"]),
            (&Value::from("completed"), &Value::from(1)),
            "{end}"
        );
        assert_eq!(env.survivors(), Vec::<u32>::new());
    }
}

#[test]
fn without_gates_a_child_that_outlasts_the_wait_is_left_with_a_warning() {
    // req 69, req 71
    let env = world();
    child(&env, "hang");
    let wait = ["--wait-timeout", "100ms", "--poll-interval", "20ms"];
    let output = env.run_loop("sh sh child.sh; done", &wait).assert_code(0);
    let id = env.status("c")["id"].as_str().unwrap().to_owned();
    env.assert_on_bus("WARNING", &format!("child loops still running after the wait: {id}"));
    assert!(!last_line(&output).contains("all children finished"), "{}", last_line(&output));
    assert_eq!(env.status("c")["state"], "running");
    env.run(["cancel", "c"]).assert_code(0);
}

#[test]
fn with_gates_a_child_that_outlasts_the_wait_is_cancelled_before_they_run() {
    // req 69
    let env = world();
    child(&env, "hang");
    let gate =
        ["--wait-timeout", "100ms", "--poll-interval", "20ms", "--gate", "dacapo status c --json >c.json"];
    env.run_loop("sh sh child.sh; done", &gate).assert_code(0);
    assert_has(&env.read("c.json"), "\"state\":\"cancelled\"");
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn cancelling_a_loop_cancels_its_children() {
    // req 71, req 83
    for claim in ["write ready; hang", "write ready; done"] {
        let env = world();
        child(&env, "hang");
        let running = env.start_loop(&format!("sh sh child.sh; {claim}"), &["--poll-interval", "20ms"]);
        env.run(["cancel", "t"]).assert_code(0);
        running.wait(LONG).assert_code(130);
        env.wait_until("the child is cancelled", LONG, || env.status("c")["state"] == "cancelled");
        env.wait_until("nothing is left", LONG, || env.survivors().is_empty());
    }
}

#[test]
fn a_child_whose_dacapo_died_is_not_waited_for() {
    // req 72, fault F14
    let env = world();
    child(&env, "hang");
    let kill = "sh 'kill -9 $(dacapo status c --json | sed \"s/.*\\\"pid\\\":\\([0-9]*\\).*/\\1/\")'";
    env.run_loop(&format!("sh sh child.sh; {kill}; done"), &["--poll-interval", "20ms"]).assert_code(0);
    assert_eq!(env.status("c")["state"], "stopped");
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn children_survive_a_killed_parent() {
    // req 203
    let env = world();
    child(&env, "wait-file go; promise");
    let running = env.start_loop("sh sh child.sh; write ready; hang", &[]);
    running.signal(Signal::KILL);
    drop(running);
    env.wait_until("the parent is seen dead", LONG, || env.status("t")["state"] == "stopped");
    env.write("go", "");
    env.wait_until("the child is done", LONG, || env.status("c")["state"] == "completed");
}

#[test]
fn children_survive_a_killed_keeper() {
    // req 72
    let env = world();
    child(&env, "wait-file go; promise");
    // An agent's parent is its keeper.
    let script = "@1: sh sh child.sh; sh 'kill -9 $(ps -o ppid= -p $PPID)'; hang
        @2: write go; done";
    env.run_loop(script, &["-n", "2", "--poll-interval", "20ms"]).assert_code(0);
    assert_eq!(env.status("c")["state"], "completed");
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn loops_nest_three_deep_and_no_deeper() {
    // fault B9
    let env = world();
    let mut line = env.shell_line("d4", "promise", "-n 1") + " 2>deepest";
    for depth in (1..=3).rev() {
        let file = format!("d{depth}.sh");
        env.write(&file, &line);
        line = env.shell_line(&format!("d{depth}"), &format!("sh sh {file}; promise"), "-n 1");
    }
    env.write("top.sh", &line);
    env.run_loop("sh sh top.sh; promise", &["-n", "1"]).assert_code(0);
    for task in ["d1", "d2", "d3"] {
        assert_eq!(env.status(task)["state"], "completed", "{task}");
    }
    assert_has(&env.read("deepest"), "at most 3 may be nested");
    env.run(["status", "d4"]).assert_code(2);
}

#[test]
fn silence_while_a_child_works_is_no_hang() {
    // req 85
    let env = world();
    child(&env, "sleep 600; promise");
    let wait = "sh 'while dacapo status c --json | grep -q running; do sleep 0.05; done'";
    let script = format!("sh sh child.sh; {wait}; promise");
    env.run_loop(&script, &["-n", "1", "--idle-timeout", "300ms"]).assert_code(0);
}

#[test]
fn a_task_starts_when_those_before_it_are_done() {
    // req 99
    let env = world();
    let first = env.shell_line("first", "wait-file go; promise", "--detach");
    env.write("first.sh", first.replacen("dacapo", env!("CARGO_BIN_EXE_dacapo"), 1));
    let mut shell = env.command("sh");
    shell.arg("first.sh");
    env.run_command(shell).assert_code(0);
    let running = env.spawn(env.loop_args("promise", &["--after", "first", "--poll-interval", "20ms"]));
    env.wait_for_event("t", "tasks_awaited");
    let status = env.status("t");
    assert_eq!((&status["state"], &status["iteration"]), (&Value::from("parked"), &Value::from(0)));
    env.assert_on_bus("INFO", "waiting for tasks: first");
    env.write("go", "");
    running.wait(LONG).assert_code(0);
    let order: Vec<String> =
        env.events(None).iter().filter_map(|e| e["type"].as_str().map(str::to_owned)).collect();
    let finished = order.iter().position(|kind| kind == "loop_finished").unwrap();
    let last_start = order.iter().rposition(|kind| kind == "agent_started").unwrap();
    assert!(finished < last_start, "{order:?}");
}

#[test]
fn a_done_file_of_the_awaited_task_is_enough() {
    // req 99
    let env = world();
    fs::create_dir_all(env.folder("first")).unwrap();
    fs::write(env.folder("first").join("DONE"), "").unwrap();
    env.run_loop("promise", &["--after", "first", "--poll-interval", "20ms"]).assert_code(0);
}

#[test]
fn tasks_that_would_wait_for_each_other_are_refused() {
    // req 99
    let env = world();
    let output = env.run_loop("promise", &["--after", "t"]).assert_code(2);
    assert_has(last_line(&output), "tasks would wait for each other: t → t");
    let running = env.spawn(env.loop_args("promise", &["--after", "other", "--poll-interval", "20ms"]));
    env.wait_for_event("t", "tasks_awaited");
    let args = ["--project", "p", "--task", "other", "--after", "t"];
    let output = env.run_agent("promise", args).assert_code(2);
    assert_has(last_line(&output), "other → t → other");
    // A loop that waits can be cancelled before its first agent.
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert_eq!(env.starts(), 0);
}
