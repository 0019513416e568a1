//! What an agent prints, as lines that can be shown: read on from where the last look ended, without anything that a terminal
//! would obey, and never more than a person would read back through.

use std::collections::VecDeque;

use dacapo_core::{
    text::{ansi::readable, visible::is_deceptive},
    view::LoopView,
};
use dacapo_engine::{client::Client, log::LogReader, store::Channel};

use crate::error::UserError;

/// How many lines are kept.
const LINES: usize = 20_000;
/// How much output before its end is read when a log is opened.
const BACK: u64 = 2 << 20;
/// How much is read in one look, so that keys are answered while an agent floods.
const AT_ONCE: u64 = 1 << 20;
/// How many characters of a line are kept.
const WIDEST: usize = 2_000;

/// The log of one loop, read as `dacapo logs` reads it.
pub(crate) struct Log {
    reader: LogReader,
    lines: VecDeque<String>,
    dropped: usize,
    /// A line that is not whole yet.
    partial: Vec<u8>,
    is_begun: bool,
}

impl Log {
    pub(crate) fn new(client: &Client, view: &LoopView) -> Result<Self, UserError> {
        let mut reader = LogReader::new(view.clone(), Channel::Stdout, 0);
        reader.seek_back(client, None, BACK)?;
        Ok(Self { reader, lines: VecDeque::new(), dropped: 0, partial: Vec::new(), is_begun: false })
    }

    /// Reads on; says whether there was anything.
    pub(crate) fn read_on(&mut self, client: &Client) -> Result<bool, UserError> {
        let page = self.reader.read(client, AT_ONCE, None)?;
        for part in &page.parts {
            if !std::mem::replace(&mut self.is_begun, true) {
                self.dropped = usize::from(part.begin > 0);
            }
            if part.is_first {
                self.finish();
                self.push(format!("── iteration {} ──", part.iteration));
            }
            self.take_text(part.text.as_bytes());
        }
        Ok(!page.parts.is_empty())
    }

    fn take_text(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Of a line without an end only the beginning is kept.
            if self.partial.len() < WIDEST * 8 {
                let room = WIDEST * 8 - self.partial.len();
                self.partial.extend_from_slice(&part[..part.len().min(room)]);
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                self.push(shown(&line));
            }
        }
    }

    fn finish(&mut self) {
        if !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            self.push(shown(&line));
        }
    }

    fn push(&mut self, line: String) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line);
    }

    /// All lines, the one that is not whole yet too.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.iter().cloned().collect();
        if !self.partial.is_empty() {
            lines.push(shown(&self.partial));
        }
        lines
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped
    }
}

/// One line as it can be shown.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = readable(line);
    let text = text.trim_end_matches(['\n', '\r']);
    let mut shown = String::with_capacity(text.len().min(WIDEST * 2));
    for (at, c) in text.chars().enumerate() {
        if at == WIDEST {
            shown.push('…');
            break;
        }
        match c {
            '\t' => shown.push_str("    "),
            '\n' => shown.push(' '),
            c if is_deceptive(c) => {
                use std::fmt::Write;
                let _ = write!(shown, "\\u{{{:x}}}", c as u32);
            }
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left_in_a_line() {
        // fault D8
        let long = vec![b'a'; 1 << 20];
        for (bytes, text) in [
            (&b"plain\n"[..], "plain".to_owned()),
            (b"\x1b[2J\x1b]0;owned\x07red\x1b[31m\r\n", "red".to_owned()),
            (b"a\tb", "a    b".to_owned()),
            ("a\u{202e}b\u{200b}c".as_bytes(), "a\\u{202e}b\\u{200b}c".to_owned()),
            (b"caf\xff", "caf\u{fffd}".to_owned()),
            (&long[..], format!("{}…", "a".repeat(WIDEST))),
        ] {
            let line = shown(bytes);
            assert_eq!(line, text);
            assert!(!line.chars().any(char::is_control));
        }
    }
}
