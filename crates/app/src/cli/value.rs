//! Values on the command line that need more than their type.

use dacapo_core::{
    agent::catalog::Transport, config::is_branch, judge::evidence, policy, sandbox::SandboxMode,
};

/// Text that is not blank.
pub(super) fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("must not be blank".to_owned()) } else { Ok(text.to_owned()) }
}

/// Text on one line that is not blank.
pub(super) fn one_line(text: &str) -> Result<String, String> {
    if text.contains(['\n', '\r']) { Err("must be one line".to_owned()) } else { not_blank(text) }
}

/// What git takes as the name of a branch.
pub(super) fn branch(text: &str) -> Result<String, String> {
    if is_branch(text) { Ok(text.to_owned()) } else { Err("is no name of a branch".to_owned()) }
}

/// A count of at least one.
pub(super) fn positive(text: &str) -> Result<u32, String> {
    at_least_one(text).map_err(|why| match why.strip_prefix("must be") {
        Some(_) => format!("{why}: a loop without iterations does nothing, one without a limit never ends"),
        None => why,
    })
}

/// A number of things of which there may be none.
pub(super) fn whole(text: &str) -> Result<u32, String> {
    match text.trim().parse::<u32>() {
        Ok(n @ 0..=1_000_000_000) => Ok(n),
        Ok(_) => Err("is more than a billion".to_owned()),
        Err(_) => Err("is not a whole number".to_owned()),
    }
}

/// A number of things of which there must be one.
pub(super) fn at_least_one(text: &str) -> Result<u32, String> {
    match text.trim().parse::<i64>() {
        Ok(n @ 1..=1_000_000_000) => Ok(n as u32),
        Ok(..=0) => Err("must be at least 1".to_owned()),
        Ok(_) => Err("is more than a billion".to_owned()),
        Err(_) => Err("is not a whole number".to_owned()),
    }
}

/// US dollars, more than none.
pub(super) fn dollars(text: &str) -> Result<f64, String> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match text.parse::<f64>() {
        Ok(value) if is_number && value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err("is not an amount of US dollars, more than 0, for example 2.50".to_owned()),
    }
}

/// Tokens, more than none.
pub(super) fn tokens(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(value @ 1..=1_000_000_000_000_000) => Ok(value),
        _ => Err("is not a whole number of tokens, 1 or more".to_owned()),
    }
}

/// `+N`, or `N` for people who leave the plus out.
pub(super) fn extra(text: &str) -> Result<u32, String> {
    positive(text.strip_prefix('+').unwrap_or(text))
}

/// How an agent is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TransportFlag {
    Stdio,
    Acp,
}

impl From<TransportFlag> for Transport {
    fn from(value: TransportFlag) -> Self {
        match value {
            TransportFlag::Stdio => Self::Stdio,
            TransportFlag::Acp => Self::Acp,
        }
    }
}

/// Where gates run.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum GateInFlag {
    /// In the workspace, and in a fresh checkout before a claim is believed
    Both,
    /// In the workspace alone
    Workspace,
    /// In a fresh checkout alone
    Clean,
}

impl From<GateInFlag> for policy::GateIn {
    fn from(value: GateInFlag) -> Self {
        match value {
            GateInFlag::Both => Self::Both,
            GateInFlag::Workspace => Self::Workspace,
            GateInFlag::Clean => Self::Clean,
        }
    }
}

/// What an agent may do with tests that are there already.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum TestsFlag {
    /// Nothing
    Sealed,
    /// Change them, but the gates must also pass with the tests and runner settings as they were
    Checked,
    /// Change them freely
    Free,
}

impl From<TestsFlag> for policy::TestsMode {
    fn from(value: TestsFlag) -> Self {
        match value {
            TestsFlag::Sealed => Self::Sealed,
            TestsFlag::Checked => Self::Checked,
            TestsFlag::Free => Self::Free,
        }
    }
}

/// What an agent and the gates may write.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum SandboxFlag {
    /// Everything that you may write
    Off,
    /// Everything but dacapo's own state, your startup and tool configuration and programs on PATH
    Guard,
    /// Only the workspace, temporary files and the agent's own folders; credentials of other tools cannot be read
    Workspace,
}

impl From<SandboxFlag> for SandboxMode {
    fn from(value: SandboxFlag) -> Self {
        match value {
            SandboxFlag::Off => Self::Off,
            SandboxFlag::Guard => Self::Guard,
            SandboxFlag::Workspace => Self::Workspace,
        }
    }
}

/// What an agent must show beside its claim.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum EvidenceFlag {
    /// A commit on the branch
    Commit,
    /// Gates that pass; without any, words about tests that passed
    Tests,
    /// Words that approve the work
    Approval,
}

impl From<EvidenceFlag> for evidence::Evidence {
    fn from(value: EvidenceFlag) -> Self {
        match value {
            EvidenceFlag::Commit => Self::Commit,
            EvidenceFlag::Tests => Self::Tests,
            EvidenceFlag::Approval => Self::Approval,
        }
    }
}

/// Whose version of the protected paths gates see.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum GateFromFlag {
    Workspace,
    Base,
}

impl From<GateFromFlag> for policy::GateFrom {
    fn from(value: GateFromFlag) -> Self {
        match value {
            GateFromFlag::Workspace => Self::Workspace,
            GateFromFlag::Base => Self::Base,
        }
    }
}
