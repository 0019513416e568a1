//! The head of a task file: cutting it out, changing its status and nothing else, and knowing it again.

use sha2::{Digest, Sha256};

use super::TaskStatus;
use crate::{
    trust::digest,
    yaml::{self, TextPlace, Wrong, YamlKey, YamlNode, YamlValue},
};

/// The largest file that is read.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// A Markdown file, split into its frontmatter and its body. Frontmatter begins in line 1; `---` further down is text
/// (req 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontmatterFile<'a> {
    /// The text between the two `---` lines.
    pub yaml: &'a str,
    /// The line of the file in which `yaml` begins.
    pub first_line: u32,
    /// Everything after the second `---` line.
    pub body: &'a str,
}

const TOP: TextPlace = TextPlace { line: 1, column: 1 };

/// Whether a file begins with a head at all.
pub fn is_there(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    bytes.strip_prefix(b"---").is_some_and(|rest| {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        rest[..end].trim_ascii_end().is_empty()
    })
}

/// Cuts a file behind its head.
pub fn split(bytes: &[u8]) -> Result<FrontmatterFile<'_>, Wrong> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Wrong::at(TOP, format!("larger than {} KiB", MAX_FILE_BYTES / 1024)));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Wrong::at(place_at(bytes, error.valid_up_to()), "not UTF-8"))?;
    if let Some(at) = memchr::memchr(0, bytes) {
        return Err(Wrong::at(place_at(bytes, at), "a NUL character is not allowed"));
    }
    if !is_there(bytes) {
        return Err(Wrong::at(TOP, "there is no frontmatter: the first line must be `---`"));
    }
    let head = text.find('\n').map_or(text.len(), |end| end + 1);
    let rest = &text[head..];
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.starts_with("---") && line.trim_ascii_end() == "---" {
            if at > yaml::MAX_BYTES {
                let what = format!("the frontmatter is larger than {} KiB", yaml::MAX_BYTES / 1024);
                return Err(Wrong::at(TOP, what));
            }
            return Ok(FrontmatterFile { yaml: &rest[..at], first_line: 2, body: &rest[at + line.len()..] });
        }
        at += line.len();
    }
    Err(Wrong::at(TOP, "the frontmatter is not closed: a line `---` must follow it"))
}

fn place_at(bytes: &[u8], offset: usize) -> TextPlace {
    let before = String::from_utf8_lossy(&bytes[..offset]);
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    TextPlace { line: small(before.matches('\n').count() + 1), column: small(column + 1) }
}

/// The entries of a head that dacapo could also write to: lines of `key: value`, each key once.
pub(super) fn entries(block: &FrontmatterFile<'_>) -> Result<Vec<(YamlKey, YamlNode)>, Vec<Wrong>> {
    match readable(block) {
        (Some(entries), wrong) if wrong.is_empty() => Ok(entries),
        (_, wrong) => Err(wrong),
    }
}

/// What can be read of a head, and what is wrong with it: behind a key that is there twice the rest makes sense.
pub(crate) fn readable(block: &FrontmatterFile<'_>) -> (Option<Vec<(YamlKey, YamlNode)>>, Vec<Wrong>) {
    let (root, mut wrong) = yaml::read_below(block.first_line - 1, block.yaml.as_bytes());
    let is_flow = block
        .yaml
        .lines()
        .map(str::trim_start)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .is_some_and(|line| line.starts_with('{'));
    if is_flow && wrong.is_empty() {
        let what = "the frontmatter must be lines of `key: value`, not one map in braces";
        wrong.push(Wrong::at(TextPlace { line: block.first_line, column: 1 }, what));
    }
    match root {
        _ if !wrong.iter().all(|wrong| wrong.what.contains(yaml::TWICE)) => (None, wrong),
        None => (Some(Vec::new()), wrong),
        Some(YamlNode { value: YamlValue::Map(entries), .. }) => (Some(entries), wrong),
        Some(YamlNode { value: YamlValue::Scalar { text, is_plain: true }, .. })
            if matches!(text.as_str(), "" | "~" | "null") =>
        {
            (Some(Vec::new()), wrong)
        }
        Some(YamlNode { place, .. }) => {
            wrong.push(Wrong::at(place, "the frontmatter must be lines of `key: value`"));
            (None, wrong)
        }
    }
}

