//! How error messages begin, by what they mean. Data, and the little language it is written in.

use super::FailureClass::{
    self, Auth, Billing, Context, Misuse, Network, Overload, Permission, RateLimit, UsageLimit,
};

/// Beginnings of messages in small letters; the first that fits counts.
///
/// `*` stands for a few words of the same sentence. `$` at the end: nothing but the end of the line or of a
/// sentence follows, because the words alone would also begin a sentence about something else.
const FORMS: &[(FailureClass, &[&str])] = &[
    (
        RateLimit,
        &[
            "you've hit your rate limit$",
            "you have hit your rate limit$",
            "sorry, you've hit a rate limit",
            "you are being rate limited$",
            "this request would exceed * rate limit",
            "this request would exceed * limit of * per minute",
            "number of request tokens has exceeded",
            "rate limit reached for *",
            "rate limit reached$",
            "rate limit exceeded$",
            "rate limit exceeded for *",
            "rate limit error$",
            "rate limited$",
            "rate-limited$",
            "api rate limit exceeded",
            "request was throttled",
            "too many requests$",
            "too many requests, please *",
            "resource_exhausted$",
            "resource_exhausted: *",
            "resource has been exhausted",
            "requests rate limit exceeded",
        ],
    ),
    (
        UsageLimit,
        &[
            "you've hit your *limit$",
            "you've hit your *limit for *",
            "you have hit your *limit$",
            "you've reached your *limit$",
            "you've reached your *limit for *",
            "you have reached your *limit$",
            "you have reached your *limit for *",
            "you've exceeded your * allowance",
            "you have exceeded your * allowance",
            "you've exhausted your * quota",
            "you have exhausted your * quota",
            "you have exhausted your capacity on this model",
            "you're out of extra usage",
            "you are out of extra usage",
            "sorry, you've exhausted your * quota",
            "sorry, you have exhausted your * quota",
            "claude ai usage limit reached|",
            "claude ai usage limit reached$",
            "claude usage limit reached$",
            "usage limit reached|",
            "usage limit reached$",
            "usage limit reached for *",
            "the usage limit has been reached",
            "usage limit exceeded$",
            "limit reached|",
            "5-hour limit reached$",
            "session limit reached$",
            "daily limit reached$",
            "weekly limit reached$",
            "monthly limit reached$",
            "opus weekly limit reached$",
            "opus limit reached$",
            "free allocated quota exceeded",
            "qwen oauth quota exceeded",
            "daily quota exceeded$",
            "quota will reset after *",
            "your quota will reset after *",
        ],
    ),
    (
        Billing,
        &[
            "credit balance is too low",
            "your credit balance is too low",
            "quota exceeded. check your plan",
            "you exceeded your current quota, please check your plan and billing",
            "you exceeded your current quota.",
            "insufficient_quota$",
            "insufficient credits$",
            "insufficient credits.",
            "insufficient balance$",
            "insufficient funds$",
            "billing hard limit has been reached",
            "your account is not active, please check your billing",
            "payment required$",
            "this request requires more credits",
        ],
    ),
    (
        Context,
        &[
            "prompt is too long$",
            "input is too long$",
            "conversation is too long$",
            "conversation too long$",
            "request too large$",
            "request too large (max",
            "context_length_exceeded$",
            "context window exceeded$",
            "context limit reached$",
            "context length exceeded$",
            "your input exceeds the context window",
            "this model's maximum context length is",
            "the input token count * exceeds the maximum",
            "input length and * exceed context limit",
            "input tokens exceed the configured limit",
            "codex ran out of room in the model's context window",
        ],
    ),
    (
        Auth,
        &[
            "invalid api key$",
            "invalid x-api-key",
            "invalid bearer token",
            "invalid authentication credentials$",
            "incorrect api key provided",
            "api key not valid",
            "api key expired",
            "api key not found$",
            "no api key found",
            "no api key provided",
            "no auth credentials found",
            "no authentication information found",
            "not logged in$",
            "not logged in.",
            "not authenticated$",
            "not signed in$",
            "unauthorized$",
            "unauthenticated$",
            "authentication failed$",
            "authentication required$",
            "authentication error$",
            "failed to authenticate$",
            "failed to refresh token$",
            "could not resolve authentication method",
            "oauth token has expired",
            "oauth token revoked",
            "oauth authentication is currently not supported",
            "your access token could not be refreshed",
            "your session has expired. please",
            "please run /login",
            "please run `codex login`",
            "please set an auth method in",
            "please sign in",
            "missing bearer or basic authentication",
            "missing environment variable: `*api_key",
            "missing api key$",
            "when using gemini api, you must specify the gemini_api_key",
            "this organization has been disabled",
            "your organization has been disabled",
        ],
    ),
    (
        Overload,
        &[
            "overloaded$",
            "repeated 529 overloaded errors",
            "the model is overloaded",
            "model is overloaded$",
            "selected model is at capacity",
            "the model is currently at capacity",
            "we're currently experiencing high demand",
            "we are currently experiencing high demand",
            "this model is currently experiencing high demand",
            "the engine is currently overloaded",
            "that model is currently overloaded",
            "our servers are currently overloaded",
            "the server had an error while processing",
            "the server is overloaded",
            "an error occurred while processing your request",
            "internal server error$",
            "an internal error has occurred",
            "service unavailable$",
            "the service is currently unavailable",
            "service temporarily unavailable$",
            "bad gateway$",
            "gateway timeout$",
            "gateway time-out$",
            "upstream connect error or disconnect",
        ],
    ),
    (
        Network,
        &[
            "econnrefused",
            "econnreset",
            "enotfound",
            "etimedout",
            "eai_again",
            "epipe$",
            "ehostunreach",
            "enetunreach",
            "und_err_",
            "connect e*",
            "read econnreset",
            "write epipe",
            "write econnreset",
            "getaddrinfo e*",
            "fetch failed$",
            "exception typeerror: fetch failed",
            "failed to fetch$",
            "socket hang up$",
            "socketerror: *",
            "the socket connection was closed",
            "other side closed$",
            "premature close$",
            "terminated$",
            "stream disconnected before completion",
            "stream disconnected$",
            "stream closed before",
            "stream ended without",
            "stream error: stream disconnected",
            "error sending request",
            "error decoding response body",
            "error reading a body from connection",
            "idle timeout waiting for sse",
            "client error (connect)",
            "connection error$",
            "connection error.",
            "connection refused$",
            "connection reset by peer",
            "connection closed$",
            "connection closed before message completed",
            "connection closed mid-response",
            "connection failed: *",
            "connection timed out$",
            "unable to connect to api",
            "unable to connect. is the computer able to access the url",
            "unable to connect to anthropic services",
            "cannot connect to api",
            "failed to connect to *api",
            "could not connect to *api",
            "could not resolve host",
            "dns error: *",
            "failed to lookup address information",
            "temporary failure in name resolution",
            "name or service not known",
            "network error$",
            "network is unreachable$",
            "network request failed$",
            "request timed out$",
            "the operation timed out$",
            "operation timed out$",
            "tcp connect error: *",
            "tls handshake *",
        ],
    ),
    (
        Permission,
        &[
            "claude requested permissions to *",
            "this command requires approval",
            "permission denied and could not request permission",
            "the user rejected permission to use",
            "the user doesn't want to proceed with this tool use",
            "tool execution for * requires user confirmation",
            "tool execution denied by policy",
            "not inside a trusted directory",
            "this folder is not trusted",
            "workspace is not trusted$",
        ],
    ),
    (
        Misuse,
        &[
            "--dangerously-skip-permissions cannot be used with root",
            "--* cannot be used with root",
            "no conversation found with session id",
            "no conversation found to continue",
            "no saved session found with id",
            "no rollout found for thread id",
            "session id * is already in use",
            "session not found: *",
            "invalid session identifier",
            "invalid session id",
            "error resuming session:",
            "unknown option '*",
            "unknown option: *",
            "unknown argument: *",
            "unknown arguments: *",
            "unexpected argument '*",
            "unrecognized option '*",
            "invalid value '*' for '*",
            "option '*' argument '*' is invalid",
            "there's an issue with the selected model",
            "the model `*` does not exist",
            "model not found: *",
            "model not found$",
            "model_not_found$",
            "input must be provided either through stdin or as a prompt argument",
            "no prompt provided",
        ],
    ),
];

