//! One job for one unit, as a process of its own: what it is told, how it is started, what it says.
//!
//! It is the supervisor of the unit's loops, one after the other. It dies with its scheduler, and the loops' keepers see
//! to it that agents die with it.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Child, ChildStdout, ExitCode, Stdio},
};

use dacapo_core::{
    event::{Envelope, Reason, RunEvent, RunStarted, UnitEnd},
    ids::{LoopId, RunId, UnitId},
    unit::{TaskStatus, Unit, schedule::Job},
    view::LoopView,
};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Pid, Signal, kill_process},
};
use serde::{Deserialize, Serialize};

use super::{train, work::Worker};
use crate::{observer::Observer, repository::Route, store::Stream, supervisor::StartError};

/// The word after which `dacapo` is a job.
pub const JOB: &str = "unit-job";
/// The longest line of an agent that is passed on.
const LONGEST_LINE: usize = 64 * 1024;
/// How much of a job's last words is kept.
const LAST_WORDS: u64 = 4096;

/// What a job is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct JobSpec {
    /// Where state lies.
    pub(super) home: PathBuf,
    /// The scheduler's process.
    pub(super) scheduler: u32,
    /// The run.
    pub(super) run: RunId,
    /// How that began.
    pub(super) started: RunStarted,
    /// The unit, as its files were when consent was given.
    pub(super) unit: UnitFiles,
    /// What to do.
    pub(super) job: Job,
    /// Units that come first and whose work is on these branches, where nothing is merged.
    pub(super) after: Vec<(UnitId, String)>,
    /// Units that this run has merged, and the commit that holds each; for jobs that merge.
    pub(super) merged: Vec<(UnitFiles, String)>,
    /// How branches were pushed when the run began, if they are to be.
    pub(super) route: Option<Route>,
    /// Whether nobody is at a terminal.
    pub(super) is_detached: bool,
    /// Whether somebody wants to see what agents print.
    pub(super) is_watched: bool,
}

/// The part of a unit that a job is held to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct UnitFiles {
    /// Its name.
    pub(super) id: UnitId,
    /// Its folder, from the top of the repository.
    pub(super) folder: String,
    /// The commands that the user agreed to: file and command line.
    pub(super) commands: Vec<(String, String)>,
    /// Tasks that were complete in the user's checkout when the run began.
    pub(super) complete: Vec<u32>,
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

/// A running job, as its scheduler holds it.
pub(super) struct JobLink {
    pub(super) unit: UnitId,
    child: Child,
    stdout: ChildStdout,
    stderr: File,
    /// What it printed that is not a whole line yet.
    rest: Vec<u8>,
}

/// What came from a job.
pub(super) enum Said {
    /// Something to record.
    Event(RunEvent),
    /// A line that its agent printed.
    Output(String),
    /// Its loops have written something.
    Look,
}

/// A line of an agent on its way to whoever watches.
#[derive(Serialize, Deserialize)]
struct Printed {
    output: String,
}

