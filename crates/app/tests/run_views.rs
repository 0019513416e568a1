//! Runs of units as `status`, `events` and `why` show them, from a journal that was written for it.

use dacapo_core::{
    event::{LoopEvent, MergeMode, PlannedUnit, RunEvent, RunStarted, UnitEnd},
    ids::RunId,
    loop_machine::{Begin, Input, LoopMachine},
    unit::schedule::{RunInput, RunMachine},
};
use dacapo_engine::{
    observer::NoObserver,
    process::identity::Identity,
    store::{Store, Stream},
};
use dacapo_testkit::TestEnv;
use jiff::Timestamp;
use serde_json::Value;

struct World {
    env: TestEnv,
    store: Store,
    stream: Stream<RunMachine>,
    run: RunId,
}

impl World {
    /// What the job of a unit says; gives the place of the newest event.
    fn tell(&mut self, unit: &str, event: RunEvent) -> u64 {
        self.happens(RunInput::Told { unit: unit.parse().expect("a name"), event })
    }

    /// The run comes to its end: the unit that is worked on fails, and the jobs end.
    fn ends(&mut self) {
        let (reason, detail) = (UnitEnd::Failed, "its tasks fail".to_owned());
        self.tell("auth", RunEvent::UnitFailed { reason, detail, loop_id: None });
        for unit in ["auth", "core"] {
            let unit = unit.parse().expect("a name");
            self.happens(RunInput::JobEnded { unit, detail: String::new() });
        }
    }

    fn happens(&mut self, input: RunInput) -> u64 {
        let now = Timestamp::now();
        self.stream.step(&mut self.store, now, [input.into()], &mut NoObserver).expect("a journal");
        self.store.last_seq().expect("a journal")
    }

    fn says(&self, args: &[&str]) -> String {
        self.env.run(args).assert_code(0).stdout
    }

