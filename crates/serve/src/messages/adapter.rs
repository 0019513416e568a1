//! What every chat service can do: say what was written there, and take what is to be written.

use std::time::Duration;

use dacapo_core::{
    chat::{SendProblem, Service, outgoing},
    workflow::told::TellMode,
};
use dacapo_engine::{
    http::{self, HttpAnswer, HttpRequest},
    store::StoredMessage,
};
use serde_json::Value;

/// How long a service may take to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);

/// A message that a user of the service wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserMessage {
    /// Where an answer goes: a channel, or `channel/thread`.
    pub(super) conversation: String,
    /// Its name at the service.
    pub(super) external: String,
    pub(super) sender: String,
    pub(super) text: String,
}

/// What was written in a channel since the last look, and where the next look begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NewMessages {
    pub(super) news: Vec<UserMessage>,
    pub(super) position: String,
}

/// What is known of a message that was being sent when the server was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterCrash {
    Arrived,
    /// It did not arrive, or the service shows it only once.
    SendAgain,
    Unknown,
}

/// A chat service. All calls block; each adapter has threads of its own.
pub(super) trait Adapter: Send + Sync {
    /// The word in configuration files and in the name of a conversation.
    fn name(&self) -> &'static str;

    fn mode(&self) -> TellMode;

    fn service(&self) -> Service;

    /// The channels to read, with the conversations that were active of late. An adapter that is called instead has none.
    fn channels(&self, recent: &[String]) -> Vec<String> {
        let _ = recent;
        Vec::new()
    }

    /// How long to wait between two looks.
    fn every(&self) -> Duration {
        Duration::MAX
    }

    /// What was written in a channel behind `position`; without one, nothing but the position to begin at.
    fn poll(&self, channel: &str, position: Option<&str>) -> Result<NewMessages, SendProblem> {
        let _ = (channel, position);
        Ok(NewMessages::default())
    }

    /// Whether the user has allowed this person to speak there.
    fn is_allowed(&self, news: &UserMessage) -> bool;

    fn send(&self, message: &StoredMessage) -> Result<(), SendProblem>;

    fn after_crash(&self, message: &StoredMessage) -> Result<AfterCrash, SendProblem> {
        let _ = message;
        Ok(AfterCrash::Unknown)
    }
}

/// A secret of a service. It is never shown.
pub(super) struct ServiceToken(pub(super) String);

impl ServiceToken {
    /// A text that may hold the secret, without it.
    pub(super) fn hide(&self, text: &str) -> String {
        text.replace(&self.0, "[token]")
    }
}

/// The text of a message as the service takes it.
pub(super) fn text_for(
    service: Service,
    message: &StoredMessage,
) -> (String, Option<dacapo_core::chat::Bold>) {
    outgoing(service, &message.text, message.is_ours)
}

/// Calls a service. An answer that is no success is a problem; `token` is kept out of its words.
pub(super) fn call(request: &HttpRequest, token: &ServiceToken) -> Result<Value, SendProblem> {
    let HttpAnswer { status, retry_after, body } =
        http::send(request).map_err(|why| SendProblem::Unreachable(token.hide(&why)))?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = ["description", "message", "error"].iter().find_map(|key| value[*key].as_str());
    // Discord and Telegram say how long in the body, too, and only there exactly.
    let in_body = value["retry_after"].as_f64().or(value["parameters"]["retry_after"].as_f64());
    let retry_after = in_body.map(|seconds| seconds.to_string()).or(retry_after);
    match SendProblem::of_status(status, retry_after.as_deref(), &token.hide(said.unwrap_or_default())) {
        Some(problem) => Err(problem),
        None => Ok(value),
    }
}

/// A value in the query of an address.
pub(super) fn in_query(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(b).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}
