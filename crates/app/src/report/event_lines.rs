//! Events of loops and of runs in words: what happened, in one line each.

use dacapo_core::{
    event::{
        AgentExit, Envelope, GatePlace, GateResult, GateRole, IdleSkip, IterationOutcome, Look, LoopEvent,
        MergeMode, Outcome, RunEnvelope, RunEvent, RunStop, Spend, StopCause,
    },
    ids::UnitId,
    item::ItemKey,
    judge::{evidence::EvidenceReason, signal::Signal},
    limits::Budget,
    stages::{
        ReviewVerdict,
        machine::{TaskEndReason, TaskEnvelope, TaskEvent},
    },
    text::{LINES_OF_RED_GATE, count, last_lines},
    view::refused_answer,
    workflow::{
        StepId,
        machine::{AfterAnswer, EndReason, StepWorkKind, WorkflowEnvelope, WorkflowEvent},
    },
};
use jiff::{Timestamp, Zoned, tz::TimeZone};

/// A whole event as `dacapo events` prints it.
pub(crate) fn event_line(envelope: &Envelope) -> String {
    let at = envelope.at.strftime("%Y-%m-%d %H:%M:%S");
    format!("{:>6}  {at}  {}  {}", envelope.seq, envelope.loop_id, describe(&envelope.event))
}

/// An event of a task as `dacapo events` prints it.
pub(crate) fn task_event_line(envelope: &TaskEnvelope) -> String {
    let at = envelope.at.strftime("%Y-%m-%d %H:%M:%S");
    format!("{:>6}  {at}  {}  {}", envelope.seq, envelope.run, describe_task(&envelope.event))
}

