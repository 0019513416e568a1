//! What a loop is doing, and what it has to know only while it does that.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Examination, GateResult, GateRole, Reason},
    item::ItemKey,
    judge::signal::Signal,
};

/// What a loop is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// It does not exist yet.
    #[default]
    New,
    /// It waits for other tasks.
    AwaitingTasks,
    /// It looks at the task folder before an agent starts.
    Looking,
    Running,
    /// A check runs that no claim depends on: how a gate stands before the first agent, or whether there is a claim.
    Checking {
        /// What the check is for.
        role: GateRole,
        /// Its place among the checks of that role.
        index: usize,
    },
    /// A claim is being judged, and the judging has come so far.
    Judging(JudgeStep, Box<Judging>),
    /// It waits between two iterations.
    Delaying,
    /// It waits for a time of day, without a process.
    Parked(Parking),
    /// It holds until a person says go on.
    Paused {
        /// Where it goes on then.
        then: Rest,
    },
    Over {
        reason: Reason,
        /// Where it goes on if a person resumes it.
        then: Rest,
    },
}

/// Where a loop goes on that holds or is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rest {
    /// The tasks that go first are waited for.
    AwaitingTasks,
    /// The task folder is looked at before an agent starts.
    Looking,
    /// The time it was parked until is waited for.
    Parked(Parking),
    /// The claim that has no verdict yet is judged from its beginning.
    Judging(Claim),
}

/// A wait without a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parking {
    /// When the loop goes on.
    pub until: Timestamp,
    /// What it waits for, in one line.
    pub why: String,
}

/// Whether an agent has worked in the newest iteration, and whether one still has to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iteration {
    /// It is over, or none has begun: a DONE that appears now is judged between two iterations.
    #[default]
    Closed,
    /// Its agent runs, or has ended and what follows is being found out.
    Open,
    /// Its newest attempt was not charged, and another one follows.
    AwaitsRetry,
}

/// A claim on its way to a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judging {
    pub claim: Claim,
    /// What became of its child loops.
    pub children: Children,
    /// What the workspace looked like when nothing of the agent lived any more.
    pub examined: Option<Box<Examination>>,
    /// Every try of a gate so far, in order.
    pub tries: Vec<GateTry>,
}

impl Judging {
    /// The judging of `claim`, at its beginning: nothing that was found out about it before is a proof.
    pub fn of(claim: Claim) -> Self {
        Self { claim, children: Children::None, examined: None, tries: Vec::new() }
    }
}

/// A claim: done, says somebody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The iteration that made it; 0 before the first.
    pub iteration: u32,
    /// What it rests on.
    pub by: Vec<Signal>,
    /// Commits that dacapo has made for it, and the items they complete.
    pub committed: Vec<(Option<ItemKey>, String)>,
}

/// How far the judging of a claim has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JudgeStep {
    /// Child loops are waited for, then the workspace is looked at.
    Children {
        /// Whether they were told to end already.
        cancelled: bool,
    },
    Gate {
        /// Its place in the policy.
        index: usize,
        /// How often it has run for this claim, this time included.
        attempt: u32,
    },
    /// Every gate agrees; the workspace is looked at once more.
    Rechecking,
    /// The workspace held still; what is kept may be committed.
    Committing,
}

/// The child loops of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Children {
    #[default]
    None,
    Finished,
    /// They were told to end, and did.
    Cancelled,
    /// Some were left running.
    Running,
}

/// One try of a gate, and what it came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateTry {
    /// The gate's place in the policy.
    pub index: usize,
    /// What people call it.
    pub name: String,
    pub command: String,
    /// What it came to.
    pub result: GateResult,
}

impl GateTry {
    /// Whether the claim may stand as far as this try goes.
    pub fn holds(&self) -> bool {
        self.result.passed || self.result.tolerated
    }
}

impl Phase {
    /// The judging of `claim`, at its beginning.
    pub fn judging(claim: Claim) -> Self {
        Self::Judging(JudgeStep::Children { cancelled: false }, Box::new(Judging::of(claim)))
    }

    /// Where a loop goes on that holds or ends in this phase.
    pub fn rest(&self) -> Rest {
        match self {
            Self::AwaitingTasks => Rest::AwaitingTasks,
            Self::Parked(parking) => Rest::Parked(parking.clone()),
            Self::Judging(_, judging) => Rest::Judging(judging.claim.clone()),
            Self::Paused { then } | Self::Over { then, .. } => then.clone(),
            Self::New | Self::Looking | Self::Running | Self::Checking { .. } | Self::Delaying => {
                Rest::Looking
            }
        }
    }

    /// The claim that has no verdict yet, also while the loop is over.
    pub fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Judging(_, judging) => Some(&judging.claim),
            Self::Paused { then: Rest::Judging(claim) } | Self::Over { then: Rest::Judging(claim), .. } => {
                Some(claim)
            }
            Self::New
            | Self::AwaitingTasks
            | Self::Looking
            | Self::Running
            | Self::Checking { .. }
            | Self::Delaying
            | Self::Parked(_)
            | Self::Paused { .. }
            | Self::Over { .. } => None,
        }
    }

    /// What it is parked for, also while it holds or is over.
    pub fn parking(&self) -> Option<&Parking> {
        match self {
            Self::Parked(parking)
            | Self::Paused { then: Rest::Parked(parking) }
            | Self::Over { then: Rest::Parked(parking), .. } => Some(parking),
            _ => None,
        }
    }
}

impl From<Rest> for Phase {
    fn from(rest: Rest) -> Self {
        match rest {
            Rest::AwaitingTasks => Self::AwaitingTasks,
            Rest::Looking => Self::Looking,
            Rest::Parked(parking) => Self::Parked(parking),
            Rest::Judging(claim) => Self::judging(claim),
        }
    }
}
