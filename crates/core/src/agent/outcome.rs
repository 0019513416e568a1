//! What an agent's end means: decided by its final event, then by what else it reported, then by its last words on
//! stderr; never by its prose, and never by the exit code alone.
//!
//! Where dacapo itself ends an agent it knows the reason, and this is not asked.

mod errors;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use self::errors::{ErrorMeaning, meaning};
use super::transcript::{Ending, EndingKind, OutputSummary};
use crate::{
    duration::Millis,
    event::Outcome,
    limits::{reset::bounded, reset_at},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// What an agent's end means.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub outcome: Outcome,
    /// One line for people, with what helps where something does; empty when all is well.
    pub detail: String,
    /// When it may be tried again, as far as it was said.
    pub reset: ResetHint,
    /// Whether the session that was to be continued is the reason.
    pub is_session_lost: bool,
}

/// What was said about the end of a limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResetHint {
    #[default]
    Unknown,
    At(i64),
    After(Millis),
    /// The error's words, which may name a time.
    Words(String),
}

impl ResetHint {
    /// When the limit ends, as told at `now` on a machine whose time zone is `zone`; never before `now`.
    /// Nothing if that cannot be told.
    pub fn instant(&self, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Unknown => None,
            Self::At(second) => bounded(Timestamp::from_second(*second).ok()?, now),
            Self::After(wait) => {
                bounded(now.checked_add(SignedDuration::try_from(wait.std()).ok()?).ok()?, now)
            }
            Self::Words(words) => reset_at(words, now, zone),
        }
    }
}

/// How many lines of stderr may explain an end.
const LAST_LINES: usize = 20;

/// What the end of an agent means that printed events.
pub fn outcome(told: &OutputSummary, process: &ProcessEnd, stderr_tail: &str) -> Judged {
    match &told.ending {
        Some(ending) if ending.is_ok => finished(process),
        Some(ending) => failed(ending),
        None => broken_off(told, process, stderr_tail),
    }
}

/// An agent that said it has finished has finished, even if it then exited with an error.
fn finished(process: &ProcessEnd) -> Judged {
    let detail = match (process.code, process.signal) {
        (Some(0), _) | (None, None) => String::new(),
        (Some(code), _) => format!("exited {code} after it had finished"),
        (None, Some(signal)) => format!("ended by signal {signal} after it had finished"),
    };
    Judged { outcome: Outcome::Completed, detail, reset: ResetHint::Unknown, is_session_lost: false }
}

fn failed(ending: &Ending) -> Judged {
    let meaning = meaning_of(ending).unwrap_or(ErrorMeaning::plain(Outcome::Crash));
    let words = match plain(&ending.message) {
        _ if ending.kind == Some(EndingKind::Interrupted) => "it was interrupted".to_owned(),
        words if words.is_empty() => "it reported an error without a word about it".to_owned(),
        words => words,
    };
    judged(meaning, &words, ending)
}

fn broken_off(told: &OutputSummary, process: &ProcessEnd, stderr_tail: &str) -> Judged {
    let how = match (process.code, process.signal) {
        (_, Some(signal)) => format!("ended by signal {signal}"),
        (Some(code), None) => format!("exited {code}"),
        (None, None) => "ended".to_owned(),
    };
    let when = if told.saw_event { "without a final event" } else { "before its first event" };
    let crash = |words: Option<String>| {
        let words =
            words.filter(|words| !words.is_empty()).map_or_else(String::new, |words| format!(": {words}"));
        judged(ErrorMeaning::plain(Outcome::Crash), &format!("{how} {when}{words}"), &Ending::default())
    };
    let trouble = told.trouble.as_ref();
    // A signal ended the agent, not the error that it had printed before.
    if process.signal.is_some() {
        return crash(trouble.map(|trouble| plain(&trouble.message)));
    }
    if let Some((trouble, meaning)) = trouble.and_then(|trouble| Some((trouble, meaning_of(trouble)?))) {
        return judged(meaning, &plain(&trouble.message), trouble);
    }
    let is_failure = process.code != Some(0);
    let stray = told.stray.as_deref().filter(|_| is_failure && !told.saw_event);
    let mut last_lines = lines_from_the_end(stderr_tail).take(LAST_LINES).chain(stray);
    if let Some((line, meaning)) = last_lines.find_map(|line| Some((line, meaning(line, None)?))) {
        return judged(meaning, &plain(line), &Ending::bad(line));
    }
    let last =
        lines_from_the_end(stderr_tail).next().or(told.stray.as_deref()).or(trouble.map(|t| &*t.message));
    crash(last.map(plain))
}

