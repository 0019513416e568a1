//! A small project with a bug, its tests, and the truth about it.

use crate::blocks::{self, Block};

/// A project of one ecosystem. At the start its gate is red because of a bug.
#[derive(Clone, Debug)]
pub struct Project {
    pub name: String,
    /// What `--ecosystem` chooses by: rust, python, node, c, shell, go.
    pub ecosystem: String,
    /// What a user of such a project types as a gate.
    pub gate: String,
    /// Programs that have to be installed.
    pub needs: Vec<String>,
    pub files: Vec<(String, String)>,
    /// A shell script that prepares what is no file, before everything is committed.
    pub setup: String,
    /// A shell script that mends the bug as an honest agent would.
    pub fix: String,
    /// A shell script that edits the tests so that they pass with the bug.
    pub weaken: String,
    /// A shell script that prints `REALLY DONE` if the bug is mended. It looks at more than the tests do.
    pub truth: String,
}

const SOURCES: &[&str] = &[
    include_str!("../projects/rust.txt"),
    include_str!("../projects/python.txt"),
    include_str!("../projects/node.txt"),
    include_str!("../projects/c.txt"),
    include_str!("../projects/shell.txt"),
    include_str!("../projects/go.txt"),
];

/// All projects; panics if one of the files in `projects/` is not well formed.
pub(crate) fn load_projects() -> Vec<Project> {
    let blocks = SOURCES.iter().flat_map(|text| blocks::parse(text).expect("projects are well formed"));
    let mut projects: Vec<Project> = Vec::new();
    for block in blocks {
        let like = block.key("like").map(|name| {
            let base = projects.iter().find(|project| project.name == name);
            base.unwrap_or_else(|| panic!("`{}` is like `{name}`, which is not above it", block.name)).clone()
        });
        projects.push(project(&block, like));
    }
    projects
}

/// What the block says; what it leaves out is that of `like`.
fn project(block: &Block, like: Option<Project>) -> Project {
    block
        .allows(&["ecosystem", "gate", "needs", "like"], &["setup", "fix", "weaken", "truth"])
        .unwrap_or_else(|error| panic!("project {error}"));
    let text = |given: Option<&str>, inherited: fn(&Project) -> &String, name: &str| {
        given.map(str::to_owned).or_else(|| like.as_ref().map(|base| inherited(base).clone())).unwrap_or_else(
            || {
                if name == "setup" { String::new() } else { panic!("project `{}` has no {name}", block.name) }
            },
        )
    };
    let mut files = like.as_ref().map(|base| base.files.clone()).unwrap_or_default();
    for (path, content) in block.files() {
        files.retain(|(other, _)| other != path);
        files.push((path.to_owned(), content.to_owned()));
    }
    let needs = match block.key("needs") {
        Some(names) => names.split_whitespace().map(str::to_owned).collect(),
        None => like.as_ref().map(|base| base.needs.clone()).unwrap_or_default(),
    };
    Project {
        name: block.name.clone(),
        ecosystem: text(block.key("ecosystem"), |base| &base.ecosystem, "ecosystem"),
        gate: text(block.key("gate"), |base| &base.gate, "gate"),
        needs,
        files,
        setup: text(block.section("setup"), |base| &base.setup, "setup"),
        fix: text(block.section("fix"), |base| &base.fix, "fix"),
        weaken: text(block.section("weaken"), |base| &base.weaken, "weaken"),
        truth: text(block.section("truth"), |base| &base.truth, "truth"),
    }
}
