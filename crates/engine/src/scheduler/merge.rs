//! What a job does to merge a finished unit, or to publish it. What comes next is the plan's to say.

use std::{collections::BTreeMap, fmt::Write as _};

use dacapo_core::{
    event::UnitEnd,
    plan::{
        claimed_tasks,
        unit::{MergeFacts, MergeView, MergedFile, MergedTrees, PullRequestEnd, TargetMove, UnitInput},
    },
    text::count,
    unit::settings::MustHold,
};

use super::{job::JobEnd, work::UnitWorker};
use crate::{
    proof,
    repository::{
        KnownWorktree, MergeWorktree, Merged, PullRequestError, Repository, TargetMoved, WorktreeRemoval,
    },
};

impl UnitWorker<'_> {
    pub(super) fn merge_trees(&self) -> Result<MergeFacts, JobEnd> {
        let branch = self.worktree()?.branch;
        let (tip, head) = (self.tip()?, self.head()?);
        let merged = match self.repo.merge(&tip, &head).map_err(JobEnd::error)? {
            Merged::Nothing => MergedTrees::Nothing,
            Merged::Clean { tree } => MergedTrees::Clean { tree },
            Merged::Conflict { tree, paths, .. } => MergedTrees::Conflict { tree, paths },
        };
        Ok(MergeFacts { tip, head, branch, merged })
    }

    /// Lays a merged tree out and sets it up; says what has to hold there, or why the setup failed.
    pub(super) fn lay_out<'r>(
        &self,
        repo: &'r Repository,
        scratch: &mut Option<MergeWorktree<'r>>,
        tip: &str,
        tree: &str,
    ) -> Result<Result<MustHold, String>, JobEnd> {
        let settings = &self.spec.started.settings;
        let made = repo.scratch(&self.spec.started.project, self.spec.unit.id.as_str(), tip);
        let made = made.map_err(JobEnd::error)?;
        let made = scratch.insert(made);
        repo.lay_out(made, tree).map_err(JobEnd::error)?;
        if settings.submodules {
            repo.init_submodules(made.path()).map_err(JobEnd::error)?;
        }
        match self.prepare(made.path(), None, &settings.setup) {
            Ok(()) => Ok(Ok(self.must_hold(tip, tree, tip)?)),
            Err(why) => Ok(Err(why)),
        }
    }

    /// What a merge would change in the files of units.
    pub(super) fn look_at_merge(&self, tip: &str, merged: &str) -> Result<MergeView, JobEnd> {
        let proven = self.look_at_branch()?.proven;
        let tasks = self.tasks_at(tip)?;
        let mut changes = Vec::new();
        if tip != merged {
            // The unit's own files are read in one go; a merge hardly ever changes others.
            let folder = format!("{}/", self.spec.unit.folder);
            let (own_before, own_after) = (self.own_files(tip)?, self.own_files(merged)?);
            let held =
                |own: &BTreeMap<String, Vec<u8>>, commit: &str, file: &str| match file.starts_with(&folder) {
                    true => Ok(own.get(file).cloned()),
                    false => self.repo.file_at(commit, file).map_err(JobEnd::error),
                };
            let units_dir = &self.spec.started.settings.units_dir;
            for file in self.repo.changed_below(tip, merged, units_dir).map_err(JobEnd::error)? {
                let (before, after) = (held(&own_before, tip, &file)?, held(&own_after, merged, &file)?);
                changes.push(MergedFile { file, before, after });
            }
        }
        Ok(MergeView { proven, tasks, changes })
    }

    /// The files of the unit in a commit.
    fn own_files(&self, commit: &str) -> Result<BTreeMap<String, Vec<u8>>, JobEnd> {
        let files = self.repo.files_below(commit, &self.spec.unit.folder).map_err(JobEnd::error)?;
        Ok(files.into_iter().collect())
    }

    /// Moves the target to a merge that holds all of it.
    pub(super) fn move_target(&self, commit: &str) -> Result<TargetMove, JobEnd> {
        let (target, id) = (&self.spec.started.target, &self.spec.started.budget_of);
        let now = self.repo.branch(target).map_err(JobEnd::error)?;
        let now = now.ok_or_else(|| JobEnd::error(format!("the target branch `{target}` is gone")))?;
        // The target got a commit while its merge was being checked, and no gate has seen that commit.
        if !self.repo.is_ancestor(&now, commit).map_err(JobEnd::error)? {
            return Ok(TargetMove::Overtaken);
        }
        let moved = self.repo.move_target(target, commit, &now, id.as_str()).map_err(JobEnd::error)?;
        Ok(match moved {
            TargetMoved::Moved { .. } => TargetMove::Moved,
            TargetMoved::LeftOn { branch, command, why } => {
                TargetMove::LeftOn { branch, command, why: why.join(", ") }
            }
            TargetMoved::Overtaken { .. } => TargetMove::Overtaken,
        })
    }

    /// Teardown, then the worktree and its branch; what is not surely merged and clean stays, and is named.
    pub(super) fn tidy(&self, merged: &str) -> Result<UnitInput, JobEnd> {
        let KnownWorktree { path, branch } = self.worktree()?;
        let mut warnings = Vec::new();
        if let Err(why) = self.prepare(&path, Some(&branch), &self.spec.started.settings.teardown) {
            warnings.push(format!("teardown: {why}"));
        }
        let left = |why: &dyn std::fmt::Display| format!("the worktree `{}` is left: {why}", path.display());
        let removed = match self.repo.remove(&path, &branch, merged) {
            Ok(WorktreeRemoval::Removed) => Some(path),
            Ok(WorktreeRemoval::Kept { why }) => {
                warnings.push(left(&why));
                None
            }
            Err(error) => {
                warnings.push(left(&error));
                None
            }
        };
        Ok(UnitInput::Tidied { removed, warnings })
    }

    pub(super) fn look_at_route(&self) -> Result<UnitInput, JobEnd> {
        let branch = self.worktree()?.branch;
        let now = self.repo.route(&self.spec.started.target).map_err(JobEnd::error)?;
        let changed = self.spec.route.as_ref().map(|route| route.changed(&now)).unwrap_or_default();
        Ok(UnitInput::RouteSeen { branch, changed, remote: now.remote().map(str::to_owned) })
    }

    pub(super) fn push(&self, commit: &str, remote: &str) -> Result<UnitInput, JobEnd> {
        let branch = self.worktree()?.branch;
        let pushed = self.repo.push(&branch, commit, remote);
        pushed.map_err(|error| JobEnd(UnitEnd::Merge, error.to_string()))?;
        Ok(UnitInput::Pushed)
    }

    pub(super) fn open_pull_request(&self) -> Result<PullRequestEnd, JobEnd> {
        let branch = self.worktree()?.branch;
        let title = format!("Unit {}", self.spec.unit.id);
        let body = body(self)?;
        let opened = self.repo.open_pull_request(&branch, &self.spec.started.target, &title, &body);
        Ok(match opened {
            Ok(opened) => PullRequestEnd::Opened { url: opened.url },
            Err(PullRequestError::NoGh) => PullRequestEnd::NoProgram,
            Err(error) => PullRequestEnd::Refused { detail: error.to_string() },
        })
    }
}

