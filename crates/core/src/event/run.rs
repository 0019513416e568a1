//! Facts about a run of units: its own stream, beside those of its loops.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Grant, Reason, StopCause};
use crate::{
    duration::Millis,
    ids::{LoopId, ProjectId, RunId, UnitId},
    unit::settings::RunSettings,
};

/// A fact with its place in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEnvelope {
    /// Global to the journal, ordered, gaps allowed; loops count in the same row.
    pub seq: u64,
    pub at: Timestamp,
    pub run: RunId,
    /// The unit it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<UnitId>,
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
    OrchCompleted { detail: String },
    /// The run is over, and not every unit is done.
    #[serde(rename = "orch.failed")]
    OrchFailed {
        /// `failed`, `person`, `budget`, `max_time`, `interrupted`, `terminated`, `cancelled`, `error`.
        reason: String,
        /// One line: the first thing that went wrong.
        detail: String,
        /// What the command exits with.
        exit_code: u8,
    },
    /// The user, the system or a limit wants the run to end: nothing new is begun, and what runs is asked to stop.
    #[serde(rename = "orch.stopping")]
    OrchStopping { by: RunStop },
    /// A person holds the run: no unit is begun or merged, and loops hold after their iteration, or now.
    #[serde(rename = "orch.paused")]
    OrchPaused {
        /// Whether agents are stopped for it.
        now: bool,
    },
    /// The run goes on.
    #[serde(rename = "orch.unpaused")]
    OrchUnpaused {
        /// What the person who lets it go on grants.
        #[serde(default, skip_serializing_if = "Grant::is_nothing")]
        grant: Grant,
    },
    /// A person's words for every loop of the run, those that begin later too.
    #[serde(rename = "orch.steered")]
    OrchSteered { text: String },
    /// The unit has to wait: for others, or for a slot.
    #[serde(rename = "unit.queued")]
    UnitQueued {
        /// Units that must be merged first.
        depends_on: Vec<UnitId>,
    },
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
    /// It is being merged: no other one is meanwhile.
    #[serde(rename = "unit.merging")]
    UnitMerging,
    /// Its branch is being pushed and a pull request opened: no other one meanwhile.
    #[serde(rename = "unit.publishing")]
    UnitPublishing,
    /// The process that worked on it, merged or published it has ended.
    #[serde(rename = "unit.job_ended")]
    UnitJobEnded,
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
    UnitSentBack { detail: String },
    /// It came to no good end.
    #[serde(rename = "unit.failed")]
    UnitFailed {
        reason: UnitEnd,
        detail: String,
        /// The loop that it failed in, if it did in one.
        #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
        loop_id: Option<LoopId>,
    },
    #[serde(rename = "unit.blocked")]
    UnitBlocked { by: Vec<UnitId> },
    #[serde(rename = "unit.warned")]
    UnitWarned { text: String },
    /// The target got commits while the unit was worked on, or before, that dacapo did not make.
    #[serde(rename = "unit.target_moved")]
    TargetMoved {
        target: String,
        /// The commit at which dacapo last knew the target.
        from: String,
        to: String,
        /// What differs between the two, tests first; not all, if there are very many.
        paths: Vec<String>,
    },
    /// A ready task was offered to an agent for the first time.
    #[serde(rename = "task.started")]
    TaskStarted {
        task: u32,
        title: String,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    /// An agent is about to be started.
    #[serde(rename = "task.claude.invoke")]
    TaskClaudeInvoke {
        #[serde(rename = "loop")]
        loop_id: LoopId,
        /// Counts the agents of this turn, 1-based.
        attempt: u32,
        agent: String,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    #[serde(rename = "task.claude.done")]
    TaskClaudeDone {
        #[serde(rename = "loop")]
        loop_id: LoopId,
        /// Which of the turn's agents.
        attempt: u32,
        /// Its exit code, unless a signal ended it.
        exit_code: Option<i32>,
        duration_ms: Millis,
        /// What went wrong, if anything did.
        error: Option<String>,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    /// The command that proves a task is about to run.
    #[serde(rename = "task.backpressure")]
    TaskBackpressure {
        task: u32,
        command: String,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    #[serde(rename = "task.validation.ok")]
    TaskValidationOk {
        task: u32,
        duration_ms: Millis,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    #[serde(rename = "task.validation.fail")]
    TaskValidationFail {
        task: u32,
        /// −1 when it timed out or could not be started.
        exit_code: i32,
        /// The end of what it printed.
        output: String,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    /// The task's work is committed.
    #[serde(rename = "task.committed")]
    TaskCommitted {
        task: u32,
        commit: Option<String>,
        /// Whether there was nothing to commit.
        empty: bool,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    /// The task is proven done.
    #[serde(rename = "task.completed")]
    TaskCompleted {
        task: u32,
        /// The loop whose receipt proves it.
        #[serde(rename = "loop")]
        loop_id: LoopId,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    /// An attempt brought no accepted task, and there will be another one.
    #[serde(rename = "task.retry")]
    TaskRetry {
        /// The attempt that failed, 1-based.
        attempt: u32,
        /// `backpressure_failed`, `no_task_completed`, `claude_invocation_failed`, `tampered`.
        reason: String,
        /// The place of the loop's event that says so.
        #[serde(default)]
        of: u64,
    },
    /// A task was given up.
    #[serde(rename = "task.failed")]
    TaskFailed { task: u32, detail: String },
    /// A pull request is open.
    #[serde(rename = "pr.created")]
    PrCreated { url: String },
    /// A merge commit for the target exists.
    #[serde(rename = "pr.merged")]
    PrMerged { commit: String },
    /// No pull request, and why.
    #[serde(rename = "pr.failed")]
    PrFailed { detail: String },
    /// The unit and the target changed the same lines.
    #[serde(rename = "pr.conflict")]
    PrConflict { paths: Vec<String> },
    /// The unit has a worktree, and it is set up.
    #[serde(rename = "worktree.created")]
    WorktreeCreated {
        path: PathBuf,
        branch: String,
        /// The commit it began at.
        base: String,
    },
    /// It is gone; everything in it was merged.
    #[serde(rename = "worktree.removed")]
    WorktreeRemoved { path: PathBuf },
    /// The branch is at the remote.
    #[serde(rename = "branch.pushed")]
    BranchPushed { branch: String, remote: String },
}

impl RunEvent {
    /// The place of the loop's event that it is a translation of.
    pub fn of(&self) -> Option<u64> {
        match self {
            Self::TaskStarted { of, .. }
            | Self::TaskClaudeInvoke { of, .. }
            | Self::TaskClaudeDone { of, .. }
            | Self::TaskBackpressure { of, .. }
            | Self::TaskValidationOk { of, .. }
            | Self::TaskValidationFail { of, .. }
            | Self::TaskCommitted { of, .. }
            | Self::TaskCompleted { of, .. }
            | Self::TaskRetry { of, .. } => Some(*of),
            _ => None,
        }
    }

    /// As it stands in the journal.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::OrchStarted(_) => "orch.started",
            Self::OrchCompleted { .. } => "orch.completed",
            Self::OrchFailed { .. } => "orch.failed",
            Self::OrchStopping { .. } => "orch.stopping",
            Self::OrchPaused { .. } => "orch.paused",
            Self::OrchUnpaused { .. } => "orch.unpaused",
            Self::OrchSteered { .. } => "orch.steered",
            Self::UnitQueued { .. } => "unit.queued",
            Self::UnitStarted { .. } => "unit.started",
            Self::UnitCompleted { .. } => "unit.completed",
            Self::UnitMerging => "unit.merging",
            Self::UnitPublishing => "unit.publishing",
            Self::UnitJobEnded => "unit.job_ended",
            Self::UnitMerged { .. } => "unit.merged",
            Self::UnitSentBack { .. } => "unit.sent_back",
            Self::UnitFailed { .. } => "unit.failed",
            Self::UnitBlocked { .. } => "unit.blocked",
            Self::UnitWarned { .. } => "unit.warned",
            Self::TargetMoved { .. } => "unit.target_moved",
            Self::TaskStarted { .. } => "task.started",
            Self::TaskClaudeInvoke { .. } => "task.claude.invoke",
            Self::TaskClaudeDone { .. } => "task.claude.done",
            Self::TaskBackpressure { .. } => "task.backpressure",
            Self::TaskValidationOk { .. } => "task.validation.ok",
            Self::TaskValidationFail { .. } => "task.validation.fail",
            Self::TaskCommitted { .. } => "task.committed",
            Self::TaskCompleted { .. } => "task.completed",
            Self::TaskRetry { .. } => "task.retry",
            Self::TaskFailed { .. } => "task.failed",
            Self::PrCreated { .. } => "pr.created",
            Self::PrMerged { .. } => "pr.merged",
            Self::PrFailed { .. } => "pr.failed",
            Self::PrConflict { .. } => "pr.conflict",
            Self::WorktreeCreated { .. } => "worktree.created",
            Self::WorktreeRemoved { .. } => "worktree.removed",
            Self::BranchPushed { .. } => "branch.pushed",
        }
    }
}

/// Who or what wants a run to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStop {
    /// `dacapo cancel`.
    Cancel,
    Interrupt,
    Terminate,
    Hangup,
    /// The run's time is used up.
    MaxTime,
}

impl From<StopCause> for RunStop {
    fn from(cause: StopCause) -> Self {
        match cause {
            StopCause::Cancel => Self::Cancel,
            StopCause::Interrupt => Self::Interrupt,
            StopCause::Terminate => Self::Terminate,
            StopCause::Hangup => Self::Hangup,
        }
    }
}

impl RunStop {
    /// The reason of a run that ends by it.
    pub fn reason(self) -> Reason {
        match self {
            Self::Cancel => Reason::Cancelled,
            Self::Interrupt => Reason::Interrupted,
            Self::Terminate | Self::Hangup => Reason::Terminated,
            Self::MaxTime => Reason::MaxTime,
        }
    }
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    pub project: ProjectId,
    /// The top of the repository.
    pub root: PathBuf,
    /// The branch that finished units go into.
    pub target: String,
    /// The newest commit of the target when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
    /// What becomes of a finished unit.
    pub merge: MergeMode,
    /// How many units are worked on at once.
    pub parallel: u32,
    /// The units it is about, in order.
    pub units: Vec<PlannedUnit>,
    /// What its loops are told.
    pub settings: Box<RunSettings>,
    /// The run whose budget it draws on: its own, or the one that it goes on with.
    pub budget_of: RunId,
    pub pid: u32,
    pub version: String,
}

/// A run that cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunProblem {
    #[error("`--parallel` must be more than zero")]
    NoSlots,
    #[error("unit `{0}` is named twice")]
    Duplicate(UnitId),
    #[error("these units wait for each other: {}", .0.iter().map(UnitId::as_str).collect::<Vec<_>>().join(", "))]
    Circle(Vec<UnitId>),
}

impl RunStarted {
    /// All that is wrong with it.
    pub fn problems(&self) -> Vec<RunProblem> {
        let mut problems = Vec::new();
        if self.parallel == 0 {
            problems.push(RunProblem::NoSlots);
        }
        let mut missing: BTreeMap<&UnitId, BTreeSet<&UnitId>> = BTreeMap::new();
        for plan in &self.units {
            if missing.insert(&plan.unit, plan.depends_on.iter().collect()).is_some() {
                problems.push(RunProblem::Duplicate(plan.unit.clone()));
            }
        }
        // Units that wait for no other are taken out, and then those that waited for them: what is left is a circle,
        // and what hangs on one.
        let mut behind: BTreeMap<&UnitId, Vec<&UnitId>> = BTreeMap::new();
        let known: BTreeSet<&UnitId> = missing.keys().copied().collect();
        for (unit, first) in &mut missing {
            first.retain(|other| known.contains(other));
            for other in first.iter() {
                behind.entry(*other).or_default().push(*unit);
            }
        }
        let mut free: Vec<&UnitId> =
            missing.iter().filter(|(_, first)| first.is_empty()).map(|(unit, _)| *unit).collect();
        while let Some(unit) = free.pop() {
            missing.remove(unit);
            for other in behind.get(unit).into_iter().flatten() {
                if let Some(first) = missing.get_mut(*other) {
                    first.remove(unit);
                    if first.is_empty() {
                        free.push(*other);
                    }
                }
            }
        }
        if !missing.is_empty() {
            problems.push(RunProblem::Circle(missing.into_keys().cloned().collect()));
        }
        problems
    }
}

/// What becomes of a finished unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeMode {
    /// It is merged into the target.
    #[default]
    Merge,
    Leave,
    /// Its branch is pushed, and a pull request opened.
    PullRequest,
}

/// A unit of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedUnit {
    pub unit: UnitId,
    /// Units that come first, of this run or done before.
    pub depends_on: Vec<UnitId>,
    /// Its tasks: number and title.
    pub tasks: Vec<(u32, String)>,
    /// The numbers of those that are complete.
    pub complete: Vec<u32>,
}

impl UnitEnd {
    /// As it stands in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Exhausted => "exhausted",
            Self::Baseline => "baseline",
            Self::Setup => "setup",
            Self::Merge => "merge",
            Self::Budget => "budget",
            Self::Person => "person",
            Self::Auth => "auth",
            Self::Cancelled => "cancelled",
            Self::Stopped => "stopped",
            Self::Environment => "environment",
            Self::Error => "error",
        }
    }
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
    /// It cannot be merged: a conflict that no agent could resolve, or a tree that stays red.
    Merge,
    /// A budget is used up.
    Budget,
    /// It waits for a person: a question, an approval.
    Person,
    /// Its agent is not signed in, or its account has no money: that holds for the other units too.
    Auth,
    Cancelled,
    /// It was stopped, and `unit run` goes on with it.
    Stopped,
    /// The agent is missing or cannot be started, the disk is full or failing, or another process holds what is needed.
    Environment,
    Error,
}
