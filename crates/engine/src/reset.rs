//! Letting a unit begin anew: what is kept of it is put aside, and forgotten.

use std::path::PathBuf;

use dacapo_core::{
    ids::{LoopId, ProjectId, UnitId},
    loop_machine::Request,
    view::UnitStatus,
};
use jiff::Timestamp;

use crate::{
    home::Home,
    repository::{KnownWorktree, Repository, Retired},
    scheduler::{RunError, close_dead_runs, take_locks},
    store::Store,
    supervisor,
};

/// A unit that begins anew.
#[derive(Clone, Debug)]
pub struct ResetUnit {
    pub unit: UnitId,
    /// Where it was worked on.
    pub worktree: Option<PathBuf>,
    /// Its branch was called so.
    pub branch: Option<String>,
    /// What holds its work now.
    pub retired: Retired,
}

/// Why it does not.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    #[error("nothing is kept of a unit `{0}` of this repository")]
    Unknown(UnitId),
    #[error("unit `{0}` is merged")]
    Merged(UnitId),
    #[error("loop {loop_id} works on unit `{unit}`")]
    Busy { unit: UnitId, loop_id: LoopId },
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Resets a unit of the repository at `root`, if no run of units is active there. With `is_dry` it only says what would be.
pub fn reset(
    home: &Home,
    (project, root): (&ProjectId, &std::path::Path),
    unit: &UnitId,
    is_forced: bool,
    is_dry: bool,
) -> Result<ResetUnit, ResetError> {
    let mut store = Store::open(&home.database()).map_err(RunError::from)?;
    let repo = Repository::open(root, home).map_err(RunError::from)?;
    let _locks = take_locks(home, &store, &repo, project)?;
    let views = store.unit_view(Some(project), unit.as_str()).map_err(RunError::from)?;
    let view = views.into_iter().next().ok_or_else(|| ResetError::Unknown(unit.clone()))?;
    if view.status == UnitStatus::Merged {
        return Err(ResetError::Merged(unit.clone()));
    }
    if !is_dry {
        supervisor::reconcile(home, &mut store).map_err(RunError::from)?;
        close_dead_runs(&mut store, project).map_err(RunError::from)?;
    }
    let run = store.run_row(&view.run).map_err(RunError::from)?;
    let target = run.map(|run| run.view.target).unwrap_or_default();
    let known =
        view.worktree.clone().zip(view.branch.clone()).map(|(path, branch)| KnownWorktree { path, branch });
    let retire = |is_dry| match &known {
        Some(known) => repo.retire(known, &target, is_forced, is_dry).map_err(RunError::from),
        None => Ok(Retired::default()),
    };
    // What stands in the way is found before anything is changed.
    let mut retired = retire(true)?;
    if !is_dry {
        // The next folder of that name would go on with a loop that was cut short in this one, and a loop that the user
        // runs there by itself must not lose its folder.
        for row in store.newest_of_task(Some(project), unit.as_str()).map_err(RunError::from)? {
            let id = row.view.id;
            if row.owner.is_alive() && row.view.reason.is_none() {
                return Err(ResetError::Busy { unit: unit.clone(), loop_id: id });
            }
            store.request(&id, &Request::Cancel, Timestamp::now()).map_err(RunError::from)?;
            supervisor::settle(home, &mut store, &id).map_err(RunError::from)?;
        }
        retired = retire(false)?;
        store.forget_unit(project, unit).map_err(RunError::from)?;
    }
    Ok(ResetUnit { unit: unit.clone(), worktree: view.worktree, branch: view.branch, retired })
}
