//! What must hold in every journal.

use crate::{
    duration::Millis,
    event::{GateRole, IterationOutcome, LoopEvent, Outcome, Reason},
    item::{ItemKey, claimed_items},
    judge::{expectation::Expectation, signal::Signal},
    loop_machine::ItemCommit,
    policy::Policy,
};
use std::collections::{BTreeMap, BTreeSet};

/// Reads a journal along and panics at the first event that must not be there.
#[derive(Default)]
pub(super) struct Auditor {
    max: u32,
    iterations: u32,
    attempts: u32,
    is_open: bool,
    /// Whether the open iteration has no agent that was charged for it.
    awaits_attempt: bool,
    /// Whether that was so when the claim was made.
    claim_awaits_attempt: bool,
    /// Whether a budget is used up.
    broke: bool,
    agent: String,
    /// Whether the newest agent was told to go on with a session.
    resumes: bool,
    policy: Option<Policy>,
    /// Whether the workspace can be looked at.
    sees: bool,
    /// Gates that agreed with the claim since the loop was last taken up.
    green: usize,
    /// The tree that was found for it since then.
    tree: Option<String>,
    /// Whether all gates were said to agree, and the workspace to have held still.
    passed: bool,
    held: bool,
    committed: Vec<String>,
    /// The items that are claimed, and what the newest try of their gates came to.
    claimed: BTreeSet<ItemKey>,
    proven: BTreeMap<ItemKey, bool>,
    /// The items whose evidence the newest look did not find; `None` for the whole work.
    lacking: BTreeSet<Option<ItemKey>>,
    /// The items of the accepted claim, and those that have their commit.
    kept: BTreeSet<ItemKey>,
    completed: BTreeSet<ItemKey>,
    receipts: u32,
    /// Gates that were red and green before the first agent.
    before: (usize, usize),
    check_runs: bool,
    claim_is_open: bool,
    /// Whether the agent said in the open iteration that it is blocked, and whether it claims to be done as well.
    blocked: bool,
    claims_though_blocked: bool,
    /// Whether an iteration ended so: nothing but the end of the loop follows.
    ended_blocked: bool,
    /// Whether the agent refused in the open iteration the work that it was to judge, and whether the newest one ended so.
    refuses: bool,
    ended_with_refusal: bool,
    /// What the check that runs must come to.
    expect: Expectation,
    pub(super) accepted: u32,
    spent: Millis,
    asked_to_stop: bool,
    holds: bool,
    pub(super) over: Option<Reason>,
    /// A person's words that no finished agent has read, and the iteration whose prompt has them.
    untold: Vec<(String, Option<u32>)>,
    told: Vec<String>,
}

