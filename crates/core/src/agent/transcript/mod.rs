//! What an agent's CLI prints as events, read as it arrives.
//!
//! Each format is a file: fields in, things [`OutputEvent`] and [`OutputSummary`] out. Only what the agent itself wrote becomes a
//! [`OutputEvent::Message`]; what a line says of the process's end waits in [`OutputSummary::ending`] for [`super::outcome`].

mod acp;
mod claude;
mod codex;
mod copilot;
mod gemini;
mod lenient;
mod lines;
mod opencode;
mod pi;
mod quick;
mod qwen;
mod readable;
mod repair;
mod sink;

use memchr::memmem;
use serde::Deserialize;

pub(super) use self::lines::Lines;
pub use self::readable::{TranscriptEntry, readable};
use self::sink::TranscriptSink;
use super::command::Format;
pub use crate::limits::UsageScope;
use crate::{duration::Millis, event::Usage, limits::Meter};

/// Something in an agent's output, as soon as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OutputEvent<'a> {
    /// Words of the agent, complete and joined over their pieces; never a user's turn, a tool's result, thinking,
    /// an error's banner, a sub-agent's words, or something cut off.
    Message(&'a str),
    /// The agent called a tool.
    Tool {
        name: &'a str,
        /// What it is to do, in one short line.
        input: &'a str,
    },
    Usage {
        /// What they are the sum of.
        scope: UsageScope,
        /// The message they belong to, where its tokens are reported more than once.
        id: Option<&'a str>,
        usage: Usage,
        /// What the CLI says they cost, in the same scope.
        cost_usd: Option<f64>,
    },
    /// The model wrote this many more bytes, shown or not: for an estimate until its tokens are reported.
    Written(usize),
    /// The CLI asks its provider again by itself.
    Retry { detail: &'a str },
    /// The CLI has nothing left to do but exit.
    Final,
}

impl OutputEvent<'_> {
    /// Enters it in the ledger of its attempt, if it counts.
    pub fn meter(&self, meter: &mut Meter) {
        match *self {
            Self::Usage { id: Some(id), usage, .. } => meter.report_message(id, usage),
            Self::Usage { scope, usage, cost_usd: Some(cost), .. } if usage == Usage::default() => {
                meter.report_cost(scope, cost);
            }
            Self::Usage { scope, usage, cost_usd, .. } => meter.report(scope, usage, cost_usd),
            Self::Written(bytes) => meter.estimate(bytes as u64),
            Self::Message(_) | Self::Tool { .. } | Self::Retry { .. } | Self::Final => {}
        }
    }
}

/// What an agent's output has told by its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputSummary {
    /// The session, to continue it.
    pub session: Option<String>,
    pub model: Option<String>,
    /// Whether a plan pays, so that what is said of money is an estimate.
    pub is_subscription: bool,
    /// What the final event says. An agent that ended without one ended abnormally, even with exit code 0.
    pub ending: Option<Ending>,
    /// The last error that nothing good has followed; explains an end without a final event.
    pub trouble: Option<Ending>,
    /// Things a person should know, each once.
    pub warnings: Vec<String>,
    /// Whether there was any event at all.
    pub saw_event: bool,
    /// The last line before any event: what a CLI says that cannot even begin.
    pub stray: Option<String>,
    /// Lines that were too long to be read.
    pub skipped_lines: u64,
    /// Whether words were left out because they were cut off.
    pub unfinished: bool,
}

/// What a final event, or an error, says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// Whether the agent finished by itself.
    pub is_ok: bool,
    /// The status of HTTP that the provider answered with, where the CLI has a field for it.
    pub status: Option<u16>,
    /// The kind of error, where the CLI names it.
    pub kind: Option<EndingKind>,
    /// The error in words; empty where there is none.
    pub message: String,
    /// When a limit ends, in seconds since 1970.
    pub reset_at: Option<i64>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Millis>,
}

/// A kind of error that a CLI names in a field of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingKind {
    /// Its turns are used up.
    MaxTurns,
    /// The budget that it was given itself is used up.
    Budget,
    /// The prompt does not fit the model.
    PromptTooLong,
    /// The user's plan is used up until a time.
    UsageLimit,
    RateLimit,
    /// The provider is overloaded or broken.
    Overload,
    /// The provider cannot be reached.
    Network,
    /// The user is not signed in.
    Auth,
    /// The account has no money.
    Billing,
    Permission,
    /// It does not know the model, or the session, or what it was asked for.
    Misuse,
    Interrupted,
}

