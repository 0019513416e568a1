//! `dacapo logs`.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    time::Duration,
};

use clap::Args;
use dacapo_core::{
    event::{Envelope, LoopEvent, OutputMarks},
    text::ansi::readable,
};
use dacapo_engine::{
    store::{Segments, Stream},
    watch::Watch,
};

use super::say;
use crate::{context::Context, error::UserError};

/// Print what the agent printed
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo logs fix-tests --iteration 3 --stderr")]
pub(super) struct LogsArgs {
    /// The loop: its id, the beginning of it, or its task
    id: String,
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
    let store = cx.store()?;
    let view = cx.find(&store, &args.id)?.view;
    let stream = if args.stderr {
        Stream::Stderr
    } else if args.gates {
        Stream::Gates
    } else if args.prompt {
        Stream::Prompt
    } else {
        Stream::Stdout
    };
    let runs = cx.home.runs(&view.project, &view.task);
    let path = Segments::path(&runs, &view.id, stream);
    let cannot =
        |error: std::io::Error| UserError::environment(format!("cannot read `{}`: {error}", path.display()));
    let watch = if args.follow { Watch::folders(&[&runs, cx.home.path()]).ok() } else { None };
    let (mut printed, mut from, mut starts) = (0, 0, Vec::new());
    loop {
        let is_over = store.row(&view.id)?.is_none_or(|row| !row.is_running());
        for envelope in store.events(Some(&view.id), from)? {
            from = envelope.seq + 1;
            starts.extend(attempt(&envelope, stream));
        }
        let mut file = match File::open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(error)),
        };
        if let Some(file) = &mut file {
            let end = file.metadata().map_err(cannot)?.len();
            for (begin, until, iteration) in parts(&starts, printed, end, args.gates) {
                if args.iteration.is_some_and(|wanted| wanted != iteration) {
                    continue;
                }
                let is_new = starts.iter().any(|(at, _)| *at == begin);
                if !args.raw && !args.gates && is_new {
                    say(format!("── iteration {iteration} ──"));
                }
                copy(file, begin, until, args.raw).map_err(cannot)?;
            }
            printed = end;
        }
        let known = args.iteration.is_none_or(|wanted| starts.iter().any(|(_, n)| *n == wanted));
        if !known {
            return Err(UserError::usage(format!(
                "loop {} has no iteration {}",
                view.id,
                args.iteration.unwrap_or(0)
            ))
            .hint(format!("it has come to iteration {}", view.iteration)));
        }
        match &watch {
            Some(watch) if !is_over => watch.wait(Duration::from_secs(1)).map_err(cannot)?,
            _ => return Ok(0),
        }
    }
}

/// Where an attempt's part of `stream` begins.
fn attempt(envelope: &Envelope, stream: Stream) -> Option<(u64, u32)> {
    let LoopEvent::AgentStarted { iteration, output, .. } = &envelope.event else { return None };
    let OutputMarks { stdout, stderr, prompt, gates } = output;
    let at = match stream {
        Stream::Stdout => stdout,
        Stream::Stderr => stderr,
        Stream::Prompt => prompt,
        Stream::Gates => gates,
    };
    Some((*at, *iteration))
}

/// The parts of a segment between `from` and `end`, cut where attempts begin.
fn parts(starts: &[(u64, u32)], from: u64, end: u64, whole: bool) -> Vec<(u64, u64, u32)> {
    if whole {
        return vec![(from, end, 0)];
    }
    starts
        .iter()
        .enumerate()
        .map(|(i, (begin, iteration))| {
            let until = starts.get(i + 1).map_or(end, |(next, _)| *next).min(end);
            ((*begin).max(from), until, *iteration)
        })
        .filter(|(begin, until, _)| begin < until)
        .collect()
}

fn copy(file: &mut File, begin: u64, until: u64, raw: bool) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(begin))?;
    let mut left = file.take(until - begin);
    let mut stdout = std::io::stdout().lock();
    let mut line = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = left.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        if raw {
            // A reader that went away is no error.
            if stdout.write_all(&buffer[..read]).is_err() {
                return Ok(());
            }
            continue;
        }
        // Whole lines, so that no escape sequence and no character is cut; a very long one in pieces.
        line.extend_from_slice(&buffer[..read]);
        let whole = match line.iter().rposition(|b| *b == b'\n') {
            Some(newline) => newline + 1,
            None if line.len() > 1 << 20 => line.len(),
            None => 0,
        };
        if stdout.write_all(readable(&line[..whole]).as_bytes()).is_err() {
            return Ok(());
        }
        line.drain(..whole);
    }
    if !raw && !line.is_empty() {
        let _ = writeln!(stdout, "{}", readable(&line));
    }
    Ok(())
}
