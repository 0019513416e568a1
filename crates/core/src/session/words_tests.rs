use jiff::Timestamp;

use super::*;

const SINCE: Timestamp = Timestamp::UNIX_EPOCH;

fn claude(text: &str) -> String {
    serde_json::json!({"type": "assistant", "isSidechain": false, "sessionId": "s",
        "message": {"role": "assistant", "model": "m", "content": [{"type": "text", "text": text}]}})
    .to_string()
}

fn messages(lines: &[String], last: Option<&str>, before: Option<TurnEnd>) -> Vec<String> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    new_words(text.as_bytes(), last, before, SINCE).messages
}

#[test]
fn the_words_of_the_agent_are_found_in_each_form_of_transcript() {
    // req 112
    for line in [
        claude("done"),
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"done"}]}}"#.to_owned(),
        r#"{"type":"assistant","message":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"done"}]}}"#.to_owned(),
        r#"{"type":"assistant.message","data":{"messageId":"m","content":"done"}}"#.to_owned(),
    ] {
        assert_eq!(messages(std::slice::from_ref(&line), None, None), ["done"], "{line}");
    }
}

#[test]
fn nothing_but_the_agents_own_messages_counts() {
    // fault A2, req 114: a tag in each kind of line
    let tag = "<promise>DONE</promise>";
    let lines = [
        serde_json::json!({"type": "user", "message": {"role": "user", "content": format!("assistant: {tag}")}}),
        serde_json::json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "content": format!("assistant {tag}")}]}}),
        serde_json::json!({"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": tag}]}}),
        serde_json::json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "input": {"text": tag}}]}}),
        serde_json::json!({"type": "assistant", "isSidechain": true, "message": {"content": [{"type": "text", "text": tag}]}}),
        serde_json::json!({"type": "assistant", "isApiErrorMessage": true, "message": {"content": [{"type": "text", "text": tag}]}}),
        serde_json::json!({"type": "assistant", "message": {"model": "<synthetic>", "content": [{"type": "text", "text": tag}]}}),
        serde_json::json!({"type": "system", "subtype": "assistant", "content": tag}),
        serde_json::json!({"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": format!("assistant {tag}")}]}}),
        serde_json::json!({"type": "response_item", "payload": {"type": "function_call_output", "output": format!("assistant {tag}")}}),
        serde_json::json!({"type": "user.message", "data": {"content": format!("assistant {tag}")}}),
        serde_json::json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "  "}]}}),
    ];
    for line in lines {
        assert_eq!(messages(&[line.to_string()], None, None), Vec::<String>::new(), "{line}");
    }
    let cut = format!("{}\n{}", claude("whole"), &claude("cut")[..40]);
    assert_eq!(
        new_words(cut.as_bytes(), None, None, SINCE).messages,
        ["whole"],
        "an unfinished line never counts"
    );
    assert_eq!(
        new_words(b"\xff\x00assistant\n{\"type\":\"assistant\"\n", None, None, SINCE).messages,
        Vec::<String>::new()
    );
}

#[test]
fn only_what_was_said_since_the_loop_began_counts() {
    // req 114
    let line = |at: &str| {
        serde_json::json!({"type": "assistant", "timestamp": at, "message": {"content": [{"type": "text", "text": at}]}})
            .to_string()
    };
    let text = format!("{}\n{}\n", line("2026-11-17T10:00:00.000Z"), line("2026-11-17T12:00:00.000Z"));
    let since = "2026-11-17T11:00:00Z".parse().unwrap();
    assert_eq!(new_words(text.as_bytes(), None, None, since).messages, ["2026-11-17T12:00:00.000Z"]);
}

#[test]
fn the_last_message_counts_before_the_transcript_holds_it_and_once_when_it_does() {
    // fault A7: the host calls the hook before it has written the last message
    let late = new_words(claude("first").as_bytes(), Some("<promise>DONE</promise>"), None, SINCE);
    let both = format!("{}\n", claude("first"));
    let late_with_line = new_words(both.as_bytes(), Some("<promise>DONE</promise>"), None, SINCE);
    assert_eq!(late.messages, ["<promise>DONE</promise>"]);
    assert_eq!(late_with_line.messages, ["first", "<promise>DONE</promise>"]);
    assert!(!late_with_line.turn.in_transcript);
    // It is written by the next idle, where it belongs to the turn before.
    let next = [claude("<promise>DONE</promise>"), claude("more")];
    assert_eq!(messages(&next, Some("more"), Some(late_with_line.turn)), ["more"]);
    let again = [claude("more")];
    let known = new_words(format!("{}\n", claude("more")).as_bytes(), Some("more"), None, SINCE);
    assert!(known.turn.in_transcript);
    assert_eq!(
        messages(&again, Some("more"), Some(known.turn)),
        ["more"],
        "the same words said anew count anew"
    );
}

#[test]
fn a_promise_is_found_in_any_case_with_any_white_space_and_nothing_else_is() {
    // req 111
    let rule = |text: &str| {
        let promise = PromiseRule::new(text).unwrap();
        let gates = crate::policy::GateRules::default();
        crate::policy::Policy::session(super::super::Host::Claude, promise, 3, gates).claims.promise
    };
    for (promise, text, found) in [
        ("DONE", "<promise>DONE</promise>", true),
        ("DONE", "<promise>done</promise>", true),
        ("DONE", "<PROMISE> Done\n</PROMISE>", true),
        ("DONE", "It is over: <promise>\n  DONE  \n</promise> and more", true),
        ("ALL FIXED", "<promise>ALL FIXED</promise>", true),
        ("a.b*(c)[d]", "<promise>a.b*(c)[d]</promise>", true),
        ("a.b", "<promise>axb</promise>", false),
        ("DONE", "<promise>NOT DONE</promise>", false),
        ("DONE", "DONE", false),
        ("DONE", "<promise>DONE", false),
        ("DONE", "promise DONE /promise", false),
    ] {
        let detection = hear(&rule(promise), "", "the prompt", &[text.to_owned()]);
        assert_eq!(detection.promise.is_some(), found, "{promise}: {text}");
    }
    // Newest or not, one of several messages is enough.
    let said = ["working".to_owned(), "<promise>DONE</promise>".to_owned(), "bye".to_owned()];
    assert!(hear(&rule("DONE"), "", "", &said).promise.is_some());
}
