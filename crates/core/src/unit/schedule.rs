//! The schedule of a run as a pure machine: units, slots, and one lane for merges.
//!
//! ```text
//!                everything it depends on is there, and a slot is free
//!   Queued ──────────────────────────────► Working ──────► Completed ──────► Merging ──► Merged
//!     │                                     ▲  │              (lane)            │    └──► Published
//!     │ something it depends on failed      │  └─────► Failed ◄────────────────┤
//!     ▼                                     └──────────────────── sent back ───┘
//!   Blocked
//! ```
//!
//! [`decide`] is total, and [`RunState::apply`] folds what was recorded: see `loop_machine`, whose manner this is. Beside
//! that fold the state holds what it knows of the loops' own journals ([`RunState::see`]), to tell of them once.

mod decide;
#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod simulation_tests;
mod state;

use serde::{Deserialize, Serialize};

pub use decide::decide;
pub use state::{RunOver, RunState, Standing};

use crate::{
    duration::Millis,
    event::{Envelope, RunEvent, RunStarted, StopCause},
    ids::UnitId,
};

/// How long jobs may take to end when the run is stopped (req 56).
pub const GRACE: Millis = Millis::from_secs(30);

/// How long they may take when it is asked for again.
pub const HURRY: Millis = Millis::from_secs(5);

/// How often a unit may be sent back from a merge.
pub const SENT_BACK_AT_MOST: u32 = 3;

/// Something that came in.
#[derive(Clone, Debug, PartialEq)]
pub enum RunInput {
    /// A new run begins; one that has [`RunStarted::problems`] ends at once.
    Begin(Box<RunStarted>),
    /// A job says something about its unit.
    Told {
        /// The unit.
        unit: UnitId,
        /// What.
        event: RunEvent,
    },
    /// An event of a loop of this unit. When what follows from it is recorded: [`RunState::see`].
    LoopSeen(Box<Envelope>, UnitId),
    /// The process of a unit's job ended, and all it said was told before.
    JobEnded {
        /// The unit.
        unit: UnitId,
        /// How the process ended, for a job that did not say how the unit stands.
        detail: String,
    },
    /// A unit's job said something that cannot be understood: nothing that it says can be relied on any more.
    JobGarbled {
        /// The unit.
        unit: UnitId,
        /// What it said, in a sentence.
        detail: String,
    },
    /// Somebody wants the run to end.
    Stop(StopCause),
    /// The time that jobs had to end is over.
    GraceOver,
    /// The run's time is used up.
    TimeOver,
    /// Its scheduler was found dead, and its jobs with it; said by whoever found it.
    OwnerDied,
}

/// The answer of [`decide`]: recorded first, done second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunStep {
    /// Facts for the journal, in order, and whom they are about.
    pub events: Vec<(Option<UnitId>, RunEvent)>,
    /// Things to do, in order.
    pub effects: Vec<RunEffect>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEffect {
    /// Start a process; answered by `Told`, as often as it has something to say, and `JobEnded`.
    StartJob {
        /// For this unit.
        unit: UnitId,
        /// To do this.
        job: Job,
        /// In this slot, from 1; 0 for what is not work.
        slot: u32,
    },
    /// Ask the job of this unit to stop, and kill it if it does not within [`GRACE`].
    StopJob {
        /// The unit.
        unit: UnitId,
    },
    /// Ask every job to stop.
    AskJobsToStop,
    /// Ask every job again, which then kills what it runs.
    HurryJobs,
    /// Kill every job.
    KillJobs,
    /// Answered by `GraceOver` after so long, or sooner if it was armed before.
    ArmGrace(Millis),
}

/// What a process does for a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Worktree, turns, baseline.
    Work {
        /// What was red in the merged tree, if it was sent back.
        back: Option<String>,
    },
    /// Merge it into the target.
    Merge,
    /// Push its branch and open a pull request.
    Publish,
}
