//! The Agent Client Protocol from the client's side: what is said to an agent that stays for many turns, and what its answers
//! mean for the conversation. Its words, its tokens and its end are read by the transcript of the same lines.
//!
//! ```text
//! initialize ─► session/new ─────────────────────► Ready ─► session/prompt ─► TurnOver ─► (Ready) …
//!            └► session/resume or session/load ─┘ (lost: session/new)
//! ```
//!
//! The number of a request says what it is, so that code which reads an answer later, from a log, needs no memory of the question.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use super::transcript::Lines;
use crate::duration::Millis;

/// The version of the protocol that is spoken.
pub(super) const VERSION: i64 = 1;

/// What an agent that speaks ACP reports of its usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcpUsage {
    /// With the end of a turn, what the turn used.
    #[default]
    Turn,
    /// With the end of a turn, what the whole session has used.
    Session,
    Never,
}

/// How an agent is spoken to that speaks ACP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcpSettings {
    /// Whether it gets the permissions that it asks for. No person is there to be asked, so the answer is no otherwise.
    pub allows: bool,
    /// Whether it is given dacapo's own tools, a server of the Model Context Protocol.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools: bool,
    /// How long it may take to have a session ready.
    #[serde(default = "AcpSettings::opening_timeout")]
    pub opening_timeout: Millis,
}

impl AcpSettings {
    /// Slow agents take ten seconds, more on a busy machine.
    pub const OPENING_TIMEOUT: Millis = Millis::from_mins(3);

    fn opening_timeout() -> Millis {
        Self::OPENING_TIMEOUT
    }
}

impl Default for AcpSettings {
    fn default() -> Self {
        Self { allows: false, tools: false, opening_timeout: Self::OPENING_TIMEOUT }
    }
}

/// The kinds of requests to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpRequest {
    Initialize = 1,
    /// `session/resume` or `session/load`.
    GoOn = 2,
    NewSession = 3,
    Prompt = 4,
}

impl AcpRequest {
    const ALL: [Self; 4] = [Self::Initialize, Self::GoOn, Self::NewSession, Self::Prompt];

    /// The request that an answer with this number belongs to.
    pub(super) fn of(id: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| id >= 10 && *kind as i64 == id % 10)
    }

    fn id(self, count: i64) -> i64 {
        count * 10 + self as i64
    }
}

/// A server of tools that the agent is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolServer {
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// What follows from something that an agent said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcpStep {
    /// This line is to be sent.
    Send(Vec<u8>),
    /// There is a session that takes a prompt.
    Ready,
    /// The agent has answered to the prompt.
    TurnOver,
    /// There will be no session.
    Failed,
    /// People should know this.
    Warn(String),
}

/// A conversation with one agent process.
#[derive(Debug)]
pub struct AcpConversation {
    settings: AcpSettings,
    dir: String,
    tools: Option<ToolServer>,
    lines: Lines,
    requests: i64,
    /// The session that is to be gone on with, until that is tried.
    wanted: Option<String>,
    session: Option<String>,
    /// The request whose answer is awaited.
    awaited: Option<i64>,
}

#[derive(Deserialize)]
struct AcpMessage<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl AcpConversation {
    /// A conversation in the folder `dir` that goes on with `session`, if there is one and the agent can.
    pub fn new(settings: AcpSettings, dir: &str, tools: Option<ToolServer>, session: Option<String>) -> Self {
        Self {
            tools: tools.filter(|_| settings.tools),
            settings,
            dir: dir.to_owned(),
            lines: Lines::new(&[]),
            requests: 0,
            wanted: session,
            session: None,
            awaited: None,
        }
    }

    /// The session of the conversation, once there is one.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Whether a prompt was sent that is not answered yet.
    pub fn is_in_turn(&self) -> bool {
        self.awaited.and_then(AcpRequest::of) == Some(AcpRequest::Prompt)
    }

