//! Workflows through the real binary: the commands that look at them and start nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
