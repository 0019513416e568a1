//! What of a unit's branch is proven, and how it stands to the target. The word of a file, committed or not, is an agent's;
//! receipts are ours.

use std::{collections::BTreeSet, path::Path};

use dacapo_core::{
    event::{Reason, UnitEnd},
    loop_machine::LoopMachine,
    plan::{
        claimed_tasks,
        unit::{BranchFacts, Restore, Take, TargetFacts, TargetTaken, accepted},
    },
    text::shell::word,
    unit::{Task, TaskStatus, check, frontmatter, settings::MustHold},
};

use super::{job::JobEnd, work::UnitWorker};
use crate::{
    git::WorkspaceError,
    proof,
    repository::{KnownWorktree, Merged},
    snapshots, task_files, units,
};

/// What a receipt of the unit proves, and the commit it ends with.
struct Proof {
    tasks: Vec<u32>,
    commit: String,
    /// The branch that it was committed to.
    branch: Option<String>,
}

impl UnitWorker<'_> {
    /// Where finished units go: the target, or, where that could not be moved, the branch that waits for it.
    pub(super) fn tip(&self) -> Result<String, JobEnd> {
        let target = &self.spec.started.target;
        let Some(mut tip) = self.repo.branch(target).map_err(JobEnd::error)? else {
            return Err(JobEnd(UnitEnd::Setup, format!("the target branch `{target}` does not exist")));
        };
        let ours = format!("dacapo/merged-{}", self.spec.started.budget_of);
        let waiting = self.repo.waiting_merges(&tip).map_err(JobEnd::error)?;
        for branch in waiting.iter().filter(|branch| branch.starts_with(&ours)) {
            let ahead = self.repo.branch(branch).map_err(JobEnd::error)?.unwrap_or_default();
            if !self.repo.is_ancestor(&tip, &ahead).map_err(JobEnd::error)? {
                let command = self.repo.command_to_merge(target, branch).map_err(JobEnd::error)?;
                let detail = format!(
                    "`{branch}` holds merged units, and `{target}` has moved on without them; `{command}` brings both \
                     together"
                );
                return Err(JobEnd(UnitEnd::Merge, detail));
            }
            tip = ahead;
        }
        Ok(tip)
    }

    /// The commit a new worktree begins at: the target, with the units that come first.
    pub(super) fn base(&self) -> Result<String, JobEnd> {
        let mut base = self.tip()?;
        for (unit, branch) in &self.spec.after {
            let Some(theirs) = self.repo.branch(branch).map_err(JobEnd::error)? else {
                continue;
            };
            base = match self.repo.merge(&base, &theirs).map_err(JobEnd::error)? {
                Merged::Nothing => base,
                Merged::Clean { tree } => {
                    let message = format!("Merge unit {unit}");
                    self.repo.commit_merge(&tree, [&base, &theirs], &message).map_err(JobEnd::error)?
                }
                Merged::Conflict { paths, .. } => {
                    let detail = format!(
                        "the units it depends on cannot be put together: `{branch}` conflicts in {}",
                        paths.join(", ")
                    );
                    return Err(JobEnd(UnitEnd::Merge, detail));
                }
            };
        }
        Ok(base)
    }

    /// What has to hold when `tree` stands where `tip` stood: of the unit, as `commit` has it, of units that were merged
    /// before and whose files it changes, and of the whole repository.
    pub(super) fn must_hold(&self, tip: &str, tree: &str, commit: &str) -> Result<MustHold, JobEnd> {
        let specs = |tasks: Vec<Task>| tasks.into_iter().map(|task| task.spec);
        let mut others = Vec::new();
        if !self.spec.merged.is_empty() {
            let mut paths = self.repo.changed_paths(tip, tree).map_err(JobEnd::error)?;
            let folder = format!("{}/", self.spec.started.settings.units_dir);
            paths.retain(|path| !path.starts_with(folder.as_bytes()));
            let merges: Vec<&str> = self.spec.merged.iter().map(|(_, commit)| commit.as_str()).collect();
            let merges = self.repo.that_changed(&merges, &paths).map_err(JobEnd::error)?;
            for (unit, _) in self.spec.merged.iter().filter(|(_, commit)| merges.contains(&commit.as_str())) {
                // A task that was changed since is no longer what was agreed to, and is not run.
                let tasks = self.tasks_of(unit, tip).unwrap_or_default();
                others.extend(specs(tasks).map(|task| (unit.id.clone(), task)));
            }
        }
        let tasks = specs(self.tasks_at(commit)?).collect();
        Ok(MustHold { tasks, others, checks: self.baseline_for(tree)? })
    }

    /// The newest commit of the unit's branch.
    pub(super) fn head(&self) -> Result<String, JobEnd> {
        let branch = self.worktree()?.branch;
        let head = self.repo.branch(&branch).map_err(JobEnd::error)?;
        head.ok_or_else(|| JobEnd::error(format!("the branch `{branch}` is gone")))
    }

    /// Puts the branch back to a commit that it has to hold, if an agent or a user took that off it, and says so.
    pub(super) fn restore_branch(&self, restore: &Restore) -> Result<Option<String>, JobEnd> {
        let KnownWorktree { path, branch } = self.worktree()?;
        let commit = match restore {
            Restore::Commit(commit) => Some(commit.clone()),
            Restore::NewestProven => self.newest_proven(&branch)?,
        };
        let Some(commit) = commit else { return Ok(None) };
        let restored = self.repo.recover_branch(&path, &branch, &commit, true).map_err(JobEnd::error)?;
        Ok(restored.map(|restored| restored.to_string()))
    }

    /// The newest commit that a receipt proves on the branch. One that is gone for good cannot be put back; what it proved
    /// is done again.
    fn newest_proven(&self, branch: &str) -> Result<Option<String>, JobEnd> {
        for proof in self.proofs()?.into_iter().rev().filter(|proof| proof.branch.as_deref() == Some(branch))
        {
            if self.repo.resolve(&proof.commit).map_err(JobEnd::error)?.is_some() {
                return Ok(Some(proof.commit));
            }
        }
        Ok(None)
    }

    pub(super) fn compare_with_target(&self) -> Result<TargetFacts, JobEnd> {
        let (tip, head) = (self.tip()?, self.head()?);
        let base = match head == tip {
            true => Some(tip.clone()),
            false => self.repo.merge_base(&tip, &head).map_err(JobEnd::error)?,
        };
        let is_outdated = match &base {
            Some(base) if *base != tip => {
                let folder = &self.spec.unit.folder;
                !self.repo.changed_below(base, &tip, folder).map_err(JobEnd::error)?.is_empty()
            }
            _ => false,
        };
        let catch_up = self.catch_up(&self.worktree()?.path);
        Ok(TargetFacts { tip, head, base, is_outdated, catch_up })
    }

    /// Takes the target into the branch and the worktree. Files that an agent or a user changed there hold it where it is.
    pub(super) fn take_target(&self, take: Take) -> Result<TargetTaken, JobEnd> {
        let KnownWorktree { path, branch } = self.worktree()?;
        let (tip, head) = (self.tip()?, self.head()?);
        let new = match take {
            Take::Forward => tip,
            Take::Merge => match self.repo.merge(&head, &tip).map_err(JobEnd::error)? {
                Merged::Nothing => return Ok(TargetTaken::Nothing),
                Merged::Conflict { .. } => return Ok(TargetTaken::Conflict),
                Merged::Clean { tree } => {
                    let message = format!("Merge {} into {branch}", self.spec.started.target);
                    self.repo.commit_merge(&tree, [&head, &tip], &message).map_err(JobEnd::error)?
                }
            },
        };
        let marks = self.lift_marks(&path, &head)?;
        let moved = self.repo.advance(&path, &branch, &new, &head);
        for (file, status) in marks {
            // A task that is gone needs none.
            let _ = task_files::set_status(&path, &file, status, None);
        }
        match moved {
            Ok(()) => Ok(TargetTaken::Taken),
            Err(error @ WorkspaceError::NotClean { .. }) => Ok(TargetTaken::NotClean(error.to_string())),
            Err(error) => Err(JobEnd::error(error)),
        }
    }

    /// Takes the marks off the files of tasks that are as they were committed but for their status: that a task was begun
    /// or given up is no work that stands in the way. Gives what they said.
    fn lift_marks(&self, root: &Path, head: &str) -> Result<Vec<(String, TaskStatus)>, JobEnd> {
        let mut marks = Vec::new();
        let files = self.repo.files_below(head, &self.spec.unit.folder).map_err(JobEnd::error)?;
        for (file, committed) in files.into_iter().filter(|(file, _)| units::is_task_file(file)) {
            let (Ok(now), Ok(before)) = (task_files::read(root, &file), check::reread(&file, &committed))
            else {
                continue;
            };
            if let Ok(status) = check::reread(&file, &now)
                && status != before
                && frontmatter::changes_only_status(&committed, &now)
            {
                let lifted = task_files::set_status(root, &file, before, Some(&committed));
                lifted.map_err(JobEnd::error)?;
                marks.push((file, status));
            }
        }
        Ok(marks)
    }

    /// The command that takes the target's task files into a worktree. A status that dacapo wrote there stands beside what
    /// may have changed, and would conflict with it.
    pub(super) fn catch_up(&self, worktree: &Path) -> String {
        let started = &self.spec.started;
        let dir = word(&worktree.to_string_lossy());
        let (specs, target) = (word(&started.settings.units_dir), word(&started.target));
        format!("git -C {dir} checkout -- {specs} && git -C {dir} merge {target}")
    }

    /// Finds out which tasks are proven and which commit is the newest that is.
    pub(super) fn look_at_branch(&self) -> Result<BranchFacts, JobEnd> {
        let branch = self.worktree()?.branch;
        let (tip, head) = (self.tip()?, self.head()?);
        let base = match tip == head {
            true => Some(tip.clone()),
            false => self.repo.merge_base(&tip, &head).map_err(JobEnd::error)?,
        };
        let base =
            base.ok_or_else(|| JobEnd::error(format!("`{branch}` and the target have no common history")))?;
        if head == base {
            let accepted = base.clone();
            return Ok(BranchFacts { branch, tip, base, head, proven: BTreeSet::new(), accepted });
        }
        let chain = self.repo.first_parents(&base, &head).map_err(JobEnd::error)?;
        let proofs = self.proofs()?.into_iter().map(|proof| (proof.tasks, proof.commit));
        let (proven, accepted) =
            accepted(&base, &chain, proofs, |id, first, second| self.is_our_merge(&tip, id, first, second))?;
        Ok(BranchFacts { branch, tip, base, head, proven, accepted })
    }

    /// Whether a commit is what merging its parents comes to, and the second one the target's or that of a unit that comes
    /// first.
    fn is_our_merge(&self, tip: &str, id: &str, first: &str, second: &str) -> Result<bool, JobEnd> {
        let mut theirs = vec![tip.to_owned()];
        for (_, branch) in &self.spec.after {
            theirs.extend(self.repo.branch(branch).map_err(JobEnd::error)?);
        }
        let mut is_theirs = false;
        for their in &theirs {
            is_theirs |= self.repo.is_ancestor(second, their).map_err(JobEnd::error)?;
        }
        let merged = self.repo.merge(first, second).map_err(JobEnd::error)?;
        let tree = self.repo.tree_of(id).map_err(JobEnd::error)?;
        Ok(is_theirs && merged == Merged::Clean { tree })
    }

    /// What the receipts of the unit prove, oldest first.
    fn proofs(&self) -> Result<Vec<Proof>, JobEnd> {
        let loops = self.store.loops_of_task(&self.spec.started.project, self.task()?.as_str());
        let mut proofs = Vec::new();
        for row in loops.map_err(JobEnd::error)? {
            if row.view.reason != Some(Reason::Done) {
                continue;
            }
            let history = self.store.events(&row.view.id, 0).map_err(JobEnd::error)?;
            let base = snapshots::started(&history).and_then(|started| started.base.as_ref());
            let branch = base.and_then(|base| base.branch.clone());
            if let Some(receipt) = proof::newest(history)
                && let Some(commit) = receipt.commits.last()
            {
                // A receipt proves something only if it stands where dacapo has put it.
                self.store.must_be_unedited::<LoopMachine>(&row.view.id).map_err(JobEnd::error)?;
                let (tasks, commit) = (claimed_tasks(&receipt.claim).collect(), commit.clone());
                proofs.push(Proof { tasks, commit, branch });
            }
        }
        Ok(proofs)
    }

    /// The tasks that receipts prove whose commits `commit` holds.
    pub(super) fn proofs_in(&self, commit: &str) -> Result<BTreeSet<u32>, JobEnd> {
        let mut proven = BTreeSet::new();
        for Proof { tasks, commit: proof, .. } in self.proofs()? {
            if self.repo.is_ancestor(&proof, commit).unwrap_or(false) {
                proven.extend(tasks);
            }
        }
        Ok(proven)
    }
}
