//! What follows from an input. Reads no clock, no file, no global.

use super::{
    effect::{BusPost, BusTarget, Effect, Step},
    input::{AgentReport, Begin, Input, StartFailure, Supply},
    state::{JudgeStep, LoopState, Phase},
};
use crate::{
    duration::Millis,
    event::{GateRole, IterationOutcome, LoopEvent, LoopStarted, Outcome, Reason},
    ids::fingerprint,
    judge::{
        progress,
        signal::{Facts, Signal, done_error, premature, signals},
    },
    policy::{OnFatal, OwnClaim},
    prompt,
    text::count,
};

/// After this many iterations without progress somebody is told.
pub(crate) const STUCK: u32 = 5;

/// What follows from `input` in `state`.
pub fn decide(state: &LoopState, input: Input) -> Step {
    let mut turn = Turn { state: state.clone(), step: Step::default() };
    turn.take(input);
    turn.step
}

/// One decision in the making: a copy of the state that what is recorded is folded into at once.
pub(super) struct Turn {
    pub(super) state: LoopState,
    pub(super) step: Step,
}

impl Turn {
    fn take(&mut self, input: Input) {
        match input {
            Input::Begin(begin) => self.begin(*begin),
            Input::Resume { grant, output, pid } => {
                if self.state.over().is_some_and(Reason::is_resumable) {
                    self.record(LoopEvent::LoopResumed { grant, output, pid });
                    self.perform(Effect::ConsumeWaitMarker);
                    // What a cut-off agent wrote is nobody's claim, and a refusal may not have been carried out.
                    if self.state.claim.is_none() {
                        self.set_all_back();
                    }
                    self.go_on();
                }
            }
            Input::OwnerDied => self.owner_died(),
            Input::Signalled(cause) => self.stop(cause),
            Input::Requested(request) => self.requested(request),
            Input::Noticed(text) => {
                // Nothing follows the end of a loop in its journal.
                if self.is_alive() {
                    self.record(LoopEvent::Warned { text });
                }
            }
            Input::DiskFailed(detail) => {
                if self.is_alive() {
                    self.perform(Effect::StopWork { grace: Millis(0) });
                    self.close_cut_iteration();
                    self.finish(Reason::Disk, detail);
                }
            }
            Input::TasksLookedAt { missing } => {
                if self.state.phase == Phase::AwaitingTasks {
                    let none = missing.is_empty();
                    self.record(LoopEvent::TasksAwaited { tasks: missing });
                    if none {
                        self.look();
                    }
                }
            }
            Input::MarkersRead(facts, supply) => {
                if matches!(self.state.phase, Phase::Looking | Phase::Delaying | Phase::Parked) {
                    self.markers_read(&facts, &supply);
                }
            }
            Input::UsageSeen { spend, shared, unpriced } => {
                if self.state.phase == Phase::Running {
                    self.usage_seen(spend, &shared, unpriced);
                }
            }
            Input::ParkOver => {
                if self.state.phase == Phase::Parked {
                    self.perform(Effect::ReadMarkers);
                }
            }
            Input::AgentExited(report) => {
                if self.state.phase == Phase::Running {
                    self.agent_exited(*report);
                }
            }
            Input::AgentNotStarted(failure) => {
                if self.state.phase == Phase::Running {
                    self.agent_not_started(failure);
                }
            }
            Input::ChildrenFound(children) => {
                if matches!(self.state.phase, Phase::Judging(JudgeStep::Children { .. })) {
                    self.children_found(children);
                }
            }
            Input::ChildrenWaitedFor { left, waited } => {
                if let Phase::Judging(JudgeStep::Children { cancelled }) = self.state.phase {
                    self.children_waited_for(left, waited, cancelled);
                }
            }
            Input::Examined(found) => {
                if matches!(self.state.phase, Phase::Judging(JudgeStep::Children { .. })) {
                    self.examined(found);
                }
            }
            Input::ExaminationFailed(why) => {
                if self.looks_at_workspace() {
                    self.examination_failed(why);
                }
            }
            Input::GateFinished(result) => {
                if let Phase::Judging(JudgeStep::Check { role, index, attempt }) = self.state.phase {
                    self.check_finished(role, index, attempt, *result);
                }
            }
            Input::Rechecked(recheck) => {
                if self.state.phase == Phase::Judging(JudgeStep::Rechecking) {
                    self.rechecked(recheck);
                }
            }
            Input::CommitDone(result, seal) => {
                if self.state.phase == Phase::Judging(JudgeStep::Committing) {
                    self.commit_done(result, seal);
                }
            }
            Input::TasksCommitted(commits, seal) => {
                if self.state.phase == Phase::Judging(JudgeStep::Committing) {
                    self.tasks_committed(commits, seal);
                }
            }
            Input::DelayOver => {
                if self.state.phase == Phase::Delaying {
                    self.perform(Effect::ReadMarkers);
                }
            }
        }
    }

