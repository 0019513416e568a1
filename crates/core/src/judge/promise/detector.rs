//! The promise in an agent's output, found while it streams by.

use serde::{Deserialize, Serialize};

use super::code::CodeTracker;
use super::echo::PromptEchoes;
use super::line::{Excerpt, KeptLine, Line, Tag};
use super::plain::PlainWords;
use super::reader::{LineReader, LineSink};
use super::rule::{Placement, PromiseRule};

/// What was found in an agent's output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detection {
    /// The promise as the agent wrote it, cut if very long.
    pub promise: Option<String>,
    /// The last tag with the right words that did not count. Only without a promise.
    pub near_miss: Option<NearMiss>,
}

/// A tag with the right words that did not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    /// The tag as the agent wrote it, cut if very long.
    pub tag: String,
    /// Why it did not count.
    pub reason: MissReason,
}

/// Why a tag with the right words did not count.
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

/// Reads an agent's output as it arrives and finds the promise in it.
///
/// It holds a few KiB of the output, or a little over 64 KiB if a tag may stand anywhere.
#[derive(Debug)]
pub struct PromiseDetector {
    reader: LineReader,
    judge: Judge,
}

impl PromiseDetector {
    /// A detector for the output of the attempt that was given `prompt` and `nonce`.
    #[must_use]
    pub fn new(rule: &PromiseRule, nonce: &str, prompt: &str) -> Self {
        Self {
            reader: LineReader::new(rule, nonce),
            judge: Judge {
                placement: rule.placement,
                code: rule.ignore_code.then(CodeTracker::new),
                plain: PlainWords::new(rule, nonce),
                echoes: PromptEchoes::of(prompt, rule, nonce),
                latest: None,
                opened: None,
                waiting: Vec::new(),
                found: Detection::default(),
            },
        }
    }

    /// Reads the next chunk, which may end anywhere, also within a letter.
    pub fn push(&mut self, chunk: &[u8]) {
        // One promise is enough.
        if self.judge.found.promise.is_none() {
            self.reader.read(chunk, &mut self.judge);
        }
    }

    /// Reads a whole message of an agent that speaks in messages: a fence or a tag that is left open in one ends with
    /// it, and only the last message has the last words.
    pub fn push_message(&mut self, message: &str) {
        self.push(message.as_bytes());
        self.push(b"\n");
        self.judge.opened = None;
        if let Some(code) = &mut self.judge.code {
            *code = CodeTracker::new();
        }
    }

    /// The output is over: what was in it.
    #[must_use]
    pub fn finish(mut self) -> Detection {
        self.reader.finish(&mut self.judge);
        self.judge.settle(None);
        let Detection { promise, near_miss } = self.judge.found;
        Detection { near_miss: near_miss.filter(|_| promise.is_none()), promise }
    }

    /// Bytes of the output held at present.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.reader.buffered() + self.judge.buffered()
    }
}

/// Decides which of the promises on the lines count.
#[derive(Debug)]
struct Judge {
    placement: Placement,
    /// Missing if code is like any other text.
    code: Option<CodeTracker>,
    plain: PlainWords,
    echoes: PromptEchoes,
    /// The line before; kept only where the prompt may be repeated.
    latest: Option<KeptLine>,
    /// Where the tag began that is still open.
    opened: Option<Opened>,
    /// Promises of the latest line that count or not depending on what follows.
    waiting: Vec<Candidate>,
    found: Detection,
}

/// The start of a tag that spreads over lines.
#[derive(Debug)]
struct Opened {
    obstacle: Option<MissReason>,
    at_line_start: bool,
    line: KeptLine,
    before: Option<KeptLine>,
}

