//! `8:25pm (UTC)`, `Nov 20, 3am`, `Mon 9am`, `15:30 Europe/Brussels`: a time as people write it.

use jiff::{
    Timestamp, ToSpan,
    civil::{Date, Time, Weekday},
    tz::{AmbiguousOffset, TimeZone},
};

use super::{
    JUST_NOW, bounded,
    tokens::{TimeReader, TokenKind},
    zones,
};

/// Something is said, and it cannot be.
pub(super) struct Unknown;

/// Which day is meant.
#[derive(Debug, PartialEq)]
enum Day {
    /// The next on which that time comes.
    Next,
    /// So many days after today.
    FromToday(i64),
    Weekday(Weekday),
    InMonth(i8, i8),
    Date(Date),
}

/// A time as it was written.
#[derive(Debug)]
pub(super) struct Moment {
    day: Day,
    /// The start of the day, if nothing was written.
    time: Time,
    zone: Option<TimeZone>,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Reads a day, a time of day or both, and a zone.
pub(super) fn read(reader: &mut TimeReader<'_>) -> Result<Option<Moment>, Unknown> {
    let mut found = day(reader)?;
    if found.is_some() {
        while reader.take_mark(&[",", "·", "@"]) || reader.take_word(&["at", "t", "from"]).is_some() {}
    }
    let time = clock(reader)?;
    if found.is_none() && time.is_none() {
        return Ok(None);
    }
    let mut place = zone(reader)?;
    if found.is_none() {
        let has_day = reader.take_word(&["on"]).is_some()
            || matches!(reader.word().as_deref(), Some("today" | "tomorrow"));
        if has_day {
            found = day(reader)?;
            place = if place.is_some() { place } else { zone(reader)? };
        }
    }
    let time = time.unwrap_or(Time::midnight());
    Ok(Some(Moment { day: found.unwrap_or(Day::Next), time, zone: place }))
}

impl Moment {
    pub(super) fn on(date: Date, time: Time) -> Self {
        Self { day: Day::Date(date), time, zone: None }
    }

    /// The instant that these words mean if they are written at `now`.
    pub(super) fn instant(&self, now: Timestamp, local: &TimeZone) -> Option<Timestamp> {
        let zone = self.zone.as_ref().unwrap_or(local);
        let on = |date: Date| resolve(date.to_datetime(self.time), zone, now);
        // Seen from a little earlier, a time that has just passed is still the next one.
        let earlier = zone.to_datetime(now.checked_sub(JUST_NOW).ok()?).date();
        let later = |days: i64| earlier.checked_add(days.days()).ok();
        let next = |date: Date| {
            on(date).filter(|instant| instant.checked_add(JUST_NOW).is_ok_and(|limit| limit > now))
        };
        let instant = match self.day {
            Day::Next => (0..=2).filter_map(later).find_map(next),
            Day::Weekday(weekday) => {
                (0..=8).filter_map(later).filter(|date| date.weekday() == weekday).find_map(next)
            }
            Day::InMonth(month, day) => (0..=1)
                .filter_map(|years| Date::new(earlier.year().checked_add(years)?, month, day).ok())
                .find_map(next),
            Day::FromToday(days) => on(zone.to_datetime(now).date().checked_add(days.days()).ok()?),
            Day::Date(date) => on(date),
        }?;
        bounded(instant, now)
    }
}

/// A local time as an instant. One that a clock skips means the moment it is skipped at; of one that comes
/// twice, the first that is still to come.
fn resolve(local: jiff::civil::DateTime, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, after } => {
            let first = before.to_timestamp(local).ok()?;
            if first >= now { Some(first) } else { after.to_timestamp(local).ok() }
        }
        AmbiguousOffset::Gap { before, after } => {
            let too_early = after.to_timestamp(local).ok()?;
            let skipped_at = zone.following(too_early).next().map(|transition| transition.timestamp());
            skipped_at.or_else(|| before.to_timestamp(local).ok())
        }
    }
}

