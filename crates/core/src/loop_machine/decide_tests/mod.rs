//! The machine under tables: small words here, one file per topic beside it.

mod blocked;
mod claims;
mod control;
mod crash;
pub(crate) mod items;
mod journal;
mod looks;
mod outages;
mod progress;
pub(crate) mod receipts;
mod stages;
mod stops;
mod turns;
mod verdict;

pub(crate) use journal::every_event;

use super::{
    AgentReport, Begin, BusTarget, Effect, Input, Iteration, JudgeStep, LoopState, Phase, Recheck, Request,
    Seal, SharedSpend, StartFailure, Step, Supply, decide,
};
use jiff::Timestamp;

use crate::{
    agent::AgentCommand,
    duration::Millis,
    event::{
        AgentExit, AttemptJudgement, Base, Examination, GateResult, GateRole, Grant, IterationOutcome,
        IterationProgress, LoopEvent, LoopStarted, Outcome, OutputMarks, Reason, Spend, StopCause,
    },
    ids::{LoopId, TaskId},
    judge::{
        claim::RefusalReason,
        evidence::{
            EvidenceReason::{NoApproval, NoCommit, NoPassingTests},
            MissingEvidence,
        },
        promise::{MissReason, PromiseRule},
        signal::{DoneFact, Facts, Signal},
    },
    limits::{Budget, reset::PROBE_EVERY},
    policy::{CommitRule, GateSpec, OnFatal, Policy},
    prompt,
};

/// The restart preset, bent by `bend`.
pub(crate) fn policy(bend: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy =
        Policy::restart(AgentCommand::parse("fake-agent", &[]).unwrap(), PromiseRule::new("DONE").unwrap());
    bend(&mut policy);
    policy
}

/// The restart preset with these gates.
pub(super) fn gated(gates: &[&str]) -> Policy {
    policy(|p| p.gates.specs = gates.iter().map(|run| GateSpec::of_command(run)).collect())
}

/// How a loop of task `TASK-001` begins.
pub(crate) fn started(policy: Policy) -> LoopStarted {
    LoopStarted {
        project: "proj".parse().unwrap(),
        task: "TASK-001".parse().unwrap(),
        workspace: "/w".into(),
        parent: None,
        run: None,
        purpose: None,
        session: None,
        depth: 0,
        after: vec![],
        prompt: "Fix it.".to_owned(),
        seed: "seed".to_owned(),
        policy,
        base: Some(base()),
        outline: None,
        protected: vec![],
        outside: vec![],
        goalposts: None,
        sandbox: None,
        pid: 7,
        version: "0.1.0".to_owned(),
    }
}

/// The workspace before the first agent.
pub(crate) fn base() -> Base {
    let (snapshot, tree, head) = ("snap0".into(), "tree0".into(), Some("head0".into()));
    Base { snapshot, tree, head, is_git: true, branch: None }
}

/// What a look at a workspace finds in which one file was changed.
pub(crate) fn examination() -> Examination {
    Examination {
        snapshot: "snap1".into(),
        tree: "tree1".into(),
        changed: 1,
        some: vec!["src/lib.rs".into()],
        tampered: vec![],
        outside: vec![],
        commits: vec![],
        tamper: crate::judge::tamper::TamperScan::default(),
        contradiction: None,
        missing_evidence: vec![],
        moved: vec![],
        forbidden: vec![],
    }
}

pub(crate) fn seal() -> Seal {
    Seal {
        at: Timestamp::UNIX_EPOCH,
        loop_id: "abcdefghjk".into(),
        started_at: Some(Timestamp::UNIX_EPOCH),
        journal: "0".repeat(64),
    }
}

/// The look at the workspace finds one change.
pub(super) fn examined() -> Input {
    examined_with(|_| {})
}

/// The look at the workspace finds what `bend` says.
pub(super) fn examined_with(bend: impl FnOnce(&mut Examination)) -> Input {
    let mut found = examination();
    bend(&mut found);
    Input::Examined(Some(Box::new(found)))
}

/// The workspace held still, but for these.
pub(super) fn rechecked(disturbed: &[&str]) -> Input {
    let disturbed = disturbed.iter().map(|path| (*path).to_owned()).collect();
    Input::Rechecked(Recheck { disturbed, seal: seal() })
}

pub(super) fn commit_done(result: Result<Option<&str>, &str>) -> Input {
    Input::CommitDone(result.map(|commit| commit.map(str::to_owned)).map_err(str::to_owned), seal())
}

/// The gate `run` is started, on what the look at the workspace has kept.
pub(super) fn runs_gate(run: &str) -> Effect {
    let (gate, snapshot) = (GateSpec::of_command(run), Some(examination().snapshot));
    Effect::RunGate { gate, role: GateRole::Gate, snapshot, look: Default::default() }
}

