//! What follows from each input. Every state answers every input, if only with nothing.

use jiff::{SignedDuration, Timestamp};

use super::{
    AfterAnswer, Answer, LoopResult, Raise, ScriptEnd, ScriptResult, StepPhase, StepWorkKind, WorkflowEffect,
    WorkflowEnd, WorkflowEvent, WorkflowInput, WorkflowNews, WorkflowProgress, advance::Deciding,
};
use crate::{
    duration::Millis,
    event::Reason,
    machine::Step,
    workflow::{LoopStep, OfferedDecision, RetryOn, StepId, StepKind, answer, messages},
};

pub(super) fn decide(
    state: &WorkflowProgress,
    WorkflowInput { now, news }: WorkflowInput,
) -> Step<WorkflowEvent, WorkflowEffect> {
    let mut deciding = Deciding::new(state, now);
    let is_over = state.end.is_some();
    match news {
        WorkflowNews::Begin(started) if state.started.is_none() => {
            deciding.record(WorkflowEvent::WorkflowStart(started));
        }
        // Everything else is about a run that there is.
        _ if state.started.is_none() => return Step::default(),
        WorkflowNews::Begin(_) => return Step::default(),
        WorkflowNews::Resumed { raise } => deciding.resume(raise),
        // What comes too late changes nothing.
        _ if is_over => return Step::default(),
        WorkflowNews::TakenUp => deciding.take_up(),
        WorkflowNews::LoopEnded { step, attempt, end } => deciding.loop_ended(&step, attempt, *end),
        WorkflowNews::ScriptStarted { step, attempt, sandbox } => {
            if deciding.running(&step, attempt).is_some() {
                deciding.record(WorkflowEvent::ScriptStarted { step, attempt, sandbox });
            }
        }
        WorkflowNews::ScriptEnded { step, attempt, end } => deciding.script_ended(&step, attempt, end),
        WorkflowNews::Merged { step, attempt, end } => deciding.merged(&step, attempt, end),
        WorkflowNews::TreeSeen { step, attempt, tree } => deciding.tree_seen(&step, attempt, tree),
        WorkflowNews::Answered { question, answer, text, tree } => {
            deciding.answered(question, &answer, text, tree)
        }
        WorkflowNews::FileSeen { step } => deciding.wait_over(|id, _| *id == step),
        WorkflowNews::Signalled { name } => {
            let is_meant = |_: &StepId, kind: &StepKind| matches!(kind, StepKind::Wait(crate::workflow::WaitFor::Signal(known)) if *known == name);
            deciding.wait_over(is_meant);
        }
        WorkflowNews::Due => {}
        WorkflowNews::Spent { cost_usd, tokens, time_ms } => deciding.spent(cost_usd, tokens, time_ms),
        WorkflowNews::Pause { now } => {
            if !state.is_paused {
                deciding.record(WorkflowEvent::WorkflowPaused { now });
                deciding.perform(WorkflowEffect::HoldLoops { now });
            }
        }
        WorkflowNews::Unpause => {
            if state.is_paused {
                deciding.record(WorkflowEvent::WorkflowUnpaused);
                deciding.perform(WorkflowEffect::ReleaseLoops);
            }
        }
        WorkflowNews::Cancel { why } => deciding.stop(WorkflowEnd::cancelled(why)),
    }
    deciding.advance();
    deciding.done()
}

/// Why an answer does not fit the question, for people to be told before it is recorded.
pub fn accepts(state: &WorkflowProgress, question: u32, answer: &Answer) -> Result<(), String> {
    let Some((id, _)) = state.question(question).filter(|_| state.stopping.is_none()) else {
        return Err("this question is no longer open".to_owned());
    };
    let Some(StepKind::Approval(approval)) = state.kind(id) else {
        return match answer {
            Answer::Choose(name) => Err(format!("`{name}` is no answer here; approve or reject")),
            Answer::Approve | Answer::Reject => Ok(()),
        };
    };
    decision(&approval.decisions, answer).map(|_| ())
}

