//! Random histories: a world that answers in any order, fails, crashes and is asked things, and what must hold anyway.
//!
//! `DACAPO_SIM_TIMES=20` runs twenty times as many of them, `DACAPO_SIM_SEED=42` replays one.

mod audit;
mod items;
mod world;

use std::collections::BTreeSet;

use super::LoopState;
use crate::{
    chance_tests::{Chance, for_seeds},
    event::{
        GateRole, IterationOutcome, IterationProgress, LoopEvent, NextSession, Obstacle, Outcome, Reason,
        StopCause,
    },
    judge::{claim::RefusalReason, signal::Signal},
};
use world::World;

const HISTORIES: u64 = 10_000;

// --- histories ----------------------------------------------------------------------------------------------

fn for_histories(share: u64, shares: u64, check: impl Fn(u64)) {
    for_seeds(HISTORIES, share, shares, check);
}

fn history(seed: u64, max_iterations: Option<u32>) -> World {
    let mut chance = Chance(seed);
    let max = max_iterations.unwrap_or_else(|| chance.of(&[1, 2, 3, 5, 8]));
    let mut world = World::new(chance, max);
    world.live();
    world
}

/// Every prefix of the journal is a place where dacapo may have died: it is found, resumed, and comes to an end.
fn every_prefix_recovers(world: World) {
    let mut state = LoopState::default();
    let journal = world.journal;
    for (at, event) in journal.iter().enumerate() {
        state.apply(event);
        World::of_prefix(state.clone(), &journal[..=at], world.policy.clone()).recover();
    }
}

macro_rules! shares {
    ($($name:ident $share:literal),*) => {$(
        #[test]
        fn $name() {
            // req 60, req 63, req 75, req 92, req 202, req 203, fault B1, fault B2, fault B7, fault B12, fault F10,
            // fault A10, fault A11, fault G7:
            // in any order of inputs, and wherever the journal is cut off.
            for_histories($share, 4, |seed| every_prefix_recovers(history(seed, None)));
        }
    )*};
}
shares!(
    random_histories_keep_the_rules_1 0,
    random_histories_keep_the_rules_2 1,
    random_histories_keep_the_rules_3 2,
    random_histories_keep_the_rules_4 3
);

#[test]
fn a_state_that_is_stored_at_any_event_and_read_back_goes_on_as_the_fold_does() {
    // What a checkpoint rests on, in the engine's store.
    for_histories(0, 10, |seed| {
        let (mut folded, mut restored) = (LoopState::default(), LoopState::default());
        for event in history(seed, None).journal {
            folded.apply(&event);
            restored.apply(&event);
            assert_eq!(restored, folded);
            restored = serde_json::from_str(&serde_json::to_string(&folded).unwrap()).unwrap();
            assert_eq!(restored.started, None, "the first event has it");
            restored.started.clone_from(&folded.started);
            assert_eq!(restored, folded);
        }
    });
}

#[test]
fn a_history_that_broke_a_rule_once_keeps_it() {
    // 94196: an iteration after the money was gone, behind a pause and a refused claim. (Refusals of agents and what gates expect came later.)
    let world = history(94_196, None);
    let is_as_it_was = world.policy.claims.refusals.is_empty()
        && world.policy.gates.specs.iter().all(|gate| gate.expect.is_default());
    assert!(is_as_it_was, "the history is not the one it was");
    every_prefix_recovers(world);
}

#[test]
fn a_limit_of_one_is_one_run() {
    // req 75, fault B1, fault B2: unless a person grants more.
    for_histories(0, 10, |seed| {
        let world = history(seed, Some(1));
        let granted = |event: &LoopEvent| match event {
            LoopEvent::LoopResumed { grant, .. } | LoopEvent::LimitsRaised { grant } => {
                grant.extra_iterations
            }
            _ => 0,
        };
        let granted = 1 + world.journal.iter().map(granted).sum::<u32>();
        assert!(world.state.counters.iterations <= granted);
        every_prefix_recovers(world);
    });
}

