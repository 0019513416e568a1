//! The workspace as it was after each iteration: listing, putting back, forgetting.

use std::{fs, path::Path};

use dacapo_core::{
    event::{Base, Envelope, LoopEvent, LoopStarted, Reason},
    ids::LoopId,
    view::LoopView,
};
use jiff::Timestamp;

use super::{DiffForm, Workspace};
use crate::{
    git::WorkspaceError,
    home::Home,
    proof::repository_of,
    store::{Store, StoreError, TaskLock},
};

/// One kept state of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptSnapshot {
    /// After which iteration; 0 before the first.
    pub iteration: u32,
    pub id: String,
    pub at: Timestamp,
    /// How many paths differ from the one before; `None` where that can no longer be told.
    pub changed: Option<usize>,
}

/// The state of a workspace that is meant by the word behind the `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotChoice {
    /// After this iteration; 0 before the first.
    After(u32),
    /// As it was before the last restore.
    Undo,
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The snapshot that the files are now.
    pub id: String,
    /// Whether any file had to change.
    pub changed: bool,
}

/// Why the states of a workspace cannot be told or put back.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("loop {0} has no snapshots: it works in a plain folder, and nothing there had to be known")]
    None(LoopId),
    #[error(
        "loop {0} works in a plain folder: its files are known by their hashes only and cannot be put back"
    )]
    Plain(LoopId),
    #[error("loop {id} has no iteration {wanted}: it came to {last}")]
    NoIteration { id: LoopId, wanted: u32, last: u32 },
    #[error("nothing was restored in loop {0}, so there is nothing to undo")]
    NoUndo(LoopId),
    #[error("loop {holder} (task {task}) works in `{dir}`")]
    Held { holder: LoopId, task: String, dir: String },
    #[error("task {0} is being started or resumed by another dacapo")]
    Busy(String),
    #[error("the workspace `{0}` is gone")]
    Gone(String),
}

/// How a loop began.
pub(crate) fn started(history: &[Envelope]) -> Option<&LoopStarted> {
    history.iter().find_map(|envelope| match &envelope.event {
        LoopEvent::LoopStarted(started) => Some(&**started),
        _ => None,
    })
}

/// The workspace of a loop that has one.
pub(crate) fn open(home: &Home, id: &LoopId, dir: &Path) -> Result<Workspace, SnapshotError> {
    if !dir.is_dir() {
        return Err(SnapshotError::Gone(dir.display().to_string()));
    }
    Ok(Workspace::open(dir, home, id)?)
}

/// Iteration, snapshot and time, as the journal has them, each state once.
pub(super) fn recorded(history: &[Envelope], base: &Base) -> Vec<(u32, String, Timestamp)> {
    let mut all: Vec<(u32, String, Timestamp)> = Vec::new();
    for envelope in history {
        let (iteration, id) = match &envelope.event {
            LoopEvent::LoopStarted(_) => (0, &base.snapshot),
            LoopEvent::SnapshotTaken { iteration, id, .. } => (*iteration, id),
            LoopEvent::ClaimExamined { iteration, found } => (*iteration, &found.snapshot),
            _ => continue,
        };
        if all.last().is_none_or(|(_, last, _)| last != id) {
            all.push((iteration, id.clone(), envelope.at));
        }
    }
    all
}

/// The states that were kept of a loop's workspace, oldest first.
pub fn list(home: &Home, store: &Store, id: &LoopId) -> Result<Vec<KeptSnapshot>, SnapshotError> {
    let history = store.events(id, 0)?;
    let Some((started, base)) = started(&history).and_then(|s| Some((s, s.base.as_ref()?))) else {
        return Err(SnapshotError::None(id.clone()));
    };
    let workspace = open(home, id, &repository_of(store, started)?).ok();
    let mut before: Option<String> = None;
    Ok(recorded(&history, base)
        .into_iter()
        .map(|(iteration, snapshot, at)| {
            let changed = match (&before, &workspace) {
                (None, _) => Some(0),
                (Some(before), Some(workspace)) => {
                    workspace.changes(before, &snapshot).ok().map(|changes| changes.len())
                }
                (Some(_), None) => None,
            };
            before = Some(snapshot.clone());
            KeptSnapshot { iteration, id: snapshot, at, changed }
        })
        .collect())
}