/// Lines that say something, the last one first.
fn lines_from_the_end(stderr: &str) -> impl Iterator<Item = &str> {
    // What these CLIs print in good runs too, and the frames of a stack.
    const NOISE: [&str; 6] =
        ["Warning: ", "WARNING: ", "YOLO mode is enabled", "Ripgrep ", "Reading additional input", "at "];
    stderr.lines().rev().map(str::trim).filter(|line| {
        line.chars().any(char::is_alphanumeric) && !NOISE.iter().any(|noise| line.starts_with(noise))
    })
}

fn judged(meaning: ErrorMeaning, words: &str, ending: &Ending) -> Judged {
    let reset = match (meaning.outcome, ending.reset_at, ending.retry_after) {
        (Outcome::UsageLimit | Outcome::RateLimit | Outcome::Overload, Some(at), _) => ResetHint::At(at),
        (Outcome::UsageLimit | Outcome::RateLimit | Outcome::Overload, None, Some(after)) => {
            ResetHint::After(after)
        }
        (Outcome::UsageLimit | Outcome::RateLimit | Outcome::Overload, None, None)
            if !ending.message.is_empty() =>
        {
            ResetHint::Words(ending.message.clone())
        }
        _ => ResetHint::Unknown,
    };
    let detail =
        if meaning.help.is_empty() { words.to_owned() } else { format!("{words}; {}", meaning.help) };
    Judged { outcome: meaning.outcome, detail, reset, is_session_lost: meaning.is_session_lost }
}

/// What an error means: by the kind that its CLI names, then by its status and words.
fn meaning_of(ending: &Ending) -> Option<ErrorMeaning> {
    let Some(kind) = ending.kind else { return meaning(&ending.message, ending.status) };
    let outcome = match kind {
        EndingKind::MaxTurns | EndingKind::Budget => Outcome::MaxTurns,
        EndingKind::PromptTooLong => Outcome::Context,
        EndingKind::UsageLimit => Outcome::UsageLimit,
        // Some agents call it a rate limit when a quota or the account's money ran out.
        EndingKind::RateLimit => {
            let plain = ErrorMeaning::plain(Outcome::RateLimit);
            return Some(meaning(&ending.message, Some(429)).unwrap_or(plain));
        }
        EndingKind::Overload => Outcome::Overload,
        EndingKind::Network => Outcome::Network,
        EndingKind::Auth => Outcome::Auth,
        EndingKind::Billing => Outcome::Billing,
        EndingKind::Permission => Outcome::Permission,
        EndingKind::Misuse => Outcome::Misuse,
        EndingKind::Interrupted => Outcome::Crash,
    };
    Some(ErrorMeaning::plain(outcome))
}

/// An error's words without the JSON around them, in one line.
fn plain(message: &str) -> String {
    let inner = message
        .find('{')
        .zip(message.rfind('}'))
        .and_then(|(from, to)| serde_json::from_str::<serde_json::Value>(message.get(from..=to)?).ok())
        .and_then(|json| {
            let error = json.get("error").unwrap_or(&json);
            error.get("message").and_then(serde_json::Value::as_str).map(str::to_owned)
        });
    let words = inner.as_deref().unwrap_or(message).trim();
    // `[API Error: Overloaded]`, with advice behind it or without
    let words = match words.strip_prefix("[API Error: ") {
        Some(rest) => rest.replacen("]\n", "\n", 1).trim_end_matches(']').to_owned(),
        None => words.to_owned(),
    };
    let line: Vec<&str> = words.split_whitespace().collect();
    let line = line.join(" ");
    const LONGEST: usize = 500;
    if line.len() <= LONGEST { line } else { format!("{}…", &line[..line.floor_char_boundary(LONGEST)]) }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
