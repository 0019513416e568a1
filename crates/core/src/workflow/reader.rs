//! Takes values out of the maps of a workflow file and collects everything that is wrong with them.

use super::{
    Dialect,
    keys::{self, SectionSpec},
    parse::{LeftOut, ParseSettings},
};
use crate::{
    duration::Millis,
    problem::{CheckedFile, Problem},
    text::{nearest::nearest, visible::is_deceptive},
    yaml::{TextPlace, YamlKey, YamlNode, YamlValue, short},
};

/// How many problems of one file are told.
const MOST_PROBLEMS: usize = 100;
/// How long a list may be.
const MAX_ENTRIES: usize = 1000;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) place: TextPlace,
}

/// A file while it is read.
pub(super) struct Reader<'a> {
    pub(super) source: CheckedFile<'a>,
    pub(super) dialect: Dialect,
    pub(super) settings: ParseSettings,
    pub(super) problems: Vec<Problem>,
    pub(super) notes: Vec<Problem>,
    pub(super) left_out: Vec<LeftOut>,
}

/// A map of the file, of which only known keys are left.
pub(super) struct Map {
    /// What stands before a key in messages: nothing, or `loop.`.
    pub(super) path: String,
    pub(super) place: TextPlace,
    entries: Vec<(YamlKey, YamlNode)>,
}

impl Map {
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(known, _)| known.name == key)
    }

    /// Where `key` stands, else where the map begins.
    pub(super) fn place_of(&self, key: &str) -> TextPlace {
        self.entries.iter().find(|(known, _)| known.name == key).map_or(self.place, |(known, _)| known.place)
    }

    pub(super) fn node(&self, key: &str) -> Option<&YamlNode> {
        self.entries.iter().find(|(known, _)| known.name == key).map(|(_, node)| node)
    }

    fn take(&mut self, key: &str) -> Option<(YamlKey, YamlNode)> {
        let at = self.entries.iter().position(|(known, _)| known.name == key)?;
        Some(self.entries.remove(at))
    }

    pub(super) fn path(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }
}

/// Whether there is nothing where a value could stand.
pub(super) fn is_nothing(node: &YamlNode) -> bool {
    matches!(&node.value, YamlValue::Scalar { text, is_plain: true } if matches!(text.as_str(), "" | "~" | "null"))
}

