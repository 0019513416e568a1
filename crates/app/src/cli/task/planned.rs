//! What a run of tasks would go by: the stages, their limits and their agents. `task run` and `explain task` share it.

use std::{collections::BTreeMap, path::PathBuf};

use clap::Args;
use dacapo_core::{
    agent::AgentCommand,
    config::{EffectiveStage, EffectiveStages, SettingSource, Sourced, Typed, self_review},
    ids::TaskId,
    judge::promise::PromiseRule,
    stages::{
        MayWrite, ReviewLedger, StageMode, StageName, StageTask, StageTaskStatus,
        machine::PlannedStage,
        past_refusals, past_runs,
        prompt::{StagePrompt, equal_for_task, for_task},
    },
    trust::task_runnables,
};
use dacapo_engine::{client::Client, config_files::ConfigFiles, stage_tasks};
use serde_json::{Value, json};

use super::{
    super::{
        agents::{self, AgentFlags},
        flags::{ChosenSettings, LoopFlags},
    },
    RepositoryTasks, TasksPlace,
};
use crate::{context::Context, error::UserError};

/// How many of the newest runs of tasks are looked at for limits that are chosen.
pub(super) const PAST_RUNS: u32 = 50;

/// What can be said about every run of tasks.
#[derive(Args, Debug, Clone)]
#[command(
    mut_arg("agent", |arg| arg.help(
        "The agent of the stages that name none: claude, codex, gemini, opencode, qwen, copilot, pi, or one of your own \
         (default: DACAPO_AGENT, else as configured, else the first installed of claude, codex, gemini, opencode)"
    )),
    mut_arg("iteration_timeout", |arg| arg.help("How long one iteration of a stage may take (default: 10m)")),
)]
pub(in crate::cli) struct TaskFlags {
    #[command(flatten)]
    pub(super) place: TasksPlace,
    #[command(flatten)]
    pub(in crate::cli) flags: LoopFlags,
}

/// A task that is explained.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo explain task TASK-001\n  dacapo explain task TASK-001 --prompt\n  dacapo explain task TASK-001 --agent claude --json"
)]
pub(in crate::cli) struct ExplainTaskArgs {
    /// The task: its id, or enough of its beginning
    #[arg(value_name = "ID")]
    task: String,
    /// Print what the agent of a stage would be told in its first iteration, and nothing else
    #[arg(long, value_name = "STAGE", value_parser = StageName::WORDS, num_args = 0..=1, require_equals = true, default_missing_value = "coder", conflicts_with = "json")]
    prompt: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) given: TaskFlags,
}

/// The stages as every task of a run would pass through them.
pub(in crate::cli) struct PlannedStages {
    /// The top of the repository.
    pub(in crate::cli) root: PathBuf,
    pub(in crate::cli) configured: ConfigFiles,
    /// What the flags and the configuration say to every loop; its warnings are those of the stages, too.
    pub(in crate::cli) chosen: ChosenSettings,
    /// In their order, with the limits that were chosen.
    pub(in crate::cli) stages: Vec<PlannedStage>,
    /// The agents of the stages that do not have the one of the policy.
    pub(in crate::cli) agents: BTreeMap<StageName, AgentCommand>,
}

impl TaskFlags {
    /// Everything that a run would go by. The user is not asked, and nothing is started. What stands in the way is the
    /// obstacle of the settings. Without a `client` nothing is known of past runs.
    pub(in crate::cli) fn plan(&self, client: Option<&Client>) -> Result<PlannedStages, UserError> {
        let root = self.place.root()?;
        let configured = ConfigFiles::load(&root)?;
        let in_force = configured.effective(&Typed::default()).stages;
        let mut chosen = self.base(&configured, &in_force)?;
        let agents = self.agents(&mut chosen)?;
        let past = match client {
            Some(client) => client.history_of_tasks(&Context::project_of(&root), None, PAST_RUNS)?,
            None => Vec::new(),
        };
        let effective = &chosen.effective;
        let stages = effective.stages.planned(&past_runs(&past), effective.max_iterations.value);
        let name_of = |stage| agents.get(&stage).unwrap_or(&chosen.policy.agent.command).name.clone();
        // Of a reviewer that is switched off nothing is expected.
        let is_reviewed = effective
            .stages
            .stages
            .iter()
            .any(|known| known.stage.name == StageName::Reviewer && known.stage.mode == StageMode::Loop);
        let warning = self_review(&name_of(StageName::Coder), &name_of(StageName::Reviewer));
        let warning = warning.filter(|_| is_reviewed);
        let problem = effective.stages.problem().map(|what| {
            UserError::usage(what).hint("`ralph.STAGE.completion_promise` gives one of them other words")
        });
        chosen.warnings.extend(warning);
        chosen.obstacle = problem.or(chosen.obstacle);
        Ok(PlannedStages { root, configured, chosen, stages, agents })
    }

