//! The Model Context Protocol, as far as a server of tools needs it: a line of JSON-RPC in, a typed call or the line that
//! answers it out.
//!
//! Nothing that comes in ends the server. What is no JSON-RPC gets an error of JSON-RPC; arguments that a tool cannot take get
//! a result with `isError`, which hosts show to the model, so that it can call again as it should.

mod tools;

use serde::Serialize;
use serde_json::{Value, json};

pub use tools::{RunCall, TOOLS, ToolCall};

/// The versions of the protocol that this server speaks, newest first. They differ in nothing that it uses.
pub const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The longest line that is read.
pub const LONGEST_LINE: usize = 4 << 20;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// What this server offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Whether the tool `run` may start child loops. It is not listed where it may not.
    pub run: bool,
}

/// What is to be done about a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// This line is the answer.
    Answer(String),
    /// The tool is to be called, and its answer sent with [`CallId::answer`].
    Call(CallId, ToolCall),
    /// Nothing is to be answered.
    Nothing,
}

/// The id of a call, as its client gave it: a text or a whole number.
#[derive(Clone, Debug, PartialEq)]
pub struct CallId(Value);

/// What a tool answers: words for the model, and the same as fields where there are some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolAnswer {
    pub text: String,
    pub fields: Option<Value>,
    /// Whether the tool did not do what it was called for.
    pub is_error: bool,
}

impl ToolAnswer {
    pub fn said(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), fields: None, is_error: true }
    }

    pub fn with(self, fields: &impl Serialize) -> Self {
        Self { fields: serde_json::to_value(fields).ok().filter(Value::is_object), ..self }
    }
}

impl CallId {
    /// The line that answers this call.
    pub fn answer(&self, answer: &ToolAnswer) -> String {
        let mut result = json!({"content": [{"type": "text", "text": answer.text}]});
        if let Some(fields) = &answer.fields {
            result["structuredContent"] = fields.clone();
            // Claude Code shows its model the fields and not the words.
            result["structuredContent"]["text"] = answer.text.as_str().into();
        }
        if answer.is_error {
            result["isError"] = true.into();
        }
        success(&self.0, &result)
    }
}

/// What `line` asks of a server that offers this.
pub fn read(line: &[u8], offer: Offer) -> Incoming {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Incoming::Nothing;
    }
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => return failed(&Value::Null, PARSE_ERROR, &format!("this line is no JSON: {error}")),
    };
    let Value::Object(message) = message else {
        return failed(&Value::Null, INVALID_REQUEST, "a line must be one JSON-RPC message, an object");
    };
    let id = message.get("id");
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        // An answer to a question that this server never asks.
        if message.contains_key("result") || message.contains_key("error") {
            return Incoming::Nothing;
        }
        return failed(valid(id), INVALID_REQUEST, "the message has no `method`");
    };
    let Some(id) = id else { return Incoming::Nothing };
    if valid(Some(id)).is_null() {
        return failed(&Value::Null, INVALID_REQUEST, "`id` must be a text or a whole number");
    }
    let nothing = Value::Null;
    let params = message.get("params").unwrap_or(&nothing);
    match method {
        "initialize" => Incoming::Answer(success(id, &greeting(params))),
        "ping" => Incoming::Answer(success(id, &json!({}))),
        "tools/list" => Incoming::Answer(success(id, &json!({"tools": tools::listed(offer)}))),
        "tools/call" => call(id, params, offer),
        other => failed(id, METHOD_NOT_FOUND, &format!("there is no method `{}`", shown(other))),
    }
}

/// The answer to a line that is longer than [`LONGEST_LINE`].
pub fn too_long() -> String {
    error(&Value::Null, INVALID_REQUEST, &format!("the line is longer than {LONGEST_LINE} bytes"))
}

fn greeting(params: &Value) -> Value {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let version = VERSIONS.into_iter().find(|version| Some(*version) == wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "dacapo", "title": "dacapo", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "You work in a loop that ends when your work is proven done. Call `done` when it is, `blocked` when it \
                         cannot be done as asked, `ask` when a person must decide, then end your turn. `task`, `limits` and \
                         `refusal` say what is asked, what is left, and why the last claim did not hold.",
    })
}

