//! Tables: what reaches the plan of a unit, what is told, and what is to be done.

use TaskStatus::{Complete, Failed, Pending};

use super::*;
use crate::{
    agent::AgentCommand,
    event::Reason,
    judge::promise::PromiseRule,
    machine::Machine,
    plan::{LoopProof, Purpose},
    policy::Policy,
    unit::TaskSpec,
    view::run_again,
};

pub(super) fn brief(job: Job, merge: MergeMode) -> UnitBrief {
    let agent = AgentCommand::parse("agent", &[]).unwrap();
    UnitBrief {
        unit: "auth".parse().unwrap(),
        job,
        target: "main".to_owned(),
        merge,
        settings: RunSettings::new(Policy::restart(agent, PromiseRule::new("DONE").unwrap())),
        complete: Vec::new(),
    }
}

pub(super) fn task(number: u32, status: TaskStatus) -> Task {
    let spec = TaskSpec {
        number,
        title: format!("Task {number}"),
        file: format!("specs/tasks/auth/{number:02}-t.md"),
        backpressure: format!("test {number}"),
        line: 1,
        depends_on: Vec::new(),
        writes: Vec::new(),
        frozen: "f".to_owned(),
    };
    Task { spec, status }
}

pub(super) fn check() -> BaselineCheck {
    BaselineCheck { name: "lint".to_owned(), run: "make lint".to_owned(), pattern: None, timeout: None }
}

/// A plan and everything that it has told.
pub(super) struct Sim {
    pub(super) state: UnitProgress,
    pub(super) told: Vec<RunEvent>,
}

impl Sim {
    pub(super) fn new() -> Self {
        Self { state: UnitProgress::default(), told: Vec::new() }
    }

    pub(super) fn feed(&mut self, input: UnitInput) -> Vec<UnitEffect> {
        let step = UnitPlan::decide(&self.state, input);
        for event in step.events {
            UnitPlan::apply(&mut self.state, &event);
            if let UnitEvent::Told(event) = event {
                self.told.push(event);
            }
        }
        step.effects
    }

    /// Begins a job and answers until the first look at the tasks: nothing is in its way.
    fn at_tasks(brief: UnitBrief, tasks: &[Task], branch: BranchFacts) -> Self {
        let mut sim = Self::new();
        assert_eq!(sim.feed(UnitInput::Begin(Arc::new(brief))), [UnitEffect::MakeWorktree]);
        assert_eq!(
            sim.feed(UnitInput::WorktreeMade(WorktreeFacts { is_set_up: true, ..worktree() })),
            [UnitEffect::RestoreBranch(Restore::NewestProven)]
        );
        assert_eq!(sim.feed(UnitInput::BranchRestored(None)), [UnitEffect::CompareWithTarget]);
        let same = TargetFacts { base: Some("t1".to_owned()), head: "t1".to_owned(), ..compared() };
        assert_eq!(
            sim.feed(UnitInput::TargetCompared(same)),
            [UnitEffect::Unstage, UnitEffect::LookAtBranch]
        );
        let base = branch.base.clone();
        assert_eq!(sim.feed(UnitInput::BranchSeen(branch)), [UnitEffect::ReadTasks { commit: base }]);
        let (tasks, accepted) = (tasks.to_vec(), sim.state.accepted.clone());
        assert_eq!(
            sim.feed(UnitInput::TasksRead(tasks.clone())),
            [
                UnitEffect::SweepTaskFiles { tasks: tasks.clone() },
                UnitEffect::RestoreBranch(Restore::Commit(accepted.clone()))
            ]
        );
        assert_eq!(sim.feed(UnitInput::BranchRestored(None)), [UnitEffect::LookAtTasks { tasks, accepted }]);
        sim
    }

    fn sees(&mut self, statuses: &[TaskStatus]) -> Vec<UnitEffect> {
        self.feed(UnitInput::TasksSeen { statuses: statuses.to_vec(), cut: None })
    }

    fn ends(&mut self, end: LoopEnd) -> Vec<UnitEffect> {
        self.feed(UnitInput::LoopEnded(Box::new(end)))
    }
}

fn work() -> UnitBrief {
    brief(Job::Work { back: None }, MergeMode::Merge)
}

fn worktree() -> WorktreeFacts {
    WorktreeFacts {
        path: "/w/auth".into(),
        branch: "dacapo/auth".to_owned(),
        base: "t1".to_owned(),
        is_new: false,
        is_set_up: false,
    }
}

fn compared() -> TargetFacts {
    TargetFacts {
        tip: "t1".to_owned(),
        head: "c1".to_owned(),
        base: Some("t1".to_owned()),
        is_outdated: false,
        catch_up: "git merge main".to_owned(),
    }
}

fn fresh() -> BranchFacts {
    branch("t1", "t1", &[])
}

/// A branch that ends at `head`, proven up to `accepted`.
fn branch(head: &str, accepted: &str, proven: &[u32]) -> BranchFacts {
    BranchFacts {
        branch: "dacapo/auth".to_owned(),
        tip: "t1".to_owned(),
        base: "t1".to_owned(),
        head: head.to_owned(),
        proven: proven.iter().copied().collect(),
        accepted: accepted.to_owned(),
    }
}

pub(super) fn loop_end(reason: Reason) -> LoopEnd {
    LoopEnd {
        id: "l1".parse().unwrap(),
        reason,
        detail: "the end".to_owned(),
        proof: None,
        outputs: BTreeMap::new(),
        is_paused: false,
        refusal: None,
        agent_error: None,
        last_claimed: None,
    }
}

fn proves(tasks: &[u32], commit: &str) -> LoopEnd {
    let proof = LoopProof { tasks: tasks.to_vec(), commit: Some(commit.to_owned()), tree: None };
    LoopEnd { proof: Some(proof), ..loop_end(Reason::Done) }
}

