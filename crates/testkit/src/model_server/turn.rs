//! What a scripted model answers, in no provider's words.

use serde_json::Value;

/// The answer to one main request.
///
/// A turn that ends midway does so after about half of its stream; one that says nothing ends before its headers.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedTurn {
    pub(super) parts: Vec<Part>,
    pub(super) usage: Usage,
    pub(super) headers: Vec<(String, String)>,
    pub(super) ending: Ending,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Think(String),
    Say(String),
    Call(ToolCall),
}

/// How an answer ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    Complete,
    Cut,
    /// Nothing more comes, until the client goes away.
    Hang,
    Fail(Failure),
}

/// What the model wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolCall {
    /// A command, by whichever tool for commands the agent offers.
    Shell {
        /// The command, run by `sh`.
        command: String,
    },
    /// A file with its content, by the agent's tool for that, or else by a command.
    Write {
        /// Absolute, as most agents demand.
        path: String,
        content: String,
    },
    /// This tool with this input, even if the agent does not offer it.
    Named { name: String, input: Value },
}

/// What an answer is said to have cost, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    /// Written to a cache; only the Messages protocol reports it.
    pub cache_write: u64,
    /// The part of the output that was reasoning.
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 1200, output: 34, cache_read: 0, cache_write: 0, reasoning: 0 }
    }
}

/// Why the provider refuses, in the words and numbers of the protocol it is asked in.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// 401: the key is no good.
    Unauthorized,
    /// 400, or 429 as OpenAI has it: nothing is left to pay with.
    Billing,
    /// 429: too many requests for the moment.
    RateLimit { retry_after: Option<u64> },
    /// 429: the subscription's or the day's quota is used up.
    UsageLimit {
        /// Seconds since 1970. Gemini's form of this does not tell.
        resets_at: u64,
    },
    /// 500.
    Server,
    /// 529, or 503 where that number is not known.
    Overloaded,
    /// 400: the conversation does not fit.
    ContextTooLong,
    Other {
        status: u16,
        /// Beside those every answer has.
        headers: Vec<(String, String)>,
        body: Value,
    },
}

impl ToolCall {
    /// A command for `sh`.
    pub fn shell(command: impl Into<String>) -> Self {
        Self::Shell { command: command.into() }
    }

    /// A file with its content; `path` is absolute.
    pub fn write(path: impl AsRef<std::path::Path>, content: impl Into<String>) -> Self {
        let path = path.as_ref().to_str().expect("test paths are UTF-8").to_owned();
        Self::Write { path, content: content.into() }
    }

    /// A tool by its name.
    pub fn named(name: impl Into<String>, input: Value) -> Self {
        Self::Named { name: name.into(), input }
    }
}

impl ScriptedTurn {
    fn of(parts: Vec<Part>, ending: Ending) -> Self {
        Self { parts, usage: Usage::default(), headers: Vec::new(), ending }
    }

    /// A text, and that is all.
    pub fn say(text: impl Into<String>) -> Self {
        Self::of(vec![Part::Say(text.into())], Ending::Complete)
    }

    /// Reasoning; something has to follow.
    pub fn think(text: impl Into<String>) -> Self {
        Self::of(vec![Part::Think(text.into())], Ending::Complete)
    }

    /// A tool call; the agent comes back with its result.
    pub fn call(tool: ToolCall) -> Self {
        Self::of(vec![Part::Call(tool)], Ending::Complete)
    }

    /// An HTTP error instead of an answer.
    pub fn fail(failure: Failure) -> Self {
        Self::of(Vec::new(), Ending::Fail(failure))
    }

    /// Not even headers, until the client goes away.
    pub fn hang() -> Self {
        Self::of(Vec::new(), Ending::Hang)
    }

    /// The connection is closed without an answer.
    pub fn cut() -> Self {
        Self::of(Vec::new(), Ending::Cut)
    }

    /// The same turn, in which the model also says this.
    pub fn and_say(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Say(text.into()));
        self
    }

    /// The same turn, in which the model also calls this tool.
    pub fn and_call(mut self, tool: ToolCall) -> Self {
        self.parts.push(Part::Call(tool));
        self
    }

    /// Other numbers than the usual.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// A header beside the usual.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The stream breaks in the middle.
    pub fn cut_midway(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    /// The stream stalls in the middle.
    pub fn hang_midway(mut self) -> Self {
        self.ending = Ending::Hang;
        self
    }

    /// The stream turns into an error in the middle.
    pub fn fail_midway(mut self, failure: Failure) -> Self {
        self.ending = Ending::Fail(failure);
        self
    }
}