/// The paths that differ between the first and the last kept state of a loop's workspace.
pub fn changed_paths(home: &Home, store: &Store, id: &LoopId) -> Result<Vec<String>, SnapshotError> {
    let history = store.events(id, 0)?;
    let Some((started, base)) = started(&history).and_then(|s| Some((s, s.base.as_ref()?))) else {
        return Err(SnapshotError::None(id.clone()));
    };
    let recorded = recorded(&history, base);
    let Some((_, last, _)) = recorded.last().filter(|(_, last, _)| *last != base.snapshot) else {
        return Ok(Vec::new());
    };
    let workspace = open(home, id, &started.workspace)?;
    let changes = workspace.changes(&base.snapshot, last)?;
    Ok(changes.iter().map(|change| String::from_utf8_lossy(&change.path).into_owned()).collect())
}

/// What a loop has to show for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDone {
    /// The files that it changed, as `git diff --stat` lists them.
    pub stat: String,
    /// Whether the newest commit of the workspace holds them as they are.
    pub is_committed: bool,
}

/// What a loop has changed; `None` if that is nothing.
pub fn work_done(
    home: &Home,
    store: &Store,
    id: &LoopId,
    columns: usize,
) -> Result<Option<WorkDone>, SnapshotError> {
    let history = store.events(id, 0)?;
    let (workspace, states) = states(home, store, id, &history)?;
    let (Some((_, base, _)), Some((_, last, _))) = (states.first(), states.last()) else { return Ok(None) };
    if base == last {
        return Ok(None);
    }
    let stat = workspace.difference(base, last, DiffForm::Stat { columns })?;
    if stat.is_empty() {
        return Ok(None);
    }
    let tree = workspace.tree_of(last)?;
    let is_committed = workspace.head_and_tree()?.is_some_and(|(_, head)| head == tree);
    Ok(Some(WorkDone { stat: String::from_utf8_lossy(&stat).into_owned(), is_committed }))
}

/// What a loop has changed, or its iteration `iteration` alone, as git prints it.
pub fn difference(
    home: &Home,
    store: &Store,
    view: &LoopView,
    iteration: Option<u32>,
    form: DiffForm,
) -> Result<Vec<u8>, SnapshotError> {
    let id = &view.id;
    let history = store.events(id, 0)?;
    let (workspace, states) = states(home, store, id, &history)?;
    if let Some(wanted) = iteration.filter(|wanted| *wanted == 0 || *wanted > view.iteration) {
        return Err(SnapshotError::NoIteration { id: id.clone(), wanted, last: view.iteration });
    }
    let at = |most: u32| states.iter().rev().find(|(iteration, ..)| *iteration <= most).map(|(_, id, _)| id);
    let (from, to) = match iteration {
        Some(wanted) => (at(wanted - 1), at(wanted)),
        None => (at(0), at(u32::MAX)),
    };
    match (from, to) {
        (Some(from), Some(to)) if from != to => Ok(workspace.difference(from, to, form)?),
        _ => Ok(Vec::new()),
    }
}

/// The workspace of a loop in a git repository, and the states of it that were kept.
#[allow(clippy::type_complexity)]
fn states(
    home: &Home,
    store: &Store,
    id: &LoopId,
    history: &[Envelope],
) -> Result<(Workspace, Vec<(u32, String, Timestamp)>), SnapshotError> {
    let Some((started, base)) = started(history).and_then(|s| Some((s, s.base.as_ref()?))) else {
        return Err(SnapshotError::None(id.clone()));
    };
    if !base.is_git {
        return Err(SnapshotError::Plain(id.clone()));
    }
    Ok((open(home, id, &repository_of(store, started)?)?, recorded(history, base)))
}