fn restores(commit: &str) -> Vec<UnitEffect> {
    vec![UnitEffect::RestoreBranch(Restore::Commit(commit.to_owned()))]
}

fn failed(reason: UnitEnd, detail: &str) -> RunEvent {
    RunEvent::UnitFailed { reason, detail: detail.to_owned(), loop_id: None }
}

fn failed_in_loop(reason: UnitEnd, detail: &str) -> RunEvent {
    RunEvent::UnitFailed { reason, detail: detail.to_owned(), loop_id: Some("l1".parse().unwrap()) }
}

fn warned(text: &str) -> RunEvent {
    RunEvent::UnitWarned { text: text.to_owned() }
}

fn set(tasks: &[Task], ready: &[u32]) -> TaskSet {
    TaskSet { unit: "auth".parse().unwrap(), tasks: tasks.to_vec(), ready: ready.to_vec() }
}

/// The turn that a job of this brief runs.
fn turn(brief: &UnitBrief, set: TaskSet, accepted: &str, has_work: bool, more: &str) -> UnitEffect {
    let order = LoopOrder {
        purpose: Purpose::turn(
            &brief.settings,
            &brief.unit,
            accepted,
            set.tasks.iter().map(|task| &task.spec),
        ),
        prompt: format!("{}{more}", crate::unit::prompt::turn(&set)),
        policy: brief.settings.turn(set, has_work),
        base: Some(accepted.to_owned()),
    };
    UnitEffect::RunLoop(LoopPlace::Worktree, Box::new(order))
}

const NOTHING: [UnitEffect; 0] = [];

// --- up to the first look at the tasks ---------------------------------------------------------------------------

#[test]
fn a_worktree_is_told_once_it_is_set_up() {
    let mut sim = Sim::new();
    sim.feed(UnitInput::Begin(Arc::new(work())));
    assert_eq!(sim.feed(UnitInput::WorktreeMade(worktree())), [UnitEffect::SetUp]);
    assert_eq!(sim.told, []);
    assert_eq!(sim.feed(UnitInput::SetUp(Ok(()))), [UnitEffect::RestoreBranch(Restore::NewestProven)]);
    let WorktreeFacts { path, branch, base, .. } = worktree();
    assert_eq!(sim.told, [RunEvent::WorktreeCreated { path, branch, base }]);

    let mut sim = Sim::new();
    sim.feed(UnitInput::Begin(Arc::new(work())));
    sim.feed(UnitInput::WorktreeMade(worktree()));
    assert_eq!(sim.feed(UnitInput::SetUp(Err("`npm ci` exited 1".to_owned()))), NOTHING);
    assert_eq!(sim.told, [failed(UnitEnd::Setup, "worktree.setup: `npm ci` exited 1")]);
    assert!(sim.state.is_over());
}

#[test]
fn a_branch_follows_the_target_only_if_it_must_or_has_nothing_of_its_own() {
    let at = |facts: TargetFacts| {
        let mut sim = Sim::new();
        sim.feed(UnitInput::Begin(Arc::new(work())));
        sim.feed(UnitInput::WorktreeMade(WorktreeFacts { is_new: true, is_set_up: true, ..worktree() }));
        sim.feed(UnitInput::BranchRestored(Some("put back".to_owned())));
        assert_eq!(sim.told, [warned("put back")]);
        let effects = sim.feed(UnitInput::TargetCompared(facts));
        (sim, effects)
    };
    let moved = TargetFacts { tip: "t2".to_owned(), ..compared() };
    let behind = TargetFacts { head: "t1".to_owned(), ..moved.clone() };
    let looks = [UnitEffect::LookAtBranch];
    assert_eq!(at(TargetFacts { head: "t1".to_owned(), ..compared() }).1, looks, "it is there");
    assert_eq!(at(moved.clone()).1, looks, "its own commits hold it");
    assert_eq!(at(TargetFacts { base: None, is_outdated: true, ..moved.clone() }).1, looks);
    assert_eq!(
        at(TargetFacts { is_outdated: true, ..moved.clone() }).1,
        [UnitEffect::TakeTarget(Take::Merge)],
        "its task files have changed"
    );
    assert_eq!(
        at(TargetFacts { is_outdated: true, ..behind.clone() }).1,
        [UnitEffect::TakeTarget(Take::Forward)]
    );

    // A turn that was cut short goes on where it began.
    let tasks = vec![task(1, Pending)];
    let purpose = Purpose::turn(&work().settings, &work().unit, "t1", [&tasks[0].spec]);
    let cut = |purpose: &Purpose| CutFacts {
        cut: CutLoop {
            id: "l1".parse().unwrap(),
            purpose: Some(purpose.clone()),
            tasks: Some(set(&tasks, &[1])),
            is_mid_iteration: true,
            unheard: Vec::new(),
        },
        must_hold: None,
    };
    let found = |cut| UnitInput::CutLoopFound { cut, tasks: tasks.clone() };
    let (mut sim, effects) = at(behind.clone());
    assert_eq!(effects, [UnitEffect::FindCutLoop { head: "t1".to_owned() }]);
    assert_eq!(sim.feed(found(Some(cut(&purpose)))), looks);
    let elsewhere = Purpose::turn(&work().settings, &work().unit, "t0", [&tasks[0].spec]);
    for cut in [None, Some(cut(&elsewhere))] {
        let (mut sim, _) = at(behind.clone());
        assert_eq!(sim.feed(found(cut)), [UnitEffect::TakeTarget(Take::Forward)]);
        assert_eq!(sim.feed(UnitInput::TargetTaken(TargetTaken::NotClean("a".to_owned()))), looks);
        assert_eq!(sim.told[1..], [], "its task files are what the target has");
    }

    // What holds it though it must follow is said.
    for taken in [TargetTaken::NotClean("a".to_owned()), TargetTaken::Conflict, TargetTaken::Nothing] {
        let (mut sim, _) = at(TargetFacts { is_outdated: true, ..moved.clone() });
        assert_eq!(sim.feed(UnitInput::TargetTaken(taken)), looks);
        let said = "its task files have changed in `main`, and its worktree still has the old ones, because of uncommitted \
                    files or a conflict: `git merge main`";
        assert_eq!(sim.told[1..], [warned(said)]);
    }
}

