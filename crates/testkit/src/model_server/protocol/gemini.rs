//! Google's generateContent.

use serde_json::{Value, json};

use super::{Answer, AnswerPart, Encoded, Event, deltas};

pub(super) fn encode(answer: &Answer<'_>) -> Encoded {
    let tokens = answer.usage;
    let prompt = tokens.input + tokens.cache_read;
    let usage = json!({
        "promptTokenCount": prompt,
        "candidatesTokenCount": tokens.output - tokens.reasoning.min(tokens.output),
        "thoughtsTokenCount": tokens.reasoning,
        "cachedContentTokenCount": tokens.cache_read,
        "totalTokenCount": prompt + tokens.output,
    });
    let document = |parts: &[Value], finish: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        json!({
            "responseId": format!("resp_{}", answer.id), "modelVersion": answer.model,
            "candidates": [candidate], "usageMetadata": usage,
        })
    };
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    for (index, part) in answer.parts.iter().enumerate() {
        match part {
            AnswerPart::Think(text) => {
                whole.push(json!({"text": text, "thought": true}));
                pieces.extend(deltas(text).map(|text| json!({"text": text, "thought": true})));
            }
            AnswerPart::Say(text) => {
                whole.push(json!({"text": text}));
                pieces.extend(deltas(text).map(|text| json!({"text": text})));
            }
            AnswerPart::Call(call) => {
                let id = format!("call_{}_{index}", answer.id);
                let part = json!({"functionCall": {"id": id, "name": call.name, "args": call.input}});
                whole.push(part.clone());
                pieces.push(part);
            }
        }
    }
    let last = pieces.len().saturating_sub(1);
    let finish = |index| (index == last).then_some("STOP");
    let events = pieces
        .iter()
        .enumerate()
        .map(|(index, piece)| Event::unnamed(&document(std::slice::from_ref(piece), finish(index))))
        .collect();
    Encoded { events, whole: document(&whole, Some("STOP")) }
}
