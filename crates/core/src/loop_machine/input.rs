//! What can reach a loop from outside.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    duration::Millis,
    event::{AgentExit, Examination, GateResult, Grant, LoopStarted, OutputMarks, Spend, StopCause},
    ids::{LoopId, TaskId},
    item::ItemKey,
    judge::signal::Facts,
    limits::Spent,
};

/// Something that came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A new loop begins.
    Begin(Box<Begin>),
    /// A person continues it.
    Resume {
        /// What that person grants.
        grant: Grant,
        /// Where the segments end.
        output: OutputMarks,
        pid: u32,
    },
    /// Its supervisor was found dead; said by whoever found it.
    OwnerDied,
    /// Which of the tasks it waits for are not done.
    TasksLookedAt {
        /// None of them left: it may begin.
        missing: Vec<TaskId>,
    },
    /// The markers in the task folder, read before an agent starts, and what it could draw on.
    MarkersRead(Facts, Box<Supply>),
    /// What the running agent has used so far, and what everything on this machine has.
    UsageSeen {
        /// All of this process so far.
        spend: Spend,
        /// What all loops have used together, this one included.
        shared: SharedSpend,
        /// The model it uses, if nobody can tell what that costs.
        unpriced: Option<String>,
    },
    /// The time a parked loop waited for has come.
    ParkOver,
    /// The agent's process ended.
    AgentExited(Box<AgentReport>),
    /// It could not be started.
    AgentNotStarted(StartFailure),
    /// Child loops that were active when first looked for.
    ChildrenFound(Vec<LoopId>),
    /// The wait for them is over.
    ChildrenWaitedFor {
        left: Vec<LoopId>,
        /// How long it took.
        waited: Millis,
    },
    /// The check that was running ended.
    GateFinished(Box<GateResult>),
    /// The workspace was looked at for the claim; `None` where it cannot be.
    Examined(Option<Box<Examination>>),
    /// The workspace was looked at again after the gates.
    Rechecked(Recheck),
    /// It cannot be looked at: the reason.
    ExaminationFailed(String),
    /// The kept tree was committed, was there already (`None`), or could not be: the reason.
    CommitDone(Result<Option<String>, String>, Seal),
    /// The items of the claim were committed, as far as they could be.
    ItemsCommitted(ItemCommits, Seal),
    /// The pause between two iterations is over.
    DelayOver,
    /// An OS signal to the supervisor.
    Signalled(StopCause),
    /// A request from the journal's database.
    Requested(Request),
    /// Something that people should know, found by the supervisor while it carried out an effect.
    Noticed(String),
    /// The disk does not take what must be written.
    DiskFailed(String),
}

/// What an agent could draw on, as it stands before it starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Supply {
    /// Providers that are at their limit: until when, and why.
    pub closed: BTreeMap<String, (Timestamp, String)>,
    /// What everything on this machine has used.
    pub shared: SharedSpend,
}

/// What all loops have used together, as far as budgets are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedSpend {
    /// Today, on this machine.
    pub day: SharedBudget,
    /// In this project, ever.
    pub project: SharedBudget,
    /// In the run that the loop belongs to.
    pub run: SharedBudget,
}

/// What was taken out of a budget that loops share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedBudget {
    /// Spent, by this loop too.
    pub spent: Spent,
    /// Set aside by other loops whose agents have not yet reported anything.
    pub reserved: Spent,
}

/// What a new loop begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// What is recorded of it.
    pub started: LoopStarted,
    /// Things to tell the user at once.
    pub warnings: Vec<String>,
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentReport {
    pub at: Timestamp,
    /// How the process ended.
    pub exit: AgentExit,
    /// What was observed afterwards.
    pub facts: Facts,
    /// The workspace afterwards, as a snapshot and its tree; `None` if it is as it was or cannot be kept.
    pub snapshot: Option<(String, String)>,
    /// Where there are no snapshots: what the files come to by path, size and time; `None` if that cannot be told.
    pub outline: Option<String>,
    /// Things a person should know.
    pub warnings: Vec<String>,
}

/// The workspace after the gates.
#[derive(Clone, Debug, PartialEq)]
pub struct Recheck {
    /// Files that were there when the claim was made and are not as they were.
    pub disturbed: Vec<String>,
    /// What the receipt is sealed with.
    pub seal: Seal,
}

/// What became of the commits of items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemCommits {
    /// Each item that has its commit, or (`None`) had nothing left to commit.
    pub made: Vec<(ItemKey, Option<String>)>,
    /// The tree of the last of them.
    pub tree: Option<String>,
    /// Why the next one could not be made.
    pub failed: Option<String>,
}

/// What ties a receipt to its time and its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Seal {
    pub at: Timestamp,
    pub loop_id: String,
    pub started_at: Option<Timestamp>,
    /// SHA-256 of its journal so far.
    pub journal: String,
}

/// Why an agent could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    pub detail: String,
    /// Whether trying again could help.
    pub is_fatal: bool,
}

/// What a person asks of a loop.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    Cancel,
    /// Hold after this iteration, or now.
    Pause {
        /// Whether to stop the agent for it.
        now: bool,
    },
    /// Go on after a pause.
    Unpause {
        /// What that person grants.
        #[serde(flatten)]
        grant: Grant,
    },
    /// The agent asks a person something while it runs.
    Ask {
        text: String,
    },
    /// Words for the next prompt.
    Steer {
        text: String,
    },
    /// A person answers the question that a run of a workflow asks. Loops have none of this kind.
    Answer {
        /// `approve`, `reject`, or the id of a decision.
        decision: String,
        text: String,
        /// The question that the person was shown.
        question: u32,
    },
    /// A person or a program sends a signal that a run of a workflow waits for.
    Signal {
        name: String,
    },
}