#[test]
fn a_target_that_says_more_than_before_has_to_prove_it() {
    let begun = || {
        let mut sim = Sim::new();
        sim.feed(UnitInput::Begin(Arc::new(UnitBrief { complete: vec![1], ..work() })));
        sim.feed(UnitInput::WorktreeMade(WorktreeFacts { is_set_up: true, ..worktree() }));
        sim.feed(UnitInput::BranchRestored(None));
        sim.feed(UnitInput::TargetCompared(compared()));
        sim.feed(UnitInput::BranchSeen(fresh()));
        let read = UnitInput::TasksRead(vec![task(1, Complete), task(2, Complete), task(3, Pending)]);
        assert_eq!(sim.feed(read), [UnitEffect::FindProofs { commit: "t1".to_owned() }]);
        sim
    };
    let mut sim = begun();
    let effects = sim.feed(UnitInput::ProofsFound(BTreeSet::from([2])));
    assert_eq!(effects[1..], restores("t1"));
    let mut sim = begun();
    let effects = sim.feed(UnitInput::ProofsFound(BTreeSet::from([1])));
    let text =
        "`main` says that task #2 is complete, and no receipt proves it: it is worked on again".to_owned();
    assert_eq!(sim.told, [RunEvent::UnitWarned { text }]);
    // It is worked on as if its file said so.
    assert_eq!(effects[1..], restores("t1"));
    let tasks = vec![task(1, Complete), task(2, Pending), task(3, Pending)];
    sim.feed(UnitInput::BranchRestored(None));
    let effects = sim.sees(&[Complete, Complete, Pending]);
    assert_eq!(effects, [UnitEffect::SetStatuses { tasks, statuses: vec![(2, Pending)] }]);
}

// --- from loop to loop -------------------------------------------------------------------------------------------

#[test]
fn tasks_are_worked_off_checked_and_complete() {
    // req 15, req 48, req 52
    let brief = work();
    let tasks = [task(1, Pending), task(2, Pending)];
    let mut sim = Sim::at_tasks(brief.clone(), &tasks, fresh());
    assert_eq!(sim.sees(&[Pending, Pending]), [turn(&brief, set(&tasks, &[1, 2]), "t1", false, "")]);
    assert_eq!(sim.ends(proves(&[1], "c1")), restores("c1"));
    sim.feed(UnitInput::BranchRestored(None));
    let now = [task(1, Complete), task(2, Pending)];
    assert_eq!(sim.sees(&[Complete, Pending]), [turn(&brief, set(&now, &[2]), "c1", true, "")]);
    assert_eq!(sim.ends(proves(&[2], "c2")), restores("c2"));
    sim.feed(UnitInput::BranchRestored(None));
    assert_eq!(sim.sees(&[Complete, Complete]), [UnitEffect::FindChecks]);
    let effects = sim.feed(UnitInput::ChecksFound(vec![check()]));
    let order = LoopOrder {
        purpose: Purpose::baseline(&brief.settings, &brief.unit, "c2", &[check()]),
        policy: brief.settings.baseline(&brief.unit, &tasks, &[check()]),
        prompt: crate::unit::prompt::fix_baseline(&brief.unit, &[("lint", "make lint")]),
        base: Some("c2".to_owned()),
    };
    assert_eq!(effects, [UnitEffect::RunLoop(LoopPlace::Worktree, Box::new(order))]);
    assert_eq!(sim.ends(proves(&[], "c3")), restores("c3"));
    sim.feed(UnitInput::BranchRestored(None));
    assert_eq!(sim.sees(&[Complete, Complete]), [UnitEffect::LookAtBranch], "the checks hold");
    assert_eq!(sim.told, []);
    assert_eq!(sim.feed(UnitInput::BranchSeen(branch("c3", "c3", &[1, 2]))), NOTHING);
    assert_eq!(sim.told, [RunEvent::UnitCompleted { commit: "c3".to_owned() }]);
    assert!(sim.state.is_over());
}

#[test]
fn without_checks_and_with_nothing_new_to_the_target_a_unit_is_complete_at_once() {
    let done = [task(1, Complete)];
    let told = UnitBrief { complete: vec![1], ..work() };
    let mut sim = Sim::at_tasks(told, &done, fresh());
    assert_eq!(
        sim.sees(&[Complete]),
        [UnitEffect::LookAtBranch],
        "an earlier job was cut short behind its merge"
    );
    let mut sim = Sim::at_tasks(work(), &[task(1, Pending)], branch("c1", "c1", &[1]));
    assert_eq!(sim.sees(&[Complete]), [UnitEffect::FindChecks]);
    assert_eq!(sim.feed(UnitInput::ChecksFound(Vec::new())), restores("c1"));
}

#[test]
fn status_lines_are_put_right_before_anything_is_worked_on() {
    // req 14
    let tasks = [task(1, Pending)];
    let mut sim = Sim::at_tasks(work(), &tasks, fresh());
    let statuses = vec![(1, Pending)];
    assert_eq!(sim.sees(&[Complete]), [UnitEffect::SetStatuses { tasks: tasks.to_vec(), statuses }]);
    assert_eq!(sim.feed(UnitInput::StatusesSet), restores("t1"));
}

