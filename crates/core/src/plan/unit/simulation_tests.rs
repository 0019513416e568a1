//! Random nights: runs of units whose jobs follow their plans in a world of git, agents and crashes, and what must hold
//! anyway. The schedule and the plans are real; everything around them is made up.
//!
//! `DACAPO_SIM_TIMES=20` runs twenty times as many of them, `DACAPO_SIM_SEED=42` replays one.

use std::collections::VecDeque;

use super::{
    decide_tests::{brief, check, loop_end, task},
    rules::ChainCommit,
    *,
};
use crate::{
    chance_tests::{Chance, for_seeds},
    event::{PlannedUnit, Reason, RunStarted, StopCause},
    machine::Machine,
    plan::{LoopProof, Purpose},
    unit::{
        items::turn_of,
        schedule::{self, RunEffect, RunInput, RunState, UnitStanding},
    },
};

const NIGHTS: u64 = 120;

/// A commit: what it holds, itself included, and its parents.
#[derive(Clone, Debug, Default)]
struct Commit {
    holds: BTreeSet<String>,
    parents: Vec<String>,
}

/// What outlives a crash: the repository, and what loops have recorded.
#[derive(Clone)]
struct Ground {
    chance: Chance,
    /// Whether nothing goes wrong any more.
    is_lucky: bool,
    commits: BTreeMap<String, Commit>,
    target: String,
    /// Where merges wait while the target cannot be moved.
    waiting: Option<String>,
    units: BTreeMap<UnitId, UnitGround>,
    /// Trees that passed everything that must hold.
    green: BTreeSet<String>,
    /// Units in the order in which the target, or what waits for it, got them.
    landed: Vec<UnitId>,
    seen: BTreeSet<String>,
}

/// What a unit has in the repository.
#[derive(Clone, Default)]
struct UnitGround {
    branch: Option<String>,
    is_set_up: bool,
    receipts: Vec<(Vec<u32>, String)>,
    statuses: BTreeMap<u32, TaskStatus>,
    /// The newest loop in the unit's worktree, if it has no end yet: what it is for, its tasks, where its changes count from.
    cut: Option<(Purpose, Option<TaskSet>, String)>,
    /// The tree in the scratch worktree.
    laid_out: String,
    /// Whether a person took commits off the unit's branch while no loop of the unit ran: then work may be done again.
    is_robbed: bool,
    /// How often a task was proven.
    proven: BTreeMap<u32, u32>,
}

const TASKS: u32 = 2;

fn tree_of(tip: &str, head: &str) -> String {
    format!("{tip}+{head}")
}

