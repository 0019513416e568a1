//! The server of `dacapo web` and `dacapo serve`, with real processes and real connections.

mod api;
mod browser;
mod control;
mod live;
mod security;
mod starting;
mod support;
