//! `dacapo why`.

use clap::Args;
use dacapo_core::{
    event::{GateRole, LoopEvent},
    ids::{LoopId, RunId},
    text::last_lines,
    view::{LoopView, StatusShown, UnitStatus, UnitView, Why, why_run, why_task, why_unit, why_workflow},
};
use dacapo_engine::client::Client;

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
        return quote_gate_of_run(args, &client, &seen.view.id, &seen.view.state);
    }
    let workflow = if unit.is_none() && run.is_none() { cx.find_workflow(&client, &name)? } else { None };
    match (unit, run, workflow) {
        (Some(view), ..) => {
            shown(args, why_unit(&view))?;
            quote_gate_of_unit(args, &client, &view)
        }
        (None, Some(run), _) => {
            Context::remember_look(&mut client, run.view.id.as_str(), told);
            let units = client.units_of_run(&run.view.id)?;
            shown(args, why_run(&run.view, &units))?;
            let given_up = units.iter().find(|unit| unit.has_given_up_a_task());
            given_up.map_or(Ok(0), |unit| quote_gate_of_unit(args, &client, unit))
        }
        (None, None, Some(seen)) => {
            Context::remember_look(&mut client, seen.view.id.as_str(), told);
            shown(args, why_workflow(&seen.view))?;
            quote_gate_of_run(args, &client, &seen.view.id, &seen.view.state)
        }
        (None, None, None) => {
            let view = cx.find(&client, &name)?.view;
            Context::remember_look(&mut client, view.id.as_str(), told);
            shown(args, dacapo_core::view::why(&view))?;
            if !args.json {
                quote_refusal(&client, &view)?;
            }
            Ok(0)
        }
    }
}

/// Shows what the gate printed for which the newest loop of a run was refused, if the run has failed.
fn quote_gate_of_run(args: &WhyArgs, client: &Client, run: &RunId, state: &str) -> Result<u8, UserError> {
    if !args.json && state == "failed" {
        let newest = client.loops_of_run(run)?.into_iter().max_by_key(|seen| seen.view.started_at);
        newest.map_or(Ok(()), |seen| quote_refusal(client, &seen.view))?;
    }
    Ok(0)
}

/// Shows what the gate printed for which a loop was refused, if its newest claim was.
fn quote_refusal(client: &Client, view: &LoopView) -> Result<(), UserError> {
    if view.refused.is_some() && view.verified.is_none() {
        quote_gate(client, &view.id)?;
    }
    Ok(())
}

/// Shows what the gate printed for which a task of a unit was given up.
fn quote_gate_of_unit(args: &WhyArgs, client: &Client, unit: &UnitView) -> Result<u8, UserError> {
    match &unit.loop_id {
        Some(id) if !args.json && unit.has_given_up_a_task() => quote_gate(client, id)?,
        _ => {}
    }
    Ok(0)
}

/// Shows the end of what the newest gate printed, if it was red.
fn quote_gate(client: &Client, id: &LoopId) -> Result<(), UserError> {
    const LINES_SHOWN: usize = 20;
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
    Ok(())
}

fn shown(args: &WhyArgs, why: Why) -> Result<u8, UserError> {
    if args.json {
        return say_json(&why);
    }
    say(why.because);
    say(format!("Next: {}", why.next));
    Ok(0)
}