fn day(reader: &mut TimeReader<'_>) -> Result<Option<Day>, Unknown> {
    let mut ahead = *reader;
    if let Some(word) = ahead.take_word(&["today", "tomorrow"]) {
        *reader = ahead;
        return Ok(Some(Day::FromToday(i64::from(word == "tomorrow"))));
    }
    let weekday = ahead.word().and_then(|word| {
        let is_meant =
            |name: &str| name == word || ((3..=5).contains(&word.len()) && name.starts_with(&word));
        WEEKDAYS.iter().find(|(name, _)| is_meant(name)).map(|(_, weekday)| *weekday)
    });
    if weekday.is_some() {
        ahead.skip();
        ahead.take_mark(&["."]);
        *reader = ahead;
        ahead.take_mark(&[","]);
    }
    if let Some(date) = date(&mut ahead)? {
        *reader = ahead;
        return Ok(Some(date));
    }
    Ok(weekday.map(Day::Weekday))
}

/// `Nov 21st, 2026`, `21 Nov`, `2026-11-21`.
fn date(reader: &mut TimeReader<'_>) -> Result<Option<Day>, Unknown> {
    let mut ahead = *reader;
    if let Some(year) = ahead.take_whole(4)
        && year > 1000
        && ahead.take_mark(&["-"])
    {
        let (Some(month), true, Some(day)) =
            (ahead.take_whole(2), ahead.take_mark(&["-"]), ahead.take_whole(2))
        else {
            return Err(Unknown);
        };
        *reader = ahead;
        return calendar(year, month, day).map(Some);
    }
    ahead = *reader;
    let (month, day) = if let Some(month) = month(&mut ahead) {
        let Some(day) = ahead.take_whole(2) else { return Ok(None) };
        ahead.take_word(&["st", "nd", "rd", "th"]);
        (month, day)
    } else {
        let Some(day) = ahead.take_whole(2) else { return Ok(None) };
        ahead.take_word(&["st", "nd", "rd", "th"]);
        ahead.take_word(&["of"]);
        let Some(month) = month(&mut ahead) else { return Ok(None) };
        (month, day)
    };
    *reader = ahead;
    ahead.take_mark(&[","]);
    if let Some(year) = ahead.take_whole(4)
        && year > 1000
    {
        *reader = ahead;
        return calendar(year, month, day).map(Some);
    }
    // A leap year, so that the day itself is looked at and not the year.
    calendar(2024, month, day)?;
    let (Ok(month), Ok(day)) = (i8::try_from(month), i8::try_from(day)) else { return Err(Unknown) };
    Ok(Some(Day::InMonth(month, day)))
}

fn calendar(year: i64, month: i64, day: i64) -> Result<Day, Unknown> {
    let (Ok(year), Ok(month), Ok(day)) = (i16::try_from(year), i8::try_from(month), i8::try_from(day)) else {
        return Err(Unknown);
    };
    Date::new(year, month, day).map(Day::Date).map_err(|_| Unknown)
}

fn month(reader: &mut TimeReader<'_>) -> Option<i64> {
    let word = reader.word()?;
    let is_meant = |name: &str| name == word || ((3..=4).contains(&word.len()) && name.starts_with(&word));
    let month = MONTHS.iter().position(|name| is_meant(name))?;
    reader.skip();
    reader.take_mark(&["."]);
    i64::try_from(month + 1).ok()
}

