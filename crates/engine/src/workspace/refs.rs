//! Keeping a repository tidy: which loops have snapshots in it, forgetting them, and one dacapo at a time (fault H1).

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};

use super::{SnapshotRef, error::WorkspaceError, repository::Repository};
use crate::home::Home;

/// Where in a repository snapshots are held.
const PREFIX: &str = "refs/dacapo/";
/// The file in git's folder that whoever runs units holds.
const RUN_LOCK: &str = "dacapo-run.lock";
/// How much of it is read.
const LONGEST_NAME: u64 = 64;

/// The right to change a repository's refs, config or worktrees, until dropped or the process dies.
#[derive(Debug)]
pub struct RepositoryLock {
    _file: fs::File,
}

impl RepositoryLock {
    pub(crate) fn take(
        home: &Home,
        repository: &Repository,
        limit: Duration,
    ) -> Result<Self, WorkspaceError> {
        let folder = home.path().join("locks");
        let path = folder.join(format!("repo-{:016x}", repository.fingerprint()));
        let failed = || WorkspaceError::io("lock", &path);
        crate::home::make_dir(&folder).map_err(failed())?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed())?;
        let deadline = Instant::now() + limit;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    // The kernel's own waiting cannot be bounded.
                    thread::sleep(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(WorkspaceError::Locked(repository.toplevel.clone()));
                }
                Err(error) => return Err(failed()(error.into())),
            }
        }
    }
}

/// The right to run units of a repository, whatever worktree or home that is done from, until dropped or the process dies.
#[derive(Debug)]
pub(crate) struct RunLock {
    file: fs::File,
}

/// Somebody else has that right.
#[derive(Debug)]
pub(crate) struct RunHeld {
    /// What is written about whoever it is.
    pub(crate) said: String,
}

impl RunLock {
    pub(crate) fn take(repository: &Repository) -> Result<Result<Self, RunHeld>, WorkspaceError> {
        // Beside what all worktrees share, for each of them and each home sees the same file there.
        let path = repository.common_dir.join(RUN_LOCK);
        let failed = || WorkspaceError::io("lock", &path);
        let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .custom_flags(no_follow)
            .open(&path)
            .map_err(failed())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut said = String::new();
                let _ = Read::by_ref(&mut file).take(LONGEST_NAME).read_to_string(&mut said);
                return Ok(Err(RunHeld { said }));
            }
            Err(error) => return Err(failed()(error.into())),
        }
        file.set_len(0).map_err(failed())?;
        Ok(Ok(Self { file }))
    }

    /// Writes down who has it, for others to name; nothing depends on it.
    pub(crate) fn say(&mut self, who: &str) {
        let _ = self.file.write_all(who.as_bytes());
    }
}

/// The loops with snapshots in the repository, and when the latest was taken.
pub(crate) fn list(repository: &Repository) -> Result<Vec<SnapshotRef>, WorkspaceError> {
    let format = "--format=%(refname) %(objectname) %(committerdate:unix)";
    let output = repository.call().args(["for-each-ref", format, PREFIX]).ok()?;
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let id = words.next()?.to_owned();
        let taken_at = Timestamp::from_second(words.next()?.parse().ok()?).ok()?;
        Some(SnapshotRef { name, id, taken_at })
    };
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(parse).collect())
}

/// Deletes those of `refs`, together, and the shadow folders of their loops.
pub(crate) fn delete(
    repository: &Repository,
    shadows: &Path,
    refs: &[SnapshotRef],
) -> Result<(), WorkspaceError> {
    if refs.is_empty() {
        return Ok(());
    }
    // With the old value: a ref that moved meanwhile belongs to a loop that goes on.
    let input: String = refs.iter().map(|r| format!("delete {} {}\n", r.name, r.id)).collect();
    repository.call().args(["update-ref", "--stdin"]).input(input.into_bytes()).ok()?;
    for reference in refs {
        let shadow = shadows.join(reference.loop_name());
        match fs::remove_dir_all(&shadow) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(WorkspaceError::io("remove", shadow)(error));
            }
            _ => {}
        }
    }
    Ok(())
}
