//! The protocols of the providers: one file each says how an answer is put into its words.

mod chat;
mod gemini;
mod messages;
mod responses;

use serde_json::Value;

use super::{tool::ResolvedCall, turn::Usage};

/// How many characters a delta of text has: few, so that promises and paths come in pieces.
const DELTA: usize = 12;

/// What a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Messages,
    Responses,
    /// OpenAI's older one, which many others speak too.
    Chat,
    Gemini,
}

/// A server-sent event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    name: Option<String>,
    data: String,
}

impl Event {
    pub(super) fn named(name: &str, data: &Value) -> Self {
        Self { name: Some(name.to_owned()), data: data.to_string() }
    }

    pub(super) fn unnamed(data: &Value) -> Self {
        Self { name: None, data: data.to_string() }
    }

    /// As it goes over the wire.
    pub(super) fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("event: {name}\n")).unwrap_or_default();
        format!("{name}data: {}\n\n", self.data)
    }
}

/// A turn whose tool calls fit what the agent offers.
pub(super) struct Answer<'a> {
    /// Unique among all answers, for the ids in it.
    pub(super) id: String,
    pub(super) model: &'a str,
    pub(super) parts: Vec<AnswerPart<'a>>,
    pub(super) usage: Usage,
}

pub(super) enum AnswerPart<'a> {
    Think(&'a str),
    Say(&'a str),
    Call(ResolvedCall),
}

impl Answer<'_> {
    fn calls(&self) -> impl Iterator<Item = &ResolvedCall> {
        self.parts.iter().filter_map(|part| match part {
            AnswerPart::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// An answer as a stream and as one document.
pub(super) struct Encoded {
    pub(super) events: Vec<Event>,
    pub(super) whole: Value,
}

impl Protocol {
    pub(super) fn encode(self, answer: &Answer<'_>) -> Encoded {
        match self {
            Self::Messages => messages::encode(answer),
            Self::Responses => responses::encode(answer),
            Self::Chat => chat::encode(answer),
            Self::Gemini => gemini::encode(answer),
        }
    }
}

/// The text in pieces as a stream has them.
fn deltas(text: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = characters.chunks(DELTA).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}
