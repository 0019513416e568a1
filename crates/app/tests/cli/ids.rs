//! What a command means by an id, the beginning of one, `-`, or nothing at all.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{LONG, Task, assert_has, last_line, world};

/// The default project of the workspace, so that what these tests start is of the folder they stand in.
fn here(task: &'static str) -> [&'static str; 2] {
    ["--task", task]
}

#[test]
fn without_an_id_the_only_running_loop_of_this_folder_is_meant_else_the_newest() {
    let env = world();
    let output = env.run(["why"]).assert_code(2);
    assert_has(last_line(&output), "there is no loop yet");
    let running = env.spawn(env.run_agent_args("touch ready; hang", here("first")));
    env.wait_for_file("ready");
    env.run_agent("promise", here("second")).assert_code(0);
    let id = |task: &str| env.status(task)["id"].as_str().unwrap().to_owned();
    // The newest has ended; the only one that runs is meant, and said.
    let output = env.run(["why"]).assert_code(0);
    assert_eq!(output.stderr.trim(), format!("(loop {})", id("first")));
    let output = env.run(["cancel"]).assert_code(0);
    assert_has(&output.stdout, "Cancelled Ralph loop for first");
    running.wait(LONG).assert_code(130);
    // None runs: the newest.
    for command in [vec!["why"], vec!["logs"], vec!["receipt", "--json"]] {
        let output = env.run(&command).assert_code(0);
        assert_eq!(output.stderr.trim(), format!("(loop {})", id("second")), "{command:?}");
    }
    // In another folder it is none of these, but `-` is the newest anywhere.
    let elsewhere = env.root().join("tmp");
    for (args, code) in [(["why"].as_slice(), 2), (["why", "-"].as_slice(), 0)] {
        let mut command = env.dacapo(args);
        command.current_dir(&elsewhere);
        let output = env.run_command(command).assert_code(code);
        assert_eq!(output.stderr.contains(&id("second")), code == 0, "{}", output.stderr);
        assert_eq!(output.stderr.contains("there is no loop of this folder"), code == 2, "{}", output.stderr);
    }
}

#[test]
fn loops_that_start_at_once_from_one_prompt_get_a_name_each() {
    let env = world();
    // None ends before all of them have started.
    let args = env.run_agent_args("sh 'touch started.$DACAPO_TASK'; wait-file go; promise", [] as [&str; 0]);
    let running: Vec<_> = (0..6).map(|_| env.spawn(&args)).collect();
    let started = || {
        let names = std::fs::read_dir(env.workspace()).unwrap().map(|file| file.unwrap().file_name());
        let tasks = names.filter_map(|name| Some(name.to_str()?.strip_prefix("started.")?.to_owned()));
        tasks.collect::<BTreeSet<String>>()
    };
    env.wait_until("six agents", LONG, || started().len() == 6);
    env.write("go", "");
    running.into_iter().for_each(|run| drop(run.wait(LONG).assert_code(0)));
    assert!(started().contains("do-it"), "{:?}", started());
}

#[test]
fn children_are_not_what_a_command_without_an_id_means() {
    let env = world();
    env.write("child.sh", env.shell_line("c", "promise", "-n 1").replace("--project p ", ""));
    let script = "sh sh child.sh; sh 'dacapo why >why.out 2>why.err'; promise";
    env.run_agent(script, here("t")).assert_code(0);
    let id = |task: &str| env.status(task)["id"].as_str().unwrap().to_owned();
    assert_eq!(env.run(["why"]).assert_code(0).stderr.trim(), format!("(loop {})", id("t")));
    assert_eq!(env.read("why.err").trim(), format!("(loop {})", id("t")), "below an agent: its own loop");
}

#[test]
fn the_beginning_of_a_task_is_enough_if_it_is_the_only_one() {
    let env = world();
    env.run_loop("promise", &[]).assert_code(0);
    env.run_agent("promise", ["--project", "p", "--task", "tests-first"]).assert_code(0);
    env.run_agent("promise", ["--project", "p", "--task", "tests-later"]).assert_code(0);
    let mut command = env.dacapo(["status", "tests-f", "--json"]);
    command.env("DACAPO_PROJECT", "p");
    let status: Value = serde_json::from_str(&env.run_command(command).assert_code(0).stdout).unwrap();
    assert_eq!(status[0]["task"], "tests-first");
    // The whole name of one task is not the beginning of others.
    assert_eq!(env.status("t")["task"], "t");
    let mut command = env.dacapo(["status", "tests"]);
    command.env("DACAPO_PROJECT", "p");
    let output = env.run_command(command).assert_code(2);
    assert_has(last_line(&output), "could mean several loops");
}

#[test]
fn with_one_word_steer_takes_it_as_the_text() {
    let env = world();
    let running = env.spawn(env.run_agent_args(
        "@1: touch ready; wait-file go; @2: prompt-to prompt; promise",
        here("t").iter().chain(&["-n", "2"]),
    ));
    env.wait_for_file("ready");
    let output = env.run(["steer", "use the second approach"]).assert_code(0);
    assert_has(&output.stdout, "reads it in its next prompt");
    env.write("go", "");
    running.wait(LONG).assert_code(0);
    assert_has(&env.read("prompt"), "use the second approach");
}

#[test]
fn a_state_without_a_loop_is_one_of_the_loop_here() {
    let env = world();
    env.write("file", "before").git_init();
    env.run_agent("write file after; promise", here("t").iter().chain(&["--gate", "true"])).assert_code(0);
    env.run(["snapshots"]).assert_code(0);
    env.run(["restore", "@0"]).assert_code(0);
    assert_eq!(env.read("file"), "before");
}

#[test]
fn a_task_that_is_called_as_the_id_of_another_loop_begins_is_meant_and_that_is_said() {
    let env = world();
    env.run_agent("promise", ["--task", "first"]).assert_code(0);
    let id = |task: &str| env.status(task)["id"].as_str().unwrap().to_owned();
    let first = id("first");
    let name = &first[..4];
    env.run_agent("promise", ["--task", name]).assert_code(0);
    let output = env.run(["status", name, "--json"]).assert_code(0);
    let status: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(status[0]["task"], name);
    let second = status[0]["id"].as_str().unwrap();
    assert_eq!(
        output.stderr,
        format!(
            "(loop {second} of task {name}; loop {first}, whose id begins with `{name}`, is not meant)\n"
        )
    );
    assert_eq!(env.run(["status", "first", "--json"]).assert_code(0).stderr, "");
}
