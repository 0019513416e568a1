//! What the agents of a loop printed, as people read it: in pieces, from any place on.

use std::collections::BTreeMap;

use dacapo_core::{
    agent::{
        Format,
        transcript::{self, OutputEvent, Transcript},
    },
    event::{Envelope, LoopEvent, OutputMarks},
    text::ansi::readable,
    view::LoopView,
};
use serde::Serialize;

use crate::{
    client::{Client, ClientError},
    secrets::secrets,
    store::Channel,
};

/// A stretch of the log that one attempt printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogPart {
    /// 0 for checks, which belong to no attempt.
    pub iteration: u32,
    /// Whether nothing of the attempt comes before it.
    pub is_first: bool,
    /// Whole lines, with nothing that plays with a terminal.
    pub text: String,
    /// Where it is, in bytes of what was printed.
    pub begin: u64,
    pub end: u64,
}

/// Some of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogPage {
    pub parts: Vec<LogPart>,
    /// Where to go on.
    pub next: u64,
    /// How much there is in all, in bytes of what was printed.
    pub end: u64,
    /// Whether nothing is printed any more.
    pub is_over: bool,
}

/// Where an attempt's part of a channel begins.
#[derive(Clone, Copy)]
struct Start {
    at: u64,
    iteration: u32,
    format: Format,
}

/// What a CLI prints as one event is read whole up to this many bytes, however little was asked for: a piece of it says nothing.
const LONGEST_EVENT: u64 = 16 << 20;

/// No prompt that is shown is longer, in bytes.
const LONGEST_PROMPT: usize = 1 << 20;

/// What an attempt was given, as it came: from byte `begin` of the channel on, up to `end` or to what there is.
pub fn read_prompt(
    client: &Client,
    view: &LoopView,
    begin: u64,
    end: Option<u64>,
) -> Result<Vec<u8>, ClientError> {
    let mut all = Vec::new();
    while all.len() < LONGEST_PROMPT {
        let at = begin + all.len() as u64;
        let (mut bytes, _) = client.output(view, Channel::Prompt, at)?;
        if let Some(end) = end {
            bytes.truncate(usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX));
        }
        if bytes.is_empty() {
            break;
        }
        all.append(&mut bytes);
    }
    Ok(all)
}

/// Reads the log of one loop.
pub struct LogReader {
    view: LoopView,
    channel: Channel,
    next: u64,
    /// The next event that is not taken in.
    seq: u64,
    starts: Vec<Start>,
    formats: BTreeMap<String, Format>,
    only: Option<u32>,
    /// Iterations whose agent printed on standard error alone.
    silent: Vec<u32>,
}

impl LogReader {
    /// Reads from byte `from` on, which must be the beginning or a place that a [`LogPage`] named.
    pub fn new(view: LoopView, channel: Channel, from: u64) -> Self {
        Self {
            view,
            channel,
            next: from,
            seq: 0,
            starts: Vec::new(),
            formats: BTreeMap::new(),
            only: None,
            silent: Vec::new(),
        }
    }

    /// Leaves out what other iterations printed.
    pub fn only(&mut self, iteration: u32) {
        self.only = Some(iteration);
    }

    /// Moves to the first line that begins in the last `most` bytes before `end`, or before the end of all.
    pub fn seek_back(&mut self, client: &Client, end: Option<u64>, most: u64) -> Result<(), ClientError> {
        let (_, all) = client.output(&self.view, self.channel, u64::MAX)?;
        let end = end.unwrap_or(all).min(all);
        let from = end.saturating_sub(most);
        self.next = from;
        if from == 0 {
            return Ok(());
        }
        // The byte before may end a line.
        let (bytes, _) = client.output(&self.view, self.channel, from - 1)?;
        let line = bytes.iter().position(|byte| *byte == b'\n').map(|newline| from + newline as u64);
        // A line that is longer is begun in its middle.
        if let Some(line) = line.filter(|line| *line < end) {
            self.next = line;
        }
        Ok(())
    }

    /// Whether an agent was started for this iteration, as far as was read.
    pub fn has_iteration(&self, iteration: u32) -> bool {
        self.starts.iter().any(|start| start.iteration == iteration)
    }

    /// The newest iteration whose agent printed on standard error alone.
    pub fn newest_silent(&self) -> Option<u32> {
        self.silent.iter().rev().copied().find(|own| self.only.is_none_or(|only| only == *own))
    }

