//! Workflow files of Archon's become dacapo's own: what Archon takes for granted is written down, what dacapo has nothing for is
//! left out and listed.

use std::collections::BTreeMap;

use super::{COMMANDS, Imported, LeftOutKey, NewFile, Product, WORKFLOWS, emit, file_name, slug};
use crate::{
    problem::Problem,
    workflow::{
        ParseSettings, StepKind,
        catalogue::{WorkflowFile, catalogue},
        command::{CommandFailure, CommandFile},
        keys::{self, KINDS, SectionSpec},
        parse,
        template::{self, Name},
        useless_keys,
    },
    yaml::{self, TextPlace, YamlKey, YamlNode, YamlValue},
};

/// A workflow file of Archon's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowSource {
    /// From the top of the repository, or as the user named it.
    pub file: String,
    pub bytes: Vec<u8>,
    /// Whether dacapo finds it where it lies: then the new file has to take its place.
    pub is_in_place: bool,
}

/// What variables of Archon's become that dacapo has nothing for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchonPlace {
    /// The texts of command files, by name.
    pub commands: BTreeMap<String, String>,
    /// Names of commands that the repository has as its own already.
    pub own_commands: BTreeMap<String, String>,
    /// The branch that is checked out.
    pub branch: Option<String>,
}

/// Where a run keeps what its steps hand to each other, in place of Archon's folder.
const ARTIFACTS: &str = ".dacapo/artifacts/$WORKFLOW_ID";

/// Turns workflow files into dacapo's own. A file that cannot be turned is told in `problems` and costs only itself.
pub fn archon(sources: &[WorkflowSource], place: &ArchonPlace) -> Imported {
    let mut all = Imported {
        product: Product::Workflows { names: Vec::new() },
        files: Vec::new(),
        notes: Vec::new(),
        left_out: Vec::new(),
        problems: Vec::new(),
    };
    let mut names: Vec<String> = Vec::new();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for source in sources {
        match one(source, place) {
            Ok(converted) => {
                let path = converted.path;
                if names.contains(&converted.name) || files.contains_key(&path) {
                    let what = format!("another file of these is called `{}` too", converted.name);
                    all.problems.push(Problem::of_file(&source.file, what, "import one of them alone"));
                    continue;
                }
                files.insert(path, converted.text);
                files.extend(converted.commands);
                names.push(converted.name);
                all.left_out.extend(converted.left_out);
                all.notes.extend(converted.notes);
            }
            Err(problems) => all.problems.extend(problems),
        }
    }
    all.notes.sort();
    all.notes.dedup();
    all.files = files.into_iter().map(|(path, text)| NewFile { path, text }).collect();
    all.product = Product::Workflows { names };
    all
}

struct Converted {
    name: String,
    path: String,
    text: String,
    commands: BTreeMap<String, String>,
    left_out: Vec<LeftOutKey>,
    notes: Vec<String>,
}

