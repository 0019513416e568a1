//! A worktree for a step that has one of its own: made with the files of the workspace as they are, and merged back into them.
//!
//! HEAD of the worktree is HEAD of the workspace, and what was not committed there is not committed here. What comes back are
//! files: the workspace has them as changes, and its HEAD and index stay. Commits that were made in the worktree are kept on a
//! branch, `dacapo/RUN/STEP`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use dacapo_core::{
    ids::{LoopId, ProjectId, RunId},
    workflow::StepId,
};
use serde::{Deserialize, Serialize};

use crate::{
    git::WorkspaceError,
    home::{Home, make_dir, write_private},
    proof::fresh_id,
    repository::{Merged, Repository},
    snapshots::Workspace,
};

/// The worktrees of one run.
pub(super) struct StepWorktrees<'a> {
    pub(super) home: &'a Home,
    pub(super) run: &'a RunId,
    pub(super) project: &'a ProjectId,
    /// The folder that the other steps work in.
    pub(super) root: &'a Path,
    /// The filters of git when the run began: no agent has set them up.
    pub(super) filters: Option<&'a Vec<(String, String)>>,
}

/// What a worktree was made from. It is written down, because the process that merges it may be another one.
#[derive(Serialize, Deserialize)]
struct Origin {
    path: PathBuf,
    /// The snapshot of the workspace that its files are from.
    snapshot: String,
    /// HEAD of the workspace when the worktree was made.
    head: String,
}

/// Why a step has no worktree, or why what it changed there cannot be merged.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorktreeError {
    #[error("a worktree needs a repository with a commit")]
    NoCommit,
    #[error(
        "it cannot be merged: {} changed here and in the workspace; its worktree is {}",
        list(paths),
        worktree.display()
    )]
    Conflict { paths: Vec<String>, worktree: PathBuf },
    #[error("its worktree is gone")]
    Gone,
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("cannot keep where its worktree is: {0}")]
    Io(#[from] io::Error),
}

fn list(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().take(5).map(|path| format!("`{path}`")).collect();
    let more = paths.len() - shown.len();
    let rest = if more > 0 { format!(" and {more} more files") } else { String::new() };
    format!("{}{rest} {}", shown.join(", "), if paths.len() == 1 { "was" } else { "were" })
}

impl StepWorktrees<'_> {
    fn record(&self, step: &StepId) -> PathBuf {
        self.folder().join(format!("{step}.json"))
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("workflows").join(self.run.as_str())
    }

    fn origin(&self, step: &StepId) -> Option<Origin> {
        let text = fs::read(self.record(step)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The snapshots of the run's own folder, which has at least one then.
    fn workspace(&self) -> Result<Workspace, WorktreeError> {
        let name = self.run.as_str().parse::<LoopId>().map_err(io::Error::other)?;
        let mut workspace = Workspace::open(self.root, self.home, &name)?;
        workspace.hold_filters(self.filters.cloned());
        workspace.begin()?;
        Ok(workspace)
    }

    /// Where a step works that goes on.
    pub(super) fn known(&self, step: &StepId) -> Result<PathBuf, WorktreeError> {
        let origin = self.origin(step).ok_or(WorktreeError::Gone)?;
        if origin.path.is_dir() { Ok(origin.path) } else { Err(WorktreeError::Gone) }
    }

    /// A fresh worktree for a step, with the files of the workspace. One of an earlier attempt goes.
    pub(super) fn make(&self, step: &StepId) -> Result<PathBuf, WorktreeError> {
        let mut workspace = self.workspace()?;
        let snapshot = workspace.snapshot(0)?.id;
        let tree = workspace.tree_of(&snapshot)?;
        let repository = Repository::open(self.root, self.home)?;
        let head = workspace.head()?.ok_or(WorktreeError::NoCommit)?;
        let worktree = repository.scratch(self.project, &format!("{}-{step}", self.run), &head)?;
        repository.lay_out(&worktree, &tree)?;
        let origin = Origin { path: worktree.keep(), snapshot, head };
        make_dir(&self.folder())?;
        write_private(&self.record(step), &serde_json::to_vec(&origin).map_err(io::Error::from)?)?;
        Ok(origin.path)
    }

    /// Brings what a step has changed into the workspace, and removes its worktree. Done again after a crash, it finds that
    /// the changes are there already.
    pub(super) fn merge(&self, step: &StepId) -> Result<(), WorktreeError> {
        let Some(origin) = self.origin(step) else {
            // A merge that came to its end just before a crash has removed its record.
            return Ok(());
        };
        let repository = Repository::open(self.root, self.home)?;
        if !origin.path.is_dir() {
            return Err(WorktreeError::Gone);
        }
        let name = fresh_id()?.as_str().parse::<LoopId>().map_err(io::Error::other)?;
        let mut worktree = Workspace::open(&origin.path, self.home, &name)?;
        worktree.hold_filters(self.filters.cloned());
        let theirs = worktree.begin()?.id;
        let tree = worktree.tree_of(&theirs)?;
        let head = worktree.head()?;
        let mut workspace = self.workspace()?;
        let ours = workspace.snapshot(0)?.id;
        let changed = repository.commit_on(&tree, &origin.snapshot, &format!("dacapo step {step}"))?;
        let merged = repository.merge(&ours, &changed);
        worktree.forget()?;
        match merged? {
            Merged::Nothing => {}
            Merged::Clean { tree } => {
                workspace.restore(&tree, 0)?;
            }
            Merged::Conflict { paths, .. } => {
                return Err(WorktreeError::Conflict { paths, worktree: origin.path });
            }
        }
        if let Some(head) = head.filter(|head| *head != origin.head) {
            repository.swap(&format!("dacapo/{}/{step}", self.run), &head, None)?;
        }
        fs::remove_file(self.record(step))?;
        repository.discard_scratch(&origin.path)?;
        Ok(())
    }

    /// Forgets what is known of worktrees, at the end of a run. One whose work was not merged stays where it is.
    pub(super) fn forget(&self) {
        let _ = fs::remove_dir_all(self.folder());
    }
}
