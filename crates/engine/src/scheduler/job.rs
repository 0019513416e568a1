//! One job for one unit, as a process of its own: what it is told, how it is started, what it says.
//!
//! It is the supervisor of the unit's loops, one after the other. It dies with its scheduler, and the loops' keepers see
//! to it that agents die with it.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
};

use dacapo_core::{
    agent::transcript::TranscriptEntry,
    event::{Envelope, LoopEvent, RunEvent, UnitEnd},
    view::LoopView,
};
use rustix::process::Signal;

use super::{
    message::{HostMessage, JobMessage, PROTOCOL},
    work::UnitWorker,
};
use crate::{
    observer::Observer,
    signals::Signals,
    stage_performer::job::{JobMemory, StageSpec},
    store::Channel,
    supervisor::StartError,
};

/// The word after which `dacapo` is a job.
pub const JOB: &str = "unit-job";
/// The longest line of an agent that is passed on.
const LONGEST_LINE: usize = 64 * 1024;

/// Why a job does not come to its good end.
#[derive(Debug)]
pub(super) struct JobEnd(pub(super) UnitEnd, pub(super) String);

impl JobEnd {
    pub(super) fn error(detail: impl std::fmt::Display) -> Self {
        Self(UnitEnd::Error, detail.to_string())
    }
}

impl From<StartError> for JobEnd {
    fn from(error: StartError) -> Self {
        let end = match error {
            StartError::Program(_)
            | StartError::Home(_)
            | StartError::Store(_)
            | StartError::Io { .. }
            | StartError::Supervise(_)
            | StartError::TaskHeld { .. }
            | StartError::WorkspaceHeld { .. } => UnitEnd::Environment,
            _ => UnitEnd::Error,
        };
        Self(end, error.to_string())
    }
}

/// What a job says to its scheduler.
pub(crate) struct JobReporter {
    out: io::Stdout,
    is_watched: bool,
    /// Whether it says what was written, and not only that something was.
    says_place: bool,
    /// What an agent printed that is not a whole line yet.
    rest: Vec<u8>,
    /// The same of an agent of a step that prints words and no events, on its standard output.
    rest_of_words: Vec<u8>,
}

impl JobReporter {
    /// Greets the host; nothing may be said before.
    fn greeting(is_watched: bool) -> Self {
        let mut voice = Self {
            out: io::stdout(),
            is_watched,
            says_place: false,
            rest: Vec::new(),
            rest_of_words: Vec::new(),
        };
        voice.say(&JobMessage::Hello { protocol: PROTOCOL });
        voice
    }

    /// For a performer, which shows a loop in the order in which things happened.
    pub(crate) fn for_performer(mut self, is_watched: bool) -> Self {
        self.begin_order(is_watched);
        self
    }

    /// For the next order of a performer: nothing is left of what an agent of the one before has printed.
    pub(crate) fn begin_order(&mut self, is_watched: bool) {
        (self.is_watched, self.says_place) = (is_watched, true);
        self.rest.clear();
        self.rest_of_words.clear();
    }

    /// A fact for the run's stream.
    pub(super) fn tell(&mut self, event: &RunEvent) {
        self.say(&JobMessage::Event(event.clone()));
    }

    /// Passes on what an agent printed that prints words and no events.
    fn words(&mut self, bytes: &[u8]) {
        for text in lines(&mut self.rest_of_words, bytes) {
            self.say(&JobMessage::Said(TranscriptEntry::Line { text }));
        }
    }

    /// A scheduler that is gone hears nothing, and the job is about to go too.
    pub(crate) fn say(&mut self, message: &JobMessage) {
        let Ok(mut line) = serde_json::to_vec(message) else { return };
        line.push(b'\n');
        let mut stdout = self.out.lock();
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
    }
}

/// The lines that `bytes` complete; what follows the last of them waits in `rest`.
fn lines(rest: &mut Vec<u8>, bytes: &[u8]) -> Vec<String> {
    rest.extend_from_slice(bytes);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(end) = memchr::memchr(b'\n', &rest[from..]) {
        found.push(String::from_utf8_lossy(rest[from..from + end].trim_ascii_end()).into_owned());
        from += end + 1;
    }
    rest.drain(..from);
    // A line without an end is not worth the memory.
    rest.truncate(LONGEST_LINE);
    found
}

impl Observer for JobReporter {
    fn event(&mut self, envelope: &Envelope, _: &LoopView) {
        if matches!(envelope.event, LoopEvent::AgentExited { .. }) && !self.rest_of_words.is_empty() {
            self.words(b"\n");
        }
        self.say(&match self.says_place {
            true => JobMessage::Wrote { seq: envelope.seq },
            false => JobMessage::LoopWrote,
        });
    }

