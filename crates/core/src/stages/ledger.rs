//! The findings of a review: what the reviewer found, what became of it, and whether the review comes to an end.
//!
//! A finding has a number that it keeps. Only the reviewer and the user close one; what the coder says about it is kept beside
//! it. A round is one review. [`ReviewLedger::judge`] says what a review changes, and the [`Round`] that it makes is recorded, so that
//! [`ReviewLedger::take_round`] judges nothing.
//!
//! A review ends with a question to the user when three rounds have brought findings, or when a round changed nothing. So it
//! does end: every other round closes at least one finding and opens none.

use serde::{Deserialize, Serialize};

use super::{FindingDecision, Review, ReviewVerdict};

/// How many rounds may bring findings before the user is asked.
pub const ROUNDS_WITH_FINDINGS: usize = 3;

/// The finding of a refusal that names none.
const NO_REASON: &str = "The reviewer refused the work without a reason.";

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    Open,
    Fixed,
    /// The reviewer or the user has taken it back: it is no fault.
    Refuted,
    /// It is one, and nothing is done about it now.
    Deferred,
}

impl FindingState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Fixed => "fixed",
            Self::Refuted => "refuted",
            Self::Deferred => "deferred",
        }
    }
}

/// Who has decided about a finding. A coder never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    Reviewer,
    User,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewFinding {
    /// Counted from 1 within its task; `F1` in texts.
    pub number: u32,
    pub text: String,
    pub state: FindingState,
    /// The round that brought it.
    pub found_in: u32,
    /// Who decided about it last, and what was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<(Decider, String)>,
    /// What the coder says about it. It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coder_says: Option<FindingDecision>,
}

/// What one review changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Counted from 1 within the task.
    pub number: u32,
    /// The tree that was reviewed.
    pub tree: String,
    pub verdict: ReviewVerdict,
    /// New findings with their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<(u32, String)>,
    /// Findings whose state has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<FindingDecision>,
}

impl Round {
    /// Whether it brought findings, new ones or some that were closed before.
    pub fn brings_findings(&self) -> bool {
        let is_reopened = self.decided.iter().any(|decision| decision.state == FindingState::Open);
        self.verdict == ReviewVerdict::Refused && (!self.found.is_empty() || is_reopened)
    }
}

/// Why a review cannot go on without the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stalemate", rename_all = "snake_case")]
pub enum Stalemate {
    /// So many rounds have brought findings; how many each of them did.
    StillFinding { per_round: Vec<u32> },
    /// The coder has changed no file since the round before.
    SameTree,
    /// No finding was closed, and none is new.
    NothingSettled,
}

/// All findings of a task, and its rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewLedger {
    pub findings: Vec<ReviewFinding>,
    pub rounds: Vec<Round>,
    /// How many rounds lie before the user's last answer: they no longer count against the review.
    #[serde(default)]
    pub settled_rounds: usize,
}

impl ReviewLedger {
    /// The ledger of a run that begins with findings that earlier ones have left open.
    pub fn with_earlier(findings: &[String]) -> Self {
        let open = |(number, text): (u32, &String)| ReviewFinding {
            number,
            text: text.clone(),
            state: FindingState::Open,
            found_in: 0,
            decided: None,
            coder_says: None,
        };
        Self { findings: (1..).zip(findings).map(open).collect(), ..Self::default() }
    }

    pub fn open(&self) -> impl Iterator<Item = &ReviewFinding> {
        self.findings.iter().filter(|finding| finding.state == FindingState::Open)
    }

    /// What this review of `tree` changes. After a refusal at least one finding is open.
    pub fn judge(&self, review: &Review, tree: &str) -> Round {
        let number = u32::try_from(self.rounds.len()).unwrap_or(u32::MAX).saturating_add(1);
        let mut round =
            Round { number, tree: tree.to_owned(), verdict: review.verdict, found: vec![], decided: vec![] };
        let is_approved = review.verdict == ReviewVerdict::Approved;
        // What the reviewer insists on stays open, also if it says elsewhere that it is closed; an approval insists on nothing.
        let mut insists: Vec<u32> = Vec::new();
        for text in &review.findings {
            insists.extend(self.find(&mut round, text));
        }
        let (open, closed): (Vec<&FindingDecision>, Vec<&FindingDecision>) =
            review.decisions.iter().partition(|decision| decision.state == FindingState::Open);
        for FindingDecision { number, why, .. } in open.into_iter().filter(|_| !is_approved) {
            match self.finding(*number) {
                Some(known) => {
                    change(&mut round, known, FindingState::Open, why);
                    insists.push(known.number);
                }
                // A number that there is not, with words of its own: a new finding.
                None if !why.is_empty() => insists.extend(self.find(&mut round, why)),
                None => {}
            }
        }
        for decision in closed.into_iter().filter(|decision| !insists.contains(&decision.number)) {
            if let Some(known) = self.finding(decision.number) {
                change(&mut round, known, decision.state, &decision.why);
            }
        }
        match review.verdict {
            // An approval without a word about a finding says that it is gone.
            ReviewVerdict::Approved => {
                for finding in self.open() {
                    change(&mut round, finding, FindingState::Fixed, "the reviewer approved the work");
                }
            }
            ReviewVerdict::Refused if round.found.is_empty() && !self.stays_open(&round) => {
                self.find(&mut round, NO_REASON);
            }
            ReviewVerdict::Refused | ReviewVerdict::Unclear => {}
        }
        round
    }

    fn finding(&self, number: u32) -> Option<&ReviewFinding> {
        self.findings.iter().find(|known| known.number == number)
    }