    // --- beginning and ending -------------------------------------------------------------------------------

    fn begin(&mut self, begin: Begin) {
        if self.state.phase != Phase::New {
            return;
        }
        self.record(LoopEvent::LoopStarted(Box::new(begin.started)));
        for text in begin.warnings {
            self.warn(text);
        }
        // One that an earlier loop of this task left behind would speak for this one.
        self.perform(Effect::ConsumeWaitMarker);
        self.go_on();
    }

    /// Continues from the phase that `LoopStarted` or `LoopResumed` led to.
    pub(super) fn go_on(&mut self) {
        match self.state.phase {
            Phase::AwaitingTasks => {
                let (tasks, every) = {
                    let started = self.started();
                    (started.after.clone(), started.policy.pace.poll_interval)
                };
                self.perform(Effect::AwaitTasks { tasks, every });
            }
            Phase::Judging(_) => self.await_children(),
            Phase::Parked => self.park_again(),
            _ => self.look(),
        }
    }

    /// Before an iteration: the markers; before the first one the gates too, if their past counts.
    fn look(&mut self) {
        let policy = &self.started().policy;
        let wants_baseline =
            (policy.gates.baseline || policy.gates.red_first || policy.gates.tolerate_baseline)
                && !policy.gates.specs.is_empty();
        if wants_baseline && self.state.iterations == 0 && self.state.baseline.is_empty() {
            self.run_check(GateRole::Baseline, 0, 1);
        } else {
            self.perform(Effect::ReadMarkers);
        }
    }

    pub(super) fn finish(&mut self, reason: Reason, detail: String) {
        let kind = match reason {
            Reason::Done => "INFO",
            Reason::Waiting
            | Reason::Question
            | Reason::Blocked
            | Reason::Auth
            | Reason::Billing
            | Reason::Interrupted
            | Reason::Terminated
            | Reason::Cancelled => "WARNING",
            Reason::Error
            | Reason::Agent
            | Reason::Disk
            | Reason::Lock
            | Reason::MaxIterations
            | Reason::MaxTime
            | Reason::Budget
            | Reason::Stuck => "ERROR",
        };
        // The restart preset fixes these words for its bus; people read `detail`.
        let body = if reason == Reason::MaxIterations {
            format!("max restarts exceeded: {detail}")
        } else {
            detail.clone()
        };
        self.post(kind, body);
        // Nothing but an accepted claim leaves a task complete; a claim that is judged again later needs no file for it.
        if !matches!(reason, Reason::Done | Reason::Disk) {
            self.set_all_back();
        }
        self.record(LoopEvent::LoopFinished {
            state: reason.state(),
            reason,
            detail,
            exit_code: reason.exit_code(),
            iterations: self.state.iterations - u32::from(self.state.awaits_attempt),
        });
    }

    // --- iterations -----------------------------------------------------------------------------------------

    /// Before an iteration: a DONE ends the loop or is set aside, else the next agent starts.
    fn markers_read(&mut self, facts: &Facts, supply: &Supply) {
        if let Some(error) = self.done_error(facts) {
            return self.finish(Reason::Error, error);
        }
        let by: Vec<Signal> =
            signals(facts, &self.started().policy).into_iter().filter(|s| s.is_claim()).collect();
        let is_first = self.state.iterations == 0 && self.state.refusals.is_empty();
        if !by.is_empty() {
            self.claim(by);
        } else if is_first && self.started().policy.claims.own_claim == OwnClaim::Always {
            self.claim(vec![Signal::OwnClaim]);
        } else if self.state.max_iterations == 0 {
            self.next_iteration();
        } else if self.may_draw_on(supply) {
            self.next_attempt();
        }
    }

