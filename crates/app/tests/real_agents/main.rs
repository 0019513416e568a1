//! Whole loops with the agents as their makers ship them, against a scripted model on 127.0.0.1.
//!
//! They are installed by `scripts/install-agents`; those that are ignored here need its `--more`.

mod acp;
mod blocked;
mod budgets;
mod installed_hooks;
mod kills;
mod limits;
mod mcp;
mod root;
mod sandbox;
mod session_hooks;
mod sessions;
mod sign_in;
mod stage;
mod tasks;
mod units;
mod work;
mod workflows;
