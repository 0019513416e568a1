//! What a caller is told when something is wrong: a status, one sentence, and what to try next.

use std::{fmt::Display, io, net::SocketAddr, path::PathBuf, sync::Arc};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use dacapo_engine::{client::ClientError, home::HomeError};
use serde_json::json;

/// Why a request has no answer.
#[derive(Debug)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    pub hint: Option<String>,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Display) -> Self {
        Self { status, message: message.to_string(), hint: None }
    }

    pub fn bad_request(message: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn not_found(message: impl Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub fn forbidden(message: impl Display) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub fn internal(message: impl Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> Self {
        let hint = match &error {
            ClientError::Store(error) => error.hint(),
            _ => None,
        };
        Self { hint, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, error) }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = match &self.hint {
            Some(hint) => json!({ "error": self.message, "hint": hint }),
            None => json!({ "error": self.message }),
        };
        let mut response = (self.status, Json(body)).into_response();
        // For browsers it becomes a page.
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error("port {} is in use{}", address.port(), .by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    PortInUse {
        address: SocketAddr,
        by: Option<String>,
        /// A port that is free.
        free: Option<u16>,
    },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("others reach {0}, and what is sent there could be read on its way")]
    Insecure(SocketAddr),
    #[error("cannot keep the token in `{}`: {source}", path.display())]
    Token { path: PathBuf, source: io::Error },
    #[error("cannot use the certificate `{}`: {why}", path.display())]
    Tls { path: PathBuf, why: String },
    #[error("cannot start the server: {0}")]
    Runtime(io::Error),
}

impl ServeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Home(_) => Some("set DACAPO_HOME to a folder you can write to".to_owned()),
            Self::PortInUse { free, .. } => {
                Some(free.map_or("`--port 0` takes any that is free".to_owned(), |free| {
                    format!("`--port {free}` is free; `--port 0` takes any that is")
                }))
            }
            Self::Insecure(_) => Some(
                "give `--tls-cert` and `--tls-key`, or listen on 127.0.0.1 behind `ssh -L`; `--insecure-listen` does it anyway"
                    .to_owned(),
            ),
            Self::Listen { .. } | Self::Token { .. } | Self::Tls { .. } | Self::Runtime(_) => None,
        }
    }
}
