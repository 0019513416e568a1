//! What the agent of a session used, read from the file in which its host keeps the session, or from what a plugin hands over.
//!
//! A line is recognised by its form, as the agent's words are. The same call of a model may stand in several lines, and a host may
//! write the last of them after it has called the hook; so a call has a name, and the newest one that was counted is remembered.

use std::path::PathBuf;

use jiff::Timestamp;
use memchr::{memchr_iter, memmem};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    event::{Spend, Usage},
    ids::fingerprint,
    limits::Prices,
};

/// How far the usage in a host's file was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageMark {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// What stands before this byte was counted.
    #[serde(default)]
    pub offset: u64,
    /// The newest call that was counted, as a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_call: Option<u64>,
}

impl UsageMark {
    pub fn is_start(&self) -> bool {
        *self == Self::default()
    }
}

/// What one call of a model used.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// A number that is equal for reports of the same call.
    pub call: u64,
    pub model: Option<String>,
    pub usage: Usage,
    /// The host's own figure, where it has one.
    pub cost_usd: Option<f64>,
}

/// The calls in whole lines of `bytes`, and how many bytes those lines are. With `since`, only lines that say they were written
/// then or later count: it is not known what was counted before.
pub fn calls_in(bytes: &[u8], since: Option<Timestamp>) -> (Vec<ModelCall>, usize) {
    let read = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
    let (mut calls, mut from) = (Vec::new(), 0);
    for end in memchr_iter(b'\n', &bytes[..read]) {
        calls.extend(call_in(&bytes[from..end], since));
        from = end + 1;
    }
    (calls, read)
}

/// What these calls used and cost, without those that were counted before `mark`, and the newest of them.
pub fn spend_of(calls: &[ModelCall], last_call: Option<u64>, prices: &Prices) -> (Spend, Option<u64>) {
    let mut spend = Spend::default();
    let mut is_priced = true;
    for (at, call) in calls.iter().enumerate() {
        // Of several reports of one call the last one is the whole.
        if Some(call.call) == last_call || calls[at + 1..].iter().any(|later| later.call == call.call) {
            continue;
        }
        if call.usage == Usage::default() && call.cost_usd.is_none_or(|cost| cost == 0.0) {
            continue;
        }
        let price = || call.model.as_deref().and_then(|model| prices.price_of(model));
        let own = call.cost_usd.filter(|cost| cost.is_finite() && *cost > 0.0);
        let cost_usd = own.or_else(|| price().map(|price| price.cost(&call.usage)));
        is_priced &= cost_usd.is_some();
        // A list price is what the call would cost by key; many sessions are paid for by a subscription.
        spend.add(&Spend {
            usage: Some(call.usage),
            cost_usd,
            estimated: own.is_none() && cost_usd.is_some(),
        });
    }
    if !is_priced {
        (spend.cost_usd, spend.estimated) = (None, false);
    }
    (spend, calls.last().map(|call| call.call).or(last_call))
}

/// The first model of these calls whose tokens cannot be turned into money.
pub fn unpriced(calls: &[ModelCall], prices: &Prices) -> Option<String> {
    let is_unknown = |call: &&ModelCall| {
        let model = call.model.as_deref();
        call.usage.total() > 0
            && call.cost_usd.is_none()
            && model.and_then(|model| prices.price_of(model)).is_none()
    };
    let found = calls.iter().find(is_unknown)?;
    Some(found.model.clone().unwrap_or_else(|| "unknown".to_owned()))
}

