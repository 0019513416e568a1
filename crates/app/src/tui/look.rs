//! How the board looks: signs, lines and colours, each with a form for terminals that have none of them. Nothing is said by
//! colour alone.

use dacapo_core::{
    text::{
        amount::{dollars, tokens},
        columns::{columns, fitting},
    },
    view::{Card, Urgency},
};
use jiff::{Timestamp, tz::TimeZone};
use ratatui::{
    style::{Color, Modifier, Style},
    symbols::border,
};

const ASCII: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};
/// The frame of what the cursor is on.
const ASCII_CHOSEN: border::Set<'static> = border::Set {
    top_left: "#",
    top_right: "#",
    bottom_left: "#",
    bottom_right: "#",
    vertical_left: "#",
    vertical_right: "#",
    horizontal_top: "=",
    horizontal_bottom: "=",
};

/// What a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// What is at work.
    Busy,
    Good,
    Bad,
    /// What a person should look at.
    Alert,
    Quiet,
    Title,
}

/// The look of this terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) is_ascii: bool,
    pub(crate) is_coloured: bool,
}

impl Theme {
    /// What the environment allows: ASCII where the locale is not UTF-8, no colours with `NO_COLOR`.
    pub(crate) fn of(is_ascii: bool, variable: impl Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| variable(name).filter(|v| !v.is_empty()));
        let is_utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        let is_coloured = variable("NO_COLOR").is_none_or(|value| value.is_empty())
            && variable("TERM").is_none_or(|term| term != "dumb");
        Self { is_ascii: is_ascii || !is_utf8, is_coloured }
    }

    pub(crate) fn frame(&self, is_chosen: bool) -> border::Set<'static> {
        match (self.is_ascii, is_chosen) {
            (true, true) => ASCII_CHOSEN,
            (true, false) => ASCII,
            (false, true) => border::DOUBLE,
            (false, false) => border::ROUNDED,
        }
    }

    pub(crate) fn rule(&self) -> &'static str {
        if self.is_ascii { "-" } else { "─" }
    }

    pub(crate) fn dot(&self) -> &'static str {
        if self.is_ascii { "-" } else { "·" }
    }

    pub(crate) fn more(&self) -> &'static str {
        if self.is_ascii { "..." } else { "…" }
    }

    pub(crate) fn arrow(&self) -> &'static str {
        if self.is_ascii { "->" } else { "→" }
    }

    pub(crate) fn cursor(&self) -> &'static str {
        if self.is_ascii { ">" } else { "▶" }
    }

    pub(crate) fn style(&self, tone: Tone) -> Style {
        let style = Style::default();
        let coloured = |colour| if self.is_coloured { style.fg(colour) } else { style };
        match tone {
            Tone::Plain => style,
            Tone::Busy => coloured(Color::Cyan),
            Tone::Good => coloured(Color::Green),
            Tone::Bad => coloured(Color::Red),
            Tone::Alert => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Quiet => style.add_modifier(Modifier::DIM),
            Tone::Title => style.add_modifier(Modifier::BOLD),
        }
    }

    /// The sign of a state; the words beside it say the same.
    pub(crate) fn sign(&self, state: &str) -> &'static str {
        match (state, self.is_ascii) {
            ("running" | "stopping" | "working", false) => "🔄",
            ("running" | "stopping" | "working", true) => "*",
            ("gating" | "checking", false) => "🔍",
            ("gating" | "checking", true) => "%",
            ("merging", false) => "🔀",
            ("merging", true) => "&",
            ("parked", false) => "💤",
            ("parked", true) => "z",
            ("paused", false) => "✋",
            ("paused", true) => "=",
            ("waiting" | "held" | "retrying", false) => "⏳",
            ("waiting" | "held" | "retrying", true) => ":",
            ("asking", false) => "❓",
            ("asking", true) => "?",
            ("interrupted" | "stopped", false) => "⚡",
            ("interrupted" | "stopped", true) => "~",
            ("completed" | "passed" | "merged" | "accepted", false) => "✅",
            ("completed" | "passed" | "merged" | "accepted", true) => "+",
            ("failed" | "refused" | "rejected", false) => "❌",
            ("failed" | "refused" | "rejected", true) => "x",
            ("cancelled" | "skipped", false) => "🚫",
            ("cancelled" | "skipped", true) => "/",
            ("blocked", false) => "⛔",
            ("blocked", true) => "!",
            (_, false) => "⬜",
            (_, true) => "o",
        }
    }

    /// The sign of a card: what it needs comes before how it stands.
    pub(crate) fn sign_of(&self, card: &Card) -> &'static str {
        match card.need {
            Some(Urgency::Question | Urgency::Approval) => self.sign("asking"),
            Some(Urgency::SignIn) => {
                if self.is_ascii {
                    "!"
                } else {
                    "🔑"
                }
            }
            _ => self.sign(&card.state),
        }
    }

    pub(crate) fn tone_of(card: &Card) -> Tone {
        match (card.need, card.state.as_str()) {
            (Some(Urgency::Question | Urgency::Approval | Urgency::Refused | Urgency::SignIn), _) => {
                Tone::Alert
            }
            (Some(Urgency::Failed), _) | (_, "failed" | "blocked") => Tone::Bad,
            (_, "interrupted" | "stopped") => Tone::Alert,
            (_, "running" | "gating" | "merging" | "stopping") => Tone::Busy,
            (_, "completed") => Tone::Good,
            (_, "cancelled" | "todo" | "queued" | "parked" | "paused" | "waiting") => Tone::Quiet,
            _ => Tone::Plain,
        }
    }
}

