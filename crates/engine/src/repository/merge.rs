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

    /// As [`Self::commit_merge`], with other content in one of the tree's files: one process, and what that starts by itself.
    pub(crate) fn commit_merge_with(
        &self,
        tree: &str,
        parents: [&str; 2],
        message: &str,
        (file, content): (&str, &[u8]),
    ) -> Result<String, WorkspaceError> {
        let [first, second] = parents.map(|parent| self.commit(parent));
        let (first, second) = (first?, second?);
        let now = jiff::Zoned::now();
        let when = format!("{} {}", now.timestamp().as_second(), now.strftime("%z"));
        let [author, committer] = self.identities()?;
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|error| WorkspaceError::io("name a merge in", self.root())(error.into()))?;
        // The commit is on no branch: the ref that the stream needs is never written.
        let name = format!("refs/dacapo/making-{}", dacapo_core::ids::base32(&random));
        let mut stream = format!(
            "commit {name}\nmark :1\nauthor {author} {when}\ncommitter {committer} {when}\ndata {}\n{message}\nfrom {first}\n",
            message.len()
        );
        if second != first {
            stream.push_str(&format!("merge {second}\n"));
        }
        stream.push_str(&format!(
            "M 040000 {tree} \nM 100644 inline {}\ndata {}\n",
            quoted_path(file),
            content.len()
        ));
        let mut stream = stream.into_bytes();
        stream.extend_from_slice(content);
        let none = "0".repeat(first.len());
        stream.extend_from_slice(format!("\nget-mark :1\nreset {name}\nfrom {none}\n").as_bytes());
        let call = self.checkout.call().config("fastimport.unpackLimit=100").config("core.ignoreCase=false");
        let commit = call.args(["fast-import", "--quiet", "--force"]).input(stream).ok()?.line();
        let mut known = self.known();
        known.ids.insert(commit.clone());
        known.parents.insert(commit.clone(), vec![first, second]);
        Ok(commit)
    }

    /// Name and address of the author and the committer, as git writes them into commits.
    fn identities(&self) -> Result<[String; 2], WorkspaceError> {
        let identity = |role: &str| match self.checkout.call().args(["var", role]).ok() {
            // `Name <address> seconds zone`
            Ok(output) => {
                let line = output.line();
                Ok(line.rfind('>').map_or(line.clone(), |end| line[..=end].to_owned()))
            }
            Err(GitError::Failed { .. }) => Err(WorkspaceError::NoIdentity { dir: self.root().to_owned() }),
            Err(error) => Err(error.into()),
        };
        self.checkout.identities(|| Ok([identity("GIT_AUTHOR_IDENT")?, identity("GIT_COMMITTER_IDENT")?]))
    }

    /// Whether git knows who commits.
    pub fn check_identity(&self) -> Result<(), WorkspaceError> {
        self.identities().map(drop)
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

/// A path as a stream of fast-import has it where it could be taken for something else.
fn quoted_path(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !path.is_empty() && path.chars().all(is_plain) {
        return path.to_owned();
    }
    let escaped = path.bytes().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", byte as char),
        0x20..=0x7e => (byte as char).to_string(),
        _ => format!("\\{byte:03o}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod path_tests {
    #[test]
    fn paths_are_quoted_for_a_stream() {
        for (path, quoted) in [
            (".dacapo/tasks/T-1.md", ".dacapo/tasks/T-1.md"),
            ("with space.md", "\"with space.md\""),
            ("a\"b\\c\n", "\"a\\\"b\\\\c\\012\""),
            ("ä", "\"\\303\\244\""),
            ("", "\"\""),
        ] {
            assert_eq!(super::quoted_path(path), quoted);
        }
    }
}
