//! `dacapo explain`.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Subcommand, parser::ValueSource};
use dacapo_core::{
    agent::AgentCommand,
    config::{Effective, SettingSource},
    goalposts::{GoalpostKind, SharedFile},
    ids::{ProjectId, TaskId},
    item::ItemSource,
    judge::promise::{LetterCase, Placement, PlainWord, PromiseRule},
    policy::{GateIn, Policy, SetupCommand, TestsMode, WaitRule},
    sandbox::{PathAccess, SandboxMode},
    text::{count, visible::visible},
    unit::graph,
};
use dacapo_engine::{
    config_files::ConfigFiles,
    goalposts, guard,
    process::Programs,
    trust::{self, ConsentScope, Trust},
};
use serde_json::{Map, Value, json};

use super::{
    flags::ChosenSettings,
    run::{self, RunArgs},
    say, say_json, say_whole,
    session::{ExplainSessionArgs, PlannedSession},
    task::{ExplainTaskArgs, PlannedTask},
    unit::{self, UnitRunArgs},
    workflow::{PlannedStep, PlannedWorkflow, WorkflowRunArgs},
};
use crate::{context::Context, error::UserError};

/// Show what a command would do, where each value comes from, and start nothing
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo explain run \"make the tests pass\" --agent claude --gate \"cargo test\" --json"
)]
pub(super) struct ExplainArgs {
    #[command(subcommand)]
    command: ExplainCommand,
}

#[derive(Subcommand, Debug)]
enum ExplainCommand {
    /// The loop that `dacapo run` with these arguments would start
    #[command(
        after_help = "Example:\n  dacapo explain run \"make the tests pass\" --agent claude --gate \"cargo test\""
    )]
    Run(Box<RunArgs>),
    /// The run that `dacapo unit run` with these arguments would start, and the loops in it
    #[command(after_help = "Example:\n  dacapo explain unit --parallel 2 --agent codex")]
    Unit(Box<UnitRunArgs>),
    /// The run that `dacapo workflow run` with these arguments would start, and its steps
    #[command(after_help = "Example:\n  dacapo explain workflow ralph --json")]
    Workflow(Box<WorkflowRunArgs>),
    /// The stages that a task would pass through: agents, limits, promises and checks
    Task(Box<ExplainTaskArgs>),
    /// The loop that `/ralph` in a chat session, or `dacapo session start`, would begin in this folder
    #[command(after_help = "Example:\n  dacapo explain session --max-iterations 25")]
    Session(Box<ExplainSessionArgs>),
}

/// The loop or run that would be started.
struct Subject {
    preset: &'static str,
    workspace: PathBuf,
    project: ProjectId,
    task: Option<TaskId>,
    policy: Policy,
    programs: Programs,
    effective: Effective,
    configured: ConfigFiles,
    agent_from: SettingSource,
    obstacle: Option<UserError>,
    warnings: Vec<String>,
    is_json: bool,
    is_trusted: bool,
    /// What only this preset has.
    extra: Map<String, Value>,
    /// The steps of a workflow.
    steps: Vec<PlannedStep>,
    /// The stages of a task.
    stages: Vec<Value>,
}

impl Subject {
    fn of_run(args: &RunArgs) -> Result<Self, UserError> {
        let run::PreparedLoop { new, effective, configured, agent_from, obstacle, warnings } = args.plan()?;
        let new = new.into_inner();
        Ok(Self {
            preset: "restart",
            workspace: new.workspace,
            project: new.project,
            task: new.task,
            policy: new.policy,
            programs: new.programs,
            effective,
            configured,
            agent_from,
            obstacle,
            warnings,
            is_json: args.flags.style.json,
            is_trusted: args.flags.trust,
            extra: Map::new(),
            steps: Vec::new(),
            stages: Vec::new(),
        })
    }

