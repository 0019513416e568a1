//! The page of one loop: its iterations, each with its agents, claim, gates, verdict and cost; a fold of its events.

use jiff::Timestamp;
use serde::Serialize;

use super::clean;
use crate::{
    duration::Millis,
    event::{
        Envelope, GateRole, IterationOutcome, IterationProgress, LoopEvent, Outcome, OutputMarks, Spend,
    },
    judge::{claim::RefusalReason, signal::Signal},
    receipt::Receipt,
};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempt {
    pub attempt: u32,
    pub agent: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// What the provider or the agent said about a bad end.
    pub detail: Option<String>,
    pub cost_usd: Option<f64>,
    pub cost_estimated: bool,
    pub tokens: Option<u64>,
    /// Where its prompt and its output begin in what the loop has kept.
    pub begin: OutputMarks,
    /// Where they end.
    pub end: Option<OutputMarks>,
}

/// One run of a gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateLine {
    pub role: GateRole,
    pub name: String,
    pub command: String,
    pub started_at: Option<Timestamp>,
    /// Nothing while it runs.
    pub passed: Option<bool>,
    pub exit_code: Option<i32>,
    pub duration_ms: Option<Millis>,
    pub flaky: bool,
    pub tolerated: bool,
    /// The end of what a red one printed.
    pub output_tail: String,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    Accepted { verified: bool },
    Refused { reason: RefusalReason, detail: String },
}

/// Something that happened beside the iterations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    pub seq: u64,
    pub at: Timestamp,
    /// `question`, `steered`, `parked`, `paused`, `resumed`, `warned`, `switched`, `budget`, `approved`, `stopping`, `blocked`,
    /// `commit`, `waits`, `ended`.
    pub kind: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IterationLine {
    /// 0 is what came before the first agent.
    pub iteration: u32,
    /// The event that began it.
    pub seq: u64,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub attempts: Vec<Attempt>,
    /// What the claim rests on, in words; empty without a claim.
    pub claim: Vec<String>,
    pub gates: Vec<GateLine>,
    pub verdict: Option<Verdict>,
    pub outcome: Option<IterationOutcome>,
    pub progress: IterationProgress,
    /// Whether the workspace was kept as it was after it, so that its difference can be shown.
    pub has_snapshot: bool,
    pub cost_usd: Option<f64>,
    pub cost_estimated: bool,
    pub tokens: Option<u64>,
    pub notes: Vec<Note>,
}

impl IterationLine {
    fn begin(iteration: u32, seq: u64, at: Timestamp) -> Self {
        Self {
            iteration,
            seq,
            started_at: at,
            ended_at: None,
            attempts: Vec::new(),
            claim: Vec::new(),
            gates: Vec::new(),
            verdict: None,
            outcome: None,
            progress: IterationProgress::Unknown,
            has_snapshot: false,
            cost_usd: None,
            cost_estimated: false,
            tokens: None,
            notes: Vec::new(),
        }
    }

    /// What it is at, or what it came to, in a few words.
    pub fn words(&self) -> &'static str {
        match (&self.verdict, self.outcome) {
            (Some(Verdict::Accepted { verified: true }), _) => "accepted",
            (Some(Verdict::Accepted { verified: false }), _) => "accepted, unverified",
            (Some(Verdict::Refused { .. }), _) | (_, Some(IterationOutcome::Refused)) => "refused",
            (_, Some(IterationOutcome::NoClaim)) => "no claim",
            (_, Some(IterationOutcome::Accepted)) => "accepted",
            (_, Some(IterationOutcome::Waiting)) => "waits for a person",
            (_, Some(IterationOutcome::Blocked)) => "blocked",
            (_, Some(IterationOutcome::Interrupted)) => "interrupted",
            (_, Some(IterationOutcome::NotStarted)) => "not started",
            (None, None) if !self.claim.is_empty() => "checking",
            (None, None) if self.iteration == 0 => "begins",
            (None, None) => "working",
        }
    }

    pub fn lasted(&self, now: Timestamp) -> Millis {
        let to = self.ended_at.unwrap_or(now);
        Millis(u64::try_from(to.duration_since(self.started_at).as_millis()).unwrap_or(0))
    }
}

/// The page of one loop beside its view.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoopPage {
    /// The newest event that is taken in.
    pub seq: u64,
    pub prompt: String,
    pub iterations: Vec<IterationLine>,
    pub receipt: Option<Receipt>,
    /// How many agents were started.
    pub attempts: u32,
}

impl LoopPage {
    pub fn of(events: &[Envelope]) -> Self {
        let mut page = Self::default();
        events.iter().for_each(|envelope| page.apply(envelope));
        page
    }

