//! Tasks through the real binary: the commands that look at them, add them and run them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod consent;
mod controlling;
mod costs;
mod explaining;
mod files;
mod guarding;
mod killing;
mod looking_back;
mod running;
mod standing;
mod support;
mod verifying;
