//! Done is a verdict: who lies is refused, who works is believed, and the proof survives crashes. Real processes.

mod audit;
mod bad_gates;
mod cheats;
mod commands;
mod crash;
mod edited_journals;
mod evidence;
mod goalposts;
mod honest;
mod keys_in_files;
mod processes;
mod signed_receipts;
mod states;
mod support;
