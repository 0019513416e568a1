//! `dacapo task add`.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use dacapo_core::{
    ids::TaskId,
    stages::task::{checked_id, checked_title},
    unit::frontmatter::MAX_FILE_BYTES,
};
use dacapo_engine::stage_tasks::{self, AddTaskError, NewTask};

use super::{
    super::{say, say_json, value},
    RepositoryTasks, TaskRuns, TasksPlace, as_json, require_repository,
};
use crate::{context::Context, error::UserError};

/// Add a task: writes its file and prints its id
///
/// The file is .dacapo/tasks/ID.md; edit it as you like. What is to be done is the body; without one, the title is all that the
/// agents are told. Only the id is printed on standard output.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo task add \"Add a login page\" --body-file login.md\n  dacapo task add \"Test the login page\" --depends-on TASK-001\n  gh issue view 7 --json body -q .body | dacapo task add \"Issue 7\" --body-file -"
)]
pub(super) struct AddArgs {
    /// What the task is, in one line
    #[arg(value_name = "TITLE", value_parser = checked_title, required_unless_present = "title")]
    typed: Option<String>,
    /// The same as TITLE
    #[arg(long, value_name = "TEXT", value_parser = checked_title, conflicts_with = "typed")]
    title: Option<String>,
    /// What is to be done
    #[arg(long, value_name = "TEXT", value_parser = value::not_blank, conflicts_with = "body_file")]
    body: Option<String>,
    /// A file that says what is to be done; `-` is standard input
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Its id (default: TASK-001 and so on, the next that is free)
    #[arg(long, value_parser = checked_id)]
    id: Option<TaskId>,
    /// A task that must be done first; can be given several times
    #[arg(long, value_name = "ID", value_parser = checked_id)]
    depends_on: Vec<TaskId>,
    #[command(flatten)]
    place: TasksPlace,
    /// The task as JSON instead of its id
    #[arg(long)]
    json: bool,
}

pub(super) fn add(cx: &Context, args: &AddArgs) -> Result<u8, UserError> {
    let root = args.place.root()?;
    require_repository(&root)?;
    // One of them was typed, or this was refused.
    let title = args.typed.as_ref().or(args.title.as_ref()).cloned().unwrap_or_default();
    let specification = match (&args.body, &args.body_file) {
        (Some(body), _) => body.clone(),
        (None, Some(file)) => text_of(file)?,
        (None, None) => title.clone(),
    };
    let new = NewTask { id: args.id.clone(), title, depends_on: args.depends_on.clone(), specification };
    let task = stage_tasks::add(&root, &new)?;
    if args.json {
        let repository = RepositoryTasks::at(&args.place)?;
        let runs = TaskRuns::at(cx, &args.place)?;
        return say_json(&as_json(&runs.of(&task, &repository.found.tasks)));
    }
    let _ = writeln!(io::stderr().lock(), "Wrote {}", task.spec.file);
    say(&task.spec.id);
    Ok(0)
}

/// The text of a file, or of standard input. No more is read than a task file may hold.
fn text_of(file: &Path) -> Result<String, UserError> {
    let most = MAX_FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    let file = file.display();
    read.map_err(|error| UserError::usage(format!("cannot read the body in `{file}`: {error}")))?;
    if bytes.len() > MAX_FILE_BYTES {
        let what = format!("the body in `{file}` is larger than {} KiB", MAX_FILE_BYTES / 1024);
        return Err(
            UserError::usage(what).hint("put what is long into a file of the repository, and name it")
        );
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.trim().is_empty() => Err(UserError::usage(format!("the body in `{file}` is blank"))),
        Ok(text) => Ok(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(UserError::usage(format!("the body in `{file}` is not UTF-8 (at byte {at})")))
        }
    }
}

impl From<AddTaskError> for UserError {
    fn from(error: AddTaskError) -> Self {
        match &error {
            AddTaskError::Taken { .. } => {
                Self::usage(&error).hint("choose another; without `--id` it is the next that is free")
            }
            AddTaskError::Wrong(problems) => {
                let fix = problems.first().and_then(|problem| problem.fix.as_deref()).unwrap_or_default();
                // The fix is that of a file which is there; this one is not.
                Self::usage(&error).hint(match fix.ends_with("off the list") {
                    true => "`--depends-on` names another task; `dacapo task list` shows those there are",
                    false => fix,
                })
            }
            AddTaskError::Folder(_) => Self::usage(&error),
            AddTaskError::File(_) => Self::environment(&error),
        }
    }
}
