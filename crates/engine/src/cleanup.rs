//! What is safe to remove: raw output of loops that ended for good and worktrees that are merged, never the journal.

use std::{collections::HashMap, fs, io, path::PathBuf};

use dacapo_core::{
    ids::{LoopId, RunId, UnitId},
    view::UnitStatus,
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    git::{Git, WorkspaceError},
    home::Home,
    repository::{FinishedWorktree, WorktreeRemoval},
    store::{Channel, RunRow, Segments, Store, StoreError},
    units,
};

/// The output of one loop.
#[derive(Debug)]
pub struct OldOutput {
    pub loop_id: LoopId,
    pub bytes: u64,
    files: Vec<PathBuf>,
}

impl OldOutput {
    pub fn remove(&self) -> io::Result<()> {
        for file in &self.files {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The output of loops that were completed or cancelled before `before`.
pub fn old_output(home: &Home, store: &Store, before: Timestamp) -> Result<Vec<OldOutput>, StoreError> {
    let mut old = Vec::new();
    for row in store.recent(u32::MAX)? {
        let view = row.view;
        let is_final = view.reason.is_some_and(|reason| !reason.is_resumable());
        if !is_final || view.ended_at.is_none_or(|ended| ended >= before) {
            continue;
        }
        let runs = home.runs(&view.project, &view.task);
        let mut files: Vec<PathBuf> = [Channel::Stdout, Channel::Stderr, Channel::Prompt, Channel::Gates]
            .into_iter()
            .map(|stream| Segments::path(&runs, &view.id, stream))
            .collect();
        files.push(runs.join(format!("{}.prompt.md", view.id)));
        files.retain(|file| file.is_file());
        if !files.is_empty() {
            let bytes =
                files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
            old.push(OldOutput { loop_id: view.id, bytes, files });
        }
    }
    Ok(old)
}

/// Worktrees of units in which no file has changed since `before`, that are clean, merged, and in no loop's use. What is not
/// known to be all of that is not named.
pub fn old_worktrees(
    home: &Home,
    store: &Store,
    before: Timestamp,
) -> Result<Vec<FinishedWorktree>, StoreError> {
    let used = used(store)?;
    let Ok(git) = Git::find() else { return Ok(Vec::new()) };
    let below = |folder: PathBuf| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
    };
    let mut old: Vec<FinishedWorktree> = below(home.path().join("worktrees"))
        .flat_map(below)
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| !used.iter().any(|dir| dir.starts_with(path)))
        .filter_map(|path| FinishedWorktree::at(&git, home, &path, before.into()))
        .collect();
    old.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(old)
}

/// The workspaces of running loops.
fn used(store: &Store) -> Result<Vec<PathBuf>, StoreError> {
    let mut used: Vec<PathBuf> = store.active()?.into_iter().map(|row| row.view.workspace).collect();
    // Between two loops of a unit there is none.
    for run in store.active_runs()? {
        used.extend(store.units_of_run(&run.view.id)?.into_iter().filter_map(|unit| unit.worktree));
    }
    Ok(used)
}

/// The worktree of a unit that was renamed or removed: no run will ever come back to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbandonedWorktree {
    pub unit: UnitId,
    pub path: PathBuf,
    pub branch: String,
    /// The top of its repository.
    pub root: PathBuf,
    /// The folder in there that units are in.
    pub units_dir: String,
}

/// Worktrees of units that are not in the checkout of their repository any more. A unit whose files cannot be understood
/// is there, and one whose repository is away is not looked for.
pub fn abandoned(store: &Store) -> Result<Vec<AbandonedWorktree>, StoreError> {
    let used = used(store)?;
    let mut places: HashMap<(PathBuf, String), Vec<UnitId>> = HashMap::new();
    let mut found = Vec::new();
    for view in store.unit_views(None)? {
        let (Some(path), Some(branch)) = (view.worktree, view.branch) else { continue };
        if !path.is_dir() || used.iter().any(|dir| dir.starts_with(&path)) {
            continue;
        }
        let Some(started) = store.run_started(&view.run)? else { continue };
        let (root, units_dir) = (started.root, started.settings.units_dir);
        if !root.is_dir() || root.join(&units_dir).join(view.unit.as_str()).is_dir() {
            continue;
        }
        let known = places.entry((root.clone(), units_dir.clone())).or_insert_with(|| {
            let checked = units::discover(&root, &units_dir).unwrap_or_default();
            checked.units.into_iter().map(|unit| unit.id).collect()
        });
        if !known.contains(&view.unit) {
            found.push(AbandonedWorktree { unit: view.unit, path, branch, root, units_dir });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The worktree of a step whose work could not be merged into the folder of its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnmergedWorktree {
    pub run: RunId,
    /// The name of the workflow.
    pub workflow: String,
    pub step: String,
    pub path: PathBuf,
    /// The folder of the run.
    pub root: PathBuf,
}

/// Worktrees of steps of workflows that are over. What such a run goes on with is another worktree.
pub fn unmerged_of_workflows(home: &Home, store: &Store) -> Result<Vec<UnmergedWorktree>, StoreError> {
    let folders =
        |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for path in folders(home.path().join("worktrees")).flat_map(folders) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((run, step)) = name.strip_prefix(".merge-").and_then(|name| name.split_once('-')) else {
            continue;
        };
        let Ok(run) = run.parse::<RunId>() else { continue };
        let Some(row) = store.workflow_row(&run)?.filter(|row| row.view.is_over && !row.is_running()) else {
            continue;
        };
        let (workflow, root, step) = (row.view.workflow, row.view.root, step.to_owned());
        found.push(UnmergedWorktree { run, workflow, step, path, root });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Branches of units that were merged before `before` and whose worktrees are gone, because a dacapo was killed between the two.
pub fn old_branches(
    home: &Home,
    store: &Store,
    before: Timestamp,
) -> Result<Vec<FinishedWorktree>, StoreError> {
    let Ok(git) = Git::find() else { return Ok(Vec::new()) };
    let running = store.active_runs()?.into_iter().filter(RunRow::is_running);
    let running: Vec<_> = running.map(|run| run.view.id).collect();
    let mut old = Vec::new();
    for unit in store.unit_views(None)? {
        let is_old = unit.ended_at.is_some_and(|ended| ended < before);
        let (UnitStatus::Merged, Some(path), Some(branch)) = (unit.status, unit.worktree, unit.branch) else {
            continue;
        };
        if !is_old || path.exists() || running.contains(&unit.run) {
            continue;
        }
        let Some(run) = store.run_row(&unit.run)? else { continue };
        old.extend(FinishedWorktree::branch_of(&git, home, &run.view.root, (path, branch, run.view.target)));
    }
    Ok(old)
}

/// Removes such a worktree and its branch, if that is still safe.
pub fn remove_worktree(home: &Home, worktree: &FinishedWorktree) -> Result<WorktreeRemoval, WorkspaceError> {
    worktree.remove(&Git::find()?, home)
}
