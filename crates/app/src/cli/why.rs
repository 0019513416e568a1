//! `dacapo why`.

use clap::Args;
use dacapo_core::view::{UnitStatus, why_run, why_unit};

use super::{say, say_json};
use crate::{context::Context, error::UserError};

/// Say why a loop, a unit or a run stopped, goes on or waits, and the one next step
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo why fix-tests")]
pub(super) struct WhyArgs {
    /// The loop: its id, the beginning of it, or its task; or a unit, or a run of units
    id: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn why(cx: &Context, args: &WhyArgs) -> Result<u8, UserError> {
    let client = cx.client()?;
    let unit = cx.find_unit(&client, &args.id)?;
    // Of a unit that is worked on, the loop at work knows more.
    let unit = unit.filter(|view| view.status != UnitStatus::Working || view.loop_id.is_none());
    let run = if unit.is_none() { cx.find_run(&client, &args.id)? } else { None };
    let why = match (unit, run) {
        (Some(view), _) => why_unit(&view),
        (None, Some(run)) => why_run(&run.current_view()),
        (None, None) => dacapo_core::view::why(&cx.find(&client, &args.id)?.view),
    };
    if args.json {
        return say_json(&why);
    }
    say(why.because);
    say(format!("Next: {}", why.next));
    Ok(0)
}
