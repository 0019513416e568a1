//! Workflows: YAML files that say which steps are taken, in which order, and when they count as done.
//!
//! ```text
//!  bytes ─► parse ─► Workflow (a graph of steps) ─► commands ─► machine: one run of it
//!            │          steps:, loop: and nodes: become the same
//!            └─► problems: file, line, snippet, fix
//! ```
//!
//! A file has `steps`, a `loop` with a `prompt`, or `nodes`, which is how Archon writes them. All three become a graph of
//! [`Step`]s, and everything behind [`parse`] knows only that graph. `docs/design/0017-workflows.md` says why.

pub mod answer;
pub mod builtin;
pub mod catalogue;
pub mod command;
pub mod condition;
pub mod dry_run;
mod graph;
pub mod keys;
pub mod machine;
pub mod messages;
mod parse;
mod reader;
pub mod schema;
pub mod shell;
pub mod template;
pub mod told;

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use condition::Condition;
pub(crate) use parse::useless_keys;
pub use parse::{LeftOut, ParseSettings, Parsed, parse};

use crate::{duration::Millis, policy::Origin};

/// The agent of a workflow that names none, where the user has configured none either.
pub const DEFAULT_PROVIDER: &str = "claude";
/// The longest answer of a step that is kept; of a longer one its end.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// A workflow that can be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    pub name: String,
    pub description: String,
    /// The file it stands in, from the top of the repository.
    pub file: String,
    pub form: WorkflowForm,
    pub dialect: Dialect,
    /// The agent of every step that names no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What all steps may cost together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkflowBudget>,
    /// In the order of the file; no step depends on itself, however indirectly.
    pub steps: Vec<Step>,
}

impl Workflow {
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == *id)
    }

    /// The seed's loop, if the workflow is one.
    pub fn as_loop(&self) -> Option<&LoopStep> {
        match (self.form, self.steps.first().map(|step| &step.kind)) {
            (WorkflowForm::Loop, Some(StepKind::Loop(looped))) => Some(looped),
            _ => None,
        }
    }
}

/// How a file writes its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowForm {
    /// One after the other, unless `depends_on` says otherwise.
    Steps,
    /// One prompt, again and again.
    Loop,
    /// Archon's: a step without `depends_on` begins at once.
    Nodes,
}

/// Whose rules a file follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    Dacapo,
    /// A file below `.archon/`: words *or* a check end a loop.
    Archon,
}

impl Dialect {
    /// By where a file lies, from the top of the repository.
    pub fn of(file: &str) -> Self {
        if file.starts_with(".archon/") { Self::Archon } else { Self::Dacapo }
    }
}

/// The name of a step within its workflow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepId(String);

impl StepId {
    /// Letters, digits, `_` and `-`, at most 64, the first no `-`.
    pub fn new(text: &str) -> Option<Self> {
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let is_good = text.len() <= 64
            && text.bytes().next().is_some_and(is_word)
            && text.bytes().all(|b| is_word(b) || b == b'-');
        is_good.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One step of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub id: StepId,
    /// Where it begins in its file.
    #[serde(default)]
    pub line: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Steps that must be settled first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepId>,
    /// Skipped unless this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    #[serde(default)]
    pub trigger_rule: TriggerRule,
    /// Whether and how often it is tried again when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default)]
    pub session: SessionRule,
    /// Whether it has a checkout of its own. Steps without one take turns.
    #[serde(default)]
    pub worktree: bool,
    /// How long its agent may stay silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Millis>,
    /// What it may cost by itself, within the budget of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkflowBudget>,
    pub kind: StepKind,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// An agent works on a prompt once.
    Agent(AgentStep),
    /// An agent works on a prompt until it is done.
    Loop(LoopStep),
    /// A script for `sh -c`.
    Bash(BashStep),
    /// A person approves, rejects or chooses.
    Approval(ApprovalStep),
    /// Nothing happens until something else has.
    Wait(WaitFor),
    /// The run ends here.
    Cancel { reason: String },
}

impl StepKind {
    /// The word for it, as it stands in files.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Agent(AgentStep { prompt: Prompt { command: Some(_), .. }, .. }) => "command",
            Self::Agent(_) => "prompt",
            Self::Loop(_) => "loop",
            Self::Bash(_) => "bash",
            Self::Approval(_) => "approval",
            Self::Wait(_) => "wait",
            Self::Cancel { .. } => "cancel",
        }
    }

    /// Whether an agent answers.
    pub fn has_agent(&self) -> bool {
        matches!(self, Self::Agent(_) | Self::Loop(_))
    }

    /// Whether an agent answers and checks decide about what it left behind.
    pub fn has_checks(&self) -> bool {
        match self {
            Self::Agent(agent) => !agent.gates.is_empty(),
            Self::Loop(looped) => {
                let decides =
                    matches!(looped.completion(), Completion::Check(_) | Completion::WordsThenCheck(..));
                decides || !looped.gates.is_empty()
            }
            Self::Bash(_) | Self::Approval(_) | Self::Wait(_) | Self::Cancel { .. } => false,
        }
    }

    /// Whether it needs the files of the workspace while it runs.
    pub fn uses_workspace(&self) -> bool {
        matches!(self, Self::Agent(_) | Self::Loop(_) | Self::Bash(_))
    }
}

