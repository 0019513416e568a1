//! Loops that an agent starts itself, and tasks that wait for other tasks.

use std::{
    fs,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
};

use dacapo_testkit::{Signal, TestEnv};
use serde_json::{Value, json};

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
fn a_child_is_a_process_of_the_supervisor_and_not_below_the_agent() {
    let env = world();
    child(&env, "wait-file go; promise");
    let running = env.start_loop("sh sh child.sh; touch ready; wait-file go; promise", &[]);
    let pid = |task| env.status(task)["pid"].as_u64().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid("c"))).unwrap();
    let parent = stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_owned();
    assert_eq!(parent, pid("t").to_string());
    env.write("go", "");
    running.wait(LONG).assert_code(0);
    assert_eq!(env.status("c")["state"], "completed");
}

#[test]
fn a_child_prints_where_its_command_was_typed_and_gives_it_its_exit_code() {
    let env = world();
    let failing = env.shell_line("c", "exit 1", "-n 1");
    let asked = env.shell_line("d", "prompt-to given; promise", "-n 1 -P -").replace("'a part of it'", "");
    env.write("child.sh", format!("{failing} >c.out 2>c.err\necho $? >code\necho 'from a pipe' | {asked}\n"));
    env.run_loop("sh sh child.sh; promise", &["-n", "1"]).assert_code(0);
    assert_eq!(env.read("code").trim(), "3");
    assert_has(&env.read("c.out"), "iteration 1/1");
    assert_has(&env.read("c.err"), "failed (max_iterations)");
    assert_has(&env.read("given"), "from a pipe");
}

#[test]
fn the_agents_of_a_child_inherit_what_the_agent_had_and_its_supervisor_does_not() {
    let env = world();
    env.write(
        "trap/git",
        "#!/bin/sh\ntouch \"$0.ran\"\nexec /usr/bin/env -i PATH=/usr/bin:/bin git \"$@\"\n",
    );
    fs::set_permissions(env.workspace().join("trap/git"), fs::Permissions::from_mode(0o755)).unwrap();
    env.git_init();
    let line = env.shell_line("c", "env-to env; promise", "-n 1");
    env.write("child.sh", format!("PATH=$PWD/trap:$PATH COLOUR=blue {line}\n"));
    env.run_loop("sh sh child.sh; promise", &["-n", "1"]).assert_code(0);
    assert_eq!(env.status("c")["state"], "completed");
    assert_has(&env.read("env"), "COLOUR=blue\n");
    assert_has(&env.read("env"), "/trap:");
    assert!(!env.workspace().join("trap/git.ran").exists(), "dacapo ran a program that the agent chose");
}

#[test]
fn a_child_that_is_just_being_started_is_waited_for() {
    // req 69: the agent has ended before the child is in the journal.
    let env = world();
    let line = env.shell_line("c", "promise", "-n 1 -P fifo").replace("'a part of it'", "");
    // A shell that has not become dacapo yet is a process like any other, and is ended with the agent.
    let is_there = "until [ \"$(cat /proc/$!/comm)\" = dacapo ]; do :; done";
    env.write("child.sh", format!("mkfifo fifo\n{line} >child.out 2>&1 &\n{is_there}\n"));
    let running =
        env.spawn(env.loop_args("sh sh child.sh; promise", &["-n", "1", "--poll-interval", "20ms"]));
    env.wait_for_event("t", "claim_made");
    assert_eq!(env.status("t")["state"], "gating");
    // Not waiting for a reader: if the child is gone, this says so.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut fifo = fs::OpenOptions::new()
        .write(true)
        .custom_flags(nonblocking)
        .open(env.workspace().join("fifo"))
        .expect("the child waits for its prompt");
    fifo.write_all(b"a part of it").unwrap();
    drop(fifo);
    running.wait(LONG).assert_code(0);
    assert_eq!(env.status("c")["state"], "completed");
    assert_eq!(env.status("c")["parent"], env.status("t")["id"]);
}

#[test]
fn a_child_that_is_just_being_started_does_not_escape_a_cancel() {
    // req 83: its prompt never comes, so it never gets into the journal.
    let env = world();
    let line = env.shell_line("c", "promise", "-n 1 -P fifo").replace("'a part of it'", "");
    env.write("child.sh", format!("mkfifo fifo\n{line} >child.out 2>&1 &\n"));
    let running = env.start_loop("sh sh child.sh; touch ready; hang", &[]);
    // Its supervisor, its keeper, its agent, the command that waits, and the child.
    env.wait_until("the child's process is there", LONG, || {
        env.survivors().iter().any(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"dacapo\0child"))
        })
    });
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    env.wait_until("nothing is left", LONG, || env.survivors().is_empty());
    env.run(["status", "c"]).assert_code(2);
}

#[test]
fn only_a_supervisor_makes_a_loop_its_child() {
    let env = world();
    let running = env.start_loop("touch ready; wait-file go; promise", &[]);
    let id = env.status("t")["id"].clone();
    let args = ["run", "x", "--task", "c", "--agent-cmd", "/bin/true"];
    env.write(
        "order",
        format!("{}\n", json!({"v": 1, "parent": id, "args": args, "dir": env.workspace(), "env": []})),
    );
    let mut command = env.dacapo(["child"]);
    command.stdin(fs::File::open(env.workspace().join("order")).unwrap());
    let output = env.run_command(command).assert_code(5);
    assert_has(last_line(&output), "is not the one that started this");
    env.run(["status", "c"]).assert_code(2);
    env.write("go", "");
    running.wait(LONG).assert_code(0);
}

#[test]
fn an_agent_cancels_its_own_child() {
    let env = world();
    child(&env, "hang");
    let script = "sh sh child.sh; sh 'dacapo cancel c >cancel.out 2>&1; echo $? >code'; promise";
    env.run_loop(script, &["-n", "1", "--poll-interval", "20ms"]).assert_code(0);
    assert_eq!(env.read("code").trim(), "0", "{}", env.read("cancel.out"));
    assert_has(&env.read("cancel.out"), "Cancelled Ralph loop for c");
    assert_eq!(env.status("c")["state"], "cancelled");
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
    assert_has(
        last_line(&output),
        "the claim was accepted (DONE marker present); its child loops have ended",
    );
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
    // In a sandbox an agent could not see it.
    env.without_sandbox();
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
    // An agent's parent is its keeper, which it could not see in a sandbox.
    env.without_sandbox();
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
