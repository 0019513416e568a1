//! Sessions that are continued, and those that cannot be.

use dacapo_testkit::TestEnv;
use serde_json::json;

use crate::{
    events::{done, fails, script, works},
    support::{Limits, assert_has, world_of},
};

/// A script that also keeps the arguments it was given.
fn curious(number: u32, rest: &str) -> String {
    script(&[format!("args-to args-{number}"), rest.to_owned()])
}

/// What the agent was told to go on with.
fn resumed(env: &TestEnv, number: u32) -> Option<String> {
    let args = env.read(format!("args-{number}"));
    args.lines().skip_while(|arg| *arg != "--resume").nth(1).map(str::to_owned)
}

#[test]
fn the_first_iteration_is_fresh_and_later_ones_go_on_with_the_session_before() {
    // req 150, req 151
    let turns = [curious(1, &works("s1")), curious(2, &works("s2")), curious(3, &done())];
    let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
    let env = world_of(&turns);
    env.run_mine(&["--continue-session"]).assert_code(0);
    let told: Vec<_> = (1..=3).map(|number| resumed(&env, number)).collect();
    assert_eq!(told, [None, Some("s1".to_owned()), Some("s2".to_owned())]);
    let sessions: Vec<_> =
        env.events_of("t", "agent_exited").iter().map(|event| event["session"].clone()).collect();
    assert_eq!(sessions, ["s1", "s2", "s1"]);
    let env = world_of(&turns);
    env.run_mine(&[]).assert_code(0);
    assert!((1..=3).all(|number| resumed(&env, number).is_none()), "fresh unless somebody says otherwise");
}

#[test]
fn a_session_that_fails_twice_is_given_up_without_costing_an_iteration() {
    // fault C9
    let lost = fails("", &json!({"errors": ["No conversation found with session ID: s1"]}));
    let corrupt = "err SyntaxError: Unexpected end of JSON input\nexit 1";
    for broken in [lost.as_str(), corrupt] {
        let turns = [works("s1"), curious(2, broken), curious(3, broken), curious(4, &done())];
        let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
        let env = world_of(&turns);
        let output = env.run_mine(&["--continue-session", "-n", "2"]).assert_code(0);
        let told: Vec<_> = (2..=4).map(|number| resumed(&env, number)).collect();
        assert_eq!(told, [Some("s1".to_owned()), Some("s1".to_owned()), None]);
        assert_has(&output.stdout, "warning: a fresh session begins");
        assert_eq!(env.events_of("t", "iteration_started").len(), 2);
    }
}

#[test]
fn a_session_that_is_full_is_not_continued() {
    // fault C10
    let full = fails("Prompt is too long", &json!({"terminal_reason": "prompt_too_long"}));
    let turns = [works("s1"), curious(2, &full), curious(3, &done())];
    let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
    let env = world_of(&turns);
    env.run_mine(&["--continue-session", "-n", "3"]).assert_code(0);
    assert_eq!((resumed(&env, 2).as_deref(), resumed(&env, 3)), (Some("s1"), None));
    assert_eq!(env.outcomes(), ["completed", "context", "completed"]);
}
