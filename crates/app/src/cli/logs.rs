//! `dacapo logs`.

use std::{collections::BTreeMap, io::Write, time::Duration};

use clap::Args;
use dacapo_core::{
    agent::{
        Format,
        transcript::{self, OutputEvent, Transcript},
    },
    event::{Envelope, LoopEvent, OutputMarks},
    stages::StageName,
    text::ansi::readable,
    view::{LoopView, StageTaskView},
};
use dacapo_engine::{client::Client, secrets::secrets, store::Channel};

use super::say;
use crate::{context::Context, error::UserError};

/// Print what the agent printed
///
/// `dacapo tail` is `dacapo logs --follow`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo logs fix-tests --iteration 3 --stderr\n  dacapo logs TASK-001 --stage coder"
)]
pub(super) struct LogsArgs {
    /// The loop: its id, the beginning of it, or its task; or a task of `dacapo task` (default: the one here)
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
    /// What it printed on standard error
    #[arg(long)]
    stderr: bool,
    /// What the checks printed
    #[arg(long, conflicts_with_all = ["stderr", "prompt", "iteration"])]
    gates: bool,
    /// What it was given
    #[arg(long, conflicts_with = "stderr")]
    prompt: bool,
    /// Its bytes as they came
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
    let mut watch = if args.follow { client.watch_output(&view).ok() } else { None };
    let (mut printed, mut from, mut starts) = (0, 0, Vec::new());
    let (mut formats, mut printer, mut silent) = (BTreeMap::new(), None, Vec::new());
    loop {
        let is_over = client.loop_of_id(&view.id)?.is_none_or(|seen| !seen.is_running);
        for envelope in client.events_of_loop(&view.id, from)? {
            from = envelope.seq + 1;
            if let LoopEvent::LoopStarted(started) = &envelope.event {
                let policy = &started.policy;
                let agents = (0..=policy.agent.fallback.len()).map(|index| policy.agent.at(index));
                formats = agents.map(|agent| (agent.name.clone(), agent.format)).collect();
            }
            starts.extend(attempt(&envelope, stream, &formats));
            if let LoopEvent::AgentExited { iteration, exit, .. } = &envelope.event
                && (exit.stdout_bytes, stream) == (0, Channel::Stdout)
                && exit.stderr_bytes > 0
                && args.iteration.is_none_or(|wanted| wanted == *iteration)
            {
                silent.push(*iteration);
            }
        }
        let (_, end) = client.output(&view, stream, u64::MAX)?;
        for part in parts(&starts, printed, end, args.gates) {
            if args.iteration.is_some_and(|wanted| wanted != part.iteration) {
                continue;
            }
            if part.is_first {
                printer.take().into_iter().for_each(Printer::finish);
                if !args.raw && !args.gates {
                    say(format!("── iteration {} ──", part.iteration));
                }
            }
            let printer = printer.get_or_insert_with(|| Printer::new(args.raw, part.format));
            copy(&client, (&view, stream), &part, printer)?;
        }
        printed = end.max(printed);
        let known = args.iteration.is_none_or(|wanted| starts.iter().any(|start| start.iteration == wanted));
        if !known {
            return Err(UserError::usage(format!(
                "loop {} has no iteration {}",
                view.id,
                args.iteration.unwrap_or(0)
            ))
            .hint(format!("it has come to iteration {}", view.iteration)));
        }
        match &mut watch {
            Some(watch) if !is_over => watch.wait(Duration::from_secs(1))?,
            _ => break,
        }
    }
    printer.into_iter().for_each(Printer::finish);
    if let Some(last) = silent.last().filter(|_| !args.raw) {
        let id = &view.id;
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

/// An attempt's part of a stream.
struct Start {
    at: u64,
    iteration: u32,
    format: Format,
}

/// A stretch of a segment that belongs to one attempt.
struct LogPart {
    begin: u64,
    until: u64,
    iteration: u32,
    format: Format,
    /// Whether nothing of the attempt was printed before.
    is_first: bool,
}

/// Where an attempt's part of `stream` begins.
fn attempt(envelope: &Envelope, stream: Channel, formats: &BTreeMap<String, Format>) -> Option<Start> {
    let LoopEvent::AgentStarted { iteration, agent, output, .. } = &envelope.event else { return None };
    let OutputMarks { stdout, stderr, prompt, gates } = output;
    let (at, format) = match stream {
        Channel::Stdout => (stdout, formats.get(agent).copied().unwrap_or_default()),
        Channel::Stderr => (stderr, Format::Text),
        Channel::Prompt => (prompt, Format::Text),
        Channel::Gates => (gates, Format::Text),
    };
    Some(Start { at: *at, iteration: *iteration, format })
}

/// The parts of a segment between `from` and `end`, cut where attempts begin.
fn parts(starts: &[Start], from: u64, end: u64, whole: bool) -> Vec<LogPart> {
    if whole {
        return vec![LogPart {
            begin: from,
            until: end,
            iteration: 0,
            format: Format::Text,
            is_first: false,
        }];
    }
    let part = |(i, start): (usize, &Start)| LogPart {
        begin: start.at.max(from),
        until: starts.get(i + 1).map_or(end, |next| next.at).min(end),
        iteration: start.iteration,
        format: start.format,
        is_first: start.at >= from,
    };
    starts.iter().enumerate().map(part).filter(|part| part.begin < part.until).collect()
}

/// Prints bytes in one of three ways; a reader that went away is no error.
enum Printer {
    Raw,
    /// Lines without what would play with the terminal; holds one that is not whole yet.
    Text(Vec<u8>),
    /// What the events of a CLI say.
    Events(Box<Transcript>),
}

impl Printer {
    fn new(raw: bool, format: Format) -> Self {
        match format {
            _ if raw => Self::Raw,
            Format::Text => Self::Text(Vec::new()),
            format => Self::Events(Box::new(Transcript::new(format))),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let mut stdout = std::io::stdout().lock();
        match self {
            Self::Raw => {
                let _ = stdout.write_all(bytes);
            }
            Self::Text(line) => {
                // Whole lines, so that no escape sequence and no character is cut; a very long one in pieces.
                line.extend_from_slice(bytes);
                let whole = match line.iter().rposition(|b| *b == b'\n') {
                    Some(newline) => newline + 1,
                    None if line.len() > 1 << 20 => line.len(),
                    None => 0,
                };
                let _ = stdout.write_all(readable(&line[..whole]).as_bytes());
                line.drain(..whole);
            }
            Self::Events(transcript) => transcript.push(bytes, &mut show),
        }
    }

    fn finish(self) {
        match self {
            Self::Text(line) if !line.is_empty() => say(readable(&line)),
            Self::Events(transcript) => {
                let told = transcript.finish(&mut show);
                if let Some(ending) = told.ending.filter(|ending| !ending.is_ok) {
                    say(readable(ending.message.as_bytes()));
                }
            }
            Self::Raw | Self::Text(_) => {}
        }
    }
}

fn show(heard: OutputEvent<'_>) {
    if let Some(line) = transcript::readable(heard) {
        // A secret that came in pieces is whole only here.
        let line = secrets().redact(&line).into_owned();
        let _ = std::io::stdout().lock().write_all(readable(line.as_bytes()).as_bytes());
    }
}

fn copy(
    client: &Client,
    (view, stream): (&LoopView, Channel),
    part: &LogPart,
    printer: &mut Printer,
) -> Result<(), UserError> {
    let mut at = part.begin;
    while at < part.until {
        let (mut bytes, _) = client.output(view, stream, at)?;
        bytes.truncate(usize::try_from(part.until - at).unwrap_or(usize::MAX));
        if bytes.is_empty() {
            return Ok(());
        }
        printer.push(&bytes);
        at += bytes.len() as u64;
    }
    Ok(())
}
