//! `dacapo workflow run`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::Args;
use dacapo_core::{
    agent::AgentCommand,
    chat::Conversation,
    config::{Effective, SettingSource, Sourced},
    ids::RunId,
    judge::promise::PromiseRule,
    policy::{Origin, Policy},
    trust::workflow_runnables,
    workflow::{
        DEFAULT_PROVIDER, ParseSettings, Step, StepId, StepKind, Workflow, WorkflowBudget,
        catalogue::FrozenWorkflow,
        dry_run::{self, Stubs},
        machine::{Raise, WorkflowSettings, WorkflowStarted},
    },
};
use dacapo_engine::{
    client::Client,
    config_files::ConfigFiles,
    performer::{self, NewWorkflow, ResumeWorkflow},
    process::{Programs, background::is_background},
    repository::Repository,
    supervisor::{self, StartError},
    trust::ConsentScope,
    units,
};

use super::{
    super::{
        agents::{self, AgentFlags},
        consent, detach,
        flags::{ChosenSettings, LoopFlags, refuse_idle_patterns},
        resume::ResumeArgs,
        say, say_json, warn,
    },
    DirFlag, no_workflow,
};
use crate::{
    context::Context,
    error::UserError,
    report::{Mode, ending_of_workflow, last_line_of_workflow, workflow_reporter},
};

/// How many steps with worktrees run beside each other.
const PARALLEL: u32 = 4;

/// Run a workflow
///
/// Its steps are taken in their order, each agent and each check by a loop of its own. Ctrl-C stops it, and `dacapo resume`
/// goes on with what it was started with, without running a step again that is complete. A run that asks a person exits
/// with 4, and `dacapo approve` or `dacapo reject` lets it go on. A run that waits for a time, a file or a signal waits here; with
/// `--detach` no process waits, and `dacapo resume` goes on when the wait is over, or `dacapo signal`.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  dacapo workflow run ralph\n  dacapo workflow run fix-issue \"issue 12\" --agent codex --max-cost 5\n  dacapo workflow run ship --dry-run --stubs stubs.yaml"
)]
pub(in crate::cli) struct WorkflowRunArgs {
    /// The workflow, by its name as `dacapo workflow list` shows it
    name: String,
    /// What the workflow gets as `$USER_MESSAGE` and `$ARGUMENTS`
    #[arg(conflicts_with = "said")]
    message: Option<String>,
    /// The same for `dacapo serve`: words from a chat are never taken for a flag
    #[arg(long, hide = true, value_name = "TEXT", allow_hyphen_values = true)]
    said: Option<String>,
    /// The conversation that is told what becomes of the run
    #[arg(long, hide = true, value_name = "ADAPTER:ID")]
    conversation: Option<Conversation>,
    /// The id that the run gets
    #[arg(long, hide = true, value_name = "ID")]
    run_id: Option<RunId>,
    /// Show what agents say while they say it, or after each iteration
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::Stream)]
    mode: Mode,
    /// Walk through the workflow with stub answers, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// The answers of steps in a dry run (default: made up)
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    stubs: Option<PathBuf>,
    /// Leave out keys that dacapo does not know, and list them, instead of refusing them
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    pub(super) place: DirFlag,
    #[command(flatten)]
    pub(super) flags: LoopFlags,
}

impl WorkflowRunArgs {
    /// The workflow of this name, if it can be run.
    pub(super) fn found(&self) -> Result<FrozenWorkflow, UserError> {
        let catalogue = self.place.catalogue(ParseSettings { lenient: self.lenient })?;
        if let Some(found) = catalogue.find(&self.name) {
            return Ok(found.clone());
        }
        let files = catalogue.broken_files(&self.name);
        if files.is_empty() {
            return Err(no_workflow(&catalogue, &self.name));
        }
        let about = catalogue.problems.iter().filter(|problem| files.contains(&problem.file.as_str()));
        let text: Vec<String> = about.map(ToString::to_string).collect();
        Err(UserError::usage(format!("workflow `{}` has problems:\n{}", self.name, text.join("\n"))))
    }
}

