//! What follows from an input. Reads no clock, no file, no global.

use super::{
    effect::{BusPost, BusTarget, Effect, Step},
    input::{Begin, Input as In, Request},
    phase::{JudgeStep, Judging, Phase},
    state::LoopState,
};
use crate::{
    event::{GateRole, Grant, LoopEvent, LoopStarted, OutputMarks, Reason, StopCause},
    policy::Policy,
};

/// What follows from `input` in `state`.
pub fn decide(state: &LoopState, input: In) -> Step {
    let mut decision = Decision { state: state.clone(), step: Step::default() };
    decision.take(input);
    decision.step
}

/// A decision while it is made. Each event that it records is folded into its copy of the state at once.
pub(super) struct Decision {
    pub(super) state: LoopState,
    pub(super) step: Step,
}

impl Decision {
    /// What each phase does with each input. The pairs that change nothing are spelled out at the end, so that the
    /// compiler asks for an answer for each new phase and input.
    fn take(&mut self, input: In) {
        use JudgeStep::{Children, Committing, Gate, Rechecking};
        use Phase::{
            AwaitingTasks, Checking, Delaying, Judging, Looking, New, Over, Parked, Paused, Running,
        };
        // Every phase of a loop that has begun and is not over.
        macro_rules! live {
            () => {
                AwaitingTasks
                    | Looking
                    | Running
                    | Checking { .. }
                    | Judging(..)
                    | Delaying
                    | Parked(_)
                    | Paused { .. }
            };
        }
        match (&self.state.phase, input) {
            (New, In::Begin(begin)) => self.begin(*begin),
            (AwaitingTasks, In::TasksLookedAt { missing }) => self.tasks_looked_at(missing),
            (Looking | Delaying | Parked(_), In::MarkersRead(facts, supply)) => {
                self.markers_read(&facts, &supply);
            }
            (Delaying, In::DelayOver) | (Parked(_), In::ParkOver) => self.perform(Effect::ReadMarkers),

            (Running, In::UsageSeen { spend, shared, model, is_unpriced }) => {
                self.usage_seen(spend, &shared, model, is_unpriced);
            }
            (Running, In::AgentExited(report)) => self.agent_exited(*report),
            (Running, In::AgentNotStarted(failure)) => self.agent_not_started(failure),

            (&Checking { role, index }, In::GateFinished(result)) => {
                self.check_finished(role, index, *result)
            }
            (Judging(Children { .. }, _), In::ChildrenFound(children)) => self.children_found(children),
            (&Judging(Children { cancelled }, _), In::ChildrenWaitedFor { left, waited }) => {
                self.children_waited_for(left, waited, cancelled);
            }
            (Judging(Children { .. }, _), In::Examined(found)) => self.examined(found),
            (Looking, In::TrialWaitOver) => self.trial_wait_over(),
            (Looking, In::GateTried { index, tried }) => self.gate_tried_at_first(index, tried),
            (
                AwaitingTasks
                | Running
                | Checking { .. }
                | Judging(..)
                | Delaying
                | Parked(_)
                | Paused { .. },
                In::GateTried { index, tried },
            ) => self.gate_tried(index, tried),
            (Judging(Children { .. } | Rechecking, _), In::ExaminationFailed(why)) => {
                self.examination_failed(why);
            }
            (&Judging(Gate { index, attempt, look }, _), In::GateFinished(result)) => {
                self.gate_finished(index, attempt, look, *result);
            }
            (Judging(Rechecking, _), In::Rechecked(recheck)) => self.rechecked(recheck),
            (Judging(Committing, _), In::CommitDone(result, seal)) => self.commit_done(result, seal),
            (Judging(Committing, _), In::ItemsCommitted(commits, seal)) => {
                self.items_committed(commits, seal);
            }

            (&Over { reason, .. }, In::Resume { grant, output, pid }) => {
                self.resume(reason, grant, output, pid);
            }
            (&Over { reason, .. }, In::Requested(Request::Cancel)) => self.cancel_ended(reason),
            (&Over { reason, .. }, In::Requested(Request::Steer { text })) => {
                if reason.is_resumable() {
                    self.record(LoopEvent::Steered { text });
                }
            }

            (Paused { .. }, In::Requested(Request::Unpause { grant })) => self.unpause(grant),
            (Parked(_), In::Requested(Request::Unpause { grant })) if grant.ask_now => {
                self.take_back_pause(Grant { ask_now: false, ..grant });
                self.ask_now();
            }
            (
                AwaitingTasks | Looking | Running | Checking { .. } | Judging(..) | Delaying | Parked(_),
                In::Requested(Request::Unpause { grant }),
            ) => self.take_back_pause(grant),
            (AwaitingTasks | Looking | Delaying | Parked(_), In::Requested(Request::Pause { now })) => {
                if self.ask_to_pause(now) {
                    self.record(LoopEvent::Paused);
                }
            }
            (Running, In::Requested(Request::Pause { now })) => {
                if self.ask_to_pause(now) && now {
                    self.stop_work();
                }
            }
            // A claim is judged to its end: there is no agent to hold.
            (Checking { .. } | Judging(..), In::Requested(Request::Pause { now })) => {
                self.ask_to_pause(now);
            }

            (
                Looking | Running | Checking { .. } | Judging(..) | Delaying | Parked(_),
                In::SessionIdle(idle),
            ) => {
                if self.is_in_session() {
                    self.session_idle(*idle);
                }
            }
            (live!(), In::SessionFailed(error)) if self.is_in_session() => self.session_failed(error),
            (live!(), In::SessionGone(why)) if self.is_in_session() => self.session_ends(why),
            (Running, In::PromptNotDelivered(why)) => self.prompt_not_delivered(why),

            (live!(), In::OwnerDied) => self.owner_died(),
            (live!(), In::DiskFailed(detail)) => self.disk_failed(detail),
            (live!(), In::Noticed(text)) => self.warn(text),
            (live!(), In::Signalled(cause)) => self.stop(cause),
            (live!(), In::Requested(Request::Cancel)) => self.stop(StopCause::Cancel),
            (live!(), In::Requested(Request::Steer { text })) => self.record(LoopEvent::Steered { text }),
            (live!(), In::Requested(Request::Ask { text })) => self.ask(&text),
            (live!() | Over { .. }, In::Requested(Request::ApproveTree { tree, by })) => {
                self.approve_tree(tree, by);
            }

            // Inputs that the loop does not wait for in these phases.
            (
                New,
                In::Resume { .. }
                | In::OwnerDied
                | In::TasksLookedAt { .. }
                | In::MarkersRead(..)
                | In::UsageSeen { .. }
                | In::ParkOver
                | In::AgentExited(_)
                | In::AgentNotStarted(_)
                | In::ChildrenFound(_)
                | In::ChildrenWaitedFor { .. }
                | In::GateFinished(_)
                | In::GateTried { .. }
                | In::TrialWaitOver
                | In::Examined(_)
                | In::Rechecked(_)
                | In::ExaminationFailed(_)
                | In::CommitDone(..)
                | In::ItemsCommitted(..)
                | In::DelayOver
                | In::Noticed(_)
                | In::Signalled(_)
                | In::SessionIdle(_)
                | In::SessionFailed(_)
                | In::SessionGone(_)
                | In::PromptNotDelivered(_)
                | In::DiskFailed(_)
                | In::Requested(_),
            )
            | (
                Over { .. },
                In::Begin(_)
                | In::OwnerDied
                | In::TasksLookedAt { .. }
                | In::MarkersRead(..)
                | In::UsageSeen { .. }
                | In::ParkOver
                | In::AgentExited(_)
                | In::AgentNotStarted(_)
                | In::ChildrenFound(_)
                | In::ChildrenWaitedFor { .. }
                | In::GateFinished(_)
                | In::GateTried { .. }
                | In::TrialWaitOver
                | In::Examined(_)
                | In::Rechecked(_)
                | In::ExaminationFailed(_)
                | In::CommitDone(..)
                | In::ItemsCommitted(..)
                | In::DelayOver
                | In::Noticed(_)
                | In::Signalled(_)
                | In::SessionIdle(_)
                | In::SessionFailed(_)
                | In::SessionGone(_)
                | In::PromptNotDelivered(_)
                | In::DiskFailed(_)
                | In::Requested(
                    Request::Pause { .. }
                    | Request::Unpause { .. }
                    | Request::Ask { .. }
                    | Request::Answer { .. }
                    | Request::Signal { .. },
                ),
            )
            | (live!(), In::Begin(_) | In::Resume { .. } | In::SessionFailed(_) | In::SessionGone(_))
            | (AwaitingTasks | Paused { .. }, In::SessionIdle(_))
            | (
                AwaitingTasks
                | Looking
                | Checking { .. }
                | Judging(..)
                | Delaying
                | Parked(_)
                | Paused { .. },
                In::PromptNotDelivered(_),
            )
            | (live!(), In::Requested(Request::Answer { .. } | Request::Signal { .. }))
            | (
                Looking | Running | Checking { .. } | Judging(..) | Delaying | Parked(_) | Paused { .. },
                In::TasksLookedAt { .. },
            )
            | (
                AwaitingTasks | Running | Checking { .. } | Judging(..) | Paused { .. },
                In::MarkersRead(..),
            )
            | (
                AwaitingTasks
                | Running
                | Checking { .. }
                | Judging(..)
                | Delaying
                | Parked(_)
                | Paused { .. },
                In::TrialWaitOver,
            )
            | (
                AwaitingTasks | Looking | Running | Checking { .. } | Judging(..) | Parked(_) | Paused { .. },
                In::DelayOver,
            )
            | (
                AwaitingTasks | Looking | Running | Checking { .. } | Judging(..) | Delaying | Paused { .. },
                In::ParkOver,
            )
            | (
                AwaitingTasks
                | Looking
                | Checking { .. }
                | Judging(..)
                | Delaying
                | Parked(_)
                | Paused { .. },
                In::UsageSeen { .. } | In::AgentExited(_) | In::AgentNotStarted(_),
            )
            | (
                AwaitingTasks
                | Looking
                | Running
                | Delaying
                | Parked(_)
                | Paused { .. }
                | Judging(Children { .. } | Rechecking | Committing, _),
                In::GateFinished(_),
            )
            | (
                AwaitingTasks
                | Looking
                | Running
                | Checking { .. }
                | Delaying
                | Parked(_)
                | Paused { .. }
                | Judging(Gate { .. } | Rechecking | Committing, _),
                In::ChildrenFound(_) | In::ChildrenWaitedFor { .. } | In::Examined(_),
            )
            | (
                AwaitingTasks
                | Looking
                | Running
                | Checking { .. }
                | Delaying
                | Parked(_)
                | Paused { .. }
                | Judging(Gate { .. } | Committing, _),
                In::ExaminationFailed(_),
            )
            | (
                AwaitingTasks
                | Looking
                | Running
                | Checking { .. }
                | Delaying
                | Parked(_)
                | Paused { .. }
                | Judging(Children { .. } | Gate { .. } | Committing, _),
                In::Rechecked(_),
            )
            | (
                AwaitingTasks
                | Looking
                | Running
                | Checking { .. }
                | Delaying
                | Parked(_)
                | Paused { .. }
                | Judging(Children { .. } | Gate { .. } | Rechecking, _),
                In::CommitDone(..) | In::ItemsCommitted(..),
            )
            | (Paused { .. }, In::Requested(Request::Pause { .. })) => {}
        }
    }

