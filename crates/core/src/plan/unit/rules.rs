//! The rules of a unit that need no history: what its tasks call for, what proves what, which end is which.

use std::collections::BTreeSet;

use super::{BaselineState, CutFacts, MergeView, UnitBrief};
use crate::{
    event::{Reason, UnitEnd},
    plan::{PlanStep, Purpose},
    text::count,
    unit::{
        Task, TaskSet, TaskStatus, check,
        files::{self, UnitFileVerdict},
        graph::{self, TasksStanding},
    },
};

/// What the tasks of a unit call for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TasksCallFor {
    /// Put the status lines of these tasks right.
    Statuses(Vec<(u32, TaskStatus)>),
    /// A turn with these tasks.
    Turn(TaskSet),
    /// The checks after all tasks.
    Checks,
    /// Nothing: all of it is complete.
    Nothing,
    /// Nothing can be done.
    End(UnitEnd, String),
}

/// What follows from the tasks as their files in the worktree have them; `proven` are those that a receipt or the target
/// itself says are complete, and `given` how they stood where the branch began.
pub(super) fn tasks_call_for(
    brief: &UnitBrief,
    tasks: Vec<Task>,
    given: &[Task],
    proven: &BTreeSet<u32>,
    checks: BaselineState,
) -> TasksCallFor {
    let wrong = unproven(&tasks, given, proven, brief.settings.retry_failed);
    if !wrong.is_empty() {
        return TasksCallFor::Statuses(wrong);
    }
    match graph::standing(&tasks) {
        TasksStanding::Ready(ready) => TasksCallFor::Turn(TaskSet { unit: brief.unit.clone(), tasks, ready }),
        TasksStanding::AllComplete if checks == BaselineState::Due => TasksCallFor::Checks,
        TasksStanding::AllComplete => TasksCallFor::Nothing,
        TasksStanding::SomeFailed(failed) => TasksCallFor::End(
            UnitEnd::Failed,
            format!(
                "no task is ready, and {} failed: {}; `--retry-failed` tries again",
                count(failed.len() as u32, "task"),
                numbers(&failed)
            ),
        ),
        TasksStanding::Stuck(left) => TasksCallFor::End(
            UnitEnd::Blocked,
            format!(
                "no task is ready but not all are complete ({} left: {}): their dependencies are circular or missing",
                left.len(),
                numbers(&left)
            ),
        ),
    }
}

/// Status lines that say more or less than was proven, and what they should say.
fn unproven(
    tasks: &[Task],
    given: &[Task],
    proven: &BTreeSet<u32>,
    retry_failed: bool,
) -> Vec<(u32, TaskStatus)> {
    let pairs = tasks.iter().zip(given);
    pairs
        .filter_map(|(task, given)| {
            let number = task.spec.number;
            let committed = if proven.contains(&number) { TaskStatus::Complete } else { given.status };
            let right = match (task.status, committed) {
                (TaskStatus::Complete, TaskStatus::Complete) => return None,
                (_, TaskStatus::Complete) => TaskStatus::Complete,
                (TaskStatus::Complete, before) => before,
                (TaskStatus::Failed, _) if retry_failed => TaskStatus::Pending,
                _ => return None,
            };
            Some((number, right))
        })
        .collect()
}

fn numbers(tasks: &[u32]) -> String {
    tasks.iter().map(|number| format!("#{number}")).collect::<Vec<_>>().join(", ")
}

/// Which end of a unit the end of one of its loops is; `None` goes on.
pub fn end_of(reason: Reason, exhausted: UnitEnd) -> Option<UnitEnd> {
    match reason {
        Reason::Done => None,
        Reason::MaxIterations | Reason::Stuck => Some(exhausted),
        Reason::MaxTime | Reason::Budget => Some(UnitEnd::Budget),
        Reason::Auth | Reason::Billing => Some(UnitEnd::Auth),
        Reason::Waiting | Reason::Question | Reason::Blocked | Reason::Refused => Some(UnitEnd::Person),
        Reason::Interrupted | Reason::Terminated => Some(UnitEnd::Stopped),
        Reason::Cancelled => Some(UnitEnd::Cancelled),
        Reason::Agent | Reason::Gate | Reason::Disk | Reason::Lock => Some(UnitEnd::Environment),
        Reason::Error => Some(UnitEnd::Error),
    }
}

/// The end of a unit whose loop of this step has used up its tries.
pub(super) fn exhausted(step: PlanStep) -> UnitEnd {
    match step {
        PlanStep::Turn | PlanStep::Workflow | PlanStep::Stage | PlanStep::StageMerge => UnitEnd::Exhausted,
        PlanStep::Baseline => UnitEnd::Baseline,
        PlanStep::SentBack | PlanStep::Merge | PlanStep::Conflict => UnitEnd::Merge,
    }
}

