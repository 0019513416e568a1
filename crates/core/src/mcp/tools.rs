//! The tools: their names, what they take, and the typed call that arguments become.

use serde_json::{Map, Value, json};

use super::Offer;

/// A call of a tool whose arguments are as they should be.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolCall {
    Done { note: String },
    Blocked { why: String },
    Wait { why: String },
    Ask { question: String },
    Progress { text: String },
    Task,
    Limits,
    Refusal,
    Post { kind: String, body: String, to_project: bool },
    Run(RunCall),
}

/// A child loop to start, or to look at; without any argument, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCall {
    pub prompt: Option<String>,
    pub gates: Vec<String>,
    pub max_iterations: Option<u64>,
    pub agent: Option<String>,
    /// The child loop to look at.
    pub id: Option<String>,
    /// How many seconds to wait for its end.
    pub wait: Option<u64>,
}

/// A tool as hosts list it.
#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    pub about: &'static str,
    pub params: &'static [Param],
    /// Whether it changes nothing.
    pub is_reading: bool,
}

/// An argument of a tool.
#[derive(Debug)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
    pub is_needed: bool,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    Text,
    Texts,
    Truth,
    /// A whole number of at least 1.
    Count,
}

const fn needs(name: &'static str, about: &'static str) -> Param {
    Param { name, kind: ParamKind::Text, is_needed: true, about }
}

const fn takes(name: &'static str, kind: ParamKind, about: &'static str) -> Param {
    Param { name, kind, is_needed: false, about }
}

/// All tools, in the order in which they are listed.
pub const TOOLS: [Tool; 10] = [
    Tool {
        name: "done",
        about: "Claim that the work is done. The claim is judged when you end your turn: by the gates it names, not by your word. \
                Refused while a question of yours is unanswered or a child loop of yours runs.",
        params: &[takes("note", ParamKind::Text, "What to say about it")],
        is_reading: false,
    },
    Tool {
        name: "blocked",
        about: "Say that the work cannot be done as asked. The loop stops when you end your turn, and a person reads the reason. \
                That is no failure of yours.",
        params: &[needs("why", "The reason, in your own words")],
        is_reading: false,
    },
    Tool {
        name: "wait",
        about: "Ask not to be started again before a person has done something. It counts when you end your turn.",
        params: &[needs("why", "What you wait for")],
        is_reading: false,
    },
    Tool {
        name: "ask",
        about: "Ask the user something. The question is shown at once; the answer is in a later prompt. Call `wait` too if you cannot \
                go on without it.",
        params: &[needs("question", "The question")],
        is_reading: false,
    },
    Tool {
        name: "progress",
        about: "Tell what you have done or are doing, in a line or two. It goes to the task's message bus and decides nothing.",
        params: &[needs("text", "What to tell")],
        is_reading: false,
    },
    Tool {
        name: "task",
        about: "Read what you are asked to do, in the user's words, and how a claim is checked.",
        params: &[],
        is_reading: true,
    },
    Tool {
        name: "limits",
        about: "Read how many iterations, how much time, money and tokens the loop may use, and has used.",
        params: &[],
        is_reading: true,
    },
    Tool {
        name: "refusal",
        about: "Read why the last claim did not hold, with the end of what the failing gates printed.",
        params: &[],
        is_reading: true,
    },
    Tool {
        name: "post",
        about: "Post a message to the task's message bus, or to the project's.",
        params: &[
            needs("type", "The type of the message, such as FACT, PROGRESS, DECISION"),
            needs("body", "The message"),
            takes("project", ParamKind::Truth, "Post to the bus of the project, which all its loops read"),
        ],
        is_reading: false,
    },
    Tool {
        name: "run",
        about: "Start a child loop with `prompt`: another agent, in the background, in this folder. With `id`, look at one that was \
                started, and with `wait` wait for its end. Without arguments, list them.",
        params: &[
            takes("prompt", ParamKind::Text, "What the child's agent is asked to do"),
            takes("gates", ParamKind::Texts, "Commands that must exit 0 before its claim is believed"),
            takes("max_iterations", ParamKind::Count, "How many iterations it may use"),
            takes("agent", ParamKind::Text, "Its agent, such as claude or codex"),
            takes("id", ParamKind::Text, "The child loop to look at"),
            takes("wait", ParamKind::Count, "How many seconds to wait for its end, at most 600"),
        ],
        is_reading: false,
    },
];

pub(super) fn offered(offer: Offer) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(move |tool| tool.name != "run" || offer.run)
}

pub(super) fn find(name: &str, offer: Offer) -> Option<&'static Tool> {
    offered(offer).find(|tool| tool.name == name)
}

pub(super) fn listed(offer: Offer) -> Vec<Value> {
    offered(offer).map(Tool::listed).collect()
}

