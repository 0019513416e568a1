//! What may begin, and in which order: tasks of a unit, and units among each other. Everything here is linear.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Task, TaskSpec, TaskStatus, Unit};
use crate::{ids::UnitId, text::visible::is_deceptive};

/// Tasks that are pending and whose dependencies are all complete (req 9).
pub fn ready(tasks: &[Task]) -> Vec<u32> {
    ready_if(tasks, |status| status == TaskStatus::Pending)
}

/// Tasks that may be worked on when a unit is taken up. A task that an earlier agent had begun counts as well (req 14).
pub fn ready_at_start(tasks: &[Task]) -> Vec<u32> {
    ready_if(tasks, |status| matches!(status, TaskStatus::Pending | TaskStatus::InProgress))
}

fn ready_if(tasks: &[Task], is_open: impl Fn(TaskStatus) -> bool) -> Vec<u32> {
    let mut complete: HashMap<u32, bool> = HashMap::with_capacity(tasks.len());
    for task in tasks {
        *complete.entry(task.spec.number).or_insert(true) &= task.status == TaskStatus::Complete;
    }
    let is_complete = |number: &u32| complete.get(number).copied().unwrap_or(false);
    tasks
        .iter()
        .filter(|task| is_open(task.status) && task.spec.depends_on.iter().all(is_complete))
        .map(|task| task.spec.number)
        .collect()
}

/// How a unit stands before a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TasksStanding {
    /// These may be worked on.
    Ready(Vec<u32>),
    /// There is nothing left to do (req 15).
    AllComplete,
    /// Nothing can begin, and these were given up (req 16).
    SomeFailed(Vec<u32>),
    /// Nothing can begin though nothing failed: these wait for each other, or for what is not there (req 17).
    Stuck(Vec<u32>),
}

/// How these tasks stand.
pub fn standing(tasks: &[Task]) -> TasksStanding {
    let numbers = |is_one: fn(TaskStatus) -> bool| -> Vec<u32> {
        tasks.iter().filter(|task| is_one(task.status)).map(|task| task.spec.number).collect()
    };
    let ready = ready_at_start(tasks);
    if !ready.is_empty() {
        return TasksStanding::Ready(ready);
    }
    let open = numbers(|status| status != TaskStatus::Complete);
    let failed = numbers(|status| status == TaskStatus::Failed);
    match (open.is_empty(), failed.is_empty()) {
        (true, _) => TasksStanding::AllComplete,
        (false, false) => TasksStanding::SomeFailed(failed),
        (false, true) => TasksStanding::Stuck(open),
    }
}

/// How a unit stands, by the words of its files.
pub fn status(tasks: &[Task]) -> TaskStatus {
    let any = |status| tasks.iter().any(|task| task.status == status);
    if tasks.iter().all(|task| task.status == TaskStatus::Complete) {
        TaskStatus::Complete
    } else if any(TaskStatus::Failed) {
        TaskStatus::Failed
    } else if any(TaskStatus::InProgress) || any(TaskStatus::Complete) {
        TaskStatus::InProgress
    } else {
        TaskStatus::Pending
    }
}

/// Units in the order in which they could begin, those that could run beside each other together.
///
/// What is complete is left out, and so is what never could begin.
pub fn levels(units: &[Unit]) -> Vec<Vec<UnitId>> {
    let open: Vec<&Unit> = units.iter().filter(|unit| status(&unit.tasks) != TaskStatus::Complete).collect();
    let index: HashMap<&UnitId, usize> = open.iter().enumerate().map(|(at, unit)| (&unit.id, at)).collect();
    let mut waits_for = vec![0_usize; open.len()];
    let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); open.len()];
    for (at, unit) in open.iter().enumerate() {
        for before in unit.depends_on.iter().filter_map(|id| index.get(id)) {
            waits_for[at] += 1;
            dependants[*before].push(at);
        }
    }
    let mut level: Vec<usize> = (0..open.len()).filter(|at| waits_for[*at] == 0).collect();
    let mut levels = Vec::new();
    while !level.is_empty() {
        let mut next = Vec::new();
        for at in &level {
            for dependant in &dependants[*at] {
                waits_for[*dependant] -= 1;
                if waits_for[*dependant] == 0 {
                    next.push(*dependant);
                }
            }
        }
        next.sort_unstable();
        levels.push(level.iter().map(|at| open[*at].id.clone()).collect());
        level = next;
    }
    levels
}

