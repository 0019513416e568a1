//! Tasks of a unit: what their files say, setting them, and the commits of those that were proven.

use std::{io, path::Path};

use dacapo_core::{
    judge::{
        signal::Facts,
        unit_files::{committed, restated},
    },
    loop_machine::{Input, TaskCommit, TaskCommits},
    unit::{TaskSet, TaskStatus, check::Problem},
};

use super::{SuperviseError, Supervisor};
use crate::{
    git::WorkspaceError,
    snapshots::{CommitOutcome, Workspace},
    task_files,
};

impl Supervisor<'_> {
    /// What the files of all tasks of the turn say now (req 28); one that cannot be read is passed over (req 30).
    pub(super) fn look_at_tasks(&self, facts: &mut Facts) {
        let Some(set) = &self.started.policy.tasks else { return };
        let root = self.top();
        for task in &set.tasks {
            let found = task_files::look(root, &task.spec.file);
            facts.broken.extend(found.as_ref().err().map(Problem::line));
            facts.tasks.push((task.spec.number, found.ok()));
        }
        if let Some((plan, error, _)) = self.lost_plan() {
            facts.broken.push(task_files::unreadable(&plan, &error).line());
        }
    }

    /// The unit's plan, if it was there when the loop began and cannot be read now: where, why, and what it held.
    fn lost_plan(&self) -> Option<(String, io::Error, Vec<u8>)> {
        let set = self.started.policy.tasks.as_ref()?;
        let plan = task_files::plan_of(&set.tasks.first()?.spec.file);
        let error = task_files::read(self.top(), &plan).err()?;
        let base = &self.started.base.as_ref()?.snapshot;
        let mut held = self.workspace.as_ref()?.files_at(base, &[plan.as_bytes()]).ok()?;
        Some((plan, error, held.pop()??))
    }

    /// Sets files of tasks. What cannot be set is said and stops nothing.
    pub(super) fn set_statuses(&mut self, statuses: &[(u32, TaskStatus)]) -> Result<(), SuperviseError> {
        let started = self.started.clone();
        let Some(set) = &started.policy.tasks else { return Ok(()) };
        let root = self.top().to_owned();
        if let Some((plan, _, bytes)) = self.lost_plan() {
            self.kept = None;
            if let Err(error) = task_files::put_back(&root, &plan, &bytes) {
                self.warn_about_task(error.to_string())?;
            }
        }
        let mut wanted = files(set, statuses);
        // A file that cannot be read is put back, too: a claim after this one would be refused for it.
        for task in &set.tasks {
            let file = task.spec.file.as_str();
            if !wanted.iter().any(|(known, _)| *known == file) && task_files::status(&root, file).is_none() {
                wanted.push((file, task.status));
            }
        }
        let others: Vec<&(&str, TaskStatus)> =
            wanted.iter().filter(|(file, status)| task_files::status(&root, file) != Some(*status)).collect();
        if others.is_empty() {
            return Ok(());
        }
        // The files are not what a snapshot taken before holds.
        self.kept = None;
        let paths: Vec<&[u8]> = others.iter().map(|(file, _)| file.as_bytes()).collect();
        let base = match (&self.workspace, &started.base) {
            (Some(workspace), Some(base)) => workspace.files_at(&base.snapshot, &paths).unwrap_or_default(),
            _ => Vec::new(),
        };
        for (at, (file, status)) in others.into_iter().enumerate() {
            let before = base.get(at).and_then(Option::as_deref);
            if let Err(error) = task_files::set_status(&root, file, *status, before) {
                self.warn_about_task(error.to_string())?;
            }
        }
        Ok(())
    }

    fn warn_about_task(&mut self, text: String) -> Result<(), SuperviseError> {
        self.notice(text)
    }

    /// One commit per task; those that were made before one that fails are told too.
    pub(super) fn commit_tasks(
        &mut self,
        snapshot: &str,
        iteration: u32,
        commits: &[TaskCommit],
    ) -> Result<(), SuperviseError> {
        let back = self.recover_branch()?;
        let mut result = TaskCommits::default();
        if let Err(why) = back.and_then(|()| self.make_commits(snapshot, iteration, commits, &mut result)) {
            result.failed = Some(why);
        }
        let seal = self.seal()?;
        self.inbox.push_back(Input::TasksCommitted(result, seal).into());
        Ok(())
    }

    fn make_commits(
        &self,
        snapshot: &str,
        iteration: u32,
        commits: &[TaskCommit],
        result: &mut TaskCommits,
    ) -> Result<(), String> {
        let (Some(workspace), Some(base), Some(set)) =
            (&self.workspace, &self.started.base, &self.started.policy.tasks)
        else {
            return Err("the workspace is not a git repository".to_owned());
        };
        let held = TaskFileContents::of(workspace, [&base.snapshot, snapshot], set)
            .map_err(|error| error.to_string())?;
        for commit in commits {
            let files = held.with(&commit.statuses)?;
            let (outcome, tree) = workspace
                .commit_files(snapshot, &files, &commit.message, u64::from(iteration))
                .map_err(|error| error.to_string())?;
            let id = match outcome {
                CommitOutcome::Committed { commit, .. } | CommitOutcome::AlreadyCommitted { commit } => {
                    Some(commit)
                }
                CommitOutcome::NothingToCommit => None,
            };
            result.made.push((commit.task, id));
            result.tree = Some(tree);
        }
        Ok(())
    }

    /// The top of the repository, which the paths of task files count from.
    fn top(&self) -> &Path {
        self.workspace.as_ref().map_or(&self.started.workspace, |workspace| workspace.root())
    }
}

/// What the files of tasks held before the first agent and hold in the snapshot that is kept.
struct TaskFileContents<'a> {
    set: &'a TaskSet,
    base: Vec<Option<Vec<u8>>>,
    now: Vec<Option<Vec<u8>>>,
}

impl<'a> TaskFileContents<'a> {
    fn of(workspace: &Workspace, [base, now]: [&str; 2], set: &'a TaskSet) -> Result<Self, WorkspaceError> {
        let paths: Vec<&[u8]> = set.tasks.iter().map(|task| task.spec.file.as_bytes()).collect();
        let [base, now] = workspace.files_of_both([base, now], &paths)?;
        Ok(Self { set, base, now })
    }

    /// The files that must be others than in the snapshot for the tasks to stand like this in a commit.
    fn with(&self, statuses: &[(u32, TaskStatus)]) -> Result<Vec<(&'a str, Vec<u8>)>, String> {
        let mut changed = Vec::new();
        for (task, (base, now)) in self.set.tasks.iter().zip(self.base.iter().zip(&self.now)) {
            let Some((_, status)) = statuses.iter().find(|(number, _)| *number == task.spec.number) else {
                continue;
            };
            let file = task.spec.file.as_str();
            let status = committed(file, base.as_deref(), *status);
            let wanted = restated(file, base.as_deref(), now.as_deref(), status)
                .ok_or_else(|| format!("the status in `{file}` cannot be set"))?;
            if now.as_ref() != Some(&wanted) {
                changed.push((file, wanted));
            }
        }
        Ok(changed)
    }
}

/// The files of these tasks, and what they are to say.
fn files<'a>(set: &'a TaskSet, statuses: &[(u32, TaskStatus)]) -> Vec<(&'a str, TaskStatus)> {
    let file =
        |number| set.tasks.iter().find(|task| task.spec.number == number).map(|t| t.spec.file.as_str());
    statuses.iter().filter_map(|(number, status)| Some((file(*number)?, *status))).collect()
}
