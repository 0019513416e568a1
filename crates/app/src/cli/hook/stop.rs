//! `dacapo hook stop`.

use clap::Args;
use dacapo_engine::{
    git::is_dirty,
    session::{NoHost, SessionLoops},
};

use super::{HookHost, HostFlag, begin, folder_of};
use crate::{
    cli::session::{Configured, prepare_verify},
    context::Context,
    error::UserError,
};

/// For a host: the agent of a session wants to stop
///
/// If the session has a loop, the answer sends the agent back to work or lets it go. It is for the hooks Stop of Claude Code,
/// Codex and Qwen, AfterAgent of Gemini and agentStop of Copilot.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo hook stop --agent claude < stop.json")]
pub(super) struct StopArgs {
    #[command(flatten)]
    host: HostFlag,
    /// Only judge what the agent leaves behind, by gates and protected paths, beside a goal of the host's own
    #[arg(long)]
    verify: bool,
}

pub(super) fn stop(cx: &Context, args: &StopArgs) -> Result<u8, UserError> {
    let Some(mut host) = begin(cx, &args.host)? else { return Ok(0) };
    if let Err(error) = step(cx, args.verify, &mut host) {
        host.tell(&error);
    }
    host.finish();
    Ok(0)
}

fn step(cx: &Context, verify: bool, host: &mut HookHost) -> Result<(), UserError> {
    let sessions = SessionLoops::new(&cx.home);
    let session = host.input.session.clone();
    let dir = host.input.dir.as_ref().and_then(|dir| dir.canonicalize().ok());
    if verify && sessions.find(&session)?.is_none() {
        // Nothing of the session was seen before: what counts is what the newest commit does not hold.
        let workspace = folder_of(&host.input)?;
        let configured = Configured::load(&workspace)?;
        let (of, transcript) = ((host.host, session.as_str()), host.input.transcript.clone());
        if !is_dirty(&workspace) {
            return Ok(());
        }
        let new = prepare_verify(cx, &configured, of, &workspace, transcript.as_deref())?;
        let Some(new) = new else { return Ok(()) };
        sessions.start(new, &mut NoHost)?;
        return Ok(sessions.judge(&session, host)?);
    }
    Ok(sessions.idle(&session, dir.as_deref(), host)?)
}
