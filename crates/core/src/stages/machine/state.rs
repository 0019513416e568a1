//! What is known of a task: a fold of its events.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    PlannedStage, Question, QuestionAbout, StageOrder, TaskEnd, TaskEndReason, TaskEvent, TaskSettings,
    TaskStarted,
};
use crate::{
    judge::{evidence::Evidence, promise::BlankPromise},
    policy::{CommitRule, GateSpec, OwnClaim, Policy},
    stages::{
        MayWrite, Ralph, RalphFailure, ReviewLedger, StageName, StageTaskStatus,
        prompt::{StagePrompt, for_task},
    },
};

/// Where a task stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// The user holds it.
    Paused {
        next: Option<StageName>,
        tree: String,
        user_says: Option<String>,
    },
    Over(TaskEnd),
    /// Something was decided, and its next step is in the same record.
    Between,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskProgress {
    /// Not kept with a checkpoint: the first event of the stream has it.
    #[serde(skip)]
    pub(super) started: Option<Box<TaskStarted>>,
    pub(super) phase: TaskPhase,
    pub(super) ledger: ReviewLedger,
    /// How many runs of stages there were.
    pub(super) runs: u32,
    pub(super) questions: u32,
    pub(super) is_cancelling: bool,
    /// How often the agent of the current run was blocked and the user has let it go on.
    pub(super) answered_blocks: u32,
    /// Whether the user wants it to hold.
    pub(super) is_pausing: bool,
    /// The iteration that is under way in the current run.
    pub(super) iteration: u32,
    pub(super) stage_started_at: Option<Timestamp>,
    /// Entries of the execution log that are recorded: run and iteration.
    pub(super) logged: BTreeSet<(u32, u32)>,
    pub(super) failure: Option<RalphFailure>,
    pub(super) worktree: Option<(PathBuf, String)>,
    /// The commit of the target that the branch holds.
    pub(super) target: String,
    /// The tree that the newest stage passed with.
    pub(super) passed_tree: String,
    /// Why claims of each stage were refused in this run, the newest last.
    pub(super) refusals: BTreeMap<StageName, Vec<String>>,
    /// Files that got conflict marks, until the coder has passed.
    pub(super) conflicted: Vec<String>,
    /// How often the merge was in conflict.
    pub(super) conflicts: u32,
}