/// A promise that counts unless it is an echo or something follows that must not.
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
        if let Some(code) = &mut self.code {
            code.blank();
        }
    }

    fn line(&mut self, line: &Line<'_>) {
        self.settle(Some(&line.text));
        let in_code = self.code.as_mut().is_some_and(|code| code.line(line));
        let obstacle = |in_backticks| {
            if line.text.head.starts_with(b">") {
                Some(MissReason::Quoted)
            } else if in_code || (in_backticks && self.code.is_some()) {
                Some(MissReason::InCode)
            } else {
                None
            }
        };

        let tag_obstacle = line.marks.tag.and_then(|tag| obstacle(tag.opening.in_backticks));
        let plain = self.plain.on(line).filter(|hit| obstacle(hit.in_backticks).is_none());
        let opening = line.marks.opening.map(|opening| (opening.start, obstacle(opening.in_backticks)));

        if let Some(tag) = line.marks.across
            && let Some(opened) = self.opened.take()
        {
            let alone = opened.at_line_start && tag.end == line.text.len;
            self.consider_tag(tag, opened.obstacle, alone, line, Some(&opened));
        }
        if let Some(tag) = line.marks.tag {
            let alone = tag.opening.start == 0 && tag.end == line.text.len;
            self.consider_tag(tag, tag_obstacle, alone, line, None);
        }
        if let Some(hit) = plain {
            let candidate = Candidate {
                written: self.plain.words().to_owned(),
                is_tag: false,
                alone: hit.alone,
                must_be_last: hit.must_be_last,
                is_first: false,
                places: Vec::new(),
            };
            self.consider(candidate, line, None);
        }
        if let Some((start, obstacle)) = opening {
            self.opened = Some(Opened {
                obstacle,
                at_line_start: start == 0,
                line: KeptLine::of(&line.text),
                before: self.latest.clone(),
            });
        }
        if !self.echoes.is_empty() {
            self.latest.get_or_insert_default().set(&line.text);
        }
    }
}

impl Judge {
    fn consider_tag(
        &mut self,
        tag: &Tag,
        obstacle: Option<MissReason>,
        alone: bool,
        line: &Line<'_>,
        opened: Option<&Opened>,
    ) {
        let ends_line = tag.end == line.text.len;
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
                let is_echo = !self.echoes.matching(opened.map(|opened| &opened.line), &line.text).is_empty();
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
                self.consider(candidate, line, opened);
            }
        }
    }

    /// Counts `candidate`, refuses it, or waits for what follows.
    fn consider(&mut self, mut candidate: Candidate, line: &Line<'_>, opened: Option<&Opened>) {
        let before = opened.map_or(self.latest.as_ref(), |opened| opened.before.as_ref());
        candidate.places = self.echoes.matching(opened.map(|opened| &opened.line), &line.text);
        candidate.is_first = before.is_none();
        // A tag alone is too short to tell whose it is; its neighbours tell.
        let is_echo = |&place: &usize| !candidate.alone || self.echoes.place(place).follows(before);
        if candidate.places.iter().any(is_echo) {
            self.refuse(candidate, MissReason::Echo);
        } else if candidate.must_be_last || !candidate.places.is_empty() {
            self.waiting.push(candidate);
        } else {
            self.found.promise.get_or_insert(candidate.written);
        }
    }

    /// Decides on what was waiting, now that the next line or the end of the output is known.
    fn settle(&mut self, next: Option<&Excerpt<'_>>) {
        for candidate in std::mem::take(&mut self.waiting) {
            let is_echo = |&place: &usize| {
                let place = self.echoes.place(place);
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
                self.found.promise.get_or_insert(candidate.written);
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
        if reason != MissReason::Echo || self.found.near_miss.is_none() {
            self.found.near_miss = Some(NearMiss { tag, reason });
        }
    }

    fn buffered(&self) -> usize {
        let opened = self.opened.as_ref();
        let before = opened.and_then(|opened| opened.before.as_ref());
        let kept = [self.latest.as_ref(), before, opened.map(|opened| &opened.line)];
        kept.into_iter().flatten().map(KeptLine::buffered).sum::<usize>()
            + self.waiting.iter().map(|candidate| candidate.written.len()).sum::<usize>()
    }
}

#[cfg(test)]
#[path = "detector_tests.rs"]
mod tests;
