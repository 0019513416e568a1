//! `dacapo diff`.

use std::io::{IsTerminal, Write};

use clap::Args;
use dacapo_core::ids::{RunId, UnitId};
use dacapo_engine::{client::Client, snapshots::DiffForm};

use super::say;
use crate::{
    context::Context,
    error::UserError,
    report::{last_words, width},
};

/// Show what a loop or run has changed, or one iteration of a loop
///
/// Compares the kept states of its files, so it works while the loop runs, after it, and whether anything was committed or not.
/// Files that git ignores are not in them. Of a run it is the whole change, from the files that its first agent found to what was
/// merged or kept; what script steps do before the first agent and after the last is not in it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo diff\n  dacapo diff fix-tests@2\n  dacapo diff @3 --stat")]
pub(super) struct DiffArgs {
    /// The loop or run: its id, the beginning of it, its task or unit; `ID@N` is iteration N of a loop, `@N` of the default (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    #[arg(value_name = "ID[@N]")]
    what: Option<String>,
    /// A line for each file
    #[arg(long)]
    stat: bool,
}

pub(super) fn diff(cx: &Context, args: &DiffArgs) -> Result<u8, UserError> {
    let client = cx.client()?;
    let (id, iteration) = match args.what.as_deref().and_then(|what| what.rsplit_once('@')) {
        Some((id, number)) => {
            let number = number.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(|| {
                UserError::usage(format!("`@{number}` is no iteration"))
                    .hint("`ID@2` is what iteration 2 changed; `ID` alone is all that the loop changed")
            })?;
            (Some(id).filter(|id| !id.is_empty()), Some(number))
        }
        None => (args.what.as_deref(), None),
    };
    let name = cx.name(&client, id)?;
    let is_terminal = std::io::stdout().is_terminal();
    let form = match args.stat {
        true => DiffForm::Stat { columns: if is_terminal { width() } else { 80 } },
        false => DiffForm::Patch {
            is_coloured: is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        },
    };
    let (what, bytes) = match iteration {
        Some(number) => {
            let view = cx.find_worked(&client, &name)?.view;
            let bytes = client.difference(&view, iteration, form)?;
            (format!("iteration {number} of loop {}", view.id), bytes)
        }
        None => match run_named(cx, &client, &name)? {
            Some((run, unit)) => {
                let what = unit.as_ref().map_or_else(|| format!("run {run}"), |unit| format!("unit {unit}"));
                (what, whole_run(&client, &run, unit.as_ref(), form)?)
            }
            None => {
                let view = cx.find_worked(&client, &name)?.view;
                (format!("loop {}", view.id), client.difference(&view, None, form)?)
            }
        },
    };
    if bytes.is_empty() {
        last_words(&format!("{what} has changed no file"));
        return Ok(0);
    }
    if is_terminal && !args.stat {
        // What agents write into files could play with the terminal; the colours are git's.
        say_patch(&bytes);
        return Ok(0);
    }
    match std::io::stdout().lock().write_all(&bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(UserError::environment(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(0),
    }
}

/// The run that `name` means: one of a workflow, of units or of a task, or the newest that worked on the unit of this name.
fn run_named(
    cx: &Context,
    client: &Client,
    name: &str,
) -> Result<Option<(RunId, Option<UnitId>)>, UserError> {
    if let Some(run) = cx.find_workflow(client, name)? {
        return Ok(Some((run.view.id, None)));
    }
    if let Some(task) = cx.find_task(client, name)? {
        return Ok(Some((task.view.id, None)));
    }
    if let Some(run) = cx.find_run(client, name)? {
        return Ok(Some((run.view.id, None)));
    }
    Ok(cx.find_unit(client, name)?.map(|unit| (unit.run, Some(unit.unit))))
}

/// All that a run has changed. Where that lies in several places, a line above each part says where it is.
fn whole_run(
    client: &Client,
    run: &RunId,
    unit: Option<&UnitId>,
    form: DiffForm,
) -> Result<Vec<u8>, UserError> {
    let changes = client.changes_of_runs(std::slice::from_ref(run), unit)?;
    let mut bytes = Vec::new();
    for change in &changes {
        if changes.len() > 1 {
            let part = change.part.as_deref().unwrap_or("merged work");
            let place = match &change.merged_into {
                Some(target) => format!("merged into {target}"),
                None => "not merged".to_owned(),
            };
            bytes.extend(format!("# {part}, {place}\n").bytes());
        }
        bytes.extend(client.difference_of_change(change, form)?);
    }
    Ok(bytes)
}

/// Prints a patch line by line: of its escape sequences only git's own colours stay, which begin and end lines.
fn say_patch(bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let colours: Vec<&str> = line
            .split('\u{1b}')
            .skip(1)
            .filter_map(|part| part.strip_prefix('[')?.split_once('m').map(|(number, _)| number))
            .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b';'))
            .collect();
        let text = dacapo_core::text::ansi::readable(line.as_bytes());
        match colours.first().filter(|number| !number.is_empty()) {
            Some(number) => super::say_styled(&format!("\u{1b}[{number}m{text}\u{1b}[0m")),
            None => say(text),
        }
    }
}
