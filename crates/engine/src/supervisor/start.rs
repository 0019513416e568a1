//! How a loop begins and is continued: every refusal here happens before an agent runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use dacapo_core::{
    event::{Grant, LoopStarted},
    goalposts::Runner,
    ids::{LoopId, ProjectId, RunId, TaskId},
    loop_machine::{Begin, Effect, Input, LoopMachine, Request},
    plan::{PlanStep, Purpose},
    policy::{GateIn, Policy},
    sandbox::{SandboxHeld, SandboxRules, SandboxTier},
};
use jiff::Timestamp;

use super::{
    Finished, PATIENCE, SuperviseError, Supervisor,
    observe::markers,
    preconditions::{
        CheckedLoop, DEEPEST, StartError, ancestors, check_cycle, check_prompt, check_task_of_agent,
        doubtful_disks, find_agents, neighbours, take_lock,
    },
    sign_in::SignInCheck,
    starting_point::{self, StartingPoint},
    timers::Timers,
    unattended::{bury, reconcile_holding, take_up_requests},
};
use crate::{
    bus::Bus,
    git::Git,
    goalposts::{Extras, WatchedGoalposts},
    guard::{Guard, OwnRefs, StartingKeeper, WorktreeIsOn},
    health,
    home::{Home, make_dir, write_private},
    inside::server::InsideServer,
    observer::Observer,
    process::{KeeperLink, Programs, identity::Identity},
    repository::Repository,
    secrets::secrets,
    signals::Signals,
    snapshots::{Folder, Workspace},
    store::{LockError, LoopRow, Segments, Store, Stream, TaskLock},
};

/// The warning about a prompt that holds a secret.
pub(super) const HELD_IN_PROMPT: &str = "the prompt holds a secret, which is kept with it (TASK.md and the prompts in runs/, \
     readable by you alone); an environment variable would not be";

/// A loop that is to begin.
#[derive(Clone, Debug)]
pub struct NewLoop {
    pub policy: Policy,
    /// What the agent is asked to do; `None` means what `TASK.md` already says.
    pub prompt: Option<String>,
    pub project: ProjectId,
    /// Its task; `None` makes one up.
    pub task: Option<TaskId>,
    /// Where the agent works, absolute.
    pub workspace: PathBuf,
    /// Tasks that must be done first.
    pub after: Vec<TaskId>,
    /// The loop whose supervisor started this process to run a child of it.
    pub parent: Option<LoopId>,
    /// The run of units it belongs to.
    pub run: Option<RunId>,
    /// What a plan starts it for.
    pub purpose: Option<Purpose>,
    /// The commit that its changes count from; `None` means the files as they are.
    pub base: Option<String>,
    /// The filters of git that hold, of a loop whose files other agents worked on before; `None` means those that are set up.
    pub filters: Option<Vec<(String, String)>>,
    /// The programs of agents that were found already.
    pub programs: Programs,
    /// What a person has said before it began, for its first prompt.
    pub steers: Vec<String>,
    /// Whether it runs without a terminal.
    pub is_detached: bool,
}

/// A loop that is to go on.
#[derive(Clone, Debug)]
pub struct ResumeLoop {
    pub id: LoopId,
    /// What the person who resumes it grants.
    pub grant: Grant,
    /// The programs of agents that were found already.
    pub programs: Programs,
    /// Whether it runs without a terminal.
    pub is_detached: bool,
}

