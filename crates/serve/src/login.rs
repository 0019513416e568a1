//! How a browser gets in: a link that is good once becomes a cookie.

use axum::{
    extract::{Query, State as Extracted},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use crate::{
    ApiError,
    routes::{Access, Route},
    state::{ServerParts, Shared},
};

/// The route of the login.
pub(crate) fn route() -> Route {
    Route::get("/login", Access::Open, "Logs a browser in with the word of a link, once.", login)
        .query(&[("token", "the word of the link that `dacapo web` printed")])
        .answers("text/html")
}

#[derive(Deserialize)]
struct Given {
    #[serde(default)]
    token: String,
}

async fn login(
    Extracted(state): Extracted<Shared>,
    method: Method,
    headers: HeaderMap,
    Query(given): Query<Given>,
) -> Result<Response, ApiError> {
    // A look ahead must not use the link up.
    let is_look = method == Method::HEAD
        || headers.contains_key("sec-purpose")
        || headers.get("purpose").is_some_and(|purpose| purpose == "prefetch");
    if is_look {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    if !state.auth.use_link(&given.token) {
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "this link is not good any more")
            .hint("a link logs one browser in, once; start `dacapo web` again for another"));
    }
    let cookie = [(header::SET_COOKIE, state.auth.set_cookie(state.settings.tls.is_some()))];
    let home = match state.settings.parts {
        ServerParts::Pages => "/",
        ServerParts::Messages => "/api/loops",
    };
    // A browser that was led here by another site keeps a strict cookie back while it is redirected.
    let is_led = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    if is_led {
        return Ok((StatusCode::OK, cookie, [(header::REFRESH, format!("0; url={home}"))]).into_response());
    }
    Ok((StatusCode::SEE_OTHER, cookie, [(header::LOCATION, home)]).into_response())
}
