//! Who needs a person, most urgent first: one list for the report and the screens.

use std::{collections::HashMap, path::PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    LoopView, REFUSED_OFTEN, RunView, StageTaskView, UnitStatus, UnitView, Why, WorkflowView, why, why_run,
    why_task, why_unit, why_workflow,
};
use crate::{
    event::{Reason, UnitEnd},
    ids::{ProjectId, TaskId},
};

/// Everything that a report or a list of needs is folded from: views as they stand now.
///
/// The loops that work for a run, a workflow or a task are among the loops, and their tally names what they work for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllViews {
    pub loops: Vec<LoopView>,
    /// Each run with its units.
    pub runs: Vec<(RunView, Vec<UnitView>)>,
    pub workflows: Vec<WorkflowView>,
    pub tasks: Vec<StageTaskView>,
}

/// What kind of thing is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamKind {
    Loop,
    /// A run of units.
    Run,
    /// One unit of a run.
    Unit,
    /// A run of a workflow.
    Workflow,
    /// A run of a task through its stages.
    Task,
}

impl StreamKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Run => "run",
            Self::Unit => "unit",
            Self::Workflow => "workflow",
            Self::Task => "task",
        }
    }
}

/// Why a person is needed; the first is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// An agent asks something, or says that it cannot go on without an answer.
    Question,
    /// A person has to decide about the work as it is.
    Approval,
    /// Three claims in a row were refused.
    Refused,
    /// The agent is not signed in, or its account has no money.
    SignIn,
    /// It waits for a limit or an outage to end.
    Parked,
    /// It came to no good end.
    Failed,
    /// It was cut short, or its process died.
    Interrupted,
    /// A person holds it.
    Paused,
}

impl Urgency {
    /// What is the matter, behind the name of a loop or run.
    pub fn words(self) -> &'static str {
        match self {
            Self::Question => "asks",
            Self::Approval => "waits for your decision",
            Self::Refused => "was refused three times in a row",
            Self::SignIn => "cannot reach its account",
            Self::Parked => "is parked",
            Self::Failed => "failed",
            Self::Interrupted => "was interrupted",
            Self::Paused => "is paused",
        }
    }
}

/// One thing that needs a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Need {
    pub urgency: Urgency,
    pub kind: StreamKind,
    /// The id of the loop or run; of a unit, that of its run.
    pub id: String,
    /// What people call it: its task, unit or workflow.
    pub name: String,
    pub project: ProjectId,
    pub folder: PathBuf,
    /// Since when it needs a person.
    pub since: Timestamp,
    /// The question or the reason, in one line.
    pub what: String,
    /// The command that helps.
    pub command: String,
}

impl Need {
    /// Who needs the person, and why: `unit auth failed`.
    pub fn headline(&self) -> String {
        let kind = match self.kind {
            StreamKind::Unit => "unit ",
            StreamKind::Workflow => "workflow ",
            StreamKind::Run | StreamKind::Loop | StreamKind::Task => "",
        };
        let words = match self.urgency {
            Urgency::Approval if self.kind == StreamKind::Unit => "is merged, but not into its target",
            urgency => urgency.words(),
        };
        format!("{kind}{} {words}", self.name)
    }
}

/// Who needs a person, most urgent first; among equals the newest first. What failed or was interrupted before `since`
/// is left out, and so is a loop or a run of a task whose task a later one has taken up. One whose process died stays until it goes on or is
/// cancelled: when it died is recorded nowhere.
pub fn attention(standing: &AllViews, since: Timestamp) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    let newest =
        newest_of_tasks(standing.loops.iter().map(|view| (&view.project, &view.task, view.started_at)));
    let is_newest = |view: &&LoopView| newest.get(&(&view.project, &view.task)) == Some(&view.started_at);
    needs.extend(standing.loops.iter().filter(is_newest).filter_map(of_loop));
    for (run, units) in &standing.runs {
        let of_units: Vec<Need> = units.iter().filter_map(|unit| of_unit(run, unit)).collect();
        if of_units.is_empty() && !is_taken_up(run, units) {
            needs.extend(of_run(run, units));
        }
        needs.extend(of_units);
    }
    needs.extend(standing.workflows.iter().filter_map(of_workflow));
    let newest =
        newest_of_tasks(standing.tasks.iter().map(|view| (&view.project, &view.task, view.started_at)));
    let is_newest =
        |view: &&StageTaskView| newest.get(&(&view.project, &view.task)) == Some(&view.started_at);
    needs.extend(standing.tasks.iter().filter(is_newest).filter_map(of_task));
    needs.retain(|need| {
        !matches!(need.urgency, Urgency::Failed | Urgency::Interrupted)
            || need.since >= since
            || is_dead(standing, need)
    });
    needs.sort_by(|a, b| a.urgency.cmp(&b.urgency).then(b.since.cmp(&a.since)).then(a.id.cmp(&b.id)));
    needs
}

