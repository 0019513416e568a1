//! What the agent of a session said, read from the file in which its host keeps the session.
//!
//! Each host writes lines of JSON, and each has its own form for the agent's words. A line is recognised by its form, so that one
//! reader serves them all. Only whole messages of the agent itself count: no user's turn, no tool's result, no thinking, no
//! sub-agent, no banner of an error (fault A2).

use jiff::Timestamp;
use memchr::{memchr_iter, memmem};
use serde_json::Value;

use super::{ModelCall, TurnEnd};
use crate::judge::promise::{Detection, PromiseDetector, PromiseRule};

/// What the agent said since the idle before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewWords {
    /// The messages, oldest first.
    pub messages: Vec<String>,
    /// How many bytes of the transcript were whole lines.
    pub read: usize,
    /// Whether the agent has said something that was not known at the idle before.
    pub has_news: bool,
    pub turn: TurnEnd,
    /// What the agent's model was asked for since then, as far as the host tells.
    pub calls: Vec<ModelCall>,
}

/// The words of the agent in `bytes`, which the host added to the transcript since the idle before, and in `last`, the last
/// message as the host hands it to the hook. `before` is the turn of that idle, and nothing that was said before `since` counts.
pub fn new_words(bytes: &[u8], last: Option<&str>, before: Option<TurnEnd>, since: Timestamp) -> NewWords {
    let read = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
    let mut messages = Vec::new();
    let mut from = 0;
    for end in memchr_iter(b'\n', &bytes[..read]) {
        messages.extend(assistant_text(&bytes[from..end], since));
        from = end + 1;
    }
    // The host may have written the words of the turn before after it had called the hook for that turn.
    if let Some(before) = before.filter(|before| !before.in_transcript)
        && let Some(known) = messages
            .iter()
            .position(|message| TurnEnd::ending_with(message, true).last_words == before.last_words)
    {
        messages.drain(..=known);
    }
    let mut has_news = !messages.is_empty();
    let last = last.map(str::trim).filter(|last| !last.is_empty());
    let in_transcript =
        last.is_none_or(|last| messages.last().is_some_and(|message| message.trim().ends_with(last)));
    let ending = last.or(messages.last().map(String::as_str)).unwrap_or_default().to_owned();
    if let Some(last) = last.filter(|_| !in_transcript) {
        messages.push(last.to_owned());
    }
    let turn = TurnEnd::ending_with(&ending, in_transcript);
    has_news |= last.is_some() && before.is_none_or(|before| before.last_words != turn.last_words);
    NewWords { messages, read, has_news, turn, calls: Vec::new() }
}

/// What the agent claims in these messages, none of which repeats `prompt`.
pub fn hear(rule: &PromiseRule, nonce: &str, prompt: &str, messages: &[String]) -> Detection {
    let mut detector = PromiseDetector::new(rule, nonce, prompt);
    for message in messages {
        detector.push_message(message);
    }
    detector.finish()
}

/// The words of the agent in one line of a transcript.
fn assistant_text(line: &[u8], since: Timestamp) -> Option<String> {
    // Long results of tools need not be read to the end.
    memmem::find(line, b"assistant")?;
    let line: Value = serde_json::from_slice(line).ok()?;
    let said_at = line["timestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    if said_at.is_some_and(|at| at < since) {
        return None;
    }
    let text = match line["type"].as_str()? {
        // Claude Code and Qwen Code.
        "assistant" => {
            let is_other = line["isSidechain"] == true
                || line["isApiErrorMessage"] == true
                || line["message"]["model"] == "<synthetic>"
                || line["parent_tool_use_id"].is_string();
            if is_other {
                return None;
            }
            let message = &line["message"];
            texts(&message["content"]).or_else(|| texts(&message["parts"]))?
        }
        // Codex.
        "response_item" => {
            let payload = &line["payload"];
            if payload["type"] != "message" || payload["role"] != "assistant" {
                return None;
            }
            texts(&payload["content"])?
        }
        // Copilot CLI.
        "assistant.message" => line["data"]["content"].as_str()?.to_owned(),
        _ => return None,
    };
    Some(text).filter(|text| !text.trim().is_empty())
}

/// The text of a message that is a string or a list of parts.
fn texts(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let parts = content.as_array()?.iter().filter(|part| {
        let kind = part["type"].as_str();
        part["thought"] != true && matches!(kind, None | Some("text" | "output_text"))
    });
    Some(parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
