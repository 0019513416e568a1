//! Takes values out of the head of a task file and collects everything that is wrong with them.

use crate::{
    duration::Millis,
    problem::{CheckedFile, Problem},
    text::nearest::nearest,
    yaml::{TextPlace, YamlKey, YamlNode, YamlValue, short},
};

/// How many problems of one file are told.
const MOST_PROBLEMS: usize = 100;
/// How long a list may be.
const MAX_ENTRIES: usize = 200;

/// A map of the file.
pub(super) struct HeadMap(Vec<(YamlKey, YamlNode)>);

impl HeadMap {
    pub(super) fn of(entries: Vec<(YamlKey, YamlNode)>) -> Self {
        Self(entries)
    }

    /// The value of `key`, unless it has none.
    pub(super) fn get(&self, key: &str) -> Option<&YamlNode> {
        self.0.iter().find(|(known, node)| known.name == key && !is_nothing(node)).map(|(_, node)| node)
    }

    pub(super) fn place(&self, key: &str) -> Option<TextPlace> {
        self.0.iter().find(|(known, _)| known.name == key).map(|(known, _)| known.place)
    }
}

pub(super) struct HeadReader<'a> {
    pub(super) source: CheckedFile<'a>,
    pub(super) problems: Vec<Problem>,
}

impl HeadReader<'_> {
    pub(super) fn wrong(&mut self, place: TextPlace, what: impl Into<String>, fix: impl Into<String>) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(self.source.problem(place, what, fix));
        }
    }

    /// The map in `node`, in which every key is `known`.
    pub(super) fn map(&mut self, node: &YamlNode, name: &str, known: &[&str]) -> Option<HeadMap> {
        let YamlValue::Map(entries) = &node.value else {
            self.wrong(
                node.place,
                format!("{name} must be a map of keys"),
                format!("write `{}: …`", known[0]),
            );
            return None;
        };
        for (YamlKey { name, place }, value) in entries {
            if !known.contains(&name.as_str()) {
                let fix = match nearest(name, known) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("known here: {}", known.join(", ")),
                };
                self.wrong(*place, format!("unknown key `{}`", short(name)), fix);
            } else if is_nothing(value) {
                let fix = "give it a value, or take the line away";
                self.wrong(*place, format!("`{}` has no value", short(name)), fix);
            }
        }
        Some(HeadMap(entries.clone()))
    }

    /// Text that is not blank.
    pub(super) fn text(&mut self, map: &HeadMap, path: &str, key: &str) -> Option<String> {
        let node = map.get(key)?;
        match &node.value {
            YamlValue::Scalar { text, .. } if !text.trim().is_empty() => Some(text.clone()),
            YamlValue::Scalar { .. } => {
                let fix = "give it a value, or take the line away";
                self.wrong(node.place, format!("`{}` must not be blank", joined(path, key)), fix);
                None
            }
            YamlValue::List(_) | YamlValue::Map(_) => {
                self.wrong(
                    node.place,
                    format!("`{}` must be text", joined(path, key)),
                    format!("write `{key}: …`"),
                );
                None
            }
        }
    }

    /// A list of texts, each of them not blank.
    pub(super) fn words(&mut self, map: &HeadMap, path: &str, key: &str) -> Vec<String> {
        let places = self.placed_words(map, path, key);
        places.into_iter().map(|(word, _)| word).collect()
    }

    pub(super) fn placed_words(&mut self, map: &HeadMap, path: &str, key: &str) -> Vec<(String, TextPlace)> {
        let Some(node) = map.get(key) else { return Vec::new() };
        let name = joined(path, key);
        let YamlValue::List(entries) = &node.value else {
            self.wrong(node.place, format!("`{name}` must be a list"), format!("write `{key}: […]`"));
            return Vec::new();
        };
        if entries.len() > MAX_ENTRIES {
            let what = format!("`{name}` has more than {MAX_ENTRIES} entries");
            self.wrong(node.place, what, "name only what is needed");
            return Vec::new();
        }
        let mut words = Vec::new();
        for entry in entries {
            match &entry.value {
                YamlValue::Scalar { text, .. } if !text.trim().is_empty() && !is_nothing(entry) => {
                    words.push((text.trim().to_owned(), entry.place));
                }
                _ => {
                    let what = format!("an entry of `{name}` must be text that is not blank");
                    self.wrong(entry.place, what, "give it a value, or take it away");
                }
            }
        }
        words
    }

    /// An exit code: 0 to 255.
    pub(super) fn exit_code(&mut self, map: &HeadMap, path: &str, key: &str) -> Option<i32> {
        let node = map.get(key)?;
        if let YamlValue::Scalar { text, is_plain: true } = &node.value
            && let Ok(code) = text.parse::<u8>()
        {
            return Some(i32::from(code));
        }
        let what = format!("`{}` must be a whole number from 0 to 255", joined(path, key));
        self.wrong(node.place, what, format!("write `{key}: 0`"));
        None
    }

    /// A length of time: a number of seconds, or a duration like `5m`.
    pub(super) fn seconds(&mut self, map: &HeadMap, path: &str, key: &str) -> Option<Millis> {
        let node = map.get(key)?;
        if let YamlValue::Scalar { text, .. } = &node.value {
            let seconds =
                text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
            let length = match seconds {
                Some(seconds) => Some(Millis(u64::from(seconds) * 1000)),
                None => text.parse::<Millis>().ok(),
            };
            if let Some(length) = length.filter(|length| !length.is_zero()) {
                return Some(length);
            }
        }
        let what = format!("`{}` must be a number of seconds, or a duration like 5m", joined(path, key));
        self.wrong(node.place, what, format!("write `{key}: 300`"));
        None
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

pub(super) fn is_nothing(node: &YamlNode) -> bool {
    matches!(&node.value, YamlValue::Scalar { text, is_plain: true } if matches!(text.as_str(), "" | "~" | "null"))
}
