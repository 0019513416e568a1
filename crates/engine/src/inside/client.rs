//! The other end of the socket: `dacapo` below an agent.

use std::{
    io::{self, BufRead, BufReader, IoSlice, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use dacapo_core::ids::LoopId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg},
};

use super::{
    SOCKET,
    protocol::{self, Ask, AskAnswer, AskRefusal, StartChild, Watched},
    server::{open_folder, through},
};
use crate::process::keeper;

/// The supervisor of the loop in whose agent this process runs.
#[derive(Clone, Debug)]
pub struct Inside {
    loop_id: Option<LoopId>,
    socket: PathBuf,
}

/// Why a supervisor did not answer, or not as hoped.
#[derive(Debug, thiserror::Error)]
pub enum InsideError {
    /// Below an agent, without the variable that says where to ask.
    #[error(
        "this runs inside loop {0}, where dacapo asks the loop's supervisor, and {SOCKET} does not say where"
    )]
    NoSocket(LoopId),
    #[error("cannot ask the supervisor of the loop this runs in: {SOCKET} names `{}`: {source}", path.display())]
    NobodyThere { path: PathBuf, source: io::Error },
    /// It stopped in the middle, or answered something else.
    #[error("the supervisor of the loop this runs in did not answer: {0}")]
    NoAnswer(String),
    #[error("{}", .0.why)]
    Refused(AskRefusal),
}

impl Inside {
    /// The supervisor that `place` names.
    pub fn new(loop_id: Option<LoopId>, socket: Option<PathBuf>) -> Result<Self, InsideError> {
        match (loop_id, socket) {
            (loop_id, Some(socket)) => Ok(Self { loop_id, socket }),
            (Some(loop_id), None) => Err(InsideError::NoSocket(loop_id)),
            (None, None) => Err(InsideError::NoAnswer("nothing says where it is".to_owned())),
        }
    }

    /// The loop this runs in, if its keeper was seen.
    pub fn loop_id(&self) -> Option<&LoopId> {
        self.loop_id.as_ref()
    }

    /// Where the supervisor listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks, and waits for the answer.
    pub fn ask(&self, ask: &Ask) -> Result<AskAnswer, InsideError> {
        let mut stream = self.connect()?;
        // A supervisor that refuses this process answers without waiting for a question.
        let _ = stream.write_all(&protocol::line(ask));
        receive(&mut BufReader::new(stream))
    }

    /// Starts a child loop with these as its standard output and standard error.
    pub fn start(&self, asked: StartChild, fds: [BorrowedFd<'_>; 2]) -> Result<ChildRun, InsideError> {
        let stream = self.connect()?;
        let line = protocol::line(&Ask::Start(asked));
        let _ = send_with(&stream, &line, &fds);
        let mut answers = BufReader::new(stream);
        match receive(&mut answers)? {
            // From here on the keeper need not wait for this process (see `keeper`): the child is on its way.
            AskAnswer::Started => {
                let _ = rustix::thread::set_name(keeper::ASKED);
                Ok(ChildRun { answers })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Watches something until the value that this gives is dropped.
    pub fn watch(&self, watched: Watched) -> Result<SupervisorNews, InsideError> {
        let mut stream = self.connect()?;
        let _ = stream.write_all(&protocol::line(&Ask::Watch(watched)));
        let mut answers = BufReader::new(&stream);
        match receive(&mut answers)? {
            AskAnswer::Watching => {}
            other => return Err(unexpected(&other)),
        }
        let has_news = !answers.buffer().is_empty();
        Ok(SupervisorNews { stream, has_news })
    }

    fn connect(&self) -> Result<UnixStream, InsideError> {
        let there = |source| InsideError::NobodyThere { path: self.socket.clone(), source };
        let (Some(folder), Some(name)) = (self.socket.parent(), self.socket.file_name()) else {
            return Err(there(io::ErrorKind::InvalidInput.into()));
        };
        let folder = open_folder(folder).map_err(there)?;
        UnixStream::connect(through(&folder, name)).map_err(there)
    }
}

/// A child loop that a supervisor has started.
#[derive(Debug)]
pub struct ChildRun {
    answers: BufReader<UnixStream>,
}

impl ChildRun {
    /// Waits until the child's process has ended; gives its exit code.
    pub fn wait(mut self) -> Result<u8, InsideError> {
        match receive(&mut self.answers)? {
            AskAnswer::Exited { code } => Ok(code),
            other => Err(unexpected(&other)),
        }
    }
}

/// Word from the supervisor that it is worth asking again.
#[derive(Debug)]
pub struct SupervisorNews {
    stream: UnixStream,
    /// Whether there was some already when it began.
    has_news: bool,
}

impl SupervisorNews {
    /// Waits for news, at most for `longest`.
    pub fn wait(&mut self, longest: Duration) -> Result<(), InsideError> {
        if std::mem::take(&mut self.has_news) {
            return Ok(());
        }
        let limit = Timespec::try_from(longest).ok();
        let failed = |error: rustix::io::Errno| InsideError::NoAnswer(error.to_string());
        match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
        // However much there is of it, it says one thing.
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.stream, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(InsideError::NoAnswer("it has ended".to_owned())),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// An answer that does not fit the question.
pub(crate) fn unexpected(answer: &AskAnswer) -> InsideError {
    InsideError::NoAnswer(format!("it answered something else: {answer:?}"))
}

fn receive(answers: &mut impl BufRead) -> Result<AskAnswer, InsideError> {
    let mut line = Vec::new();
    let read = answers.read_until(b'\n', &mut line);
    match read {
        Ok(_) if line.ends_with(b"\n") => {}
        Ok(_) => return Err(InsideError::NoAnswer("it has ended".to_owned())),
        Err(error) => return Err(InsideError::NoAnswer(error.to_string())),
    }
    match protocol::answer(&line) {
        Ok(AskAnswer::Refused(refusal)) => Err(InsideError::Refused(refusal)),
        Ok(answer) => Ok(answer),
        Err(error) => Err(InsideError::NoAnswer(error.to_string())),
    }
}

/// Sends `bytes`, and the descriptors with the first of them.
fn send_with(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    let sent = sendmsg(stream.as_fd(), &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut rest: &UnixStream = stream;
    rest.write_all(bytes.get(sent..).unwrap_or_default())
}
