//! Which task begins next: several are worked on at once, and none before the tasks that it depends on are done.

use crate::ids::TaskId;

/// How far a task of the list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStanding {
    /// It has not begun.
    Waiting,
    /// A stage of it runs, or it is being merged.
    Working,
    /// It does not go on by itself: the user is asked, or it was cut short.
    Stopped,
    Done,
    /// It failed or was cancelled.
    Over,
}

/// A task of the list, as far as its turn depends on it.
#[derive(Clone, Debug)]
pub struct ScheduledTask<'a> {
    pub id: &'a TaskId,
    /// Tasks that must be done first. One that is not in the list is done: the list was checked.
    pub depends_on: &'a [TaskId],
    pub standing: TaskStanding,
}

/// The places of the tasks that begin now, in the order of the list.
pub fn to_begin(tasks: &[ScheduledTask<'_>], slots: u32) -> Vec<usize> {
    let working = tasks.iter().filter(|task| task.standing == TaskStanding::Working).count();
    let free = usize::try_from(slots.max(1)).unwrap_or(usize::MAX).saturating_sub(working);
    let is_ready = |task: &ScheduledTask<'_>| {
        task.standing == TaskStanding::Waiting
            && task.depends_on.iter().all(|id| {
                tasks
                    .iter()
                    .find(|other| other.id == id)
                    .is_none_or(|other| other.standing == TaskStanding::Done)
            })
    };
    let ready = tasks.iter().enumerate().filter(|(_, task)| is_ready(task)).map(|(at, _)| at);
    ready.take(free).collect()
}

/// A task that will not begin, and the one that it waits for, if nothing works and nothing can begin.
pub fn held_up<'a>(tasks: &[ScheduledTask<'a>]) -> Vec<(&'a TaskId, &'a TaskId)> {
    let waiting = tasks.iter().filter(|task| task.standing == TaskStanding::Waiting);
    waiting
        .filter_map(|task| {
            let in_the_way = task.depends_on.iter().find(|id| {
                tasks.iter().any(|other| other.id == *id && other.standing != TaskStanding::Done)
            })?;
            Some((task.id, in_the_way))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_begin_in_order_as_slots_are_free_and_what_they_depend_on_is_done() {
        // req 197
        use TaskStanding::{Done, Over, Stopped, Waiting, Working};
        let ids: Vec<TaskId> = ["a", "b", "c", "d"].iter().map(|id| id.parse().unwrap()).collect();
        // b depends on a, d on b and c.
        let depends_on = [vec![], vec![ids[0].clone()], vec![], vec![ids[1].clone(), ids[2].clone()]];
        for (standing, slots, begin, held) in [
            ([Waiting; 4], 6, vec![0, 2], vec!["b", "d"]),
            ([Waiting; 4], 1, vec![0], vec!["b", "d"]),
            ([Waiting; 4], 0, vec![0], vec!["b", "d"]),
            ([Working, Waiting, Waiting, Waiting], 1, vec![], vec!["b", "d"]),
            ([Working, Waiting, Waiting, Waiting], 2, vec![2], vec!["b", "d"]),
            ([Done, Waiting, Working, Waiting], 6, vec![1], vec!["d"]),
            // A task that asks the user takes no slot.
            ([Stopped, Waiting, Waiting, Waiting], 1, vec![2], vec!["b", "d"]),
            ([Over, Waiting, Done, Waiting], 6, vec![], vec!["b", "d"]),
            ([Done, Done, Done, Waiting], 6, vec![3], vec![]),
            ([Done; 4], 6, vec![], vec![]),
        ] {
            let tasks: Vec<ScheduledTask<'_>> = ids
                .iter()
                .zip(&depends_on)
                .zip(standing)
                .map(|((id, depends_on), standing)| ScheduledTask { id, depends_on, standing })
                .collect();
            assert_eq!(to_begin(&tasks, slots), begin, "{standing:?}");
            let waiting: Vec<&str> = held_up(&tasks).into_iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!(waiting, held, "{standing:?}");
        }
    }

    #[test]
    fn a_task_that_depends_on_one_outside_of_the_list_may_begin() {
        let (a, b): (TaskId, TaskId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let depends_on = [b];
        let task = ScheduledTask { id: &a, depends_on: &depends_on, standing: TaskStanding::Waiting };
        assert_eq!(to_begin(&[task], 6), [0]);
    }
}