impl Auditor {
    pub(super) fn read(&mut self, event: &LoopEvent) {
        if let Some(reason) = self.over {
            // fault B12: one reason per stretch; nothing follows but what a person asks of a loop that stands still.
            let allowed = match event {
                LoopEvent::LoopResumed { .. } | LoopEvent::Steered { .. } => true,
                LoopEvent::LoopFinished { reason, .. } => *reason == Reason::Cancelled,
                _ => false,
            };
            assert!(allowed && reason.is_resumable(), "{event:?} after {reason:?}");
        }
        match event {
            LoopEvent::LoopStarted(started) => {
                assert_eq!(self.max, 0, "a loop begins once");
                self.max = started.policy.limits.max_iterations;
                self.agent.clone_from(&started.policy.agent.command.name);
                (self.policy, self.sees) = (Some(started.policy.clone()), started.base.is_some());
            }
            LoopEvent::LoopResumed { grant, .. } => {
                assert!(self.over.is_some(), "only what is over is resumed");
                self.max += grant.extra_iterations;
                self.broke = false;
                (self.over, self.asked_to_stop, self.holds, self.check_runs) = (None, false, false, false);
                self.judge_anew();
                if self.iterations == 0 && !self.claim_is_open {
                    self.before = (0, 0);
                }
            }
            LoopEvent::LimitsRaised { grant } => {
                self.max += grant.extra_iterations;
                self.broke = false;
            }
            LoopEvent::IterationStarted { iteration, max_iterations } => {
                assert_eq!(*iteration, self.iterations + 1, "no number is used twice or left out");
                assert_eq!(*max_iterations, self.max, "nothing but a person raises the limit");
                assert!(*iteration <= self.max, "max N means N");
                assert!(!self.is_open && !self.claim_is_open && !self.check_runs);
                assert!(!self.asked_to_stop && !self.holds, "no iteration after a stop or a pause");
                if *iteration == 1 {
                    self.may_begin();
                }
                assert!(!self.broke, "no iteration without money");
                assert!(
                    !self.ended_blocked,
                    "who is blocked is not started again before a person has seen it"
                );
                self.blocked = false;
                (self.iterations, self.is_open, self.awaits_attempt) = (*iteration, true, true);
            }
            LoopEvent::AgentStarted { iteration, attempt, agent, session, .. } => {
                // req 25: told before and after, once each.
                self.resumes = session.is_some();
                assert_eq!((*iteration, *attempt), (self.iterations, self.attempts + 1));
                assert!(self.is_open && self.awaits_attempt, "one agent per charged iteration");
                assert!(!self.broke && !self.asked_to_stop && !self.holds);
                assert_eq!(*agent, self.agent, "no agent but the one that was named");
                (self.attempts, self.awaits_attempt) = (*attempt, false);
                for (_, told) in &mut self.untold {
                    *told = Some(*iteration);
                }
            }
            LoopEvent::UsageSeen { iteration, attempt, .. } => {
                assert_eq!((*iteration, *attempt), (self.iterations, self.attempts));
                assert!(self.is_open && !self.awaits_attempt, "of an agent that runs");
            }
            LoopEvent::BudgetReached { .. } => {
                assert!(!self.broke, "said once");
                self.broke = true;
            }
            LoopEvent::AgentSwitched { agent, .. } => {
                assert_ne!(*agent, self.agent);
                assert!(!self.is_open || self.awaits_attempt, "not while one runs");
                self.agent.clone_from(agent);
            }
            LoopEvent::Parked { .. } => {
                assert!(!self.is_open || self.awaits_attempt, "not while an agent runs");
            }
            LoopEvent::AgentExited { iteration, attempt, exit, judged: _ } => {
                assert!(self.is_open);
                assert_eq!((*iteration, *attempt), (self.iterations, self.attempts));
                // fault E1: an outage uses up no iteration; fault C9: nor does a lost session.
                let is_lost = self.resumes && exit.outcome == Outcome::Crash && exit.session.is_none();
                self.awaits_attempt = is_lost || !exit.outcome.is_charged();
            }
            LoopEvent::ClaimMade { iteration, by } => {
                assert!(!self.claim_is_open && self.accepted == 0, "one claim at a time");
                assert_eq!(*iteration, self.iterations);
                self.claim_awaits_attempt = std::mem::take(&mut self.awaits_attempt);
                (self.claim_is_open, self.committed) = (true, vec![]);
                let is_the_agents =
                    !by.iter().all(|by| matches!(by, Signal::UntilCommand | Signal::OwnClaim));
                assert!(!self.refuses, "who refuses the work claims nothing");
                self.claims_though_blocked = self.blocked && is_the_agents;
                self.claimed = claimed_items(by).collect();
                let has_marks = self.policy().marks_items();
                let is_none = matches!(by[..], [Signal::MalformedItem(_)]);
                let by_marks = is_none || !self.claimed.is_empty();
                assert_eq!(has_marks, by_marks, "where items are marked, marks are the only claim");
                let is_ours = |key: &ItemKey| self.policy().item(*key).is_some();
                assert!(self.claimed.iter().all(is_ours), "only items of this loop");
                self.judge_anew();
            }
            LoopEvent::GateStarted { role, expect, .. } => {
                self.expect = expect.clone();
                assert!(!self.check_runs, "one check at a time");
                assert_eq!(*role == GateRole::Gate, self.claim_is_open);
                assert!(
                    *role != GateRole::Gate || self.has_looked(),
                    "no gate before the look at the workspace"
                );
                assert!(*role != GateRole::Baseline || self.iterations == 0, "before the first agent only");
                self.check_runs = true;
            }
            LoopEvent::GateFinished { role, result, item, .. } => {
                assert!(self.check_runs);
                self.check_runs = false;
                let (words, found) = (&self.expect, result.found);
                let is_expected = result.exit_code == words.exit_code
                    && (words.output_contains.is_none() || found.printed_wanted == Some(true))
                    && (words.output_not_contains.is_none() || found.printed_forbidden == Some(false));
                assert_eq!(result.passed, is_expected, "a check passes if it came to what is expected of it");
                assert!(!result.tolerated || self.policy().gates.tolerate_baseline && self.before.0 > 0);
                let is_green = *role == GateRole::Gate && (result.passed || result.tolerated);
                if let (GateRole::Gate, Some(item)) = (role, item) {
                    assert!(self.claimed.contains(item), "of an item that is not claimed no gate runs");
                    assert!(!self.lacking.contains(&Some(*item)), "nor of one without its evidence");
                    self.proven.insert(*item, is_green);
                } else {
                    self.green += usize::from(is_green);
                }
                if *role == GateRole::Baseline {
                    self.before.0 += usize::from(!result.passed);
                    self.before.1 += usize::from(result.passed);
                }
            }
            LoopEvent::ClaimExamined { iteration, found } => {
                assert!(self.claim_is_open && !self.check_runs && *iteration == self.iterations);
                self.tree = Some(found.tree.clone());
                self.lacking = found.missing_evidence.iter().map(|missing| missing.item).collect();
            }
            LoopEvent::GateTried { .. } | LoopEvent::TreeApproved { .. } => {}
            LoopEvent::GatesPassed { iteration } => {
                assert!(self.claim_is_open && !self.check_runs && *iteration == self.iterations);
                assert!(self.has_looked(), "looked at in this stretch");
                let of_all = self.policy().gates.specs.iter().filter(|gate| gate.item.is_none()).count();
                assert_eq!(self.green, of_all, "every gate passed, and in this stretch");
                assert!(self.claimed.is_empty() || !self.standing().is_empty(), "none is left of it");
                assert!(!self.lacking.contains(&None), "the evidence of the whole work is there");
                let shown = self.claimed.iter().filter(|item| !self.lacking.contains(&Some(**item)));
                assert_eq!(self.proven.len(), shown.count(), "each item was tried");
                self.passed = true;
            }
            LoopEvent::TreeHeld { iteration } => {
                assert!(self.claim_is_open && self.passed && *iteration == self.iterations);
                self.held = true;
            }
            LoopEvent::Committed { iteration, commit, item } => {
                // fault G7
                assert!(self.claim_is_open && self.held && *iteration == self.iterations);
                assert!(!self.committed.contains(commit), "told once per claim");
                assert!(item.is_some() || self.committed.is_empty(), "one commit, but for items");
                assert!(
                    item.is_none_or(|item| self.standing().contains(&item)),
                    "no commit of what is unproven"
                );
                self.committed.push(commit.clone());
                self.completed.extend(item);
            }
            LoopEvent::ReceiptIssued { receipt } => {
                assert_eq!((self.accepted, self.receipts), (1, 0), "one receipt per accepted claim");
                assert!(receipt.is_sound());
                let of_tasks = Some("tree of tasks".to_owned());
                let is_ours =
                    receipt.tree == self.tree || (!self.kept.is_empty() && receipt.tree == of_tasks);
                assert!(is_ours, "of what was looked at for this claim");
                let of_all = self.policy().gates.specs.iter().filter(|gate| gate.item.is_none()).count();
                assert_eq!(receipt.gates.len(), of_all + self.kept.len());
                let claim: BTreeSet<ItemKey> = claimed_items(&receipt.claim).collect();
                assert_eq!(claim, self.kept, "the items that were proven");
                let own = self
                    .committed
                    .iter()
                    .all(|own| receipt.commits.iter().filter(|c| *c == own).count() == 1);
                assert!(own, "its own commit, once: {receipt:?}");
                self.receipts = 1;
            }
            LoopEvent::ClaimRefused { iteration, .. } => {
                assert!(self.claim_is_open, "one verdict per claim");
                assert_eq!(*iteration, self.iterations);
                self.claim_is_open = false;
                // A refused claim drops out, and what else ended the agent counts again.
                self.awaits_attempt = std::mem::take(&mut self.claim_awaits_attempt);
            }
            LoopEvent::ClaimAccepted { iteration, verified } => {
                assert!(self.claim_is_open, "one verdict per claim");
                assert!(!self.asked_to_stop, "a stop outranks a claim");
                assert!(!self.claims_though_blocked, "who says both is not believed");
                assert_eq!((*iteration, *verified), (self.iterations, !self.policy().gates.specs.is_empty()));
                assert!(self.has_looked() && self.passed && self.held, "looked, gated, looked again");
                self.claim_is_open = false;
                self.kept = self.standing();
                self.accepted += 1;
                assert_eq!(self.accepted, 1, "a loop is done once");
            }
            LoopEvent::IterationFinished { iteration, outcome, spent_ms, progress: _ } => {
                assert!(self.is_open && !self.claim_is_open, "closed once, its claim judged");
                assert_eq!(*iteration, self.iterations);
                assert_eq!(*outcome == IterationOutcome::Accepted, self.accepted == 1);
                assert!(*spent_ms >= self.spent, "time does not run backwards");
                self.ended_with_refusal = std::mem::take(&mut self.refuses);
                self.ended_blocked = *outcome == IterationOutcome::Blocked;
                assert!(!self.ended_blocked || self.blocked, "only who says so is blocked");
                (self.spent, self.is_open, self.check_runs) = (*spent_ms, false, false);
                self.blocked = false;
                self.awaits_attempt = false;
                let unread = matches!(outcome, IterationOutcome::Interrupted | IterationOutcome::NotStarted);
                for (text, told) in std::mem::take(&mut self.untold) {
                    match told {
                        Some(_) if !unread => self.told.push(text),
                        _ => self.untold.push((text, None)),
                    }
                }
            }
            LoopEvent::Blocked { iteration, .. } => {
                assert!(self.is_open && *iteration == self.iterations);
                self.blocked = true;
            }
            LoopEvent::SignalSeen { signal, .. } => self.refuses |= matches!(signal, Signal::Refusal(_)),
            LoopEvent::Steered { text } => self.untold.push((text.clone(), None)),
            LoopEvent::PauseRequested { .. } | LoopEvent::Paused => self.holds = true,
            LoopEvent::Unpaused => self.holds = false,
            LoopEvent::StopRequested { .. } => self.asked_to_stop = true,
            LoopEvent::LoopFinished { state, reason, exit_code, iterations, .. } => {
                assert_eq!((*state, *exit_code), (reason.state(), reason.exit_code()));
                assert_eq!(*iterations, self.iterations - u32::from(self.awaits_attempt), "what was charged");
                assert_eq!(
                    *reason == Reason::Done,
                    self.accepted == 1,
                    "done is an accepted claim, and nothing else"
                );
                assert_eq!(self.receipts, self.accepted, "one receipt per accepted claim");
                assert!(*reason != Reason::Stuck || self.policy().limits.stuck_after.is_some());
                assert!(*reason != Reason::MaxIterations || self.iterations >= self.max);
                assert!(
                    !self.is_open || self.claim_is_open || self.awaits_attempt,
                    "only an open claim or an outage keeps an iteration open"
                );
                assert!(!self.check_runs || self.claim_is_open || self.iterations == 0);
                let is_blocked = std::mem::take(&mut self.ended_blocked);
                assert!(*reason != Reason::Blocked || is_blocked);
                let has_refused = std::mem::take(&mut self.ended_with_refusal);
                assert!(*reason != Reason::Refused || has_refused);
                // A person who goes on may have the files judged anew.
                self.refuses = false;
                self.over = Some(*reason);
            }
            LoopEvent::TasksAwaited { .. }
            | LoopEvent::SnapshotTaken { .. }
            | LoopEvent::OutlineTaken { .. }
            | LoopEvent::ChildrenAwaited { .. }
            | LoopEvent::ChildrenFinished { .. }
            | LoopEvent::Warned { .. }
            | LoopEvent::BudgetLow { .. }
            | LoopEvent::SessionIdled { .. }
            | LoopEvent::IdleSkipped { .. }
            | LoopEvent::SessionErred { .. }
            | LoopEvent::PromptNotDelivered { .. }
            | LoopEvent::QuestionAsked { .. } => {}
        }
    }

