//! A plan that is used up: the loop waits without a process, and says so.

use dacapo_testkit::{Running, Signal, TestEnv};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    events::{done, limited_for, usage_limit, works},
    support::{LONG, Limits, assert_has, in_seconds, last_line, world_of},
};

const HOUR: i64 = 3600;

/// A loop that waits for an hour.
fn parked() -> (TestEnv, Running) {
    let env = world_of(&[&usage_limit(in_seconds(HOUR)), &done()]);
    let running = env.start_mine(&["-n", "1"]);
    env.wait_for_state("t", "parked");
    (env, running)
}

fn time(value: &Value) -> Timestamp {
    value.as_str().expect("a time").parse().expect("a time")
}

#[test]
fn a_used_up_plan_is_sat_out_and_charges_nothing() {
    // req 206, fault E1
    let env = world_of(&[&limited_for(2), &done()]);
    let output = env.run_mine(&["-n", "1"]).assert_code(0);
    assert_eq!(env.outcomes(), ["usage_limit", "completed"]);
    let exited = &env.events_of("t", "agent_exited")[0];
    let reset = time(&exited["reset_at"]).as_second();
    assert!(reset <= time(&exited["at"]).as_second() + 2, "{exited}");
    let started = env.events_of("t", "agent_started");
    assert!(time(&started[1]["at"]).as_second() >= reset, "not before its time");
    assert_eq!(env.events_of("t", "iteration_started").len(), 1);
    assert_eq!(env.events_of("t", "loop_finished")[0]["iterations"], 1);
    assert_has(&output.stdout, "parked until ");
    assert_has(&output.stdout, "You've hit your 5-hour limit");
    let logs = env.run(["logs", "t"]).assert_code(0).stdout;
    assert_has(&logs, "You've hit your 5-hour limit");
    assert_has(&logs, "All done.");
}

#[test]
fn everybody_can_see_that_it_waits_and_until_when() {
    let (env, running) = parked();
    let status = env.status("t");
    let until = time(&status["until"]).as_second();
    assert!((in_seconds(HOUR - 60)..=in_seconds(HOUR)).contains(&until), "{status}");
    assert_eq!(status["detail"], "You've hit your 5-hour limit · resets 8:25pm (UTC)");
    assert_eq!(status.get("ledger"), None, "what is internal stays so");
    for args in [vec!["status"], vec!["status", "t"]] {
        assert_has(&env.run(args).assert_code(0).stdout, "parked until ");
    }
    let why = env.why("t");
    assert_has(
        &why,
        &format!(
            "Parked until {}: You've hit your 5-hour limit",
            time(&status["until"]).strftime("%Y-%m-%d %H:%M:%SZ")
        ),
    );
    assert_has(&why, "Next: It goes on by itself.");
    let event = &env.events_of("t", "parked")[0];
    assert_eq!(event["until"], status["until"]);
    assert_eq!(env.starts(), 1);
    drop(running);
}

#[test]
fn it_stays_parked_when_dacapo_is_killed_and_resumed() {
    // req 203, fault E1
    let (env, running) = parked();
    let until = env.status("t")["until"].clone();
    running.signal(Signal::KILL);
    running.wait(LONG);
    assert_eq!(env.status("t")["state"], "stopped");
    let running = env.spawn(["resume", "t"]);
    running.wait_for_line(|line| line.contains("parked until "), LONG);
    assert_eq!(env.status("t")["state"], "parked");
    assert_eq!(env.status("t")["until"], until);
    assert_has(&env.why("t"), "Parked until ");
    running.signal(Signal::INT);
    let output = running.wait(LONG).assert_code(130);
    assert_has(last_line(&output), "interrupted");
    assert_eq!(env.starts(), 1, "nobody asked the provider meanwhile");
    assert_eq!(env.events_of("t", "loop_finished").last().unwrap()["iterations"], 0);
}

#[test]
fn signals_and_requests_are_heard_while_it_waits() {
    // req 100
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (env, running) = parked();
        running.signal(signal);
        running.wait(LONG).assert_code(code);
        assert_eq!(env.survivors(), [0_u32; 0]);
    }
    let (env, running) = parked();
    env.run(["steer", "t", "use the second approach"]).assert_code(0);
    env.wait_for_event("t", "steered");
    env.run(["pause", "t"]).assert_code(0);
    env.wait_for_state("t", "paused");
    env.run(["resume", "t"]).assert_code(0);
    env.wait_for_state("t", "parked");
    assert!(env.status("t")["until"].is_string());
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert_eq!((env.status("t")["state"].as_str(), env.starts()), (Some("cancelled"), 1));
}

