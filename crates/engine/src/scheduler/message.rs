//! What a job and its host say to each other: one enum each way, a line of JSON per message.
//!
//! The first line each way is a greeting with the version of these messages. A line that is no message, or a greeting of a
//! newer version, is an error that names the line: the scheduler ends the unit with it and stops the job.

use std::{fmt, path::PathBuf};

use dacapo_core::{
    agent::transcript::TranscriptEntry,
    event::{Reason, RunEvent, RunStarted},
    ids::{RunId, UnitId},
    sandbox::SandboxHeld,
    text::{ansi, visible::visible},
    unit::{TaskStatus, Unit, schedule::Job},
};
use serde::{Deserialize, Serialize};

use crate::{
    performer::job::{ScriptReport, StepSpec},
    process::Programs,
    repository::PushRoute,
    stage_performer::job::{MergeReport, StageSpec},
};

/// The version of these messages. It grows when an old reader would misread a new message.
pub(crate) const PROTOCOL: u32 = 1;
/// How many characters of a line that is no message are shown to the user.
const SHOWN: usize = 120;

/// What a host says to its job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HostMessage {
    /// The greeting, and what the job has to do. The host says nothing more to a unit's job; it stops a job with a signal.
    Start { protocol: u32, spec: Box<JobSpec> },
    /// The same for a step of a workflow.
    Step { protocol: u32, spec: Box<StepSpec> },
    /// The same for a stage of a task. When the job has done it, it waits for another one of these, until its standard input ends.
    Stage { protocol: u32, spec: Box<StageSpec> },
}

/// What a job says to its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobMessage {
    /// The greeting, before anything else.
    Hello {
        protocol: u32,
    },
    /// A fact about the job's unit for the run's stream.
    Event(RunEvent),
    /// A line that an agent of the unit printed; of a step, one that a check printed, or an agent on its standard error.
    Output(String),
    /// A loop of the unit has written to the journal.
    LoopWrote,
    /// An agent of a step said or did something.
    Said(TranscriptEntry),
    /// The loop of a step has written to the journal, up to this place. What was said before belongs before it.
    Wrote {
        seq: u64,
    },
    /// The script of a step begins in this sandbox.
    Sandbox(SandboxHeld),
    /// How the script of a step ended.
    Script(ScriptReport),
    /// The task has this worktree, and it is ready.
    Worktree {
        path: PathBuf,
        branch: String,
        /// The commit of the target that the branch holds.
        target: String,
    },
    /// How the merge of a task ended.
    Merge(MergeReport),
    Failed(JobFailure),
    /// The job has done what it was told about a task, and waits for the next order.
    Idle,
}

/// Why the loop or script of a step did not begin, or could not be brought to an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobFailure {
    pub(crate) detail: String,
    pub(crate) reason: Reason,
    /// Whether it was refused for what the run was started with.
    pub(crate) repeats: bool,
}

impl JobFailure {
    pub(crate) fn new(detail: String, reason: Reason) -> Self {
        Self { detail, reason, repeats: false }
    }
}

/// A line that a job printed and that is no message of its host's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadMessage {
    /// The line is not a message at all.
    Malformed { line: String, why: String },
    /// The job greeted with a version that this host does not know.
    TooNew { protocol: u32 },
    /// The job said this before it greeted.
    NoGreeting { line: String },
}

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { line, why } => {
                write!(f, "its job printed a line that is no message of dacapo's: `{line}` ({why})")
            }
            Self::TooNew { protocol } => write!(
                f,
                "its job speaks version {protocol} of the messages, and this dacapo knows {PROTOCOL}: two versions of dacapo \
                 are mixed"
            ),
            Self::NoGreeting { line } => {
                write!(f, "its job did not greet: the first line that it printed was `{line}`")
            }
        }
    }
}

/// Reads the lines of one job, in order.
#[derive(Debug, Default)]
pub(crate) struct JobReader {
    has_greeted: bool,
    /// What the job printed that is not a whole line yet.
    rest: Vec<u8>,
}

/// The longest line that a reader keeps: a job that prints without an end may not take all memory.
const LONGEST: usize = 16 * 1024 * 1024;

impl JobReader {
    /// Takes in what the job printed, and says which messages that completes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Result<JobMessage, BadMessage>> {
        self.rest.extend_from_slice(bytes);
        let mut messages = Vec::new();
        let mut from = 0;
        while let Some(end) = self.rest[from..].iter().position(|byte| *byte == b'\n') {
            let line = &self.rest[from..from + end];
            from += end + 1;
            messages.extend(read(line, &mut self.has_greeted));
        }
        self.rest.drain(..from);
        if self.rest.len() > LONGEST {
            messages.push(Err(malformed(&self.rest, "it has no end".to_owned())));
            self.rest.clear();
        }
        messages
    }

    /// The line that the job had begun to print when it ended, as the user may see it.
    pub(crate) fn unfinished(&self) -> Option<String> {
        (!self.rest.is_empty()).then(|| shown(&self.rest))
    }
}

/// The message in a line; nothing if it is a greeting.
fn read(line: &[u8], has_greeted: &mut bool) -> Option<Result<JobMessage, BadMessage>> {
    match serde_json::from_slice(line) {
        Ok(JobMessage::Hello { protocol }) => {
            *has_greeted = true;
            (protocol > PROTOCOL).then_some(Err(BadMessage::TooNew { protocol }))
        }
        Ok(_) if !*has_greeted => Some(Err(BadMessage::NoGreeting { line: shown(line) })),
        Ok(message) => Some(Ok(message)),
        Err(error) => Some(Err(malformed(line, error.to_string()))),
    }
}

