//! Asking something of loops and runs from the page: off unless it is allowed, and then what the commands do.

use dacapo_testkit::{Running, TestEnv};
use serde_json::json;

use crate::support::{LONG, Server, looped, newest, world};

const ASKED: [&str; 6] = ["cancel", "pause", "resume", "steer", "approve", "reject"];

/// A loop whose agent waits for a file named after its iteration.
fn waiting_loop(env: &TestEnv) -> (Running, String) {
    let agent = env.agent_cmd_for(
        "touch ready-$DACAPO_ITERATION; prompt-to prompt-$DACAPO_ITERATION; wait-file go-$DACAPO_ITERATION",
    );
    let running = env.spawn([
        "run",
        "do it",
        "--agent-cmd",
        &agent,
        "--restart-delay",
        "0s",
        "--kill-grace",
        "100ms",
        "-n",
        "5",
    ]);
    wait_for_file(env, "ready-1");
    (running, newest(env))
}

#[track_caller]
fn wait_for_file(env: &TestEnv, name: &str) {
    let file = env.workspace().join(name);
    env.wait_until(name, LONG, || file.exists());
}

#[test]
fn a_page_changes_nothing_unless_that_is_allowed() {
    let env = world();
    let (running, id) = waiting_loop(&env);
    let server = Server::web(&env, &[]);
    for asked in ASKED {
        let reply = server.post(&format!("/api/loops/{id}/{asked}"), r#"{"text": "x"}"#);
        assert_eq!(reply.status, 403, "{asked}: {}", reply.body);
        let said = reply.json();
        assert_eq!(said["error"], "this server is read-only");
        assert!(said["hint"].as_str().unwrap().contains("--allow-control"), "{said}");
    }
    let types: Vec<_> = env.events(Some(&id)).iter().map(|event| event["type"].clone()).collect();
    assert!(!types.contains(&json!("steered")) && !types.contains(&json!("pause_requested")), "{types:?}");
    env.run(["cancel", &id]).assert_code(0);
    running.wait(LONG);
}

#[test]
fn a_loop_is_steered_paused_resumed_and_cancelled() {
    let env = world();
    let (running, id) = waiting_loop(&env);
    let server = Server::web(&env, &["--allow-control"]);
    let ask = |asked: &str, body: &str| server.post(&format!("/api/loops/{id}/{asked}"), body);

    // What is said is never a flag, nor something for a shell.
    let words = "--trust $(touch owned) `touch owned`; <b>mind the tests</b>";
    let reply = ask("steer", &json!({ "text": words }).to_string());
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["ok"], true);
    env.write("go-1", "");
    wait_for_file(&env, "ready-2");
    env.wait_until("the prompt", LONG, || env.workspace().join("prompt-2").exists());
    assert!(env.read("prompt-2").contains(words), "{}", env.read("prompt-2"));
    assert!(!env.workspace().join("owned").exists());

    assert_eq!(ask("pause", "").status, 200);
    env.write("go-2", "");
    let state = || server.json(&format!("/api/loops/{id}"))["state"].clone();
    env.wait_until("it is paused", LONG, || state() == "paused");
    let reply = ask("resume", "{}");
    assert_eq!(reply.status, 200, "{}", reply.body);
    wait_for_file(&env, "ready-3");

    for (asked, body, status) in [
        ("steer", "{}", 400),
        ("steer", "not json", 400),
        ("steer", r#"{"text": 3}"#, 400),
        ("steer", r#"{"text": "x", "command": "rm"}"#, 400),
        ("pause", r#"{"text": "x"}"#, 400),
        ("approve", "", 400),
        ("reject", "", 400),
    ] {
        let reply = ask(asked, body);
        assert!(
            reply.status == status || reply.status == 409,
            "{asked} {body}: {} {}",
            reply.status,
            reply.body
        );
        assert!(reply.json()["error"].is_string());
    }
    let reply = ask("cancel", "");
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(state(), "cancelled");
    running.wait(LONG).assert_code(130);
    let reply = ask("cancel", "");
    assert_eq!(reply.status, 409, "{}", reply.body);
    assert_eq!(reply.json()["error"], format!("loop {id} is not running: it is cancelled already"));
    assert_eq!(server.post("/api/loops/zzzzzzzzzz/cancel", "").status, 404);
}

#[test]
fn a_loop_that_has_stopped_goes_on_in_the_background() {
    let env = world();
    let id = looped(&env, "@1: exit 42; @2: promise", &[]);
    let server = Server::web(&env, &["--allow-control"]);
    assert_eq!(server.json(&format!("/api/loops/{id}"))["reason"], "waiting");
    let reply = server.post(&format!("/api/loops/{id}/resume"), "");
    assert_eq!(reply.status, 200, "{}", reply.body);
    env.wait_until("it is done", LONG, || server.json(&format!("/api/loops/{id}"))["state"] == "completed");
    // It is no child of the server: it would have gone on without it.
    server.running.signal(dacapo_testkit::Signal::TERM);
    server.running.wait(LONG).assert_code(0);
}

#[test]
fn a_question_of_a_workflow_is_answered_by_the_id_of_its_run() {
    let env = world();
    env.git_init();
    env.write(
        ".dacapo/workflows/ask.yaml",
        "name: ask\ndescription: asks\nsteps:\n  - id: ask\n    approval: {message: Go on?}\n  - id: after\n    bash: touch after\n",
    );
    env.run(["workflow", "run", "ask", "--trust"]);
    env.run(["trust", "--yes"]);
    let server = Server::web(&env, &["--allow-control"]);
    let id = server.json("/api/runs")[0]["id"].as_str().unwrap().to_owned();
    let wrong = server.post(&format!("/api/loops/{id}/approve"), r#"{"decision": "maybe"}"#);
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    let reply = server.post(&format!("/api/loops/{id}/approve"), r#"{"text": "yes"}"#);
    assert_eq!(reply.status, 200, "{}", reply.body);
    env.wait_until("the run is done", LONG, || {
        server.json(&format!("/api/loops/{id}"))["state"] == "completed"
    });
}
