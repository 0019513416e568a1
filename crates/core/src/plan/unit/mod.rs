//! The plan of a unit: what a job does for it, one step after the other.
//!
//! ```text
//!  work     make worktree ─► set up ─► restore branch ─► follow target ─► look at branch ─► read tasks ─┐
//!                                                                                                       │
//!             ┌─► restore branch ─► look at tasks ─┬─► go on with a cut loop ─┐     sent back: merge ◄──┤
//!             │          ▲                         ├─► put statuses right     │     the target, fix     │
//!             │          └─────────────────────────┼─► turn ──────────────────┤◄────────────────────────┘
//!             │                                    ├─► baseline checks        │
//!             └────────────────────────────────────┼──────────────────────────┘
//!                                                  ├─► all complete: look at branch once more ─► completed
//!                                                  └─► failed, blocked, exhausted, stopped, …
//!
//!  merge    merge trees ─┬─ clean ────► lay out, check ─┬─ green ─► commit ─► look at merge ─► move target ─► merged
//!             ▲          ├─ conflict ─► lay out, agent ─┤                                         │
//!             │          └─ nothing ──────────────────► look at merge                              │ overtaken
//!             └────────────────────────────────────────────────────────────────────────────────────┘
//!                                                       └─ red ──► sent back
//!
//!  publish  look at route ─► look at branch ─► push ─► open pull request
//! ```
//!
//! [`UnitPlan`] decides, and the worker performs. Each effect but those that say otherwise is answered by one input.
//!
//! Only what a unit [tells](UnitEvent::Told) is recorded, in the run's stream. Everything else that the plan knows is in git
//! and in the receipts of the unit's loops, and the first steps of the next job find it there: that is why a job can be killed
//! behind any of its steps, and why no step costs a write to the journal. What a loop was for is recorded with the loop
//! ([`Purpose`](super::Purpose)).

mod decide;
#[cfg(test)]
mod decide_tests;
mod rules;
#[cfg(test)]
mod simulation_tests;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

pub use rules::{ChainCommit, accepted, end_of};
pub use state::UnitProgress;

use super::{CutLoop, LoopEnd, LoopOrder, PlanStep};
use crate::{
    event::{Grant, MergeMode, RunEvent, UnitEnd},
    ids::{LoopId, UnitId},
    unit::{
        Task, TaskSet, TaskStatus,
        schedule::Job,
        settings::{BaselineCheck, MustHold, RunSettings},
    },
};

/// How often a target that others move is followed.
pub const CHASES: u32 = 20;

/// The plan of a unit, as a machine.
pub struct UnitPlan;

/// What a job is about.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitBrief {
    pub unit: UnitId,
    /// What to do for it.
    pub job: Job,
    /// The branch that finished units go into.
    pub target: String,
    /// What becomes of a finished unit.
    pub merge: MergeMode,
    /// What the run was told.
    pub settings: RunSettings,
    /// Tasks that were complete in the user's checkout when the run began.
    pub complete: Vec<u32>,
}

