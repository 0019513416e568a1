//! Locks on a repository: one dacapo at a time changes it (fault H1), one runs its units, and a lock that a killed git
//! left behind is removed.

use std::{
    fs::{self, OpenOptions},
    io::{Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    checkout::Checkout,
    error::{RepositoryProblem, WorkspaceError},
    on_disk,
};
use crate::home::Home;

/// The file in git's folder that the scheduler of a run holds locked.
const RUN_LOCK: &str = "dacapo-run.lock";
/// How many bytes of that file are read.
const LONGEST_NAME: u64 = 64;
/// How long a lock of git has to lie there unchanged before it counts as left by a git that was killed. git holds the lock
/// of a ref for milliseconds.
const STALE_AFTER: Duration = Duration::from_millis(500);
/// How long the lock of a git that lives is waited for.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// The right to change a repository's refs, config or worktrees, until dropped or the process dies.
#[derive(Debug)]
pub struct RepositoryLock {
    _file: fs::File,
}

impl RepositoryLock {
    pub(crate) fn take(home: &Home, checkout: &Checkout, limit: Duration) -> Result<Self, WorkspaceError> {
        let folder = home.path().join("locks");
        let path = folder.join(format!("repo-{:016x}", checkout.fingerprint()));
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
        // Most hold it for a few milliseconds, some for seconds.
        let mut pause = Duration::from_millis(1);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    // The kernel's own waiting cannot be bounded.
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(WorkspaceError::Locked(checkout.toplevel.clone()));
                }
                Err(error) => return Err(failed()(error.into())),
            }
        }
    }
}

/// The right to run units of a repository, until dropped or the process dies. It excludes runs from other worktrees of the
/// repository and with other homes too.
#[derive(Debug)]
pub(crate) struct RunLock {
    file: fs::File,
}

/// Another scheduler runs units of this repository.
#[derive(Debug)]
pub(crate) struct RunLockHeld {
    /// The id of its run, as it wrote it into the lock file.
    pub(crate) said: String,
}

