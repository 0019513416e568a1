//! The command end to end: real processes, a scripted agent, no network (req 205). One binary, one file per topic.

mod acp;
mod attach;
mod bad_input;
mod blocked;
mod bus;
mod causes;
mod children;
mod claims;
mod control;
mod endings;
mod environment;
mod gates;
mod ids;
mod inside;
mod journals;
mod mcp;
mod notifying;
mod output;
mod owners;
mod screens;
mod secrets;
mod stopping;
mod support;
mod surroundings;
mod tui;
