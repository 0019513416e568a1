//! The performer of tasks that pass through stages: several at once, each with a stream of its own, and for each input journal →
//! apply → publish → perform.
//!
//! It runs no agent itself. Each stage and each merge is a job, a process of its own (`job.rs`, `merge.rs`), which dies with the
//! performer. What a stage has done is read from the journal, where its loop is known again by the stage and the run that it
//! was started for, so an order that is given twice after a crash starts nothing twice. Merges wait for each other.

pub(crate) mod job;
mod merge;

use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dacapo_core::{
    event::{Grant, LoopEvent, Reason, StopCause},
    ids::{LoopId, ProjectId, RunId, TaskId},
    loop_machine::{LoopMachine, Request},
    plan::Purpose,
    stages::{
        StageAccount, StageIteration, StageName, StageTaskStatus,
        machine::{
            KnownLoop, MergeEnd, StageEnd, StageOrder, TaskEffect, TaskEndReason, TaskEvent, TaskInput,
            TaskMachine, TaskNews, TaskPhase, TaskStarted, UserAnswer,
        },
        schedule::{ScheduledTask, TaskStanding, held_up, to_begin},
    },
    view::StageTaskView,
};
use jiff::Timestamp;

use self::job::{MergeReport, StageSpec, StageWork};
use crate::{
    git::{Git, ListedConfig, WorkspaceError},
    home::Home,
    observer::Observer,
    process::{Programs, identity::Identity},
    proof::fresh_id,
    repository::Repository,
    scheduler::{
        RunError,
        host::{self, JobExit, JobHost, JobSignal, LocalHost, RunningJob},
        message::{HostMessage, JobFailure, JobMessage, PROTOCOL},
    },
    signals::{ArrivedSignal, Signals},
    snapshots::{self, Workspace},
    stage_tasks,
    store::{Arrival, LockError, StageSource, Store, Stream, TaskLock},
    supervisor::{self, SCRIPT_GRACE, answers},
};

/// Tasks that are to be worked on.
#[derive(Debug)]
pub struct TasksToRun {
    /// In the order in which they begin.
    pub tasks: Vec<TaskToRun>,
    /// How many are worked on at once.
    pub slots: u32,
    pub programs: Programs,
    pub is_detached: bool,
}

/// A task that is to be worked on.
#[derive(Debug)]
pub enum TaskToRun {
    /// A task that begins; its start has settings.
    Begin(Box<TaskStarted>),
    /// A run that no process performs. `is_resumed` says that the user wants it to go on; otherwise it takes up what was asked of it.
    GoOn { id: RunId, is_resumed: bool },
}

/// Where the tasks stand that their performer leaves.
#[derive(Clone, Debug)]
pub struct TasksLeft {
    /// Those that were begun, in the order of the list.
    pub views: Vec<StageTaskView>,
    /// Those that were not: each with the task that it waits for.
    pub held_up: Vec<(TaskId, TaskId)>,
    /// Why those were not begun that another process performs, or whose stream cannot be opened.
    pub refused: Vec<String>,
    /// What the command exits with.
    pub exit_code: u8,
}

struct TaskPerformer<'a> {
    home: &'a Home,
    store: Store,
    programs: Programs,
    is_detached: bool,
    slots: u32,
    observer: &'a mut dyn Observer<TaskMachine>,
    host: LocalHost,
    signals: Signals,
    tasks: Vec<ListedTask>,
    jobs: Vec<StageJobRun>,
    /// Jobs that wait for an order, each with the place of the task that it worked on last.
    idle: Vec<(usize, Box<dyn RunningJob>)>,
    /// Places of tasks that wait for their turn to be merged, and the trees that passed.
    merges: VecDeque<(usize, String)>,
    /// Why the performer leaves the tasks, if it was told to.
    stop: Option<StopCause>,
    next_tick: Option<Instant>,
    /// What is to be answered without a job: the place of the task, and the news.
    inbox: Vec<(usize, TaskNews)>,
    refused: Vec<String>,
    /// The filters of git in the repository at this place when the first task began.
    filters: Option<(PathBuf, Filters)>,
    /// Where branches were when this process last knew why: targets, and those of tasks, by the repository and their name.
    tips: BTreeMap<(PathBuf, String), String>,
}

/// Programs that git sends files through, as they are set up in a repository.
type Filters = Option<Vec<(String, String)>>;

struct ListedTask {
    id: TaskId,
    depends_on: Vec<TaskId>,
    state: ListedState,
    /// Up to where the events of its loops were looked at.
    seen: u64,
    /// The newest loop that began in this process: its run, and what its events say.
    account: Option<(LoopId, u32, StageAccount)>,
    /// The newest run of a stage that another process may have started.
    earlier_runs: u32,
}

enum ListedState {
    Waiting(TaskToRun),
    Open {
        stream: Box<Stream<TaskMachine>>,
        _lock: TaskLock,
    },
    /// It was never opened.
    Refused,
}

struct StageJobRun {
    at: usize,
    what: JobFor,
    running: Box<dyn RunningJob>,
    merged: Option<MergeReport>,
    /// Why nothing came of it.
    failed: Option<(String, Reason)>,
}

