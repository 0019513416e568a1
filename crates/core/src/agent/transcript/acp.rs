//! The Agent Client Protocol: what an agent sends while it works on a prompt.
//!
//! Words come in pieces, joined until another kind of update, another message or the end of the turn. What is sent before the
//! session is open is the past of a session that is taken up again.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    Dialect, Ending, EndingKind, TranscriptSink, UsageScope, fields,
    lenient::{Leaf, Many, Maybe, ToolInput},
};
use crate::{
    agent::acp::{AcpRequest, AcpUsage, VERSION},
    event::Usage,
};

/// A message longer than this loses its beginning.
const LONGEST_MESSAGE: usize = 16 << 20;

/// How Copilot begins what it says in the agent's place when its provider does not answer. The turn ends as if all were well.
const BANNER: &str = "Error: Failed to get response from the AI model";

#[derive(Debug)]
pub(super) struct Acp {
    usage: AcpUsage,
    /// What the agent has written since the last update of another kind.
    words: String,
    /// The message that the words belong to, where that is told.
    message: String,
    /// A tool of which only the name is known yet.
    tool: Option<(String, String)>,
    /// Whether the session is being opened.
    is_opening: bool,
    /// What the session has cost. It is told before the tokens that it is for, and would be taken for money beside them.
    cost: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    id: Leaf<'a>,
    method: Leaf<'a>,
    params: Maybe<Params<'a>>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Params<'a> {
    #[serde(rename = "sessionId")]
    session: Leaf<'a>,
    update: Maybe<Update<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Update<'a> {
    #[serde(rename = "sessionUpdate")]
    kind: Leaf<'a>,
    /// A block of a message; of a tool it is a list, and says nothing here.
    content: Maybe<AcpBlock<'a>>,
    #[serde(rename = "messageId")]
    message: Leaf<'a>,
    #[serde(rename = "toolCallId")]
    tool: Leaf<'a>,
    name: Leaf<'a>,
    title: Leaf<'a>,
    #[serde(rename = "kind")]
    tool_kind: Leaf<'a>,
    status: Leaf<'a>,
    #[serde(rename = "rawInput")]
    input: ToolInput,
    cost: Maybe<Cost<'a>>,
    #[serde(rename = "_meta")]
    meta: Maybe<Meta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AcpBlock<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    text: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Cost<'a> {
    amount: Leaf<'a>,
    currency: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Meta<'a> {
    #[serde(rename = "_claude/model")]
    model: Leaf<'a>,
    #[serde(rename = "claudeCode")]
    claude: Maybe<ClaudeMeta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct ClaudeMeta<'a> {
    #[serde(rename = "parentToolUseId")]
    parent: Leaf<'a>,
}

/// The answer to a prompt, or to the opening of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AcpAnswer<'a> {
    #[serde(rename = "protocolVersion")]
    version: Leaf<'a>,
    #[serde(rename = "sessionId")]
    session: Leaf<'a>,
    #[serde(rename = "stopReason")]
    stop: Leaf<'a>,
    usage: Maybe<Tokens<'a>>,
    #[serde(rename = "_meta")]
    meta: Maybe<AnswerMeta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct AnswerMeta<'a> {
    quota: Maybe<Quota<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Quota<'a> {
    token_count: Maybe<Tokens<'a>>,
    model_usage: Many<OfModel<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct OfModel<'a> {
    model: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Tokens<'a> {
    #[serde(rename = "inputTokens", alias = "input_tokens")]
    input: Leaf<'a>,
    #[serde(rename = "outputTokens", alias = "output_tokens")]
    output: Leaf<'a>,
    #[serde(rename = "cachedReadTokens", alias = "cachedInputTokens", alias = "cached_tokens")]
    cache_read: Leaf<'a>,
    #[serde(rename = "cachedWriteTokens")]
    cache_write: Leaf<'a>,
    #[serde(rename = "thoughtTokens", alias = "reasoningOutputTokens")]
    thought: Leaf<'a>,
    #[serde(rename = "totalTokens")]
    total: Leaf<'a>,
}

impl Tokens<'_> {
    fn usage(&self) -> Usage {
        let (input, output) = (self.input.count(), self.output.count());
        let (cache_read, cache_write) = (self.cache_read.count(), self.cache_write.count());
        // Some count what was cached as a part of the input, and then the total has no more than both.
        let is_part = self.total.count() == input + output;
        let input = if is_part { input.saturating_sub(cache_read + cache_write) } else { input };
        Usage { input, output, cache_read, cache_write, reasoning: self.thought.count() }
    }
}

