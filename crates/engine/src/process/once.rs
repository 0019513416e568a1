//! One command outside of a loop, contained as in one: its end is the end of everything it started.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsFd, OwnedFd},
    time::Instant,
};

use dacapo_core::{
    duration::Millis,
    ids::LoopId,
    judge::expectation::{Expectation, FoundWords, OutputSearch},
    secrets::Redactor,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    pipe::{PipeFlags, pipe_with},
};
use sha2::{Digest, Sha256};

use super::{KeeperLink, KeeperReport, KeptCommand, identity, sweep};
use crate::{guard::Guard, home::Home, secrets::secrets};

/// How much of the end of its output is kept.
const TAIL: usize = 16 * 1024;
/// How much of the end of an answer is kept.
const ANSWER: usize = 1024 * 1024;

/// How a command ended that ran once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// −1 when it timed out, was killed or could not be started.
    pub exit_code: i32,
    /// Why there is no exit code, in words.
    pub failure: Option<String>,
    /// SHA-256 of all it printed.
    pub output_sha256: String,
    pub tail: Vec<u8>,
    /// Whether it printed the words that were expected of it.
    pub found: FoundWords,
}

/// How a command ended that was given something to read, and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// −1 when it timed out, was killed or could not be started.
    pub exit_code: i32,
    /// The signal that ended it, unless that was ours.
    pub signal: Option<i32>,
    /// Why there is no exit code, in words.
    pub failure: Option<String>,
    /// Whether it took too long.
    pub timed_out: bool,
    /// The end of its standard output.
    pub stdout: Vec<u8>,
    /// The end of its standard error.
    pub stderr: Vec<u8>,
}

/// Runs `command` to its end, but no longer than `timeout`; `mark` is a name that no loop has.
pub fn run_once(mark: &LoopId, home: &Home, command: &KeptCommand, timeout: Millis) -> io::Result<Ran> {
    run_expecting(mark, home, None, command, timeout, &Expectation::default())
}

/// The same, with a look for the words that are expected of its output.
pub(crate) fn run_expecting(
    mark: &LoopId,
    home: &Home,
    guard: Option<&Guard>,
    command: &KeptCommand,
    timeout: Millis,
    expect: &Expectation,
) -> io::Result<Ran> {
    run_in(keeper(mark, home, guard)?, command, timeout, expect)
}

/// The same below a keeper that was started for it.
pub(crate) fn run_in(
    mut keeper: KeeperLink,
    command: &KeptCommand,
    timeout: Millis,
    expect: &Expectation,
) -> io::Result<Ran> {
    let (mut output, writer) = OutputReader::new(TAIL)?;
    output.search = OutputSearch::new(expect);
    let stdin = File::open("/dev/null")?;
    keeper.run(command, [stdin.as_fd(), writer.as_fd(), writer.as_fd()])?;
    drop(writer);
    let end = wait(&mut keeper, command.grace, timeout, std::slice::from_mut(&mut output))?;
    Ok(output.ran(end.code, end.failure))
}

/// Runs `command` with `input` to read, then end of file; otherwise as [`run_once`].
pub(crate) fn ask_once(
    mark: &LoopId,
    home: &Home,
    command: &KeptCommand,
    input: &str,
    timeout: Millis,
) -> io::Result<Answered> {
    ask_in(keeper(mark, home, None)?, command, input, timeout)
}

/// The same below a keeper that was started for it.
pub(crate) fn ask_in(
    mut keeper: KeeperLink,
    command: &KeptCommand,
    input: &str,
    timeout: Millis,
) -> io::Result<Answered> {
    let (stdout, out_writer) = OutputReader::new(ANSWER)?;
    let (stderr, err_writer) = OutputReader::new(TAIL)?;
    let mut stdin = File::from(memfd_create("prompt", MemfdFlags::CLOEXEC)?);
    stdin.write_all(input.as_bytes())?;
    stdin.rewind()?;
    keeper.run(command, [stdin.as_fd(), out_writer.as_fd(), err_writer.as_fd()])?;
    drop((out_writer, err_writer));
    let mut outputs = [stdout, stderr];
    let OnceEnd { code, signal, failure, timed_out } =
        wait(&mut keeper, command.grace, timeout, &mut outputs)?;
    let [stdout, stderr] = outputs.map(|output| output.tail);
    Ok(Answered { exit_code: code, signal, failure, timed_out, stdout, stderr })
}