    /// Takes in which attempts there were; says whether nothing is printed any more, and how much there is.
    fn look(&mut self, client: &Client) -> Result<(bool, u64), ClientError> {
        // Asked before the look: what is printed between the two is read by the next call.
        let is_over = client.loop_of_id(&self.view.id)?.is_none_or(|seen| !seen.is_running);
        for envelope in client.events_of_loop(&self.view.id, self.seq)? {
            self.seq = envelope.seq + 1;
            self.take_in(&envelope);
        }
        let (_, all) = client.output(&self.view, self.channel, u64::MAX)?;
        Ok((is_over, all))
    }

    /// The next of it as it came, at most `most` bytes and nothing at or behind `until`, and whether nothing follows.
    pub fn read_raw(
        &mut self,
        client: &Client,
        most: u64,
        until: Option<u64>,
    ) -> Result<(Vec<u8>, bool), ClientError> {
        let (is_over, all) = self.look(client)?;
        let end = until.map_or(all, |until| until.min(all));
        let Some((begin, stop, _)) = self.stretches(end).into_iter().next() else {
            return Ok((Vec::new(), is_over));
        };
        let bytes = self.bytes(client, begin, stop.min(begin + most))?;
        self.next = begin + bytes.len() as u64;
        // A file that was cut off meanwhile has no more.
        let is_over = is_over && (bytes.is_empty() || self.stretches(end).is_empty());
        Ok((bytes, is_over))
    }

    /// The next of it: about `most` bytes of what was printed, and nothing at or behind `until`.
    pub fn read(&mut self, client: &Client, most: u64, until: Option<u64>) -> Result<LogPage, ClientError> {
        let (is_over, all) = self.look(client)?;
        let end = until.map_or(all, |until| until.min(all));
        let mut parts = Vec::new();
        let mut left = most;
        for (begin, stop, start) in self.stretches(end) {
            if left == 0 {
                break;
            }
            let format = start.map_or(Format::Text, |start| start.format);
            let mut wanted = left;
            let mut bytes = self.bytes(client, begin, stop.min(begin + wanted))?;
            while format != Format::Text
                && !bytes.contains(&b'\n')
                && begin + (bytes.len() as u64) < stop
                && wanted < LONGEST_EVENT
            {
                wanted = (wanted * 4).min(LONGEST_EVENT);
                bytes = self.bytes(client, begin, stop.min(begin + wanted))?;
            }
            let is_all = begin + bytes.len() as u64 == stop;
            // What follows another attempt, or an end, is not written any more.
            let is_whole = is_all && (stop < all || is_over || until.is_some());
            let (text, used) = rendered(format, &bytes, is_whole, bytes.len() as u64 >= wanted.max(most));
            left = left.saturating_sub(used as u64);
            let stopped_at = begin + used as u64;
            if used > 0 {
                parts.push(LogPart {
                    iteration: start.map_or(0, |start| start.iteration),
                    is_first: start.is_some_and(|start| start.at == begin),
                    text,
                    begin,
                    end: stopped_at,
                });
            }
            self.next = stopped_at;
            if !is_all || used < bytes.len() {
                break;
            }
        }
        let is_over = is_over && self.stretches(end).is_empty();
        Ok(LogPage { parts, next: self.next, end: all, is_over })
    }

