//! `dacapo task show`.

use clap::Args;
use dacapo_core::{
    ids::TaskId,
    text::{count, visible::visible},
};
use serde_json::json;

use super::{
    super::{say, say_json},
    RepositoryTasks, TaskRuns, TasksPlace, as_json,
};
use crate::{context::Context, error::UserError};

/// Show a task: how far it is, what it waits for, and what is to be done
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo task show TASK-001\n  dacapo task show TASK-001 --json")]
pub(super) struct ShowArgs {
    /// The task: its id, or enough of its beginning
    #[arg(value_name = "ID")]
    task: String,
    #[command(flatten)]
    place: TasksPlace,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn show(cx: &Context, args: &ShowArgs) -> Result<u8, UserError> {
    let repository = RepositoryTasks::at(&args.place)?;
    let task = repository.task(&args.task)?;
    let runs = TaskRuns::at(cx, &args.place)?;
    let known = runs.of(task, &repository.found.tasks);
    let spec = &task.spec;
    if args.json {
        let mut value = as_json(&known);
        value["writes"] = json!(spec.writes);
        value["completion"] = json!(spec.completion);
        value["specification"] = json!(spec.specification);
        return say_json(&value);
    }
    // The lines below the first are set below it.
    let line = |name: &str, value: &str| {
        let value = visible(value.trim_end()).replace('\n', "\n             ");
        say(format!("{name:<12} {value}"));
    };
    line("task", spec.id.as_str());
    line("title", &spec.title);
    match known.is_unproven() {
        true => line(
            "status",
            "done (not proven: no finished run of it is recorded; `dacapo task confirm` says that it is done)",
        ),
        false => line("status", known.status().as_str()),
    }
    if let Some(ralph) = known.ralph() {
        line("stage", &format!("{}, iteration {}/{}", ralph.stage, ralph.iteration, ralph.max_iterations));
    }
    if let Some(question) = known.question() {
        line("asks", &format!("{}: {}", question.stage, question.text));
    } else if let Some(failure) = known.failure() {
        let used = count(failure.iterations_used, "iteration");
        let word = if known.state() == "cancelled" { "cancelled" } else { "failed" };
        line(word, &format!("{} after {used}: {}", failure.stage, failure.reason));
    }
    if let Some(run) = known.run {
        line("run", &format!("{} ({})", run.id, run.state));
    }
    if !spec.depends_on.is_empty() {
        let all = repository.found.tasks.iter();
        let standing = |id: &TaskId| {
            all.clone().find(|known| known.spec.id == *id).map(|known| runs.alone(known).status().as_str())
        };
        let words = spec.depends_on.iter().map(|id| format!("{id} ({})", standing(id).unwrap_or("unknown")));
        line("depends on", &words.collect::<Vec<_>>().join(", "));
    }
    line("file", &spec.file);
    match known.run.and_then(|run| run.commit.as_ref()).filter(|_| known.state() == "done") {
        // Its branch is gone.
        Some(commit) => line("commit", commit),
        None => line("branch", &spec.branch()),
    }
    if let Some(outcome) = &spec.completion.outcome {
        line("outcome", outcome);
    }
    for criterion in &spec.completion.criteria {
        line("criterion", criterion);
    }
    for command in spec.completion.commands() {
        line("verified by", command);
    }
    say(format!("\n{}", visible(&spec.specification)));
    Ok(0)
}