impl Tool {
    fn listed(&self) -> Value {
        let properties: Map<String, Value> =
            self.params.iter().map(|param| (param.name.to_owned(), param.schema())).collect();
        let needed: Vec<&str> =
            self.params.iter().filter(|param| param.is_needed).map(|param| param.name).collect();
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": {
                "type": "object", "properties": properties, "required": needed, "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": self.is_reading, "openWorldHint": false},
        })
    }

    /// The call that these arguments make, or what is wrong with them.
    pub(super) fn call(&self, arguments: &Value) -> Result<ToolCall, String> {
        let nothing = Map::new();
        let given = match arguments {
            Value::Null => &nothing,
            Value::Object(given) => given,
            _ => return Err("the arguments must be an object".to_owned()),
        };
        if let Some(name) = given.keys().find(|name| !self.params.iter().any(|param| param.name == *name)) {
            let known: Vec<&str> = self.params.iter().map(|param| param.name).collect();
            let known = if known.is_empty() {
                "it takes no arguments".to_owned()
            } else {
                format!("it takes: {}", known.join(", "))
            };
            return Err(format!("`{}` takes no `{}`; {known}", self.name, super::shown(name)));
        }
        for param in self.params {
            match given.get(param.name).filter(|value| !value.is_null()) {
                Some(value) => param.check(value)?,
                None if param.is_needed => return Err(format!("`{}` needs `{}`", self.name, param.name)),
                None => {}
            }
        }
        let texts = Arguments(given);
        Ok(match self.name {
            "done" => ToolCall::Done { note: texts.text("note") },
            "blocked" => ToolCall::Blocked { why: texts.text("why") },
            "wait" => ToolCall::Wait { why: texts.text("why") },
            "ask" => ToolCall::Ask { question: texts.text("question") },
            "progress" => ToolCall::Progress { text: texts.text("text") },
            "task" => ToolCall::Task,
            "limits" => ToolCall::Limits,
            "refusal" => ToolCall::Refusal,
            "post" => ToolCall::Post {
                kind: texts.text("type"),
                body: texts.text("body"),
                to_project: given.get("project").and_then(Value::as_bool).unwrap_or(false),
            },
            _ => ToolCall::Run(texts.run()?),
        })
    }
}

impl Param {
    fn schema(&self) -> Value {
        match self.kind {
            ParamKind::Text => json!({"type": "string", "description": self.about}),
            ParamKind::Texts => {
                json!({"type": "array", "items": {"type": "string"}, "description": self.about})
            }
            ParamKind::Truth => json!({"type": "boolean", "description": self.about}),
            ParamKind::Count => json!({"type": "integer", "minimum": 1, "description": self.about}),
        }
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let name = self.name;
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
        match self.kind {
            ParamKind::Text if !value.is_string() => Err(format!("`{name}` must be text")),
            ParamKind::Text if !is_text(value) => Err(format!("`{name}` must not be blank")),
            ParamKind::Texts if !value.as_array().is_some_and(|texts| texts.iter().all(is_text)) => {
                Err(format!("`{name}` must be a list of texts"))
            }
            ParamKind::Truth if !value.is_boolean() => Err(format!("`{name}` must be true or false")),
            ParamKind::Count if value.as_u64().is_none_or(|count| count == 0) => {
                Err(format!("`{name}` must be a whole number of at least 1"))
            }
            _ => Ok(()),
        }
    }
}

/// Arguments that were checked.
struct Arguments<'a>(&'a Map<String, Value>);

impl Arguments<'_> {
    fn maybe(&self, name: &str) -> Option<String> {
        self.0.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    fn text(&self, name: &str) -> String {
        self.maybe(name).unwrap_or_default()
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    fn run(&self) -> Result<RunCall, String> {
        let gates = self.0.get("gates").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let run = RunCall {
            prompt: self.maybe("prompt"),
            gates: gates.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            max_iterations: self.count("max_iterations"),
            agent: self.maybe("agent"),
            id: self.maybe("id"),
            wait: self.count("wait"),
        };
        if run.prompt.is_some() && run.id.is_some() {
            return Err(
                "`run` takes either `prompt`, to start a child loop, or `id`, to look at one".to_owned()
            );
        }
        let with_prompt = [
            ("gates", !run.gates.is_empty()),
            ("max_iterations", run.max_iterations.is_some()),
            ("agent", run.agent.is_some()),
        ];
        if let Some((name, _)) = with_prompt.iter().find(|(_, is_given)| *is_given && run.prompt.is_none()) {
            return Err(format!("`{name}` goes with `prompt`"));
        }
        if run.wait.is_some() && run.id.is_none() {
            return Err("`wait` goes with `id`".to_owned());
        }
        Ok(run)
    }
}
