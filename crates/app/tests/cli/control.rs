//! Cancel, pause, resume, steer, detach, status and why: control from outside, whether or not the loop runs.

use serde_json::Value;

use crate::support::{LONG, Task, assert_has, last_line, world};

#[test]
fn cancel_ends_a_running_loop_and_says_where_it_was() {
    // req 27, req 63, req 83, req 100, req 102, req 202
    let env = world();
    let running = env.start_loop("ignore TERM; daemonize hang; write ready; hang", &["-n", "9"]);
    let output = env.run(["cancel", "t"]).assert_code(0);
    assert_eq!(output.stdout, "Cancelled Ralph loop for t at iteration 1/9\n");
    let output = running.wait(LONG).assert_code(130);
    assert_has(last_line(&output), "cancelled (cancelled): Cancelled Ralph loop for t at iteration 1/9");
    assert_eq!(env.status("t")["state"], "cancelled");
    assert_eq!(env.survivors(), Vec::<u32>::new());
    assert_eq!(env.starts(), 1);
}

#[test]
fn cancel_during_the_delay_ends_the_loop_at_once() {
    // req 64
    let env = world();
    let mut args = env.loop_args("exit 0", &["-n", "9"]);
    let delay = args.iter().position(|arg| arg == "--restart-delay").unwrap();
    args[delay + 1] = "1h".into();
    let running = env.spawn(args);
    env.wait_for_event("t", "iteration_finished");
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert_eq!(env.starts(), 1);
}

#[test]
fn a_stopped_loop_can_be_cancelled_and_a_completed_one_cannot() {
    // req 100
    let env = world();
    env.run_loop("exit 42", &[]).assert_code(4);
    let output = env.run(["cancel", "t"]).assert_code(0);
    assert_eq!(output.stdout, "Cancelled Ralph loop for t at iteration 1/100\n");
    assert_has(&env.run(["resume", "t"]).assert_code(1).stderr, "is cancelled and cannot be resumed");

    env.run_loop("promise", &[]).assert_code(0);
    assert_has(last_line(&env.run(["cancel", "t"]).assert_code(1)), "is completed already");
    assert_has(&env.run(["resume", "t"]).assert_code(1).stderr, "is completed and cannot be resumed");
    assert_has(&env.run(["steer", "t", "more"]).assert_code(1).stderr, "no agent would read it");
    assert_has(&env.run(["pause", "t"]).assert_code(1).stderr, "is not running");
}

#[test]
fn an_id_that_means_nothing_or_several_loops_is_a_usage_error() {
    let env = world();
    for command in ["cancel", "pause", "resume", "status", "why", "logs", "events"] {
        let output = env.run([command, "nobody"]).assert_code(2);
        assert_has(&output.stderr, "no loop and no task is called `nobody`");
    }
    env.run(["steer", "nobody", "text"]).assert_code(2);
    for project in ["p", "q"] {
        let args = ["--project", project, "--task", "twice"];
        env.run_agent("promise", args).assert_code(0);
    }
    let output = env.run(["status", "twice"]).assert_code(2);
    assert_has(last_line(&output), "`twice` could mean several loops: ");
    let ids: Vec<String> = env
        .events(None)
        .iter()
        .filter(|event| event["type"] == "loop_started")
        .filter_map(|event| event["loop"].as_str().map(str::to_owned))
        .collect();
    for id in &ids {
        assert_has(last_line(&output), id);
        // The whole id and its beginning.
        for name in [id.as_str(), &id[..8]] {
            let status = env.run(["status", name, "--json"]).assert_code(0).stdout;
            assert_eq!(serde_json::from_str::<Value>(&status).unwrap()[0]["id"], id.as_str());
        }
    }
}

#[test]
fn a_task_means_its_newest_loop_in_this_project() {
    let env = world();
    env.run_agent("exit 42", ["--task", "t"]).assert_code(4);
    env.run_agent("promise", ["--task", "t"]).assert_code(0);
    env.run_agent("exit 42", ["--task", "t", "--project", "other"]).assert_code(4);
    assert_eq!(env.status("t")["state"], "completed");
}

