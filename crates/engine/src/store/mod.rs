//! What is on disk: the journal (SQLite), the requests beside it, and append-only segments of raw output.

mod dead_runs;
mod family;
mod journal;
mod lock;
mod migrations;
mod requests;
mod runs;
mod segments;
mod supply;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use journal::{Head, LoopRow};
pub use lock::{LockError, TaskLock};
pub use requests::PendingRequest;
pub use runs::{RunHead, RunRow};
pub use segments::{KEPT_PER_ATTEMPT, Segment, Segments, Stream};

/// The journal's database.
pub struct Store {
    db: Connection,
}

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is not a database, or not a sound one.
    #[error("the journal `{path}` is damaged: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// What the database says.
        why: String,
    },
    /// A newer dacapo wrote it.
    #[error("the journal `{path}` was written by a newer dacapo (format {found}, this one knows {known})")]
    TooNew {
        /// The file.
        path: String,
        /// Its format.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The disk does not take it: full, read-only, failing.
    #[error("cannot write the journal `{path}`: {why}")]
    Disk {
        /// The file.
        path: String,
        /// What the database says.
        why: String,
        /// Whether the disk is full; then making room helps.
        is_full: bool,
    },
    /// Another loop works in the same folder, and one of the two has gates.
    #[error("loop {} works in `{}`", .0.view.id, .0.view.workspace.display())]
    FolderHeld(Box<LoopRow>),
    /// Another process wrote to the same loop.
    #[error("loop {0} was continued by another dacapo")]
    Overtaken(String),
    /// Another process wrote to the same run.
    #[error("run {0} was continued by another dacapo")]
    RunOvertaken(String),
    /// A recorded fact cannot be read back.
    #[error("the journal holds an event that cannot be read (seq {seq}): {why}")]
    Unreadable {
        /// Its place.
        seq: u64,
        /// What is wrong.
        why: String,
    },
    /// Anything else the database says.
    #[error("the journal `{path}` cannot be used: {why}")]
    Other {
        /// The file.
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
            Self::TooNew { .. } => Some("upgrade dacapo, or set DACAPO_HOME to another folder".to_owned()),
            Self::Disk { is_full: true, .. } => {
                Some("make room, then `dacapo resume`; nothing that was recorded is lost".to_owned())
            }
            Self::Disk { .. } => {
                Some("check the disk and its permissions, or set DACAPO_HOME to another folder".to_owned())
            }
            Self::Overtaken(_) | Self::RunOvertaken(_) => {
                Some("`dacapo status` shows who runs it".to_owned())
            }
            Self::FolderHeld(_) | Self::Unreadable { .. } | Self::Other { .. } => None,
        }
    }
}

/// How long to wait for others who write.
const PATIENCE: Duration = Duration::from_secs(10);

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
        let db = Connection::open_with_flags(path, flags).map_err(at)?;
        db.busy_timeout(PATIENCE).map_err(at)?;
        write_ahead(&db).map_err(at)?;
        // FULL: what was acknowledged survives a power cut, not only a crash (fault L4).
        db.pragma_update(None, "synchronous", "FULL").map_err(at)?;
        db.pragma_update(None, "cache_size", -1024).map_err(at)?;
        migrations::migrate(&db).map_err(|error| match error {
            migrations::MigrateError::TooNew { found, known } => {
                StoreError::TooNew { path: path.display().to_string(), found, known }
            }
            migrations::MigrateError::Sql(error) => translate(&error, path),
        })?;
        #[cfg(unix)]
        restrict(path);
        Ok(Self { db })
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

    fn error(&self, error: &rusqlite::Error) -> StoreError {
        translate(error, Path::new(self.db.path().unwrap_or("dacapo.db")))
    }
}

/// Turns the write-ahead log on. Where two open a new journal at once, the database refuses one of them this step
/// without the patience it has everywhere else.
fn write_ahead(db: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match switch_to_wal(db) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            result => return result,
        }
    }
}

fn switch_to_wal(db: &Connection) -> rusqlite::Result<()> {
    let mut switch = db.prepare("PRAGMA journal_mode = WAL")?;
    let mut answers = switch.query([])?;
    // To the end: the switch is committed after its answer, and that is when it fails.
    while answers.next()?.is_some() {}
    Ok(())
}

/// Only its owner may read what agents said.
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
