//! What a plan starts a loop for, recorded with the loop, so that one that was cut short is recognised.
//!
//! The key is made from what must not have changed if the loop is to go on: where its changes count from, the tasks and
//! commands that the user agreed to, and the agent and limits that the user chose. What is left to dacapo's defaults is not
//! part of it: a version with another default goes on with the loops of the one before.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    agent::{
        AgentCommand,
        catalog::{self, AgentOptions, Transport},
    },
    ids::UnitId,
    policy::{GateSpec, Policy},
    stages::StageName,
    unit::{
        TaskSpec,
        settings::{BaselineCheck, MustHold, RunSettings},
    },
    workflow::StepId,
};

/// What a loop was started for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purpose {
    pub step: PlanStep,
    /// SHA-256 of what must not have changed if the loop is to go on.
    pub key: String,
}

/// The step of a plan that a loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStep {
    /// A turn of a unit: one of its ready tasks.
    Turn,
    /// The checks of a unit after all its tasks.
    Baseline,
    /// A unit whose merged tree was red, in its own worktree.
    SentBack,
    /// The checks of a merged tree.
    Merge,
    /// A merged tree with conflicts.
    Conflict,
    /// A step of a workflow; the key names the step and the attempt.
    Workflow,
    /// A stage of a task; the key names the stage and its run.
    Stage,
    /// The checks of a task's merged tree; the key names the tree.
    StageMerge,
}

impl Purpose {
    /// An attempt of a step of a workflow. Within its run the step and the number say all: the run itself is frozen.
    pub fn workflow_step(step: &StepId, attempt: u32) -> Self {
        Self { step: PlanStep::Workflow, key: format!("{step}/{attempt}") }
    }

    /// The step of a workflow that this is an attempt of.
    pub fn as_workflow_step(&self) -> Option<(StepId, u32)> {
        let (step, attempt) = self.key.split_once('/').filter(|_| self.step == PlanStep::Workflow)?;
        Some((StepId::new(step)?, attempt.parse().ok()?))
    }

    /// A run of a stage. Within the run of its task its number says all: the run of the task is frozen.
    pub fn stage(stage: StageName, run: u32) -> Self {
        Self { step: PlanStep::Stage, key: format!("{stage}/{run}") }
    }

    /// The stage of a task that this is a run of, and the number of the run.
    pub fn as_stage(&self) -> Option<(StageName, u32)> {
        let (stage, run) = self.key.split_once('/').filter(|_| self.step == PlanStep::Stage)?;
        Some((StageName::find(stage)?, run.parse().ok()?))
    }

    /// The checks of what a task and its target come to together.
    pub fn stage_merge(tree: &str) -> Self {
        Self { step: PlanStep::StageMerge, key: tree.to_owned() }
    }

    /// A turn of `unit` with these tasks, whose changes count from the commit `base`.
    pub fn turn<'a>(
        settings: &RunSettings,
        unit: &UnitId,
        base: &str,
        tasks: impl IntoIterator<Item = &'a TaskSpec>,
    ) -> Self {
        let tasks: Vec<Value> = tasks.into_iter().map(task).collect();
        Self::of(PlanStep::Turn, settings, unit, base, json!({ "tasks": tasks }))
    }

    /// The checks of `unit` after all its tasks.
    pub fn baseline(settings: &RunSettings, unit: &UnitId, base: &str, checks: &[BaselineCheck]) -> Self {
        Self::of(PlanStep::Baseline, settings, unit, base, json!({ "checks": checks }))
    }

    /// A loop that has to pass what must hold, on files that stand at `base`.
    pub fn proof(
        step: PlanStep,
        settings: &RunSettings,
        unit: &UnitId,
        base: &str,
        must_hold: &MustHold,
    ) -> Self {
        let MustHold { tasks, others, checks } = must_hold;
        let about = json!({
            "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
            "others": others.iter().map(|(unit, of)| json!([unit, task(of)])).collect::<Vec<_>>(),
            "checks": checks,
        });
        Self::of(step, settings, unit, base, about)
    }

    fn of(step: PlanStep, settings: &RunSettings, unit: &UnitId, base: &str, about: Value) -> Self {
        let hash = Sha256::digest(key(step, settings, unit, base, about).to_string());
        Self { step, key: hash.iter().map(|byte| format!("{byte:02x}")).collect() }
    }
}

