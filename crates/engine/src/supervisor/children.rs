//! The processes of child loops that this supervisor has started.
//!
//! They are loops of their own: they are in the journal, have keepers, and survive this supervisor if it is killed. But
//! between its start and its first event a child is known to this supervisor alone. A claim or a cancel has to look here
//! too, or it would overlook a child that is just starting.

use std::{
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::{Child, ExitStatus},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{
    inside::server::Asker,
    process::identity::{Identity, of},
    store::LoopRow,
};

/// Child loops whose processes run.
#[derive(Default)]
pub(super) struct ChildProcesses(Vec<ChildProcess>);

struct ChildProcess {
    process: Child,
    identity: Identity,
    /// Readable when the process has ended.
    end: Option<OwnedFd>,
    /// Who waits for its end.
    asker: Asker,
}

impl ChildProcesses {
    pub(super) fn add(&mut self, process: Child, asker: Asker) {
        let end = Pid::from_raw(process.id().cast_signed())
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.0.push(ChildProcess { identity: of(process.id()), process, end, asker });
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().filter_map(|child| child.end.as_ref().map(AsFd::as_fd))
    }

    /// The children that have ended since the last call: who waits for each, and its exit code.
    pub(super) fn take_ended(&mut self) -> Vec<(Asker, u8)> {
        let mut ended = Vec::new();
        self.0.retain_mut(|child| match child.process.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                ended.push((child.asker, exit_code(status)));
                false
            }
            // The sweep after the loss of a keeper has waited for it already.
            Err(_) => {
                ended.push((child.asker, 1));
                false
            }
        });
        ended
    }

    /// The processes, for those who end everything else.
    pub(super) fn identities(&self) -> Vec<Identity> {
        self.0.iter().map(|child| child.identity.clone()).collect()
    }

    /// Whether one is not among `recorded`, the children that the journal knows.
    pub(super) fn is_one_starting(&mut self, recorded: &[LoopRow]) -> bool {
        self.0.iter_mut().any(|child| child.is_unknown_to(recorded))
    }

    /// Ends those that the journal does not know yet: they have started no agent.
    pub(super) fn end_starting(&mut self, recorded: &[LoopRow]) {
        for child in self.0.iter_mut().filter_map(|child| child.is_unknown_to(recorded).then_some(child)) {
            let _ = child.process.kill();
            let _ = child.process.wait();
        }
    }
}

impl ChildProcess {
    fn is_unknown_to(&mut self, recorded: &[LoopRow]) -> bool {
        matches!(self.process.try_wait(), Ok(None))
            && !recorded.iter().any(|row| row.owner.pid == self.identity.pid)
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(by_signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
