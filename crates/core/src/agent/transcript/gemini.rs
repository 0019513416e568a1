//! Gemini CLI: `-o stream-json`.
//!
//! Words come in pieces, and only the next event tells that they are complete. A user's turn is echoed.

use serde::Deserialize;

use super::{
    Dialect, Ending, EndingKind, TranscriptSink, UsageScope, fields,
    lenient::{Leaf, Maybe, ToolInput},
};
use crate::event::Usage;

/// A message longer than this loses its beginning.
const LONGEST_MESSAGE: usize = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Gemini {
    /// What the agent has written since the last event of another kind.
    words: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    session_id: Leaf<'a>,
    model: Leaf<'a>,
    role: Leaf<'a>,
    content: Leaf<'a>,
    delta: Leaf<'a>,
    tool_name: Leaf<'a>,
    parameters: ToolInput,
    severity: Leaf<'a>,
    message: Leaf<'a>,
    status: Leaf<'a>,
    error: Maybe<Failure<'a>>,
    stats: Maybe<Stats<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Failure<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    message: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Stats<'a> {
    total_tokens: Leaf<'a>,
    input_tokens: Leaf<'a>,
    output_tokens: Leaf<'a>,
    cached: Leaf<'a>,
}

impl Stats<'_> {
    /// As Google counts: what was cached is part of the input; what was thought is in the total alone.
    fn usage(&self) -> Usage {
        let (input, output, cached) =
            (self.input_tokens.count(), self.output_tokens.count(), self.cached.count());
        let thought = self.total_tokens.count().saturating_sub(input + output);
        Usage {
            input: input.saturating_sub(cached),
            output: output + thought,
            cache_read: cached,
            cache_write: 0,
            reasoning: thought,
        }
    }
}

impl Dialect for Gemini {
    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        let Some(line) = fields::<Line<'_>>(line) else { return false };
        let Some(kind) = line.kind.text() else { return false };
        match kind {
            "init" => {
                sink.session(line.session_id.text());
                sink.model(line.model.text());
            }
            "message" if line.role.is("assistant") => {
                if line.delta.truth() == Some(true) {
                    self.piece(line.content.words(), sink);
                } else {
                    self.complete(sink);
                    sink.message(line.content.words());
                }
            }
            "tool_use" => {
                self.complete(sink);
                sink.tool(line.tool_name.words(), &line.parameters);
            }
            "tool_result" => self.complete(sink),
            "error" => self.error(&line, sink),
            "result" => self.result(&line, sink),
            _ => {}
        }
        true
    }

    fn finish(&mut self, sink: &mut TranscriptSink<'_>) {
        self.drop_words(sink);
    }
}

impl Gemini {
    fn piece(&mut self, words: &str, sink: &mut TranscriptSink<'_>) {
        self.words.push_str(words);
        if self.words.len() > LONGEST_MESSAGE {
            let cut = self.words.floor_char_boundary(self.words.len() / 2);
            self.words.drain(..cut);
        }
        sink.written(words.len());
    }

    fn complete(&mut self, sink: &mut TranscriptSink<'_>) {
        sink.message(&self.words);
        self.words.clear();
    }

    fn drop_words(&mut self, sink: &mut TranscriptSink<'_>) {
        sink.summary.unfinished |= !self.words.trim().is_empty();
        self.words.clear();
    }

    fn error(&mut self, line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
        let message = line.message.words();
        sink.warn(message);
        if message.starts_with("Agent execution") {
            // A hook had the whole answer and wants another one.
            self.complete(sink);
        } else if message.contains("Loop detected") || !line.severity.is("warning") {
            self.drop_words(sink);
        }
    }

    fn result(&mut self, line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
        if let Some(stats) = &line.stats.0 {
            sink.usage(UsageScope::Process, None, stats.usage(), None);
        }
        if line.status.is("success") {
            self.complete(sink);
            return sink.end(Ending::good());
        }
        self.drop_words(sink);
        let (kind, message) = line.error.0.as_ref().map_or(("", ""), |e| (e.kind.words(), e.message.words()));
        sink.end(Ending::bad(message).of_kind(error_kind(kind)));
    }
}

/// The `type` of an error; most are `unknown`.
fn error_kind(kind: &str) -> Option<EndingKind> {
    Some(match kind {
        "FatalTurnLimitedError" => EndingKind::MaxTurns,
        "FatalAuthenticationError" => EndingKind::Auth,
        "FatalInputError" | "FatalConfigError" | "FatalSandboxError" => EndingKind::Misuse,
        "FatalCancellationError" => EndingKind::Interrupted,
        _ => return None,
    })
}
