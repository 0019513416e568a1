//! What a person may ask of a loop or run from here: what the commands of these names do, and nothing else.

use std::time::Duration;

use axum::{
    extract::{Path, Request, State as Extracted},
    http::{StatusCode, header},
    response::IntoResponse,
};
use dacapo_engine::client::{Client, ClientError, CommandEnd};
use serde::Deserialize;
use serde_json::json;

use crate::{
    ApiError,
    find::FoundView,
    routes::{Access, Route},
    state::Shared,
    text::Clean,
};

/// How long a command is waited for before the caller is told that it goes on.
const PATIENCE: Duration = Duration::from_secs(8);

/// What can be asked. Each is a command of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControlCommand {
    Cancel,
    Pause,
    Resume,
    Steer,
    Approve,
    Reject,
}

impl ControlCommand {
    pub(crate) fn of(name: &str) -> Option<Self> {
        let all = [Self::Cancel, Self::Pause, Self::Resume, Self::Steer, Self::Approve, Self::Reject];
        all.into_iter().find(|asked| asked.as_str() == name)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Steer => "steer",
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }
}

/// The routes that ask something of a loop or run.
pub(crate) fn routes() -> Vec<Route> {
    const TEXT: &str = "`{\"text\": …}`: what to say";
    let control = Access::Control;
    vec![
        Route::post("/api/loops/{id}/cancel", control, "Ends a loop or run for good.", cancel),
        Route::post("/api/loops/{id}/pause", control, "Holds a loop or run after its iteration.", pause),
        Route::post("/api/loops/{id}/resume", control, "Goes on, in the background if no process runs it.", resume),
        Route::post("/api/loops/{id}/steer", control, "Says something to the agent, in its next prompt.", steer)
            .body(TEXT),
        Route::post("/api/loops/{id}/approve", control, "Answers a question with yes, or with one of its decisions.", approve)
            .body("`{\"text\": …, \"decision\": …}`: what to say, and the decision by its name; both may be left out"),
        Route::post("/api/loops/{id}/reject", control, "Answers a question with no.", reject).body(TEXT),
    ]
}

async fn cancel(
    state: Extracted<Shared>,
    id: Path<String>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    ask(state, id, request, ControlCommand::Cancel).await
}

async fn pause(
    state: Extracted<Shared>,
    id: Path<String>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    ask(state, id, request, ControlCommand::Pause).await
}

async fn resume(
    state: Extracted<Shared>,
    id: Path<String>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    ask(state, id, request, ControlCommand::Resume).await
}

async fn steer(
    state: Extracted<Shared>,
    id: Path<String>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    ask(state, id, request, ControlCommand::Steer).await
}

async fn approve(
    state: Extracted<Shared>,
    id: Path<String>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    ask(state, id, request, ControlCommand::Approve).await
}

async fn reject(
    state: Extracted<Shared>,
    id: Path<String>,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    ask(state, id, request, ControlCommand::Reject).await
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    #[serde(default)]
    pub(crate) text: String,
    pub(crate) decision: Option<String>,
}

/// The body: JSON, because a form of another site can send none.
async fn said(request: Request) -> Result<Said, ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json =
        kind.is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json"));
    let has_kind = kind.is_some();
    let bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.map_err(ApiError::bad_request)?;
    if bytes.is_empty() && (is_json || !has_kind) {
        return Ok(Said::default());
    }
    if !is_json {
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be JSON")
            .hint("send `Content-Type: application/json`"));
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::bad_request(format!("the body is no such JSON: {error}")))
}

async fn ask(
    Extracted(state): Extracted<Shared>,
    Path(id): Path<String>,
    request: Request,
    asked: ControlCommand,
) -> Result<impl IntoResponse, ApiError> {
    let said = said(request).await?;
    Ok(match perform(&state, id, asked, said).await? {
        Some(said) => (StatusCode::OK, Clean(json!({ "ok": true, "said": said }))),
        None => (StatusCode::ACCEPTED, Clean(json!({ "ok": true, "said": "It was asked for and goes on." }))),
    })
}

