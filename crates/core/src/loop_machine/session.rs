//! What a loop inside a chat session does when the host of the session says something. The host is the agent of such a loop: the
//! end of a turn is the end of an attempt, and a prompt is handed to the host.

use super::{
    decide::Decision,
    effect::Effect,
    input::{HostSessionError, SessionIdle, SharedSpend, Supply},
    phase::{Iteration, JudgeStep, Phase},
};
use crate::{
    event::{IdleSkip, IterationOutcome, LoopEvent, Outcome, Reason, Spend},
    judge::claim::RefusalReason,
    session::{IdleJudgement, RECOVERY, judge_idle},
    text::count,
};

impl Decision {
    pub(super) fn is_in_session(&self) -> bool {
        self.started().session.is_some()
    }

    /// The agent of the session has ended a turn.
    pub(super) fn session_idle(&mut self, idle: SessionIdle) {
        let SessionIdle { report, turn, transcript, has_news, background, unpriced, seal } = idle;
        let iteration = self.state.counters.iterations;
        match judge_idle(&self.state.session, report.at, turn, has_news, &background) {
            IdleJudgement::Duplicate => return,
            IdleJudgement::Recovering(until) => {
                self.record(LoopEvent::IdleSkipped { iteration, why: IdleSkip::Recovering { until } });
                return self.perform(Effect::AwaitRecovery { until });
            }
            IdleJudgement::Background(tasks) => {
                return self
                    .record(LoopEvent::IdleSkipped { iteration, why: IdleSkip::Background { tasks } });
            }
            IdleJudgement::TakenUp => {}
        }
        if let Phase::Parked(parking) = &self.state.phase
            && report.at < parking.until
            && !has_news
        {
            // Some hosts report the end of a turn that met the limit.
            return;
        }
        self.refuse_cut_claim();
        self.record(LoopEvent::SessionIdled { iteration, at: report.at, turn, transcript, seal });
        let spend = report.exit.spend();
        if self.state.phase == Phase::Running {
            if unpriced.is_some() {
                self.usage_seen(spend, &SharedSpend::default(), unpriced, true);
            }
            return self.agent_exited(report);
        }
        // The loop was resumed, unpaused or parked, or a hook was ended before it had handed over a prompt: the turn belongs to no
        // attempt, and may all the same hold a claim. That a turn ended says that the provider answers.
        if spend != Spend::default() {
            let attempt = self.state.counters.attempts;
            let model = report.exit.model.clone();
            self.record(LoopEvent::UsageSeen { iteration, attempt, spend, model });
        }
        if let Some((id, tree)) = report.snapshot {
            self.record(LoopEvent::SnapshotTaken { iteration, id, tree });
        }
        self.markers_read(&report.facts, &Supply::default());
    }

    /// Refuses a claim whose hook was ended before the claim had a verdict: the host's time limit for hooks may be too short. It
    /// is never accepted for that, and never forgotten.
    fn refuse_cut_claim(&mut self) {
        let Phase::Judging(step, judging) = &self.state.phase else { return };
        let detail = match step {
            JudgeStep::Gate { index, .. } => {
                let gate = self.policy().gates.specs.get(*index).map_or("", |gate| gate.name.as_str());
                format!("the host ended the hook before the check `{gate}` had finished")
            }
            _ => "the host ended the hook before the claim was judged".to_owned(),
        };
        let iteration = judging.claim.iteration;
        self.record(LoopEvent::ClaimRefused { iteration, reason: RefusalReason::GateFailed, detail });
        if self.state.iteration != Iteration::Closed {
            self.finish_iteration(IterationOutcome::Refused);
        }
    }

    /// Why the session is let go although the work is not done: its agent changes nothing any more.
    pub(super) fn unchanged_idles(&self) -> Option<String> {
        let limit = self.policy().limits.unchanged_idles?;
        let unchanged = self.state.session.unchanged;
        let is_known = self.state.progress.tree.is_some();
        let refused = self
            .state
            .refusals
            .last()
            .map(|refused| format!("; the last claim was refused: {}", refused.detail));
        (is_known && unchanged >= limit).then(|| {
            format!(
                "the agent stopped {} in a row without a change of any file{}",
                count(unchanged, "time"),
                refused.unwrap_or_default()
            )
        })
    }

    /// The host reports an error of the session.
    pub(super) fn session_failed(&mut self, error: HostSessionError) {
        if error.is_abort {
            return self.session_ends("the user aborted the turn of the session".to_owned());
        }
        let until = error.at.checked_add(RECOVERY).unwrap_or(error.at);
        self.record(LoopEvent::SessionErred { error: error.words, until });
    }

    /// The session or its turn is gone by the user's will, and the loop with it.
    pub(super) fn session_ends(&mut self, why: String) {
        self.perform(Effect::CancelChildren);
        self.close_cut_iteration();
        self.finish(Reason::Cancelled, why);
    }

    /// The host could not be given the prompt of the newest iteration, which is not charged for that. The next idle tries again.
    pub(super) fn prompt_not_delivered(&mut self, why: String) {
        let iteration = self.state.counters.iterations;
        self.record(LoopEvent::PromptNotDelivered { iteration, why });
    }

    /// What the end of a turn that was never prompted means: the user may have talked to the agent meanwhile.
    pub(super) fn is_undelivered(&self, outcome: Outcome) -> bool {
        self.state.session.is_undelivered && outcome == Outcome::Completed
    }
}
