//! Agents that do not come to an end.

use crate::{
    events::{begins, done, ends, says, script, works},
    support::{LONG, Limits, assert_has, world_of},
};

#[test]
fn who_has_finished_and_does_not_exit_is_helped_and_has_completed() {
    // fault C1
    for stuck in ["hang", "ignore TERM\nhang"] {
        let env = world_of(&[&script(&[done(), stuck.to_owned()])]);
        env.run_mine(&["-n", "1", "--idle-timeout", "10m"]).assert_code(0);
        assert_eq!(env.outcomes(), ["completed"]);
        assert_eq!(env.survivors(), [0_u32; 0]);
    }
}

#[test]
fn who_falls_silent_before_is_ended_and_another_one_begins() {
    // fault C2
    let silent = script(&[begins("s1"), says("Let me think."), "hang".to_owned()]);
    let env = world_of(&[&silent, &done()]);
    let output = env.run_mine(&["-n", "2", "--idle-timeout", "1s"]).assert_code(0);
    assert_eq!(env.outcomes(), ["hang", "completed"]);
    assert_has(&output.stdout, "was silent for too long");
}

#[test]
fn a_daemon_that_holds_the_pipe_holds_nobody_up() {
    // fault D6
    let left = "daemonize hold 'no-stdin; hang'".to_owned();
    let env = world_of(&[&script(&[left, works("s1")]), &done()]);
    let running = env.start_mine(&["-n", "2"]);
    running.wait(LONG).assert_code(0);
    assert_eq!(env.outcomes(), ["completed", "completed"]);
    assert_eq!(env.events_of("t", "agent_exited")[0]["leftovers"], 1);
    assert_eq!(env.survivors(), [0_u32; 0]);
}

#[test]
fn retries_of_its_own_are_no_sign_of_life_for_ever() {
    // fault E5: the wall holds whatever the CLI does
    let retry = "say '{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":1,\"max_retries\":10,\"error\":\"rate_limit\"}'";
    let noisy = script(&[begins("s1"), format!("{retry}\n").repeat(50), "hang".to_owned(), ends("s1")]);
    let env = world_of(&[&noisy, &done()]);
    env.run_mine(&["-n", "2", "--iteration-timeout", "2s"]).assert_code(0);
    assert_eq!(env.outcomes(), ["timeout", "completed"]);
}
