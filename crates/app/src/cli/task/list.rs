//! `dacapo task list`.

use clap::Args;
use dacapo_core::stages::task::FOLDER;
use serde_json::Value;

use super::{
    super::{say, say_json},
    KnownTask, RepositoryTasks, TaskRuns, TasksPlace, as_json,
};
use crate::{context::Context, error::UserError};

/// Show tasks, how far they are, and what they wait for
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo task list\n  dacapo task list --json")]
pub(super) struct TaskListArgs {
    #[command(flatten)]
    place: TasksPlace,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn list(cx: &Context, args: &TaskListArgs) -> Result<u8, UserError> {
    let repository = RepositoryTasks::at(&args.place)?;
    repository.warn();
    let tasks = &repository.found.tasks;
    let runs = TaskRuns::at(cx, &args.place)?;
    if args.json {
        return say_json(&tasks.iter().map(|task| as_json(&runs.of(task, tasks))).collect::<Vec<Value>>());
    }
    if tasks.is_empty() {
        let problems = &repository.found.problems;
        let which = if problems.is_empty() { "No tasks" } else { "No task that can be read" };
        say(format!("{which} in `{FOLDER}`."));
        return Ok(0);
    }
    let mut rows = vec![["TASK", "STATUS", "DEPENDS ON", "TITLE"].map(str::to_owned)];
    for task in tasks {
        let depends_on: Vec<&str> = task.spec.depends_on.iter().map(|id| id.as_str()).collect();
        rows.push([
            task.spec.id.to_string(),
            status_words(&runs.of(task, tasks)),
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

/// How far a task is, and where in the stage that it is in.
fn status_words(known: &KnownTask<'_>) -> String {
    let (status, state) = (known.status(), known.state());
    if let Some(ralph) = known.ralph() {
        let state = if state == "running" { String::new() } else { format!(", {state}") };
        format!("{status} ({} {}/{}{state})", ralph.stage, ralph.iteration, ralph.max_iterations)
    } else if let Some(question) = known.question() {
        format!("{status} ({} asks)", question.stage)
    } else if let Some(failure) = known.failure().filter(|_| state != "cancelled") {
        format!("{status} ({} failed)", failure.stage)
    } else {
        match state {
            "done" if known.is_unproven() => format!("{status} (not proven)"),
            "waiting" => format!("{status} (waits)"),
            "merging" | "paused" | "cancelled" => format!("{status} ({state})"),
            "stopped" if known.run.is_some_and(|run| run.is_merging) => format!("{status} (merge stopped)"),
            "stopped" => format!("{status} (stopped)"),
            _ => status.to_string(),
        }
    }
}
