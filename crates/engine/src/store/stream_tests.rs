//! Streams in the journal. The events here are written as they are, without being decided: only these tests can, because
//! they are a part of the one module that appends.

use dacapo_core::{
    chain::ChainFault,
    duration::Millis,
    event::{
        Envelope, LoopEvent, LoopStarted, MergeMode, PlannedUnit, RunEnvelope, RunEvent, RunStarted, UnitEnd,
    },
    ids::{LoopId, ProjectId, RunId, UnitId},
    item::ItemSource,
    judge::signal::Facts,
    loop_machine::{Begin, Effect, Input, LoopState, Request},
    machine::Machine,
    unit::{
        Task, TaskSet, TaskSpec, TaskStatus,
        items::{self, UnitSource},
        schedule::{RunInput, RunMachine},
    },
    view::UnitStatus,
};

use super::{
    super::{EventScope, queue},
    *,
};
use crate::{observer::NoObserver, scheduler::close_dead_runs};
use std::path::Path;

/// A run with these `events` in it, without asking the machine.
fn create_run(
    store: &mut Store,
    id: &RunId,
    owner: &Identity,
    at: Timestamp,
    events: Vec<(Option<UnitId>, RunEvent)>,
) -> Result<(Stream<RunMachine>, Vec<RunEnvelope>), StoreError> {
    Stream::record_beginning(store, id.clone(), owner, at, events, &())
}

fn create(
    store: &mut Store,
    id: &LoopId,
    owner: &Identity,
    at: Timestamp,
    events: Vec<LoopEvent>,
) -> Result<(Stream<LoopMachine>, Vec<Envelope>), StoreError> {
    Stream::<LoopMachine>::record_beginning(store, id.clone(), owner, at, events, &[])
}

fn append<M: Notable>(
    store: &mut Store,
    stream: &mut Stream<M>,
    at: Timestamp,
    events: Vec<M::Event>,
) -> Result<Vec<M::Envelope>, StoreError> {
    stream.append(store, at, &without_secrets::<M>(events)?, &[])
}

fn fold(events: &[RunEnvelope]) -> <RunMachine as Machine>::State {
    let mut state = Default::default();
    events.iter().for_each(|envelope| RunMachine::apply_recorded(&mut state, envelope));
    state
}

fn all_of_runs(store: &Store) -> Vec<RunEnvelope> {
    let mut events = Vec::new();
    let take = |fact| {
        if let super::super::AnyEvent::Run(envelope) = fact {
            events.push(envelope);
        }
        Ok::<_, StoreError>(())
    };
    store.each_fact(&EventScope::All, 0, take).unwrap();
    events
}

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
    let plan = |name: &&str| PlannedUnit {
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
        tip: None,
        budget_of: "r1".parse().unwrap(),
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
        purpose: None,
        session: None,
        depth: 0,
        after: Vec::new(),
        prompt: "x".to_owned(),
        seed: "s".to_owned(),
        policy,
        base: None,
        outline: None,
        protected: Vec::new(),
        goalposts: None,
        sandbox: None,
        outside: Vec::new(),
        pid: 1,
        version: "0".to_owned(),
    }))
}

#[test]
fn runs_and_loops_count_in_one_row_and_are_read_back_as_they_were() {
    let mut world = world();
    let store = &mut world.store;
    let (mut head, first) =
        create_run(store, &run("r1"), &Identity::own(), now(), begins(&["a", "b"])).unwrap();
    let id: LoopId = "l1".parse().unwrap();
    let (mut loop_head, of_loop) =
        create(store, &id, &Identity::own(), now(), vec![loop_started("a", Some(run("r1")))]).unwrap();
    let second = append(store, &mut head, now(), about("a", warned("one"))).unwrap();
    let other: LoopId = "l2".parse().unwrap();
    create(store, &other, &Identity::own(), now(), vec![loop_started("a", None)]).unwrap();
    let more = vec![LoopEvent::Warned { text: "two".to_owned() }];
    append(store, &mut loop_head, now(), more).unwrap();
    assert_eq!((first[0].seq, of_loop[0].seq, second[0].seq, store.last_seq().unwrap()), (1, 2, 3, 5));

    let loaded = Stream::<RunMachine>::open(store, &run("r1")).unwrap().unwrap();
    assert_eq!((loaded.place, &loaded.view), (head.place, &head.view));
    let events = [first.clone(), second.clone()].concat();
    assert_eq!(loaded.state, fold(&events));
    assert_eq!(store.run_events(&run("r1"), 0).unwrap(), events);
    assert_eq!(store.run_events(&run("r1"), 2).unwrap(), second);
    assert_eq!(store.run_events(&run("r2"), 0).unwrap(), []);
    let places = |scope: EventScope, from: u64| -> Vec<u64> {
        let mut places = Vec::new();
        let take = |fact: super::super::AnyEvent| {
            places.push(fact.seq());
            Ok::<_, StoreError>(())
        };
        store.each_fact(&scope, from, take).unwrap();
        places
    };
    assert_eq!(places(EventScope::All, 2), [2, 3, 4, 5]);
    assert_eq!(places(EventScope::Run(run("r1")), 0), [1, 2, 3, 5], "not those of other runs");
    assert_eq!(places(EventScope::Unit(run("r1"), unit("a")), 0), [2, 3, 5]);
    assert_eq!(places(EventScope::Unit(run("r1"), unit("b")), 0), [0; 0]);
    assert_eq!(places(EventScope::Loop(id), 3), [5]);
    let project: ProjectId = "p".parse().unwrap();
    let places = |after| -> Vec<(String, u64)> {
        let of_units = store.loops_of_units(&project, after).unwrap();
        of_units.into_iter().map(|(unit, envelope)| (unit.to_string(), envelope.seq)).collect()
    };
    assert_eq!(places(0), [("a".to_owned(), 2), ("a".to_owned(), 5)], "not those that no run has started");
    assert_eq!(places(2), [("a".to_owned(), 5)]);
}

