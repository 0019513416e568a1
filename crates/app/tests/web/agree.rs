//! `dacapo status`, the board of the terminal and the API say the same about one home with one loop of each kind.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use dacapo_core::view::Card;
use dacapo_engine::{client::Client, home::Home};
use dacapo_testkit::{Running, Signal, Terminal, TestEnv};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{LONG, Server, world};

/// What is done in folder `name`, as task `name`, by the fake agent.
fn args(env: &TestEnv, name: &str, script: &str, extra: &[&str]) -> Vec<String> {
    let folder = env.workspace().join(name);
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.display().to_string();
    let agent = env.agent_cmd_for(script);
    let fixed = ["run", "do it", "--task", name, "--project", "p", "--dir", &folder, "--agent-cmd", &agent];
    let fixed = fixed.iter().chain(&["--restart-delay", "0s", "--kill-grace", "100ms"]);
    fixed.chain(extra).map(|word| (*word).to_owned()).collect()
}

fn state(env: &TestEnv, task: &str) -> Value {
    let shown = env.run(["status", "--all", "--json"]).assert_code(0).stdout;
    let all: Vec<Value> = serde_json::from_str(&shown).unwrap();
    all.into_iter().find(|own| own["task"] == task).unwrap_or_default()
}

/// An agent whose plan is used up for an hour.
fn install_limited_agent(env: &TestEnv) {
    let reset = Timestamp::now().as_second() + 3600;
    let info =
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset}});
    let fails = json!({"type": "result", "subtype": "success", "is_error": true, "session_id": "s1",
        "result": "You've hit your 5-hour limit", "api_error": "usage_limit_reached", "api_error_status": 429,
        "usage": {"input_tokens": 0, "output_tokens": 0}});
    let file = env.root().join("bin/limited");
    let text =
        json!([info, fails]).as_array().unwrap().iter().map(|line| format!("{line}\n")).collect::<String>();
    fs::write(&file, format!("#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{text}END\nexit 1\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    let agent = format!("{{command: [\"{}\"], output: claude, provider: anthropic}}", file.display());
    fs::write(folder.join("config.yaml"), format!("agents: {{limited: {agent}}}\n")).unwrap();
}

/// One loop of each kind, and a workflow that asks; those that run end with what is given back.
fn one_of_each(env: &TestEnv) -> Vec<Running> {
    install_limited_agent(env);
    env.run(args(env, "asks", "exit 42", &[])).assert_code(4);
    env.run(args(env, "fails", "exit 3", &["-n", "1"]));
    env.run(args(env, "done", "promise", &[])).assert_code(0);
    // An older failure of a task that was done later needs no person.
    env.run(args(env, "again", "exit 3", &["-n", "1"]));
    env.run(args(env, "again", "promise", &[])).assert_code(0);
    env.write(
        ".dacapo/workflows/w.yaml",
        "name: w\ndescription: d\nsteps: [{id: ask, approval: {message: 'Ship it?'}}]\n",
    );
    env.run(["workflow", "run", "w", "--trust"]).assert_code(4);
    let refused = "@1: promise\n@2: promise\n@3: promise\n@4+: write ready; wait-file go";
    let mut running = vec![
        env.spawn(args(env, "runs", "write ready; wait-file go; promise", &[])),
        env.spawn(args(env, "refused", refused, &["--gate", "false", "--allow-empty"])),
    ];
    let mut parked = args(env, "parked", "", &["-n", "1"]);
    let at = parked.iter().position(|word| word == "--agent-cmd").unwrap();
    parked.splice(at..at + 2, ["--agent".to_owned(), "limited".to_owned()]);
    running.push(env.spawn(parked));
    let dies = env.spawn(args(env, "dies", "write ready; wait-file go", &[]));
    for name in ["runs", "refused", "dies"] {
        env.wait_until("its agent", LONG, || env.workspace().join(name).join("ready").exists());
    }
    env.wait_until("the park", LONG, || state(env, "parked")["state"] == "parked");
    dies.signal(Signal::KILL);
    dies.wait(LONG);
    env.wait_until("it is interrupted", LONG, || state(env, "dies")["reason"] == "interrupted");
    running
}

#[test]
fn status_the_board_and_the_api_never_disagree() {
    let env = world();
    let _running = one_of_each(&env);
    let server = Server::web(&env, &[]);
    let client = Client::of_journal(&Home::at(env.dacapo_home())).unwrap();
    let board = client.board(100).unwrap().board(Timestamp::now());
    let cards: BTreeMap<&str, &Card> = board.cards().map(|card| (card.name.as_str(), card)).collect();
    let urgency = |name: &str| cards[name].need.map(|need| json!(need)).unwrap_or_default();
    for (name, word, need) in [
        ("runs", "running", json!(null)),
        ("dies", "interrupted", json!("interrupted")),
        ("asks", "stopped", json!("question")),
        ("refused", "running", json!("refused")),
        ("parked", "parked", json!("parked")),
        ("fails", "failed", json!("failed")),
        ("done", "completed", json!(null)),
        ("w", "waiting", json!("approval")),
    ] {
        assert_eq!((cards[name].state.as_str(), urgency(name)), (word, need), "{name}");
    }
    assert!(cards["done"].is_unseen && cards["fails"].is_unseen && !cards["runs"].is_unseen);

    // The loops: the same state and reason everywhere. Of one that was cut short the board says the reason alone.
    let shown = env.run(["status", "--all", "--json"]).assert_code(0).stdout;
    let listed: Vec<Value> = serde_json::from_str(&shown).unwrap();
    assert_eq!(json!(sorted(&listed)), json!(sorted(server.json("/api/loops?all=true").as_array().unwrap())));
    assert_eq!(listed.len(), 9);
    for own in listed.iter().filter(|own| own["task"] != "again") {
        let card = cards[own["task"].as_str().unwrap()];
        let word = if own["reason"] == "interrupted" { &own["reason"] } else { &own["state"] };
        assert_eq!((word, &own["reason"]), (&json!(card.state), &json!(card.reason)), "{own}");
        assert_eq!(own["detail"].as_str().map(str::to_owned), card.detail, "{own}");
        assert_eq!(own["iteration"], card.iteration, "{own}");
        assert_eq!(own["until"], json!(card.until), "{own}");
    }

    // Who needs a person: one list in one order.
    assert!(board.needs.iter().all(|need| need.name != "again"), "{:?}", board.needs);
    let needs = json!(board.needs);
    assert_eq!(server.json("/api/attention"), needs);
    let of_api = server.json("/api/board");
    assert_eq!((&of_api["needs"], &of_api["lanes"]), (&needs, &json!(board.lanes)));
    let text = env.run(["status"]).assert_code(0).stdout;
    let (_, section) = text.split_once("\nNeeds you:\n").expect("a section");
    let section = section.split("\n\n").next().unwrap();
    let heads: Vec<&str> = section.lines().filter(|line| !line.starts_with("    ")).collect();
    let commands: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert_eq!(heads.len(), board.needs.len(), "{text}");
    for (need, (head, command)) in board.needs.iter().zip(heads.iter().zip(commands)) {
        assert!(head.starts_with(&format!("  {}, ", need.headline())), "{head}");
        assert_eq!(command, need.command);
    }
    // However few that have ended are shown, the same need a person.
    assert_eq!(json!(client.board(0).unwrap().board(Timestamp::now()).needs), needs);
}

fn sorted(all: &[Value]) -> Vec<Value> {
    let mut all = all.to_vec();
    all.sort_by_key(|own| own["id"].as_str().map(str::to_owned));
    all
}

#[test]
fn an_end_is_looked_at_by_a_person_and_not_by_a_program() {
    let env = world();
    for name in ["status", "why", "receipt", "script", "terminal"] {
        if name != "terminal" {
            env.run(args(&env, name, "promise", &[])).assert_code(0);
        }
    }
    env.write(".dacapo/workflows/w.yaml", "name: w\ndescription: d\nsteps: [{id: one, bash: 'false'}]\n");
    env.run(["workflow", "run", "w", "--trust"]);
    let client = Client::of_journal(&Home::at(env.dacapo_home())).unwrap();
    let unseen = || {
        let board = client.board(100).unwrap().board(Timestamp::now());
        let mut names: Vec<String> =
            board.cards().filter(|card| card.is_unseen).map(|card| card.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(unseen(), ["receipt", "script", "status", "w", "why"]);
    for args in [["status", "script"], ["why", "script"], ["receipt", "script"]] {
        env.run(args.iter().chain(&["--json"])).assert_code(0);
    }
    env.run(["status"]).assert_code(0);
    assert_eq!(unseen(), ["receipt", "script", "status", "w", "why"], "no person has read that");
    for name in ["status", "why", "receipt"] {
        env.run([name, name]).assert_code(0);
    }
    assert_eq!(unseen(), ["script", "w"]);
    // A failure that was looked at needs no person any more.
    assert_eq!(client.board(100).unwrap().board(Timestamp::now()).needs.len(), 1);
    let runs: Vec<Value> =
        serde_json::from_str(&env.run(["status", "--workflows", "--json"]).assert_code(0).stdout).unwrap();
    env.run(["why", runs[0]["id"].as_str().unwrap()]).assert_code(0);
    assert_eq!(unseen(), ["script"]);
    assert_eq!(client.board(100).unwrap().board(Timestamp::now()).needs, []);
    // A loop that ends in front of a person is seen by them.
    let words: Vec<String> = args(&env, "terminal", "promise", &[]);
    let line: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let terminal =
        Terminal::open(&env, 100, 30, &format!("{} {}", env!("CARGO_BIN_EXE_dacapo"), line.join(" ")));
    terminal.wait_for("left with 0");
    assert_eq!(unseen(), ["script"]);
}
