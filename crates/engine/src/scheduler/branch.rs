//! What of a unit's branch is proven, and how it stands to the target. The word of a file, committed or not, is an agent's;
//! receipts are ours.

use std::{collections::BTreeSet, path::Path};

use dacapo_core::{
    event::{Reason, RunEvent, UnitEnd},
    text::shell::word,
    unit::{Task, TaskStatus, check, frontmatter, settings::MustHold},
};

use super::{
    job::JobEnd,
    work::{Worker, claimed},
};
use crate::{
    git::WorkspaceError,
    proof,
    repository::{Merged, Worktree},
    snapshots, task_files, units,
};

/// What a receipt of the unit proves, and the commit it ends with.
struct Proof {
    tasks: Vec<u32>,
    commit: String,
    /// The branch that it was committed to.
    branch: Option<String>,
}

impl Worker<'_> {
    /// Where finished units go: the target, or, where that could not be moved, the branch that waits for it.
    pub(super) fn tip(&self) -> Result<String, JobEnd> {
        let target = &self.spec.started.target;
        let Some(mut tip) = self.repo.branch(target).map_err(JobEnd::error)? else {
            return Err(JobEnd(UnitEnd::Setup, format!("the target branch `{target}` does not exist")));
        };
        let ours = format!("dacapo/merged-{}", self.spec.started.purse);
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
                // A task that somebody has changed since is no longer what was agreed to, and is not run.
                let tasks = self.tasks_of(unit, tip).unwrap_or_default();
                others.extend(specs(tasks).map(|task| (unit.id.clone(), task)));
            }
        }
        let tasks = specs(self.tasks_at(commit)?).collect();
        Ok(MustHold { tasks, others, checks: self.baseline_for(tree)? })
    }

    pub(super) fn head(&self, tree: &Worktree) -> Result<String, JobEnd> {
        let head = self.repo.branch(&tree.branch).map_err(JobEnd::error)?;
        head.ok_or_else(|| JobEnd::error(format!("the branch `{}` is gone", tree.branch)))
    }

    /// Puts the branch back to the newest commit that was accepted on it, if somebody took that off it: what receipts prove
    /// is not done again.
    pub(super) fn bring_back(&mut self, tree: &Worktree) -> Result<(), JobEnd> {
        let mut proofs = self.proofs()?;
        proofs.retain(|proof| proof.branch.as_ref() == Some(&tree.branch));
        for Proof { commit, .. } in proofs.into_iter().rev() {
            // One that is gone for good cannot be put back; what it proved is done again.
            if self.repo.resolve(&commit).map_err(JobEnd::error)?.is_some() {
                return self.put_back(tree, &commit).map(drop);
            }
        }
        Ok(())
    }

    /// The same for any commit that the branch has to hold; says whether it had to be put back.
    pub(super) fn put_back(&mut self, tree: &Worktree, commit: &str) -> Result<bool, JobEnd> {
        let back = self.repo.bring_back(&tree.path, &tree.branch, commit, true).map_err(JobEnd::error)?;
        let Some(back) = back else { return Ok(false) };
        self.voice.tell(&RunEvent::UnitWarned { text: back.to_string() });
        Ok(true)
    }

    /// A branch with nothing of its own follows the target, and so does one whose task files have changed there. Files
    /// that somebody changed in the worktree hold it where it is, and that is said.
    pub(super) fn bring_up(&mut self, tree: &Worktree) -> Result<(), JobEnd> {
        let (tip, head) = (self.tip()?, self.head(tree)?);
        if head == tip {
            return Ok(());
        }
        let Some(base) = self.repo.merge_base(&tip, &head).map_err(JobEnd::error)? else { return Ok(()) };
        let folder = &self.spec.unit.folder;
        let is_outdated = !self.repo.changed_below(&base, &tip, folder).map_err(JobEnd::error)?.is_empty();
        if base == head && !is_outdated && self.is_in_a_turn(tree, &head)? {
            return Ok(());
        }
        let new = match base == head {
            true => Some(tip.clone()),
            false if !is_outdated => return Ok(()),
            false => match self.repo.merge(&head, &tip).map_err(JobEnd::error)? {
                Merged::Clean { tree: merged } => {
                    let message = format!("Merge {} into {}", self.spec.started.target, tree.branch);
                    Some(self.repo.commit_merge(&merged, [&head, &tip], &message).map_err(JobEnd::error)?)
                }
                Merged::Nothing | Merged::Conflict { .. } => None,
            },
        };
        let moved = match new {
            Some(new) => {
                let marks = self.lift_marks(tree, &head)?;
                let moved = self.repo.advance(&tree.path, &tree.branch, &new, &head);
                for (file, status) in marks {
                    // A task that is gone needs none.
                    let _ = task_files::set_status(&tree.path, &file, status, None);
                }
                match moved {
                    Ok(()) => true,
                    Err(WorkspaceError::NotClean { .. }) => false,
                    Err(error) => return Err(JobEnd::error(error)),
                }
            }
            None => false,
        };
        if !moved && is_outdated {
            let text = format!(
                "its task files have changed in `{}`, and its worktree still has the old ones, because of uncommitted \
                 files or a conflict: `{}`",
                self.spec.started.target,
                self.catch_up(&tree.path)
            );
            self.voice.tell(&RunEvent::UnitWarned { text });
        }
        Ok(())
    }

    /// Whether a loop was cut short that counts changes from `head` and is to go on: elsewhere it would take what others
    /// have changed for its agent's doing.
    fn is_in_a_turn(&mut self, tree: &Worktree, head: &str) -> Result<bool, JobEnd> {
        head.clone_into(&mut self.accepted);
        let given = self.tasks_at(head)?;
        Ok(self.open_loop(tree, &given)?.is_some())
    }

    /// Takes the marks off the files of tasks that are as they were committed but for their status: that a task was begun
    /// or given up is no work that stands in the way. Gives what they said.
    fn lift_marks(&self, tree: &Worktree, head: &str) -> Result<Vec<(String, TaskStatus)>, JobEnd> {
        let mut marks = Vec::new();
        let files = self.repo.files_below(head, &self.spec.unit.folder).map_err(JobEnd::error)?;
        for (file, committed) in files.into_iter().filter(|(file, _)| units::is_task_file(file)) {
            let (Ok(now), Ok(before)) =
                (task_files::read(&tree.path, &file), check::reread(&file, &committed))
            else {
                continue;
            };
            if let Ok(status) = check::reread(&file, &now)
                && status != before
                && frontmatter::changes_only_status(&committed, &now)
            {
                let lifted = task_files::set_status(&tree.path, &file, before, Some(&committed));
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

    /// Finds out which tasks are proven and which commit is the newest that is. Gives the commit at which the branch and
    /// the target part.
    pub(super) fn look_at_branch(&mut self, tree: &Worktree) -> Result<String, JobEnd> {
        let (tip, head) = (self.tip()?, self.head(tree)?);
        let base = match tip == head {
            true => Some(tip.clone()),
            false => self.repo.merge_base(&tip, &head).map_err(JobEnd::error)?,
        };
        let base = base.ok_or_else(|| {
            JobEnd::error(format!("`{}` and the target have no common history", tree.branch))
        })?;
        (self.proven, self.accepted) = (BTreeSet::new(), base.clone());
        if head == base {
            return Ok(base);
        }
        let chain = self.repo.first_parents(&base, &head).map_err(JobEnd::error)?;
        let proofs = self.proofs()?;
        let mut after = chain.len();
        for Proof { tasks, commit, .. } in proofs {
            if let Some(at) = chain.iter().position(|(id, _)| *id == commit) {
                self.proven.extend(tasks);
                after = after.min(at);
            }
        }
        if let Some((newest, _)) = chain.get(after) {
            self.accepted.clone_from(newest);
        }
        // What dacapo itself merged on top was proven where it comes from.
        for (id, parents) in chain[..after].iter().rev() {
            let [first, second] = &parents[..] else { break };
            if *first != self.accepted || !self.is_our_merge(&tip, id, first, second)? {
                break;
            }
            self.accepted.clone_from(id);
        }
        Ok(base)
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
                let (tasks, commit) = (claimed(&receipt.claim).collect(), commit.clone());
                proofs.push(Proof { tasks, commit, branch });
            }
        }
        Ok(proofs)
    }

    /// Refuses a target that says more of this unit than it said when the run began, unless receipts say so too: an agent
    /// can move branches.
    pub(super) fn refuse_unproven(&self, base: &str, given: &[Task]) -> Result<(), JobEnd> {
        let is_new = |task: &&Task| {
            task.status == TaskStatus::Complete && !self.spec.unit.complete.contains(&task.spec.number)
        };
        let new: Vec<u32> = given.iter().filter(is_new).map(|task| task.spec.number).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut proven = BTreeSet::new();
        for Proof { tasks, commit, .. } in self.proofs()? {
            if self.repo.is_ancestor(&commit, base).unwrap_or(false) {
                proven.extend(tasks);
            }
        }
        match new.iter().find(|task| !proven.contains(task)) {
            None => Ok(()),
            Some(task) => {
                let target = &self.spec.started.target;
                Err(JobEnd::error(format!(
                    "`{target}` says since the run began that task #{task} is complete, and nothing proves it"
                )))
            }
        }
    }
}
