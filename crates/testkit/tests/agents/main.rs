//! The output of real CLIs, read: what was said, used and meant, whole, cut and in pieces.

#![allow(clippy::unwrap_used)] // helpers of tests, not tests by their names

mod acp;
mod cut;
mod ledger;
mod table;

use dacapo_core::{
    agent::{
        Format, catalog,
        outcome::{Judged, ProcessEnd, outcome},
        transcript::{OutputEvent, OutputSummary, Transcript, UsageScope},
    },
    event::Usage,
    limits::{Meter, Metered},
};
use dacapo_testkit::recordings::Recording;

/// Something heard, kept.
#[derive(Clone, Debug, PartialEq)]
enum Kept {
    Message(String),
    Tool(String, String),
    Usage(UsageScope, Option<String>, Usage, Option<f64>),
    Written(usize),
    Retry(String),
    Final,
}

impl From<OutputEvent<'_>> for Kept {
    fn from(heard: OutputEvent<'_>) -> Self {
        match heard {
            OutputEvent::Message(words) => Self::Message(words.to_owned()),
            OutputEvent::Tool { name, input } => Self::Tool(name.to_owned(), input.to_owned()),
            OutputEvent::Usage { scope, id, usage, cost_usd } => {
                Self::Usage(scope, id.map(str::to_owned), usage, cost_usd)
            }
            OutputEvent::Written(bytes) => Self::Written(bytes),
            OutputEvent::Retry { detail } => Self::Retry(detail.to_owned()),
            OutputEvent::Final => Self::Final,
        }
    }
}

fn format(recording: &Recording) -> Format {
    catalog::find(recording.agent()).unwrap().format
}

/// What is heard in `chunks`, and told by their end.
fn listen<'a>(format: Format, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Kept>, OutputSummary) {
    let mut kept = Vec::new();
    let mut transcript = Transcript::new(format);
    for chunk in chunks {
        transcript.push(chunk, &mut |heard| kept.push(heard.into()));
    }
    let told = transcript.finish(&mut |heard| kept.push(heard.into()));
    (kept, told)
}

fn messages(kept: &[Kept]) -> Vec<&str> {
    kept.iter()
        .filter_map(|kept| if let Kept::Message(words) = kept { Some(words.as_str()) } else { None })
        .collect()
}

/// What was used by the end, as its ledger has it.
fn used(format: Format, output: &[u8]) -> Metered {
    let mut meter = Meter::new(None, None);
    let mut transcript = Transcript::new(format);
    transcript.push(output, &mut |heard| heard.meter(&mut meter));
    transcript.finish(&mut |heard| heard.meter(&mut meter));
    meter.total()
}

/// How the recorded process ended.
fn end(recording: &Recording) -> ProcessEnd {
    let (agent, what) = recording.name.split_once('-').unwrap();
    let code = |code| ProcessEnd { code: Some(code), signal: None };
    let signal = |signal| ProcessEnd { code: None, signal: Some(signal) };
    match (agent, what) {
        (_, what) if what.contains(".killed") => signal(9),
        ("claude", "truncated-stream") => signal(9),
        ("claude", "killed-by-SIGTERM" | "sigterm-in-stream") => code(143),
        ("claude", "killed-by-SIGINT") => code(0),
        ("codex", "killed-by-SIGINT") => code(1),
        ("gemini", "killed-by-SIGINT" | "killed-by-SIGTERM") => code(0),
        (_, "killed-by-SIGINT") => signal(2),
        (_, "killed-by-SIGTERM" | "sigterm-in-stream") => signal(15),
        ("pi", _) => code(0),
        ("gemini", "auth-error") => code(145),
        ("gemini", "billing" | "context-length") => code(144),
        ("gemini", "rate-limit" | "rate-limit-long" | "usage-limit") => code(173),
        ("gemini", "server-error") => code(244),
        ("gemini", "overloaded") => code(247),
        (_, "max-turns") if agent != "claude" => code(53),
        (_, "rate-limit-then-ok") => code(0),
        (_, what) => {
            const BAD: [&str; 9] = [
                "error",
                "limit",
                "overloaded",
                "billing",
                "context-length",
                "max-",
                "unknown",
                "refused",
                "truncated",
            ];
            code(i32::from(BAD.iter().any(|bad| what.contains(bad))))
        }
    }
}

fn judge(recording: &Recording, told: &OutputSummary) -> Judged {
    outcome(told, &end(recording), &recording.stderr)
}
