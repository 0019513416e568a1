//! Accepted work as a commit of the user's: once, on the branch it was made for, without a hook and without losing
//! anything staged.

use std::{
    collections::HashSet, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path, thread, time::Duration,
};

use super::{CommitOutcome, shadow::Shadow};
use crate::{
    git::{GitError, RepositoryLock, WorkspaceError, failed_call, split_nul},
    scratch::Scratch,
};

/// How far back a commit of ours is looked for.
const RECENT: &str = "-200";
/// How often an index that another git has locked is tried again, and how long in between.
const TRIES: (u32, Duration) = (20, Duration::from_millis(100));

/// A commit of the user's branch.
struct Recent {
    id: String,
    tree: String,
    /// Which iterations of which loops it says it is from.
    marks: Vec<String>,
}

impl Shadow {
    /// Commits a tree on top of HEAD, marked `Dacapo: <loop>/<iteration>`. A commit that
    /// is held stays in the repository even if its branch moves or is deleted.
    pub(crate) fn commit_tree(
        &self,
        lock: &RepositoryLock,
        tree: &str,
        message: &str,
        iteration: u64,
        is_held: bool,
    ) -> Result<CommitOutcome, WorkspaceError> {
        let _held = lock;
        let dir = || self.checkout.toplevel.clone();
        if self.state.had_staged {
            return Err(WorkspaceError::Staged { dir: dir() });
        }
        let mark = format!("{}/{iteration}", self.loop_id);
        // A branch that stands where the loop found it holds no commit of the loop's.
        let unmoved = self.head_in_files().filter(|head| self.state.head.as_ref() == Some(head));
        let recent = match unmoved {
            Some((id, tree)) => vec![Recent { id, tree, marks: Vec::new() }],
            None => self.recent()?,
        };
        let head = recent.first();
        // An agent can write our mark as well as we can, but then it marks this very tree or nothing.
        let is_ours = |commit: &&Recent| commit.tree == tree && commit.marks.contains(&mark);
        if let Some(marked) = recent.iter().find(is_ours) {
            let commit = marked.id.clone();
            // A crash may have come between moving the branch and the index.
            if head.is_some_and(|head| head.id == commit) && !self.is_index_of(&commit)? {
                self.refresh_index(&commit)?;
            }
            return Ok(CommitOutcome::AlreadyCommitted { commit });
        }
        self.checkout.check_files()?;
        if head.is_some_and(|head| head.tree == tree) {
            return Ok(CommitOutcome::NothingToCommit);
        }
        // Commits of this loop hold what was proven; what else is on the branch since it began, the agent has committed.
        let own = format!("{}/", self.loop_id);
        let is_of_agent = |head: &&Recent| {
            self.state.head.as_ref().is_none_or(|(start, _)| *start != head.id)
                && !head.marks.iter().any(|mark| mark.starts_with(&own))
        };
        let left_out = match head.filter(is_of_agent) {
            Some(head) => self.left_out(&head.id, tree)?,
            None => Vec::new(),
        };
        let head = head.map(|head| head.id.clone());
        let mut make = self.checkout.call().args(["commit-tree", tree, "-F", "-"]);
        if let Some(head) = &head {
            make = make.args(["-p", head]);
        }
        let commit = match make.input(marked(message, &mark).into_bytes()).ok() {
            Ok(output) => output.line(),
            Err(GitError::Failed { said, .. }) if said.contains("dentity") => {
                return Err(WorkspaceError::NoIdentity { dir: dir() });
            }
            Err(error) => return Err(error.into()),
        };
        // Compare and swap: a branch that moved meanwhile is left where it is. No old value means it must not exist.
        let old = head.unwrap_or_else(|| "0".repeat(commit.len()));
        let reason = format!("dacapo: {}", message.lines().next().unwrap_or_default());
        let mut moves = format!("update HEAD {commit} {old}\n");
        if is_held {
            moves.push_str(&format!("update {}-commit {commit}\n", self.reference()));
        }
        let call = self.checkout.call().args(["update-ref", "-m", &reason, "--stdin"]);
        match call.input(moves.into_bytes()).ok() {
            Ok(_) => {}
            Err(GitError::Failed { said, .. }) => {
                return Err(WorkspaceError::HeadMoved { dir: dir(), why: said });
            }
            Err(error) => return Err(error.into()),
        }
        let index_is_current = self.refresh_index(&commit)?;
        Ok(CommitOutcome::Committed { commit, index_is_current, left_out })
    }

    pub(crate) fn committed_and_ignored(&self, id: &str) -> Result<Vec<String>, WorkspaceError> {
        // The branch stands where the loop found it: the agent has committed nothing.
        if self.head_in_files().is_some() {
            return Ok(Vec::new());
        }
        self.left_out("HEAD", &self.tree_of(id)?)
    }

    /// Files of the agent's own commit that `tree` does not have although they are in the work tree: ignored ones.
    fn left_out(&self, head: &str, tree: &str) -> Result<Vec<String>, WorkspaceError> {
        let gone = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=D"];
        let output = self.checkout.call().args(gone).args(["--end-of-options", head, tree]).ok()?;
        let paths = split_nul(&output.stdout).map(|path| Path::new(OsStr::from_bytes(path)));
        let there = paths.filter(|path| self.checkout.toplevel.join(path).symlink_metadata().is_ok());
        Ok(there.map(|path| path.to_string_lossy().into_owned()).collect())
    }

