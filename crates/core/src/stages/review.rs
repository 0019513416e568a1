//! What a reviewer says: its verdict, its findings, and what it decides about earlier ones; and what a coder says about them.
//!
//! A refusal is a line that begins with `REVIEW FAILED` or `CHANGES REQUESTED:`. The items of the list below it are findings; if
//! there is no list, its text is one. A line `FIXED F2`, `REFUTED F2: why`, `DEFERRED F2: why` or `REOPENED F2: why` is about an
//! earlier finding; one that is open again is not approved, whatever else is said. Lines of code and quoted lines say nothing.

use serde::{Deserialize, Serialize};

use super::FindingState;
use crate::judge::{
    approval::approves,
    own_lines::{OwnLine, behind, list_item, own_lines, unadorned},
};

/// The longest text of a finding that is kept, in characters.
const MAX_TEXT: usize = 1000;
/// How many findings of one review are kept.
const MAX_FINDINGS: usize = 50;

/// What a review comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    Approved,
    Refused,
    /// The reviewer has said neither.
    Unclear,
}

/// The answer of a reviewer, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub verdict: ReviewVerdict,
    /// Whether it also approves what it refuses. The refusal counts.
    pub says_both: bool,
    /// Findings without a number, in its own words.
    pub findings: Vec<String>,
    pub decisions: Vec<FindingDecision>,
}

/// What is said about a finding that has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingDecision {
    pub number: u32,
    pub state: FindingState,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What a line begins with by which a reviewer refuses the work.
pub(super) const REFUSALS: [&str; 2] = ["REVIEW FAILED", "CHANGES REQUESTED:"];
const DECISIONS: [(&str, FindingState); 4] = [
    ("FIXED", FindingState::Fixed),
    ("REFUTED", FindingState::Refuted),
    ("DEFERRED", FindingState::Deferred),
    ("REOPENED", FindingState::Open),
];

impl Review {
    /// Its loop heard the refusal. Where the answer that is kept of a long review does not hold it, `words` are what it finds.
    pub fn is_refused_as(&mut self, words: &str) {
        if self.verdict != ReviewVerdict::Refused {
            self.says_both = self.verdict == ReviewVerdict::Approved;
            self.verdict = ReviewVerdict::Refused;
            self.findings = vec![cut(words)];
        }
    }
}

/// Reads the answer of a reviewer.
pub fn review(answer: &str) -> Review {
    let mut review = Review {
        verdict: ReviewVerdict::Unclear,
        says_both: false,
        findings: Vec::new(),
        decisions: Vec::new(),
    };
    let is_approved = approves(answer);
    let mut is_refused = false;
    // What stands behind a refusal and in no list.
    let mut prose = String::new();
    let mut in_item = false;
    for OwnLine { text: line, is_indented } in own_lines(answer) {
        let bare = unadorned(line);
        if let Some(rest) = behind(line, &REFUSALS).filter(|_| !is_indented) {
            is_refused = true;
            in_item = false;
            add(&mut prose, unadorned(rest.trim_start_matches(':')));
        } else if let Some(decisions) = decisions_of(bare) {
            in_item = false;
            review.decisions.extend(decisions);
        } else if is_refused && bare.starts_with("<promise>") {
            in_item = false;
        } else if let Some(item) = list_item(line).filter(|_| is_refused) {
            in_item = true;
            match about_number(item) {
                // The reviewer insists: the finding is open, and it need not have been closed before.
                Some((number, why)) => {
                    review.decisions.push(FindingDecision {
                        number,
                        state: FindingState::Open,
                        why: cut(why),
                    });
                }
                None => review.findings.push(item.to_owned()),
            }
        } else if is_refused && line.trim().is_empty() {
            in_item = false;
        } else if in_item && !review.findings.is_empty() {
            // An item goes on in the next line.
            if let Some(last) = review.findings.last_mut() {
                add(last, line.trim());
            }
        } else if is_refused {
            add(&mut prose, line.trim());
        }
    }
    let insists = review.decisions.iter().any(|decision| decision.state == FindingState::Open);
    // What is open again is not approved.
    let is_refused = is_refused || (is_approved && insists);
    if is_refused && review.findings.is_empty() && !insists && !prose.is_empty() {
        review.findings.push(prose);
    }
    review.findings.truncate(MAX_FINDINGS);
    review.findings = review.findings.iter().map(|text| cut(text)).collect();
    review.verdict = match (is_refused, is_approved) {
        (true, _) => ReviewVerdict::Refused,
        (false, true) => ReviewVerdict::Approved,
        (false, false) => ReviewVerdict::Unclear,
    };
    review.says_both = is_refused && is_approved;
    review
}

/// What a coder says about findings. It closes none of them: the reviewer reads it.
pub fn replies(answer: &str) -> Vec<FindingDecision> {
    own_lines(answer).filter_map(|line| decisions_of(unadorned(line.text))).flatten().collect()
}

/// `F2: why`, or `F2 why`.
fn about_number(text: &str) -> Option<(u32, &str)> {
    let rest = text.trim_start_matches(['*', '`', '[']).strip_prefix('F')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..end].parse().ok().filter(|number| *number > 0)?;
    let behind = rest[end..].trim_start_matches(['*', '`', ']']);
    let is_end = behind.is_empty() || behind.starts_with([':', ' ', ',', '.', ';']);
    is_end.then(|| (number, behind.trim_start_matches([':', ' ', '.', ';', '-']).trim()))
}

