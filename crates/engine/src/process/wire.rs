//! What a supervisor and its keeper say to each other, byte for byte: a length, a kind, a payload.

use std::{
    ffi::{OsStr, OsString},
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            net::UnixStream,
        },
    },
    path::PathBuf,
};

use dacapo_core::duration::Millis;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::guard::{GuardReport, GuardSpec};

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCommand {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub dir: PathBuf,
    /// The time between asking it to end and killing it.
    pub grace: Millis,
}

/// What a supervisor tells its keeper.
#[derive(Debug)]
pub(crate) enum KeeperOrder {
    /// Enter namespaces; what they hold is told later.
    Enter,
    /// Hold this around everything that is started from now on.
    Guard(GuardSpec),
    /// Start this, with these as standard input, output and error.
    Run(KeptCommand, [OwnedFd; 3]),
    Stop(Millis),
    Suspend,
    Continue,
    /// Let what was stopped go on, and remember what is there: it belongs to a process that stays.
    Wake,
    /// End what was started since the last [`KeeperOrder::Wake`], then stop what stays, so that nothing of it runs.
    Rest(Millis),
}

/// What a keeper tells its supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeeperReport {
    /// It could not be started: the system's error number.
    NotStarted(i32),
    /// It ended, and so did everything it had started.
    Ended(KeptEnd),
    /// What stays runs, and is remembered.
    Awake,
    /// What stays is stopped, and nothing else is left. This many processes had been left behind.
    Rested(u32),
    /// What became of the guard.
    Guarded(GuardReport),
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptEnd {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// How many processes it had left behind.
    pub leftovers: u32,
}

/// No frame is longer: an environment and its arguments fit many times over.
const LONGEST: usize = 64 << 20;

pub(crate) fn send_run(
    socket: &mut UnixStream,
    command: &KeptCommand,
    fds: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    let mut payload = Vec::with_capacity(4096);
    put(&mut payload, command.program.as_os_str());
    put(&mut payload, command.dir.as_os_str());
    payload.extend(command.grace.0.to_le_bytes());
    payload.extend(length(command.args.len()));
    for arg in &command.args {
        put(&mut payload, arg);
    }
    payload.extend(length(command.env.len()));
    for (name, value) in &command.env {
        put(&mut payload, name);
        put(&mut payload, value);
    }
    let header = header(1, payload.len());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = sendmsg(socket.as_fd(), &[IoSlice::new(&header)], &mut ancillary, SendFlags::NOSIGNAL)?;
    socket.write_all(&header[sent..])?;
    socket.write_all(&payload)
}

pub(crate) fn send_guard(socket: &mut UnixStream, spec: &GuardSpec) -> io::Result<()> {
    send(socket, 7, &serde_json::to_vec(spec)?)
}

pub(crate) fn send_enter(socket: &mut UnixStream) -> io::Result<()> {
    send(socket, 8, &[])
}

pub(crate) fn send_stop(socket: &mut UnixStream, grace: Millis) -> io::Result<()> {
    send(socket, 2, &grace.0.to_le_bytes())
}

pub(crate) fn send_suspend(socket: &mut UnixStream) -> io::Result<()> {
    send(socket, 3, &[])
}

pub(crate) fn send_continue(socket: &mut UnixStream) -> io::Result<()> {
    send(socket, 4, &[])
}

pub(crate) fn send_wake(socket: &mut UnixStream) -> io::Result<()> {
    send(socket, 5, &[])
}

pub(crate) fn send_rest(socket: &mut UnixStream, grace: Millis) -> io::Result<()> {
    send(socket, 6, &grace.0.to_le_bytes())
}

pub(crate) fn send_report(socket: &mut UnixStream, report: &KeeperReport) -> io::Result<()> {
    match report {
        KeeperReport::NotStarted(errno) => send(socket, 1, &errno.to_le_bytes()),
        KeeperReport::Ended(end) => {
            let mut payload = Vec::new();
            payload.extend(end.code.unwrap_or(-1).to_le_bytes());
            payload.extend(end.signal.unwrap_or(-1).to_le_bytes());
            payload.extend(end.leftovers.to_le_bytes());
            send(socket, 2, &payload)
        }
        KeeperReport::Awake => send(socket, 3, &[]),
        KeeperReport::Rested(leftovers) => send(socket, 4, &leftovers.to_le_bytes()),
        KeeperReport::Guarded(report) => send(socket, 5, &serde_json::to_vec(report)?),
    }
}

/// The next report; `None` when the keeper is gone.
pub(crate) fn receive_report(socket: &mut UnixStream) -> io::Result<Option<KeeperReport>> {
    let Some((kind, payload, _)) = receive(socket)? else { return Ok(None) };
    let mut rest = Bytes(&payload);
    Ok(Some(match kind {
        1 => KeeperReport::NotStarted(rest.int()?),
        2 => {
            let (code, signal) = (rest.int()?, rest.int()?);
            let some = |n: i32| (n >= 0).then_some(n);
            KeeperReport::Ended(KeptEnd {
                code: some(code),
                signal: some(signal),
                leftovers: rest.length()? as u32,
            })
        }
        3 => KeeperReport::Awake,
        4 => KeeperReport::Rested(rest.length()? as u32),
        5 => KeeperReport::Guarded(serde_json::from_slice(&payload)?),
        _ => return Err(malformed()),
    }))
}

