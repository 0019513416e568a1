//! `dacapo signal`: what a step with `wait: {signal}` waits for.

use clap::Args;
use dacapo_core::{
    loop_machine::Request,
    text::nearest::nearest,
    workflow::{StepKind, WaitFor},
};
use dacapo_engine::client::StreamId;

use super::{detach, say, value, workflow};
use crate::{context::Context, error::UserError};

/// Send the signal that a step of a workflow waits for
///
/// The step is done with it, and the run goes on, in the background if no process performs it. The signal has to come while the
/// step waits. A single argument is the name of the signal.
#[derive(Args, Debug)]
#[command(
    override_usage = "dacapo signal [ID] <NAME>",
    after_help = "Example:\n  dacapo signal deployed\n  dacapo signal k3f9x2 deployed"
)]
pub(super) struct SignalArgs {
    /// The run: its id or the beginning of it (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    #[arg(value_name = "ID", value_parser = value::not_blank)]
    id: Option<String>,
    /// The name of the signal
    #[arg(value_parser = value::not_blank)]
    name: Option<String>,
}

pub(super) fn signal(cx: &Context, args: &SignalArgs) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    // One word alone is the signal, not the run.
    let (run, signal) = match (&args.id, &args.name) {
        (run, Some(name)) => (run.as_deref(), name.as_str()),
        (Some(name), None) => (None, name.as_str()),
        (None, None) => {
            return Err(UserError::usage("no signal is named")
                .hint("`dacapo status` says which signal a run waits for; `dacapo signal NAME` sends it"));
        }
    };
    let name = cx.name(&client, run)?;
    let Some(run) = cx.find_workflow(&client, &name)? else {
        return Err(UserError::usage(format!("no run of a workflow is called `{name}`"))
            .hint("`dacapo status` lists them"));
    };
    let id = run.view.id;
    if run.view.is_over {
        return Err(UserError::failed(format!("run {id} is over: it is {}", run.view.state)));
    }
    let steps = client.workflow_started(&id)?.map(|started| started.workflow.steps).unwrap_or_default();
    let awaited = steps.iter().filter_map(|step| match &step.kind {
        StepKind::Wait(WaitFor::Signal(known)) => {
            let is_waiting = run.view.steps.iter().any(|seen| seen.id == step.id && seen.state == "waiting");
            Some((known.as_str(), &step.id, is_waiting))
        }
        _ => None,
    });
    let awaited: Vec<_> = awaited.collect();
    if !awaited.iter().any(|(known, _, is_waiting)| *known == signal && *is_waiting) {
        let known: Vec<&str> = awaited.iter().map(|(known, ..)| *known).collect();
        return Err(match awaited.iter().find(|(known, ..)| *known == signal) {
            Some((_, step, _)) => UserError::failed(format!(
                "run {id} does not wait for `{signal}` now: step `{step}` is not waiting"
            ))
            .hint(format!("`dacapo status {id}` shows when it is")),
            None => {
                let hint = match (nearest(signal, &known), known.is_empty()) {
                    (Some(meant), _) => format!("did you mean `{meant}`?"),
                    (None, true) => "no step of it waits for a signal".to_owned(),
                    (None, false) => format!("it waits for: {}", known.join(", ")),
                };
                UserError::usage(format!("no step of run {id} waits for a signal `{signal}`")).hint(hint)
            }
        });
    }
    workflow::require_consent_to_answer(cx, &client, &id)?;
    let request = Request::Signal { name: signal.to_owned() };
    if client.request(&StreamId::Run(id.clone()), &request)? {
        say(format!("Run {id} has the signal."));
        return Ok(0);
    }
    detach::start_run(&client, ["resume", id.as_str(), "--is-answer"])
}
