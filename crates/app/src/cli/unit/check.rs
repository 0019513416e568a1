//! `dacapo unit check`.

use clap::Args;
use dacapo_core::text::count;

use super::{
    super::{say, say_json, warn},
    RepositoryUnits, UnitsPlace,
};
use crate::error::{USAGE, UserError};

/// Say everything that is wrong with task files and plans
///
/// Each problem has its place, the line, and what to do about it. The exit code is 2 if there is any.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo unit check")]
pub(super) struct UnitCheckArgs {
    #[command(flatten)]
    place: UnitsPlace,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn check(args: &UnitCheckArgs) -> Result<u8, UserError> {
    let found = RepositoryUnits::at(&args.place)?;
    let problems = &found.checked.problems;
    if args.json {
        say_json(problems)?;
        return Ok(if problems.is_empty() { 0 } else { USAGE });
    }
    warn(&found.checked.notes);
    let number = |n: usize, thing: &str| count(u32::try_from(n).unwrap_or(u32::MAX), thing);
    if !problems.is_empty() {
        let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
        say(text.join("\n"));
        return Err(UserError::usage(format!("{} in `{}`", number(problems.len(), "problem"), found.dir)));
    }
    let units = &found.checked.units;
    let tasks = units.iter().map(|unit| unit.tasks.len()).sum();
    say(format!("{}, {}: no problems", number(units.len(), "unit"), number(tasks, "task")));
    Ok(0)
}
