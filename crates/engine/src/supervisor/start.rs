//! How a loop begins, is continued, and what is set right before: every refusal here happens before an agent runs.

use std::{
    collections::HashSet,
    fs, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use dacapo_core::{
    event::{Envelope, Grant, LoopStarted, Reason},
    ids::{LoopId, ProjectId, RunId, TaskId},
    judge::glob::GlobError,
    loop_machine::{Begin, Effect, Input, LoopState, decide},
    policy::{Policy, PolicyProblem},
    secrets::Secrets,
    view::LoopView,
};
use jiff::Timestamp;

use super::{
    Finished, SuperviseError, Supervisor,
    ground::{self, Ground},
    timers::Timers,
    unattended::{bury, reconcile_holding, take_up_requests},
};
use crate::{
    bus::Bus,
    home::{Home, HomeError, make_dir, write_private},
    observer::Observer,
    process::{KeeperLink, ProgramError, find_program, identity::Identity},
    secrets::secrets,
    signals::Signals,
    store::{Head, LockError, LoopRow, Segments, Store, StoreError, TaskLock},
    workspace::{Folder, Workspace, WorkspaceError},
};

/// How long a supervisor waits for others who post.
const PATIENCE: Duration = Duration::from_millis(100);

/// What is said about a prompt with a secret.
const HELD_IN_PROMPT: &str = "the prompt holds a secret, which is kept with it (TASK.md and the prompts in runs/, \
     readable by you alone); an environment variable would not be";

/// How deep loops may start loops.
const DEEPEST: u32 = 3;

/// How long the owner of a task may take from its lock to its first event before it goes unnamed.
const UNTIL_KNOWN: Duration = Duration::from_secs(2);

/// A loop that is to begin.
#[derive(Clone, Debug)]
pub struct NewLoop {
    /// Its settings.
    pub policy: Policy,
    /// What the agent is asked to do; `None` means what `TASK.md` already says.
    pub prompt: Option<String>,
    /// Its project.
    pub project: ProjectId,
    /// Its task; `None` makes one up.
    pub task: Option<TaskId>,
    /// Where the agent works, absolute.
    pub workspace: PathBuf,
    /// Tasks that must be done first.
    pub after: Vec<TaskId>,
    /// The loop in whose agent we run, by its word.
    pub parent: Option<LoopId>,
    /// The run of units it belongs to.
    pub run: Option<RunId>,
    /// The commit that its changes count from; `None` means the files as they are.
    pub base: Option<String>,
    /// Whether it runs without a terminal.
    pub is_detached: bool,
}

/// A loop that is to go on.
#[derive(Clone, Debug)]
pub struct ResumeLoop {
    /// Which.
    pub id: LoopId,
    /// What the person who resumes it grants.
    pub grant: Grant,
    /// Whether it runs without a terminal.
    pub is_detached: bool,
}

/// Why a loop does not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nowhere to write.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The journal.
    #[error(transparent)]
    Store(StoreError),
    /// The agent.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The settings.
    #[error(transparent)]
    Policy(#[from] PolicyProblem),
    /// Nothing to do.
    #[error("there is no prompt: none was given, and task {0} has no TASK.md")]
    NoPrompt(TaskId),
    /// Only white space to do.
    #[error("the prompt is blank")]
    BlankPrompt,
    /// Somebody else runs the task.
    #[error("task {task} is already run by {}", holder.as_ref().map_or("a dacapo that is just starting".to_owned(), |id| format!("loop {id}")))]
    TaskHeld {
        /// The task.
        task: TaskId,
        /// Who runs it, once it is in the journal.
        holder: Option<LoopId>,
    },
    /// Somebody else works in the folder.
    #[error("loop {holder} (task {task}) works in `{}`", workspace.display())]
    WorkspaceHeld {
        /// Who.
        holder: LoopId,
        /// On what.
        task: TaskId,
        /// Where.
        workspace: PathBuf,
    },
    /// Tasks that wait for each other.
    #[error("tasks would wait for each other: {0}")]
    Cycle(String),
    /// Loops within loops within loops.
    #[error("a loop inside a loop inside a loop: at most {DEEPEST} may be nested")]
    TooDeep,
    /// No such loop.
    #[error("there is no loop {0}")]
    Unknown(LoopId),
    /// It has come to an end that stands.
    #[error("loop {id} is {state} and cannot be resumed")]
    NotResumable {
        /// Which.
        id: LoopId,
        /// How it stands.
        state: String,
    },
    /// The workspace is in a state that nothing can be proven in.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A pattern of protected paths.
    #[error("--protect: {0}")]
    Glob(#[from] GlobError),
    /// dacapo was asked to commit where that is not possible.
    #[error("cannot commit for you: {0}")]
    NoCommit(&'static str),
    /// Settings are recorded, and a secret must not be.
    #[error("{0} holds a secret, and would be recorded with it")]
    Secret(String),
    /// The folder cannot be used.
    #[error("{what} `{}`: {source}", path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It began and could not be brought to an end.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::FolderHeld(row) => {
                let LoopView { id: holder, task, workspace, .. } = row.view;
                Self::WorkspaceHeld { holder, task, workspace }
            }
            other => Self::Store(other),
        }
    }
}

