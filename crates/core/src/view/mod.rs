//! What people see of a loop: folds of its journal. `status`, the live view and `why` cannot disagree.

mod attention;
mod board;
mod report;
mod tally;
mod task;
mod unit;
#[cfg(test)]
pub(crate) mod view_tests;
mod why;
mod workflow;

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use attention::{AllViews, Need, StreamKind, Urgency, attention};
pub use board::{
    Action, Attempt, Board, BoardFacts, BoardTotals, Card, CardKind, CostPoint, CostShare, Costs, GateLine,
    Interval, IterationLine, IterationRow, Lane, LaneCards, LoopPage, Note, PartsDone, RunPage, Slot,
    SpendRow, StageOfTask, StatusShown, StepNode, TaskPage, TodoTask, TrainCar, UnitNode, Verdict,
    WorkflowPage, board, card_of_loop, costs, first_step, headline,
};
pub use report::{Report, ReportEntry, ReportTotals, report};
pub use tally::{BUDGET_LOW, ChangedFiles, REFUSED_OFTEN, Tally};
pub use task::{StageRunView, StageTaskView, TaskQuestionView, task_line, why_task};
pub use unit::{
    RunView, TaskView, UnitStatus, UnitView, after_run, is_stopped, run_again, unit_line, why_run, why_unit,
};
pub use why::{RefusedBy, Why, until_passed, why};
pub use workflow::{QuestionView, StepView, WorkflowView, refused_answer, why_workflow, workflow_line};

use crate::{
    duration::Millis,
    event::{Envelope, GateRole, Ledger, LoopEvent, Reason, Usage},
    ids::{LoopId, ProjectId, TaskId},
    judge::signal::Signal,
    plan::Purpose,
};

/// One loop as `status --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopView {
    pub id: LoopId,
    pub project: ProjectId,
    pub task: TaskId,
    /// The role it plays, in a pipeline.
    pub stage: Option<String>,
    pub agent: String,
    /// The model that answered last, where the agent names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `running`, `gating`, `parked`, `paused`, or how it ended.
    pub state: String,
    pub reason: Option<Reason>,
    pub iteration: u32,
    pub max_iterations: u32,
    /// The promise it listens for.
    pub completion_promise: String,
    pub workspace: PathBuf,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// What it cost, where that can be told.
    pub cost_usd: Option<f64>,
    /// Whether that is an estimate.
    pub cost_estimated: bool,
    /// What it used, where its agent reports it.
    pub tokens: Option<Usage>,
    pub pid: Option<u32>,
    /// The loop whose agent started it.
    pub parent: Option<LoopId>,
    /// When a parked loop goes on.
    pub until: Option<Timestamp>,
    /// One line about how it ended or what it waits for.
    pub detail: Option<String>,
    /// A question of the agent that no person has answered yet.
    pub question: Option<String>,
    /// The newest refusal: iteration and line.
    pub refused: Option<(u32, String)>,
    /// What the newest refusal calls for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<RefusedBy>,
    /// Whether a gate stood behind the accepted claim.
    pub verified: Option<bool>,
    /// What the command exited with.
    pub exit_code: Option<u8>,
    /// Iterations that were charged, once it has ended: the newest may have met a limit before it could do anything.
    #[serde(default)]
    pub charged: Option<u32>,
    /// Tasks that must be done first.
    pub after: Vec<TaskId>,
    /// Whether it holds as soon as it can.
    #[serde(default)]
    pub pausing: bool,
    /// The chat session that it lives in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether its files are in no git repository: then no difference can be shown, and nothing can be put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_plain: bool,
    /// How many gates a claim must pass.
    pub gates: usize,
    /// How long agents, checks and delays took.
    pub spent_ms: Millis,
    /// What `tokens` and `cost_usd` are the sum of.
    #[serde(default)]
    pub ledger: Ledger,
    /// What its events add up to.
    #[serde(default)]
    pub tally: Tally,
}

