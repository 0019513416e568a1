//! A world that answers in any order, fails, crashes and is asked things.

use std::collections::BTreeMap;

use super::{
    super::{
        AgentReport, Begin, Effect, Input, LoopState, Phase, Recheck, Request, SharedSpend, StartFailure,
        Supply, decide,
        decide_tests::{
            NOTHING, agent_exit, base, examination, gate_result, items::task_set, policy, resume, seal,
            started,
        },
    },
    Chance,
    audit::Auditor,
    items::{some_evidence, with_items},
};
use crate::{
    agent::AgentCommand,
    duration::Millis,
    event::{Examination, Grant, LoopEvent, LoopStarted, Outcome, OutputMarks, Reason, Spend, StopCause},
    item::ItemKey,
    judge::{
        evidence::verify_claim,
        expectation::{Expectation, FoundWords},
        promise::MissReason,
        signal::{DoneFact, Facts},
    },
    policy::{CommitRule, GateFrom, GateSpec, OnFatal, Policy},
    unit::{TaskStatus, items::statuses},
};

/// Something under way that will be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Tasks,
    Markers,
    Agent { stopped: bool },
    Check { stopped: bool },
    Children,
    Examine,
    Recheck,
    Commit { iteration: u32 },
    ItemCommits,
    Delay,
    Park,
}

/// A supervisor, its disk and its agents.
pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) policy: Policy,
    pub(super) state: LoopState,
    pub(super) journal: Vec<LoopEvent>,
    pub(super) auditor: Auditor,
    pending: Vec<Pending>,
    done: DoneFact,
    wait_marker: bool,
    words: u32,
    /// The workspace's tree; `None` where it cannot be looked at.
    tree: Option<usize>,
    /// The commits of dacapo itself, by the iteration whose work they hold.
    commits: BTreeMap<u32, String>,
    /// What the files of tasks say.
    pub(super) tasks: BTreeMap<u32, TaskStatus>,
    /// The commits of items that were asked for last, and how many of them were made.
    pub(super) asked: (Vec<(ItemKey, String)>, usize),
    /// Providers at their limit.
    closed: BTreeMap<usize, (jiff::Timestamp, String)>,
    /// What agents have cost, and the newest of them.
    spent: f64,
    attempt_cost: f64,
    /// Whether the world is calm: no person asks, no process crashes or meddles any more.
    is_calm: bool,
    /// Whether its journal begins with the loop, and not where a prefix was cut off.
    is_whole: bool,
}

impl World {
    pub(super) fn new(mut chance: Chance, max_iterations: u32) -> Self {
        // The number is looked at and none is drawn, so that the histories of all other seeds stay what they were.
        let may_refuse = chance.0.is_multiple_of(7);
        let expects_words = chance.0.is_multiple_of(5);
        let policy = policy(|p| {
            p.limits.max_iterations = max_iterations;
            p.gates.specs =
                (0..chance.of(&[0, 0, 1, 2])).map(|i| GateSpec::of_command(["a", "a"][i])).collect();
            p.claims.until = (0..chance.of(&[0, 0, 0, 1, 2])).map(|i| ["u", "u"][i].to_owned()).collect();
            p.limits.max_time = chance.percent(15).then_some(Millis(20_000));
            p.pace.restart_delay = chance.of(&[Millis(0), Millis(1000)]);
            p.agent.fatal = chance.of(&[OnFatal::Stop, OnFatal::Restart]);
            p.claims.done_file = chance.percent(90);
            p.claims.refusals = may_refuse.then(|| "NO".to_owned()).into_iter().collect();
            p.gates.feedback = chance.percent(80);
            for gate in &mut p.gates.specs {
                gate.retries = chance.of(&[0, 0, 1]);
                if expects_words {
                    gate.expect = Expectation {
                        exit_code: 1,
                        output_contains: Some("ok".to_owned()),
                        output_not_contains: Some("skipped".to_owned()),
                    };
                }
            }
            p.gates.baseline = chance.percent(20);
            p.gates.tolerate_baseline = chance.percent(10);
            p.gates.red_first = chance.percent(10);
            p.claims.allow_empty = chance.percent(20);
            p.gates.from = chance.of(&[GateFrom::Workspace, GateFrom::Workspace, GateFrom::Base]);
            p.items[0].commit = chance.percent(40).then_some(CommitRule { message: None });
            p.items[0].evidence = some_evidence(&mut chance);
            p.limits.stuck_after = chance.percent(15).then_some(2);
            p.limits.max_cost = chance.percent(20).then_some(3.0);
            p.agent.continue_session = chance.percent(30);
            if chance.percent(40) {
                p.agent.fallback = vec![AgentCommand::parse("stand-in", &[]).unwrap()];
            }
        });
        let policy = with_items(policy, &mut chance);
        let done = if chance.percent(5) { DoneFact::File } else { DoneFact::Absent };
        let wait_marker = chance.percent(5);
        let tree = chance.percent(90).then_some(0);
        Self {
            chance,
            policy,
            state: LoopState::default(),
            journal: vec![],
            auditor: Auditor::default(),
            pending: vec![],
            done,
            wait_marker,
            words: 0,
            tree,
            commits: BTreeMap::new(),
            tasks: task_set().tasks.iter().map(|task| (task.spec.number, task.status)).collect(),
            asked: (vec![], 0),
            closed: BTreeMap::new(),
            spent: 0.0,
            attempt_cost: 0.0,
            is_calm: false,
            is_whole: true,
        }
    }

