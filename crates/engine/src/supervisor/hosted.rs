//! A loop inside a chat session, held by a hook for one step: the journal, the lock and the files, without a supervisor.
//!
//! A hook takes the lock of the loop's task, lets the machine decide what follows from what the host said, and carries that out
//! here. Only a claim needs processes, and a supervisor is made for it; it ends as soon as the machine wants the host to be given
//! a prompt.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use dacapo_core::{
    agent::account_of,
    duration::Millis,
    event::{AgentExit, LoopStarted, Outcome},
    ids::{LoopId, ProjectId},
    judge::signal::Facts,
    loop_machine::{
        AgentReport, Begin, Effect, Input, LoopMachine, LoopState, Phase, SessionIdle, SharedSpend, Supply,
    },
    policy::Policy,
    sandbox::SandboxHeld,
    session::{HostSession, NewWords, TranscriptMark, hear, spend_of, task_of, unpriced},
};
use jiff::Timestamp;

use super::{
    PATIENCE, SuperviseError, Supervisor, answers,
    inside::one_line,
    observe, post,
    preconditions::{StartError, neighbours, refuse_secrets_in, take_lock},
    start::{
        HELD_IN_PROMPT, SupervisorParts, begin_keeper, finish_keeper, goalposts_of, guard_of, listen, random,
        reopen_goalposts, write_task,
    },
    starting_point::{self, StartingPoint},
    supply::midnight,
    unattended::perform_without_supervisor,
};
use crate::{
    bus::Bus,
    goalposts::WatchedGoalposts,
    guard::WorktreeIsOn,
    home::{Home, make_dir},
    observer::Observer,
    process::identity::Identity,
    secrets::secrets,
    snapshots::{Folder, Workspace},
    store::{Arrival, Channel, LockError, LoopRow, Segments, Store, StoreError, Stream, TaskLock},
};

/// How long a hook waits for a command that holds the lock of its loop for a moment.
const LOCKED: Duration = Duration::from_secs(2);

/// The type of the bus message by which the agent of a session says that it is blocked, where it says so by a tool.
pub(crate) const BLOCKED: &str = "blocked";

/// A loop that is to begin in a chat session.
#[derive(Clone, Debug)]
pub(crate) struct NewHostedLoop {
    pub(crate) policy: Policy,
    pub(crate) prompt: String,
    pub(crate) project: ProjectId,
    /// Where the agent works, absolute.
    pub(crate) workspace: PathBuf,
    pub(crate) session: HostSession,
}

/// What follows for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandedOver {
    /// The host gives this prompt to its agent.
    Prompt(String),
    /// The session had an error; what the host said counts at this time.
    Recovery(Timestamp),
    /// The host may do as it likes.
    Nothing,
}

/// A loop of a chat session, while this process alone may step it.
pub(crate) struct HostedLoop<'a> {
    home: &'a Home,
    store: Store,
    stream: Stream<LoopMachine>,
    lock: TaskLock,
    segments: Segments,
    started: Arc<LoopStarted>,
    workspace: Option<Workspace>,
    folder: Option<Folder>,
    kept: Option<String>,
}

