//! OpenAI's Chat Completions.

use serde_json::{Value, json};

use super::{Answer, AnswerPart, Encoded, Event, deltas};
use crate::model_server::failure::now;

pub(super) fn encode(answer: &Answer<'_>) -> Encoded {
    let tokens = answer.usage;
    let prompt = tokens.input + tokens.cache_read;
    let usage = json!({
        "prompt_tokens": prompt, "completion_tokens": tokens.output, "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    });
    let created = now();
    let document = |kind: &str, choices: Value, usage: &Value| {
        json!({
            "id": format!("chatcmpl-{}", answer.id), "object": kind, "created": created, "model": answer.model,
            "choices": choices, "usage": usage,
        })
    };
    let mut events = Vec::new();
    let mut add = |delta: Value, finish: Option<&str>| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        events.push(Event::unnamed(&document("chat.completion.chunk", choices, &Value::Null)));
    };
    add(json!({"role": "assistant", "content": ""}), None);
    let (mut said, mut calls) = (String::new(), Vec::new());
    for part in &answer.parts {
        match part {
            AnswerPart::Think(text) => {
                deltas(text).for_each(|piece| add(json!({"reasoning_content": piece}), None));
            }
            AnswerPart::Say(text) => {
                said.push_str(text);
                deltas(text).for_each(|piece| add(json!({"content": piece}), None));
            }
            AnswerPart::Call(call) => {
                let index = calls.len();
                let id = format!("call_{}_{index}", answer.id);
                let arguments = call.input.to_string();
                let function = json!({"name": call.name, "arguments": ""});
                let begin = json!({"index": index, "id": id, "type": "function", "function": function});
                add(json!({"tool_calls": [begin]}), None);
                for piece in deltas(&arguments) {
                    add(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None);
                }
                let function = json!({"name": call.name, "arguments": arguments});
                calls.push(json!({"id": id, "type": "function", "function": function}));
            }
        }
    }
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    add(json!({}), Some(finish));
    events.push(Event::unnamed(&document("chat.completion.chunk", json!([]), &usage)));
    events.push(Event { name: None, data: "[DONE]".to_owned() });

    let mut message = json!({"role": "assistant", "content": said});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choices = json!([{"index": 0, "message": message, "finish_reason": finish}]);
    Encoded { events, whole: document("chat.completion", choices, &usage) }
}