impl LoopView {
    /// The view of a loop whose first event is `first`; `None` if that is not a beginning.
    pub fn begin(first: &Envelope) -> Option<Self> {
        let LoopEvent::LoopStarted(started) = &first.event else { return None };
        Some(Self {
            id: first.loop_id.clone(),
            project: started.project.clone(),
            task: started.task.clone(),
            stage: started
                .purpose
                .as_ref()
                .and_then(Purpose::as_stage)
                .map(|(stage, _)| stage.as_str().to_owned()),
            agent: started.policy.agent.command.name.clone(),
            model: None,
            state: "running".to_owned(),
            reason: None,
            iteration: 0,
            max_iterations: started.policy.limits.max_iterations,
            completion_promise: started.policy.claims.promise.text.clone(),
            workspace: started.workspace.clone(),
            started_at: first.at,
            ended_at: None,
            cost_usd: None,
            cost_estimated: false,
            tokens: None,
            pid: Some(started.pid),
            parent: started.parent.clone(),
            until: None,
            detail: None,
            question: None,
            refused: None,
            refused_by: None,
            verified: None,
            exit_code: None,
            charged: None,
            after: started.after.clone(),
            pausing: false,
            session: started.session.as_ref().map(|session| session.id.clone()),
            is_plain: !started.base.as_ref().is_some_and(|base| base.is_git),
            gates: started.policy.gates.specs.len(),
            spent_ms: Millis(0),
            ledger: Ledger::default(),
            tally: Tally::begin(started, first.at),
        })
    }

    /// A loop as scripts see it, in `status --json` and in the API: without the parts that its sums are made of.
    pub fn for_scripts(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        if let Some(keys) = value.as_object_mut() {
            keys.remove("ledger");
            keys.remove("tally");
            keys.remove("refused_by");
            keys.remove("is_plain");
        }
        value
    }

    /// Takes in one fact.
    pub fn apply(&mut self, envelope: &Envelope) {
        match &envelope.event {
            LoopEvent::LoopStarted(_)
            | LoopEvent::Warned { .. }
            | LoopEvent::SignalSeen { .. }
            | LoopEvent::SessionIdled { .. }
            | LoopEvent::IdleSkipped { .. } => {}
            LoopEvent::SessionErred { error, .. } => {
                self.detail = Some(format!("the session had an error: {error}"));
            }
            LoopEvent::PromptNotDelivered { why, .. } => {
                self.detail = Some(format!("the host could not be given the prompt: {why}"));
            }
            LoopEvent::LoopResumed { grant, pid, .. } => {
                self.max_iterations = self.max_iterations.saturating_add(grant.extra_iterations);
                self.set_state("running");
                self.pid = Some(*pid);
                (self.reason, self.ended_at, self.exit_code, self.detail) = (None, None, None, None);
                self.charged = None;
            }
            LoopEvent::TasksAwaited { tasks } if tasks.is_empty() => self.set_state("running"),
            LoopEvent::TasksAwaited { tasks } => {
                self.set_state("parked");
                let names: Vec<&str> = tasks.iter().map(TaskId::as_str).collect();
                self.detail = Some(format!("waits for {}", names.join(", ")));
            }
            LoopEvent::IterationStarted { iteration, max_iterations } => {
                self.set_state("running");
                self.iteration = *iteration;
                self.max_iterations = *max_iterations;
                self.detail = None;
            }
            LoopEvent::AgentStarted { agent, .. } => {
                self.set_state("running");
                self.works_by(agent);
                self.take_spend(&envelope.event);
            }
            LoopEvent::UsageSeen { model, .. } => {
                self.take_spend(&envelope.event);
                self.model = model.clone().or(self.model.take());
            }
            LoopEvent::AgentExited { exit, .. } => {
                self.take_spend(&envelope.event);
                self.model = exit.model.clone().or(self.model.take());
            }
            LoopEvent::AgentSwitched { agent, .. } => self.works_by(agent),
            LoopEvent::BudgetReached { detail } => self.detail = Some(detail.clone()),
            LoopEvent::BudgetLow { .. } => {}
            // No claim is checked before the first agent.
            LoopEvent::GateStarted { role: GateRole::Baseline, .. } => {}
            LoopEvent::ClaimMade { .. }
            | LoopEvent::GateStarted { .. }
            | LoopEvent::ChildrenAwaited { .. } => {
                self.set_state("gating");
            }
            LoopEvent::GateFinished { role: GateRole::Gate, result, .. } if !result.passed => {
                self.refused_by = Some(RefusedBy::of_gate(result));
            }
            LoopEvent::ChildrenFinished { .. }
            | LoopEvent::GateFinished { .. }
            | LoopEvent::SnapshotTaken { .. }
            | LoopEvent::OutlineTaken { .. }
            | LoopEvent::ClaimExamined { .. }
            | LoopEvent::GatesPassed { .. }
            | LoopEvent::GateTried { .. }
            | LoopEvent::TreeApproved { .. }
            | LoopEvent::TreeHeld { .. }
            | LoopEvent::Committed { .. } => {}
            LoopEvent::ReceiptIssued { receipt } => {
                // Gates of items that were not claimed did not run, so the receipt's gates are counted.
                if receipt.claim.iter().any(|signal| matches!(signal, Signal::Item(_))) {
                    self.gates = receipt.gates.len();
                }
            }
            LoopEvent::ClaimRefused { iteration, detail, reason, .. } => {
                self.set_state("running");
                self.refused_by = RefusedBy::of_claim(*reason, detail, self.refused_by);
                self.refused = Some((*iteration, detail.clone()));
            }
            LoopEvent::ClaimAccepted { verified, .. } => self.verified = Some(*verified),
            LoopEvent::IterationFinished { spent_ms, .. } => {
                self.set_state("running");
                self.spent_ms = *spent_ms;
            }
            LoopEvent::Parked { until, why } => {
                self.set_state("parked");
                self.until = Some(*until);
                self.detail = Some(why.clone());
            }
            LoopEvent::QuestionAsked { text } => self.question = Some(text.clone()),
            // The end of the loop says it, or another reason that counts before this one.
            LoopEvent::Blocked { .. } => {}
            LoopEvent::Steered { .. } => self.question = None,
            LoopEvent::LimitsRaised { grant } => {
                self.max_iterations = self.max_iterations.saturating_add(grant.extra_iterations);
            }
            LoopEvent::PauseRequested { now } => {
                self.pausing = true;
                self.detail =
                    Some(if *now { "pauses now" } else { "pauses after this iteration" }.to_owned());
            }
            LoopEvent::Paused => {
                self.set_state("paused");
                self.pausing = false;
                self.detail = None;
            }
            LoopEvent::Unpaused => {
                self.set_state("running");
                self.pausing = false;
                self.detail = None;
            }
            LoopEvent::StopRequested { .. } => self.detail = Some("is being stopped".to_owned()),
            LoopEvent::LoopFinished { state, reason, detail, exit_code, iterations } => {
                self.set_state(state.as_str());
                self.charged = Some(*iterations);
                self.reason = Some(*reason);
                self.detail = Some(detail.clone());
                self.ended_at = Some(envelope.at);
                self.exit_code = Some(*exit_code);
                self.pid = None;
            }
        }
        self.tally.apply(envelope, &self.ledger.total());
    }

