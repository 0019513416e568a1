//! The output of real CLIs, read: what was said, used and meant, whole, cut and in pieces.

#![allow(clippy::unwrap_used)] // helpers of tests, not tests by their names

mod cut;
mod ledger;
mod table;

use std::collections::BTreeMap;

use dacapo_core::{
    agent::{
        Format, catalog,
        outcome::{Judged, ProcessEnd, outcome},
        transcript::{Heard, Told, Transcript, UsageScope},
    },
    event::Usage,
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

impl From<Heard<'_>> for Kept {
    fn from(heard: Heard<'_>) -> Self {
        match heard {
            Heard::Message(words) => Self::Message(words.to_owned()),
            Heard::Tool { name, input } => Self::Tool(name.to_owned(), input.to_owned()),
            Heard::Usage { scope, id, usage, cost_usd } => {
                Self::Usage(scope, id.map(str::to_owned), usage, cost_usd)
            }
            Heard::Written(bytes) => Self::Written(bytes),
            Heard::Retry { detail } => Self::Retry(detail.to_owned()),
            Heard::Final => Self::Final,
        }
    }
}

fn format(recording: &Recording) -> Format {
    catalog::find(recording.agent()).unwrap().format
}

/// What is heard in `chunks`, and told by their end.
fn listen<'a>(format: Format, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Kept>, Told) {
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

/// What was used by the end: the widest scope goes first.
fn used(kept: &[Kept]) -> (Usage, Option<f64>) {
    let last = |wanted| {
        kept.iter().rev().find_map(|kept| match kept {
            Kept::Usage(scope, _, usage, cost) if *scope == wanted => Some((*usage, *cost)),
            _ => None,
        })
    };
    last(UsageScope::Session).or_else(|| last(UsageScope::Process)).unwrap_or_else(|| calls(kept))
}

/// The sum of the calls, each once.
fn calls(kept: &[Kept]) -> (Usage, Option<f64>) {
    let mut by_id = BTreeMap::new();
    for (number, kept) in kept.iter().enumerate() {
        if let Kept::Usage(UsageScope::Call, id, usage, cost) = kept {
            by_id.insert(id.clone().unwrap_or_else(|| number.to_string()), (*usage, *cost));
        }
    }
    let mut sum = (Usage::default(), None);
    for (usage, cost) in by_id.into_values() {
        sum.0.add(usage);
        sum.1 = cost.map(|cost| sum.1.unwrap_or(0.0) + cost).or(sum.1);
    }
    sum
}

fn total(usage: Usage) -> u64 {
    usage.input + usage.output + usage.cache_read + usage.cache_write + usage.reasoning
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

fn judge(recording: &Recording, told: &Told) -> Judged {
    outcome(told, &end(recording), &recording.stderr)
}
