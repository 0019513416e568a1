//! Runs of units in the journal: a stream each, beside those of the loops and counted in the same row.

use dacapo_core::{
    event::{Envelope, RunEnvelope, RunEvent},
    ids::{ProjectId, RunId, UnitId},
    view::{RunView, UnitView},
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use rustix::process::Signal;

use super::{
    Store, StoreError,
    journal::{next_seq, to_json, unwritable},
};
use crate::{process::identity::Identity, secrets::secrets};

/// The end of a run's stream, as its writer knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunHead {
    key: i64,
    seq: i64,
    view: RunView,
}

impl RunHead {
    /// What people see of the run.
    pub fn view(&self) -> &RunView {
        &self.view
    }
}

/// A run as the journal's index has it.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// What people see of it.
    pub view: RunView,
    /// Its scheduler.
    pub owner: Identity,
}

impl RunRow {
    /// Whether somebody schedules it.
    pub fn is_running(&self) -> bool {
        !self.view.is_over() && self.owner.is_alive()
    }

    /// The view with what the journal cannot know: a scheduler that died.
    pub fn current_view(self) -> RunView {
        if self.view.is_over() || self.owner.is_alive() { self.view } else { self.view.with_dead_owner() }
    }
}

const ROW: &str = "r.view, r.owner_pid, r.owner_start, r.owner_boot";

/// Units with what their runs' owners say about whether they still are worked on.
const UNITS: &str = "SELECT u.view, r.over, r.owner_pid, r.owner_start, r.owner_boot FROM units u JOIN runs r ON r.key = u.run";

