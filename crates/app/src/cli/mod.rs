//! The command line: one file per command, its doc comment is its help.

mod agents;
mod approve;
mod asking;
mod attach;
mod budget;
mod bus;
mod clean;
mod completions;
mod consent;
mod control;
mod demo;
mod detach;
mod diff;
mod doctor;
mod events;
mod explain;
mod flags;
mod from_agent;
mod hook;
mod import;
mod init;
mod logs;
mod man_pages;
mod mcp;
mod notify;
mod receipt;
#[cfg(test)]
mod reference_tests;
mod report;
mod resume;
mod run;
mod serve;
mod session;
mod signal;
mod snapshots;
mod status;
mod task;
mod trust;
mod tui;
mod unit;
mod value;
mod verify;
mod web;
mod why;
mod workflow;

use dacapo_engine::{
    client::deciding,
    inside::{self, Unseen, child},
    process::background::leave_terminal,
    secrets::secrets,
};
use std::{
    ffi::OsString,
    io::{IsTerminal, Write},
    process::ExitCode,
};

use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use dacapo_core::text::{ansi::readable, columns::wrapped};

use crate::{
    context::Context,
    error::{UserError, complain},
};

/// Runs coding agents in a loop until the work is proven done
///
/// Start it in the evening, read the result in the morning: every claim of the agent is checked, nothing it starts
/// outlives it, and a loop that was cut off can be resumed.
#[derive(Parser, Debug)]
#[command(
    name = "dacapo",
    version,
    max_term_width = 100,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Examples:\n  dacapo demo\n  dacapo init\n  dacapo run \"make the tests pass\" --gate \"cargo test\"\n  dacapo status\n\nExit codes: 0 complete, 1 failed, 2 usage, 3 a limit, 4 needs a person, 5 environment, 70 our bug, 130 interrupted, 143 terminated"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// Only the arguments of the command that was typed are put together: all of them take longer than opening the journal, and
// more memory than a loop needs.
#[derive(Subcommand, Debug)]
#[command(defer = true)]
enum Command {
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Import(import::ImportArgs),
    Run(Box<run::RunArgs>),
    Unit(unit::UnitArgs),
    Workflow(workflow::WorkflowArgs),
    Task(task::TaskArgs),
    Session(session::SessionArgs),
    Hook(hook::HookArgs),
    #[command(visible_aliases = ["ps", "ls", "list", "ralph-status"])]
    Status(status::StatusArgs),
    Report(report::ReportArgs),
    Tui(tui::TuiArgs),
    #[command(visible_alias = "watch")]
    Attach(attach::AttachArgs),
    Web(web::WebArgs),
    Serve(Box<serve::ServeArgs>),
    Logs(logs::LogsArgs),
    Events(events::EventsArgs),
    Why(why::WhyArgs),
    Explain(explain::ExplainArgs),
    #[command(visible_aliases = ["stop", "kill", "ralph-cancel"])]
    Cancel(control::CancelArgs),
    Pause(control::PauseArgs),
    Resume(resume::ResumeArgs),
    Steer(control::SteerArgs),
    Approve(approve::ApproveArgs),
    Reject(approve::RejectArgs),
    Signal(signal::SignalArgs),
    Bus(bus::BusArgs),
    Claim(from_agent::ClaimArgs),
    Wait(from_agent::WaitArgs),
    Ask(from_agent::AskArgs),
    Mcp(mcp::McpArgs),
    Receipt(receipt::ReceiptArgs),
    Verify(verify::VerifyArgs),
    Snapshots(snapshots::SnapshotsArgs),
    Restore(snapshots::RestoreArgs),
    Diff(diff::DiffArgs),
    Trust(trust::TrustArgs),
    Notify(notify::NotifyArgs),
    Doctor(doctor::DoctorArgs),
    Clean(clean::CleanArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    ManPages(man_pages::ManPagesArgs),
}

impl Command {
    /// What this command would decide, if it decides something: an agent may not.
    fn decides(&self) -> Option<&'static str> {
        match self {
            Self::Pause(_) => Some("pause loops"),
            Self::Resume(_) => Some("resume loops"),
            Self::Steer(_) => Some("steer loops"),
            Self::Verify(_) => Some("run gates again"),
            Self::Snapshots(_) | Self::Diff(_) => Some("look at snapshots"),
            Self::Restore(_) => Some("restore files"),
            Self::Trust(args) if !args.is_look() => Some("agree to what a repository runs"),
            Self::Clean(_) => Some("clean up"),
            Self::Notify(_) => Some("send notifications"),
            Self::Unit(args) => args.decides(),
            Self::Workflow(args) => args.decides(),
            Self::Task(args) => args.decides(),
            Self::Hook(args) => args.decides(),
            Self::Approve(_) | Self::Reject(_) => Some("answer for the user"),
            Self::Signal(_) => Some("send signals to runs"),
            Self::Web(_) | Self::Serve(_) => Some("open a server"),
            Self::Trust(_)
            | Self::Demo(_)
            | Self::Init(_)
            | Self::Import(_)
            | Self::Run(_)
            | Self::Session(_)
            | Self::Status(_)
            | Self::Report(_)
            | Self::Tui(_)
            | Self::Attach(_)
            | Self::Logs(_)
            | Self::Events(_)
            | Self::Why(_)
            | Self::Explain(_)
            | Self::Cancel(_)
            | Self::Bus(_)
            | Self::Claim(_)
            | Self::Wait(_)
            | Self::Ask(_)
            | Self::Mcp(_)
            | Self::Receipt(_)
            | Self::Doctor(_)
            | Self::Completions(_)
            | Self::ManPages(_) => None,
        }
    }
}

