//! What every machine has in common: a state that is a fold of events, and a pure function that decides.
//!
//! The loop ([`crate::loop_machine`]) and the run of units ([`crate::unit::schedule`]) are machines. The engine keeps each
//! in the journal as a stream and is the only one that calls [`Machine::decide`] and [`Machine::apply`] there.

use std::fmt::Debug;

/// A pure machine: no clock, no file, no process.
pub trait Machine {
    /// A fold of this machine's own events and nothing else.
    type State: Default + Clone;
    /// What can reach it from outside.
    type Input;
    /// A fact to record.
    type Event: Clone + Debug + PartialEq;
    /// Something to do, once the events that were decided with it are recorded.
    type Effect;

    /// What follows from `input`. Total: every state answers every input, if only with nothing.
    fn decide(state: &Self::State, input: Self::Input) -> Step<Self::Event, Self::Effect>;

    /// Takes in one recorded fact. Judges nothing: what was judged is in the event.
    fn apply(state: &mut Self::State, event: &Self::Event);

    /// The state after `events`.
    fn fold<'a>(events: impl IntoIterator<Item = &'a Self::Event>) -> Self::State
    where
        Self::Event: 'a,
    {
        let mut state = Self::State::default();
        for event in events {
            Self::apply(&mut state, event);
        }
        state
    }
}

/// The answer of [`Machine::decide`]: facts that are recorded first, and things that are done second.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<E, F> {
    /// Facts for the journal, in order.
    pub events: Vec<E>,
    /// Things to do, in order.
    pub effects: Vec<F>,
}

impl<E, F> Default for Step<E, F> {
    fn default() -> Self {
        Self { events: Vec::new(), effects: Vec::new() }
    }
}
