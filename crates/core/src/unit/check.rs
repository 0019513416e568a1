//! Whether the files of units make sense, alone and together; everything that does not is said at once (req 7).

use std::collections::{BTreeMap, HashMap};

pub use super::parse::{ORCH_KEYS, PlanFile};
use super::{
    Task, TaskStatus, Unit, graph,
    parse::{self, ParsedTask},
};
pub use crate::problem::Problem;
use crate::{
    ids::UnitId,
    problem::{CheckedFile, Spot},
    text::nearest::nearest,
    yaml::short,
};

/// How many steps of a ring are shown.
const SHOWN: usize = 20;

/// A file of a unit.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its path from the top of the repository.
    pub file: &'a str,
    pub bytes: &'a [u8],
}

impl<'a> File<'a> {
    fn source(self) -> CheckedFile<'a> {
        CheckedFile { file: self.file, bytes: self.bytes }
    }
}

/// Reads a task file.
pub fn task(file: &str, bytes: &[u8]) -> Result<Task, Vec<Problem>> {
    let read = parse::task(CheckedFile { file, bytes });
    match read.parsed {
        Some(parsed) if read.problems.is_empty() => Ok(parsed.task),
        _ => Err(read.problems),
    }
}

pub fn plan(file: &str, bytes: &[u8]) -> Result<PlanFile, Vec<Problem>> {
    let (parsed, problems) = parse::plan(CheckedFile { file, bytes });
    if problems.is_empty() { Ok(parsed.plan) } else { Err(problems) }
}

/// How a task stands by what its file says now (req 8).
pub fn reread(file: &str, bytes: &[u8]) -> Result<TaskStatus, Problem> {
    parse::status(CheckedFile { file, bytes })
}

/// What could be read of a unit.
#[derive(Clone, Debug, Default)]
pub struct ReadUnit {
    /// The unit, if each of its files can be understood.
    pub unit: Option<Unit>,
    /// What is wrong with it, as far as that does not concern others.
    pub problems: Vec<Problem>,
    /// Its name, also if the rest of it cannot be used, and who says so.
    id: Option<(UnitId, Spot)>,
    /// Where it names what it depends on, in the same order.
    depends_at: Vec<(String, Spot)>,
}

impl ReadUnit {
    /// A folder that would be a unit if it could be read.
    pub fn unreadable(folder: &str, problems: Vec<Problem>) -> Self {
        let id = name_of(folder).parse().ok();
        let id = id.map(|id| {
            (id, CheckedFile { file: folder, bytes: &[] }.spot(crate::yaml::TextPlace { line: 1, column: 1 }))
        });
        Self { problems, id, ..Self::default() }
    }
}

/// All units of a repository, and all that is wrong with any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedUnits {
    /// The units that could be read, by id.
    pub units: Vec<Unit>,
    /// What is wrong, by file and line. While there are problems, no unit should be started.
    pub problems: Vec<Problem>,
    /// What is passed over and looks as if it was meant otherwise, for people.
    pub notes: Vec<String>,
}

fn name_of(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

/// Reads a unit from its plan and its task files.
pub fn unit(folder: &str, plan: File<'_>, tasks: &[File<'_>]) -> ReadUnit {
    let (parsed, mut problems) = parse::plan(plan.source());
    let is_plan_good = problems.is_empty();
    let id = parsed.plan.unit.as_deref().unwrap_or_else(|| name_of(folder)).parse::<UnitId>();
    let id = match id {
        Ok(id) => Some(id),
        Err(error) => {
            let fix = "rename the folder, or name the unit with `unit: NAME` in its plan";
            problems.push(parsed.unit_at.problem(error.to_string(), fix));
            None
        }
    };
    let depends_on: Vec<UnitId> = parsed.plan.depends_on.iter().filter_map(|id| id.parse().ok()).collect();
    let depends_at = parsed.plan.depends_on.into_iter().zip(parsed.depends_at).collect();
    let (tasks, more) = self::tasks(tasks);
    problems.extend(more);
    let unit = match (&id, tasks) {
        (Some(id), Some(tasks)) if is_plan_good => Some(Unit {
            id: id.clone(),
            folder: folder.to_owned(),
            depends_on,
            provider: parsed.plan.provider,
            provider_at: parsed.provider_at,
            tasks,
        }),
        _ => None,
    };
    ReadUnit { unit, problems, id: id.map(|id| (id, parsed.unit_at)), depends_at }
}