#[test]
fn words_that_came_while_it_waited_reach_the_next_attempt() {
    let env = world_of(&[&limited_for(4), &format!("prompt-to given\n{}", done())]);
    let running = env.start_mine(&["-n", "1"]);
    env.wait_for_state("t", "parked");
    env.run(["steer", "t", "use the second approach"]).assert_code(0);
    running.wait(LONG).assert_code(0);
    assert_has(&env.read("given"), "use the second approach");
}

#[test]
fn a_done_that_a_person_writes_ends_the_wait_at_its_end() {
    let env = world_of(&[&limited_for(3), &works("s1")]);
    let running = env.start_mine(&["-n", "1"]);
    env.wait_for_state("t", "parked");
    std::fs::write(env.dacapo_home().join("projects/p/t/DONE"), "").unwrap();
    running.wait(LONG).assert_code(0);
    assert_eq!(env.starts(), 1);
}

#[test]
fn time_that_is_waited_is_not_time_that_is_spent() {
    // The wait alone is longer than the limit.
    let env = world_of(&[&limited_for(6), &done()]);
    env.run_mine(&["-n", "1", "--max-time", "3s"]).assert_code(0);
    assert_eq!(env.outcomes(), ["usage_limit", "completed"]);
}

#[test]
fn a_limit_without_a_time_is_looked_at_now_and_then() {
    // fault E1
    let vague =
        usage_limit(0).lines().skip(1).collect::<Vec<_>>().join("\n").replace(" · resets 8:25pm (UTC)", "");
    let env = world_of(&[&vague, &done()]);
    let running = env.start_mine(&["-n", "1"]);
    env.wait_for_state("t", "parked");
    let event = &env.events_of("t", "parked")[0];
    let wait = time(&event["until"]).duration_since(time(&event["at"]));
    assert!((890..=900).contains(&wait.as_secs()), "{event}");
    drop(running);
}

#[test]
fn a_limit_belongs_to_the_account_that_met_it() {
    let env = world_of(&[&usage_limit(in_seconds(HOUR)), &done()]);
    let with_key = |task: &'static str, key: &str| {
        let mut command = env.dacapo(env.args(task, &["-n", "1"]));
        command.env("ANTHROPIC_API_KEY", key);
        command
    };
    let running = Running::start(with_key("t", "key-one"));
    env.wait_for_state("t", "parked");
    // The same key waits without asking; another one does not.
    let second = Running::start(with_key("second", "key-one"));
    env.wait_for_state("second", "parked");
    assert_eq!(env.starts(), 1);
    env.run_command(with_key("third", "key-two")).assert_code(0);
    assert_eq!(env.starts(), 2);
    for entry in std::fs::read_dir(env.dacapo_home()).expect("a folder").flatten() {
        if let Ok(bytes) = std::fs::read(entry.path()) {
            let holds = |key: &[u8]| bytes.windows(key.len()).any(|part| part == key);
            assert!(!holds(b"key-one") && !holds(b"key-two"), "{}", entry.path().display());
        }
    }
    drop((running, second));
}

#[test]
fn a_park_is_left_at_once_if_the_user_says_so() {
    let env = world_of(&[&usage_limit(in_seconds(HOUR)), &usage_limit(in_seconds(HOUR)), &done()]);
    let running = env.start_mine(&["-n", "1"]);
    let lines = running.wait_for_line(|line| line.contains("need not wait"), LONG);
    assert_has(&lines, "`dacapo resume ");
    assert_has(&lines, " --now` asks at once, another agent (`dacapo run --agent codex …`) need not wait");
    env.run(["resume", "t", "--now"]).assert_code(0);
    env.wait_until("the second attempt is parked", LONG, || env.events_of("t", "parked").len() == 2);
    assert_eq!(env.starts(), 2);
    // So does one that was stopped while it was parked.
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    env.run(["resume", "t", "--now"]).assert_code(0);
    assert_eq!(env.starts(), 3);
}
