//! Every recording, and what is made of it.

use std::fmt::Write;

use dacapo_core::limits::Metered;
use dacapo_testkit::recordings::recordings;
use jiff::{Timestamp, tz::TimeZone};

use super::{Kept, format, judge, listen, messages, used};

/// What is made of all recordings, one after the other.
fn table() -> String {
    let now: Timestamp = "2026-11-15T18:20:00Z".parse().unwrap();
    let mut table = String::new();
    for recording in recordings() {
        let (kept, told) = listen(format(&recording), [&recording.stdout[..]]);
        let judged = judge(&recording, &told);
        let Metered { usage, cost_usd, is_estimate } = used(format(&recording), &recording.stdout);
        let count = |is: fn(&Kept) -> bool| kept.iter().filter(|kept| is(kept)).count();
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let _ = writeln!(table, "{}: {:?}", recording.name, judged.outcome);
        if !judged.detail.is_empty() {
            let _ = writeln!(table, "  detail: {}", judged.detail);
        }
        if let Some(reset) = judged.reset.instant(now, &TimeZone::UTC) {
            let _ = writeln!(table, "  reset: {reset}");
        }
        if judged.is_session_lost {
            table.push_str("  session lost\n");
        }
        let _ = writeln!(
            table,
            "  session: {}, model: {}",
            or_none(told.session.as_deref()),
            or_none(told.model.as_deref())
        );
        let _ = writeln!(
            table,
            "  input {}, output {}, cache {}/{}, reasoning {}, cost {}{}",
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.reasoning,
            cost_usd.map_or("-".to_owned(), |cost| format!("{cost:.5}")),
            if is_estimate { ", estimated" } else { "" }
        );
        let _ = writeln!(
            table,
            "  messages {}, tools {}, retries {}, final {}, unfinished {}",
            messages(&kept).len(),
            count(|kept| matches!(kept, Kept::Tool(..))),
            count(|kept| matches!(kept, Kept::Retry(_))),
            count(|kept| *kept == Kept::Final),
            told.unfinished,
        );
        if let Some(last) = messages(&kept).last() {
            let _ = writeln!(table, "  last: {last}");
        }
        for warning in &told.warnings {
            let _ = writeln!(table, "  warning: {}", warning.chars().take(90).collect::<String>());
        }
    }
    table
}

#[test]
fn every_recording_is_understood() {
    // req 20, req 151, req 152, req 192, req 206, fault C6, fault C7, fault C8, fault C9, fault C10, fault C13, fault E7
    let (found, expected) = (table(), include_str!("expected.txt"));
    if found != expected {
        let file = std::env::temp_dir().join("dacapo-recordings.txt");
        std::fs::write(&file, &found).unwrap();
        let first = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
        panic!(
            "expected.txt differs from line {:?} on; what was found is in {}",
            first.map(|n| n + 1),
            file.display()
        );
    }
}
