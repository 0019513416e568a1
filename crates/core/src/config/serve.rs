//! `serve`: the chat services that `dacapo serve` talks to. The user's own: a token says who sends.

use super::{At, ConfigSection};
use crate::{duration::Millis, notify::WebhookUrl, workflow::told::TellMode};

pub(super) const KEYS: [&str; 5] = ["route", "webhook", "slack", "telegram", "discord"];
pub(super) const WEBHOOK_KEYS: [&str; 5] = ["secret_env", "secret_file", "url", "window", "mode"];
pub(super) const SERVICE_KEYS: [&str; 7] =
    ["token_env", "token_file", "users", "channels", "mode", "api", "every"];

/// How old a signed message may be.
const WINDOW: Millis = Millis::from_secs(300);
/// How often a service is asked for news.
const EVERY: Millis = Millis::from_secs(3);

/// Where a secret is found. It never stands in the file itself, which is shown and copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFrom {
    Variable(String),
    /// `~/` is the user's home.
    File(String),
}

/// What a file says about the chat services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServeSection {
    /// Whether an agent is asked which workflow a free message means.
    pub route: Option<At<bool>>,
    pub webhook: Option<WebhookService>,
    pub slack: Option<ChatService>,
    pub telegram: Option<ChatService>,
    pub discord: Option<ChatService>,
}

/// Signed messages from a program, and signed answers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookService {
    pub secret: SecretFrom,
    pub url: WebhookUrl,
    pub window: Millis,
    pub mode: TellMode,
}

/// A service with users and channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatService {
    pub token: SecretFrom,
    /// Who may say something, by the ids of the service. Messages of other users are ignored.
    pub users: Vec<String>,
    /// Where it listens; where it is empty, in every chat with one of the users.
    pub channels: Vec<String>,
    pub mode: TellMode,
    /// Where the service is, without a slash at its end.
    pub api: String,
    pub every: Millis,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> ServeSection {
    if !top.is_users() {
        return ServeSection::default();
    }
    let Some(mut section) = top.section("serve", &KEYS) else { return ServeSection::default() };
    let route = section.flag("route");
    let webhook = webhook(&mut section);
    let slack = service(&mut section, "slack", "https://slack.com/api", true);
    let telegram = service(&mut section, "telegram", "https://api.telegram.org", false);
    let discord = service(&mut section, "discord", "https://discord.com/api/v10", true);
    ServeSection { route, webhook, slack, telegram, discord }
}

fn webhook(serve: &mut ConfigSection<'_>) -> Option<WebhookService> {
    let place = serve.place("webhook")?;
    let mut section = serve.section("webhook", &WEBHOOK_KEYS)?;
    let secret = secret(&mut section, place, "secret");
    let at = section.place("url");
    let url = section.text("url").and_then(|url| match WebhookUrl::parse(&url.value) {
        Ok(url) => Some(url),
        Err(why) => {
            // The address itself may hold a secret, so it is not repeated.
            section.wrong(at.unwrap_or(place), format!("`serve.webhook.url` is no address: {why}"));
            None
        }
    });
    if at.is_none() {
        section.wrong(place, "`serve.webhook` needs `url`, where answers are sent to");
    }
    let window = section.duration("window").map_or(WINDOW, |window| window.value);
    let mode = mode(&mut section);
    Some(WebhookService { secret: secret?, url: url?, window, mode })
}

fn service(
    serve: &mut ConfigSection<'_>,
    name: &str,
    api: &str,
    needs_channels: bool,
) -> Option<ChatService> {
    let place = serve.place(name)?;
    let mut section = serve.section(name, &SERVICE_KEYS)?;
    let token = secret(&mut section, place, "token");
    let users = section.words("users").map(|words| words.value).unwrap_or_default();
    if users.is_empty() {
        let what = "needs `users`, a list of the ids that may start agents on this machine";
        section.wrong(place, format!("`serve.{name}` {what}"));
    }
    let channels = section.words("channels").map(|words| words.value).unwrap_or_default();
    if channels.is_empty() && needs_channels {
        section.wrong(
            place,
            format!("`serve.{name}` needs `channels`, a list of the ids of those to listen to"),
        );
    }
    let mode = mode(&mut section);
    let every = section.duration("every").map_or(EVERY, |every| every.value);
    let at = section.place("api");
    let api = section.text("api").map_or(api.to_owned(), |api| api.value);
    let api = api.trim_end_matches('/').to_owned();
    let is_fine = WebhookUrl::parse(&api).is_ok() && (api.starts_with("https://") || is_loopback(&api));
    if let (false, Some(at)) = (is_fine, at) {
        let what = "must begin with `https://`, because the token goes there; `http://` only to this machine";
        section.wrong(at, format!("`serve.{name}.api` {what}"));
    }
    let has_channels = !needs_channels || !channels.is_empty();
    let is_whole = !users.is_empty() && has_channels && is_fine;
    let token = token?;
    is_whole.then_some(ChatService { token, users, channels, mode, api, every })
}

