//! `dacapo status`.

use clap::Args;
use dacapo_core::{
    event::Reason,
    text::count,
    view::{LoopView, status_line},
};
use dacapo_engine::client::{Client, LoopSeen};
use jiff::Timestamp;
use serde_json::Value;

use super::{say, say_json, status_units};
use crate::{
    context::Context,
    error::UserError,
    report::{clock, money},
};

/// How many ended loops are worth a look.
const RECENT: u32 = 10;

/// Show what runs, then what ended lately
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo status --json")]
pub(super) struct StatusArgs {
    /// One loop or unit: a loop's id, the beginning of it, its task, or a unit's name
    id: Option<String>,
    /// Units instead of loops
    #[arg(long)]
    units: bool,
    /// All that ended, not only the newest
    #[arg(long)]
    all: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn status(cx: &Context, args: &StatusArgs) -> Result<u8, UserError> {
    // Looking makes nothing: no journal means no loops.
    let nothing_there = cx.inside.is_none() && !cx.home.path().exists();
    let client = if nothing_there { None } else { Some(cx.client()?) };
    if let Some(client) = &client
        && let Some(code) = units(cx, client, args)?
    {
        return Ok(code);
    }
    let (active, ended) = match (&client, &args.id) {
        (Some(client), Some(id)) => (vec![cx.find(client, id)?.view], Vec::new()),
        (Some(client), None) => views(client, args.all)?,
        (None, Some(id)) => return Err(UserError::usage(format!("no loop and no task is called `{id}`"))),
        (None, None) => (Vec::new(), Vec::new()),
    };
    if args.json {
        let all: Vec<Value> = active.iter().chain(&ended).map(shown).collect();
        return say_json(&all);
    }
    if args.units {
        say("No units.");
        return Ok(0);
    }
    let now = Timestamp::now();
    if args.id.is_some() {
        for view in &active {
            detail(view, now);
        }
        return Ok(0);
    }
    if active.is_empty() {
        say("No active Ralph loops.");
    } else {
        say("Active Ralph Loops:");
        for view in &active {
            say(format!("  {}", status_line(view, now)));
            if view.state != "running" {
                let detail = view.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
                say(format!("    {}{detail}", state(view)));
            }
            if let Some(question) = &view.question {
                say(format!("    asks: {question}"));
            }
        }
    }
    if !ended.is_empty() {
        say("\nEnded:");
        for view in &ended {
            let reason = view.reason.map_or("", |reason| reason.as_str());
            // A check without an agent has no iterations to speak of.
            if view.max_iterations == 0 {
                let detail = view.detail.as_deref().filter(|_| view.verified != Some(true));
                let how = detail.map_or_else(|| "passed".to_owned(), |detail| format!("red: {detail}"));
                say(format!("  {}  {} (checks of a merge): {how}", view.id, view.task));
                continue;
            }
            say(format!(
                "  {}  {} ({}): {} ({reason}){} after {}{}",
                view.id,
                view.task,
                view.role(),
                view.state,
                if view.verified == Some(false) { ", unverified," } else { "" },
                count(view.charged.unwrap_or(view.iteration), "iteration"),
                money(&view.ledger.total()).map(|cost| format!(", {cost}")).unwrap_or_default(),
            ));
            if let Some(detail) = view.detail.as_ref().filter(|_| view.reason == Some(Reason::Blocked)) {
                say(format!("    {detail}"));
            }
        }
    }
    if let Some(client) = &client {
        status_units::sections(client, true)?;
    }
    Ok(0)
}

/// Answers where units are asked for; `None` if loops are.
fn units(cx: &Context, client: &Client, args: &StatusArgs) -> Result<Option<u8>, UserError> {
    let views = match &args.id {
        // Scripts that ask for a task are answered with its loop, whatever else has that name.
        Some(_) if args.json && !args.units => return Ok(None),
        Some(name) => match cx.find_unit(client, name)? {
            Some(view) => vec![view],
            None if args.units => return Err(UserError::usage(format!("no unit is called `{name}`"))),
            None => return Ok(None),
        },
        None if args.units => client.units(None)?,
        None => return Ok(None),
    };
    if args.json {
        return say_json(&views).map(Some);
    }
    match &args.id {
        Some(_) => views.iter().for_each(status_units::detail),
        None if views.is_empty() => return Ok(None),
        None => status_units::sections(client, false)?,
    }
    Ok(Some(0))
}

/// A loop as scripts see it: what its sums are made of is nobody else's business.
fn shown(view: &LoopView) -> Value {
    let mut value = serde_json::to_value(view).unwrap_or_default();
    if let Some(keys) = value.as_object_mut() {
        keys.remove("ledger");
    }
    value
}

/// Those that run, and those that do not.
fn views(client: &Client, all: bool) -> Result<(Vec<LoopView>, Vec<LoopView>), UserError> {
    let (active, dead): (Vec<LoopSeen>, Vec<LoopSeen>) =
        client.active()?.into_iter().partition(|seen| seen.is_running);
    let ended = dead.into_iter().rev().chain(client.recent(if all { u32::MAX } else { RECENT })?);
    Ok((active.into_iter().map(|seen| seen.view).collect(), ended.map(|seen| seen.view).collect()))
}

/// How it stands, and until when.
fn state(view: &LoopView) -> String {
    let until = view.until.map(|until| format!(" until {}", clock(until))).unwrap_or_default();
    format!("{}{until}", view.state)
}

fn detail(view: &LoopView, now: Timestamp) {
    say(format!("Loop {}: {}", view.id, state(view)));
    say(format!("  {}", status_line(view, now)));
    if let Some(cost) = money(&view.ledger.total()) {
        say(format!("  used {cost}"));
    }
    say(format!("  project {}, in {}", view.project, view.workspace.display()));
    if let Some(detail) = &view.detail {
        say(format!("  {detail}"));
    }
    if let Some(cost) = money(&view.ledger.total()) {
        say(format!("  used so far: {cost}"));
    }
    if let Some((iteration, line)) = &view.refused {
        say(format!("  last refusal, iteration {iteration}: {line}"));
    }
    if let Some(question) = &view.question {
        say(format!("  asks: {question}"));
    }
    if let Some(parent) = &view.parent {
        say(format!("  started by loop {parent}"));
    }
}