/// A job that has done what it was told, or has died of it.
struct EndedJob {
    at: usize,
    what: JobFor,
    exit: JobExit,
    merged: Option<MergeReport>,
    failed: Option<(String, Reason)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobFor {
    Stage { run: u32, stage: StageName },
    Merge,
    Tidy,
}

/// Performs tasks as far as they go.
pub fn run(
    home: &Home,
    wanted: TasksToRun,
    observer: &mut dyn Observer<TaskMachine>,
) -> Result<TasksLeft, RunError> {
    home.prepare()?;
    let mut store = Store::open(&home.database())?;
    let signals = Signals::listen(wanted.is_detached)
        .map_err(|source| RunError::Io { what: "cannot listen to signals", source })?;
    let host = LocalHost::adopting()
        .map_err(|source| RunError::Io { what: "cannot look after processes", source })?;
    supervisor::reconcile(home, &mut store)?;
    let mut tasks = Vec::with_capacity(wanted.tasks.len());
    for task in wanted.tasks {
        let known = match &task {
            TaskToRun::Begin(started) => Some((started.task.id.clone(), started.task.depends_on.clone())),
            TaskToRun::GoOn { id, .. } => {
                let stream = Stream::<TaskMachine>::open(&store, id)?;
                let started = stream.as_ref().and_then(|stream| stream.state().started());
                started.map(|started| (started.task.id.clone(), started.task.depends_on.clone()))
            }
        };
        let Some((id, depends_on)) = known else { continue };
        let state = ListedState::Waiting(task);
        tasks.push(ListedTask { id, depends_on, state, seen: 0, account: None, earlier_runs: 0 });
    }
    let performer = TaskPerformer {
        home,
        store,
        programs: wanted.programs,
        is_detached: wanted.is_detached,
        slots: wanted.slots,
        next_tick: observer.tick_every().map(|every| Instant::now() + every),
        observer,
        host,
        signals,
        tasks,
        jobs: Vec::new(),
        idle: Vec::new(),
        merges: VecDeque::new(),
        stop: None,
        inbox: Vec::new(),
        refused: Vec::new(),
        filters: None,
        tips: BTreeMap::new(),
    };
    performer.perform_all()
}

/// Removes what is left of tasks of a project that are done: their performer was killed between their end and its tidying.
pub fn tidy_leftovers(home: &Home, project: &ProjectId) -> Result<(), RunError> {
    let store = Store::open(&home.database())?;
    for row in store.newest_tasks(Some(project))? {
        let view = row.view;
        let is_left = view.status == StageTaskStatus::Done
            && view.is_over
            && view.worktree.as_ref().is_some_and(|path| fs::symlink_metadata(path).is_ok());
        let (true, Some(commit)) = (is_left, view.commit.clone()) else { continue };
        // A performer that lives tidies by itself.
        let Ok(_lock) = TaskLock::take(&home.lock_of_stages(project, &view.task)) else { continue };
        let Some(stream) = Stream::<TaskMachine>::open(&store, &view.id)? else { continue };
        if let Some(spec) =
            spec_of(home, &stream, stream.state().worktree(), StageWork::Tidy { commit: commit.clone() })
        {
            // What cannot be removed stays, as after every task.
            let _ = job::tidy(spec, &commit);
        }
    }
    Ok(())
}

/// Writes the end of runs into the files of their tasks, where a performer was killed between recording it and writing it: a task that is
/// merged would be worked on again.
pub fn settle_statuses(home: &Home, project: &ProjectId) -> Result<(), RunError> {
    if !home.database().exists() {
        return Ok(());
    }
    let store = Store::open(&home.database())?;
    for row in store.newest_tasks(Some(project))? {
        let view = row.view;
        let settled = || {
            let status = stage_tasks::status_of(&view.root, &view.file)?;
            Some(status.after_run(view.status)).filter(|settled| *settled != status)
        };
        let Some(status) = settled().filter(|_| view.is_over) else { continue };
        // A performer that lives writes it by itself.
        let Ok(_lock) = TaskLock::take(&home.lock_of_stages(project, &view.task)) else { continue };
        // A file that cannot be written says what it said; the user is told of it when the task runs.
        let _ = stage_tasks::set_status(&view.root, &view.file, status);
    }
    Ok(())
}

/// What a job of a task is told, but for what the process that performs it decides.
fn spec_of(
    home: &Home,
    stream: &Stream<TaskMachine>,
    known: Option<(&Path, &str)>,
    work: StageWork,
) -> Option<StageSpec> {
    let started = stream.state().started()?;
    let settings = started.settings.as_deref()?;
    Some(StageSpec {
        home: home.path().to_owned(),
        performer: std::process::id(),
        run: stream.id().clone(),
        project: settings.project.clone(),
        task: started.task.id.clone(),
        root: settings.root.clone(),
        target: settings.target.clone(),
        known: known.map(|(path, branch)| (path.to_owned(), branch.to_owned())),
        seen: None,
        sandbox: settings.policy.sandbox.clone(),
        setup: settings.setup.clone(),
        teardown: settings.teardown.clone(),
        submodules: settings.submodules,
        filters: settings.filters.clone(),
        config: ListedConfig::last(),
        programs: Programs::default(),
        is_detached: false,
        is_watched: false,
        work,
    })
}

/// The files of a task as they are now, in one word: the tree of its worktree. Without a worktree there is none.
pub fn tree_of(home: &Home, view: &StageTaskView) -> Result<String, RunError> {
    let is_own = |path: &&PathBuf| path.is_dir() && !path.is_symlink();
    let Some(path) = view.worktree.as_ref().filter(is_own) else { return Ok(String::new()) };
    let named = |error| RunError::Io {
        what: "cannot name the snapshots of the task",
        source: io::Error::other(error),
    };
    let name: LoopId = view.id.as_str().parse().map_err(named)?;
    let mut workspace = Workspace::open(path, home, &name)?;
    let snapshot = workspace.begin()?.id;
    let tree = workspace.tree_of(&snapshot)?;
    workspace.forget()?;
    Ok(tree)
}

fn now(news: TaskNews) -> Arrival<TaskInput> {
    TaskInput { now: Timestamp::now(), news }.into()
}

fn reason_of(cause: StopCause) -> Reason {
    match cause {
        StopCause::Interrupt => Reason::Interrupted,
        StopCause::Cancel => Reason::Cancelled,
        StopCause::Terminate | StopCause::Hangup => Reason::Terminated,
    }
}

/// A stage that came to nothing.
fn failed(reason: Reason, detail: String) -> Box<StageEnd> {
    Box::new(StageEnd {
        reason,
        detail,
        answer: String::new(),
        began_with: String::new(),
        tree: String::new(),
        has_committed: false,
        changed: Vec::new(),
        deleted: Vec::new(),
        iterations: 0,
        refusals: Vec::new(),
        loop_id: None,
    })
}

impl ListedTask {
    fn stream(&self) -> Option<&Stream<TaskMachine>> {
        match &self.state {
            ListedState::Open { stream, .. } => Some(stream),
            ListedState::Waiting(_) | ListedState::Refused => None,
        }
    }

