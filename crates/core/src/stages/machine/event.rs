//! Facts in the life of a task.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::Reason,
    stages::{
        FindingDecision, RalphFailure, Round, Stage, StageIteration, StageName, StageTaskSpec, Stalemate,
    },
};

/// What a run of a task was started with. It is frozen here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStarted {
    pub task: StageTaskSpec,
    /// In the order in which the task passes through them.
    pub stages: Vec<PlannedStage>,
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
    /// Written before its loop is started.
    StageStarted {
        stage: StageName,
        run: u32,
        max_iterations: u32,
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
    StageFailed {
        run: u32,
        failure: RalphFailure,
    },
    MergeStarted {
        tree: String,
    },
    MergeHeld {
        reason: Reason,
        detail: String,
    },
    MergeResumed,
    TaskMerged {
        commit: String,
    },
    CancelRequested,
    TaskFinished(TaskEnd),
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEndReason {
    Done,
    Failed,
    Cancelled,
}