fn one(source: &WorkflowSource, place: &ArchonPlace) -> Result<Converted, Vec<Problem>> {
    let stem = file_name(&source.file).rsplit_once('.').map_or(source.file.as_str(), |(stem, _)| stem);
    let stem = Some(slug(stem, 60)).filter(|stem| !stem.is_empty()).unwrap_or_else(|| "workflow".to_owned());
    let path = format!("{WORKFLOWS}/{stem}.yaml");
    let mut notes = Vec::new();
    // Replacing words leaves every line where it is, so that places in messages are those of the source.
    let bytes = match std::str::from_utf8(&source.bytes) {
        Ok(text) => with_places(text, place, &mut notes).into_bytes(),
        Err(_) => source.bytes.clone(),
    };
    let parsed = parse(&format!(".archon/workflows/{stem}.yaml"), &bytes, ParseSettings { lenient: true });
    let Some(workflow) = parsed.workflow.filter(|_| parsed.problems.is_empty()) else {
        let problems = parsed.problems.into_iter();
        return Err(problems.map(|problem| Problem { file: source.file.clone(), ..problem }).collect());
    };
    let root = yaml::read(&bytes).0.unwrap_or(YamlNode { place: TOP, value: YamlValue::Map(Vec::new()) });
    let mut converter = Converter { file: &source.file, left_out: Vec::new() };
    let root = converter.workflow(root, source.is_in_place.then_some(source.file.as_str()));
    let text = format!("# Imported from {}\n{}", source.file, emit::emit(&root));
    let mut commands = BTreeMap::new();
    let mut unfound = Vec::new();
    for step in &workflow.steps {
        let (StepKind::Agent(crate::workflow::AgentStep { prompt, .. })
        | StepKind::Loop(crate::workflow::LoopStep { prompt, .. })) = &step.kind
        else {
            continue;
        };
        let Some(name) = &prompt.command else { continue };
        match place.commands.get(name) {
            Some(text) => {
                commands.insert(format!("{COMMANDS}/{name}.md"), with_places(text, place, &mut notes));
            }
            None if place.own_commands.contains_key(name) => {}
            None => unfound.push(Problem {
                line: step.line,
                ..Problem::of_file(
                    &source.file,
                    format!("there is no command `{name}` beside it"),
                    format!("write `{COMMANDS}/{name}.md`, or put `{name}.md` into `.archon/commands`"),
                )
            }),
        }
    }
    if !unfound.is_empty() {
        return Err(unfound);
    }
    // What the new files would be told by `dacapo workflow check`.
    let read = |name: &str| {
        let file = format!("{COMMANDS}/{name}.md");
        let text = commands.get(&file).or_else(|| place.own_commands.get(name)).cloned().unwrap_or_default();
        CommandFile::of(&file, text.into_bytes()).map_err(|_| CommandFailure::EmptyFile { file })
    };
    let new = WorkflowFile { file: path.clone(), bytes: Ok(text.clone().into_bytes()) };
    let checked = catalogue(&[new], ParseSettings::default(), read);
    if !checked.problems.is_empty() {
        return Err(checked.problems);
    }
    // A command file is written for any workflow: words in it that are no variables stay as they are.
    notes.extend(checked.notes.iter().filter(|note| note.file == path).map(Problem::line));
    if bytes.split(|b| *b == b'\n').any(|line| line.starts_with(b"#")) {
        notes.push(format!("`{}`: comments between its keys are not taken over", source.file));
    }
    let mut left_out = converter.left_out;
    left_out.sort_by_key(|left| left.line);
    Ok(Converted { name: workflow.name, path, text, commands, left_out, notes })
}

/// A text in which variables of Archon's that name a place are what they stand for.
fn with_places(text: &str, place: &ArchonPlace, notes: &mut Vec<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for found in template::find(text) {
        let Name::Unknown(name) = &found.name else { continue };
        let new = match name.as_str() {
            "ARTIFACTS_DIR" => ARTIFACTS,
            "DOCS_DIR" => "docs",
            "BASE_BRANCH" => match &place.branch {
                Some(branch) => branch,
                None => continue,
            },
            _ => continue,
        };
        notes.push(format!("`${name}` became `{new}`"));
        out.push_str(&text[end..found.range.start]);
        out.push_str(new);
        end = found.range.end;
    }
    out.push_str(&text[end..]);
    out
}

const TOP: TextPlace = TextPlace { line: 1, column: 1 };

struct Converter<'a> {
    file: &'a str,
    left_out: Vec<LeftOutKey>,
}

