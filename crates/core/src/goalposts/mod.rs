//! Goalposts: the files, and parts of files, that decide what a gate runs and what it compares with.
//!
//! The engine reads them before the first agent and again when a claim is made ([`Goalposts`]); [`Goalposts::moved_to`] says
//! what differs. What follows from that is decided by the loop machine: the gates have to pass once more with every goalpost
//! where it was ([`SharedFile::as_before`] puts the parts of shared files back).

mod conventions;
mod doc_tests;
mod expectations;
mod follow;
mod generators;
mod links;
mod makefile;
mod missed;
mod modules;
mod must_fail;
mod references;
mod renames;
mod report;
mod runner;
mod shared_files;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use conventions::{
    ABOVE, IN_HOME, PROFILES, RUNNER_PARTS, SHADOW_PACKAGES, SHADOWS, is_discovered, is_left_out,
    is_loaded_by_unittest, kind_of, kind_of_work, starts_with_profiles, test_of_snapshots,
};
pub use follow::{Followed, FollowedFile, Following, branches_read, follow};
pub use generators::Generators;
pub use links::is_link_to_system;
pub use makefile::makefile_as_before;
pub use missed::missed_tests;
pub use modules::{below, packages_of_test, python_packages_of_test};
pub use must_fail::{
    FailurePlace, MAX_MUST_FAIL, MustFailRun, MustFailSearch, MustFailTest, ends_as_its_tests_do,
    expected_numbers, must_fail_name, must_fail_tests, must_fail_tests_of_claim, with_must_fail_tests,
};
pub use references::rests_on;
pub use renames::{RenamedPackage, moved_folders};
pub use report::{ReportReader, TestReport};
pub use runner::{Runner, runners};
pub use shared_files::{Checks, SharedFile};

use crate::{event::UseOfCheckout, receipt::sha256};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalpostKind {
    /// A test, or what tests compare with.
    Test,
    /// A file that decides as a whole what a runner does.
    Setting,
    /// A file that a gate's script runs, sources or includes.
    Followed,
    /// A script of a gate that makes a part of the program and judges nothing: it may change, and has to make its files anew.
    Generator,
    /// A file that takes the place of a part of the test runner.
    Shadow,
    /// A file that is shared with other work, of which only some keys or blocks decide.
    Keys(SharedFile),
}

impl GoalpostKind {
    pub fn holds_tests(self) -> bool {
        matches!(self, Self::Test | Self::Keys(SharedFile::RustSource))
    }
}

/// A goalpost as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goalpost {
    pub kind: GoalpostKind,
    /// SHA-256 of its bytes, or of the part that decides.
    pub sha256: String,
}

impl Goalpost {
    /// The goalpost in a file of this kind that holds `bytes`; `None` if no part of it decides.
    pub fn of(kind: GoalpostKind, bytes: &[u8]) -> Option<Self> {
        let sha256 = match kind {
            GoalpostKind::Keys(shared) => match std::str::from_utf8(bytes) {
                Ok(text) => sha256(shared.deciding_part(text)?.as_bytes()),
                Err(_) => sha256(bytes),
            },
            _ => sha256(bytes),
        };
        Some(Self { kind, sha256 })
    }
}

/// All goalposts of a workspace, by their paths from its top.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Goalposts(pub BTreeMap<String, Goalpost>);

/// What is recorded of the goalposts of a start: enough to know the list again, which is kept beside the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalpostSeal {
    pub files: u64,
    /// How many of them hold tests.
    pub tests: u64,
    /// SHA-256 of the list.
    pub sha256: String,
}

/// A file outside of the workspace that decides what gates do, as it was before the first agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideFile {
    /// What gates call it, if it is a program that PATH finds; otherwise it is a setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    pub path: String,
    /// SHA-256 of its bytes; of a folder, of the names in it.
    pub sha256: String,
}

/// What became of a goalpost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    Changed,
    Removed,
    Added,
}