/// Refuses settings that hold a secret: recorded, they would give it away; recorded without it, nobody could resume.
///
/// Folders and names may happen to be what somebody has for a password; tokens they are not.
pub fn refuse_secrets(new: &NewLoop) -> Result<(), StartError> {
    refuse_secrets_in(&new.policy)?;
    let workspace = new.workspace.to_string_lossy();
    let names = [("the project", new.project.as_str()), ("the folder", &workspace)];
    let tasks = new.task.iter().chain(&new.after).map(|task| ("the task", task.as_str()));
    for (what, name) in names.into_iter().chain(tasks).filter(|(_, name)| secrets().is_in(name)) {
        let shapes = Secrets::new(<[&str; 0]>::default());
        if shapes.is_in(name) {
            return Err(StartError::Secret(format!("{what} `{}`", shapes.redact(name))));
        }
    }
    Ok(())
}

/// The same for settings alone.
pub fn refuse_secrets_in(policy: &Policy) -> Result<(), StartError> {
    match secrets().in_policy(policy) {
        Some(what) => Err(StartError::Secret(what)),
        None => Ok(()),
    }
}

/// Puts the user's own words back where the journal has them without secrets. `words` count only if they are the ones
/// that were recorded: an agent can write to the file they come from.
fn say_in_own_words(state: &mut LoopState, words: String) {
    if let Some(started) = &mut state.started
        && started.prompt != words
        && started.prompt == secrets().redact(&words)
    {
        Arc::make_mut(started).prompt = words;
    }
}