/// Does what was asked; gives what the command said, or nothing if it goes on.
pub(crate) async fn perform(
    state: &Shared,
    id: String,
    asked: ControlCommand,
    said: Said,
) -> Result<Option<String>, ApiError> {
    let end = state
        .ask(move |client| {
            let id = target(client, &FoundView::of(client, &id)?, asked)?;
            client.command(arguments(asked, &id, &said)?, PATIENCE).map_err(ApiError::from)
        })
        .await?;
    match end {
        None => Ok(None),
        Some(end) if end.exit_code == Some(0) => Ok(Some(end.said)),
        Some(end) => Err(refusal(end)),
    }
}

/// The id to ask: that of the run where only the run knows what an answer means.
fn target(client: &Client, found: &FoundView, asked: ControlCommand) -> Result<String, ClientError> {
    if let (FoundView::Loop(view), ControlCommand::Approve | ControlCommand::Reject) = (found, asked) {
        let run = client.loop_started(&view.id)?.and_then(|started| started.run);
        if let Some(run) = run
            && client.workflow_of_id(&run)?.is_some()
        {
            return Ok(run.to_string());
        }
    }
    Ok(found.id().to_owned())
}

/// The command that does it. What was said comes behind `--`, so that it is never a flag.
fn arguments(asked: ControlCommand, id: &str, said: &Said) -> Result<Vec<String>, ApiError> {
    if said.text.contains('\0') {
        return Err(ApiError::bad_request("`text` holds a NUL"));
    }
    let has_text = !said.text.trim().is_empty();
    if said.decision.is_some() && asked != ControlCommand::Approve {
        return Err(ApiError::bad_request("only `approve` takes a `decision`"));
    }
    let (mut words, takes_text): (Vec<String>, bool) = match asked {
        ControlCommand::Cancel => (vec!["cancel".into()], false),
        ControlCommand::Pause => (vec!["pause".into()], false),
        ControlCommand::Resume => (vec!["resume".into(), "--detach".into()], false),
        ControlCommand::Steer if !has_text => return Err(ApiError::bad_request("`text` says nothing")),
        ControlCommand::Steer => (vec!["steer".into()], true),
        ControlCommand::Approve => {
            let decision = said.decision.as_ref().map(|name| format!("--decision={name}"));
            (std::iter::once("approve".to_owned()).chain(decision).collect(), true)
        }
        ControlCommand::Reject => (vec!["reject".into()], true),
    };
    if has_text && !takes_text {
        return Err(ApiError::bad_request("this takes no `text`"));
    }
    words.extend(["--".to_owned(), id.to_owned()]);
    if has_text {
        words.push(said.text.clone());
    }
    Ok(words)
}

fn refusal(end: CommandEnd) -> ApiError {
    let status = match end.exit_code {
        Some(2) => StatusCode::BAD_REQUEST,
        Some(1 | 3 | 4) => StatusCode::CONFLICT,
        Some(5) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let message = end.complaint.unwrap_or_else(|| "the command did not say why".to_owned());
    ApiError { hint: end.hint, ..ApiError::new(status, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_never_a_flag() {
        let said = |text: &str, decision: Option<&str>| Said {
            text: text.to_owned(),
            decision: decision.map(str::to_owned),
        };
        for (asked, said, words) in [
            (ControlCommand::Cancel, said("", None), Some("cancel -- k3")),
            (ControlCommand::Cancel, said("x", None), None),
            (ControlCommand::Pause, said("", None), Some("pause -- k3")),
            (ControlCommand::Resume, said("", None), Some("resume --detach -- k3")),
            (ControlCommand::Steer, said("--trust", None), Some("steer -- k3 --trust")),
            (ControlCommand::Steer, said(" \n", None), None),
            (ControlCommand::Steer, said("a\0b", None), None),
            (ControlCommand::Approve, said("", None), Some("approve -- k3")),
            (ControlCommand::Approve, said("yes", Some("--all")), Some("approve --decision=--all -- k3 yes")),
            (ControlCommand::Reject, said("no", None), Some("reject -- k3 no")),
            (ControlCommand::Reject, said("no", Some("x")), None),
        ] {
            let got = arguments(asked, "k3", &said).ok().map(|words| words.join(" "));
            assert_eq!(got.as_deref(), words, "{asked:?} {said:?}");
        }
    }
}
