//! The server: the page, the API, and messages in and out. tokio and axum live here and nowhere else.
//!
//! It reads streams, leaves requests and starts runs by [`dacapo_engine::client::Client`], as every command does. It holds
//! no state of its own that a restart would lose.

mod auth;
mod error;
mod guard;
mod login;
pub mod messages;
pub mod pages;
mod patience;
mod port;
mod routes;
mod server;
mod state;
mod tls;

pub use error::{ApiError, ServeError};
pub use routes::{Access, Route, Verb, table};
pub use server::Server;
pub use state::{Parts, Settings, Shared, State};
