//! The files of dacapo's state: the journal (SQLite), the requests in it, and append-only segments of raw output.

mod board;
mod chain;
mod checkpoint;
mod kind;
mod lock;
mod lookup;
mod messages;
mod migrations;
mod queue;
mod read;
mod requests;
mod segments;
mod stream;
mod supply;

use std::{cell::OnceCell, io, path::Path, time::Duration};

use dacapo_core::chain::ChainFault;

use self::queue::{Queue, Waited};
use crate::keys::{KeyError, MachineKey, MachineKeyFolder};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, config::DbConfig};

pub use board::AnyView;
pub(crate) use board::StreamOnBoard;
pub use chain::{Attested, StreamAudit};
pub use kind::{JournalMachine, StageSource};
pub use lock::{LockError, TaskLock};
pub use lookup::StreamId;
pub use messages::{ChatState, NewMessage, StoredMessage, ToldAbout};
pub use queue::LongWait;
pub(crate) use queue::{LONG, changes_at, open as open_changes};
pub use read::{AnyEvent, EventScope, Lease, LoopRow, Row, RunRow, TaskRow, WorkflowRow};
pub use requests::PendingRequest;
pub use segments::{Channel, KEPT_PER_ATTEMPT, Segment, Segments};
pub use stream::{Arrival, Stream, StreamKey};

pub struct Store {
    db: Connection,
    /// Where writers wait for each other; opened before the first write.
    queue: Option<Queue>,
    /// How long the newest transaction waited for others.
    waited: Duration,
    /// Read before the first append.
    machine: OnceCell<MachineKey>,
}

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The journal is not a database, or a damaged one.
    #[error("the journal `{path}` is damaged: {why}")]
    Damaged {
        path: String,
        /// What the database says.
        why: String,
    },
    /// A version of dacapo wrote the journal that was never released.
    #[error(
        "the journal `{path}` is of a version that was never released (format {found}, this one reads {known})"
    )]
    TooOld { path: String, found: i64, known: i64 },
    #[error("the journal `{path}` was written by a newer dacapo (format {found}, this one knows {known})")]
    TooNew { path: String, found: i64, known: i64 },
    /// The disk is full, read-only or failing.
    #[error("cannot write the journal `{path}`: {why}")]
    Disk {
        path: String,
        /// What the database says.
        why: String,
        /// Whether the disk is full; then making room helps.
        is_full: bool,
    },
    /// Another loop works in the same folder, and one of the two has gates.
    #[error("loop {} works in `{}`", .0.view.id, .0.view.workspace.display())]
    FolderHeld(Box<LoopRow>),
    /// Another process wrote to the same stream.
    #[error("{kind} {id} was continued by another dacapo")]
    Overtaken { kind: &'static str, id: String },
    /// What is recorded of a stream is not what dacapo has recorded.
    #[error("the journal of {kind} {id} was edited: {fault}")]
    Edited { kind: &'static str, id: String, fault: ChainFault },
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the journal holds an event that cannot be read (seq {seq}): {why}")]
    Unreadable { seq: u64, why: String },
    /// Any other error of the database.
    #[error("the journal `{path}` cannot be used: {why}")]
    Other {
        path: String,
        /// What the database says.
        why: String,
    },
}

impl StoreError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { path, .. } => Some(format!(
                "keep it for a look (`mv {path} {path}.damaged`, with its -wal file); dacapo then starts a new one. \
                 `sqlite3 {path}.damaged .recover` saves what can be saved"
            )),
            Self::TooOld { path, found, .. } => {
                let folder = Path::new(path).parent().unwrap_or(Path::new("."));
                let aside = folder.join(format!("journal-format-{found}"));
                let (aside, all) = (quoted(&aside.to_string_lossy()), quoted(path));
                // The write-ahead log moves with it: left behind, it would be read into the new journal.
                Some(format!(
                    "`mkdir {aside} && mv {all}* {aside}` sets it aside; dacapo then begins a new one"
                ))
            }
            Self::TooNew { .. } => Some("upgrade dacapo, or set DACAPO_HOME to another folder".to_owned()),
            Self::Disk { is_full: true, .. } => {
                Some("make room; then `dacapo resume` goes on with a loop that had begun. Nothing that was recorded is lost".to_owned())
            }
            Self::Disk { .. } => {
                Some("check the disk and its permissions, or set DACAPO_HOME to another folder".to_owned())
            }
            Self::Edited { id, .. } => Some(format!(
                "nothing was run. `dacapo verify {id}` says what still holds; start the work anew with `dacapo run`"
            )),
            Self::Key(error) => Some(error.hint()),
            Self::Overtaken { .. } => Some("`dacapo status` shows who runs it".to_owned()),
            Self::FolderHeld(_) | Self::Unreadable { .. } | Self::Other { .. } => None,
        }
    }
}

