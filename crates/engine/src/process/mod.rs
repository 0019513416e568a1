//! Processes: one keeper owns everything a loop starts, and nothing it starts outlives it.

pub mod background;
mod descriptors;
pub mod identity;
pub mod keeper;
pub mod leftovers;
mod link;
mod once;
pub(crate) mod proc;
mod program;
pub(crate) mod sweep;
mod wire;

pub use descriptors::keep_to_this_process;
pub use link::KeeperLink;
pub use once::{Answered, Ran, run_once};
pub(crate) use once::{ask_in, ask_once, run_expecting, run_in};
pub(crate) use program::find_program;
pub use program::{ProgramError, Programs};
pub(crate) use wire::KeeperReport;
pub use wire::{KeptCommand, KeptEnd};
