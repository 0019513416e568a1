//! Where a run stands: a fold of its events and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    AfterAnswer, EndReason, Raise, StepWorkKind, WorkflowEnd, WorkflowEvent, WorkflowSettings,
    WorkflowStarted,
};
use crate::{
    event::Reason,
    workflow::{Step, StepId, StepKind, Workflow, WorkflowBudget, template::Variables},
};

/// Where a run stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkflowProgress {
    /// Not stored with the state: it is the first event of the stream.
    #[serde(skip)]
    pub(super) started: Option<Arc<WorkflowStarted>>,
    pub(super) steps: BTreeMap<StepId, StepProgress>,
    /// The number of the newest question.
    pub(super) questions: u32,
    pub(super) is_paused: bool,
    /// What the user allows beyond the budget of the workflow.
    pub(super) raise: Raise,
    /// What was spent beyond the budget, if anything was.
    pub(super) exceeded: Option<String>,
    pub(super) stopping: Option<WorkflowEnd>,
    pub(super) end: Option<WorkflowEnd>,
}

/// Where a step stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepProgress {
    pub phase: StepPhase,
    /// How often something was begun for it.
    pub attempt: u32,
    /// How often it was tried again since it last completed.
    pub retries: u32,
    /// How often a person has sent the work back.
    pub reworks: u32,
    /// How many iterations of an interactive loop have ended.
    pub iterations: u32,
    pub output: String,
    /// What the person said last.
    pub said: String,
    pub is_changed: bool,
    pub session: Option<String>,
    /// Whether only its checks have to run when it begins again.
    #[serde(default)]
    pub only_checks: bool,
    /// Whether its loop goes on when it begins again, instead of another one.
    #[serde(default)]
    pub is_continued: bool,
}

/// What a step is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPhase {
    #[default]
    Pending,
    /// It may begin again as soon as the workspace is free.
    Ready(StepWorkKind),
    Running(StepWorkKind),
    Retrying {
        at: Timestamp,
    },
    /// The files that a person is to be asked about are being looked at.
    Looking,
    Asking {
        question: u32,
        tree: String,
        is_met: bool,
    },
    Waiting {
        due: Option<Timestamp>,
    },
    /// It can go on when the user says so.
    Held {
        work: StepWorkKind,
        reason: Reason,
        detail: String,
    },
    Completed,
    Failed {
        error: String,
        reason: Option<Reason>,
    },
    Skipped {
        why: String,
    },
}

impl StepPhase {
    /// Whether steps that depend on it need not wait for it any longer.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed { .. } | Self::Skipped { .. })
    }
}

/// What a run does, for people and for its performer.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkflowStanding {
    /// Something of it runs, or could.
    Running,
    Paused,
    /// A person has to answer: the number of the question.
    Question(u32),
    /// It goes on by itself at this time, or when a file or signal comes.
    Waiting(Option<Timestamp>),
    /// It goes on when the user says so.
    Held {
        reason: Reason,
        detail: String,
    },
    Over(WorkflowEnd),
}

impl WorkflowProgress {
    pub fn workflow(&self) -> Option<&Workflow> {
        self.started.as_ref().map(|started| &started.workflow)
    }

    /// Puts back what a stored state leaves out.
    pub fn complete(&mut self, started: WorkflowStarted) {
        self.started = Some(Arc::new(started));
    }

    pub fn settings(&self) -> Option<&WorkflowSettings> {
        self.started.as_ref()?.settings.as_deref()
    }

    /// Every step with where it stands, by name.
    pub fn steps(&self) -> impl Iterator<Item = (&StepId, &StepProgress)> {
        self.steps.iter()
    }

    pub fn started(&self) -> Option<&WorkflowStarted> {
        self.started.as_deref()
    }

    pub fn step(&self, id: &StepId) -> Option<&StepProgress> {
        self.steps.get(id)
    }

    pub fn end(&self) -> Option<&WorkflowEnd> {
        self.end.as_ref()
    }

