//! The message bus as text: how an entry is written and how entries are found again (req 97).
//!
//! A bus is an append-only Markdown file that people read and edit too, so reading forgives:
//!
//! ```text
//! ---
//! id: 20261115T180000.123456Z-01234-0001
//! at: 2026-11-15T18:00:00Z
//! type: INFO
//! project: web-1a2b3c
//! task: fix-tests
//! loop: k3f9
//! ---
//! body text, any lines
//!
//! ```
//!
//! A `---` below a blank line, or at the very start, always opens an entry; a body holds none because
//! its own are escaped. A reader therefore finds the next entry also after text that is none.

use std::mem;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The line above and below the keys of an entry.
const FENCE: &str = "---";
const KIND_MAX: usize = 64;
const COUNTER_MAX: u32 = 9999;

/// One entry of a bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusMessage {
    /// Unique on its bus; ids sort in the order of posting. See [`next_id`].
    pub id: String,
    /// When it was posted, by the clock of the poster.
    pub at: Timestamp,
    /// What sort of message it is, such as `INFO` or `QUESTION`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The project it belongs to.
    pub project: String,
    /// The task it belongs to; none for the project as a whole.
    pub task: Option<String>,
    /// The loop that posted it, if a loop did.
    #[serde(rename = "loop")]
    pub loop_id: Option<String>,
    /// The text, without line ends at its end.
    pub body: String,
}

/// A message that has yet to be posted: it gets its id and its time under the lock of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub kind: String,
    pub project: String,
    pub task: Option<String>,
    pub loop_id: Option<String>,
    /// Any text; line ends at its end are dropped.
    pub body: String,
}

/// Why a draft cannot become a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// The type is empty, too long or has other characters.
    #[error("`{0}` is no message type: use 1 to {KIND_MAX} letters, digits, `_`, `.` or `-`")]
    Kind(String),
    /// The value would not survive as one line of an entry.
    #[error("`{value}` cannot be the {key} of a message: use one line, not empty, no blanks around it")]
    Value {
        /// Which value: `project`, `task` or `loop`.
        key: &'static str,
        /// The refused value, with its control characters escaped.
        value: String,
    },
}

impl Draft {
    /// Whether the draft can be written so that it reads back unchanged.
    pub fn check(&self) -> Result<(), DraftError> {
        if !is_kind(&self.kind) {
            return Err(DraftError::Kind(self.kind.escape_debug().to_string()));
        }
        let values =
            [("project", Some(&self.project)), ("task", self.task.as_ref()), ("loop", self.loop_id.as_ref())];
        for (key, value) in values {
            if let Some(value) = value.filter(|value| !is_value(value)) {
                return Err(DraftError::Value { key, value: value.escape_debug().to_string() });
            }
        }
        Ok(())
    }

    /// The message this draft becomes. Its time has whole seconds; the id carries the rest.
    pub fn into_message(self, id: String, now: Timestamp) -> BusMessage {
        let Self { kind, project, task, loop_id, body } = self;
        let at = Timestamp::from_second(now.as_second()).unwrap_or(now);
        BusMessage { id, at, kind, project, task, loop_id, body: without_last_line_ends(&body).to_owned() }
    }
}

impl BusMessage {
    /// When it was posted: [`BusMessage::at`] has whole seconds, an id that dacapo made tells more.
    pub fn posted_at(&self) -> Timestamp {
        id_parts(&self.id).map_or(self.at, |(time, ..)| time)
    }
}

/// The id of the message that follows `last` on its bus: time, process and a counter.
///
/// It sorts after `last` also within one microsecond, and when the clock went backwards. A `last` that
/// was not made here (people edit a bus) counts as none.
pub fn next_id(last: Option<&str>, now: Timestamp, pid: u32) -> String {
    let fresh = id_text(now, pid, 1);
    let Some(last) = last.filter(|last| *last >= fresh.as_str()) else { return fresh };
    let Some((time, last_pid, counter)) = id_parts(last) else { return fresh };
    if last_pid == pid && counter < COUNTER_MAX {
        return id_text(time, pid, counter + 1);
    }
    match time.checked_add(SignedDuration::from_micros(1)) {
        Ok(time) => id_text(time, pid, 1),
        Err(_end_of_time) => fresh,
    }
}