/// The gate `run` is started before the first agent.
pub(super) fn runs_baseline(run: &str) -> Effect {
    let (gate, snapshot) = (GateSpec::of_command(run), Some(base().snapshot));
    Effect::RunGate { gate, role: GateRole::Baseline, snapshot, look: Default::default() }
}

/// What an agent that exited with `code` after a second ended with.
pub(crate) fn agent_exit(code: i32) -> AgentExit {
    AgentExit {
        exit_code: Some(code),
        signal: None,
        duration_ms: Millis(1000),
        outcome: Outcome::Completed,
        stdout_bytes: 0,
        stderr_bytes: 0,
        dropped_bytes: 0,
        leftovers: 0,
        session: None,
        model: None,
        usage: None,
        cost_usd: None,
        estimated: false,
        reset_at: None,
        detail: None,
        output: OutputMarks::default(),
    }
}

/// An agent that exited with `code` and left nothing.
pub(super) fn exits(code: i32) -> Input {
    exits_with(code, |_| {})
}

/// An agent that exited with `code`; `bend` says what else is known of it.
pub(super) fn exits_with(code: i32, bend: impl FnOnce(&mut AgentReport)) -> Input {
    let facts = Facts { exit_code: Some(code), ..Facts::default() };
    let mut report = AgentReport {
        at: Timestamp::UNIX_EPOCH,
        exit: agent_exit(code),
        facts,
        snapshot: None,
        outline: None,
        warnings: vec![],
        stderr: String::new(),
    };
    bend(&mut report);
    Input::AgentExited(Box::new(report))
}

/// An agent that ended in this way and left nothing.
pub(super) fn ends_by(outcome: Outcome) -> Input {
    exits_with(1, |r| r.exit.outcome = outcome)
}

/// The running agent has cost this much so far.
pub(super) fn uses(cost: f64) -> Input {
    let spend = Spend { usage: None, cost_usd: Some(cost), estimated: false };
    Input::UsageSeen { spend, shared: SharedSpend::default(), model: None, is_unpriced: false }
}

pub(super) fn promises(code: i32) -> Input {
    exits_with(code, |r| r.facts.promise = Some("DONE".into()))
}

pub(super) fn writes_done(code: i32) -> Input {
    exits_with(code, |r| r.facts.done = DoneFact::File)
}

/// An agent that dacapo ended because a person asked.
pub(super) fn killed() -> Input {
    exits_with(0, |r| {
        r.facts.exit_code = None;
        (r.exit.exit_code, r.exit.signal, r.exit.outcome) = (None, Some(15), Outcome::Killed);
    })
}

pub(super) fn no_markers() -> Input {
    supplied(Supply::default())
}

/// Nothing in the task folder, and this to draw on.
pub(super) fn supplied(supply: Supply) -> Input {
    Input::MarkersRead(Facts::default(), Box::new(supply))
}

pub(super) fn done_is(done: DoneFact) -> Input {
    Input::MarkersRead(Facts { done, ..Facts::default() }, Box::default())
}

/// What a check that exited with `code` came to.
pub(crate) fn gate_result(code: i32) -> GateResult {
    GateResult {
        exit_code: code,
        passed: code == 0,
        flaky: false,
        duration_ms: Millis(1000),
        laid_out_ms: Millis(0),
        output_bytes: 0,
        output_sha256: "e3b0c442".into(),
        tolerated: false,
        signature: String::new(),
        output_tail: String::new(),
        failure: None,
        not_started: false,
        found: crate::judge::expectation::FoundWords::default(),
        answer: None,
        spend: None,
        tests: None,
        disturbed: vec![],
        must_fail_tests: None,
        missing_program: None,
        lacks: Box::default(),
        output: OutputMarks::default(),
    }
}

pub(super) fn gate(code: i32) -> Input {
    Input::GateFinished(Box::new(gate_result(code)))
}

pub(super) fn no_children() -> Input {
    Input::ChildrenWaitedFor { left: vec![], waited: Millis(0) }
}

pub(super) fn children(left: &[&str], waited: u64) -> Input {
    Input::ChildrenWaitedFor { left: left.iter().map(|id| loop_id(id)).collect(), waited: Millis(waited) }
}

pub(super) fn loop_id(id: &str) -> LoopId {
    id.parse().unwrap()
}

pub(super) fn task_id(id: &str) -> TaskId {
    id.parse().unwrap()
}

