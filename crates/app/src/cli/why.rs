//! `dacapo why`.

use clap::Args;

use super::{say, say_json};
use crate::{context::Context, error::UserError};

/// Say why a loop stopped, goes on or waits, and the one next step
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo why fix-tests")]
pub(super) struct WhyArgs {
    /// The loop: its id, the beginning of it, or its task
    id: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn why(cx: &Context, args: &WhyArgs) -> Result<u8, UserError> {
    let store = cx.store()?;
    let view = cx.find(&store, &args.id)?.current_view();
    let why = dacapo_core::view::why(&view);
    if args.json {
        return say_json(&why);
    }
    say(why.because);
    say(format!("Next: {}", why.next));
    Ok(0)
}
