//! The promise, the `<blocked>` tag and a refusal in an agent's output, found while it streams by.

use serde::{Deserialize, Serialize};

use super::code::CodeTracker;
use super::echo::{PromptEchoes, Saying};
use super::line::{Excerpt, KeptLine, Line, Tag, TagMarks};
use super::plain::{PlainHit, PlainWords};
use super::reader::{LineReader, LineSink};
use super::refusal::RefusalWords;
use super::rule::{Placement, PromiseRule};

/// Messages below this size are read together with their line end.
const SHORT_MESSAGE: usize = 4 * 1024;

/// What was found in an agent's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detection {
    /// The promise as the agent wrote it, cut if very long.
    pub promise: Option<String>,
    /// The last tag with the right words that did not count. Only without a promise.
    pub near_miss: Option<NearMiss>,
    /// Why the agent cannot do what it was asked: the words of its first `<blocked>` tag that counts, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Why the last `<blocked>` tag did not count. Only if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_near_miss: Option<MissReason>,
    /// The first line by which the agent refuses the work that it was asked to judge, cut if very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// A tag with the right words that did not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    /// The tag as the agent wrote it, cut if very long.
    pub tag: String,
    /// Why it did not count.
    pub reason: MissReason,
}

/// Why a tag did not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissReason {
    /// It stands in a code fence, in an indented block or behind a backtick.
    InCode,
    /// Its line starts with `>`.
    Quoted,
    /// Other text stands beside it or, where it has to come last, after it.
    NotAlone,
    /// The agent repeated the prompt.
    Echo,
    /// Its words are in the wrong case.
    WrongCase,
}

/// Reads an agent's output as it arrives and finds the promise, the `<blocked>` tag and a refusal in it.
///
/// It holds a few KiB of the output, or a little over 64 KiB if a promise may stand anywhere.
#[derive(Debug)]
pub struct PromiseDetector {
    reader: LineReader,
    judge: Judge,
    /// A short message with its line end.
    message: Vec<u8>,
}

impl PromiseDetector {
    /// A detector for the output of the attempt that was given `prompt` and `nonce`.
    #[must_use]
    pub fn new(rule: &PromiseRule, nonce: &str, prompt: &str) -> Self {
        Self::with_refusals(rule, &[], nonce, prompt)
    }

    /// The same, which also hears a line that begins with one of `refusals`.
    #[must_use]
    pub fn with_refusals(rule: &PromiseRule, refusals: &[String], nonce: &str, prompt: &str) -> Self {
        let refusal_words = RefusalWords::new(refusals);
        Self {
            reader: LineReader::new(rule, nonce),
            judge: Judge {
                code: CodeTracker::new(),
                plain: PlainWords::new(rule, nonce),
                echoes: PromptEchoes::of(prompt, rule, nonce, &refusal_words),
                refusal_words,
                latest: None,
                promise: SayingState::new(Saying::Promise, rule.placement, rule.ignore_code),
                // However freely a promise may stand, a person is called for plain words only.
                blocked: SayingState::new(Saying::Blocked, Placement::OwnLineOrEnd, true),
                refusal: SayingState::new(Saying::Refusal, Placement::OwnLine, true),
            },
            message: Vec::new(),
        }
    }

    /// Reads the next chunk, which may end anywhere, also within a letter.
    pub fn push(&mut self, chunk: &[u8]) {
        if !self.judge.has_heard_all() {
            self.reader.read(chunk, &mut self.judge);
        }
    }

    /// Reads a whole message of an agent that speaks in messages: a fence or a tag that is left open in one ends with
    /// it, and only the last message has the last words.
    pub fn push_message(&mut self, message: &str) {
        if message.len() < SHORT_MESSAGE {
            // A line that comes with its end is read sooner than one that has to be kept until its end comes.
            let mut whole = std::mem::take(&mut self.message);
            whole.clear();
            whole.extend_from_slice(message.as_bytes());
            whole.push(b'\n');
            self.push(&whole);
            self.message = whole;
        } else {
            self.push(message.as_bytes());
            self.push(b"\n");
        }
        (self.judge.promise.opened, self.judge.blocked.opened) = (None, None);
        self.judge.code = CodeTracker::new();
    }

    /// The output is over: what was in it.
    #[must_use]
    pub fn finish(mut self) -> Detection {
        self.reader.finish(&mut self.judge);
        self.judge.settle();
        let Judge { promise, blocked, refusal, .. } = self.judge;
        Detection {
            near_miss: promise.near_miss.filter(|_| promise.found.is_none()),
            promise: promise.found,
            blocked_near_miss: blocked.near_miss.filter(|_| blocked.found.is_none()).map(|miss| miss.reason),
            blocked: blocked.found,
            refusal: refusal.found,
        }
    }

