//! What people see of a run of a workflow: a fold of its stream.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Why;
use crate::{
    duration::Millis,
    event::Reason,
    ids::{ProjectId, RunId},
    workflow::{
        BudgetMode, OfferedDecision, StepId, StepKind, WaitFor,
        machine::{AfterAnswer, EndReason, StepWorkKind, WorkflowEnd, WorkflowEnvelope, WorkflowEvent},
    },
};

/// One run of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowView {
    pub id: RunId,
    /// The name of the workflow.
    pub workflow: String,
    pub project: ProjectId,
    /// The folder that its steps work in.
    pub root: PathBuf,
    /// SHA-256 over the files it was made from.
    pub digest: String,
    /// `running`, `stopping`, `paused`, `stopped`, `completed`, `failed`, `cancelled` or `blocked`.
    pub state: String,
    /// Why it is over, or why it does not go on by itself.
    pub reason: Option<String>,
    /// One line about that.
    pub detail: Option<String>,
    pub exit_code: Option<u8>,
    /// Whether it has come to its end; a run that is stopped has not.
    pub is_over: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub pid: Option<u32>,
    /// The newest step that was begun, counted from 1 in the order of the file.
    pub current_step_index: u32,
    pub steps: Vec<StepView>,
    /// What a person has to answer.
    pub question: Option<QuestionView>,
    /// Whether a person holds it.
    #[serde(default)]
    pub is_paused: bool,
    /// What was spent beyond a budget that holds the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<String>,
    /// Why the newest approval did not count, until the person is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_answer: Option<String>,
    /// Whether a budget that is used up does not hold the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_audited: bool,
    /// Since when it stands as it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Timestamp>,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    pub id: StepId,
    /// The word for it in files.
    pub kind: String,
    /// `pending`, `running`, `merging`, `retrying`, `asking`, `rejected`, `waiting`, `held`, `completed`, `failed` or
    /// `skipped`.
    pub state: String,
    pub attempt: u32,
    /// How many iterations of an interactive loop have ended; each of them is a loop of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// How many iterations a loop has at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// Why it failed, was skipped, or does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why it does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Reason>,
    /// Whether it failed for what the run was started with, so that it would fail again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What a wait is over with: `for the file x`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The signal that a wait is over with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

/// A question that no person has answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionView {
    pub question: u32,
    pub step: StepId,
    pub message: String,
    /// The tree that an approval holds for.
    pub tree: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<OfferedDecision>,
    /// Why it is asked again, if an approval did not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
}

impl QuestionView {
    /// What answers it, as commands.
    pub fn how_to_answer(&self, id: &RunId) -> String {
        if self.decisions.is_empty() {
            return format!("`dacapo approve {id}` or `dacapo reject {id} \"what is wrong\"`");
        }
        let known = self.decisions.iter().map(|known| match &known.label {
            Some(label) => format!("{} ({label})", known.id),
            None => known.id.clone(),
        });
        let known: Vec<String> = known.collect();
        format!("`dacapo approve {id} --decision NAME`, with one of: {}", known.join(", "))
    }
}

impl WorkflowView {
    /// The view of a run whose first event is `first`; `None` if that is not a beginning.
    pub fn begin(first: &WorkflowEnvelope) -> Option<Self> {
        let WorkflowEvent::WorkflowStart(started) = &first.event else { return None };
        let settings = started.settings.as_deref()?;
        let steps = started.workflow.steps.iter().map(|step| StepView {
            id: step.id.clone(),
            kind: step.kind.as_str().to_owned(),
            state: "pending".to_owned(),
            attempt: 0,
            iterations: match &step.kind {
                StepKind::Loop(looped) if looped.is_interactive() => Some(0),
                _ => None,
            },
            max_iterations: match &step.kind {
                StepKind::Loop(looped) => Some(looped.max_iterations),
                _ => None,
            },
            detail: None,
            held: None,
            repeats: false,
            until: None,
            waits_for: match &step.kind {
                StepKind::Wait(what) => Some(what.to_string()),
                _ => None,
            },
            signal: match &step.kind {
                StepKind::Wait(WaitFor::Signal(name)) => Some(name.clone()),
                _ => None,
            },
        });
        Some(Self {
            id: first.run.clone(),
            workflow: started.workflow.name.clone(),
            project: settings.project.clone(),
            root: settings.root.clone(),
            digest: started.digest.clone(),
            state: "running".to_owned(),
            reason: None,
            detail: None,
            exit_code: None,
            is_over: false,
            started_at: first.at,
            ended_at: None,
            pid: Some(settings.pid),
            current_step_index: 0,
            steps: steps.collect(),
            question: None,
            is_paused: false,
            exceeded: None,
            refused_answer: None,
            is_audited: started.workflow.budget.is_some_and(|budget| budget.mode == BudgetMode::Audit),
            waits_since: None,
        })
    }

