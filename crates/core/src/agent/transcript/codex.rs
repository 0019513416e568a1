//! Codex: `exec --json`.
//!
//! An item of type `error` is a warning and stands in every good run; a top-level `error` is a retry or comes before
//! the end; only `turn.failed` is a failure.

use serde::Deserialize;

use super::{
    Dialect, Ending, TranscriptSink, UsageScope, fields,
    lenient::{Leaf, Many, Maybe, ToolInput, one_line},
};
use crate::event::Usage;

#[derive(Debug, Default)]
pub(super) struct Codex {
    /// Tools that were told of when they began.
    begun: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    thread_id: Leaf<'a>,
    item: Maybe<CodexItem<'a>>,
    message: Leaf<'a>,
    error: Maybe<Failure<'a>>,
    usage: Maybe<Tokens<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CodexItem<'a> {
    id: Leaf<'a>,
    #[serde(rename = "type")]
    kind: Leaf<'a>,
    text: Leaf<'a>,
    message: Leaf<'a>,
    command: Leaf<'a>,
    tool: Leaf<'a>,
    query: Leaf<'a>,
    arguments: ToolInput,
    changes: Many<Maybe<Change<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Change<'a> {
    path: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Failure<'a> {
    message: Leaf<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Tokens<'a> {
    input_tokens: Leaf<'a>,
    cached_input_tokens: Leaf<'a>,
    cache_write_input_tokens: Leaf<'a>,
    output_tokens: Leaf<'a>,
    reasoning_output_tokens: Leaf<'a>,
}

impl Tokens<'_> {
    /// As OpenAI counts: what was cached is part of the input, what was thought part of the output.
    fn usage(&self) -> Usage {
        let (cache_read, cache_write) =
            (self.cached_input_tokens.count(), self.cache_write_input_tokens.count());
        Usage {
            input: self.input_tokens.count().saturating_sub(cache_read + cache_write),
            output: self.output_tokens.count(),
            cache_read,
            cache_write,
            reasoning: self.reasoning_output_tokens.count(),
        }
    }
}

impl Dialect for Codex {
    fn read(&mut self, line: &[u8], sink: &mut TranscriptSink<'_>) -> bool {
        let Some(line) = fields::<Line<'_>>(line) else { return false };
        let Some(kind) = line.kind.text() else { return false };
        match kind {
            "thread.started" => sink.session(line.thread_id.text()),
            "item.started" | "item.completed" => {
                if let Some(item) = &line.item.0 {
                    self.item(item, kind == "item.completed", sink);
                }
            }
            "error" => {
                let message = line.message.words();
                if message.starts_with("Reconnecting") {
                    sink.retry(Ending::bad(message));
                } else {
                    sink.summary.trouble = Some(Ending::bad(message));
                }
            }
            "turn.completed" => {
                if let Some(tokens) = &line.usage.0 {
                    sink.usage(UsageScope::Session, None, tokens.usage(), None);
                }
                sink.end(Ending::good());
            }
            "turn.failed" => {
                let told = line.error.0.as_ref().map_or("", |error| error.message.words());
                sink.end(Ending::bad(told));
            }
            _ => {}
        }
        true
    }
}

impl Codex {
    fn item(&mut self, item: &CodexItem<'_>, is_complete: bool, sink: &mut TranscriptSink<'_>) {
        match item.kind.words() {
            "agent_message" => {
                if is_complete {
                    sink.written(item.text.words().len());
                    sink.message(item.text.words());
                }
            }
            "error" => sink.warn(item.message.words()),
            // A plan is neither words nor a deed.
            "reasoning" | "todo_list" | "" => {}
            kind => {
                let id = item.id.words();
                let was_told = self.begun.iter().position(|begun| begun == id);
                match (was_told, is_complete) {
                    (Some(at), true) => {
                        self.begun.swap_remove(at);
                    }
                    (Some(_), false) => {}
                    (None, is_complete) => {
                        if !is_complete {
                            self.begun.push(id.to_owned());
                        }
                        tool(kind, item, sink);
                    }
                }
            }
        }
    }
}

fn tool(kind: &str, item: &CodexItem<'_>, sink: &mut TranscriptSink<'_>) {
    let path =
        item.changes.0.first().and_then(|change| change.0.as_ref()).and_then(|change| change.path.text());
    let line = item
        .command
        .text()
        .or(item.query.text())
        .or(path)
        .map_or_else(|| item.arguments.line.clone(), one_line);
    let name = item.tool.text().unwrap_or(match kind {
        "command_execution" => "shell",
        "file_change" => "edit",
        kind => kind,
    });
    sink.tool(name, &ToolInput { line, bytes: 0 });
}
