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

#[cfg(test)]
mod tests {
    use super::*;

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
