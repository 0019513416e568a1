//! `dacapo task confirm`.

use clap::Args;
use dacapo_core::{stages::StageTaskStatus, trust::taken_as_done};
use dacapo_engine::trust::{self, ConsentScope};
use jiff::Timestamp;

use super::{super::say, RepositoryTasks, TaskRuns, TasksPlace};
use crate::{context::Context, error::UserError};

/// Confirm that a task is done which dacapo has not run itself
///
/// A file can be written by any program, so dacapo believes `status: done` only if it has seen the task through its stages itself,
/// or if you say so. Until then tasks that depend on it do not begin. `dacapo trust --revoke` takes it back.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo task confirm TASK-001")]
pub(super) struct ConfirmArgs {
    /// The tasks: each by its id, or enough of its beginning
    #[arg(value_name = "ID", required = true)]
    tasks: Vec<String>,
    #[command(flatten)]
    place: TasksPlace,
}

pub(super) fn confirm(cx: &Context, args: &ConfirmArgs) -> Result<u8, UserError> {
    let root = args.place.root()?;
    let repository = RepositoryTasks::at(&args.place)?;
    let runs = TaskRuns::at(cx, &args.place)?;
    for name in &args.tasks {
        let task = repository.task(name)?;
        let known = runs.alone(task);
        let id = &task.spec.id;
        if known.status() != StageTaskStatus::Done {
            return Err(UserError::failed(format!("task {id} is `{}` and not done", known.status()))
                .hint(format!("`status: done` in `{}` says that it is", task.spec.file)));
        }
        if known.is_unproven() {
            trust::grant(&cx.home, &root, ConsentScope::Tasks, &[taken_as_done(task)], Timestamp::now())?;
        }
        say(format!("Task {id} counts as done."));
    }
    Ok(0)
}