/// Runs a new loop to its end.
pub fn run(home: &Home, new: NewLoop, observer: &mut dyn Observer) -> Result<Finished, StartError> {
    if let Some(problem) = new.policy.problems().into_iter().next() {
        return Err(problem.into());
    }
    refuse_secrets(&new)?;
    let programs = find_agents(&new.policy, new.policy.max_iterations, &new.workspace)?;
    home.prepare()?;
    let mut store = Store::open(&home.database())?;
    let random = random();
    let id = LoopId::from_random(random[..10].try_into().unwrap_or_default());
    let task = match (&new.task, &new.prompt) {
        (Some(task), _) => task.clone(),
        (None, prompt) => TaskId::for_prompt(
            // The name of a folder.
            &secrets().redact(prompt.as_deref().unwrap_or_default()),
            random[10..14].try_into().unwrap_or_default(),
        ),
    };
    let folder = home.task_folder(&new.project, &task);
    let prompt = read_prompt(new.prompt, &folder, &task)?;
    let lock = take_lock(home, &store, &new.project, &task)?;
    let signals = listen(new.is_detached)?;
    reconcile_holding(home, &mut store, Some((&new.project, &task)))?;
    let parent = match &new.parent {
        Some(parent) => store.row(parent)?.filter(LoopRow::is_running),
        None => None,
    };
    let ancestors = ancestors(&store, parent.as_ref())?;
    let depth = u32::try_from(ancestors.len()).unwrap_or(u32::MAX);
    if depth > DEEPEST {
        return Err(StartError::TooDeep);
    }
    check_cycle(&store, &new.project, &task, &new.after)?;
    let mut warnings = neighbours(&store, &new.workspace, &ancestors)?;
    for awaited in &new.after {
        if store.newest_of_task(Some(&new.project), awaited.as_str())?.is_empty() {
            warnings.push(format!(
                "there is no task {awaited} yet; this loop waits until there is one and it is done"
            ));
        }
    }
    if secrets().is_in(&prompt) {
        warnings.push(HELD_IN_PROMPT.to_owned());
    }
    let at = |what, path: &PathBuf| {
        let path = path.clone();
        move |source| StartError::Io { what, path, source }
    };
    make_dir(&folder).map_err(at("cannot make the task folder", &folder))?;
    write_task(&folder, &prompt).map_err(at("cannot write", &folder.join("TASK.md")))?;
    keep_reserve(home);
    let runs = home.runs(&new.project, &task);
    let segments = Segments::open(&runs, &id).map_err(at("cannot make the folder", &runs))?;
    let ground = Ground::prepare(home, &id, &new.policy, &new.workspace, new.base)?;
    warnings.extend(ground.warnings);
    let keeper = start_keeper(home, &id)?;

    let begin = Begin {
        started: LoopStarted {
            project: new.project,
            task,
            workspace: new.workspace,
            parent: parent.map(|row| row.view.id),
            run: new.run,
            depth,
            after: new.after,
            prompt: prompt.clone(),
            seed: dacapo_core::ids::base32(&random[14..]),
            policy: new.policy,
            base: ground.base,
            outline: ground.outline,
            protected: ground.protected,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        warnings,
    };
    let step = decide(&LoopState::default(), Input::Begin(Box::new(begin)));
    let (head, envelopes, view) =
        store.create(&id, &Identity::own(), Timestamp::now(), step.events, &ancestors)?;
    let mut state = LoopState::default();
    publish(&envelopes, &view, &mut state, observer);
    say_in_own_words(&mut state, prompt);
    let parts = Parts {
        home,
        store,
        id,
        state,
        head,
        view,
        lock,
        segments,
        keeper,
        signals,
        programs,
        workspace: ground.workspace,
        folder: ground.folder,
    };
    parts.supervise(step.effects, observer)
}

/// Continues a loop to its end.
pub fn resume(home: &Home, wanted: ResumeLoop, observer: &mut dyn Observer) -> Result<Finished, StartError> {
    home.prepare()?;
    let mut store = Store::open(&home.database())?;
    let id = wanted.id;
    let row = store.row(&id)?.ok_or_else(|| StartError::Unknown(id.clone()))?;
    let lock = take_lock(home, &store, &row.view.project, &row.view.task)?;
    // Read again now that nobody else can write.
    let row = store.row(&id)?.ok_or_else(|| StartError::Unknown(id.clone()))?;
    let signals = listen(wanted.is_detached)?;
    let (mut head, history) = store.load(&id)?.ok_or_else(|| StartError::Unknown(id.clone()))?;
    let mut state = LoopState::fold(history.iter().map(|envelope| &envelope.event));
    let mut view = row.view;
    bury(home, &mut store, &id, &mut head, &mut view, &mut state)?;
    reconcile_holding(home, &mut store, Some((&view.project, &view.task)))?;
    take_up_requests(&mut store, &id, &mut head, &mut view, &mut state)?;
    if let Some(started) = &state.started {
        let task = home.task_folder(&started.project, &started.task).join("TASK.md");
        let words = fs::read_to_string(task).unwrap_or_default();
        say_in_own_words(&mut state, words);
    }
    let Some(started) = state.started.clone() else { return Err(StartError::Unknown(id)) };
    if state.over().is_none_or(|reason| !reason.is_resumable()) {
        return Err(StartError::NotResumable { id, state: view.state });
    }
    let iterations = state.max_iterations.saturating_add(wanted.grant.extra_iterations);
    let programs = find_agents(&started.policy, iterations, &started.workspace)?;
    let mut kin = match &started.parent {
        Some(parent) => ancestors(&store, store.row(parent)?.as_ref())?,
        None => Vec::new(),
    };
    kin.push(id.clone());
    keep_reserve(home);
    let runs = home.runs(&started.project, &started.task);
    let segments = Segments::open(&runs, &id).map_err(|source| StartError::Io {
        what: "cannot make the folder",
        path: runs,
        source,
    })?;
    let workspace = match &started.base {
        Some(base) => Some(ground::reopen(home, &id, &started.workspace, base)?),
        None => None,
    };
    // Too many files once are too many for good: one warning is enough.
    let is_outlined = started.base.is_none() && state.tree.is_some();
    let folder = is_outlined.then(|| Folder::at(&started.workspace, home));
    let keeper = start_keeper(home, &id)?;
    store.take_over(head, &view, &Identity::own(), &kin)?;
    let step = decide(
        &state,
        Input::Resume { grant: wanted.grant, output: segments.marks(), pid: std::process::id() },
    );
    let envelopes = store.append(&id, &mut head, &mut view, Timestamp::now(), step.events, &[])?;
    publish(&envelopes, &view, &mut state, observer);
    let parts = Parts {
        home,
        store,
        id,
        state,
        head,
        view,
        lock,
        segments,
        keeper,
        signals,
        programs,
        workspace,
        folder,
    };
    parts.supervise(step.effects, observer)
}

fn publish(envelopes: &[Envelope], view: &LoopView, state: &mut LoopState, observer: &mut dyn Observer) {
    for envelope in envelopes {
        state.apply(&envelope.event);
        observer.event(envelope, view);
    }
}

/// Everything a supervisor is made of.
struct Parts<'a> {
    home: &'a Home,
    store: Store,
    id: LoopId,
    state: LoopState,
    head: Head,
    view: LoopView,
    lock: TaskLock,
    segments: Segments,
    keeper: KeeperLink,
    signals: Signals,
    programs: Vec<PathBuf>,
    workspace: Option<Workspace>,
    folder: Option<Folder>,
}

