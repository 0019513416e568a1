//! The scheduler of one run of units: inputs in one order, and for each of them journal → apply → publish → perform.
//!
//! It works on no unit itself. It starts a job for each (`job.rs`), records what jobs say, translates what their loops have
//! written, and waits on all of them at once.

mod branch;
mod dead;
pub(crate) mod host;
mod job;
mod merge;
pub(crate) mod message;
mod orphans;
#[cfg(test)]
mod scripted_tests;
mod target;
mod work;

use std::{
    collections::BTreeSet,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use dacapo_core::{
    duration::Millis,
    event::{LoopEvent, MergeMode, PlannedUnit, RunEvent, RunStarted, UnitEnd},
    ids::{LoopId, ProjectId, RunId, UnitId},
    loop_machine::Request,
    policy::Policy,
    unit::{
        TaskStatus, Unit,
        account::Accounts,
        schedule::{GRACE, Job, RunEffect, RunInput, RunMachine, RunOver},
        settings::RunSettings,
    },
    view::UnitStatus,
};
use jiff::Timestamp;

pub use dead::close_dead_runs;
pub(crate) use job::JobReporter;
pub use job::{JOB, main as job_main};

use self::{
    host::{JobHost, JobSignal, LocalHost, RunningJob},
    message::{JobMessage, JobSpec, UnitFiles},
    target::TargetWatch,
};
use crate::{
    git::{RunLock, RunLockHeld, WorkspaceError},
    home::{Home, HomeError},
    observer::Observer,
    process::{Programs, identity::Identity},
    proof,
    repository::{PushRoute, Repository, WorktreeOwner, prepare},
    signals::{ArrivedSignal, Signals},
    store::{Arrival, LockError, RunRow, Store, StoreError, Stream, TaskLock},
    supervisor::{self, StartError},
};
pub(crate) use target::every_doubt;

/// How long news of loops may wait for more, so that they are looked at and recorded together.
const LOOK_AFTER: Duration = Duration::from_millis(20);

/// A run that is to begin.
#[derive(Clone, Debug)]
pub struct NewRun {
    pub project: ProjectId,
    /// The top of the repository.
    pub root: PathBuf,
    /// The branch that finished units go into.
    pub target: String,
    /// What becomes of a finished unit.
    pub merge: MergeMode,
    /// How many units are worked on at once.
    pub parallel: u32,
    /// The units, unfinished and with everything they depend on or that done before.
    pub units: Vec<Unit>,
    /// What its loops are told.
    pub settings: RunSettings,
    /// The programs of agents that were found already.
    pub programs: Programs,
    /// The run that it goes on with, on whose budget it draws.
    pub goes_on_with: Option<RunId>,
    /// Whether it runs without a terminal.
    pub is_detached: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFinished {
    pub id: RunId,
    pub over: RunOver,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// Why a run does not begin, or could not be brought to an end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Loops that a dead dacapo left.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Another scheduler runs units of this repository.
    #[error("units of this repository are being run{}", holder.as_ref().map(|id| format!(" by run {id}")).unwrap_or_default())]
    Held { holder: Option<RunId> },
    /// Another process performs the run of a workflow.
    #[error("run {id} is performed by another dacapo")]
    Performed { id: RunId },
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        source: io::Error,
    },
}

struct Scheduler<'a> {
    home: &'a Home,
    store: Store,
    id: RunId,
    started: RunStarted,
    units: Vec<Unit>,
    programs: Programs,
    is_detached: bool,
    route: Option<PushRoute>,
    stream: Stream<RunMachine>,
    /// What is known of the loops of its units.
    accounts: Accounts,
    observer: &'a mut dyn Observer<RunMachine>,
    host: &'a mut dyn JobHost,
    jobs: Vec<UnitJob>,
    signals: Signals,
    /// Up to where the loops' events were looked at.
    seen: u64,
    /// Loops that were asked to pause with the run. The scheduler sees late that a loop began, and asks none twice.
    asked_to_pause: BTreeSet<LoopId>,
    /// Loops and what they were told of the words to the whole run. No loop is told the same twice.
    steered: BTreeSet<(LoopId, String)>,
    grace: Option<Instant>,
    time: Option<Instant>,
    /// What is left of the time while a person holds the run.
    held_time: Option<Duration>,
    next_tick: Option<Instant>,
    /// When to look at what loops have written, if one has said that there is something.
    next_look: Option<Instant>,
    /// Whether a job ended before it could end what it had started.
    has_lost_job: bool,
    target: TargetWatch<'a>,
}

