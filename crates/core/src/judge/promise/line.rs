//! One line of output, held in bounded memory however long it is.

/// How much of a long line's start is kept.
pub(super) const HEAD: usize = 2048;
/// How much of a long line's end is kept.
const TAIL: usize = 2048;

/// A line that is not blank, as the judges see it.
#[derive(Debug)]
pub(in crate::judge) struct Line<'a> {
    pub(super) text: Excerpt<'a>,
    /// Indented as far as Markdown's indented code.
    pub(super) indented: bool,
    /// Known if the whole line is not at hand to count them.
    backticks: Option<u64>,
    pub(super) marks: LineMarks<'a>,
}

/// What an agent says on a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineMarks<'a> {
    pub(super) promise: TagMarks<'a>,
    /// Reasons why the work cannot be done.
    pub(super) blocked: TagMarks<'a>,
    /// The plain words somewhere on the line.
    pub(super) substring: Option<Substring>,
}

/// The tags of one name on a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TagMarks<'a> {
    /// The tag that ends here and began on a line before; its `start` means nothing here.
    pub(super) across: Option<&'a Tag>,
    /// The tag that begins and ends here; of several, the one most likely to count.
    pub(super) tag: Option<&'a Tag>,
    /// The open tag that goes on to the next line.
    pub(super) opening: Option<Opening>,
}

/// A tag with words that may count.
#[derive(Debug)]
pub(super) struct Tag {
    pub(super) opening: Opening,
    /// Offset of its end in the trimmed line.
    pub(super) end: u64,
    pub(super) right_case: bool,
    /// What is reported of it: a promise as it stands, of a reason the words.
    pub(super) written: String,
}

/// Where a tag opens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// Offset of its start in the trimmed line.
    pub(super) start: u64,
    /// Behind an odd number of backticks on its line.
    pub(super) in_backticks: bool,
}

/// The plain words somewhere on a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Substring {
    pub(super) in_backticks: bool,
}

impl<'a> Line<'a> {
    /// A line that is whole at hand, without any mark.
    pub(in crate::judge) fn short(line: &'a [u8]) -> Option<Self> {
        let unindented = line.trim_ascii_start();
        let text = unindented.trim_ascii_end();
        if text.is_empty() {
            return None;
        }
        let mut indent = Indent::default();
        indent.extend(&line[..line.len() - unindented.len()]);
        Some(Self {
            text: Excerpt { head: text, tail: &[], len: text.len() as u64 },
            indented: indent.is_code(),
            backticks: None,
            marks: LineMarks::default(),
        })
    }

    pub(super) fn backticks(&self) -> u64 {
        self.backticks.unwrap_or_else(|| count_backticks(self.text.head))
    }
}

pub(super) fn count_backticks(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'`', bytes).count() as u64
}

/// A line without surrounding white space: whole if short, otherwise its two ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excerpt<'a> {
    pub(super) head: &'a [u8],
    tail: &'a [u8],
    /// Length of the line, not of what is kept of it.
    pub(super) len: u64,
}

impl Excerpt<'_> {
    /// Whether this is `text` and nothing else.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        self.len == text.len() as u64 && self.ends_with(text)
    }

    pub(super) fn ends_with(&self, text: &[u8]) -> bool {
        match text.len().checked_sub(self.tail.len()) {
            None | Some(0) => self.tail.ends_with(text),
            Some(in_head) => {
                let (left, right) = text.split_at(in_head);
                self.is_whole() && self.tail == right && self.head.ends_with(left)
            }
        }
    }

    /// The byte that `distance` bytes follow.
    pub(super) fn byte_before_last(&self, distance: usize) -> Option<u8> {
        match distance.checked_sub(self.tail.len()) {
            None => self.tail.get(self.tail.len() - distance - 1).copied(),
            Some(in_head) if self.is_whole() => {
                let at = self.head.len().checked_sub(in_head + 1)?;
                self.head.get(at).copied()
            }
            Some(_) => None,
        }
    }

    fn is_whole(&self) -> bool {
        (self.head.len() + self.tail.len()) as u64 == self.len
    }
}

/// A line remembered for comparison. Lines that differ only in what an excerpt leaves out are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KeptLine {
    len: u64,
    ends: Vec<u8>,
}

