//! `dacapo task`: one file per command below it.

mod add;
mod check;
mod confirm;
mod list;
mod planned;
pub(super) mod run;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dacapo_core::{
    ids::TaskId,
    stages::{Ralph, RalphFailure, StageTask, StageTaskList, StageTaskStatus, task::FOLDER},
    text::nearest::nearest,
    trust::{Runnable, taken_as_done},
    view::{StageTaskView, TaskQuestionView},
    yaml::short,
};
use dacapo_engine::{
    stage_tasks,
    trust::{self, ConsentScope},
    units,
};
use serde_json::{Value, json};

use super::warn;
use crate::{context::Context, error::UserError};

/// Work with tasks: each is written, reviewed, tested and used before it counts as done
///
/// A task is a file in .dacapo/tasks. It begins with `id`, `title`, `status` and `depends_on` between two lines of `---`, and
/// what is to be done follows below. It passes through four stages, coder, reviewer, tester and qa, each with an agent, a
/// limit and a proof of its own; docs/guide/tasks.md explains them.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo task add \"Add a login page\" --body-file login.md\n  dacapo task list\n  dacapo task show TASK-001 --json\n  dacapo task check"
)]
pub(super) struct TaskArgs {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Subcommand, Debug)]
enum TaskCommand {
    Add(add::AddArgs),
    List(list::TaskListArgs),
    Show(show::ShowArgs),
    Check(check::TaskCheckArgs),
    Confirm(confirm::ConfirmArgs),
    Run(Box<run::TaskRunArgs>),
}

impl TaskArgs {
    /// What an agent may not do: see [`super::Command::decides`].
    pub(super) fn decides(&self) -> Option<&'static str> {
        match &self.command {
            TaskCommand::Add(_) | TaskCommand::List(_) | TaskCommand::Show(_) | TaskCommand::Check(_) => None,
            TaskCommand::Confirm(_) => Some("say that a task is done"),
            TaskCommand::Run(_) => Some("run tasks"),
        }
    }
}

pub(super) use planned::{ExplainTaskArgs, PlannedTask};

pub(super) fn task(cx: &Context, args: &TaskArgs) -> Result<u8, UserError> {
    match &args.command {
        TaskCommand::Add(args) => add::add(cx, args),
        TaskCommand::List(args) => list::list(cx, args),
        TaskCommand::Show(args) => show::show(cx, args),
        TaskCommand::Check(args) => check::check(args),
        TaskCommand::Confirm(args) => confirm::confirm(cx, args),
        TaskCommand::Run(args) => run::run(cx, args),
    }
}

/// The repository that a command works on.
#[derive(Args, Debug, Clone)]
struct TasksPlace {
    /// The repository (default: the one that this folder lies in)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl TasksPlace {
    /// The top of the repository. git is not asked.
    fn root(&self) -> Result<PathBuf, UserError> {
        Ok(units::top(&Context::folder(self.dir.as_ref())?))
    }
}

/// Refuses a folder in which no task could be worked on.
fn require_repository(root: &Path) -> Result<(), UserError> {
    if std::fs::symlink_metadata(root.join(".git")).is_err() {
        Context::refuse_bare(root)?;
        let what = format!("`{}` lies in no git repository, and a task is worked on in one", root.display());
        return Err(UserError::usage(what).hint("`git init` makes one; `--dir DIR` names another folder"));
    }
    Ok(())
}

/// The tasks of a repository.
struct RepositoryTasks {
    found: StageTaskList,
}

impl RepositoryTasks {
    fn at(place: &TasksPlace) -> Result<Self, UserError> {
        Ok(Self { found: stage_tasks::load(&place.root()?) })
    }

    /// The task that `text` means: its id, or the beginning of its id alone.
    fn task(&self, text: &str) -> Result<&StageTask, UserError> {
        let tasks = &self.found.tasks;
        if let Some(task) = tasks.iter().find(|task| task.spec.id.as_str() == text) {
            return Ok(task);
        }
        let alike = |task: &&StageTask| !text.is_empty() && task.spec.id.as_str().starts_with(text);
        let alike: Vec<&StageTask> = tasks.iter().filter(alike).collect();
        match alike.as_slice() {
            [task] => return Ok(task),
            [] => {}
            several => {
                let ids: Vec<&str> = several.iter().map(|task| task.spec.id.as_str()).collect();
                let what = format!("`{}` can mean several tasks: {}", short(text), ids.join(", "));
                return Err(UserError::usage(what).hint("write more of the id"));
            }
        }
        let known: Vec<&str> = tasks.iter().map(|task| task.spec.id.as_str()).collect();
        let hint = match nearest(text, &known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if !self.found.problems.is_empty() => {
                "not all task files can be read; `dacapo task check` says why".to_owned()
            }
            None => "`dacapo task list` shows the tasks there are".to_owned(),
        };
        Err(UserError::usage(format!("no task in `{FOLDER}` is called `{}`", short(text))).hint(hint))
    }

    /// Says that there is more than is shown.
    fn warn(&self) {
        if !self.found.problems.is_empty() {
            let number = self.found.problems.len();
            warn(&[format!("problems in task files: {number}; `dacapo task check` shows them")]);
        }
    }
}