impl Dialect for Acp {
    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        let Some(line) = fields::<Line<'_>>(line) else { return false };
        match (line.method.text(), line.id.whole()) {
            (Some("session/update"), _) if self.is_opening => {}
            (Some("session/update"), _) => {
                let Some(params) = &line.params.0 else { return true };
                sink.session(params.session.text());
                if let Some(update) = &params.update.0 {
                    self.update(update, sink);
                }
            }
            (Some(_), _) => {}
            (None, Some(id)) => match (line.error, line.result) {
                (Some(error), _) => self.failed(AcpRequest::of(id), error, sink),
                (None, result) => {
                    let answer = result.and_then(|result| serde_json::from_str(result.get()).ok());
                    self.answered(AcpRequest::of(id), &answer.unwrap_or_default(), sink);
                }
            },
            (None, None) => return false,
        }
        true
    }

    fn finish(&mut self, sink: &mut TranscriptSink<'_>) {
        self.drop_words(sink);
        self.tell_cost(sink);
    }
}

impl Acp {
    pub(super) fn new(usage: AcpUsage) -> Self {
        Self {
            usage,
            words: String::new(),
            message: String::new(),
            tool: None,
            is_opening: false,
            cost: None,
        }
    }

    fn update(&mut self, update: &Update<'_>, sink: &mut TranscriptSink<'_>) {
        let meta = update.meta.0.as_ref();
        match update.kind.words() {
            "agent_message_chunk" => {
                let is_sub_agent = meta
                    .and_then(|meta| meta.claude.0.as_ref())
                    .is_some_and(|claude| claude.parent.text().is_some());
                if is_sub_agent {
                    return;
                }
                let message = update.message.words();
                if message != self.message {
                    self.complete(sink);
                    message.clone_into(&mut self.message);
                }
                if let Some(block) = update.content.0.as_ref().filter(|block| block.kind.is("text")) {
                    self.piece(block.text.words(), sink);
                }
            }
            "agent_thought_chunk" => {
                self.complete(sink);
                sink.written(update.content.0.as_ref().map_or(0, |block| block.text.words().len()));
            }
            "tool_call" => {
                self.complete(sink);
                self.name_tool(sink);
                let name = [&update.name, &update.tool_kind, &update.title].map(Leaf::text);
                let name = name.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or("tool");
                self.tool = Some((update.tool.words().to_owned(), name.to_owned()));
                self.tool_input(update, sink);
            }
            "tool_call_update" => self.tool_input(update, sink),
            "plan" | "user_message_chunk" => self.complete(sink),
            "usage_update" => {
                sink.model(meta.and_then(|meta| meta.model.text()));
                let cost = update.cost.0.as_ref().filter(|cost| cost.currency.is("USD"));
                if let Some(amount) = cost.and_then(|cost| cost.amount.real()).filter(|amount| *amount > 0.0)
                {
                    sink.usage(UsageScope::Session, None, Usage::default(), Some(amount));
                }
            }
            _ => {}
        }
    }

    fn tell_cost(&mut self, sink: &mut TranscriptSink<'_>) {
        if let Some(cost) = self.cost.take() {
            sink.usage(UsageScope::Session, None, Usage::default(), Some(cost));
        }
    }

    /// Tells of a tool as soon as it is known what it is to do.
    fn tool_input(&mut self, update: &Update<'_>, sink: &mut TranscriptSink<'_>) {
        let is_over = update.status.is("completed") || update.status.is("failed");
        let Some((id, name)) = self.tool.take_if(|(id, _)| id == update.tool.words()) else { return };
        if !update.input.line.is_empty() {
            sink.written(update.input.bytes);
            sink.tool(&name, &update.input);
        } else if is_over {
            let line = super::lenient::one_line(update.title.words());
            sink.tool(&name, &ToolInput { line, bytes: 0 });
        } else {
            self.tool = Some((id, name));
        }
    }

    /// Tells of a tool of which nothing more is going to be known.
    fn name_tool(&mut self, sink: &mut TranscriptSink<'_>) {
        if let Some((_, name)) = self.tool.take() {
            sink.tool(&name, &ToolInput::default());
        }
    }

    fn piece(&mut self, words: &str, sink: &mut TranscriptSink<'_>) {
        self.words.push_str(words);
        if self.words.len() > LONGEST_MESSAGE {
            let cut = self.words.floor_char_boundary(self.words.len() / 2);
            self.words.drain(..cut);
        }
        sink.written(words.len());
    }

    fn complete(&mut self, sink: &mut TranscriptSink<'_>) {
        if !self.words.starts_with(BANNER) {
            sink.message(&self.words);
            self.words.clear();
        }
    }

