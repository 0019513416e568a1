//! Reading the journal: streams by their rows, events in their order.

use std::path::Path;

use dacapo_core::{
    chain::ChainedEvent,
    duration::Millis,
    event::{Envelope, LoopEvent, LoopStarted, Reason, RunEnvelope, RunEvent, RunStarted},
    ids::{LoopId, ProjectId, RunId, TaskId, UnitId},
    loop_machine::LoopMachine,
    stages::machine::{TaskEnvelope, TaskEvent, TaskMachine, TaskStarted},
    unit::schedule::RunMachine,
    view::{RunView, UnitView},
    workflow::machine::{WorkflowEnvelope, WorkflowEvent, WorkflowMachine, WorkflowStarted},
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row as SqlRow, Transaction, params};

use super::{JournalMachine, Store, StoreError, checkpoint::JournalHash};
use crate::process::identity::{Identity, host};

/// A stream as its row has it.
#[derive(Clone, Debug)]
pub struct Row<M: JournalMachine> {
    pub view: M::View,
    /// The process that writes the stream, or wrote it last.
    pub owner: Identity,
    pub lease: Lease,
}

/// The right of one owner to write a stream, until another process takes the stream over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name of the owner's machine.
    pub host: String,
    /// How often the stream has had a new owner. The journal refuses what a former owner wants to write.
    pub epoch: i64,
    /// Until when an owner on another machine counts as alive. Each event that the owner records moves this on.
    pub until: Timestamp,
}

impl Lease {
    /// Whether the owner holds the lease. On this machine the kernel knows whether the owner lives; for an owner on
    /// another machine only the time of the lease counts.
    pub(crate) fn is_held_by(&self, owner: &Identity) -> bool {
        if self.host == host() { owner.is_alive() } else { self.until > Timestamp::now() }
    }
}

pub type LoopRow = Row<LoopMachine>;

pub type RunRow = Row<RunMachine>;

pub type WorkflowRow = Row<WorkflowMachine>;

pub type TaskRow = Row<TaskMachine>;

impl<M: JournalMachine> Row<M> {
    /// Whether the stream is not over, and its owner is alive or it needs none.
    pub fn is_running(&self) -> bool {
        !M::is_over(&self.view) && (!M::needs_owner(&self.view) || self.is_owned())
    }

    /// Whether the process that writes the stream is alive.
    pub fn is_owned(&self) -> bool {
        self.lease.is_held_by(&self.owner)
    }

    /// The view, which says so if the owner has died without writing an end.
    pub fn current_view(self) -> M::View {
        if M::is_over(&self.view) || self.lease.is_held_by(&self.owner) {
            self.view
        } else {
            M::with_dead_owner(self.view)
        }
    }
}

/// A recorded event of any kind of stream.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyEvent {
    Loop(Box<Envelope>),
    Run(RunEnvelope),
    Workflow(WorkflowEnvelope),
    Task(TaskEnvelope),
}

impl AnyEvent {
    /// Its place in the journal.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Loop(envelope) => envelope.seq,
            Self::Run(envelope) => envelope.seq,
            Self::Workflow(envelope) => envelope.seq,
            Self::Task(envelope) => envelope.seq,
        }
    }
}

/// Whose events to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventScope {
    All,
    Loop(LoopId),
    /// The events of a run and of its loops.
    Run(RunId),
    /// The events of a run about one unit, and of that unit's loops.
    Unit(RunId, UnitId),
}

const ROW: &str = "s.view, s.owner_pid, s.owner_start, s.owner_boot, s.owner_host, s.epoch, s.lease_until";

/// Units, with the columns that tell whether the scheduler of their run is alive.
const UNITS: &str = "SELECT u.view, s.over, s.owner_pid, s.owner_start, s.owner_boot, s.owner_host,
            s.epoch, s.lease_until
     FROM units u JOIN streams s ON s.key = u.run";

/// How many facts are held in memory at once.
const PAGE: usize = 512;

const EVENT: &str = "e.seq, e.at, s.id, e.subject, e.body";

