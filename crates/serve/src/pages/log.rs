//! What the agents of a loop printed, as lines that follow: read in pieces, so that a long log neither fills the memory nor
//! keeps a reader of the journal busy.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{Event, KeepAlive, Sse},
};
use dacapo_core::{
    agent::{
        Format,
        transcript::{OutputEvent, Said, Transcript},
    },
    event::LoopEvent,
    view::LoopView,
};
use dacapo_engine::{
    client::{Client, ClientError},
    secrets::secrets,
    store::Channel,
};
use futures_util::stream;
use serde::Serialize;

use super::words;
use crate::Shared;

/// How many bytes of output become lines before they are sent.
const PIECE: u64 = 512 << 10;
/// Of a log that is longer, the end is shown.
const MOST: u64 = 64 << 20;
/// How long a follower waits before it looks whether more was printed.
const LOOK_AGAIN: Duration = Duration::from_millis(150);
/// An unfinished line that is longer is shown in pieces.
const LONGEST_UNFINISHED: usize = 1 << 20;

/// What a line of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    Said,
    Tool,
    /// dacapo's own words.
    Note,
    Error,
}

impl LineKind {
    /// The class of the style sheet.
    pub(super) fn class(self) -> Option<&'static str> {
        match self {
            Self::Said => None,
            Self::Tool => Some("tool-line"),
            Self::Note => Some("note"),
            Self::Error => Some("err"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) number: u64,
    pub(super) kind: LineKind,
    pub(super) text: String,
}

impl Serialize for LogLine {
    /// As short as it can be: a log has many.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.kind.class().unwrap_or(""), &self.text).serialize(serializer)
    }
}

/// Where the output of an attempt begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: u64,
    iteration: u32,
    format: Format,
}

/// How bytes become lines.
enum Reading {
    /// The line that is not whole yet.
    Text(Vec<u8>),
    Events(Box<Transcript>),
}

/// Reads a log from a place on.
pub(super) struct LogReader {
    view: LoopView,
    channel: Channel,
    /// One iteration alone.
    only: Option<u32>,
    formats: BTreeMap<String, Format>,
    starts: Vec<Start>,
    /// The next event to look at for the beginnings of attempts.
    next_event: u64,
    /// The next byte to read.
    at: u64,
    /// Behind the last line break that was read: where a reader that comes back goes on.
    whole: u64,
    /// The attempt that is being read.
    part: Option<usize>,
    reading: Reading,
    /// How many lines were handed over.
    lines: u64,
    is_first: bool,
}

impl LogReader {
    pub(super) fn new(view: LoopView, channel: Channel, only: Option<u32>, from: u64) -> Self {
        Self {
            view,
            channel,
            only,
            formats: BTreeMap::new(),
            starts: Vec::new(),
            next_event: 0,
            at: from,
            whole: from,
            part: None,
            reading: Reading::Text(Vec::new()),
            lines: 0,
            is_first: from == 0,
        }
    }

    /// Where to go on later.
    pub(super) fn place(&self) -> u64 {
        self.whole
    }

    /// The next lines; none if there is nothing new. `piece` is about how many bytes are read.
    pub(super) fn read(&mut self, client: &Client, piece: u64) -> Result<Vec<LogLine>, ClientError> {
        let (_, end) = client.output(&self.view, self.channel, u64::MAX)?;
        let mut lines = Vec::new();
        if self.at >= end && !self.starts.is_empty() {
            return Ok(lines);
        }
        self.learn_starts(client)?;
        if self.is_first && end > MOST {
            self.skip(client, end - MOST, &mut lines)?;
        }
        self.is_first = false;
        let stop = end.min(self.at.saturating_add(piece));
        while self.at < stop {
            let Some((part, until)) = self.part_at(self.at, end) else { break };
            if self.only.is_some_and(|only| self.starts.get(part).is_some_and(|start| start.iteration != only)) {
                (self.at, self.whole) = (until, until);
                continue;
            }
            self.enter(part, &mut lines);
            let (mut bytes, _) = client.output(&self.view, self.channel, self.at)?;
            bytes.truncate(usize::try_from(until - self.at).unwrap_or(usize::MAX));
            if bytes.is_empty() {
                break;
            }
            self.take(&bytes, &mut lines);
        }
        self.number(&mut lines);
        Ok(lines)
    }

