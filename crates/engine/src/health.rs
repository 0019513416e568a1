//! Facts about this machine that decide how well a loop can run.

use std::{io, path::Path, path::PathBuf};

use crate::process::find_program;

/// How processes are contained here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containment {
    /// Whether nothing an agent starts can outlive its loop.
    pub is_full: bool,
    pub words: String,
}

/// How processes are contained here.
pub fn containment() -> Containment {
    let can_reap = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok();
    let can_look = Path::new("/proc/self/stat").exists();
    let words = if can_reap && can_look {
        "full: a keeper per loop is subreaper of everything its agent starts, daemons included"
    } else {
        "reduced: process groups only; what leaves its group may outlive a loop"
    };
    Containment { is_full: can_reap && can_look, words: words.to_owned() }
}

/// Bytes free for us where `path` lies.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Where a program on PATH lies.
pub fn find(program: &str) -> Option<PathBuf> {
    find_program(program, &std::env::var_os("PATH")?, Path::new("/")).ok()
}