fn call_in(line: &[u8], since: Option<Timestamp>) -> Option<ModelCall> {
    // Long results of tools need not be read to the end.
    let marks: [&[u8]; 4] = [b"\"usage", b"\"token_count\"", b"\"tokens\"", b"usage_record"];
    marks.iter().find(|mark| memmem::find(line, mark).is_some())?;
    let line: Value = serde_json::from_slice(line).ok()?;
    let written_at = line["timestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    if let Some(since) = since
        && written_at.is_none_or(|at| at < since)
    {
        return None;
    }
    let count = |value: &Value, name: &str| value[name].as_u64().unwrap_or(0);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match line["type"].as_str()? {
        // Qwen Code writes Google's form.
        "assistant" if line["usageMetadata"].is_object() => {
            let told = &line["usageMetadata"];
            let (input, cache_read) =
                (count(told, "promptTokenCount"), count(told, "cachedContentTokenCount"));
            let reasoning = count(told, "thoughtsTokenCount");
            let usage = Usage {
                input: input.saturating_sub(cache_read),
                output: count(told, "candidatesTokenCount"),
                cache_read,
                cache_write: 0,
                reasoning,
            };
            Some(ModelCall { call: named(&line["uuid"]), model: text(&line["model"]), usage, cost_usd: None })
        }
        "assistant" => {
            let (message, told) = (&line["message"], &line["message"]["usage"]);
            if !told.is_object() || message["model"] == "<synthetic>" {
                return None;
            }
            let usage = Usage {
                input: count(told, "input_tokens"),
                output: count(told, "output_tokens"),
                cache_read: count(told, "cache_read_input_tokens"),
                cache_write: count(told, "cache_creation_input_tokens"),
                reasoning: count(&told["output_tokens_details"], "thinking_tokens"),
            };
            Some(ModelCall {
                call: named(&message["id"]),
                model: text(&message["model"]),
                usage,
                cost_usd: None,
            })
        }
        // Codex. It repeats a report when only its limits have changed; the totals tell one call from the next.
        "event_msg" if line["payload"]["type"] == "token_count" => {
            let info = &line["payload"]["info"];
            let (total, told) = (&info["total_token_usage"], &info["last_token_usage"]);
            if !told.is_object() {
                return None;
            }
            let (cache_read, cache_write) =
                (count(told, "cached_input_tokens"), count(told, "cache_write_input_tokens"));
            let usage = Usage {
                input: count(told, "input_tokens").saturating_sub(cache_read + cache_write),
                output: count(told, "output_tokens"),
                cache_read,
                cache_write,
                reasoning: count(told, "reasoning_output_tokens"),
            };
            Some(ModelCall { call: named(total), model: None, usage, cost_usd: None })
        }
        "gemini" => {
            let told = &line["tokens"];
            if !told.is_object() {
                return None;
            }
            let (cache_read, reasoning) = (count(told, "cached"), count(told, "thoughts"));
            let usage = Usage {
                input: count(told, "input").saturating_sub(cache_read),
                output: count(told, "output") + reasoning,
                cache_read,
                cache_write: 0,
                reasoning,
            };
            Some(ModelCall { call: named(&line["id"]), model: text(&line["model"]), usage, cost_usd: None })
        }
        // Copilot CLI.
        "session.usage_record" => {
            let told = &line["data"]["usage"];
            let cache_read = count(told, "cacheReadTokens");
            let usage = Usage {
                input: count(told, "inputTokens").saturating_sub(cache_read),
                output: count(told, "outputTokens"),
                cache_read,
                cache_write: count(told, "cacheWriteTokens"),
                reasoning: count(told, "reasoningTokens"),
            };
            Some(ModelCall {
                call: named(&told["apiCallId"]),
                model: text(&told["model"]),
                usage,
                cost_usd: None,
            })
        }
        _ => None,
    }
}

/// What a message that a plugin of OpenCode hands over used.
pub(super) fn call_of_message(message: &Value) -> Option<(Option<Timestamp>, ModelCall)> {
    let info = if message["info"].is_object() { &message["info"] } else { message };
    let told = &info["tokens"];
    if info["role"] != "assistant" || !told.is_object() {
        return None;
    }
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let reasoning = count(&told["reasoning"]);
    let usage = Usage {
        input: count(&told["input"]),
        output: count(&told["output"]) + reasoning,
        cache_read: count(&told["cache"]["read"]),
        cache_write: count(&told["cache"]["write"]),
        reasoning,
    };
    let at = info["time"]["created"].as_i64().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let model = info["modelID"].as_str().map(str::to_owned);
    let cost_usd = info["cost"].as_f64().filter(|cost| *cost > 0.0);
    Some((at, ModelCall { call: named(&info["id"]), model, usage, cost_usd }))
}

fn named(name: &Value) -> u64 {
    fingerprint(name.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64, reasoning: u64) -> Usage {
        Usage { input, output, cache_read, cache_write, reasoning }
    }

    const CLAUDE: &str = r#"{"type":"assistant","timestamp":"2026-11-18T00:46:59Z","message":{"id":"m1","model":"claude-opus-5-5","role":"assistant","content":[],"usage":{"input_tokens":1200,"output_tokens":34,"cache_read_input_tokens":5,"cache_creation_input_tokens":6,"output_tokens_details":{"thinking_tokens":3}}}}"#;
    const CODEX: &str = r#"{"timestamp":"2026-11-18T00:47:48Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":2400},"last_token_usage":{"input_tokens":1200,"cached_input_tokens":200,"output_tokens":34,"reasoning_output_tokens":4}}}}"#;
    const GEMINI: &str = r#"{"id":"g1","timestamp":"2026-11-18T00:48:15Z","type":"gemini","content":"x","tokens":{"input":1200,"output":34,"cached":200,"thoughts":6,"tool":0,"total":1240},"model":"gemini-2.5-pro"}"#;
    const QWEN: &str = r#"{"uuid":"q1","timestamp":"2026-11-18T00:48:52Z","type":"assistant","model":"scripted-model","message":{"role":"model","parts":[]},"usageMetadata":{"promptTokenCount":1200,"candidatesTokenCount":34,"thoughtsTokenCount":4,"cachedContentTokenCount":200}}"#;
    const COPILOT: &str = r#"{"type":"session.usage_record","timestamp":"2026-11-18T00:48:52Z","data":{"usage":{"model":"m","inputTokens":1200,"outputTokens":34,"cacheReadTokens":200,"cacheWriteTokens":7,"reasoningTokens":2,"apiCallId":"c1"}}}"#;

    #[test]
    fn what_each_host_writes_about_a_call_is_understood() {
        for (line, model, expected) in [
            (CLAUDE, Some("claude-opus-5-5"), usage(1200, 34, 5, 6, 3)),
            (CODEX, None, usage(1000, 34, 200, 0, 4)),
            (GEMINI, Some("gemini-2.5-pro"), usage(1000, 40, 200, 0, 6)),
            (QWEN, Some("scripted-model"), usage(1000, 34, 200, 0, 4)),
            (COPILOT, Some("m"), usage(1000, 34, 200, 7, 2)),
        ] {
            let (calls, read) = calls_in(format!("{line}\n{line}").as_bytes(), None);
            assert_eq!(read, line.len() + 1, "the second line is not whole");
            let found: Vec<_> = calls.iter().map(|call| (call.model.as_deref(), call.usage)).collect();
            assert_eq!(found, [(model, expected)], "{line}");
        }
        let synthetic = CLAUDE.replace("claude-opus-5-5", "<synthetic>");
        let tool = r#"{"type":"user","message":{"content":"\"usage\": {\"input_tokens\": 7}"}}"#;
        for line in
            [synthetic.as_str(), tool, "no JSON \"usage\"", r#"{"type":"assistant","message":{"usage":7}}"#]
        {
            assert_eq!(calls_in(format!("{line}\n").as_bytes(), None).0, [], "{line}");
        }
    }

    #[test]
    fn a_call_counts_once_however_often_and_late_it_is_written() {
        let prices = Prices::default();
        let later = CLAUDE.replace("\"output_tokens\":34", "\"output_tokens\":50");
        let (calls, _) = calls_in(format!("{CLAUDE}\n{later}\n").as_bytes(), None);
        let (spend, last) = spend_of(&calls, None, &prices);
        assert_eq!(spend.usage, Some(usage(1200, 50, 5, 6, 3)));
        assert!(spend.cost_usd.is_some_and(|cost| cost > 0.0) && spend.estimated, "{spend:?}");
        // The hook after it reads a line about the same call.
        assert_eq!(spend_of(&calls[..1], last, &prices), (Spend::default(), last));
        assert_eq!(spend_of(&[], last, &prices), (Spend::default(), last));
    }

    #[test]
    fn without_a_known_place_only_what_was_written_since_counts() {
        let since = "2026-11-18T00:47:00Z".parse::<Timestamp>().ok();
        let lines = format!("{CLAUDE}\n{CODEX}\n{}\n", COPILOT.replace("timestamp", "no-time"));
        let (calls, _) = calls_in(lines.as_bytes(), since);
        assert_eq!(calls.iter().map(|call| call.usage).collect::<Vec<_>>(), [usage(1000, 34, 200, 0, 4)]);
    }

    #[test]
    fn money_is_unknown_as_soon_as_one_model_has_no_price_and_the_hosts_own_figure_goes_first() {
        let prices = Prices::default();
        let (calls, _) = calls_in(format!("{CLAUDE}\n{QWEN}\n").as_bytes(), None);
        let (spend, _) = spend_of(&calls, None, &prices);
        assert_eq!((spend.usage, spend.cost_usd), (Some(usage(2200, 68, 205, 6, 7)), None));
        assert_eq!(unpriced(&calls, &prices).as_deref(), Some("scripted-model"));
        let message = serde_json::json!({"info": {"id": "o", "role": "assistant", "modelID": "scripted-model", "cost": 0.25,
            "time": {"created": 1_000}, "tokens": {"input": 10, "output": 2, "reasoning": 1, "cache": {"read": 3, "write": 4}}}});
        let (at, call) = call_of_message(&message).unwrap();
        assert_eq!(at, Timestamp::from_second(1).ok());
        let (spend, _) = spend_of(&[call], None, &prices);
        let expected = Spend { usage: Some(usage(10, 3, 3, 4, 1)), cost_usd: Some(0.25), estimated: false };
        assert_eq!(spend, expected);
    }
}
