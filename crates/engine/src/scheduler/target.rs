//! The target of a run of units, as far as other hands than dacapo's move it while agents work: an agent that knows the path can
//! commit to it. What such commits changed is said, recorded, and not what the next run's tests start from.

use std::collections::{BTreeMap, BTreeSet};

use dacapo_core::{
    event::{LoopEvent, RunEvent},
    goalposts::kind_of,
    ids::{ProjectId, RunId},
    policy::DoubtedFile,
    text::count,
    trust::{not_granted, tests_as_they_are},
};

use super::RunError;
use crate::{
    git::WorkspaceError,
    home::Home,
    repository::Repository,
    store::Store,
    trust::{self, ConsentScope},
};

/// How many paths one event names.
const MAX_PATHS: usize = 500;

/// Where the target is, as far as this run has moved it or found it.
pub(super) struct TargetWatch<'a> {
    repo: &'a Repository,
    target: String,
    known: Option<String>,
    /// Merges that wait beside the target until the user moves it there.
    waiting: BTreeSet<String>,
    /// What the user is told at the end.
    pub(super) warnings: Vec<String>,
}

impl<'a> TargetWatch<'a> {
    /// Watches the target from where it is now, or from where a run that was killed knew it.
    pub(super) fn begin(repo: &'a Repository, target: &str, left: Option<String>) -> Self {
        let known = left.or_else(|| repo.branch(target).ok().flatten());
        Self { repo, target: target.to_owned(), known, waiting: BTreeSet::new(), warnings: Vec::new() }
    }

    pub(super) fn known(&self) -> Option<&str> {
        self.known.as_deref()
    }

    /// dacapo has merged a unit as `commit`, whose first parent is where the target was, and has moved the target there if it could.
    pub(super) fn merged(&mut self, commit: &str, is_moved: bool) -> Option<RunEvent> {
        if !is_moved {
            self.waiting.insert(commit.to_owned());
            return None;
        }
        let was = self.repo.branch_point(commit).ok().flatten();
        let event = was.and_then(|was| self.moved_to(&was));
        self.known = Some(commit.to_owned());
        event
    }

    /// Looks where the target is while dacapo merges nothing.
    pub(super) fn look(&mut self) -> Option<RunEvent> {
        let now = self.repo.branch(&self.target).ok().flatten()?;
        if self.waiting.contains(&now) {
            self.known = Some(now);
            return None;
        }
        self.moved_to(&now)
    }

    fn moved_to(&mut self, to: &str) -> Option<RunEvent> {
        let from = self.known.clone().filter(|from| from != to)?;
        let paths = self.repo.changed_paths(&from, to).ok()?;
        self.known = Some(to.to_owned());
        let mut paths: Vec<String> =
            paths.iter().filter_map(|path| Some(std::str::from_utf8(path).ok()?.to_owned())).collect();
        // Tests first: there may be too many to name.
        paths.sort_by_key(|path| kind_of(path).is_none());
        paths.truncate(MAX_PATHS);
        let tests: Vec<&String> = paths.iter().filter(|path| kind_of(path).is_some()).collect();
        let tests = match tests.as_slice() {
            [] => String::new(),
            [first, more @ ..] => {
                let more = u32::try_from(more.len()).unwrap_or(u32::MAX);
                let more = if more > 0 { format!(" and {}", count(more, "file")) } else { String::new() };
                format!(
                    ". It changes `{first}`{more} of the tests: until you agree with `dacapo trust`, claims have to pass with \
                     the tests as they were before, too"
                )
            }
        };
        self.warnings.push(format!(
            "`{}` got commits while agents worked that dacapo did not make, up to {}{tests}",
            self.target,
            to.get(..10).unwrap_or(to)
        ));
        Some(RunEvent::TargetMoved { target: self.target.clone(), from, to: to.to_owned(), paths })
    }
}

