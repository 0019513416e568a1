//! Facts about a run of units: its own stream, beside those of its loops.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    duration::Millis,
    ids::{LoopId, ProjectId, RunId, UnitId},
};

/// A fact with its place in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnvelope {
    /// Global to the journal, ordered, gaps allowed; loops count in the same row.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The run.
    pub run: RunId,
    /// The unit it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitId>,
    /// What happened.
    #[serde(flatten)]
    pub event: RunEvent,
}

/// A fact in the life of a run. All but the `orch.*` ones are about a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum RunEvent {
    /// The run exists. Always the first.
    #[serde(rename = "orch.started")]
    OrchStarted(Box<RunStarted>),
    /// Every unit has come to its good end.
    #[serde(rename = "orch.completed")]
    OrchCompleted {
        /// One line.
        detail: String,
    },
    /// The run is over, and not every unit is done.
    #[serde(rename = "orch.failed")]
    OrchFailed {
        /// `failed`, `interrupted`, `terminated`, `budget`, `max_time`, `error`.
        reason: String,
        /// One line: the first thing that went wrong.
        detail: String,
        /// What the command exits with.
        exit_code: u8,
    },
    /// The unit has to wait: for others, or for a slot.
    #[serde(rename = "unit.queued")]
    UnitQueued {
        /// Units that must be merged first.
        depends_on: Vec<UnitId>,
    },
    /// Somebody works on it.
    #[serde(rename = "unit.started")]
    UnitStarted {
        /// In this slot, from 1.
        slot: u32,
    },
    /// All its tasks are complete and its baseline holds.
    #[serde(rename = "unit.completed")]
    UnitCompleted {
        /// The newest commit of its branch.
        commit: String,
    },
    /// The target holds it.
    #[serde(rename = "unit.merged")]
    UnitMerged {
        /// The branch it went into.
        target: String,
        /// The commit that holds it.
        commit: String,
        /// Where that stays, if the target could not be moved, and the command that moves it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left_on: Option<(String, String)>,
    },
    /// The merged tree was red: it is worked on again.
    #[serde(rename = "unit.sent_back")]
    UnitSentBack {
        /// What was red.
        detail: String,
    },
    /// It came to no good end.
    #[serde(rename = "unit.failed")]
    UnitFailed {
        /// The kind.
        reason: UnitEnd,
        /// One line.
        detail: String,
    },
    /// It cannot begin.
    #[serde(rename = "unit.blocked")]
    UnitBlocked {
        /// By these, which failed.
        by: Vec<UnitId>,
    },
    /// Somebody should know.
    #[serde(rename = "unit.warned")]
    UnitWarned {
        /// What.
        text: String,
    },
    /// A ready task was offered to an agent for the first time.
    #[serde(rename = "task.started")]
    TaskStarted {
        /// The task.
        task: u32,
        /// Its title.
        title: String,
    },
    /// An agent is about to be started.
    #[serde(rename = "task.claude.invoke")]
    TaskClaudeInvoke {
        /// The turn's loop.
        #[serde(rename = "loop")]
        loop_id: LoopId,
        /// Counts the agents of this turn, 1-based.
        attempt: u32,
        /// The agent's name.
        agent: String,
    },
    /// It has ended.
    #[serde(rename = "task.claude.done")]
    TaskClaudeDone {
        /// The turn's loop.
        #[serde(rename = "loop")]
        loop_id: LoopId,
        /// Which of the turn's agents.
        attempt: u32,
        /// Its exit code, unless a signal ended it.
        exit_code: Option<i32>,
        /// How long it ran.
        duration_ms: Millis,
        /// What went wrong, if anything did.
        error: Option<String>,
    },
    /// The command that proves a task is about to run.
    #[serde(rename = "task.backpressure")]
    TaskBackpressure {
        /// The task.
        task: u32,
        /// The command.
        command: String,
    },
    /// It exited 0.
    #[serde(rename = "task.validation.ok")]
    TaskValidationOk {
        /// The task.
        task: u32,
        /// How long it took.
        duration_ms: Millis,
    },
    /// It did not.
    #[serde(rename = "task.validation.fail")]
    TaskValidationFail {
        /// The task.
        task: u32,
        /// −1 when it timed out or could not be started.
        exit_code: i32,
        /// The end of what it printed.
        output: String,
    },
    /// The task's work is committed.
    #[serde(rename = "task.committed")]
    TaskCommitted {
        /// The task.
        task: u32,
        /// The commit.
        commit: Option<String>,
        /// Whether there was nothing to commit.
        empty: bool,
    },
    /// The task is proven done.
    #[serde(rename = "task.completed")]
    TaskCompleted {
        /// The task.
        task: u32,
        /// The loop whose receipt proves it.
        #[serde(rename = "loop")]
        loop_id: LoopId,
    },
    /// An attempt brought no accepted task, and there will be another one.
    #[serde(rename = "task.retry")]
    TaskRetry {
        /// The attempt that failed, 1-based.
        attempt: u32,
        /// `backpressure_failed`, `no_task_completed`, `claude_invocation_failed`.
        reason: String,
    },
    /// A task was given up.
    #[serde(rename = "task.failed")]
    TaskFailed {
        /// The task.
        task: u32,
        /// One line.
        detail: String,
    },
    /// A pull request is open.
    #[serde(rename = "pr.created")]
    PrCreated {
        /// Where.
        url: String,
    },
    /// A merge commit for the target exists.
    #[serde(rename = "pr.merged")]
    PrMerged {
        /// The commit.
        commit: String,
    },
    /// No pull request, and why.
    #[serde(rename = "pr.failed")]
    PrFailed {
        /// One line.
        detail: String,
    },
    /// The unit and the target changed the same lines.
    #[serde(rename = "pr.conflict")]
    PrConflict {
        /// The files.
        paths: Vec<String>,
    },
    /// The unit has a worktree, and it is set up.
    #[serde(rename = "worktree.created")]
    WorktreeCreated {
        /// Where.
        path: PathBuf,
        /// Its branch.
        branch: String,
        /// The commit it began at.
        base: String,
    },
    /// It is gone; everything in it was merged.
    #[serde(rename = "worktree.removed")]
    WorktreeRemoved {
        /// Where it was.
        path: PathBuf,
    },
    /// The branch is at the remote.
    #[serde(rename = "branch.pushed")]
    BranchPushed {
        /// Which.
        branch: String,
        /// Where.
        remote: String,
    },
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The project.
    pub project: ProjectId,
    /// The top of the repository.
    pub root: PathBuf,
    /// The branch that finished units go into.
    pub target: String,
    /// What becomes of a finished unit.
    pub merge: MergeMode,
    /// How many units are worked on at once.
    pub parallel: u32,
    /// The units it is about, in order.
    pub units: Vec<UnitPlan>,
    /// The scheduler's process.
    pub pid: u32,
    /// The version of dacapo.
    pub version: String,
}

