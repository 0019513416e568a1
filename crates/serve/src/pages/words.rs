//! Text, times and amounts as the pages show them. All text that an agent, a file or a person wrote comes by here.

pub(super) use dacapo_core::text::amount::{dollars, thousands, tokens};
use dacapo_core::{
    duration::Millis,
    event::Usage,
    text::{
        ansi::readable,
        visible::{is_deceptive, visible},
    },
};
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};

/// A name, a title or a sentence: one line in which everything is seen that would hide or turn around the rest.
pub(super) fn line(text: &str) -> String {
    let mut shown = visible(text).replace('\n', " ");
    if shown.len() > LONGEST_LINE {
        let more = shown.len() - cut(&mut shown, LONGEST_LINE);
        shown.push_str(&format!("… {more} bytes more"));
    }
    shown
}

/// What an agent printed or was told: without what a terminal would obey. Characters that turn text around are spelled out;
/// those that emoji are composed of stay.
pub(super) fn prose(bytes: &[u8]) -> String {
    let text = readable(bytes);
    if !text.chars().any(is_spelled) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_spelled(c) {
            shown.push_str(&format!("\\u{{{:x}}}", c as u32));
        } else {
            shown.push(c);
        }
    }
    shown
}

fn is_spelled(c: char) -> bool {
    is_deceptive(c) && !matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

/// No line of a page is longer: a browser takes seconds to lay out a megabyte without a break.
pub(super) const LONGEST_LINE: usize = 4000;

/// Cuts `text` to at most `room` bytes, between characters; says how many are left.
pub(super) fn cut(text: &mut String, room: usize) -> usize {
    if text.len() > room {
        text.truncate(text.floor_char_boundary(room));
    }
    text.len()
}

/// One line of output, not longer than a browser can bear.
pub(super) fn output_line(bytes: &[u8]) -> String {
    // Escape sequences are short; what is beyond this is cut anyway.
    let head = &bytes[..bytes.len().min(LONGEST_LINE * 4)];
    let mut text = prose(head);
    let shown = cut(&mut text, LONGEST_LINE);
    let more = bytes.len().saturating_sub(head.len().min(shown.max(1)));
    if bytes.len() > LONGEST_LINE && more > 0 {
        text.push_str(&format!("… {} more characters", thousands(more as u64)));
    }
    text
}

/// What something cost, and whether that is an estimate; nothing where it cannot be told.
pub(super) fn cost(amount: Option<f64>, is_estimate: bool) -> Option<String> {
    amount.map(|amount| format!("{}{}", if is_estimate { "~" } else { "" }, dollars(amount)))
}

pub(super) fn usage(usage: &Usage) -> String {
    let read = usage.input + usage.cache_read + usage.cache_write;
    format!("{} in · {} out", tokens(read), tokens(usage.output))
}

pub(super) fn between(from: Timestamp, to: Timestamp) -> Millis {
    Millis(u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0))
}

pub(super) fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// A moment, in the time zone of the machine: the time of day if it is of the day of `now`.
pub(super) fn moment(at: Timestamp, now: Timestamp) -> String {
    let zone = TimeZone::system();
    let (at, now) = (at.to_zoned(zone.clone()), now.to_zoned(zone));
    if at.date() == now.date() {
        at.strftime("%H:%M").to_string()
    } else if at.year() == now.year() {
        at.strftime("%b %-d, %H:%M").to_string()
    } else {
        at.strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// A moment in full, for a page that is read elsewhere and later.
pub(super) fn moment_in_full(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The first letter as a capital.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A sentence of dacapo: what stands between backticks is a command, a file or a claim, and is set as such.
pub(super) fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // Without its second half a backtick is no more than that.
    let is_paired = parts.len() % 2 == 1;
    html! {
        @if is_paired {
            @for (at, part) in parts.iter().enumerate() { @if at % 2 == 0 { (part) } @else { code { (part) } } }
        } @else { (text) }
    }
}

/// What people call the folder: its last part.
pub(super) fn folder_name(path: &std::path::Path) -> String {
    line(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hide_nothing_and_prose_keeps_emoji() {
        for (text, shown) in [
            ("fix\u{202e}txt.exe", "fix\\u{202e}txt.exe"),
            ("two\nlines", "two lines"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ] {
            assert_eq!(line(text), shown);
        }
        assert_eq!(
            prose("\u{1b}[31mred\u{1b}[0m ⚠\u{fe0f} a\u{202e}b\tc".as_bytes()),
            "red ⚠\u{fe0f} a\\u{202e}b\tc"
        );
        assert_eq!(prose(b"caf\xff"), "caf\u{fffd}");
    }

    #[test]
    fn what_stands_between_backticks_is_set_as_code() {
        for (text, shown) in [
            ("gate `make <x>` exited 2", "gate <code>make &lt;x&gt;</code> exited 2"),
            ("a lone ` stays", "a lone ` stays"),
            ("plain", "plain"),
        ] {
            assert_eq!(with_code(text).into_string(), shown);
        }
    }

    /// fault D8
    #[test]
    fn a_line_of_a_megabyte_is_cut() {
        let shown = output_line(&vec![b'x'; 1 << 20]);
        assert!(shown.len() < LONGEST_LINE + 60, "{}", shown.len());
        assert!(shown.ends_with("… 1,044,576 more characters"), "{}", &shown[LONGEST_LINE..]);
        assert_eq!(output_line(b"short"), "short");
        assert!(line(&"é".repeat(9000)).len() < LONGEST_LINE + 60);
    }
}
