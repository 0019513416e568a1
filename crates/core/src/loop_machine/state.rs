//! The state of a loop: a fold of its events and nothing else.
//!
//! Nothing is judged here. What a rule has said, such as whether an attempt was charged or an iteration made progress, is
//! in the event; a rule that changes later changes nothing that was recorded.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::phase::{Children, Claim, GateTry, Iteration, JudgeStep, Judging, Phase, Rest};
use crate::{
    duration::Millis,
    event::{
        AgentExit, AttemptJudgement, FinishState, GateRole, Grant, IterationOutcome, Ledger, LoopEvent,
        LoopStarted, NextSession, Obstacle, OutputMarks, Reason, Spend, StopCause, UseOfCheckout,
    },
    goalposts::{MustFailTest, TestReport},
    ids::fingerprint,
    item::ItemKey,
    judge::{
        claim::RefusalReason, progress::ProgressLog, promise::MissReason, signal::Signal,
        unknown_target::unknown_target,
    },
    limits::{Budget, Share, Spent},
    prompt::{Feedback, GateFeedback},
    session::SessionState,
};

/// What the journal says about a loop, as far as deciding needs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopState {
    /// How the loop began; `None` before its first event. It is left out of a stored state: the first event has it, and
    /// this copy may hold the user's own words, which the journal has without secrets.
    #[serde(skip)]
    pub started: Option<Arc<LoopStarted>>,
    pub phase: Phase,
    pub iteration: Iteration,
    pub limits: LimitsInForce,
    pub counters: Counters,
    pub output: OutputPosition,
    pub orders: Orders,
    pub spending: Spending,
    pub sessions: AgentSessions,
    pub conversation: LoopWords,
    /// The claims that were refused so far, oldest first.
    pub refusals: Arc<Vec<Refused>>,
    pub progress: Progress,
    /// How the gates stood before the first agent: name and failure signature, which is empty for a gate that passed.
    pub baseline: Arc<BTreeMap<String, String>>,
    /// What the loop remembers of the chat session that it lives in, if it lives in one.
    pub session: SessionState,
    /// Items whose commits were made, for any claim of the loop. They stay done.
    pub completed: Arc<BTreeSet<ItemKey>>,
    /// What is known of the gates from before the first agent, by name.
    #[serde(default)]
    pub trials: Arc<BTreeMap<String, GateTrial>>,
    /// The tree of the newest claim that was refused because its tests are narrower than they were.
    #[serde(default)]
    pub narrowed: Option<String>,
    /// The tree that a person accepts all the same, and who that is.
    #[serde(default)]
    pub approved: Option<(String, String)>,
    /// The tree of the newest claim, if that was refused because settings, programs or installed runners changed outside of the work.
    #[serde(default)]
    pub tampered_outside: Option<String>,
    /// The tree that a person accepts with those as they are, and who that is. Its tests are another matter.
    #[serde(default)]
    pub approved_outside: Option<(String, String)>,
}

/// The limits in force: those of the policy, and what a person has granted since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitsInForce {
    /// Charged iterations at most.
    pub max_iterations: u32,
    /// How long agents, checks and delays may take together.
    pub max_time: Option<Millis>,
    /// Money that agents may cost together, in US dollars.
    pub max_cost: Option<f64>,
    /// Tokens that agents may use together.
    pub max_tokens: Option<u64>,
    /// What the agents of all loops of its run may spend together.
    pub per_run: Budget,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Iterations charged so far: also the number of the newest.
    pub iterations: u32,
    /// Agent processes started so far.
    pub attempts: u32,
    /// How long agents, checks and delays took so far.
    pub spent: Millis,
    /// Consecutive attempts that met an outage of the provider.
    pub outages: u32,
    /// Consecutive attempts that found the user's plan used up.
    pub usage_limits: u32,
    /// Consecutive attempts that ended with a permission error or a full context window.
    pub blocked_attempts: u32,
    /// Consecutive attempts that failed at once with the same words.
    #[serde(default)]
    pub failed_at_once: u32,
    /// A number for the words of the newest of them.
    #[serde(default)]
    pub failure_words: Option<u32>,
}

/// Where the loop's segments end, and where the newest agent's output begins in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPosition {
    pub end: OutputMarks,
    pub attempt: OutputMarks,
}