impl Store {
    /// Records the beginning of a run: its `orch.started` must be the first event.
    pub fn create_run(
        &mut self,
        id: &RunId,
        owner: &Identity,
        now: Timestamp,
        events: Vec<(Option<UnitId>, RunEvent)>,
    ) -> Result<(RunHead, Vec<RunEnvelope>), StoreError> {
        let path = self.db.path().unwrap_or_default().to_owned();
        let events = without_secrets(events)?;
        self.transact(|transaction| {
            let mut seq = next_seq(transaction)?;
            let envelopes = envelopes(id, now, &mut seq, events);
            let Some(mut view) = envelopes.first().and_then(RunView::begin) else {
                return Err(StoreError::Other {
                    path,
                    why: "a run must begin with its beginning".to_owned(),
                });
            };
            for envelope in &envelopes {
                view.apply(envelope);
            }
            transaction.execute(
                "INSERT INTO runs (id, project, root, head, over, view, owner_pid, owner_start, owner_boot)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    id.as_str(),
                    view.project.as_str(),
                    view.root.to_string_lossy(),
                    seq - 1,
                    view.is_over(),
                    to_json(&view)?,
                    owner.pid,
                    owner.start.cast_signed(),
                    owner.boot,
                ],
            )?;
            let key = transaction.last_insert_rowid();
            insert(transaction, key, &view.project, &envelopes)?;
            Ok((RunHead { key, seq: seq - 1, view }, envelopes))
        })
    }

    /// Appends to a run whose end is at `head`.
    pub fn append_run(
        &mut self,
        id: &RunId,
        head: &mut RunHead,
        now: Timestamp,
        events: Vec<(Option<UnitId>, RunEvent)>,
    ) -> Result<Vec<RunEnvelope>, StoreError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let events = without_secrets(events)?;
        let mut next = head.clone();
        let envelopes = self.transact(|transaction| {
            let mut seq = next_seq(transaction)?;
            let envelopes = envelopes(id, now, &mut seq, events);
            for envelope in &envelopes {
                next.view.apply(envelope);
            }
            next.seq = seq - 1;
            let moved = transaction
                .prepare_cached(
                    "UPDATE runs SET head = ?3, over = ?4, view = ?5 WHERE key = ?1 AND head = ?2",
                )?
                .execute(params![head.key, head.seq, next.seq, next.view.is_over(), to_json(&next.view)?])?;
            if moved == 0 {
                return Err(StoreError::RunOvertaken(id.to_string()));
            }
            insert(transaction, head.key, &next.view.project, &envelopes)?;
            Ok(envelopes)
        })?;
        *head = next;
        Ok(envelopes)
    }

    /// A run's whole stream and its end.
    pub fn load_run(&self, id: &RunId) -> Result<Option<(RunHead, Vec<RunEnvelope>)>, StoreError> {
        let found: Option<(i64, i64, RunView)> = self
            .query("SELECT r.key, r.head, r.view FROM runs r WHERE r.id = ?1", [id.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, json(row, 2)?))
            })?
            .pop();
        let Some((key, seq, view)) = found else { return Ok(None) };
        Ok(Some((RunHead { key, seq, view }, self.run_events(Some(id), None, 0)?)))
    }

    /// Events of one run or of all, about one unit or about all, from `from` on, in order.
    pub fn run_events(
        &self,
        run: Option<&RunId>,
        unit: Option<(&ProjectId, &UnitId)>,
        from: u64,
    ) -> Result<Vec<RunEnvelope>, StoreError> {
        let rows: Vec<(i64, i64, String, Option<String>, String)> = self.query(
            "SELECT e.seq, e.at, r.id, e.unit, e.body FROM run_events e JOIN runs r ON r.key = e.run
             WHERE e.seq >= ?1 AND (?2 IS NULL OR r.id = ?2)
             AND (?3 IS NULL OR (e.unit = ?3 AND r.project = ?4)) ORDER BY e.seq",
            params![
                from.cast_signed(),
                run.map(RunId::as_str),
                unit.map(|(_, unit)| unit.as_str()),
                unit.map(|(project, _)| project.as_str())
            ],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
        )?;
        rows.into_iter()
            .map(|(seq, at, run, unit, body)| {
                let unreadable = |why: String| StoreError::Unreadable { seq: seq.cast_unsigned(), why };
                let unit =
                    unit.map(|unit| unit.parse().map_err(|_| unreadable(format!("`{unit}` is no unit"))));
                Ok(RunEnvelope {
                    seq: seq.cast_unsigned(),
                    at: Timestamp::from_microsecond(at).map_err(|e| unreadable(e.to_string()))?,
                    run: run.parse().map_err(|_| unreadable(format!("`{run}` is no run id")))?,
                    unit: unit.transpose()?,
                    event: serde_json::from_str(&body).map_err(|e| unreadable(e.to_string()))?,
                })
            })
            .collect()
    }

    /// Runs whose journal has no end, oldest first.
    pub fn active_runs(&self) -> Result<Vec<RunRow>, StoreError> {
        self.query(&format!("SELECT {ROW} FROM runs r WHERE r.over = 0 ORDER BY r.key"), [], run_row)
    }

    /// The newest run, of one project or of all.
    pub fn newest_run(&self, project: Option<&ProjectId>) -> Result<Option<RunRow>, StoreError> {
        let sql = format!(
            "SELECT {ROW} FROM runs r WHERE ?1 IS NULL OR r.project = ?1 ORDER BY r.key DESC LIMIT 1"
        );
        Ok(self.query(&sql, [project.map(ProjectId::as_str)], run_row)?.pop())
    }

    /// The newest run that has ended.
    pub fn newest_ended_run(&self) -> Result<Option<RunRow>, StoreError> {
        let sql = format!("SELECT {ROW} FROM runs r WHERE r.over = 1 ORDER BY r.key DESC LIMIT 1");
        Ok(self.query(&sql, [], run_row)?.pop())
    }

    /// One run.
    pub fn run_row(&self, id: &RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self.query(&format!("SELECT {ROW} FROM runs r WHERE r.id = ?1"), [id.as_str()], run_row)?.pop())
    }

    /// The newest run that draws on this purse: the run that it is called after, or one that goes on with it.
    pub fn newest_of_purse(&self, purse: &RunId) -> Result<Option<RunRow>, StoreError> {
        let sql = format!(
            "SELECT {ROW} FROM runs r JOIN run_events e ON e.run = r.key
             WHERE e.body ->> '$.type' = 'orch.started' AND e.body ->> '$.purse' = ?1
             ORDER BY r.key DESC LIMIT 1"
        );
        Ok(self.query(&sql, [purse.as_str()], run_row)?.pop())
    }

    /// Asks whoever schedules a run to end it; says whether somebody does.
    pub fn cancel_run(&self, id: &RunId) -> Result<bool, StoreError> {
        let row = self.run_row(id)?;
        Ok(row.is_some_and(|row| row.is_running() && row.owner.signal(Signal::USR1).is_ok()))
    }

    /// All units of a project as their newest runs left them; of all projects without one.
    pub fn unit_views(&self, project: Option<&ProjectId>) -> Result<Vec<UnitView>, StoreError> {
        let sql = format!("{UNITS} WHERE ?1 IS NULL OR u.project = ?1 ORDER BY u.key");
        self.query(&sql, [project.map(ProjectId::as_str)], unit_views())
    }

    /// One unit; of the project named, or of every one that has it.
    pub fn unit_view(&self, project: Option<&ProjectId>, unit: &str) -> Result<Vec<UnitView>, StoreError> {
        let sql = format!("{UNITS} WHERE u.unit = ?2 AND (?1 IS NULL OR u.project = ?1) ORDER BY u.key");
        self.query(&sql, params![project.map(ProjectId::as_str), unit], unit_views())
    }

    /// Forgets how a unit stands; what happened stays in the journal.
    pub fn forget_unit(&mut self, project: &ProjectId, unit: &UnitId) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "DELETE FROM units WHERE project = ?1 AND unit = ?2",
                params![project.as_str(), unit.as_str()],
            )?;
            Ok(())
        })
    }

    /// The units of a run that no later one was about, in the order of its plan.
    pub fn units_of_run(&self, run: &RunId) -> Result<Vec<UnitView>, StoreError> {
        self.query(&format!("{UNITS} WHERE r.id = ?1 ORDER BY u.key"), [run.as_str()], unit_views())
    }

    /// Events of the loops of a run, after a place in the journal, and the unit each is about.
    pub fn loops_of_run(&self, run: &RunId, after: u64) -> Result<Vec<(UnitId, Envelope)>, StoreError> {
        self.loops_where("l.run = ?1", run.as_str(), after)
    }

    /// The same of all loops that any run of a project has started.
    pub fn loops_of_units(
        &self,
        project: &ProjectId,
        after: u64,
    ) -> Result<Vec<(UnitId, Envelope)>, StoreError> {
        self.loops_where("l.run IS NOT NULL AND l.project = ?1", project.as_str(), after)
    }

    fn loops_where(
        &self,
        which: &str,
        value: &str,
        after: u64,
    ) -> Result<Vec<(UnitId, Envelope)>, StoreError> {
        // What is new is little, and the loops may be many: from the events to the loops, never the other way.
        let rows: Vec<(i64, i64, String, String, String)> = self.query(
            &format!(
                "SELECT e.seq, e.at, l.id, e.body, l.task FROM events e CROSS JOIN loops l ON l.key = e.loop
                 WHERE e.seq > ?2 AND {which} ORDER BY e.seq"
            ),
            params![value, after.cast_signed()],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)),
        )?;
        rows.into_iter()
            .map(|(seq, at, id, body, unit)| {
                let unreadable = |why: String| StoreError::Unreadable { seq: seq.cast_unsigned(), why };
                let unit = unit.parse().map_err(|_| unreadable(format!("`{unit}` is no unit")))?;
                Ok((unit, super::journal::envelope((seq, at, id, body))?))
            })
            .collect()
    }
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow { view: json(row, 0)?, owner: owner(row, 1)? })
}

