//! The morning report: what ended, how, for how much, and what needs a person; a fold of views.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::{
    AllViews, ChangedFiles, LoopView, Need, RunView, StageTaskView, StreamKind, UnitView, WorkflowView,
    attention,
    attention::{folder_name, one_line},
};
use crate::{
    duration::Millis,
    event::{FinishState, Spend, Usage},
    ids::{ProjectId, RunId},
    judge::claim::RefusalReason,
    text::count,
};

/// What happened in a stretch of time, and what is to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub since: Timestamp,
    /// When it was made.
    pub at: Timestamp,
    /// Who needs a person, most urgent first.
    pub needs: Vec<Need>,
    /// What has ended since then, newest first.
    pub ended: Vec<ReportEntry>,
    /// What has not ended, oldest first.
    pub open: Vec<ReportEntry>,
    pub totals: ReportTotals,
}

/// Sums over what a report names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReportTotals {
    /// How many came to the end that they were begun for.
    pub completed: u32,
    pub failed: u32,
    /// How many were stopped and can go on.
    pub stopped: u32,
    pub cancelled: u32,
    /// How many go on by themselves.
    pub running: u32,
    pub iterations: u32,
    pub refusals: u32,
    /// What was spent, also before the time that is reported if a loop is older.
    pub cost_usd: Option<f64>,
    pub cost_estimated: bool,
    pub tokens: Option<Usage>,
}

/// One loop that the user started, one run of units or of a workflow, or one task, with all loops that worked for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportEntry {
    pub kind: StreamKind,
    pub id: String,
    /// What people call it: its task or workflow.
    pub name: String,
    pub project: ProjectId,
    pub folder: PathBuf,
    /// `running`, `parked`, `paused`, `stopped`, `completed`, `failed`, `cancelled` and the like.
    pub state: String,
    pub reason: Option<String>,
    /// One line about that.
    pub detail: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// From its beginning to its end, or until now.
    pub lasted_ms: Millis,
    pub iterations: u32,
    pub cost_usd: Option<f64>,
    pub cost_estimated: bool,
    pub tokens: Option<Usage>,
    /// How many claims were refused for which reason.
    pub refusals: Vec<(RefusalReason, u32)>,
    /// The newest of them, in one line.
    pub last_refusal: Option<String>,
    /// Files that differ from the beginning, where that is known.
    pub changed: Option<ChangedFiles>,
    /// Whether gates stood behind the accepted claim; nothing where there was none.
    pub verified: Option<bool>,
    /// How far the parts of a run have come: `3 of 4 units merged`.
    pub parts: Option<String>,
}

impl ReportEntry {
    /// How it stands: over and how, or open.
    pub fn finish(&self) -> Option<FinishState> {
        match self.state.as_str() {
            "completed" => Some(FinishState::Completed),
            "failed" | "blocked" => Some(FinishState::Failed),
            "stopped" => Some(FinishState::Stopped),
            "cancelled" => Some(FinishState::Cancelled),
            _ => None,
        }
    }

    pub fn spend(&self) -> Spend {
        Spend { usage: self.tokens, cost_usd: self.cost_usd, estimated: self.cost_estimated }
    }
}

/// What loops that worked for one thing come to together.
#[derive(Default)]
struct Together {
    iterations: u32,
    spend: Spend,
    refusals: Vec<(RefusalReason, u32)>,
    last_refusal: Option<String>,
    changed: Vec<String>,
    changed_count: u64,
    verified: Option<bool>,
}

impl Together {
    fn of<'a>(loops: impl Iterator<Item = &'a LoopView>) -> Self {
        let mut sum = Self::default();
        for view in loops {
            sum.iterations += view.charged.unwrap_or(view.iteration);
            sum.spend.add(&view.ledger.total());
            for (reason, times) in &view.tally.refusals {
                match sum.refusals.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, sum)) => *sum += times,
                    None => sum.refusals.push((*reason, *times)),
                }
            }
            if let Some((_, line)) = &view.refused {
                sum.last_refusal = Some(one_line(line));
            }
            if let Some(changed) = &view.tally.changed {
                sum.changed.extend(changed.some.iter().cloned());
                sum.changed_count = sum.changed_count.max(changed.count);
            }
            // One unproven part leaves the whole unproven.
            if let Some(verified) = view.verified {
                sum.verified = Some(sum.verified.unwrap_or(true) && verified);
            }
        }
        sum
    }

    fn changed(&self) -> Option<ChangedFiles> {
        let changed = ChangedFiles::of(self.changed.clone());
        let count = changed.count.max(self.changed_count);
        (count > 0).then_some(ChangedFiles { count, ..changed })
    }
}

/// What happened since `since`, as it stands at `now`.
pub fn report(standing: &AllViews, since: Timestamp, now: Timestamp) -> Report {
    let of = |run: &RunId| {
        let run = run.clone();
        Together::of(standing.loops.iter().filter(move |view| view.tally.run.as_ref() == Some(&run)))
    };
    let mut entries: Vec<ReportEntry> = Vec::new();
    entries.extend(standing.loops.iter().filter(|view| is_own(view)).map(|view| of_loop(view, now)));
    entries.extend(standing.runs.iter().map(|(run, units)| of_run(run, units, of(&run.id), now)));
    entries.extend(standing.workflows.iter().map(|view| of_workflow(view, of(&view.id), now)));
    entries.extend(standing.tasks.iter().map(|view| of_task(view, of(&view.id), now)));
    let (mut ended, mut open): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.finish().is_some());
    // A stop without a time is one of a process that died: that nothing has taken it up is news until it is.
    ended.retain(|entry| entry.ended_at.is_none_or(|at| at >= since));
    ended.sort_by(|a, b| b.ended_at.cmp(&a.ended_at).then(a.id.cmp(&b.id)));
    open.sort_by(|a, b| a.started_at.cmp(&b.started_at).then(a.id.cmp(&b.id)));
    let totals = totals(ended.iter().chain(&open));
    Report { since, at: now, needs: attention(standing, since), ended, open, totals }
}

