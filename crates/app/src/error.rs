//! What went wrong, for people: one line, one hint, one exit code.

use std::{
    fmt::Display,
    io::{IsTerminal, Write},
    path::Path,
};

use dacapo_core::{problem::Problem, text::columns::wrapped};
use dacapo_engine::{
    bus::BusError,
    client::ClientError,
    config_files::ConfigError,
    git::WorkspaceError,
    home::HomeError,
    inside::InsideError,
    process::ProgramError,
    reset::ResetError,
    scheduler::RunError,
    secrets::secrets,
    snapshots::SnapshotError,
    store::StoreError,
    supervisor::{StartError, SuperviseError},
    trust::TrustError,
    units::UnitsError,
};

/// Exit codes that no loop's end gives.
pub(crate) const USAGE: u8 = 2;
pub(crate) const FAILED: u8 = 1;
pub(crate) const LIMIT: u8 = 3;
pub(crate) const NEEDS_PERSON: u8 = 4;
pub(crate) const ENVIRONMENT: u8 = 5;

/// An error as a user meets it.
#[derive(Debug)]
pub(crate) struct UserError {
    /// What stands before everything else: places in a file.
    pub(crate) details: Option<String>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) exit: u8,
}

impl UserError {
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { details: None, message: message.to_string(), hint: None, exit: USAGE }
    }
    pub(crate) fn failed(message: impl Display) -> Self {
        Self { details: None, message: message.to_string(), hint: None, exit: FAILED }
    }
    pub(crate) fn environment(message: impl Display) -> Self {
        Self { details: None, message: message.to_string(), hint: None, exit: ENVIRONMENT }
    }
    pub(crate) fn needs_person(message: impl Display) -> Self {
        Self { details: None, message: message.to_string(), hint: None, exit: NEEDS_PERSON }
    }
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it, and below it what to try next.
    pub(crate) fn print(&self) {
        if let Some(details) = &self.details {
            let _ = writeln!(std::io::stderr().lock(), "{}", secrets().redact(details));
        }
        complain(&format!("dacapo: {}", self.message));
        if let Some(hint) = &self.hint {
            complain(&format!("hint: {hint}"));
        }
    }
}

impl From<HomeError> for UserError {
    fn from(error: HomeError) -> Self {
        Self::environment(error).hint("set DACAPO_HOME to a folder you can write to")
    }
}

impl From<StoreError> for UserError {
    fn from(error: StoreError) -> Self {
        let hint = error.hint();
        Self { hint, ..Self::environment(error) }
    }
}

impl From<WorkspaceError> for UserError {
    fn from(error: WorkspaceError) -> Self {
        let hint = error.hint();
        Self { hint, ..Self::environment(error) }
    }
}

impl From<SnapshotError> for UserError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Store(error) => error.into(),
            SnapshotError::Workspace(error) => error.into(),
            SnapshotError::Held { ref holder, .. } => {
                let hint = format!("wait for its end, or `dacapo cancel {holder}`");
                Self::environment(error).hint(hint)
            }
            SnapshotError::Busy(_) => Self::environment(error).hint("`dacapo status` shows who runs it"),
            SnapshotError::NoIteration { ref id, .. } => {
                let hint = format!("`dacapo snapshots {id}` lists what there is");
                Self::usage(error).hint(hint)
            }
            SnapshotError::Plain(_) | SnapshotError::None(_) => {
                Self::failed(error).hint("`git init` makes a folder a repository, before the loop begins")
            }
            SnapshotError::NoUndo(_) | SnapshotError::Gone(_) => Self::failed(error),
        }
    }
}

impl From<InsideError> for UserError {
    fn from(error: InsideError) -> Self {
        match error {
            InsideError::Refused(refusal) => {
                let (hint, exit) = (refusal.hint, refusal.exit);
                Self { details: None, message: refusal.why, hint, exit }
            }
            InsideError::NoSocket(_) => Self::environment(error).hint(
                "leave the DACAPO_* variables of an agent as they are; outside of loops there are none",
            ),
            InsideError::NobodyThere { .. } => Self::environment(error).hint(
                "if this runs in no loop any more, unset DACAPO_SOCKET and the other DACAPO_* variables",
            ),
            InsideError::NoAnswer(_) => Self::environment(error),
        }
    }
}

impl From<ClientError> for UserError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Home(error) => error.into(),
            ClientError::Store(error) => error.into(),
            ClientError::Inside(error) => error.into(),
            ClientError::Start(error) => error.into(),
            ClientError::Snapshot(error) => error.into(),
            ClientError::Output { .. } | ClientError::Watch(_) | ClientError::Background(_) => {
                Self::environment(error)
            }
        }
    }
}

impl From<BusError> for UserError {
    fn from(error: BusError) -> Self {
        Self::environment(error)
    }
}

impl From<TrustError> for UserError {
    fn from(error: TrustError) -> Self {
        Self::environment(error)
    }
}

impl From<UnitsError> for UserError {
    fn from(error: UnitsError) -> Self {
        match error {
            UnitsError::Refused { .. } => {
                Self::usage(error).hint("`units.dir` in .dacapo/config.yaml says where units lie")
            }
            UnitsError::Io { .. } | UnitsError::Write { .. } => Self::environment(error),
        }
    }
}

impl UserError {
    /// A mistake in a file, shown with its line.
    pub(crate) fn mistake(problem: &Problem) -> Self {
        let message = format!("a mistake in `{}`; nothing was started", problem.file);
        Self { details: Some(problem.to_string()), ..Self::usage(message) }
    }
}

