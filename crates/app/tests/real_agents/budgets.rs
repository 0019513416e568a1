//! Budgets are held while the agent works.

use dacapo_testkit::{
    RealAgent,
    model_server::{ScriptedTurn, Usage},
};
use serde_json::json;

use crate::stage::{Stage, assert_has, last_line};

#[track_caller]
fn stops_at_its_budget(stage: &Stage, budget: [&str; 2]) {
    let output = stage.run(&[&["-n", "9"][..], &budget].concat()).assert_code(3);
    assert_has(last_line(&output), "budget");
    let status = stage.status();
    assert_eq!((&status["state"], &status["reason"]), (&json!("failed"), &json!("budget")), "{status}");
    stage.assert_nothing_left();
}

#[test]
fn claude_stops_when_its_money_is_spent() {
    // req 192, fault J1
    let expensive = Usage { input: 400_000, output: 20_000, ..Usage::default() };
    let stage = Stage::set(RealAgent::Claude, [Stage::step("one").usage(expensive)]);
    stops_at_its_budget(&stage, ["--max-cost", "0.50"]);
    // One message at most after the one that spent it.
    let asked = stage.server.main_requests().len();
    assert!(asked <= 2, "asked {asked} times");
    assert!(stage.status()["cost_usd"].as_f64().is_some_and(|cost| cost >= 0.5), "{}", stage.status());
}

#[test]
fn claude_stops_when_its_tokens_are_spent() {
    // Over iterations, 1234 each time it asks.
    let stage = Stage::set(RealAgent::Claude, [ScriptedTurn::say("Not yet.")]);
    stops_at_its_budget(&stage, ["--max-tokens", "2000"]);
    assert_eq!(stage.server.main_requests().len(), 2);
    assert_eq!(stage.status()["iteration"], 2);
    // What the second one wrote it may not have had the time to tell.
    assert_eq!(stage.status()["tokens"]["input"], 2400);
}