/// Whether the user started the loop: not an agent, and not a run.
fn is_own(view: &LoopView) -> bool {
    view.tally.run.is_none() && view.parent.is_none()
}

fn totals<'a>(entries: impl Iterator<Item = &'a ReportEntry>) -> ReportTotals {
    let mut sum = ReportTotals::default();
    let mut spend = Spend::default();
    for entry in entries {
        match entry.finish() {
            Some(FinishState::Completed) => sum.completed += 1,
            Some(FinishState::Failed) => sum.failed += 1,
            Some(FinishState::Stopped) => sum.stopped += 1,
            Some(FinishState::Cancelled) => sum.cancelled += 1,
            None => sum.running += 1,
        }
        sum.iterations += entry.iterations;
        sum.refusals += entry.refusals.iter().map(|(_, times)| times).sum::<u32>();
        spend.add(&entry.spend());
    }
    (sum.cost_usd, sum.cost_estimated, sum.tokens) = (spend.cost_usd, spend.estimated, spend.usage);
    sum
}

fn lasted(from: Timestamp, to: Timestamp) -> Millis {
    Millis(u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0))
}

/// An entry that nothing but its loops is known of yet.
fn entry(
    (kind, id): (StreamKind, &str),
    (name, project, folder): (String, &ProjectId, PathBuf),
    (started_at, ended_at, now): (Timestamp, Option<Timestamp>, Timestamp),
    together: Together,
) -> ReportEntry {
    ReportEntry {
        kind,
        id: id.to_owned(),
        name,
        project: project.clone(),
        folder,
        state: String::new(),
        reason: None,
        detail: None,
        started_at,
        ended_at,
        lasted_ms: lasted(started_at, ended_at.unwrap_or(now)),
        iterations: together.iterations,
        cost_usd: together.spend.cost_usd,
        cost_estimated: together.spend.estimated,
        tokens: together.spend.usage,
        changed: together.changed(),
        refusals: together.refusals,
        last_refusal: together.last_refusal,
        verified: together.verified,
        parts: None,
    }
}

fn of_loop(view: &LoopView, now: Timestamp) -> ReportEntry {
    ReportEntry {
        state: view.state.clone(),
        reason: view.reason.map(|reason| reason.as_str().to_owned()),
        detail: view.detail.as_deref().map(one_line),
        ..entry(
            (StreamKind::Loop, view.id.as_str()),
            (view.task.to_string(), &view.project, view.workspace.clone()),
            (view.started_at, view.ended_at, now),
            Together::of(std::iter::once(view)),
        )
    }
}

fn of_run(view: &RunView, units: &[UnitView], together: Together, now: Timestamp) -> ReportEntry {
    let good = units.iter().filter(|unit| unit.status.is_good()).count();
    let all = u32::try_from(units.len()).unwrap_or(u32::MAX);
    ReportEntry {
        state: view.state.clone(),
        reason: view.reason.clone(),
        detail: view.detail.as_deref().map(one_line),
        parts: (all > 0).then(|| format!("{good} of {} done", count(all, "unit"))),
        ..entry(
            (StreamKind::Run, view.id.as_str()),
            (format!("units of {}", folder_name(&view.root)), &view.project, view.root.clone()),
            (view.started_at, view.ended_at, now),
            together,
        )
    }
}

fn of_workflow(view: &WorkflowView, together: Together, now: Timestamp) -> ReportEntry {
    let done = view.steps.iter().filter(|step| matches!(step.state.as_str(), "completed" | "skipped"));
    let (done, all) = (done.count(), u32::try_from(view.steps.len()).unwrap_or(u32::MAX));
    ReportEntry {
        // One that waits for a person or a time is not over.
        state: if view.is_over || view.reason.as_deref() == Some("interrupted") {
            view.state.clone()
        } else if view.state == "stopped" {
            "waiting".to_owned()
        } else {
            view.state.clone()
        },
        reason: view.reason.clone(),
        detail: view.detail.as_deref().map(one_line),
        parts: (all > 1).then(|| format!("{done} of {} done", count(all, "step"))),
        ..entry(
            (StreamKind::Workflow, view.id.as_str()),
            (view.workflow.clone(), &view.project, view.root.clone()),
            (view.started_at, view.ended_at, now),
            together,
        )
    }
}

fn of_task(view: &StageTaskView, mut together: Together, now: Timestamp) -> ReportEntry {
    let changed: Vec<String> = view.stages.iter().flat_map(|stage| stage.changed.iter().cloned()).collect();
    if !changed.is_empty() {
        (together.changed, together.changed_count) = (changed, 0);
    }
    let stages: Vec<String> =
        view.stages.iter().map(|stage| format!("{} {}", stage.stage, stage.state)).collect();
    ReportEntry {
        state: if view.is_over || view.reason.as_deref() == Some("interrupted") || view.state != "stopped" {
            view.state.clone()
        } else {
            "waiting".to_owned()
        },
        reason: view.reason.clone(),
        detail: view.detail.as_deref().map(one_line),
        parts: (!stages.is_empty()).then(|| stages.join(", ")),
        ..entry(
            (StreamKind::Task, view.id.as_str()),
            (view.task.to_string(), &view.project, view.root.clone()),
            (view.started_at, view.ended_at, now),
            together,
        )
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
