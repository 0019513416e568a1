//! The JSON Schema of workflow files, for editors: made from the table of keys that the reader itself uses.

use serde_json::{Map, Value as Json, json};

use super::keys::{self, SectionSpec, ValueSpec};

pub fn schema() -> Json {
    let definitions: Map<String, Json> =
        keys::SECTIONS.iter().skip(1).map(|section| (section.name.to_owned(), object(section))).collect();
    let mut schema = object(&keys::WORKFLOW);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        fields.insert("title".to_owned(), "dacapo workflow".into());
        fields.insert(
            "oneOf".to_owned(),
            json!([{ "required": ["steps"] }, { "required": ["loop"] }, { "required": ["nodes"] }]),
        );
        fields.insert("$defs".to_owned(), Json::Object(definitions));
    }
    schema
}

fn object(section: &SectionSpec) -> Json {
    let properties: Map<String, Json> = section
        .keys
        .iter()
        .map(|key| {
            let mut value = value(&key.value);
            if let Some(fields) = value.as_object_mut() {
                fields.insert("description".to_owned(), key.about.into());
            }
            (key.name.to_owned(), value)
        })
        .collect();
    let required: Vec<&str> = section.keys.iter().filter(|key| key.is_required).map(|key| key.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": section.about,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if section.name == "step" {
        let kinds = keys::KINDS.iter().chain(&["step"]).map(|kind| json!({ "required": [kind] }));
        schema["oneOf"] = kinds.collect();
    }
    if section.name == "loop" {
        schema["anyOf"] = json!([{ "required": ["until"] }, { "required": ["until_bash"] }]);
    }
    if section.name == "wait" {
        schema["minProperties"] = 1.into();
        schema["maxProperties"] = 1.into();
    }
    schema
}

fn value(value: &ValueSpec) -> Json {
    let reference = |section: &SectionSpec| json!({ "$ref": format!("#/$defs/{}", section.name) });
    let text = || json!({ "type": "string", "minLength": 1 });
    match value {
        ValueSpec::Text => text(),
        ValueSpec::Truth => json!({ "type": "boolean" }),
        ValueSpec::Count { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        ValueSpec::Choice(words) => json!({ "enum": words }),
        ValueSpec::Duration => json!({ "type": ["string", "integer"], "examples": ["90s", "5m", "1h30m"] }),
        ValueSpec::Dollars => json!({ "type": "number", "exclusiveMinimum": 0 }),
        ValueSpec::Words => json!({ "type": "array", "items": text() }),
        ValueSpec::Time => json!({ "type": "string", "format": "date-time" }),
        ValueSpec::Section(section) => json!({ "allOf": [reference(section)] }),
        ValueSpec::TextOrSection(section, _) => json!({ "anyOf": [text(), reference(section)] }),
        ValueSpec::Sections(section) => {
            json!({ "type": "array", "minItems": 1, "items": reference(section) })
        }
        ValueSpec::TextsOrSections(section, _) => {
            json!({ "type": "array", "items": { "anyOf": [text(), reference(section)] } })
        }
        ValueSpec::Schema => json!({ "type": "object" }),
    }
}
