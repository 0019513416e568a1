//! `dacapo resume`.

use clap::Args;
use dacapo_core::{duration::Millis, event::Grant, loop_machine::Request, view::LoopView};
use dacapo_engine::{
    client::{Client, StreamId},
    process::background::is_background,
    session::SessionLoops,
    supervisor::{self, ResumeLoop},
};

use super::{budget, consent, detach, say, task, unit, value, workflow};
use crate::{
    context::Context,
    error::UserError,
    report::{Style, reporter},
};

/// Continue a loop that is paused, stopped or failed, a task that is paused or stopped, or units
///
/// A loop goes on at the next iteration, with its counters; limits rise only by what is typed here. A task that failed is begun
/// again by `dacapo task run`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo resume fix-tests -n +10\n  dacapo resume TASK-001")]
pub(super) struct ResumeArgs {
    /// The loop: its id, the beginning of it, or its task; or a task of `dacapo task`, a unit, or a run (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    pub(super) id: Option<String>,
    /// Grant N more iterations
    #[arg(short = 'n', long, value_name = "+N", value_parser = value::extra, allow_hyphen_values = true)]
    max_iterations: Option<u32>,
    /// Set a new limit for the time of agents, checks and delays together
    #[arg(long, value_name = "DUR")]
    max_time: Option<Millis>,
    /// Set a new limit for what agents may cost together, in US dollars
    #[arg(long, value_name = "USD", value_parser = value::dollars, allow_hyphen_values = true)]
    max_cost: Option<f64>,
    /// Set a new limit for the tokens that agents may use together
    #[arg(long, value_name = "N", value_parser = value::tokens, allow_hyphen_values = true)]
    max_tokens: Option<u64>,
    /// Do not wait for the end of a limit: a loop that is parked asks its provider at once
    #[arg(long)]
    now: bool,
    /// Agree to the commands that the loop took from its repository, for this run only
    #[arg(long)]
    pub(super) trust: bool,
    /// Run in the background and print how to follow it
    #[arg(long)]
    pub(super) detach: bool,
    /// Take up an answer or a signal and nothing else; `approve`, `reject` and `signal` start this
    #[arg(long, hide = true)]
    pub(super) is_answer: bool,
    #[command(flatten)]
    pub(super) style: Style,
}

impl ResumeArgs {
    /// What the person grants.
    pub(super) fn grant(&self) -> Grant {
        Grant {
            extra_iterations: self.max_iterations.unwrap_or(0),
            max_time_ms: self.max_time,
            max_cost: self.max_cost,
            max_tokens: self.max_tokens,
            ask_now: self.now,
            ..Grant::default()
        }
    }
}

