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
use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};

use crate::{
    home::Home,
    process::{identity::Identity, keeper, leftovers, proc},
    store::{LockError, Store, StoreError, TaskLock},
};

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
    let above =
        ancestors().seen.into_iter().filter(|(_, name)| name == keeper::NAME.as_bytes()).map(|(pid, _)| pid);
    // In a sandbox the keeper cannot be seen. The first process of its PID namespace can, a copy of it with the same arguments.
    for pid in above.chain([1]) {
        if pid != 1 || kept_loop(1).is_some() {
            match kept_loop(pid) {
                Some((loop_id, kept)) if kept.is(&database) => {
                    // A check finds no variable of dacapo's, and may ask all the same.
                    let is_check = leftovers::is_check_of(&loop_id, home.path());
                    let socket = socket.or_else(|| is_check.then(|| home.socket(&loop_id)));
                    return Whereabouts::Below { loop_id: Some(loop_id), socket };
                }
                _ => is_below_another = true,
            }
        }
    }
    // The process is below no keeper, but the variable names a socket: that supervisor decides whether to trust it.
    match socket {
        Some(socket) if !is_below_another => Whereabouts::Below { loop_id: None, socket: Some(socket) },
        _ => Whereabouts::Outside,
    }
}

/// Why a process that found no keeper above it may be below one all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// A process of the same user above this one cannot be looked at.
    Ancestor,
    /// The process that runs this loop or run lives, and is in another PID namespace.
    Owner(String),
}

/// Whether this process can see what is above it, and if not, why it may be an agent's.
///
/// In a PID namespace of its own, a process sees nothing above the first process of the namespace. That is so in every container,
/// where the user works with a state folder of the container. It is suspicious where something works in this very state
/// folder that cannot be seen: then this process may be below that.
pub fn unseen(home: &Home) -> Result<Option<Unseen>, StoreError> {
    if !ancestors().is_whole {
        return Ok(Some(Unseen::Ancestor));
    }
    let database = home.database();
    if is_in_first_namespace() || !database.exists() {
        return Ok(None);
    }
    let store = Store::open_existing(&database)?;
    // The kernel takes a lock back when its holder dies, in whichever namespace that is.
    let is_hidden = |owner: &Identity, lock: &Path| {
        owner.is_of_this_boot() && !owner.is_alive() && matches!(TaskLock::take(lock), Err(LockError::Held))
    };
    for row in store.active()? {
        if is_hidden(&row.owner, &home.lock(&row.view.project, &row.view.task)) {
            return Ok(Some(Unseen::Owner(row.view.id.to_string())));
        }
    }
    for row in store.active_workflows()? {
        if is_hidden(&row.owner, &home.lock_of_workflow(&row.view.id)) {
            return Ok(Some(Unseen::Owner(row.view.id.to_string())));
        }
    }
    Ok(None)
}

/// Whether this process is in the PID namespace that the machine began with, in which all processes are seen.
fn is_in_first_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name == Path::new("pid:[4026531836]"))
}

/// This process and those above it, with their names.
struct Ancestors {
    seen: Vec<(u32, Vec<u8>)>,
    /// Whether nothing of this user's can be above the last one.
    is_whole: bool,
}

fn ancestors() -> Ancestors {
    let mut seen = Vec::new();
    // A process that ends during the walk leaves its children to another one, and the walk begins again.
    for _ in 0..100 {
        seen.clear();
        // As `/proc` counts, which may be of another PID namespace than this process is.
        let own = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
        let Some(mut pid) = own else { break };
        while let Some((name, parent)) = name_and_parent(pid) {
            seen.push((pid, name));
            pid = parent;
        }
        let Some(last) = Pid::from_raw(pid.cast_signed()).filter(|_| pid > 1) else {
            return Ancestors { seen, is_whole: true };
        };
        match test_kill_process(last) {
            Err(Errno::SRCH) => {}
            // Another user's process, which the machine hides. A keeper is this user's.
            Err(Errno::PERM) => return Ancestors { seen, is_whole: true },
            _ => break,
        }
    }
    Ancestors { seen, is_whole: false }
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
    let text = proc::read(format!("/proc/{pid}/stat")).ok()?;
    let (open, close) = (memchr::memchr(b'(', &text)?, memchr::memrchr(b')', &text)?);
    let name = text.get(open + 1..close)?.to_vec();
    let parent = text.get(close + 2..)?.split(|b| *b == b' ').nth(1)?;
    Some((name, std::str::from_utf8(parent).ok()?.parse().ok()?))
}

/// The journal of a keeper, as its arguments say.
struct KeptJournal {
    path: PathBuf,
    /// Which file it was when the keeper was started.
    file: Option<String>,
}

impl KeptJournal {
    /// Whether `database` is this journal, however it is spelled, and wherever it was moved to since.
    fn is(&self, database: &Path) -> bool {
        let (named, asked) = (file_of(&self.path), file_of(database));
        self.path == database
            || (asked.is_some() && (asked == named || asked == self.file))
            // It is not there any more, and which file it was is not known.
            || (named.is_none() && self.file.is_none())
    }
}

/// The loop of a keeper and the journal that loop is in, from the keeper's arguments.
fn kept_loop(pid: u32) -> Option<(LoopId, KeptJournal)> {
    let line = proc::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|b| *b == 0).skip(1);
    if words.next() != Some(keeper::KEEPER.as_bytes()) {
        return None;
    }
    let loop_id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(words.next()?));
    let file = words.next().and_then(|word| Some(std::str::from_utf8(word).ok()?.to_owned()));
    Some((loop_id, KeptJournal { path, file: file.filter(|file| !file.is_empty()) }))
}

/// Which file a path means, in one word.
pub(crate) fn file_of(path: &Path) -> Option<String> {
    fs::metadata(path).ok().map(|file| format!("{}:{}", file.dev(), file.ino()))
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
