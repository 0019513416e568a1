//! `--detach`: what is said about a command that went to the background.

use std::{ffi::OsStr, io::Write};

use dacapo_engine::process::background::{Sent, send};

use crate::error::{FAILED, UserError};

/// Runs this very command in the background and says how to follow it.
pub(super) fn detach() -> Result<u8, UserError> {
    start(std::env::args_os().skip(1))
}

/// The same for a command that runs units.
pub(super) fn detach_run() -> Result<u8, UserError> {
    say_how(std::env::args_os().skip(1), |id| {
        format!(
            "Run {id} goes on in the background.\n  dacapo status\n  dacapo events {id} -f\n  dacapo cancel {id}"
        )
    })
}

/// Runs `args` in the background and says how to follow the loop.
pub(super) fn start(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<u8, UserError> {
    say_how(args, |id| {
        format!(
            "Loop {id} runs in the background.\n  dacapo status\n  dacapo logs {id} -f\n  dacapo cancel {id}"
        )
    })
}

fn say_how(
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    words: impl Fn(&str) -> String,
) -> Result<u8, UserError> {
    let sent = send(args)
        .map_err(|error| UserError::environment(format!("cannot start in the background: {error}")))?;
    match sent {
        // Its first word is the id, said as soon as that is in the journal.
        Sent::Running(id) => {
            super::say(words(&id));
            Ok(0)
        }
        Sent::Ended { code, complaint } => {
            let _ = std::io::stderr().write_all(&complaint);
            Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
        }
    }
}
