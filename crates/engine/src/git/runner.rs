//! The only caller of git: never asks, never runs what a repository planted, never waits for ever (faults H14, H15, K3).

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use super::locks;
use crate::health;

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How much one call may print.
const MOST_OUTPUT: usize = 256 << 20;

/// What a repository's own configuration may not decide (fault K3), and what would make git slow or talkative.
const HARDENED: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.untrackedCache=keep",
    // A file is unchanged only if its whole stat is: an agent can set a modification time, but not a change time.
    "core.trustctime=true",
    "core.checkStat=default",
    "core.ignoreStat=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "commit.gpgSign=false",
    "submodule.recurse=false",
];

/// What an outer git, a hook or a shell may have left in the environment that points somewhere else.
const FOREIGN: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_QUARANTINE_PATH",
    "GIT_REPLACE_REF_BASE",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_TEMPLATE_DIR",
    "GIT_TRACE",
    "GIT_TRACE_SETUP",
    "GIT_TRACE_PERFORMANCE",
];

/// Why git did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed: no such program on PATH")]
    Missing,
    #[error("cannot run `git {command}` in `{}`: {source}", dir.display())]
    Run { command: String, dir: PathBuf, source: io::Error },
    #[error("`git {command}` in `{}` took more than {seconds} s and was stopped", dir.display())]
    TimedOut { command: String, dir: PathBuf, seconds: u64 },
    #[error("`git {command}` in `{}` printed more than {most} bytes and was stopped", dir.display())]
    TooMuch { command: String, dir: PathBuf, most: usize },
    #[error("`git {command}` failed in `{}` ({}): {said}", dir.display(), code.map_or("killed".to_owned(), |c| format!("exit {c}")))]
    Failed {
        command: String,
        dir: PathBuf,
        /// Its exit code; none if a signal ended it.
        code: Option<i32>,
        said: String,
    },
}

/// A git program and the environment it is run in.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
    limit: Duration,
}

impl Git {
    /// The git on PATH.
    pub fn find() -> Result<Self, GitError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program =
            crate::process::find_program("git", &path, Path::new("/")).map_err(|_| GitError::Missing)?;
        Ok(Self::at(program))
    }

    /// The git at `program`.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), environment: Vec::new(), limit: LIMIT }
    }

    /// With a variable set, over what is inherited.
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// With another limit on the time of one call.
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Where settings stand that are no repository's: the machine's and the user's.
    pub(crate) fn outer_config(&self) -> Vec<PathBuf> {
        let set = |name: &str| {
            let own =
                self.environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
            own.or_else(|| std::env::var_os(name)).filter(|value| !value.is_empty()).map(PathBuf::from)
        };
        let machine = set("GIT_CONFIG_SYSTEM").unwrap_or_else(|| "/etc/gitconfig".into());
        if let Some(file) = set("GIT_CONFIG_GLOBAL") {
            return vec![machine, file];
        }
        let home = set("HOME");
        let shared = set("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
        let files =
            [shared.map(|folder| folder.join("git/config")), home.map(|home| home.join(".gitconfig"))];
        std::iter::once(machine).chain(files.into_iter().flatten()).collect()
    }

    /// A call in `dir`, which finds its repository by itself.
    pub(crate) fn call(&self, dir: &Path) -> GitCall<'_> {
        let mut call = GitCall {
            git: Cow::Borrowed(self),
            dir: dir.to_owned(),
            environment: Vec::new(),
            config: Vec::new(),
            args: Vec::new(),
            input: None,
            limit: self.limit,
        };
        call.config.extend(HARDENED.iter().map(OsString::from));
        call
    }
}

/// One call of git, being put together.
#[derive(Clone)]
pub(crate) struct GitCall<'a> {
    git: Cow<'a, Git>,
    dir: PathBuf,
    environment: Vec<(&'static str, OsString)>,
    config: Vec<OsString>,
    args: Vec<OsString>,
    input: Option<Vec<u8>>,
    limit: Duration,
}

/// What a call printed and how it ended.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl GitOutput {
    /// The printed line, without its end.
    pub(crate) fn line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }

    /// The printed path, without the end of its line.
    pub(crate) fn path(mut self) -> PathBuf {
        if self.stdout.last() == Some(&b'\n') {
            self.stdout.pop();
        }
        OsString::from_vec(self.stdout).into()
    }
}

/// The parts of `bytes` between NULs, the last end not counting.
pub(crate) fn split_nul(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == 0).filter(|part| !part.is_empty())
}

