//! `--detach`: what is said about a command that went to the background.

use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader, Read, Write},
    os::fd::AsFd,
};

use dacapo_engine::{
    client::Client,
    inside::{Inside, protocol::StartChild},
    process::background::BackgroundStart,
};

use crate::error::{FAILED, UserError};

/// Runs this very command in the background and says how to follow it. `id` is what it means, if it names nothing.
pub(super) fn detach(client: &Client, id: Option<&str>) -> Result<u8, UserError> {
    start(client, std::env::args_os().skip(1).chain(id.map(OsString::from)))
}

/// Runs a command that works on units in the background, and says how to follow it.
pub(super) fn detach_run(client: &Client, id: Option<&str>) -> Result<u8, UserError> {
    start_run(client, std::env::args_os().skip(1).chain(id.map(OsString::from)))
}

/// Runs this very command, which works on tasks, in the background, and says how to follow them. `id` is what it means, if it
/// names nothing.
pub(super) fn detach_tasks(client: &Client, id: Option<&str>, tasks: &[&str]) -> Result<u8, UserError> {
    start_tasks(client, std::env::args_os().skip(1).chain(id.map(OsString::from)), tasks)
}

/// Runs `args` in the background, and says how to follow the tasks that they are about.
pub(super) fn start_tasks(
    client: &Client,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    tasks: &[&str],
) -> Result<u8, UserError> {
    // Its first word is the run of one of them, which is of no use for the others.
    report(client.start(args)?, |_| match tasks {
        [task] => format!(
            "Task {task} goes on in the background.\n  dacapo status {task}\n  dacapo events {task} -f\n  dacapo cancel {task}"
        ),
        several => format!(
            "{} tasks go on in the background: {}. Each is followed and cancelled by its id.\n  dacapo task list\n  \
             dacapo status --tasks\n  dacapo events ID -f\n  dacapo cancel ID\n  dacapo cancel --all",
            several.len(),
            several.join(", ")
        ),
    })
}

/// Runs `args` in the background, and says how to follow the run that they are about.
pub(super) fn start_run(
    client: &Client,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<u8, UserError> {
    report(client.start(args)?, |id| {
        format!(
            "Run {id} goes on in the background.\n  dacapo status\n  dacapo attach {id}\n  dacapo events {id} -f\n  dacapo cancel {id}"
        )
    })
}

/// Runs `args` in the background and says how to follow the loop.
pub(super) fn start(
    client: &Client,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<u8, UserError> {
    report(client.start(args)?, loop_words)
}

fn loop_words(id: &str) -> String {
    format!(
        "Loop {id} runs in the background.\n  dacapo status\n  dacapo attach {id}\n  dacapo logs {id} -f\n  dacapo cancel {id}"
    )
}

/// Below an agent: has the supervisor start a child in the background and says how to follow it.
pub(super) fn child(inside: &Inside, asked: StartChild) -> Result<u8, UserError> {
    report(start_child(inside, asked)?, loop_words)
}

/// Below an agent: has the supervisor start a child in the background, and waits until it has begun.
pub(super) fn start_child(inside: &Inside, asked: StartChild) -> Result<BackgroundStart, UserError> {
    let (mut stdout, stdout_end) = std::io::pipe().map_err(cannot)?;
    let (mut stderr, stderr_end) = std::io::pipe().map_err(cannot)?;
    let child = inside.start(asked, [stdout_end.as_fd(), stderr_end.as_fd()])?;
    // Only the child holds the write ends now, so that reading ends when the child does.
    drop((stdout_end, stderr_end));
    let mut first = String::new();
    BufReader::new(&mut stdout).read_line(&mut first).map_err(cannot)?;
    if !first.trim().is_empty() {
        return Ok(BackgroundStart::Running(first.trim().to_owned()));
    }
    let mut complaint = Vec::new();
    stderr.read_to_end(&mut complaint).map_err(cannot)?;
    Ok(BackgroundStart::Ended { code: Some(child.wait()?.into()), complaint })
}

fn cannot(error: std::io::Error) -> UserError {
    UserError::environment(format!("cannot start in the background: {error}"))
}

fn report(sent: BackgroundStart, words: impl Fn(&str) -> String) -> Result<u8, UserError> {
    match sent {
        // Its first word is the id, said as soon as that is in the journal.
        BackgroundStart::Running(id) => {
            super::say(words(&id));
            Ok(0)
        }
        BackgroundStart::Ended { code, complaint } => {
            let _ = std::io::stderr().write_all(&complaint);
            Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
        }
    }
}
