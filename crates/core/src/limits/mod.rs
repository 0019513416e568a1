//! What an agent's provider allows, and what it costs.

pub mod backoff;
pub mod failure;
pub mod price;
pub mod reset;

pub use backoff::{GIVE_UP_AFTER, backoff};
pub use failure::{FailureClass, limit_class};
pub use price::{Price, Prices};
pub use reset::{PROBE_EVERY, reset_at};
