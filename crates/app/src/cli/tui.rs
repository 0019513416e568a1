//! `dacapo tui`.

use clap::Args;

use crate::{context::Context, error::UserError, tui};

/// Show everything on one board, and act on it
///
/// Lanes with a card for each loop, task, unit and run; the agents at work; who needs you. Keys: j and k move, Tab goes to the next
/// lane, Enter opens, l shows the log, p pauses, r resumes, c cancels (asks first), s steers, a approves, $ shows costs, ? lists all
/// keys, q quits. What runs goes on when you leave.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo tui\n  dacapo tui --ascii")]
pub(super) struct TuiArgs {
    /// Draw with ASCII characters alone; this is so anyway where the locale is not UTF-8
    #[arg(long)]
    ascii: bool,
}

pub(super) fn tui(cx: &Context, args: &TuiArgs) -> Result<u8, UserError> {
    tui::run(cx, args.ascii)
}
