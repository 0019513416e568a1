//! Answers of agents that have to be JSON: whether they fit their `output_format`, and answers made up from one.
//!
//! As much of JSON Schema as workflows use: `type`, `properties`, `required`, `enum`, `const`, `items`. Other words of it are
//! left to the agent.

use serde_json::{Map, Value, json};

/// The JSON in an answer that has to fit `schema`, or why there is none: the whole answer, or its last fenced block.
pub fn structured(answer: &str, schema: &Value) -> Result<String, String> {
    let text = answer.trim();
    let value = serde_json::from_str::<Value>(text)
        .ok()
        .or_else(|| fenced(text).and_then(|block| serde_json::from_str(block).ok()))
        .ok_or("the answer is not JSON")?;
    fits(&value, schema, "the answer")?;
    Ok(value.to_string())
}

/// The last block between lines of three backticks.
fn fenced(text: &str) -> Option<&str> {
    let end = text.rfind("```")?;
    let start = text[..end].rfind("```")?;
    let block = &text[start + 3..end];
    // Behind the opening backticks may stand `json`.
    Some(block.split_once('\n').map_or(block, |(_, rest)| rest).trim())
}

fn fits(value: &Value, schema: &Value, place: &str) -> Result<(), String> {
    if let Some(wanted) = schema.get("type") {
        let types: Vec<&str> = match wanted {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            other => other.as_str().into_iter().collect(),
        };
        if !types.is_empty() && !types.iter().any(|name| is_type(value, name)) {
            return Err(format!("{place} is not of type {}", types.join(" or ")));
        }
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        return Err(format!("{place} is {value}, which is not allowed"));
    }
    if let Some(only) = schema.get("const")
        && only != value
    {
        return Err(format!("{place} is not {only}"));
    }
    if let (Some(object), Some(Value::Array(required))) = (value.as_object(), schema.get("required")) {
        for name in required.iter().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                return Err(format!("{place} has no `{name}`"));
            }
        }
    }
    if let (Some(object), Some(Value::Object(properties))) = (value.as_object(), schema.get("properties")) {
        for (name, schema) in properties {
            if let Some(value) = object.get(name) {
                fits(value, schema, &format!("`{name}`"))?;
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for item in items {
            fits(item, schema, &format!("an item of {place}"))?;
        }
    }
    Ok(())
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// An answer that fits `schema`, for walking through a workflow without agents.
pub fn made_up(schema: &Value) -> Value {
    if let Some(only) = schema.get("const").or_else(|| schema.get("default")) {
        return only.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|allowed| allowed.get(0)) {
        return first.clone();
    }
    let name = match schema.get("type") {
        Some(Value::Array(types)) => types.first().and_then(Value::as_str),
        other => other.and_then(Value::as_str),
    };
    match name {
        Some("string") => json!("text"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some("array") => json!([schema.get("items").map_or(Value::Null, made_up)]),
        _ => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let made: Map<String, Value> = properties
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), made_up(schema)))
                .collect();
            Value::Object(made)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_fits_or_is_told_why_not() {
        let schema = json!({
            "type": "object",
            "required": ["kind"],
            "properties": {
                "kind": {"enum": ["bug", "feature"]},
                "size": {"type": "integer"},
                "files": {"type": "array", "items": {"type": "string"}},
                "only": {"const": 1},
                "may": {"type": ["string", "null"]},
            },
        });
        for (answer, expected) in [
            (r#"{"kind": "bug"}"#, Ok(r#"{"kind":"bug"}"#)),
            (
                "Here it is:\n```json\n{\"kind\": \"bug\", \"size\": 2.0}\n```\n",
                Ok(r#"{"kind":"bug","size":2.0}"#),
            ),
            ("```\n{\"kind\": \"bug\"}\n```", Ok(r#"{"kind":"bug"}"#)),
            (
                r#"{"kind": "bug", "may": null, "only": 1, "files": ["a"]}"#,
                Ok(r#"{"files":["a"],"kind":"bug","may":null,"only":1}"#),
            ),
            ("a bug", Err("the answer is not JSON")),
            ("```", Err("the answer is not JSON")),
            ("[]", Err("the answer is not of type object")),
            ("{}", Err("the answer has no `kind`")),
            (r#"{"kind": "x"}"#, Err("`kind` is \"x\", which is not allowed")),
            (r#"{"kind": "bug", "size": 1.5}"#, Err("`size` is not of type integer")),
            (r#"{"kind": "bug", "files": [1]}"#, Err("an item of `files` is not of type string")),
            (r#"{"kind": "bug", "only": 2}"#, Err("`only` is not 1")),
            (r#"{"kind": "bug", "may": 1}"#, Err("`may` is not of type string or null")),
        ] {
            assert_eq!(
                structured(answer, &schema),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{answer}"
            );
        }
        assert_eq!(structured(&made_up(&schema).to_string(), &schema).map(|_| ()), Ok(()));
    }
}
