//! What hosts tell their hooks on standard input. Each has its own names for the same few things.

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{ModelCall, usage::call_of_message};

/// What a host said about a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookInput {
    pub session: String,
    /// The file in which the host keeps the session.
    pub transcript: Option<PathBuf>,
    /// The folder that the agent works in.
    pub dir: Option<PathBuf>,
    /// The last message of the agent.
    pub last_message: Option<String>,
    /// All that the agent said since the user's prompt, where the host hands that over (Gemini).
    pub response: Option<String>,
    /// Whether a hook has sent the agent back already since the user's prompt.
    pub is_continuing: bool,
    /// What still runs for the agent.
    pub background: Vec<String>,
    /// What the user sent.
    pub prompt: Option<String>,
    /// The agent's messages, where the host hands them over (OpenCode), with the time of each, if it is known.
    pub messages: Vec<(Option<Timestamp>, String)>,
    /// What those messages used, where the host hands them over.
    pub calls: Vec<(Option<Timestamp>, ModelCall)>,
    /// The model that the agent talks to, where the host names it here (Codex).
    pub model: Option<String>,
    /// The ids of all sessions that the host has, where it lists them (OpenCode).
    pub sessions: Option<Vec<String>>,
    /// The name and the words of an error.
    pub error: Option<(String, String)>,
    /// The host's own status of the error, such as 429.
    pub error_status: Option<u16>,
}

/// Why the input of a hook cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookInputError {
    #[error("the host said nothing on standard input")]
    Empty,
    #[error("what the host said on standard input is not JSON: {0}")]
    Malformed(String),
    #[error("what the host said on standard input is not a JSON object")]
    NoObject,
    #[error("what the host said on standard input names no session")]
    NoSession,
}

impl HookInput {
    pub fn parse(bytes: &[u8]) -> Result<Self, HookInputError> {
        if bytes.trim_ascii().is_empty() {
            return Err(HookInputError::Empty);
        }
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| HookInputError::Malformed(error.to_string()))?;
        let Value::Object(top) = value else { return Err(HookInputError::NoObject) };
        // An event of a plugin has what it is about below `data` or `properties`.
        let below = ["data", "properties"].iter().find_map(|name| top.get(*name)?.as_object());
        let of = |names: &[&str]| {
            let found = below.and_then(|below| text(below, names));
            found.or_else(|| text(&top, names)).map(str::to_owned)
        };
        let session = of(&["session_id", "sessionId", "sessionID"]);
        let session = session.filter(|id| !id.trim().is_empty()).ok_or(HookInputError::NoSession)?;
        let any = |name: &str| below.and_then(|below| below.get(name)).or_else(|| top.get(name));
        let is_continuing =
            ["stop_hook_active", "stopHookActive"].iter().any(|name| any(name) == Some(&Value::Bool(true)));
        let listed = |name: &str| any(name).and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(Self {
            session,
            transcript: of(&["transcript_path", "transcriptPath"]).map(PathBuf::from),
            dir: of(&["cwd", "directory"]).map(PathBuf::from),
            last_message: of(&["last_assistant_message", "lastAssistantMessage"]),
            response: of(&["prompt_response", "promptResponse"]),
            is_continuing,
            background: listed("background_tasks").iter().filter_map(running_task).collect(),
            prompt: of(&["prompt", "user_prompt"]),
            messages: listed("messages").iter().filter_map(message).collect(),
            calls: listed("messages").iter().filter_map(call_of_message).collect(),
            model: of(&["model"]),
            sessions: any("sessions")
                .and_then(Value::as_array)
                .map(|ids| ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            error: any("error")
                .and_then(error)
                .or_else(|| of(&["error_message"]).map(|text| (String::new(), text))),
            error_status: ["error_status", "status"].iter().find_map(|name| status(any(name)?)).or_else(
                || {
                    let error = any("error")?;
                    ["status", "statusCode"].iter().find_map(|name| status(error.get(*name)?))
                },
            ),
        })
    }
}

fn text<'a>(object: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| object.get(*name)?.as_str())
}

fn status(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|status| u16::try_from(status).ok())
}

/// The name of a task that still runs.
fn running_task(task: &Value) -> Option<String> {
    let over = ["completed", "failed", "killed", "stopped", "cancelled", "done", "exited"];
    if task["status"].as_str().is_some_and(|status| over.contains(&status)) {
        return None;
    }
    let name = ["description", "command", "name", "id"].iter().find_map(|name| task[*name].as_str());
    Some(name.or(task.as_str()).unwrap_or("a background task").to_owned())
}