impl Store {
    /// Opens the journal at `path`, and makes it if there is none.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, OpenFlags::default())
    }

    /// Opens the journal at `path` if there is one.
    pub fn open_existing(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE)
    }

    fn open_with(path: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let at = |error| translate(&error, path);
        let unusable = |error| match error {
            migrations::MigrateError::TooOld { found, known } => {
                StoreError::TooOld { path: path.display().to_string(), found, known }
            }
            migrations::MigrateError::TooNew { found, known } => {
                StoreError::TooNew { path: path.display().to_string(), found, known }
            }
            migrations::MigrateError::Key(error) => StoreError::Key(error),
            migrations::MigrateError::Sql(error) => translate(&error, path),
        };
        let mut db = Connection::open_with_flags(path, flags).map_err(at)?;
        db.busy_handler(Some(wait_for_others)).map_err(at)?;
        // A journal that cannot be read is refused before anything in it is changed.
        let is_old = migrations::look(&db).map_err(unusable)?;
        // A recorded event survives a power cut, not only a crash (fault L4): with this setting the database does not
        // sync a commit, and the queue does, where writers share a sync.
        db.pragma_update(None, "synchronous", "NORMAL").map_err(at)?;
        db.pragma_update(None, "cache_size", -1024).map_err(at)?;
        let mut store = Self { db, queue: None, waited: Duration::ZERO, machine: OnceCell::new() };
        if is_old || !is_write_ahead(&store.db).map_err(at)? {
            let mut queue = Queue::open(path).map_err(|error| disk(&error, path))?;
            let own = {
                let turn = queue.enter().map_err(|error| disk(&error, path))?;
                write_ahead(&store.db).map_err(at)?;
                migrations::migrate(&store.db, &MachineKeyFolder::beside(path)).map_err(unusable)?;
                turn.committed().map_err(|error| disk(&error, path))?
            };
            queue.sync(own).map_err(|error| disk(&error, path))?;
            store.queue = Some(queue);
        }
        #[cfg(unix)]
        restrict(path);
        Ok(store)
    }

    /// Leaves what was written in the write-ahead log when this process closes the journal, instead of moving all of it into the
    /// database and removing the log. That would take four syncs, and a hook is a process that writes once and leaves. Each hook
    /// reads the log from its beginning, so it is kept short.
    pub(crate) fn leave_log_behind(self) -> Result<Self, StoreError> {
        self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        self.db.pragma_update(None, "wal_autocheckpoint", 200)?;
        Ok(self)
    }

    /// How long the newest transaction waited for others, if that was long.
    pub(crate) fn long_wait(&self) -> Option<Duration> {
        Some(self.waited).filter(|waited| *waited >= LONG)
    }

    /// The longest wait of any process for the journal in the last hour, if there was a long one.
    pub fn longest_wait(&self) -> Option<LongWait> {
        queue::longest_wait(Path::new(self.db.path()?))
    }

    fn queue(&mut self) -> Result<&mut Queue, StoreError> {
        let path = self.db.path().unwrap_or("dacapo.db");
        if self.queue.is_none() {
            self.queue = Some(Queue::open(Path::new(path)).map_err(|error| disk(&error, Path::new(path)))?);
        }
        match &mut self.queue {
            Some(queue) => Ok(queue),
            None => Err(StoreError::Other { path: path.to_owned(), why: "there is no queue".to_owned() }),
        }
    }

    /// Waits until commit number `own` is on the disk.
    fn sync(&mut self, own: u64) -> Result<(), StoreError> {
        let path = self.db.path().unwrap_or("dacapo.db").to_owned();
        // A failed sync is never reported as a full disk: what was not synced may be lost, and making room does not
        // help.
        let failed = |error: io::Error| StoreError::Disk { path, why: error.to_string(), is_full: false };
        self.queue()?.sync(own).map_err(failed)
    }

    /// A thorough look for damage, in the database's words; empty if there is none.
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        let rows: Vec<String> = (|| {
            self.db
                .prepare("PRAGMA quick_check")?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()
        })()
        .map_err(|error| self.error(&error))?;
        Ok(if rows == ["ok"] { Vec::new() } else { rows })
    }

    /// The folder with the key that belongs to this journal.
    pub fn keys(&self) -> MachineKeyFolder {
        MachineKeyFolder::beside(Path::new(self.db.path().unwrap_or("dacapo.db")))
    }

    fn machine(&self) -> Result<&MachineKey, StoreError> {
        match self.machine.get() {
            Some(machine) => Ok(machine),
            None => {
                let machine = self.keys().secret()?;
                Ok(self.machine.get_or_init(|| machine))
            }
        }
    }

    /// Runs `read` so that all it reads is of one moment, also while others write.
    pub(crate) fn at_one_moment<T>(
        &self,
        read: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // Ends when it is dropped; there is nothing to keep.
        let _moment = self.db.unchecked_transaction().map_err(|error| self.error(&error))?;
        read()
    }

    /// The file of the journal.
    pub(crate) fn database(&self) -> Option<&Path> {
        self.db.path().filter(|path| !path.is_empty()).map(Path::new)
    }

    fn error(&self, error: &rusqlite::Error) -> StoreError {
        translate(error, Path::new(self.db.path().unwrap_or("dacapo.db")))
    }

    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.transact_with(|transaction, _| work(transaction))
    }

    /// Reads what the first transaction of a stream needs, at a moment when nothing else is to be done. What fails here fails there
    /// again, and is told then.
    pub(crate) fn get_ready(&mut self) {
        let _ = (self.machine().is_ok(), self.queue().is_ok());
        for statement in stream::STATEMENTS {
            let _ = self.db.prepare_cached(statement);
        }
    }

    /// A transaction that authenticates what it writes.
    fn transact_with_key<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &MachineKey) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.machine()?;
        self.transact_with(|transaction, machine| match machine {
            Some(machine) => work(transaction, machine),
            None => Err(StoreError::Other { path: String::new(), why: "there is no key".to_owned() }),
        })
    }

    fn transact_with<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, Option<&MachineKey>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.db.path().unwrap_or("dacapo.db").to_owned();
        let at = |error: rusqlite::Error| translate(&error, Path::new(&path));
        self.queue()?;
        let mut waited = Waited::new();
        let queue = self.queue.as_ref();
        let (result, own) = {
            let turn = queue.map(Queue::enter).transpose().map_err(|error| disk(&error, Path::new(&path)))?;
            // A transaction that reads first and writes later could be refused half-way, so it takes the write lock
            // at once.
            let transaction =
                self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
            waited.end();
            let result = work(&transaction, self.machine.get()).map_err(|error| match error {
                StoreError::Other { path: at, why } if at.is_empty() => {
                    StoreError::Other { path: path.clone(), why }
                }
                other => other,
            })?;
            transaction.commit().map_err(at)?;
            let own = turn.map(|turn| turn.committed()).transpose();
            (result, own.map_err(|error| disk(&error, Path::new(&path)))?)
        };
        waited.begin();
        self.sync(own.unwrap_or(u64::MAX))?;
        waited.end();
        self.waited = waited.total();
        if self.waited >= LONG {
            self.queue()?.remember(waited.total());
        }
        Ok(result)
    }
}

