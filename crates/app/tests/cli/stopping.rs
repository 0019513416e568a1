//! When a loop goes on, when it stops, and with which exit code.

use std::{fs, os::unix::fs::PermissionsExt as _};

use dacapo_testkit::Signal;
use jiff::Timestamp;
use serde_json::Value;

use crate::support::{LONG, Task, assert_has, last_line, world};

#[test]
fn exit_code_0_alone_never_stops_a_loop_and_max_n_is_exactly_n_runs() {
    // req 74, req 75, req 76, req 102, fault B1
    let env = world();
    let output = env.run_loop("exit 0", &["-n", "3"]).assert_code(3);
    assert_eq!(env.starts(), 3);
    assert_has(last_line(&output), "failed (max_iterations): ");
    let bus = env.bus("t");
    let (kind, body) = bus.last().unwrap();
    assert_eq!(kind, "ERROR");
    assert!(body.starts_with("max restarts exceeded"), "{body}");
}

#[test]
fn a_failing_agent_is_restarted_and_its_failure_told_with_number_and_time() {
    // req 26, req 77, req 79, req 80, req 91, req 97, req 102
    let env = world();
    env.run_loop("@1: exit 7; @2: kill SEGV; @3: promise", &["-n", "4"]).assert_code(0);
    let bus = env.bus("t");
    let bodies = |kind: &str| -> Vec<&str> {
        bus.iter().filter(|(k, _)| k == kind).map(|(_, body)| body.as_str()).collect()
    };
    assert_eq!(
        bodies("WARNING"),
        [
            "agent failed on restart #0: exit code 7 (attempt 1/4)",
            "agent failed on restart #1: signal 11 (attempt 2/4)"
        ]
    );
    assert_eq!(
        bodies("RUN_START"),
        ["starting agent, restart #0", "starting agent, restart #1", "starting agent, restart #2"]
    );
    assert_eq!(bodies("RUN_CRASH"), ["agent ended: signal 11, restart #1"]);
    assert_eq!(bodies("RUN_STOP").last(), Some(&"agent exited with code 0, restart #2"));
    assert_eq!(
        bodies("INFO"),
        [
            "restarting (attempt 2/4)",
            "restarting (attempt 3/4)",
            "task completed (promise, no active children)"
        ]
    );
    let ends = env.events_of("t", "agent_exited");
    let outcomes: Vec<&str> = ends.iter().filter_map(|event| event["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["completed", "crash", "completed"]);
    assert!(ends.iter().all(|event| event["at"].as_str().is_some_and(|at| at.ends_with('Z'))));
}

#[test]
fn the_delay_is_kept_after_every_run_also_after_exit_0() {
    // req 78, req 102
    let env = world();
    let delay = ["-n", "3", "--restart-delay", "60ms"];
    let mut args = env.loop_args("@1: exit 0; @2: exit 1; @3: promise", &[]);
    let fixed = args.iter().position(|arg| arg == "--restart-delay").unwrap();
    args.drain(fixed..fixed + 2);
    args.extend(delay.map(Into::into));
    env.run(args).assert_code(0);
    let at = |kind| -> Vec<Timestamp> {
        env.events_of("t", kind).iter().map(|e| e["at"].as_str().unwrap().parse().unwrap()).collect()
    };
    let (ends, starts) = (at("iteration_finished"), at("iteration_started"));
    for (end, start) in ends.iter().zip(&starts[1..]) {
        assert!(start.duration_since(*end).as_micros() >= 60_000, "{end} → {start}");
    }
}

#[test]
fn an_agent_that_waits_for_somebody_is_not_restarted() {
    // req 86, req 87, req 88, req 89
    for script in ["exit 42", "wait-marker", "run dacapo bus post --type wait_without_restart hm"] {
        let env = world();
        let output = env.run_loop(script, &["-n", "5"]).assert_code(4);
        assert_has(last_line(&output), "stopped (waiting): ");
        assert_eq!(env.starts(), 1, "{script}");
        env.assert_on_bus("INFO", "Wait-without-restart signal detected");
        let status = env.status("t");
        assert_eq!((&status["state"], &status["reason"]), (&Value::from("stopped"), &Value::from("waiting")));
    }
}

#[test]
fn a_wait_message_of_an_earlier_run_says_nothing_about_this_one() {
    // req 87
    let env = world();
    let script = "@1: run dacapo bus post --type wait_without_restart hm; @2: exit 0; @3: promise";
    env.run_loop(script, &["-n", "5"]).assert_code(4);
    env.run(["resume", "t"]).assert_code(0);
    assert_eq!(env.starts(), 3);
}

#[test]
fn the_wait_marker_is_consumed_on_resume() {
    // req 89
    let env = world();
    env.run_loop("@1: wait-marker; @2: exit 0; @3: promise", &["-n", "5"]).assert_code(4);
    assert!(env.folder("t").join("WAIT_WITHOUT_RESTART").exists());
    env.run(["resume", "t"]).assert_code(0);
    assert!(!env.folder("t").join("WAIT_WITHOUT_RESTART").exists());
    assert_eq!(env.starts(), 3);
}

#[test]
fn a_question_is_the_reason_when_the_agent_waits_for_its_answer() {
    // req 86, req 202
    let env = world();
    let script = "run dacapo bus post --type QUESTION 'Which database?'; exit 42";
    let output = env.run_loop(script, &["-n", "5"]).assert_code(4);
    assert_has(last_line(&output), "stopped (question): Which database?");
    assert_has(&env.run(["status", "t"]).assert_code(0).stdout, "asks: Which database?");
    assert_has(&env.run(["why", "t"]).assert_code(0).stdout, "steer");
}

#[test]
fn of_several_reasons_the_first_in_the_order_counts() {
    // req 92
    for (script, gate, code, reason) in [
        ("done; exit 42", "true", 0, "done"),
        ("done; wait-marker; exit 1", "true", 0, "done"),
        ("exit 42", "true", 4, "waiting"),
        ("promise; exit 42", "false", 4, "waiting"),
        ("promise", "false", 3, "max_iterations"),
    ] {
        let env = world();
        env.run_loop(script, &["-n", "1", "--allow-empty", "--gate", gate]).assert_code(code);
        assert_eq!(env.status("t")["reason"], reason, "{script}");
    }
}

#[test]
fn a_cancel_outranks_a_claim_that_is_made_meanwhile() {
    // req 92
    let env = world();
    let running = env.start_loop("on-term 'done; exit 0'; write ready; hang", &[]);
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert!(env.folder("t").join("DONE").exists());
    assert_eq!(env.status("t")["reason"], "cancelled");
}

#[test]
fn an_agent_that_is_missing_or_may_not_be_run_is_fatal_at_once() {
    // req 90, req 102, req 202
    let env = world();
    env.write("plain", "#!/bin/sh\n");
    for (agent, words) in [
        ("no-such-agent", "agent `no-such-agent` is not installed: no such program on PATH"),
        ("./nowhere", "/nowhere` is not there: no such file"),
        ("./plain", "/plain` cannot be run: permission denied"),
    ] {
        let output = env.run(["run", "do it", "--agent-cmd", agent]).assert_code(5);
        assert_has(last_line(&output), words);
        assert_has(&output.stderr, "hint: ");
    }
    assert_eq!(env.run(["events", "--json"]).assert_code(0).stdout, "");
}

#[test]
fn an_agent_deleted_between_two_iterations_is_fatal() {
    // req 90
    let env = world();
    let own = env.workspace().join("agent");
    env.write("agent", "#!/bin/sh\ncat >/dev/null\necho run >>runs\nrm agent\n");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["run", "do it", "--agent-cmd", "./agent", "--restart-delay", "0s", "--task", "t", "-n", "9"];
    let output = env.run(args).assert_code(5);
    assert_has(last_line(&output), "failed (agent): cannot start ");
    assert_eq!(env.read("runs"), "run\n");
}

#[test]
fn a_loop_whose_workspace_is_removed_stops() {
    // req 90, fault B10
    let env = world();
    let dir = env.root().join("elsewhere");
    fs::create_dir(&dir).unwrap();
    let script = "sh 'rm -r \"$PWD\"'";
    let output = env.run_loop(script, &["-n", "5", "--dir", dir.to_str().unwrap()]).assert_code(5);
    assert_has(last_line(&output), "failed (agent): the workspace ");
    assert_eq!(env.starts(), 1);
}

#[test]
fn an_iteration_that_takes_too_long_is_killed_with_its_group_and_restarted() {
    // req 82, req 83, req 84, req 102, fault F2, fault F3
    let env = world();
    let script = "@1: ignore TERM; spawn 'ignore TERM; hang'; daemonize hang; hang
        @2: promise";
    env.run_loop(script, &["-n", "3", "--iteration-timeout", "250ms"]).assert_code(0);
    env.assert_on_bus("WARNING", "Agent timeout after 250ms, killing process group");
    assert_eq!(env.events_of("t", "agent_exited")[0]["outcome"], "timeout");
    assert_eq!(env.starts(), 2);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn an_agent_is_asked_to_end_once_before_it_is_killed() {
    // req 82, fault F4
    let env = world();
    let script = "on-term 'append asked one'; spawn 'on-term \"append asked two\"; hang'; hang";
    env.run_loop(script, &["-n", "1", "--iteration-timeout", "300ms"]).assert_code(3);
    let asked = env.read("asked");
    let mut lines: Vec<&str> = asked.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two"]);
}

#[test]
fn a_silent_agent_is_killed_and_one_that_prints_is_not() {
    // req 85, fault C2
    let env = world();
    let script = "@1: hang; @2: say a; sleep 250; say b; sleep 250; say c; sleep 250; promise";
    env.run_loop(script, &["-n", "2", "--idle-timeout", "400ms"]).assert_code(0);
    let outcomes: Vec<Value> =
        env.events_of("t", "agent_exited").iter().map(|event| event["outcome"].clone()).collect();
    assert_eq!(outcomes, ["hang", "completed"]);
}

#[test]
fn the_time_of_the_whole_loop_is_a_limit_also_while_an_agent_runs() {
    // req 202
    let env = world();
    let output = env.run_loop("hang", &["--max-time", "200ms"]).assert_code(3);
    assert_has(last_line(&output), "failed (max_time): ");
    assert_eq!(env.starts(), 1);
    assert_eq!(env.survivors(), Vec::<u32>::new());
    env.script("promise");
    env.run(["resume", "t", "--max-time", "1h"]).assert_code(0);
}

#[test]
fn what_an_agent_leaves_behind_is_ended_however_the_loop_ends() {
    // req 82, req 83, req 102, fault F1, fault F3, fault D6
    for (script, code) in [
        ("daemonize hold 'ignore TERM; hang'; promise", 0),
        ("daemonize hang; spawn hang; exit 42", 4),
        ("storm 5; mkdir $TASK_FOLDER/DONE", 1),
        ("forkchain 5; exit 1", 3),
    ] {
        let env = world();
        env.run_loop(script, &["-n", "1"]).assert_code(code);
        assert_eq!(env.survivors(), Vec::<u32>::new(), "{script}");
    }
}

#[test]
fn signals_stop_the_loop_with_their_own_exit_codes_and_it_can_be_resumed() {
    // req 83, req 202, fault F5, fault F7
    for (signal, code, reason) in [
        (Signal::INT, 130, "interrupted"),
        (Signal::TERM, 143, "terminated"),
        (Signal::HUP, 143, "terminated"),
    ] {
        let env = world();
        let running = env.start_loop("@1: write ready; hang; @2: promise", &[]);
        running.signal(signal);
        let output = running.wait(LONG).assert_code(code);
        assert_has(last_line(&output), &format!("stopped ({reason}): "));
        assert_eq!(env.survivors(), Vec::<u32>::new());
        env.run(["resume", "t"]).assert_code(0);
        assert_eq!(env.starts(), 2);
    }
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_the_agent() {
    // fault F6
    let env = world();
    let script = "ignore TERM; write ready; hang";
    let mut args = env.loop_args(script, &[]);
    let grace = args.iter().position(|arg| arg == "--kill-grace").unwrap();
    args[grace + 1] = "1h".into();
    let running = env.spawn(args);
    env.wait_for_file("ready");
    running.signal(Signal::INT);
    running.wait_for_line(|line| line.contains("Ctrl-C again"), LONG);
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn ctrl_z_holds_the_agent_and_its_timers() {
    // fault F8
    let env = world();
    let script = "pid-to pid; write ready; wait-file go; promise";
    let running = env.start_loop(script, &["-n", "1", "--iteration-timeout", "2s"]);
    let agent = env.outer_pid(env.read("pid").trim().parse().unwrap()).to_string();
    let is_held = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    running.signal(Signal::TSTP);
    let dacapo = running.pid().to_string();
    env.wait_until("both hold", LONG, || is_held(&agent) && is_held(&dacapo));
    running.signal(Signal::CONT);
    env.wait_until("both go on", LONG, || !is_held(&agent) && !is_held(&dacapo));
    env.write("go", "");
    running.wait(LONG).assert_code(0);
}

#[test]
fn a_long_loop_goes_on_the_same_with_its_checkpoint_and_without() {
    // req 203
    let env = world();
    let running = env.start_loop("@150: write ready; hang; @151: write done; promise", &["-n", "152"]);
    running.signal(Signal::KILL);
    drop(running);
    env.wait_until("all of it is dead", LONG, || env.survivors().is_empty());
    let (home, aside) = (env.dacapo_home(), env.root().join("aside"));
    let copied = std::process::Command::new("cp").arg("-a").args([&home, &aside]).status().unwrap();
    assert!(copied.success());
    let goes_on = || {
        env.run(["resume", "t"]).assert_code(0);
        env.run(["verify", "t"]).assert_code(0);
        let short = |event: Value| {
            let field = |name: &str| event[name].to_string();
            [field("type"), field("iteration"), field("attempt"), field("reason"), field("outcome")].join(" ")
        };
        env.events(Some("t")).into_iter().map(short).collect::<Vec<_>>()
    };
    let with = goes_on();
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&aside, &home).unwrap();
    let journal = rusqlite::Connection::open(home.join("dacapo.db")).unwrap();
    assert_eq!(journal.execute("DELETE FROM checkpoints", []).unwrap(), 1, "it had one");
    drop(journal);
    assert_eq!(goes_on(), with);
    assert!(with.len() > 600 && with.last().unwrap().contains("done"), "{:?}", with.last());
}

#[test]
fn a_killed_dacapo_takes_its_agent_along_and_is_resumed_at_the_next_iteration() {
    // req 203, fault F12, fault F14, fault G11
    let env = world();
    let running = env.start_loop("@1: write ready; daemonize hang; hang; @2: promise", &[]);
    running.signal(Signal::KILL);
    drop(running);
    env.wait_until("all of it is dead", LONG, || env.survivors().is_empty());
    let status = env.status("t");
    assert_eq!((&status["state"], &status["pid"]), (&Value::from("stopped"), &Value::Null));
    // Looking does not resurrect it.
    assert_eq!(env.starts(), 1);
    env.run(["resume", "t"]).assert_code(0);
    let iterations: Vec<u32> = env.ledger().iter().map(|line| line.iteration).collect();
    assert_eq!(iterations, [1, 2, 2]);
    assert_eq!(env.events_of("t", "iteration_finished")[0]["outcome"], "interrupted");
}
