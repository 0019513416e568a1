//! What the words of an error mean for a run, and what helps. Only for error channels: an agent's own text may speak
//! of any of this.

use crate::{
    event::Outcome,
    limits::{FailureClass, limit_class},
};

/// What an error means, and what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) outcome: Outcome,
    /// What to do about it; may be empty.
    pub(super) help: &'static str,
    pub(super) is_session_lost: bool,
}

impl Meaning {
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
enum About {
    Root,
    Session,
    Argument,
    Model,
}

/// Which words of a refusal tell what it is about.
const REFUSALS: [(&str, About); 9] = [
    ("with root", About::Root),
    ("conversation found", About::Session),
    ("session", About::Session),
    ("rollout", About::Session),
    ("model", About::Model),
    ("option", About::Argument),
    ("argument", About::Argument),
    ("subcommand", About::Argument),
    ("invalid value", About::Argument),
];

/// What an error means that came with a status of HTTP, or without one.
pub(super) fn meaning(error: &str, status: Option<u16>) -> Option<Meaning> {
    let text = error.trim_start().to_lowercase();
    if let Some((_, outcome)) = OWN_WORDS.iter().find(|(beginning, _)| text.starts_with(beginning)) {
        return Some(Meaning::plain(*outcome));
    }
    Some(match limit_class(error, status)? {
        FailureClass::UsageLimit => Meaning::plain(Outcome::UsageLimit),
        FailureClass::RateLimit => Meaning::plain(Outcome::RateLimit),
        FailureClass::Overload => Meaning::plain(Outcome::Overload),
        FailureClass::Network => Meaning::plain(Outcome::Network),
        FailureClass::Auth => Meaning::plain(Outcome::Auth),
        FailureClass::Billing => Meaning::plain(Outcome::Billing),
        FailureClass::Context => Meaning::plain(Outcome::Context),
        FailureClass::Permission => Meaning::plain(Outcome::Permission),
        FailureClass::Misuse => misuse(&text),
    })
}

fn misuse(text: &str) -> Meaning {
    let about = REFUSALS.iter().find(|(words, _)| text.contains(words)).map(|(_, about)| *about);
    let help = match about {
        Some(About::Root) => {
            "run it as another user, or set `allow_root: true` under `permissions:` in your configuration"
        }
        Some(About::Session) => "the session cannot be continued",
        Some(About::Argument) => "its version may be another than expected; `dacapo doctor` names it",
        Some(About::Model) => "choose another one with `--model`",
        None => "",
    };
    Meaning { outcome: Outcome::Misuse, help, is_session_lost: about == Some(About::Session) }
}
