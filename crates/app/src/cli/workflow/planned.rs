//! What `workflow run` would do, for `explain`.

use std::path::PathBuf;

use dacapo_core::{
    agent::AgentCommand,
    config::SettingSource,
    trust::workflow_runnables,
    workflow::{Completion, Step, StepKind, Workflow, catalogue::FrozenWorkflow},
};
use dacapo_engine::{config_files::ConfigFiles, units};
use serde::Serialize;

use super::{
    super::flags::{ChosenSettings, LoopFlags},
    run::{WorkflowRunArgs, as_one_budget, base, step_agents},
};
use crate::{context::Context, error::UserError};

/// A run that could be started.
pub(in crate::cli) struct PlannedWorkflow {
    pub(in crate::cli) root: PathBuf,
    pub(in crate::cli) configured: ConfigFiles,
    pub(in crate::cli) chosen: ChosenSettings,
    /// With the budget that is in force.
    pub(in crate::cli) found: FrozenWorkflow,
    pub(in crate::cli) steps: Vec<PlannedStep>,
    /// The commands that need consent.
    pub(in crate::cli) commands: Vec<String>,
}

/// A step as it would be taken.
#[derive(Serialize)]
pub(in crate::cli) struct PlannedStep {
    pub(in crate::cli) step: String,
    pub(in crate::cli) kind: &'static str,
    pub(in crate::cli) depends_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) agent: Option<PlannedAgent>,
    /// What ends it, or what it does, in words.
    pub(in crate::cli) what: String,
}

#[derive(Serialize)]
pub(in crate::cli) struct PlannedAgent {
    pub(in crate::cli) name: String,
    pub(in crate::cli) model: Option<String>,
    pub(in crate::cli) argv: Vec<String>,
    /// The flag, file or variable that names it.
    pub(in crate::cli) from: String,
}

impl WorkflowRunArgs {
    pub(in crate::cli) fn flags(&self) -> &LoopFlags {
        &self.flags
    }

    /// Everything that a run would go by. No user is asked, and nothing is started.
    pub(in crate::cli) fn plan(&self) -> Result<PlannedWorkflow, UserError> {
        let found = self.found()?;
        let root = units::top(&Context::folder(self.place.dir.as_ref())?);
        let configured = ConfigFiles::load(&root)?;
        let mut workflow = found.workflow.clone();
        let mut chosen = base(&self.flags, &configured, &workflow)?;
        let (agents, other) = step_agents(&self.flags, &chosen.effective, &workflow, &mut chosen.programs)?;
        let needs_agent = workflow.steps.iter().any(|step| step.kind.has_agent());
        chosen.obstacle = chosen.obstacle.or(other).filter(|_| needs_agent);
        let mut steps = Vec::new();
        for step in &workflow.steps {
            let agent = match step.kind.has_agent() {
                true => {
                    let own = agents.get(&step.id);
                    let from = self.agent_from(&workflow, step, &chosen.agent_from);
                    Some(planned_agent(own.unwrap_or(&chosen.policy.agent.command), from)?)
                }
                false => None,
            };
            steps.push(PlannedStep {
                step: step.id.to_string(),
                kind: step.kind.as_str(),
                depends_on: step.depends_on.iter().map(ToString::to_string).collect(),
                agent,
                what: words(step),
            });
        }
        let runnables = if found.is_builtin { Vec::new() } else { workflow_runnables(&workflow) };
        let commands = runnables.into_iter().map(|runnable| runnable.command).collect();
        chosen.policy = as_one_budget(chosen.policy, &mut workflow);
        let found = FrozenWorkflow { workflow, ..found };
        Ok(PlannedWorkflow { root, configured, chosen, found, steps, commands })
    }

    fn agent_from(&self, workflow: &Workflow, step: &Step, chosen: &SettingSource) -> String {
        let is_typed = self.flags.agent.is_some() || self.flags.agent_cmd.is_some();
        match (&step.provider, &workflow.provider) {
            _ if is_typed => chosen.to_string(),
            (Some(_), _) => SettingSource::File { file: workflow.file.clone(), line: step.line }.to_string(),
            (None, Some(_)) => workflow.file.clone(),
            (None, None) => chosen.to_string(),
        }
    }
}

fn planned_agent(agent: &AgentCommand, from: String) -> Result<PlannedAgent, UserError> {
    let argv = agent.argv("<the prompt>", "<the prompt's file>", None).map_err(UserError::usage)?;
    Ok(PlannedAgent { name: agent.name.clone(), model: agent.model.clone(), argv, from })
}

fn words(step: &Step) -> String {
    let line = |text: &str| {
        let mut lines = text.trim().lines();
        let first = lines.next().unwrap_or_default();
        if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
    };
    let gates = match &step.kind {
        StepKind::Agent(agent) => agent.gates.as_slice(),
        StepKind::Loop(looped) => looped.gates.as_slice(),
        _ => &[],
    };
    let mut words = match &step.kind {
        StepKind::Agent(_) => "once".to_owned(),
        StepKind::Loop(looped) => {
            let until = match looped.completion() {
                Completion::Words(words) => format!("until the agent says {words}"),
                Completion::Check(check) => format!("until `{}` exits 0", line(check)),
                Completion::WordsThenCheck(words, check) => {
                    format!("until the agent says {words} and `{}` exits 0", line(check))
                }
                Completion::WordsOrCheck(words, check) => {
                    format!("until the agent says {words} or `{}` exits 0", line(check))
                }
            };
            format!("at most {} times, {until}", looped.max_iterations)
        }
        StepKind::Bash(bash) => format!("`{}`", line(&bash.script)),
        StepKind::Approval(approval) => format!("asks: {}", line(&approval.message)),
        StepKind::Wait(_) => "waits".to_owned(),
        StepKind::Cancel { reason } => format!("ends the run: {}", line(reason)),
    };
    for gate in gates {
        words += &format!(", gate `{}`", line(&gate.run));
    }
    if let Some(when) = &step.when {
        words += &format!(", when {}", when.text.trim());
    }
    words
}
