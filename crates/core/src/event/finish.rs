//! Why a loop is over, how it stands, and what the command exits with: one table (req 202).

use serde::{Deserialize, Serialize};

/// How a loop that is over stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishState {
    Completed,
    /// It did not come to an end that counts.
    Failed,
    /// It waits for a person.
    Stopped,
    /// A person ended it for good.
    Cancelled,
}

/// Why a loop is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Done,
    /// Something about the task is broken.
    Error,
    /// The agent is missing or cannot be started.
    Agent,
    /// A gate cannot run, so that no claim could ever be believed.
    Gate,
    /// The disk is full, read-only or failing.
    Disk,
    /// Another loop holds what is needed.
    Lock,
    /// All iterations are used up.
    MaxIterations,
    /// All time is used up.
    MaxTime,
    /// All money or all tokens are used up.
    Budget,
    /// Too many iterations without progress.
    Stuck,
    /// The agent waits for a person.
    Waiting,
    Question,
    /// The agent says that it cannot do what it was asked.
    Blocked,
    /// The agent refuses the work that it was asked to judge.
    Refused,
    /// The agent is not signed in.
    Auth,
    /// The agent's account has no money.
    Billing,
    Interrupted,
    Terminated,
    /// `dacapo cancel`.
    Cancelled,
}

impl Reason {
    /// How a loop that ends for this reason stands.
    pub fn state(self) -> FinishState {
        match self {
            Self::Done => FinishState::Completed,
            Self::Error
            | Self::Agent
            | Self::Gate
            | Self::Disk
            | Self::Lock
            | Self::MaxIterations
            | Self::MaxTime
            | Self::Budget
            | Self::Stuck => FinishState::Failed,
            Self::Waiting
            | Self::Question
            | Self::Blocked
            | Self::Refused
            | Self::Auth
            | Self::Billing
            | Self::Interrupted
            | Self::Terminated => FinishState::Stopped,
            Self::Cancelled => FinishState::Cancelled,
        }
    }

    /// What the command exits with.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::MaxIterations | Self::MaxTime | Self::Budget | Self::Stuck => 3,
            Self::Waiting | Self::Question | Self::Blocked | Self::Refused | Self::Auth | Self::Billing => 4,
            Self::Agent | Self::Gate | Self::Disk | Self::Lock => 5,
            Self::Interrupted | Self::Cancelled => 130,
            Self::Terminated => 143,
        }
    }

    /// Whether `dacapo resume` can continue the loop.
    pub fn is_resumable(self) -> bool {
        !matches!(self.state(), FinishState::Completed | FinishState::Cancelled)
    }

    /// As it stands in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Error => "error",
            Self::Agent => "agent",
            Self::Gate => "gate",
            Self::Disk => "disk",
            Self::Lock => "lock",
            Self::MaxIterations => "max_iterations",
            Self::MaxTime => "max_time",
            Self::Budget => "budget",
            Self::Stuck => "stuck",
            Self::Waiting => "waiting",
            Self::Question => "question",
            Self::Blocked => "blocked",
            Self::Refused => "refused",
            Self::Auth => "auth",
            Self::Billing => "billing",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
            Self::Cancelled => "cancelled",
        }
    }
}

impl FinishState {
    /// As it stands in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_one_state_one_exit_code_and_one_name() {
        // req 202, fault B12
        for (reason, state, exit, resumable) in [
            (Reason::Done, "completed", 0, false),
            (Reason::Error, "failed", 1, true),
            (Reason::Agent, "failed", 5, true),
            (Reason::Disk, "failed", 5, true),
            (Reason::Lock, "failed", 5, true),
            (Reason::MaxIterations, "failed", 3, true),
            (Reason::MaxTime, "failed", 3, true),
            (Reason::Budget, "failed", 3, true),
            (Reason::Stuck, "failed", 3, true),
            (Reason::Waiting, "stopped", 4, true),
            (Reason::Question, "stopped", 4, true),
            (Reason::Blocked, "stopped", 4, true),
            (Reason::Refused, "stopped", 4, true),
            (Reason::Auth, "stopped", 4, true),
            (Reason::Billing, "stopped", 4, true),
            (Reason::Interrupted, "stopped", 130, true),
            (Reason::Terminated, "stopped", 143, true),
            (Reason::Cancelled, "cancelled", 130, false),
        ] {
            assert_eq!(
                (reason.state().as_str(), reason.exit_code(), reason.is_resumable()),
                (state, exit, resumable)
            );
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
            assert_eq!(serde_json::to_value(reason.state()).unwrap(), state);
        }
    }
}