/// What happened to a task, in one line.
pub(crate) fn describe_task(event: &TaskEvent) -> String {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    match event {
        TaskEvent::TaskStarted(started) => {
            format!("task {} started: {}", started.task.id, started.task.title)
        }
        TaskEvent::WorktreeMade { path, branch, .. } => {
            format!("is worked on in {} on the branch {branch}", path.display())
        }
        TaskEvent::StageStarted { stage, max_iterations, .. } => {
            format!("{stage} started, {} at most", count(*max_iterations, "iteration"))
        }
        TaskEvent::StageIteration { entry, .. } => {
            let how = match (&entry.verification, &entry.refusal) {
                (_, Some(words)) if !entry.promise_found => words.clone(),
                (_, Some(refusal)) => format!("the promise was refused: {refusal}"),
                (Some(EvidenceReason::Verified), None) if !entry.gated => {
                    format!("{}, and no gate stood behind it", EvidenceReason::Verified)
                }
                (Some(verification), None) => verification.to_string(),
                (None, None) if entry.timed_out => "timed out".to_owned(),
                (None, None) if entry.promise_found => "promised".to_owned(),
                (None, None) => "no promise".to_owned(),
            };
            let cost = entry.cost_usd.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
            format!("{} iteration {}/{}: {how}{cost}", entry.stage, entry.ralph_iteration, entry.ralph_max)
        }
        TaskEvent::StageHeld { stage, reason, detail, .. } => {
            format!("{stage} stopped ({}): {detail}", reason.as_str())
        }
        TaskEvent::StageResumed { stage, .. } => format!("{stage} goes on"),
        TaskEvent::StagePassed { stage, loop_id: None, .. } => {
            format!("{stage} passed: the user takes the work as it is")
        }
        TaskEvent::StagePassed { stage, iterations, changed, unreviewed, deleted_tests, .. } => {
            let files = u32::try_from(changed.len()).unwrap_or(u32::MAX);
            let changed =
                if files == 0 { String::new() } else { format!(", {} changed", count(files, "file")) };
            let unreviewed = match &unreviewed[..] {
                [] => String::new(),
                files => format!(", not reviewed: {}", files.join(", ")),
            };
            let deleted = match &deleted_tests[..] {
                [] => String::new(),
                files => format!(", deleted tests: {}", files.join(", ")),
            };
            format!("{stage} passed after {}{changed}{unreviewed}{deleted}", count(*iterations, "iteration"))
        }
        TaskEvent::CoderReplied { replies } => {
            let words: Vec<String> =
                replies.iter().map(|reply| format!("F{} {}", reply.number, reply.state.as_str())).collect();
            format!("the coder says: {}", words.join(", "))
        }
        TaskEvent::ReviewRound { round } => {
            let verdict = match round.verdict {
                ReviewVerdict::Approved => "approved",
                ReviewVerdict::Refused => "refused",
                ReviewVerdict::Unclear => "unclear",
            };
            let found = u32::try_from(round.found.len()).unwrap_or(u32::MAX);
            let found = if found == 0 { String::new() } else { format!(", {}", count(found, "new finding")) };
            format!("review {}: {verdict}{found}", round.number)
        }
        TaskEvent::SentBack { from, open } => {
            format!("the {from} sends it back to the coder with {}", count(*open, "open finding"))
        }
        TaskEvent::QuestionAsked { question, .. } => format!("asks: {}", first_line(&question.text)),
        TaskEvent::QuestionAnswered { is_approved, text, .. } => {
            let word = if *is_approved { "approved" } else { "rejected" };
            match first_line(text) {
                text if text.is_empty() => format!("the user {word} it"),
                text => format!("the user {word} it: {text}"),
            }
        }
        TaskEvent::AnswerRefused { why, .. } => format!("the answer does not count: {why}"),
        TaskEvent::StageFailed { failure, .. } => {
            format!("{} failed: {}", failure.stage, first_line(&failure.reason))
        }
        TaskEvent::MergeStarted { .. } => "is being merged".to_owned(),
        TaskEvent::MergeHeld { reason, detail } => {
            format!("the merge stopped ({}): {detail}", reason.as_str())
        }
        TaskEvent::MergeResumed => "the merge goes on".to_owned(),
        TaskEvent::MergeConflicted { paths } => {
            format!("cannot be merged as it is: {} changed in the target, too", paths.join(", "))
        }
        TaskEvent::TaskMerged { commit } => format!("merged as {}", short(commit)),
        TaskEvent::PauseRequested => "is to pause before its next stage".to_owned(),
        TaskEvent::TaskPaused { next: Some(next), .. } => format!("paused before the {next} stage"),
        TaskEvent::TaskPaused { next: None, .. } => "paused before its merge".to_owned(),
        TaskEvent::TaskUnpaused => "goes on".to_owned(),
        TaskEvent::Warned { text } => format!("warning: {text}"),
        TaskEvent::CancelRequested => "is being cancelled".to_owned(),
        TaskEvent::TaskFinished(end) => match end.end {
            TaskEndReason::Done => "done".to_owned(),
            TaskEndReason::Failed => format!("failed: {}", first_line(&end.detail)),
            TaskEndReason::Cancelled => "cancelled".to_owned(),
        },
    }
}

/// An event of a workflow's run as `dacapo events` prints it.
pub(crate) fn workflow_event_line(envelope: &WorkflowEnvelope) -> String {
    let at = envelope.at.strftime("%Y-%m-%d %H:%M:%S");
    format!("{:>6}  {at}  {}  {}", envelope.seq, envelope.run, describe_workflow(&envelope.event))
}

