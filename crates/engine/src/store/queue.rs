//! The queue of writers: they write to the journal one after the other, in the order in which they asked, and share
//! syncs.
//!
//! The database has one writer at a time. By itself it lets the other writers try again and again until they give up.
//! With this queue they wait at a lock of the kernel, which wakes them in their order and never gives up on one.
//!
//! The database writes a commit into its log without a sync (`synchronous = NORMAL`). The writer then waits at a second
//! lock, and the first one that gets it syncs the log for all commits until then. The others find that done. No
//! writer goes on before a sync that covers its own commit has returned.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// Waits of at least this length are shown to people.
pub(crate) const LONG: Duration = Duration::from_secs(1);

/// For how long a long wait is remembered.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The lock files of a journal.
pub(super) struct Queue {
    /// The lock of the writer. The file holds two numbers: how many commits there were, and how many of them are
    /// synced.
    turn: File,
    /// The lock of the process that syncs.
    syncing: File,
    /// The database's log, which exists after the first commit.
    log: Option<File>,
    database: PathBuf,
}

/// A wait for the journal that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongWait {
    /// When the wait was over, in seconds since 1970.
    pub at: u64,
    pub waited_ms: u64,
    /// The process that waited.
    pub pid: u32,
}

impl Queue {
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        Ok(Self {
            turn: open(&beside(database, "-queue"))?,
            syncing: open(&beside(database, "-sync"))?,
            log: None,
            database: database.to_owned(),
        })
    }

    /// Waits until it is this writer's turn.
    pub(super) fn enter(&self) -> io::Result<WriteTurn<'_>> {
        lock(&self.turn)?;
        Ok(WriteTurn(&self.turn))
    }

    /// Waits until commit number `own` is on the disk.
    pub(super) fn sync(&mut self, own: u64) -> io::Result<()> {
        lock(&self.syncing)?;
        let result = self.sync_alone(own);
        flock(&self.syncing, FlockOperation::Unlock)?;
        result
    }

    fn sync_alone(&mut self, own: u64) -> io::Result<()> {
        if number(&self.turn, SYNCED)? >= own {
            return Ok(());
        }
        let committed = number(&self.turn, COMMITTED)?;
        if self.log.is_none() {
            // SQLite does not remove the log while this process has the database open.
            self.log = Some(OpenOptions::new().write(true).open(beside(&self.database, "-wal"))?);
        }
        if let Some(log) = &self.log {
            log.sync_data()?;
        }
        self.turn.write_all_at(&committed.to_le_bytes(), SYNCED)
    }

    /// Remembers a long wait, unless a longer one of the same hour is remembered.
    pub(super) fn remember(&self, waited: Duration) {
        let wait = LongWait {
            at: now(),
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            pid: std::process::id(),
        };
        if longest_wait(&self.database).is_none_or(|before| before.waited_ms < wait.waited_ms)
            && let Ok(text) = serde_json::to_vec(&wait)
        {
            // The note is only shown to people, so an error does no harm.
            let _ = crate::home::write_private(&beside(&self.database, "-waits"), &text);
        }
    }
}

/// The right to write, until it is dropped.
pub(super) struct WriteTurn<'a>(&'a File);

impl WriteTurn<'_> {
    /// Counts a commit, and gives its number. Processes that follow the journal notice this change of the file.
    pub(super) fn committed(&self) -> io::Result<u64> {
        let own = number(self.0, COMMITTED)? + 1;
        self.0.write_all_at(&own.to_le_bytes(), COMMITTED)?;
        Ok(own)
    }
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

/// The longest wait for the journal that is remembered.
pub(super) fn longest_wait(database: &Path) -> Option<LongWait> {
    let text = std::fs::read(beside(database, "-waits")).ok()?;
    let wait: LongWait = serde_json::from_slice(&text).ok()?;
    (now().saturating_sub(wait.at) < REMEMBERED.as_secs()).then_some(wait)
}

/// The file that changes after each commit.
pub(crate) fn changes_at(database: &Path) -> PathBuf {
    beside(database, "-queue")
}

/// Opens a lock file, and makes it if there is none.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

const COMMITTED: u64 = 0;
const SYNCED: u64 = 8;

fn number(file: &File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match file.read_at(&mut bytes, at)? {
        8 => Ok(u64::from_le_bytes(bytes)),
        _ => Ok(0),
    }
}

fn lock(file: &File) -> io::Result<()> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn beside(database: &Path, end: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Measures how long something was waited for.
pub(super) struct Waited(Instant, Duration);

impl Waited {
    pub(super) fn new() -> Self {
        Self(Instant::now(), Duration::ZERO)
    }

    pub(super) fn begin(&mut self) {
        self.0 = Instant::now();
    }

    pub(super) fn end(&mut self) {
        self.1 += self.0.elapsed();
    }

    pub(super) fn total(&self) -> Duration {
        self.1
    }
}
