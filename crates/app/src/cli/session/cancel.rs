//! `dacapo session cancel`.

use clap::Args;
use dacapo_core::session::Toast;
use dacapo_engine::session::{SessionHost, SessionLoops};

use crate::{
    cli::{say, value},
    context::Context,
    error::{FAILED, UserError},
};

/// End the loop of a session for good
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo session cancel --session 0197-fe")]
pub(super) struct SessionCancelArgs {
    /// The id of the session
    #[arg(long, value_name = "ID", value_parser = value::one_line)]
    session: String,
}

struct Printed;

impl SessionHost for Printed {
    fn toast(&mut self, toast: &Toast) {
        say(toast.line());
    }
}

pub(super) fn cancel(cx: &Context, args: &SessionCancelArgs) -> Result<u8, UserError> {
    if SessionLoops::new(&cx.home).cancel(&args.session, &mut Printed)? {
        return Ok(0);
    }
    say(Toast::no_active_loop().line());
    Ok(FAILED)
}
