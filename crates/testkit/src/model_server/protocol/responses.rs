//! OpenAI's Responses.

use serde_json::{Value, json};

use super::{Answer, AnswerPart, Encoded, Event, deltas};
use crate::model_server::{
    failure::now,
    tool::{ResolvedCall, ToolForm},
};

/// The events so far; each carries its number.
#[derive(Default)]
struct Stream {
    events: Vec<Event>,
}

impl Stream {
    fn add(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.events.len().into();
        self.events.push(Event::named(name, &data));
    }
}

pub(super) fn encode(answer: &Answer<'_>) -> Encoded {
    let tokens = answer.usage;
    let input = tokens.input + tokens.cache_read;
    let usage = json!({
        "input_tokens": input, "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output, "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": input + tokens.output,
    });
    let created = now();
    let response = |status: &str, output: &[Value], usage: &Value| {
        json!({
            "id": format!("resp_{}", answer.id), "object": "response", "created_at": created,
            "model": answer.model, "status": status, "output": output, "usage": usage, "error": null,
            "incomplete_details": null, "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
        })
    };
    let mut stream = Stream::default();
    let begun = json!({"response": response("in_progress", &[], &Value::Null)});
    stream.add("response.created", begun.clone());
    stream.add("response.in_progress", begun);
    let mut output = Vec::new();
    for (index, part) in answer.parts.iter().enumerate() {
        let id = format!("{}_{index}", answer.id);
        let item = match part {
            AnswerPart::Think(text) => think(&mut stream, &id, index, text),
            AnswerPart::Say(text) => say(&mut stream, &id, index, text),
            AnswerPart::Call(call) => self::call(&mut stream, &id, index, call),
        };
        stream.add("response.output_item.done", json!({"output_index": index, "item": item}));
        output.push(item);
    }
    let whole = response("completed", &output, &usage);
    stream.add("response.completed", json!({"response": whole}));
    Encoded { events: stream.events, whole }
}

fn think(stream: &mut Stream, id: &str, index: usize, text: &str) -> Value {
    let id = format!("rs_{id}");
    let part = |text| json!({"type": "summary_text", "text": text});
    let item = |summary: Value| json!({"id": id, "type": "reasoning", "summary": summary});
    let at = |key: &str, value: Value| {
        let mut data = json!({"item_id": id, "output_index": index, "summary_index": 0});
        data[key] = value;
        data
    };
    stream.add("response.output_item.added", json!({"output_index": index, "item": item(json!([]))}));
    stream.add("response.reasoning_summary_part.added", at("part", part("")));
    for piece in deltas(text) {
        stream.add("response.reasoning_summary_text.delta", at("delta", piece.into()));
    }
    stream.add("response.reasoning_summary_text.done", at("text", text.into()));
    stream.add("response.reasoning_summary_part.done", at("part", part(text)));
    item(json!([part(text)]))
}

fn say(stream: &mut Stream, id: &str, index: usize, text: &str) -> Value {
    let id = format!("msg_{id}");
    let part = |text| json!({"type": "output_text", "text": text, "annotations": []});
    let item = |status: &str, content: Value| json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content});
    let at = |key: &str, value: Value| {
        let mut data = json!({"item_id": id, "output_index": index, "content_index": 0});
        data[key] = value;
        data
    };
    let begun = json!({"output_index": index, "item": item("in_progress", json!([]))});
    stream.add("response.output_item.added", begun);
    stream.add("response.content_part.added", at("part", part("")));
    for piece in deltas(text) {
        stream.add("response.output_text.delta", at("delta", piece.into()));
    }
    stream.add("response.output_text.done", at("text", text.into()));
    stream.add("response.content_part.done", at("part", part(text)));
    item("completed", json!([part(text)]))
}

/// A call differs by the form its tool was offered in.
fn call(stream: &mut Stream, id: &str, index: usize, call: &ResolvedCall) -> Value {
    let (kind, key, value) = match call.form {
        ToolForm::Function => ("function_call", "arguments", call.input.to_string()),
        ToolForm::Custom => ("custom_tool_call", "input", call.free_text()),
    };
    let item = |status: &str, value: &str| {
        let mut item = json!({
            "id": format!("fc_{id}"), "type": kind, "call_id": format!("call_{id}"), "name": call.name,
            "status": status,
        });
        item[key] = value.into();
        if let Some(namespace) = &call.namespace {
            item["namespace"] = namespace.as_str().into();
        }
        item
    };
    let stem = match call.form {
        ToolForm::Function => "response.function_call_arguments",
        ToolForm::Custom => "response.custom_tool_call_input",
    };
    let begun = json!({"output_index": index, "item": item("in_progress", "")});
    stream.add("response.output_item.added", begun);
    for piece in deltas(&value) {
        let data = json!({"item_id": format!("fc_{id}"), "output_index": index, "delta": piece});
        stream.add(&format!("{stem}.delta"), data);
    }
    let mut done = json!({"item_id": format!("fc_{id}"), "output_index": index});
    done[key] = value.as_str().into();
    stream.add(&format!("{stem}.done"), done);
    item("completed", &value)
}
