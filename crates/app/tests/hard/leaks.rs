//! Agents that leave processes behind, on purpose and in every way: none outlives its iteration.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::world::{Innocents, LONG, agent_args, assert_nothing_left, count, world};

/// How to leave something running.
const WAYS: [&str; 8] = [
    // A daemon twice removed, in a session of its own, that does not listen.
    "ignore TERM; daemonize 'ignore TERM; ignore HUP; hang'; spawn 'ignore TERM; hang'",
    // One that keeps the agent's output open, silent and chatty (fault D6).
    "daemonize hold 'ignore TERM; hang'; daemonize hold 'ignore TERM; flood-out 100000000000'; say out",
    "storm 20",
    "forkchain 25",
    "storm 10; forkchain 10; spawn \"daemonize 'forkchain 5'\"",
    // Stopped processes do not hear TERM before they go on.
    "spawn 'kill STOP'; daemonize 'kill STOP'; kill STOP",
    // No mark in the environment, no terminal, no parent, no group.
    "sh 'env -i setsid sh -c \"trap : TERM; sleep 1000 & wait; sleep 1000\" >/dev/null 2>&1 &'",
    // It starts the next one when it is told to end.
    "daemonize 'on-term storm 3; hang'",
];

/// Runs as the first child of the keeper after each iteration: whoever else it has, dead or alive, is a leftover. In a sandbox the
/// keeper cannot be seen, and the first process there has what was left.
const LOOK: &str = r#"up=$PPID; test $up = 0 && up='[01]'
    grep -ls ") [A-Z] $up " /proc/[0-9]*/stat | grep -vx "/proc/$$/stat" | grep -vx /proc/1/stat >> leaks; false"#;

#[test]
fn no_process_outlives_its_iteration() {
    // req 82, req 83, faults D6, F1, F2, F3, F15
    let each = count(40, 1250);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(way) = WAYS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    leave_and_look(way, each);
                }
            });
        }
    });
}

fn leave_and_look(way: &str, each: u32) {
    let (env, iterations) = (world(), each.to_string());
    let innocents = Innocents::start(&env);
    let limits = ["--kill-grace", "50ms", "--iteration-timeout", "20s"];
    // One that stops itself is ended by its time alone.
    let limits = if way.ends_with("kill STOP") {
        ["--kill-grace", "50ms", "--iteration-timeout", "100ms"]
    } else {
        limits
    };
    let fixed = ["--task", "t", "-n", &iterations, "--until-cmd", LOOK];
    let running = env.spawn(agent_args(&env, way, fixed.into_iter().chain(limits)));
    running.wait(LONG * count(1, 30)).assert_code(3);
    let leaks = env.read("leaks");
    assert_eq!(leaks, "", "alive after an iteration of: {way}");
    let events = env.events(Some("t"));
    let left: u64 = events.iter().filter_map(|event| event["leftovers"].as_u64()).sum();
    let cut = events.iter().filter(|event| event["outcome"] == "timeout").count() as u64;
    assert!(left + cut >= each.into(), "{left} leftovers of: {way}");
    innocents.assert_unharmed_and_end();
    assert_nothing_left(&env);
}
