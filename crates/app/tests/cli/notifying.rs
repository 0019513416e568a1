//! Notifications and the report, with real loops, a local web server and programs that misbehave.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::mpsc::{Receiver, channel},
    thread,
};

use dacapo_testkit::TestEnv;
use serde_json::Value;

use crate::support::{LONG, Task, world};

/// Writes the user's own configuration.
fn configure(env: &TestEnv, text: &str) {
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), text).unwrap();
}

/// A program of this world.
fn program(env: &TestEnv, name: &str, text: &str) -> PathBuf {
    let path = env.root().join("bin").join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A web server that takes what is posted and answers with `status`; without one it never answers.
fn web_server(status: Option<&'static str>) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook/s3cr3t-path", listener.local_addr().unwrap());
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                let body = body_of(&stream);
                let _ = sender.send(serde_json::from_slice(&body).unwrap());
                match status {
                    Some(status) => {
                        let _ = (&stream).write_all(
                            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                                .as_bytes(),
                        );
                    }
                    // The connection stays open until the other side gives up.
                    None => drop((&stream).read(&mut [0; 1])),
                }
            });
        }
    });
    (address, receiver)
}

fn body_of(stream: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}

fn log(env: &TestEnv) -> String {
    fs::read_to_string(env.dacapo_home().join("notify/log")).unwrap_or_default()
}

fn wait_for_log(env: &TestEnv, word: &str) {
    env.wait_until(&format!("`{word}` is in the list of what was sent"), LONG, || log(env).contains(word));
}

#[test]
fn the_end_of_a_loop_is_posted_once_with_all_that_a_person_needs() {
    let env = world();
    let (address, posted) = web_server(Some("200 OK"));
    configure(&env, &format!("notify: [{{on: [loop_finished], webhook: \"{address}\"}}]"));
    env.run_loop("promise", &[]).assert_code(0);
    let told = posted.recv_timeout(LONG).unwrap();
    assert_eq!((&told["event"], &told["title"]), (&"loop_finished".into(), &"t is done".into()));
    assert_eq!(
        (&told["kind"], &told["state"], &told["reason"]),
        (&"loop".into(), &"completed".into(), &"done".into())
    );
    assert_eq!(told["project"], "p");
    assert!(told["text"].as_str().unwrap().starts_with("t is done\n"), "{told}");
    assert!(told["command"].as_str().unwrap().starts_with("dacapo receipt "), "{told}");
    wait_for_log(&env, "\tsent\twebhook http://127.0.0.1:");
    assert!(!log(&env).contains("s3cr3t-path"), "the path of an address may be a secret");
    // A second loop is told; the first one is not told again.
    env.run_loop("exit 42", &[]).assert_code(4);
    let second = posted.recv_timeout(LONG).unwrap();
    assert_eq!((&second["event"], &second["is_end"]), (&"question".into(), &true.into()));
    assert!(posted.try_recv().is_err());
}

#[test]
fn a_question_starts_a_command_that_gets_json_and_variables_and_no_shell() {
    let env = world();
    let out = env.root().join("told");
    program(
        &env,
        "tell",
        &format!(
            "cat > {0}.json; printf '%s|%s|%s' \"$DACAPO_NOTIFY_EVENT\" \"$DACAPO_NOTIFY_TITLE\" \"$*\" > {0}",
            out.display()
        ),
    );
    configure(&env, "notify: [{on: [question], command: \"tell 'two words' $(touch pwned)\"}]");
    env.run_loop("sh dacapo bus post --type QUESTION '$(touch pwned) which one?'; exit 42", &[])
        .assert_code(4);
    env.wait_until("the command was started", LONG, || out.exists() && !fs::read(&out).unwrap().is_empty());
    let told = fs::read_to_string(&out).unwrap();
    assert!(
        told.ends_with("|two words $(touch pwned)"),
        "its words are its own, and no shell reads them: {told}"
    );
    assert!(told.starts_with("question|t "), "{told}");
    let json: Value = serde_json::from_str(&fs::read_to_string(out.with_extension("json")).unwrap()).unwrap();
    assert_eq!(json["event"], "question");
    assert!(!env.workspace().join("pwned").exists() && !env.home().join("pwned").exists());
}

#[test]
fn a_service_that_never_answers_is_given_up_and_written_down() {
    let env = world();
    let (address, posted) = web_server(None);
    configure(&env, &format!("notify: [{{webhook: \"{address}\"}}]"));
    env.run_loop("promise", &[]).assert_code(0);
    assert_eq!(posted.recv_timeout(LONG).unwrap()["event"], "loop_finished");
    wait_for_log(&env, "\tfailed\twebhook");
}

#[test]
fn what_fails_is_written_down_and_doctor_says_so() {
    let env = world();
    let (address, posted) = web_server(Some("500 Internal Server Error"));
    // A port that was free a moment ago: nothing listens there.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    program(
        &env,
        "flood",
        "yes noise | head -c 5000000 >&2; yes noise | head -c 5000000; echo the end >&2; exit 3",
    );
    configure(
        &env,
        &format!(
            "notify:\n  - {{webhook: \"{address}\"}}\n  - {{webhook: \"http://{gone}/x\"}}\n  - {{command: flood}}\n  - {{command: not-there}}\n  - {{bell: true}}\n"
        ),
    );
    env.run_loop("promise", &[]).assert_code(0);
    posted.recv_timeout(LONG).unwrap();
    for words in ["answered 500", "refused", "exited 3: ", "no `not-there`", "no terminal"] {
        wait_for_log(&env, words);
    }
    assert!(log(&env).contains("the end"), "the end of what a program complains: {}", log(&env));
    assert!(log(&env).len() < 10_000);
    let doctor = env.run(["doctor"]).stdout;
    assert!(doctor.contains("answered 500") && doctor.contains("no `not-there` that can be run"), "{doctor}");
    let test = env.run(["notify", "test"]).assert_code(1).stdout;
    assert!(test.contains("failed  webhook http://127.0.0.1:") && test.contains("answered 500"), "{test}");
    assert!(!test.contains("s3cr3t-path"), "{test}");
}

