//! What agents print when they fail, and what they print while they work.

mod mentions;

use proptest::prelude::*;

use super::{
    FailureClass::{Auth, Billing, Context, Misuse, Network, Overload, Permission, RateLimit, UsageLimit},
    *,
};

/// Texts of final errors with the status the agent reports beside them, and what they are.
const FAILURES: &[(&str, Option<u16>, FailureClass)] = &[
    // claude, as recorded
    ("Invalid API key · Fix external API key", Some(401), Auth),
    ("Invalid API key · Fix external API key", None, Auth),
    ("Credit balance is too low", Some(400), Billing),
    ("Credit balance is too low", None, Billing),
    (
        "Prompt is too long · the request is ~250000 tokens (limit 200000) but this conversation is only ~2760 tokens \
         — the rest is system prompt, tool definitions, and attachment content.",
        Some(400),
        Context,
    ),
    (
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment. If it \
         persists, check your inference gateway (127.0.0.1:40749).",
        Some(529),
        Overload,
    ),
    ("API Error: 529 Overloaded. This is a server-side issue, usually temporary", None, Overload),
    (
        "API Error: 500 Internal server error. This is a server-side issue, usually temporary",
        Some(500),
        Overload,
    ),
    ("API Error: 500 Internal server error. This is a server-side issue, usually temporary", None, Overload),
    (
        "API Error: Request rejected (429) · This request would exceed your organization's rate limit of 50 requests \
         per minute.",
        Some(429),
        RateLimit,
    ),
    (
        "API Error: Request rejected (429) · This request would exceed your organization's rate limit of 50 requests \
         per minute.",
        None,
        RateLimit,
    ),
    ("You've hit your 5-hour limit · resets 8:25pm (UTC)", Some(429), UsageLimit),
    ("You've hit your 5-hour limit · resets 8:25pm (UTC)", None, UsageLimit),
    ("No conversation found with session ID: 99999999-2222-4333-8444-555555555555", None, Misuse),
    (
        "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n",
        None,
        Misuse,
    ),
    ("authentication_failed", None, Auth),
    ("rate_limit", None, RateLimit),
    ("server_error", None, Overload),
    ("billing_error", None, Billing),
    ("overloaded", None, Overload),
    ("usage_limit_reached", Some(429), UsageLimit),
    // claude, other versions and settings
    ("Claude AI usage limit reached|1763400000", None, UsageLimit),
    ("5-hour limit reached ∙ resets 7pm\n     /upgrade to increase your usage limit.", None, UsageLimit),
    ("Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).", None, UsageLimit),
    ("You've hit your session limit · resets 3:20am (Europe/Brussels)", None, UsageLimit),
    ("You've hit your limit for Opus · resets Mon 9am", None, UsageLimit),
    ("You're out of extra usage · resets 3pm", None, UsageLimit),
    (
        "API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"This request would \
         exceed the rate limit\"}}",
        None,
        RateLimit,
    ),
    (
        "API Error: 401 {\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":\"invalid \
         x-api-key\"}} · Please run /login",
        None,
        Auth,
    ),
    (
        "API Error: 403 {\"error\":{\"type\":\"forbidden\",\"message\":\"Request not allowed\"}} · Please run /login",
        None,
        Auth,
    ),
    ("Not logged in · Please run /login", None, Auth),
    ("OAuth token has expired · Please run /login", None, Auth),
    ("API Error: Connection error.", None, Network),
    ("API Error: Unable to connect to API (ConnectionRefused)", None, Network),
    ("API Error: Unable to connect to API (ECONNREFUSED)", None, Network),
    ("API Error (Request timed out.)", None, Network),
    ("API Error: Request timed out.", None, Network),
    ("API Error: Repeated 529 Overloaded errors · check status.claude.com", None, Overload),
    ("Session ID 11111111-2222-4333-8444-555555555555 is already in use.", None, Misuse),
    ("Error: Session ID 11111111-2222-4333-8444-555555555555 is already in use.", None, Misuse),
    ("error: unknown option '--yolo'", None, Misuse),
    (
        "There's an issue with the selected model (nope). It may not exist or you may not have access to it.",
        Some(404),
        Misuse,
    ),
    ("Claude requested permissions to write to /x, but you haven't granted it yet.", None, Permission),
    // codex, as recorded
    (
        "unexpected status 401 Unauthorized: invalid x-api-key, url: http://127.0.0.1:46719/v1/responses",
        None,
        Auth,
    ),
    ("Quota exceeded. Check your plan and billing details.", None, Billing),
    (
        "{\"error\": {\"message\": \"prompt is too long: 250000 tokens > 200000 maximum\", \"type\": \
         \"invalid_request_error\", \"param\": null, \"code\": \"context_length_exceeded\"}}",
        None,
        Context,
    ),
    ("Selected model is at capacity. Please try a different model.", None, Overload),
    ("exceeded retry limit, last status: 429 Too Many Requests", None, RateLimit),
    ("We’re currently experiencing high demand, which may cause temporary errors.", None, Overload),
    (
        "stream disconnected before completion: Transport error: network error: error decoding response body",
        None,
        Network,
    ),
    (
        "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again \
         at 7:19 PM.",
        None,
        UsageLimit,
    ),
    // codex, other
    ("■ You've hit your usage limit. Upgrade to Pro or try again in 5 days 3 hours.", None, UsageLimit),
    ("exceeded retry limit, last status: 503 Service Unavailable, request id: abc", None, Overload),
    (
        "stream error: stream disconnected before completion: error sending request for url (http://127.0.0.1:1/v1/responses)",
        None,
        Network,
    ),
    ("error sending request for url (http://127.0.0.1:1/v1/responses)", None, Network),
    ("Codex ran out of room in the model's context window. Start a new conversation.", None, Context),
    ("Not inside a trusted directory and --skip-git-repo-check was not specified.", None, Permission),
    ("Missing environment variable: `OPENAI_API_KEY`.", None, Auth),
    ("error: unexpected argument '--nope' found\n\nUsage: codex exec [OPTIONS] [PROMPT]", None, Misuse),
    (
        "WARNING: proceeding, even though we could not create PATH aliases\nReading additional input from stdin...\n\
         ERROR: unexpected status 401 Unauthorized: Missing bearer or basic authentication in header",
        None,
        Auth,
    ),
    // gemini, as recorded
    (
        "[API Error: {\"error\":{\"code\":401,\"message\":\"invalid x-api-key\",\"status\":\"UNAUTHENTICATED\"}}]",
        None,
        Auth,
    ),
    (
        "[API Error: {\"error\":{\"code\":400,\"message\":\"Your credit balance is too low to access the Anthropic \
         API. Please go to Plans & Billing to upgrade or purchase credits.\",\"status\":\"FAILED_PRECONDITION\"}}]",
        None,
        Billing,
    ),
    (
        "[API Error: {\"error\":{\"code\":400,\"message\":\"prompt is too long: 250000 tokens > 200000 \
         maximum\",\"status\":\"INVALID_ARGUMENT\"}}]",
        None,
        Context,
    ),
    ("[API Error: Overloaded]", None, Overload),
    (
        "[API Error: This request would exceed your organization's rate limit of 50 requests per minute.\nSuggested \
         retry after 3600s.]\nPlease wait and try again later. To increase your limits, request a quota increase \
         through AI Studio, or switch to another /auth method",
        None,
        RateLimit,
    ),
    (
        "[API Error: {\"error\":{\"code\":500,\"message\":\"Internal server error\",\"status\":\"INTERNAL\"}}]",
        None,
        Overload,
    ),
    ("[API Error: terminated]", None, Network),
    (
        "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try again later.",
        None,
        UsageLimit,
    ),
    (
        "Warning: Basic terminal detected (TERM=dumb). Visual rendering will be limited.\nYOLO mode is enabled. All \
         tool calls will be automatically approved.\nRipgrep is not available. Falling back to GrepTool.\nError when \
         talking to Gemini API Full report available at: /tmp/gemini-client-error-Turn.run-sendMessageStream-2026.json \
         _ApiError: {\"error\":{\"code\":401,\"message\":\"invalid x-api-key\",\"status\":\"UNAUTHENTICATED\"}}\n    at \
         throwErrorIfNotOK (file:///home/dev/agents:267833:24)",
        None,
        Auth,
    ),
    (
        "Error when talking to Gemini API Full report available at: /tmp/gemini-client-error-x.json \
         TerminalQuotaError: You have exhausted your daily quota on this model.\n    at classifyGoogleError",
        None,
        UsageLimit,
    ),
    (
        "Error when talking to Gemini API Full report available at: /tmp/gemini-client-error-x.json \
         TerminalQuotaError: This request would exceed your organization's rate limit of 50 requests per \
         minute.\nSuggested retry after 3600s.",
        None,
        RateLimit,
    ),
    (
        "Error when talking to Gemini API Full report available at: /tmp/gemini-client-error-x.json TypeError: \
         terminated\n    at Fetch.onAborted (node:internal/deps/undici/undici:11472:53)",
        None,
        Network,
    ),
    // gemini, other
    (
        "[API Error: {\"error\":{\"message\":\"{\\n  \\\"error\\\": {\\n    \\\"code\\\": 429,\\n    \\\"message\\\": \
         \\\"Resource has been exhausted (e.g. check quota).\\\",\\n    \\\"status\\\": \\\"RESOURCE_EXHAUSTED\\\"\\n  \
         }\\n}\",\"code\":429,\"status\":\"Too Many Requests\"}}]",
        None,
        RateLimit,
    ),
    (
        "[API Error: You exceeded your current quota, please check your plan and billing details. For more \
         information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. \nPlease retry in \
         14h23m5s.]",
        None,
        UsageLimit,
    ),
    (
        "[API Error: You have exhausted your capacity on this model. Your quota will reset after 21h15m14s.]",
        None,
        UsageLimit,
    ),
    ("[API Error: exception TypeError: fetch failed sending request]", None, Network),
    (
        "Please set an Auth method in your /home/dev/.gemini/settings.json or specify GEMINI_API_KEY",
        None,
        Auth,
    ),
    ("Error resuming session: Invalid session identifier \"nope\".", None, Misuse),
    // opencode, as recorded
    ("invalid x-api-key", Some(401), Auth),
    ("Overloaded", Some(503), Overload),
    ("Overloaded", None, Overload),
    (
        "This request would exceed your organization's rate limit of 50 requests per minute.",
        Some(429),
        RateLimit,
    ),
    ("This request would exceed your organization's rate limit of 50 requests per minute.", None, RateLimit),
    ("You have reached your usage limit.", Some(429), UsageLimit),
    ("You have reached your usage limit.", None, UsageLimit),
    (
        "{\"error\": {\"message\": \"invalid x-api-key\", \"type\": \"invalid_request_error\", \"param\": null, \
         \"code\": \"invalid_api_key\"}}",
        None,
        Auth,
    ),
    (
        "{\"error\": {\"message\": \"Overloaded\", \"type\": \"server_error\", \"param\": null, \"code\": \
         \"server_is_overloaded\"}}",
        None,
        Overload,
    ),
    (
        "{\"error\": {\"message\": \"You have reached your usage limit.\", \"type\": \"usage_limit_reached\", \
         \"plan_type\": \"pro\", \"resets_at\": 1794770546, \"resets_in_seconds\": 3600}}",
        None,
        UsageLimit,
    ),
    (
        "Internal error: This request would exceed your organization's rate limit of 50 requests per minute.",
        None,
        RateLimit,
    ),
    ("Unable to connect. Is the computer able to access the url?", None, Network),
    ("The user rejected permission to use this specific tool call.", None, Permission),
    // qwen, copilot, pi, as recorded
    ("[API Error: 401 invalid x-api-key]", None, Auth),
    (
        "[API Error: 429 This request would exceed your organization's rate limit of 50 requests per minute.]",
        None,
        RateLimit,
    ),
    (
        "Failed to get response from the AI model; retried 5 times (total retry wait time: 5.43 seconds) Last error: \
         429 This request would exceed your organization's rate limit of 50 requests per minute.",
        None,
        RateLimit,
    ),
    (
        "Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 5.36 seconds) Last \
         error: 429 This request would exceed your organization's rate limit of 50 requests per minute.",
        None,
        RateLimit,
    ),
    (
        "{\"message\":\"This request would exceed your organization's rate limit of 50 requests per \
         minute.\",\"type\":\"requests\",\"param\":null,\"code\":\"rate_limit_exceeded\"}",
        None,
        RateLimit,
    ),
    ("401 invalid x-api-key", None, Auth),
    ("Error: No authentication information found.", None, Auth),
    ("429 status code (no body)", None, RateLimit),
    ("503 status code (no body)", None, Overload),
    ("Error code: 429 - {'error': {'message': 'Rate limit reached'}}", None, RateLimit),
    // the line
    ("connect ECONNREFUSED 127.0.0.1:443", None, Network),
    ("Error: connect ECONNREFUSED 127.0.0.1:443", None, Network),
    ("getaddrinfo ENOTFOUND api.example.com", None, Network),
    ("Error: getaddrinfo EAI_AGAIN api.example.com", None, Network),
    ("read ECONNRESET", None, Network),
    ("connect ETIMEDOUT 192.0.2.1:443", None, Network),
    ("ETIMEDOUT", None, Network),
    ("fetch failed", None, Network),
    ("TypeError: fetch failed", None, Network),
    ("[API Error: fetch failed]", None, Network),
    ("socket hang up", None, Network),
    ("Error: socket hang up", None, Network),
    ("dns error: failed to lookup address information: Temporary failure in name resolution", None, Network),
    ("Temporary failure in name resolution", None, Network),
    ("Connection reset by peer (os error 104)", None, Network),
    ("The socket connection was closed unexpectedly.", None, Network),
    // statuses
    ("", Some(401), Auth),
    ("", Some(402), Billing),
    ("", Some(403), Auth),
    ("", Some(408), Network),
    ("", Some(413), Context),
    ("", Some(429), RateLimit),
    ("", Some(500), Overload),
    ("", Some(503), Overload),
    ("", Some(529), Overload),
    ("whatever it says", Some(429), RateLimit),
    ("You exceeded your current quota, please check your plan and billing details.", Some(429), Billing),
    ("insufficient_quota", Some(429), Billing),
    ("Rate limit exceeded", Some(529), Overload),
    ("API rate limit exceeded for user 1", Some(403), RateLimit),
    ("HTTP 429 Too Many Requests", None, RateLimit),
    ("HTTP 503: Service Unavailable", None, Overload),
    ("502 Bad Gateway", None, Overload),
    ("Request failed with status code 401", None, Auth),
    ("\u{1b}[31mError: 401 Unauthorized\u{1b}[0m", None, Auth),
    (
        "Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000",
        None,
        RateLimit,
    ),
    ("This model's maximum context length is 200000 tokens.", Some(400), Context),
];