/// What must not have changed, before it is hashed. A default of dacapo's own has no place in it: a newer version may have
/// another one.
fn key(step: PlanStep, settings: &RunSettings, unit: &UnitId, base: &str, about: Value) -> Value {
    json!({
        "step": step,
        "unit": unit,
        "base": base,
        "about": about,
        "agent": agent(settings.providers.get(unit).unwrap_or(&settings.policy.agent.command)),
        "chosen": chosen_settings(settings),
    })
}

fn task(spec: &TaskSpec) -> Value {
    let TaskSpec { number, title: _, file, backpressure, line: _, depends_on, writes, frozen } = spec;
    json!([number, file, backpressure, depends_on, writes, frozen])
}

/// The settings of loops that the user chose: those that are not what dacapo would take without being told.
fn chosen_settings(settings: &RunSettings) -> Value {
    let gates: Vec<Value> = settings.policy.gates.specs.iter().map(gate).collect();
    let told = settings.policy.clone().with(|policy| policy.gates.specs = Vec::new());
    let untold = Policy::restart(told.agent.command.clone(), told.claims.promise.clone());
    let of_loops = |policy: &Policy, settings: &RunSettings| {
        json!({
            "policy": policy,
            "max_retries": settings.max_retries,
            "backpressure_timeout": settings.backpressure_timeout,
            "backpressure_retries": settings.backpressure_retries,
        })
    };
    let defaults = of_loops(&untold, &RunSettings::new(untold.clone()));
    json!({ "gates": gates, "settings": different(&of_loops(&told, settings), &defaults) })
}

/// A check of the user's: its command, and what differs from a check that is nothing but a command.
fn gate(gate: &GateSpec) -> Value {
    json!([gate.run, different(&json!(gate), &json!(GateSpec::of_command(&gate.run)))])
}

/// An agent: its name, and what differs from what dacapo itself knows about an agent of that name.
fn agent(agent: &AgentCommand) -> Value {
    let AgentCommand { name, argv, prompt: _, format: _, resume: _, env, provider: _, model, acp } = agent;
    let transport = if acp.is_some() { Transport::Acp } else { Transport::Stdio };
    let options = AgentOptions { model: model.clone(), transport, ..AgentOptions::default() };
    let known = catalog::find(name).and_then(|definition| definition.command(&options).ok());
    let (known_argv, known_env) = known.map(|known| (known.argv, known.env)).unwrap_or_default();
    let more: Vec<&String> = argv.iter().filter(|word| !known_argv.contains(word)).collect();
    let less: Vec<&String> = known_argv.iter().filter(|word| !argv.contains(word)).collect();
    let env: Vec<_> = env.iter().filter(|(name, value)| known_env.get(*name) != Some(value)).collect();
    json!({ "name": name, "model": model, "more": more, "less": less, "env": env })
}

/// The fields of `value` that are not what `default` has, however deep.
fn different(value: &Value, default: &Value) -> Value {
    match (value, default) {
        (Value::Object(fields), Value::Object(defaults)) => {
            let mut left = Map::new();
            for (name, value) in fields {
                match defaults.get(name) {
                    Some(default) if default == value => {}
                    Some(default) => {
                        left.insert(name.clone(), different(value, default));
                    }
                    None => {
                        left.insert(name.clone(), value.clone());
                    }
                }
            }
            Value::Object(left)
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
#[path = "purpose_tests.rs"]
mod tests;
