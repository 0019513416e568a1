use dacapo_core::{
    duration::Millis,
    event::{LoopEvent, LoopStarted, MergeMode, RunStarted, UnitEnd, UnitPlan},
    ids::LoopId,
    unit::{Task, TaskSet, TaskSpec, TaskStatus},
    view::UnitStatus,
};

use super::*;

struct World {
    _dir: tempfile::TempDir,
    path: std::path::PathBuf,
    store: Store,
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dacapo.db");
    let store = Store::open(&path).unwrap();
    World { _dir: dir, path, store }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000_000).unwrap()
}

fn unit(name: &str) -> UnitId {
    name.parse().unwrap()
}

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn dead() -> Identity {
    Identity { pid: 1, start: 1, boot: "another boot".to_owned() }
}

fn begins(units: &[&str]) -> Vec<(Option<UnitId>, RunEvent)> {
    let plan = |name: &&str| UnitPlan {
        unit: unit(name),
        depends_on: Vec::new(),
        tasks: vec![(1, "One".to_owned()), (2, "Two".to_owned())],
        complete: vec![1],
    };
    let started = RunStarted {
        project: "p".parse().unwrap(),
        root: "/repository".into(),
        target: "main".to_owned(),
        merge: MergeMode::Merge,
        parallel: 2,
        units: units.iter().map(plan).collect(),
        settings: Box::new(dacapo_core::unit::settings::RunSettings::new(
            dacapo_core::policy::Policy::restart(
                dacapo_core::agent::AgentCommand::parse("agent", &[]).unwrap(),
                dacapo_core::judge::promise::PromiseRule::new("DONE").unwrap(),
            ),
        )),
        purse: "r1".parse().unwrap(),
        pid: 7,
        version: "0".to_owned(),
    };
    vec![(None, RunEvent::OrchStarted(Box::new(started)))]
}

fn about(name: &str, event: RunEvent) -> Vec<(Option<UnitId>, RunEvent)> {
    vec![(Some(unit(name)), event)]
}

fn warned(text: &str) -> RunEvent {
    RunEvent::UnitWarned { text: text.to_owned() }
}

/// A loop of a unit, as the first event of its journal.
fn loop_started(unit: &str, run: Option<RunId>) -> LoopEvent {
    let policy = dacapo_core::policy::Policy::restart(
        dacapo_core::agent::AgentCommand::parse("agent", &[]).unwrap(),
        dacapo_core::judge::promise::PromiseRule::new("DONE").unwrap(),
    );
    LoopEvent::LoopStarted(Box::new(LoopStarted {
        project: "p".parse().unwrap(),
        task: unit.parse().unwrap(),
        workspace: "/w".into(),
        parent: None,
        run,
        depth: 0,
        after: Vec::new(),
        prompt: "x".to_owned(),
        seed: "s".to_owned(),
        policy,
        base: None,
        outline: None,
        protected: Vec::new(),
        pid: 1,
        version: "0".to_owned(),
    }))
}

#[test]
fn runs_and_loops_count_in_one_row_and_are_read_back_as_they_were() {
    let mut world = world();
    let store = &mut world.store;
    let (mut head, first) =
        store.create_run(&run("r1"), &Identity::own(), now(), begins(&["a", "b"])).unwrap();
    let id: LoopId = "l1".parse().unwrap();
    let (mut loop_head, of_loop, mut view) =
        store.create(&id, &Identity::own(), now(), vec![loop_started("a", Some(run("r1")))], &[]).unwrap();
    let second = store.append_run(&run("r1"), &mut head, now(), about("a", warned("one"))).unwrap();
    let other: LoopId = "l2".parse().unwrap();
    store.create(&other, &Identity::own(), now(), vec![loop_started("a", None)], &[]).unwrap();
    let more = vec![LoopEvent::Warned { text: "two".to_owned() }];
    store.append(&id, &mut loop_head, &mut view, now(), more, &[]).unwrap();
    assert_eq!((first[0].seq, of_loop[0].seq, second[0].seq, store.last_seq().unwrap()), (1, 2, 3, 5));

    let (loaded, events) = store.load_run(&run("r1")).unwrap().unwrap();
    assert_eq!((&loaded, &events), (&head, &[first.clone(), second.clone()].concat()));
    assert_eq!(store.run_events(None, None, 2).unwrap(), second);
    let project: ProjectId = "p".parse().unwrap();
    assert_eq!(store.run_events(None, Some((&project, &unit("a"))), 0).unwrap(), second);
    assert_eq!(store.run_events(Some(&run("r2")), None, 0).unwrap(), []);
    let places = |after| -> Vec<(String, u64)> {
        let of_run = store.loops_of_run(&run("r1"), after).unwrap();
        of_run.into_iter().map(|(unit, envelope)| (unit.to_string(), envelope.seq)).collect()
    };
    assert_eq!(places(0), [("a".to_owned(), 2), ("a".to_owned(), 5)], "not those of other runs");
    assert_eq!(places(2), [("a".to_owned(), 5)]);
}