/// Whether [`next_id`] could have made this id.
pub fn is_id(id: &str) -> bool {
    id_parts(id).is_some()
}

fn id_text(time: Timestamp, pid: u32, counter: u32) -> String {
    let at = TimeZone::UTC.to_datetime(time);
    let (year, month, day, micros) = (at.year(), at.month(), at.day(), at.subsec_nanosecond() / 1000);
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    // Put together here: a loop posts several messages in each iteration, and `strftime` reads its format each time.
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{micros:06}Z-{pid:05}-{counter:04}")
}

fn id_parts(id: &str) -> Option<(Timestamp, u32, u32)> {
    let mut parts = id.split('-');
    let (time, pid, counter) = (parts.next()?, parts.next()?, parts.next()?);
    let time = DateTime::strptime("%Y%m%dT%H%M%S%.fZ", time).ok()?;
    let time = TimeZone::UTC.to_timestamp(time).ok()?;
    let (pid, counter) = (pid.parse().ok()?, counter.parse().ok()?);
    // Only the exact spelling sorts as it should.
    (id_text(time, pid, counter) == id).then_some((time, pid, counter))
}

/// The entry as it stands in the file, with the blank line that ends it.
///
/// The values are those of a checked [`Draft`]: a line break in one of them would tear the entry.
pub fn format(message: &BusMessage) -> String {
    let BusMessage { id, at, kind, project, task, loop_id, body } = message;
    let mut text = format!("{FENCE}\nid: {id}\nat: {at}\ntype: {kind}\nproject: {project}\n");
    for (key, value) in [("task", task), ("loop", loop_id)] {
        if let Some(value) = value {
            text.extend([key, ": ", value, "\n"]);
        }
    }
    text.extend([FENCE, "\n"]);
    let body = without_last_line_ends(body);
    if !body.is_empty() {
        for line in body.split('\n') {
            if is_escaped_fence(line) {
                text.push('\\');
            }
            text.extend([line, "\n"]);
        }
    }
    text.push('\n');
    text
}

/// What has to stand between the end of a bus and its next entry, so that a torn or hand-written end
/// cannot swallow it. `end` is the end of the file, two bytes or more of it if there are as many.
pub fn separator(end: &[u8]) -> &'static str {
    match end {
        [] | [b'\n'] | [.., b'\n', b'\n'] => "",
        [.., b'\n'] => "\n",
        _ => "\n\n",
    }
}

/// The whole entries in `text`, in its order. Other text is skipped.
pub fn parse(text: &str) -> Vec<BusMessage> {
    BusParser::default().feed(text)
}

/// Finds entries in text that arrives piece by piece.
///
/// An entry is whole as soon as the text fed so far ends in a blank line below it, or the next entry
/// opens. A posted entry is therefore read at once; but a piece that was cut off just after a blank line
/// inside a body ends the entry there. Pieces should be what the file held at one time, up to its end.
///
/// An entry torn above its body is skipped; one torn in its body is read as far as it was written, once
/// the next entry opens.
#[derive(Debug)]
pub struct BusParser {
    state: EntryState,
    /// The start of a line whose end has not come yet.
    partial: Vec<u8>,
    /// The last line was blank, or there was none.
    after_blank: bool,
    /// Bytes of all whole lines so far.
    lines_end: u64,
    consumed: u64,
}

#[derive(Debug)]
enum EntryState {
    Between,
    Keys(Keys),
    Body(BusMessage),
}

impl Default for BusParser {
    fn default() -> Self {
        let (state, partial) = (EntryState::Between, Vec::new());
        Self { state, partial, after_blank: true, lines_end: 0, consumed: 0 }
    }
}