/// What a reviewer reads: every task with the proof of it.
fn body(worker: &UnitWorker<'_>) -> Result<String, JobEnd> {
    let head = worker.head()?;
    let tasks = worker.tasks_at(&head)?;
    let mut body = format!(
        "{} of unit `{}`, each proven before it was committed.\n\n",
        count(tasks.len() as u32, "task"),
        worker.spec.unit.id
    );
    let loops = worker
        .store
        .loops_of_task(&worker.spec.started.project, worker.task()?.as_str())
        .map_err(JobEnd::error)?;
    for row in loops {
        let Some(receipt) = proof::receipt(&worker.store, &row.view.id).map_err(JobEnd::error)? else {
            continue;
        };
        let title_of = |number: u32| {
            let task = tasks.iter().find(|task| task.spec.number == number)?;
            Some(format!("#{number} {}", task.spec.title))
        };
        let claims: Vec<String> = claimed_tasks(&receipt.claim).filter_map(title_of).collect();
        let what = if claims.is_empty() { "baseline".to_owned() } else { claims.join(", ") };
        let _ = writeln!(
            body,
            "- **{what}** — {} (receipt `{}`, loop `{}`)",
            receipt.verdict, receipt.sha256, row.view.id
        );
        for gate in &receipt.gates {
            let _ = writeln!(body, "  - `{}` exited {}", gate.command.replace('\n', " "), gate.exit_code);
        }
    }
    Ok(body)
}
