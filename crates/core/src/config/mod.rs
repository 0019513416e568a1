//! What configuration files say: a repository's `.dacapo/config.yaml` and the user's own, read alike.
//!
//! Each section has its file with its keys, its checks and its tests. [`resolve`] says who may decide what.

mod checks;
mod contradictions;
mod gates;
mod layers;
mod limits;
mod paths;
mod problem;
mod section;
mod snapshots;
mod worktree;

pub use checks::Checks;
pub use contradictions::Contradictions;
pub use gates::Gate;
pub use layers::{Effective, EffectiveGate, Source, Sourced, Typed, resolve};
pub use limits::Limits;
pub use problem::{Problem, Problems};
pub use snapshots::Snapshots;
pub use worktree::{SetupStep, Worktree};

use section::Section;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The person who runs dacapo.
    User,
    /// Whoever wrote the repository: not an authority on anything but its own work.
    Repository,
}

/// A value and the line it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// What the file says.
    pub value: T,
    /// Where.
    pub line: u32,
}

/// One configuration file; everything in it is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The file, as it is shown to people.
    pub file: String,
    /// `limits`.
    pub limits: Limits,
    /// `gates`.
    pub gates: Vec<At<Gate>>,
    /// `protect`.
    pub protect: Vec<At<String>>,
    /// `worktree`.
    pub worktree: Worktree,
    /// `baseline`, `red_first`, `gate_in`, `gate_from`, `tolerate_baseline`.
    pub checks: Checks,
    /// `contradictions`.
    pub contradictions: Option<At<Contradictions>>,
    /// `snapshots`.
    pub snapshots: Snapshots,
}

/// The keys of a file.
pub const KEYS: [&str; 11] = [
    "limits",
    "gates",
    "protect",
    "worktree",
    "baseline",
    "red_first",
    "gate_in",
    "gate_from",
    "tolerate_baseline",
    "contradictions",
    "snapshots",
];

/// Every key there is, written as a path, for the documentation to be held against.
pub fn all_keys() -> Vec<String> {
    let below = |section: &str, keys: &[&str]| keys.iter().map(|key| format!("{section}.{key}")).collect();
    let parts: [Vec<String>; 6] = [
        KEYS.map(str::to_owned).into(),
        below("limits", &limits::KEYS),
        below("gates[]", &gates::KEYS),
        below("worktree", &worktree::KEYS),
        below("worktree.setup[]", &worktree::SETUP_KEYS),
        below("snapshots", &snapshots::KEYS),
    ];
    parts.concat()
}

/// Reads a file's bytes, or says everything that is wrong with them.
pub fn parse(file: &str, bytes: &[u8], author: Author) -> Result<Config, Problems> {
    let (root, wrong) = crate::yaml::read(bytes);
    let mut problems = Problems::new(file, bytes);
    problems.extend(wrong);
    let mut config = Config { file: file.to_owned(), ..Config::default() };
    if let Some(root) = root
        && !section::is_nothing(&root)
        && let Some(mut top) = Section::of("the file", root, &KEYS, author, &mut problems)
    {
        config.limits = limits::read(&mut top);
        config.gates = gates::read(&mut top);
        config.protect = paths::read_protect(&mut top);
        config.worktree = worktree::read(&mut top);
        config.checks = checks::read(&mut top);
        config.contradictions = contradictions::read(&mut top);
        config.snapshots = snapshots::read(&mut top);
    }
    problems.or(config)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
