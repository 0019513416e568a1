//! Where jobs run. The scheduler knows only [`JobHost`]; the host of today starts each job as a process on this machine.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::{Child, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    io::Errno,
    pipe::fcntl_setpipe_size,
    process::{Pid, Signal, kill_process},
};

use super::{
    RunError,
    job::JOB,
    message::{BadMessage, HostMessage, JobMessage, JobReader, JobSpec, PROTOCOL},
    orphans,
};
use crate::{
    process::identity::{self, Identity},
    signals::Signals,
};

/// How much of what a job printed on standard error is told when it ends.
const LAST_WORDS: u64 = 4096;

pub(crate) trait JobHost {
    /// Starts a job that does what `spec` says.
    fn start(&mut self, spec: JobSpec) -> io::Result<Box<dyn RunningJob>>;

    /// Kills everything that jobs have started, until nothing of it is left.
    fn kill_leftovers(&mut self);

    /// Waits until nothing is left of what jobs have started, but for the loops of `spared`; after `limit` the rest is
    /// killed.
    fn end_leftovers(&mut self, spared: &[Identity], limit: Duration);
}

/// A job that its host has started.
pub(crate) trait RunningJob {
    /// Becomes readable when the job has said something or has ended.
    fn fd(&self) -> BorrowedFd<'_>;

    /// What the job has said since the last call, in order, without waiting.
    fn read(&mut self) -> JobOutput;

    /// Gives another order to a job that has said that it is idle.
    fn tell(&mut self, _: &HostMessage) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The process that it is, if it is one of this machine.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Passes a signal on to the job.
    fn signal(&self, signal: JobSignal);

    /// Waits until the job has ended, and says how.
    fn finish(self: Box<Self>) -> JobExit;
}

/// What was heard from a job.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct JobOutput {
    pub(crate) messages: Vec<Result<JobMessage, BadMessage>>,
    /// Whether the job will say no more.
    pub(crate) is_over: bool,
}

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JobExit {
    /// Whether it ended before it could end what it had started.
    pub(crate) is_lost: bool,
    /// Its end in words, with the last of what it complained about.
    pub(crate) how: String,
}

/// What a host can do to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobSignal {
    /// Ask it to stop; asked again, it kills what it runs.
    Stop,
    /// End it at once.
    Kill,
    /// Hold it and what it runs.
    Suspend,
    /// Let it go on.
    Continue,
}

/// Waits until a signal arrives, a job says something or ends, or it is time. Everything that runs jobs waits here.
pub(crate) fn wait<'a>(
    signals: &Signals,
    jobs: impl Iterator<Item = &'a dyn RunningJob>,
    deadline: Option<Instant>,
) -> Result<(), RunError> {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    // A wait that is too long for the kernel has no end.
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    let fds = signals.fds().chain(jobs.map(|job| job.fd()));
    let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(RunError::Io { what: "cannot wait for events", source: error.into() }),
    }
}

/// Ctrl-Z: jobs hold what they run and then themselves; so does this process, until the user continues it. Says how long that
/// took.
pub(crate) fn suspend<'a>(jobs: impl Iterator<Item = &'a dyn RunningJob> + Clone) -> Duration {
    jobs.clone().for_each(|job| job.signal(JobSignal::Suspend));
    let since = Instant::now();
    let _ = kill_process(rustix::process::getpid(), Signal::STOP);
    jobs.for_each(|job| job.signal(JobSignal::Continue));
    since.elapsed()
}

/// Starts jobs as processes of this machine, from this very binary.
pub(crate) struct LocalHost {
    program: OsString,
    arguments: Vec<OsString>,
}

impl LocalHost {
    /// The host of this process. What jobs leave behind becomes its own to end.
    pub(crate) fn adopting() -> io::Result<Self> {
        orphans::adopt()?;
        Ok(Self::of("/proc/self/exe".into(), vec![JOB.into()]))
    }

    fn of(program: OsString, arguments: Vec<OsString>) -> Self {
        Self { program, arguments }
    }

    /// Starts a job that is told this.
    pub(crate) fn send(&self, message: &HostMessage) -> io::Result<Box<dyn RunningJob>> {
        Ok(Box::new(self.spawn(&line(message)?)?))
    }

    /// Starts a job that is told this, and more when it is idle.
    pub(crate) fn hire(&self, message: &HostMessage) -> io::Result<Box<dyn RunningJob>> {
        let mut job = self.start(Stdio::piped())?;
        if let Some(orders) = &job.child.stdin {
            // So that an order is written at once, also a long one. Where that is not allowed, it takes a moment longer.
            let _ = fcntl_setpipe_size(orders, 1 << 20);
        }
        job.tell(message)?;
        Ok(Box::new(job))
    }

    /// Starts a process that reads `told` and no more.
    fn spawn(&self, told: &[u8]) -> io::Result<LocalJob> {
        let mut stdin = File::from(memfd_create("job", MemfdFlags::CLOEXEC)?);
        stdin.write_all(told)?;
        stdin.rewind()?;
        self.start(Stdio::from(stdin))
    }