#[test]
fn a_run_has_one_writer() {
    // fault G10
    let mut world = world();
    let (mut mine, _) =
        create_run(&mut world.store, &run("r1"), &Identity::own(), now(), begins(&["a"])).unwrap();
    let mut yours = Store::open(&world.path).unwrap();
    let mut their_head = Stream::<RunMachine>::open(&yours, &run("r1")).unwrap().unwrap();
    append(&mut yours, &mut their_head, now(), about("a", warned("theirs"))).unwrap();
    let before = (mine.place, mine.view.clone());
    let lost = append(&mut world.store, &mut mine, now(), about("a", warned("mine")));
    assert!(matches!(lost, Err(StoreError::Overtaken { kind: "run", .. })), "{lost:?}");
    assert_eq!((mine.place, mine.view), before);
    assert_eq!(all_of_runs(&world.store).len(), 2);
}

#[test]
fn what_people_see_of_a_unit_follows_its_newest_run() {
    let mut world = world();
    let store = &mut world.store;
    let (mut head, _) = create_run(store, &run("r1"), &Identity::own(), now(), begins(&["b", "a"])).unwrap();
    let mut events = about("a", RunEvent::UnitStarted { slot: 1 });
    events.extend(about("a", RunEvent::TaskCompleted { task: 2, loop_id: "l1".parse().unwrap(), of: 1 }));
    append(store, &mut head, now(), events).unwrap();
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
    append(store, &mut head, now(), events).unwrap();
    assert_eq!((store.active_runs().unwrap().len(), head.view().state.as_str()), (0, "stopped"));
    create_run(store, &run("r2"), &Identity::own(), now(), begins(&["a"])).unwrap();
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
    let (mut head, _) = create_run(&mut world.store, &run("r1"), &dead(), now(), begins(&["a"])).unwrap();
    let works = about("a", RunEvent::UnitStarted { slot: 1 });
    append(&mut world.store, &mut head, now(), works).unwrap();
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
    let begun = create_run(&mut world.store, &run("r1"), &Identity::own(), now(), about("a", warned("x")));
    assert!(matches!(begun, Err(StoreError::Other { .. })), "it is refused");
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
    let (mut head, first) =
        create_run(&mut world.store, &run("r1"), &Identity::own(), now(), begins).unwrap();
    let told = about("a", warned(&format!("it printed {secret}")));
    let second = append(&mut world.store, &mut head, now(), told).unwrap();
    let shown = format!("{first:?} {second:?} {:?}", world.store.unit_views(None).unwrap());
    assert!(!shown.contains(&secret), "{shown}");
    assert!(shown.contains("it printed"), "{shown}");
    assert_eq!(all_of_runs(&world.store), [first, second].concat());
}

#[test]
fn a_dead_run_is_brought_to_its_end_once() {
    // req 25, fault F10: nothing that its loops did is lost or told twice.
    let mut world = world();
    let store = &mut world.store;
    let project: ProjectId = "p".parse().unwrap();
    let (mut head, _) = create_run(store, &run("r1"), &dead(), now(), begins(&["a", "b"])).unwrap();
    append(store, &mut head, now(), about("a", RunEvent::UnitStarted { slot: 1 })).unwrap();
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
        let set = TaskSet { unit: unit("a"), tasks, ready: vec![2] };
        started.policy.items = items::items(&set);
        let source = UnitSource { dir: "specs/tasks".to_owned(), turn: Some(set) };
        started.policy.source = Some(ItemSource::Unit(source));
    }
    let agent = r#"{"type":"agent_started","iteration":1,"attempt":1,"agent":"mine",
        "output":{"stdout":0,"stderr":0,"prompt":0,"gates":0}}"#;
    let agent: LoopEvent = serde_json::from_str(agent).unwrap();
    let id: LoopId = "l1".parse().unwrap();
    let (_, of_loop) = create(store, &id, &dead(), now(), vec![turn, agent]).unwrap();
    // The scheduler told of the loop's beginning before it died, and not of its agent.
    let started = RunEvent::TaskStarted { task: 2, title: "Task 2".to_owned(), of: of_loop[0].seq };
    append(store, &mut head, now(), about("a", started)).unwrap();

    assert_eq!(close_dead_runs(store, &"q".parse().unwrap()).unwrap(), []);
    assert_eq!(close_dead_runs(store, &project).unwrap(), [run("r1")]);
    let kinds: Vec<&str> = all_of_runs(store).iter().map(|envelope| envelope.event.kind()).collect();
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
    assert_eq!(close_dead_runs(store, &project).unwrap(), []);
    let view = store.newest_ended_run().unwrap().unwrap().view;
    assert_eq!((view.state.as_str(), view.exit_code), ("stopped", Some(130)));
}

