//! Forms of the pages: what a browser without scripts sends, and the mark that a person has looked at something.

use axum::{
    body::Bytes,
    extract::{Path, Query, State as Extracted},
    http::{StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};
use serde::Deserialize;

use super::encoded;
use crate::{
    ApiError, Shared,
    control::{self, ControlCommand, Said},
    find::FoundView,
};

#[derive(Deserialize)]
struct Form {
    #[serde(rename = "do")]
    asked: String,
    #[serde(default)]
    text: String,
    decision: Option<String>,
}

/// A form has the same words as what stands behind `?` in an address.
fn form(body: &[u8]) -> Result<Form, ApiError> {
    let text = std::str::from_utf8(body).map_err(ApiError::bad_request)?;
    let address: Uri = format!("/?{text}").parse().map_err(|_| ApiError::bad_request("this is no form"))?;
    Query::try_from_uri(&address)
        .map(|Query(form)| form)
        .map_err(|error| ApiError::bad_request(error.body_text()))
}

/// `POST /loops/{id}/act`: asks, and goes back to the page.
pub(super) async fn act(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let Form { asked, text, decision } = form(&body)?;
    let kind = ControlCommand::of(&asked).ok_or_else(|| ApiError::bad_request("there is no such button"))?;
    control::perform(&state, id.clone(), kind, Said { text, decision }).await?;
    Ok(Redirect::to(&format!("/loops/{}?done={}", encoded(&id), kind.as_str())).into_response())
}

/// What is said on the page that a form leads back to.
pub(super) fn done_words(asked: &str) -> Option<&'static str> {
    Some(match asked {
        "cancel" => "It is being cancelled.",
        "pause" => "It pauses after this iteration.",
        "resume" => "It goes on.",
        "steer" => "The agent reads it with its next prompt.",
        "approve" => "Your answer was taken: yes.",
        "reject" => "Your answer was taken: no.",
        _ => return None,
    })
}

/// `POST /loops/{id}/seen`. It changes nothing but the mark on the board.
pub(super) async fn seen(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    state
        .ask(move |client| {
            let id = FoundView::of(client, &id)?.id().to_owned();
            client.look_at(&id)?;
            Ok::<_, ApiError>(StatusCode::NO_CONTENT)
        })
        .await
}