/// The word for an answer in the journal, and whether it sends the work back; or why it answers no question with these decisions.
pub fn decision(decisions: &[OfferedDecision], answer: &Answer) -> Result<(String, bool), String> {
    let known: Vec<&str> = decisions.iter().map(|decision| decision.id.as_str()).collect();
    let choose = |is_rework: bool| {
        let fitting: Vec<_> = decisions.iter().filter(|known| known.rework == is_rework).collect();
        match fitting.as_slice() {
            [one] => Ok((one.id.clone(), is_rework)),
            [] if is_rework => Ok(("reject".to_owned(), true)),
            _ => Err(format!("choose one of {}", known.join(", "))),
        }
    };
    match answer {
        Answer::Approve if known.is_empty() => Ok(("approve".to_owned(), false)),
        Answer::Approve => choose(false),
        Answer::Reject => choose(true),
        Answer::Choose(name) => match decisions.iter().find(|known| known.id == *name) {
            Some(known) => Ok((known.id.clone(), known.rework)),
            None if known.is_empty() => Err(format!("`{name}` is no answer here; approve or reject")),
            None => Err(format!("`{name}` is no answer here; choose one of {}", known.join(", "))),
        },
    }
}

/// What the end of a loop means for its step.
enum LoopOutcome {
    Done,
    /// The iteration of an interactive loop has ended, and the loop is not done.
    NotDone,
    Held,
    Failed,
}

/// Whether a loop that ended so goes on when its step does.
pub fn is_held(reason: Reason) -> bool {
    matches!(outcome(reason, false), LoopOutcome::Held)
}

fn outcome(reason: Reason, is_interactive: bool) -> LoopOutcome {
    match reason {
        Reason::Done => LoopOutcome::Done,
        Reason::MaxIterations if is_interactive => LoopOutcome::NotDone,
        Reason::Interrupted
        | Reason::Terminated
        | Reason::Waiting
        | Reason::Question
        | Reason::Auth
        | Reason::Billing
        | Reason::Budget
        | Reason::MaxTime => LoopOutcome::Held,
        Reason::Error
        | Reason::Agent
        | Reason::Gate
        | Reason::Disk
        | Reason::Lock
        | Reason::MaxIterations
        | Reason::Stuck
        | Reason::Blocked
        | Reason::Refused
        | Reason::Cancelled => LoopOutcome::Failed,
    }
}

impl Deciding {
    /// A new performer is told what is under way.
    fn take_up(&mut self) {
        let steps = self.state.workflow().map(|workflow| workflow.steps.clone()).unwrap_or_default();
        for step in steps {
            let Some(own) = self.state.step(&step.id).cloned() else { continue };
            let (id, attempt) = (step.id.clone(), own.attempt);
            match own.phase {
                StepPhase::Running(StepWorkKind::Merge) => self.order(&step),
                StepPhase::Running(_) if matches!(step.kind, StepKind::Bash(_)) => {
                    // Whether it came to its end is not known. It has no answer, so it runs again, as another attempt.
                    if self.state.stopping.is_some() {
                        let error = "cut short, and the run is to end".to_owned();
                        self.record(WorkflowEvent::StepError {
                            step: id,
                            attempt,
                            error,
                            reason: None,
                            repeats: false,
                            retry_at: None,
                        });
                    } else {
                        self.record(WorkflowEvent::StepStart {
                            step: id,
                            attempt: attempt + 1,
                            work: StepWorkKind::Main,
                        });
                        self.order(&step);
                    }
                }
                StepPhase::Running(_) if self.state.stopping.is_some() => {
                    self.perform(WorkflowEffect::Stop { step: id, attempt });
                }
                StepPhase::Running(_) => self.order(&step),
                StepPhase::Looking => self.perform(WorkflowEffect::LookAtTree { step: id, attempt }),
                StepPhase::Waiting { due } => {
                    if let StepKind::Wait(what) = step.kind {
                        self.perform(WorkflowEffect::Wait { step: id, what, due });
                    }
                }
                StepPhase::Pending
                | StepPhase::Ready(_)
                | StepPhase::Retrying { .. }
                | StepPhase::Asking { .. }
                | StepPhase::Held { .. }
                | StepPhase::Completed
                | StepPhase::Failed { .. }
                | StepPhase::Skipped { .. } => {}
            }
        }
    }

