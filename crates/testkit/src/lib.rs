//! What dacapo's tests are made with: a scriptable agent, a hermetic environment, the detector's corpus.
//!
//! ```no_run
//! # let exe = "dacapo"; // tests pass env!("CARGO_BIN_EXE_dacapo")
//! let env = dacapo_testkit::TestEnv::new(exe);
//! env.run_agent("@1: say working; @2: promise", ["--max-iterations", "5"]).assert_code(0);
//! assert_eq!(env.ledger().len(), 4); // two starts, two ends
//! assert!(env.survivors().is_empty());
//! ```

pub mod browser;
mod chat_service;
pub mod corpus;
mod env;
mod fake_agent;
pub mod model_server;
pub mod noise;
mod real_agent;
pub mod recordings;
mod redact;
mod running;
pub mod script;
pub mod stories;
mod terminal;
mod variants;

pub use rustix::process::Signal;

pub use crate::{
    chat_service::{ChatFailure, ChatKind, ChatServer, SentToChat},
    env::{LedgerEvent, LedgerLine, TestEnv, wait_until},
    fake_agent::{acp_agent, fake_agent, measured_dacapo, unit_agent, zero_agent},
    real_agent::{NotInstalled, PreparedAgent, RealAgent},
    running::{Output, Running},
    terminal::{Terminal, live_part},
    variants::{names_of_variants, samples_of_every_variant, values_of_every_variant},
};
