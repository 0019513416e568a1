//! What counts of a transcript, and what is read of it.

use std::{fs, io::Write};

use serde_json::{Value, json};

use crate::support::{Host, assert_let_go, assert_sent_back};

fn said(text: &str) -> String {
    format!(
        "{}\n",
        json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}})
    )
}

fn user(text: &str) -> String {
    format!("{}\n", json!({"type": "user", "message": {"role": "user", "content": text}}))
}

fn append(host: &Host, text: &str) {
    let file = fs::File::options().create(true).append(true).open(host.transcript("s1"));
    file.expect("as the test has it").write_all(text.as_bytes()).expect("as the test has it");
}

fn stop(host: &Host, words: &str) -> Value {
    let mut input = host.stop_input("s1", words);
    input["transcript_path"] = host.transcript("s1").to_string_lossy().into_owned().into();
    host.hook(&["stop", "--agent", "claude"], &input)
}

#[test]
fn only_the_agents_words_since_the_loop_began_count() {
    // req 112, req 114, fault A2
    let host = Host::new();
    append(&host, &said("<promise>DONE</promise>"));
    let transcript = host.transcript("s1").to_string_lossy().into_owned();
    host.start("s1", &["--transcript", &transcript]).assert_code(0);
    append(&host, &user("Stop when you say <promise>DONE</promise>"));
    append(&host, &said("working"));
    host.env.write("work", "1");
    assert_sent_back(&stop(&host, "working"), "2/100");
    append(&host, &user("[RALPH LOOP - ITERATION 2/100] … output: <promise>DONE</promise>"));
    append(&host, &said("Now it is done: <promise>DONE</promise>"));
    append(&host, &said("Is there anything else?"));
    host.env.write("work", "2");
    assert_let_go(&stop(&host, "Is there anything else?"));
    assert_eq!(host.end()["reason"], "done", "the promise stands before the last message");
}

#[test]
fn a_promise_that_is_not_in_the_transcript_yet_counts_and_an_old_one_does_not_count_again() {
    // fault A7
    let host = Host::new();
    host.user("gates: ['test -f fixed']\n");
    append(&host, &user("hello"));
    let transcript = host.transcript("s1").to_string_lossy().into_owned();
    host.start("s1", &["--transcript", &transcript]).assert_code(0);
    host.env.write("work", "1");
    let refused = stop(&host, "<promise>DONE</promise>");
    assert!(
        refused["reason"].as_str().expect("as the test has it").contains("was not accepted"),
        "{refused}"
    );
    // The host writes it after the hook has run.
    append(&host, &said("<promise>DONE</promise>"));
    append(&host, &said("I look at it again."));
    host.env.write("work", "2");
    host.env.write("fixed", "");
    assert_sent_back(&stop(&host, "I look at it again."), "3/100");
}

#[test]
fn a_transcript_that_is_missing_or_unreadable_says_nothing() {
    // req 113
    let host = Host::new();
    host.start("s1", &[]).assert_code(0);
    host.env.write("work", "1");
    assert_sent_back(&stop(&host, "a"), "2/100");
    fs::create_dir(host.transcript("s1")).expect("as the test has it");
    host.env.write("work", "2");
    assert_sent_back(&stop(&host, "b"), "3/100");
    fs::remove_dir(host.transcript("s1")).expect("as the test has it");
    append(&host, "no json <promise>DONE</promise> assistant\n\u{0}\n");
    host.env.write("work", "3");
    assert_sent_back(&stop(&host, "c"), "4/100");
}

#[test]
fn a_loop_whose_session_is_gone_is_cleared_by_the_idle_of_another_one() {
    // req 121
    let host = Host::new();
    append(&host, &said("hello"));
    let transcript = host.transcript("s1").to_string_lossy().into_owned();
    host.start("s1", &["--transcript", &transcript]).assert_code(0);
    assert_eq!(host.stop("s2", "hello"), Value::Null);
    assert!(host.state("s1").is_object(), "it exists as long as its transcript does");
    fs::remove_file(host.transcript("s1")).expect("as the test has it");
    assert_eq!(host.stop("s2", "hello again"), Value::Null, "never continues the loop");
    assert_eq!(host.state("s1"), Value::Null);
    assert_eq!(host.end()["detail"], "its session is gone");
}
