//! One way to look at loops and runs and to ask something of them, for everything that does not run them: read, follow
//! from a sequence number, request, start.
//!
//! Behind it is the journal, or, for `dacapo` below an agent, the supervisor of the agent's loop, which shows that loop
//! and its children and nothing else. Runs and units are not shown there.

mod messages;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ffi::OsStr,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    time::{Duration, Instant},
};

use dacapo_core::{
    agent::transcript::TranscriptEntry,
    duration::Millis,
    event::{Envelope, LoopStarted, OutputMarks, Reason, RunStarted},
    goalposts::kind_of,
    ids::{LoopId, ProjectId, RunId, TaskId, UnitId},
    item::ItemSource,
    loop_machine::{LoopMachine, Request},
    plan::claimed_tasks,
    receipt::Receipt,
    stages::machine::{TaskEnvelope, TaskMachine, TaskStarted},
    unit::{TaskStatus, Unit, schedule::RunMachine},
    view::{
        self, AllViews, ChangedFiles, Costs, LoopPage, LoopView, RunPage, RunView, StageTaskView, TaskPage,
        UnitView, WorkflowPage, WorkflowView,
    },
    workflow::machine::{WorkflowMachine, WorkflowStarted},
};
use jiff::{SignedDuration, Timestamp};

use crate::{
    board::BoardReader,
    home::{Home, HomeError},
    inside::{
        Inside, InsideError, SupervisorNews,
        protocol::{Ask, AskAnswer, AskRefusal, LoopRecord, Watched},
        unexpected,
    },
    own_command,
    process::background::{BackgroundStart, send},
    proof,
    repository::Repository,
    scheduler::every_doubt,
    snapshots::{self, DiffForm, KeptSnapshot, Restored, RunChange, SnapshotChoice, SnapshotError, WorkDone},
    store::{
        AnyEvent, Channel, EventScope, LoopRow, RunRow, Segments, Store, StoreError, TaskRow, WorkflowRow,
    },
    supervisor::{self, StartError, answers},
    watch::Watch,
};
pub use crate::{
    own_command::CommandEnd,
    store::{AnyView, StreamId},
};

/// How much output is read at once.
const CHUNK: u64 = 64 << 10;
/// How long a wait for an end goes without a look: the end in the journal comes before that of the process.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a follower of the journal waits for a change before it looks anyway: an owner that dies changes nothing.
const LOOK_ANYWAY: Duration = Duration::from_secs(1);
/// The same below an agent, where the supervisor also tells of a child whose process has ended.
const LOOK_ANYWAY_INSIDE: Duration = Duration::from_secs(60);

/// What has waited for a person longer than this before the time that is asked about is not shown any more.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Looks at loops and runs and asks things of them.
pub struct Client {
    way: Way,
}

