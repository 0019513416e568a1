//! Lengths of time as people write and read them. Whole milliseconds: nothing here is finer than a process.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{SpanRelativeTo, fmt::friendly::SpanParser};
use serde::{Deserialize, Serialize};

/// Reads what people write. ISO 8601 (`PT5M`) is not read: that is not how people write a duration.
static READER: SpanParser = SpanParser::new();
/// Ten years. More is a typing error, and sums of such durations cannot overflow.
const LONGEST: Millis = Millis::from_secs(10 * 365 * 86_400);

/// A length of time in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }
    pub const fn from_mins(mins: u64) -> Self {
        Self::from_secs(mins * 60)
    }
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The sum, or the longest there is.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// The difference, or nothing.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// As the standard library has it.
    pub const fn std(self) -> Duration {
        Duration::from_millis(self.0)
    }
    /// For people: one or two units (`740ms`, `12s`, `5m 23s`, `3h 2m`, `4d 1h`).
    pub fn human(self) -> String {
        let secs = self.0 / 1000;
        match secs {
            0 => format!("{}ms", self.0),
            1..=9 => format!("{}.{}s", secs, self.0 % 1000 / 100),
            10..=59 => format!("{secs}s"),
            60..=3599 => format!("{}m {}s", secs / 60, secs % 60),
            3600..=86_399 => format!("{}h {}m", secs / 3600, secs % 3600 / 60),
            _ => format!("{}d {}h", secs / 86_400, secs % 86_400 / 3600),
        }
    }
    /// For a clock that ticks: whole seconds, so that it changes once a second (`0s`, `5m 23s`, `3h 2m`).
    pub fn human_seconds(self) -> String {
        match self.0 / 1000 {
            secs @ 0..=59 => format!("{secs}s"),
            _ => self.human(),
        }
    }
    /// How long ago, in the largest unit alone (`5m`, `2h`).
    pub fn coarse(self) -> String {
        let secs = self.0 / 1000;
        match secs {
            0..=59 => format!("{secs}s"),
            60..=3599 => format!("{}m", secs / 60),
            3600..=86_399 => format!("{}h", secs / 3600),
            _ => format!("{}d", secs / 86_400),
        }
    }
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Every unit down to seconds, as the restart preset's messages have it: `5m0s`, `1h0m0s`, `1.5s`, `250ms`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, millis) = (self.0 / 1000, self.0 % 1000);
        if secs == 0 {
            return if millis == 0 { f.write_str("0s") } else { write!(f, "{millis}ms") };
        }
        if secs >= 3600 {
            write!(f, "{}h", secs / 3600)?;
        }
        if secs >= 60 {
            write!(f, "{}m", secs % 3600 / 60)?;
        }
        write!(f, "{}", secs % 60)?;
        if millis != 0 {
            write!(f, "{}", format!(".{millis:03}").trim_end_matches('0'))?;
        }
        f.write_str("s")
    }
}

/// Text that is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration; write for example 500ms, 90s, 5m, 1h30m")]
pub struct InvalidDuration(pub String);

impl FromStr for Millis {
    type Err = InvalidDuration;

    /// Numbers with units (`ms`, `s`, `m`, `h`, `d`), the largest first; a bare `0` too. The units may be spelled out.
    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        let invalid = || InvalidDuration(text.chars().take(40).collect());
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self(0));
        }
        let span = READER.parse_span(trimmed).map_err(|_| invalid())?;
        // A day is always 24 hours here, also when clocks change to summer time. Months and years have no length by themselves.
        let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| invalid())?;
        let rounded = length.round(jiff::Unit::Millisecond).map_err(|_| invalid())?;
        match u64::try_from(rounded.as_millis()) {
            Ok(millis) if Self(millis) <= LONGEST => Ok(Self(millis)),
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("0", 0),
            ("0s", 0),
            ("1s", 1000),
            ("1.5s", 1500),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2d", 172_800_000),
            ("1.5h", 5_400_000),
            ("5 minutes", 300_000),
            ("1 hour 30 min", 5_400_000),
            ("0.4ms", 0),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Millis(millis)), "{text}");
        }
        for bad in ["", " ", "5", "-1s", "s", "1x", "1s2", "1e9s", "99999999d", "..s", "１s"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad:?}");
        }
        // A month has no length by itself, ISO 8601 is for machines, and units out of order are a slip.
        for bad in ["1mo", "1y", "PT5M", "30m1h", "5m ago", "3650d1s"] {
            assert!(bad.parse::<Millis>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn durations_are_shown_in_three_ways() {
        for (millis, display, human, coarse) in [
            (0, "0s", "0ms", "0s"),
            (250, "250ms", "250ms", "0s"),
            (1500, "1.5s", "1.5s", "1s"),
            (300_000, "5m0s", "5m 0s", "5m"),
            (323_000, "5m23s", "5m 23s", "5m"),
            (3_600_000, "1h0m0s", "1h 0m", "1h"),
            (90_000_000, "25h0m0s", "1d 1h", "1d"),
        ] {
            let d = Millis(millis);
            assert_eq!(
                (d.to_string().as_str(), d.human().as_str(), d.coarse().as_str()),
                (display, human, coarse)
            );
        }
    }
}
