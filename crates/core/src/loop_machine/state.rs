//! The state of a loop: a fold of its events and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    duration::Millis,
    event::{
        AgentExit, Examination, FinishState, GateResult, GateRole, Grant, IterationOutcome, Ledger,
        LoopEvent, LoopStarted, Outcome, OutputMarks, Reason, Spend, StopCause,
    },
    ids::fingerprint,
    judge::{
        claim::RefusalReason,
        progress::{ProgressLog, failure_signature},
        signal::Signal,
    },
    limits::{Spent, budget::largest},
    prompt::Feedback,
};

/// After this many tries in a row to go on with a session a fresh one is begun.
pub(super) const LOST_SESSIONS: u32 = 2;

/// What the journal says about a loop, as far as deciding needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopState {
    /// How it began; `None` before its first event.
    pub started: Option<Arc<LoopStarted>>,
    /// What it is doing.
    pub phase: Phase,
    /// Iterations charged so far: also the number of the newest.
    pub iterations: u32,
    /// Whether the newest iteration has begun and not ended: a DONE that appears between two is judged while none is open.
    pub iteration_is_open: bool,
    /// The limit in force, extensions included.
    pub max_iterations: u32,
    /// The limit of time in force.
    pub max_time: Option<Millis>,
    /// Agent processes started so far.
    pub attempts: u32,
    /// How long agents, checks and delays took so far.
    pub spent: Millis,
    /// Where the segments end.
    pub output: OutputMarks,
    /// Who wants it to end, while its processes are being stopped.
    pub stopping: Option<StopCause>,
    /// Whether it is to hold as soon as it can.
    pub pausing: bool,
    /// A claim that has no verdict yet; outlives a crash.
    pub claim: Option<Claim>,
    /// What the workspace looked like when it was made.
    pub examined: Option<Box<Examination>>,
    /// What became of its child loops.
    pub children: Children,
    /// The gates it has passed or failed so far.
    pub gates: Vec<(String, String, GateResult)>,
    /// The newest result of each gate of the claim: its place in the policy, its place in `gates`.
    pub verdicts: BTreeMap<usize, usize>,
    /// How the gates stood before the first agent: name and failure signature, empty if it passed.
    pub baseline: BTreeMap<String, String>,
    /// Commits dacapo made for the claim, and the tasks they complete.
    pub committed: Vec<(Option<u32>, String)>,
    /// Tasks whose commits were made, by whichever claim: nothing takes them back.
    pub completed: BTreeSet<u32>,
    /// Refusals so far: iteration, reason, line.
    pub refusals: Vec<(u32, RefusalReason, String)>,
    /// Snapshots by the iteration they were taken after.
    pub snapshots: Vec<(u32, String)>,
    /// What counts as progress, and how long there was none.
    pub progress: ProgressLog,
    /// The workspace's newest tree, or its outline where nothing more is known.
    pub tree: Option<String>,
    /// The signature of the gate that refused the newest iteration.
    pub failure: Option<String>,
    /// Where the newest agent's output begins.
    pub attempt_output: OutputMarks,
    /// The limits of money and tokens in force.
    pub max_cost: Option<f64>,
    /// See above.
    pub max_tokens: Option<u64>,
    /// Tokens and money so far.
    pub ledger: Ledger,
    /// The largest step that was seen of it: about what one message of the model takes.
    pub largest: Spent,
    /// The budget that is used up, in one line.
    pub budget: Option<String>,
    /// The agent at work: the policy's own is 0, its stand-ins follow.
    pub agent: usize,
    /// The session that the next iteration could go on with.
    pub session: Option<String>,
    /// What sessions of this loop have used and cost.
    pub sessions: BTreeMap<String, Spend>,
    /// The session the newest agent was told to go on with.
    pub attempt_session: Option<String>,
    /// How often in a row a session could not be gone on with.
    pub lost_sessions: u32,
    /// Whether the open iteration waits for another attempt, the one before not having been charged.
    pub awaits_attempt: bool,
    /// Whether the claim that is judged was made by such an attempt, or before another one.
    pub claim_awaits_attempt: bool,
    /// Until when it is parked, and why; outlives a crash.
    pub parked: Option<(Timestamp, String)>,
    /// Attempts in a row that met an outage.
    pub outages: u32,
    /// Attempts in a row that found the plan used up.
    pub limits: u32,
    /// Attempts in a row that wanted a permission, or more context than there is.
    pub walls: u32,
    /// Fingerprints of what was warned about.
    pub warned: BTreeSet<u64>,
    /// Signals of the newest iteration that say: do not restart me.
    pub waits: Vec<Signal>,
    /// The newest refusal, for the next prompt.
    pub feedback: Option<Feedback>,
    /// A person's words, and the iteration whose prompt holds them.
    pub steers: Vec<(String, Option<u32>)>,
    /// A question nobody has answered.
    pub question: Option<String>,
    /// All questions of the newest iteration.
    pub asked: Vec<String>,
    /// The newest iteration whose agent could not do what it was asked, and why.
    pub blocked: Option<(u32, String)>,
    /// Why a tag in the newest iteration did not count.
    pub near_miss: Option<crate::judge::promise::MissReason>,
    /// Why a `<blocked>` tag in it did not count.
    pub blocked_near_miss: Option<crate::judge::promise::MissReason>,
}

