//! The loop as a pure machine: inputs in one order go in, facts to record and things to do come out.
//!
//! ```text
//!            Begin                 nothing to wait for                  red before?
//!   (new) ─────────► AwaitingTasks ──────────────────► Looking ◄──────────────────► Checking (baseline)
//!                                                      ▲  │ markers read
//!      delay over, park over, unpaused, refused before │  │
//!      or between iterations, not charged              │  ├── a DONE is there ────────────────┐
//!                    ┌─────────────────────────────────┘  │ none                              │
//!                    │                                    ▼                                   ▼
//!        Delaying / Parked / Paused ◄── no claim ───── Running ── claim, or own claim ────► Judging
//!                    ▲                              (one agent)                               ▲ │
//!                    │                                    │ until-commands       all exit 0   │ │
//!                    ├─────────────── one exits 1 ───── Checking (until) ─────────────────────┘ │
//!                    └─────────────── refused ──────────────────────────────────────────────────┤
//!                                                                      accepted ──► Over(done) ◄─┘
//!
//!   Judging: children → look → gates → second look → commit
//!   any phase ── cancel, signal, limit, fatal ──► Over(reason) ── resume ──► Looking, Parked or Judging
//! ```
//!
//! [`decide`] is total: it names every phase and every input. [`LoopState::apply`] folds what was recorded and judges
//! nothing. Resuming a loop folds its journal and decides nothing again, so new code reads old journals, and a rule
//! that changed meanwhile does not change what they say. Of several reasons to stop the first of this order counts:
//! cancelled, done, fatal, waiting, limit (req 92).

mod after_agent;
mod control;
mod decide;
#[cfg(test)]
pub(crate) mod decide_tests;
mod effect;
mod gating;
mod input;
mod items;
mod iteration;
mod judging;
mod looks;
mod outages;
mod phase;
mod session;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod simulation_tests;
mod state;

use crate::{event::LoopEvent, machine::Machine};
pub use decide::decide;
pub use effect::{BusPost, BusTarget, Effect, ItemCommit, Step};
pub use input::{
    AgentReport, Begin, HostSessionError, Input, ItemCommits, Recheck, Request, Seal, SessionIdle,
    SharedBudget, SharedSpend, StartFailure, Supply,
};
pub(crate) use iteration::STUCK;
pub use looks::moved_goalposts;
pub use outages::is_broke;
pub use phase::{Children, Claim, GateTry, Iteration, JudgeStep, Judging, Parking, Phase, Rest};
pub use state::{
    AgentSessions, Counters, LimitsInForce, LoopState, LoopWords, Orders, OutputPosition, Progress, Refused,
    Spending,
};

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
