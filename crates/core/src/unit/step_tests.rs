//! What a unit needs next: a table.

use super::*;
use crate::unit::TaskSpec;
use TaskStatus::{Complete, Failed, InProgress, Pending};

fn task(number: u32, status: TaskStatus, depends_on: &[u32]) -> Task {
    let spec = TaskSpec {
        number,
        title: format!("Task {number}"),
        file: format!("specs/tasks/u/{number:02}-t.md"),
        backpressure: "true".to_owned(),
        line: 1,
        depends_on: depends_on.to_vec(),
        writes: Vec::new(),
        frozen: String::new(),
    };
    Task { spec, status }
}

fn facts(tasks: &[(TaskStatus, TaskStatus, &[u32])]) -> UnitFacts {
    let numbered = tasks.iter().zip(1..);
    UnitFacts {
        tasks: numbered.map(|((status, _, depends_on), number)| task(number, *status, depends_on)).collect(),
        committed: tasks.iter().map(|(_, committed, _)| *committed).collect(),
        open: None,
        retry_failed: false,
        checks: Checks::Due,
    }
}

fn unit() -> UnitId {
    "auth".parse().unwrap()
}

fn turn(facts: &UnitFacts, ready: &[u32]) -> UnitStep {
    UnitStep::Turn(TaskSet { unit: unit(), tasks: facts.tasks.clone(), ready: ready.to_vec() })
}

#[test]
fn tasks_are_worked_off_then_checked_then_complete() {
    // req 15, req 48
    let fresh = facts(&[(Pending, Pending, &[]), (Pending, Pending, &[1]), (Pending, Pending, &[])]);
    assert_eq!(next(&unit(), &fresh), turn(&fresh, &[1, 3]));
    let half = facts(&[(Complete, Complete, &[]), (Pending, Pending, &[1])]);
    assert_eq!(next(&unit(), &half), turn(&half, &[2]));
    let mut all = facts(&[(Complete, Complete, &[])]);
    assert_eq!(next(&unit(), &all), UnitStep::Check);
    all.checks = Checks::Hold;
    assert_eq!(next(&unit(), &all), UnitStep::Complete);
}

#[test]
fn a_status_that_was_never_committed_is_put_back() {
    // req 14, req 36, req 41: a crash leaves `complete` behind; HEAD knows better. What an agent began is ready again.
    let left = facts(&[(Complete, Pending, &[]), (Complete, InProgress, &[]), (InProgress, Pending, &[])]);
    assert_eq!(next(&unit(), &left), UnitStep::SetStatuses(vec![(1, Pending), (2, InProgress)]));
    let begun = facts(&[(InProgress, Pending, &[])]);
    assert_eq!(next(&unit(), &begun), turn(&begun, &[1]));
    let undone = facts(&[(Pending, Complete, &[])]);
    assert_eq!(next(&unit(), &undone), UnitStep::SetStatuses(vec![(1, Complete)]));
}

#[test]
fn failed_and_blocked_are_different_ends() {
    // req 16, req 17
    let mut failed = facts(&[(Failed, Pending, &[]), (Pending, Pending, &[1])]);
    assert_eq!(
        next(&unit(), &failed),
        UnitStep::End(
            UnitEnd::Failed,
            "no task is ready, and 1 task failed: #1; `--retry-failed` tries again".to_owned()
        )
    );
    failed.retry_failed = true;
    assert_eq!(next(&unit(), &failed), UnitStep::SetStatuses(vec![(1, Pending)]));
    let stuck = facts(&[(Pending, Pending, &[2]), (Pending, Pending, &[1])]);
    assert!(matches!(next(&unit(), &stuck), UnitStep::End(UnitEnd::Blocked, _)));
}

#[test]
fn a_loop_that_was_cut_short_comes_first() {
    let mut facts = facts(&[(Complete, Pending, &[])]);
    let open: LoopId = "abcdefghjk".parse().unwrap();
    facts.open = Some(open.clone());
    assert_eq!(next(&unit(), &facts), UnitStep::Resume(open));
    for (reason, goes) in [
        (Reason::Interrupted, true),
        (Reason::Error, true),
        (Reason::Done, false),
        (Reason::MaxIterations, false),
        (Reason::Budget, false),
        (Reason::Cancelled, false),
    ] {
        assert_eq!(goes_on(reason), goes, "{reason:?}");
    }
}

#[test]
fn a_turn_gives_up_the_task_that_was_tried_last() {
    // req 41
    let set = TaskSet { unit: unit(), tasks: Vec::new(), ready: vec![2, 5] };
    assert_eq!((given_up(&set, Some(5)), given_up(&set, None)), (Some(5), Some(2)));
}

#[test]
fn words_that_no_agent_was_started_with_are_unheard() {
    let steered = |text: &str| LoopEvent::Steered { text: text.to_owned() };
    let started = LoopEvent::IterationStarted { iteration: 1, max_iterations: 3 };
    let none: [&str; 0] = [];
    assert_eq!(unheard(&[steered("a"), started.clone()]), none);
    assert_eq!(unheard(&[steered("a"), started, steered("b"), steered("c")]), ["b", "c"]);
}
