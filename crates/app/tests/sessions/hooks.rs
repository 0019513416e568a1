//! The way of a loop through the hooks of its host.

use std::{io::Write as _, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use dacapo_testkit::{Running, Signal};
use serde_json::{Value, json};

use crate::support::{Host, assert_let_go, assert_sent_back};

#[test]
fn a_loop_goes_from_its_command_to_its_promise() {
    // req 104, req 108, req 122, req 125, req 130, req 132: every call is a process of its own
    let host = Host::new();
    let answer = host.prompt(
        "s1",
        "/ralph \"Fix all TypeScript errors\" --max-iterations=25 --completion-promise=ALL_FIXED",
    );
    let context = answer["hookSpecificOutput"]["additionalContext"].as_str().expect("as the test has it");
    assert!(context.starts_with("Fix all TypeScript errors\n"), "{context}");
    let toast = "Ralph Loop Started: Max 25 iterations. Complete with <promise>ALL_FIXED</promise>";
    assert_eq!(answer["systemMessage"], toast);
    let state = host.state("s1");
    assert_eq!(state["prompt"], "Fix all TypeScript errors", "no flag is swallowed: {state}");
    assert_eq!(
        (&state["active"], &state["iteration"], &state["maxIterations"]),
        (&json!(true), &json!(1), &json!(25))
    );
    assert_eq!((&state["completionPromise"], &state["sessionId"]), (&json!("ALL_FIXED"), &json!("s1")));
    assert!(state["startedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{state}");

    assert_sent_back(&host.work_and_stop("s1", "one"), "2/25");
    let answer = host.work_and_stop("s1", "two");
    assert_sent_back(&answer, "3/25");
    assert_eq!(answer["systemMessage"], "Ralph Loop: Iteration 3/25");
    let state = host.state("s1");
    assert_eq!(state["iteration"], 3);
    assert!(state["lastIterationAt"].as_str() > state["startedAt"].as_str(), "{state}");
    let answer = host.work_and_stop("s1", "All is fixed. <promise> all_fixed </promise>");
    assert_eq!(answer, json!({"systemMessage": "Ralph Loop Complete!: Task completed after 3 iteration(s)"}));
    assert_eq!(host.state("s1"), Value::Null);
    assert_eq!(host.stop("s1", "done"), Value::Null, "nothing lets it go");
}

#[test]
fn a_gate_refuses_the_promise_and_the_agent_is_told_why_once() {
    // req 125
    let host = Host::new();
    host.user("gates: [{name: tests, run: 'echo 2 tests failed; test -f fixed'}]\n");
    host.start("s1", &["--max-iterations", "9"]).assert_code(0);
    let refused = host.work_and_stop("s1", "<promise>DONE</promise>");
    let reason = refused["reason"].as_str().expect("as the test has it");
    assert!(reason.contains("the check `tests` exited 1") && reason.contains("2 tests failed"), "{reason}");
    let again = host.work_and_stop("s1", "really <promise>DONE</promise>");
    assert_sent_back(&again, "3/9");
    assert!(!again["reason"].as_str().expect("as the test has it").contains("2 tests failed"), "{again}");
    host.env.write("fixed", "");
    let answer = host.stop("s1", "now <promise>DONE</promise>");
    assert_eq!(answer["systemMessage"], "Ralph Loop Complete!: Task completed after 3 iteration(s)");
    let receipt = host.env.run(["receipt", "--json"]).assert_code(0).stdout;
    let receipt: Value = serde_json::from_str(&receipt).expect("as the test has it");
    assert_eq!(receipt["gates"][0]["exit_code"], 0);
}

#[test]
fn two_sessions_in_one_folder_do_not_touch_each_other() {
    // fault B11, req 109, req 110, req 121
    let host = Host::new();
    host.start("mine", &[]).assert_code(0);
    let before = host.env.events(None).len();
    assert_eq!(host.work_and_stop("other", "<promise>DONE</promise>"), Value::Null);
    let background = json!({"session_id": "other", "error": {"name": "AbortError"}});
    host.hook(&["event", "session.error", "--agent", "opencode"], &background);
    host.hook(&["event", "session.deleted", "--agent", "opencode"], &json!({"session_id": "other"}));
    assert_eq!(host.state("other"), Value::Null);
    host.env.run(["session", "cancel", "--session", "other"]).assert_code(1);
    assert_eq!(host.env.events(None).len(), before, "nothing was recorded");
    assert_sent_back(&host.stop("mine", "working"), "2/100");
    let any = host.env.run(["session", "state", "--json"]).assert_code(0).stdout;
    assert!(any.contains("\"sessionId\":\"mine\""), "without a session any state: {any}");

    let refused = host.start("other", &[]).assert_code(5);
    assert!(refused.stderr.contains("session mine has an active loop in this folder"), "{}", refused.stderr);
    host.start("other", &["--force"]).assert_code(0);
    assert_eq!(host.state("mine"), Value::Null, "it took its place");
}

#[test]
fn the_limit_and_idles_without_a_change_let_the_session_go() {
    // req 123, req 125
    let host = Host::new();
    host.start("s1", &["--max-iterations=2"]).assert_code(0);
    assert_sent_back(&host.work_and_stop("s1", "one"), "2/2");
    let answer = host.work_and_stop("s1", "two");
    let toast = "Ralph Loop Stopped: Max iterations (2) reached without completion";
    assert_eq!(answer, json!({"systemMessage": toast}));

    host.start("s1", &[]).assert_code(0);
    assert_sent_back(&host.stop("s1", "a"), "2/100");
    assert_sent_back(&host.stop("s1", "b"), "3/100");
    let answer = host.stop("s1", "c");
    assert_let_go(&answer);
    assert!(
        answer["systemMessage"].as_str().expect("as the test has it").contains("3 times in a row"),
        "{answer}"
    );
    assert_eq!(host.end()["reason"], "stuck");
}

#[test]
fn the_seeds_events_are_answered_with_what_the_plugin_does() {
    // req 107, req 116, req 117, req 131
    let host = Host::new();
    host.user("session: {continuation_delay: 250ms, max_iterations: 7, completion_promise: FINI}\n");
    let event = |name: &str, more: Value| {
        let mut input = json!({"sessionID": "o", "directory": host.env.workspace()});
        input
            .as_object_mut()
            .expect("as the test has it")
            .extend(more.as_object().expect("as the test has it").clone());
        host.hook(&["event", name, "--agent", "opencode"], &input)
    };
    let messages = |texts: &[&str]| {
        let of = |text: &&str| json!({"role": "assistant", "content": text});
        json!({"messages": texts.iter().map(of).collect::<Vec<_>>()})
    };
    assert_eq!(event("session.idle", json!({}))["prompt"], Value::Null, "no state, nothing (req 120)");
    host.start("o", &["--agent", "opencode"]).assert_code(0);
    let answer = event("session.idle", messages(&["working"]));
    assert!(
        answer["prompt"].as_str().expect("as the test has it").starts_with("[RALPH LOOP - ITERATION 2/7]"),
        "{answer}"
    );
    assert_eq!(answer["delay_ms"], 250);
    let toast =
        json!({"title": "Ralph Loop", "message": "Iteration 2/7", "variant": "info", "duration": 2000});
    assert_eq!(answer["toasts"], json!([toast]));
    let answer = event("session.idle", messages(&["working", "<promise>fini</promise>"]));
    assert_eq!(answer["toasts"][0]["title"], "Ralph Loop Complete!");
    assert_eq!((&answer["prompt"], host.state("o")), (&Value::Null, Value::Null));

    for (name, more) in [
        ("session.error", json!({"error": {"name": "MessageAbortedError"}})),
        ("session.error", json!({"data": {"error": {"name": "AbortError"}}})),
        ("session.deleted", json!({})),
        ("session.deleted", json!({"sessionID": "context", "data": {"sessionId": "o"}})),
    ] {
        host.start("o", &["--agent", "opencode"]).assert_code(0);
        // The id in the data is the one that counts.
        event("session.deleted", json!({"data": {"sessionId": "another"}}));
        assert!(host.state("o").is_object(), "{name}");
        event(name, more);
        assert_eq!(host.state("o"), Value::Null, "{name}");
    }
    let answer = host.prompt("o", "/cancel-ralph");
    assert_eq!(answer["reason"], "No Active Loop: No Ralph Loop is currently running");
}

#[test]
fn an_idle_after_an_error_is_taken_up_when_the_window_ends() {
    // req 118, req 119
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let error = json!({"session_id": "s1", "error": {"name": "UnknownError", "message": "it broke"}});
    host.hook(&["event", "session.error", "--agent", "opencode"], &error);
    let since = std::time::Instant::now();
    assert_sent_back(&host.work_and_stop("s1", "working"), "2/100");
    assert!(since.elapsed().as_millis() > 3000, "{:?}", since.elapsed());
    let skipped = host.env.events(None).into_iter().filter(|event| event["type"] == "idle_skipped").count();
    assert_eq!(skipped, 1);
}

/// Has every git of dacapo's run this command first; gives the file to remove when it no longer shall.
fn before_git(host: &Host, command: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("a PATH");
    let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file()).expect("git");
    let file = host.env.root().join("bin/git");
    let script = format!("#!/bin/sh\n{command}\nexec '{}' \"$@\"\n", git.display());
    std::fs::write(&file, script).expect("another git");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    file
}

#[test]
fn a_stop_starts_two_git_processes_and_one_if_nothing_has_changed() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let log = host.env.root().join("gits");
    before_git(&host, &format!("echo git >>'{}'", log.display()));
    for (words, expected) in [("one", 2), ("two", 2)] {
        host.work_and_stop("s1", words);
        let started = std::fs::read_to_string(&log).expect("the log").lines().count();
        assert_eq!(started, expected, "{words}");
        std::fs::remove_file(&log).expect("the log");
    }
    host.stop("s1", "three");
    assert_eq!(std::fs::read_to_string(&log).expect("the log"), "git\n");
}