#[test]
fn a_cut_loop_comes_first_and_one_that_does_not_go_on_is_heard_out() {
    let brief = work();
    let tasks = [task(1, Pending)];
    let cut = |base: &str| CutFacts {
        cut: CutLoop {
            id: "l0".parse().unwrap(),
            purpose: Some(Purpose::turn(&brief.settings, &brief.unit, base, [&tasks[0].spec])),
            tasks: Some(set(&tasks, &[1])),
            is_mid_iteration: true,
            unheard: vec!["be quick".to_owned()],
        },
        must_hold: None,
    };
    let seen = |cut| UnitInput::TasksSeen { statuses: vec![Complete], cut: Some(cut) };
    let mut sim = Sim::at_tasks(brief.clone(), &tasks, fresh());
    let grant = Grant { extra_iterations: 1, ..Grant::default() };
    assert_eq!(sim.feed(seen(cut("t1"))), [UnitEffect::ResumeLoop { id: "l0".parse().unwrap(), grant }]);
    assert_eq!(sim.ends(proves(&[1], "c1")), restores("c1"), "it ends as the turn that it is");

    let mut sim = Sim::at_tasks(brief.clone(), &tasks, fresh());
    let statuses = vec![Pending];
    let effects = sim.feed(UnitInput::TasksSeen { statuses, cut: Some(cut("t0")) });
    let said = crate::prompt::said("be quick");
    assert_eq!(effects, [turn(&brief, set(&tasks, &[1]), "t1", false, &said)]);
}

#[test]
fn a_cut_loop_of_checks_ends_as_what_it_was_for() {
    let tasks = [task(1, Pending)];
    let holds = MustHold { tasks: vec![tasks[0].spec.clone()], others: Vec::new(), checks: vec![check()] };
    let brief = work();
    let resumed = |purpose: Purpose| {
        let mut sim = Sim::at_tasks(work(), &tasks, branch("c1", "c1", &[1]));
        let cut = CutLoop {
            id: "l0".parse().unwrap(),
            purpose: Some(purpose),
            tasks: None,
            is_mid_iteration: false,
            unheard: Vec::new(),
        };
        let cut = Some(CutFacts { cut, must_hold: Some(holds.clone()) });
        let effects = sim.feed(UnitInput::TasksSeen { statuses: vec![Complete], cut });
        assert!(matches!(&effects[..], [UnitEffect::ResumeLoop { .. }]), "{effects:?}");
        sim
    };
    let baseline = Purpose::baseline(&brief.settings, &brief.unit, "c1", &holds.checks);
    let mut sim = resumed(baseline.clone());
    assert_eq!(sim.ends(loop_end(Reason::MaxIterations)), NOTHING);
    assert_eq!(sim.told, [failed_in_loop(UnitEnd::Baseline, "the end")]);
    let mut sim = resumed(baseline);
    assert_eq!(sim.ends(proves(&[], "c2")), restores("c2"));
    sim.feed(UnitInput::BranchRestored(None));
    assert_eq!(sim.sees(&[Complete]), [UnitEffect::LookAtBranch], "the checks hold");
    let sent_back = Purpose::proof(PlanStep::SentBack, &brief.settings, &brief.unit, "c1", &holds);
    let mut sim = resumed(sent_back.clone());
    assert_eq!(sim.ends(loop_end(Reason::MaxIterations)), NOTHING);
    assert_eq!(sim.told, [failed_in_loop(UnitEnd::Merge, "the end")]);
    let mut sim = resumed(sent_back);
    assert_eq!(sim.ends(proves(&[], "c2")), [UnitEffect::LookAtBranch]);
}

#[test]
fn a_turn_that_is_exhausted_gives_up_the_task_that_was_claimed_last() {
    // req 41
    let tasks = [task(1, Pending), task(2, Pending)];
    let begun = || {
        let mut sim = Sim::at_tasks(work(), &tasks, fresh());
        sim.sees(&[Pending, Pending]);
        sim
    };
    let exhausted = loop_end(Reason::MaxIterations);
    for (end, task, said) in [
        (exhausted.clone(), 1, "the end"),
        (
            LoopEnd { last_claimed: Some(2), refusal: Some("red".to_owned()), ..exhausted.clone() },
            2,
            "the end; the last was refused: red",
        ),
        (
            LoopEnd { agent_error: Some("exit code 1".to_owned()), ..exhausted.clone() },
            1,
            "the end; the last agent failed: exit code 1",
        ),
    ] {
        let mut sim = begun();
        let marks = UnitEffect::SetStatuses { tasks: tasks.to_vec(), statuses: vec![(task, Failed)] };
        assert_eq!(sim.ends(end), [marks]);
        assert_eq!(sim.told, [], "it is marked first");
        assert_eq!(sim.feed(UnitInput::StatusesSet), NOTHING);
        let detail = said.to_owned();
        let given_up = format!("task #{task} was given up: {said}");
        assert_eq!(
            sim.told,
            [RunEvent::TaskFailed { task, detail }, failed_in_loop(UnitEnd::Exhausted, &given_up)]
        );
    }
    for (reason, end, said) in [
        (Reason::Budget, UnitEnd::Budget, "the end"),
        (Reason::Auth, UnitEnd::Auth, "the end"),
        (Reason::Question, UnitEnd::Person, "the end"),
        (Reason::Interrupted, UnitEnd::Stopped, "stopped with its run"),
        (Reason::Cancelled, UnitEnd::Cancelled, "the end"),
        (Reason::Agent, UnitEnd::Environment, "the end"),
        (Reason::Error, UnitEnd::Error, "the end"),
    ] {
        let mut sim = begun();
        assert_eq!(sim.ends(loop_end(reason)), NOTHING);
        assert_eq!(sim.told, [failed_in_loop(end, said)], "{reason:?}");
    }
}

