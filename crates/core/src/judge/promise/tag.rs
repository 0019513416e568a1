//! Finding `<promise>…</promise>` and `<blocked>…</blocked>` in a stream of bytes.

/// What an agent can say with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagName {
    /// The work is done.
    Promise,
    /// The work cannot be done as asked.
    Blocked,
}

impl TagName {
    /// The name and the bracket that ends it.
    const fn text(self) -> &'static [u8; OPEN_LEN - 1] {
        match self {
            Self::Promise => b"promise>",
            Self::Blocked => b"blocked>",
        }
    }
}

// Both names have seven letters.
pub(super) const OPEN_LEN: usize = "<promise>".len();
const CLOSE_LEN: usize = "</promise>".len();

/// Whether a tag opens in `line`. Quicker than two scanners, and enough where none is open yet.
pub(super) fn opens_in(line: &[u8]) -> bool {
    memchr::memchr_iter(b'<', line).any(|at| {
        let name = line.get(at + 1..at + OPEN_LEN);
        name.is_some_and(|name| {
            [TagName::Promise, TagName::Blocked].iter().any(|tag| name.eq_ignore_ascii_case(tag.text()))
        })
    })
}

/// What the scanner has just read to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagMark {
    Opened,
    Closed,
}

/// Reads piece after piece of the output and reports tags of one name.
///
/// A close belongs to the last open before it: no tag holds another of its name.
#[derive(Debug)]
pub(super) struct TagScanner {
    name: TagName,
    /// Bytes of a bracket read so far, the slash of a close not counted.
    matched: usize,
    closing: bool,
    /// The open as the agent spelled it.
    spelled: [u8; OPEN_LEN],
    /// The tag from its open to where the scanner is.
    window: Vec<u8>,
    open: bool,
    /// Length beyond which a tag is given up.
    limit: usize,
}

impl TagScanner {
    pub(super) fn new(name: TagName, limit: usize) -> Self {
        Self {
            name,
            matched: 0,
            closing: false,
            spelled: [0; OPEN_LEN],
            window: Vec::new(),
            open: false,
            limit,
        }
    }

    /// Reads `piece` from `at` up to the next mark, and leaves `at` just behind it.
    pub(super) fn next(&mut self, piece: &[u8], at: &mut usize) -> Option<TagMark> {
        while let Some(&byte) = piece.get(*at) {
            if self.matched == 0 {
                let rest = &piece[*at..];
                let skipped = memchr::memchr(b'<', rest).unwrap_or(rest.len());
                self.keep(&rest[..skipped]);
                *at += skipped;
                if skipped < rest.len() {
                    self.bracket(b'<', at);
                    self.closing = false;
                }
            } else if byte == b'/' && self.matched == 1 && !self.closing {
                self.closing = true;
                self.keep(b"/");
                *at += 1;
            } else if byte.to_ascii_lowercase() == self.name.text()[self.matched - 1] {
                self.bracket(byte, at);
                if self.matched == OPEN_LEN {
                    self.matched = 0;
                    if !self.closing {
                        self.open = true;
                        self.window.clear();
                        self.window.extend_from_slice(&self.spelled);
                        return Some(TagMark::Opened);
                    }
                    if std::mem::take(&mut self.open) {
                        return Some(TagMark::Closed);
                    }
                }
            } else {
                // The byte may be the next `<`, so it is read again.
                self.matched = 0;
            }
        }
        None
    }

    fn bracket(&mut self, byte: u8, at: &mut usize) {
        self.spelled[self.matched] = byte;
        self.matched += 1;
        self.keep(&[byte]);
        *at += 1;
    }

    fn keep(&mut self, bytes: &[u8]) {
        if !self.open {
            return;
        }
        if self.window.len() + bytes.len() > self.limit {
            self.open = false;
            self.window.clear();
        } else {
            self.window.extend_from_slice(bytes);
        }
    }

    /// Passes a line's end, which is part of the tag if tags may go on.
    pub(super) fn end_line(&mut self, tags_go_on: bool) {
        self.matched = 0;
        if tags_go_on {
            self.keep(b"\n");
        } else {
            self.open = false;
        }
    }

    /// Whether a tag is open.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// The tag as written; for use after [`TagMark::Closed`].
    pub(super) fn written(&self) -> &[u8] {
        &self.window
    }

    /// What stands between open and close; for use after [`TagMark::Closed`].
    pub(super) fn inner(&self) -> &[u8] {
        let end = self.window.len().saturating_sub(CLOSE_LEN);
        self.window.get(OPEN_LEN..end).unwrap_or_default()
    }

    pub(super) fn buffered(&self) -> usize {
        self.window.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_found_wherever_the_pieces_are_cut() {
        for (input, inner) in [
            ("<promise>A</promise>", vec!["A"]),
            ("x<PROMISE>a b</Promise>y", vec!["a b"]),
            ("<promise>a<promise>b</promise></promise>", vec!["b"]),
            ("<<promise>a<</promise><promise></promise>", vec!["a<", ""]),
            ("<promise>a<b></b></promise", vec![]),
            ("<//promise>", vec![]),
            ("<promise>a<//promise>", vec![]),
            ("<promise><</promise>", vec!["<"]),
            ("<promise>12345678901234567890</promise>", vec![]),
            ("< promise>a</promise>", vec![]),
            ("<promise >a</promise>", vec![]),
            ("<promise x>a</promise>", vec![]),
            ("<promises>a</promises>", vec![]),
        ] {
            for cut in 0..=input.len() {
                let (left, right) = input.as_bytes().split_at(cut);
                let mut scanner = TagScanner::new(TagName::Promise, 36);
                let mut found = Vec::new();
                for piece in [left, right] {
                    let mut at = 0;
                    while let Some(mark) = scanner.next(piece, &mut at) {
                        if mark == TagMark::Closed {
                            found.push(String::from_utf8(scanner.inner().to_vec()).unwrap());
                        }
                    }
                }
                assert_eq!(found, inner, "{input:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn each_scanner_hears_its_own_name() {
        let input = b"<blocked>a<promise>b</blocked>c</promise><Blocked>d</BLOCKED><blocker>e</blocker>";
        for (name, inner) in
            [(TagName::Promise, vec!["b</blocked>c"]), (TagName::Blocked, vec!["a<promise>b", "d"])]
        {
            let (mut scanner, mut at, mut found) = (TagScanner::new(name, 99), 0, Vec::new());
            while let Some(mark) = scanner.next(input, &mut at) {
                if mark == TagMark::Closed {
                    found.push(String::from_utf8(scanner.inner().to_vec()).unwrap());
                }
            }
            assert_eq!(found, inner, "{name:?}");
        }
        for (line, opens) in
            [("a <blocked> b", true), ("<PROMISE>", true), ("<block>", false), ("<blocked", false)]
        {
            assert_eq!(opens_in(line.as_bytes()), opens, "{line}");
        }
    }
}
