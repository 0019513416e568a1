//! What an agent must show beside its claim: form, then contradictions, then the evidence that the claimed item asks for.

use std::{collections::HashSet, fmt};

use serde::{Deserialize, Serialize};

use super::{
    approval::approves,
    claim::RefusalReason,
    contradiction::{self, Hit, Patterns},
    signal::Signal,
};
use crate::{item::ItemKey, policy::Policy};

/// A kind of evidence that an item can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A commit on the branch; where there is no git, words about one.
    Commit,
    /// Gates that pass; without any, words about tests that passed.
    Tests,
    /// Words that approve the work.
    Approval,
}

impl Evidence {
    pub const ALL: [Self; 3] = [Self::Commit, Self::Tests, Self::Approval];

    /// Its name, as on the command line and in configuration files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tests => "tests",
            Self::Approval => "approval",
        }
    }

    /// What the agent is told about it.
    pub(crate) fn in_prompt(self) -> &'static str {
        match self {
            Self::Commit => "Commit your work before that: without a commit the claim does not count.",
            Self::Tests => {
                "Run the tests before that, and say how they went: without tests that pass it does not count."
            }
            Self::Approval => {
                "Say in your own words whether you approve of the work: unless you do, it does not count."
            }
        }
    }

    /// What stands against a claim that does not show it.
    fn missing(self, output: &str, facts: EvidenceFacts) -> Option<EvidenceReason> {
        let says = |word: &str| output.to_lowercase().contains(word);
        let (is_shown, otherwise) = match self {
            Self::Commit => (facts.head_moved.unwrap_or_else(|| says("commit")), EvidenceReason::NoCommit),
            Self::Tests => {
                let is_said = || says_passed(output) && !counts_failures(output);
                (facts.gate_passed.unwrap_or_else(is_said), EvidenceReason::NoPassingTests)
            }
            Self::Approval => (approves(output), EvidenceReason::NoApproval),
        };
        (!is_shown).then_some(otherwise)
    }
}

/// Whether the words say that something passed, in a part of a sentence that does not say before it that nothing did: neither
/// `0 passed` nor `none of the tests passed` is a test that passed.
fn says_passed(output: &str) -> bool {
    const NOTHING: [&str; 11] =
        ["0", "zero", "no", "none", "not", "never", "nothing", "neither", "cannot", "hardly", "without"];
    output.split(['\n', ',', ';', '.', '!', '?', '(', ')', '|']).any(|part| {
        let words: Vec<String> = part
            .split_whitespace()
            .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase())
            .collect();
        let is_nothing = |word: &String| {
            NOTHING.contains(&word.as_str()) || word.replace('\u{2019}', "'").ends_with("n't")
        };
        let passed = words.iter().position(|word| word.contains("passed"));
        passed.is_some_and(|at| !words[..at].iter().any(is_nothing))
    })
}

/// Whether the words count tests that failed, as in `2 passed, 1 failed`.
fn counts_failures(output: &str) -> bool {
    let words: Vec<&str> = output.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let is_some = pair[0].parse::<u64>().is_ok_and(|number| number > 0);
        is_some && pair[1].trim_matches(|c: char| !c.is_alphanumeric()).eq_ignore_ascii_case("failed")
    })
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known about the work beyond the agent's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvidenceFacts {
    /// Whether the branch got a commit since the loop began.
    pub head_moved: Option<bool>,
    /// Whether the gates passed.
    pub gate_passed: Option<bool>,
}

/// What verification came to. Its texts are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvidenceReason {
    /// There is no promise of the right form.
    #[serde(rename = "Promise not found or malformed")]
    NotFound,
    /// The agent's words contradict it.
    #[serde(rename = "Output contains contradictions to promise")]
    Contradicted,
    /// There is no commit.
    #[serde(rename = "No commit detected in coder output")]
    NoCommit,
    /// Nothing says that tests passed.
    #[serde(rename = "No passing tests detected")]
    NoPassingTests,
    /// Nothing approves the work.
    #[serde(rename = "No review approval detected")]
    NoApproval,
    #[serde(rename = "Promise verified")]
    Verified,
}