    /// The world in which dacapo died when its journal said this, and no more.
    pub(super) fn of_prefix(state: LoopState, journal: &[LoopEvent], policy: Policy) -> Self {
        let mut auditor = Auditor::default();
        journal.iter().for_each(|event| auditor.read(event));
        let tree = state.started.as_ref().and_then(|started| started.base.as_ref()).map(|_| 1);
        Self {
            chance: Chance(journal.len() as u64),
            policy,
            state,
            journal: vec![],
            auditor,
            pending: vec![],
            done: DoneFact::Absent,
            wait_marker: false,
            words: 0,
            tree,
            commits: BTreeMap::new(),
            tasks: task_set().tasks.iter().map(|task| (task.spec.number, task.status)).collect(),
            asked: (vec![], 0),
            closed: BTreeMap::new(),
            spent: 0.0,
            attempt_cost: 0.0,
            is_calm: true,
            is_whole: false,
        }
    }

    /// A whole life: a stretch, perhaps a resume, another stretch.
    pub(super) fn live(&mut self) {
        let after = if self.chance.percent(15) { vec!["first".parse().unwrap()] } else { vec![] };
        let base = self.tree.map(|_| base());
        let started = LoopStarted { after, base, ..started(self.policy.clone()) };
        self.feed(Input::Begin(Box::new(Begin { started, warnings: vec![] })));
        for _ in 0..6 {
            self.stretch();
            let reason = self.state.over().expect("a stretch ends");
            if self.chance.percent(30) {
                self.meddle();
            }
            if self.chance.percent(if reason.is_resumable() { 15 } else { 90 }) {
                break;
            }
            self.resume();
        }
    }

    /// Runs until the loop is over; from some time on the world does not disturb it.
    fn stretch(&mut self) {
        let wild = self.chance.below(80);
        for _ in 0..wild {
            if self.state.over().is_some() {
                return;
            }
            match self.chance.below(100) {
                0..=79 => self.answer(),
                80..=93 => self.meddle(),
                94..=96 => self.crash(),
                _ => self.lose_effects(),
            }
        }
        self.calm_down();
    }

    /// The world does not disturb the loop any more: it must end soon.
    fn calm_down(&mut self) {
        self.is_calm = true;
        let checks = self.policy.gates.specs.len() + self.policy.claims.until.len();
        // Each check may be tried twice, and each gate runs before the first agent too.
        let bound = (self.state.limits.max_iterations as usize + 1) * (2 * checks + 12) + checks + 8;
        for _ in 0..bound {
            if self.state.over().is_some() {
                self.is_calm = false;
                return;
            }
            self.answer();
        }
        panic!("it does not end: {:?}", self.state.phase);
    }

    fn is_paused(&self) -> bool {
        matches!(self.state.phase, Phase::Paused { .. })
    }

