//! Keeps a board up to date: reads the views of streams once, and then only those of streams that have changed.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use dacapo_core::{
    ids::{ProjectId, TaskId},
    stages::{StageTask, StageTaskStatus},
    view::{self, AllViews, Board, BoardFacts, LoopView, TodoTask},
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    process::identity::Identity,
    stage_tasks,
    store::{AnyView, Lease, Store, StoreError, StreamOnBoard},
};

/// What failed or was interrupted longer ago than this needs no person any more.
const NEEDS_FOR: SignedDuration = SignedDuration::from_hours(24);
/// What failed before so many others ended needs no person any more, either: it costs time to find, and is read by no person.
const NEEDS_AMONG: u32 = 300;
/// An end longer ago than this is not marked any more, and a question then is not asked any more.
const MARKED_FOR: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How often it is asked whether owners live and what was spent: neither is told by the journal in time.
const LOOK_AGAIN: Duration = Duration::from_millis(900);
/// How many more ends than wanted are kept before the oldest are let go.
const SLACK: usize = 200;

/// A board that is kept up to date.
pub struct BoardReader {
    standing: AllViews,
    facts: BoardFacts,
    streams: HashMap<i64, Known>,
    /// How many ended streams are wanted.
    most: u32,
    /// The number of the newest look that is taken in.
    looks: i64,
    /// The newest stream when all was read, and how many streams up to it, and how many units, there were.
    newest: i64,
    counted: (i64, i64),
    /// The oldest end that was read on purpose.
    oldest: u64,
    looked_again: Instant,
}

/// What is remembered of a stream that is on the board.
struct Known {
    id: String,
    head: u64,
    is_over: bool,
    owner: Identity,
    lease: Lease,
    is_owned: bool,
    /// Whether it is a loop that works for a run.
    is_part: bool,
}

impl BoardReader {
    /// A board of loops that another process tells of.
    pub(crate) fn of_loops(loops: Vec<LoopView>) -> Self {
        let mut reader = Self::empty(0);
        reader.standing.loops = loops;
        reader.set_times(Timestamp::now(), Timestamp::MIN);
        reader
    }

    pub(crate) fn replace_loops(&mut self, loops: Vec<LoopView>) -> bool {
        let is_changed = self.standing.loops != loops;
        self.standing.loops = loops;
        is_changed
    }

    fn empty(most: u32) -> Self {
        Self {
            standing: AllViews::default(),
            facts: BoardFacts::default(),
            streams: HashMap::new(),
            most,
            looks: 0,
            newest: 0,
            counted: (0, 0),
            oldest: u64::MAX,
            looked_again: Instant::now(),
        }
    }

    /// Reads what goes on, and the newest `most` of what has ended.
    pub(crate) fn read(store: &Store, most: u32) -> Result<Self, StoreError> {
        let mut reader = Self::empty(most);
        reader.reload(store)?;
        Ok(reader)
    }

