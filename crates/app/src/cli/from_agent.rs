//! `dacapo claim`, `wait` and `ask`: what an agent tells the supervisor of its loop.

use clap::Args;
use dacapo_engine::{
    inside::{
        Inside, InsideError,
        protocol::{Ask, AskAnswer},
    },
    secrets::secrets,
};

use super::{say, value};
use crate::{context::Context, error::UserError};

/// For an agent: claim that the work is done
///
/// Does what the file DONE in the folder of the task does, and prints which gates decide when the agent has ended. In a unit, `status: complete` in the file of a task is the claim.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo claim \"all tests pass, the parser is rewritten\"")]
pub(super) struct ClaimArgs {
    /// What to say about it
    #[arg(value_parser = value::not_blank)]
    note: Option<String>,
}

/// For an agent: do not start me again before the user has done something
///
/// The same as a message of type wait_without_restart on the task's bus. It counts when the agent has ended.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo wait \"the database is being restored\"")]
pub(super) struct WaitArgs {
    /// What the agent waits for
    #[arg(value_parser = value::not_blank)]
    why: String,
}

/// For an agent: ask the user something
///
/// The same as a message of type QUESTION on the task's bus. It is shown at once, the user answers with `dacapo steer`,
/// and the answer is in the next prompt. The loop goes on meanwhile, unless the agent waits, too.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo ask \"Which database shall it be?\"")]
pub(super) struct AskArgs {
    /// The question
    #[arg(value_parser = value::not_blank)]
    question: String,
}

pub(super) fn claim(cx: &Context, args: &ClaimArgs) -> Result<u8, UserError> {
    let note = args.note.as_deref().unwrap_or_default().to_owned();
    let gates = tell(cx, "claim", Ask::Claim { note: clean(&note), only_if_settled: false })?;
    say(match gates.as_slice() {
        [] => "Taken. It is looked at when the agent has ended.".to_owned(),
        gates => format!("Taken. When the agent has ended, these gates decide: {}.", gates.join(", ")),
    });
    Ok(0)
}

pub(super) fn wait(cx: &Context, args: &WaitArgs) -> Result<u8, UserError> {
    tell(cx, "wait", Ask::Wait { why: clean(&args.why) })?;
    say("Taken. When the agent has ended, it is not started again before the user has done something.");
    Ok(0)
}

pub(super) fn ask(cx: &Context, args: &AskArgs) -> Result<u8, UserError> {
    tell(cx, "ask", Ask::Question { text: clean(&args.question) })?;
    say("Asked. The answer will be in the next prompt.");
    Ok(0)
}

/// A secret of the agent's own making is known here alone.
fn clean(text: &str) -> String {
    secrets().redact(text).into_owned()
}

/// Tells the supervisor; gives the gates that decide about a claim.
fn tell(cx: &Context, command: &str, ask: Ask) -> Result<Vec<String>, UserError> {
    let inside: &Inside = cx.inside.as_ref().ok_or_else(|| {
        UserError::usage(format!(
            "`dacapo {command}` is for the agent of a loop, and this does not run in one"
        ))
        .hint("`dacapo bus post` says something to a loop from outside; `dacapo --help` lists the commands")
    })?;
    match inside.ask(&ask)? {
        AskAnswer::Taken { gates } => Ok(gates),
        other => Err(InsideError::NoAnswer(format!("it answered something else: {other:?}")).into()),
    }
}
