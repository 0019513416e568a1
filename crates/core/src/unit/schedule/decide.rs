//! What follows from an input. Reads no clock, no file, no global.

use std::collections::BTreeSet;

use super::{GRACE, HURRY, Job, RunEffect, RunInput, RunState, RunStep, SENT_BACK_AT_MOST, UnitStanding};
use crate::{
    event::{MergeMode, Reason, RunEvent, RunStarted, RunStop, UnitEnd},
    ids::{LoopId, UnitId},
    loop_machine::Request,
    text::count,
};

/// What follows from `input` in `state`.
pub fn decide(state: &RunState, input: RunInput) -> RunStep {
    // What loops do changes nothing in the schedule, and happens far more often than all else: no copy for it.
    if let RunInput::LoopTold { unit, events } = input {
        let news = state.told(&unit).map_or_else(Vec::new, |told| told.news(events));
        let events = news.into_iter().map(|event| (Some(unit.clone()), event)).collect();
        return RunStep { events, effects: Vec::new() };
    }
    let mut decision = RunDecision { state: state.clone(), step: RunStep::default() };
    decision.take(input);
    decision.step
}

/// One decision in the making: a copy of the state that what is recorded is folded into at once.
struct RunDecision {
    state: RunState,
    step: RunStep,
}

impl RunDecision {
    fn take(&mut self, input: RunInput) {
        if self.state.over().is_some() {
            return;
        }
        match input {
            RunInput::Begin(started) => self.begin(*started),
            RunInput::Told { unit, event } => self.told(&unit, event),
            RunInput::JobEnded { unit, detail } => self.job_ended(&unit, detail),
            RunInput::JobGarbled { unit, detail } => self.job_garbled(&unit, detail),
            RunInput::Requested(request) => self.requested(request),
            RunInput::Stop(cause) => self.stop(cause.into()),
            RunInput::TimeOver => {
                if self.state.stopping.is_none() {
                    self.stop(RunStop::MaxTime);
                }
            }
            RunInput::GraceOver => {
                if self.state.stopping.is_some() && !self.state.busy.is_empty() {
                    self.step.effects.push(RunEffect::KillJobs);
                }
            }
            RunInput::OwnerDied => self.owner_died(),
            // Answered without a turn.
            RunInput::LoopTold { .. } => {}
        }
        self.go_on();
    }

    // --- inputs ---------------------------------------------------------------------------------------------

    fn begin(&mut self, started: RunStarted) {
        if self.state.has_begun() {
            return;
        }
        let problem = started.problems().into_iter().next();
        let plans: Vec<_> =
            started.units.iter().map(|plan| (plan.unit.clone(), plan.depends_on.clone())).collect();
        self.record(None, RunEvent::OrchStarted(Box::new(started)));
        if let Some(problem) = problem {
            let exit_code = Reason::Error.exit_code();
            let (reason, detail) = ("error".to_owned(), problem.to_string());
            return self.record(None, RunEvent::OrchFailed { reason, detail, exit_code });
        }
        for (unit, depends_on) in plans {
            self.record(Some(unit), RunEvent::UnitQueued { depends_on });
        }
    }

