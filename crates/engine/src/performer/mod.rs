//! The performer of one run of a workflow: inputs in one order, and for each of them journal → apply → publish → perform.
//!
//! It runs no agent itself. Each loop and each script is a job, a process of its own (`job.rs`), which dies with the performer.
//! What a loop has done is read from the journal, where it is known again by the step and the attempt that it was started for:
//! so an order that is given twice after a crash starts nothing twice.

pub(crate) mod job;
mod worktrees;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use dacapo_core::{
    duration::Millis,
    event::{Grant, LoopEvent, Reason, StopCause},
    ids::{LoopId, RunId, TaskId},
    loop_machine::{LoopMachine, Request},
    plan::Purpose,
    view::WorkflowView,
    workflow::{
        StepId, StepKind, WaitFor,
        machine::{
            Answer, LoopResult, Raise, ScriptEnd, ScriptResult, StepLoop, StepScript, WorkflowEffect,
            WorkflowInput, WorkflowMachine, WorkflowNews, WorkflowSettings, WorkflowStanding,
            WorkflowStarted, accepts, is_held,
        },
        messages,
    },
};
use jiff::Timestamp;

use self::{
    job::{ScriptReport, StepSpec, StepWork},
    worktrees::StepWorktrees,
};
use crate::{
    home::Home,
    observer::Observer,
    process::{Programs, identity::Identity},
    proof::fresh_id,
    scheduler::{
        RunError,
        host::{self, JobHost, JobSignal, LocalHost, RunningJob},
        message::{HostMessage, JobFailure, JobMessage, PROTOCOL},
    },
    signals::{ArrivedSignal, Signals},
    snapshots::{self, Workspace},
    store::{Arrival, LockError, Store, Stream, TaskLock},
    supervisor::{self, SCRIPT_GRACE, answers},
};

/// How often a performer looks for a file that a step waits for.
const LOOK_FOR_FILES: Duration = Duration::from_millis(500);

/// A run that is to begin.
#[derive(Clone, Debug)]
pub struct NewWorkflow {
    /// With settings; the id of the run is put in.
    pub started: WorkflowStarted,
    /// The id of the run, if it was chosen before; else it gets a new one.
    pub id: Option<RunId>,
    pub programs: Programs,
    /// Whether it runs without a terminal.
    pub is_detached: bool,
}

/// A run that is to go on.
#[derive(Clone, Debug)]
pub struct ResumeWorkflow {
    pub id: RunId,
    /// What the user who resumes it grants; `None` if it only takes up what was asked of it.
    pub resumed: Option<Raise>,
    pub is_detached: bool,
}

/// Where a run stands that its performer leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowLeft {
    pub view: WorkflowView,
    pub standing: WorkflowStanding,
    /// What the command exits with.
    pub exit_code: u8,
}

struct Performer<'a> {
    home: &'a Home,
    store: Store,
    id: RunId,
    stream: Stream<WorkflowMachine>,
    started: WorkflowStarted,
    programs: Programs,
    is_detached: bool,
    observer: &'a mut dyn Observer<WorkflowMachine>,
    host: LocalHost,
    jobs: Vec<StepJob>,
    signals: Signals,
    /// Up to where the loops' events were looked at.
    seen: u64,
    /// The steps of the loops that were seen.
    steps: BTreeMap<LoopId, StepId>,
    /// Files that steps wait for.
    files: Vec<(StepId, String)>,
    wake_at: Option<Timestamp>,
    next_look: Option<Instant>,
    next_tick: Option<Instant>,
    /// Why the performer leaves the run, if it was told to.
    stop: Option<StopCause>,
    /// What a person has said while no agent worked, for the next one.
    steers: Vec<String>,
    /// What is to be answered without a job.
    inbox: Vec<WorkflowNews>,
    _lock: TaskLock,
}

/// A job that runs, and what for.
struct StepJob {
    step: StepId,
    attempt: u32,
    is_script: bool,
    running: Box<dyn RunningJob>,
    /// The tree when it began, if anything asks for it.
    before: Option<String>,
    report: Option<ScriptReport>,
    /// Why nothing came of it.
    failed: Option<JobFailure>,
    is_killed: bool,
}