/// What a loop is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Phase {
    /// It does not exist yet.
    #[default]
    New,
    /// It waits for other tasks.
    AwaitingTasks,
    /// It looks at the task folder before an iteration.
    Looking,
    /// An agent runs.
    Running,
    /// A claim is being judged, or looked for.
    Judging(JudgeStep),
    /// It waits between two iterations.
    Delaying,
    /// It waits for a time of day, without a process.
    Parked,
    /// It holds until a person says go on.
    Paused,
    /// It is over.
    Over(Reason),
}

/// How far the judging has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JudgeStep {
    /// A check runs.
    Check {
        /// What for.
        role: GateRole,
        /// Which.
        index: usize,
        /// For the how-manyeth time.
        attempt: u32,
    },
    /// Child loops are waited for.
    Children {
        /// Whether they were told to end already.
        cancelled: bool,
    },
    /// Every gate agrees; the workspace is looked at once more.
    Rechecking,
    /// The workspace held still; what is kept may be committed.
    Committing,
}

/// The child loops of the claim that is being judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Children {
    /// There were none.
    #[default]
    None,
    /// All have ended.
    Finished,
    /// They were told to end, and did.
    Cancelled,
    /// Some were left running.
    Running,
}

/// A claim: done, says somebody.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The iteration that made it; 0 before the first.
    pub iteration: u32,
    /// What it rests on.
    pub by: Vec<Signal>,
}

