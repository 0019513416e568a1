//! Units through the real binary: folders of task files, and what becomes of them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod beside;
mod changed_tasks;
mod consent;
mod control;
mod crowd;
mod example;
mod files;
mod goalposts;
mod going_on;
mod hostile;
mod leftovers;
mod looking_back;
mod merging;
mod messages;
mod moving_target;
mod night;
mod own_refs;
mod pausing;
mod proof;
mod requirements;
mod shared;
mod starting;
mod turns;
mod world;

use dacapo_testkit::TestEnv;

/// Where units lie unless anybody says otherwise.
pub(crate) const DIR: &str = "specs/tasks";

/// A world with an empty repository.
pub(crate) fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env
}

/// Writes a plan with these lines in its head.
pub(crate) fn plan(env: &TestEnv, unit: &str, head: &str) {
    let text = if head.is_empty() { "# Plan\n".to_owned() } else { format!("---\n{head}\n---\n# Plan\n") };
    env.write(format!("{DIR}/{unit}/IMPLEMENTATION_PLAN.md"), text);
}

/// Writes a task whose head has these lines beside its number.
pub(crate) fn task(env: &TestEnv, unit: &str, number: u32, head: &str) {
    let text = format!("---\ntask: {number}\n{head}\n---\n\n# Task {number} of {unit}\n\nWords.\n");
    env.write(format!("{DIR}/{unit}/{number:02}-task.md"), text);
}