fn malformed(line: &[u8], why: String) -> BadMessage {
    BadMessage::Malformed { line: shown(line), why }
}

/// A line as the user may see it: its beginning, and nothing that moves a terminal.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = ansi::readable(&line[..line.len().min(8 * SHOWN)]);
    let text = visible(text.trim());
    match text.char_indices().nth(SHOWN) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// What a job has to do, and everything that it needs to know for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    pub(crate) home: PathBuf,
    pub(crate) scheduler: u32,
    pub(crate) run: RunId,
    /// How the run began, without its list of units.
    pub(crate) started: RunStarted,
    /// The unit, as its files were when the user agreed to its commands.
    pub(crate) unit: UnitFiles,
    pub(crate) job: Job,
    /// Units that come first and whose work is on these branches, where nothing is merged.
    pub(crate) after: Vec<(UnitId, String)>,
    /// Units that this run has merged, and the commit that holds each; for jobs that merge.
    pub(crate) merged: Vec<(UnitFiles, String)>,
    /// How branches were pushed when the run began, if they are to be.
    pub(crate) route: Option<PushRoute>,
    /// The programs of agents that were found before the run began.
    #[serde(default)]
    pub(crate) programs: Programs,
    /// Whether the run has no terminal.
    pub(crate) is_detached: bool,
    /// Whether the user wants to see what agents print.
    pub(crate) is_watched: bool,
}

/// The part of a unit that a job is held to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UnitFiles {
    pub(crate) id: UnitId,
    /// Its folder, from the top of the repository.
    pub(crate) folder: String,
    /// The commands that the user agreed to: file and command line.
    pub(crate) commands: Vec<(String, String)>,
    /// Tasks that were complete in the user's checkout when the run began.
    pub(crate) complete: Vec<u32>,
}

impl From<&Unit> for UnitFiles {
    fn from(unit: &Unit) -> Self {
        let tasks = unit.tasks.iter().map(|task| &task.spec);
        Self {
            id: unit.id.clone(),
            folder: unit.folder.clone(),
            commands: tasks.map(|task| (task.file.clone(), task.backpressure.clone())).collect(),
            complete: unit
                .tasks
                .iter()
                .filter(|task| task.status == TaskStatus::Complete)
                .map(|task| task.spec.number)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<Result<JobMessage, BadMessage>> {
        JobReader::default().take(text.as_bytes())
    }

    fn greeting() -> String {
        format!("{{\"hello\":{{\"protocol\":{PROTOCOL}}}}}\n")
    }

    #[test]
    fn messages_are_lines_of_json_and_survive_any_cut() {
        let messages = [
            JobMessage::LoopWrote,
            JobMessage::Output("{}".to_owned()),
            JobMessage::Event(RunEvent::UnitWarned { text: "two\nlines".to_owned() }),
        ];
        let mut text = greeting();
        for message in &messages {
            text.push_str(&serde_json::to_string(message).unwrap());
            text.push('\n');
        }
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                r#"{"hello":{"protocol":1}}"#,
                r#""loop_wrote""#,
                r#"{"output":"{}"}"#,
                r#"{"event":{"type":"unit.warned","text":"two\nlines"}}"#
            ]
        );
        for cut in 0..text.len() {
            let mut reader = JobReader::default();
            let mut heard = reader.take(&text.as_bytes()[..cut]);
            heard.extend(reader.take(&text.as_bytes()[cut..]));
            assert_eq!(heard, messages.clone().map(Ok), "cut at {cut}");
            assert_eq!(reader.unfinished(), None);
        }
    }

    #[test]
    fn nonsense_is_an_error_that_names_the_line() {
        let long = "x".repeat(10_000);
        for (line, shown) in [
            ("warning: unused variable", "warning: unused variable"),
            ("{}", "{}"),
            ("", ""),
            (r#"{"event":{"type":"unit.exploded"}}"#, r#"{"event":{"type":"unit.exploded"}}"#),
            (r#"{"type":"unit.merging"}"#, r#"{"type":"unit.merging"}"#),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            (&long, &format!("{}…", "x".repeat(SHOWN))),
        ] {
            let heard = said(&format!("{}{line}\n\"loop_wrote\"\n", greeting()));
            let [Err(BadMessage::Malformed { line, .. }), Ok(JobMessage::LoopWrote)] = &heard[..] else {
                panic!("{line:?}: {heard:?}");
            };
            assert_eq!(line, shown);
        }
        let bad = said(&format!("{}oops\n", greeting())).remove(0).unwrap_err().to_string();
        assert!(bad.starts_with("its job printed a line that is no message of dacapo's: `oops` ("), "{bad}");
    }

    #[test]
    fn a_line_without_an_end_is_no_message() {
        let mut reader = JobReader::default();
        assert_eq!(reader.take(format!("{}\"loop_wr", greeting()).as_bytes()), []);
        assert_eq!(reader.unfinished().as_deref(), Some("\"loop_wr"));
    }

    #[test]
    fn a_job_of_a_newer_version_is_refused_and_so_is_one_that_does_not_greet() {
        assert_eq!(
            said("{\"hello\":{\"protocol\":2,\"more\":[]}}\n"),
            [Err(BadMessage::TooNew { protocol: 2 })]
        );
        assert_eq!(
            said("\"loop_wrote\"\n"),
            [Err(BadMessage::NoGreeting { line: "\"loop_wrote\"".to_owned() })]
        );
    }
}
