//! Whether the steps of one file fit together: names, dependencies, conditions and variables.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    Dialect, Step, StepId, StepKind, WorkflowForm,
    condition::Comparison,
    parse::{Holds, StepDraft, TextAt},
    reader::Reader,
    shell::{self, Misplaced},
    template::{self, ARCHON_ONLY, NAMED, Name, Variable},
};
use crate::{
    problem::{CheckedFile, Problem, Spot},
    text::nearest::{distance, nearest},
    unit::graph::rings,
    yaml::TextPlace,
};

/// Environment variables that prompts speak of; they are not taken for a variable with a typing error.
const USUAL: [&str; 14] = [
    "CARGO_HOME",
    "CI",
    "EDITOR",
    "GITHUB_TOKEN",
    "HOME",
    "LANG",
    "NODE_ENV",
    "PATH",
    "PORT",
    "PWD",
    "SHELL",
    "TASK_FOLDER",
    "TMPDIR",
    "USER",
];

/// How many problems of one text are told.
const MOST: usize = 100;

/// Steps as [`Step::depends_on`] has them, by name: enough to say what a text may refer to.
struct Names<'a> {
    index: HashMap<&'a StepId, usize>,
    steps: Vec<&'a Step>,
    /// For each step, those that are settled before it begins.
    above: Vec<Set>,
}

impl<'a> Names<'a> {
    /// In the order of the file.
    fn known(&self) -> Vec<&'a str> {
        self.steps.iter().map(|step| step.id.as_str()).collect()
    }
}

/// Checks the steps of a file, and hands them on with the places of their command names.
pub(super) fn check(
    reader: &mut Reader<'_>,
    drafts: Vec<StepDraft>,
    form: WorkflowForm,
) -> Vec<(Step, Option<Spot>)> {
    same_environment(reader, &drafts);
    let names = names(reader, &drafts);
    for (at, draft) in drafts.iter().enumerate() {
        if let (Some(condition), Some(place)) = (&draft.step.when, draft.when_at) {
            for comparison in condition.comparisons() {
                compare(reader, &names, at, comparison, place);
            }
        }
        for text in &draft.texts {
            let is_lone_loop = form == WorkflowForm::Loop;
            let source = reader.source;
            for (problem, is_note) in variables(&names, at, text, source, reader.dialect, is_lone_loop) {
                let list = if is_note { &mut reader.notes } else { &mut reader.problems };
                if list.len() < 100 {
                    list.push(problem);
                }
            }
        }
    }
    drafts
        .into_iter()
        .map(|draft| (draft.step, draft.command_at.map(|place| reader.source.spot(place))))
        .collect()
}

/// Two names that would be the same in the environment of a script.
fn same_environment(reader: &mut Reader<'_>, drafts: &[StepDraft]) {
    let mut known: BTreeMap<String, &StepId> = BTreeMap::new();
    for draft in drafts {
        let id = &draft.step.id;
        if let Some(other) = known.insert(shell::key(id), id) {
            let what = format!("`{other}` and `{id}` are the same name for a script");
            reader.wrong(draft.place, what, "give one of them another `id`");
        }
    }
}

fn names<'a>(reader: &mut Reader<'_>, drafts: &'a [StepDraft]) -> Names<'a> {
    let steps: Vec<&Step> = drafts.iter().map(|draft| &draft.step).collect();
    let index: HashMap<&StepId, usize> = steps.iter().enumerate().map(|(at, step)| (&step.id, at)).collect();
    let known: Vec<&str> = steps.iter().map(|step| step.id.as_str()).collect();
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (at, draft) in drafts.iter().enumerate() {
        let place_of = |id: &StepId| {
            draft.depends_at.iter().find(|at| at.value == id.as_str()).map_or(draft.place, |at| at.place)
        };
        for id in &draft.step.depends_on {
            match index.get(id) {
                Some(to) if *to == at => reader.wrong(
                    place_of(id),
                    format!("step `{id}` depends on itself"),
                    "take it off the list",
                ),
                Some(to) => edges[at].push(*to),
                None => {
                    let fix = match nearest(id.as_str(), &known) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => format!("steps of this file: {}", known.join(", ")),
                    };
                    reader.wrong(place_of(id), format!("there is no step `{id}`"), fix);
                }
            }
        }
    }
    for ring in rings(&edges) {
        let way: Vec<&str> = ring.iter().chain(ring.first()).map(|at| steps[*at].id.as_str()).collect();
        let (from, to) = (ring[0], *ring.get(1).unwrap_or(&ring[0]));
        let id = steps[to].id.as_str();
        let place = drafts[from]
            .depends_at
            .iter()
            .find(|at| at.value == id)
            .map_or(drafts[from].place, |at| at.place);
        let what = format!("steps wait for each other: {}", way.join(" -> "));
        reader.wrong(place, what, "take one of these dependencies away");
    }
    let above = above(&edges);
    Names { index, steps, above }
}

/// A set of steps by their place in the file.
#[derive(Clone, Debug)]
struct Set(Vec<u64>);

