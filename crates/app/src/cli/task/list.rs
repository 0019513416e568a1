//! `dacapo task list`.

use clap::Args;
use dacapo_core::stages::task::FOLDER;
use serde_json::Value;

use super::{
    super::{say, say_json},
    RepositoryTasks, TasksPlace, as_json,
};
use crate::error::UserError;

/// Show tasks, how far they are, and what they wait for
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo task list\n  dacapo task list --json")]
pub(super) struct TaskListArgs {
    #[command(flatten)]
    place: TasksPlace,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn list(args: &TaskListArgs) -> Result<u8, UserError> {
    let repository = RepositoryTasks::at(&args.place)?;
    repository.warn();
    let tasks = &repository.found.tasks;
    if args.json {
        return say_json(&tasks.iter().map(as_json).collect::<Vec<Value>>());
    }
    if tasks.is_empty() {
        say(format!("No tasks in `{FOLDER}`."));
        return Ok(0);
    }
    let mut rows = vec![["TASK", "STATUS", "DEPENDS ON", "TITLE"].map(str::to_owned)];
    for task in tasks {
        let depends_on: Vec<&str> = task.spec.depends_on.iter().map(|id| id.as_str()).collect();
        rows.push([
            task.spec.id.to_string(),
            task.status.to_string(),
            depends_on.join(", "),
            task.spec.title.clone(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (id, status, depends_on) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [a, b, c, d] in &rows {
        text.push_str(format!("{a:id$}  {b:status$}  {c:depends_on$}  {d}").trim_end());
        text.push('\n');
    }
    say(text.trim_end());
    Ok(0)
}
