//! The board: everything that goes on or went on lately as cards in lanes, the agents at work, and who needs a person. It is
//! one fold of views, so `status`, the terminal and the page show the same.

mod cards;
mod costs;
mod loop_page;
mod run_page;

use std::{collections::HashSet, path::PathBuf};

use jiff::Timestamp;
use serde::Serialize;

pub use cards::card_of_loop;
pub use costs::{CostPoint, CostShare, Costs, IterationRow, SpendRow, costs, first_step};
pub use loop_page::{Attempt, GateLine, IterationLine, LoopPage, Note, Verdict};
pub use run_page::{
    Interval, PartsDone, RunPage, StageOfTask, StepNode, TaskPage, TrainCar, UnitNode, WorkflowPage,
};

use super::{AllViews, LoopView, Need, Urgency, attention};
use crate::{
    duration::Millis,
    ids::{LoopId, ProjectId, RunId, TaskId, UnitId},
    limits::Budget,
    text::visible::visible,
};

/// Where a card stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    Todo,
    Coder,
    Reviewer,
    Tester,
    Qa,
    /// What is at work outside of the stages.
    Running,
    /// What does not go on before a time, a turn or a person's word.
    Waiting,
    /// What has come to its end, good or bad.
    Done,
}

impl Lane {
    pub const ALL: [Self; 8] = [
        Self::Todo,
        Self::Coder,
        Self::Reviewer,
        Self::Tester,
        Self::Qa,
        Self::Running,
        Self::Waiting,
        Self::Done,
    ];

    /// Its name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::Coder => "coder",
            Self::Reviewer => "reviewer",
            Self::Tester => "tester",
            Self::Qa => "qa",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
        }
    }

    /// Its name on a screen.
    pub fn words(self) -> &'static str {
        match self {
            Self::Todo => "Todo",
            Self::Coder => "Coder",
            Self::Reviewer => "Reviewer",
            Self::Tester => "Tester",
            Self::Qa => "QA",
            Self::Running => "Running",
            Self::Waiting => "Waiting",
            Self::Done => "Done",
        }
    }
}

/// What a card stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CardKind {
    Loop,
    /// A loop inside a chat session.
    Session,
    /// A run of units.
    Run,
    /// A unit of a run that is not over.
    Unit,
    /// A run of a workflow.
    Workflow,
    /// A run of a task through its stages, or a task that was never run.
    Task,
}

impl CardKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Session => "session",
            Self::Run => "run",
            Self::Unit => "unit",
            Self::Workflow => "workflow",
            Self::Task => "task",
        }
    }
}