impl<'a> Parts<'a> {
    fn supervise(self, effects: Vec<Effect>, observer: &'a mut dyn Observer) -> Result<Finished, StartError> {
        let Some(started) = self.state.started.clone() else { return Err(StartError::Unknown(self.id)) };
        let mut supervisor = Supervisor {
            // A bus that somebody holds must not hold the loop.
            task_bus: Bus::open(self.home.task_bus(&started.project, &started.task)).with_patience(PATIENCE),
            project_bus: Bus::open(self.home.project_bus(&started.project)).with_patience(PATIENCE),
            started: Arc::clone(&started),
            home: self.home,
            store: self.store,
            id: self.id,
            state: self.state,
            head: self.head,
            view: self.view,
            _lock: self.lock,
            segments: self.segments,
            keeper: self.keeper,
            signals: self.signals,
            next_tick: observer.tick_every().map(|every| Instant::now() + every),
            workspace: self.workspace,
            folder: self.folder,
            kept: None,
            checkout: None,
            observer,
            inbox: Default::default(),
            work: None,
            timers: Timers::default(),
            programs: self.programs,
            probes: None,
            bus_mark: 0,
            next_stock: None,
            buffer: vec![0; 512 * 1024],
        };
        supervisor.post(&effects);
        for effect in effects {
            supervisor.perform(effect)?;
        }
        Ok(supervisor.supervise()?)
    }
}