    /// What is left of an unfinished line once nothing more will come.
    pub(super) fn finish(&mut self) -> Vec<LogLine> {
        let mut lines = Vec::new();
        self.leave(&mut lines);
        self.number(&mut lines);
        lines
    }

    fn number(&mut self, lines: &mut [LogLine]) {
        for line in lines {
            self.lines += 1;
            line.number = self.lines;
        }
    }

    fn learn_starts(&mut self, client: &Client) -> Result<(), ClientError> {
        for envelope in client.events_of_loop(&self.view.id, self.next_event)? {
            self.next_event = envelope.seq + 1;
            match &envelope.event {
                LoopEvent::LoopStarted(started) => {
                    let policy = &started.policy;
                    let agents = (0..=policy.agent.fallback.len()).map(|index| policy.agent.at(index));
                    self.formats = agents.map(|agent| (agent.name.clone(), agent.format)).collect();
                }
                LoopEvent::AgentStarted { iteration, agent, output, .. } => {
                    let (at, format) = match self.channel {
                        Channel::Stdout => (output.stdout, self.formats.get(agent).copied().unwrap_or_default()),
                        Channel::Stderr => (output.stderr, Format::Text),
                        Channel::Prompt => (output.prompt, Format::Text),
                        Channel::Gates => (output.gates, Format::Text),
                    };
                    self.starts.push(Start { at, iteration: *iteration, format });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The attempt that byte `at` belongs to, and where its output ends.
    fn part_at(&self, at: u64, end: u64) -> Option<(usize, u64)> {
        let part = self.starts.iter().rposition(|start| start.at <= at)?;
        // Attempts that printed nothing begin at the same byte as the next.
        let until = self.starts[part + 1..].iter().map(|next| next.at).find(|next| *next > at).unwrap_or(end);
        Some((part, until.min(end)))
    }

    /// Goes to the attempt that the next byte belongs to.
    fn enter(&mut self, part: usize, lines: &mut Vec<LogLine>) {
        if self.part == Some(part) {
            return;
        }
        self.leave(lines);
        let Some(start) = self.starts.get(part).copied() else { return };
        let is_new_iteration = self.part.and_then(|old| self.starts.get(old)).map(|old| old.iteration) != Some(start.iteration);
        if start.at == self.at && is_new_iteration {
            lines.push(note(format!("── iteration {} ──", start.iteration)));
        }
        self.part = Some(part);
        self.reading = match start.format {
            Format::Text => Reading::Text(Vec::new()),
            format => Reading::Events(Box::new(Transcript::new(format))),
        };
    }

    fn leave(&mut self, lines: &mut Vec<LogLine>) {
        let plain = self.plain();
        match std::mem::replace(&mut self.reading, Reading::Text(Vec::new())) {
            Reading::Text(rest) if rest.is_empty() => {}
            Reading::Text(rest) => lines.push(line(plain, &rest)),
            Reading::Events(transcript) => {
                let told = transcript.finish(&mut |heard| hear(heard, lines));
                if let Some(ending) = told.ending.filter(|ending| !ending.is_ok) {
                    push_text(LineKind::Error, &ending.message, lines);
                }
            }
        }
    }

    fn plain(&self) -> LineKind {
        if self.channel == Channel::Stderr { LineKind::Error } else { LineKind::Said }
    }

    fn take(&mut self, bytes: &[u8], lines: &mut Vec<LogLine>) {
        if let Some(newline) = bytes.iter().rposition(|byte| *byte == b'\n') {
            self.whole = self.at + newline as u64 + 1;
        }
        self.at += bytes.len() as u64;
        let plain = self.plain();
        match &mut self.reading {
            Reading::Events(transcript) => transcript.push(bytes, &mut |heard| hear(heard, lines)),
            Reading::Text(pending) => {
                let mut rest = bytes;
                while let Some(newline) = rest.iter().position(|byte| *byte == b'\n') {
                    if pending.is_empty() {
                        lines.push(line(plain, &rest[..newline]));
                    } else {
                        pending.extend_from_slice(&rest[..newline]);
                        lines.push(line(plain, pending));
                        pending.clear();
                    }
                    rest = &rest[newline + 1..];
                }
                pending.extend_from_slice(rest);
                if pending.len() > LONGEST_UNFINISHED {
                    lines.push(line(plain, pending));
                    pending.clear();
                    self.whole = self.at;
                }
            }
        }
    }

    /// Begins a long log near its end, at a whole line.
    fn skip(&mut self, client: &Client, to: u64, lines: &mut Vec<LogLine>) -> Result<(), ClientError> {
        let (bytes, _) = client.output(&self.view, self.channel, to)?;
        let newline = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1);
        self.at = to + newline;
        self.whole = self.at;
        lines.push(note(format!(
            "The first {} MB are not shown here: `dacapo logs {}` prints them.",
            words::thousands(self.at >> 20),
            self.view.id
        )));
        Ok(())
    }
}

fn note(text: String) -> LogLine {
    LogLine { number: 0, kind: LineKind::Note, text }
}

fn line(kind: LineKind, bytes: &[u8]) -> LogLine {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    // What a carriage return draws over is not seen on a terminal either.
    let bytes = bytes.rsplit(|byte| *byte == b'\r').next().unwrap_or(bytes);
    LogLine { number: 0, kind, text: words::output_line(bytes) }
}

fn hear(heard: OutputEvent<'_>, lines: &mut Vec<LogLine>) {
    let Some(said) = Said::of(heard) else { return };
    let kind = match said {
        Said::Tool { .. } => LineKind::Tool,
        Said::Note { .. } => LineKind::Note,
        Said::Assistant { .. } | Said::Line { .. } => LineKind::Said,
    };
    push_text(kind, said.line().trim_end_matches('\n'), lines);
}

fn push_text(kind: LineKind, text: &str, lines: &mut Vec<LogLine>) {
    // A secret that came in pieces is whole only here.
    let text = secrets().redact(text);
    lines.extend(text.split('\n').map(|text| line(kind, text.as_bytes())));
}

/// The newest lines of a log, for a browser without scripts.
pub(super) fn tail(client: &Client, view: &LoopView, channel: Channel, only: Option<u32>, most: usize) -> Result<Vec<LogLine>, ClientError> {
    let (_, end) = client.output(view, channel, u64::MAX)?;
    let from = if only.is_some() { 0 } else { end.saturating_sub(256 << 10) };
    let mut reader = LogReader::new(view.clone(), channel, only, 0);
    let mut lines = Vec::new();
    if from > 0 {
        reader.skip(client, from, &mut lines)?;
        reader.is_first = false;
    }
    loop {
        let read = reader.read(client, PIECE)?;
        if read.is_empty() {
            break;
        }
        lines.extend(read);
        let extra = lines.len().saturating_sub(most * 4);
        lines.drain(..extra);
    }
    lines.extend(reader.finish());
    let extra = lines.len().saturating_sub(most);
    lines.drain(..extra);
    Ok(lines)
}

/// What follows a log.
struct Follower {
    state: Shared,
    reader: Option<LogReader>,
    is_over: bool,
}

/// The lines of a log as events whose id is the place to go on from; an event `over` is the last.
pub(super) fn follow(state: &Shared, reader: LogReader) -> Response {
    let follower = Follower { state: state.clone(), reader: Some(reader), is_over: false };
    let events = stream::unfold(follower, async |mut follower| {
        if follower.is_over {
            return None;
        }
        let mut ending = follower.state.ending();
        loop {
            let mut reader = follower.reader.take()?;
            let answer = follower.state.ask(move |client| {
                // Asked first: what is printed until the end is then in the file.
                let is_over = client.loop_of_id(&reader.view.id)?.is_none_or(|seen| !seen.is_running);
                let mut lines = reader.read(client, PIECE)?;
                let is_over = is_over && lines.is_empty();
                if is_over {
                    lines = reader.finish();
                }
                Ok::<_, ClientError>((reader, lines, is_over))
            });
            let (reader, lines, is_over) = answer.await.ok()?;
            let place = reader.place();
            follower.reader = Some(reader);
            if is_over && lines.is_empty() {
                follower.is_over = true;
                return Some((Ok(Event::default().event("over").data("over")), follower));
            }
            if !lines.is_empty() {
                let data = serde_json::to_string(&lines).unwrap_or_default();
                return Some((Ok::<_, Infallible>(Event::default().id(place.to_string()).data(data)), follower));
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                _ = ending.wait_for(|is_over| *is_over) => return None,
            }
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
