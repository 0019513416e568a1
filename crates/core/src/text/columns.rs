//! How wide text is in a terminal: most characters take one column, some two, some none.
//!
//! The widths are Unicode's, from `unicode-width`. They are summed character by character, as terminals do it: a sequence
//! that a font may draw as one picture is as wide as its parts, and a prefix is never wider than the whole.

use unicode_width::UnicodeWidthChar;

/// Control characters have no width of their own; each counts as one column, so that none makes a line look shorter.
fn width(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// How many columns `text` takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// As much of the beginning of `text` as has room in so many columns.
pub fn fitting(text: &str, room: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find_map(|(at, c)| {
        used += width(c);
        (used > room).then_some(at)
    });
    &text[..end.unwrap_or(text.len())]
}

/// `text` as lines of at most `room` columns, broken between words. Lines after the first begin two columns further in than the
/// first one does; a word that is wider than a line is broken where the line ends.
pub fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.max(4);
    let begin = &text[..text.len() - text.trim_start_matches(' ').len()];
    let indent = " ".repeat((columns(begin) + 2).min(room / 2));
    let mut lines = Vec::new();
    let mut line = String::new();
    // The blanks in front of a word belong to it, so that columns which were set with several of them stay.
    let mut rest = text;
    while !rest.is_empty() {
        let blanks = rest.len() - rest.trim_start_matches(' ').len();
        let end = rest[blanks..].find(' ').map_or(rest.len(), |at| blanks + at);
        let (mut word, after) = rest.split_at(end);
        rest = after;
        if columns(&line) + columns(word) > room && !line.trim().is_empty() {
            lines.push(std::mem::replace(&mut line, indent.clone()));
            word = word.trim_start_matches(' ');
        }
        while columns(&line) + columns(word) > room {
            let part = fitting(word, room.saturating_sub(columns(&line)).max(1));
            // A character that is wider than the line has its line for itself.
            let part =
                if part.is_empty() { &word[..word.chars().next().map_or(0, char::len_utf8)] } else { part };
            line.push_str(part);
            word = &word[part.len()..];
            lines.push(std::mem::replace(&mut line, indent.clone()));
        }
        line.push_str(word);
    }
    if lines.is_empty() || !line.trim().is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_go_on_further_in() {
        for (text, room, lines) in [
            ("", 10, vec![""]),
            ("short", 10, vec!["short"]),
            ("exactly 10", 10, vec!["exactly 10"]),
            ("one two three", 8, vec!["one two", "  three"]),
            ("  gate `sh` exited 1", 12, vec!["  gate `sh`", "    exited 1"]),
            ("a  b", 10, vec!["a  b"]),
            ("/a/very/long/path x", 8, vec!["/a/very/", "  long/p", "  ath x"]),
            (
                "\u{7a0e}\u{8fbc}\u{307f} \u{7a0e}\u{8fbc}",
                6,
                vec!["\u{7a0e}\u{8fbc}\u{307f}", "  \u{7a0e}\u{8fbc}"],
            ),
        ] {
            assert_eq!(wrapped(text, room), lines, "{text} in {room}");
            assert!(wrapped(text, room).iter().all(|line| columns(line) <= room), "{text} in {room}");
        }
    }

    #[test]
    fn wide_characters_take_two_columns_and_are_never_cut_in_half() {
        for (text, wide, room, shown) in [
            ("plain", 5, 3, "pla"),
            ("plain", 5, 9, "plain"),
            ("税込み", 6, 6, "税込み"),
            ("税込み", 6, 5, "税込"),
            ("한국 x", 6, 4, "한국"),
            ("e\u{301}x", 2, 1, "e\u{301}"),
            ("✅ ok", 5, 2, "✅"),
            ("⠋ 1", 3, 2, "⠋ "),
            ("ä·–", 3, 3, "ä·–"),
            ("", 0, 0, ""),
            // Marks of scripts other than Latin, a narrow picture, an invisible joiner and a control character.
            ("สวัสดี", 4, 3, "สวัส"),
            ("שָׁלוֹם", 4, 1, "שָׁ"),
            ("🖋x", 2, 1, "🖋"),
            ("a\u{2060}b", 2, 1, "a\u{2060}"),
            ("a\tb", 3, 2, "a\t"),
        ] {
            assert_eq!((columns(text), fitting(text, room)), (wide, shown), "{text}");
        }
    }
}