/// `FIXED F1, F2: why`.
fn decisions_of(line: &str) -> Option<Vec<FindingDecision>> {
    let (rest, state) =
        DECISIONS.iter().find_map(|(word, state)| Some((line.strip_prefix(word)?, *state)))?;
    let mut rest = rest.strip_prefix([' ', ':', '*'])?.trim_start_matches([' ', ':', '*']);
    let mut numbers = Vec::new();
    while let Some((number, behind)) = about_number(rest) {
        numbers.push(number);
        match behind.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => {
                rest = behind;
                break;
            }
        }
    }
    let why = cut(rest);
    let all =
        numbers.iter().map(|number| FindingDecision { number: *number, state, why: why.clone() }).collect();
    (!numbers.is_empty()).then_some(all)
}

fn add(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

fn cut(text: &str) -> String {
    text.trim().chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use FindingState::{Deferred, Fixed, Open, Refuted};
    use ReviewVerdict::{Approved, Refused, Unclear};

    fn decision(number: u32, state: FindingState, why: &str) -> FindingDecision {
        FindingDecision { number, state, why: why.to_owned() }
    }

    #[test]
    fn an_answer_approves_refuses_or_does_neither() {
        // req 184
        for (answer, verdict, says_both) in [
            ("REVIEW PASSED\n", Approved, false),
            ("All good. Approved.", Approved, false),
            ("I have read it.", Unclear, false),
            ("REVIEW FAILED\n", Refused, false),
            ("**REVIEW FAILED**: no tests", Refused, false),
            ("## CHANGES REQUESTED:\n- x", Refused, false),
            ("CHANGES REQUESTED\n- x", Unclear, false),
            ("I would not say REVIEW FAILED here.", Unclear, false),
            // A reviewer that says both has refused.
            ("REVIEW PASSED\nREVIEW FAILED", Refused, true),
            ("CHANGES REQUESTED: rename x\nApproved after that.", Refused, true),
            ("REOPENED F1: still leaks\nREVIEW PASSED", Refused, true),
            ("I have not approved this.\nCHANGES REQUESTED\n- x", Unclear, false),
            ("```\nREVIEW PASSED\n```\nI do not know.", Unclear, false),
            ("Plan:\n\n    REVIEW FAILED\n\nREVIEW PASSED", Approved, false),
            // Quoted words and code are not the reviewer's.
            ("> REVIEW FAILED\nREVIEW PASSED", Approved, false),
            ("```\nCHANGES REQUESTED: x\n```\nREVIEW PASSED", Approved, false),
        ] {
            let found = review(answer);
            assert_eq!((found.verdict, found.says_both), (verdict, says_both), "{answer}");
        }
    }

    #[test]
    fn the_list_behind_a_refusal_is_findings_and_without_one_its_text_is() {
        for (answer, findings) in [
            ("CHANGES REQUESTED:\n- `a.rs:3`: leaks\n- no test\n", &["`a.rs:3`: leaks", "no test"][..]),
            ("REVIEW FAILED\n1. one\n   goes on\n2) two\n\nThank you.", &["one goes on", "two"]),
            ("CHANGES REQUESTED:\n\n    - indented\n    - too", &["indented", "too"]),
            ("CHANGES REQUESTED: rename x\nand y.\n", &["rename x and y."]),
            ("REVIEW FAILED", &[]),
            ("REVIEW FAILED: bad\n<promise>REVIEW_COMPLETE</promise>\n", &["bad"]),
            ("- not a finding\nREVIEW PASSED\n- nor this", &[]),
            ("REVIEW FAILED\n- F2: still leaks\n", &[]),
        ] {
            assert_eq!(review(answer).findings, findings, "{answer}");
        }
        let long = review(&format!("REVIEW FAILED\n{}", "- x\n".repeat(500)));
        assert_eq!(long.findings.len(), MAX_FINDINGS);
        assert_eq!(
            review(&format!("REVIEW FAILED: {}", "ä".repeat(5000))).findings[0].chars().count(),
            MAX_TEXT
        );
    }

    #[test]
    fn decisions_name_findings_by_their_number() {
        for (answer, expected) in [
            ("FIXED F1\nREVIEW PASSED", vec![decision(1, Fixed, "")]),
            ("- FIXED F1, F2: seen", vec![decision(1, Fixed, "seen"), decision(2, Fixed, "seen")]),
            ("**REFUTED** F3: it is safe", vec![decision(3, Refuted, "it is safe")]),
            ("DEFERRED F4 - later", vec![decision(4, Deferred, "later")]),
            ("REOPENED F5", vec![decision(5, Open, "")]),
            ("REVIEW FAILED\n- F2: still leaks", vec![decision(2, Open, "still leaks")]),
            ("FIXED Four", vec![]),
            ("FIXED F0", vec![]),
            ("FIXED F99999999999", vec![]),
            ("I FIXED F1", vec![]),
            ("FIXEDF1", vec![]),
        ] {
            assert_eq!(review(answer).decisions, expected, "{answer}");
        }
        assert_eq!(
            replies("FIXED F1\n> FIXED F2\nREFUTED F3: no"),
            [decision(1, Fixed, ""), decision(3, Refuted, "no")]
        );
    }

    proptest::proptest! {
        #[test]
        fn no_answer_is_too_odd_to_be_read(answer in ".{0,300}") {
            let read = review(&answer);
            proptest::prop_assert!(read.findings.iter().all(|text| !text.is_empty()));
            proptest::prop_assert!(read.verdict == Refused || read.findings.is_empty());
            let _ = replies(&answer);
        }
    }
}
