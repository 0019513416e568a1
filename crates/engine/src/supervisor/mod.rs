//! The supervisor of one loop: inputs in one order, and for each of them journal → apply → publish → perform.
//!
//! One thread waits on everything at once: signals, the keeper, the pipes of what runs, and the next deadline.
//! Nothing is polled that the kernel can announce.

mod acp;
pub(crate) mod answers;
mod children;
mod hosted;
mod inside;
mod items;
mod listen;
mod observe;
mod preconditions;
mod sign_in;
mod start;
mod starting_point;
mod supply;
mod timers;
mod trial;
mod unattended;
mod verdict;
mod work;

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use dacapo_core::{
    bus::Draft,
    duration::Millis,
    event::{LoopStarted, Reason},
    goalposts::Runner,
    ids::LoopId,
    judge::signal::DoneFact,
    loop_machine::{BusTarget, Effect, Input, LoopMachine},
};
use jiff::Timestamp;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Signal,
};

pub use preconditions::{CheckedLoop, StartError, refuse_secrets_in};
pub use start::{NewLoop, ResumeLoop, resume, run};
pub(crate) use unattended::{SCRIPT_GRACE, end_scripts, script_mark};
pub use unattended::{reconcile, settle};
pub(crate) use verdict::{is_folder_inside, lay_out, with_setup};

pub(crate) use hosted::{BLOCKED, HandedOver, HostedLoop, NewHostedLoop};

use self::{
    acp::{Resident, Talk},
    children::ChildProcesses,
    sign_in::SignInCheck,
    timers::Timers,
    trial::Trial,
    verdict::GateCheckout,
    work::SupervisedProcess,
};
use crate::{
    bus::Bus,
    checkouts::{self, Removal},
    git::LinksAtStart,
    goalposts::{Extras, WatchedGoalposts},
    guard::Guard,
    home::Home,
    inside::server::InsideServer,
    observer::Observer,
    process::{KeeperLink, KeeperReport},
    signals::{ArrivedSignal, Signals},
    snapshots::{Folder, Workspace},
    store::{Arrival, Segments, Store, StoreError, Stream, TaskLock},
    watch::Watch,
};

/// How long a supervisor waits for others who post to a bus.
const PATIENCE: Duration = Duration::from_millis(100);

/// How a supervised loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub id: LoopId,
    pub reason: Reason,
    pub detail: String,
    /// Whether it is done by the agent's word alone.
    pub is_unverified: bool,
}

/// Why a supervisor had to give up without an end in the journal.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        source: io::Error,
    },
}

