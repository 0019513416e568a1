//! What every command needs: where state lies, the journal, and which loop an id means.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use dacapo_core::{
    ids::{LoopId, ProjectId, RunId, TaskId},
    view::{StatusShown, UnitView},
};
use dacapo_engine::{
    client::{Client, LoopSeen, RunSeen, StreamId, TaskSeen, WorkflowSeen, deciding},
    home::Home,
    inside::{self, Inside, Whereabouts},
    store::Store,
    units,
};

use crate::{error::UserError, not_begun::TaskNotBegun};

/// How much of a name must be given.
pub(crate) const PREFIX: usize = 2;

/// Where state lies and where we are.
pub(crate) struct Context {
    pub(crate) home: Home,
    /// The supervisor to ask, if this runs below an agent.
    pub(crate) inside: Option<Inside>,
}

impl Context {
    pub(crate) fn new() -> Result<Self, UserError> {
        let home = Home::locate()?;
        let inside = match inside::place(&home) {
            Whereabouts::Outside => None,
            Whereabouts::Below { loop_id, socket } => Some(Inside::new(loop_id, socket)?),
        };
        Ok(Self { home, inside })
    }

    /// Looks at loops and asks things of them: by the journal, or by the supervisor of the loop this runs in.
    pub(crate) fn client(&self) -> Result<Client, UserError> {
        Ok(match &self.inside {
            Some(inside) => Client::of_supervisor(inside.clone()),
            None => Client::of_journal(&self.home)?,
        })
    }

    /// Remembers that a person has looked at the end of a loop or run, if `told` is a look. That it cannot be remembered is no
    /// reason to fail: the command has done what it was asked for.
    pub(crate) fn remember_look(client: &mut Client, id: &str, told: StatusShown) {
        if told.is_look() {
            let _ = client.look_at(id);
        }
    }

    /// The journal, made if there is none.
    pub(crate) fn store(&self) -> Result<Store, UserError> {
        if self.inside.is_some() {
            return Err(deciding("open the journal").into());
        }
        self.home.prepare()?;
        Ok(Store::open(&self.home.database())?)
    }

    /// The folder we are in, or the one named, absolute and real.
    pub(crate) fn folder(dir: Option<&PathBuf>) -> Result<PathBuf, UserError> {
        let dir = dir.cloned().unwrap_or_else(|| PathBuf::from("."));
        let real = dir
            .canonicalize()
            .map_err(|error| UserError::usage(format!("cannot work in `{}`: {error}", dir.display())))?;
        if real.to_str().is_none() {
            let message = format!("the path of this folder is not UTF-8: `{}`", real.display());
            return Err(UserError::usage(message).hint(
                "the journal keeps paths as text; rename the folder, or work in a copy under another name",
            ));
        }
        if real.is_dir() {
            Ok(real)
        } else {
            Err(UserError::usage(format!("`{}` is not a folder", dir.display())))
        }
    }

    /// Refuses a repository without files, which a folder lies in.
    pub(crate) fn refuse_bare(folder: &Path) -> Result<(), UserError> {
        // A worktree may lie in a bare repository.
        let has_files = |folder: &Path| std::fs::symlink_metadata(folder.join(".git")).is_ok();
        let nearest = folder.ancestors().find(|folder| has_files(folder) || units::is_bare(folder));
        let Some(bare) = nearest.filter(|folder| !has_files(folder)) else { return Ok(()) };
        let what = format!("`{}` is a bare repository: it has no files to work on", bare.display());
        Err(UserError::usage(what).hint("clone it, or add a worktree (`git worktree add`), and work there"))
    }