/// The words of a message of the agent (req 112).
fn message(message: &Value) -> Option<(Option<Timestamp>, String)> {
    let role = message["role"].as_str().or(message["info"]["role"].as_str())?;
    if role != "assistant" {
        return None;
    }
    let content = message["content"].as_str().map(str::to_owned).or_else(|| {
        let parts = message["parts"].as_array()?.iter();
        let texts = parts.filter(|part| part["type"] == "text" && part["synthetic"] != true);
        Some(texts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"))
    })?;
    let created = message["info"]["time"]["created"].as_i64().or(message["time"]["created"].as_i64());
    let at = created.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    (!content.trim().is_empty()).then_some((at, content))
}

/// The name and the words of an error, which hosts give as text or as an object.
fn error(error: &Value) -> Option<(String, String)> {
    if let Some(text) = error.as_str() {
        // Claude Code names the kind of the error here, and says more in the last message.
        let is_name = !text.contains(char::is_whitespace);
        let (name, words) = if is_name { (text, "") } else { ("", text) };
        return Some((name.to_owned(), words.to_owned()));
    }
    let name = ["name", "type", "kind"].iter().find_map(|name| error[*name].as_str()).unwrap_or_default();
    let words = error["message"].as_str().or(error["data"]["message"].as_str()).unwrap_or_default();
    error.is_object().then(|| (name.to_owned(), words.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_say_is_understood_by_each_of_its_names() {
        let claude = br#"{"session_id": "s", "transcript_path": "/t.jsonl", "cwd": "/w", "stop_hook_active": true,
            "last_assistant_message": "hi", "background_tasks": [{"id": "b1", "status": "running", "command": "make"},
            {"id": "b2", "status": "completed"}], "session_crons": []}"#;
        let expected = HookInput {
            session: "s".into(),
            transcript: Some("/t.jsonl".into()),
            dir: Some("/w".into()),
            last_message: Some("hi".into()),
            is_continuing: true,
            background: vec!["make".into()],
            ..HookInput::default()
        };
        assert_eq!(HookInput::parse(claude), Ok(expected));
        let copilot = br#"{"sessionId": "c", "transcriptPath": "/e.jsonl"}"#;
        let copilot = HookInput::parse(copilot).unwrap();
        assert_eq!((copilot.session.as_str(), copilot.transcript), ("c", Some("/e.jsonl".into())));
        let gemini = br#"{"session_id": "g", "prompt": "p", "prompt_response": "r"}"#;
        let gemini = HookInput::parse(gemini).unwrap();
        assert_eq!((gemini.prompt.as_deref(), gemini.response.as_deref()), (Some("p"), Some("r")));
    }

    #[test]
    fn only_messages_of_the_agent_are_examined_and_empty_ones_are_skipped() {
        // req 112
        let input = br#"{"sessionID": "o", "messages": [{"role": "user", "content": "<promise>DONE</promise>"},
            {"role": "assistant", "content": ""}, {"role": "assistant"}, {"role": "assistant", "content": "one"},
            {"info": {"role": "assistant"}, "parts": [{"type": "text", "text": "two"}, {"type": "tool", "text": "no"}]}]}"#;
        let messages = HookInput::parse(input).unwrap().messages;
        let texts: Vec<&str> = messages.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["one", "two"]);
    }

    #[test]
    fn the_session_of_an_event_is_the_one_in_its_data() {
        // req 116, req 117
        let input = br#"{"sessionId": "context", "data": {"sessionId": "gone", "error": {"name": "AbortError", "message": "m"}}}"#;
        let input = HookInput::parse(input).unwrap();
        assert_eq!((input.session.as_str(), input.error), ("gone", Some(("AbortError".into(), "m".into()))));
        let input = br#"{"sessionId": "context", "data": {}}"#;
        assert_eq!(HookInput::parse(input).unwrap().session, "context");
    }

    #[test]
    fn input_that_cannot_be_used_says_why() {
        for (bytes, error) in [
            (&b""[..], "the host said nothing"),
            (b"  \n", "the host said nothing"),
            (b"{", "is not JSON"),
            (b"\xff\xfe", "is not JSON"),
            (b"[1]", "is not a JSON object"),
            (b"{}", "names no session"),
            (br#"{"session_id": ""}"#, "names no session"),
            (br#"{"session_id": "  "}"#, "names no session"),
            (br#"{"session_id": 7}"#, "names no session"),
        ] {
            let found = HookInput::parse(bytes).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
    }
}