/// What a person or an OS signal asked of the loop and the loop has not done yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// Why the loop is to end, while its processes are being stopped.
    pub stop: Option<StopCause>,
    /// Whether the loop is to pause as soon as it can.
    pub pause: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spending {
    /// What all agents of the loop have used and cost so far.
    pub ledger: Ledger,
    /// The largest step between two reports of usage: about what one message of the model takes.
    pub largest: Spent,
    /// The budget that is used up, in one line.
    pub exhausted: Option<String>,
    /// The shared budgets that were said to be nearly used up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told_low: Vec<Share>,
}

/// The agent at work and its sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSessions {
    /// The index of the agent at work: the policy's own is 0, its fallbacks follow.
    pub agent: usize,
    /// The session that the next attempt could go on with.
    pub next: Option<String>,
    /// The session the newest attempt was told to go on with.
    pub attempt: Option<String>,
    /// Consecutive attempts that could not go on with a session.
    pub lost: u32,
    /// What sessions of this loop have used and cost.
    pub spent: Arc<BTreeMap<String, Spend>>,
}

/// Words of people and agents, refusals and warnings, as far as the next prompt or a later decision needs them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoopWords {
    /// A person's words, and the iteration whose prompt holds them.
    pub steers: Vec<(String, Option<u32>)>,
    /// The newest question of an agent, until a person answers it.
    pub question: Option<String>,
    /// All questions of the newest iteration.
    pub asked: Vec<String>,
    /// Signals of the newest iteration by which the agent says that it waits for a person.
    pub waits: Vec<Signal>,
    /// The newest iteration whose agent said that it is blocked, and why.
    pub blocked: Option<(u32, String)>,
    /// Why a promise in the newest iteration did not count.
    pub near_miss: Option<MissReason>,
    /// Why a `<blocked>` tag in the newest iteration did not count.
    pub blocked_near_miss: Option<MissReason>,
    /// The newest refusal, for the next prompt.
    pub feedback: Option<Arc<Feedback>>,
    /// Fingerprints of the warnings that were given, so that none is given twice.
    pub warned: Arc<BTreeSet<u64>>,
}

/// What counts as progress, and how long there was none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The trees and failures that were seen.
    pub log: Arc<ProgressLog>,
    /// The workspace's newest tree, or its outline where there are no snapshots.
    pub tree: Option<String>,
    /// The signatures of the gates that refused the newest iteration.
    pub failure: Option<String>,
    /// How many claims in a row were refused because a gate could not be started.
    #[serde(default)]
    pub unstarted_gates: u32,
}

/// What is known of a gate from before the first agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GateTrial {
    pub checkout: UseOfCheckout,
    /// What its test runner reported then.
    pub tests: Option<TestReport>,
    #[serde(default)]
    pub notices: Vec<MustFailTest>,
    /// Tests that fail beside must-fail tests since before the first agent.
    #[serde(default)]
    pub fail_beside: BTreeSet<String>,
    /// Goalposts that it writes by itself.
    #[serde(default)]
    pub writes: Vec<String>,
    /// The exit code and the hash of the output of one that could not run at all.
    pub broken: Option<(i32, String)>,
}

