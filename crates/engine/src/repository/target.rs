//! The branch that units are merged into: moved by compare and swap (fault L2), with its checkout if it has a clean one.

use std::{
    fs,
    path::{Path, PathBuf},
};

use dacapo_core::text::shell::word;

use super::{
    RefSwap, RegisteredWorktree, Repository,
    move_branch::{BranchMove, BranchMoveResult},
};
use crate::git::WorkspaceError;

/// How many names are tried.
const MOST_NAMES: u32 = 100;

/// What became of the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetMoved {
    /// It is at the new commit, or holds it already.
    Moved {
        /// The worktree whose files went along.
        checkout: Option<PathBuf>,
    },
    /// It could not be moved where it is checked out; the new commit waits on a branch.
    LeftOn {
        branch: String,
        /// The one thing to type.
        command: String,
        /// What is in the way; at most twenty things.
        why: Vec<String>,
    },
    Overtaken {
        now: String,
    },
}

impl Repository {
    /// Moves the branch `target` from `old` to `new`; a move that was cut short is completed by the next call. `id` names
    /// the branch that holds the commit if it cannot be moved.
    pub fn move_target(
        &self,
        target: &str,
        new: &str,
        old: &str,
        id: &str,
    ) -> Result<TargetMoved, WorkspaceError> {
        let (new, old) = (self.commit(new)?, self.commit(old)?);
        let _lock = self.lock()?;
        self.recover_locked()?;
        let now = self.branch(target)?.ok_or_else(|| WorkspaceError::NoBranch(target.to_owned()))?;
        let checkouts = self.checkouts(target)?;
        if self.is_ancestor(&new, &now)? {
            self.drop_waiting(id, &new)?;
            return Ok(TargetMoved::Moved { checkout: checkouts.into_iter().next() });
        }
        if now != old {
            return Ok(TargetMoved::Overtaken { now });
        }
        let why = match &checkouts[..] {
            [] => match self.swap(target, &new, Some(&old))? {
                RefSwap::Yes => {
                    self.drop_waiting(id, &new)?;
                    return Ok(TargetMoved::Moved { checkout: None });
                }
                RefSwap::Not { now } => return Ok(TargetMoved::Overtaken { now }),
            },
            [one] if !one.join(".git").exists() => vec![format!("`{}` cannot be reached", one.display())],
            [one] => {
                let step =
                    BranchMove { worktree: one.clone(), branch: target.to_owned(), old, new: new.clone() };
                match self.shift(&step) {
                    Ok(BranchMoveResult::Done) => {
                        self.drop_waiting(id, &new)?;
                        return Ok(TargetMoved::Moved { checkout: Some(one.clone()) });
                    }
                    Ok(BranchMoveResult::Overtaken { now }) => return Ok(TargetMoved::Overtaken { now }),
                    Ok(BranchMoveResult::Dirty(mut paths)) => {
                        paths.truncate(20);
                        paths
                    }
                    // In the middle of a rebase of it.
                    Err(WorkspaceError::OtherBranch { dir, .. }) => {
                        vec![format!("something is in progress in `{}`", dir.display())]
                    }
                    Err(error) => return Err(error),
                }
            }
            _ => vec!["it is checked out more than once".to_owned()],
        };
        let branch = self.wait_on_branch(id, &new)?;
        let command = match &checkouts[..] {
            [one] => self.merge_there(one, &format!("--ff-only {branch}")),
            _ => format!("git merge --ff-only {branch}"),
        };
        Ok(TargetMoved::LeftOn { branch, command, why })
    }

    /// The command that merges `what` into the branch `target`, wherever that is checked out.
    pub fn command_to_merge(&self, target: &str, what: &str) -> Result<String, WorkspaceError> {
        Ok(match &self.checkouts(target)?[..] {
            [one] => self.merge_there(one, what),
            _ => format!("git switch {} && git merge {what}", word(target)),
        })
    }

    fn merge_there(&self, checkout: &Path, what: &str) -> String {
        match checkout == self.root() {
            true => format!("git merge {what}"),
            false => format!("git -C {} merge {what}", word(&checkout.to_string_lossy())),
        }
    }

