//! Whether the words inside a tag are the promised ones.

use super::rule::{Case, PromiseRule};

/// The words a tag has to hold.
#[derive(Debug)]
pub(super) struct Wording {
    expected: String,
    folded: String,
    case: Case,
    trim: bool,
}

impl Wording {
    pub(super) fn new(rule: &PromiseRule, nonce: &str) -> Self {
        let mut expected = rule.expected(nonce);
        if rule.trim {
            expected = collapse(&expected);
        }
        Self { folded: fold(&expected), expected, case: rule.case, trim: rule.trim }
    }

    /// Whether `inner` has the promised words: `Some(false)` if in the wrong case.
    pub(super) fn judge(&self, inner: &[u8]) -> Option<bool> {
        // The fields of a rule are open, so a blank text can get here; nothing may match it.
        if self.expected.trim().is_empty() {
            return None;
        }
        let inner = String::from_utf8_lossy(inner);
        let inner = if self.trim { collapse(&inner) } else { inner.into_owned() };
        if inner == self.expected {
            Some(true)
        } else if fold(&inner) == self.folded {
            Some(self.case == Case::Insensitive)
        } else {
            None
        }
    }
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` in lower case, except that no letter becomes an ASCII one that was not: the lower case of
/// the Kelvin sign is `k`, and a look-alike is not a promise.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            folded.push(c.to_ascii_lowercase());
        } else if c.to_lowercase().any(|lower| lower.is_ascii()) {
            folded.push(c);
        } else {
            folded.extend(c.to_lowercase());
        }
    }
    folded
}
