//! A request as it came, and what it says in any protocol.

use serde_json::Value;

use super::{
    protocol::Protocol,
    tool::{OfferedTool, ToolForm},
};

/// What agents put among a user's words and no user wrote.
const INJECTED: [&str; 10] = [
    "<system-reminder",
    "<environment_context",
    "<user_instructions",
    "<permissions",
    "<collaboration_mode",
    "<skills_instructions",
    "<apps_instructions",
    "<plugins_instructions",
    "<session_context",
    "# AGENTS.md",
];

/// A request that came to the server.
#[derive(Clone, Debug)]
pub struct Request {
    /// `POST`, most often.
    pub method: String,
    pub path: String,
    /// In their order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null unless it is JSON.
    pub body: Value,
    /// Whether a turn of the script answered it. Titles, counts of tokens and their like are not.
    pub is_main: bool,
    pub(super) conversation: Option<Conversation>,
}

/// What a request for an answer says.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    pub(super) protocol: Protocol,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) user_texts: Vec<String>,
    pub(super) tool_results: Vec<String>,
    pub(super) tools: Vec<OfferedTool>,
    /// What the answer has to be like, if it has to be JSON.
    pub(super) schema: Option<Value>,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The key or token it was sent with, however the protocol sends it.
    pub fn key(&self) -> Option<&str> {
        let bearer = || self.header("authorization")?.strip_prefix("Bearer ");
        let query = || self.path.split(['?', '&']).find_map(|pair| pair.strip_prefix("key="));
        self.header("x-api-key").or_else(|| self.header("x-goog-api-key")).or_else(bearer).or_else(query)
    }

    /// The model that was asked for; empty if it is not a request for an answer.
    pub fn model(&self) -> &str {
        self.conversation.as_ref().map_or("", |conversation| &conversation.model)
    }

    /// What it speaks, if it asks for an answer.
    pub fn protocol(&self) -> Option<Protocol> {
        self.conversation.as_ref().map(|conversation| conversation.protocol)
    }

    /// The user's turns, oldest first, without what agents put among them.
    pub fn user_texts(&self) -> &[String] {
        self.conversation.as_ref().map_or(&[], |conversation| &conversation.user_texts)
    }

    /// The user's last turn.
    pub fn last_user_text(&self) -> &str {
        self.user_texts().last().map_or("", String::as_str)
    }

    /// What tools answered so far, oldest first, as JSON where it is not plain text.
    pub fn tool_results(&self) -> &[String] {
        self.conversation.as_ref().map_or(&[], |conversation| &conversation.tool_results)
    }

    /// The names of the tools it offers.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.conversation.as_ref().map_or(&[][..], |conversation| &conversation.tools);
        tools.iter().map(|tool| tool.name.as_str()).collect()
    }
}