pub(super) fn run(cx: &Context, args: &WorkflowRunArgs) -> Result<u8, UserError> {
    let found = args.found()?;
    let left_out = found.left_out.iter();
    warn(
        &left_out.map(|left| format!("`{}` is left out (line {})", left.key, left.line)).collect::<Vec<_>>(),
    );
    if args.dry_run {
        return walk(args, found);
    }
    let root = units::top(&Context::folder(args.place.dir.as_ref())?);
    if let Some(step) = found.workflow.steps.iter().find(|step| step.worktree) {
        can_have_worktree(cx, &root, step)?;
    }
    let configured = ConfigFiles::load(&root)?;
    let mut workflow = found.workflow.clone();
    let ChosenSettings { policy, mut programs, effective, obstacle, mut warnings, .. } =
        base(&args.flags, &configured, &workflow)?;
    let (agents, other) = step_agents(&args.flags, &effective, &workflow, &mut programs)?;
    let needs_agent = workflow.steps.iter().any(|step| step.kind.has_agent());
    if let Some(obstacle) = obstacle.or(other).filter(|_| needs_agent) {
        return Err(obstacle);
    }
    let named = workflow.steps.iter().filter(|step| step.kind.has_agent());
    for step in named {
        let agent = agents.get(&step.id).unwrap_or(&policy.agent.command);
        programs.find(agents::program(agent)).map_err(StartError::from)?;
    }
    let runnables = if found.is_builtin { Vec::new() } else { workflow_runnables(&workflow) };
    let scoped = (ConsentScope::Workflows, &runnables[..]);
    consent::require_all(&cx.home, &configured, &root, scoped, args.flags.trust)?;
    refuse_idle_patterns(&root, &policy, &configured)?;
    let policy = as_one_budget(policy, &mut workflow);
    let used = workflow.steps.iter().filter(|step| step.kind.has_agent());
    let mut used = used.map(|step| agents.get(&step.id).unwrap_or(&policy.agent.command));
    let silent = used.find(|agent| !agents::reports_usage(agent));
    let is_limited =
        workflow.budget.is_some_and(|budget| budget.max_cost.is_some() || budget.max_tokens.is_some());
    if let Some(agent) = silent.filter(|_| is_limited) {
        warnings.push(format!(
            "the `budget` of {} cannot be held: `{}` does not say what it used",
            workflow.name, agent.name
        ));
    }
    supervisor::refuse_secrets_in(&policy)?;
    if !is_background() {
        warn(&warnings);
        if args.flags.detach {
            return detach::detach_run(&cx.client()?, None);
        }
    }
    let settings = WorkflowSettings {
        project: Context::project_of(&root),
        root,
        policy,
        agents,
        origin: if found.is_builtin { Origin::User } else { Origin::Repository },
        is_trusted_once: args.flags.trust,
        filters: None,
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let started = started(args, FrozenWorkflow { workflow, ..found }, Some(Box::new(settings)));
    let mut observer = workflow_reporter(&args.flags.style, args.mode, None);
    let new = NewWorkflow { started, id: args.run_id.clone(), programs, is_detached: is_background() };
    let left = performer::run(&cx.home, new, observer.as_mut())?;
    drop(observer);
    if args.flags.style.is_human() {
        ending_of_workflow(&mut cx.client()?, &left.view)?;
    }
    Ok(last_line_of_workflow(&left))
}

/// Whether a step can have a worktree of its own.
fn can_have_worktree(cx: &Context, root: &Path, step: &Step) -> Result<(), UserError> {
    let refused = |why: &str| {
        UserError::usage(format!("step `{}` wants a worktree, {why}", step.id))
            .hint("leave `worktree: true` out: the step then takes turns with the others")
    };
    if matches!(&step.kind, StepKind::Loop(looped) if looped.is_interactive()) {
        return Err(refused("and a person is asked about the workspace after each of its iterations"));
    }
    let repository = Repository::open(root, &cx.home).map_err(|error| refused(&format!("and {error}")))?;
    match repository.resolve("HEAD").map_err(UserError::failed)? {
        Some(_) => Ok(()),
        None => Err(refused("and this repository has no commit yet")),
    }
}

/// Makes sure that the commands of a run that goes on may run. An answer needs no new consent if the user agreed to this run.
fn require_consent(
    cx: &Context,
    started: &WorkflowStarted,
    is_trusted: bool,
    is_answer: bool,
) -> Result<(), UserError> {
    let Some(settings) = started.settings.as_ref().filter(|settings| settings.origin == Origin::Repository)
    else {
        return Ok(());
    };
    let runnables = workflow_runnables(&started.workflow);
    let is_trusted = is_trusted || (is_answer && settings.is_trusted_once);
    consent::require_files(&cx.home, &settings.root, (ConsentScope::Workflows, &runnables), is_trusted)
}

/// Makes sure that an answer does not run what the user has not agreed to, or not any more.
pub(in crate::cli) fn require_consent_to_answer(
    cx: &Context,
    client: &Client,
    id: &RunId,
) -> Result<(), UserError> {
    match client.workflow_started(id)? {
        Some(started) => require_consent(cx, &started, false, true),
        None => Ok(()),
    }
}

/// Goes on with a run that no process performs.
pub(in crate::cli) fn resume(
    cx: &Context,
    client: &Client,
    id: &RunId,
    flags: &ResumeArgs,
) -> Result<u8, UserError> {
    let started = client.workflow_started(id)?;
    let started = started.ok_or_else(|| UserError::usage(format!("there is no run {id}")))?;
    require_consent(cx, &started, flags.trust, flags.is_answer)?;
    if flags.detach && !is_background() {
        return detach::detach_run(client, flags.id.is_none().then_some(id.as_str()));
    }
    let grant = flags.grant();
    let raise = Raise {
        max_cost: grant.max_cost,
        max_tokens: grant.max_tokens,
        max_time_ms: grant.max_time_ms.map(|time| time.0),
    };
    let wanted = ResumeWorkflow {
        id: id.clone(),
        resumed: (!flags.is_answer).then_some(raise),
        is_detached: is_background(),
    };
    let mut observer = workflow_reporter(&flags.style, Mode::Stream, Some(&started));
    let left = performer::resume(&cx.home, wanted, observer.as_mut())?;
    drop(observer);
    if flags.style.is_human() {
        ending_of_workflow(&mut cx.client()?, &left.view)?;
    }
    Ok(last_line_of_workflow(&left))
}

fn started(
    args: &WorkflowRunArgs,
    found: FrozenWorkflow,
    settings: Option<Box<WorkflowSettings>>,
) -> WorkflowStarted {
    WorkflowStarted {
        run: "dry-run".to_owned(),
        workflow: found.workflow,
        digest: found.digest,
        files: found.files,
        left_out: found.left_out,
        message: args.said.clone().or_else(|| args.message.clone()).unwrap_or_default(),
        conversation: args.conversation.clone(),
        parallel: PARALLEL,
        settings,
    }
}

/// What flags and configuration say to every loop. A workflow in which no agent works needs none.
pub(super) fn base(
    flags: &LoopFlags,
    configured: &ConfigFiles,
    workflow: &Workflow,
) -> Result<ChosenSettings, UserError> {
    let promise = PromiseRule::new("DONE").map_err(UserError::usage)?;
    let mut flags = flags.clone();
    let mut agents = workflow.steps.iter().filter(|step| step.kind.has_agent());
    let named = agents.clone().find_map(|step| step.provider.clone().or_else(|| workflow.provider.clone()));
    if agents.next().is_none() && flags.agent.is_none() && flags.agent_cmd.is_none() {
        flags.agent_cmd = Some("true".to_owned());
    }
    let from = SettingSource::File { file: workflow.file.clone(), line: 1 };
    let value = named.unwrap_or_else(|| DEFAULT_PROVIDER.to_owned());
    // An agent that was typed is started or missing; no other takes its place.
    let stand_in = flags.agent.is_none().then_some(Sourced { value, from });
    flags.base(configured, None, promise, stand_in)
}

/// The agents that steps ask for. What was typed outranks them.
pub(super) fn step_agents(
    flags: &LoopFlags,
    effective: &Effective,
    workflow: &Workflow,
    programs: &mut Programs,
) -> Result<(BTreeMap<StepId, AgentCommand>, Option<UserError>), UserError> {
    let (mut found, mut obstacle) = (BTreeMap::new(), None);
    if flags.agent.is_some() || flags.agent_cmd.is_some() {
        return Ok((found, obstacle));
    }
    for step in workflow.steps.iter().filter(|step| step.kind.has_agent()) {
        let provider = step.provider.as_ref().or(workflow.provider.as_ref());
        let model = flags.model.as_ref().or(step.model.as_ref()).or(workflow.model.as_ref());
        if provider.is_none() && model.is_none() {
            continue;
        }
        let mut asked = effective.clone();
        if let Some(provider) = provider {
            asked.agent.value = Some(provider.clone());
            asked.agent.from = SettingSource::File { file: workflow.file.clone(), line: step.line };
        }
        let chosen = agents::choose(&asked, AgentFlags { model, ..flags.wanted() }, programs)?;
        obstacle = obstacle.or(chosen.obstacle);
        found.insert(step.id.clone(), chosen.command);
    }
    Ok((found, obstacle))
}

/// What the user allows is for the run as a whole: all its loops draw on it.
pub(super) fn as_one_budget(mut policy: Policy, workflow: &mut Workflow) -> Policy {
    let limits = &mut policy.limits;
    let (max_cost, max_tokens) = (limits.max_cost.take(), limits.max_tokens.take());
    let max_time = limits.max_time.take();
    if max_cost.is_some() || max_tokens.is_some() || max_time.is_some() {
        let budget = workflow.budget.get_or_insert_with(WorkflowBudget::default);
        budget.max_cost = max_cost.or(budget.max_cost);
        budget.max_tokens = max_tokens.or(budget.max_tokens);
        budget.max_time = max_time.or(budget.max_time);
    }
    policy
}

fn walk(args: &WorkflowRunArgs, found: FrozenWorkflow) -> Result<u8, UserError> {
    let stubs = match &args.stubs {
        None => Stubs::default(),
        Some(file) => {
            let name = file.display().to_string();
            let bytes = std::fs::read(file)
                .map_err(|error| UserError::usage(format!("cannot read the stubs `{name}`: {error}")))?;
            dry_run::read_stubs(&found.workflow, &name, &bytes).map_err(|problems| {
                let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
                UserError::usage(format!("the stubs have problems:\n{}", text.join("\n")))
            })?
        }
    };
    let walked = dry_run::walk(started(args, found, None), &stubs);
    if args.flags.style.json {
        say_json(&walked)?;
        return Ok(walked.end.exit_code);
    }
    for line in &walked.lines {
        say(format!("{} ({}): {}", line.step, line.kind, line.what));
        for text in line.text.lines() {
            say(format!("    {text}"));
        }
    }
    let how = serde_json::to_value(walked.end.end).unwrap_or_default();
    say(format!("The walk ends {}: {}", how.as_str().unwrap_or_default(), walked.end.detail));
    Ok(walked.end.exit_code)
}
