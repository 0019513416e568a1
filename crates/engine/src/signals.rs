//! OS signals as something to wait on: a socket per signal, one byte per arrival.

use std::{
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use dacapo_core::event::StopCause;
use signal_hook::{
    SigId,
    consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGUSR1},
};

use crate::process::proc;

/// Whether nothing in this process listens to signals.
static IS_UNHEARD: AtomicBool = AtomicBool::new(true);

/// A signal that a supervisor answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivedSignal {
    Stop(StopCause),
    Suspend,
    Wake,
}

/// The signals this process listens to, from now until it is dropped.
pub(crate) struct Signals {
    sources: Vec<(ArrivedSignal, UnixStream)>,
    registered: Vec<SigId>,
}

impl Drop for Signals {
    /// A process may run many loops, one after the other.
    fn drop(&mut self) {
        IS_UNHEARD.store(true, Ordering::SeqCst);
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// From now on nothing but SIGKILL ends this process before its work is done.
pub(crate) fn finish_anyway() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Where this fails, the signal ends the process as it always did.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
}

impl Signals {
    /// Starts to listen. A loop without a terminal does not care when one goes away.
    pub(crate) fn listen(ignore_hangup: bool) -> io::Result<Self> {
        let (mut sources, mut registered) = (Vec::new(), Vec::new());
        let ignored = ignored_signals();
        for (signal, arrived) in [
            (SIGINT, ArrivedSignal::Stop(StopCause::Interrupt)),
            (SIGTERM, ArrivedSignal::Stop(StopCause::Terminate)),
            (SIGHUP, ArrivedSignal::Stop(StopCause::Hangup)),
            (SIGTSTP, ArrivedSignal::Suspend),
            (SIGUSR1, ArrivedSignal::Wake),
        ] {
            // A signal that was ignored when we were started, as by `nohup`, stays ignored.
            if ignored & (1 << (signal - 1)) != 0 && signal != SIGUSR1 {
                continue;
            }
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            registered.push(signal_hook::low_level::pipe::register(signal, writer)?);
            if !(ignore_hangup && signal == SIGHUP) {
                sources.push((arrived, reader));
            }
        }
        IS_UNHEARD.store(false, Ordering::SeqCst);
        Ok(Self { sources, registered })
    }

    /// Lets signals do what they do by default whenever nothing listens, also after something did: a process that runs one loop
    /// after the other would otherwise not hear what arrives between two of them.
    pub(crate) fn default_between_loops() -> io::Result<()> {
        let ignored = ignored_signals();
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGTSTP] {
            if ignored & (1 << (signal - 1)) == 0 {
                signal_hook::flag::register_conditional_default(signal, &IS_UNHEARD)?;
            }
        }
        Ok(())
    }

    /// What to wait on.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sources.iter().map(|(_, reader)| reader.as_fd())
    }

    /// Everything that arrived, each as often as it did.
    pub(crate) fn take(&mut self) -> Vec<ArrivedSignal> {
        let mut all = Vec::new();
        for (arrived, reader) in &mut self.sources {
            let mut bytes = [0; 16];
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                all.extend(std::iter::repeat_n(*arrived, n));
            }
        }
        all
    }
}

/// The signals that were ignored when we were started, as a mask.
fn ignored_signals() -> u64 {
    let status = proc::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
