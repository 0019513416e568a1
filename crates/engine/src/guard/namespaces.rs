//! The best tier: a mount tree of its own, in which what is protected is read-only, and a PID namespace of its own, in which nothing
//! but what the agent started is to be seen.
//!
//! As an ordinary user a keeper enters two user namespaces. In the first it may mount; the second, in which everything that it starts
//! lives, has no right over the mounts of the first, so nothing there can be unmounted or made writable again. As root there is no
//! user namespace, so that other users' files, low ports and the like work as before: what it starts loses the capabilities by which
//! root changes mounts, devices, the kernel and other processes.
//!
//! The keeper itself stays in the PID namespace of its supervisor, whose numbers it uses. The first process of the new one ("init")
//! mounts its `/proc`, and lives for as long as the keeper does. When it ends, the kernel kills everything in the namespace.

use std::{
    ffi::CString,
    fs, io,
    io::Read,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};

use dacapo_core::sandbox::MountStep;
use fork::{Fork, fork};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{CWD, Mode, OFlags, RawDir, ResolveFlags, StatVfsMountFlags, open, openat2},
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
    pipe::{PipeFlags, pipe_with},
    process::{DumpableBehavior, WaitOptions, set_dumpable_behavior},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
    },
};

use super::{GuardReport, landlock};
use crate::process::proc;

/// The name of the first process of a PID namespace.
const NAME: &str = "dcp-init";

/// What root keeps: rights over files, users and ports, none over mounts, devices, the kernel or other processes.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_BROADCAST)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::LEASE);

/// What root could change the machine by, in a `/proc` of its own.
const OF_THE_MACHINE: [&str; 8] =
    ["sys", "sysrq-trigger", "irq", "bus", "acpi", "scsi", "fs", "latency_stats"];

/// The first process of the namespace. While this value lives, it does.
pub(crate) struct Init {
    pub(crate) pid: u32,
    lifeline: Option<OwnedFd>,
}

impl Drop for Init {
    fn drop(&mut self) {
        self.lifeline = None;
        // Nothing is left of the namespace when it is gone.
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid.cast_signed()) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

impl Init {
    pub(crate) fn is(&self, pid: rustix::process::Pid) -> bool {
        pid.as_raw_nonzero().get().cast_unsigned() == self.pid
    }
}

/// Whether nothing is left in the namespace but its first process: its `/proc` is what is mounted at the usual place.
pub(crate) fn is_alone() -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = open("/proc", flags, Mode::empty()) else { return false };
    // On the stack: this is asked after every attempt, and the allocator tidies up each time it gets a large buffer back.
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { return false };
        let name = entry.file_name().to_bytes();
        if name != b"1" && name.first().is_some_and(u8::is_ascii_digit) {
            return false;
        }
    }
    true
}

/// Namespaces of its own in which everything is as it was outside. The first process of the PID namespace starts.
pub(crate) struct EnteredNamespaces {
    init: StartingInit,
    is_root: bool,
    uid: u32,
    gid: u32,
}

/// Enters namespaces of its own. The first process in them is a copy of this one, which has to be of one thread; there `let_go`
/// closes what belongs to this process alone.
///
/// After an error this process is in no state to go on in: another one may try something else.
pub(crate) fn enter(let_go: impl FnOnce()) -> io::Result<EnteredNamespaces> {
    let is_root = rustix::process::geteuid().is_root();
    let has_rights = is_root && capabilities(None)?.effective.contains(CapabilitySet::SYS_ADMIN);
    if is_root && !has_rights {
        return Err(not_allowed("root without CAP_SYS_ADMIN cannot mount"));
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    if !is_root {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).map_err(|error| {
        let why = format!("namespaces cannot be made: {}", error.desc());
        match error {
            // All are in use, which an agent can bring about, unless there are to be none.
            nix::Error::ENOSPC | nix::Error::EUSERS if !are_none_allowed() => {
                io::Error::new(io::ErrorKind::ResourceBusy, why)
            }
            nix::Error::EAGAIN | nix::Error::ENOMEM => io::Error::new(io::ErrorKind::ResourceBusy, why),
            _ => not_allowed(&why),
        }
    })?;
    std::env::set_current_dir("/proc")?;
    if !is_root {
        map_ids((0, uid), (0, gid), true)?;
    }
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>).map_err(
        |error| {
            let why = format!("mounts cannot be kept apart: {}", error.desc());
            match error {
                nix::Error::ENOMEM | nix::Error::ENOSPC => io::Error::new(io::ErrorKind::ResourceBusy, why),
                _ => not_allowed(&why),
            }
        },
    )?;
    Ok(EnteredNamespaces { init: StartingInit::start(is_root, let_go)?, is_root, uid, gid })
}