/// Runs a new loop to its end.
pub fn run(home: &Home, new: CheckedLoop, observer: &mut dyn Observer) -> Result<Finished, StartError> {
    let mut new = new.into_inner();
    let programs = find_agents(new.programs, &new.policy, new.policy.limits.max_iterations)?;
    home.prepare()?;
    let random = random();
    let id = LoopId::from_random(random[..10].try_into().unwrap_or_default());
    let signals = listen(new.is_detached)?;
    // What a child may do is known when its parent is. What must be protected around any other loop is looked at from here on.
    let looking = match new.parent {
        Some(_) => None,
        None => {
            Some(Guard::of_loop(&new.policy, &new.workspace).begin_look(home).map_err(cannot_start_keeper)?)
        }
    };
    let mut store = Store::open(&home.database())?;
    let parent = match &new.parent {
        // That it says so is not enough: the kernel must say that its supervisor is our parent.
        Some(parent) => {
            // No process runs the loop of a chat session: the host's agent is what started this.
            let is_our_parent =
                |row: &LoopRow| row.is_running() && (is_parent(row.owner.pid) || !row.view.needs_owner());
            let row = store.row(parent)?.filter(is_our_parent);
            Some(row.ok_or_else(|| StartError::ParentGone(parent.clone()))?)
        }
        None => None,
    };
    // What an agent asks for is held at least as well as the agent is.
    let above = match &parent {
        Some(row) => started_of(&store, &row.view.id)?,
        None => None,
    };
    if let Some(above) = &above {
        // The configuration is read by a process that the agent started: it adds nothing to what the agent may do.
        let mode = new.policy.sandbox.mode.max(above.policy.sandbox.mode);
        new.policy.sandbox = SandboxRules { mode, ..above.policy.sandbox.clone() };
    }
    let (task, lock) = match &new.task {
        Some(task) => (task.clone(), None),
        None => named_after_prompt(
            home,
            &store,
            (&new.project, new.prompt.as_deref()),
            random[10..14].try_into().unwrap_or_default(),
        )?,
    };
    let folder = home.task_folder(&new.project, &task);
    let ancestors = ancestors(&store, parent.as_ref())?;
    // The agent of a chat session is the user's own, and no sandbox is around it.
    if parent.as_ref().is_some_and(|row| row.view.needs_owner()) {
        let replaces_words = new.prompt.is_some() && folder.join("TASK.md").exists();
        check_task_of_agent(&store, (&new.project, &task), &ancestors, replaces_words)?;
    }
    let prompt = read_prompt(new.prompt, &folder, &task)?;
    check_prompt(&new.policy, &prompt)?;
    let lock = match lock {
        Some(lock) => lock,
        None => take_lock(home, &store, &new.project, &task)?,
    };
    let mut guard = Guard::of_loop(&new.policy, &new.workspace);
    guard.places.parent = above.as_ref().map(|above| above.workspace.clone());
    let mut keeper = match looking {
        Some(looking) => looking,
        None => guard.begin_look(home).map_err(cannot_start_keeper)?,
    };
    guard.begin_keeper(&mut keeper, home, &id).map_err(cannot_start_keeper)?;
    reconcile_holding(home, &mut store, Some((&new.project, &task)))?;
    // The agent above may have committed: that is what its child begins with.
    let is_beside = |above: &&Arc<LoopStarted>| above.workspace == new.workspace;
    let not_brought = above.as_ref().filter(is_beside).and_then(|above| bring_over_left(home, above));
    let depth = u32::try_from(ancestors.len()).unwrap_or(u32::MAX);
    if depth > DEEPEST {
        return Err(StartError::TooDeep);
    }
    // Where a loop of the same run, or an agent that starts a child, has worked already, the first attempt tells.
    let is_first = ancestors.is_empty()
        && match &new.run {
            Some(run) => store.loops_of_run(run)?.is_empty(),
            None => true,
        };
    let caller = crate::inside::child::environment();
    let sign_in =
        is_first.then(|| SignInCheck::begin(home, &new.policy, &programs, &new.workspace, &caller)).flatten();
    check_cycle(&store, &new.project, &task, &new.after)?;
    let mut warnings = neighbours(&store, &new.workspace, &ancestors)?;
    warnings.extend(not_brought);
    if is_first {
        warnings.extend(doubtful_disks(home, &new.workspace));
    }
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
    // Before its folder is made: the name of a task that is refused here stays free.
    let at_start = StartingPoint::prepare(
        home,
        &id,
        &new.policy,
        &new.workspace,
        new.base,
        new.filters,
        parent.as_ref().map(|row| &row.view.id),
    )?;
    make_dir(&folder).map_err(at("cannot make the task folder", &folder))?;
    write_task(&folder, &prompt).map_err(at("cannot write", &folder.join("TASK.md")))?;
    home.keep_reserve();
    let runs = home.runs(&new.project, &task);
    let segments = Segments::open(&runs, &id).map_err(at("cannot make the folder", &runs))?;
    warnings.extend(at_start.warnings);
    if let Some(goalposts) = &at_start.goalposts {
        let list = goalposts_of(&runs, &id);
        goalposts.keep(&list).map_err(at("cannot write", &list))?;
    }
    let task_folder = folder.clone();
    guard.places.task_folder = Some(folder);
    let branch = at_start.base.as_ref().and_then(|base| base.branch.as_deref());
    let on = branch.map_or(WorktreeIsOn::AsHeadSays, WorktreeIsOn::Branch);
    let mut server = None;
    let get_ready = || {
        server = Some(InsideServer::listen(home, &id));
        store.get_ready();
    };
    let (keeper, held) = finish_keeper(keeper, home, &id, &mut guard, on, new.purpose.as_ref(), get_ready)?;

    let decides_at_once = sign_in.is_none() && new.steers.is_empty() && !new.policy.needs_supply();
    let begin = Begin {
        started: LoopStarted {
            project: new.project,
            task,
            workspace: new.workspace,
            parent: parent.map(|row| row.view.id),
            run: new.run,
            purpose: new.purpose,
            session: None,
            depth,
            after: new.after,
            prompt: prompt.clone(),
            seed: dacapo_core::ids::base32(&random[14..]),
            policy: new.policy,
            base: at_start.base,
            outline: at_start.outline,
            protected: at_start.protected,
            outside: at_start.goalposts.as_ref().map(WatchedGoalposts::recorded).unwrap_or_default(),
            goalposts: at_start.goalposts.as_ref().map(WatchedGoalposts::seal),
            sandbox: Some(held),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        warnings,
    };
    // Where nothing has to be waited for, the first agent is decided on in the transaction that begins the loop.
    let look = |effects: &mut Vec<Effect>| {
        let at = effects.iter().position(|effect| *effect == Effect::ReadMarkers)?;
        effects.remove(at);
        Some(Input::MarkersRead(markers(&task_folder), Box::default()))
    };
    let look = |effects: &mut Vec<Effect>| decides_at_once.then(|| look(effects)).flatten();
    let (owner, input) = (Identity::own(), Input::Begin(Box::new(begin)));
    let now = Timestamp::now();
    let (mut stream, mut effects) =
        Stream::<LoopMachine>::begin_looking(&mut store, id, &owner, now, input, &ancestors, look, observer)?;
    if !new.steers.is_empty() {
        let said = new.steers.into_iter().map(|text| Input::Requested(Request::Steer { text }).into());
        effects.extend(stream.step(&mut store, Timestamp::now(), said, observer)?);
    }
    stream.say_in_own_words(prompt);
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
        workspace: at_start.workspace,
        folder: at_start.folder,
        kept: None,
        goalposts: at_start.goalposts,
        extras: at_start.extras,
        gate_runners: at_start.gate_runners,
        sign_in,
        server,
    };
    parts.supervise(effects, observer)
}

