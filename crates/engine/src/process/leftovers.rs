//! What a dacapo that died left running, found by the marker in its environment; and its keeper, if that still works.

use std::{
    collections::HashSet,
    fs, io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    time::{Duration, Instant},
};

use dacapo_core::ids::LoopId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{
    identity::{Identity, all_pids, stat},
    keeper::KEEPER,
};

/// How long a killed process may take to be gone, and a tree of them to stop growing.
const LONGEST: Duration = Duration::from_secs(10);

/// Time without a find after which processes that come and go are taken for somebody else's.
const ENOUGH: Duration = Duration::from_millis(300);

/// Kills every process that carries the mark of `loop_id`, without `spared`, and returns when all are gone.
pub fn end(loop_id: &LoopId, home: &Path, spared: &[Identity]) -> io::Result<()> {
    let marks = [
        format!("DACAPO_LOOP={loop_id}").into_bytes(),
        [b"DACAPO_HOME=", home.as_os_str().as_bytes()].concat(),
    ];
    let deadline = Instant::now() + LONGEST;
    let mut strangers = HashSet::new();
    let (mut gone_before, mut last_find) = (None, Instant::now());
    loop {
        let Pass { killed, gone } = pass(&marks, spared, &mut strangers)?;
        for process in &killed {
            wait_for(process, LONGEST)?;
        }
        if killed.is_empty() {
            // One that ended while we looked may have started another behind our back: look again.
            if last_find.elapsed() >= ENOUGH || gone_before.is_some_and(|before| gone.is_subset(&before)) {
                return Ok(());
            }
        } else if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        } else {
            last_find = Instant::now();
        }
        gone_before = Some(gone);
    }
}

/// Waits until the keepers of `loop_id` have ended what they keep, which for some `grace` they only ask to end.
pub fn await_keepers(loop_id: &LoopId, database: &Path, grace: Duration) -> io::Result<()> {
    let wanted = [KEEPER.as_bytes(), loop_id.as_str().as_bytes(), database.as_os_str().as_bytes()];
    for pid in all_pids() {
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        if line.split(|b| *b == 0).skip(1).take(3).ne(wanted) {
            continue;
        }
        if let Some(keeper) = Pid::from_raw(pid.cast_signed()).and_then(|pid| handle(pid).ok()) {
            wait_for(&keeper, grace + LONGEST)?;
        }
    }
    Ok(())
}

/// One look at all processes.
struct Pass {
    /// Ours, and dead or dying.
    killed: Vec<OwnedFd>,
    /// Those that were gone when it was their turn.
    gone: HashSet<u32>,
}

/// Looks at everybody but the `strangers` of looks before, the newest first: what starts others and ends at once must
/// be met while it is there.
fn pass(marks: &[Vec<u8>; 2], spared: &[Identity], strangers: &mut HashSet<u32>) -> io::Result<Pass> {
    let mut pass = Pass { killed: Vec::new(), gone: HashSet::new() };
    let own = std::process::id();
    let mut pids = all_pids();
    pids.sort_unstable_by(|a, b| b.cmp(a));
    pids.retain(|pid| *pid != own && !strangers.contains(pid));
    for pid in pids {
        let Some(os_pid) = Pid::from_raw(pid.cast_signed()) else { continue };
        // The handle pins the process; only then is what its files say conclusive.
        let pinned = handle(os_pid);
        let stat = stat(pid).filter(|stat| !stat.is_dead());
        let (Ok(pinned), Some(stat)) = (pinned, stat) else {
            pass.gone.insert(pid);
            continue;
        };
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            strangers.insert(pid);
            continue;
        };
        let is_marked = marks.iter().all(|mark| environment.split(|b| *b == 0).any(|entry| entry == mark));
        if !is_marked || spared.iter().any(|s| s.pid == pid && s.start == stat.start) {
            strangers.insert(pid);
            continue;
        }
        // At once: the longer it lives, the more it can start.
        match pidfd_send_signal(&pinned, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => pass.killed.push(pinned),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pass)
}

fn handle(pid: Pid) -> rustix::io::Result<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty())
}

fn wait_for(process: &OwnedFd, longest: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: longest.as_secs().cast_signed(), tv_nsec: longest.subsec_nanos().into() };
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
