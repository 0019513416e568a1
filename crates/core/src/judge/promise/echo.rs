//! Telling what an agent says from the prompt repeated by it.

use super::line::{Excerpt, KeptLine, Line};
use super::plain::PlainWords;
use super::reader::{LineReader, LineSink};
use super::refusal::RefusalWords;
use super::rule::PromiseRule;

/// What an agent can say in words that its prompt may hold too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    Promise,
    Blocked,
    Refusal,
}

/// The places in the prompt that hold the promise, a `<blocked>` tag or the words of a refusal.
#[derive(Debug)]
pub(super) struct PromptEchoes {
    places: Vec<PromptPlace>,
}

/// A tag in the prompt and the nearest lines around it that are not blank.
#[derive(Debug)]
pub(super) struct PromptPlace {
    name: Saying,
    first: KeptLine,
    /// The same as `first` unless the tag spreads over lines.
    last: KeptLine,
    before: Option<KeptLine>,
    after: Option<KeptLine>,
}

impl PromptPlace {
    pub(super) fn follows(&self, before: Option<&KeptLine>) -> bool {
        self.before.is_some() && self.before.as_ref() == before
    }

    pub(super) fn precedes(&self, after: &Excerpt<'_>) -> bool {
        self.after.as_ref().is_some_and(|line| line.is(after))
    }

    /// Whether the prompt consists of this place alone.
    pub(super) fn is_whole_prompt(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }
}

impl PromptEchoes {
    pub(super) fn of(prompt: &str, rule: &PromiseRule, nonce: &str, refusals: &RefusalWords) -> Self {
        let mut reader = LineReader::new(rule, nonce);
        let plain = PlainWords::new(rule, nonce);
        let mut places =
            PlaceCollector { plain, refusals, places: Vec::new(), latest: None, opened: [None, None] };
        reader.read(prompt.as_bytes(), &mut places);
        reader.finish(&mut places);
        Self { places: places.places }
    }

    /// Whether no output can be an echo.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The places whose lines are those from `first` to `last`, or just `last` without a `first`.
    pub(super) fn matching(&self, name: Saying, first: Option<&KeptLine>, last: &Excerpt<'_>) -> Vec<usize> {
        let same = |place: &PromptPlace| {
            place.name == name
                && place.last.is(last)
                && first.map_or_else(|| place.first.is(last), |first| place.first == *first)
        };
        (0..self.places.len()).filter(|&index| same(&self.places[index])).collect()
    }

    pub(super) fn place(&self, index: usize) -> &PromptPlace {
        &self.places[index]
    }
}

struct PlaceCollector<'a> {
    plain: PlainWords,
    refusals: &'a RefusalWords,
    places: Vec<PromptPlace>,
    latest: Option<KeptLine>,
    /// The line on which the open tag of each name began, and the line before that.
    opened: [Option<(KeptLine, Option<KeptLine>)>; 2],
}

impl LineSink for PlaceCollector<'_> {
    fn blank(&mut self) {}

    fn line(&mut self, line: &Line<'_>) {
        let text = KeptLine::of(&line.text);
        for place in self.places.iter_mut().rev().take_while(|place| place.after.is_none()) {
            place.after = Some(text.clone());
        }
        let says_plainly = self.plain.on(line).is_some();
        for (name, marks, says_plainly, opened) in [
            (Saying::Promise, line.marks.promise, says_plainly, 0),
            (Saying::Blocked, line.marks.blocked, false, 1),
        ] {
            let opened = &mut self.opened[opened];
            if marks.across.is_some()
                && let Some((first, before)) = opened.take()
            {
                self.places.push(PromptPlace { name, first, last: text.clone(), before, after: None });
            }
            if marks.tag.is_some() || says_plainly {
                let (first, last) = (text.clone(), text.clone());
                self.places.push(PromptPlace { name, first, last, before: self.latest.clone(), after: None });
            }
            if marks.opening.is_some() {
                *opened = Some((text.clone(), self.latest.clone()));
            }
        }
        if self.refusals.on(line).is_some() {
            let (first, last) = (text.clone(), text.clone());
            let (name, before) = (Saying::Refusal, self.latest.clone());
            self.places.push(PromptPlace { name, first, last, before, after: None });
        }
        self.latest = Some(text);
    }
}