/// Begins a run and performs it as far as it goes.
pub fn run(
    home: &Home,
    mut new: NewWorkflow,
    observer: &mut dyn Observer<WorkflowMachine>,
) -> Result<WorkflowLeft, RunError> {
    // git is asked while the journal is opened.
    let root = new.started.settings.as_ref().map(|settings| settings.root.clone());
    let filters = thread::spawn(move || root.map(|root| snapshots::filters_set_up(&root)).transpose());
    home.prepare()?;
    let mut store = Store::open(&home.database())?;
    let name = |source| RunError::Io { what: "cannot make a name", source };
    let id: RunId = match new.id.take() {
        Some(id) => id,
        None => fresh_id().map_err(name)?.as_str().parse().map_err(|error| name(io::Error::other(error)))?,
    };
    new.started.run = id.to_string();
    let lock = take_lock(home, &id)?;
    let signals = listen(new.is_detached)?;
    let host = adopting()?;
    supervisor::reconcile(home, &mut store)?;
    let seen = store.last_seq()?;
    let unknown = |_| RunError::Io { what: "cannot ask git", source: io::ErrorKind::Interrupted.into() };
    let filters = filters.join().map_err(unknown)??.flatten();
    if let Some(settings) = &mut new.started.settings {
        settings.filters = filters;
    }
    let now = Timestamp::now();
    let input = WorkflowInput { now, news: WorkflowNews::Begin(Box::new(new.started.clone())) };
    let (stream, effects) =
        Stream::begin(&mut store, id.clone(), &Identity::own(), now, input, &(), observer)?;
    let performer = Performer::new(
        home,
        store,
        stream,
        new.started,
        new.programs,
        new.is_detached,
        observer,
        host,
        signals,
        seen,
        lock,
    );
    performer.perform_all(effects)
}

/// Goes on with a run that no process performs.
pub fn resume(
    home: &Home,
    wanted: ResumeWorkflow,
    observer: &mut dyn Observer<WorkflowMachine>,
) -> Result<WorkflowLeft, RunError> {
    home.prepare()?;
    let mut store = Store::open(&home.database())?;
    let ResumeWorkflow { id, resumed, is_detached } = wanted;
    let lock = take_lock(home, &id)?;
    let signals = listen(is_detached)?;
    let host = adopting()?;
    supervisor::reconcile(home, &mut store)?;
    supervisor::end_scripts(home, &id)?;
    let gone = || RunError::Io { what: "there is no such run", source: io::ErrorKind::NotFound.into() };
    let mut stream = Stream::<WorkflowMachine>::open(&store, &id)?.ok_or_else(gone)?;
    let started = stream.state().started().cloned().ok_or_else(gone)?;
    let seen = store.last_seq()?;
    stream.take_over(&mut store, &Identity::own(), Timestamp::now(), &())?;
    let mut performer = Performer::new(
        home,
        store,
        stream,
        started,
        Programs::default(),
        is_detached,
        observer,
        host,
        signals,
        seen,
        lock,
    );
    let mut news: Vec<Arrival<WorkflowInput>> = vec![now(WorkflowNews::TakenUp)];
    performer.read_requests(&mut news)?;
    news.extend(resumed.map(|raise| now(WorkflowNews::Resumed { raise })));
    if resumed.is_some() && performer.stream.view().is_paused {
        news.push(now(WorkflowNews::Unpause));
    }
    let effects = performer.take_in(news)?;
    performer.perform_all(effects)
}

/// The files of a run as they are now, in one word: the tree of a snapshot, so that what git ignores is of no account. Where it
/// cannot be told, no question is asked and no answer is taken.
pub fn tree_of(home: &Home, run: &RunId, settings: &WorkflowSettings) -> Result<String, RunError> {
    let mut workspace = snapshots_of(home, run, settings)?;
    if workspace.is_git() {
        workspace.begin()?;
        workspace.snapshot(0)?;
    }
    Ok(workspace.content_hash()?)
}

fn snapshots_of(home: &Home, run: &RunId, settings: &WorkflowSettings) -> Result<Workspace, RunError> {
    let name = run.as_str().parse::<LoopId>();
    let name = name.map_err(|error| RunError::Io {
        what: "cannot name the snapshots of the run",
        source: io::Error::other(error),
    })?;
    let mut workspace = Workspace::open(&settings.root, home, &name)?;
    workspace.hold_filters(settings.filters.clone());
    Ok(workspace)
}

fn now(news: WorkflowNews) -> Arrival<WorkflowInput> {
    WorkflowInput { now: Timestamp::now(), news }.into()
}

fn listen(is_detached: bool) -> Result<Signals, RunError> {
    Signals::listen(is_detached).map_err(|source| RunError::Io { what: "cannot listen to signals", source })
}

fn adopting() -> Result<LocalHost, RunError> {
    LocalHost::adopting().map_err(|source| RunError::Io { what: "cannot look after processes", source })
}

/// One performer per run.
fn take_lock(home: &Home, id: &RunId) -> Result<TaskLock, RunError> {
    TaskLock::take(&home.lock_of_workflow(id)).map_err(|error| match error {
        LockError::Held => RunError::Performed { id: id.clone() },
        LockError::Io { source, .. } => RunError::Io { what: "cannot lock the run", source },
    })
}