impl LoopState {
    /// The state that `events` add up to.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a LoopEvent>) -> Self {
        let mut state = Self::default();
        for event in events {
            state.apply(event);
        }
        state
    }

    /// Why it is over, if it is.
    pub fn over(&self) -> Option<Reason> {
        match self.phase {
            Phase::Over(reason) => Some(reason),
            _ => None,
        }
    }

    /// Why the agent of the open iteration says that it cannot do what it was asked.
    pub(super) fn blocked_by(&self) -> Option<&str> {
        let (iteration, why) = self.blocked.as_ref()?;
        (*iteration == self.iterations && self.iteration_is_open).then_some(why.as_str())
    }

    /// What is left of the loop's time.
    pub fn time_left(&self) -> Option<Millis> {
        self.max_time.map(|max| max.minus(self.spent))
    }

    /// Takes in one fact. Total: a journal of any version folds to something.
    pub fn apply(&mut self, event: &LoopEvent) {
        match event {
            LoopEvent::LoopStarted(started) => {
                let tree = started.base.as_ref().map(|base| base.tree.clone()).or(started.outline.clone());
                *self = Self {
                    phase: if started.after.is_empty() { Phase::Looking } else { Phase::AwaitingTasks },
                    max_iterations: started.policy.limits.max_iterations,
                    max_time: started.policy.limits.max_time,
                    max_cost: started.policy.limits.max_cost,
                    max_tokens: started.policy.limits.max_tokens,
                    progress: ProgressLog::starting_at(tree.as_deref()),
                    tree,
                    started: Some(Arc::new((**started).clone())),
                    ..Self::default()
                };
            }
            LoopEvent::LoopResumed { grant, output, pid: _ } => {
                self.take_grant(grant);
                self.output = *output;
                self.stopping = None;
                self.pausing = false;
                self.waits.clear();
                // A person who continues a stuck loop gives it as many tries again.
                if self.phase == Phase::Over(Reason::Stuck) {
                    self.progress.count_anew();
                }
                // A claim is judged again from its beginning; what was committed for it stays committed.
                (self.examined, self.children) = (None, Children::None);
                self.forget_gates();
                // So are the gates before the first agent: nobody has worked yet.
                if self.iterations == 0 && self.claim.is_none() {
                    self.baseline.clear();
                }
                self.phase = match &self.claim {
                    Some(_) => Phase::Judging(JudgeStep::Children { cancelled: false }),
                    None => self.first_phase(),
                };
            }
            LoopEvent::TasksAwaited { tasks } => {
                self.phase = if tasks.is_empty() { Phase::Looking } else { Phase::AwaitingTasks };
            }
            LoopEvent::IterationStarted { iteration, .. } => {
                self.iterations = *iteration;
                self.iteration_is_open = true;
                self.phase = Phase::Running;
                self.waits.clear();
                (self.near_miss, self.blocked_near_miss) = (None, None);
                self.asked.clear();
            }
            LoopEvent::AgentStarted { iteration, attempt, output, session, .. } => {
                for (_, told) in self.steers.iter_mut().filter(|(_, told)| told.is_none()) {
                    *told = Some(*iteration);
                }
                if let Some(cut_short) = &self.attempt_session {
                    self.sessions.entry(cut_short.clone()).or_default().add(&self.ledger.newest());
                }
                self.ledger.apply(event);
                self.phase = Phase::Running;
                self.attempt_session.clone_from(session);
                // The purse is looked at before each start.
                (self.awaits_attempt, self.parked, self.budget) = (false, None, None);
                self.attempts = *attempt;
                self.output = *output;
                self.attempt_output = *output;
            }
            LoopEvent::AgentExited { exit, .. } => {
                self.ledger.apply(event);
                self.spent = self.spent.plus(exit.duration_ms);
                self.output = exit.output;
                self.take_session(exit);
                if self.awaits_attempt {
                    self.phase = Phase::Looking;
                }
                let is_outage =
                    matches!(exit.outcome, Outcome::RateLimit | Outcome::Overload | Outcome::Network);
                self.outages = if is_outage { self.outages + 1 } else { 0 };
                let is_limit = exit.outcome == Outcome::UsageLimit;
                self.limits = if is_limit { self.limits + 1 } else { 0 };
                let is_wall = matches!(exit.outcome, Outcome::Permission | Outcome::Context);
                self.walls = if is_wall { self.walls + 1 } else { 0 };
            }
            LoopEvent::UsageSeen { .. } => {
                let before = self.ledger.total().spent();
                self.ledger.apply(event);
                let now = self.ledger.total().spent();
                let took = Spent {
                    cost_usd: now.cost_usd - before.cost_usd,
                    tokens: now.tokens.saturating_sub(before.tokens),
                };
                self.largest = largest([self.largest, took]);
            }
            LoopEvent::BudgetReached { detail } => self.budget = Some(detail.clone()),
            LoopEvent::AgentSwitched { agent, .. } => {
                let index = self.started.as_ref().and_then(|started| started.policy.agent.index_of(agent));
                self.agent = index.unwrap_or(0);
                // A session is one agent's own, and so are its outages.
                (self.session, self.lost_sessions, self.outages, self.limits) = (None, 0, 0, 0);
            }
            LoopEvent::SignalSeen { signal, .. } => {
                if signal.is_wait() {
                    self.waits.push(signal.clone());
                }
                match signal {
                    Signal::NearMiss(miss) => self.near_miss = Some(*miss),
                    Signal::BlockedNearMiss(miss) => self.blocked_near_miss = Some(*miss),
                    _ => {}
                }
            }
            LoopEvent::ClaimMade { iteration, by } => {
                self.claim_awaits_attempt = self.awaits_attempt;
                (self.awaits_attempt, self.parked) = (false, None);
                self.claim = Some(Claim { iteration: *iteration, by: by.clone() });
                (self.examined, self.children) = (None, Children::None);
                self.committed.clear();
                self.forget_gates();
                self.phase = Phase::Judging(JudgeStep::Children { cancelled: false });
            }
            LoopEvent::ChildrenAwaited { .. } => {}
            LoopEvent::ChildrenFinished { cancelled, waited_ms, left } => {
                self.children = match (cancelled, left.is_empty()) {
                    (true, _) => Children::Cancelled,
                    (false, true) => Children::Finished,
                    (false, false) => Children::Running,
                };
                self.spent = self.spent.plus(*waited_ms);
                self.phase = Phase::Judging(JudgeStep::Children { cancelled: *cancelled });
            }
            LoopEvent::SnapshotTaken { iteration, id, tree } => {
                self.tree = Some(tree.clone());
                self.snapshots.push((*iteration, id.clone()));
            }
            LoopEvent::OutlineTaken { outline, .. } => self.tree.clone_from(outline),
            LoopEvent::ClaimExamined { found, .. } => self.examined = Some(found.clone()),
            LoopEvent::GatesPassed { .. } => self.phase = Phase::Judging(JudgeStep::Rechecking),
            LoopEvent::TreeHeld { .. } => self.phase = Phase::Judging(JudgeStep::Committing),
            LoopEvent::Committed { commit, task, .. } => {
                self.committed.push((*task, commit.clone()));
                self.completed.extend(task);
            }
            LoopEvent::ReceiptIssued { .. } => {}
            LoopEvent::GateStarted { role, command, attempt, task, .. } => {
                let index = self.index_of(*role, command, *task, *attempt);
                self.phase = Phase::Judging(JudgeStep::Check { role: *role, index, attempt: *attempt });
            }
            LoopEvent::GateFinished { name, command, result, role, .. } => {
                self.spent = self.spent.plus(result.duration_ms);
                self.output = result.output;
                match role {
                    GateRole::Baseline => {
                        let seen = if result.passed { String::new() } else { signature(name, result) };
                        self.baseline.insert(name.clone(), seen);
                        self.end_baseline();
                    }
                    GateRole::Gate => {
                        let index = match self.phase {
                            Phase::Judging(JudgeStep::Check { index, .. }) => index,
                            _ => self.gates.len(),
                        };
                        self.take_gate(index, name, command, result);
                    }
                    GateRole::Until => {}
                }
            }
            LoopEvent::ClaimRefused { iteration, reason, detail } => {
                self.claim = None;
                self.awaits_attempt = std::mem::take(&mut self.claim_awaits_attempt);
                if self.awaits_attempt || !self.iteration_is_open {
                    self.phase = Phase::Looking;
                }
                self.refusals.push((*iteration, *reason, detail.clone()));
                let is_of_a_gate =
                    self.feedback.as_ref().is_some_and(|f| f.iteration == *iteration && !f.gates.is_empty());
                if !is_of_a_gate || *reason != RefusalReason::GateFailed {
                    self.feedback = Some(Feedback::of_refusal(*iteration, detail));
                }
            }
            LoopEvent::ClaimAccepted { .. } => {
                self.claim = None;
                self.feedback = None;
            }
            LoopEvent::IterationFinished { iteration, outcome, spent_ms } => {
                self.spent = *spent_ms;
                (self.iteration_is_open, self.awaits_attempt) = (false, false);
                let failure = self.failure.take();
                // Who cannot go on and says so has not failed to get on.
                if *outcome != IterationOutcome::Blocked {
                    self.progress.observe(self.tree.as_deref(), failure.as_deref(), false);
                }
                // An agent that was cut short or never started may not have read its prompt: what a person said goes
                // into the next one too.
                if matches!(outcome, IterationOutcome::Interrupted | IterationOutcome::NotStarted) {
                    for (_, told) in &mut self.steers {
                        *told = None;
                    }
                } else {
                    self.steers.retain(|(_, told)| *told != Some(*iteration));
                }
                self.phase = Phase::Delaying;
            }
            LoopEvent::Parked { until, why } => {
                self.parked = Some((*until, why.clone()));
                self.phase = Phase::Parked;
            }
            LoopEvent::Warned { text } => {
                self.warned.insert(fingerprint(text.as_bytes()));
            }
            LoopEvent::QuestionAsked { text } => {
                self.question = Some(text.clone());
                self.asked.push(text.clone());
            }
            LoopEvent::Blocked { iteration, why } => self.blocked = Some((*iteration, why.clone())),
            LoopEvent::LimitsRaised { grant } => self.take_grant(grant),
            LoopEvent::Steered { text } => {
                self.steers.push((text.clone(), None));
                self.question = None;
            }
            LoopEvent::PauseRequested { .. } => self.pausing = true,
            LoopEvent::Paused => {
                self.phase = Phase::Paused;
                self.pausing = false;
            }
            LoopEvent::Unpaused => {
                self.pausing = false;
                if self.phase == Phase::Paused {
                    self.phase = self.first_phase();
                }
            }
            LoopEvent::StopRequested { by } => self.stopping = Some(*by),
            LoopEvent::LoopFinished { reason, state, .. } => {
                self.phase = Phase::Over(*reason);
                self.stopping = None;
                self.pausing = false;
                if *state == FinishState::Cancelled {
                    self.claim = None;
                }
            }
        }
    }

    /// Limits rise only by what a person types; a budget that was used up is judged anew.
    fn take_grant(&mut self, grant: &Grant) {
        self.max_iterations = self.max_iterations.saturating_add(grant.extra_iterations);
        self.max_time = grant.max_time_ms.or(self.max_time);
        self.max_cost = grant.max_cost.or(self.max_cost);
        self.max_tokens = grant.max_tokens.or(self.max_tokens);
        self.budget = None;
    }

    /// Where a loop goes on that is neither running nor judging.
    fn first_phase(&self) -> Phase {
        if self.parked.is_some() {
            return Phase::Parked;
        }
        let awaits = self.iterations == 0 && self.started.as_ref().is_some_and(|s| !s.after.is_empty());
        if awaits { Phase::AwaitingTasks } else { Phase::Looking }
    }

    /// What is known of sessions after an agent has ended.
    fn take_session(&mut self, exit: &AgentExit) {
        let is_lost = self.attempt_session.is_some()
            && match exit.outcome {
                Outcome::Misuse => true,
                // A broken session may well crash the agent before it names any.
                Outcome::Crash => exit.session.is_none(),
                _ => false,
            };
        self.awaits_attempt = is_lost || !exit.outcome.is_charged();
        if let Some(session) = &exit.session {
            self.sessions.entry(session.clone()).or_default().add(&exit.spend());
        }
        if is_lost {
            self.lost_sessions += 1;
            if self.lost_sessions >= LOST_SESSIONS {
                self.session = None;
            }
        } else if exit.outcome == Outcome::Context {
            self.session = None;
        } else if exit.session.is_some() {
            self.session.clone_from(&exit.session);
            self.lost_sessions = 0;
        }
    }

    /// After the last gate before the first agent the loop looks at its task folder.
    fn end_baseline(&mut self) {
        let gates = self.started.as_ref().map_or(0, |started| started.policy.gates.specs.len());
        if let Phase::Judging(JudgeStep::Check { role: GateRole::Baseline, index, .. }) = self.phase
            && index + 1 >= gates
        {
            self.phase = Phase::Looking;
        }
    }

    /// What the gates said about an earlier claim, or before a crash, is no proof.
    fn forget_gates(&mut self) {
        self.gates.clear();
        self.verdicts.clear();
    }
}

/// What tells one failure of a gate from another.
pub(super) fn signature(name: &str, result: &GateResult) -> String {
    failure_signature(name, result.exit_code, result.output_tail.as_bytes())
}
