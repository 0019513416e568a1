//! The way in from inside a loop: `dacapo` that runs below an agent asks the supervisor of the agent's loop through a
//! socket and never opens the journal itself.
//!
//! The agent's processes can change every variable and every file of theirs, so nothing they say about themselves
//! counts. Which loop a process belongs to follows from its place below a keeper, which only the kernel knows.

pub mod child;
mod client;
pub mod protocol;
pub(crate) mod server;

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use dacapo_core::ids::LoopId;

pub(crate) use client::unexpected;
pub use client::{ChildRun, Inside, InsideError, SupervisorNews};

use crate::{home::Home, process::keeper};

/// The variable that names the socket of the supervisor.
pub const SOCKET: &str = "DACAPO_SOCKET";

/// Where this process runs, seen from the loops of one state folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The process does not run below an agent or a gate.
    Outside,
    /// Below the keeper of a loop.
    Below {
        /// The loop; `None` if only the environment says that there is one.
        loop_id: Option<LoopId>,
        /// Where its supervisor can be asked, if the environment says so.
        socket: Option<PathBuf>,
    },
}

/// Where this process runs.
///
/// A keeper of another state folder above this process does not count: a program under test may run loops of its own
/// with a state folder of its own, and so may `dacapo demo`.
pub fn place(home: &Home) -> Whereabouts {
    let socket = std::env::var_os(SOCKET).filter(|value| !value.is_empty()).map(PathBuf::from);
    let database = home.database();
    let mut is_below_another = false;
    let mut pid = std::process::id();
    while let Some((name, parent)) = name_and_parent(pid) {
        if name == keeper::NAME.as_bytes() {
            match kept_loop(pid) {
                Some((loop_id, kept)) if is_same_file(&kept, &database) => {
                    return Whereabouts::Below { loop_id: Some(loop_id), socket };
                }
                _ => is_below_another = true,
            }
        }
        pid = parent;
    }
    // The process is below no keeper, but the variable names a socket: that supervisor decides whether to trust it.
    match socket {
        Some(socket) if !is_below_another => Whereabouts::Below { loop_id: None, socket: Some(socket) },
        _ => Whereabouts::Outside,
    }
}

/// Whether the process `pid` has `ancestor` above it.
pub(crate) fn is_below(pid: u32, ancestor: u32) -> bool {
    let mut next = pid;
    while let Some((_, parent)) = name_and_parent(next) {
        if parent == ancestor {
            return true;
        }
        next = parent;
    }
    false
}

/// The name of a process and its parent; `None` for the first process and for one that is gone.
fn name_and_parent(pid: u32) -> Option<(Vec<u8>, u32)> {
    if pid <= 1 {
        return None;
    }
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (open, close) = (memchr::memchr(b'(', &text)?, memchr::memrchr(b')', &text)?);
    let name = text.get(open + 1..close)?.to_vec();
    let parent = text.get(close + 2..)?.split(|b| *b == b' ').nth(1)?;
    Some((name, std::str::from_utf8(parent).ok()?.parse().ok()?))
}

/// The loop of a keeper and the journal that loop is in, from the keeper's arguments.
fn kept_loop(pid: u32) -> Option<(LoopId, PathBuf)> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|b| *b == 0).skip(1);
    if words.next() != Some(keeper::KEEPER.as_bytes()) {
        return None;
    }
    let loop_id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    Some((loop_id, PathBuf::from(std::ffi::OsStr::from_bytes(words.next()?))))
}

/// Whether two paths are one file, however they are spelled.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    one == other || identity(one).is_some_and(|file| Some(file) == identity(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_below_its_parent_and_not_below_a_stranger() {
        let own = std::process::id();
        let (_, parent) = name_and_parent(own).unwrap();
        assert!(is_below(own, parent));
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(is_below(child.id(), own), "a child is below");
        assert!(!is_below(own, child.id()), "a parent is not");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_below(child.id(), own), "a process that is gone is below no other");
    }
}
