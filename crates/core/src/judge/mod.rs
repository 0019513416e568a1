//! Facts → signals → claim → verdict: every judgement about what an agent did, as a pure function.

pub mod approval;
pub mod claim;
pub mod contradiction;
pub mod evidence;
pub mod expectation;
pub mod gate_scripts;
pub mod glob;
pub mod own_lines;
pub mod progress;
pub mod promise;
pub mod signal;
pub mod tamper;
pub mod unknown_target;