    /// Takes in one fact.
    pub fn apply(&mut self, envelope: &WorkflowEnvelope) {
        let before = (self.state.clone(), self.reason.clone());
        self.take(envelope);
        if before != (self.state.clone(), self.reason.clone()) {
            self.waits_since = Some(envelope.at).filter(|_| self.state != "running" && !self.is_over);
        }
    }

    fn take(&mut self, envelope: &WorkflowEnvelope) {
        match &envelope.event {
            WorkflowEvent::WorkflowStart(_) | WorkflowEvent::ScriptStarted { .. } => {}
            WorkflowEvent::BudgetExceeded { what } => {
                self.exceeded = Some(what.clone()).filter(|_| !self.is_audited);
            }
            WorkflowEvent::StepStart { step, attempt, work } => {
                let state = match work {
                    StepWorkKind::Question => "asking",
                    StepWorkKind::Merge => "merging",
                    StepWorkKind::Main | StepWorkKind::Rework | StepWorkKind::Check => "running",
                };
                self.step(step, |own| (own.attempt, own.state) = (*attempt, state.to_owned()));
                self.come_to(step);
            }
            WorkflowEvent::StepContinued { step, .. } => self.enter(step, "running"),
            WorkflowEvent::StepWorked { step, .. } => self.enter(step, "merging"),
            WorkflowEvent::StepComplete { step, .. } => self.enter(step, "completed"),
            WorkflowEvent::StepError { step, error, repeats, retry_at, .. } => {
                let state = if retry_at.is_some() { "retrying" } else { "failed" };
                self.enter(step, state);
                self.step(step, |own| {
                    (own.detail, own.repeats, own.until) = (Some(error.clone()), *repeats, *retry_at);
                });
            }
            WorkflowEvent::StepSkipped { step, why } => {
                self.enter(step, "skipped");
                self.step(step, |own| own.detail = Some(why.clone()));
            }
            WorkflowEvent::StepHeld { step, reason, detail, .. } => {
                self.enter(step, "held");
                self.step(step, |own| (own.held, own.detail) = (Some(*reason), Some(detail.clone())));
            }
            WorkflowEvent::StepIterated { step, iteration, .. } => {
                self.step(step, |own| own.iterations = Some(*iteration));
            }
            WorkflowEvent::QuestionAsked { question, step, tree, message, decisions, .. } => {
                self.enter(step, "asking");
                self.question = Some(QuestionView {
                    question: *question,
                    step: step.clone(),
                    message: message.clone(),
                    tree: tree.clone(),
                    decisions: decisions.clone(),
                    again: self.refused_answer.take(),
                });
            }
            WorkflowEvent::QuestionAnswered { step, follows, .. } => {
                self.question = None;
                match follows {
                    AfterAnswer::Rework | AfterAnswer::Iterate => self.enter(step, "pending"),
                    AfterAnswer::End => self.enter(step, "rejected"),
                    AfterAnswer::Complete => {}
                }
            }
            WorkflowEvent::AnswerRefused { question, step, .. } => {
                self.question = None;
                self.refused_answer = Some(refused_answer(*question));
                self.enter(step, "pending");
            }
            WorkflowEvent::ReworkComplete { step, .. } => {
                self.question = None;
                self.enter(step, "pending");
            }
            WorkflowEvent::StepsReopened { steps, checks, .. } => {
                steps.iter().chain(checks).for_each(|step| self.enter(step, "pending"));
            }
            WorkflowEvent::WaitStarted { step, attempt, due } => {
                self.enter(step, "waiting");
                self.step(step, |own| {
                    (own.attempt, own.until) = (*attempt, *due);
                    own.detail = own.waits_for.as_ref().map(|what| format!("waits {what}"));
                });
                self.come_to(step);
            }
            WorkflowEvent::WorkflowPaused { .. } => self.is_paused = true,
            WorkflowEvent::WorkflowUnpaused => self.is_paused = false,
            WorkflowEvent::WorkflowStopping { .. } => "stopping".clone_into(&mut self.state),
            WorkflowEvent::WorkflowResumed { reopened, continued, .. } => {
                (self.is_over, self.ended_at, self.exit_code, self.exceeded) = (false, None, None, None);
                reopened.iter().chain(continued).for_each(|step| self.enter(step, "pending"));
            }
            WorkflowEvent::WorkflowComplete { output } => {
                let detail = output.lines().next().unwrap_or_default().to_owned();
                let end = WorkflowEnd { end: EndReason::Completed, detail, exit_code: 0 };
                self.end(envelope.at, &end);
            }
            WorkflowEvent::WorkflowError(end) => self.end(envelope.at, end),
        }
        if !self.is_over && self.state != "stopping" {
            self.stand();
        }
    }

