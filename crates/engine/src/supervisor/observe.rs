//! What the supervisor observes, without judging it: the markers in the task folder, and how a gate ended.

use std::{fs, io::ErrorKind, os::unix::fs::FileTypeExt, path::Path};

use dacapo_core::{
    duration::Millis,
    event::{GateResult, Outcome, OutputMarks, Spend},
    judge::{
        expectation::{FoundWords, GateAnswer},
        signal::{DoneFact, Facts},
    },
    policy::GateSpec,
    text::ansi::readable,
};

use super::listen::HeardOutput;
use crate::process::KeptEnd;

/// How much of a check's output reaches the next prompt.
const TAIL: usize = 16 * 1024;

/// The markers that lie in `folder` now.
pub(super) fn markers(folder: &Path) -> Facts {
    Facts {
        done: done(&folder.join("DONE")),
        wait_marker: folder.join("WAIT_WITHOUT_RESTART").symlink_metadata().is_ok(),
        ..Facts::default()
    }
}

/// What stands at `path`. Links are not followed: where they point is not the agent's word (fault A13).
fn done(path: &Path) -> DoneFact {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return DoneFact::Absent,
        Err(error) => return DoneFact::Unreadable(error.to_string()),
    };
    if kind.is_file() {
        DoneFact::File
    } else if kind.is_dir() {
        DoneFact::Directory
    } else if kind.is_symlink() {
        DoneFact::NotAFile("symbolic link")
    } else if kind.is_fifo() {
        DoneFact::NotAFile("FIFO")
    } else if kind.is_socket() {
        DoneFact::NotAFile("socket")
    } else {
        DoneFact::NotAFile("device")
    }
}

/// Keeps the last [`TAIL`] bytes of what was pushed, and at most twice that in memory.
pub(super) fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[bytes.len().saturating_sub(TAIL)..];
    if tail.len() + bytes.len() > 2 * TAIL {
        tail.drain(..tail.len().saturating_sub(TAIL));
    }
    tail.extend_from_slice(bytes);
}

/// The last [`TAIL`] bytes as text.
pub(super) fn readable_tail(tail: &[u8]) -> String {
    readable(&tail[tail.len().saturating_sub(TAIL)..])
}

/// The result of a gate that could not be started.
pub(super) fn gate_not_started(error: &impl std::fmt::Display, output: OutputMarks) -> GateResult {
    GateResult {
        exit_code: -1,
        passed: false,
        flaky: false,
        duration_ms: Millis(0),
        laid_out_ms: Millis(0),
        output_bytes: 0,
        output_sha256: String::new(),
        tolerated: false,
        signature: String::new(),
        output_tail: String::new(),
        failure: Some(format!("could not be started: {error}")),
        not_started: true,
        found: FoundWords::default(),
        answer: None,
        spend: None,
        tests: None,
        disturbed: Vec::new(),
        must_fail_tests: None,
        missing_program: None,
        lacks: Box::default(),
        output,
    }
}

/// Adds what an agent answered that was asked as a check, and what that cost. An agent that met a limit or failed has answered
/// nothing.
pub(super) fn take_answer(result: &mut GateResult, heard: HeardOutput) {
    let HeardOutput { detection, outcome, detail, spend, .. } = heard;
    result.spend = Some(spend).filter(|spend| *spend != Spend::default());
    match outcome {
        Outcome::Completed | Outcome::MaxTurns => {
            // Some agents say that they have finished and are ended because they do not exit.
            result.failure = None;
            result.answer = Some(GateAnswer { says_yes: detection.promise.is_some(), no: detection.refusal });
        }
        _ => {
            let why = detail.unwrap_or_else(|| outcome.as_str().replace('_', " "));
            result.failure.get_or_insert_with(|| format!("could not ask the agent: {why}"));
        }
    }
}

/// The facts of a gate that has ended.
pub(super) fn gate_result(
    spec: &GateSpec,
    end: KeptEnd,
    outcome: Outcome,
    duration: Millis,
    bytes: u64,
    (tail, sha256, found): (&[u8], String, FoundWords),
    output: OutputMarks,
) -> GateResult {
    let failure = match (outcome, end.signal) {
        (Outcome::Timeout, _) => Some(format!("timed out after {}", spec.timeout)),
        (Outcome::Killed, _) => Some("was stopped".to_owned()),
        (_, Some(signal)) => Some(format!("was ended by signal {signal}")),
        _ => None,
    };
    let exit_code = if failure.is_some() { -1 } else { end.code.unwrap_or(-1) };
    GateResult {
        exit_code,
        // Core judges whether it passed.
        passed: false,
        flaky: false,
        duration_ms: duration,
        laid_out_ms: Millis(0),
        output_bytes: bytes,
        output_sha256: sha256,
        tolerated: false,
        signature: String::new(),
        output_tail: readable_tail(tail),
        failure,
        not_started: false,
        found,
        answer: None,
        spend: None,
        tests: None,
        disturbed: Vec::new(),
        must_fail_tests: None,
        missing_program: None,
        lacks: Box::default(),
        output,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[test]
    fn whatever_stands_at_done_is_seen_for_what_it_is() {
        // req 67, req 68, fault A13
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("DONE");
        let look = || markers(dir.path()).done;
        assert_eq!(look(), DoneFact::Absent);
        fs::write(&path, "").unwrap();
        assert_eq!(look(), DoneFact::File);
        fs::remove_file(&path).unwrap();
        symlink("/etc/passwd", &path).unwrap();
        assert_eq!(look(), DoneFact::NotAFile("symbolic link"));
        fs::remove_file(&path).unwrap();
        let _socket = UnixListener::bind(&path).unwrap();
        assert_eq!(look(), DoneFact::NotAFile("socket"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(look(), DoneFact::Directory);
    }
}
