//! The journal: events appended in order, one transaction per step, and read back.

use dacapo_core::{
    event::{Envelope, LoopEvent},
    ids::{LoopId, ProjectId, RunId, TaskId},
    view::LoopView,
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, TransactionBehavior, params};
use sha2::{Digest, Sha256};

use super::{Store, StoreError, supply::take_spend};
use crate::{process::identity::Identity, secrets::secrets};

/// The end of a loop's stream, as its writer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    key: i64,
    seq: i64,
}

impl Head {
    /// The loop's number in the database.
    pub(super) fn key(self) -> i64 {
        self.key
    }
}

/// A loop as the journal's index has it.
#[derive(Clone, Debug)]
pub struct LoopRow {
    /// What people see of it.
    pub view: LoopView,
    /// Its newest supervisor.
    pub owner: Identity,
}

impl LoopRow {
    /// Whether somebody runs it.
    pub fn is_running(&self) -> bool {
        !self.view.is_over() && self.owner.is_alive()
    }

    /// The view with what the journal cannot know: a supervisor that died.
    pub fn current_view(self) -> LoopView {
        if self.view.is_over() || self.owner.is_alive() { self.view } else { self.view.with_dead_owner() }
    }
}

pub(super) const ROW: &str = "view, owner_pid, owner_start, owner_boot";

