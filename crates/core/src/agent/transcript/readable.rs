//! What an agent said or did, apart from the output it was read from: for observers, records, and lines for people.

use serde::{Deserialize, Serialize};

use super::OutputEvent;

/// Something that an agent said or did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TranscriptEntry {
    /// A whole message of the agent.
    Assistant { text: String },
    /// A call of a tool, with what the tool is to do in one short line.
    Tool { name: String, input: String },
    /// A line of an agent that prints words and no events: a part of a message.
    Line { text: String },
    /// The CLI says something about itself.
    Note { text: String },
}

impl TranscriptEntry {
    /// What is heard in an agent's output, if people are to know of it.
    pub fn of(heard: OutputEvent<'_>) -> Option<Self> {
        match heard {
            OutputEvent::Message(text) => Some(Self::Assistant { text: text.to_owned() }),
            OutputEvent::Tool { name, input } => {
                Some(Self::Tool { name: name.to_owned(), input: input.to_owned() })
            }
            OutputEvent::Retry { detail } => Some(Self::Note { text: format!("asks again: {detail}") }),
            OutputEvent::Usage { .. } | OutputEvent::Written(_) | OutputEvent::Final => None,
        }
    }

    /// The same with its words changed.
    #[must_use]
    pub fn map(self, mut change: impl FnMut(&str) -> String) -> Self {
        match self {
            Self::Assistant { text } => Self::Assistant { text: change(&text) },
            Self::Tool { name, input } => Self::Tool { name, input: change(&input) },
            Self::Line { text } => Self::Line { text: change(&text) },
            Self::Note { text } => Self::Note { text: change(&text) },
        }
    }

    /// As people read it, with a line break behind it.
    pub fn line(&self) -> String {
        match self {
            Self::Assistant { text } | Self::Line { text } => format!("{}\n", text.trim_end_matches('\n')),
            Self::Tool { name, input } if input.is_empty() => format!("[{name}]\n"),
            Self::Tool { name, input } => format!("[{name}] {input}\n"),
            Self::Note { text } => format!("[{text}]\n"),
        }
    }
}

/// What is heard as people read it.
pub fn readable(heard: OutputEvent<'_>) -> Option<String> {
    TranscriptEntry::of(heard).map(|said| said.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_doings_are_lines_and_numbers_are_not() {
        // req 152: tool calls with name and input
        for (heard, line) in [
            (OutputEvent::Message("Done.\n\n"), Some("Done.\n")),
            (OutputEvent::Tool { name: "Bash", input: "cargo test" }, Some("[Bash] cargo test\n")),
            (OutputEvent::Tool { name: "Think", input: "" }, Some("[Think]\n")),
            (OutputEvent::Retry { detail: "529 overloaded" }, Some("[asks again: 529 overloaded]\n")),
            (OutputEvent::Written(9), None),
            (OutputEvent::Final, None),
        ] {
            assert_eq!(readable(heard).as_deref(), line);
        }
    }
}