/// The serialised names of all variants of an enum. serde lists them in its error for an unknown name, so `json`
/// holds a name that no variant has.
fn all_names<T: serde::de::DeserializeOwned + std::fmt::Debug>(json: &str) -> Vec<String> {
    let error = serde_json::from_str::<T>(json).unwrap_err().to_string();
    let (_, known) = error.split_once("expected ").unwrap();
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Everything that a history can come by, by kind and name.
fn everything() -> BTreeSet<(&'static str, String)> {
    let kinds = [
        ("event", all_names::<LoopEvent>(r#"{"type": "?"}"#)),
        ("end", all_names::<Reason>(r#""?""#)),
        ("refusal", all_names::<RefusalReason>(r#""?""#)),
        ("attempt", all_names::<Outcome>(r#""?""#)),
        ("iteration", all_names::<IterationOutcome>(r#""?""#)),
        ("progress", all_names::<IterationProgress>(r#""?""#)),
        ("obstacle", all_names::<Obstacle>(r#""?""#)),
        ("session", all_names::<NextSession>(r#""?""#)),
        ("signal", all_names::<Signal>(r#"{"signal": "?"}"#)),
        ("stop", all_names::<StopCause>(r#""?""#)),
        ("check", all_names::<GateRole>(r#""?""#)),
    ];
    kinds.into_iter().flat_map(|(kind, names)| names.into_iter().map(move |name| (kind, name))).collect()
}

/// The kind of what stands in this field of an event of this type.
fn kind_of(event: &str, field: &str) -> Option<&'static str> {
    match (event, field) {
        (_, "type") => Some("event"),
        ("loop_finished", "reason") => Some("end"),
        ("claim_refused", "reason") => Some("refusal"),
        ("agent_exited", "outcome") => Some("attempt"),
        ("agent_exited", "obstacle") => Some("obstacle"),
        ("agent_exited", "next_session") => Some("session"),
        ("iteration_finished", "outcome") => Some("iteration"),
        ("iteration_finished", "progress") => Some("progress"),
        ("signal_seen", "signal") => Some("signal"),
        ("stop_requested", "by") => Some("stop"),
        ("gate_started", "role") => Some("check"),
        _ => None,
    }
}

#[test]
fn the_histories_come_by_every_end_and_every_event() {
    // fault B12: a simulation that never cancels proves nothing about cancelling.
    let mut missing = everything();
    assert!(missing.len() > 90, "asked of the types: {missing:?}");
    for never in [
        // This is said before a loop begins, when another dacapo holds its lock.
        ("end", "lock"),
        // Not written: the session stays as it is.
        ("session", "unchanged"),
        // Made by the loop itself, and no signal that an agent sends.
        ("signal", "own_claim"),
        // Loops of chat sessions have histories of their own: `session_tests.rs`.
        ("event", "session_idled"),
        ("event", "idle_skipped"),
        ("event", "session_erred"),
        ("event", "prompt_not_delivered"),
        // No policy here shares a budget with other loops; `decide_tests/outages.rs` does.
        ("event", "budget_low"),
        // No policy here tries gates or compares tests; `decide_tests/looks.rs` does.
        ("end", "gate"),
        ("event", "gate_tried"),
        ("event", "tree_approved"),
        ("refusal", "narrowed"),
    ] {
        assert!(missing.remove(&(never.0, never.1.to_owned())), "{never:?}");
    }
    let (mut starts, mut events) = (0, 0);
    for seed in 0..1000 {
        for event in history(seed, None).journal {
            starts += u32::from(matches!(event, LoopEvent::AgentStarted { .. }));
            events += 1;
            let json = serde_json::to_value(&event).unwrap();
            let name = json["type"].as_str().unwrap();
            for (field, value) in json.as_object().unwrap() {
                if let (Some(kind), Some(value)) = (kind_of(name, field), value.as_str()) {
                    missing.remove(&(kind, value.to_owned()));
                }
            }
        }
    }
    assert_eq!(missing, BTreeSet::new());
    assert!(starts > 1000 && events > 20_000, "{starts} agents and {events} events in 1000 histories");
}