pub(crate) struct Supervisor<'a> {
    home: &'a Home,
    store: Store,
    id: LoopId,
    started: Arc<LoopStarted>,
    stream: Stream<LoopMachine>,
    segments: Segments,
    // Before the lock, which is let go only when everything the keeper keeps has ended.
    /// The agent that stays, if the loop has one. Like the keeper it comes before the lock.
    resident: Option<Resident>,
    keeper: KeeperLink,
    /// What each keeper holds around what it starts.
    guard: Guard,
    /// What in git's folders was a link when this process took over.
    links: Option<LinksAtStart>,
    _lock: TaskLock,
    /// What the agent asks through.
    server: InsideServer,
    /// What the processes that wait for news below the agent wait for.
    watch: Option<Watch>,
    children: ChildProcesses,
    signals: Signals,
    /// The files the loop works on; `None` where nothing about them has to be known.
    workspace: Option<Workspace>,
    /// The plain folder, where nothing but progress is told from its files.
    folder: Option<Folder>,
    /// The snapshot that holds the files as they are: taken when the agent ended, and nothing was waited for since.
    kept: Option<String>,
    /// New files that the kept tree holds and that rules of the agent's own hide from git: no checkout gets them.
    hidden: Vec<String>,
    /// Files that git ignores and that the agent has put under version control.
    unhidden: Vec<String>,
    /// The snapshot that is checked out for gates, and where.
    checkout: Option<GateCheckout>,
    /// The tests, and what decides which of them run.
    goalposts: Option<WatchedGoalposts>,
    /// What the workspace holds that no snapshot does, as it was at the start.
    extras: Option<Extras>,
    /// The test runners that gates start.
    gate_runners: Vec<(String, Vec<Runner>)>,
    /// The gates that are tried before the first agent, or beside it.
    trial: Option<Trial>,
    /// The checkout of a trial that is over.
    removal: Option<Removal>,
    /// The result of a gate that passed while the gates are still tried: it counts once it is known what they said before.
    awaits_trial: Option<Input>,
    observer: &'a mut dyn Observer,
    inbox: VecDeque<Arrival<Input>>,
    work: Option<SupervisedProcess>,
    timers: Timers,
    /// The programs of the policy's agent and then of its fallbacks.
    programs: Vec<PathBuf>,
    /// The environment in which the command was typed.
    inherited: Vec<(OsString, OsString)>,
    /// The agent that was asked whether it is signed in, until it has answered.
    sign_in: Option<SignInCheck>,
    /// Whether the next agent waits for that answer.
    awaits_sign_in: bool,
    /// What the agent said if it says that it is not signed in.
    signed_out: Option<String>,
    /// The account of which this loop is to find out whether its provider answers again.
    probes: Option<String>,
    /// The accounts that were at a limit when the loop parked: if one of them answers another loop, the park is over.
    awaited_accounts: Vec<String>,
    task_bus: Bus,
    project_bus: Bus,
    /// The size of the task's bus when the running agent started.
    bus_mark: u64,
    next_tick: Option<Instant>,
    /// When the journal may be told again what the running agent uses.
    next_stock: Option<Instant>,
    /// How many processes the system had ended for want of memory when it was last looked at.
    ended_for_memory: Option<u64>,
    buffer: Vec<u8>,
    /// The prompt that the host of the loop's chat session is to be given. The supervisor ends then.
    handed: Option<String>,
}