    /// What a job says counts only while it runs, and as far as it is its business.
    fn told(&mut self, unit: &UnitId, event: RunEvent) {
        let Some(at) = self.state.index.get(unit).copied() else { return };
        if !self.state.busy.contains(&at) {
            return;
        }
        let standing = self.state.units[at].standing;
        let is_in_lane = matches!(standing, UnitStanding::Merging | UnitStanding::Publishing);
        let is_news = match &event {
            RunEvent::UnitCompleted { .. } => standing == UnitStanding::Working,
            RunEvent::UnitMerged { .. } => standing == UnitStanding::Merging,
            RunEvent::UnitSentBack { .. } => is_in_lane,
            RunEvent::UnitFailed { .. } => !self.state.units[at].is_over(self.state.merge),
            RunEvent::UnitWarned { .. }
            | RunEvent::TargetMoved { .. }
            | RunEvent::TaskFailed { .. }
            | RunEvent::PrCreated { .. }
            | RunEvent::PrMerged { .. }
            | RunEvent::PrFailed { .. }
            | RunEvent::PrConflict { .. }
            | RunEvent::WorktreeCreated { .. }
            | RunEvent::WorktreeRemoved { .. }
            | RunEvent::BranchPushed { .. } => true,
            _ => false,
        };
        match event {
            _ if !is_news => {}
            RunEvent::UnitFailed { reason, detail, loop_id } => self.fail(at, reason, detail, loop_id),
            RunEvent::UnitSentBack { detail } if self.state.units[at].sent_back >= SENT_BACK_AT_MOST => {
                let detail =
                    format!("the merged tree is still red after {SENT_BACK_AT_MOST} fixes: {detail}");
                self.fail(at, UnitEnd::Merge, detail, None);
            }
            event => self.record(Some(unit.clone()), event),
        }
    }

    fn job_ended(&mut self, unit: &UnitId, detail: String) {
        let Some(at) = self.state.index.get(unit).copied() else { return };
        if !self.state.busy.contains(&at) {
            return;
        }
        let was = self.state.units[at].standing;
        self.record(Some(unit.clone()), RunEvent::UnitJobEnded);
        let says_nothing = matches!(
            self.state.units[at].standing,
            UnitStanding::Working | UnitStanding::Merging | UnitStanding::Publishing
        );
        if !says_nothing {
            return;
        }
        match self.state.stopping {
            Some(_) => {
                let what = match was {
                    UnitStanding::Working => "while it was worked on",
                    _ => "while it was merged",
                };
                self.fail(at, UnitEnd::Stopped, format!("the run was stopped {what}"), None);
            }
            None => self.fail(at, UnitEnd::Error, detail, None),
        }
    }

    /// The unit ends with what its job said, unless it has come to an end before; the job is stopped either way.
    fn job_garbled(&mut self, unit: &UnitId, detail: String) {
        let Some(at) = self.state.index.get(unit).copied() else { return };
        if !self.state.busy.contains(&at) {
            return;
        }
        if self.state.units[at].is_over(self.state.merge) {
            self.record(Some(unit.clone()), RunEvent::UnitWarned { text: detail });
        } else {
            self.fail(at, UnitEnd::Error, detail, None);
        }
        self.step.effects.push(RunEffect::StopJob { unit: unit.clone() });
    }

    fn requested(&mut self, request: Request) {
        let goes_on = self.state.has_begun() && self.state.stopping.is_none();
        match request {
            Request::Cancel => self.stop(RunStop::Cancel),
            // Asked again, it may only become more urgent.
            Request::Pause { now } if goes_on && self.state.paused.is_none_or(|before| now && !before) => {
                if self.state.paused.is_none() {
                    self.step.effects.push(RunEffect::HoldTime);
                }
                self.record(None, RunEvent::OrchPaused { now });
                self.step.effects.push(RunEffect::AskLoops(Request::Pause { now }));
            }
            Request::Unpause { grant } if goes_on && self.state.paused.is_some() => {
                self.record(None, RunEvent::OrchUnpaused { grant });
                self.step.effects.push(RunEffect::GoOnWithTime { limit: grant.max_time_ms });
                let grant = grant.for_loops_of_run();
                self.step.effects.push(RunEffect::AskLoops(Request::Unpause { grant }));
            }
            Request::Steer { text } if goes_on => {
                self.record(None, RunEvent::OrchSteered { text: text.clone() });
                self.step.effects.push(RunEffect::AskLoops(Request::Steer { text }));
            }
            Request::Pause { .. }
            | Request::Unpause { .. }
            | Request::Ask { .. }
            | Request::Steer { .. }
            | Request::Answer { .. }
            | Request::ApproveTree { .. }
            | Request::Signal { .. } => {}
        }
    }

