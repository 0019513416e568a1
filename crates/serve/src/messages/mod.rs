//! Messages in and out: only under `dacapo serve`.

use crate::{routes::Route, state::Shared};

/// The routes by which messages come in.
pub fn routes() -> Vec<Route> {
    Vec::new()
}

/// What listens and sends beside the routes, for as long as the server runs.
pub async fn run(_state: Shared) {}
