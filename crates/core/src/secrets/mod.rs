//! Secrets in what is about to be written: found by their value and by their shape, and replaced.
//!
//! A [`Redactor`] sits before every writer of output; [`Secrets::redact`] serves texts that are whole. Both are the
//! same search: a prefilter names the places where a secret could begin, and rules look at those places only.

mod facts;
mod finder;
mod known;
mod place;
mod redactor;
mod shapes;
mod tail;

use std::{
    borrow::Cow,
    ffi::OsString,
    fmt,
    sync::{Arc, OnceLock},
};

use aho_corasick::AhoCorasick;

pub use known::is_secret_name;
pub use redactor::Redactor;

use self::{finder::Finder, place::RuleAnswer, place::ScanPlace, shapes::Rule};

/// What stands where a secret stood: nothing of it is kept, not even its beginning.
pub const REDACTED: &str = "[redacted]";

/// What must not be written, ready to be searched for.
pub struct Secrets {
    /// In the order of `keys`.
    rules: Vec<Rule>,
    /// The first three bytes of each.
    keys: Vec<[u8; 3]>,
    finder: Finder,
    values: usize,
    /// Values that stand for a key beyond doubt, in every form that they are known to take.
    keys_of_access: Vec<Vec<u8>>,
    search_for_keys: OnceLock<Option<AhoCorasick>>,
}

impl Secrets {
    /// Secrets with these `values`, in every form that they are known to take, and secrets of well-known shapes.
    pub fn new(values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        Self::with(values.into_iter().map(|value| (value, true)))
    }

    /// The same; each value with whether it is a key beyond doubt.
    fn with(values: impl IntoIterator<Item = (impl AsRef<[u8]>, bool)>) -> Self {
        let (mut forms, mut keys_of_access) = (Vec::new(), Vec::new());
        let mut count = 0;
        for (value, is_key) in values {
            count += 1;
            for piece in known::pieces(value.as_ref()) {
                let own = known::forms(piece);
                if is_key {
                    keys_of_access.extend(own.iter().map(|form| form.bytes.clone()));
                }
                forms.extend(own);
            }
        }
        forms.sort_unstable();
        forms.dedup();
        let mut rules: Vec<Rule> = forms.into_iter().map(Rule::Known).chain(shapes::all()).collect();
        rules.sort_by_key(|rule| key(rule.beginning()));
        let keys = rules.iter().filter_map(|rule| key(rule.beginning())).collect();
        let finder = Finder::new(rules.iter().map(Rule::beginning));
        Self { rules, keys, finder, values: count, keys_of_access, search_for_keys: OnceLock::new() }
    }

    /// The secrets in an environment: the values of variables whose names say that they hold a key or password.
    pub fn of_environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self::with(variables.into_iter().filter_map(|(name, value)| {
            let (value, name) = (value.into_encoded_bytes(), name.to_str()?);
            let is_key = known::is_key_beyond_doubt(name, &value);
            known::is_secret(name, &value).then_some((value, is_key))
        }))
    }

    /// Whether `bytes` hold the value of a key. Unlike [`Secrets::is_in`] it knows no shapes and no short passwords: what it finds
    /// is left out of snapshots, and a file with a made-up token in a test must not be.
    pub fn has_key(&self, bytes: &[u8]) -> bool {
        let search = self.search_for_keys.get_or_init(|| {
            let keys = &self.keys_of_access;
            if keys.is_empty() { None } else { AhoCorasick::new(keys).ok() }
        });
        search.as_ref().is_some_and(|search| search.is_match(bytes))
    }

    /// How long the longest value that [`Secrets::has_key`] looks for is; 0 if it looks for none.
    pub fn longest_key(&self) -> usize {
        self.keys_of_access.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// `text` without its secrets.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match redactor::redact_whole(self, text.as_bytes()) {
            None => Cow::Borrowed(text),
            // Only whole letters are replaced, but for a private key that is cut within one.
            Some(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// Whether there is a secret in `text`.
    pub fn is_in(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }

    /// A redactor for one stream.
    pub fn redactor(self: &Arc<Self>) -> Redactor {
        Redactor::new(Arc::clone(self))
    }

    /// What the rules say about a place: all those that found something, or that more has to be seen.
    fn look(&self, place: &ScanPlace<'_>) -> Result<Vec<place::SecretSpan>, NeedsMore> {
        let mut found = Vec::new();
        let Some(key) = key(place.bytes) else { return Ok(found) };
        let begin = self.keys.partition_point(|other| *other < key);
        let alike = self.keys[begin..].iter().take_while(|other| **other == key).count();
        for rule in &self.rules[begin..begin + alike] {
            match rule.look(place) {
                RuleAnswer::No => {}
                RuleAnswer::More => return Err(NeedsMore),
                RuleAnswer::Found(at) => found.push(at),
            }
        }
        Ok(found)
    }
}

/// What rules are sorted by; every place that is found has as many bytes.
fn key(bytes: &[u8]) -> Option<[u8; 3]> {
    bytes.first_chunk().copied()
}

/// The place cannot be judged before more of the stream is known.
struct NeedsMore;

impl fmt::Debug for Secrets {
    /// Without the secrets: this ends up in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").field("values", &self.values).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
