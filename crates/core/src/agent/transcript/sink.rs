//! Where the formats put what they hear.

use super::{Ending, EndingKind, OutputEvent, OutputSummary, UsageScope, lenient::ToolInput};
use crate::event::Usage;

/// A person reads no more than this.
const MOST_WARNINGS: usize = 20;

/// Hands on what is heard and notes what is told.
pub(super) struct TranscriptSink<'a> {
    heard: &'a mut dyn FnMut(OutputEvent<'_>),
    pub(super) summary: &'a mut OutputSummary,
}

impl<'a> TranscriptSink<'a> {
    pub(super) fn new(heard: &'a mut dyn FnMut(OutputEvent<'_>), summary: &'a mut OutputSummary) -> Self {
        Self { heard, summary }
    }

    /// The agent's own words, complete.
    pub(super) fn message(&mut self, words: &str) {
        self.summary.trouble = None;
        if !words.trim().is_empty() {
            (self.heard)(OutputEvent::Message(words));
        }
    }

    pub(super) fn tool(&mut self, name: &str, input: &ToolInput) {
        self.summary.trouble = None;
        (self.heard)(OutputEvent::Tool { name, input: &input.line });
    }

    pub(super) fn usage(&mut self, scope: UsageScope, id: Option<&str>, usage: Usage, cost_usd: Option<f64>) {
        (self.heard)(OutputEvent::Usage { scope, id, usage, cost_usd });
    }

    pub(super) fn written(&mut self, bytes: usize) {
        if bytes > 0 {
            (self.heard)(OutputEvent::Written(bytes));
        }
    }

    /// The CLI tries again after an error.
    pub(super) fn retry(&mut self, error: Ending) {
        (self.heard)(OutputEvent::Retry { detail: &error.message });
        self.summary.trouble = Some(error);
    }

    pub(super) fn session(&mut self, id: Option<&str>) {
        set(&mut self.summary.session, id);
    }

    pub(super) fn subscription(&mut self, is_one: bool) {
        self.summary.is_subscription |= is_one;
    }

    pub(super) fn model(&mut self, name: Option<&str>) {
        set(&mut self.summary.model, name);
    }

    pub(super) fn warn(&mut self, text: &str) {
        let warnings = &mut self.summary.warnings;
        if warnings.len() < MOST_WARNINGS && !warnings.iter().any(|known| known == text) {
            warnings.push(text.to_owned());
        }
    }

    pub(super) fn end(&mut self, ending: Ending) {
        self.summary.ending = Some(ending);
        (self.heard)(OutputEvent::Final);
    }
}

fn set(place: &mut Option<String>, value: Option<&str>) {
    if let Some(value) = value.filter(|value| !value.is_empty())
        && place.as_deref() != Some(value)
    {
        *place = Some(value.to_owned());
    }
}

impl Ending {
    /// The agent finished by itself.
    pub(super) fn good() -> Self {
        Self { is_ok: true, ..Self::default() }
    }

    /// It did not, in these words.
    pub(in crate::agent) fn bad(message: &str) -> Self {
        Self { message: message.trim().to_owned(), ..Self::default() }
    }

    pub(super) fn of_kind(self, kind: Option<EndingKind>) -> Self {
        Self { kind: kind.or(self.kind), ..self }
    }

    pub(super) fn with_status(self, status: Option<u16>) -> Self {
        Self { status: status.or(self.status), ..self }
    }
}