impl Store {
    // --- events ---------------------------------------------------------------------------------------------

    /// Calls `take` with each event of `scope` from `from` on, in order. Only a page of events is held in memory, and
    /// no statement is open while `take` runs.
    pub fn each_fact<E: From<StoreError>>(
        &self,
        scope: &EventScope,
        mut from: u64,
        mut take: impl FnMut(AnyEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let (page, failed) = self.facts(scope, from)?;
            let last = page.last().map(AnyEvent::seq);
            let is_all = page.len() < PAGE;
            page.into_iter().try_for_each(&mut take)?;
            // What comes before an event that cannot be read is handed over.
            if let Some(error) = failed {
                return Err(error.into());
            }
            match last {
                Some(last) if !is_all => from = last + 1,
                _ => return Ok(()),
            }
        }
    }

    /// The next facts of `scope`, from `from` on, up to the first that cannot be read.
    fn facts(
        &self,
        scope: &EventScope,
        from: u64,
    ) -> Result<(Vec<AnyEvent>, Option<StoreError>), StoreError> {
        let sql = |tables: &str, which: &str| {
            format!(
                "SELECT {EVENT}, s.kind FROM {tables} WHERE e.seq >= ?1 AND s.kind IN ('loop', 'run', 'workflow', 'task') AND {which}
                 ORDER BY e.seq LIMIT {PAGE}"
            )
        };
        // For all streams the query begins at the events, because there are few new ones and maybe many streams. For
        // one stream, or those of one run, it begins at the streams.
        const ALL: &str = "events e CROSS JOIN streams s ON s.key = e.stream";
        const ONE: &str = "streams s CROSS JOIN events e ON e.stream = s.key";
        let (sql, one, unit) = match scope {
            EventScope::All => (sql(ALL, "?2 IS NULL AND ?3 IS NULL"), None, None),
            EventScope::Loop(id) => {
                (sql(ONE, "s.id = ?2 AND s.kind = 'loop' AND ?3 IS NULL"), Some(id.as_str()), None)
            }
            EventScope::Run(run) => {
                (sql(ONE, "(s.id = ?2 OR s.run = ?2) AND ?3 IS NULL"), Some(run.as_str()), None)
            }
            EventScope::Unit(run, unit) => (
                sql(ALL, "((s.id = ?2 AND e.subject = ?3) OR (s.run = ?2 AND s.task = ?3))"),
                Some(run.as_str()),
                Some(unit.as_str()),
            ),
        };
        let rows: Vec<(Raw, String)> =
            self.query(&sql, params![place(from), one, unit], |row| Ok((Raw::of(row)?, row.get(5)?)))?;
        let read = |(raw, kind): (Raw, String)| match kind.as_str() {
            RunMachine::NAME => raw.envelope::<RunMachine>().map(AnyEvent::Run),
            WorkflowMachine::NAME => raw.envelope::<WorkflowMachine>().map(AnyEvent::Workflow),
            TaskMachine::NAME => raw.envelope::<TaskMachine>().map(AnyEvent::Task),
            _ => raw.envelope::<LoopMachine>().map(Box::new).map(AnyEvent::Loop),
        };
        let (mut facts, mut failed) = (Vec::with_capacity(rows.len()), None);
        for fact in rows.into_iter().map(read) {
            match fact {
                Ok(fact) => facts.push(fact),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        Ok((facts, failed))
    }

    /// Hands over the events of one stream from `from` on, in order, at most `limit` of them.
    pub(super) fn each<M: JournalMachine>(
        &self,
        id: &M::Id,
        from: u64,
        limit: u32,
        mut take: impl FnMut(M::Envelope) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.each_raw::<M>(id, from, limit, |raw, _| take(raw.envelope::<M>()?))
    }

    /// As [`Store::each`], each event as it was written, with the hash that it carries.
    pub(super) fn each_raw<M: JournalMachine>(
        &self,
        id: &M::Id,
        from: u64,
        limit: u32,
        mut take: impl FnMut(&Raw, Option<&[u8]>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {EVENT}, e.chain FROM streams s CROSS JOIN events e ON e.stream = s.key
             WHERE s.id = ?1 AND s.kind = ?2 AND e.seq >= ?3 ORDER BY e.seq LIMIT ?4"
        );
        let failed = |error: rusqlite::Error| self.error(&error);
        let mut statement = self.db.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(params![id.as_ref(), M::NAME, place(from), limit]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let raw = Raw::of(row).map_err(failed)?;
            let carried = row.get_ref(5).map_err(failed)?;
            take(&raw, carried.as_blob_or_null().map_err(|error| failed(error.into()))?)?;
        }
        Ok(())
    }

    /// Events of one loop, from `from` on, in order.
    pub fn events(&self, id: &LoopId, from: u64) -> Result<Vec<Envelope>, StoreError> {
        self.events_page(id, from, u32::MAX)
    }

    /// At most `limit` events of one loop, from `from` on, in order.
    pub fn events_page(&self, id: &LoopId, from: u64, limit: u32) -> Result<Vec<Envelope>, StoreError> {
        let mut events = Vec::new();
        self.each::<LoopMachine>(id, from, limit, |envelope| {
            events.push(envelope);
            Ok(())
        })?;
        Ok(events)
    }

    /// The newest `limit` events of one loop, in order.
    pub fn newest_events(&self, id: &LoopId, limit: u32) -> Result<Vec<Envelope>, StoreError> {
        let sql = format!(
            "SELECT {EVENT} FROM streams s CROSS JOIN events e ON e.stream = s.key
             WHERE s.id = ?1 AND s.kind = ?2 ORDER BY e.seq DESC LIMIT ?3"
        );
        let newest: Vec<Raw> = self.query(&sql, params![id.as_str(), LoopMachine::NAME, limit], Raw::of)?;
        newest.iter().rev().map(Raw::envelope::<LoopMachine>).collect()
    }

    /// Events of one run, from `from` on, in order.
    pub fn run_events(&self, id: &RunId, from: u64) -> Result<Vec<RunEnvelope>, StoreError> {
        let mut events = Vec::new();
        self.each::<RunMachine>(id, from, u32::MAX, |envelope| {
            events.push(envelope);
            Ok(())
        })?;
        Ok(events)
    }

    /// How a loop began.
    pub fn loop_started(&self, id: &LoopId) -> Result<Option<LoopStarted>, StoreError> {
        Ok(match self.first::<LoopMachine>(id)?.map(|first| first.event) {
            Some(LoopEvent::LoopStarted(started)) => Some(*started),
            _ => None,
        })
    }

    /// How a run began.
    pub fn run_started(&self, id: &RunId) -> Result<Option<RunStarted>, StoreError> {
        Ok(match self.first::<RunMachine>(id)?.map(|first| first.event) {
            Some(RunEvent::OrchStarted(started)) => Some(*started),
            _ => None,
        })
    }

    /// How a run of a workflow began.
    pub fn workflow_started(&self, id: &RunId) -> Result<Option<WorkflowStarted>, StoreError> {
        Ok(match self.first::<WorkflowMachine>(id)?.map(|first| first.event) {
            Some(WorkflowEvent::WorkflowStart(started)) => Some(*started),
            _ => None,
        })
    }

    pub(super) fn first<M: JournalMachine>(&self, id: &M::Id) -> Result<Option<M::Envelope>, StoreError> {
        let sql = format!(
            "SELECT {EVENT} FROM streams s CROSS JOIN events e ON e.stream = s.key
             WHERE s.id = ?1 AND s.kind = ?2 ORDER BY e.seq LIMIT 1"
        );
        let raw = self.query_row(&sql, params![id.as_ref(), M::NAME], Raw::of)?;
        raw.as_ref().map(Raw::envelope::<M>).transpose()
    }

    /// Events of the loops that any run of a project has started, after a place in the journal, and the unit each is
    /// about.
    pub fn loops_of_units(
        &self,
        project: &ProjectId,
        after: u64,
    ) -> Result<Vec<(UnitId, Envelope)>, StoreError> {
        let sql = format!(
            "SELECT {EVENT}, s.task FROM events e CROSS JOIN streams s ON s.key = e.stream
             WHERE e.seq > ?2 AND s.kind = 'loop' AND s.run IS NOT NULL AND s.project = ?1
             AND NOT EXISTS (SELECT 1 FROM streams w WHERE w.id = s.run AND w.kind IN ('workflow', 'task')) ORDER BY e.seq"
        );
        let rows: Vec<(Raw, String)> = self
            .query(&sql, params![project.as_str(), place(after)], |row| Ok((Raw::of(row)?, row.get(5)?)))?;
        let read = |(raw, unit): (Raw, String)| {
            let seq = raw.seq;
            let envelope = raw.envelope::<LoopMachine>()?;
            let unit = unit
                .parse()
                .map_err(|_| StoreError::Unreadable { seq, why: format!("`{unit}` is no unit") })?;
            Ok((unit, envelope))
        };
        rows.into_iter().map(read).collect()
    }

    /// Events of the loops of a run of a workflow, after a place in the journal and up to another.
    pub fn loops_of_workflow(
        &self,
        run: &RunId,
        after: u64,
        up_to: u64,
    ) -> Result<Vec<Envelope>, StoreError> {
        let up_to = i64::try_from(up_to).unwrap_or(i64::MAX);
        let sql = format!(
            "SELECT {EVENT} FROM events e CROSS JOIN streams s ON s.key = e.stream
             WHERE e.seq > ?2 AND e.seq <= ?3 AND s.kind = 'loop' AND s.run = ?1 ORDER BY e.seq"
        );
        let rows: Vec<Raw> = self.query(&sql, params![run.as_str(), place(after), up_to], Raw::of)?;
        rows.iter().map(Raw::envelope::<LoopMachine>).collect()
    }

    /// The loops of a run, oldest first.
    pub fn loops_of_run(&self, run: &RunId) -> Result<Vec<LoopRow>, StoreError> {
        self.rows("s.run = ?1 ORDER BY s.key", [run.as_str()])
    }

    /// Whether `hash` is what [`Stream::journal_hash`](super::Stream::journal_hash) gave at some moment of the loop: nothing
    /// before it was altered. Reads the events and trusts no checkpoint.
    pub fn had_journal_hash(&self, id: &LoopId, hash: &str) -> Result<bool, StoreError> {
        let (mut so_far, mut had) = (JournalHash::default(), false);
        self.each_body(id, |body| {
            so_far.take(body);
            had = so_far.hex() == hash;
            !had
        })?;
        Ok(had)
    }

    fn each_body(&self, id: &LoopId, mut take: impl FnMut(&str) -> bool) -> Result<(), StoreError> {
        let sql =
            "SELECT body FROM events WHERE stream = (SELECT key FROM streams WHERE id = ?1) ORDER BY seq";
        let failed = |error: rusqlite::Error| self.error(&error);
        let mut statement = self.db.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([id.as_str()]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let body = row.get_ref(0).map_err(failed)?.as_str().map_err(|error| failed(error.into()))?;
            if !take(body) {
                break;
            }
        }
        Ok(())
    }

    /// The place of the newest event.
    pub fn last_seq(&self) -> Result<u64, StoreError> {
        let last = self.query_row("SELECT MAX(seq) FROM events", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(last.flatten().unwrap_or(0).cast_unsigned())
    }

    // --- loops ----------------------------------------------------------------------------------------------

    /// Loops whose journal has no end, oldest first.
    pub fn active(&self) -> Result<Vec<LoopRow>, StoreError> {
        self.rows("s.over = 0 ORDER BY s.key", [])
    }

    /// The loop of a chat session that is not over. Few loops are active at a time, so they are looked at one by one.
    pub fn active_in_session(&self, session: &str) -> Result<Option<LoopRow>, StoreError> {
        let rows: Vec<LoopRow> = self.rows(
            "s.over = 0 AND s.task = ?1 ORDER BY s.key DESC",
            [dacapo_core::session::task_of(session).as_str()],
        )?;
        Ok(rows.into_iter().find(|row| row.view.session.as_deref() == Some(session)))
    }

    /// The loops of chat sessions that are not over, newest first.
    pub fn active_in_sessions(&self) -> Result<Vec<LoopRow>, StoreError> {
        let rows: Vec<LoopRow> =
            self.rows("s.over = 0 AND s.task LIKE 'session-%' ORDER BY s.key DESC", [])?;
        Ok(rows.into_iter().filter(|row| row.view.session.is_some()).collect())
    }

    /// The newest loops that have ended, newest first.
    pub fn recent(&self, limit: u32) -> Result<Vec<LoopRow>, StoreError> {
        self.rows("s.over = 1 ORDER BY s.key DESC LIMIT ?1", [limit])
    }

    pub fn row(&self, id: &LoopId) -> Result<Option<LoopRow>, StoreError> {
        Ok(self.rows("s.id = ?1", [id.as_str()])?.pop())
    }

    /// Loops whose id begins with `prefix`; at most a few.
    pub fn with_prefix(&self, prefix: &str) -> Result<Vec<LoopRow>, StoreError> {
        // GLOB instead of LIKE, because ids may hold `_`, a wildcard of LIKE and not of GLOB.
        self.rows("s.id GLOB ?1 || '*' ORDER BY s.key LIMIT 9", [prefix])
    }

    /// The newest loop of a task, in each project or in one.
    pub fn newest_of_task(
        &self,
        project: Option<&ProjectId>,
        task: &str,
    ) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(
            "s.key IN (SELECT MAX(key) FROM streams
             WHERE task = ?1 AND kind = 'loop' AND (?2 IS NULL OR project = ?2) GROUP BY project)",
            params![task, project.map(ProjectId::as_str)],
        )
    }

    /// All loops of a task, oldest first.
    pub fn loops_of_task(&self, project: &ProjectId, task: &str) -> Result<Vec<LoopRow>, StoreError> {
        self.rows("s.project = ?1 AND s.task = ?2 ORDER BY s.key", params![project.as_str(), task])
    }

    /// Whether the newest loop of a task is done.
    pub fn is_done(&self, project: &ProjectId, task: &TaskId) -> Result<bool, StoreError> {
        let newest = self.newest_of_task(Some(project), task.as_str())?.pop();
        Ok(newest.is_some_and(|row| row.view.reason == Some(Reason::Done)))
    }

    /// Running loops that use the budget of a run: those of that run, or of a run that goes on with it.
    pub fn working_loops_on_budget_of(&self, run: &RunId) -> Result<Vec<LoopRow>, StoreError> {
        let rows: Vec<LoopRow> = self.rows("s.run = ?1 AND s.over = 0", [run.as_str()])?;
        Ok(rows.into_iter().filter(LoopRow::is_running).collect())
    }

    /// Child loops of `parent` whose supervisor is alive.
    pub fn running_children(&self, parent: &LoopId) -> Result<Vec<LoopRow>, StoreError> {
        let rows: Vec<LoopRow> = self.rows("s.parent = ?1 AND s.over = 0", [parent.as_str()])?;
        Ok(rows.into_iter().filter(LoopRow::is_running).collect())
    }

    /// Streams that have no end, that have recorded something since `since`, or that have waited for a person since
    /// `waiting_since`; oldest first.
    pub(crate) fn standing<M: JournalMachine>(
        &self,
        since: Timestamp,
        waiting_since: Timestamp,
    ) -> Result<Vec<Row<M>>, StoreError> {
        self.rows(
            "(s.over = 0 OR EXISTS (SELECT 1 FROM events e WHERE e.seq = s.head
             AND (e.at >= ?1 OR (e.at >= ?2 AND s.view ->> '$.exit_code' = 4)))) ORDER BY s.key",
            [since.as_microsecond(), waiting_since.as_microsecond()],
        )
    }

    // --- runs and units -------------------------------------------------------------------------------------

    /// Runs whose journal has no end, oldest first.
    pub fn active_runs(&self) -> Result<Vec<RunRow>, StoreError> {
        self.rows("s.over = 0 ORDER BY s.key", [])
    }

    /// The newest run, of one project or of all.
    pub fn newest_run(&self, project: Option<&ProjectId>) -> Result<Option<RunRow>, StoreError> {
        let which = "(?1 IS NULL OR s.project = ?1) ORDER BY s.key DESC LIMIT 1";
        Ok(self.rows(which, [project.map(ProjectId::as_str)])?.pop())
    }

    /// All runs of units of a project, oldest first.
    pub fn runs_of(&self, project: &ProjectId) -> Result<Vec<RunRow>, StoreError> {
        self.rows("s.project = ?1 ORDER BY s.key", [project.as_str()])
    }

    /// The newest run that has ended.
    pub fn newest_ended_run(&self) -> Result<Option<RunRow>, StoreError> {
        Ok(self.rows("s.over = 1 ORDER BY s.key DESC LIMIT 1", [])?.pop())
    }

    pub fn run_row(&self, id: &RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self.rows("s.id = ?1", [id.as_str()])?.pop())
    }

    pub fn workflow_row(&self, id: &RunId) -> Result<Option<WorkflowRow>, StoreError> {
        Ok(self.rows("s.id = ?1", [id.as_str()])?.pop())
    }

    /// Runs of workflows whose journal has no end, oldest first.
    pub fn active_workflows(&self) -> Result<Vec<WorkflowRow>, StoreError> {
        self.rows("s.over = 0 ORDER BY s.key", [])
    }

    /// The newest runs of workflows that have ended, newest first.
    pub fn recent_workflows(&self, limit: u32) -> Result<Vec<WorkflowRow>, StoreError> {
        self.rows("s.over = 1 ORDER BY s.key DESC LIMIT ?1", [limit])
    }

    /// How a run of a task began.
    pub fn task_started(&self, id: &RunId) -> Result<Option<TaskStarted>, StoreError> {
        Ok(match self.first::<TaskMachine>(id)?.map(|first| first.event) {
            Some(TaskEvent::TaskStarted(started)) => Some(*started),
            _ => None,
        })
    }

    pub fn task_row(&self, id: &RunId) -> Result<Option<TaskRow>, StoreError> {
        Ok(self.rows("s.id = ?1", [id.as_str()])?.pop())
    }

    /// The newest run of each task, in one project or in all, oldest first.
    pub fn newest_tasks(&self, project: Option<&ProjectId>) -> Result<Vec<TaskRow>, StoreError> {
        self.rows(
            "s.key IN (SELECT MAX(key) FROM streams WHERE kind = 'task' AND (?1 IS NULL OR project = ?1)
             GROUP BY project, task) ORDER BY s.key",
            [project.map(ProjectId::as_str)],
        )
    }

    /// The newest run of a task, in each project or in one.
    pub fn newest_run_of_task(
        &self,
        project: Option<&ProjectId>,
        task: &str,
    ) -> Result<Vec<TaskRow>, StoreError> {
        self.rows(
            "s.key IN (SELECT MAX(key) FROM streams WHERE kind = 'task' AND task = ?2 AND (?1 IS NULL OR project = ?1)
             GROUP BY project) ORDER BY s.key",
            params![project.map(ProjectId::as_str), task],
        )
    }

    /// What runs of tasks of a project have recorded: of one task or of all, of at most `most` runs, the newest last.
    pub fn history_of_tasks(
        &self,
        project: &ProjectId,
        task: Option<&TaskId>,
        most: u32,
    ) -> Result<Vec<TaskEnvelope>, StoreError> {
        let rows: Vec<TaskRow> = self.rows(
            "s.project = ?1 AND (?2 IS NULL OR s.task = ?2) ORDER BY s.key DESC LIMIT ?3",
            params![project.as_str(), task.map(TaskId::as_str), most],
        )?;
        let mut recorded = Vec::new();
        for row in rows.iter().rev() {
            self.each::<TaskMachine>(&row.view.id, 0, u32::MAX, |envelope| {
                recorded.push(envelope);
                Ok(())
            })?;
        }
        Ok(recorded)
    }

    /// The newest run that uses the budget of `run`: that run itself, or one that goes on with it.
    pub fn newest_on_budget_of(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        let which = "EXISTS (SELECT 1 FROM events e WHERE e.stream = s.key
                     AND e.body ->> '$.type' = 'orch.started' AND e.body ->> '$.budget_of' = ?1)
                     ORDER BY s.key DESC LIMIT 1";
        Ok(self.rows(which, [run.as_str()])?.pop())
    }

    /// How long a run lasted, without the time that a person paused it. A run that died without an end lasted until
    /// its last event.
    pub fn run_lasted(&self, run: &RunView) -> Result<Millis, StoreError> {
        let ended = match run.ended_at {
            Some(ended) => ended,
            None => self.last_sign_of(&run.id, &run.project)?,
        };
        Ok(run.lasted(ended))
    }

    /// When a run without an end, or a loop of it, recorded its last event. Events that another process recorded
    /// because it found them dead do not count.
    pub(crate) fn last_sign_of(&self, run: &RunId, project: &ProjectId) -> Result<Timestamp, StoreError> {
        let recorded = self.run_events(run, 0)?;
        let first = recorded.first().map_or(0, |envelope| envelope.seq);
        let mut newest = recorded.last().map_or(Timestamp::UNIX_EPOCH, |envelope| envelope.at);
        let loops = self.loops_of_units(project, first)?;
        // The process that finds a dead loop records all of its last events at once.
        let buried: std::collections::BTreeSet<_> = loops
            .iter()
            .filter(|(_, envelope)| {
                matches!(envelope.event, LoopEvent::LoopFinished { reason: Reason::Interrupted, .. })
            })
            .map(|(_, envelope)| (envelope.loop_id.clone(), envelope.at))
            .collect();
        for (_, envelope) in loops {
            if !buried.contains(&(envelope.loop_id, envelope.at)) {
                newest = newest.max(envelope.at);
            }
        }
        Ok(newest)
    }

    /// All units of a project as their newest runs left them; of all projects without one.
    pub fn unit_views(&self, project: Option<&ProjectId>) -> Result<Vec<UnitView>, StoreError> {
        let sql = format!("{UNITS} WHERE ?1 IS NULL OR u.project = ?1 ORDER BY u.key");
        self.query(&sql, [project.map(ProjectId::as_str)], unit_views())
    }

    /// The units of this name, in the given project or in all.
    pub fn unit_view(&self, project: Option<&ProjectId>, unit: &str) -> Result<Vec<UnitView>, StoreError> {
        let sql = format!("{UNITS} WHERE u.unit = ?2 AND (?1 IS NULL OR u.project = ?1) ORDER BY u.key");
        self.query(&sql, params![project.map(ProjectId::as_str), unit], unit_views())
    }

    /// The units of a run that no later run worked on, in the order of its plan.
    pub fn units_of_run(&self, run: &RunId) -> Result<Vec<UnitView>, StoreError> {
        self.query(&format!("{UNITS} WHERE s.id = ?1 ORDER BY u.key"), [run.as_str()], unit_views())
    }

    /// Deletes the view of a unit. Its events stay in the journal.
    pub fn forget_unit(&mut self, project: &ProjectId, unit: &UnitId) -> Result<(), StoreError> {
        self.transact(|transaction| {
            transaction.execute(
                "DELETE FROM units WHERE project = ?1 AND unit = ?2",
                params![project.as_str(), unit.as_str()],
            )?;
            Ok(())
        })
    }

    // --- rows -----------------------------------------------------------------------------------------------

    pub(super) fn rows<M: JournalMachine>(
        &self,
        which: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Row<M>>, StoreError> {
        let sql = format!("SELECT {ROW} FROM streams s WHERE s.kind = '{}' AND {which}", M::NAME);
        self.query(&sql, params, stream_row)
    }

    pub(super) fn query<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        (|| self.db.prepare_cached(sql)?.query_map(params, read)?.collect::<rusqlite::Result<Vec<T>>>())()
            .map_err(|error| self.error(&error))
    }

    pub(super) fn query_row<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnOnce(&SqlRow<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        (|| self.db.prepare_cached(sql)?.query_row(params, read).optional())()
            .map_err(|error| self.error(&error))
    }
}

