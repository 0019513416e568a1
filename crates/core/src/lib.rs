//! What dacapo decides: pure functions over facts.
//!
//! Nothing in here reads a clock, a file, an environment variable or a process; `clippy.toml` beside the
//! manifest enforces it. Start with [`loop_machine`].

pub mod agent;
pub mod attestation;
pub mod bus;
pub mod chain;
#[cfg(test)]
mod chance_tests;
pub mod chat;
pub mod config;
pub mod duration;
pub mod event;
pub mod file_system;
pub mod goalposts;
pub mod hook_files;
pub mod ids;
pub mod import;
pub mod item;
pub mod judge;
pub mod limits;
pub mod loop_machine;
pub mod machine;
pub mod mcp;
pub mod notify;
pub mod plan;
pub mod policy;
#[cfg(test)]
mod preset_tests;
pub mod problem;
pub mod prompt;
pub mod receipt;
pub mod sandbox;
pub mod secrets;
pub mod session;
pub mod stages;
pub mod text;
pub mod trust;
pub mod unit;
pub mod view;
pub mod workflow;
pub mod yaml;