impl EnteredNamespaces {
    /// Mounts what `steps` say, and gives up the right to undo it. Gives what could not be mounted, one sentence each.
    pub(super) fn hold(self, steps: &[MountStep]) -> io::Result<(Init, Vec<String>)> {
        let mut open = Vec::new();
        for step in steps {
            if let Err((path, error)) = perform(step) {
                // A path without links has got one: an agent is at it just now.
                if error == nix::Error::ELOOP {
                    let why = format!("`{}` was replaced meanwhile", path.display());
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
                }
                // An agent can use up what the system has.
                if let nix::Error::ENOMEM | nix::Error::ENOSPC | nix::Error::ENFILE | nix::Error::EMFILE =
                    error
                {
                    let why = format!("`{}` cannot be protected now: {}", path.display(), error.desc());
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
                }
                // What is gone needs no protection.
                if error != nix::Error::ENOENT {
                    open.push(format!("`{}` could not be protected: {}", path.display(), error.desc()));
                }
            }
        }
        let init = self.init.mount_proc()?;
        proc::is_current_folder();
        if !landlock::keep_names_of_sockets_apart()? && has_abstract_servers() {
            open.push(format!("{}: this kernel's Landlock is too old", super::ABSTRACT_SOCKETS));
        }
        if self.is_root {
            let dropped = CapabilitySet::from_bits_retain((1 << 41) - 1).difference(KEPT);
            for bit in dropped.iter() {
                // The kernel may not know it.
                match remove_capability_from_bounding_set(bit) {
                    Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        } else {
            unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from)?;
            map_ids((self.uid, 0), (self.gid, 0), false)?;
        }
        Ok((init, open))
    }
}

/// Whether the administrator allows no namespace of a kind that is needed.
fn are_none_allowed() -> bool {
    ["user", "mnt", "pid"].iter().any(|kind| {
        let limit = fs::read_to_string(format!("/proc/sys/user/max_{kind}_namespaces"));
        limit.is_ok_and(|limit| limit.trim() == "0")
    })
}

/// Whether a server listens at a name that no file has.
fn has_abstract_servers() -> bool {
    // The outer `/proc` is the current folder.
    let text = fs::read_to_string("self/net/unix").unwrap_or_default();
    text.lines().any(|line| {
        let mut words = line.split_whitespace().skip(3);
        words.next() == Some("00010000") && words.nth(3).is_some_and(|name| name.starts_with('@'))
    })
}

fn not_allowed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned())
}

/// Says which ids of the namespace above this one's are: as `(here, above)`.
fn map_ids(uid: (u32, u32), gid: (u32, u32), forbids_groups: bool) -> io::Result<()> {
    if forbids_groups {
        match fs::write("self/setgroups", "deny") {
            // A kernel that does not ask for it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    fs::write("self/uid_map", format!("{} {} 1", uid.0, uid.1))?;
    fs::write("self/gid_map", format!("{} {} 1", gid.0, gid.1))
}

fn perform(step: &MountStep) -> Result<(), (&Path, nix::Error)> {
    let (path, done) = match step {
        MountStep::Over { from, to } => (to, pinned(from).and_then(|from| bind(&from, &pinned(to)?))),
        MountStep::Pin(path) => (path, pinned(path).and_then(|held| bind(&held, &held))),
        MountStep::PinLink(path) => (path, pin_link(path)),
        MountStep::ReadOnly(path) => (path, bind_as(path, true)),
        MountStep::Seal(path) => (path, remount(path, true)),
        MountStep::Writable(path) => (path, bind_as(path, false)),
        MountStep::HideFile(path) => {
            (path, pinned(Path::new("/dev/null")).and_then(|null| bind(&null, &pinned(path)?)))
        }
        MountStep::HideFolder(path) => {
            (path, empty(path, "mode=0555,size=4k,nr_inodes=2", MsFlags::MS_RDONLY))
        }
        MountStep::Terminals(path) => (path, terminals(path)),
        MountStep::Private(path) => (path, empty(path, "mode=0700", MsFlags::empty())),
    };
    done.map_err(|error| (path.as_path(), error))
}

/// A path without a link in it, held. What an agent puts into its place meanwhile is not meant.
fn pinned(path: &Path) -> nix::Result<OwnedFd> {
    pinned_as(path, OFlags::empty())
}

fn pinned_as(path: &Path, more: OFlags) -> nix::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | more;
    let open = || openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    let again = |opened: &Result<OwnedFd, rustix::io::Errno>| {
        !matches!(opened, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
    };
    (0..100).map(|_| open()).find(again).unwrap_or_else(open).map_err(of_mounts)
}

/// A name for what is held, for calls that know paths alone.
fn name_of(held: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

fn of_mounts(error: rustix::io::Errno) -> nix::Error {
    nix::Error::from_raw(error.raw_os_error())
}

/// Shows what lies at `from`, with all that is mounted below it, at `to` as well.
fn bind(from: &OwnedFd, to: &OwnedFd) -> nix::Result<()> {
    bind_tree(from, to, OpenTreeFlags::AT_RECURSIVE)
}

fn bind_tree(from: &OwnedFd, to: &OwnedFd, more: OpenTreeFlags) -> nix::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | more;
    let tree = open_tree(from, "", flags).map_err(of_mounts)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", to, "", flags).map_err(of_mounts)
}

/// Mounts a link on itself. It is followed as before, and the kernel lets nobody remove or replace it.
fn pin_link(path: &Path) -> nix::Result<()> {
    let link = pinned_as(path, OFlags::NOFOLLOW)?;
    bind_tree(&link, &link, OpenTreeFlags::empty())
}

fn empty(path: &Path, how: &str, flags: MsFlags) -> nix::Result<()> {
    let flags = flags | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("dacapo"), &name_of(&pinned(path)?), Some("tmpfs"), flags, Some(how))
}

/// Terminals of its own: those of the user can be neither read nor written.
fn terminals(path: &Path) -> nix::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let how = Some("newinstance,ptmxmode=0666,mode=0620");
    mount(Some("devpts"), &name_of(&pinned(path)?), Some("devpts"), flags, how)
}