    /// Moves the branch of a clean worktree, with files and index, from `old` to `new`; a move that was cut short is
    /// completed by the next call. Untracked files stay.
    pub fn advance(&self, worktree: &Path, branch: &str, new: &str, old: &str) -> Result<(), WorkspaceError> {
        let (new, old) = (self.commit(new)?, self.commit(old)?);
        let _lock = self.lock()?;
        self.recover_locked()?;
        let now = self.branch(branch)?.ok_or_else(|| WorkspaceError::NoBranch(branch.to_owned()))?;
        if now == new {
            return Ok(());
        }
        let moved = |now| WorkspaceError::BranchMoved { branch: branch.to_owned(), now };
        if now != old {
            return Err(moved(now));
        }
        let place = worktree.canonicalize().map_err(WorkspaceError::io("enter", worktree))?;
        let step = BranchMove { worktree: place.clone(), branch: branch.to_owned(), old, new };
        match self.shift(&step)? {
            BranchMoveResult::Done => Ok(()),
            BranchMoveResult::Dirty(paths) => Err(WorkspaceError::NotClean { dir: place, paths }),
            BranchMoveResult::Overtaken { now } => Err(moved(now)),
        }
    }

    /// The worktrees that a branch is in use in; those that are gone and not locked are none.
    pub(super) fn checkouts(&self, branch: &str) -> Result<Vec<PathBuf>, WorkspaceError> {
        let whole = format!("refs/heads/{branch}");
        let mut found = Vec::new();
        for worktree in self.worktrees()? {
            let is_there = !worktree.is_gone();
            if !is_there && !worktree.is_locked {
                continue;
            }
            if worktree.branch.as_ref() == Some(&whole) || (is_there && self.is_rebased(&worktree, &whole)) {
                found.push(worktree.path);
            }
        }
        Ok(found)
    }

    /// A rebase takes HEAD off its branch and moves the branch when it ends.
    fn is_rebased(&self, worktree: &RegisteredWorktree, whole: &str) -> bool {
        let git_dir = match &worktree.git_dir {
            Some(git_dir) => git_dir.clone(),
            None => match self.at(&worktree.path) {
                Ok(checkout) => checkout.git_dir,
                Err(_) => return false,
            },
        };
        ["rebase-merge/head-name", "rebase-apply/head-name"]
            .iter()
            .any(|file| fs::read_to_string(git_dir.join(file)).is_ok_and(|name| name.trim_end() == whole))
    }

    /// Puts `new` on `dacapo/merged-<id>`; a branch of that name that leads elsewhere is left alone.
    fn wait_on_branch(&self, id: &str, new: &str) -> Result<String, WorkspaceError> {
        for n in 1..=MOST_NAMES {
            let name = waiting_name(id, n);
            let at = self.branch(&name)?;
            let is_free = match &at {
                None => true,
                Some(at) if at == new => return Ok(name),
                Some(at) => self.is_ancestor(at, new)? && self.checkouts(&name)?.is_empty(),
            };
            if is_free && matches!(self.swap(&name, new, at.as_deref())?, RefSwap::Yes) {
                return Ok(name);
            }
        }
        Err(WorkspaceError::NoName { name: waiting_name(id, 1), dir: self.root().to_owned() })
    }

    /// Deletes the branches that held a merge of `id` until the target could: the work is in the target now, or is given up.
    pub(crate) fn forget_waiting(&self, id: &str) -> Result<(), WorkspaceError> {
        if !self.may_have_waiting() {
            return Ok(());
        }
        let _lock = self.lock()?;
        for n in 1..=MOST_NAMES {
            let name = waiting_name(id, n);
            match self.branch(&name)? {
                Some(at) if self.checkouts(&name)?.is_empty() => self.delete_branch(&name, &at)?,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Deletes the branch that held `new` until the target could.
    fn drop_waiting(&self, id: &str, new: &str) -> Result<(), WorkspaceError> {
        let name = waiting_name(id, 1);
        match self.branch(&name)? {
            Some(at) if at == new && self.checkouts(&name)?.is_empty() => self.delete_branch(&name, &at),
            _ => Ok(()),
        }
    }
}

fn waiting_name(id: &str, n: u32) -> String {
    if n == 1 { format!("dacapo/merged-{id}") } else { format!("dacapo/merged-{id}-{n}") }
}