/// A person resumes the loop and raises no limit.
pub(crate) fn resume() -> Input {
    Input::Resume { grant: Grant::default(), output: OutputMarks::default(), pid: 8 }
}

pub(super) fn steer(text: &str) -> Input {
    Input::Requested(Request::Steer { text: text.to_owned() })
}

pub(super) const CANCEL: Input = Input::Requested(Request::Cancel);
pub(super) const PAUSE: Input = Input::Requested(Request::Pause { now: false });
pub(super) const PAUSE_NOW: Input = Input::Requested(Request::Pause { now: true });
pub(super) const UNPAUSE: Input = Input::Requested(Request::Unpause { grant: NOTHING });
/// Nothing is granted on top.
pub(crate) const NOTHING: Grant = Grant {
    extra_iterations: 0,
    max_time_ms: None,
    max_cost: None,
    max_tokens: None,
    per_run: NO_BUDGET,
    ask_now: false,
};
const NO_BUDGET: Budget = Budget { max_cost: None, max_tokens: None };
pub(super) const CTRL_C: Input = Input::Signalled(StopCause::Interrupt);
pub(super) const GRACE: Effect = Effect::StopWork { grace: Millis::from_secs(5) };
pub(super) const KILL: Effect = Effect::StopWork { grace: Millis(0) };
pub(super) const DELAY: Effect = Effect::Delay(Millis::from_secs(1));
pub(super) const AWAIT_CHILDREN: Effect =
    Effect::AwaitChildren { timeout: Millis::from_secs(300), every: Millis::from_secs(1) };

/// A loop in memory: what is recorded is folded, and what is folded is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Sim {
    state: LoopState,
    journal: Vec<LoopEvent>,
    starts: u32,
    /// Whether the test itself answers looks at the workspace; else each look finds one change, and no process
    /// changes more.
    is_told: bool,
}

impl Sim {
    /// A loop that has begun and looks at its task folder.
    pub(super) fn new(policy: Policy) -> Self {
        Self::begun(started(policy))
    }

    pub(super) fn begun(started: LoopStarted) -> Self {
        let mut sim = Self::default();
        sim.feed(Input::Begin(Box::new(Begin { started, warnings: vec![] })));
        sim
    }

    /// A loop whose first agent runs.
    pub(super) fn running(policy: Policy) -> Self {
        Self::new(policy).after([no_markers()])
    }

    /// A loop whose first agent runs; the test itself answers looks at the workspace.
    pub(super) fn told(policy: Policy) -> Self {
        Self { is_told: true, ..Self::running(policy) }
    }

    /// The loop after these inputs.
    pub(super) fn after(mut self, inputs: impl IntoIterator<Item = Input>) -> Self {
        for input in inputs {
            self.feed(input);
        }
        self
    }

    pub(super) fn feed(&mut self, input: Input) -> Step {
        let mut step = self.feed_one(input);
        while !self.is_told {
            let looks = |effect: &Effect| matches!(effect, Effect::Examine | Effect::Recheck { .. });
            let Some(at) = step.effects.iter().position(looks) else { break };
            let answer = match step.effects.remove(at) {
                Effect::Examine => examined(),
                _ => rechecked(&[]),
            };
            let then = self.feed_one(answer);
            step.events.extend(then.events);
            step.effects.extend(then.effects);
        }
        step
    }

    fn feed_one(&mut self, input: Input) -> Step {
        let step = decide(&self.state, input);
        for event in &step.events {
            self.state.apply(event);
        }
        self.journal.extend(step.events.iter().cloned());
        self.starts += u32::try_from(prompts(&step).len()).unwrap();
        assert_eq!(LoopState::fold(&self.journal), self.state, "the journal folds to the state");
        step
    }

    /// The things to do that follow, messages left out.
    pub(super) fn work(&mut self, input: Input) -> Vec<Effect> {
        work(&self.feed(input))
    }

    /// Runs on until the loop is over: agents exit 1, checks are red, no agent waits.
    pub(super) fn run_out(mut self) -> Self {
        for _ in 0..1000 {
            let input = match self.state.phase {
                Phase::Over { .. } => return self,
                Phase::New | Phase::Paused { .. } => {
                    panic!("{:?} does not go on by itself", self.state.phase)
                }
                Phase::AwaitingTasks => Input::TasksLookedAt { missing: vec![] },
                Phase::Looking | Phase::Delaying => no_markers(),
                Phase::Parked(_) => Input::ParkOver,
                Phase::Running => exits(1),
                Phase::Judging(JudgeStep::Children { .. }, _) => no_children(),
                Phase::Judging(..) | Phase::Checking { .. } => gate(1),
            };
            self.feed(input);
        }
        panic!("it never ends: {:?}", self.state.phase);
    }