/// What happened in a run of a workflow, in one line.
fn describe_workflow(event: &WorkflowEvent) -> String {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let steps = |steps: &[StepId]| steps.iter().map(StepId::as_str).collect::<Vec<_>>().join(", ");
    let changed = |is_changed: bool| if is_changed { ", files changed" } else { "" };
    match event {
        WorkflowEvent::WorkflowStart(started) => {
            let message = first_line(&started.message);
            let message = if message.is_empty() { message } else { format!(": {message}") };
            format!("workflow {} started{message}", started.workflow.name)
        }
        WorkflowEvent::StepStart { step, attempt, work } => {
            let what = match work {
                StepWorkKind::Main if *attempt == 1 => return format!("step {step} started"),
                StepWorkKind::Main => return format!("step {step} started, attempt {attempt}"),
                StepWorkKind::Rework => "an agent makes the changes that the user asked for",
                StepWorkKind::Question => "the files that the user is asked about are looked at",
                StepWorkKind::Merge => "its changes are brought into the workspace",
                StepWorkKind::Check => "its checks run again",
            };
            format!("step {step}: {what}")
        }
        WorkflowEvent::ScriptStarted { step, sandbox, .. } => {
            format!("the script of step {step} runs: {}", sandbox.words())
        }
        WorkflowEvent::StepContinued { step, .. } => format!("step {step} goes on"),
        WorkflowEvent::StepComplete { step, is_changed, .. } => {
            format!("step {step} complete{}", changed(*is_changed))
        }
        WorkflowEvent::StepWorked { step, is_changed, .. } => {
            format!("step {step} has done its work in its worktree{}", changed(*is_changed))
        }
        WorkflowEvent::StepError { step, error, retry_at: None, .. } => {
            format!("step {step} failed: {}", first_line(error))
        }
        WorkflowEvent::StepError { step, error, retry_at: Some(at), .. } => {
            format!("step {step} failed and is tried again at {at}: {}", first_line(error))
        }
        WorkflowEvent::StepSkipped { step, why } => format!("step {step} skipped: {why}"),
        WorkflowEvent::StepHeld { step, reason, detail, .. } => {
            format!("step {step} stopped ({}): {detail}", reason.as_str())
        }
        WorkflowEvent::StepIterated { step, iteration, is_changed, .. } => {
            format!("step {step}: iteration {iteration} ended{}", changed(*is_changed))
        }
        WorkflowEvent::QuestionAsked { step, message, .. } => {
            format!("step {step} asks: {}", first_line(message))
        }
        WorkflowEvent::QuestionAnswered { step, decision, text, follows, .. } => {
            let text = first_line(text);
            let text = if text.is_empty() { text } else { format!(" ({text})") };
            let follows = match follows {
                AfterAnswer::Complete => "the step is complete",
                AfterAnswer::Rework => "an agent makes the changes",
                AfterAnswer::Iterate => "the loop goes on",
                AfterAnswer::End => "the run ends",
            };
            format!("step {step}: the user answers `{decision}`{text}: {follows}")
        }
        WorkflowEvent::AnswerRefused { question, step, .. } => {
            format!("step {step}: the answer does not count: {}", refused_answer(*question))
        }
        WorkflowEvent::ReworkComplete { step, .. } => {
            format!("step {step}: the changes that the user asked for are made")
        }
        WorkflowEvent::StepsReopened { steps: again, checks, because } => {
            let again = (!again.is_empty()).then(|| format!("run again: {}", steps(again)));
            let checks = (!checks.is_empty()).then(|| format!("checks run again: {}", steps(checks)));
            let what: Vec<String> = again.into_iter().chain(checks).collect();
            format!("{} ({because})", what.join("; "))
        }
        WorkflowEvent::WaitStarted { step, due: Some(due), .. } => format!("step {step} waits until {due}"),
        WorkflowEvent::WaitStarted { step, due: None, .. } => format!("step {step} waits"),
        WorkflowEvent::WorkflowPaused { now: true } => "paused, its agents stopped".to_owned(),
        WorkflowEvent::WorkflowPaused { now: false } => "is to pause after what runs now".to_owned(),
        WorkflowEvent::WorkflowUnpaused => "goes on".to_owned(),
        WorkflowEvent::BudgetExceeded { what } => format!("budget reached: {what}"),
        WorkflowEvent::WorkflowStopping { end } => {
            format!("ends as soon as nothing of it runs: {}", first_line(&end.detail))
        }
        WorkflowEvent::WorkflowResumed { reopened, continued, .. } => {
            let again = (!reopened.is_empty()).then(|| format!(", run again: {}", steps(reopened)));
            let on = (!continued.is_empty()).then(|| format!(", go on: {}", steps(continued)));
            format!("the user resumed it{}{}", again.unwrap_or_default(), on.unwrap_or_default())
        }
        WorkflowEvent::WorkflowComplete { output } => {
            let output = first_line(output);
            if output.is_empty() { "completed".to_owned() } else { format!("completed: {output}") }
        }
        WorkflowEvent::WorkflowError(end) => {
            let how = match end.end {
                EndReason::Completed => "completed",
                EndReason::Failed => "failed",
                EndReason::Cancelled => "cancelled",
                EndReason::Blocked => "blocked",
            };
            format!("{how}: {}", first_line(&end.detail))
        }
    }
}

