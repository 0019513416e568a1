//! A task's way through its stages, as a machine.
//!
//! ```text
//!               ┌────────────── the reviewer refuses, and the review converges
//!               ▼                      │
//!   todo ─► coder ─► reviewer ─► tester ─► qa ─► merging ─► done
//!             │         │  ▲        │       │       │
//!             │         ▼  │ approved by the user   │
//!             │       asking ──► coder (rejected)   │
//!             ▼         │           ▼       ▼       ▼
//!            todo, with `ralph_failure`: a stage that failed ends the run
//! ```
//!
//! Each stage is a loop that the performer runs, and every run of a stage has a number of its own by which the performer knows
//! it again. Everything that the machine knows is in the events of the task's own stream: the findings of the reviewer and the
//! answers of the user are nowhere else.
//!
//! - A stage begins only when the one before it is passed; the coder begins again only when the reviewer has refused.
//! - One stage of a task runs at a time, and none runs while the user is asked.
//! - A task is merged once, and only when all its stages are passed.
//! - A run comes to one end: done, failed or cancelled. A run that was interrupted, or that asks, has not ended.

mod decide;
mod event;
mod state;

#[cfg(test)]
pub(super) mod decide_tests;
#[cfg(test)]
mod simulation_tests;

use std::path::PathBuf;

use jiff::Timestamp;

pub use event::{
    PlannedStage, Question, QuestionAbout, TaskEnd, TaskEndReason, TaskEnvelope, TaskEvent, TaskSettings,
    TaskStarted,
};
pub use state::{StageSetup, TaskPhase, TaskProgress};

use super::{Stage, StageIteration, StageTaskStatus};
use crate::{
    event::Reason,
    ids::LoopId,
    machine::{Machine, Step},
    plan::goes_on,
};

pub struct TaskMachine;

impl Machine for TaskMachine {
    type State = TaskProgress;
    type Input = TaskInput;
    type Event = TaskEvent;
    type Effect = TaskEffect;

    fn decide(state: &TaskProgress, input: TaskInput) -> Step<TaskEvent, TaskEffect> {
        decide::decide(state, input)
    }

    fn apply(state: &mut TaskProgress, event: &TaskEvent) {
        state.apply(event);
    }
}

/// What reaches a task, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskInput {
    pub now: Timestamp,
    pub news: TaskNews,
}

/// What can happen to a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskNews {
    /// The run of the task is to begin. Only the first one counts.
    Begin(Box<TaskStarted>),
    /// A performer takes the task up that another one has left: it is told again what is under way.
    TakenUp,
    /// The user wants a task to go on that was interrupted.
    Resumed,
    /// The task has a worktree; said again for the same one, it changes nothing.
    WorktreeMade {
        path: PathBuf,
        branch: String,
        /// The commit of the target that the branch holds.
        target: String,
    },
    /// Something that the performer wanted to do did not work, and the task goes on.
    Trouble(String),
    /// An iteration of a stage is over.
    IterationEnded {
        run: u32,
        entry: Box<StageIteration>,
    },
    /// Answers [`TaskEffect::RunStage`].
    StageEnded {
        run: u32,
        end: Box<StageEnd>,
    },
    /// The user has answered a question.
    Answered {
        question: u32,
        answer: UserAnswer,
        text: String,
        /// The tree of the worktree when the answer was taken.
        tree: String,
    },
    /// Answers [`TaskEffect::Merge`].
    MergeEnded(MergeEnd),
    /// The user wants the task to hold before its next stage.
    Pause,
    /// The user lets it go on.
    Unpause,
    Cancel,
}

/// What the user says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAnswer {
    /// Go on: take the work as it is, or let the agent try again.
    Approve,
    /// Not like this: the coder goes on with what the user says, or the task is given up.
    Reject,
}

/// How the loop of a stage ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageEnd {
    pub reason: Reason,
    pub detail: String,
    /// What its agent wrote last.
    pub answer: String,
    /// The tree at its beginning.
    pub began_with: String,
    /// The tree at its end.
    pub tree: String,
    /// Whether its branch got commits.
    pub has_committed: bool,
    /// Files that differ from those at its start.
    pub changed: Vec<String>,
    /// Those of them that are gone.
    pub deleted: Vec<String>,
    /// How many iterations were charged.
    pub iterations: u32,
    /// Why claims of its agent were refused, in their order.
    pub refusals: Vec<String>,
    pub loop_id: Option<LoopId>,
}

/// How often the coder is asked to bring the task and its target together before the task fails.
pub(super) const MAX_CONFLICTS: u32 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeEnd {
    Merged {
        commit: String,
    },
    /// The target has changed in the same places.
    Conflict {
        paths: Vec<String>,
    },
    /// What was merged does not pass.
    Refused {
        why: String,
    },
    /// dacapo was told to stop, or something outside is missing.
    Held {
        reason: Reason,
        detail: String,
    },
}

/// Something to do, once the events that were decided with it are recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEffect {
    /// Write the status into the task's file.
    SetStatus(StageTaskStatus),
    /// Run the loop of a stage, or go on with it: the performer knows it by its run. If it has ended already, its end is the
    /// answer.
    RunStage(Box<StageOrder>),
    /// End the loop of a stage; it answers as always.
    StopStage {
        run: u32,
    },
    /// Tell people about a question. The answer may come in days, to another process.
    Ask {
        question: u32,
    },
    /// Merge the tree that passed. If it is merged already, that is the answer.
    Merge {
        tree: String,
    },
    /// Nothing can be done until the user resumes the task.
    Hold {
        reason: Reason,
        detail: String,
    },
    /// Remove the worktree and the branch of a task that is merged into this commit. It has no answer.
    Tidy {
        commit: String,
    },
    End(TaskEnd),
}

/// A stage that is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct StageOrder {
    /// Counts the runs of all stages of the task, from 1 on.
    pub run: u32,
    pub stage: Stage,
    pub max_iterations: u32,
    /// What the user has said to it.
    pub user_says: Option<String>,
    /// How often its agent was blocked and the user has let it go on.
    pub answered_blocks: u32,
}

/// What is to be done about the loop of a stage that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownLoop {
    /// Its end is the answer to the order.
    Report,
    /// It goes on. What the user has said is told to it if it answers a block.
    GoOn { is_told: bool },
}

impl StageOrder {
    /// What is to be done about the loop of this run, which has ended for `reason`, or is open, and whose agent was blocked
    /// `blocks` times. A block that the user has not answered yet is a question to the user, also after a crash.
    pub fn about(&self, reason: Option<Reason>, blocks: u32) -> KnownLoop {
        match reason {
            Some(Reason::Blocked) if blocks > self.answered_blocks => KnownLoop::Report,
            Some(Reason::Blocked) => KnownLoop::GoOn { is_told: true },
            Some(reason) if !goes_on(reason) => KnownLoop::Report,
            Some(_) | None => KnownLoop::GoOn { is_told: false },
        }
    }
}
