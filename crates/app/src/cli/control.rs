//! `dacapo cancel`, `pause` and `steer`: a request in the journal's database, and a word to whoever runs the loop.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use clap::Args;
use dacapo_core::{event::Reason, ids::RunId, loop_machine::Request, unit::step, view::LoopView};
use dacapo_engine::{
    client::{Client, LoopSeen},
    secrets::secrets,
    store::{RunRow, Store},
    supervisor,
    watch::Watch,
};
use jiff::Timestamp;

use super::{detach, say, value};
use crate::{context::Context, error::UserError};

/// End a loop for good, or a run of units
///
/// Its agent is asked to end and then killed, with everything it started; loops it started are cancelled too. Units of a
/// run that are not merged stay as they are, and `dacapo unit run` goes on with them.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo cancel fix-tests")]
pub(super) struct CancelArgs {
    /// The loop: its id, the beginning of it, its task or its unit; or a run of units
    id: String,
}

/// Hold a loop after its current iteration
///
/// `dacapo resume` goes on. Of a run of units, one unit is held and the others go on.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo pause fix-tests --now")]
pub(super) struct PauseArgs {
    /// The loop: its id, the beginning of it, its task or its unit
    id: String,
    /// Stop the agent instead of waiting for it
    #[arg(long)]
    now: bool,
}

/// Tell the agent something
///
/// The words go into the next prompt. A loop that waits for a person goes on with them.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo steer fix-tests \"use the second approach\"")]
pub(super) struct SteerArgs {
    /// The loop: its id, the beginning of it, or its task
    id: String,
    /// What to say
    #[arg(value_parser = value::not_blank)]
    text: String,
}

pub(super) fn cancel(cx: &Context, args: &CancelArgs) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    if let Some(store) = client.journal()
        && let Ok(run) = args.id.parse::<RunId>()
        && let Some(row) = store.run_row(&run)?
    {
        return cancel_run(cx, &mut client, &run, row);
    }
    let row = cx.find(&client, &args.id)?;
    let id = row.view.id.clone();
    if row.view.reason.is_some_and(|reason| !reason.is_resumable()) {
        return Err(UserError::failed(format!("loop {id} is not running: it is {} already", row.view.state)));
    }
    if client.request(&id, &Request::Cancel)? {
        let is_running = || Ok(client.loop_of_id(&id)?.is_some_and(|seen| seen.is_running));
        wait_for_end(cx, &format!("loop {id}"), is_running)?;
    }
    let is_cancelled = |seen: LoopSeen| seen.view.reason == Some(Reason::Cancelled);
    if !client.loop_of_id(&id)?.is_some_and(is_cancelled) {
        client.settle(&id)?;
    }
    match client.loop_of_id(&id)?.map(|seen| seen.view) {
        Some(view) if view.reason == Some(Reason::Cancelled) => {
            say(view.detail.unwrap_or_else(|| format!("Cancelled loop {id}")));
            Ok(0)
        }
        Some(view) => {
            Err(UserError::failed(format!("loop {id} ended before it could be cancelled: {}", view.state)))
        }
        None => Err(UserError::failed(format!("loop {id} is gone"))),
    }
}

fn cancel_run(cx: &Context, client: &mut Client, id: &RunId, row: RunRow) -> Result<u8, UserError> {
    if !row.is_running() || !client.request_of_run(id, &Request::Cancel)? {
        let state = row.current_view().state;
        return Err(UserError::failed(format!("run {id} is not running: it is {state}")));
    }
    wait_for_end(cx, &format!("run {id}"), || {
        let Some(store) = client.journal() else { return Ok(false) };
        Ok(store.run_row(id)?.is_some_and(|row| row.is_running()))
    })?;
    say(format!("Run {id} has ended; `dacapo resume {id}` goes on with it."));
    Ok(0)
}

/// A run of units is worked on by many loops, and which of them is meant nobody said.
fn refuse_run(cx: &Context, client: &Client, text: &str, verb: &str) -> Result<(), UserError> {
    let Some(row) = cx.find_run(client, text)? else { return Ok(()) };
    let id = row.view.id;
    Err(UserError::usage(format!("{id} is a run of units, and this is about one of them")).hint(format!(
        "`dacapo {verb} UNIT` names it; `dacapo cancel {id}` and `dacapo resume {id}` are about all"
    )))
}

