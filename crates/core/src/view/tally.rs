//! What a loop's journal adds up to beside its view: refusals, the budget, changed files. The report, the list of who
//! needs a person and notifications are made of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    event::{Envelope, Grant, LoopEvent, LoopStarted, Spend},
    ids::RunId,
    judge::claim::RefusalReason,
    limits::Budget,
    plan::{PlanStep, Purpose},
};

/// How many claims in a row have to be refused before a person should look.
pub const REFUSED_OFTEN: u32 = 3;
/// The part of a budget after which a person should know, in percent.
pub const BUDGET_LOW: u32 = 80;

/// What a loop's events add up to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// The run of units, the run of a workflow or the run of a task that the loop works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The step of a workflow or the step of a plan that the loop is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The beginning of what the agent is asked to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model that its agent was told to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When it began, or last went on after an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_since: Option<Timestamp>,
    /// How many claims were refused for which reason, in the order in which the reasons first came up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<(RefusalReason, u32)>,
    /// How many claims were refused since one was accepted, or since a person last spoke to the loop.
    pub refused_in_a_row: u32,
    /// The event that refused the third claim in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_often_at: Option<u64>,
    /// What the loop itself may spend.
    #[serde(skip_serializing_if = "Budget::is_unlimited")]
    pub budget: Budget,
    /// The event after which 80 % of the budget were used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_low_at: Option<u64>,
    /// When it last came to wait for a person or a time: a question, a park, a pause, the third refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Timestamp>,
    /// What the newest claim had changed since the loop began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<ChangedFiles>,
}

/// Files that differ from those that were there at the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFiles {
    pub count: u64,
    /// Some of them, for people; all of them if there are few.
    pub some: Vec<String>,
}

impl ChangedFiles {
    /// How many paths are named.
    pub const NAMED: usize = 10;

    /// All of these paths.
    pub fn of(mut paths: Vec<String>) -> Self {
        paths.sort();
        paths.dedup();
        let count = paths.len() as u64;
        paths.truncate(Self::NAMED);
        Self { count, some: paths }
    }
}

impl Tally {
    pub(super) fn begin(started: &LoopStarted, at: Timestamp) -> Self {
        let limits = &started.policy.limits;
        Self {
            run: started.run.clone(),
            part: started.purpose.as_ref().and_then(part_of),
            title: title_of(&started.prompt),
            model: started.policy.agent.command.model.clone(),
            runs_since: Some(at),
            budget: Budget { max_cost: limits.max_cost, max_tokens: limits.max_tokens },
            ..Self::default()
        }
    }

    /// Takes in one fact; `spend` is what the loop has used after it.
    pub(super) fn apply(&mut self, envelope: &Envelope, spend: &Spend) {
        let seq = envelope.seq;
        match &envelope.event {
            LoopEvent::ClaimRefused { reason, .. } => {
                match self.refusals.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, times)) => *times += 1,
                    None => self.refusals.push((*reason, 1)),
                }
                self.refused_in_a_row += 1;
                if self.refused_in_a_row == REFUSED_OFTEN {
                    self.refused_often_at = Some(seq);
                    self.waits_since = Some(envelope.at);
                }
            }
            LoopEvent::ClaimAccepted { .. } | LoopEvent::Steered { .. } => self.forget_refusals(),
            LoopEvent::LoopResumed { grant, .. } => {
                self.forget_refusals();
                self.take_grant(grant, spend);
                self.runs_since = Some(envelope.at);
            }
            LoopEvent::QuestionAsked { .. } | LoopEvent::Parked { .. } | LoopEvent::Paused => {
                self.waits_since = Some(envelope.at);
            }
            LoopEvent::LimitsRaised { grant } => self.take_grant(grant, spend),
            LoopEvent::ClaimExamined { found, .. } => {
                self.changed = Some(ChangedFiles {
                    count: found.changed,
                    some: found.some.iter().take(ChangedFiles::NAMED).cloned().collect(),
                });
            }
            LoopEvent::UsageSeen { .. } | LoopEvent::AgentExited { .. }
                if self.budget_low_at.is_none() && self.is_budget_low(spend) =>
            {
                self.budget_low_at = Some(seq);
            }
            _ => {}
        }
    }

    fn forget_refusals(&mut self) {
        (self.refused_in_a_row, self.refused_often_at) = (0, None);
    }

    fn take_grant(&mut self, grant: &Grant, spend: &Spend) {
        self.budget.max_cost = grant.max_cost.or(self.budget.max_cost);
        self.budget.max_tokens = grant.max_tokens.or(self.budget.max_tokens);
        if !self.is_budget_low(spend) {
            self.budget_low_at = None;
        }
    }

    fn is_budget_low(&self, spend: &Spend) -> bool {
        self.used_percent(spend).is_some_and(|percent| percent >= BUDGET_LOW)
    }

    /// How much of the budget is used, in percent; of money and tokens the one of which less is left.
    pub fn used_percent(&self, spend: &Spend) -> Option<u32> {
        let spent = spend.spent();
        let money = self.budget.max_cost.filter(|most| *most > 0.0).map(|most| spent.cost_usd / most);
        let tokens =
            self.budget.max_tokens.filter(|most| *most > 0).map(|most| spent.tokens as f64 / most as f64);
        let part = money.into_iter().chain(tokens).reduce(f64::max)?;
        // A hair below 80 % is 79 %.
        Some((part * 100.0).clamp(0.0, 1_000_000.0).floor() as u32)
    }

    /// How many claims were refused.
    pub fn refused(&self) -> u32 {
        self.refusals.iter().map(|(_, times)| times).sum()
    }
}

/// How much of a prompt is kept as a title, in characters.
const TITLE: usize = 120;

/// The first line of a prompt that says something, without the signs that make it a heading.
fn title_of(prompt: &str) -> Option<String> {
    let says_something = |line: &&str| line.chars().any(char::is_alphanumeric) && !line.starts_with("<!--");
    let line = prompt.lines().map(str::trim).find(says_something)?;
    let line = line.trim_start_matches(['#', '-', '*', '>', ' ']);
    Some(line.chars().take(TITLE).collect::<String>().trim_end().to_owned()).filter(|line| !line.is_empty())
}

/// The name of the part of a run that a loop works for.
fn part_of(purpose: &Purpose) -> Option<String> {
    match purpose.step {
        PlanStep::Workflow => purpose.as_workflow_step().map(|(step, _)| step.to_string()),
        PlanStep::Stage => purpose.as_stage().map(|(stage, _)| stage.as_str().to_owned()),
        PlanStep::Turn => Some("turn".to_owned()),
        PlanStep::Baseline => Some("baseline".to_owned()),
        PlanStep::SentBack => Some("sent back".to_owned()),
        PlanStep::Merge | PlanStep::StageMerge => Some("merge".to_owned()),
        PlanStep::Conflict => Some("conflict".to_owned()),
    }
}
