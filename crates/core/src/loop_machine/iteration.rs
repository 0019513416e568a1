//! Iterations: what is read before an agent starts, how the agent is started, and what follows when it has ended.

use jiff::Timestamp;

use super::{
    after_agent::{AfterAgent, AgentEnd, after_agent, failed_at_once, judge_attempt},
    decide::Decision,
    effect::Effect,
    input::{AgentReport, StartFailure, Supply},
    phase::Iteration,
    state::Progress,
};
use crate::{
    agent::Format,
    duration::Millis,
    event::{AgentExit, GateRole, IterationOutcome, IterationProgress, LoopEvent, Obstacle, Outcome, Reason},
    ids::fingerprint,
    judge::{
        progress,
        signal::{Facts, Signal, done_error, signals},
    },
    policy::{OnError, OnFatal, OwnClaim},
    prompt,
    text::count,
};

/// After this many iterations in a row without progress the user is warned.
pub(crate) const STUCK: u32 = 5;

impl Decision {
    /// Before an iteration: a DONE file is judged, else the next agent starts.
    pub(super) fn markers_read(&mut self, facts: &Facts, supply: &Supply) {
        if let Some(error) = self.done_error(facts) {
            return self.finish(Reason::Error, error);
        }
        let by: Vec<Signal> = signals(facts, self.policy()).into_iter().filter(|s| s.is_claim()).collect();
        let is_first = self.state.counters.iterations == 0 && self.state.refusals.is_empty();
        let own_claim = self.policy().claims.own_claim;
        if !by.is_empty() {
            self.claim(by);
        } else if self.awaits_approved_verdict()
            || (is_first && matches!(own_claim, OwnClaim::Always | OwnClaim::AtFirst))
        {
            self.claim(vec![Signal::OwnClaim]);
        } else if self.state.limits.max_iterations == 0 {
            self.next_iteration();
        } else if self.may_draw_on(supply) {
            self.next_attempt();
        }
    }

    /// Starts another agent process: in the iteration that waits for a retry, else in a new iteration.
    fn next_attempt(&mut self) {
        match self.state.iteration {
            Iteration::AwaitsRetry => self.retry(),
            Iteration::Closed | Iteration::Open => self.next_iteration(),
        }
    }

    fn done_error(&self, facts: &Facts) -> Option<String> {
        let policy = &self.policy();
        if policy.claims.done_file && policy.hears_promises() { done_error(&facts.done) } else { None }
    }

    pub(super) fn next_iteration(&mut self) {
        // A pause may come between the end of the money and a claim that is refused after it.
        if let Some(detail) = self.state.spending.exhausted.clone() {
            return self.finish(Reason::Budget, detail);
        }
        if self.state.counters.iterations >= self.state.limits.max_iterations {
            let detail = self.out_of_iterations();
            return self.finish(Reason::MaxIterations, detail);
        }
        let time_left = self.state.time_left();
        if time_left == Some(Millis(0)) {
            return self.out_of_time();
        }
        if let Some(detail) = self.unchanged_idles() {
            return self.finish(Reason::Stuck, detail);
        }
        let stuck = self.state.progress.log.without_progress();
        if self.policy().limits.stuck_after.is_some_and(|limit| stuck >= limit) {
            return self.finish(Reason::Stuck, format!("{stuck} iterations in a row without progress"));
        }
        if self.state.orders.pause {
            return self.record(LoopEvent::Paused);
        }
        if stuck > 0 && stuck.is_multiple_of(STUCK) {
            self.warn(format!("{stuck} iterations in a row without progress"));
        }
        let iteration = self.state.counters.iterations + 1;
        let nonce = prompt::nonce(self.started(), iteration);
        let prompt = prompt::compose(&self.state, iteration, &nonce);
        self.record(LoopEvent::IterationStarted {
            iteration,
            max_iterations: self.state.limits.max_iterations,
        });
        self.start_agent(prompt, nonce, time_left);
    }

    fn out_of_iterations(&self) -> String {
        let used =
            format!("{} used without an accepted claim", count(self.state.counters.iterations, "iteration"));
        // Where dacapo makes the claims, the user wants to know which check refused the last one.
        let own = !self.policy().claims.own_claim.is_left_to_agents();
        match self.state.refusals.last().filter(|_| own) {
            Some(refused) if self.state.counters.iterations == 0 => refused.detail.clone(),
            Some(refused) => format!("{used}: {}", refused.detail),
            None => used,
        }
    }

    /// Starts an agent again in the same iteration with the same prompt, because the attempt before was not charged.
    fn retry(&mut self) {
        let time_left = self.state.time_left();
        if time_left == Some(Millis(0)) {
            return self.out_of_time();
        }
        if self.state.orders.pause {
            return self.record(LoopEvent::Paused);
        }
        let iteration = self.state.counters.iterations;
        let nonce = prompt::nonce(self.started(), iteration);
        let prompt = prompt::compose(&self.state, iteration, &nonce);
        self.start_agent(prompt, nonce, time_left);
    }

