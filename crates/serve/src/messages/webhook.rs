//! A program as a chat: it posts signed messages here, and signed answers are posted to it.

use dacapo_core::{
    chat::{SendProblem, Service},
    config::WebhookService,
    workflow::told::TellMode,
};
use dacapo_engine::{http::HttpRequest, store::StoredMessage};
use jiff::Timestamp;
use serde_json::json;

use super::{
    adapter::{Adapter, AfterCrash, ServiceToken, TIMEOUT, UserMessage, call, text_for},
    signature::sign,
};

pub(super) struct Webhook {
    pub(super) secret: ServiceToken,
    pub(super) settings: WebhookService,
}

impl Adapter for Webhook {
    fn name(&self) -> &'static str {
        "webhook"
    }

    fn mode(&self) -> TellMode {
        self.settings.mode
    }

    fn service(&self) -> Service {
        Service::Plain
    }

    fn is_allowed(&self, _: &UserMessage) -> bool {
        // Its signature says who it is.
        true
    }

    fn send(&self, message: &StoredMessage) -> Result<(), SendProblem> {
        let body = json!({
            // The same for each try, so that the receiver can tell them apart from other messages.
            "id": format!("{:x}-{:x}", message.at.as_microsecond(), message.id),
            "conversationId": message.conversation.id,
            "message": text_for(Service::Plain, message).0,
            "final": message.matters,
            "run": message.run,
            "timestamp": message.at,
        })
        .to_string();
        let now = Timestamp::now().as_second();
        let signature = sign(self.secret.0.as_bytes(), now, body.as_bytes());
        let headers = vec![("x-dacapo-timestamp", now.to_string()), ("x-dacapo-signature", signature)];
        let url = self.settings.url.as_str();
        let request = HttpRequest { headers, body: Some(body), ..HttpRequest::new(url, TIMEOUT) };
        // What the error names may be the whole address, and that may hold a secret.
        let hide = |why: String| why.replace(url, self.settings.url.origin());
        call(&request, &self.secret).map(drop).map_err(|problem| match problem {
            SendProblem::Unreachable(why) => SendProblem::Unreachable(hide(why)),
            SendProblem::Server(why) => SendProblem::Server(hide(why)),
            SendProblem::SignIn(why) => SendProblem::SignIn(hide(why)),
            SendProblem::Refused(why) => SendProblem::Refused(hide(why)),
            problem @ SendProblem::TooMany { .. } => problem,
        })
    }

    fn after_crash(&self, _: &StoredMessage) -> Result<AfterCrash, SendProblem> {
        // The receiver knows it again by its id.
        Ok(AfterCrash::SendAgain)
    }
}
