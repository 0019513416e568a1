//! What a plan gets to know of a loop.

use super::*;
use crate::{
    event::{GateResult, GateRole, IterationOutcome},
    item::ItemKey,
    loop_machine::decide_tests::{agent_exit, gate_result, policy, started},
};

fn id() -> LoopId {
    "abcdefghjk".parse().unwrap()
}

/// A journal with these events.
fn history(events: Vec<LoopEvent>) -> Vec<Envelope> {
    let envelope = |(seq, event)| Envelope { seq, at: jiff::Timestamp::UNIX_EPOCH, loop_id: id(), event };
    (1..).zip(events).map(envelope).collect()
}

fn steered(text: &str) -> LoopEvent {
    LoopEvent::Steered { text: text.to_owned() }
}

fn iteration(iteration: u32) -> LoopEvent {
    LoopEvent::IterationStarted { iteration, max_iterations: 3 }
}

fn finished(outcome: IterationOutcome) -> LoopEvent {
    LoopEvent::IterationFinished {
        iteration: 1,
        outcome,
        spent_ms: crate::duration::Millis(1),
        progress: crate::event::IterationProgress::None,
    }
}

fn claimed(tasks: &[u32]) -> LoopEvent {
    LoopEvent::ClaimMade { iteration: 1, by: tasks.iter().map(|task| Signal::Item(ItemKey(*task))).collect() }
}

fn end(events: Vec<LoopEvent>) -> LoopEnd {
    LoopEnd::of(id(), Reason::Done, "done".to_owned(), None, &history(events))
}

fn cut(events: Vec<LoopEvent>) -> CutLoop {
    CutLoop::of(id(), &history(events), vec!["asked".to_owned()])
}

#[test]
fn words_that_no_agent_was_started_with_are_unheard() {
    assert_eq!(cut(vec![steered("a"), iteration(1)]).unheard, ["asked"]);
    assert_eq!(
        cut(vec![steered("a"), iteration(1), steered("b"), steered("c")]).unheard,
        ["b", "c", "asked"]
    );
}

#[test]
fn an_iteration_that_dacapo_cut_short_is_granted_again() {
    let granted = |events| cut(events).grant().extra_iterations;
    assert_eq!(granted(vec![]), 0);
    assert_eq!(granted(vec![iteration(1)]), 1);
    assert_eq!(granted(vec![iteration(1), finished(IterationOutcome::Interrupted)]), 1);
    assert_eq!(granted(vec![iteration(1), finished(IterationOutcome::NoClaim)]), 0);
}

#[test]
fn a_cut_loop_has_the_purpose_that_was_recorded_when_it_started() {
    let purpose = Purpose { step: PlanStep::Turn, key: "k".to_owned() };
    let mut begun = started(policy(|_| {}));
    assert_eq!(cut(vec![LoopEvent::LoopStarted(Box::new(begun.clone()))]).purpose, None);
    begun.purpose = Some(purpose.clone());
    assert_eq!(cut(vec![LoopEvent::LoopStarted(Box::new(begun))]).purpose, Some(purpose));
}

#[test]
fn the_last_claim_with_a_task_counts() {
    assert_eq!(end(vec![claimed(&[1, 2]), claimed(&[])]).last_claimed, Some(2));
    assert_eq!(end(vec![claimed(&[1, 2]), claimed(&[1])]).last_claimed, Some(1));
    assert_eq!(end(vec![]).last_claimed, None);
}

#[test]
fn a_pause_that_came_too_late_is_known() {
    let asked = LoopEvent::PauseRequested { now: false };
    assert!(end(vec![asked.clone()]).is_paused);
    assert!(!end(vec![asked.clone(), LoopEvent::Paused]).is_paused);
    assert!(!end(vec![asked, LoopEvent::Unpaused]).is_paused);
}

#[test]
fn outputs_of_gates_and_the_last_agents_failure_are_known() {
    let gate = |task: Option<u32>, output: &str| LoopEvent::GateFinished {
        iteration: 1,
        role: GateRole::Gate,
        name: "g".to_owned(),
        command: "c".to_owned(),
        item: task.map(ItemKey),
        result: GateResult { output_tail: output.to_owned(), ..gate_result(1) },
        look: Default::default(),
    };
    let end = end(vec![gate(Some(1), "one"), gate(Some(1), "two"), gate(None, "three")]);
    assert_eq!(end.outputs, BTreeMap::from([(1, "two".to_owned())]));
    let exited = |code| LoopEvent::AgentExited {
        iteration: 1,
        attempt: 1,
        exit: agent_exit(code),
        judged: crate::event::AttemptJudgement::default(),
    };
    let error = |events| super::tests::end(events).agent_error;
    assert_eq!(error(vec![exited(3)]).as_deref(), Some("exit code 3"));
    assert_eq!(error(vec![exited(3), exited(0)]), None);
}

#[test]
fn a_loop_goes_on_if_something_outside_of_it_cut_it_short() {
    for (reason, goes) in [
        (Reason::Interrupted, true),
        (Reason::Error, true),
        (Reason::Done, false),
        (Reason::MaxIterations, false),
        (Reason::Budget, false),
        (Reason::Refused, false),
        (Reason::Cancelled, false),
    ] {
        assert_eq!(goes_on(reason), goes, "{reason:?}");
    }
}