/// Reads units; the processes of their schedulers are looked at once each.
fn unit_views() -> impl FnMut(&Row<'_>) -> rusqlite::Result<UnitView> {
    let mut known: Vec<(Identity, bool)> = Vec::new();
    move |row| {
        let view: UnitView = json(row, 0)?;
        let is_over: bool = row.get(1)?;
        if is_over || view.status.is_over() {
            return Ok(view);
        }
        let owner = owner(row, 2)?;
        let found = known.iter().find(|(other, _)| *other == owner).map(|(_, is_alive)| *is_alive);
        let is_alive = found.unwrap_or_else(|| {
            let is_alive = owner.is_alive();
            known.push((owner, is_alive));
            is_alive
        });
        Ok(if is_alive { view } else { view.with_dead_owner() })
    }
}

fn owner(row: &Row<'_>, at: usize) -> rusqlite::Result<Identity> {
    Ok(Identity {
        pid: row.get(at)?,
        start: row.get::<_, i64>(at + 1)?.cast_unsigned(),
        boot: row.get(at + 2)?,
    })
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    let text: String = row.get(at)?;
    serde_json::from_str(&text)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(e)))
}

/// The one way into a run's stream: what is recorded, applied and published has no secrets.
fn without_secrets(
    events: Vec<(Option<UnitId>, RunEvent)>,
) -> Result<Vec<(Option<UnitId>, RunEvent)>, StoreError> {
    let redact = |(unit, event)| Ok((unit, secrets().redact_run_event(event)?));
    events
        .into_iter()
        .map(redact)
        .collect::<Result<_, serde_json::Error>>()
        .map_err(|error| unwritable(&error))
}

