//! What every command needs: where state lies, the journal, and which loop an id means.

use std::path::PathBuf;

use dacapo_core::{
    ids::{LoopId, ProjectId, RunId},
    view::UnitView,
};
use dacapo_engine::{
    client::{Client, LoopSeen, deciding},
    home::Home,
    inside::{self, Inside, Place},
    store::{RunRow, Store},
};

use crate::error::UserError;

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
            Place::Outside => None,
            Place::Below { loop_id, socket } => Some(Inside::new(loop_id, socket)?),
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
    pub(crate) fn find_worked(&self, client: &Client, text: &str) -> Result<LoopSeen, UserError> {
        let row = self.find(client, text)?;
        if row.view.iteration > 0 || row.view.id.as_str().starts_with(text) {
            return Ok(row);
        }
        let all = client.loops_of_task(&row.view.project, row.view.task.as_str())?;
        Ok(all.into_iter().rev().find(|row| row.view.iteration > 0).unwrap_or(row))
    }

    /// The unit that `text` names, if it is one: of this project, else of the only one that has it.
    pub(crate) fn find_unit(&self, client: &Client, text: &str) -> Result<Option<UnitView>, UserError> {
        let Some(store) = client.journal() else { return Ok(None) };
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
    pub(crate) fn find_run(&self, client: &Client, text: &str) -> Result<Option<RunRow>, UserError> {
        match (client.journal(), text.parse::<RunId>()) {
            (Some(store), Ok(id)) => Ok(store.run_row(&id)?),
            _ => Ok(None),
        }
    }

    /// The loop that `text` means: its id, the beginning of its id, or its task.
    pub(crate) fn find(&self, client: &Client, text: &str) -> Result<LoopSeen, UserError> {
        if let Ok(id) = text.parse::<LoopId>()
            && let Some(row) = client.loop_of_id(&id)?
        {
            return Ok(row);
        }
        let here = Self::here();
        let mut candidates = match &here {
            Some(project) => client.newest_of_task(Some(project), text)?,
            None => Vec::new(),
        };
        if candidates.is_empty() {
            // Elsewhere there may be a loop of that name; whoever stands here does not mean it.
            if let (Some(project), Some(store)) = (&here, client.journal())
                && !store.unit_view(Some(project), text)?.is_empty()
            {
                return Err(UserError::usage(format!("nobody has worked on unit `{text}` yet"))
                    .hint("`dacapo status` shows how units stand; `dacapo cancel RUN` ends a whole run"));
            }
            candidates = client.newest_of_task(None, text)?;
            if text.len() >= 2 && text.bytes().all(|b| b.is_ascii_alphanumeric()) {
                candidates.extend(client.loops_with_prefix(text)?);
            }
        }
        match candidates.len() {
            0 if self.inside.is_some() => Err(UserError::usage(format!(
                "`{text}` is neither this loop nor a child of it, and its agent sees no others"
            ))
            .hint("`dacapo status` lists them")),
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
