//! Claude Code: `--output-format stream-json --verbose`.
//!
//! One line per finished content block; several share a message's id and repeat its usage. `subtype` says "success"
//! of failures too, so the end is read from `is_error` and `terminal_reason`.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;

use super::{
    Dialect, Ending, EndingKind, TranscriptSink, UsageScope, fields,
    lenient::{Leaf, Many, Maybe, ToolInput},
    quick::{self, quick_fields},
};
use crate::event::Usage;

/// The model that banners of errors are put down to.
const SYNTHETIC: &str = "<synthetic>";

#[derive(Debug, Default)]
pub(super) struct Claude {
    /// The message that comes in pieces.
    message: String,
    /// What earlier turns of this process have used.
    used: Usage,
    cost_usd: f64,
    reset_at: Option<i64>,
    /// The last thing said was a banner.
    banner: Option<Ending>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    subtype: Leaf<'a>,
    session_id: Leaf<'a>,
    model: Leaf<'a>,
    #[serde(rename = "apiKeySource")]
    key_source: Leaf<'a>,
    event: Maybe<StreamEvent<'a>>,
    // Notices.
    key: Leaf<'a>,
    text: Leaf<'a>,
    rate_limit_info: Maybe<RateLimit<'a>>,
    // Errors and retries.
    error: Leaf<'a>,
    error_status: Leaf<'a>,
    attempt: Leaf<'a>,
    max_retries: Leaf<'a>,
    // The result.
    is_error: Leaf<'a>,
    api_error: Leaf<'a>,
    api_error_status: Leaf<'a>,
    terminal_reason: Leaf<'a>,
    result: Leaf<'a>,
    errors: Many<Leaf<'a>>,
    usage: Maybe<Tokens<'a>>,
    total_cost_usd: Leaf<'a>,
    model_usage_since_last_result: Maybe<BTreeMap<Cow<'a, str>, Maybe<ModelTokens<'a>>>>,
    permission_denials: Many<Maybe<Denial<'a>>>,
}

/// What matters of a line with a message. Nearly all lines of a long run have one, and few fields are read sooner than all
/// that a line may have.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AssistantLine<'a> {
    session_id: Leaf<'a>,
    parent_tool_use_id: Leaf<'a>,
    message: Maybe<ClaudeMessage<'a>>,
    error: Leaf<'a>,
    is_api_error_message: Leaf<'a>,
    api_error_status: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeMessage<'a> {
    pub(super) id: Leaf<'a>,
    pub(super) model: Leaf<'a>,
    pub(super) content: Many<Maybe<ClaudeBlock<'a>>>,
    pub(super) usage: Maybe<Tokens<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ClaudeBlock<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    text: Leaf<'a>,
    thinking: Leaf<'a>,
    name: Leaf<'a>,
    input: ToolInput,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Tokens<'a> {
    input_tokens: Leaf<'a>,
    output_tokens: Leaf<'a>,
    cache_read_input_tokens: Leaf<'a>,
    cache_creation_input_tokens: Leaf<'a>,
    output_tokens_details: Maybe<Details<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Details<'a> {
    thinking_tokens: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ModelTokens<'a> {
    input_tokens: Leaf<'a>,
    output_tokens: Leaf<'a>,
    cache_read_input_tokens: Leaf<'a>,
    cache_creation_input_tokens: Leaf<'a>,
    thinking_tokens: Leaf<'a>,
    #[serde(rename = "costUSD")]
    cost_usd: Leaf<'a>,
}

/// A piece of a message, with `--include-partial-messages`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StreamEvent<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    message: Maybe<ClaudeMessage<'a>>,
    delta: Maybe<Delta<'a>>,
    usage: Maybe<Tokens<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    text: Leaf<'a>,
    thinking: Leaf<'a>,
    partial_json: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RateLimit<'a> {
    status: Leaf<'a>,
    resets_at: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Denial<'a> {
    tool_name: Leaf<'a>,
}

quick_fields!(AssistantLine {
    "session_id" => session_id,
    "parent_tool_use_id" => parent_tool_use_id,
    "message" => message,
    "error" => error,
    "is_api_error_message" => is_api_error_message,
    "api_error_status" => api_error_status,
});
quick_fields!(ClaudeMessage { "id" => id, "model" => model, "content" => content, "usage" => usage });
quick_fields!(ClaudeBlock { "type" => kind, "text" => text, "thinking" => thinking, "name" => name, "input" => input });
quick_fields!(Tokens {
    "input_tokens" => input_tokens,
    "output_tokens" => output_tokens,
    "cache_read_input_tokens" => cache_read_input_tokens,
    "cache_creation_input_tokens" => cache_creation_input_tokens,
    "output_tokens_details" => output_tokens_details,
});
quick_fields!(Details { "thinking_tokens" => thinking_tokens });