    /// The user wants the run to go on: what failed is tried again, what was held up continues.
    fn resume(&mut self, raise: Raise) {
        use super::EndReason;
        if matches!(&self.state.end, Some(end) if matches!(end.end, EndReason::Completed | EndReason::Cancelled))
        {
            return;
        }
        let steps = self.state.workflow().map(|workflow| workflow.steps.clone()).unwrap_or_default();
        let was_over = self.state.end.is_some();
        let mut reopened: Vec<StepId> = Vec::new();
        let mut continued: Vec<StepId> = Vec::new();
        for step in steps.iter().filter(|_| was_over) {
            let above = self.state.above(&step.id);
            let is_reopened = match self.state.phase(&step.id) {
                StepPhase::Failed { .. } if self.is_blocked(step) => {
                    continued.push(step.id.clone());
                    false
                }
                StepPhase::Failed { .. } => true,
                StepPhase::Skipped { .. } => steps.iter().any(|other| {
                    above.contains(&other.id)
                        && matches!(self.state.phase(&other.id), StepPhase::Failed { .. })
                }),
                _ => false,
            };
            if is_reopened {
                reopened.push(step.id.clone());
            }
        }
        self.record(WorkflowEvent::WorkflowResumed { reopened, continued, raise });
        for step in &steps {
            if matches!(self.state.phase(&step.id), StepPhase::Held { .. }) {
                let attempt = self.state.step(&step.id).map_or(0, |own| own.attempt);
                if matches!(step.kind, StepKind::Bash(_)) {
                    let attempt = attempt + 1;
                    self.record(WorkflowEvent::StepStart {
                        step: step.id.clone(),
                        attempt,
                        work: StepWorkKind::Main,
                    });
                } else {
                    self.record(WorkflowEvent::StepContinued { step: step.id.clone(), attempt });
                }
                self.order(step);
            }
        }
    }

    /// Whether the agent of this step said that it is blocked: its loop goes on when the user says so, with what the person has
    /// said to it. One with a worktree of its own begins anew, because that worktree went with the end of the run.
    fn is_blocked(&self, step: &crate::workflow::Step) -> bool {
        let reason = match self.state.phase(&step.id) {
            StepPhase::Failed { reason, .. } => *reason,
            _ => None,
        };
        reason == Some(Reason::Blocked) && step.kind.has_agent() && !step.worktree
    }

    /// What runs for a step, if it is this attempt that runs.
    fn running(&self, id: &StepId, attempt: u32) -> Option<StepWorkKind> {
        match self.state.step(id) {
            Some(own) if own.attempt == attempt => match own.phase {
                StepPhase::Running(work) => Some(work),
                _ => None,
            },
            _ => None,
        }
    }

    fn loop_ended(&mut self, id: &StepId, attempt: u32, end: LoopResult) {
        let Some(work) = self.running(id, attempt).filter(|work| *work != StepWorkKind::Merge) else {
            return;
        };
        let Some(step) = self.state.workflow().and_then(|workflow| workflow.step(id)).cloned() else {
            return;
        };
        let interactive = match &step.kind {
            StepKind::Loop(looped) if looped.is_interactive() => Some(looped),
            _ => None,
        };
        match outcome(end.reason, interactive.is_some()) {
            LoopOutcome::Held if self.state.stopping.is_none() => {
                let LoopResult { reason, detail, .. } = end;
                self.record(WorkflowEvent::StepHeld { step: id.clone(), attempt, reason, detail });
            }
            LoopOutcome::NotDone if work == StepWorkKind::Check => self.ask(id, end.tree, false),
            LoopOutcome::Failed if end.reason == Reason::MaxIterations && work != StepWorkKind::Rework => {
                match &step.kind {
                    StepKind::Loop(looped) => {
                        self.out_of_iterations(id, attempt, looped, end.refused.as_deref())
                    }
                    // The agent of a step has one iteration, and its gates have refused what it did.
                    _ => self.failed(id, attempt, end.detail, Some(end.reason)),
                }
            }
            LoopOutcome::Held | LoopOutcome::Failed if end.repeats => {
                self.record(WorkflowEvent::StepError {
                    step: id.clone(),
                    attempt,
                    error: end.detail,
                    reason: Some(end.reason),
                    repeats: true,
                    retry_at: None,
                });
            }
            LoopOutcome::Held | LoopOutcome::Failed => self.failed(id, attempt, end.detail, Some(end.reason)),
            LoopOutcome::Done if work == StepWorkKind::Rework => {
                self.record(WorkflowEvent::ReworkComplete { step: id.clone(), attempt });
                self.check_again(id, "an agent has changed what was rejected");
            }
            LoopOutcome::Done if work == StepWorkKind::Check => {
                // If its agent had nothing to do, what it said before holds.
                let own = self.state.step(id).cloned().unwrap_or_default();
                let output = if end.output.is_empty() { own.output } else { end.output };
                self.complete(id.clone(), attempt, output, end.is_changed, end.session.or(own.session));
            }
            LoopOutcome::Done | LoopOutcome::NotDone if interactive.is_some() => {
                let is_met = end.reason == Reason::Done;
                if let Some(looped) = interactive {
                    self.iterated(id, attempt, looped, is_met, end);
                }
            }
            LoopOutcome::NotDone => {}
            LoopOutcome::Done => {
                let schema = match &step.kind {
                    StepKind::Agent(agent) => agent.output_format.as_ref(),
                    _ => None,
                };
                let output =
                    schema.map_or(Ok(end.output.clone()), |schema| answer::structured(&end.output, schema));
                match output {
                    Ok(output) if schema.is_some() && output.len() > crate::workflow::MAX_OUTPUT => {
                        self.failed(id, attempt, "the answer is too long".to_owned(), Some(Reason::Error));
                    }
                    Ok(output) => self.complete(id.clone(), attempt, output, end.is_changed, end.session),
                    Err(why) => {
                        let error = format!("{why}, as `output_format` wants it");
                        self.failed(id, attempt, error, Some(Reason::Error));
                    }
                }
            }
        }
    }