/// What a person can ask of a card as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Pause,
    /// Go on, after a pause or after an end that is none.
    Resume,
    Cancel,
    Steer,
    Approve,
    Reject,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Steer => "steer",
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// One card of the board. Its texts are one line each, and nothing in them can be mistaken for something else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Card {
    /// Unique on the board, and stays: the id of a loop or run, `RUN/UNIT` for a unit, `todo/PROJECT/TASK` for a task that was
    /// never run.
    pub id: String,
    /// What commands take for it: the id of a loop or run, the name of a unit or task.
    pub target: String,
    pub kind: CardKind,
    pub lane: Lane,
    /// What people call it: its task, unit or workflow.
    pub name: String,
    /// What it is about, where that is known.
    pub title: Option<String>,
    pub stage: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub iteration: u32,
    /// 0 where there is no such limit.
    pub max_iterations: u32,
    /// `todo`, `queued`, `running`, `gating`, `merging`, `parked`, `paused`, `waiting`, `interrupted`, `blocked`, `stopped`,
    /// `completed`, `failed`, `cancelled`. Never `running` if the process that should run it is gone.
    pub state: String,
    pub reason: Option<String>,
    /// One line about how it ended or what it waits for.
    pub detail: Option<String>,
    pub is_over: bool,
    pub started_at: Option<Timestamp>,
    /// When it began, or last went on after an end.
    pub runs_since: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// When a parked one goes on.
    pub until: Option<Timestamp>,
    pub cost_usd: Option<f64>,
    pub cost_estimated: bool,
    /// What it may spend.
    pub budget: Budget,
    /// How much of that is used.
    pub used_percent: Option<u32>,
    pub tokens: Option<u64>,
    /// Why it needs a person.
    pub need: Option<Urgency>,
    /// Since when it does.
    pub need_since: Option<Timestamp>,
    /// What the person is asked or told.
    pub asks: Option<String>,
    /// The command that helps.
    pub command: Option<String>,
    /// The decisions that answer the question, where it is not a plain yes or no.
    pub decisions: Vec<String>,
    /// What each of them is called on a button, in the same order.
    pub decision_labels: Vec<String>,
    pub actions: Vec<Action>,
    /// The loop that works for it now, or worked for it last.
    #[serde(rename = "loop")]
    pub loop_id: Option<LoopId>,
    /// The run that it is, or is a part of.
    pub run: Option<RunId>,
    pub unit: Option<UnitId>,
    /// The loop whose agent started it.
    pub parent: Option<LoopId>,
    pub project: ProjectId,
    pub workspace: PathBuf,
    pub branch: Option<String>,
    /// The slot of its run that it is worked on in.
    pub slot: Option<u32>,
    /// How far its parts have come: `3 of 4 units done`.
    pub parts: Option<String>,
    /// How many claims were refused.
    pub refusals: u32,
    pub gates: usize,
    /// Whether gates stood behind the accepted claim.
    pub verified: Option<bool>,
    /// It has come to an end that no person has looked at.
    pub is_unseen: bool,
}

impl Card {
    /// The role that works on it: its stage, else its agent.
    pub fn role(&self) -> Option<String> {
        match (&self.stage, &self.agent) {
            (Some(stage), _) if stage == "qa" => Some("QA".to_owned()),
            (Some(stage), _) => {
                let mut letters = stage.chars();
                let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
                Some(first + letters.as_str())
            }
            (None, agent) => agent.clone(),
        }
    }

    /// What it is at, as the card of the seed has it: `Coder (3/15)`.
    pub fn progress(&self) -> Option<String> {
        let role = self.role()?;
        Some(match (self.iteration, self.max_iterations) {
            (_, 0) => role,
            (iteration, most) => format!("{role} ({iteration}/{most})"),
        })
    }

    /// Its state in a word that a person reads: the need comes before the state.
    pub fn words(&self) -> &str {
        match self.need {
            Some(Urgency::Question) => "asks",
            Some(Urgency::Approval) => "wants a decision",
            Some(Urgency::Refused) => "refused 3 times",
            Some(Urgency::SignIn) => "signed out",
            _ => match (self.state.as_str(), self.reason.as_deref()) {
                ("gating", _) => "checking",
                ("completed", _) if self.verified == Some(false) => "done, unverified",
                ("completed", _) => "done",
                ("failed", Some("max_iterations")) => "out of iterations",
                ("failed", Some("max_time")) => "out of time",
                ("failed", Some("budget")) => "out of budget",
                ("failed", Some("stuck")) => "stuck",
                (state, _) => state,
            },
        }
    }

    /// How long it has been at it, or was.
    pub fn lasted(&self, now: Timestamp) -> Option<Millis> {
        let from = self.runs_since.or(self.started_at)?;
        let to = self.ended_at.unwrap_or(now);
        Some(Millis(u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)))
    }

    /// Whether an agent, a gate or a script works for it now.
    pub fn is_at_work(&self) -> bool {
        matches!(self.state.as_str(), "running" | "gating" | "merging" | "stopping")
    }

    pub fn can(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }
}

/// One agent at work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slot {
    /// Its place in the list, from 1. A run counts its own slots on its page.
    pub number: u32,
    /// The stage, else the agent.
    pub role: String,
    pub agent: String,
    pub model: Option<String>,
    /// The task, unit or workflow it works on.
    pub task: String,
    #[serde(rename = "loop")]
    pub loop_id: LoopId,
    /// The card that it works for.
    pub card: String,
    pub iteration: u32,
    pub max_iterations: u32,
    /// `running` or `gating`.
    pub state: String,
    pub since: Timestamp,
    pub cost_usd: Option<f64>,
    pub project: ProjectId,
}