    /// The snapshot's tree with other content in some of its files: made beside the work tree and its index.
    pub(crate) fn tree_with(&self, id: &str, files: &[(&str, Vec<u8>)]) -> Result<String, WorkspaceError> {
        let tree = self.tree_of(id)?;
        if files.is_empty() {
            return Ok(tree);
        }
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let index = scratch.path().join("index");
        let call = || {
            let call = self.checkout.call().env("GIT_INDEX_FILE", &index);
            call.config("index.sparse=false").config("core.splitIndex=false")
        };
        call().args(["read-tree", &tree]).ok()?;
        let mut entries = Vec::new();
        for (path, content) in files {
            // As it is: what a filter does to it was done when the snapshot was taken.
            let write = ["hash-object", "-w", "--no-filters", "--stdin"];
            let blob = call().args(write).input(content.clone()).ok()?.line();
            let mode = self.mode_of(&tree, path)?;
            entries.extend(format!("{mode} {blob} 0\t{path}\0").into_bytes());
        }
        call().args(["update-index", "-z", "--index-info"]).input(entries).ok()?;
        Ok(call().args(["write-tree"]).ok()?.line())
    }

    /// The mode of a file in a tree; that of a plain one if it is none there.
    fn mode_of(&self, tree: &str, path: &str) -> Result<&'static str, WorkspaceError> {
        let list = ["ls-tree", "-z", "--full-tree", "--end-of-options", tree, path];
        let listed = self.checkout.call().args(list).ok()?.stdout;
        Ok(if listed.starts_with(b"100755 ") { "100755" } else { "100644" })
    }

    /// The latest commits of HEAD, newest first; none on an unborn branch.
    fn recent(&self) -> Result<Vec<Recent>, WorkspaceError> {
        let format = "--format=%H %T %(trailers:key=Dacapo,valueonly,separator=%x20)";
        let log = self.checkout.call().args(["log", RECENT, "--no-show-signature", format, "HEAD", "--"]);
        let shown = log.shown();
        let log = log.run()?;
        if log.code != Some(0) {
            return match self.checkout.head()? {
                Some(_) => Err(failed_call(shown, self.checkout.toplevel.clone(), &log).into()),
                None => Ok(Vec::new()),
            };
        }
        let log = String::from_utf8_lossy(&log.stdout).into_owned();
        Ok(log
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ').map(str::to_owned);
                Some(Recent { id: words.next()?, tree: words.next()?, marks: words.collect() })
            })
            .collect())
    }

    /// Whether the user's index holds what `commit` does.
    fn is_index_of(&self, commit: &str) -> Result<bool, WorkspaceError> {
        let quiet = ["diff-index", "--cached", "--quiet", "--ignore-submodules=dirty", commit, "--"];
        Ok(self.checkout.call().args(quiet).run()?.code == Some(0))
    }

    /// Makes the user's index that of `commit`, so that nothing shows as staged; false if another git holds its lock.
    fn refresh_index(&self, commit: &str) -> Result<bool, WorkspaceError> {
        let (tries, pause) = TRIES;
        let mut is_shown = false;
        for _ in 0..tries {
            match self.call_with_start_filters()?.args(["read-tree", "--reset", commit]).ok() {
                Ok(_) => {
                    // Its exit code says whether files differ, which is none of our business here.
                    self.call_with_start_filters()?.args(["update-index", "-q", "--refresh"]).run()?;
                    return Ok(true);
                }
                Err(GitError::Failed { said, .. }) if said.contains("index.lock") => thread::sleep(pause),
                Err(GitError::Failed { said, .. }) if said.contains("not uptodate") && !is_shown => {
                    self.show_committed(commit)?;
                    is_shown = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Lets git look again at files that it was told to skip and that `commit` changes: an agent has hidden them, and snapshots see
    /// them all the same.
    fn show_committed(&self, commit: &str) -> Result<(), WorkspaceError> {
        let call = || self.call_with_start_filters();
        let flagged = call()?.args(["ls-files", "-v", "-z"]).ok()?.stdout;
        let changed = call()?
            .args(["diff-index", "--cached", "--name-only", "--no-renames", "-z", commit])
            .ok()?
            .stdout;
        let changed: HashSet<&[u8]> = split_nul(&changed).collect();
        let is_skipped =
            |entry: &&[u8]| entry[0].eq_ignore_ascii_case(&b's') && changed.contains(&entry[2..]);
        let paths: Vec<u8> =
            split_nul(&flagged).filter(is_skipped).flat_map(|entry| [&entry[2..], b"\0"].concat()).collect();
        call()?.args(["update-index", "--no-skip-worktree", "-z", "--stdin"]).input(paths).ok()?;
        Ok(())
    }
}

/// The message with the mark among its trailers.
fn marked(message: &str, mark: &str) -> String {
    let message = message.trim_end();
    let last = message.rsplit("\n\n").next().unwrap_or_default();
    let is_trailer = |line: &str| {
        line.split_once(": ").is_some_and(|(key, _)| {
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
    };
    // The subject alone is never a block of trailers, even if it looks like one.
    let has_block = message.contains("\n\n") && last.lines().all(is_trailer);
    let subject = if message.is_empty() { "dacapo" } else { message };
    format!("{subject}{}Dacapo: {mark}\n", if has_block { "\n" } else { "\n\n" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_joins_the_trailers() {
        for (message, expected) in [
            ("Fix it", "Fix it\n\nDacapo: l/3\n"),
            ("fix: it\n", "fix: it\n\nDacapo: l/3\n"),
            (
                "Fix\n\nWhy.\n\nSigned-off-by: A <a@b>\n",
                "Fix\n\nWhy.\n\nSigned-off-by: A <a@b>\nDacapo: l/3\n",
            ),
            ("Fix\n\nBecause: it broke\nand more", "Fix\n\nBecause: it broke\nand more\n\nDacapo: l/3\n"),
            ("", "dacapo\n\nDacapo: l/3\n"),
        ] {
            assert_eq!(marked(message, "l/3"), expected, "{message:?}");
        }
    }
}
