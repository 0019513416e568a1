//! Where the plan of a unit stands: a fold of its events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{BaselineState, UnitBrief, UnitEvent, UnitNote, UnitStage, WorktreeFacts};
use crate::{ids::LoopId, unit::Task};

/// Where the plan of a unit stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitProgress {
    pub(super) brief: Option<Arc<UnitBrief>>,
    pub(super) stage: UnitStage,
    pub(super) worktree: Option<WorktreeFacts>,
    /// Tasks that a receipt of the branch proves.
    pub(super) proven: BTreeSet<u32>,
    /// The newest commit of the branch that is proven.
    pub(super) accepted: String,
    /// The newest commit of the branch at the last look, the one at which it and the target part, and the target's.
    pub(super) head: String,
    pub(super) base: String,
    pub(super) tip: String,
    /// The tasks as they were where the branch began.
    pub(super) tasks: Vec<Task>,
    pub(super) checks: BaselineState,
    /// What the checks of tasks printed that were claimed beside others that were accepted.
    pub(super) red: BTreeMap<u32, String>,
    pub(super) failed_loop: Option<LoopId>,
}

impl UnitProgress {
    /// Whether the job has nothing left to do.
    pub fn is_over(&self) -> bool {
        self.stage == UnitStage::Over
    }

    /// What the plan waits for.
    pub fn stage(&self) -> &UnitStage {
        &self.stage
    }

    pub(super) fn apply(&mut self, event: &UnitEvent) {
        match event {
            UnitEvent::Told(_) => {}
            UnitEvent::Entered(stage) => self.stage = stage.clone(),
            UnitEvent::Noted(note) => self.note(note),
        }
    }

    fn note(&mut self, note: &UnitNote) {
        match note {
            UnitNote::Brief(brief) => self.brief = Some(Arc::clone(brief)),
            UnitNote::Worktree(worktree) => self.worktree = Some(worktree.clone()),
            UnitNote::Branch(branch) => {
                self.proven.clone_from(&branch.proven);
                self.accepted.clone_from(&branch.accepted);
                self.head.clone_from(&branch.head);
                self.base.clone_from(&branch.base);
                self.tip.clone_from(&branch.tip);
            }
            UnitNote::Tasks(tasks) => self.tasks.clone_from(tasks),
            UnitNote::Checks(checks) => self.checks = *checks,
            UnitNote::Proven { tasks, commit } => {
                self.proven.extend(tasks);
                if let Some(commit) = commit {
                    self.accepted.clone_from(commit);
                }
            }
            UnitNote::Red(red) => self.red.clone_from(red),
            UnitNote::FailedLoop(id) => self.failed_loop.clone_from(id),
        }
    }
}
