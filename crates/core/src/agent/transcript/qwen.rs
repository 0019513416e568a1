//! Qwen Code: `--output-format stream-json`; Claude's events with a few differences.
//!
//! Every line has an id of its own, the result's usage is the session's, side requests included, and an error is also
//! said in the assistant's place.

use serde::Deserialize;

use super::{
    Dialect, Ending, EndingKind, TranscriptSink, UsageScope,
    claude::{ClaudeMessage, Denial, Tokens, denied},
    fields,
    lenient::{Leaf, Many, Maybe},
};
use crate::event::Usage;

#[derive(Debug)]
pub(super) struct Qwen;

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    subtype: Leaf<'a>,
    session_id: Leaf<'a>,
    parent_tool_use_id: Leaf<'a>,
    model: Leaf<'a>,
    message: Maybe<ClaudeMessage<'a>>,
    data: Maybe<RetryData<'a>>,
    is_error: Leaf<'a>,
    error: Maybe<Failure<'a>>,
    result: Leaf<'a>,
    usage: Maybe<Tokens<'a>>,
    permission_denials: Many<Maybe<Denial<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RetryData<'a> {
    attempt: Leaf<'a>,
    max_retries: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Failure<'a> {
    message: Leaf<'a>,
}

/// As OpenAI counts, in Anthropic's words: what was cached is part of the input.
fn usage(tokens: &Tokens<'_>) -> Usage {
    let usage = tokens.usage();
    Usage { input: usage.input.saturating_sub(usage.cache_read), ..usage }
}

impl Dialect for Qwen {
    fn dull(&self) -> &'static [&'static [u8]] {
        &[b"{\"type\":\"user\""]
    }

    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        let Some(line) = fields::<Line<'_>>(line) else { return false };
        let Some(kind) = line.kind.text() else { return false };
        sink.session(line.session_id.text());
        match kind {
            "system" if line.subtype.is("init") => sink.model(line.model.text()),
            "system" if line.subtype.is("retry") => {
                // The second line of a pair says that the wait is over.
                if let Some(data) = line.data.0.filter(|data| data.attempt.whole().is_some()) {
                    let (attempt, most) = (data.attempt.count(), data.max_retries.count());
                    sink.retry(Ending::bad(&format!("retry {attempt} of {most}")));
                }
            }
            "assistant" => assistant(&line, sink),
            "result" => result(&line, sink),
            _ => {}
        }
        true
    }
}

fn assistant(line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
    let Some(message) = &line.message.0 else { return };
    let used = message.usage.0.as_ref().map(usage).unwrap_or_default();
    let words = message.words();
    if words.starts_with("[API Error: ") && used == Usage::default() {
        sink.summary.trouble = Some(Ending::bad(&words));
        return;
    }
    sink.usage(UsageScope::Call, None, used, None);
    if line.parent_tool_use_id.text().is_some() {
        return;
    }
    sink.model(message.model.text());
    sink.written(words.len());
    sink.message(&words);
    for (name, input) in message.calls() {
        sink.tool(name, input);
    }
}

fn result(line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
    if let Some(tokens) = &line.usage.0 {
        sink.usage(UsageScope::Session, None, usage(tokens), None);
    }
    for denial in line.permission_denials.0.iter().filter_map(|denial| denial.0.as_ref()) {
        sink.warn(&denied(denial));
    }
    let error = line.error.0.as_ref().and_then(|error| error.message.text());
    if !line.is_error.truth().unwrap_or(error.is_some()) {
        return sink.end(Ending::good());
    }
    let kind = line.subtype.is("error_max_turns").then_some(EndingKind::MaxTurns);
    sink.end(Ending::bad(error.or(line.result.text()).unwrap_or_default()).of_kind(kind));
}
