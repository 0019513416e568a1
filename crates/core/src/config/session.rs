//! `session`: loops inside the chat sessions of agents (req 107).

use super::{At, Both, ConfigSection, SettingSource, Sourced};
use crate::{duration::Millis, judge::promise::PromiseRule, session::SessionSettings};

pub(super) const KEYS: [&str; 4] = ["enabled", "max_iterations", "completion_promise", "continuation_delay"];

/// What a file says about loops inside sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSection {
    /// Whether loops may begin inside sessions.
    pub enabled: Option<At<bool>>,
    pub max_iterations: Option<At<u32>>,
    pub completion_promise: Option<At<String>>,
    /// How long a host waits before it injects a prompt.
    pub continuation_delay: Option<At<Millis>>,
}

/// What is in force for loops inside sessions, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSession {
    pub enabled: Sourced<bool>,
    pub max_iterations: Sourced<u32>,
    pub completion_promise: Sourced<String>,
    pub continuation_delay: Sourced<Millis>,
}

impl EffectiveSession {
    pub fn settings(&self) -> SessionSettings {
        SessionSettings {
            enabled: self.enabled.value,
            max_iterations: self.max_iterations.value,
            completion_promise: self.completion_promise.value.clone(),
            continuation_delay: self.continuation_delay.value,
        }
    }
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> SessionSection {
    let Some(mut section) = top.section("session", &KEYS) else { return SessionSection::default() };
    let enabled = section.flag("enabled");
    let max_iterations = section.count("max_iterations", 1);
    let place = section.place("completion_promise");
    let completion_promise = section.text("completion_promise").filter(|promise| {
        let error = PromiseRule::new(promise.value.as_str()).err();
        if let (Some(place), Some(error)) = (place, error) {
            section.wrong(place, format!("`session.completion_promise`: {error}"));
        }
        error.is_none()
    });
    let continuation_delay = section.duration("continuation_delay");
    SessionSection { enabled, max_iterations, completion_promise, continuation_delay }
}

pub(super) fn resolve(both: &Both<'_>) -> EffectiveSession {
    let defaults = SessionSettings::default();
    let or = |sourced: Sourced<Option<String>>| match sourced.value {
        Some(value) => Sourced { value, from: sourced.from },
        None => Sourced { value: defaults.completion_promise.clone(), from: SettingSource::Default },
    };
    let limit = both.limit(|config| config.session.max_iterations.clone(), Some(defaults.max_iterations));
    let enabled = both.pick(
        |config| config.session.enabled.clone().map(some),
        |user, repository| Some(user.unwrap_or(true) && repository.unwrap_or(true)),
    );
    let delay = both.pick(|config| config.session.continuation_delay.clone().map(some), |user, _| *user);
    EffectiveSession {
        enabled: Sourced { value: enabled.value.unwrap_or(defaults.enabled), from: enabled.from },
        // A repository may only lower it.
        max_iterations: Sourced { value: limit.value.unwrap_or(defaults.max_iterations), from: limit.from },
        completion_promise: or(
            both.pick(|config| config.session.completion_promise.clone().map(some), |user, _| user.clone())
        ),
        continuation_delay: Sourced {
            value: delay.value.unwrap_or(defaults.continuation_delay),
            from: delay.from,
        },
    }
}

fn some<T>(at: At<T>) -> At<Option<T>> {
    At { value: Some(at.value), line: at.line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Author, Typed, parse, resolve as resolve_all};

    fn settings(user: &str, repository: &str) -> SessionSettings {
        let user = parse("user", user.as_bytes(), Author::User).unwrap();
        let repository = parse("repo", repository.as_bytes(), Author::Repository).unwrap();
        resolve_all(&user, &repository, &Typed::default()).session.settings()
    }

    #[test]
    fn defaults_hold_and_a_part_that_is_set_replaces_only_itself() {
        // req 107
        let of = |enabled, max_iterations, promise: &str, delay| SessionSettings {
            enabled,
            max_iterations,
            completion_promise: promise.to_owned(),
            continuation_delay: Millis(delay),
        };
        for (user, repository, expected) in [
            ("", "", of(true, 100, "DONE", 500)),
            ("session: {max_iterations: 25}", "", of(true, 25, "DONE", 500)),
            ("", "session: {completion_promise: ALL FIXED}", of(true, 100, "ALL FIXED", 500)),
            (
                "session: {completion_promise: MINE}",
                "session: {completion_promise: THEIRS}",
                of(true, 100, "MINE", 500),
            ),
            (
                "session: {continuation_delay: 2s}",
                "session: {max_iterations: 300}",
                of(true, 100, "DONE", 2000),
            ),
            ("session: {enabled: true}", "session: {enabled: false}", of(false, 100, "DONE", 500)),
            ("session: {enabled: false}", "session: {enabled: true}", of(false, 100, "DONE", 500)),
        ] {
            assert_eq!(settings(user, repository), expected, "{user} | {repository}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_where_it_stands() {
        for (text, message) in [
            ("session: {max_iterations: 0}\n", "1:27: `session.max_iterations`"),
            ("session: {completion_promise: \"<promise>X</promise>\"}\n", "holds a `<promise>` tag"),
            ("session: {promise: X}\n", "unknown key `promise`"),
            ("session: {enabled: maybe}\n", "`session.enabled`"),
        ] {
            let problems = parse("f", text.as_bytes(), Author::User).unwrap_err().to_string();
            assert!(problems.contains(message), "{text}: {problems}");
        }
    }
}