    fn take_in(&mut self, envelope: &Envelope) {
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                let agents =
                    (0..=started.policy.agent.fallback.len()).map(|index| started.policy.agent.at(index));
                self.formats = agents.map(|agent| (agent.name.clone(), agent.format)).collect();
            }
            LoopEvent::AgentStarted { iteration, agent, output, .. } => {
                let OutputMarks { stdout, stderr, prompt, gates } = output;
                let (at, format) = match self.channel {
                    Channel::Stdout => (stdout, self.formats.get(agent).copied().unwrap_or_default()),
                    Channel::Stderr => (stderr, Format::Text),
                    Channel::Prompt => (prompt, Format::Text),
                    Channel::Gates => (gates, Format::Text),
                };
                self.starts.push(Start { at: *at, iteration: *iteration, format });
            }
            LoopEvent::AgentExited { iteration, exit, .. }
                if self.channel == Channel::Stdout && exit.stdout_bytes == 0 && exit.stderr_bytes > 0 =>
            {
                self.silent.push(*iteration);
            }
            _ => {}
        }
    }

    /// What is to be read up to `end`, cut where attempts begin. What checks printed is not cut.
    fn stretches(&self, end: u64) -> Vec<(u64, u64, Option<Start>)> {
        if self.channel == Channel::Gates {
            return if self.next < end { vec![(self.next, end, None)] } else { Vec::new() };
        }
        let stretch = |(i, start): (usize, &'_ Start)| {
            let stop = self.starts.get(i + 1).map_or(end, |following| following.at).min(end);
            (start.at.max(self.next), stop, i)
        };
        let all = self.starts.iter().enumerate().map(stretch);
        let is_meant = |i: usize| self.only.is_none_or(|only| self.starts[i].iteration == only);
        all.filter(|(begin, stop, i)| begin < stop && is_meant(*i))
            .map(|(begin, stop, i)| (begin, stop, self.starts.get(i).copied()))
            .collect()
    }

    fn bytes(&self, client: &Client, begin: u64, stop: u64) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while begin + (bytes.len() as u64) < stop {
            let at = begin + bytes.len() as u64;
            let (mut some, _) = client.output(&self.view, self.channel, at)?;
            some.truncate(usize::try_from(stop - at).unwrap_or(usize::MAX));
            if some.is_empty() {
                break;
            }
            bytes.append(&mut some);
        }
        Ok(bytes)
    }
}

/// The readable form of the beginning of `bytes`, and how many of them it is made of. A line that does not fit what is wanted at
/// once (`is_full`) is shown in pieces.
fn rendered(format: Format, bytes: &[u8], is_whole: bool, is_full: bool) -> (String, usize) {
    let (text, used) = match format {
        Format::Text => {
            let used = match bytes.iter().rposition(|byte| *byte == b'\n') {
                _ if is_whole => bytes.len(),
                Some(newline) => newline + 1,
                None if is_full => whole_characters(bytes),
                None => 0,
            };
            (readable(&bytes[..used]), used)
        }
        format => said(format, bytes, is_whole, is_full),
    };
    (secrets().redact(&text).into_owned(), used)
}

/// How many bytes there are without a character that is cut at their end.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let cut = bytes[tail..].iter().rposition(|byte| *byte >= 0xc0).map(|at| tail + at);
    match cut {
        Some(at) if at > 0 && std::str::from_utf8(&bytes[at..]).is_err() => at,
        _ => bytes.len(),
    }
}

/// What the events of a CLI say. It ends behind an event that said something, so that no words are cut that come in pieces.
fn said(format: Format, bytes: &[u8], is_whole: bool, is_full: bool) -> (String, usize) {
    let mut transcript = Transcript::new(format);
    let (mut text, mut used, mut read, mut in_text) = (String::new(), 0, 0, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        read += line.len();
        let mut is_heard = false;
        transcript.push(line, &mut |heard: OutputEvent<'_>| {
            is_heard = true;
            text.extend(transcript::readable(heard));
        });
        if is_heard {
            (used, in_text) = (read, text.len());
        }
    }
    if is_whole {
        transcript
            .push(&bytes[read..], &mut |heard: OutputEvent<'_>| text.extend(transcript::readable(heard)));
        let told = transcript.finish(&mut |heard: OutputEvent<'_>| text.extend(transcript::readable(heard)));
        if let Some(ending) = told.ending.filter(|ending| !ending.is_ok) {
            text.push_str(&ending.message);
            text.push('\n');
        }
        used = bytes.len();
    } else if used > 0 {
        text.truncate(in_text);
    } else if is_full {
        used = bytes.len();
    }
    (readable(text.as_bytes()), used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_when_it_is_whole() {
        for (bytes, is_whole, text, used) in [
            (&b"one\ntw"[..], false, "one\n", 4),
            (b"one\ntw", true, "one\ntw", 6),
            (b"tw", false, "", 0),
            (b"\x1b[31mred\x1b[0m\x07\n", false, "red\n", 14),
            (b"a\xffb\n", false, "a\u{fffd}b\n", 4),
        ] {
            assert_eq!(rendered(Format::Text, bytes, is_whole, false), (text.to_owned(), used), "{bytes:?}");
        }
    }

    #[test]
    fn a_very_long_line_comes_in_pieces() {
        for (bytes, used) in
            [(&b"xxxx"[..], 4), ("xxé".as_bytes(), 4), (&"xxé".as_bytes()[..3], 2), (b"\xff", 1)]
        {
            assert_eq!(rendered(Format::Text, bytes, false, true).1, used, "{bytes:?}");
        }
    }
}