    fn of_units(cx: &Context, args: &UnitRunArgs) -> Result<Self, UserError> {
        let unit::PreparedRun { root, configured, base, units, settings, parallel, merge, target } =
            args.plan(cx)?;
        let commands =
            |steps: &[SetupCommand]| -> Vec<String> { steps.iter().map(|step| step.run.clone()).collect() };
        let checks: Vec<&str> = settings.baseline.iter().map(|check| check.run.as_str()).collect();
        let proofs: Vec<Value> = units
            .iter()
            .flat_map(|unit| unit.tasks.iter().map(|task| (&unit.id, &task.spec)))
            .map(|(unit, task)| json!(format!("{unit} #{}: {}", task.number, task.backpressure)))
            .collect();
        let extra = json!({
            "units": graph::levels(&units),
            "parallel": parallel,
            "target": target.unwrap_or_else(|| "the branch that is checked out".to_owned()),
            "merge": merge,
            "backpressure": proofs,
            "baseline_checks": checks,
            "worktree_setup": commands(&settings.setup),
            "worktree_teardown": commands(&settings.teardown),
            "providers": settings.providers.iter().map(|(unit, agent)| (unit.to_string(), json!(agent.name))).collect::<Map<_, _>>(),
        });
        let ChosenSettings { programs, effective, agent_from, obstacle, warnings, .. } = base;
        let source = settings.source(None);
        let policy = settings.policy.with(|p| {
            p.limits.max_iterations = settings.max_retries;
            p.source = Some(source);
            p.claims.done_file = false;
        });
        Ok(Self {
            preset: "units",
            project: Context::project_of(&root),
            workspace: root,
            task: None,
            policy,
            programs,
            effective,
            configured,
            agent_from,
            obstacle,
            warnings,
            is_json: args.flags().style.json,
            is_trusted: args.flags().trust,
            extra: extra.as_object().cloned().unwrap_or_default(),
            steps: Vec::new(),
            stages: Vec::new(),
        })
    }

    fn of_workflow(args: &WorkflowRunArgs) -> Result<Self, UserError> {
        let PlannedWorkflow { root, configured, chosen, found, steps, commands } = args.plan()?;
        let workflow = &found.workflow;
        let extra = json!({
            "workflow": workflow.name,
            "file": if found.is_builtin { "built in" } else { workflow.file.as_str() },
            "digest": found.digest,
            "budget": workflow.budget,
            "commands": commands,
            "left_out": found.left_out.iter().map(|left| left.key.as_str()).collect::<Vec<_>>(),
        });
        let ChosenSettings { policy, programs, effective, agent_from, obstacle, warnings } = chosen;
        Ok(Self {
            preset: "workflow",
            project: Context::project_of(&root),
            workspace: root,
            task: None,
            policy,
            programs,
            effective,
            configured,
            agent_from,
            obstacle,
            warnings,
            is_json: args.flags().style.json,
            is_trusted: args.flags().trust,
            extra: extra.as_object().cloned().unwrap_or_default(),
            steps,
            stages: Vec::new(),
        })
    }

    fn of_session(args: &ExplainSessionArgs) -> Result<Self, UserError> {
        let PlannedSession { host, workspace, configured, policy, warnings } = args.plan()?;
        let settings = &configured.effective.session;
        let extra = json!({
            "host": host.name(),
            "enabled": settings.enabled.value,
            "continuation_delay": settings.continuation_delay.value.to_string(),
        });
        let obstacle = (!settings.enabled.value)
            .then(|| UserError::usage("loops inside sessions are switched off here"));
        Ok(Self {
            preset: "session",
            project: Context::project_of(&workspace),
            workspace,
            task: None,
            policy,
            programs: Programs::default(),
            effective: configured.effective,
            configured: configured.files,
            agent_from: SettingSource::Flag("--agent"),
            obstacle,
            warnings,
            is_json: args.json,
            is_trusted: false,
            extra: extra.as_object().cloned().unwrap_or_default(),
            steps: Vec::new(),
            stages: Vec::new(),
        })
    }