/// The tree of the files as they are now, in the workspace of a loop that nothing works on; `None` where something does, or where
/// only hashes are kept.
pub fn tree_now(home: &Home, store: &Store, view: &LoopView) -> Result<Option<String>, SnapshotError> {
    let id = &view.id;
    let history = store.events(id, 0)?;
    let Some((started, base)) = started(&history).and_then(|s| Some((s, s.base.as_ref()?))) else {
        return Err(SnapshotError::None(id.clone()));
    };
    let Ok(_lock) = TaskLock::take(&home.lock(&view.project, &view.task)) else { return Ok(None) };
    if !base.is_git {
        return Ok(None);
    }
    let mut workspace = open(home, id, &started.workspace)?;
    workspace.begin()?;
    let now = workspace.snapshot(view.iteration.into())?;
    Ok(Some(workspace.tree_of(&now.id)?))
}

/// Makes the files of a loop's workspace what they were. What they are now can be had back by [`SnapshotChoice::Undo`].
pub fn restore(
    home: &Home,
    store: &Store,
    view: &LoopView,
    which: SnapshotChoice,
) -> Result<Restored, SnapshotError> {
    let id = &view.id;
    let history = store.events(id, 0)?;
    let Some((started, base)) = started(&history).and_then(|s| Some((s, s.base.as_ref()?))) else {
        return Err(SnapshotError::None(id.clone()));
    };
    if !base.is_git {
        return Err(SnapshotError::Plain(id.clone()));
    }
    let mut workspace = open(home, id, &started.workspace)?;
    let root = workspace.root().to_owned();
    let holder = store.active()?.into_iter().find(|row| {
        let dir = &row.view.workspace;
        row.is_running() && (dir.starts_with(&root) || root.starts_with(dir))
    });
    if let Some(row) = holder {
        return Err(SnapshotError::Held {
            holder: row.view.id,
            task: row.view.task.to_string(),
            dir: row.view.workspace.display().to_string(),
        });
    }
    let _lock = TaskLock::take(&home.lock(&view.project, &view.task))
        .map_err(|_| SnapshotError::Busy(view.task.to_string()))?;
    let wanted = match which {
        SnapshotChoice::Undo => {
            let name = format!("refs/dacapo/{id}-undo");
            let undo = workspace.refs()?.into_iter().find(|reference| reference.name == name);
            undo.ok_or_else(|| SnapshotError::NoUndo(id.clone()))?.id
        }
        SnapshotChoice::After(wanted) if wanted > view.iteration => {
            return Err(SnapshotError::NoIteration { id: id.clone(), wanted, last: view.iteration });
        }
        SnapshotChoice::After(wanted) => {
            let upto = recorded(&history, base).into_iter().filter(|(iteration, ..)| *iteration <= wanted);
            upto.max_by_key(|(iteration, ..)| *iteration)
                .map_or_else(|| base.snapshot.clone(), |(_, id, _)| id)
        }
    };
    let restored = workspace.restore(&wanted, view.iteration.into())?;
    Ok(Restored { id: wanted, changed: restored.changed })
}

/// Loops whose snapshots can be forgotten: completed or cancelled before what `before` says for their workspace, and without
/// a receipt. Where it says nothing they stay.
pub fn list_forgettable(
    home: &Home,
    store: &Store,
    mut before: impl FnMut(&Path) -> Option<Timestamp>,
) -> Result<Vec<LoopId>, StoreError> {
    let mut old = Vec::new();
    for row in store.recent(u32::MAX)? {
        let view = row.view;
        let is_final = matches!(view.reason, Some(Reason::Done | Reason::Cancelled));
        if !is_final || !home.path().join("shadow").join(view.id.as_str()).is_dir() {
            continue;
        }
        let (Some(ended), Some(before)) = (view.ended_at, before(&view.workspace)) else { continue };
        if ended >= before {
            continue;
        }
        if crate::proof::receipt(store, &view.id)?.is_none() {
            old.push(view.id);
        }
    }
    Ok(old)
}

/// Forgets the snapshots of a loop; what is left of a workspace that is gone, too.
pub fn forget(home: &Home, store: &Store, id: &LoopId) -> Result<(), SnapshotError> {
    let dir = store.row(id)?.map(|row| row.view.workspace);
    match dir.filter(|dir| dir.is_dir()) {
        Some(dir) => Ok(open(home, id, &dir)?.forget()?),
        None => {
            let _ = fs::remove_dir_all(home.path().join("shadow").join(id.as_str()));
            Ok(())
        }
    }
}
