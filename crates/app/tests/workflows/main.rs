//! Workflows through the real binary: the commands that look at them, and runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agents;
mod answers;
mod archon;
mod control;
mod explaining;
mod files;
mod guarding;
mod hiding;
mod importing;
mod leftovers;
mod looking_back;
mod ralph;
mod running;
mod support;
mod waiting;
mod worktrees;
