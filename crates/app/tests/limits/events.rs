//! What CLIs print, as commands for the fake agent.

use serde_json::{Value, json};

/// The model of all messages: 4 USD for a million tokens of input, 20 for output.
pub(crate) const MODEL: &str = "claude-opus-5-5";

/// A line of JSON.
pub(crate) fn event(value: &Value) -> String {
    // Between single quotes the script takes everything literally, so none may be within.
    format!("say '{}'", value.to_string().replace('\'', "\\u0027"))
}

/// Commands one after the other.
pub(crate) fn script<S: AsRef<str>>(commands: &[S]) -> String {
    commands.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("\n")
}

pub(crate) fn begins(session: &str) -> String {
    event(&json!({"type": "system", "subtype": "init", "session_id": session, "model": MODEL}))
}

/// A whole message of the agent that took `tokens` of output, two US cents for a thousand.
pub(crate) fn message(id: &str, text: &str, tokens: u64) -> String {
    event(&json!({"type": "assistant", "session_id": "s1", "message": {
        "id": id, "model": MODEL, "role": "assistant", "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 0, "output_tokens": tokens},
    }}))
}

pub(crate) fn says(text: &str) -> String {
    message("m1", text, 0)
}

/// The final event of an agent that finished by itself.
pub(crate) fn ends(session: &str) -> String {
    event(&json!({
        "type": "result", "subtype": "success", "is_error": false, "session_id": session, "result": "",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }))
}

/// A whole run that claims to be done.
pub(crate) fn done() -> String {
    script(&[begins("s1"), says("All done.\n<promise>DONE</promise>"), ends("s1")])
}

/// A whole run without a claim.
pub(crate) fn works(session: &str) -> String {
    script(&[begins(session), says("Some of it is done."), ends(session)])
}

/// A final event with an error; `fields` are what else it says.
pub(crate) fn fails(text: &str, fields: &Value) -> String {
    let mut result =
        json!({"type": "result", "subtype": "success", "is_error": true, "session_id": "s1", "result": text});
    let more = fields.as_object().expect("fields").clone();
    result.as_object_mut().expect("an object").extend(more);
    script(&[begins("s1"), event(&result), "exit 1".to_owned()])
}

/// A plan that is used up until `reset`, in seconds since 1970.
pub(crate) fn usage_limit(reset: i64) -> String {
    let info =
        json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset}});
    let fields = json!({"api_error": "usage_limit_reached", "api_error_status": 429});
    script(&[event(&info), fails("You've hit your 5-hour limit · resets 8:25pm (UTC)", &fields)])
}

/// The same, until `seconds` after the agent says so: what is counted from the start of a test is over before its agent
/// has run, on a busy machine.
pub(crate) fn limited_for(seconds: u32) -> String {
    let info = r#"{\"type\":\"rate_limit_event\",\"rate_limit_info\":{\"status\":\"rejected\",\"resetsAt\":"#;
    let says = format!("sh 'echo {info}$(($(date +%s)+{seconds}))}}}}'");
    script(&std::iter::once(says.as_str()).chain(usage_limit(0).lines().skip(1)).collect::<Vec<_>>())
}

pub(crate) fn overload() -> String {
    fails("API Error: 529 Overloaded", &json!({"api_error_status": 529}))
}