    fn stop(&mut self, by: RunStop) {
        match self.state.stopping {
            // A user who asks a second time does not want to wait.
            Some(before) if before != RunStop::MaxTime => {
                if by == RunStop::Interrupt && !self.state.busy.is_empty() {
                    // A job that is killed cannot kill: its agents would be asked first, and have all their time.
                    self.step.effects.extend([RunEffect::HurryJobs, RunEffect::ArmGrace(HURRY)]);
                }
                return;
            }
            _ => {}
        }
        self.record(None, RunEvent::OrchStopping { by });
        if !self.state.busy.is_empty() {
            self.step.effects.extend([RunEffect::AskJobsToStop, RunEffect::ArmGrace(GRACE)]);
        }
    }

    fn owner_died(&mut self) {
        if self.state.stopping.is_none() {
            self.record(None, RunEvent::OrchStopping { by: RunStop::Interrupt });
        }
        let busy: Vec<UnitId> = self.state.busy().cloned().collect();
        for unit in busy {
            self.job_ended(&unit, String::new());
        }
    }

    // --- what follows ---------------------------------------------------------------------------------------

    /// Starts what can be started, or ends the run.
    fn go_on(&mut self) {
        if self.state.over().is_some() || !self.state.has_begun() {
            return;
        }
        let is_held = self.state.paused.is_some() && self.state.stopping.is_none();
        if is_held && (self.state.open > 0 || !self.state.busy.is_empty()) {
            return;
        }
        if self.state.stopping.is_none() && self.state.dry.is_none() {
            self.start_lane();
            self.start_work();
        }
        if self.state.busy.is_empty() {
            self.finish();
        }
    }

    fn start_work(&mut self) {
        while let (Some(slot), Some((_, at))) =
            (self.state.free_slots.first().copied(), self.state.ready.first().copied())
        {
            let unit = self.state.units[at].id.clone();
            let job = self.state.units[at].work();
            self.record(Some(unit.clone()), RunEvent::UnitStarted { slot });
            self.step.effects.push(RunEffect::StartJob { unit, job, slot });
        }
    }

    /// One at a time: what is merged next is judged on top of what was merged before.
    fn start_lane(&mut self) {
        let is_taken = self.state.busy.iter().any(|at| self.state.units[*at].slot == 0);
        let next = self.state.lane.iter().find(|at| !self.state.busy.contains(at)).copied();
        let Some(at) = next.filter(|_| !is_taken) else { return };
        let unit = self.state.units[at].id.clone();
        let (event, job) = match self.state.merge {
            MergeMode::Merge => (RunEvent::UnitMerging, Job::Merge),
            MergeMode::PullRequest => (RunEvent::UnitPublishing, Job::Publish),
            MergeMode::Leave => return,
        };
        self.record(Some(unit.clone()), event);
        self.step.effects.push(RunEffect::StartJob { unit, job, slot: 0 });
    }

    /// A unit has come to no good end: neither will those behind it, unless it was only stopped.
    fn fail(&mut self, at: usize, reason: UnitEnd, detail: String, loop_id: Option<LoopId>) {
        let unit = self.state.units[at].id.clone();
        self.record(Some(unit), RunEvent::UnitFailed { reason, detail, loop_id });
        if reason == UnitEnd::Stopped {
            return;
        }
        let mut seen = BTreeSet::new();
        let mut behind: Vec<usize> = self.state.units[at].behind.clone();
        while let Some(next) = behind.pop() {
            if seen.insert(next) {
                behind.extend(&self.state.units[next].behind);
            }
        }
        for blocked in seen {
            if self.state.units[blocked].standing == UnitStanding::Queued {
                let by = self.failed_before(blocked);
                self.record(Some(self.state.units[blocked].id.clone()), RunEvent::UnitBlocked { by });
            }
        }
    }

    /// All units that failed among those that must come before this one, however far.
    fn failed_before(&self, at: usize) -> Vec<UnitId> {
        let mut seen = BTreeSet::new();
        let mut before: Vec<usize> = self.state.units[at].first.clone();
        while let Some(next) = before.pop() {
            if seen.insert(next) {
                before.extend(&self.state.units[next].first);
            }
        }
        let units = seen.into_iter().map(|at| &self.state.units[at]);
        let failed = units
            .filter(|unit| matches!(unit.standing, UnitStanding::Failed(end) if end != UnitEnd::Stopped));
        failed.map(|unit| unit.id.clone()).collect()
    }

