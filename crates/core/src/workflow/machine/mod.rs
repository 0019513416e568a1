//! One run of a workflow: what has happened, and what comes next.
//!
//! ```text
//!             ┌────────────────────────── reopened ◄── rework ◄───────────┐
//!             ▼                                                           │
//!  pending ─► running ─► completed            (agent, loop, bash)         │
//!     │         ├─► (worked ─► merging ─► completed, with a worktree)     │
//!     │         ├─► retrying ─► running                                   │
//!     │         ├─► held ─► running           (interrupted, out of money) │
//!     │         └─► failed                                                │
//!     ├───────► looking ─► asking ─┬─► completed   (approval)             │
//!     │                            └──────────────────────────────────────┘
//!     ├───────► waiting ─► completed          (wait)
//!     └───────► skipped
//! ```
//!
//! [`WorkflowMachine`] decides, and a performer carries out the [effects](WorkflowEffect). Everything it knows is in the
//! events of the run's own stream, so that a run goes on after a crash, a reboot or a week without an answer.
//!
//! - A step that is recorded as completed does not run again, unless a person wanted changes above it.
//! - Steps without a worktree of their own share the workspace and take turns. A person is asked only when none of them
//!   could work, so that the question is about files at rest.
//! - A question names the tree it is about. An approval of another tree is refused: the checks run again, and the person is
//!   asked again.
//! - A run comes to one end: completed, failed, cancelled or blocked.

mod advance;
mod decide;
mod event;
mod order;
mod policy;
mod state;

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod simulation_tests;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use decide::{accepts, decision, is_held};
pub use event::{
    AfterAnswer, EndReason, StepWorkKind, WorkflowEnd, WorkflowEnvelope, WorkflowEvent, WorkflowSettings,
    WorkflowStarted,
};
pub use order::{StepLoop, StepScript};
pub use policy::LoopSetup;
#[cfg(test)]
pub(crate) use policy::tests::setup as setup_of_first_loop;
pub use state::{StepPhase, StepProgress, WorkflowProgress, WorkflowStanding};

use super::{StepId, WaitFor};
use crate::{
    event::Reason,
    machine::{Machine, Step},
    sandbox::SandboxHeld,
};

/// The run of a workflow, as a machine.
pub struct WorkflowMachine;

impl Machine for WorkflowMachine {
    type State = WorkflowProgress;
    type Input = WorkflowInput;
    type Event = WorkflowEvent;
    type Effect = WorkflowEffect;

    fn decide(state: &WorkflowProgress, input: WorkflowInput) -> Step<WorkflowEvent, WorkflowEffect> {
        decide::decide(state, input)
    }

    fn apply(state: &mut WorkflowProgress, event: &WorkflowEvent) {
        state.apply(event);
    }
}

/// What reaches a run, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowInput {
    pub now: Timestamp,
    pub news: WorkflowNews,
}

/// What can happen to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkflowNews {
    /// The run is to begin. Only the first one counts.
    Begin(Box<WorkflowStarted>),
    /// A performer takes the run up that another one has left, however that came: it is told everything again that is under
    /// way. Always the first that a performer says about a run that has begun.
    TakenUp,
    /// The user wants a run to go on that has failed, is blocked or was held up; with more to spend, if anything is typed.
    Resumed {
        raise: Raise,
    },
    /// Answers [`WorkflowEffect::RunLoop`].
    LoopEnded {
        step: StepId,
        attempt: u32,
        end: Box<LoopResult>,
    },
    /// The script that [`WorkflowEffect::RunScript`] asked for begins in this sandbox.
    ScriptStarted {
        step: StepId,
        attempt: u32,
        sandbox: SandboxHeld,
    },
    /// Answers [`WorkflowEffect::RunScript`].
    ScriptEnded {
        step: StepId,
        attempt: u32,
        end: ScriptResult,
    },
    /// Answers [`WorkflowEffect::MergeWorktree`]: the files are in the workspace, or why they cannot be.
    Merged {
        step: StepId,
        attempt: u32,
        end: Result<(), String>,
    },
    /// Answers [`WorkflowEffect::LookAtTree`].
    TreeSeen {
        step: StepId,
        attempt: u32,
        tree: String,
    },
    /// A person has answered a question; `tree` is the one that the performer sees now.
    Answered {
        question: u32,
        answer: Answer,
        text: String,
        tree: String,
    },
    /// A time that the run waits for has come.
    Due,
    /// The file of a waiting step is there.
    FileSeen {
        step: StepId,
    },
    /// A person or a program has sent a signal.
    Signalled {
        name: String,
    },
    /// What all steps have spent so far.
    Spent {
        cost_usd: f64,
        tokens: u64,
        time_ms: u64,
    },
    Pause {
        now: bool,
    },
    Unpause,
    Cancel {
        why: String,
    },
}

/// What a person says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Approve,
    Reject,
    /// One of the decisions of the question, by its id.
    Choose(String),
}

/// How the loop of a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopResult {
    pub reason: Reason,
    pub detail: String,
    /// The last answer of its agent, without tags.
    pub output: String,
    /// The tree of the workspace at its end.
    pub tree: String,
    /// Whether the tree differs from the one at its start.
    pub is_changed: bool,
    pub session: Option<String>,
    /// Why the last claim did not count, if one was refused.
    pub refused: Option<String>,
    /// Whether it did not begin because of what the run was started with, so that it never will.
    pub repeats: bool,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptResult {
    pub end: ScriptEnd,
    /// What it printed on its standard output.
    pub output: String,
    pub is_changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptEnd {
    Exited(i32),
    TimedOut,
    /// dacapo was told to stop while it ran.
    Interrupted(Reason),
    /// It could not be started.
    NotStarted(String),
    /// It was started and has no exit code: what became of it, in words.
    Lost(String),
}

/// What a person adds to the budgets of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Raise {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_ms: Option<u64>,
}

/// Something to do, once the events that were decided with it are recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkflowEffect {
    /// Run a loop for a step, or go on with it: the performer knows it again by step and attempt. If it has ended already, its
    /// end is the answer.
    RunLoop(Box<StepLoop>),
    /// Run a script. It is told once per attempt.
    RunScript(Box<StepScript>),
    /// Bring what a step has changed in its worktree into the workspace, in which nothing else works now. Told again after a crash,
    /// it does no harm.
    MergeWorktree {
        step: StepId,
        attempt: u32,
    },
    /// Look at the files that a question is about.
    LookAtTree {
        step: StepId,
        attempt: u32,
    },
    /// Tell people about a question. Its answer may come in days, to another process.
    Ask {
        question: u32,
    },
    /// Nothing is to run for this; `due` is when time alone ends the wait.
    Wait {
        step: StepId,
        what: WaitFor,
        due: Option<Timestamp>,
    },
    /// Say that [`WorkflowNews::Due`] is due then.
    WakeAt(Timestamp),
    /// End the loop or script of a step; it answers as always. A loop that was cut short and that nothing runs any more answers
    /// that it was cancelled.
    Stop {
        step: StepId,
        attempt: u32,
    },
    /// Have the loops that run hold, at once or after their iteration.
    HoldLoops {
        now: bool,
    },
    ReleaseLoops,
    /// Warn about something that does not stop the run.
    Warn(String),
    /// The run is over.
    End(WorkflowEnd),
}
