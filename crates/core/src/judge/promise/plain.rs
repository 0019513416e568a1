//! The promised words without their tag.

use super::line::{Line, count_backticks};
use super::rule::{PlainWord, PromiseRule};

/// Looks for the bare words on a line.
#[derive(Debug)]
pub(super) struct PlainWords {
    words: String,
    mode: PlainWord,
}

/// The bare words on a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainHit {
    /// Nothing else is on the line.
    pub(super) alone: bool,
    /// It counts only if nothing but white space follows.
    pub(super) must_be_last: bool,
    /// Behind an odd number of backticks on its line.
    pub(super) in_backticks: bool,
}

impl PlainWords {
    pub(super) fn new(rule: &PromiseRule, nonce: &str) -> Self {
        let words = rule.expected(nonce).trim().to_owned();
        // The fields of a rule are open, so a blank text can get here; nothing may match it.
        let mode = if words.is_empty() { PlainWord::Off } else { rule.plain };
        Self { words, mode }
    }

    /// The words, if they count wherever they stand: the line reader has to look for them.
    pub(super) fn substring(&self) -> Option<&str> {
        (self.mode == PlainWord::Substring).then_some(&self.words)
    }

    pub(super) fn words(&self) -> &str {
        &self.words
    }

    pub(super) fn on(&self, line: &Line<'_>) -> Option<PlainHit> {
        let words = self.words.as_bytes();
        match self.mode {
            PlainWord::Off => None,
            PlainWord::Substring => line.marks.substring.map(|found| PlainHit {
                alone: line.text.is(words),
                must_be_last: false,
                in_backticks: found.in_backticks,
            }),
            PlainWord::OwnLineOrEnd => {
                if !line.text.ends_with(words) {
                    return None;
                }
                let alone = line.text.is(words);
                // `in-COMPLETE` and `<b>COMPLETE` are other words.
                let after_space = || {
                    let byte = line.text.byte_before_last(words.len());
                    byte.is_some_and(|byte| byte.is_ascii_whitespace())
                };
                if !alone && !after_space() {
                    return None;
                }
                let backticks = line.backticks() - count_backticks(words);
                Some(PlainHit { alone, must_be_last: !alone, in_backticks: backticks % 2 == 1 })
            }
        }
    }
}
