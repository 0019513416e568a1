//! `worktree`: what makes a fresh checkout ready for work.

use super::{At, Section, paths};

pub(super) const KEYS: [&str; 1] = ["setup"];
pub(super) const SETUP_KEYS: [&str; 2] = ["run", "if"];

/// What a file says about fresh checkouts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Commands, in order.
    pub setup: Vec<At<SetupStep>>,
}

/// One command of a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    /// The command line, to the byte.
    pub run: String,
    /// Only if this file exists.
    pub condition: Option<String>,
}

pub(super) fn read(top: &mut Section<'_>) -> Worktree {
    let Some(mut section) = top.section("worktree", &KEYS) else { return Worktree::default() };
    let mut setup = Vec::new();
    for node in section.list("setup") {
        let place = node.place;
        let Some(mut entry) = section.entry("`worktree.setup[]`", node, &SETUP_KEYS) else { continue };
        let has_run = entry.has("run");
        let run = entry.text("run");
        let condition = entry.text("if").map(|file| file.value);
        if let Some(file) = &condition {
            paths::is_inside(&mut entry, place, file);
        }
        if !has_run {
            entry.wrong(place, "a setup step needs a command: `run: …`");
        }
        if let Some(run) = run {
            setup.push(At { value: SetupStep { run: run.value, condition }, line: place.line });
        }
    }
    Worktree { setup }
}
