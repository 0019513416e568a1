//! Tables: a run, what reaches it, and what follows.

use super::*;
use crate::event::{MergeMode, PlannedUnit, RunProblem, UnitEnd};

pub(super) fn unit(name: &str) -> UnitId {
    name.parse().unwrap()
}

/// A run of units as `name: first, first`.
pub(crate) fn started(units: &[(&str, &[&str])], parallel: u32, merge: MergeMode) -> RunStarted {
    let plan = |(name, first): &(&str, &[&str])| PlannedUnit {
        unit: unit(name),
        depends_on: first.iter().map(|name| unit(name)).collect(),
        tasks: vec![(1, "One".to_owned())],
        complete: Vec::new(),
    };
    RunStarted {
        project: "p".parse().unwrap(),
        root: "/repository".into(),
        target: "main".to_owned(),
        merge,
        parallel,
        units: units.iter().map(plan).collect(),
        settings: Box::new(crate::unit::settings::RunSettings::new(crate::policy::Policy::restart(
            crate::agent::AgentCommand::parse("agent", &[]).unwrap(),
            crate::judge::promise::PromiseRule::new("DONE").unwrap(),
        ))),
        tip: None,
        budget_of: "r1".parse().unwrap(),
        pid: 1,
        version: "0".to_owned(),
    }
}

/// A run and everything that was recorded of it.
pub(super) struct Sim {
    pub(super) state: RunState,
    pub(super) journal: Vec<(Option<UnitId>, RunEvent)>,
}

impl Sim {
    fn new(units: &[(&str, &[&str])], parallel: u32, merge: MergeMode) -> (Self, Vec<String>) {
        let mut sim = Self { state: RunState::default(), journal: Vec::new() };
        let effects = sim.feed(RunInput::Begin(Box::new(started(units, parallel, merge))));
        (sim, effects)
    }

    /// What follows: recorded, folded, and the effects in short.
    fn feed(&mut self, input: RunInput) -> Vec<String> {
        self.feed_raw(input).iter().map(short).collect()
    }

    pub(super) fn feed_raw(&mut self, input: RunInput) -> Vec<RunEffect> {
        let step = decide(&self.state, input);
        for (unit, event) in &step.events {
            self.state.apply(unit.as_ref(), event);
        }
        self.journal.extend(step.events);
        step.effects
    }

    fn tell(&mut self, name: &str, event: RunEvent) -> Vec<String> {
        self.feed(RunInput::Told { unit: unit(name), event })
    }

    fn ends(&mut self, name: &str) -> Vec<String> {
        self.feed(RunInput::JobEnded { unit: unit(name), detail: "the job exited with 70".to_owned() })
    }

    /// Its work is done.
    fn completes(&mut self, name: &str) -> Vec<String> {
        assert_eq!(self.tell(name, completed()), NOTHING, "its process still runs");
        self.ends(name)
    }

    fn merges(&mut self, name: &str) -> Vec<String> {
        let mut effects = self.tell(name, merged());
        effects.extend(self.ends(name));
        effects
    }

    fn fails(&mut self, name: &str, reason: UnitEnd) -> Vec<String> {
        let detail = format!("{} it is", reason.as_str());
        let mut effects = self.tell(name, RunEvent::UnitFailed { reason, detail, loop_id: None });
        effects.extend(self.ends(name));
        effects
    }

    fn over(&self) -> Option<(&str, &str, u8)> {
        self.state.over().map(|over| (over.reason.as_str(), over.detail.as_str(), over.exit_code))
    }

    fn blocked(&self) -> Vec<(String, Vec<String>)> {
        let blocked = self.journal.iter().filter_map(|(unit, event)| match event {
            RunEvent::UnitBlocked { by } => {
                Some((unit.clone()?.to_string(), by.iter().map(ToString::to_string).collect()))
            }
            _ => None,
        });
        blocked.collect()
    }

    fn standing(&self, name: &str) -> UnitStanding {
        self.state.standing(&unit(name)).unwrap()
    }
}

