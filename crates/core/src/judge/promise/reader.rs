//! From chunks of bytes to lines with their tags.

use memchr::memmem::Finder;

use super::line::{HEAD, Line, LineBuffer, LineMarks, Opening, Substring, Tag, TagMarks, count_backticks};
use super::plain::PlainWords;
use super::rule::{Placement, PromiseRule};
use super::tag::{self, OPEN_LEN, TagMark, TagName, TagScanner};
use super::wording::{Wording, reason};
use crate::text::ansi::AnsiStripper;

/// The longest promise that may spread over lines.
const LONGEST_SPREAD: usize = 64 * 1024;
/// The longest `<blocked>` tag, which may spread over lines.
const LONGEST_BLOCKED: usize = 4 * 1024;
/// How long a tag within a line may be beyond twice its words, which leaves room for white space.
const SLACK: usize = 4 * 1024;
/// How much of a tag is reported.
const LONGEST_REPORT: usize = 1024;

/// Receives the lines in order.
pub(super) trait LineSink {
    fn blank(&mut self);
    fn line(&mut self, line: &Line<'_>);
}

/// Cuts output into lines and finds what the agent says on them.
#[derive(Debug)]
pub(super) struct LineReader {
    wording: Wording,
    ansi: AnsiStripper,
    /// The last byte was a `\r`: a `\n` now belongs to it.
    after_cr: bool,
    line: LineBuffer,
    promise: TagSearch,
    blocked: TagSearch,
    substring: Option<SubstringSearch>,
}

impl LineReader {
    pub(super) fn new(rule: &PromiseRule, nonce: &str) -> Self {
        let anywhere = rule.placement == Placement::Anywhere;
        let longest = SLACK + 2 * rule.expected(nonce).len();
        let longest = if anywhere { longest.max(LONGEST_SPREAD) } else { longest };
        let promise = TagScanner::new(TagName::Promise, longest);
        let blocked = TagScanner::new(TagName::Blocked, LONGEST_BLOCKED);
        Self {
            wording: Wording::new(rule, nonce),
            ansi: AnsiStripper::new(),
            after_cr: false,
            line: LineBuffer::default(),
            promise: TagSearch { spreads: anywhere, takes_first: anywhere, ..TagSearch::new(promise) },
            // A reason is a sentence or two, and an agent may well put the tags on lines of their own.
            blocked: TagSearch { spreads: true, ..TagSearch::new(blocked) },
            substring: PlainWords::new(rule, nonce).substring().map(SubstringSearch::new),
        }
    }

    /// Reads the next chunk and hands over the lines that end in it.
    pub(super) fn read(&mut self, mut chunk: &[u8], sink: &mut impl LineSink) {
        while let Some(run) = self.ansi.next_run(&mut chunk) {
            self.read_text(run, sink);
        }
    }

    fn read_text(&mut self, mut text: &[u8], sink: &mut impl LineSink) {
        if std::mem::take(&mut self.after_cr) {
            text = text.strip_prefix(b"\n").unwrap_or(text);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', text) {
            let (line, rest) = text.split_at(end);
            text = match rest {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
            if self.is_ordinary(line) {
                hand_over(Line::short(line), sink);
            } else {
                self.extend(line);
                self.end_line(sink);
            }
        }
        self.extend(text);
    }

    /// Hands over the last line, which may lack its line end.
    pub(super) fn finish(&mut self, sink: &mut impl LineSink) {
        if !self.line.is_fresh() {
            self.end_line(sink);
        }
    }

    /// Whether a whole line is at hand that cannot hold a mark; nearly all are, so this is quick.
    fn is_ordinary(&self, line: &[u8]) -> bool {
        self.line.is_fresh()
            && !self.promise.scanner.is_open()
            && !self.blocked.scanner.is_open()
            && line.len() <= HEAD
            && !tag::opens_in(line)
            && self.substring.as_ref().is_none_or(|search| search.finder.find(line).is_none())
    }

    fn extend(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        let Self { line, promise, blocked, wording, .. } = self;
        promise.extend(piece, line, |tag, inner| Some((wording.judge(inner)?, written(tag))));
        blocked.extend(piece, line, |_, inner| Some((true, reason(inner)?)));
        if let Some(search) = &mut self.substring {
            search.extend(piece, self.line.backticks());
        }
        self.line.extend(piece);
    }

    fn end_line(&mut self, sink: &mut impl LineSink) {
        self.promise.scanner.end_line(self.promise.spreads);
        self.blocked.scanner.end_line(self.blocked.spreads);
        let marks = LineMarks {
            promise: self.promise.marks(),
            blocked: self.blocked.marks(),
            substring: self.substring.as_ref().and_then(|search| search.found),
        };
        hand_over(self.line.line(marks), sink);
        self.line.clear();
        self.promise.end_line();
        self.blocked.end_line();
        if let Some(search) = &mut self.substring {
            search.end_line();
        }
    }

    /// Bytes of output held.
    pub(super) fn buffered(&self) -> usize {
        self.line.buffered()
            + self.promise.buffered()
            + self.blocked.buffered()
            + self.substring.as_ref().map_or(0, |search| search.carry.len())
    }
}

/// A promise as the agent wrote it, cut if very long.
fn written(tag: &[u8]) -> String {
    String::from_utf8_lossy(&tag[..tag.len().min(LONGEST_REPORT)]).into_owned()
}

/// Looks for tags of one name in a line that arrives in pieces.
#[derive(Debug)]
struct TagSearch {
    scanner: TagScanner,
    /// Tags may spread over lines.
    spreads: bool,
    /// Of several tags on a line the first that may count is wanted, not the last.
    takes_first: bool,
    /// The open tag began on this line; otherwise on one before.
    opening: Option<Opening>,
    across: Option<Tag>,
    tag: Option<Tag>,
}

impl TagSearch {
    fn new(scanner: TagScanner) -> Self {
        Self { scanner, spreads: false, takes_first: false, opening: None, across: None, tag: None }
    }