    /// What a folder is that holds more than one project: the user's home, or the top of all folders. A repository is a project.
    pub(crate) fn more_than_a_project(folder: &Path) -> Option<&'static str> {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let what = match folder.parent() {
            None => "the top of all folders",
            Some(_) if home.is_some_and(|home| home == folder) => "your home folder",
            Some(_) => return None,
        };
        std::fs::symlink_metadata(folder.join(".git")).is_err().then_some(what)
    }

    /// The default project of a folder.
    pub(crate) fn project_of(folder: &Path) -> ProjectId {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        ProjectId::of_folder(&name, folder.as_os_str().as_encoded_bytes())
    }

    /// The project we are in.
    pub(crate) fn here() -> Option<ProjectId> {
        std::env::var("DACAPO_PROJECT")
            .ok()
            .and_then(|project| project.parse().ok())
            .or_else(|| Self::folder(None).ok().map(|folder| Self::project_of(&folder)))
    }

    /// The same as [`Self::find`], but of a unit's loops the newest that an agent worked in: behind it there may be the
    /// check of a merge, which none did. The same holds for a run of units, of a workflow or of a task.
    pub(crate) fn find_worked(&self, client: &Client, text: &str) -> Result<LoopSeen, UserError> {
        let run = match self.find_workflow(client, text)? {
            Some(run) => Some(run.view.id),
            None => match self.find_run(client, text)? {
                Some(run) => Some(run.view.id),
                None => match text.parse::<RunId>() {
                    Ok(id) => client.task_of_id(&id)?.map(|task| task.view.id),
                    Err(_) => None,
                },
            },
        };
        if let Some(id) = run {
            let all = client.loops_of_run(&id)?;
            let number = all.len();
            let newest = all.into_iter().rev().find(|row| row.view.iteration > 0);
            let newest =
                newest.ok_or_else(|| UserError::failed(format!("no agent has worked in run {id} yet")))?;
            if number > 1 {
                let mut stderr = std::io::stderr().lock();
                let _ = writeln!(
                    stderr,
                    "(loop {}, the newest of {number}; `dacapo events {id}` names all loops of the run)",
                    newest.view.id
                );
            }
            return Ok(newest);
        }
        let row = self.find(client, text)?;
        if row.view.iteration > 0 || is_meant_by_id(&row.view.id, &row.view.task, text) {
            return Ok(row);
        }
        let all = client.loops_of_task(&row.view.project, row.view.task.as_str())?;
        Ok(all.into_iter().rev().find(|row| row.view.iteration > 0).unwrap_or(row))
    }

    /// What was typed, or the id of what a command without one means: that is said then.
    pub(crate) fn name(&self, client: &Client, typed: Option<&str>) -> Result<String, UserError> {
        let meant = match typed {
            Some("-") => client.newest_stream()?,
            Some(text) => return Ok(text.to_owned()),
            None => match Self::here() {
                Some(project) => client.default_stream(Some(&project))?,
                None => None,
            },
        };
        let (id, what) = match &meant {
            Some(StreamId::Loop(id)) => (id.to_string(), format!("loop {id}")),
            Some(StreamId::Run(id)) => (id.to_string(), format!("run {id}")),
            None if typed.is_some() || client.newest_stream()?.is_none() => {
                return Err(UserError::usage("there is no loop yet").hint(
                    "`dacapo run \"what to do\"` begins one; `dacapo demo` shows a whole one in seconds",
                ));
            }
            None => {
                return Err(UserError::usage("there is no loop of this folder")
                    .hint("name one; `dacapo status --all` lists them, and `-` is the newest anywhere"));
            }
        };
        let _ = writeln!(std::io::stderr().lock(), "({what})");
        Ok(id)
    }

    /// The unit that `text` names, if it is one: of this project, else of the only one that has it.
    pub(crate) fn find_unit(&self, client: &Client, text: &str) -> Result<Option<UnitView>, UserError> {
        let mut candidates = match Self::here() {
            Some(project) => client.units_of_name(Some(&project), text)?,
            None => Vec::new(),
        };
        if candidates.is_empty() {
            candidates = client.units_of_name(None, text)?;
        }
        if candidates.len() > 1 {
            let projects: Vec<&str> = candidates.iter().map(|view| view.project.as_str()).collect();
            return Err(UserError::usage(format!(
                "several projects have a unit `{text}`: {}",
                projects.join(", ")
            ))
            .hint("call dacapo in the repository of the one you mean"));
        }
        Ok(candidates.pop())
    }

    /// The run of units that has this id, or whose id alone begins with it, if there is one.
    pub(crate) fn find_run(&self, client: &Client, text: &str) -> Result<Option<RunSeen>, UserError> {
        let Ok(id) = text.parse::<RunId>() else { return Ok(None) };
        if let Some(run) = client.run_of_id(&id)? {
            return Ok(Some(run));
        }
        let is_id = text.len() >= PREFIX && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_id
            || !client.newest_of_task(None, text)?.is_empty()
            || !client.units_of_name(None, text)?.is_empty()
        {
            return Ok(None);
        }
        let mut runs = client.runs_with_prefix(text)?;
        if runs.len() != 1 || !client.loops_with_prefix(text)?.is_empty() {
            return Ok(None);
        }
        Ok(runs.pop())
    }

    /// The run of a workflow that has this id, or whose id alone begins with it, if there is one.
    pub(crate) fn find_workflow(
        &self,
        client: &Client,
        text: &str,
    ) -> Result<Option<WorkflowSeen>, UserError> {
        let Ok(id) = text.parse::<RunId>() else { return Ok(None) };
        if let Some(run) = client.workflow_of_id(&id)? {
            return Ok(Some(run));
        }
        let is_id = text.len() >= PREFIX && text.bytes().all(|b| b.is_ascii_alphanumeric());
        if !is_id || !client.newest_of_task(None, text)?.is_empty() || client.run_of_id(&id)?.is_some() {
            return Ok(None);
        }
        let mut runs = client.workflows_with_prefix(text)?;
        if runs.len() != 1 || !client.loops_with_prefix(text)?.is_empty() {
            return Ok(None);
        }
        Ok(runs.pop())
    }

    /// The run of a workflow that `text` means: the run itself, or the one that the loop of this name was started for. What is
    /// done to the loop of a step is done to its run, which alone knows what comes next.
    pub(crate) fn workflow_of(&self, client: &Client, text: &str) -> Result<Option<WorkflowSeen>, UserError> {
        if let Some(run) = self.find_workflow(client, text)? {
            return Ok(Some(run));
        }
        // That there is no such loop is told by the command itself.
        let Ok(seen) = self.find(client, text) else { return Ok(None) };
        let started = client.loop_started(&seen.view.id)?;
        let of_step = started.filter(|started| {
            started.purpose.as_ref().is_some_and(|purpose| purpose.as_workflow_step().is_some())
        });
        Ok(match of_step.and_then(|started| started.run) {
            Some(run) => client.workflow_of_id(&run)?,
            None => None,
        })
    }

    /// The run of a task that `text` names, if it is one: the newest of the task of this name in this repository, else in the
    /// only project that has it; or the run itself by its id.
    pub(crate) fn find_task(&self, client: &Client, text: &str) -> Result<Option<TaskSeen>, UserError> {
        if let Ok(id) = text.parse::<RunId>()
            && let Some(run) = client.task_of_id(&id)?
        {
            return Ok(Some(run));
        }
        let here =
            Self::folder(None).ok().map(|folder| Self::project_of(&dacapo_engine::units::top(&folder)));
        let own = here.clone().or_else(Self::here);
        let exact = |project: Option<&ProjectId>| client.newest_run_of_task(project, text);
        let begun = |project: Option<&ProjectId>| match text.len() >= PREFIX {
            true => client.stage_tasks_with_prefix(project, text),
            false => Ok(Vec::new()),
        };
        let mut found = exact(own.as_ref())?;
        if found.is_empty() {
            // A user in this folder does not mean the task of the same name of another one.
            if let Some(task) = TaskNotBegun::find(self, Some(client), text)? {
                return Err(task.error());
            }
            found = exact(None)?;
        }
        // The name of another loop's task is no beginning of this one.
        if found.is_empty() && client.newest_of_task(None, text)?.is_empty() {
            found = begun(own.as_ref())?;
            if found.is_empty() {
                found = begun(None)?;
            }
        }
        if found.len() > 1 {
            let names: Vec<String> =
                found.iter().map(|seen| format!("{} of {}", seen.view.task, seen.view.project)).collect();
            return Err(UserError::usage(format!("`{text}` can mean several tasks: {}", names.join(", ")))
                .hint("call dacapo in the repository of the one you mean, or give the id of its run, which `dacapo status --tasks` shows"));
        }
        Ok(found.pop())
    }

    /// The newest run of each task of the repository that we are in.
    pub(crate) fn tasks_here(&self, client: &Client) -> Result<Vec<TaskSeen>, UserError> {
        let Ok(folder) = Self::folder(None) else { return Ok(Vec::new()) };
        Ok(client.newest_tasks(Some(&Self::project_of(&dacapo_engine::units::top(&folder))))?)
    }

    /// The run of a task that `text` means: the task itself, or the one that the loop of this name was started for. What is done
    /// to the loop of a stage is done to its task, which alone knows what comes next.
    pub(crate) fn task_of(&self, client: &Client, text: &str) -> Result<Option<TaskSeen>, UserError> {
        if let Some(task) = self.find_task(client, text)? {
            return Ok(Some(task));
        }
        let Ok(seen) = self.find(client, text) else { return Ok(None) };
        let started = client.loop_started(&seen.view.id)?;
        let of_stage = started
            .filter(|started| started.purpose.as_ref().is_some_and(|purpose| purpose.as_stage().is_some()));
        Ok(match of_stage.and_then(|started| started.run) {
            Some(run) => client.task_of_id(&run)?,
            None => None,
        })
    }

    /// The loop that `text` means: its id, the beginning of its id, or its task.
    pub(crate) fn find(&self, client: &Client, text: &str) -> Result<LoopSeen, UserError> {
        if let Ok(id) = text.parse::<LoopId>()
            && let Some(row) = client.loop_of_id(&id)?
        {
            return Ok(row);
        }
        let here = Self::here();
        let is_prefix = text.len() >= PREFIX && text.bytes().all(|b| b.is_ascii_alphanumeric());
        let mut candidates = match &here {
            Some(project) => client.newest_of_task(Some(project), text)?,
            None => Vec::new(),
        };
        if let ([row], true) = (candidates.as_slice(), is_prefix) {
            let others = client.loops_with_prefix(text)?;
            if let Some(other) = others.iter().find(|other| other.view.task != row.view.task) {
                let _ = writeln!(
                    std::io::stderr().lock(),
                    "(loop {} of task {text}; loop {}, whose id begins with `{text}`, is not meant)",
                    row.view.id,
                    other.view.id
                );
            }
        }
        if candidates.is_empty() {
            // Another project may have a loop of that name, and a user in this folder does not mean it.
            if let Some(project) = &here
                && !client.units_of_name(Some(project), text)?.is_empty()
            {
                return Err(UserError::usage(format!("no loop has worked on unit `{text}` yet"))
                    .hint("`dacapo status` shows how units stand; `dacapo cancel RUN` ends a whole run"));
            }
            candidates = client.newest_of_task(None, text)?;
            if is_prefix {
                candidates.extend(client.loops_with_prefix(text)?);
            }
            if candidates.is_empty() && text.len() >= PREFIX {
                candidates = client.tasks_with_prefix(here.as_ref(), text)?;
            }
        }
        match candidates.len() {
            0 if self.inside.is_some() => Err(UserError::usage(format!(
                "`{text}` is neither this loop nor a child of it, and its agent sees no others"
            ))
            .hint("`dacapo status` lists them")),
            0 => Err(UserError::usage(format!("no loop and no task is called `{text}`"))
                .hint("`dacapo status --all` lists loops and tasks, `dacapo task list` the tasks of this repository")),
            1 => Ok(candidates.remove(0)),
            _ => {
                let names: Vec<String> =
                    candidates.iter().map(|row| format!("{} ({})", row.view.id, row.view.task)).collect();
                Err(UserError::usage(format!("`{text}` could mean several loops: {}", names.join(", ")))
                    .hint("give more of the id"))
            }
        }
    }
}

/// Whether `text` means the loop itself and not its task, whose name may happen to begin the id of one of its loops.
fn is_meant_by_id(id: &LoopId, task: &TaskId, text: &str) -> bool {
    task.as_str() != text && id.as_str().starts_with(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_happens_to_begin_an_id_is_meant_as_a_task() {
        let id: LoopId = "avgvaz9b7m".parse().unwrap();
        for (task, text, is_id) in
            [("a", "a", false), ("b", "avgv", true), ("a", "avgvaz9b7m", true), ("app", "app", false)]
        {
            assert_eq!(is_meant_by_id(&id, &task.parse().unwrap(), text), is_id, "{task} {text}");
        }
    }
}
