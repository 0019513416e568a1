//! What a dacapo that died left running, found by the marker in its environment; and its keeper, if that still works.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use dacapo_core::ids::LoopId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{
    identity::{self, Stat, all_pids, stat},
    keeper::KEEPER,
};

/// How long a killed process may take to be gone, and a tree of them to stop growing.
const LONGEST: Duration = Duration::from_secs(10);

/// Time without a find after which processes that come and go are taken for those of another user.
const ENOUGH: Duration = Duration::from_millis(300);

/// The variable by which the processes of checks are found, which know nothing of dacapo otherwise.
pub(crate) const CHECK_MARK: &str = "CHECK_ID";

/// What that variable holds.
pub(crate) fn check_mark(loop_id: &LoopId, home: &Path) -> OsString {
    let mut mark = OsString::from(format!("{loop_id}:"));
    mark.push(home);
    mark
}

/// The state folder of the loop whose check this process belongs to, as far as the environment says so.
pub(crate) fn home_of_check() -> Option<PathBuf> {
    let mark = std::env::var_os(CHECK_MARK)?;
    let at = mark.as_bytes().iter().position(|byte| *byte == b':')?;
    let home = PathBuf::from(OsStr::from_bytes(&mark.as_bytes()[at + 1..]));
    home.is_absolute().then_some(home)
}

/// Whether this process belongs to a check of this loop, as far as the environment says so.
pub(crate) fn is_check_of(loop_id: &LoopId, home: &Path) -> bool {
    std::env::var_os(CHECK_MARK).is_some_and(|mark| mark == check_mark(loop_id, home))
}

/// Kills every process that carries the mark of `loop_id` and returns when all are gone.
pub fn end(loop_id: &LoopId, home: &Path) -> io::Result<()> {
    let marks = [
        format!("DACAPO_LOOP={loop_id}").into_bytes(),
        [b"DACAPO_HOME=", home.as_os_str().as_bytes()].concat(),
        [CHECK_MARK.as_bytes(), b"=", check_mark(loop_id, home).as_bytes()].concat(),
    ];
    let deadline = Instant::now() + LONGEST;
    let mut strangers = HashSet::new();
    let (mut unclear_before, mut last_find) = (None, Instant::now());
    loop {
        let Pass { killed, unclear, in_exec } = pass(&marks, &mut strangers)?;
        for process in &killed {
            wait_for(process, LONGEST)?;
        }
        if killed.is_empty() {
            // A process that ended during the pass may have started another one that the pass missed.
            let is_settled = !in_exec && unclear_before.is_some_and(|before| unclear.is_subset(&before));
            if is_settled || last_find.elapsed() >= ENOUGH {
                return Ok(());
            }
        } else if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        } else {
            last_find = Instant::now();
        }
        unclear_before = Some(unclear);
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
    /// Processes of the loop that were killed in this pass.
    killed: Vec<OwnedFd>,
    /// Processes that were gone when they were looked at, or had no environment.
    unclear: HashSet<u32>,
    /// Whether a process was in the middle of `exec` and will have an environment in a moment.
    in_exec: bool,
}

/// Looks at all processes but the `strangers` of the passes before, the newest first: a process that starts others and
/// ends at once must be met while it is there.
fn pass(marks: &[Vec<u8>; 3], strangers: &mut HashSet<u32>) -> io::Result<Pass> {
    let mut pass = Pass { killed: Vec::new(), unclear: HashSet::new(), in_exec: false };
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
            pass.unclear.insert(pid);
            continue;
        };
        match owner(pid, stat, marks) {
            Owner::Unclear => {
                pass.unclear.insert(pid);
                continue;
            }
            Owner::InExec => {
                pass.in_exec = true;
                continue;
            }
            Owner::Ours => {}
            Owner::Foreign => {
                strangers.insert(pid);
                continue;
            }
        }
        // At once: the longer it lives, the more it can start.
        match pidfd_send_signal(&pinned, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => pass.killed.push(pinned),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pass)
}

/// Whose a process is, by its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Ours,
    /// Another user's process, the kernel's, or one that runs without the marks and will never have them.
    Foreign,
    /// Between two programs it has no environment, and a moment later it may have the marks.
    InExec,
    /// It is ending, or has no environment at all.
    Unclear,
}

fn owner(pid: u32, stat: Stat, marks: &[Vec<u8>]) -> Owner {
    if stat.is_kernels() {
        return Owner::Foreign;
    }
    let environment = match fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) => environment,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Owner::Foreign,
        Err(_) => return Owner::Unclear,
    };
    if environment.is_empty() {
        // Asked afterwards: it may have begun since.
        let is_in_exec = identity::stat(pid).is_some_and(|now| now.is_in_exec() && !now.is_dead());
        return if is_in_exec { Owner::InExec } else { Owner::Unclear };
    }
    let holds = |mark: &Vec<u8>| environment.split(|b| *b == 0).any(|entry| entry == mark);
    let (of_agents, of_checks) = marks.split_at(marks.len().min(2));
    let is_marked = of_agents.iter().all(holds) || of_checks.iter().any(holds);
    if is_marked { Owner::Ours } else { Owner::Foreign }
}

fn handle(pid: Pid) -> rustix::io::Result<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty())
}

fn wait_for(process: &OwnedFd, longest: Duration) -> io::Result<()> {
    let limit = Timespec::try_from(longest).ok();
    match poll(&mut [PollFd::new(process, PollFlags::IN)], limit.as_ref()) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_is_just_starting_is_nobody_elses() {
        // faults F12, F14: between two programs it has no environment, which says nothing about whose it is.
        let marks = [b"DACAPO_LOOP=t".to_vec()];
        for _ in 0..500 {
            let mut command = Command::new("/bin/cat");
            command.env_clear().env("DACAPO_LOOP", "t").stdin(Stdio::piped());
            // Returns as soon as the old program is left, often before the new one is there.
            let mut child = command.spawn().expect("cat");
            let mut seen = Vec::new();
            while seen.last() != Some(&Owner::Ours) {
                let stat = stat(child.id()).expect("it waits for its input");
                seen.push(owner(child.id(), stat, &marks));
                assert!(!seen.contains(&Owner::Foreign), "{seen:?}");
            }
            drop(child.stdin.take());
            child.wait().expect("it ends with its input");
        }
    }
}
