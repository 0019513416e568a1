//! `dacapo task check`.

use clap::Args;
use dacapo_core::{config::Typed, text::count};
use dacapo_engine::config_files::ConfigFiles;
use serde_json::json;

use super::{
    super::{say, say_json},
    RepositoryTasks, TasksPlace,
};
use crate::error::{USAGE, UserError};

/// Say everything that is wrong with task files and stages
///
/// Each problem has its place, the line, and what to do about it. The exit code is 2 if there is any.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo task check\n  dacapo task check --json")]
pub(super) struct TaskCheckArgs {
    #[command(flatten)]
    place: TasksPlace,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn check(args: &TaskCheckArgs) -> Result<u8, UserError> {
    let found = RepositoryTasks::at(&args.place)?.found;
    let effective = ConfigFiles::load(&args.place.root()?)?.effective(&Typed::default());
    let of_stages = effective.stages.problem();
    let number = found.problems.len() + usize::from(of_stages.is_some());
    if args.json {
        say_json(&json!({
            "tasks": found.tasks.len(),
            "problems": found.problems,
            "stages": of_stages,
        }))?;
        return Ok(if number == 0 { 0 } else { USAGE });
    }
    let words = |n: usize, thing: &str| count(u32::try_from(n).unwrap_or(u32::MAX), thing);
    if number == 0 {
        say(format!("{}: no problems", words(found.tasks.len(), "task")));
        return Ok(0);
    }
    let problems = found.problems.iter().map(ToString::to_string);
    let text: Vec<String> = problems.chain(of_stages.map(|what| format!("configuration: {what}"))).collect();
    say(text.join("\n"));
    Err(UserError::usage(format!("{} in tasks and stages", words(number, "problem"))))
}
