//! What an agent's provider allows, and what it costs.

pub mod reset;