    /// Whether the loop of a run has begun in this process.
    fn has_begun(&self, run: u32) -> bool {
        self.account.as_ref().is_some_and(|(_, of, _)| *of == run)
    }

    fn standing(&self) -> TaskStanding {
        let stream = match &self.state {
            ListedState::Waiting(_) => return TaskStanding::Waiting,
            ListedState::Refused => return TaskStanding::Over,
            ListedState::Open { stream, .. } => stream,
        };
        match stream.state().phase() {
            TaskPhase::InStage { is_held: false, .. } | TaskPhase::Merging { is_held: false, .. } => {
                TaskStanding::Working
            }
            TaskPhase::Over(_) if stream.state().status() == StageTaskStatus::Done => TaskStanding::Done,
            TaskPhase::Over(_) => TaskStanding::Over,
            _ => TaskStanding::Stopped,
        }
    }
}

impl TaskPerformer<'_> {
    fn perform_all(mut self) -> Result<TasksLeft, RunError> {
        loop {
            self.begin_tasks()?;
            let inbox = std::mem::take(&mut self.inbox);
            if inbox.is_empty() {
                if self.jobs.is_empty() && self.merges.is_empty() {
                    return self.left();
                }
                self.wait()?;
            }
            for (at, news) in inbox {
                self.take_in(at, vec![now(news)])?;
            }
            self.merge_next()?;
        }
    }

    fn left(mut self) -> Result<TasksLeft, RunError> {
        for (_, job) in self.idle.drain(..) {
            // It holds nothing, and an agent may have stopped it.
            job.signal(JobSignal::Kill);
            job.finish();
        }
        let scheduled = self.scheduled();
        let held_up = held_up(&scheduled).into_iter().map(|(a, b)| (a.clone(), b.clone())).collect();
        let views: Vec<StageTaskView> =
            self.tasks.iter().filter_map(|task| Some(task.stream()?.view().clone())).collect();
        let worst = views.iter().map(|view| view.exit_code.unwrap_or(1)).max_by_key(|code| severity(*code));
        let exit_code = match self.stop {
            Some(cause) if views.iter().any(|view| !view.is_over) => reason_of(cause).exit_code(),
            _ if !self.refused.is_empty() && worst.unwrap_or(0) == 0 => Reason::Lock.exit_code(),
            _ => worst.unwrap_or(0),
        };
        Ok(TasksLeft { views, held_up, refused: self.refused, exit_code })
    }