/// Whether later runs have taken up what a run came to no good end with; `units` are those that none of them worked on.
fn is_taken_up(run: &RunView, units: &[UnitView]) -> bool {
    let some = u32::try_from(units.len()).unwrap_or(u32::MAX) < run.units;
    match run.reason.as_deref() {
        None => false,
        // Its units were cut short, whichever they were.
        Some("interrupted" | "terminated") => some && units.iter().all(|unit| unit.status.is_good()),
        // One unit brought the end about, and the others wait for it.
        Some(_) => some,
    }
}

/// Whether what needs a person has no end in the journal, and its process is gone.
fn is_dead(standing: &AllViews, need: &Need) -> bool {
    let is_same = |id: &str| id == need.id;
    match need.kind {
        _ if need.urgency != Urgency::Interrupted => false,
        StreamKind::Loop => {
            standing.loops.iter().any(|view| is_same(view.id.as_str()) && view.ended_at.is_none())
        }
        StreamKind::Run => {
            standing.runs.iter().any(|(view, _)| is_same(view.id.as_str()) && view.ended_at.is_none())
        }
        StreamKind::Workflow => {
            standing.workflows.iter().any(|view| is_same(view.id.as_str()) && view.ended_at.is_none())
        }
        StreamKind::Task => {
            standing.tasks.iter().any(|view| is_same(view.id.as_str()) && view.ended_at.is_none())
        }
        StreamKind::Unit => false,
    }
}

/// When the newest loop or run of each task began: one that a later one has taken up needs no person.
fn newest_of_tasks<'a>(
    all: impl Iterator<Item = (&'a ProjectId, &'a TaskId, Timestamp)>,
) -> HashMap<(&'a ProjectId, &'a TaskId), Timestamp> {
    let mut newest = HashMap::new();
    for (project, task, started_at) in all {
        let known = newest.entry((project, task)).or_insert(started_at);
        *known = started_at.max(*known);
    }
    newest
}

fn of_loop(view: &LoopView) -> Option<Need> {
    let detail = view.detail.as_deref().unwrap_or_default();
    let id = &view.id;
    let (urgency, what) = match view.reason {
        // How the loop of a run, a step or a stage ended is told by what it works for.
        Some(_) if view.tally.run.is_some() || view.parent.is_some() => return None,
        Some(Reason::Done | Reason::Cancelled) => return None,
        Some(Reason::Question | Reason::Waiting | Reason::Blocked) => {
            (Urgency::Question, view.question.as_deref().unwrap_or(detail))
        }
        Some(Reason::Auth | Reason::Billing) => (Urgency::SignIn, detail),
        Some(Reason::Interrupted | Reason::Terminated) => (Urgency::Interrupted, detail),
        Some(
            Reason::Error
            | Reason::Agent
            | Reason::Gate
            | Reason::Disk
            | Reason::Lock
            | Reason::MaxIterations
            | Reason::MaxTime
            | Reason::Budget
            | Reason::Stuck
            | Reason::Refused,
        ) => (Urgency::Failed, detail),
        None => match (&view.question, view.state.as_str()) {
            (Some(question), _) => (Urgency::Question, question.as_str()),
            (None, "parked") if view.until.is_some() => (Urgency::Parked, detail),
            (None, "paused") => (Urgency::Paused, "a person paused it"),
            (None, _) if view.tally.refused_in_a_row >= REFUSED_OFTEN => {
                (Urgency::Refused, view.refused.as_ref().map_or(detail, |(_, line)| line.as_str()))
            }
            (None, _) => return None,
        },
    };
    let command = match (urgency, view.reason) {
        (Urgency::Question | Urgency::Refused, None) => format!("dacapo steer {id} \"…\""),
        _ => command(&why(view), id.as_str()),
    };
    Some(Need {
        urgency,
        kind: StreamKind::Loop,
        id: id.to_string(),
        name: view.task.to_string(),
        project: view.project.clone(),
        folder: view.workspace.clone(),
        since: view.ended_at.or(view.tally.waits_since).unwrap_or(view.started_at),
        what: one_line(what),
        command,
    })
}

fn of_unit(run: &RunView, unit: &UnitView) -> Option<Need> {
    let urgency = match (unit.status, unit.reason) {
        (UnitStatus::Failed, Some(UnitEnd::Person)) => Urgency::Question,
        (UnitStatus::Failed, Some(UnitEnd::Auth)) => Urgency::SignIn,
        (UnitStatus::Failed, Some(UnitEnd::Cancelled)) => return None,
        (UnitStatus::Failed, _) => Urgency::Failed,
        // Its merge is there, and only the user can move the branch to it.
        (UnitStatus::Merged, _) if unit.left_on.is_some() => Urgency::Approval,
        _ => return None,
    };
    let why = why_unit(unit);
    let what = match &unit.left_on {
        Some((branch, _)) => format!("its merge is on `{branch}`: the target could not be moved"),
        None => unit.detail.clone().unwrap_or_default(),
    };
    Some(Need {
        urgency,
        kind: StreamKind::Unit,
        id: run.id.to_string(),
        name: unit.unit.to_string(),
        project: unit.project.clone(),
        folder: run.root.clone(),
        since: unit.ended_at.or(run.ended_at).unwrap_or(run.started_at),
        what: one_line(&what),
        command: match &unit.left_on {
            Some((_, command)) => command.clone(),
            None => command(&why, unit.unit.as_str()),
        },
    })
}