    fn policy(&self) -> &Policy {
        self.policy.as_ref().expect("a loop begins with its policy")
    }

    /// Whether the workspace was looked at for the open claim, and since the loop was last taken up.
    fn has_looked(&self) -> bool {
        self.tree.is_some() || !self.sees
    }

    /// The open claim has no proof yet.
    fn judge_anew(&mut self) {
        (self.green, self.tree, self.passed, self.held) = (0, None, false, false);
        self.proven.clear();
        self.lacking.clear();
    }

    /// The items of the claim whose gates passed.
    fn standing(&self) -> BTreeSet<ItemKey> {
        self.claimed.iter().copied().filter(|item| self.proven.get(item) == Some(&true)).collect()
    }

    /// The items that were accepted, or committed before the next one could not be.
    pub(super) fn proven_items(&self) -> BTreeSet<ItemKey> {
        self.kept.union(&self.completed).copied().collect()
    }

    /// These commits are asked for: of each item that was proven one, with its mark and those of the ones before it.
    pub(super) fn commits_items(&self, commits: &[ItemCommit]) {
        assert!(self.held, "not before the workspace held still");
        let items: Vec<ItemKey> = commits.iter().map(|commit| commit.item).collect();
        assert_eq!(items, self.standing().into_iter().collect::<Vec<_>>());
        for (at, commit) in commits.iter().enumerate() {
            let proven: BTreeSet<ItemKey> = items[..=at].iter().chain(&self.completed).copied().collect();
            assert_eq!(commit.done, proven.into_iter().collect::<Vec<_>>());
        }
    }

    /// Whether all gates ran before the first agent, if that was asked for.
    fn may_begin(&self) {
        let policy = self.policy();
        let (red, green) = self.before;
        if policy.gates.baseline || policy.gates.red_first || policy.gates.tolerate_baseline {
            assert_eq!(red + green, policy.gates.specs.len(), "each gate once before the first agent");
        }
        assert!(!policy.gates.red_first || green == 0, "red first");
    }

    /// An accepted claim whose loop did not get to its end counts for nothing.
    pub(super) fn forget_torn_end(&mut self) {
        if self.accepted == 1 && self.over.is_none() {
            (self.accepted, self.receipts) = (0, 0);
            self.kept.clear();
        }
    }

    /// An agent is given `prompt`.
    pub(super) fn prompted(&self, iteration: u32, prompt: &str) {
        assert_eq!((iteration, self.is_open), (self.iterations, true), "recorded before it is started");
        for (text, _) in &self.untold {
            assert_eq!(prompt.matches(text.as_str()).count(), 1, "said in the next prompt: {text}");
        }
        for text in &self.told {
            assert!(!prompt.contains(text), "said once: {text}");
        }
    }
}