    /// What the run does now.
    pub fn standing(&self) -> WorkflowStanding {
        if let Some(end) = &self.end {
            return WorkflowStanding::Over(end.clone());
        }
        let phases = || self.steps.values().map(|step| &step.phase);
        let runs = |phase: &StepPhase| matches!(phase, StepPhase::Running(_) | StepPhase::Looking);
        if phases().any(runs) {
            return WorkflowStanding::Running;
        }
        if self.is_paused {
            return WorkflowStanding::Paused;
        }
        if let Some(what) = &self.exceeded
            && self.enforces_budget()
        {
            return WorkflowStanding::Held { reason: Reason::Budget, detail: what.clone() };
        }
        let held = phases().find_map(|phase| match phase {
            StepPhase::Held { reason, detail, .. } => Some((*reason, detail.clone())),
            _ => None,
        });
        if let Some((reason, detail)) = held {
            return WorkflowStanding::Held { reason, detail };
        }
        let question = phases().find_map(|phase| match phase {
            StepPhase::Asking { question, .. } => Some(*question),
            _ => None,
        });
        if let Some(question) = question {
            return WorkflowStanding::Question(question);
        }
        let waits: Vec<Option<Timestamp>> = phases()
            .filter_map(|phase| match phase {
                StepPhase::Waiting { due } => Some(*due),
                StepPhase::Retrying { at } => Some(Some(*at)),
                _ => None,
            })
            .collect();
        if waits.is_empty() {
            WorkflowStanding::Running
        } else {
            WorkflowStanding::Waiting(waits.into_iter().flatten().min())
        }
    }

    /// The step that a question is about, if it is still open.
    pub fn question(&self, number: u32) -> Option<(&StepId, &StepPhase)> {
        self.steps
            .iter()
            .find(|(_, step)| matches!(step.phase, StepPhase::Asking { question, .. } if question == number))
            .map(|(id, step)| (id, &step.phase))
    }

    /// What variables stand for in the texts of a step.
    pub fn variables(&self, id: &StepId) -> Variables {
        let (run, message) = self
            .started
            .as_ref()
            .map(|started| (started.run.clone(), started.message.clone()))
            .unwrap_or_default();
        let own = self.steps.get(id);
        let output = |step: &StepProgress| (step.phase == StepPhase::Completed).then(|| step.output.clone());
        Variables {
            message,
            run,
            loop_prev_output: own.map(|step| step.output.clone()).unwrap_or_default(),
            loop_user_input: own.map(|step| step.said.clone()).unwrap_or_default(),
            rejection_reason: own.map(|step| step.said.clone()).unwrap_or_default(),
            outputs: self
                .steps
                .iter()
                .filter(|(other, _)| *other != id)
                .filter_map(|(id, step)| Some((id.clone(), output(step)?)))
                .collect(),
        }
    }

    /// What the workflow may cost, with what the user allows beyond it.
    pub fn budget(&self) -> Option<WorkflowBudget> {
        // What the user types on `resume` is a limit, also where the workflow has none.
        let raised = (self.raise != Raise::default()).then(WorkflowBudget::default);
        let mut budget = self.workflow()?.budget.or(raised)?;
        budget.max_cost = self.raise.max_cost.or(budget.max_cost);
        budget.max_tokens = self.raise.max_tokens.or(budget.max_tokens);
        budget.max_time = self.raise.max_time_ms.map(crate::duration::Millis).or(budget.max_time);
        Some(budget)
    }

    pub(super) fn enforces_budget(&self) -> bool {
        self.budget().is_some_and(|budget| budget.mode == crate::workflow::BudgetMode::Enforce)
    }

    pub(super) fn phase(&self, id: &StepId) -> &StepPhase {
        self.steps.get(id).map_or(&StepPhase::Pending, |step| &step.phase)
    }

    /// Whether a step that shares the workspace works in it, or was held up in the middle of its work.
    pub(super) fn is_workspace_busy(&self) -> bool {
        let is_busy = |step: &Step| match self.phase(&step.id) {
            StepPhase::Running(work) | StepPhase::Held { work, .. } => {
                !step.worktree || work.is_in_workspace()
            }
            _ => false,
        };
        self.workflow().is_some_and(|workflow| workflow.steps.iter().any(is_busy))
    }

    /// Whether the files are being looked at for a question; that takes a moment, and they have to hold still for it.
    pub(super) fn is_looking(&self) -> bool {
        self.steps.values().any(|step| step.phase == StepPhase::Looking)
    }

    /// Whether a person has to answer.
    pub(super) fn is_asking(&self) -> bool {
        self.steps.values().any(|step| matches!(step.phase, StepPhase::Asking { .. }))
    }

    /// How many steps work in worktrees of their own.
    pub(super) fn running_worktrees(&self) -> usize {
        self.workflow().map_or(0, |workflow| {
            let own = workflow.steps.iter().filter(|step| step.worktree);
            let works =
                |phase: &StepPhase| matches!(phase, StepPhase::Running(work) if !work.is_in_workspace());
            own.filter(|step| works(self.phase(&step.id))).count()
        })
    }

