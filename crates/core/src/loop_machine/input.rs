//! What can reach a loop from outside.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{
    duration::Millis,
    event::{
        AgentExit, Examination, GateResult, Grant, LoopStarted, OutputMarks, Spend, StopCause, TriedGate,
    },
    ids::{LoopId, TaskId},
    item::ItemKey,
    judge::signal::Facts,
    limits::Spent,
    session::{TranscriptMark, TurnEnd},
};

/// Something that came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Begin(Box<Begin>),
    /// A person resumes the loop.
    Resume {
        /// What that person adds to the limits.
        grant: Grant,
        /// Where the segments end.
        output: OutputMarks,
        pid: u32,
    },
    /// Another dacapo found the loop's supervisor dead.
    OwnerDied,
    /// Which of the tasks that the loop waits for are not done.
    TasksLookedAt {
        /// Empty if the loop may begin.
        missing: Vec<TaskId>,
    },
    /// The markers in the task folder were read before an agent starts, and with them which budgets and providers it
    /// has.
    MarkersRead(Facts, Box<Supply>),
    /// The running agent reported what it has used.
    UsageSeen {
        /// What this agent process has used so far.
        spend: Spend,
        /// What all loops have used together, this one included.
        shared: SharedSpend,
        /// The model of the agent, as far as it is known.
        model: Option<String>,
        /// Whether dacapo knows no price for that model.
        is_unpriced: bool,
    },
    /// The time a parked loop waited for has come.
    ParkOver,
    /// The agent's process ended.
    AgentExited(Box<AgentReport>),
    /// The agent could not be started.
    AgentNotStarted(StartFailure),
    /// The child loops that were running when the supervisor looked for the first time.
    ChildrenFound(Vec<LoopId>),
    /// The wait for child loops is over.
    ChildrenWaitedFor {
        left: Vec<LoopId>,
        waited: Millis,
    },
    /// The check that was running ended.
    GateFinished(Box<GateResult>),
    /// A gate was tried before the first agent.
    GateTried {
        /// The gate's place in the policy.
        index: usize,
        tried: Box<TriedGate>,
    },
    /// All gates were tried, or the first agent has waited for that long enough.
    TrialWaitOver,
    /// The supervisor has looked at the workspace for the claim; `None` where there is nothing that it can look at.
    Examined(Option<Box<Examination>>),
    /// The supervisor has looked at the workspace again after the gates.
    Rechecked(Recheck),
    /// Looking at the workspace failed, for this reason.
    ExaminationFailed(String),
    /// The judged tree was committed, was committed already (`None`), or could not be committed for the given reason.
    CommitDone(Result<Option<String>, String>, Seal),
    /// The items of the claim were committed, as far as they could be.
    ItemsCommitted(ItemCommits, Seal),
    /// The pause between two iterations is over.
    DelayOver,
    /// An OS signal to the supervisor.
    Signalled(StopCause),
    /// A request from the journal's database.
    Requested(Request),
    /// A warning that the supervisor has to give about an effect that it carried out.
    Noticed(String),
    /// The agent of the chat session that the loop lives in has ended a turn.
    SessionIdle(Box<SessionIdle>),
    /// The host of that session reports an error.
    SessionFailed(HostSessionError),
    /// The session that the loop lives in is gone, for this reason.
    SessionGone(String),
    /// The host could not be given the prompt, for this reason.
    PromptNotDelivered(String),
    /// The disk does not take what must be written.
    DiskFailed(String),
}

/// Which providers can be asked and what is left of shared budgets, before an agent starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Supply {
    /// Agents whose account is at its limit, by their index: until when, and why. The policy's own agent is 0, its fallbacks
    /// follow.
    pub closed: BTreeMap<usize, (Timestamp, String)>,
    /// What the policy's own agent answered when it was asked whether it is signed in, if it says that it is not.
    pub signed_out: Option<String>,
    /// What all loops have used together, this one included.
    pub shared: SharedSpend,
}

/// What all loops have used together, as far as budgets are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedSpend {
    /// By all loops on this machine, today.
    pub day: SharedBudget,
    /// By all loops of this project, ever.
    pub project: SharedBudget,
    /// By all loops of the run that the loop belongs to.
    pub run: SharedBudget,
}

/// What loops took out of a budget that they share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedBudget {
    /// What all of them have spent, this loop included.
    pub spent: Spent,
    /// What other loops have set aside, because their agents have not yet reported usage.
    pub reserved: Spent,
}

/// What a new loop begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    pub started: LoopStarted,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// How an attempt went.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentReport {
    pub at: Timestamp,
    pub exit: AgentExit,
    /// What the supervisor observed after the end of the agent.
    pub facts: Facts,
    /// The snapshot of the workspace after the agent, and its tree; `None` if the workspace is unchanged or cannot be
    /// kept.
    pub snapshot: Option<(String, String)>,
    /// The outline of the workspace, where there are no snapshots; `None` if there are too many files.
    pub outline: Option<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The end of what the agent printed on stderr.
    pub stderr: String,
}

/// The end of a turn of the agent of a chat session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionIdle {
    pub report: AgentReport,
    pub turn: TurnEnd,
    /// Where the transcript of the session ends now.
    pub transcript: TranscriptMark,
    /// Whether the transcript holds words of the agent that it did not hold at the idle before.
    pub has_news: bool,
    /// What still runs for the agent.
    pub background: Vec<String>,
    /// A model whose tokens cannot be turned into money, if the agent talked to one.
    pub unpriced: Option<String>,
    /// What tells the next hook that nothing has written to the loop's snapshots since.
    pub seal: Option<String>,
}

/// An error of a chat session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSessionError {
    pub at: Timestamp,
    pub words: String,
    /// Whether the user aborted the turn.
    pub is_abort: bool,
}

/// What the second look at the workspace, after the gates, has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Recheck {
    /// Files that were there when the claim was made and have changed since.
    pub disturbed: Vec<String>,
    pub seal: Seal,
}

/// What became of the commits of items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemCommits {
    /// Each item with its commit, or with `None` if it had nothing left to commit.
    pub made: Vec<(ItemKey, Option<String>)>,
    /// The tree of the last commit.
    pub tree: Option<String>,
    /// Why the commit of the next item could not be made.
    pub failed: Option<String>,
}

/// What ties a receipt to its time and its journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Seal {
    pub at: Timestamp,
    pub loop_id: String,
    pub started_at: Option<Timestamp>,
    /// SHA-256 of the loop's journal so far.
    pub journal: String,
}

/// Why an agent could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartFailure {
    pub detail: String,
    /// Whether another try cannot help, because the program is missing or may not be run.
    pub is_fatal: bool,
}

/// What a person asks of a loop.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    Cancel,
    /// Pause after this iteration, or now.
    Pause {
        /// Whether the agent is stopped for it.
        now: bool,
    },
    /// Go on after a pause.
    Unpause {
        /// What the person adds to the limits.
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
    /// A person accepts this tree, whose claim was refused because its tests are narrower than they were.
    ApproveTree {
        tree: String,
        by: String,
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