impl<'a> Performer<'a> {
    #[allow(clippy::too_many_arguments, reason = "the parts of one value, put together in two places")]
    fn new(
        home: &'a Home,
        store: Store,
        stream: Stream<WorkflowMachine>,
        started: WorkflowStarted,
        programs: Programs,
        is_detached: bool,
        observer: &'a mut dyn Observer<WorkflowMachine>,
        host: LocalHost,
        signals: Signals,
        seen: u64,
        lock: TaskLock,
    ) -> Self {
        Self {
            home,
            store,
            id: stream.id().clone(),
            started,
            stream,
            programs,
            is_detached,
            next_tick: observer.tick_every().map(|every| Instant::now() + every),
            observer,
            host,
            jobs: Vec::new(),
            signals,
            seen,
            steps: BTreeMap::new(),
            files: Vec::new(),
            wake_at: None,
            next_look: None,
            stop: None,
            steers: Vec::new(),
            inbox: Vec::new(),
            _lock: lock,
        }
    }

    fn perform_all(mut self, effects: Vec<WorkflowEffect>) -> Result<WorkflowLeft, RunError> {
        for effect in effects {
            self.perform(effect)?;
        }
        loop {
            let mut news: Vec<Arrival<WorkflowInput>> =
                std::mem::take(&mut self.inbox).into_iter().map(now).collect();
            if news.is_empty() {
                if let Some(left) = self.left() {
                    return Ok(left);
                }
                self.wait(&mut news)?;
            }
            for effect in self.take_in(news)? {
                self.perform(effect)?;
            }
        }
    }

