//! YAML from files that are not trusted: a tree in which everything knows its place, and no cleverness.
//!
//! No anchors, aliases, tags, merge keys, directives or second documents; bounded size and depth. Everything that is
//! wrong is reported at once, as far as the text can be understood (fault I3, I4, I7).

use std::collections::HashMap;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, options};

/// The largest file that is read.
pub const MAX_BYTES: usize = 64 * 1024;
/// What is said of a key that is there again; the first one counts.
pub const TWICE: &str = "is there twice, first in line";
/// How deep lists and maps may lie in each other.
pub const MAX_DEPTH: usize = 16;

/// Where something stands, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPlace {
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl TextPlace {
    fn below(self, lines: u32) -> Self {
        Self { line: self.line.saturating_add(lines), ..self }
    }
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlNode {
    pub place: TextPlace,
    pub value: YamlValue,
}

/// What a value is. What a scalar means is for the reader to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum YamlValue {
    /// Text, a number, a truth value or nothing.
    Scalar {
        /// As it is after escapes.
        text: String,
        /// Whether it stood there without quotes: only then can it be more than text.
        is_plain: bool,
    },
    List(Vec<YamlNode>),
    /// A map, in the order of the file, each key once.
    Map(Vec<(YamlKey, YamlNode)>),
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlKey {
    pub place: TextPlace,
    pub name: String,
}

/// Something that is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub place: TextPlace,
    pub what: String,
}

impl Wrong {
    /// What is wrong at `place`.
    pub fn at(place: TextPlace, what: impl Into<String>) -> Self {
        Self { place, what: what.into() }
    }
}

/// Reads one document. The tree holds what could be understood; it is `None` for an empty file and for one that makes
/// no sense at all.
pub fn read(bytes: &[u8]) -> (Option<YamlNode>, Vec<Wrong>) {
    read_below(0, bytes)
}

/// Reads a document that stands in a larger file, below so many lines of it; places are those of the file.
pub fn read_below(lines: u32, bytes: &[u8]) -> (Option<YamlNode>, Vec<Wrong>) {
    let text = match plain_text(bytes) {
        Ok(text) => text,
        Err(wrong) => return (None, vec![Wrong { place: wrong.place.below(lines), ..wrong }]),
    };
    let mut builder = Builder { lines_above: lines, ..Builder::default() };
    let options = options! { disallow_directives: true, emit_unresolved_aliases: true };
    for next in Parser::new_from_str_with_options(text, options) {
        match next {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => {
                let place = place_of(error.marker().line(), error.marker().col()).below(lines);
                builder.wrong.push(Wrong::at(place, format!("not YAML: {}", error.info())));
                // Half a tree would bring complaints about what only seems to be missing.
                return (None, builder.wrong);
            }
        }
    }
    (builder.root, builder.wrong)
}

/// The text of a file, or the first thing in it that no text file should hold.
fn plain_text(bytes: &[u8]) -> Result<&str, Wrong> {
    if bytes.len() > MAX_BYTES {
        let what = format!("larger than {} KiB", MAX_BYTES / 1024);
        return Err(Wrong::at(TextPlace { line: 1, column: 1 }, what));
    }
    let place = |offset: usize| {
        let before = String::from_utf8_lossy(&bytes[..offset]);
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        place_of(line + 1, column)
    };
    let text =
        std::str::from_utf8(bytes).map_err(|error| Wrong::at(place(error.valid_up_to()), "not UTF-8"))?;
    // Some editors begin a file with an invisible mark, which means nothing.
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let text = &text[start..];
    for (offset, c) in text.char_indices() {
        let is_line_end = c == '\r' && text[offset + 1..].starts_with('\n');
        if crate::text::visible::is_deceptive(c) && !matches!(c, '\n' | '\t') && !is_line_end {
            let what = format!("a character that cannot be seen: U+{:04X}", c as u32);
            return Err(Wrong::at(place(start + offset), what));
        }
    }
    Ok(text)
}

fn place_of(line: usize, column_from_zero: usize) -> TextPlace {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    TextPlace { line: small(line.max(1)), column: small(column_from_zero + 1) }
}

