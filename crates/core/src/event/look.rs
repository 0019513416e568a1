//! Where a gate runs and with whose tests, and what was learnt when it was tried before the first agent.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    duration::Millis,
    goalposts::{MustFailTest, TestReport},
};

/// Where a gate runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatePlace {
    #[default]
    Workspace,
    /// A fresh checkout of the tree that would be kept.
    Clean,
}

/// One of the runs of the gates that a claim has to pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    #[serde(rename = "in")]
    pub place: GatePlace,
    /// Whether the tests, and what decides which of them run, are those of before the first agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tests_as_before: bool,
    /// Whether it is the second run in a fresh checkout, for work that is right only once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Whether tests that have to fail were put into the checkout: the gate holds if it is red for them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub must_fail: bool,
}

impl Look {
    pub const WORKSPACE: Self =
        Self { place: GatePlace::Workspace, tests_as_before: false, again: false, must_fail: false };
    pub const CLEAN: Self = Self { place: GatePlace::Clean, ..Self::WORKSPACE };
    pub const AGAIN: Self = Self { again: true, ..Self::CLEAN };
    pub const AS_BEFORE: Self = Self { tests_as_before: true, ..Self::CLEAN };

    /// Whether the gates ran on the claim before: people are told of such a run if it refuses what another believed.
    pub const fn is_repeated(self) -> bool {
        self.tests_as_before || self.again || self.must_fail
    }
}

/// Whether a gate works in a fresh checkout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UseOfCheckout {
    /// What it says there counts.
    Works,
    /// It needs something that is in the workspace and in no snapshot.
    Fails,
    #[default]
    Unknown,
}

/// What a gate came to before the first agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedGate {
    /// It is negative when the gate took too long, was ended or could not be started.
    pub exit_code: i32,
    pub passed: bool,
    pub duration_ms: Millis,
    /// Why there is no exit code, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What its test runner reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<TestReport>,
    /// Must-fail tests that it notices, of those that were put into the checkout. They are asked of it again at a claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<MustFailTest>,
    /// Tests that passed without must-fail tests and failed beside them: such a test counts tests, for example.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub fail_beside: BTreeSet<String>,
    /// Tests and settings that it wrote while it ran: it does so on purpose, as no agent had worked yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    #[serde(default)]
    pub checkout: UseOfCheckout,
    /// Files of the workspace that the checkout lacks: some of them, where that matters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// The program that is neither on PATH nor a path inside the workspace, if that is why it cannot run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_program: Option<String>,
    /// Whether its program is a path in the workspace that is not there yet: the agent may be about to write it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaits_program: bool,
    /// SHA-256 of what it printed.
    #[serde(default)]
    pub output_sha256: String,
    /// The end of what it printed, if it could not run at all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output_tail: String,
}