#[test]
fn a_pause_that_came_with_the_end_of_a_loop_holds_the_unit() {
    let mut sim = Sim::at_tasks(work(), &[task(1, Pending)], fresh());
    sim.sees(&[Pending]);
    assert_eq!(sim.ends(LoopEnd { is_paused: true, ..proves(&[1], "c1") }), NOTHING);
    let said = format!("paused; `{}` goes on", run_again(None, MergeMode::Merge, None));
    assert_eq!(sim.told, [failed(UnitEnd::Stopped, &said)]);
}

#[test]
fn what_was_red_beside_an_accepted_task_is_told_to_the_next_agent() {
    let brief = work();
    let tasks = [task(1, Pending), task(2, Pending)];
    let mut sim = Sim::at_tasks(brief.clone(), &tasks, fresh());
    sim.sees(&[Pending, Pending]);
    let outputs = BTreeMap::from([(1, "fine".to_owned()), (2, "1 test failed".to_owned())]);
    sim.ends(LoopEnd { outputs, ..proves(&[1], "c1") });
    sim.feed(UnitInput::BranchRestored(None));
    let now = [task(1, Complete), task(2, Pending)];
    let more = crate::unit::prompt::was_red(2, "1 test failed");
    assert_eq!(sim.sees(&[Complete, Pending]), [turn(&brief, set(&now, &[2]), "c1", true, &more)]);
}

#[test]
fn a_branch_that_lost_commits_is_looked_at_and_checked_again() {
    let mut sim = Sim::at_tasks(work(), &[task(1, Pending)], branch("c1", "c1", &[1]));
    sim.sees(&[Complete]);
    sim.feed(UnitInput::ChecksFound(Vec::new()));
    assert_eq!(sim.feed(UnitInput::BranchRestored(Some("put back".to_owned()))), [UnitEffect::LookAtBranch]);
    assert_eq!(sim.told, [warned("put back")]);
    assert_eq!(sim.feed(UnitInput::BranchSeen(branch("c1", "c1", &[1]))), restores("c1"));
    sim.feed(UnitInput::BranchRestored(None));
    assert_eq!(sim.sees(&[Complete]), [UnitEffect::FindChecks], "once more");
    // It happens while the branch is looked at for the last time.
    sim.feed(UnitInput::ChecksFound(Vec::new()));
    sim.feed(UnitInput::BranchRestored(None));
    assert_eq!(sim.sees(&[Complete]), [UnitEffect::LookAtBranch]);
    assert_eq!(
        sim.feed(UnitInput::BranchSeen(branch("t1", "t1", &[]))),
        [UnitEffect::RestoreBranch(Restore::NewestProven)]
    );
    assert_eq!(sim.feed(UnitInput::BranchRestored(None)), [UnitEffect::LookAtBranch]);
    // Commits on top that nothing proves are no end of a unit.
    let mut sim = Sim::at_tasks(work(), &[task(1, Pending)], branch("c1", "c1", &[1]));
    sim.sees(&[Complete]);
    sim.feed(UnitInput::ChecksFound(Vec::new()));
    sim.feed(UnitInput::BranchRestored(None));
    sim.sees(&[Complete]);
    assert_eq!(sim.feed(UnitInput::BranchSeen(branch("x1", "c1", &[1]))), NOTHING);
    let said = "`dacapo/auth` holds commits after the last that was proven";
    assert_eq!(sim.told, [failed(UnitEnd::Error, said)]);
}

#[test]
fn a_unit_that_was_sent_back_takes_the_target_and_mends_what_was_red() {
    // req 54
    let told = brief(Job::Work { back: Some("lint is red".to_owned()) }, MergeMode::Merge);
    let begun = |taken: TargetTaken| {
        let mut sim = Sim::new();
        sim.feed(UnitInput::Begin(Arc::new(told.clone())));
        sim.feed(UnitInput::WorktreeMade(WorktreeFacts { is_set_up: true, ..worktree() }));
        sim.feed(UnitInput::BranchRestored(None));
        sim.feed(UnitInput::TargetCompared(compared()));
        sim.feed(UnitInput::BranchSeen(branch("c1", "c1", &[1])));
        let effects = sim.feed(UnitInput::TasksRead(vec![task(1, Pending)]));
        assert_eq!(effects[1..], [UnitEffect::TakeTarget(Take::Merge)]);
        let effects = sim.feed(UnitInput::TargetTaken(taken));
        (sim, effects)
    };
    let finds = |commit: &str| {
        let (tip, tree, commit) = ("t1".to_owned(), commit.to_owned(), commit.to_owned());
        [UnitEffect::FindMustHold { tip, tree, commit }]
    };
    let (mut sim, effects) = begun(TargetTaken::Taken);
    assert_eq!(effects, [UnitEffect::LookAtBranch]);
    assert_eq!(sim.feed(UnitInput::BranchSeen(branch("m1", "m1", &[1]))), finds("m1"));
    let holds = MustHold { tasks: vec![task(1, Pending).spec], others: Vec::new(), checks: vec![check()] };
    let fixes = |base: &str| {
        let order = LoopOrder {
            purpose: Purpose::proof(PlanStep::SentBack, &told.settings, &told.unit, base, &holds),
            policy: told.settings.sent_back(&told.unit, &holds),
            prompt: format!("{}\n\nlint is red\n", crate::unit::prompt::fix_merge(&told.unit, "main")),
            base: Some(base.to_owned()),
        };
        [UnitEffect::RunLoop(LoopPlace::Worktree, Box::new(order))]
    };
    assert_eq!(sim.feed(UnitInput::MustHoldFound(holds.clone())), fixes("m1"));
    assert_eq!(sim.ends(proves(&[], "c2")), [UnitEffect::LookAtBranch]);
    assert_eq!(sim.feed(UnitInput::BranchSeen(branch("c2", "c2", &[1]))), restores("c2"));
    sim.feed(UnitInput::BranchRestored(None));
    assert_eq!(sim.sees(&[Complete]), [UnitEffect::LookAtBranch], "all of it was checked");

    let (mut sim, effects) = begun(TargetTaken::Nothing);
    assert_eq!(effects, finds("c1"));
    assert_eq!(sim.feed(UnitInput::MustHoldFound(holds.clone())), fixes("c1"));
    assert_eq!(sim.ends(loop_end(Reason::MaxIterations)), NOTHING);
    assert_eq!(sim.told, [failed_in_loop(UnitEnd::Merge, "the end")]);

    assert_eq!(begun(TargetTaken::Conflict).1, restores("c1"), "that is the next merge's business");
    let (sim, effects) = begun(TargetTaken::NotClean("`a` is in the way".to_owned()));
    assert_eq!((effects, sim.told), (vec![], vec![failed(UnitEnd::Error, "`a` is in the way")]));
}