    // --- beginning and ending -------------------------------------------------------------------------------

    fn begin(&mut self, begin: Begin) {
        self.record(LoopEvent::LoopStarted(Box::new(begin.started)));
        for text in begin.warnings {
            self.warn(text);
        }
        // A wait marker that an earlier loop of this task left behind must not count for this loop.
        self.perform(Effect::ConsumeWaitMarker);
        self.go_on();
    }

    fn resume(&mut self, reason: Reason, grant: Grant, output: OutputMarks, pid: u32) {
        if !reason.is_resumable() {
            return;
        }
        let (counts_anew, asks_now) = (reason == Reason::Stuck, grant.ask_now);
        self.record(LoopEvent::LoopResumed { grant, output, pid, counts_anew });
        self.perform(Effect::ConsumeWaitMarker);
        // Marks that a cut-off agent set are no claim, and a crash may have left the marks of a refused claim.
        if self.state.judging().is_none() {
            self.return_all_items();
        }
        // The gates run again for the baseline, because no agent has worked yet.
        if self.state.phase == Phase::Looking && self.wants_baseline() {
            return self.run_check(GateRole::Baseline, 0);
        }
        if asks_now && matches!(self.state.phase, Phase::Parked(_)) {
            return self.ask_now();
        }
        self.go_on();
    }

