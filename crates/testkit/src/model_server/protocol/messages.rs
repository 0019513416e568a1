//! Anthropic's Messages.

use serde_json::{Value, json};

use super::{Answer, AnswerPart, Encoded, Event, deltas};

pub(super) fn encode(answer: &Answer<'_>) -> Encoded {
    let stop = if answer.calls().next().is_some() { "tool_use" } else { "end_turn" };
    let tokens = answer.usage;
    let usage = |output: u64| {
        json!({
            "input_tokens": tokens.input,
            "cache_creation_input_tokens": tokens.cache_write,
            "cache_read_input_tokens": tokens.cache_read,
            "output_tokens": output,
        })
    };
    let message = |content: &[Value], stop: Option<&str>, output: u64| {
        json!({
            "id": format!("msg_{}", answer.id), "type": "message", "role": "assistant", "model": answer.model,
            "content": content, "stop_reason": stop, "stop_sequence": null, "usage": usage(output),
        })
    };
    let mut events = Vec::new();
    let mut add = |data: Value| {
        let name = data["type"].as_str().unwrap_or_default().to_owned();
        events.push(Event::named(&name, &data));
    };
    add(json!({"type": "message_start", "message": message(&[], None, 1)}));
    add(json!({"type": "ping"}));
    let mut content = Vec::new();
    for (index, part) in answer.parts.iter().enumerate() {
        let (begin, whole, pieces) = block(answer, index, part);
        add(json!({"type": "content_block_start", "index": index, "content_block": begin}));
        for delta in pieces {
            add(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        add(json!({"type": "content_block_stop", "index": index}));
        content.push(whole);
    }
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    add(json!({"type": "message_delta", "delta": delta, "usage": usage(tokens.output)}));
    add(json!({"type": "message_stop"}));
    Encoded { events, whole: message(&content, Some(stop), tokens.output) }
}

/// A block as it begins, as a whole, and what comes between.
fn block(answer: &Answer<'_>, index: usize, part: &AnswerPart<'_>) -> (Value, Value, Vec<Value>) {
    match part {
        AnswerPart::Think(text) => {
            let whole =
                |text, signature| json!({"type": "thinking", "thinking": text, "signature": signature});
            let signature = json!({"type": "signature_delta", "signature": "c2lnbmVk"});
            let pieces = deltas(text).map(|text| json!({"type": "thinking_delta", "thinking": text}));
            (whole("", ""), whole(text, "c2lnbmVk"), pieces.chain([signature]).collect())
        }
        AnswerPart::Say(text) => {
            let whole = |text| json!({"type": "text", "text": text});
            let pieces = deltas(text).map(|text| json!({"type": "text_delta", "text": text}));
            (whole(""), whole(text), pieces.collect())
        }
        AnswerPart::Call(call) => {
            let id = format!("toolu_{}_{index}", answer.id);
            let whole =
                |input: Value| json!({"type": "tool_use", "id": id, "name": call.name, "input": input});
            let pieces = deltas(&call.input.to_string())
                .map(|text| json!({"type": "input_json_delta", "partial_json": text}))
                .collect();
            (whole(json!({})), whole(call.input.clone()), pieces)
        }
    }
}
