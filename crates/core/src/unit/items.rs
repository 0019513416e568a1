//! The ready tasks of a unit as items of a loop: the status line of a task's file is the mark of its item.

use serde::{Deserialize, Serialize};

use super::{Task, TaskSet, TaskSpec, TaskStatus, graph};
use crate::{
    item::{Item, ItemFacts, ItemKey, ItemSource, Marks},
    policy::{CommitRule, Policy},
};

/// The files of units while a loop works on one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSource {
    /// The folder of units, from the top of the repository: below it no frontmatter may change, no file come or go.
    pub dir: String,
    /// The tasks of a turn; without them nothing in the folder is a mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TaskSet>,
}

impl UnitSource {
    /// The tasks whose status may change.
    pub fn tasks(&self) -> &[Task] {
        self.turn.as_ref().map_or(&[], |set| &set.tasks)
    }
}

/// The tasks of the turn that a loop is, if it is one.
pub fn turn_of(policy: &Policy) -> Option<&TaskSet> {
    match policy.source.as_ref()? {
        ItemSource::Unit(source) => source.turn.as_ref(),
    }
}

/// The item of a task has its number.
pub fn key(task: &TaskSpec) -> ItemKey {
    ItemKey(task.number)
}

/// The items of a turn: its ready tasks, each with a commit of its own.
pub fn items(set: &TaskSet) -> Vec<Item> {
    let ready = set.tasks.iter().filter(|task| set.ready.contains(&task.spec.number));
    ready
        .map(|Task { spec, .. }| Item {
            key: Some(key(spec)),
            noun: "task".to_owned(),
            // Its backpressure is what proves it.
            evidence: Vec::new(),
            commit: Some(CommitRule { message: Some(graph::commit_message(&set.unit, spec)) }),
            writes: spec.writes.clone(),
        })
        .collect()
}

/// What the agent of a turn is told about claims.
pub(crate) fn how_to_claim() -> &'static str {
    "The `status` in the frontmatter of a task's file is what says that it is done, and nothing else does: set it to \
     `complete` when you have checked the task. Its backpressure will be run then, and a task that does not pass it is set \
     back.\n"
}

/// What the files of a turn say: the status of each task by number (`None` where that cannot be told), and what is wrong with
/// files that cannot be understood or are gone, one line each.
pub fn facts(set: &TaskSet, statuses: &[(u32, Option<TaskStatus>)], broken: Vec<String>) -> ItemFacts {
    let complete = || {
        let is_complete = |status| status == Some(TaskStatus::Complete);
        statuses.iter().filter(move |(_, status)| is_complete(*status)).map(|(number, _)| *number)
    };
    let was_complete =
        |number| set.tasks.iter().any(|t| t.spec.number == number && t.status == TaskStatus::Complete);
    let early: Vec<u32> =
        complete().filter(|number| !set.ready.contains(number) && !was_complete(*number)).collect();
    let done = complete().filter(|number| set.ready.contains(number)).map(ItemKey).collect();
    let is_damaged = !broken.is_empty();
    let misses = early.iter().map(|number| too_early(set, *number)).chain(broken).collect();
    ItemFacts { done, not_ours: early.into_iter().map(ItemKey).collect(), misses, is_damaged }
}

/// Why the task of this number cannot be completed yet, for people and for the next agent.
fn too_early(set: &TaskSet, number: u32) -> String {
    let is_open = |number: &&u32| {
        let mut open = set.tasks.iter().filter(|task| task.status != TaskStatus::Complete);
        open.any(|task| task.spec.number == **number)
    };
    let task = set.tasks.iter().find(|task| task.spec.number == number);
    let first: Vec<String> = task
        .iter()
        .flat_map(|task| task.spec.depends_on.iter().filter(is_open))
        .map(|number| format!("#{number}"))
        .collect();
    match first.is_empty() {
        true => format!("task #{number} was set to `complete`, and it is none of the tasks that are ready"),
        false => format!("task #{number} was set to `complete`, and {} must come first", first.join(", ")),
    }
}

/// What the files of a turn are to say when the tasks of `done` are proven: those are complete, all others are as they were
/// when the turn began. Only the tasks that `marks` names are in it.
pub fn statuses(set: &TaskSet, marks: &Marks, done: &[ItemKey]) -> Vec<(u32, TaskStatus)> {
    let wanted = set.tasks.iter().filter(|task| marks.contains(key(&task.spec)));
    let status =
        |task: &Task| if done.contains(&key(&task.spec)) { TaskStatus::Complete } else { task.status };
    wanted.map(|task| (task.spec.number, status(task))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_machine::decide_tests::items::task_set;

    #[test]
    fn only_ready_tasks_are_items_and_each_has_its_commit() {
        // req 44
        let labels: Vec<String> = items(&task_set()).iter().map(Item::label).collect();
        assert_eq!(labels, ["task #2", "task #3"]);
        let message = |item: &Item| item.commit.clone().and_then(|rule| rule.message);
        assert_eq!(
            items(&task_set()).iter().map(message).collect::<Vec<_>>(),
            [
                Some("feat(app): complete task #2 - Title 2".to_owned()),
                Some("feat(app): complete task #3 - Title 3".to_owned())
            ]
        );
    }

    #[test]
    fn status_lines_are_set_by_what_is_proven() {
        // req 36, req 41: what is refused is as it was, not pending.
        use TaskStatus::{Complete, InProgress, Pending};
        let of = |keys: &[u32]| Marks::Of(keys.iter().copied().map(ItemKey).collect());
        for (marks, done, expected) in [
            (Marks::All, &[][..], vec![(1, Complete), (2, Pending), (3, InProgress), (4, Pending)]),
            (Marks::All, &[2][..], vec![(1, Complete), (2, Complete), (3, InProgress), (4, Pending)]),
            (Marks::All, &[2, 3][..], vec![(1, Complete), (2, Complete), (3, Complete), (4, Pending)]),
            (of(&[4]), &[][..], vec![(4, Pending)]),
            (of(&[2, 3]), &[][..], vec![(2, Pending), (3, InProgress)]),
            (of(&[2, 3]), &[2][..], vec![(2, Complete), (3, InProgress)]),
            (of(&[9]), &[9][..], vec![]),
        ] {
            let done: Vec<ItemKey> = done.iter().copied().map(ItemKey).collect();
            assert_eq!(statuses(&task_set(), &marks, &done), expected, "{marks:?} {done:?}");
        }
    }

    #[test]
    fn a_status_line_is_a_mark_of_a_ready_task_only() {
        // req 28, req 30
        use TaskStatus::{Complete, InProgress};
        let early = "task #4 was set to `complete`, and #2, #3 must come first".to_owned();
        let none = "task #9 was set to `complete`, and it is none of the tasks that are ready".to_owned();
        let keys = |numbers: &[u32]| numbers.iter().copied().map(ItemKey).collect();
        for (said, broken, expected) in [
            (vec![(1, Some(Complete)), (2, Some(InProgress)), (3, None)], vec![], ItemFacts::default()),
            (
                vec![(3, Some(Complete)), (2, Some(Complete))],
                vec![],
                ItemFacts { done: keys(&[3, 2]), ..ItemFacts::default() },
            ),
            (
                vec![(4, Some(Complete)), (9, Some(Complete))],
                vec!["torn".to_owned()],
                ItemFacts {
                    not_ours: keys(&[4, 9]),
                    misses: vec![early, none, "torn".to_owned()],
                    is_damaged: true,
                    ..ItemFacts::default()
                },
            ),
        ] {
            assert_eq!(facts(&task_set(), &said, broken), expected, "{said:?}");
        }
    }
}
