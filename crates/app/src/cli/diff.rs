//! `dacapo diff`.

use std::io::{IsTerminal, Write};

use clap::Args;
use dacapo_engine::snapshots::DiffForm;

use super::say;
use crate::{
    context::Context,
    error::UserError,
    report::{last_words, width},
};

/// Show what a loop has changed, or one of its iterations
///
/// Compares the kept states of its files, so it works while the loop runs, after it, and whether anything was committed or not.
/// Files that git ignores are not in them.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo diff\n  dacapo diff fix-tests@2\n  dacapo diff @3 --stat")]
pub(super) struct DiffArgs {
    /// The loop: its id, the beginning of it, or its task; `ID@N` is its iteration N, `@N` of the one here (default: the one here)
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
    let view = cx.find_worked(&client, &name)?.view;
    let is_terminal = std::io::stdout().is_terminal();
    let form = match args.stat {
        true => DiffForm::Stat { columns: if is_terminal { width() } else { 80 } },
        false => DiffForm::Patch {
            is_coloured: is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        },
    };
    let bytes = client.difference(&view, iteration, form)?;
    if bytes.is_empty() {
        let what = iteration.map(|number| format!(" in iteration {number}")).unwrap_or_default();
        last_words(&format!("loop {} has changed no file{what}", view.id));
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