    fn of_task(args: &ExplainTaskArgs, planned: PlannedTask) -> Result<Self, UserError> {
        let PlannedTask { planned, task, extra, stages } = planned;
        let ChosenSettings { policy, programs, effective, agent_from, obstacle, warnings } = planned.chosen;
        // What all stages have in common is shown once, as the coder has it.
        let policy = match planned.stages.first() {
            Some(first) => {
                let command = planned.agents.get(&first.stage.name).cloned();
                let policy = policy.with(|policy| {
                    policy.agent.command = command.unwrap_or_else(|| policy.agent.command.clone());
                });
                first.stage.policy(policy, first.max_iterations).map_err(UserError::usage)?
            }
            None => policy,
        };
        Ok(Self {
            preset: "task",
            project: Context::project_of(&planned.root),
            workspace: planned.root,
            task: Some(task.spec.id),
            policy,
            programs,
            effective,
            configured: planned.configured,
            agent_from,
            obstacle,
            warnings,
            is_json: args.given.flags.style.json,
            is_trusted: args.given.flags.trust,
            extra: extra.as_object().cloned().unwrap_or_default(),
            steps: Vec::new(),
            stages,
        })
    }
}

/// Which flag sets which part of the policy.
const SETTINGS: [(&str, &str); 10] = [
    ("allow_empty", "allow_empty"),
    ("commit", "commit"),
    ("promise", "completion_promise"),
    ("until", "until_cmd"),
    ("restart_delay", "restart_delay"),
    ("iteration_timeout", "iteration_timeout"),
    ("idle_timeout", "idle_timeout"),
    ("wait_timeout", "wait_timeout"),
    ("poll_interval", "poll_interval"),
    ("kill_grace", "kill_grace"),
];

/// What each stage of a task has of its own.
const OF_STAGES: [&str; 13] = [
    "agent",
    "allow_empty",
    "contradictions",
    "done_file",
    "evidence",
    "gates",
    "max_iterations",
    "own_claim",
    "promise",
    "prompt_form",
    "protect",
    "stage",
    "until",
];

