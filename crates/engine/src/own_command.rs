//! Runs a command of dacapo for a screen that wants something done, and hears what it says.
//!
//! A screen does not decide what a request comes to: a run that no process performs is taken up for an answer, which needs a
//! process with signals of its own. So a press of a button is the command that a person would type, with its consent and errors.

use std::{
    ffi::OsStr,
    io::{self, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use dacapo_core::text::ansi::readable;

use crate::{process::background::MARK, secrets::secrets};

/// No command says more than this that is worth showing.
const LONGEST: u64 = 16 << 10;

/// How a command of dacapo came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// As documented for the command line; `None` if a signal ended it.
    pub exit_code: Option<i32>,
    pub said: String,
    /// Why it did not do it, and what to try next.
    pub complaint: Option<String>,
    pub hint: Option<String>,
}

/// Runs `args`, for at most `patience`. `None` means that it goes on by itself.
pub(crate) fn run(
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    patience: Duration,
) -> io::Result<Option<CommandEnd>> {
    let mut command = Command::new("/proc/self/exe");
    // What ends the screen does not end what it has asked for.
    command.args(args).process_group(0).env_remove(MARK).env("NO_COLOR", "1");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (tell, told) = mpsc::channel();
    thread::Builder::new().name("dcp-command".to_owned()).spawn(move || {
        // A screen that is gone is told nothing.
        let _ = tell.send(finish(child));
    })?;
    match told.recv_timeout(patience) {
        Ok(end) => end.map(Some),
        Err(_) => Ok(None),
    }
}

fn finish(mut child: Child) -> io::Result<CommandEnd> {
    let stderr = child.stderr.take().map(|stderr| thread::spawn(move || all_of(stderr)));
    let said = child.stdout.take().map(all_of).unwrap_or_default();
    let errors = stderr.and_then(|thread| thread.join().ok()).unwrap_or_default();
    let exit_code = child.wait()?.code();
    let line = |prefix: &str| {
        let line = errors.lines().rev().find_map(|line| line.strip_prefix(prefix));
        line.map(|line| line.trim().to_owned())
    };
    let complaint =
        line("dacapo:").or_else(|| errors.lines().rev().find(|line| !line.is_empty()).map(str::to_owned));
    Ok(CommandEnd { exit_code, said, complaint, hint: line("hint:") })
}

fn all_of(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut stream).take(LONGEST).read_to_end(&mut bytes);
    // The rest is taken too, or the command could not go on.
    let _ = io::copy(&mut stream, &mut io::sink());
    secrets().redact(readable(&bytes).trim_end()).into_owned()
}
