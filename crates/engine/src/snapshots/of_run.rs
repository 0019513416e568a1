//! What a run has changed altogether, from the state of the files that it began with to what was merged or kept.
//!
//! A run is a row of loops, and what it comes to is not the sum of theirs: a later loop changes again what an earlier one wrote.
//! So the change is told in stretches, from one state of the files to another. What was merged is told by the commits of the
//! target, anything else by the snapshots of the loops.

use std::{collections::BTreeMap, path::PathBuf};

use dacapo_core::{
    ids::{LoopId, RunId, UnitId},
    view::UnitView,
};
use jiff::Timestamp;

use super::{
    DiffForm,
    of_loop::{SnapshotError, open, recorded, started},
};
use crate::{
    home::Home,
    store::{LoopRow, Store},
};

/// One stretch of what a run has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunChange {
    /// Where the repository is, and a loop whose name opens its snapshots.
    root: PathBuf,
    opener: LoopId,
    from: String,
    to: String,
    /// The branch that has it, if it was merged.
    pub merged_into: Option<String>,
    /// Whose work it is, if it is not all of the run's: `unit api`.
    pub part: Option<String>,
}

/// The states of the files that one loop has kept.
struct LoopStates {
    id: LoopId,
    base: String,
    last: String,
    last_at: Timestamp,
    workspace: PathBuf,
}

struct MergedWork {
    part: String,
    target: String,
    commit: String,
    at: Option<Timestamp>,
    loops: Vec<LoopStates>,
}

/// What runs have changed together, or one unit of a run: first what was merged, in the order of the target, then what was not.
pub fn changes_of_runs(
    home: &Home,
    store: &Store,
    runs: &[RunId],
    unit: Option<&UnitId>,
) -> Result<Vec<RunChange>, SnapshotError> {
    let (mut merged, mut kept) = (Vec::new(), Vec::new());
    let mut root = None;
    for run in runs {
        let loops = store.loops_of_run(run)?.into_iter().filter(|row| row.view.iteration > 0);
        let loops: Vec<LoopRow> = loops.collect();
        if let Some(row) = store.run_row(run)? {
            root = Some(row.view.root.clone());
            let wanted = |view: &UnitView| unit.is_none_or(|unit| *unit == view.unit);
            for view in store.units_of_run(run)?.into_iter().filter(wanted) {
                let own = loops.iter().filter(|row| row.view.task.as_str() == view.unit.as_str());
                let loops = states_of(store, own)?;
                let part = format!("unit {}", view.unit);
                match view.merged {
                    Some(commit) => merged.push(MergedWork {
                        part,
                        target: row.view.target.clone(),
                        commit,
                        at: view.ended_at,
                        loops,
                    }),
                    None => kept.push((part, loops)),
                }
            }
        } else if let Some(row) = store.task_row(run)? {
            root = Some(row.view.root.clone());
            let loops = states_of(store, loops.iter())?;
            let part = format!("task {}", row.view.task);
            match row.view.commit {
                Some(commit) => merged.push(MergedWork {
                    part,
                    target: row.view.target,
                    commit,
                    at: row.view.ended_at,
                    loops,
                }),
                None => kept.push((part, loops)),
            }
        } else if let Some(row) = store.workflow_row(run)? {
            root = Some(row.view.root.clone());
            kept.extend(parts_of_workflow(&row.view.root, states_of(store, loops.iter())?));
        }
    }
    let Some(root) = root else { return Ok(Vec::new()) };
    let opener = merged.iter().flat_map(|work| &work.loops).chain(kept.iter().flat_map(|(_, loops)| loops));
    let Some(opener) = opener.map(|states| states.id.clone()).next() else { return Ok(Vec::new()) };
    let workspace = open(home, &opener, &root)?;
    let mut changes = Vec::new();
    let change = |from, to, merged_into, part| RunChange {
        root: root.clone(),
        opener: opener.clone(),
        from,
        to,
        merged_into,
        part,
    };
    merged.sort_by_key(|work| work.at);
    // Work that changes nothing is merged without a commit of its own: the one that is named is of other hands.
    merged.retain(|work| !is_unchanged(&work.loops));
    let is_one_stretch = match (merged.first(), merged.last()) {
        (Some(first), Some(last)) if merged.len() > 1 => {
            let between = workspace.first_parents(&format!("{}^1", first.commit), &last.commit)?;
            between.iter().eq(merged.iter().rev().map(|work| &work.commit))
        }
        _ => false,
    };
    for MergedWork { part, target, commit, .. } in merged {
        match changes.last_mut() {
            Some(RunChange { to, part, .. }) if is_one_stretch => {
                *to = commit;
                *part = None;
            }
            _ => changes.push(change(format!("{commit}^1"), commit, Some(target), Some(part))),
        }
    }
    for (part, loops) in kept {
        if let (Some(first), Some(last)) = (loops.first(), loops.last())
            && !is_unchanged(&loops)
        {
            changes.push(change(first.base.clone(), last.last.clone(), None, Some(part)));
        }
    }
    Ok(changes)
}

/// What a run has changed, as git prints it.
pub fn difference_of_change(
    home: &Home,
    change: &RunChange,
    form: DiffForm,
) -> Result<Vec<u8>, SnapshotError> {
    Ok(open(home, &change.opener, &change.root)?.difference(&change.from, &change.to, form)?)
}

/// A snapshot of files that did not change is the one before.
fn is_unchanged(loops: &[LoopStates]) -> bool {
    let (Some(first), Some(last)) = (loops.first(), loops.last()) else { return true };
    first.base == last.last
}

/// The states of those loops whose snapshots hold files, oldest loop first.
fn states_of<'a>(
    store: &Store,
    rows: impl Iterator<Item = &'a LoopRow>,
) -> Result<Vec<LoopStates>, SnapshotError> {
    let mut all = Vec::new();
    for row in rows {
        let id = row.view.id.clone();
        let history = store.events(&id, 0)?;
        let Some((started, base)) = started(&history).and_then(|s| Some((s, s.base.as_ref()?))) else {
            continue;
        };
        if !base.is_git {
            return Err(SnapshotError::Plain(id));
        }
        let Some((_, last, last_at)) = recorded(&history, base).pop() else { continue };
        let workspace = started.workspace.clone();
        all.push(LoopStates { id, base: base.snapshot.clone(), last, last_at, workspace });
    }
    Ok(all)
}

/// The stretches of a run of a workflow. Steps in the folder of the run see what came before them, merged worktrees included, so
/// they are one stretch, which begins with the first loop of all. A worktree that came to its end later is one of its own.
fn parts_of_workflow(root: &std::path::Path, loops: Vec<LoopStates>) -> Vec<(String, Vec<LoopStates>)> {
    let end = loops.iter().filter(|states| states.workspace == root).map(|states| states.last_at).max();
    let mut later: BTreeMap<PathBuf, Vec<LoopStates>> = BTreeMap::new();
    let mut stretch: Vec<LoopStates> = Vec::new();
    for states in loops {
        if states.workspace != root && end.is_none_or(|end| states.last_at > end) {
            later.entry(states.workspace.clone()).or_default().push(states);
        } else {
            stretch.push(states);
        }
    }
    // The last of them must be one that worked in the folder itself.
    stretch.sort_by_key(|states| states.workspace == root && Some(states.last_at) == end);
    let mut parts = Vec::new();
    if !stretch.is_empty() {
        parts.push(("the folder of the run".to_owned(), stretch));
    }
    parts.extend(later.into_iter().map(|(path, loops)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (format!("worktree {name}"), loops)
    }));
    parts
}
