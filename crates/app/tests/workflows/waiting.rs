//! Steps that wait, for a signal and for a time, held by a process and by none.

use dacapo_testkit::TestEnv;
use jiff::{SignedDuration, Timestamp};

use crate::support::{SOON, args, events, run, run_id, status, with};

const SIGNALLED: &str = "steps: [{id: before, bash: 'touch .git/before'}, {id: hold, wait: {signal: deployed}}, {id: after, bash: 'touch .git/after'}]\n";

/// The id of the newest run, once a step of it waits.
fn waiting(env: &TestEnv) -> String {
    let mut id = String::new();
    env.wait_until("a step waits", SOON, || {
        let text = env.run(["status", "--workflows", "--json"]).stdout;
        let seen: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        id = seen[0]["id"].as_str().unwrap_or_default().to_owned();
        seen[0]["steps"].as_array().is_some_and(|steps| steps.iter().any(|step| step["state"] == "waiting"))
    });
    id
}

/// A run in the background, once no process performs it any more.
fn left_waiting(env: &TestEnv) -> String {
    run(env, &["--detach"]).assert_code(0);
    let id = waiting(env);
    env.wait_until("no process performs it", SOON, || status(env, &id)["state"] == "stopped");
    assert_eq!(status(env, &id)["reason"], "waiting");
    env.wait_until("its process has ended", SOON, || env.survivors().is_empty());
    id
}

fn count(env: &TestEnv, id: &str, kind: &str) -> usize {
    events(env, id).iter().filter(|event| event["type"] == kind).count()
}

#[test]
fn a_signal_ends_the_wait_of_a_run_in_the_foreground() {
    let env = with(SIGNALLED);
    let running = env.spawn(args(&env, &[]));
    let id = waiting(&env);
    let unknown = env.run(["signal", &id, "deploy"]).assert_code(2);
    assert!(unknown.stderr.contains("hint: did you mean `deployed`?"), "{}", unknown.stderr);
    let sent = env.run(["signal", "deployed"]).assert_code(0);
    assert_eq!(sent.stdout, format!("Run {id} has the signal.\n"));
    running.wait(SOON).assert_code(0);
    assert!(env.workspace().join(".git/after").exists());
    let late = env.run(["signal", &id, "deployed"]).assert_code(1);
    assert!(late.stderr.contains("is over: it is completed"), "{}", late.stderr);
}

#[test]
fn a_signal_to_a_run_that_no_process_performs_lets_it_go_on_in_the_background() {
    let env = with(SIGNALLED);
    let id = left_waiting(&env);
    assert!(!env.workspace().join(".git/after").exists());
    let why = env.run(["why", &id]).assert_code(0).stdout;
    assert!(why.contains(&format!("`dacapo signal {id} deployed` ends the wait")), "{why}");
    let sent = env.run(["signal", &id, "deployed"]).assert_code(0);
    assert!(sent.stdout.contains(&format!("Run {id} goes on in the background")), "{}", sent.stdout);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
    assert!(env.workspace().join(".git/after").exists());
    assert_eq!((count(&env, &id, "wait_started"), count(&env, &id, "step_complete")), (1, 3));
}

#[test]
fn a_signal_has_to_come_while_the_step_waits() {
    let env = with("steps: [{id: ask, approval: 'Go?'}, {id: hold, wait: {signal: deployed}}]\n");
    let id = run_id(&run(&env, &[]).assert_code(4));
    let early = env.run(["signal", &id, "deployed"]).assert_code(1);
    assert!(
        early.stderr.contains("does not wait for `deployed` now: step `hold` is not waiting"),
        "{}",
        early.stderr
    );
    let other = with("steps: [{id: ask, approval: 'Go?'}]\n");
    run(&other, &[]).assert_code(4);
    let none = other.run(["signal", "deployed"]).assert_code(2);
    assert!(none.stderr.contains("hint: no step of it waits for a signal"), "{}", none.stderr);
}

#[test]
fn a_time_that_passes_while_no_process_holds_the_run_is_over_for_resume() {
    let due = Timestamp::now() + SignedDuration::from_secs(3);
    let env = with(&format!(
        "steps: [{{id: hold, wait: {{until: '{due}'}}}}, {{id: after, bash: 'touch .git/after'}}]\n"
    ));
    let id = left_waiting(&env);
    let waited = events(&env, &id).into_iter().find(|event| event["type"] == "wait_started").unwrap();
    assert_eq!(waited["due"].as_str().unwrap().parse::<Timestamp>().unwrap(), due);
    env.wait_until("the time has come", SOON, || Timestamp::now() > due);
    // Nothing holds it, so nothing happens by itself.
    assert_eq!(status(&env, &id)["reason"], "waiting");
    assert!(!env.workspace().join(".git/after").exists());
    env.run(["resume", &id, "--trust"]).assert_code(0);
    assert!(env.workspace().join(".git/after").exists());
    assert_eq!((count(&env, &id, "wait_started"), count(&env, &id, "step_complete")), (1, 2));
}

#[test]
fn a_run_that_is_resumed_before_its_time_waits_in_the_foreground() {
    let env = with("steps: [{id: hold, wait: {for: 3s}}, {id: after, bash: 'touch .git/after'}]\n");
    let id = left_waiting(&env);
    let waited = events(&env, &id).into_iter().find(|event| event["type"] == "wait_started").unwrap();
    let due: Timestamp = waited["due"].as_str().unwrap().parse().unwrap();
    env.run(["resume", &id, "--trust"]).assert_code(0);
    assert!(Timestamp::now() >= due, "it waited for the time that was recorded");
    assert_eq!(count(&env, &id, "wait_started"), 1);
}

#[test]
fn a_file_that_comes_while_no_process_holds_the_run_is_seen_by_resume() {
    let env = with("steps: [{id: hold, wait: {file: go}}, {id: after, bash: 'touch .git/after'}]\n");
    let id = left_waiting(&env);
    env.write("go", "");
    assert_eq!(status(&env, &id)["reason"], "waiting");
    env.run(["resume", &id, "--trust"]).assert_code(0);
    assert!(env.workspace().join(".git/after").exists());
    assert_eq!(count(&env, &id, "wait_started"), 1);
}
