//! Loops inside chat sessions, end to end: the test plays the host and runs the hooks with its JSON on their standard input.

mod bad_input;
mod control;
mod hooks;
mod spend;
mod support;
mod tools;
mod transcripts;
mod verify;
mod weakened_tests;
