//! What kind of failure ended an agent, from the status and the text of its final error.
//!
//! Texts are matched only where an error message begins, never anywhere in the middle: agents write about
//! rate limits all day, in code, in names of tests, in their own words. An agent's prose has no business here
//! at all.

mod forms;
mod report;

use serde::{Deserialize, Serialize};

use crate::text::ansi::readable;

/// Error texts are short; the rest of a longer one is a stack trace or a page. Of a long stderr, pass the
/// end.
const MOST_BYTES: usize = 16 * 1024;

/// Why an agent could not go on. The names are those that `agent_exited` has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The plan's allowance is used up: wait until it is renewed.
    UsageLimit,
    /// Too many requests for now: back off.
    RateLimit,
    /// The provider's trouble: back off.
    Overload,
    /// The provider was not reached, or the line was cut: back off.
    Network,
    /// Signed out, or a key that is none: a person must act.
    Auth,
    /// Nothing left to pay with: a person must act.
    Billing,
    /// The conversation does not fit the model: start a new one.
    Context,
    /// The agent asked for a consent, and no person was there to give it.
    Permission,
    /// The command line itself is wrong: an option, a session, a model, the user it runs as.
    Misuse,
}

/// The class of a failure, from the HTTP `status` where the agent reports one, then from the text of its
/// final error.
///
/// `None` when neither says. The text decides only what the status leaves open: a 429 may be a rate limit, a
/// used-up plan or an unpaid bill.
pub fn limit_class(error_text: &str, status: Option<u16>) -> Option<FailureClass> {
    let text = readable(&error_text.as_bytes()[..error_text.floor_char_boundary(MOST_BYTES)]);
    let by_text = report::read(&text);
    status.and_then(|status| by_status(status, by_text)).or(by_text)
}

/// What a status means beside what a text says; `None` where the status says nothing.
fn by_status(status: u16, by_text: Option<FailureClass>) -> Option<FailureClass> {
    use FailureClass::{Auth, Billing, Context, Network, Overload, RateLimit, UsageLimit};
    match (status, by_text) {
        (429, Some(UsageLimit | Billing)) | (403, Some(UsageLimit | Billing | RateLimit)) => by_text,
        (429, _) => Some(RateLimit),
        (401 | 403, _) => Some(Auth),
        (402, _) => Some(Billing),
        (408, _) => Some(Network),
        (413, _) => Some(Context),
        (500..=599, _) => Some(Overload),
        _ => None,
    }
}

#[cfg(test)]
#[path = "failure_tests/mod.rs"]
mod tests;
