//! All workflows of a repository together: those of its files, those that are built in, and which of them can be run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    LeftOut, ParseSettings, Parsed, StepKind, Workflow, builtin,
    command::{CommandFailure, CommandFile},
    graph,
};
use crate::{problem::Problem, trust::digest};

/// Where workflows are looked for, in this order (req 145).
pub const FOLDERS: [&str; 4] =
    [".dacapo/workflows", ".archon/workflows", ".claude/workflows", ".agents/workflows"];

/// A workflow that can be run, as it is frozen when a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenWorkflow {
    /// With the texts of its command files in it.
    pub workflow: Workflow,
    /// The files that it was made from.
    pub files: Vec<SourceFile>,
    /// SHA-256 over the files: what a run that goes on compares.
    pub digest: String,
    pub is_builtin: bool,
    /// Whether it stands in place of a built-in one.
    pub replaces_builtin: bool,
    /// The file of the repository that it stands in place of.
    pub replaces_file: Option<String>,
    pub left_out: Vec<LeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// From the top of the repository; a built-in one is called `built-in/NAME.yaml`.
    pub file: String,
    pub sha256: String,
}

/// All workflows, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    pub workflows: Vec<FrozenWorkflow>,
    /// By file and line. Each costs only the workflow it is about (req 143).
    pub problems: Vec<Problem>,
    pub notes: Vec<Problem>,
    /// Names that are taken by files with problems, and those files.
    pub broken: BTreeMap<String, Vec<String>>,
}

impl Catalogue {
    pub fn find(&self, name: &str) -> Option<&FrozenWorkflow> {
        self.workflows.iter().find(|found| found.workflow.name == name)
    }

    /// The files with problems that a workflow of this name may stand in: those that say so, and those that are called so.
    pub fn broken_files(&self, name: &str) -> Vec<&str> {
        let named = self.broken.get(name).into_iter().flatten().map(String::as_str);
        let is_called_so = |file: &&str| {
            let last = file.rsplit('/').next().unwrap_or(file);
            last.strip_suffix(".yaml").or_else(|| last.strip_suffix(".yml")) == Some(name)
        };
        let called = self.problems.iter().map(|problem| problem.file.as_str()).filter(is_called_so);
        let mut files: Vec<&str> = named.chain(called).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}

/// A workflow file, and whether it could be read at all.
#[derive(Clone, Debug)]
pub struct WorkflowFile {
    /// From the top of the repository.
    pub file: String,
    pub bytes: Result<Vec<u8>, Problem>,
}

/// Puts the files of a repository and the built-in workflows together. `command` reads a command file by its name.
pub fn catalogue(
    files: &[WorkflowFile],
    settings: ParseSettings,
    mut command: impl FnMut(&str) -> Result<CommandFile, CommandFailure>,
) -> Catalogue {
    let mut catalogue = Catalogue::default();
    let mut read: Vec<(Parsed, Option<FrozenWorkflow>)> = Vec::new();
    for WorkflowFile { file, bytes } in files {
        match bytes {
            Ok(bytes) => {
                let mut parsed = super::parse(file, bytes, settings);
                let runnable = freeze(&mut parsed, bytes, &mut command);
                read.push((parsed, runnable));
            }
            Err(problem) => catalogue.problems.push(problem.clone()),
        }
    }
    // A file that stands in place of another says so by itself; only one that can be run is listened to.
    let replaced: BTreeSet<String> =
        read.iter().filter_map(|(_, runnable)| runnable.as_ref()?.replaces_file.clone()).collect();
    read.retain(|(parsed, _)| !replaced.contains(&parsed.file));
    catalogue.problems.retain(|problem| !replaced.contains(&problem.file));
    twice(&mut read);
    for (mut parsed, runnable) in read {
        catalogue.notes.append(&mut parsed.notes);
        match runnable.filter(|_| parsed.problems.is_empty()) {
            Some(runnable) => catalogue.workflows.push(runnable),
            None => {
                if let Some(name) = parsed.name {
                    catalogue.broken.entry(name).or_default().push(parsed.file);
                }
            }
        }
        catalogue.problems.append(&mut parsed.problems);
    }
    for builtin::Builtin { name, text } in builtin::ALL {
        if catalogue.broken.contains_key(name) {
            continue;
        }
        if let Some(own) = catalogue.workflows.iter_mut().find(|found| found.workflow.name == name) {
            own.replaces_builtin = true;
            continue;
        }
        let file = builtin::file(name);
        let mut parsed = super::parse(&file, text.as_bytes(), ParseSettings::default());
        if let Some(mut own) = freeze(&mut parsed, text.as_bytes(), &mut command) {
            own.is_builtin = true;
            catalogue.workflows.push(own);
        }
    }
    catalogue.workflows.sort_by(|a, b| a.workflow.name.cmp(&b.workflow.name));
    catalogue.problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    catalogue
}

/// A name that two files have belongs to neither (req 145).
fn twice(read: &mut [(Parsed, Option<FrozenWorkflow>)]) {
    let mut known: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, (parsed, _)) in read.iter().enumerate() {
        if let Some(name) = &parsed.name {
            known.entry(name.clone()).or_default().push(at);
        }
    }
    for (name, at) in known.into_iter().filter(|(_, at)| at.len() > 1) {
        for this in &at {
            let others: Vec<String> = at
                .iter()
                .filter(|other| *other != this)
                .map(|other| format!("`{}`", read[*other].0.file))
                .collect();
            let what = format!("a workflow is called `{name}` in {} too", others.join(" and "));
            let parsed = &mut read[*this].0;
            if let Some(spot) = &parsed.name_at {
                let problem = spot.problem(what, "give one of them another `name`, or remove it");
                parsed.problems.push(problem);
            }
        }
    }
}

/// Puts the texts of command files into a workflow, and a number on all of it.
fn freeze(
    parsed: &mut Parsed,
    bytes: &[u8],
    command: &mut impl FnMut(&str) -> Result<CommandFile, CommandFailure>,
) -> Option<FrozenWorkflow> {
    let mut workflow = parsed.workflow.take()?;
    let mut files = vec![SourceFile { file: parsed.file.clone(), sha256: digest(bytes) }];
    for (index, spot) in &parsed.commands_at {
        let prompt = match &mut workflow.steps[*index].kind {
            StepKind::Agent(agent) => &mut agent.prompt,
            StepKind::Loop(looped) => &mut looped.prompt,
            _ => continue,
        };
        let Some(name) = &prompt.command else { continue };
        match command(name) {
            Ok(file) => {
                prompt.text.clone_from(&file.text);
                let frozen = SourceFile { file: file.file.clone(), sha256: digest(file.text.as_bytes()) };
                if !files.contains(&frozen) {
                    files.push(frozen);
                }
                for (problem, is_note) in graph::command_variables(&workflow, *index, &file) {
                    if is_note { &mut parsed.notes } else { &mut parsed.problems }.push(problem);
                }
            }
            Err(failure) => parsed.problems.push(spot.problem(failure.to_string(), failure.fix())),
        }
    }
    if !parsed.problems.is_empty() {
        return None;
    }
    let mut all = String::new();
    for SourceFile { file, sha256 } in &files {
        all += &format!("{sha256}  {}:{file}\n", file.len());
    }
    let digest = digest(all.as_bytes());
    let left_out = parsed.left_out.clone();
    let replaces_file = parsed.replaces.clone();
    Some(FrozenWorkflow {
        workflow,
        files,
        digest,
        is_builtin: false,
        replaces_builtin: false,
        replaces_file,
        left_out,
    })
}