/// What becomes of a finished unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeMode {
    /// It is merged into the target.
    #[default]
    Merge,
    /// Its branch stays.
    Leave,
    /// Its branch is pushed, and a pull request opened.
    PullRequest,
}

/// A unit of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPlan {
    /// Its name.
    pub unit: UnitId,
    /// Units that come first, of this run or done before.
    pub depends_on: Vec<UnitId>,
    /// Its tasks: number and title.
    pub tasks: Vec<(u32, String)>,
    /// The numbers of those that are complete.
    pub complete: Vec<u32>,
}

/// The kind of a unit's bad end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitEnd {
    /// No task is ready, and some failed.
    Failed,
    /// No task is ready, none failed, and not all are complete.
    Blocked,
    /// The tries for a task are used up.
    Exhausted,
    /// The baseline checks stay red.
    Baseline,
    /// What prepares its worktree failed, or the worktree itself.
    Setup,
    /// It cannot be merged: a conflict nobody could resolve, or a tree that stays red.
    Merge,
    /// A budget is used up.
    Budget,
    /// It waits for a person: a question, a sign-in.
    Person,
    /// Somebody cancelled it.
    Cancelled,
    /// It was stopped, and `unit run` goes on with it.
    Stopped,
    /// Anything else.
    Error,
}