impl Reader<'_> {
    /// The file's own name, as the messages of workflows have it.
    pub(super) fn file_name(&self) -> String {
        let name = self.source.file.rsplit('/').next().unwrap_or(self.source.file);
        crate::text::visible::visible(name).replace('\n', "\\n")
    }

    pub(super) fn wrong(&mut self, place: TextPlace, what: impl Into<String>, fix: impl Into<String>) {
        // Enough to see what is wrong; a file of nothing but mistakes needs no thousand lines.
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(self.source.problem(place, what, fix));
        }
    }

    pub(super) fn note(&mut self, place: TextPlace, what: impl Into<String>, fix: impl Into<String>) {
        if self.notes.len() < MOST_PROBLEMS {
            self.notes.push(self.source.problem(place, what, fix));
        }
    }

    /// Something that Archon lets pass with a warning, and dacapo's own files may not have.
    pub(super) fn wrong_unless_archon(
        &mut self,
        place: TextPlace,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) {
        match self.dialect {
            Dialect::Archon => self.note(place, what, fix),
            Dialect::Dacapo => self.wrong(place, what, fix),
        }
    }

    /// The map in `node`, with complaints about every key that is not in `section`.
    pub(super) fn map(
        &mut self,
        name: &str,
        path: &str,
        node: YamlNode,
        section: &SectionSpec,
    ) -> Option<Map> {
        let place = node.place;
        let YamlValue::Map(mut entries) = node.value else {
            let example = section.keys.first().map_or("key", |key| key.name);
            self.wrong(
                place,
                format!("{name} must be a map of keys"),
                format!("write lines of `{example}: …`"),
            );
            return None;
        };
        entries.retain(|(YamlKey { place, name: key }, _)| {
            let is_known = section.has(key);
            if !is_known {
                self.unknown(*place, path, key, section);
            }
            is_known
        });
        Some(Map { path: path.to_owned(), place, entries })
    }

    fn unknown(&mut self, place: TextPlace, path: &str, key: &str, section: &SectionSpec) {
        let shown = short(key);
        if section.name == "step" && keys::ARCHON_KINDS.contains(&key) {
            let what = format!("`{shown}` steps are Archon's, and dacapo cannot run them");
            self.wrong(place, what, "write the step as `bash`, `prompt`, `command` or `loop`");
            return;
        }
        if self.settings.lenient {
            self.left_out.push(LeftOut { key: format!("{path}{shown}"), line: place.line });
            return;
        }
        // Looking for the word that was meant takes time, and nothing more is told anyway.
        if self.problems.len() >= MOST_PROBLEMS {
            return;
        }
        if keys::ARCHON_ONLY.contains(&key) {
            let what = format!("`{shown}` is a key of Archon's that dacapo does nothing with");
            self.wrong(place, what, "take it away, or leave it out of this run with `--lenient`");
        } else if let Some(meant) = nearest(key, &section.names()) {
            let what = format!("unknown key `{shown}`; did you mean `{meant}`?");
            self.wrong(place, what, format!("write `{meant}`"));
        } else {
            let what = format!("unknown key `{shown}`");
            self.wrong(place, what, format!("known here: {}", section.names().join(", ")));
        }
    }

    /// The value under `key`; a key without a value is a mistake (req 201).
    pub(super) fn take(&mut self, map: &mut Map, key: &str) -> Option<YamlNode> {
        let (known, node) = map.take(key)?;
        if is_nothing(&node) {
            let what = format!("`{}` has no value", map.path(key));
            self.wrong(known.place, what, "give it a value, or take the line away");
            return None;
        }
        Some(node)
    }

    /// Text that is not blank.
    pub(super) fn text(&mut self, map: &mut Map, key: &str) -> Option<Placed<String>> {
        let node = self.take(map, key)?;
        let path = map.path(key);
        self.text_of(&format!("`{path}`"), node)
    }

    pub(super) fn text_of(&mut self, name: &str, node: YamlNode) -> Option<Placed<String>> {
        match node.value {
            YamlValue::Scalar { text, .. } if text.trim().is_empty() => {
                self.wrong(node.place, format!("{name} is blank"), "give it a value, or take the line away");
                None
            }
            YamlValue::Scalar { text, .. } => Some(Placed { value: text, place: node.place }),
            YamlValue::List(_) | YamlValue::Map(_) => {
                self.wrong(node.place, format!("{name} must be text"), "write one text behind the key");
                None
            }
        }
    }

    /// One line of text for people and commands to use as a name.
    pub(super) fn name(&mut self, map: &mut Map, key: &str) -> Option<Placed<String>> {
        let Placed { value, place } = self.text(map, key)?;
        let value = value.trim().to_owned();
        let is_good =
            value.chars().count() <= 100 && !value.starts_with('-') && !value.chars().any(is_deceptive);
        if !is_good {
            let what = format!("`{}` cannot be a name", map.path(key));
            self.wrong(place, what, "write one line of at most 100 characters that does not begin with `-`");
            return None;
        }
        Some(Placed { value, place })
    }

    /// Whether it says yes; nothing at all is no.
    pub(super) fn truth(&mut self, map: &mut Map, key: &str) -> Option<Placed<bool>> {
        let (known, node) = map.take(key)?;
        let text = match &node.value {
            YamlValue::Scalar { text, .. } => text.trim().to_ascii_lowercase(),
            YamlValue::List(_) | YamlValue::Map(_) => "a list".to_owned(),
        };
        let value = match text.as_str() {
            "true" | "yes" | "on" | "1" => true,
            "false" | "no" | "off" | "0" | "" | "~" | "null" => false,
            _ => {
                let what = format!("`{}` must be true or false", map.path(key));
                self.wrong(node.place, what, format!("write `{key}: true` or `{key}: false`"));
                return None;
            }
        };
        Some(Placed { value, place: known.place })
    }

    pub(super) fn count(&mut self, map: &mut Map, key: &str, least: u32, most: u32) -> Option<Placed<u32>> {
        let node = self.take(map, key)?;
        if let Some(value) = whole_number(&node).filter(|number| (least..=most).contains(number)) {
            return Some(Placed { value, place: node.place });
        }
        let range = match most {
            1_000_000_000.. => format!("{least} or more"),
            most => format!("from {least} to {most}"),
        };
        let what = format!("`{}` must be a whole number, {range}", map.path(key));
        self.wrong(node.place, what, format!("write `{key}: {}`", least.max(1)));
        None
    }

    pub(super) fn choice<T: Copy>(
        &mut self,
        map: &mut Map,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<Placed<T>> {
        let node = self.take(map, key)?;
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        if let YamlValue::Scalar { text, .. } = &node.value {
            if let Some((_, value)) = words.iter().find(|(word, _)| word == text) {
                return Some(Placed { value: *value, place: node.place });
            }
            let meant =
                nearest(text, &known).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
            let what = format!("`{}` cannot be `{}`{meant}", map.path(key), short(text));
            self.wrong(node.place, what, format!("write one of {}", known.join(", ")));
        } else {
            let what = format!("`{}` must be one word", map.path(key));
            self.wrong(node.place, what, format!("write one of {}", known.join(", ")));
        }
        None
    }

    /// A length of time of more than nothing; a bare number is milliseconds.
    pub(super) fn duration(&mut self, map: &mut Map, key: &str) -> Option<Placed<Millis>> {
        let node = self.take(map, key)?;
        if let YamlValue::Scalar { text, .. } = &node.value {
            let millis = whole_number(&node).map(|number| Millis(u64::from(number)));
            if let Some(value) = millis.or_else(|| text.parse().ok()).filter(|time| !time.is_zero()) {
                return Some(Placed { value, place: node.place });
            }
        }
        let what = format!("`{}` must be a duration of more than zero", map.path(key));
        self.wrong(node.place, what, "write for example 500ms, 90s, 5m, 1h30m, or a number of milliseconds");
        None
    }

    pub(super) fn dollars(&mut self, map: &mut Map, key: &str) -> Option<f64> {
        let node = self.take(map, key)?;
        if let YamlValue::Scalar { text, is_plain: true } = &node.value
            && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && let Ok(value) = text.parse::<f64>()
            && value > 0.0
            && value <= 1e9
        {
            return Some(value);
        }
        let what = format!("`{}` must be an amount of US dollars, more than 0", map.path(key));
        self.wrong(node.place, what, format!("write for example `{key}: 2.50`"));
        None
    }

    pub(super) fn list(&mut self, map: &mut Map, key: &str) -> Option<Vec<YamlNode>> {
        let node = self.take(map, key)?;
        match node.value {
            YamlValue::List(items) if items.len() > MAX_ENTRIES => {
                let what = format!("`{}` has more than {MAX_ENTRIES} entries", map.path(key));
                self.wrong(node.place, what, "split it");
                None
            }
            YamlValue::List(items) => Some(items),
            YamlValue::Scalar { .. } | YamlValue::Map(_) => {
                let what = format!("`{}` must be a list", map.path(key));
                self.wrong(node.place, what, "begin each entry with `- `");
                None
            }
        }
    }

    /// A list of words; one word alone is a list of one in Archon's files.
    pub(super) fn words(&mut self, map: &mut Map, key: &str) -> Option<Vec<Placed<String>>> {
        let name = format!("an entry of `{}`", map.path(key));
        let nodes = self.list(map, key)?;
        let words: Vec<Placed<String>> =
            nodes.into_iter().filter_map(|node| self.text_of(&name, node)).collect();
        Some(words)
    }
}

/// Digits without quotes, sign or fraction.
pub(super) fn whole_number(node: &YamlNode) -> Option<u32> {
    match &node.value {
        YamlValue::Scalar { text, is_plain: true }
            if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) =>
        {
            text.parse().ok().filter(|number| *number <= 1_000_000_000)
        }
        _ => None,
    }
}

/// A value of the file as JSON.
pub(super) fn json(node: &YamlNode) -> serde_json::Value {
    match &node.value {
        YamlValue::Scalar { .. } if is_nothing(node) => serde_json::Value::Null,
        YamlValue::Scalar { text, is_plain: true } => match text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            text => serde_json::from_str::<serde_json::Number>(text)
                .map_or_else(|_| text.into(), serde_json::Value::Number),
        },
        YamlValue::Scalar { text, .. } => text.as_str().into(),
        YamlValue::List(items) => items.iter().map(json).collect(),
        YamlValue::Map(entries) => entries.iter().map(|(key, node)| (key.name.clone(), json(node))).collect(),
    }
}