fn call(id: &Value, params: &Value, offer: Offer) -> Incoming {
    let Some(name) = params.get("name").and_then(Value::as_str) else {
        return failed(id, INVALID_PARAMS, "`params.name` must name a tool");
    };
    let Some(tool) = tools::find(name, offer) else {
        let known: Vec<&str> = tools::offered(offer).map(|tool| tool.name).collect();
        let why = format!("there is no tool `{}`; there are: {}", shown(name), known.join(", "));
        return failed(id, INVALID_PARAMS, &why);
    };
    let id = CallId(id.clone());
    match tool.call(params.get("arguments").unwrap_or(&Value::Null)) {
        Ok(call) => Incoming::Call(id, call),
        Err(why) => Incoming::Answer(id.answer(&ToolAnswer::refused(why))),
    }
}

/// The id, or null where it can be none.
fn valid(id: Option<&Value>) -> &Value {
    id.filter(|id| id.is_string() || id.is_i64() || id.is_u64()).unwrap_or(&Value::Null)
}

fn success(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn failed(id: &Value, code: i64, message: &str) -> Incoming {
    Incoming::Answer(error(id, code, message))
}

fn error(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// A name that a client sent, short enough to be quoted.
fn shown(name: &str) -> String {
    crate::yaml::short(&crate::text::visible::visible(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Offer = Offer { run: true };

    fn answer(line: &str) -> Value {
        match read(line.as_bytes(), Offer::default()) {
            Incoming::Answer(line) => serde_json::from_str(&line).unwrap(),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn call_of(name: &str, arguments: &str) -> Incoming {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
        );
        read(line.as_bytes(), ALL)
    }

    #[test]
    fn a_client_is_greeted_in_its_version_or_in_the_newest() {
        for (asked, answered) in
            [("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-11-25")]
        {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{asked}","capabilities":{{}}}}}}"#
            );
            let greeting = answer(&line);
            assert_eq!(greeting["result"]["protocolVersion"], answered);
            assert_eq!(greeting["result"]["capabilities"], json!({"tools": {}}));
        }
    }

    #[test]
    fn nonsense_gets_an_error_and_what_wants_no_answer_gets_none() {
        for (line, id, code) in [
            ("{", Value::Null, -32700),
            ("\u{1}", Value::Null, -32700),
            ("[]", Value::Null, -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Value::Null, -32600),
            ("7", Value::Null, -32600),
            (r#"{"id":1}"#, json!(1), -32600),
            (r#"{"id":1.5,"method":"ping"}"#, Value::Null, -32600),
            (r#"{"id":null,"method":"ping"}"#, Value::Null, -32600),
            (r#"{"id":{},"method":"ping"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":"a","method":"resources/list"}"#, json!("a"), -32601),
            (r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#, json!(2), -32602),
            (r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":7}}"#, json!(2), -32602),
            (r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"don"}}"#, json!(2), -32602),
            // Not offered.
            (r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run"}}"#, json!(2), -32602),
        ] {
            let error = answer(line);
            assert_eq!((&error["id"], &error["error"]["code"]), (&id, &json!(code)), "{line}: {error}");
            assert!(error["error"]["message"].as_str().is_some_and(|words| !words.is_empty()), "{error}");
        }
        for line in [
            "",
            "  \r",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","method":"no/such"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}"#,
        ] {
            assert_eq!(read(line.as_bytes(), ALL), Incoming::Nothing, "{line}");
        }
    }

    #[test]
    fn every_tool_is_listed_with_its_schema_and_run_only_where_it_is_offered() {
        let names = |offer| {
            let listed = tools::listed(offer);
            for tool in &listed {
                assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
                assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
                assert!(tool["description"].as_str().is_some_and(|words| words.len() > 20), "{tool}");
            }
            listed.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(Offer::default()), "done blocked wait ask progress task limits refusal post");
        assert_eq!(names(ALL), "done blocked wait ask progress task limits refusal post run");
    }

    #[test]
    fn arguments_become_a_call_or_a_result_that_says_what_is_wrong() {
        let text = |text: &str| text.to_owned();
        let run = RunCall { prompt: Some(text("x")), ..RunCall::default() };
        for (name, arguments, expected) in [
            ("done", "{}", ToolCall::Done { note: String::new() }),
            ("done", "null", ToolCall::Done { note: String::new() }),
            ("done", r#"{"note":"all of it"}"#, ToolCall::Done { note: text("all of it") }),
            ("done", r#"{"note":null}"#, ToolCall::Done { note: String::new() }),
            ("blocked", r#"{"why":"no key"}"#, ToolCall::Blocked { why: text("no key") }),
            ("wait", r#"{"why":"w"}"#, ToolCall::Wait { why: text("w") }),
            ("ask", r#"{"question":"a or b?"}"#, ToolCall::Ask { question: text("a or b?") }),
            ("progress", r#"{"text":"half"}"#, ToolCall::Progress { text: text("half") }),
            ("task", "{}", ToolCall::Task),
            ("limits", "{}", ToolCall::Limits),
            ("refusal", "{}", ToolCall::Refusal),
            (
                "post",
                r#"{"type":"FACT","body":"b","project":true}"#,
                ToolCall::Post { kind: text("FACT"), body: text("b"), to_project: true },
            ),
            ("run", r#"{"prompt":"x"}"#, ToolCall::Run(run.clone())),
            (
                "run",
                r#"{"prompt":"x","gates":["a","b"],"max_iterations":3,"agent":"codex"}"#,
                ToolCall::Run(RunCall {
                    gates: vec![text("a"), text("b")],
                    max_iterations: Some(3),
                    agent: Some(text("codex")),
                    ..run
                }),
            ),
            (
                "run",
                r#"{"id":"abc","wait":60}"#,
                ToolCall::Run(RunCall { id: Some(text("abc")), wait: Some(60), ..RunCall::default() }),
            ),
            ("run", "{}", ToolCall::Run(RunCall::default())),
        ] {
            assert_eq!(
                call_of(name, arguments),
                Incoming::Call(CallId(json!(7)), expected),
                "{name} {arguments}"
            );
        }
        for (name, arguments, words) in [
            ("ask", "{}", "`ask` needs `question`"),
            ("ask", r#"{"question":"  "}"#, "`question` must not be blank"),
            ("ask", r#"{"question":["a"]}"#, "`question` must be text"),
            ("ask", r#"{"question":"a","why":"b"}"#, "`ask` takes no `why`; it takes: question"),
            ("task", r#"{"x":1}"#, "`task` takes no `x`; it takes no arguments"),
            ("ask", "[]", "the arguments must be an object"),
            ("post", r#"{"type":"A","body":"b","project":"yes"}"#, "`project` must be true or false"),
            ("run", r#"{"prompt":"x","gates":"a"}"#, "`gates` must be a list of texts"),
            (
                "run",
                r#"{"prompt":"x","max_iterations":0}"#,
                "`max_iterations` must be a whole number of at least 1",
            ),
            ("run", r#"{"prompt":"x","id":"y"}"#, "either `prompt`, to start a child loop, or `id`"),
            ("run", r#"{"id":"y","gates":["a"]}"#, "`gates` goes with `prompt`"),
            ("run", r#"{"prompt":"x","wait":3}"#, "`wait` goes with `id`"),
        ] {
            let Incoming::Answer(line) = call_of(name, arguments) else { panic!("{name} {arguments}") };
            let said: Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&said["id"], &said["result"]["isError"]), (&json!(7), &json!(true)), "{said}");
            let text = said["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(words), "{name} {arguments}: {text}");
        }
    }

    #[test]
    fn an_answer_is_one_line_with_words_and_fields() {
        let id = CallId(json!("x"));
        let line = id.answer(&ToolAnswer::said("two\nlines").with(&json!({"a": 1})));
        assert!(!line.contains('\n'));
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            said,
            json!({"jsonrpc": "2.0", "id": "x", "result": {
                "content": [{"type": "text", "text": "two\nlines"}],
                "structuredContent": {"a": 1, "text": "two\nlines"},
            }})
        );
    }
}