pub(super) fn explain(cx: &Context, args: &ExplainArgs, matches: &ArgMatches) -> Result<u8, UserError> {
    let mut subject = match &args.command {
        ExplainCommand::Run(args) => Subject::of_run(args)?,
        ExplainCommand::Unit(args) => Subject::of_units(cx, args)?,
        ExplainCommand::Workflow(args) => Subject::of_workflow(args)?,
        ExplainCommand::Session(args) => Subject::of_session(args)?,
        ExplainCommand::Task(args) => {
            let planned = args.plan(cx)?;
            if let Some(prompt) = args.prompt(&planned) {
                say_whole(prompt.trim_end());
                return Ok(0);
            }
            Subject::of_task(args, planned)?
        }
    };
    if !subject.stages.is_empty() && subject.is_json {
        subject.extra.insert("stages".to_owned(), json!(subject.stages));
    }
    if !subject.steps.is_empty() && subject.is_json {
        subject.extra.insert("steps".to_owned(), json!(subject.steps));
    }
    let program = subject.policy.agent.command.argv.first().cloned().unwrap_or_default();
    let found = subject.programs.find(&program);
    let Subject { preset, effective, configured, agent_from, obstacle, warnings, .. } = &subject;
    let typed = matches.subcommand().and_then(|(_, explain)| explain.subcommand()).map(|(_, run)| run);
    let source = |setting: &str| {
        match setting {
            "max_iterations" if *preset == "units" => return effective.units.max_retries.from.to_string(),
            "max_iterations" => return effective.max_iterations.from.to_string(),
            "max_time" => return effective.max_time.from.to_string(),
            "max_cost" => return effective.budget.max_cost.from.to_string(),
            "max_tokens" => return effective.budget.max_tokens.from.to_string(),
            "agent" => return agent_from.to_string(),
            "gates" => {
                let mut from: Vec<String> =
                    effective.gates.iter().map(|gate| gate.from.to_string()).collect();
                from.dedup();
                return if from.is_empty() { "default".to_owned() } else { from.join(", ") };
            }
            _ => {}
        }
        let flag = SETTINGS.iter().find(|(name, _)| *name == setting).map_or(setting, |(_, flag)| *flag);
        // Not every setting has a flag, and clap takes a question about an unknown flag for a bug.
        let is_flag = typed.is_some_and(|typed| typed.ids().any(|id| id.as_str() == flag));
        if is_flag && typed.and_then(|typed| typed.value_source(flag)) == Some(ValueSource::CommandLine) {
            return format!("--{}", flag.replace('_', "-"));
        }
        if *preset == "session" && setting == "promise" {
            return effective.session.completion_promise.from.to_string();
        }
        configured_source(effective, setting).map_or_else(|| "default".to_owned(), ToString::to_string)
    };
    let argv_of = |agent: &AgentCommand, session| {
        agent.argv("<the prompt>", "<the prompt's file>", session).map_err(UserError::usage)
    };
    let argv = argv_of(&subject.policy.agent.command, None)?;
    let continued = match subject.policy.agent.continue_session {
        // The host of a session is not started by dacapo.
        true if *preset != "session" => Some(argv_of(&subject.policy.agent.command, Some("<the session>"))?),
        _ => None,
    };
    let fallback = subject
        .policy
        .agent
        .fallback
        .iter()
        .map(|agent| Ok(json!({ "name": agent.name, "argv": argv_of(agent, None)?, "env": agent.env })))
        .collect::<Result<Vec<Value>, UserError>>()?;
    let settings: Map<String, Value> = by_setting(&subject.policy)
        .map_err(UserError::failed)?
        .into_iter()
        .filter(|(name, _)| *preset != "task" || !OF_STAGES.contains(&name.as_str()))
        .map(|(name, value)| {
            let from = source(&name);
            (name, json!({ "value": value, "from": from }))
        })
        .collect();
    // Which model an agent uses by itself is known only once it runs.
    let price = subject.policy.agent.command.model.as_ref().map(|model| {
        let own = effective.prices.iter().find(|price| price.value.model == *model);
        let from = own.map_or_else(|| "built in".to_owned(), |price| price.from.to_string());
        json!({ "model": model, "price": subject.policy.agent.prices.price_of(model), "from": from })
    });
    let agent = match &found {
        Ok(path) => path.display().to_string(),
        Err(error) => error.to_string(),
    };
    let trust = trust(cx, configured)?;
    let gates: Vec<Value> = effective
        .gates
        .iter()
        .map(|gate| {
            json!({
                "name": gate.spec.name,
                "run": gate.spec.run,
                "timeout_ms": gate.spec.timeout,
                "origin": gate.spec.origin,
                "from": gate.from.to_string(),
            })
        })
        .collect();
    if subject.is_json {
        return say_json(&json!({
            "preset": subject.preset,
            "workspace": subject.workspace,
            "project": subject.project,
            "task": subject.task,
            "home": cx.home.path(),
            "argv": argv,
            "argv_continued": continued,
            "program": agent,
            "env": subject.policy.agent.command.env,
            "fallback": fallback,
            "price": price,
            "obstacle": obstacle.as_ref().map(|obstacle| &obstacle.message),
            "warnings": warnings,
            "policy": settings,
            "repository": configured.root.as_ref(),
            "trust": trust,
            "gates": gates,
            "sealed": sealed_json(&subject.workspace, &subject.policy),
            "guarded": guarded_json(cx, &subject),
            "run": subject.extra,
        }));
    }
    say(format!(
        "preset       {}\nworkspace    {}\nproject      {}",
        subject.preset,
        subject.workspace.display(),
        subject.project
    ));
    say(format!("state        {}", cx.home.path().display()));
    say(format!("program      {agent}"));
    say(format!("argv         {}", serde_json::to_string(&argv).unwrap_or_default()));
    if let Some(continued) = &continued {
        say(format!("then         {}", serde_json::to_string(continued).unwrap_or_default()));
    }
    for (name, value) in &subject.policy.agent.command.env {
        say(format!("env          {name}={value}"));
    }
    if let Some(price) = &price {
        let (model, from) = (price["model"].as_str(), price["from"].as_str());
        let (model, from) = (model.unwrap_or_default(), from.unwrap_or_default());
        match price["price"].as_object() {
            Some(parts) => {
                let parts: Vec<String> = parts.iter().map(|(kind, usd)| format!("{kind} {usd}")).collect();
                say(format!("price        {model}: {} USD per million tokens, {from}", parts.join(", ")));
            }
            None => say(format!("price        {model}: unknown")),
        }
    }
    for agent in &fallback {
        say(format!("fallback     {}", agent["argv"]));
    }
    say(format!(
        "prompt by    {}\n",
        serde_json::to_value(subject.policy.agent.command.prompt)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    ));
    for (name, value) in &subject.extra {
        say(format!("{name:<18} {}", show(name, value)));
    }
    for step in &subject.steps {
        tell_step(step);
    }
    for stage in &subject.stages {
        tell_stage(stage);
    }
    for (name, setting) in &settings {
        if name == "agent" {
            say(format!("{name:<18} {:<60} {agent_from}", subject.policy.agent.command.name));
            continue;
        }
        if name == "fallback" && !subject.policy.agent.fallback.is_empty() {
            let names: Vec<&str> =
                subject.policy.agent.fallback.iter().map(|agent| agent.name.as_str()).collect();
            say(format!("{name:<18} {:<60} {}", names.join(", "), effective.fallback.from));
            continue;
        }
        if name == "gates" && !effective.gates.is_empty() {
            for gate in &effective.gates {
                let line = visible(&gate.spec.run).trim_end().replace('\n', "\\n");
                say(format!("{:<18} {line:<60} {}", "gate", gate.from));
            }
            continue;
        }
        let (value, from) = (&setting["value"], setting["from"].as_str().unwrap_or_default());
        let shown = match name.as_str() {
            "promise" => promise_words(&subject.policy.claims.promise),
            "wait" => wait_words(&subject.policy.claims.wait),
            _ => show(name, value),
        };
        say(format!("{name:<18} {shown:<60} {from}"));
    }
    tell_sealed(&subject.workspace, &subject.policy);
    tell_guarded(cx, &subject);
    if let Some(root) = configured.root.as_ref()
        && trust != "nothing_to_trust"
    {
        let words = match trust {
            _ if subject.is_trusted => "trusted for this run by --trust",
            "trusted" => "trusted",
            "changed" => "changed since you trusted it; `dacapo run` would ask",
            _ => "not trusted; `dacapo run` would ask",
        };
        say(format!("{:<18} {:<60} {}", "trust", words, root.display()));
    }
    for warning in warnings {
        say(format!("{:<18} {warning}", "warning"));
    }
    match obstacle {
        Some(obstacle) => {
            say(format!("\nIt would not start: {}", obstacle.message));
            if let Some(hint) = &obstacle.hint {
                say(format!("hint: {hint}"));
            }
        }
        None if found.is_err() => say("\nIt would not start: the agent's program is missing."),
        None => {}
    }
    Ok(0)
}