impl EvidenceReason {
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

impl fmt::Display for EvidenceReason {
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
    pub reason: EvidenceReason,
    /// The words that contradict it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<Hit>,
}

/// Verifies a promise in `output`, the text that the agent wrote, for an item that asks for `rules`.
///
/// `promise_found` is the promise detector's answer. A fact that is known outranks the words: an agent whose branch moved
/// need not speak of a commit, and one whose branch did not may say what it likes.
#[must_use]
pub fn verify(
    rules: &[Evidence],
    promise_found: bool,
    output: &str,
    facts: EvidenceFacts,
    patterns: &Patterns,
) -> Verification {
    if !promise_found {
        return Verification { valid: false, reason: EvidenceReason::NotFound, contradiction: None };
    }
    if let Some(hit) = contradiction::find(output, patterns) {
        return Verification { valid: false, reason: EvidenceReason::Contradicted, contradiction: Some(hit) };
    }
    let reason =
        rules.iter().find_map(|rule| rule.missing(output, facts)).unwrap_or(EvidenceReason::Verified);
    Verification { valid: reason == EvidenceReason::Verified, reason, contradiction: None }
}

/// The lines of `output` that are not lines of the prompt: what a shell script prints may well be what it was given.
pub fn without_echo(output: &str, prompt: &str) -> String {
    let given: HashSet<&str> = prompt.lines().map(str::trim).collect();
    let own = output.lines().filter(|line| !given.contains(line.trim()));
    own.flat_map(|line| [line, "\n"]).collect()
}

/// What a claim lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingEvidence {
    /// The item that asks for it; absent: the whole work.
    #[serde(default, rename = "task", skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemKey>,
    pub reason: EvidenceReason,
}

/// What the agent's words, and what is known beside them, say about a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordsJudged {
    /// The words that contradict it.
    pub contradiction: Option<String>,
    /// What its items ask for and nothing shows.
    pub missing: Vec<MissingEvidence>,
}

/// Whether a claim under this policy can only be judged if it is known what the agent wrote.
pub fn needs_words(policy: &Policy) -> bool {
    !policy.claims.contradictions.is_off() || policy.items.iter().any(|item| !item.evidence.is_empty())
}

