//! Puts members and items into JSON texts, and takes them out again so that what was there before is there again, byte for byte.
//!
//! What was made by dacapo and what was there is told apart by how it is written. An object or array that dacapo makes has its
//! first line break right behind its opening bracket; into one that was there and empty, dacapo writes right behind the bracket.
//! So taking out the last entry of an object takes the object with it only where dacapo had made it.

use std::ops::Range;

use super::{
    SettingsError,
    json::{self, JsonKind, JsonNode},
};

/// How the lines of a text are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EditStyle {
    newline: &'static str,
    indent: String,
}

impl EditStyle {
    /// As the text is written; two spaces where that cannot be told.
    pub(super) fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let indented =
            text.lines().skip(1).find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
        let indent: String = indented
            .map(|line| line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect())
            .unwrap_or_else(|| "  ".to_owned());
        let indent = if indent.starts_with('\t') { "\t".to_owned() } else { indent };
        let indent = if indent.len() > 8 { "  ".to_owned() } else { indent };
        Self { newline, indent }
    }

    fn line(&self, depth: usize) -> String {
        format!("{}{}", self.newline, self.indent.repeat(depth))
    }

    /// A container that dacapo makes: its one entry on a line of its own.
    fn container(&self, open: char, entry: &str, close: char, depth: usize) -> String {
        format!("{open}{}{entry}{}{close}", self.line(depth + 1), self.line(depth))
    }
}

/// Puts `entry` into the array at `path`, as its last item. Arrays and objects that are missing on the way are made.
pub(super) fn push(text: &str, path: &[&str], entry: &str) -> Result<String, SettingsError> {
    put(text, path, entry, true)
}

/// Puts `key: value` into the object at `path`, as its last member. Objects that are missing on the way are made.
pub(super) fn insert(text: &str, path: &[&str], key: &str, value: &str) -> Result<String, SettingsError> {
    put(text, path, &format!("{}: {value}", quoted(key)), false)
}

fn put(text: &str, path: &[&str], entry: &str, is_item: bool) -> Result<String, SettingsError> {
    let style = EditStyle::of(text);
    let Some(root) = json::parse(text)? else {
        // The file is there and empty: no line break at the end tells that it was.
        return Ok(format!("{text}{}", chain(path, entry, is_item, 0, &style)));
    };
    // As far down the path as there are containers.
    let (mut node, mut depth) = (&root, 0);
    while let Some(next) = path.get(depth).and_then(|key| node.get(key)) {
        (node, depth) = (next, depth + 1);
    }
    let is_end = depth == path.len();
    match (&node.kind, is_item && is_end) {
        (JsonKind::Array(_), true) | (JsonKind::Object(_), false) => {}
        (_, is_list) => {
            let what = if is_list { "a list" } else { "an object" };
            return Err(SettingsError::Shape { path: path[..depth].join("."), what });
        }
    }
    let entry = match path.get(depth) {
        None => entry.to_owned(),
        Some(key) => {
            format!("{}: {}", quoted(key), chain(&path[depth + 1..], entry, is_item, depth + 1, &style))
        }
    };
    Ok(add(text, node, &entry, depth, &style))
}

/// A new object for each key of the path, one in the other, and the entry in the last container.
fn chain(path: &[&str], entry: &str, is_item: bool, depth: usize, style: &EditStyle) -> String {
    match path.split_first() {
        None if is_item => style.container('[', entry, ']', depth),
        None => style.container('{', entry, '}', depth),
        Some((key, rest)) => {
            let inner = format!("{}: {}", quoted(key), chain(rest, entry, is_item, depth + 1, style));
            style.container('{', &inner, '}', depth)
        }
    }
}

/// Adds an entry at the end of a container that is there.
fn add(text: &str, node: &JsonNode, entry: &str, depth: usize, style: &EditStyle) -> String {
    let Some(last) = node.children().pop() else {
        let at = node.span.start + 1;
        return format!("{}{entry}{}", &text[..at], &text[at..]);
    };
    let comma = comma_after(text, last.end);
    let line = line_of(text, node).unwrap_or_else(|| style.line(depth + 1));
    // A remark behind the last entry stays on its line.
    let end = end_of_line(text, comma.map_or(last.end, |comma| comma + 1), node.span.end - 1);
    match comma {
        Some(_) => format!("{}{line}{entry},{}", &text[..end], &text[end..]),
        None => format!("{},{}{line}{entry}{}", &text[..last.end], &text[last.end..end], &text[end..]),
    }
}

/// The line break and indentation before the last entry of a container, if it begins its line.
fn line_of(text: &str, node: &JsonNode) -> Option<String> {
    let last = node.children().pop()?;
    let blanks = blanks_before(text, last.start);
    let line = &text[text[..last.start].rfind('\n').filter(|at| *at >= blanks)?..last.start];
    let newline = if text[..last.start - line.len()].ends_with('\r') { "\r" } else { "" };
    Some(format!("{newline}{line}"))
}