    /// Takes in one fact; one that is known already changes nothing.
    pub fn apply(&mut self, envelope: &Envelope) {
        if envelope.seq <= self.seq && self.seq != 0 {
            return;
        }
        self.seq = envelope.seq;
        let (seq, at) = (envelope.seq, envelope.at);
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                self.prompt.clone_from(&started.prompt);
                self.iterations.push(IterationLine::begin(0, seq, at));
            }
            LoopEvent::IterationStarted { iteration, .. } => {
                self.close(at);
                self.iterations.push(IterationLine::begin(*iteration, seq, at));
            }
            LoopEvent::AgentStarted { attempt, agent, output, .. } => {
                self.attempts += 1;
                self.newest(seq, at).attempts.push(Attempt {
                    attempt: *attempt,
                    agent: clean(agent),
                    started_at: at,
                    ended_at: None,
                    outcome: None,
                    exit_code: None,
                    signal: None,
                    detail: None,
                    cost_usd: None,
                    cost_estimated: false,
                    tokens: None,
                    begin: *output,
                    end: None,
                });
            }
            LoopEvent::UsageSeen { attempt, spend, .. } => {
                self.of_attempt(*attempt, |own| own.take_spend(spend));
            }
            LoopEvent::AgentExited { attempt, exit, .. } => self.of_attempt(*attempt, |own| {
                own.ended_at = Some(at);
                (own.outcome, own.exit_code, own.signal) = (Some(exit.outcome), exit.exit_code, exit.signal);
                own.detail = exit.detail.as_deref().map(clean);
                own.end = Some(exit.output);
                if exit.usage.is_some() || exit.cost_usd.is_some() {
                    own.take_spend(&exit.spend());
                }
            }),
            LoopEvent::ClaimMade { by, .. } => {
                self.newest(seq, at).claim = by.iter().map(signal_words).collect();
            }
            LoopEvent::GateStarted { role, name, command, .. } => {
                self.newest(seq, at).gates.push(GateLine {
                    role: *role,
                    name: clean(name),
                    command: clean(command),
                    started_at: Some(at),
                    passed: None,
                    exit_code: None,
                    duration_ms: None,
                    flaky: false,
                    tolerated: false,
                    output_tail: String::new(),
                });
            }
            LoopEvent::GateFinished { role, name, result, .. } => {
                let name = clean(name);
                let newest = self.newest(seq, at);
                let open = newest
                    .gates
                    .iter_mut()
                    .rev()
                    .find(|gate| gate.passed.is_none() && gate.name == name && gate.role == *role);
                if let Some(gate) = open {
                    gate.passed = Some(result.passed);
                    gate.exit_code = Some(result.exit_code);
                    gate.duration_ms = Some(result.duration_ms);
                    (gate.flaky, gate.tolerated) = (result.flaky, result.tolerated);
                    gate.output_tail.clone_from(&result.output_tail);
                }
            }
            LoopEvent::ClaimRefused { reason, detail, .. } => {
                self.newest(seq, at).verdict =
                    Some(Verdict::Refused { reason: *reason, detail: clean(detail) });
            }
            LoopEvent::ClaimAccepted { verified, .. } => {
                self.newest(seq, at).verdict = Some(Verdict::Accepted { verified: *verified });
            }
            LoopEvent::SnapshotTaken { iteration, .. } => {
                if let Some(own) = self.iterations.iter_mut().find(|own| own.iteration == *iteration) {
                    own.has_snapshot = true;
                }
            }
            LoopEvent::IterationFinished { outcome, progress, .. } => {
                let newest = self.newest(seq, at);
                (newest.outcome, newest.progress, newest.ended_at) = (Some(*outcome), *progress, Some(at));
            }
            LoopEvent::ReceiptIssued { receipt } => self.receipt = Some((**receipt).clone()),
            LoopEvent::LoopFinished { detail, reason, .. } => {
                self.note(seq, at, "ended", &format!("{}: {detail}", reason.as_str()));
                self.close(at);
            }
            LoopEvent::QuestionAsked { text } => self.note(seq, at, "question", text),
            LoopEvent::Steered { text } => self.note(seq, at, "steered", text),
            LoopEvent::Parked { why, .. } => self.note(seq, at, "parked", why),
            LoopEvent::Paused => self.note(seq, at, "paused", "a person paused it"),
            LoopEvent::Unpaused => self.note(seq, at, "resumed", "it goes on"),
            LoopEvent::LoopResumed { .. } => self.note(seq, at, "resumed", "it goes on"),
            LoopEvent::Warned { text } => self.note(seq, at, "warned", text),
            LoopEvent::AgentSwitched { agent, why, .. } => {
                self.note(seq, at, "switched", &format!("to {agent}: {why}"));
            }
            LoopEvent::BudgetReached { detail } | LoopEvent::BudgetLow { detail, .. } => {
                self.note(seq, at, "budget", detail);
            }
            LoopEvent::TreeApproved { by, .. } => {
                self.note(seq, at, "approved", &format!("{by} accepted the tree"));
            }
            LoopEvent::StopRequested { .. } => self.note(seq, at, "stopping", "it is being stopped"),
            LoopEvent::Blocked { why, .. } => self.note(seq, at, "blocked", why),
            LoopEvent::Committed { commit, .. } => self.note(seq, at, "commit", commit),
            LoopEvent::TasksAwaited { tasks } if !tasks.is_empty() => {
                let names: Vec<&str> = tasks.iter().map(crate::ids::TaskId::as_str).collect();
                self.note(seq, at, "waits", &format!("for {}", names.join(", ")));
            }
            LoopEvent::SessionErred { error, .. } => self.note(seq, at, "warned", error),
            LoopEvent::PromptNotDelivered { why, .. } => self.note(seq, at, "warned", why),
            LoopEvent::PauseRequested { .. }
            | LoopEvent::LimitsRaised { .. }
            | LoopEvent::TasksAwaited { .. }
            | LoopEvent::SignalSeen { .. }
            | LoopEvent::ChildrenAwaited { .. }
            | LoopEvent::ChildrenFinished { .. }
            | LoopEvent::OutlineTaken { .. }
            | LoopEvent::ClaimExamined { .. }
            | LoopEvent::GatesPassed { .. }
            | LoopEvent::TreeHeld { .. }
            | LoopEvent::GateTried { .. }
            | LoopEvent::SessionIdled { .. }
            | LoopEvent::IdleSkipped { .. } => {}
        }
    }

    fn newest(&mut self, seq: u64, at: Timestamp) -> &mut IterationLine {
        if self.iterations.is_empty() {
            self.iterations.push(IterationLine::begin(0, seq, at));
        }
        let last = self.iterations.len() - 1;
        &mut self.iterations[last]
    }

    fn note(&mut self, seq: u64, at: Timestamp, kind: &str, text: &str) {
        let note = Note { seq, at, kind: kind.to_owned(), text: clean(text) };
        self.newest(seq, at).notes.push(note);
    }

    /// An iteration that a crash cut short ends when the next begins.
    fn close(&mut self, at: Timestamp) {
        if let Some(last) = self.iterations.last_mut() {
            last.ended_at.get_or_insert(at);
        }
    }

    fn of_attempt(&mut self, attempt: u32, change: impl FnOnce(&mut Attempt)) {
        let Some(line) =
            self.iterations.iter_mut().rev().find(|line| line.attempts.iter().any(|a| a.attempt == attempt))
        else {
            return;
        };
        if let Some(own) = line.attempts.iter_mut().find(|own| own.attempt == attempt) {
            change(own);
        }
        let mut sum = Spend::default();
        for own in &line.attempts {
            sum.add(&Spend { usage: None, cost_usd: own.cost_usd, estimated: own.cost_estimated });
        }
        (line.cost_usd, line.cost_estimated) = (sum.cost_usd, sum.estimated);
        let tokens: Vec<u64> = line.attempts.iter().filter_map(|own| own.tokens).collect();
        line.tokens = (!tokens.is_empty()).then(|| tokens.iter().sum());
    }
}