impl Slot {
    /// The line about its iterations (req 195).
    pub fn iteration_line(&self) -> String {
        format!("Ralph: iteration {}/{}", self.iteration, self.max_iterations)
    }

    /// The line about its time (req 195).
    pub fn time_line(&self, now: Timestamp) -> String {
        let word = if self.state == "gating" { "Checking" } else { "Running" };
        let lasted = u64::try_from(now.duration_since(self.since).as_secs()).unwrap_or(0);
        format!("{word}: {}", Millis::from_secs(lasted).human_seconds())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneCards {
    pub lane: Lane,
    pub cards: Vec<Card>,
}

/// What the board comes to in a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BoardTotals {
    /// Agents, gates and scripts at work.
    pub running: u32,
    pub waiting: u32,
    /// How many need a person.
    pub needs: u32,
    /// How many have come to an end that no person has looked at.
    pub unseen: u32,
    /// What was spent today, everywhere.
    pub cost_today: f64,
}

/// Everything at one moment of the journal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Board {
    /// The newest event that is taken in; what is recorded later follows from here.
    pub seq: u64,
    pub at: Timestamp,
    pub lanes: Vec<LaneCards>,
    pub slots: Vec<Slot>,
    /// Who needs a person, most urgent first.
    pub needs: Vec<Need>,
    pub totals: BoardTotals,
    /// Whether older ends can be asked for.
    pub has_more: bool,
}

impl Board {
    pub fn cards(&self) -> impl Iterator<Item = &Card> {
        self.lanes.iter().flat_map(|lane| &lane.cards)
    }

    /// The card with this id; one of a unit, task or run is also found by the loop that works for it.
    pub fn card(&self, id: &str) -> Option<&Card> {
        let of_loop = |card: &&Card| card.loop_id.as_ref().is_some_and(|own| own.as_str() == id);
        self.cards().find(|card| card.id == id).or_else(|| self.cards().find(of_loop))
    }

    pub fn lane(&self, lane: Lane) -> &[Card] {
        self.lanes.iter().find(|own| own.lane == lane).map_or(&[], |own| &own.cards)
    }
}

/// A task that has a file and no run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodoTask {
    pub project: ProjectId,
    /// The top of its repository.
    pub root: PathBuf,
    pub task: TaskId,
    pub title: String,
    /// Tasks that are not done and that it waits for.
    pub waits_for: Vec<TaskId>,
}

/// How a command has said how a loop or a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusShown {
    /// A command was asked about this one: `status ID`, `why ID`, `receipt ID`.
    Asked { is_json: bool },
    /// The command that ran it, or that followed it, says how it has ended.
    AtItsEnd { is_terminal: bool },
}

impl StatusShown {
    /// Whether a person has looked at it by that. JSON is read by programs, and the words of a command that ended alone, in a
    /// pipe or in the background, may have been read by no person.
    pub fn is_look(self) -> bool {
        match self {
            Self::Asked { is_json } => !is_json,
            Self::AtItsEnd { is_terminal } => is_terminal,
        }
    }
}

/// The facts of a board beside the streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoardFacts {
    pub seq: u64,
    /// Streams whose end a person has looked at.
    pub looked_at: HashSet<String>,
    pub todo: Vec<TodoTask>,
    pub cost_today: f64,
    pub has_more: bool,
    /// What failed or was interrupted before this needs no person any more.
    pub since: Timestamp,
    /// An end before this is not marked as one that no person has looked at.
    pub marked_since: Timestamp,
}