impl BusParser {
    /// The entries that became whole with this piece. A piece may end within a line or a character.
    pub fn feed(&mut self, piece: impl AsRef<[u8]>) -> Vec<BusMessage> {
        let mut whole = Vec::new();
        for part in piece.as_ref().split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = mem::take(&mut self.partial);
                self.line(&String::from_utf8_lossy(&line[..line.len() - 1]), &mut whole);
                self.lines_end += line.len() as u64;
            }
        }
        if self.after_blank && self.partial.is_empty() {
            self.end_entry(&mut whole);
        }
        whole
    }

    /// How many of the bytes fed are settled: up to the end of the last entry found. A new parser that
    /// starts there misses nothing.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    fn line(&mut self, line: &str, whole: &mut Vec<BusMessage>) {
        if line == FENCE {
            self.fence(whole);
        } else {
            match &mut self.state {
                EntryState::Between => {}
                EntryState::Keys(keys) => {
                    if !keys.read_line(line) {
                        self.state = EntryState::Between;
                    }
                }
                EntryState::Body(message) => {
                    let escaped = line.strip_prefix('\\').filter(|rest| is_escaped_fence(rest));
                    message.body.extend([escaped.unwrap_or(line), "\n"]);
                }
            }
        }
        self.after_blank = line.is_empty();
    }

    fn fence(&mut self, whole: &mut Vec<BusMessage>) {
        if !self.after_blank {
            let closed = match &mut self.state {
                EntryState::Between => None,
                EntryState::Keys(keys) => mem::take(keys).close(),
                // Fence, keys, fence, keys, fence: the second fence did not close the first entry, which
                // was torn there, but opened another.
                EntryState::Body(torn) => Keys::read(&torn.body).and_then(Keys::close),
            };
            if let Some(message) = closed {
                self.state = EntryState::Body(message);
                return;
            }
        }
        self.end_entry(whole);
        self.state = EntryState::Keys(Keys::default());
    }

    fn end_entry(&mut self, whole: &mut Vec<BusMessage>) {
        match mem::replace(&mut self.state, EntryState::Between) {
            EntryState::Body(mut message) => {
                message.body.truncate(without_last_line_ends(&message.body).len());
                whole.push(message);
                self.consumed = self.lines_end;
            }
            unfinished => self.state = unfinished,
        }
    }
}

/// The keys of an entry as far as they were read.
#[derive(Debug, Default)]
struct Keys {
    id: Option<String>,
    at: Option<Timestamp>,
    kind: Option<String>,
    project: Option<String>,
    task: Option<String>,
    loop_id: Option<String>,
}

impl Keys {
    fn read(lines: &str) -> Option<Self> {
        let mut keys = Self::default();
        lines.lines().all(|line| keys.read_line(line)).then_some(keys)
    }

    /// False if this is no line with a key. Keys of a later version are no reason to lose the entry.
    fn read_line(&mut self, line: &str) -> bool {
        let Some((key, value)) = line.split_once(':') else { return false };
        let value = value.trim();
        let text = || is_value(value).then(|| value.to_owned());
        match key {
            "id" => self.id = text(),
            "at" => self.at = value.parse().ok(),
            "type" => self.kind = text().filter(|kind| is_kind(kind)),
            "project" => self.project = text(),
            "task" => self.task = text(),
            "loop" => self.loop_id = text(),
            _ => {}
        }
        true
    }

    /// The message with these keys, its body to come, if it has all it needs.
    fn close(self) -> Option<BusMessage> {
        let Self { id, at, kind, project, task, loop_id } = self;
        let (id, at, kind, project) = (id?, at?, kind?, project?);
        Some(BusMessage { id, at, kind, project, task, loop_id, body: String::new() })
    }
}

fn is_kind(kind: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=KIND_MAX).contains(&kind.len()) && kind.bytes().all(allowed)
}

fn is_value(value: &str) -> bool {
    !value.is_empty() && value.trim() == value && !value.contains(char::is_control)
}

/// `---` behind any number of backslashes, none included: written with one more, read with one less.
fn is_escaped_fence(line: &str) -> bool {
    line.trim_start_matches('\\') == FENCE
}

/// The only thing a body loses: how many line ends it had at its end is not kept.
fn without_last_line_ends(body: &str) -> &str {
    body.trim_end_matches(['\r', '\n'])
}

#[cfg(test)]
#[path = "bus_tests.rs"]
mod tests;
