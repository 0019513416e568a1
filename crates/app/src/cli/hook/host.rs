//! A host that runs dacapo as a hook: what it said on standard input, and the one answer that it gets on standard output.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
};

use dacapo_core::session::{
    HookAnswer, HookInput, Host, HostSession, ModelCall, NewWords, Toast, TranscriptMark, TurnEnd, UsageMark,
    calls_in, new_words,
};
use dacapo_engine::{secrets::secrets, session::SessionHost};
use jiff::Timestamp;
use serde_json::Value;

use crate::error::UserError;

/// How much of a transcript is read at most where it is not known what is new in it.
const UNKNOWN_TAIL: u64 = 4 << 20;
/// How much is read at most of what is new.
const NEW_TAIL: u64 = 32 << 20;

/// In which form the host is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    Stop,
    Prompt { is_taken: bool },
    Event,
}

pub(super) struct HookHost {
    pub(super) host: Host,
    pub(super) input: HookInput,
    pub(super) answer: HookAnswer,
    pub(super) form: AnswerForm,
    is_answered: bool,
}

impl HookHost {
    pub(super) fn new(host: Host, input: HookInput) -> Self {
        Self { host, input, answer: HookAnswer::default(), form: AnswerForm::Stop, is_answered: false }
    }

    /// Prints the answer, unless that was done when the prompt was handed over.
    pub(super) fn finish(mut self) {
        if !self.is_answered
            && let Err(error) = self.print()
        {
            let _ = writeln!(std::io::stderr().lock(), "dacapo: cannot answer the host: {error}");
        }
    }

    /// Tells the user what went wrong inside dacapo: in the answer, as far as the host shows lines, and in full on standard error.
    pub(super) fn tell(&mut self, error: &UserError) {
        let place = error.details.as_deref().and_then(|details| details.lines().next());
        let more: Vec<&str> = place.into_iter().chain(error.hint.as_deref()).collect();
        let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join("; ")) };
        self.answer.faults.push(format!("{}{more}", error.message));
        error.print();
    }

    fn print(&mut self) -> std::io::Result<()> {
        self.is_answered = true;
        let answer: Option<Value> = match self.form {
            AnswerForm::Stop => self.answer.of_stop(self.host),
            AnswerForm::Prompt { is_taken } => self.answer.of_prompt(self.host, is_taken),
            AnswerForm::Event => Some(self.answer.of_event()),
        };
        let Some(answer) = answer else { return Ok(()) };
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", secrets().redact(&answer.to_string()))?;
        stdout.flush()
    }

    /// The messages that a plugin hands over, as far as they are new.
    fn handed_words(&self, mark: &TranscriptMark, since: Timestamp) -> (NewWords, TranscriptMark) {
        let seen = usize::try_from(mark.offset).unwrap_or(usize::MAX);
        let all = &self.input.messages;
        let is_new = |(at, (time, _)): &(usize, &(Option<Timestamp>, String))| match time {
            Some(time) => *time >= since,
            None => *at >= seen,
        };
        let messages: Vec<String> =
            all.iter().enumerate().filter(is_new).map(|(_, (_, text))| text.clone()).collect();
        let last = all.last().map(|(_, text)| text.as_str());
        let has_news = !messages.is_empty();
        let turn = TurnEnd::ending_with(last.unwrap_or_default(), true);
        let mark = TranscriptMark { offset: all.len() as u64, ..TranscriptMark::default() };
        (NewWords { messages, has_news, turn, ..NewWords::default() }, mark)
    }

    /// What the agent's model was asked for since the idle before, and how far that was counted now.
    fn calls(&self, mark: &UsageMark, since: Timestamp) -> (Vec<ModelCall>, UsageMark) {
        if self.host == Host::Opencode {
            let is_new = |(at, _): &&(Option<Timestamp>, ModelCall)| at.is_some_and(|at| at >= since);
            return (
                self.input.calls.iter().filter(is_new).map(|(_, call)| call.clone()).collect(),
                mark.clone(),
            );
        }
        let Some(path) = &self.input.transcript else { return (Vec::new(), mark.clone()) };
        let known = (mark.path.as_ref() == Some(path)).then_some(mark.offset);
        let Some((bytes, from)) = read_new(path, known) else { return (Vec::new(), mark.clone()) };
        let (mut calls, read) = calls_in(&bytes, known.is_none().then_some(since));
        for call in &mut calls {
            call.model = call.model.take().or_else(|| self.input.model.clone());
        }
        let offset = from + read as u64;
        (calls, UsageMark { path: Some(path.clone()), offset, ..mark.clone() })
    }

    fn words_said(
        &self,
        mark: &TranscriptMark,
        before: Option<TurnEnd>,
        since: Timestamp,
    ) -> (NewWords, TranscriptMark) {
        if !self.input.messages.is_empty() {
            return self.handed_words(mark, since);
        }
        if let Some(response) = &self.input.response {
            return response_words(mark, before, response);
        }
        let last = self.input.last_message.as_deref();
        let Some(path) = self.input.transcript.clone() else {
            return (new_words(b"", last, before, since), mark.clone());
        };
        let known = (mark.path.as_ref() == Some(&path)).then_some(mark.offset);
        let (bytes, from) = match self.host {
            Host::Copilot => read_settled(&path, known),
            _ => read_new(&path, known).unwrap_or_default(),
        };
        let words = new_words(&bytes, last, before, since);
        let offset = from + words.read as u64;
        (words, TranscriptMark { path: Some(path), offset, ..TranscriptMark::default() })
    }
}