#[test]
fn the_same_stop_twice_is_one_and_background_tasks_are_waited_for() {
    // req 134
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    // A hook that is installed twice is run twice for the same stop, here on a machine so slow that the first one takes longer
    // than two idles of one turn lie apart.
    let slow = before_git(&host, "sleep 0.4");
    let input = host.stop_input("s1", "working").to_string();
    let file = host.env.root().join("twice");
    std::fs::write(&file, input).expect("as the test has it");
    let start = || {
        let mut command = host.env.dacapo(["hook", "stop", "--agent", "claude"]);
        command.stdin(std::fs::File::open(&file).expect("as the test has it"));
        dacapo_testkit::Running::start(command)
    };
    let both =
        [start(), start()].map(|running| running.wait(std::time::Duration::from_secs(60)).assert_code(0));
    let blocks = both.iter().filter(|output| output.stdout.contains("\"block\"")).count();
    assert_eq!((blocks, host.state("s1")["iteration"].as_u64()), (1, Some(2)), "{both:?}");

    std::fs::remove_file(slow).expect("git is fast again");
    let mut busy = host.stop_input("s1", "waiting for the build");
    busy["background_tasks"] = json!([{"id": "b1", "status": "running", "command": "make"}]);
    assert_eq!(host.hook(&["stop", "--agent", "claude"], &busy), Value::Null);
    assert_eq!(host.state("s1")["iteration"], 2, "not sent back");
    assert_sent_back(&host.work_and_stop("s1", "the build is over"), "3/100");
}

