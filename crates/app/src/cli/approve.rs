//! `dacapo approve` and `dacapo reject`: the answer of a person to the question of a run.

use clap::Args;
use dacapo_core::loop_machine::Request;
use dacapo_engine::client::StreamId;

use super::{detach, say, value, workflow};
use crate::{context::Context, error::UserError};

/// Approve what a workflow asks about
///
/// The approval holds for the files that the question is about. A run that no process performs goes on in the background.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo approve\n  dacapo approve k3f9x2 \"also update the docs\"")]
pub(super) struct ApproveArgs {
    /// The run: its id or the beginning of it (default: the one here); if it names none, it is what to say
    id: Option<String>,
    /// What to say
    text: Option<String>,
    /// One of the decisions of the question, by its name
    #[arg(long, value_name = "NAME", value_parser = value::not_blank)]
    decision: Option<String>,
}

/// Reject what a workflow asks about
///
/// The run makes the changes that the workflow has for this case, and asks again; without any it ends.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo reject k3f9x2 \"the tests are missing\"")]
pub(super) struct RejectArgs {
    /// The run: its id or the beginning of it (default: the one here); if it names none, it is what to say
    id: Option<String>,
    /// What is wrong
    text: Option<String>,
}

pub(super) fn approve(cx: &Context, args: &ApproveArgs) -> Result<u8, UserError> {
    let decision = args.decision.as_deref().unwrap_or("approve");
    answer(cx, args.id.as_deref(), args.text.as_deref(), decision)
}

pub(super) fn reject(cx: &Context, args: &RejectArgs) -> Result<u8, UserError> {
    answer(cx, args.id.as_deref(), args.text.as_deref(), "reject")
}

fn answer(cx: &Context, id: Option<&str>, text: Option<&str>, decision: &str) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    let named = match id {
        Some(id) if id != "-" => cx.find_workflow(&client, id)?,
        _ => None,
    };
    let (run, text) = match (named, id, text) {
        (Some(run), _, text) => (Some(run), text.unwrap_or_default()),
        (None, Some(id), Some(_)) if id != "-" => {
            return Err(UserError::usage(format!("no run of a workflow is called `{id}`"))
                .hint("`dacapo status` lists them"));
        }
        (None, id, text) => {
            let name = cx.name(&client, id.filter(|id| *id == "-"))?;
            let said = text.or(id.filter(|id| *id != "-")).unwrap_or_default();
            (cx.find_workflow(&client, &name)?, said)
        }
    };
    let Some(run) = run else {
        return Err(UserError::failed("no run of a workflow asks anything here"));
    };
    let id = run.view.id;
    let Some(question) = run.view.question else {
        return Err(UserError::failed(format!("run {id} asks nothing: it is {}", run.view.state)));
    };
    if decision != "approve"
        && decision != "reject"
        && !question.decisions.iter().any(|known| known.id == decision)
    {
        let known: Vec<&str> = question.decisions.iter().map(|known| known.id.as_str()).collect();
        return Err(UserError::usage(format!("`{decision}` is no decision of this question"))
            .hint(format!("there are: {}", known.join(", "))));
    }
    workflow::require_consent_to_answer(cx, &client, &id)?;
    let request =
        Request::Answer { decision: decision.to_owned(), text: text.to_owned(), question: question.question };
    if client.request(&StreamId::Run(id.clone()), &request)? {
        say(format!("Run {id} has the answer."));
        return Ok(0);
    }
    detach::start_run(&client, ["resume", id.as_str(), "--is-answer"])
}