/// The end of what a red gate printed, as it is shown below the line about the gate.
pub(super) fn quoted(printed: &str) -> impl Iterator<Item = String> {
    last_lines(printed, LINES_OF_RED_GATE).into_iter().map(|line| format!("│ {line}"))
}

/// How an agent ended.
pub(super) fn exit(exit: &AgentExit) -> String {
    let how = match (exit.outcome, exit.exit_code, exit.signal) {
        (Outcome::Timeout, ..) => "timed out".to_owned(),
        (Outcome::Hang, ..) => "was silent for too long".to_owned(),
        (Outcome::OutOfTime, ..) => "ran out of the loop's time".to_owned(),
        (Outcome::Killed, ..) => "was stopped".to_owned(),
        (Outcome::Completed | Outcome::Crash, ..) => exit.detail.clone().unwrap_or_else(|| process_end(exit)),
        (outcome, ..) => match &exit.detail {
            Some(detail) => format!("{}: {detail}", outcome.as_str().replace('_', " ")),
            None => outcome.as_str().replace('_', " "),
        },
    };
    let left = match exit.leftovers {
        0 => String::new(),
        1 => ", ended 1 process it left behind".to_owned(),
        n => format!(", ended {n} processes it left behind"),
    };
    let cost = match money(&exit.spend()) {
        Some(cost) => format!(", {cost}"),
        None => String::new(),
    };
    format!("{how}, {}{cost}{left}", exit.duration_ms.human())
}

