//! Text from elsewhere, shown so that nothing in it can pass for something else.

use std::fmt::Write;

/// `text` with everything that a terminal would obey, hide or reorder spelled out; line breaks stay.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || !is_deceptive(c) {
            shown.push(c);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", c as u32);
        }
    }
    shown
}

/// Whether people could not see what a character does: controls, invisible ones, and those that turn text around.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_spelled_out() {
        for (text, shown) in [
            ("cargo test --all", "cargo test --all"),
            ("grün 完了 \"x\" \\n", "grün 完了 \"x\" \\n"),
            ("one\ntwo", "one\ntwo"),
            ("true\r# harmless", "true\\u{d}# harmless"),
            ("\u{1b}[2K\u{1b}[1Gtrue", "\\u{1b}[2K\\u{1b}[1Gtrue"),
            ("a\u{202e}b\u{200b}c\u{feff}", "a\\u{202e}b\\u{200b}c\\u{feff}"),
            ("tab\there", "tab\\u{9}here"),
            ("\u{9b}31m", "\\u{9b}31m"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }
}
