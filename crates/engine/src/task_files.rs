//! Task files in a workspace: read and set without ever following a link out of it, whole or not at all.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::OwnedFd,
    path::{Component, Path},
    sync::atomic::{AtomicU64, Ordering},
};

use dacapo_core::unit::{
    TaskStatus,
    check::{self, Problem},
    files::restated,
};
use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use crate::{
    safe_open,
    units::{PLAN, cannot_read, not_regular},
};

/// No task file is larger; what is, is none.
const LARGEST: usize = 4 << 20;

/// What a file without a mode of its own gets.
const MODE: u32 = 0o644;

/// Why a status could not be set.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    #[error("cannot write `{file}`: {source}")]
    Io {
        /// Which, from the top of the workspace.
        file: String,
        source: io::Error,
    },
    /// Neither the file nor what it once was can be understood.
    #[error("cannot set the status in `{file}`: nothing of it can be read")]
    Unreadable { file: String },
}

/// What the file of a task says now; `None` if that cannot be told (req 30).
pub fn status(root: &Path, file: &str) -> Option<TaskStatus> {
    look(root, file).ok()
}

/// What the file of a task says now, or what is wrong with it.
pub fn look(root: &Path, file: &str) -> Result<TaskStatus, Problem> {
    let bytes = read(root, file).map_err(|error| unreadable(file, &error))?;
    check::reread(file, &bytes)
}

/// What is wrong with a file of a unit that cannot be read.
pub fn unreadable(file: &str, error: &io::Error) -> Problem {
    match Errno::from_io_error(error) {
        Some(error) => cannot_read(file, error),
        None => not_regular(file),
    }
}

/// Puts `bytes` in the place of a file that is gone, or of what cannot be read there.
pub fn put_back(root: &Path, file: &str, bytes: &[u8]) -> Result<(), TaskFileError> {
    let failed = |source| TaskFileError::Io { file: file.to_owned(), source };
    let (folder, name) = folder_of(root, file, true).map_err(failed)?;
    let fresh = format!(".{name}.dacapo");
    let _ = rustix::fs::unlinkat(&folder, &fresh, AtFlags::empty());
    replace(&folder, name, &fresh, bytes).map_err(failed)
}

/// The plan beside the file of a task.
pub fn plan_of(task: &str) -> String {
    let folder = task.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/{PLAN}")
}

/// The content of a regular file below `root`; no link on the way is followed.
pub fn read(root: &Path, file: &str) -> io::Result<Vec<u8>> {
    let (folder, name) = folder_of(root, file, false)?;
    let bytes = safe_open::read(&folder, name, LARGEST)?;
    match bytes.len() > LARGEST {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file a task could be in")),
        false => Ok(bytes),
    }
}

/// Makes the file of a task say `status` and changes nothing else in it. One that is gone or cannot be read becomes
/// what it was at the `base`. Says whether anything had to be written.
pub fn set_status(
    root: &Path,
    file: &str,
    status: TaskStatus,
    base: Option<&[u8]>,
) -> Result<bool, TaskFileError> {
    let now = read(root, file).ok();
    let wanted = restated(file, base, now.as_deref(), status)
        .ok_or_else(|| TaskFileError::Unreadable { file: file.to_owned() })?;
    write(root, file, now.as_deref(), &wanted)
}

/// Makes the file hold the `wanted` bytes, whole or not at all, if it does not hold them `now`. Says whether it was written.
pub(crate) fn write(
    root: &Path,
    file: &str,
    now: Option<&[u8]>,
    wanted: &[u8],
) -> Result<bool, TaskFileError> {
    let failed = |source| TaskFileError::Io { file: file.to_owned(), source };
    let (folder, name) = folder_of(root, file, true).map_err(failed)?;
    // Left by a dacapo that was killed while it wrote.
    let fresh = format!(".{name}.dacapo");
    let _ = rustix::fs::unlinkat(&folder, &fresh, AtFlags::empty());
    if now == Some(wanted) {
        return Ok(false);
    }
    replace(&folder, name, &fresh, wanted).map_err(|source| {
        let _ = rustix::fs::unlinkat(&folder, &fresh, AtFlags::empty());
        failed(source)
    })?;
    Ok(true)
}

/// Writes a file that is not there yet, whole or not at all. Says whether it did: what stands there already stays.
pub(crate) fn write_new(root: &Path, file: &str, bytes: &[u8]) -> Result<bool, TaskFileError> {
    let failed = |source: io::Error| TaskFileError::Io { file: file.to_owned(), source };
    let (folder, name) = folder_of(root, file, true).map_err(failed)?;
    // Two that add a file of one name, in one process or in several, must not write into each other's.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let fresh = format!(".{name}.{}-{number}.dacapo", std::process::id());
    let _ = rustix::fs::unlinkat(&folder, &fresh, AtFlags::empty());
    let made = create(&folder, &fresh, bytes, MODE).and_then(|()| {
        // A second name for the file is refused by the system where there is one already.
        match rustix::fs::linkat(&folder, &fresh, &folder, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    });
    let _ = rustix::fs::unlinkat(&folder, &fresh, AtFlags::empty());
    made.map_err(failed)
}

/// Puts `bytes` in the place of what stands at `name`: a file, a link or nothing, but not a folder.
fn replace(folder: &OwnedFd, name: &str, fresh: &str, bytes: &[u8]) -> io::Result<()> {
    let mode = safe_open::file(folder, name).map_or(MODE, |(_, stat)| stat.st_mode & 0o777);
    create(folder, fresh, bytes, mode)?;
    rustix::fs::renameat(folder, fresh, folder, name)?;
    Ok(())
}

/// Writes a new file and waits until the disk has it.
fn create(folder: &OwnedFd, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?);
    file.write_all(bytes)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()
}

/// The folder of a file below `root`, step by step, each of them a real folder; made if `makes` and it is gone.
fn folder_of<'a>(root: &Path, file: &'a str, makes: bool) -> io::Result<(OwnedFd, &'a str)> {
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, "it does not lie below the workspace");
    let mut folder = safe_open::root(root)?;
    let (above, name) = file.rsplit_once('/').unwrap_or(("", file));
    if !matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]) {
        return Err(outside());
    }
    for step in Path::new(above).components() {
        let Component::Normal(step) = step else { return Err(outside()) };
        let enter = || safe_open::open(&folder, step, OFlags::DIRECTORY);
        folder = match enter() {
            Err(Errno::NOENT) if makes => {
                match rustix::fs::mkdirat(&folder, step, Mode::from_raw_mode(0o755)) {
                    // Another process made it first.
                    Ok(()) | Err(Errno::EXIST) => enter()?,
                    Err(error) => return Err(error.into()),
                }
            }
            entered => entered?,
        };
    }
    Ok((folder, name))
}

#[cfg(test)]
#[path = "task_files_tests.rs"]
mod tests;