/// What is said of a task that [`KnownTask::is_unproven`].
const UNPROVEN: &str = "whose file says `done` although no finished run of it is recorded";

/// A task of a file, with what the journal knows of its newest run.
struct KnownTask<'a> {
    task: &'a StageTask,
    run: Option<&'a StageTaskView>,
    /// Whether the user has said that it is done.
    is_confirmed: bool,
    /// What it depends on that is not done.
    waits_for: Vec<&'a TaskId>,
}

impl KnownTask<'_> {
    /// While a run of the task is open, the journal says how far it is; otherwise its file does, unless a dacapo that was killed has
    /// left it as it was in the middle of the run.
    fn status(&self) -> StageTaskStatus {
        let of_run = |run: &StageTaskView| match run.is_over {
            true => self.task.status.after_run(run.status),
            false => run.status,
        };
        self.run.map_or(self.task.status, of_run)
    }

    /// Whether its file says that it is done, and neither a run of it nor the user does: an agent can write into a file.
    fn is_unproven(&self) -> bool {
        let is_run_done = || self.run.is_some_and(|run| run.is_over && run.status == StageTaskStatus::Done);
        self.status() == StageTaskStatus::Done && !self.is_confirmed && !is_run_done()
    }

    /// Whether a process works on it, it waits, or it needs the user, in one word: `todo`, `waiting` (for a task that it depends
    /// on), `running`, `merging`, `paused`, `asking`, `stopped`, `failed`, `cancelled` or `done`.
    fn state(&self) -> &str {
        match self.run {
            Some(run) if !run.is_over && run.question.is_some() => "asking",
            Some(run) if !run.is_over && run.is_merging && run.state == "running" => "merging",
            Some(run) if !run.is_over => &run.state,
            _ if self.status() == StageTaskStatus::Done => "done",
            _ if !self.waits_for.is_empty() => "waiting",
            Some(run) if matches!(run.state.as_str(), "failed" | "cancelled") => &run.state,
            _ => "todo",
        }
    }

    /// The stage that the task is in. While the user is asked it is in none.
    fn ralph(&self) -> Option<&Ralph> {
        let is_going_on = self.status() != StageTaskStatus::Todo;
        self.run.filter(|run| !run.is_over && is_going_on)?.ralph.as_ref()
    }

    fn question(&self) -> Option<&TaskQuestionView> {
        self.run?.question.as_ref()
    }

    /// Why the task is to do again. What the user has set to done meanwhile has not failed.
    fn failure(&self) -> Option<&RalphFailure> {
        self.run?.ralph_failure.as_ref().filter(|_| self.status() == StageTaskStatus::Todo)
    }
}

/// The newest run of each task of a repository.
struct TaskRuns {
    newest: Vec<StageTaskView>,
    /// What the user has agreed to about tasks.
    granted: Vec<Runnable>,
}

impl TaskRuns {
    fn at(cx: &Context, place: &TasksPlace) -> Result<Self, UserError> {
        // Looking makes nothing: no journal means no runs.
        if !cx.home.path().exists() {
            return Ok(Self { newest: Vec::new(), granted: Vec::new() });
        }
        let root = place.root()?;
        let newest = cx.client()?.newest_tasks(Some(&Context::project_of(&root)))?;
        Ok(Self {
            newest: newest.into_iter().map(|seen| seen.view).collect(),
            granted: trust::granted(&cx.home, &root, ConsentScope::Tasks)?,
        })
    }

    fn of<'a>(&'a self, task: &'a StageTask, all: &'a [StageTask]) -> KnownTask<'a> {
        let is_open = |id: &&TaskId| {
            let other = all.iter().find(|other| other.spec.id == **id);
            other
                .map(|other| self.alone(other))
                .is_none_or(|other| other.status() != StageTaskStatus::Done || other.is_unproven())
        };
        KnownTask { waits_for: task.spec.depends_on.iter().filter(is_open).collect(), ..self.alone(task) }
    }

    fn alone<'a>(&'a self, task: &'a StageTask) -> KnownTask<'a> {
        let run = self.newest.iter().find(|view| view.task == task.spec.id);
        let is_confirmed = self.granted.iter().any(|known| known.is_same(&taken_as_done(task)));
        KnownTask { task, run, is_confirmed, waits_for: Vec::new() }
    }
}

/// A task as scripts see it.
fn as_json(known: &KnownTask<'_>) -> Value {
    let spec = &known.task.spec;
    let run = known.run;
    json!({
        "id": spec.id,
        "title": spec.title,
        "status": known.status(),
        "state": known.state(),
        "is_proven": known.status() == StageTaskStatus::Done && !known.is_unproven(),
        "depends_on": spec.depends_on,
        "waits_for": known.waits_for,
        "run": run.map(|run| &run.id),
        "question": known.question(),
        "findings": run.map(|run| run.ledger.findings.as_slice()).unwrap_or_default(),
        "commit": run.and_then(|run| run.commit.as_ref()),
        "worktree": run.filter(|run| run.state != "completed").and_then(|run| run.worktree.as_ref()),
        "ralph": known.ralph(),
        "ralph_failure": known.failure(),
        "file": spec.file,
        "branch": spec.branch(),
    })
}
