//! What must hold before a loop starts: its programs exist, its task is free, no tasks wait for each other, and no setting
//! holds a secret; else why it does not start.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dacapo_core::{
    agent::AgentCommandError,
    event::Reason,
    ids::{LoopId, ProjectId, TaskId},
    judge::glob::GlobError,
    policy::{Policy, PolicyProblem},
    secrets::Secrets,
    view::LoopView,
};

use super::{SuperviseError, start::NewLoop};
use crate::{
    git::WorkspaceError,
    health,
    home::{Home, HomeError},
    process::{ProgramError, Programs},
    secrets::secrets,
    store::{LockError, LoopRow, Store, StoreError, TaskLock},
};

/// How deep loops may start loops.
pub(super) const DEEPEST: u32 = 3;

/// Why a loop does not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Policy(#[from] PolicyProblem),
    #[error("there is no prompt: none was given, and task {0} has no TASK.md")]
    NoPrompt(TaskId),
    #[error("the prompt is blank")]
    BlankPrompt,
    /// The prompt cannot reach an agent.
    #[error(transparent)]
    Prompt(#[from] AgentCommandError),
    #[error("task {task} is already run by {}", holder.as_ref().map_or("a dacapo that is just starting".to_owned(), |id| format!("loop {id}")))]
    TaskHeld {
        task: TaskId,
        /// Who runs it, once it is in the journal.
        holder: Option<LoopId>,
    },
    /// An agent asks for a loop of a task that is not its own.
    #[error("task {0} is the user's: a loop that an agent starts has a task of its own")]
    TaskOfUser(TaskId),
    #[error("loop {holder} (task {task}) works in `{}`", workspace.display())]
    WorkspaceHeld { holder: LoopId, task: TaskId, workspace: PathBuf },
    #[error("tasks would wait for each other: {0}")]
    Cycle(String),
    #[error("a loop inside a loop inside a loop: at most {DEEPEST} may be nested")]
    TooDeep,
    /// A child without the supervisor that started it.
    #[error(
        "no child of loop {0} is started here: its supervisor has ended, or is not the one that started this"
    )]
    ParentGone(LoopId),
    #[error("there is no loop {0}")]
    Unknown(LoopId),
    /// Its agent is the host of a session, which no supervisor can start.
    #[error("loop {0} lives in a chat session, and its host goes on with it")]
    InSession(LoopId),
    #[error("loop {id} is {state} and cannot be resumed")]
    NotResumable { id: LoopId, state: String },
    /// The workspace is in a state that nothing can be proven in.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A pattern that matches no file and is not said to be optional.
    #[error("the pattern `{0}` protects nothing: no file matches it")]
    ProtectsNothing(String),
    #[error("--protect: {0}")]
    Glob(#[from] GlobError),
    /// dacapo was asked to commit where that is not possible.
    #[error("cannot commit for you: {0}")]
    NoCommit(&'static str),
    /// Settings are recorded, and a secret must not be.
    #[error("{0} holds a secret, and would be recorded with it")]
    Secret(String),
    #[error("{what} `{}`: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
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

/// How long the owner of a task may take from its lock to its first event before it goes unnamed.
const UNTIL_KNOWN: Duration = Duration::from_secs(2);

/// The programs of the agent and of its fallbacks. A fallback that is missing is an error only once it is needed.
///
/// A loop without iterations starts no agent and needs no program.
pub(super) fn find_agents(
    mut programs: Programs,
    policy: &Policy,
    iterations: u32,
) -> Result<Vec<PathBuf>, StartError> {
    if iterations == 0 {
        return Ok(Vec::new());
    }
    let name = |index| policy.agent.at(index).argv.first().map(String::as_str).unwrap_or_default();
    let own = programs.find(name(0))?;
    let others = (1..=policy.agent.fallback.len())
        .map(|index| programs.find(name(index)).unwrap_or_else(|_| name(index).into()));
    Ok(std::iter::once(own).chain(others).collect())
}

/// The lock of the task, or the error that names the loop that holds it.
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
            .find(|row| row.view.project == *project && row.view.task == *task && row.is_owned())
            .map(|row| row.view.id);
        if holder.is_some() || Instant::now() >= deadline {
            return Err(StartError::TaskHeld { task: task.clone(), holder });
        }
        // The process that has the lock will soon be in the journal, or give the lock back.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// `parent` and the loops above it.
pub(super) fn ancestors(store: &Store, parent: Option<&LoopRow>) -> Result<Vec<LoopId>, StartError> {
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

/// Whether an agent may give a loop this task, whose folder the loop's own agent can write: one that no loop had before, or that began
/// below the agent's own task. What the user has written for it is not replaced.
pub(super) fn check_task_of_agent(
    store: &Store,
    (project, task): (&ProjectId, &TaskId),
    ancestors: &[LoopId],
    replaces_words: bool,
) -> Result<(), StartError> {
    let root_of = |chain: &[LoopId]| -> Result<Option<(ProjectId, TaskId)>, StartError> {
        let root = chain.last().map(|id| store.row(id)).transpose()?.flatten();
        Ok(root.map(|row| (row.view.project, row.view.task)))
    };
    let first = store.loops_of_task(project, task.as_str())?.into_iter().next();
    let is_own = match &first {
        Some(first) => root_of(&self::ancestors(store, Some(first))?)? == root_of(ancestors)?,
        None => !replaces_words,
    };
    if is_own { Ok(()) } else { Err(StartError::TaskOfUser(task.clone())) }
}

/// A warning for each running loop in the same folder that is no ancestor or sibling. Whether it may work there at all is
/// decided in the transaction that records the loop.
pub(super) fn neighbours(
    store: &Store,
    workspace: &Path,
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

/// A warning for each file system that has so little room left that a loop would soon fill it, and for a state folder whose file
/// system may have neither locks nor syncs.
pub(super) fn doubtful_disks(home: &Home, workspace: &Path) -> Vec<String> {
    let mut rooms = Vec::new();
    for (what, path) in [("dacapo's state", home.path()), ("the workspace", workspace)] {
        // What cannot be told is no reason to warn.
        if let Ok(room) = health::room(path)
            && !rooms.iter().any(|(_, _, known): &(_, _, health::Room)| known.device == room.device)
        {
            rooms.push((what, path, room));
        }
    }
    let words = rooms.iter().filter_map(|(what, path, room)| Some((what, path, room.shortage()?)));
    let full = words.map(|(what, path, left)| {
        format!("the disk of {what} is nearly full: {left} at `{}`", path.display())
    });
    let served = health::served_elsewhere(home.path()).map(|kind| {
        let path = home.path().display();
        format!("dacapo's state at `{path}` is on {kind}, where locks and syncs may not hold; set DACAPO_HOME to a folder on a local disk")
    });
    full.chain(served).collect()
}

/// Refuses tasks that would wait for each other for ever (req 99).
pub(super) fn check_cycle(
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

impl NewLoop {
    /// The same loop, if its policy makes sense, none of its settings holds a secret, and its prompt can reach its agents.
    pub fn check(self) -> Result<CheckedLoop, StartError> {
        if let Some(problem) = self.policy.problems().into_iter().next() {
            return Err(problem.into());
        }
        refuse_secrets(&self)?;
        check_prompt(&self.policy, self.prompt.as_deref().unwrap_or_default())?;
        Ok(CheckedLoop(self))
    }
}

/// Refuses a prompt that is too long for the command line of an agent, or of one that takes its place at a limit.
pub(super) fn check_prompt(policy: &Policy, prompt: &str) -> Result<(), StartError> {
    if policy.limits.max_iterations == 0 {
        return Ok(());
    }
    (0..=policy.agent.fallback.len()).try_for_each(|index| policy.agent.at(index).takes(prompt))?;
    Ok(())
}

/// A loop that may begin as far as its settings go. [`NewLoop::check`] alone makes one, so that the command line can refuse
/// a loop before it goes to the background, and the supervisor need not look again.
#[derive(Clone, Debug)]
pub struct CheckedLoop(NewLoop);

impl CheckedLoop {
    pub fn into_inner(self) -> NewLoop {
        self.0
    }
}

impl std::ops::Deref for CheckedLoop {
    type Target = NewLoop;

    fn deref(&self) -> &NewLoop {
        &self.0
    }
}

/// Refuses settings that hold a secret: the journal would give it away, and a loop recorded without it could not be
/// resumed.
///
/// The name of a folder or task may by chance equal a password of the user, so it is refused only if it looks like a token.
fn refuse_secrets(new: &NewLoop) -> Result<(), StartError> {
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

/// Refuses a policy that holds a secret.
pub fn refuse_secrets_in(policy: &Policy) -> Result<(), StartError> {
    match secrets().in_policy(policy) {
        Some(what) => Err(StartError::Secret(what)),
        None => Ok(()),
    }
}