const NOTHING: [&str; 0] = [];

fn completed() -> RunEvent {
    RunEvent::UnitCompleted { commit: "c".to_owned() }
}

fn merged() -> RunEvent {
    RunEvent::UnitMerged { target: "main".to_owned(), commit: "m".to_owned(), left_on: None }
}

fn sent_back() -> RunEvent {
    RunEvent::UnitSentBack { detail: "lint is red".to_owned() }
}

fn short(effect: &RunEffect) -> String {
    match effect {
        RunEffect::StartJob { unit, job: Job::Work { back: None }, slot } => format!("{unit} in {slot}"),
        RunEffect::StartJob { unit, job: Job::Work { back: Some(why) }, slot } => {
            format!("{unit} in {slot} because {why}")
        }
        RunEffect::StartJob { unit, job: Job::Merge, .. } => format!("merge {unit}"),
        RunEffect::StartJob { unit, job: Job::Publish, .. } => format!("publish {unit}"),
        RunEffect::StopJob { unit } => format!("stop {unit}"),
        RunEffect::AskLoops(request) => format!("loops: {request:?}"),
        RunEffect::HoldTime => "time stands still".to_owned(),
        RunEffect::GoOnWithTime { limit: None } => "time goes on".to_owned(),
        RunEffect::GoOnWithTime { limit: Some(limit) } => format!("{} of time", limit.0),
        RunEffect::AskJobsToStop => "ask".to_owned(),
        RunEffect::HurryJobs => "hurry".to_owned(),
        RunEffect::KillJobs => "kill".to_owned(),
        RunEffect::ArmGrace(after) => format!("grace {}", after.0),
    }
}

#[test]
fn a_job_that_cannot_be_understood_ends_its_unit_and_is_stopped() {
    let garbled = |run: &mut Sim, name: &str| {
        let detail = "its job printed `oops`".to_owned();
        run.feed(RunInput::JobGarbled { unit: unit(name), detail })
    };
    let (mut run, _) = Sim::new(&[("a", &[]), ("b", &["a"]), ("c", &[])], 2, MergeMode::Merge);
    assert_eq!(garbled(&mut run, "a"), ["stop a"]);
    assert_eq!(run.standing("a"), UnitStanding::Failed(UnitEnd::Error));
    assert_eq!(run.tell("a", completed()), NOTHING, "nothing that it says counts any more");
    assert_eq!(garbled(&mut run, "b"), NOTHING, "it has no job");
    assert_eq!(run.ends("a"), NOTHING);
    assert_eq!(run.blocked(), [("b".to_owned(), vec!["a".to_owned()])]);
    // What was merged stays merged; that its job babbles is said.
    assert_eq!(run.completes("c"), ["merge c"]);
    assert_eq!(run.tell("c", merged()), NOTHING);
    assert_eq!(garbled(&mut run, "c"), ["stop c"]);
    assert_eq!(run.standing("c"), UnitStanding::Merged);
    let warned = RunEvent::UnitWarned { text: "its job printed `oops`".to_owned() };
    assert_eq!(run.journal.last(), Some(&(Some(unit("c")), warned)));
    run.ends("c");
    assert_eq!(run.over(), Some(("failed", "a: its job printed `oops`", 1)));
}

