//! `dacapo cancel`, `pause` and `steer`: a request in the journal's database, and a word to the process that runs the loop.

use std::{io::Write, time::Duration};

use clap::Args;
use dacapo_core::{
    event::Reason,
    ids::LoopId,
    loop_machine::Request,
    plan,
    view::{LoopView, StageTaskView, StepView},
};
use dacapo_engine::{
    client::{Client, LoopSeen, RunSeen, StreamId, TaskSeen, WorkflowSeen},
    observer::NoObserver,
    performer::{self, ResumeWorkflow},
    secrets::secrets,
};

use super::{detach, say, task, value};
use crate::{context::Context, error::UserError};

/// End a loop for good, or a task, or a run of units
///
/// Its agent is asked to end and then killed, with everything it started; loops it started are cancelled too. Units of a
/// run that are not merged stay as they are, and `dacapo unit run` goes on with them. A task is `todo` again; its branch
/// and its worktree stay.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo cancel fix-tests\n  dacapo cancel TASK-001 TASK-002\n  dacapo cancel --all"
)]
pub(super) struct CancelArgs {
    /// The loops: each by its id, the beginning of it, its task or its unit; or tasks of `dacapo task`, or runs (default: the one
    /// here)
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All tasks of `dacapo task` that are begun here and not over
    #[arg(long, conflicts_with = "ids")]
    all: bool,
}

/// Hold a loop or a task after its current iteration
///
/// `dacapo resume` goes on. Of a run of units, one unit is held and the others go on.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo pause fix-tests --now\n  dacapo pause TASK-001")]
pub(super) struct PauseArgs {
    /// The loop: its id, the beginning of it, its task or its unit; or a task of `dacapo task` (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    id: Option<String>,
    /// Stop the agent instead of waiting for it
    #[arg(long)]
    now: bool,
}

/// Tell the agent something
///
/// The words go into the next prompt. A loop that waits for a person goes on with them. A single argument is the text.
#[derive(Args, Debug)]
#[command(
    override_usage = "dacapo steer [ID] <TEXT>",
    after_help = "Example:\n  dacapo steer \"use the second approach\"\n  dacapo steer fix-tests \"use the second approach\"\n  dacapo steer TASK-001 \"write it in French\""
)]
pub(super) struct SteerArgs {
    /// The loop: its id, the beginning of it, or its task; or a task of `dacapo task` (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    #[arg(value_name = "ID", value_parser = value::not_blank)]
    id: Option<String>,
    /// What the agent is to read in its next prompt
    #[arg(value_parser = value::not_blank)]
    text: Option<String>,
}

pub(super) fn cancel(cx: &Context, args: &CancelArgs) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    if args.all {
        let open = cx.tasks_here(&client)?.into_iter().filter(|seen| !seen.view.is_over);
        let ids: Vec<String> = open.map(|seen| seen.view.task.to_string()).collect();
        if ids.is_empty() {
            return Err(UserError::failed("no task is begun here"));
        }
        return cancel_each(cx, &mut client, &ids);
    }
    match args.ids.as_slice() {
        [] => {
            refuse_several(cx, &client)?;
            cancel_one(cx, &mut client, None)
        }
        [id] => cancel_one(cx, &mut client, Some(id)),
        several => cancel_each(cx, &mut client, several),
    }
}

/// One that cannot be cancelled does not keep the others from it. What was wrong is said at the end.
fn cancel_each(cx: &Context, client: &mut Client, ids: &[String]) -> Result<u8, UserError> {
    let mut failed = Vec::new();
    for id in ids {
        if let Err(error) = cancel_one(cx, client, Some(id)) {
            failed.push(error);
        }
    }
    let Some(last) = failed.pop() else { return Ok(0) };
    for error in failed {
        error.print();
    }
    Err(last)
}

