//! What a unit needs next, judged from its tasks, its loops and what became of them.

use super::{Task, TaskSet, TaskStatus, graph::Standing};
use crate::{
    event::{LoopEvent, Reason, UnitEnd},
    ids::{LoopId, UnitId},
    text::count,
};

/// Everything that is known about a unit between two of its loops.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitFacts {
    /// Its tasks, with the status their files in the worktree have.
    pub tasks: Vec<Task>,
    /// The status of each by the target's word and by receipts, in the same order: all that is proven.
    pub committed: Vec<TaskStatus>,
    /// A loop of it that was cut short.
    pub open: Option<LoopId>,
    /// Whether tasks that failed before are tried again.
    pub retry_failed: bool,
    /// What must hold when all tasks are complete.
    pub checks: Checks,
}

/// How the checks after all tasks stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// They have to run.
    Due,
    /// They hold, or there are none.
    Hold,
}

/// What a unit needs next.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitStep {
    /// Go on with a loop that was cut short.
    Resume(LoopId),
    /// Put the status lines of these tasks right.
    SetStatuses(Vec<(u32, TaskStatus)>),
    /// A turn with these tasks.
    Turn(TaskSet),
    /// The checks after all tasks.
    Check,
    /// Nothing: it is complete.
    Complete,
    /// Nothing can be done.
    End(UnitEnd, String),
}

/// What `facts` of the unit call for.
pub fn next(unit: &UnitId, facts: &UnitFacts) -> UnitStep {
    if let Some(open) = &facts.open {
        return UnitStep::Resume(open.clone());
    }
    let wrong = unproven(facts);
    if !wrong.is_empty() {
        return UnitStep::SetStatuses(wrong);
    }
    match super::graph::standing(&facts.tasks) {
        Standing::Ready(ready) => {
            UnitStep::Turn(TaskSet { unit: unit.clone(), tasks: facts.tasks.clone(), ready })
        }
        Standing::AllComplete if facts.checks == Checks::Due => UnitStep::Check,
        Standing::AllComplete => UnitStep::Complete,
        Standing::SomeFailed(failed) => UnitStep::End(
            UnitEnd::Failed,
            format!(
                "no task is ready, and {} failed: {}; `--retry-failed` tries again",
                count(failed.len() as u32, "task"),
                numbers(&failed)
            ),
        ),
        Standing::Stuck(left) => UnitStep::End(
            UnitEnd::Blocked,
            format!(
                "no task is ready but not all are complete ({} left: {}): their dependencies are circular or missing",
                left.len(),
                numbers(&left)
            ),
        ),
    }
}

/// Status lines that say more than was proven, and what they should say: `complete` is the newest commit's to give.
fn unproven(facts: &UnitFacts) -> Vec<(u32, TaskStatus)> {
    let tasks = facts.tasks.iter().zip(&facts.committed);
    tasks
        .filter_map(|(task, committed)| {
            let right = match (task.status, committed) {
                (TaskStatus::Complete, TaskStatus::Complete) => return None,
                (_, TaskStatus::Complete) => TaskStatus::Complete,
                (TaskStatus::Complete, before) => *before,
                (TaskStatus::Failed, _) if facts.retry_failed => TaskStatus::Pending,
                _ => return None,
            };
            Some((task.spec.number, right))
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
        Reason::Waiting | Reason::Question | Reason::Blocked => Some(UnitEnd::Person),
        Reason::Interrupted | Reason::Terminated => Some(UnitEnd::Stopped),
        Reason::Cancelled => Some(UnitEnd::Cancelled),
        Reason::Agent | Reason::Disk | Reason::Lock => Some(UnitEnd::Environment),
        Reason::Error => Some(UnitEnd::Error),
    }
}

/// Whether a loop that ended like this is continued when its unit is: its claim or its agent was cut short by somebody
/// else's doing. A limit that was reached stays reached; a new turn has limits of its own.
pub fn goes_on(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Interrupted
            | Reason::Terminated
            | Reason::Waiting
            | Reason::Question
            | Reason::Blocked
            | Reason::Auth
            | Reason::Billing
            | Reason::Agent
            | Reason::Disk
            | Reason::Lock
            | Reason::Error
    )
}

/// What a person said to a loop after its last agent was started.
pub fn unheard<'a>(history: impl IntoIterator<Item = &'a LoopEvent>) -> Vec<String> {
    let mut said = Vec::new();
    for event in history {
        match event {
            LoopEvent::IterationStarted { .. } => said.clear(),
            LoopEvent::Steered { text } => said.push(text.clone()),
            _ => {}
        }
    }
    said
}

/// The task that a turn without an accepted claim failed at: the one that was claimed last, else the first that was ready.
pub fn given_up(set: &TaskSet, last_claimed: Option<u32>) -> Option<u32> {
    last_claimed.or_else(|| set.ready.first().copied())
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
