//! What `dacapo` below an agent and the supervisor of its loop say to each other: each a line of JSON.
//!
//! A connection carries one question at a time; one that watches is told news until it is closed. Every question names the
//! version of this protocol; a supervisor that does not speak it says so instead of guessing.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use dacapo_core::{
    bus::BusMessage,
    duration::Millis,
    event::{Envelope, LoopStarted, Usage},
    ids::{LoopId, ProjectId, TaskId},
    loop_machine::LoopState,
    prompt,
    view::LoopView,
};
use serde::{Deserialize, Serialize};

use crate::store::Channel;

/// The version of this protocol.
pub const VERSION: u32 = 1;

/// What is asked of a supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// Post a message to a bus. A `QUESTION` is also shown to the user at once.
    Post {
        /// The type of the message.
        kind: String,
        body: String,
        bus: BusName,
    },
    ReadBus {
        bus: BusName,
        /// Begin here: 0, or where the last answer ended.
        from: u64,
    },
    /// The same as exit 42: do not start the agent again before the user has done something.
    Wait {
        /// What the agent waits for.
        why: String,
    },
    Question {
        text: String,
    },
    /// Claim to be done, as the file `DONE` does.
    Claim {
        /// What the agent wants to say about it.
        note: String,
        /// Take no claim while a question is unanswered or a child loop runs.
        #[serde(default, skip_serializing_if = "is_false")]
        only_if_settled: bool,
    },
    /// The agent cannot do what it was asked, as the tag `<blocked>` in its output says.
    Blocked {
        why: String,
    },
    /// What the loop is about, what it may use and has used, and why its last claim did not hold.
    About,
    /// Start a child loop. The descriptors of its standard output and standard error come with this line.
    Start(StartChild),
    /// The agent's own loop, its child loops, and theirs.
    Family,
    /// Events of a loop of the family.
    Events {
        id: LoopId,
        /// Begin with this sequence number.
        from: u64,
    },
    /// What a loop of the family has printed.
    Output {
        id: LoopId,
        /// Which of its outputs.
        channel: Channel,
        /// Begin with this byte.
        from: u64,
    },
    /// End a child loop for good.
    Cancel {
        id: LoopId,
    },
    /// Tell on this connection, at once and until it is closed, that it is worth reading again.
    Watch(Watched),
}

/// What is watched for whom waits for something new. The events of the family always are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "watched", rename_all = "snake_case")]
pub enum Watched {
    /// The events of the family, and nothing else.
    Events,
    /// What a loop of the family prints.
    Output { id: LoopId },
    /// The messages of a bus.
    Bus { bus: BusName },
}

/// The message bus that is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusName {
    /// The bus of the agent's own task.
    Own,
    /// The bus of a project.
    Project(ProjectId),
    /// The bus of a task.
    Task(ProjectId, TaskId),
}

/// A `dacapo run` that was typed below an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartChild {
    /// Its arguments, beginning with `run`.
    pub args: Vec<Words>,
    /// The folder it was typed in.
    pub dir: Words,
    /// The environment it was typed in, which the child's agents inherit.
    pub env: Vec<(Words, Words)>,
    /// What was on its standard input, if the prompt is read from there.
    pub input: Option<String>,
    /// Whether it is to run in the background.
    pub is_detached: bool,
}

/// What a supervisor answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum AskAnswer {
    /// It was posted, and this is the message's id.
    Posted {
        id: String,
    },
    /// Messages of a bus.
    Messages {
        /// The messages, oldest first.
        messages: Vec<BusMessage>,
        /// Where to go on.
        next: u64,
    },
    /// The supervisor took it.
    Taken {
        /// The gates that decide about a claim once the agent has ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gates: Vec<String>,
    },
    /// The child loop's process was started. [`AskAnswer::Exited`] follows on the same connection.
    Started,
    /// The child loop's process has ended.
    Exited {
        /// Its exit code, 128 and more if a signal ended it.
        code: u8,
    },
    About(Box<LoopAbout>),
    Loops {
        /// The agent's own loop.
        own: LoopId,
        /// The loops, oldest first.
        loops: Vec<LoopRecord>,
    },
    Events {
        events: Vec<Envelope>,
        /// Whether there are more.
        more: bool,
    },
    Output {
        bytes: Words,
        /// How much there is in all.
        end: u64,
    },
    /// From now on [`AskAnswer::News`] follows on the same connection.
    Watching,
    /// What is watched may have changed since the last news.
    News,
    /// It was not done.
    Refused(AskRefusal),
}

