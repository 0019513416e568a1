//! Runs that were killed and are gone on with: what was agreed to, and what is left of time and money.

use std::{fs, time::Duration};

use dacapo_testkit::{Running, Signal, wait_until};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    control::{go, slow_unit, wait_for_file},
    shared::{ARGS, agent, units, work},
    world::World,
};

const LONG: Duration = Duration::from_secs(25);

fn kill(world: &World, running: Running) {
    running.signal(Signal::KILL);
    running.wait(LONG);
    wait_until("nothing is left", LONG, || world.env.survivors().is_empty());
}

/// The beginnings of all runs.
fn runs(world: &World) -> Vec<Value> {
    world.run_events().into_iter().filter(|event| event["type"] == "orch.started").collect()
}

fn first_run(world: &World) -> String {
    runs(world)[0]["run"].as_str().unwrap().to_owned()
}

#[test]
fn consent_holds_as_long_as_the_commands_do() {
    // fault K2: what was changed meanwhile, and what the way to go on says to it without anybody to ask.
    type Change = fn(&World);
    let cases: &[(&str, Change, Option<&str>)] = &[
        ("nothing", |_| {}, None),
        (
            "a sentence and a status",
            |world| {
                let file = "specs/tasks/a/01-step.md";
                let text = world.env.read(file).replace("status: pending", "status: in_progress");
                world.env.write(file, text + "\nBe careful.\n");
                world.commit();
            },
            None,
        ),
        (
            "a backpressure",
            |world| {
                let file = "specs/tasks/a/01-step.md";
                let text = world.env.read(file).replace("test -f a.txt", "touch canary; test -f a.txt");
                world.env.write(file, text);
                world.commit();
            },
            Some("+ backpressure a #1: touch canary; test -f a.txt"),
        ),
        (
            "a check of all",
            |world| {
                world.config("units: {baseline: [{name: lint, run: touch canary}]}\n").commit();
            },
            Some("+ baseline lint: touch canary"),
        ),
    ];
    for (what, change, shows) in cases {
        let world = World::new();
        slow_unit(&world, "a", &[], "");
        world.config("units: {baseline: [{name: lint, run: 'true'}]}\n").commit();
        world.env.run(["trust", "--yes"]).assert_code(0);
        let args = world.args(&[]).into_iter().filter(|word| word != "--trust");
        let running = world.env.spawn(args);
        wait_for_file(&world, "began-a");
        kill(&world, running);
        change(&world);
        go(&world);
        let run = first_run(&world);
        if let Some(shows) = shows {
            let output = world.env.run(["resume", &run]).assert_code(4);
            assert!(output.stderr.contains(shows), "{what}: {}", output.stderr);
            assert!(output.reason().contains("untrusted"), "{what}: {}", output.stderr);
            assert_eq!(runs(&world).len(), 1, "{what}");
            world.env.run(["trust", "--yes"]).assert_code(0);
        }
        let output = world.env.run(["resume", &run]);
        assert_eq!(output.code, Some(0), "{what}: {}{}", output.stdout, output.stderr);
        assert!(world.at("main", "a.txt").is_some(), "{what}");
    }
}

#[test]
fn consent_for_one_run_is_not_kept_for_the_next() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    kill(&world, running);
    go(&world);
    let run = first_run(&world);
    let output = world.env.run(["resume", &run]).assert_code(4);
    assert!(output.stderr.contains("`--trust` agrees for this run only"), "{}", output.stderr);
    world.env.run(["resume", &run, "--trust"]).assert_code(0);
    assert!(world.at("main", "a.txt").is_some());
    assert!(world.env.run(["trust", "--show"]).assert_code(0).stdout.contains("can make dacapo run"));
}

/// The milliseconds between the first and the last of these events.
fn span(events: &[Value]) -> i64 {
    let at = |event: &Value| event["at"].as_str().unwrap().parse::<Timestamp>().unwrap().as_microsecond();
    (events.iter().map(at).max().unwrap() - events.iter().map(at).min().unwrap()) / 1000
}

#[test]
fn a_killed_run_goes_on_with_the_time_it_had_left() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let mut left = 3_600_000;
    let mut seen = 0;
    for args in [world.args(&["--max-time", "1h"]), Vec::new(), Vec::new()] {
        // Always the first one: that it was gone on with before does not give it its time again.
        let args = if args.is_empty() { again(&first_run(&world)) } else { args };
        let running = world.env.spawn(args);
        wait_for_file(&world, "began-a");
        kill(&world, running);
        fs::remove_file(world.env.root().join("began-a")).unwrap();
        let events: Vec<Value> = world.env.events(None).split_off(seen);
        let begins = events.iter().position(|event| event["type"] == "orch.started").unwrap();
        assert_eq!(events[begins]["settings"]["max_time"], json!(left));
        left -= span(&events[begins..]);
        seen += events.len();
    }
    go(&world);
    world.env.run(again(&first_run(&world))).assert_code(0);
    assert_eq!(runs(&world).last().unwrap()["settings"]["max_time"], json!(left));
    assert!(world.at("main", "a.txt").is_some());
}

fn again(run: &str) -> Vec<String> {
    ["resume", run, "--trust"].map(str::to_owned).into()
}

