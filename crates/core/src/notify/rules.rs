//! What `notify` of a configuration file says: which events a person wants to hear of, by which channel, and when not.

use std::fmt;

use jiff::{Timestamp, Zoned, civil::Time};
use sha2::{Digest, Sha256};

use super::NoticeKind;

/// One entry of `notify`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyRule {
    pub on: Vec<NoticeKind>,
    pub channel: NotifyChannel,
    /// When nothing is to be sent.
    pub quiet: Option<QuietHours>,
}

impl NotifyRule {
    /// A name for what was sent by this rule, which says nothing about a secret in its URL. Two rules with the same
    /// channel share it, because they reach the same person.
    pub fn key(&self) -> String {
        let named = match &self.channel {
            NotifyChannel::Bell => "bell".to_owned(),
            NotifyChannel::Desktop => "desktop".to_owned(),
            NotifyChannel::Webhook(url) => format!("webhook {}", url.as_str()),
            NotifyChannel::Command(argv) => format!("command {}", argv.join("\0")),
        };
        Sha256::digest(named.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// How a person is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotifyChannel {
    /// The terminal rings, and its title says what happened.
    Bell,
    /// A message of the desktop.
    Desktop,
    /// JSON is sent to an address.
    Webhook(WebhookUrl),
    /// A program is started, without a shell.
    Command(Vec<String>),
}

/// What people are told about a channel: the path of a URL and the arguments of a command may hold a secret.
impl fmt::Display for NotifyChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bell => f.write_str("bell"),
            Self::Desktop => f.write_str("desktop"),
            Self::Webhook(url) => write!(f, "webhook {}", url.origin()),
            Self::Command(argv) => {
                write!(f, "command {}", argv.first().map(String::as_str).unwrap_or_default())
            }
        }
    }
}

/// An address that JSON is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookUrl(String);

impl WebhookUrl {
    /// The address, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("it has a blank or a control character in it");
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("it does not begin with `https://` or `http://`");
        };
        if !matches!(scheme.to_ascii_lowercase().as_str(), "https" | "http") {
            return Err("it does not begin with `https://` or `http://`");
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err("it has a user name in it; a `command` can send what needs one");
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((host, port)) if host.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c)) => {
                    (host, port.strip_prefix(':').or(Some(port).filter(|port| !port.is_empty())))
                }
                _ => return Err("its host is no IPv6 address"),
            },
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err("it names no host");
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
        if !host.chars().all(is_name) {
            return Err("its host is no name and no address");
        }
        if port.is_some_and(|port| {
            !port.bytes().all(|b| b.is_ascii_digit())
                || port.parse::<u16>().is_ok_and(|port| port == 0)
                || port.parse::<u16>().is_err()
        }) {
            return Err("its port is no number from 1 to 65535");
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Scheme, host and port: the part without secrets.
    pub fn origin(&self) -> &str {
        let scheme = self.0.find("://").map_or(0, |at| at + 3);
        let end = self.0[scheme..].find(['/', '?', '#']).map_or(self.0.len(), |at| scheme + at);
        &self.0[..end]
    }
}

/// A part of each day in which nothing is sent. It may go over midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietHours {
    from: Time,
    to: Time,
}

impl QuietHours {
    /// Reads `22:00-07:00`, or says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((from, to)) = text.split_once('-') else {
            return Err("it must be two times of day with a `-` between them".to_owned());
        };
        let (from, to) = (time_of_day(from)?, time_of_day(to)?);
        if from == to {
            return Err("it begins and ends at the same time".to_owned());
        }
        Ok(Self { from, to })
    }

    /// Whether it is quiet at this time of day. The last minute does not count: at 07:00 it is over.
    pub fn holds_at(&self, time: Time) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&time)
        } else {
            time >= self.from || time < self.to
        }
    }

    /// When they next end after `now`.
    pub fn end_after(&self, now: &Zoned) -> Timestamp {
        let today = now.with().time(self.to).build();
        let end = match today {
            Ok(end) if end > *now => Ok(end),
            _ => now.tomorrow().and_then(|tomorrow| tomorrow.with().time(self.to).build()),
        };
        end.map_or(Timestamp::MAX, |end| end.timestamp())
    }
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from.strftime("%H:%M"), self.to.strftime("%H:%M"))
    }
}

