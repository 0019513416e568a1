//! Events in words: what happened, in one line each.

use dacapo_core::{
    event::{AgentExit, Envelope, GateResult, GateRole, IterationOutcome, LoopEvent, Outcome, StopCause},
    judge::signal::Signal,
};

/// A whole event as `dacapo events` prints it.
pub(crate) fn event_line(envelope: &Envelope) -> String {
    let at = envelope.at.strftime("%Y-%m-%d %H:%M:%S");
    format!("{:>6}  {at}  {}  {}", envelope.seq, envelope.loop_id, describe(&envelope.event))
}

/// How an agent ended.
pub(super) fn exit(exit: &AgentExit) -> String {
    let how = match (exit.outcome, exit.exit_code, exit.signal) {
        (Outcome::Timeout, ..) => "timed out".to_owned(),
        (Outcome::Hang, ..) => "was silent for too long".to_owned(),
        (Outcome::OutOfTime, ..) => "ran out of the loop's time".to_owned(),
        (Outcome::Killed, ..) => "was stopped".to_owned(),
        (_, Some(code), _) => format!("exit {code}"),
        (_, None, Some(signal)) => format!("ended by signal {signal}"),
        (_, None, None) => "ended".to_owned(),
    };
    let left = match exit.leftovers {
        0 => String::new(),
        1 => ", ended 1 process it left behind".to_owned(),
        n => format!(", ended {n} processes it left behind"),
    };
    format!("{how}, {}{left}", exit.duration_ms.human())
}

/// What a check came to.
pub(super) fn gate(name: &str, result: &GateResult) -> String {
    let how = match (&result.failure, result.passed) {
        (Some(failure), _) => failure.clone(),
        (None, true) if result.flaky => "passed only when tried again (flaky)".to_owned(),
        (None, true) => "passed".to_owned(),
        (None, false) if result.tolerated => {
            format!("exited {} as before the loop (tolerated)", result.exit_code)
        }
        (None, false) => format!("exited {}", result.exit_code),
    };
    format!("`{name}` {how}, {}", result.duration_ms.human())
}

/// The beginning of a hash, enough for people.
pub(super) fn short(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

/// A number of paths.
pub(super) fn count_paths(paths: u64) -> String {
    dacapo_core::text::count(u32::try_from(paths).unwrap_or(u32::MAX), "path")
}

/// What a claim rests on.
pub(super) fn basis(by: &[Signal]) -> String {
    by.iter().map(Signal::name).collect::<Vec<_>>().join(" and ")
}

fn describe(event: &LoopEvent) -> String {
    match event {
        LoopEvent::LoopStarted(started) => {
            format!(
                "loop started: task {}, agent {}, in {}",
                started.task,
                started.policy.agent.name,
                started.workspace.display()
            )
        }
        LoopEvent::LoopResumed { extra_iterations: 0, .. } => "loop resumed".to_owned(),
        LoopEvent::LoopResumed { extra_iterations, .. } => {
            format!("loop resumed with {extra_iterations} more iterations")
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
        LoopEvent::SignalSeen { signal, .. } => format!("signal: {}", signal.name()),
        LoopEvent::ClaimMade { by, .. } => format!("claims to be done ({})", basis(by)),
        LoopEvent::ChildrenAwaited { children } => format!("waits for {} child loops", children.len()),
        LoopEvent::ChildrenFinished { left, .. } if left.is_empty() => "child loops have ended".to_owned(),
        LoopEvent::ChildrenFinished { left, .. } => format!("{} child loops still run", left.len()),
        LoopEvent::SnapshotTaken { id, .. } => format!("workspace kept as {}", short(id)),
        LoopEvent::OutlineTaken { outline: Some(_), .. } => "files in the folder have changed".to_owned(),
        LoopEvent::OutlineTaken { outline: None, .. } => {
            "too many files to tell whether any changed".to_owned()
        }
        LoopEvent::ClaimExamined { found, .. } => {
            format!("workspace looked at: {} changed", count_paths(found.changed))
        }
        LoopEvent::GatesPassed { .. } => "all gates agree".to_owned(),
        LoopEvent::TreeHeld { .. } => "the workspace held still".to_owned(),
        LoopEvent::Committed { commit, .. } => format!("committed as {}", short(commit)),
        LoopEvent::ReceiptIssued { receipt } => format!("receipt {}", short(&receipt.sha256)),
        LoopEvent::GateStarted { role: GateRole::Baseline, name, .. } => {
            format!("baseline of gate `{name}` started")
        }
        LoopEvent::GateFinished { role: GateRole::Baseline, name, result, .. } => {
            format!("baseline of gate {}", gate(name, result))
        }
        LoopEvent::GateStarted { role: GateRole::Gate, name, .. } => format!("gate `{name}` started"),
        LoopEvent::GateStarted { role: GateRole::Until, name, .. } => {
            format!("until command `{name}` started")
        }
        LoopEvent::GateFinished { role: GateRole::Gate, name, result, .. } => {
            format!("gate {}", gate(name, result))
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
        LoopEvent::Warned { text } => format!("warning: {text}"),
        LoopEvent::QuestionAsked { text } => format!("asks: {text}"),
        LoopEvent::Steered { text } => format!("steered: {text}"),
        LoopEvent::PauseRequested { now: true } => "is to pause now".to_owned(),
        LoopEvent::PauseRequested { now: false } => "is to pause after this iteration".to_owned(),
        LoopEvent::Paused => "paused".to_owned(),
        LoopEvent::Unpaused => "goes on".to_owned(),
        LoopEvent::LimitsRaised { extra_iterations, max_time_ms } => {
            let time =
                max_time_ms.map(|max| format!(", at most {} of work", max.human())).unwrap_or_default();
            format!("limits raised: {extra_iterations} more iterations{time}")
        }
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
        IterationOutcome::Waiting => "waits for somebody",
        IterationOutcome::Interrupted => "interrupted",
        IterationOutcome::NotStarted => "the agent could not be started",
    }
}