impl Store {
    /// Records the beginning of a loop: its `LoopStarted` must be the first event.
    ///
    /// In one transaction with the look whether its folder is free, `kin` apart: of two that begin at once, one sees
    /// the other.
    pub fn create(
        &mut self,
        id: &LoopId,
        owner: &Identity,
        now: Timestamp,
        events: Vec<LoopEvent>,
        kin: &[LoopId],
    ) -> Result<(Head, Vec<Envelope>, LoopView), StoreError> {
        let path = self.db.path().unwrap_or_default().to_owned();
        let events = without_secrets(events)?;
        self.transact(|transaction| {
            let mut seq = next_seq(transaction)?;
            let mut envelopes = envelopes(id, now, &mut seq, events);
            let mut view = match envelopes.first().and_then(LoopView::begin) {
                Some(view) => view,
                None => return Err(StoreError::Other { path, why: "a loop must begin with its beginning".to_owned() }),
            };
            for envelope in &mut envelopes {
                view.apply(envelope);
            }
            refuse_shared_folder(transaction, &view, kin)?;
            transaction
                .prepare_cached(
                    "INSERT INTO loops (id, project, task, workspace, parent, head, over, view, owner_pid, owner_start, owner_boot, run)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                )?
                .execute(params![
                    id.as_str(),
                    view.project.as_str(),
                    view.task.as_str(),
                    view.workspace.to_string_lossy(),
                    view.parent.as_ref().map(LoopId::as_str),
                    seq - 1,
                    view.is_over(),
                    to_json(&view)?,
                    owner.pid,
                    owner.start.cast_signed(),
                    owner.boot,
                    run_of(&envelopes).map(RunId::as_str),
                ])?;
            let key = transaction.last_insert_rowid();
            insert(transaction, key, &view.project, &envelopes)?;
            Ok((Head { key, seq: seq - 1 }, envelopes, view))
        })
    }

    /// Appends to a loop whose end is at `head`; `view` takes the new facts in. Requests in `handled` are closed with it.
    pub fn append(
        &mut self,
        id: &LoopId,
        head: &mut Head,
        view: &mut LoopView,
        now: Timestamp,
        events: Vec<LoopEvent>,
        handled: &[i64],
    ) -> Result<Vec<Envelope>, StoreError> {
        if events.is_empty() && handled.is_empty() {
            return Ok(Vec::new());
        }
        let (at, mut seen) = (*head, view.clone());
        let events = without_secrets(events)?;
        let (envelopes, last) = self.transact(|transaction| {
            let mut seq = next_seq(transaction)?;
            let envelopes = envelopes(id, now, &mut seq, events);
            for envelope in &envelopes {
                seen.apply(envelope);
            }
            let last = if envelopes.is_empty() { at.seq } else { seq - 1 };
            let moved = transaction
                .prepare_cached(
                    "UPDATE loops SET head = ?3, over = ?4, view = ?5 WHERE key = ?1 AND head = ?2",
                )?
                .execute(params![at.key, at.seq, last, seen.is_over(), to_json(&seen)?])?;
            if moved == 0 {
                return Err(StoreError::Overtaken(id.to_string()));
            }
            insert(transaction, at.key, &seen.project, &envelopes)?;
            for request in handled {
                transaction
                    .prepare_cached("UPDATE requests SET handled = 1 WHERE id = ?1")?
                    .execute([request])?;
            }
            Ok((envelopes, last))
        })?;
        head.seq = last;
        *view = seen;
        Ok(envelopes)
    }

    /// Makes `owner` the supervisor of a loop; the task's lock must be held.
    pub fn take_over(
        &mut self,
        head: Head,
        view: &LoopView,
        owner: &Identity,
        kin: &[LoopId],
    ) -> Result<(), StoreError> {
        self.transact(|transaction| {
            refuse_shared_folder(transaction, view, kin)?;
            transaction.execute(
                "UPDATE loops SET owner_pid = ?2, owner_start = ?3, owner_boot = ?4 WHERE key = ?1",
                params![head.key, owner.pid, owner.start.cast_signed(), owner.boot],
            )?;
            Ok(())
        })
    }

    /// A loop's whole stream and its end.
    pub fn load(&self, id: &LoopId) -> Result<Option<(Head, Vec<Envelope>)>, StoreError> {
        let found: Option<(i64, i64)> =
            self.query_row("SELECT key, head FROM loops WHERE id = ?1", params![id.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let Some((key, seq)) = found else { return Ok(None) };
        let events = self.events(Some(id), 0)?;
        Ok(Some((Head { key, seq }, events)))
    }

    /// Events of one loop or of all, from `from` on, in order.
    pub fn events(&self, id: Option<&LoopId>, from: u64) -> Result<Vec<Envelope>, StoreError> {
        const ALL: &str = "SELECT e.seq, e.at, l.id, e.body FROM events e JOIN loops l ON l.key = e.loop
             WHERE e.seq >= ?1 ORDER BY e.seq";
        const ONE: &str = "SELECT e.seq, e.at, l.id, e.body FROM loops l JOIN events e ON e.loop = l.key
             WHERE l.id = ?2 AND e.seq >= ?1 ORDER BY e.seq";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let rows: Vec<(i64, i64, String, String)> = match id {
            Some(id) => self.query(ONE, params![from.cast_signed(), id.as_str()], read)?,
            None => self.query(ALL, params![from.cast_signed()], read)?,
        };
        rows.into_iter().map(envelope).collect()
    }

    /// SHA-256 over a loop's events as they were recorded: what a receipt is tied to.
    pub fn journal_hash(&self, id: &LoopId) -> Result<String, StoreError> {
        let mut digest = Sha256::new();
        let bodies: Vec<String> = self.query(
            "SELECT body FROM events WHERE loop = (SELECT key FROM loops WHERE id = ?1) ORDER BY seq",
            [id.as_str()],
            |row| row.get(0),
        )?;
        for body in bodies {
            digest.update(body.as_bytes());
            digest.update(b"\n");
        }
        Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Whether `hash` is what [`Store::journal_hash`] gave at some moment of the loop: nothing before it was altered.
    pub fn had_journal_hash(&self, id: &LoopId, hash: &str) -> Result<bool, StoreError> {
        let bodies: Vec<String> = self.query(
            "SELECT body FROM events WHERE loop = (SELECT key FROM loops WHERE id = ?1) ORDER BY seq",
            [id.as_str()],
            |row| row.get(0),
        )?;
        let mut digest = Sha256::new();
        Ok(bodies.iter().any(|body| {
            digest.update(body.as_bytes());
            digest.update(b"\n");
            let so_far: String = digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            so_far == hash
        }))
    }

    /// The place of the newest event.
    pub fn last_seq(&self) -> Result<u64, StoreError> {
        Ok(self
            .query_row(&format!("SELECT {LAST_SEQ}"), [], |row| row.get::<_, i64>(0))?
            .unwrap_or(0)
            .cast_unsigned())
    }

    /// Loops whose journal has no end, oldest first.
    pub fn active(&self) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(&format!("SELECT {ROW} FROM loops WHERE over = 0 ORDER BY key"), [])
    }

    /// The newest loops that have ended, newest first.
    pub fn recent(&self, limit: u32) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(&format!("SELECT {ROW} FROM loops WHERE over = 1 ORDER BY key DESC LIMIT ?1"), [limit])
    }

    /// One loop.
    pub fn row(&self, id: &LoopId) -> Result<Option<LoopRow>, StoreError> {
        Ok(self.rows(&format!("SELECT {ROW} FROM loops WHERE id = ?1"), [id.as_str()])?.pop())
    }

    /// Loops whose id begins with `prefix`; at most a few.
    pub fn with_prefix(&self, prefix: &str) -> Result<Vec<LoopRow>, StoreError> {
        // An id holds no wildcard of LIKE but `_`, which GLOB does not know.
        self.rows(&format!("SELECT {ROW} FROM loops WHERE id GLOB ?1 || '*' ORDER BY key LIMIT 9"), [prefix])
    }

    /// The newest loop of a task, in each project or in one.
    pub fn newest_of_task(
        &self,
        project: Option<&ProjectId>,
        task: &str,
    ) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(
            &format!(
                "SELECT {ROW} FROM loops WHERE key IN
                 (SELECT MAX(key) FROM loops WHERE task = ?1 AND (?2 IS NULL OR project = ?2) GROUP BY project)"
            ),
            params![task, project.map(ProjectId::as_str)],
        )
    }

