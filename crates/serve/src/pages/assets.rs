//! The style sheet, the scripts and the icon: a part of the binary.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::ApiError;

pub(super) const STYLE: &str = include_str!("../../assets/dacapo.css");
const SCRIPT: &str = include_str!("../../assets/dacapo.js");
const THEME: &str = include_str!("../../assets/theme.js");
const ICON: &str = include_str!("../../assets/icon.svg");

/// Changes with every version of dacapo, so that no browser shows a new page with an old style sheet.
pub(super) fn version() -> &'static str {
    concat!("v", env!("CARGO_PKG_VERSION"))
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let (body, media_type) = match name.as_str() {
        "dacapo.css" => (STYLE, "text/css; charset=utf-8"),
        "dacapo.js" => (SCRIPT, "text/javascript; charset=utf-8"),
        "theme.js" => (THEME, "text/javascript; charset=utf-8"),
        "icon.svg" => (ICON, "image/svg+xml"),
        _ => return ApiError::not_found("there is no such file").into_response(),
    };
    (StatusCode::OK, [(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-cache")], body)
        .into_response()
}
