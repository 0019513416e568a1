//! Messages of real command lines, and the instants they mean.

use jiff::{ToSpan, civil::Time, tz::TimeZoneDatabase};
use proptest::prelude::*;

use super::*;

/// A Sunday evening; in Brussels it is 19:00, in New York 13:00, in Kolkata 23:30.
const NOW: &str = "2026-11-15T18:00:00Z";

fn zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// What is printed, the zone of the machine, and when the limit ends; read at [`NOW`].
const MESSAGES: &[(&str, &str, &str)] = &[
    // claude
    ("You've hit your 5-hour limit · resets 8:25pm (UTC)", "UTC", "2026-11-15T20:25:00Z"),
    ("You've hit your 5-hour limit · resets 8:25pm (UTC)", "Asia/Tokyo", "2026-11-15T20:25:00Z"),
    ("You've hit your session limit · resets 3:20am (Europe/Brussels)", "UTC", "2026-11-16T02:20:00Z"),
    ("You've hit your weekly limit · resets Nov 20, 3am (America/New_York)", "UTC", "2026-11-20T08:00:00Z"),
    ("You've hit your weekly limit · resets Nov 20 at 3am (America/New_York)", "UTC", "2026-11-20T08:00:00Z"),
    ("You've hit your limit · resets 12am (Asia/Kolkata)", "UTC", "2026-11-15T18:30:00Z"),
    ("You've hit your limit · resets 12pm (Australia/Sydney)", "UTC", "2026-11-16T01:00:00Z"),
    ("You've hit your limit · resets Mon 9am", "UTC", "2026-11-16T09:00:00Z"),
    ("You've hit your limit · resets Mon 9am", "America/Los_Angeles", "2026-11-16T17:00:00Z"),
    ("You've hit your limit · resets Monday, 9:00 AM", "UTC", "2026-11-16T09:00:00Z"),
    ("You've hit your limit · resets Sun 9am", "UTC", "2026-11-22T09:00:00Z"),
    ("You've hit your limit · resets Sun 9pm", "UTC", "2026-11-15T21:00:00Z"),
    ("You've hit your Opus limit · resets at 3pm", "UTC", "2026-11-16T15:00:00Z"),
    ("5-hour limit reached ∙ resets 7pm", "UTC", "2026-11-15T19:00:00Z"),
    (
        "5-hour limit reached ∙ resets 7pm\n     /upgrade to increase your usage limit.",
        "UTC",
        "2026-11-15T19:00:00Z",
    ),
    (
        "Claude usage limit reached. Your limit will reset at 4pm (America/Santiago).",
        "UTC",
        "2026-11-15T19:00:00Z",
    ),
    (
        "Claude usage limit reached. Your limit will reset at 11:30pm (Asia/Kathmandu).",
        "UTC",
        "2026-11-16T17:45:00Z",
    ),
    ("Claude AI usage limit reached|1794769200", "UTC", "2026-11-15T19:00:00Z"),
    ("Claude AI usage limit reached|1794769200000", "UTC", "2026-11-15T19:00:00Z"),
    ("limit reached|1795201200", "Asia/Tokyo", "2026-11-20T19:00:00Z"),
    ("Weekly limit reached · resets Dec 1, 12:00am (UTC)", "UTC", "2026-12-01T00:00:00Z"),
    // codex
    (
        "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try \
         again at 7:19 PM.",
        "UTC",
        "2026-11-15T19:19:00Z",
    ),
    ("You've hit your usage limit. Try again at 7:19 PM.", "America/New_York", "2026-11-16T00:19:00Z"),
    ("You've hit your usage limit. Try again at 7:19\u{202f}PM.", "UTC", "2026-11-15T19:19:00Z"),
    ("You've hit your usage limit. Try again at 7:19 AM.", "Asia/Kolkata", "2026-11-16T01:49:00Z"),
    ("or try again at Nov 21st, 2026 7:19 PM.", "UTC", "2026-11-21T19:19:00Z"),
    ("or try again at Nov 21st, 2026 7:19 PM.", "Australia/Adelaide", "2026-11-21T08:49:00Z"),
    ("or try again at Dec 2nd, 2026 12:05 AM.", "Europe/Brussels", "2026-12-01T23:05:00Z"),
    ("You've hit your usage limit. Try again in 2 hours 15 minutes.", "UTC", "2026-11-15T20:15:00Z"),
    ("You've hit your usage limit. Try again in 5 days 3 hours.", "UTC", "2026-11-20T21:00:00Z"),
    ("Try again in 5 days, 3 hours, and 2 minutes.", "UTC", "2026-11-20T21:02:00Z"),
    ("in 5 days 3 hours", "UTC", "2026-11-20T21:00:00Z"),
    ("Try again in 1 week.", "UTC", "2026-11-22T18:00:00Z"),
    (
        "Rate limit reached for gpt-5 in organization org-x on tokens per min. Please try again in 11.054s.",
        "UTC",
        "2026-11-15T18:00:11.054Z",
    ),
    ("Please try again in 6m0s.", "UTC", "2026-11-15T18:06:00Z"),
    ("Please try again in 320ms.", "UTC", "2026-11-15T18:00:00.32Z"),
    // gemini, qwen
    ("Suggested retry after 3600s.", "UTC", "2026-11-15T19:00:00Z"),
    (
        "[API Error: This request would exceed your organization's rate limit of 50 requests per minute.\nSuggested \
         retry after 3600s.]\nPlease wait and try again later. To increase your limits, request a quota increase",
        "UTC",
        "2026-11-15T19:00:00Z",
    ),
    ("Please retry in 14h23m5s.", "UTC", "2026-11-16T08:23:05Z"),
    ("Please retry in 26.703041508s.", "UTC", "2026-11-15T18:00:26.703Z"),
    ("retry after 3600s", "UTC", "2026-11-15T19:00:00Z"),
    ("Please retry after 20 seconds.", "UTC", "2026-11-15T18:00:20Z"),
    (r#""retryDelay":"34s""#, "UTC", "2026-11-15T18:00:34Z"),
    (r#""retryDelayMs": 3600000"#, "UTC", "2026-11-15T19:00:00Z"),
    ("retryDelayMs: 3600000,", "UTC", "2026-11-15T19:00:00Z"),
    ("Your quota will reset after 21h15m14s.", "UTC", "2026-11-16T15:15:14Z"),
    // fields and headers
    ("resets_in_seconds: 1234", "UTC", "2026-11-15T18:20:34Z"),
    (
        r#"{"error": {"message": "You have reached your usage limit.", "type": "usage_limit_reached", "plan_type": "pro", "resets_at": 1794770546, "resets_in_seconds": 3600}}"#,
        "UTC",
        "2026-11-15T19:22:26Z",
    ),
    (r#"{"type":"usage_limit_reached","resets_in_seconds":5400}"#, "UTC", "2026-11-15T19:30:00Z"),
    (r#"{\"resetsAt\":1794770546,\"status\":\"rejected\"}"#, "UTC", "2026-11-15T19:22:26Z"),
    ("retry-after: 3600", "UTC", "2026-11-15T19:00:00Z"),
    ("retry-after: 3600\nserver: x", "UTC", "2026-11-15T19:00:00Z"),
    ("resets 3am -05:00", "UTC", "2026-11-16T08:00:00Z"),
    ("Retry-After: 1", "UTC", "2026-11-15T18:00:01Z"),
    ("retry_after=30", "UTC", "2026-11-15T18:00:30Z"),
    ("retryAfterMs=1500", "UTC", "2026-11-15T18:00:01.5Z"),
    ("retry-after-ms: 1500", "UTC", "2026-11-15T18:00:01.5Z"),
    ("retry-after: Mon, 16 Nov 2026 07:28:00 GMT", "Asia/Tokyo", "2026-11-16T07:28:00Z"),
    ("x-ratelimit-reset-tokens: 6m0s", "UTC", "2026-11-15T18:06:00Z"),
    ("anthropic-ratelimit-unified-reset: 1794769200", "UTC", "2026-11-15T19:00:00Z"),
    ("anthropic-ratelimit-tokens-reset: 2026-11-15T19:00:00Z", "Asia/Tokyo", "2026-11-15T19:00:00Z"),
    // instants and other clocks
    ("limited until 2026-11-16T03:00:00Z", "Asia/Tokyo", "2026-11-16T03:00:00Z"),
    ("limited until 2026-11-16T03:00:00.123+01:00.", "UTC", "2026-11-16T02:00:00.123Z"),
    ("limited until 2026-11-16T03:00:00", "Europe/Brussels", "2026-11-16T02:00:00Z"),
    ("limited until 2026-11-16 03:00", "Europe/Brussels", "2026-11-16T02:00:00Z"),
    ("limited until 2026-11-16 03:00:00 UTC", "Europe/Brussels", "2026-11-16T03:00:00Z"),
    ("resets at 2026-11-16 03:00:00+00:00", "Europe/Brussels", "2026-11-16T03:00:00Z"),
    ("resets on 2026-11-20", "Europe/Brussels", "2026-11-19T23:00:00Z"),
    ("Try again at 21:05.", "Europe/Brussels", "2026-11-15T20:05:00Z"),
    ("Try again at 07:19:30.", "Europe/Brussels", "2026-11-16T06:19:30Z"),
    ("resets at 18:30 Europe/London", "Asia/Tokyo", "2026-11-15T18:30:00Z"),
    ("resets 3:30 p.m. (Asia/Kathmandu)", "UTC", "2026-11-16T09:45:00Z"),
    ("resets at 9 a.m. PST", "UTC", "2026-11-16T17:00:00Z"),
    ("resets at midnight PT", "UTC", "2026-11-16T08:00:00Z"),
    ("resets at noon", "America/Sao_Paulo", "2026-11-16T15:00:00Z"),
    ("resets 5am UTC+5:30", "UTC", "2026-11-15T23:30:00Z"),
    ("resets 5am (GMT-3)", "UTC", "2026-11-16T08:00:00Z"),
    ("resets tomorrow at 8am", "Pacific/Auckland", "2026-11-16T19:00:00Z"),
    ("resets 8am tomorrow", "Pacific/Auckland", "2026-11-16T19:00:00Z"),
    ("try again at 3am on Friday", "UTC", "2026-11-20T03:00:00Z"),
    ("try again at 3am on 21 Nov", "UTC", "2026-11-21T03:00:00Z"),
    ("resets Fri, Nov 20, 2026 at 3:00 AM (Pacific/Chatham)", "UTC", "2026-11-19T13:15:00Z"),
    ("resets Friday", "Europe/Brussels", "2026-11-19T23:00:00Z"),
    ("available again at 21:00 (local time)", "Europe/Brussels", "2026-11-15T20:00:00Z"),
    ("resets at 9pm (in 3 hours)", "UTC", "2026-11-15T21:00:00Z"),
    ("Please wait 30 seconds before you try once more.", "UTC", "2026-11-15T18:00:30Z"),
    // A little late is now, and what is over is over.
    ("resets 5:55pm (UTC)", "UTC", "2026-11-15T18:00:00Z"),
    ("resets 5:50pm (UTC)", "UTC", "2026-11-16T17:50:00Z"),
    ("resets Sun 5:55pm", "UTC", "2026-11-15T18:00:00Z"),
    ("resets Nov 15, 5:55pm", "UTC", "2026-11-15T18:00:00Z"),
    ("resets 6pm (UTC)", "UTC", "2026-11-15T18:00:00Z"),
    ("limit reached|1794760000", "UTC", "2026-11-15T18:00:00Z"),
    ("until 2026-11-15T03:00:00Z", "UTC", "2026-11-15T18:00:00Z"),
    ("retry after 0s", "UTC", "2026-11-15T18:00:00Z"),
    // The first that can be read counts; what programs write goes before what people read.
    ("resets soon. Try again at 7:19 PM, or retry after 60s", "UTC", "2026-11-15T19:19:00Z"),
    ("Try again at 7:19 PM. {\"resets_at\": 1794770546}", "UTC", "2026-11-15T19:22:26Z"),
];

/// Texts that do not say when, or say what cannot be.
const UNKNOWN: &[&str] = &[
    "",
    "You've hit your limit.",
    "You've hit your limit · resets soon",
    "This is a server-side issue, usually temporary — try again in a moment.",
    "Please wait and try again later.",
    "You have exhausted your daily quota on this model.",
    "rate limit of 50 requests per minute",
    "resets 8:25pm (Mars/Olympus)",
    "resets 8:25pm (Europe/Nowhere)",
    "resets 8:25pm (",
    "resets 8:25pm ()",
    "resets 8:25pm IST",
    "resets 25:00",
    "resets 13pm",
    "resets 0am (UTC)",
    "resets 8:61pm",
    "resets 8:5pm",
    "resets 3",
    "resets at 3",
    "try again at 7",
    "try again in 30",
    "try again at 3h",
    "resets Feb 30, 3am",
    "resets Nov 31, 3am",
    "resets 2026-13-01 03:00",
    "resets 2026-11-99",
    "resets 11/20",
    "resets 20.11.2026",
    "resets Nov 1, 3am (UTC)",
    "resets Jan 20, 3am (UTC)",
    "try again at Nov 21st, 2025 7:19 PM",
    "try again at Nov 21st, 2027 7:19 PM",
    "limit reached|0",
    "limit reached|1763400000",
    "limit reached|1894769200",
    "limit reached|99999999999999999999999999",
    "resets_at: 1",
    "resets_in_seconds: 99999999999",
    "resets_in_seconds: -5",
    "retry after 36d",
    "retry after 1e9s",
    "retry after 5 attempts",
    "retry after 9999999999999999999999999999999999999999s",
    "until 2030-01-01T00:00:00Z",
    "until 2026-11-14T03:00:00Z",
    "until 2026-11-31T03:00:00Z",
    "in a moment",
    "retried 5 times in 3 seconds",
    "resets 3pm UTC+25",
    "resets 3pm +99:00",
];

// fault E1: the end of a limit is read from the agent's message about it; if the message does not tell, it is unknown.
#[test]
fn the_end_of_a_limit_is_read_from_its_message() {
    assert!(MESSAGES.len() >= 60, "{}", MESSAGES.len());
    for (text, machine, expected) in MESSAGES {
        assert_eq!(reset_at(text, at(NOW), &zone(machine)), Some(at(expected)), "{text} in {machine}");
    }
    for text in UNKNOWN {
        assert_eq!(reset_at(text, at(NOW), &TimeZone::UTC), None, "{text}");
    }
}

/// Half-hour and quarter-hour ones, both hemispheres, one that never changes its clock.
const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Brussels",
    "Europe/London",
    "America/New_York",
    "America/Los_Angeles",
    "America/St_Johns",
    "America/Santiago",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Pacific/Auckland",
];

/// The minutes in which a clock shows `time`, or skips it, by looking at it without any knowledge of gaps and
/// folds.
fn minutes_that_show(time: Time, shown: &[DateTime]) -> Vec<i64> {
    let is_it = |before: DateTime, here: DateTime| {
        if here.hour() == before.hour() && here.minute() == before.minute() + 1 {
            return here.time() == time;
        }
        let wanted = here.date().to_datetime(time);
        let is_skipped = before < wanted && wanted < here;
        here.time() == time || is_skipped
    };
    (1..).zip(shown.windows(2)).filter(|(_, pair)| is_it(pair[0], pair[1])).map(|(at, _)| at).collect()
}

// fault E1, F10: every clock change from 2024 to 2030, read shortly before, between and after.
#[test]
fn a_time_of_day_is_right_around_every_change_of_the_clock() {
    let times = [
        ("12:05am", 0, 5),
        ("00:30", 0, 30),
        ("1:30am", 1, 30),
        ("02:00", 2, 0),
        ("2:15 AM", 2, 15),
        ("3am", 3, 0),
    ];
    let mut judged = 0;
    for name in ZONES {
        let zone = zone(name);
        let changes: Vec<Timestamp> = zone
            .following(at("2024-01-01T00:00:00Z"))
            .map(|change| change.timestamp())
            .take_while(|change| *change < at("2030-01-01T00:00:00Z"))
            .collect();
        let is_stable = name == "UTC" || name.starts_with("Asia/");
        assert_eq!(changes.is_empty(), is_stable, "{name}: {changes:?}");
        let edges =
            if is_stable { vec![at("2026-03-29T01:00:00Z"), at("2027-12-31T23:30:00Z")] } else { changes };
        for edge in edges {
            let from = edge - 1600.minutes();
            let shown: Vec<DateTime> =
                (0..3400).map(|more| zone.to_datetime(from + more.minutes())).collect();
            for (text, hour, minute) in times {
                let hits = minutes_that_show(Time::constant(hour, minute, 0, 0), &shown);
                for minutes in [-1500, -125, -61, -31, -5, 0, 4, 29, 60, 95] {
                    let now = edge + minutes.minutes();
                    let start = 1600 + minutes;
                    let comes_again = |hit: i64| hits.iter().any(|other| (1..=180).contains(&(other - hit)));
                    let is_next = |hit: &&i64| **hit >= start || (**hit > start - 10 && !comes_again(**hit));
                    let expected = (from + hits.iter().find(is_next).unwrap().minutes()).max(now);
                    let message = format!("You've hit your limit · resets {text} ({name})");
                    assert_eq!(reset_at(&message, now, &TimeZone::UTC), Some(expected), "{message} at {now}");
                    let message = format!("Usage limit. Try again at {text}.");
                    assert_eq!(
                        reset_at(&message, now, &zone),
                        Some(expected),
                        "{message} at {now} in {name}"
                    );
                    judged += 2;
                }
            }
        }
    }
    assert!(judged > 12_000, "{judged}");
}

#[test]
fn gaps_and_folds_by_hand() {
    for (text, now, expected) in [
        // Brussels skips 02:00 to 03:00 on 28 March 2027: the moment after.
        ("resets 2:30am (Europe/Brussels)", "2027-03-27T20:00:00Z", "2027-03-28T01:00:00Z"),
        ("resets Mar 28, 2:30am (Europe/Brussels)", "2027-03-20T20:00:00Z", "2027-03-28T01:00:00Z"),
        ("resets Sun 2:30am (Europe/Brussels)", "2027-03-24T20:00:00Z", "2027-03-28T01:00:00Z"),
        // New York skips 02:00 to 03:00 on 14 March 2027.
        ("resets 2:30am (America/New_York)", "2027-03-14T05:00:00Z", "2027-03-14T07:00:00Z"),
        // Lord Howe skips half an hour, 02:00 to 02:30, on 4 October 2026.
        ("resets 2:10am (Australia/Lord_Howe)", "2026-10-03T10:00:00Z", "2026-10-03T15:30:00Z"),
        // Brussels has 02:00 to 03:00 twice on 25 October 2026.
        ("resets 2:30am (Europe/Brussels)", "2026-10-24T20:00:00Z", "2026-10-25T00:30:00Z"),
        ("resets 2:30am (Europe/Brussels)", "2026-10-25T00:31:00Z", "2026-10-25T01:30:00Z"),
        ("resets 2:30am (Europe/Brussels)", "2026-10-25T01:35:00Z", "2026-10-25T01:35:00Z"),
        ("resets 2:30am (Europe/Brussels)", "2026-10-25T01:45:00Z", "2026-10-26T01:30:00Z"),
        (
            "try again at Oct 25th, 2026 2:30 AM (Europe/Brussels)",
            "2026-10-25T00:40:00Z",
            "2026-10-25T01:30:00Z",
        ),
        // Auckland has 02:00 to 03:00 twice on 4 April 2027, the end of its summer.
        ("resets 2:30am (Pacific/Auckland)", "2027-04-03T10:00:00Z", "2027-04-03T13:30:00Z"),
        ("resets 2:30am (Pacific/Auckland)", "2027-04-03T13:45:00Z", "2027-04-03T14:30:00Z"),
        // Over the end of a year and of a leap February.
        ("resets Jan 2, 3am (UTC)", "2026-12-30T00:00:00Z", "2027-01-02T03:00:00Z"),
        ("resets Feb 29, 3am (UTC)", "2028-02-20T00:00:00Z", "2028-02-29T03:00:00Z"),
        ("resets 11:58pm (UTC)", "2026-12-31T23:59:00Z", "2026-12-31T23:59:00Z"),
        ("resets 11:58pm (UTC)", "2027-01-01T00:03:00Z", "2027-01-01T00:03:00Z"),
    ] {
        assert_eq!(reset_at(text, at(now), &TimeZone::UTC), Some(at(expected)), "{text} at {now}");
    }
    assert_eq!(reset_at("resets Feb 29, 3am", at("2026-02-20T00:00:00Z"), &TimeZone::UTC), None);
}

#[test]
fn a_long_text_is_read_once_and_in_time() {
    let text = "resets at ".repeat(200_000);
    assert_eq!(reset_at(&text, at(NOW), &TimeZone::UTC), None);
    assert_eq!(reset_at(&"é".repeat(100_000), at(NOW), &TimeZone::UTC), None);
}

proptest! {
    // Pieces of real messages in any order come nearer to the edges than arbitrary characters do.
    #[test]
    fn any_text_at_any_time_has_an_answer_within_bounds(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "resets", "reset", "at", "in", "on", "try again", "retry", "after", "until", "wait", "3", "8:25", "25",
                "pm", "am", "a.m.", "(", ")", "UTC", "Europe/Brussels", "Mars/X", "Nov", "Feb", "30", "31st", "2026",
                ",", ":", "|", "-", "+", "1794769200", "99999999999", "1.5", "h", "days", "s", "Mon", "tomorrow", "·",
                "é", "\u{202f}", "\n", "2026-11-16T03:00:00Z", "00", "_", "\"",
            ]),
            0..14,
        ),
        glue in prop::sample::select(vec!["", " "]),
        second in -377_705_023_201_i64..=253_402_207_200,
        zone_at in 0..ZONES.len(),
    ) {
        let now = Timestamp::from_second(second).unwrap();
        if let Some(instant) = reset_at(&words.join(glue), now, &zone(ZONES[zone_at])) {
            prop_assert!(instant >= now && instant.duration_since(now) <= LONGEST);
        }
    }

    #[test]
    fn any_characters_have_an_answer(text in ".{0,200}", second in -377_705_023_201_i64..=253_402_207_200) {
        let now = Timestamp::from_second(second).unwrap();
        let _ = reset_at(&text, now, &TimeZone::UTC);
        let _ = reset_at(&format!("resets {text}"), now, &TimeZone::UTC);
    }
}