/// Names that programs have for it: codes, types and statuses of JSON bodies, and the words agents derive
/// from them.
const CODES: &[(&str, FailureClass)] = &[
    ("usage_limit_reached", UsageLimit),
    ("usage_limit_exceeded", UsageLimit),
    ("rate_limit", RateLimit),
    ("rate_limit_error", RateLimit),
    ("rate_limit_exceeded", RateLimit),
    ("too_many_requests", RateLimit),
    ("resource_exhausted", RateLimit),
    ("throttling", RateLimit),
    ("overloaded", Overload),
    ("overloaded_error", Overload),
    ("server_is_overloaded", Overload),
    ("server_error", Overload),
    ("internal_server_error", Overload),
    ("service_unavailable", Overload),
    ("slow_down", Overload),
    ("api_error", Overload),
    ("internal", Overload),
    ("unavailable", Overload),
    ("deadline_exceeded", Overload),
    ("timeout_error", Network),
    ("authentication_error", Auth),
    ("authentication_failed", Auth),
    ("permission_error", Auth),
    ("permission_denied", Auth),
    ("unauthenticated", Auth),
    ("invalid_api_key", Auth),
    ("billing_error", Billing),
    ("insufficient_quota", Billing),
    ("billing_hard_limit_reached", Billing),
    ("billing_not_active", Billing),
    ("context_length_exceeded", Context),
    ("request_too_large", Context),
    ("model_not_found", Misuse),
];

