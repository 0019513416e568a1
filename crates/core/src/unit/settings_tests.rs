//! The policies of a unit's loops: their numbers, and what they have in common.

use super::*;
use crate::{
    judge::promise::PromiseRule,
    unit::{Task, TaskStatus},
};

fn settings() -> RunSettings {
    let agent = AgentCommand::parse("agent", &[]).unwrap();
    RunSettings::new(Policy::restart(agent, PromiseRule::new("DONE").unwrap()))
}

fn spec(number: u32, backpressure: &str) -> TaskSpec {
    TaskSpec {
        number,
        title: format!("Task {number}"),
        file: format!("specs/tasks/u/{number:02}-t.md"),
        backpressure: backpressure.to_owned(),
        line: 3,
        depends_on: Vec::new(),
        writes: Vec::new(),
        frozen: String::new(),
    }
}

fn set(ready: &[u32]) -> TaskSet {
    let tasks = [spec(1, "make one"), spec(2, "make two")];
    let tasks = tasks.map(|spec| Task { spec, status: TaskStatus::Pending }).into();
    TaskSet { unit: unit(), tasks, ready: ready.to_vec() }
}

fn unit() -> UnitId {
    "u".parse().unwrap()
}

fn commands(policy: &Policy) -> Vec<(&str, Option<u32>, Millis)> {
    policy
        .gates
        .specs
        .iter()
        .map(|gate| (gate.run.as_str(), gate.item.map(|item| item.0), gate.timeout))
        .collect()
}

#[test]
fn a_turn_has_a_proof_for_each_ready_task_and_five_minutes_for_it() {
    // req 32, req 33
    let five = Millis::from_mins(5);
    assert_eq!(commands(&settings().turn(set(&[2]), false)), [("make two", Some(2), five)]);
    let both = [("make one", Some(1), five), ("make two", Some(2), five)];
    assert_eq!(commands(&settings().turn(set(&[1, 2]), false)), both);
    let short = RunSettings { backpressure_timeout: Millis(7), backpressure_retries: 2, ..settings() };
    assert_eq!(commands(&short.turn(set(&[1]), false)), [("make one", Some(1), Millis(7))]);
    assert_eq!(short.turn(set(&[1]), false).gates.specs[0].retries, 2);
}

#[test]
fn only_the_first_task_of_a_unit_has_to_change_something() {
    // req 47, fault A10: an earlier turn may have done more than it claimed; then the proof alone decides.
    assert!(!settings().turn(set(&[2]), false).claims.allow_empty);
    assert!(settings().turn(set(&[2]), true).claims.allow_empty);
    let mut told = settings();
    told.policy.claims.allow_empty = true;
    assert!(told.turn(set(&[2]), false).claims.allow_empty);
}

#[test]
fn tries_are_counted_from_one() {
    // req 39: 3 unless told, and nothing below 1.
    for (given, tries) in [(3, 3), (1, 1), (0, 1), (9, 9)] {
        let settings = RunSettings { max_retries: given, ..settings() };
        assert_eq!(settings.turn(set(&[1]), false).limits.max_iterations, tries, "{given}");
    }
}

#[test]
fn checks_and_conflicts_have_three_fixes_and_their_own_times() {
    // req 52, req 53, req 54
    let check =
        BaselineCheck { name: "lint".to_owned(), run: "lint".to_owned(), pattern: None, timeout: None };
    let ten = Millis::from_mins(10);
    let baseline = settings().baseline(&unit(), &[], std::slice::from_ref(&check));
    assert_eq!(commands(&baseline), [("lint", None, ten)]);
    assert_eq!(
        (baseline.limits.max_iterations, baseline.gates.timeout, baseline.gates.run_all),
        (3, Some(ten), true)
    );
    let written = TaskSpec { writes: vec!["tests/one.sh".to_owned()], ..spec(1, "make one") };
    let must_hold = MustHold { tasks: vec![written], checks: vec![check], ..MustHold::default() };
    let conflict = settings().conflict(&unit(), &must_hold, &["a".to_owned()]);
    assert_eq!(
        conflict.gates.specs.iter().map(|gate| gate.name.as_str()).collect::<Vec<_>>(),
        ["no conflict markers", "task #1", "lint"]
    );
    // What a task is to write may be mended with it, and a test in conflict has to be.
    assert_eq!(conflict.items[0].writes, ["a", "tests/one.sh"]);
    assert_eq!(settings().sent_back(&unit(), &must_hold).items[0].writes, ["tests/one.sh"]);
    let delays = (conflict.pace.restart_delay, conflict.pace.delay_limit);
    assert_eq!(
        (conflict.limits.max_iterations, delays),
        (3, (Millis::from_secs(1), Some(Millis::from_secs(30))))
    );
}

#[test]
fn nobody_works_on_a_merged_tree_and_a_command_runs_once() {
    // req 54, fault H11
    let must_hold = MustHold {
        tasks: vec![spec(1, "make test"), spec(2, "make test"), spec(3, "make docs")],
        others: vec![("v".parse().unwrap(), spec(1, "make test")), ("v".parse().unwrap(), spec(2, "make v"))],
        checks: Vec::new(),
    };
    let merged = settings().merged(&unit(), &must_hold);
    assert_eq!(merged.limits.max_iterations, 0);
    let gates: Vec<(&str, &str)> =
        merged.gates.specs.iter().map(|gate| (gate.name.as_str(), gate.run.as_str())).collect();
    let expected = [("task #1", "make test"), ("task #3", "make docs"), ("task #2 of v", "make v")];
    assert_eq!(gates, expected);
}

#[test]
fn a_unit_may_have_an_agent_of_its_own() {
    // req 59
    let own = AgentCommand::parse("other", &[]).unwrap();
    let settings = RunSettings { providers: [(unit(), own.clone())].into(), ..settings() };
    assert_eq!(settings.turn(set(&[1]), false).agent.command, own);
    assert_ne!(settings.merged(&"v".parse().unwrap(), &MustHold::default()).agent.command, own);
}

#[test]
fn scripts_of_checks_that_run_later_are_sealed_but_for_what_a_task_writes() {
    let mut settings = settings();
    settings.baseline = vec![BaselineCheck {
        name: "all".to_owned(),
        run: "sh checks/all.sh && echo done".to_owned(),
        pattern: None,
        timeout: None,
    }];
    let mut set = set(&[1]);
    for (task, command) in set.tasks.iter_mut().zip(["sh one.sh", "sh two.sh", "sh own.sh"]) {
        task.spec.backpressure = command.to_owned();
    }
    let last = set.tasks.last_mut().unwrap();
    last.spec.backpressure = "sh own.sh".to_owned();
    last.spec.writes = vec!["own.sh".to_owned()];
    let tasks = set.tasks.clone();
    let turn = settings.turn(set, false).gates.named_later;
    assert!(turn.contains(&"checks/all.sh".to_owned()), "{turn:?}");
    assert!(turn.contains(&"one.sh".to_owned()), "{turn:?}");
    assert!(!turn.contains(&"own.sh".to_owned()), "{turn:?}");
    assert_eq!(settings.baseline(&unit(), &tasks, &[]).gates.named_later, turn);
}
