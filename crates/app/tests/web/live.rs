//! Events as they happen, and after the server was away.

use std::{
    fs,
    io::Write,
    time::{Duration, Instant},
};

use dacapo_testkit::Signal;
use serde_json::{Value, json};

use crate::support::{LONG, Server, head, looped, newest, world};

#[test]
fn events_come_while_a_loop_runs_and_none_is_missed_over_a_restart() {
    let env = world();
    let server = Server::web(&env, &[]);
    let cookie = server.login();
    let mut events = server.listen("/api/events", None);
    looped(&env, "promise", &[]);
    let heard = events.up_to("loop_finished");
    assert_eq!(heard[0].data["type"], "loop_started");
    let ids: Vec<u64> = heard.iter().map(|heard| heard.id).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert!(heard.iter().all(|heard| heard.data["seq"] == heard.id));
    let printed = env.events(None);
    assert!(heard.iter().map(|heard| &heard.data).eq(&printed), "they are those of `events --json`");

    // The server dies; a loop runs meanwhile; the browser comes back and says what it has seen last.
    let last = ids[ids.len() - 1];
    let port = server.port.to_string();
    server.kill();
    assert!(events.next().is_none());
    looped(&env, "@2: promise", &[]);
    let server = Server::start(&env, &["web", "--port", &port]);
    let mut events = server.listen("/api/events", Some(last));
    let missed = events.up_to("loop_finished");
    assert_eq!(missed[0].id, last + 1);
    let all: Vec<Value> =
        env.events(None).into_iter().filter(|event| event["seq"].as_u64() > Some(last)).collect();
    assert!(missed.iter().map(|heard| &heard.data).eq(&all));
    // It goes on with what is new, each once.
    looped(&env, "promise", &[]);
    let new = events.up_to("loop_finished");
    assert_eq!(new[0].id, missed[missed.len() - 1].id + 1);

    // A login outlives the server, and the number of streams from the beginning on is the same.
    let reply = server.send("GET", "/api/loops", &[("Host", &server.host()), ("Cookie", &cookie)], b"");
    assert_eq!(reply.status, 200, "{}", reply.body);
    let mut all = server.listen("/api/events?from=0", None);
    assert_eq!(all.next().expect("the first").id, 1);
    assert_eq!(server.get("/api/events?from=x").status, 400);
}

#[test]
fn an_event_is_heard_soon_after_it_was_recorded() {
    let env = world();
    let server = Server::web(&env, &[]);
    let mut events = server.listen("/api/events", None);
    let agent = env.agent_cmd_for("say ready; wait-file go; promise");
    let running = env.spawn(["run", "x", "--agent-cmd", &agent, "-n", "1"]);
    events.up_to("agent_started");
    env.write("go", "");
    // By the clock of the journal: when it was recorded, and when it was heard here.
    let end = events.up_to("loop_finished").pop().expect("an end");
    let heard = jiff::Timestamp::now();
    let recorded: jiff::Timestamp = end.data["at"].as_str().unwrap().parse().unwrap();
    let late = heard.duration_since(recorded).as_millis();
    assert!(
        late < 1000,
        "{late} ms; on a quiet machine it is below 200 ms, which `benches/board.rs` measures"
    );
    running.wait(LONG);
}

#[test]
fn a_log_follows_its_loop() {
    let env = world();
    let server = Server::web(&env, &[]);
    let agent = env.agent_cmd_for("say one; wait-file go; say two; promise");
    let running = env.spawn(["run", "x", "--agent-cmd", &agent, "-n", "1", "--kill-grace", "100ms"]);
    server.listen("/api/events?from=0", None).up_to("agent_started");
    let id = newest(&env);
    let mut log = server.listen(&format!("/api/loops/{id}/log/follow"), None);
    let first = log.next().expect("a page");
    assert_eq!(first.data["parts"][0]["text"], "one\n");
    env.write("go", "");
    let mut rest = String::new();
    let end = loop {
        let heard = log.next().expect("a page");
        if heard.kind == "end" {
            break heard;
        }
        rest.push_str(heard.data["parts"][0]["text"].as_str().unwrap());
    };
    assert!(rest.starts_with("two\n"), "{rest}");
    assert!(log.next().is_none(), "nothing follows");
    running.wait(LONG);
    // One that comes back hears only what it has not heard.
    let mut again = server.listen(&format!("/api/loops/{id}/log/follow"), Some(first.id));
    assert!(again.next().unwrap().data["parts"][0]["text"].as_str().unwrap().starts_with("two\n"));
    assert!(end.id > first.id);
}