impl Conversation {
    /// Reads the body of a request to `path`, if that asks for an answer.
    pub(super) fn read(path: &str, body: &Value) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default();
        if path.ends_with("/messages") {
            Some(Self::messages(body))
        } else if path.ends_with("/responses") {
            Some(Self::responses(body))
        } else if path.ends_with("/chat/completions") {
            Some(Self::chat(body))
        } else {
            let (model, method) = path.rsplit('/').next()?.split_once(':')?;
            let stream = method == "streamGenerateContent";
            (stream || method == "generateContent").then(|| Self::gemini(body, model, stream))
        }
    }

    /// Whether the agent itself asks. What it asks beside its work (a title, a topic, a summary) offers no tools.
    pub(super) fn is_main(&self) -> bool {
        !self.tools.is_empty()
    }

    fn new(protocol: Protocol, body: &Value) -> Self {
        Self {
            protocol,
            model: text(&body["model"]),
            stream: body["stream"] == true,
            user_texts: Vec::new(),
            tool_results: Vec::new(),
            tools: Vec::new(),
            schema: None,
        }
    }

    fn messages(body: &Value) -> Self {
        let mut read = Self::new(Protocol::Messages, body);
        for message in items(&body["messages"]).filter(|message| message["role"] == "user") {
            let blocks = || items(&message["content"]);
            let results = blocks().filter(|block| block["type"] == "tool_result");
            let before = read.tool_results.len();
            read.tool_results.extend(results.map(|block| plain(&block["content"])));
            // Beside a tool's result there are only the agent's own words.
            if read.tool_results.len() == before {
                read.user(texts(&message["content"]));
            }
        }
        read.tools = items(&body["tools"]).map(|tool| function(tool, &tool["input_schema"])).collect();
        let format = [&body["output_config"]["format"], &body["output_format"]];
        read.schema = format.iter().find_map(|format| format.get("schema").cloned());
        read
    }

    fn chat(body: &Value) -> Self {
        let mut read = Self::new(Protocol::Chat, body);
        for message in items(&body["messages"]) {
            match message["role"].as_str() {
                Some("user") => read.user(texts(&message["content"])),
                Some("tool" | "function") => read.tool_results.push(plain(&message["content"])),
                _ => {}
            }
        }
        let functions = items(&body["tools"]).map(|tool| &tool["function"]);
        read.tools = functions.map(|tool| function(tool, &tool["parameters"])).collect();
        read.schema = body["response_format"]["json_schema"].get("schema").cloned();
        read
    }

    fn responses(body: &Value) -> Self {
        let mut read = Self::new(Protocol::Responses, body);
        if let Some(input) = body["input"].as_str() {
            read.user(vec![input.to_owned()]);
        }
        for item in items(&body["input"]) {
            let kind = item["type"].as_str().unwrap_or("message");
            if kind == "message" && item["role"] == "user" {
                read.user(texts(&item["content"]));
            } else if kind.ends_with("_output") {
                read.tool_results.push(plain(&item["output"]));
            }
        }
        for tool in items(&body["tools"]) {
            if tool["type"] == "namespace" {
                let namespace = Some(text(&tool["name"]));
                let inner = items(&tool["tools"]).map(responses_tool);
                read.tools.extend(inner.map(|tool| OfferedTool { namespace: namespace.clone(), ..tool }));
            } else {
                read.tools.push(responses_tool(tool));
            }
        }
        read.schema = body["text"]["format"].get("schema").cloned();
        read
    }

    fn gemini(body: &Value, model: &str, stream: bool) -> Self {
        let mut read = Self { model: model.to_owned(), stream, ..Self::new(Protocol::Gemini, body) };
        for content in items(&body["contents"]).filter(|content| content["role"] != "model") {
            let results = items(&content["parts"]).filter_map(|part| part.get("functionResponse"));
            let before = read.tool_results.len();
            read.tool_results.extend(results.map(|result| plain(&result["response"])));
            if read.tool_results.len() == before {
                read.user(texts(&content["parts"]));
            }
        }
        let declarations = items(&body["tools"]).flat_map(|tool| items(&tool["functionDeclarations"]));
        let schema = |tool: &Value| tool.get("parametersJsonSchema").unwrap_or(&tool["parameters"]).clone();
        read.tools = declarations.map(|tool| function(tool, &schema(tool))).collect();
        let config = &body["generationConfig"];
        read.schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema")).cloned();
        read
    }

    fn user(&mut self, mut texts: Vec<String>) {
        texts.retain(|text| !INJECTED.iter().any(|injected| text.trim_start().starts_with(injected)));
        let text = texts.join("\n");
        if !text.trim().is_empty() {
            self.user_texts.push(text);
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The texts of a content that is one text or a list of parts.
fn texts(content: &Value) -> Vec<String> {
    match content.as_str() {
        Some(text) => vec![text.to_owned()],
        None => items(content).filter_map(|part| part["text"].as_str()).map(str::to_owned).collect(),
    }
}

fn function(tool: &Value, schema: &Value) -> OfferedTool {
    OfferedTool {
        name: text(&tool["name"]),
        schema: schema.clone(),
        form: ToolForm::Function,
        namespace: None,
    }
}

fn responses_tool(tool: &Value) -> OfferedTool {
    let form = if tool["type"] == "custom" { ToolForm::Custom } else { ToolForm::Function };
    // What the provider itself runs, such as a web search, has no name but its type.
    let name = text(tool.get("name").unwrap_or(&tool["type"]));
    OfferedTool { name, form, ..function(tool, &tool["parameters"]) }
}
