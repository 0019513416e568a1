//! One owner per task: a lock that the kernel takes back when its owner dies.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

/// The right to run a task, until this value is dropped or the process dies.
#[derive(Debug)]
pub struct TaskLock {
    _file: File,
}

/// Why a task cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("the task is run by another dacapo")]
    Held,
    #[error("cannot lock `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl TaskLock {
    /// Takes the lock at `path`.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source: io::Error| LockError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            crate::home::make_dir(folder).map_err(failed)?;
        }
        // std opens files with close-on-exec, so that no orphan of an agent holds the lock (fault G11).
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LockError::Held),
            Err(error) => Err(failed(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_one_owner_at_a_time() {
        // fault G10
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("project/task");
        let first = TaskLock::take(&path).unwrap();
        assert!(matches!(TaskLock::take(&path), Err(LockError::Held)));
        drop(first);
        TaskLock::take(&path).unwrap();
    }
}