#[test]
fn time_that_is_used_up_stays_used_up_until_somebody_grants_more() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let output = world.run(&["--max-time", "1ms"]).assert_code(3);
    assert!(output.reason().contains("max_time"), "{}", output.stderr);
    go(&world);
    let run = first_run(&world);
    let output = world.env.run(again(&run)).assert_code(3);
    assert!(output.stderr.contains(&format!("the time of run {run} is used up")), "{}", output.stderr);
    assert_eq!(runs(&world).len(), 1);
    world.env.run([again(&run), vec!["--max-time".into(), "1h".into()]].concat()).assert_code(0);
    assert!(world.at("main", "a.txt").is_some());
}

#[test]
fn a_killed_run_goes_on_with_the_money_it_had_left() {
    // fault J6: what the agent that was killed has used counts, too.
    let world = World::new();
    let root = world.env.root().display().to_string();
    let mut mkfifo = world.env.command("mkfifo");
    mkfifo.arg(world.env.root().join("never"));
    world.env.run_command(mkfifo).assert_code(0);
    let hang = format!(
        "if [ $DACAPO_TASK = b ] && mkdir {root}/once 2>/dev/null; then\n{}cat {root}/never\nfi\n",
        work().replace("sed ", ": sed ")
    );
    agent(&world, &(hang + &work()));
    units(&world, &["a", "b", "c", "d"]);
    // Two US cents each: the first, the second that is killed, that once more, and one that exceeds what is left.
    let running = world.env.spawn(ARGS.iter().chain(&["--parallel", "1", "--max-cost", "0.07"]));
    let of_b = |kind: &str| {
        let events = world.env.events(None);
        let is_b = |event: &&Value| event["type"] == "loop_started" && event["task"] == "b";
        let id = events.iter().filter(is_b).map(|event| event["loop"].clone()).next();
        events.iter().filter(|event| Some(&event["loop"]) == id.as_ref() && event["type"] == kind).count()
    };
    wait_until("the second has used something", LONG, || of_b("usage_seen") > 0);
    kill(&world, running);
    let agents = || world.env.events(None).iter().filter(|event| event["type"] == "agent_started").count();
    assert_eq!(agents(), 2);
    let output = world.env.run(again(&first_run(&world))).assert_code(3);
    assert!(output.reason().contains("budget"), "{}", output.stderr);
    assert_eq!(agents(), 4);
}

#[test]
fn a_turn_goes_on_though_a_newer_version_has_other_defaults() {
    // What the user chose is the same; what dacapo takes without being told is not. Both runs are of this version, so the
    // journal is made to look as if one with other defaults had begun the turn.
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    kill(&world, running);
    let journal = rusqlite::Connection::open(world.env.dacapo_home().join("dacapo.db")).unwrap();
    let changed = journal.execute(
        "UPDATE events SET body = replace(body, '\"poll_interval\":1000', '\"poll_interval\":777')
         WHERE body LIKE '%\"type\":\"loop_started\"%'",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    // Events of that version carried no hashes, or the edit would be found.
    let next: i64 = journal.query_row("SELECT MAX(seq) + 1 FROM events", [], |row| row.get(0)).unwrap();
    journal
        .execute_batch(
            "UPDATE events SET chain = NULL; UPDATE streams SET mac = NULL; DELETE FROM checkpoints",
        )
        .unwrap();
    std::fs::write(world.env.dacapo_home().join("keys/chained-from"), format!("{next}\n")).unwrap();
    drop(journal);
    go(&world);
    world.run(&[]).assert_code(0);
    let events = world.env.events(None);
    let started: Vec<&Value> = events.iter().filter(|event| event["type"] == "loop_started").collect();
    let turns: Vec<&&Value> = started.iter().filter(|event| event["purpose"]["step"] == "turn").collect();
    assert_eq!(turns.len(), 1, "no second turn was begun");
    assert_eq!(turns[0]["policy"]["pace"]["poll_interval"], 777);
    assert!(events.iter().any(|event| event["type"] == "loop_resumed" && event["loop"] == turns[0]["loop"]));
}

#[test]
fn another_limit_that_the_user_chose_begins_another_turn() {
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    kill(&world, running);
    go(&world);
    world.run(&["--idle-timeout", "10m"]).assert_code(0);
    let events = world.env.events(None);
    let is_turn = |event: &&Value| event["type"] == "loop_started" && event["purpose"]["step"] == "turn";
    assert_eq!(events.iter().filter(is_turn).count(), 2);
}

#[test]
fn a_question_that_a_later_run_has_taken_up_needs_nobody() {
    let world = World::new();
    let key = world.env.root().join("key");
    let asks =
        format!("test -f {0} || {{ echo '<blocked>there is no key</blocked>'; exit 1; }}", key.display());
    world.plan("a", &[]).task("a", 1, &[], "test -f a.txt", &format!("do: {asks}\ndo: touch a.txt"));
    world.unit("b", 1, &["a"]).unit("c", 1, &[]).commit();
    world.run(&[]).assert_code(4);
    let needs = || {
        let text = world.env.run(["status"]).assert_code(0).stdout;
        text.split_once("Needs you").map(|(_, needs)| needs.to_owned())
    };
    assert!(needs().expect("a question").contains("there is no key"));
    std::fs::write(key, "").unwrap();
    // The unit alone, so that the run that asked still has units which no later run worked on.
    world.run(&["--unit", "a"]).assert_code(0);
    assert_eq!(needs(), None);
}
