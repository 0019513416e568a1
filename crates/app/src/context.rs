//! What every command needs: where state lies, the journal, and which loop an id means.

use std::path::PathBuf;

use dacapo_core::{
    ids::{LoopId, ProjectId, RunId},
    view::UnitView,
};
use dacapo_engine::{
    home::Home,
    store::{LoopRow, RunRow, Store},
};

use crate::error::UserError;

/// Where state lies and where we are.
pub(crate) struct Context {
    pub(crate) home: Home,
}

impl Context {
    pub(crate) fn new() -> Result<Self, UserError> {
        Ok(Self { home: Home::locate()? })
    }

    /// The journal, made if there is none.
    pub(crate) fn store(&self) -> Result<Store, UserError> {
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
            return Err(UserError::usage(format!("the path of `{}` is not UTF-8", dir.display())));
        }
        if real.is_dir() {
            Ok(real)
        } else {
            Err(UserError::usage(format!("`{}` is not a folder", dir.display())))
        }
    }

    /// The default project of a folder.
    pub(crate) fn project_of(folder: &std::path::Path) -> ProjectId {
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
    /// check of a merge, which none did.
    pub(crate) fn find_worked(&self, store: &Store, text: &str) -> Result<LoopRow, UserError> {
        let row = self.find(store, text)?;
        if row.view.iteration > 0 || row.view.id.as_str().starts_with(text) {
            return Ok(row);
        }
        let all = store.loops_of_task(&row.view.project, row.view.task.as_str())?;
        Ok(all.into_iter().rev().find(|row| row.view.iteration > 0).unwrap_or(row))
    }

    /// The unit that `text` names, if it is one: of this project, else of the only one that has it.
    pub(crate) fn find_unit(&self, store: &Store, text: &str) -> Result<Option<UnitView>, UserError> {
        let mut candidates = match Self::here() {
            Some(project) => store.unit_view(Some(&project), text)?,
            None => Vec::new(),
        };
        if candidates.is_empty() {
            candidates = store.unit_view(None, text)?;
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

    /// The run of units that has this id, if there is one.
    pub(crate) fn find_run(&self, store: &Store, text: &str) -> Result<Option<RunRow>, UserError> {
        match text.parse::<RunId>() {
            Ok(id) => Ok(store.run_row(&id)?),
            Err(_) => Ok(None),
        }
    }

    /// The loop that `text` means: its id, the beginning of its id, or its task.
    pub(crate) fn find(&self, store: &Store, text: &str) -> Result<LoopRow, UserError> {
        if let Ok(id) = text.parse::<LoopId>()
            && let Some(row) = store.row(&id)?
        {
            return Ok(row);
        }
        let here = Self::here();
        let mut candidates = match &here {
            Some(project) => store.newest_of_task(Some(project), text)?,
            None => Vec::new(),
        };
        if candidates.is_empty() {
            // Elsewhere there may be a loop of that name; whoever stands here does not mean it.
            if let Some(project) = &here
                && !store.unit_view(Some(project), text)?.is_empty()
            {
                return Err(UserError::usage(format!("nobody has worked on unit `{text}` yet"))
                    .hint("`dacapo status` shows how units stand; `dacapo cancel RUN` ends a whole run"));
            }
            candidates = store.newest_of_task(None, text)?;
            if text.len() >= 2 && text.bytes().all(|b| b.is_ascii_alphanumeric()) {
                candidates.extend(store.with_prefix(text)?);
            }
        }
        match candidates.len() {
            0 => Err(UserError::usage(format!("no loop and no task is called `{text}`"))
                .hint("`dacapo status --all` lists them")),
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
