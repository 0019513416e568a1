//! The pages.

use axum::response::{IntoResponse, Response};

use crate::{ApiError, routes::Route};

/// The routes of the pages.
pub fn routes() -> Vec<Route> {
    Vec::new()
}

/// What a browser shows of an error.
pub fn error_page(error: &ApiError) -> Response {
    let hint = error.hint.as_deref().unwrap_or_default();
    (error.status, format!("{}\n{hint}\n", error.message)).into_response()
}
