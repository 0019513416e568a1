//! Rivals: one owner per task, however many start at once, and none after a death.

use std::collections::BTreeSet;

use dacapo_testkit::{LedgerEvent, Signal, wait_until};

use crate::world::{LONG, agent_args, all_gone, assert_nothing_left, count, text, world};

#[test]
fn of_many_that_start_one_task_exactly_one_runs_it_and_the_others_name_it() {
    // faults G10, G12
    let env = world();
    for round in 0..count(10, 100) {
        let go = format!("go-{round}");
        let args = agent_args(&env, &format!("wait-file {go}; promise"), ["--task", "t"]);
        let mut racers: Vec<_> = (0..16).map(|_| env.spawn(&args)).collect();
        wait_until("all but one have given up", LONG, || {
            racers.iter_mut().filter_map(|racer| racer.is_running().then_some(())).count() <= 1
        });
        env.write(&go, "");
        let outputs: Vec<_> = racers.into_iter().map(|racer| racer.wait(LONG)).collect();
        let winners = outputs.iter().filter(|output| output.code == Some(0)).count();
        assert_eq!(winners, 1, "{outputs:#?}");
        let events = env.events(Some("t"));
        let owner = text(&events[0], "loop");
        for loser in outputs.iter().filter(|output| output.code != Some(0)) {
            assert_eq!(loser.code, Some(5), "{loser:?}");
            assert_eq!(loser.reason(), format!("dacapo: task t is already run by loop {owner}"));
        }
    }
    let mut running = None;
    let mut loops = BTreeSet::new();
    for line in env.ledger() {
        match line.event {
            LedgerEvent::Start => assert_eq!(running.replace(line.pid), None, "two at once"),
            LedgerEvent::End => assert_eq!(running.take(), Some(line.pid), "two at once"),
        }
        loops.insert(line.loop_id);
    }
    assert_eq!(loops.len(), count(10, 100) as usize);
    assert_nothing_left(&env);
}

#[test]
fn a_dead_owner_holds_nothing() {
    // faults F14, G11: the orphan lives on and has inherited everything it could.
    for _ in 0..5 {
        let env = world();
        let orphan = "ignore TERM; daemonize hold 'ignore TERM; hang'; touch ready; hang";
        let first = env.spawn(agent_args(&env, orphan, ["--task", "t", "--kill-grace", "10s"]));
        wait_until("the agent works", LONG, || env.workspace().join("ready").exists());
        first.signal(Signal::KILL);
        first.wait(LONG);
        env.run(agent_args(&env, "promise", ["--task", "t"])).assert_code(0);
        assert_nothing_left(&env);
        let status = env.run(["status", "--all", "--json"]).assert_code(0).stdout;
        assert!(status.contains("interrupted") && !status.contains("\"running\""), "{status}");
    }
}

#[test]
fn a_new_journal_can_be_opened_by_many_at_once() {
    // fault G10
    for _ in 0..count(5, 50) {
        let env = world();
        let tasks: Vec<String> = (1..=12).map(|n| format!("task-{n}")).collect();
        let start = |task: &String| env.spawn(agent_args(&env, "promise", ["--task", task]));
        let all: Vec<_> = tasks.iter().map(start).collect();
        for one in all {
            one.wait(LONG).assert_code(0);
        }
        all_gone(&env, LONG);
        let starts = env.ledger().iter().filter(|line| line.event == LedgerEvent::Start).count();
        assert_eq!(starts, 12);
        let done = env.events(None).iter().filter(|event| event["type"] == "loop_finished").count();
        assert_eq!(done, 12);
    }
}

#[test]
fn many_resumes_of_one_loop_are_one() {
    // faults G7, G10
    let env = world();
    env.run(agent_args(&env, "@1: exit 1\n@2: wait-file go; promise", ["--task", "t", "-n", "1"]))
        .assert_code(3);
    let mut racers: Vec<_> = (0..8).map(|_| env.spawn(["resume", "t", "-n", "+5"])).collect();
    wait_until("all but one have given up", LONG, || {
        racers.iter_mut().filter_map(|racer| racer.is_running().then_some(())).count() <= 1
    });
    env.write("go", "");
    let codes: Vec<_> = racers.into_iter().map(|racer| racer.wait(LONG).code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(5)).count(), 7, "{codes:?}");
    assert_eq!(crate::world::Account::of(&env, "t").in_ledger, [1, 2]);
}