fn process_end(exit: &AgentExit) -> String {
    match (exit.exit_code, exit.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// What something cost, or how many tokens it took where the price is unknown.
pub(crate) fn money(spend: &Spend) -> Option<String> {
    let about = if spend.estimated { "about " } else { "" };
    match (spend.cost_usd, spend.usage) {
        (Some(cost), _) if cost >= 0.0995 => Some(format!("{about}${cost:.2}")),
        (Some(cost), _) if cost >= 0.000_05 => Some(format!("{about}${cost:.4}")),
        (_, Some(usage)) if usage.total() > 0 => Some(format!("{about}{} tokens", usage.total())),
        _ => None,
    }
}

/// What something cost, and of how much: `$0.16 of $5`.
pub(super) fn cost_of_budget(spend: &Spend, budget: &Budget) -> Option<String> {
    let most = match (budget.max_cost, budget.max_tokens) {
        (Some(most), _) if most.fract() == 0.0 => format!(" of ${most:.0}"),
        (Some(most), _) => format!(" of ${most:.2}"),
        (None, Some(most)) => format!(" of {most} tokens"),
        (None, None) => return money(spend),
    };
    let spent = match (money(spend), budget.max_cost) {
        (Some(spent), Some(_)) if spend.cost_usd.is_some() => spent,
        (_, Some(_)) => "$0".to_owned(),
        (_, None) => spend.usage.map_or(0, |usage| usage.total()).to_string(),
    };
    Some(format!("{spent}{most}"))
}

/// A time of day where the reader is, with its date unless that is today's.
pub(crate) fn clock(at: Timestamp) -> String {
    let (at, now) = (at.to_zoned(TimeZone::system()), Zoned::now());
    let form = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    at.strftime(form).to_string()
}

/// What a check came to.
pub(super) fn gate(name: &str, result: &GateResult) -> String {
    result.in_words(name)
}

/// The beginning of a hash, enough for people.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

pub(super) fn count_paths(paths: u64) -> String {
    count(u32::try_from(paths).unwrap_or(u32::MAX), "path")
}

/// What a claim rests on.
pub(super) fn basis(by: &[Signal]) -> String {
    let name = |signal: &Signal| match signal {
        Signal::Item(key) => format!("task {key}"),
        other => signal_name(other).to_owned(),
    };
    by.iter().map(name).collect::<Vec<_>>().join(" and ")
}

/// A signal in a word or two. The items that agents mark are tasks of units, and are called so.
pub(crate) fn signal_name(signal: &Signal) -> &'static str {
    match signal {
        Signal::Item(_) => "task status",
        Signal::MalformedItem(_) => "malformed task",
        other => other.name(),
    }
}

/// What a claim says, and by what.
pub(super) fn claim(by: &[Signal]) -> String {
    match by {
        [Signal::OwnClaim] => "is checked as it stands".to_owned(),
        _ => format!("claims to be done ({})", basis(by)),
    }
}

/// `committed as …`, and for which task.
pub(super) fn committed(commit: &str, task: Option<ItemKey>) -> String {
    match task {
        Some(task) => format!("task {task} committed as {}", short(commit)),
        None => format!("committed as {}", short(commit)),
    }
}

/// What a check is called, with the task it is for.
fn of_task(task: Option<ItemKey>) -> String {
    task.map(|task| format!("task {task}: ")).unwrap_or_default()
}

fn describe(event: &LoopEvent) -> String {
    match event {
        LoopEvent::LoopStarted(started) => {
            format!(
                "loop started: task {}, agent {}, in {}",
                started.task,
                started.policy.agent.command.name,
                started.workspace.display()
            )
        }
        LoopEvent::LoopResumed { grant, .. } if grant.extra_iterations == 0 => "loop resumed".to_owned(),
        LoopEvent::LoopResumed { grant, .. } => {
            format!("loop resumed with {} more iterations", grant.extra_iterations)
        }
        LoopEvent::TasksAwaited { tasks } if tasks.is_empty() => "no task to wait for any more".to_owned(),
        LoopEvent::TasksAwaited { tasks } => {
            format!("waits for {}", tasks.iter().map(|t| t.as_str()).collect::<Vec<_>>().join(", "))
        }
        LoopEvent::IterationStarted { iteration, max_iterations } => {
            format!("iteration {iteration}/{max_iterations} started")
        }
        LoopEvent::AgentStarted { agent, attempt, .. } => {
            format!("agent {agent} started (process {attempt})")
        }
        LoopEvent::AgentExited { exit: ended, .. } => format!("agent {}", exit(ended)),
        LoopEvent::SignalSeen { signal, .. } => format!("signal: {}", signal_name(signal)),
        LoopEvent::ClaimMade { by, .. } => claim(by),
        LoopEvent::ChildrenAwaited { children } => {
            format!("waits for {}", count(many(children), "child loop"))
        }
        LoopEvent::ChildrenFinished { left, .. } if left.is_empty() => "child loops have ended".to_owned(),
        LoopEvent::ChildrenFinished { left, .. } => {
            format!("{} still running", count(many(left), "child loop"))
        }
        LoopEvent::SnapshotTaken { id, .. } => format!("workspace kept as {}", short(id)),
        LoopEvent::OutlineTaken { outline: Some(_), .. } => "files in the folder have changed".to_owned(),
        LoopEvent::OutlineTaken { outline: None, .. } => {
            "too many files to tell whether any changed".to_owned()
        }
        LoopEvent::ClaimExamined { found, .. } => {
            format!("workspace looked at: {} changed", count_paths(found.changed))
        }
        LoopEvent::GatesPassed { .. } => "all gates passed".to_owned(),
        LoopEvent::TreeHeld { .. } => "nothing changed while the gates ran".to_owned(),
        LoopEvent::Committed { commit, item, .. } => committed(commit, *item),
        LoopEvent::ReceiptIssued { receipt } => format!("receipt {}", short(&receipt.sha256)),
        LoopEvent::GateStarted { role: GateRole::Baseline, name, .. } => {
            format!("baseline of gate `{name}` started")
        }
        LoopEvent::GateFinished { role: GateRole::Baseline, name, result, .. } => {
            format!("baseline of gate {}", gate(name, result))
        }
        LoopEvent::GateStarted { role: GateRole::Gate, name, item, look, .. } => {
            format!("{}gate `{name}` started{}", of_task(*item), place(look))
        }
        LoopEvent::GateTried { name, tried, .. } => {
            let how = match (&tried.failure, tried.passed) {
                (Some(failure), _) => failure.clone(),
                (None, true) => "passes".to_owned(),
                (None, false) => format!("exits {}", tried.exit_code),
            };
            let tests =
                tried.tests.as_ref().map_or(String::new(), |tests| format!(", {} tests ran", tests.ran()));
            let notices = if tried.notices.is_empty() { "" } else { ", notices a test that has to fail" };
            format!("before the first agent: gate `{name}` {how}{tests}{notices}")
        }
        LoopEvent::TreeApproved { tree, by } => format!("{by} accepts the tree {}", short(tree)),
        LoopEvent::GateStarted { role: GateRole::Until, name, .. } => {
            format!("until command `{name}` started")
        }
        LoopEvent::GateFinished { role: GateRole::Gate, name, result, item, look, .. } => {
            format!("{}gate {}{}", of_task(*item), gate(name, result), place(look))
        }
        LoopEvent::GateFinished { role: GateRole::Until, name, result, .. } => {
            format!("until command {}", gate(name, result))
        }
        LoopEvent::ClaimRefused { detail, reason, .. } => {
            format!("claim refused ({}): {detail}", reason.as_str())
        }
        LoopEvent::ClaimAccepted { verified: true, .. } => "claim accepted, verified".to_owned(),
        LoopEvent::ClaimAccepted { verified: false, .. } => "claim accepted, unverified".to_owned(),
        LoopEvent::IterationFinished { iteration, outcome, .. } => {
            format!("iteration {iteration} finished: {}", outcome_words(*outcome))
        }
        LoopEvent::Parked { until, why } => format!("parked until {until}: {why}"),
        LoopEvent::SessionIdled { iteration, .. } => {
            format!("the session is idle after iteration {iteration}")
        }
        LoopEvent::IdleSkipped { why: IdleSkip::Recovering { until }, .. } => {
            format!("idle skipped: the session had an error and is looked at again at {until}")
        }
        LoopEvent::IdleSkipped { why: IdleSkip::Background { tasks }, .. } => {
            format!("idle skipped: still running for the agent: {}", tasks.join(", "))
        }
        LoopEvent::SessionErred { error, until } => {
            format!("error of the session, left alone until {until}: {error}")
        }
        LoopEvent::PromptNotDelivered { iteration, why } => {
            format!("the prompt of iteration {iteration} could not be delivered: {why}")
        }
        LoopEvent::Warned { text } => format!("warning: {text}"),
        LoopEvent::QuestionAsked { text } => format!("asks: {text}"),
        LoopEvent::Blocked { why, .. } => format!("blocked: {why}"),
        LoopEvent::Steered { text } => format!("steered: {text}"),
        LoopEvent::PauseRequested { now: true } => "is to pause now".to_owned(),
        LoopEvent::PauseRequested { now: false } => "is to pause after this iteration".to_owned(),
        LoopEvent::Paused => "paused".to_owned(),
        LoopEvent::Unpaused => "goes on".to_owned(),
        LoopEvent::LimitsRaised { grant } => {
            let time = grant.max_time_ms.map(|max| format!(", at most {} of work", max.human()));
            let cost = grant.max_cost.map(|max| format!(", at most {max} USD"));
            let tokens = grant.max_tokens.map(|max| format!(", at most {max} tokens"));
            let rest: String = [time, cost, tokens].into_iter().flatten().collect();
            format!("limits raised: {} more iterations{rest}", grant.extra_iterations)
        }
        LoopEvent::UsageSeen { spend, model, .. } => {
            let by = model.as_ref().map(|model| format!(", by {model}")).unwrap_or_default();
            format!("used so far: {}{by}", money(spend).unwrap_or_else(|| "nothing".to_owned()))
        }
        LoopEvent::BudgetLow { detail, .. } => format!("most of a shared budget is used: {detail}"),
        LoopEvent::BudgetReached { detail } => format!("budget reached: {detail}"),
        LoopEvent::AgentSwitched { agent, why, .. } => format!("goes on with {agent}: {why}"),
        LoopEvent::StopRequested { by } => stopping(*by).to_owned(),
        LoopEvent::LoopFinished { state, reason, detail, .. } => {
            format!("{} ({}): {detail}", state.as_str(), reason.as_str())
        }
    }
}

/// What a person sees at once when they ask for an end.
pub(super) fn stopping(by: StopCause) -> &'static str {
    match by {
        StopCause::Cancel => "cancelled: ending what runs …",
        StopCause::Interrupt => "stopping: ending what runs … (Ctrl-C again kills it)",
        StopCause::Terminate => "terminated: ending what runs …",
        StopCause::Hangup => "the terminal is gone: ending what runs …",
    }
}

