//! The server of `dacapo web` and `dacapo serve`, with real processes and real connections.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agree;
mod api;
mod browser;
mod chat;
mod control;
mod live;
mod security;
mod starting;
mod support;
