//! Merging two commits into a tree, without a checkout and without a program of the repository's (fault K3).

use super::{Repository, worktree};
use crate::{
    git::{GitError, WorkspaceError, failed_call},
    scratch::Scratch,
};

/// What merging two commits comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// One holds all of the other.
    Nothing,
    Clean {
        tree: String,
    },
    Conflict {
        /// The files of both, those in conflict with marks in them.
        tree: String,
        paths: Vec<String>,
        /// What git says about each.
        messages: Vec<String>,
    },
}

impl Repository {
    /// What merging `theirs` into `ours` comes to. Changes no ref and no file.
    pub fn merge(&self, ours: &str, theirs: &str) -> Result<Merged, WorkspaceError> {
        let (ours, theirs) = (self.commit(ours)?, self.commit(theirs)?);
        if self.is_ancestor(&theirs, &ours)? {
            return Ok(Merged::Nothing);
        }
        // git writes files while it merges lines. It does so in a folder of its own, so that no checkout sees them; rules
        // about files are therefore read from the commit.
        let scratch = Scratch::new("dacapo-merge")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let call = self
            .guarded(&self.checkout)?
            .env("GIT_WORK_TREE", scratch.path())
            .env("GIT_INDEX_FILE", scratch.path().join("index"))
            .env("GIT_ATTR_SOURCE", &ours)
            .in_dir(scratch.path())
            .args(["merge-tree", "--write-tree", "-z", "--name-only", "--messages", &ours, &theirs])
            .patiently(5);
        let shown = call.shown();
        let output = call.run()?;
        let mut parts =
            output.stdout.split(|b| *b == 0).map(|part| String::from_utf8_lossy(part).into_owned());
        let tree = parts.next().filter(|tree| tree.len() >= 40);
        match (output.code, tree) {
            (Some(0), Some(tree)) => Ok(Merged::Clean { tree }),
            (Some(1), Some(tree)) => {
                let paths = parts.by_ref().take_while(|path| !path.is_empty()).collect();
                let is_message = |part: &String| part.starts_with("CONFLICT (") && part.ends_with('\n');
                let messages = parts.filter(is_message).map(|part| part.trim_end().to_owned()).collect();
                Ok(Merged::Conflict { tree, paths, messages })
            }
            _ => Err(failed_call(shown, self.root().to_owned(), &output).into()),
        }
    }

    /// A commit of `tree` on two others, by the user, without a hook. It is on no branch yet.
    pub fn commit_merge(
        &self,
        tree: &str,
        parents: [&str; 2],
        message: &str,
    ) -> Result<String, WorkspaceError> {
        let [first, second] = parents;
        let call = self.checkout.call().args(["commit-tree", tree, "-p", first, "-p", second, "-F", "-"]);
        match call.input(message.as_bytes().to_vec()).ok() {
            Ok(output) => {
                let commit = output.line();
                self.know_made(&commit, tree, &parents);
                Ok(commit)
            }
            Err(GitError::Failed { said, .. }) if said.contains("dentity") => {
                Err(WorkspaceError::NoIdentity { dir: self.root().to_owned() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A commit of `tree` on another, by dacapo and on no branch: a side of a merge.
    pub(crate) fn commit_on(
        &self,
        tree: &str,
        parent: &str,
        message: &str,
    ) -> Result<String, WorkspaceError> {
        let mut call = self.checkout.call().args(["commit-tree", tree, "-p", parent, "-m", message]);
        for role in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            call = call.env(role, "dacapo");
        }
        for role in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            call = call.env(role, "dacapo@localhost");
        }
        let commit = call.ok()?.line();
        self.know_made(&commit, tree, &[parent]);
        self.known().sides.insert(commit.clone());
        Ok(commit)
    }

    fn know_made(&self, commit: &str, tree: &str, parents: &[&str]) {
        let mut known = self.known();
        known.ids.insert(commit.to_owned());
        known.trees.insert(commit.to_owned(), tree.to_owned());
        known.parents.insert(commit.to_owned(), parents.iter().map(|&parent| parent.to_owned()).collect());
    }

    /// The tree with other content in one of its files, which it must have.
    pub(crate) fn tree_with(&self, tree: &str, file: &str, content: &[u8]) -> Result<String, WorkspaceError> {
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let index = scratch.path().join("index");
        let call = || {
            let call = self.checkout.call().env("GIT_INDEX_FILE", &index);
            call.config("index.sparse=false").config("core.splitIndex=false")
        };
        let make = self.checkout.call().args(["hash-object", "-w", "--stdin"]);
        let blob = make.input(content.to_vec()).ok()?.line();
        call().args(["read-tree", tree]).ok()?;
        let entry = format!("100644 {blob}\t{file}\0").into_bytes();
        call().args(["update-index", "-z", "--index-info"]).input(entry).ok()?;
        Ok(call().args(["write-tree"]).ok()?.line())
    }

    /// Whether git knows who commits.
    pub fn check_identity(&self) -> Result<(), WorkspaceError> {
        for role in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            match self.checkout.call().args(["var", role]).ok() {
                Ok(_) => {}
                Err(GitError::Failed { .. }) => {
                    return Err(WorkspaceError::NoIdentity { dir: self.root().to_owned() });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Makes the files of a scratch worktree those of `tree`. Its index stays, so that they are changes to its commit.
    pub fn lay_out(&self, scratch: &worktree::MergeWorktree<'_>, tree: &str) -> Result<(), WorkspaceError> {
        let worktree = self.at(scratch.path())?;
        let index = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let (from, own) = (worktree.git_dir.join("index"), index.path().join("index"));
        std::fs::copy(&from, &own).map_err(WorkspaceError::io("copy", from))?;
        let args = ["read-tree", "-m", "-u", "--no-recurse-submodules", "HEAD", tree];
        self.guarded(&worktree)?.env("GIT_INDEX_FILE", &own).args(args).patiently(10).ok()?;
        Ok(())
    }
}
