//! `dacapo report`.

use std::io::IsTerminal;

use clap::Args;
use dacapo_core::{duration::Millis, view};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use super::say_json;
use crate::{
    context::Context,
    error::UserError,
    report::{
        morning::{MorningLook, lines},
        width,
    },
};

/// Say what happened while you were away, and what needs you
///
/// First what waits for a person, most urgent first, each with the command that helps. Then what has ended, how, after how
/// many iterations, for how much, which claims were refused and why, and which files were changed; loops, runs of units,
/// workflows and tasks alike, of all folders. Exits 0, whatever happened.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  dacapo report\n  dacapo report --since 2d --json")]
pub(super) struct ReportArgs {
    /// How far to look back
    #[arg(long, value_name = "DUR", default_value = "12h")]
    since: Millis,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn report(cx: &Context, args: &ReportArgs) -> Result<u8, UserError> {
    let now = Timestamp::now();
    let back = SignedDuration::try_from(args.since.std()).unwrap_or(SignedDuration::MAX);
    let since = now.checked_sub(back).unwrap_or(Timestamp::MIN);
    let report = view::report(&cx.client()?.standing(since)?, since, now);
    if args.json {
        return say_json(&report);
    }
    let is_terminal = std::io::stdout().is_terminal();
    let look = MorningLook {
        width: if is_terminal { width() } else { 80 },
        is_coloured: is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        here: Context::folder(None).ok(),
        home: std::env::var_os("HOME").map(Into::into),
        zone: TimeZone::system(),
    };
    for line in lines(&report, &look) {
        super::say_styled(&line.rendered(look.is_coloured));
    }
    Ok(0)
}