fn keeper(mark: &LoopId, home: &Home, guard: Option<&Guard>) -> io::Result<KeeperLink> {
    match guard {
        Some(guard) => Ok(guard.keeper(home, mark)?.0),
        None => KeeperLink::start(mark, &home.database()),
    }
}

struct OnceEnd {
    code: i32,
    signal: Option<i32>,
    failure: Option<String>,
    timed_out: bool,
}

/// Waits for the end of what runs and reads what it prints meanwhile. If the keeper is killed, what it kept comes to this
/// process, which ends it.
fn wait(
    keeper: &mut KeeperLink,
    grace: Millis,
    timeout: Millis,
    outputs: &mut [OutputReader],
) -> io::Result<OnceEnd> {
    let begun = identity::of(keeper.pid()).start;
    let deadline = Instant::now() + timeout.std();
    let mut timed_out = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() && !timed_out {
            timed_out = true;
            keeper.stop(grace)?;
        }
        let limit = Timespec::try_from(left).ok();
        let Some(socket) = keeper.fd() else { return Err(io::ErrorKind::NotConnected.into()) };
        let mut fds = vec![PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        fds.extend(
            outputs.iter().filter(|output| output.is_open).map(|o| PollFd::new(&o.reader, PollFlags::IN)),
        );
        match poll(&mut fds, if timed_out { None } else { limit.as_ref() }) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let reported = !fds[0].revents().is_empty();
        drop(fds);
        outputs.iter_mut().try_for_each(OutputReader::read)?;
        if !reported {
            continue;
        }
        let ended = keeper.receive()?;
        // All writers are dead, so what the pipes hold now is all there will ever be.
        outputs.iter_mut().try_for_each(OutputReader::read)?;
        let failure = match &ended {
            Some(KeeperReport::NotStarted(errno)) => {
                Some(format!("could not be started: {}", io::Error::from_raw_os_error(*errno)))
            }
            // Nothing was woken here.
            Some(KeeperReport::Awake | KeeperReport::Rested(_) | KeeperReport::Guarded(_)) => continue,
            _ if timed_out => Some(format!("timed out after {timeout}")),
            Some(KeeperReport::Ended(end)) => {
                end.signal.map(|signal| format!("was ended by signal {signal}"))
            }
            None => {
                let older = sweep::children_older_than(begun);
                keeper.sweep_after_loss(&older);
                Some("was ended, because the process that kept it was killed".to_owned())
            }
        };
        let code = match (&ended, &failure) {
            (Some(KeeperReport::Ended(end)), None) => end.code.unwrap_or(-1),
            _ => -1,
        };
        let signal = match &ended {
            Some(KeeperReport::Ended(end)) if !timed_out => end.signal,
            _ => None,
        };
        return Ok(OnceEnd { code, signal, failure, timed_out });
    }
}

struct OutputReader {
    reader: File,
    is_open: bool,
    redactor: Redactor,
    digest: Sha256,
    tail: Vec<u8>,
    kept: usize,
    search: OutputSearch,
}

impl OutputReader {
    /// One of which the last `kept` bytes are kept, and the end to write to.
    fn new(kept: usize) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        let reader = File::from(reader);
        let output = Self {
            reader,
            is_open: true,
            redactor: secrets().redactor(),
            digest: Sha256::new(),
            tail: Vec::new(),
            kept,
            search: OutputSearch::new(&Expectation::default()),
        };
        Ok((output, writer))
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        while self.is_open {
            match self.reader.read(&mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(read) => {
                    self.search.push(&buffer[..read]);
                    // Hashed as the loop's own output was: without its secrets.
                    let shown = self.redactor.push(&buffer[..read]);
                    self.digest.update(shown);
                    self.tail.extend_from_slice(shown);
                    if self.tail.len() > 2 * self.kept {
                        self.tail.drain(..self.tail.len() - self.kept);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn ran(mut self, exit_code: i32, failure: Option<String>) -> Ran {
        let shown = self.redactor.finish();
        self.digest.update(shown);
        self.tail.extend_from_slice(shown);
        let output_sha256 = self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ran { exit_code, failure, output_sha256, tail: self.tail, found: self.search.found() }
    }
}
