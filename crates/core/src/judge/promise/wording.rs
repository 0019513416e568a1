//! Whether the words inside a tag are the promised ones.

use super::rule::{LetterCase, PromiseRule};

/// The words a tag has to hold.
#[derive(Debug)]
pub(super) struct Wording {
    expected: String,
    folded: String,
    case: LetterCase,
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
            Some(self.case == LetterCase::Insensitive)
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

/// What dacapo's prompts have in place of a reason. An agent that repeats it gives no reason.
pub(crate) const PLACEHOLDER: &str = "your reason";

/// How much of a reason is kept, in bytes.
const LONGEST_REASON: usize = 500;

/// The reason inside a `<blocked>` tag: one line for people, cut between two words if it is very long. `None` if nothing is
/// said in it.
pub(super) fn reason(inner: &[u8]) -> Option<String> {
    let inner = String::from_utf8_lossy(inner);
    let mut reason = String::new();
    for word in inner.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        // Half a word could be half a secret, which nothing would know for one.
        let room = LONGEST_REASON.saturating_sub(reason.len());
        if word.len() >= room {
            if reason.is_empty() {
                reason.push_str(&word[..word.floor_char_boundary(room)]);
            }
            reason.push('…');
            break;
        }
        if !reason.is_empty() {
            reason.push(' ');
        }
        reason.push_str(word);
    }
    let says_something =
        reason.chars().any(char::is_alphanumeric) && !reason.eq_ignore_ascii_case(PLACEHOLDER);
    says_something.then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_some_length_that_says_something() {
        let cut = |text: &str| format!("{}…", vec![text; 100].join(" "));
        for (inner, expected) in [
            ("why", Some("why".to_owned())),
            (" the port \r\n\t is\n\n taken ", Some("the port is taken".to_owned())),
            ("red \u{1b}[31m\u{7}text\u{0}", Some("red [31m text".to_owned())),
            ("Grün 日本語", Some("Grün 日本語".to_owned())),
            (&"word ".repeat(1000), Some(cut("word"))),
            (&"x".repeat(1000), Some(format!("{}…", "x".repeat(500)))),
            (&"é".repeat(1000), Some(format!("{}…", "é".repeat(250)))),
            ("", None),
            (" \n ", None),
            ("…", None),
            ("...", None),
            ("your reason", None),
            (" Your  Reason ", None),
        ] {
            assert_eq!(reason(inner.as_bytes()), expected, "{inner:?}");
        }
        assert_eq!(reason(b"caf\xff").as_deref(), Some("caf\u{fffd}"));
    }
}
