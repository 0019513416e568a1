//! How wide text is in a terminal: most characters take one column, some two, some none.

/// Characters that take two columns: East Asian ones and pictures.
const WIDE: [(char, char); 24] = [
    ('\u{1100}', '\u{115f}'),
    ('\u{231a}', '\u{231b}'),
    ('\u{2329}', '\u{232a}'),
    ('\u{23e9}', '\u{23ec}'),
    ('\u{25fd}', '\u{25fe}'),
    ('\u{2614}', '\u{2615}'),
    ('\u{2648}', '\u{2653}'),
    ('\u{26aa}', '\u{26ab}'),
    ('\u{26bd}', '\u{26be}'),
    ('\u{2705}', '\u{2705}'),
    ('\u{270a}', '\u{270b}'),
    ('\u{2728}', '\u{2728}'),
    ('\u{274c}', '\u{274c}'),
    ('\u{2795}', '\u{2797}'),
    ('\u{2b1b}', '\u{2b1c}'),
    ('\u{2e80}', '\u{303e}'),
    ('\u{3041}', '\u{a4cf}'),
    ('\u{a960}', '\u{a97c}'),
    ('\u{ac00}', '\u{d7a3}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{fe30}', '\u{fe6f}'),
    ('\u{ff01}', '\u{ff60}'),
    ('\u{1f300}', '\u{1faff}'),
    ('\u{20000}', '\u{3fffd}'),
];

/// Marks that stand over the character before them.
const MARKS: [(char, char); 5] = [
    ('\u{300}', '\u{36f}'),
    ('\u{1ab0}', '\u{1aff}'),
    ('\u{20d0}', '\u{20ff}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{fe00}', '\u{fe0f}'),
];

fn width(c: char) -> usize {
    let is_in = |ranges: &[(char, char)]| ranges.iter().any(|(first, last)| (*first..=*last).contains(&c));
    match c {
        '\0'..='\u{2ff}' => 1,
        _ if is_in(&MARKS) => 0,
        _ if is_in(&WIDE) => 2,
        _ => 1,
    }
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
        ] {
            assert_eq!((columns(text), fitting(text, room)), (wide, shown), "{text}");
        }
    }
}