#[test]
fn a_run_has_one_writer() {
    // fault G10
    let mut world = world();
    let (mut mine, _) = world.store.create_run(&run("r1"), &Identity::own(), now(), begins(&["a"])).unwrap();
    let mut yours = Store::open(&world.path).unwrap();
    let (mut their_head, _) = yours.load_run(&run("r1")).unwrap().unwrap();
    yours.append_run(&run("r1"), &mut their_head, now(), about("a", warned("theirs"))).unwrap();
    let before = mine.clone();
    let lost = world.store.append_run(&run("r1"), &mut mine, now(), about("a", warned("mine")));
    assert!(matches!(lost, Err(StoreError::RunOvertaken(_))), "{lost:?}");
    assert_eq!(mine, before);
    assert_eq!(world.store.run_events(None, None, 0).unwrap().len(), 2);
}

#[test]
fn what_people_see_of_a_unit_follows_its_newest_run() {
    let mut world = world();
    let store = &mut world.store;
    let (mut head, _) = store.create_run(&run("r1"), &Identity::own(), now(), begins(&["b", "a"])).unwrap();
    let mut events = about("a", RunEvent::UnitStarted { slot: 1 });
    events.extend(about("a", RunEvent::TaskCompleted { task: 2, loop_id: "l1".parse().unwrap(), of: 1 }));
    store.append_run(&run("r1"), &mut head, now(), events).unwrap();
    let seen = |store: &Store| -> Vec<(String, String, UnitStatus)> {
        let views = store.unit_views(None).unwrap();
        views.into_iter().map(|view| (view.unit.to_string(), view.run.to_string(), view.status)).collect()
    };
    let row = |unit: &str, run: &str, status| (unit.to_owned(), run.to_owned(), status);
    assert_eq!(seen(store), [row("b", "r1", UnitStatus::Queued), row("a", "r1", UnitStatus::Working)]);
    let a = store.unit_view(None, "a").unwrap().pop().unwrap();
    assert_eq!((a.progress(), a.slot, a.receipts.len()), ((2, 2), Some(1), 1));
    assert_eq!(a.tasks[1].status, TaskStatus::Complete);

    let fails =
        RunEvent::UnitFailed { reason: UnitEnd::Stopped, detail: "stopped".to_owned(), loop_id: None };
    let over =
        RunEvent::OrchFailed { reason: "interrupted".to_owned(), detail: String::new(), exit_code: 130 };
    let mut events = about("a", fails);
    events.push((None, over));
    store.append_run(&run("r1"), &mut head, now(), events).unwrap();
    assert_eq!((store.active_runs().unwrap().len(), head.view().state.as_str()), (0, "stopped"));
    store.create_run(&run("r2"), &Identity::own(), now(), begins(&["a"])).unwrap();
    assert_eq!(seen(store), [row("b", "r1", UnitStatus::Queued), row("a", "r2", UnitStatus::Queued)]);
    assert_eq!(store.units_of_run(&run("r1")).unwrap().len(), 1, "the other one belongs to a later run");
    let newest = |store: &Store, project: &str| {
        store.newest_run(Some(&project.parse().unwrap())).unwrap().map(|row| row.view.id.to_string())
    };
    assert_eq!((newest(store, "p"), newest(store, "q")), (Some("r2".to_owned()), None));
    assert_eq!(store.newest_ended_run().unwrap().unwrap().view.id, run("r1"));
}

#[test]
fn a_run_whose_scheduler_died_is_shown_as_stopped() {
    // fault F10
    let mut world = world();
    let (mut head, _) = world.store.create_run(&run("r1"), &dead(), now(), begins(&["a"])).unwrap();
    let works = about("a", RunEvent::UnitStarted { slot: 1 });
    world.store.append_run(&run("r1"), &mut head, now(), works).unwrap();
    let row = world.store.active_runs().unwrap().pop().unwrap();
    assert!(!row.is_running());
    let view = row.current_view();
    assert_eq!((view.state.as_str(), view.reason.as_deref()), ("stopped", Some("interrupted")));
    let unit = world.store.unit_view(None, "a").unwrap().pop().unwrap();
    assert_eq!((unit.status, unit.slot), (UnitStatus::Stopped, None));
}

#[test]
fn a_stream_must_begin_with_its_beginning() {
    let mut world = world();
    let begun = world.store.create_run(&run("r1"), &Identity::own(), now(), about("a", warned("x")));
    assert!(matches!(begun, Err(StoreError::Other { .. })), "{begun:?}");
    assert_eq!(world.store.last_seq().unwrap(), 0);
}

