//! The search for secrets in a stream that comes in pieces of any size: it says what of the stream may be written.

use std::sync::Arc;

use super::{NeedsMore, REDACTED, Secrets, place::ScanPlace, tail::Tails};

/// Takes the secrets out of one stream.
///
/// It holds back what could be the beginning of a secret, at most a few KiB, until more is known or the stream ends:
/// a pause is no end, so nothing is let go because of one. Everything else passes byte for byte.
#[derive(Debug)]
pub struct Redactor {
    secrets: Arc<Secrets>,
    state: RedactorState,
    held: Vec<u8>,
    /// What was held and what came after.
    joined: Vec<u8>,
    out: Vec<u8>,
}

/// What is remembered of the stream so far.
#[derive(Debug, Default)]
struct RedactorState {
    /// The bytes before what is held.
    before: [u8; 3],
    /// The secret that is being left out.
    region: Option<Region>,
}

/// A secret in the text at hand.
#[derive(Debug)]
struct Region {
    start: usize,
    end: usize,
    tails: Tails,
    /// Whether it was replaced already and is only skipped.
    is_said: bool,
}

/// What one pass came to.
struct PassResult {
    /// Up to here the output stands in `out`.
    done: usize,
    /// What lies between `done` and here follows it unchanged; the rest has to wait.
    until: usize,
}

impl Redactor {
    pub(super) fn new(secrets: Arc<Secrets>) -> Self {
        Self {
            secrets,
            state: RedactorState::default(),
            held: Vec::new(),
            joined: Vec::new(),
            out: Vec::new(),
        }
    }

    /// What may be written now that `bytes` have come: `bytes` themselves where there is nothing in them.
    pub fn push<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        self.out.clear();
        if self.held.is_empty() {
            let passed = self.state.pass(&self.secrets, bytes, false, &mut self.out);
            self.held.extend_from_slice(&bytes[passed.until..]);
            return rest(&mut self.out, &bytes[passed.done..passed.until]);
        }
        self.join(bytes, false)
    }

    /// What may be written now that the stream has ended. Another one may begin.
    pub fn finish(&mut self) -> &[u8] {
        self.out.clear();
        self.join(&[], true)
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    fn join(&mut self, bytes: &[u8], is_end: bool) -> &[u8] {
        self.joined.clear();
        self.joined.append(&mut self.held);
        self.joined.extend_from_slice(bytes);
        let passed = self.state.pass(&self.secrets, &self.joined, is_end, &mut self.out);
        self.held.extend_from_slice(&self.joined[passed.until..]);
        if is_end {
            self.state = RedactorState::default();
        }
        rest(&mut self.out, &self.joined[passed.done..passed.until])
    }
}

/// `unchanged` behind what is in `out`, without copying where there is nothing.
fn rest<'a>(out: &'a mut Vec<u8>, unchanged: &'a [u8]) -> &'a [u8] {
    if out.is_empty() {
        return unchanged;
    }
    out.extend_from_slice(unchanged);
    out
}

/// A text that is whole, without its secrets; `None` if there are none.
pub(super) fn redact_whole(secrets: &Secrets, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let passed = RedactorState::default().pass(secrets, bytes, true, &mut out);
    if out.is_empty() {
        return None;
    }
    out.extend_from_slice(&bytes[passed.done..passed.until]);
    Some(out)
}

impl RedactorState {
    /// Goes through `text`, the stream from where the last pass ended.
    fn pass(&mut self, secrets: &Secrets, text: &[u8], is_end: bool, out: &mut Vec<u8>) -> PassResult {
        let mut done = 0;
        let mut from = 0;
        let mut search = secrets.finder.search();
        let until = loop {
            let next = secrets.finder.next(text, from, &mut search);
            let at = match next {
                Some(at) => at,
                None if is_end => text.len(),
                None => text.len() - secrets.finder.unfinished(text).min(text.len() - from),
            };
            self.swallow(text, at, &mut done, out);
            if next.is_none() {
                break at;
            }
            let place = ScanPlace { bytes: &text[at..], before: self.before_at(text, at), is_end };
            match secrets.look(&place) {
                Err(NeedsMore) => break at,
                Ok(all) => {
                    for found in all {
                        let mut tails = Tails::default();
                        tails.add(found.tail);
                        let (start, end) = (at + found.from, at + found.to);
                        self.add(text, Region { start, end, tails, is_said: false });
                    }
                }
            }
            from = at + 1;
        };
        self.leave(text, until, is_end, &mut done, out);
        PassResult { done, until }
    }

    /// The secret at hand goes on as far as it does, but not beyond `at`; one that is over is replaced.
    fn swallow(&mut self, text: &[u8], at: usize, done: &mut usize, out: &mut Vec<u8>) {
        let Some(region) = &mut self.region else { return };
        while region.end < at && !region.tails.is_over() && region.tails.takes(text[region.end]) {
            region.end += 1;
        }
        if region.end < at || (region.end == at && region.tails.is_over()) {
            region.say(text, done, out);
            *done = region.end;
            self.region = None;
        }
    }

    /// Another secret: one with the one at hand, if there is one.
    fn add(&mut self, text: &[u8], mut new: Region) {
        let Some(region) = &mut self.region else {
            self.region = Some(new);
            return;
        };
        let (shorter, longer) =
            if region.end < new.end { (region.end, new.end) } else { (new.end, region.end) };
        let behind = if region.end < new.end { &mut region.tails } else { &mut new.tails };
        for byte in &text[shorter..longer] {
            if behind.is_over() || !behind.takes(*byte) {
                break;
            }
        }
        region.tails.add_all(new.tails);
        if !region.is_said {
            region.start = region.start.min(new.start);
        }
        region.end = longer;
    }

    /// Makes ready for the next pass, which begins at `until`.
    fn leave(&mut self, text: &[u8], until: usize, is_end: bool, done: &mut usize, out: &mut Vec<u8>) {
        self.before = self.before_at(text, until);
        let Some(region) = &mut self.region else { return };
        if region.start <= until || is_end {
            region.say(text, done, out);
            *done = until;
        }
        region.start = region.start.saturating_sub(until);
        region.end = region.end.saturating_sub(until);
    }

    fn before_at(&self, text: &[u8], at: usize) -> [u8; 3] {
        let byte = |back: usize| match at.checked_sub(back) {
            Some(index) => text[index],
            None => self.before[3 - (back - at)],
        };
        [byte(3), byte(2), byte(1)]
    }
}

impl Region {
    /// Writes what stands before it, and the word for it.
    fn say(&mut self, text: &[u8], done: &mut usize, out: &mut Vec<u8>) {
        if !self.is_said {
            out.extend_from_slice(&text[*done..self.start]);
            out.extend_from_slice(REDACTED.as_bytes());
            self.is_said = true;
            *done = self.start;
        }
    }
}
