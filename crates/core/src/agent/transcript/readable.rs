//! An agent's events in words, for a person who watches it or reads its log.

use super::OutputEvent;

/// One or more whole lines; nothing where there is nothing to see.
pub fn readable(heard: OutputEvent<'_>) -> Option<String> {
    match heard {
        OutputEvent::Message(text) => Some(format!("{}\n", text.trim_end_matches('\n'))),
        OutputEvent::Tool { name, input: "" } => Some(format!("[{name}]\n")),
        OutputEvent::Tool { name, input } => Some(format!("[{name}] {input}\n")),
        OutputEvent::Retry { detail } => Some(format!("[asks again: {detail}]\n")),
        OutputEvent::Usage { .. } | OutputEvent::Written(_) | OutputEvent::Final => None,
    }
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
