//! Bytes of a pipe, cut into lines: kept whole until they are complete, and never too much of one.

use memchr::memchr;

/// As much as is kept of one line. Longer ones exist (a tool's whole output in one event), and none of them matters.
const LONGEST_LINE: usize = 16 << 20;

/// A buffer larger than this is given back once its line is read.
const KEPT_BUFFER: usize = 1 << 20;

/// Collects lines out of chunks that end anywhere.
#[derive(Debug)]
pub(in crate::agent) struct Lines {
    /// Lines that begin like this are not worth keeping.
    dull: &'static [&'static [u8]],
    partial: Vec<u8>,
    state: LineState,
    skipped: u64,
}

/// What becomes of the bytes up to the next end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    /// The bytes belong to a line that will be read.
    Kept,
    /// The line is known to hold nothing that dacapo reads.
    Dull,
    /// The line is too long.
    TooLong,
}

impl Lines {
    pub(in crate::agent) fn new(dull: &'static [&'static [u8]]) -> Self {
        Self { dull, partial: Vec::new(), state: LineState::Kept, skipped: 0 }
    }

    /// How many lines were too long to be read.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Hands out every line that `bytes` completes, without its end.
    pub(in crate::agent) fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            self.complete(&rest[..end], each);
            rest = &rest[end + 1..];
        }
        self.keep(rest);
    }

    /// Hands out what was printed after the last end of a line.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(&[u8])) {
        if !self.partial.is_empty() || self.state == LineState::TooLong {
            self.complete(b"", each);
        }
    }

    fn complete(&mut self, end: &[u8], each: &mut dyn FnMut(&[u8])) {
        let state = std::mem::replace(&mut self.state, LineState::Kept);
        let length = self.partial.len() + end.len();
        if state == LineState::Dull {
            // Nothing of it was kept.
        } else if state == LineState::TooLong || length > LONGEST_LINE {
            self.skipped += 1;
        } else if self.partial.is_empty() {
            if !self.is_dull(end) {
                each(end);
            }
        } else {
            self.partial.extend_from_slice(end);
            if !self.is_dull(&self.partial) {
                each(&self.partial);
            }
        }
        self.forget();
    }

    fn keep(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || self.state != LineState::Kept {
            return;
        }
        if self.partial.len() + bytes.len() > LONGEST_LINE {
            let is_dull = self.is_dull(if self.partial.is_empty() { bytes } else { &self.partial });
            self.state = if is_dull { LineState::Dull } else { LineState::TooLong };
        } else {
            self.partial.extend_from_slice(bytes);
            if self.is_dull(&self.partial) {
                self.state = LineState::Dull;
            }
        }
        if self.state != LineState::Kept {
            self.forget();
        }
    }

    fn is_dull(&self, line: &[u8]) -> bool {
        self.dull.iter().any(|beginning| line.starts_with(beginning))
    }

    fn forget(&mut self) {
        if self.partial.capacity() > KEPT_BUFFER {
            self.partial = Vec::new();
        }
        self.partial.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> (Vec<String>, u64) {
        let mut lines = Lines::new(&[b"dull"]);
        let mut seen = Vec::new();
        let mut each = |line: &[u8]| seen.push(String::from_utf8_lossy(line).into_owned());
        for chunk in chunks {
            lines.push(chunk, &mut each);
        }
        lines.finish(&mut each);
        let skipped = lines.skipped();
        (seen, skipped)
    }

    #[test]
    fn lines_are_whole_wherever_the_chunks_end() {
        // fault D2
        let text = "äöü\nzwei\n\ndull stuff\nlast".as_bytes();
        let expected = ["äöü", "zwei", "", "last"];
        for at in 0..=text.len() {
            let (head, tail) = text.split_at(at);
            assert_eq!(lines(&[head, tail]), (expected.map(str::to_owned).to_vec(), 0), "{at}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(&bytes).0, expected);
        assert_eq!(lines(&[b"", b"\n", b""]).0, [""]);
    }

    #[test]
    fn a_line_too_long_is_counted_and_reading_goes_on() {
        // fault D1
        let chunk = vec![b'x'; 1 << 20];
        let mut long: Vec<&[u8]> = vec![b"first\n"];
        long.extend(std::iter::repeat_n(&chunk[..], 17));
        long.extend([b"\nnext\n" as &[u8], b"dull"]);
        long.extend(std::iter::repeat_n(&chunk[..], 17));
        long.push(b"\nlast\n");
        assert_eq!(lines(&long), (["first", "next", "last"].map(str::to_owned).to_vec(), 1));

        let whole = [&vec![b'x'; LONGEST_LINE + 1][..], b"\nnext"].concat();
        assert_eq!(lines(&[&whole]), (vec!["next".to_owned()], 1));
        // The end of output is an end of a line.
        let unended = vec![b'x'; LONGEST_LINE + 1];
        assert_eq!(lines(&[&unended]), (vec![], 1));
    }
}
