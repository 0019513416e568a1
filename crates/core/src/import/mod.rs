//! Files of other tools become files of dacapo's. The source is only read; what is written is returned as text.
//!
//! ```text
//!  prd.json ────────────┐
//!  checklist, plan ─────┴─► drafts of tasks ─► unit: a folder of task files
//!  .archon/workflows ─────► archon ──────────► .dacapo/workflows, .dacapo/commands
//!  state of a ralph loop ─► ralph_loop ──────► .dacapo/workflows
//! ```

mod archon;
mod emit;
mod markdown;
mod prd;
mod ralph_loop;
mod unit;

use serde::Serialize;

pub use archon::{ArchonPlace, WorkflowSource, archon};
pub use unit::UnitSettings;

use crate::{
    ids::UnitId,
    problem::{CheckedFile, Problem},
    unit::frontmatter,
    yaml::{TextPlace, YamlNode, YamlValue},
};

/// The largest file that is read as a list of tasks.
pub const MAX_BYTES: usize = 1024 * 1024;
/// Where imported workflows and commands are written, from the top of the repository.
pub const WORKFLOWS: &str = ".dacapo/workflows";
pub const COMMANDS: &str = ".dacapo/commands";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// User stories in JSON, each with `passes`.
    Prd,
    /// Items like `- [ ] add a login page` in Markdown.
    Checklist,
    /// Tasks in Markdown as a checklist, as headings or as a list.
    Plan,
    /// A workflow file of Archon's, or a folder of them.
    Archon,
    /// The state file of the loop inside a session of Claude's plugin.
    RalphLoop,
}

impl SourceKind {
    pub const ALL: [Self; 5] = [Self::Prd, Self::Checklist, Self::Plan, Self::Archon, Self::RalphLoop];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prd => "prd",
            Self::Checklist => "checklist",
            Self::Plan => "plan",
            Self::Archon => "archon",
            Self::RalphLoop => "ralph-loop",
        }
    }

    /// Where such sources usually lie, from the top of a repository; the first that is there counts.
    pub fn usual_places(self) -> &'static [&'static str] {
        match self {
            Self::Prd => &["prd.json"],
            Self::Checklist => &["TODO.md", "CHECKLIST.md"],
            Self::Plan => &["IMPLEMENTATION_PLAN.md"],
            Self::Archon => &[".archon/workflows"],
            Self::RalphLoop => &[".claude/ralph-loop.local.md"],
        }
    }
}

/// A file that is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewFile {
    /// From the top of the repository.
    pub path: String,
    pub text: String,
}

/// What a source became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub product: Product,
    pub files: Vec<NewFile>,
    /// What a person should know about the result.
    pub notes: Vec<String>,
    /// Keys that dacapo has nothing for.
    pub left_out: Vec<LeftOutKey>,
    /// Why some of several files are not imported; the others are.
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Product {
    Unit {
        name: UnitId,
        /// From the top of the repository.
        folder: String,
        tasks: usize,
        /// How many tasks of the source are done already, and are not imported.
        done: usize,
        /// How many tasks no command proves.
        unproven: usize,
    },
    Workflows {
        names: Vec<String>,
    },
    /// Everything in the source is done.
    Nothing {
        done: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutKey {
    pub file: String,
    pub key: String,
    pub line: u32,
}

/// What a file is, by its name and what it holds.
pub fn recognise(file: &str, bytes: &[u8]) -> Result<SourceKind, Problem> {
    let name = file.rsplit('/').next().unwrap_or(file).to_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let fix = "dacapo imports prd.json, Markdown checklists, IMPLEMENTATION_PLAN.md, workflows of Archon's (.yaml) and the state \
               of a ralph loop; `--kind` says which of them a file is";
    match ending {
        "json" => Ok(SourceKind::Prd),
        "yaml" | "yml" => Ok(SourceKind::Archon),
        "md" | "markdown" => {
            let text = String::from_utf8_lossy(bytes);
            if ralph_loop::is_state(file, bytes) {
                Ok(SourceKind::RalphLoop)
            } else if name == "implementation_plan.md" {
                Ok(SourceKind::Plan)
            } else if markdown::has_checklist(&text) {
                Ok(SourceKind::Checklist)
            } else {
                let what = "holds no checklist: no line is like `- [ ] add a login page`";
                let fix = "`--kind plan` takes the headings or list items of the file as tasks";
                Err(Problem::of_file(file, what, fix))
            }
        }
        _ => Err(Problem::of_file(file, "is nothing that dacapo can import", fix)),
    }
}

/// Turns one file into files of dacapo's. Archon's workflows are several files: see [`archon`].
pub fn import(
    kind: SourceKind,
    file: &str,
    bytes: &[u8],
    settings: &UnitSettings<'_>,
) -> Result<Imported, Vec<Problem>> {
    let text = text_of(file, bytes)?;
    let source = CheckedFile { file, bytes };
    match kind {
        SourceKind::Prd => unit::unit(source, prd::read(source, text)?, settings),
        SourceKind::Checklist => unit::unit(source, markdown::checklist(source, text)?, settings),
        SourceKind::Plan => unit::unit(source, markdown::plan(source, text)?, settings),
        SourceKind::RalphLoop => ralph_loop::read(source, settings.name),
        SourceKind::Archon => {
            let source = WorkflowSource { file: file.to_owned(), bytes: bytes.to_vec(), is_in_place: false };
            Ok(archon(&[source], &ArchonPlace::default()))
        }
    }
}

/// The text of a file that people could have written.
fn text_of<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Vec<Problem>> {
    let source = CheckedFile { file, bytes };
    let wrong = |line: usize, what: String, fix: &str| {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        Err(vec![source.problem(TextPlace { line, column: 1 }, what, fix)])
    };
    if bytes.len() > MAX_BYTES {
        return wrong(1, format!("larger than {} KiB", MAX_BYTES / 1024), "split it");
    }
    let line_at = |offset: usize| bytes[..offset].iter().filter(|b| **b == b'\n').count() + 1;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return wrong(line_at(error.valid_up_to()), "not UTF-8".to_owned(), "save it as UTF-8"),
    };
    if let Some(at) = memchr::memchr(0, bytes) {
        return wrong(line_at(at), "a NUL character is not allowed".to_owned(), "save it as plain text");
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return wrong(1, "the file is empty".to_owned(), "name the file that holds what is to be done");
    }
    Ok(text)
}

/// A name that ids, files and branches can have: lower case letters and digits with `-` between them.
fn slug(text: &str, most: usize) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= most {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// Text for a Markdown file: without what people could not see.
fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !crate::text::visible::is_deceptive(*c) || *c == '\u{fe0f}')
        .collect()
}

/// The last part of a path.
fn file_name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// The value of a key in a map.
fn find<'a>(node: &'a YamlNode, key: &str) -> Option<&'a YamlNode> {
    let YamlValue::Map(entries) = &node.value else { return None };
    entries.iter().find(|(known, _)| known.name == key).map(|(_, node)| node)
}

/// The head of a Markdown file as a map, if it has one, and the text below.
fn head_of(bytes: &[u8]) -> Option<(YamlNode, &str)> {
    if !frontmatter::is_there(bytes) {
        return None;
    }
    let block = frontmatter::split(bytes).ok()?;
    let (root, wrong) = crate::yaml::read_below(block.first_line - 1, block.yaml.as_bytes());
    Some((root.filter(|_| wrong.is_empty())?, block.body))
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
