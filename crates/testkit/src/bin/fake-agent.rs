//! Placeholder until the agent is written.
fn main() {}