    /// All loops of a task, oldest first.
    pub fn loops_of_task(&self, project: &ProjectId, task: &str) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(
            &format!("SELECT {ROW} FROM loops WHERE project = ?1 AND task = ?2 ORDER BY key"),
            params![project.as_str(), task],
        )
    }

    /// Whether the newest loop of a task is done.
    pub fn is_done(&self, project: &ProjectId, task: &TaskId) -> Result<bool, StoreError> {
        Ok(self
            .newest_of_task(Some(project), task.as_str())?
            .pop()
            .is_some_and(|row| row.view.reason == Some(dacapo_core::event::Reason::Done)))
    }

    /// Child loops of `parent` that somebody runs.
    pub fn running_children(&self, parent: &LoopId) -> Result<Vec<LoopRow>, StoreError> {
        let rows =
            self.rows(&format!("SELECT {ROW} FROM loops WHERE parent = ?1 AND over = 0"), [parent.as_str()])?;
        Ok(rows.into_iter().filter(LoopRow::is_running).collect())
    }

    pub(super) fn rows(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<LoopRow>, StoreError> {
        self.query(sql, params, loop_row)
    }

    pub(super) fn query<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        (|| self.db.prepare_cached(sql)?.query_map(params, read)?.collect::<rusqlite::Result<Vec<T>>>())()
            .map_err(|error| self.error(&error))
    }

    fn query_row<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        (|| self.db.prepare_cached(sql)?.query_row(params, read).optional())()
            .map_err(|error| self.error(&error))
    }

    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.db.path().unwrap_or("dacapo.db").to_owned();
        let at = |error: rusqlite::Error| super::translate(&error, std::path::Path::new(&path));
        // Immediate: a transaction that reads first and writes later could be refused half-way.
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(at)?;
        let result = work(&transaction).map_err(|error| match error {
            StoreError::Other { path: at, why } if at.is_empty() => {
                StoreError::Other { path: path.clone(), why }
            }
            other => other,
        })?;
        transaction.commit().map_err(at)?;
        Ok(result)
    }
}

/// Inside a transaction the path is not at hand; the code of the error is what counts.
impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        super::translate(&error, std::path::Path::new("dacapo.db"))
    }
}

fn loop_row(row: &Row<'_>) -> rusqlite::Result<LoopRow> {
    let view: String = row.get(0)?;
    let view = serde_json::from_str(&view).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e))
    })?;
    let owner =
        Identity { pid: row.get(1)?, start: row.get::<_, i64>(2)?.cast_unsigned(), boot: row.get(3)? };
    Ok(LoopRow { view, owner })
}