#[test]
fn a_limit_of_the_provider_parks_the_loop() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let failure = json!({"session_id": "s1", "cwd": host.env.workspace(), "hook_event_name": "StopFailure",
        "error": "rate_limit", "last_assistant_message": "You've hit your 5-hour limit · resets 11:55pm (UTC)"});
    host.hook(&["failure", "--agent", "claude"], &failure);
    let status = host.env.run(["status", "--json"]).assert_code(0).stdout;
    let status: Value = serde_json::from_str(&status).expect("as the test has it");
    assert_eq!(status[0]["state"], "parked", "{status}");
    let answer = host.work_and_stop("s1", "works again");
    assert!(
        answer["reason"].as_str().expect("as the test has it").starts_with("Fix it.\n"),
        "the same prompt again: {answer}"
    );
    assert_eq!(host.state("s1")["iteration"], 1, "the turn that met the limit is not charged");
}

#[test]
fn a_host_that_ends_with_the_error_does_not_take_the_report_of_it_along() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let mut command = host.env.dacapo(["hook", "failure", "--agent", "claude"]);
    let (input, mut given) = std::io::pipe().expect("a pipe");
    command.stdin(input);
    let hook = Running::start(command);
    let catches_term = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", hook.pid())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or_default();
        u64::from_str_radix(caught.trim(), 16).is_ok_and(|caught| caught & (1 << 14) != 0)
    };
    host.env.wait_until("the hook minds signals", Duration::from_secs(60), catches_term);
    // Claude Code without a terminal ends as soon as it has printed the error, and its hooks with it.
    hook.signal(Signal::TERM);
    let failure = json!({"session_id": "s1", "cwd": host.env.workspace(), "hook_event_name": "StopFailure",
        "error": "rate_limit", "last_assistant_message": "You've hit your 5-hour limit · resets 11:55pm (UTC)"});
    write!(given, "{failure}").expect("it listens");
    drop(given);
    hook.wait(Duration::from_secs(60)).assert_code(0);
    let parked = host.env.events(None).into_iter().any(|event| event["type"] == "parked");
    assert!(parked, "the limit is known");
}

