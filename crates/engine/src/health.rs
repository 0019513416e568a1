//! Facts about this machine that decide how well a loop can run.

use std::{io, path::Path, path::PathBuf};

use crate::process::{find_program, proc};

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
        "full: whatever an agent starts is ended with it, daemons included"
    } else {
        "reduced: only the agent's process group is ended; a daemon that leaves it may outlive the loop"
    };
    Containment { is_full: can_reap && can_look, words: words.to_owned() }
}

/// Less than this is little for a night: what agents print and dacapo keeps alone may be more.
const FEW_BYTES: u64 = 512 << 20;
/// Fewer new files than a build of a small project makes.
const FEW_FILES: u64 = 5_000;

/// What the file system of a folder has left for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Tells file systems apart.
    pub device: u64,
    pub bytes: u64,
    /// New files, where the file system has a limit of them.
    pub files: Option<u64>,
}

/// What is left where `path` lies.
pub fn room(path: &Path) -> io::Result<Room> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(Room {
        device: std::os::unix::fs::MetadataExt::dev(&std::fs::metadata(path)?),
        bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        files: (stat.f_files > 0).then_some(stat.f_favail),
    })
}

impl Room {
    /// What is left, in words, if it is little.
    pub fn shortage(&self) -> Option<String> {
        if self.bytes < FEW_BYTES {
            return Some(format!("{} MiB free", self.bytes >> 20));
        }
        let files = self.files.filter(|files| *files < FEW_FILES)?;
        Some(format!("room for {files} more files"))
    }
}

/// What people call the file system of `path`, if a machine elsewhere or a process serves it.
pub fn served_elsewhere(path: &Path) -> Option<&'static str> {
    // What cannot be told is no reason to warn.
    let number = rustix::fs::statfs(path).ok()?.f_type;
    // The kernel has 32 bits for it, and some systems give them a sign.
    dacapo_core::file_system::served_elsewhere(u64::try_from(number).ok()? & u64::from(u32::MAX))
}

/// How many processes the system has ended for want of memory since it was started; nothing if it does not say.
pub(crate) fn ended_for_memory() -> Option<u64> {
    ended_for_memory_in(&String::from_utf8(proc::read("/proc/vmstat").ok()?).ok()?)
}

fn ended_for_memory_in(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Where a program on PATH lies.
pub fn find(program: &str) -> Option<PathBuf> {
    find_program(program, &std::env::var_os("PATH")?, Path::new("/")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ended_for_memory_is_read_by_its_own_name_alone() {
        let cases = [
            ("nr_free_pages 7\noom_kill 3\nnuma_hit 9\n", Some(3)),
            ("oom_kill 0\n", Some(0)),
            ("oom_kill_other 4\n", None),
            ("oom_kill many\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(ended_for_memory_in(text), expected, "{text:?}");
        }
    }
}