/// A job that runs, and the unit that it works for.
struct UnitJob {
    unit: UnitId,
    running: Box<dyn RunningJob>,
    /// Whether it said something that is no message. That is told once; the job is stopped for it.
    is_garbled: bool,
    /// When it is killed, if it was told to stop for that.
    kill_at: Option<Instant>,
}

/// Runs units to their end, in processes of this machine.
pub fn run(
    home: &Home,
    new: NewRun,
    observer: &mut dyn Observer<RunMachine>,
) -> Result<RunFinished, RunError> {
    let adopted = LocalHost::adopting();
    let mut host = adopted.map_err(|source| RunError::Io { what: "cannot look after processes", source })?;
    run_on(&mut host, home, new, observer)
}

/// Runs units to their end, with jobs that `host` starts.
fn run_on(
    host: &mut dyn JobHost,
    home: &Home,
    mut new: NewRun,
    observer: &mut dyn Observer<RunMachine>,
) -> Result<RunFinished, RunError> {
    home.prepare()?;
    let mut store = Store::open(&home.database())?;
    let repo = Repository::open(&new.root, home)?;
    let (_lock, mut repository_lock) = take_locks(home, &store, &repo, &new.project)?;
    let signals = Signals::listen(new.is_detached)
        .map_err(|source| RunError::Io { what: "cannot listen to signals", source })?;
    supervisor::reconcile(home, &mut store)?;
    // The lock says that no other scheduler runs them.
    let dead = close_dead_runs(&mut store, &new.project)?;
    tidy_up(home, &store, &repo, &new)?;
    // Before any agent can turn it elsewhere.
    let is_pushed = new.merge == MergeMode::PullRequest;
    let route = is_pushed.then(|| repo.route(&new.target)).transpose()?;
    let was_dirty = !repo.is_dirty()?.is_empty();
    let found = target::left_by_dead_run(&store, &repo, &dead, &new.target)?;
    let mut watch = TargetWatch::begin(&repo, &new.target, found);
    let moved = watch.look();
    new.settings.policy.gates.doubted =
        target::doubted(home, &store, &repo, &new.project, &new.target, moved.as_ref())?;
    let random = proof::fresh_id().map_err(|source| RunError::Io { what: "cannot make a name", source })?;
    let id: RunId = random
        .as_str()
        .parse()
        .map_err(|error| RunError::Io { what: "cannot make a name", source: io::Error::other(error) })?;
    repository_lock.say(id.as_str());
    let time = new.settings.max_time.map(|time| Instant::now() + time.std());
    let plans = new.units.iter().map(plan).collect();
    let started = RunStarted {
        project: new.project,
        root: new.root,
        target: new.target,
        tip: watch.known().map(str::to_owned),
        merge: new.merge,
        parallel: new.parallel,
        units: plans,
        settings: Box::new(new.settings),
        budget_of: new.goes_on_with.unwrap_or_else(|| id.clone()),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let seen = store.last_seq()?;
    let (owner, input) = (Identity::own(), RunInput::Begin(Box::new(started.clone())));
    let (stream, effects) =
        Stream::begin(&mut store, id.clone(), &owner, Timestamp::now(), input, &(), observer)?;
    // Loops that will be continued: what they wrote before is told already, but has to be known.
    let mut accounts = Accounts::default();
    for unit in &new.units {
        for row in store.newest_of_task(Some(&started.project), unit.id.as_str())? {
            if row.view.reason.is_none_or(|reason| reason.is_resumable()) {
                for envelope in store.events(&row.view.id, 0)? {
                    accounts.see(&unit.id, &envelope);
                }
            }
        }
    }
    let mut scheduler = Scheduler {
        home,
        store,
        id,
        started,
        units: new.units,
        programs: new.programs,
        is_detached: new.is_detached,
        route,
        stream,
        accounts,
        host,
        jobs: Vec::new(),
        signals,
        seen,
        asked_to_pause: BTreeSet::new(),
        steered: BTreeSet::new(),
        grace: None,
        time,
        held_time: None,
        next_tick: observer.tick_every().map(|every| Instant::now() + every),
        next_look: None,
        has_lost_job: false,
        target: watch,
        observer,
    };
    if let (Some(event), Some(unit)) = (moved, scheduler.units.first().map(|unit| unit.id.clone())) {
        let told = RunInput::Told { unit, event }.into();
        let more =
            scheduler.stream.step(&mut scheduler.store, Timestamp::now(), vec![told], scheduler.observer)?;
        more.into_iter().try_for_each(|effect| scheduler.perform(effect))?;
    }
    effects.into_iter().try_for_each(|effect| scheduler.perform(effect))?;
    let mut finished = scheduler.supervise()?;
    // An agent that knows the path can write there, and the user would not look for it in the morning (fault H12).
    if !was_dirty && repo.is_dirty().is_ok_and(|paths| !paths.is_empty()) {
        finished.warnings.push(
            "the checkout was clean when the run began and is not now: an agent or a person changed files in it"
                .to_owned(),
        );
    }
    Ok(finished)
}

/// Removes worktrees and branches of units that were merged when their scheduler was killed; what is not surely merged and clean
/// stays.
fn tidy_up(home: &Home, store: &Store, repo: &Repository, new: &NewRun) -> Result<(), RunError> {
    for view in store.unit_views(Some(&new.project))? {
        let (UnitStatus::Merged, Some(path), Some(branch)) = (view.status, view.worktree, view.branch) else {
            continue;
        };
        if path.exists() {
            let work = (&view.unit).into();
            let at = WorktreeOwner { project: &new.project, work, dir: &path, branch: Some(&branch) };
            let _ = prepare(home, at, &new.settings.policy.sandbox, &new.settings.teardown);
        } else if !repo.branch(&branch).is_ok_and(|tip| tip.is_some()) {
            continue;
        }
        let _ = repo.remove(&path, &branch, &new.target);
    }
    Ok(())
}

fn plan(unit: &Unit) -> PlannedUnit {
    let complete = unit.tasks.iter().filter(|task| task.status == TaskStatus::Complete);
    PlannedUnit {
        unit: unit.id.clone(),
        depends_on: unit.depends_on.clone(),
        tasks: unit.tasks.iter().map(|task| (task.spec.number, task.spec.title.clone())).collect(),
        complete: complete.map(|task| task.spec.number).collect(),
    }
}

/// Whether a loop can start an agent at all: that of a merge looks at a tree on which no agent works.
fn has_agent(policy: &Policy) -> bool {
    policy.limits.max_iterations > 0
}

/// The words of a person, of `said`, that a loop was not told.
fn unheard(store: &Store, id: &LoopId, said: &[String]) -> Result<Vec<String>, StoreError> {
    let told: BTreeSet<String> = store
        .events(id, 0)?
        .into_iter()
        .filter_map(|envelope| match envelope.event {
            LoopEvent::Steered { text } => Some(text),
            _ => None,
        })
        .collect();
    Ok(said.iter().filter(|text| !told.contains(*text)).cloned().collect())
}

/// The right to work on units: of the project, and of the repository. Another worktree of that is another project, and
/// another home knows nothing of this one, but the target and the branches are the same.
pub(crate) fn take_locks(
    home: &Home,
    store: &Store,
    repo: &Repository,
    project: &ProjectId,
) -> Result<(TaskLock, RunLock), RunError> {
    let lock = take_lock(home, store, project)?;
    let held = |held: RunLockHeld| RunError::Held { holder: held.said.trim().parse().ok() };
    Ok((lock, repo.run_lock()?.map_err(held)?))
}

/// One run per project: two would fight over worktrees and the target.
fn take_lock(home: &Home, store: &Store, project: &ProjectId) -> Result<TaskLock, RunError> {
    let path = home.path().join("locks").join(project.as_str()).join(".units");
    match TaskLock::take(&path) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held) => {
            let holder = store.newest_run(Some(project))?.filter(RunRow::is_running).map(|run| run.view.id);
            Err(RunError::Held { holder })
        }
        Err(LockError::Io { source, .. }) => {
            Err(RunError::Io { what: "cannot lock the project's units", source })
        }
    }
}

