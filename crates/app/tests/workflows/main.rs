//! Workflows through the real binary: the commands that look at them, and runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
mod running;
