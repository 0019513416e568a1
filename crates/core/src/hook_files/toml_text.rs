//! Tables of hooks in a TOML text: appended at its end, and taken out again so that every other byte stays.
//!
//! They are appended, never put before others, because Codex remembers which hooks its user trusts by their number.

use std::ops::Range;

use super::SettingsError;

/// A part of a TOML text: a header such as `[[hooks.Stop]]` and everything up to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TomlSection {
    /// What stands between the brackets, without blanks; with its brackets, so that `[a]` and `[[a]]` differ.
    pub(super) header: String,
    pub(super) span: Range<usize>,
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<toml::Table, SettingsError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.parse::<toml::Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        SettingsError::Syntax { line, column, what: error.message().to_owned() }
    })
}

/// The sections of a text that [`parse`] could read.
pub(super) fn sections(text: &str) -> Vec<TomlSection> {
    let mut found: Vec<TomlSection> = Vec::new();
    let mut value = OpenValue::default();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches('\u{feff}').trim();
        if value.is_closed() && bare.starts_with('[') {
            if let Some(last) = found.last_mut() {
                last.span.end = start;
            }
            let header = header_of(bare);
            found.push(TomlSection { header, span: start..text.len() });
        } else {
            value.pass(line);
        }
        start += line.len();
    }
    found
}

/// The brackets and keys of a header line, without blanks and without the comment behind them.
fn header_of(line: &str) -> String {
    let mut quote = None;
    let mut header = String::new();
    for c in line.chars() {
        match (quote, c) {
            (None, '#') => break,
            (None, ' ' | '\t') => continue,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        header.push(c);
    }
    header
}

/// Whether a value goes on in the next line: an array, or a string of several lines.
#[derive(Default)]
struct OpenValue {
    string: Option<&'static str>,
    depth: usize,
}

impl OpenValue {
    fn is_closed(&self) -> bool {
        self.string.is_none() && self.depth == 0
    }

    fn pass(&mut self, line: &str) {
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let mut step = c.len_utf8();
            match self.string {
                Some(end) if rest.starts_with(end) => {
                    // Up to two more quotes belong to the string.
                    let quotes = rest.len() - rest.trim_start_matches(&end[..1]).len();
                    step = if end.len() == 3 { quotes.min(5) } else { 1 };
                    self.string = None;
                }
                Some(end) if c == '\\' && end.starts_with('"') => {
                    step += rest[step..].chars().next().map_or(0, char::len_utf8);
                }
                Some(_) => {}
                None => match c {
                    '#' => return,
                    '"' | '\'' => {
                        let (long, short) = if c == '"' { ("\"\"\"", "\"") } else { ("'''", "'") };
                        let open = if rest.starts_with(long) { long } else { short };
                        (self.string, step) = (Some(open), open.len());
                    }
                    '[' | '{' => self.depth += 1,
                    ']' | '}' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                },
            }
            rest = &rest[step..];
        }
        // A short string ends with its line, whatever is wrong with it.
        self.string = self.string.filter(|end| end.len() == 3);
    }
}

/// Appends a block of lines. A blank line before it says that the text ended with a line break, none says that it did not. In an
/// empty text the block has no line break at its end, so that it differs from a file that dacapo made.
pub(super) fn append(text: &str, block: &str) -> String {
    let newline = newline_of(text);
    let block = block.replace('\n', newline);
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    match body.is_empty() {
        true => format!("{text}{block}"),
        false if body.ends_with('\n') => format!("{text}{newline}{block}{newline}"),
        false => format!("{text}{newline}{block}"),
    }
}

fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Takes a block out that [`append`] put in. It ends before the line break of its last line.
pub(super) fn remove(text: &str, block: &Range<usize>) -> String {
    let (before, after) = (&text[..block.start], &text[block.end..]);
    let shorter = without_newline(before);
    let is_behind_blank_line = shorter.is_empty() || shorter.ends_with('\n') || shorter == "\u{feff}";
    match is_behind_blank_line {
        true => {
            let after = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after);
            let is_first = before.is_empty() || before == "\u{feff}";
            format!("{}{after}", if is_first { before } else { shorter })
        }
        false => format!("{shorter}{after}"),
    }
}

fn without_newline(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

/// The lines of a section that hold something: from its header to the end of its last key, without the line break there. Blank
/// lines and comments behind them belong to what follows.
pub(super) fn body_of(text: &str, section: &TomlSection) -> Range<usize> {
    let mut end = section.span.start;
    let mut at = section.span.start;
    let mut value = OpenValue::default();
    for line in text[section.span.clone()].split_inclusive('\n') {
        let bare = line.trim();
        let holds = !value.is_closed() || !(bare.is_empty() || bare.starts_with('#'));
        if at != section.span.start {
            value.pass(line);
        }
        if holds {
            end = at + without_newline(line).len();
        }
        at += line.len();
    }
    section.span.start..end
}
