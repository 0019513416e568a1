//! Task files of stages, `.dacapo/tasks/*.md`: found and read with distrust, added without writing over anything, and changed in
//! their status alone.

use std::{io, os::fd::OwnedFd, path::Path};

use dacapo_core::{
    ids::TaskId,
    problem::Problem,
    stages::{
        StageTask, StageTaskList, StageTaskStatus,
        task::{self, FOLDER, checked_id},
    },
};
use rustix::{fs::OFlags, io::Errno};

use crate::{
    safe_open,
    task_files::{self, TaskFileError},
    units::{cannot_read, entries, read_entry, refusal},
};

/// How many task files a repository may have.
const MAX_FILES: usize = 5000;
/// How often a free id is looked for while other processes take them.
const MAX_TRIES: usize = 1000;

/// Reads and checks every task of the repository at `root`. Without the folder there are none.
///
/// Every file of the folder whose name ends in `.md` is a task, but for a hidden one and a `README.md`. What cannot be read is a
/// problem and costs only itself.
pub fn load(root: &Path) -> StageTaskList {
    let TaskFolder { files, problems, .. } = TaskFolder::read(root);
    let mut found = task::list(files.iter().map(|(file, bytes)| (file.as_str(), bytes.as_slice())));
    found.problems.extend(problems);
    found.problems.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    found
}

/// Makes the file of a task say `status` and changes nothing else in it. Says whether anything had to be written.
pub fn set_status(root: &Path, file: &str, status: StageTaskStatus) -> Result<bool, TaskFileError> {
    let now =
        task_files::read(root, file).map_err(|source| TaskFileError::Io { file: file.to_owned(), source })?;
    let wanted =
        task::with_status(&now, status).map_err(|_| TaskFileError::Unreadable { file: file.to_owned() })?;
    task_files::write(root, file, Some(&now), &wanted)
}

/// What the file of a task says; none if it cannot be read.
pub(crate) fn status_of(root: &Path, file: &str) -> Option<StageTaskStatus> {
    let bytes = task_files::read(root, file).ok()?;
    task::parse(file, &bytes).ok().map(|task| task.status)
}

/// A task that is to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// None: the next that is free.
    pub id: Option<TaskId>,
    pub title: String,
    pub depends_on: Vec<TaskId>,
    pub specification: String,
}

/// Why a task was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddTaskError {
    #[error("there is a task `{id}` already, `{file}`")]
    Taken { id: TaskId, file: String },
    /// Its own words, or a task that it depends on.
    #[error("{}", .0.first().map(|problem| problem.what.as_str()).unwrap_or("the task cannot be read back"))]
    Wrong(Vec<Problem>),
    #[error("{}", .0.line())]
    Folder(Problem),
    #[error(transparent)]
    File(#[from] TaskFileError),
}

/// Writes the file of a new task, `.dacapo/tasks/<id>.md`, and gives the task as it was read back. Nothing that is there is
/// written over, also while other processes add tasks.
pub fn add(root: &Path, new: &NewTask) -> Result<StageTask, AddTaskError> {
    for _ in 0..MAX_TRIES {
        let TaskFolder { names, files, problems } = TaskFolder::read(root);
        if let Some(problem) = problems.into_iter().find(|problem| problem.file == FOLDER) {
            return Err(AddTaskError::Folder(problem));
        }
        // The name of a file that cannot be read as a task keeps its id all the same.
        let ids_of_names = names.iter().filter_map(|name| name.strip_suffix(".md"));
        let read: Vec<StageTask> =
            files.iter().filter_map(|(file, bytes)| task::parse(file, bytes).ok()).collect();
        let id = match &new.id {
            Some(id) => id.clone(),
            None => {
                let ids = read.iter().map(|task| task.spec.id.as_str()).chain(ids_of_names);
                checked_id(&task::next_id(ids)).map_err(|what| {
                    AddTaskError::Folder(Problem::of_file(FOLDER, what, "choose an id with `--id`"))
                })?
            }
        };
        let is_same = |known: &StageTask| known.spec.id.as_str().eq_ignore_ascii_case(id.as_str());
        if let Some(known) = read.into_iter().find(is_same) {
            return Err(AddTaskError::Taken { id, file: known.spec.file });
        }
        let file = format!("{FOLDER}/{id}.md");
        let text = task::format(&id, &new.title, &new.depends_on, &new.specification);
        let task = held_against_others(&file, text.as_bytes(), &files)?;
        if task_files::write_new(root, &file, text.as_bytes())? {
            return Ok(task);
        }
        // Another process was faster, or a file that is no task stands there.
        if new.id.is_some() {
            return Err(AddTaskError::Taken { id, file });
        }
    }
    let what = "no id is free: other processes take each that is tried";
    Err(AddTaskError::Folder(Problem::of_file(FOLDER, what, "choose an id with `--id`")))
}

