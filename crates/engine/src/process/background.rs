//! Runs the same command again in a session of its own. `--detach` is made of it.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read},
    process::{Command, Stdio},
};

/// Set for the process that goes to the background.
pub(crate) const MARK: &str = "DACAPO_DETACHED";

/// How a command fared that went to the background.
#[derive(Debug)]
pub enum BackgroundStart {
    /// It runs, and this was its first word.
    Running(String),
    /// It ended without a word.
    Ended {
        code: Option<i32>,
        /// And this on standard error.
        complaint: Vec<u8>,
    },
}

/// Whether this process is the one in the background.
pub fn is_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// In the background nothing that happens to the terminal concerns us any more.
pub fn leave_terminal() {
    if is_background() {
        // Fails only for a session leader, which has left already.
        let _ = rustix::process::setsid();
    }
}

/// Runs this program with `args` in the background, until its first line of output or its end.
pub fn send(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> io::Result<BackgroundStart> {
    let mut child = Command::new("/proc/self/exe")
        .args(args)
        .env(MARK, "1")
        .stdin(Stdio::inherit())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut first = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut first)?;
    }
    if !first.trim().is_empty() {
        return Ok(BackgroundStart::Running(first.trim().to_owned()));
    }
    let mut complaint = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut complaint)?;
    }
    Ok(BackgroundStart::Ended { code: child.wait()?.code(), complaint })
}