impl<'a> HostedLoop<'a> {
    /// Takes the loop of `row`; `None` if another hook judges a claim of it at this moment.
    pub(crate) fn take(home: &'a Home, store: Store, row: &LoopRow) -> Result<Option<Self>, StartError> {
        let deadline = Instant::now() + LOCKED;
        let path = home.lock(&row.view.project, &row.view.task);
        let lock = loop {
            match TaskLock::take(&path) {
                Ok(lock) => break lock,
                Err(LockError::Io { path, source }) => {
                    return Err(StartError::Io { what: "cannot lock", path, source });
                }
                Err(LockError::Held) => {}
            }
            let is_judged = store.row(&row.view.id)?.is_none_or(|row| row.is_owned());
            if is_judged || Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let id = &row.view.id;
        let Some(mut stream) = Stream::<LoopMachine>::open(&store, id)? else { return Ok(None) };
        let Some(started) = stream.state().started.clone() else { return Ok(None) };
        let task = home.task_folder(&started.project, &started.task).join("TASK.md");
        stream.say_in_own_words(std::fs::read_to_string(task).unwrap_or_default());
        let started = stream.state().started.clone().unwrap_or(started);
        let segments = open_segments(home, &started, id)?;
        Ok(Some(Self {
            home,
            store,
            stream,
            lock,
            segments,
            started,
            workspace: None,
            folder: None,
            kept: None,
        }))
    }

    /// Begins a loop in a session.
    pub(crate) fn begin(
        home: &'a Home,
        mut store: Store,
        new: NewHostedLoop,
        observer: &mut dyn Observer,
    ) -> Result<(Self, HandedOver), StartError> {
        if let Some(problem) = new.policy.problems().into_iter().next() {
            return Err(problem.into());
        }
        refuse_secrets_in(&new.policy)?;
        if new.prompt.trim().is_empty() {
            return Err(StartError::BlankPrompt);
        }
        let random = random();
        let id = LoopId::from_random(random[..10].try_into().unwrap_or_default());
        let task = task_of(&new.session.id);
        let lock = take_lock(home, &store, &new.project, &task)?;
        let mut warnings = neighbours(&store, &new.workspace, &[])?;
        if secrets().is_in(&new.prompt) {
            warnings.push(HELD_IN_PROMPT.to_owned());
        }
        let folder = home.task_folder(&new.project, &task);
        let at = |what, path: PathBuf| move |source| StartError::Io { what, path, source };
        make_dir(&folder).map_err(at("cannot make the task folder", folder.clone()))?;
        write_task(&folder, &new.prompt).map_err(at("cannot write", folder.join("TASK.md")))?;
        // A claim that an earlier loop of the session left behind is none of this one.
        let _ = std::fs::remove_file(folder.join("DONE"));
        let at_start = StartingPoint::prepare(home, &id, &new.policy, &new.workspace, None, None, None)?;
        warnings.extend(at_start.warnings);
        let seal = at_start.workspace.as_ref().and_then(Workspace::seal);
        if let Some(goalposts) = &at_start.goalposts {
            let runs = home.runs(&new.project, &task);
            make_dir(&runs).map_err(at("cannot make the folder", runs.clone()))?;
            let list = goalposts_of(&runs, &id);
            goalposts.keep(&list).map_err(at("cannot write", list.clone()))?;
        }
        let started = LoopStarted {
            project: new.project,
            task,
            workspace: new.workspace,
            parent: None,
            run: None,
            purpose: None,
            session: Some(HostSession { seal, ..new.session }),
            depth: 0,
            after: Vec::new(),
            prompt: new.prompt.clone(),
            seed: dacapo_core::ids::base32(&random[14..]),
            policy: new.policy,
            base: at_start.base,
            outline: at_start.outline,
            protected: at_start.protected,
            outside: at_start.goalposts.as_ref().map(WatchedGoalposts::recorded).unwrap_or_default(),
            goalposts: at_start.goalposts.as_ref().map(WatchedGoalposts::seal),
            // The host is the user's own, and so is what it may do.
            sandbox: Some(SandboxHeld::off()),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let segments = open_segments(home, &started, &id)?;
        let input = Input::Begin(Box::new(Begin { started, warnings }));
        let (owner, now) = (Identity::own(), Timestamp::now());
        let (mut stream, effects) =
            Stream::<LoopMachine>::begin(&mut store, id.clone(), &owner, now, input, &[], observer)?;
        stream.say_in_own_words(new.prompt);
        let Some(started) = stream.state().started.clone() else { return Err(StartError::Unknown(id)) };
        let (workspace, folder) = (at_start.workspace, at_start.folder);
        let hosted = Self { home, store, stream, lock, segments, started, workspace, folder, kept: None };
        hosted.carry_out(effects, observer)
    }

    pub(crate) fn id(&self) -> &LoopId {
        self.stream.id()
    }

    pub(crate) fn state(&self) -> &LoopState {
        self.stream.state()
    }

    pub(crate) fn started(&self) -> &LoopStarted {
        &self.started
    }

    pub(crate) fn began_at(&self) -> Timestamp {
        self.stream.view().started_at
    }

    /// Child loops, and what else dacapo runs for the agent of this session.
    pub(crate) fn children(&self) -> Result<Vec<String>, StoreError> {
        let session = self.started.session.as_ref().map(|session| session.id.as_str()).unwrap_or_default();
        let of_family = self.store.running_children(self.id())?;
        let others = self.store.active()?.into_iter().filter(|row| {
            row.view.needs_owner() && row.is_running() && was_started_in(row.owner.pid, session)
        });
        let mut names: Vec<String> =
            of_family.into_iter().chain(others).map(|row| format!("loop {}", row.view.id)).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Takes up what people have asked of the loop since the hook before.
    pub(crate) fn take_up_requests(&mut self, observer: &mut dyn Observer) -> Result<(), StartError> {
        for pending in self.store.pending(self.id())? {
            let arrival = Arrival { input: Input::Requested(pending.request), request: Some(pending.id) };
            let effects = self.stream.step(&mut self.store, Timestamp::now(), [arrival], observer)?;
            // What is to be started waits for the host.
            perform_without_supervisor(&mut self.store, self.stream.id(), &effects)?;
        }
        Ok(())
    }

    /// Lets the machine answer `input`, and carries out what follows.
    pub(crate) fn answer(
        mut self,
        input: Input,
        observer: &mut dyn Observer,
    ) -> Result<(Self, HandedOver), StartError> {
        let effects = self.stream.step(&mut self.store, Timestamp::now(), [input.into()], observer)?;
        self.carry_out(effects, observer)
    }

    /// Lets the machine answer `input` and starts nothing: a loop that goes on waits for its host.
    pub(crate) fn note(&mut self, input: Input, observer: &mut dyn Observer) -> Result<(), StartError> {
        let effects = self.stream.step(&mut self.store, Timestamp::now(), [input.into()], observer)?;
        perform_without_supervisor(&mut self.store, self.stream.id(), &effects)
    }

    /// Where the segments end: what a loop that goes on is told.
    pub(crate) fn marks(&self) -> dacapo_core::event::OutputMarks {
        self.segments.marks()
    }

    /// The end of a turn, with what is found of it: the agent's words, its markers and messages, and the workspace.
    pub(crate) fn idle(
        &mut self,
        at: Timestamp,
        words: &NewWords,
        mut transcript: TranscriptMark,
        background: Vec<String>,
    ) -> Result<SessionIdle, StartError> {
        let NewWords { messages, has_news, turn, calls, .. } = words;
        let prices = &self.started.policy.agent.prices;
        let counted = self.state().session.transcript.usage.last_call;
        let (spend, last_call) = spend_of(calls, counted, prices);
        transcript.usage.last_call = last_call;
        let unpriced = unpriced(calls, prices);
        self.keep_words(messages)?;
        let facts = self.facts(messages);
        let (snapshot, outline, warnings) = self.look_at_files();
        let seal = self.workspace.as_ref().and_then(Workspace::seal);
        let exit = AgentExit {
            exit_code: Some(0),
            usage: spend.usage,
            cost_usd: spend.cost_usd,
            estimated: spend.estimated,
            ..self.exit(at, Outcome::Completed, None, None)
        };
        let report = AgentReport { at, exit, facts, snapshot, outline, warnings, stderr: String::new() };
        Ok(SessionIdle { report, turn: *turn, transcript, has_news: *has_news, background, unpriced, seal })
    }

    /// The end of a turn with an error of the provider or of the account. The host may end at once and take this process with it,
    /// so the next idle looks at the files.
    pub(crate) fn failure(
        &self,
        at: Timestamp,
        (outcome, detail, reset_at): (Outcome, String, Option<Timestamp>),
    ) -> AgentReport {
        let exit = self.exit(at, outcome, Some(detail), reset_at);
        AgentReport {
            at,
            exit,
            facts: Facts::default(),
            snapshot: None,
            outline: None,
            warnings: Vec::new(),
            stderr: String::new(),
        }
    }

    fn exit(
        &self,
        at: Timestamp,
        outcome: Outcome,
        detail: Option<String>,
        reset_at: Option<Timestamp>,
    ) -> AgentExit {
        let since = self.state().session.last_idle.map_or(self.began_at(), |(last, _)| last);
        let took = u64::try_from(at.duration_since(since).as_millis()).unwrap_or(0);
        let begun = self.state().output.attempt.stdout;
        AgentExit {
            exit_code: None,
            signal: None,
            duration_ms: Millis(took),
            outcome,
            stdout_bytes: self.segments.stdout.end().saturating_sub(begun),
            stderr_bytes: 0,
            dropped_bytes: 0,
            leftovers: 0,
            session: None,
            model: None,
            usage: None,
            cost_usd: None,
            estimated: false,
            reset_at,
            detail,
            output: self.segments.marks(),
        }
    }

    /// Keeps what the agent said, for `dacapo logs`.
    fn keep_words(&mut self, messages: &[String]) -> Result<(), StartError> {
        let failed = |source| SuperviseError::Io { what: "cannot keep what the agent said", source };
        for message in messages {
            let shown = secrets().redact(message);
            self.segments.stdout.append(format!("{}\n", shown.trim_end()).as_bytes()).map_err(failed)?;
        }
        Ok(self.segments.settle().map_err(failed)?)
    }

    fn facts(&self, messages: &[String]) -> Facts {
        let (home, id, started) = (self.home, self.id(), &*self.started);
        let iteration = self.state().counters.iterations;
        let nonce = dacapo_core::prompt::nonce(started, iteration);
        let begin = self.state().output.attempt.prompt;
        let prompt = answers::kept_output(home, id, started, Channel::Prompt, begin, u64::MAX);
        let prompt = String::from_utf8_lossy(&prompt.unwrap_or_default()).into_owned();
        let found = hear(&started.policy.claims.promise, &nonce, &prompt, messages);
        let folder = home.task_folder(&started.project, &started.task);
        let since = self.state().session.last_idle.map_or(self.began_at(), |(last, _)| last);
        let posted = Bus::open(home.task_bus(&started.project, &started.task)).read().unwrap_or_default();
        let said =
            posted.into_iter().filter(|message| message.posted_at() >= since && message.kind != "INFO");
        let said: Vec<(String, String)> = said.map(|message| (message.kind, message.body)).collect();
        let by_tool = said.iter().find(|(kind, _)| kind == BLOCKED).map(|(_, why)| one_line(why));
        Facts {
            promise: found.promise,
            near_miss: found.near_miss.map(|miss| miss.reason),
            blocked: found.blocked.or(by_tool),
            blocked_near_miss: found.blocked_near_miss,
            messages: said,
            ..observe::markers(&folder)
        }
    }

    /// The workspace as it is now: a snapshot if it has changed, or an outline of a plain folder.
    fn look_at_files(&mut self) -> (Option<(String, String)>, Option<String>, Vec<String>) {
        let mut warnings = Vec::new();
        if let (Some(base), None) = (&self.started.base, &self.workspace) {
            let (dir, seal) = (&self.started.workspace, self.state().session.seal.as_deref());
            match starting_point::take_up(self.home, self.id(), dir, base, seal) {
                Ok(workspace) => self.workspace = Some(workspace),
                Err(error) => warnings.push(format!("the workspace could not be kept: {error}")),
            }
        }
        let is_outlined = self.started.base.is_none() && self.state().progress.tree.is_some();
        if is_outlined && self.folder.is_none() {
            self.folder = Some(Folder::at(&self.started.workspace, self.home));
        }
        let outline = self.folder.as_ref().and_then(Folder::outline);
        let Some(workspace) = &mut self.workspace else { return (None, outline, warnings) };
        let iteration = u64::from(self.stream.state().counters.iterations);
        let kept = workspace.snapshot(iteration).and_then(|snapshot| {
            let tree = snapshot.changed.then(|| workspace.tree_of(&snapshot.id)).transpose()?;
            Ok((snapshot.id, tree))
        });
        warnings.extend(workspace.take_warnings().iter().map(ToString::to_string));
        match kept {
            Ok((id, tree)) => {
                self.kept = Some(id.clone());
                (tree.map(|tree| (id, tree)), outline, warnings)
            }
            Err(error) => {
                warnings.push(format!("the workspace could not be kept: {error}"));
                (None, outline, warnings)
            }
        }
    }

    /// Carries out what needs no process of its own; a claim is handed to a supervisor.
    fn carry_out(
        mut self,
        effects: Vec<Effect>,
        observer: &mut dyn Observer,
    ) -> Result<(Self, HandedOver), StartError> {
        let mut handed = HandedOver::Nothing;
        let mut waiting = vec![effects];
        while let Some(effects) = waiting.pop() {
            if effects.iter().any(needs_supervisor) {
                return self.supervise(effects, observer);
            }
            self.post(&effects);
            for effect in effects {
                match effect {
                    Effect::StartAgent { prompt, .. } => {
                        let failed = |source| SuperviseError::Io { what: "cannot keep the prompt", source };
                        self.segments.prompt.append(prompt.as_bytes()).map_err(failed)?;
                        handed = HandedOver::Prompt(prompt);
                    }
                    Effect::AwaitRecovery { until } => handed = HandedOver::Recovery(until),
                    Effect::ReadMarkers => {
                        let facts = observe::markers(&self.task_folder());
                        let input = Input::MarkersRead(facts, Box::new(self.supply()?));
                        let now = Timestamp::now();
                        waiting.push(self.stream.step(&mut self.store, now, [input.into()], observer)?);
                    }
                    Effect::CloseProvider { agent, until, why } => {
                        let agent = self.started.policy.agent.at(agent);
                        let env: Vec<_> = std::env::vars_os().collect();
                        self.store.close_provider(&account_of(agent, &env), until, &why)?;
                    }
                    Effect::SetDoneAside => {
                        let done = self.task_folder().join("DONE");
                        let _ = std::fs::rename(&done, done.with_extension("refused"));
                    }
                    Effect::ConsumeWaitMarker => {
                        let _ = std::fs::remove_file(self.task_folder().join("WAIT_WITHOUT_RESTART"));
                    }
                    cancel @ Effect::CancelChildren => {
                        perform_without_supervisor(&mut self.store, self.stream.id(), &[cancel])?;
                    }
                    // The next hook looks at the clock, and nothing runs that could be stopped.
                    _ => {}
                }
            }
        }
        Ok((self, handed))
    }

    /// What is left of budgets that loops share. That the host's provider answers is known from the end of the turn.
    fn supply(&self) -> Result<Supply, StoreError> {
        let started = &self.started;
        let shared = if started.policy.limits.shares_budgets() {
            self.store.shared_spend(midnight(), &started.project, None, None)?
        } else {
            SharedSpend::default()
        };
        Ok(Supply { shared, ..Supply::default() })
    }

    fn task_folder(&self) -> PathBuf {
        self.home.task_folder(&self.started.project, &self.started.task)
    }

    fn buses(&self) -> [Bus; 2] {
        let Self { home, started, .. } = self;
        [home.task_bus(&started.project, &started.task), home.project_bus(&started.project)]
            .map(|path| Bus::open(path).with_patience(PATIENCE))
    }

    fn post(&self, effects: &[Effect]) {
        let [task, project] = self.buses();
        post([&task, &project], &self.started, self.id(), effects);
    }

    /// Judges a claim, as a supervisor does, until the machine wants the host to be given a prompt, or the loop is over or waits.
    fn supervise(
        mut self,
        effects: Vec<Effect>,
        observer: &mut dyn Observer,
    ) -> Result<(Self, HandedOver), StartError> {
        let id = self.id().clone();
        let (home, started) = (self.home, self.started.clone());
        let signals = listen(false)?;
        let mut guard = guard_of(home, &started);
        let keeper = begin_keeper(home, &id, &guard)?;
        let goalposts = reopen_goalposts(home, &id, &started, self.workspace.as_ref())?;
        let (keeper, _) =
            finish_keeper(keeper, home, &id, &mut guard, WorktreeIsOn::AsHeadSays, None, || {})?;
        if !self.store.row(&id)?.is_some_and(|row| row.is_owned()) {
            let now = Timestamp::now();
            self.stream.take_over(&mut self.store, &Identity::own(), now, std::slice::from_ref(&id))?;
        }
        let Self { store, stream, lock, segments, workspace, folder, kept, .. } = self;
        let programs = vec![PathBuf::from(&started.policy.agent.command.name)];
        let parts = SupervisorParts {
            home,
            store,
            stream,
            lock,
            segments,
            keeper,
            guard,
            signals,
            programs,
            workspace,
            folder,
            kept,
            goalposts,
            extras: None,
            gate_runners: Vec::new(),
            sign_in: None,
            server: None,
        };
        let mut supervisor = parts.supervisor(observer)?;
        supervisor.perform_all(effects)?;
        let (supervisor, handed) = supervisor.supervise_for_host()?;
        let Supervisor { store, stream, _lock: lock, segments, workspace, folder, .. } = supervisor;
        let hosted = Self { home, store, stream, lock, segments, started, workspace, folder, kept: None };
        Ok((hosted, handed))
    }
}

impl Supervisor<'_> {
    /// Works until the host of the loop's session is to be given a prompt, or until the loop is over or waits.
    fn supervise_for_host(mut self) -> Result<(Self, HandedOver), SuperviseError> {
        loop {
            if let Some(prompt) = self.handed.take() {
                return Ok((self, HandedOver::Prompt(prompt)));
            }
            let is_at_rest = matches!(
                self.stream.state().phase,
                Phase::Over { .. } | Phase::Paused { .. } | Phase::Parked(_)
            );
            match self.inbox.pop_front() {
                Some(arrival) => self.step(arrival)?,
                None if is_at_rest => return Ok((self, HandedOver::Nothing)),
                None => self.wait()?,
            }
        }
    }
}

fn open_segments(home: &Home, started: &LoopStarted, id: &LoopId) -> Result<Segments, StartError> {
    let runs = home.runs(&started.project, &started.task);
    Segments::open(&runs, id).map_err(|source| StartError::Io {
        what: "cannot make the folder",
        path: runs,
        source,
    })
}

/// Whether an effect takes a process, or a wait that only a supervisor does.
fn needs_supervisor(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::AwaitChildren { .. }
            | Effect::RunGate { .. }
            | Effect::Examine
            | Effect::Recheck { .. }
            | Effect::Commit { .. }
            | Effect::CommitItems { .. }
            | Effect::AwaitTasks { .. }
            | Effect::Delay(_)
    )
}

/// Whether a process was started by the agent of a session: hosts give the id of the session to what they start.
fn was_started_in(pid: u32, session: &str) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    environment.split(|byte| *byte == 0).any(|variable| {
        let value = variable.iter().position(|byte| *byte == b'=').map(|at| &variable[at + 1..]);
        !session.is_empty() && value == Some(session.as_bytes())
    })
}
