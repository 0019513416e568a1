//! What the loops of a unit tell about its tasks: their events, translated, each exactly once.
//!
//! A loop's journal is the only source. [`UnitAccount`] reads it and translates; it belongs to no stream. [`RecordedLoops`] is the
//! part of a run's state that remembers what was recorded of it. What is told carries the place of the event it was made
//! from ([`RunEvent::of`]), so that a scheduler that died in between goes on behind what is recorded: the next one reads
//! the loops from their beginnings and tells nothing twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    event::{
        AgentExit, Envelope, GateResult, GateRole, IterationOutcome, LoopEvent, LoopStarted, Outcome,
        RunEvent,
    },
    ids::{LoopId, UnitId},
    judge::{claim::RefusalReason, signal::Signal},
    unit::items::turn_of,
};

/// What a run has recorded about the loops of a unit: a fold of the run's own events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedLoops {
    /// The place of the newest loop event that was told.
    of: u64,
    /// Tasks that were offered to an agent.
    offered: BTreeSet<u32>,
}

impl RecordedLoops {
    /// Takes in an event of the run.
    pub fn record(&mut self, event: &RunEvent) {
        if let Some(of) = event.of() {
            self.of = self.of.max(of);
        }
        if let RunEvent::TaskStarted { task, .. } = event {
            self.offered.insert(*task);
        }
    }

    /// The `events` that were not told before. All of them come from one event of a loop.
    pub fn news(&self, events: Vec<RunEvent>) -> Vec<RunEvent> {
        let is_news = |event: &RunEvent| match event {
            RunEvent::TaskStarted { task, .. } if self.offered.contains(task) => false,
            event => event.of().is_none_or(|of| of > self.of),
        };
        events.into_iter().filter(is_news).collect()
    }
}

/// What is known about the loops of all units of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accounts {
    units: BTreeMap<UnitId, UnitAccount>,
}

impl Accounts {
    /// Takes in an event of a loop of `unit`, and says what it means for the unit's tasks.
    pub fn see(&mut self, unit: &UnitId, envelope: &Envelope) -> Vec<RunEvent> {
        self.units.entry(unit.clone()).or_default().see(envelope)
    }
}

/// What is known about the loops of a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitAccount {
    /// The place of the newest event that was seen.
    seen: u64,
    turn: Option<TurnAccount>,
}

/// A loop that may complete tasks.
#[derive(Clone, Debug, PartialEq)]
struct TurnAccount {
    loop_id: LoopId,
    /// Gates that belong to a task: name, command, task.
    gates: Vec<(String, String, u32)>,
    /// Whether what is accepted is committed.
    commits: bool,
    /// Tasks of the claim at hand whose gates were green.
    green: BTreeSet<u32>,
    /// The green tasks that are committed.
    committed: BTreeSet<u32>,
    /// Whether the newest agent failed or could not be started.
    agent_failed: bool,
    /// Whether what it left in the files of tasks could not be a claim.
    malformed: bool,
    /// Whether the newest claim was refused because the agent had changed a protected path.
    tampered: bool,
    /// The newest iteration that came to nothing, and why.
    missed: Option<(u32, String)>,
}

impl UnitAccount {
    /// Takes in a fact of a loop of this unit, and says what it means for the unit's tasks. One that was seen before means
    /// nothing.
    pub fn see(&mut self, envelope: &Envelope) -> Vec<RunEvent> {
        if envelope.seq <= self.seen {
            return Vec::new();
        }
        let events = told(envelope, self.turn.as_ref());
        self.seen = envelope.seq;
        if let LoopEvent::LoopStarted(started) = &envelope.event {
            if turn_of(&started.policy).is_some() {
                self.turn = Some(TurnAccount::begin(envelope.loop_id.clone(), started));
            }
        } else if let Some(turn) = self.turn.as_mut().filter(|turn| turn.loop_id == envelope.loop_id) {
            turn.apply(&envelope.event);
        }
        events
    }
}

impl TurnAccount {
    fn begin(loop_id: LoopId, started: &LoopStarted) -> Self {
        let of_task = started.policy.gates.specs.iter();
        let gates =
            of_task.filter_map(|gate| Some((gate.name.clone(), gate.run.clone(), gate.item?.0))).collect();
        Self {
            loop_id,
            gates,
            commits: started.policy.commits(),
            green: BTreeSet::new(),
            committed: BTreeSet::new(),
            agent_failed: false,
            malformed: false,
            tampered: false,
            missed: None,
        }
    }

    fn apply(&mut self, event: &LoopEvent) {
        match event {
            LoopEvent::ClaimMade { by, .. } => {
                self.malformed = matches!(by[..], [Signal::MalformedItem(_)]);
                self.tampered = false;
                self.green.clear();
                self.committed.clear();
            }
            LoopEvent::ClaimRefused { reason, .. } => self.tampered = *reason == RefusalReason::Tampered,
            LoopEvent::GateFinished { role: GateRole::Gate, name, command, result, .. } => {
                if let Some(task) = self.task_of(name, command)
                    && holds(result)
                {
                    self.green.insert(task);
                }
            }
            LoopEvent::Committed { item, .. } => {
                if let Some(task) = item.map(|item| item.0).or_else(|| self.next_commit()) {
                    self.committed.insert(task);
                }
            }
            LoopEvent::AgentStarted { .. } => (self.agent_failed, self.malformed) = (false, false),
            LoopEvent::AgentExited { exit, .. } => self.agent_failed = error(exit).is_some(),
            LoopEvent::IterationFinished { iteration, outcome, .. } => {
                self.missed = self.reason(*outcome).map(|reason| (*iteration, reason.to_owned()));
            }
            LoopEvent::IterationStarted { .. } => self.missed = None,
            _ => {}
        }
    }

