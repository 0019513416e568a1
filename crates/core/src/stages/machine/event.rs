//! Facts in the life of a task.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    agent::AgentCommand,
    event::Reason,
    ids::{LoopId, ProjectId, RunId},
    policy::{Policy, SetupCommand},
    stages::{
        FindingDecision, RalphFailure, Round, Stage, StageIteration, StageName, StageTaskSpec, Stalemate,
    },
    trust::Runnable,
};

/// What a run of a task was started with. It is frozen here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStarted {
    pub task: StageTaskSpec,
    /// In the order in which the task passes through them.
    pub stages: Vec<PlannedStage>,
    /// Why claims of each stage were refused in earlier runs of this task, the newest last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub past_refusals: BTreeMap<StageName, Vec<String>>,
    /// Findings of earlier runs of this task that no reviewer and no user has closed. They are the first of this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past_findings: Vec<String>,
    /// Missing only where no process performs the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<TaskSettings>>,
}

/// Where a run of a task works, and what its loops are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSettings {
    pub project: ProjectId,
    /// The top of the repository.
    pub root: PathBuf,
    /// The branch that the task is merged into.
    pub target: String,
    /// What the user's flags and configuration say to every loop.
    pub policy: Policy,
    /// The agents of the stages that do not have the one of the policy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<StageName, AgentCommand>,
    /// Commands that make a worktree ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<SetupCommand>,
    /// Commands before a worktree goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub teardown: Vec<SetupCommand>,
    /// Those commands of both lists that the repository brought. They run only as long as the user agrees to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps_of_repository: Vec<Runnable>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub submodules: bool,
    /// Whether the user agreed to the commands for this run alone (`--trust`). Otherwise the consent that is kept has to hold
    /// whenever the run goes on.
    #[serde(default)]
    pub is_trusted_once: bool,
    /// The programs that git sends files through, as they were set up when the run began. They hold in all its stages: an
    /// agent of one stage must not choose what dacapo's git starts in the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<(String, String)>>,
    pub pid: u32,
    pub version: String,
}

/// A fact of a task with its place in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEnvelope {
    pub seq: u64,
    pub at: Timestamp,
    pub run: RunId,
    #[serde(flatten)]
    pub event: TaskEvent,
}

/// A stage, and the limit that was chosen for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStage {
    pub stage: Stage,
    pub max_iterations: u32,
    /// Why it is this limit.
    #[serde(default)]
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TaskEvent {
    TaskStarted(Box<TaskStarted>),
    /// The task has a worktree of its own, or its target was merged into it.
    WorktreeMade {
        path: PathBuf,
        branch: String,
        /// The commit of the target that the branch holds, as dacapo knows it: what agents make of the history says nothing.
        #[serde(default)]
        target: String,
    },
    /// Written before its loop is started.
    StageStarted {
        stage: StageName,
        run: u32,
        max_iterations: u32,
        /// What its agent has to promise.
        #[serde(default)]
        promise: String,
        at: Timestamp,
        /// What the user has said to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_says: Option<String>,
    },
    /// An entry of the execution log.
    StageIteration {
        run: u32,
        #[serde(flatten)]
        entry: Box<StageIteration>,
    },
    /// Its loop was cut short by something outside of it.
    StageHeld {
        stage: StageName,
        run: u32,
        reason: Reason,
        detail: String,
    },
    /// It goes on with the same loop.
    StageResumed {
        stage: StageName,
        run: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_says: Option<String>,
    },
    StagePassed {
        stage: StageName,
        run: u32,
        iterations: u32,
        tree: String,
        /// Files that it changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
        /// Those of them that are not the role's to change.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unreviewed: Vec<String>,
        /// Tests that it deleted, and that no role has agreed to lose.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deleted_tests: Vec<String>,
        /// Why claims of its agent were refused on the way.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refusals: Vec<String>,
        /// The loop whose receipt proves it; without one the user took the work as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loop_id: Option<LoopId>,
    },
    /// What the coder says about findings; it closes none.
    CoderReplied {
        replies: Vec<FindingDecision>,
    },
    ReviewRound {
        round: Round,
    },
    /// The coder has to go on.
    SentBack {
        from: StageName,
        /// How many findings are open.
        open: u32,
    },
    QuestionAsked {
        number: u32,
        question: Question,
        /// The task is `todo` again while it waits.
        failure: RalphFailure,
    },
    QuestionAnswered {
        number: u32,
        is_approved: bool,
        text: String,
        /// What the answer means for open findings.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<FindingDecision>,
    },
    /// The user's answer does not count, and the question stays.
    AnswerRefused {
        number: u32,
        why: String,
    },
    StageFailed {
        run: u32,
        failure: RalphFailure,
        /// How its loop ended.
        #[serde(default = "StageFailure::default_reason")]
        why: Reason,
        /// Why claims of its agent were refused on the way.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refusals: Vec<String>,
    },
    MergeStarted {
        tree: String,
    },
    MergeHeld {
        reason: Reason,
        detail: String,
    },
    MergeResumed,
    /// The target has changed in the same places: the coder has to bring the two together.
    MergeConflicted {
        paths: Vec<String>,
    },
    TaskMerged {
        commit: String,
    },
    /// The user wants the task to hold before its next stage.
    PauseRequested,
    /// It holds: no stage is begun before the user lets it go on.
    TaskPaused {
        /// The stage that is next; without one it is the merge.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<StageName>,
        /// The tree that passed.
        tree: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user_says: Option<String>,
    },
    TaskUnpaused,
    /// Something the user should know, and the task goes on.
    Warned {
        text: String,
    },
    CancelRequested,
    TaskFinished(TaskEnd),
}

/// What a journal without a reason means.
struct StageFailure;

impl StageFailure {
    fn default_reason() -> Reason {
        Reason::Error
    }
}

/// What the user is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub stage: StageName,
    pub run: u32,
    pub text: String,
    pub about: QuestionAbout,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
pub enum QuestionAbout {
    /// The review does not converge.
    Review {
        #[serde(flatten)]
        stalemate: Stalemate,
        /// The tree that was refused.
        tree: String,
    },
    /// The agent says that it cannot be done as asked.
    Blocked,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEnd {
    pub end: TaskEndReason,
    pub detail: String,
    /// What the command exits with.
    #[serde(default)]
    pub exit_code: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEndReason {
    Done,
    Failed,
    Cancelled,
}
