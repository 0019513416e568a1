//! Processes: one keeper owns everything a loop starts, and nothing it starts outlives it.

pub mod background;
mod descriptors;
pub mod identity;
pub mod keeper;
pub mod leftovers;
mod link;
mod once;
mod program;
pub(crate) mod sweep;
mod wire;

pub use descriptors::keep_to_this_process;
pub use link::KeeperLink;
pub use once::{Answered, Ran, ask_once, run_expecting, run_once};
pub(crate) use program::find_program;
pub use program::{ProgramError, Programs};
pub use wire::{KeptCommand, KeptEnd, Report};
