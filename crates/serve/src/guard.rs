//! What stands before every route: who calls, from where, and how much of it.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State as Extracted},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    ApiError, pages,
    routes::{Access, Verb},
    state::{ServerState, Shared},
};

/// No request has a larger body.
const BODY: usize = 64 << 10;
/// A body that takes longer is not waited for.
const BODY_TIME: Duration = Duration::from_secs(10);

/// A route, for its guard.
#[derive(Clone)]
pub(crate) struct Guarded {
    pub(crate) state: Shared,
    pub(crate) access: Access,
    pub(crate) verb: Verb,
}

/// What a browser is told with every answer: nothing but what this server itself sends is run, shown or sent to.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer` a browser would not say where a form of our own pages comes from.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Looks at every request, also at those for which there is no route, and adds to every answer what browsers need to know.
pub(crate) async fn every_request(
    Extracted(state): Extracted<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let accepted = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let wants_page = accepted.is_some_and(|accepted| accepted.contains("text/html"));
    let mut response = match may_come(&state, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    if wants_page && let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() {
        response = pages::error_page(&error);
    }
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Refuses what a page of another site could have sent.
fn may_come(state: &ServerState, request: &Request) -> Result<(), ApiError> {
    let (headers, is_safe) = (request.headers(), request.method().is_safe());
    let host = single(headers, &header::HOST)?;
    // A whole address in the place of a path names a host, too.
    let named = request.uri().authority().is_none_or(|named| is_own_host(state, named.as_str()));
    if !named || !host.is_some_and(|host| is_own_host(state, host)) {
        return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, "this server has another name")
            .hint(format!("call it as {}", state.url())));
    }
    if let Some(origin) = single(headers, &header::ORIGIN)? {
        let own = origin.split_once("://").filter(|(scheme, _)| *scheme == state.scheme());
        if own.map(|(_, host)| host) != host {
            return Err(ApiError::forbidden("a page of another site may not call this server"));
        }
    }
    let site = single(headers, &HeaderName::from_static("sec-fetch-site"))?;
    let is_elsewhere = site.is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let is_visit = is_safe
        && headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
        && headers.get("sec-fetch-dest").is_some_and(|dest| dest == "document");
    if is_elsewhere && !is_visit {
        return Err(ApiError::forbidden("a page of another site may not call this server"));
    }
    Ok(())
}

/// The value of a header that may be given once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.to_str());
    if values.next().is_some() {
        return Err(ApiError::bad_request(format!("`{name}` is given twice")));
    }
    first.transpose().map_err(|_| ApiError::bad_request(format!("`{name}` is not text")))
}

/// Whether `host` names this server. A name that only another machine's DNS knows would let its pages in here.
fn is_own_host(state: &ServerState, host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && !port.contains(']') => (name, port.parse().ok()),
        _ => (host, Some(if state.settings.tls.is_some() { 443 } else { 80 })),
    };
    if port != Some(state.address.port()) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(address) => {
            address == state.address.ip()
                || (address.is_loopback() && is_here(state))
                || state.address.ip().is_unspecified()
        }
        Err(_) => (name == "localhost" && is_here(state)) || state.settings.names.contains(&name),
    }
}

/// Whether the server can be reached from its own machine by any of its names.
fn is_here(state: &ServerState) -> bool {
    state.address.ip().is_loopback() || state.address.ip().is_unspecified()
}

/// Looks at a request to one route: whether its caller may call it, and its body, which is read here and handed on whole.
pub(crate) async fn route(Extracted(guarded): Extracted<Guarded>, request: Request, next: Next) -> Response {
    match admit(&guarded, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn admit(guarded: &Guarded, request: Request) -> Result<Request, ApiError> {
    let state = &guarded.state;
    let headers = request.headers();
    let bearer = single(headers, &header::AUTHORIZATION)?;
    let has_token = bearer.and_then(|value| value.split_once(' ')).is_some_and(|(scheme, token)| {
        scheme.eq_ignore_ascii_case("bearer") && state.auth.is_token(token.trim())
    });
    let has_login = || {
        let mut cookies = headers.get_all(header::COOKIE).iter();
        cookies.any(|value| value.to_str().is_ok_and(|value| state.auth.is_login(value)))
    };
    let is_known = match guarded.access {
        Access::Open | Access::Signed => true,
        Access::Token => has_token,
        // A wrong token is not made good by a cookie.
        Access::Read | Access::Control => has_token || (bearer.is_none() && has_login()),
    };
    if !is_known {
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "this needs a login").hint(
            "open the link that `dacapo web` prints, or send `Authorization: Bearer TOKEN` with the token of `web/token` in the state folder",
        ));
    }
    // A browser says where a form comes from. What has a cookie and does not is none that we know.
    let says_where = headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site");
    if guarded.verb == Verb::Post && !has_token && has_login() && !says_where {
        return Err(ApiError::forbidden("this does not say which page it comes from"));
    }
    if guarded.access == Access::Control && !state.settings.allow_control {
        return Err(ApiError::forbidden("this server is read-only").hint(
            "`dacapo web --allow-control` lets loops be paused, cancelled, steered and answered from here",
        ));
    }
    if guarded.verb == Verb::Get {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let read = tokio::time::timeout(BODY_TIME, to_bytes(body, BODY)).await;
    let bytes = match read {
        Err(_) => return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
        Ok(Err(_)) => {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a body may have {BODY} bytes"),
            ));
        }
        Ok(Ok(bytes)) => bytes,
    };
    Ok(Request::from_parts(parts, Body::from(bytes)))
}