#[test]
fn a_paused_run_begins_nothing_until_it_goes_on() {
    let ask = |run: &mut Sim, request| run.feed(RunInput::Requested(request));
    let (mut run, _) = Sim::new(&[("a", &[]), ("b", &[])], 1, MergeMode::Merge);
    let pause = |now| crate::loop_machine::Request::Pause { now };
    let go_on = || crate::loop_machine::Request::Unpause { grant: crate::event::Grant::default() };
    assert_eq!(ask(&mut run, go_on()), NOTHING, "the run is not paused");
    assert_eq!(ask(&mut run, pause(false)), ["time stands still", "loops: Pause { now: false }"]);
    assert_eq!(ask(&mut run, pause(false)), NOTHING);
    assert_eq!(ask(&mut run, pause(true)), ["loops: Pause { now: true }"], "more urgent");
    assert_eq!(ask(&mut run, pause(false)), NOTHING);
    let words = crate::loop_machine::Request::Steer { text: "x".to_owned() };
    assert_eq!(ask(&mut run, words), ["loops: Steer { text: \"x\" }"]);
    assert_eq!(run.completes("a"), NOTHING, "neither merged, nor the next one begun");
    assert!(run.over().is_none(), "it waits");
    let effects = ask(&mut run, go_on());
    assert_eq!(effects[0], "time goes on");
    assert_eq!(effects[2..], ["merge a", "b in 1"], "{effects:?}");
    // A cancelled run is not held any more.
    assert_eq!(ask(&mut run, pause(false)).len(), 2);
    assert_eq!(ask(&mut run, crate::loop_machine::Request::Cancel), ["ask", "grace 30000"]);
    assert_eq!(run.ends("a"), NOTHING);
    assert_eq!(run.ends("b"), NOTHING);
    assert!(run.over().is_some());
}

#[test]
fn what_is_granted_to_a_paused_run_is_recorded_and_goes_to_its_loops() {
    use crate::{event::Grant, limits::Budget, loop_machine::Request};
    let (mut run, _) = Sim::new(&[("a", &[])], 1, MergeMode::Merge);
    run.feed(RunInput::Requested(Request::Pause { now: true }));
    let grant = Grant {
        extra_iterations: 2,
        max_time_ms: Some(Millis(7000)),
        max_cost: Some(9.0),
        max_tokens: Some(5),
        ..Grant::default()
    };
    let effects = run.feed_raw(RunInput::Requested(Request::Unpause { grant }));
    // The time is the run's own, and its money is shared by all of its loops.
    let per_run = Budget { max_cost: Some(9.0), max_tokens: Some(5) };
    let for_loops = Grant { extra_iterations: 2, per_run, ..Grant::default() };
    let expected = [
        RunEffect::GoOnWithTime { limit: Some(Millis(7000)) },
        RunEffect::AskLoops(Request::Unpause { grant: for_loops }),
    ];
    assert_eq!(effects, expected);
    assert_eq!(run.journal.last(), Some(&(None, RunEvent::OrchUnpaused { grant })));
}

