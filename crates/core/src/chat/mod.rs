//! Messages in and out: what a message of a chat asks for, what a run says to a chat, and in which form a service takes it.
//!
//! ```text
//!  service ─► Incoming ─► command ─► decide ─► Start, Answer, Steer, Cancel, Say, Route
//!  run's events ─► workflow::told ─► ChatMessage ─► markup: a text that the service shows as it is ─► service
//!                                                    delivery: sent, tried again, dropped
//! ```
//!
//! Nothing here knows a service's address or its token; `dacapo-serve` talks to them.

mod command;
mod decide;
mod delivery;
mod markup;
mod route;
mod words;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

pub use command::{ChatCommand, parse};
pub use decide::{ChatAct, ChatFacts, ChatQuestion, ChatRun, KnownWorkflow, decide};
pub use delivery::{AfterSend, MAX_TRIES, SendProblem, after_send};
pub use markup::{Bold, Service, incoming, neutral, outgoing, pieces_for};
pub use route::{chosen, prompt as route_prompt};
pub use words::{held, interrupted, lost, which};

/// The longest message that is taken from a chat, in characters.
pub const LONGEST_INCOMING: usize = 16_000;

/// One conversation of one adapter: a chat, a channel, or a thread in a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Conversation {
    /// `test`, `webhook`, `slack`, `telegram` or `discord`.
    pub adapter: String,
    /// As the adapter names it; a thread is `channel/thread`.
    pub id: String,
}

impl Conversation {
    pub fn new(adapter: impl Into<String>, id: impl Into<String>) -> Self {
        Self { adapter: adapter.into(), id: id.into() }
    }

    /// The channel that it is in, or that it is.
    pub fn channel(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// Whether `other` is in the same channel of the same service.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.adapter == other.adapter && self.channel() == other.channel()
    }
}

impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.adapter, self.id)
    }
}

impl FromStr for Conversation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |word: &str| !word.is_empty() && !word.chars().any(char::is_control);
        match text.split_once(':') {
            Some((adapter, id)) if is_plain(adapter) && is_plain(id) => Ok(Self::new(adapter, id)),
            _ => Err("a conversation is written as ADAPTER:ID".to_owned()),
        }
    }
}

impl TryFrom<String> for Conversation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Conversation> for String {
    fn from(conversation: Conversation) -> Self {
        conversation.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_read_as_it_is_written() {
        for (text, adapter, id, channel) in [
            ("slack:C1/17.5", "slack", "C1/17.5", "C1"),
            ("telegram:-100", "telegram", "-100", "-100"),
            ("test:a:b", "test", "a:b", "a:b"),
        ] {
            let read: Conversation = text.parse().unwrap();
            assert_eq!((read.adapter.as_str(), read.id.as_str(), read.channel()), (adapter, id, channel));
            assert_eq!(read.to_string(), text);
        }
        for text in ["", "slack", "slack:", ":x", "slack:a\nb"] {
            assert!(text.parse::<Conversation>().is_err(), "{text:?}");
        }
    }
}