#[test]
fn an_iteration_that_cannot_be_recorded_is_told_and_nothing_is_injected() {
    // req 106, req 126
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let journal = rusqlite::Connection::open(host.env.dacapo_home().join("dacapo.db")).expect("the journal");
    let full =
        "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
    journal.execute_batch(full).expect("a journal that takes no event");
    host.env.write("work", "1");
    let input = host.stop_input("s1", "one").to_string();
    let output = host.with_input(&["hook", "stop", "--agent", "claude"], input.as_bytes()).assert_code(0);
    assert!(output.stderr.contains("the disk is full"), "{output:?}");
    let answer: Value = serde_json::from_str(&output.stdout).expect("an answer");
    assert_let_go(&answer);
    let told = answer["systemMessage"].as_str().expect("the person is told");
    assert!(told.contains("the disk is full"), "{told}");
    assert_eq!(host.state("s1")["iteration"], 1, "not counted");
    journal.execute_batch("DROP TRIGGER full").expect("room again");
    assert_sent_back(&host.stop("s1", "one more"), "2/100");
}

#[test]
fn a_prompt_that_the_plugin_could_not_inject_is_sent_again_and_not_charged() {
    // req 127
    let host = Host::new();
    host.start("o", &["--agent", "opencode", "--max-iterations", "3"]).assert_code(0);
    let event = |name: &str, more: Value| {
        let mut input = json!({"session_id": "o", "cwd": host.env.workspace()});
        input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        host.hook(&["event", name, "--agent", "opencode"], &input)
    };
    let said = |texts: &[&str]| {
        let of = |text: &&str| json!({"role": "assistant", "content": text});
        json!({"messages": texts.iter().map(of).collect::<Vec<_>>()})
    };
    let starts = |answer: &Value, header: &str| {
        answer["prompt"].as_str().is_some_and(|prompt| prompt.starts_with(header))
    };
    host.env.write("work", "1");
    let answer = event("session.idle", said(&["one"]));
    assert!(starts(&answer, "[RALPH LOOP - ITERATION 2/3]"), "{answer}");
    for _ in 0..2 {
        event("prompt.failed", json!({"error": {"message": "the server is busy"}}));
    }
    let failed: Vec<Value> =
        host.env.events(None).into_iter().filter(|event| event["type"] == "prompt_not_delivered").collect();
    assert_eq!((failed.len(), &failed[0]["why"]), (1, &json!("the server is busy")));
    host.env.write("work", "2");
    let answer = event("session.idle", said(&["one", "two"]));
    assert!(starts(&answer, "[RALPH LOOP - ITERATION 2/3]"), "the same iteration again: {answer}");
    assert_eq!(host.state("o")["iteration"], 2);
    // A session without a loop is not bothered.
    let mut input = json!({"session_id": "other", "error": {"message": "m"}});
    input["cwd"] = json!(host.env.workspace());
    assert_eq!(host.hook(&["event", "prompt.failed", "--agent", "opencode"], &input)["faults"], json!([]));
}

