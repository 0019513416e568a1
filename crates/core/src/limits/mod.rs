//! What an agent's provider allows, and what it costs.

pub mod failure;
pub mod reset;

pub use failure::{FailureClass, limit_class};
pub use reset::{PROBE_EVERY, reset_at};
