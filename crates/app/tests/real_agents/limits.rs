//! A usage limit: the loop waits for the reset, through the death of dacapo too, and then goes on by itself.

use std::time::{Duration, SystemTime};

use dacapo_testkit::{
    RealAgent, Signal,
    model_server::{Failure, ScriptedTurn},
};
use serde_json::{Value, json};

use crate::stage::{LONG, Stage, assert_has};

fn seconds_from_now(seconds: u64) -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    (now + Duration::from_secs(seconds)).as_secs()
}

/// Claude knows a limit by its name only if it is signed in as a subscriber.
#[track_caller]
fn at_its_limit(agent: RealAgent, resets_at: u64) -> Stage {
    let mut stage = Stage::set(agent, [ScriptedTurn::fail(Failure::UsageLimit { resets_at })]);
    if agent == RealAgent::Claude {
        stage.agent = stage.agent.clone().with_subscription(&stage.env);
    }
    stage
}

#[track_caller]
fn stays_parked_until_its_reset(agent: RealAgent) {
    let reset = seconds_from_now(3600);
    let stage = at_its_limit(agent, reset);
    let running = stage.spawn(&["-n", "1"]);
    running.wait_for_line(|line| line.contains("parked until"), LONG);
    let is_parked = || {
        let status = stage.status();
        assert_eq!((&status["state"], &status["iteration"]), (&json!("parked"), &json!(1)), "{status}");
        assert_eq!(stage.events("iteration_finished"), [] as [Value; 0], "nothing is charged");
        status["until"].as_str().expect("a time").to_owned()
    };
    let until = is_parked();
    let exit = &stage.events("agent_exited")[0];
    assert_eq!(exit["outcome"], "usage_limit", "{exit}");
    let told = exit["reset_at"].as_str().expect("a reset");
    // Whole seconds are written without a fraction, and "." sorts before "Z".
    let time = |text: &str| text.parse::<jiff::Timestamp>().expect("a time");
    assert!(time(&until) >= time(told), "{until} is before {told}");
    assert_has(&stage.told(&["why"]), "It goes on by itself.");

    running.signal(Signal::KILL);
    running.wait(LONG);
    let asked = stage.server.requests().len();
    let resumed = stage.resume();
    resumed.wait_for_line(|line| line.contains("parked until"), LONG);
    assert_eq!(is_parked(), until, "still until then");
    resumed.signal(Signal::TERM);
    resumed.wait(LONG).assert_code(143);
    assert_eq!(stage.server.requests().len(), asked, "nobody asked the provider again");
    stage.assert_nothing_left();
}

#[test]
fn claude_stays_parked_until_its_reset() {
    // req 206, fault E1, fault E3
    stays_parked_until_its_reset(RealAgent::Claude);
}

#[test]
fn codex_stays_parked_until_its_reset() {
    // req 206, fault E1, fault E3
    stays_parked_until_its_reset(RealAgent::Codex);
}

#[track_caller]
fn goes_on_when_the_limit_is_over(agent: RealAgent) {
    let stage = at_its_limit(agent, seconds_from_now(4));
    // Its only iteration is still there afterwards.
    let running = stage.spawn(&["-n", "1"]);
    running.wait_for_line(|line| line.contains("parked until"), LONG);
    stage.server.set_turns([ScriptedTurn::say("All is done.\n<promise>DONE</promise>")]);
    running.wait(LONG).assert_code(0);
    let outcomes: Vec<Value> =
        stage.events("agent_exited").into_iter().map(|mut exit| exit["outcome"].take()).collect();
    assert_eq!(outcomes, ["usage_limit", "completed"]);
    let status = stage.status();
    assert_eq!((&status["state"], &status["iteration"]), (&json!("completed"), &json!(1)), "{status}");
    stage.assert_nothing_left();
}

#[test]
fn claude_goes_on_when_its_limit_is_over() {
    goes_on_when_the_limit_is_over(RealAgent::Claude);
}

#[test]
fn codex_goes_on_when_its_limit_is_over() {
    goes_on_when_the_limit_is_over(RealAgent::Codex);
}