#[test]
fn a_blocked_agent_is_let_go_and_the_user_is_told() {
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    let answer = host.work_and_stop("s1", "It cannot be done.\n<blocked>the key is missing</blocked>");
    assert_let_go(&answer);
    assert!(
        answer["systemMessage"].as_str().expect("as the test has it").contains("the key is missing"),
        "{answer}"
    );
    assert_eq!(host.end()["reason"], "blocked");
}

#[test]
fn the_hook_names_itself_and_what_it_hears() {
    // req 115
    let host = Host::new();
    let list = host.env.run(["hook", "list", "--json"]).assert_code(0).stdout;
    let list: Value = serde_json::from_str(&list).expect("as the test has it");
    let events = json!(["session.idle", "session.error", "session.deleted"]);
    assert_eq!(list, json!([{"name": "ralph-loop", "priority": 50, "events": events}]));
}

#[test]
fn each_host_is_heard_and_answered_in_its_own_form() {
    let host = Host::new();
    for (agent, decision) in [("codex", "block"), ("qwen", "block"), ("copilot", "block"), ("gemini", "deny")]
    {
        let session = format!("s-{agent}");
        host.start(&session, &["--agent", agent, "--force"]).assert_code(0);
        let mut input = json!({"cwd": host.env.workspace()});
        match agent {
            "copilot" => input["sessionId"] = session.clone().into(),
            _ => input["session_id"] = session.clone().into(),
        }
        let words = |input: &mut Value, text: &str| match agent {
            "gemini" => {
                let known = input["prompt_response"].as_str().unwrap_or_default().to_owned();
                input["prompt_response"] = format!("{known}{text}").into();
            }
            "copilot" => {
                let path = host.transcript(&session);
                let line = json!({"type": "assistant.message", "data": {"content": text}});
                let known = std::fs::read_to_string(&path).unwrap_or_default();
                std::fs::write(&path, format!("{known}{line}\n")).expect("as the test has it");
                input["transcriptPath"] = path.to_string_lossy().into_owned().into();
            }
            _ => input["last_assistant_message"] = text.into(),
        };
        words(&mut input, "working");
        host.env.write("work", agent);
        let answer = host.hook(&["stop", "--agent", agent], &input);
        assert_eq!(answer["decision"], decision, "{agent}: {answer}");
        assert!(
            answer["reason"].as_str().expect("as the test has it").contains("ITERATION 2/100"),
            "{agent}: {answer}"
        );
        // Gemini repeats what it handed over before.
        input["stop_hook_active"] = true.into();
        words(&mut input, " It is done. <promise>DONE</promise>");
        assert_let_go(&host.hook(&["stop", "--agent", agent], &input));
        assert_eq!(host.end()["reason"], "done", "{agent}");
    }
}