/// Continues a loop to its end.
pub fn resume(home: &Home, wanted: ResumeLoop, observer: &mut dyn Observer) -> Result<Finished, StartError> {
    home.prepare()?;
    let mut store = Store::open(&home.database())?;
    let id = wanted.id;
    let row = store.row(&id)?.ok_or_else(|| StartError::Unknown(id.clone()))?;
    let lock = take_lock(home, &store, &row.view.project, &row.view.task)?;
    let signals = listen(wanted.is_detached)?;
    let mut stream =
        Stream::<LoopMachine>::open(&store, &id)?.ok_or_else(|| StartError::Unknown(id.clone()))?;
    bury(home, &mut store, &mut stream)?;
    reconcile_holding(home, &mut store, Some((&row.view.project, &row.view.task)))?;
    take_up_requests(&mut store, &mut stream)?;
    let task = home.task_folder(&row.view.project, &row.view.task).join("TASK.md");
    stream.say_in_own_words(fs::read_to_string(task).unwrap_or_default());
    let state = stream.state();
    let Some(started) = state.started.clone() else { return Err(StartError::Unknown(id)) };
    if started.session.is_some() {
        return Err(StartError::InSession(id));
    }
    if state.over().is_none_or(|reason| !reason.is_resumable()) {
        return Err(StartError::NotResumable { id, state: stream.view().state.clone() });
    }
    let iterations = state.limits.max_iterations.saturating_add(wanted.grant.extra_iterations);
    let mut guard = guard_of(home, &started);
    guard.places.parent = match &started.parent {
        Some(parent) => started_of(&store, parent)?.map(|above| above.workspace.clone()),
        None => None,
    };
    let keeper = begin_keeper(home, &id, &guard)?;
    let programs = find_agents(wanted.programs, &started.policy, iterations)?;
    let caller = crate::inside::child::environment();
    let sign_in = SignInCheck::begin(home, &started.policy, &programs, &started.workspace, &caller);
    let mut kin = match &started.parent {
        Some(parent) => ancestors(&store, store.row(parent)?.as_ref())?,
        None => Vec::new(),
    };
    kin.push(id.clone());
    home.keep_reserve();
    let runs = home.runs(&started.project, &started.task);
    let segments = Segments::open(&runs, &id).map_err(|source| StartError::Io {
        what: "cannot make the folder",
        path: runs,
        source,
    })?;
    let not_brought = bring_over_left(home, &started);
    let workspace = match &started.base {
        Some(base) => Some(starting_point::reopen(home, &id, &started.workspace, base)?),
        None => None,
    };
    // Too many files once are too many for good: one warning is enough.
    let is_outlined = started.base.is_none() && stream.state().progress.tree.is_some();
    let folder = is_outlined.then(|| Folder::at(&started.workspace, home));
    let goalposts = reopen_goalposts(home, &id, &started, workspace.as_ref())?;
    let is_checked_out = started.policy.gates.run_in != GateIn::Clean;
    let extras = workspace
        .as_ref()
        .filter(|workspace| workspace.is_git() && is_checked_out && started.policy.gates.watches_goalposts());
    let extras = extras.map(|workspace| Extras::again(workspace.root()));
    let on = started.sandbox.as_ref().and_then(worktree_of).unwrap_or(WorktreeIsOn::AsHeadSays);
    let mut server = None;
    let get_ready = || {
        server = Some(InsideServer::listen(home, &id));
        store.get_ready();
    };
    let (keeper, held) =
        finish_keeper(keeper, home, &id, &mut guard, on, started.purpose.as_ref(), get_ready)?;
    if let Some(before) = started.sandbox.as_ref().filter(|before| held.is_less_than(before)) {
        // Its receipt would say more than was held.
        let why =
            format!("the loop began with {}, and this system now allows {}", before.words(), held.words());
        return Err(SuperviseError::Io { what: "cannot go on", source: io::Error::other(why) }.into());
    }
    stream.take_over(&mut store, &Identity::own(), Timestamp::now(), &kin)?;
    let input = Input::Resume { grant: wanted.grant, output: segments.marks(), pid: std::process::id() };
    let told = doubtful_disks(home, &started.workspace).into_iter().chain(not_brought).map(Input::Noticed);
    let inputs = std::iter::once(input).chain(told).map(Into::into);
    let effects = stream.step(&mut store, Timestamp::now(), inputs, observer)?;
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
        kept: None,
        goalposts,
        extras,
        gate_runners: Vec::new(),
        sign_in,
        server,
    };
    parts.supervise(effects, observer)
}