impl Tokens<'_> {
    /// As Anthropic counts: input without what was cached, output with what was thought.
    pub(super) fn usage(&self) -> Usage {
        let thought =
            self.output_tokens_details.0.as_ref().map_or(0, |details| details.thinking_tokens.count());
        Usage {
            input: self.input_tokens.count(),
            output: self.output_tokens.count(),
            cache_read: self.cache_read_input_tokens.count(),
            cache_write: self.cache_creation_input_tokens.count(),
            reasoning: thought,
        }
    }
}

impl ModelTokens<'_> {
    fn usage(&self) -> Usage {
        Usage {
            input: self.input_tokens.count(),
            output: self.output_tokens.count(),
            cache_read: self.cache_read_input_tokens.count(),
            cache_write: self.cache_creation_input_tokens.count(),
            reasoning: self.thinking_tokens.count(),
        }
    }
}

impl ClaudeMessage<'_> {
    /// The words of all blocks.
    pub(super) fn words(&self) -> Cow<'_, str> {
        let mut texts = self.blocks().filter(|block| block.kind.is("text")).map(|block| block.text.words());
        let first = texts.next().unwrap_or_default();
        texts.fold(Cow::Borrowed(first), |words, text| words + text)
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = &ClaudeBlock<'_>> {
        self.content.0.iter().filter_map(|block| block.0.as_ref())
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = (&str, &ToolInput)> {
        self.blocks()
            .filter(|block| block.kind.text().is_some_and(|kind| kind.ends_with("tool_use")))
            .map(|block| (block.name.words(), &block.input))
    }

    /// How much the model wrote, shown or not.
    fn bytes(&self) -> usize {
        self.blocks().map(|b| b.text.words().len() + b.thinking.words().len() + b.input.bytes).sum()
    }
}

impl Dialect for Claude {
    fn dull(&self) -> &'static [&'static [u8]] {
        // A user's turns: tool results, most of them, and most of all bytes.
        &[b"{\"type\":\"user\""]
    }

    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        if line.starts_with(b"{\"type\":\"assistant\"") {
            return self.assistant(line, sink);
        }
        let bytes = line;
        let Some(line) = fields::<Line<'_>>(bytes) else { return false };
        let Some(kind) = line.kind.text() else { return false };
        if kind == "assistant" {
            // Written with other spaces, or in another order.
            return self.assistant(bytes, sink);
        }
        sink.session(line.session_id.text());
        match kind {
            "stream_event" => self.piece(&line, sink),
            "system" => notice(&line, sink),
            "rate_limit_event" => {
                let rejected = line.rate_limit_info.0.filter(|info| info.status.is("rejected"));
                self.reset_at = rejected.and_then(|info| info.resets_at.whole()).or(self.reset_at);
            }
            "result" => self.result(&line, sink),
            _ => {}
        }
        true
    }
}

impl Claude {
    /// Reads a line with a message; says whether it is whole.
    fn assistant(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        // These are nearly all lines of a long run.
        let Some(line) = quick::read(line).or_else(|| fields::<AssistantLine<'_>>(line)) else {
            return false;
        };
        sink.session(line.session_id.text());
        self.message(&line, sink);
        true
    }

    fn message(&mut self, line: &AssistantLine<'_>, sink: &mut TranscriptSink<'_>) {
        let Some(message) = &line.message.0 else { return };
        if message.model.is(SYNTHETIC) || line.is_api_error_message.truth() == Some(true) {
            let error = Ending::bad(&message.words())
                .with_status(line.api_error_status.status())
                .of_kind(line.error.text().and_then(error_kind));
            self.banner = Some(error.clone());
            sink.summary.trouble = Some(error);
            return;
        }
        self.banner = None;
        let id = message.id.text();
        if let Some(tokens) = &message.usage.0 {
            sink.usage(UsageScope::Call, id, tokens.usage(), None);
        }
        if id != Some(&self.message) {
            sink.written(message.bytes());
        }
        // A sub-agent's tokens cost money, but its words are not the agent's.
        if line.parent_tool_use_id.text().is_some() {
            return;
        }
        sink.model(message.model.text());
        sink.message(&message.words());
        for (name, input) in message.calls() {
            sink.tool(name, input);
        }
    }