fn of_run(view: &RunView, units: &[UnitView]) -> Option<Need> {
    let urgency = match (view.state.as_str(), view.reason.as_deref()) {
        ("paused", _) => Urgency::Paused,
        ("completed", _) | (_, Some("cancelled") | None) => return None,
        ("stopped", Some("person")) => Urgency::Question,
        ("stopped", _) => Urgency::Interrupted,
        _ => Urgency::Failed,
    };
    let paused = (urgency == Urgency::Paused).then_some("a person paused it");
    Some(Need {
        urgency,
        kind: StreamKind::Run,
        id: view.id.to_string(),
        name: format!("units of {}", folder_name(&view.root)),
        project: view.project.clone(),
        folder: view.root.clone(),
        since: view.ended_at.or(view.held_since).unwrap_or(view.started_at),
        what: one_line(paused.or(view.detail.as_deref()).unwrap_or_default()),
        command: match urgency {
            Urgency::Paused | Urgency::Interrupted => format!("dacapo resume {}", view.id),
            _ => command(&why_run(view, units), view.id.as_str()),
        },
    })
}

fn of_workflow(view: &WorkflowView) -> Option<Need> {
    let urgency = match (view.state.as_str(), view.reason.as_deref()) {
        ("running" | "stopping" | "completed" | "cancelled", _) => return None,
        ("paused", _) => Urgency::Paused,
        ("stopped", Some("question")) if view.question.is_some() => Urgency::Approval,
        ("stopped", Some("question")) | ("blocked", _) => Urgency::Question,
        ("stopped", Some(reason)) => stopped(reason, view.steps.iter().any(|step| step.state == "held"))?,
        _ => Urgency::Failed,
    };
    let asked = view.question.as_ref().map(|question| question.message.as_str());
    let paused = (urgency == Urgency::Paused).then_some("a person paused it");
    Some(Need {
        urgency,
        kind: StreamKind::Workflow,
        id: view.id.to_string(),
        name: view.workflow.clone(),
        project: view.project.clone(),
        folder: view.root.clone(),
        since: view.ended_at.or(view.waits_since).unwrap_or(view.started_at),
        what: one_line(paused.or(asked).or(view.detail.as_deref()).unwrap_or_default()),
        command: command(&why_workflow(view), view.id.as_str()),
    })
}

fn of_task(view: &StageTaskView) -> Option<Need> {
    let urgency = match (view.state.as_str(), view.reason.as_deref()) {
        ("running" | "completed" | "cancelled", _) => return None,
        ("paused", _) => Urgency::Paused,
        ("stopped", Some("question")) => match &view.question {
            Some(question) if !question.is_blocked => Urgency::Approval,
            _ => Urgency::Question,
        },
        ("stopped", Some(reason)) => stopped(reason, true)?,
        _ => Urgency::Failed,
    };
    let asked = view.question.as_ref().map(|question| question.text.as_str());
    let paused = (urgency == Urgency::Paused).then_some("a person paused it");
    Some(Need {
        urgency,
        kind: StreamKind::Task,
        id: view.id.to_string(),
        name: view.task.to_string(),
        project: view.project.clone(),
        folder: view.root.clone(),
        since: view.ended_at.or(view.waits_since).unwrap_or(view.started_at),
        what: one_line(paused.or(asked).or(view.detail.as_deref()).unwrap_or_default()),
        command: command(&why_task(view), view.task.as_str()),
    })
}

/// What a run that is stopped for this reason needs, if it needs a person: one that waits for a time, a file or a signal
/// does not, unless an agent `is_held`.
fn stopped(reason: &str, is_held: bool) -> Option<Urgency> {
    Some(match reason {
        "auth" | "billing" => Urgency::SignIn,
        "blocked" => Urgency::Question,
        "waiting" if is_held => Urgency::Question,
        "waiting" => return None,
        "interrupted" | "terminated" => Urgency::Interrupted,
        _ => Urgency::Failed,
    })
}

/// The command of a next step, else the one that tells more.
fn command(why: &Why, id: &str) -> String {
    // Not to wait is the choice of the user, not the next step.
    why.command()
        .filter(|command| !command.ends_with(" --now"))
        .map_or_else(|| format!("dacapo why {id}"), str::to_owned)
}

/// The text without line breaks and runs of blanks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn folder_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
