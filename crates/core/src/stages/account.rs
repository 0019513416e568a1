//! What the events of a stage's loop say about the task: an entry of the execution log for each iteration, and why claims were
//! refused.

use super::{StageIteration, StageName};
use crate::{
    event::{IterationOutcome, LoopEvent, Outcome, Reason},
    ids::TaskId,
    judge::{claim::RefusalReason, evidence::EvidenceReason, signal::Signal},
};

/// Reads the events of one loop, in their order.
#[derive(Clone, Debug)]
pub struct StageAccount {
    task: TaskId,
    stage: StageName,
    /// The iteration that is under way.
    entry: Option<StageIteration>,
    refusals: Vec<String>,
    /// Whether the agent refuses the work that it was asked to judge.
    says_no: bool,
    tree: Option<(String, String)>,
    has_committed: bool,
    blocks: u32,
    was_steered: bool,
}

impl StageAccount {
    pub fn new(task: TaskId, stage: StageName) -> Self {
        Self {
            task,
            stage,
            entry: None,
            refusals: Vec::new(),
            says_no: false,
            tree: None,
            has_committed: false,
            blocks: 0,
            was_steered: false,
        }
    }

    /// Why claims were refused, in their order.
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// The tree at the beginning of the loop, and the newest that is kept.
    pub fn trees(&self) -> Option<(&str, &str)> {
        self.tree.as_ref().map(|(first, last)| (first.as_str(), last.as_str()))
    }

    /// Whether the branch got commits, by the agent or by dacapo.
    pub fn has_committed(&self) -> bool {
        self.has_committed
    }

    /// How often the loop has ended because its agent was blocked.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Whether the user has said something to the loop.
    pub fn was_steered(&self) -> bool {
        self.was_steered
    }

    /// Takes in the next event; an iteration that it ends is an entry.
    pub fn take(&mut self, event: &LoopEvent) -> Option<StageIteration> {
        match event {
            LoopEvent::LoopStarted(started) => {
                self.tree = started.base.as_ref().map(|base| (base.tree.clone(), base.tree.clone()));
            }
            LoopEvent::SnapshotTaken { tree, .. } => self.see(tree),
            LoopEvent::IterationStarted { iteration, max_iterations } => {
                self.entry = Some(StageIteration {
                    task_id: self.task.to_string(),
                    stage: self.stage,
                    ralph_iteration: *iteration,
                    ralph_max: *max_iterations,
                    promise_found: false,
                    continuing: false,
                    duration_ms: 0,
                    exit_code: None,
                    timed_out: false,
                    verification: None,
                    gated: false,
                    refusal: None,
                    cost_usd: None,
                });
            }
            LoopEvent::AgentExited { exit, .. } => {
                let entry = self.entry.as_mut()?;
                entry.duration_ms = entry.duration_ms.saturating_add(exit.duration_ms.0);
                entry.exit_code = exit.exit_code;
                entry.timed_out = matches!(exit.outcome, Outcome::Timeout | Outcome::Hang);
                if let Some(cost) = exit.cost_usd {
                    *entry.cost_usd.get_or_insert(0.0) += cost;
                }
            }
            LoopEvent::SignalSeen { signal: Signal::Promise(_), .. } => {
                self.entry.as_mut()?.promise_found = true;
            }
            // The agent has said its no, which ends its loop.
            LoopEvent::SignalSeen { signal: Signal::Refusal(words), .. } => {
                self.says_no = true;
                self.entry.as_mut()?.refusal = Some(words.clone());
            }
            // Written, but not as it must be.
            LoopEvent::SignalSeen { signal: Signal::NearMiss(_), .. } => {
                self.entry.as_mut()?.verification = Some(EvidenceReason::NotFound);
            }
            LoopEvent::ClaimMade { by, .. } => {
                let entry = self.entry.as_mut()?;
                entry.promise_found |= by.iter().any(|signal| matches!(signal, Signal::Promise(_)));
            }
            LoopEvent::ClaimExamined { found, .. } => {
                self.see(&found.tree.clone());
                self.has_committed |= !found.commits.is_empty();
                let entry = self.entry.as_mut()?;
                entry.verification = match &found.contradiction {
                    Some(_) => Some(EvidenceReason::Contradicted),
                    None => found.missing_evidence.first().map(|missing| missing.reason),
                };
            }
            LoopEvent::ClaimRefused { reason, detail, .. } => {
                self.refusals.push(detail.clone());
                let entry = self.entry.as_mut()?;
                entry.refusal = Some(detail.clone());
                if *reason == RefusalReason::Malformed {
                    entry.verification = Some(EvidenceReason::NotFound);
                }
            }
            LoopEvent::ClaimAccepted { verified, .. } => {
                let entry = self.entry.as_mut()?;
                (entry.verification, entry.gated) = (Some(EvidenceReason::Verified), *verified);
            }
            LoopEvent::IterationFinished { outcome, .. } => {
                let mut entry = self.entry.take()?;
                let is_open = matches!(
                    outcome,
                    IterationOutcome::NoClaim
                        | IterationOutcome::Refused
                        | IterationOutcome::Interrupted
                        | IterationOutcome::NotStarted
                );
                entry.continuing = is_open && !self.says_no && entry.ralph_iteration < entry.ralph_max;
                return Some(entry);
            }
            LoopEvent::LoopFinished { reason: Reason::Blocked, .. } => self.blocks += 1,
            LoopEvent::Steered { .. } => self.was_steered = true,
            _ => {}
        }
        None
    }

