//! What follows from a decision: facts to record, then things to do.

use jiff::Timestamp;

use crate::{
    duration::Millis,
    event::{GateRole, LoopEvent, Spend},
    ids::TaskId,
    item::{ItemKey, Marks},
    policy::GateSpec,
};

/// The answer of [`super::decide`]: recorded first, done second.
pub type Step = crate::machine::Step<LoopEvent, Effect>;

/// Something to do. Each is answered by an input, except where it says so.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Look which of these tasks are done, now and again every `every`; answered by `TasksLookedAt` on a change.
    AwaitTasks { tasks: Vec<TaskId>, every: Millis },
    /// Read the markers in the task folder; answered by `MarkersRead`.
    ReadMarkers,
    /// Start the agent; answered by `AgentExited` or `AgentNotStarted`.
    StartAgent {
        /// Which: the policy's own is 0, its stand-ins follow.
        agent: usize,
        /// The session it goes on with, and what that has cost so far.
        session: Option<(String, Spend)>,
        iteration: u32,
        attempt: u32,
        /// What it is given.
        prompt: String,
        /// The nonce its promise must carry, if the policy wants one.
        nonce: String,
        /// What is left of the loop's time.
        time_left: Option<Millis>,
    },
    /// Ask the running agent or check to end, and kill it after `grace`. Its end is reported as usual.
    StopWork {
        /// How long it may take.
        grace: Millis,
    },
    /// Wait for child loops; answered by `ChildrenFound` if there are any, then `ChildrenWaitedFor`.
    AwaitChildren {
        /// How long at most.
        timeout: Millis,
        /// How often to look.
        every: Millis,
    },
    /// Tell child loops to end. No answer.
    CancelChildren,
    /// Run a check; answered by `GateFinished`.
    RunGate {
        gate: GateSpec,
        /// What it is for.
        role: GateRole,
        /// The snapshot that is judged, for checks that run in a checkout of it.
        snapshot: Option<String>,
    },
    /// Look at the workspace for a claim; answered by `Examined`.
    Examine,
    /// Look again whether the snapshot still stands; answered by `Rechecked`.
    Recheck {
        /// The snapshot that was judged.
        snapshot: Option<String>,
    },
    /// Commit a snapshot's tree; answered by `CommitDone`. Repeating it finds the commit that is there.
    Commit {
        snapshot: String,
        /// The iteration whose work it is.
        iteration: u32,
        message: String,
    },
    /// Commit a snapshot's tree once per item; answered by `ItemsCommitted`. Repeating it finds the commits that are
    /// there.
    CommitItems {
        snapshot: String,
        /// The iteration whose work it is.
        iteration: u32,
        /// The commits, in their order.
        commits: Vec<ItemCommit>,
    },
    /// Make marks say what is proven, and change nothing else: items of `done` are done, all others are as they were when
    /// the loop began. What holds marks and is gone or cannot be understood becomes what it was. No answer; doing it again
    /// changes nothing.
    SetMarks { of: Marks, done: Vec<ItemKey> },
    /// Wait between iterations; answered by `DelayOver`.
    Delay(Millis),
    /// Wait until a time of day, without a process; answered by `ParkOver`, not before the provider may be asked again.
    Park {
        until: Timestamp,
        /// Whom the loop waits for.
        provider: String,
    },
    /// Tell all loops on this machine that a provider is at its limit. No answer.
    CloseProvider { provider: String, until: Timestamp, why: String },
    /// Move a refused DONE out of the way. No answer.
    SetDoneAside,
    /// Remove the wait marker, so that it does not speak twice. No answer.
    ConsumeWaitMarker,
    /// Tell the bus. Best effort, no answer.
    Post(BusPost),
}

/// The commit of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemCommit {
    pub item: ItemKey,
    pub message: String,
    /// The items whose marks say in it that they are done, whatever they say in the snapshot.
    pub done: Vec<ItemKey>,
}

/// A message of dacapo's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusPost {
    pub to: BusTarget,
    /// INFO, WARNING, ERROR, FACT, RUN_START, …
    pub kind: &'static str,
    pub body: String,
}

/// Whose bus a message goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusTarget {
    Task,
    Project,
}