    /// No job is left and none can be started.
    fn finish(&mut self) {
        self.stop_the_rest();
        let mut event = match (&self.state.first_failure, self.state.stopping) {
            (None, _) => RunEvent::OrchCompleted { detail: self.all_is_done() },
            (Some((_, UnitEnd::Stopped, _)), Some(by)) => failed(by.reason(), stopped_by(by)),
            (Some((unit, _, detail)), Some(by)) => {
                failed(by.reason(), format!("{}; {unit}: {detail}", stopped_by(by)))
            }
            (Some((unit, reason, detail)), None) => {
                let detail = format!("{unit}: {detail}");
                match reason {
                    UnitEnd::Budget => failed(Reason::Budget, detail),
                    UnitEnd::Person | UnitEnd::Auth => RunEvent::OrchFailed {
                        reason: "person".to_owned(),
                        detail,
                        exit_code: Reason::Waiting.exit_code(),
                    },
                    UnitEnd::Environment => RunEvent::OrchFailed {
                        reason: reason.as_str().to_owned(),
                        detail,
                        exit_code: Reason::Agent.exit_code(),
                    },
                    _ => RunEvent::OrchFailed {
                        reason: "failed".to_owned(),
                        detail,
                        exit_code: Reason::Error.exit_code(),
                    },
                }
            }
        };
        // The last line is all that some look at.
        if let Some((branch, command)) = &self.state.left_on
            && let RunEvent::OrchCompleted { detail } | RunEvent::OrchFailed { detail, .. } = &mut event
        {
            detail.push_str(&format!("; what was merged waits on {branch}: `{command}` moves the target"));
        }
        self.record(None, event);
    }

    /// Units that have come to no end: the next run goes on with them.
    fn stop_the_rest(&mut self) {
        let why = match (self.state.stopping, &self.state.dry) {
            (Some(_), _) => "the run was stopped".to_owned(),
            (None, Some(dry)) => format!("nothing new was begun after the end of {dry}"),
            (None, None) => "what it waits for was stopped".to_owned(),
        };
        for at in 0..self.state.units.len() {
            let unit = &self.state.units[at];
            if unit.is_over(self.state.merge) {
                continue;
            }
            let when = match unit.standing {
                UnitStanding::Queued => "before it began",
                UnitStanding::SentBack => "before it was worked on again",
                _ => "before it was merged",
            };
            let event = RunEvent::UnitFailed {
                reason: UnitEnd::Stopped,
                detail: format!("{why}, {when}"),
                loop_id: None,
            };
            self.record(Some(unit.id.clone()), event);
        }
    }

    fn all_is_done(&self) -> String {
        let units = count(u32::try_from(self.state.units.len()).unwrap_or(u32::MAX), "unit");
        match self.state.merge {
            _ if self.state.units.is_empty() => "nothing was left to do".to_owned(),
            MergeMode::Merge => format!("{units} merged"),
            MergeMode::Leave => format!("{units} completed"),
            MergeMode::PullRequest => format!("{units} published"),
        }
    }

    fn record(&mut self, unit: Option<UnitId>, event: RunEvent) {
        self.state.apply(unit.as_ref(), &event);
        self.step.events.push((unit, event));
    }
}

fn failed(reason: Reason, detail: String) -> RunEvent {
    RunEvent::OrchFailed { reason: reason.as_str().to_owned(), detail, exit_code: reason.exit_code() }
}

fn stopped_by(by: RunStop) -> String {
    match by {
        RunStop::MaxTime => "the time of the run is used up",
        RunStop::Cancel => "the run was cancelled",
        RunStop::Interrupt => "the run was interrupted",
        RunStop::Terminate | RunStop::Hangup => "the run was terminated",
    }
    .to_owned()
}
