//! `dacapo events`.

use std::collections::HashMap;

use clap::Args;
use dacapo_core::{
    event::{Envelope, LoopEvent, OutputMarks},
    ids::{LoopId, RunId},
    plan::Purpose,
    workflow::StepId,
};
use dacapo_engine::{
    client::Client,
    store::{AnyEvent, EventScope},
};

use super::say_whole;
use crate::{
    context::Context,
    error::UserError,
    report::{event_line, run_event_line, said_line, task_event_line, with_run, workflow_event_line},
};

/// Print the journal
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo events fix-tests -f --json | jq .type\n  dacapo events TASK-001 -f"
)]
pub(super) struct EventsArgs {
    /// One loop, task, unit, or run (default: all)
    id: Option<String>,
    /// Go on printing as events happen; with ID, until it is over
    #[arg(short, long)]
    follow: bool,
    /// Print JSON lines instead of text
    #[arg(long)]
    json: bool,
    /// Begin with this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    from: u64,
}

pub(super) fn events(cx: &Context, args: &EventsArgs) -> Result<u8, UserError> {
    let client = cx.client()?;
    let scope = match &args.id {
        Some(text) => scope(cx, &client, &cx.name(&client, Some(text))?)?,
        None => EventScope::All,
    };
    let workflow = match &scope {
        EventScope::Run(run) if args.json && client.workflow_of_id(run)?.is_some() => Some(run.clone()),
        _ => None,
    };
    let mut agents = workflow.map(|run| RunAgents::new(&client, run));
    let show = |fact: AnyEvent| match (&fact, &scope) {
        // Lines of a run have its id, those of its loops too.
        (AnyEvent::Loop(envelope), EventScope::Run(run)) if args.json => {
            if let Some(agents) = &mut agents {
                agents.follow(envelope)?;
            }
            say_whole(with_run(envelope, run.as_str()));
            Ok(())
        }
        _ => print(&fact, args.json),
    };
    if args.follow {
        client.follow(&scope, args.from, show)?;
    } else {
        client.read(&scope, args.from, show)?;
    }
    Ok(0)
}

/// The agents that a run of a workflow has started: what each has said and done is printed before the fact that it ended. It is
/// read from what was kept of its output, and was not recorded a second time.
struct RunAgents<'a> {
    client: &'a Client,
    run: RunId,
    steps: HashMap<LoopId, StepId>,
    running: HashMap<LoopId, RunningAgent>,
}

struct RunningAgent {
    name: String,
    iteration: u32,
    /// Where its output begins.
    begin: OutputMarks,
}

impl<'a> RunAgents<'a> {
    fn new(client: &'a Client, run: RunId) -> Self {
        Self { client, run, steps: HashMap::new(), running: HashMap::new() }
    }

    fn follow(&mut self, envelope: &Envelope) -> Result<(), UserError> {
        let id = &envelope.loop_id;
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                let step = started.purpose.as_ref().and_then(Purpose::as_workflow_step);
                self.steps.extend(step.map(|(step, _)| (id.clone(), step)));
            }
            LoopEvent::AgentStarted { iteration, agent, output, .. } => {
                // One whose end was not recorded, because dacapo was killed.
                self.ended(envelope, *output)?;
                let started = RunningAgent { name: agent.clone(), iteration: *iteration, begin: *output };
                self.running.insert(id.clone(), started);
            }
            LoopEvent::AgentExited { exit, .. } => self.ended(envelope, exit.output)?,
            // It goes on later, perhaps: what it prints then is not of this agent.
            LoopEvent::LoopFinished { .. } if self.running.contains_key(id) => {
                let later = self.client.events_of_loop(id, envelope.seq)?.into_iter();
                let next = later.map(|envelope| envelope.event).find_map(|event| match event {
                    LoopEvent::AgentStarted { output, .. } => Some(output),
                    _ => None,
                });
                let all =
                    OutputMarks { stdout: u64::MAX, stderr: u64::MAX, prompt: u64::MAX, gates: u64::MAX };
                self.ended(envelope, next.unwrap_or(all))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn ended(&mut self, envelope: &Envelope, end: OutputMarks) -> Result<(), UserError> {
        let id = &envelope.loop_id;
        let Some(agent) = self.running.remove(id) else { return Ok(()) };
        for said in self.client.said(id, &agent.name, agent.begin, end)? {
            let step = self.steps.get(id);
            if let Some(line) = said_line(envelope.at, self.run.as_str(), step, agent.iteration, &said) {
                say_whole(line);
            }
        }
        Ok(())
    }
}

fn scope(cx: &Context, client: &Client, text: &str) -> Result<EventScope, UserError> {
    if let Some(run) = cx.find_workflow(client, text)? {
        return Ok(EventScope::Run(run.view.id));
    }
    if let Some(task) = cx.find_task(client, text)? {
        return Ok(EventScope::Run(task.view.id));
    }
    if let Some(run) = cx.find_run(client, text)? {
        return Ok(EventScope::Run(run.view.id));
    }
    if let Some(unit) = cx.find_unit(client, text)? {
        return Ok(EventScope::Unit(unit.run, unit.unit));
    }
    Ok(EventScope::Loop(cx.find(client, text)?.view.id))
}

fn print(fact: &AnyEvent, json: bool) -> Result<(), UserError> {
    say_whole(match fact {
        AnyEvent::Loop(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        AnyEvent::Run(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        AnyEvent::Workflow(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        AnyEvent::Workflow(envelope) => workflow_event_line(envelope),
        AnyEvent::Task(envelope) if json => serde_json::to_string(envelope).map_err(UserError::failed)?,
        AnyEvent::Task(envelope) => task_event_line(envelope),
        AnyEvent::Loop(envelope) => event_line(envelope),
        AnyEvent::Run(envelope) => run_event_line(envelope),
    });
    Ok(())
}
