//! The loop of a stage, whose operations the pipeline names.

use super::*;
use crate::stages::{Stage, StageName};

/// The loop of a coder, with this many iterations.
fn coder(max_iterations: u32) -> Sim {
    let policy = Stage::of(StageName::Coder).policy(policy(|_| {}), max_iterations).unwrap();
    Sim { is_told: true, ..Sim::new(policy) }
}

/// A coder that keeps its promise in its output.
fn promises_its_word() -> Input {
    exits_with(0, |r| r.facts.promise = Some("IMPLEMENTATION_COMPLETE".into()))
}

#[test]
fn a_stage_starts_goes_on_takes_a_promise_verifies_it_counts_and_is_cancelled() {
    // req 172: start
    let mut sim = coder(2);
    assert_eq!((sim.state.counters.iterations, sim.starts), (0, 0));
    let first = sim.feed(no_markers());
    // Increment gives the new value, which the agent is told.
    assert!(matches!(work(&first)[..], [Effect::StartAgent { iteration: 1, .. }]), "{first:?}");
    assert_eq!(sim.state.counters.iterations, 1);

    // Extract: the promise of the stage is seen in what the agent left, and no other.
    let mut promised = sim.clone();
    let step = promised.feed(promises_its_word());
    let signal = Signal::Promise("IMPLEMENTATION_COMPLETE".into());
    assert!(step.events.contains(&LoopEvent::SignalSeen { iteration: 1, signal }), "{step:?}");
    assert_eq!(coder(2).after([no_markers(), exits(0)]).times("signal_seen"), 0);

    // Verify: without its evidence the promise is refused, with it the stage is done.
    let lacks = vec![MissingEvidence { item: None, reason: NoCommit }];
    let refused = promised.clone().after([no_children(), examined_with(|e| e.missing_evidence = lacks)]);
    assert_eq!((refused.times("claim_refused"), refused.over()), (1, None));
    let accepted = promised.after([no_children(), examined(), rechecked(&[])]);
    assert_eq!(accepted.over(), Some(Reason::Done), "{:?}", accepted.state.phase);

    // Should continue: as long as an iteration is left.
    let mut going_on = sim.clone().after([exits(0), Input::DelayOver]);
    let second = going_on.feed(no_markers());
    assert!(matches!(work(&second)[..], [Effect::StartAgent { iteration: 2, .. }]), "{second:?}");
    assert_eq!(going_on.state.counters.iterations, 2);
    let out = going_on.after([exits(0)]);
    assert_eq!((out.over(), out.starts), (Some(Reason::MaxIterations), 2));

    // Cancel: the agent is ended, and no other begins.
    let cancelled = sim.after([CANCEL, killed()]);
    assert_eq!((cancelled.over(), cancelled.starts), (Some(Reason::Cancelled), 1));
}