fn cancel_one(cx: &Context, client: &mut Client, id: Option<&String>) -> Result<u8, UserError> {
    let name = cx.name(client, id.map(String::as_str))?;
    if let Some(run) = cx.workflow_of(client, &name)? {
        return cancel_workflow(cx, client, run);
    }
    if let Some(task) = cx.task_of(client, &name)? {
        return cancel_task(cx, client, task);
    }
    if let Some(run) = cx.find_run(client, &name)? {
        return cancel_run(client, run);
    }
    let view = cx.find(client, &name)?.view;
    let id = view.id;
    if view.reason.is_some_and(|reason| !reason.is_resumable()) {
        return Err(UserError::failed(format!("loop {id} is not running: it is {} already", view.state)));
    }
    let stream = StreamId::Loop(id.clone());
    if client.request(&stream, &Request::Cancel)? {
        wait_for_end(client, &stream, &format!("loop {id}"))?;
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

/// Of several tasks that run here the newest is not more meant than the others.
fn refuse_several(cx: &Context, client: &Client) -> Result<(), UserError> {
    let tasks = cx.tasks_here(client)?.into_iter().filter(|seen| seen.is_running);
    let names: Vec<String> = tasks.map(|seen| seen.view.task.to_string()).collect();
    if names.len() < 2 {
        return Ok(());
    }
    Err(UserError::usage(format!("several tasks run here: {}", names.join(", ")))
        .hint("name those to cancel; `--all` means all of them"))
}

/// A run and its loops are cancelled together. One that no process performs is taken up for that.
fn cancel_workflow(cx: &Context, client: &mut Client, run: WorkflowSeen) -> Result<u8, UserError> {
    let id = run.view.id;
    if run.view.is_over {
        return Err(UserError::failed(format!("run {id} is over: it is {}", run.view.state)));
    }
    let stream = StreamId::Run(id.clone());
    if client.request(&stream, &Request::Cancel)? {
        wait_for_end(client, &stream, &format!("run {id}"))?;
    } else {
        let wanted = ResumeWorkflow { id: id.clone(), resumed: None, is_detached: true };
        performer::resume(&cx.home, wanted, &mut NoObserver)?;
    }
    match client.workflow_of_id(&id)?.map(|seen| seen.view) {
        Some(view) if view.state == "cancelled" => {
            say(format!("Cancelled run {id}."));
            Ok(0)
        }
        Some(view) => {
            Err(UserError::failed(format!("run {id} ended before it could be cancelled: {}", view.state)))
        }
        None => Err(UserError::failed(format!("run {id} is gone"))),
    }
}

/// A task and the loop of its stage are cancelled together. One that no process performs is taken up for that.
fn cancel_task(cx: &Context, client: &mut Client, seen: TaskSeen) -> Result<u8, UserError> {
    let StageTaskView { id, task, ralph, .. } = seen.view.clone();
    if seen.view.is_over {
        return Err(UserError::failed(format!("task {task} is not running: it is {}", seen.view.state)));
    }
    let stream = StreamId::Run(id.clone());
    if client.request(&stream, &Request::Cancel)? {
        if !client.wait_until_over(&id, Duration::from_secs(60))? {
            return Err(UserError::failed(format!(
                "task {task} has not ended after a minute; it was told to"
            )));
        }
    } else {
        task::run::settle(cx, &seen.view)?;
    }
    match client.task_of_id(&id)?.map(|seen| seen.view) {
        Some(view) if view.state == "cancelled" => {
            say(match ralph {
                Some(ralph) => format!(
                    "Cancelled Ralph loop for {task} at iteration {}/{}",
                    ralph.iteration, ralph.max_iterations
                ),
                None => format!("Cancelled task {task}."),
            });
            Ok(0)
        }
        Some(view) => {
            Err(UserError::failed(format!("task {task} ended before it could be cancelled: {}", view.state)))
        }
        None => Err(UserError::failed(format!("task {task} is gone"))),
    }
}

fn cancel_run(client: &mut Client, run: RunSeen) -> Result<u8, UserError> {
    let id = run.view.id;
    let stream = StreamId::Run(id.clone());
    if !run.is_running || !client.request(&stream, &Request::Cancel)? {
        return Err(UserError::failed(format!("run {id} is not running: it is {}", run.view.state)));
    }
    wait_for_end(client, &stream, &format!("run {id}"))?;
    say(format!("Run {id} has ended; `dacapo resume {id}` goes on with it."));
    Ok(0)
}

/// Asks something of a run of units, if `text` names one that runs.
fn ask_run(
    cx: &Context,
    client: &mut Client,
    text: &str,
    request: &Request,
) -> Result<Option<dacapo_core::ids::RunId>, UserError> {
    let Some(run) = cx.find_run(client, text)? else { return Ok(None) };
    let id = run.view.id;
    if !run.is_running || !client.request(&StreamId::Run(id.clone()), request)? {
        return Err(UserError::failed(format!("run {id} is not running: it is {}", run.view.state))
            .hint(format!("`dacapo resume {id}` goes on with it")));
    }
    Ok(Some(id))
}

pub(super) fn pause(cx: &Context, args: &PauseArgs) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    let name = cx.name(&client, args.id.as_deref())?;
    let when = if args.now { "now" } else { "after this iteration" };
    if let Some(run) = cx.workflow_of(&client, &name)? {
        let id = run.view.id;
        if !run.is_running
            || !client.request(&StreamId::Run(id.clone()), &Request::Pause { now: args.now })?
        {
            return Err(UserError::failed(format!("run {id} is not running: it is {}", run.view.state)));
        }
        say(format!("Run {id} pauses {when}: no step is begun; `dacapo resume {id}` goes on."));
        return Ok(0);
    }
    if let Some(seen) = cx.task_of(&client, &name)? {
        let (id, task) = (seen.view.id, seen.view.task);
        if !seen.is_running || !client.request(&StreamId::Run(id), &Request::Pause { now: args.now })? {
            return Err(UserError::failed(format!("task {task} is not running: it is {}", seen.view.state)));
        }
        say(format!("Task {task} pauses {when}; `dacapo resume {task}` goes on."));
        return Ok(0);
    }
    if let Some(id) = ask_run(cx, &mut client, &name, &Request::Pause { now: args.now })? {
        say(format!(
            "Run {id} pauses: no unit is begun, its loops hold {when}; `dacapo resume {id}` goes on."
        ));
        return Ok(0);
    }
    let seen = cx.find(&client, &name)?;
    let id = seen.view.id.clone();
    if !seen.is_running {
        return Err(UserError::failed(format!("loop {id} is not running: it is {}", seen.view.state)));
    }
    let is_told = client.request(&StreamId::Loop(id.clone()), &Request::Pause { now: args.now })?;
    if seen.view.session.is_some() {
        if !is_told {
            client.settle(&id)?;
        }
        say(format!(
            "Loop {id} pauses when the agent of its session next stops; `dacapo resume {id}` goes on."
        ));
        return Ok(0);
    }
    if is_of_unit(&client, &id)? {
        // Its loop may be over by then; the unit is not.
        let again = again(&client, &seen.view)?;
        let unit = &seen.view.task;
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
    let mut client = cx.client()?;
    // One word alone is what to say, not to whom.
    let (id, text) = match (&args.id, &args.text) {
        (id, Some(text)) => (id.as_deref(), text),
        (Some(text), None) => (None, text),
        (None, None) => {
            return Err(UserError::usage("nothing is said to the agent")
                .hint("`dacapo steer \"what the agent is to read\"` tells the loop of this folder"));
        }
    };
    let name = cx.name(&client, id)?;
    if let Some(run) = cx.workflow_of(&client, &name)? {
        return steer_workflow(&mut client, &run, text);
    }
    if let Some(seen) = cx.task_of(&client, &name)? {
        return steer_task(&mut client, &seen, text);
    }
    if let Some(id) = ask_run(cx, &mut client, &name, &Request::Steer { text: text.clone() })? {
        say(format!("Every loop of run {id} reads it in its next prompt, those that begin later too."));
        return Ok(0);
    }
    let view = cx.find(&client, &name)?.view;
    let id = view.id.clone();
    if view.reason.is_some_and(|reason| !reason.is_resumable()) {
        return Err(UserError::failed(format!("loop {id} is {}: no agent would read it", view.state)));
    }
    let is_of_unit = is_of_unit(&client, &id)?;
    if is_of_unit && view.reason.is_some_and(|reason| !plan::goes_on(reason)) {
        let unit = &view.task;
        let message =
            format!("no agent would read it: unit {unit} goes on with a new turn, not with loop {id}");
        return Err(UserError::failed(message).hint(format!(
            "write it into the task's file, below its head, in the worktree that `dacapo status {unit}` names; \
             `dacapo unit run --unit {unit} --retry-failed` tries again"
        )));
    }
    warn_of_secret(text);
    let request = Request::Steer { text: text.clone() };
    if client.request(&StreamId::Loop(id.clone()), &request)? {
        say(format!("Loop {id} reads it in its next prompt."));
        return Ok(0);
    }
    if view.session.is_some() && !view.is_over() {
        client.settle(&id)?;
        say(format!("Loop {id} reads it when the agent of its session next stops."));
        return Ok(0);
    }
    if is_of_unit {
        let unit = &view.task;
        let again = again(&client, &view)?;
        say(format!("Unit {unit} reads it when it goes on: `{again}`."));
        return Ok(0);
    }
    if matches!(view.reason, Some(Reason::Waiting | Reason::Question | Reason::Blocked)) {
        return detach::start(&client, ["resume", id.as_str()]);
    }
    client.settle(&id)?;
    let more = if view.reason == Some(Reason::MaxIterations) { " -n +10" } else { "" };
    say(format!("Loop {id} reads it when it goes on: `dacapo resume {id}{more}`."));
    Ok(0)
}

fn warn_of_secret(text: &str) {
    if secrets().is_in(text) {
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr, "warning: a secret was left out; an environment variable could hold it");
    }
}

/// Words for the loop of a run that works, or that works next. A run whose agent has asked for a person goes on with them.
fn steer_workflow(client: &mut Client, run: &WorkflowSeen, text: &str) -> Result<u8, UserError> {
    let id = &run.view.id;
    if matches!(run.view.state.as_str(), "completed" | "cancelled") {
        return Err(UserError::failed(format!("run {id} is {}: no agent would read it", run.view.state)));
    }
    if let Some(question) = &run.view.question {
        return Err(UserError::failed(format!("run {id} asks a person, and no agent works now"))
            .hint(format!("{} answers", question.how_to_answer(id))));
    }
    warn_of_secret(text);
    if client.request(&StreamId::Run(id.clone()), &Request::Steer { text: text.to_owned() })? {
        say(format!("The agents of run {id} read it in their next prompt."));
        return Ok(0);
    }
    let held = |step: &StepView| matches!(step.held, Some(Reason::Waiting | Reason::Question));
    if run.view.state == "blocked" || run.view.steps.iter().any(held) {
        // The commands of the run are those that the user agreed to when it began.
        return detach::start_run(client, ["resume", id.as_str(), "--trust"]);
    }
    say(format!("Run {id} reads it when it goes on: `dacapo resume {id}`."));
    Ok(0)
}

/// Words for the agent of the stage that works. A task whose agent waits for a person goes on with them.
fn steer_task(client: &mut Client, seen: &TaskSeen, text: &str) -> Result<u8, UserError> {
    let StageTaskView { id, task, .. } = &seen.view;
    if seen.view.is_over {
        return Err(UserError::failed(format!("task {task} is {}: no agent would read it", seen.view.state)));
    }
    if seen.view.question.is_some() {
        return Err(UserError::failed(format!("task {task} asks you, and no agent works now"))
            .hint(format!("`dacapo approve {task} \"...\"` or `dacapo reject {task} \"...\"` answers")));
    }
    warn_of_secret(text);
    let request = Request::Steer { text: text.to_owned() };
    if seen.is_running && client.request(&StreamId::Run(id.clone()), &request)? {
        say(format!("The agent of task {task} reads it in its next prompt."));
        return Ok(0);
    }
    let Some(newest) = client.newest_loop_of_run(id)? else {
        return Err(UserError::failed(format!("no agent has worked on task {task} yet")));
    };
    client.request(&StreamId::Loop(newest.view.id), &request)?;
    detach::start_run(client, ["resume", id.as_str(), "--trust"])
}

/// Whether a run of units started it: alone it would not know what comes next.
fn is_of_unit(client: &Client, id: &LoopId) -> Result<bool, UserError> {
    let run = client.loop_started(id)?.and_then(|started| started.run);
    Ok(match run {
        Some(run) => client.workflow_of_id(&run)?.is_none() && client.task_of_id(&run)?.is_none(),
        None => false,
    })
}

/// The command that goes on with the unit of a loop.
fn again(client: &Client, view: &LoopView) -> Result<String, UserError> {
    let unit = client.units_of_name(Some(&view.project), view.task.as_str())?.into_iter().next();
    Ok(unit.map_or_else(|| format!("dacapo unit run --unit {}", view.task), |unit| unit.run_again()))
}

/// Waits until no process runs it any more.
fn wait_for_end(client: &Client, stream: &StreamId, what: &str) -> Result<(), UserError> {
    if client.wait_for_end(stream, Duration::from_secs(60))? {
        return Ok(());
    }
    Err(UserError::failed(format!("{what} has not ended after a minute; it was told to")))
}