    fn scheduled(&self) -> Vec<ScheduledTask<'_>> {
        self.tasks
            .iter()
            .map(|listed| ScheduledTask {
                id: &listed.id,
                depends_on: &listed.depends_on,
                standing: listed.standing(),
            })
            .collect()
    }

    // --- beginning ------------------------------------------------------------------------------------------

    fn begin_tasks(&mut self) -> Result<(), RunError> {
        if self.stop.is_some() {
            return Ok(());
        }
        for at in to_begin(&self.scheduled(), self.slots) {
            let ListedState::Waiting(task) =
                std::mem::replace(&mut self.tasks[at].state, ListedState::Refused)
            else {
                continue;
            };
            match task {
                TaskToRun::Begin(started) => self.begin(at, started)?,
                TaskToRun::GoOn { id, is_resumed } => self.go_on(at, &id, is_resumed)?,
            }
        }
        Ok(())
    }

    /// One performer per task.
    fn take_lock(&mut self, at: usize, project: &ProjectId) -> Result<Option<TaskLock>, RunError> {
        match TaskLock::take(&self.home.lock_of_stages(project, &self.tasks[at].id)) {
            Ok(lock) => Ok(Some(lock)),
            Err(LockError::Held) => {
                let why = format!("task {} is performed by another dacapo", self.tasks[at].id);
                self.refused.push(why);
                Ok(None)
            }
            Err(LockError::Io { source, .. }) => Err(RunError::Io { what: "cannot lock the task", source }),
        }
    }

    fn begin(&mut self, at: usize, mut started: Box<TaskStarted>) -> Result<(), RunError> {
        let Some(settings) = started.settings.as_mut() else { return Ok(()) };
        let Some(lock) = self.take_lock(at, &settings.project.clone())? else { return Ok(()) };
        settings.filters = match &self.filters {
            // As they were before the first agent of this process: one of another task may have set up others since.
            Some((root, filters)) if *root == settings.root => filters.clone(),
            _ => {
                let filters = match snapshots::filters_set_up(&settings.root) {
                    Ok(filters) => filters,
                    // What git cannot tell for this task holds up no other one.
                    Err(error) => {
                        self.refused.push(format!("task {} was not begun: {error}", self.tasks[at].id));
                        return Ok(());
                    }
                };
                self.filters = Some((settings.root.clone(), filters.clone()));
                filters
            }
        };
        let named = |source| RunError::Io { what: "cannot make a name", source };
        let id: RunId =
            fresh_id().map_err(named)?.as_str().parse().map_err(|error| named(io::Error::other(error)))?;
        self.tasks[at].seen = self.store.last_seq()?;
        let at_time = Timestamp::now();
        let input = TaskInput { now: at_time, news: TaskNews::Begin(started) };
        let begun = Stream::begin(&mut self.store, id, &Identity::own(), at_time, input, &(), self.observer)?;
        let (stream, effects) = begun;
        self.tasks[at].state = ListedState::Open { stream: Box::new(stream), _lock: lock };
        self.note_tips(at);
        effects.into_iter().try_for_each(|effect| self.perform(at, effect))
    }

    fn go_on(&mut self, at: usize, id: &RunId, is_resumed: bool) -> Result<(), RunError> {
        let Some(mut stream) = Stream::<TaskMachine>::open(&self.store, id)? else { return Ok(()) };
        let Some(project) = stream.state().settings().map(|settings| settings.project.clone()) else {
            return Ok(());
        };
        let Some(lock) = self.take_lock(at, &project)? else { return Ok(()) };
        self.tasks[at].seen = self.store.last_seq()?;
        stream.take_over(&mut self.store, &Identity::own(), Timestamp::now(), &())?;
        let status = stream.state().status();
        self.tasks[at].earlier_runs = stream.state().runs();
        self.tasks[at].state = ListedState::Open { stream: Box::new(stream), _lock: lock };
        // A performer that was killed may not have got that far.
        self.set_status(at, status)?;
        let mut news = vec![now(TaskNews::TakenUp)];
        self.read_requests(at, &mut news)?;
        if is_resumed {
            news.push(now(TaskNews::Resumed));
        }
        self.take_in(at, news)
    }

    fn take_in(&mut self, at: usize, news: Vec<Arrival<TaskInput>>) -> Result<(), RunError> {
        let ListedState::Open { stream, .. } = &mut self.tasks[at].state else { return Ok(()) };
        let effects = stream.step(&mut self.store, Timestamp::now(), news, self.observer)?;
        effects.into_iter().try_for_each(|effect| self.perform(at, effect))
    }

    // --- effects --------------------------------------------------------------------------------------------

    fn perform(&mut self, at: usize, effect: TaskEffect) -> Result<(), RunError> {
        match effect {
            TaskEffect::SetStatus(status) => self.set_status(at, status)?,
            TaskEffect::RunStage(order) => self.run_stage(at, &order)?,
            TaskEffect::StopStage { run } => self.stop_stage(at, run)?,
            TaskEffect::Merge { tree } => self.merges.push_back((at, tree)),
            TaskEffect::Tidy { commit } => self.start(at, JobFor::Tidy, StageWork::Tidy { commit }),
            // The user answers another process, or this one if it lives; there is nothing to do for it.
            TaskEffect::Ask { .. } | TaskEffect::Hold { .. } => {}
            TaskEffect::End(end) => {
                if end.end == TaskEndReason::Cancelled
                    && let Some(view) = self.tasks[at].stream().map(Stream::view)
                    && let Ok(repo) = Repository::open(&view.root, self.home)
                {
                    // A merge that waits on a branch is given up with it.
                    let _ = repo.forget_waiting(view.id.as_str());
                }
            }
        }
        Ok(())
    }

    fn set_status(&mut self, at: usize, status: StageTaskStatus) -> Result<(), RunError> {
        let Some(view) = self.tasks[at].stream().map(Stream::view) else { return Ok(()) };
        if let Err(error) = stage_tasks::set_status(&view.root, &view.file, status)
            && view.root.join(&view.file).exists()
        {
            self.inbox.push((at, TaskNews::Trouble(error.to_string())));
        }
        Ok(())
    }

    /// The loop that was started for a run of a stage.
    fn loop_of(&self, at: usize, stage: StageName, run: u32) -> Result<Option<LoopId>, RunError> {
        let task = &self.tasks[at];
        if let Some((id, of, _)) = &task.account
            && *of == run
        {
            return Ok(Some(id.clone()));
        }
        let Some(stream) = task.stream() else { return Ok(None) };
        let purpose = Purpose::stage(stage, run);
        for row in self.store.loops_of_run(stream.id())?.into_iter().rev() {
            let started = self.store.loop_started(&row.view.id)?;
            if started.is_some_and(|started| started.purpose.as_ref() == Some(&purpose)) {
                return Ok(Some(row.view.id));
            }
        }
        Ok(None)
    }

    fn run_stage(&mut self, at: usize, order: &StageOrder) -> Result<(), RunError> {
        let (run, stage) = (order.run, order.stage.name);
        if let Some(cause) = self.stop {
            let end = failed(reason_of(cause), "stopped before it began".to_owned());
            self.inbox.push((at, TaskNews::StageEnded { run, end }));
            return Ok(());
        }
        let may_be_known = run <= self.tasks[at].earlier_runs || self.tasks[at].has_begun(run);
        let known = if may_be_known { self.loop_of(at, stage, run)? } else { None };
        if let Some(id) = known {
            let view = self.store.row(&id)?.map(|row| row.current_view());
            let reason = view.as_ref().and_then(|view| view.reason);
            match order.about(reason, self.account(at, stage, &id)?.0.blocks()) {
                KnownLoop::Report => {
                    let end = self.stage_end(at, stage, run, &id)?;
                    self.inbox.push((at, TaskNews::StageEnded { run, end }));
                    return Ok(());
                }
                KnownLoop::GoOn { is_told } => {
                    if let Some(text) = order.user_says.clone().filter(|_| is_told) {
                        self.store.request(&id, &Request::Steer { text }, Timestamp::now())?;
                    }
                }
            }
            // An iteration that was cut short is charged. An agent that works once gets another try.
            let is_used_up =
                order.max_iterations == 1 && view.is_some_and(|view| view.iteration >= view.max_iterations);
            let grant = Grant { extra_iterations: u32::from(is_used_up), ..Grant::default() };
            self.start(at, JobFor::Stage { run, stage }, StageWork::GoOn { id, stage, grant });
            return Ok(());
        }
        let setup = self.tasks[at].stream().map(|stream| stream.state().setup(order));
        match setup {
            Some(Ok(Some(setup))) => {
                let work = StageWork::Begin {
                    stage,
                    run,
                    policy: Box::new(setup.policy),
                    prompt: setup.prompt,
                    steers: self.unheard(at)?,
                };
                self.start(at, JobFor::Stage { run, stage }, work);
            }
            Some(Err(blank)) => {
                let end = failed(Reason::Error, blank.to_string());
                self.inbox.push((at, TaskNews::StageEnded { run, end }));
            }
            Some(Ok(None)) | None => {}
        }
        Ok(())
    }

    /// What the user has said to the agent of the stage before, which ended before it could read it.
    fn unheard(&self, at: usize) -> Result<Vec<String>, RunError> {
        if self.tasks[at].account.as_ref().is_some_and(|(.., account)| !account.was_steered()) {
            return Ok(Vec::new());
        }
        let Some(stream) = self.tasks[at].stream() else { return Ok(Vec::new()) };
        let Some(newest) = self.store.loops_of_run(stream.id())?.pop() else { return Ok(Vec::new()) };
        let Some(before) = Stream::<LoopMachine>::open(&self.store, &newest.view.id)? else {
            return Ok(Vec::new());
        };
        let said = before.state().conversation.steers.iter();
        Ok(said.filter(|(_, told)| told.is_none()).map(|(text, _)| text.clone()).collect())
    }

    fn start(&mut self, at: usize, what: JobFor, work: StageWork) {
        let Some(stream) = self.tasks[at].stream() else { return };
        let known = self.known_worktree(at);
        let place = known.as_ref().map(|(path, branch, _)| (path.as_path(), branch.as_str()));
        let Some(spec) = spec_of(self.home, stream, place, work) else { return };
        let spec = StageSpec {
            seen: known.map(|(.., target)| target).filter(|target| !target.is_empty()),
            programs: self.programs.clone(),
            is_detached: self.is_detached,
            is_watched: self.observer.sees_output(),
            ..spec
        };
        match self.told(at, &HostMessage::Stage { protocol: PROTOCOL, spec: Box::new(spec) }) {
            Ok(running) => self.jobs.push(StageJobRun { at, what, running, merged: None, failed: None }),
            Err(error) => {
                let why = format!("cannot start a job: {error}");
                match what {
                    JobFor::Stage { run, .. } => {
                        let end = failed(Reason::Error, why);
                        self.inbox.push((at, TaskNews::StageEnded { run, end }));
                    }
                    JobFor::Merge => {
                        let end = MergeEnd::Held { reason: Reason::Error, detail: why };
                        self.inbox.push((at, TaskNews::MergeEnded(end)));
                    }
                    JobFor::Tidy => {}
                }
            }
        }
    }

    /// Gives an order to a job that waits for one, else to a new one. The job that worked on the task before knows most of it.
    fn told(&mut self, at: usize, order: &HostMessage) -> io::Result<Box<dyn RunningJob>> {
        if let Some(place) = self.idle.iter().position(|(last, _)| *last == at) {
            let job = self.idle.remove(place);
            self.idle.push(job);
        }
        while let Some((_, mut job)) = self.idle.pop() {
            match job.tell(order) {
                Ok(()) => return Ok(job),
                // It was killed while it waited.
                Err(_) => {
                    job.finish();
                }
            }
        }
        self.host.hire(order)
    }

    /// The worktree that the task has, from this run or from the one before, its branch, and the commit of the target that the
    /// branch holds.
    fn known_worktree(&self, at: usize) -> Option<(PathBuf, String, String)> {
        let stream = self.tasks[at].stream()?;
        if let Some((path, branch)) = stream.state().worktree() {
            let target = stream.state().target_commit().unwrap_or_default().to_owned();
            return Some((path.to_owned(), branch.to_owned(), target));
        }
        let project = &stream.state().settings()?.project;
        let earlier = self.store.history_of_tasks(project, Some(&self.tasks[at].id), 2).ok()?;
        earlier.iter().rev().find_map(|envelope| match &envelope.event {
            TaskEvent::WorktreeMade { path, branch, target } => {
                Some((path.clone(), branch.clone(), target.clone()))
            }
            _ => None,
        })
    }

    fn stop_stage(&mut self, at: usize, run: u32) -> Result<(), RunError> {
        let is_its = |job: &&StageJobRun| {
            job.at == at && matches!(job.what, JobFor::Stage { run: of, .. } if of == run)
        };
        let Some(JobFor::Stage { stage, .. }) = self.jobs.iter().find(is_its).map(|job| job.what) else {
            self.inbox
                .push((at, TaskNews::StageEnded { run, end: failed(Reason::Cancelled, String::new()) }));
            return Ok(());
        };
        match self.loop_of(at, stage, run)? {
            Some(id) => {
                self.store.request(&id, &Request::Cancel, Timestamp::now())?;
            }
            None => {
                if let Some(job) = self.jobs.iter().find(is_its) {
                    job.running.signal(JobSignal::Stop);
                }
            }
        }
        Ok(())
    }

    /// One merge after the other: each has to see what the one before has left.
    fn merge_next(&mut self) -> Result<(), RunError> {
        if self.jobs.iter().any(|job| job.what == JobFor::Merge) {
            return Ok(());
        }
        let Some((at, tree)) = self.merges.pop_front() else { return Ok(()) };
        if let Some(cause) = self.stop {
            let end =
                MergeEnd::Held { reason: reason_of(cause), detail: "stopped before it began".to_owned() };
            return self.take_in(at, vec![now(TaskNews::MergeEnded(end))]);
        }
        for words in self.unheard(at)? {
            let text = format!("no agent has read what you said, since all stages are passed: {words}");
            self.take_in(at, vec![now(TaskNews::Trouble(text))])?;
        }
        let Some(state) = self.tasks[at].stream().map(Stream::state) else { return Ok(()) };
        let (Some(policy), Some(started)) = (state.merge_policy(), state.started()) else { return Ok(()) };
        let work = StageWork::Merge {
            tree,
            from: state.target_commit().map(str::to_owned),
            policy: Box::new(policy),
            task: Box::new(started.task.clone()),
        };
        self.start(at, JobFor::Merge, work);
        Ok(())
    }

    // --- what a stage has done ------------------------------------------------------------------------------

    /// What the events of a stage's loop come to, and its iterations that may not be logged.
    fn account(
        &self,
        at: usize,
        stage: StageName,
        id: &LoopId,
    ) -> Result<(StageAccount, Vec<StageIteration>), RunError> {
        if let Some((known, _, account)) = &self.tasks[at].account
            && known == id
        {
            // All of it was looked at, and its iterations are logged.
            return Ok((account.clone(), Vec::new()));
        }
        let mut account = StageAccount::new(self.tasks[at].id.clone(), stage);
        let mut entries = Vec::new();
        for envelope in self.store.events(id, 0)? {
            entries.extend(account.take(&envelope.event));
        }
        Ok((account, entries))
    }

    /// How a loop of a stage ended, from the journal. Iterations that were not logged yet are.
    fn stage_end(
        &mut self,
        at: usize,
        stage: StageName,
        run: u32,
        id: &LoopId,
    ) -> Result<Box<StageEnd>, RunError> {
        let Some(view) = self.store.row(id)?.map(|row| row.current_view()) else {
            return Ok(failed(Reason::Error, "its loop is gone".to_owned()));
        };
        let (account, entries) = self.account(at, stage, id)?;
        for entry in entries {
            let news = TaskNews::IterationEnded { run, entry: Box::new(entry) };
            self.take_in(at, vec![now(news)])?;
        }
        let (before, tree) = account.trees().unwrap_or_default();
        let (changed, deleted) = match before == tree {
            true => (Vec::new(), Vec::new()),
            false => {
                let root =
                    self.tasks[at].stream().map(|stream| stream.view().root.clone()).unwrap_or_default();
                // Two trees are compared, which an index that the user has locked does not stand in the way of.
                let found = Git::find().map_err(WorkspaceError::from);
                let found = found.and_then(|git| Repository::find(&git, &root, self.home));
                match found.and_then(|repo| repo.changed_and_deleted(before, tree)) {
                    Ok(paths) => paths,
                    // This holds the task, and not the others.
                    Err(error) => {
                        let why = format!("what the {stage} has changed cannot be told: {error}");
                        return Ok(failed(Reason::Error, why));
                    }
                }
            }
        };
        Ok(Box::new(StageEnd {
            reason: view.reason.unwrap_or(Reason::Error),
            detail: view.detail.clone().unwrap_or_default(),
            answer: answers::last(self.home, &self.store, id)?.unwrap_or_default(),
            began_with: before.to_owned(),
            tree: tree.to_owned(),
            has_committed: account.has_committed(),
            changed,
            deleted,
            iterations: view.iteration,
            refusals: account.refusals().to_vec(),
            loop_id: Some(id.clone()),
        }))
    }

    // --- waiting --------------------------------------------------------------------------------------------

    fn wait(&mut self) -> Result<(), RunError> {
        // A task that is over is never written to again, so its lease may run out.
        let open = self.tasks.iter().filter_map(ListedTask::stream).filter(|stream| !stream.view().is_over);
        let renewals = open.map(Stream::renewal_is_due_at);
        let deadline = renewals.chain(self.next_tick).min();
        host::wait(&self.signals, self.jobs.iter().map(|job| &*job.running), deadline)?;
        for arrived in self.signals.take() {
            match arrived {
                ArrivedSignal::Stop(cause) => self.stopped(cause),
                ArrivedSignal::Suspend => {
                    host::suspend(self.jobs.iter().map(|job| &*job.running));
                }
                ArrivedSignal::Wake => {
                    for at in 0..self.tasks.len() {
                        let mut news = Vec::new();
                        self.read_requests(at, &mut news)?;
                        if !news.is_empty() {
                            self.take_in(at, news)?;
                        }
                    }
                }
            }
        }
        self.listen()?;
        let at_time = Instant::now();
        if self.next_tick.is_some_and(|due| due <= at_time) {
            self.observer.tick();
            self.next_tick = self.observer.tick_every().map(|every| at_time + every);
        }
        for task in &mut self.tasks {
            if let ListedState::Open { stream, .. } = &mut task.state
                && !stream.view().is_over
                && stream.renewal_is_due_at() <= at_time
            {
                stream.renew_lease(&mut self.store, Timestamp::now())?;
            }
        }
        Ok(())
    }

    /// The user or the system wants the process to end: what runs is asked to stop, and killed if they say so again.
    fn stopped(&mut self, cause: StopCause) {
        let is_again = self.stop.replace(cause).is_some();
        for job in &self.jobs {
            let kills = is_again && cause != StopCause::Interrupt;
            job.running.signal(if kills { JobSignal::Kill } else { JobSignal::Stop });
        }
    }

    fn read_requests(&mut self, at: usize, news: &mut Vec<Arrival<TaskInput>>) -> Result<(), RunError> {
        let Some(stream) = self.tasks[at].stream() else { return Ok(()) };
        let id = stream.id().clone();
        for pending in self.store.pending(&id)? {
            let asked = match pending.request {
                Request::Cancel => TaskNews::Cancel,
                Request::Answer { decision, text, question } => {
                    let answer = match decision.as_str() {
                        "approve" => UserAnswer::Approve,
                        _ => UserAnswer::Reject,
                    };
                    let view = self.tasks[at].stream().map(|stream| stream.view().clone());
                    // An answer about files that cannot be read does not count; it holds up no other task.
                    let tree = view.and_then(|view| tree_of(self.home, &view).ok()).unwrap_or_default();
                    TaskNews::Answered { question, answer, text, tree }
                }
                // What holds or steers a loop is for the one that works.
                request @ (Request::Pause { .. } | Request::Unpause { .. } | Request::Steer { .. }) => {
                    for row in self.store.working_loops_on_budget_of(&id)? {
                        self.store.request(&row.view.id, &request, Timestamp::now())?;
                    }
                    match request {
                        Request::Pause { .. } => TaskNews::Pause,
                        Request::Unpause { .. } => TaskNews::Unpause,
                        // One that is held goes on with what was said.
                        _ => TaskNews::Resumed,
                    }
                }
                Request::Signal { .. } | Request::Ask { .. } | Request::ApproveTree { .. } => {
                    TaskNews::Unpause
                }
            };
            news.push(Arrival {
                input: TaskInput { now: Timestamp::now(), news: asked },
                request: Some(pending.id),
            });
        }
        Ok(())
    }

    /// What jobs say, in order.
    fn listen(&mut self) -> Result<(), RunError> {
        let mut place = 0;
        while place < self.jobs.len() {
            let heard = self.jobs[place].running.read();
            let (at, what) = (self.jobs[place].at, self.jobs[place].what);
            let stage = match what {
                JobFor::Stage { stage, .. } => Some(stage),
                JobFor::Merge | JobFor::Tidy => None,
            };
            let source = StageSource { task: self.tasks[at].id.clone(), stage };
            let mut is_idle = false;
            for message in heard.messages {
                match message {
                    Ok(JobMessage::Idle) => is_idle = true,
                    Ok(JobMessage::Output(line)) => self.observer.output(&source, line.as_bytes()),
                    Ok(JobMessage::Said(said)) => self.observer.said(&source, &said),
                    Ok(JobMessage::Wrote { seq }) => self.look_at_loops(at, &source, seq)?,
                    Ok(JobMessage::Worktree { path, branch, target }) => {
                        self.take_in(at, vec![now(TaskNews::WorktreeMade { path, branch, target })])?;
                    }
                    Ok(JobMessage::Merge(report)) => self.jobs[place].merged = Some(report),
                    Ok(JobMessage::Failed(JobFailure { detail, reason, .. })) => {
                        self.jobs[place].failed = Some((detail, reason));
                    }
                    Ok(
                        JobMessage::Hello { .. }
                        | JobMessage::Event(_)
                        | JobMessage::LoopWrote
                        | JobMessage::Sandbox(_)
                        | JobMessage::Script(_),
                    ) => {}
                    Err(bad) => self.jobs[place].failed = Some((bad.to_string(), Reason::Error)),
                }
            }
            if is_idle || heard.is_over {
                let StageJobRun { running, merged, failed, .. } = self.jobs.remove(place);
                self.look_at_loops(at, &source, u64::MAX)?;
                let exit = match heard.is_over {
                    true => running.finish(),
                    false => {
                        self.idle.push((at, running));
                        JobExit { is_lost: false, how: "it came to no end".to_owned() }
                    }
                };
                self.job_ended(EndedJob { at, what, exit, merged, failed })?;
            } else {
                place += 1;
            }
        }
        Ok(())
    }

    /// Shows what loops of a task have recorded, up to a place in the journal, and logs iterations that are over.
    fn look_at_loops(&mut self, at: usize, source: &StageSource, up_to: u64) -> Result<(), RunError> {
        let Some(stream) = self.tasks[at].stream() else { return Ok(()) };
        let recorded = self.store.loops_of_workflow(stream.id(), self.tasks[at].seen, up_to)?;
        for envelope in recorded {
            self.tasks[at].seen = self.tasks[at].seen.max(envelope.seq);
            self.observer.loop_event(source, &envelope);
            let task = &mut self.tasks[at];
            if let LoopEvent::LoopStarted(started) = &envelope.event
                && let Some((stage, run)) = started.purpose.as_ref().and_then(Purpose::as_stage)
            {
                let account = StageAccount::new(task.id.clone(), stage);
                task.account = Some((envelope.loop_id.clone(), run, account));
            }
            let entry = match &mut task.account {
                Some((id, run, account)) if *id == envelope.loop_id => {
                    account.take(&envelope.event).map(|entry| (*run, entry))
                }
                _ => None,
            };
            if let Some((run, entry)) = entry {
                let news = TaskNews::IterationEnded { run, entry: Box::new(entry) };
                self.take_in(at, vec![now(news)])?;
            }
        }
        Ok(())
    }

    /// The branches that only dacapo moves while no job of their task runs: the target, and those of the tasks.
    fn still_branches(&self, at: usize) -> Vec<(PathBuf, String)> {
        let Some(settings) = self.tasks[at].stream().and_then(|stream| stream.state().settings()) else {
            return Vec::new();
        };
        let is_at_work = |other: usize| self.jobs.iter().any(|job| job.at == other);
        let own = (0..self.tasks.len()).filter(|other| !is_at_work(*other)).filter_map(|other| {
            let state = self.tasks[other].stream()?.state();
            // What is merged has no branch any more.
            let is_left = state.status() != StageTaskStatus::Done;
            state.worktree().filter(|_| is_left).map(|(_, branch)| branch.to_owned())
        });
        // A merge that runs just now may move the target at any time.
        let is_merging = self.jobs.iter().any(|job| job.what == JobFor::Merge);
        let target = (!is_merging).then(|| settings.target.clone());
        target.into_iter().chain(own).map(|branch| (settings.root.clone(), branch)).collect()
    }

    /// Notes where branches are, because what has happened to them is known.
    fn note_tips(&mut self, at: usize) {
        let still = self.still_branches(at);
        let Some(repo) = self.repository(&still) else { return };
        for (root, branch) in still {
            if let Some(tip) = repo.branch(&branch).ok().flatten() {
                self.tips.entry((root, branch)).or_insert(tip);
            }
        }
    }

    /// The repository that these branches are in.
    fn repository(&self, branches: &[(PathBuf, String)]) -> Option<Repository> {
        let (root, _) = branches.first()?;
        Repository::find(&Git::find().ok()?, root, self.home).ok()
    }

    /// Says which branches have moved although dacapo did not move them: an agent has git, and so has the user.
    fn moved_branches(&mut self, at: usize, stage: StageName) -> Vec<String> {
        let own = self.tasks[at]
            .stream()
            .and_then(|stream| stream.state().worktree())
            .map(|(_, branch)| branch.to_owned());
        let mut said = Vec::new();
        let still = self.still_branches(at);
        let Some(repo) = self.repository(&still) else { return said };
        for (root, branch) in still {
            let now = repo.branch(&branch).ok().flatten().unwrap_or_default();
            let known = self.tips.insert((root, branch.clone()), now.clone());
            let Some(known) = known.filter(|known| *known != now && Some(&branch) != own.as_ref()) else {
                continue;
            };
            said.push(match now.is_empty() {
                true => format!("the branch `{branch}` was deleted while the {stage} worked, and not by dacapo; it was at {known}"),
                false => format!("the branch `{branch}` was moved while the {stage} worked, and not by dacapo: `git log {known}...{now}` shows what differs"),
            });
        }
        said
    }

    fn job_ended(&mut self, job: EndedJob) -> Result<(), RunError> {
        let EndedJob { at, what, exit, merged, failed: why } = job;
        if exit.is_lost {
            supervisor::reconcile(self.home, &mut self.store)?;
            let working = self.jobs.iter().map(|job| &job.running);
            let idle = self.idle.iter().map(|(_, job)| job);
            let mut spared: Vec<Identity> = working.chain(idle).filter_map(|job| job.identity()).collect();
            // Loops that agents started are their own masters.
            spared.extend(self.store.active()?.into_iter().map(|row| row.owner));
            self.host.end_leftovers(&spared, SCRIPT_GRACE.std() + Duration::from_secs(1));
        }
        match what {
            JobFor::Stage { run, stage } => {
                let end = match self.loop_of(at, stage, run)? {
                    Some(id) => {
                        let mut end = self.stage_end(at, stage, run, &id)?;
                        // Why a loop that was held could not go on is news; how it was held is not.
                        if let Some((detail, _)) = why {
                            end.detail = detail;
                        }
                        end
                    }
                    None => match (why, self.stop) {
                        (Some((detail, reason)), _) => failed(reason, detail),
                        (None, Some(cause)) => failed(reason_of(cause), "stopped before it began".to_owned()),
                        (None, None) => failed(Reason::Error, exit.how),
                    },
                };
                let moved = self.moved_branches(at, stage);
                let news =
                    moved.into_iter().map(TaskNews::Trouble).chain([TaskNews::StageEnded { run, end }]);
                self.take_in(at, news.map(now).collect())
            }
            JobFor::Merge => {
                let end = match (merged, why) {
                    (Some(MergeReport::Merged { commit }), _) => MergeEnd::Merged { commit },
                    (Some(MergeReport::Conflict { paths }), _) => MergeEnd::Conflict { paths },
                    (Some(MergeReport::Refused { why }), _) => MergeEnd::Refused { why },
                    (Some(MergeReport::Held { reason, detail }), _) => MergeEnd::Held { reason, detail },
                    (None, Some((detail, reason))) => MergeEnd::Held { reason, detail },
                    (None, None) => {
                        let reason = self.stop.map_or(Reason::Error, reason_of);
                        MergeEnd::Held { reason, detail: exit.how }
                    }
                };
                if let Some(settings) = self.tasks[at].stream().and_then(|stream| stream.state().settings()) {
                    self.tips.remove(&(settings.root.clone(), settings.target.clone()));
                }
                self.note_tips(at);
                self.take_in(at, vec![now(TaskNews::MergeEnded(end))])
            }
            JobFor::Tidy => Ok(()),
        }
    }
}

/// Of several ends the user has to know first of a question, then of what is broken, then of limits.
fn severity(code: u8) -> u8 {
    match code {
        0 => 0,
        3 => 1,
        130 | 143 => 2,
        1 => 3,
        5 => 4,
        4 => 5,
        _ => 3,
    }
}