impl Set {
    fn contains(&self, at: &usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }
}

/// For each step, everything above it. Steps on a ring are above nothing: what is wrong with them was said.
fn above(edges: &[Vec<usize>]) -> Vec<Set> {
    let empty = Set(vec![0; edges.len().div_ceil(64)]);
    let mut above = vec![empty; edges.len()];
    let mut waits_for: Vec<usize> = edges.iter().map(Vec::len).collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); edges.len()];
    for (at, before) in edges.iter().enumerate() {
        for before in before {
            behind[*before].push(at);
        }
    }
    let mut ready: Vec<usize> = (0..edges.len()).filter(|at| waits_for[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        let own = above[at].clone();
        for next in &behind[at] {
            for (word, more) in above[*next].0.iter_mut().zip(&own.0) {
                *word |= more;
            }
            above[*next].insert(at);
            waits_for[*next] -= 1;
            if waits_for[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    above
}

fn compare(reader: &mut Reader<'_>, names: &Names<'_>, at: usize, comparison: &Comparison, place: TextPlace) {
    let Comparison { step, field, literal, .. } = comparison;
    let own = &names.steps[at].id;
    let Some(other) = names.index.get(step) else {
        let known = names.known();
        let fix = match nearest(step.as_str(), &known) {
            Some(meant) => format!("did you mean `${meant}.output`?"),
            None => format!("steps of this file: {}", known.join(", ")),
        };
        reader.wrong(place, format!("there is no step `{step}`"), fix);
        return;
    };
    if !names.above[at].contains(other) {
        let what = format!("`{own}` does not wait for `{step}`, whose answer it looks at");
        reader.wrong_unless_archon(place, what, format!("add it: `depends_on: [{step}]`"));
    }
    let target = names.steps[*other];
    if target.kind.has_agent() && field.is_none() {
        let what = format!("the whole answer of an agent (`${step}.output`) is compared with '{literal}'");
        let fix = "no agent answers with exactly these words: give the step an `output_format` and compare a field of it";
        reader.wrong(place, what, fix);
    }
    if let (Some(field), Some(problem)) = (field, missing_field(target, field.as_deref())) {
        reader.wrong(place, format!("`${step}.output.{field}` is nothing"), problem);
    }
}

/// Why a step's answer has no such field, as far as that can be known.
fn missing_field(step: &Step, field: Option<&str>) -> Option<String> {
    let StepKind::Agent(agent) = &step.kind else { return None };
    let schema = agent.output_format.as_ref()?;
    let properties = schema.get("properties")?.as_object()?;
    let field = field?;
    if properties.contains_key(field) {
        return None;
    }
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    Some(match nearest(field, &known) {
        Some(meant) => {
            format!("the `output_format` of `{}` has no `{field}`; did you mean `{meant}`?", step.id)
        }
        None => format!("the `output_format` of `{}` has: {}", step.id, known.join(", ")),
    })
}

/// What is wrong with the variables of a text, and whether it is only worth a note.
fn variables(
    names: &Names<'_>,
    at: usize,
    text: &TextAt,
    source: CheckedFile<'_>,
    dialect: Dialect,
    is_lone_loop: bool,
) -> Vec<(Problem, bool)> {
    let is_script = matches!(text.holds, Holds::Script | Holds::IterationScript);
    let archon = dialect == Dialect::Archon;
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for place in template::find(&text.text) {
        let written = &text.text[place.range.clone()];
        if !seen.insert(written.to_owned()) {
            continue;
        }
        // Finding the line costs a look at the file, which only a problem is worth, and not the thousandth of them.
        if found.len() >= MOST {
            break;
        }
        let spot = || source.spot(locate(source, text.place, written));
        match place.name {
            Name::Variable(Variable::Output { step, field }) => {
                let Some(other) = names.index.get(&step) else {
                    let known = names.known();
                    let fix = match nearest(step.as_str(), &known) {
                        Some(meant) if !is_lone_loop => format!("did you mean `${meant}.output`?"),
                        _ if is_lone_loop => {
                            "a loop has no other steps; write `$LOOP_PREV_OUTPUT` for its last answer"
                                .to_owned()
                        }
                        _ => format!("steps of this file: {}", known.join(", ")),
                    };
                    found.push((spot().problem(format!("there is no step `{step}`"), fix), false));
                    continue;
                };
                let target = names.steps[*other];
                if !names.above[at].contains(other) {
                    let what =
                        format!("`{}` does not wait for `{step}`, whose answer it uses", names.steps[at].id);
                    let fix = format!("add it: `depends_on: [{step}]`");
                    found.push((spot().problem(what, fix), archon));
                } else if let (Some(field), Some(fix)) = (&field, missing_field(target, field.as_deref())) {
                    found.push((spot().problem(format!("`${step}.output.{field}` is nothing"), fix), false));
                }
            }
            Name::Variable(variable) => {
                let is_in_loop = matches!(text.holds, Holds::Iteration | Holds::IterationScript);
                let (is_here, only) = match variable {
                    Variable::LoopPrevOutput | Variable::LoopUserInput => (is_in_loop, "in a loop"),
                    Variable::RejectionReason => (text.holds == Holds::Rejection, "in `on_reject`"),
                    _ => (true, ""),
                };
                if !is_here && !is_script {
                    let what = format!("`{written}` is nothing here: it stands for something {only} only");
                    found.push((spot().problem(what, "take it away"), archon));
                }
            }
            Name::Unknown(_) if is_script => {}
            Name::Unknown(name) => {
                let known: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
                let meant = near(&name, &known);
                if ARCHON_ONLY.contains(&name.as_str()) {
                    let what = format!("`${name}` is a variable of Archon's that dacapo has nothing for");
                    found.push((
                        spot().problem(what, "take it away; the agent would read it as it stands"),
                        false,
                    ));
                } else if let Some(meant) = meant {
                    let what = format!("there is no variable `${name}`");
                    found.push((spot().problem(what, format!("did you mean `${meant}`?")), false));
                } else if !USUAL.contains(&name.as_str()) && !name.starts_with("DACAPO_") {
                    let what = format!("there is no variable `${name}`");
                    let fix = format!("write `${{{name}}}` if the agent is to read it as it stands");
                    found.push((spot().problem(what, fix), archon));
                }
            }
        }
    }
    if is_script {
        let translated = shell::translate(&text.text, |id| names.index.contains_key(id));
        for (offset, why) in translated.misplaced {
            let rest = &text.text[offset..];
            let written = template::find(rest).into_iter().next().map_or("", |first| &rest[first.range]);
            let before = text.text[..offset].matches(written).count();
            let spot = source.spot(locate_nth(source, text.place, written, before));
            let as_argument = format!("hand it over as an argument: `sh -c '… \"$1\"' sh \"{written}\"`");
            let (what, fix) = match why {
                Misplaced::QuotedHereDocument => (
                    "the shell fills in nothing in a here-document whose end is quoted".to_owned(),
                    "write the end of the here-document without quotes".to_owned(),
                ),
                Misplaced::SingleQuotes => (
                    format!("the shell fills in nothing in single quotes, and `{written}` stands in some"),
                    format!(
                        "use double quotes, or, if another program reads this text as code, {as_argument}"
                    ),
                ),
                Misplaced::Code => (
                    format!(
                        "another shell would read `{written}` as code, and with it what a person or an agent wrote"
                    ),
                    as_argument,
                ),
            };
            found.push((spot.problem(what, fix), false));
        }
    }
    found
}

/// The known word that differs by two letters at most.
fn near<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known.iter().find(|known| word.len() <= 64 && distance(word, &known.to_lowercase()) <= 2).copied()
}

/// Where a piece of a text stands first in the file; the text begins at `from`, or below.
fn locate(source: CheckedFile<'_>, from: TextPlace, piece: &str) -> TextPlace {
    locate_nth(source, from, piece, 0)
}

/// As [`locate`], behind so many others that are alike.
fn locate_nth(source: CheckedFile<'_>, from: TextPlace, piece: &str, mut others: usize) -> TextPlace {
    let first = from.line.saturating_sub(1) as usize;
    for (index, line) in source.bytes.split(|b| *b == b'\n').enumerate().skip(first) {
        let line = String::from_utf8_lossy(line);
        let skip = if index == first { from.column.saturating_sub(1) as usize } else { 0 };
        let start = line.char_indices().nth(skip).map_or(line.len(), |(at, _)| at);
        for (at, _) in line[start..].match_indices(piece) {
            if others > 0 {
                others -= 1;
                continue;
            }
            let column = line[..start + at].chars().count() + 1;
            let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            return TextPlace { line: small(index + 1), column: small(column) };
        }
    }
    from
}

/// What is wrong with the variables in the text of a command file.
pub(super) fn command_variables(
    workflow: &super::Workflow,
    step: usize,
    file: &super::command::CommandFile,
) -> Vec<(Problem, bool)> {
    let steps: Vec<&Step> = workflow.steps.iter().collect();
    let index: HashMap<&StepId, usize> = steps.iter().enumerate().map(|(at, step)| (&step.id, at)).collect();
    let edges: Vec<Vec<usize>> = steps
        .iter()
        .map(|step| step.depends_on.iter().filter_map(|id| index.get(id).copied()).collect())
        .collect();
    let above = above(&edges);
    let holds = match steps[step].kind {
        StepKind::Loop(_) => Holds::Iteration,
        _ => Holds::Step,
    };
    let names = Names { index, steps, above };
    let text = TextAt { text: file.text.clone(), place: TextPlace { line: 1, column: 1 }, holds };
    let source = CheckedFile { file: &file.file, bytes: file.text.as_bytes() };
    // A command file is written for any workflow: words that are no variables stay as they are.
    let dialect = Dialect::Archon;
    variables(&names, step, &text, source, dialect, workflow.form == WorkflowForm::Loop)
}
