//! `dacapo unit`: one file per command below it.

mod check;
mod list;
mod prompt;
mod run;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use dacapo_core::{
    config::Typed,
    text::nearest::nearest,
    unit::{Unit, check::CheckedUnits},
};
use dacapo_engine::{config_files::ConfigFiles, units};

use super::warn;
use crate::{context::Context, error::UserError};

/// Work with units: folders of task files that depend on each other
///
/// A unit is a folder in specs/tasks (`units.dir` in .dacapo/config.yaml) with an IMPLEMENTATION_PLAN.md and task files
/// called `01-name.md`. A task file begins with `task`, `status`, `backpressure` and `depends_on` between two lines of
/// `---`; the backpressure is the command that proves the task.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo unit check\n  dacapo unit run --parallel 4\n  dacapo unit list --json\n  dacapo unit prompt app-shell"
)]
pub(super) struct UnitArgs {
    #[command(subcommand)]
    command: UnitCommand,
}

#[derive(Subcommand, Debug)]
enum UnitCommand {
    List(list::UnitListArgs),
    Check(check::UnitCheckArgs),
    Prompt(prompt::PromptArgs),
    Run(Box<run::UnitRunArgs>),
}

impl UnitArgs {
    /// What an agent may not do: see [`super::Command::decides`].
    pub(super) fn decides(&self) -> Option<&'static str> {
        match &self.command {
            UnitCommand::Run(_) => Some("run units"),
            UnitCommand::List(_) | UnitCommand::Check(_) | UnitCommand::Prompt(_) => None,
        }
    }
}

pub(super) use run::{PreparedRun, UnitRunArgs, of_run, resume, root_of};

pub(super) fn unit(cx: &Context, args: &UnitArgs) -> Result<u8, UserError> {
    match &args.command {
        UnitCommand::List(args) => list::list(cx, args),
        UnitCommand::Check(args) => check::check(args),
        UnitCommand::Prompt(args) => prompt::prompt(args),
        UnitCommand::Run(args) => run::run(cx, args),
    }
}

/// The repository and the folder of units that a command works on.
#[derive(Args, Debug)]
struct UnitsPlace {
    /// The repository (default: the one that this folder lies in)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The units of a repository.
pub(super) struct RepositoryUnits {
    /// The folder they lie in, from the top of the repository.
    pub(super) dir: String,
    pub(super) checked: CheckedUnits,
}

impl RepositoryUnits {
    fn at(place: &UnitsPlace) -> Result<Self, UserError> {
        Self::containing(&Context::folder(place.dir.as_ref())?)
    }

    /// The units of the repository that `folder` lies in, by the configuration at the top of that repository. A
    /// folder in between with a configuration of its own is no other repository. Reading units starts no process, not
    /// even git.
    pub(super) fn containing(folder: &Path) -> Result<Self, UserError> {
        let top = units::top(folder);
        let effective = ConfigFiles::load(&top)?.effective(&Typed::default());
        let dir = effective.units.dir.value.clone();
        let mut checked = units::discover(&top, &dir)?;
        // No problem: who has such an agent, or names one, can work with it.
        let known = effective.agent_names();
        let unknown = checked.units.iter().filter_map(|unit| unit.unknown_provider(&known));
        checked.notes.extend(unknown.map(|problem| problem.line()).collect::<Vec<_>>());
        Ok(Self { dir, checked })
    }

    /// The unit with this name.
    fn unit(&self, name: &str) -> Result<&Unit, UserError> {
        if let Some(unit) = self.checked.units.iter().find(|unit| unit.id.as_str() == name) {
            return Ok(unit);
        }
        let known: Vec<&str> = self.checked.units.iter().map(|unit| unit.id.as_str()).collect();
        let hint = match nearest(name, &known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if !self.checked.problems.is_empty() => {
                "not all task files can be read; `dacapo unit check` says why".to_owned()
            }
            None => "`dacapo unit list` shows the units there are".to_owned(),
        };
        let (name, dir) = (dacapo_core::yaml::short(name), &self.dir);
        Err(UserError::usage(format!("no unit in `{dir}` is called `{name}`")).hint(hint))
    }

    /// Says that there is more than is shown.
    fn warn(&self) {
        if !self.checked.problems.is_empty() {
            let number = self.checked.problems.len();
            warn(&[format!("problems in task files: {number}; `dacapo unit check` shows them")]);
        }
    }
}