    fn out_of_time(&mut self) {
        let detail = format!(
            "{} of work used without an accepted claim; the limit is {}",
            self.state.counters.spent.human(),
            self.state.limits.max_time.unwrap_or_default().human()
        );
        self.finish(Reason::MaxTime, detail);
    }

    fn start_agent(&mut self, prompt: String, nonce: String, time_left: Option<Millis>) {
        let (iteration, attempt) = (self.state.counters.iterations, self.state.counters.attempts + 1);
        let (index, output) = (self.state.sessions.agent, self.state.output.end);
        let policy = &self.policy();
        let agent = policy.agent.at(index).name.clone();
        let own = self.state.sessions.next.clone().filter(|_| policy.agent.continue_session);
        let session = if attempt == 1 { policy.agent.first_session.clone() } else { own };
        let reserve = Some(self.state.spending.largest).filter(|_| policy.limits.shares_budgets());
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
            let before = self.state.sessions.spent.get(&id).copied().unwrap_or_default();
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

    pub(super) fn agent_not_started(&mut self, failure: StartFailure) {
        if self.state.orders.stop.is_some() {
            self.finish_iteration(IterationOutcome::NotStarted);
            return self.finish_stopped();
        }
        if failure.is_fatal && self.policy().agent.fatal == OnFatal::Stop {
            self.finish_iteration(IterationOutcome::NotStarted);
            return self.finish(Reason::Agent, failure.detail);
        }
        self.warn(failure.detail);
        self.go_round(IterationOutcome::NotStarted);
    }

    pub(super) fn agent_exited(&mut self, report: AgentReport) {
        let AgentReport { at, exit, facts, snapshot, outline, warnings, stderr } = report;
        let iteration = self.state.counters.iterations;
        self.report_exit(iteration, &exit);
        let had_session = self.state.sessions.attempt.is_some();
        let mut judged = judge_attempt(&exit, had_session, self.state.sessions.lost);
        let is_undelivered = self.is_undelivered(exit.outcome);
        judged.charged &= !is_undelivered;
        let has_changed =
            snapshot.is_some() || self.state.progress.tree != outline && self.started().base.is_none();
        if !has_changed && judged.charged && judged.obstacle.is_none() {
            judged.failure_words = failed_at_once(&exit, &stderr);
            judged.obstacle = judged.failure_words.map(|_| Obstacle::FailedAtOnce);
        }
        let attempt = self.state.counters.attempts;
        self.record(LoopEvent::AgentExited { iteration, attempt, exit: exit.clone(), judged });
        if let Some((id, tree)) = snapshot {
            self.record(LoopEvent::SnapshotTaken { iteration, id, tree });
        }
        if self.started().base.is_none() && self.state.progress.tree != outline {
            if outline.is_none() {
                self.warn(progress::TOO_MANY.to_owned());
            }
            self.record(LoopEvent::OutlineTaken { iteration, outline });
        }
        for warning in warnings {
            // An agent gives the same warning in every iteration; the user needs it once.
            if !self.state.conversation.warned.contains(&fingerprint(warning.as_bytes())) {
                self.warn(warning);
            }
        }
        let seen = signals(&facts, self.policy());
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
        let refusal = seen.iter().find_map(|signal| match signal {
            Signal::Refusal(words) => Some(words.clone()),
            _ => None,
        });
        let mut claims: Vec<Signal> = seen.into_iter().filter(Signal::is_claim).collect();
        let is_malformed = matches!(claims[..], [Signal::MalformedItem(_)]);
        if is_malformed && !judged.charged {
            // The outage may have cut the agent off while it wrote the mark. The loop waits for the end of the outage.
            claims.clear();
        }
        let policy = self.policy();
        let waits = !self.state.conversation.waits.is_empty() || self.state.blocked_by().is_some();
        let end = AgentEnd {
            outcome: exit.outcome,
            is_undelivered,
            judged,
            had_session,
            is_stopping: self.state.orders.stop.is_some(),
            is_pausing: self.state.orders.pause,
            done_error: self.done_error(&facts),
            refusal,
            claims,
            waits,
            is_broke: self.state.spending.exhausted.is_some(),
            blocked_attempts: self.state.counters.blocked_attempts,
            failed_at_once: self.state.counters.failed_at_once,
            own_claim: match policy.claims.own_claim {
                OwnClaim::Never | OwnClaim::AtFirst => false,
                OwnClaim::WithAgent => !waits,
                OwnClaim::AfterAgent | OwnClaim::Always => true,
            },
            asks_until: self.asks_until(),
            has_failed: policy.agent.on_error == OnError::Stop && self.is_error(&exit),
        };
        let after = after_agent(&end);
        if !matches!(after, AfterAgent::Stop | AfterAgent::Fail(_) | AfterAgent::Hold) {
            self.return_items(facts.items.not_ours.clone());
            if is_malformed && facts.items.is_damaged {
                // The next agent needs the files with the marks, so they are restored. While a claim is judged they
                // stay as they are, because they are evidence.
                self.return_all_items();
            }
            if !end.is_broke
                && !matches!(after, AfterAgent::Refused(_) | AfterAgent::Judge(_) | AfterAgent::Wait)
            {
                self.warn_of_obstacle(&exit, judged);
            }
        }
        self.follow(after, at, &exit, &stderr);
    }

    /// Whether an agent ended with an error. An agent that prints events says itself whether it has finished; for
    /// another agent only the exit code tells.
    fn is_error(&self, exit: &AgentExit) -> bool {
        let format = self.policy().agent.at(self.state.sessions.agent).format;
        let has_bad_code = exit.exit_code != Some(0);
        match exit.outcome {
            Outcome::Crash | Outcome::Timeout | Outcome::Hang => true,
            Outcome::Completed => format == Format::Text && has_bad_code,
            _ => false,
        }
    }

    fn follow(&mut self, after: AfterAgent, at: Timestamp, exit: &AgentExit, stderr: &str) {
        match after {
            AfterAgent::Stop => {
                self.finish_iteration(IterationOutcome::Interrupted);
                self.finish_stopped();
            }
            AfterAgent::Fail(error) => {
                self.finish_iteration(IterationOutcome::NoClaim);
                self.finish(Reason::Error, error);
            }
            AfterAgent::Hold => {
                self.finish_iteration(IterationOutcome::Interrupted);
                self.record(LoopEvent::Paused);
            }
            AfterAgent::Failed => {
                let error = match (exit.outcome, exit.exit_code, exit.signal) {
                    (Outcome::Completed, Some(code), _) => format!("the agent exited with {code}"),
                    (Outcome::Completed, None, Some(signal)) => format!("signal {signal} ended the agent"),
                    _ => self.what_happened(exit),
                };
                self.finish_iteration(IterationOutcome::NoClaim);
                self.finish(Reason::Error, error);
            }
            AfterAgent::FailsAtOnce => {
                let said = complaint(stderr);
                let times = self.state.counters.failed_at_once;
                self.finish_iteration(IterationOutcome::NoClaim);
                self.finish(
                    Reason::Error,
                    format!("the agent failed at once {times} times in a row and changed nothing: {said}"),
                );
            }
            AfterAgent::Refused(words) => {
                self.finish_iteration(IterationOutcome::NoClaim);
                self.finish(Reason::Refused, format!("the agent refuses the work: {words}"));
            }
            AfterAgent::Judge(claims) => self.claim(claims),
            AfterAgent::Wait | AfterAgent::NoClaim => self.not_done(IterationOutcome::NoClaim),
            AfterAgent::Interrupted => self.not_done(IterationOutcome::Interrupted),
            AfterAgent::AwaitReset => self.await_reset(at, exit),
            AfterAgent::BackOff => self.back_off(at, exit),
            AfterAgent::NotSignedIn => self.finish(Reason::Auth, self.what_happened(exit)),
            AfterAgent::NoMoney => self.finish(Reason::Billing, self.what_happened(exit)),
            AfterAgent::TryAgain if self.is_in_session() => self.next_attempt(),
            AfterAgent::TryAgain => self.perform(Effect::ReadMarkers),
            AfterAgent::Misused => self.finish(Reason::Agent, self.what_happened(exit)),
            AfterAgent::NeedsPerson => {
                self.finish_iteration(IterationOutcome::NoClaim);
                self.finish(Reason::Waiting, self.what_happened(exit));
            }
            AfterAgent::OwnClaim => self.claim(vec![Signal::OwnClaim]),
            AfterAgent::AskUntil => self.run_check(GateRole::Until, 0),
        }
    }

    /// Whether until-commands may make a claim.
    fn asks_until(&self) -> bool {
        let policy = &self.policy();
        !policy.claims.until.is_empty() && !policy.marks_items()
    }

    /// Records a question once, although it is heard twice: when the agent asks it, and in the output when the agent
    /// ended.
    pub(super) fn ask(&mut self, text: &str) {
        if !self.state.conversation.asked.iter().any(|asked| asked == text) {
            self.record(LoopEvent::QuestionAsked { text: text.to_owned() });
        }
    }

    /// Posts on the bus how the agent ended, in the restart preset's words.
    fn report_exit(&mut self, iteration: u32, exit: &AgentExit) {
        let restart = iteration - 1;
        let limit = self.state.limits.max_iterations;
        let how = match (exit.outcome, exit.exit_code, exit.signal) {
            (Outcome::Timeout, ..) => {
                let after = self.policy().limits.iteration_timeout.unwrap_or_default();
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

    /// The iteration brought no accepted claim. An agent that is blocked or waits stops the loop, else a limit may
    /// stop it, else the next iteration follows.
    pub(super) fn not_done(&mut self, outcome: IterationOutcome) {
        if let Some(why) = self.state.blocked_by() {
            let detail = format!("the agent is blocked: {why}");
            self.finish_iteration(IterationOutcome::Blocked);
            return self.finish(Reason::Blocked, detail);
        }
        if !self.state.conversation.waits.is_empty() {
            self.finish_iteration(IterationOutcome::Waiting);
            let waits = &self.state.conversation.waits;
            let said = waits.iter().find_map(|wait| match wait {
                Signal::WaitMessage(body) => body.lines().map(str::trim).find(|line| !line.is_empty()),
                _ => None,
            });
            let names: Vec<&str> = waits.iter().map(Signal::name).collect();
            let detail = match said {
                Some(what) => format!("the agent waits: {what}"),
                None => format!("the agent waits ({})", names.join(", ")),
            };
            self.post("INFO", "Wait-without-restart signal detected".to_owned());
            return match self.state.conversation.question.clone() {
                Some(question) => self.finish(Reason::Question, question),
                None => self.finish(Reason::Waiting, detail),
            };
        }
        self.go_round(outcome);
    }

    /// Closes the iteration. Then a limit stops the loop, or it pauses, or the next iteration follows after a delay.
    fn go_round(&mut self, outcome: IterationOutcome) {
        let out_of_iterations = self.state.counters.iterations >= self.state.limits.max_iterations;
        let out_of_time = self.state.limits.max_time.is_some_and(|max| self.state.counters.spent >= max);
        let out_of_money = self.state.spending.exhausted.is_some();
        let is_last = out_of_iterations || out_of_time || out_of_money || self.state.orders.pause;
        let delay =
            if is_last { Millis(0) } else { self.policy().pace.delay_after(self.state.counters.iterations) };
        // The delay is added to the spent time when it begins, because no event records its end.
        self.finish_iteration_at(outcome, self.state.counters.spent.plus(delay));
        if !is_last {
            let next = self.state.counters.iterations + 1;
            self.post("INFO", format!("restarting (attempt {next}/{})", self.state.limits.max_iterations));
        }
        if let Some(detail) = self.state.spending.exhausted.clone() {
            self.finish(Reason::Budget, detail);
        } else if delay.is_zero() && (is_last || !self.policy().needs_supply()) {
            self.next_iteration();
        } else if delay.is_zero() {
            self.perform(Effect::ReadMarkers);
        } else {
            self.perform(Effect::Delay(delay));
        }
    }

    pub(super) fn finish_iteration(&mut self, outcome: IterationOutcome) {
        self.finish_iteration_at(outcome, self.state.counters.spent);
    }

    fn finish_iteration_at(&mut self, outcome: IterationOutcome, spent_ms: Millis) {
        let Progress { log, tree, failure, .. } = &self.state.progress;
        let is_accepted = outcome == IterationOutcome::Accepted;
        let progress = match outcome {
            // A blocked agent said that it cannot go on, so its iteration does not count as one without progress.
            IterationOutcome::Blocked => IterationProgress::Unknown,
            _ => log.judge(tree.as_deref(), failure.as_deref(), is_accepted),
        };
        let iteration = self.state.counters.iterations;
        self.record(LoopEvent::IterationFinished { iteration, outcome, spent_ms, progress });
    }
}

/// The line of `stderr` that says what is wrong: the last that speaks of an error, for hints and usage may follow it and calls stand
/// around it, else the last.
fn complaint(stderr: &str) -> &str {
    let mut lines = stderr.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let last = lines.clone().next().unwrap_or_default();
    let speaks_of_error = |line: &&str| line.to_lowercase().contains("error") && !line.starts_with("at ");
    lines.find(speaks_of_error).unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_says_what_is_wrong_is_found_among_others() {
        for (stderr, line) in [
            ("", ""),
            ("unknown option --yolo\n\n", "unknown option --yolo"),
            ("Error: model not found: gpt-nope\nTry one of: a, b\n", "Error: model not found: gpt-nope"),
            (
                "error: unexpected argument '--x' found\n\nUsage: agent [OPTIONS]\n\nFor more information, try '--help'.\n",
                "error: unexpected argument '--x' found",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'x'\n",
                "ModuleNotFoundError: No module named 'x'",
            ),
            (
                "Error: Cannot find module 'x'\n    at node:internal/errors:541\n    at main (a.js:1)\n",
                "Error: Cannot find module 'x'",
            ),
        ] {
            assert_eq!(complaint(stderr), line, "{stderr:?}");
        }
    }
}
