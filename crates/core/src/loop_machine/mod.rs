//! The loop as a pure machine: inputs in one order go in, facts to record and things to do come out.
//!
//! ```text
//!            Begin                 nothing to wait for
//!   (new) ─────────► Awaiting ───────────────────────► Looking ◄───────────────┐
//!                    tasks                               │ markers read        │ delay over, unpaused
//!                                      a DONE is there   │                     │
//!                    ┌───────────────────────────────────┤ none               │
//!                    ▼                                   ▼                     │
//!                 Judging ◄──── claim ────────────── Running ── no claim ──► Delaying / Paused
//!       children → gates │                        (one agent)                  ▲
//!                        ├── accepted ──► Over(done)                           │
//!                        └── refused ──────────────────────────────────────────┘
//!
//!   any phase ── cancel, signal, limit, fatal ──► Over(reason) ── resume ──► Looking
//! ```
//!
//! [`decide`] is total: every phase answers every input, if only with nothing. [`LoopState::apply`] folds what was
//! recorded; resuming folds the journal and decides nothing again, so new code reads old journals. Of several
//! reasons to stop the first of this order counts: cancelled, done, fatal, waiting, limit (req 92).

mod control;
mod decide;
#[cfg(test)]
pub(crate) mod decide_tests;
mod effect;
mod gating;
mod input;
mod judging;
mod outages;
#[cfg(test)]
mod simulation_tests;
mod state;
mod tasks;

pub(crate) use decide::STUCK;
pub use decide::decide;
pub use effect::{BusPost, BusTarget, Effect, Step, TaskCommit};
pub use input::{
    AgentReport, Begin, Input, Purse, Recheck, Request, Seal, SharedSpend, StartFailure, Supply, TaskCommits,
};
pub use outages::is_broke;
pub use state::{Children, Claim, JudgeStep, LoopState, Phase};

use crate::{event::LoopEvent, machine::Machine};

/// The loop as a [`Machine`].
#[derive(Clone, Copy, Debug)]
pub struct LoopMachine;

impl Machine for LoopMachine {
    type State = LoopState;
    type Input = Input;
    type Event = LoopEvent;
    type Effect = Effect;

    fn decide(state: &LoopState, input: Input) -> Step {
        decide(state, input)
    }

    fn apply(state: &mut LoopState, event: &LoopEvent) {
        state.apply(event);
    }
}
