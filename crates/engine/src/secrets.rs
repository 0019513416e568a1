//! What this process must not write: looked up once, in its environment, which does not change.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dacapo_core::secrets::Secrets;

use crate::inside::child;

/// The secrets of this process. Every writer asks here.
pub fn secrets() -> &'static Arc<Secrets> {
    static SECRETS: OnceLock<Arc<Secrets>> = OnceLock::new();
    SECRETS.get_or_init(|| Arc::new(Secrets::of_environment(std::env::vars_os().chain(child::environment()))))
}

/// Names of variables that no command started by this process gets: an agent must not find the token of a chat service.
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From now on, no command that this process starts in the background has these variables in its environment.
pub fn keep_from_commands(names: impl IntoIterator<Item = String>) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
}

pub(crate) fn kept_from_commands() -> Vec<String> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