    pub(super) fn over(&self) -> Option<Reason> {
        self.state.over()
    }

    /// The last line of its journal, if that is an end.
    pub(super) fn detail(&self) -> &str {
        match self.journal.last() {
            Some(LoopEvent::LoopFinished { detail, .. }) => detail,
            other => panic!("not an end: {other:?}"),
        }
    }

    /// Its refusals, and in which words.
    pub(super) fn refusals(&self) -> Vec<(RefusalReason, &str)> {
        self.state.refusals.iter().map(|refused| (refused.reason, refused.detail.as_str())).collect()
    }

    /// How often an event of this name is in its journal.
    pub(super) fn times(&self, name: &str) -> usize {
        names(&self.journal).iter().filter(|n| *n == name).count()
    }

    /// What the iterations came to.
    pub(super) fn outcomes(&self) -> Vec<(u32, IterationOutcome)> {
        let finished = |event: &LoopEvent| match event {
            LoopEvent::IterationFinished { iteration, outcome, .. } => Some((*iteration, *outcome)),
            _ => None,
        };
        self.journal.iter().filter_map(finished).collect()
    }
}

pub(super) fn work(step: &Step) -> Vec<Effect> {
    step.effects.iter().filter(|effect| !matches!(effect, Effect::Post(_))).cloned().collect()
}

/// The messages that follow: kind and body.
pub(super) fn posts(step: &Step) -> Vec<(&'static str, &str)> {
    let posts = step.effects.iter().filter_map(|effect| match effect {
        Effect::Post(post) => Some((post.kind, post.body.as_str())),
        _ => None,
    });
    posts.collect()
}

/// The prompts of the agents that are started.
pub(super) fn prompts(step: &Step) -> Vec<&str> {
    let prompts = step.effects.iter().filter_map(|effect| match effect {
        Effect::StartAgent { prompt, .. } => Some(prompt.as_str()),
        _ => None,
    });
    prompts.collect()
}

/// The names of the events, as scripts know them.
pub(super) fn names(events: &[LoopEvent]) -> Vec<String> {
    let name = |event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
    events.iter().map(name).collect()
}

pub(super) fn finished(reason: Reason, detail: &str, iterations: u32) -> LoopEvent {
    LoopEvent::LoopFinished {
        state: reason.state(),
        reason,
        detail: detail.to_owned(),
        exit_code: reason.exit_code(),
        iterations,
    }
}

/// A loop in every phase it can be alive in.
pub(super) fn in_every_phase() -> Vec<(&'static str, Sim)> {
    let full = || {
        policy(|p| {
            p.gates.specs = vec![GateSpec::of_command("g")];
            p.claims.until = vec!["u".into()];
        })
    };
    let running = || Sim::running(full());
    let told = || Sim::told(policy(|p| p.items[0].commit = Some(CommitRule { message: None })));
    let after = LoopStarted { after: vec![task_id("first")], ..started(full()) };
    vec![
        ("awaiting", Sim::begun(after)),
        ("baseline", Sim::new(full().with(|p| p.gates.baseline = true))),
        ("looking", Sim::new(full())),
        ("running", running()),
        ("until", running().after([exits(0)])),
        ("children", running().after([promises(0)])),
        ("examining", told().after([promises(0), no_children()])),
        ("gate", running().after([promises(0), no_children()])),
        ("rechecking", told().after([promises(0), no_children(), examined()])),
        ("committing", told().after([promises(0), no_children(), examined(), rechecked(&[])])),
        ("delaying", running().after([exits(0), gate(1)])),
        ("parked", running().after([ends_by(Outcome::UsageLimit)])),
        ("paused", running().after([PAUSE, exits(0), gate(1)])),
    ]
}

/// How the loop of `parked` waits.
pub(super) fn parks() -> Effect {
    let until = Timestamp::UNIX_EPOCH.checked_add(PROBE_EVERY.std()).unwrap();
    Effect::Park { until }
}

/// The iterations that were charged.
pub(super) fn charged(sim: &Sim) -> u32 {
    sim.state.charged()
}

/// Whether a process of the loop runs in that phase, which has to be stopped before the loop is over.
pub(super) fn has_process(name: &str) -> bool {
    matches!(name, "baseline" | "running" | "until" | "gate")
}

/// Whether a claim is being judged in that phase.
pub(super) fn has_claim(name: &str) -> bool {
    matches!(name, "children" | "examining" | "gate" | "rechecking" | "committing")
}

/// How the process that runs in that phase reports its end when it is stopped.
pub(super) fn process_ends(name: &str) -> Input {
    if name == "running" { killed() } else { gate(-1) }
}