    /// Every step that is settled before `id` begins.
    pub(super) fn above(&self, id: &StepId) -> BTreeSet<StepId> {
        let mut seen = BTreeSet::new();
        let Some(workflow) = self.workflow() else { return seen };
        let mut next = vec![id.clone()];
        while let Some(at) = next.pop() {
            for before in workflow.step(&at).into_iter().flat_map(|step| &step.depends_on) {
                if seen.insert(before.clone()) {
                    next.push(before.clone());
                }
            }
        }
        seen
    }

    /// The checks between the last change and a question: first scripts, and agents that changed nothing, which run again whole;
    /// then agents and loops of which only the checks run again.
    pub(super) fn checks_before(&self, question: &StepId) -> (Vec<StepId>, Vec<StepId>) {
        let Some(workflow) = self.workflow() else { return Default::default() };
        let above = self.above(question);
        let is_above = |step: &&Step| above.contains(&step.id);
        let is_changer = |step: &Step| {
            step.kind.has_agent() && self.steps.get(&step.id).is_some_and(|progress| progress.is_changed)
        };
        let changers: Vec<&StepId> = workflow
            .steps
            .iter()
            .filter(is_above)
            .filter(|step| is_changer(step))
            .map(|step| &step.id)
            .collect();
        let is_check = |step: &&Step| match step.kind {
            StepKind::Bash(_) => true,
            StepKind::Agent(_) | StepKind::Loop(_) => !changers.is_empty() && !is_changer(step),
            StepKind::Approval(_) | StepKind::Wait(_) | StepKind::Cancel { .. } => false,
        };
        let is_between = |step: &&Step| {
            let own = self.above(&step.id);
            // A script beside the change has looked at the same files.
            let is_behind_change =
                !step.kind.has_agent() || changers.iter().any(|changer| own.contains(*changer));
            let is_above_change = changers.iter().any(|changer| self.above(changer).contains(&step.id));
            is_behind_change && !is_above_change
        };
        let whole: Vec<StepId> = workflow
            .steps
            .iter()
            .filter(is_above)
            .filter(is_check)
            .filter(is_between)
            .map(|step| step.id.clone())
            .collect();
        let is_above_change =
            |step: &Step| changers.iter().any(|changer| self.above(changer).contains(&step.id));
        let has_own_check = |step: &&Step| {
            let is_done = *self.phase(&step.id) == StepPhase::Completed;
            is_done && step.kind.has_checks() && !whole.contains(&step.id) && !is_above_change(step)
        };
        let own = workflow.steps.iter().filter(is_above).filter(has_own_check);
        let own = own.map(|step| step.id.clone()).collect();
        (whole, own)
    }