    /// Answers something that is under way; a paused loop is told to go on.
    fn answer(&mut self) {
        if self.pending.is_empty() || (self.is_paused() && self.chance.percent(50)) {
            assert!(self.is_paused(), "a loop that is alive waits for something");
            return self.feed(Input::Requested(Request::Unpause { grant: NOTHING }));
        }
        let at = self.chance.below(self.pending.len());
        let input = match self.pending[at] {
            Pending::Tasks if !self.is_calm && self.chance.percent(40) => {
                return self.feed(Input::TasksLookedAt { missing: vec!["first".parse().unwrap()] });
            }
            Pending::Tasks => Input::TasksLookedAt { missing: vec![] },
            Pending::Markers => self.markers(),
            Pending::Agent { .. } if self.chance.percent(5) => self.not_started(),
            Pending::Agent { .. } if !self.is_calm && self.chance.percent(20) => {
                let seen = self.usage_seen();
                return self.feed(seen);
            }
            Pending::Agent { stopped } => self.agent_ends(stopped),
            Pending::Check { stopped } => self.check_ends(stopped),
            Pending::Children if !self.is_calm && self.chance.percent(20) => {
                return self.feed(Input::ChildrenFound(vec!["child".parse().unwrap()]));
            }
            Pending::Children => self.children_end(),
            Pending::Examine => self.examined(),
            Pending::Recheck => self.rechecked(),
            Pending::Commit { iteration } => self.commit_done(iteration),
            Pending::ItemCommits => self.items_committed(),
            Pending::Delay => Input::DelayOver,
            Pending::Park => Input::ParkOver,
        };
        self.pending.remove(at);
        self.feed(input);
    }

    /// A person, a signal, a disk, or an input that the loop does not wait for.
    fn meddle(&mut self) {
        let cause = self.chance.of(&[StopCause::Interrupt, StopCause::Terminate, StopCause::Hangup]);
        let input = match self.chance.below(100) {
            0..=24 => {
                self.words += 1;
                Input::Requested(Request::Steer { text: format!("[word {}]", self.words) })
            }
            25..=34 => Input::Requested(Request::Pause { now: false }),
            35..=44 => Input::Requested(Request::Pause { now: true }),
            45..=50 => Input::Requested(Request::Unpause { grant: Grant { extra_iterations: 1, ..NOTHING } }),
            51..=58 => Input::Requested(Request::Unpause { grant: NOTHING }),
            59..=61 => Input::Requested(Request::Cancel),
            62..=65 => Input::Signalled(cause),
            66 => Input::DiskFailed("full".into()),
            67 => Input::ParkOver,
            68 if self.is_busy() => self.usage_seen(),
            // Late, stray and doubled news. An end of the very process that runs could not be told from its own.
            69..=70 => Input::DelayOver,
            71..=72 if !self.pending.contains(&Pending::Recheck) => self.rechecked(),
            73..=74 if !self.pending.iter().any(|p| matches!(p, Pending::Commit { .. })) => {
                self.commit_done(self.state.counters.iterations)
            }
            75..=76 if !matches!(self.state.phase, Phase::Judging(..)) => self.examined(),
            77..=81 => self.markers(),
            82..=84 => Input::TasksLookedAt { missing: vec![] },
            85..=88 => self.children_end(),
            89..=90 => Input::ChildrenFound(vec![]),
            91..=92 if !self.is_busy() => self.agent_ends(false),
            93..=94 if !self.is_busy() => self.not_started(),
            95..=97 if !self.is_busy() => self.check_ends(false),
            98 if self.state.over().is_none() => resume(),
            _ => Input::Begin(Box::new(Begin { started: started(self.policy.clone()), warnings: vec![] })),
        };
        self.feed(input);
    }

    /// The supervisor is killed; everything that was under way is gone. Another dacapo finds the
    /// dead loop, and perhaps a person resumes it.
    fn crash(&mut self) {
        self.pending.clear();
        self.feed(Input::OwnerDied);
        assert!(self.state.over().is_some(), "a dead loop is over");
        self.feed(Input::OwnerDied);
        if self.chance.percent(70) {
            self.resume();
        }
    }

    /// What follows from the next answer is recorded, and the supervisor is killed before all of it is done.
    fn lose_effects(&mut self) {
        let Some(pending) = self.pending.pop() else { return self.crash() };
        let input = match pending {
            Pending::Tasks => Input::TasksLookedAt { missing: vec![] },
            Pending::Markers => self.markers(),
            Pending::Agent { stopped } => self.agent_ends(stopped),
            Pending::Check { stopped } => self.check_ends(stopped),
            Pending::Children => self.children_end(),
            Pending::Examine => self.examined(),
            Pending::Recheck => self.rechecked(),
            Pending::Commit { iteration } => self.commit_done(iteration),
            Pending::ItemCommits => self.items_committed(),
            Pending::Delay => Input::DelayOver,
            Pending::Park => Input::ParkOver,
        };
        self.feed_and_do(input, true);
        match self.state.over() {
            None => self.crash(),
            Some(_) => self.pending.clear(),
        }
    }