// fault E1, E4, E6: every failure has its class, by its status and by its text alone.
#[test]
fn failures_have_their_class() {
    let wrong: Vec<_> = FAILURES
        .iter()
        .map(|(text, status, class)| (text, status, class, limit_class(text, *status)))
        .filter(|(_, _, class, found)| found.as_ref() != Some(*class))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// fault E2: texts that merely mention limits are nothing.
#[test]
fn mentions_are_no_failures() {
    let all: Vec<&str> = mentions::ALL.iter().flat_map(|texts| texts.iter().copied()).collect();
    assert!(all.len() >= 200, "{}", all.len());
    let wrong: Vec<_> =
        all.iter().filter_map(|text| limit_class(text, None).map(|class| (text, class))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// A status that is no failure of the provider says nothing, and the text is not made to say more.
#[test]
fn other_statuses_leave_it_to_the_text() {
    for status in [0, 100, 200, 304, 400, 404, 409, 422, 600, u16::MAX] {
        assert_eq!(limit_class("I fixed the rate limit", Some(status)), None, "{status}");
        assert_eq!(limit_class("Prompt is too long", Some(status)), Some(Context), "{status}");
    }
}

// The same words in the middle of a text, in a list, a quotation or a block of code are prose, not an error.
#[test]
fn the_place_of_a_message_counts() {
    for (text, class) in [
        ("You've hit your usage limit.", UsageLimit),
        ("Rate limit exceeded", RateLimit),
        ("[API Error: Overloaded]", Overload),
        ("fetch failed", Network),
        ("{\"error\":{\"code\":429,\"message\":\"x\"}}", RateLimit),
    ] {
        assert_eq!(limit_class(&format!("Loading\n{text}\n"), None), Some(class), "{text}");
        for wrapped in [
            format!("It printed {text}"),
            format!("    {text}"),
            format!("- {text}"),
            format!("> {text}"),
            format!("`{text}`"),
            format!("\"{text}\""),
            format!("```\n{text}\n```\n"),
            format!("| {text} |"),
            format!("// {text}"),
            format!("# {text}"),
            format!("1. {text}"),
            format!("assert_eq!(message, \"{text}\");"),
        ] {
            assert_eq!(limit_class(&wrapped, None), None, "{wrapped}");
        }
    }
}

#[test]
fn the_names_are_those_of_the_journal() {
    let names: Vec<String> =
        [UsageLimit, RateLimit, Overload, Network, Auth, Billing, Context, Permission, Misuse]
            .iter()
            .map(|class| serde_json::to_string(class).unwrap())
            .collect();
    assert_eq!(
        names.join(","),
        r#""usage_limit","rate_limit","overload","network","auth","billing","context","permission","misuse""#
    );
}

proptest! {
    #[test]
    fn any_text_has_an_answer(text in "(?s).{0,300}", status in proptest::option::of(any::<u16>())) {
        let _ = limit_class(&text, status);
        let _ = limit_class(&format!("[API Error: {text}"), status);
        let _ = limit_class(&format!("{{\"error\":{text}"), status);
    }
}

#[test]
fn long_texts_are_read_in_time() {
    for piece in ["{", "{\n", "error: ", "[", "```\n", "you've hit your ", "{\"error\":", "é"] {
        let _ = limit_class(&piece.repeat(100_000), None);
    }
}