fn tell_stage(stage: &Value) {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), visible);
    let line = |name: &str, value: &str, from: &Value| {
        say(format!("  {name:<16} {:<60} {}", value.trim_end().replace('\n', "\\n"), word(from)).trim_end());
    };
    let none = Value::String(String::new());
    say(format!("stage {}", word(&stage["stage"])));
    let agent = &stage["agent"];
    line("agent", &word(&agent["name"]), &agent["from"]);
    if !agent["model_from"].is_null() {
        line("model", &word(&agent["model"]), &agent["model_from"]);
    }
    line("argv", &agent["argv"].to_string(), &none);
    let limit = &stage["max_iterations"];
    line("iterations", &format!("{} ({})", limit["value"], word(&limit["why"])), &limit["from"]);
    if stage["mode"]["value"] == "loop" {
        line("promise", &word(&stage["promise"]["value"]), &stage["promise"]["from"]);
        let evidence = match stage["evidence"].as_array().map(Vec::as_slice) {
            None | Some([]) => "none".to_owned(),
            Some(kinds) => kinds.iter().map(word).collect::<Vec<_>>().join(", "),
        };
        line("evidence", &evidence, &stage["verifies"]["from"]);
    }
    line(
        "may write",
        match stage["may_write"].as_str() {
            Some("tests") => "anything; a change that is no test gets a warning",
            Some(other) => other,
            None => "",
        },
        &none,
    );
    line("tests", &word(&stage["tests"]["value"]), &stage["tests"]["from"]);
    for gate in stage["gates"].as_array().into_iter().flatten() {
        line("gate", &word(&gate["run"]), &gate["from"]);
    }
    if !stage["verify"].is_null() {
        line("verified by", &verification(&stage["verify"]), &none);
    }
}

