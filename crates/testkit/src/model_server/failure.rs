//! How each provider says no.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{
    protocol::{Event, Protocol},
    turn::Failure,
};

/// An answer that is an error.
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

/// The same refusal in three vocabularies.
struct Words {
    status: u16,
    messages: &'static str,
    /// `type` and `code`.
    openai: (&'static str, &'static str),
    gemini: &'static str,
    text: &'static str,
}

fn words(failure: &Failure, protocol: Protocol) -> Words {
    let openai = matches!(protocol, Protocol::Responses | Protocol::Chat);
    let words = |status, messages, openai, gemini, text| Words { status, messages, openai, gemini, text };
    match failure {
        Failure::Unauthorized => words(
            401,
            "authentication_error",
            ("invalid_request_error", "invalid_api_key"),
            "UNAUTHENTICATED",
            "invalid x-api-key",
        ),
        Failure::Billing => words(
            if openai { 429 } else { 400 },
            "invalid_request_error",
            ("insufficient_quota", "insufficient_quota"),
            "FAILED_PRECONDITION",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or \
             purchase credits.",
        ),
        Failure::RateLimit { .. } => words(
            429,
            "rate_limit_error",
            ("requests", "rate_limit_exceeded"),
            "RESOURCE_EXHAUSTED",
            "This request would exceed your organization's rate limit of 50 requests per minute.",
        ),
        Failure::UsageLimit { .. } => words(
            429,
            "rate_limit_error",
            ("usage_limit_reached", "usage_limit_reached"),
            "RESOURCE_EXHAUSTED",
            "You have reached your usage limit.",
        ),
        Failure::Server | Failure::Other { .. } => {
            words(500, "api_error", ("server_error", "server_error"), "INTERNAL", "Internal server error")
        }
        Failure::Overloaded => words(
            if protocol == Protocol::Messages { 529 } else { 503 },
            "overloaded_error",
            ("server_error", "server_is_overloaded"),
            "UNAVAILABLE",
            "Overloaded",
        ),
        Failure::ContextTooLong => words(
            400,
            "invalid_request_error",
            ("invalid_request_error", "context_length_exceeded"),
            "INVALID_ARGUMENT",
            "prompt is too long: 250000 tokens > 200000 maximum",
        ),
    }
}

impl Failure {
    /// The whole answer to request `id`.
    pub(super) fn refusal(&self, protocol: Protocol, id: &str) -> Refusal {
        if let Self::Other { status, headers, body } = self {
            return Refusal { status: *status, headers: headers.clone(), body: body.clone() };
        }
        let words = words(self, protocol);
        let mut headers = Vec::new();
        let mut header = |name: &str, value: String| headers.push((name.to_owned(), value));
        if let Self::RateLimit { retry_after: Some(seconds) } = self {
            header("retry-after", seconds.to_string());
        }
        let body = match protocol {
            Protocol::Messages => {
                header("request-id", format!("req_{id}"));
                if let Self::UsageLimit { resets_at } = self {
                    // Only a subscription gets these, and only from them does the agent know when to come back.
                    header("anthropic-ratelimit-unified-status", "rejected".to_owned());
                    header("anthropic-ratelimit-unified-representative-claim", "five_hour".to_owned());
                    header("anthropic-ratelimit-unified-reset", resets_at.to_string());
                    header("anthropic-ratelimit-unified-5h-status", "rejected".to_owned());
                    header("anthropic-ratelimit-unified-5h-reset", resets_at.to_string());
                }
                let error = json!({"type": words.messages, "message": words.text});
                json!({"type": "error", "error": error, "request_id": format!("req_{id}")})
            }
            Protocol::Responses | Protocol::Chat => {
                let (kind, code) = words.openai;
                let mut error = json!({"message": words.text, "type": kind, "param": null, "code": code});
                if let Self::UsageLimit { resets_at } = self {
                    error["plan_type"] = "pro".into();
                    error["resets_at"] = (*resets_at).into();
                    error["resets_in_seconds"] = resets_at.saturating_sub(now()).into();
                }
                json!({"error": error})
            }
            Protocol::Gemini => {
                let mut error = json!({"code": words.status, "message": words.text, "status": words.gemini});
                if let Some(details) = self.gemini_details() {
                    error["details"] = details;
                }
                json!({"error": error})
            }
        };
        Refusal { status: words.status, headers, body }
    }

    fn gemini_details(&self) -> Option<Value> {
        match self {
            Self::RateLimit { retry_after } => Some(json!([{
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{}s", retry_after.unwrap_or(1)),
            }])),
            Self::UsageLimit { .. } => Some(json!([{
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{
                    "quotaMetric": "generativelanguage.googleapis.com/generate_requests_per_day",
                    "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
                    "quotaValue": "100",
                }],
            }])),
            _ => None,
        }
    }

    /// The same in a stream that has begun well.
    pub(super) fn event(&self, protocol: Protocol, id: &str) -> Event {
        let body = self.refusal(protocol, id).body;
        match protocol {
            Protocol::Messages => Event::named("error", &body),
            Protocol::Responses => {
                let error = json!({"code": body["error"]["code"], "message": body["error"]["message"]});
                let response = json!({
                    "id": format!("resp_{id}"), "object": "response", "status": "failed", "output": [], "error": error,
                });
                Event::named("response.failed", &json!({"type": "response.failed", "response": response}))
            }
            Protocol::Chat | Protocol::Gemini => Event::unnamed(&body),
        }
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
