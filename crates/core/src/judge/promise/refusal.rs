//! The words by which an agent refuses the work that it was asked to judge.

use super::line::Line;
use super::plain::PlainHit;
use super::wording::reason;
use crate::judge::own_lines::behind;

/// What a line begins with if it is a refusal; empty: no line is.
#[derive(Debug, Default)]
pub(super) struct RefusalWords(Vec<String>);

impl RefusalWords {
    pub(super) fn new(words: &[String]) -> Self {
        Self(words.to_vec())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The refusal on a line: how it stands there, and its words for people.
    pub(super) fn on(&self, line: &Line<'_>) -> Option<(PlainHit, String)> {
        if self.is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(line.text.head);
        let alone = behind(&text, &self.0)?.is_empty();
        let hit = PlainHit { alone, must_be_last: false, in_backticks: false };
        Some((hit, reason(line.text.head)?))
    }
}