    fn is_typed(&self) -> bool {
        self.flags.agent.is_some() || self.flags.agent_cmd.is_some()
    }

    /// What flags and configuration say to every loop. Where every stage names its agent, none else is needed.
    fn base(
        &self,
        configured: &ConfigFiles,
        in_force: &EffectiveStages,
    ) -> Result<ChosenSettings, UserError> {
        let promise = PromiseRule::new("DONE").map_err(UserError::usage)?;
        let named = |known: &EffectiveStage| {
            known.stage.agent.clone().map(|value| Sourced { value, from: known.agent_from.clone() })
        };
        let named: Vec<Sourced<String>> = in_force.stages.iter().filter_map(named).collect();
        let is_each = named.len() == in_force.stages.len();
        let stand_in = named.into_iter().next().filter(|_| is_each && !self.is_typed());
        self.flags.base(configured, None, promise, stand_in)
    }

    /// The agents that stages name. What was typed is the agent of the other stages, with its model and its arguments.
    fn agents(&self, chosen: &mut ChosenSettings) -> Result<BTreeMap<StageName, AgentCommand>, UserError> {
        let mut found = BTreeMap::new();
        let stages = &chosen.effective.stages.stages;
        let mut is_needed = false;
        let mut obstacle = None;
        for EffectiveStage { stage, agent_from, .. } in stages {
            let is_own = stage.agent.is_some();
            // dacapo does not know how to tell a program of the user's own which model to use.
            if !is_own && (stage.model.is_none() || self.flags.agent_cmd.is_some()) {
                is_needed = true;
                continue;
            }
            let mut asked = chosen.effective.clone();
            if let Some(agent) = &stage.agent {
                asked.agent = Sourced { value: Some(agent.clone()), from: agent_from.clone() };
            }
            let (model, extra) = if is_own && self.is_typed() {
                (stage.model.as_ref(), &[][..])
            } else {
                (self.flags.model.as_ref().or(stage.model.as_ref()), self.flags.agent_args.as_slice())
            };
            let of_stage = agents::choose(
                &asked,
                AgentFlags { model, extra, ..self.flags.wanted() },
                &mut chosen.programs,
            )?;
            obstacle = obstacle.or(of_stage.obstacle);
            found.insert(stage.name, of_stage.command);
        }
        chosen.obstacle = chosen.obstacle.take().filter(|_| is_needed).or(obstacle);
        Ok(found)
    }
}

/// A task and the stages that it would pass through.
pub(in crate::cli) struct PlannedTask {
    pub(in crate::cli) planned: PlannedStages,
    pub(in crate::cli) task: StageTask,
    pub(in crate::cli) extra: Value,
    /// What is explained of each stage, for scripts.
    pub(in crate::cli) stages: Vec<Value>,
}

impl ExplainTaskArgs {
    /// The prompt that was asked for instead of an explanation.
    pub(in crate::cli) fn prompt(&self, planned: &PlannedTask) -> Option<String> {
        let wanted = self.prompt.as_deref()?;
        let stage = planned.stages.iter().find(|stage| stage["stage"] == wanted)?;
        stage["prompt"].as_str().map(str::to_owned)
    }