/// Where the value of `status` stands in the text of the head; where there is none, an empty piece behind the colon.
struct StatusAt {
    line_start: usize,
    line_end: usize,
    value_start: usize,
    value_end: usize,
}

/// Finds the value of the head's own `status`. One that does not stand behind its key on one line is not dealt with.
fn status_at(
    block: &FrontmatterFile<'_>,
    entries: &[(YamlKey, YamlNode)],
) -> Result<Option<StatusAt>, Wrong> {
    let Some((key, value)) = entries.iter().find(|(key, _)| key.name == "status") else { return Ok(None) };
    let elsewhere = || Wrong::at(key.place, "the value of `status` must be one word behind its key");
    let YamlValue::Scalar { text, .. } = &value.value else { return Err(elsewhere()) };
    let number = (key.place.line - block.first_line) as usize;
    let mut line_start = 0;
    let line = block.yaml.split_inclusive('\n').enumerate().find_map(|(index, line)| {
        if index == number {
            return Some(line);
        }
        line_start += line.len();
        None
    });
    let line = line.ok_or_else(elsewhere)?;
    let column = key.place.column as usize - 1;
    let key_at = line.char_indices().nth(column).map(|(at, _)| at).ok_or_else(elsewhere)?;
    let behind = ["status", "\"status\"", "'status'"]
        .iter()
        .find_map(|word| line[key_at..].strip_prefix(word))
        .and_then(|rest| rest.trim_start_matches([' ', '\t']).strip_prefix(':'))
        .ok_or_else(elsewhere)?;
    let colon = line.len() - behind.len();
    let blank = behind.len() - behind.trim_start_matches([' ', '\t']).len();
    let rest = behind[blank..].trim_end();
    let length = match rest.chars().next() {
        None | Some('#') => 0,
        Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map(|end| end + 2).ok_or_else(elsewhere)?,
        Some(_) => {
            let comment = rest
                .char_indices()
                .zip(rest.chars().skip(1))
                .find_map(|((at, c), next)| (matches!(c, ' ' | '\t') && next == '#').then_some(at));
            rest[..comment.unwrap_or(rest.len())].trim_end().len()
        }
    };
    // What the reader makes of the value must be what was found, or it goes on in the next line.
    let found = rest[..length].trim_matches(['"', '\'']);
    let is_nothing = length == 0 && matches!(text.as_str(), "" | "~");
    if found != text.as_str() && !is_nothing {
        return Err(elsewhere());
    }
    let value_start = line_start + if length == 0 { colon } else { colon + blank };
    let (line_end, value_end) = (line_start + line.len(), value_start + length);
    Ok(Some(StatusAt { line_start, line_end, value_start, value_end }))
}

/// Whether [`with_status`] will be able to change these.
pub(crate) fn check_status(
    block: &FrontmatterFile<'_>,
    entries: &[(YamlKey, YamlNode)],
) -> Result<(), Wrong> {
    status_at(block, entries).map(|_| ())
}

/// The file with another status. Every other byte stays as it is.
pub fn with_status(bytes: &[u8], status: TaskStatus) -> Result<Vec<u8>, Wrong> {
    with_status_word(bytes, status.as_str())
}

