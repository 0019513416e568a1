//! A map of a file under inspection: takes out what it knows, complains about the rest.

use super::{At, Author, Problems};
use crate::{
    duration::Millis,
    text::nearest::nearest,
    yaml::{TextPlace, YamlKey, YamlNode, YamlValue, short},
};

/// What only the user may say; a repository that tries is told so instead of being corrected.
pub(super) const USERS_OWN: [&str; 10] = [
    "agents",
    "backoff",
    "env",
    "environment",
    "fallback",
    "hooks",
    "permissions",
    "prices",
    "serve",
    "trust",
];

/// How many entries a list of commands or patterns may have.
const MAX_ENTRIES: usize = 200;

/// A map of the file, its name for messages, and the list that problems go to.
pub(super) struct ConfigSection<'p> {
    name: String,
    entries: Vec<(YamlKey, YamlNode)>,
    author: Author,
    problems: &'p mut Problems,
}

impl<'p> ConfigSection<'p> {
    /// The map in `node`, with complaints about every key that is not `known`.
    pub(super) fn of(
        name: &str,
        node: YamlNode,
        known: &[&str],
        author: Author,
        problems: &'p mut Problems,
    ) -> Option<Self> {
        let YamlValue::Map(mut entries) = node.value else {
            problems.add(node.place, format!("{name} must be a map of keys, like `{}: …`", known[0]));
            return None;
        };
        entries.retain(|(YamlKey { place, name: key }, _)| {
            let is_known = known.contains(&key.as_str());
            if !is_known {
                let is_forbidden = author == Author::Repository && USERS_OWN.contains(&key.as_str());
                problems.add(*place, unknown(key, known, is_forbidden));
            }
            is_known
        });
        Some(Self { name: name.to_owned(), entries, author, problems })
    }

    /// Whether the file is the user's own.
    pub(super) fn is_users(&self) -> bool {
        self.author == Author::User
    }

