//! Runs that are stopped, cancelled, sent to the background, killed and gone on with.

use std::{fs, time::Duration};

use dacapo_core::unit::schedule::{RunInput, RunMachine};
use dacapo_engine::{
    observer::NoObserver,
    process::identity::Identity,
    store::{Store, Stream},
};
use dacapo_testkit::{Running, Signal, wait_until};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::{World, types_of};

/// Far more than anything here takes, and less than a run gives its jobs to end.
const LONG: Duration = Duration::from_secs(25);

/// A unit whose agent says that it has begun and then hangs, until there is a file `go`.
pub(crate) fn slow_unit(world: &World, unit: &str, depends_on: &[&str], first: &str) {
    let root = world.env.root().display().to_string();
    if !world.env.root().join("never").exists() {
        let mut mkfifo = world.env.command("mkfifo");
        mkfifo.arg(world.env.root().join("never"));
        world.env.run_command(mkfifo).assert_code(0);
    }
    let hang = format!("test -f {root}/go || {{ {first} touch {root}/began-{unit}; cat {root}/never; }}");
    world.plan(unit, depends_on).task(
        unit,
        1,
        &[],
        &format!("test -f {unit}.txt"),
        &format!("do: {hang}\ndo: touch {unit}.txt"),
    );
}

pub(crate) fn wait_for_file(world: &World, name: &str) {
    let file = world.env.root().join(name);
    wait_until(&format!("`{name}` is there"), LONG, || file.exists());
}

/// From now on agents do their work.
pub(crate) fn go(world: &World) {
    fs::write(world.env.root().join("go"), "").unwrap();
}

fn start(world: &World, extra: &[&str], began: &[&str]) -> Running {
    let running = world.env.spawn(world.args(extra));
    began.iter().for_each(|unit| wait_for_file(world, &format!("began-{unit}")));
    running
}

/// Sends a signal to the one job that runs.
fn signal_job(world: &World, signal: &str) {
    let is_job = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"dcp-unit\0"))
    };
    let job = world.env.survivors().into_iter().find(is_job).unwrap();
    let mut kill = world.env.command("kill");
    kill.args([signal, &job.to_string()]);
    world.env.run_command(kill).assert_code(0);
}

fn statuses(world: &World) -> Vec<(String, String)> {
    let output = world.env.run(["status", "--units", "--json"]).assert_code(0);
    let units: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let text = |unit: &Value, key: &str| unit[key].as_str().unwrap().to_owned();
    units.iter().map(|unit| (text(unit, "unit"), text(unit, "status"))).collect()
}

fn are(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(unit, status)| ((*unit).to_owned(), (*status).to_owned())).collect()
}

/// Every unit is in the target, by one commit each.
fn assert_done(world: &World, units: &[&str]) {
    for unit in units {
        assert!(world.at("main", &format!("{unit}.txt")).is_some(), "{unit}");
        assert_eq!(world.subjects()[&format!("feat({unit}): complete task #1 - Step 1")], 1, "{unit}");
    }
    assert_eq!(world.env.git(["branch", "--list", "dacapo/*"]), "");
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
}

#[test]
fn a_run_that_is_stopped_ends_all_of_it_and_goes_on_later() {
    // req 27, 56
    for (signal, code, word) in [
        (Signal::INT, 130, "interrupted"),
        (Signal::TERM, 143, "terminated"),
        (Signal::HUP, 143, "terminated"),
    ] {
        let world = World::new();
        for unit in ["a", "b", "c"] {
            slow_unit(&world, unit, &[], "");
        }
        world.unit("d", 1, &["a"]).commit();
        let running = start(&world, &["--parallel", "2"], &["a", "b"]);
        running.signal(signal);
        // Agents end when they are asked to: nobody waits the 30 seconds that they could have.
        let output = running.wait(LONG).assert_code(code);
        assert!(output.reason().contains(word), "{}", output.stderr);
        assert_eq!(world.env.survivors(), Vec::<u32>::new());
        let events = world.run_events();
        assert!(!types_of(&events, "c").contains(&"unit.started"), "new work was begun");
        let stopped = ["a", "b", "c", "d"].map(|unit| (unit, "stopped"));
        assert_eq!(statuses(&world), are(&stopped));
        go(&world);
        world.run(&[]).assert_code(0);
        for unit in ["a", "b", "c"] {
            assert!(world.at("main", &format!("{unit}.txt")).is_some(), "{unit}");
            assert_eq!(world.subjects()[&format!("feat({unit}): complete task #1 - Step 1")], 1, "{unit}");
        }
        assert_eq!(world.env.survivors(), Vec::<u32>::new());
    }
}