impl Attempt {
    fn take_spend(&mut self, spend: &Spend) {
        (self.cost_usd, self.cost_estimated) = (spend.cost_usd, spend.estimated);
        self.tokens = spend.usage.map(|usage| usage.total());
    }
}

/// What a signal is, in a few words.
fn signal_words(signal: &Signal) -> String {
    match signal {
        Signal::Promise(text) => format!("promise `{}`", clean(text)),
        Signal::DoneFile => "DONE file".to_owned(),
        Signal::MalformedDone(why) => format!("DONE that is no file: {}", clean(why)),
        Signal::UntilCommand => "until command".to_owned(),
        Signal::Item(item) => format!("task {item} marked complete"),
        Signal::MalformedItem(why) => format!("mark that is no claim: {}", clean(why)),
        Signal::OwnClaim => "the gates decide".to_owned(),
        Signal::WaitExitCode(code) => format!("exit code {code}"),
        Signal::WaitMarker => "wait marker".to_owned(),
        Signal::WaitMessage(kind) => format!("bus message {}", clean(kind)),
        Signal::Question(text) => format!("question: {}", clean(text)),
        Signal::Blocked(why) => format!("blocked: {}", clean(why)),
        Signal::Refusal(words) => format!("refuses: {}", clean(words)),
        Signal::NearMiss(_) => "promise that did not count".to_owned(),
        Signal::BlockedNearMiss(_) => "blocked tag that did not count".to_owned(),
    }
}
