//! What a running loop shows: a live view in a terminal, plain lines in a pipe, the journal as JSON.

mod at_work;
mod ending;
mod event_lines;
mod human;
mod jsonl;
pub(crate) mod morning;
mod out;
pub(crate) mod screen;
mod tasks;
pub(crate) mod terminal;
mod units;
mod workflows;

use dacapo_engine::process::background::is_background;
use std::io::{IsTerminal, Write};

use clap::Args;
use dacapo_core::{
    loop_machine::LoopMachine,
    unit::schedule::RunMachine,
    view::{after_run, is_stopped},
};
use dacapo_engine::{
    observer::Observer, scheduler::RunFinished, store::JournalMachine, supervisor::Finished,
};

use screen::Screen;

pub(crate) use ending::{
    ending, ending_of_tasks, ending_of_units, ending_of_workflow, last_line_of_view, last_words,
};
#[cfg(test)]
pub(crate) use event_lines::tests::view_after;
pub(crate) use event_lines::{
    clock, event_line, money, run_event_line, signal_name, task_event_line, workflow_event_line,
};
pub(crate) use tasks::{last_line_of_tasks, task_live_view, task_reporter};
pub(crate) use terminal::width;
pub(crate) use workflows::{
    Mode, last_line_of_workflow, said_line, with_run, workflow_live_view, workflow_reporter,
};

/// An observer that shows what it is told on a screen.
pub(crate) trait LiveView<M: JournalMachine = LoopMachine>: Observer<M> {
    fn screen(&mut self) -> &mut Screen;

    /// Shows what agents print from now on, or no longer; says whether it does.
    fn toggle_log(&mut self) -> bool;
}

/// How much is shown, and how.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Style {
    /// Print the journal as JSON lines
    #[arg(long, conflicts_with_all = ["quiet", "verbose"])]
    pub(crate) json: bool,
    /// Print only how it ends
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print what the agent prints, too
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

impl Style {
    /// Whether a person is told what happens, in words.
    pub(crate) fn is_human(&self) -> bool {
        !self.json && !self.quiet && !is_background()
    }
}

/// The observer that shows a loop in the style that the user asked for.
pub(crate) fn reporter(style: &Style) -> Box<dyn Observer> {
    in_style(style, || Box::new(human::Human::new(is_live(), style.verbose)))
}

/// The observer that the style asks for; `human` makes the one for people.
fn in_style<M: JournalMachine>(
    style: &Style,
    human: impl FnOnce() -> Box<dyn Observer<M>>,
) -> Box<dyn Observer<M>>
where
    jsonl::FirstWord: Observer<M>,
{
    if is_background() {
        Box::new(jsonl::FirstWord::default())
    } else if style.json {
        Box::new(jsonl::JsonLines::new())
    } else if style.quiet {
        Box::new(dacapo_engine::observer::NoObserver)
    } else {
        human()
    }
}

/// Whether lines can be drawn over.
fn is_live() -> bool {
    out::Out::is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The view of a loop that `dacapo attach` shows.
pub(crate) fn loop_view(is_verbose: bool) -> Box<dyn LiveView> {
    Box::new(human::Human::new(is_live(), is_verbose))
}

/// The view of a run of units that `dacapo attach` shows.
pub(crate) fn run_view(is_verbose: bool) -> Box<dyn LiveView<RunMachine>> {
    Box::new(units::HumanRun::new(is_live(), is_verbose))
}

/// The observer that shows a run of units in the style that the user asked for.
pub(crate) fn run_reporter(style: &Style) -> Box<dyn Observer<RunMachine>> {
    in_style(style, || Box::new(units::HumanRun::new(is_live(), style.verbose)))
}

/// Whether a person who was told in plain words how it ended sees both of the standard streams, and need not be told again.
fn is_seen(is_told: bool) -> bool {
    is_told && std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}

/// Prints how a run ended, with its warnings, and gives the exit code; with the next step, unless the end has been told in plain
/// words, which name it. A person who sees those is told the warnings alone.
pub(crate) fn last_line_of_run(finished: &RunFinished, is_told: bool) -> u8 {
    let RunFinished { id, over, warnings } = finished;
    let mut stderr = std::io::stderr().lock();
    for warning in warnings {
        let _ = writeln!(stderr, "WARNING: {warning}");
    }
    if is_seen(is_told) {
        return over.exit_code;
    }
    // The end of the run has said it.
    if over.exit_code != 0 && !is_told {
        let _ = writeln!(stderr, "hint: {}", after_run(id, &over.reason, &over.detail, &[]));
    }
    let state = match over.reason.as_str() {
        _ if over.exit_code == 0 => "completed".to_owned(),
        reason if is_stopped(reason) => format!("stopped ({reason})"),
        reason => format!("failed ({reason})"),
    };
    let _ = writeln!(stderr, "dacapo: {state}: {} [run {id}]", over.detail);
    over.exit_code
}

/// The reason, as the last line on standard error; gives the exit code. A person who was told in plain words how it ended is
/// not told a second time.
pub(crate) fn last_line(finished: &Finished, is_told: bool) -> u8 {
    let Finished { id, reason, detail, is_unverified } = finished;
    let proof = if *is_unverified { ", unverified: no gate stood behind it" } else { "" };
    if !is_seen(is_told) {
        last_words(&format!(
            "{} ({}): {detail}{proof} [loop {id}]",
            reason.state().as_str(),
            reason.as_str()
        ));
    }
    reason.exit_code()
}
