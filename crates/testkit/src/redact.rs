//! Replaces what differs from run to run, for snapshots.

/// What only the environment knows.
pub(crate) struct Known {
    /// Texts and what to write for them; a text that begins with another comes first.
    pub(crate) names: Vec<(String, &'static str)>,
    /// The ids of loops that are known to exist.
    pub(crate) loops: Vec<String>,
}

/// `[LOOP]` for loop ids, `[TIME]`, `[DURATION]`, `[PID]`, `[MS]`, `[HASH]`, `[PROJECT]`, and the known names.
///
/// An id that is not among the known ones is recognised by its ten letters and digits of one case, at least one of each.
/// A word is not.
pub(crate) fn redact(text: &str, known: &Known) -> String {
    let mut text = without_tier(text);
    for (name, replacement) in &known.names {
        text = text.replace(name, replacement);
    }
    for id in &known.loops {
        text = text.replace(id, "[LOOP]");
    }
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let word_begins = !redacted.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        match recognise(rest, &redacted).filter(|_| word_begins) {
            Some((length, replacement)) => {
                redacted.push_str(replacement);
                rest = &rest[length..];
            }
            None => {
                redacted.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    redacted
}

/// What a sandbox holds depends on the system that the tests run on: its tier is masked, and what it leaves open is left out.
fn without_tier(text: &str) -> String {
    let is_of_system = |line: &&str| {
        let line = line.trim_start();
        !["left open: ", "open        ", "guarded   "].iter().any(|start| line.starts_with(start))
    };
    let mut text: String = text.split_inclusive('\n').filter(is_of_system).collect();
    for tier in ["namespaces", "landlock"] {
        text = text.replace(&format!("({tier})"), "([TIER])");
    }
    text.replace("no sandbox: this system allows no `guard`", "guard ([TIER])")
}

fn recognise(text: &str, before: &str) -> Option<(usize, &'static str)> {
    let digits = leading(text, |b| b.is_ascii_digit());
    let label = before.trim_end_matches([' ', ':', '=', '"']);
    if text.strip_prefix("workspace-").is_some_and(|id| leading(id, |b| b.is_ascii_alphanumeric()) == 6) {
        // The project of the environment's workspace: its folder's name and a part of its path's hash.
        Some((16, "[PROJECT]"))
    } else if let Some(length) = time(text) {
        Some((length, "[TIME]"))
    } else if let Some(length) = duration(text) {
        Some((length, "[DURATION]"))
    } else if digits > 0 && label.len() < before.len() && label.ends_with("pid") {
        Some((digits, "[PID]"))
    } else if digits > 0 && label.len() < before.len() && label.ends_with("_ms") {
        Some((digits, "[MS]"))
    } else {
        let word = &text[..leading(text, |b| b.is_ascii_alphanumeric() || b == b'_')];
        let any = |wanted: fn(&u8) -> bool| word.bytes().any(|b| wanted(&b));
        let all_hex = word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let mixed = any(u8::is_ascii_lowercase) && any(u8::is_ascii_uppercase);
        match word.len() {
            40 | 64 if all_hex => Some((word.len(), "[HASH]")),
            10 if any(u8::is_ascii_digit)
                && any(u8::is_ascii_alphabetic)
                && !mixed
                && !word.contains('_') =>
            {
                Some((10, "[LOOP]"))
            }
            _ => None,
        }
    }
}

fn leading(text: &str, wanted: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| wanted(*b)).count()
}

/// Whether `text` begins with `shape`, in which `d` stands for a digit.
fn begins(text: &str, shape: &str) -> bool {
    let mut bytes = text.bytes();
    shape.bytes().all(|s| bytes.next().is_some_and(|b| if s == b'd' { b.is_ascii_digit() } else { b == s }))
}

/// The length of a date with a time, or of a time alone.
fn time(text: &str) -> Option<usize> {
    let mut length = if begins(text, "dddd-dd-ddTdd:dd:dd") || begins(text, "dddd-dd-dd dd:dd:dd") {
        19
    } else if begins(text, "dd:dd:dd") {
        8
    } else {
        return None;
    };
    if text[length..].starts_with('.') {
        length += 1 + leading(&text[length + 1..], |b| b.is_ascii_digit());
    }
    let zone = &text[length..];
    if zone.starts_with('Z') {
        length += 1;
    } else if begins(zone, "+dd:dd") || begins(zone, "-dd:dd") {
        length += 6;
    }
    Some(length)
}

/// The length of `1h 2m`, `3.4s`, `5ms` and their like.
fn duration(text: &str) -> Option<usize> {
    let mut end = None;
    let mut position = 0;
    loop {
        let digits = leading(&text[position..], |b| b.is_ascii_digit() || b == b'.');
        if digits == 0 || !text[position..].starts_with(|c: char| c.is_ascii_digit()) {
            return end;
        }
        position += digits;
        let mut units = ["ms", "µs", "us", "ns", "s", "m", "h", "d"].into_iter();
        let Some(unit) = units.find(|unit| text[position..].starts_with(unit)) else { return end };
        position += unit.len();
        if text[position..].starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return end;
        }
        // An id can begin as a duration does: `5m7cg7wse0`.
        if !text[position..].starts_with(|c: char| c.is_ascii_digit()) {
            end = Some(position);
        }
        position += usize::from(text[position..].starts_with(' '));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_replaced_and_words_are_not() {
        let known = Known {
            names: vec![("/tmp/x/workspace".to_owned(), "[WORKSPACE]"), ("/tmp/x".to_owned(), "[ROOT]")],
            loops: vec!["abcdefghij".to_owned()],
        };
        for (text, redacted) in [
            ("loop a2b3c4d5e6 done", "loop [LOOP] done"),
            ("A2B3C4D5E6/runs", "[LOOP]/runs"),
            ("loop abcdefghij done", "loop [LOOP] done"),
            ("iterations completion 1234567890", "iterations completion 1234567890"),
            ("a2b3c4d5e6f a2b3c4d5e a_b3c4d5e6", "a2b3c4d5e6f a2b3c4d5e a_b3c4d5e6"),
            ("at 2026-11-15T18:00:00Z, then", "at [TIME], then"),
            ("2026-11-15T18:00:00.123456+01:00", "[TIME]"),
            ("[18:00:00] hello", "[[TIME]] hello"),
            ("took 1.25s", "took [DURATION]"),
            ("1h 2m 3s ago, 250ms", "[DURATION] ago, [DURATION]"),
            ("started 5m ago", "started [DURATION] ago"),
            ("3 steps, 5 m, 1st, 2x", "3 steps, 5 m, 1st, 2x"),
            ("1m 5 steps", "[DURATION] 5 steps"),
            ("1m30s", "[DURATION]"),
            ("run 5m7cg7wse0 done", "run [LOOP] done"),
            ("{\"pid\":123,\"duration_ms\": 45}", "{\"pid\":[PID],\"duration_ms\": [MS]}"),
            ("pid 77", "pid [PID]"),
            ("projects/workspace-0af3c9/T-1", "projects/[PROJECT]/T-1"),
            ("workspace-wide", "workspace-wide"),
            ("in /tmp/x/workspace/a and /tmp/x/b", "in [WORKSPACE]/a and [ROOT]/b"),
            ("0123456789abcdef0123456789abcdef01234567", "[HASH]"),
            ("grün 完了 1s", "grün 完了 [DURATION]"),
        ] {
            assert_eq!(redact(text, &known), redacted);
        }
    }
}
