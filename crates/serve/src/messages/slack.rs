//! Slack: messages of channels and of threads over its Web API. Nothing has to reach this machine.
//!
//! A message in a channel begins a conversation, which goes on in its thread, so that several runs in one channel are not mixed up.

use std::time::Duration;

use dacapo_core::{
    chat::{Conversation, SendProblem, Service},
    config::ChatService,
    workflow::told::TellMode,
};
use dacapo_engine::{http::HttpRequest, store::StoredMessage};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::adapter::{
    Adapter, AfterCrash, NewMessages, ServiceToken, TIMEOUT, UserMessage, call, in_query, text_for,
};

/// How many threads are looked at beside the channels.
const THREADS: usize = 10;
/// How many pages of one look are read.
const PAGES: usize = 10;

pub(super) struct Slack {
    pub(super) token: ServiceToken,
    pub(super) settings: ChatService,
}

impl Slack {
    fn call(&self, method: &str, query: &str, body: Option<Value>) -> Result<Value, SendProblem> {
        let url = match query {
            "" => format!("{}/{method}", self.settings.api),
            query => format!("{}/{method}?{query}", self.settings.api),
        };
        let headers = vec![("authorization", format!("Bearer {}", self.token.0))];
        let body = body.map(|body| body.to_string());
        let value = call(&HttpRequest { headers, body, ..HttpRequest::new(url, TIMEOUT) }, &self.token)?;
        match problem(&value) {
            Some(problem) => Err(problem),
            None => Ok(value),
        }
    }

    /// All messages behind `position`, of a channel or of a thread in it.
    fn messages(&self, channel: &str, position: &str) -> Result<Vec<Value>, SendProblem> {
        let (channel, thread) = split(channel);
        let method = if thread.is_some() { "conversations.replies" } else { "conversations.history" };
        let mut query = format!("channel={}&oldest={position}&limit=100", in_query(channel));
        if let Some(thread) = thread {
            query += &format!("&ts={}&include_all_metadata=true", in_query(thread));
        }
        let (mut messages, mut cursor) = (Vec::new(), String::new());
        for _ in 0..PAGES {
            let value = self.call(method, &format!("{query}{cursor}"), None)?;
            messages.extend(value["messages"].as_array().into_iter().flatten().cloned());
            match value["response_metadata"]["next_cursor"].as_str() {
                Some(next) if !next.is_empty() => cursor = format!("&cursor={}", in_query(next)),
                _ => break,
            }
        }
        Ok(messages)
    }
}

/// A channel, and the thread in it.
fn split(channel: &str) -> (&str, Option<&str>) {
    match channel.split_once('/') {
        Some((channel, thread)) => (channel, Some(thread)),
        None => (channel, None),
    }
}

/// What Slack says in the body of an answer with status 200.
fn problem(value: &Value) -> Option<SendProblem> {
    if value["ok"] == true {
        return None;
    }
    let word = value["error"].as_str().unwrap_or("no answer in JSON").to_owned();
    Some(match word.as_str() {
        "ratelimited" | "rate_limited" => SendProblem::TooMany { wait: None },
        "invalid_auth" | "not_authed" | "token_revoked" | "token_expired" | "account_inactive"
        | "missing_scope" | "no_permission" | "org_login_required" => {
            SendProblem::SignIn(format!("answered `{word}`"))
        }
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "no answer in JSON" => SendProblem::Server(format!("answered `{word}`")),
        _ => SendProblem::Refused(format!("answered `{word}`")),
    })
}

impl Adapter for Slack {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn mode(&self) -> TellMode {
        self.settings.mode
    }

    fn service(&self) -> Service {
        Service::Slack
    }

    fn channels(&self, recent: &[String]) -> Vec<String> {
        let is_ours = |thread: &&String| {
            let (channel, thread) = split(thread);
            thread.is_some() && self.settings.channels.iter().any(|known| known == channel)
        };
        let threads = recent.iter().filter(is_ours).take(THREADS);
        self.settings.channels.iter().chain(threads).cloned().collect()
    }

    fn every(&self) -> Duration {
        self.settings.every.std()
    }

    fn poll(&self, channel: &str, position: Option<&str>) -> Result<NewMessages, SendProblem> {
        let (_, thread) = split(channel);
        let position = match (position, thread) {
            (Some(position), _) => position.to_owned(),
            (None, Some(thread)) => thread.to_owned(),
            // What was written before the first start is not meant for it.
            (None, None) => {
                let now = Timestamp::now();
                let position = format!("{}.{:06}", now.as_second(), now.subsec_microsecond());
                return Ok(NewMessages { news: Vec::new(), position });
            }
        };
        let messages = self.messages(channel, &position)?;
        Ok(page_of(&messages, channel, &position))
    }

    fn is_allowed(&self, news: &UserMessage) -> bool {
        self.settings.users.contains(&news.sender)
    }

    fn send(&self, message: &StoredMessage) -> Result<(), SendProblem> {
        let (channel, thread) = split(&message.conversation.id);
        let mut body = json!({
            "channel": channel,
            "text": text_for(Service::Slack, message).0,
            "mrkdwn": message.is_ours,
            "parse": "none",
            "link_names": false,
            "unfurl_links": false,
            "unfurl_media": false,
            "metadata": {"event_type": "dacapo_message", "event_payload": {"id": name_of(message)}},
        });
        if let Some(thread) = thread {
            body["thread_ts"] = thread.into();
        }
        self.call("chat.postMessage", "", Some(body)).map(drop)
    }

