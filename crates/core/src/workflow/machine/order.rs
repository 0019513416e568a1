//! What a performer is told to run for a step, complete in itself.

use super::{StepId, StepWorkKind};
use crate::{
    duration::Millis,
    workflow::{
        LoopStep, Prompt, Step, StepGate, StepKind, Workflow, WorkflowBudget,
        shell::{self, ShellScript},
        template::Variables,
    },
};

#[derive(Clone, Debug, PartialEq)]
pub struct StepLoop {
    pub step: StepId,
    pub attempt: u32,
    pub work: StepWorkKind,
    /// With its variables; see [`prompt`](Self::prompt).
    pub template: String,
    pub variables: Variables,
    pub provider: Option<String>,
    pub model: Option<String>,
    /// The session to go on with in the first iteration.
    pub session: Option<String>,
    /// Whether later iterations go on with the session of the one before.
    pub continue_session: bool,
    /// What ends it; without one the agent works once, and its good end is a claim.
    pub looped: Option<LoopStep>,
    pub max_iterations: u32,
    pub gates: Vec<StepGate>,
    /// Whether it works in a worktree of its own.
    pub worktree: bool,
    /// Whether the user wants its loop to go on, also if its agent said that it is blocked.
    pub is_continued: bool,
    pub idle_timeout: Option<Millis>,
    /// What it may cost by itself; the budget of the workflow is shared by all loops of the run.
    pub budget: Option<WorkflowBudget>,
    /// The JSON Schema that the agent's answer has to fit.
    output_format: Option<serde_json::Value>,
    steps: Vec<StepId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StepScript {
    pub step: StepId,
    pub attempt: u32,
    /// For `sh -c`, with the variables that it reads from its environment.
    pub script: ShellScript,
    pub variables: Variables,
    pub timeout: Millis,
    pub worktree: bool,
}

impl StepLoop {
    pub(super) fn new(
        workflow: &Workflow,
        step: &Step,
        attempt: u32,
        work: StepWorkKind,
        variables: Variables,
    ) -> Self {
        let (prompt, looped, gates) = match (&step.kind, work) {
            (StepKind::Agent(agent), _) => (agent.prompt.clone(), None, agent.gates.clone()),
            (StepKind::Loop(looped), _) => {
                (looped.prompt.clone(), Some(looped.clone()), looped.gates.clone())
            }
            (StepKind::Approval(approval), _) => {
                let text =
                    approval.on_reject.as_ref().map(|rework| rework.prompt.clone()).unwrap_or_default();
                (Prompt { text, command: None }, None, Vec::new())
            }
            _ => (Prompt::default(), None, Vec::new()),
        };
        let output_format = match &step.kind {
            StepKind::Agent(agent) => agent.output_format.clone(),
            _ => None,
        };
        let is_interactive = looped.as_ref().is_some_and(LoopStep::is_interactive);
        let max_iterations = match &looped {
            Some(looped) if !is_interactive => looped.max_iterations,
            // The checks alone: the agent of a step is done, and a person is asked before a loop that asks goes on.
            _ if work == StepWorkKind::Check => 0,
            // A person is asked after each one.
            _ => 1,
        };
        Self {
            step: step.id.clone(),
            attempt,
            work,
            template: prompt.text,
            variables,
            provider: step.provider.clone().or_else(|| workflow.provider.clone()),
            model: step.model.clone().or_else(|| workflow.model.clone()),
            session: None,
            continue_session: looped.as_ref().is_some_and(|looped| !looped.fresh_context),
            looped,
            max_iterations,
            gates,
            worktree: step.worktree && !work.is_in_workspace(),
            is_continued: false,
            idle_timeout: step.idle_timeout,
            budget: step.budget,
            output_format,
            steps: workflow.steps.iter().map(|step| step.id.clone()).collect(),
        }
    }

    /// What the agent is asked in the next iteration, behind one that answered `previous` (req 146).
    pub fn prompt(&self, previous: Option<&str>) -> String {
        let mut variables = self.variables.clone();
        if let Some(previous) = previous {
            previous.clone_into(&mut variables.loop_prev_output);
        }
        let mut prompt = variables.fill(&self.template, |id| self.steps.contains(id));
        if let Some(schema) = &self.output_format {
            // Not every agent has a setting for it, and one that has reads it twice.
            let schema = serde_json::to_string_pretty(schema).unwrap_or_default();
            prompt = format!(
                "{}\n\nEnd with your answer as JSON that fits this JSON Schema, and with nothing behind it:\n\n```json\n{schema}\n```\n",
                prompt.trim_end()
            );
        }
        prompt
    }

    /// A script of the loop (`until_bash` or a gate), for `sh -c`.
    pub fn script(&self, script: &str) -> ShellScript {
        shell::translate(script, |id| self.steps.contains(id))
    }
}

impl StepScript {
    pub(super) fn new(workflow: &Workflow, step: &Step, attempt: u32, variables: Variables) -> Option<Self> {
        let StepKind::Bash(bash) = &step.kind else { return None };
        let script = shell::translate(&bash.script, |id| workflow.step(id).is_some());
        let (step, worktree, timeout) = (step.id.clone(), step.worktree, bash.timeout);
        Some(Self { step, attempt, script, variables, timeout, worktree })
    }
}