    fn see(&mut self, tree: &str) {
        if let Some((_, last)) = &mut self.tree {
            tree.clone_into(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        duration::Millis,
        event::{AgentExit, AttemptJudgement, IterationProgress, OutputMarks},
        judge::promise::MissReason,
    };

    fn exited(outcome: Outcome) -> LoopEvent {
        LoopEvent::AgentExited {
            iteration: 1,
            attempt: 1,
            exit: AgentExit {
                exit_code: Some(0),
                signal: None,
                duration_ms: Millis(45_000),
                outcome,
                stdout_bytes: 0,
                stderr_bytes: 0,
                dropped_bytes: 0,
                leftovers: 0,
                session: None,
                model: None,
                usage: None,
                cost_usd: Some(0.25),
                estimated: false,
                reset_at: None,
                detail: None,
                output: OutputMarks::default(),
            },
            judged: AttemptJudgement::default(),
        }
    }

    fn iteration(between: Vec<LoopEvent>, outcome: IterationOutcome) -> StageIteration {
        let mut account = StageAccount::new("TASK-001".parse().unwrap(), StageName::Coder);
        let first = LoopEvent::IterationStarted { iteration: 1, max_iterations: 15 };
        assert_eq!(account.take(&first), None);
        for event in &between {
            assert_eq!(account.take(event), None);
        }
        let spent_ms = Millis(0);
        let progress = IterationProgress::default();
        account.take(&LoopEvent::IterationFinished { iteration: 1, outcome, spent_ms, progress }).unwrap()
    }

    #[test]
    fn each_iteration_is_an_entry_with_its_promise_its_verification_and_its_cost() {
        // req 185, req 189, req 190, req 191, req 192
        let signal = |signal| LoopEvent::SignalSeen { iteration: 1, signal };
        let promise = || signal(Signal::Promise("IMPLEMENTATION_COMPLETE".to_owned()));
        let refused = |reason| LoopEvent::ClaimRefused { iteration: 1, reason, detail: "why".to_owned() };
        let entry = iteration(vec![exited(Outcome::Completed)], IterationOutcome::NoClaim);
        assert_eq!((entry.ralph_iteration, entry.ralph_max, entry.duration_ms), (1, 15, 45_000));
        assert_eq!((entry.exit_code, entry.cost_usd), (Some(0), Some(0.25)));
        assert_eq!((entry.promise_found, entry.continuing, entry.timed_out), (false, true, false));
        let entry = iteration(vec![exited(Outcome::Timeout)], IterationOutcome::NoClaim);
        assert!(entry.timed_out && entry.continuing, "a timeout is an iteration that failed");
        let miss = signal(Signal::NearMiss(MissReason::NotAlone));
        let entry = iteration(vec![miss], IterationOutcome::NoClaim);
        assert_eq!((entry.promise_found, entry.verification), (false, Some(EvidenceReason::NotFound)));
        let entry = iteration(vec![promise(), refused(RefusalReason::GateFailed)], IterationOutcome::Refused);
        assert_eq!((entry.promise_found, entry.continuing), (true, true));
        assert_eq!(entry.refusal.as_deref(), Some("why"));
        let no = signal(Signal::Refusal("REVIEW FAILED".to_owned()));
        let entry = iteration(vec![no], IterationOutcome::NoClaim);
        assert_eq!((entry.promise_found, entry.continuing), (false, false));
        let accepted = LoopEvent::ClaimAccepted { iteration: 1, verified: true };
        let entry = iteration(vec![promise(), accepted], IterationOutcome::Accepted);
        assert_eq!((entry.verification, entry.continuing), (Some(EvidenceReason::Verified), false));
        assert!(entry.gated);
        let believed = LoopEvent::ClaimAccepted { iteration: 1, verified: false };
        let entry = iteration(vec![promise(), believed], IterationOutcome::Accepted);
        assert_eq!((entry.verification, entry.gated), (Some(EvidenceReason::Verified), false));
    }
}
