//! Git, called in one place: never asks, never runs what a repository or an agent planted, never waits for ever.
//!
//! [`Git`] runs one command, hardened. A checkout says which repository a folder belongs to and whether a loop can work
//! there. Snapshots of a workspace ([`crate::snapshots`]) and the repository of units ([`crate::repository`]) stand on it.

mod checkout;
mod error;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod links;
mod listed_config;
mod locks;
pub(crate) mod on_disk;
mod runner;
mod untrusted_config;

pub use error::{RepositoryProblem, WorkspaceError};
pub use locks::RepositoryLock;
pub use runner::{Git, GitError};

/// Whether the repository of a folder holds work that its newest commit does not; `false` outside of repositories.
pub fn is_dirty(dir: &std::path::Path) -> bool {
    let look = || -> Result<bool, WorkspaceError> {
        let Some(checkout) = Checkout::find(&Git::find()?, dir)? else { return Ok(false) };
        let status = checkout.call().args(["status", "--porcelain", "--ignore-submodules=all"]).run()?;
        Ok(!status.stdout.is_empty())
    };
    look().unwrap_or(false)
}

/// Makes `dir` a repository whose first commit has all of its files.
pub fn init(dir: &std::path::Path, message: &str) -> Result<(), GitError> {
    let git = Git::find()?;
    git.call(dir).args(["init", "-q", "--template="]).ok()?;
    git.call(dir).args(["add", "-A"]).ok()?;
    let commit = git.call(dir).config("user.name=dacapo").config("user.email=dacapo@localhost");
    commit.config("commit.gpgsign=false").args(["commit", "-q", "-m", message]).ok()?;
    Ok(())
}

pub(crate) use checkout::Checkout;
pub(crate) use files::{escaped, replace};
pub(crate) use links::LinksAtStart;
pub(crate) use listed_config::{ListedConfig, without_scopes};
pub(crate) use locks::{RunLock, RunLockHeld, remove_left_locks, remove_stale_lock};
pub(crate) use runner::{DISK_FULL, GitCall, GitOutput, failed_call, run_bounded, split_nul};
pub(crate) use untrusted_config::UntrustedConfig;