/// Where the newest of the runs that were found `dead` knew the target: what its agents did to the target since was seen by no
/// process.
pub(super) fn left_by_dead_run(
    store: &Store,
    repo: &Repository,
    dead: &[RunId],
    target: &str,
) -> Result<Option<String>, RunError> {
    let Some(newest) = dead.last() else { return Ok(None) };
    let Some(tip) = repo.branch(target)? else { return Ok(None) };
    let (mut known, mut proven, mut waiting) = (None, BTreeSet::new(), BTreeSet::new());
    for envelope in store.run_events(newest, 0)? {
        match envelope.event {
            RunEvent::OrchStarted(started) if started.target == target => {
                for (_, envelope) in store.loops_of_units(&started.project, envelope.seq)? {
                    if let LoopEvent::ReceiptIssued { receipt } = envelope.event {
                        proven.extend(receipt.tree);
                    }
                }
                known = started.tip;
            }
            RunEvent::UnitMerged { commit, left_on: Some(_), .. } => drop(waiting.insert(commit)),
            RunEvent::UnitMerged { commit, left_on: None, .. } if known.is_some() => known = Some(commit),
            RunEvent::TargetMoved { to, .. } if known.is_some() => known = Some(to),
            _ => {}
        }
    }
    // It may have been killed between a merge and the word of it, and the user may have moved the target to a merge that waited.
    if waiting.contains(&tip) || repo.tree_of(&tip).is_ok_and(|tree| proven.contains(&tree)) {
        return Ok(None);
    }
    // A commit that is gone from the target is another matter: the user has turned it back.
    let is_below = |commit: &String| repo.is_ancestor(commit, target).unwrap_or(false);
    Ok(known.filter(is_below))
}

/// Files that other hands changed on the target while agents of this project worked, that the target still holds so, and that the
/// user has not agreed to.
pub(crate) fn doubted(
    home: &Home,
    store: &Store,
    repo: &Repository,
    project: &ProjectId,
    target: &str,
    moved: Option<&RunEvent>,
) -> Result<BTreeMap<String, DoubtedFile>, RunError> {
    let mut all = every_doubt(store, repo, project, target)?;
    if let Some(RunEvent::TargetMoved { from, to, paths, .. }) = moved {
        for path in paths {
            let file: &mut DoubtedFile = all
                .entry(path.clone())
                .or_insert_with(|| DoubtedFile { since: from.clone(), seen: to.clone() });
            file.seen.clone_from(to);
        }
    }
    if all.is_empty() {
        return Ok(all);
    }
    let granted = trust::granted(home, repo.root(), ConsentScope::Units).unwrap_or_default();
    let is_open = |path: &String, file: &DoubtedFile| {
        !not_granted(&[tests_as_they_are(path, &file.seen)], &granted).is_empty()
    };
    Ok(all.into_iter().filter(|(path, file)| is_open(path, file)).collect())
}

/// The same with those that the user has agreed to.
pub(crate) fn every_doubt(
    store: &Store,
    repo: &Repository,
    project: &ProjectId,
    target: &str,
) -> Result<BTreeMap<String, DoubtedFile>, RunError> {
    let Some(newest) = store.newest_run(Some(project))? else { return Ok(BTreeMap::new()) };
    let mut doubted = BTreeMap::new();
    for envelope in store.run_events(&newest.view.id, 0)? {
        match envelope.event {
            RunEvent::OrchStarted(started) => doubted.extend(started.settings.policy.gates.doubted),
            RunEvent::TargetMoved { from, to, paths, .. } => {
                for path in paths {
                    let file: &mut DoubtedFile = doubted
                        .entry(path)
                        .or_insert_with(|| DoubtedFile { since: from.clone(), seen: to.clone() });
                    file.seen.clone_from(&to);
                }
            }
            _ => {}
        }
    }
    if doubted.is_empty() {
        return Ok(doubted);
    }
    let Some(tip) = repo.branch(target)? else { return Ok(BTreeMap::new()) };
    let seen: BTreeSet<String> = doubted.values().map(|file| file.seen.clone()).collect();
    let mut changed: BTreeMap<String, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for commit in seen {
        // A commit that is gone holds nothing of the target.
        let since: Result<_, WorkspaceError> = repo.changed_paths(&commit, &tip);
        changed.extend(since.ok().map(|paths| (commit, paths)));
    }
    // What the user has changed since is the user's.
    doubted.retain(|path, file| {
        changed.get(&file.seen).is_some_and(|changed| !changed.contains(path.as_bytes()))
    });
    Ok(doubted)
}