/// Verifies a claim by these signals in the `output` of its agent. Gates have not run yet: where some decide about an item,
/// the evidence of tests is left to them, since a red one refuses the claim by itself.
#[must_use]
pub fn verify_claim(policy: &Policy, by: &[Signal], output: &str, head_moved: Option<bool>) -> WordsJudged {
    let has_form = !by.iter().all(Signal::is_malformed);
    let mut judged = WordsJudged::default();
    // What contradicts the claim contradicts all of it, and is looked for once.
    let nothing_else = EvidenceFacts::default();
    let words = verify(&[], has_form, output, nothing_else, &policy.claims.contradictions);
    judged.contradiction = words.contradiction.map(|hit| hit.text);
    if !words.valid {
        return judged;
    }
    for item in policy.items.iter().filter(|item| item.is_claimed(by)) {
        let is_gated = policy.gates.specs.iter().any(|gate| gate.item.is_none() || gate.item == item.key);
        let facts = EvidenceFacts { head_moved, gate_passed: is_gated.then_some(true) };
        let verified = verify(&item.evidence, true, output, facts, &Patterns::off());
        if !verified.valid {
            judged.missing.push(MissingEvidence { item: item.key, reason: verified.reason });
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: EvidenceFacts = EvidenceFacts { head_moved: None, gate_passed: None };
    // What the stages of a pipeline ask for.
    const CODER: &[Evidence] = &[Evidence::Commit];
    const TESTER: &[Evidence] = &[Evidence::Tests];
    const REVIEWER: &[Evidence] = &[Evidence::Approval];
    const QA: &[Evidence] = &[];

    fn facts(head_moved: Option<bool>, gate_passed: Option<bool>) -> EvidenceFacts {
        EvidenceFacts { head_moved, gate_passed }
    }

    #[test]
    fn each_kind_has_its_rule_and_facts_outrank_words() {
        // req 182, req 183, req 184, req 179, req 180
        use EvidenceReason::*;
        for (stage, output, known, reason) in [
            (CODER, "I committed it", UNKNOWN, Verified),
            (CODER, "Commit 1234", UNKNOWN, Verified),
            (CODER, "COMMITTED", UNKNOWN, Verified),
            (CODER, "done", UNKNOWN, NoCommit),
            (CODER, "", UNKNOWN, NoCommit),
            (CODER, "I committed it", facts(Some(false), None), NoCommit),
            (CODER, "done", facts(Some(true), None), Verified),
            (CODER, "I committed it", facts(None, Some(false)), Verified),
            (TESTER, "12 Passed", UNKNOWN, Verified),
            (TESTER, "TESTS PASSED", UNKNOWN, Verified),
            (TESTER, "all green", UNKNOWN, NoPassingTests),
            (TESTER, "0 passed", UNKNOWN, NoPassingTests),
            (TESTER, "test result: ok. 0 passed; 0 failed; 0 ignored", UNKNOWN, NoPassingTests),
            (TESTER, "None passed.", UNKNOWN, NoPassingTests),
            (TESTER, "none of the tests passed", UNKNOWN, NoPassingTests),
            (TESTER, "the tests have not passed", UNKNOWN, NoPassingTests),
            (TESTER, "they haven\u{2019}t passed", UNKNOWN, NoPassingTests),
            (TESTER, "no failures, 10 passed", UNKNOWN, Verified),
            (TESTER, "0 passed in a.rs\n4 passed in b.rs", UNKNOWN, Verified),
            (TESTER, "test result: ok. 12 passed; 0 failed", UNKNOWN, Verified),
            (TESTER, "none passed", facts(None, Some(true)), Verified),
            (TESTER, "all passed", facts(None, Some(false)), NoPassingTests),
            (TESTER, "all green", facts(None, Some(true)), Verified),
            (REVIEWER, "REVIEW PASSED", UNKNOWN, Verified),
            (REVIEWER, "review passed", UNKNOWN, NoApproval),
            (REVIEWER, "Approved.", UNKNOWN, Verified),
            (REVIEWER, "looks good", facts(Some(true), Some(true)), NoApproval),
            (QA, "", UNKNOWN, Verified),
            (QA, "anything", facts(Some(false), Some(false)), Verified),
        ] {
            let expected = Verification { valid: reason == Verified, reason, contradiction: None };
            let found = verify(stage, true, output, known, &Patterns::default());
            assert_eq!(found, expected, "{stage:?} {output:?} {known:?}");
        }
    }

    #[test]
    fn form_comes_before_contradictions_and_those_before_the_rule() {
        // req 179, req 181
        let patterns = Patterns::default();
        let contradicted = "TODO: the rest";
        let without_form = verify(CODER, false, contradicted, UNKNOWN, &patterns);
        assert_eq!(without_form.reason, EvidenceReason::NotFound);
        assert!(!without_form.valid);

        let hit = Hit { pattern: "TODO:".into(), text: contradicted.into() };
        for stage in [CODER, TESTER, REVIEWER, QA] {
            let expected = Verification {
                valid: false,
                reason: EvidenceReason::Contradicted,
                contradiction: Some(hit.clone()),
            };
            assert_eq!(verify(stage, true, contradicted, UNKNOWN, &patterns), expected, "{stage:?}");
        }
        let unchecked = verify(CODER, true, contradicted, UNKNOWN, &Patterns::off());
        assert_eq!(unchecked.reason, EvidenceReason::NoCommit);
    }

    #[test]
    fn the_texts_are_these_in_the_journal_too() {
        // req 180, req 185
        for (reason, text, refusal) in [
            (EvidenceReason::NotFound, "Promise not found or malformed", Some("malformed")),
            (
                EvidenceReason::Contradicted,
                "Output contains contradictions to promise",
                Some("contradiction"),
            ),
            (EvidenceReason::NoCommit, "No commit detected in coder output", Some("no_evidence")),
            (EvidenceReason::NoPassingTests, "No passing tests detected", Some("no_evidence")),
            (EvidenceReason::NoApproval, "No review approval detected", Some("no_evidence")),
            (EvidenceReason::Verified, "Promise verified", None),
        ] {
            assert_eq!(reason.to_string(), text);
            assert_eq!(serde_json::to_value(reason).unwrap(), text);
            assert_eq!(reason.refusal().map(RefusalReason::as_str), refusal);
        }
        let stored = Verification { valid: true, reason: EvidenceReason::Verified, contradiction: None };
        assert_eq!(serde_json::to_string(&stored).unwrap(), r#"{"valid":true,"reason":"Promise verified"}"#);
        for evidence in Evidence::ALL {
            assert_eq!(serde_json::to_value(evidence).unwrap(), evidence.as_str());
        }
    }

    #[test]
    fn of_several_rules_the_first_that_nothing_shows_is_named() {
        let all = Evidence::ALL;
        for (output, known, reason) in [
            ("done", UNKNOWN, EvidenceReason::NoCommit),
            ("committed", UNKNOWN, EvidenceReason::NoPassingTests),
            ("committed, tests passed", UNKNOWN, EvidenceReason::NoApproval),
            ("approved", facts(Some(true), Some(true)), EvidenceReason::Verified),
            ("approved", facts(Some(true), Some(false)), EvidenceReason::NoPassingTests),
        ] {
            assert_eq!(verify(&all, true, output, known, &Patterns::off()).reason, reason, "{output}");
        }
    }

    #[test]
    fn what_repeats_the_prompt_is_not_the_agent_s_own() {
        let prompt = "Fix it.\n\nCommit your work.\n";
        for (output, own) in [
            ("Fix it.\n\n  Commit your work.\nok", "ok\n"),
            ("Commit your work. Done.\r\n", "Commit your work. Done.\n"),
            ("", ""),
        ] {
            assert_eq!(without_echo(output, prompt), own, "{output:?}");
        }
    }

    #[test]
    fn a_claim_is_verified_item_by_item() {
        // req 179
        use crate::{
            loop_machine::decide_tests::{items, policy},
            policy::GateSpec,
        };
        let asks = |rules: &[Evidence]| policy(|p| p.items[0].evidence = rules.to_vec());
        let promise = [Signal::Promise("DONE".into())];
        let lacks = |item: Option<u32>, reason| MissingEvidence { item: item.map(ItemKey), reason };
        let found =
            |missing: &[MissingEvidence]| WordsJudged { contradiction: None, missing: missing.to_vec() };
        let contradicted = asks(CODER).with(|p| p.claims.contradictions = Patterns::default());
        let turn = items::turn(|p| {
            p.items[0].evidence = CODER.to_vec();
            p.items[1].evidence = REVIEWER.to_vec();
        });
        let both = [Signal::Item(ItemKey(2)), Signal::Item(ItemKey(3))];
        for (policy, by, output, head_moved, expected) in [
            (asks(QA), &promise[..], "", None, found(&[])),
            (asks(CODER), &promise, "done", None, found(&[lacks(None, EvidenceReason::NoCommit)])),
            (
                asks(CODER),
                &promise,
                "committed",
                Some(false),
                found(&[lacks(None, EvidenceReason::NoCommit)]),
            ),
            (asks(CODER), &promise, "done", Some(true), found(&[])),
            (asks(TESTER), &promise, "done", None, found(&[lacks(None, EvidenceReason::NoPassingTests)])),
            // Gates decide where there are some: a red one refuses the claim by itself.
            (
                asks(TESTER).with(|p| p.gates.specs = vec![GateSpec::of_command("make test")]),
                &promise,
                "done",
                None,
                found(&[]),
            ),
            (
                contradicted.clone(),
                &promise,
                "TODO: the rest",
                None,
                WordsJudged { contradiction: Some("TODO: the rest".into()), missing: vec![] },
            ),
            // What has no form is refused for that, and for nothing else.
            (contradicted, &[Signal::MalformedDone("link".into())][..], "TODO: the rest", None, found(&[])),
            (
                turn.clone(),
                &both[..],
                "done",
                Some(false),
                found(&[
                    lacks(Some(2), EvidenceReason::NoCommit),
                    lacks(Some(3), EvidenceReason::NoApproval),
                ]),
            ),
            (turn.clone(), &both, "done", Some(true), found(&[lacks(Some(3), EvidenceReason::NoApproval)])),
            (turn, &both[..1], "done", Some(true), found(&[])),
        ] {
            assert_eq!(verify_claim(&policy, by, output, head_moved), expected, "{by:?} {output}");
        }
    }
}