pub(super) fn pause(cx: &Context, args: &PauseArgs) -> Result<u8, UserError> {
    let mut store = cx.store()?;
    let client = cx.client()?;
    refuse_run(cx, &client, &args.id, "pause")?;
    let row = cx.find(&client, &args.id)?;
    let id = row.view.id.clone();
    if !row.is_running {
        return Err(UserError::failed(format!("loop {id} is not running: it is {}", row.view.state)));
    }
    store.request(&id, &Request::Pause { now: args.now }, Timestamp::now())?;
    let when = if args.now { "now" } else { "after this iteration" };
    if is_of_unit(&store, &id)? {
        // Its loop may be over by then; the unit is not.
        let again = again(&store, &row.view)?;
        let unit = &row.view.task;
        say(format!("Unit {unit} pauses {when}; `dacapo resume {unit}` goes on."));
        say(format!(
            "If that iteration completes a task, the unit stops: then `{again}` goes on, after this run."
        ));
        return Ok(0);
    }
    say(format!("Loop {id} pauses {when}; `dacapo resume {id}` goes on."));
    Ok(0)
}

pub(super) fn steer(cx: &Context, args: &SteerArgs) -> Result<u8, UserError> {
    let mut store = cx.store()?;
    let client = cx.client()?;
    refuse_run(cx, &client, &args.id, "steer")?;
    let row = cx.find(&client, &args.id)?;
    let id = row.view.id.clone();
    if row.view.reason.is_some_and(|reason| !reason.is_resumable()) {
        return Err(UserError::failed(format!("loop {id} is {}: nobody would read it", row.view.state)));
    }
    let is_of_unit = is_of_unit(&store, &id)?;
    if is_of_unit && row.view.reason.is_some_and(|reason| !step::goes_on(reason)) {
        let unit = &row.view.task;
        let message =
            format!("nobody would read it: unit {unit} goes on with a new turn, not with loop {id}");
        return Err(UserError::failed(message).hint(format!(
            "write it into the task's file, below its head, in the worktree that `dacapo status {unit}` names; \
             `dacapo unit run --unit {unit} --retry-failed` tries again"
        )));
    }
    if secrets().is_in(&args.text) {
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr, "warning: a secret was left out; an environment variable could hold it");
    }
    let is_heard = store.request(&id, &Request::Steer { text: args.text.clone() }, Timestamp::now())?;
    if is_heard {
        say(format!("Loop {id} reads it in its next prompt."));
        return Ok(0);
    }
    if is_of_unit {
        let unit = &row.view.task;
        let again = again(&store, &row.view)?;
        say(format!("Unit {unit} reads it when it goes on: `{again}`."));
        return Ok(0);
    }
    if matches!(row.view.reason, Some(Reason::Waiting | Reason::Question | Reason::Blocked)) {
        drop(store);
        return detach::start(["resume", id.as_str()]);
    }
    supervisor::settle(&cx.home, &mut store, &id)?;
    let more = if row.view.reason == Some(Reason::MaxIterations) { " -n +10" } else { "" };
    say(format!("Loop {id} reads it when it goes on: `dacapo resume {id}{more}`."));
    Ok(0)
}

/// Whether a run of units started it: alone it would not know what comes next.
fn is_of_unit(store: &Store, id: &dacapo_core::ids::LoopId) -> Result<bool, UserError> {
    Ok(store.loop_started(id)?.is_some_and(|started| started.run.is_some()))
}

/// The command that goes on with the unit of a loop.
fn again(store: &Store, view: &LoopView) -> Result<String, UserError> {
    let unit = store.unit_view(Some(&view.project), view.task.as_str())?.into_iter().next();
    Ok(unit.map_or_else(|| format!("dacapo unit run --unit {}", view.task), |unit| unit.run_again()))
}

/// Waits until nobody runs it any more.
fn wait_for_end(
    cx: &Context,
    what: &str,
    is_running: impl Fn() -> Result<bool, UserError>,
) -> Result<(), UserError> {
    let watch = Watch::folders(&[cx.home.path()]).map_err(|error| {
        UserError::environment(format!("cannot watch `{}`: {error}", cx.home.path().display()))
    })?;
    let patience = Instant::now() + Duration::from_secs(60);
    while is_running()? {
        if Instant::now() > patience {
            return Err(UserError::failed(format!("{what} has not ended after a minute; it was told to")));
        }
        // The journal's end comes before the process's: a last look must not wait long.
        watch
            .wait(Duration::from_millis(100))
            .map_err(|error| UserError::environment(format!("cannot wait for the journal: {error}")))?;
    }
    Ok(())
}