    /// Bytes of the output held at present.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.reader.buffered() + self.judge.buffered()
    }
}

/// Decides what of that which stands on the lines counts.
#[derive(Debug)]
struct Judge {
    code: CodeTracker,
    plain: PlainWords,
    echoes: PromptEchoes,
    refusal_words: RefusalWords,
    /// The line before; kept only where the prompt may be repeated.
    latest: Option<KeptLine>,
    promise: SayingState,
    blocked: SayingState,
    refusal: SayingState,
}

/// What was said of one kind so far.
#[derive(Debug)]
struct SayingState {
    name: Saying,
    placement: Placement,
    /// Whether a tag in code does not count.
    ignores_code: bool,
    /// Where the tag began that is still open.
    opened: Option<Opened>,
    /// Tags of the latest line that count or not depending on what follows.
    waiting: Vec<Candidate>,
    found: Option<String>,
    near_miss: Option<NearMiss>,
}

/// A line, and what is known about where it stands.
#[derive(Clone, Copy)]
struct Stand<'a> {
    line: &'a Line<'a>,
    in_code: bool,
    echoes: &'a PromptEchoes,
    latest: Option<&'a KeptLine>,
}

/// The start of a tag that spreads over lines.
#[derive(Debug)]
struct Opened {
    obstacle: Option<MissReason>,
    at_line_start: bool,
    line: KeptLine,
    before: Option<KeptLine>,
}

/// A tag that counts unless it is an echo or something follows that must not.
#[derive(Debug)]
struct Candidate {
    written: String,
    /// Bare words are too common to be reported when they do not count.
    is_tag: bool,
    alone: bool,
    must_be_last: bool,
    /// Nothing stands before it in the whole output.
    is_first: bool,
    /// Places in the prompt with the same lines.
    places: Vec<usize>,
}

impl LineSink for Judge {
    fn blank(&mut self) {
        self.code.blank();
    }

    fn line(&mut self, line: &Line<'_>) {
        let in_code = self.code.line(line);
        let stand = Stand { line, in_code, echoes: &self.echoes, latest: self.latest.as_ref() };
        let plain = self.plain.on(line).map(|hit| (hit, self.plain.words()));
        self.promise.hear(&stand, line.marks.promise, plain);
        self.blocked.hear(&stand, line.marks.blocked, None);
        let refusal = self.refusal_words.on(line);
        let refusal = refusal.as_ref().map(|(hit, words)| (*hit, words.as_str()));
        self.refusal.hear(&stand, TagMarks::default(), refusal);
        if !self.echoes.is_empty() {
            self.latest.get_or_insert_default().set(&line.text);
        }
    }
}

impl Judge {
    /// Decides on what was waiting, now that the output has ended.
    fn settle(&mut self) {
        self.promise.settle(None, &self.echoes);
        self.blocked.settle(None, &self.echoes);
        self.refusal.settle(None, &self.echoes);
    }

    /// Whether nothing that follows could change what was found: one of each is enough.
    fn has_heard_all(&self) -> bool {
        let hears_refusals = !self.refusal_words.is_empty();
        self.promise.found.is_some()
            && self.blocked.found.is_some()
            && (self.refusal.found.is_some() || !hears_refusals)
    }

    fn buffered(&self) -> usize {
        let said = [&self.promise, &self.blocked, &self.refusal];
        self.latest.as_ref().map_or(0, KeptLine::buffered)
            + said.iter().map(|said| said.buffered()).sum::<usize>()
    }
}

impl SayingState {
    fn new(name: Saying, placement: Placement, ignores_code: bool) -> Self {
        Self {
            name,
            placement,
            ignores_code,
            opened: None,
            waiting: Vec::new(),
            found: None,
            near_miss: None,
        }
    }

    /// Takes in the next line with its tags, and the plain words on it.
    fn hear(&mut self, stand: &Stand<'_>, marks: TagMarks<'_>, plain: Option<(PlainHit, &str)>) {
        let line = stand.line;
        self.settle(Some(&line.text), stand.echoes);
        let ignores_code = self.ignores_code;
        let obstacle = |in_backticks| {
            if line.text.head.starts_with(b">") {
                Some(MissReason::Quoted)
            } else if ignores_code && (stand.in_code || in_backticks) {
                Some(MissReason::InCode)
            } else {
                None
            }
        };
        if let Some(tag) = marks.across
            && let Some(opened) = self.opened.take()
        {
            let alone = opened.at_line_start && tag.end == line.text.len;
            self.consider_tag(tag, opened.obstacle, alone, stand, Some(&opened));
        }
        if let Some(tag) = marks.tag {
            let alone = tag.opening.start == 0 && tag.end == line.text.len;
            self.consider_tag(tag, obstacle(tag.opening.in_backticks), alone, stand, None);
        }
        if let Some((hit, words)) = plain.filter(|(hit, _)| obstacle(hit.in_backticks).is_none()) {
            let candidate = Candidate {
                written: words.to_owned(),
                is_tag: false,
                alone: hit.alone,
                must_be_last: hit.must_be_last,
                is_first: false,
                places: Vec::new(),
            };
            self.consider(candidate, stand, None);
        }
        if let Some(opening) = marks.opening {
            self.opened = Some(Opened {
                obstacle: obstacle(opening.in_backticks),
                at_line_start: opening.start == 0,
                line: KeptLine::of(&line.text),
                before: stand.latest.cloned(),
            });
        }
    }