#[test]
fn no_secret_gets_into_a_runs_stream() {
    // fault K9
    let mut world = world();
    let secret = format!("sk-ant-api03-{}", "a1B2".repeat(20));
    let mut begins = begins(&["a"]);
    if let RunEvent::OrchStarted(started) = &mut begins[0].1 {
        started.units[0].tasks[0].1 = format!("Use {secret}");
    }
    let (mut head, first) = world.store.create_run(&run("r1"), &Identity::own(), now(), begins).unwrap();
    let told = about("a", warned(&format!("it printed {secret}")));
    let second = world.store.append_run(&run("r1"), &mut head, now(), told).unwrap();
    let shown = format!("{first:?} {second:?} {:?}", world.store.unit_views(None).unwrap());
    assert!(!shown.contains(&secret), "{shown}");
    assert!(shown.contains("it printed"), "{shown}");
    assert_eq!(world.store.run_events(None, None, 0).unwrap(), [first, second].concat());
}

#[test]
fn a_dead_run_is_brought_to_its_end_once() {
    // req 25, fault F10: nothing that its loops did is lost or told twice.
    let mut world = world();
    let store = &mut world.store;
    let project: ProjectId = "p".parse().unwrap();
    let (mut head, _) = store.create_run(&run("r1"), &dead(), now(), begins(&["a", "b"])).unwrap();
    store.append_run(&run("r1"), &mut head, now(), about("a", RunEvent::UnitStarted { slot: 1 })).unwrap();
    let mut turn = loop_started("a", Some(run("r1")));
    if let LoopEvent::LoopStarted(started) = &mut turn {
        let task = |number: u32, status| Task {
            spec: TaskSpec {
                number,
                title: format!("Task {number}"),
                file: String::new(),
                backpressure: "true".to_owned(),
                line: 1,
                depends_on: Vec::new(),
                writes: Vec::new(),
                frozen: String::new(),
            },
            status,
        };
        let tasks = vec![task(1, TaskStatus::Complete), task(2, TaskStatus::Pending)];
        started.policy.tasks = Some(TaskSet { unit: unit("a"), tasks, ready: vec![2] });
    }
    let agent = r#"{"type":"agent_started","iteration":1,"attempt":1,"agent":"mine",
        "output":{"stdout":0,"stderr":0,"prompt":0,"gates":0}}"#;
    let agent: LoopEvent = serde_json::from_str(agent).unwrap();
    let id: LoopId = "l1".parse().unwrap();
    let (_, of_loop, _) = store.create(&id, &dead(), now(), vec![turn, agent], &[]).unwrap();
    // The scheduler told of the loop's beginning before it died, and not of its agent.
    let started = RunEvent::TaskStarted { task: 2, title: "Task 2".to_owned(), of: of_loop[0].seq };
    store.append_run(&run("r1"), &mut head, now(), about("a", started)).unwrap();

    assert_eq!(store.close_dead_runs(&"q".parse().unwrap()).unwrap(), []);
    assert_eq!(store.close_dead_runs(&project).unwrap(), [run("r1")]);
    let kinds: Vec<&str> =
        store.run_events(None, None, 0).unwrap().iter().map(|envelope| envelope.event.kind()).collect();
    assert_eq!(
        kinds,
        [
            "orch.started",
            "unit.started",
            "task.started",
            "task.claude.invoke",
            "orch.stopping",
            "unit.job_ended",
            "unit.failed",
            "unit.failed",
            "orch.failed",
        ]
    );
    assert_eq!(store.close_dead_runs(&project).unwrap(), []);
    let view = store.newest_ended_run().unwrap().unwrap().view;
    assert_eq!((view.state.as_str(), view.exit_code), ("stopped", Some(130)));
}

#[test]
fn a_dead_run_lasted_until_its_last_sign_of_life() {
    let mut world = world();
    let store = &mut world.store;
    let after = |secs| now() + std::time::Duration::from_secs(secs);
    let (mut head, _) = store.create_run(&run("r1"), &dead(), now(), begins(&["a"])).unwrap();
    let lasted = |store: &Store| {
        let row = store.run_row(&run("r1")).unwrap().unwrap();
        store.run_lasted(&row.view).unwrap()
    };
    assert_eq!(lasted(store), Millis(0));
    let event = about("a", RunEvent::UnitStarted { slot: 1 });
    store.append_run(&run("r1"), &mut head, after(10), event).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(10));
    // Its agent was busy for longer than its scheduler had anything to say.
    let id: LoopId = "l1".parse().unwrap();
    let begins = loop_started("a", Some(run("r1")));
    let (mut head, _, mut view) = store.create(&id, &dead(), after(20), vec![begins], &[]).unwrap();
    let used = r#"{"type":"usage_seen","iteration":1,"attempt":1,"usage":null,"cost_usd":1.0}"#;
    let used: LoopEvent = serde_json::from_str(used).unwrap();
    store.append(&id, &mut head, &mut view, after(70), vec![used], &[]).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(70));
    // Found in the morning: the night is not counted, neither before nor after its end is written.
    let end = LoopEvent::LoopFinished {
        state: dacapo_core::event::FinishState::Stopped,
        reason: dacapo_core::event::Reason::Interrupted,
        detail: String::new(),
        exit_code: 130,
        iterations: 1,
    };
    store.append(&id, &mut head, &mut view, after(40_000), vec![end], &[]).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(70));
    store.close_dead_runs(&"p".parse().unwrap()).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(70));
}
