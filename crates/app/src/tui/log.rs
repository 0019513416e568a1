//! What an agent prints, as lines that can be shown: read on from where the last look ended, without anything that a terminal
//! would obey, and never more than a person would read back through.

use std::collections::{BTreeMap, VecDeque};

use dacapo_core::{
    agent::{
        Format,
        transcript::{self, OutputEvent, Transcript},
    },
    text::{ansi::readable, visible::is_deceptive},
    view::{LoopPage, LoopView},
};
use dacapo_engine::{client::Client, secrets::secrets, store::Channel};

use crate::error::UserError;

/// How many lines are kept.
const LINES: usize = 20_000;
/// How much output before its end is read when a log is opened.
const BACK: u64 = 2 << 20;
/// How much is read in one look, so that keys are answered while an agent floods.
const AT_ONCE: u64 = 4 << 20;
/// How many characters of a line are kept.
const WIDEST: usize = 2_000;

/// The log of one loop.
pub(crate) struct Log {
    lines: VecDeque<String>,
    dropped: usize,
    /// Where in the output to go on.
    at: u64,
    formats: BTreeMap<String, Format>,
    /// A line that is not whole yet.
    partial: Vec<u8>,
    transcript: Option<Box<Transcript>>,
    /// The attempt that is being read.
    attempt: u32,
    is_begun: bool,
}

impl Log {
    pub(crate) fn new(client: &Client, view: &LoopView) -> Result<Self, UserError> {
        let started = client.loop_started(&view.id)?;
        let formats = started.map_or_else(BTreeMap::new, |started| {
            let agent = &started.policy.agent;
            let all = (0..=agent.fallback.len()).map(|index| agent.at(index));
            all.map(|agent| (agent.name.clone(), agent.format)).collect()
        });
        Ok(Self {
            lines: VecDeque::new(),
            dropped: 0,
            at: 0,
            formats,
            partial: Vec::new(),
            transcript: None,
            attempt: 0,
            is_begun: false,
        })
    }

    /// Reads on; says whether there was anything.
    pub(crate) fn read_on(
        &mut self,
        client: &Client,
        view: &LoopView,
        page: &LoopPage,
    ) -> Result<bool, UserError> {
        let (_, end) = client.output(view, Channel::Stdout, u64::MAX)?;
        let starts: Vec<(u64, u32, u32, Format)> = page
            .iterations
            .iter()
            .flat_map(|line| line.attempts.iter().map(|attempt| (line.iteration, attempt)))
            .map(|(iteration, attempt)| {
                let format = self.formats.get(&attempt.agent).copied().unwrap_or_default();
                (attempt.begin.stdout, attempt.attempt, iteration, format)
            })
            .collect();
        if !self.is_begun {
            self.is_begun = true;
            // From the beginning of an attempt, so that what it printed is understood.
            let from = end.saturating_sub(BACK);
            let first = starts.iter().find(|(at, ..)| *at >= from).or(starts.last());
            self.at = first.map_or(0, |(at, ..)| *at).max(end.saturating_sub(8 * BACK));
            self.dropped = usize::from(self.at > 0);
        }
        let mut left = AT_ONCE;
        let mut is_new = false;
        while self.at < end && left > 0 {
            let at = self.at;
            let own = starts.iter().rposition(|(begin, ..)| *begin <= at);
            let until = match own {
                Some(own) => starts.get(own + 1).map_or(end, |(next, ..)| *next),
                None => starts.first().map_or(end, |(next, ..)| *next),
            };
            // Attempts that printed nothing share their beginning with the next one.
            let until = if until <= at { end } else { until.min(end) };
            if let Some((_, attempt, iteration, format)) = own.map(|own| starts[own])
                && attempt != self.attempt
            {
                self.finish();
                self.attempt = attempt;
                self.push(format!("── iteration {iteration} ──"));
                self.transcript = (format != Format::Text).then(|| Box::new(Transcript::new(format)));
            }
            let (mut bytes, _) = client.output(view, Channel::Stdout, at)?;
            bytes.truncate(usize::try_from(until - at).unwrap_or(usize::MAX));
            if bytes.is_empty() {
                break;
            }
            is_new = true;
            self.at += bytes.len() as u64;
            left = left.saturating_sub(bytes.len() as u64);
            self.take(&bytes);
        }
        Ok(is_new)
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(mut transcript) = self.transcript.take() {
            let mut text = String::new();
            transcript.push(bytes, &mut |heard: OutputEvent<'_>| {
                if let Some(line) = transcript::readable(heard) {
                    text.push_str(&secrets().redact(&line));
                }
            });
            self.transcript = Some(transcript);
            self.take_text(text.as_bytes());
            return;
        }
        self.take_text(bytes);
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
        self.transcript = None;
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