/// Puts events together to a tree, without calling itself: depth costs no stack.
#[derive(Default)]
struct Builder {
    lines_above: u32,
    open: Vec<Open>,
    /// How many levels below the deepest that is kept.
    skipped: usize,
    documents: usize,
    root: Option<YamlNode>,
    wrong: Vec<Wrong>,
}

enum Open {
    List(TextPlace, Vec<YamlNode>),
    Map {
        place: TextPlace,
        entries: Vec<(YamlKey, YamlNode)>,
        /// The line of each key: a map of thousands is not searched for every one of them.
        lines: HashMap<String, u32>,
        next: Next,
    },
}

/// What a map waits for.
enum Next {
    Key,
    Value(YamlKey),
    /// The value of a key that does not count.
    Ignored,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) {
        let place = place_of(span.start.line(), span.start.col()).below(self.lines_above);
        let (anchor, has_tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor != 0 {
            self.complain(place, "anchors (`&name`) are not allowed");
        }
        if has_tag {
            self.complain(place, "tags (`!name`) are not allowed");
        }
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents == 2 {
                    self.complain(place, "a second document (`---`) is not allowed");
                }
            }
            Event::Scalar(text, style, ..) => {
                let is_plain = style == ScalarStyle::Plain;
                if text.contains('\0') {
                    self.complain(place, "a NUL character is not allowed");
                }
                self.put(YamlNode { place, value: YamlValue::Scalar { text: text.into_owned(), is_plain } });
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                self.complain(place, "aliases (`*name`) are not allowed");
                self.put(YamlNode {
                    place,
                    value: YamlValue::Scalar { text: String::new(), is_plain: false },
                });
            }
            Event::SequenceStart(..) => self.enter(Open::List(place, Vec::new()), place),
            Event::MappingStart(..) => {
                let (entries, lines, next) = (Vec::new(), HashMap::new(), Next::Key);
                self.enter(Open::Map { place, entries, lines, next }, place);
            }
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
            _ => {}
        }
    }

    fn complain(&mut self, place: TextPlace, what: &str) {
        // Enough to see what is wrong; a file full of anchors needs no thousand lines.
        if self.wrong.len() < 100 {
            self.wrong.push(Wrong::at(place, what));
        }
    }

    fn enter(&mut self, open: Open, place: TextPlace) {
        if self.skipped > 0 || self.open.len() == MAX_DEPTH {
            if self.skipped == 0 {
                self.complain(place, "nested deeper than 16 levels");
            }
            self.skipped += 1;
        } else {
            self.open.push(open);
        }
    }

    fn leave(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
            if self.skipped == 0 {
                let place = TextPlace { line: 1, column: 1 };
                self.put(YamlNode { place, value: YamlValue::List(Vec::new()) });
            }
            return;
        }
        let node = match self.open.pop() {
            Some(Open::List(place, items)) => YamlNode { place, value: YamlValue::List(items) },
            Some(Open::Map { place, entries, .. }) => YamlNode { place, value: YamlValue::Map(entries) },
            None => return,
        };
        self.put(node);
    }

    fn put(&mut self, node: YamlNode) {
        if self.skipped > 0 {
            return;
        }
        match self.open.last_mut() {
            None if self.documents == 1 => self.root = Some(node),
            None => {}
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map { entries, lines, next, .. }) => match std::mem::replace(next, Next::Key) {
                Next::Value(key) => entries.push((key, node)),
                Next::Ignored => {}
                Next::Key => {
                    let place = node.place;
                    let complaint = match node.value {
                        YamlValue::Scalar { text: name, is_plain } => {
                            if name == "<<" && is_plain {
                                "merge keys (`<<`) are not allowed".to_owned()
                            } else if let Some(line) = lines.get(&name) {
                                format!("`{}` {TWICE} {line}", short(&name))
                            } else {
                                lines.insert(name.clone(), place.line);
                                *next = Next::Value(YamlKey { place, name });
                                return;
                            }
                        }
                        YamlValue::List(_) | YamlValue::Map(_) => "a key must be a word".to_owned(),
                    };
                    *next = Next::Ignored;
                    self.complain(place, &complaint);
                }
            },
        }
    }
}

/// Text from a file as part of a message.
pub fn short(text: &str) -> String {
    let line = crate::text::visible::visible(text).replace('\n', "\\n");
    match line.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