#[test]
fn a_stop_ends_a_unit_between_two_steps_and_news_after_the_end_change_nothing() {
    let mut sim = Sim::at_tasks(work(), &[task(1, Pending)], fresh());
    assert_eq!(sim.feed(UnitInput::StopAsked), NOTHING);
    assert_eq!(sim.told, [failed(UnitEnd::Stopped, "stopped between two loops")]);
    let over = sim.state.clone();
    for input in [
        UnitInput::StopAsked,
        UnitInput::StatusesSet,
        UnitInput::Begin(Arc::new(work())),
        UnitInput::Failed { end: UnitEnd::Error, detail: "e".to_owned() },
    ] {
        assert_eq!(sim.feed(input), NOTHING);
        assert_eq!(sim.state, over);
    }
    let mut sim = Sim::new();
    assert_eq!(sim.feed(UnitInput::StopAsked), NOTHING, "there is no job");
    assert_eq!(sim.state, UnitProgress::default());
    let mut sim = Sim::at_tasks(work(), &[task(1, Pending)], fresh());
    assert_eq!(sim.feed(UnitInput::StatusesSet), NOTHING, "the plan does not wait for that");
    let went_wrong = UnitInput::Failed { end: UnitEnd::Environment, detail: "the disk is full".to_owned() };
    assert_eq!(sim.feed(went_wrong), NOTHING);
    assert_eq!(sim.told, [failed(UnitEnd::Environment, "the disk is full")]);
}

// --- merge -------------------------------------------------------------------------------------------------------

fn trees(merged: MergedTrees) -> UnitInput {
    UnitInput::TreesMerged(MergeFacts {
        tip: "t1".to_owned(),
        head: "c1".to_owned(),
        branch: "dacapo/auth".to_owned(),
        merged,
    })
}

fn clean() -> UnitInput {
    trees(MergedTrees::Clean { tree: "tree".to_owned() })
}

fn conflict() -> UnitInput {
    trees(MergedTrees::Conflict { tree: "tree".to_owned(), paths: vec!["a".to_owned()] })
}

fn merging() -> Sim {
    let mut sim = Sim::new();
    let brief = brief(Job::Merge, MergeMode::Merge);
    assert_eq!(sim.feed(UnitInput::Begin(Arc::new(brief))), [UnitEffect::MergeTrees]);
    sim
}

fn lays_out(tree: &str) -> [UnitEffect; 1] {
    [UnitEffect::LayOut { tip: "t1".to_owned(), tree: tree.to_owned() }]
}

fn commits(tree: &str) -> [UnitEffect; 2] {
    let (tree, tip, head) = (tree.to_owned(), "t1".to_owned(), "c1".to_owned());
    [UnitEffect::DropScratch, UnitEffect::CommitMerge { tree, tip, head }]
}

fn all_of(number: u32) -> MustHold {
    MustHold { tasks: vec![task(number, Pending).spec], ..MustHold::default() }
}

fn looks(commit: &str) -> [UnitEffect; 1] {
    [UnitEffect::LookAtMerge { tip: "t1".to_owned(), commit: commit.to_owned() }]
}

fn moves(commit: &str) -> [UnitEffect; 1] {
    [UnitEffect::MoveTarget { commit: commit.to_owned() }]
}

fn merged(left_on: Option<(&str, &str)>) -> [RunEvent; 2] {
    let left_on = left_on.map(|(branch, command)| (branch.to_owned(), command.to_owned()));
    let (target, commit) = ("main".to_owned(), "m1".to_owned());
    [RunEvent::PrMerged { commit: commit.clone() }, RunEvent::UnitMerged { target, commit, left_on }]
}

#[test]
fn a_clean_merge_is_checked_committed_looked_at_and_moved() {
    let brief = brief(Job::Merge, MergeMode::Merge);
    let mut sim = merging();
    assert_eq!(sim.feed(clean()), lays_out("tree"));
    let holds = all_of(1);
    let order = LoopOrder {
        purpose: Purpose::proof(PlanStep::Merge, &brief.settings, &brief.unit, "t1", &holds),
        policy: brief.settings.merged(&brief.unit, &holds),
        prompt: "The merge of unit auth is checked.".to_owned(),
        base: None,
    };
    assert_eq!(
        sim.feed(UnitInput::LaidOut(Ok(holds))),
        [UnitEffect::RunLoop(LoopPlace::Scratch, Box::new(order))]
    );
    assert_eq!(sim.ends(loop_end(Reason::Done)), commits("tree"));
    assert_eq!(sim.feed(UnitInput::MergeCommitted("m1".to_owned())), looks("m1"));
    assert_eq!(sim.feed(UnitInput::MergeSeen(MergeView::default())), moves("m1"));
    assert_eq!(sim.told, [], "nothing is told before the target has it");
    assert_eq!(
        sim.feed(UnitInput::TargetMoved(TargetMove::Moved)),
        [UnitEffect::Tidy { commit: "m1".to_owned() }]
    );
    assert_eq!(sim.told, merged(None));
    assert_eq!(sim.feed(UnitInput::StopAsked), NOTHING, "what is left is soon done");
    let (removed, warnings) = (Some("/w/auth".into()), vec!["teardown: no".to_owned()]);
    assert_eq!(sim.feed(UnitInput::Tidied { removed, warnings }), NOTHING);
    assert_eq!(sim.told[2..], [warned("teardown: no"), RunEvent::WorktreeRemoved { path: "/w/auth".into() }]);
    assert!(sim.state.is_over());
}