#[test]
fn a_dead_run_lasted_until_its_last_sign_of_life() {
    let mut world = world();
    let store = &mut world.store;
    let after = |secs| now() + std::time::Duration::from_secs(secs);
    let (mut head, _) = create_run(store, &run("r1"), &dead(), now(), begins(&["a"])).unwrap();
    let lasted = |store: &Store| {
        let row = store.run_row(&run("r1")).unwrap().unwrap();
        store.run_lasted(&row.view).unwrap()
    };
    assert_eq!(lasted(store), Millis(0));
    let event = about("a", RunEvent::UnitStarted { slot: 1 });
    append(store, &mut head, after(10), event).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(10));
    // Its agent was busy for longer than its scheduler had anything to say.
    let id: LoopId = "l1".parse().unwrap();
    let begins = loop_started("a", Some(run("r1")));
    let (mut head, _) = create(store, &id, &dead(), after(20), vec![begins]).unwrap();
    let used = r#"{"type":"usage_seen","iteration":1,"attempt":1,"usage":null,"cost_usd":1.0}"#;
    let used: LoopEvent = serde_json::from_str(used).unwrap();
    append(store, &mut head, after(70), vec![used]).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(70));
    // Found in the morning: the night is not counted, neither before nor after its end is written.
    let end = LoopEvent::LoopFinished {
        state: dacapo_core::event::FinishState::Stopped,
        reason: dacapo_core::event::Reason::Interrupted,
        detail: String::new(),
        exit_code: 130,
        iterations: 1,
    };
    append(store, &mut head, after(40_000), vec![end]).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(70));
    close_dead_runs(store, &"p".parse().unwrap()).unwrap();
    assert_eq!(lasted(store), Millis::from_secs(70));
}

#[test]
fn every_step_is_decided_recorded_applied_and_published_together() {
    struct Seen(Vec<(u64, bool)>);
    impl Observer<RunMachine> for Seen {
        fn event(&mut self, envelope: &RunEnvelope, view: &dacapo_core::view::RunView) {
            self.0.push((envelope.seq, view.is_over()));
        }
    }
    let mut world = world();
    let RunEvent::OrchStarted(started) = begins(&["a", "b"]).remove(0).1 else { unreachable!() };
    let mut seen = Seen(Vec::new());
    let (mut stream, effects) = Stream::<RunMachine>::begin(
        &mut world.store,
        run("r1"),
        &Identity::own(),
        now(),
        RunInput::Begin(started),
        &(),
        &mut seen,
    )
    .unwrap();
    assert_eq!(effects.len(), 2, "both units are worked on");
    let told = |name: &str, event| RunInput::Told { unit: unit(name), event }.into();
    let ends = |name: &str| RunInput::JobEnded { unit: unit(name), detail: String::new() }.into();
    let fails = |name: &str| {
        told(name, RunEvent::UnitFailed { reason: UnitEnd::Error, detail: "x".into(), loop_id: None })
    };
    // The second input is decided in what follows from the first, although nothing is recorded yet.
    let inputs = [fails("a"), ends("a"), fails("b"), ends("b")];
    assert!(stream.step(&mut world.store, now(), inputs, &mut seen).unwrap().is_empty());
    let recorded = world.store.run_events(&run("r1"), 0).unwrap();
    assert_eq!(recorded.last().unwrap().event.kind(), "orch.failed");
    assert_eq!(stream.state, fold(&recorded));
    assert_eq!(
        seen.0.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
        (1..=recorded.len() as u64).collect::<Vec<_>>()
    );
    assert!(seen.0.last().unwrap().1 && world.store.active_runs().unwrap().is_empty());
}

#[test]
fn what_can_be_looked_at_at_once_is_recorded_with_the_beginning() {
    let mut world = world();
    let LoopEvent::LoopStarted(mut started) = loop_started("a", None) else { unreachable!() };
    started.prompt = "the user's own words".into();
    let begin = Input::Begin(Box::new(Begin { started: *started, warnings: Vec::new() }));
    let commits = |path: &Path| {
        u64::from_le_bytes(std::fs::read(queue::changes_at(path)).unwrap()[..8].try_into().unwrap())
    };
    let (id, before): (LoopId, _) = ("l1".parse().unwrap(), commits(&world.path));
    let look = |effects: &mut Vec<Effect>| {
        effects.retain(|effect| *effect != Effect::ReadMarkers);
        Some(Input::MarkersRead(Facts::default(), Box::default()))
    };
    let (owner, observer) = (Identity::own(), &mut NoObserver);
    let (stream, effects) = Stream::<LoopMachine>::begin_looking(
        &mut world.store,
        id.clone(),
        &owner,
        now(),
        begin,
        &[],
        look,
        observer,
    )
    .unwrap();
    let recorded = world.store.events(&id, 0).unwrap();
    assert!(matches!(
        recorded.iter().map(|envelope| &envelope.event).collect::<Vec<_>>()[..],
        [LoopEvent::LoopStarted(_), LoopEvent::IterationStarted { .. }, LoopEvent::AgentStarted { .. }]
    ));
    assert_eq!(commits(&world.path), before + 1);
    let mut folded = LoopState::default();
    recorded.iter().for_each(|envelope| LoopMachine::apply_recorded(&mut folded, envelope));
    assert_eq!(*stream.state(), folded);
    let starts =
        |effect: &Effect| matches!(effect, Effect::StartAgent { prompt, .. } if prompt.contains("own words"));
    assert_eq!(effects.iter().filter(|effect| starts(effect)).count(), 1, "{effects:?}");
    assert!(!effects.contains(&Effect::ReadMarkers));
    assert_eq!(Stream::<LoopMachine>::open(&world.store, &id).unwrap().unwrap().state(), stream.state());
}