impl Converter<'_> {
    fn workflow(&mut self, root: YamlNode, replaces: Option<&str>) -> YamlNode {
        let mut root = self.prune(root, &keys::WORKFLOW, "");
        let YamlValue::Map(entries) = &mut root.value else { return root };
        for (key, node) in entries.iter_mut() {
            match (key.name.as_str(), &mut node.value) {
                ("steps" | "nodes", YamlValue::List(steps)) => {
                    for step in steps {
                        self.step(step);
                    }
                }
                ("loop", _) => self.looped(node),
                _ => {}
            }
        }
        if let Some(file) = replaces {
            let at = entries.iter().position(|(key, _)| key.name == "description").map_or(0, |at| at + 1);
            entries.insert(at, entry("replaces", file, false));
        }
        literal_texts(&mut root);
        root
    }

    /// The map without keys that dacapo has nothing for.
    fn prune(&mut self, node: YamlNode, section: &SectionSpec, path: &str) -> YamlNode {
        let YamlNode { place, value } = node;
        let YamlValue::Map(entries) = value else { return YamlNode { place, value } };
        let mut kept = Vec::new();
        for (key, node) in entries {
            let Some(known) = section.keys.iter().find(|known| known.name == key.name) else {
                self.leave_out(&key, path);
                continue;
            };
            let below = format!("{}.", key.name);
            let path = if section.name == "workflow" || section.name == "step" { "" } else { path };
            let node = match &known.value {
                keys::ValueSpec::Section(inner) | keys::ValueSpec::TextOrSection(inner, _) => {
                    self.prune(node, inner, &format!("{path}{below}"))
                }
                keys::ValueSpec::Sections(inner) | keys::ValueSpec::TextsOrSections(inner, _) => {
                    let path = if inner.name == "step" { String::new() } else { below };
                    match node.value {
                        YamlValue::List(items) => {
                            let items =
                                items.into_iter().map(|item| self.prune(item, inner, &path)).collect();
                            YamlNode { place: node.place, value: YamlValue::List(items) }
                        }
                        _ => node,
                    }
                }
                _ => node,
            };
            kept.push((key, node));
        }
        YamlNode { place, value: YamlValue::Map(kept) }
    }

    fn leave_out(&mut self, key: &YamlKey, path: &str) {
        let key_path = format!("{path}{}", yaml::short(&key.name));
        self.left_out.push(LeftOutKey { file: self.file.to_owned(), key: key_path, line: key.place.line });
    }

    fn step(&mut self, step: &mut YamlNode) {
        let YamlValue::Map(entries) = &mut step.value else { return };
        let Some(kind) =
            KINDS.into_iter().chain(["step"]).find(|kind| entries.iter().any(|(key, _)| key.name == *kind))
        else {
            return;
        };
        let useless = useless_keys(kind);
        let (dropped, mut kept): (Vec<_>, Vec<_>) =
            std::mem::take(entries).into_iter().partition(|(key, _)| useless.contains(&key.name.as_str()));
        for (key, _) in &dropped {
            self.leave_out(key, "");
        }
        for (key, node) in &mut kept {
            if key.name == "loop" {
                self.looped(node);
            }
        }
        // Archon ends a script after two minutes, dacapo after five.
        if kind == "bash" && kept.iter().all(|(key, _)| key.name != "timeout") {
            kept.push(entry("timeout", "2m", true));
        }
        *entries = kept;
    }

    fn looped(&mut self, node: &mut YamlNode) {
        let YamlValue::Map(entries) = &mut node.value else { return };
        let has =
            |entries: &[(YamlKey, YamlNode)], name: &str| entries.iter().any(|(key, _)| key.name == name);
        if has(entries, "until") && has(entries, "until_bash") && !has(entries, "any") {
            entries.push(entry("any", "true", true));
        }
        let is_true = |node: &YamlNode| matches!(&node.value, YamlValue::Scalar { text, .. } if matches!(text.trim().to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1"));
        let is_interactive = entries.iter().any(|(key, node)| key.name == "interactive" && is_true(node));
        if let Some(at) = entries.iter().position(|(key, _)| key.name == "gate_message")
            && !is_interactive
        {
            let (key, _) = entries.remove(at);
            self.leave_out(&key, "loop.");
        }
    }
}

fn entry(key: &str, text: &str, is_plain: bool) -> (YamlKey, YamlNode) {
    let value = YamlValue::Scalar { text: text.to_owned(), is_plain };
    (YamlKey { place: TOP, name: key.to_owned() }, YamlNode { place: TOP, value })
}

/// Writes words that are no variables of dacapo's so that they stay as they are, as they would in Archon's files.
fn literal_texts(node: &mut YamlNode) {
    match &mut node.value {
        YamlValue::Scalar { .. } => {}
        YamlValue::List(items) => items.iter_mut().for_each(literal_texts),
        YamlValue::Map(entries) => {
            for (key, node) in entries {
                let is_text =
                    ["prompt", "gate_message", "message", "cancel", "approval"].contains(&key.name.as_str());
                match &mut node.value {
                    YamlValue::Scalar { text, .. } if is_text => *text = literal(text),
                    _ if key.name == "output_format" => {}
                    _ => literal_texts(node),
                }
            }
        }
    }
}

fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    for found in template::find(text) {
        let Name::Unknown(name) = &found.name else { continue };
        out.push_str(&text[end..found.range.start]);
        out.push_str(&format!("${{{name}}}"));
        end = found.range.end;
    }
    out.push_str(&text[end..]);
    out
}