impl From<ConfigError> for UserError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Problems(problems) => {
                let many = match problems.list.len() {
                    1 => "a mistake".to_owned(),
                    n => format!("{n} mistakes"),
                };
                let message = format!("{many} in `{}`; nothing was started", problems.file);
                Self { details: Some(problems.to_string()), ..Self::usage(message) }
            }
            ConfigError::OpenToAll { ref path } => {
                let hint = format!("`chmod o-w {}`", path.display());
                Self::usage(error).hint(hint)
            }
            ConfigError::Refused { .. } | ConfigError::Io { .. } => Self::usage(error),
            ConfigError::Write { .. } => Self::environment(error),
        }
    }
}

impl From<ProgramError> for UserError {
    fn from(error: ProgramError) -> Self {
        let hint = match &error {
            ProgramError::NotExecutable(_) => "`chmod +x FILE` makes a script of yours executable".to_owned(),
            ProgramError::NotFound(name) if Path::new(name).is_file() => {
                format!("`./{name}` is the file of that name in this folder")
            }
            ProgramError::NotFound(_) | ProgramError::NoSuchFile(_) => {
                "`dacapo doctor` lists the agents found; `--agent-cmd CMD` names any program".to_owned()
            }
        };
        Self::environment(error).hint(hint)
    }
}

impl From<StartError> for UserError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Home(error) => error.into(),
            StartError::Store(error) | StartError::Supervise(SuperviseError::Store(error)) => error.into(),
            StartError::Supervise(SuperviseError::Io { .. }) | StartError::Io { .. } => {
                Self::environment(error)
            }
            StartError::Program(error) => error.into(),
            StartError::Workspace(ref why) => {
                let hint = why.hint();
                Self { hint, ..Self::environment(error) }
            }
            StartError::TaskHeld { ref task, ref holder } => {
                let holder = holder.as_ref().map_or(task.as_str(), |id| id.as_str());
                let hint = format!("`dacapo cancel {holder}` ends it; another `--task` starts beside it");
                Self::environment(error).hint(hint)
            }
            StartError::WorkspaceHeld { .. } => Self::environment(error)
                .hint("a loop with gates needs its folder for itself; choose another with `--dir`"),
            StartError::TaskOfUser(_) => Self::usage(error).hint("give it another `--task`, or none"),
            StartError::NoPrompt(_) => Self::usage(error)
                .hint("`dacapo run \"what to do\"`, `-P FILE`, or a PROMPT.md in the folder"),
            StartError::Secret(_) => Self::usage(error).hint(
                "put it into an environment variable, which agents and commands inherit: gates write `$NAME`; \
                 the environment is not recorded",
            ),
            StartError::NotResumable { .. } => Self::failed(error).hint("a new `dacapo run` starts over"),
            StartError::ParentGone(_) => Self::environment(error),
            StartError::InSession(_) => {
                Self::usage(error).hint("it goes on when the agent of that session next stops")
            }
            StartError::ProtectsNothing(_) => Self::usage(error).hint(
                "patterns count from the top of the repository, `*` stays in one folder and `**` does not: `tests/**`; one that may \
                 match nothing yet begins with `?`: `?tests/**`",
            ),
            StartError::Policy(_)
            | StartError::Glob(_)
            | StartError::NoCommit(_)
            | StartError::BlankPrompt
            | StartError::Prompt(_)
            | StartError::Cycle(_)
            | StartError::TooDeep
            | StartError::Unknown(_) => Self::usage(error),
        }
    }
}

impl From<ResetError> for UserError {
    fn from(error: ResetError) -> Self {
        match error {
            ResetError::Unknown(_) => {
                Self::usage(error).hint("`dacapo status --units` shows those that something is kept of")
            }
            ResetError::Merged(_) => Self::failed(error)
                .hint("nothing is kept of it; to do it again, set the status of its tasks back and commit that"),
            ResetError::Run(RunError::Workspace(why @ WorkspaceError::NotClean { .. })) => Self::environment(why)
                .hint("look at it; `--force` commits it to the branch that is kept, and resets the unit all the same"),
            ResetError::Busy { ref loop_id, .. } => {
                let hint = format!("`dacapo cancel {loop_id}` ends it");
                Self::environment(error).hint(hint)
            }
            ResetError::Run(error) => error.into(),
        }
    }
}

impl From<RunError> for UserError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Home(error) => error.into(),
            RunError::Store(error) => error.into(),
            RunError::Workspace(error) => error.into(),
            RunError::Start(error) => error.into(),
            RunError::Held { .. } => Self::environment(error)
                .hint("`dacapo status` shows it; one run at a time works on a repository's units, in all of its worktrees"),
            RunError::Performed { ref id } => {
                let hint = format!("`dacapo events {id} -f` follows it");
                Self::environment(error).hint(hint)
            }
            RunError::Io { .. } => Self::environment(error),
        }
    }
}

/// Writes to standard error; in a terminal, long lines are broken between words.
pub(crate) fn complain(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let text = secrets().redact(text);
    if !stderr.is_terminal() {
        let _ = writeln!(stderr, "{text}");
        return;
    }
    for line in text.lines().flat_map(|line| wrapped(line, width_of_errors())) {
        let _ = writeln!(stderr, "{line}");
    }
}

fn width_of_errors() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// A panic is ours, never the user's.
pub(crate) fn report_bug(what: &str) {
    let mut stderr = std::io::stderr().lock();
    let what = secrets().redact(what);
    let _ = writeln!(stderr, "{what}\ndacapo: this is a bug in dacapo; no recorded work is lost");
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
