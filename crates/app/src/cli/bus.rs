//! `dacapo bus`.

use std::{io::Read, ops::ControlFlow, time::Duration};

use clap::{Args, Subcommand};
use dacapo_core::{
    bus::{BusMessage, Draft},
    ids::{ProjectId, TaskId},
};
use dacapo_engine::{
    bus::Bus,
    inside::protocol::{Ask, AskAnswer, BusName, Watched},
    secrets::secrets,
};
use jiff::Timestamp;

use super::{say_whole, value};
use crate::{context::Context, error::UserError};

/// Post to, read and follow the message bus of a project or a task
///
/// Inside an agent, the task's bus is the default; elsewhere, the project's.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo bus post --type QUESTION \"Which database?\"\n  dacapo bus read --json"
)]
pub(super) struct BusArgs {
    #[command(subcommand)]
    command: BusCommand,
}

#[derive(Subcommand, Debug)]
enum BusCommand {
    /// Append a message
    Post {
        /// Its type, for example INFO, QUESTION or wait_without_restart
        #[arg(long = "type", value_name = "TYPE", value_parser = value::not_blank)]
        kind: String,
        #[command(flatten)]
        target: Target,
        /// What it says; `-` or nothing reads standard input
        body: Option<String>,
    },
    /// Print all messages
    Read {
        #[command(flatten)]
        target: Target,
        /// Print JSON lines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print messages as they come
    Follow {
        #[command(flatten)]
        target: Target,
        /// Print JSON lines instead of text
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Debug)]
struct Target {
    /// The project (default: from the environment, else the folder)
    #[arg(long, value_name = "ID")]
    project: Option<ProjectId>,
    /// The task (default: from the environment, else none: the project's bus)
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
}

impl Target {
    fn resolve(&self) -> Result<(ProjectId, Option<TaskId>), UserError> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let project = match (&self.project, set("DACAPO_PROJECT")) {
            (Some(project), _) => project.clone(),
            (None, Some(project)) => project.parse().map_err(UserError::usage)?,
            (None, None) => Context::project_of(&Context::folder(None)?),
        };
        let task = match (&self.task, set("DACAPO_TASK")) {
            (Some(task), _) => Some(task.clone()),
            // Another project's bus is asked for: our own task is not in it.
            (None, Some(_)) if self.project.is_some() => None,
            (None, Some(task)) => Some(task.parse().map_err(UserError::usage)?),
            (None, None) => None,
        };
        Ok((project, task))
    }

    /// Refuses a task that was named and is not there.
    fn check(&self, cx: &Context) -> Result<(), UserError> {
        let (project, task) = self.resolve()?;
        match task {
            Some(task) if self.task.is_some() && !cx.home.task_folder(&project, &task).is_dir() => {
                Err(UserError::usage(format!("project {project} has no task {task}"))
                    .hint("`dacapo status --all` lists them"))
            }
            _ => Ok(()),
        }
    }

    /// Which bus is meant, in the words of a request to the supervisor of the loop that this command runs in.
    fn name(&self) -> Result<BusName, UserError> {
        if self.project.is_none() && self.task.is_none() {
            return Ok(BusName::Own);
        }
        let (project, task) = self.resolve()?;
        Ok(match task {
            Some(task) => BusName::Task(project, task),
            None => BusName::Project(project),
        })
    }

    fn bus(&self, cx: &Context) -> Result<Bus, UserError> {
        let (project, task) = self.resolve()?;
        Ok(Bus::open(match &task {
            Some(task) => cx.home.task_bus(&project, task),
            None => cx.home.project_bus(&project),
        }))
    }
}

pub(super) fn bus(cx: &Context, args: &BusArgs) -> Result<u8, UserError> {
    match &args.command {
        BusCommand::Post { kind, target, body } => {
            let body = match body.as_deref() {
                None | Some("-") => {
                    let mut bytes = Vec::new();
                    std::io::stdin().lock().read_to_end(&mut bytes).map_err(UserError::failed)?;
                    String::from_utf8_lossy(&bytes).into_owned()
                }
                Some(body) => body.to_owned(),
            };
            if body.trim().is_empty() {
                return Err(UserError::usage("the message is blank"));
            }
            if let Some(inside) = &cx.inside {
                // A secret of the agent's own making is known here alone.
                let body = secrets().redact(&body).into_owned();
                let ask = Ask::Post { kind: kind.clone(), body, bus: target.name()? };
                if let AskAnswer::Posted { id } = inside.ask(&ask)? {
                    say_whole(id);
                }
                return Ok(0);
            }
            let (project, task) = target.resolve()?;
            let draft = Draft {
                kind: kind.clone(),
                project: project.to_string(),
                task: task.map(|task| task.to_string()),
                loop_id: None,
                body,
            };
            draft.check().map_err(UserError::usage)?;
            cx.home.prepare()?;
            for message in target.bus(cx)?.post(&[draft], Timestamp::now())? {
                say_whole(message.id);
            }
        }
        BusCommand::Read { target, json } if cx.inside.is_some() => {
            from_supervisor(cx, target, 0, |message| print(message, *json))?;
        }
        BusCommand::Read { target, json } => {
            target.check(cx)?;
            for message in target.bus(cx)?.read()? {
                print(&message, *json)?;
            }
        }
        BusCommand::Follow { target, json } => {
            if let Some(inside) = &cx.inside {
                // Watched before the first look, so that nothing falls in between.
                let mut news = inside.watch(Watched::Bus { bus: target.name()? })?;
                let mut from = from_supervisor(cx, target, 0, |_| Ok(()))?;
                loop {
                    news.wait(LOOK_ANYWAY)?;
                    from = from_supervisor(cx, target, from, |message| print(message, *json))?;
                }
            }
            let bus = target.bus(cx)?;
            bus.prepare()?;
            let mut result = Ok(());
            bus.follow(bus.size(), |message| {
                result = print(&message, *json);
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            result?;
        }
    }
    Ok(0)
}

/// How long a follower below an agent waits for the supervisor's word before it looks anyway.
const LOOK_ANYWAY: Duration = Duration::from_secs(60);

/// Hands over what a bus holds from `from` on, as the supervisor shows it; gives where to go on.
fn from_supervisor(
    cx: &Context,
    target: &Target,
    mut from: u64,
    mut each: impl FnMut(&BusMessage) -> Result<(), UserError>,
) -> Result<u64, UserError> {
    let Some(inside) = &cx.inside else { return Ok(from) };
    loop {
        match inside.ask(&Ask::ReadBus { bus: target.name()?, from })? {
            AskAnswer::Messages { messages, next } if next > from => {
                messages.iter().try_for_each(&mut each)?;
                from = next;
            }
            _ => return Ok(from),
        }
    }
}

fn print(message: &BusMessage, json: bool) -> Result<(), UserError> {
    if json {
        say_whole(serde_json::to_string(message).map_err(UserError::failed)?);
    } else {
        let task = message.task.as_ref().map(|task| format!(" {task}")).unwrap_or_default();
        say_whole(format!("{} {}{task}: {}", message.at, message.kind, message.body));
    }
    Ok(())
}
