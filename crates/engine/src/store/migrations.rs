//! The shape of the database, one step per version. A released step is never changed; a new one is appended.

use rusqlite::{Connection, TransactionBehavior};

use crate::keys::{KeyError, MachineKeyFolder};

/// Versions up to this one were never released, and nothing reads them.
const UNRELEASED: i64 = 3;

/// The SQL that leads from each version to the next, beginning with an empty file. After the first step a journal is of
/// version `UNRELEASED + 1`.
///
/// `streams` has a row for each loop and each run; `view` is a fold of its events, kept so that `status` need not read
/// them. `spend`, `units` and `providers` are kept for the same reason, in the same transactions. `checkpoints` has
/// folded states of streams, see `checkpoint.rs`. `attestations` has the signed statements about receipts, by the place of the
/// receipt's event.
/// `ended` is the place of the event that ended a stream, and `asks` whether it ended because a person has to do something: columns
/// that the end alone writes, since an append must not write an index. `looks` says up to which event a person has looked at a stream; it is no part of the stream, whose end stays its end.
/// `events_iterations` finds the iterations that began in a stretch of time. It compares the first letters of an event, since reading it as
/// JSON would cost every append, and fail for an event that was edited.
/// `messages` has what came from chats and what goes to them, and `channels` how far each of them was read, see `messages.rs`.
const STEPS: [&str; 6] = [
    "
    CREATE TABLE streams (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        project TEXT NOT NULL,
        parent TEXT,
        task TEXT,
        workspace TEXT NOT NULL,
        run TEXT,
        head INTEGER NOT NULL,
        over INTEGER NOT NULL,
        view TEXT NOT NULL,
        owner_pid INTEGER NOT NULL,
        owner_start INTEGER NOT NULL,
        owner_boot TEXT NOT NULL,
        owner_host TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        lease_until INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX streams_kind ON streams (kind, over, key);
    CREATE INDEX streams_task ON streams (project, task, key);
    CREATE INDEX streams_children ON streams (parent, over);
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL REFERENCES streams (key),
        subject TEXT,
        at INTEGER NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX events_stream ON events (stream, seq);
    CREATE TABLE requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        stream INTEGER NOT NULL REFERENCES streams (key),
        at INTEGER NOT NULL,
        body TEXT NOT NULL,
        handled INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX requests_open ON requests (stream) WHERE handled = 0;
    CREATE TABLE providers (
        name TEXT PRIMARY KEY,
        until INTEGER NOT NULL,
        why TEXT NOT NULL,
        prober TEXT,
        probe_until INTEGER
    ) STRICT;
    CREATE TABLE spend (
        stream INTEGER NOT NULL REFERENCES streams (key),
        attempt INTEGER NOT NULL,
        project TEXT NOT NULL,
        run TEXT,
        at INTEGER NOT NULL,
        cost REAL NOT NULL,
        tokens INTEGER NOT NULL,
        reserved_cost REAL NOT NULL,
        reserved_tokens INTEGER NOT NULL,
        PRIMARY KEY (stream, attempt)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX spend_at ON spend (at);
    CREATE INDEX spend_project ON spend (project);
    CREATE INDEX spend_run ON spend (run) WHERE run IS NOT NULL;
    CREATE TABLE units (
        key INTEGER PRIMARY KEY,
        project TEXT NOT NULL,
        unit TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES streams (key),
        view TEXT NOT NULL,
        UNIQUE (project, unit)
    ) STRICT;
    CREATE INDEX units_run ON units (run);
",
    "
    CREATE TABLE checkpoints (
        stream INTEGER PRIMARY KEY REFERENCES streams (key),
        seq INTEGER NOT NULL,
        folded_by TEXT NOT NULL,
        hash BLOB NOT NULL,
        state TEXT NOT NULL
    ) STRICT;
",
    "
    ALTER TABLE events ADD COLUMN chain BLOB;
    ALTER TABLE streams ADD COLUMN mac BLOB;
    DROP TABLE checkpoints;
    CREATE TABLE checkpoints (
        stream INTEGER PRIMARY KEY REFERENCES streams (key),
        seq INTEGER NOT NULL,
        folded_by TEXT NOT NULL,
        hash BLOB NOT NULL,
        state TEXT NOT NULL,
        mac BLOB NOT NULL
    ) STRICT;
    CREATE TABLE attestations (
        seq INTEGER NOT NULL REFERENCES events (seq),
        predicate TEXT NOT NULL,
        envelope TEXT NOT NULL,
        PRIMARY KEY (seq, predicate)
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE looks (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        stream INTEGER NOT NULL UNIQUE REFERENCES streams (key),
        head INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX streams_run ON streams (run) WHERE run IS NOT NULL;
    ALTER TABLE streams ADD COLUMN ended INTEGER;
    ALTER TABLE streams ADD COLUMN asks INTEGER NOT NULL DEFAULT 0;
    UPDATE streams SET ended = head, asks = coalesce(view ->> '$.exit_code' = 4, 0) WHERE over = 1;
    CREATE INDEX streams_ended ON streams (ended) WHERE ended IS NOT NULL;
    CREATE INDEX streams_asking ON streams (ended) WHERE asks = 1;
",
    "
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        adapter TEXT NOT NULL,
        conversation TEXT NOT NULL,
        is_out INTEGER NOT NULL,
        external TEXT,
        run TEXT,
        seq INTEGER,
        part INTEGER,
        matters INTEGER NOT NULL DEFAULT 0,
        is_ours INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL,
        tries INTEGER NOT NULL DEFAULT 0,
        at INTEGER NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX messages_external ON messages (adapter, external) WHERE external IS NOT NULL;
    CREATE UNIQUE INDEX messages_told ON messages (run, seq, part) WHERE seq IS NOT NULL;
    CREATE INDEX messages_open ON messages (adapter, is_out, id)
        WHERE state IN ('received', 'queued', 'sending', 'undelivered');
    CREATE INDEX messages_conversation ON messages (adapter, conversation, id);
    CREATE TABLE channels (
        adapter TEXT NOT NULL,
        channel TEXT NOT NULL,
        position TEXT NOT NULL,
        PRIMARY KEY (adapter, channel)
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE INDEX events_iterations ON events (at, stream)
        WHERE substr(body, 1, 27) = '{\"type\":\"iteration_started\"';
",
];

/// The version of a journal that this dacapo writes.
const KNOWN: i64 = UNRELEASED + STEPS.len() as i64;

/// The first version whose events carry hashes.
const CHAINED: i64 = 6;

pub(super) enum MigrateError {
    TooOld { found: i64, known: i64 },
    TooNew { found: i64, known: i64 },
    Key(KeyError),
    Sql(rusqlite::Error),
}

impl From<KeyError> for MigrateError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Refuses a journal that this dacapo cannot read; returns whether the journal has to be migrated.
pub(super) fn look(db: &Connection) -> Result<bool, MigrateError> {
    match version(db)? {
        0 => Ok(true),
        found if found <= UNRELEASED => Err(MigrateError::TooOld { found, known: KNOWN }),
        found if found > KNOWN => Err(MigrateError::TooNew { found, known: KNOWN }),
        found => Ok(found < KNOWN),
    }
}

/// Brings a journal to the newest version. With the version whose events carry hashes comes this machine's key.
pub(super) fn migrate(db: &Connection, keys: &MachineKeyFolder) -> Result<(), MigrateError> {
    if !look(db)? {
        return Ok(());
    }
    // Two processes may open a new journal at once: the second finds the work done when it gets the lock.
    let transaction = rusqlite::Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    let done = usize::try_from(found - UNRELEASED).unwrap_or(0);
    if found < CHAINED {
        let next: i64 = match found {
            0 => 1,
            _ => {
                transaction.query_row("SELECT COALESCE(MAX(seq), 0) + 1 FROM events", [], |row| row.get(0))?
            }
        };
        keys.begin_chain(next.cast_unsigned(), found == 0)?;
    }
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", KNOWN)?;
    transaction.commit()?;
    Ok(())
}

fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::super::{Store, StoreError};
    use super::*;

    /// A journal that says it is of this version.
    fn of_version(version: i64) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dacapo.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch("CREATE TABLE loops (key INTEGER PRIMARY KEY)").unwrap();
        old.pragma_update(None, "user_version", version).unwrap();
        (dir, path)
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_refused_with_what_to_do_and_left_as_it_is() {
        for version in (1..=UNRELEASED).chain([KNOWN + 1, 1000]) {
            let (_dir, path) = of_version(version);
            let before = std::fs::read(&path).unwrap();
            let error = Store::open(&path).err().unwrap();
            match &error {
                StoreError::TooOld { found, .. } => {
                    assert!(*found == version && version <= UNRELEASED);
                    let hint = error.hint().unwrap();
                    assert!(hint.contains("mv ") && hint.contains("dacapo.db*"), "{hint}");
                }
                StoreError::TooNew { found, known, .. } => {
                    assert!(*found == version && *known == KNOWN && version > KNOWN);
                }
                other => panic!("{version}: {other}"),
            }
            assert_eq!(std::fs::read(&path).unwrap(), before, "{version}");
        }
    }

    #[test]
    fn a_new_journal_is_of_the_newest_version_and_opens_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dacapo.db");
        for _ in 0..2 {
            let store = Store::open(&path).unwrap();
            assert_eq!((store.last_seq().unwrap(), version(&store.db).unwrap()), (0, KNOWN));
        }
    }
}