    fn consider_tag(
        &mut self,
        tag: &Tag,
        obstacle: Option<MissReason>,
        alone: bool,
        stand: &Stand<'_>,
        opened: Option<&Opened>,
    ) {
        let text = &stand.line.text;
        let ends_line = tag.end == text.len;
        let must_be_last = match self.placement {
            Placement::OwnLine | Placement::OwnLineOrEnd if alone => Ok(false),
            Placement::OwnLineOrEnd if ends_line => Ok(true),
            Placement::LastLine if alone => Ok(true),
            Placement::OwnLine | Placement::OwnLineOrEnd | Placement::LastLine => Err(MissReason::NotAlone),
            Placement::Anywhere => Ok(false),
        };
        let wrong_case = (!tag.right_case).then_some(MissReason::WrongCase);
        match (obstacle.or(wrong_case), must_be_last) {
            (Some(reason), _) => self.miss(tag.written.clone(), reason),
            (None, Err(reason)) => {
                // Repeating the prompt's own mention of the tag is no attempt at it.
                let first = opened.map(|opened| &opened.line);
                let is_echo = !stand.echoes.matching(self.name, first, text).is_empty();
                self.miss(tag.written.clone(), if is_echo { MissReason::Echo } else { reason });
            }
            (None, Ok(must_be_last)) => {
                let candidate = Candidate {
                    written: tag.written.clone(),
                    is_tag: true,
                    alone,
                    must_be_last,
                    is_first: false,
                    places: Vec::new(),
                };
                self.consider(candidate, stand, opened);
            }
        }
    }

    /// Counts `candidate`, refuses it, or waits for what follows.
    fn consider(&mut self, mut candidate: Candidate, stand: &Stand<'_>, opened: Option<&Opened>) {
        let Stand { echoes, line, latest, .. } = *stand;
        let before = opened.map_or(latest, |opened| opened.before.as_ref());
        candidate.places = echoes.matching(self.name, opened.map(|opened| &opened.line), &line.text);
        candidate.is_first = before.is_none();
        // A tag alone is too short to tell whose it is; its neighbours tell.
        let is_echo = |&place: &usize| !candidate.alone || echoes.place(place).follows(before);
        if candidate.places.iter().any(is_echo) {
            self.refuse(candidate, MissReason::Echo);
        } else if candidate.must_be_last || !candidate.places.is_empty() {
            self.waiting.push(candidate);
        } else {
            self.found.get_or_insert(candidate.written);
        }
    }

    /// Decides on what was waiting, now that the next line or the end of the output is known.
    fn settle(&mut self, next: Option<&Excerpt<'_>>, echoes: &PromptEchoes) {
        for candidate in std::mem::take(&mut self.waiting) {
            let is_echo = |&place: &usize| {
                let place = echoes.place(place);
                match next {
                    Some(next) => place.precedes(next),
                    None => candidate.is_first && place.is_whole_prompt(),
                }
            };
            if candidate.places.iter().any(is_echo) {
                self.refuse(candidate, MissReason::Echo);
            } else if candidate.must_be_last && next.is_some() {
                self.refuse(candidate, MissReason::NotAlone);
            } else {
                self.found.get_or_insert(candidate.written);
            }
        }
    }

    fn refuse(&mut self, candidate: Candidate, reason: MissReason) {
        if candidate.is_tag {
            self.miss(candidate.written, reason);
        }
    }

    fn miss(&mut self, tag: String, reason: MissReason) {
        // An echo says nothing that the agent could do better.
        if reason != MissReason::Echo || self.near_miss.is_none() {
            self.near_miss = Some(NearMiss { tag, reason });
        }
    }

    fn buffered(&self) -> usize {
        let opened = self.opened.as_ref();
        let before = opened.and_then(|opened| opened.before.as_ref());
        let kept = [before, opened.map(|opened| &opened.line)];
        kept.into_iter().flatten().map(KeptLine::buffered).sum::<usize>()
            + self.waiting.iter().map(|candidate| candidate.written.len()).sum::<usize>()
    }
}

#[cfg(test)]
#[path = "detector_tests.rs"]
mod tests;