/// The board of what stands at `now`.
pub fn board(standing: &AllViews, facts: &BoardFacts, now: Timestamp) -> Board {
    let is_open = |need: &Need| need.urgency != Urgency::Failed || !facts.looked_at.contains(&need.id);
    let (needs, looked_at): (Vec<Need>, Vec<Need>) =
        attention(standing, facts.since).into_iter().partition(is_open);
    let mut cards = cards::cards(standing, facts, &needs);
    for need in looked_at {
        // It needs no person any more, and what would help still helps.
        if let Some(card) = cards.iter_mut().find(|card| card.id == need.id) {
            card.command = Some(need.command);
        }
    }
    let slots = slots(standing, &cards);
    let at_work_without_agent = cards
        .iter()
        .filter(|card| card.kind == CardKind::Workflow && card.state == "running")
        .filter(|card| !slots.iter().any(|slot| slot.card == card.id))
        .count();
    let totals = BoardTotals {
        running: small(slots.len() + at_work_without_agent),
        waiting: small(cards.iter().filter(|card| card.lane == Lane::Waiting).count()),
        needs: small(needs.len()),
        unseen: small(cards.iter().filter(|card| card.is_unseen).count()),
        cost_today: facts.cost_today,
    };
    cards.sort_by(cards::order);
    let mut lanes: Vec<LaneCards> =
        Lane::ALL.into_iter().map(|lane| LaneCards { lane, cards: Vec::new() }).collect();
    for card in cards {
        lanes[card.lane as usize].cards.push(card);
    }
    Board { seq: facts.seq, at: now, lanes, slots, needs, totals, has_more: facts.has_more }
}

/// The loops that an agent or a gate works for now, oldest first.
fn slots(standing: &AllViews, cards: &[Card]) -> Vec<Slot> {
    let is_at_work = |view: &&LoopView| {
        !view.is_over() && view.pid.is_some() && matches!(view.state.as_str(), "running" | "gating")
    };
    let mut at_work: Vec<&LoopView> = standing.loops.iter().filter(is_at_work).collect();
    at_work.sort_by(|a, b| a.started_at.cmp(&b.started_at).then_with(|| a.id.cmp(&b.id)));
    let card_of = |view: &LoopView| {
        let run = view.tally.run.as_ref();
        let ids = [
            Some(view.id.to_string()),
            run.map(|run| format!("{run}/{}", view.task)),
            run.map(ToString::to_string),
        ];
        let found = ids.into_iter().flatten().find(|id| cards.iter().any(|card| card.id == *id));
        found.unwrap_or_else(|| view.id.to_string())
    };
    let place = |(place, view): (usize, &LoopView)| Slot {
        number: small(place + 1),
        role: clean(view.role()),
        agent: clean(&view.agent),
        model: view.tally.model.as_deref().map(clean),
        task: view.task.to_string(),
        loop_id: view.id.clone(),
        card: card_of(view),
        iteration: view.iteration,
        max_iterations: view.max_iterations,
        state: view.state.clone(),
        since: view.tally.runs_since.unwrap_or(view.started_at),
        cost_usd: view.cost_usd,
        project: view.project.clone(),
    };
    at_work.into_iter().enumerate().map(place).collect()
}

/// What the title of a terminal or a page says: `dacapo 3 running · 1 needs you · $2.10`.
pub fn headline(totals: &BoardTotals) -> String {
    let mut parts = vec![format!("dacapo {} running", totals.running)];
    match totals.needs {
        0 => {}
        1 => parts.push("1 needs you".to_owned()),
        more => parts.push(format!("{more} need you")),
    }
    if totals.cost_today > 0.0 {
        parts.push(format!("${:.2}", totals.cost_today));
    }
    parts.join(" · ")
}

/// How much of a text a card shows, in characters.
const SHOWN: usize = 400;

/// Text from elsewhere as one line that is what it looks like.
pub(super) fn clean(text: &str) -> String {
    let mut line = String::new();
    let mut left = SHOWN;
    for word in text.split_whitespace() {
        if left == 0 {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        let part: String = word.chars().take(left).collect();
        left -= part.chars().count().min(left);
        line.push_str(&visible(&part));
    }
    line
}

pub(super) fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod board_tests;
