//! `dacapo hook`: what the host of a chat session runs, one file per command below it.

mod event;
mod failure;
mod findings;
mod host;
mod install;
mod list;
mod places;
mod prompt;
mod stop;
mod uninstall;

pub(super) use findings::installed_hooks;

use std::{ffi::OsString, io::Read, path::PathBuf};

use clap::{Args, Subcommand};
use dacapo_core::session::{HookInput, Host};

use self::host::HookHost;
use super::value;
use crate::{context::Context, error::UserError};

/// A loop inside the session of an agent: what its hooks run
///
/// The host of a session, such as Claude Code, runs these commands when its agent stops, when the user sends a prompt, and when
/// something failed. They read the host's JSON on standard input, take one step of the loop of that session, and print the
/// host's answer. A session without a loop is left alone. They exit 0 whatever happens, so that a fault of dacapo never keeps
/// an agent from stopping; what went wrong is on standard error and in the answer.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  dacapo hook install claude\n  dacapo hook list --json\n  echo '{\"session_id\": \"s1\", \"cwd\": \".\"}' | dacapo hook stop --agent claude"
)]
pub(super) struct HookArgs {
    #[command(subcommand)]
    command: HookCommand,
}

#[derive(Subcommand, Debug)]
enum HookCommand {
    Install(install::InstallArgs),
    Uninstall(uninstall::UninstallArgs),
    List(list::HookListArgs),
    Stop(stop::StopArgs),
    Prompt(prompt::HookPromptArgs),
    Failure(failure::FailureArgs),
    Event(event::EventArgs),
}

/// The commands that hosts run.
const OF_HOSTS: [&str; 4] = ["stop", "prompt", "failure", "event"];

/// Whether a host runs this command line. Exit code 2 would send its agent back to work.
pub(crate) fn is_of_host(args: &[OsString]) -> bool {
    let word = |at: usize| args.get(at).and_then(|word| word.to_str());
    word(1) == Some("hook") && word(2).is_some_and(|word| OF_HOSTS.contains(&word))
}

/// Whether this command line reports that a turn failed, which may be the last thing that the host does.
pub(crate) fn must_outlive_host(args: &[OsString]) -> bool {
    is_of_host(args) && args.get(2).is_some_and(|word| word == "failure")
}

/// The program whose hook it is.
#[derive(Args, Debug, Clone)]
struct HostFlag {
    /// The host: claude, codex, gemini, qwen, copilot or opencode
    #[arg(long, value_name = "AGENT", value_parser = value::not_blank)]
    agent: String,
}

impl HookArgs {
    /// What this would decide, if it decides something: an agent may not.
    pub(super) fn decides(&self) -> Option<&'static str> {
        match &self.command {
            HookCommand::Install(_) => Some("install hooks"),
            HookCommand::Uninstall(_) => Some("take hooks out"),
            HookCommand::List(_)
            | HookCommand::Stop(_)
            | HookCommand::Prompt(_)
            | HookCommand::Failure(_)
            | HookCommand::Event(_) => None,
        }
    }
}

pub(super) fn hook(cx: &Context, args: &HookArgs) -> Result<u8, UserError> {
    match &args.command {
        HookCommand::Install(args) => install::install(cx, args),
        HookCommand::Uninstall(args) => uninstall::uninstall(cx, args),
        HookCommand::List(args) => list::list(args),
        HookCommand::Stop(args) => stop::stop(cx, args),
        HookCommand::Prompt(args) => prompt::prompt(cx, args),
        HookCommand::Failure(args) => failure::failure(cx, args),
        HookCommand::Event(args) => event::event(cx, args),
    }
}

/// What the host says, and how it is answered; `None` if the session is the agent of a loop that a supervisor runs.
fn begin(cx: &Context, flag: &HostFlag) -> Result<Option<HookHost>, UserError> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(UserError::failed)?;
    if cx.inside.is_some() {
        return Ok(None);
    }
    let host: Host = flag.agent.parse().map_err(UserError::usage)?;
    let input = HookInput::parse(&bytes).map_err(UserError::usage)?;
    Ok(Some(HookHost::new(host, input)))
}

/// The folder that the agent of the session works in.
fn folder_of(input: &HookInput) -> Result<PathBuf, UserError> {
    Context::folder(input.dir.as_ref())
}
