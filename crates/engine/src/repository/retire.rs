//! Putting the branch and the worktree of a unit aside, so that it begins anew and nothing of it is lost.

use super::{
    RefSwap, Repository, branch_of,
    worktree::{KnownWorktree, MOST_DEPTH, hidden, six_hex},
};
use crate::{
    git::{Checkout, GitError, WorkspaceError, split_nul},
    scratch::Scratch,
};

/// How many names are tried.
const MOST_NAMES: u32 = 100;

/// What was put aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// The branch that holds all that was done; none if the target has it.
    pub kept: Option<String>,
    pub commit: Option<String>,
    /// What was not committed and is in that commit now.
    pub saved: Vec<String>,
}

impl Repository {
    /// Removes a worktree and its branch; what they hold beyond `target` goes to `dacapo/old/…` first. What is not committed
    /// is in the way, unless `is_forced`: then it is committed there. With `is_dry` it only says what would be.
    pub fn retire(
        &self,
        known: &KnownWorktree,
        target: &str,
        is_forced: bool,
        is_dry: bool,
    ) -> Result<Retired, WorkspaceError> {
        let _lock = self.lock()?;
        let tip = self.branch(&known.branch)?;
        let worktree = if known.path.exists() { Some(self.at(&known.path)?) } else { None };
        let mut retired = Retired::default();
        let mut commit = tip.clone();
        if let Some(worktree) = &worktree {
            let head = self.head_for(worktree, &known.branch, tip.as_deref())?;
            retired.saved = self.unsaved(worktree)?;
            if !retired.saved.is_empty() && !is_forced {
                let dir = known.path.clone();
                return Err(WorkspaceError::NotClean { dir, paths: retired.saved });
            }
            commit = match retired.saved.is_empty() || is_dry {
                true => Some(head),
                false => Some(self.save(worktree, &head)?),
            };
        }
        if let Some(commit) = commit
            && (!retired.saved.is_empty() || !self.is_ancestor(&commit, target).unwrap_or(false))
        {
            let name = self.old_name(&known.branch, &commit)?;
            // Nothing goes before something else holds it.
            if !is_dry
                && self.branch(&name)?.is_none()
                && let RefSwap::Not { .. } = self.swap(&name, &commit, None)?
            {
                return Err(WorkspaceError::BranchTaken(name));
            }
            (retired.kept, retired.commit) = (Some(name), Some(commit));
        }
        if is_dry {
            return Ok(retired);
        }
        if worktree.is_some() {
            // `--force` twice, because a worktree that the user has locked is removed, too. All of it has been looked at, and is kept.
            let call = self.guarded(&self.checkout)?.args(["worktree", "remove", "--force", "--force"]);
            call.args([&known.path]).patiently(10).ok()?;
        }
        // Where a person works on it, the ground stays where it is.
        if let Some(tip) = tip
            && self.checkouts(&known.branch)?.is_empty()
        {
            self.delete_branch(&known.branch, &tip)?;
        }
        Ok(retired)
    }

    /// The newest commit in the worktree, which must be its branch's or build on it.
    fn head_for(
        &self,
        worktree: &Checkout,
        branch: &str,
        tip: Option<&str>,
    ) -> Result<String, WorkspaceError> {
        let strayed =
            || WorkspaceError::OtherBranch { dir: worktree.toplevel.clone(), branch: branch.to_owned() };
        let head = worktree.head()?.ok_or_else(strayed)?;
        let is_ours = match tip {
            Some(tip) => branch_of(worktree)?.as_deref() == Some(branch) || self.is_ancestor(tip, &head)?,
            None => true,
        };
        if is_ours { Ok(head) } else { Err(strayed()) }
    }

    /// What is not committed; what a commit of this repository cannot hold is an error.
    fn unsaved(&self, worktree: &Checkout) -> Result<Vec<String>, WorkspaceError> {
        worktree.check_files()?;
        let lost =
            |why: String| WorkspaceError::NotClean { dir: worktree.toplevel.clone(), paths: vec![why] };
        if let Some(why) = self.look_at_submodules(worktree, MOST_DEPTH)? {
            return Err(lost(why));
        }
        if let Some(file) = hidden(worktree)? {
            return Err(lost(format!("git was told not to look at `{file}`")));
        }
        let mut paths = self.dirt(worktree, "all", "dirty")?;
        paths.truncate(20);
        Ok(paths)
    }

    /// A commit of the files as they are, on top of `head`; on no branch yet.
    fn save(&self, worktree: &Checkout, head: &str) -> Result<String, WorkspaceError> {
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let index = scratch.path().join("index");
        let call = || Ok::<_, WorkspaceError>(self.guarded(worktree)?.env("GIT_INDEX_FILE", &index));
        call()?.args(["read-tree", head]).ok()?;
        call()?.args(["add", "--all", "--", ":/"]).patiently(10).ok()?;
        // git would keep the name of a nested repository, but none of its files.
        let before = repositories(&worktree.call().args(["ls-tree", "-r", "-z", head]).ok()?.stdout);
        let after = repositories(&call()?.args(["ls-files", "--stage", "-z"]).ok()?.stdout);
        if let Some(inner) = after.into_iter().find(|path| !before.contains(path)) {
            let paths = vec![format!("`{inner}` is a repository of its own")];
            return Err(WorkspaceError::NotClean { dir: worktree.toplevel.clone(), paths });
        }
        let tree = call()?.args(["write-tree"]).ok()?.line();
        let commit = self.checkout.call().args(["commit-tree", &tree, "-p", head, "-F", "-"]);
        match commit.input(b"What was not committed when the unit was reset".to_vec()).ok() {
            Ok(output) => Ok(output.line()),
            Err(GitError::Failed { said, .. }) if said.contains("dentity") => {
                Err(WorkspaceError::NoIdentity { dir: self.root().to_owned() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A name for what was `branch`, that is free, or that leads to `commit` already because an earlier reset was cut short.
    fn old_name(&self, branch: &str, commit: &str) -> Result<String, WorkspaceError> {
        let name = branch.strip_prefix("dacapo/").unwrap_or(branch);
        let unit = name.rsplit_once('-').map_or(name, |(unit, _)| unit);
        let mut wanted = format!("dacapo/old/{name}");
        for _ in 0..MOST_NAMES {
            match self.branch(&wanted)? {
                Some(at) if at != commit => wanted = format!("dacapo/old/{unit}-{}", six_hex()?),
                _ => return Ok(wanted),
            }
        }
        Err(WorkspaceError::NoName { name: wanted, dir: self.root().to_owned() })
    }
}

/// The paths of submodules, and of what git takes for such, in a list of files.
fn repositories(listed: &[u8]) -> Vec<String> {
    let path = |entry: &[u8]| {
        let tab = memchr::memchr(b'\t', entry)?;
        Some(String::from_utf8_lossy(&entry[tab + 1..]).into_owned())
    };
    split_nul(listed).filter(|entry| entry.starts_with(b"160000 ")).filter_map(path).collect()
}