/// Units that can never begin because `failed` has failed, in the order of `units` (req 55).
pub fn behind(units: &[Unit], failed: &UnitId) -> Vec<UnitId> {
    let mut dependants: HashMap<&UnitId, Vec<&UnitId>> = HashMap::new();
    for unit in units {
        for before in &unit.depends_on {
            dependants.entry(before).or_default().push(&unit.id);
        }
    }
    let mut found: HashSet<&UnitId> = HashSet::new();
    let mut queue = VecDeque::from([failed]);
    while let Some(id) = queue.pop_front() {
        for dependant in dependants.get(id).into_iter().flatten() {
            if *dependant != failed && found.insert(dependant) {
                queue.push_back(dependant);
            }
        }
    }
    units.iter().map(|unit| &unit.id).filter(|id| found.contains(id)).cloned().collect()
}

/// Rings in a graph, each as the way around it: enough to see what is wrong, not all there are.
pub(crate) fn rings(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnTheWay(usize),
        Done,
    }
    let mut seen = vec![Seen::No; edges.len()];
    let mut is_shown = vec![false; edges.len()];
    let mut rings = Vec::new();
    for start in 0..edges.len() {
        if seen[start] != Seen::No {
            continue;
        }
        // The way so far, and which edge of each node is next; a deep graph costs no stack.
        let mut way: Vec<(usize, usize)> = vec![(start, 0)];
        seen[start] = Seen::OnTheWay(0);
        while let Some((node, next)) = way.last_mut() {
            let Some(&to) = edges[*node].get(*next) else {
                seen[*node] = Seen::Done;
                way.pop();
                continue;
            };
            *next += 1;
            match seen[to] {
                Seen::No => {
                    seen[to] = Seen::OnTheWay(way.len());
                    way.push((to, 0));
                }
                // A ring through a node that was shown may be gone once that one is opened.
                Seen::OnTheWay(from) if !is_shown[*node] && !is_shown[to] => {
                    let ring: Vec<usize> = way[from..].iter().map(|(node, _)| *node).collect();
                    for node in &ring {
                        is_shown[*node] = true;
                    }
                    rings.push(ring);
                }
                Seen::OnTheWay(_) | Seen::Done => {}
            }
        }
    }
    rings
}

/// The message of the commit of a task, in one line (req 44).
pub fn commit_message(unit: &UnitId, task: &TaskSpec) -> String {
    let title: String = task.title.chars().filter(|c| !is_deceptive(*c)).collect();
    format!("feat({unit}): complete task #{} - {title}", task.number)
}

/// Why the task cannot be completed now; `None` if it can.
pub fn not_ready(tasks: &[Task], number: u32) -> Option<String> {
    if matches!(standing(tasks), TasksStanding::Ready(ready) if ready.contains(&number)) {
        return None;
    }
    let find = |number: u32| tasks.iter().find(|task| task.spec.number == number);
    let task = find(number)?;
    let is_open = |number: &&u32| find(**number).is_none_or(|task| task.status != TaskStatus::Complete);
    let first: Vec<String> = task.spec.depends_on.iter().filter(is_open).map(|n| format!("#{n}")).collect();
    Some(match task.status {
        TaskStatus::Complete => "it is complete".to_owned(),
        TaskStatus::Failed => "it failed, and `--retry-failed` tries it again".to_owned(),
        TaskStatus::Pending | TaskStatus::InProgress => format!("it waits for {}", first.join(", ")),
    })
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
