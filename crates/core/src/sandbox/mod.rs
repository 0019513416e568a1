//! The guard: what an agent and everything below it may write, read and reach. Here is what is decided; the engine does it.

mod layout;
mod names;
mod own_branch;
mod packed_refs;
mod taken_in;

pub use layout::{LandlockGrants, Layout, MountPoint, MountStep, PathAccess, PathFacts, aliases};
pub use names::{Names, Surroundings, names};
pub use own_branch::{BranchStep, branch_step};
pub use packed_refs::packed_refs;
pub use taken_in::{taken_in_by_git, taken_in_by_shell};

use std::{collections::BTreeSet, fmt, path::PathBuf};

use serde::{Deserialize, Serialize};

/// What an agent may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// Everything that the user may.
    Off,
    /// Everything but dacapo's state, the user's startup files and tool configuration, and programs on PATH.
    #[default]
    Guard,
    /// Only the workspace, temporary files and the agent's own folders; credentials of other tools cannot be read.
    Workspace,
}

impl SandboxMode {
    pub const WORDS: [(&'static str, Self); 3] =
        [("off", Self::Off), ("guard", Self::Guard), ("workspace", Self::Workspace)];
}

impl fmt::Display for SandboxMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, mode)| mode == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

/// By what means of the system the sandbox is held; the better one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxTier {
    None,
    /// Landlock, which can only allow.
    Landlock,
    /// Mount, user and PID namespaces.
    #[default]
    Namespaces,
}

impl SandboxTier {
    pub const WORDS: [(&'static str, Self); 3] =
        [("none", Self::None), ("landlock", Self::Landlock), ("namespaces", Self::Namespaces)];
}

impl fmt::Display for SandboxTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, tier)| tier == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

/// The sandbox that a loop was told to work in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SandboxRules {
    pub mode: SandboxMode,
    /// The best tier that may be used: less than the system allows only if the user says so.
    pub tier: SandboxTier,
    /// What may be written beside what the mode allows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// What may be read beside what the mode allows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
}

impl SandboxRules {
    pub fn off() -> Self {
        Self { mode: SandboxMode::Off, ..Self::default() }
    }

    pub fn is_off(&self) -> bool {
        *self == Self::off()
    }
}

/// The sandbox that a loop in fact had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxHeld {
    pub mode: SandboxMode,
    pub tier: SandboxTier,
    /// What the mode promises and this machine could not hold, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<String>,
    /// The branch that agents move, where all the refs that they see are their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Whether all the refs that they see are their own in a worktree that is on no branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_refs_at_commit: bool,
}

impl SandboxHeld {
    pub fn off() -> Self {
        Self { mode: SandboxMode::Off, tier: SandboxTier::None, ..Self::default() }
    }

    /// The mode, if anything of it is held.
    pub fn mode_held(&self) -> SandboxMode {
        if self.tier == SandboxTier::None { SandboxMode::Off } else { self.mode }
    }

    /// Whether all that the mode promises is held by the best means.
    pub fn is_whole(&self) -> bool {
        self.tier == SandboxTier::Namespaces && self.open.is_empty()
    }

    /// What a person is told of a sandbox that does not hold all of it: the words, and each thing that is left open. A line that was
    /// `told` of another one is not told again.
    pub fn shortfall(&self, told: &mut BTreeSet<String>) -> Vec<String> {
        if self.is_whole() {
            return Vec::new();
        }
        let open = self.open.iter().map(|open| format!("left open: {open}"));
        std::iter::once(self.words()).chain(open).filter(|line| told.insert(line.clone())).collect()
    }

    /// Whether this holds less than `other` did.
    pub fn is_less_than(&self, other: &Self) -> bool {
        (self.mode_held(), self.tier) < (other.mode_held(), other.tier) || self.tier < other.tier
    }

    /// In a few words, for the line above a loop.
    pub fn words(&self) -> String {
        match (self.mode, self.tier) {
            (SandboxMode::Off, _) => "no sandbox".to_owned(),
            (_, SandboxTier::None) if self.open.is_empty() => {
                "no sandbox: `sandbox.tier` says `none`".to_owned()
            }
            (mode, SandboxTier::None) => format!("no sandbox: this system allows no `{mode}`"),
            (mode, tier) => format!("{mode} ({tier})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_does_not_hold_is_told_once() {
        let held = |tier, open: &[&str]| SandboxHeld {
            tier,
            open: open.iter().map(|open| (*open).to_owned()).collect(),
            ..SandboxHeld::default()
        };
        let mut told = BTreeSet::new();
        let mut lines = |held: &SandboxHeld| held.shortfall(&mut told);
        assert_eq!(lines(&held(SandboxTier::Namespaces, &[])), Vec::<String>::new());
        let first = held(SandboxTier::Landlock, &["a"]);
        assert_eq!(lines(&first), ["guard (landlock)", "left open: a"]);
        assert_eq!(lines(&first), Vec::<String>::new());
        assert_eq!(lines(&held(SandboxTier::Landlock, &["a", "b"])), ["left open: b"]);
        assert_eq!(lines(&SandboxHeld::off()), ["no sandbox"]);
    }
}
