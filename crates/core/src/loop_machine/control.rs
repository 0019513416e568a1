//! What a loop does, in every phase, when a person or an OS signal stops or pauses it, when its supervisor died, and
//! when the disk fails.

use super::{
    decide::Decision,
    effect::Effect,
    phase::{Iteration, JudgeStep, Phase},
};
use crate::{
    duration::Millis,
    event::{Grant, IterationOutcome, LoopEvent, Reason, StopCause},
};

impl Decision {
    pub(super) fn owner_died(&mut self) {
        self.close_cut_iteration();
        // A cancel that was under way is carried out; anything else can be resumed.
        match self.state.orders.stop {
            Some(StopCause::Cancel) => {
                self.perform(Effect::CancelChildren);
                self.finish(Reason::Cancelled, self.cancelled_line());
            }
            Some(StopCause::Interrupt | StopCause::Terminate | StopCause::Hangup) | None => {
                self.finish(Reason::Interrupted, "dacapo died while the loop was running".to_owned());
            }
        }
    }

    pub(super) fn disk_failed(&mut self, detail: String) {
        self.perform(Effect::StopWork { grace: Millis(0) });
        self.close_cut_iteration();
        self.finish(Reason::Disk, detail);
    }

    /// Closes an iteration whose agent was cut off. An iteration with a claim that has no verdict stays open, because
    /// `resume` judges the claim again; so does one whose attempt met an outage, because `resume` makes another
    /// attempt.
    pub(super) fn close_cut_iteration(&mut self) {
        if self.state.iteration == Iteration::Open && self.state.judging().is_none() {
            self.finish_iteration(IterationOutcome::Interrupted);
        }
    }

    pub(super) fn stop(&mut self, cause: StopCause) {
        if self.is_in_session() && cause != StopCause::Cancel {
            // The host ends a hook that takes too long. A check that is cut short by that refuses the claim; the loop goes on.
            if let Phase::Judging(JudgeStep::Gate { .. }, _) = self.state.phase {
                self.stop_work();
            }
            return;
        }
        let again = self.state.orders.stop.is_some();
        // A cancel outranks a signal; a second signal only hurries.
        if !again || (cause == StopCause::Cancel && self.state.orders.stop != Some(StopCause::Cancel)) {
            self.record(LoopEvent::StopRequested { by: cause });
            self.perform(Effect::CancelChildren);
        }
        match self.state.phase {
            Phase::Running if self.is_in_session() => {
                self.close_cut_iteration();
                self.finish_stopped();
            }
            Phase::Running | Phase::Checking { .. } | Phase::Judging(JudgeStep::Gate { .. }, _) => {
                // A user presses Ctrl-C twice on purpose, but a service manager may send TERM and HUP together.
                let hurry = again && cause == StopCause::Interrupt;
                let grace = if hurry { Millis(0) } else { self.policy().pace.kill_grace };
                self.perform(Effect::StopWork { grace });
            }
            Phase::New
            | Phase::AwaitingTasks
            | Phase::Looking
            | Phase::Judging(JudgeStep::Children { .. } | JudgeStep::Rechecking | JudgeStep::Committing, _)
            | Phase::Delaying
            | Phase::Parked(_)
            | Phase::Paused { .. }
            | Phase::Over { .. } => self.finish_stopped(),
        }
    }

    /// Asks the running agent or check to end.
    pub(super) fn stop_work(&mut self) {
        let grace = self.policy().pace.kill_grace;
        self.perform(Effect::StopWork { grace });
    }

    /// Ends the loop for the reason in `orders.stop`. The caller has made sure that no agent or check runs any more.
    pub(super) fn finish_stopped(&mut self) {
        match self.state.orders.stop {
            Some(StopCause::Cancel) => self.finish(Reason::Cancelled, self.cancelled_line()),
            Some(StopCause::Interrupt) | None => {
                self.finish(Reason::Interrupted, "interrupted by Ctrl-C".to_owned())
            }
            Some(StopCause::Terminate) => self.finish(Reason::Terminated, "terminated by SIGTERM".to_owned()),
            Some(StopCause::Hangup) => {
                self.finish(Reason::Terminated, "the terminal is gone (SIGHUP)".to_owned())
            }
        }
    }

    fn cancelled_line(&self) -> String {
        format!(
            "Cancelled Ralph loop for {} at iteration {}/{}",
            self.started().task,
            self.state.counters.iterations,
            self.state.limits.max_iterations
        )
    }

    /// Cancels a loop that is over and could be resumed.
    pub(super) fn cancel_ended(&mut self, reason: Reason) {
        if reason.is_resumable() {
            // Children outlive a supervisor that was killed.
            self.perform(Effect::CancelChildren);
            self.finish(Reason::Cancelled, self.cancelled_line());
        }
    }

    /// Notes that the loop is to pause; `false` if it is about to end anyway.
    pub(super) fn ask_to_pause(&mut self, now: bool) -> bool {
        let may_pause = self.state.orders.stop.is_none();
        if may_pause {
            self.record(LoopEvent::PauseRequested { now });
        }
        may_pause
    }

    pub(super) fn unpause(&mut self, grant: Grant) {
        self.raise_limits(grant);
        self.record(LoopEvent::Unpaused);
        self.go_on();
    }

    /// Takes back a request to pause before the loop has paused.
    pub(super) fn take_back_pause(&mut self, grant: Grant) {
        if self.state.orders.pause {
            self.raise_limits(grant);
            self.record(LoopEvent::Unpaused);
        }
    }

    fn raise_limits(&mut self, grant: Grant) {
        if !grant.is_nothing() {
            self.record(LoopEvent::LimitsRaised { grant });
        }
    }
}
