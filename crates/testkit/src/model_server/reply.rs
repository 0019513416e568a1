//! Turns what the script says into the bytes that go back.

use serde_json::json;

use super::{
    failure::Refusal,
    http,
    protocol::{Answer, AnswerPart, Protocol},
    request::{Conversation, Request},
    tool::{resolve, sample},
    turn::{Ending, Failure, Part, ScriptedTurn},
};

/// The answer to one request.
pub(super) struct Reply {
    pub(super) pieces: Vec<Vec<u8>>,
    pub(super) after: After,
}

/// What becomes of the connection.
#[derive(Clone, Copy)]
pub(super) enum After {
    GoOn,
    Close,
    Wait,
}

impl Reply {
    fn whole(bytes: Vec<u8>) -> Self {
        Self { pieces: vec![bytes], after: After::GoOn }
    }

    fn refused(refusal: &Refusal) -> Self {
        Self::whole(http::document(refusal.status, &refusal.headers, &refusal.body))
    }

    /// The turn in the words of who asks.
    pub(super) fn of_turn(turn: &ScriptedTurn, asked: &Conversation, id: &str) -> Self {
        if turn.parts.is_empty() {
            return match &turn.ending {
                Ending::Fail(failure) => Self::refused(&failure.refusal(asked.protocol, id)),
                Ending::Hang => Self { pieces: Vec::new(), after: After::Wait },
                Ending::Cut | Ending::Complete => Self { pieces: Vec::new(), after: After::Close },
            };
        }
        let parts = turn.parts.iter().map(|part| match part {
            Part::Think(text) => Ok(AnswerPart::Think(text)),
            Part::Say(text) => Ok(AnswerPart::Say(text)),
            Part::Call(call) => resolve(call, &asked.tools).map(AnswerPart::Call),
        });
        let parts = match parts.collect::<Result<Vec<_>, String>>() {
            Ok(parts) => parts,
            Err(message) => return Self::mistake(&message),
        };
        let answer = Answer { id: id.to_owned(), model: &asked.model, parts, usage: turn.usage };
        let mut headers = turn.headers.clone();
        if asked.protocol == Protocol::Messages {
            headers.push(("request-id".to_owned(), format!("req_{id}")));
        }
        let encoded = asked.protocol.encode(&answer);
        if asked.stream {
            let events: Vec<String> = encoded.events.iter().map(|event| event.text()).collect();
            Self::stream(&turn.ending, asked.protocol, id, &headers, &events)
        } else {
            let mut bytes = http::document(200, &headers, &encoded.whole);
            let after = match &turn.ending {
                Ending::Complete => After::GoOn,
                Ending::Fail(failure) => return Self::refused(&failure.refusal(asked.protocol, id)),
                ending => {
                    bytes.truncate(bytes.len() - encoded.whole.to_string().len() / 2);
                    if *ending == Ending::Hang { After::Wait } else { After::Close }
                }
            };
            Self { pieces: vec![bytes], after }
        }
    }

    fn stream(
        ending: &Ending,
        protocol: Protocol,
        id: &str,
        headers: &[(String, String)],
        events: &[String],
    ) -> Self {
        let half = &events[..events.len() / 2];
        let (events, last, after) = match ending {
            Ending::Complete => (events, None, After::GoOn),
            Ending::Fail(failure) => (half, Some(failure.event(protocol, id).text()), After::GoOn),
            Ending::Cut => (half, None, After::Close),
            Ending::Hang => (half, None, After::Wait),
        };
        let mut pieces = vec![http::stream_head(headers)];
        pieces.extend(events.iter().chain(&last).map(|event| http::stream_piece(event)));
        if matches!(after, After::GoOn) {
            pieces.push(http::stream_piece(""));
        }
        Self { pieces, after }
    }

    /// Something harmless of the shape that was asked for.
    pub(super) fn to_side_request(asked: &Conversation, id: &str) -> Self {
        let text = asked.schema.as_ref().map_or_else(|| "ok".to_owned(), |schema| sample(schema).to_string());
        Self::of_turn(&ScriptedTurn::say(text), asked, id)
    }

    /// The reply to a request for a count or a list of models, or to an unknown one.
    pub(super) fn to_other(request: &Request, length: usize) -> Self {
        let path = request.path.split('?').next().unwrap_or_default();
        let tokens = length / 4 + 1;
        if request.method == "HEAD" {
            Self::whole(http::nothing())
        } else if path.ends_with("/count_tokens") {
            Self::whole(http::document(200, &[], &json!({"input_tokens": tokens})))
        } else if path.ends_with(":countTokens") {
            Self::whole(http::document(200, &[], &json!({"totalTokens": tokens})))
        } else if request.method == "GET" && path.ends_with("/models") {
            let model =
                json!({"id": "scripted", "object": "model", "type": "model", "display_name": "Scripted"});
            let google =
                json!({"name": "models/scripted", "supportedGenerationMethods": ["generateContent"]});
            let list = json!({"object": "list", "data": [model], "has_more": false, "models": [google]});
            Self::whole(http::document(200, &[], &list))
        } else {
            let error = json!({"type": "not_found_error", "code": 404, "message": "no such endpoint"});
            Self::whole(http::document(404, &[], &json!({"error": error})))
        }
    }

    /// The script wants what the agent cannot do: said to the agent, whose output the test shows.
    fn mistake(message: &str) -> Self {
        let error = json!({"type": "invalid_request_error", "code": 400, "message": message});
        let body = json!({"type": "error", "error": error});
        let refusal = Failure::Other { status: 400, headers: Vec::new(), body };
        Self::refused(&refusal.refusal(Protocol::Messages, ""))
    }
}