impl RunLock {
    pub(crate) fn take(checkout: &Checkout) -> Result<Result<Self, RunLockHeld>, WorkspaceError> {
        // Beside what all worktrees share, for each of them and each home sees the same file there.
        let path = checkout.common_dir.join(RUN_LOCK);
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
                return Ok(Err(RunLockHeld { said }));
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

/// Removes a lock on the user's index that a git of the agent's left behind when it was killed (fault H4).
///
/// Only for a caller that knows that nothing of the iteration runs any more; a lock older than `since` or one
/// that some process has open is not touched.
pub(crate) fn remove_stale_lock(checkout: &Checkout, since: SystemTime) -> Result<bool, WorkspaceError> {
    let lock = checkout.git_dir.join("index.lock");
    let Ok(metadata) = fs::symlink_metadata(&lock) else { return Ok(false) };
    let modified = metadata.modified().map_err(WorkspaceError::io("read", &lock))?;
    if modified < since || is_open(&lock) {
        let state = RepositoryProblem::IndexLocked(lock);
        return Err(WorkspaceError::Refused { dir: checkout.toplevel.clone(), state });
    }
    fs::remove_file(&lock).map_err(WorkspaceError::io("remove", &lock))?;
    Ok(true)
}

/// Removes the locks on the index, on HEAD and on the branch of HEAD that a git of an agent left behind when it was killed (fault H4).
/// Gives those that are gone.
///
/// Only for a caller that knows that nothing of the iteration runs any more. A lock stays if it is older than `since`, if a
/// process has it open, or if a git works in the checkout.
pub(crate) fn remove_left_locks(checkout: &Checkout, since: SystemTime) -> Vec<PathBuf> {
    let Checkout { git_dir, common_dir, toplevel, .. } = checkout;
    // An agent can write any name into HEAD.
    let branch = on_disk::head_branch(git_dir, common_dir).filter(|name| !name.contains(".."));
    let branch = branch.map(|branch| common_dir.join(format!("refs/heads/{branch}.lock")));
    let locks = [git_dir.join("index.lock"), git_dir.join("HEAD.lock")].into_iter().chain(branch);
    let is_left = |lock: &PathBuf| {
        let modified = || fs::symlink_metadata(lock).and_then(|metadata| metadata.modified()).ok();
        let Some(first) = modified().filter(|modified| *modified >= since) else { return false };
        let age = first.elapsed().unwrap_or_default();
        thread::sleep(STALE_AFTER.saturating_sub(age));
        modified() == Some(first) && !is_open(lock) && !does_git_work_below(&[toplevel, git_dir])
    };
    locks.filter(is_left).filter(|lock| fs::remove_file(lock).is_ok()).collect()
}

/// Whether the lock that git complained of is gone, so that the same command may succeed now (fault H4).
///
/// The lock of a git that lives is waited for. One that a killed git left behind is removed. Locks on an index are not
/// waited for here, because a user may hold one for as long as an editor is open: see [`remove_stale_lock`].
pub(super) fn is_lock_gone(complaint: &str) -> bool {
    let Some(lock) = lock_in_the_way(complaint) else { return false };
    let seen = || fs::symlink_metadata(lock).ok().map(|file| (file.ino(), file.ctime(), file.ctime_nsec()));
    let Some(first) = seen() else { return true };
    let began = Instant::now();
    while began.elapsed() < LOCK_LIMIT {
        if seen() != Some(first) {
            return true;
        }
        if began.elapsed() >= STALE_AFTER && !is_open(lock) && !does_git_work_at(lock) {
            return fs::remove_file(lock).is_ok();
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// The lock file that kept git from its work; none if something else did, or if it is the lock of an index.
fn lock_in_the_way(complaint: &str) -> Option<&Path> {
    let (_, rest) = complaint.split_once("Unable to create '")?;
    let (path, _) = rest.split_once("': File exists")?;
    (path.ends_with(".lock") && !path.ends_with("index.lock")).then(|| Path::new(path))
}

/// Whether a git runs in the repository that `lock` belongs to. It may have closed its lock already and not renamed it yet.
fn does_git_work_at(lock: &Path) -> bool {
    let is_dot_git = |folder: &&Path| folder.file_name().is_some_and(|name| name == ".git");
    let Some(git_dir) = lock.ancestors().find(is_dot_git).or(lock.parent()) else { return true };
    let is_near = |folder: &Path| {
        git_dir.parent().is_some_and(|top| folder.starts_with(top))
            || on_disk::folders_of_checkout(folder).is_some_and(|(_, common)| common == git_dir)
    };
    does_git_work(is_near)
}

/// Whether a git runs in one of the folders or below it.
fn does_git_work_below(folders: &[&PathBuf]) -> bool {
    does_git_work(|at| folders.iter().any(|folder| at.starts_with(folder)))
}

/// Whether a git runs in a folder of which `is_meant` says yes.
fn does_git_work(is_meant: impl Fn(&Path) -> bool) -> bool {
    crate::process::identity::all_pids().into_iter().any(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("git") && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| is_meant(&at))
    })
}

/// Whether any process that we may look at has the file open.
fn is_open(file: &Path) -> bool {
    crate::process::identity::all_pids().into_iter().any(|pid| {
        let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        fds.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|target| target == file))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_refs_are_waited_for_and_those_of_an_index_are_not() {
        for (complaint, lock) in [
            (
                "fatal: cannot lock ref 'HEAD': Unable to create '/r/.git/HEAD.lock': File exists.",
                "/r/.git/HEAD.lock",
            ),
            ("error: Unable to create '/r/.git/packed-refs.lock': File exists.", "/r/.git/packed-refs.lock"),
            ("fatal: Unable to create '/r/.git/index.lock': File exists.", ""),
            ("fatal: Unable to create '/r/.git/HEAD.lock': Permission denied", ""),
            ("fatal: cannot lock ref 'HEAD': is at 1 but expected 2", ""),
        ] {
            let expected = (!lock.is_empty()).then(|| Path::new(lock));
            assert_eq!(lock_in_the_way(complaint), expected, "{complaint}");
        }
    }
}
