//! Whether a stage's promise is believed: its form, then contradictions, then the stage's own rule.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::claim::RefusalReason;
use super::contradiction::{self, Hit, Patterns};

/// A role a task passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Writes the change and commits it.
    Coder,
    Tester,
    Reviewer,
    /// Has the last look.
    Qa,
}

impl Stage {
    /// Its name, as in configuration and on screen.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coder => "coder",
            Self::Tester => "tester",
            Self::Reviewer => "reviewer",
            Self::Qa => "qa",
        }
    }
}

/// What is known about a stage's work beyond its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFacts {
    /// Whether the branch got a commit since the stage began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_moved: Option<bool>,
    /// Whether the gates passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_passed: Option<bool>,
}

/// What verification came to. Its texts are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// There is no promise of the right form.
    #[serde(rename = "Promise not found or malformed")]
    NotFound,
    /// The agent's words contradict it.
    #[serde(rename = "Output contains contradictions to promise")]
    Contradicted,
    /// A coder without a commit.
    #[serde(rename = "No commit detected in coder output")]
    NoCommit,
    /// A tester without a passing test.
    #[serde(rename = "No passing tests detected")]
    NoPassingTests,
    /// A reviewer without an approval.
    #[serde(rename = "No review approval detected")]
    NoApproval,
    #[serde(rename = "Promise verified")]
    Verified,
}

