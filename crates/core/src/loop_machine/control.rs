//! What people, signals and a found death ask of a loop, whatever it is doing.

use super::{
    decide::Turn,
    effect::Effect,
    input::Request,
    state::{JudgeStep, Phase},
};
use crate::{
    duration::Millis,
    event::{IterationOutcome, LoopEvent, Reason, StopCause},
};

impl Turn {
    pub(super) fn owner_died(&mut self) {
        if !self.is_alive() {
            return;
        }
        self.close_cut_iteration();
        // A cancel that was under way is carried out; anything else can be resumed.
        match self.state.stopping {
            Some(StopCause::Cancel) => {
                self.perform(Effect::CancelChildren);
                self.finish(Reason::Cancelled, self.cancelled_line());
            }
            _ => self.finish(Reason::Interrupted, "dacapo died while the loop was running".to_owned()),
        }
    }

    /// Closes an iteration that will never report: a claim without a verdict keeps it open, `resume` judges it again;
    /// so does an attempt that met an outage, `resume` makes another one.
    pub(super) fn close_cut_iteration(&mut self) {
        if self.state.iteration_is_open && self.state.claim.is_none() && !self.state.awaits_attempt {
            self.finish_iteration(IterationOutcome::Interrupted);
        }
    }

    pub(super) fn stop(&mut self, cause: StopCause) {
        if !self.is_alive() {
            return;
        }
        let again = self.state.stopping.is_some();
        // A cancel outranks a signal; a second signal only hurries.
        if !again || (cause == StopCause::Cancel && self.state.stopping != Some(StopCause::Cancel)) {
            self.record(LoopEvent::StopRequested { by: cause });
            self.perform(Effect::CancelChildren);
        }
        match self.state.phase {
            Phase::Running | Phase::Judging(JudgeStep::Check { .. }) => {
                // Somebody presses Ctrl-C twice on purpose; a service manager may well send TERM and HUP together.
                let hurry = again && cause == StopCause::Interrupt;
                let grace = if hurry { Millis(0) } else { self.started().policy.pace.kill_grace };
                self.perform(Effect::StopWork { grace });
            }
            _ => self.finish_stopped(),
        }
    }

    /// Ends the loop for the reason in `stopping`; the caller has made sure that nothing runs any more.
    pub(super) fn finish_stopped(&mut self) {
        match self.state.stopping {
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
            self.state.iterations,
            self.state.max_iterations
        )
    }

    pub(super) fn requested(&mut self, request: Request) {
        match request {
            Request::Cancel => {
                if self.is_alive() {
                    self.stop(StopCause::Cancel);
                } else if self.state.over().is_some_and(Reason::is_resumable) {
                    // Children outlive a supervisor that was killed.
                    self.perform(Effect::CancelChildren);
                    self.finish(Reason::Cancelled, self.cancelled_line());
                }
            }
            Request::Steer { text } => {
                if self.state.over().is_none_or(Reason::is_resumable) && self.state.phase != Phase::New {
                    self.record(LoopEvent::Steered { text });
                }
            }
            Request::Pause { now } => {
                if !self.is_alive() || self.state.phase == Phase::Paused || self.state.stopping.is_some() {
                    return;
                }
                self.record(LoopEvent::PauseRequested { now });
                match self.state.phase {
                    Phase::Delaying | Phase::Looking | Phase::AwaitingTasks | Phase::Parked => {
                        self.record(LoopEvent::Paused);
                    }
                    Phase::Running if now => {
                        let grace = self.started().policy.pace.kill_grace;
                        self.perform(Effect::StopWork { grace });
                    }
                    // A claim is judged to its end: there is no agent to hold.
                    _ => {}
                }
            }
            Request::Ask { text } => {
                if self.is_alive() {
                    self.ask(&text);
                }
            }
            Request::Unpause { grant } => {
                let is_held = self.state.phase == Phase::Paused || self.state.pausing;
                if is_held && !grant.is_nothing() {
                    self.record(LoopEvent::LimitsRaised { grant });
                }
                if self.state.phase == Phase::Paused {
                    self.record(LoopEvent::Unpaused);
                    self.go_on();
                } else if self.state.pausing {
                    self.record(LoopEvent::Unpaused);
                }
            }
        }
    }
}
