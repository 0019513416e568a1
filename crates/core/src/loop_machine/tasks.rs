//! Tasks of a unit: what their files are set to, and the commits of those that were proven.

use super::{
    decide::Decision,
    effect::{Effect, TaskCommit},
    input::{Seal, TaskCommits},
};
use crate::{
    event::{LoopEvent, Reason},
    unit::{Task, TaskSet, TaskStatus, graph},
};

impl Decision {
    /// Sets the files of these tasks back to what they said when the turn began.
    pub(super) fn set_back(&mut self, tasks: &[u32]) {
        let Some(set) = &self.policy().tasks else { return };
        let all = self.statuses(set, &[]).into_iter();
        let statuses: Vec<_> = all.filter(|(task, _)| tasks.contains(task)).collect();
        if !statuses.is_empty() {
            self.perform(Effect::SetStatuses(statuses));
        }
    }

    /// Sets all of them back.
    pub(super) fn set_all_back(&mut self) {
        self.set_statuses(&[]);
    }

    /// Sets every file of the turn: complete are these tasks and no other that was not before.
    pub(super) fn set_statuses(&mut self, complete: &[u32]) {
        let Some(set) = &self.policy().tasks else { return };
        let statuses = self.statuses(set, complete);
        self.perform(Effect::SetStatuses(statuses));
    }

    /// What the files of the turn say when these are complete. All others are as they were; one that has its commit is
    /// complete whatever became of the claim that it was part of.
    fn statuses(&self, set: &TaskSet, complete: &[u32]) -> Vec<(u32, TaskStatus)> {
        let is_complete = |number| complete.contains(&number) || self.state.completed.contains(&number);
        let status =
            |task: &Task| if is_complete(task.spec.number) { TaskStatus::Complete } else { task.status };
        set.tasks.iter().map(|task| (task.spec.number, status(task))).collect()
    }

    /// One commit per task that stands, each with its own status line and that of those before it.
    pub(super) fn commit_tasks(&mut self, set: &TaskSet, snapshot: String, iteration: u32) {
        let standing = self.judging().standing_tasks(self.policy());
        let commit = |(at, number): (usize, &u32)| {
            let task = set.tasks.iter().find(|task| task.spec.number == *number)?;
            Some(TaskCommit {
                task: *number,
                message: graph::commit_message(&set.unit, &task.spec),
                statuses: self.statuses(set, &standing[..=at]),
            })
        };
        let commits = standing.iter().enumerate().filter_map(commit).collect();
        self.perform(Effect::CommitTasks { snapshot, iteration, commits });
    }

    pub(super) fn tasks_committed(&mut self, commits: TaskCommits, seal: Seal) {
        let iteration = self.judging().claim.iteration;
        for (task, commit) in commits.made {
            // Told once, however often it is found again; nothing to commit is no failure.
            let Some(commit) = commit else { continue };
            if !self.judging().claim.committed.iter().any(|(_, known)| *known == commit) {
                self.record(LoopEvent::Committed { iteration, commit, task: Some(task) });
            }
        }
        match commits.failed {
            None => self.accept(seal, commits.tree),
            // The claim stays open: `resume` judges it again and tries once more.
            Some(why) => {
                self.finish(Reason::Error, format!("the kept tree could not be committed: {why}"));
            }
        }
    }
}