    /// The user does not want to wait for the end of a limit: the provider is asked at once.
    fn ask_now(&mut self) {
        self.perform(Effect::AskProviders);
        self.perform(Effect::ReadMarkers);
    }

    fn tasks_looked_at(&mut self, missing: Vec<crate::ids::TaskId>) {
        let none = missing.is_empty();
        self.record(LoopEvent::TasksAwaited { tasks: missing });
        if none {
            self.look();
        }
    }

    /// Continues from the phase that the newest event led to.
    pub(super) fn go_on(&mut self) {
        match &self.state.phase {
            Phase::AwaitingTasks => {
                let started = self.started();
                let (tasks, every) = (started.after.clone(), started.policy.pace.poll_interval);
                self.perform(Effect::AwaitTasks { tasks, every });
            }
            Phase::Judging(..) => self.await_children(),
            Phase::Parked(parking) => {
                // After a pause or a restart of dacapo the event and the timer of the wait are made again.
                let (until, why) = (parking.until, parking.why.clone());
                self.park(until, why);
            }
            Phase::Looking | Phase::Delaying => self.look(),
            // An agent or check runs, or the loop is paused or over: its next input decides what follows.
            Phase::New
            | Phase::Running
            | Phase::Checking { .. }
            | Phase::Paused { .. }
            | Phase::Over { .. } => {}
        }
    }

