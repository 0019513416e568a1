//! The shadow is no secret from the agent: what it does there behind our back is found and undone.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use dacapo_core::ids::fingerprint;

use super::shadow::Shadow;
use crate::{
    git::{GitCall, WorkspaceError},
    scratch::Scratch,
};

/// Files that steer git and are small enough to be remembered whole.
const SMALL: [&str; 4] = ["HEAD", "commondir", "exclude", "info/sparse-checkout"];

/// How the shadow was when we last had written to it. Kept in memory only, where no agent reaches.
pub(crate) struct ShadowGuard {
    index: Option<Stamp>,
    small: Vec<Option<Vec<u8>>>,
}

/// An agent can set a modification time, but not a change time.
type Stamp = (u64, u64, i64, i64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let m = fs::symlink_metadata(path).ok()?;
    Some((m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()))
}

impl Shadow {
    /// Remembers the shadow as it is: we have just written to it.
    pub(crate) fn note(&mut self) {
        self.guard = Some(ShadowGuard {
            index: stamp(&self.folder.join("index")),
            small: SMALL.map(|name| fs::read(self.folder.join(name)).ok()).into(),
        });
    }

    /// What tells a later process that nothing has written to the index and the small files since the latest snapshot. The journal
    /// keeps it for a loop whose processes come and go.
    pub(crate) fn seal(&self) -> Option<String> {
        let guard = self.guard.as_ref().filter(|_| self.is_settled())?;
        let (inode, size, modified, modified_nsec, changed, changed_nsec) = guard.index?;
        let small = guard
            .small
            .iter()
            .flatten()
            .fold(0, |sum: u64, content| fingerprint(&[sum.to_le_bytes().as_slice(), content].concat()));
        let last = self.state.last.as_deref()?;
        Some(format!("{last} {inode} {size} {modified}.{modified_nsec} {changed}.{changed_nsec} {small:x}"))
    }

    /// Takes the index as ours if it is as `seal` says.
    pub(crate) fn take_up(&mut self, seal: &str) {
        self.note();
        self.settle();
        if self.seal().as_deref() != Some(seal) {
            self.guard = None;
            self.unsettle();
        }
    }

    /// Puts the small files back; says whether the index is ours.
    fn put_back(&self) -> Result<bool, WorkspaceError> {
        // Never ours, and read by git as settings once the repository's allow it (fault K3).
        let planted = self.folder.join("config.worktree");
        match fs::remove_file(&planted) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(WorkspaceError::io("remove", planted)(error));
            }
            _ => {}
        }
        let Some(guard) = &self.guard else { return Ok(false) };
        for (name, content) in SMALL.iter().zip(&guard.small) {
            let path = self.folder.join(name);
            if fs::read(&path).ok() == *content {
                continue;
            }
            let mended = match content {
                Some(content) => fs::write(&path, content),
                None => fs::remove_file(&path),
            };
            mended.map_err(WorkspaceError::io("mend", path))?;
        }
        Ok(guard.index == stamp(&self.folder.join("index")))
    }

    /// Makes sure that the next snapshot reads every file as it is, even if the agent changed the index.
    pub(crate) fn mend(&mut self) -> Result<(), WorkspaceError> {
        if self.put_back()? {
            return Ok(());
        }
        if self.state.is_sparse {
            // Which paths are left out stands in the index alone.
            return if self.guard.is_some() { Err(self.meddled()) } else { self.clear_flags().map(drop) };
        }
        let last = self.last()?;
        self.unsettle();
        let index = self.folder.join("index");
        let _ = fs::remove_file(self.folder.join("index.lock"));
        match fs::remove_file(&index) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(WorkspaceError::io("remove", index)(error));
            }
            _ => {}
        }
        let tree = self.tree_of(&last)?;
        self.remove_own_locks();
        self.call()?.args(["read-tree", &tree]).ok()?;
        self.settle();
        Ok(())
    }

    /// A call that compares the work tree with `id` by an index that can be trusted; it lives as long as the scratch.
    pub(crate) fn trusted_call(&self, id: &str) -> Result<(GitCall<'_>, Option<Scratch>), WorkspaceError> {
        if self.put_back()? {
            return Ok((self.call()?, None));
        }
        if self.state.is_sparse {
            return if self.guard.is_some() { Err(self.meddled()) } else { Ok((self.call()?, None)) };
        }
        let scratch = Scratch::new("dacapo-index")
            .map_err(WorkspaceError::io("make a folder in", std::env::temp_dir()))?;
        let index = scratch.path().join("index");
        let tree = self.tree_of(id)?;
        self.call()?.env("GIT_INDEX_FILE", &index).args(["read-tree", &tree]).ok()?;
        Ok((self.call()?.env("GIT_INDEX_FILE", &index), Some(scratch)))
    }

    fn meddled(&self) -> WorkspaceError {
        let why = "another process has written to it".to_owned();
        WorkspaceError::Damaged { path: self.folder.join("index"), why }
    }
}
