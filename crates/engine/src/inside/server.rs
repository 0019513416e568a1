//! The supervisor's end of the socket: connections, who is at their other end, lines in and lines out.
//!
//! Nothing here waits. A process that sends nothing, half a line, far too much or takes no answer costs its connection,
//! never the loop's time.

use std::{
    io::{self, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dacapo_core::ids::LoopId;
use rustix::{
    event::PollFlags,
    fs::{Mode, OFlags},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};

use super::{
    is_below,
    protocol::{self, Ask, AskAnswer, AskRefusal},
};
use crate::home::{Home, make_dir};

/// How many may ask at once; who comes later waits until another has gone.
const CONNECTIONS: usize = 128;
/// How many are let in before the loop's own business is looked at again.
const AT_ONCE: usize = 16;
/// How long a line may be.
const LONGEST_LINE: usize = 8 << 20;
/// How much may be held of lines that are not whole yet, of all connections together.
const HELD: usize = 32 << 20;
/// How long a connection may neither ask nor take its answer.
const IDLE: Duration = Duration::from_secs(10);

/// A connection, for those who answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker(u64);

#[derive(Debug)]
pub(crate) struct ReceivedAsk {
    pub(crate) by: Asker,
    pub(crate) ask: Ask,
    /// The descriptors that came with it.
    pub(crate) fds: Vec<OwnedFd>,
}

/// The socket of one loop's supervisor.
#[derive(Default)]
pub(crate) struct InsideServer {
    path: Option<PathBuf>,
    listener: Option<UnixListener>,
    connections: Vec<Connection>,
    last: u64,
}

struct Connection {
    id: Asker,
    stream: UnixStream,
    input: Vec<u8>,
    fds: Vec<OwnedFd>,
    output: Vec<u8>,
    since: Instant,
    state: ConnectionState,
    is_watching: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// Its next question may come.
    Asks,
    /// It is owed an answer.
    Waits,
    /// It goes as soon as it has its answer.
    Leaves,
    Gone,
}

impl InsideServer {
    /// Listens for what the agents of `loop_id` ask. A machine on which no socket can be made is no reason not to run a
    /// loop: then `dacapo` below its agents says that the supervisor does not listen.
    pub(crate) fn listen(home: &Home, loop_id: &LoopId) -> Self {
        let mut server = Self::default();
        for path in [home.socket(loop_id), elsewhere(loop_id)] {
            if let Ok(listener) = bind(&path) {
                server.path = Some(path);
                server.listener = Some(listener);
                break;
            }
        }
        server
    }

    /// Removes the socket of a supervisor that was killed.
    pub(crate) fn clear(home: &Home, loop_id: &LoopId) {
        let _ = std::fs::remove_file(home.socket(loop_id));
        remove_elsewhere(&elsewhere(loop_id));
    }

    /// What agents find as `DACAPO_SOCKET`.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What to wait on.
    pub(crate) fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let has_room = self.connections.len() < CONNECTIONS;
        let listener = self.listener.iter().filter(move |_| has_room).map(|it| (it.as_fd(), PollFlags::IN));
        listener.chain(self.connections.iter().map(|connection| {
            let flags = match connection.state {
                _ if !connection.output.is_empty() => PollFlags::OUT,
                ConnectionState::Asks => PollFlags::IN,
                // That the other end has gone is told anyway.
                ConnectionState::Waits | ConnectionState::Leaves | ConnectionState::Gone => {
                    PollFlags::empty()
                }
            };
            (connection.stream.as_fd(), flags)
        }))
    }

    /// When the first connection will have been idle for too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let idle = |connection: &&Connection| connection.state != ConnectionState::Waits;
        self.connections.iter().filter(idle).map(|connection| connection.since + IDLE).min()
    }

    /// Lets in who knocks, takes what came, gives what is owed. Only what runs below one of the processes `keepers` is heard.
    pub(crate) fn turn(&mut self, keepers: &[u32]) -> Vec<ReceivedAsk> {
        self.accept(keepers);
        let mut held: usize = self.connections.iter().map(|connection| connection.input.len()).sum();
        let mut asked = Vec::new();
        for connection in &mut self.connections {
            connection.write();
            match connection.state {
                ConnectionState::Asks if connection.output.is_empty() => {
                    asked.extend(connection.read(&mut held))
                }
                ConnectionState::Waits => connection.notice_end(),
                _ => {}
            }
            if connection.state != ConnectionState::Waits && connection.since.elapsed() >= IDLE {
                connection.state = ConnectionState::Gone;
            }
        }
        self.connections.retain(|connection| connection.state != ConnectionState::Gone);
        asked
    }

    /// Answers; `is_last` unless another answer to the same question follows.
    pub(crate) fn answer(&mut self, to: Asker, answer: &AskAnswer, is_last: bool) {
        let Some(connection) = self.connections.iter_mut().find(|connection| connection.id == to) else {
            return;
        };
        connection.output.extend(protocol::line(answer));
        connection.since = Instant::now();
        connection.state = if is_last { ConnectionState::Asks } else { ConnectionState::Waits };
        connection.write();
    }

    /// From now on this connection is told news.
    pub(crate) fn watch(&mut self, by: Asker) {
        self.answer(by, &AskAnswer::Watching, false);
        for connection in self.connections.iter_mut().filter(|connection| connection.id == by) {
            connection.is_watching = true;
        }
    }

    /// Whether a process waits for news.
    pub(crate) fn is_watched(&self) -> bool {
        self.connections.iter().any(|connection| connection.is_watching)
    }

    /// Tells those that watch. Who has not taken the last news yet needs no other.
    pub(crate) fn tell_news(&mut self) {
        for connection in self.connections.iter_mut().filter(|connection| connection.is_watching) {
            if connection.output.is_empty() {
                connection.output.extend(protocol::line(&AskAnswer::News));
                connection.write();
            }
        }
    }

    fn accept(&mut self, keepers: &[u32]) {
        for _ in 0..AT_ONCE {
            if self.connections.len() >= CONNECTIONS {
                return;
            }
            let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.last += 1;
            let mut connection = Connection {
                id: Asker(self.last),
                stream,
                input: Vec::new(),
                fds: Vec::new(),
                output: Vec::new(),
                since: Instant::now(),
                state: ConnectionState::Asks,
                is_watching: false,
            };
            if !connection.is_below(keepers) {
                let refusal = AskRefusal::not_yours(
                    "refused: only what the agent of this loop has started may ask its supervisor",
                );
                connection.output = protocol::line(&AskAnswer::Refused(refusal));
                connection.state = ConnectionState::Leaves;
                connection.write();
            }
            self.connections.push(connection);
        }
    }
}

