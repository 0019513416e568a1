//! What dacapo does: processes, files, the journal. It never prints: an observer is told.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "dacapo runs on Linux: what contains an agent is not to be had elsewhere. On Windows build it in WSL2."
);

pub mod agents;
pub mod board;
pub mod bus;
mod checkouts;
pub mod cleanup;
pub mod client;
pub mod config_files;
pub mod git;
pub mod goalposts;
pub mod guard;
pub mod health;
pub mod home;
pub mod hook_files;
pub mod http;
pub mod import;
pub mod inside;
mod items;
pub mod keys;
pub mod log;
mod must_fail;
pub mod notify;
pub mod observer;
mod own_command;
pub mod performer;
pub mod process;
pub mod proof;
pub mod repository;
pub mod reset;
mod safe_open;
pub mod scheduler;
pub mod scratch;
pub mod secrets;
pub mod session;
mod signals;
pub mod snapshots;
pub mod stage_performer;
pub mod stage_tasks;
pub mod starter;
pub mod store;
pub mod supervisor;
pub mod task_files;
pub mod trust;
mod unit_items;
pub mod units;
pub mod watch;
pub mod workflows;