    fn task_of(&self, name: &str, command: &str) -> Option<u32> {
        let gate = self.gates.iter().find(|(n, c, _)| n == name && c == command);
        gate.map(|(_, _, task)| *task)
    }

    /// The task that the next commit is for: one each, by number.
    fn next_commit(&self) -> Option<u32> {
        self.green.difference(&self.committed).next().copied()
    }

    /// Why an iteration came to nothing, if it did.
    fn reason(&self, outcome: IterationOutcome) -> Option<&'static str> {
        match outcome {
            IterationOutcome::Refused if self.tampered => Some("tampered"),
            IterationOutcome::Refused if !self.malformed => Some("backpressure_failed"),
            IterationOutcome::NoClaim | IterationOutcome::Refused if self.agent_failed => {
                Some("claude_invocation_failed")
            }
            IterationOutcome::NotStarted => Some("claude_invocation_failed"),
            IterationOutcome::NoClaim | IterationOutcome::Refused | IterationOutcome::Interrupted => {
                Some("no_task_completed")
            }
            IterationOutcome::Accepted | IterationOutcome::Waiting | IterationOutcome::Blocked => None,
        }
    }
}

/// What `envelope` means for a unit's tasks, in its newest turn.
fn told(envelope: &Envelope, turn: Option<&TurnAccount>) -> Vec<RunEvent> {
    let of = envelope.seq;
    if let LoopEvent::LoopStarted(started) = &envelope.event {
        return turn_of(&started.policy).map_or_else(Vec::new, |set| {
            let ready = set.tasks.iter().filter(|task| set.ready.contains(&task.spec.number));
            ready
                .map(|task| RunEvent::TaskStarted {
                    task: task.spec.number,
                    title: task.spec.title.clone(),
                    of,
                })
                .collect()
        });
    }
    let Some(turn) = turn.filter(|turn| turn.loop_id == envelope.loop_id) else {
        return Vec::new();
    };
    let loop_id = || turn.loop_id.clone();
    match &envelope.event {
        // A retry is told when the next iteration starts, because only then it is certain.
        LoopEvent::IterationStarted { .. } => {
            let missed = turn.missed.iter();
            missed
                .map(|(attempt, reason)| RunEvent::TaskRetry {
                    attempt: *attempt,
                    reason: reason.clone(),
                    of,
                })
                .collect()
        }
        LoopEvent::AgentStarted { attempt, agent, .. } => {
            vec![RunEvent::TaskClaudeInvoke {
                loop_id: loop_id(),
                attempt: *attempt,
                agent: agent.clone(),
                of,
            }]
        }
        LoopEvent::AgentExited { attempt, exit, .. } => vec![RunEvent::TaskClaudeDone {
            loop_id: loop_id(),
            attempt: *attempt,
            exit_code: exit.exit_code,
            duration_ms: exit.duration_ms,
            error: error(exit),
            of,
        }],
        LoopEvent::GateStarted { role: GateRole::Gate, name, command, .. } => {
            let task = turn.task_of(name, command).into_iter();
            task.map(|task| RunEvent::TaskBackpressure { task, command: command.clone(), of }).collect()
        }
        LoopEvent::GateFinished { role: GateRole::Gate, name, command, result, .. } => {
            let task = turn.task_of(name, command).into_iter();
            task.map(|task| validation(task, result, of)).collect()
        }
        LoopEvent::Committed { commit, item, .. } => {
            let task = item.map(|item| item.0).or_else(|| turn.next_commit()).into_iter();
            task.map(|task| RunEvent::TaskCommitted { task, commit: Some(commit.clone()), empty: false, of })
                .collect()
        }
        LoopEvent::ClaimAccepted { .. } => {
            let mut events = Vec::new();
            for task in &turn.green {
                if turn.commits && !turn.committed.contains(task) {
                    events.push(RunEvent::TaskCommitted { task: *task, commit: None, empty: true, of });
                }
                events.push(RunEvent::TaskCompleted { task: *task, loop_id: loop_id(), of });
            }
            events
        }
        _ => Vec::new(),
    }
}

fn holds(result: &GateResult) -> bool {
    result.passed || result.tolerated
}

fn validation(task: u32, result: &GateResult, of: u64) -> RunEvent {
    if holds(result) {
        return RunEvent::TaskValidationOk { task, duration_ms: result.duration_ms, of };
    }
    let failure = result.failure.iter().map(String::as_str);
    let parts: Vec<&str> =
        failure.chain([result.output_tail.as_str()]).filter(|part| !part.is_empty()).collect();
    RunEvent::TaskValidationFail { task, exit_code: result.exit_code, output: parts.join("\n"), of }
}

/// What went wrong with an agent, if anything did.
pub fn error(exit: &AgentExit) -> Option<String> {
    let detail = exit.detail.clone();
    match (exit.outcome, exit.exit_code, exit.signal) {
        (Outcome::Completed, Some(0), _) => None,
        (Outcome::Completed, Some(code), _) => Some(detail.unwrap_or_else(|| format!("exit code {code}"))),
        (Outcome::Completed, None, signal) => Some(detail.unwrap_or_else(|| match signal {
            Some(signal) => format!("ended by signal {signal}"),
            None => "no exit code".to_owned(),
        })),
        (outcome, _, _) => Some(detail.unwrap_or_else(|| outcome.as_str().to_owned())),
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