    fn output(&mut self, channel: &Channel, bytes: &[u8]) {
        if self.says_place && *channel == Channel::Stdout {
            return self.words(bytes);
        }
        for line in lines(&mut self.rest, bytes) {
            self.say(&JobMessage::Output(line));
        }
    }

    fn said(&mut self, channel: &Channel, said: &TranscriptEntry) {
        if self.says_place {
            self.say(&JobMessage::Said(said.clone()));
        } else {
            self.output(channel, said.line().as_bytes());
        }
    }

    fn sees_output(&self) -> bool {
        self.is_watched
    }
}

/// The life of a job: `dacapo unit-job`, which only dacapo itself calls.
pub fn main() -> ExitCode {
    // A job ends with its scheduler, however that ends.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let mut orders = io::stdin().lock();
    let spec = match told(&mut orders) {
        Ok(Some(HostMessage::Start { spec, .. })) => *spec,
        Ok(Some(HostMessage::Step { spec, .. })) => {
            if !is_parent(spec.performer) {
                return ExitCode::from(5);
            }
            crate::performer::job::work(*spec, JobReporter::greeting(false));
            return ExitCode::SUCCESS;
        }
        Ok(Some(HostMessage::Stage { spec, .. })) => {
            if !is_parent(spec.performer) {
                return ExitCode::from(5);
            }
            return stages(*spec, &mut orders);
        }
        Ok(None) => return ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "{why}");
            return ExitCode::from(2);
        }
    };
    // It may have died before it was asked for.
    if !is_parent(spec.scheduler) {
        return ExitCode::from(5);
    }
    let mut voice = JobReporter::greeting(spec.is_watched);
    match UnitWorker::new(spec, &mut voice) {
        Ok(worker) => worker.run(),
        Err(JobEnd(reason, detail)) => voice.tell(&RunEvent::UnitFailed { reason, detail, loop_id: None }),
    }
    ExitCode::SUCCESS
}

/// The life of a job that works on stages of tasks: one order after the other, until there are no more. Starting a process costs
/// as much as a small agent does.
fn stages(first: StageSpec, orders: &mut impl BufRead) -> ExitCode {
    // Between two loops a signal does what it does to any process.
    if let Err(error) = Signals::default_between_loops() {
        let _ = writeln!(io::stderr(), "cannot listen to signals: {error}");
        return ExitCode::from(5);
    }
    let mut voice = JobReporter::greeting(false);
    let mut memory = JobMemory::default();
    let mut next = Some(first);
    while let Some(spec) = next {
        crate::stage_performer::job::work(spec, &mut voice, &mut memory);
        voice.say(&JobMessage::Idle);
        next = match told(orders) {
            Ok(Some(HostMessage::Stage { spec, .. })) => Some(*spec),
            Ok(None) => None,
            Ok(Some(HostMessage::Start { .. } | HostMessage::Step { .. })) => return ExitCode::from(2),
            Err(why) => {
                let _ = writeln!(io::stderr(), "{why}");
                return ExitCode::from(2);
            }
        };
    }
    ExitCode::SUCCESS
}

/// Whether the process with this number has started this one and lives.
fn is_parent(pid: u32) -> bool {
    rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get().cast_unsigned() == pid)
}

/// What the host tells this job next, or why it cannot be understood; nothing if it tells no more.
fn told(orders: &mut impl BufRead) -> Result<Option<HostMessage>, String> {
    let mut text = Vec::new();
    orders.read_until(b'\n', &mut text).map_err(|error| format!("cannot read what to do: {error}"))?;
    if text.is_empty() { Ok(None) } else { understood(&text).map(Some) }
}

fn understood(text: &[u8]) -> Result<HostMessage, String> {
    // The version is read first: of a newer one the rest may look different.
    #[derive(serde::Deserialize)]
    struct Greeting {
        #[serde(alias = "step", alias = "stage")]
        start: Version,
    }
    #[derive(serde::Deserialize)]
    struct Version {
        protocol: u32,
    }
    let wrong = |error: serde_json::Error| format!("the host said what no job understands: {error}");
    let Greeting { start: Version { protocol } } = serde_json::from_slice(text).map_err(wrong)?;
    if protocol > PROTOCOL {
        return Err(format!(
            "the host speaks version {protocol} of the messages, and this job knows {PROTOCOL}"
        ));
    }
    serde_json::from_slice(text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_a_newer_version_is_refused_and_nonsense_is_named() {
        let refused = |text: &str| understood(text.as_bytes()).unwrap_err();
        assert_eq!(
            refused(r#"{"start":{"protocol":2,"order":"work"}}"#),
            "the host speaks version 2 of the messages, and this job knows 1"
        );
        assert!(refused("work!").starts_with("the host said what no job understands: "));
        assert!(refused(r#"{"start":{"protocol":1}}"#).contains("missing field `spec`"));
    }
}
