//! `dacapo why`.

use clap::Args;
use dacapo_core::{
    event::{GateRole, LoopEvent},
    ids::RunId,
    text::last_lines,
    view::{LoopView, StatusShown, UnitStatus, Why, why_run, why_task, why_unit, why_workflow},
};
use dacapo_engine::client::{Client, LoopSeen};

use super::{say, say_json};
use crate::{context::Context, error::UserError, not_begun::TaskNotBegun};

/// Say why a loop, a task, a unit or a run stopped, goes on or waits, and the one next step
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo why fix-tests\n  dacapo why TASK-001")]
pub(super) struct WhyArgs {
    /// The loop: its id, the beginning of it, or its task; or a task of `dacapo task`, a unit, or a run (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    id: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn why(cx: &Context, args: &WhyArgs) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    let name = cx.name(&client, args.id.as_deref())?;
    let told = StatusShown::Asked { is_json: args.json };
    if let Some(task) = TaskNotBegun::find(cx, Some(&client), &name)? {
        return shown(args, task.why());
    }
    let unit = cx.find_unit(&client, &name)?;
    // For a unit that is worked on, the running loop can say more.
    let unit = unit.filter(|view| view.status != UnitStatus::Working || view.loop_id.is_none());
    let run = if unit.is_none() { cx.find_run(&client, &name)? } else { None };
    let task = if unit.is_none() && run.is_none() { cx.find_task(&client, &name)? } else { None };
    if let Some(seen) = task {
        Context::remember_look(&mut client, seen.view.id.as_str(), told);
        shown(args, why_task(&seen.view))?;
        return quote_gate_of_run(args, &client, &seen.view.id);
    }
    let workflow = if unit.is_none() && run.is_none() { cx.find_workflow(&client, &name)? } else { None };
    match (unit, run, workflow) {
        (Some(view), ..) => {
            shown(args, why_unit(&view))?;
            let newest = view.loop_id.as_ref().filter(|_| view.status == UnitStatus::Failed);
            let newest = newest.map(|id| client.loop_of_id(id)).transpose()?.flatten();
            quote_gate(args, &client, newest.as_ref())
        }
        (None, Some(run), _) => {
            Context::remember_look(&mut client, run.view.id.as_str(), told);
            shown(args, why_run(&run.view, &client.units_of_run(&run.view.id)?))
        }
        (None, None, Some(seen)) => {
            Context::remember_look(&mut client, seen.view.id.as_str(), told);
            shown(args, why_workflow(&seen.view))?;
            quote_gate_of_run(args, &client, &seen.view.id)
        }
        (None, None, None) => {
            let seen = cx.find(&client, &name)?;
            Context::remember_look(&mut client, seen.view.id.as_str(), told);
            shown(args, dacapo_core::view::why(&seen.view))?;
            quote_gate(args, &client, Some(&seen))
        }
    }
}

/// Shows the end of what the newest gate of the run's newest loop printed, if it was red.
fn quote_gate_of_run(args: &WhyArgs, client: &Client, id: &RunId) -> Result<u8, UserError> {
    quote_gate(args, client, client.newest_loop_of_run(id)?.as_ref())
}

/// Shows the end of what the newest gate of the loop printed, if it was red.
fn quote_gate(args: &WhyArgs, client: &Client, newest: Option<&LoopSeen>) -> Result<u8, UserError> {
    const LINES_SHOWN: usize = 20;
    let refused = newest.map(|seen| &seen.view).filter(|view| view.refused.is_some());
    let Some(LoopView { id, .. }) = refused.filter(|view| view.verified.is_none() && !args.json) else {
        return Ok(0);
    };
    // A loop ends soon after its last gate; of a long loop the rest is not read.
    const EVENTS_READ: u32 = 200;
    let events = client.newest_events_of_loop(id, EVENTS_READ)?;
    let newest = events.iter().rev().find_map(|envelope| match &envelope.event {
        LoopEvent::GateFinished { name, role: GateRole::Gate, result, .. } => Some((name, result)),
        _ => None,
    });
    if let Some((name, result)) = newest.filter(|(_, result)| !result.passed) {
        let lines = last_lines(&result.output_tail, LINES_SHOWN);
        if !lines.is_empty() {
            say(format!("\nThe end of what the gate `{name}` printed:"));
            lines.iter().for_each(|line| say(format!("  {line}")));
        }
    }
    Ok(0)
}

fn shown(args: &WhyArgs, why: Why) -> Result<u8, UserError> {
    if args.json {
        return say_json(&why);
    }
    say(why.because);
    say(format!("Next: {}", why.next));
    Ok(0)
}