    /// Starts a process in a process group of its own: Ctrl-C is the scheduler's to pass on.
    fn start(&self, stdin: Stdio) -> io::Result<LocalJob> {
        let stderr = File::from(memfd_create("job", MemfdFlags::CLOEXEC)?);
        let mut child = std::process::Command::new(&self.program)
            .arg0("dcp-unit")
            .args(&self.arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::from(stderr.try_clone()?))
            .current_dir("/")
            .process_group(0)
            .env_remove("DACAPO_LOOP") // its loops are children of no loop
            .spawn()?;
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        rustix::io::ioctl_fionbio(&stdout, true)?;
        Ok(LocalJob { child, stdout, stderr, reader: JobReader::default() })
    }
}

fn line(message: &HostMessage) -> io::Result<Vec<u8>> {
    let mut told = serde_json::to_vec(message)?;
    told.push(b'\n');
    Ok(told)
}

impl JobHost for LocalHost {
    fn start(&mut self, spec: JobSpec) -> io::Result<Box<dyn RunningJob>> {
        self.send(&HostMessage::Start { protocol: PROTOCOL, spec: Box::new(spec) })
    }

    fn kill_leftovers(&mut self) {
        orphans::kill_all();
    }

    fn end_leftovers(&mut self, spared: &[Identity], limit: Duration) {
        orphans::end_all(spared, limit);
    }
}

/// A process that works for a unit, a step or tasks.
struct LocalJob {
    child: Child,
    stdout: ChildStdout,
    stderr: File,
    reader: JobReader,
}

impl RunningJob for LocalJob {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stdout.as_fd()
    }

    fn read(&mut self) -> JobOutput {
        let mut messages = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let is_over = loop {
            match self.stdout.read(&mut buffer) {
                Ok(0) => break true,
                Ok(n) => messages.extend(self.reader.take(&buffer[..n])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                Err(_) => break true,
            }
        };
        JobOutput { messages, is_over }
    }

    fn tell(&mut self, message: &HostMessage) -> io::Result<()> {
        let orders = self.child.stdin.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        orders.write_all(&line(message)?)
    }

    fn identity(&self) -> Option<Identity> {
        Some(identity::of(self.child.id()))
    }

    fn signal(&self, signal: JobSignal) {
        let signal = match signal {
            JobSignal::Stop => Signal::INT,
            JobSignal::Kill => Signal::KILL,
            JobSignal::Suspend => Signal::TSTP,
            JobSignal::Continue => Signal::CONT,
        };
        // The child was not waited for yet, so its number is still its own.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    fn finish(mut self: Box<Self>) -> JobExit {
        let (is_lost, mut how) = match self.child.wait() {
            Ok(status) => (!status.success(), status.to_string()),
            Err(error) => (true, error.to_string()),
        };
        if let Some(line) = self.reader.unfinished() {
            how.push_str(&format!(", in the middle of the line `{line}`"));
        }
        let mut words = String::new();
        let length = self.stderr.metadata().map_or(0, |metadata| metadata.len());
        let from = io::SeekFrom::Start(length.saturating_sub(LAST_WORDS));
        let _ = self.stderr.seek(from).and_then(|_| {
            let mut bytes = Vec::new();
            self.stderr.read_to_end(&mut bytes)?;
            words = String::from_utf8_lossy(&bytes).trim().replace('\n', "; ");
            Ok(())
        });
        JobExit { is_lost, how: if words.is_empty() { how } else { format!("{how}: {words}") } }
    }
}

#[cfg(test)]
mod tests {
    use dacapo_core::event::RunEvent;

    use super::*;

    /// Everything that a shell script says as a job, and how it ended.
    fn script(text: &str) -> (Vec<Result<JobMessage, BadMessage>>, JobExit) {
        let host = LocalHost::of("/bin/sh".into(), vec!["-c".into(), text.into()]);
        let mut job: Box<dyn RunningJob> = Box::new(host.spawn(b"told\n").unwrap());
        let mut messages = Vec::new();
        loop {
            poll(&mut [PollFd::from_borrowed_fd(job.fd(), PollFlags::IN)], None).unwrap();
            let heard = job.read();
            messages.extend(heard.messages);
            if heard.is_over {
                return (messages, job.finish());
            }
        }
    }

    #[test]
    fn a_process_is_heard_to_its_last_word() {
        let (messages, exit) = script(
            r#"read -r told; echo '{"hello":{"protocol":1}}'; echo '{"event":{"type":"unit.warned","text":"'$told'"}}'"#,
        );
        let warned = RunEvent::UnitWarned { text: "told".to_owned() };
        assert_eq!(messages, [Ok(JobMessage::Event(warned))]);
        assert_eq!(exit, JobExit { is_lost: false, how: "exit status: 0".to_owned() });
    }

    #[test]
    fn nonsense_on_standard_output_is_heard_as_such() {
        let (messages, exit) = script(
            r#"echo '{"hello":{"protocol":1}}'; echo 'npm WARN deprecated'; printf 'half'; echo why >&2; exit 3"#,
        );
        let [Err(BadMessage::Malformed { line, .. })] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(line, "npm WARN deprecated");
        let how = "exit status: 3, in the middle of the line `half`: why".to_owned();
        assert_eq!(exit, JobExit { is_lost: true, how });
    }
}