fn time_of_day(text: &str) -> Result<Time, String> {
    let text = text.trim();
    let number = |digits: &str| {
        let is_number = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| digits.parse::<i8>().ok()).flatten()
    };
    text.split_once(':')
        .filter(|(_, minutes)| minutes.len() == 2)
        .and_then(|(hours, minutes)| Time::new(number(hours)?, number(minutes)?, 0, 0).ok())
        .ok_or_else(|| format!("`{}` is no time of day", text.chars().take(20).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_quiet_hours_is_the_next_one_that_comes() {
        for (hours, now, end) in [
            ("22:00-07:00", "2026-11-18T23:10:00+01:00[+01:00]", "2026-11-19T06:00:00Z"),
            ("22:00-07:00", "2026-11-18T00:10:00+01:00[+01:00]", "2026-11-18T06:00:00Z"),
            ("13:00-14:30", "2026-11-18T14:29:59+00:00[UTC]", "2026-11-18T14:30:00Z"),
            ("13:00-14:30", "2026-11-18T14:30:00+00:00[UTC]", "2026-11-19T14:30:00Z"),
        ] {
            let now: Zoned = now.parse().unwrap();
            assert_eq!(
                QuietHours::parse(hours).unwrap().end_after(&now).to_string(),
                end,
                "{hours} at {now}"
            );
        }
    }

    #[test]
    fn quiet_hours_go_over_midnight_and_end_where_they_say() {
        let time = |hour, minute| Time::new(hour, minute, 0, 0).unwrap();
        for (hours, quiet, loud) in [
            ("22:00-07:00", vec![(22, 0), (23, 59), (0, 0), (6, 59)], vec![(7, 0), (12, 0), (21, 59)]),
            ("13:00-14:30", vec![(13, 0), (14, 29)], vec![(12, 59), (14, 30), (0, 0), (23, 59)]),
            ("0:00-23:59", vec![(0, 0), (23, 58)], vec![(23, 59)]),
            (" 9:05 - 10:00 ", vec![(9, 5)], vec![(9, 4), (10, 0)]),
        ] {
            let parsed = QuietHours::parse(hours).unwrap();
            assert!(quiet.iter().all(|(h, m)| parsed.holds_at(time(*h, *m))), "{hours}");
            assert!(!loud.iter().any(|(h, m)| parsed.holds_at(time(*h, *m))), "{hours}");
        }
        assert_eq!(QuietHours::parse("9:05-10:00").unwrap().to_string(), "09:05-10:00");
        for (bad, why) in [
            ("25:00-07:00", "`25:00` is no time of day"),
            ("22:00-07:60", "`07:60` is no time of day"),
            ("22-7", "`22` is no time of day"),
            ("22:0-07:00", "`22:0` is no time of day"),
            ("-1:00-07:00", "`` is no time of day"),
            ("22:00", "it must be two times of day with a `-` between them"),
            ("22:00-22:00", "it begins and ends at the same time"),
            ("２２:00-07:00", "`２２:00` is no time of day"),
            ("", "it must be two times of day with a `-` between them"),
        ] {
            assert_eq!(QuietHours::parse(bad), Err(why.to_owned()), "{bad}");
        }
    }

    #[test]
    fn an_address_is_whole_or_the_reason_is_named_and_its_path_is_never_shown() {
        for (url, origin) in [
            ("https://hooks.example.com/services/T0/secret", "https://hooks.example.com"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://example.com?token=secret", "https://example.com"),
            ("HTTP://[::1]:9/x", "HTTP://[::1]:9"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(WebhookUrl::parse(url).unwrap().origin(), origin, "{url}");
        }
        for (bad, why) in [
            ("example.com/hook", "begin with"),
            ("ftp://example.com", "begin with"),
            ("https://", "names no host"),
            ("https:///path", "names no host"),
            ("https://:80/", "names no host"),
            ("https://exa mple.com", "blank"),
            ("https://example.com/\n", "blank"),
            ("https://me:secret@example.com", "user name"),
            ("https://example.com:http", "port"),
            ("https://example.com:0", "port"),
            ("https://example.com:65536", "port"),
            ("https://example.com:", "port"),
            ("https://ex%61mple.com", "no name"),
            ("http://[::1", "IPv6"),
            ("http://[example]", "IPv6"),
            ("", "begin with"),
        ] {
            let wrong = WebhookUrl::parse(bad).unwrap_err();
            assert!(wrong.contains(why), "{bad}: {wrong}");
        }
    }
}