/// The loop of a stage, as it is to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSetup {
    pub policy: Policy,
    pub prompt: String,
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
            TaskPhase::Merging { .. } | TaskPhase::Paused { next: None, .. } => StageTaskStatus::Testing,
            TaskPhase::Paused { next: Some(stage), .. } => StageTaskStatus::of_stage(*stage),
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

    /// How many runs of stages there were.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    pub fn started(&self) -> Option<&TaskStarted> {
        self.started.as_deref()
    }

    pub fn settings(&self) -> Option<&TaskSettings> {
        self.started.as_ref()?.settings.as_deref()
    }

    /// Puts back what a checkpoint leaves out.
    pub fn complete(&mut self, started: TaskStarted) {
        self.started = Some(Box::new(started));
    }

    /// The worktree of the task and its branch, once it has one.
    pub fn worktree(&self) -> Option<(&Path, &str)> {
        self.worktree.as_ref().map(|(path, branch)| (path.as_path(), branch.as_str()))
    }

    /// The commit of the target that the branch of the task holds, as dacapo knows it.
    pub fn target_commit(&self) -> Option<&str> {
        Some(self.target.as_str()).filter(|commit| !commit.is_empty())
    }

    /// The loop of a stage: what the user said to all loops, the agent of the stage, and what its role asks for. What its
    /// agent leaves uncommitted is committed when it is proven, so that the branch holds what the next stage looks at.
    pub fn setup(&self, order: &StageOrder) -> Result<Option<StageSetup>, BlankPromise> {
        let (Some(started), Some(settings)) = (self.started.as_ref(), self.settings()) else {
            return Ok(None);
        };
        let StageOrder { stage, max_iterations, user_says, .. } = order;
        let mut base = settings.policy.clone();
        if let Some(agent) = settings.agents.get(&stage.name) {
            base.agent.command = agent.clone();
        }
        let mut policy = stage.policy(base, *max_iterations)?;
        if stage.name.role().may_write != MayWrite::Nothing {
            let message = format!("{}: {} ({})", started.task.id, started.task.title, stage.name);
            for item in policy.items.iter_mut().filter(|item| item.key.is_none()) {
                item.commit = Some(CommitRule { message: Some(message.clone()) });
                item.writes.clone_from(&started.task.writes);
            }
        }
        if stage.name == StageName::Coder && !self.conflicted.is_empty() {
            policy.gates.specs.push(GateSpec::no_markers(&self.conflicted));
            // A test with markers of a conflict in it passes nothing.
            for item in policy.items.iter_mut().filter(|item| item.key.is_none()) {
                item.writes.extend(self.conflicted.iter().cloned());
            }
        }
        // A coder may answer that a finding is none. Then it has nothing to change, and the reviewer decides.
        if stage.name == StageName::Coder && self.ledger.open().next().is_some() {
            policy.claims.allow_empty = true;
            for item in &mut policy.items {
                item.evidence.retain(|evidence| *evidence != Evidence::Commit);
            }
        }
        let refusals: Vec<String> = [&started.past_refusals, &self.refusals]
            .into_iter()
            .filter_map(|known| known.get(&stage.name))
            .flatten()
            .cloned()
            .collect();
        let prompt = StagePrompt {
            task: &started.task,
            stage,
            ledger: &self.ledger,
            past_refusals: &refusals,
            user_says: user_says.as_deref(),
        };
        Ok(Some(StageSetup { policy, prompt: prompt.text() }))
    }

    /// The loop without an agent that checks what the task and its target come to together: every check of every stage, once,
    /// but for those that ask an agent.
    pub fn merge_policy(&self) -> Option<Policy> {
        let started = self.started.as_ref()?;
        let mut policy = started.settings.as_ref()?.policy.clone();
        for planned in &started.stages {
            for gate in for_task(&planned.stage, &started.task).gates {
                let is_known = |known: &GateSpec| known.run == gate.run && known.expect == gate.expect;
                if gate.ask.is_none() && !policy.gates.specs.iter().any(is_known) {
                    policy.gates.specs.push(gate);
                }
            }
        }
        Some(policy.with(|policy| {
            policy.limits.max_iterations = 0;
            policy.claims.own_claim = OwnClaim::Always;
            policy.claims.allow_empty = true;
            policy.gates.run_all = true;
        }))
    }

    pub(super) fn planned(&self, stage: StageName) -> Option<&PlannedStage> {
        self.started.as_ref()?.stages.iter().find(|planned| planned.stage.name == stage)
    }

    pub(super) fn apply(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::TaskStarted(started) => {
                self.ledger = ReviewLedger::with_earlier(&started.past_findings);
                self.started = Some(started.clone());
                self.phase = TaskPhase::Between;
            }
            TaskEvent::WorktreeMade { path, branch, target } => {
                self.worktree = Some((path.clone(), branch.clone()));
                self.target.clone_from(target);
            }
            TaskEvent::StageStarted { stage, run, at, user_says, .. } => {
                self.phase = TaskPhase::InStage {
                    stage: *stage,
                    run: *run,
                    is_held: false,
                    user_says: user_says.clone(),
                };
                (self.runs, self.iteration, self.stage_started_at) = (*run, 1, Some(*at));
                self.answered_blocks = 0;
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
            TaskEvent::StagePassed { stage, refusals, tree, .. } => {
                self.passed_tree.clone_from(tree);
                if *stage == StageName::Coder {
                    self.conflicted.clear();
                }
                self.refusals.entry(*stage).or_default().extend_from_slice(refusals);
                self.phase = TaskPhase::Between;
            }
            TaskEvent::SentBack { .. } => self.phase = TaskPhase::Between,
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
            TaskEvent::QuestionAnswered { decisions, is_approved, .. } => {
                if let TaskPhase::Asking { question, .. } = &self.phase
                    && (&question.about, *is_approved) == (&QuestionAbout::Blocked, true)
                {
                    self.answered_blocks = self.answered_blocks.saturating_add(1);
                }
                self.ledger.take_answer(decisions);
                self.failure = None;
                self.phase = TaskPhase::Between;
            }
            TaskEvent::AnswerRefused { .. } => {}
            TaskEvent::StageFailed { failure, refusals, .. } => {
                self.refusals.entry(failure.stage).or_default().extend_from_slice(refusals);
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
            TaskEvent::MergeConflicted { paths } => {
                self.conflicted.clone_from(paths);
                self.conflicts = self.conflicts.saturating_add(1);
                self.phase = TaskPhase::Between;
            }
            TaskEvent::TaskMerged { .. } => self.phase = TaskPhase::Between,
            TaskEvent::PauseRequested => self.is_pausing = true,
            TaskEvent::TaskPaused { next, tree, user_says } => {
                self.phase =
                    TaskPhase::Paused { next: *next, tree: tree.clone(), user_says: user_says.clone() };
            }
            TaskEvent::TaskUnpaused => {
                self.is_pausing = false;
                if matches!(self.phase, TaskPhase::Paused { .. }) {
                    self.phase = TaskPhase::Between;
                }
            }
            TaskEvent::Warned { .. } => {}
            TaskEvent::CancelRequested => self.is_cancelling = true,
            TaskEvent::TaskFinished(end) => self.phase = TaskPhase::Over(end.clone()),
        }
    }
}