/// How the promise of a stage is verified, in words.
fn verification(verify: &Value) -> String {
    match verify["method"].as_str() {
        Some("external") => verify["command"].as_str().map(visible).unwrap_or_default(),
        Some("multi_stage") => {
            let steps = verify["steps"].as_array().into_iter().flatten().map(verification);
            steps.collect::<Vec<_>>().join(", then ")
        }
        Some("semantic") => "an agent that is asked".to_owned(),
        _ => "the promise alone".to_owned(),
    }
}

fn tell_step(step: &PlannedStep) {
    let behind = match step.depends_on.as_slice() {
        [] => String::new(),
        before => format!(" behind {}", before.join(", ")),
    };
    say(format!("{:<18} {} ({}){behind}: {}", "step", step.step, step.kind, visible(&step.what)));
    if let Some(agent) = &step.agent {
        let model = agent.model.as_ref().map(|model| format!(" {model}")).unwrap_or_default();
        let argv = serde_json::to_string(&agent.argv).unwrap_or_default();
        say(format!("{:<18}   {}{model}, {}: {argv}", "", agent.name, agent.from));
    }
}

/// The settings of a policy by the names that people and scripts know them by, without its sections.
fn by_setting(policy: &Policy) -> serde_json::Result<Map<String, Value>> {
    const NAMES: [(&str, &str, &str); 12] = [
        ("agent", "command", "agent"),
        ("gates", "specs", "gates"),
        ("gates", "run_in", "gate_in"),
        ("gates", "tests", "tests"),
        ("gates", "test_paths", "test_paths"),
        ("gates", "from", "gate_from"),
        ("gates", "run_all", "run_all_gates"),
        ("gates", "timeout", "gates_timeout"),
        ("sandbox", "mode", "sandbox"),
        ("sandbox", "tier", "sandbox_tier"),
        ("sandbox", "write", "sandbox_write"),
        ("sandbox", "read", "sandbox_read"),
    ];
    let mut settings = Map::new();
    if let Some(whole) = policy.whole() {
        settings.insert("commit".to_owned(), json!(whole.commit));
        settings.insert("evidence".to_owned(), json!(whole.evidence));
    }
    if let Some(ItemSource::Unit(unit)) = &policy.source {
        settings.insert("units_dir".to_owned(), json!(unit.dir));
    }
    for (section, value) in serde_json::to_value(policy)?.as_object().into_iter().flatten() {
        match value.as_object() {
            _ if matches!(section.as_str(), "items" | "source") => {}
            Some(fields) => {
                for (field, value) in fields {
                    let own = NAMES.iter().find(|(of, name, _)| of == section && name == field);
                    settings
                        .insert(own.map_or(field.as_str(), |(_, _, name)| name).to_owned(), value.clone());
                }
            }
            None => {
                settings.insert(section.clone(), value.clone());
            }
        }
    }
    Ok(settings)
}

/// Whether the repository is trusted. The user is not asked.
fn trust(cx: &Context, configured: &ConfigFiles) -> Result<&'static str, UserError> {
    let Some(root) = configured.root.as_ref().filter(|_| !configured.runnables().is_empty()) else {
        return Ok("nothing_to_trust");
    };
    Ok(match trust::look(&cx.home, root, ConsentScope::Config, &configured.runnables())? {
        Trust::Trusted { .. } => "trusted",
        Trust::Never => "untrusted",
        Trust::Changed { .. } => "changed",
    })
}

