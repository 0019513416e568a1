//! Commands that belong to no loop, in a folder where agents work or have worked: scripts of workflows, and what makes a worktree
//! ready. They run what the repository holds by now, so they are held as gates are.

use std::{io, path::Path};

use dacapo_core::{
    ids::LoopId,
    sandbox::{SandboxHeld, SandboxRules, SandboxTier},
};

use super::{Guard, WorktreeIsOn};
use crate::{
    git::{Git, LinksAtStart, WorkspaceError, on_disk},
    home::Home,
    process::KeeperLink,
    repository::Repository,
};

/// The sandbox of commands that run one after the other in a folder.
pub(crate) struct GuardedFolder<'a> {
    home: &'a Home,
    folder: &'a Path,
    guard: Guard,
    links: Option<LinksAtStart>,
}

impl<'a> GuardedFolder<'a> {
    /// The sandbox that `rules` ask for, in `folder`, which is `on` this if dacapo made it.
    pub(crate) fn new(
        home: &'a Home,
        rules: &SandboxRules,
        folder: &'a Path,
        on: WorktreeIsOn<'_>,
        may_push: bool,
    ) -> io::Result<Self> {
        let mut guard = Guard::of_folder(rules, folder);
        guard.give_own_refs(home, on, may_push)?;
        let top = folder.ancestors().find(|at| at.join(".git").symlink_metadata().is_ok());
        let folders = top.and_then(on_disk::folders_of_checkout);
        let links = folders.map(|(git_dir, common)| LinksAtStart::look(&git_dir, &common, true));
        Ok(Self { home, folder, guard, links })
    }

    /// Starts a keeper that holds it, and says what it holds.
    pub(crate) fn keeper(&mut self, mark: &LoopId) -> io::Result<(KeeperLink, SandboxHeld)> {
        let (keeper, held) = self.guard.keeper(self.home, mark)?;
        if held.tier < SandboxTier::Namespaces {
            self.guard.take_own_refs();
        }
        Ok((keeper, held))
    }

    /// Brings over what the commands have committed, when nothing of them runs any more. Says what they have done that has no effect.
    pub(crate) fn leave(mut self) -> Vec<String> {
        let mut told = Vec::new();
        match self.links.as_ref().map_or(Ok(Vec::new()), LinksAtStart::remove_new) {
            Ok(removed) => told.extend(
                removed.iter().map(|path| format!("`{}` became a link, which was removed", path.display())),
            ),
            Err(error) => told.push(format!("a link in git's folder cannot be removed: {error}")),
        }
        let brought = self.guard.own_refs().map_or(Ok(()), |refs| refs.bring_over(|| self.repository()));
        match brought {
            Ok(()) => self.guard.take_own_refs(),
            Err(error) => told.push(format!("what was committed is on no branch: {error}")),
        }
        told
    }

    fn repository(&self) -> Result<Repository, WorkspaceError> {
        Repository::find(&Git::find()?, self.folder, self.home)
    }
}
