//! JSON as people write it, with comments and trailing commas: where each value stands in the text, so that a value can be put
//! in or taken out without touching another byte.

use std::ops::Range;

use serde_json::{Map, Value};

use super::SettingsError;

/// Deeper settings are refused instead of followed.
const DEEPEST: usize = 100;

/// A value and its place in the text.
#[derive(Clone, Debug)]
pub(super) struct JsonNode {
    pub(super) span: Range<usize>,
    pub(super) kind: JsonKind,
}

#[derive(Clone, Debug)]
pub(super) enum JsonKind {
    Object(Vec<Member>),
    Array(Vec<JsonNode>),
    Scalar(Value),
}

/// A key and its value. It stands from the first quote of the key to the end of the value.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) key: String,
    pub(super) start: usize,
    pub(super) value: JsonNode,
}

impl JsonNode {
    /// The value of a key. Of a key that is written twice the last one counts, as for the programs that read these files.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.kind {
            JsonKind::Object(members) => {
                members.iter().rev().find(|member| member.key == key).map(|m| &m.value)
            }
            _ => None,
        }
    }

    pub(super) fn items(&self) -> &[Self] {
        match &self.kind {
            JsonKind::Array(items) => items,
            _ => &[],
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match &self.kind {
            JsonKind::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The places of everything that stands between the brackets.
    pub(super) fn children(&self) -> Vec<Range<usize>> {
        match &self.kind {
            JsonKind::Object(members) => members.iter().map(|m| m.start..m.value.span.end).collect(),
            JsonKind::Array(items) => items.iter().map(|item| item.span.clone()).collect(),
            JsonKind::Scalar(_) => Vec::new(),
        }
    }

    /// What the text says, without how it is written.
    pub(super) fn value(&self) -> Value {
        match &self.kind {
            JsonKind::Scalar(value) => value.clone(),
            JsonKind::Array(items) => Value::Array(items.iter().map(Self::value).collect()),
            JsonKind::Object(members) => {
                let pairs = members.iter().map(|member| (member.key.clone(), member.value.value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}

/// Reads a whole text: one value, with blanks and comments around it. `None` if there are only blanks.
pub(super) fn parse(text: &str) -> Result<Option<JsonNode>, SettingsError> {
    let at = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
    let mut reader = JsonReader { text, at };
    reader.skip()?;
    if reader.at == text.len() {
        return Ok(None);
    }
    let root = reader.value(0)?;
    reader.skip()?;
    match reader.at == text.len() {
        true => Ok(Some(root)),
        false => Err(reader.wrong("something stands behind the end of the settings")),
    }
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl JsonReader<'_> {
    fn wrong(&self, what: &str) -> SettingsError {
        let before = &self.text[..self.at];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        SettingsError::Syntax { line, column, what: what.to_owned() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes blanks and comments.
    fn skip(&mut self) -> Result<(), SettingsError> {
        loop {
            let rest = &self.text[self.at..];
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += blanks;
            let rest = &rest[blanks..];
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                match comment.find("*/") {
                    Some(end) => self.at += end + 4,
                    None => return Err(self.wrong("a comment has no end")),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, SettingsError> {
        if depth > DEEPEST {
            return Err(self.wrong("the values are nested too deeply"));
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => JsonKind::Object(self.object(depth)?),
            Some(b'[') => JsonKind::Array(self.array(depth)?),
            Some(b'"') => JsonKind::Scalar(Value::String(self.string()?)),
            Some(_) => self.word()?,
            None => return Err(self.wrong("a value is missing")),
        };
        Ok(JsonNode { span: start..self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Member>, SettingsError> {
        self.at += 1;
        let mut members = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(members);
            }
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a key in double quotes or `}` is expected"));
            }
            let start = self.at;
            let key = self.string()?;
            self.skip()?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("`:` is expected"));
            }
            self.at += 1;
            self.skip()?;
            let value = self.value(depth + 1)?;
            members.push(Member { key, start, value });
            self.skip()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {}
                _ => return Err(self.wrong("`,` or `}` is expected")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Vec<JsonNode>, SettingsError> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(items);
            }
            items.push(self.value(depth + 1)?);
            self.skip()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {}
                _ => return Err(self.wrong("`,` or `]` is expected")),
            }
        }
    }

    fn string(&mut self) -> Result<String, SettingsError> {
        let rest = &self.text[self.at..];
        let mut is_escaped = false;
        let end = rest.bytes().enumerate().skip(1).find_map(|(at, byte)| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end.then_some(at + 1)
        });
        let Some(end) = end else { return Err(self.wrong("a string has no end")) };
        let string = serde_json::from_str(&rest[..end]).map_err(|_| self.wrong("this is no string"))?;
        self.at += end;
        Ok(string)
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<JsonKind, SettingsError> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let value: Value = serde_json::from_str(&rest[..end]).map_err(|_| self.wrong("this is no value"))?;
        self.at += end;
        Ok(JsonKind::Scalar(value))
    }
}