    /// Another agent process: in the iteration that waits for one, else in a new one.
    fn next_attempt(&mut self) {
        if self.state.awaits_attempt { self.retry() } else { self.next_iteration() }
    }

    fn done_error(&self, facts: &Facts) -> Option<String> {
        let policy = &self.started().policy;
        if policy.claims.done_file && policy.hears_promises() { done_error(&facts.done) } else { None }
    }

    pub(super) fn next_iteration(&mut self) {
        if self.state.iterations >= self.state.max_iterations {
            let detail = self.out_of_iterations();
            return self.finish(Reason::MaxIterations, detail);
        }
        let time_left = self.state.time_left();
        if time_left == Some(Millis(0)) {
            return self.out_of_time();
        }
        let stuck = self.state.progress.without_progress();
        if self.started().policy.limits.stuck_after.is_some_and(|limit| stuck >= limit) {
            return self.finish(Reason::Stuck, format!("{stuck} iterations in a row without progress"));
        }
        if self.state.pausing {
            return self.record(LoopEvent::Paused);
        }
        if stuck > 0 && stuck.is_multiple_of(STUCK) {
            self.warn(format!("{stuck} iterations in a row without progress"));
        }
        let iteration = self.state.iterations + 1;
        let nonce = prompt::nonce(self.started(), iteration);
        let prompt = prompt::compose(&self.state, iteration, &nonce);
        self.record(LoopEvent::IterationStarted { iteration, max_iterations: self.state.max_iterations });
        self.start_agent(prompt, nonce, time_left);
    }

    fn out_of_iterations(&self) -> String {
        let used = format!("{} used without an accepted claim", count(self.state.iterations, "iteration"));
        // Where nobody but dacapo claims, the checks are what it is about.
        let own = self.started().policy.claims.own_claim != OwnClaim::Never;
        match self.state.refusals.last().filter(|_| own) {
            Some((_, _, why)) if self.state.iterations == 0 => why.clone(),
            Some((_, _, why)) => format!("{used}: {why}"),
            None => used,
        }
    }

    /// Once more in the same iteration, with the same prompt: the attempt before was not charged.
    fn retry(&mut self) {
        let time_left = self.state.time_left();
        if time_left == Some(Millis(0)) {
            return self.out_of_time();
        }
        if self.state.pausing {
            return self.record(LoopEvent::Paused);
        }
        let iteration = self.state.iterations;
        let nonce = prompt::nonce(self.started(), iteration);
        let prompt = prompt::compose(&self.state, iteration, &nonce);
        self.start_agent(prompt, nonce, time_left);
    }

    fn out_of_time(&mut self) {
        let detail = format!(
            "{} of work used without an accepted claim; the limit is {}",
            self.state.spent.human(),
            self.state.max_time.unwrap_or_default().human()
        );
        self.finish(Reason::MaxTime, detail);
    }

    fn start_agent(&mut self, prompt: String, nonce: String, time_left: Option<Millis>) {
        let (iteration, attempt) = (self.state.iterations, self.state.attempts + 1);
        let (index, output) = (self.state.agent, self.state.output);
        let policy = &self.started().policy;
        let agent = policy.agent.at(index).name.clone();
        let session = self.state.session.clone().filter(|_| policy.agent.continue_session);
        let reserve = Some(self.state.largest).filter(|_| policy.limits.shares_budgets());
        self.record(LoopEvent::AgentStarted {
            iteration,
            attempt,
            agent,
            session: session.clone(),
            reserve,
            output,
        });
        self.post("RUN_START", format!("starting agent, restart #{}", iteration - 1));
        let session = session.map(|id| {
            let before = self.state.sessions.get(&id).copied().unwrap_or_default();
            (id, before)
        });
        self.perform(Effect::StartAgent {
            agent: index,
            session,
            iteration,
            attempt,
            prompt,
            nonce,
            time_left,
        });
    }

    fn agent_not_started(&mut self, failure: StartFailure) {
        if self.state.stopping.is_some() {
            self.finish_iteration(IterationOutcome::NotStarted);
            return self.finish_stopped();
        }
        if failure.is_fatal && self.started().policy.agent.fatal == OnFatal::Stop {
            self.finish_iteration(IterationOutcome::NotStarted);
            return self.finish(Reason::Agent, failure.detail);
        }
        self.warn(failure.detail);
        self.go_round(IterationOutcome::NotStarted);
    }