/// Everything a supervisor is made of.
pub(super) struct SupervisorParts<'a> {
    pub(super) home: &'a Home,
    pub(super) store: Store,
    pub(super) stream: Stream<LoopMachine>,
    pub(super) lock: TaskLock,
    pub(super) segments: Segments,
    pub(super) keeper: KeeperLink,
    pub(super) guard: Guard,
    pub(super) signals: Signals,
    pub(super) programs: Vec<PathBuf>,
    pub(super) workspace: Option<Workspace>,
    pub(super) folder: Option<Folder>,
    /// The snapshot that holds the files as they are.
    pub(super) kept: Option<String>,
    pub(super) goalposts: Option<WatchedGoalposts>,
    pub(super) extras: Option<Extras>,
    pub(super) gate_runners: Vec<(String, Vec<Runner>)>,
    pub(super) sign_in: Option<SignInCheck>,
    /// What the agent asks through, if it listens already.
    pub(super) server: Option<InsideServer>,
}

impl<'a> SupervisorParts<'a> {
    fn supervise(self, effects: Vec<Effect>, observer: &'a mut dyn Observer) -> Result<Finished, StartError> {
        let mut supervisor = self.supervisor(observer)?;
        supervisor.perform_all(effects)?;
        Ok(supervisor.supervise()?)
    }

