//! Units that are paused and go on: by the loop that works on them, while their run goes on with the others.

use std::{fs, time::Duration};

use dacapo_testkit::{Signal, wait_until};
use serde_json::{Value, json};

use crate::{
    control::wait_for_file,
    shared::{ARGS, agent, work},
    world::{World, types_of},
};

const LONG: Duration = Duration::from_secs(25);

/// A unit of tasks that each make a file; its first agent says that it has begun, and waits until somebody lets it go.
fn held_unit(world: &World, unit: &str, first: &str, tasks: u32) {
    let root = world.env.root().display().to_string();
    let mut mkfifo = world.env.command("mkfifo");
    mkfifo.arg(world.env.root().join("hold"));
    world.env.run_command(mkfifo).assert_code(0);
    world.unit(unit, tasks, &[]);
    let hold = format!("do: mkdir {root}/began-{unit} 2>/dev/null || exit 0; cat {root}/hold; {first}");
    let work = format!("do: mkdir -p src && echo {unit} 1 > src/{unit}-1.txt");
    world.task(unit, 1, &[], &format!("test -f src/{unit}-1.txt"), &format!("{hold}\n{work}"));
}

fn let_go(world: &World) {
    fs::write(world.env.root().join("hold"), "").unwrap();
}

/// The events of the loops that worked on a unit with an agent, in order.
fn of_unit(world: &World, unit: &str) -> Vec<Value> {
    let all = world.env.events(None);
    let is_its = |event: &&Value| event["type"] == "loop_started" && event["task"] == unit;
    let loops: Vec<Value> = all.iter().filter(is_its).map(|event| event["loop"].clone()).collect();
    all.into_iter().filter(|event| loops.contains(&event["loop"]) && event.get("run").is_none()).collect()
}

