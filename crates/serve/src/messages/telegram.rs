//! Telegram: long polls of the Bot API. Nothing has to reach this machine.

use std::time::Duration;

use dacapo_core::{
    chat::{SendProblem, Service},
    config::ChatService,
    workflow::told::TellMode,
};
use dacapo_engine::{http::HttpRequest, store::StoredMessage};
use serde_json::{Value, json};

use super::adapter::{Adapter, NewMessages, ServiceToken, TIMEOUT, UserMessage, call, text_for};

/// How long Telegram holds a poll open while nothing is written.
const HOLD: u64 = 25;
/// All chats of a bot come in one row.
const UPDATES: &str = "updates";

pub(super) struct Telegram {
    pub(super) token: ServiceToken,
    pub(super) settings: ChatService,
}

impl Telegram {
    fn url(&self, method: &str) -> String {
        format!("{}/bot{}/{method}", self.settings.api, self.token.0)
    }

    fn updates(&self, query: &str, timeout: Duration) -> Result<Value, SendProblem> {
        let url = format!("{}?{query}&allowed_updates=%5B%22message%22%5D", self.url("getUpdates"));
        match call(&HttpRequest::new(url, timeout), &self.token) {
            // An address with a token that was never given out.
            Err(SendProblem::Refused(why)) if why.starts_with("answered 404") => {
                Err(SendProblem::SignIn(why))
            }
            // Another program polls with the same token.
            Err(SendProblem::Refused(why)) if why.starts_with("answered 409") => {
                Err(SendProblem::Server(why))
            }
            answer => answer,
        }
    }
}

impl Adapter for Telegram {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn mode(&self) -> TellMode {
        self.settings.mode
    }

    fn service(&self) -> Service {
        Service::Telegram
    }

    fn channels(&self, _: &[String]) -> Vec<String> {
        vec![UPDATES.to_owned()]
    }

    fn every(&self) -> Duration {
        // A poll waits by itself.
        Duration::from_millis(50)
    }

    fn poll(&self, _: &str, position: Option<&str>) -> Result<NewMessages, SendProblem> {
        let Some(position) = position else {
            // What was written before the first start is not meant for it.
            let value = self.updates("offset=-1&timeout=0", TIMEOUT)?;
            return Ok(NewMessages { news: Vec::new(), position: page_of(&value, "0").position });
        };
        let patience = TIMEOUT + Duration::from_secs(HOLD);
        let value = self.updates(&format!("offset={position}&timeout={HOLD}"), patience)?;
        Ok(page_of(&value, position))
    }

    fn is_allowed(&self, news: &UserMessage) -> bool {
        let ChatService { users, channels, .. } = &self.settings;
        users.contains(&news.sender) && (channels.is_empty() || channels.contains(&news.conversation))
    }

    fn send(&self, message: &StoredMessage) -> Result<(), SendProblem> {
        let (text, bold) = text_for(Service::Telegram, message);
        let mut body = json!({
            "chat_id": message.conversation.id,
            "text": text,
            "link_preview_options": {"is_disabled": true},
        });
        if let Some(bold) = bold {
            body["entities"] = json!([{"type": "bold", "offset": 0, "length": bold.length}]);
        }
        let request = HttpRequest {
            body: Some(body.to_string()),
            ..HttpRequest::new(self.url("sendMessage"), TIMEOUT)
        };
        match call(&request, &self.token) {
            // The user has blocked the bot, or removed it from the group: the token is fine.
            Err(SendProblem::SignIn(why)) if why.starts_with("answered 403") => {
                Err(SendProblem::Refused(why))
            }
            answer => answer.map(drop),
        }
    }
}

/// The messages in an answer to `getUpdates`, and the number of the next update.
fn page_of(value: &Value, position: &str) -> NewMessages {
    let mut page = NewMessages { news: Vec::new(), position: position.to_owned() };
    for update in value["result"].as_array().into_iter().flatten() {
        let Some(id) = update["update_id"].as_i64() else { continue };
        page.position = (id + 1).to_string();
        let message = &update["message"];
        let (Some(text), Some(chat), Some(sender)) =
            (message["text"].as_str(), message["chat"]["id"].as_i64(), message["from"]["id"].as_i64())
        else {
            continue;
        };
        if message["from"]["is_bot"] == true {
            continue;
        }
        page.news.push(UserMessage {
            conversation: chat.to_string(),
            external: format!("{UPDATES}/{id}"),
            sender: sender.to_string(),
            text: text.to_owned(),
        });
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_read_and_bots_and_pictures_passed_over() {
        let value = json!({"ok": true, "result": [
            {"update_id": 7, "message": {"message_id": 1, "text": "hi", "chat": {"id": -5}, "from": {"id": 42, "is_bot": false}}},
            {"update_id": 8, "message": {"message_id": 2, "text": "beep", "chat": {"id": -5}, "from": {"id": 43, "is_bot": true}}},
            {"update_id": 9, "message": {"message_id": 3, "photo": [], "chat": {"id": -5}, "from": {"id": 42}}},
        ]});
        let news = UserMessage {
            conversation: "-5".into(),
            external: "updates/7".into(),
            sender: "42".into(),
            text: "hi".into(),
        };
        assert_eq!(page_of(&value, "3"), NewMessages { news: vec![news], position: "10".into() });
        assert_eq!(page_of(&json!({"ok": true, "result": []}), "3").position, "3");
    }
}