/// `8:25pm`, `3 a.m.`, `15:30`, `07:19:05`, `noon`. A bare number is no time of day.
fn clock(reader: &mut TimeReader<'_>) -> Result<Option<Time>, Unknown> {
    if let Some(word) = reader.take_word(&["noon", "midnight"]) {
        return Ok(Some(Time::constant(if word == "noon" { 12 } else { 0 }, 0, 0, 0)));
    }
    let mut ahead = *reader;
    let Some(mut hour) = ahead.take_whole(2) else { return Ok(None) };
    let (mut minute, mut second) = (0, 0);
    let has_minutes = ahead.take_mark(&[":"]);
    if has_minutes {
        let is_two_digits = ahead.peek().is_some_and(|token| token.text.len() == 2);
        minute = ahead.take_whole(2).filter(|_| is_two_digits).ok_or(Unknown)?;
        let mut further = ahead;
        if further.take_mark(&[":"])
            && let Some(number) = further.take_number()
        {
            second = number.split('.').next().and_then(|whole| whole.parse().ok()).ok_or(Unknown)?;
            ahead = further;
        }
    }
    let half = half_of_day(&mut ahead);
    if !has_minutes && half.is_none() {
        return Ok(None);
    }
    if let Some(is_afternoon) = half {
        if !(1..=12).contains(&hour) {
            return Err(Unknown);
        }
        hour = hour % 12 + if is_afternoon { 12 } else { 0 };
    }
    *reader = ahead;
    let (Ok(hour), Ok(minute), Ok(second)) = (i8::try_from(hour), i8::try_from(minute), i8::try_from(second))
    else {
        return Err(Unknown);
    };
    Time::new(hour, minute, second, 0).map(Some).map_err(|_| Unknown)
}

/// `am`, `PM`, `a.m.`: whether it is the afternoon.
fn half_of_day(reader: &mut TimeReader<'_>) -> Option<bool> {
    if let Some(word) = reader.take_word(&["am", "pm"]) {
        return Some(word == "pm");
    }
    let mut ahead = *reader;
    let letter = ahead.take_word(&["a", "p"])?;
    if !ahead.take_mark(&["."]) || ahead.take_word(&["m"]).is_none() {
        return None;
    }
    ahead.take_mark(&["."]);
    *reader = ahead;
    Some(letter == "p")
}

/// A zone, where one is written. What stands in its place and is none makes the whole unknown: a wrong zone
/// would be a wrong time.
fn zone(reader: &mut TimeReader<'_>) -> Result<Option<TimeZone>, Unknown> {
    let Some(here) = reader.peek() else { return Ok(None) };
    match here.kind {
        TokenKind::Mark if here.text == "(" => {
            let inside = reader.run(|character| character != ')');
            if inside.len() == reader.rest().len() {
                return Err(Unknown);
            }
            reader.skip_bytes(inside.len() + 1);
            let name = inside[1..].trim();
            let lower = name.to_ascii_lowercase();
            if lower.starts_with("in ") || lower.starts_with("local") || lower == "your time" {
                return Ok(None);
            }
            zones::named(name).map(Some).ok_or(Unknown)
        }
        TokenKind::Mark if matches!(here.text, "+" | "-") && stands_before_number(reader) => {
            let offset =
                reader.run(|character| character.is_ascii_digit() || matches!(character, '+' | '-' | ':'));
            reader.skip_bytes(offset.len());
            zones::offset_from_utc(offset.trim_end_matches(':')).map(Some).ok_or(Unknown)
        }
        TokenKind::Word => {
            let belongs = |character: char| {
                character.is_ascii_alphanumeric() || matches!(character, '/' | '_' | '+' | '-' | ':')
            };
            let name = reader.run(belongs).trim_end_matches(':');
            let is_shouted =
                (1..=5).contains(&here.text.len()) && here.text.bytes().all(|b| b.is_ascii_uppercase());
            let is_universal = here.text.eq_ignore_ascii_case("utc") || here.text.eq_ignore_ascii_case("gmt");
            if name.contains('/') || is_shouted || is_universal {
                let zone = zones::named(name).ok_or(Unknown)?;
                reader.skip_bytes(name.len());
                return Ok(Some(zone));
            }
            Ok(None)
        }
        TokenKind::Mark | TokenKind::Number => Ok(None),
    }
}

fn stands_before_number(reader: &TimeReader<'_>) -> bool {
    let mut ahead = *reader;
    ahead.skip();
    ahead.peek().is_some_and(|token| token.kind == TokenKind::Number) && ahead.gap().is_empty()
}
