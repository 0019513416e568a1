//! What the board reads: rows of streams of every kind at once, what has changed since a place in the journal, and what was
//! looked at. No event is read for it, so that a long journal costs no more than a short one. The page of costs alone reads events:
//! the beginnings of iterations, by an index.

use dacapo_core::{
    loop_machine::LoopMachine,
    stages::machine::TaskMachine,
    unit::schedule::RunMachine,
    view::{IterationRow, LoopView, RunView, SpendRow, StageTaskView, UnitView, WorkflowView},
    workflow::machine::WorkflowMachine,
};
use jiff::Timestamp;
use rusqlite::{Row as SqlRow, params};

use super::{
    JournalMachine, Store, StoreError,
    read::{Lease, Row, json, lease, owner},
};
use crate::process::identity::Identity;

/// The view of a stream of any kind, as it stands now.
#[derive(Clone, Debug)]
pub enum AnyView {
    Loop(Box<LoopView>),
    Run(Box<RunView>, Vec<UnitView>),
    Workflow(Box<WorkflowView>),
    Task(Box<StageTaskView>),
}

#[derive(Clone, Debug)]
pub(crate) struct StreamOnBoard {
    pub(crate) key: i64,
    pub(crate) id: String,
    /// Its newest event.
    pub(crate) head: u64,
    /// Whether it has come to its end in the journal.
    pub(crate) is_over: bool,
    pub(crate) is_looked_at: bool,
    pub(crate) owner: Identity,
    pub(crate) lease: Lease,
    pub(crate) is_owned: bool,
    pub(crate) view: AnyView,
}

/// The columns of a stream on the board; the first three are those that its view is read by.
const STREAM: &str = "s.view, s.owner_pid, s.owner_start, s.owner_boot, s.owner_host, s.epoch, s.lease_until,
    s.key, s.id, s.kind, s.head, s.over, k.head IS NOT NULL AND k.head >= s.head";

/// How many that ask something, and how many that failed, are read: no person answers more.
const MOST_NEEDING: u32 = 500;

/// Loops that work for a run are parts of its card.
const STANDS_FOR_ITSELF: &str = "(s.kind <> 'loop' OR s.run IS NULL)";

impl Store {
    /// Streams that have no end, and the loops of runs among them.
    pub(crate) fn open_streams(&self) -> Result<Vec<StreamOnBoard>, StoreError> {
        self.streams("s.kind IN ('loop', 'run', 'workflow', 'task') AND s.over = 0 ORDER BY s.key", [])
    }

    /// The newest `most` streams whose end comes before event `before`, newest first.
    pub(crate) fn ended_streams(&self, before: u64, most: u32) -> Result<Vec<StreamOnBoard>, StoreError> {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        let which = format!("s.ended < ?1 AND {STANDS_FOR_ITSELF} ORDER BY s.ended DESC LIMIT ?2");
        self.streams(&which, params![before, most])
    }

    /// Runs of units, of workflows and of tasks: those without an end, then the newest `most` of those that have one; newest
    /// first.
    pub(crate) fn runs_of_any_kind(&self, most: u32) -> Result<Vec<AnyView>, StoreError> {
        const RUNS: &str = "kind IN ('run', 'workflow', 'task')";
        let mut runs = self.streams(&format!("s.{RUNS} AND s.over = 0 ORDER BY s.key DESC"), [])?;
        // The plus keeps it from walking over the ends of all loops.
        let ended = format!(
            "s.key IN (SELECT key FROM streams WHERE {RUNS} AND over = 1 ORDER BY +ended DESC LIMIT ?1)
             ORDER BY s.ended DESC"
        );
        runs.extend(self.streams(&ended, [most])?);
        Ok(runs.into_iter().map(|run| run.view).collect())
    }

