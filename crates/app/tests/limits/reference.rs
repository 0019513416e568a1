//! What limits and money put into the journal is in the reference.

use std::fs;

use crate::{
    events::{begins, done, limited_for, message, script, usage_limit, works},
    support::{LONG, Limits, in_seconds, world},
};

#[test]
fn every_field_of_these_events_is_in_the_reference() {
    let file = format!("{}/../../docs/reference/events.md", env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(file).unwrap();
    let section = |kind: &str| {
        let (_, rest) = page.split_once(&format!("\n### `{kind}`")).unwrap_or_else(|| panic!("no {kind}"));
        rest.split("\n### ").next().unwrap_or(rest)
    };
    let env = world();
    let dear = script(&[begins("s1"), message("m1", "On it.", 9000), "wait-file never".to_owned()]);
    env.configure(
        &[
            ("mine", "claude", "anthropic", &[&usage_limit(in_seconds(3600))]),
            ("other", "claude", "openai", &[&limited_for(2), &works("s1"), &dear, &done()]),
        ],
        "fallback: [other]\nlimits: {backoff: 100ms, per_day: {max_cost: 9}}",
    );
    env.run_mine(&["--continue-session", "--max-cost", "0.1"]).assert_code(3);
    let running = env.spawn(["resume", "t", "--max-cost", "9", "--max-tokens", "99999"]);
    running.wait(LONG).assert_code(0);
    let events = env.events(Some("t"));
    for kind in ["usage_seen", "budget_reached", "agent_switched", "parked", "loop_resumed"] {
        assert!(events.iter().any(|event| event["type"] == kind), "no {kind} in {events:#?}");
    }
    for event in events {
        let kind = event["type"].as_str().unwrap();
        for field in event.as_object().unwrap().keys() {
            let is_common = ["seq", "at", "loop", "type"].contains(&field.as_str());
            assert!(
                is_common || section(kind).contains(&format!("`{field}`")),
                "{kind} has no word about {field}"
            );
        }
    }
}