    /// The section under `key`.
    pub(super) fn section(&mut self, key: &str, known: &[&str]) -> Option<ConfigSection<'_>> {
        let node = self.take(key)?;
        ConfigSection::of(&format!("`{}`", self.path(key)), node, known, self.author, self.problems)
    }

    /// The value under `key`, unless there is none; one without content is a mistake (req 201).
    pub(super) fn take(&mut self, key: &str) -> Option<YamlNode> {
        let at = self.entries.iter().position(|(known, _)| known.name == key)?;
        let (known, node) = self.entries.remove(at);
        if is_nothing(&node) {
            self.wrong(known.place, format!("`{}` has no value", self.path(key)));
            return None;
        }
        Some(node)
    }

    /// Whether `key` is there at all.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(known, _)| known.name == key)
    }

    pub(super) fn wrong(&mut self, place: TextPlace, what: impl Into<String>) {
        self.problems.add(place, what);
    }

    /// Text that is not blank.
    pub(super) fn text(&mut self, key: &str) -> Option<At<String>> {
        let node = self.take(key)?;
        let name = format!("`{}`", self.path(key));
        self.text_of(&name, node)
    }

    pub(super) fn text_of(&mut self, name: &str, node: YamlNode) -> Option<At<String>> {
        match node.value {
            YamlValue::Scalar { text, .. } if text.trim().is_empty() => {
                self.wrong(node.place, format!("{name} must not be blank"));
                None
            }
            YamlValue::Scalar { text, .. } => Some(At { value: text, line: node.place.line }),
            YamlValue::List(_) | YamlValue::Map(_) => {
                self.wrong(node.place, format!("{name} must be text"));
                None
            }
        }
    }

    /// A whole number from `least` on.
    pub(super) fn count(&mut self, key: &str, least: u32) -> Option<At<u32>> {
        let node = self.take(key)?;
        let line = node.place.line;
        if let YamlValue::Scalar { text, is_plain: true } = &node.value
            && text.bytes().all(|b| b.is_ascii_digit())
            && let Ok(value) = text.parse::<u32>()
            && (least..=1_000_000_000).contains(&value)
        {
            return Some(At { value, line });
        }
        self.wrong(node.place, format!("`{}` must be a whole number, {least} or more", self.path(key)));
        None
    }

    /// A whole number of tokens, more than none.
    pub(super) fn tokens(&mut self, key: &str) -> Option<At<u64>> {
        const MOST: u64 = 1_000_000_000_000_000;
        let node = self.take(key)?;
        if let YamlValue::Scalar { text, is_plain: true } = &node.value
            && text.bytes().all(|b| b.is_ascii_digit())
            && let Ok(value) = text.parse::<u64>()
            && (1..=MOST).contains(&value)
        {
            return Some(At { value, line: node.place.line });
        }
        self.wrong(node.place, format!("`{}` must be a whole number of tokens, 1 or more", self.path(key)));
        None
    }

    /// An amount of US dollars; nothing at all only where it `may_be_zero`.
    pub(super) fn dollars(&mut self, key: &str, may_be_zero: bool) -> Option<At<f64>> {
        const MOST: f64 = 1e9;
        let node = self.take(key)?;
        if let YamlValue::Scalar { text, is_plain: true } = &node.value
            // Digits and a point: `1e9`, `inf` and `$5` are more likely mistakes than amounts.
            && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && let Ok(value) = text.parse::<f64>()
            && value <= MOST
            && (value > 0.0 || may_be_zero)
        {
            return Some(At { value, line: node.place.line });
        }
        let least = if may_be_zero { "0 or more" } else { "more than 0" };
        let what = format!("`{}` must be an amount of US dollars, {least}, for example 2.50", self.path(key));
        self.wrong(node.place, what);
        None
    }

    /// A list of words, each of them not blank.
    pub(super) fn words(&mut self, key: &str) -> Option<At<Vec<String>>> {
        let line = self.place(key)?.line;
        let name = format!("an entry of `{}`", self.path(key));
        let nodes = self.list(key);
        let words = nodes.into_iter().filter_map(|node| self.text_of(&name, node)).map(|word| word.value);
        Some(At { value: words.collect(), line })
    }

    /// The entries of a map whose keys are names that the user chose.
    pub(super) fn named(&mut self, key: &str) -> Vec<(YamlKey, YamlNode)> {
        let Some(node) = self.take(key) else { return Vec::new() };
        let YamlValue::Map(entries) = node.value else {
            self.wrong(node.place, format!("`{}` must be a map of names", self.path(key)));
            return Vec::new();
        };
        if entries.len() > MAX_ENTRIES {
            self.wrong(node.place, format!("`{}` has more than {MAX_ENTRIES} entries", self.path(key)));
            return Vec::new();
        }
        entries
    }

    /// The value of `key`, which must be `true` or `false`.
    pub(super) fn flag(&mut self, key: &str) -> Option<At<bool>> {
        self.choice(key, &[("true", true), ("false", false)])
    }

    /// One of a few words, without quotes.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Option<At<T>> {
        let node = self.take(key)?;
        if let YamlValue::Scalar { text, is_plain: true } = &node.value
            && let Some((_, value)) = words.iter().find(|(word, _)| word == text)
        {
            return Some(At { value: *value, line: node.place.line });
        }
        let words: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        self.wrong(node.place, format!("`{}` must be {}", self.path(key), words.join(" or ")));
        None
    }

    /// A length of time of more than nothing.
    pub(super) fn duration(&mut self, key: &str) -> Option<At<Millis>> {
        let node = self.take(key)?;
        let line = node.place.line;
        if let YamlValue::Scalar { text, .. } = &node.value {
            match text.parse::<Millis>() {
                Ok(value) if !value.is_zero() => return Some(At { value, line }),
                Ok(_) => {
                    self.wrong(node.place, format!("`{}` must be more than zero", self.path(key)));
                    return None;
                }
                Err(_) => {}
            }
        }
        let what = format!("`{}` must be a duration, for example 500ms, 90s, 5m, 1h30m", self.path(key));
        self.wrong(node.place, what);
        None
    }

    /// The entries of a list.
    pub(super) fn list(&mut self, key: &str) -> Vec<YamlNode> {
        let Some(node) = self.take(key) else { return Vec::new() };
        match node.value {
            YamlValue::List(items) if items.len() > MAX_ENTRIES => {
                self.wrong(node.place, format!("`{}` has more than {MAX_ENTRIES} entries", self.path(key)));
                Vec::new()
            }
            YamlValue::List(items) => items,
            YamlValue::Scalar { .. } | YamlValue::Map(_) => {
                self.wrong(node.place, format!("`{}` must be a list, like `[one, two]`", self.path(key)));
                Vec::new()
            }
        }
    }

    /// A map in a list of this section.
    pub(super) fn entry(&mut self, name: &str, node: YamlNode, known: &[&str]) -> Option<ConfigSection<'_>> {
        ConfigSection::of(name, node, known, self.author, self.problems)
    }

    /// The line and column of `key` in the file.
    pub(super) fn place(&self, key: &str) -> Option<TextPlace> {
        self.entries.iter().find(|(known, _)| known.name == key).map(|(known, _)| known.place)
    }

    /// `key` with the sections it lies in, for messages.
    pub(super) fn path(&self, key: &str) -> String {
        match self.name.trim_matches('`') {
            "the file" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }
}

/// Whether there is nothing where a value could stand.
pub(super) fn is_nothing(node: &YamlNode) -> bool {
    matches!(&node.value, YamlValue::Scalar { text, is_plain: true } if matches!(text.as_str(), "" | "~" | "null"))
}

fn unknown(key: &str, known: &[&str], is_forbidden: bool) -> String {
    if is_forbidden {
        return format!("`{key}` is the user's to say, a repository cannot set it");
    }
    let key = short(key);
    match nearest(&key, known) {
        Some(meant) => format!("unknown key `{key}`; did you mean `{meant}`?"),
        None => format!("unknown key `{key}`; known here: {}", known.join(", ")),
    }
}
