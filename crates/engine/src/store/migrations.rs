//! The shape of the database, one step per version. A released step is never changed.

use rusqlite::{Connection, TransactionBehavior};

/// Version 1: `view` is a fold of the loop's events, kept so that `status` need not read them. Version 2: what loops
/// share; `spend` is a fold too, one row per agent process, kept so that a budget of a day need not read a day's events.
/// Version 3: runs of units, and which run a loop belongs to.
const STEPS: [&str; 3] = [
    "
    CREATE TABLE loops (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        project TEXT NOT NULL,
        task TEXT NOT NULL,
        workspace TEXT NOT NULL,
        parent TEXT,
        head INTEGER NOT NULL,
        over INTEGER NOT NULL,
        view TEXT NOT NULL,
        owner_pid INTEGER NOT NULL,
        owner_start INTEGER NOT NULL,
        owner_boot TEXT NOT NULL
    ) STRICT;
    CREATE INDEX loops_active ON loops (key) WHERE over = 0;
    CREATE INDEX loops_task ON loops (project, task, key);
    CREATE INDEX loops_children ON loops (parent) WHERE over = 0;
    CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        loop INTEGER NOT NULL REFERENCES loops (key),
        at INTEGER NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX events_loop ON events (loop, seq);
    CREATE TABLE requests (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        loop INTEGER NOT NULL REFERENCES loops (key),
        at INTEGER NOT NULL,
        body TEXT NOT NULL,
        handled INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX requests_open ON requests (loop) WHERE handled = 0;
",
    "
    CREATE TABLE providers (
        name TEXT PRIMARY KEY,
        until INTEGER NOT NULL,
        why TEXT NOT NULL,
        prober TEXT,
        probe_until INTEGER
    ) STRICT;
    CREATE TABLE spend (
        loop INTEGER NOT NULL REFERENCES loops (key),
        attempt INTEGER NOT NULL,
        project TEXT NOT NULL,
        at INTEGER NOT NULL,
        cost REAL NOT NULL,
        tokens INTEGER NOT NULL,
        reserved_cost REAL NOT NULL,
        reserved_tokens INTEGER NOT NULL,
        PRIMARY KEY (loop, attempt)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX spend_at ON spend (at);
    CREATE INDEX spend_project ON spend (project);
",
    "
    ALTER TABLE loops ADD COLUMN run TEXT;
    ALTER TABLE spend ADD COLUMN run TEXT;
    CREATE INDEX spend_run ON spend (run) WHERE run IS NOT NULL;
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        project TEXT NOT NULL,
        root TEXT NOT NULL,
        head INTEGER NOT NULL,
        over INTEGER NOT NULL,
        view TEXT NOT NULL,
        owner_pid INTEGER NOT NULL,
        owner_start INTEGER NOT NULL,
        owner_boot TEXT NOT NULL
    ) STRICT;
    CREATE INDEX runs_active ON runs (key) WHERE over = 0;
    CREATE INDEX runs_project ON runs (project, key);
    CREATE TABLE run_events (
        seq INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES runs (key),
        unit TEXT,
        at INTEGER NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX run_events_run ON run_events (run, seq);
    CREATE TABLE units (
        key INTEGER PRIMARY KEY,
        project TEXT NOT NULL,
        unit TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs (key),
        view TEXT NOT NULL,
        UNIQUE (project, unit)
    ) STRICT;
    CREATE INDEX units_run ON units (run);
",
];

pub(super) enum MigrateError {
    TooNew { found: i64, known: i64 },
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

pub(super) fn migrate(db: &Connection) -> Result<(), MigrateError> {
    let known = STEPS.len() as i64;
    let version = |db: &Connection| db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let found = version(db)?;
    if found == known {
        return Ok(());
    }
    if found > known {
        return Err(MigrateError::TooNew { found, known });
    }
    // Two may open a new journal at once: the second finds the work done when the lock is its own.
    let transaction = rusqlite::Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;

    #[test]
    fn a_journal_of_every_older_version_still_opens() {
        // An upgrade keeps what was recorded.
        for version in 1..STEPS.len() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("dacapo.db");
            let old = Connection::open(&path).unwrap();
            for step in &STEPS[..version] {
                old.execute_batch(step).unwrap();
            }
            old.execute_batch(
                "INSERT INTO loops (key, id, project, task, workspace, head, over, view, owner_pid, owner_start, owner_boot)
                 VALUES (1, 'abc', 'p', 't', '/w', 7, 1, '', 1, 1, '');
                 INSERT INTO events (seq, loop, at, body) VALUES (7, 1, 0, '{\"type\":\"paused\"}');",
            )
            .unwrap();
            old.pragma_update(None, "user_version", version as i64).unwrap();
            drop(old);
            let store = Store::open(&path).unwrap();
            assert_eq!(
                (store.last_seq().unwrap(), store.events(None, 0).unwrap().len()),
                (7, 1),
                "{version}"
            );
            assert!(store.active_runs().unwrap().is_empty() && store.unit_views(None).unwrap().is_empty());
        }
    }
}