/// Reads the task files of one unit: the tasks by number, if each file can be understood, and what is wrong.
pub fn tasks(files: &[File<'_>]) -> (Option<Vec<Task>>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut parsed = Vec::new();
    for file in files {
        let read = parse::task(file.source());
        problems.extend(read.problems);
        parsed.extend(read.parsed);
    }
    let is_good = problems.is_empty();
    // What number a broken file would have is not known, so nothing is said about those that seem to be missing.
    let is_whole = parsed.len() == files.len();
    parsed.sort_by(|a, b| {
        let key = |parsed: &ParsedTask| parsed.task.spec.number;
        key(a).cmp(&key(b)).then_with(|| a.task.spec.file.cmp(&b.task.spec.file))
    });
    numbers(&parsed, is_whole, &mut problems);
    dependencies(&parsed, is_whole, &mut problems);
    let tasks = parsed.into_iter().map(|parsed| parsed.task).collect();
    ((is_whole && is_good).then_some(tasks), problems)
}

fn numbers(parsed: &[ParsedTask], is_whole: bool, problems: &mut Vec<Problem>) {
    let fix = "number the tasks of a unit 1, 2, 3 and so on";
    if let Some(first) = parsed.first()
        && first.task.spec.number != 1
        && is_whole
    {
        let what = format!("the first task has number {}, not 1", first.task.spec.number);
        problems.push(first.number_at.problem(what, fix));
    }
    for pair in parsed.windows(2) {
        let [before, after] = pair else { continue };
        let (low, high) = (before.task.spec.number, after.task.spec.number);
        if low == high {
            let what = format!("number {high} is taken by `{}`", short(&before.task.spec.file));
            problems.push(after.number_at.problem(what, fix));
        } else if high != low + 1 && is_whole {
            let missing =
                if high == low + 2 { (low + 1).to_string() } else { format!("{} to {}", low + 1, high - 1) };
            let what = format!("task {high} follows task {low}: {missing} is missing");
            problems.push(after.number_at.problem(what, fix));
        }
    }
}

fn dependencies(parsed: &[ParsedTask], is_whole: bool, problems: &mut Vec<Problem>) {
    let index: HashMap<u32, usize> =
        parsed.iter().enumerate().rev().map(|(at, parsed)| (parsed.task.spec.number, at)).collect();
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); parsed.len()];
    for (at, ParsedTask { task, depends_at, .. }) in parsed.iter().enumerate() {
        let own = task.spec.number;
        for (number, spot) in depends_at {
            match index.get(number) {
                _ if *number == own => problems.push(
                    spot.problem(format!("task {own} depends on itself"), "take its own number off the list"),
                ),
                Some(to) => edges[at].push(*to),
                None if is_whole => problems.push(spot.problem(
                    format!("task {own} depends on task {number}, which is not there"),
                    format!("name tasks of this unit, from 1 to {}", parsed.len()),
                )),
                None => {}
            }
        }
    }
    for ring in graph::rings(&edges) {
        let names: Vec<String> = ring.iter().map(|at| parsed[*at].task.spec.number.to_string()).collect();
        let (from, to) = (ring[0], ring.get(1).copied().unwrap_or(ring[0]));
        let to = parsed[to].task.spec.number;
        let spot = parsed[from].depends_at.iter().find(|(number, _)| *number == to).map(|(_, spot)| spot);
        problems.push(spot.unwrap_or(&parsed[from].number_at).problem(
            format!("tasks wait for each other: {}", way(&names)),
            "take one of these dependencies away",
        ));
    }
}

/// `a -> b -> a`, shortened if it is long.
fn way(names: &[String]) -> String {
    let mut steps: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
    if names.len() > SHOWN {
        steps.push("…");
    }
    steps.extend(names.first().map(String::as_str));
    steps.join(" -> ")
}

/// Looks at all units of a repository together.
pub fn all(units: Vec<ReadUnit>) -> CheckedUnits {
    let mut known: BTreeMap<UnitId, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for (at, read) in units.iter().enumerate() {
        let Some((id, spot)) = &read.id else { continue };
        if let Some(first) = known.get(id) {
            let other = units[*first].id.as_ref().map_or("", |(_, spot)| spot.file());
            let what = format!("a unit is called `{id}` already, by `{}`", short(other));
            problems.push(spot.problem(what, "give one of them another name with `unit: NAME` in its plan"));
        } else {
            known.insert(id.clone(), at);
        }
    }
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); units.len()];
    for (at, read) in units.iter().enumerate() {
        for (name, spot) in &read.depends_at {
            match name.parse::<UnitId>() {
                Err(error) => problems.push(spot.problem(error.to_string(), "name a unit by its id")),
                Ok(id) if read.id.as_ref().is_some_and(|(own, _)| *own == id) => problems
                    .push(spot.problem(format!("unit `{id}` depends on itself"), "take it off the list")),
                Ok(id) => match known.get(&id) {
                    Some(to) => edges[at].push(*to),
                    None => problems.push(unknown(&id, spot, &known)),
                },
            }
        }
    }
    for ring in graph::rings(&edges) {
        let name = |at: &usize| units[*at].id.as_ref().map_or("?", |(id, _)| id.as_str()).to_owned();
        let names: Vec<String> = ring.iter().map(name).collect();
        let next = names.get(1).unwrap_or(&names[0]);
        if let Some((_, spot)) = units[ring[0]].depends_at.iter().find(|(name, _)| name == next) {
            let what = format!("units wait for each other: {}", way(&names));
            problems.push(spot.problem(what, "take one of these dependencies away"));
        }
    }
    let mut checked = CheckedUnits { units: Vec::with_capacity(units.len()), problems, notes: Vec::new() };
    for read in units {
        checked.problems.extend(read.problems);
        checked.units.extend(read.unit);
    }
    checked.units.sort_by(|a, b| a.id.cmp(&b.id).then_with(|| a.folder.cmp(&b.folder)));
    checked.problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    checked
}

fn unknown(id: &UnitId, spot: &Spot, known: &BTreeMap<UnitId, usize>) -> Problem {
    // A word among thousands is likely to be near to something, and comparing costs time.
    let words: Vec<&str> =
        if known.len() <= 200 { known.keys().map(UnitId::as_str).collect() } else { Vec::new() };
    let meant = nearest(id.as_str(), &words);
    let fix = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`dacapo unit list` shows the units there are".to_owned(),
    };
    spot.problem(format!("there is no unit `{id}`"), fix)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
