//! What goes out: JSON and text in which nothing acts on the terminal or the page that shows it.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use dacapo_core::text::{ansi::readable, visible::is_deceptive};
use dacapo_engine::{log::LogPage, secrets::secrets};
use serde::Serialize;
use serde_json::Value;

use crate::ApiError;

/// A JSON answer.
pub struct Clean<T>(pub T);

impl<T: Serialize> IntoResponse for Clean<T> {
    fn into_response(self) -> Response {
        match json(&self.0) {
            Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
            Err(error) => error.into_response(),
        }
    }
}

/// Leaves out of a log what people do not see and machines obey.
pub fn plain_page(page: &mut LogPage) {
    for part in &mut page.parts {
        part.text = plain(part.text.as_bytes());
    }
}

/// `value` as JSON: without secrets, and its strings without what people do not see and machines obey.
pub fn json(value: &impl Serialize) -> Result<String, ApiError> {
    let text = serde_json::to_string(value).map_err(ApiError::internal)?;
    let text = if is_harmless(&text) {
        text
    } else {
        let mut value: Value = serde_json::from_str(&text).map_err(ApiError::internal)?;
        clean(&mut value);
        serde_json::to_string(&value).map_err(ApiError::internal)?
    };
    Ok(secrets().redact(&text).into_owned())
}

/// Whether no string of a JSON text needs a look.
fn is_harmless(json: &str) -> bool {
    let is_escape =
        |rest: &str| ["u00", "u007f", "b", "f", "r"].iter().any(|escape| rest.starts_with(escape));
    !json.split('\\').skip(1).any(is_escape) && !json.chars().any(is_deceptive)
}

fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = plain(text.as_bytes()),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(keys) => {
            let old = std::mem::take(keys);
            keys.extend(old.into_iter().map(|(key, mut value)| {
                clean(&mut value);
                (plain(key.as_bytes()), value)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Text of an agent, for a page: no escape sequence, no control but line breaks and tabs, nothing that turns text around.
pub fn plain(bytes: &[u8]) -> String {
    let mut text = readable(bytes);
    text.retain(|c| c == '\n' || c == '\t' || !is_deceptive(c));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn nothing_that_acts_goes_out() {
        for (given, sent) in [
            (value!({"a": "plain \"quoted\" \\ back"}), r#"{"a":"plain \"quoted\" \\ back"}"#),
            (value!({"a": "\u{1b}[2J\u{1b}]0;x\u{7}red\u{8}\r\n\tx"}), r#"{"a":"red\n\tx"}"#),
            (value!(["\u{202e}gnp.exe\u{200b}"]), r#"["gnp.exe"]"#),
            (value!({"k\u{1b}[31m": {"n": 1.5, "b": [null, true]}}), r#"{"k":{"b":[null,true],"n":1.5}}"#),
            (value!("grün 完了 <script>"), "\"grün 完了 <script>\""),
        ] {
            assert_eq!(json(&given).unwrap(), sent, "{given}");
        }
    }
}