/// The class of a message, by how it begins. In small letters, with straight apostrophes.
pub(super) fn class_of(message: &str) -> Option<FailureClass> {
    FORMS.iter().find_map(|(class, forms)| forms.iter().any(|form| begins(message, form)).then_some(*class))
}

/// The class of a name that programs use.
pub(super) fn class_of_code(code: &str) -> Option<FailureClass> {
    CODES.iter().find(|(known, _)| known.eq_ignore_ascii_case(code)).map(|(_, class)| *class)
}

/// Whether nothing but the end of a line or of a sentence is here.
pub(super) fn is_end(rest: &str) -> bool {
    let rest = rest.trim_start_matches(' ');
    rest.is_empty()
        || rest.starts_with(['.', ':', ';', '!', '·', '∙', '|', '(', ']', '}', '"', '—', '\n', '\r'])
}

/// How many bytes `*` stands for at most.
const FEW_WORDS: usize = 60;

fn begins(message: &str, form: &str) -> bool {
    let (form, is_closed) = form.strip_suffix('$').map_or((form, false), |form| (form, true));
    match form.split_once('*') {
        None => message.strip_prefix(form).is_some_and(|rest| {
            if is_closed {
                // `overloaded: false` and `unauthorized()` are code.
                let is_code = !form.contains(' ') && rest.starts_with([':', '(']);
                return is_end(rest) && !is_code;
            }
            let is_whole = form.ends_with(|c: char| !c.is_alphanumeric());
            is_whole || !rest.starts_with(char::is_alphanumeric)
        }),
        Some((start, end)) => message.strip_prefix(start).is_some_and(|rest| {
            let end = if is_closed { format!("{end}$") } else { end.to_owned() };
            let limit = rest.floor_char_boundary(FEW_WORDS);
            rest[..limit]
                .char_indices()
                .take_while(|(_, c)| !matches!(c, '.' | '\n' | '"'))
                .map(|(at, _)| at)
                .chain((rest.len() <= FEW_WORDS).then_some(rest.len()))
                .any(|at| begins(&rest[at..], &end))
        }),
    }
}