/// A page hears of many events in one message: whose they are, and what is done.
#[test]
fn a_page_hears_of_what_was_recorded_together_in_one_message() {
    let env = world();
    let id = looped(&env, "promise", &[]);
    let all = env.events(None);
    let server = Server::web(&env, &[]);
    let mut events = server.listen("/api/events?from=0&brief=true", None);
    let heard = events.next().expect("a message");
    assert_eq!(heard.id, all[all.len() - 1]["seq"].as_u64().unwrap(), "the number of the last of them");
    assert_eq!(heard.data["streams"], json!([id]));
    assert_eq!(heard.data["done"][0]["loop"], id.as_str());
    // What comes later is in later messages, and one that comes back misses nothing.
    let second = looped(&env, "@3: promise", &["-n", "1"]);
    let mut streams = Vec::new();
    while streams.is_empty() {
        let heard = events.next().expect("a message");
        streams.extend(heard.data["streams"].as_array().unwrap().iter().cloned());
        assert_eq!(heard.data["done"], json!([]), "it failed");
    }
    assert_eq!(streams, [second.as_str()]);
    let again = server.listen("/api/events?brief=true", Some(heard.id)).next().expect("what was missed");
    assert_eq!(again.data["streams"], json!([second]));
}

/// What a CLI prints as one event is shown whole, however long it is.
#[test]
fn an_event_of_a_cli_that_is_longer_than_a_message_is_shown() {
    let env = world();
    let long = "x".repeat(300_000);
    let said = |text: &str| {
        json!({ "type": "assistant", "session_id": "s", "message": { "id": text.len().to_string(), "model": "m",
            "role": "assistant", "content": [{ "type": "text", "text": text }] } })
    };
    let lines = [
        said("before"),
        said(&long),
        said("behind"),
        json!({ "type": "result", "subtype": "success",
        "is_error": false, "session_id": "s", "result": "" }),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    env.write("said.jsonl", &lines);
    let printed = env.workspace().join("said.jsonl");
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    let agent = format!("agents: {{mine: {{command: [cat, \"{}\"], output: claude}}}}\n", printed.display());
    fs::write(folder.join("config.yaml"), agent).unwrap();
    env.run(["run", "x", "--agent", "mine", "-n", "1", "--restart-delay", "0s"]);
    let server = Server::web(&env, &[]);
    let mut log = server.listen(&format!("/api/loops/{}/log/follow", newest(&env)), None);
    let mut text = String::new();
    while let Some(heard) = log.next().filter(|heard| heard.kind != "end") {
        for part in heard.data["parts"].as_array().unwrap() {
            text.push_str(part["text"].as_str().unwrap());
        }
    }
    assert!(
        text.contains("before\n") && text.contains("behind\n") && text.contains(&long),
        "{} bytes",
        text.len()
    );
}

/// An event that this version cannot read is named, and does not stop the stream.
#[test]
fn an_event_of_a_newer_version_is_passed_over() {
    let env = world();
    looped(&env, "promise", &[]);
    let db = rusqlite::Connection::open(env.dacapo_home().join("dacapo.db")).unwrap();
    db.execute("UPDATE events SET body = json_set(body, '$.type', 'of_the_future') WHERE seq = 3", [])
        .unwrap();
    let server = Server::web(&env, &[]);
    let heard = server.listen("/api/events?from=0", None).up_to("loop_finished");
    let unreadable: Vec<u64> =
        heard.iter().filter(|heard| heard.data["type"] == "unreadable").map(|heard| heard.id).collect();
    assert_eq!(unreadable, [3]);
    assert_eq!(heard.len(), usize::try_from(heard[heard.len() - 1].id).unwrap(), "all others are there");
}

/// A client that takes nothing is given up, and others hear everything meanwhile.
#[test]
fn a_client_that_does_not_listen_is_given_up() {
    let env = world();
    let server = Server::web(&env, &[]);
    for _ in 0..3 {
        looped(&env, "promise", &[]);
    }
    let (host, bearer) = (server.host(), server.bearer());
    // Many requests for a large log, and none of the answers is read.
    let id = looped(&env, "flood-out 4000000; promise", &[]);
    let mut deaf = server.connect();
    let path = format!("/api/loops/{id}/log");
    let one = head("GET", &path, &[("Host", &host), ("Authorization", &bearer)], None)
        .replace("Connection: close\r\n", "");
    deaf.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    for _ in 0..2000 {
        if deaf.write_all(one.as_bytes()).is_err() {
            break;
        }
    }
    let begin = Instant::now();
    looped(&env, "promise", &[]);
    assert_eq!(server.get("/healthz").status, 200);
    deaf.set_read_timeout(Some(LONG)).unwrap();
    env.wait_until("the connection is closed", Duration::from_secs(60), || {
        // A write to a connection that was given up fails.
        deaf.write_all(b"GET").is_err() && begin.elapsed() > Duration::from_secs(1)
    });
}

#[test]
fn streams_end_when_the_server_does() {
    let env = world();
    looped(&env, "promise", &[]);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let server = Server::web(&env, &[]);
        let mut events = server.listen("/api/events?from=0", None);
        events.up_to("loop_finished");
        let begin = Instant::now();
        server.running.signal(signal);
        assert!(events.next().is_none());
        server.running.wait(LONG).assert_code(0);
        assert!(begin.elapsed() < Duration::from_secs(5), "{signal:?}");
    }
}