    fn take_in(&mut self, news: Vec<Arrival<WorkflowInput>>) -> Result<Vec<WorkflowEffect>, RunError> {
        if news.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.stream.step(&mut self.store, Timestamp::now(), news, self.observer)?)
    }

    /// Where the run stands, if there is nothing more for this process to do about it.
    fn left(&self) -> Option<WorkflowLeft> {
        if !self.jobs.is_empty() {
            return None;
        }
        let standing = self.stream.state().standing();
        let stopped = self.stop.map(|cause| match cause {
            StopCause::Interrupt => Reason::Interrupted,
            StopCause::Cancel => Reason::Cancelled,
            StopCause::Terminate | StopCause::Hangup => Reason::Terminated,
        });
        let exit_code = match (&standing, stopped) {
            (WorkflowStanding::Over(end), _) => end.exit_code,
            (WorkflowStanding::Held { reason, .. }, _) => reason.exit_code(),
            (_, Some(reason)) => reason.exit_code(),
            (WorkflowStanding::Question(_), None) => Reason::Question.exit_code(),
            // A process that a person watches waits with them; in the background none is kept for it.
            (WorkflowStanding::Waiting(_), None) if self.is_detached => Reason::Waiting.exit_code(),
            (WorkflowStanding::Waiting(_) | WorkflowStanding::Running | WorkflowStanding::Paused, None) => {
                return None;
            }
        };
        Some(WorkflowLeft { view: self.stream.view().clone(), standing, exit_code })
    }

    // --- effects --------------------------------------------------------------------------------------------

    fn perform(&mut self, effect: WorkflowEffect) -> Result<(), RunError> {
        match effect {
            WorkflowEffect::RunLoop(order) => self.run_loop(*order)?,
            WorkflowEffect::RunScript(order) => self.run_script(*order),
            WorkflowEffect::MergeWorktree { step, attempt } => {
                let end = match self.worktrees() {
                    Some(worktrees) => worktrees.merge(&step).map_err(|error| error.to_string()),
                    None => Ok(()),
                };
                self.inbox.push(WorkflowNews::Merged { step, attempt, end });
            }
            WorkflowEffect::LookAtTree { step, attempt } => {
                let tree = self.tree()?;
                self.inbox.push(WorkflowNews::TreeSeen { step, attempt, tree });
            }
            WorkflowEffect::Ask { .. } | WorkflowEffect::Warn(_) => {}
            WorkflowEffect::End(_) => {
                // The loops of the run keep theirs.
                let has_own =
                    self.compares_trees() || self.started.workflow.steps.iter().any(|step| step.worktree);
                let root = self.started.settings.as_ref().filter(|_| has_own);
                if let Some(own) = root.and_then(|settings| self.snapshots(settings).ok()) {
                    let _ = own.forget();
                }
                if let Some(worktrees) = self.worktrees().filter(|_| has_own) {
                    worktrees.forget();
                }
            }
            WorkflowEffect::Wait { step, what, due } => {
                if let WaitFor::File(file) = what {
                    self.files.push((step, file));
                    self.next_look = Some(Instant::now());
                }
                self.wake(due);
            }
            WorkflowEffect::WakeAt(at) => self.wake(Some(at)),
            WorkflowEffect::Stop { step, attempt } => self.stop_step(step, attempt)?,
            WorkflowEffect::HoldLoops { now } => self.ask_loops(&Request::Pause { now })?,
            WorkflowEffect::ReleaseLoops => {
                self.ask_loops(&Request::Unpause { grant: Grant::default() })?;
            }
        }
        Ok(())
    }

    fn wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = self.wake_at.into_iter().chain(at).min();
    }

    fn ask_loops(&mut self, request: &Request) -> Result<(), RunError> {
        for row in self.store.working_loops_on_budget_of(&self.id)? {
            self.store.request(&row.view.id, request, Timestamp::now())?;
        }
        Ok(())
    }

    /// The loop that was started for an attempt of a step.
    fn loop_of(&self, step: &StepId, attempt: u32) -> Result<Option<LoopId>, RunError> {
        let purpose = Purpose::workflow_step(step, attempt);
        for row in self.store.loops_of_run(&self.id)?.into_iter().rev() {
            let started = self.store.loop_started(&row.view.id)?;
            if started.is_some_and(|started| started.purpose.as_ref() == Some(&purpose)) {
                return Ok(Some(row.view.id));
            }
        }
        Ok(None)
    }

    fn run_loop(&mut self, order: StepLoop) -> Result<(), RunError> {
        let (step, attempt, is_apart) = (order.step.clone(), order.attempt, order.worktree);
        if self.stop.is_some() {
            self.inbox.push(held(step, attempt));
            return Ok(());
        }
        if let Some(id) = self.loop_of(&step, attempt)? {
            let view = self.store.row(&id)?.map(|row| row.current_view());
            let is_open = |reason| is_held(reason) || (order.is_continued && reason == Reason::Blocked);
            let goes_on = view.as_ref().is_none_or(|view| view.reason.is_none_or(is_open));
            if !goes_on {
                let end = self.loop_result(&id, None)?;
                self.inbox.push(WorkflowNews::LoopEnded { step, attempt, end: Box::new(end) });
                return Ok(());
            }
            self.steps.insert(id.clone(), step.clone());
            // An iteration that was cut short is charged. A loop has others; an agent that works once gets another try.
            let is_one = order.max_iterations == 1
                && order.looped.as_ref().is_none_or(|looped| looped.is_interactive());
            let is_used_up = is_one && view.is_some_and(|view| view.iteration >= view.max_iterations);
            for text in std::mem::take(&mut self.steers) {
                self.store.request(&id, &Request::Steer { text }, Timestamp::now())?;
            }
            let grant = Grant { extra_iterations: u32::from(is_used_up), ..self.granted() };
            self.start(step, attempt, is_apart, StepWork::GoOn { id, grant });
            return Ok(());
        }
        let Some(settings) = self.started.settings.clone() else { return Ok(()) };
        let mut base = settings.policy;
        if let Some(agent) = settings.agents.get(&step) {
            base.agent.command = agent.clone();
        }
        let work = match order.setup(base, settings.origin, self.stream.state().budget()) {
            Ok(setup) => StepWork::Begin {
                policy: Box::new(setup.policy),
                prompt: setup.prompt,
                task: self.task(&step)?,
                purpose: Purpose::workflow_step(&step, attempt),
                filters: settings.filters,
                steers: std::mem::take(&mut self.steers),
            },
            Err(error) => {
                let end = failed(error.to_string());
                self.inbox.push(WorkflowNews::LoopEnded { step, attempt, end: Box::new(end) });
                return Ok(());
            }
        };
        self.start(step, attempt, is_apart, work);
        Ok(())
    }

    /// What the user allows the loops of the run beyond what they began with.
    fn granted(&self) -> Grant {
        let budget = self.stream.state().budget().unwrap_or_default();
        let grant = Grant { max_cost: budget.max_cost, max_tokens: budget.max_tokens, ..Grant::default() };
        Grant { per_run: grant.for_loops_of_run().per_run, ..Grant::default() }
    }

    /// The task that the loops of a step belong to.
    fn task(&self, step: &StepId) -> Result<TaskId, RunError> {
        let named = format!("{}.{step}", self.id);
        let place = self.started.workflow.steps.iter().position(|known| known.id == *step).unwrap_or(0);
        named
            .parse()
            .or_else(|_| format!("{}.{place}", self.id).parse())
            .map_err(|error| RunError::Io { what: "cannot name a task", source: io::Error::other(error) })
    }

    fn run_script(&mut self, order: StepScript) {
        let StepScript { step, attempt, script, variables, timeout, worktree } = order;
        if self.stop.is_some() {
            let end = ScriptResult {
                end: ScriptEnd::Interrupted(Reason::Interrupted),
                output: String::new(),
                is_changed: false,
            };
            self.inbox.push(WorkflowNews::ScriptEnded { step, attempt, end });
            return;
        }
        match script.environment(&variables) {
            Ok(environment) => {
                let settings = self.started.settings.as_ref();
                let sandbox = settings.map(|settings| settings.policy.sandbox.clone()).unwrap_or_default();
                let work = StepWork::Script { text: script.text, environment, timeout, sandbox };
                self.start(step, attempt, worktree, work);
            }
            Err(error) => self.inbox.push(not_started(step, attempt, error.to_string())),
        }
    }

    /// `is_apart` says that it works in a worktree of the step's own.
    fn start(&mut self, step: StepId, attempt: u32, is_apart: bool, work: StepWork) {
        let Some(settings) = &self.started.settings else { return };
        let is_script = matches!(work, StepWork::Script { .. });
        let goes_on = matches!(work, StepWork::GoOn { .. });
        let place = self.folder(&step, is_apart, goes_on).and_then(|folder| {
            let is_asked = self.compares_trees() && folder == settings.root;
            let before = is_asked.then(|| self.tree()).transpose().map_err(|error| error.to_string())?;
            Ok((folder, before))
        });
        let (workspace, before) = match place {
            Ok(place) => place,
            Err(why) if is_script => return self.inbox.push(not_started(step, attempt, why)),
            Err(why) => {
                let end = Box::new(failed(why));
                return self.inbox.push(WorkflowNews::LoopEnded { step, attempt, end });
            }
        };
        let spec = StepSpec {
            home: self.home.path().to_owned(),
            performer: std::process::id(),
            run: self.id.clone(),
            project: settings.project.clone(),
            workspace,
            work,
            programs: self.programs.clone(),
            is_detached: self.is_detached,
            is_watched: self.observer.sees_output(),
        };
        match self.host.send(&HostMessage::Step { protocol: PROTOCOL, spec: Box::new(spec) }) {
            Ok(running) => self.jobs.push(StepJob {
                step,
                attempt,
                is_script,
                running,
                before,
                report: None,
                failed: None,
                is_killed: false,
            }),
            Err(error) if is_script => self.inbox.push(not_started(step, attempt, error.to_string())),
            Err(error) => {
                let end = Box::new(failed(format!("cannot start a job: {error}")));
                self.inbox.push(WorkflowNews::LoopEnded { step, attempt, end });
            }
        }
    }

    /// Where a step works: in the workspace, or in a worktree of its own.
    fn folder(&self, step: &StepId, is_apart: bool, goes_on: bool) -> Result<PathBuf, String> {
        let root = self.started.settings.as_ref().map(|settings| settings.root.clone()).unwrap_or_default();
        match self.worktrees().filter(|_| is_apart) {
            None => Ok(root),
            Some(worktrees) if goes_on => worktrees.known(step).map_err(|error| error.to_string()),
            Some(worktrees) => worktrees.make(step).map_err(|error| error.to_string()),
        }
    }

    fn worktrees(&self) -> Option<StepWorktrees<'_>> {
        let settings = self.started.settings.as_deref()?;
        let WorkflowSettings { project, root, filters, .. } = settings;
        Some(StepWorktrees { home: self.home, run: &self.id, project, root, filters: filters.as_ref() })
    }

    fn stop_step(&mut self, step: StepId, attempt: u32) -> Result<(), RunError> {
        let id = self.loop_of(&step, attempt)?;
        if let Some(job) = self.jobs.iter_mut().find(|job| job.step == step && job.attempt == attempt) {
            match id {
                Some(id) => {
                    self.store.request(&id, &Request::Cancel, Timestamp::now())?;
                }
                // Its keeper ends what it has started.
                None => {
                    job.is_killed = true;
                    job.running.signal(if job.is_script { JobSignal::Kill } else { JobSignal::Stop });
                }
            }
            return Ok(());
        }
        if let Some(id) = &id {
            self.store.request(id, &Request::Cancel, Timestamp::now())?;
            supervisor::settle(self.home, &mut self.store, id)?;
        }
        let end = LoopResult { reason: Reason::Cancelled, ..failed("cancelled".to_owned()) };
        self.inbox.push(WorkflowNews::LoopEnded { step, attempt, end: Box::new(end) });
        Ok(())
    }

    // --- what a loop has done -------------------------------------------------------------------------------

    /// Whether the run needs to know what a step has changed: only if it asks a person about it.
    fn compares_trees(&self) -> bool {
        self.started.workflow.steps.iter().any(|step| match &step.kind {
            StepKind::Approval(_) => true,
            StepKind::Loop(looped) => looped.is_interactive(),
            _ => false,
        })
    }

    fn tree(&self) -> Result<String, RunError> {
        match &self.started.settings {
            Some(settings) => tree_of(self.home, &self.id, settings),
            None => Ok(String::new()),
        }
    }

    /// What keeps the snapshots of the run's own folder.
    fn snapshots(&self, settings: &WorkflowSettings) -> Result<Workspace, RunError> {
        snapshots_of(self.home, &self.id, settings)
    }

    fn loop_result(&self, id: &LoopId, before: Option<&str>) -> Result<LoopResult, RunError> {
        let Some(view) = self.store.row(id)?.map(|row| row.current_view()) else {
            return Ok(failed("its loop is gone".to_owned()));
        };
        let reason = view.reason.unwrap_or(Reason::Error);
        let mut detail = view.detail.clone().unwrap_or_default();
        if reason == Reason::Error && self.started.workflow.as_loop().is_some() {
            detail = messages::iteration_error(view.iteration, &detail);
        }
        let session = Stream::<LoopMachine>::open(&self.store, id)?
            .and_then(|stream| stream.state().sessions.next.clone());
        let tree = if self.compares_trees() { self.tree()? } else { String::new() };
        Ok(LoopResult {
            reason,
            detail,
            output: answers::last(self.home, &self.store, id)?.unwrap_or_default(),
            is_changed: before.is_none_or(|before| before != tree),
            tree,
            session,
            refused: view.refused.map(|(_, why)| why).filter(|_| reason == Reason::MaxIterations),
            repeats: false,
        })
    }

    // --- waiting --------------------------------------------------------------------------------------------

    fn wait(&mut self, news: &mut Vec<Arrival<WorkflowInput>>) -> Result<(), RunError> {
        let due = self.wake_at.map(|at| {
            let left = at.duration_since(Timestamp::now());
            Instant::now() + Duration::try_from(left).unwrap_or_default()
        });
        let renewal = Some(self.stream.renewal_is_due_at());
        let deadline = [due, self.next_look, self.next_tick, renewal].into_iter().flatten().min();
        host::wait(&self.signals, self.jobs.iter().map(|job| &*job.running), deadline)?;
        for arrived in self.signals.take() {
            match arrived {
                ArrivedSignal::Stop(cause) => self.stopped(cause),
                ArrivedSignal::Suspend => {
                    host::suspend(self.jobs.iter().map(|job| &*job.running));
                }
                ArrivedSignal::Wake => self.read_requests(news)?,
            }
        }
        self.listen(news)?;
        self.look_at_the_clock(news);
        if self.stream.renewal_is_due_at() <= Instant::now() {
            self.stream.renew_lease(&mut self.store, Timestamp::now())?;
        }
        Ok(())
    }

    /// The user or the system wants the process to end: what runs is asked to stop, and killed if they say so again.
    fn stopped(&mut self, cause: StopCause) {
        let is_again = self.stop.replace(cause).is_some();
        for job in &mut self.jobs {
            job.is_killed |= job.is_script;
            let kills = job.is_script || (is_again && cause != StopCause::Interrupt);
            job.running.signal(if kills { JobSignal::Kill } else { JobSignal::Stop });
        }
    }

    fn look_at_the_clock(&mut self, news: &mut Vec<Arrival<WorkflowInput>>) {
        if self.wake_at.is_some_and(|at| at <= Timestamp::now()) {
            self.wake_at = None;
            news.push(now(WorkflowNews::Due));
        }
        let at = Instant::now();
        if self.next_look.is_some_and(|due| due <= at) {
            let root = self.started.settings.as_ref().map(|settings| settings.root.clone());
            let (there, waited): (Vec<_>, Vec<_>) = std::mem::take(&mut self.files)
                .into_iter()
                .partition(|(_, file)| root.as_ref().is_some_and(|root| root.join(file).exists()));
            news.extend(there.into_iter().map(|(step, _)| now(WorkflowNews::FileSeen { step })));
            self.next_look = (!waited.is_empty()).then(|| at + LOOK_FOR_FILES);
            self.files = waited;
        }
        if self.next_tick.is_some_and(|due| due <= at) {
            self.observer.tick();
            self.next_tick = self.observer.tick_every().map(|every| at + every);
        }
    }

    fn read_requests(&mut self, news: &mut Vec<Arrival<WorkflowInput>>) -> Result<(), RunError> {
        for pending in self.store.pending(&self.id)? {
            let asked = match pending.request {
                Request::Cancel => WorkflowNews::Cancel { why: "cancelled by the user".to_owned() },
                Request::Pause { now } => WorkflowNews::Pause { now },
                Request::Unpause { grant } => {
                    let raise = Raise {
                        max_cost: grant.max_cost,
                        max_tokens: grant.max_tokens,
                        max_time_ms: grant.max_time_ms.map(|time| time.0),
                    };
                    if raise != Raise::default() {
                        news.push(now(WorkflowNews::Resumed { raise }));
                    }
                    WorkflowNews::Unpause
                }
                Request::Signal { name } => WorkflowNews::Signalled { name },
                Request::Answer { decision, text, question } => {
                    let answer = match decision.as_str() {
                        "approve" => Answer::Approve,
                        "reject" => Answer::Reject,
                        _ => Answer::Choose(decision),
                    };
                    match accepts(self.stream.state(), question, &answer) {
                        Ok(()) => WorkflowNews::Answered { question, answer, text, tree: self.tree()? },
                        // It was open when the person was shown it; an answer that comes too late changes nothing.
                        Err(_) => WorkflowNews::Due,
                    }
                }
                Request::Steer { text } => {
                    let working = self.store.working_loops_on_budget_of(&self.id)?;
                    for row in &working {
                        let request = Request::Steer { text: text.clone() };
                        self.store.request(&row.view.id, &request, Timestamp::now())?;
                    }
                    if working.is_empty() {
                        self.steers.push(text);
                    }
                    WorkflowNews::Due
                }
                Request::Ask { .. } | Request::ApproveTree { .. } => WorkflowNews::Due,
            };
            news.push(Arrival {
                input: WorkflowInput { now: Timestamp::now(), news: asked },
                request: Some(pending.id),
            });
        }
        Ok(())
    }

    /// What jobs say, in order.
    fn listen(&mut self, news: &mut Vec<Arrival<WorkflowInput>>) -> Result<(), RunError> {
        let mut at = 0;
        while at < self.jobs.len() {
            let heard = self.jobs[at].running.read();
            let step = self.jobs[at].step.clone();
            for message in heard.messages {
                match message {
                    Ok(JobMessage::Output(line)) => self.observer.output(&step, line.as_bytes()),
                    Ok(JobMessage::Said(said)) => self.observer.said(&step, &said),
                    Ok(JobMessage::Wrote { seq }) => self.look_at_loops(seq)?,
                    Ok(JobMessage::Sandbox(sandbox)) => {
                        let attempt = self.jobs[at].attempt;
                        news.push(now(WorkflowNews::ScriptStarted { step: step.clone(), attempt, sandbox }));
                    }
                    Ok(JobMessage::Script(report)) => self.jobs[at].report = Some(report),
                    Ok(JobMessage::Failed(failure)) => self.jobs[at].failed = Some(failure),
                    Ok(
                        JobMessage::Hello { .. }
                        | JobMessage::Event(_)
                        | JobMessage::LoopWrote
                        | JobMessage::Worktree { .. }
                        | JobMessage::Merge(_)
                        | JobMessage::Idle,
                    ) => {}
                    Err(bad) => self.jobs[at].failed = Some(JobFailure::new(bad.to_string(), Reason::Error)),
                }
            }
            if heard.is_over {
                let job = self.jobs.remove(at);
                self.look_at_loops(u64::MAX)?;
                self.job_ended(job, news)?;
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Shows what loops of the run have recorded, up to a place in the journal.
    fn look_at_loops(&mut self, up_to: u64) -> Result<(), RunError> {
        for envelope in self.store.loops_of_workflow(&self.id, self.seen, up_to)? {
            self.seen = self.seen.max(envelope.seq);
            if let LoopEvent::LoopStarted(started) = &envelope.event
                && let Some((step, _)) = started.purpose.as_ref().and_then(Purpose::as_workflow_step)
            {
                self.steps.insert(envelope.loop_id.clone(), step);
            }
            if let Some(step) = self.steps.get(&envelope.loop_id) {
                self.observer.loop_event(step, &envelope);
            }
        }
        Ok(())
    }

    fn job_ended(&mut self, job: StepJob, news: &mut Vec<Arrival<WorkflowInput>>) -> Result<(), RunError> {
        let StepJob { step, attempt, is_script, running, before, report, failed: why, is_killed } = job;
        let exit = running.finish();
        if is_script {
            if exit.is_lost {
                self.end_leftovers()?;
            }
            let is_changed =
                before.map(|before| Ok::<_, RunError>(before != self.tree()?)).transpose()?.unwrap_or(false);
            let stopped = match self.stop {
                Some(StopCause::Interrupt) => Reason::Interrupted,
                Some(StopCause::Terminate | StopCause::Hangup) => Reason::Terminated,
                Some(StopCause::Cancel) | None => Reason::Cancelled,
            };
            let (end, output) = match (report, why) {
                (Some(report), _) if report.is_timed_out => (ScriptEnd::TimedOut, report.stdout),
                (Some(ScriptReport { failure: Some(how), stderr, .. }), _) => (ScriptEnd::Lost(how), stderr),
                (Some(report), _) if report.exit_code == 0 => (ScriptEnd::Exited(0), report.stdout),
                (Some(report), _) => {
                    let said = if report.stderr.trim().is_empty() { report.stdout } else { report.stderr };
                    (ScriptEnd::Exited(report.exit_code), said)
                }
                (None, _) if is_killed => (ScriptEnd::Interrupted(stopped), String::new()),
                (None, Some(why)) => (ScriptEnd::NotStarted(why.detail), String::new()),
                (None, None) => {
                    let how = format!("was ended, because the process that ran it did ({})", exit.how);
                    (ScriptEnd::Lost(how), String::new())
                }
            };
            let end = ScriptResult { end, output, is_changed };
            news.push(now(WorkflowNews::ScriptEnded { step, attempt, end }));
            return Ok(());
        }
        let end = match self.loop_of(&step, attempt)? {
            Some(id) => {
                supervisor::reconcile(self.home, &mut self.store)?;
                if exit.is_lost {
                    self.end_leftovers()?;
                }
                let end = self.loop_result(&id, before.as_deref())?;
                // Why a loop that was held could not go on is news; how it was held is not. One whose supervisor could not
                // record its end, because the disk is full, has no other reason than that.
                match why {
                    Some(JobFailure { detail, reason: Reason::Disk, .. })
                        if end.reason == Reason::Interrupted =>
                    {
                        LoopResult { reason: Reason::Disk, detail, ..end }
                    }
                    Some(JobFailure { detail, .. }) => LoopResult { detail, ..end },
                    None => end,
                }
            }
            None if self.stop.is_some() => {
                news.push(now(held(step, attempt)));
                return Ok(());
            }
            None => {
                let JobFailure { detail, reason, repeats } =
                    why.unwrap_or_else(|| JobFailure::new(exit.how, Reason::Error));
                LoopResult { reason, repeats, ..failed(detail) }
            }
        };
        self.account(news)?;
        news.push(now(WorkflowNews::LoopEnded { step, attempt, end: Box::new(end) }));
        Ok(())
    }

    /// Waits until nothing is left of what a job had started that was killed. What is left when its keeper should have ended
    /// it is killed: its keeper was killed too.
    fn end_leftovers(&mut self) -> Result<(), RunError> {
        let mut spared: Vec<Identity> = self.jobs.iter().filter_map(|job| job.running.identity()).collect();
        // Loops that agents started are their own masters. A row that an agent forged names a process that is none.
        let owners = self.store.active()?.into_iter().map(|row| row.owner);
        spared.extend(owners.filter(Identity::runs_this_program));
        self.host.end_leftovers(&spared, SCRIPT_GRACE.std() + Duration::from_secs(1));
        Ok(())
    }

    /// Says what the loops of the run have spent, where that matters.
    fn account(&self, news: &mut Vec<Arrival<WorkflowInput>>) -> Result<(), RunError> {
        if self.stream.state().budget().is_none() {
            return Ok(());
        }
        let (mut cost_usd, mut tokens, mut time_ms) = (0.0, 0_u64, Millis(0));
        for row in self.store.loops_of_run(&self.id)? {
            let total = row.view.ledger.total();
            cost_usd += total.cost_usd.unwrap_or(0.0);
            tokens = tokens.saturating_add(total.usage.map_or(0, |usage| usage.total()));
            time_ms = time_ms.plus(row.view.spent_ms);
        }
        news.push(now(WorkflowNews::Spent { cost_usd, tokens, time_ms: time_ms.0 }));
        Ok(())
    }
}

fn failed(detail: String) -> LoopResult {
    LoopResult {
        reason: Reason::Error,
        detail,
        output: String::new(),
        tree: String::new(),
        is_changed: false,
        session: None,
        refused: None,
        repeats: false,
    }
}

/// The answer to an order that comes when the process is about to leave the run.
fn held(step: StepId, attempt: u32) -> WorkflowNews {
    let detail = "stopped before it began".to_owned();
    let end = LoopResult { reason: Reason::Interrupted, ..failed(detail) };
    WorkflowNews::LoopEnded { step, attempt, end: Box::new(end) }
}

fn not_started(step: StepId, attempt: u32, why: String) -> WorkflowNews {
    let end = ScriptResult { end: ScriptEnd::NotStarted(why), output: String::new(), is_changed: false };
    WorkflowNews::ScriptEnded { step, attempt, end }
}
