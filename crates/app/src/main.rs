//! dacapo, the command.

mod cli;
mod context;
mod error;
mod report;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    // Before anything else: a keeper is started for every loop and must cost nothing.
    let mut args = std::env::args_os().skip(1);
    let word = args.next();
    if word.as_ref().is_some_and(|word| word == dacapo_engine::process::keeper::KEEPER) {
        return keep(args);
    }
    std::panic::set_hook(Box::new(|panic| {
        error::report_bug(&panic.to_string());
        std::process::exit(70);
    }));
    if word.is_some_and(|word| word == dacapo_engine::scheduler::JOB) {
        return dacapo_engine::scheduler::job_main();
    }
    cli::main()
}

/// `dacapo keeper LOOP DATABASE`, which only dacapo itself calls.
fn keep(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let loop_id = args.next().and_then(|id| id.to_str()?.parse().ok());
    let database = args.next().map(PathBuf::from);
    match (loop_id, database) {
        (Some(loop_id), Some(database)) => dacapo_engine::process::keeper::main(loop_id, database),
        _ => ExitCode::from(2),
    }
}