    /// Reads the markers before an iteration; before the first one it runs the gates too, if the policy wants a
    /// baseline.
    fn look(&mut self) {
        if self.wants_trial() {
            let gates = self.policy().gates.specs.clone();
            self.perform(Effect::TryGates { gates });
        } else if self.wants_baseline() && self.state.baseline.is_empty() {
            self.run_check(GateRole::Baseline, 0);
        } else {
            self.perform(Effect::ReadMarkers);
        }
    }

    /// Whether the gates are tried before the first agent: nothing of them is known yet, there is a checkout to try them in, and
    /// they do not run before it anyway.
    fn wants_trial(&self) -> bool {
        let gates = &self.policy().gates;
        gates.probe
            && !gates.specs.is_empty()
            && self.state.counters.iterations == 0
            && self.state.trials.is_empty()
            && !gates.wants_baseline()
            && self.started().base.as_ref().is_some_and(|base| base.is_git)
    }

    fn wants_baseline(&self) -> bool {
        self.policy().gates.wants_baseline() && self.state.counters.iterations == 0
    }

    pub(super) fn finish(&mut self, reason: Reason, detail: String) {
        // The restart preset fixes the first words of this message.
        let posted = match reason {
            Reason::MaxIterations => format!("max restarts exceeded: {detail}"),
            _ => detail.clone(),
        };
        self.finish_saying(reason, detail, posted);
    }

    /// Ends the loop. `posted` is what the bus says, where other words are fixed than people are told.
    pub(super) fn finish_saying(&mut self, reason: Reason, detail: String, posted: String) {
        let kind = match reason {
            Reason::Done => "INFO",
            Reason::Waiting
            | Reason::Question
            | Reason::Blocked
            | Reason::Refused
            | Reason::Auth
            | Reason::Billing
            | Reason::Interrupted
            | Reason::Terminated
            | Reason::Cancelled => "WARNING",
            Reason::Error
            | Reason::Agent
            | Reason::Gate
            | Reason::Disk
            | Reason::Lock
            | Reason::MaxIterations
            | Reason::MaxTime
            | Reason::Budget
            | Reason::Stuck => "ERROR",
        };
        self.post(kind, posted);
        // Only an accepted claim leaves an item marked as done. A claim that `resume` judges again does not need the
        // marks.
        if !matches!(reason, Reason::Done | Reason::Disk) {
            self.return_all_items();
        }
        self.record(LoopEvent::LoopFinished {
            state: reason.state(),
            reason,
            detail,
            exit_code: reason.exit_code(),
            iterations: self.state.charged(),
        });
    }

    // --- small words ----------------------------------------------------------------------------------------

    pub(super) fn started(&self) -> &LoopStarted {
        // Every phase but `New` has one, and no input but `Begin` gets past `New`.
        self.state.started.as_deref().expect("a loop that is asked something has begun")
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.started().policy
    }

    /// The claim that is being judged. Called only where the phase says that there is one.
    pub(super) fn judging(&self) -> &Judging {
        self.state.judging().expect("a claim is being judged")
    }

    pub(super) fn record(&mut self, event: LoopEvent) {
        self.state.apply(&event);
        self.step.events.push(event);
    }

    pub(super) fn perform(&mut self, effect: Effect) {
        self.step.effects.push(effect);
    }

    pub(super) fn warn(&mut self, text: String) {
        self.record(LoopEvent::Warned { text });
    }

    pub(super) fn post(&mut self, kind: &'static str, body: String) {
        self.perform(Effect::Post(BusPost { to: BusTarget::Task, kind, body }));
    }
}