    pub(super) fn apply(&mut self, event: &WorkflowEvent) {
        match event {
            WorkflowEvent::WorkflowStart(started) => {
                let ids = started.workflow.steps.iter().map(|step| step.id.clone());
                self.steps = ids.map(|id| (id, StepProgress::default())).collect();
                self.started = Some(Arc::new((**started).clone()));
            }
            WorkflowEvent::ScriptStarted { .. } => {}
            WorkflowEvent::WorkflowPaused { .. } => self.is_paused = true,
            WorkflowEvent::WorkflowUnpaused => self.is_paused = false,
            WorkflowEvent::BudgetExceeded { what } => self.exceeded = Some(what.clone()),
            WorkflowEvent::WorkflowStopping { end } => self.stopping = Some(end.clone()),
            WorkflowEvent::WorkflowResumed { reopened, continued, raise } => {
                self.raise.max_cost = raise.max_cost.or(self.raise.max_cost);
                self.raise.max_tokens = raise.max_tokens.or(self.raise.max_tokens);
                self.raise.max_time_ms = raise.max_time_ms.or(self.raise.max_time_ms);
                (self.exceeded, self.end, self.stopping) = (None, None, None);
                self.reopen(reopened);
                self.reopen(continued);
                for id in continued {
                    if let Some(step) = self.steps.get_mut(id) {
                        step.is_continued = true;
                    }
                }
            }
            WorkflowEvent::WorkflowComplete { output } => {
                let detail = output.lines().next().unwrap_or_default().to_owned();
                self.end = Some(WorkflowEnd { end: EndReason::Completed, detail, exit_code: 0 });
            }
            WorkflowEvent::WorkflowError(end) => self.end = Some(end.clone()),
            WorkflowEvent::StepsReopened { steps, checks, .. } => {
                self.reopen(steps);
                self.reopen(checks);
                for id in checks {
                    if let Some(step) = self.steps.get_mut(id) {
                        step.only_checks = true;
                    }
                }
            }
            WorkflowEvent::QuestionAsked { question, step, tree, is_met, .. } => {
                self.questions = *question;
                let phase = StepPhase::Asking { question: *question, tree: tree.clone(), is_met: *is_met };
                self.enter(step, phase);
            }
            WorkflowEvent::StepStart { step, attempt, work } => {
                if let Some(own) = self.steps.get_mut(step) {
                    own.attempt = *attempt;
                    own.only_checks = false;
                }
                let phase = match work {
                    StepWorkKind::Question => StepPhase::Looking,
                    work => StepPhase::Running(*work),
                };
                self.enter(step, phase);
            }
            WorkflowEvent::StepContinued { step, .. } => {
                let work = match self.phase(step) {
                    StepPhase::Held { work, .. } => *work,
                    _ => StepWorkKind::Main,
                };
                if let Some(own) = self.steps.get_mut(step) {
                    own.is_continued = false;
                }
                self.enter(step, StepPhase::Running(work));
            }
            WorkflowEvent::StepComplete { step, output, is_changed, session, .. } => {
                if let Some(own) = self.steps.get_mut(step) {
                    own.output.clone_from(output);
                    own.is_changed |= *is_changed;
                    own.session.clone_from(session);
                    own.retries = 0;
                }
                self.enter(step, StepPhase::Completed);
            }
            WorkflowEvent::StepWorked { step, output, is_changed, session, .. } => {
                if let Some(own) = self.steps.get_mut(step) {
                    own.output.clone_from(output);
                    own.is_changed |= *is_changed;
                    own.session.clone_from(session);
                }
                self.enter(step, StepPhase::Ready(StepWorkKind::Merge));
            }
            WorkflowEvent::StepError { step, error, reason, retry_at, .. } => {
                let phase = match retry_at {
                    Some(at) => StepPhase::Retrying { at: *at },
                    None => StepPhase::Failed { error: error.clone(), reason: *reason },
                };
                if let Some(own) = self.steps.get_mut(step) {
                    own.retries += u32::from(retry_at.is_some());
                }
                self.enter(step, phase);
            }
            WorkflowEvent::StepSkipped { step, why } => {
                self.enter(step, StepPhase::Skipped { why: why.clone() });
            }
            WorkflowEvent::StepHeld { step, reason, detail, .. } => {
                let work = match self.phase(step) {
                    StepPhase::Running(work) => *work,
                    _ => StepWorkKind::Main,
                };
                self.enter(step, StepPhase::Held { work, reason: *reason, detail: detail.clone() });
            }
            WorkflowEvent::StepIterated { step, iteration, output, is_changed, session, .. } => {
                if let Some(own) = self.steps.get_mut(step) {
                    own.iterations = *iteration;
                    own.output.clone_from(output);
                    own.is_changed |= *is_changed;
                    own.session.clone_from(session);
                }
            }
            WorkflowEvent::QuestionAnswered { step, text, follows, .. } => {
                if let Some(own) = self.steps.get_mut(step) {
                    own.said.clone_from(text);
                    own.reworks += u32::from(*follows == AfterAnswer::Rework);
                }
                match follows {
                    AfterAnswer::Rework => self.enter(step, StepPhase::Ready(StepWorkKind::Rework)),
                    AfterAnswer::Iterate => self.enter(step, StepPhase::Ready(StepWorkKind::Main)),
                    AfterAnswer::Complete | AfterAnswer::End => {}
                }
            }
            WorkflowEvent::AnswerRefused { step, .. } | WorkflowEvent::ReworkComplete { step, .. } => {
                self.enter(step, StepPhase::Pending);
            }
            WorkflowEvent::WaitStarted { step, attempt, due } => {
                if let Some(own) = self.steps.get_mut(step) {
                    own.attempt = *attempt;
                }
                self.enter(step, StepPhase::Waiting { due: *due });
            }
        }
    }

    pub(super) fn kind(&self, id: &StepId) -> Option<&StepKind> {
        self.workflow()?.step(id).map(|step| &step.kind)
    }

    fn enter(&mut self, id: &StepId, phase: StepPhase) {
        if let Some(step) = self.steps.get_mut(id) {
            step.phase = phase;
        }
    }

    fn reopen(&mut self, steps: &[StepId]) {
        for id in steps {
            if let Some(step) = self.steps.get_mut(id) {
                step.phase = StepPhase::Pending;
                step.retries = 0;
            }
        }
    }
}
