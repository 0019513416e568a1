//! Time zones by the names that messages have for them. The database is compiled in: what a message means
//! must not depend on the machine that reads it.

use std::sync::LazyLock;

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

static BUNDLED: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Abbreviations that mean one thing only, in hours. `CST`, `IST` and `BST` do not, so they are unknown.
const ABBREVIATIONS: &[(&str, i8)] = &[
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("PST", -8),
    ("PDT", -7),
    ("MST", -7),
    ("MDT", -6),
    ("EST", -5),
    ("EDT", -4),
    ("CET", 1),
    ("CEST", 2),
    ("JST", 9),
];

/// `Europe/Brussels`, `UTC`, `PT`, `UTC+5:30`, `GMT-3`; nothing for an unknown name.
pub(super) fn named(name: &str) -> Option<TimeZone> {
    let upper = name.to_ascii_uppercase();
    if let Some((_, hours)) = ABBREVIATIONS.iter().find(|(known, _)| *known == upper) {
        return Some(TimeZone::fixed(Offset::constant(*hours)));
    }
    if let Some(offset) = upper.strip_prefix("UTC").or_else(|| upper.strip_prefix("GMT"))
        && let Some(zone) = offset_from_utc(offset.trim_start())
    {
        return Some(zone);
    }
    let name = match upper.as_str() {
        "PT" => "America/Los_Angeles",
        "ET" => "America/New_York",
        _ => name,
    };
    // Longer than any name there is, or with characters that none has: not worth a search.
    let is_plausible = (2..=40).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'_' | b'-' | b'+'));
    if is_plausible { BUNDLED.get(name).ok() } else { None }
}

/// The zone of an offset such as `+2`, `-05:00` or `+0530`.
pub(super) fn offset_from_utc(text: &str) -> Option<TimeZone> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-" | "\u{2212}", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some((hours, minutes)), _) => (hours, minutes),
        (None, 1 | 2) => (digits, "0"),
        (None, 4) => digits.split_at_checked(2)?,
        (None, _) => return None,
    };
    let is_number = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(hours) || !is_number(minutes) {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    if hours > 14 || minutes > 59 {
        return None;
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok().map(TimeZone::fixed)
}
