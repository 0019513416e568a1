//! What a loop is doing, and the facts that it needs only while it does that.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Examination, GateResult, GateRole, Look, Reason},
    item::ItemKey,
    judge::signal::Signal,
};

/// What a loop is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// No event is recorded yet.
    #[default]
    New,
    /// The loop waits until the tasks that go first are done.
    AwaitingTasks,
    /// The markers in the task folder are read before an agent starts.
    Looking,
    Running,
    /// A check runs that judges no claim: a gate before the first agent, or an until-command that may make a claim.
    Checking {
        role: GateRole,
        /// The check's place among the checks of that role.
        index: usize,
    },
    /// A claim is being judged.
    Judging(JudgeStep, Box<Judging>),
    /// The loop waits between two iterations.
    Delaying,
    /// The loop waits until a provider may be asked again. No agent runs.
    Parked(Parking),
    /// The loop waits until a person unpauses it.
    Paused {
        then: Rest,
    },
    Over {
        reason: Reason,
        then: Rest,
    },
}

/// Where a loop goes on that was paused or is over, if a person unpauses or resumes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Rest {
    /// The loop waits again until the tasks that go first are done.
    AwaitingTasks,
    /// The markers in the task folder are read before an agent starts.
    Looking,
    /// The loop waits until the time that it was parked for.
    Parked(Parking),
    /// The claim that has no verdict yet is judged from its beginning.
    Judging(Claim),
}

/// A wait for a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parking {
    pub until: Timestamp,
    /// What the loop waits for, in one line.
    pub why: String,
}

/// Whether an agent has worked in the newest iteration, and whether one still has to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Iteration {
    /// The newest iteration is over, or none has begun. A DONE file that appears now is judged between two iterations.
    #[default]
    Closed,
    /// The agent runs, or it has ended and the loop has not decided yet what follows.
    Open,
    /// The newest attempt was not charged, and another one follows in the same iteration.
    AwaitsRetry,
}

/// A claim on its way to a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judging {
    pub claim: Claim,
    pub children: Children,
    /// What the workspace looked like after every process of the agent had ended.
    pub examined: Option<Box<Examination>>,
    /// Every try of a gate so far, in order.
    pub tries: Vec<GateTry>,
}

impl Judging {
    /// The judging of `claim` from its beginning. What an earlier judging of it found proves nothing any more.
    pub fn of(claim: Claim) -> Self {
        Self { claim, children: Children::None, examined: None, tries: Vec::new() }
    }
}

/// A claim of the agent, the user or dacapo itself that the work is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The iteration in which the claim was made; 0 before the first.
    pub iteration: u32,
    /// The signals that make the claim.
    pub by: Vec<Signal>,
    /// Commits that dacapo has made for the claim, and the items they complete.
    pub committed: Vec<(Option<ItemKey>, String)>,
}

/// How far the judging of a claim has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JudgeStep {
    /// Child loops are waited for, then the workspace is looked at.
    Children {
        /// Whether dacapo told the children to end.
        cancelled: bool,
    },
    Gate {
        /// The gate's place in the policy.
        index: usize,
        /// How often the gate has run for this claim, starting at 1.
        attempt: u32,
        /// Which of the runs of the gates it is.
        #[serde(default)]
        look: Look,
    },
    /// Every gate passed; dacapo looks whether the workspace has changed meanwhile.
    Rechecking,
    /// The workspace has not changed; its tree may be committed.
    Committing,
}

/// The child loops of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Children {
    #[default]
    None,
    Finished,
    /// dacapo told them to end, and they did.
    Cancelled,
    /// Some were left running.
    Running,
}

/// One run of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateTry {
    /// The gate's place in the policy.
    pub index: usize,
    pub name: String,
    pub command: String,
    pub result: GateResult,
    #[serde(default)]
    pub look: Look,
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

    /// Where a loop goes on that is paused or ends in this phase.
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

    /// What the loop is parked for, also while it is paused or over.
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