/// `text` in at most so many columns; what does not fit is told by a sign.
pub(crate) fn cut(text: &str, room: usize, look: &Theme) -> String {
    let text = plain(text, look);
    if columns(&text) <= room {
        return text;
    }
    let more = look.more();
    let kept = fitting(&text, room.saturating_sub(columns(more)));
    if room < columns(more) { String::new() } else { format!("{}{more}", kept.trim_end()) }
}

/// Text for this terminal: letters that it does not have become question marks.
pub(crate) fn plain(text: &str, look: &Theme) -> String {
    if !look.is_ascii || text.is_ascii() {
        return text.to_owned();
    }
    let letter = |c: char| match c {
        c if c.is_ascii() => c.to_string(),
        '·' => "-".to_owned(),
        '…' => "...".to_owned(),
        '–' | '—' => "-".to_owned(),
        '‘' | '’' => "'".to_owned(),
        '“' | '”' => "\"".to_owned(),
        '→' => "->".to_owned(),
        _ => "?".to_owned(),
    };
    text.chars().map(letter).collect()
}

/// What something cost, or how many tokens it took where that is not known; an estimate begins with `~`.
pub(crate) fn money(cost: Option<f64>, spent: Option<u64>, is_estimate: bool) -> Option<String> {
    match cost {
        Some(cost) if cost >= 0.000_05 => {
            Some(format!("{}{}", if is_estimate { "~" } else { "" }, dollars(cost)))
        }
        _ => spent.filter(|spent| *spent > 0).map(|spent| format!("{} tok", tokens(spent))),
    }
}

/// A time of day where the reader is.
pub(crate) fn clock(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_what_it_can_show() {
        for (is_typed, set, is_ascii, is_coloured) in [
            (false, vec![("LANG", "en_US.UTF-8")], false, true),
            (false, vec![("LANG", "de_DE.utf8"), ("NO_COLOR", "")], false, true),
            (false, vec![("LANG", "C.UTF-8"), ("NO_COLOR", "1")], false, false),
            (false, vec![("LC_ALL", "C"), ("LANG", "en_US.UTF-8")], true, true),
            (false, vec![("LC_ALL", ""), ("LANG", "en_US.UTF-8")], false, true),
            (true, vec![("LANG", "en_US.UTF-8")], true, true),
            (false, vec![], true, true),
            (false, vec![("LANG", "C.UTF-8"), ("TERM", "dumb")], false, false),
        ] {
            let variable =
                |name: &str| set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(Theme::of(is_typed, variable), Theme { is_ascii, is_coloured }, "{set:?}");
        }
    }

    #[test]
    fn text_is_cut_by_columns_and_a_sign_says_so() {
        let look = Theme { is_ascii: false, is_coloured: true };
        let ascii = Theme { is_ascii: true, ..look };
        for (text, room, look, shown) in [
            ("short", 10, look, "short"),
            ("exactly", 7, look, "exactly"),
            ("too long for it", 8, look, "too lon…"),
            ("税込み価格", 5, look, "税込…"),
            ("x", 0, look, ""),
            ("too long for it", 8, ascii, "too l..."),
            ("grün · 税", 20, ascii, "gr?n - ?"),
        ] {
            assert_eq!(cut(text, room, &look), shown, "{text} in {room}");
        }
    }

    #[test]
    fn an_amount_is_that_of_the_pages_and_of_tokens_where_no_price_is_known() {
        for (cost, spent, is_estimate, words) in [
            (Some(2.1), Some(9), false, Some("$2.10")),
            (Some(0.0292), None, true, Some("~$0.03")),
            (Some(0.0), Some(12_345), false, Some("12k tok")),
            (None, Some(940), false, Some("940 tok")),
            (None, None, false, None),
        ] {
            assert_eq!(money(cost, spent, is_estimate).as_deref(), words);
        }
    }
}
