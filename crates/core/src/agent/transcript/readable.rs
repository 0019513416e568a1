//! An agent's events in words, for whoever watches or reads its log.

use super::Heard;

/// One or more whole lines; nothing where there is nothing to see.
pub fn readable(heard: Heard<'_>) -> Option<String> {
    match heard {
        Heard::Message(text) => Some(format!("{}\n", text.trim_end_matches('\n'))),
        Heard::Tool { name, input: "" } => Some(format!("[{name}]\n")),
        Heard::Tool { name, input } => Some(format!("[{name}] {input}\n")),
        Heard::Retry { detail } => Some(format!("[asks again: {detail}]\n")),
        Heard::Usage { .. } | Heard::Written(_) | Heard::Final => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_doings_are_lines_and_numbers_are_not() {
        // req 152: tool calls with name and input
        for (heard, line) in [
            (Heard::Message("Done.\n\n"), Some("Done.\n")),
            (Heard::Tool { name: "Bash", input: "cargo test" }, Some("[Bash] cargo test\n")),
            (Heard::Tool { name: "Think", input: "" }, Some("[Think]\n")),
            (Heard::Retry { detail: "529 overloaded" }, Some("[asks again: 529 overloaded]\n")),
            (Heard::Written(9), None),
            (Heard::Final, None),
        ] {
            assert_eq!(readable(heard).as_deref(), line);
        }
    }
}