    fn iterated(&mut self, id: &StepId, attempt: u32, looped: &LoopStep, is_met: bool, end: LoopResult) {
        let iteration = self.state.step(id).map_or(0, |own| own.iterations) + 1;
        let LoopResult { output, tree, is_changed, session, refused, .. } = end;
        let output = crate::workflow::template::shortened(&output);
        self.record(WorkflowEvent::StepIterated {
            step: id.clone(),
            attempt,
            iteration,
            output: output.clone(),
            is_changed,
            session: session.clone(),
        });
        if is_met && looped.signal_completes {
            self.complete(id.clone(), attempt, output, is_changed, session);
        } else if !is_met && iteration >= looped.max_iterations {
            self.out_of_iterations(id, attempt, looped, refused.as_deref());
        } else {
            self.ask(id, tree, is_met);
        }
    }

    /// `refused` is why the last claim of its agent did not count, if there was one.
    fn out_of_iterations(&mut self, id: &StepId, attempt: u32, looped: &LoopStep, refused: Option<&str>) {
        let error = match refused {
            Some(why) => messages::max_iterations_refused(looped.max_iterations, why),
            None => {
                let until = looped.until.as_deref().or(looped.until_bash.as_deref()).unwrap_or_default();
                messages::max_iterations(looped.max_iterations, until)
            }
        };
        self.failed(id, attempt, error, Some(Reason::MaxIterations));
    }

    /// The step has failed, or is tried again.
    fn failed(&mut self, id: &StepId, attempt: u32, error: String, reason: Option<Reason>) {
        let own = self.state.step(id).cloned().unwrap_or_default();
        let retry = self.state.workflow().and_then(|workflow| workflow.step(id)).and_then(|step| step.retry);
        let retry_at = retry.filter(|retry| {
            let is_transient = matches!(reason, Some(Reason::Error | Reason::Disk | Reason::Lock));
            let is_final = matches!(reason, Some(Reason::Blocked | Reason::Cancelled | Reason::Agent));
            let is_meant = is_transient || (retry.on_error == RetryOn::All && !is_final);
            is_meant && own.retries < retry.max_attempts && self.state.stopping.is_none()
        });
        let retry_at = retry_at.map(|retry| later(self.now, retry.delay, own.retries));
        let step = id.clone();
        self.record(WorkflowEvent::StepError { step, attempt, error, reason, repeats: false, retry_at });
    }

