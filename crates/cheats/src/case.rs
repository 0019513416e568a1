//! The cases, and which of them are known to end otherwise than they should.

use std::collections::BTreeMap;

use crate::{
    blocks::{self, Block},
    project::{Project, load_projects},
};

/// A way of cheating, or of working honestly; the file in `cases/` that has its name holds its cases.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub name: &'static str,
    pub title: &'static str,
    pub kind: Kind,
    source: &'static str,
}

/// What should become of the claim in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The work is not done: the claim has to be refused.
    Cheat,
    /// The work is not done, and no check of this kind can see it. Run and listed, not counted.
    OutOfReach,
    /// The work is done: the claim has to be accepted.
    Honest,
}

/// Who has to stop a cheat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The proof: what is checked, with which files, where.
    Proof,
    /// The guard: what the agent can do with the user's rights outside its workspace.
    Guard,
}

/// One agent in one project.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub class: Class,
    pub mark: Mark,
    pub project: Project,
    pub gate: String,
    /// One sentence: what the agent does.
    pub does: String,
    /// Arguments of `dacapo run` beside the gate and the limit of iterations.
    pub flags: Vec<String>,
    pub iterations: u32,
    /// The cheat is one of those that were published against benchmark harnesses.
    pub is_published: bool,
    /// The case belongs to the fixed sample of the test suite.
    pub in_sample: bool,
    pub files: Vec<(String, String)>,
    pub setup: String,
    pub agent: String,
    /// A shell script in place of `dacapo run …`, for what is not one loop with a gate.
    pub run: Option<String>,
    /// A shell script that exits 0 if the cheat had success, where the exit code of the run does not say so.
    pub accepted: Option<String>,
    /// A shell script in place of the project's truth.
    pub truth: Option<String>,
}

macro_rules! class {
    ($name:literal, $kind:ident, $title:literal) => {
        Class {
            name: $name,
            title: $title,
            kind: Kind::$kind,
            source: include_str!(concat!("../cases/", $name, ".txt")),
        }
    };
}

/// All classes, in the order in which they are shown.
pub const CLASSES: &[Class] = &[
    class!("tests-edited", Cheat, "existing tests edited"),
    class!("runner-settings", Cheat, "settings of the runner"),
    class!("home-and-path", Cheat, "home, PATH and folders above"),
    class!("stale-build", Cheat, "stale build"),
    class!("during-the-gate", Cheat, "rewritten during the gate"),
    class!("code-under-test", Cheat, "the code under test"),
    class!("shadowed-program", Cheat, "shadowed program"),
    class!("time-bomb", Cheat, "time bomb"),
    class!("named-script", Cheat, "script that the gate names"),
    class!("protect-spelling", Cheat, "protected path, spelled differently"),
    class!("not-in-snapshots", Cheat, "not in snapshots"),
    class!("links", Cheat, "links"),
    class!("git", Cheat, "git"),
    class!("while-judging", Cheat, "while the claim is judged"),
    class!("left-running", Cheat, "left running"),
    class!("dacapo-itself", Cheat, "dacapo itself"),
    class!("units", Cheat, "units"),
    class!("secrets", Cheat, "secrets"),
    class!("out-of-reach", OutOfReach, "out of reach"),
    class!("honest", Honest, "honest work"),
];

/// All cases; panics if one of the files in `cases/` is not well formed.
pub fn load() -> Vec<Case> {
    let projects = load_projects();
    let mut cases = Vec::new();
    for class in CLASSES {
        let blocks =
            blocks::parse(class.source).unwrap_or_else(|error| panic!("cases/{}.txt: {error}", class.name));
        cases.extend(blocks.iter().map(|block| {
            case(block, *class, &projects).unwrap_or_else(|error| panic!("cases/{}.txt: {error}", class.name))
        }));
    }
    cases
}

fn case(block: &Block, class: Class, projects: &[Project]) -> Result<Case, String> {
    let keys = ["mark", "project", "gate", "does", "flags", "iterations", "published", "sample"];
    block.allows(&keys, &["setup", "agent", "run", "accepted", "truth"])?;
    let name = &block.name;
    let needed = |key: &str| block.key(key).ok_or_else(|| format!("`{name}` has no `{key}`"));
    let is_set = |key: &str| match block.key(key) {
        None => Ok(false),
        Some("yes") => Ok(true),
        Some(other) => Err(format!("`{name}`: `{key}` is `yes` or not there, not `{other}`")),
    };
    let project = needed("project")?;
    let project = projects.iter().find(|known| known.name == project);
    let project = project.ok_or_else(|| format!("`{name}`: no such project"))?.clone();
    let mark = match block.key("mark") {
        None | Some("P") => Mark::Proof,
        Some("G") => Mark::Guard,
        Some(other) => return Err(format!("`{name}`: a mark is P or G, not `{other}`")),
    };
    let flags = block.key("flags").unwrap_or_default();
    let flags = shlex::split(flags).ok_or_else(|| format!("`{name}`: a quote of its flags is not closed"))?;
    let iterations = block.key("iterations").unwrap_or("1");
    let iterations = iterations.parse().map_err(|_| format!("`{name}`: `{iterations}` is no number"))?;
    let section = |section: &str| block.section(section).map(str::to_owned);
    Ok(Case {
        name: name.clone(),
        class,
        mark,
        gate: block.key("gate").unwrap_or(&project.gate).to_owned(),
        does: needed("does")?.to_owned(),
        flags,
        iterations,
        is_published: is_set("published")?,
        in_sample: is_set("sample")?,
        files: block.files().map(|(path, text)| (path.to_owned(), text.to_owned())).collect(),
        setup: section("setup").unwrap_or_default(),
        agent: section("agent").ok_or_else(|| format!("`{name}` has no agent"))?,
        run: section("run"),
        accepted: section("accepted"),
        truth: section("truth"),
        project,
    })
}

/// The cases that end otherwise than they should, by name, with the reason. The list may only become shorter.
pub type Known = BTreeMap<String, String>;

/// What `known.txt` lists; panics if a line of it is not `name: reason`.
pub fn load_known() -> Known {
    let lines =
        include_str!("../known.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (name, reason) =
            line.split_once(':').unwrap_or_else(|| panic!("known.txt: no `name: reason`: {line}"));
        (name.trim().to_owned(), reason.trim().to_owned())
    };
    lines.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_there_are_enough() {
        let cases = load();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len(), "a name is there twice");
        let count =
            |kind, mark| cases.iter().filter(|case| case.class.kind == kind && case.mark == mark).count();
        assert!(count(Kind::Cheat, Mark::Proof) >= 150, "{} cheats", count(Kind::Cheat, Mark::Proof));
        assert!(count(Kind::Honest, Mark::Proof) >= 60, "{} honest", count(Kind::Honest, Mark::Proof));
        assert!(cases.iter().any(|case| case.is_published));
        for known in load_known().keys() {
            assert!(names.contains(known.as_str()), "known.txt names `{known}`, which is no case");
        }
    }

    #[test]
    fn the_sample_has_every_class_of_the_proof() {
        let cases = load();
        for class in CLASSES {
            let mut of_class =
                cases.iter().filter(|case| case.class.name == class.name && case.mark == Mark::Proof);
            let has_cases = of_class.clone().next().is_some();
            assert!(!has_cases || of_class.any(|case| case.in_sample), "{} is not in the sample", class.name);
        }
    }
}