/// Whether a host's hook is this process: then it exits 0 whatever happens.
pub(crate) fn is_hook() -> bool {
    hook::is_of_host(&std::env::args_os().take(3).collect::<Vec<_>>())
}

/// Runs the command that was typed.
pub(crate) fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // Before anything else: the host may be about to end.
    if hook::must_outlive_host(&args) {
        dacapo_engine::session::outlive_host();
    }
    leave_terminal();
    obey(args)
}

/// Runs the child loop that a supervisor was asked for by its agent.
pub(crate) fn child_main() -> ExitCode {
    match child::take_order() {
        Ok(args) => obey(std::iter::once("dacapo".into()).chain(args).collect()),
        Err(error) => {
            UserError::usage(format!("only a supervisor starts this: {error}")).print();
            ExitCode::from(crate::error::USAGE)
        }
    }
}

fn obey(mut args: Vec<OsString>) -> ExitCode {
    if args.get(1).is_some_and(|word| word == "tail") {
        args.splice(1..2, ["logs".into(), "--follow".into()]);
    }
    let is_of_host = hook::is_of_host(&args);
    let mut command = Cli::command();
    if args.get(1).is_none_or(|word| command.find_subcommand(word).is_none()) {
        // The help lists what each command does.
        command.build();
    }
    let parsed = command.try_get_matches_from(args).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((matches, cli))
    });
    let (matches, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if is_of_host => {
            let _ = write!(std::io::stderr().lock(), "{}", secrets().redact(&error.render().to_string()));
            return ExitCode::SUCCESS;
        }
        Err(mut error) => refuse(&mut error),
    };
    match dispatch(&cli.command, &matches) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            error.print();
            if is_of_host { ExitCode::SUCCESS } else { ExitCode::from(error.exit) }
        }
    }
}

/// Commands that change files, or end something for good: a word that was mistyped is never taken for one of them.
const NEVER_SUGGESTED: [&str; 13] = [
    "restore",
    "clean",
    "init",
    "import",
    "cancel",
    "stop",
    "kill",
    "ralph-cancel",
    "reset",
    "run",
    "approve",
    "trust",
    "add",
];

/// Says what is wrong with what was typed, which it quotes.
fn refuse(error: &mut clap::Error) -> ! {
    if let Some(suggested) = error.remove(ContextKind::SuggestedSubcommand) {
        let words = match suggested {
            ContextValue::String(word) => vec![word],
            ContextValue::Strings(words) => words,
            _ => Vec::new(),
        };
        // The nearest comes last.
        if let Some(word) = words.last().filter(|word| !NEVER_SUGGESTED.contains(&word.as_str())) {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![word.clone()]));
        } else {
            let tip = ContextValue::StyledStrs(vec!["`--help` lists the commands".into()]);
            error.insert(ContextKind::Suggested, tip);
        }
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && !word.starts_with('-')
        && error.get(ContextKind::Suggested).is_none()
    {
        let tip = "words that belong together go in quotes, like \"make the tests pass\"";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let text = error.render().to_string();
    if !secrets().is_in(&text) {
        error.exit();
    }
    let _ = write!(std::io::stderr().lock(), "{}", secrets().redact(&text));
    std::process::exit(error.exit_code())
}