/// A loop with gates needs its folder for itself; only its own kin may be there.
fn refuse_shared_folder(
    transaction: &Transaction<'_>,
    view: &LoopView,
    kin: &[LoopId],
) -> Result<(), StoreError> {
    let rows: Vec<LoopRow> = transaction
        .prepare_cached(&format!("SELECT {ROW} FROM loops WHERE over = 0 AND workspace = ?1 AND id <> ?2"))?
        .query_map(params![view.workspace.to_string_lossy(), view.id.as_str()], loop_row)?
        .collect::<rusqlite::Result<_>>()?;
    let is_kin = |row: &LoopRow| {
        kin.contains(&row.view.id) || row.view.parent.as_ref().is_some_and(|parent| kin.contains(parent))
    };
    match rows
        .into_iter()
        .find(|row| (row.view.gates > 0 || view.gates > 0) && !is_kin(row) && row.is_running())
    {
        Some(holder) => Err(StoreError::FolderHeld(Box::new(holder))),
        None => Ok(()),
    }
}

/// The one way into the journal: what is recorded, applied and published has no secrets.
fn without_secrets(events: Vec<LoopEvent>) -> Result<Vec<LoopEvent>, StoreError> {
    let redact = |event| secrets().redact_event(event);
    events.into_iter().map(redact).collect::<Result<_, _>>().map_err(|error| unwritable(&error))
}

/// Loops and runs count in one row. Two looks at the end of a key each: its cost does not grow with the journal.
const LAST_SEQ: &str =
    "MAX((SELECT COALESCE(MAX(seq), 0) FROM events), (SELECT COALESCE(MAX(seq), 0) FROM run_events))";

pub(super) fn next_seq(transaction: &Transaction<'_>) -> Result<i64, StoreError> {
    Ok(transaction.prepare_cached(&format!("SELECT {LAST_SEQ} + 1"))?.query_row([], |row| row.get(0))?)
}

/// The run that a loop which begins belongs to.
fn run_of(envelopes: &[Envelope]) -> Option<&RunId> {
    match envelopes.first().map(|first| &first.event) {
        Some(LoopEvent::LoopStarted(started)) => started.run.as_ref(),
        _ => None,
    }
}

pub(super) fn envelope((seq, at, id, body): (i64, i64, String, String)) -> Result<Envelope, StoreError> {
    let unreadable = |why: String| StoreError::Unreadable { seq: seq.cast_unsigned(), why };
    Ok(Envelope {
        seq: seq.cast_unsigned(),
        at: Timestamp::from_microsecond(at).map_err(|e| unreadable(e.to_string()))?,
        loop_id: id.parse().map_err(|_| unreadable(format!("`{id}` is no loop id")))?,
        event: serde_json::from_str(&body).map_err(|e| unreadable(e.to_string()))?,
    })
}

fn envelopes(id: &LoopId, at: Timestamp, seq: &mut i64, events: Vec<LoopEvent>) -> Vec<Envelope> {
    // Whole microseconds: what is shown live is what is read back later.
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    events
        .into_iter()
        .map(|event| {
            let envelope = Envelope { seq: seq.cast_unsigned(), at, loop_id: id.clone(), event };
            *seq += 1;
            envelope
        })
        .collect()
}

fn insert(
    transaction: &Transaction<'_>,
    key: i64,
    project: &ProjectId,
    envelopes: &[Envelope],
) -> Result<(), StoreError> {
    let mut statement =
        transaction.prepare_cached("INSERT INTO events (seq, loop, at, body) VALUES (?1, ?2, ?3, ?4)")?;
    for envelope in envelopes {
        let body = to_json(&envelope.event)?;
        statement.execute(params![envelope.seq.cast_signed(), key, envelope.at.as_microsecond(), body])?;
        take_spend(transaction, key, project, envelope)?;
    }
    Ok(())
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unwritable(&error))
}

pub(super) fn unwritable(error: &serde_json::Error) -> StoreError {
    StoreError::Other { path: String::new(), why: error.to_string() }
}
