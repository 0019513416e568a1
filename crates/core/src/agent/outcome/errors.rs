//! What the words of an error mean for a run, and what helps. Only for error channels: an agent's own text may speak
//! of any of this.

use crate::{
    event::Outcome,
    limits::{FailureClass, limit_class},
};

/// What an error means, and what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ErrorMeaning {
    pub(super) outcome: Outcome,
    /// What to do about it; may be empty.
    pub(super) help: &'static str,
    pub(super) is_session_lost: bool,
}

impl ErrorMeaning {
    pub(super) const fn plain(outcome: Outcome) -> Self {
        Self { outcome, help: "", is_session_lost: false }
    }
}

/// What no provider says but a CLI itself: how such a line begins.
const OWN_WORDS: [(&str, Outcome); 5] = [
    ("reached max session turns", Outcome::MaxTurns),
    ("reached maximum number of turns", Outcome::MaxTurns),
    ("reached maximum budget", Outcome::MaxTurns),
    ("! permission requested", Outcome::Permission),
    ("gemini cli is not running in a trusted directory", Outcome::Misuse),
];

/// What a refusal is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorSubject {
    Root,
    Session,
    Argument,
    Model,
}

/// Which words of a refusal tell what it is about.
const REFUSALS: [(&str, ErrorSubject); 9] = [
    ("with root", ErrorSubject::Root),
    ("conversation found", ErrorSubject::Session),
    ("session", ErrorSubject::Session),
    ("rollout", ErrorSubject::Session),
    ("model", ErrorSubject::Model),
    ("option", ErrorSubject::Argument),
    ("argument", ErrorSubject::Argument),
    ("subcommand", ErrorSubject::Argument),
    ("invalid value", ErrorSubject::Argument),
];

/// What an error means that came with a status of HTTP, or without one.
pub(super) fn meaning(error: &str, status: Option<u16>) -> Option<ErrorMeaning> {
    let text = error.trim_start().to_lowercase();
    if let Some((_, outcome)) = OWN_WORDS.iter().find(|(beginning, _)| text.starts_with(beginning)) {
        return Some(ErrorMeaning::plain(*outcome));
    }
    Some(match limit_class(error, status)? {
        FailureClass::UsageLimit => ErrorMeaning::plain(Outcome::UsageLimit),
        FailureClass::RateLimit => ErrorMeaning::plain(Outcome::RateLimit),
        FailureClass::Overload => ErrorMeaning::plain(Outcome::Overload),
        FailureClass::Network => ErrorMeaning::plain(Outcome::Network),
        FailureClass::Auth => ErrorMeaning::plain(Outcome::Auth),
        FailureClass::Billing => ErrorMeaning::plain(Outcome::Billing),
        FailureClass::Context => ErrorMeaning::plain(Outcome::Context),
        FailureClass::Permission => ErrorMeaning::plain(Outcome::Permission),
        FailureClass::Misuse => misuse(&text),
    })
}

fn misuse(text: &str) -> ErrorMeaning {
    let about = REFUSALS.iter().find(|(words, _)| text.contains(words)).map(|(_, about)| *about);
    let help = match about {
        Some(ErrorSubject::Root) => {
            "run it as another user, or set `allow_root: true` under `permissions:` in your configuration"
        }
        Some(ErrorSubject::Session) => "the session cannot be continued",
        Some(ErrorSubject::Argument) => "its version may be another than expected; `dacapo doctor` names it",
        Some(ErrorSubject::Model) => "choose another one with `--model`",
        None => "",
    };
    ErrorMeaning { outcome: Outcome::Misuse, help, is_session_lost: about == Some(ErrorSubject::Session) }
}