    /// Says what it does now, from what its steps do.
    fn stand(&mut self) {
        let find = |state: &str| self.steps.iter().find(|step| step.state == state);
        // Its loops hold by themselves, at once or after their iteration.
        let (state, reason, detail) = if self.is_paused {
            ("paused", None, None)
        } else if find("running").is_some() {
            ("running", None, None)
        } else if let Some(what) = &self.exceeded {
            ("stopped", Some(Reason::Budget.as_str()), Some(what.clone()))
        } else if let Some(held) = find("held") {
            let reason = held.held.map_or("interrupted", |reason| reason.as_str());
            ("stopped", Some(reason), held.detail.clone())
        } else if let Some(question) = &self.question {
            ("stopped", Some("question"), Some(question.message.clone()))
        } else if let Some(waiting) = find("waiting").or(find("retrying")) {
            let what = waiting.detail.clone().unwrap_or_else(|| "waits".to_owned());
            ("stopped", Some("waiting"), Some(format!("step `{}` {what}", waiting.id)))
        } else {
            ("running", None, None)
        };
        (self.reason, self.detail) = (reason.map(str::to_owned), detail);
        state.clone_into(&mut self.state);
    }

    fn end(&mut self, at: Timestamp, end: &WorkflowEnd) {
        let state = match end.end {
            EndReason::Completed => "completed",
            EndReason::Failed => "failed",
            EndReason::Cancelled => "cancelled",
            EndReason::Blocked => "blocked",
        };
        state.clone_into(&mut self.state);
        (self.reason, self.detail) = (Some(state.to_owned()), Some(end.detail.clone()));
        (self.exit_code, self.ended_at, self.pid) = (Some(end.exit_code), Some(at), None);
        (self.is_over, self.question) = (true, None);
    }

    /// What helps after a step has failed.
    pub fn after_failure(&self) -> String {
        let Self { id, workflow, .. } = self;
        if self.steps.iter().any(|step| step.repeats) {
            return format!(
                "mend that, then `dacapo workflow run {workflow}` begins anew; `dacapo resume` would fail in the same way"
            );
        }
        format!("`dacapo resume {id}` tries again what failed")
    }

    /// A run that no process performs any more. One that waits for a person or a time is as it should be.
    #[must_use]
    pub fn with_dead_owner(mut self) -> Self {
        self.pid = None;
        if self.state != "stopped" {
            "stopped".clone_into(&mut self.state);
            self.reason = Some("interrupted".to_owned());
            self.detail = Some("dacapo died while the run was going on".to_owned());
        }
        self
    }

    fn step(&mut self, id: &StepId, change: impl FnOnce(&mut StepView)) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.id == *id) {
            change(step);
        }
    }

    fn enter(&mut self, id: &StepId, state: &str) {
        self.step(id, |own| {
            state.clone_into(&mut own.state);
            (own.detail, own.held, own.repeats, own.until) = (None, None, false, None);
        });
    }

    fn come_to(&mut self, id: &StepId) {
        if let Some(at) = self.steps.iter().position(|step| step.id == *id) {
            self.current_step_index = u32::try_from(at + 1).unwrap_or(u32::MAX);
        }
    }
}