/// What an agent is asked, with [variables](template).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Empty until the command file was read, if there is one.
    pub text: String,
    /// The command file it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStep {
    pub prompt: Prompt,
    /// Checks that must pass when the agent has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<StepGate>,
    /// The JSON Schema of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_format: Option<serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopStep {
    pub prompt: Prompt,
    /// What the agent says when it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// A script that exits 0 when the work is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_bash: Option<String>,
    #[serde(default)]
    pub agreement: Agreement,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<StepGate>,
    pub max_iterations: u32,
    /// Whether each iteration begins a session of its own.
    #[serde(default)]
    pub fresh_context: bool,
    /// What a person is asked after each iteration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_message: Option<String>,
    /// Whether an interactive loop ends without asking when it is done.
    #[serde(default)]
    pub signal_completes: bool,
}

/// What it takes for a loop with words (`until`) and a check (`until_bash`) to be done. Gates have to pass either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The words are a claim and the check decides.
    #[default]
    Both,
    /// One of them is enough.
    Either,
}

/// How the ways to be done that a loop has fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion<'a> {
    /// The agent's words are a claim.
    Words(&'a str),
    /// dacapo claims by itself when the script exits 0.
    Check(&'a str),
    /// The agent's words are a claim, and the script is a gate.
    WordsThenCheck(&'a str, &'a str),
    /// The agent's words are a claim, and the script exiting 0 is one too.
    WordsOrCheck(&'a str, &'a str),
}

impl LoopStep {
    pub fn completion(&self) -> Completion<'_> {
        match (self.until.as_deref(), self.until_bash.as_deref(), self.agreement) {
            (Some(words), Some(check), Agreement::Both) => Completion::WordsThenCheck(words, check),
            (Some(words), Some(check), Agreement::Either) => Completion::WordsOrCheck(words, check),
            (None, Some(check), _) => Completion::Check(check),
            (words, None, _) => Completion::Words(words.unwrap_or_default()),
        }
    }

    pub fn is_interactive(&self) -> bool {
        self.gate_message.is_some()
    }
}

/// A check that dacapo runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepGate {
    pub name: String,
    pub run: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    #[serde(default)]
    pub retries: u32,
}

impl StepGate {
    /// For the policy of a loop.
    pub fn spec(&self, origin: Origin) -> crate::policy::GateSpec {
        let mut spec = crate::policy::GateSpec::of_command(&self.run);
        spec.name.clone_from(&self.name);
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        spec.retries = self.retries;
        spec.origin = origin;
        spec
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BashStep {
    pub script: String,
    pub timeout: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalStep {
    pub message: String,
    /// What a person can choose from; empty: approve or reject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<OfferedDecision>,
    /// Whether the person's words are the answer of the step.
    #[serde(default)]
    pub capture_response: bool,
    /// What an agent is asked when the person wants changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_reject: Option<Rework>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedDecision {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether it sends the work back instead of going on.
    #[serde(default)]
    pub rework: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rework {
    pub prompt: String,
    pub max_attempts: u32,
}

/// What a waiting step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    Duration(Millis),
    Time(Timestamp),
    /// A file in the workspace exists.
    File(String),
    /// A person or a program has sent a signal of this name.
    Signal(String),
}

impl fmt::Display for WaitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration(length) => write!(f, "{length}"),
            Self::Time(at) => write!(f, "until {at}"),
            Self::File(file) => write!(f, "for the file `{file}`"),
            Self::Signal(name) => write!(f, "for the signal `{name}`"),
        }
    }
}

/// When a step runs, by how the steps that it depends on ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerRule {
    #[default]
    AllSuccess,
    OneSuccess,
    NoneFailedMinOneSuccess,
    AllDone,
}

impl TriggerRule {
    pub const WORDS: [(&str, Self); 4] = [
        ("all_success", Self::AllSuccess),
        ("one_success", Self::OneSuccess),
        ("none_failed_min_one_success", Self::NoneFailedMinOneSuccess),
        ("all_done", Self::AllDone),
    ];
}

/// How often a step that failed is tried again, and after how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Tries beyond the first.
    pub max_attempts: u32,
    /// Before the first of them; it doubles each time.
    pub delay: Millis,
    pub on_error: RetryOn,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// Errors that may be gone by themselves.
    #[default]
    Transient,
    All,
}

/// Whether an agent goes on with the session of the agent before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRule {
    #[default]
    Fresh,
    Shared,
}

/// What may be spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkflowBudget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<Millis>,
    pub mode: BudgetMode,
}

/// What follows when a budget is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetMode {
    /// The user is warned, and the run goes on.
    Audit,
    /// Nothing more is started.
    #[default]
    Enforce,
}
