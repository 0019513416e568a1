//! Facts about the workspace: what was there, what was changed, what was kept.

use serde::{Deserialize, Serialize};

use crate::{
    goalposts::MovedGoalpost,
    judge::{evidence::MissingEvidence, tamper::TamperScan},
};

/// The workspace before the first agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Its snapshot: a commit in git, a content hash outside.
    pub snapshot: String,
    /// The tree of that snapshot.
    pub tree: String,
    /// HEAD, if it is a repository with a commit.
    pub head: Option<String>,
    /// Whether it is a git repository: only there can a snapshot be restored.
    pub is_git: bool,
    /// The branch that dacapo commits to, on top of `head`, even if an agent checks out another branch or moves this one;
    /// only where the loop was given the commit that changes count from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// A file that must not change, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedFile {
    /// Relative to the workspace's root.
    pub path: String,
    /// SHA-256 of its content.
    pub sha256: String,
    /// Whether git ignores it, so that no snapshot holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
}

/// What a look at the workspace found when a claim was made and nothing of the agent lived any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// The snapshot that is judged.
    pub snapshot: String,
    pub tree: String,
    /// How many paths differ from the base, dacapo's own left out.
    pub changed: u64,
    /// Some of them, for people.
    pub some: Vec<String>,
    /// Protected paths that differ from the base.
    pub tampered: Vec<String>,
    /// Settings and programs outside of the workspace, and parts of installed test runners, that are not what they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
    /// Commits on the branch since the base, oldest first.
    pub commits: Vec<String>,
    /// Tests that were deleted, skipped or emptied.
    pub tamper: TamperScan,
    /// The words of the agent that contradict its promise.
    pub contradiction: Option<String>,
    /// Evidence that the claimed items ask for and nothing shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_evidence: Vec<MissingEvidence>,
    /// Tests, and files that decide which tests run, that are not what they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedGoalpost>,
    /// Changes that the source of the items does not allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<ForbiddenChange>,
}

impl Examination {
    /// Whether nothing but what lies outside of the agent's work was tampered with, which a person may approve.
    pub fn is_tampered_outside_alone(&self) -> bool {
        !self.outside.is_empty() && self.tampered.is_empty() && self.forbidden.is_empty()
    }
}

/// A change that refuses the claim, even where gates see the protected paths as they were before the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForbiddenChange {
    /// The file, from the top of the repository.
    pub path: String,
    /// What is wrong with it, in one line for people and for the agent.
    pub why: String,
}