    fn piece(&mut self, line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
        let Some(event) = &line.event.0 else { return };
        if let Some(message) = &event.message.0 {
            self.message = message.id.words().to_owned();
        }
        if let Some(delta) = &event.delta.0 {
            let texts = [&delta.text, &delta.thinking, &delta.partial_json];
            sink.written(texts.iter().map(|text| text.words().len()).sum());
        }
        if event.kind.is("message_delta")
            && let Some(tokens) = &event.usage.0
        {
            let id = Some(self.message.as_str()).filter(|id| !id.is_empty());
            sink.usage(UsageScope::Call, id, tokens.usage(), None);
        }
    }

    fn result(&mut self, line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
        self.count(line, sink);
        for tool in line.permission_denials.0.iter().filter_map(|denial| denial.0.as_ref()) {
            sink.warn(&denied(tool));
        }
        let reason = line.terminal_reason.words();
        let errors: Vec<&str> = line.errors.0.iter().filter_map(Leaf::text).collect();
        let kind = match reason {
            "max_turns" => Some(EndingKind::MaxTurns),
            "budget_exhausted" => Some(EndingKind::Budget),
            "prompt_too_long" => Some(EndingKind::PromptTooLong),
            _ if reason.starts_with("aborted") => Some(EndingKind::Interrupted),
            _ if line.api_error.is("usage_limit_reached") => Some(EndingKind::UsageLimit),
            // Before 2.1 these came without `is_error`.
            _ if line.subtype.is("error_max_turns") => Some(EndingKind::MaxTurns),
            _ => None,
        };
        let is_error = line.is_error.truth().unwrap_or(!errors.is_empty());
        let banner = self.banner.take();
        if !is_error && kind.is_none() && banner.is_none() {
            return sink.end(Ending::good());
        }
        let message = match (&*errors, line.result.text(), &banner) {
            ([_, ..], _, _) => errors.join("; "),
            (_, Some(result), _) if is_error => result.to_owned(),
            (_, _, Some(banner)) => banner.message.clone(),
            (_, result, _) => result.unwrap_or_default().to_owned(),
        };
        let banner = banner.unwrap_or_default();
        let ending = Ending::bad(&message)
            .with_status(banner.status)
            .with_status(line.api_error_status.status())
            .of_kind(banner.kind)
            .of_kind(kind);
        sink.end(Ending { reset_at: self.reset_at, ..ending });
    }

    /// The process's total. `usage` leaves out a turn that was broken off, so the sum over the models goes first;
    /// `total_cost_usd` is the session's.
    fn count(&mut self, line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
        if let Some(models) = &line.model_usage_since_last_result.0 {
            for model in models.values().filter_map(|model| model.0.as_ref()) {
                self.used.add(model.usage());
                self.cost_usd += model.cost_usd.real().unwrap_or(0.0);
            }
            sink.usage(UsageScope::Process, None, self.used, Some(self.cost_usd));
        } else if let Some(tokens) = &line.usage.0 {
            self.used.add(tokens.usage());
            sink.usage(UsageScope::Process, None, self.used, None);
            if let Some(cost) = line.total_cost_usd.real() {
                sink.usage(UsageScope::Session, None, Usage::default(), Some(cost));
            }
        }
    }
}

/// What was wanted and not allowed.
pub(super) fn denied(denial: &Denial<'_>) -> String {
    format!("the agent was not allowed to use {}", denial.tool_name.text().unwrap_or("a tool"))
}

fn notice(line: &Line<'_>, sink: &mut TranscriptSink<'_>) {
    match line.subtype.words() {
        "init" => {
            sink.model(line.model.text());
            // Signed in without a key: a plan pays, and what is reported is what it would have cost.
            sink.subscription(line.key_source.is("none"));
        }
        "api_retry" => {
            let error = line.error.text().unwrap_or("unknown error");
            let status = line.error_status.status();
            let named = status.map_or_else(String::new, |status| format!("{status} "));
            let (attempt, most) = (line.attempt.count(), line.max_retries.count());
            let detail = format!("{named}{error}, retry {attempt} of {most}");
            sink.retry(Ending::bad(&detail).with_status(status).of_kind(error_kind(error)));
        }
        "notification" if line.key.is("stop-hook-block-cap") => sink.warn(line.text.words()),
        _ => {}
    }
}

/// The `error` of an assistant's line or a retry.
fn error_kind(error: &str) -> Option<EndingKind> {
    Some(match error {
        "authentication_failed" => EndingKind::Auth,
        "rate_limit" => EndingKind::RateLimit,
        "server_error" | "overloaded" => EndingKind::Overload,
        "billing_error" => EndingKind::Billing,
        "model_not_found" => EndingKind::Misuse,
        _ => return None,
    })
}
