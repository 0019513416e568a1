//! `worktree`: what makes a fresh checkout ready for work, and what ends with it.

use super::{At, ConfigSection, paths};

pub(super) const KEYS: [&str; 2] = ["setup", "teardown"];
pub(super) const STEP_KEYS: [&str; 2] = ["run", "if"];

/// What a file says about fresh checkouts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeSection {
    /// Commands before the first agent, in order.
    pub setup: Vec<At<SetupStep>>,
    /// Commands before it is removed, in order.
    pub teardown: Vec<At<SetupStep>>,
}

/// One command of a setup or teardown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    /// The command line, to the byte.
    pub run: String,
    /// Only if this file exists.
    pub condition: Option<String>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> WorktreeSection {
    let Some(mut section) = top.section("worktree", &KEYS) else { return WorktreeSection::default() };
    WorktreeSection { setup: steps(&mut section, "setup"), teardown: steps(&mut section, "teardown") }
}

fn steps(section: &mut ConfigSection<'_>, key: &str) -> Vec<At<SetupStep>> {
    let mut steps = Vec::new();
    for node in section.list(key) {
        let place = node.place;
        let name = format!("`worktree.{key}[]`");
        let Some(mut entry) = section.entry(&name, node, &STEP_KEYS) else { continue };
        let has_run = entry.has("run");
        let run = entry.text("run");
        let condition = entry.text("if").map(|file| file.value);
        if let Some(file) = &condition {
            paths::is_inside(&mut entry, place, file);
        }
        if !has_run {
            entry.wrong(place, format!("a {key} step needs a command: `run: …`"));
        }
        if let Some(run) = run {
            steps.push(At { value: SetupStep { run: run.value, condition }, line: place.line });
        }
    }
    steps
}