    /// The first line. The client offers neither files nor a terminal: the agent has its own, inside its containment.
    pub fn begin(&mut self) -> Vec<u8> {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false},
            "clientInfo": {"name": "dacapo", "title": "dacapo", "version": env!("CARGO_PKG_VERSION")},
        });
        self.request(AcpRequest::Initialize, "initialize", &params)
    }

    /// Leaves the session for a new one.
    pub fn renew(&mut self) -> Vec<u8> {
        self.session = None;
        let params = json!({"cwd": self.dir, "mcpServers": self.servers()});
        self.request(AcpRequest::NewSession, "session/new", &params)
    }

    /// The line that gives the agent its prompt.
    pub fn prompt(&mut self, text: &str) -> Vec<u8> {
        let params = json!({"sessionId": self.session, "prompt": [{"type": "text", "text": text}]});
        self.request(AcpRequest::Prompt, "session/prompt", &params)
    }

    /// The line that asks the agent to leave its turn; it still answers to the prompt.
    pub fn cancel(&self) -> Vec<u8> {
        line(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session}}))
    }

    /// Takes in what the agent printed, which may end anywhere.
    pub fn hear(&mut self, bytes: &[u8]) -> Vec<AcpStep> {
        let mut whole: Vec<Vec<u8>> = Vec::new();
        self.lines.push(bytes, &mut |line| {
            // By far the most lines, and the transcript's business.
            if memchr::memmem::find(line, b"\"session/update\"").is_none() {
                whole.push(line.to_vec());
            }
        });
        whole.iter().flat_map(|line| self.hear_line(line)).collect()
    }

    fn hear_line(&mut self, line: &[u8]) -> Vec<AcpStep> {
        let Ok(message) = serde_json::from_slice::<AcpMessage<'_>>(line.trim_ascii()) else {
            return Vec::new();
        };
        match (message.method.as_deref(), message.id) {
            (Some(method), Some(id)) => self.asked(method, id, message.params),
            (Some(_), None) => Vec::new(),
            (None, _) => {
                let id = message.id.and_then(|id| id.get().parse::<i64>().ok());
                let Some(id) = id.filter(|id| Some(*id) == self.awaited) else { return Vec::new() };
                self.awaited = None;
                // A result may be null, which serde takes for a missing one.
                let result = message.result.and_then(|result| serde_json::from_str(result.get()).ok());
                self.answered(id, message.error.is_none().then(|| result.unwrap_or(Value::Null)))
            }
        }
    }

    /// The agent has answered; an error where there is no result.
    fn answered(&mut self, id: i64, result: Option<Value>) -> Vec<AcpStep> {
        match (AcpRequest::of(id), result) {
            (Some(AcpRequest::Initialize), Some(result)) => {
                if result["protocolVersion"].as_i64() != Some(VERSION) {
                    return vec![AcpStep::Failed];
                }
                vec![AcpStep::Send(self.open(&result["agentCapabilities"]))]
            }
            (Some(AcpRequest::GoOn), Some(_)) => {
                self.session = self.wanted.take();
                vec![AcpStep::Ready]
            }
            // The session is gone, or the agent cannot take one up: a fresh one knows the prompt, which is whole.
            (Some(AcpRequest::GoOn), None) => {
                self.wanted = None;
                vec![AcpStep::Send(self.renew())]
            }
            (Some(AcpRequest::NewSession), Some(result)) => match result["sessionId"].as_str() {
                Some(session) => {
                    self.session = Some(session.to_owned());
                    vec![AcpStep::Ready]
                }
                None => vec![AcpStep::Failed],
            },
            (Some(AcpRequest::Prompt), _) => vec![AcpStep::TurnOver],
            (Some(AcpRequest::Initialize | AcpRequest::NewSession), None) => vec![AcpStep::Failed],
            (None, _) => Vec::new(),
        }
    }

    fn open(&mut self, capabilities: &Value) -> Vec<u8> {
        let can_resume = capabilities["sessionCapabilities"]["resume"].is_object();
        let method = match &self.wanted {
            // To load a session repeats all that was said in it.
            Some(_) if can_resume => "session/resume",
            Some(_) if capabilities["loadSession"] == true => "session/load",
            _ => {
                self.wanted = None;
                return self.renew();
            }
        };
        let params = json!({"sessionId": self.wanted, "cwd": self.dir, "mcpServers": self.servers()});
        self.request(AcpRequest::GoOn, method, &params)
    }

    /// The agent asks something of its client.
    fn asked(&mut self, method: &str, id: &RawValue, params: Option<&RawValue>) -> Vec<AcpStep> {
        if method != "session/request_permission" {
            let error = json!({"code": -32601, "message": format!("dacapo offers no `{method}`")});
            return vec![AcpStep::Send(line(&json!({"jsonrpc": "2.0", "id": id, "error": error})))];
        }
        let params: Value =
            params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        // For once: what is allowed for good, some agents write into files of the repository.
        let kinds = if self.settings.allows {
            ["allow_once", "allow_always"]
        } else {
            ["reject_once", "reject_always"]
        };
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let chosen = kinds.iter().find_map(|kind| options.iter().find(|option| option["kind"] == *kind));
        let outcome = match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option["optionId"]}),
            None => json!({"outcome": "cancelled"}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}});
        let mut steps = vec![AcpStep::Send(line(&answer))];
        if !self.settings.allows || chosen.is_none() {
            let what = params["toolCall"]["title"].as_str().unwrap_or("something");
            steps.push(AcpStep::Warn(format!("the agent asked for a permission and did not get it: {what}")));
        }
        steps
    }

    fn servers(&self) -> Value {
        let servers = self.tools.iter().map(|server| {
            let env: Vec<Value> =
                server.env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            json!({"name": "dacapo", "command": server.command, "args": server.args, "env": env})
        });
        servers.collect()
    }

    fn request(&mut self, kind: AcpRequest, method: &str, params: &Value) -> Vec<u8> {
        self.requests += 1;
        let id = kind.id(self.requests);
        self.awaited = Some(id);
        line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
#[path = "acp_tests.rs"]
mod tests;