#[test]
fn units_run_in_slots_and_merge_one_at_a_time_in_order_of_completion() {
    // req 54, req 55, fault H11
    let (mut run, effects) =
        Sim::new(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a", "b"])], 2, MergeMode::Merge);
    assert_eq!(effects, ["a in 1", "b in 2"]);
    assert_eq!(run.completes("b"), ["merge b", "c in 2"], "the slot is free as soon as the process is gone");
    assert_eq!(run.completes("a"), NOTHING, "b is being merged");
    assert_eq!(run.completes("c"), NOTHING);
    assert_eq!(run.merges("b"), ["merge a"], "the first that was done, not the first of the plan");
    assert_eq!(run.tell("a", merged()), ["d in 1"], "all it depends on is merged");
    assert_eq!(run.ends("a"), ["merge c"]);
    assert_eq!(run.merges("c"), NOTHING);
    assert_eq!(run.completes("d"), ["merge d"]);
    assert_eq!(run.over(), None);
    assert_eq!(run.merges("d"), NOTHING);
    assert_eq!(run.over(), Some(("completed", "4 units merged", 0)));
}

#[test]
fn without_a_merge_completed_is_enough_and_pull_requests_go_out_one_by_one() {
    let (mut run, _) = Sim::new(&[("a", &[]), ("b", &["a"])], 2, MergeMode::Leave);
    assert_eq!(run.tell("a", completed()), ["b in 2"]);
    assert_eq!(run.ends("a"), NOTHING);
    run.tell("b", completed());
    assert_eq!(run.over(), None, "its process still runs");
    run.ends("b");
    assert_eq!(run.over(), Some(("completed", "2 units completed", 0)));

    let (mut run, _) = Sim::new(&[("a", &[]), ("b", &[]), ("c", &["a"])], 2, MergeMode::PullRequest);
    assert_eq!(run.completes("a"), ["publish a"]);
    assert_eq!(run.completes("b"), NOTHING);
    assert_eq!(run.tell("a", RunEvent::PrCreated { url: "u".to_owned() }), NOTHING);
    assert_eq!(run.ends("a"), ["publish b", "c in 1"]);
    assert_eq!(run.standing("a"), UnitStanding::Published);
    assert_eq!(run.ends("b"), NOTHING);
    assert_eq!(
        run.standing("b"),
        UnitStanding::Failed(UnitEnd::Error),
        "it never said that anything was out"
    );
}

#[test]
fn a_failed_unit_blocks_all_behind_it_once_and_nobody_else() {
    // req 55
    let units: &[(&str, &[&str])] =
        &[("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["c"]), ("e", &["before"])];
    let (mut run, effects) = Sim::new(units, 4, MergeMode::Merge);
    assert_eq!(effects, ["a in 1", "b in 2", "e in 3"], "what is not in this run was done before it");
    run.fails("a", UnitEnd::Exhausted);
    let by_a = vec![("c".to_owned(), vec!["a".to_owned()]), ("d".to_owned(), vec!["a".to_owned()])];
    assert_eq!(run.blocked(), by_a);
    run.fails("b", UnitEnd::Budget);
    assert_eq!(run.blocked(), by_a, "once");
    assert_eq!(run.standing("e"), UnitStanding::Working, "what runs goes on");
    run.completes("e");
    // req 56: the first error is the one that counts.
    assert_eq!(run.over(), Some(("failed", "a: exhausted it is", 1)));
    assert_eq!(
        run.standing("e"),
        UnitStanding::Failed(UnitEnd::Stopped),
        "nothing new is begun without money"
    );
}

#[test]
fn the_first_failure_decides_what_the_command_exits_with() {
    // req 202
    for (reason, exit, word) in [
        (UnitEnd::Failed, 1, "failed"),
        (UnitEnd::Exhausted, 1, "failed"),
        (UnitEnd::Baseline, 1, "failed"),
        (UnitEnd::Budget, 3, "budget"),
        (UnitEnd::Person, 4, "person"),
        (UnitEnd::Auth, 4, "person"),
        (UnitEnd::Environment, 5, "environment"),
        (UnitEnd::Error, 1, "failed"),
    ] {
        let (mut run, _) = Sim::new(&[("a", &[]), ("b", &[])], 1, MergeMode::Merge);
        let is_dry = matches!(reason, UnitEnd::Budget | UnitEnd::Auth);
        let next = run.fails("a", reason);
        assert_eq!(next, if is_dry { vec![] } else { vec!["b in 1".to_owned()] }, "{reason:?}");
        if !is_dry {
            run.fails("b", UnitEnd::Setup);
        }
        let detail = format!("a: {} it is", reason.as_str());
        assert_eq!(run.over(), Some((word, detail.as_str(), exit)));
    }
}

#[test]
fn a_red_merge_sends_a_unit_back_three_times_at_most() {
    // req 54
    let (mut run, _) = Sim::new(&[("a", &[]), ("b", &[])], 1, MergeMode::Merge);
    run.completes("a");
    for turn in 0..3 {
        assert_eq!(run.tell("a", sent_back()), NOTHING, "{turn}");
        if turn == 0 {
            assert_eq!(run.ends("a"), NOTHING, "the slot is taken");
            assert_eq!(run.completes("b"), ["merge b", "a in 1 because lint is red"]);
            run.merges("b");
        } else {
            assert_eq!(run.ends("a"), ["a in 1 because lint is red"]);
        }
        assert_eq!(run.completes("a"), ["merge a"]);
    }
    run.tell("a", sent_back());
    run.ends("a");
    assert_eq!(run.standing("a"), UnitStanding::Failed(UnitEnd::Merge));
    assert_eq!(run.over(), Some(("failed", "a: the merged tree is still red after 3 fixes: lint is red", 1)));
}

#[test]
fn a_job_that_does_not_say_how_its_unit_stands_has_failed() {
    // fault F1
    let (mut run, _) = Sim::new(&[("a", &[]), ("b", &[]), ("c", &["a"])], 2, MergeMode::Merge);
    run.ends("a");
    assert_eq!(run.blocked(), [("c".to_owned(), vec!["a".to_owned()])]);
    run.completes("b");
    run.ends("b");
    assert_eq!(run.over(), Some(("failed", "a: the job exited with 70", 1)));
    assert_eq!(run.standing("b"), UnitStanding::Failed(UnitEnd::Error), "a merge that says nothing too");
}

#[test]
fn a_stopped_run_asks_then_kills_and_goes_on_another_time() {
    // req 27, req 56
    let table: [(RunInput, &str, u8); 5] = [
        (RunInput::Stop(StopCause::Interrupt), "interrupted", 130),
        (RunInput::Stop(StopCause::Terminate), "terminated", 143),
        (RunInput::Stop(StopCause::Hangup), "terminated", 143),
        (RunInput::Stop(StopCause::Cancel), "cancelled", 130),
        (RunInput::TimeOver, "max_time", 3),
    ];
    for (stop, reason, exit) in table {
        let (mut run, _) =
            Sim::new(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a"])], 2, MergeMode::Merge);
        assert_eq!(run.feed(stop.clone()), ["ask", "grace 30000"], "{stop:?}");
        assert_eq!(run.feed(RunInput::GraceOver), ["kill"]);
        assert_eq!(run.completes("a"), NOTHING, "nothing new is begun");
        assert_eq!(run.over(), None);
        assert_eq!(run.ends("b"), NOTHING);
        assert_eq!(run.over().map(|over| (over.0, over.2)), Some((reason, exit)));
        assert_eq!(run.blocked(), [], "what was stopped did not fail");
        for name in ["a", "b", "c", "d"] {
            assert_eq!(run.standing(name), UnitStanding::Failed(UnitEnd::Stopped), "{name}");
        }
        assert_eq!(run.feed(RunInput::GraceOver), NOTHING);
    }
    let (mut run, _) = Sim::new(&[("a", &[])], 1, MergeMode::Leave);
    assert_eq!(run.feed(RunInput::TimeOver), ["ask", "grace 30000"]);
    assert_eq!(run.feed(RunInput::Stop(StopCause::Interrupt)), ["ask", "grace 30000"], "the first Ctrl-C");
    assert_eq!(run.feed(RunInput::Stop(StopCause::Terminate)), NOTHING);
    assert_eq!(run.feed(RunInput::Stop(StopCause::Interrupt)), ["hurry", "grace 5000"], "the second");
    assert_eq!(run.feed(RunInput::GraceOver), ["kill"]);
    run.tell("a", completed());
    run.ends("a");
    assert_eq!(run.over(), Some(("completed", "1 unit completed", 0)), "it was done all the same");
}

#[test]
fn a_run_that_makes_no_sense_ends_at_once() {
    // req 56, req 7
    type Units<'a> = &'a [(&'a str, &'a [&'a str])];
    let table: [(Units<'_>, u32, RunProblem); 4] = [
        (&[("a", &[]), ("a", &[])], 1, RunProblem::Duplicate(unit("a"))),
        (&[("a", &[])], 0, RunProblem::NoSlots),
        (&[("a", &["a"])], 1, RunProblem::Circle(vec![unit("a")])),
        (&[("a", &["b"]), ("b", &["a"]), ("c", &[])], 1, RunProblem::Circle(vec![unit("a"), unit("b")])),
    ];
    for (units, parallel, problem) in table {
        assert_eq!(started(units, parallel, MergeMode::Merge).problems(), std::slice::from_ref(&problem));
        let (run, effects) = Sim::new(units, parallel, MergeMode::Merge);
        assert_eq!(effects, NOTHING);
        assert_eq!(run.over(), Some(("error", problem.to_string().as_str(), 1)));
    }
    let (run, _) = Sim::new(&[], 1, MergeMode::Merge);
    assert_eq!(run.over(), Some(("completed", "nothing was left to do", 0)));
}

#[test]
fn what_nobody_waits_for_changes_nothing() {
    let (mut run, _) = Sim::new(&[("a", &[]), ("b", &["a"])], 1, MergeMode::Merge);
    let before = run.state.clone();
    for (name, event) in [
        ("a", merged()),
        ("a", sent_back()),
        ("b", completed()),
        ("nobody", completed()),
        ("a", RunEvent::UnitStarted { slot: 7 }),
        ("a", RunEvent::OrchCompleted { detail: String::new() }),
        ("a", RunEvent::TaskCompleted { task: 1, loop_id: "x".parse().unwrap(), of: 9 }),
    ] {
        assert_eq!(run.tell(name, event), NOTHING);
    }
    run.ends("b");
    run.feed(RunInput::GraceOver);
    assert_eq!(run.state, before);
    run.fails("a", UnitEnd::Failed);
    let over = run.state.clone();
    run.tell("a", completed());
    run.feed(RunInput::Stop(StopCause::Interrupt));
    run.feed(RunInput::OwnerDied);
    assert_eq!(run.state, over);
}

#[test]
fn a_large_run_begins_with_one_event_per_unit() {
    // req 55: 1,000 units of 10 tasks. Nothing grows with the square of them.
    let names: Vec<String> = (0..1000).map(|n| format!("u{n}")).collect();
    let first: Vec<[&str; 1]> = (0..1000).map(|n: usize| [names[n / 2].as_str()]).collect();
    let units: Vec<(&str, &[&str])> =
        (0..1000).map(|n| (names[n].as_str(), if n == 0 { &[][..] } else { &first[n][..] })).collect();
    // u1 depends on u0, u2 and u3 on u1, and so on.
    let mut plan = started(&units, 4, MergeMode::Merge);
    for unit in &mut plan.units {
        unit.tasks = (1..=10).map(|n| (n, format!("Task {n}"))).collect();
    }
    let step = decide(&RunState::default(), RunInput::Begin(Box::new(plan)));
    assert_eq!((step.events.len(), step.effects.len()), (1 + 1000 + 1, 1));
    let mut state = RunState::default();
    for (unit, event) in &step.events {
        state.apply(unit.as_ref(), event);
    }
    let event = RunEvent::UnitFailed { reason: UnitEnd::Failed, detail: String::new(), loop_id: None };
    let step = decide(&state, RunInput::Told { unit: unit("u0"), event });
    assert_eq!(step.events.len(), 1 + 999, "each is blocked once");
}

#[test]
fn the_last_word_says_where_a_merge_waits() {
    let waits = || RunEvent::UnitMerged {
        target: "main".to_owned(),
        commit: "m".to_owned(),
        left_on: Some(("dacapo/merged-r".to_owned(), "git merge --ff-only dacapo/merged-r".to_owned())),
    };
    let units: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"])];
    for (is_moved, detail) in [
        (
            false,
            "2 units merged; what was merged waits on dacapo/merged-r: `git merge --ff-only dacapo/merged-r` moves the \
             target",
        ),
        (true, "2 units merged"),
    ] {
        let (mut run, _) = Sim::new(units, 1, MergeMode::Merge);
        for name in ["a", "b"] {
            run.completes(name);
            // A target that moves takes all along that waited.
            run.tell(name, if is_moved && name == "b" { merged() } else { waits() });
            run.ends(name);
        }
        assert_eq!(run.over(), Some(("completed", detail, 0)));
    }
    let (mut run, _) = Sim::new(units, 1, MergeMode::Merge);
    run.completes("a");
    run.tell("a", waits());
    run.ends("a");
    run.fails("b", UnitEnd::Exhausted);
    assert!(run.over().unwrap().1.contains("`git merge --ff-only dacapo/merged-r`"), "{:?}", run.over());
}
