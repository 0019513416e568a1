//! Items of a loop: what their marks say, setting them, and the commits of those that were proven.

use std::path::Path;

use dacapo_core::{
    item::{ItemFacts, ItemKey, Marks},
    loop_machine::{Input, ItemCommit, ItemCommits},
};

use super::{SuperviseError, Supervisor};
use crate::{
    items::{MarkedPlace, marks_of},
    snapshots::CommitOutcome,
};

impl Supervisor<'_> {
    /// What the marks of the loop's items say now.
    pub(super) fn look_at_items(&self) -> ItemFacts {
        match &self.started.policy.source {
            Some(source) => marks_of(source).look(self.marked_place()),
            None => ItemFacts::default(),
        }
    }

    /// Sets marks. What cannot be set is said and stops nothing.
    pub(super) fn set_marks(&mut self, of: &Marks, done: &[ItemKey]) -> Result<(), SuperviseError> {
        let started = self.started.clone();
        let Some(source) = &started.policy.source else { return Ok(()) };
        let set = marks_of(source).set(self.marked_place(), of, done);
        if set.is_changed {
            // The files are not what a snapshot taken before holds.
            self.kept = None;
        }
        for problem in set.problems {
            self.notice(problem)?;
        }
        Ok(())
    }

    /// One commit per item; those that were made before one that fails are told too.
    pub(super) fn commit_items(
        &mut self,
        snapshot: &str,
        iteration: u32,
        commits: &[ItemCommit],
    ) -> Result<(), SuperviseError> {
        let back = self.recover_branch()?;
        let (mut result, mut left_out) = (ItemCommits::default(), Vec::new());
        let made =
            back.and_then(|()| self.make_commits(snapshot, iteration, commits, &mut result, &mut left_out));
        if let Err(why) = made {
            result.failed = Some(why);
        }
        self.warn_of_left_out(&left_out)?;
        let seal = self.seal()?;
        self.inbox.push_back(Input::ItemsCommitted(result, seal).into());
        Ok(())
    }

    fn make_commits(
        &self,
        snapshot: &str,
        iteration: u32,
        commits: &[ItemCommit],
        result: &mut ItemCommits,
        left_out: &mut Vec<String>,
    ) -> Result<(), String> {
        let (Some(workspace), Some(base)) = (&self.workspace, &self.started.base) else {
            return Err("the workspace is not a git repository".to_owned());
        };
        let done: Vec<&[ItemKey]> = commits.iter().map(|commit| &commit.done[..]).collect();
        let marks = self.started.policy.source.as_ref().map(marks_of);
        let files = match &marks {
            Some(marks) => marks
                .committed_files(workspace, [&base.snapshot, snapshot], &done)
                .map_err(|error| error.to_string())?,
            None => vec![Ok(Vec::new()); commits.len()],
        };
        for (commit, files) in commits.iter().zip(files) {
            let (outcome, tree) = workspace
                .commit_files(snapshot, &files?, &commit.message, u64::from(iteration))
                .map_err(|error| error.to_string())?;
            let id = match outcome {
                CommitOutcome::Committed { commit, left_out: files, .. } => {
                    left_out.extend(files);
                    Some(commit)
                }
                CommitOutcome::AlreadyCommitted { commit } => Some(commit),
                CommitOutcome::NothingToCommit => None,
            };
            result.made.push((commit.item, id));
            result.tree = Some(tree);
        }
        Ok(())
    }

    fn marked_place(&self) -> MarkedPlace<'_> {
        MarkedPlace { top: self.top(), workspace: self.workspace.as_ref(), base: self.started.base.as_ref() }
    }

    /// The top of the repository, which the paths of marks count from.
    fn top(&self) -> &Path {
        self.workspace.as_ref().map_or(&self.started.workspace, |workspace| workspace.root())
    }
}
