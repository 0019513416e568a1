//! What a check's end means as a result: facts in one place, no judgement about the claim.

use dacapo_core::{
    duration::Millis,
    event::{GateResult, Outcome, OutputMarks},
    policy::GateSpec,
    text::ansi::readable,
};

use crate::process::End;

/// How much of a check's output reaches the next prompt.
const TAIL: usize = 16 * 1024;

/// Keeps the last [`TAIL`] bytes of what was pushed, and at most twice that in memory.
pub(super) fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[bytes.len().saturating_sub(TAIL)..];
    if tail.len() + bytes.len() > 2 * TAIL {
        tail.drain(..tail.len().saturating_sub(TAIL));
    }
    tail.extend_from_slice(bytes);
}

pub(super) fn not_started(error: &impl std::fmt::Display, output: OutputMarks) -> GateResult {
    GateResult {
        exit_code: -1,
        passed: false,
        flaky: false,
        duration_ms: Millis(0),
        output_bytes: 0,
        output_sha256: String::new(),
        tolerated: false,
        signature: String::new(),
        output_tail: String::new(),
        failure: Some(format!("could not be started: {error}")),
        output,
    }
}

pub(super) fn result(
    spec: &GateSpec,
    end: End,
    outcome: Outcome,
    duration: Millis,
    bytes: u64,
    (tail, sha256): (&[u8], String),
    output: OutputMarks,
) -> GateResult {
    let failure = match (outcome, end.signal) {
        (Outcome::Timeout, _) => Some(format!("timed out after {}", spec.timeout)),
        (Outcome::Killed, _) => Some("was stopped".to_owned()),
        (_, Some(signal)) => Some(format!("was ended by signal {signal}")),
        _ => None,
    };
    let exit_code = if failure.is_some() { -1 } else { end.code.unwrap_or(-1) };
    let passed = exit_code == 0;
    let tail = if passed { String::new() } else { readable(&tail[tail.len().saturating_sub(TAIL)..]) };
    GateResult {
        exit_code,
        passed,
        flaky: false,
        duration_ms: duration,
        output_bytes: bytes,
        output_sha256: sha256,
        tolerated: false,
        signature: String::new(),
        output_tail: tail,
        failure,
        output,
    }
}
