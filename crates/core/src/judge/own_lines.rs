//! The lines of an answer that are the agent's own words, and what they begin with.

use super::promise::{code::CodeTracker, line::Line};

/// A line that stands in no code fence and is no quotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLine<'a> {
    pub text: &'a str,
    /// Whether it is indented like a block of code; it may also go on with a list.
    pub is_indented: bool,
}

/// The lines of `text`, blank ones included, that are neither fenced code nor quoted.
pub fn own_lines(text: &str) -> impl Iterator<Item = OwnLine<'_>> {
    let mut code = CodeTracker::new();
    text.lines().filter_map(move |text| {
        let Some(line) = Line::short(text.as_bytes()) else {
            code.blank();
            return Some(OwnLine { text, is_indented: false });
        };
        let was_fenced = code.is_fenced();
        let is_code = code.line(&line);
        let is_own = !was_fenced && !code.is_fenced() && !text.trim_start().starts_with('>');
        is_own.then_some(OwnLine { text, is_indented: is_code })
    })
}

/// What stands behind one of `words`, if the line begins with it. Marks of a heading, of emphasis or of a list go before it.
pub fn behind<'a>(line: &'a str, words: &[impl AsRef<str>]) -> Option<&'a str> {
    let bare = unadorned(line);
    words.iter().map(AsRef::as_ref).filter(|word| !word.is_empty()).find_map(|word| bare.strip_prefix(word))
}

/// The line without the marks of a heading, of emphasis or of a list before its first word.
pub fn unadorned(line: &str) -> &str {
    let line = line.trim();
    let line = list_item(line).unwrap_or(line);
    line.trim_start_matches(['#', '*', '_', ' ']).trim_end_matches(['*', '_', ' '])
}

/// What stands behind the mark of a list.
pub fn list_item(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = match line.strip_prefix(['-', '*', '+']) {
        Some(rest) => rest,
        None => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            (rest.len() < line.len()).then(|| rest.strip_prefix(['.', ')'])).flatten()?
        }
    };
    rest.starts_with(' ').then(|| rest.trim()).filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fenced_and_quoted_lines_are_not_the_agent_s_own() {
        for (text, own) in [
            ("a\n\nb", vec![("a", false), ("", false), ("b", false)]),
            ("```\na\n```\nb", vec![("b", false)]),
            ("~~~sh\na\n```\n~~~\nb", vec![("b", false)]),
            ("- ```\n  a\n  ```\nb", vec![("b", false)]),
            ("> a\n  > a\nb", vec![("b", false)]),
            ("a\n\n    b", vec![("a", false), ("", false), ("    b", true)]),
            ("a\n    b", vec![("a", false), ("    b", false)]),
            ("```a```\nb", vec![("```a```", false), ("b", false)]),
        ] {
            let found: Vec<(&str, bool)> =
                own_lines(text).map(|line| (line.text, line.is_indented)).collect();
            assert_eq!(found, own, "{text:?}");
        }
    }

    #[test]
    fn a_line_begins_with_words_behind_the_marks_of_markdown() {
        for (line, rest) in [
            ("NO", Some("")),
            ("  NO: why", Some(": why")),
            ("## **NO** it leaks", Some("** it leaks")),
            ("- NO", Some("")),
            ("2) NO", Some("")),
            ("so NO", None),
            ("`NO`", None),
            ("no", None),
        ] {
            assert_eq!(behind(line, &["YES", "NO"]), rest, "{line}");
        }
        assert_eq!(behind("anything", &[""]), None, "a blank word begins no line");
    }
}
