//! The table of routes. The router, the OpenAPI document and the tests of security are made of it, so they cannot differ.

use axum::{
    Router,
    handler::Handler,
    middleware::from_fn_with_state,
    routing::{MethodRouter, get, post},
};

use crate::{
    ApiError, api, control,
    guard::{self, Guarded},
    login, messages, pages,
    state::{ServerParts, Shared},
};

/// How a route is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// What a caller must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it tells nothing about loops and changes nothing.
    Open,
    /// The cookie of a login, or the token.
    Read,
    /// The same, and the server must have been started with `--allow-control`.
    Control,
    /// The token, in the header: a cookie is not enough, because what comes in may start a run.
    Token,
    /// What the route itself verifies, a signature over the body for example.
    Signed,
}

/// One route: what calls it, what it does, and what may call it.
#[derive(Clone)]
pub struct Route {
    pub verb: Verb,
    /// As axum writes it: `/api/loops/{id}`.
    pub path: &'static str,
    /// One sentence for the OpenAPI document.
    pub does: &'static str,
    pub access: Access,
    /// What may stand behind `?`, each with what it means.
    pub query: &'static [(&'static str, &'static str)],
    /// What the body holds, for routes that take one.
    pub body: Option<&'static str>,
    /// The type of what it answers with.
    pub answers: &'static str,
    handler: MethodRouter<Shared>,
}

impl Route {
    pub fn get<H, T>(path: &'static str, access: Access, does: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new(Verb::Get, path, access, does, get(handler))
    }

    pub fn post<H, T>(path: &'static str, access: Access, does: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new(Verb::Post, path, access, does, post(handler))
    }

    fn new(
        verb: Verb,
        path: &'static str,
        access: Access,
        does: &'static str,
        handler: MethodRouter<Shared>,
    ) -> Self {
        Self { verb, path, does, access, query: &[], body: None, answers: "application/json", handler }
    }

    #[must_use]
    pub fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.query = query;
        self
    }

    #[must_use]
    pub fn body(mut self, body: &'static str) -> Self {
        self.body = Some(body);
        self
    }

    #[must_use]
    pub fn answers(mut self, media_type: &'static str) -> Self {
        self.answers = media_type;
        self
    }
}

/// All routes of a server with these parts.
pub fn table(parts: ServerParts) -> Vec<Route> {
    let mut routes = vec![
        Route::get("/healthz", Access::Open, "Says that the server runs.", async || "ok\n")
            .answers("text/plain"),
        login::route(),
    ];
    routes.extend(api::routes());
    routes.extend(control::routes());
    match parts {
        ServerParts::Pages => routes.extend(pages::routes()),
        ServerParts::Messages => routes.extend(messages::routes()),
    }
    routes
}

/// The router of the server, each route behind its guard.
pub(crate) fn router(state: &Shared) -> Router {
    let mut router = Router::new();
    for route in table(state.settings.parts) {
        let guarded = Guarded { state: state.clone(), access: route.access, verb: route.verb };
        router = router.route(route.path, route.handler.layer(from_fn_with_state(guarded, guard::route)));
    }
    router
        .fallback(async || ApiError::not_found("there is no such page"))
        .layer(from_fn_with_state(state.clone(), guard::every_request))
        .with_state(state.clone())
}