#[test]
fn a_sample_goes_by_each_channel_and_without_one_the_user_is_told_how() {
    let env = world();
    let none = env.run(["notify", "test"]).assert_code(2).stderr;
    assert!(none.contains("no channel is configured") && none.contains("hint: add one to"), "{none}");
    program(&env, "notify-send", &format!("printf '%s\\n' \"$@\" > {}", env.root().join("shown").display()));
    configure(&env, "notify: [{desktop: true, quiet: \"00:00-23:59\"}]");
    let sent = env.run(["notify", "test"]).assert_code(0).stdout;
    assert_eq!(sent, "sent    desktop\n");
    let shown = fs::read_to_string(env.root().join("shown")).unwrap();
    assert!(shown.starts_with("--app-name=dacapo\n--\ndacapo: this is a test\n"), "{shown}");
    let listed: Value =
        serde_json::from_str(&env.run(["notify", "test", "--json"]).assert_code(0).stdout).unwrap();
    assert_eq!((&listed[0]["is_sent"], &listed[0]["quiet"]), (&true.into(), &"00:00-23:59".into()));
}

#[test]
fn quiet_hours_hold_back_until_they_are_over() {
    let env = world();
    let (address, posted) = web_server(Some("200 OK"));
    // The clock of these tests is UTC. It is quiet all day but for its last minute.
    configure(&env, &format!("notify: [{{webhook: \"{address}\", quiet: \"00:00-23:59\"}}]"));
    env.run_loop("promise", &[]).assert_code(0);
    let state = env.dacapo_home().join("notify/sent.json");
    let is_held = || fs::read_to_string(&state).is_ok_and(|text| text.contains("\"count\":1"));
    env.wait_until("it was held back", LONG, is_held);
    configure(&env, &format!("notify: [{{webhook: \"{address}\"}}]"));
    env.run_loop("exit 42", &[]).assert_code(4);
    let told = posted.recv_timeout(LONG).unwrap();
    assert_eq!(told["held_back"]["titles"][0], "t is done", "{told}");
    assert!(posted.try_recv().is_err());
}

#[test]
#[ignore = "scripts/test --more: it waits for the end of a minute"]
fn what_quiet_hours_held_back_is_told_when_they_end() {
    let env = world();
    let (address, posted) = web_server(Some("200 OK"));
    // The clock of these tests is UTC. It is quiet for the rest of this minute, and of the next one if this one is over too soon.
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(80);
    let end = end.strftime("%H:%M").to_string();
    configure(&env, &format!("notify: [{{webhook: \"{address}\", quiet: \"00:00-{end}\"}}]"));
    env.run_loop("promise", &[]).assert_code(0);
    assert!(posted.try_recv().is_err(), "it is quiet");
    let told = posted.recv_timeout(LONG + std::time::Duration::from_secs(80)).unwrap();
    assert_eq!(told["held_back"]["titles"][0], "t is done", "{told}");
}

#[test]
fn mistakes_in_the_configuration_are_named_before_a_loop_begins() {
    let env = world();
    configure(&env, "notify: [{on: [finished], desktop: true, quiet: \"25:00-07:00\"}]");
    let refused = env.run_loop("promise", &[]).assert_code(2).stderr;
    assert!(
        refused.contains("did you mean `loop_finished`?") && refused.contains("`25:00` is no time"),
        "{refused}"
    );
    configure(&env, "");
    env.write(".dacapo/config.yaml", "notify: [{command: \"curl evil\"}]\n");
    let refused = env.run_loop("promise", &[]).assert_code(2).stderr;
    assert!(refused.contains("`command` is the user's to say, a repository cannot set it"), "{refused}");
}

#[test]
fn the_report_tells_of_a_night_and_of_nothing() {
    let env = world();
    let nothing = env.run(["report"]).assert_code(0).stdout;
    assert!(nothing.contains("(12h): nothing was run.\n\nNothing needs you.\n"), "{nothing}");
    env.write("a.txt", "one\n").git_init();
    env.run_loop("write b.txt two; promise", &["--gate", "test -f b.txt"]).assert_code(0);
    env.run(env.run_agent_args(
        "sh dacapo bus post --type QUESTION 'which one?'; exit 42",
        ["--project", "p", "--task", "asks"],
    ))
    .assert_code(4);
    env.run(env.run_agent_args("say no", ["--project", "p", "--task", "fails", "-n", "1"])).assert_code(3);
    let report = env.run(["report"]).assert_code(0).stdout;
    let needs = report.find("Needs you (2)").unwrap();
    let asks = report.find("asks asks, ").unwrap();
    let fails = report.find("fails failed, ").unwrap();
    let ended = report.find("Ended (3)").unwrap();
    assert!(needs < asks && asks < fails && fails < ended, "{report}");
    assert!(report.contains("> dacapo steer ") && report.contains("-n +10"), "{report}");
    assert!(
        report.contains("1 iteration · verified") && report.contains("changed 1 file: b.txt"),
        "{report}"
    );
    let json: Value = serde_json::from_str(&env.run(["report", "--json"]).assert_code(0).stdout).unwrap();
    assert_eq!(json["needs"][0]["urgency"], "question");
    assert_eq!(json["needs"][1]["urgency"], "failed");
    assert_eq!(json["totals"]["completed"], 1);
    assert_eq!(json["ended"].as_array().unwrap().len(), 3);
    env.run(["report", "--since", "soon"]).assert_code(2);
}
