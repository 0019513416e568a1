//! Another agent instead of a wait, where the user says so.

use jiff::Timestamp;

use crate::{
    events::{done, limited_for, overload, script, usage_limit, works},
    support::{LONG, Limits, assert_has, in_seconds, world},
};

#[test]
fn at_a_limit_another_agent_goes_on_until_the_first_can_be_asked_again() {
    let env = world();
    let busy = script(&["touch ready", "wait-file go", &works("s9")]);
    env.configure(
        &[
            ("mine", "claude", "anthropic", &[&limited_for(3), &done()]),
            ("other", "claude", "openai", &[&busy]),
        ],
        "fallback: [other]\nlimits: {backoff: 100ms}",
    );
    let running = env.start_mine(&["-n", "2"]);
    env.wait_for_file("ready");
    assert_eq!(env.status("t")["agent"], "other");
    let switched = &env.events_of("t", "agent_switched")[0];
    assert_eq!(switched["agent"], "other");
    assert_has(switched["why"].as_str().unwrap(), "mine is at its limit until ");
    let reset = &env.events_of("t", "agent_exited")[0]["reset_at"];
    let reset: Timestamp = reset.as_str().unwrap().parse().unwrap();
    env.wait_until("the limit is over", LONG, || in_seconds(0) > reset.as_second() + 1);
    env.write("go", "");
    let output = running.wait(LONG).assert_code(0);
    assert_has(&output.stdout, "goes on with other: mine is at its limit");
    assert_has(&output.stdout, "goes on with mine: mine can be asked again");
    let agents: Vec<_> =
        env.events_of("t", "agent_started").iter().map(|event| event["agent"].clone()).collect();
    assert_eq!(agents, ["mine", "other", "mine"]);
    assert!(env.events_of("t", "parked").is_empty());
    assert_eq!(env.events_of("t", "iteration_started").len(), 2);
}

#[test]
fn when_all_are_at_their_limit_the_loop_waits_for_the_first_that_is_not() {
    let env = world();
    let (late, soon) = (in_seconds(3600), in_seconds(4));
    env.configure(
        &[
            ("mine", "claude", "anthropic", &[&usage_limit(late)]),
            ("other", "claude", "openai", &[&usage_limit(soon), &done()]),
        ],
        "fallback: [other]\nlimits: {backoff: 100ms}",
    );
    env.run_mine(&["-n", "1"]).assert_code(0);
    let agents: Vec<_> =
        env.events_of("t", "agent_started").iter().map(|event| event["agent"].clone()).collect();
    assert_eq!(agents, ["mine", "other", "other"]);
    assert_eq!(env.events_of("t", "parked").len(), 1);
}

#[test]
fn a_hiccup_is_no_reason_to_go_to_another_agent() {
    let env = world();
    env.configure(
        &[
            ("mine", "claude", "anthropic", &[&overload(), &done()]),
            ("other", "claude", "openai", &[&done()]),
        ],
        "fallback: [other]\nlimits: {backoff: 100ms}",
    );
    env.run_mine(&["-n", "1"]).assert_code(0);
    assert!(env.events_of("t", "agent_switched").is_empty());
}