enum Way {
    Journal { home: Home, store: Box<Store> },
    Supervisor(Inside),
}

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The supervisor of the loop this runs in.
    #[error(transparent)]
    Inside(#[from] InsideError),
    /// A loop that has no supervisor.
    #[error(transparent)]
    Start(#[from] StartError),
    /// What is kept of a workspace.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("cannot read what loop {id} printed: {source}")]
    Output { id: LoopId, source: io::Error },
    /// inotify is not available, so a client would not learn of changes.
    #[error("cannot watch the journal: {0}")]
    Watch(io::Error),
    /// No process for it.
    #[error("cannot start in the background: {0}")]
    Background(io::Error),
}

/// A loop or a run as it stands now.
#[derive(Clone, Debug)]
pub struct CurrentView<V> {
    /// What people see of it; one whose owner died is shown as stopped.
    pub view: V,
    /// Whether a process runs it.
    pub is_running: bool,
}

/// A loop as it stands now.
pub type LoopSeen = CurrentView<LoopView>;
/// A run of units as it stands now.
pub type RunSeen = CurrentView<RunView>;

impl From<LoopRow> for LoopSeen {
    fn from(row: LoopRow) -> Self {
        Self { is_running: row.is_running(), view: row.current_view() }
    }
}

impl From<RunRow> for RunSeen {
    fn from(row: RunRow) -> Self {
        Self { is_running: row.is_running(), view: row.current_view() }
    }
}

/// A run of a workflow as it stands now.
pub type WorkflowSeen = CurrentView<WorkflowView>;

impl From<WorkflowRow> for WorkflowSeen {
    fn from(row: WorkflowRow) -> Self {
        Self { is_running: row.is_running(), view: row.current_view() }
    }
}

/// A run of a task as it stands now.
pub type TaskSeen = CurrentView<StageTaskView>;

impl From<TaskRow> for TaskSeen {
    fn from(row: TaskRow) -> Self {
        Self { is_running: row.is_running(), view: row.current_view() }
    }
}

impl From<LoopRecord> for LoopSeen {
    fn from(record: LoopRecord) -> Self {
        Self { view: record.view, is_running: record.is_running }
    }
}

fn seen(rows: Vec<LoopRow>) -> Vec<LoopSeen> {
    rows.into_iter().map(LoopSeen::from).collect()
}

/// Which tasks were complete when a run of units first saw them.
#[derive(Default)]
struct FirstSeen {
    tasks: BTreeMap<(UnitId, u32), bool>,
    /// The commit at which the target was before the first run; `None` if no run says so.
    tip: Option<String>,
}

impl FirstSeen {
    fn of(store: &Store, project: &ProjectId) -> Result<Self, ClientError> {
        let mut seen = Self::default();
        for run in store.runs_of(project)? {
            let Some(started) = store.run_started(&run.view.id)? else { continue };
            if seen.tip.is_none() {
                seen.tip.clone_from(&started.tip);
            }
            for plan in &started.units {
                for number in plan.tasks.iter().map(|(number, _)| *number) {
                    let is_complete = plan.complete.contains(&number);
                    seen.tasks.entry((plan.unit.clone(), number)).or_insert(is_complete);
                }
            }
        }
        Ok(seen)
    }

    /// Whether the task was complete at first sight. One that no run has seen was complete then if the target had it so before the
    /// first run; where no run says what the target was, nothing speaks against it.
    fn was_complete(&self, home: &Home, root: &Path, (unit, number): (&UnitId, u32), file: &str) -> bool {
        if let Some(is_complete) = self.tasks.get(&(unit.clone(), number)) {
            return *is_complete;
        }
        let Some(tip) = &self.tip else { return true };
        let content =
            Repository::open(root, home).ok().and_then(|repo| repo.file_at(tip, file).ok().flatten());
        let task = content.and_then(|bytes| dacapo_core::unit::check::task(file, &bytes).ok());
        task.is_some_and(|task| task.status == TaskStatus::Complete)
    }
}

impl Client {
    /// A client that reads the journal of `home`, which is made if there is none.
    pub fn of_journal(home: &Home) -> Result<Self, ClientError> {
        home.prepare()?;
        let store = Box::new(Store::open(&home.database())?);
        Ok(Self { way: Way::Journal { home: home.clone(), store } })
    }

    /// A client that asks the supervisor of the loop this process runs in.
    pub fn of_supervisor(inside: Inside) -> Self {
        Self { way: Way::Supervisor(inside) }
    }

    /// Whether this runs below an agent.
    pub fn is_inside(&self) -> bool {
        matches!(self.way, Way::Supervisor(_))
    }

    /// The journal; an empty answer is right where there is none.
    fn journal(&self) -> Option<&Store> {
        match &self.way {
            Way::Journal { store, .. } => Some(store),
            Way::Supervisor(_) => None,
        }
    }

    fn family(inside: &Inside, is_meant: impl Fn(&LoopSeen) -> bool) -> Result<Vec<LoopSeen>, ClientError> {
        match inside.ask(&Ask::Family)? {
            AskAnswer::Loops { loops, .. } => {
                Ok(loops.into_iter().map(LoopSeen::from).filter(is_meant).collect())
            }
            other => Err(unexpected(&other).into()),
        }
    }

    // --- loops ----------------------------------------------------------------------------------------------

    /// The loop with this id.
    pub fn loop_of_id(&self, id: &LoopId) -> Result<Option<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(store.row(id)?.map(LoopSeen::from)),
            Way::Supervisor(inside) => Ok(Self::family(inside, |seen| seen.view.id == *id)?.pop()),
        }
    }

    /// A few of the loops whose id begins with `prefix`.
    pub fn loops_with_prefix(&self, prefix: &str) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.with_prefix(prefix)?)),
            Way::Supervisor(inside) => Self::family(inside, |seen| seen.view.id.as_str().starts_with(prefix)),
        }
    }

    /// The newest loop of a task, in each project or in one.
    pub fn newest_of_task(
        &self,
        project: Option<&ProjectId>,
        task: &str,
    ) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.newest_of_task(project, task)?)),
            Way::Supervisor(inside) => {
                let of_task = Self::family(inside, |seen| seen.view.task.as_str() == task)?;
                Ok(newest_each(of_task, project))
            }
        }
    }

    /// The newest loop of each task whose name begins with `prefix`; at most a few.
    pub fn tasks_with_prefix(
        &self,
        project: Option<&ProjectId>,
        prefix: &str,
    ) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.tasks_with_prefix(project, prefix)?)),
            Way::Supervisor(inside) => {
                let of_task = Self::family(inside, |seen| seen.view.task.as_str().starts_with(prefix))?;
                Ok(newest_each(of_task, project))
            }
        }
    }

    /// All loops of a task, oldest first.
    pub fn loops_of_task(&self, project: &ProjectId, task: &str) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.loops_of_task(project, task)?)),
            Way::Supervisor(inside) => {
                Self::family(inside, |seen| seen.view.task.as_str() == task && seen.view.project == *project)
            }
        }
    }

    /// The loops that have no end in the journal, oldest first.
    pub fn active(&self) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.active()?)),
            Way::Supervisor(inside) => Self::family(inside, |seen| seen.is_running),
        }
    }

    /// The newest loops that have ended, newest first.
    pub fn recent(&self, most: u32) -> Result<Vec<LoopSeen>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(seen(store.recent(most)?)),
            Way::Supervisor(inside) => {
                let mut ended = Self::family(inside, |seen| !seen.is_running)?;
                ended.reverse();
                ended.truncate(usize::try_from(most).unwrap_or(usize::MAX));
                Ok(ended)
            }
        }
    }

    /// Everything that goes on, that has come to its end since `since`, or that waits for a person: what a report and the
    /// list of who needs a person are folded from.
    pub fn standing(&self, since: Timestamp) -> Result<AllViews, ClientError> {
        let (home, store) = match &self.way {
            Way::Journal { home, store } => (home, store),
            Way::Supervisor(inside) => {
                let loops = Self::family(inside, |_| true)?.into_iter().map(|seen| seen.view).collect();
                return Ok(AllViews { loops, ..AllViews::default() });
            }
        };
        let waiting_since = since.checked_sub(FORGOTTEN_AFTER).unwrap_or(Timestamp::MIN);
        let mut standing = AllViews::default();
        for row in store.standing::<RunMachine>(since, waiting_since)? {
            let view = row.current_view();
            let units = store.units_of_run(&view.id)?;
            standing.runs.push((view, units));
        }
        let workflows = store.standing::<WorkflowMachine>(since, waiting_since)?;
        standing.workflows = workflows.into_iter().map(WorkflowRow::current_view).collect();
        // Of a task the newest run counts.
        let newest = store.newest_tasks(None)?.into_iter().map(|row| row.view.id);
        let newest: HashSet<RunId> = newest.collect();
        let tasks = store.standing::<TaskMachine>(since, waiting_since)?;
        let tasks = tasks.into_iter().map(TaskRow::current_view);
        standing.tasks = tasks.filter(|view| newest.contains(&view.id)).collect();
        let mut runs: Vec<RunId> = standing.runs.iter().map(|(run, _)| run.id.clone()).collect();
        runs.extend(standing.workflows.iter().map(|view| view.id.clone()));
        runs.extend(standing.tasks.iter().map(|view| view.id.clone()));
        // What a run costs includes loops that ended long ago.
        for run in runs {
            for row in store.loops_of_run(&run)? {
                let mut view = row.current_view();
                view.tally.run = Some(run.clone());
                standing.loops.push(view);
            }
        }
        let known: HashSet<LoopId> = standing.loops.iter().map(|view| view.id.clone()).collect();
        let others = store.standing::<LoopMachine>(since, waiting_since)?.into_iter();
        let others = others.map(LoopRow::current_view).filter(|view| !known.contains(&view.id));
        standing.loops.extend(others);
        // A claim says what was changed. Where there was none, the snapshots do, if they are still there.
        for view in &mut standing.loops {
            let is_own = view.tally.run.is_none() && view.parent.is_none();
            if is_own && view.is_over() && view.iteration > 0 && view.tally.changed.is_none() {
                let paths = snapshots::changed_paths(home, store, &view.id);
                view.tally.changed = paths.ok().map(ChangedFiles::of);
            }
        }
        Ok(standing)
    }

    /// How a loop began.
    pub fn loop_started(&self, id: &LoopId) -> Result<Option<LoopStarted>, ClientError> {
        Ok(self.journal().map(|store| store.loop_started(id)).transpose()?.flatten())
    }

    /// The newest loop or run that the user has started anywhere.
    pub fn newest_stream(&self) -> Result<Option<StreamId>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(store.newest_stream(None)?),
            Way::Supervisor(_) => self.default_stream(None),
        }
    }

    /// What a command without an id means: the only loop or run that runs, of this project or of all, else the newest.
    /// Loops that another loop or a run has started do not count; below an agent it is the agent's own loop.
    pub fn default_stream(&self, project: Option<&ProjectId>) -> Result<Option<StreamId>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(store.default_stream(project)?),
            Way::Supervisor(inside) => match inside.ask(&Ask::Family)? {
                AskAnswer::Loops { own, .. } => Ok(Some(StreamId::Loop(own))),
                other => Err(unexpected(&other).into()),
            },
        }
    }

    // --- runs and units -------------------------------------------------------------------------------------

    /// The run with this id.
    pub fn run_of_id(&self, id: &RunId) -> Result<Option<RunSeen>, ClientError> {
        Ok(self.journal().map(|store| store.run_row(id)).transpose()?.flatten().map(RunSeen::from))
    }

    /// Runs whose id begins with `prefix`; at most a few.
    pub fn runs_with_prefix(&self, prefix: &str) -> Result<Vec<RunSeen>, ClientError> {
        let rows = self.journal().map(|store| store.runs_with_prefix(prefix)).transpose()?;
        Ok(rows.unwrap_or_default().into_iter().map(RunSeen::from).collect())
    }

    /// The run of a workflow with this id.
    pub fn workflow_of_id(&self, id: &RunId) -> Result<Option<WorkflowSeen>, ClientError> {
        Ok(self.journal().map(|store| store.workflow_row(id)).transpose()?.flatten().map(WorkflowSeen::from))
    }

    /// Runs of workflows whose id begins with `prefix`; at most a few.
    pub fn workflows_with_prefix(&self, prefix: &str) -> Result<Vec<WorkflowSeen>, ClientError> {
        let rows = self.journal().map(|store| store.workflows_with_prefix(prefix)).transpose()?;
        Ok(rows.unwrap_or_default().into_iter().map(WorkflowSeen::from).collect())
    }

    /// The runs of workflows that have no end in the journal, oldest first, and the newest `most` that have.
    pub fn workflows_to_show(&self, most: u32) -> Result<Vec<WorkflowSeen>, ClientError> {
        let Some(store) = self.journal() else { return Ok(Vec::new()) };
        let rows = store.active_workflows()?.into_iter().chain(store.recent_workflows(most)?);
        Ok(rows.map(WorkflowSeen::from).collect())
    }

    /// How a run of a workflow began.
    pub fn workflow_started(&self, id: &RunId) -> Result<Option<WorkflowStarted>, ClientError> {
        Ok(self.journal().map(|store| store.workflow_started(id)).transpose()?.flatten())
    }

    /// The run of a task with this id.
    pub fn task_of_id(&self, id: &RunId) -> Result<Option<TaskSeen>, ClientError> {
        Ok(self.journal().map(|store| store.task_row(id)).transpose()?.flatten().map(TaskSeen::from))
    }

    /// The newest run of each task, in one project or in all, oldest first.
    pub fn newest_tasks(&self, project: Option<&ProjectId>) -> Result<Vec<TaskSeen>, ClientError> {
        let rows = self.journal().map(|store| store.newest_tasks(project)).transpose()?;
        Ok(rows.unwrap_or_default().into_iter().map(TaskSeen::from).collect())
    }

    /// What runs of tasks of a project have recorded: of one task or of all, of at most `most` runs, the newest last.
    pub fn history_of_tasks(
        &self,
        project: &ProjectId,
        task: Option<&TaskId>,
        most: u32,
    ) -> Result<Vec<TaskEnvelope>, ClientError> {
        let recorded = self.journal().map(|store| store.history_of_tasks(project, task, most)).transpose()?;
        Ok(recorded.unwrap_or_default())
    }

    /// The newest run of a task, in each project or in one.
    pub fn newest_run_of_task(
        &self,
        project: Option<&ProjectId>,
        task: &str,
    ) -> Result<Vec<TaskSeen>, ClientError> {
        let rows = self.journal().map(|store| store.newest_run_of_task(project, task)).transpose()?;
        Ok(rows.unwrap_or_default().into_iter().map(TaskSeen::from).collect())
    }

    /// Runs of tasks whose id, or whose task's name, begins with `prefix`; at most a few.
    pub fn stage_tasks_with_prefix(
        &self,
        project: Option<&ProjectId>,
        prefix: &str,
    ) -> Result<Vec<TaskSeen>, ClientError> {
        let rows = self.journal().map(|store| store.stage_tasks_with_prefix(project, prefix)).transpose()?;
        Ok(rows.unwrap_or_default().into_iter().map(TaskSeen::from).collect())
    }

    /// How a run of a task began.
    pub fn task_started(&self, id: &RunId) -> Result<Option<TaskStarted>, ClientError> {
        Ok(self.journal().map(|store| store.task_started(id)).transpose()?.flatten())
    }

    pub fn newest_loop_of_run(&self, id: &RunId) -> Result<Option<LoopSeen>, ClientError> {
        let rows = self.journal().map(|store| store.loops_of_run(id)).transpose()?;
        Ok(rows.unwrap_or_default().pop().map(LoopSeen::from))
    }

    /// The loops of a run, oldest first.
    pub fn loops_of_run(&self, id: &RunId) -> Result<Vec<LoopSeen>, ClientError> {
        let rows = self.journal().map(|store| store.loops_of_run(id)).transpose()?;
        Ok(rows.unwrap_or_default().into_iter().map(LoopSeen::from).collect())
    }

    /// The newest answer of an agent of this loop, without tags and not longer than answers are kept.
    pub fn last_answer(&self, id: &LoopId) -> Result<Option<String>, ClientError> {
        match &self.way {
            Way::Journal { home, store } => Ok(answers::newest(home, store, id)?),
            Way::Supervisor(_) => Ok(None),
        }
    }

    /// What the agent called `agent` said and did between two places of a loop's output. Below an agent nothing is told:
    /// that agent knows its own words.
    pub fn said(
        &self,
        id: &LoopId,
        agent: &str,
        begin: OutputMarks,
        end: OutputMarks,
    ) -> Result<Vec<TranscriptEntry>, ClientError> {
        match &self.way {
            Way::Journal { home, store } => Ok(match store.loop_started(id)? {
                Some(started) => answers::said(home, id, &started, agent, begin, end),
                None => Vec::new(),
            }),
            Way::Supervisor(_) => Ok(Vec::new()),
        }
    }

    /// How a run began.
    pub fn run_started(&self, id: &RunId) -> Result<Option<RunStarted>, ClientError> {
        Ok(self.journal().map(|store| store.run_started(id)).transpose()?.flatten())
    }

    /// What the newest run that draws on the budget of `run` has left of its time; `None` if it has no limit.
    pub fn time_left(&self, run: &RunId) -> Result<Option<Millis>, ClientError> {
        let Some(store) = self.journal() else { return Ok(None) };
        let Some(newest) = store.newest_on_budget_of(run)? else { return Ok(None) };
        let started = store.run_started(&newest.view.id)?;
        let granted = newest.view.granted.max_time_ms;
        let Some(most) = granted.or(started.and_then(|started| started.settings.max_time)) else {
            return Ok(None);
        };
        Ok(Some(most.minus(store.run_lasted(&newest.view)?)))
    }

    /// The runs that have no end in the journal, and the newest one that has: of `project` if it has one, else of all.
    pub fn runs_to_show(&self, project: Option<&ProjectId>) -> Result<Vec<RunSeen>, ClientError> {
        let Some(store) = self.journal() else { return Ok(Vec::new()) };
        let mut runs: Vec<RunSeen> = store.active_runs()?.into_iter().map(RunSeen::from).collect();
        let here = match project {
            Some(project) => store.newest_run(Some(project))?.filter(|run| run.view.is_over()),
            None => None,
        };
        let ended = match here {
            Some(run) => Some(run),
            None => store.newest_ended_run()?,
        };
        runs.extend(ended.map(RunSeen::from));
        Ok(runs)
    }

    /// Runs of every kind: those that have no end in the journal, then the newest `most` of those that have one; newest first.
    pub fn runs_of_any_kind(&self, most: u32) -> Result<Vec<AnyView>, ClientError> {
        Ok(self.journal().map(|store| store.runs_of_any_kind(most)).transpose()?.unwrap_or_default())
    }

    /// Units of one project or of all.
    pub fn units(&self, project: Option<&ProjectId>) -> Result<Vec<UnitView>, ClientError> {
        Ok(self.journal().map(|store| store.unit_views(project)).transpose()?.unwrap_or_default())
    }

    /// The unit of this name, in each project or in one.
    pub fn units_of_name(
        &self,
        project: Option<&ProjectId>,
        name: &str,
    ) -> Result<Vec<UnitView>, ClientError> {
        Ok(self.journal().map(|store| store.unit_view(project, name)).transpose()?.unwrap_or_default())
    }

    /// Tasks of `units` in the repository at `root` that are `complete` in their files and that no receipt proves: the files say so
    /// because an agent or a user wrote it. What was complete when the user first ran units here counts as it stands.
    pub fn complete_without_proof(
        &self,
        project: &ProjectId,
        root: &Path,
        units: &[Unit],
    ) -> Result<Vec<(UnitId, u32)>, ClientError> {
        let Way::Journal { home, store } = &self.way else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut first: Option<FirstSeen> = None;
        for unit in units {
            let complete = unit.tasks.iter().filter(|task| task.status == TaskStatus::Complete);
            let complete: Vec<u32> = complete.map(|task| task.spec.number).collect();
            if complete.is_empty() {
                continue;
            }
            let (mut worked_on, mut proven) = (BTreeSet::new(), BTreeSet::new());
            for row in store.loops_of_task(project, unit.id.as_str())? {
                let history = store.events(&row.view.id, 0)?;
                let policy = snapshots::started(&history).map(|started| &started.policy);
                if let Some(ItemSource::Unit(source)) = policy.and_then(|policy| policy.source.as_ref()) {
                    worked_on.extend(source.turn.iter().flat_map(|set| set.ready.iter().copied()));
                }
                if row.view.reason == Some(Reason::Done)
                    && let Some(receipt) = proof::newest(history)
                    && store.audit::<LoopMachine>(&row.view.id)?.fault.is_none()
                {
                    proven.extend(claimed_tasks(&receipt.claim));
                }
            }
            for task in complete.into_iter().filter(|task| !proven.contains(task)) {
                if !worked_on.contains(&task) {
                    let seen = match &mut first {
                        Some(seen) => seen,
                        None => first.insert(FirstSeen::of(store, project)?),
                    };
                    let file = unit.tasks.iter().find(|known| known.spec.number == task);
                    let file = file.map(|known| known.spec.file.as_str()).unwrap_or_default();
                    if seen.was_complete(home, root, (&unit.id, task), file) {
                        continue;
                    }
                }
                found.push((unit.id.clone(), task));
            }
        }
        Ok(found)
    }

    /// Files that other hands than dacapo's changed on the target while agents of the newest run worked, each with the commit that
    /// was found then.
    pub fn doubted_tests(
        &self,
        project: &ProjectId,
        root: &Path,
    ) -> Result<Vec<(String, String)>, ClientError> {
        let Way::Journal { home, store } = &self.way else { return Ok(Vec::new()) };
        let Ok(repo) = Repository::open(root, home) else { return Ok(Vec::new()) };
        let newest = store.newest_run(Some(project))?;
        let started = newest.map(|row| store.run_started(&row.view.id)).transpose()?.flatten();
        let Some(started) = started else { return Ok(Vec::new()) };
        let doubted = every_doubt(store, &repo, project, &started.target).unwrap_or_default();
        let tests = doubted.into_iter().filter(|(path, _)| kind_of(path).is_some());
        Ok(tests.map(|(path, file)| (path, file.seen)).collect())
    }

    pub fn units_of_run(&self, run: &RunId) -> Result<Vec<UnitView>, ClientError> {
        Ok(self.journal().map(|store| store.units_of_run(run)).transpose()?.unwrap_or_default())
    }

    // --- the board ------------------------------------------------------------------------------------------

    /// Everything that goes on, and the newest `most` of what has ended. It costs as much as there is to show, however long the
    /// journal is.
    pub fn board(&self, most: u32) -> Result<BoardReader, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(BoardReader::read(store, most)?),
            Way::Supervisor(inside) => Ok(BoardReader::of_loops(Self::family_views(inside)?)),
        }
    }

    /// Takes in what was recorded since the board was last looked at; says whether anything on it has changed.
    pub fn catch_up(&self, board: &mut BoardReader) -> Result<bool, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(board.catch_up(store)?),
            Way::Supervisor(inside) => Ok(board.replace_loops(Self::family_views(inside)?)),
        }
    }

    /// Reads the next page of what has ended; says how many were found.
    pub fn more_of_board(&self, board: &mut BoardReader) -> Result<usize, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(board.read_more(store)?),
            Way::Supervisor(_) => Ok(0),
        }
    }

    fn family_views(inside: &Inside) -> Result<Vec<LoopView>, ClientError> {
        Ok(Self::family(inside, |_| true)?.into_iter().map(|seen| seen.view).collect())
    }

    /// Remembers that a person has looked at a loop or a run as it stands; says whether that is new.
    pub fn look_at(&mut self, id: &str) -> Result<bool, ClientError> {
        match &mut self.way {
            Way::Journal { store, .. } => Ok(store.look_at(id)?),
            Way::Supervisor(_) => Ok(false),
        }
    }

    /// The iterations of a loop and what became of each.
    pub fn loop_page(&self, id: &LoopId) -> Result<LoopPage, ClientError> {
        Ok(LoopPage::of(&self.events_of_loop(id, 0)?))
    }

    /// Takes in what the loop has recorded since; says whether there was anything.
    pub fn catch_up_page(&self, id: &LoopId, page: &mut LoopPage) -> Result<bool, ClientError> {
        let newer = self.events_of_loop(id, page.seq + 1)?;
        newer.iter().for_each(|envelope| page.apply(envelope));
        Ok(!newer.is_empty())
    }

    fn views_of_run(store: &Store, id: &RunId) -> Result<Vec<LoopView>, ClientError> {
        Ok(store.loops_of_run(id)?.into_iter().map(LoopRow::current_view).collect())
    }

    /// A run of units with its graph, its merge train and its slots over time.
    pub fn run_page(&self, id: &RunId) -> Result<Option<(RunView, RunPage)>, ClientError> {
        let Some(store) = self.journal() else { return Ok(None) };
        let Some(row) = store.run_row(id)? else { return Ok(None) };
        let view = row.current_view();
        let events = store.run_events(id, 0)?;
        let units = store.units_of_run(id)?;
        let page = RunPage::of(&view, &units, &Self::views_of_run(store, id)?, &events);
        Ok(Some((view, page)))
    }

    /// A run of a workflow with its steps.
    pub fn workflow_page(&self, id: &RunId) -> Result<Option<(WorkflowView, WorkflowPage)>, ClientError> {
        let Some(store) = self.journal() else { return Ok(None) };
        let Some(row) = store.workflow_row(id)? else { return Ok(None) };
        let view = row.current_view();
        let started = store.workflow_started(id)?;
        let page = WorkflowPage::of(&view, started.as_ref(), &Self::views_of_run(store, id)?);
        Ok(Some((view, page)))
    }

    /// A run of a task with its stages.
    pub fn task_page(&self, id: &RunId) -> Result<Option<(StageTaskView, TaskPage)>, ClientError> {
        let Some(store) = self.journal() else { return Ok(None) };
        let Some(row) = store.task_row(id)? else { return Ok(None) };
        let view = row.current_view();
        let page = TaskPage::of(&view, &Self::views_of_run(store, id)?);
        Ok(Some((view, page)))
    }

    /// What was spent from `since` to `until`, and which iterations began, in steps of `step`.
    pub fn costs(&self, since: Timestamp, until: Timestamp, step: Millis) -> Result<Costs, ClientError> {
        let Some(store) = self.journal() else {
            return Ok(view::costs([], [], (since, until), step.0));
        };
        Ok(view::costs(store.spend_rows(since)?, store.iteration_rows(since)?, (since, until), step.0))
    }

    // --- what happened --------------------------------------------------------------------------------------

    /// Hands over what `scope` has recorded from `from` on, in order; gives where to go on.
    pub fn read<E: From<ClientError>>(
        &self,
        scope: &EventScope,
        from: u64,
        mut take: impl FnMut(AnyEvent) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut next = from;
        match &self.way {
            Way::Journal { store, .. } => {
                let read = store.each_fact(scope, from, |fact| {
                    next = next.max(fact.seq() + 1);
                    take(fact).map_err(Failed::Taker)
                });
                read.map_err(|failed| match failed {
                    Failed::Taker(error) => error,
                    Failed::Store(error) => ClientError::from(error).into(),
                })?;
            }
            Way::Supervisor(inside) => {
                let loops = match scope {
                    EventScope::Loop(id) => vec![id.clone()],
                    _ => Self::family(inside, |_| true)?.into_iter().map(|seen| seen.view.id).collect(),
                };
                let mut facts = Vec::new();
                for id in &loops {
                    facts.extend(pages(inside, id, from)?.into_iter().map(Box::new).map(AnyEvent::Loop));
                }
                facts.sort_by_key(AnyEvent::seq);
                for fact in facts {
                    next = next.max(fact.seq() + 1);
                    take(fact)?;
                }
            }
        }
        Ok(next)
    }

    /// As [`Self::read`], and goes on as more is recorded, until `scope` is over.
    pub fn follow<E: From<ClientError>>(
        &self,
        scope: &EventScope,
        mut from: u64,
        mut take: impl FnMut(AnyEvent) -> Result<(), E>,
    ) -> Result<(), E> {
        // Watched before the first look, so that nothing falls in between.
        let mut watch = self.watch()?;
        loop {
            // Asked before the look: an end that comes between the two is handed over in the next turn.
            let is_over = self.is_over(scope)?;
            from = self.read(scope, from, &mut take)?;
            if is_over {
                return Ok(());
            }
            watch.wait(match self.way {
                Way::Journal { .. } => LOOK_ANYWAY,
                Way::Supervisor(_) => LOOK_ANYWAY_INSIDE,
            })?;
        }
    }

    /// Whether nothing more will be recorded of `scope`.
    pub fn is_over(&self, scope: &EventScope) -> Result<bool, ClientError> {
        Ok(match scope {
            EventScope::All => match &self.way {
                Way::Journal { .. } => false,
                Way::Supervisor(inside) => Self::family(inside, |seen| seen.is_running)?.is_empty(),
            },
            EventScope::Loop(id) => self.loop_of_id(id)?.is_none_or(|seen| !seen.is_running),
            EventScope::Run(run) => match self.workflow_of_id(run)? {
                Some(seen) => !seen.is_running,
                None => match self.task_of_id(run)? {
                    Some(seen) => !seen.is_running,
                    None => self.run_of_id(run)?.is_none_or(|seen| !seen.is_running),
                },
            },
            EventScope::Unit(run, unit) => {
                let newest = self.units_of_run(run)?.into_iter().find(|view| view.unit == *unit);
                newest.is_none_or(|view| view.status.is_over())
            }
        })
    }

    /// The place of the newest event.
    pub fn last_seq(&self) -> Result<u64, ClientError> {
        Ok(self.journal().map(Store::last_seq).transpose()?.unwrap_or(0))
    }

    /// The events of a loop from `from` on, all at once.
    pub fn events_of_loop(&self, id: &LoopId, from: u64) -> Result<Vec<Envelope>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(store.events(id, from)?),
            Way::Supervisor(inside) => pages(inside, id, from),
        }
    }

    /// The newest `limit` events of a loop, in order.
    pub fn newest_events_of_loop(&self, id: &LoopId, limit: u32) -> Result<Vec<Envelope>, ClientError> {
        match &self.way {
            Way::Journal { store, .. } => Ok(store.newest_events(id, limit)?),
            Way::Supervisor(inside) => {
                let mut events = pages(inside, id, 0)?;
                events.drain(..events.len().saturating_sub(limit as usize));
                Ok(events)
            }
        }
    }

    /// What a loop has printed from byte `from` on: some of it, and how much there is in all.
    pub fn output(
        &self,
        view: &LoopView,
        channel: Channel,
        from: u64,
    ) -> Result<(Vec<u8>, u64), ClientError> {
        match &self.way {
            Way::Journal { home, .. } => {
                let path = Segments::path(&home.runs(&view.project, &view.task), &view.id, channel);
                let read = || -> io::Result<(Vec<u8>, u64)> {
                    let mut file = File::open(&path)?;
                    let end = file.metadata()?.len();
                    let mut bytes = Vec::new();
                    if from < end {
                        file.seek(SeekFrom::Start(from))?;
                        file.take(CHUNK).read_to_end(&mut bytes)?;
                    }
                    Ok((bytes, end))
                };
                match read() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Vec::new(), 0)),
                    read => read.map_err(|source| ClientError::Output { id: view.id.clone(), source }),
                }
            }
            Way::Supervisor(inside) => {
                match inside.ask(&Ask::Output { id: view.id.clone(), channel, from })? {
                    AskAnswer::Output { bytes, end } => Ok((bytes.0, end)),
                    other => Err(unexpected(&other).into()),
                }
            }
        }
    }

    /// Says when something of a loop or a run may have changed.
    pub fn watch(&self) -> Result<ChangeWatch, ClientError> {
        match &self.way {
            Way::Journal { home, .. } => {
                Watch::journal(home).map(ChangeWatch::Journal).map_err(ClientError::Watch)
            }
            Way::Supervisor(inside) => Ok(ChangeWatch::Supervisor(inside.watch(Watched::Events)?)),
        }
    }

    /// The same, and when a loop has printed something.
    pub fn watch_output(&self, view: &LoopView) -> Result<ChangeWatch, ClientError> {
        match &self.way {
            Way::Journal { home, .. } => {
                let runs = home.runs(&view.project, &view.task);
                Watch::journal_and(home, &[&runs]).map(ChangeWatch::Journal).map_err(ClientError::Watch)
            }
            Way::Supervisor(inside) => {
                let watched = Watched::Output { id: view.id.clone() };
                Ok(ChangeWatch::Supervisor(inside.watch(watched)?))
            }
        }
    }

    /// The receipt of a loop, if it has one.
    pub fn receipt(&self, id: &LoopId) -> Result<Option<Receipt>, ClientError> {
        Ok(proof::newest(self.events_of_loop(id, 0)?))
    }

    /// The kept states of a loop's workspace.
    pub fn snapshots(&self, id: &LoopId) -> Result<Vec<KeptSnapshot>, ClientError> {
        match &self.way {
            Way::Journal { home, store } => Ok(snapshots::list(home, store, id)?),
            Way::Supervisor(_) => Err(deciding("look at snapshots").into()),
        }
    }

    /// What a loop has changed in its workspace; `None` if nothing, or if that was not kept.
    pub fn work_done(&self, id: &LoopId, columns: usize) -> Result<Option<WorkDone>, ClientError> {
        match &self.way {
            Way::Journal { home, store } => match snapshots::work_done(home, store, id, columns) {
                Err(SnapshotError::Plain(_) | SnapshotError::None(_) | SnapshotError::Gone(_)) => Ok(None),
                done => Ok(done?),
            },
            Way::Supervisor(_) => Ok(None),
        }
    }

    /// What runs have changed together, or one unit of a run, in stretches.
    pub fn changes_of_runs(
        &self,
        runs: &[RunId],
        unit: Option<&UnitId>,
    ) -> Result<Vec<RunChange>, ClientError> {
        match &self.way {
            Way::Journal { home, store } => Ok(snapshots::changes_of_runs(home, store, runs, unit)?),
            Way::Supervisor(_) => Err(deciding("look at snapshots").into()),
        }
    }

    /// One stretch of what a run has changed, as git prints it.
    pub fn difference_of_change(&self, change: &RunChange, form: DiffForm) -> Result<Vec<u8>, ClientError> {
        match &self.way {
            Way::Journal { home, .. } => Ok(snapshots::difference_of_change(home, change, form)?),
            Way::Supervisor(_) => Err(deciding("look at snapshots").into()),
        }
    }

    /// The difference that a loop, or one of its iterations, made.
    pub fn difference(
        &self,
        view: &LoopView,
        iteration: Option<u32>,
        form: DiffForm,
    ) -> Result<Vec<u8>, ClientError> {
        match &self.way {
            Way::Journal { home, store } => Ok(snapshots::difference(home, store, view, iteration, form)?),
            Way::Supervisor(_) => Err(deciding("look at snapshots").into()),
        }
    }

    /// The tree of the files as they are now; `None` while something works on them, and where that cannot be told.
    pub fn tree_now(&self, view: &LoopView) -> Result<Option<String>, ClientError> {
        match &self.way {
            Way::Journal { home, store } => match snapshots::tree_now(home, store, view) {
                Err(SnapshotError::None(_)) => Ok(None),
                tree => Ok(tree?),
            },
            Way::Supervisor(_) => Ok(None),
        }
    }

    // --- asking ---------------------------------------------------------------------------------------------

    /// Leaves a request for a loop or a run; says whether it has an owner that was told.
    pub fn request(&mut self, stream: &StreamId, request: &Request) -> Result<bool, ClientError> {
        match (&mut self.way, stream, request) {
            (Way::Journal { store, .. }, _, _) => {
                Ok(store.request(stream.as_str(), request, Timestamp::now())?)
            }
            (Way::Supervisor(inside), StreamId::Loop(id), Request::Cancel) => {
                inside.ask(&Ask::Cancel { id: id.clone() })?;
                Ok(true)
            }
            (Way::Supervisor(_), _, _) => Err(deciding("do that to a loop").into()),
        }
    }

    /// Takes up what was asked of a loop that has no supervisor.
    pub fn settle(&mut self, id: &LoopId) -> Result<(), ClientError> {
        match &mut self.way {
            Way::Journal { home, store } => Ok(supervisor::settle(home, store, id)?),
            Way::Supervisor(_) => Err(deciding("end a loop that has no supervisor").into()),
        }
    }

    /// Waits until no process runs `stream`, for at most `patience`; says whether that came about.
    pub fn wait_for_end(&self, stream: &StreamId, patience: Duration) -> Result<bool, ClientError> {
        let mut watch = self.watch()?;
        let deadline = Instant::now() + patience;
        loop {
            let is_running = match stream {
                StreamId::Loop(id) => self.loop_of_id(id)?.is_some_and(|seen| seen.is_running),
                StreamId::Run(id) => {
                    self.run_of_id(id)?.is_some_and(|seen| seen.is_running)
                        || self.workflow_of_id(id)?.is_some_and(|seen| seen.is_running)
                        || self.task_of_id(id)?.is_some_and(|seen| seen.is_running)
                }
            };
            if !is_running {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
            watch.wait(AGAIN)?;
        }
    }

    /// Waits until the run of a task has come to its end, for at most `patience`; says whether that came about. Its process may go
    /// on with other tasks.
    pub fn wait_until_over(&self, task: &RunId, patience: Duration) -> Result<bool, ClientError> {
        let mut watch = self.watch()?;
        let deadline = Instant::now() + patience;
        loop {
            if self.task_of_id(task)?.is_none_or(|seen| seen.view.is_over || !seen.is_running) {
                return Ok(true);
            }
            if Instant::now() > deadline {
                return Ok(false);
            }
            watch.wait(AGAIN)?;
        }
    }

    /// Puts the files of a loop back to how they were.
    pub fn restore(&self, view: &LoopView, which: SnapshotChoice) -> Result<Restored, ClientError> {
        match &self.way {
            Way::Journal { home, store } => Ok(snapshots::restore(home, store, view, which)?),
            Way::Supervisor(_) => Err(deciding("restore files").into()),
        }
    }

    // --- starting -------------------------------------------------------------------------------------------

    /// Starts a command in the background that runs a loop or a run, or goes on with one that no process runs.
    pub fn start(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<BackgroundStart, ClientError> {
        match &self.way {
            Way::Journal { .. } => send(args).map_err(ClientError::Background),
            Way::Supervisor(_) => Err(deciding("start that").into()),
        }
    }

    /// Runs a command that asks something of a loop or run, as a person would type it; `None` if it goes on after `patience`.
    pub fn command(
        &self,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        patience: Duration,
    ) -> Result<Option<CommandEnd>, ClientError> {
        match &self.way {
            Way::Journal { .. } => own_command::run(args, patience).map_err(ClientError::Background),
            Way::Supervisor(_) => Err(deciding("do that").into()),
        }
    }
}

/// Who stopped the reading of events.
enum Failed<E> {
    Taker(E),
    Store(StoreError),
}

impl<E> From<StoreError> for Failed<E> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Tells when it is worth looking again.
pub enum ChangeWatch {
    /// The folders of the journal are watched.
    Journal(Watch),
    /// The supervisor of the loop that this runs in says so.
    Supervisor(SupervisorNews),
}

impl ChangeWatch {
    /// Waits for a change, at most for `longest`.
    pub fn wait(&mut self, longest: Duration) -> Result<(), ClientError> {
        match self {
            Self::Journal(watch) => watch.wait(longest).map_err(ClientError::Watch),
            Self::Supervisor(news) => Ok(news.wait(longest)?),
        }
    }
}

/// All events of a loop from `from` on, page by page.
fn pages(inside: &Inside, id: &LoopId, from: u64) -> Result<Vec<Envelope>, ClientError> {
    let mut all = Vec::new();
    let mut next = from;
    loop {
        match inside.ask(&Ask::Events { id: id.clone(), from: next })? {
            AskAnswer::Events { events, more } => {
                next = events.last().map_or(next, |last| last.seq + 1);
                all.extend(events);
                if !more {
                    return Ok(all);
                }
            }
            other => return Err(unexpected(&other).into()),
        }
    }
}

/// The newest loop of each task, in each project or in one. `loops` come oldest first.
fn newest_each(loops: Vec<LoopSeen>, project: Option<&ProjectId>) -> Vec<LoopSeen> {
    let mut newest: Vec<LoopSeen> = Vec::new();
    for seen in loops.into_iter().filter(|seen| project.is_none_or(|it| seen.view.project == *it)) {
        newest
            .retain(|older| (&older.view.project, &older.view.task) != (&seen.view.project, &seen.view.task));
        newest.push(seen);
    }
    newest
}

/// What only the user may do.
pub fn deciding(what: &str) -> InsideError {
    InsideError::Refused(AskRefusal::not_yours(format!("the agent of a loop cannot {what}; ask the user")))
}