impl JobLink {
    /// Starts a job from this very binary, in a process group of its own: Ctrl-C is the scheduler's to pass on.
    pub(super) fn start(spec: &JobSpec) -> io::Result<Self> {
        let mut told = File::from(memfd_create("job", MemfdFlags::CLOEXEC)?);
        told.write_all(&serde_json::to_vec(spec)?)?;
        told.rewind()?;
        let stderr = File::from(memfd_create("job", MemfdFlags::CLOEXEC)?);
        let mut child = std::process::Command::new("/proc/self/exe")
            .arg0("dcp-unit")
            .arg(JOB)
            .stdin(Stdio::from(told))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(stderr.try_clone()?))
            .current_dir("/")
            .process_group(0)
            .env_remove("DACAPO_LOOP") // its loops are nobody's children
            .spawn()?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        Ok(Self { unit: spec.unit.id.clone(), child, stdout, stderr, rest: Vec::new() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stdout.as_fd()
    }

    /// What it has said since; `None` when it will say no more.
    pub(super) fn read(&mut self) -> Option<Vec<Said>> {
        let mut said = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stdout.read(&mut buffer) {
                Ok(0) => return if said.is_empty() { None } else { Some(said) },
                Ok(n) => self.rest.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(said),
                Err(_) => return None,
            }
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                said.push(match (serde_json::from_slice(&line), serde_json::from_slice(&line)) {
                    (Ok(event), _) => Said::Event(event),
                    (_, Ok(Printed { output })) => Said::Output(output),
                    _ => Said::Look,
                });
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        // Not waited for yet, so the number is still its own.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Whether it ended before its time, and its end in words, with the last of what it complained about.
    pub(super) fn finish(mut self) -> (bool, String) {
        let (is_lost, how) = match self.child.wait() {
            Ok(status) => (!status.success(), status.to_string()),
            Err(error) => (true, error.to_string()),
        };
        let mut words = String::new();
        let length = self.stderr.metadata().map_or(0, |metadata| metadata.len());
        let from = io::SeekFrom::Start(length.saturating_sub(LAST_WORDS));
        let _ = self.stderr.seek(from).and_then(|_| {
            let mut bytes = Vec::new();
            self.stderr.read_to_end(&mut bytes)?;
            words = String::from_utf8_lossy(&bytes).trim().replace('\n', "; ");
            Ok(())
        });
        (is_lost, if words.is_empty() { how } else { format!("{how}: {words}") })
    }
}

/// What a job says to its scheduler.
pub(super) struct Voice {
    out: io::Stdout,
    is_watched: bool,
    /// What an agent printed that is not a whole line yet.
    rest: Vec<u8>,
    /// The newest loop, if it came to no good end.
    failed: Option<LoopId>,
}

impl Voice {
    /// A fact for the run's stream.
    pub(super) fn tell(&mut self, event: &RunEvent) {
        if let Ok(line) = serde_json::to_string(event) {
            self.line(&line);
        }
    }

    /// A scheduler that is gone hears nothing, and the job is about to go too.
    fn line(&mut self, line: &str) {
        let mut stdout = self.out.lock();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}

impl Observer for Voice {
    fn event(&mut self, envelope: &Envelope, view: &LoopView) {
        let is_bad = view.reason.is_some_and(|reason| reason != Reason::Done);
        self.failed = is_bad.then(|| envelope.loop_id.clone());
        self.line("{}");
    }

    fn output(&mut self, _: Stream, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let output = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
            if let Ok(line) = serde_json::to_string(&Printed { output }) {
                self.line(&line);
            }
        }
        // A line without an end is not worth the memory.
        self.rest.truncate(LONGEST_LINE);
    }

    fn sees_output(&self) -> bool {
        self.is_watched
    }
}

/// The life of a job: `dacapo unit-job`, which only dacapo itself calls.
pub fn main() -> ExitCode {
    // Whatever ends the scheduler ends its jobs.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let mut text = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut text);
    let spec: JobSpec = match read.map_err(serde_json::Error::io).and_then(|_| serde_json::from_slice(&text))
    {
        Ok(spec) => spec,
        Err(_) => return ExitCode::from(2),
    };
    // It may have died before it was asked for.
    if rustix::process::getppid()
        .is_none_or(|parent| parent.as_raw_nonzero().get().cast_unsigned() != spec.scheduler)
    {
        return ExitCode::from(5);
    }
    let mut voice = Voice { out: io::stdout(), is_watched: spec.is_watched, rest: Vec::new(), failed: None };
    let job = spec.job.clone();
    let done = Worker::new(spec, &mut voice).and_then(|mut worker| match job {
        Job::Work { back } => worker.work(back),
        Job::Merge => train::merge(&mut worker),
        Job::Publish => train::publish(&mut worker),
    });
    if let Err(JobEnd(reason, detail)) = done {
        let loop_id = voice.failed.take();
        voice.tell(&RunEvent::UnitFailed { reason, detail, loop_id });
    }
    ExitCode::SUCCESS
}
