//! OpenCode: `run --format json`.
//!
//! There is no final event of its own: the last step ends for another reason than to call tools.

use serde::Deserialize;

use super::{
    Dialect, Ending, EndingKind, TranscriptSink, UsageScope, fields,
    lenient::{Leaf, Maybe, ToolInput},
};
use crate::{duration::Millis, event::Usage};

#[derive(Debug)]
pub(super) struct Opencode;

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    #[serde(rename = "sessionID")]
    session_id: Leaf<'a>,
    part: Maybe<Part<'a>>,
    error: Maybe<Failure<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Leaf<'a>,
    tool: Leaf<'a>,
    state: Maybe<Call>,
    reason: Leaf<'a>,
    tokens: Maybe<Tokens<'a>>,
    cost: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Call {
    input: ToolInput,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Tokens<'a> {
    input: Leaf<'a>,
    output: Leaf<'a>,
    reasoning: Leaf<'a>,
    cache: Maybe<Cache<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Cache<'a> {
    read: Leaf<'a>,
    write: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Failure<'a> {
    name: Leaf<'a>,
    data: Maybe<FailureData<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct FailureData<'a> {
    message: Leaf<'a>,
    status_code: Leaf<'a>,
    response_body: Leaf<'a>,
    response_headers: Maybe<Headers<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case", bound(deserialize = "'de: 'a"))]
struct Headers<'a> {
    retry_after: Leaf<'a>,
}

/// What a provider wrote about its error.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Body<'a> {
    error: Maybe<BodyError<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct BodyError<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    code: Leaf<'a>,
    resets_at: Leaf<'a>,
    resets_in_seconds: Leaf<'a>,
}

impl Tokens<'_> {
    fn usage(&self) -> Usage {
        let cache = self.cache.0.as_ref();
        Usage {
            input: self.input.count(),
            // What was thought comes beside what was written.
            output: self.output.count() + self.reasoning.count(),
            cache_read: cache.map_or(0, |cache| cache.read.count()),
            cache_write: cache.map_or(0, |cache| cache.write.count()),
            reasoning: self.reasoning.count(),
        }
    }
}

impl Dialect for Opencode {
    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        let Some(line) = fields::<Line<'_>>(line) else { return false };
        let Some(kind) = line.kind.text() else { return false };
        sink.session(line.session_id.text());
        match (kind, &line.part.0) {
            ("step_start", _) => sink.summary.ending = None,
            ("text", Some(part)) => {
                sink.written(part.text.words().len());
                sink.message(part.text.words());
            }
            ("tool_use", Some(part)) => {
                let nothing = ToolInput::default();
                sink.tool(part.tool.words(), part.state.0.as_ref().map_or(&nothing, |call| &call.input));
            }
            ("step_finish", Some(part)) => {
                if let Some(tokens) = &part.tokens.0 {
                    sink.usage(UsageScope::Call, None, tokens.usage(), part.cost.real());
                }
                if !part.reason.is("tool-calls") {
                    sink.end(Ending::good());
                }
            }
            // It may go on after an error, so nothing says that it is over but its exit.
            ("error", _) => {
                sink.summary.ending = Some(line.error.0.as_ref().map(failure).unwrap_or_default())
            }
            _ => {}
        }
        true
    }
}

fn failure(failure: &Failure<'_>) -> Ending {
    let name = failure.name.words();
    let Some(data) = &failure.data.0 else { return Ending::bad(name) };
    let message = data.message.text().filter(|message| !message.is_empty()).unwrap_or(name);
    let body = data.response_body.text().and_then(|body| fields::<Body<'_>>(body.as_bytes()));
    let body = body.and_then(|body| body.error.0).unwrap_or_default();
    let is = |word: &str| body.kind.is(word) || body.code.is(word);
    let kind = match name {
        "ProviderAuthError" => Some(EndingKind::Auth),
        "ContextOverflowError" => Some(EndingKind::PromptTooLong),
        "MessageAbortedError" => Some(EndingKind::Interrupted),
        _ if is("usage_limit_reached") => Some(EndingKind::UsageLimit),
        _ if is("insufficient_quota") => Some(EndingKind::Billing),
        _ if is("context_length_exceeded") => Some(EndingKind::PromptTooLong),
        _ => None,
    };
    let seconds = [
        body.resets_in_seconds.whole(),
        data.response_headers.0.as_ref().and_then(|headers| headers.retry_after.whole()),
    ];
    Ending {
        reset_at: body.resets_at.whole(),
        retry_after: seconds.into_iter().flatten().find_map(|s| u64::try_from(s).ok()).map(seconds_of),
        ..Ending::bad(message).with_status(data.status_code.status()).of_kind(kind)
    }
}

fn seconds_of(seconds: u64) -> Millis {
    Millis(seconds.saturating_mul(1000))
}