fn is_loopback(url: &str) -> bool {
    let host = url.strip_prefix("http://").and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
    let host = host.strip_prefix('[').map_or_else(
        || host.split(':').next().unwrap_or_default(),
        |rest| rest.split(']').next().unwrap_or_default(),
    );
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn mode(section: &mut ConfigSection<'_>) -> TellMode {
    let words = [("stream", TellMode::Stream), ("batch", TellMode::Batch)];
    section.choice("mode", &words).map_or(TellMode::Batch, |mode| mode.value)
}

/// The secret that `NAME_env` or `NAME_file` names.
fn secret(section: &mut ConfigSection<'_>, place: crate::yaml::TextPlace, name: &str) -> Option<SecretFrom> {
    let (by_name, by_file) = (format!("{name}_env"), format!("{name}_file"));
    let at = section.place(&by_name);
    let variable = section.text(&by_name).map(|text| text.value);
    let file = section.text(&by_file).map(|text| text.value);
    match (variable, file) {
        (Some(variable), None) => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if variable.chars().all(is_name) && !variable.starts_with(|c: char| c.is_ascii_digit()) {
                return Some(SecretFrom::Variable(variable));
            }
            // What stands there may be the secret itself, so it is not repeated.
            let what = format!("`{}` must be the name of an environment variable", section.path(&by_name));
            section.wrong(at.unwrap_or(place), what);
            None
        }
        (None, Some(file)) => Some(SecretFrom::File(file)),
        (Some(_), Some(_)) => {
            let what = format!("give `{}` or `{}`, not both", section.path(&by_name), section.path(&by_file));
            section.wrong(place, what);
            None
        }
        (None, None) => {
            let what = format!("`{}` or `{}` is missing", section.path(&by_name), section.path(&by_file));
            section.wrong(place, what);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Author, parse};

    #[test]
    fn services_are_read_with_their_defaults() {
        let text = "serve:\n  route: false\n  telegram: {token_env: TG, users: [42]}\n  slack:\n    token_file: ~/slack\n    \
                    users: [U1]\n    channels: [C1, C2]\n    mode: stream\n    every: 10s\n    api: http://127.0.0.1:9/api/\n  \
                    webhook: {secret_env: HOOK, url: 'https://example.org/x', window: 1m}\n";
        let serve = parse("f", text.as_bytes(), Author::User).unwrap().serve;
        assert_eq!(serve.route.map(|route| route.value), Some(false));
        let telegram = serve.telegram.unwrap();
        assert_eq!(
            (telegram.token, telegram.users),
            (SecretFrom::Variable("TG".into()), vec!["42".to_owned()])
        );
        assert_eq!((telegram.api.as_str(), telegram.mode), ("https://api.telegram.org", TellMode::Batch));
        let slack = serve.slack.unwrap();
        assert_eq!((slack.api.as_str(), slack.mode), ("http://127.0.0.1:9/api", TellMode::Stream));
        assert_eq!((slack.token, slack.every), (SecretFrom::File("~/slack".into()), Millis::from_secs(10)));
        assert_eq!(serve.webhook.unwrap().window, Millis::from_secs(60));
        assert_eq!(serve.discord, None);
    }

    #[test]
    fn what_would_let_strangers_in_or_a_token_out_is_refused() {
        for (text, message) in [
            ("serve: {telegram: {token_env: TG}}\n", "needs `users`"),
            ("serve: {slack: {token_env: S, users: [U]}}\n", "needs `channels`"),
            (
                "serve: {discord: {users: [1], channels: [2]}}\n",
                "`serve.discord.token_env` or `serve.discord.token_file` is missing",
            ),
            (
                "serve: {telegram: {token_env: 'xoxb-1-2', users: [1]}}\n",
                "must be the name of an environment variable",
            ),
            ("serve: {telegram: {token_env: A, token_file: b, users: [1]}}\n", "not both"),
            (
                "serve: {telegram: {token_env: A, users: [1], api: 'http://example.org'}}\n",
                "must begin with `https://`",
            ),
            (
                "serve: {telegram: {token_env: A, users: [1], api: 'http://127.0.0.1.evil.org'}}\n",
                "must begin with `https://`",
            ),
            ("serve: {webhook: {secret_env: A}}\n", "needs `url`"),
            ("serve: {telegram: {token: abc, users: [1]}}\n", "unknown key `token`"),
            ("serve: {sms: {}}\n", "unknown key `sms`"),
        ] {
            let problems = parse("f", text.as_bytes(), Author::User).unwrap_err().to_string();
            assert!(problems.contains(message), "{text}: {problems}");
            assert!(!problems.lines().next().unwrap_or_default().contains("xoxb"), "{problems}");
        }
        let problems = parse("f", b"serve: {route: true}\n", Author::Repository).unwrap_err().to_string();
        assert!(problems.contains("`serve` is the user's to say"), "{problems}");
    }
}