/// The new task as it will be read, if nothing is wrong with it beside the tasks that are there.
fn held_against_others(
    file: &str,
    bytes: &[u8],
    others: &[(String, Vec<u8>)],
) -> Result<StageTask, AddTaskError> {
    let all = others.iter().map(|(file, bytes)| (file.as_str(), bytes.as_slice())).chain([(file, bytes)]);
    let StageTaskList { tasks, mut problems, .. } = task::list(all);
    match tasks.into_iter().find(|task| task.spec.file == file) {
        Some(task) => Ok(task),
        None => {
            problems.retain(|problem| problem.file == file);
            Err(AddTaskError::Wrong(problems))
        }
    }
}

/// The files of tasks, and what is wrong with those that cannot be read.
#[derive(Default)]
struct TaskFolder {
    /// The names of all of them, also of those that cannot be read.
    names: Vec<String>,
    /// Each by its path from the top of the repository.
    files: Vec<(String, Vec<u8>)>,
    problems: Vec<Problem>,
}

impl TaskFolder {
    fn read(root: &Path) -> Self {
        let opened = safe_open::root(root).and_then(|top| safe_open::open(&top, FOLDER, OFlags::DIRECTORY));
        match opened {
            Ok(folder) => Self::of(&folder).unwrap_or_else(Self::refused),
            Err(Errno::NOENT) => Self::default(),
            Err(error) => Self::refused(error),
        }
    }

    fn of(folder: &OwnedFd) -> Result<Self, Errno> {
        let mut read = Self::default();
        for entry in entries(folder)?.iter().filter(|entry| is_task(&entry.name)) {
            if read.names.len() == MAX_FILES {
                let what = format!("more than {MAX_FILES} task files");
                read.problems.push(Problem::of_file(FOLDER, what, "move tasks that are done elsewhere"));
                break;
            }
            read.names.push(entry.name.clone());
            match read_entry(folder, FOLDER, entry) {
                Ok(bytes) => read.files.push((format!("{FOLDER}/{}", entry.name), bytes)),
                Err(problem) => read.problems.push(problem),
            }
        }
        Ok(read)
    }

    fn refused(error: Errno) -> Self {
        let problem = match (refusal(error), error) {
            (Some(why), _) => {
                let what = format!("is not looked into: {why}");
                Problem::of_file(FOLDER, what, "put a folder there, or remove it")
            }
            (None, Errno::OVERFLOW) => cannot_read(FOLDER, error),
            (None, _) => {
                let what = format!("cannot be read: {}", io::Error::from(error));
                Problem::of_file(FOLDER, what, "look at its permissions")
            }
        };
        Self { problems: vec![problem], ..Self::default() }
    }
}

fn is_task(name: &str) -> bool {
    name.ends_with(".md") && !name.starts_with('.') && !name.eq_ignore_ascii_case("README.md")
}

#[cfg(test)]
#[path = "stage_tasks_tests.rs"]
mod tests;