/// Something that the worker found, or the end of something that it performed.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitInput {
    Begin(Arc<UnitBrief>),
    /// The user or the scheduler wants the job to stop; said between two effects.
    StopAsked,
    /// An effect could not be performed.
    Failed {
        /// The kind of end that this is for the unit.
        end: UnitEnd,
        detail: String,
    },
    /// Answers [`UnitEffect::MakeWorktree`].
    WorktreeMade(WorktreeFacts),
    /// Answers [`UnitEffect::SetUp`].
    SetUp(Result<(), String>),
    /// Answers [`UnitEffect::RestoreBranch`]: what was put back, in a sentence, if anything was.
    BranchRestored(Option<String>),
    /// Answers [`UnitEffect::CompareWithTarget`].
    TargetCompared(TargetFacts),
    /// Answers [`UnitEffect::FindCutLoop`].
    CutLoopFound {
        /// The unit's newest loop, if it was cut short in the unit's worktree.
        cut: Option<CutFacts>,
        /// The unit's tasks as the branch has them.
        tasks: Vec<Task>,
    },
    /// Answers [`UnitEffect::TakeTarget`].
    TargetTaken(TargetTaken),
    /// Answers [`UnitEffect::LookAtBranch`].
    BranchSeen(BranchFacts),
    /// Answers [`UnitEffect::ReadTasks`].
    TasksRead(Vec<Task>),
    /// Answers [`UnitEffect::FindProofs`]: tasks that receipts prove whose commits the target holds.
    ProofsFound(BTreeSet<u32>),
    /// Answers [`UnitEffect::LookAtTasks`].
    TasksSeen {
        /// The status of each task in the worktree, in the order of the tasks.
        statuses: Vec<TaskStatus>,
        /// The unit's newest loop, if it was cut short in the unit's worktree.
        cut: Option<CutFacts>,
    },
    /// Answers [`UnitEffect::SetStatuses`].
    StatusesSet,
    /// Answers [`UnitEffect::FindChecks`].
    ChecksFound(Vec<BaselineCheck>),
    /// Answers [`UnitEffect::FindMustHold`].
    MustHoldFound(MustHold),
    /// Answers [`UnitEffect::RunLoop`] and [`UnitEffect::ResumeLoop`].
    LoopEnded(Box<LoopEnd>),
    /// Answers [`UnitEffect::MergeTrees`].
    TreesMerged(MergeFacts),
    /// Answers [`UnitEffect::LayOut`]: what has to hold there, or why the tree could not be set up.
    LaidOut(Result<MustHold, String>),
    /// Answers [`UnitEffect::CommitMerge`].
    MergeCommitted(String),
    /// Answers [`UnitEffect::LookAtMerge`].
    MergeSeen(MergeView),
    /// Answers [`UnitEffect::MoveTarget`].
    TargetMoved(TargetMove),
    /// Answers [`UnitEffect::Tidy`].
    Tidied {
        /// The worktree, if it is gone.
        removed: Option<PathBuf>,
        /// What the user should know, such as why it is not.
        warnings: Vec<String>,
    },
    /// Answers [`UnitEffect::LookAtRoute`].
    RouteSeen {
        branch: String,
        /// What was changed since the run began about where branches go.
        changed: Vec<String>,
        remote: Option<String>,
    },
    /// Answers [`UnitEffect::Push`].
    Pushed,
    /// Answers [`UnitEffect::OpenPullRequest`].
    PullRequest(PullRequestEnd),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeFacts {
    pub path: PathBuf,
    pub branch: String,
    /// The commit that a new one begins at.
    pub base: String,
    /// Whether it was made just now.
    pub is_new: bool,
    /// Whether the journal knows it: its setup has run.
    pub is_set_up: bool,
}

/// How the unit's branch stands to the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFacts {
    /// The newest commit of the target.
    pub tip: String,
    /// The newest commit of the branch.
    pub head: String,
    /// The commit at which they part.
    pub base: Option<String>,
    /// Whether the target has changed files of the unit since.
    pub is_outdated: bool,
    /// The command that a person takes the target into the worktree with.
    pub catch_up: String,
}

/// How the target gets into the unit's branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The branch has nothing of its own, and moves on to the target.
    Forward,
    Merge,
}

/// What came of taking the target into the unit's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetTaken {
    /// The branch holds the target.
    Taken,
    /// It held it before.
    Nothing,
    /// Both changed the same lines; nothing was changed.
    Conflict,
    /// Files in the worktree are in the way; nothing was changed.
    NotClean(String),
}

/// What of the unit's branch is proven.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchFacts {
    pub branch: String,
    /// The newest commit of the target.
    pub tip: String,
    /// The commit at which target and branch part.
    pub base: String,
    /// The newest commit of the branch.
    pub head: String,
    /// Tasks that receipts prove whose commits the branch holds.
    pub proven: BTreeSet<u32>,
    /// The newest commit that is proven; what was changed since is what a claim is about.
    pub accepted: String,
}

/// A loop that was cut short, and what has to hold where the unit stands now, if the loop was about that.
#[derive(Clone, Debug, PartialEq)]
pub struct CutFacts {
    pub cut: CutLoop,
    /// Asked for only where the loop is no turn.
    pub must_hold: Option<MustHold>,
}

/// What merging the unit's branch into the target comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeFacts {
    /// The newest commit of the target.
    pub tip: String,
    /// The newest commit of the branch.
    pub head: String,
    pub branch: String,
    /// The files of both.
    pub merged: MergedTrees,
}

/// The files of two commits together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergedTrees {
    /// The target holds all of the branch.
    Nothing,
    Clean {
        /// The tree of both.
        tree: String,
    },
    Conflict {
        /// The tree of both, with conflict marks.
        tree: String,
        /// The files in conflict.
        paths: Vec<String>,
    },
}

/// What a merge would change in the files of units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeView {
    /// Tasks of the unit that receipts prove.
    pub proven: BTreeSet<u32>,
    /// The unit's tasks as the target has them.
    pub tasks: Vec<Task>,
    /// Files below the folder of units that the merge changes.
    pub changes: Vec<MergedFile>,
}