/// Reads an agent's standard output.
#[derive(Debug)]
pub struct Transcript {
    lines: Lines,
    dialect: Box<dyn Dialect>,
    summary: OutputSummary,
}

/// How one CLI puts things.
trait Dialect: std::fmt::Debug + Send {
    /// Lines that begin like this are never looked at.
    fn dull(&self) -> &'static [&'static [u8]] {
        &[]
    }
    /// Reads one event; `false` if it is none.
    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool;
    /// The output is over.
    fn finish(&mut self, _sink: &mut TranscriptSink<'_>) {}
}

impl Transcript {
    /// A reader for what `format` looks like. [`Format::Text`] has no events: all of it is words, and nothing is heard.
    pub fn new(format: Format) -> Self {
        let dialect: Box<dyn Dialect> = match format {
            Format::Text => Box::new(Silent),
            Format::Claude => Box::new(claude::Claude::default()),
            Format::Codex => Box::new(codex::Codex::default()),
            Format::Gemini => Box::new(gemini::Gemini::default()),
            Format::Opencode => Box::new(opencode::Opencode),
            Format::Qwen => Box::new(qwen::Qwen),
            Format::Copilot => Box::new(copilot::Copilot::default()),
            Format::Pi => Box::new(pi::Pi::default()),
            Format::Acp(usage) => Box::new(acp::Acp::new(usage)),
        };
        Self { lines: Lines::new(dialect.dull()), dialect, summary: OutputSummary::default() }
    }

    /// Reads the next bytes, which may end anywhere, and tells what was heard in them.
    pub fn push(&mut self, bytes: &[u8], heard: &mut dyn FnMut(OutputEvent<'_>)) {
        let mut sink = TranscriptSink::new(heard, &mut self.summary);
        let dialect = &mut *self.dialect;
        self.lines.push(bytes, &mut |line| read(dialect, line, &mut sink));
    }

    /// Whether a plan pays for it, once that is known.
    pub fn is_subscription(&self) -> bool {
        self.summary.is_subscription
    }

    /// The model that answers, once it is known.
    pub fn model(&self) -> Option<&str> {
        self.summary.model.as_deref()
    }

    /// The output is over.
    pub fn finish(mut self, heard: &mut dyn FnMut(OutputEvent<'_>)) -> OutputSummary {
        let mut sink = TranscriptSink::new(heard, &mut self.summary);
        let dialect = &mut *self.dialect;
        self.lines.finish(&mut |line| read(dialect, line, &mut sink));
        dialect.finish(&mut sink);
        self.summary.skipped_lines = self.lines.skipped();
        if self.summary.skipped_lines > 0 {
            let text = format!("{} lines of its output were too long to be read", self.summary.skipped_lines);
            TranscriptSink::new(heard, &mut self.summary).warn(&text);
        }
        self.summary
    }
}

fn read(dialect: &mut dyn Dialect, line: &[u8], sink: &mut TranscriptSink<'_>) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    if read_event(dialect, line, sink) {
        sink.summary.saw_event = true;
    } else if !sink.summary.saw_event {
        sink.summary.stray = Some(lenient::one_line(&String::from_utf8_lossy(line)));
    }
}

fn read_event(dialect: &mut dyn Dialect, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
    let start = match line.first() {
        Some(b'{') => 0,
        _ if sink.summary.saw_event => return false,
        // A banner may stand before the first event, even on its line.
        _ => match memmem::find(line, b"{\"") {
            Some(start) => start,
            None => return false,
        },
    };
    let line = &line[start..];
    dialect.read(line, sink)
        || repair::repaired(line).is_some_and(|repaired| dialect.read(repaired.as_bytes(), sink))
}

/// The fields of an event; nothing if the line is not whole.
fn fields<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

#[derive(Debug)]
struct Silent;

impl Dialect for Silent {
    fn read(&mut self, _line: &[u8], _sink: &mut TranscriptSink<'_>) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