/// Where a setting that configuration files may hold comes from.
fn configured_source<'a>(effective: &'a Effective, setting: &str) -> Option<&'a SettingSource> {
    match setting {
        "protect" => effective.protect.first().map(|glob| &glob.from),
        "setup" => effective.setup.first().map(|step| &step.from),
        "baseline" => Some(&effective.baseline.from),
        "red_first" => Some(&effective.red_first.from),
        "tolerate_baseline" => Some(&effective.tolerate_baseline.from),
        "gate_in" => Some(&effective.gate_in.from),
        "tests" => Some(&effective.tests.from),
        "sandbox" => Some(&effective.sandbox.mode.from),
        "sandbox_tier" => Some(&effective.sandbox.tier.from),
        "test_paths" => effective.test_paths.first().map(|path| &path.from),
        "gate_from" => Some(&effective.gate_from.from),
        "contradictions" => Some(&effective.contradictions.from),
        "evidence" => effective.evidence.first().map(|kind| &kind.from),
        "stuck_after" => Some(&effective.stuck_after.from),
        "fallback" => Some(&effective.fallback.from),
        "environment" => Some(&effective.environment.from),
        "backoff" => Some(&effective.backoff.from),
        "per_day" => Some(effective.per_day.from()),
        "per_project" => Some(effective.per_project.from()),
        "prices" => effective.prices.first().map(|price| &price.from),
        _ => None,
    }
}