/// Where the blanks before `at` begin.
fn blanks_before(text: &str, at: usize) -> usize {
    text[..at].trim_end_matches([' ', '\t', '\r', '\n']).len()
}

/// The comma that follows, with only blanks and comments before it.
fn comma_after(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n')?;
        } else if let Some(comment) = rest.strip_prefix("/*") {
            at += comment.find("*/")? + 4;
        } else {
            return rest.starts_with(',').then_some(at);
        }
    }
}

/// The end of the comments that follow on the same line, or `at` if there are none; never behind `limit`.
fn end_of_line(text: &str, at: usize, limit: usize) -> usize {
    let mut end = at;
    loop {
        let rest = &text[end..limit];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let comment = &rest[blanks..];
        if comment.starts_with("//") {
            let line = comment.split('\n').next().unwrap_or_default();
            return end + blanks + line.trim_end_matches('\r').len();
        }
        match comment.strip_prefix("/*").and_then(|rest| rest.find("*/")) {
            Some(length) if !comment[..length + 4].contains('\n') => end += blanks + length + 4,
            _ => return end,
        }
    }
}

/// Puts other text in the place of a value.
pub(super) fn replace(text: &str, span: &Range<usize>, value: &str) -> String {
    format!("{}{value}{}", &text[..span.start], &text[span.end..])
}

/// The way to a value: the containers from the outermost one, and which of its entries each time.
pub(super) type ValuePath = Vec<usize>;

/// Takes the entry at `place` out, and the containers that dacapo had made for it. `None` if nothing else was in the file and
/// dacapo had made the file.
pub(super) fn remove(text: &str, place: &[usize]) -> Result<Option<String>, SettingsError> {
    let Some(root) = json::parse(text)? else { return Ok(Some(text.to_owned())) };
    let mut way: Vec<&JsonNode> = vec![&root];
    for at in &place[..place.len() - 1] {
        let node = way[way.len() - 1];
        way.push(match &node.kind {
            JsonKind::Object(members) => &members[*at].value,
            _ => &node.items()[*at],
        });
    }
    for (depth, node) in way.iter().enumerate().rev() {
        let children = node.children();
        let entry = children[place[depth]].clone();
        if children.len() > 1 || !is_made(text, node, &entry) {
            return Ok(Some(cut(text, &children, place[depth])));
        }
    }
    // All of it was made.
    let (before, after) = (&text[..root.span.start], &text[root.span.end..]);
    Ok(match (before, after) {
        ("", "\n") => None,
        _ => Some(format!("{before}{after}")),
    })
}

/// Whether a container holds one entry in the way in which dacapo writes a container that it makes.
fn is_made(text: &str, node: &JsonNode, entry: &Range<usize>) -> bool {
    let before = &text[node.span.start + 1..entry.start];
    let after = &text[entry.end..node.span.end - 1];
    let is_line = |blanks: &str| {
        let blanks = blanks.strip_prefix('\r').unwrap_or(blanks);
        blanks.strip_prefix('\n').is_some_and(|rest| rest.chars().all(|c| matches!(c, ' ' | '\t')))
    };
    is_line(before) && is_line(after) && before.len() > after.len()
}

/// Whether blanks and comments end with a line comment whose line break is missing.
fn ends_in_line_comment(mut rest: &str) -> bool {
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        if rest.starts_with("//") {
            let Some(end) = rest.find('\n') else { return true };
            rest = &rest[end..];
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let Some(end) = comment.find("*/") else { return false };
            rest = &comment[end + 2..];
        } else {
            return false;
        }
    }
}

/// Cuts one of the entries of a container out, with its comma.
fn cut(text: &str, children: &[Range<usize>], at: usize) -> String {
    let entry = &children[at];
    // Into an empty container it was written right behind the bracket.
    let start = match at == 0 && children.len() == 1 {
        true => entry.start,
        false => blanks_before(text, entry.start),
    };
    if let Some(comma) = comma_after(text, entry.end) {
        return format!("{}{}{}", &text[..start], &text[entry.end..comma], &text[comma + 1..]);
    }
    match at.checked_sub(1).and_then(|before| comma_after(text, children[before].end)) {
        Some(comma) => {
            // The line break behind a line comment ends it and has to stay.
            let between = &text[comma + 1..start.max(comma + 1)];
            let is_open = ends_in_line_comment(between);
            let ends_line = text[entry.end..].trim_start_matches([' ', '\t', '\r']).starts_with('\n');
            let newline = if is_open && !ends_line { "\n" } else { "" };
            format!("{}{between}{newline}{}", &text[..comma], &text[entry.end..])
        }
        None => format!("{}{}", &text[..start], &text[entry.end..]),
    }
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
