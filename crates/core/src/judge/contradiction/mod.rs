//! Whether an agent's own words contradict its promise.
//!
//! Only prose counts: code fences, code within a line, quoted lines (`> …`), text in double quotes and
//! the promise tag itself are passed over. A phrase that is denied ("no tests failed", "tests failed:
//! 0") or only supposed ("if tests fail") does not count either. All of this is about wording; what is
//! really true is for gates to find out.

mod phrase;
mod prose;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use phrase::Phrase;
pub use phrase::PhraseError;

/// The longest excerpt kept of a hit, in characters.
const MAX_EXCERPT: usize = 160;

/// The phrases that contradict a promise.
///
/// Stored and configured as a list of phrases, or as `off`. A phrase is plain text in any case, with any
/// white space between its words; a `?` makes the letter before it optional, as in `tests? fail`, and
/// `\?` is a question mark. It has to begin where a word does and may end in an inflection: `fail` also
/// finds `failed`, `failing` and `failure`, but `blocked by` is not found in `unblocked by`.
#[derive(Clone, Debug, PartialEq)]
pub struct Patterns(Option<Vec<Phrase>>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    /// The phrase as it is configured.
    pub pattern: String,
    /// The sentence it was found in, cut if very long.
    pub text: String,
}

impl Patterns {
    /// No phrase contradicts anything.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// The patterns with these phrases.
    pub fn new<P: AsRef<str>>(phrases: &[P]) -> Result<Self, PhraseError> {
        phrases
            .iter()
            .map(|phrase| Phrase::parse(phrase.as_ref()))
            .collect::<Result<_, _>>()
            .map(|p| Self(Some(p)))
    }

    /// The patterns with these phrases beside their own; what is no phrase is left out.
    #[must_use]
    pub fn and<P: AsRef<str>>(self, phrases: &[P]) -> Self {
        let mut all = self.0.unwrap_or_default();
        all.extend(phrases.iter().filter_map(|phrase| Phrase::parse(phrase.as_ref()).ok()));
        Self(Some(all))
    }

    /// Whether nothing is looked for.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.0.as_ref().is_none_or(Vec::is_empty)
    }

    fn phrases(&self) -> &[Phrase] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Default for Patterns {
    fn default() -> Self {
        let phrases = [
            "TODO:",
            "FIXME:",
            "not yet implemented",
            "still need to",
            "remaining work",
            "blocked by",
            "cannot complete",
            "tests? fail",
        ];
        Self(Some(phrases.iter().filter_map(|phrase| Phrase::parse(phrase).ok()).collect()))
    }
}

impl Serialize for Patterns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => serializer.serialize_str("off"),
            Some(phrases) => serializer.collect_seq(phrases.iter().map(Phrase::as_str)),
        }
    }
}

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            // Some readers of YAML take `off` for a truth value.
            Switch(bool),
            Word(String),
            Phrases(Vec<String>),
        }
        match Written::deserialize(deserializer)? {
            Written::Switch(false) => Ok(Self::off()),
            Written::Switch(true) => Ok(Self::default()),
            Written::Word(word) if word.eq_ignore_ascii_case("off") => Ok(Self::off()),
            Written::Word(word) => {
                Err(de::Error::custom(format!("`{word}` is neither `off` nor a list of phrases")))
            }
            Written::Phrases(phrases) => Self::new(&phrases).map_err(de::Error::custom),
        }
    }
}

/// The first place in `text`, which an agent wrote, where one of `patterns` contradicts its promise.
#[must_use]
pub fn find(text: &str, patterns: &Patterns) -> Option<Hit> {
    if patterns.is_off() {
        return None;
    }
    prose::blocks(text).iter().find_map(|block| {
        let (at, phrase) = patterns
            .phrases()
            .iter()
            .filter_map(|phrase| phrase.first_in(block).map(|at| (at, phrase)))
            .min_by_key(|(at, _)| *at)?;
        Some(Hit { pattern: phrase.as_str().to_owned(), text: readable(&sentence(block, at)) })
    })
}

/// The sentence with dots for what was taken out of it; at its ends they would say nothing.
fn readable(sentence: &str) -> String {
    sentence.trim_matches([prose::GAP, ' ']).replace(prose::GAP, "…")
}

/// The sentence of `block` around the byte `at`.
fn sentence(block: &str, at: usize) -> String {
    let is_end =
        |(end, sign): &(usize, &str)| matches!(*sign, "." | "!" | "?") && block[end + 1..].starts_with(' ');
    let signs = || block.match_indices(['.', '!', '?']);
    let start = signs().take_while(|(end, _)| *end < at).filter(is_end).last().map_or(0, |(end, _)| end + 1);
    let end = signs().skip_while(|(end, _)| *end < at).find(is_end).map_or(block.len(), |(end, _)| end + 1);
    let whole = block[start..end].trim();
    // What was found is in it even if the sentence is long.
    let skipped = block[start..at].chars().count().saturating_sub(MAX_EXCERPT / 2);
    if whole.chars().count() <= MAX_EXCERPT {
        return whole.to_owned();
    }
    whole.chars().skip(skipped).take(MAX_EXCERPT).collect::<String>().trim().to_owned()
}

#[cfg(test)]
#[path = "../contradiction_tests.rs"]
mod tests;