impl SessionHost for HookHost {
    fn words(
        &mut self,
        mark: &TranscriptMark,
        before: Option<TurnEnd>,
        since: Timestamp,
    ) -> (NewWords, TranscriptMark) {
        let (said, place) = self.words_said(mark, before, since);
        let (calls, usage) = self.calls(&mark.usage, since);
        (NewWords { calls, ..said }, TranscriptMark { usage, ..place })
    }

    fn background(&mut self) -> Vec<String> {
        self.input.background.clone()
    }

    fn inject(&mut self, prompt: &str) -> Result<(), String> {
        self.answer.prompt = Some(prompt.to_owned());
        self.print().map_err(|error| error.to_string())
    }

    fn toast(&mut self, toast: &Toast) {
        self.answer.toasts.push(toast.clone());
    }

    /// A session exists as long as the host lists it, or as its transcript does, once there was one.
    fn exists(&mut self, session: &HostSession) -> Option<bool> {
        if let Some(known) = self.input.sessions.as_ref().filter(|_| session.host == self.host.name()) {
            return Some(known.contains(&session.id));
        }
        let path = session.transcript.path.as_ref().filter(|_| session.transcript.offset > 0)?;
        path.try_exists().ok()
    }

    fn log(&mut self, line: &str) {
        let _ = writeln!(std::io::stderr().lock(), "[ralph-loop] {}", secrets().redact(line));
    }
}

/// What the agent said since the user's prompt. As long as hooks send its agent back, Gemini repeats what it handed over before.
fn response_words(
    mark: &TranscriptMark,
    before: Option<TurnEnd>,
    response: &str,
) -> (NewWords, TranscriptMark) {
    let known = usize::try_from(mark.offset).ok().filter(|_| mark.path.is_none());
    let said_before =
        known.and_then(|known| response.get(..known)).map(|text| TurnEnd::ending_with(text, true));
    let is_continued = said_before.is_some() && said_before == before;
    let new = known.filter(|_| is_continued).and_then(|known| response.get(known..)).unwrap_or(response);
    let messages = if new.trim().is_empty() { Vec::new() } else { vec![new.to_owned()] };
    let turn = TurnEnd::ending_with(response, true);
    let mark = TranscriptMark { offset: response.len() as u64, ..TranscriptMark::default() };
    (NewWords { has_news: !messages.is_empty(), messages, turn, ..NewWords::default() }, mark)
}

/// The same as [`read_new`] for Copilot, which hands over no words and writes its transcript a moment after it has called the hook:
/// the line about the hook itself is the last one (fault A7).
fn read_settled(path: &Path, known: Option<u64>) -> (Vec<u8>, u64) {
    let is_settled = |bytes: &[u8]| {
        let last: Vec<&[u8]> =
            bytes.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(3).collect();
        last.iter().any(|line| {
            let line = String::from_utf8_lossy(line);
            line.contains("hook.start") && line.contains("agentStop")
        })
    };
    let mut read = read_new(path, known).unwrap_or_default();
    for _ in 0..50 {
        if is_settled(&read.0) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        read = read_new(path, known).unwrap_or_default();
    }
    read
}

/// What stands in the file from `known` on, or at its end if that is not known, and where that begins. A file that became
/// shorter was written anew, and nothing is known of it.
fn read_new(path: &Path, known: Option<u64>) -> Option<(Vec<u8>, u64)> {
    let mut file = File::open(path).ok()?;
    let end = file.metadata().ok()?.len();
    let from = match known.filter(|known| *known <= end) {
        Some(known) => known.max(end.saturating_sub(NEW_TAIL)),
        None => end.saturating_sub(UNKNOWN_TAIL),
    };
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::with_capacity(usize::try_from(end - from).ok()?);
    file.take(end - from).read_to_end(&mut bytes).ok()?;
    Some((bytes, from))
}
