//! `dacapo session state`.

use clap::Args;
use dacapo_engine::session::SessionLoops;

use crate::{
    cli::{say, say_json, value},
    context::Context,
    error::UserError,
};

/// Show the loop of a session
///
/// Without a session it is the newest loop in this folder, else the newest of all. Without a loop the answer is `null`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo session state --session 0197-fe --json")]
pub(super) struct StateArgs {
    /// The id of the session
    #[arg(long, value_name = "ID", value_parser = value::one_line)]
    session: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn state(cx: &Context, args: &StateArgs) -> Result<u8, UserError> {
    let here = Context::folder(None).ok();
    // A state that cannot be read is none, and the user is told (req 105).
    let state = match SessionLoops::new(&cx.home).state(args.session.as_deref(), here.as_deref()) {
        Ok(state) => state,
        Err(error) => {
            UserError::from(error).print();
            None
        }
    };
    if args.json {
        return say_json(&state);
    }
    match state {
        Some(state) => {
            let paused = if state.active { "" } else { ", paused" };
            say(format!(
                "session {}: iteration {}/{}{paused}, complete with <promise>{}</promise>\n{}",
                state.session_id,
                state.iteration,
                state.max_iterations,
                state.completion_promise,
                state.prompt.trim_end()
            ));
        }
        None => say("No Ralph Loop is currently running"),
    }
    Ok(0)
}
