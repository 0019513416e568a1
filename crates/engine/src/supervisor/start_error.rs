//! Why a loop does not begin or go on.

use std::{io, path::PathBuf};

use dacapo_core::{
    ids::{LoopId, TaskId},
    judge::glob::GlobError,
    policy::PolicyProblem,
    view::LoopView,
};

use super::SuperviseError;
use crate::{git::WorkspaceError, home::HomeError, process::ProgramError, store::StoreError};

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
    #[error("task {task} is already run by {}", holder.as_ref().map_or("a dacapo that is just starting".to_owned(), |id| format!("loop {id}")))]
    TaskHeld {
        task: TaskId,
        /// Who runs it, once it is in the journal.
        holder: Option<LoopId>,
    },
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
    #[error("loop {id} is {state} and cannot be resumed")]
    NotResumable { id: LoopId, state: String },
    /// The workspace is in a state that nothing can be proven in.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
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
