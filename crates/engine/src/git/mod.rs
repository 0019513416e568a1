//! Git, called in one place: never asks, never runs what a repository or an agent planted, never waits for ever.
//!
//! [`Git`] runs one command, hardened. A checkout says which repository a folder belongs to and whether a loop can work
//! there. Snapshots of a workspace ([`crate::snapshots`]) and the repository of units ([`crate::repository`]) stand on it.

mod checkout;
mod error;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod locks;
pub(crate) mod on_disk;
mod runner;
mod untrusted_config;

pub use error::{RepositoryProblem, WorkspaceError};
pub use locks::RepositoryLock;
pub use runner::{Git, GitError};

pub(crate) use checkout::Checkout;
pub(crate) use files::{escaped, replace};
pub(crate) use locks::{RunLock, RunLockHeld, remove_stale_lock};
pub(crate) use runner::{GitCall, GitOutput, failed_call, run_bounded, split_nul};
pub(crate) use untrusted_config::UntrustedConfig;