/// The same with any word for a status.
pub(crate) fn with_status_word(bytes: &[u8], status: &str) -> Result<Vec<u8>, Wrong> {
    let block = split(bytes)?;
    let first = |mut wrong: Vec<Wrong>| wrong.swap_remove(0);
    let before = entries(&block).map_err(first)?;
    // The head begins behind the first line.
    let block_at = memchr::memchr(b'\n', bytes).map_or(0, |end| end + 1);
    let (start, end, text) = match status_at(&block, &before)? {
        Some(at) => {
            // Straight behind the colon there is no blank yet.
            let blank = if at.value_start == at.value_end { " " } else { "" };
            (at.value_start, at.value_end, format!("{blank}{status}"))
        }
        None => {
            let indent = before.first().map_or(0, |(key, _)| key.place.column as usize - 1);
            let line_end = if bytes[..block_at].ends_with(b"\r\n") { "\r\n" } else { "\n" };
            let at = block.yaml.len();
            (at, at, format!("{:indent$}status: {status}{line_end}", ""))
        }
    };
    let mut after = Vec::with_capacity(bytes.len() + text.len());
    after.extend_from_slice(&bytes[..block_at + start]);
    after.extend_from_slice(text.as_bytes());
    after.extend_from_slice(&bytes[block_at + end..]);
    // Read the changed file again: YAML has more ways to write a value than this function knows.
    let is_as_wished = split(&after).ok().and_then(|block| entries(&block).ok()).is_some_and(|now| {
        let says = now.iter().any(|(key, node)| {
            key.name == "status" && matches!(&node.value, YamlValue::Scalar { text, .. } if text == status)
        });
        says && others(&before) == others(&now)
    });
    if is_as_wished {
        Ok(after)
    } else {
        let what = "the status cannot be changed without changing something else: write it as one word behind its key";
        Err(Wrong::at(TextPlace { line: block.first_line, column: 1 }, what))
    }
}

/// A value without its place.
#[derive(PartialEq)]
enum Plain {
    Scalar(String, bool),
    List(Vec<Plain>),
    Map(Vec<(String, Plain)>),
}

impl Plain {
    fn of(node: &YamlNode) -> Self {
        match &node.value {
            YamlValue::Scalar { text, is_plain } => Self::Scalar(text.clone(), *is_plain),
            YamlValue::List(items) => Self::List(items.iter().map(Self::of).collect()),
            YamlValue::Map(entries) => {
                Self::Map(entries.iter().map(|(key, node)| (key.name.clone(), Self::of(node))).collect())
            }
        }
    }
}

/// Everything but the status, by value.
fn others(entries: &[(YamlKey, YamlNode)]) -> Vec<(String, Plain)> {
    let others = entries.iter().filter(|(key, _)| key.name != "status");
    others.map(|(key, node)| (key.name.clone(), Plain::of(node))).collect()
}

/// SHA-256 of the head without its status; of the whole file if it has no head that can be read.
pub fn frozen(bytes: &[u8]) -> String {
    match without_status(bytes) {
        Some((yaml, _)) => digest(yaml.as_bytes()),
        None => {
            // Marked, so that no file can pass for another one's head.
            let mut hash = Sha256::new();
            hash.update(b"whole file\0");
            hash.update(bytes);
            hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

/// Whether the heads of two states of a file are the same but for the status, and for how their lines end: an editor may
/// write other ends than it found. Then every value has to be the same, too.
pub fn is_same_head(before: &[u8], after: &[u8]) -> bool {
    if frozen(before) == frozen(after) {
        return true;
    }
    let (Some((old, _)), Some((new, _))) = (without_status(before), without_status(after)) else {
        return false;
    };
    let values = |bytes| split(bytes).ok().and_then(|block| entries(&block).ok()).map(|all| others(&all));
    unix(&old) == unix(&new) && values(before) == values(after)
}

/// Whether two states of a file differ in nothing but the status, and how their lines end.
pub fn changes_only_status(before: &[u8], after: &[u8]) -> bool {
    match (without_status(before), without_status(after)) {
        (Some((_, old)), Some((_, new))) => is_same_head(before, after) && unix(old) == unix(new),
        _ => before == after,
    }
}

/// The text with every line ending as on Unix.
fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// The head without the line of its status, and the body.
fn without_status(bytes: &[u8]) -> Option<(String, &str)> {
    let block = split(bytes).ok()?;
    let entries = entries(&block).ok()?;
    let mut yaml = block.yaml.to_owned();
    if let Some(at) = status_at(&block, &entries).ok()? {
        yaml.replace_range(at.line_start..at.line_end, "");
    }
    Some((yaml, block.body))
}

#[cfg(test)]
#[path = "frontmatter_tests.rs"]
mod tests;
