//! Finding and ending every descendant of a process, however it tried to get away.
//!
//! A subreaper is the parent of all orphans below it, so a double fork or a new session does not leave the tree.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::identity::{self, Identity, IsHidden, all_pids, look, stat};

/// What one look found below a process.
pub(crate) struct DescendantScan {
    /// The living descendants, each with its process group.
    pub(crate) processes: Vec<(u32, u32)>,
    /// Whether nothing ended under our eyes. What did may have started another after the list was made, so only then
    /// is an empty list a proof.
    pub(crate) is_certain: bool,
}

impl DescendantScan {
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().map(|(pid, _)| *pid)
    }
}

/// The living descendants of `root`, without those in `spared` and everything below them.
pub(crate) fn descendants(root: u32, spared: &[Identity]) -> DescendantScan {
    let mut children: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
    let mut dead = HashSet::new();
    let mut is_certain = true;
    for pid in all_pids() {
        let stat = match look(pid) {
            Ok(stat) => stat,
            Err(IsHidden(is_hidden)) => {
                is_certain &= is_hidden;
                continue;
            }
        };
        if stat.is_dead() {
            dead.insert(pid);
        }
        if spared.iter().any(|s| s.pid == pid && s.start == stat.start) {
            continue;
        }
        children.entry(stat.parent).or_default().push((pid, stat.group));
    }
    let mut processes = Vec::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        for (child, group) in children.remove(&pid).unwrap_or_default() {
            next.push(child);
            if dead.contains(&child) {
                is_certain = false;
            } else {
                processes.push((child, group));
            }
        }
    }
    DescendantScan { processes, is_certain }
}

/// The children of this process that were started before the moment `start`, in clock ticks since boot.
///
/// What a younger keeper has started is not among them, although its orphans are children of this process too.
pub(crate) fn children_older_than(start: u64) -> Vec<Identity> {
    let own = std::process::id();
    let is_older = |pid: &u32| stat(*pid).is_some_and(|stat| stat.parent == own && stat.start < start);
    all_pids().into_iter().filter(is_older).map(identity::of).collect()
}

/// Waits for dead children that this process has not started: they came from below a keeper, which has a session of its own. The
/// first process of a namespace does not end before all others in it were waited for.
pub(crate) fn reap_orphans() {
    let own = std::process::id();
    let Some(session) = stat(own).map(|stat| stat.session) else { return };
    for pid in all_pids() {
        let is_orphan =
            |stat: identity::Stat| stat.parent == own && stat.is_dead() && stat.session != session;
        if stat(pid).is_some_and(is_orphan) {
            let _ = waitpid(Pid::from_raw(pid.cast_signed()), WaitOptions::NOHANG);
        }
    }
}

/// How long looks that find nothing may stay uncertain: on a machine where processes come and go all the time, no look
/// is ever certain.
pub(crate) const LONG_ENOUGH: Duration = Duration::from_millis(250);

/// Sends `signal` to each; those that are gone already are what was wanted.
pub(crate) fn signal_all(pids: impl IntoIterator<Item = u32>, signal: Signal) {
    for pid in pids.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        let _ = kill_process(pid, signal);
    }
}