fn envelopes(
    run: &RunId,
    at: Timestamp,
    seq: &mut i64,
    events: Vec<(Option<UnitId>, RunEvent)>,
) -> Vec<RunEnvelope> {
    // Whole microseconds: what is shown live is what is read back later.
    let at = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
    events
        .into_iter()
        .map(|(unit, event)| {
            let envelope = RunEnvelope { seq: seq.cast_unsigned(), at, run: run.clone(), unit, event };
            *seq += 1;
            envelope
        })
        .collect()
}

/// Writes events, and keeps what people see of their units in step with them.
fn insert(
    transaction: &Transaction<'_>,
    run: i64,
    project: &ProjectId,
    envelopes: &[RunEnvelope],
) -> Result<(), StoreError> {
    let mut statement = transaction
        .prepare_cached("INSERT INTO run_events (seq, run, unit, at, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for envelope in envelopes {
        statement.execute(params![
            envelope.seq.cast_signed(),
            run,
            envelope.unit.as_ref().map(UnitId::as_str),
            envelope.at.as_microsecond(),
            to_json(&envelope.event)?,
        ])?;
    }
    let mut views: Vec<UnitView> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for envelope in envelopes {
        if let RunEvent::OrchStarted(started) = &envelope.event {
            for plan in &started.units {
                let before: Option<UnitView> = transaction
                    .prepare_cached("SELECT view FROM units WHERE project = ?1 AND unit = ?2")?
                    .query_row(params![project.as_str(), plan.unit.as_str()], |row| json(row, 0))
                    .optional()?;
                let view = UnitView::begin(&envelope.run, started, plan);
                let view = before.map_or(view.clone(), |before| view.going_on(before));
                // Anew, not over: the order of the rows is that of the plan.
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO units (project, unit, run, view) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![project.as_str(), plan.unit.as_str(), run, to_json(&view)?])?;
                places.insert(plan.unit.clone(), views.len());
                views.push(view);
            }
        }
        let Some(unit) = &envelope.unit else { continue };
        if !places.contains_key(unit) {
            let found: Option<UnitView> = transaction
                .prepare_cached("SELECT view FROM units WHERE project = ?1 AND unit = ?2 AND run = ?3")?
                .query_row(params![project.as_str(), unit.as_str(), run], |row| json(row, 0))
                .optional()?;
            let Some(view) = found else { continue };
            places.insert(unit.clone(), views.len());
            views.push(view);
        }
        if let Some(view) = places.get(unit).and_then(|place| views.get_mut(*place)) {
            view.apply(envelope);
        }
    }
    for view in &views {
        transaction
            .prepare_cached("UPDATE units SET view = ?4 WHERE project = ?1 AND unit = ?2 AND run = ?3")?
            .execute(params![project.as_str(), view.unit.as_str(), run, to_json(view)?])?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