pub(super) fn resume(cx: &Context, args: &ResumeArgs) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    let name = cx.name(&client, args.id.as_deref())?;
    if let Some(run) = cx.workflow_of(&client, &name)? {
        let id = run.view.id;
        if args.max_iterations.is_some() {
            return Err(UserError::usage(format!(
                "run {id} takes no `-n`: its iterations are in its workflow"
            ))
            .hint("`max_iterations` of the loop says how many there are"));
        }
        if matches!(run.view.state.as_str(), "completed" | "cancelled") {
            return Err(UserError::failed(format!("run {id} is over: it is {}", run.view.state)));
        }
        if !run.is_running {
            return workflow::resume(cx, &client, &id, args);
        }
        if !run.view.is_paused {
            return Err(UserError::environment(format!("run {id} is running already"))
                .hint(format!("`dacapo events {id} -f` follows it")));
        }
        client.request(&StreamId::Run(id.clone()), &Request::Unpause { grant: args.grant() })?;
        say(format!("Run {id} goes on."));
        return Ok(0);
    }
    if let Some(seen) = cx.task_of(&client, &name)? {
        let task = &seen.view.task;
        if seen.view.is_over {
            let hint = if seen.view.state == "completed" {
                let file = &seen.view.file;
                format!(
                    "to have it worked on again, write `status: todo` into `{file}`, then `dacapo task run {task}`"
                )
            } else {
                format!("`dacapo task run {task}` starts it again")
            };
            return Err(
                UserError::failed(format!("task {task} is over: it is {}", seen.view.state)).hint(hint)
            );
        }
        if args.max_iterations.is_some() {
            return Err(UserError::usage(format!(
                "task {task} takes no `-n`: its limits are those of its stages"
            ))
            .hint("`ralph` in the configuration sets them; `dacapo task run` begins with them"));
        }
        if !seen.is_running {
            return task::run::resume(cx, &client, &seen.view, args);
        }
        client.request(&StreamId::Run(seen.view.id.clone()), &Request::Unpause { grant: args.grant() })?;
        say(format!("Task {task} goes on."));
        return Ok(0);
    }
    if let Some(run) = cx.find_run(&client, &name)?
        && run.is_running
        && run.view.state == "paused"
    {
        let id = run.view.id;
        if args.max_time.is_some_and(Millis::is_zero) {
            return Err(UserError::usage("`--max-time` must be more than zero"));
        }
        let grant = args.grant();
        if let Some(started) = client.run_started(&id)? {
            budget::allow_more(&started.settings.policy, &grant)?;
        }
        client.request(&StreamId::Run(id.clone()), &Request::Unpause { grant })?;
        say(format!("Run {id} goes on."));
        return Ok(0);
    }
    if let Some((run, unit)) = unit::of_run(cx, &client, &name)? {
        return unit::resume(cx, &client, &run, unit.as_ref(), args);
    }
    let row = cx.find(&client, &name)?;
    let id = row.view.id.clone();
    if args.max_time.is_some_and(Millis::is_zero) {
        return Err(UserError::usage("`--max-time` must be more than zero"));
    }
    let grant = args.grant();
    let started = client.loop_started(&id)?;
    if let Some(started) = &started {
        budget::allow_more(&started.policy, &grant)?;
    }
    if row.view.session.is_some() {
        return resume_in_session(cx, &mut client, &row.view, grant);
    }
    if args.now {
        let is_told = client.request(
            &StreamId::Loop(id.clone()),
            &Request::Unpause { grant: Grant { ask_now: true, ..Grant::default() } },
        )?;
        if is_told && row.view.state == "parked" {
            say(format!("Loop {id} asks its provider now."));
            return Ok(0);
        }
    }
    if row.is_running {
        let grant = Grant { ask_now: false, ..grant };
        return if row.view.state == "paused" || row.view.pausing {
            client.request(&StreamId::Loop(id.clone()), &Request::Unpause { grant })?;
            say(format!("Loop {id} goes on."));
            Ok(0)
        } else {
            Err(UserError::environment(format!("loop {id} is running already"))
                .hint(format!("`dacapo logs {id} -f` follows it")))
        };
    }
    if let Some(started) = started {
        consent::require_again(
            &cx.home,
            &started.workspace,
            (&started.policy.gates.specs, &[]),
            args.trust,
            consent::Resumed::Loop(id.as_str()),
        )?;
    }
    if args.detach && !is_background() {
        // What was meant here is meant there.
        return detach::detach(&client, args.id.is_none().then_some(id.as_str()));
    }
    let wanted = ResumeLoop { id, grant, programs: Default::default(), is_detached: is_background() };
    let mut observer = reporter(&args.style);
    let finished = supervisor::resume(&cx.home, wanted, observer.as_mut())?;
    drop(observer);
    let is_told = args.style.is_human();
    if is_told {
        crate::report::ending(&mut cx.client()?, &finished.id)?;
    }
    Ok(crate::report::last_line(&finished, is_told))
}

/// The loop of a chat session goes on when the agent of the session next stops: dacapo cannot start that agent.
fn resume_in_session(
    cx: &Context,
    client: &mut Client,
    view: &LoopView,
    grant: Grant,
) -> Result<u8, UserError> {
    let id = &view.id;
    match view.reason {
        Some(reason) if !reason.is_resumable() => {
            return Err(UserError::failed(format!("loop {id} is {} and cannot be resumed", view.state))
                .hint("`/ralph` in the session starts another one"));
        }
        Some(_) => SessionLoops::new(&cx.home).resume(id, grant)?,
        None if view.state == "paused" || view.pausing => {
            client.request(&StreamId::Loop(id.clone()), &Request::Unpause { grant })?;
            client.settle(id)?;
        }
        None => {
            return Err(UserError::environment(format!("loop {id} is running already"))
                .hint(format!("`dacapo events {id} -f` follows it")));
        }
    }
    say(format!("Loop {id} goes on when the agent of its session next stops; any prompt there will do."));
    Ok(0)
}