impl Ground {
    fn new(chance: Chance, units: usize) -> Self {
        let mut commits = BTreeMap::new();
        commits.insert("t0".to_owned(), Commit { holds: ["t0".to_owned()].into(), parents: Vec::new() });
        let units = (0..units).map(|n| (format!("u{n}").parse().unwrap(), UnitGround::default())).collect();
        Self {
            chance,
            is_lucky: false,
            commits,
            target: "t0".to_owned(),
            waiting: None,
            units,
            green: BTreeSet::new(),
            landed: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Something that happens in so many of a hundred cases.
    fn happens(&mut self, percent: usize) -> bool {
        !self.is_lucky && self.chance.percent(percent)
    }

    fn tip(&self) -> String {
        self.waiting.clone().unwrap_or_else(|| self.target.clone())
    }

    fn holds(&self, commit: &str, what: &str) -> bool {
        self.commits[commit].holds.contains(what)
    }

    fn commit(&mut self, parents: &[&str], what: &[String]) -> String {
        let id = format!("c{}", self.commits.len());
        let mut holds: BTreeSet<String> =
            parents.iter().flat_map(|parent| self.commits[*parent].holds.clone()).collect();
        holds.extend(what.iter().cloned());
        holds.insert(id.clone());
        let parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
        self.commits.insert(id.clone(), Commit { holds, parents });
        id
    }

    fn has_task(&self, commit: &str, unit: &UnitId, number: u32) -> bool {
        self.holds(commit, &format!("{unit}#{number}"))
    }

    fn has_unit(&self, commit: &str, unit: &UnitId) -> bool {
        (1..=TASKS).all(|number| self.has_task(commit, unit, number))
    }

    fn tasks_at(&self, commit: &str, unit: &UnitId) -> Vec<Task> {
        let status = |number| match self.has_task(commit, unit, number) {
            true => TaskStatus::Complete,
            false => TaskStatus::Pending,
        };
        (1..=TASKS).map(|number| task(number, status(number))).collect()
    }

    fn must_hold(&self) -> MustHold {
        let tasks = (1..=TASKS).map(|number| task(number, TaskStatus::Pending).spec).collect();
        MustHold { tasks, others: Vec::new(), checks: vec![check()] }
    }

    fn unit(&mut self, unit: &UnitId) -> &mut UnitGround {
        self.units.get_mut(unit).unwrap()
    }

    fn head(&self, unit: &UnitId) -> String {
        self.units[unit].branch.clone().expect("a branch")
    }

    /// The newest commit that the target and `head` have in common.
    fn base(&self, head: &str) -> String {
        let both = self.commits[head].holds.intersection(&self.commits[&self.tip()].holds);
        let commits = both.filter(|id| self.commits.contains_key(*id));
        commits.max_by_key(|id| self.commits[*id].holds.len()).expect("a common history").clone()
    }

    fn branch_facts(&self, unit: &UnitId) -> BranchFacts {
        let (tip, head) = (self.tip(), self.head(unit));
        let base = self.base(&head);
        let mut chain: Vec<ChainCommit> = Vec::new();
        let mut at = head.clone();
        while !self.holds(&base, &at) {
            let parents = self.commits[&at].parents.clone();
            chain.push((at, parents.clone()));
            at = parents[0].clone();
        }
        let own = |_: &str, _: &str, second: &str| Ok::<bool, ()>(self.holds(&tip, second));
        let (proven, accepted) = accepted(&base, &chain, self.units[unit].receipts.clone(), own).unwrap();
        BranchFacts { branch: unit.to_string(), tip, base, head, proven, accepted }
    }

    fn cut(&self, unit: &UnitId) -> Option<CutFacts> {
        let (purpose, tasks, _) = self.units[unit].cut.clone()?;
        let cut = CutLoop {
            id: "l1".parse().unwrap(),
            purpose: Some(purpose),
            tasks,
            is_mid_iteration: true,
            unheard: Vec::new(),
        };
        Some(CutFacts { cut, must_hold: Some(self.must_hold()) })
    }

    fn take_commits_off(&mut self, unit: &UnitId) {
        let head = self.head(unit);
        self.unit(unit).branch = Some(self.base(&head));
    }

    /// Others, and agents, do what they please.
    fn world_turns(&mut self) {
        if self.happens(4) {
            // A person commits to the target.
            let target = self.target.clone();
            if self.waiting.is_none() {
                self.target = self.commit(&[&target], &[]);
            }
        }
        let units: Vec<UnitId> = self.units.keys().cloned().collect();
        let unit = self.chance.of(&units);
        if self.units[&unit].branch.is_some() && self.happens(3) {
            // An agent of another unit takes the commits off the branch.
            self.take_commits_off(&unit);
            self.unit(&unit).is_robbed = true;
        }
        if self.happens(3) {
            let number = u32::try_from(self.chance.below(2)).unwrap() + 1;
            let status = self.chance.of(&[TaskStatus::Complete, TaskStatus::Failed, TaskStatus::InProgress]);
            self.unit(&unit).statuses.insert(number, status);
        }
    }

    /// Does what a worker would do, and says what it would answer.
    fn perform(&mut self, unit: &UnitId, effect: UnitEffect) -> Option<UnitInput> {
        self.world_turns();
        if self.happens(1) && !matches!(effect, UnitEffect::Tidy { .. }) {
            return Some(UnitInput::Failed { end: UnitEnd::Error, detail: "no".to_owned() });
        }
        Some(match effect {
            UnitEffect::MakeWorktree => {
                let base = self.tip();
                let ground = self.unit(unit);
                let is_new = ground.branch.is_none();
                ground.branch.get_or_insert_with(|| base.clone());
                let is_set_up = ground.is_set_up;
                let (path, branch) = ("/w".into(), unit.to_string());
                UnitInput::WorktreeMade(WorktreeFacts { path, branch, base, is_new, is_set_up })
            }
            UnitEffect::SetUp => UnitInput::SetUp(Ok(())),
            UnitEffect::RestoreBranch(restore) => {
                let commit = match restore {
                    Restore::Commit(commit) => Some(commit),
                    Restore::NewestProven => {
                        self.units[unit].receipts.last().map(|(_, commit)| commit.clone())
                    }
                };
                let head = self.head(unit);
                let lost = commit.filter(|commit| !self.holds(&head, commit));
                if let Some(commit) = &lost {
                    self.unit(unit).branch = Some(commit.clone());
                }
                UnitInput::BranchRestored(lost.map(|_| "put back".to_owned()))
            }
            UnitEffect::CompareWithTarget => {
                let (tip, head) = (self.tip(), self.head(unit));
                let base = Some(self.base(&head));
                let is_outdated = head != tip && self.happens(10);
                UnitInput::TargetCompared(TargetFacts {
                    tip,
                    head,
                    base,
                    is_outdated,
                    catch_up: String::new(),
                })
            }
            UnitEffect::FindCutLoop { head } => {
                UnitInput::CutLoopFound { cut: self.cut(unit), tasks: self.tasks_at(&head, unit) }
            }
            UnitEffect::TakeTarget(take) => self.take_target(unit, take),
            UnitEffect::Unstage | UnitEffect::SweepTaskFiles { .. } | UnitEffect::DropScratch => return None,
            UnitEffect::LookAtBranch => UnitInput::BranchSeen(self.branch_facts(unit)),
            UnitEffect::ReadTasks { commit } => UnitInput::TasksRead(self.tasks_at(&commit, unit)),
            UnitEffect::FindProofs { commit } => {
                let receipts = self.units[unit].receipts.iter();
                let held = receipts.filter(|(_, proof)| self.holds(&commit, proof));
                UnitInput::ProofsFound(held.flat_map(|(tasks, _)| tasks.clone()).collect())
            }
            UnitEffect::LookAtTasks { tasks, .. } => {
                let statuses = &self.units[unit].statuses;
                let status = |task: &Task| *statuses.get(&task.spec.number).unwrap_or(&task.status);
                UnitInput::TasksSeen { statuses: tasks.iter().map(status).collect(), cut: self.cut(unit) }
            }
            UnitEffect::SetStatuses { statuses, .. } => {
                self.unit(unit).statuses.extend(statuses);
                UnitInput::StatusesSet
            }
            UnitEffect::FindChecks => {
                let checks = if self.chance.percent(50) { vec![check()] } else { Vec::new() };
                UnitInput::ChecksFound(checks)
            }
            UnitEffect::FindMustHold { .. } => UnitInput::MustHoldFound(self.must_hold()),
            UnitEffect::RunLoop(..) | UnitEffect::ResumeLoop { .. } => unreachable!("loops take their time"),
            UnitEffect::MergeTrees => {
                let (tip, head) = (self.tip(), self.head(unit));
                let merged = match tree_of(&tip, &head) {
                    _ if self.holds(&tip, &head) => MergedTrees::Nothing,
                    tree if self.happens(15) => {
                        MergedTrees::Conflict { tree: format!("!{tree}"), paths: vec!["a".to_owned()] }
                    }
                    tree => MergedTrees::Clean { tree },
                };
                UnitInput::TreesMerged(MergeFacts { tip, head, branch: unit.to_string(), merged })
            }
            UnitEffect::LayOut { tree, .. } => {
                self.unit(unit).laid_out = tree;
                UnitInput::LaidOut(Ok(self.must_hold()))
            }
            UnitEffect::CommitMerge { tree, tip, head } => {
                assert!(self.green.contains(&tree), "{tree} was never checked");
                UnitInput::MergeCommitted(self.commit(&[&tip, &head], &[]))
            }
            UnitEffect::LookAtMerge { tip, .. } => {
                let proven = self.branch_facts(unit).proven;
                UnitInput::MergeSeen(MergeView {
                    proven,
                    tasks: self.tasks_at(&tip, unit),
                    changes: Vec::new(),
                })
            }
            UnitEffect::MoveTarget { commit } => UnitInput::TargetMoved(self.move_target(unit, commit)),
            UnitEffect::Tidy { .. } => {
                let is_removed = !self.happens(20);
                if is_removed {
                    let ground = self.unit(unit);
                    (ground.branch, ground.is_set_up, ground.cut) = (None, false, None);
                    ground.statuses.clear();
                }
                UnitInput::Tidied { removed: is_removed.then(|| "/w".into()), warnings: Vec::new() }
            }
            UnitEffect::LookAtRoute => UnitInput::RouteSeen {
                branch: unit.to_string(),
                changed: if self.happens(3) { vec!["url".to_owned()] } else { Vec::new() },
                remote: Some("origin".to_owned()),
            },
            UnitEffect::Push { .. } => UnitInput::Pushed,
            UnitEffect::OpenPullRequest => UnitInput::PullRequest(match self.happens(10) {
                true => PullRequestEnd::NoProgram,
                false => PullRequestEnd::Opened { url: "u".to_owned() },
            }),
        })
    }

    fn take_target(&mut self, unit: &UnitId, take: Take) -> UnitInput {
        let (tip, head) = (self.tip(), self.head(unit));
        UnitInput::TargetTaken(match take {
            _ if self.holds(&head, &tip) => TargetTaken::Nothing,
            _ if self.happens(5) => TargetTaken::Conflict,
            _ if self.happens(5) => TargetTaken::NotClean("a".to_owned()),
            Take::Forward => {
                assert!(self.holds(&tip, &head), "it has something of its own");
                self.unit(unit).branch = Some(tip);
                TargetTaken::Taken
            }
            Take::Merge => {
                let merge = self.commit(&[&head, &tip], &[]);
                self.unit(unit).branch = Some(merge);
                TargetTaken::Taken
            }
        })
    }

    fn move_target(&mut self, unit: &UnitId, commit: String) -> TargetMove {
        if !self.holds(&commit, &self.target) {
            return TargetMove::Overtaken;
        }
        assert!(self.has_unit(&commit, unit), "a merge holds its whole unit");
        if commit != self.tip() {
            assert!(!self.has_unit(&self.tip(), unit), "{unit} is merged twice");
            self.landed.push(unit.clone());
        }
        if self.happens(10) {
            self.waiting = Some(commit);
            let (branch, command, why) = ("waits".to_owned(), "git merge".to_owned(), "dirty".to_owned());
            return TargetMove::LeftOn { branch, command, why };
        }
        (self.target, self.waiting) = (commit, None);
        TargetMove::Moved
    }

    /// A loop is recorded before its agent runs.
    fn begin_loop(&mut self, unit: &UnitId, effect: &UnitEffect) {
        match effect {
            UnitEffect::RunLoop(LoopPlace::Worktree, order) => {
                let base = order.base.clone().expect("a commit to count from");
                self.unit(unit).cut = Some((order.purpose.clone(), turn_of(&order.policy).cloned(), base));
            }
            UnitEffect::RunLoop(LoopPlace::Scratch, _) => return,
            _ => {}
        }
        let (_, set, base) = self.units[unit].cut.clone().expect("a loop");
        // A loop puts its branch back to where its changes count from.
        let head = self.head(unit);
        if !self.holds(&head, &base) {
            self.unit(unit).branch = Some(base.clone());
        }
        let facts = self.branch_facts(unit);
        assert_eq!(base, facts.accepted, "changes count from what is proven");
        for ready in set.iter().flat_map(|set| &set.ready) {
            assert!(!facts.proven.contains(ready), "what is proven is not done again");
        }
    }

    /// A loop ends, in one way or another.
    fn end_loop(&mut self, unit: &UnitId, effect: &UnitEffect, is_stopping: bool) -> LoopEnd {
        let reason = match () {
            () if is_stopping => Reason::Interrupted,
            () if self.happens(10) => self.chance.of(&[
                Reason::MaxIterations,
                Reason::Budget,
                Reason::Question,
                Reason::Cancelled,
                Reason::Error,
                Reason::Disk,
            ]),
            () => Reason::Done,
        };
        let mut end = loop_end(reason);
        if matches!(effect, UnitEffect::RunLoop(LoopPlace::Scratch, _)) {
            if reason == Reason::Done {
                let kept = self.units[unit].laid_out.trim_start_matches('!').to_owned();
                self.green.insert(kept.clone());
                end.proof = Some(LoopProof { tree: Some(kept), ..LoopProof::default() });
            }
            return end;
        }
        let (_, set, base) = self.units[unit].cut.clone().expect("a loop");
        if !crate::plan::goes_on(reason) {
            self.unit(unit).cut = None;
        }
        if reason != Reason::Done {
            return end;
        }
        let ready = set.map(|set| set.ready).unwrap_or_default();
        let tasks: Vec<u32> = match ready.len() {
            0 => Vec::new(),
            n => vec![ready[self.chance.below(n)]],
        };
        // Its commit goes on top of that commit, wherever the agent left the branch.
        let what: Vec<String> = tasks.iter().map(|number| format!("{unit}#{number}")).collect();
        let commit = self.commit(&[&base], &what);
        let ground = self.unit(unit);
        ground.branch = Some(commit.clone());
        ground.receipts.push((tasks.clone(), commit.clone()));
        for number in &tasks {
            ground.statuses.insert(*number, TaskStatus::Complete);
            *ground.proven.entry(*number).or_default() += 1;
            assert!(ground.proven[number] == 1 || ground.is_robbed, "{unit} #{number} is proven twice");
        }
        end.is_paused = self.happens(2);
        if self.happens(10) {
            // The agent left something running that takes commits off the branch.
            self.take_commits_off(unit);
        }
        end.proof = Some(LoopProof { tasks, commit: Some(commit), tree: None });
        end
    }
}

/// A job at work.
struct JobSim {
    state: UnitProgress,
    events: Vec<UnitEvent>,
    effects: VecDeque<UnitEffect>,
    /// The answer to an effect that was performed, or a loop that runs.
    answer: Option<UnitInput>,
    running: Option<UnitEffect>,
    ends: Vec<RunEvent>,
}

/// One run: its schedule, its jobs.
struct Night {
    ground: Ground,
    started: RunStarted,
    run: RunState,
    journal: Vec<(Option<UnitId>, RunEvent)>,
    jobs: BTreeMap<UnitId, JobSim>,
    slots: BTreeMap<u32, UnitId>,
    steps: usize,
}

impl Night {
    fn new(ground: Ground, merge: MergeMode, parallel: u32) -> Self {
        let mut started = crate::unit::schedule::decide_tests::started(&[], parallel, merge);
        for (at, unit) in ground.units.keys().enumerate() {
            if ground.has_unit(&ground.target, unit) {
                continue;
            }
            let first = (at > 0).then(|| format!("u{}", at - 1).parse().unwrap());
            let complete = (1..=TASKS).filter(|number| ground.has_task(&ground.target, unit, *number));
            started.units.push(PlannedUnit {
                unit: unit.clone(),
                depends_on: first.into_iter().filter(|_| at % 3 == 2).collect(),
                tasks: Vec::new(),
                complete: complete.collect(),
            });
        }
        let (run, journal) = (RunState::default(), Vec::new());
        let mut night = Self {
            ground,
            started: started.clone(),
            run,
            journal,
            jobs: BTreeMap::new(),
            slots: BTreeMap::new(),
            steps: 0,
        };
        night.feed(RunInput::Begin(Box::new(started)));
        night
    }

    fn feed(&mut self, input: RunInput) {
        let step = schedule::decide(&self.run, input);
        for (unit, event) in &step.events {
            self.run.apply(unit.as_ref(), event);
        }
        self.journal.extend(step.events);
        for effect in step.effects {
            let RunEffect::StartJob { unit, job, slot } = effect else { continue };
            if slot > 0 {
                let before = self.slots.insert(slot, unit.clone());
                assert!(before.is_none_or(|before| !self.jobs.contains_key(&before)), "slot {slot} is taken");
            }
            let planned = self.started.units.iter().find(|planned| planned.unit == unit).unwrap();
            let complete = planned.complete.clone();
            let brief = UnitBrief { unit: unit.clone(), complete, ..brief(job, self.started.merge) };
            let job = JobSim {
                state: UnitProgress::default(),
                events: Vec::new(),
                effects: VecDeque::new(),
                answer: None,
                running: None,
                ends: Vec::new(),
            };
            assert!(self.jobs.insert(unit.clone(), job).is_none(), "{unit} is worked on twice at once");
            self.tell(&unit, UnitInput::Begin(Arc::new(brief)));
        }
        let in_lane = self.jobs.keys().filter(|unit| !self.slots.values().any(|other| other == *unit));
        assert!(in_lane.count() <= 1, "two merges at once");
    }

    /// An input for the plan of a unit's job.
    fn tell(&mut self, unit: &UnitId, input: UnitInput) {
        let job = self.jobs.get_mut(unit).unwrap();
        let step = UnitPlan::decide(&job.state, input);
        let mut told = Vec::new();
        for event in step.events {
            UnitPlan::apply(&mut job.state, &event);
            if let UnitEvent::Told(event) = &event {
                told.push(event.clone());
            }
            job.events.push(event);
        }
        assert_eq!(UnitPlan::fold(&job.events), job.state, "the state is a fold of the events");
        job.effects.extend(step.effects);
        for event in told {
            let is_end = matches!(
                event,
                RunEvent::UnitCompleted { .. }
                    | RunEvent::UnitMerged { .. }
                    | RunEvent::UnitFailed { .. }
                    | RunEvent::UnitSentBack { .. }
            );
            let job = self.jobs.get_mut(unit).unwrap();
            if is_end {
                job.ends.push(event.clone());
                assert_eq!(job.ends.len(), 1, "one end: {:?}", job.ends);
            }
            match &event {
                RunEvent::UnitCompleted { commit } => {
                    assert!(self.ground.has_unit(commit, unit), "all its tasks are proven");
                }
                RunEvent::UnitMerged { commit, .. } => {
                    assert!(self.ground.has_unit(&self.ground.tip(), unit));
                    assert!(self.ground.holds(&self.ground.tip(), commit));
                }
                RunEvent::WorktreeCreated { .. } => self.ground.unit(unit).is_set_up = true,
                _ => {}
            }
            self.ground.seen.insert(event.kind().to_owned());
            if let RunEvent::UnitFailed { reason, .. } = &event {
                self.ground.seen.insert(format!("{reason:?}"));
            }
            self.feed(RunInput::Told { unit: unit.clone(), event });
        }
        let job = &self.jobs[unit];
        assert!(
            job.state.is_over() || !job.effects.is_empty() || job.running.is_some(),
            "a plan always waits for something: {:?}",
            job.state.stage()
        );
    }

    /// One thing happens somewhere.
    fn step(&mut self) {
        self.steps += 1;
        let is_stopping = self.run.stopping().is_some();
        if self.ground.happens(1) && !is_stopping {
            return self.feed(RunInput::Stop(StopCause::Interrupt));
        }
        let units: Vec<UnitId> = self.jobs.keys().cloned().collect();
        let unit = self.ground.chance.of(&units);
        let job = self.jobs.get_mut(&unit).unwrap();
        if job.state.is_over() {
            self.jobs.remove(&unit);
            self.slots.retain(|_, other| *other != unit);
            return self.feed(RunInput::JobEnded { unit, detail: "its job ended".to_owned() });
        }
        if let Some(answer) = job.answer.take() {
            return self.tell(&unit, answer);
        }
        if let Some(effect) = job.running.take() {
            let end = self.ground.end_loop(&unit, &effect, is_stopping);
            return self.tell(&unit, UnitInput::LoopEnded(Box::new(end)));
        }
        if is_stopping && !matches!(job.state.stage(), UnitStage::Tidying) {
            return self.tell(&unit, UnitInput::StopAsked);
        }
        let Some(effect) = job.effects.pop_front() else { panic!("{:?}", job.state.stage()) };
        if matches!(effect, UnitEffect::RunLoop(..) | UnitEffect::ResumeLoop { .. }) {
            self.ground.begin_loop(&unit, &effect);
            self.jobs.get_mut(&unit).unwrap().running = Some(effect);
        } else {
            let answer = self.ground.perform(&unit, effect);
            let job = self.jobs.get_mut(&unit).unwrap();
            job.answer = answer;
        }
    }

    /// Lives until the end, or until it is killed after so many steps.
    fn live(&mut self, kill_after: usize) {
        while self.run.over().is_none() && self.steps < kill_after {
            self.step();
            assert!(self.steps < 20_000, "a run ends");
        }
        if self.run.over().is_none() {
            // The process that finds the dead run brings it to its end in the journal.
            self.feed(RunInput::OwnerDied);
        }
        self.audit();
    }

    /// Every unit has come to exactly one end, and the run to one.
    fn audit(&mut self) {
        let mut state = RunState::default();
        let mut ends: BTreeMap<&UnitId, u32> = BTreeMap::new();
        for (unit, event) in &self.journal {
            state.apply(unit.as_ref(), event);
            let is_end = match event {
                RunEvent::UnitMerged { .. } | RunEvent::UnitFailed { .. } | RunEvent::UnitBlocked { .. } => {
                    true
                }
                RunEvent::UnitCompleted { .. } => self.started.merge == MergeMode::Leave,
                _ => false,
            };
            if let Some(unit) = unit.as_ref().filter(|_| is_end) {
                *ends.entry(unit).or_default() += 1;
            }
        }
        assert_eq!(state, self.run, "the state is a fold of the journal");
        for (unit, standing) in self.run.standings() {
            let expected = u32::from(standing != UnitStanding::Published);
            assert_eq!(ends.get(unit).copied().unwrap_or(0), expected, "{unit} {standing:?}");
        }
        let last =
            |event: &RunEvent| matches!(event, RunEvent::OrchCompleted { .. } | RunEvent::OrchFailed { .. });
        assert_eq!(self.journal.iter().filter(|(_, event)| last(event)).count(), 1);
        assert!(self.journal.last().is_some_and(|(_, event)| last(event)), "nothing comes after the end");
        let mut landed = self.ground.landed.clone();
        landed.sort();
        landed.dedup();
        assert_eq!(
            landed.len(),
            self.ground.landed.len(),
            "no unit is merged twice: {:?}",
            self.ground.landed
        );
    }
}

fn night(seed: u64) -> Night {
    let mut chance = Chance(seed);
    let merge = chance.of(&[MergeMode::Merge, MergeMode::Merge, MergeMode::Leave, MergeMode::PullRequest]);
    let (units, parallel) = (chance.of(&[1, 2, 3]), chance.of(&[1, 2]));
    Night::new(Ground::new(chance, units), merge, parallel)
}

/// After a run that was killed or went wrong, runs in which nothing goes wrong finish what it has left.
fn finishes(night: Night) {
    let merge = night.started.merge;
    let mut ground = night.ground;
    ground.is_lucky = true;
    for unit in ground.units.values_mut() {
        // What was given up is tried again by `--retry-failed`.
        unit.statuses.retain(|_, status| *status != TaskStatus::Failed);
    }
    let mut next = Night::new(ground, merge, 2);
    next.live(usize::MAX);
    let over = next.run.over().unwrap();
    assert_eq!(over.exit_code, 0, "{over:?}");
    if merge == MergeMode::Merge {
        for unit in next.ground.units.keys() {
            assert!(next.ground.has_unit(&next.ground.tip(), unit), "{unit} is in the target");
        }
    }
}

macro_rules! shares {
    ($($name:ident $share:literal),*) => {$(
        #[test]
        fn $name() {
            // req 48, req 54, req 55, req 56, fault H11, fault G7: in any order of events, and
            // wherever the run is cut off, nothing is merged twice, nothing proven is done again, and the next run goes on.
            for_seeds(NIGHTS, $share, 4, |seed| {
                let mut whole = night(seed);
                whole.live(usize::MAX);
                let steps = whole.steps;
                finishes(whole);
                for kill_after in 0..steps {
                    let mut cut = night(seed);
                    cut.live(kill_after);
                    finishes(cut);
                }
            });
        }
    )*};
}
shares!(
    random_nights_keep_the_rules_1 0,
    random_nights_keep_the_rules_2 1,
    random_nights_keep_the_rules_3 2,
    random_nights_keep_the_rules_4 3
);

#[test]
fn the_nights_come_by_every_end_of_a_unit() {
    let mut seen = BTreeSet::new();
    for seed in 0..600 {
        let mut night = night(seed);
        night.live(usize::MAX);
        seen.extend(night.ground.seen);
    }
    for expected in [
        "unit.completed",
        "unit.merged",
        "unit.sent_back",
        "unit.failed",
        "unit.warned",
        "worktree.created",
        "worktree.removed",
        "branch.pushed",
        "pr.created",
        "pr.merged",
        "pr.conflict",
        "task.failed",
        "Exhausted",
        "Baseline",
        "Merge",
        "Budget",
        "Person",
        "Cancelled",
        "Stopped",
        "Environment",
        "Error",
    ] {
        assert!(seen.contains(expected), "{expected} is not among {seen:?}");
    }
}
