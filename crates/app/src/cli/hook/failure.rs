//! `dacapo hook failure`.

use clap::Args;
use dacapo_engine::session::SessionLoops;

use super::{HostFlag, begin};
use crate::{context::Context, error::UserError};

/// For a host: the turn of a session's agent ended with an error
///
/// A loop of that session waits for the end of a limit or an outage, or ends, as a loop of `dacapo run` does. It is for the
/// hook StopFailure of Claude Code.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo hook failure --agent claude < failure.json")]
pub(super) struct FailureArgs {
    #[command(flatten)]
    host: HostFlag,
}

pub(super) fn failure(cx: &Context, args: &FailureArgs) -> Result<u8, UserError> {
    let Some(mut host) = begin(cx, &args.host)? else { return Ok(0) };
    let (session, status) = (host.input.session.clone(), host.input.error_status);
    let (name, words) = host.input.error.clone().unwrap_or_default();
    // Claude Code repeats the words of the error as the agent's last message.
    let words = if words.is_empty() { host.input.last_message.clone().unwrap_or_default() } else { words };
    let failed = SessionLoops::new(&cx.home).failed(&session, (&name, &words, status), true, &mut host);
    if let Err(error) = failed.map_err(UserError::from) {
        host.tell(&error);
    }
    host.finish();
    Ok(0)
}