    fn resume(&mut self) {
        if !self.state.over().is_some_and(Reason::is_resumable) {
            return;
        }
        self.pending.clear();
        if !matches!(self.done, DoneFact::File) && self.chance.percent(50) {
            self.done = DoneFact::Absent;
        }
        let max_time = self.chance.percent(50).then(|| self.state.counters.spent.plus(Millis(3000)));
        let extra_iterations = self.chance.of(&[0, 0, 1, 2]);
        let grant = Grant {
            extra_iterations,
            max_time_ms: max_time,
            max_cost: self.chance.percent(50).then_some(self.spent + 3.0),
            max_tokens: None,
            ..Grant::default()
        };
        self.feed(Input::Resume { grant, output: OutputMarks::default(), pid: 8 });
        assert_eq!(self.state.over(), None, "what is resumable is resumed");
    }

    fn feed(&mut self, input: Input) {
        self.feed_and_do(input, false);
    }

    /// Decides, records all of it, and does all of it or only what comes before a crash.
    fn feed_and_do(&mut self, input: Input, crashes: bool) {
        let shown = format!("{input:?}");
        let was = self.state.over();
        let step = decide(&self.state, input);
        for event in &step.events {
            self.auditor.read(event);
            self.state.apply(event);
        }
        self.journal.extend(step.events);
        assert_eq!(self.state.over(), self.auditor.over, "after {shown}");
        if self.is_whole {
            assert_eq!(LoopState::fold(&self.journal), self.state, "the journal folds to the state: {shown}");
        }
        let done = if crashes { self.chance.below(step.effects.len() + 1) } else { step.effects.len() };
        let ended = was.is_none() && self.state.over().is_some();
        for effect in &step.effects[..done] {
            self.perform(effect);
        }
        if ended && !crashes {
            if self.state.over() == Some(Reason::Disk) {
                self.pending.retain(|p| !matches!(p, Pending::Agent { .. } | Pending::Check { .. }));
            }
            assert!(!self.is_busy(), "nothing runs when it is over: {shown}");
            // Who is found dead, or has no disk, does nothing any more.
            if !matches!(self.state.over(), Some(Reason::Disk | Reason::Interrupted)) {
                self.no_item_is_falsely_done();
            }
        }
    }

    fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::AwaitTasks { .. } => self.pending.push(Pending::Tasks),
            Effect::ReadMarkers => self.pending.push(Pending::Markers),
            Effect::StartAgent { iteration, prompt, .. } => {
                assert!(!self.is_busy(), "one agent at a time");
                assert!(
                    self.done != DoneFact::File
                        || !self.policy.claims.done_file
                        || !self.policy.hears_promises(),
                    "no agent starts beside a DONE"
                );
                self.auditor.prompted(*iteration, prompt);
                self.spent += std::mem::take(&mut self.attempt_cost);
                self.pending.push(Pending::Agent { stopped: false });
            }
            Effect::StopWork { .. } => {
                for pending in &mut self.pending {
                    if let Pending::Agent { stopped } | Pending::Check { stopped } = pending {
                        *stopped = true;
                    }
                }
            }
            Effect::AwaitChildren { .. } => self.pending.push(Pending::Children),
            Effect::RunGate { .. } => {
                assert!(!self.is_busy(), "one check at a time, and no agent beside it");
                self.pending.push(Pending::Check { stopped: false });
            }
            Effect::TryGates { .. } => panic!("no policy here asks for it"),
            Effect::Examine => self.pending.push(Pending::Examine),
            Effect::Recheck { snapshot } => {
                assert_eq!(snapshot.is_some(), self.tree.is_some(), "what was looked at is looked at again");
                self.pending.push(Pending::Recheck);
            }
            Effect::Commit { iteration, .. } => {
                // Found again by its iteration, however often it is asked for.
                self.commits.entry(*iteration).or_insert_with(|| format!("commit of {iteration}"));
                self.pending.push(Pending::Commit { iteration: *iteration });
            }
            Effect::Delay(_) => self.pending.push(Pending::Delay),
            Effect::Park { .. } => self.pending.push(Pending::Park),
            Effect::CloseProvider { agent, until, why } => {
                self.closed.insert(*agent, (*until, why.clone()));
            }
            Effect::SetDoneAside => self.done = DoneFact::Absent,
            Effect::ConsumeWaitMarker => self.wait_marker = false,
            Effect::SetMarks { of, done } => self.tasks.extend(statuses(&task_set(), of, done)),
            Effect::CommitItems { iteration, commits, .. } => {
                let name = |item| format!("commit of {iteration} for {item}");
                let asked: Vec<_> = commits.iter().map(|commit| (commit.item, name(commit.item))).collect();
                self.auditor.commits_items(commits);
                let fails = !self.is_calm && self.chance.percent(20);
                let made = if fails { self.chance.below(asked.len()) } else { asked.len() };
                self.asked = (asked, made);
                self.pending.push(Pending::ItemCommits);
            }
            Effect::AskProviders => self.closed.clear(),
            Effect::CancelChildren | Effect::Post(_) | Effect::AwaitRecovery { .. } => {}
        }
    }

    fn is_busy(&self) -> bool {
        self.pending.iter().any(|p| matches!(p, Pending::Agent { .. } | Pending::Check { .. }))
    }

    fn markers(&mut self) -> Input {
        // A person may touch DONE while no agent works.
        if self.state.phase == Phase::Delaying && self.chance.percent(5) {
            self.done = DoneFact::File;
        }
        let facts = Facts { done: self.done.clone(), wait_marker: self.wait_marker, ..Facts::default() };
        // A limit ends, some time.
        if self.is_calm || self.chance.percent(40) {
            self.closed.clear();
        }
        let supply = Supply { closed: self.closed.clone(), ..Supply::default() };
        Input::MarkersRead(facts, Box::new(supply))
    }

    /// The running agent has used up more.
    fn usage_seen(&mut self) -> Input {
        self.attempt_cost += self.chance.of(&[0.25, 1.0]);
        let spend = Spend { usage: None, cost_usd: Some(self.attempt_cost), estimated: false };
        Input::UsageSeen { spend, shared: SharedSpend::default(), model: None, is_unpriced: false }
    }

    fn agent_ends(&mut self, stopped: bool) -> Input {
        let code = self.chance.of(&[0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 137, 42]);
        let mut exit = agent_exit(code);
        exit.duration_ms = Millis(self.chance.of(&[0, 1, 1000, 7000]));
        if self.chance.percent(1) {
            exit.duration_ms = Millis(u64::MAX); // fault F10
        }
        exit.outcome = match self.chance.below(10) {
            _ if stopped && self.chance.percent(80) => Outcome::Killed,
            0 => self.chance.of(&[
                Outcome::Timeout,
                Outcome::Hang,
                Outcome::OutOfTime,
                Outcome::Crash,
                Outcome::MaxTurns,
            ]),
            1 if !self.is_calm => self.chance.of(&[
                Outcome::UsageLimit,
                Outcome::UsageLimit,
                Outcome::RateLimit,
                Outcome::Overload,
                Outcome::Network,
                Outcome::Auth,
                Outcome::Billing,
                Outcome::Context,
                Outcome::Permission,
                Outcome::Misuse,
            ]),
            _ => Outcome::Completed,
        };
        exit.session = self.chance.percent(60).then(|| "session".to_owned());
        exit.cost_usd = (self.attempt_cost > 0.0).then_some(self.attempt_cost);
        if exit.outcome != Outcome::Completed {
            (exit.exit_code, exit.signal) = (None, Some(15));
        }
        // Its process is the only one that writes in the task folder.
        if self.is_busy() || self.state.phase == Phase::Running {
            let link = DoneFact::NotAFile("symlink");
            self.done = match self.chance.below(40) {
                0..=3 => DoneFact::File,
                4 => link,
                5 if self.chance.percent(50) => DoneFact::Directory,
                6 if self.chance.percent(30) => DoneFact::Unreadable("denied".into()),
                _ => self.done.clone(),
            };
            self.wait_marker |= self.chance.percent(3);
        }
        let mut messages = vec![];
        if self.chance.percent(5) {
            messages.push(("QUESTION".to_owned(), "Which port?".to_owned()));
        }
        if self.chance.percent(3) {
            messages.push(("wait_without_restart".to_owned(), "b".to_owned()));
        }
        let facts = Facts {
            exit_code: exit.exit_code,
            promise: self.chance.percent(12).then(|| "DONE".to_owned()),
            near_miss: self.chance.percent(10).then_some(MissReason::NotAlone),
            blocked: self.chance.percent(4).then(|| "no key".to_owned()),
            blocked_near_miss: self.chance.percent(4).then_some(MissReason::InCode),
            refusal: (!self.policy.claims.refusals.is_empty() && self.chance.percent(15))
                .then(|| "NO: it leaks".to_owned()),
            done: self.done.clone(),
            wait_marker: self.wait_marker,
            messages,
            items: self.look_at_items(),
        };
        if let Some(tree) = &mut self.tree {
            // It changes something, changes it back, or lets it be.
            *tree = self.chance.of(&[*tree, 0, 1, *tree + 1]);
        }
        let snapshot = self.tree.map(|tree| (format!("snap {tree}"), format!("tree {tree}")));
        // Where there are no snapshots, files are known by their outline, if at all.
        let outline = match self.tree {
            None => self.chance.of(&[None, Some("one file".to_owned()), Some("two files".to_owned())]),
            Some(_) => None,
        };
        let warnings = if self.chance.percent(3) { vec!["10,000 files".to_owned()] } else { vec![] };
        Input::AgentExited(Box::new(AgentReport {
            at: jiff::Timestamp::UNIX_EPOCH,
            exit,
            facts,
            snapshot,
            outline,
            warnings,
            stderr: self.chance.of(&["", "", "no such option"]).to_owned(),
        }))
    }

    fn not_started(&mut self) -> Input {
        let is_fatal = self.chance.percent(30);
        Input::AgentNotStarted(StartFailure { detail: "cannot start".into(), is_fatal })
    }

    fn check_ends(&mut self, stopped: bool) -> Input {
        let code = if stopped { -1 } else { self.chance.of(&[0, 0, 1]) };
        let mut result = gate_result(code);
        if self.policy.gates.specs.iter().any(|gate| !gate.expect.is_default()) {
            result.found = FoundWords {
                printed_wanted: Some(self.chance.percent(80)),
                printed_forbidden: Some(self.chance.percent(20)),
            };
        }
        Input::GateFinished(Box::new(result))
    }

    fn children_end(&mut self) -> Input {
        let left = if self.chance.percent(20) { vec!["child".parse().unwrap()] } else { vec![] };
        Input::ChildrenWaitedFor { left, waited: Millis(self.chance.of(&[0, 0, 500, 300_000])) }
    }

    fn examined(&mut self) -> Input {
        let Some(tree) = self.tree else { return Input::Examined(None) };
        if self.chance.percent(2) {
            return Input::ExaminationFailed("no git".into());
        }
        let by = self.state.judging().map(|judging| judging.claim.by.clone()).unwrap_or_default();
        let words = self.chance.of(&["", "committed", "committed, 3 passed, approved"]);
        let head_moved = self.chance.of(&[None, None, Some(true), Some(false)]);
        let found = Examination {
            missing_evidence: verify_claim(&self.policy, &by, words, head_moved).missing,
            snapshot: format!("snap {tree}"),
            tree: format!("tree {tree}"),
            changed: u64::from(tree > 0),
            tampered: if self.chance.percent(10) { vec!["tests/a.rs".into()] } else { vec![] },
            commits: self.commits.values().cloned().collect(),
            contradiction: self.chance.percent(10).then(|| "TODO: the rest".to_owned()),
            ..examination()
        };
        Input::Examined(Some(Box::new(found)))
    }

    fn rechecked(&mut self) -> Input {
        if self.chance.percent(2) {
            return Input::ExaminationFailed("no git".into());
        }
        let disturbed = if self.chance.percent(10) { vec!["src/lib.rs".into()] } else { vec![] };
        Input::Rechecked(Recheck { disturbed, seal: seal() })
    }

    fn commit_done(&mut self, iteration: u32) -> Input {
        let commit = self.commits.get(&iteration).cloned();
        let result = if self.chance.percent(5) { Err("locked".to_owned()) } else { Ok(commit) };
        Input::CommitDone(result, seal())
    }

    /// dacapo is found dead, the loop is resumed and comes to an end.
    pub(super) fn recover(&mut self) {
        // Cut between an accepted claim and the end of its loop it is not known as done: a step is appended whole.
        self.auditor.forget_torn_end();
        if self.state.over().is_none() {
            self.feed(Input::OwnerDied);
        }
        let reason = self.state.over().expect("a dead loop is over");
        if !reason.is_resumable() {
            return;
        }
        let iterations = self.state.counters.iterations;
        self.feed(resume());
        self.calm_down();
        assert!(self.state.counters.iterations >= iterations, "no counter goes back");
    }
}