    pub(super) fn supervisor(self, observer: &'a mut dyn Observer) -> Result<Supervisor<'a>, StartError> {
        let id = self.stream.id().clone();
        let Some(started) = self.stream.state().started.clone() else { return Err(StartError::Unknown(id)) };
        let listening = id.clone();
        Ok(Supervisor {
            // A process that holds the lock of a bus must not hold the loop.
            task_bus: Bus::open(self.home.task_bus(&started.project, &started.task)).with_patience(PATIENCE),
            project_bus: Bus::open(self.home.project_bus(&started.project)).with_patience(PATIENCE),
            started: Arc::clone(&started),
            home: self.home,
            store: self.store,
            id,
            stream: self.stream,
            _lock: self.lock,
            segments: self.segments,
            resident: None,
            keeper: self.keeper,
            links: self.workspace.as_ref().and_then(|workspace| {
                let parent = self.guard.places.parent.as_ref();
                workspace.links(parent.is_none_or(|parent| *parent == started.workspace))
            }),
            guard: self.guard,
            server: self.server.unwrap_or_else(|| InsideServer::listen(self.home, &listening)),
            watch: None,
            children: Default::default(),
            signals: self.signals,
            next_tick: observer.tick_every().map(|every| Instant::now() + every),
            workspace: self.workspace,
            folder: self.folder,
            kept: self.kept,
            hidden: Vec::new(),
            unhidden: Vec::new(),
            checkout: None,
            goalposts: self.goalposts,
            extras: self.extras,
            gate_runners: self.gate_runners,
            trial: None,
            removal: None,
            awaits_trial: None,
            observer,
            inbox: Default::default(),
            work: None,
            timers: Timers::default(),
            programs: self.programs,
            sign_in: self.sign_in,
            awaits_sign_in: false,
            signed_out: None,
            probes: None,
            awaited_accounts: Vec::new(),
            bus_mark: 0,
            next_stock: None,
            ended_for_memory: health::ended_for_memory(),
            inherited: crate::inside::child::environment(),
            buffer: vec![0; 256 * 1024],
            handed: None,
        })
    }
}

/// The tests of a loop that goes on, as they were when it began.
pub(super) fn reopen_goalposts(
    home: &Home,
    id: &LoopId,
    started: &LoopStarted,
    workspace: Option<&Workspace>,
) -> Result<Option<WatchedGoalposts>, StartError> {
    let (Some(seal), Some(workspace)) = (&started.goalposts, workspace) else { return Ok(None) };
    let list = goalposts_of(&home.runs(&started.project, &started.task), id);
    let root = workspace.root();
    let below = starting_point::below(root, &started.workspace);
    let path = crate::inside::child::variable("PATH");
    let known = (seal, &started.outside[..]);
    let (roots, path) = ((root, &*home.checkouts()), path.as_deref());
    let reopened = WatchedGoalposts::reopen(roots, &below, &started.policy, &list, known, path);
    let what = "cannot know the tests of the start again from";
    reopened.map(Some).map_err(|source| StartError::Io { what, path: list, source })
}

/// Where the list of a loop's goalposts is kept.
pub(super) fn goalposts_of(runs: &Path, id: &LoopId) -> PathBuf {
    runs.join(format!("{id}.goalposts.json"))
}

/// The task of a loop that was given none. The name without a suffix comes with its lock: two loops that start at once from
/// the same prompt both find the name free, and only one of them can lock it.
fn named_after_prompt(
    home: &Home,
    store: &Store,
    (project, prompt): (&ProjectId, Option<&str>),
    random: [u8; 4],
) -> Result<(TaskId, Option<TaskLock>), StartError> {
    // A name that could be the beginning of a loop's id, or of a unit, would be taken for it.
    let is_unused = |task: &TaskId| {
        !home.task_folder(project, task).exists()
            && store.with_prefix(task.as_str()).is_ok_and(|rows| rows.is_empty())
            && store.unit_view(None, task.as_str()).is_ok_and(|units| units.is_empty())
    };
    let mut lock = Ok(None);
    // The name of a folder.
    let words = secrets().redact(prompt.unwrap_or_default());
    let task = TaskId::for_prompt(&words, random, |task| {
        if !is_unused(task) {
            return false;
        }
        match TaskLock::take(&home.lock(project, task)) {
            // Another loop may have had the lock, and the name, since it was found unused.
            Ok(taken) if is_unused(task) => lock = Ok(Some(taken)),
            Ok(_) | Err(LockError::Held) => return false,
            Err(LockError::Io { path, source }) => {
                lock = Err(StartError::Io { what: "cannot lock", path, source });
            }
        }
        true
    });
    Ok((task, lock?))
}

/// The prompt that was given, else the one that the task's folder has kept.
fn read_prompt(given: Option<String>, folder: &Path, task: &TaskId) -> Result<String, StartError> {
    let prompt = match given {
        Some(prompt) => prompt,
        None => match fs::read_to_string(folder.join("TASK.md")) {
            Ok(text) => text,
            Err(_) => return Err(StartError::NoPrompt(task.clone())),
        },
    };
    if prompt.trim().is_empty() { Err(StartError::BlankPrompt) } else { Ok(prompt) }
}

/// Keeps the prompt in the task's folder. A crash leaves the old one or the new one, never half of one.
pub(super) fn write_task(folder: &Path, prompt: &str) -> io::Result<()> {
    let (fresh, task) = (folder.join(".TASK.md.new"), folder.join("TASK.md"));
    write_private(&fresh, prompt.as_bytes())?;
    fs::rename(fresh, task)
}

pub(super) fn listen(is_detached: bool) -> Result<Signals, StartError> {
    Signals::listen(is_detached)
        .map_err(|source| SuperviseError::Io { what: "cannot listen to signals", source }.into())
}

/// Begins to start the keeper of a loop: it gets ready while the loop is prepared.
pub(super) fn begin_keeper(home: &Home, id: &LoopId, guard: &Guard) -> Result<StartingKeeper, StartError> {
    guard.begin(home, id).map_err(cannot_start_keeper)
}

fn cannot_start_keeper(source: io::Error) -> StartError {
    SuperviseError::Io { what: "cannot start a keeper", source }.into()
}

/// Waits for the keeper of a loop whose agents work in a worktree that is `on` this, if they do, and does something else `meanwhile`.
pub(super) fn finish_keeper(
    starting: StartingKeeper,
    home: &Home,
    id: &LoopId,
    guard: &mut Guard,
    on: WorktreeIsOn<'_>,
    purpose: Option<&Purpose>,
    meanwhile: impl FnOnce(),
) -> Result<(KeeperLink, SandboxHeld), StartError> {
    if guard.judges {
        guard.give_checkouts(home, id.as_str());
    }
    let may_push = purpose.is_none_or(|purpose| purpose.step == PlanStep::Workflow);
    guard
        .give_own_refs(home, on, may_push)
        .map_err(|source| SuperviseError::Io { what: "cannot copy the repository's refs", source })?;
    let (keeper, held) = guard.finish(starting, home, id, meanwhile).map_err(cannot_start_keeper)?;
    if held.tier < SandboxTier::Namespaces {
        guard.take_own_refs();
    }
    Ok((keeper, held))
}

/// What the agent of a supervisor that was killed had committed is brought over before anything looks at the repository.
/// Says so if that cannot be done; the refs are kept then.
fn bring_over_left(home: &Home, started: &LoopStarted) -> Option<String> {
    let of_base = || started.base.as_ref().and_then(|base| base.branch.as_deref()).map(WorktreeIsOn::Branch);
    let on = started.sandbox.as_ref().and_then(worktree_of).or_else(of_base)?;
    let refs = OwnRefs::of(home, &started.workspace, on).filter(OwnRefs::is_there)?;
    let brought = refs.bring_over(|| Repository::find(&Git::find()?, &started.workspace, home));
    brought.err().map(|error| format!("what an agent committed before is on no branch: {error}"))
}

/// What the worktree of a loop was on whose agents had refs of their own.
fn worktree_of(held: &SandboxHeld) -> Option<WorktreeIsOn<'_>> {
    let no_branch = held.own_refs_at_commit.then_some(WorktreeIsOn::NoBranch);
    held.branch.as_deref().map(WorktreeIsOn::Branch).or(no_branch)
}

/// What is known of how a loop began.
fn started_of(store: &Store, id: &LoopId) -> Result<Option<Arc<LoopStarted>>, StartError> {
    Ok(Stream::<LoopMachine>::open(store, id)?.and_then(|its| its.state().started.clone()))
}

/// The sandbox of a loop that has begun.
pub(super) fn guard_of(home: &Home, started: &LoopStarted) -> Guard {
    let mut guard = Guard::of_loop(&started.policy, &started.workspace);
    guard.places.task_folder = Some(home.task_folder(&started.project, &started.task));
    guard
}

fn is_parent(pid: u32) -> bool {
    rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get().cast_unsigned() == pid)
}

pub(super) fn random() -> [u8; 24] {
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