#[test]
fn a_request_is_closed_with_what_follows_from_it_or_not_at_all() {
    let mut world = world();
    let LoopEvent::LoopStarted(started) = loop_started("a", None) else { unreachable!() };
    let begin = Input::Begin(Box::new(Begin { started: *started, warnings: Vec::new() }));
    let id: LoopId = "l1".parse().unwrap();
    let (mut stream, _) = Stream::<LoopMachine>::begin(
        &mut world.store,
        id.clone(),
        &dead(),
        now(),
        begin,
        &[],
        &mut NoObserver,
    )
    .unwrap();
    assert!(!world.store.request(&id, &Request::Pause { now: false }, now()).unwrap(), "no process runs it");
    let pending = world.store.pending(&id).unwrap().pop().unwrap();
    let arrival = || Arrival { input: Input::Requested(pending.request.clone()), request: Some(pending.id) };
    // Another process went on with the loop: nothing is recorded, and the request stays open for it.
    let mut other = Stream::<LoopMachine>::open(&world.store, &id).unwrap().unwrap();
    other.take_over(&mut world.store, &Identity::own(), now(), &[]).unwrap();
    let lost = stream.step(&mut world.store, now(), [arrival()], &mut NoObserver).err().unwrap();
    assert_eq!(lost.to_string(), "loop l1 was continued by another dacapo");
    assert_eq!(world.store.pending(&id).unwrap(), std::slice::from_ref(&pending));
    other.step(&mut world.store, now(), [arrival()], &mut NoObserver).unwrap();
    assert_eq!(world.store.pending(&id).unwrap(), []);
    assert_eq!(world.store.events(&id, 0).unwrap().pop().unwrap().event, LoopEvent::Paused);
}

#[test]
fn an_owner_that_slept_goes_on_unless_another_process_does() {
    // The laptop was closed for an hour: the lease is long over, and no other process took the loop.
    let mut world = world();
    let LoopEvent::LoopStarted(started) = loop_started("a", None) else { unreachable!() };
    let begin = Input::Begin(Box::new(Begin { started: *started, warnings: Vec::new() }));
    let (id, owner): (LoopId, _) = ("l1".parse().unwrap(), Identity::own());
    let (mut stream, _) = Stream::<LoopMachine>::begin(
        &mut world.store,
        id.clone(),
        &owner,
        now(),
        begin,
        &[],
        &mut NoObserver,
    )
    .unwrap();
    let after = |secs| now() + std::time::Duration::from_secs(secs);
    let notices = |text: &str| [Input::Noticed(text.to_owned()).into()];
    let lease = |store: &Store| store.row(&id).unwrap().unwrap().lease;
    assert_eq!((lease(&world.store).epoch, lease(&world.store).until), (1, after(60)));
    stream.step(&mut world.store, after(3600), notices("awake"), &mut NoObserver).unwrap();
    assert_eq!((lease(&world.store).epoch, lease(&world.store).until), (1, after(3660)), "it is renewed");
    // Once more; meanwhile another one went on with it. What the first wakes up to say is refused, and nothing changes.
    let mut yours = Store::open(&world.path).unwrap();
    let mut other = Stream::<LoopMachine>::open(&yours, &id).unwrap().unwrap();
    other.take_over(&mut yours, &owner, after(7200), &[]).unwrap();
    let recorded = world.store.last_seq().unwrap();
    let before = stream.state().clone();
    let late = stream.step(&mut world.store, after(7300), notices("late"), &mut NoObserver).err().unwrap();
    assert_eq!(late.to_string(), "loop l1 was continued by another dacapo");
    assert_eq!((world.store.last_seq().unwrap(), stream.state()), (recorded, &before));
    other.step(&mut yours, after(7300), notices("mine"), &mut NoObserver).unwrap();
    assert_eq!(lease(&world.store).epoch, 2);
}

#[test]
fn an_owner_that_has_nothing_to_record_renews_its_lease_unless_another_took_over() {
    let mut world = world();
    let id: LoopId = "l1".parse().unwrap();
    let mut stream = long_loop(&mut world.store, &id, 1);
    let after = |secs| now() + std::time::Duration::from_secs(secs);
    let lease = |store: &Store| store.row(&id).unwrap().unwrap().lease;
    let (recorded, due) = (world.store.last_seq().unwrap(), stream.renewal_is_due_at());
    assert!(due > Instant::now(), "it has just recorded something");
    stream.renew_lease(&mut world.store, after(20)).unwrap();
    assert_eq!((lease(&world.store).epoch, lease(&world.store).until), (1, after(80)));
    assert!(stream.renewal_is_due_at() >= due);
    let mut yours = Store::open(&world.path).unwrap();
    let mut other = Stream::<LoopMachine>::open(&yours, &id).unwrap().unwrap();
    other.take_over(&mut yours, &Identity::own(), after(90), &[]).unwrap();
    let late = stream.renew_lease(&mut world.store, after(100)).err().unwrap();
    assert_eq!(late.to_string(), "loop l1 was continued by another dacapo");
    assert_eq!((lease(&world.store).epoch, lease(&world.store).until), (2, after(150)));
    assert_eq!(world.store.last_seq().unwrap(), recorded, "a renewal is no event");
}

#[test]
fn what_is_written_about_a_dead_owner_shuts_it_out() {
    let mut world = world();
    let store = &mut world.store;
    let id: LoopId = "l1".parse().unwrap();
    let mut owner = long_loop(store, &id, 1);
    let mut finder = Stream::<LoopMachine>::open(store, &id).unwrap().unwrap();
    finder.shut_out_owner();
    finder.step(store, now(), [Input::OwnerDied.into()], &mut NoObserver).unwrap();
    let epoch = |store: &Store| store.row(&id).unwrap().unwrap().lease.epoch;
    assert_eq!((epoch(store), finder.place.epoch), (2, 2));
    // Even an owner that knows what was written meanwhile.
    owner.place.head = finder.place.head;
    let late = owner.step(store, now(), [Input::Noticed("late".to_owned()).into()], &mut NoObserver);
    assert_eq!(late.err().unwrap().to_string(), "loop l1 was continued by another dacapo");
    assert!(owner.renew_lease(store, now()).is_err());
    finder.step(store, now(), [Input::Noticed("more".to_owned()).into()], &mut NoObserver).unwrap();
    assert_eq!(epoch(store), 2, "once is enough");
    // The end of a run is written in the same way.
    let (mut head, _) = create_run(store, &run("r1"), &dead(), now(), begins(&["a"])).unwrap();
    close_dead_runs(store, &"p".parse().unwrap()).unwrap();
    let row = store.run_row(&run("r1")).unwrap().unwrap();
    assert!(row.view.is_over() && row.lease.epoch == 2, "{row:?}");
    head.place.head = store.last_seq().unwrap().cast_signed();
    let late = append(store, &mut head, now(), about("a", warned("late")));
    assert!(matches!(late, Err(StoreError::Overtaken { kind: "run", .. })), "{late:?}");
}