#[test]
fn whoever_asks_twice_does_not_wait_for_an_agent_that_does_not_listen() {
    // req 27, 56
    let world = World::new();
    slow_unit(&world, "a", &[], "trap '' TERM INT HUP;");
    world.commit();
    let running = start(&world, &["--kill-grace", "10m"], &["a"]);
    running.signal(Signal::INT);
    let has_heard = || world.env.run(["events", "--json"]).stdout.contains("\"orch.stopping\"");
    wait_until("the first is recorded", LONG, has_heard);
    assert!(!world.env.survivors().is_empty());
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    wait_until("nothing is left", LONG, || world.env.survivors().is_empty());
    assert_eq!(statuses(&world), are(&[("a", "stopped")]));
    go(&world);
    world.run(&[]).assert_code(0);
    assert_done(&world, &["a"]);
}

#[test]
fn no_agent_outlives_a_run_whatever_time_it_would_have() {
    // req 27, 56: a job that is killed cannot kill, and its keeper would give the agent ten minutes.
    let world = World::new();
    slow_unit(&world, "a", &[], "trap '' TERM INT HUP;");
    world.commit();
    let running = start(&world, &["--kill-grace", "10m"], &["a"]);
    // It hears nothing, so that its scheduler has to kill it.
    signal_job(&world, "-STOP");
    running.signal(Signal::INT);
    let has_heard = || world.env.run(["events", "--json"]).stdout.contains("\"orch.stopping\"");
    wait_until("the first is recorded", LONG, has_heard);
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
    assert_eq!(statuses(&world), are(&[("a", "stopped")]));
    go(&world);
    world.run(&[]).assert_code(0);
    assert_done(&world, &["a"]);
}

#[test]
fn what_a_job_that_somebody_killed_has_started_is_gone_before_its_run_is() {
    let world = World::new();
    slow_unit(&world, "a", &[], "trap '' TERM INT HUP;");
    world.commit();
    let running = start(&world, &["--kill-grace", "2s"], &["a"]);
    signal_job(&world, "-KILL");
    running.wait(LONG).assert_code(1);
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
}

#[test]
fn a_unit_is_cancelled_by_its_name_and_those_behind_it_are_blocked() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.unit("b", 1, &["a"]).unit("c", 1, &[]).commit();
    let running = start(&world, &[], &["a"]);
    world.env.run(["cancel", "a"]).assert_code(0);
    let output = running.wait(LONG).assert_code(1);
    assert!(output.stderr.contains("a: "), "{}", output.stderr);
    assert_eq!(statuses(&world), are(&[("a", "failed"), ("b", "blocked"), ("c", "merged")]));
    let events = world.run_events();
    let failed = events.iter().find(|event| event["type"] == "unit.failed").unwrap();
    assert_eq!((&failed["unit"], &failed["reason"]), (&json!("a"), &json!("cancelled")));
    let blocked = events.iter().find(|event| event["type"] == "unit.blocked").unwrap();
    assert_eq!((&blocked["unit"], &blocked["by"]), (&json!("b"), &json!(["a"])));
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
    go(&world);
    world.run(&[]).assert_code(0);
    assert!(world.at("main", "a.txt").is_some() && world.at("main", "src/b-1.txt").is_some());
}