    fn after_crash(&self, message: &StoredMessage) -> Result<AfterCrash, SendProblem> {
        let Conversation { id, .. } = &message.conversation;
        let (_, Some(thread)) = split(id) else { return Ok(AfterCrash::Unknown) };
        let name = name_of(message);
        let is_there = |found: &Value| found["metadata"]["event_payload"]["id"] == name.as_str();
        let is_there = self.messages(id, thread)?.iter().any(is_there);
        Ok(if is_there { AfterCrash::Arrived } else { AfterCrash::SendAgain })
    }
}

/// What the message is known by in Slack.
fn name_of(message: &StoredMessage) -> String {
    format!("{:x}-{:x}", message.at.as_microsecond(), message.id)
}

/// A time stamp of Slack as two numbers, which can be compared.
fn moment(ts: &str) -> (u64, u64) {
    let (seconds, rest) = ts.split_once('.').unwrap_or((ts, "0"));
    (seconds.parse().unwrap_or(0), rest.parse().unwrap_or(0))
}

/// The messages of users, oldest first, and the newest time stamp.
fn page_of(messages: &[Value], channel: &str, position: &str) -> NewMessages {
    let (name, thread) = split(channel);
    let mut messages: Vec<&Value> = messages.iter().collect();
    messages.sort_by_key(|message| moment(message["ts"].as_str().unwrap_or_default()));
    let mut page = NewMessages { news: Vec::new(), position: position.to_owned() };
    for message in messages {
        let Some(ts) = message["ts"].as_str().filter(|ts| moment(ts) > moment(position)) else { continue };
        page.position = ts.to_owned();
        let (Some(text), Some(sender)) = (message["text"].as_str(), message["user"].as_str()) else {
            continue;
        };
        let is_said = message["subtype"].is_null() && message["bot_id"].is_null() && !text.trim().is_empty();
        // What was answered in a thread is read there.
        let is_of_thread = message["thread_ts"].as_str().is_some_and(|thread| thread != ts);
        if !is_said || (is_of_thread && thread.is_none()) {
            continue;
        }
        page.news.push(UserMessage {
            conversation: format!("{name}/{}", thread.unwrap_or(ts)),
            external: format!("{name}/{ts}"),
            sender: sender.to_owned(),
            text: plain(text),
        });
    }
    page
}

/// What the user typed: without the name of the bot at the beginning, links as they were, and Slack's three characters.
fn plain(text: &str) -> String {
    let text = text.trim_start();
    let text = match text.strip_prefix("<@").and_then(|rest| rest.split_once('>')) {
        Some((_, rest)) => rest.trim_start(),
        None => text,
    };
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('<') {
        shown.push_str(before);
        let Some((inside, after)) = behind.split_once('>') else {
            shown.push('<');
            rest = behind;
            continue;
        };
        let (target, label) =
            inside.split_once('|').map_or((inside, None), |(target, label)| (target, Some(label)));
        shown.push_str(match (target.chars().next(), label) {
            (Some('@' | '#' | '!'), Some(label)) => label,
            _ => target,
        });
        rest = after;
    }
    shown.push_str(rest);
    shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_a_thread_and_bots_are_passed_over() {
        let messages = [
            json!({"ts": "20.000002", "user": "U1", "text": "two"}),
            json!({"ts": "20.000001", "user": "U1", "text": "<@UBOT> one"}),
            json!({"ts": "21.000001", "user": "UBOT", "bot_id": "B", "text": "beep"}),
            json!({"ts": "21.5", "user": "U1", "subtype": "channel_join", "text": "joined"}),
            json!({"ts": "22.000001", "thread_ts": "20.000001", "user": "U1", "text": "in a thread"}),
            json!({"ts": "9.000001", "user": "U1", "text": "old"}),
        ];
        let page = page_of(&messages, "C1", "10.000000");
        let said: Vec<(&str, &str)> =
            page.news.iter().map(|news| (news.conversation.as_str(), news.text.as_str())).collect();
        assert_eq!(said, [("C1/20.000001", "one"), ("C1/20.000002", "two")]);
        assert_eq!(page.position, "22.000001");
        let page = page_of(&messages, "C1/20.000001", "20.000002");
        assert_eq!(page.news.len(), 1);
        assert_eq!(
            (page.news[0].conversation.as_str(), page.news[0].text.as_str()),
            ("C1/20.000001", "in a thread")
        );
    }

    #[test]
    fn what_slack_made_of_a_text_is_undone() {
        for (text, expected) in [
            ("a &lt;b&gt; &amp;amp;", "a <b> &amp;"),
            ("see <https://example.org/x|example> now", "see https://example.org/x now"),
            ("ask <@U2|ann> in <#C1|general> <!here>", "ask ann in general !here"),
            ("<@UBOT> ralph go", "ralph go"),
            ("a < b", "a < b"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn errors_of_slack_are_told_apart() {
        for (word, expected) in [
            ("invalid_auth", SendProblem::SignIn("answered `invalid_auth`".into())),
            ("ratelimited", SendProblem::TooMany { wait: None }),
            ("internal_error", SendProblem::Server("answered `internal_error`".into())),
            ("channel_not_found", SendProblem::Refused("answered `channel_not_found`".into())),
        ] {
            assert_eq!(problem(&json!({"ok": false, "error": word})), Some(expected));
        }
        assert_eq!(problem(&json!({"ok": true})), None);
    }
}