    fn drop_words(&mut self, sink: &mut TranscriptSink<'_>) {
        sink.summary.unfinished |= !self.words.trim().is_empty();
        self.words.clear();
    }

    fn answered(&mut self, to: Option<AcpRequest>, answer: &AcpAnswer<'_>, sink: &mut TranscriptSink<'_>) {
        match to {
            Some(AcpRequest::Initialize) => {
                self.is_opening = true;
                let version = answer.version.whole();
                if version != Some(VERSION) {
                    let its = version.map_or("another version".to_owned(), |its| format!("version {its}"));
                    let why = format!(
                        "it speaks {its} of the Agent Client Protocol, and dacapo speaks version {VERSION}"
                    );
                    sink.end(Ending::bad(&why).of_kind(Some(EndingKind::Misuse)));
                }
            }
            Some(AcpRequest::GoOn | AcpRequest::NewSession) => {
                self.is_opening = false;
                sink.session(answer.session.text());
            }
            Some(AcpRequest::Prompt) => self.turn_over(answer, sink),
            None => {}
        }
    }

    fn turn_over(&mut self, answer: &AcpAnswer<'_>, sink: &mut TranscriptSink<'_>) {
        self.name_tool(sink);
        let quota = answer.meta.0.as_ref().and_then(|meta| meta.quota.0.as_ref());
        if let Some(model) = quota.and_then(|quota| quota.model_usage.0.first()) {
            sink.model(model.model.text());
        }
        let tokens = answer.usage.0.as_ref().or(quota.and_then(|quota| quota.token_count.0.as_ref()));
        let scope = match self.usage {
            AcpUsage::Turn => Some(UsageScope::Process),
            AcpUsage::Session => Some(UsageScope::Session),
            AcpUsage::Never => None,
        };
        if let (Some(tokens), Some(scope)) = (tokens, scope) {
            sink.usage(scope, None, tokens.usage(), None);
        }
        self.tell_cost(sink);
        let bad = |why: &str| Ending::bad(why);
        match answer.stop.words() {
            "end_turn" if self.words.starts_with(BANNER) => {
                let words = std::mem::take(&mut self.words);
                sink.end(bad(&words));
            }
            "end_turn" => {
                self.complete(sink);
                sink.end(Ending::good());
            }
            "max_turn_requests" => {
                self.complete(sink);
                sink.end(bad("its turns are used up").of_kind(Some(EndingKind::MaxTurns)));
            }
            // Whether dacapo wanted that, the transcript cannot know: it is no end of the agent's own.
            "cancelled" => {
                self.drop_words(sink);
                sink.summary.trouble =
                    Some(bad("the turn was cancelled").of_kind(Some(EndingKind::Interrupted)));
            }
            "max_tokens" => {
                self.drop_words(sink);
                sink.end(bad("the answer was cut off: it is longer than the model may write"));
            }
            "refusal" => {
                self.drop_words(sink);
                sink.end(bad("the model refused to answer"));
            }
            other => {
                self.complete(sink);
                sink.end(bad(&format!("the turn ended with `{}`", super::lenient::one_line(other))));
            }
        }
    }

    fn failed(&mut self, of: Option<AcpRequest>, error: &RawValue, sink: &mut TranscriptSink<'_>) {
        let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
        let ending = ending(&error);
        match of {
            Some(AcpRequest::GoOn) => {
                sink.warn(&format!("a fresh session begins: {}", ending.message));
            }
            Some(_) => {
                self.drop_words(sink);
                sink.end(ending);
            }
            None => {}
        }
    }
}

/// What an error says: the words of its data, if it has some, go before those that every error has.
fn ending(error: &Value) -> Ending {
    let data = &error["data"];
    let message = error["message"].as_str().unwrap_or_default();
    let words = [&data["message"], &data["details"], data]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_else(|| message.strip_prefix("Internal error: ").unwrap_or(message));
    // What the protocol itself has a number for.
    let kind = (error["code"] == -32000).then_some(EndingKind::Auth);
    Ending::bad(words).of_kind(kind).with_status(status(data, 0))
}

/// The status of HTTP in an error's data, however deep codex and others put it.
fn status(data: &Value, depth: usize) -> Option<u16> {
    let fields = data.as_object().filter(|_| depth < 4)?;
    let is_status = |name: &str| ["http_status_code", "statusCode", "status"].contains(&name);
    let own = fields.iter().find(|(name, value)| is_status(name) && value.is_u64());
    own.and_then(|(_, value)| value.as_u64())
        .and_then(|status| u16::try_from(status).ok())
        .filter(|status| (100..600).contains(status))
        .or_else(|| fields.values().find_map(|value| status(value, depth + 1)))
}
