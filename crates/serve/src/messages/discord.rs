//! Discord: messages of channels over its REST API. Nothing has to reach this machine.

use std::time::Duration;

use dacapo_core::{
    chat::{SendProblem, Service},
    config::ChatService,
    workflow::told::TellMode,
};
use dacapo_engine::{http::HttpRequest, store::StoredMessage};
use serde_json::{Value, json};

use super::adapter::{Adapter, AfterCrash, NewMessages, ServiceToken, TIMEOUT, UserMessage, call, text_for};

/// Links are shown without what they lead to.
const SUPPRESS_EMBEDS: u32 = 4;

pub(super) struct Discord {
    pub(super) token: ServiceToken,
    pub(super) settings: ChatService,
}

impl Discord {
    fn request(&self, path: &str) -> HttpRequest {
        let headers = vec![("authorization", format!("Bot {}", self.token.0))];
        HttpRequest { headers, ..HttpRequest::new(format!("{}{path}", self.settings.api), TIMEOUT) }
    }
}

impl Adapter for Discord {
    fn name(&self) -> &'static str {
        "discord"
    }

    fn mode(&self) -> TellMode {
        self.settings.mode
    }

    fn service(&self) -> Service {
        Service::Discord
    }

    fn channels(&self, _: &[String]) -> Vec<String> {
        self.settings.channels.clone()
    }

    fn every(&self) -> Duration {
        self.settings.every.std()
    }

    fn poll(&self, channel: &str, position: Option<&str>) -> Result<NewMessages, SendProblem> {
        let query = position.map_or("limit=1".to_owned(), |after| format!("limit=100&after={after}"));
        let value = call(&self.request(&format!("/channels/{channel}/messages?{query}")), &self.token)?;
        let page = page_of(&value, channel, position.unwrap_or("0"));
        // What was written before the first start is not meant for it.
        Ok(if position.is_none() { NewMessages { news: Vec::new(), ..page } } else { page })
    }

    fn is_allowed(&self, news: &UserMessage) -> bool {
        self.settings.users.contains(&news.sender)
    }

    fn send(&self, message: &StoredMessage) -> Result<(), SendProblem> {
        let body = json!({
            "content": text_for(Service::Discord, message).0,
            "allowed_mentions": {"parse": []},
            "flags": SUPPRESS_EMBEDS,
            // The same message is shown once, also if it comes twice.
            "nonce": format!("{:x}-{:x}", message.at.as_microsecond(), message.id),
            "enforce_nonce": true,
        });
        let path = format!("/channels/{}/messages", message.conversation.channel());
        call(&HttpRequest { body: Some(body.to_string()), ..self.request(&path) }, &self.token).map(drop)
    }

    fn after_crash(&self, _: &StoredMessage) -> Result<AfterCrash, SendProblem> {
        Ok(AfterCrash::SendAgain)
    }
}

/// The messages in an answer, oldest first, and the newest id.
fn page_of(value: &Value, channel: &str, position: &str) -> NewMessages {
    let number = |id: &str| id.parse::<u64>().unwrap_or(0);
    let mut messages: Vec<&Value> = value.as_array().into_iter().flatten().collect();
    messages.sort_by_key(|message| number(message["id"].as_str().unwrap_or_default()));
    let mut page = NewMessages { news: Vec::new(), position: position.to_owned() };
    for message in messages {
        let Some(id) = message["id"].as_str().filter(|id| number(id) > number(position)) else { continue };
        page.position = id.to_owned();
        let (Some(text), Some(sender)) = (message["content"].as_str(), message["author"]["id"].as_str())
        else {
            continue;
        };
        // 0 is a message, 19 an answer to one; the rest is what Discord says itself.
        let is_said = matches!(message["type"].as_u64(), None | Some(0 | 19));
        if !is_said
            || message["author"]["bot"] == true
            || message["webhook_id"].is_string()
            || text.is_empty()
        {
            continue;
        }
        page.news.push(UserMessage {
            conversation: channel.to_owned(),
            external: id.to_owned(),
            sender: sender.to_owned(),
            text: without_mention(text).to_owned(),
        });
    }
    page
}

/// A message without the name of the bot at its beginning.
fn without_mention(text: &str) -> &str {
    let text = text.trim_start();
    match text.strip_prefix("<@").and_then(|rest| rest.split_once('>')) {
        Some((name, rest)) if name.trim_start_matches(['!', '&']).bytes().all(|b| b.is_ascii_digit()) => {
            rest.trim_start()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_their_order_and_bots_are_passed_over() {
        let value = json!([
            {"id": "12", "type": 0, "content": "second", "author": {"id": "1"}},
            {"id": "9", "type": 19, "content": "<@!77> first", "author": {"id": "1"}},
            {"id": "10", "type": 0, "content": "beep", "author": {"id": "2", "bot": true}},
            {"id": "11", "type": 7, "content": "", "author": {"id": "3"}},
            {"id": "8", "type": 0, "content": "old", "author": {"id": "1"}},
        ]);
        let page = page_of(&value, "C", "8");
        let said: Vec<&str> = page.news.iter().map(|news| news.text.as_str()).collect();
        assert_eq!((said, page.position.as_str()), (vec!["first", "second"], "12"));
        assert_eq!(page_of(&json!([]), "C", "8").position, "8");
        assert_eq!(without_mention("<@everyone> x"), "<@everyone> x");
    }
}
