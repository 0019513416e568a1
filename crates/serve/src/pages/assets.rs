//! The style sheet, the scripts and the icon: a part of the binary.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use axum::{
    extract::{Path, RawQuery},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::ApiError;

pub(super) const STYLE: &str = include_str!("../../assets/dacapo.css");
const SCRIPT: &str = include_str!("../../assets/dacapo.js");
const THEME: &str = include_str!("../../assets/theme.js");
const ICON: &str = include_str!("../../assets/icon.svg");

/// What the files hold, in a word: an address with it never means anything else, so a browser asks for it once.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hasher = DefaultHasher::new();
    [STYLE, SCRIPT, THEME, ICON].hash(&mut hasher);
    format!("{:016x}", hasher.finish())
});

/// The address of a file.
pub(super) fn address(name: &str) -> String {
    format!("/assets/{name}?{}", *VERSION)
}

pub(super) async fn asset(Path(name): Path<String>, RawQuery(query): RawQuery) -> Response {
    let (body, media_type) = match name.as_str() {
        "dacapo.css" => (STYLE, "text/css; charset=utf-8"),
        "dacapo.js" => (SCRIPT, "text/javascript; charset=utf-8"),
        "theme.js" => (THEME, "text/javascript; charset=utf-8"),
        "icon.svg" => (ICON, "image/svg+xml"),
        _ => return ApiError::not_found("there is no such file").into_response(),
    };
    let keep =
        if query.as_deref() == Some(VERSION.as_str()) { "max-age=31536000, immutable" } else { "no-cache" };
    (StatusCode::OK, [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, keep)], body)
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_an_address_that_says_what_it_holds_is_kept() {
        let kept = async |query: Option<String>| {
            let answer = asset(Path("dacapo.css".to_owned()), RawQuery(query)).await;
            answer.headers()[header::CACHE_CONTROL].to_str().unwrap().to_owned()
        };
        let own = address("dacapo.css").split_once('?').map(|(_, version)| version.to_owned());
        assert!(kept(own).await.contains("immutable"));
        for other in [None, Some("v0.1.0".to_owned())] {
            assert_eq!(kept(other).await, "no-cache");
        }
    }
}
