//! What a job that was killed leaves behind. It cannot end what it started, and its keeper would give that all its time
//! first; so a run does, and is not over before nothing of it is left.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    notify,
    process::{
        identity::Identity,
        sweep::{LONG_ENOUGH, descendants, reap_orphans, signal_all},
    },
};

/// How soon to look again.
const AGAIN: Duration = Duration::from_millis(5);
/// How long something may be there that not even SIGKILL ends.
const UNKILLABLE: Duration = Duration::from_secs(10);

/// From now on the orphans of our jobs are ours.
pub(super) fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Kills all that this process has started, and what that has started, until none of it is left.
pub(super) fn kill_all() {
    end_all(&[], Duration::ZERO);
}

/// Waits until nothing is left of it but the loops in `spared` and what sends notifications; after `limit` it is killed.
pub(super) fn end_all(spared: &[Identity], limit: Duration) {
    let begun = Instant::now();
    let mut last_seen = begun;
    let spared: Vec<Identity> = spared.iter().cloned().chain(notify::senders()).collect();
    loop {
        reap_orphans();
        let below = descendants(std::process::id(), &spared);
        if !below.processes.is_empty() {
            last_seen = Instant::now();
        } else if below.is_certain || last_seen.elapsed() >= LONG_ENOUGH {
            return;
        }
        if begun.elapsed() >= limit {
            signal_all(below.pids(), Signal::KILL);
        }
        if begun.elapsed() >= limit + UNKILLABLE {
            return;
        }
        thread::sleep(AGAIN);
    }
}