/// A claim that did not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// The iteration that made it.
    pub iteration: u32,
    pub reason: RefusalReason,
    pub detail: String,
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

    /// Why the loop is over, if it is.
    pub fn over(&self) -> Option<Reason> {
        match self.phase {
            Phase::Over { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// The claim that is being judged, if one is.
    pub fn judging(&self) -> Option<&Judging> {
        match &self.phase {
            Phase::Judging(_, judging) => Some(judging),
            _ => None,
        }
    }

    /// How often the gate that runs for a claim was started in its run of the gates.
    pub fn gate_attempt(&self) -> u32 {
        match &self.phase {
            Phase::Judging(JudgeStep::Gate { attempt, .. }, _) => *attempt,
            _ => 1,
        }
    }

    /// The iterations that agents have used up: an open claim uses up the one it was made in.
    pub fn charged(&self) -> u32 {
        let awaits_retry = self.iteration == Iteration::AwaitsRetry && self.phase.claim().is_none();
        self.counters.iterations - u32::from(awaits_retry)
    }

    /// Why the agent of the open iteration says that it cannot do what it was asked.
    pub(super) fn blocked_by(&self) -> Option<&str> {
        let (iteration, why) = self.conversation.blocked.as_ref()?;
        let is_open = *iteration == self.counters.iterations && self.iteration != Iteration::Closed;
        is_open.then_some(why.as_str())
    }

    /// What is left of the loop's time.
    pub fn time_left(&self) -> Option<Millis> {
        self.limits.max_time.map(|max| max.minus(self.counters.spent))
    }

    /// Takes in one fact. It is total: any sequence of events folds to a state.
    pub fn apply(&mut self, event: &LoopEvent) {
        let mut session = std::mem::take(&mut self.session);
        session.apply(event, self);
        self.apply_to_loop(event);
        self.session = session;
    }

    fn apply_to_loop(&mut self, event: &LoopEvent) {
        match event {
            LoopEvent::LoopStarted(started) => *self = Self::of(started),
            LoopEvent::LoopResumed { grant, output, pid: _, counts_anew } => {
                self.take_grant(grant);
                self.output.end = *output;
                self.orders = Orders::default();
                self.conversation.waits.clear();
                self.progress.unstarted_gates = 0;
                if *counts_anew {
                    Arc::make_mut(&mut self.progress.log).count_anew();
                }
                self.phase = self.phase.rest().into();
            }
            LoopEvent::TasksAwaited { tasks } => {
                self.phase = if tasks.is_empty() { Phase::Looking } else { Phase::AwaitingTasks };
            }
            LoopEvent::IterationStarted { iteration, .. } => {
                self.counters.iterations = *iteration;
                self.iteration = Iteration::Open;
                self.phase = Phase::Running;
                self.conversation.forget_iteration();
            }
            LoopEvent::AgentStarted { iteration, attempt, output, session, .. } => {
                self.conversation.tell(*iteration);
                self.sessions.settle(&self.spending.ledger.newest());
                self.sessions.attempt.clone_from(session);
                self.spending.ledger.apply(event);
                self.spending.exhausted = None;
                self.phase = Phase::Running;
                self.iteration = Iteration::Open;
                self.counters.attempts = *attempt;
                self.output = OutputPosition { end: *output, attempt: *output };
            }
            LoopEvent::AgentExited { exit, judged, .. } => {
                self.spending.ledger.apply(event);
                self.output.end = exit.output;
                self.counters.take_attempt(exit, judged);
                self.sessions.take_attempt(exit, judged.next_session);
                if !judged.charged {
                    self.iteration = Iteration::AwaitsRetry;
                }
                self.phase = Phase::Looking;
            }
            LoopEvent::UsageSeen { .. } => self.spending.take_usage(event),
            LoopEvent::BudgetReached { detail } => self.spending.exhausted = Some(detail.clone()),
            LoopEvent::BudgetLow { share, .. } => self.spending.told_low.push(*share),
            LoopEvent::AgentSwitched { index, .. } => {
                // Sessions and outages belong to the agent that the loop left.
                (self.sessions.agent, self.sessions.next, self.sessions.lost) = (*index, None, 0);
                (self.counters.outages, self.counters.usage_limits) = (0, 0);
            }
            LoopEvent::SignalSeen { signal, .. } => self.conversation.take_signal(signal),
            LoopEvent::ClaimMade { iteration, by } => {
                let claim = Claim { iteration: *iteration, by: by.clone(), committed: Vec::new() };
                self.phase = Phase::judging(claim);
            }
            LoopEvent::ChildrenAwaited { .. }
            | LoopEvent::ReceiptIssued { .. }
            | LoopEvent::SessionIdled { .. }
            | LoopEvent::IdleSkipped { .. }
            | LoopEvent::SessionErred { .. } => {}
            LoopEvent::PromptNotDelivered { .. } => self.iteration = Iteration::AwaitsRetry,
            LoopEvent::ChildrenFinished { cancelled, waited_ms, left } => {
                self.counters.spent = self.counters.spent.plus(*waited_ms);
                if let Phase::Judging(step, judging) = &mut self.phase {
                    *step = JudgeStep::Children { cancelled: *cancelled };
                    judging.children = match (cancelled, left.is_empty()) {
                        (true, _) => Children::Cancelled,
                        (false, true) => Children::Finished,
                        (false, false) => Children::Running,
                    };
                }
            }
            LoopEvent::SnapshotTaken { tree, .. } => self.progress.tree = Some(tree.clone()),
            LoopEvent::OutlineTaken { outline, .. } => self.progress.tree.clone_from(outline),
            LoopEvent::ClaimExamined { found, .. } => {
                if let Phase::Judging(_, judging) = &mut self.phase {
                    judging.examined = Some(found.clone());
                }
            }
            LoopEvent::GatesPassed { .. } => self.judge_on(JudgeStep::Rechecking),
            LoopEvent::TreeHeld { .. } => self.judge_on(JudgeStep::Committing),
            LoopEvent::Committed { commit, item, .. } => {
                if let Phase::Judging(_, judging) = &mut self.phase {
                    judging.claim.committed.push((*item, commit.clone()));
                }
                if let Some(item) = item {
                    Arc::make_mut(&mut self.completed).insert(*item);
                }
            }
            LoopEvent::GateTried { name, tried, .. } => {
                let cannot_run = matches!(tried.exit_code, 126 | 127) && !tried.awaits_program
                    || unknown_target(&tried.output_tail).is_some();
                let broken = cannot_run.then(|| (tried.exit_code, tried.output_sha256.clone()));
                let trial = GateTrial {
                    checkout: tried.checkout,
                    tests: tried.tests.clone(),
                    notices: tried.notices.clone(),
                    fail_beside: tried.fail_beside.clone(),
                    writes: tried.writes.clone(),
                    broken,
                };
                Arc::make_mut(&mut self.trials).insert(name.clone(), trial);
            }
            LoopEvent::TreeApproved { tree, by } => {
                let approved = Some((tree.clone(), by.clone()));
                match self.tampered_outside.as_ref() == Some(tree) {
                    true => self.approved_outside = approved,
                    false => self.approved = approved,
                }
            }
            LoopEvent::GateStarted { role, index, attempt, look, .. } => match role {
                GateRole::Gate => {
                    self.judge_on(JudgeStep::Gate { index: *index, attempt: *attempt, look: *look });
                }
                GateRole::Baseline | GateRole::Until => {
                    if *role == GateRole::Baseline && *index == 0 {
                        Arc::make_mut(&mut self.baseline).clear();
                    }
                    self.phase = Phase::Checking { role: *role, index: *index };
                }
            },
            LoopEvent::GateFinished { name, command, result, role, look, .. } => {
                // Later runs may hold tests of the agent's own, which it may take back.
                if *role == GateRole::Baseline && result.tests.is_some() && !self.trials.contains_key(name) {
                    let trials = Arc::make_mut(&mut self.trials);
                    trials.entry(name.clone()).or_default().tests.clone_from(&result.tests);
                }
                self.spending.ledger.apply(event);
                self.counters.spent = self.counters.spent.plus(result.duration_ms);
                self.output.end = result.output;
                match (role, &mut self.phase) {
                    (GateRole::Baseline, phase) => {
                        Arc::make_mut(&mut self.baseline).insert(name.clone(), result.signature.clone());
                        *phase = Phase::Looking;
                    }
                    (GateRole::Until, phase) => *phase = Phase::Looking,
                    (GateRole::Gate, Phase::Judging(JudgeStep::Gate { index, .. }, judging)) => {
                        let (name, command, result) = (name.clone(), command.clone(), result.clone());
                        judging.tries.push(GateTry { index: *index, name, command, result, look: *look });
                        self.progress.failure = judging.failure();
                    }
                    (GateRole::Gate, _) => {}
                }
            }
            LoopEvent::ClaimRefused { iteration, reason, detail } => {
                let feedback = match self.judging() {
                    // A gate that was cut short with its hook has no result.
                    Some(judging)
                        if *reason == RefusalReason::GateFailed && judging.red().next().is_some() =>
                    {
                        Feedback::of_gates(*iteration, self.gate_feedback(judging))
                    }
                    _ => Feedback::of_refusal(*iteration, detail),
                };
                self.conversation.feedback = Some(Arc::new(feedback));
                let is_unstarted = self
                    .judging()
                    .is_some_and(|judging| judging.tries.iter().any(|tried| tried.result.not_started));
                self.progress.unstarted_gates =
                    if is_unstarted { self.progress.unstarted_gates.saturating_add(1) } else { 0 };
                self.approved = None;
                let found = self.judging().and_then(|judging| judging.examined.as_ref());
                let tree = found.map(|found| found.tree.clone());
                let is_outside = found.is_some_and(|found| found.is_tampered_outside_alone());
                self.tampered_outside =
                    tree.clone().filter(|_| *reason == RefusalReason::Tampered && is_outside);
                if self.approved_outside.as_ref().map(|(approved, _)| approved) != tree.as_ref() {
                    self.approved_outside = None;
                }
                if *reason == RefusalReason::Narrowed {
                    self.narrowed = tree;
                }
                let refused = Refused { iteration: *iteration, reason: *reason, detail: detail.clone() };
                Arc::make_mut(&mut self.refusals).push(refused);
                self.phase = Phase::Looking;
            }
            LoopEvent::ClaimAccepted { .. } => {
                // An attempt that met an outage but made an accepted claim uses up its iteration.
                if self.iteration == Iteration::AwaitsRetry {
                    self.iteration = Iteration::Open;
                }
                self.conversation.feedback = None;
                self.phase = Phase::Looking;
            }
            LoopEvent::IterationFinished { iteration, outcome, spent_ms, progress } => {
                self.counters.spent = *spent_ms;
                self.iteration = Iteration::Closed;
                let failure = self.progress.failure.take();
                let log = Arc::make_mut(&mut self.progress.log);
                log.take(self.progress.tree.as_deref(), failure.as_deref(), *progress);
                self.conversation.end_iteration(*iteration, *outcome);
                self.phase = Phase::Delaying;
            }
            LoopEvent::Parked { until, why } => {
                let parking = super::phase::Parking { until: *until, why: why.clone() };
                self.phase = Phase::Parked(parking);
            }
            LoopEvent::Warned { text } => {
                Arc::make_mut(&mut self.conversation.warned).insert(fingerprint(text.as_bytes()));
            }
            LoopEvent::QuestionAsked { text } => {
                self.conversation.question = Some(text.clone());
                self.conversation.asked.push(text.clone());
            }
            LoopEvent::Blocked { iteration, why } => {
                self.conversation.blocked = Some((*iteration, why.clone()));
            }
            LoopEvent::LimitsRaised { grant } => self.take_grant(grant),
            LoopEvent::Steered { text } => {
                self.conversation.steers.push((text.clone(), None));
                self.conversation.question = None;
            }
            LoopEvent::PauseRequested { .. } => self.orders.pause = true,
            LoopEvent::Paused => {
                self.phase = Phase::Paused { then: self.phase.rest() };
                self.orders.pause = false;
            }
            LoopEvent::Unpaused => {
                self.orders.pause = false;
                if let Phase::Paused { then } = &self.phase {
                    self.phase = then.clone().into();
                }
            }
            LoopEvent::StopRequested { by } => self.orders.stop = Some(*by),
            LoopEvent::LoopFinished { reason, state, .. } => {
                let then = match state {
                    FinishState::Cancelled => Rest::Looking,
                    FinishState::Completed | FinishState::Failed | FinishState::Stopped => self.phase.rest(),
                };
                self.phase = Phase::Over { reason: *reason, then };
                self.orders = Orders::default();
            }
        }
    }

    fn of(started: &LoopStarted) -> Self {
        let tree = started.base.as_ref().map(|base| base.tree.clone()).or(started.outline.clone());
        let limits = &started.policy.limits;
        Self {
            phase: if started.after.is_empty() { Phase::Looking } else { Phase::AwaitingTasks },
            limits: LimitsInForce {
                max_iterations: limits.max_iterations,
                max_time: limits.max_time,
                max_cost: limits.max_cost,
                max_tokens: limits.max_tokens,
                per_run: limits.per_run,
            },
            progress: Progress {
                log: Arc::new(ProgressLog::starting_at(tree.as_deref())),
                tree,
                failure: None,
                unstarted_gates: 0,
            },
            started: Some(Arc::new(started.clone())),
            ..Self::default()
        }
    }

    /// Limits rise only by what a person types; a budget that was used up is judged anew.
    fn take_grant(&mut self, grant: &Grant) {
        let limits = &mut self.limits;
        limits.max_iterations = limits.max_iterations.saturating_add(grant.extra_iterations);
        limits.max_time = grant.max_time_ms.or(limits.max_time);
        limits.max_cost = grant.max_cost.or(limits.max_cost);
        limits.max_tokens = grant.max_tokens.or(limits.max_tokens);
        limits.per_run = limits.per_run.raised_to(grant.per_run);
        self.spending.exhausted = None;
    }

    fn judge_on(&mut self, step: JudgeStep) {
        if let Phase::Judging(at, _) = &mut self.phase {
            *at = step;
        }
    }

    fn gate_feedback(&self, judging: &Judging) -> Vec<GateFeedback> {
        let was_red = |name: &str| self.baseline.get(name).is_some_and(|seen| !seen.is_empty());
        let policy = self.started.as_ref().map(|started| &started.policy);
        judging
            .red()
            .map(|red| {
                let item = policy.and_then(|policy| super::gating::label_of(policy, red.index));
                GateFeedback::new(&red.name, &red.command, item.as_deref(), &red.result, was_red(&red.name))
            })
            .collect()
    }
}

impl Counters {
    fn take_attempt(&mut self, exit: &AgentExit, judged: &AttemptJudgement) {
        self.spent = self.spent.plus(exit.duration_ms);
        let counted = |count: u32, obstacle| if judged.obstacle == Some(obstacle) { count + 1 } else { 0 };
        self.outages = counted(self.outages, Obstacle::Outage);
        self.usage_limits = counted(self.usage_limits, Obstacle::UsageLimit);
        self.blocked_attempts = counted(self.blocked_attempts, Obstacle::PermissionOrContext);
        let before = if judged.failure_words == self.failure_words { self.failed_at_once } else { 0 };
        self.failed_at_once = if judged.obstacle == Some(Obstacle::FailedAtOnce) { before + 1 } else { 0 };
        self.failure_words = judged.failure_words;
    }
}

impl Spending {
    fn take_usage(&mut self, event: &LoopEvent) {
        let before = self.ledger.total().spent();
        self.ledger.apply(event);
        let now = self.ledger.total().spent();
        self.largest = Spent {
            cost_usd: self.largest.cost_usd.max(now.cost_usd - before.cost_usd),
            tokens: self.largest.tokens.max(now.tokens.saturating_sub(before.tokens)),
        };
    }
}

impl AgentSessions {
    /// Adds what was seen of an attempt that was cut short to its session. An attempt that ended was added at its end.
    fn settle(&mut self, cut_short: &Spend) {
        if let Some(session) = &self.attempt {
            Arc::make_mut(&mut self.spent).entry(session.clone()).or_default().add(cut_short);
        }
    }

    fn take_attempt(&mut self, exit: &AgentExit, next: NextSession) {
        if let Some(session) = &exit.session {
            Arc::make_mut(&mut self.spent).entry(session.clone()).or_default().add(&exit.spend());
        }
        match next {
            NextSession::Unchanged => {}
            NextSession::Continue => (self.next, self.lost) = (exit.session.clone(), 0),
            NextSession::Retry => self.lost += 1,
            NextSession::Fresh => (self.next, self.lost) = (None, 0),
        }
    }
}

impl LoopWords {
    fn forget_iteration(&mut self) {
        self.waits.clear();
        (self.near_miss, self.blocked_near_miss) = (None, None);
        self.asked.clear();
    }

    /// Notes that the prompt of this iteration holds what people said until now.
    fn tell(&mut self, iteration: u32) {
        for (_, told) in self.steers.iter_mut().filter(|(_, told)| told.is_none()) {
            *told = Some(iteration);
        }
    }

    fn take_signal(&mut self, signal: &Signal) {
        match signal {
            Signal::WaitExitCode(_) | Signal::WaitMarker | Signal::WaitMessage(_) => {
                self.waits.push(signal.clone());
            }
            Signal::NearMiss(miss) => self.near_miss = Some(*miss),
            Signal::BlockedNearMiss(miss) => self.blocked_near_miss = Some(*miss),
            Signal::Promise(_)
            | Signal::DoneFile
            | Signal::MalformedDone(_)
            | Signal::UntilCommand
            | Signal::Item(_)
            | Signal::MalformedItem(_)
            | Signal::OwnClaim
            | Signal::Blocked(_)
            | Signal::Refusal(_)
            | Signal::Question(_) => {}
        }
    }

    /// An agent that was cut short or never started may not have read its prompt: what a person said goes into the next
    /// one too.
    fn end_iteration(&mut self, iteration: u32, outcome: IterationOutcome) {
        match outcome {
            IterationOutcome::Interrupted | IterationOutcome::NotStarted => {
                for (_, told) in &mut self.steers {
                    *told = None;
                }
            }
            IterationOutcome::NoClaim
            | IterationOutcome::Refused
            | IterationOutcome::Accepted
            | IterationOutcome::Waiting
            | IterationOutcome::Blocked => self.steers.retain(|(_, told)| *told != Some(iteration)),
        }
    }
}
