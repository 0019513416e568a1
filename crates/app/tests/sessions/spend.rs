//! What the agent of a session used: read from what its host writes, held against budgets, and shown.

use std::{fs, io::Write};

use serde_json::{Value, json};

use crate::support::{Host, assert_let_go, assert_sent_back};

/// The agent says something, and its host writes what that took.
fn say(host: &Host, id: u32, model: &str, output: u64) {
    let line = json!({"type": "assistant", "message": {"id": format!("m{id}"), "role": "assistant", "model": model,
        "content": [{"type": "text", "text": format!("round {id}")}],
        "usage": {"input_tokens": 1000, "output_tokens": output}}});
    let file = fs::File::options().create(true).append(true).open(host.transcript("s1"));
    writeln!(file.expect("the transcript"), "{line}").expect("the transcript can be written");
}

fn stop(host: &Host, id: u32) -> Value {
    host.env.write("work", id.to_string());
    let mut input = host.stop_input("s1", &format!("round {id}"));
    input["transcript_path"] = host.transcript("s1").to_string_lossy().into_owned().into();
    host.hook(&["stop", "--agent", "claude"], &input)
}

fn begin(host: &Host) {
    // What was used before the loop began is none of its own.
    say(host, 0, "claude-opus-5-5", 900_000);
    let transcript = host.transcript("s1").to_string_lossy().into_owned();
    host.start("s1", &["--transcript", &transcript]).assert_code(0);
}

fn status(host: &Host) -> Value {
    let output = host.env.run(["status", "--all", "--json"]).assert_code(0).stdout;
    let mut all: Value = serde_json::from_str(&output).expect("JSON");
    all[0].take()
}

#[test]
fn tokens_and_money_are_counted_once_and_shown() {
    let host = Host::new();
    begin(&host);
    say(&host, 1, "claude-opus-5-5", 200);
    // The host writes the same message again, with what came after it was begun.
    say(&host, 1, "claude-opus-5-5", 300);
    assert_sent_back(&stop(&host, 1), "2/100");
    // A part of the first message is written late.
    say(&host, 1, "claude-opus-5-5", 300);
    say(&host, 2, "claude-opus-5-5", 50);
    assert_sent_back(&stop(&host, 2), "3/100");
    let status = status(&host);
    assert_eq!(
        (&status["tokens"]["input"], &status["tokens"]["output"]),
        (&json!(2000), &json!(350)),
        "{status}"
    );
    assert_eq!(status["cost_estimated"], true, "a list price: {status}");
    let cost = status["cost_usd"].as_f64().expect("a price");
    assert!(cost > 0.0);
    let (report, _) = (host.env.run(["report", "--json"]).assert_code(0).stdout, ());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert!(report.to_string().contains("350"), "{report}");
}

#[test]
fn a_budget_ends_the_loop_when_the_agent_stops_and_can_be_raised() {
    let host = Host::new();
    host.user("limits: {max_tokens: 2500}\n");
    begin(&host);
    say(&host, 1, "claude-opus-5-5", 200);
    assert_sent_back(&stop(&host, 1), "2/100");
    say(&host, 2, "claude-opus-5-5", 400);
    assert_let_go(&stop(&host, 2));
    let end = host.end();
    assert_eq!((&end["reason"], &end["exit_code"]), (&json!("budget"), &json!(3)), "{end}");
    host.env.run(["resume", "session-s1", "--max-tokens", "9000"]).assert_code(0);
    say(&host, 3, "claude-opus-5-5", 1);
    assert_sent_back(&stop(&host, 3), "3/100");
}

#[test]
fn a_budget_of_money_is_no_fiction_where_the_model_has_no_price() {
    let host = Host::new();
    host.user("limits: {max_cost: 5}\n");
    begin(&host);
    say(&host, 1, "a-model-of-my-own", 200);
    assert_let_go(&stop(&host, 1));
    let end = host.end();
    assert_eq!(end["reason"], "budget", "{end}");
    assert!(end["detail"].as_str().is_some_and(|why| why.contains("a-model-of-my-own")), "{end}");
}

#[test]
fn explain_shows_what_a_loop_in_a_session_would_go_by() {
    // req 200
    let host = Host::new();
    host.user("session: {max_iterations: 40, completion_promise: ALL_FIXED}\nlimits: {max_cost: 5, max_iterations: 60}\ngates: [{name: tests, run: 'true'}]\n");
    let shown = host.env.run(["explain", "session", "--agent", "codex", "--json"]).assert_code(0).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["preset"], "session");
    let policy = &shown["policy"];
    assert_eq!(policy["max_iterations"]["value"], 40);
    assert!(
        policy["max_iterations"]["from"].as_str().is_some_and(|from| from.contains("config.yaml")),
        "{policy}"
    );
    assert_eq!(policy["promise"]["value"]["text"], "ALL_FIXED", "{}", policy["promise"]);
    assert!(policy["promise"]["from"].as_str().is_some_and(|from| from.contains("config.yaml")), "{policy}");
    assert_eq!((&policy["max_cost"]["value"], &policy["unchanged_idles"]["value"]), (&json!(5.0), &json!(3)));
    assert_eq!(shown["gates"][0]["name"], "tests");
    let words = host.env.run(["explain", "session", "--max-iterations=7"]).assert_code(0).stdout;
    assert!(words.contains("preset       session") && words.contains("--max-iterations"), "{words}");
    host.user("session: {enabled: false}\n");
    let words = host.env.run(["explain", "session"]).assert_code(0).stdout;
    assert!(words.contains("It would not start: loops inside sessions are switched off here"), "{words}");
}