#[test]
fn a_run_in_the_background_is_named_shown_and_ended() {
    // req 55
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let output = world.env.run(world.args(&["--detach"])).assert_code(0);
    wait_for_file(&world, "began-a");
    assert_eq!(statuses(&world), are(&[("a", "working")]));
    let events = world.run_events();
    let run = events[0]["run"].as_str().unwrap().to_owned();
    assert!(output.stdout.starts_with(&format!("Run {run} ")), "{}", output.stdout);
    assert!(!output.stdout.contains("Loop"), "{}", output.stdout);
    // Each line that it prints can be typed; `attach` stays until the run is over.
    let lines = output.stdout.lines().filter_map(|line| line.strip_prefix("  dacapo "));
    for line in lines.filter(|line| !line.starts_with("attach ")) {
        let words: Vec<&str> = line.split(' ').filter(|word| *word != "-f").collect();
        world.env.run(words).assert_code(0);
    }
    wait_until("it has ended", LONG, || world.env.survivors().is_empty());
    assert_eq!(statuses(&world), are(&[("a", "stopped")]));
    let ended = world.run_events();
    assert_eq!(ended.last().unwrap()["type"], "orch.failed");
    assert_eq!(ended.last().unwrap()["reason"], "cancelled");
    go(&world);
    world.env.run(["resume", &run, "--trust"]).assert_code(0);
    assert_done(&world, &["a"]);
}

#[test]
fn a_run_and_a_unit_of_one_that_was_killed_go_on_by_name() {
    for by_unit in [false, true] {
        let world = World::new();
        slow_unit(&world, "a", &[], "");
        slow_unit(&world, "b", &["a"], "");
        world.commit();
        let running = start(&world, &[], &["a"]);
        running.signal(Signal::KILL);
        running.wait(LONG);
        wait_until("nothing is left", LONG, || world.env.survivors().is_empty());
        go(&world);
        let run = world.run_events()[0]["run"].as_str().unwrap().to_owned();
        if by_unit {
            world.env.run(["resume", "a", "--trust"]).assert_code(0);
            assert!(world.at("main", "a.txt").is_some() && world.at("main", "b.txt").is_none());
            world.run(&[]).assert_code(0);
        } else {
            world.env.run(["resume", &run]).assert_code(4);
            world.env.run(["resume", &run, "--trust"]).assert_code(0);
        }
        assert_done(&world, &["a", "b"]);
    }
}

#[test]
fn one_run_at_a_time_works_on_a_repository() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.unit("b", 1, &[]).commit();
    let running = start(&world, &["--unit", "a"], &["a"]);
    let run = world.run_events()[0]["run"].as_str().unwrap().to_owned();
    let output = world.run(&["--unit", "b"]).assert_code(5);
    assert!(output.reason().contains(&run), "{}", output.stderr);
    let output = world.env.run(["resume", &run, "--trust"]);
    assert_eq!(output.code, Some(5), "{}", output.stderr);
    // Another worktree is another project, and another home has another journal; the branches are the same.
    let other = world.env.root().join("other");
    world.env.git(["worktree", "add", "-q", "-b", "side", other.to_str().unwrap()]);
    for (folder, home) in [(&other, "state"), (&other, "state2"), (&world.env.workspace(), "state2")] {
        let mut second = world.env.dacapo(world.args(&["--unit", "b", "--target", "main"]));
        second.current_dir(folder).env("DACAPO_HOME", world.env.root().join(home));
        let output = world.env.run_command(second).assert_code(5);
        let last = output.reason();
        assert!(last.contains("units of this repository are being run") && last.contains(&run), "{last}");
    }
    // Whoever dies leaves no lock behind.
    running.signal(Signal::KILL);
    running.wait(LONG);
    wait_until("nothing is left", LONG, || world.env.survivors().is_empty());
    let mut second = world.env.dacapo(world.args(&["--unit", "b", "--target", "main"]));
    second.current_dir(&other);
    world.env.run_command(second).assert_code(0);
    assert_eq!(world.subjects()["feat(b): complete task #1 - Step 1"], 1);
}