impl Scheduler<'_> {
    fn supervise(mut self) -> Result<RunFinished, RunError> {
        loop {
            if let Some(over) = self.stream.state().over() {
                if self.has_lost_job {
                    // Loops that agents started are their own masters.
                    let spared: Vec<Identity> =
                        self.store.active()?.into_iter().map(|row| row.owner).collect();
                    self.host.end_leftovers(&spared, GRACE.std());
                }
                let warnings = self.target.warnings;
                return Ok(RunFinished { id: self.id, over: over.clone(), warnings });
            }
            let inputs = self.wait()?;
            self.step(inputs)?;
        }
    }

    /// journal → apply → publish → perform, for everything that came at once.
    fn step(&mut self, inputs: Vec<Arrival<RunInput>>) -> Result<(), RunError> {
        let effects = self.stream.step(&mut self.store, Timestamp::now(), inputs, self.observer)?;
        effects.into_iter().try_for_each(|effect| self.perform(effect))
    }

    fn perform(&mut self, effect: RunEffect) -> Result<(), RunError> {
        match effect {
            RunEffect::StartJob { unit, job, .. } => self.start(&unit, job)?,
            RunEffect::AskJobsToStop | RunEffect::HurryJobs => {
                self.signal_jobs(JobSignal::Stop);
            }
            RunEffect::StopJob { unit } => {
                let kill_at = Instant::now() + GRACE.std();
                for job in self.jobs.iter_mut().filter(|job| job.unit == unit) {
                    job.running.signal(JobSignal::Stop);
                    job.kill_at = Some(kill_at);
                }
            }
            RunEffect::AskLoops(request) => {
                let loops = self.store.working_loops_on_budget_of(&self.started.budget_of)?;
                for row in &loops {
                    self.store.request(&row.view.id, &request, Timestamp::now())?;
                }
                let asked = loops.into_iter().map(|row| row.view.id);
                match request {
                    Request::Pause { .. } => self.asked_to_pause.extend(asked),
                    Request::Unpause { .. } => self.asked_to_pause.clear(),
                    Request::Steer { text } => self.steered.extend(asked.map(|id| (id, text.clone()))),
                    Request::Cancel
                    | Request::Ask { .. }
                    | Request::Answer { .. }
                    | Request::ApproveTree { .. }
                    | Request::Signal { .. } => {}
                }
            }
            RunEffect::HoldTime => {
                let now = Instant::now();
                self.held_time = self.time.take().map(|at| at.saturating_duration_since(now));
            }
            RunEffect::GoOnWithTime { limit } => {
                let left = limit.map(Millis::std).or(self.held_time.take());
                self.time = left.map(|left| Instant::now() + left);
            }
            RunEffect::KillJobs => {
                // The jobs first: nothing that ends is to be news to them.
                self.signal_jobs(JobSignal::Kill);
                self.host.kill_leftovers();
            }
            RunEffect::ArmGrace(grace) => {
                let at = Instant::now() + grace.std();
                self.grace = Some(self.grace.map_or(at, |before| before.min(at)));
            }
        }
        Ok(())
    }

    fn start(&mut self, id: &UnitId, job: Job) -> Result<(), RunError> {
        let Some(unit) = self.units.iter().find(|unit| unit.id == *id) else { return Ok(()) };
        let mut after = Vec::new();
        if self.started.merge != MergeMode::Merge {
            for first in &unit.depends_on {
                let views = self.store.unit_view(Some(&self.started.project), first.as_str())?;
                let branches = views.into_iter().filter_map(|view| view.branch);
                after.extend(branches.map(|branch| (first.clone(), branch)));
            }
        }
        let is_merging = matches!(job, Job::Merge | Job::Work { back: Some(_) });
        let merged = self.stream.state().merged().filter(|_| is_merging).filter_map(|(id, commit)| {
            let unit = self.units.iter().find(|unit| unit.id == *id)?;
            Some((UnitFiles::from(unit), commit.to_owned()))
        });
        let spec = JobSpec {
            merged: merged.collect(),
            home: self.home.path().to_owned(),
            scheduler: std::process::id(),
            run: self.id.clone(),
            started: self.started_without_plan(),
            unit: UnitFiles::from(unit),
            job,
            after,
            route: self.route.clone(),
            programs: self.programs.clone(),
            is_detached: self.is_detached,
            is_watched: self.observer.sees_output(),
        };
        match self.host.start(spec) {
            Ok(running) => {
                self.jobs.push(UnitJob { unit: id.clone(), running, is_garbled: false, kill_at: None });
                Ok(())
            }
            Err(error) => {
                let (reason, detail) = (UnitEnd::Error, format!("cannot start a job: {error}"));
                let event = RunEvent::UnitFailed { reason, detail: detail.clone(), loop_id: None };
                let unit = id.clone();
                self.step(vec![
                    RunInput::Told { unit: unit.clone(), event }.into(),
                    RunInput::JobEnded { unit, detail }.into(),
                ])
            }
        }
    }

    /// How the run began, for a job: of a plan of a thousand units it needs its own alone, which is told beside it.
    fn started_without_plan(&self) -> RunStarted {
        let RunStarted {
            project,
            root,
            target,
            tip,
            merge,
            parallel,
            units: _,
            settings,
            budget_of,
            pid,
            version,
        } = &self.started;
        RunStarted {
            project: project.clone(),
            root: root.clone(),
            target: target.clone(),
            tip: tip.clone(),
            merge: *merge,
            parallel: *parallel,
            units: Vec::new(),
            settings: settings.clone(),
            budget_of: budget_of.clone(),
            pid: *pid,
            version: version.clone(),
        }
    }

    // --- waiting --------------------------------------------------------------------------------------------

    /// Waits until something happens and says what.
    fn wait(&mut self) -> Result<Vec<Arrival<RunInput>>, RunError> {
        let kill_at = self.jobs.iter().filter_map(|job| job.kill_at).min();
        let renewal = Some(self.stream.renewal_is_due_at());
        let deadlines = [self.grace, self.time, self.next_tick, self.next_look, kill_at, renewal];
        let deadline = deadlines.into_iter().flatten().min();
        host::wait(&self.signals, self.jobs.iter().map(|job| &*job.running), deadline)?;
        let mut inputs = Vec::new();
        for arrived in self.signals.take() {
            self.signalled(arrived, &mut inputs)?;
        }
        self.listen(&mut inputs)?;
        self.look_at_the_clock(&mut inputs);
        self.renew_lease()?;
        Ok(inputs)
    }

    /// Keeps the lease of a run that has nothing to record, and learns whether another process has taken the run over.
    fn renew_lease(&mut self) -> Result<(), RunError> {
        if self.stream.renewal_is_due_at() > Instant::now() {
            return Ok(());
        }
        match self.stream.renew_lease(&mut self.store, Timestamp::now()) {
            // Nothing is lost by it, and there may be room again when there is something to record.
            Ok(()) | Err(StoreError::Disk { is_full: true, .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What jobs say, in order; what their loops have written comes before the end of a job.
    fn listen(&mut self, inputs: &mut Vec<Arrival<RunInput>>) -> Result<(), RunError> {
        let mut said = Vec::new();
        let mut ended = Vec::new();
        let now = Instant::now();
        let mut at = 0;
        while at < self.jobs.len() {
            let heard = self.jobs[at].running.read();
            let unit = self.jobs[at].unit.clone();
            // A loop writes several events at once, and every look is a transaction of ours that loops wait for.
            if !heard.messages.is_empty() {
                self.next_look.get_or_insert(now + LOOK_AFTER);
            }
            for message in heard.messages {
                match message {
                    Ok(JobMessage::Event(event)) => {
                        if let RunEvent::UnitMerged { commit, left_on, .. } = &event
                            && let Some(event) = self.target.merged(commit, left_on.is_none())
                        {
                            said.push(RunInput::Told { unit: unit.clone(), event }.into());
                        }
                        said.push(RunInput::Told { unit: unit.clone(), event }.into())
                    }
                    Ok(JobMessage::Output(line)) => self.observer.output(&unit, line.as_bytes()),
                    Ok(
                        JobMessage::LoopWrote
                        | JobMessage::Said(_)
                        | JobMessage::Hello { .. }
                        | JobMessage::Wrote { .. }
                        | JobMessage::Sandbox(_)
                        | JobMessage::Script(_)
                        | JobMessage::Worktree { .. }
                        | JobMessage::Merge(_)
                        | JobMessage::Failed(_)
                        | JobMessage::Idle,
                    ) => {}
                    Err(_) if self.jobs[at].is_garbled => {}
                    Err(bad) => {
                        self.jobs[at].is_garbled = true;
                        said.push(
                            RunInput::JobGarbled { unit: unit.clone(), detail: bad.to_string() }.into(),
                        );
                    }
                }
            }
            if heard.is_over {
                let exit = self.jobs.remove(at).running.finish();
                self.has_lost_job |= exit.is_lost;
                if !self.stream.state().merges_another_than(&unit)
                    && let Some(event) = self.target.look()
                {
                    said.push(RunInput::Told { unit: unit.clone(), event }.into());
                }
                ended
                    .push(RunInput::JobEnded { unit, detail: format!("its job ended: {}", exit.how) }.into());
            } else {
                at += 1;
            }
        }
        // What loops have written comes before what is told about them.
        if !said.is_empty() || !ended.is_empty() || self.next_look.is_some_and(|at| at <= now) {
            self.next_look = None;
            for (unit, envelope) in self.store.loops_of_units(&self.started.project, self.seen)? {
                self.seen = self.seen.max(envelope.seq);
                let events = self.accounts.see(&unit, &envelope);
                self.observer.loop_event(&unit, &envelope);
                match &envelope.event {
                    LoopEvent::LoopStarted(started) => {
                        self.meet(&envelope.loop_id, has_agent(&started.policy))?
                    }
                    LoopEvent::LoopResumed { .. } => self.meet(&envelope.loop_id, true)?,
                    _ => {}
                }
                if !events.is_empty() {
                    inputs.push(RunInput::LoopTold { unit, events }.into());
                }
            }
        }
        inputs.extend(said);
        inputs.extend(ended);
        Ok(())
    }

    /// Asks a loop that a job has just begun for what it could not know: that the run is held, or what a person said to the
    /// whole run at that very moment.
    fn meet(&mut self, id: &LoopId, has_agent: bool) -> Result<(), RunError> {
        let state = self.stream.state();
        if let (Some(now), None) = (state.paused(), state.stopping())
            && self.asked_to_pause.insert(id.clone())
        {
            self.store.request(id, &Request::Pause { now }, Timestamp::now())?;
        }
        if !has_agent || self.stream.view().steers.is_empty() {
            return Ok(());
        }
        for text in unheard(&self.store, id, &self.stream.view().steers)? {
            if self.steered.insert((id.clone(), text.clone())) {
                self.store.request(id, &Request::Steer { text }, Timestamp::now())?;
            }
        }
        Ok(())
    }

    fn signalled(
        &mut self,
        arrived: ArrivedSignal,
        inputs: &mut Vec<Arrival<RunInput>>,
    ) -> Result<(), RunError> {
        match arrived {
            ArrivedSignal::Stop(cause) => inputs.push(RunInput::Stop(cause).into()),
            ArrivedSignal::Suspend => self.suspend(),
            ArrivedSignal::Wake => self.read_requests(inputs)?,
        }
        Ok(())
    }

    fn read_requests(&self, inputs: &mut Vec<Arrival<RunInput>>) -> Result<(), RunError> {
        for pending in self.store.pending(&self.id)? {
            inputs.push(Arrival { input: RunInput::Requested(pending.request), request: Some(pending.id) });
        }
        Ok(())
    }

    /// Ctrl-Z: jobs hold what they run and then themselves; so does the scheduler, until the user continues it.
    fn suspend(&mut self) {
        let held = host::suspend(self.jobs.iter().map(|job| &*job.running));
        for at in [&mut self.grace, &mut self.time].into_iter().flatten() {
            *at += held;
        }
    }

    fn signal_jobs(&self, signal: JobSignal) {
        self.jobs.iter().for_each(|job| job.running.signal(signal));
    }

    fn look_at_the_clock(&mut self, inputs: &mut Vec<Arrival<RunInput>>) {
        let now = Instant::now();
        for job in self.jobs.iter_mut().filter(|job| job.kill_at.is_some_and(|at| at <= now)) {
            job.kill_at = None;
            job.running.signal(JobSignal::Kill);
        }
        if self.grace.is_some_and(|at| at <= now) {
            self.grace = None;
            inputs.push(RunInput::GraceOver.into());
        }
        if self.time.is_some_and(|at| at <= now) {
            self.time = None;
            inputs.push(RunInput::TimeOver.into());
        }
        if self.next_tick.is_some_and(|at| at <= now) {
            self.observer.tick();
            self.next_tick = self.observer.tick_every().map(|every| now + every);
        }
    }
}
