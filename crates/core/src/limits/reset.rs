//! When a limit ends, from the words of the error that reports it.
//!
//! Only for the text of a final error: an agent's own prose may speak of any time.

mod moment;
mod tokens;
mod zones;

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

use self::{
    moment::Moment,
    tokens::{TimeReader, TimeToken, TokenKind},
};
use crate::duration::Millis;

/// How often a loop tries again when the error does not say when its limit ends.
pub const PROBE_EVERY: Millis = Millis::from_mins(15);

/// A time of day that passed less than this ago means now, not tomorrow: clocks differ, and messages take
/// their time.
const JUST_NOW: SignedDuration = SignedDuration::from_mins(10);

/// No provider's limit lasts longer than a month; what claims to is misread or not a limit.
const LONGEST: SignedDuration = SignedDuration::from_hours(35 * 24);

/// An instant longer ago than this was not meant for this error.
const STALE: SignedDuration = SignedDuration::from_hours(24);

/// Error texts are short; the rest of a longer one is a stack trace or a page.
const MOST_BYTES: usize = 64 * 1024;

/// When the limit that `text` reports ends, as read at `now` on a machine whose time zone is `zone`.
///
/// Never before `now`, never more than 35 days after. `None` when the text does not say, or says what cannot
/// be (an unknown zone, 25 o'clock, a year from now): then try again every [`PROBE_EVERY`].
pub fn reset_at(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let text = &text[..text.floor_char_boundary(MOST_BYTES)];
    let tokens = tokens::tokens(text);
    let readers = || (0..tokens.len()).map(|at| TimeReader::new(text, &tokens, at));
    // What programs write for programs is exact, so it goes first, wherever in the text it stands.
    readers()
        .find_map(|mut reader| exact(&mut reader, now))
        .or_else(|| readers().find_map(|mut reader| announced(&mut reader, now, zone)))
        .or_else(|| {
            let mut start = TimeReader::new(text, &tokens, 0);
            start.take_word(&["in"])?;
            bounded(now.checked_add(length(&mut start, None)?).ok()?, now)
        })
}

/// Keeps what a limit can be; one that is over ends now.
pub(crate) fn bounded(instant: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let ahead = instant.duration_since(now);
    (-STALE <= ahead && ahead <= LONGEST).then(|| instant.max(now))
}

/// `limit reached|1763400000`, `"resets_at": 1763400000`, `resets_in_seconds: 1234`, `until
/// 2026-11-16T03:00:00Z`.
fn exact(reader: &mut TimeReader<'_>, now: Timestamp) -> Option<Timestamp> {
    if reader.take_mark(&["|"]) {
        return epoch(reader.peek()?, now);
    }
    let opening = opening(reader)?;
    let here = reader.peek().filter(|token| token.kind == TokenKind::Number)?;
    let run = reader.run(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '+' | '-'));
    if let Ok(instant) = run.trim_end_matches(['.', ':', '-']).parse::<Timestamp>() {
        return bounded(instant, now);
    }
    if let Some(instant) = epoch(here, now) {
        return Some(instant);
    }
    let unit = opening.unit.filter(|_| opening.is_field)?;
    bounded(now.checked_add(length(reader, Some(unit))?).ok()?, now)
}

/// Seconds or milliseconds since 1970.
fn epoch(token: &TimeToken<'_>, now: Timestamp) -> Option<Timestamp> {
    let number: i64 = token.text.parse().ok()?;
    let instant = match token.text.len() {
        10 => Timestamp::from_second(number),
        13 => Timestamp::from_millisecond(number),
        _ => return None,
    };
    bounded(instant.ok()?, now)
}

