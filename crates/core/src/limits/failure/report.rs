//! An error text as command lines print it: lines with prefixes, bodies of JSON, statuses in words.

use serde_json::Value;

use super::{
    FailureClass::{self, Billing, UsageLimit},
    by_status, forms,
};

/// What stands before a message and says nothing about it.
const PREFIXES: &[&str] = &[
    "error:",
    "fatal:",
    "fatal error:",
    "[",
    "✖",
    "✘",
    "✗",
    "❌",
    "×",
    "■",
    "⎿",
    "execution error:",
    "internal error:",
    "stream error:",
    "request failed:",
    "provider error:",
    "transport error:",
    "typeerror:",
    "an unexpected critical error occurred:",
    "uncaught exception:",
];

/// What stands before the answer of a provider: a number after it is a status.
const PROVIDER_PREFIXES: &[&str] = &[
    "api error:",
    "api error (",
    "apierror:",
    "_apierror:",
    "ai_apicallerror:",
    "apicallerror:",
    "apiconnectionerror:",
    "ratelimiterror:",
    "authenticationerror:",
    "terminalquotaerror:",
    "retryablequotaerror:",
    "last error:",
    "error code:",
    "unexpected status",
    "exceeded retry limit, last status:",
    "request rejected (",
    "request failed with status code",
    "request failed with status",
    "got status:",
];

/// A status may follow these, if it is named or stands alone.
const STATUS_WORDS: &[&str] = &[
    "http error:",
    "http error",
    "http status",
    "http/1.1",
    "http/2",
    "http",
    "status code",
    "status:",
    "status",
];

/// Messages that carry another one behind these words.
const CARRIERS: &[(&str, &str)] = &[
    ("failed to get response from the ai model", "last error:"),
    ("error when talking to gemini api", ".json "),
    ("failed after ", "last error:"),
];

/// How statuses are called.
const REASONS: &[&str] = &[
    "unauthorized",
    "payment required",
    "forbidden",
    "request timeout",
    "payload too large",
    "too many requests",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "gateway timeout",
    "overloaded",
    "status code",
];

/// The class of an error text: the first line that begins like an error message.
pub(super) fn read(text: &str) -> Option<FailureClass> {
    if let Some(class) = forms::class_of_code(text.trim_end()) {
        return Some(class);
    }
    let mut is_fenced = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let rest = &text[start..];
        start += line.len();
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_fenced = !is_fenced;
        } else if !is_fenced
            && !line.starts_with(char::is_whitespace)
            && let Some(class) = line_class(rest, line)
        {
            return Some(class);
        }
    }
    None
}

/// The class of the message that begins with this line; `rest` is the text from there on, for JSON of many
/// lines.
fn line_class(rest: &str, line: &str) -> Option<FailureClass> {
    let message = normalised(line);
    let class = message_class(&message, false, 0).or_else(|| body_behind_prefixes(rest, line))?;
    // A quota that comes back by itself is no bill.
    let comes_back = class == Billing && normalised(rest).contains("please retry in");
    Some(if comes_back { UsageLimit } else { class })
}

/// Small letters, straight apostrophes, plain spaces. The beginning is enough.
fn normalised(text: &str) -> String {
    let beginning = &text[..text.floor_char_boundary(2000)];
    beginning.to_lowercase().replace('’', "'").replace(['\u{a0}', '\u{202f}'], " ")
}

/// The class of a message without its prefixes. Deeper than a few prefixes is not an error message.
fn message_class(message: &str, is_provider: bool, depth: usize) -> Option<FailureClass> {
    if depth > 6 {
        return None;
    }
    if let Some(class) = forms::class_of(message) {
        return Some(class);
    }
    if let Some((status, rest)) = status(message, is_provider) {
        let by_text = message_class(rest.trim_start_matches([' ', ')', ':', '·', '-']), true, depth + 1);
        return by_status(status, by_text).or(by_text);
    }
    for (opening, behind) in CARRIERS {
        if let Some(rest) = message.strip_prefix(opening)
            && let Some(at) = rest.find(behind)
        {
            // `last error:` itself says that a provider's answer follows.
            return message_class(rest[at..].trim_start_matches(".json "), is_provider, depth + 1);
        }
    }
    let strip = |prefixes: &[&str]| {
        prefixes.iter().find_map(|prefix| message.strip_prefix(prefix)).map(str::trim_start)
    };
    match (strip(PROVIDER_PREFIXES), strip(PREFIXES)) {
        (Some(rest), _) => message_class(rest, true, depth + 1),
        (None, Some(rest)) => message_class(rest, is_provider, depth + 1),
        (None, None) => None,
    }
}