/// Mounts a path on itself and makes that read-only or writable. If another path has taken its place meanwhile, nothing is.
fn bind_as(path: &Path, is_read_only: bool) -> nix::Result<()> {
    let identity = |held: &OwnedFd| rustix::fs::fstat(held).map(|stat| (stat.st_dev, stat.st_ino));
    let before = pinned(path)?;
    bind(&before, &before)?;
    let after = pinned(path)?;
    if identity(&before).ok() != identity(&after).ok() {
        return Err(nix::Error::ELOOP);
    }
    let now = rustix::fs::fstatvfs(&after).map_err(of_mounts)?.f_flag;
    match remount_as(&name_of(&after), now, is_read_only) {
        // A disk that is read-only stays so.
        Err(_) if !is_read_only => Ok(()),
        done => done,
    }
}

/// Makes a mount read-only, or writable; its other properties stay, as they must in a user namespace.
fn remount(path: &Path, is_read_only: bool) -> nix::Result<()> {
    let now = rustix::fs::statvfs(path).map_err(of_mounts)?.f_flag;
    remount_as(path, now, is_read_only)
}

fn remount_as(path: &Path, now: StatVfsMountFlags, is_read_only: bool) -> nix::Result<()> {
    // Nothing is to be changed.
    if !is_read_only && !now.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
    for (known, flag) in [
        (StatVfsMountFlags::NOSUID, MsFlags::MS_NOSUID),
        (StatVfsMountFlags::NODEV, MsFlags::MS_NODEV),
        (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
        (StatVfsMountFlags::NOATIME, MsFlags::MS_NOATIME),
        (StatVfsMountFlags::NODIRATIME, MsFlags::MS_NODIRATIME),
        (StatVfsMountFlags::RELATIME, MsFlags::MS_RELATIME),
    ] {
        if now.contains(known) {
            flags |= flag;
        }
    }
    if is_read_only {
        flags |= MsFlags::MS_RDONLY;
    }
    mount(None::<&str>, path, None::<&str>, flags, None::<&str>)
}

/// The first process of the new PID namespace, which waits for the mounts of its keeper before it mounts its `/proc` over them.
struct StartingInit {
    init: Init,
    ready: OwnedFd,
}

impl StartingInit {
    fn start(is_root: bool, let_go: impl FnOnce()) -> io::Result<Self> {
        let (theirs, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        let (ready, tells) = pipe_with(PipeFlags::CLOEXEC)?;
        match fork()? {
            Fork::Child => {
                drop((lifeline, ready));
                let_go();
                std::process::exit(run_first_process(&theirs, tells, is_root))
            }
            Fork::Parent(pid) => {
                Ok(Self { init: Init { pid: pid.cast_unsigned(), lifeline: Some(lifeline) }, ready })
            }
        }
    }

    fn mount_proc(self) -> io::Result<Init> {
        if let Some(lifeline) = &self.init.lifeline {
            // If it is dead, it says nothing.
            let _ = rustix::io::write(lifeline, b"m");
        }
        let mut said = String::new();
        fs::File::from(self.ready).take(1000).read_to_string(&mut said)?;
        understood(&said).map(|()| self.init)
    }
}

/// What the first process says when all of it is done.
const READY: &str = "ready";

/// How an answer of the first process begins if the system forbids what it needs.
const FORBIDDEN: &str = "forbidden: ";

/// What the first process says to its keeper when it cannot go on.
fn told(error: &io::Error) -> String {
    match GuardReport::of_error(error) {
        GuardReport::NotAllowed(why) => format!("{FORBIDDEN}{why}"),
        _ => error.to_string(),
    }
}

/// What the keeper makes of the answer: only what the system forbids may lead to less.
fn understood(said: &str) -> io::Result<()> {
    let failed = |why: &str| format!("a `/proc` of its own cannot be mounted: {why}");
    match said.trim() {
        READY => Ok(()),
        "" => Err(io::Error::new(io::ErrorKind::ResourceBusy, "the first process was killed")),
        said => Err(match said.strip_prefix(FORBIDDEN) {
            Some(why) => not_allowed(&failed(why)),
            None => io::Error::new(io::ErrorKind::ResourceBusy, failed(said)),
        }),
    }
}

/// Is the first process of a PID namespace until `lifeline` closes, because its keeper is gone. Gives its exit code.
fn run_first_process(lifeline: &OwnedFd, tells: OwnedFd, is_root: bool) -> i32 {
    match begin_as_first(lifeline, is_root) {
        Ok(child_ended) => {
            let is_told = rustix::io::write(&tells, READY.as_bytes()).is_ok();
            // The keeper reads up to the end of file.
            drop(tells);
            if is_told && reap(lifeline, &child_ended).is_ok() { 0 } else { 70 }
        }
        Err(error) => {
            let _ = rustix::io::write(&tells, told(&error).as_bytes());
            70
        }
    }
}

/// Waits for the mounts of the keeper and mounts its own. Gives what tells of processes that end.
fn begin_as_first(lifeline: &OwnedFd, is_root: bool) -> io::Result<UnixStream> {
    let _ = rustix::process::setpgid(None, None);
    if let Ok(name) = CString::new(NAME) {
        let _ = rustix::thread::set_name(&name);
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Not the outer `/proc`, which is its keeper's.
    std::env::set_current_dir("/")?;
    let null = fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    // The keeper has mounted everything else.
    if rustix::io::read(lifeline, &mut [0; 1])? == 0 {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).map_err(io::Error::from)?;
    if is_root {
        for name in OF_THE_MACHINE {
            let path = Path::new("/proc").join(name);
            match perform(&MountStep::ReadOnly(path)) {
                Ok(()) | Err((_, nix::Error::ENOENT)) => {}
                Err((path, error)) => {
                    let why = format!("`{}`: {}", path.display(), error.desc());
                    return Err(io::Error::new(io::Error::from(error).kind(), why));
                }
            }
        }
        let _ = perform(&MountStep::HideFile("/proc/kcore".into()));
    }
    // Nothing that the agent could make this process do may use a right that it has no more.
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    let (child_ended, writer) = UnixStream::pair()?;
    child_ended.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGCHLD, writer)?;
    Ok(child_ended)
}

/// Waits for what ends in the namespace, until the keeper is gone.
fn reap(lifeline: &OwnedFd, mut child_ended: &UnixStream) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(child_ended, PollFlags::IN), PollFd::new(lifeline, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_over = !fds[1].revents().is_empty();
        let mut bytes = [0; 64];
        while matches!(child_ended.read(&mut bytes), Ok(n) if n > 0) {}
        while matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        if is_over {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_system_forbids_the_first_process_leads_to_less() {
        use rustix::io::Errno;
        let report = |said: &str| understood(said).map_err(|error| GuardReport::of_error(&error));
        for (errno, is_forbidden) in [
            (Errno::PERM, true),
            (Errno::ACCESS, true),
            (Errno::NOSYS, true),
            (Errno::NOMEM, false),
            (Errno::MFILE, false),
            (Errno::NOSPC, false),
            (Errno::BUSY, false),
            (Errno::INVAL, false),
            (Errno::IO, false),
        ] {
            let report = report(&told(&errno.into())).unwrap_err();
            assert_eq!(matches!(report, GuardReport::NotAllowed(_)), is_forbidden, "{errno:?}: {report:?}");
        }
        assert_eq!(report(READY), Ok(()));
        assert_eq!(report(""), Err(GuardReport::NotNow("the first process was killed".into())));
    }
}
