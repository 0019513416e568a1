//! What is known of a task: a fold of its events.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{PlannedStage, Question, TaskEnd, TaskEndReason, TaskEvent, TaskStarted};
use crate::stages::{Ralph, RalphFailure, ReviewLedger, StageName, StageTaskStatus, prompt::for_task};

/// Where a task stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TaskPhase {
    #[default]
    NotStarted,
    InStage {
        stage: StageName,
        run: u32,
        /// Whether its loop was cut short and waits for the user.
        is_held: bool,
        user_says: Option<String>,
    },
    /// The user is asked.
    Asking {
        number: u32,
        question: Question,
    },
    Merging {
        tree: String,
        is_held: bool,
    },
    Over(TaskEnd),
    /// Something was decided, and its next step is in the same record.
    Between,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskProgress {
    pub(super) started: Option<Box<TaskStarted>>,
    pub(super) phase: TaskPhase,
    pub(super) ledger: ReviewLedger,
    /// How many runs of stages there were.
    pub(super) runs: u32,
    pub(super) questions: u32,
    pub(super) is_cancelling: bool,
    /// The iteration that is under way in the current run.
    pub(super) iteration: u32,
    pub(super) stage_started_at: Option<Timestamp>,
    /// Entries of the execution log that are recorded: run and iteration.
    pub(super) logged: BTreeSet<(u32, u32)>,
    pub(super) failure: Option<RalphFailure>,
}

impl TaskProgress {
    pub fn phase(&self) -> &TaskPhase {
        &self.phase
    }

    pub fn ledger(&self) -> &ReviewLedger {
        &self.ledger
    }

    pub fn end(&self) -> Option<&TaskEnd> {
        match &self.phase {
            TaskPhase::Over(end) => Some(end),
            _ => None,
        }
    }

    /// What the task's file has to say.
    pub fn status(&self) -> StageTaskStatus {
        match &self.phase {
            TaskPhase::InStage { stage, .. } => StageTaskStatus::of_stage(*stage),
            TaskPhase::Merging { .. } => StageTaskStatus::Testing,
            TaskPhase::Over(TaskEnd { end: TaskEndReason::Done, .. }) => StageTaskStatus::Done,
            TaskPhase::NotStarted | TaskPhase::Asking { .. } | TaskPhase::Over(_) | TaskPhase::Between => {
                StageTaskStatus::Todo
            }
        }
    }

    /// The stage that is under way (req 188).
    pub fn ralph(&self) -> Option<Ralph> {
        let TaskPhase::InStage { stage, .. } = &self.phase else { return None };
        let planned = self.planned(*stage)?;
        Some(Ralph {
            stage: *stage,
            iteration: self.iteration,
            max_iterations: planned.max_iterations,
            started_at: self.stage_started_at?,
            completion_promise: for_task(&planned.stage, &self.started.as_ref()?.task).promise,
        })
    }

    /// Why the task is `todo` again (req 187).
    pub fn ralph_failure(&self) -> Option<&RalphFailure> {
        self.failure.as_ref().filter(|_| self.status() == StageTaskStatus::Todo)
    }

    pub(super) fn planned(&self, stage: StageName) -> Option<&PlannedStage> {
        self.started.as_ref()?.stages.iter().find(|planned| planned.stage.name == stage)
    }

    pub(super) fn apply(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::TaskStarted(started) => {
                self.started = Some(started.clone());
                self.phase = TaskPhase::Between;
            }
            TaskEvent::StageStarted { stage, run, at, user_says, .. } => {
                self.phase = TaskPhase::InStage {
                    stage: *stage,
                    run: *run,
                    is_held: false,
                    user_says: user_says.clone(),
                };
                (self.runs, self.iteration, self.stage_started_at) = (*run, 1, Some(*at));
            }
            TaskEvent::StageIteration { run, entry } => {
                self.logged.insert((*run, entry.ralph_iteration));
                if entry.continuing {
                    self.iteration = entry.ralph_iteration.saturating_add(1);
                }
            }
            TaskEvent::StageHeld { .. } => {
                if let TaskPhase::InStage { is_held, .. } = &mut self.phase {
                    *is_held = true;
                }
            }
            TaskEvent::StageResumed { stage, run, user_says } => {
                self.phase = TaskPhase::InStage {
                    stage: *stage,
                    run: *run,
                    is_held: false,
                    user_says: user_says.clone(),
                };
            }
            TaskEvent::StagePassed { .. } | TaskEvent::SentBack { .. } => self.phase = TaskPhase::Between,
            TaskEvent::CoderReplied { replies } => {
                for reply in replies {
                    self.ledger.take_reply(reply);
                }
            }
            TaskEvent::ReviewRound { round } => self.ledger.take_round(round),
            TaskEvent::QuestionAsked { number, question, failure } => {
                self.questions = *number;
                self.failure = Some(failure.clone());
                self.phase = TaskPhase::Asking { number: *number, question: question.clone() };
            }
            TaskEvent::QuestionAnswered { decisions, .. } => {
                self.ledger.take_answer(decisions);
                self.failure = None;
                self.phase = TaskPhase::Between;
            }
            TaskEvent::StageFailed { failure, .. } => {
                self.failure = Some(failure.clone());
                self.phase = TaskPhase::Between;
            }
            TaskEvent::MergeStarted { tree } => {
                self.phase = TaskPhase::Merging { tree: tree.clone(), is_held: false };
            }
            TaskEvent::MergeHeld { .. } | TaskEvent::MergeResumed => {
                if let TaskPhase::Merging { is_held, .. } = &mut self.phase {
                    *is_held = matches!(event, TaskEvent::MergeHeld { .. });
                }
            }
            TaskEvent::TaskMerged { .. } => self.phase = TaskPhase::Between,
            TaskEvent::CancelRequested => self.is_cancelling = true,
            TaskEvent::TaskFinished(end) => self.phase = TaskPhase::Over(end.clone()),
        }
    }
}
