//! What is heard in a stream of events: the agent's own words, and nothing else.

use serde_json::{Value, json};

use crate::{
    events::{begins, done, ends, event, message, says, script, works},
    support::{Limits, assert_has, world_of},
};

const TAG: &str = "<promise>DONE</promise>";

fn assistant(content: Value) -> String {
    event(
        &json!({"type": "assistant", "message": {"id": "m1", "model": crate::events::MODEL, "content": content}}),
    )
}

#[test]
fn a_whole_message_counts_without_a_final_event_and_a_cut_one_does_not() {
    // req 152: what was said over the whole iteration
    let whole = script(&[begins("s1"), says(TAG), "exit 1".to_owned()]);
    let env = world_of(&[&whole]);
    env.run_mine(&["-n", "1"]).assert_code(0);
    assert_eq!(env.outcomes(), ["crash"]);
    let line = says(&format!("{TAG} and so on"));
    let cut = line.strip_prefix("say '").unwrap();
    let (cut, _) = cut.split_once(" and so on").unwrap();
    let env = world_of(&[&script(&[begins("s1"), format!("print '{cut}'"), "exit 1".to_owned()])]);
    env.run_mine(&["-n", "1"]).assert_code(3);
    assert_eq!(env.outcomes(), ["crash"]);
    assert!(env.events_of("t", "claim_made").is_empty());
}

#[test]
fn nobody_else_s_words_are_a_claim() {
    // req 152, fault A1
    let user =
        json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": TAG}]}});
    let tool = json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": TAG}]}});
    let others = [
        event(&user),
        event(&tool),
        // As it begins on the wire, where most of all bytes are.
        format!(
            "say '{{\"type\":\"user\",\"message\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{TAG}\"}}]}}}}'"
        ),
        assistant(json!([{"type": "thinking", "thinking": TAG}])),
        assistant(
            json!([{"type": "tool_use", "name": "Bash", "input": {"command": format!("echo '\n{TAG}\n'")}}]),
        ),
        format!("say {TAG}"),
        format!("err {TAG}"),
        event(&json!({"type": "system", "subtype": "notification", "text": TAG})),
        event(&json!({"type": "assistant", "parent_tool_use_id": "x", "message": {"id": "m9",
            "content": [{"type": "text", "text": TAG}]}})),
    ];
    for other in others {
        let env = world_of(&[&script(&[begins("s1"), other.clone(), ends("s1")])]);
        env.run_mine(&["-n", "1"]).assert_code(3);
        assert_eq!(env.outcomes(), ["completed"], "{other}");
        assert!(env.events_of("t", "claim_made").is_empty(), "{other}");
    }
}

#[test]
fn an_echo_of_the_prompt_is_no_claim() {
    let prompt = format!("Work on it.\n{TAG}\nis what you print in the end.");
    let env = world_of(&[&script(&[begins("s1"), says(&prompt), ends("s1")])]);
    let args: Vec<&str> = env.args("t", &["-n", "1"]);
    let args: Vec<&str> = args.into_iter().map(|arg| if arg == "do it" { &prompt } else { arg }).collect();
    env.run(args).assert_code(3);
    assert!(env.events_of("t", "claim_made").is_empty());
}

#[test]
fn logs_show_words_and_doings_and_raw_the_bytes() {
    // req 152, req 153
    let tool = assistant(json!([{"type": "tool_use", "name": "Bash", "input": {"command": "cargo test"}}]));
    let env = world_of(&[&script(&[begins("s1"), message("m0", "I look around.", 5), tool, done()])]);
    let output = env.run_mine(&["-n", "1", "-v"]).assert_code(0);
    assert_has(&output.stdout, "I look around.");
    assert_has(&output.stdout, "[Bash] cargo test");
    assert!(!output.stdout.contains("\"type\""), "{}", output.stdout);
    let logs = env.run(["logs", "t"]).assert_code(0).stdout;
    assert_eq!(logs, format!("── iteration 1 ──\nI look around.\n[Bash] cargo test\nAll done.\n{TAG}\n"));
    let raw = env.run(["logs", "t", "--raw"]).assert_code(0).stdout;
    assert_eq!(raw.lines().count(), 6);
    assert!(raw.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{raw}");
}

#[test]
fn banners_and_events_nobody_knows_are_passed_over() {
    // fault C13
    let odd = script(&[
        "say Welcome to version 99!".to_owned(),
        "say (node:12) Warning: something is deprecated".to_owned(),
        event(&json!({"type": "hologram", "depth": {"a": [1, 2, {"b": null}]}})),
        event(&json!({"type": "assistant", "message": 7})),
        "say {broken".to_owned(),
        done(),
        event(&json!({"type": "epilogue"})),
    ]);
    let env = world_of(&[&odd]);
    env.run_mine(&["-n", "1"]).assert_code(0);
    assert_eq!(env.outcomes(), ["completed"]);
    assert_eq!(env.events_of("t", "agent_exited")[0]["session"], "s1");
}

#[test]
fn a_line_of_twenty_megabytes_is_skipped_and_what_follows_is_heard() {
    // fault D1
    let env = world_of(&[&script(&[begins("s1"), "line 20m".to_owned(), done()]), &works("s1")]);
    let output = env.run_mine(&["-n", "1"]).assert_code(0);
    assert_eq!(env.outcomes(), ["completed"]);
    assert_eq!(output.stdout.matches("too long to be read").count(), 1, "{}", output.stdout);
}

#[test]
fn who_ends_before_any_event_is_told_in_its_own_last_words() {
    let env = world_of(&["err Error: cannot find module \"x\"\nexit 1", &done()]);
    env.run_mine(&["-n", "2"]).assert_code(0);
    assert_eq!(env.outcomes(), ["crash", "completed"]);
    let exited = &env.events_of("t", "agent_exited")[0];
    assert_eq!(exited["detail"], "exited 1 before its first event: Error: cannot find module \"x\"");
}