    fn lines(&self, args: &[&str]) -> Vec<Value> {
        self.says(args).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// A run of `auth`, `core` and `web`, which waits for `core`; its scheduler is `owner`.
fn world(owner: &Identity) -> World {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    std::fs::create_dir_all(env.dacapo_home()).expect("a journal");
    let mut store = Store::open(&env.dacapo_home().join("dacapo.db")).expect("a journal");
    let plan = |name: &str, first: &[&str]| PlannedUnit {
        unit: name.parse().expect("a name"),
        depends_on: first.iter().map(|name| name.parse().expect("a name")).collect(),
        tasks: vec![(1, "Sign in".to_owned()), (2, "Sign out".to_owned())],
        complete: vec![1],
    };
    let started = RunStarted {
        project: "p".parse().expect("a name"),
        root: "/repository".into(),
        target: "main".to_owned(),
        merge: MergeMode::Merge,
        parallel: 2,
        units: vec![plan("auth", &[]), plan("core", &[]), plan("web", &["core"])],
        settings: Box::new(dacapo_core::unit::settings::RunSettings::new(
            dacapo_core::policy::Policy::restart(
                dacapo_core::agent::AgentCommand::parse("agent", &[]).expect("right"),
                dacapo_core::judge::promise::PromiseRule::new("DONE").expect("right"),
            ),
        )),
        tip: None,
        budget_of: "r1".parse().expect("right"),
        pid: 1,
        version: "0".to_owned(),
    };
    let run: RunId = "abcdefghjk".parse().expect("a name");
    let begin = RunInput::Begin(Box::new(started));
    let (stream, _) = Stream::<RunMachine>::begin(
        &mut store,
        run.clone(),
        owner,
        Timestamp::now(),
        begin,
        &(),
        &mut NoObserver,
    )
    .expect("a journal");
    let mut world = World { env, store, stream, run };
    let (path, branch, base) = ("/w/auth".into(), "dacapo/auth-1a2b3c".to_owned(), "b".to_owned());
    world.tell("auth", RunEvent::WorktreeCreated { path, branch, base });
    let detail = "the baseline checks stay red".to_owned();
    world.tell("core", RunEvent::UnitFailed { reason: UnitEnd::Baseline, detail, loop_id: None });
    world
}

fn gone() -> Identity {
    Identity { pid: 1, start: 1, boot: "another boot".to_owned() }
}

#[test]
fn status_shows_units_below_the_loops() {
    // req 58
    let mut world = world(&Identity::own());
    insta::assert_snapshot!(world.env.redact(&world.says(&["status"])), @"
    No active Ralph loops.

    Needs you:
      unit core failed, [DURATION] ago: the baseline checks stay red
        dacapo unit run --unit core

    Units of /repository (run abcdefghjk, target main): 0 of 3 merged
      auth  working  tasks 1/2  slot 1  dacapo/auth-1a2b3c
      core  failed  tasks 1/2  the baseline checks stay red
      web   blocked by core
    ");
    insta::assert_snapshot!(world.says(&["status", "auth"]), @"
    Unit auth: working
      project p, run abcdefghjk
      tasks 1/2
         1  complete     Sign in
         2  pending      Sign out
      slot 1
      branch dacapo/auth-1a2b3c
      worktree /w/auth
    ");
    assert_eq!(world.says(&["status", "--json"]).trim(), "[]", "a list of loops, whatever else there is");
    let units: Value = serde_json::from_str(&world.says(&["status", "--units", "--json"])).unwrap();
    let names: Vec<&str> =
        units.as_array().unwrap().iter().map(|unit| unit["unit"].as_str().unwrap()).collect();
    assert_eq!(names, ["auth", "core", "web"]);
    assert_eq!((&units[0]["status"], &units[2]["blocked_by"][0]), (&"working".into(), &"core".into()));
    world.env.run(["status", "nobody"]).assert_code(2);
    world.env.run(["status", "--units", "nobody"]).assert_code(2);

    world.ends();
    assert!(
        world
            .says(&["status"])
            .contains("Units of /repository (run abcdefghjk, target main, failed): 0 of 3 merged")
    );
}

#[test]
fn a_run_whose_scheduler_died_is_stopped_and_so_are_its_units() {
    // fault F10
    let world = world(&gone());
    let status = world.says(&["status"]);
    assert!(status.contains("Units of /repository (run abcdefghjk, target main, stopped)"), "{status}");
    assert!(status.contains("auth  stopped"), "{status}");
    assert!(world.says(&["why", "auth"]).contains("`dacapo unit run` goes on with it"));
}

#[test]
fn why_says_what_became_of_a_unit() {
    let world = world(&Identity::own());
    insta::assert_snapshot!(world.says(&["why", "core"]), @"
    Failed: the baseline checks stay red; 1 of 2 tasks complete.
    Next: mend that, then `dacapo unit run --unit core`.
    ");
    insta::assert_snapshot!(world.says(&["why", "web"]), @"
    Blocked: core came to no good end.
    Next: `dacapo why core` says why; after that `dacapo unit run` goes on.
    ");
    world.env.run(["why", "nobody"]).assert_code(2);
}

#[test]
fn events_of_runs_and_loops_are_one_journal() {
    // req 57
    let mut world = world(&Identity::own());
    world.env.run_agent("promise", ["--task", "other"]).assert_code(0);
    let last = world.tell("auth", RunEvent::UnitWarned { text: "late".to_owned() });
    let all = world.lines(&["events", "--json"]);
    let seqs: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    assert_eq!(all[0]["type"], "orch.started");
    assert!(all.iter().any(|event| event["type"] == "loop_finished"));
    assert_eq!(all.last().unwrap()["type"], "unit.warned");
    assert_eq!(world.lines(&["events", "--json", "--from", &last.to_string()]).len(), 1);

    let of_run = world.lines(&["events", "abcdefghjk", "--json"]);
    assert!(of_run.iter().all(|event| event["run"] == "abcdefghjk"), "{of_run:?}");
    let of_unit = world.lines(&["events", "auth", "--json"]);
    let kinds: Vec<&str> = of_unit.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["unit.queued", "unit.started", "worktree.created", "unit.warned"]);
    assert_eq!(world.lines(&["events", "other", "--json"])[0]["type"], "loop_started");
    let words = world.says(&["events", "auth"]);
    assert!(words.contains("abcdefghjk  auth: started in slot 1"), "{words}");

    // A unit's loops are its own too.
    let first = world.env.events(Some("other")).remove(0);
    let event: LoopEvent = serde_json::from_value(first).unwrap();
    let LoopEvent::LoopStarted(mut started) = event else { panic!("a loop begins with its beginning") };
    (started.run, started.task) = (Some(world.run.clone()), "auth".parse().unwrap());
    let begin = Input::Begin(Box::new(Begin { started: *started, warnings: Vec::new() }));
    let (id, now) = ("mmmmmmmmmm".parse().unwrap(), Timestamp::now());
    Stream::<LoopMachine>::begin(&mut world.store, id, &gone(), now, begin, &[], &mut NoObserver).unwrap();
    assert_eq!(world.lines(&["events", "auth", "--json"]).last().unwrap()["loop"], "mmmmmmmmmm");
    assert_eq!(world.lines(&["events", "abcdefghjk", "--json"]).last().unwrap()["type"], "loop_started");
}

#[test]
fn who_follows_a_run_is_let_go_at_its_end() {
    let mut world = world(&Identity::own());
    let following = world.env.spawn(["events", "abcdefghjk", "-f", "--json"]);
    let warned = RunEvent::UnitWarned { text: "seen".to_owned() };
    world.tell("auth", warned);
    world.ends();
    let output = following.wait(std::time::Duration::from_secs(60)).assert_code(0);
    let kinds: Vec<String> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.last().map(String::as_str), Some("orch.failed"), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "unit.warned").count(), 1);
}
