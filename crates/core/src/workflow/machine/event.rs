//! Facts in the life of a run.

use std::{collections::BTreeMap, path::PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Raise;
use crate::{
    agent::AgentCommand,
    chat::Conversation,
    event::Reason,
    ids::{ProjectId, RunId},
    policy::{Origin, Policy},
    sandbox::SandboxHeld,
    workflow::{LeftOut, OfferedDecision, StepId, Workflow, catalogue::SourceFile},
};

/// What a run was started with. It is frozen here: what becomes of the files later is of no account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowStarted {
    /// The id of the run, for `$WORKFLOW_ID`.
    pub run: String,
    pub workflow: Workflow,
    /// SHA-256 over the files it was made from.
    pub digest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SourceFile>,
    /// Keys that were left out because the user asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// What the user typed behind the name of the workflow.
    #[serde(default)]
    pub message: String,
    /// The conversation of a chat that it was started from, which is told what becomes of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// How many steps with worktrees may run beside each other.
    pub parallel: u32,
    /// Where and with what it runs; a walk without agents has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<WorkflowSettings>>,
}

/// Where a run works, and what its loops are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowSettings {
    pub project: ProjectId,
    /// The folder that its steps work in.
    pub root: PathBuf,
    /// What the user's flags and configuration say to every loop.
    pub policy: Policy,
    /// The agents of the steps that do not have the one of the policy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<StepId, AgentCommand>,
    /// Whose words the commands of the workflow are.
    #[serde(default)]
    pub origin: Origin,
    /// Whether the user agreed to the commands for this run alone (`--trust`). Otherwise the consent that is kept has to hold
    /// whenever the run goes on.
    #[serde(default)]
    pub is_trusted_once: bool,
    /// The programs that git sends files through, as they were set up when the run began. They hold in all its steps: an agent
    /// of one step must not choose what dacapo's git starts in the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<(String, String)>>,
    pub pid: u32,
    pub version: String,
}

/// A fact of a run with its place in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkflowEnvelope {
    pub seq: u64,
    pub at: Timestamp,
    pub run: RunId,
    #[serde(flatten)]
    pub event: WorkflowEvent,
}

/// What runs for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepWorkKind {
    /// What the step is there for.
    Main,
    /// Changes that a person wants before an approval.
    Rework,
    /// A look at the files that a person is to be asked about.
    Question,
    /// What was changed in a worktree of the step's own comes into the workspace.
    Merge,
    /// The checks of an agent or a loop that is done run again, because files have changed since. The agent of a loop goes on
    /// only if they fail.
    Check,
}

impl StepWorkKind {
    /// Whether it is done in the workspace, also if the step has a worktree of its own.
    pub fn is_in_workspace(self) -> bool {
        matches!(self, Self::Rework | Self::Merge | Self::Check)
    }
}

/// What an answer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterAnswer {
    /// The step is complete.
    Complete,
    /// An agent makes changes, and the person is asked again.
    Rework,
    /// The loop goes on with another iteration.
    Iterate,
    End,
}

/// A fact in the life of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WorkflowEvent {
    /// The first event of every run.
    WorkflowStart(Box<WorkflowStarted>),
    /// Written before anything is done for a step. Each attempt of a step has a number of its own.
    StepStart {
        step: StepId,
        attempt: u32,
        work: StepWorkKind,
    },
    /// The script of a step begins in this sandbox.
    ScriptStarted {
        step: StepId,
        attempt: u32,
        sandbox: SandboxHeld,
    },
    /// A performer goes on with an attempt that was held up.
    StepContinued {
        step: StepId,
        attempt: u32,
    },
    StepComplete {
        step: StepId,
        attempt: u32,
        output: String,
        is_changed: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    /// A step has done its work in a worktree of its own; it is complete when that is merged into the workspace.
    StepWorked {
        step: StepId,
        attempt: u32,
        output: String,
        is_changed: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    StepError {
        step: StepId,
        attempt: u32,
        error: String,
        /// Why its loop ended, if it was a loop that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
        /// Whether it would fail like this again: it was refused for what the run was started with.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeats: bool,
        /// When it is tried again, if it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
    },
    /// The step is not taken.
    StepSkipped {
        step: StepId,
        why: String,
    },
    /// Something outside of the step has stopped it; it can go on.
    StepHeld {
        step: StepId,
        attempt: u32,
        reason: Reason,
        detail: String,
    },
    /// An iteration of an interactive loop has ended.
    StepIterated {
        step: StepId,
        attempt: u32,
        iteration: u32,
        output: String,
        is_changed: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
    },
    QuestionAsked {
        question: u32,
        step: StepId,
        /// The tree that the answer is about.
        tree: String,
        message: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        decisions: Vec<OfferedDecision>,
        /// Whether the loop that asks would be done.
        is_met: bool,
    },
    QuestionAnswered {
        question: u32,
        step: StepId,
        /// `approve`, `reject`, or the id of a decision.
        decision: String,
        text: String,
        tree: String,
        follows: AfterAnswer,
    },
    /// A person approved a tree that is no longer there.
    AnswerRefused {
        question: u32,
        step: StepId,
        asked_about: String,
        tree: String,
    },
    /// An agent has made the changes that a person wanted.
    ReworkComplete {
        step: StepId,
        attempt: u32,
    },
    /// Steps that have to run again, because what they looked at has changed.
    StepsReopened {
        steps: Vec<StepId>,
        /// Those whose checks alone have to run again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checks: Vec<StepId>,
        because: String,
    },
    WaitStarted {
        step: StepId,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
    },
    WorkflowPaused {
        now: bool,
    },
    WorkflowUnpaused,
    /// More was spent than the budget of the workflow allows.
    BudgetExceeded {
        what: String,
    },
    /// The run is to end like this as soon as nothing of it runs any more.
    WorkflowStopping {
        end: WorkflowEnd,
    },
    /// The user wants the run to go on.
    WorkflowResumed {
        reopened: Vec<StepId>,
        /// Those whose agents were blocked: their loops go on.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        continued: Vec<StepId>,
        raise: Raise,
    },
    WorkflowComplete {
        output: String,
    },
    /// The run is over, and not completed.
    WorkflowError(WorkflowEnd),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowEnd {
    pub end: EndReason,
    /// The reason, in one line.
    pub detail: String,
    /// What the command exits with.
    pub exit_code: u8,
}

/// The one reason for which a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    Completed,
    Failed,
    Cancelled,
    /// An agent says that it cannot be done as it was asked for.
    Blocked,
}

impl WorkflowEnd {
    pub(super) fn cancelled(detail: impl Into<String>) -> Self {
        let (end, exit_code) = (EndReason::Cancelled, Reason::Cancelled.exit_code());
        Self { end, detail: detail.into(), exit_code }
    }
}
