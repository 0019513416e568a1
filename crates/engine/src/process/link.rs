//! The supervisor's end of its keeper.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use dacapo_core::{duration::Millis, ids::LoopId};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::{identity::Identity, keeper::KEEPER, sweep, wire};
use crate::{
    guard::{GuardReport, GuardSpec, HeldNames},
    inside::file_of,
    notify,
};

/// A running keeper. Dropping it ends everything it keeps.
pub struct KeeperLink {
    socket: Option<UnixStream>,
    keeper: Child,
    /// Names that must not appear while it keeps something.
    held: HeldNames,
}

impl KeeperLink {
    /// Starts the keeper of `loop_id` from this very binary.
    pub fn start(loop_id: &LoopId, database: &Path) -> io::Result<Self> {
        // The keys of providers are in this process's environment: neither an agent nor a gate may look at it.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        // If the keeper is killed, its orphans come to us instead of getting away.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let (ours, theirs) = UnixStream::pair()?;
        let keeper = std::process::Command::new("/proc/self/exe")
            .arg0("dcp-keeper")
            .arg(KEEPER)
            .arg(loop_id.as_str())
            .arg(database)
            .arg(file_of(database).unwrap_or_default())
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // Neither the marks of agents' processes nor the keys of providers are for it; the system may need to find its libraries.
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LD_")))
            .spawn()?;
        Ok(Self { socket: Some(ours), keeper, held: HeldNames::default() })
    }

    /// Lets the keeper enter namespaces while it is found out what they must hold.
    pub(crate) fn enter_namespaces(&mut self) -> io::Result<()> {
        wire::send_enter(self.socket()?)
    }

    /// Has the keeper hold `spec` around all that it starts, and waits for its answer, after doing something else `meanwhile`.
    pub(crate) fn guard(&mut self, spec: &GuardSpec, meanwhile: impl FnOnce()) -> io::Result<GuardReport> {
        wire::send_guard(self.socket()?, spec)?;
        meanwhile();
        match wire::receive_report(self.socket()?)? {
            Some(wire::KeeperReport::Guarded(report)) => Ok(report),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Holds these names for as long as it keeps something.
    pub(crate) fn hold(&mut self, names: HeldNames) {
        self.held = names;
    }

    pub fn pid(&self) -> u32 {
        self.keeper.id()
    }

    /// Starts `command` with these as standard input, output and error.
    pub fn run(&mut self, command: &wire::KeptCommand, fds: [BorrowedFd<'_>; 3]) -> io::Result<()> {
        wire::send_run(self.socket()?, command, fds)
    }

    pub fn stop(&mut self, grace: Millis) -> io::Result<()> {
        wire::send_stop(self.socket()?, grace)
    }

    pub fn suspend(&mut self) -> io::Result<()> {
        wire::send_suspend(self.socket()?)
    }

    /// Lets it go on.
    pub fn resume(&mut self) -> io::Result<()> {
        wire::send_continue(self.socket()?)
    }

    /// Lets what was stopped go on, and has the keeper remember what is there.
    pub fn wake(&mut self) -> io::Result<()> {
        wire::send_wake(self.socket()?)
    }

    /// Ends what was started since it was woken, and stops what stays.
    pub fn rest(&mut self, grace: Millis) -> io::Result<()> {
        wire::send_rest(self.socket()?, grace)
    }

    /// The next report; `None` when the keeper is gone. Blocks unless the descriptor is readable.
    pub(crate) fn receive(&mut self) -> io::Result<Option<wire::KeeperReport>> {
        wire::receive_report(self.socket()?)
    }

    /// The descriptor to wait on.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Ends what a keeper that was itself killed has left to us, but for the child loops in `spared`.
    pub fn sweep_after_loss(&mut self, spared: &[Identity]) {
        self.socket = None;
        let _ = self.keeper.wait();
        let mut last_seen = Instant::now();
        let spared: Vec<Identity> = spared.iter().cloned().chain(notify::senders()).collect();
        loop {
            loop {
                match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
                    Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                    Ok(None) => break,
                    // No child at all.
                    Err(_) => return,
                }
            }
            let below = sweep::descendants(std::process::id(), &spared);
            if !below.processes.is_empty() {
                last_seen = Instant::now();
            } else if below.is_certain || last_seen.elapsed() >= sweep::LONG_ENOUGH {
                return;
            }
            sweep::signal_all(below.pids(), rustix::process::Signal::KILL);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn socket(&mut self) -> io::Result<&mut UnixStream> {
        self.socket.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for KeeperLink {
    fn drop(&mut self) {
        self.socket = None;
        // It ends when all it keeps has ended: only then may the supervisor go.
        let _ = self.keeper.wait();
    }
}
