//! What this process must not write: looked up once, in its environment, which does not change.

use std::sync::{Arc, OnceLock};

use dacapo_core::secrets::Secrets;

use crate::inside::child;

/// The secrets of this process. Every writer asks here.
pub fn secrets() -> &'static Arc<Secrets> {
    static SECRETS: OnceLock<Arc<Secrets>> = OnceLock::new();
    SECRETS.get_or_init(|| Arc::new(Secrets::of_environment(std::env::vars_os().chain(child::environment()))))
}
