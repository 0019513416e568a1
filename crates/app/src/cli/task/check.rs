//! `dacapo task check`.

use clap::Args;
use dacapo_core::{
    agent::catalog::Transport,
    config::{Effective, EffectiveStage, Typed},
    problem::Problem,
    stages::{Stage, StageTaskSpec, prompt::equal_for_task},
    text::{count, nearest::nearest},
    yaml::short,
};
use dacapo_engine::{config_files::ConfigFiles, process::Programs};
use serde_json::json;

use super::{
    super::{say, say_json},
    RepositoryTasks, TasksPlace,
};
use crate::error::{USAGE, UserError};

/// Say everything that is wrong with task files and stages
///
/// Each problem has its place, the line, and what to do about it. The exit code is 2 if there is any; an agent of a stage that
/// you do not have, and a key that is nearly one that dacapo knows, are only noted.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  dacapo task check\n  dacapo task check --json")]
pub(super) struct TaskCheckArgs {
    #[command(flatten)]
    place: TasksPlace,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn check(args: &TaskCheckArgs) -> Result<u8, UserError> {
    let mut found = RepositoryTasks::at(&args.place)?.found;
    let configured = match ConfigFiles::load(&args.place.root()?) {
        Ok(configured) => configured,
        // A script that reads JSON gets JSON, whatever is wrong.
        Err(error) if args.json => {
            say_json(&json!({
                "tasks": found.tasks.len(),
                "problems": found.problems,
                "configuration": error.to_string(),
                "stages": null,
                "notes": found.notes.iter().map(Problem::line).collect::<Vec<_>>(),
            }))?;
            return Ok(USAGE);
        }
        Err(error) => return Err(error.into()),
    };
    let effective = configured.effective(&Typed::default());
    let of_stages = effective.stages.problem();
    if of_stages.is_none() {
        let stages: Vec<Stage> = effective.stages.stages.iter().map(|known| known.stage.clone()).collect();
        found.problems.extend(found.tasks.iter().filter_map(|task| equal_promises(&stages, &task.spec)));
    }
    let notes: Vec<String> =
        found.notes.iter().map(Problem::line).chain(missing_agents(&effective)).collect();
    let number = found.problems.len() + usize::from(of_stages.is_some());
    if args.json {
        say_json(&json!({
            "tasks": found.tasks.len(),
            "problems": found.problems,
            "configuration": null,
            "stages": of_stages,
            "notes": notes,
        }))?;
        return Ok(if number == 0 { 0 } else { USAGE });
    }
    for note in &notes {
        say(format!("note: {note}"));
    }
    let words = |n: usize, thing: &str| count(u32::try_from(n).unwrap_or(u32::MAX), thing);
    if number == 0 {
        say(format!("{}: no problems", words(found.tasks.len(), "task")));
        return Ok(0);
    }
    let problems = found.problems.iter().map(ToString::to_string);
    let text: Vec<String> = problems.chain(of_stages.map(|what| format!("configuration: {what}"))).collect();
    say(text.join("\n"));
    Err(UserError::usage(format!("{} in tasks and stages", words(number, "problem"))))
}

/// Two stages of a task with one promise, of which the task gives one.
fn equal_promises(stages: &[Stage], spec: &StageTaskSpec) -> Option<Problem> {
    let (first, second) = equal_for_task(stages, spec)?;
    let what = format!("the stages `{first}` and `{second}` have the same promise");
    Some(Problem::of_file(&spec.file, what, "give one of them another promise in `completion.stages`"))
}

/// Agents of stages that this user does not have, or that are not installed here. Others who work on the repository may have
/// them.
fn missing_agents(effective: &Effective) -> Vec<String> {
    let names = effective.agent_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut programs = Programs::default();
    let note = |known: &EffectiveStage| {
        let agent = known.stage.agent.as_deref()?;
        let (stage, from, shown) = (known.stage.name, &known.agent_from, short(agent));
        if !names.contains(&agent) {
            let meant =
                nearest(agent, &names).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            return Some(format!(
                "there is no agent `{shown}`, which the {stage} is to have ({from}){meant}"
            ));
        }
        let definition = effective.agent_definition(agent).ok()?;
        let program = definition.program_of(Transport::Stdio)?;
        programs.find(&program).err()?;
        let install = definition.install_for(Transport::Stdio);
        let how = if install.is_empty() { String::new() } else { format!("; `{install}` installs it") };
        Some(format!("the agent `{shown}`, which the {stage} is to have ({from}), is not installed{how}"))
    };
    effective.stages.stages.iter().filter_map(note).collect()
}
