//! Submodules of a worktree: fetched where the configuration asks for them, and checked for unsaved work before the worktree is removed.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::{
    Repository,
    remote::quiet,
    worktree::{flagged_index, hidden},
};
use crate::git::{Checkout, GitCall, WorkspaceError, split_nul};

impl Repository {
    /// Fetches the submodules of a worktree that are not there yet, over the usual protocols only (fault H7). One that is may
    /// have been worked in.
    pub fn init_submodules(&self, path: &Path) -> Result<(), WorkspaceError> {
        let worktree = self.at(path)?;
        if !path.join(".gitmodules").exists() {
            return Ok(());
        }
        let missing = missing_submodules(&worktree)?;
        if missing.is_empty() {
            return Ok(());
        }
        // It writes to the configuration that all share.
        let _lock = self.lock()?;
        let network = self.planted(&worktree)?.undone_for_network();
        let mut call = network.into_iter().fold(self.guarded(&worktree)?, GitCall::config);
        for (variable, value) in quiet() {
            call = call.env(variable, value);
        }
        let args = ["submodule", "update", "--init", "--recursive"];
        // What a submodule is brought up to date with may be a command of the configuration's; a checkout is none.
        let call = call.env("GIT_LITERAL_PATHSPECS", "1").args(args).args(["--checkout", "--"]);
        call.args(missing).patiently(10).ok()?;
        Ok(())
    }

    /// A submodule's own history goes with the worktree, so it must be elsewhere too.
    pub(super) fn look_at_submodules(
        &self,
        checkout: &Checkout,
        depth: u32,
    ) -> Result<Option<String>, WorkspaceError> {
        self.look_at_submodules_in(&flagged_index(checkout)?, checkout, depth)
    }

    /// As `look_at_submodules`, of an index that the caller has just listed.
    pub(super) fn look_at_submodules_in(
        &self,
        index: &[u8],
        checkout: &Checkout,
        depth: u32,
    ) -> Result<Option<String>, WorkspaceError> {
        let is_link = |entry: &&[u8]| entry.get(2..).is_some_and(|rest| rest.starts_with(b"160000 "));
        for entry in split_nul(index).filter(is_link) {
            let Some(tab) = memchr::memchr(b'\t', entry) else { continue };
            let shown = String::from_utf8_lossy(&entry[tab + 1..]).into_owned();
            let path = checkout.toplevel.join(OsStr::from_bytes(&entry[tab + 1..]));
            if fs::symlink_metadata(path.join(".git")).is_err() {
                let is_empty = fs::read_dir(&path).map_or(true, |mut entries| entries.next().is_none());
                if is_empty {
                    continue;
                }
                return Ok(Some(format!("the submodule `{shown}` holds files and is no repository")));
            }
            if depth == 0 {
                return Ok(Some(format!("the submodule `{shown}` lies too deep to be looked at")));
            }
            let place = path.canonicalize().map_err(WorkspaceError::io("enter", &path))?;
            let Some(inner) = Checkout::find(&checkout.git, &place)?.filter(|r| r.toplevel == place) else {
                return Ok(Some(format!("the submodule `{shown}` cannot be looked at")));
            };
            // Not by the `git status` of the repository around it, which knows nothing of the settings here (fault K3).
            if !self.dirt(&inner, "normal", "dirty")?.is_empty() || hidden(&inner)?.is_some() {
                return Ok(Some(format!("the submodule `{shown}` has changes that are not committed")));
            }
            let args = ["rev-list", "--max-count=1", "HEAD", "--all", "--not", "--remotes"];
            if !inner.call().args(args).ok()?.stdout.is_empty() {
                return Ok(Some(format!("the submodule `{shown}` has commits that no remote has")));
            }
            if let Some(why) = self.look_at_submodules(&inner, depth - 1)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }
}

/// The submodules that nothing was fetched of.
fn missing_submodules(checkout: &Checkout) -> Result<Vec<OsString>, WorkspaceError> {
    let listed = checkout.call().args(["ls-files", "--stage", "-z"]).ok()?.stdout;
    let paths = split_nul(&listed).filter(|entry| entry.starts_with(b"160000 ")).filter_map(|entry| {
        let tab = memchr::memchr(b'\t', entry)?;
        Some(OsStr::from_bytes(&entry[tab + 1..]).to_owned())
    });
    Ok(paths
        .filter(|path| fs::symlink_metadata(checkout.toplevel.join(path).join(".git")).is_err())
        .collect())
}