/// A goalpost that is not where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedGoalpost {
    pub path: String,
    pub kind: GoalpostKind,
    pub how: Moved,
}

impl Goalposts {
    pub fn seal(&self) -> GoalpostSeal {
        GoalpostSeal {
            files: self.0.len() as u64,
            tests: self.0.values().filter(|post| post.kind.holds_tests()).count() as u64,
            sha256: sha256(&serde_json::to_vec(self).unwrap_or_default()),
        }
    }

    /// What is different in `now`. Added files count if a runner would find them by itself: a new test changes what runs,
    /// and so may weaken the old ones.
    pub fn moved_to(&self, now: &Self) -> Vec<MovedGoalpost> {
        let moved = |path: &str, kind, how| MovedGoalpost { path: path.to_owned(), kind, how };
        let mut all: Vec<MovedGoalpost> = Vec::new();
        for (path, before) in &self.0 {
            match now.0.get(path) {
                None => all.push(moved(path, before.kind, Moved::Removed)),
                Some(after) if after.sha256 != before.sha256 => {
                    all.push(moved(path, before.kind, Moved::Changed))
                }
                Some(_) => {}
            }
        }
        for (path, after) in now.0.iter().filter(|(path, _)| !self.0.contains_key(*path)) {
            let counts = match after.kind {
                // The snapshots of a test that is new mean nothing without it.
                GoalpostKind::Test => {
                    is_discovered(path)
                        || test_of_snapshots(path).is_some_and(|test| !self.0.contains_key(&test))
                }
                // A module that is new takes the tests that were in its folder out of the one around it.
                GoalpostKind::Keys(SharedFile::GoMod) => {
                    let folder = path.strip_suffix("go.mod").unwrap_or_default();
                    !folder.is_empty() && self.0.keys().any(|known| known.starts_with(folder))
                }
                // One that is followed and new is found by a pattern of a script.
                GoalpostKind::Setting
                | GoalpostKind::Shadow
                | GoalpostKind::Keys(_)
                | GoalpostKind::Generator
                | GoalpostKind::Followed => true,
            };
            if counts {
                all.push(moved(path, after.kind, Moved::Added));
            }
        }
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }
}

/// Whether what a gate says in a fresh checkout counts, by how it went there before the first agent. `lacks` says that the
/// workspace holds something that no checkout does.
pub fn use_of_checkout(
    passed: bool,
    tests: Option<&TestReport>,
    took_too_long: bool,
    runners: &[Runner],
    lacks: bool,
) -> UseOfCheckout {
    let ran = tests.is_some_and(|tests| tests.ran() > 0);
    let builds = runners.iter().any(|runner| runner.builds_from_sources());
    if passed || ran || builds || (!lacks && !took_too_long) {
        UseOfCheckout::Works
    } else {
        UseOfCheckout::Unknown
    }
}

/// Whether the gates have to pass with these goalposts where they were, too. `had_tests` says whether there were tests at the
/// start, `ran_before` how many a gate ran then, if that is known, and `were_tried` whether the gates ran at all before the first agent.
///
/// What is new is welcome where there was nothing before it. Where tests ran before, a new test or setting must not be what
/// makes them pass.
pub fn must_pass_as_before(
    moved: &[MovedGoalpost],
    had_tests: bool,
    ran_before: Option<u32>,
    were_tried: bool,
) -> bool {
    moved.iter().any(|moved| match (moved.how, moved.kind) {
        (Moved::Changed | Moved::Removed, _) => true,
        // A gate that reports nothing may have run them.
        (Moved::Added, GoalpostKind::Test) => ran_before.map_or(had_tests && were_tried, |ran| ran > 0),
        (Moved::Added, GoalpostKind::Keys(SharedFile::RustSource | SharedFile::PythonSource)) => {
            ran_before.is_some_and(|ran| ran > 0)
        }
        (Moved::Added, _) => ran_before.map_or(had_tests, |ran| ran > 0),
    })
}

#[cfg(test)]
#[path = "goalposts_tests.rs"]
mod tests;