    /// The reviewer has found this: a finding that is known by its words, whose number is the answer, or a new one.
    fn find(&self, round: &mut Round, text: &str) -> Option<u32> {
        let same = |other: &str| identity(other) == identity(text);
        if let Some(known) = self.findings.iter().find(|known| same(&known.text)) {
            // It cannot be closed in the same breath.
            round.decided.retain(|decision| decision.number != known.number);
            change(round, known, FindingState::Open, "");
            return Some(known.number);
        }
        if !round.found.iter().any(|(_, other)| same(other)) {
            let last = u32::try_from(self.findings.len() + round.found.len()).unwrap_or(u32::MAX);
            round.found.push((last.saturating_add(1), text.to_owned()));
        }
        None
    }

    /// Whether a finding that is known is open after this round.
    fn stays_open(&self, round: &Round) -> bool {
        self.findings.iter().any(|known| {
            let decided = round.decided.iter().find(|decision| decision.number == known.number);
            decided.map_or(known.state, |decision| decision.state) == FindingState::Open
        })
    }

    /// Takes in a round that was recorded.
    pub fn take_round(&mut self, round: &Round) {
        for decision in &round.decided {
            self.decide(decision, Decider::Reviewer);
        }
        for (number, text) in &round.found {
            self.findings.push(ReviewFinding {
                number: *number,
                text: text.clone(),
                state: FindingState::Open,
                found_in: round.number,
                decided: None,
                coder_says: None,
            });
        }
        self.rounds.push(round.clone());
    }

    /// Takes in what the coder says. It closes nothing.
    pub fn take_reply(&mut self, reply: &FindingDecision) {
        if let Some(finding) = self.findings.iter_mut().find(|known| known.number == reply.number) {
            finding.coder_says = Some(reply.clone());
        }
    }

    /// Takes in what the user decides; the rounds so far no longer count against the review.
    pub fn take_answer(&mut self, decisions: &[FindingDecision]) {
        for decision in decisions {
            self.decide(decision, Decider::User);
        }
        self.settled_rounds = self.rounds.len();
    }

    fn decide(&mut self, decision: &FindingDecision, by: Decider) {
        if let Some(finding) = self.findings.iter_mut().find(|known| known.number == decision.number) {
            finding.state = decision.state;
            finding.decided = Some((by, decision.why.clone()));
            if decision.state == FindingState::Open {
                finding.coder_says = None;
            }
        }
    }

    /// Whether the last round, in which the reviewer refused, is one too many.
    pub fn stalemate(&self) -> Option<Stalemate> {
        let rounds = &self.rounds[self.settled_rounds.min(self.rounds.len())..];
        let last = rounds.last().filter(|round| round.verdict == ReviewVerdict::Refused)?;
        let brought: Vec<&Round> = rounds.iter().filter(|round| round.brings_findings()).collect();
        if let Some(before) = self.rounds.len().checked_sub(2).and_then(|at| self.rounds.get(at))
            && before.tree == last.tree
        {
            return Some(Stalemate::SameTree);
        }
        if brought.len() >= ROUNDS_WITH_FINDINGS {
            let count = |round: &&Round| {
                let reopened = round.decided.iter().filter(|decision| decision.state == FindingState::Open);
                u32::try_from(round.found.len() + reopened.count()).unwrap_or(u32::MAX)
            };
            return Some(Stalemate::StillFinding { per_round: brought.iter().map(count).collect() });
        }
        // The first round may insist on what an earlier run has left open; the coder has not been told by a reviewer yet.
        let settles_nothing = last.found.is_empty() && last.decided.is_empty();
        (settles_nothing && self.rounds.len() > 1).then_some(Stalemate::NothingSettled)
    }

    /// The question to the user, with every finding that is open and what the coder says about it.
    pub fn question(&self, stalemate: &Stalemate) -> String {
        let mut text = match stalemate {
            Stalemate::StillFinding { per_round } => {
                let counts: Vec<String> = per_round.iter().map(u32::to_string).collect();
                format!(
                    "The review does not come to an end: {} rounds have brought findings ({}).",
                    per_round.len(),
                    counts.join(", ")
                )
            }
            Stalemate::SameTree => {
                "The reviewer refuses the work, and the coder has changed nothing since the round before."
                    .to_owned()
            }
            Stalemate::NothingSettled => {
                "The reviewer refuses the work for the same findings as in the round before.".to_owned()
            }
        };
        text.push_str("\nOpen:\n");
        for finding in self.open() {
            text.push_str(&format!("  F{}: {}\n", finding.number, finding.text));
            if let Some(reply) = &finding.coder_says {
                let why = if reply.why.is_empty() { String::new() } else { format!(": {}", reply.why) };
                text.push_str(&format!("      the coder says that it is {}{why}\n", reply.state.as_str()));
            }
        }
        text.push_str(
            "Approve to take the work as it is (what is open is deferred), or reject with what the coder is to do.",
        );
        text
    }
}

/// The state of a known finding changes, unless something was said about it before: the first word counts.
fn change(round: &mut Round, known: &ReviewFinding, state: FindingState, why: &str) {
    let is_decided = round.decided.iter().any(|decision| decision.number == known.number);
    if known.state != state && !is_decided {
        round.decided.push(FindingDecision { number: known.number, state, why: why.to_owned() });
    }
}

/// What two texts have in common if they are the same finding: its words, without marks and without the numbers of lines,
/// which move.
fn identity(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.to_lowercase().split_whitespace() {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        // `src/a.rs:12:3`
        let word = match word.split_once(':') {
            Some((path, place)) if place.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '-')) => {
                path
            }
            _ => word,
        };
        let is_number = word.chars().all(|c| c.is_ascii_digit() || c == '-');
        let is_line = words.last().is_some_and(|before| matches!(before.as_str(), "line" | "lines"));
        if !is_number || !(is_line || word.is_empty()) {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