    fn script_ended(
        &mut self,
        id: &StepId,
        attempt: u32,
        ScriptResult { end, output, is_changed }: ScriptResult,
    ) {
        if self.running(id, attempt).is_none_or(|work| work == StepWorkKind::Merge) {
            return;
        }
        match end {
            ScriptEnd::Exited(0) => {
                self.complete(
                    id.clone(),
                    attempt,
                    output.trim_end_matches('\n').to_owned(),
                    is_changed,
                    None,
                );
            }
            ScriptEnd::Exited(code) => {
                let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                let last = crate::yaml::short(last.trim());
                let said = if last.is_empty() { String::new() } else { format!(": {last}") };
                self.failed(id, attempt, format!("the script exited with {code}{said}"), None);
            }
            ScriptEnd::TimedOut => self.failed(id, attempt, "the script took too long".to_owned(), None),
            ScriptEnd::NotStarted(why) => {
                self.failed(id, attempt, format!("the script could not be started: {why}"), None);
            }
            ScriptEnd::Lost(how) => self.failed(id, attempt, format!("the script {how}"), None),
            ScriptEnd::Interrupted(reason) if self.state.stopping.is_none() => {
                let detail = "the script was interrupted".to_owned();
                self.record(WorkflowEvent::StepHeld { step: id.clone(), attempt, reason, detail });
            }
            ScriptEnd::Interrupted(reason) => {
                self.failed(id, attempt, "the script was stopped".to_owned(), Some(reason));
            }
        }
    }

    fn merged(&mut self, id: &StepId, attempt: u32, end: Result<(), String>) {
        if self.running(id, attempt) != Some(StepWorkKind::Merge) {
            return;
        }
        let own = self.state.step(id).cloned().unwrap_or_default();
        match end {
            Ok(()) => self.record(WorkflowEvent::StepComplete {
                step: id.clone(),
                attempt,
                output: own.output,
                is_changed: own.is_changed,
                session: own.session,
            }),
            Err(why) => self.failed(id, attempt, why, None),
        }
    }

    fn tree_seen(&mut self, id: &StepId, attempt: u32, tree: String) {
        let is_looking =
            self.state.step(id).is_some_and(|own| own.attempt == attempt && own.phase == StepPhase::Looking);
        if is_looking {
            self.ask(id, tree, true);
        }
    }

    fn ask(&mut self, id: &StepId, tree: String, is_met: bool) {
        let (message, decisions) = match self.state.kind(id) {
            Some(StepKind::Approval(approval)) => (approval.message.clone(), approval.decisions.clone()),
            Some(StepKind::Loop(looped)) => (looped.gate_message.clone().unwrap_or_default(), Vec::new()),
            _ => return,
        };
        let message = self.fill(id, &message);
        let question = self.state.questions + 1;
        self.record(WorkflowEvent::QuestionAsked {
            question,
            step: id.clone(),
            tree,
            message,
            decisions,
            is_met,
        });
        self.perform(WorkflowEffect::Ask { question });
    }

    fn answered(&mut self, question: u32, answer: &Answer, text: String, tree: String) {
        // A run that ends takes no answer: the one that ends it was the last.
        let Some((id, phase)) = self.state.question(question).filter(|_| self.state.stopping.is_none())
        else {
            return;
        };
        let id = id.clone();
        let StepPhase::Asking { tree: asked_about, is_met, .. } = phase.clone() else { return };
        let attempt = self.state.step(&id).map_or(0, |own| own.attempt);
        match self.state.kind(&id).cloned() {
            Some(StepKind::Approval(approval)) => {
                let Ok((decision, is_rework)) = decision(&approval.decisions, answer) else { return };
                if !is_rework && tree != asked_about {
                    self.refuse(question, &id, asked_about, tree);
                    self.check_again(&id, "the files have changed since the question was asked");
                    return;
                }
                let reworks = self.state.step(&id).map_or(0, |own| own.reworks);
                let has_rework =
                    approval.on_reject.as_ref().is_some_and(|rework| reworks < rework.max_attempts);
                let follows = match (is_rework, has_rework) {
                    (false, _) => AfterAnswer::Complete,
                    (true, true) => AfterAnswer::Rework,
                    (true, false) => AfterAnswer::End,
                };
                self.record_answer(question, &id, &decision, &text, &tree, follows);
                match follows {
                    AfterAnswer::Complete => {
                        let output = match (approval.decisions.is_empty(), approval.capture_response) {
                            (false, _) => {
                                serde_json::json!({ "decision": decision, "comment": text }).to_string()
                            }
                            (true, true) => text,
                            (true, false) => String::new(),
                        };
                        self.complete(id, attempt, output, false, None);
                    }
                    AfterAnswer::End => self.stop(rejected(&id, &text)),
                    AfterAnswer::Rework | AfterAnswer::Iterate => {}
                }
            }
            Some(StepKind::Loop(looped)) => match answer {
                Answer::Choose(_) => {}
                Answer::Reject => {
                    self.record_answer(question, &id, "reject", &text, &tree, AfterAnswer::End);
                    self.stop(rejected(&id, &text));
                }
                Answer::Approve if tree != asked_about => {
                    self.refuse(question, &id, asked_about, tree.clone());
                    // What was done was done about other files; the next iteration has to show it again.
                    self.ask(&id, tree, false);
                }
                Answer::Approve => {
                    let own = self.state.step(&id).cloned().unwrap_or_default();
                    let is_complete = is_met && text.trim().is_empty();
                    let is_last = own.iterations >= looped.max_iterations;
                    let follows = if is_complete { AfterAnswer::Complete } else { AfterAnswer::Iterate };
                    self.record_answer(question, &id, "approve", &text, &tree, follows);
                    if is_complete {
                        self.complete(id, attempt, own.output, own.is_changed, own.session);
                    } else if is_last {
                        self.out_of_iterations(&id, attempt, &looped, None);
                    }
                }
            },
            _ => {}
        }
    }