#[test]
fn pause_holds_after_the_iteration_and_resume_goes_on() {
    // req 100
    let env = world();
    let script = "@1: write ready; wait-file go; @2: promise";
    let running = env.start_loop(script, &[]);
    assert_has(&env.run(["pause", "t"]).assert_code(0).stdout, "pauses after this iteration");
    env.wait_for_event("t", "pause_requested");
    env.write("go", "");
    env.wait_for_event("t", "paused");
    assert_eq!(env.status("t")["state"], "paused");
    assert_has(&env.run(["why", "t"]).assert_code(0).stdout, "Paused");
    assert_eq!(env.starts(), 1);
    assert_has(&env.run(["resume", "t"]).assert_code(0).stdout, "goes on");
    running.wait(LONG).assert_code(0);
    assert_eq!(env.starts(), 2);
}

#[test]
fn pause_now_stops_the_agent_and_a_paused_loop_can_be_cancelled() {
    // req 63, req 83
    let env = world();
    let running = env.start_loop("write ready; hang", &[]);
    env.run(["pause", "t", "--now"]).assert_code(0);
    env.wait_for_event("t", "paused");
    assert_eq!(env.events_of("t", "agent_exited")[0]["outcome"], "killed");
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert_eq!(env.starts(), 1);
}

#[test]
fn what_a_person_says_stands_in_the_next_prompt() {
    let env = world();
    let script = "@1: write ready; wait-file go; @2: promise";
    let running = env.start_loop(script, &[]);
    env.run(["steer", "t", "use the second approach"]).assert_code(0);
    env.write("go", "");
    running.wait(LONG).assert_code(0);
    assert!(!env.prompt(1).contains("second approach"));
    assert_has(&env.prompt(2), "use the second approach");
}

#[test]
fn what_is_said_while_nobody_runs_the_loop_is_kept_for_its_next_prompt() {
    let env = world();
    env.run_loop("exit 0", &["-n", "1"]).assert_code(3);
    assert_has(&env.run(["steer", "t", "look at the log"]).assert_code(0).stdout, "dacapo resume");
    env.script("promise");
    assert_has(&env.run(["resume", "t", "-n", "+1", "--detach"]).assert_code(0).stdout, "in the background");
    env.wait_until("it is done", LONG, || env.status("t")["state"] == "completed");
    assert_has(&env.prompt(2), "look at the log");
}

#[test]
fn an_answer_resumes_a_waiting_loop_in_the_background() {
    // req 89
    let env = world();
    env.run_loop("@1: run dacapo bus post --type QUESTION which; exit 42; @2: promise", &[]).assert_code(4);
    assert_has(&env.run(["steer", "t", "the blue one"]).assert_code(0).stdout, "runs in the background");
    env.wait_until("it is done", LONG, || env.status("t")["state"] == "completed");
    assert_has(&env.prompt(2), "the blue one");
    assert_eq!(env.starts(), 2);
}

#[test]
fn resume_grants_what_is_typed_and_no_number_is_used_twice() {
    // req 75, req 100, req 203, fault B2, fault B7
    let env = world();
    env.run_loop("exit 0", &["-n", "2"]).assert_code(3);
    env.run(["resume", "t"]).assert_code(3);
    assert_eq!(env.starts(), 2);
    env.run(["resume", "t", "-n", "+2"]).assert_code(3);
    let mut iterations: Vec<u32> = env.ledger().iter().map(|line| line.iteration).collect();
    iterations.dedup();
    assert_eq!(iterations, [1, 2, 3, 4]);
    assert_has(&env.run(["why", "t"]).assert_code(0).stdout, "dacapo resume");
}

#[test]
fn a_detached_loop_says_its_id_and_outlives_the_command() {
    // req 100, fault F7
    let env = world();
    let script = "@1: write ready; wait-file go; @2: promise";
    let output = env.run_loop(script, &["--detach"]).assert_code(0);
    let id = env.status("t")["id"].as_str().unwrap().to_owned();
    assert_has(&output.stdout, &format!("Loop {id} runs in the background."));
    env.wait_for_file("ready");
    assert_eq!(env.status("t")["state"], "running");
    let output = env.run(["resume", "t"]).assert_code(5);
    assert_has(&output.stderr, "is running already");
    env.write("go", "");
    env.wait_until("it is done", LONG, || env.status("t")["state"] == "completed");
    env.wait_until("it is gone", LONG, || env.survivors().is_empty());
}

#[test]
fn a_mistake_shows_where_a_detached_loop_was_typed() {
    let env = world();
    let output = env.run(["run", "do it", "--agent-cmd", "no-such-agent", "--detach"]).assert_code(5);
    assert_has(last_line(&output), "no-such-agent");
}

