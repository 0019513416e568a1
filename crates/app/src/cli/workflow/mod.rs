//! `dacapo workflow`: one file per command below it.

mod check;
mod list;
mod planned;
mod run;
mod schema;
mod which;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use dacapo_core::{
    config::Typed,
    text::nearest::nearest,
    workflow::{ParseSettings, catalogue::Catalogue},
};
use dacapo_engine::{config_files::ConfigFiles, units, workflows};

use crate::{context::Context, error::UserError};

/// Run and look at workflows: YAML files that say which steps are taken, and when they count as done
///
/// A workflow is a file in .dacapo/workflows, .archon/workflows, .claude/workflows or .agents/workflows, or one that comes
/// with dacapo. It has `steps`, or a `loop` with a `prompt`; docs/guide/workflows.md explains both.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo workflow list\n  dacapo workflow run ralph\n  dacapo workflow check\n  dacapo workflow schema > workflow.schema.json"
)]
pub(super) struct WorkflowArgs {
    #[command(subcommand)]
    command: WorkflowCommand,
}

#[derive(Subcommand, Debug)]
enum WorkflowCommand {
    List(list::ListArgs),
    Check(check::CheckArgs),
    Run(Box<run::WorkflowRunArgs>),
    Schema(schema::SchemaArgs),
    #[command(hide = true)]
    Which(Box<which::WhichArgs>),
}

impl WorkflowArgs {
    /// What this command would decide, if it decides something.
    pub(super) fn decides(&self) -> Option<&'static str> {
        let decides = matches!(self.command, WorkflowCommand::Run(_) | WorkflowCommand::Which(_));
        decides.then_some("run workflows")
    }
}

pub(super) use planned::{PlannedStep, PlannedWorkflow};
pub(super) use run::{WorkflowRunArgs, require_consent_to_answer, resume};

pub(super) fn workflow(cx: &Context, args: &WorkflowArgs) -> Result<u8, UserError> {
    match &args.command {
        WorkflowCommand::List(args) => list::list(args),
        WorkflowCommand::Check(args) => check::check(args),
        WorkflowCommand::Run(args) => run::run(cx, args),
        WorkflowCommand::Schema(_) => schema::schema(),
        WorkflowCommand::Which(args) => which::which(cx, args),
    }
}

/// Where to look.
#[derive(Args, Debug, Clone)]
struct DirFlag {
    /// The repository (default: the one that this folder lies in)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl DirFlag {
    /// All workflows there. Reading them starts nothing, not even git.
    fn catalogue(&self, settings: ParseSettings) -> Result<Catalogue, UserError> {
        let top = units::top(&Context::folder(self.dir.as_ref())?);
        let effective = ConfigFiles::load(&top)?.effective(&Typed::default());
        Ok(workflows::discover(&top, effective.commands.value.as_deref(), settings)?)
    }
}

/// What to say of a name that no workflow has.
fn no_workflow(catalogue: &Catalogue, name: &str) -> UserError {
    let known: Vec<&str> = catalogue.workflows.iter().map(|found| found.workflow.name.as_str()).collect();
    let hint = match nearest(name, &known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`dacapo workflow list` shows the workflows there are".to_owned(),
    };
    UserError::usage(format!("no workflow is called `{}`", dacapo_core::yaml::short(name))).hint(hint)
}