impl KeptLine {
    pub(super) fn of(text: &Excerpt<'_>) -> Self {
        let mut kept = Self::default();
        kept.set(text);
        kept
    }

    /// Remembers `text` instead, in the memory at hand.
    pub(super) fn set(&mut self, text: &Excerpt<'_>) {
        self.len = text.len;
        self.ends.clear();
        self.ends.extend_from_slice(text.head);
        self.ends.extend_from_slice(text.tail);
    }

    pub(super) fn is(&self, text: &Excerpt<'_>) -> bool {
        self.len == text.len && self.ends.strip_prefix(text.head).is_some_and(|tail| tail == text.tail)
    }

    pub(super) fn buffered(&self) -> usize {
        self.ends.len()
    }
}

/// The white space a line starts with.
#[derive(Debug, Default)]
struct Indent {
    spaces: usize,
    tab: bool,
}

impl Indent {
    fn extend(&mut self, white: &[u8]) {
        self.spaces = self.spaces.saturating_add(white.len());
        self.tab |= white.contains(&b'\t');
    }

    fn is_code(&self) -> bool {
        self.spaces >= 4 || self.tab
    }
}

/// The last `TAIL` of the bytes that went by.
#[derive(Debug, Default)]
struct LastBytes(Vec<u8>);

impl LastBytes {
    fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        // Cutting at every piece would move the rest each time.
        if self.0.len() > 2 * TAIL {
            self.0.drain(..self.0.len() - TAIL);
        }
    }

    fn get(&self) -> &[u8] {
        &self.0[self.0.len().saturating_sub(TAIL)..]
    }
}

/// A line of which only a part has arrived.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    started: bool,
    indent: Indent,
    head: Vec<u8>,
    tail: LastBytes,
    /// White space that belongs to the line only if text follows.
    white: LastBytes,
    len: u64,
    /// Bytes since the indentation up to the last that is not white space.
    trimmed: u64,
    backticks: u64,
}

impl LineBuffer {
    /// Whether nothing of the line has arrived yet, not even white space.
    pub(super) fn is_fresh(&self) -> bool {
        !self.started
    }

    /// Bytes of the line so far, without its indentation.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Backticks on the line so far.
    pub(super) fn backticks(&self) -> u64 {
        self.backticks
    }

    /// How many bytes at the start of `piece` still belong to the indentation.
    pub(super) fn indentation_in(&self, piece: &[u8]) -> usize {
        if self.len > 0 { 0 } else { piece.len() - piece.trim_ascii_start().len() }
    }

    pub(super) fn extend(&mut self, piece: &[u8]) {
        self.started |= !piece.is_empty();
        let (indent, piece) = piece.split_at(self.indentation_in(piece));
        self.indent.extend(indent);
        let (text, white) = piece.split_at(piece.trim_ascii_end().len());
        if !text.is_empty() {
            let before = std::mem::take(&mut self.white);
            self.keep(before.get());
            self.keep(text);
            self.trimmed = self.len + text.len() as u64;
        }
        self.white.extend(white);
        self.len += piece.len() as u64;
        self.backticks += count_backticks(piece);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let (to_head, to_tail) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend_from_slice(to_head);
        self.tail.extend(to_tail);
    }

    /// The finished line with its marks, or `None` if it is blank.
    pub(super) fn line<'a>(&'a self, marks: LineMarks<'a>) -> Option<Line<'a>> {
        (self.trimmed > 0).then(|| Line {
            text: Excerpt { head: &self.head, tail: self.tail.get(), len: self.trimmed },
            indented: self.indent.is_code(),
            backticks: Some(self.backticks),
            marks,
        })
    }

    /// Makes ready for the next line, keeping the memory.
    pub(super) fn clear(&mut self) {
        let mut fresh = Self {
            head: std::mem::take(&mut self.head),
            tail: std::mem::take(&mut self.tail),
            ..Self::default()
        };
        fresh.head.clear();
        fresh.tail.0.clear();
        *self = fresh;
    }

    pub(super) fn buffered(&self) -> usize {
        self.head.len() + self.tail.0.len() + self.white.0.len()
    }
}