#[test]
fn status_speaks_the_agreed_words_and_keys() {
    // req 100
    let env = world();
    assert_eq!(env.run(["status"]).assert_code(0).stdout, "No active Ralph loops.\n");
    assert_eq!(env.run(["status", "--json"]).assert_code(0).stdout, "[]\n");
    let running = env.start_loop("write ready; hang", &["-n", "15"]);
    insta::assert_snapshot!(env.redact(&env.run(["status"]).assert_code(0).stdout), @"
    Active Ralph Loops:
      t (fake-agent): iteration 1/15, started [DURATION] ago [[LOOP]]
    ");
    let status = env.status("t");
    let keys: Vec<&str> = status.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "id",
        "project",
        "task",
        "stage",
        "agent",
        "state",
        "reason",
        "iteration",
        "max_iterations",
        "completion_promise",
        "workspace",
        "started_at",
        "ended_at",
        "cost_usd",
        "cost_estimated",
        "tokens",
        "pid",
        "parent",
        "until",
    ] {
        assert!(keys.contains(&key), "no `{key}` in {status}");
    }
    assert_eq!(status["pid"], running.pid());
    assert_eq!(status["ended_at"], Value::Null);
    assert!(status["started_at"].as_str().is_some_and(|at| at.ends_with('Z')));
    env.run(["cancel", "t"]).assert_code(0);
    insta::assert_snapshot!(env.redact(&env.run(["status"]).assert_code(0).stdout), @"
    No active Ralph loops.

    Ended:
      [LOOP]  t (fake-agent): cancelled (cancelled) after 1 iteration, [DURATION] ago
    ");
}

#[test]
fn why_names_the_reason_and_one_next_step() {
    // req 202, fault B12
    for (script, extra, code, because) in [
        ("promise", vec![], 0, "Completed, unverified"),
        (
            "promise",
            vec!["--gate", "true", "--allow-empty"],
            0,
            "Completed: the claim of iteration 1 passed 1 gate",
        ),
        ("promise", vec!["--gate", "false", "--allow-empty", "-n", "1"], 3, "gate `false` exited 1"),
        ("exit 42", vec![], 4, "the agent waits"),
        ("mkdir $TASK_FOLDER/DONE", vec![], 1, "DONE is a directory"),
    ] {
        let env = world();
        env.run_loop(script, &extra).assert_code(code);
        let why = env.run(["why", "t"]).assert_code(0).stdout;
        assert_has(&why, because);
        assert_eq!(why.lines().filter(|line| line.starts_with("Next: ")).count(), 1);
        let finished = &env.events_of("t", "loop_finished")[0];
        assert_eq!(finished["exit_code"], code);
    }
}

#[test]
fn limits_can_be_raised_while_a_loop_is_paused() {
    let env = world();
    let running = env.spawn(env.loop_args("@1: wait-file go\n@*: say on", &["-n", "1"]));
    env.wait_for_event("t", "agent_started");
    env.run(["pause", "t"]).assert_code(0);
    env.wait_for_event("t", "pause_requested");
    env.run(["resume", "t", "-n", "+2"]).assert_code(0);
    env.write("go", "");
    running.wait(LONG).assert_code(3);
    assert_eq!(env.status("t")["max_iterations"], 3);
    assert_eq!(env.status("t")["iteration"], 3);
}

#[test]
fn a_question_is_heard_while_the_agent_runs_and_only_once() {
    let env = world();
    let script = "sh dacapo bus post --type QUESTION 'which one?'; wait-file go; exit 42";
    let running = env.spawn(env.loop_args(script, &[]));
    env.wait_for_event("t", "question_asked");
    assert_eq!(env.status("t")["question"], "which one?");
    env.write("go", "");
    running.wait(LONG).assert_code(4);
    let asked = env.events(Some("t")).iter().filter(|event| event["type"] == "question_asked").count();
    assert_eq!(asked, 1);
    assert_eq!(env.status("t")["reason"], "question");
}

#[test]
fn words_for_a_stopped_loop_are_taken_up_at_once() {
    let env = world();
    env.run_loop("sh dacapo bus post --type QUESTION 'which one?'", &["-n", "1"]).assert_code(3);
    assert_eq!(env.status("t")["question"], "which one?");
    let said = env.run(["steer", "t", "the left one"]).assert_code(0);
    assert_has(&said.stdout, "-n +10");
    assert_eq!(env.status("t")["question"], Value::Null);
}
