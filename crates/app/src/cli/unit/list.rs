//! `dacapo unit list`.

use std::collections::BTreeMap;

use clap::Args;
use dacapo_core::{
    ids::UnitId,
    unit::{Task, TaskStatus, Unit, graph},
    view::UnitStatus,
};
use dacapo_engine::units;
use serde::Serialize;

use super::{
    super::{say, say_json},
    RepositoryUnits, UnitsPlace,
};
use crate::{context::Context, error::UserError};

/// Show units, how far they are, and what they wait for
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo unit list\n  dacapo unit list --json")]
pub(super) struct UnitListArgs {
    #[command(flatten)]
    place: UnitsPlace,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A unit as scripts see it.
#[derive(Serialize)]
struct UnitLine<'a> {
    unit: &'a UnitId,
    status: &'static str,
    /// The same for people.
    #[serde(skip)]
    words: &'static str,
    tasks: Vec<TaskLine<'a>>,
    depends_on: &'a [UnitId],
    branch: Option<String>,
    blocked_by: Vec<UnitId>,
}

#[derive(Serialize)]
struct TaskLine<'a> {
    task: u32,
    title: &'a str,
    status: TaskStatus,
    file: &'a str,
}

impl<'a> UnitLine<'a> {
    /// What the files say, and what is known beyond them.
    fn of(unit: &'a Unit, known: UnitHistory) -> Self {
        let task = |task: &'a Task| TaskLine {
            task: task.spec.number,
            title: &task.spec.title,
            status: task.status,
            file: &task.spec.file,
        };
        let status = known.status.unwrap_or_else(|| graph::status(&unit.tasks).as_str());
        Self {
            unit: &unit.id,
            status,
            words: known.words.unwrap_or(status),
            tasks: unit.tasks.iter().map(task).collect(),
            depends_on: &unit.depends_on,
            branch: known.branch,
            blocked_by: known.blocked_by,
        }
    }
}

/// What is known about a unit that does not stand in its files.
#[derive(Default)]
struct UnitHistory {
    status: Option<&'static str>,
    /// The status for people, where that says more.
    words: Option<&'static str>,
    branch: Option<String>,
    blocked_by: Vec<UnitId>,
}

/// What the journal knows beyond the files, about each unit of the project that a run was ever about.
fn known(cx: &Context, place: &UnitsPlace) -> Result<BTreeMap<UnitId, UnitHistory>, UserError> {
    // Looking makes nothing: no journal means no runs.
    if !cx.home.path().exists() {
        return Ok(BTreeMap::new());
    }
    let project = Context::project_of(&units::top(&Context::folder(place.dir.as_ref())?));
    // Below an agent nothing is known of them but what the task files say.
    let views = cx.client()?.units(Some(&project))?;
    Ok(views
        .into_iter()
        .map(|view| {
            let known = UnitHistory {
                status: match view.status {
                    UnitStatus::Merged => None,
                    // As files call it.
                    UnitStatus::Completed => Some(TaskStatus::Complete.as_str()),
                    status => Some(status.words()),
                },
                words: view.asks().then(|| view.words()),
                branch: view.branch.filter(|_| view.merged.is_none()),
                blocked_by: view.blocked_by,
            };
            (view.unit, known)
        })
        .collect())
}

pub(super) fn list(cx: &Context, args: &UnitListArgs) -> Result<u8, UserError> {
    let found = RepositoryUnits::at(&args.place)?;
    let mut known = known(cx, &args.place)?;
    let units = found.checked.units.iter();
    let lines: Vec<UnitLine<'_>> =
        units.map(|unit| UnitLine::of(unit, known.remove(&unit.id).unwrap_or_default())).collect();
    found.warn();
    if args.json {
        return say_json(&lines);
    }
    if lines.is_empty() {
        say(format!("No units in `{}`.", found.dir));
        return Ok(0);
    }
    let mut rows = vec![["UNIT", "TASKS", "STATUS", "DEPENDS ON"].map(str::to_owned)];
    for line in &lines {
        let done = line.tasks.iter().filter(|task| task.status == TaskStatus::Complete).count();
        let depends_on: Vec<&str> = line.depends_on.iter().map(UnitId::as_str).collect();
        rows.push([
            line.unit.to_string(),
            format!("{done}/{}", line.tasks.len()),
            line.words.to_owned(),
            depends_on.join(", "),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (unit, tasks, status) = (width(0), width(1), width(2));
    let mut text = String::new();
    for [a, b, c, d] in &rows {
        text.push_str(format!("{a:unit$}  {b:tasks$}  {c:status$}  {d}").trim_end());
        text.push('\n');
    }
    say(text.trim_end());
    Ok(0)
}
