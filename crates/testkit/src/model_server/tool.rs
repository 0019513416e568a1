//! Fits what the script wants done to the tools the agent offers.

use serde_json::{Map, Value, json};

use super::turn::ToolCall;

/// How agents call their tool for commands, the likeliest first.
const SHELL: [&str; 8] = [
    "bash",
    "shell",
    "exec_command",
    "shell_command",
    "run_shell_command",
    "run_terminal_cmd",
    "execute_command",
    "exec",
];
const WRITE: [&str; 4] = ["write", "write_file", "create_file", "create"];
const COMMAND: [&str; 3] = ["command", "cmd", "script"];
const PATH: [&str; 5] = ["file_path", "filePath", "absolute_path", "path", "filename"];
const CONTENT: [&str; 4] = ["content", "contents", "file_text", "text"];

/// A tool as a request offers it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OfferedTool {
    pub(super) name: String,
    pub(super) schema: Value,
    pub(super) form: ToolForm,
    pub(super) namespace: Option<String>,
}

/// What a call of a tool carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolForm {
    Function,
    /// Free text; only Responses has it.
    Custom,
}

/// A call the agent understands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ResolvedCall {
    pub(super) name: String,
    pub(super) input: Value,
    pub(super) form: ToolForm,
    pub(super) namespace: Option<String>,
}

impl ResolvedCall {
    fn of(tool: &OfferedTool, input: Value) -> Self {
        let OfferedTool { name, form, namespace, .. } = tool.clone();
        Self { name, input, form, namespace }
    }

    /// The input of a tool that takes no JSON.
    pub(super) fn free_text(&self) -> String {
        self.input.as_str().map_or_else(|| self.input.to_string(), str::to_owned)
    }
}

/// The call that does what is wanted; the error names what there is.
pub(super) fn resolve(call: &ToolCall, offered: &[OfferedTool]) -> Result<ResolvedCall, String> {
    match call {
        ToolCall::Named { name, input } => {
            let known = offered.iter().find(|tool| tool.name == *name);
            Ok(known.map_or_else(
                || ResolvedCall {
                    name: name.clone(),
                    input: input.clone(),
                    form: ToolForm::Function,
                    namespace: None,
                },
                |tool| ResolvedCall::of(tool, input.clone()),
            ))
        }
        ToolCall::Shell { command } => shell(command, offered),
        ToolCall::Write { path, content } => match find(offered, &WRITE) {
            Some(tool) => {
                let mut input = required(&tool.schema);
                put(&mut input, &tool.schema, &PATH, path.as_str().into());
                put(&mut input, &tool.schema, &CONTENT, content.as_str().into());
                Ok(ResolvedCall::of(tool, input.into()))
            }
            None => shell(&format!("printf %s {} > {}", quote(content), quote(path)), offered),
        },
    }
}

fn shell(command: &str, offered: &[OfferedTool]) -> Result<ResolvedCall, String> {
    let tool = find(offered, &SHELL).ok_or_else(|| {
        let names: Vec<_> = offered.iter().map(|tool| tool.name.as_str()).collect();
        format!("the agent offers no tool for commands, only {names:?}")
    })?;
    let mut input = required(&tool.schema);
    let words = COMMAND.iter().any(|name| tool.schema["properties"][name]["type"] == "array");
    let value = if words { json!(["sh", "-c", command]) } else { command.into() };
    put(&mut input, &tool.schema, &COMMAND, value);
    Ok(ResolvedCall::of(tool, input.into()))
}

fn find<'a>(offered: &'a [OfferedTool], names: &[&str]) -> Option<&'a OfferedTool> {
    let named = |name: &&str| offered.iter().find(|tool| tool.name.eq_ignore_ascii_case(name));
    names.iter().find_map(named)
}

/// Sets the first of `names` that the tool knows.
fn put(input: &mut Map<String, Value>, schema: &Value, names: &[&str], value: Value) {
    let known = names.iter().find(|name| schema["properties"].get(**name).is_some());
    input.insert((*known.unwrap_or(&names[0])).to_owned(), value);
}

fn required(schema: &Value) -> Map<String, Value> {
    match sample(schema) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A small value that meets a JSON schema, as far as agents' schemas go.
pub(super) fn sample(schema: &Value) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
        return value.clone();
    }
    if let Some(first) = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema[key].get(0)) {
        return sample(first);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    // Gemini writes types in capitals.
    match kind.unwrap_or("object").to_ascii_lowercase().as_str() {
        "object" => {
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let fields = names.map(|name| (name.to_owned(), sample(&schema["properties"][name])));
            Value::Object(fields.collect())
        }
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        "boolean" => false.into(),
        "null" => Value::Null,
        _ => "ok".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, properties: &Value, required: &[&str]) -> OfferedTool {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        OfferedTool { name: name.to_owned(), schema, form: ToolForm::Function, namespace: None }
    }

    #[test]
    fn a_call_takes_the_agents_own_names_and_fills_what_is_required() {
        let text = json!({"type": "string"});
        let bash = tool("Bash", &json!({"command": text, "description": text}), &["command", "description"]);
        let exec = tool("exec_command", &json!({"cmd": text, "yield_time_ms": {"type": "number"}}), &["cmd"]);
        let words = tool("shell", &json!({"command": {"type": "array", "items": text}}), &["command"]);
        let write =
            tool("write_file", &json!({"file_path": text, "content": text}), &["file_path", "content"]);
        for (offered, call, name, input) in [
            (vec![&bash], ToolCall::shell("ls"), "Bash", json!({"command": "ls", "description": "ok"})),
            (vec![&exec], ToolCall::shell("ls"), "exec_command", json!({"cmd": "ls"})),
            (vec![&words], ToolCall::shell("ls"), "shell", json!({"command": ["sh", "-c", "ls"]})),
            (
                vec![&bash, &write],
                ToolCall::write("/a", "it's"),
                "write_file",
                json!({"file_path": "/a", "content": "it's"}),
            ),
            (
                vec![&exec],
                ToolCall::write("/a", "it's"),
                "exec_command",
                json!({"cmd": r"printf %s 'it'\''s' > '/a'"}),
            ),
            (vec![], ToolCall::named("mcp__x", json!({"a": 1})), "mcp__x", json!({"a": 1})),
        ] {
            let offered: Vec<_> = offered.into_iter().cloned().collect();
            let resolved = resolve(&call, &offered).unwrap();
            assert_eq!((resolved.name.as_str(), resolved.input), (name, input), "{call:?}");
        }
        let error = resolve(&ToolCall::shell("ls"), std::slice::from_ref(&write)).unwrap_err();
        assert!(error.contains("write_file"), "{error}");
    }

    #[test]
    fn a_schema_is_met_with_little() {
        for (schema, value) in [
            (
                json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}),
                json!({"a": "ok"}),
            ),
            (json!({"enum": ["user", "model"]}), json!("user")),
            (json!({"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]}), json!(3)),
            (json!({"type": ["boolean", "null"]}), json!(false)),
            (json!({"type": "array", "items": {"type": "string"}}), json!([])),
        ] {
            assert_eq!(sample(&schema), value, "{schema}");
        }
    }
}