/// A value for people: times as they are written on the command line.
fn show(name: &str, value: &Value) -> String {
    const TIMES: [&str; 8] = [
        "backoff",
        "max_time",
        "restart_delay",
        "iteration_timeout",
        "idle_timeout",
        "wait_timeout",
        "poll_interval",
        "kill_grace",
    ];
    match value {
        Value::Null => "off".to_owned(),
        Value::Number(n) if TIMES.contains(&name) => {
            dacapo_core::duration::Millis(n.as_u64().unwrap_or_default()).to_string()
        }
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        Value::Object(map) if map.is_empty() => "none".to_owned(),
        Value::Object(map) if name.starts_with("per_") => {
            let parts = map.iter().filter(|(_, value)| !value.is_null());
            let parts: Vec<String> = parts.map(|(key, value)| format!("{key} {value}")).collect();
            if parts.is_empty() { "off".to_owned() } else { parts.join(", ") }
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What an agent has to print, and where.
fn promise_words(rule: &PromiseRule) -> String {
    let tag = visible(&rule.tag("NONCE"));
    let place = match rule.placement {
        Placement::OwnLine => "alone on a line",
        Placement::OwnLineOrEnd => "alone on a line or at the very end",
        Placement::LastLine => "alone on the last line",
        Placement::Anywhere => "anywhere",
    };
    let mut words = format!("{tag}, {place}");
    if rule.nonce {
        words.push_str("; NONCE differs in every attempt");
    }
    if rule.case == LetterCase::Sensitive {
        words.push_str("; upper and lower case count");
    }
    if !rule.ignore_code {
        words.push_str("; also in code");
    }
    words.push_str(match rule.plain {
        PlainWord::Off => "",
        PlainWord::OwnLineOrEnd => "; without the tag, too, alone on a line or at the very end",
        PlainWord::Substring => "; without the tag, too, anywhere",
    });
    words
}

/// By what an agent says that it is not to be started again before a person has answered.
fn wait_words(rule: &WaitRule) -> String {
    let ways = [
        rule.exit_code.map(|code| format!("exit code {code}")),
        rule.marker.then(|| "the file WAIT_WITHOUT_RESTART".to_owned()),
        rule.message.as_ref().map(|kind| format!("a {kind} message")),
    ];
    let ways: Vec<String> = ways.into_iter().flatten().collect();
    if ways.is_empty() { "off".to_owned() } else { ways.join(", ") }
}

/// How many sealed files are shown to people; `--json` has all of them.
const SEALED: usize = 10;

/// What is sealed for the gates.
struct Sealed {
    /// Files, each with the reason.
    files: Vec<(String, String)>,
    /// Gates, each with the test runners that it starts.
    runners: Vec<(String, String)>,
    /// How many files can get a test that has to fail.
    must_fail: usize,
}

fn sealed(workspace: &Path, policy: &Policy) -> Sealed {
    let root = workspace.ancestors().find(|above| above.join(".git").exists()).unwrap_or(workspace);
    let below = workspace.strip_prefix(root).unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let (posts, reach, must_fail) = goalposts::explain(root, &below, policy);
    let files = posts.0.into_iter().map(|(path, post)| {
        let named_by = reach.followed.iter().find(|file| file.path == path);
        let named_by = named_by.and_then(|file| file.named_by.as_deref());
        if let (GoalpostKind::Followed, Some(check)) = (post.kind, named_by) {
            return (path, format!("`{}` names it", visible(check)));
        }
        let why = match post.kind {
            GoalpostKind::Test => "a test",
            GoalpostKind::Setting => "decides what a runner does",
            GoalpostKind::Followed => "a gate runs it",
            GoalpostKind::Generator => "makes a part of the program; may change, and has to make it anew",
            GoalpostKind::Shadow => "stands in for a part of a runner",
            GoalpostKind::Keys(SharedFile::RustSource | SharedFile::PythonSource) => "holds tests",
            GoalpostKind::Keys(_) => "some of its keys decide what a runner does",
        };
        (path, why.to_owned())
    });
    let files = files.collect();
    let runners = reach.runners.into_iter().map(|(gate, runners)| {
        let names: Vec<&str> = runners.iter().map(|runner| runner.name()).collect();
        (gate, if names.is_empty() { "no test runner that is known".to_owned() } else { names.join(", ") })
    });
    Sealed { files, runners: runners.collect(), must_fail }
}

/// What agents and gates cannot write, or not even read, with the word for that; nothing without a sandbox.
fn guarded(cx: &Context, subject: &Subject) -> Vec<(PathBuf, &'static str)> {
    let rules = &subject.policy.sandbox;
    if rules.mode == SandboxMode::Off {
        return Vec::new();
    }
    let all = guard::protected(&cx.home, rules, &subject.workspace, None, false).rules();
    let of = |(path, access)| match access {
        PathAccess::Writable => None,
        PathAccess::ReadOnly => Some((path, "cannot be written")),
        PathAccess::Hidden => Some((path, "cannot be read")),
        PathAccess::Private => Some((path, "looks empty")),
    };
    all.into_iter().filter_map(of).collect()
}

fn guarded_json(cx: &Context, subject: &Subject) -> Vec<Value> {
    let all = guarded(cx, subject);
    all.into_iter().map(|(path, how)| json!({ "path": path, "how": how })).collect()
}

fn tell_guarded(cx: &Context, subject: &Subject) {
    let all = guarded(cx, subject);
    for (path, how) in all.iter().take(SEALED) {
        say(format!("{:<18} {:<60} {how}", "guarded", visible(&path.to_string_lossy())));
    }
    if all.len() > SEALED {
        say(format!("{:<18} and {} more; `--json` lists them", "guarded", all.len() - SEALED));
    }
}

fn sealed_json(workspace: &Path, policy: &Policy) -> Value {
    if !policy.gates.watches_goalposts() {
        return Value::Null;
    }
    let Sealed { files, runners, must_fail } = sealed(workspace, policy);
    let files: Vec<Value> = files.iter().map(|(path, why)| json!({ "path": path, "why": why })).collect();
    let runners: Vec<Value> =
        runners.iter().map(|(gate, runs)| json!({ "gate": gate, "runs": runs })).collect();
    json!({ "files": files, "runners": runners, "must_fail_files": must_fail })
}

/// What the gates run, and which files count as tests or decide about them.
fn tell_sealed(workspace: &Path, policy: &Policy) {
    if !policy.gates.watches_goalposts() {
        return;
    }
    let Sealed { files, runners, must_fail } = sealed(workspace, policy);
    for (gate, runs) in runners {
        say(format!("{:<18} {:<60} {runs}", "runs", visible(&gate)));
    }
    // What it means for a claim that one of them has changed.
    let word = match policy.gates.tests {
        TestsMode::Sealed => "sealed",
        TestsMode::Checked => "checked",
        TestsMode::Free => "compared",
    };
    for (path, why) in files.iter().take(SEALED) {
        say(format!("{word:<18} {:<60} {why}", visible(path)));
    }
    if files.len() > SEALED {
        say(format!("{word:<18} and {} more; `--json` lists them", files.len() - SEALED));
    }
    if must_fail > 0 && policy.gates.probe && policy.gates.run_in != GateIn::Workspace {
        let files = count(u32::try_from(must_fail).unwrap_or(u32::MAX), "file");
        say(format!(
            "{:<18} a test that has to fail is put into {files} of a fresh checkout: the gates must notice it",
            "must fail"
        ));
    }
}
