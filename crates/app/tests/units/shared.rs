//! What the slots of a run share: a budget, and a provider with limits.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use dacapo_testkit::wait_until;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::World;

const LONG: Duration = Duration::from_secs(40);

/// An agent of the user's that prints what Claude Code does; `script` is a shell's.
pub(crate) fn agent(world: &World, script: &str) {
    let file = world.env.root().join("bin/mine");
    fs::write(&file, format!("#!/bin/sh\ncat > /dev/null\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = world.env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    let config = format!(
        "agents: {{mine: {{command: [\"{}\"], output: claude, provider: anthropic}}}}\nlimits: {{backoff: 100ms}}\n",
        file.display()
    );
    fs::write(folder.join("config.yaml"), config).unwrap();
}

pub(crate) fn line(value: &Value) -> String {
    format!("echo '{value}'\n")
}

/// The task is done, for two US cents.
pub(crate) fn work() -> String {
    let begins = json!({"type": "system", "subtype": "init", "session_id": "s1", "model": "claude-opus-5-5"});
    let message = json!({"type": "assistant", "session_id": "s1", "message": {
        "id": "m1", "model": "claude-opus-5-5", "role": "assistant", "content": [{"type": "text", "text": "Did it."}],
        "usage": {"input_tokens": 0, "output_tokens": 1000},
    }});
    let ends = json!({
        "type": "result", "subtype": "success", "is_error": false, "session_id": "s1", "result": "",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    });
    let does = "touch $DACAPO_TASK.txt; sed -i 's/^status: .*/status: complete/' specs/tasks/$DACAPO_TASK/01-step.md\n";
    [&line(&begins), does, &line(&message), &line(&ends)].concat()
}

pub(crate) fn units(world: &World, names: &[&str]) {
    for name in names {
        world.plan(name, &[]).task(name, 1, &[], &format!("test -f {name}.txt"), "");
    }
    world.commit();
}

pub(crate) const ARGS: [&str; 9] =
    ["unit", "run", "--trust", "--restart-delay", "0s", "--agent", "mine", "--kill-grace", "100ms"];

#[test]
fn all_slots_draw_on_one_budget() {
    // req 59; fault J7
    let world = World::new();
    agent(&world, &work());
    units(&world, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    let args = ARGS.iter().chain(&["--parallel", "2", "--max-cost", "0.05"]);
    let output = world.env.run(args).assert_code(3);
    assert!(output.reason().contains("budget"), "{}", output.stderr);
    let costs: f64 = world
        .env
        .events(None)
        .iter()
        .filter_map(|event| (event["type"] == "agent_exited").then(|| event["cost_usd"].as_f64()).flatten())
        .sum();
    // What is used up is seen behind a message: each slot may exceed it by one.
    assert!((0.05..=0.05 + 2.0 * 0.02 + 1e-9).contains(&costs), "{costs}");
    let events = world.run_events();
    let at = events.iter().position(|event| event["reason"] == "budget").unwrap();
    assert!(!events[at..].iter().any(|event| event["type"] == "unit.started"), "{:#?}", &events[at..]);
    // Going on costs nothing by itself: the budget is used up as before, unless the user grants more.
    let run = events[0]["run"].as_str().unwrap().to_owned();
    world.env.run(["resume", &run, "--trust"]).assert_code(3);
    world.env.run(["resume", &run, "--trust", "--max-cost", "5"]).assert_code(0);
    assert!(world.at("main", "h.txt").is_some());
}

#[test]
fn while_a_provider_is_closed_all_slots_wait_and_one_asks() {
    // fault E8
    let world = World::new();
    let root = world.env.root().display().to_string();
    let reset = Timestamp::now().as_second() + 5;
    let closed =
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset}});
    let fails = json!({
        "type": "result", "subtype": "success", "is_error": true, "session_id": "s1",
        "result": "You have hit your 5-hour limit", "api_error": "usage_limit_reached", "api_error_status": 429,
    });
    let mut mkfifo = world.env.command("mkfifo");
    mkfifo.arg(world.env.root().join("gate"));
    world.env.run_command(mkfifo).assert_code(0);
    let script = format!(
        "echo x >> {root}/starts\nif [ $(date +%s) -lt {reset} ]; then\n{}{}exit 1\nfi\n\
         mkdir {root}/probing 2>/dev/null && cat {root}/gate\n{}",
        line(&closed),
        line(&fails),
        work()
    );
    agent(&world, &script);
    units(&world, &["a", "b", "c", "d"]);
    let running = world.env.spawn(ARGS.iter().chain(&["--parallel", "3"]));
    wait_until("one asks", LONG, || world.env.root().join("probing").exists());
    let starts = || fs::read_to_string(world.env.root().join("starts")).unwrap_or_default().lines().count();
    let asked = starts();
    assert!((2..=4).contains(&asked), "{asked}");
    // The time of all has come, and those that did not go first go on waiting.
    wait_until("the time of all has come", LONG, || Timestamp::now().as_second() > reset + 3);
    assert_eq!(starts(), asked);
    let parked = world.env.events(None).iter().filter(|event| event["type"] == "parked").count();
    assert!(parked >= 3, "{parked}");
    fs::write(world.env.root().join("gate"), "").unwrap();
    running.wait(LONG).assert_code(0);
    for unit in ["a", "b", "c", "d"] {
        assert!(world.at("main", &format!("{unit}.txt")).is_some(), "{unit}");
    }
}
