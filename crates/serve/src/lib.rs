//! The server: the page, the API, and messages in and out. tokio and axum live here and nowhere else.
//!
//! It reads streams, leaves requests and starts runs by [`dacapo_engine::client::Client`], as every command does. It holds
//! no state of its own that a restart would lose.

mod api;
mod auth;
mod control;
mod error;
mod find;
mod guard;
mod live;
mod login;
pub mod messages;
mod metrics;
pub mod openapi;
pub mod pages;
mod patience;
mod port;
mod routes;
mod server;
mod state;
pub mod text;
mod tls;

pub use error::{ApiError, ServeError};
pub use find::FoundView;
pub use routes::{Access, Route, Verb, table};
pub use server::Server;
pub use state::{ServerParts, ServerSettings, ServerState, Shared};