impl GitCall<'_> {
    /// One that another thread can run.
    pub(crate) fn into_owned(self) -> GitCall<'static> {
        GitCall { git: Cow::Owned(self.git.into_owned()), ..self }
    }

    pub(crate) fn at(self, git_dir: &Path, work_tree: &Path) -> Self {
        self.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", work_tree)
    }

    pub(crate) fn in_dir(mut self, dir: &Path) -> Self {
        dir.clone_into(&mut self.dir);
        self
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name, value.as_ref().to_owned()));
        self
    }

    pub(crate) fn config(mut self, setting: impl Into<OsString>) -> Self {
        self.config.push(setting.into());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub(crate) fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Some(bytes);
        self
    }

    /// With as many times the time that calls usually get.
    pub(crate) fn patiently(mut self, times: u32) -> Self {
        self.limit *= times;
        self
    }

    /// With another limit on its time.
    pub(crate) fn for_at_most(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Gives `command`, which may call git by itself, the settings of this call and `more`.
    pub(crate) fn harden(self, command: &mut Command, more: impl IntoIterator<Item = String>) {
        let settings = self.config.into_iter().chain(more.into_iter().map(OsString::from));
        let mut count = 0;
        for setting in settings {
            let bytes = setting.into_vec();
            let Some(at) = memchr::memchr(b'=', &bytes) else { continue };
            command.env(format!("GIT_CONFIG_KEY_{count}"), OsStr::from_bytes(&bytes[..at]));
            command.env(format!("GIT_CONFIG_VALUE_{count}"), OsStr::from_bytes(&bytes[at + 1..]));
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        for name in FOREIGN {
            command.env_remove(name);
        }
        command.envs(self.git.environment.iter().map(|(n, v)| (n, v)));
    }

    /// Runs the command to its end. A failed command is an output with its exit code, not an error.
    ///
    /// A command that met the lock of another git runs again once that lock is gone, also if a killed git left it.
    pub(crate) fn run(self) -> Result<GitOutput, GitError> {
        let output = self.run_once(None)?;
        if output.code == Some(0) || !locks::is_lock_gone(&output.stderr) {
            return Ok(output);
        }
        self.run_once(None)
    }

    /// Runs it as [`Self::ok`] does, and stops it once `stop` is readable or closed by who holds the other end.
    pub(crate) fn ok_unless(self, stop: BorrowedFd<'_>) -> Result<GitOutput, GitError> {
        let output = self.run_once(Some(stop))?;
        if output.code == Some(0) { Ok(output) } else { Err(failed_call(self.shown(), self.dir, &output)) }
    }

    fn run_once(&self, stop: Option<BorrowedFd<'_>>) -> Result<GitOutput, GitError> {
        let shown = self.shown();
        let mut command = Command::new(&self.git.program);
        for setting in &self.config {
            command.arg("-c").arg(setting);
        }
        command.args(&self.args).current_dir(&self.dir);
        for name in FOREIGN {
            command.env_remove(name);
        }
        for (name, value) in [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_EDITOR", "false"),
            ("GIT_SEQUENCE_EDITOR", "false"),
            ("GIT_PAGER", "cat"),
            ("GIT_OPTIONAL_LOCKS", "0"), // fault H3
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("LC_ALL", "C"),
        ] {
            command.env(name, value);
        }
        command.envs(self.git.environment.iter().map(|(n, v)| (n, v)));
        command.envs(self.environment.iter().map(|(n, v)| (n, v)));
        run_until(command, self.input.as_deref(), &shown, &self.dir, self.limit, stop)
    }

    /// Runs it; anything but exit code 0 is an error.
    pub(crate) fn ok(self) -> Result<GitOutput, GitError> {
        let (command, dir) = (self.shown(), self.dir.clone());
        let output = self.run()?;
        if output.code == Some(0) { Ok(output) } else { Err(failed_call(command, dir, &output)) }
    }

    /// Runs it for one line; git says by exit code 1 that there is none.
    pub(crate) fn line_if_any(self) -> Result<Option<String>, GitError> {
        let (command, dir) = (self.shown(), self.dir.clone());
        let output = self.run()?;
        match output.code {
            Some(0) => Ok(Some(output.line())),
            Some(1) => Ok(None),
            _ => Err(failed_call(command, dir, &output)),
        }
    }

    /// Its first words, for people.
    pub(crate) fn shown(&self) -> String {
        let words: Vec<_> = self.args.iter().take(2).map(|a| a.to_string_lossy()).collect();
        words.join(" ")
    }
}

/// Runs a program in a group of its own, with `input` to read; what is left of the group when it ends is killed.
pub(crate) fn run_bounded(
    command: Command,
    input: Option<&[u8]>,
    shown: &str,
    dir: &Path,
    limit: Duration,
) -> Result<GitOutput, GitError> {
    run_until(command, input, shown, dir, limit, None)
}

fn run_until(
    mut command: Command,
    input: Option<&[u8]>,
    shown: &str,
    dir: &Path,
    limit: Duration,
    stop: Option<BorrowedFd<'_>>,
) -> Result<GitOutput, GitError> {
    let (shown, dir) = (shown.to_owned(), dir.to_owned());
    let failed = |source| GitError::Run { command: shown.clone(), dir: dir.clone(), source };
    command.stdin(match input {
        Some(bytes) => Stdio::from(in_memory(bytes).map_err(failed)?),
        None => Stdio::null(),
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(failed)?;
    match collect(child, Instant::now() + limit, stop).map_err(failed)? {
        Collected::GitOutput(output) => Ok(output),
        Collected::Stopped => Err(failed(io::ErrorKind::Interrupted.into())),
        Collected::TimedOut => Err(GitError::TimedOut { command: shown, dir, seconds: limit.as_secs() }),
        Collected::TooMuch => Err(GitError::TooMuch { command: shown, dir, most: MOST_OUTPUT }),
    }
}

/// The words of the system for a disk that is full; git is run with `LC_ALL=C`.
pub(crate) const DISK_FULL: &str = "No space left on device";
/// With less than this, git can write nothing.
const LEAST_BYTES: u64 = 16 << 10;

/// The error that `output` tells of. Of a file that it could not write git does not always say why.
pub(crate) fn failed_call(command: String, dir: PathBuf, output: &GitOutput) -> GitError {
    let said: Vec<&str> = output.stderr.lines().filter(|l| !l.starts_with("hint:")).take(5).collect();
    let mut said = said.join("; ");
    let is_full = |room: health::Room| room.bytes < LEAST_BYTES || room.files == Some(0);
    if !said.contains(DISK_FULL) && health::room(&dir).is_ok_and(is_full) {
        said = format!("{said}: {DISK_FULL}");
    }
    GitError::Failed { command, dir, code: output.code, said }
}

fn in_memory(bytes: &[u8]) -> io::Result<std::fs::File> {
    let fd = rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

enum Collected {
    GitOutput(GitOutput),
    Stopped,
    TimedOut,
    TooMuch,
}

/// Reads both streams until the child has ended, then kills the rest of its process group.
fn collect(mut child: Child, deadline: Instant, stop: Option<BorrowedFd<'_>>) -> io::Result<Collected> {
    let group = Pid::from_child(&child);
    let ended = pidfd_open(group, PidfdFlags::empty());
    let result = match &ended {
        Ok(ended) => read_all(&mut child, ended, deadline, stop),
        Err(error) => Err((*error).into()),
    };
    if let (Ok(ended), false) = (&ended, matches!(&result, Ok(Some(Collected::GitOutput(_))))) {
        // Asked to end, git removes its lock files; killed, it leaves them to others (fault H4).
        let _ = kill_process_group(group, Signal::TERM);
        let _ = poll(&mut [PollFd::new(ended, PollFlags::IN)], Some(&Timespec { tv_sec: 2, tv_nsec: 0 }));
    }
    // The child was not waited for yet, so its pid still names our group. An error means that the group is gone
    // already.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    Ok(match result? {
        Some(Collected::GitOutput(mut output)) => {
            output.code = status.code();
            Collected::GitOutput(output)
        }
        Some(other) => other,
        None => Collected::TimedOut,
    })
}

fn read_all(
    child: &mut Child,
    ended: &OwnedFd,
    deadline: Instant,
    stop: Option<BorrowedFd<'_>>,
) -> io::Result<Option<Collected>> {
    let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("no pipes"));
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (mut out_open, mut err_open, mut is_over) = (true, true, false);
    let mut buffer = vec![0; 64 << 10];
    while out_open || err_open || !is_over {
        // A descendant may hold the pipes for ever; git itself has said everything when it ends.
        let left = if is_over { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
        if left.is_zero() && !is_over {
            return Ok(None);
        }
        let (out_fd, err_fd) = (out.as_fd(), err.as_fd());
        let wanted = |is: bool| if is { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(ended, wanted(!is_over))];
        // A closed pipe reports itself for ever, so it is left out.
        let watched_stop = stop.map(|stop| fds.push(PollFd::from_borrowed_fd(stop, PollFlags::IN))).is_some();
        let watched_out = out_open.then(|| fds.push(PollFd::new(&out_fd, PollFlags::IN))).is_some();
        if err_open {
            fds.push(PollFd::new(&err_fd, PollFlags::IN));
        }
        let limit = Timespec::try_from(left).ok();
        let ready = match poll(&mut fds, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            ready => ready?,
        };
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if is_over && ready == 0 {
            break;
        }
        is_over |= is_ready[0];
        let mut next = 1;
        if watched_stop {
            if is_ready[next] {
                return Ok(Some(Collected::Stopped));
            }
            next += 1;
        }
        if watched_out {
            if is_ready[next] {
                out_open = read_some(&mut out, &mut buffer, &mut stdout)?;
            }
            next += 1;
        }
        if is_ready.get(next) == Some(&true) {
            err_open = read_some(&mut err, &mut buffer, &mut stderr)?;
        }
        if stdout.len() + stderr.len() > MOST_OUTPUT {
            return Ok(Some(Collected::TooMuch));
        }
    }
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Ok(Some(Collected::GitOutput(GitOutput { code: None, stdout, stderr })))
}

fn read_some(from: &mut impl Read, buffer: &mut [u8], to: &mut Vec<u8>) -> io::Result<bool> {
    let count = from.read(buffer)?;
    to.extend_from_slice(&buffer[..count]);
    Ok(count > 0)
}
