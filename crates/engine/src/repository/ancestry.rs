//! How commits relate to each other and to branches: ancestors, merge bases, and which commits are a unit's own.

use std::{collections::BTreeSet, path::Path};

use super::Repository;
use crate::git::{WorkspaceError, split_nul};

impl Repository {
    /// The newest commit that both hold; none if they share nothing.
    pub fn merge_base(&self, a: &str, b: &str) -> Result<Option<String>, WorkspaceError> {
        Ok(self.checkout.call().args(["merge-base", a, b]).line_if_any()?)
    }

    /// Commits of `head` that are not of `base` with their parents, newest first, along first parents alone.
    pub fn first_parents(
        &self,
        base: &str,
        head: &str,
    ) -> Result<Vec<(String, Vec<String>)>, WorkspaceError> {
        let range = format!("{base}..{head}");
        let args = ["rev-list", "--first-parent", "--parents", &range, "--"];
        let listed = self.checkout.call().args(args).ok()?.stdout;
        let ids = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let listed = String::from_utf8_lossy(&listed).into_owned();
        Ok(listed
            .lines()
            .map(ids)
            .filter(|ids| !ids.is_empty())
            .map(|mut ids| (ids.remove(0), ids))
            .collect())
    }

    /// The first parent of a commit.
    pub(crate) fn branch_point(&self, commit: &str) -> Result<Option<String>, WorkspaceError> {
        let name = format!("{commit}^1");
        let call = self.checkout.call();
        Ok(call.args(["rev-parse", "--quiet", "--verify", "--end-of-options", &name]).line_if_any()?)
    }

    /// Paths below a folder in which two commits differ.
    pub fn changed_below(&self, a: &str, b: &str, folder: &str) -> Result<Vec<String>, WorkspaceError> {
        let call = self.checkout.call().env("GIT_LITERAL_PATHSPECS", "1");
        let args =
            ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", a, b, "--", folder];
        let listed = call.args(args).ok()?.stdout;
        Ok(split_nul(&listed).map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    /// Paths in which two commits or trees differ.
    pub fn changed_paths(&self, a: &str, b: &str) -> Result<BTreeSet<Vec<u8>>, WorkspaceError> {
        let call = self.checkout.call().args(["diff-tree", "-r", "-z", "--name-only"]);
        let call = call.args(["--no-renames", "--no-ext-diff", "--end-of-options", a, b]);
        Ok(split_nul(&call.ok()?.stdout).map(<[u8]>::to_vec).collect())
    }

    /// Paths in which two trees differ, and those of them that the second one does not have.
    pub(crate) fn changed_and_deleted(
        &self,
        a: &str,
        b: &str,
    ) -> Result<(Vec<String>, Vec<String>), WorkspaceError> {
        let call = self.checkout.call().args(["diff-tree", "-r", "-z", "--name-status"]);
        let call = call.args(["--no-renames", "--no-ext-diff", "--end-of-options", a, b]);
        let listed = call.ok()?.stdout;
        let parts: Vec<&[u8]> = split_nul(&listed).collect();
        let (mut changed, mut deleted) = (Vec::new(), Vec::new());
        for pair in parts.chunks_exact(2) {
            let path = String::from_utf8_lossy(pair[1]).into_owned();
            if pair[0] == b"D" {
                deleted.push(path.clone());
            }
            changed.push(path);
        }
        Ok((changed, deleted))
    }

    /// Which of these merges have changed one of `paths` in the branch they were made on.
    pub fn that_changed<'a>(
        &self,
        merges: &[&'a str],
        paths: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<&'a str>, WorkspaceError> {
        let call = self.checkout.call().args(["diff-tree", "--stdin", "-r", "-z", "--name-only"]);
        let call = call.args(["--diff-merges=first-parent", "--no-renames", "--no-ext-diff"]);
        let asked: String = merges.iter().map(|merge| format!("{merge}\n")).collect();
        let listed = call.input(asked.into_bytes()).ok()?.stdout;
        // Each begins with its own name, which no path looks like by chance.
        let (mut found, mut current) = (Vec::new(), None);
        for part in split_nul(&listed) {
            match merges.iter().find(|merge| merge.as_bytes() == part) {
                Some(merge) => current = Some(*merge),
                None if paths.contains(part) => found.extend(current.take()),
                None => {}
            }
        }
        Ok(found)
    }

    /// Makes the index of a worktree that of its newest commit; files stay as they are.
    pub fn unstage(&self, worktree: &Path) -> Result<(), WorkspaceError> {
        let worktree = self.at(worktree)?;
        self.guarded(&worktree)?.args(["read-tree", "--reset", "HEAD"]).ok()?;
        Ok(())
    }

    /// Every path of a commit.
    pub fn paths(&self, commit: &str) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let call = self.checkout.call().args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", commit]);
        Ok(split_nul(&call.ok()?.stdout).map(<[u8]>::to_vec).collect())
    }

    /// Branches with merged units that the commit `tip` does not hold.
    pub fn waiting_merges(&self, tip: &str) -> Result<Vec<String>, WorkspaceError> {
        if !self.may_have_waiting() {
            return Ok(Vec::new());
        }
        let no_merged = format!("--no-merged={tip}");
        let args = ["for-each-ref", "--format=%(refname:lstrip=2)", &no_merged, "refs/heads/dacapo/merged-*"];
        let listed = self.checkout.call().args(args).ok()?.stdout;
        Ok(String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect())
    }

    /// Whether there can be any, as files tell: it is asked often, and hardly ever so.
    pub(super) fn may_have_waiting(&self) -> bool {
        let common = &self.checkout.common_dir;
        // Refs of another kind than files cannot be looked at like this.
        if common.join("reftable").exists() {
            return true;
        }
        let is_waiting = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("merged-"))
        };
        let is_loose = std::fs::read_dir(common.join("refs/heads/dacapo"))
            .is_ok_and(|mut entries| entries.any(is_waiting));
        let packed = std::fs::read(common.join("packed-refs")).unwrap_or_default();
        is_loose || memchr::memmem::find(&packed, b" refs/heads/dacapo/merged-").is_some()
    }
}
