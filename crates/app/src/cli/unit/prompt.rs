//! `dacapo unit prompt`.

use clap::Args;
use dacapo_core::{
    ids::UnitId,
    unit::{
        TaskSet,
        graph::{TasksStanding, not_ready, standing},
        prompt::turn,
    },
};
use serde::Serialize;

use super::{
    super::{say_json, say_whole, value, warn},
    RepositoryUnits, UnitsPlace,
};
use crate::error::UserError;

/// Print what an agent would be told about a unit
///
/// That is all tasks of the unit that are ready, of which the agent completes one. What a loop adds to every prompt is
/// not part of it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo unit prompt app-shell\n  dacapo unit prompt app-shell --task 2")]
pub(super) struct PromptArgs {
    /// The unit, by its name
    unit: String,
    /// Only this task, ready or not
    #[arg(long, value_name = "N", value_parser = value::at_least_one, allow_hyphen_values = true)]
    task: Option<u32>,
    #[command(flatten)]
    place: UnitsPlace,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A prompt, for scripts.
#[derive(Serialize)]
struct PromptJson<'a> {
    unit: &'a UnitId,
    tasks: &'a [u32],
    prompt: &'a str,
}

pub(super) fn prompt(args: &PromptArgs) -> Result<u8, UserError> {
    let found = RepositoryUnits::at(&args.place)?;
    let unit = found.unit(&args.unit)?;
    let ready = match args.task {
        Some(number) if unit.tasks.iter().any(|task| task.spec.number == number) => {
            if let Some(why) = not_ready(&unit.tasks, number) {
                warn(&[format!("task #{number} is not ready: {why}")]);
            }
            vec![number]
        }
        Some(number) => {
            let what = format!("unit `{}` has no task {number}", unit.id);
            return Err(UserError::usage(what).hint("`dacapo unit list --json` shows its tasks"));
        }
        None => match standing(&unit.tasks) {
            TasksStanding::Ready(ready) => ready,
            TasksStanding::AllComplete => return Err(none(&unit.id, "all are complete")),
            TasksStanding::SomeFailed(failed) => {
                return Err(none(&unit.id, &format!("{} failed", numbers(&failed))));
            }
            TasksStanding::Stuck(open) => {
                let why = format!("{} wait for each other, or for what is not there", numbers(&open));
                return Err(none(&unit.id, &why));
            }
        },
    };
    let set = TaskSet { unit: unit.id.clone(), tasks: unit.tasks.clone(), ready };
    let text = turn(&set);
    if args.json {
        return say_json(&PromptJson { unit: &set.unit, tasks: &set.ready, prompt: &text });
    }
    say_whole(text.trim_end());
    Ok(0)
}

fn none(unit: &UnitId, why: &str) -> UserError {
    UserError::failed(format!("no task of unit `{unit}` is ready: {why}"))
        .hint("`--task N` prints the prompt of any task")
}

fn numbers(numbers: &[u32]) -> String {
    let numbers: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
    numbers.join(", ")
}