    fn agent_exited(&mut self, report: AgentReport) {
        let AgentReport { at, exit, facts, snapshot, outline, warnings } = report;
        let iteration = self.state.iterations;
        self.report_exit(iteration, &exit);
        self.record(LoopEvent::AgentExited { iteration, attempt: self.state.attempts, exit: exit.clone() });
        if let Some((id, tree)) = snapshot {
            self.record(LoopEvent::SnapshotTaken { iteration, id, tree });
        }
        if self.started().base.is_none() && self.state.tree != outline {
            if outline.is_none() {
                self.warn(progress::TOO_MANY.to_owned());
            }
            self.record(LoopEvent::OutlineTaken { iteration, outline });
        }
        for warning in warnings {
            // What a CLI complains about it complains about in every iteration.
            if !self.state.warned.contains(&fingerprint(warning.as_bytes())) {
                self.warn(warning);
            }
        }
        let seen = signals(&facts, &self.started().policy);
        for signal in &seen {
            self.record(LoopEvent::SignalSeen { iteration, signal: signal.clone() });
            match signal {
                Signal::Question(text) => self.ask(text),
                Signal::Blocked(why) => self.record(LoopEvent::Blocked { iteration, why: why.clone() }),
                _ => {}
            }
        }
        if exit.dropped_bytes > 0 {
            self.warn(format!("output over the cap: {} bytes were read but not kept", exit.dropped_bytes));
        }
        if self.state.stopping.is_some() {
            self.finish_iteration(IterationOutcome::Interrupted);
            return self.finish_stopped();
        }
        if let Some(error) = self.done_error(&facts) {
            self.finish_iteration(IterationOutcome::NoClaim);
            return self.finish(Reason::Error, error);
        }
        if exit.outcome == Outcome::Killed && self.state.pausing {
            self.finish_iteration(IterationOutcome::Interrupted);
            return self.record(LoopEvent::Paused);
        }
        self.set_back(&premature(&facts, &self.started().policy));
        let mut claims: Vec<Signal> = seen.into_iter().filter(Signal::is_claim).collect();
        if matches!(claims[..], [Signal::MalformedTask(_)]) {
            if !facts.broken.is_empty() {
                // An honest agent after this one must not stumble over what is gone. Under a claim it is evidence.
                self.set_all_back();
            }
            if self.state.awaits_attempt {
                // Whoever met an outage meant nothing by it, and the outage is what has to be waited out.
                claims.clear();
            }
        }
        if !claims.is_empty() {
            self.claim(claims);
        } else if self.state.awaits_attempt
            && (!self.state.waits.is_empty() || self.state.blocked_by().is_some())
        {
            // It said that it waits, or that it is blocked, before it met the outage.
            self.not_done(IterationOutcome::NoClaim);
        } else if self.met_an_outage(at, &exit) {
            // Said and done there.
        } else if exit.outcome == Outcome::Killed && self.state.budget.is_none() {
            // A `pause --now` that was taken back while the agent was being stopped.
            self.not_done(IterationOutcome::Interrupted);
        } else if self.started().policy.claims.own_claim != OwnClaim::Never && !self.state.awaits_attempt {
            self.claim(vec![Signal::OwnClaim]);
        } else if self.asks_until() && !self.state.awaits_attempt {
            self.run_check(GateRole::Until, 0, 1);
        } else {
            self.not_done(match exit.outcome {
                Outcome::Killed => IterationOutcome::Interrupted,
                _ => IterationOutcome::NoClaim,
            });
        }
    }

    /// Whether commands are asked if there is a claim.
    fn asks_until(&self) -> bool {
        let policy = &self.started().policy;
        !policy.claims.until.is_empty() && policy.tasks.is_none()
    }

    /// A question counts once: it is heard when it is asked, and read again when the agent has ended.
    pub(super) fn ask(&mut self, text: &str) {
        if !self.state.asked.iter().any(|asked| asked == text) {
            self.record(LoopEvent::QuestionAsked { text: text.to_owned() });
        }
    }