    pub(in crate::cli) fn plan(&self, cx: &Context) -> Result<PlannedTask, UserError> {
        // Looking makes nothing: no journal means no past runs.
        let client = cx.home.path().exists().then(|| cx.client()).transpose()?;
        let mut planned = self.given.plan(client.as_ref())?;
        let repository = RepositoryTasks { found: stage_tasks::load(&planned.root) };
        let task = repository.task(&self.task)?.clone();
        let kinds: Vec<_> = planned.stages.iter().map(|planned| planned.stage.clone()).collect();
        if planned.chosen.effective.stages.problem().is_none()
            && let Some((first, second)) = equal_for_task(&kinds, &task.spec)
        {
            let what = format!(
                "the stages `{first}` and `{second}` have the same promise, once the promises of `{}` count",
                task.spec.file
            );
            planned.chosen.obstacle = Some(UserError::usage(what));
        }
        let past = match &client {
            Some(client) => {
                let project = Context::project_of(&planned.root);
                client.history_of_tasks(&project, Some(&task.spec.id), PAST_RUNS)?
            }
            None => Vec::new(),
        };
        let refusals = past_refusals(&past);
        let stages = planned
            .stages
            .iter()
            .map(|stage| planned.explain(stage, &task, &refusals))
            .collect::<Result<Vec<Value>, UserError>>()?;
        let is_open = |id: &&TaskId| {
            let other = repository.found.tasks.iter().find(|other| other.spec.id == **id);
            other.is_none_or(|other| other.status != StageTaskStatus::Done)
        };
        let extra = json!({
            "title": task.spec.title,
            "file": task.spec.file,
            "status": task.status,
            "branch": task.spec.branch(),
            "commands": task_runnables(std::slice::from_ref(&task))
                .into_iter()
                .map(|runnable| runnable.command)
                .collect::<Vec<_>>(),
            "waits_for": task.spec.depends_on.iter().filter(is_open).collect::<Vec<_>>(),
        });
        Ok(PlannedTask { planned, task, extra, stages })
    }
}

impl PlannedStages {
    /// One stage of a task: each value, and where it comes from.
    fn explain(
        &self,
        planned: &PlannedStage,
        task: &StageTask,
        refusals: &BTreeMap<StageName, Vec<String>>,
    ) -> Result<Value, UserError> {
        let stage = for_task(&planned.stage, &task.spec);
        let effective = &self.chosen.effective;
        let known = effective.stages.stages.iter().find(|known| known.stage.name == stage.name);
        let from = |of: fn(&EffectiveStage) -> &SettingSource| {
            known.map_or_else(|| "default".to_owned(), |known| of(known).to_string())
        };
        let own = task.spec.completion.stages.get(&stage.name);
        let promise_from = match own.and_then(|own| own.promise.as_ref()) {
            Some(_) => task.spec.file.clone(),
            None => from(|known| &known.promise_from),
        };
        let command = self.agents.get(&stage.name).unwrap_or(&self.chosen.policy.agent.command);
        let argv = command.argv("<the prompt>", "<the prompt's file>", None).map_err(UserError::usage)?;
        let is_own = self.agents.contains_key(&stage.name) && stage.agent.is_some();
        let agent_from =
            if is_own { from(|known| &known.agent_from) } else { self.chosen.agent_from.to_string() };
        let gate = |run: &str, name: &str, from: String| json!({ "name": name, "run": run, "from": from });
        let of_loops = effective
            .gates
            .iter()
            .map(|known| gate(&known.spec.run, &known.spec.name, known.from.to_string()));
        // Those that verify this task alone are told as `verify`.
        let of_stage = planned.stage.gates.iter().enumerate().map(|(at, spec)| {
            let from = known.and_then(|known| known.gates_from.get(at)).map(ToString::to_string);
            gate(&spec.run, &spec.name, from.unwrap_or_default())
        });
        let none = Vec::new();
        let prompt = StagePrompt {
            task: &task.spec,
            stage: &stage,
            ledger: &ReviewLedger::default(),
            past_refusals: refusals.get(&stage.name).unwrap_or(&none),
            user_says: None,
        };
        let count = format!("1/{}", planned.max_iterations);
        Ok(json!({
            "stage": stage.name,
            "mode": { "value": stage.mode, "from": from(|known| &known.mode_from) },
            "max_iterations": {
                "value": planned.max_iterations,
                "why": planned.why,
                "from": match stage.mode {
                    StageMode::Loop => from(|known| &known.max_iterations_from),
                    StageMode::SinglePass => from(|known| &known.mode_from),
                },
            },
            "promise": { "value": stage.promise, "from": promise_from },
            "verifies": { "value": stage.verifies, "from": from(|known| &known.verifies_from) },
            "evidence": stage.evidence(),
            "may_write": match stage.name.role().may_write {
                MayWrite::Anything => "anything",
                MayWrite::Tests => "tests",
                MayWrite::Nothing => "nothing",
            },
            "tests": { "value": stage.tests, "from": from(|known| &known.tests_from) },
            "agent": {
                "name": command.name,
                "model": command.model,
                "argv": argv,
                "from": agent_from,
                "model_from": stage.model.as_ref().map(|_| from(|known| &known.model_from)),
            },
            "gates": of_loops.chain(of_stage).collect::<Vec<Value>>(),
            "verify": own.and_then(|own| own.verify.as_ref()),
            "prompt": prompt.text().replace(StagePrompt::COUNT_MARK, &count),
        }))
    }
}
