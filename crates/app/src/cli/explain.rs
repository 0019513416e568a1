//! `dacapo explain`.

use clap::{ArgMatches, Args, Subcommand, parser::ValueSource};
use dacapo_core::{
    config::{Effective, Source},
    text::visible::visible,
};
use dacapo_engine::{
    process::find_program,
    trust::{self, Trust},
};
use serde_json::{Map, Value, json};

use super::{
    configured::Configured,
    run::{Plan, RunArgs},
    say, say_json,
};
use crate::{context::Context, error::UserError};

/// Show what a command would do, where each value comes from, and start nothing
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo explain run \"make the tests pass\" --agent-cmd my-agent --gate \"cargo test\" --json"
)]
pub(super) struct ExplainArgs {
    #[command(subcommand)]
    command: ExplainCommand,
}

#[derive(Subcommand, Debug)]
enum ExplainCommand {
    /// The loop that `dacapo run` with these arguments would start
    Run(Box<RunArgs>),
}

/// Which flag sets which part of the policy.
const SETTINGS: [(&str, &str); 11] = [
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
    ("agent", "agent_cmd"),
];

pub(super) fn explain(cx: &Context, args: &ExplainArgs, matches: &ArgMatches) -> Result<u8, UserError> {
    let ExplainCommand::Run(run) = &args.command;
    let Plan { new, effective, configured } = run.plan()?;
    let typed = matches.subcommand().and_then(|(_, explain)| explain.subcommand()).map(|(_, run)| run);
    let source = |setting: &str| {
        match setting {
            "max_iterations" => return effective.max_iterations.from.to_string(),
            "max_time" => return effective.max_time.from.to_string(),
            "gates" => {
                let mut from: Vec<String> =
                    effective.gates.iter().map(|gate| gate.from.to_string()).collect();
                from.dedup();
                return if from.is_empty() { "default".to_owned() } else { from.join(", ") };
            }
            _ => {}
        }
        let flag = SETTINGS.iter().find(|(name, _)| *name == setting).map_or(setting, |(_, flag)| *flag);
        // Not every setting has a flag of its own, and asking for one that is not there is a mistake.
        let is_flag = typed.is_some_and(|typed| typed.ids().any(|id| id.as_str() == flag));
        if is_flag && typed.and_then(|typed| typed.value_source(flag)) == Some(ValueSource::CommandLine) {
            return format!("--{}", flag.replace('_', "-"));
        }
        configured_source(&effective, setting).map_or_else(|| "default".to_owned(), ToString::to_string)
    };
    let program = new.policy.agent.argv.first().cloned().unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_else(|_| new.workspace.clone());
    let found = find_program(&program, &std::env::var_os("PATH").unwrap_or_default(), &here);
    let argv: Vec<String> =
        new.policy.agent.argv("<the prompt>", "<the prompt's file>", None).map_err(UserError::usage)?;
    let policy = serde_json::to_value(&new.policy).map_err(UserError::failed)?;
    let settings: Map<String, Value> = policy
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), json!({ "value": value, "from": source(name) })))
        .collect();
    let agent = match &found {
        Ok(path) => path.display().to_string(),
        Err(error) => error.to_string(),
    };
    let trust = trust(cx, &configured)?;
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
    if run.style.json {
        return say_json(&json!({
            "preset": "restart",
            "workspace": new.workspace,
            "project": new.project,
            "task": new.task,
            "home": cx.home.path(),
            "argv": argv,
            "program": agent,
            "policy": settings,
            "repository": configured.root(),
            "trust": trust,
            "gates": gates,
        }));
    }
    say(format!(
        "preset       restart\nworkspace    {}\nproject      {}",
        new.workspace.display(),
        new.project
    ));
    say(format!("state        {}", cx.home.path().display()));
    say(format!("program      {agent}"));
    say(format!("argv         {}", serde_json::to_string(&argv).unwrap_or_default()));
    say(format!(
        "prompt by    {}\n",
        serde_json::to_value(new.policy.agent.prompt)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    ));
    for (name, setting) in &settings {
        if name == "agent" {
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
        say(format!("{name:<18} {:<60} {from}", show(name, value)));
    }
    if let Some(root) = configured.root()
        && trust != "nothing_to_trust"
    {
        let words = match trust {
            _ if run.trust => "trusted for this run by --trust",
            "trusted" => "trusted",
            "changed" => "changed since you trusted it; `dacapo run` would ask",
            _ => "not trusted; `dacapo run` would ask",
        };
        say(format!("{:<18} {:<60} {}", "trust", words, root.display()));
    }
    if found.is_err() {
        say("\nIt would not start: the agent's program is missing.");
    }
    Ok(0)
}

/// How the repository stands; nobody is asked.
fn trust(cx: &Context, configured: &Configured) -> Result<&'static str, UserError> {
    let Some(root) = configured.root().filter(|_| !configured.runnables.is_empty()) else {
        return Ok("nothing_to_trust");
    };
    Ok(match trust::look(&cx.home, root, &configured.runnables)? {
        Trust::Trusted { .. } => "trusted",
        Trust::Never => "untrusted",
        Trust::Changed { .. } => "changed",
    })
}

/// Where a setting that configuration files may hold comes from.
fn configured_source<'a>(effective: &'a Effective, setting: &str) -> Option<&'a Source> {
    match setting {
        "protect" => effective.protect.first().map(|glob| &glob.from),
        "setup" => effective.setup.first().map(|step| &step.from),
        "baseline" => Some(&effective.baseline.from),
        "red_first" => Some(&effective.red_first.from),
        "tolerate_baseline" => Some(&effective.tolerate_baseline.from),
        "gate_in" => Some(&effective.gate_in.from),
        "gate_from" => Some(&effective.gate_from.from),
        "contradictions" => Some(&effective.contradictions.from),
        "stuck_after" => Some(&effective.stuck_after.from),
        _ => None,
    }
}

/// A value for people: times as they are written on the command line.
fn show(name: &str, value: &Value) -> String {
    const TIMES: [&str; 7] = [
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
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