/// The next order; `None` when the supervisor is gone.
pub(crate) fn receive_order(socket: &mut UnixStream) -> io::Result<Option<KeeperOrder>> {
    let Some((kind, payload, fds)) = receive(socket)? else { return Ok(None) };
    let mut rest = Bytes(&payload);
    Ok(Some(match kind {
        1 => {
            let program = rest.text()?.into();
            let dir = rest.text()?.into();
            let grace = Millis(rest.long()?);
            let args = (0..rest.length()?).map(|_| rest.text()).collect::<io::Result<_>>()?;
            let env =
                (0..rest.length()?).map(|_| Ok((rest.text()?, rest.text()?))).collect::<io::Result<_>>()?;
            let fds = fds.try_into().map_err(|_| malformed())?;
            KeeperOrder::Run(KeptCommand { program, args, env, dir, grace }, fds)
        }
        2 => KeeperOrder::Stop(Millis(rest.long()?)),
        3 => KeeperOrder::Suspend,
        4 => KeeperOrder::Continue,
        5 => KeeperOrder::Wake,
        6 => KeeperOrder::Rest(Millis(rest.long()?)),
        7 => KeeperOrder::Guard(serde_json::from_slice(&payload)?),
        8 => KeeperOrder::Enter,
        _ => return Err(malformed()),
    }))
}

fn send(socket: &mut UnixStream, kind: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = header(kind, payload.len()).to_vec();
    frame.extend(payload);
    socket.write_all(&frame)
}

/// A message: its kind, its payload, and what came along with it.
type Received = (u8, Vec<u8>, Vec<OwnedFd>);

fn receive(socket: &mut UnixStream) -> io::Result<Option<Received>> {
    let mut header = [0; 5];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut header)];
    let got = recvmsg(socket.as_fd(), &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let fds = ancillary
        .drain()
        .flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        })
        .collect();
    if got == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut header[got..])?;
    let [a, b, c, d, kind] = header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > LONGEST {
        return Err(malformed());
    }
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload)?;
    Ok(Some((kind, payload, fds)))
}

fn header(kind: u8, payload: usize) -> [u8; 5] {
    let [a, b, c, d] = length(payload);
    [a, b, c, d, kind]
}

fn length(n: usize) -> [u8; 4] {
    u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes()
}

fn put(payload: &mut Vec<u8>, text: &OsStr) {
    payload.extend(length(text.len()));
    payload.extend(text.as_bytes());
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed frame between supervisor and keeper")
}

/// What is left of a payload.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk().ok_or_else(malformed)?;
        self.0 = tail;
        Ok(*head)
    }
    fn int(&mut self) -> io::Result<i32> {
        self.take().map(i32::from_le_bytes)
    }
    fn long(&mut self) -> io::Result<u64> {
        self.take().map(u64::from_le_bytes)
    }
    fn length(&mut self) -> io::Result<usize> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }
    fn text(&mut self) -> io::Result<OsString> {
        let length = self.length()?;
        let (head, tail) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = tail;
        Ok(OsString::from_vec(head.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn orders_and_reports_arrive_as_they_were_sent() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let command = KeptCommand {
            program: "/bin/x".into(),
            args: vec!["".into(), OsString::from_vec(vec![0xff, b'a'])],
            env: vec![("A".into(), "x".repeat(100_000).into())],
            dir: "/".into(),
            grace: Millis(7),
        };
        let null = File::open("/dev/null").unwrap();
        let sent = command.clone();
        let writer = std::thread::spawn(move || {
            send_run(&mut a, &sent, [null.as_fd(), null.as_fd(), null.as_fd()]).unwrap();
            send_stop(&mut a, Millis(5)).unwrap();
            send_wake(&mut a).unwrap();
            send_rest(&mut a, Millis(6)).unwrap();
            a
        });
        let Some(KeeperOrder::Run(got, _)) = receive_order(&mut b).unwrap() else { panic!("not a run") };
        assert_eq!(got, command);
        assert!(matches!(receive_order(&mut b).unwrap(), Some(KeeperOrder::Stop(Millis(5)))));
        assert!(matches!(receive_order(&mut b).unwrap(), Some(KeeperOrder::Wake)));
        assert!(matches!(receive_order(&mut b).unwrap(), Some(KeeperOrder::Rest(Millis(6)))));
        let mut a = writer.join().unwrap();
        for report in [
            KeeperReport::NotStarted(2),
            KeeperReport::Ended(KeptEnd { code: Some(0), signal: None, leftovers: 3 }),
            KeeperReport::Awake,
            KeeperReport::Rested(4),
        ] {
            send_report(&mut b, &report).unwrap();
            assert_eq!(receive_report(&mut a).unwrap(), Some(report));
        }
        drop(b);
        assert_eq!(receive_report(&mut a).unwrap(), None);
    }
}