/// An event as the database has it.
pub(super) struct Raw {
    pub(super) seq: u64,
    at: i64,
    id: String,
    subject: Option<String>,
    pub(super) body: String,
}

impl Raw {
    fn of(row: &SqlRow<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get::<_, i64>(0)?.cast_unsigned(),
            at: row.get(1)?,
            id: row.get(2)?,
            subject: row.get(3)?,
            body: row.get(4)?,
        })
    }

    pub(super) fn chained(&self) -> ChainedEvent<'_> {
        ChainedEvent { seq: self.seq, at: self.at, subject: self.subject.as_deref(), body: &self.body }
    }

    pub(super) fn envelope<M: JournalMachine>(&self) -> Result<M::Envelope, StoreError> {
        let Self { seq, at, id, subject, body } = self;
        let seq = *seq;
        let unreadable = |why| StoreError::Unreadable { seq, why };
        let at = Timestamp::from_microsecond(*at).map_err(|error| unreadable(error.to_string()))?;
        M::read(id, seq, at, subject.as_deref(), body).map_err(unreadable)
    }
}

/// Loops without an end that work in `workspace`, from within a transaction.
pub(super) fn loop_rows_in(
    transaction: &Transaction<'_>,
    workspace: &Path,
) -> Result<Vec<LoopRow>, StoreError> {
    let sql =
        format!("SELECT {ROW} FROM streams s WHERE s.kind = 'loop' AND s.over = 0 AND s.workspace = ?1");
    let mut statement = transaction.prepare_cached(&sql)?;
    let rows = statement.query_map([workspace.to_string_lossy()], stream_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn stream_row<M: JournalMachine>(row: &SqlRow<'_>) -> rusqlite::Result<Row<M>> {
    Ok(Row { view: json(row, 0)?, owner: owner(row, 1)?, lease: lease(row, 4)? })
}

/// Reads units. It asks the kernel once for each scheduler whether it is alive.
fn unit_views() -> impl FnMut(&SqlRow<'_>) -> rusqlite::Result<UnitView> {
    let mut known: Vec<(Identity, bool)> = Vec::new();
    move |row| {
        let view: UnitView = json(row, 0)?;
        let is_over: bool = row.get(1)?;
        if is_over || view.status.is_over() {
            return Ok(view);
        }
        let owner = owner(row, 2)?;
        let found = known.iter().find(|(other, _)| *other == owner).map(|(_, is_alive)| *is_alive);
        let is_alive = match found {
            Some(is_alive) => is_alive,
            None => {
                let is_alive = lease(row, 5)?.is_held_by(&owner);
                known.push((owner, is_alive));
                is_alive
            }
        };
        Ok(if is_alive { view } else { view.with_dead_owner() })
    }
}

/// A place in the journal as the database knows it; one behind all places stays behind them.
fn place(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

pub(super) fn owner(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<Identity> {
    Ok(Identity {
        pid: row.get(at)?,
        start: row.get::<_, i64>(at + 1)?.cast_unsigned(),
        boot: row.get(at + 2)?,
    })
}

pub(super) fn lease(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<Lease> {
    let until = Timestamp::from_microsecond(row.get(at + 2)?).unwrap_or(Timestamp::MIN);
    Ok(Lease { host: row.get(at)?, epoch: row.get(at + 1)?, until })
}

pub(super) fn json<T: serde::de::DeserializeOwned>(row: &SqlRow<'_>, at: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(at)?.as_str()?;
    serde_json::from_slice(text.as_bytes())
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(e)))
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| unwritable(&error))
}

pub(super) fn unwritable(error: &serde_json::Error) -> StoreError {
    StoreError::Other { path: String::new(), why: error.to_string() }
}
