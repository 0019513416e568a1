//! A worktree whose agent left its branch, or took commits off it that were accepted: put back, and nothing is lost.

use std::{fmt, path::Path};

use super::{
    RefSwap, Repository, branch_of,
    move_branch::{BranchMove, BranchMoveResult},
};
use crate::git::{Checkout, WorkspaceError};

/// How much of a commit's id is in the name of the branch that keeps it: more than in that of a unit's branch.
const SHOWN: usize = 12;

/// What was put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredBranch {
    pub branch: String,
    pub at: String,
    /// Whether accepted commits had been taken off it; else its worktree had only left it.
    pub lost: bool,
    /// Branches that keep what would have been left on none.
    pub aside: Vec<String>,
    /// Whether the files were put back, too; else they are as they were found.
    pub with_files: bool,
}

impl fmt::Display for RecoveredBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { branch, at, lost, aside, with_files } = self;
        let at = &at[..at.len().min(9)];
        match lost {
            true => {
                write!(f, "an agent or a person took accepted commits off `{branch}`; it is back at {at}")?
            }
            false => write!(
                f,
                "an agent or a person took the worktree of `{branch}` off its branch; it is back on it, at {at}"
            )?,
        }
        f.write_str(if *with_files { ", with its files" } else { ", and the files are as they were found" })?;
        if !aside.is_empty() {
            write!(f, "; what was there instead is on `{}`", aside.join("`, `"))?;
        }
        Ok(())
    }
}

impl Repository {
    /// Puts a worktree back on its branch, and that back on `commit`, if it does not hold it any more. What no other branch
    /// holds is kept on one of its own. The files stay as they are: they are work that no gate has judged. Only where
    /// nothing was put into the place of what was taken do they come back, too, if that is wanted.
    pub fn recover_branch(
        &self,
        path: &Path,
        branch: &str,
        commit: &str,
        with_files: bool,
    ) -> Result<Option<RecoveredBranch>, WorkspaceError> {
        let is_on = self.is_on(path, branch);
        let tip = self.branch(branch)?;
        // This is the usual case, and finding it out starts no process.
        if is_on && tip.as_deref() == Some(commit) {
            return Ok(None);
        }
        let worktree = self.at(path)?;
        let is_on = is_on || branch_of(&worktree)?.as_deref() == Some(branch);
        let is_held = |by: &Option<String>| by.as_ref().map_or(Ok(false), |by| self.is_ancestor(commit, by));
        let is_whole = is_held(&tip)?;
        if is_on && is_whole {
            return Ok(None);
        }
        let _lock = self.lock()?;
        self.recover_locked()?;
        let head = if is_on { None } else { worktree.head()? };
        // Commits on no branch that go on where ours ends are ours.
        let goes_on = match (&head, &tip) {
            (Some(head), Some(tip)) if is_whole && branch_of(&worktree)?.is_none() => {
                self.is_ancestor(tip, head)?
            }
            _ => false,
        };
        let at = match (&tip, &head) {
            (_, Some(head)) if goes_on => head.clone(),
            (Some(tip), _) if is_whole => tip.clone(),
            _ => self.commit(commit)?,
        };
        let mut aside = Vec::new();
        for left in [&tip, &head].into_iter().flatten() {
            aside.extend(self.keep_aside(left, branch, &at)?);
        }
        let mut back =
            RecoveredBranch { branch: branch.to_owned(), at, lost: !is_whole, aside, with_files: false };
        if let (true, true, true, Some(old)) = (with_files, is_on, back.aside.is_empty(), &tip) {
            let step = BranchMove {
                worktree: worktree.toplevel.clone(),
                branch: branch.to_owned(),
                old: old.clone(),
                new: back.at.clone(),
            };
            back.with_files = self.shift(&step)? == BranchMoveResult::Done;
        }
        if !back.with_files {
            self.point(&worktree, branch, tip.as_deref(), &back.at)?;
        }
        Ok(Some(back))
    }

    /// Moves branch, HEAD and index, in an order that may be cut short anywhere and begun again.
    fn point(
        &self,
        worktree: &Checkout,
        branch: &str,
        old: Option<&str>,
        new: &str,
    ) -> Result<(), WorkspaceError> {
        if old != Some(new)
            && let RefSwap::Not { now } = self.swap(branch, new, old)?
        {
            return Err(WorkspaceError::BranchMoved { branch: branch.to_owned(), now });
        }
        let whole = format!("refs/heads/{branch}");
        worktree.call().args(["symbolic-ref", "-m", "dacapo: back on the branch", "HEAD", &whole]).ok()?;
        self.guarded(worktree)?.args(["read-tree", "--reset", "HEAD"]).ok()?;
        Ok(())
    }

    /// Keeps a commit that only `branch` holds, or none, on a branch of its own, unless `at` has all of it.
    fn keep_aside(&self, left: &str, branch: &str, at: &str) -> Result<Option<String>, WorkspaceError> {
        if self.is_ancestor(left, at)? {
            return Ok(None);
        }
        let args = ["for-each-ref", "--format=%(refname:lstrip=2)", "--contains", left, "refs/heads"];
        let holders = self.checkout.call().args(args).ok()?.stdout;
        if String::from_utf8_lossy(&holders).lines().any(|name| name != branch) {
            return Ok(None);
        }
        let name = format!("dacapo/aside-{}", &left[..left.len().min(SHOWN)]);
        match self.swap(&name, left, None)? {
            RefSwap::Yes => Ok(Some(name)),
            RefSwap::Not { now } => Err(WorkspaceError::BranchMoved { branch: name, now }),
        }
    }
}