    /// Says on the bus how the agent ended, in the restart preset's words.
    fn report_exit(&mut self, iteration: u32, exit: &crate::event::AgentExit) {
        let restart = iteration - 1;
        let limit = self.state.max_iterations;
        let how = match (exit.outcome, exit.exit_code, exit.signal) {
            (Outcome::Timeout, ..) => {
                let after = self.started().policy.limits.iteration_timeout.unwrap_or_default();
                self.post("WARNING", format!("Agent timeout after {after}, killing process group"));
                "timeout".to_owned()
            }
            (Outcome::Hang, ..) => "no output for too long".to_owned(),
            (outcome, ..) if !outcome.is_charged() => outcome.as_str().replace('_', " "),
            (_, Some(code), _) => format!("exit code {code}"),
            (_, None, Some(signal)) => format!("signal {signal}"),
            (_, None, None) => "unknown end".to_owned(),
        };
        if exit.exit_code == Some(0) && exit.outcome == Outcome::Completed {
            self.post("RUN_STOP", format!("agent exited with code 0, restart #{restart}"));
        } else {
            let kind = if exit.signal.is_some() { "RUN_CRASH" } else { "RUN_STOP" };
            self.post(kind, format!("agent ended: {how}, restart #{restart}"));
            self.post(
                "WARNING",
                format!("agent failed on restart #{restart}: {how} (attempt {iteration}/{limit})"),
            );
        }
    }

    /// The iteration brought no accepted claim: an agent that is blocked or waits, then a limit, then the next one.
    pub(super) fn not_done(&mut self, outcome: IterationOutcome) {
        if let Some(why) = self.state.blocked_by() {
            let detail = format!("the agent is blocked: {why}");
            self.finish_iteration(IterationOutcome::Blocked);
            return self.finish(Reason::Blocked, detail);
        }
        if !self.state.waits.is_empty() {
            self.finish_iteration(IterationOutcome::Waiting);
            let names: Vec<&str> = self.state.waits.iter().map(Signal::name).collect();
            self.post("INFO", "Wait-without-restart signal detected".to_owned());
            return match self.state.question.clone() {
                Some(question) => self.finish(Reason::Question, question),
                None => self.finish(Reason::Waiting, format!("the agent waits ({})", names.join(", "))),
            };
        }
        self.go_round(outcome);
    }

    /// Closes the iteration; then a limit, a pause, or after a delay the next one.
    fn go_round(&mut self, outcome: IterationOutcome) {
        let out_of_iterations = self.state.iterations >= self.state.max_iterations;
        let out_of_time = self.state.max_time.is_some_and(|max| self.state.spent >= max);
        let out_of_money = self.state.budget.is_some();
        let is_last = out_of_iterations || out_of_time || out_of_money || self.state.pausing;
        let delay =
            if is_last { Millis(0) } else { self.started().policy.pace.delay_after(self.state.iterations) };
        // No event says that a delay is over: it is charged when it begins.
        self.finish_iteration_at(outcome, self.state.spent.plus(delay));
        if !is_last {
            let next = self.state.iterations + 1;
            self.post("INFO", format!("restarting (attempt {next}/{})", self.state.max_iterations));
        }
        if let Some(detail) = self.state.budget.clone() {
            self.finish(Reason::Budget, detail);
        } else if delay.is_zero() && (is_last || !self.started().policy.needs_supply()) {
            self.next_iteration();
        } else if delay.is_zero() {
            self.perform(Effect::ReadMarkers);
        } else {
            self.perform(Effect::Delay(delay));
        }
    }

    pub(super) fn finish_iteration(&mut self, outcome: IterationOutcome) {
        self.finish_iteration_at(outcome, self.state.spent);
    }

    fn finish_iteration_at(&mut self, outcome: IterationOutcome, spent_ms: Millis) {
        self.record(LoopEvent::IterationFinished { iteration: self.state.iterations, outcome, spent_ms });
    }

    // --- small words ----------------------------------------------------------------------------------------

    /// Whether a look at the workspace may be under way; while a check runs there is none.
    fn looks_at_workspace(&self) -> bool {
        matches!(self.state.phase, Phase::Judging(JudgeStep::Children { .. } | JudgeStep::Rechecking))
    }

    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state.phase, Phase::New | Phase::Over(_))
    }

    pub(super) fn started(&self) -> &LoopStarted {
        // Every phase but `New` has one, and no input but `Begin` gets past `New`.
        self.state.started.as_deref().expect("a loop that is asked something has begun")
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