#[test]
fn a_merge_without_anything_to_hold_needs_no_loop_and_a_red_one_is_sent_back() {
    let mut sim = merging();
    sim.feed(clean());
    assert_eq!(sim.feed(UnitInput::LaidOut(Ok(MustHold::default()))), commits("tree"));

    let mut sim = merging();
    sim.feed(clean());
    assert_eq!(sim.feed(UnitInput::LaidOut(Err("`npm ci` exited 1".to_owned()))), NOTHING);
    assert_eq!(sim.told, [failed(UnitEnd::Setup, "setup of the merged tree: `npm ci` exited 1")]);

    let mut sim = merging();
    sim.feed(clean());
    sim.feed(UnitInput::LaidOut(Ok(all_of(1))));
    assert_eq!(sim.ends(loop_end(Reason::MaxIterations)), NOTHING);
    assert_eq!(sim.told, [RunEvent::UnitSentBack { detail: "the end".to_owned() }]);
    assert!(sim.state.is_over());

    let mut sim = merging();
    sim.feed(clean());
    sim.feed(UnitInput::LaidOut(Ok(all_of(1))));
    assert_eq!(sim.ends(loop_end(Reason::Disk)), NOTHING);
    assert_eq!(sim.told, [failed_in_loop(UnitEnd::Environment, "the end")]);
}