impl Drop for InsideServer {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
            remove_elsewhere(path);
        }
    }
}

impl Connection {
    /// Whether the process at the other end runs below one of `keepers`: by what the kernel knows, not by what it says.
    fn is_below(&self, keepers: &[u32]) -> bool {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&self.stream) else { return false };
        let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
        peer.uid == rustix::process::geteuid() && keepers.iter().any(|keeper| is_below(pid, *keeper))
    }

    /// Takes what came: at most one read, at most one question.
    fn read(&mut self, held: &mut usize) -> Option<ReceivedAsk> {
        let mut buffer = [0; 64 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let got = match recvmsg(&self.stream, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => message.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return None,
            Err(_) => 0,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
                self.fds.truncate(2);
            }
        }
        if got == 0 {
            self.state = ConnectionState::Gone;
            return None;
        }
        let bytes = buffer.get(..got).unwrap_or_default();
        let end = memchr::memchr(b'\n', bytes);
        *held += got;
        self.input.extend_from_slice(bytes.get(..end.unwrap_or(got)).unwrap_or_default());
        if self.input.len() > LONGEST_LINE || *held > HELD {
            self.refuse(AskRefusal::failed("that is too much to ask"), ConnectionState::Leaves);
            return None;
        }
        // What follows a question belongs to nothing: the answer comes first.
        end?;
        self.since = Instant::now();
        let (line, fds) = (std::mem::take(&mut self.input), std::mem::take(&mut self.fds));
        match protocol::question(&line) {
            Ok(ask) => {
                self.state = ConnectionState::Waits;
                Some(ReceivedAsk { by: self.id, ask, fds })
            }
            Err(refusal) => {
                self.refuse(refusal, ConnectionState::Asks);
                None
            }
        }
    }

    fn refuse(&mut self, refusal: AskRefusal, state: ConnectionState) {
        self.input = Vec::new();
        self.fds.clear();
        self.output.extend(protocol::line(&AskAnswer::Refused(refusal)));
        self.state = state;
        self.write();
    }

    /// Lets a process go that does not wait for its answer any more.
    fn notice_end(&mut self) {
        let mut byte = [0; 1];
        let peeked = rustix::net::recv(&self.stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        // It has gone, or it speaks out of turn: what it says now would be taken for a sign of life for ever.
        if !matches!(peeked, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)) {
            self.state = ConnectionState::Gone;
        }
    }

    fn write(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(0) => break,
                Ok(written) => {
                    self.output.drain(..written);
                    self.since = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.state = ConnectionState::Gone;
                    return;
                }
            }
        }
        if self.output.is_empty() && self.state == ConnectionState::Leaves {
            self.state = ConnectionState::Gone;
        }
    }
}

/// A socket at `path`, however long that is: the kernel takes 107 bytes, so it is given the folder as a descriptor.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    make_dir(folder)?;
    let folder = open_folder(folder)?;
    let short = through(&folder, name);
    // What a supervisor that was killed has left.
    let _ = std::fs::remove_file(&short);
    let listener = UnixListener::bind(&short)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A descriptor of a folder that belongs to this user and that no other user may enter.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&folder)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
        let why = format!("its folder `{}` is not yours alone", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(folder)
}

/// A short path of what `name` is in `folder`.
pub(super) fn through(folder: &OwnedFd, name: &std::ffi::OsStr) -> PathBuf {
    use std::os::fd::AsRawFd;
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
}