#[test]
fn what_is_begun_is_what_an_agent_has_chosen_for_all_that_is_known() {
    // req 58: it was offered two tasks, and has not said yet which one it works on.
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.task("a", 2, &[], "test -f two", "do: touch two").task("a", 3, &[1, 2], "true", "do: touch three");
    world.commit();
    let running = start(&world, &[], &["a"]);
    let invoked = || types_of(&world.run_events(), "a").contains(&"task.claude.invoke");
    wait_until("the run knows of it", LONG, invoked);
    let shown = world.env.run(["status", "a"]).assert_code(0).stdout;
    for line in ["     1  ready        Step 1", "     2  ready        Step 2", "     3  pending      Step 3"]
    {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    let json = world.env.run(["status", "--units", "--json"]).assert_code(0).stdout;
    let units: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        units[0]["tasks"][1],
        json!({"task": 2, "title": "Step 2", "status": "pending", "ready": true})
    );
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    go(&world);
    world.run(&[]).assert_code(0);
    let shown = world.env.run(["status", "a"]).assert_code(0).stdout;
    assert_eq!(shown.matches("  complete  ").count(), 3, "{shown}");
}

#[test]
fn a_unit_whose_agent_is_blocked_needs_a_person_and_its_task_stays_pending() {
    let world = World::new();
    let root = world.env.root().display().to_string();
    // Who fails in a command claims nothing.
    let says = format!("test -f {root}/key || {{ echo '<blocked>there is no key</blocked>'; exit 1; }}");
    world.plan("a", &[]).task("a", 1, &[], "test -f a.txt", &format!("do: {says}\ndo: touch a.txt"));
    world.unit("b", 1, &[]).unit("c", 1, &["a"]).commit();
    let output = world.run(&[]).assert_code(4);
    assert!(output.stdout.contains("a  is blocked: there is no key"), "{}", output.stdout);
    let last = output.reason();
    assert!(last.starts_with("dacapo: stopped (person): a: the agent is blocked: there is no key"), "{last}");
    assert_eq!(statuses(&world), are(&[("a", "failed"), ("b", "merged"), ("c", "blocked")]));
    let unit = &unit_json(&world, "a");
    assert_eq!(
        (&unit["reason"], &unit["tasks"][0]["status"]),
        (&json!("person"), &json!("pending")),
        "{unit}"
    );
    let retries = world.run_events().into_iter().filter(|event| event["type"] == "task.retry").count();
    assert_eq!(retries, 0, "it is no failure, so nothing is tried again");
    let why = world.env.run(["why", "a"]).assert_code(0).stdout;
    assert!(why.contains("the agent is blocked: there is no key") && why.contains("dacapo steer"), "{why}");
    assert!(world.at("main", "specs/tasks/a/01-step.md").unwrap().contains("status: pending"));
    // A person makes it possible, says so, and it goes on where it was.
    fs::write(world.env.root().join("key"), "").unwrap();
    world.env.run(["steer", "a", "the key is there now"]).assert_code(0);
    world.run(&[]).assert_code(0);
    assert!(world.at("main", "a.txt").is_some());
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
}

fn unit_json(world: &World, name: &str) -> Value {
    let output = world.env.run(["status", "--units", "--json"]).assert_code(0);
    let units: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    units.into_iter().find(|unit| unit["unit"] == name).unwrap()
}

#[test]
fn a_scheduler_that_slept_while_another_took_its_run_writes_nothing_and_ends_its_jobs() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let running = start(&world, &[], &["a"]);
    world.env.stop(&running, LONG);
    // As a dacapo on another machine would, whose journal says that the lease is over.
    let mut store = Store::open(&world.env.dacapo_home().join("dacapo.db")).unwrap();
    let run = world.run_events()[0]["run"].as_str().unwrap().parse().unwrap();
    let mut stream = Stream::<RunMachine>::open(&store, &run).unwrap().unwrap();
    stream.take_over(&mut store, &Identity::own(), Timestamp::now(), &()).unwrap();
    stream.step(&mut store, Timestamp::now(), [RunInput::OwnerDied.into()], &mut NoObserver).unwrap();
    let recorded = world.run_events().len();
    running.signal(Signal::CONT);
    // An idle scheduler would find out at its next renewal; this one is asked for something.
    running.signal(Signal::TERM);
    let output = running.wait(LONG).assert_code(5);
    let expected = format!("run {run} was continued by another dacapo");
    assert!(output.stderr.contains(&expected), "{}", output.stderr);
    wait_until("its jobs and agents are ended", LONG, || world.env.survivors().is_empty());
    assert_eq!(world.run_events().len(), recorded);
    go(&world);
    world.run(&[]).assert_code(0);
    assert_done(&world, &["a"]);
}
