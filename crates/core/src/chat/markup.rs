//! Text as a service shows it: nothing that an agent or a file said becomes markup, a mention or a link of its own.

use crate::text::{ansi::readable, visible::is_deceptive};

use super::LONGEST_INCOMING;

/// Where a text is shown, for what its markup means there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// No markup: the text is data.
    Plain,
    Slack,
    Telegram,
    Discord,
}

impl Service {
    /// The longest message that the service takes, in UTF-16 units, with room for what is escaped.
    pub fn longest(self) -> usize {
        match self {
            Self::Plain => 60_000,
            // 40,000, but it cuts what is longer than 4,000 into messages of its own.
            Self::Slack => 3_500,
            // 4,096
            Self::Telegram => 4_000,
            // 2,000
            Self::Discord => 1_900,
        }
    }
}

/// The bold words at the beginning of a text, in UTF-16 units, as Telegram counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bold {
    pub length: usize,
}

/// How many messages one text becomes at most; the rest of a longer one is left out.
const MOST_PIECES: usize = 6;

/// A message from a chat, without what a terminal or a reader could be deceived by.
pub fn incoming(text: &str) -> String {
    let text = readable(text.replace("\r\n", "\n").as_bytes());
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_deceptive(*c)).take(LONGEST_INCOMING).collect()
}

/// A text that goes out, without control characters and characters that turn text around, and with mentions that reach
/// nobody: behind the `@` of a word stands an invisible space.
pub fn neutral(text: &str) -> String {
    let text = readable(text.as_bytes());
    let mut shown = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_deceptive(*c)).peekable();
    while let Some(c) = rest.next() {
        shown.push(c);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        // Not in an address of mail.
        if c == '@' && !before.is_alphanumeric() && rest.peek().is_some_and(|next| is_word(*next)) {
            shown.push('\u{200b}');
        }
        before = c;
    }
    shown
}

/// The text in the form that the service takes. `is_ours` says that the words between `**` at its beginning are dacapo's own, and
/// bold.
pub fn outgoing(service: Service, text: &str, is_ours: bool) -> (String, Option<Bold>) {
    let text = neutral(text);
    let bold = text.strip_prefix("**").filter(|_| is_ours).and_then(|rest| rest.split_once("**"));
    let bold = bold.filter(|(word, _)| !word.contains('\n'));
    match (service, bold) {
        (Service::Plain, _) => (text, None),
        (Service::Slack, Some((word, rest))) => (format!("*{}*{}", slack(word), slack(rest)), None),
        (Service::Slack, None) => (slack(&text), None),
        (Service::Telegram, Some((word, rest))) => {
            let bold = Bold { length: word.encode_utf16().count() };
            (format!("{word}{rest}"), Some(bold))
        }
        (Service::Telegram, None) => (text, None),
        (Service::Discord, Some((word, rest))) => (format!("**{}**{}", discord(word), discord(rest)), None),
        (Service::Discord, None) => (discord(&text), None),
    }
}

/// Slack gives meaning to three characters; mentions, channels and links need `<`.
fn slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Discord reads Markdown and has no way to switch it off.
fn discord(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut is_line_start = true;
    for c in text.chars() {
        let is_list_mark = is_line_start && matches!(c, '#' | '>' | '-' | '+');
        if matches!(c, '\\' | '*' | '_' | '~' | '`' | '|' | '[' | ']' | '<') || is_list_mark {
            shown.push('\\');
        }
        shown.push(c);
        is_line_start = c == '\n' || (is_line_start && c == ' ');
    }
    shown
}

/// A text as messages that are not longer than `longest` UTF-16 units, cut at the ends of lines where there are any.
fn pieces(text: &str, longest: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        if pieces.len() + 1 == MOST_PIECES && units(rest) > longest {
            let left = rest.chars().count();
            pieces.push(format!("… ({left} more characters are left out; `dacapo logs` has them)"));
            break;
        }
        let end = end_of_piece(rest, longest);
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece.trim_end().to_owned());
        rest = behind.trim_start_matches('\n');
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A text as messages that the service takes, also when what it gives meaning to is escaped in them.
pub fn pieces_for(service: Service, text: &str, is_ours: bool) -> Vec<String> {
    let mut longest = service.longest();
    loop {
        let pieces = pieces(text, longest);
        let is_fine =
            pieces.iter().all(|piece| units(&outgoing(service, piece, is_ours).0) <= service.longest());
        if is_fine || longest < 100 {
            return pieces;
        }
        longest = longest * 2 / 3;
    }
}

fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

fn end_of_piece(text: &str, longest: usize) -> usize {
    let (mut used, mut end) = (0, text.len());
    for (at, c) in text.char_indices() {
        used += c.len_utf16();
        if used > longest {
            end = at;
            break;
        }
    }
    if end == text.len() {
        return end;
    }
    // A line that is longer than half a message is cut where it is.
    let line = text[..end].rfind('\n').filter(|at| *at > end / 2);
    let word = text[..end].rfind(' ').filter(|at| *at > end / 2);
    line.or(word).map_or(end, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_becomes_markup_or_a_mention() {
        // fault D8, fault K11
        for (service, text, is_ours, expected) in [
            (
                Service::Slack,
                "**Question**: a < b & <!channel>",
                true,
                "*Question*: a &lt; b &amp; &lt;!channel&gt;",
            ),
            (
                Service::Slack,
                "<@U123> <https://evil|ok>",
                false,
                "&lt;@\u{200b}U123&gt; &lt;https://evil|ok&gt;",
            ),
            (
                Service::Discord,
                "**Not done**: [x](http://evil) `y`",
                true,
                "**Not done**: \\[x\\](http://evil) \\`y\\`",
            ),
            (
                Service::Discord,
                "@everyone **loud** <@1>",
                false,
                "@\u{200b}everyone \\*\\*loud\\*\\* \\<@\u{200b}1>",
            ),
            (
                Service::Discord,
                "# big\n> quote\n  - list\na - b",
                false,
                "\\# big\n\\> quote\n  \\- list\na - b",
            ),
            (Service::Telegram, "**Iteration 1/3**", true, "Iteration 1/3"),
            (Service::Telegram, "**a** [x](tg://user?id=1)", false, "**a** [x](tg://user?id=1)"),
            (Service::Plain, "**Paused**", true, "**Paused**"),
            (Service::Plain, "\u{1b}[31mred\u{1b}[0m \u{202e}back\u{7}", false, "red back"),
            (Service::Plain, "mail a@b.c, not @here", false, "mail a@b.c, not @\u{200b}here"),
            (Service::Plain, "bell\u{9b}31m\u{200b}", false, "bell31m"),
        ] {
            assert_eq!(outgoing(service, text, is_ours).0, expected, "{service:?} {text:?}");
        }
        assert_eq!(
            outgoing(Service::Telegram, "**Ünï 🔄**: x", true),
            ("Ünï 🔄: x".into(), Some(Bold { length: 6 }))
        );
        assert_eq!(outgoing(Service::Telegram, "**two\nlines** x", true).1, None);
    }

    #[test]
    fn a_message_from_a_chat_holds_only_what_can_be_seen() {
        for (text, expected) in [
            ("ralph fix it\r\nplease", "ralph fix it\nplease"),
            ("a\0b\u{1b}[2Jc\u{202e}d", "abcd"),
            ("ta\tb", "ta\tb"),
        ] {
            assert_eq!(incoming(text), expected);
        }
        assert_eq!(incoming(&"x".repeat(LONGEST_INCOMING + 5)).len(), LONGEST_INCOMING);
    }

    #[test]
    fn a_long_text_is_cut_at_lines_and_its_end_is_counted() {
        assert_eq!(pieces("short", 10), ["short"]);
        assert_eq!(pieces("", 10), Vec::<String>::new());
        assert_eq!(pieces("aaaaaaa\nbbbbbbb\n", 10), ["aaaaaaa", "bbbbbbb"]);
        assert_eq!(pieces("aaaaaaa bbbbbbb", 10), ["aaaaaaa", "bbbbbbb"]);
        assert_eq!(pieces("🔄🔄🔄🔄🔄🔄", 10), ["🔄🔄🔄🔄🔄", "🔄"]);
        for service in [Service::Plain, Service::Slack, Service::Telegram, Service::Discord] {
            for text in ["*".repeat(5000), "&<>".repeat(3000), "a line\n".repeat(2000)] {
                let pieces = pieces_for(service, &text, false);
                let lengths = pieces.iter().map(|piece| units(&outgoing(service, piece, false).0));
                assert!(lengths.max().unwrap() <= service.longest(), "{service:?}");
            }
        }
        let long = pieces(&"x".repeat(100), 10);
        assert_eq!(long.len(), MOST_PIECES);
        assert_eq!(long[5], "… (50 more characters are left out; `dacapo logs` has them)");
    }
}