impl Supervisor<'_> {
    /// Runs the loop to an end.
    fn supervise(mut self) -> Result<Finished, SuperviseError> {
        self.read_requests()?;
        loop {
            if let Some(reason) = self.stream.state().over() {
                self.ask_no_more();
                let view = self.stream.view();
                let detail = view.detail.clone().unwrap_or_default();
                let is_unverified = view.verified == Some(false);
                let is_over = self.bring_over()?;
                let Self { id, home, resident, keeper, trial, removal, mut guard, .. } = self;
                drop((resident, keeper, trial, removal));
                if guard.judges {
                    checkouts::remove_left(home, &id);
                }
                if is_over {
                    guard.take_own_refs();
                }
                return Ok(Finished { id, reason, detail, is_unverified });
            }
            let Some(arrival) = self.inbox.pop_front() else {
                self.wait()?;
                continue;
            };
            self.step(arrival)?;
        }
    }

    /// journal → apply → publish → perform.
    fn step(&mut self, arrival: Arrival<Input>) -> Result<(), SuperviseError> {
        match self.record(arrival) {
            Ok(effects) => self.perform_all(effects),
            Err(error) => self.journal_failed(error),
        }
    }

    fn record(&mut self, arrival: Arrival<Input>) -> Result<Vec<Effect>, StoreError> {
        self.stream.step(&mut self.store, Timestamp::now(), [arrival], self.observer)
    }

    fn perform_all(&mut self, effects: Vec<Effect>) -> Result<(), SuperviseError> {
        self.post(&effects);
        effects.into_iter().try_for_each(|effect| self.perform(effect))
    }

    /// People are told of something that was found while an effect was carried out.
    fn notice(&mut self, text: String) -> Result<(), SuperviseError> {
        let effects = self.record(Input::Noticed(text).into())?;
        self.perform_all(effects)
    }

    /// The journal takes nothing more: everything is ended, and an end is written if the disk is merely full.
    fn journal_failed(&mut self, error: StoreError) -> Result<(), SuperviseError> {
        self.stop_process(Millis(0));
        // A failed sync may have lost what it was about; trying again would only look like success (fault G5).
        if !matches!(error, StoreError::Disk { is_full: true, .. }) || self.stream.state().over().is_some() {
            return Err(error.into());
        }
        self.home.release_reserve();
        // What is to be done about it is done: the process is being ended, and the bus is on the same disk.
        self.record(Input::DiskFailed("the disk is full".to_owned()).into())?;
        Ok(())
    }

    /// Best effort: a bus that cannot be written stops no loop (req 73).
    fn post(&mut self, effects: &[Effect]) {
        post([&self.task_bus, &self.project_bus], &self.started, &self.id, effects);
    }

    fn perform(&mut self, effect: Effect) -> Result<(), SuperviseError> {
        match effect {
            Effect::Post(_) => {}
            Effect::ReadMarkers => self.read_markers()?,
            Effect::StartAgent { prompt, .. } if self.started.session.is_some() => {
                if let Err(error) = self.segments.prompt.append(prompt.as_bytes()) {
                    let full = Input::DiskFailed(format!("cannot keep output: {error}"));
                    self.inbox.push_back(full.into());
                }
                self.handed = Some(prompt);
            }
            Effect::StartAgent { agent, session, iteration, attempt: _, prompt, nonce, time_left } => {
                self.start_agent((agent, session), iteration, &prompt, &nonce, time_left)?;
            }
            Effect::Park { .. } if self.started.session.is_some() => {}
            Effect::Park { until } => {
                self.timers.park(until);
                self.await_providers()?;
            }
            // A hook waits for that itself, without a supervisor.
            Effect::AwaitRecovery { .. } => {}
            Effect::CloseProvider { agent, until, why } => {
                self.store.close_provider(&self.account(agent), until, &why)?;
            }
            Effect::AskProviders => self.ask_providers()?,
            Effect::RunGate { gate, role, snapshot, look } => {
                self.start_gate(gate, role, snapshot.as_deref(), look)?;
            }
            Effect::TryGates { gates } => self.try_gates(gates)?,
            Effect::Examine => self.examine()?,
            Effect::Recheck { snapshot } => self.recheck(snapshot.as_deref())?,
            Effect::Commit { snapshot, iteration, message } => self.commit(&snapshot, iteration, &message)?,
            Effect::CommitItems { snapshot, iteration, commits } => {
                self.commit_items(&snapshot, iteration, &commits)?;
            }
            Effect::SetMarks { of, done } => self.set_marks(&of, &done)?,
            Effect::StopWork { grace } => {
                if let Some(work) = &mut self.work {
                    work.is_stopped_by_us = true;
                    self.stop_work(grace);
                }
            }
            Effect::Delay(length) => self.timers.delay(length),
            Effect::AwaitChildren { timeout, every } => {
                self.timers.await_children(timeout, every);
                self.look_for_children()?;
            }
            Effect::CancelChildren => {
                self.cancel_children()?;
            }
            Effect::AwaitTasks { tasks, every } => {
                self.timers.await_tasks(tasks, every);
                self.look_for_tasks()?;
            }
            Effect::SetDoneAside => {
                let done = self.task_folder().join("DONE");
                let _ = std::fs::rename(&done, done.with_extension("refused"));
            }
            Effect::ConsumeWaitMarker => {
                let _ = std::fs::remove_file(self.task_folder().join("WAIT_WITHOUT_RESTART"));
            }
        }
        Ok(())
    }

    fn task_folder(&self) -> PathBuf {
        self.home.task_folder(&self.started.project, &self.started.task)
    }

    // --- waiting --------------------------------------------------------------------------------------------

    /// Waits until something happens and puts it into the inbox.
    fn wait(&mut self) -> Result<(), SuperviseError> {
        self.kept = None;
        let ready = self.poll()?;
        // Signals are taken also if `poll` did not report their descriptor: a signal that arrives while `poll` returns for
        // another reason is handled after it looked. What was asked before an agent ended counts before its end does.
        for arrived in self.signals.take() {
            self.signalled(arrived)?;
        }
        if ready.pipes {
            self.read_output();
            self.converse()?;
            self.take_stock(Instant::now())?;
        }
        if ready.trial {
            self.serve_trial()?;
        }
        self.look_at_sign_in(Instant::now())?;
        // Before the keeper's report: what the agent asked before its end counts.
        if ready.agent {
            self.serve_agent()?;
        }
        if ready.keeper {
            match self.keeper.receive() {
                Ok(Some(report)) => self.reported(&report),
                Ok(None) | Err(_) => self.keeper_lost()?,
            }
        }
        if ready.resident {
            self.resident_reported()?;
        }
        self.look_at_the_clock()
    }

    fn poll(&mut self) -> Result<Ready, SuperviseError> {
        let work = self.work.as_ref().and_then(SupervisedProcess::deadline);
        let renewal = Some(self.stream.renewal_is_due_at());
        let deadlines = [
            self.timers.next(),
            work,
            self.stock_is_due_at(),
            self.next_tick,
            self.server.deadline(),
            self.trial.as_ref().and_then(Trial::deadline),
            self.sign_in.as_ref().map(SignInCheck::deadline),
            renewal,
        ];
        let deadline = deadlines.into_iter().flatten().min();
        // A wait that is too long for the kernel has no end.
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(9);
        fds.extend(self.signals.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let signals = fds.len();
        fds.extend(self.keeper.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let keeper = fds.len();
        if let Some(work) = &self.work {
            fds.extend(work.pipes().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            let unsaid = work.talk.as_ref().and_then(Talk::unsaid);
            fds.extend(unsaid.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
        }
        let pipes = fds.len();
        let resident = self.resident.as_ref().and_then(Resident::fd);
        fds.extend(resident.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let resident = fds.len();
        if let Some(trial) = &self.trial {
            fds.extend(trial.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        let trial = fds.len();
        if let Some(check) = &self.sign_in {
            fds.extend(check.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        let sign_in = fds.len();
        fds.extend(self.server.fds().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        fds.extend(self.watch.as_ref().map(|watch| PollFd::from_borrowed_fd(watch.fd(), PollFlags::IN)));
        fds.extend(self.children.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(SuperviseError::Io { what: "cannot wait for events", source: error.into() });
            }
        }
        let any = |fds: &[PollFd<'_>]| fds.iter().any(|fd| !fd.revents().is_empty());
        let is_idle = self.server.deadline().is_some_and(|at| at <= Instant::now());
        Ok(Ready {
            keeper: any(&fds[signals..keeper]),
            pipes: any(&fds[keeper..pipes]),
            resident: any(&fds[pipes..resident]),
            trial: any(&fds[resident..trial]),
            agent: is_idle || any(&fds[sign_in..]),
        })
    }

    fn signalled(&mut self, arrived: ArrivedSignal) -> Result<(), SuperviseError> {
        match arrived {
            ArrivedSignal::Stop(cause) => self.inbox.push_back(Input::Signalled(cause).into()),
            ArrivedSignal::Suspend => self.suspend(),
            ArrivedSignal::Wake => self.read_requests()?,
        }
        Ok(())
    }

    /// Ctrl-Z: everything holds, timers too, until the user continues this process.
    fn suspend(&mut self) {
        let _ = self.keeper.suspend();
        // Between its turns it is stopped already, and stays so.
        let is_at_work = self.work.as_ref().is_some_and(|work| work.stays);
        let mut resident = self.resident.as_mut().filter(|_| is_at_work);
        let _ = resident.as_mut().map(|resident| resident.keeper().suspend());
        let since = Instant::now();
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        // Here the process has been continued.
        let held = since.elapsed();
        self.timers.shift(held);
        if let Some(work) = &mut self.work {
            work.shift(held);
        }
        let _ = self.keeper.resume();
        if let Some(resident) = self.resident.as_mut().filter(|_| is_at_work) {
            let _ = resident.keeper().resume();
        }
    }

    fn read_requests(&mut self) -> Result<(), SuperviseError> {
        let waiting: Vec<i64> = self.inbox.iter().filter_map(|arrival| arrival.request).collect();
        for pending in self.store.pending(&self.id)? {
            if !waiting.contains(&pending.id) {
                self.inbox.push_back(Arrival {
                    input: Input::Requested(pending.request),
                    request: Some(pending.id),
                });
            }
        }
        Ok(())
    }

    fn look_at_the_clock(&mut self) -> Result<(), SuperviseError> {
        let now = Instant::now();
        if self.next_tick.is_some_and(|at| at <= now) {
            self.observer.tick();
            self.next_tick = self.observer.tick_every().map(|every| now + every);
        }
        if self.stock_is_due_at().is_some_and(|at| at <= now) {
            self.take_stock(now)?;
        }
        self.look_at_trial(now);
        let is_stopped = self.stream.state().orders.stop.is_some();
        if (self.trial.is_none() || is_stopped)
            && let Some(input) = self.awaits_trial.take()
        {
            self.inbox.push_back(input.into());
        }
        self.renew_lease(now)?;
        if self.timers.delay_is_over(now) {
            self.inbox.push_back(Input::DelayOver.into());
        }
        let folder = self.task_folder();
        let (store, awaited) = (&self.store, &self.awaited_accounts);
        let is_over = || {
            observe::markers(&folder).done != DoneFact::Absent
                // A journal that cannot be read now ends no wait.
                || store.is_any_open(awaited).unwrap_or(false)
        };
        if self.timers.park_is_over(now, Timestamp::now(), is_over) {
            self.end_park()?;
        }
        if self.timers.children_are_due(now) {
            self.look_for_children()?;
        }
        if self.timers.tasks_are_due(now) {
            self.look_for_tasks()?;
        }
        self.enforce_deadlines(now)
    }

    /// Keeps the lease of a loop that has nothing to record, and learns whether another process has taken the loop over.
    fn renew_lease(&mut self, now: Instant) -> Result<(), SuperviseError> {
        if self.stream.renewal_is_due_at() > now {
            return Ok(());
        }
        match self.stream.renew_lease(&mut self.store, Timestamp::now()) {
            // Nothing is lost by it, and there may be room again when there is something to record.
            Ok(()) | Err(StoreError::Disk { is_full: true, .. }) => Ok(()),
            Err(error) => self.journal_failed(error),
        }
    }

    fn reported(&mut self, report: &KeeperReport) {
        match report {
            KeeperReport::NotStarted(errno) => self.work_not_started(*errno),
            KeeperReport::Ended(end) => self.work_ended(*end),
            // Only an agent that stays is woken and put to rest, by another keeper.
            KeeperReport::Awake | KeeperReport::Rested(_) | KeeperReport::Guarded(_) => {}
        }
    }

    /// The keeper was killed: what it kept came to this supervisor and is ended here, and a new keeper takes its place.
    fn keeper_lost(&mut self) -> Result<(), SuperviseError> {
        let mut spared = self.children.identities();
        spared.extend(self.resident.as_ref().map(Resident::identity));
        self.keeper.sweep_after_loss(&spared);
        (self.keeper, _) = self
            .guard
            .keeper(self.home, &self.id)
            .map_err(|source| SuperviseError::Io { what: "cannot start a keeper", source })?;
        if self.work.as_ref().is_some_and(|work| !work.stays) {
            self.work_ended(crate::process::KeptEnd {
                code: None,
                signal: Some(Signal::KILL.as_raw()),
                leftovers: 0,
            });
        }
        Ok(())
    }
}

/// Posts what a loop says on the bus of its task and on that of its project, as far as they can be written.
fn post([task, project]: [&Bus; 2], started: &LoopStarted, id: &LoopId, effects: &[Effect]) {
    let now = Timestamp::now();
    for (bus, to) in [(task, BusTarget::Task), (project, BusTarget::Project)] {
        let drafts: Vec<Draft> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Post(post) if post.to == to => Some(post),
                _ => None,
            })
            .map(|post| Draft {
                kind: post.kind.to_owned(),
                project: started.project.to_string(),
                task: Some(started.task.to_string()),
                loop_id: Some(id.to_string()),
                body: post.body.clone(),
            })
            .collect();
        if !drafts.is_empty() {
            let _ = bus.post(&drafts, now);
        }
    }
}

struct Ready {
    keeper: bool,
    pipes: bool,
    /// The keeper of an agent that stays.
    resident: bool,
    /// A gate that is tried prints something or has ended.
    trial: bool,
    /// What the agent started asks something, there is news for it, or a child loop has ended.
    agent: bool,
}