impl Reason {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "Promise not found or malformed",
            Self::Contradicted => "Output contains contradictions to promise",
            Self::NoCommit => "No commit detected in coder output",
            Self::NoPassingTests => "No passing tests detected",
            Self::NoApproval => "No review approval detected",
            Self::Verified => "Promise verified",
        }
    }

    /// The kind of refusal it is, or `None` if the promise is believed.
    #[must_use]
    pub fn refusal(self) -> Option<RefusalReason> {
        match self {
            Self::NotFound => Some(RefusalReason::Malformed),
            Self::Contradicted => Some(RefusalReason::Contradiction),
            Self::NoCommit | Self::NoPassingTests | Self::NoApproval => Some(RefusalReason::NoEvidence),
            Self::Verified => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of a verification, kept with the iteration and told to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Whether the promise is believed.
    pub valid: bool,
    /// Why, or why not.
    pub reason: Reason,
    /// The words that contradict it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<Hit>,
}

/// Verifies a promise in `output`, the text an agent wrote in `stage`.
///
/// `promise_found` is the promise detector's answer. A fact that is known outranks the words: a coder
/// whose branch moved need not speak of a commit, and one whose branch did not may say what it likes.
#[must_use]
pub fn verify(
    stage: Stage,
    promise_found: bool,
    output: &str,
    facts: StageFacts,
    patterns: &Patterns,
) -> Verification {
    if !promise_found {
        return Verification { valid: false, reason: Reason::NotFound, contradiction: None };
    }
    if let Some(hit) = contradiction::find(output, patterns) {
        return Verification { valid: false, reason: Reason::Contradicted, contradiction: Some(hit) };
    }
    let reason = missing_evidence(stage, output, facts).unwrap_or(Reason::Verified);
    Verification { valid: reason == Reason::Verified, reason, contradiction: None }
}

/// What the stage's rule misses.
fn missing_evidence(stage: Stage, output: &str, facts: StageFacts) -> Option<Reason> {
    let says = |word: &str| output.to_lowercase().contains(word);
    let (shown, otherwise) = match stage {
        Stage::Coder => (facts.head_moved.unwrap_or_else(|| says("commit")), Reason::NoCommit),
        Stage::Tester => (facts.gate_passed.unwrap_or_else(|| says("passed")), Reason::NoPassingTests),
        Stage::Reviewer => (output.contains("REVIEW PASSED") || says("approved"), Reason::NoApproval),
        Stage::Qa => return None,
    };
    (!shown).then_some(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: StageFacts = StageFacts { head_moved: None, gate_passed: None };

    fn facts(head_moved: Option<bool>, gate_passed: Option<bool>) -> StageFacts {
        StageFacts { head_moved, gate_passed }
    }

    #[test]
    fn each_stage_has_its_rule_and_facts_outrank_words() {
        // req 182, req 183, req 184, req 179, req 180
        use Reason::*;
        for (stage, output, known, reason) in [
            (Stage::Coder, "I committed it", UNKNOWN, Verified),
            (Stage::Coder, "Commit 1234", UNKNOWN, Verified),
            (Stage::Coder, "COMMITTED", UNKNOWN, Verified),
            (Stage::Coder, "done", UNKNOWN, NoCommit),
            (Stage::Coder, "", UNKNOWN, NoCommit),
            (Stage::Coder, "I committed it", facts(Some(false), None), NoCommit),
            (Stage::Coder, "done", facts(Some(true), None), Verified),
            (Stage::Coder, "I committed it", facts(None, Some(false)), Verified),
            (Stage::Tester, "12 Passed", UNKNOWN, Verified),
            (Stage::Tester, "TESTS PASSED", UNKNOWN, Verified),
            (Stage::Tester, "all green", UNKNOWN, NoPassingTests),
            (Stage::Tester, "all passed", facts(None, Some(false)), NoPassingTests),
            (Stage::Tester, "all green", facts(None, Some(true)), Verified),
            (Stage::Reviewer, "REVIEW PASSED", UNKNOWN, Verified),
            (Stage::Reviewer, "review passed", UNKNOWN, NoApproval),
            (Stage::Reviewer, "Approved.", UNKNOWN, Verified),
            (Stage::Reviewer, "looks good", facts(Some(true), Some(true)), NoApproval),
            (Stage::Qa, "", UNKNOWN, Verified),
            (Stage::Qa, "anything", facts(Some(false), Some(false)), Verified),
        ] {
            let expected = Verification { valid: reason == Verified, reason, contradiction: None };
            let found = verify(stage, true, output, known, &Patterns::default());
            assert_eq!(found, expected, "{stage:?} {output:?} {known:?}");
        }
    }

    #[test]
    fn form_comes_before_contradictions_and_those_before_the_stage_rule() {
        // req 179, req 181
        let patterns = Patterns::default();
        let contradicted = "TODO: the rest";
        let without_form = verify(Stage::Coder, false, contradicted, UNKNOWN, &patterns);
        assert_eq!(without_form.reason, Reason::NotFound);
        assert!(!without_form.valid);

        let hit = Hit { pattern: "TODO:".into(), text: contradicted.into() };
        for stage in [Stage::Coder, Stage::Tester, Stage::Reviewer, Stage::Qa] {
            let expected =
                Verification { valid: false, reason: Reason::Contradicted, contradiction: Some(hit.clone()) };
            assert_eq!(verify(stage, true, contradicted, UNKNOWN, &patterns), expected, "{stage:?}");
        }
        let unchecked = verify(Stage::Coder, true, contradicted, UNKNOWN, &Patterns::off());
        assert_eq!(unchecked.reason, Reason::NoCommit);
    }

    #[test]
    fn the_texts_are_these_in_the_journal_too() {
        // req 180, req 185
        for (reason, text, refusal) in [
            (Reason::NotFound, "Promise not found or malformed", Some("malformed")),
            (Reason::Contradicted, "Output contains contradictions to promise", Some("contradiction")),
            (Reason::NoCommit, "No commit detected in coder output", Some("no_evidence")),
            (Reason::NoPassingTests, "No passing tests detected", Some("no_evidence")),
            (Reason::NoApproval, "No review approval detected", Some("no_evidence")),
            (Reason::Verified, "Promise verified", None),
        ] {
            assert_eq!(reason.to_string(), text);
            assert_eq!(serde_json::to_value(reason).unwrap(), text);
            assert_eq!(reason.refusal().map(RefusalReason::as_str), refusal);
        }
        let stored = Verification { valid: true, reason: Reason::Verified, contradiction: None };
        assert_eq!(serde_json::to_string(&stored).unwrap(), r#"{"valid":true,"reason":"Promise verified"}"#);
        assert_eq!(serde_json::to_value(Stage::Qa).unwrap(), Stage::Qa.as_str());
    }
}
