//! What the journal tells afterwards about every iteration, every promise and its fate.

use serde_json::{Value, json};

use crate::support::*;

/// A loop of five iterations: silence, a promise in a sentence, a lie, a run that takes too long, the truth.
const AGENT: &str = "case $DACAPO_ITERATION in
    2) echo 'I will print <promise>DONE</promise> soon.';;
    3) echo x >y; echo '<promise>DONE</promise>';;
    4) sleep 60;;
    5) echo fixed >work.txt; echo '<promise>DONE</promise>';;
esac";

#[test]
fn every_iteration_and_every_promise_with_its_fate_is_in_the_journal() {
    // req 177, req 185, req 189, req 190, req 191
    let env = repository();
    env.loop_of(AGENT, &["-n", "9", "--gate", "./check.sh", "--iteration-timeout", "500ms"]).assert_code(0);
    let told = |kind: &str, fields: &[&str]| -> Vec<Value> {
        let pick = |event: &Value| fields.iter().map(|field| event[*field].clone()).collect::<Value>();
        env.of_type(kind).iter().map(pick).collect()
    };
    // Numbers go up by one, each with the limit in force; a timeout is an iteration like any other.
    let numbers: Vec<Value> = (1..=5).map(|n| json!([n, 9])).collect();
    assert_eq!(told("iteration_started", &["iteration", "max_iterations"]), numbers);
    let exits = [(1, "completed"), (2, "completed"), (3, "completed"), (4, "timeout"), (5, "completed")];
    assert_eq!(told("agent_exited", &["iteration", "outcome"]), exits.map(|(n, how)| json!([n, how])));
    assert!(env.of_type("agent_exited").iter().all(|event| event["duration_ms"].is_u64()));
    let fates = [(1, "no_claim"), (2, "no_claim"), (3, "refused"), (4, "no_claim"), (5, "accepted")];
    assert_eq!(told("iteration_finished", &["iteration", "outcome"]), fates.map(|(n, how)| json!([n, how])));
    // What only looked like a promise is an attempt too.
    let signals = [json!([2, "near_miss"]), json!([3, "promise"]), json!([5, "promise"])];
    assert_eq!(told("signal_seen", &["iteration", "signal"]), signals);
    assert_eq!(told("claim_made", &["iteration"]), [json!([3]), json!([5])]);
    assert_eq!(told("claim_refused", &["iteration", "reason"]), [json!([3, "gate_failed"])]);
    assert_eq!(told("claim_accepted", &["iteration"]), [json!([5])]);
}

#[test]
fn exactly_so_many_agents_run_and_the_limit_is_the_reason() {
    // req 177, req 186
    for limit in [1, 3] {
        let env = repository();
        let output = env.loop_of("true", &["-n", &limit.to_string()]).assert_code(3);
        assert_has(&output.stderr, "failed (max_iterations)");
        assert_eq!(env.agents(), limit);
        let finished = &env.of_type("loop_finished")[0];
        assert_eq!((&finished["state"], &finished["reason"]), (&json!("failed"), &json!("max_iterations")));
    }
}

#[test]
fn a_running_loop_tells_what_it_is_about_and_a_finished_one_is_active_no_more() {
    // req 100
    let env = repository();
    let agent =
        "touch ../running; while [ ! -e ../go ]; do sleep 0.02; done; echo '<promise>WORK DONE</promise>'";
    let running = env.spawn(env.args_of(agent, &["-n", "3", "--completion-promise", "WORK DONE"]));
    env.wait_until("the agent runs", LONG, || env.root().join("running").exists());
    let status = |args: &[&str]| -> Value {
        serde_json::from_str(&env.run(args.iter().copied()).assert_code(0).stdout).expect("JSON")
    };
    let active = &status(&["status", "--json"])[0];
    let fields =
        ["state", "iteration", "max_iterations", "completion_promise"].map(|name| active[name].clone());
    assert_eq!(fields, [json!("running"), json!(1), json!(3), json!("WORK DONE")]);
    assert!(active["started_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{active}");
    std::fs::write(env.root().join("go"), "").expect("a file");
    // req 178: nothing verifies, so the promise is success.
    assert_eq!(running.wait(LONG).code, Some(0));
    assert_has(&env.run(["status"]).assert_code(0).stdout, "No active Ralph loops.");
}