fn disk(error: &io::Error, path: &Path) -> StoreError {
    StoreError::Disk {
        path: path.display().to_string(),
        why: error.to_string(),
        is_full: error.kind() == io::ErrorKind::StorageFull,
    }
}

/// Waits for a writer that is not in the queue: SQLite's own checkpoint, or a tool of the user's. It never gives up.
fn wait_for_others(tries: i32) -> bool {
    std::thread::sleep(Duration::from_millis(u64::try_from(tries).unwrap_or(0).clamp(1, 25)));
    true
}

/// For errors inside a transaction, where the path of the journal is not at hand.
impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        translate(&error, Path::new("dacapo.db"))
    }
}

/// A word of a shell command.
fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn is_write_ahead(db: &Connection) -> rusqlite::Result<bool> {
    db.pragma_query_value(None, "journal_mode", |row| Ok(row.get_ref(0)?.as_str()? == "wal"))
}

/// Turns the write-ahead log on. SQLite refuses this at once while another process reads, without calling the busy
/// handler, so this function tries again.
fn write_ahead(db: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match switch_to_wal(db) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                tries += 1;
                wait_for_others(tries);
            }
            result => return result,
        }
    }
}

fn switch_to_wal(db: &Connection) -> rusqlite::Result<()> {
    let mut switch = db.prepare("PRAGMA journal_mode = WAL")?;
    let mut answers = switch.query([])?;
    // The rows are read to the end, because the switch is committed, and can fail, after its answer.
    while answers.next()?.is_some() {}
    Ok(())
}

/// Lets only the user read the file: it holds what agents said.
fn restrict(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if let Ok(metadata) = path.metadata()
        && metadata.permissions().mode() & 0o077 != 0
    {
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
    }
}

fn translate(error: &rusqlite::Error, path: &Path) -> StoreError {
    let path = path.display().to_string();
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { path, why },
        Some(ErrorCode::DiskFull) => StoreError::Disk { path, why, is_full: true },
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied,
        ) => StoreError::Disk { path, why, is_full: false },
        _ => StoreError::Other { path, why },
    }
}
