//! What every machine has in common: a state that is a fold of events, and a pure function that decides.
//!
//! The loop ([`crate::loop_machine`]) and the run of units ([`crate::unit::schedule`]) are machines that the engine keeps in
//! the journal, each as a stream. A plan ([`crate::plan`]) is a machine [`InMemory`]: the job that performs it begins anew from
//! facts, and what it tells is recorded in the stream of its run.

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

/// A machine without a stream of its own: after a crash it begins anew from what its performer finds.
pub struct InMemory<M: Machine> {
    state: M::State,
}

impl<M: Machine> Default for InMemory<M> {
    fn default() -> Self {
        Self { state: M::State::default() }
    }
}

impl<M: Machine> InMemory<M> {
    pub fn state(&self) -> &M::State {
        &self.state
    }

    /// Decides what follows from `input` and takes it in. The caller tells the events, then performs the effects.
    pub fn step(&mut self, input: M::Input) -> Step<M::Event, M::Effect> {
        let step = M::decide(&self.state, input);
        for event in &step.events {
            M::apply(&mut self.state, event);
        }
        step
    }
}