/// Why a supervisor did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskRefusal {
    /// Why, in one sentence.
    pub why: String,
    /// What to try instead.
    pub hint: Option<String>,
    /// The exit code that fits: 2 for a mistake, 4 if the user has to decide, 5 if the machine is in the way.
    pub exit: u8,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl AskAnswer {
    pub(crate) fn taken() -> Self {
        Self::Taken { gates: Vec::new() }
    }
}

impl AskRefusal {
    /// A mistake of the one who asked.
    pub(crate) fn mistake(why: impl ToString) -> Self {
        Self { why: why.to_string(), hint: None, exit: 2 }
    }

    /// Something that only the user may do.
    pub(crate) fn not_yours(why: impl ToString) -> Self {
        Self { why: why.to_string(), hint: Some(ASK_THE_USER.to_owned()), exit: 4 }
    }

    /// Something that the machine does not allow now.
    pub(crate) fn failed(why: impl ToString) -> Self {
        Self { why: why.to_string(), hint: None, exit: 5 }
    }
}

/// The way out for an agent that may not do something itself.
pub const ASK_THE_USER: &str = "`dacapo ask \"…\"` asks the user";

/// What the agent of a loop may know about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopAbout {
    pub id: LoopId,
    pub project: ProjectId,
    pub task: TaskId,
    pub workspace: PathBuf,
    /// What is asked, in the user's words.
    pub prompt: String,
    /// The promise that this iteration's agent may print.
    pub promise: String,
    /// The gates that decide about a claim: name and command.
    pub gates: Vec<(String, String)>,
    pub protected: Vec<String>,
    pub iteration: u32,
    pub max_iterations: u32,
    pub spent_ms: Millis,
    pub max_time_ms: Option<Millis>,
    pub iteration_timeout_ms: Option<Millis>,
    pub idle_timeout_ms: Option<Millis>,
    pub cost_usd: Option<f64>,
    pub max_cost_usd: Option<f64>,
    pub tokens: Option<Usage>,
    pub max_tokens: Option<u64>,
    /// Why the last claim did not hold.
    pub refusal: Option<String>,
    /// A question that no person has answered yet.
    pub question: Option<String>,
    /// Child loops that run.
    pub children: Vec<LoopId>,
}

impl LoopAbout {
    /// What `state` and `view` say of a loop to its agent.
    pub(crate) fn of(
        started: &LoopStarted,
        state: &LoopState,
        view: &LoopView,
        children: Vec<LoopId>,
    ) -> Self {
        let (policy, iteration) = (&started.policy, state.counters.iterations);
        let gates = policy.gates.specs.iter().map(|gate| (gate.name.clone(), gate.run.clone()));
        Self {
            id: view.id.clone(),
            project: started.project.clone(),
            task: started.task.clone(),
            workspace: started.workspace.clone(),
            prompt: started.prompt.clone(),
            promise: policy.claims.promise.expected(&prompt::nonce(started, iteration)),
            gates: gates.collect(),
            protected: policy.gates.protect.clone(),
            iteration,
            max_iterations: state.limits.max_iterations,
            spent_ms: state.counters.spent,
            max_time_ms: state.limits.max_time,
            iteration_timeout_ms: policy.limits.iteration_timeout,
            idle_timeout_ms: policy.limits.idle_timeout,
            cost_usd: view.cost_usd,
            max_cost_usd: state.limits.max_cost,
            tokens: view.tokens,
            max_tokens: state.limits.max_tokens,
            refusal: prompt::refusal(state),
            question: view.question.clone(),
            children,
        }
    }

    /// What must end before the agent can claim to be done by a tool.
    pub(crate) fn still_open(&self) -> Option<String> {
        if let Some(question) = &self.question {
            return Some(format!(
                "your question is not answered yet: {}. End your turn without a claim; the answer will be in a later prompt",
                question.trim_end()
            ));
        }
        let children: Vec<&str> = self.children.iter().map(LoopId::as_str).collect();
        (!children.is_empty()).then(|| {
            format!("child loops of yours still run: {}. Wait for their end first", children.join(", "))
        })
    }
}