    fn record_answer(
        &mut self,
        question: u32,
        id: &StepId,
        decision: &str,
        text: &str,
        tree: &str,
        follows: AfterAnswer,
    ) {
        self.record(WorkflowEvent::QuestionAnswered {
            question,
            step: id.clone(),
            decision: decision.to_owned(),
            text: text.to_owned(),
            tree: tree.to_owned(),
            follows,
        });
    }

    fn refuse(&mut self, question: u32, id: &StepId, asked_about: String, tree: String) {
        self.record(WorkflowEvent::AnswerRefused { question, step: id.clone(), asked_about, tree });
    }

    /// Every check between the change and the question runs again, before the person is asked again.
    fn check_again(&mut self, question: &StepId, because: &str) {
        let (steps, checks) = self.state.checks_before(question);
        if !steps.is_empty() || !checks.is_empty() {
            self.record(WorkflowEvent::StepsReopened { steps, checks, because: because.to_owned() });
        }
    }

    fn wait_over(&mut self, is_meant: impl Fn(&StepId, &StepKind) -> bool) {
        let waiting: Vec<(StepId, u32)> = self
            .state
            .steps
            .iter()
            .filter(|(_, step)| matches!(step.phase, StepPhase::Waiting { .. }))
            .filter(|(id, _)| self.state.kind(id).is_some_and(|kind| is_meant(id, kind)))
            .map(|(id, step)| (id.clone(), step.attempt))
            .collect();
        if self.state.stopping.is_none() {
            for (step, attempt) in waiting {
                self.complete(step, attempt, String::new(), false, None);
            }
        }
    }

    fn spent(&mut self, cost_usd: f64, tokens: u64, time_ms: u64) {
        let Some(budget) = self.state.budget() else { return };
        let what = if let Some(max) = budget.max_cost.filter(|max| cost_usd >= *max) {
            format!("${cost_usd:.2} of ${max:.2} are spent")
        } else if let Some(max) = budget.max_tokens.filter(|max| tokens >= *max) {
            format!("{tokens} of {max} tokens are used")
        } else if let Some(max) = budget.max_time.filter(|max| time_ms >= max.0) {
            format!("{} of {} have passed", Millis(time_ms).human(), max.human())
        } else {
            return;
        };
        if self.state.exceeded.is_none() {
            self.record(WorkflowEvent::BudgetExceeded { what: what.clone() });
            self.perform(WorkflowEffect::Warn(what));
        }
    }
}

fn rejected(id: &StepId, text: &str) -> WorkflowEnd {
    let why = text.lines().next().unwrap_or_default().trim();
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    WorkflowEnd::cancelled(format!("rejected at step `{id}`{why}"))
}

/// The delay doubles with every try.
fn later(now: Timestamp, delay: Millis, tries: u32) -> Timestamp {
    let delay = delay.0.saturating_mul(1 << tries.min(16));
    now.checked_add(SignedDuration::from_millis(i64::try_from(delay).unwrap_or(i64::MAX)))
        .unwrap_or(Timestamp::MAX)
}
