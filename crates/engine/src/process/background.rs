//! Runs the same command again in a session of its own. `--detach` is made of it.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
};

use crate::secrets::kept_from_commands;

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
    await_first_word(in_background(args).stdin(Stdio::inherit()).spawn()?)
}

/// The same with `input` as its whole standard input, and with one more variable in its environment.
pub(crate) fn send_with(
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    input: &str,
    (name, value): (&str, &str),
) -> io::Result<BackgroundStart> {
    let mut child = in_background(args).env(name, value).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that refuses its arguments does not read it, and says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    await_first_word(child)
}

fn in_background(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(args).env(MARK, "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in kept_from_commands() {
        command.env_remove(name);
    }
    command
}

fn await_first_word(mut child: Child) -> io::Result<BackgroundStart> {
    let mut first = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut first)?;
    }
    if !first.trim().is_empty() {
        // A server outlives what it has started: without this its end would stay in the list of processes.
        std::thread::spawn(move || child.wait());
        return Ok(BackgroundStart::Running(first.trim().to_owned()));
    }
    let mut complaint = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut complaint)?;
    }
    Ok(BackgroundStart::Ended { code: child.wait()?.code(), complaint })
}
