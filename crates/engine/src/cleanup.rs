//! What is safe to remove: raw output of loops that ended for good and worktrees that are merged, never the journal.

use std::{fs, io, path::PathBuf};

use dacapo_core::ids::LoopId;
use jiff::Timestamp;

use crate::{
    home::Home,
    store::{Segments, Store, StoreError, Stream},
    workspace::{Git, Removal, Spent, WorkspaceError},
};

/// The output of one loop.
#[derive(Debug)]
pub struct OldOutput {
    /// Whose.
    pub loop_id: LoopId,
    /// How much.
    pub bytes: u64,
    files: Vec<PathBuf>,
}

impl OldOutput {
    /// Removes it.
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
        let mut files: Vec<PathBuf> = [Stream::Stdout, Stream::Stderr, Stream::Prompt, Stream::Gates]
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

/// Worktrees of units that nobody has touched since `before`, that are clean, merged, and in no loop's use. What is not
/// known to be all of that is not named.
pub fn old_worktrees(home: &Home, store: &Store, before: Timestamp) -> Result<Vec<Spent>, StoreError> {
    let mut used: Vec<PathBuf> = store.active()?.into_iter().map(|row| row.view.workspace).collect();
    // Between two loops of a unit there is none.
    for run in store.active_runs()? {
        used.extend(store.units_of_run(&run.view.id)?.into_iter().filter_map(|unit| unit.worktree));
    }
    let Ok(git) = Git::find() else { return Ok(Vec::new()) };
    let below = |folder: PathBuf| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
    };
    let mut old: Vec<Spent> = below(home.path().join("worktrees"))
        .flat_map(below)
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| !used.iter().any(|dir| dir.starts_with(path)))
        .filter_map(|path| Spent::at(&git, home, &path, before.into()))
        .collect();
    old.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(old)
}

/// Removes such a worktree and its branch, if that is still safe.
pub fn remove_worktree(home: &Home, worktree: &Spent) -> Result<Removal, WorkspaceError> {
    worktree.remove(&Git::find()?, home)
}
