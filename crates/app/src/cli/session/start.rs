//! `dacapo session start`.

use std::path::PathBuf;

use clap::Args;
use dacapo_core::session::{Host, Toast};
use dacapo_engine::session::{SessionHost, SessionLoops};

use super::{Configured, SessionLoopArgs, prepare};
use crate::{
    cli::{say, say_whole, value},
    context::Context,
    error::UserError,
};

/// Begin a loop in a session
///
/// It prints what the agent of that session is to be told. The gates and protected paths of the configuration hold as they do
/// for `dacapo run`. A folder has one such loop at a time.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo session start --session 0197-fe \"Fix all TypeScript errors in src/\" --max-iterations=25 --completion-promise=ALL_FIXED"
)]
pub(super) struct StartArgs {
    /// The id of the session, as its host names it
    #[arg(long, value_name = "ID", value_parser = value::one_line)]
    session: String,
    /// What the agent is asked to do
    #[arg(value_parser = value::not_blank)]
    prompt: String,
    /// Stop after N iterations (default: as configured, else 100)
    #[arg(long, value_name = "N", value_parser = value::positive, allow_hyphen_values = true)]
    max_iterations: Option<u32>,
    /// The words of the promise by which the agent says that it is done (default: as configured, else DONE)
    #[arg(long, value_name = "TEXT", value_parser = value::one_line)]
    completion_promise: Option<String>,
    /// What you call this loop
    #[arg(long, value_name = "TEXT", value_parser = value::not_blank)]
    description: Option<String>,
    /// Take the place of an active loop of another session in this folder
    #[arg(long)]
    force: bool,
    /// The host of the session: claude, codex, gemini, qwen, copilot or opencode
    #[arg(long, value_name = "AGENT", default_value = "claude", value_parser = value::not_blank)]
    agent: String,
    /// The file in which the host keeps the session, if it has one
    #[arg(long, value_name = "FILE")]
    transcript: Option<PathBuf>,
    /// Where the agent works (default: here)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Agree to the commands of this repository, for this loop only
    #[arg(long)]
    trust: bool,
}

/// Prints what the user is shown and the agent is given.
struct Printed;

impl SessionHost for Printed {
    fn inject(&mut self, prompt: &str) -> Result<(), String> {
        say_whole(format!("\n{}", prompt.trim_end()));
        Ok(())
    }

    fn toast(&mut self, toast: &Toast) {
        say(toast.line());
    }
}

pub(super) fn start(cx: &Context, args: &StartArgs) -> Result<u8, UserError> {
    let host: Host = args.agent.parse().map_err(UserError::usage)?;
    let workspace = Context::folder(args.dir.as_ref())?;
    let configured = Configured::load(&workspace)?;
    let wanted = SessionLoopArgs {
        host,
        session: &args.session,
        prompt: &args.prompt,
        max_iterations: args.max_iterations,
        completion_promise: args.completion_promise.as_deref(),
        description: args.description.as_deref(),
        force: args.force,
        trust: args.trust,
    };
    let new = prepare(cx, &configured, &wanted, &workspace, args.transcript.as_deref())?;
    SessionLoops::new(&cx.home).start(new, &mut Printed)?;
    Ok(0)
}