    /// The newest streams that ended because a person has to say or do something, at event `asking_from` or later, and those that
    /// came to no good end at event `failed_from` or later. Whether they need a person does not depend on how many that have ended
    /// are shown. A loop or a run of a task that a later one has taken up is left out.
    pub(crate) fn needing_streams(
        &self,
        asking_from: u64,
        failed_from: u64,
    ) -> Result<Vec<StreamOnBoard>, StoreError> {
        let newest = format!(
            "{STANDS_FOR_ITSELF} AND NOT EXISTS (SELECT 1 FROM streams n WHERE s.kind IN ('loop', 'task') AND n.kind = s.kind
             AND n.project = s.project AND n.task = s.task AND n.key > s.key)
             ORDER BY s.ended DESC LIMIT {MOST_NEEDING}"
        );
        let asking = format!("s.asks = 1 AND s.ended >= ?1 AND {newest}");
        let mut needing = self.streams(&asking, [asking_from.cast_signed()])?;
        let failed = format!(
            "s.asks = 0 AND s.ended >= ?1 AND s.view ->> '$.state' NOT IN ('completed', 'cancelled') AND {newest}"
        );
        needing.extend(self.streams(&failed, [failed_from.cast_signed()])?);
        Ok(needing)
    }

    /// The event and the time of the end before which there are `number` newer ones; the beginning of all if there are not as many.
    pub(crate) fn end_before(&self, number: u32) -> Result<(u64, Timestamp), StoreError> {
        let sql = "SELECT s.ended, e.at FROM streams s JOIN events e ON e.seq = s.ended
                   WHERE s.ended IS NOT NULL ORDER BY s.ended DESC LIMIT 1 OFFSET ?1";
        let found =
            self.query_row(sql, [number], |row| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?)))?;
        Ok(found.map_or((0, Timestamp::MIN), |(seq, at)| {
            (seq, Timestamp::from_microsecond(at).unwrap_or(Timestamp::MIN))
        }))
    }

    /// How many streams there are up to `key`, and how many units. Keys grow, so the first number changes only if streams are
    /// removed.
    pub(crate) fn count_up_to(&self, key: i64) -> Result<(i64, i64), StoreError> {
        // The plus has an index counted, which is a tenth of the work: the rows hold the views.
        let sql = "SELECT (SELECT COUNT(*) FROM streams WHERE +key <= ?1), (SELECT COUNT(*) FROM units)";
        Ok(self.query_row(sql, [key], |row| Ok((row.get(0)?, row.get(1)?)))?.unwrap_or_default())
    }

    /// The key of the newest stream.
    pub(crate) fn newest_key(&self) -> Result<i64, StoreError> {
        let newest =
            self.query_row("SELECT MAX(key) FROM streams", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(newest.flatten().unwrap_or(0))
    }

    pub(crate) fn stream_on_board(&self, key: i64) -> Result<Option<StreamOnBoard>, StoreError> {
        Ok(self.streams("s.key = ?1", [key])?.pop())
    }

    /// The loops of a run.
    pub(crate) fn parts_on_board(&self, run: &str) -> Result<Vec<StreamOnBoard>, StoreError> {
        self.streams("s.run = ?1 AND s.kind = 'loop' ORDER BY s.key", [run])
    }

    fn streams(&self, which: &str, params: impl rusqlite::Params) -> Result<Vec<StreamOnBoard>, StoreError> {
        let sql =
            format!("SELECT {STREAM} FROM streams s LEFT JOIN looks k ON k.stream = s.key WHERE {which}");
        let mut streams = self.query(&sql, params, stream)?;
        for stream in &mut streams {
            if let AnyView::Run(view, units) = &mut stream.view {
                *units = self.units_of_run(&view.id)?;
            }
        }
        Ok(streams)
    }

    /// The streams that have recorded something after `seq`.
    pub(crate) fn changed_streams(&self, seq: u64) -> Result<Vec<i64>, StoreError> {
        // Without the hint the whole index of events by stream is read, which is as long as the journal.
        let sql = "SELECT stream FROM events NOT INDEXED WHERE seq > ?1";
        let mut changed: Vec<i64> = self.query(sql, [seq.cast_signed()], |row| row.get(0))?;
        changed.sort_unstable();
        changed.dedup();
        Ok(changed)
    }

    /// The first event that was recorded at `at` or later. Events are in the order of their times, as far as the clock of the
    /// machine was never set back.
    pub(crate) fn first_since(&self, at: Timestamp) -> Result<u64, StoreError> {
        let at = at.as_microsecond();
        let (mut low, mut high) = (1, self.last_seq()? + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let sql = "SELECT seq, at FROM events WHERE seq >= ?1 ORDER BY seq LIMIT 1";
            let found = self.query_row(sql, [middle.cast_signed()], |row| {
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?))
            })?;
            match found {
                Some((seq, recorded)) if recorded < at => low = seq + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Remembers that a person has looked at the end of a stream. Nothing is written if that is known, or if it goes on.
    pub(crate) fn look_at(&mut self, id: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM streams s LEFT JOIN looks k ON k.stream = s.key
                   WHERE s.id = ?1 AND s.over = 1 AND (k.head IS NULL OR k.head < s.head)";
        if self.query_row(sql, [id], |_| Ok(()))?.is_none() {
            return Ok(false);
        }
        self.transact(|transaction| {
            transaction.execute(
                "INSERT OR REPLACE INTO looks (stream, head) SELECT key, head FROM streams WHERE id = ?1",
                [id],
            )?;
            Ok(true)
        })
    }

    /// The number of the newest look.
    pub(crate) fn newest_look(&self) -> Result<i64, StoreError> {
        let newest =
            self.query_row("SELECT MAX(number) FROM looks", [], |row| row.get::<_, Option<i64>>(0))?;
        Ok(newest.flatten().unwrap_or(0))
    }

    /// Streams that were looked at after look number `after`.
    pub(crate) fn looked_at_after(&self, after: i64) -> Result<Vec<i64>, StoreError> {
        self.query("SELECT stream FROM looks WHERE number > ?1", [after], |row| row.get(0))
    }

    /// What was spent since a moment, everywhere.
    pub(crate) fn spent_since(&self, at: Timestamp) -> Result<f64, StoreError> {
        let sql = "SELECT TOTAL(cost) FROM spend WHERE at >= ?1";
        Ok(self.query_row(sql, [at.as_microsecond()], |row| row.get(0))?.unwrap_or(0.0))
    }

    /// What each agent process took since a moment, oldest first.
    pub(crate) fn spend_rows(&self, since: Timestamp) -> Result<Vec<SpendRow>, StoreError> {
        let sql = "SELECT p.at, p.cost, p.tokens, p.project, s.id, s.task, p.run
                   FROM spend p JOIN streams s ON s.key = p.stream WHERE p.at >= ?1 ORDER BY p.at";
        self.query(sql, [since.as_microsecond()], |row| {
            Ok(SpendRow {
                at: Timestamp::from_microsecond(row.get(0)?).unwrap_or(Timestamp::MIN),
                cost_usd: row.get(1)?,
                tokens: row.get::<_, i64>(2)?.cast_unsigned(),
                project: row.get(3)?,
                loop_id: row.get(4)?,
                task: row.get::<_, Option<String>>(5)?.unwrap_or_default(),
                run: row.get(6)?,
            })
        })
    }

    /// The iterations that began since a moment, oldest first.
    pub(crate) fn iteration_rows(&self, since: Timestamp) -> Result<Vec<IterationRow>, StoreError> {
        // The words of the index `events_iterations`, without which all events would be read.
        let sql = "SELECT e.at, e.body ->> '$.iteration', s.project, s.id, s.task
                   FROM events e JOIN streams s ON s.key = e.stream
                   WHERE substr(e.body, 1, 27) = '{\"type\":\"iteration_started\"' AND e.at >= ?1 ORDER BY e.at";
        self.query(sql, [since.as_microsecond()], |row| {
            Ok(IterationRow {
                at: Timestamp::from_microsecond(row.get(0)?).unwrap_or(Timestamp::MIN),
                number: row.get(1)?,
                project: row.get(2)?,
                loop_id: row.get(3)?,
                task: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            })
        })
    }
}

fn stream(row: &SqlRow<'_>) -> rusqlite::Result<StreamOnBoard> {
    fn seen<M: JournalMachine>(row: &SqlRow<'_>) -> rusqlite::Result<(bool, M::View)> {
        let seen: Row<M> = Row { view: json(row, 0)?, owner: owner(row, 1)?, lease: lease(row, 4)? };
        Ok((seen.is_owned(), seen.current_view()))
    }
    let kind = row.get_ref(9)?.as_str()?.to_owned();
    let (is_owned, view) = match kind.as_str() {
        RunMachine::NAME => {
            let (is_owned, view) = seen::<RunMachine>(row)?;
            (is_owned, AnyView::Run(Box::new(view), Vec::new()))
        }
        WorkflowMachine::NAME => {
            let (is_owned, view) = seen::<WorkflowMachine>(row)?;
            (is_owned, AnyView::Workflow(Box::new(view)))
        }
        TaskMachine::NAME => {
            let (is_owned, view) = seen::<TaskMachine>(row)?;
            (is_owned, AnyView::Task(Box::new(view)))
        }
        _ => {
            let (is_owned, view) = seen::<LoopMachine>(row)?;
            (is_owned, AnyView::Loop(Box::new(view)))
        }
    };
    Ok(StreamOnBoard {
        key: row.get(7)?,
        id: row.get(8)?,
        head: row.get::<_, i64>(10)?.cast_unsigned(),
        is_over: row.get(11)?,
        is_looked_at: row.get(12)?,
        owner: owner(row, 1)?,
        lease: lease(row, 4)?,
        is_owned,
        view,
    })
}