    fn take_spend(&mut self, event: &LoopEvent) {
        self.ledger.apply(event);
        let total = self.ledger.total();
        (self.tokens, self.cost_usd, self.cost_estimated) = (total.usage, total.cost_usd, total.estimated);
    }

    /// Whether its journal has come to an end.
    pub fn is_over(&self) -> bool {
        self.reason.is_some()
    }

    /// What stands in brackets behind the task: the stage, else the agent.
    pub fn role(&self) -> &str {
        self.stage.as_deref().unwrap_or(&self.agent)
    }

    /// A loop whose supervisor is gone although its journal has no end: shown as what `resume` will find.
    #[must_use]
    pub fn with_dead_owner(mut self) -> Self {
        // Between two hooks no process owns the loop of a session.
        if self.session.is_some() {
            if self.state == "gating" {
                self.set_state("running");
                self.detail = Some("the host ended the hook before the claim was judged".to_owned());
            }
            self.pid = None;
            return self;
        }
        self.set_state("stopped");
        self.reason = Some(Reason::Interrupted);
        self.detail = Some("dacapo died while the loop was running".to_owned());
        self.pid = None;
        self
    }

    /// Whether a process must run it. The loop of a chat session goes on when a hook of its host does.
    pub fn needs_owner(&self) -> bool {
        self.session.is_none()
    }

    fn works_by(&mut self, agent: &str) {
        if self.agent != agent {
            (self.agent, self.model) = (agent.to_owned(), None);
        }
    }

    fn set_state(&mut self, state: &str) {
        if self.state != state {
            state.clone_into(&mut self.state);
            self.until = None;
        }
    }
}

/// The line of one active loop in `status`; the words are fixed (req 193).
pub fn status_line(view: &LoopView, now: Timestamp) -> String {
    let age = Millis(u64::try_from(now.duration_since(view.started_at).as_millis()).unwrap_or(0));
    format!(
        "{} ({}): iteration {}/{}, started {} ago",
        view.task,
        view.role(),
        view.iteration,
        view.max_iterations,
        age.coarse()
    )
}
