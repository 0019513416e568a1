//! The OpenAPI document, made from the table of routes.

use axum::{extract::State as Extracted, response::IntoResponse};
use serde_json::{Map, Value, json};

use crate::{
    routes::{Access, Route, table},
    state::{ServerParts, Shared},
    text::Clean,
};

/// `GET /api/openapi.json`.
pub(crate) async fn document(Extracted(state): Extracted<Shared>) -> impl IntoResponse {
    Clean(of(state.settings.parts))
}

/// The document of a server with these parts. Pages are for people and are left out.
pub fn of(parts: ServerParts) -> Value {
    let mut paths = Map::new();
    for route in table(parts).iter().filter(|route| route.answers != "text/html") {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(route.verb.as_str().to_ascii_lowercase(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "dacapo",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Loops and runs as `dacapo status --json` has them, events as they are recorded, and requests to loops.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token in `$DACAPO_HOME/web/token`."},
                "login": {"type": "apiKey", "in": "cookie", "name": "dacapo-…", "description": "What a login leaves in a browser."},
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {
                        "error": {"type": "string", "description": "What is wrong."},
                        "hint": {"type": "string", "description": "What to try next."},
                    },
                },
                "Done": {
                    "type": "object",
                    "required": ["ok", "said"],
                    "properties": {
                        "ok": {"const": true},
                        "said": {"type": "string", "description": "What the command of this name said."},
                    },
                },
            },
        },
    })
}

fn operation(route: &Route) -> Value {
    let in_path = route.path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    parameters.extend(route.query.iter().map(|(name, means)| {
        json!({"name": name, "in": "query", "required": false, "description": means, "schema": {"type": "string"}})
    }));
    let answer = match route.access {
        Access::Control => json!({"$ref": "#/components/schemas/Done"}),
        _ if route.answers == "application/json" => json!({}),
        _ => json!({"type": "string"}),
    };
    let error = |what: &str| {
        json!({
            "description": what,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        })
    };
    let mut answers =
        json!({"200": {"description": "The answer.", "content": {route.answers: {"schema": answer}}}});
    let codes: &[(&str, &str)] = match route.access {
        Access::Open => &[],
        Access::Read | Access::Token => {
            &[("401", "No token and no login."), ("404", "There is no such thing.")]
        }
        Access::Signed => &[("401", "The signature is missing or wrong.")],
        Access::Control => &[
            ("202", "It was asked for, and goes on."),
            ("400", "The request makes no sense."),
            ("401", "No token and no login."),
            ("403", "The server is read-only: it was started without `--allow-control`."),
            ("404", "There is no such loop or run."),
            ("409", "As the loop or run stands, this cannot be done."),
        ],
    };
    if let Some(answers) = answers.as_object_mut() {
        answers.extend(codes.iter().map(|(code, what)| ((*code).to_owned(), error(what))));
    }
    let security = match route.access {
        Access::Open | Access::Signed => json!([]),
        Access::Token => json!([{"token": []}]),
        Access::Read | Access::Control => json!([{"token": []}, {"login": []}]),
    };
    let mut operation = json!({
        "summary": route.does,
        "parameters": parameters,
        "responses": answers,
        "security": security,
    });
    if let (Some(body), Some(keys)) = (route.body, operation.as_object_mut()) {
        let body =
            json!({"description": body, "content": {"application/json": {"schema": {"type": "object"}}}});
        keys.insert("requestBody".to_owned(), body);
    }
    operation
}