    /// Reads the next piece of `line`. `judge` gets a tag and its words, and says whether their case is right and what to
    /// report, or nothing if they are others.
    fn extend(
        &mut self,
        piece: &[u8],
        line: &LineBuffer,
        judge: impl Fn(&[u8], &[u8]) -> Option<(bool, String)>,
    ) {
        let indentation = line.indentation_in(piece);
        let mut at = 0;
        // Counted from one open to the next: a line may hold nothing else.
        let (mut counted, mut backticks) = (0, line.backticks());
        while let Some(mark) = self.scanner.next(piece, &mut at) {
            // An open tag may have begun in an earlier piece, but then that was not indentation.
            let end = line.len() + (at - indentation) as u64;
            match mark {
                TagMark::Opened => {
                    backticks += count_backticks(&piece[counted..at]);
                    counted = at;
                    let start = end - OPEN_LEN as u64;
                    self.opening = Some(Opening { start, in_backticks: backticks % 2 == 1 });
                }
                TagMark::Closed => {
                    let judged = judge(self.scanner.written(), self.scanner.inner());
                    self.closed(end, judged);
                }
            }
        }
    }

    fn closed(&mut self, end: u64, judged: Option<(bool, String)>) {
        let opening = self.opening.take();
        let Some((right_case, written)) = judged else { return };
        match opening {
            Some(opening) => {
                let better = |tag: &Tag| tag.right_case && !tag.opening.in_backticks;
                if !(self.takes_first && self.tag.as_ref().is_some_and(better)) {
                    self.tag = Some(Tag { opening, end, right_case, written });
                }
            }
            None => {
                let opening = Opening::default();
                self.across = Some(Tag { opening, end, right_case, written });
            }
        }
    }

    fn marks(&self) -> TagMarks<'_> {
        TagMarks {
            across: self.across.as_ref(),
            tag: self.tag.as_ref(),
            opening: self.opening.filter(|_| self.scanner.is_open()),
        }
    }

    fn end_line(&mut self) {
        (self.opening, self.across, self.tag) = (None, None, None);
    }

    /// Bytes of output held.
    fn buffered(&self) -> usize {
        let tags = [&self.across, &self.tag];
        self.scanner.buffered() + tags.into_iter().flatten().map(|tag| tag.written.len()).sum::<usize>()
    }
}

fn hand_over(line: Option<Line<'_>>, sink: &mut impl LineSink) {
    match line {
        Some(line) => sink.line(&line),
        None => sink.blank(),
    }
}

/// Looks for the plain words in a line that arrives in pieces.
#[derive(Debug)]
struct SubstringSearch {
    finder: Finder<'static>,
    /// The end of the line so far: too short to hold the words, long enough for their start.
    carry: Vec<u8>,
    found: Option<Substring>,
}

impl SubstringSearch {
    fn new(words: &str) -> Self {
        Self { finder: Finder::new(words).into_owned(), carry: Vec::new(), found: None }
    }

    fn extend(&mut self, piece: &[u8], backticks_before: u64) {
        let reach = self.finder.needle().len() - 1;
        let backticks = backticks_before - count_backticks(&self.carry);
        let carried = self.carry.len();
        self.carry.extend_from_slice(&piece[..reach.min(piece.len())]);
        let seam = std::mem::take(&mut self.carry);
        self.search(&seam, backticks);
        self.search(piece, backticks_before);

        // The next seam: the last `reach` bytes of the line.
        self.carry = seam;
        if piece.len() >= reach {
            self.carry.clear();
            self.carry.extend_from_slice(&piece[piece.len() - reach..]);
        } else {
            debug_assert_eq!(self.carry.len(), carried + piece.len());
            self.carry.drain(..self.carry.len().saturating_sub(reach));
        }
    }

    fn search(&mut self, bytes: &[u8], backticks_before: u64) {
        let mut from = 0;
        let mut backticks = backticks_before;
        while self.found.is_none_or(|found| found.in_backticks)
            && let Some(skipped) = self.finder.find(&bytes[from..])
        {
            let at = from + skipped;
            backticks += count_backticks(&bytes[from..at]);
            self.found = Some(Substring { in_backticks: backticks % 2 == 1 });
            // One byte on, not one hit: hits that overlap must not depend on where the pieces begin.
            backticks += count_backticks(&bytes[at..=at]);
            from = at + 1;
        }
    }

    fn end_line(&mut self) {
        self.carry.clear();
        self.found = None;
    }
}