#[test]
fn an_owner_on_another_machine_holds_a_stream_as_long_as_it_said() {
    let mut world = world();
    let LoopEvent::LoopStarted(started) = loop_started("a", None) else { unreachable!() };
    let begin = || Input::Begin(Box::new(Begin { started: (*started).clone(), warnings: Vec::new() }));
    for (id, at, runs) in [("l1", Timestamp::now(), true), ("l2", now(), false)] {
        let id: LoopId = id.parse().unwrap();
        Stream::<LoopMachine>::begin(
            &mut world.store,
            id.clone(),
            &dead(),
            at,
            begin(),
            &[],
            &mut NoObserver,
        )
        .unwrap();
        assert!(
            !world.store.row(&id).unwrap().unwrap().is_running(),
            "of this machine the kernel knows better"
        );
        world
            .store
            .db
            .execute("UPDATE streams SET owner_host = 'elsewhere' WHERE id = ?1", [id.as_str()])
            .unwrap();
        assert_eq!(world.store.row(&id).unwrap().unwrap().is_running(), runs, "{id}");
    }
}

/// A loop, and `events` more events in it, in one append.
fn long_loop(store: &mut Store, id: &LoopId, events: usize) -> Stream<LoopMachine> {
    let LoopEvent::LoopStarted(started) = loop_started("a", None) else { unreachable!() };
    let begin = Input::Begin(Box::new(Begin { started: *started, warnings: Vec::new() }));
    let (mut stream, _) =
        Stream::<LoopMachine>::begin(store, id.clone(), &Identity::own(), now(), begin, &[], &mut NoObserver)
            .unwrap();
    notice(store, &mut stream, 0..events);
    stream
}

/// One event for each number.
fn notice(store: &mut Store, stream: &mut Stream<LoopMachine>, numbers: std::ops::Range<usize>) {
    let inputs = numbers.map(|n| Input::Noticed(format!("notice {n}")).into());
    stream.step(store, now(), inputs, &mut NoObserver).unwrap();
}