fn happened(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

fn assert_merged(world: &World, unit: &str, tasks: u32) {
    for number in 1..=tasks {
        assert!(world.at("main", &format!("src/{unit}-{number}.txt")).is_some(), "{unit} {number}");
        let subject = format!("feat({unit}): complete task #{number} - Step {number}");
        assert_eq!(world.subjects()[&subject], 1, "{subject}");
    }
}

#[test]
fn a_paused_unit_begins_no_agent_until_it_is_resumed_and_the_others_go_on() {
    for now in [false, true] {
        let world = World::new();
        // The first agent leaves without having done it.
        held_unit(&world, "a", "exit 1", 1);
        world.unit("b", 1, &[]).commit();
        let mut running = world.env.spawn(world.args(&[]));
        wait_for_file(&world, "began-a");
        let when: &[&str] = if now { &["--now"] } else { &[] };
        let output = world.env.run([&["pause", "a"], when].concat()).assert_code(0);
        assert!(output.stdout.contains(if now { "pauses now" } else { "after this iteration" }));
        assert!(output.stdout.contains("`dacapo resume a` goes on"), "{}", output.stdout);
        wait_until("it was heard", LONG, || happened(&of_unit(&world, "a"), "pause_requested") == 1);
        if !now {
            let_go(&world);
        }
        wait_until("it is paused", LONG, || happened(&of_unit(&world, "a"), "paused") == 1);
        wait_until("the other is merged", LONG, || {
            types_of(&world.run_events(), "b").contains(&"unit.merged")
        });
        assert!(running.is_running(), "{now}");
        assert_eq!(happened(&of_unit(&world, "a"), "agent_started"), 1, "{now}");
        let output = world.env.run(["resume", "a"]).assert_code(0);
        assert!(output.stdout.contains("goes on"), "{}", output.stdout);
        running.wait(LONG).assert_code(0);
        assert_merged(&world, "a", 1);
        let events = of_unit(&world, "a");
        let order = |kind: &str| -> Vec<u64> {
            events.iter().filter(|e| e["type"] == kind).map(|e| e["seq"].as_u64().unwrap()).collect()
        };
        let (agents, unpaused) = (order("agent_started"), order("unpaused"));
        assert_eq!((agents.len(), unpaused.len()), (2, 1), "{now}");
        assert!(agents[0] < order("paused")[0] && unpaused[0] < agents[1], "{now}");
        // What was cut short is charged once, and its number is not used again.
        let numbers: Vec<&Value> =
            events.iter().filter(|e| e["type"] == "iteration_started").map(|e| &e["iteration"]).collect();
        assert_eq!(numbers, [&json!(1), &json!(2)], "{now}");
        assert_eq!(world.env.survivors(), Vec::<u32>::new());
    }
}

#[test]
fn a_unit_that_is_paused_while_its_task_is_proven_stops_behind_it_and_goes_on_by_name() {
    let world = World::new();
    held_unit(&world, "a", "true", 3);
    world.unit("b", 1, &["a"]).commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    world.env.run(["pause", "a"]).assert_code(0);
    wait_until("it was heard", LONG, || happened(&of_unit(&world, "a"), "pause_requested") == 1);
    let_go(&world);
    running.wait(LONG).assert_code(1);
    let events = world.run_events();
    let proven: Vec<&Value> = events.iter().filter(|event| event["type"] == "task.completed").collect();
    assert_eq!(proven.len(), 1, "{events:#?}");
    assert_eq!(happened(&of_unit(&world, "a"), "agent_started"), 1);
    let failed = events.iter().find(|event| event["type"] == "unit.failed").unwrap();
    assert_eq!((&failed["unit"], &failed["reason"]), (&json!("a"), &json!("stopped")));
    assert!(failed["detail"].as_str().unwrap().starts_with("paused"), "{failed}");
    world.env.run(["resume", "a", "--trust"]).assert_code(0);
    assert_merged(&world, "a", 3);
    assert_eq!(happened(&of_unit(&world, "a"), "agent_started"), 3);
    world.run(&[]).assert_code(0);
    assert_merged(&world, "b", 1);
}

#[test]
fn a_run_is_paused_steered_and_goes_on_as_a_whole() {
    let world = World::new();
    // The first agent leaves without having done it.
    held_unit(&world, "a", "exit 1", 1);
    world.unit("b", 1, &["a"]).commit();
    let mut running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    let run = world.run_events()[0]["run"].as_str().unwrap().to_owned();
    let output = world.env.run(["pause", &run]).assert_code(0);
    assert!(output.stdout.contains("no unit is begun"), "{}", output.stdout);
    let said = |kind: &str| world.run_events().iter().any(|event| event["type"] == kind);
    wait_until("the run is paused", LONG, || said("orch.paused"));
    wait_until("its loop heard", LONG, || happened(&of_unit(&world, "a"), "pause_requested") > 0);
    world.env.run(["steer", &run, "mind the gap"]).assert_code(0);
    wait_until("its loop was told", LONG, || happened(&of_unit(&world, "a"), "steered") == 1);
    let_go(&world);
    wait_until("its loop is paused", LONG, || happened(&of_unit(&world, "a"), "paused") == 1);
    assert!(world.env.run(["status"]).stdout.contains("paused"), "status says so");
    assert!(running.is_running());
    assert_eq!(happened(&of_unit(&world, "a"), "agent_started"), 1);
    assert!(world.env.run(["resume", &run]).assert_code(0).stdout.contains("goes on"));
    running.wait(LONG).assert_code(0);
    assert_merged(&world, "a", 1);
    assert_merged(&world, "b", 1);
    assert!(said("orch.unpaused") && said("orch.steered"));
    // The unit that began later reads it, too, in its first prompt.
    let later = of_unit(&world, "b");
    let place = |kind: &str| later.iter().position(|event| event["type"] == kind);
    assert_eq!(happened(&later, "steered"), 1, "{later:#?}");
    assert!(place("steered") < place("agent_started"), "{later:#?}");
    assert_eq!(happened(&of_unit(&world, "a"), "steered"), 1, "and nobody twice");
    assert_eq!(happened(&of_unit(&world, "a"), "pause_requested"), 1, "the loop was asked once");
    let stderr = world.env.run(["pause", &run]).assert_code(1).stderr;
    assert!(stderr.contains("is not running"), "{stderr}");
    assert_eq!(world.env.survivors(), Vec::<u32>::new());
}

#[test]
fn the_time_of_a_run_stands_still_while_it_is_paused() {
    let limit = Duration::from_secs(8);
    let world = World::new();
    held_unit(&world, "a", "exit 1", 1);
    world.commit();
    let mut running = world.env.spawn(world.args(&["--max-time", "8s"]));
    wait_for_file(&world, "began-a");
    let run = world.run_events()[0]["run"].as_str().unwrap().to_owned();
    world.env.run(["pause", &run, "--now"]).assert_code(0);
    wait_until("its loop is paused", LONG, || happened(&of_unit(&world, "a"), "paused") == 1);
    // The length is the test's input: longer than the run may take.
    let paused = std::time::Instant::now();
    wait_until("its time would be over", LONG, || paused.elapsed() > limit);
    assert!(running.is_running());
    world.env.run(["resume", &run]).assert_code(0);
    running.wait(LONG).assert_code(0);
    assert_merged(&world, "a", 1);
}

#[test]
fn a_paused_run_goes_on_with_what_it_is_granted_and_a_run_that_goes_on_can_be_paused() {
    let world = World::new();
    let root = world.env.root().display().to_string();
    let mut mkfifo = world.env.command("mkfifo");
    mkfifo.arg(world.env.root().join("hold"));
    world.env.run_command(mkfifo).assert_code(0);
    // The first two agents wait until they are let go, and leave without having done anything.
    let held =
        format!("for n in 1 2; do mkdir {root}/began-$n 2>/dev/null && {{ cat {root}/hold; exit 1; }}; done");
    agent(&world, &format!("{held}\n{}", work()));
    world.plan("a", &[]).task("a", 1, &[], "test -f a.txt", "");
    world.plan("b", &["a"]).task("b", 1, &[], "test -f b.txt", "").commit();
    // One try, and money for one task.
    let limits = ["--max-retries", "1", "--max-cost", "0.03"];
    let running = world.env.spawn([&ARGS[..], &limits].concat());
    wait_for_file(&world, "began-1");
    let run = world.run_events()[0]["run"].as_str().unwrap().to_owned();
    world.env.run(["pause", &run]).assert_code(0);
    wait_until("its loop heard", LONG, || happened(&of_unit(&world, "a"), "pause_requested") == 1);
    let stderr = world.env.run(["resume", &run, "--max-time", "0s"]).assert_code(2).stderr;
    assert!(stderr.contains("must be more than zero"), "{stderr}");
    running.signal(Signal::KILL);
    running.wait(LONG);
    wait_until("nothing is left", LONG, || world.env.survivors().is_empty());
    let stderr = world.env.run(["steer", &run, "x"]).assert_code(1).stderr;
    assert!(
        stderr.contains("is not running") && stderr.contains(&format!("dacapo resume {run}")),
        "{stderr}"
    );
    // The run that goes on draws on the money of the first, and its loops are called after that one.
    let running = world.env.spawn(["resume", &run, "--trust"]);
    wait_for_file(&world, "began-2");
    let second = |event: &&Value| event["type"] == "orch.started" && event["run"] != run.as_str();
    let run = world.run_events().iter().find(second).unwrap()["run"].as_str().unwrap().to_owned();
    world.env.run(["pause", &run, "--now"]).assert_code(0);
    wait_until("its loop is paused", LONG, || happened(&of_unit(&world, "a"), "paused") == 1);
    world.env.run(["resume", &run, "-n", "+1", "--max-cost", "0.1"]).assert_code(0);
    running.wait(LONG).assert_code(0);
    let raised = of_unit(&world, "a").into_iter().find(|event| event["type"] == "limits_raised").unwrap();
    assert_eq!((&raised["extra_iterations"], &raised["per_run"]["max_cost"]), (&json!(1), &json!(0.1)));
    let is_first_of_b = |event: &Value| event["type"] == "loop_started" && event["task"] == "b";
    let later = world.env.events(None).into_iter().find(is_first_of_b).unwrap();
    let limits = &later["policy"]["limits"];
    assert_eq!(
        (&limits["max_iterations"], &limits["per_run"]["max_cost"]),
        (&json!(2), &json!(0.1)),
        "{later}"
    );
    assert!(world.at("main", "b.txt").is_some());
}