fn dispatch(command: &Command, matches: &ArgMatches) -> Result<u8, UserError> {
    // None of them needs a place for state.
    match command {
        Command::Completions(args) => return completions::completions(args, &mut Cli::command()),
        Command::ManPages(args) => return man_pages::man_pages(args, Cli::command()),
        Command::Demo(args) => return demo::demo(args),
        _ => {}
    }
    let cx = Context::new()?;
    // What an agent asks its supervisor for is a loop: nothing else may run outside the agent's containment.
    if child::parent().is_some() && (cx.inside.is_some() || !matches!(command, Command::Run(_))) {
        return Err(deciding("start anything but a child loop").into());
    }
    if let Some(what) = command.decides().filter(|_| cx.inside.is_some()) {
        return Err(deciding(what).into());
    }
    let what = command.decides().or(matches!(command, Command::Cancel(_)).then_some("cancel loops"));
    if let Some(what) = what.filter(|_| cx.inside.is_none())
        && let Some(why) = inside::unseen(&cx.home)?
    {
        return Err(may_be_an_agent(what, &why));
    }
    match command {
        Command::Completions(_) | Command::ManPages(_) | Command::Demo(_) => Ok(0),
        Command::Init(args) => init::init(&cx, args),
        Command::Import(args) => import::import(args),
        Command::Run(args) => run::run(&cx, args),
        Command::Unit(args) => unit::unit(&cx, args),
        Command::Workflow(args) => workflow::workflow(&cx, args),
        Command::Task(args) => task::task(&cx, args),
        Command::Session(args) => session::session(&cx, args),
        Command::Hook(args) => hook::hook(&cx, args),
        Command::Status(args) => status::status(&cx, args),
        Command::Report(args) => report::report(&cx, args),
        Command::Tui(args) => tui::tui(&cx, args),
        Command::Attach(args) => attach::attach(&cx, args),
        Command::Web(args) => web::web(&cx, args),
        Command::Serve(args) => serve::serve(&cx, args, matches),
        Command::Logs(args) => logs::logs(&cx, args),
        Command::Events(args) => events::events(&cx, args),
        Command::Why(args) => why::why(&cx, args),
        Command::Explain(args) => explain::explain(&cx, args, matches),
        Command::Cancel(args) => control::cancel(&cx, args),
        Command::Pause(args) => control::pause(&cx, args),
        Command::Resume(args) => resume::resume(&cx, args),
        Command::Steer(args) => control::steer(&cx, args),
        Command::Approve(args) => approve::approve(&cx, args),
        Command::Reject(args) => approve::reject(&cx, args),
        Command::Signal(args) => signal::signal(&cx, args),
        Command::Bus(args) => bus::bus(&cx, args),
        Command::Claim(args) => from_agent::claim(&cx, args),
        Command::Wait(args) => from_agent::wait(&cx, args),
        Command::Ask(args) => from_agent::ask(&cx, args),
        Command::Mcp(args) => mcp::mcp(&cx, args),
        Command::Receipt(args) => receipt::receipt(&cx, args),
        Command::Verify(args) => verify::verify(&cx, args),
        Command::Snapshots(args) => snapshots::list(&cx, args),
        Command::Restore(args) => snapshots::restore(&cx, args),
        Command::Diff(args) => diff::diff(&cx, args),
        Command::Trust(args) => trust::trust(&cx, args),
        Command::Notify(args) => notify::notify(&cx, args),
        Command::Doctor(args) => doctor::doctor(&cx, args),
        Command::Clean(args) => clean::clean(&cx, args),
    }
}

/// The refusal of a decision where it cannot be told that the user makes it.
fn may_be_an_agent(what: &str, why: &Unseen) -> UserError {
    let why = match why {
        Unseen::Ancestor => "`/proc` does not show the processes above this one".to_owned(),
        Unseen::Owner(id) => format!("the process that runs {id} is in another PID namespace"),
    };
    UserError::environment(format!("cannot {what} from here: {why}, so this may be an agent"))
        .hint("call dacapo where that process runs, outside of the container or of `unshare`")
}

/// Prints words for a person to standard output, without what an agent's words could do to a terminal. A terminal gets long lines
/// broken between words.
pub(crate) fn say(text: impl std::fmt::Display) {
    let text = clean(text);
    if !std::io::stdout().is_terminal() {
        return say_styled(&text);
    }
    let width = crate::report::width();
    let lines: Vec<String> = text.split('\n').flat_map(|line| wrapped(line, width)).collect();
    say_styled(&lines.join("\n"));
}

/// Prints what is copied or read by programs: the same as [`say`], but every line stays whole.
pub(crate) fn say_whole(text: impl std::fmt::Display) {
    say_styled(&clean(text));
}

fn clean(text: impl std::fmt::Display) -> String {
    readable(secrets().redact(&text.to_string()).as_bytes())
}

/// Prints text that holds nothing but what may go to a terminal: its colours are dacapo's own.
pub(crate) fn say_styled(text: &str) {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Ok(()) => {}
        // The reader of the pipe has closed it: it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            UserError::environment(format!("cannot write to standard output: {error}")).print();
            std::process::exit(i32::from(crate::error::ENVIRONMENT));
        }
    }
}

/// Warns about settings that do not do what the user may expect.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        complain(&format!("WARNING: {warning}"));
    }
}

/// Prints a value as JSON.
pub(crate) fn say_json(value: &impl serde::Serialize) -> Result<u8, UserError> {
    let text = serde_json::to_string(value).map_err(UserError::failed)?;
    say_whole(text);
    Ok(0)
}