/// The task that a turn without an accepted claim failed at: the one that was claimed last, else the first that was ready.
pub(super) fn given_up(set: &TaskSet, last_claimed: Option<u32>) -> Option<u32> {
    last_claimed.or_else(|| set.ready.first().copied())
}

/// Whether this job would start the very loop that was cut short: it is then continued.
pub(super) fn is_ours(cut: &CutFacts, brief: &UnitBrief, accepted: &str, tasks: &[Task]) -> bool {
    let Some(purpose) = &cut.cut.purpose else { return false };
    let UnitBrief { settings, unit, .. } = brief;
    let now = match (purpose.step, &cut.must_hold) {
        (PlanStep::Turn, _) => Purpose::turn(settings, unit, accepted, tasks.iter().map(|task| &task.spec)),
        (PlanStep::Baseline, Some(must_hold)) => {
            Purpose::baseline(settings, unit, accepted, &must_hold.checks)
        }
        (PlanStep::SentBack, Some(must_hold)) => {
            Purpose::proof(PlanStep::SentBack, settings, unit, accepted, must_hold)
        }
        // The scratch worktree of a merge is gone with its job.
        (PlanStep::Merge | PlanStep::Conflict | PlanStep::Baseline | PlanStep::SentBack, _) => return false,
        (PlanStep::Workflow | PlanStep::Stage | PlanStep::StageMerge, _) => return false,
    };
    *purpose == now
}

/// A commit of a branch, and its parents.
pub type ChainCommit = (String, Vec<String>);

/// What of a branch is proven: the tasks, and the newest commit.
///
/// `chain` are the commits of the branch since `base`, newest first; `proofs` the tasks and the last commit of each receipt.
/// Merges on top of the newest proven commit that dacapo made itself count as proven, since both sides were: `is_own_merge`
/// is asked for the commit and its two parents.
pub fn accepted<E>(
    base: &str,
    chain: &[ChainCommit],
    proofs: impl IntoIterator<Item = (Vec<u32>, String)>,
    mut is_own_merge: impl FnMut(&str, &str, &str) -> Result<bool, E>,
) -> Result<(BTreeSet<u32>, String), E> {
    let mut proven = BTreeSet::new();
    let mut after = chain.len();
    for (tasks, commit) in proofs {
        if let Some(at) = chain.iter().position(|(id, _)| *id == commit) {
            proven.extend(tasks);
            after = after.min(at);
        }
    }
    let mut accepted = chain.get(after).map_or(base, |(newest, _)| newest);
    for (id, parents) in chain[..after].iter().rev() {
        let [first, second] = &parents[..] else { break };
        if first != accepted || !is_own_merge(id, first, second)? {
            break;
        }
        accepted = id;
    }
    Ok((proven, accepted.to_owned()))
}

/// Tasks that are complete in the target and were not when the run began.
pub(super) fn newly_complete(brief: &UnitBrief, tasks: &[Task]) -> Vec<u32> {
    let is_new =
        |task: &&Task| task.status == TaskStatus::Complete && !brief.complete.contains(&task.spec.number);
    tasks.iter().filter(is_new).map(|task| task.spec.number).collect()
}

/// What the user is told of tasks that the target calls complete and no receipt proves.
pub(super) fn said_without_proof(target: &str, tasks: &[u32]) -> String {
    let (noun, verb, they) = match tasks {
        [_] => ("task", "is", "it is"),
        _ => ("tasks", "are", "they are"),
    };
    format!(
        "`{target}` says that {noun} {} {verb} complete, and no receipt proves it: {they} worked on again",
        numbers(tasks)
    )
}

/// The file that a merge would change in a way that it may not: nothing but the status of this unit's proven tasks.
pub(super) fn foreign_change(view: &MergeView) -> Option<String> {
    let MergeView { proven, tasks, changes } = view;
    let foreign = changes.iter().find(|change| {
        let (file, before, after) = (&change.file, change.before.as_deref(), change.after.as_deref());
        let verdict = files::judge(file, before, after, tasks);
        let is_proven = tasks.iter().find(|task| task.spec.file == *file).is_none_or(|task| {
            let said = after.and_then(|bytes| check::reread(file, bytes).ok());
            said == Some(task.status)
                || (said == Some(TaskStatus::Complete) && proven.contains(&task.spec.number))
        });
        matches!(verdict, UnitFileVerdict::Forbidden(_)) || !is_proven
    });
    foreign.map(|change| change.file.clone())
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
