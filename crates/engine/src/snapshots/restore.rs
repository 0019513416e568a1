//! Putting a snapshot's files somewhere: into a fresh folder, or back where they were.

use std::{fs, path::Path};

use super::{Snapshot, shadow::Shadow};
use crate::{
    git::{GitCall, WorkspaceError},
    scratch::Scratch,
};

impl Shadow {
    /// All files of the snapshot in a fresh folder, with links and execute bits.
    pub(crate) fn checkout(&self, id: &str, into: &Path) -> Result<(), WorkspaceError> {
        crate::home::make_dir(into).map_err(WorkspaceError::io("make", into))?;
        let mut entries = fs::read_dir(into).map_err(WorkspaceError::io("read", into))?;
        if entries.next().is_some() {
            return Err(WorkspaceError::NotEmpty(into.to_owned()));
        }
        // Index and files at once, since the folder is empty.
        self.with_index_for(into, |call| {
            let tree = self.tree_of(id)?;
            let all =
                ["read-tree", "--reset", "-u", "--no-sparse-checkout", "--no-recurse-submodules", &tree];
            call()?.args(all).ok()?;
            Ok(())
        })
    }

    /// Some files of the snapshot in a folder, over what is there; paths it does not hold are passed over.
    pub(crate) fn write_paths(&self, id: &str, paths: &[&[u8]], into: &Path) -> Result<(), WorkspaceError> {
        crate::home::make_dir(into).map_err(WorkspaceError::io("make", into))?;
        let is_there = self.files_at(id, paths)?;
        let wanted = paths.iter().zip(is_there).filter(|(_, file)| file.is_some());
        let input: Vec<u8> = wanted.flat_map(|(path, _)| [path, &b"\0"[..]].concat()).collect();
        if input.is_empty() {
            return Ok(());
        }
        self.with_index_for(into, |call| {
            call()?.args(["read-tree", &self.tree_of(id)?]).ok()?;
            call()?.args(["checkout-index", "--force", "--quiet", "-z", "--stdin"]).input(input).ok()?;
            Ok(())
        })
    }

    /// Lets `write` call git with an index of its own, for files in the folder `into`.
    fn with_index_for<'g>(
        &'g self,
        into: &Path,
        write: impl FnOnce(&dyn Fn() -> Result<GitCall<'g>, WorkspaceError>) -> Result<(), WorkspaceError>,
    ) -> Result<(), WorkspaceError> {
        let into = into.canonicalize().map_err(WorkspaceError::io("enter", into))?;
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let index = scratch.path().join("index");
        write(&|| Ok(self.call()?.env("GIT_INDEX_FILE", &index).env("GIT_WORK_TREE", &into).in_dir(&into)))
    }

    /// Makes the files those of snapshot `id`. What they were before is a snapshot of its own, held by
    /// `refs/dacapo/<loop>-undo`; what is ignored stays, and so do index, HEAD and commits.
    pub(crate) fn restore(&mut self, id: &str, n: u64) -> Result<Snapshot, WorkspaceError> {
        let tree = self.tree_of(id)?;
        let before = self.snapshot(n)?;
        if self.tree_of(&before.id)? == tree {
            return Ok(Snapshot { id: before.id, changed: false });
        }
        self.call()?.args(["update-ref", &format!("{}-undo", self.reference()), &before.id]).ok()?;
        // From here the index is not what the latest snapshot says until it is committed; a crash in between is
        // found by the comparison that the next snapshot begins with.
        self.unsettle();
        self.call()?.args(["read-tree", "--reset", "-u", &tree]).ok()?;
        let restored = self.commit(&format!("dacapo restore of {id}"))?;
        self.remember(&restored)?;
        self.note();
        Ok(Snapshot { id: restored, changed: true })
    }
}