/// `resets 8:25pm (UTC)`, `try again in 2 hours 15 minutes`, `Please retry in 14h23m5s`.
fn announced(reader: &mut TimeReader<'_>, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let opening = opening(reader)?;
    if opening.takes_length
        && let Some(length) = length(&mut reader.clone(), opening.unit)
    {
        return bounded(now.checked_add(length).ok()?, now);
    }
    if !opening.takes_moment {
        return None;
    }
    let run = reader.run(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-'));
    if run.len() >= 16
        && let Ok(local) = run.trim_end_matches(['.', ':', '-']).parse::<DateTime>()
    {
        return Moment::on(local.date(), local.time()).instant(now, zone);
    }
    moment::read(reader).ok().flatten()?.instant(now, zone)
}

/// The words before a time, and what they let one expect.
#[derive(Clone, Copy, Debug)]
struct TimeOpening {
    /// `in`: a length of time follows.
    takes_length: bool,
    /// `at`: a time of day or a date follows.
    takes_moment: bool,
    /// The unit of a bare number, in milliseconds.
    unit: Option<u64>,
    /// Whether it is the name of a field rather than prose.
    is_field: bool,
}

/// How an end is announced.
const OPENINGS: [&[&str]; 9] = [
    &["try", "again"],
    &["available", "again"],
    &["resets"],
    &["reset"],
    &["resetting"],
    &["renews"],
    &["retry"],
    &["wait"],
    &["until"],
];

/// Reads the words before a time; nothing, unless they announce one.
fn opening(reader: &mut TimeReader<'_>) -> Option<TimeOpening> {
    let words = OPENINGS.into_iter().find(|words| {
        let mut ahead = *reader;
        words.iter().all(|word| ahead.take_word(&[word]).is_some())
    })?;
    for _ in words {
        reader.skip();
    }
    let mut opening = TimeOpening {
        takes_length: words != ["until"],
        takes_moment: words != ["wait"],
        unit: None,
        is_field: false,
    };
    // Longer than any announcement, so that a long text is not read again and again.
    for _ in 0..10 {
        let Some(token) = reader.peek() else { break };
        match (token.kind, token.text.to_ascii_lowercase().as_str()) {
            (TokenKind::Mark, ":" | "=") => opening.is_field = true,
            (TokenKind::Mark, "\"" | "'" | "`" | "\\" | "~" | "≈") => {}
            (TokenKind::Word, "at" | "on" | "by") => opening.takes_length = false,
            (TokenKind::Word, "in" | "for" | "delay") => opening.takes_moment = false,
            // The header of HTTP has seconds.
            (TokenKind::Word, "after") if words == ["retry"] => opening.unit = Some(1000),
            (TokenKind::Word, "seconds" | "secs" | "sec") => opening.unit = Some(1000),
            (TokenKind::Word, "ms" | "millis" | "milliseconds") => opening.unit = Some(1),
            (
                TokenKind::Word,
                "after" | "is" | "time" | "the" | "next" | "this" | "about" | "around" | "approximately"
                | "requests" | "tokens" | "timestamp" | "date" | "unix" | "epoch" | "again" | "until",
            ) => {}
            _ => break,
        }
        reader.skip();
    }
    Some(opening)
}

/// `3600s`, `14h23m5s`, `2 hours 15 minutes`, `5 days and 3 hours`; a bare number only where its unit is
/// known.
fn length(reader: &mut TimeReader<'_>, unit_of_bare: Option<u64>) -> Option<SignedDuration> {
    let mut total = 0.0_f64;
    let mut parts = 0;
    loop {
        let mut ahead = *reader;
        if parts > 0 {
            ahead.take_mark(&[","]);
            ahead.take_word(&["and"]);
        }
        let Some(number) = ahead.take_number().and_then(|number| number.parse::<f64>().ok()) else { break };
        let unit = ahead.word().as_deref().and_then(unit);
        let Some(millis) = unit.or(unit_of_bare.filter(|_| parts == 0)) else { break };
        if unit.is_some() {
            ahead.skip();
        } else if ahead.peek().is_some_and(|next| match next.kind {
            TokenKind::Word => !ahead.gap().contains('\n'),
            TokenKind::Mark => matches!(next.text, ":" | "-") && ahead.gap().is_empty(),
            TokenKind::Number => false,
        }) {
            // `5 attempts`, `3:00` and `2026-11-16` begin with a number too.
            break;
        }
        total += number * millis as f64;
        parts += 1;
        *reader = ahead;
        if unit.is_none() {
            break;
        }
    }
    let is_sane = parts > 0 && total.is_finite() && total < LONGEST.as_millis() as f64 * 2.0;
    is_sane.then(|| SignedDuration::from_millis(total.round() as i64))
}

/// A unit of time in milliseconds.
fn unit(word: &str) -> Option<u64> {
    Some(match word {
        "ms" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        "w" | "week" | "weeks" => 604_800_000,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "reset_tests.rs"]
mod tests;