/// A status at the start of a message, and what follows it.
fn status(message: &str, is_provider: bool) -> Option<(u16, &str)> {
    let worded = STATUS_WORDS.iter().find_map(|words| message.strip_prefix(words)).map(str::trim_start);
    let rest = worded.unwrap_or(message);
    let (digits, rest) = rest.split_at_checked(3)?;
    let status: u16 = digits.parse().ok().filter(|status| (400..600).contains(status))?;
    if rest.starts_with(char::is_alphanumeric) {
        return None;
    }
    let next = rest.trim_start();
    let is_named = REASONS.iter().any(|reason| {
        next.strip_prefix(reason).is_some_and(|rest| *reason == "status code" || forms::is_end(rest))
    });
    let is_alone = worded.is_some() && forms::is_end(rest);
    let is_explained = worded.is_none() && (next.starts_with('{') || forms::class_of(next).is_some());
    (is_provider || is_named || is_alone || is_explained).then_some((status, rest))
}

/// The class of a body of JSON, behind prefixes and a status or bare.
fn body_behind_prefixes(rest: &str, line: &str) -> Option<FailureClass> {
    let at = line.find('{')?;
    let prefix = normalised(&line[..at]);
    let mut before = prefix.as_str();
    let mut status_before = None;
    // What stands before the body must be prefixes and a status, and nothing else.
    for _ in 0..6 {
        if before.is_empty() {
            break;
        }
        let after = if let Some((opening, behind)) =
            CARRIERS.iter().find(|(opening, _)| before.starts_with(opening))
        {
            before[opening.len()..].split_once(behind)?.1
        } else if let Some(prefix) =
            PREFIXES.iter().chain(PROVIDER_PREFIXES).find(|prefix| before.starts_with(**prefix))
        {
            &before[prefix.len()..]
        } else {
            let (found, rest) = status(before, true)?;
            status_before = Some(found);
            REASONS.iter().find_map(|reason| rest.trim_start().strip_prefix(reason)).unwrap_or(rest)
        };
        before = after.trim_start_matches([' ', ':', '·', '-', '(', ')']);
    }
    let body = before.is_empty().then(|| body(&rest[at..]))??;
    body_class(&body, status_before, 0)
}

/// The first JSON value of a text.
fn body(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter::<Value>().next()?.ok()
}

/// The class of an error's body: its code, type and status, then its message.
fn body_class(body: &Value, status: Option<u16>, depth: usize) -> Option<FailureClass> {
    if depth > 3 {
        return None;
    }
    let error = match &body["error"] {
        Value::Null => body,
        Value::String(message) => return message_of_body(message, status, depth),
        error => error,
    };
    let is_error = !body["error"].is_null()
        || body["type"] == "error"
        || (error["message"].is_string() && !error["code"].is_null());
    if !is_error {
        return None;
    }
    let number = |key: &str| error[key].as_u64().and_then(|code| u16::try_from(code).ok());
    let status = status.or(number("code")).or(number("status"));
    let codes = ["code", "type", "status", "reason"];
    let by_code = codes.iter().find_map(|key| forms::class_of_code(error[*key].as_str()?));
    let by_message = error["message"].as_str().and_then(|message| message_of_body(message, None, depth));
    // A general code and a message that says more: 400 and `prompt is too long`.
    let by_text = match (by_code, by_message) {
        (Some(FailureClass::RateLimit | FailureClass::Overload) | None, Some(said)) => Some(said),
        (by_code, _) => by_code,
    };
    status.and_then(|status| by_status(status, by_text)).or(by_text)
}

fn message_of_body(message: &str, status: Option<u16>, depth: usize) -> Option<FailureClass> {
    // Some providers put a body into the message of another.
    let inner =
        body(message).filter(Value::is_object).and_then(|inner| body_class(&inner, status, depth + 1));
    let by_text = inner.or_else(|| message_class(normalised(message.trim_start()).trim_end(), true, 0));
    let comes_back = by_text == Some(Billing) && normalised(message).contains("please retry in");
    let by_text = if comes_back { Some(UsageLimit) } else { by_text };
    status.and_then(|status| by_status(status, by_text)).or(by_text)
}
