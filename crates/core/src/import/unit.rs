//! Drafts of tasks become the files of a unit.

use std::collections::{BTreeMap, BTreeSet};

use super::{Imported, NewFile, Product, clean, emit, file_name, slug};
use crate::{
    ids::UnitId,
    problem::{CheckedFile, Problem},
    text::nearest::nearest,
    unit::check,
    yaml::{TextPlace, short},
};

/// The plan of a unit, in its folder.
const PLAN: &str = "IMPLEMENTATION_PLAN.md";
/// How many tasks a unit may have.
const MAX_TASKS: usize = 1000;
/// What stands for a proof where none is known.
const NO_PROOF: &str = "true";

/// How the unit is called, and what proves its tasks.
#[derive(Clone, Debug, Default)]
pub struct UnitSettings<'a> {
    /// The folder of units, from the top of the repository.
    pub dir: &'a str,
    /// What the user wants the unit or the workflow to be called.
    pub name: Option<&'a str>,
    /// The command that proves each task whose source names none.
    pub check: Option<&'a str>,
}

/// Everything that a source tells about its tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskList {
    /// What the source calls itself, for the name of the unit.
    pub(super) name: String,
    pub(super) title: String,
    /// Words about all of it.
    pub(super) about: String,
    /// In the order in which they are to be done.
    pub(super) tasks: Vec<TaskDraft>,
    /// Whether tasks name what they depend on; if not, each depends on the one before it.
    pub(super) has_dependencies: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskDraft {
    /// What the source calls it.
    pub(super) id: Option<String>,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) is_done: bool,
    /// By the ids of the source.
    pub(super) depends_on: Vec<String>,
    pub(super) check: Option<String>,
    /// The line at which the task begins in the source.
    pub(super) line: u32,
}

