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
//! [`decide`] is total, and [`RunState::apply`] folds what was recorded: see `loop_machine`, whose manner this is. What the
//! loops of units write is translated beside it, by [`crate::unit::account`], and comes in as [`RunInput::LoopTold`].

mod decide;
#[cfg(test)]
pub(crate) mod decide_tests;
#[cfg(test)]
mod simulation_tests;
mod state;

use serde::{Deserialize, Serialize};

pub use decide::decide;
pub use state::{RunOver, RunState, UnitStanding};

use crate::{
    duration::Millis,
    event::{RunEvent, RunStarted, StopCause},
    ids::UnitId,
    loop_machine::Request,
    machine::Machine,
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
    Told { unit: UnitId, event: RunEvent },
    /// One event of a loop of this unit, translated by [`crate::unit::account::UnitAccount::see`]. What the run has told
    /// before is not told again.
    LoopTold {
        unit: UnitId,
        /// What the loop's event means for the unit's tasks.
        events: Vec<RunEvent>,
    },
    /// The process of a unit's job ended, and all it said was told before.
    JobEnded {
        unit: UnitId,
        /// How the process ended, for a job that did not say how the unit stands.
        detail: String,
    },
    /// A unit's job said something that cannot be understood: nothing that it says can be relied on any more.
    JobGarbled {
        unit: UnitId,
        /// What it said, in a sentence.
        detail: String,
    },
    /// A request from the journal's database.
    Requested(Request),
    /// An OS signal to the scheduler.
    Stop(StopCause),
    /// The time that jobs had to end is over.
    GraceOver,
    /// The run's time is used up.
    TimeOver,
    /// Its scheduler was found dead, and its jobs with it; said by the process that found it.
    OwnerDied,
}

/// The answer of [`decide`]: recorded first, done second.
pub type RunStep = crate::machine::Step<RunFact, RunEffect>;

/// A fact, and the unit that it is about; facts about the run itself have none.
pub type RunFact = (Option<UnitId>, RunEvent);

/// The run of units as a [`Machine`].
#[derive(Clone, Copy, Debug)]
pub struct RunMachine;

impl Machine for RunMachine {
    type State = RunState;
    type Input = RunInput;
    type Event = RunFact;
    type Effect = RunEffect;

    fn decide(state: &RunState, input: RunInput) -> RunStep {
        decide(state, input)
    }

    fn apply(state: &mut RunState, (unit, event): &RunFact) {
        state.apply(unit.as_ref(), event);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum RunEffect {
    /// Start a process; answered by `Told`, as often as it has something to say, and `JobEnded`.
    StartJob {
        unit: UnitId,
        job: Job,
        /// In this slot, from 1; 0 for what is not work.
        slot: u32,
    },
    /// Ask the job of this unit to stop, and kill it if it does not within [`GRACE`].
    StopJob {
        unit: UnitId,
    },
    /// Ask the loops of the run that work for something.
    AskLoops(Request),
    /// The time of the run stands still.
    HoldTime,
    /// The time of the run goes on where it stood, or with this limit from now on.
    GoOnWithTime {
        limit: Option<Millis>,
    },
    /// Ask every job to stop.
    AskJobsToStop,
    /// Ask every job again, which then kills what it runs.
    HurryJobs,
    KillJobs,
    /// Answered by `GraceOver` after so long, or sooner if it was armed before.
    ArmGrace(Millis),
}

/// What a process does for a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    Work {
        /// What was red in the merged tree, if it was sent back.
        back: Option<String>,
    },
    /// Merge it into the target.
    Merge,
    /// Push its branch and open a pull request.
    Publish,
}