/// A loop as its family sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopRecord {
    /// What people see of it now.
    pub view: LoopView,
    /// Whether it has a supervisor.
    pub is_running: bool,
}

/// Bytes that most often are text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TextOrBytes", into = "TextOrBytes")]
pub struct Words(pub Vec<u8>);

impl Words {
    /// The same for the operating system.
    pub fn to_os(&self) -> OsString {
        OsString::from_vec(self.0.clone())
    }
}

impl<T: AsRef<OsStr>> From<T> for Words {
    fn from(text: T) -> Self {
        Self(text.as_ref().as_bytes().to_vec())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<TextOrBytes> for Words {
    fn from(value: TextOrBytes) -> Self {
        match value {
            TextOrBytes::Text(text) => Self(text.into_bytes()),
            TextOrBytes::Bytes(bytes) => Self(bytes),
        }
    }
}

impl From<Words> for TextOrBytes {
    fn from(words: Words) -> Self {
        String::from_utf8(words.0).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    said: T,
}

/// A question or an answer as a line.
pub(crate) fn line(said: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Versioned { v: VERSION, said }).unwrap_or_default();
    line.push(b'\n');
    line
}

pub(crate) fn question(line: &[u8]) -> Result<Ask, AskRefusal> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let nonsense = |error: serde_json::Error| AskRefusal::mistake(format!("not understood: {error}"));
    let Version { v } = serde_json::from_slice(line).map_err(nonsense)?;
    if v != VERSION {
        let why =
            format!("this loop is run by a dacapo that speaks version {VERSION} of its protocol, not {v}");
        return Err(AskRefusal::failed(why));
    }
    serde_json::from_slice::<Versioned<Ask>>(line).map(|asked| asked.said).map_err(nonsense)
}

pub(crate) fn answer(line: &[u8]) -> Result<AskAnswer, serde_json::Error> {
    serde_json::from_slice::<Versioned<AskAnswer>>(line).map(|answered| answered.said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_arrive_as_they_were_said() {
        let start = StartChild {
            args: vec!["run".into(), Words(vec![0xff, b'x'])],
            dir: "/".into(),
            env: vec![("A".into(), "b=c".into())],
            input: None,
            is_detached: true,
        };
        for ask in [
            Ask::Family,
            Ask::About,
            Ask::Claim { note: "all".into(), only_if_settled: true },
            Ask::Blocked { why: "no key".into() },
            Ask::Start(start),
            Ask::Post {
                kind: "INFO".into(),
                body: "two\nlines".into(),
                bus: BusName::Task("p".parse().unwrap(), "t".parse().unwrap()),
            },
            Ask::Output { id: "aaaaaaaaaa".parse().unwrap(), channel: Channel::Stderr, from: 7 },
            Ask::Watch(Watched::Events),
            Ask::Watch(Watched::Bus { bus: BusName::Own }),
        ] {
            let line = line(&ask);
            assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
            assert_eq!(question(&line), Ok(ask));
        }
        for said in [
            AskAnswer::Exited { code: 3 },
            AskAnswer::taken(),
            AskAnswer::Taken { gates: vec!["tests".into()] },
            AskAnswer::Output { bytes: Words(vec![b'a', 0xfe]), end: 2 },
            AskAnswer::Refused(AskRefusal::not_yours("no")),
        ] {
            assert_eq!(answer(&line(&said)).unwrap(), said);
        }
    }

    #[test]
    fn nonsense_and_other_versions_are_refused_in_words() {
        for (line, why, exit) in [
            ("", "not understood", 2),
            ("{\"v\":1}", "not understood", 2),
            ("{\"v\":1,\"ask\":\"approve\"}", "not understood", 2),
            ("{\"v\":7,\"ask\":\"family\"}", "version 1 of its protocol, not 7", 5),
        ] {
            let refusal = question(line.as_bytes()).unwrap_err();
            assert!(refusal.why.contains(why) && refusal.exit == exit, "{line}: {refusal:?}");
        }
    }
}
