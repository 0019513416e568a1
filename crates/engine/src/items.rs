//! Where the marks of a loop's items stand: what the supervisor can ask of any source of items.

use std::{collections::HashSet, path::Path};

use dacapo_core::{
    event::{Base, ForbiddenChange},
    item::{ItemFacts, ItemKey, ItemSource, Marks},
};

use crate::{git::WorkspaceError, snapshots::Workspace, unit_items::UnitItems};

/// The workspace that marks stand in, as far as the supervisor knows it.
#[derive(Clone, Copy)]
pub(crate) struct MarkedPlace<'a> {
    /// The top of the repository, which paths count from.
    pub(crate) top: &'a Path,
    pub(crate) workspace: Option<&'a Workspace>,
    /// The workspace before the first agent.
    pub(crate) base: Option<&'a Base>,
}

impl MarkedPlace<'_> {
    /// What files held before the first agent; nothing where that cannot be told.
    pub(crate) fn at_base(&self, paths: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        match (self.workspace, self.base) {
            (Some(workspace), Some(base)) => workspace.files_at(&base.snapshot, paths).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

/// What came of setting marks.
#[derive(Debug, Default)]
pub(crate) struct MarksSet {
    /// Whether any file was written, so that a snapshot from before is out of date.
    pub(crate) is_changed: bool,
    /// What could not be set, in one line each.
    pub(crate) problems: Vec<String>,
}

/// A file and what it is to hold.
pub(crate) type FileContent<'a> = (&'a str, Vec<u8>);

/// A file that changed since the loop began; what it holds is `None` where there is no regular file.
pub(crate) struct ChangedFile<'a> {
    pub(crate) path: String,
    pub(crate) before: Option<&'a [u8]>,
    pub(crate) after: Option<&'a [u8]>,
}

/// What a source says about changed files of its own.
#[derive(Debug, Default)]
pub(crate) struct ChangesJudged {
    /// Changes that refuse the claim.
    pub(crate) forbidden: Vec<ForbiddenChange>,
    /// The paths of those that set nothing but marks: no work.
    pub(crate) only_marks: HashSet<String>,
}

/// Reads and sets the marks of a loop's items.
pub(crate) trait ItemMarks {
    /// What the marks say now.
    fn look(&self, place: MarkedPlace<'_>) -> ItemFacts;

    /// Makes marks say what is proven: items of `done` are done, all others are as they were when the loop began.
    fn set(&self, place: MarkedPlace<'_>, of: &Marks, done: &[ItemKey]) -> MarksSet;

    /// For each of `commits`, given by the items that are done in it: the files that are others in it than in the second
    /// of `snapshots`; the first is the one from before the first agent.
    fn committed_files<'s>(
        &'s self,
        workspace: &Workspace,
        snapshots: [&str; 2],
        commits: &[&[ItemKey]],
    ) -> Result<Vec<Result<Vec<FileContent<'s>>, String>>, WorkspaceError>;

    /// Whether changes of this file are judged by [`ItemMarks::judge`].
    fn watches(&self, path: &str) -> bool;

    fn judge(&self, changes: Vec<ChangedFile<'_>>) -> ChangesJudged;
}

/// What reads and sets the marks of this source.
pub(crate) fn marks_of(source: &ItemSource) -> Box<dyn ItemMarks + '_> {
    match source {
        ItemSource::Unit(unit) => Box::new(UnitItems(unit)),
    }
}