fn checkpoints(store: &Store) -> Vec<(i64, String)> {
    store.query("SELECT seq, state FROM checkpoints", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

#[test]
fn a_stream_that_is_opened_at_its_checkpoint_stands_as_its_events_say() {
    let mut world = world();
    let (store, id) = (&mut world.store, "l1".parse().unwrap());
    let mut stream = long_loop(store, &id, 511);
    notice(store, &mut stream, 511..520);
    assert_eq!(
        checkpoints(store).first().map(|row| row.0),
        Some(512),
        "at the place before the newest append"
    );
    notice(store, &mut stream, 520..530);
    assert_eq!(checkpoints(store).first().map(|row| row.0), Some(512), "not each time");
    let open = |store: &Store| {
        let opened = Stream::<LoopMachine>::open(store, &id).unwrap().unwrap();
        (opened.place, opened.state.clone(), opened.view.clone(), opened.journal_hash())
    };
    let short = open(store);
    assert_eq!(short, (stream.place, stream.state.clone(), stream.view.clone(), stream.journal_hash()));
    assert!(store.had_journal_hash(&id, &short.3).unwrap(), "the hash is that of all events");
    store.db.execute("DELETE FROM checkpoints", []).unwrap();
    assert_eq!(open(store), short);
    // It was not the events before the checkpoint that were read; a proof reads them all the same.
    notice(store, &mut stream, 530..600);
    notice(store, &mut stream, 600..1100);
    notice(store, &mut stream, 1100..1101);
    assert_eq!(checkpoints(store).first().map(|row| row.0), Some(1101));
    store.db.execute("UPDATE events SET body = '?' WHERE seq = 7", []).unwrap();
    assert_eq!(open(store).1, stream.state);
    assert!(
        !store.had_journal_hash(&id, &stream.journal_hash()).unwrap(),
        "the events are not what they were"
    );
    store.db.execute("DELETE FROM checkpoints", []).unwrap();
    let fault = ChainFault::Edited(7);
    assert!(
        matches!(Stream::<LoopMachine>::open(store, &id), Err(StoreError::Edited { fault: found, .. }) if found == fault)
    );
}

#[test]
fn a_checkpoint_that_does_not_fit_is_passed_over() {
    let mut world = world();
    let (store, id) = (&mut world.store, "l1".parse().unwrap());
    let mut stream = long_loop(store, &id, 600);
    long_loop(store, &"l2".parse().unwrap(), 1);
    notice(store, &mut stream, 600..601);
    let wrong = "json_set(state, '$.counters.iterations', 77)";
    for (what, misfit) in [
        ("made by another version of core", format!("folded_by = 'x', state = {wrong}")),
        ("at no event", format!("seq = 5000, state = {wrong}")),
        ("at an event of another stream", format!("seq = 602, state = {wrong}")),
    ] {
        store.db.execute("UPDATE checkpoints SET seq = 601", []).unwrap();
        let opened = |store: &Store| Stream::<LoopMachine>::open(store, &id).unwrap().unwrap();
        let before = checkpoints(store).len();
        store.db.execute_batch(&format!("SAVEPOINT misfit; UPDATE checkpoints SET {misfit}")).unwrap();
        assert_eq!((before, opened(store).state), (1, stream.state.clone()), "{what}");
        store.db.execute_batch("ROLLBACK TO misfit; RELEASE misfit").unwrap();
    }
}

#[test]
fn an_edited_checkpoint_and_an_edited_beginning_behind_one_are_refused() {
    let mut world = world();
    let (store, id) = (&mut world.store, "l1".parse().unwrap());
    let mut stream = long_loop(store, &id, 600);
    notice(store, &mut stream, 600..601);
    for (what, edit) in [
        ("another state", "UPDATE checkpoints SET state = json_set(state, '$.counters.iterations', 77)"),
        ("a state of another shape", "UPDATE checkpoints SET state = '{}'"),
        ("another hash", "UPDATE checkpoints SET hash = x'00'"),
        ("another keyed hash", "UPDATE checkpoints SET mac = zeroblob(32)"),
        // The state of a loop has its settings from its first event.
        (
            "other settings",
            "UPDATE events SET body = replace(body, '\"prompt\":', '\"prompt\": ') WHERE seq = 1",
        ),
        ("another place", "UPDATE checkpoints SET seq = 300"),
    ] {
        store.db.execute_batch("SAVEPOINT edit").unwrap();
        assert_eq!(store.db.execute(edit, []).unwrap(), 1, "{what}");
        let fault = match Stream::<LoopMachine>::open(store, &id) {
            Err(StoreError::Edited { fault, .. }) => fault,
            _ => panic!("{what}: it was opened"),
        };
        assert!(matches!(fault, ChainFault::OtherCheckpoint(_)), "{what}: {fault}");
        store.db.execute_batch("ROLLBACK TO edit; RELEASE edit").unwrap();
    }
    assert!(Stream::<LoopMachine>::open(store, &id).unwrap().is_some());
}

/// What a program without the key can do to a stream of five events and to the one beside it.
const EDITS: [(&str, &str); 22] = [
    ("a body", "UPDATE events SET body = replace(body, 'notice 1', 'notice 9') WHERE seq = 3"),
    ("a body by a space", "UPDATE events SET body = body || ' ' WHERE seq = 3"),
    ("a time", "UPDATE events SET at = at + 1 WHERE seq = 3"),
    ("a subject", "UPDATE events SET subject = 'u' WHERE seq = 3"),
    ("a removed event", "DELETE FROM events WHERE seq = 3"),
    ("the first event removed", "DELETE FROM events WHERE seq = 1"),
    ("the last event removed", "DELETE FROM events WHERE seq = 5"),
    (
        "the last event removed, and the head",
        "DELETE FROM events WHERE seq = 5; UPDATE streams SET head = 4 WHERE key = 1",
    ),
    ("an event moved to another stream", "UPDATE events SET stream = 2 WHERE seq = 3"),
    ("an event of another stream", "UPDATE events SET stream = 1 WHERE seq = 7"),
    (
        "the last event of another stream",
        "UPDATE events SET stream = 1 WHERE seq = 10; UPDATE streams SET head = 10 WHERE key = 1",
    ),
    (
        "an event added",
        "INSERT INTO events (seq, stream, at, body, chain) SELECT 99, 1, at, body, chain FROM events WHERE seq = 5",
    ),
    (
        "an event added, and the head",
        "INSERT INTO events (seq, stream, at, body, chain) SELECT 99, 1, at, body, chain FROM events WHERE seq = 5; UPDATE streams SET head = 99 WHERE key = 1",
    ),
    (
        "an event without a hash",
        "INSERT INTO events (seq, stream, at, body) SELECT 99, 1, at, body FROM events WHERE seq = 5; UPDATE streams SET head = 99 WHERE key = 1",
    ),
    (
        "two events changed places",
        "UPDATE events SET body = (SELECT group_concat(o.body, '') FROM events o WHERE o.seq = 7 - events.seq) WHERE seq IN (3, 4)",
    ),
    ("a hash", "UPDATE events SET chain = zeroblob(32) WHERE seq = 4"),
    ("a hash taken off", "UPDATE events SET chain = NULL WHERE seq = 4"),
    (
        "all hashes taken off",
        "UPDATE events SET chain = NULL WHERE stream = 1; UPDATE streams SET mac = NULL WHERE key = 1",
    ),
    ("the view", "UPDATE streams SET view = replace(view, '\"task\":', '\"task\": ') WHERE key = 1"),
    ("the keyed hash", "UPDATE streams SET mac = zeroblob(32) WHERE key = 1"),
    (
        "the keyed hash of another stream",
        "UPDATE streams SET mac = (SELECT o.mac FROM streams o WHERE o.key = 2) WHERE key = 1",
    ),
    (
        "two streams that changed names",
        "UPDATE streams SET id = 'x' WHERE key = 1; UPDATE streams SET id = 'l1' WHERE key = 2",
    ),
];

#[test]
fn whatever_is_edited_in_a_stream_it_is_not_gone_on_with_and_the_audit_says_why() {
    for (what, edit) in EDITS {
        let mut world = world();
        let (store, id): (_, LoopId) = (&mut world.store, "l1".parse().unwrap());
        long_loop(store, &id, 4);
        long_loop(store, &"l2".parse().unwrap(), 4);
        assert_eq!(store.audit::<LoopMachine>(&id).unwrap().fault, None);
        let before = store.db.total_changes();
        store.db.execute_batch(edit).unwrap();
        assert!(store.db.total_changes() > before, "{what}: nothing was edited");
        let opened = Stream::<LoopMachine>::open(store, &id).err();
        assert!(matches!(opened, Some(StoreError::Edited { kind: "loop", .. })), "{what}: {opened:?}");
        assert!(store.audit::<LoopMachine>(&id).unwrap().fault.is_some(), "{what}");
        assert!(store.must_be_unedited::<LoopMachine>(&id).is_err(), "{what}");
    }
}

#[test]
fn hashes_that_were_computed_anew_without_the_key_are_found() {
    let mut world = world();
    let (store, id): (_, LoopId) = (&mut world.store, "l1".parse().unwrap());
    long_loop(store, &id, 4);
    store
        .db
        .execute("UPDATE events SET body = replace(body, 'notice 1', 'notice 9') WHERE seq = 3", [])
        .unwrap();
    let rows: Vec<(i64, i64, String)> = store
        .query("SELECT seq, at, body FROM events WHERE stream = 1 ORDER BY seq", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    let mut link = Link::beginning("loop", "l1", &JournalHash::default().hex());
    for (seq, at, body) in &rows {
        link = link.next(ChainedEvent { seq: seq.cast_unsigned(), at: *at, subject: None, body });
        store.db.execute("UPDATE events SET chain = ?2 WHERE seq = ?1", params![seq, link.bytes()]).unwrap();
    }
    assert_eq!(store.audit::<LoopMachine>(&id).unwrap().fault, Some(ChainFault::OtherMac(5)));
}

#[test]
fn columns_that_a_stream_is_found_by_are_compared_with_its_events() {
    for (column, edit) in [
        ("project", "project = 'x'"),
        ("parent", "parent = 'l9'"),
        ("task", "task = 'x'"),
        ("workspace", "workspace = '/x'"),
        ("run", "run = 'r1'"),
        ("over", "over = 1"),
    ] {
        let mut world = world();
        let (store, id): (_, LoopId) = (&mut world.store, "l1".parse().unwrap());
        long_loop(store, &id, 4);
        assert_eq!(store.audit::<LoopMachine>(&id).unwrap().columns, Vec::<&str>::new());
        store.db.execute(&format!("UPDATE streams SET {edit}"), []).unwrap();
        assert_eq!(store.audit::<LoopMachine>(&id).unwrap().columns, [column]);
    }
}

#[test]
fn a_clock_that_went_back_is_noted_and_stops_nothing() {
    let mut world = world();
    let (store, id): (_, LoopId) = (&mut world.store, "l1".parse().unwrap());
    let mut stream = long_loop(store, &id, 2);
    let earlier = now() - jiff::SignedDuration::from_secs(3600);
    stream.step(store, earlier, [Input::Noticed("earlier".into()).into()], &mut NoObserver).unwrap();
    let audit = store.audit::<LoopMachine>(&id).unwrap();
    assert_eq!((audit.fault, audit.clock_went_back_at), (None, Some(4)));
}

#[test]
fn without_its_key_nothing_is_appended_or_opened() {
    let World { _dir, path, mut store } = world();
    let id: LoopId = "l1".parse().unwrap();
    long_loop(&mut store, &id, 2);
    drop(store);
    std::fs::remove_file(path.parent().unwrap().join("keys/machine.key")).unwrap();
    let mut store = Store::open(&path).unwrap();
    assert_eq!(store.events(&id, 0).unwrap().len(), 3, "it can be read");
    assert!(matches!(Stream::<LoopMachine>::open(&store, &id), Err(StoreError::Key(_))));
    assert!(matches!(store.audit::<LoopMachine>(&id), Err(StoreError::Key(_))));
    let begun =
        create(&mut store, &"l2".parse().unwrap(), &Identity::own(), now(), vec![loop_started("b", None)]);
    assert!(matches!(begun, Err(StoreError::Key(_))));
}

#[test]
fn a_journal_from_before_there_were_hashes_goes_on_and_is_chained_from_there() {
    let World { _dir, path, mut store } = world();
    let id: LoopId = "l1".parse().unwrap();
    long_loop(&mut store, &id, 2);
    // As version 5 left it.
    store
        .db
        .execute_batch(
            "ALTER TABLE events DROP COLUMN chain; ALTER TABLE streams DROP COLUMN mac; DROP TABLE attestations;
             DROP INDEX streams_run; DROP INDEX streams_ended; DROP INDEX streams_asking; DROP INDEX events_iterations;
             ALTER TABLE streams DROP COLUMN ended; ALTER TABLE streams DROP COLUMN asks;
             DROP TABLE looks; DROP TABLE messages; DROP TABLE channels;
             PRAGMA user_version = 5",
        )
        .unwrap();
    drop(store);
    // A journal that had hashes and has none now is refused, unless the user says that it was put back.
    assert!(matches!(Store::open(&path).err(), Some(StoreError::Key(_))));
    std::fs::remove_file(path.parent().unwrap().join("keys/chained-from")).unwrap();
    let mut store = Store::open(&path).unwrap();
    let audit = store.audit::<LoopMachine>(&id).unwrap();
    assert_eq!((audit.fault, audit.events, audit.unchained), (None, 3, 3));
    let mut stream = Stream::<LoopMachine>::open(&store, &id).unwrap().unwrap();
    notice(&mut store, &mut stream, 2..4);
    let audit = store.audit::<LoopMachine>(&id).unwrap();
    assert_eq!((audit.fault, audit.events, audit.unchained), (None, 5, 3));
    // From then on the old events are covered, too.
    store.db.execute("UPDATE events SET body = body || ' ' WHERE seq = 2", []).unwrap();
    assert_eq!(store.audit::<LoopMachine>(&id).unwrap().fault, Some(ChainFault::Edited(4)));
}

#[test]
fn a_short_stream_has_no_checkpoint_and_a_stream_that_ends_has_one() {
    let mut world = world();
    let store = &mut world.store;
    for (id, events, expected) in [("l1", 20, 0), ("l2", 100, 1)] {
        let mut stream = long_loop(store, &id.parse().unwrap(), events);
        assert_eq!(checkpoints(store).len(), 0);
        stream.step(store, now(), [Input::OwnerDied.into()], &mut NoObserver).unwrap();
        assert!(stream.state().over().is_some());
        assert_eq!(checkpoints(store).len(), expected, "{id}");
    }
}

#[test]
fn the_users_own_words_do_not_get_into_a_checkpoint() {
    // fault K9
    let mut world = world();
    let (store, id): (_, LoopId) = (&mut world.store, "l1".parse().unwrap());
    let secret = format!("sk-ant-api03-{}", "a1B2".repeat(20));
    let LoopEvent::LoopStarted(mut started) = loop_started("a", None) else { unreachable!() };
    started.prompt = format!("Use {secret}");
    let begin = Input::Begin(Box::new(Begin { started: *started, warnings: Vec::new() }));
    let (mut stream, _) =
        Stream::<LoopMachine>::begin(store, id.clone(), &Identity::own(), now(), begin, &[], &mut NoObserver)
            .unwrap();
    stream.say_in_own_words(format!("Use {secret}"));
    assert!(stream.state().started.as_ref().unwrap().prompt.contains(&secret));
    notice(store, &mut stream, 0..600);
    notice(store, &mut stream, 600..601);
    let (_, state) = checkpoints(store).pop().unwrap();
    assert!(!state.contains(&secret), "{state}");
    let opened = Stream::<LoopMachine>::open(store, &id).unwrap().unwrap();
    assert_eq!(opened.state().started.as_ref().unwrap().prompt, "Use [redacted]");
}

#[test]
fn an_append_writes_no_index_of_streams() {
    let world = world();
    let sql = format!("EXPLAIN {MOVE}");
    let codes: Vec<String> =
        world.store.query(&sql, params![1, 1, 1, 1, "", 1, 1, None::<Vec<u8>>], |row| row.get(1)).unwrap();
    assert!(codes.iter().any(|code| code == "Insert"), "{codes:?}");
    assert!(!codes.iter().any(|code| code.starts_with("Idx")), "{codes:?}");
}

#[test]
fn writers_wait_as_long_as_it_takes() {
    let World { _dir, path, store } = world();
    drop(store);
    let path = &path;
    let writers = 8;
    std::thread::scope(|scope| {
        // A connection that is not in the queue has the database, for longer than a wait that is remembered.
        let holder = rusqlite::Connection::open(path).unwrap();
        holder.execute_batch("BEGIN IMMEDIATE").unwrap();
        let handles: Vec<_> = (0..writers)
            .map(|n| {
                scope.spawn(move || {
                    let mut store = Store::open(path).unwrap();
                    let id = run(&format!("r{n}"));
                    create_run(&mut store, &id, &Identity::own(), now(), begins(&["a"])).unwrap();
                    store.long_wait()
                })
            })
            .collect();
        // One of them has its turn in the queue and waits for the database. From here on the length is the test's input.
        let turn = super::super::open_changes(&super::super::changes_at(path)).unwrap();
        let is_taken = || {
            use rustix::fs::{FlockOperation, flock};
            let free = flock(&turn, FlockOperation::NonBlockingLockExclusive).is_ok();
            if free {
                flock(&turn, FlockOperation::Unlock).unwrap();
            }
            !free
        };
        dacapo_testkit::wait_until("a writer waits", std::time::Duration::from_secs(60), is_taken);
        std::thread::sleep(super::super::LONG);
        holder.execute_batch("COMMIT").unwrap();
        let waits: Vec<_> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
        assert!(waits.iter().any(Option::is_some), "{waits:?}");
    });
    let store = Store::open(path).unwrap();
    assert_eq!(store.last_seq().unwrap(), writers);
    let longest = store.longest_wait().unwrap();
    assert!(longest.waited_ms >= 1000 && longest.pid == std::process::id(), "{longest:?}");
}

#[test]
fn who_follows_the_journal_is_told_when_there_is_something_to_read() {
    let dir = tempfile::tempdir().unwrap();
    let home = crate::home::Home::at(dir.path().to_owned());
    let mut store = Store::open(&home.database()).unwrap();
    let watch = crate::watch::Watch::journal(&home).unwrap();
    let reader = Store::open(&home.database()).unwrap();
    let longest = std::time::Duration::from_secs(60);
    let follower = std::thread::spawn(move || {
        let mut wakes = Vec::new();
        while reader.last_seq().unwrap() < 1 {
            let before = std::time::Instant::now();
            watch.wait(longest).unwrap();
            wakes.push(before.elapsed());
        }
        wakes
    });
    create_run(&mut store, &run("r1"), &Identity::own(), now(), begins(&["a"])).unwrap();
    let wakes = follower.join().unwrap();
    assert!(wakes.iter().all(|took| *took < longest), "it was not woken: {wakes:?}");
}

/// The engine's own sources, without tests.
fn sources() -> Vec<(String, String)> {
    fn read(folder: &std::path::Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap().to_owned();
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    let mut found = Vec::new();
    read(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
    found.retain(|(path, _)| !path.ends_with("_tests.rs") && !path.contains("/tests/"));
    found
}

#[test]
fn nothing_but_a_stream_decides_or_appends() {
    let of_stream = |path: &str| path.ends_with("store/stream.rs");
    for (path, text) in sources() {
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for only_there in
            ["decide(", "loop_machine::decide", "schedule::decide", "INTO events", "INTO streams"]
        {
            let holds = code.contains(only_there);
            assert!(!holds || of_stream(&path), "{path} has `{only_there}`: use `Stream::step`");
        }
    }
    let stream = sources().into_iter().find(|(path, _)| of_stream(path)).unwrap().1;
    for once in ["INTO events", "INTO streams"] {
        assert_eq!(stream.matches(once).count(), 1, "{once}");
    }
    assert_eq!(stream.matches("pub fn append").count() + stream.matches("pub(super) fn append").count(), 0);
}