/// Where the socket is if the state folder is on a disk that holds none.
fn elsewhere(loop_id: &LoopId) -> PathBuf {
    std::env::temp_dir().join(format!("dacapo-{loop_id}")).join("socket")
}

/// Removes that socket and the folder that was made for it.
fn remove_elsewhere(path: &Path) {
    if path.file_name().is_some_and(|name| name == "socket") {
        let _ = std::fs::remove_file(path);
        let _ = path.parent().map(std::fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// A server that takes every process below the parent of this process for its agent, this process too.
    fn server() -> (tempfile::TempDir, InsideServer, [u32; 1]) {
        let dir = tempfile::tempdir().unwrap();
        let server = InsideServer::listen(&Home::at(dir.path()), &"aaaaaaaaaa".parse().unwrap());
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned();
        (dir, server, [parent])
    }

    fn connect(server: &InsideServer) -> UnixStream {
        UnixStream::connect(server.path().unwrap()).unwrap()
    }

    #[test]
    fn a_question_is_answered_and_the_next_one_too() {
        let (_dir, mut server, keeper) = server();
        let mut stream = connect(&server);
        for _ in 0..2 {
            stream.write_all(b"{\"v\":1,\"ask\":\"family\"}\n").unwrap();
            let asked = server.turn(&keeper);
            assert_eq!(asked.len(), 1);
            server.answer(asked[0].by, &AskAnswer::taken(), true);
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            assert_eq!(line, "{\"v\":1,\"answer\":\"taken\"}\n");
        }
        drop(stream);
        assert!(server.turn(&keeper).is_empty());
        assert!(server.connections.is_empty(), "who has gone is forgotten");
    }

    #[test]
    fn a_process_that_watches_is_told_until_it_goes_and_one_that_does_not_read_is_told_a_bounded_amount() {
        let (_dir, mut server, keeper) = server();
        let mut stream = connect(&server);
        stream.write_all(b"{\"v\":1,\"ask\":\"watch\",\"watched\":\"events\"}\n").unwrap();
        let asked = server.turn(&keeper);
        assert!(!server.is_watched());
        server.watch(asked[0].by);
        assert!(server.is_watched());
        server.tell_news();
        let mut answers = BufReader::new(&stream);
        for expected in ["watching", "news"] {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            assert_eq!(line, format!("{{\"v\":1,\"answer\":\"{expected}\"}}\n"));
        }
        for _ in 0..100_000 {
            server.tell_news();
        }
        assert!(
            server.connections[0].output.len() < 100,
            "news that the client does not read is not heaped up"
        );
        drop(stream);
        server.turn(&keeper);
        assert!(!server.is_watched());
    }

    #[test]
    fn who_waits_and_goes_or_speaks_out_of_turn_is_forgotten() {
        for out_of_turn in [&b""[..], b"more"] {
            let (_dir, mut server, keeper) = server();
            let mut stream = connect(&server);
            stream.write_all(b"{\"v\":1,\"ask\":\"family\"}\n").unwrap();
            let asked = server.turn(&keeper);
            server.answer(asked[0].by, &AskAnswer::Started, false);
            assert_eq!(server.connections.len(), 1);
            assert_eq!(server.deadline(), None, "a child may take as long as it likes");
            stream.write_all(out_of_turn).unwrap();
            drop(stream);
            server.turn(&keeper);
            assert!(server.connections.is_empty(), "or the supervisor would wake up for it for ever");
        }
    }

    #[test]
    fn a_line_without_end_and_a_crowd_have_their_limits() {
        let (_dir, mut server, keeper) = server();
        let mut stream = connect(&server);
        stream.set_nonblocking(true).unwrap();
        let chunk = vec![b'x'; 64 << 10];
        let mut turns = 0;
        while stream.write(&chunk).is_ok_and(|_| true) || turns == 0 || !server.connections.is_empty() {
            assert!(server.turn(&keeper).is_empty());
            turns += 1;
            assert!(turns < 10_000, "it reads without end");
        }
        let crowd: Vec<UnixStream> = (0..CONNECTIONS + 8).map(|_| connect(&server)).collect();
        for _ in 0..CONNECTIONS {
            server.turn(&keeper);
        }
        assert_eq!(server.connections.len(), CONNECTIONS);
        assert_eq!(server.fds().count(), CONNECTIONS, "no further client is let in meanwhile");
        drop(crowd);
        server.turn(&keeper);
        assert!(server.connections.is_empty());
    }

    #[test]
    fn a_path_of_any_length_will_do() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(100)).join("y".repeat(100));
        let home = Home::at(&deep);
        let server = InsideServer::listen(&home, &"aaaaaaaaaa".parse().unwrap());
        let path = home.socket(&"aaaaaaaaaa".parse().unwrap());
        assert_eq!(server.path(), Some(path.as_path()));
        assert!(path.exists());
        drop(server);
        assert!(!path.exists());
    }
}