/// A file that a merge changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedFile {
    /// Its path, from the top of the repository.
    pub file: String,
    /// What the target has.
    pub before: Option<Vec<u8>>,
    /// What the merge has.
    pub after: Option<Vec<u8>>,
}

/// What came of moving the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetMove {
    /// It holds the merge.
    Moved,
    /// It was left where it is; the merge waits on a branch.
    LeftOn {
        branch: String,
        /// The command that moves the target.
        command: String,
        /// Why it was left.
        why: String,
    },
    /// The target got a commit meanwhile: the merge was not checked with that.
    Overtaken,
}

/// What came of opening a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequestEnd {
    Opened {
        url: String,
    },
    /// There is no program that could open one.
    NoProgram,
    Refused {
        detail: String,
    },
}

/// Something that the worker has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitEffect {
    /// Make the unit's worktree, or find it.
    MakeWorktree,
    /// Run the commands that make a fresh worktree ready.
    SetUp,
    /// Put the branch back to a commit that it has to hold, if an agent or a user took that off it.
    RestoreBranch(Restore),
    /// Find out how the branch stands to the target.
    CompareWithTarget,
    /// Look for a loop that was cut short and that counts its changes from this commit.
    FindCutLoop {
        /// The newest commit of the branch.
        head: String,
    },
    /// Take the target into the branch and into the worktree.
    TakeTarget(Take),
    /// Take what an agent may have staged out of git's index. Not answered.
    Unstage,
    /// Find out what of the branch is proven.
    LookAtBranch,
    /// Read the unit's tasks as a commit has them.
    ReadTasks {
        commit: String,
    },
    /// Find out which tasks receipts prove whose commits the target holds.
    FindProofs {
        /// A commit of the target.
        commit: String,
    },
    /// Remove what a killed dacapo left beside the files of tasks. Not answered.
    SweepTaskFiles {
        tasks: Vec<Task>,
    },
    /// Look at the tasks in the worktree, put back files that cannot be read, and look for a loop that was cut short.
    LookAtTasks {
        /// The tasks, as they were where the branch began.
        tasks: Vec<Task>,
        /// The newest commit that is proven.
        accepted: String,
    },
    /// Write the status of tasks into their files in the worktree.
    SetStatuses {
        tasks: Vec<Task>,
        statuses: Vec<(u32, TaskStatus)>,
    },
    /// Find out which checks of the whole repository concern the branch.
    FindChecks,
    /// Find out what has to hold when `tree` stands where `tip` stood.
    FindMustHold {
        /// The newest commit of the target.
        tip: String,
        /// A tree, or a commit.
        tree: String,
        /// The commit whose tasks count.
        commit: String,
    },
    /// Run a loop to its end.
    RunLoop(LoopPlace, Box<LoopOrder>),
    /// Go on with a loop that was cut short.
    ResumeLoop {
        id: LoopId,
        grant: Grant,
    },
    /// Merge the branch and the target, without changing either.
    MergeTrees,
    /// Lay a merged tree out in a scratch worktree, set it up, and find out what has to hold there.
    LayOut {
        /// The newest commit of the target.
        tip: String,
        tree: String,
    },
    /// Remove the scratch worktree. Not answered.
    DropScratch,
    /// Make a merge commit, which no branch holds yet.
    CommitMerge {
        tree: String,
        /// The newest commit of the target.
        tip: String,
        /// The newest commit of the branch.
        head: String,
    },
    /// Find out what a merge would change in the files of units.
    LookAtMerge {
        /// The newest commit of the target.
        tip: String,
        commit: String,
    },
    /// Move the target to the merge, if the merge holds all of it.
    MoveTarget {
        commit: String,
    },
    /// Run the teardown and remove the worktree and its branch, as far as they are surely merged and clean.
    Tidy {
        /// The merge that holds them.
        commit: String,
    },
    /// Find out where branches are pushed to.
    LookAtRoute,
    Push {
        commit: String,
        remote: String,
    },
    /// Open a pull request for the branch.
    OpenPullRequest,
}

/// The commit that a branch is put back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restore {
    /// The newest that a receipt proves and that still exists.
    NewestProven,
    Commit(String),
}

/// Where a loop works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPlace {
    /// In the unit's worktree.
    Worktree,
    /// In the scratch worktree of a merge.
    Scratch,
}

