//! Tasks through the real binary: the commands that look at them and add them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod consent;
mod explaining;
mod files;
mod standing;