pub(super) fn unit(
    source: CheckedFile<'_>,
    list: TaskList,
    settings: &UnitSettings<'_>,
) -> Result<Imported, Vec<Problem>> {
    let order = order(source, &list)?;
    let done = list.tasks.iter().filter(|task| task.is_done).count();
    let open: Vec<usize> = order.into_iter().filter(|at| !list.tasks[*at].is_done).collect();
    let empty = |product| Imported {
        product,
        files: Vec::new(),
        notes: Vec::new(),
        left_out: Vec::new(),
        problems: Vec::new(),
    };
    if open.is_empty() {
        return Ok(empty(Product::Nothing { done }));
    }
    if open.len() > MAX_TASKS {
        let what = format!("{} tasks are open, and a unit has at most {MAX_TASKS}", open.len());
        return Err(vec![Problem::of_file(source.file, what, "split the file")]);
    }
    let name = unit_name(source, &list, settings)?;
    let folder = format!("{}/{name}", settings.dir.trim_end_matches('/'));
    let numbers: BTreeMap<usize, usize> =
        open.iter().enumerate().map(|(index, at)| (*at, index + 1)).collect();
    let by_id = by_id(&list);
    let mut files = Vec::new();
    let mut unproven = 0;
    for (at, number) in &numbers {
        let task = &list.tasks[*at];
        let mut depends_on: Vec<usize> = if list.has_dependencies {
            task.depends_on.iter().filter_map(|id| numbers.get(by_id.get(id.as_str())?).copied()).collect()
        } else {
            number.checked_sub(1).filter(|before| *before > 0).into_iter().collect()
        };
        depends_on.sort_unstable();
        depends_on.dedup();
        let check = task.check.as_deref().or(settings.check);
        unproven += usize::from(check.is_none());
        let text = task_text(source, task, *number, &depends_on, check);
        let path = format!("{folder}/{}", task_file(*number, &task.title));
        files.push(NewFile { path, text });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    // The plan makes a folder a unit, so it is written last.
    files.push(NewFile { path: format!("{folder}/{PLAN}"), text: plan_text(source, &list) });
    let mut imported =
        empty(Product::Unit { name, folder: folder.clone(), tasks: open.len(), done, unproven });
    if unproven > 0 {
        imported.notes.push(format!(
            "no command proves {}: each counts as done when its agent says so; `--check CMD` names one",
            if unproven == 1 { "1 task".to_owned() } else { format!("{unproven} tasks") }
        ));
    }
    let problems = check_unit(&folder, &files);
    imported.files = files;
    if problems.is_empty() { Ok(imported) } else { Err(problems) }
}

/// What `dacapo unit check` would say about the new files.
fn check_unit(folder: &str, files: &[NewFile]) -> Vec<Problem> {
    let views: Vec<check::File<'_>> =
        files.iter().map(|file| check::File { file: &file.path, bytes: file.text.as_bytes() }).collect();
    match views.split_last() {
        Some((plan, tasks)) => check::unit(folder, *plan, tasks).problems,
        None => Vec::new(),
    }
}

fn unit_name(
    source: CheckedFile<'_>,
    list: &TaskList,
    settings: &UnitSettings<'_>,
) -> Result<UnitId, Vec<Problem>> {
    let own = |text: &str| Some(slug(text, 40)).filter(|name| !name.is_empty());
    let stem = file_name(source.file).rsplit_once('.').map_or(source.file, |(stem, _)| stem);
    let name = match settings.name {
        Some(name) => name.to_owned(),
        None => own(&list.name).or_else(|| own(stem)).unwrap_or_else(|| "imported".to_owned()),
    };
    name.parse().map_err(|error: crate::ids::InvalidId| {
        vec![Problem::of_file(source.file, error.to_string(), "name the unit with `--name NAME`")]
    })
}

fn task_file(number: usize, title: &str) -> String {
    let name = slug(title, 40);
    let name = if name.is_empty() { "task" } else { &name };
    // Names of task files begin with two digits; the number of a task stands in its head.
    if number < 100 { format!("{number:02}-{name}.md") } else { format!("99-{number}-{name}.md") }
}

fn task_text(
    source: CheckedFile<'_>,
    task: &TaskDraft,
    number: usize,
    depends_on: &[usize],
    check: Option<&str>,
) -> String {
    let mut text = format!("---\ntask: {number}\nstatus: pending\n");
    match check {
        Some(check) => text += &format!("backpressure: {}\n", emit::scalar(check.trim())),
        None => {
            text += "# No command was known that proves this task: the agent is believed. Write one.\n";
            text += &format!("backpressure: {}\n", emit::quoted(NO_PROOF));
        }
    }
    if !depends_on.is_empty() {
        let numbers: Vec<String> = depends_on.iter().map(ToString::to_string).collect();
        text += &format!("depends_on: [{}]\n", numbers.join(", "));
    }
    text += "---\n\n";
    let title = one_line(&task.title);
    text += &match &task.id {
        Some(id) if !title.contains(id.as_str()) => format!("# {}: {title}\n", one_line(id)),
        _ => format!("# {title}\n"),
    };
    let body = clean(task.body.trim());
    if !body.is_empty() {
        text += &format!("\n{body}\n");
    }
    text += &format!("\nImported from `{}`, line {}.\n", one_line(file_name(source.file)), task.line);
    text
}

fn plan_text(source: CheckedFile<'_>, list: &TaskList) -> String {
    let mut text =
        format!("# {}\n\nImported from `{}`.\n", one_line(&list.title), one_line(file_name(source.file)));
    let about = clean(list.about.trim());
    if !about.is_empty() {
        text += &format!("\n{about}\n");
    }
    let done: Vec<&TaskDraft> = list.tasks.iter().filter(|task| task.is_done).collect();
    if !done.is_empty() {
        text += "\nDone before:\n\n";
        for task in done {
            text += &format!("- {}\n", one_line(&task.title));
        }
    }
    text
}

/// One line of modest length in which everything can be seen.
pub(super) fn one_line(text: &str) -> String {
    let text: String = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn by_id(list: &TaskList) -> BTreeMap<&str, usize> {
    let ids = list.tasks.iter().enumerate().filter_map(|(at, task)| Some((task.id.as_deref()?, at)));
    ids.collect()
}

/// The tasks so that each comes after those it depends on, else as the source has them.
fn order(source: CheckedFile<'_>, list: &TaskList) -> Result<Vec<usize>, Vec<Problem>> {
    let problem =
        |line: u32, what: String, fix: String| source.problem(TextPlace { line, column: 1 }, what, fix);
    let mut problems = Vec::new();
    let by_id = by_id(list);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for task in &list.tasks {
        if let Some(id) = &task.id
            && let Some(first) = seen.insert(id, task.line)
        {
            let what = format!("`{}` is there twice, first in line {first}", short(id));
            problems.push(problem(task.line, what, "give one of them another id".to_owned()));
        }
    }
    let mut waits_for: Vec<BTreeSet<usize>> = Vec::new();
    for task in &list.tasks {
        let mut before = BTreeSet::new();
        for id in task.depends_on.iter().filter(|_| list.has_dependencies) {
            match by_id.get(id.as_str()) {
                Some(other) => {
                    before.insert(*other);
                }
                None => {
                    let known: Vec<&str> = by_id.keys().copied().take(200).collect();
                    let fix = match nearest(id, &known) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => "name tasks of this file by their ids".to_owned(),
                    };
                    problems.push(problem(
                        task.line,
                        format!("there is no task `{}` to depend on", short(id)),
                        fix,
                    ));
                }
            }
        }
        waits_for.push(before);
    }
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); list.tasks.len()];
    for (at, before) in waits_for.iter().enumerate() {
        for before in before {
            behind[*before].push(at);
        }
    }
    let (mut order, mut placed) = (Vec::new(), BTreeSet::new());
    let mut ready: BTreeSet<usize> = (0..list.tasks.len()).filter(|at| waits_for[*at].is_empty()).collect();
    while let Some(next) = ready.pop_first() {
        placed.insert(next);
        order.push(next);
        for after in &behind[next] {
            waits_for[*after].remove(&next);
            if waits_for[*after].is_empty() {
                ready.insert(*after);
            }
        }
    }
    if let Some(first) = (0..list.tasks.len()).find(|at| !placed.contains(at)) {
        let ring: Vec<String> = (first..list.tasks.len())
            .filter(|at| !placed.contains(at))
            .take(20)
            .map(|at| format!("`{}`", short(list.tasks[at].id.as_deref().unwrap_or_default())))
            .collect();
        let what = format!("tasks wait for each other: {}", ring.join(", "));
        let fix = "take one of these dependencies away".to_owned();
        problems.push(problem(list.tasks[first].line, what, fix));
    }
    if problems.is_empty() { Ok(order) } else { Err(problems) }
}