/// A step of the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitEvent {
    /// A fact for the run's stream, which the scheduler records.
    Told(RunEvent),
    /// What the plan has learnt, for its later steps. Not recorded: the next job finds it in git and in receipts.
    Noted(UnitNote),
    /// What the plan waits for now. Not recorded.
    Entered(UnitStage),
}

/// Something that later steps of the plan need.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitNote {
    /// What the job is about.
    Brief(Arc<UnitBrief>),
    /// Where the unit is worked on.
    Worktree(WorktreeFacts),
    /// What of the branch is proven.
    Branch(BranchFacts),
    /// The tasks as they were where the branch began.
    Tasks(Vec<Task>),
    /// Whether the checks after all tasks hold.
    Checks(BaselineState),
    /// A receipt proves these tasks, and this is the newest proven commit now.
    Proven { tasks: Vec<u32>, commit: Option<String> },
    /// What the checks of tasks printed that were claimed beside others that were accepted.
    Red(BTreeMap<u32, String>),
    /// The newest loop, if it came to no good end.
    FailedLoop(Option<LoopId>),
}

/// How the checks after all tasks stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BaselineState {
    /// The checks have to run.
    #[default]
    Due,
    /// The checks passed, or there are none.
    Hold,
}

/// What a plan waits for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum UnitStage {
    /// The job has not begun.
    #[default]
    New,
    MakingWorktree,
    SettingUp,
    /// The branch, before the first look at it.
    RestoringBranch,
    /// How the branch stands to the target.
    ComparingWithTarget,
    /// Whether a loop was cut short that counts from where the branch stands.
    FindingCutLoop(TargetFacts),
    /// The target in the branch; the facts say why it is taken.
    TakingTarget(TargetFacts),
    /// What of the branch is proven.
    LookingAtBranch(AfterLook),
    /// The tasks where the branch began.
    ReadingTasks,
    /// What proves that the target says more than it said when the run began.
    FindingProofs {
        /// Tasks that are complete there and were not.
        new: Vec<u32>,
    },
    /// The target in the branch of a unit that was sent back.
    TakingTargetBack {
        /// What was red in the merged tree.
        red: String,
    },
    /// What has to hold for a unit that was sent back.
    FindingMustHold {
        /// What was red in the merged tree.
        red: String,
    },
    /// The branch, between two loops.
    KeepingBranch,
    /// How the tasks stand.
    LookingAtTasks,
    SettingStatuses,
    /// The checks that concern the branch.
    FindingChecks,
    /// A loop in the unit's worktree.
    Looping {
        /// What it is for.
        step: PlanStep,
        /// The tasks that it may complete.
        set: Option<TaskSet>,
    },
    /// The mark at a task that is given up.
    MarkingFailed {
        task: u32,
        detail: String,
    },
    /// The branch, because commits were taken off it while it was looked at for the last time.
    RestoringLostCommits,
    /// The merged tree of branch and target.
    MergingTrees(Merging),
    /// The merged tree, laid out.
    LayingOut(Merging),
    /// A loop on the merged tree.
    CheckingTree(Merging, Box<MustHold>),
    /// What has to hold for a tree in which an agent has resolved conflicts.
    FindingMustHoldAgain(Merging, Box<MustHold>),
    CommittingMerge(Merging),
    /// What the merge changes in the files of units.
    LookingAtMerge {
        merging: Merging,
        commit: String,
    },
    MovingTarget {
        merging: Merging,
        commit: String,
    },
    /// The worktree, which goes.
    Tidying,
    /// Where branches are pushed to.
    LookingAtRoute,
    /// The branch at the remote.
    Pushing {
        remote: String,
        branch: String,
    },
    OpeningPullRequest,
    /// Nothing: the job is over.
    Over,
}

/// What a look at the branch is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterLook {
    /// The first one, before anything is worked on.
    Begin,
    /// Something has changed the branch; then look at the tasks.
    GoOn,
    /// The target was merged into the branch of a unit that was sent back.
    TargetTakenBack {
        /// What was red in the merged tree.
        red: String,
    },
    /// All is complete, as far as is known.
    Complete,
    /// The branch is to be pushed.
    Publish { remote: String },
}

/// One try to merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merging {
    /// How often the target was overtaken.
    pub chases: u32,
    /// The newest commit of the target.
    pub tip: String,
    /// The newest commit of the branch.
    pub head: String,
    pub branch: String,
    pub tree: String,
    /// The files that were in conflict; none if it was clean.
    pub conflict: Vec<String>,
    /// Whether an agent has resolved the conflict.
    pub is_resolved: bool,
}