    fn reload(&mut self, store: &Store) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let todo = std::mem::take(&mut self.facts.todo);
        *self = Self::empty(self.most);
        self.facts.todo = todo;
        // All of it as of one moment: what is recorded meanwhile comes with the next look.
        store.at_one_moment(|| {
            self.facts.seq = store.last_seq()?;
            self.looks = store.newest_look()?;
            self.newest = store.newest_key()?;
            self.counted = store.count_up_to(self.newest)?;
            let (ends_from, ended_at) = store.end_before(NEEDS_AMONG)?;
            self.set_times(now, ended_at);
            let asking_from = store.first_since(self.facts.marked_since)?;
            let failed_from = store.first_since(self.facts.since)?.max(ends_from);
            for stream in store.open_streams()? {
                self.put(store, stream, true)?;
            }
            for stream in store.needing_streams(asking_from, failed_from)? {
                self.put(store, stream, true)?;
            }
            self.read_ended(store)?;
            self.facts.cost_today = store.spent_since(midnight(now))?;
            Ok(())
        })
    }

    /// Reads the next page of what has ended.
    fn read_ended(&mut self, store: &Store) -> Result<usize, StoreError> {
        let page = store.ended_streams(self.oldest, self.most)?;
        let found = page.len();
        if let Some(last) = page.last() {
            self.oldest = last.head;
        }
        self.facts.has_more = found == self.most as usize && self.most > 0;
        for stream in page {
            self.put(store, stream, true)?;
        }
        Ok(found)
    }

    /// Reads older ends too.
    pub(crate) fn read_more(&mut self, store: &Store) -> Result<usize, StoreError> {
        let found = self.read_ended(store)?;
        self.most = self.most.saturating_add(u32::try_from(found).unwrap_or(u32::MAX));
        Ok(found)
    }

    /// Takes in what was recorded since; says whether anything on the board has changed.
    pub(crate) fn catch_up(&mut self, store: &Store) -> Result<bool, StoreError> {
        let last = store.last_seq()?;
        if last < self.facts.seq {
            // Another journal stands in its place.
            self.reload(store)?;
            return Ok(true);
        }
        let ended = self.streams.values().filter(|known| known.is_over && !known.is_part).count();
        if ended > self.most as usize + SLACK && last > self.facts.seq {
            self.reload(store)?;
            return Ok(true);
        }
        let mut is_changed = false;
        let mut again: Vec<i64> = Vec::new();
        if last > self.facts.seq {
            again.extend(store.changed_streams(self.facts.seq)?);
            self.facts.seq = last;
        }
        let looks = store.newest_look()?;
        if looks > self.looks {
            again.extend(
                store.looked_at_after(self.looks)?.into_iter().filter(|key| self.streams.contains_key(key)),
            );
            self.looks = looks;
        }
        if self.looked_again.elapsed() >= LOOK_AGAIN {
            self.looked_again = Instant::now();
            let counted = store.count_up_to(self.newest)?;
            if counted.0 != self.counted.0 || counted.1 < self.counted.1 {
                // No event tells that streams or units were removed.
                self.reload(store)?;
                return Ok(true);
            }
            self.counted = counted;
            let now = Timestamp::now();
            self.set_times(now, store.end_before(NEEDS_AMONG)?.1);
            let is_otherwise =
                |known: &Known| !known.is_over && known.lease.is_held_by(&known.owner) != known.is_owned;
            again.extend(self.streams.iter().filter(|(_, known)| is_otherwise(known)).map(|(key, _)| *key));
            let cost = store.spent_since(midnight(now))?;
            is_changed |= (cost - self.facts.cost_today).abs() > f64::EPSILON;
            self.facts.cost_today = cost;
        }
        again.sort_unstable();
        again.dedup();
        for key in again {
            if let Some(stream) = store.stream_on_board(key)? {
                is_changed = true;
                let is_new = !self.streams.contains_key(&key);
                self.put(store, stream, is_new)?;
            }
        }
        Ok(is_changed)
    }

    fn set_times(&mut self, now: Timestamp, ended_at: Timestamp) {
        self.facts.since = now.checked_sub(NEEDS_FOR).unwrap_or(Timestamp::MIN).max(ended_at);
        self.facts.marked_since = now.checked_sub(MARKED_FOR).unwrap_or(Timestamp::MIN);
    }

    /// Puts a stream on the board, or in the place where it was; of a run that `is_new`, with its loops.
    fn put(&mut self, store: &Store, stream: StreamOnBoard, is_new: bool) -> Result<(), StoreError> {
        let StreamOnBoard { key, id, head, is_over, is_looked_at, owner, lease, is_owned, view } = stream;
        if is_looked_at {
            self.facts.looked_at.insert(id.clone());
        } else {
            self.facts.looked_at.remove(&id);
        }
        let is_part = matches!(&view, AnyView::Loop(view) if view.tally.run.is_some());
        let run = match &view {
            AnyView::Loop(_) => None,
            AnyView::Run(..) | AnyView::Workflow(_) | AnyView::Task(_) => Some(id.clone()),
        };
        let AllViews { loops, runs, workflows, tasks } = &mut self.standing;
        let is_there = self.streams.contains_key(&key);
        match view {
            AnyView::Loop(view) => place(loops, *view, is_there, |own| own.id.as_str()),
            AnyView::Run(view, units) => place(runs, (*view, units), is_there, |(own, _)| own.id.as_str()),
            AnyView::Workflow(view) => place(workflows, *view, is_there, |own| own.id.as_str()),
            AnyView::Task(view) => place(tasks, *view, is_there, |own| own.id.as_str()),
        }
        self.streams.insert(key, Known { id, head, is_over, owner, lease, is_owned, is_part });
        if let Some(run) = run.filter(|_| is_new) {
            for mut part in store.parts_on_board(&run)? {
                if let AnyView::Loop(view) = &mut part.view
                    && view.tally.run.is_none()
                {
                    view.tally.run = run.parse().ok();
                }
                self.put(store, part, false)?;
            }
        }
        Ok(())
    }

    /// Tells of tasks that have a file and no run.
    pub fn set_todo(&mut self, todo: Vec<TodoTask>) {
        self.facts.todo = todo;
    }

    /// The newest event that is taken in.
    pub fn seq(&self) -> u64 {
        self.facts.seq
    }

    /// The views that the board is made of.
    pub fn standing(&self) -> &AllViews {
        &self.standing
    }

    /// The board as it stands at `now`.
    pub fn board(&self, now: Timestamp) -> Board {
        view::board(&self.standing, &self.facts, now)
    }

    /// How many streams are held in memory.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The newest event of a stream, by the id of its loop or run.
    pub fn head_of(&self, id: &str) -> Option<u64> {
        self.streams.values().find(|known| known.id == id).map(|known| known.head)
    }
}

/// Puts one into its place, or behind the others if it is not there.
fn place<T>(all: &mut Vec<T>, one: T, is_there: bool, id: impl Fn(&T) -> &str) {
    let at = is_there.then(|| all.iter().position(|own| id(own) == id(&one))).flatten();
    match at {
        Some(at) => all[at] = one,
        None => all.push(one),
    }
}

/// When the day of `now` began where this machine is.
pub(crate) fn midnight(now: Timestamp) -> Timestamp {
    now.to_zoned(TimeZone::system()).start_of_day().map_or(now, |day| day.timestamp())
}

/// The tasks of the repository at `root` that are not done, each with those that it waits for.
pub fn todo_of(root: &Path, project: &ProjectId) -> Vec<TodoTask> {
    let found = stage_tasks::load(root).tasks;
    let is_open = |id: &TaskId| {
        found
            .iter()
            .find(|other| other.spec.id == *id)
            .is_none_or(|other| other.status != StageTaskStatus::Done)
    };
    let todo = |task: &StageTask| TodoTask {
        project: project.clone(),
        root: root.to_owned(),
        task: task.spec.id.clone(),
        title: task.spec.title.clone(),
        waits_for: task.spec.depends_on.iter().filter(|id| is_open(id)).cloned().collect(),
    };
    found.iter().filter(|task| task.status != StageTaskStatus::Done).map(todo).collect()
}
