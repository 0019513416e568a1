//! pi: `--mode json`. pi exits 0 also after an error, so its last message says how it ended.

use serde::Deserialize;

use super::{
    Dialect, Ending, EndingKind, TranscriptSink, UsageScope, fields,
    lenient::{Leaf, Many, Maybe, ToolInput},
};
use crate::event::Usage;

#[derive(Debug, Default)]
pub(super) struct Pi {
    /// What the last message ended with, if not well.
    error: Option<Ending>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    id: Leaf<'a>,
    message: Maybe<PiMessage<'a>>,
    #[serde(rename = "assistantMessageEvent")]
    piece: Maybe<Piece<'a>>,
    #[serde(rename = "errorMessage")]
    error_message: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct PiMessage<'a> {
    role: Leaf<'a>,
    model: Leaf<'a>,
    content: Many<Maybe<PiBlock<'a>>>,
    usage: Maybe<Tokens<'a>>,
    stop_reason: Leaf<'a>,
    error_message: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct PiBlock<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    text: Leaf<'a>,
    name: Leaf<'a>,
    arguments: ToolInput,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Piece<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    delta: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Tokens<'a> {
    input: Leaf<'a>,
    output: Leaf<'a>,
    cache_read: Leaf<'a>,
    cache_write: Leaf<'a>,
    cost: Maybe<Cost<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Cost<'a> {
    total: Leaf<'a>,
}

impl Tokens<'_> {
    fn usage(&self) -> Usage {
        Usage {
            input: self.input.count(),
            output: self.output.count(),
            cache_read: self.cache_read.count(),
            cache_write: self.cache_write.count(),
            reasoning: 0,
        }
    }
}

impl Dialect for Pi {
    fn dull(&self) -> &'static [&'static [u8]] {
        &[b"{\"type\":\"tool_execution_", b"{\"type\":\"turn_end\""]
    }

    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        let Some(line) = fields::<Line<'_>>(line) else { return false };
        let Some(kind) = line.kind.text() else { return false };
        match kind {
            "session" => sink.session(line.id.text()),
            "agent_start" => sink.summary.ending = None,
            "message_update" => {
                if let Some(piece) = line.piece.0.filter(|piece| piece.kind.words().ends_with("_delta")) {
                    sink.written(piece.delta.words().len());
                }
            }
            "message_end" => {
                if let Some(message) = line.message.0.filter(|message| message.role.is("assistant")) {
                    self.message(&message, sink);
                }
            }
            "auto_retry_start" => {
                sink.summary.ending = None;
                sink.retry(Ending::bad(line.error_message.words()));
            }
            "agent_end" => match self.error.take() {
                None => sink.end(Ending::good()),
                // It may try again, so nothing says that it is over but its exit.
                error => sink.summary.ending = error,
            },
            _ => {}
        }
        true
    }
}

impl Pi {
    fn message(&mut self, message: &PiMessage<'_>, sink: &mut TranscriptSink<'_>) {
        sink.model(message.model.text());
        if let Some(tokens) = &message.usage.0 {
            let cost = tokens.cost.0.as_ref().and_then(|cost| cost.total.real());
            sink.usage(UsageScope::Call, None, tokens.usage(), cost);
        }
        let blocks = || message.content.0.iter().filter_map(|block| block.0.as_ref());
        let words: String = blocks().filter(|b| b.kind.is("text")).map(|b| b.text.words()).collect();
        let reason = message.stop_reason.words();
        self.error = match reason {
            "error" => Some(Ending::bad(message.error_message.words())),
            "aborted" => Some(Ending::bad("aborted").of_kind(Some(EndingKind::Interrupted))),
            _ => None,
        };
        if self.error.is_some() || reason == "length" {
            sink.summary.unfinished |= !words.trim().is_empty();
            sink.summary.trouble = self.error.clone();
            return;
        }
        sink.message(&words);
        for call in blocks().filter(|block| block.kind.is("toolCall")) {
            sink.tool(call.name.words(), &call.arguments);
        }
    }
}
