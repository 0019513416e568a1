//! What follows from a decision: facts to record, then things to do.

use jiff::Timestamp;

use crate::{
    duration::Millis,
    event::{GateRole, Look, LoopEvent, Spend},
    ids::TaskId,
    item::{ItemKey, Marks},
    policy::GateSpec,
};

/// The answer of [`super::decide`]. Its events are recorded before its effects are carried out.
pub type Step = crate::machine::Step<LoopEvent, Effect>;

/// Something to do. Each is answered by an input, except where it says so.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Look which of these tasks are done, now and again every `every`; answered by `TasksLookedAt` on a change.
    AwaitTasks { tasks: Vec<TaskId>, every: Millis },
    /// Read the markers in the task folder; answered by `MarkersRead`.
    ReadMarkers,
    /// Start the agent; answered by `AgentExited` or `AgentNotStarted`. In a chat session, hand the prompt to the host; answered
    /// by `SessionIdle` or `PromptNotDelivered`.
    StartAgent {
        /// The index of the agent: the policy's own is 0, its fallbacks follow.
        agent: usize,
        /// The session that the agent goes on with, and what the session has cost so far.
        session: Option<(String, Spend)>,
        iteration: u32,
        attempt: u32,
        prompt: String,
        /// The nonce that the agent's promise must carry, if the policy wants one.
        nonce: String,
        /// What is left of the loop's time.
        time_left: Option<Millis>,
    },
    /// Ask the running agent or check to end, and kill it after `grace`. The answer is that of `StartAgent` or
    /// `RunGate`.
    StopWork { grace: Millis },
    /// Wait for child loops; answered by `ChildrenFound` if there are any, then `ChildrenWaitedFor`.
    AwaitChildren { timeout: Millis, every: Millis },
    /// Tell child loops to end. No answer.
    CancelChildren,
    /// Run a check; answered by `GateFinished`.
    RunGate {
        gate: GateSpec,
        role: GateRole,
        /// The snapshot that is judged, for checks that run in a checkout of it.
        snapshot: Option<String>,
        /// Where it runs, and with whose tests.
        look: Look,
    },
    /// Try the gates in a throw-away checkout. Each is answered by `GateTried`; `TrialWaitOver` says that all were tried, or
    /// that the first agent has waited long enough.
    TryGates { gates: Vec<GateSpec> },
    /// Look at the workspace for a claim; answered by `Examined`.
    Examine,
    /// Look whether the workspace is still as in the snapshot; answered by `Rechecked`.
    Recheck {
        /// The snapshot that was judged.
        snapshot: Option<String>,
    },
    /// Commit a snapshot's tree; answered by `CommitDone`. A commit that was made before is found, not made again.
    Commit {
        snapshot: String,
        /// The iteration whose work it is.
        iteration: u32,
        message: String,
    },
    /// Commit a snapshot's tree once per item; answered by `ItemsCommitted`. Commits that were made before are found,
    /// not made again.
    CommitItems {
        snapshot: String,
        /// The iteration whose work it is.
        iteration: u32,
        commits: Vec<ItemCommit>,
    },
    /// Set the marks of items, and change nothing else: those of `done` say that they are done, all others say what
    /// they said when the loop began. A file with marks that is gone or cannot be read is written as it was then. No
    /// answer; doing it again changes nothing.
    SetMarks { of: Marks, done: Vec<ItemKey> },
    /// Wait between iterations; answered by `DelayOver`.
    Delay(Millis),
    /// Leave the session alone until this time, and look at it again then; answered by `SessionIdle`.
    AwaitRecovery { until: Timestamp },
    /// Wait until a time of day; answered by `ParkOver`, not before the provider may be asked again.
    Park { until: Timestamp },
    /// Tell all loops on this machine that the account of this loop's agent is at its limit. No answer.
    CloseProvider {
        /// The index of the agent: the policy's own is 0, its fallbacks follow.
        agent: usize,
        until: Timestamp,
        why: String,
    },
    /// This loop asks the providers of its agents although their accounts are at a limit; other loops wait for the result. No
    /// answer.
    AskProviders,
    /// Give the DONE file of a refused claim another name. No answer.
    SetDoneAside,
    /// Remove the wait marker, so that it does not count twice. No answer.
    ConsumeWaitMarker,
    /// Post on the bus. Best effort, no answer.
    Post(BusPost),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemCommit {
    pub item: ItemKey,
    pub message: String,
    /// The items whose marks say in this commit that they are done, also if the snapshot says otherwise.
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