#[test]
fn a_conflict_is_resolved_by_an_agent_and_checked_again_if_more_has_to_hold() {
    let brief = brief(Job::Merge, MergeMode::Merge);
    let conflicting = || {
        let mut sim = merging();
        assert_eq!(sim.feed(conflict()), lays_out("tree"));
        assert_eq!(sim.told, [RunEvent::PrConflict { paths: vec!["a".to_owned()] }]);
        let order = LoopOrder {
            purpose: Purpose::proof(PlanStep::Conflict, &brief.settings, &brief.unit, "t1", &all_of(1)),
            policy: brief.settings.conflict(&brief.unit, &all_of(1), &["a".to_owned()]),
            prompt: crate::unit::prompt::resolve_conflict(&brief.unit, "main", &["a".to_owned()]),
            base: None,
        };
        assert_eq!(
            sim.feed(UnitInput::LaidOut(Ok(all_of(1)))),
            [UnitEffect::RunLoop(LoopPlace::Scratch, Box::new(order))]
        );
        sim
    };
    let kept = || {
        let proof = LoopProof { tree: Some("kept".to_owned()), ..LoopProof::default() };
        LoopEnd { proof: Some(proof), ..loop_end(Reason::Done) }
    };
    let (tip, tree, commit) = ("t1".to_owned(), "kept".to_owned(), "t1".to_owned());
    let finds = [UnitEffect::FindMustHold { tip, tree, commit }];
    let mut sim = conflicting();
    assert_eq!(sim.ends(kept()), finds);
    assert_eq!(sim.feed(UnitInput::MustHoldFound(all_of(1))), commits("kept"));

    // The agent changed files of another unit: what that proved has to hold as well.
    let red = "`dacapo/auth` conflicts with `main` in a, and no agent could resolve it (the end); both branches are as they \
               were";
    let mut sim = conflicting();
    sim.ends(kept());
    assert_eq!(sim.feed(UnitInput::MustHoldFound(all_of(2))), lays_out("kept"));
    let effects = sim.feed(UnitInput::LaidOut(Ok(all_of(2))));
    let [UnitEffect::RunLoop(LoopPlace::Scratch, order)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(order.purpose.step, PlanStep::Merge, "no agent works on it any more");
    let mut again = Sim { state: sim.state.clone(), told: Vec::new() };
    assert_eq!(sim.ends(loop_end(Reason::Done)), commits("kept"));
    assert_eq!(again.ends(loop_end(Reason::MaxIterations)), NOTHING);
    assert_eq!(again.told, [failed_in_loop(UnitEnd::Merge, red)]);

    let mut sim = conflicting();
    assert_eq!(sim.ends(loop_end(Reason::MaxIterations)), NOTHING);
    assert_eq!(sim.told[1..], [failed_in_loop(UnitEnd::Merge, red)]);
    let mut sim = conflicting();
    assert_eq!(sim.ends(loop_end(Reason::Done)), NOTHING);
    assert_eq!(sim.told[1..], [failed(UnitEnd::Error, "loop l1 kept no tree")]);
}

#[test]
fn nothing_to_merge_is_merged_only_if_the_target_has_all_of_it() {
    let view = |status| MergeView { tasks: vec![task(1, status)], ..MergeView::default() };
    let mut sim = merging();
    assert_eq!(sim.feed(trees(MergedTrees::Nothing)), looks("t1"));
    assert_eq!(sim.feed(UnitInput::MergeSeen(view(Complete))), moves("t1"));
    let mut sim = merging();
    sim.feed(trees(MergedTrees::Nothing));
    assert_eq!(sim.feed(UnitInput::MergeSeen(view(Pending))), NOTHING);
    let said = "there is nothing to merge, and task #1 is not complete in `main`";
    assert_eq!(sim.told, [failed(UnitEnd::Merge, said)]);
}

/// A merge that is about to move the target.
fn at_target() -> Sim {
    let mut sim = merging();
    sim.feed(clean());
    sim.feed(UnitInput::LaidOut(Ok(MustHold::default())));
    sim.feed(UnitInput::MergeCommitted("m1".to_owned()));
    sim.feed(UnitInput::MergeSeen(MergeView::default()));
    sim
}

#[test]
fn a_merge_that_changes_what_it_may_not_never_reaches_the_target() {
    let mut sim = merging();
    sim.feed(clean());
    sim.feed(UnitInput::LaidOut(Ok(MustHold::default())));
    sim.feed(UnitInput::MergeCommitted("m1".to_owned()));
    let file = "specs/tasks/other/01-t.md".to_owned();
    let changes = vec![MergedFile { file, before: None, after: Some(Vec::new()) }];
    assert_eq!(sim.feed(UnitInput::MergeSeen(MergeView { changes, ..MergeView::default() })), NOTHING);
    let said = "the merge would change `specs/tasks/other/01-t.md` in a way that nothing proves";
    assert_eq!(sim.told, [failed(UnitEnd::Merge, said)]);
}

#[test]
fn a_target_that_others_move_is_followed_and_one_that_cannot_be_moved_is_left() {
    let mut sim = at_target();
    for _ in 1..CHASES {
        assert_eq!(sim.feed(UnitInput::TargetMoved(TargetMove::Overtaken)), [UnitEffect::MergeTrees]);
        sim.feed(clean());
        sim.feed(UnitInput::LaidOut(Ok(MustHold::default())));
        sim.feed(UnitInput::MergeCommitted("m1".to_owned()));
        sim.feed(UnitInput::MergeSeen(MergeView::default()));
    }
    assert_eq!(sim.feed(UnitInput::TargetMoved(TargetMove::Overtaken)), NOTHING);
    assert_eq!(
        sim.told,
        [failed(UnitEnd::Merge, "the target moved 20 times while the merge was being checked")]
    );

    let mut sim = at_target();
    let left = TargetMove::LeftOn {
        branch: "dacapo/merged-r1".to_owned(),
        command: "git merge".to_owned(),
        why: "a, b".to_owned(),
    };
    assert_eq!(sim.feed(UnitInput::TargetMoved(left)), [UnitEffect::Tidy { commit: "m1".to_owned() }]);
    assert_eq!(sim.told[..1], [warned("`main` was left where it is: a, b")]);
    assert_eq!(sim.told[1..], merged(Some(("dacapo/merged-r1", "git merge"))));

    let mut sim = at_target();
    assert_eq!(sim.feed(UnitInput::StopAsked), NOTHING);
    assert_eq!(sim.told, [failed(UnitEnd::Stopped, "stopped between two loops")]);
}

// --- publish -----------------------------------------------------------------------------------------------------

#[test]
fn a_branch_is_pushed_where_it_went_before_and_only_what_is_proven() {
    let publishing = |changed: &[&str], remote: Option<&str>| {
        let mut sim = Sim::new();
        let brief = brief(Job::Publish, MergeMode::PullRequest);
        assert_eq!(sim.feed(UnitInput::Begin(Arc::new(brief))), [UnitEffect::LookAtRoute]);
        let effects = sim.feed(UnitInput::RouteSeen {
            branch: "dacapo/auth".to_owned(),
            changed: changed.iter().map(|word| (*word).to_owned()).collect(),
            remote: remote.map(str::to_owned),
        });
        (sim, effects)
    };
    let (sim, effects) = publishing(&["remote.origin.url"], Some("origin"));
    assert_eq!(effects, NOTHING);
    let [RunEvent::UnitFailed { reason: UnitEnd::Merge, detail, .. }] = &sim.told[..] else {
        panic!("{:?}", sim.told);
    };
    assert!(
        detail.starts_with("`dacapo/auth` was not pushed: an agent or a person changed where"),
        "{detail}"
    );
    let (sim, _) = publishing(&[], None);
    let said = "there is no remote to push to; `git remote add origin URL` names one";
    assert_eq!(sim.told, [failed(UnitEnd::Merge, said)]);

    let (mut sim, effects) = publishing(&[], Some("origin"));
    assert_eq!(effects, [UnitEffect::LookAtBranch]);
    assert_eq!(sim.feed(UnitInput::BranchSeen(branch("x1", "c1", &[1]))), NOTHING);
    let said = "`dacapo/auth` holds commits after the last that was proven";
    assert_eq!(sim.told, [failed(UnitEnd::Merge, said)]);

    let pushed = || {
        let (mut sim, _) = publishing(&[], Some("origin"));
        let push = UnitEffect::Push { commit: "c1".to_owned(), remote: "origin".to_owned() };
        assert_eq!(sim.feed(UnitInput::BranchSeen(branch("c1", "c1", &[1]))), [push]);
        assert_eq!(sim.feed(UnitInput::Pushed), [UnitEffect::OpenPullRequest]);
        let (branch, remote) = ("dacapo/auth".to_owned(), "origin".to_owned());
        assert_eq!(sim.told, [RunEvent::BranchPushed { branch, remote }]);
        sim
    };
    let ends = |end| {
        let mut sim = pushed();
        assert_eq!(sim.feed(UnitInput::PullRequest(end)), NOTHING);
        assert!(sim.state.is_over());
        sim.told.split_off(1)
    };
    assert_eq!(
        ends(PullRequestEnd::Opened { url: "u".to_owned() }),
        [RunEvent::PrCreated { url: "u".to_owned() }]
    );
    assert_eq!(
        ends(PullRequestEnd::NoProgram),
        [warned("the branch is pushed; there is no `gh` on PATH to open a pull request with")]
    );
    assert_eq!(
        ends(PullRequestEnd::Refused { detail: "no".to_owned() }),
        [
            RunEvent::PrFailed { detail: "no".to_owned() },
            failed(UnitEnd::Merge, "the branch is pushed, but no pull request: no")
        ]
    );
}