/// Why an approval does not count.
pub fn refused_answer(question: u32) -> String {
    format!("the files have changed since question {question} was asked, so that its approval did not count")
}

/// One line of a list of runs: how it stands, where, and for how long.
pub fn workflow_line(view: &WorkflowView, now: Timestamp) -> String {
    let since = view.ended_at.unwrap_or(view.started_at);
    let age = Millis(u64::try_from(now.duration_since(since).as_millis()).unwrap_or(0)).coarse();
    let word = if view.is_over { "ended" } else { "started" };
    let reason = view.reason.as_ref().filter(|reason| **reason != view.state);
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let at = view.current_step_index.checked_sub(1).and_then(|at| view.steps.get(at as usize));
    let at = at.filter(|_| !view.is_over && view.steps.len() > 1);
    let at = at.map(|step| format!(", step {}/{} `{}`", view.current_step_index, view.steps.len(), step.id));
    format!(
        "{}  {}: {}{reason}{}, {word} {age} ago",
        view.id,
        view.workflow,
        view.state,
        at.unwrap_or_default()
    )
}

/// Why a run of a workflow is as it is, and what comes next.
pub fn why_workflow(view: &WorkflowView) -> Why {
    let WorkflowView { id, workflow, state, detail, .. } = view;
    let detail = detail.as_deref().unwrap_or_default();
    let because = match (state.as_str(), view.reason.as_deref()) {
        ("running" | "stopping" | "paused", _) => {
            let at = view.steps.iter().find(|step| step.state == "running");
            let at = at.map(|step| format!(", at step `{}`", step.id)).unwrap_or_default();
            format!("Run {id} of workflow {workflow} is {state}{at}.")
        }
        ("stopped", Some("question")) => {
            let again = view.question.as_ref().and_then(|question| question.again.as_ref());
            let again = again.map(|why| format!("\nIt is asked again: {why}.")).unwrap_or_default();
            format!("Run {id} of workflow {workflow} asks: {detail}{again}")
        }
        (state, Some(reason)) if state != reason => {
            format!("Run {id} of workflow {workflow} is {state} ({reason}): {detail}")
        }
        (state, _) if detail.is_empty() => format!("Run {id} of workflow {workflow} is {state}."),
        (state, _) => format!("Run {id} of workflow {workflow} is {state}: {detail}"),
    };
    let next = match (state.as_str(), view.reason.as_deref()) {
        ("completed" | "cancelled", _) => "nothing; it is over".to_owned(),
        ("running" | "stopping", _) => format!("`dacapo events {id} -f` follows it"),
        ("stopped", Some("question")) => match &view.question {
            Some(question) => question.how_to_answer(id),
            // An agent asks.
            None => {
                format!("`dacapo steer {id} \"the answer\"` answers, and the run goes on in the background")
            }
        },
        ("blocked", _) => format!(
            "`dacapo steer {id} \"what to do\"` tells the agent, and the run goes on; `dacapo resume {id}` goes on without words"
        ),
        ("stopped", Some("budget")) => {
            format!("`dacapo resume {id} --max-cost USD` goes on with more (or `--max-tokens`, `--max-time`)")
        }
        ("stopped", Some("waiting")) => {
            let mut waits = view.steps.iter().filter(|step| step.state == "waiting");
            match waits.find_map(|step| step.signal.as_deref()) {
                Some(name) if view.pid.is_some() => format!("`dacapo signal {id} {name}` ends the wait"),
                Some(name) => format!(
                    "`dacapo signal {id} {name}` ends the wait, and the run goes on in the background; `dacapo resume {id}` waits here"
                ),
                None if view.pid.is_some() => "it goes on by itself when the wait is over".to_owned(),
                None => format!("`dacapo resume {id}` goes on when the wait is over"),
            }
        }
        ("failed", _) => view.after_failure(),
        _ => format!("`dacapo resume {id}` goes on with it"),
    };
    Why { because, next }
}
