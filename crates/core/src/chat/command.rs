//! A message as a command: `/status`, `/workflow NAME text`, `NAME text`, or none.

/// What the words of a message are, before anything is known of runs and workflows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatCommand {
    Help,
    Workflows,
    Status,
    /// `/workflow NAME text`.
    Workflow {
        name: String,
        text: String,
    },
    Cancel {
        run: Option<String>,
    },
    Resume {
        run: Option<String>,
    },
    /// `/approve [RUN] [text]`, and the same for `/reject`: the decision of this name.
    Answer {
        decision: &'static str,
        words: String,
    },
    /// `/steer [RUN] text`.
    Steer {
        words: String,
    },
    /// `/x`, and x is none of the commands: perhaps a workflow.
    Unknown {
        name: String,
        text: String,
    },
    /// A message that is no command. The first word may name a workflow.
    Words(String),
    Nothing,
}

/// Reads a message. A command begins with `/`, or with `!` where the service keeps `/` for itself, as Slack does.
pub fn parse(text: &str) -> ChatCommand {
    let text = text.trim();
    if text.is_empty() {
        return ChatCommand::Nothing;
    }
    let Some(command) = text.strip_prefix(['/', '!']) else { return ChatCommand::Words(text.to_owned()) };
    let (name, rest) = first_word(command);
    // In a group Telegram writes the name of the bot behind the command.
    let name = name.split('@').next().unwrap_or_default().to_ascii_lowercase();
    let one = |rest: &str| Some(first_word(rest).0.to_owned()).filter(|word| !word.is_empty());
    match name.as_str() {
        "help" | "start" => ChatCommand::Help,
        "workflows" => ChatCommand::Workflows,
        "status" => ChatCommand::Status,
        "workflow" | "run" => {
            let (name, text) = first_word(rest);
            match name {
                "" => ChatCommand::Workflows,
                name => ChatCommand::Workflow { name: name.to_owned(), text: text.to_owned() },
            }
        }
        "cancel" | "stop" => ChatCommand::Cancel { run: one(rest) },
        "resume" => ChatCommand::Resume { run: one(rest) },
        "approve" => ChatCommand::Answer { decision: "approve", words: rest.to_owned() },
        "reject" => ChatCommand::Answer { decision: "reject", words: rest.to_owned() },
        "steer" => ChatCommand::Steer { words: rest.to_owned() },
        "" => ChatCommand::Words(text.to_owned()),
        _ => ChatCommand::Unknown { name, text: rest.to_owned() },
    }
}

/// The first word of a text, and what follows it.
pub(super) fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_begins_with_a_slash_or_an_exclamation_mark() {
        let workflow =
            |name: &str, text: &str| ChatCommand::Workflow { name: name.into(), text: text.into() };
        let unknown = |name: &str, text: &str| ChatCommand::Unknown { name: name.into(), text: text.into() };
        let words = |text: &str| ChatCommand::Words(text.into());
        for (text, expected) in [
            ("/help", ChatCommand::Help),
            (" /START ", ChatCommand::Help),
            ("/status@my_bot", ChatCommand::Status),
            ("!status", ChatCommand::Status),
            ("/workflow", ChatCommand::Workflows),
            ("/workflow ralph do  this\nand that", workflow("ralph", "do  this\nand that")),
            ("/run ralph", workflow("ralph", "")),
            ("/cancel", ChatCommand::Cancel { run: None }),
            ("/cancel k3f9x2 now", ChatCommand::Cancel { run: Some("k3f9x2".into()) }),
            ("/approve", ChatCommand::Answer { decision: "approve", words: String::new() }),
            ("/reject a b", ChatCommand::Answer { decision: "reject", words: "a b".into() }),
            ("/steer use x", ChatCommand::Steer { words: "use x".into() }),
            ("/ralph go", unknown("ralph", "go")),
            ("ralph do this", words("ralph do this")),
            ("approve", words("approve")),
            ("/", words("/")),
            ("  \n", ChatCommand::Nothing),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