/// The program of the agent, and those of its stand-ins; one of these that is missing is found so when it is needed.
///
/// A loop without iterations has none.
fn find_agents(
    policy: &Policy,
    iterations: u32,
    workspace: &std::path::Path,
) -> Result<Vec<PathBuf>, StartError> {
    if iterations == 0 {
        return Ok(Vec::new());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A path is meant from where the user typed it, a name from PATH.
    let here = std::env::current_dir().unwrap_or_else(|_| workspace.to_owned());
    let name = |index| policy.agent(index).argv.first().map(String::as_str).unwrap_or_default();
    let own = find_program(name(0), &path, &here)?;
    let others = (1..=policy.fallback.len())
        .map(|index| find_program(name(index), &path, &here).unwrap_or_else(|_| name(index).into()));
    Ok(std::iter::once(own).chain(others).collect())
}

fn read_prompt(given: Option<String>, folder: &std::path::Path, task: &TaskId) -> Result<String, StartError> {
    let prompt = match given {
        Some(prompt) => prompt,
        None => match fs::read_to_string(folder.join("TASK.md")) {
            Ok(text) => text,
            Err(_) => return Err(StartError::NoPrompt(task.clone())),
        },
    };
    if prompt.trim().is_empty() { Err(StartError::BlankPrompt) } else { Ok(prompt) }
}

/// Whole or not at all: a crash never leaves half a task.
fn write_task(folder: &std::path::Path, prompt: &str) -> io::Result<()> {
    let (fresh, task) = (folder.join(".TASK.md.new"), folder.join("TASK.md"));
    write_private(&fresh, prompt.as_bytes())?;
    fs::rename(fresh, task)
}

pub(super) fn take_lock(
    home: &Home,
    store: &Store,
    project: &ProjectId,
    task: &TaskId,
) -> Result<TaskLock, StartError> {
    let deadline = Instant::now() + UNTIL_KNOWN;
    loop {
        match TaskLock::take(&home.lock(project, task)) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held) => {}
            Err(LockError::Io { path, source }) => {
                return Err(StartError::Io { what: "cannot lock", path, source });
            }
        }
        let mut active = store.active()?.into_iter();
        let holder = active
            .find(|row| row.view.project == *project && row.view.task == *task && row.is_running())
            .map(|row| row.view.id);
        if holder.is_some() || Instant::now() >= deadline {
            return Err(StartError::TaskHeld { task: task.clone(), holder });
        }
        // Whoever has the lock is about to be in the journal, or to give it back.
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn listen(is_detached: bool) -> Result<Signals, StartError> {
    Signals::listen(is_detached)
        .map_err(|source| SuperviseError::Io { what: "cannot listen to signals", source }.into())
}

fn start_keeper(home: &Home, id: &LoopId) -> Result<KeeperLink, StartError> {
    KeeperLink::start(id, &home.database())
        .map_err(|source| SuperviseError::Io { what: "cannot start a keeper", source }.into())
}

/// `parent` and the loops above it.
fn ancestors(store: &Store, parent: Option<&LoopRow>) -> Result<Vec<LoopId>, StartError> {
    let mut chain = Vec::new();
    let mut next = parent.cloned();
    while let Some(row) = next {
        if chain.contains(&row.view.id) {
            break;
        }
        chain.push(row.view.id);
        next = match row.view.parent {
            Some(parent) => store.row(&parent)?,
            None => None,
        };
    }
    Ok(chain)
}

/// A word about each loop in the same folder that is not of the family. Whether it may be there at all is decided when
/// the loop is recorded, where nobody can come in between.
fn neighbours(
    store: &Store,
    workspace: &std::path::Path,
    ancestors: &[LoopId],
) -> Result<Vec<String>, StartError> {
    let mut warnings = Vec::new();
    for row in store.active()? {
        let is_ours = ancestors.contains(&row.view.id)
            || row.view.parent.as_ref().is_some_and(|p| ancestors.contains(p));
        if row.view.workspace != workspace || is_ours || !row.is_running() {
            continue;
        }
        warnings.push(format!("loop {} (task {}) works in the same folder", row.view.id, row.view.task));
    }
    Ok(warnings)
}

/// Refuses tasks that would wait for each other for ever (req 99).
fn check_cycle(
    store: &Store,
    project: &ProjectId,
    task: &TaskId,
    after: &[TaskId],
) -> Result<(), StartError> {
    let mut paths: Vec<Vec<TaskId>> = after.iter().map(|next| vec![task.clone(), next.clone()]).collect();
    let mut seen = HashSet::new();
    while let Some(path) = paths.pop() {
        let Some(last) = path.last() else { continue };
        if last == task {
            let names: Vec<&str> = path.iter().map(TaskId::as_str).collect();
            return Err(StartError::Cycle(names.join(" → ")));
        }
        if !seen.insert(last.clone()) {
            continue;
        }
        for row in store.newest_of_task(Some(project), last.as_str())? {
            if row.view.reason != Some(Reason::Done) {
                paths.extend(
                    row.view.after.iter().map(|next| [path.as_slice(), std::slice::from_ref(next)].concat()),
                );
            }
        }
    }
    Ok(())
}

/// Room that is given up when the disk is full, so that the reason can still be written down (fault G4).
fn keep_reserve(home: &Home) {
    let path = home.path().join("reserve");
    if path.metadata().is_ok_and(|metadata| metadata.len() == RESERVE as u64) {
        return;
    }
    let _ = write_private(&path, &vec![0; RESERVE]);
}

const RESERVE: usize = 256 * 1024;

pub(super) fn release_reserve(home: &Home) {
    let _ = fs::remove_file(home.path().join("reserve"));
}

fn random() -> [u8; 24] {
    let mut bytes = [0; 24];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(read) => filled += read,
            // The kernel's generator is there or nothing works; an interrupted call is tried again.
            Err(_) => continue,
        }
    }
    bytes
}
