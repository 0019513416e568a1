//! Which process it is: a pid alone is reused, a pid with its start time and boot is not (fault F13).

use std::{
    fs,
    io::{self, Read},
    path::PathBuf,
    sync::OnceLock,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::proc;

/// A process, for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start: u64,
    /// The boot it belongs to.
    pub boot: String,
}

impl Identity {
    pub fn own() -> Self {
        of(std::process::id())
    }

    /// Whether it was started since the machine was.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }

    /// Whether that very process still runs.
    pub fn is_alive(&self) -> bool {
        self.boot == boot_id()
            && stat(self.pid).is_some_and(|stat| stat.start == self.start && !stat.is_dead())
    }

    /// Whether it runs the program that this process runs. A row of the journal can name any process; this is no matter of rows.
    pub(crate) fn runs_this_program(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let file = |path| fs::metadata::<PathBuf>(path).map(|file| (file.dev(), file.ino()));
        let Ok(own) = file(proc::own("exe")) else { return false };
        let is_this = match file(proc::of(self.pid, "exe")) {
            Ok(its) => own == its,
            // An ordinary user may not look at a supervisor, which nothing may trace: it tells itself by how it was started.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.is_told_to_run(),
            Err(_) => false,
        };
        is_this && self.is_alive()
    }

    /// Whether it leads a session and was told to run a loop.
    fn is_told_to_run(&self) -> bool {
        let line = fs::read(proc::of(self.pid, "cmdline")).unwrap_or_default();
        let word = line.split(|byte| *byte == 0).nth(1);
        let leads = stat(self.pid).is_some_and(|stat| stat.session == self.pid);
        leads && word.is_some_and(|word| word == b"run" || word == b"resume")
    }

    /// Sends it a signal, and never to a process that took its number.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let gone = || io::Error::from_raw_os_error(rustix::io::Errno::SRCH.raw_os_error());
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        // The descriptor pins the process; only then is looking at its start time conclusive.
        let pinned = pidfd_open(pid, PidfdFlags::empty())?;
        if !self.is_alive() {
            return Err(gone());
        }
        Ok(pidfd_send_signal(&pinned, signal)?)
    }
}

/// The process that has this number now.
pub(crate) fn of(pid: u32) -> Identity {
    Identity { pid, start: stat(pid).map_or(0, |stat| stat.start), boot: boot_id().to_owned() }
}

/// What the kernel says about a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start: u64,
    flags: u32,
    /// Where its program was loaded to; nowhere yet while `execve` replaces it.
    start_code: u64,
}

impl Stat {
    /// Dead but not yet waited for.
    pub(crate) fn is_dead(self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// One of the kernel's own, which runs no program.
    pub(crate) fn is_kernels(self) -> bool {
        const PF_KTHREAD: u32 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }

    /// Between two programs: the old one's arguments and environment are gone, the new one's are not there yet.
    pub(crate) fn is_in_exec(self) -> bool {
        self.start_code == 0 && !self.is_kernels()
    }
}

pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse(&read_stat(pid).ok()?)
}

/// The line of a process: 50 numbers and a name. It is read at once, since its file does not say how long it is, and whether
/// owners live is asked for every loop that a board shows.
fn read_stat(pid: u32) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(proc::of(pid, "stat"))?;
    let mut line = vec![0; 2048];
    loop {
        match file.read(&mut line) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(length) => {
                line.truncate(length);
                return Ok(line);
            }
        }
    }
}

/// As [`stat`]; an error says whether the process exists and `/proc` hides it because it is another user's.
pub(crate) fn look(pid: u32) -> Result<Stat, IsHidden> {
    match read_stat(pid) {
        Ok(text) => parse(&text).ok_or(IsHidden(false)),
        Err(error) => Err(IsHidden(error.kind() == io::ErrorKind::PermissionDenied)),
    }
}

/// Whether a process that could not be looked at is there all the same.
pub(crate) struct IsHidden(pub(crate) bool);

fn parse(text: &[u8]) -> Option<Stat> {
    // The name stands in brackets and may hold anything, brackets too.
    let rest = text.get(memchr::memrchr(b')', text)? + 2..)?;
    let mut fields = rest.split(|b| *b == b' ').map(|f| std::str::from_utf8(f).unwrap_or(""));
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let flags = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(12)?.parse().ok()?;
    let start_code = fields.nth(3)?.parse().ok()?;
    Some(Stat { state, parent, group, session, start, flags, start_code })
}

fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    })
}

/// This machine, by a name that outlives a reboot.
pub(crate) fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let id = fs::read_to_string("/etc/machine-id").map(|id| id.trim().to_owned()).unwrap_or_default();
        // A container may have none; its name is what tells it from others.
        if id.is_empty() { rustix::system::uname().nodename().to_string_lossy().into_owned() } else { id }
    })
}

/// All processes there are, by number.
pub(crate) fn all_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir(proc::root()) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_program_is_told_from_one_of_this() {
        assert!(Identity::own().runs_this_program());
        let mut other =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        // Between fork and exec it is still this program.
        while of(other.id()).runs_this_program() {
            std::thread::yield_now();
        }
        let identity = of(other.id());
        assert!(identity.is_alive() && !identity.runs_this_program());
        drop(other.stdin.take());
        other.wait().expect("it ends with its input");
        assert!(!identity.runs_this_program());
    }

    #[test]
    fn what_the_kernel_says_is_read_field_by_field() {
        let line = b"7 (a) b) S 1 7 9 0 -1 4194304 100 0 0 0 5 6 7 8 20 0 1 0 4711 9 9 9 94000 95000 0 0";
        let stat = parse(line).expect("a whole line");
        assert_eq!((stat.state, stat.parent, stat.group, stat.start), (b'S', 1, 7, 4711));
        assert_eq!((stat.flags, stat.start_code), (4_194_304, 94_000));
        assert!(!stat.is_kernels() && !stat.is_in_exec());
        assert!(Stat { start_code: 0, ..stat }.is_in_exec());
        let kernels = Stat { start_code: 0, flags: 0x0020_8040, ..stat };
        assert!(kernels.is_kernels() && !kernels.is_in_exec());
        assert!(parse(b"7 (a) S 1 7").is_none(), "cut short");
    }

    #[test]
    fn a_process_is_itself_and_nobody_else() {
        // fault F13
        let me = Identity::own();
        assert!(me.is_alive());
        assert!(
            !Identity { start: me.start + 1, ..me.clone() }.is_alive(),
            "another process with its number"
        );
        assert!(!Identity { boot: "another".into(), ..me.clone() }.is_alive(), "before a reboot");
        let stranger = Identity { start: me.start + 1, ..me };
        assert!(stranger.signal(Signal::KILL).is_err(), "the test would not be here any more");
    }
}
