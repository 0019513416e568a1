//! `dacapo hook prompt`.

use clap::Args;
use dacapo_core::session::{SlashCommand, Toast};
use dacapo_engine::session::{NoHost, SessionHost, SessionLoops};

use super::{HookHost, HostFlag, begin, folder_of, host::AnswerForm};
use crate::{
    cli::session::{Configured, SessionLoopArgs, prepare, prepare_verify},
    context::Context,
    error::UserError,
};

/// For a host: the user of a session has sent a prompt
///
/// `/ralph "task"` begins a loop in that session and `/cancel-ralph` ends it; every other prompt is left alone. It is for the
/// hooks UserPromptSubmit of Claude Code, Codex and Qwen, BeforeAgent of Gemini and userPromptSubmitted of Copilot.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo hook prompt --agent claude < prompt.json")]
pub(super) struct HookPromptArgs {
    #[command(flatten)]
    host: HostFlag,
    /// Note how the files are before the agent works on this prompt, for `dacapo hook stop --verify`
    #[arg(long)]
    verify: bool,
}

pub(super) fn prompt(cx: &Context, args: &HookPromptArgs) -> Result<u8, UserError> {
    let Some(mut host) = begin(cx, &args.host)? else { return Ok(0) };
    let command = host.input.prompt.as_deref().and_then(SlashCommand::recognise);
    host.form = AnswerForm::Prompt { is_taken: false };
    let done = match command {
        Some(Ok(command)) => {
            let done = obey(cx, &command, &mut host);
            // A loop that did not begin must not leave its arguments to the agent.
            if done.is_err() || command == SlashCommand::Cancel {
                host.form = AnswerForm::Prompt { is_taken: true };
            }
            done
        }
        Some(Err(error)) => {
            host.form = AnswerForm::Prompt { is_taken: true };
            Err(UserError::usage(error))
        }
        None if args.verify => begin_verify(cx, &host),
        None => Ok(()),
    };
    if let Err(error) = done {
        host.tell(&error);
    }
    host.finish();
    Ok(0)
}

fn obey(cx: &Context, command: &SlashCommand, host: &mut HookHost) -> Result<(), UserError> {
    let sessions = SessionLoops::new(&cx.home);
    let session = host.input.session.clone();
    match command {
        SlashCommand::Cancel => {
            if !sessions.cancel(&session, host)? {
                host.toast(&Toast::no_active_loop());
            }
            Ok(())
        }
        SlashCommand::Start { prompt, max_iterations, completion_promise, description, force } => {
            let workspace = folder_of(&host.input)?;
            let configured = Configured::load(&workspace)?;
            let wanted = SessionLoopArgs {
                host: host.host,
                session: &session,
                prompt,
                max_iterations: *max_iterations,
                completion_promise: completion_promise.as_deref(),
                description: description.as_deref(),
                force: *force,
                trust: false,
            };
            let transcript = host.input.transcript.clone();
            let mut new = prepare(cx, &configured, &wanted, &workspace, transcript.as_deref())?;
            if !host.input.messages.is_empty() {
                // What the agent said before the loop does not count.
                new.transcript.offset = host.input.messages.len() as u64;
            }
            sessions.start(new, host)?;
            Ok(())
        }
    }
}

/// Begins to watch what the agent does with this prompt, unless a loop of the session does so already.
fn begin_verify(cx: &Context, host: &HookHost) -> Result<(), UserError> {
    let sessions = SessionLoops::new(&cx.home);
    if sessions.find(&host.input.session)?.is_some() {
        return Ok(());
    }
    let workspace = folder_of(&host.input)?;
    let configured = Configured::load(&workspace)?;
    let (of, transcript) = ((host.host, host.input.session.as_str()), host.input.transcript.clone());
    if let Some(new) = prepare_verify(cx, &configured, of, &workspace, transcript.as_deref())? {
        sessions.start(new, &mut NoHost)?;
    }
    Ok(())
}
