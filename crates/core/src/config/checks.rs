//! `baseline`, `red_first`, `gate_in`, `gate_from`, `tolerate_baseline`, `tests`: how claims are checked.

use crate::policy::{GateFrom, GateIn, TestsMode};

use super::{At, ConfigSection};

/// What a file says about how claims are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChecksSection {
    /// Whether gates run once before the first agent.
    pub baseline: Option<At<bool>>,
    /// Whether a gate must have been red on the base.
    pub red_first: Option<At<bool>>,
    pub gate_in: Option<At<GateIn>>,
    /// With whose protected paths gates run.
    pub gate_from: Option<At<GateFrom>>,
    /// Whether a gate that was red before may stay red.
    pub tolerate_baseline: Option<At<bool>>,
    /// What an agent may do with tests that are there already.
    pub tests_mode: Option<At<TestsMode>>,
    /// Tests beside those that are known by convention, as patterns.
    pub test_paths: Vec<At<String>>,
}

pub(super) const TESTS_KEYS: [&str; 2] = ["mode", "paths"];

pub(super) fn read(top: &mut ConfigSection<'_>) -> ChecksSection {
    let (mut tests_mode, mut test_paths) = (None, Vec::new());
    if let Some(mut tests) = top.section("tests", &TESTS_KEYS) {
        tests_mode = tests.choice("mode", &TestsMode::WORDS);
        test_paths = super::paths::patterns(&mut tests, "paths");
    }
    ChecksSection {
        tests_mode,
        test_paths,
        baseline: top.flag("baseline"),
        red_first: top.flag("red_first"),
        gate_in: top.choice(
            "gate_in",
            &[("both", GateIn::Both), ("workspace", GateIn::Workspace), ("clean", GateIn::Clean)],
        ),
        gate_from: top.choice("gate_from", &[("workspace", GateFrom::Workspace), ("base", GateFrom::Base)]),
        tolerate_baseline: top.flag("tolerate_baseline"),
    }
}
