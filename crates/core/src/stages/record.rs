//! What is told about a stage while it runs and when it failed: `ralph`, `ralph_failure`, an entry of the execution log, and the
//! verification of a promise.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Stage, StageName};
use crate::judge::{
    contradiction::Patterns,
    evidence::{EvidenceFacts, EvidenceReason, Verification, verify},
};

/// How much of an agent's last output a failure keeps, in characters.
const LAST_OUTPUT: usize = 2000;

/// The stage that a task is in, while it is in one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ralph {
    pub stage: StageName,
    /// Counted from 1 within the stage.
    pub iteration: u32,
    pub max_iterations: u32,
    pub started_at: Timestamp,
    pub completion_promise: String,
}

/// Why a task went back to `todo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RalphFailure {
    pub stage: StageName,
    pub iterations_used: u32,
    pub last_output: String,
    pub reason: String,
}

impl RalphFailure {
    /// The reason of a stage that has used up its iterations.
    pub const MAX_ITERATIONS: &'static str = "Max iterations reached without completion promise";

    /// Of a long output its end is kept.
    pub fn new(stage: StageName, iterations_used: u32, last_output: &str, reason: impl Into<String>) -> Self {
        let length = last_output.chars().count();
        let last_output = last_output.chars().skip(length.saturating_sub(LAST_OUTPUT)).collect();
        Self { stage, iterations_used, last_output, reason: reason.into() }
    }
}

/// What is said of a stage that has used up its iterations.
pub fn exceeded(max_iterations: u32) -> String {
    format!("Ralph loop exceeded {max_iterations} iterations")
}

/// An entry of the execution log: one iteration of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageIteration {
    pub task_id: String,
    pub stage: StageName,
    pub ralph_iteration: u32,
    pub ralph_max: u32,
    pub promise_found: bool,
    /// Whether another iteration follows.
    pub continuing: bool,
    pub duration_ms: u64,
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub timed_out: bool,
    /// What the verification of its promise came to, if it made one.
    #[serde(default)]
    pub verification: Option<EvidenceReason>,
    /// Whether gates stood behind the claim that was believed; without one the words and the evidence of the role did.
    #[serde(default)]
    pub gated: bool,
    /// Why its claim was refused, or the words with which the agent itself refuses the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// What it cost, where that is known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
}

impl Stage {
    /// Verifies a promise in what the agent wrote: its form, then contradictions, then the evidence of the role. A stage that
    /// does not verify asks for the form alone.
    pub fn verify(
        &self,
        promise_found: bool,
        output: &str,
        facts: EvidenceFacts,
        patterns: &Patterns,
    ) -> Verification {
        let off = Patterns::off();
        let patterns = if self.verifies { patterns } else { &off };
        verify(self.evidence(), promise_found, output, facts, patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_log_entries_have_their_names() {
        // req 187, req 188, req 190
        let ralph = Ralph {
            stage: StageName::Coder,
            iteration: 3,
            max_iterations: 15,
            started_at: "2024-01-15T10:30:00Z".parse().unwrap(),
            completion_promise: "IMPLEMENTATION_COMPLETE".to_owned(),
        };
        assert_eq!(
            serde_json::to_value(ralph).unwrap(),
            serde_json::json!({
                "stage": "coder",
                "iteration": 3,
                "max_iterations": 15,
                "started_at": "2024-01-15T10:30:00Z",
                "completion_promise": "IMPLEMENTATION_COMPLETE",
            })
        );
        let failure = RalphFailure::new(StageName::Coder, 15, "...", RalphFailure::MAX_ITERATIONS);
        assert_eq!(
            serde_json::to_value(failure).unwrap(),
            serde_json::json!({
                "stage": "coder",
                "iterations_used": 15,
                "last_output": "...",
                "reason": "Max iterations reached without completion promise",
            })
        );
        assert_eq!(exceeded(15), "Ralph loop exceeded 15 iterations");
        let entry = StageIteration {
            task_id: "TASK-001".to_owned(),
            stage: StageName::Coder,
            ralph_iteration: 3,
            ralph_max: 15,
            promise_found: false,
            continuing: true,
            duration_ms: 45_000,
            exit_code: Some(0),
            timed_out: false,
            verification: Some(EvidenceReason::NotFound),
            gated: false,
            refusal: None,
            cost_usd: Some(0.25),
        };
        assert_eq!(
            serde_json::to_value(entry).unwrap(),
            serde_json::json!({
                "task_id": "TASK-001",
                "stage": "coder",
                "ralph_iteration": 3,
                "ralph_max": 15,
                "promise_found": false,
                "continuing": true,
                "duration_ms": 45000,
                "exit_code": 0,
                "timed_out": false,
                "verification": "Promise not found or malformed",
                "gated": false,
                "cost_usd": 0.25,
            })
        );
        let long = RalphFailure::new(StageName::Qa, 1, &format!("x{}", "ä".repeat(LAST_OUTPUT)), "r");
        assert_eq!(long.last_output, "ä".repeat(LAST_OUTPUT));
    }

    #[test]
    fn a_promise_is_verified_in_order_and_in_these_words() {
        // req 178, req 179, req 180, req 182, req 183, req 184
        use StageName::{Coder, Qa, Reviewer, Tester};
        for (name, found, output, words) in [
            (Coder, false, "committed", "Promise not found or malformed"),
            (Coder, false, "TODO: rest", "Promise not found or malformed"),
            (Coder, true, "TODO: rest. committed", "Output contains contradictions to promise"),
            (Coder, true, "done", "No commit detected in coder output"),
            (Coder, true, "Committed as 1a2b", "Promise verified"),
            (Reviewer, true, "looks fine", "No review approval detected"),
            (Reviewer, true, "REVIEW PASSED", "Promise verified"),
            (Reviewer, true, "Approved.", "Promise verified"),
            (Tester, true, "ran them", "No passing tests detected"),
            (Tester, true, "12 Passed", "Promise verified"),
            (Tester, true, "2 passed, 1 failed.", "No passing tests detected"),
            (Tester, true, "2 passed, 0 failed", "Promise verified"),
            (Qa, true, "tried it", "Promise verified"),
            (Qa, true, "I still need to try it", "Output contains contradictions to promise"),
        ] {
            let facts = EvidenceFacts::default();
            let verified = Stage::of(name).verify(found, output, facts, &Patterns::default());
            assert_eq!(verified.reason.as_str(), words, "{name}: {output}");
            assert_eq!(verified.valid, words == "Promise verified");
            // Without verification the form is all that counts.
            let trusting = Stage { verifies: false, ..Stage::of(name) };
            assert_eq!(trusting.verify(found, output, facts, &Patterns::default()).valid, found);
        }
    }
}
