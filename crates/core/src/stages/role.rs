//! What each role is, as one table: its limit, its promise, what it must show, what it sees and what it may write.

use super::StageName;
use crate::judge::evidence::Evidence;

/// What an agent in a role may change, if its claim is to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayWrite {
    Anything,
    /// Anything, but a change that is no test gets a warning in the receipt: no role behind it reviews the code.
    Tests,
    Nothing,
}

/// What the prompt of a role holds beside the specification and the completion requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// The findings of the reviewer that are open, for the coder to answer.
    OpenFindings,
    /// The whole ledger, and what the coder says about each finding.
    Ledger,
    /// From the second round on: the commit that the reviewer has seen last.
    ChangeSinceLastRound,
    /// Why earlier claims of the same task and stage were refused.
    PastRefusals,
}

/// What a role is before any configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    pub name: StageName,
    /// What the prompt calls it.
    pub title: &'static str,
    pub max_iterations: u32,
    pub promise: &'static str,
    /// What the agent must show beside its promise.
    pub evidence: &'static [Evidence],
    pub may_write: MayWrite,
    pub sees: &'static [Sees],
    /// What the agent is asked to do before it promises, in this order.
    pub steps: [&'static str; 3],
}

/// The four roles, in the order in which a task passes through them.
pub const ROLES: [Role; 4] = [
    Role {
        name: StageName::Coder,
        title: "Implementation",
        max_iterations: 15,
        promise: "IMPLEMENTATION_COMPLETE",
        evidence: &[Evidence::Commit],
        may_write: MayWrite::Anything,
        sees: &[Sees::OpenFindings, Sees::PastRefusals],
        steps: [
            "Ensure all requirements from the specification are implemented",
            "Commit your changes with a descriptive message",
            "Verify your implementation works correctly",
        ],
    },
    Role {
        name: StageName::Reviewer,
        title: "Review",
        max_iterations: 5,
        promise: "REVIEW_COMPLETE",
        evidence: &[Evidence::Approval],
        may_write: MayWrite::Nothing,
        sees: &[Sees::Ledger, Sees::ChangeSinceLastRound, Sees::PastRefusals],
        steps: [
            "Read the change and hold it against every requirement of the specification",
            "Change no file: what has to change is for the coder to do",
            "Say REVIEW PASSED if you approve, or begin a line with CHANGES REQUESTED: and list each finding below it",
        ],
    },
    Role {
        name: StageName::Tester,
        title: "Testing",
        max_iterations: 10,
        promise: "TESTS_COMPLETE",
        evidence: &[Evidence::Tests],
        may_write: MayWrite::Tests,
        sees: &[Sees::PastRefusals],
        steps: [
            "Write the tests that the specification calls for and that are missing",
            "Run all tests and say how many passed",
            "Commit the tests; what is not a test is for the coder to change",
        ],
    },
    Role {
        name: StageName::Qa,
        title: "QA",
        max_iterations: 5,
        promise: "QA_PASSED",
        evidence: &[],
        may_write: MayWrite::Nothing,
        sees: &[Sees::PastRefusals],
        steps: [
            "Use what was built as the specification describes it",
            "Change no file: what has to change is for the coder to do",
            "Say what you tried and what came of it",
        ],
    },
];

/// Whether the file at `path` is a test, or belongs to tests, by the names that people give them.
pub fn is_test(path: &str) -> bool {
    const FOLDERS: [&str; 8] =
        ["test", "tests", "spec", "specs", "__tests__", "__snapshots__", "testdata", "fixtures"];
    let path = path.to_lowercase();
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let stem = name.split('.').next().unwrap_or_default();
    let words = ["test", "tests", "spec"];
    folders.split('/').any(|folder| FOLDERS.contains(&folder))
        || stem.split(['_', '-']).any(|word| words.contains(&word))
        || name.split('.').skip(1).any(|part| words.contains(&part))
        || matches!(stem, "conftest" | "jest" | "vitest")
        || (name.ends_with(".java") || name.ends_with(".kt") || name.ends_with(".cs"))
            && (stem.ends_with("test") || stem.ends_with("tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_their_names() {
        for (path, expected) in [
            ("tests/login.rs", true),
            ("src/login_tests.rs", true),
            ("src/test_login.py", true),
            ("login.test.ts", true),
            ("a/__tests__/b.js", true),
            ("src/LoginTest.java", true),
            ("conftest.py", true),
            ("src/login.rs", false),
            ("src/contest.rs", false),
            ("latest/x.rs", false),
            ("src/protest.java.txt", false),
            ("Makefile", false),
        ] {
            assert_eq!(is_test(path), expected, "{path}");
        }
    }

    #[test]
    fn the_four_roles_have_the_limits_promises_and_rules_of_the_pipeline() {
        // req 169, req 182, req 183, req 184, req 196
        use Evidence::{Approval, Commit, Tests};
        let table: [(&str, u32, &str, &[Evidence], MayWrite); 4] = [
            ("coder", 15, "IMPLEMENTATION_COMPLETE", &[Commit], MayWrite::Anything),
            ("reviewer", 5, "REVIEW_COMPLETE", &[Approval], MayWrite::Nothing),
            ("tester", 10, "TESTS_COMPLETE", &[Tests], MayWrite::Tests),
            ("qa", 5, "QA_PASSED", &[], MayWrite::Nothing),
        ];
        let found = ROLES.map(|role| {
            (role.name.as_str(), role.max_iterations, role.promise, role.evidence, role.may_write)
        });
        assert_eq!(found, table);
        let mut way = vec![StageName::Coder];
        while let Some(next) = way.last().and_then(|stage| stage.next()) {
            way.push(next);
        }
        assert_eq!(way, StageName::ALL);
        for stage in StageName::ALL {
            assert_eq!(stage.role().name, stage);
            assert_eq!(StageName::find(stage.as_str()), Some(stage));
            assert_eq!(serde_json::to_value(stage).unwrap(), stage.as_str());
        }
        assert_eq!(StageName::find("Coder"), None);
    }
}
