//! `dacapo workflow which`: the workflow that a message asks for, chosen by the agent. `dacapo serve` asks it.

use clap::Args;
use dacapo_core::{
    chat::{KnownWorkflow, chosen, route_prompt},
    judge::promise::PromiseRule,
    workflow::ParseSettings,
};
use dacapo_engine::{agents, config_files::ConfigFiles, units};

use super::{super::say, DirFlag};
use crate::{context::Context, error::UserError};

/// Print the name of the workflow that a message asks for, or `-`
#[derive(Args, Debug, Clone)]
pub(super) struct WhichArgs {
    /// The message that a workflow is chosen for
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    said: String,
    #[command(flatten)]
    place: DirFlag,
    #[command(flatten)]
    flags: super::super::flags::LoopFlags,
}

pub(super) fn which(cx: &Context, args: &WhichArgs) -> Result<u8, UserError> {
    let catalogue = args.place.catalogue(ParseSettings { lenient: false })?;
    let known = catalogue.workflows.into_iter().map(|found| found.workflow);
    let known: Vec<KnownWorkflow> = known
        .map(|workflow| KnownWorkflow { name: workflow.name, description: workflow.description })
        .collect();
    let root = units::top(&Context::folder(args.place.dir.as_ref())?);
    let configured = ConfigFiles::load(&root)?;
    let promise = PromiseRule::new("DONE").map_err(UserError::usage)?;
    let settings = args.flags.base(&configured, None, promise, None)?;
    if let Some(obstacle) = settings.obstacle {
        return Err(obstacle);
    }
    cx.home.prepare()?;
    let (agent, mut programs) = (&settings.policy.agent.command, settings.programs);
    let rule = settings.effective.environment.value;
    let asked = agents::ask(&cx.home, agent, &mut programs, rule, &route_prompt(&args.said, &known))
        .map_err(UserError::environment)?;
    if asked.answered.exit_code != 0 {
        let why = asked.answered.failure.unwrap_or_else(|| format!("exited {}", asked.answered.exit_code));
        return Err(UserError::failed(format!("the agent `{}` could not be asked: it {why}", agent.name)));
    }
    let answer = agents::answer(agent.format, &asked.answered.stdout);
    say(chosen(&answer, &known).unwrap_or_else(|| "-".to_owned()));
    Ok(0)
}