fn outcome_words(outcome: IterationOutcome) -> &'static str {
    match outcome {
        IterationOutcome::NoClaim => "no claim",
        IterationOutcome::Refused => "claim refused",
        IterationOutcome::Accepted => "claim accepted",
        IterationOutcome::Waiting => "waits for a person",
        IterationOutcome::Blocked => "is blocked",
        IterationOutcome::Interrupted => "interrupted",
        IterationOutcome::NotStarted => "the agent could not be started",
    }
}

/// A whole event as `dacapo events` prints it.
pub(crate) fn run_event_line(envelope: &RunEnvelope) -> String {
    let at = envelope.at.strftime("%Y-%m-%d %H:%M:%S");
    let unit = envelope.unit.as_ref().map(|unit| format!("{unit}: ")).unwrap_or_default();
    format!("{:>6}  {at}  {}  {unit}{}", envelope.seq, envelope.run, describe_run(&envelope.event))
}

/// What happened, without when and to whom.
pub(crate) fn describe_run(event: &RunEvent) -> String {
    match event {
        RunEvent::OrchStarted(started) => {
            let what = match started.merge {
                MergeMode::Merge => format!("merged into {}", started.target),
                MergeMode::Leave => "left on their branches".to_owned(),
                MergeMode::PullRequest => format!("pull requests for {}", started.target),
            };
            let units = count(u32::try_from(started.units.len()).unwrap_or(u32::MAX), "unit");
            format!("run started: {units}, {} at once, {what}", started.parallel)
        }
        RunEvent::OrchCompleted { detail } => format!("run completed: {detail}"),
        RunEvent::OrchFailed { reason, detail, .. } => format!("run ended ({reason}): {detail}"),
        RunEvent::OrchStopping { by } => {
            let why = match by {
                RunStop::Cancel => "cancelled",
                RunStop::Interrupt => "interrupted",
                RunStop::Terminate | RunStop::Hangup => "terminated",
                RunStop::MaxTime => "its time is used up",
            };
            format!("run is being stopped: {why}")
        }
        RunEvent::OrchPaused { now: true } => "run paused, its agents stopped".to_owned(),
        RunEvent::OrchPaused { now: false } => "run paused: loops hold after their iteration".to_owned(),
        RunEvent::OrchUnpaused { .. } => "run goes on".to_owned(),
        RunEvent::OrchSteered { text } => format!("the user to all loops: {text}"),
        RunEvent::UnitQueued { depends_on } if depends_on.is_empty() => "queued".to_owned(),
        RunEvent::UnitQueued { depends_on } => format!("queued behind {}", names(depends_on)),
        RunEvent::UnitStarted { slot } => format!("started in slot {slot}"),
        RunEvent::UnitCompleted { commit } => format!("work is done at {}", short(commit)),
        RunEvent::UnitMerging => "is being merged".to_owned(),
        RunEvent::UnitPublishing => "is being published".to_owned(),
        RunEvent::UnitJobEnded => "its process ended".to_owned(),
        RunEvent::UnitMerged { target, commit, left_on: None } => {
            format!("merged into {target} at {}", short(commit))
        }
        RunEvent::UnitMerged { target, left_on: Some((branch, command)), .. } => {
            format!("merged on {branch}; {target} could not be moved: `{command}` does it")
        }
        RunEvent::UnitSentBack { detail } => format!("sent back: {detail}"),
        RunEvent::UnitFailed { reason, detail, .. } => format!("failed ({}): {detail}", reason.as_str()),
        RunEvent::UnitBlocked { by } => format!("blocked by {}", names(by)),
        RunEvent::UnitWarned { text } => format!("WARNING: {text}"),
        RunEvent::TargetMoved { target, to, paths, .. } => {
            let files = count(u32::try_from(paths.len()).unwrap_or(u32::MAX), "file");
            format!(
                "WARNING: {target} was moved to {} by other hands than dacapo's: {files} changed",
                short(to)
            )
        }
        RunEvent::TaskStarted { task, title, .. } => format!("task {task} offered: {title}"),
        RunEvent::TaskClaudeInvoke { attempt, agent, .. } => {
            format!("agent {agent} starts, attempt {attempt}")
        }
        RunEvent::TaskClaudeDone { attempt, duration_ms, error, .. } => {
            let how = error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            format!("attempt {attempt} ended after {}{how}", duration_ms.human())
        }
        RunEvent::TaskBackpressure { task, command, .. } => format!("task {task} is checked: `{command}`"),
        RunEvent::TaskValidationOk { task, duration_ms, .. } => {
            format!("task {task} passed, {}", duration_ms.human())
        }
        RunEvent::TaskValidationFail { task, exit_code, .. } => {
            format!("task {task} is red: exited {exit_code}")
        }
        RunEvent::TaskCommitted { task, commit: Some(commit), .. } => {
            format!("task {task} committed as {}", short(commit))
        }
        RunEvent::TaskCommitted { task, .. } => format!("task {task} left nothing to commit"),
        RunEvent::TaskCompleted { task, .. } => format!("task {task} complete"),
        RunEvent::TaskRetry { attempt, reason, .. } => {
            format!("tries again after attempt {attempt}: {}", reason.replace('_', " "))
        }
        RunEvent::TaskFailed { task, detail } => format!("task {task} failed: {detail}"),
        RunEvent::PrCreated { url } => format!("pull request {url}"),
        RunEvent::PrMerged { commit } => format!("merge commit {}", short(commit)),
        RunEvent::PrFailed { detail } => format!("no pull request: {detail}"),
        RunEvent::PrConflict { paths } => format!("conflict in {}", paths.join(", ")),
        RunEvent::WorktreeCreated { path, branch, .. } => format!("worktree {} on {branch}", path.display()),
        RunEvent::WorktreeRemoved { path } => format!("worktree {} removed", path.display()),
        RunEvent::BranchPushed { branch, remote } => format!("{branch} pushed to {remote}"),
    }
}

fn many<T>(all: &[T]) -> u32 {
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}

fn names(units: &[UnitId]) -> String {
    units.iter().map(UnitId::as_str).collect::<Vec<_>>().join(", ")
}

/// Where a gate runs, if that is not the workspace.
pub(crate) fn place(look: &Look) -> &'static str {
    match (look.place, look.tests_as_before, look.again) {
        (GatePlace::Workspace, ..) => "",
        (GatePlace::Clean, ..) if look.must_fail => " (in a fresh checkout, with tests that have to fail)",
        (GatePlace::Clean, true, _) => " (in a fresh checkout, with the tests as they were)",
        (GatePlace::Clean, false, false) => " (in a fresh checkout)",
        (GatePlace::Clean, false, true) => " (in a fresh checkout, again)",
    }
}

#[cfg(test)]
#[path = "event_lines_tests.rs"]
pub(super) mod tests;
