//! `dacapo logs`.

use std::{io::Write, time::Duration};

use clap::Args;
use dacapo_core::{
    stages::StageName,
    view::{LoopView, StageTaskView},
};
use dacapo_engine::{
    client::Client,
    log::{LogPart, LogReader},
    store::Channel,
};

use super::say;
use crate::{context::Context, error::UserError};

/// How much of a log is held in memory.
const AT_ONCE: u64 = 1 << 20;

/// Print what the agent printed
///
/// `dacapo tail` is `dacapo logs --follow`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo logs fix-tests --iteration 3 --stderr\n  dacapo logs TASK-001 --stage coder"
)]
pub(super) struct LogsArgs {
    /// The loop: its id, the beginning of it, or its task; or a task of `dacapo task` (default: the only one that runs in this folder, else its newest; `-` is the newest anywhere)
    id: Option<String>,
    /// Of a task, the newest run of this stage (default: of the stage that was run last)
    #[arg(long, value_name = "STAGE", value_parser = StageName::WORDS)]
    stage: Option<String>,
    /// Go on printing while the loop runs
    #[arg(short, long, conflicts_with = "iteration")]
    follow: bool,
    /// Only this iteration
    #[arg(long, value_name = "N")]
    iteration: Option<u32>,
    /// What the agent printed on standard error
    #[arg(long)]
    stderr: bool,
    /// What the gates printed
    #[arg(long, conflicts_with_all = ["stderr", "prompt", "iteration"])]
    gates: bool,
    /// The prompt that the agent was given
    #[arg(long, conflicts_with = "stderr")]
    prompt: bool,
    /// The bytes of the agent as they came, without making them readable
    #[arg(long)]
    raw: bool,
}

pub(super) fn logs(cx: &Context, args: &LogsArgs) -> Result<u8, UserError> {
    let client = cx.client()?;
    let name = cx.name(&client, args.id.as_deref())?;
    let view = match cx.find_task(&client, &name)? {
        Some(seen) => of_stage(&client, &seen.view, args.stage.as_deref())?,
        None if args.stage.is_some() => {
            return Err(UserError::usage(format!("`{name}` is no task of `dacapo task`, and has no stages")));
        }
        None => cx.find_worked(&client, &name)?.view,
    };
    let stream = if args.stderr {
        Channel::Stderr
    } else if args.gates {
        Channel::Gates
    } else if args.prompt {
        Channel::Prompt
    } else {
        Channel::Stdout
    };
    let id = view.id.clone();
    let mut watch = if args.follow { client.watch_output(&view).ok() } else { None };
    let newest = view.iteration;
    // What is printed from now on is read only by those who follow, and a line that is not whole yet is shown to the others.
    let until = match watch {
        Some(_) => None,
        None => Some(client.output(&view, stream, u64::MAX)?.1),
    };
    let mut reader = LogReader::new(view, stream, 0);
    if let Some(iteration) = args.iteration {
        reader.only(iteration);
    }
    let mut printer = Printer { has_headings: !args.gates, is_in_line: false };
    loop {
        let (is_new, is_over) = if args.raw {
            let (bytes, is_over) = reader.read_raw(&client, AT_ONCE, until)?;
            let _ = std::io::stdout().lock().write_all(&bytes);
            (!bytes.is_empty(), is_over)
        } else {
            let page = reader.read(&client, AT_ONCE, until)?;
            page.parts.iter().for_each(|part| printer.print(part));
            (!page.parts.is_empty(), page.is_over)
        };
        if let Some(wanted) = args.iteration.filter(|wanted| !reader.has_iteration(*wanted)) {
            return Err(UserError::usage(format!("loop {id} has no iteration {wanted}"))
                .hint(format!("it has come to iteration {newest}")));
        }
        match &mut watch {
            _ if is_new => {}
            Some(watch) if !is_over => watch.wait(Duration::from_secs(1))?,
            _ => break,
        }
    }
    printer.end_line();
    if let Some(last) = reader.newest_silent().filter(|_| !args.raw) {
        say(format!(
            "(iteration {last} printed on standard error alone: `dacapo logs {id} --iteration {last} --stderr`)"
        ));
    }
    Ok(0)
}

/// The newest loop of a stage of a task, or of the stage that was run last; which one it is goes to standard error.
fn of_stage(client: &Client, task: &StageTaskView, stage: Option<&str>) -> Result<LoopView, UserError> {
    let loops: Vec<LoopView> = client.loops_of_run(&task.id)?.into_iter().map(|seen| seen.view).collect();
    let worked = loops.iter().rev().filter(|view| view.stage.is_some() && view.iteration > 0);
    let found = worked.clone().find(|view| stage.is_none_or(|wanted| view.stage.as_deref() == Some(wanted)));
    let Some(found) = found else {
        return Err(UserError::failed(match stage {
            Some(stage) => format!("no agent has worked on stage {stage} of task {} yet", task.task),
            None => format!("no agent has worked on task {} yet", task.task),
        })
        .hint(format!("`dacapo status {}` shows its stages", task.task)));
    };
    let mut stages: Vec<&str> = worked.filter_map(|view| view.stage.as_deref()).collect();
    stages.sort_unstable();
    stages.dedup();
    let shown = found.stage.as_deref().unwrap_or_default();
    stages.retain(|stage| *stage != shown);
    let others = match stages.as_slice() {
        [] => String::new(),
        others => format!("; `--stage` shows another: {}", others.join(", ")),
    };
    let _ = writeln!(
        std::io::stderr().lock(),
        "(stage {shown} of task {}, loop {}{others})",
        task.task,
        found.id
    );
    Ok(found.clone())
}

/// Prints the readable form of a log; a reader that went away is no error.
struct Printer {
    /// Whether the parts of iterations begin with a heading.
    has_headings: bool,
    is_in_line: bool,
}

impl Printer {
    fn print(&mut self, part: &LogPart) {
        if part.is_first {
            self.end_line();
            if self.has_headings {
                say(format!("── iteration {} ──", part.iteration));
            }
        }
        if !part.text.is_empty() {
            let _ = std::io::stdout().lock().write_all(part.text.as_bytes());
            self.is_in_line = !part.text.ends_with('\n');
        }
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            say("");
        }
    }
}
