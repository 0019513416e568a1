//! Stages: the roles that a task passes through, coder, reviewer, tester and qa, each a loop with its own agent, limit, promise
//! and proof.
//!
//! What a role is stands in one table ([`ROLES`]). What the user's and the repository's configuration make of it is a
//! [`Stage`], and [`Stage::policy`] makes the policy of its loop. `docs/design/0018-stages.md` says why.

mod account;
mod completion;
mod history;
mod ledger;
mod limit;
pub mod machine;
pub mod prompt;
mod reader;
mod record;
mod review;
mod role;
pub mod schedule;
mod settings;
pub mod task;

pub use account::StageAccount;
pub use completion::{External, StageCompletion, TaskCompletion, VERIFY_TIMEOUT, Verify};
pub use history::{past_findings, past_refusals, past_runs};
pub use ledger::{
    Decider, FindingState, ROUNDS_WITH_FINDINGS, ReviewFinding, ReviewLedger, Round, Stalemate,
};
pub use limit::{AUTO_AT_MOST, ChosenLimit, IterationLimit, PastRun};
pub use record::{Ralph, RalphFailure, StageIteration, exceeded};
pub use review::{FindingDecision, Review, ReviewVerdict, replies, review};
pub use role::{MayWrite, ROLES, Role, Sees, is_test};
pub use settings::{DEFAULT_SLOTS, ITERATION_TIMEOUT, RalphLoopConfig, Stage, StageMode, equal_promises};
pub use task::{StageTask, StageTaskList, StageTaskSpec, StageTaskStatus};

use std::fmt;

use serde::{Deserialize, Serialize};

/// A role that a task passes through, in the order in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    Coder,
    Reviewer,
    Tester,
    Qa,
}

impl StageName {
    pub const ALL: [Self; 4] = [Self::Coder, Self::Reviewer, Self::Tester, Self::Qa];
    pub const WORDS: [&str; 4] = ["coder", "reviewer", "tester", "qa"];

    /// Its name in files, in the journal and in `status`.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// The stage of this name.
    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == word)
    }

    /// The stage that follows when this one is passed; `None`: the task is merged.
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| *stage > self)
    }

    pub fn role(self) -> &'static Role {
        &ROLES[self as usize]
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
