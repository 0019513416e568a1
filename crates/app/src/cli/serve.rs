//! `dacapo serve`: messages in, messages out.

use std::ffi::OsString;

use clap::{ArgMatches, Args, Command, parser::ValueSource};
use dacapo_serve::ServerParts;

use super::{flags::LoopFlags, say, web::ServerFlags};
use crate::{context::Context, error::UserError};

/// Take messages that start runs, and send answers
///
/// It is the server of `dacapo web` without the pages, and with the routes for messages. Scripts send the token that is printed
/// as `Authorization: Bearer TOKEN`. The flags for agents and limits hold for the runs that messages start.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  dacapo serve\n  dacapo serve --port 8080 --agent claude --max-cost 5")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    flags: LoopFlags,
}

pub(super) fn serve(cx: &Context, args: &ServeArgs, matches: &ArgMatches) -> Result<u8, UserError> {
    dacapo_serve::messages::check(&Context::folder(None)?).map_err(|error| {
        let refused = UserError::usage(&error);
        match error.hint() {
            Some(hint) => refused.hint(hint),
            None => refused,
        }
    })?;
    let own = matches.subcommand_matches("serve");
    let server = args.server.bind(cx, ServerParts::Messages, own.map(run_flags).unwrap_or_default())?;
    say(format!("url {}", server.url()));
    say(format!("token {}", server.token()));
    server.run()?;
    Ok(0)
}

/// The flags of [`LoopFlags`] that were typed, as arguments for another command that has them.
fn run_flags(matches: &ArgMatches) -> Vec<OsString> {
    let known = LoopFlags::augment_args(Command::new("run"));
    let mut typed = Vec::new();
    let mut behind = Vec::new();
    for arg in known.get_arguments() {
        let id = arg.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let values = matches.get_raw(id).into_iter().flatten();
        match arg.get_long() {
            None => behind.extend(values.map(OsString::from)),
            Some(long) if arg.get_action().takes_values() => {
                typed.extend(values.map(|value| {
                    let mut flag = OsString::from(format!("--{long}="));
                    flag.push(value);
                    flag
                }));
            }
            Some(long) => typed.push(format!("--{long}").into()),
        }
    }
    if !behind.is_empty() {
        typed.push("--".into());
        typed.append(&mut behind);
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_that_were_typed_are_passed_on() {
        let command = LoopFlags::augment_args(Command::new("run"));
        let typed = [
            "run",
            "-a",
            "codex",
            "--max-cost",
            "5",
            "--gate",
            "a b",
            "--gate=c",
            "--trust",
            "--",
            "-x",
            "y",
        ];
        let matches = command.get_matches_from(typed);
        let passed: Vec<String> =
            run_flags(&matches).into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(
            passed,
            ["--agent=codex", "--gate=a b", "--gate=c", "--max-cost=5", "--trust", "--", "-x", "y"]
        );
    }
}
