//! Items that the agent marks one by one: what their marks are set to, and the commits of those that were proven.

use super::{
    decide::Decision,
    effect::{Effect, ItemCommit},
    input::{ItemCommits, Seal},
};
use crate::{
    event::{LoopEvent, Reason},
    item::{ItemKey, Marks},
};

impl Decision {
    /// Sets the marks of these items back to what they said when the loop began.
    pub(super) fn return_items(&mut self, items: Vec<ItemKey>) {
        if self.policy().marks_items() && !items.is_empty() {
            let done = self.done_items(&[]);
            self.perform(Effect::SetMarks { of: Marks::Of(items), done });
        }
    }

    /// Sets all marks back, except those of items that have their commit.
    pub(super) fn return_all_items(&mut self) {
        self.mark_proven(&[]);
    }

    /// Sets all marks of the loop: these items are done, all others are as they were when the loop began.
    pub(super) fn mark_proven(&mut self, proven: &[ItemKey]) {
        if self.policy().marks_items() {
            let done = self.done_items(proven);
            self.perform(Effect::SetMarks { of: Marks::All, done });
        }
    }

    /// These items, and those that have their commit: they stay done even if the claim they were part of was refused.
    fn done_items(&self, proven: &[ItemKey]) -> Vec<ItemKey> {
        let mut done: Vec<ItemKey> = self.state.completed.iter().chain(proven).copied().collect();
        done.sort_unstable();
        done.dedup();
        done
    }

    /// The commits of the `standing` items, each with its own mark and the marks of the items before it.
    pub(super) fn commits_of(&self, standing: &[ItemKey]) -> Vec<ItemCommit> {
        let commit = |(at, key): (usize, &ItemKey)| {
            let item = self.policy().item(*key)?;
            let rule = item.commit.as_ref()?;
            let message = rule.message.clone().unwrap_or_else(|| format!("{}: complete", item.label()));
            Some(ItemCommit { item: *key, message, done: self.done_items(&standing[..=at]) })
        };
        standing.iter().enumerate().filter_map(commit).collect()
    }

    pub(super) fn items_committed(&mut self, commits: ItemCommits, seal: Seal) {
        let iteration = self.judging().claim.iteration;
        for (item, commit) in commits.made {
            // A commit that is found again is recorded once. An item with nothing to commit is no failure.
            let Some(commit) = commit else { continue };
            if !self.judging().claim.committed.iter().any(|(_, known)| *known == commit) {
                self.record(LoopEvent::Committed { iteration, commit, item: Some(item) });
            }
        }
        match commits.failed {
            None => self.accept(seal, commits.tree),
            // The claim stays open: `resume` judges it again and tries once more.
            Some(why) => {
                self.finish(Reason::Error, format!("the kept tree could not be committed: {why}"));
            }
        }
    }
}
