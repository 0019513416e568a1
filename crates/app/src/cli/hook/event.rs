//! `dacapo hook event`.

use clap::Args;
use dacapo_core::{session::HOOK_EVENTS, text::nearest::nearest};
use dacapo_engine::session::{SessionHost, SessionLoops};

use super::{HookHost, HostFlag, begin, folder_of, host::AnswerForm};
use crate::{
    cli::{session::Configured, value},
    context::Context,
    error::UserError,
};

/// For a plugin of a host: something happened in a session
///
/// NAME is session.idle, session.error or session.deleted, or prompt.failed if the prompt of the last answer could not be
/// injected. The answer is JSON: the prompt to inject, if there is one, the delay before it, and what to show to the user.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo hook event session.idle --agent opencode < idle.json")]
pub(super) struct EventArgs {
    /// The name of the event
    #[arg(value_parser = value::not_blank)]
    name: String,
    #[command(flatten)]
    host: HostFlag,
}

/// What a plugin reports of its own work, beside the events of the host.
const PROMPT_FAILED: &str = "prompt.failed";

pub(super) fn event(cx: &Context, args: &EventArgs) -> Result<u8, UserError> {
    let Some(mut host) = begin(cx, &args.host)? else { return Ok(0) };
    host.form = AnswerForm::Event;
    if let Err(error) = step(cx, &args.name, &mut host) {
        host.tell(&error);
    }
    host.finish();
    Ok(0)
}

fn step(cx: &Context, name: &str, host: &mut HookHost) -> Result<(), UserError> {
    let sessions = SessionLoops::new(&cx.home);
    let session = host.input.session.clone();
    match name {
        "session.idle" => {
            let dir = host.input.dir.as_ref().and_then(|dir| dir.canonicalize().ok());
            if let Some(view) = sessions.find(&session)? {
                // Configuration that cannot be read is no reason to stop the loop.
                let configured = folder_of(&host.input).and_then(|_| Configured::load(&view.workspace));
                host.answer.delay = configured.map(|it| it.settings.continuation_delay).unwrap_or_default();
            }
            Ok(sessions.idle(&session, dir.as_deref(), host)?)
        }
        "session.error" => {
            let (error, words) = host.input.error.clone().unwrap_or_default();
            let status = host.input.error_status;
            Ok(sessions.failed(&session, (&error, &words, status), false, host)?)
        }
        "session.deleted" => Ok(sessions.deleted(&session, host)?),
        PROMPT_FAILED => {
            let (error, words) = host.input.error.clone().unwrap_or_default();
            let why = if words.is_empty() { error } else { words };
            Ok(sessions.not_delivered(&session, &why, host)?)
        }
        _ => {
            let known = [&HOOK_EVENTS[..], &[PROMPT_FAILED]].concat();
            let meant = nearest(name, &known).map(|near| format!("; did you mean `{near}`?"));
            host.log(&format!("`{name}` is not heard"));
            Err(UserError::usage(format!("no loop hears `{name}`{}", meant.unwrap_or_default())))
        }
    }
}
