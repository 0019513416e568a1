//! dacapo, the command.

mod cli;
mod context;
mod error;
mod not_begun;
mod report;
mod tui;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: a keeper is started for every loop and must cost nothing.
    let word = std::env::args_os().nth(1);
    if word.as_ref().is_some_and(|word| word == dacapo_engine::process::keeper::KEEPER) {
        return dacapo_engine::process::keeper::main();
    }
    // A keeper inherits from one of these, so nothing is left to it.
    dacapo_engine::process::keep_to_this_process();
    set_panic_hook();
    if word.as_ref().is_some_and(|word| word == dacapo_engine::notify::NOTIFY) {
        return dacapo_engine::notify::main();
    }
    dacapo_engine::notify::enable();
    if word.as_ref().is_some_and(|word| word == dacapo_engine::scheduler::JOB) {
        return dacapo_engine::scheduler::job_main();
    }
    if word.is_some_and(|word| word == dacapo_engine::inside::child::CHILD) {
        return cli::child_main();
    }
    cli::main()
}

/// A panic ends the process with the terminal as it was, and says that it is our fault.
fn set_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        tui::terminal::give_back();
        report::terminal::restore();
        error::report_bug(&panic.to_string());
        std::process::exit(if cli::is_hook() { 0 } else { 70 });
    }));
}
