//! `dacapo run`.

use dacapo_engine::process::background::is_background;
use std::{io::Read, path::PathBuf};

use clap::Args;
use dacapo_core::{
    config::{Effective, Source, Typed},
    duration::Millis,
    ids::{LoopId, ProjectId, TaskId},
    judge::contradiction::Patterns,
    judge::promise::PromiseRule,
    policy::{CommitRule, GateSpec, Policy, SetupCommand},
};
use dacapo_engine::supervisor::{self, NewLoop};

use super::{
    agents::{self, Chosen},
    budget,
    configured::{self, Configured},
    consent, detach, value,
};
use crate::{
    context::Context,
    error::UserError,
    report::{Style, reporter},
};

/// Run one loop: an agent, from the top, until the work is done
///
/// The agent is started again and again with the same prompt until it claims to be done and every gate agrees, or a
/// limit is reached. Ctrl-C stops it; `dacapo resume` goes on.
#[derive(Args, Debug, Clone)]
#[command(
    after_help = "Examples:\n  dacapo run \"make the tests pass\" --gate \"cargo test\" -n 20\n  dacapo run -P PROMPT.md --agent codex --model gpt-5-codex --max-cost 5\n  dacapo run \"tidy up\" --agent-cmd \"my-agent --yolo\" --until-cmd \"make lint\""
)]
pub(super) struct RunArgs {
    /// What the agent is asked to do (default: PROMPT.md in the folder)
    #[arg(value_parser = value::not_blank)]
    prompt: Option<String>,
    /// Read the prompt from FILE, `-` for standard input
    #[arg(short = 'P', long, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// The agent: claude, codex, gemini, opencode, qwen, copilot, pi, or one of your own (default: as configured, else
    /// the first installed of claude, codex, gemini, opencode)
    #[arg(short = 'a', long, value_name = "NAME", value_parser = value::not_blank, conflicts_with = "agent_cmd")]
    agent: Option<String>,
    /// The model the agent is to use, as the agent names it (default: the agent's own choice)
    #[arg(long, value_name = "M", value_parser = value::one_line, conflicts_with = "agent_cmd")]
    model: Option<String>,
    /// Any program as agent: split like a shell would, no shell started; the prompt goes to its standard input, or
    /// where {prompt_file} or {prompt} stands
    #[arg(long, value_name = "CMD", value_parser = value::not_blank)]
    agent_cmd: Option<String>,
    /// Arguments appended to the agent's own
    #[arg(last = true, value_name = "ARGS")]
    agent_args: Vec<String>,
    /// Stop after N iterations (default: as configured, else 100)
    #[arg(short = 'n', long, alias = "max-restarts", value_name = "N", value_parser = value::positive, allow_hyphen_values = true)]
    max_iterations: Option<u32>,
    /// The words of the promise by which the agent says that it is done
    #[arg(long, alias = "until", value_name = "TEXT", default_value = "DONE", value_parser = value::one_line)]
    completion_promise: String,
    /// Demand a promise with a code that is new in every iteration
    #[arg(long)]
    promise_nonce: bool,
    /// Done when CMD exits 0 after an iteration, claim or no claim; given several times, all must
    #[arg(long, value_name = "CMD", value_parser = value::not_blank)]
    until_cmd: Vec<String>,
    /// CMD must exit 0 before a claim is believed, after the configured gates; its output is fed back when it does not
    #[arg(long, value_name = "CMD", value_parser = value::not_blank)]
    gate: Vec<String>,
    /// A path, as a glob, that the agent may not change if its claim is to count, beside the configured ones; scripts
    /// that a gate names are protected by themselves
    #[arg(long, value_name = "GLOB", value_parser = value::not_blank)]
    protect: Vec<String>,
    /// How long a gate may take that has no timeout of its own
    #[arg(long, value_name = "DUR", default_value = "5m")]
    gate_timeout: Millis,
    /// Try a red gate again up to N times; what passes then is called flaky
    #[arg(long, value_name = "N", default_value_t = 0)]
    gate_retries: u32,
    /// Where gates run: in the workspace, or in a fresh checkout of what would be kept
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = value::GateIn::Workspace)]
    gate_in: value::GateIn,
    /// Whose protected paths gates see: the workspace's, or those from the start (changes are then listed, not refused)
    #[arg(long, value_enum, value_name = "WHOSE", default_value_t = value::GateFrom::Workspace)]
    gate_from: value::GateFrom,
    /// Run the gates once before the first agent, to know what was red already
    #[arg(long)]
    baseline: bool,
    /// Demand that every gate is red before the first agent
    #[arg(long)]
    red_first: bool,
    /// Believe a claim although nothing was changed
    #[arg(long)]
    allow_empty: bool,
    /// Refuse a claim whose own words contradict it ("still need to", "tests fail", …)
    #[arg(long)]
    contradictions: bool,
    /// Commit what was kept, once, with the trailer `Dacapo: LOOP/ITERATION`
    #[arg(long)]
    commit: bool,
    /// The words of that commit
    #[arg(long, value_name = "TEXT", requires = "commit", value_parser = value::not_blank)]
    commit_message: Option<String>,
    /// Stop after N iterations in a row without progress (default: a warning after 5)
    #[arg(long, value_name = "N", value_parser = value::positive, allow_hyphen_values = true)]
    stuck_after: Option<u32>,
    /// Pause between iterations
    #[arg(long, value_name = "DUR", default_value = "1s")]
    restart_delay: Millis,
    /// How long one iteration may take (default: no limit)
    #[arg(long, value_name = "DUR")]
    iteration_timeout: Option<Millis>,
    /// How long the agent may be silent
    #[arg(long, value_name = "DUR", default_value = "30m")]
    idle_timeout: Millis,
    /// How long a claim waits for child loops
    #[arg(long, value_name = "DUR", default_value = "300s")]
    wait_timeout: Millis,
    /// How often it looks whether they ended
    #[arg(long, value_name = "DUR", default_value = "1s")]
    poll_interval: Millis,
    /// Time between asking a process to end and killing it
    #[arg(long, value_name = "DUR", default_value = "5s")]
    kill_grace: Millis,
    /// How long agents, checks and delays may take together (default: as configured, else no limit)
    #[arg(long, value_name = "DUR")]
    max_time: Option<Millis>,
    /// US dollars that agents may cost together (default: as configured, else no limit)
    #[arg(long, value_name = "USD", value_parser = value::dollars, allow_hyphen_values = true)]
    max_cost: Option<f64>,
    /// Tokens that agents may use together (default: as configured, else no limit)
    #[arg(long, value_name = "N", value_parser = value::tokens, allow_hyphen_values = true)]
    max_tokens: Option<u64>,
    /// Begin every iteration with a fresh session; this is the default
    #[arg(long, conflicts_with = "continue_session")]
    fresh: bool,
    /// Go on, from the second iteration on, with the session of the iteration before
    #[arg(long)]
    continue_session: bool,
    /// The project (default: from the folder)
    #[arg(long, value_name = "ID")]
    project: Option<ProjectId>,
    /// The task (default: made from the prompt)
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    /// Start only when TASK is done
    #[arg(long, value_name = "TASK")]
    after: Vec<TaskId>,
    /// Where the agent works (default: here)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Agree to the commands of this repository's .dacapo/config.yaml, for this run only
    #[arg(long)]
    pub(super) trust: bool,
    /// Run in the background and print how to follow it
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    pub(super) style: Style,
}

/// A loop that can begin, and what it was made from.
pub(super) struct Plan {
    pub(super) new: NewLoop,
    /// Everything that is in force, the parts that loops do not follow yet included.
    pub(super) effective: Effective,
    pub(super) configured: Configured,
    /// Who chose the agent.
    pub(super) agent_from: Source,
    /// Why it would not start after all.
    pub(super) obstacle: Option<UserError>,
    /// What is left out, and why.
    pub(super) warnings: Vec<String>,
}

impl RunArgs {
    /// What was typed and what is configured, as a loop that can begin. Nothing of the repository runs for it.
    pub(super) fn plan(&self) -> Result<Plan, UserError> {
        let workspace = Context::folder(self.dir.as_ref())?;
        let mut promise = PromiseRule::new(&self.completion_promise)
            .map_err(|error| UserError::usage(format!("--completion-promise: {error}")))?;
        promise.nonce = self.promise_nonce;
        let configured = Configured::load(&workspace)?;
        let effective = configured.effective(&Typed {
            agent: self.agent.clone(),
            max_iterations: self.max_iterations,
            max_time: self.max_time,
            max_cost: self.max_cost,
            max_tokens: self.max_tokens,
            gates: self.gate.clone(),
            gate_timeout: self.gate_timeout,
        });
        let Chosen { command: agent, from: agent_from, mut fallback, obstacle, mut warnings } =
            match &self.agent_cmd {
                Some(line) => Chosen::typed(line, &self.agent_args)?,
                None => agents::choose(&effective, self.model.as_ref(), &self.agent_args)?,
            };
        if self.continue_session && !agent.can_continue() {
            return Err(UserError::usage(format!("agent `{}` cannot go on with a session", agent.name))
                .hint("leave `--continue-session` out, or say how with `agents.NAME.resume` in your configuration"));
        }
        let budget = budget::allow(&effective, &agent)?;
        fallback.retain(|other| {
            let why = budget::unfit(&effective, &budget, other);
            warnings.extend(why.iter().map(|why| format!("fallback `{}` is left out: {why}", other.name)));
            why.is_none()
        });
        warnings.extend(budget.warnings);
        let policy = Policy {
            max_iterations: effective.max_iterations.value,
            max_time: effective.max_time.value,
            max_cost: budget.max_cost,
            max_tokens: budget.max_tokens,
            per_day: budget.per_day,
            per_project: budget.per_project,
            continue_session: self.continue_session,
            fallback,
            backoff: effective.backoff.value,
            prices: effective.own_prices(),
            environment: effective.environment.value,
            until: self.until_cmd.clone(),
            gates: effective
                .gates
                .iter()
                .map(|gate| GateSpec {
                    retries: gate.spec.retries.max(self.gate_retries),
                    ..gate.spec.clone()
                })
                .collect(),
            protect: effective.protect.iter().map(|glob| &glob.value).chain(&self.protect).cloned().collect(),
            gate_in: effective.gate_in.value.max(self.gate_in.into()),
            gate_from: effective.gate_from.value.max(self.gate_from.into()),
            setup: effective
                .setup
                .iter()
                .map(|step| SetupCommand {
                    run: step.value.run.clone(),
                    only_if: step.value.condition.clone(),
                })
                .collect(),
            baseline: self.baseline || effective.baseline.value,
            tolerate_baseline: effective.tolerate_baseline.value,
            red_first: self.red_first || effective.red_first.value,
            allow_empty: self.allow_empty,
            contradictions: if self.contradictions {
                Patterns::default()
            } else {
                effective.contradictions.value.patterns()
            },
            commit: self.commit.then(|| CommitRule { message: self.commit_message.clone() }),
            stuck_after: self.stuck_after.or(effective.stuck_after.value),
            restart_delay: self.restart_delay,
            iteration_timeout: self.iteration_timeout,
            idle_timeout: Some(self.idle_timeout),
            wait_timeout: self.wait_timeout,
            poll_interval: self.poll_interval,
            kill_grace: self.kill_grace,
            ..Policy::restart(agent, promise)
        };
        if let Some(problem) = policy.problems().into_iter().next() {
            return Err(UserError::usage(problem));
        }
        let new = NewLoop {
            policy,
            prompt: self.prompt_text(&workspace)?,
            project: self.project.clone().unwrap_or_else(|| Context::project_of(&workspace)),
            task: self.task.clone(),
            workspace,
            after: self.after.clone(),
            parent: std::env::var("DACAPO_LOOP").ok().and_then(|id| id.parse::<LoopId>().ok()),
            run: None,
            is_detached: is_background(),
        };
        // Before anything of it is kept or shown to others.
        supervisor::refuse_secrets(&new)?;
        Ok(Plan { new, effective, configured, agent_from, obstacle, warnings })
    }

    /// The prompt: the argument, a file, PROMPT.md, or `None` to use the task's own TASK.md.
    fn prompt_text(&self, workspace: &std::path::Path) -> Result<Option<String>, UserError> {
        if let Some(prompt) = &self.prompt {
            return Ok(Some(prompt.clone()));
        }
        let (file, is_named) = match &self.prompt_file {
            Some(file) => (file.clone(), true),
            None => (workspace.join("PROMPT.md"), false),
        };
        let read = if file.as_os_str() == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(&file)
        };
        match read {
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => {
                    Err(UserError::usage(format!("the prompt in `{}` is blank", file.display())))
                }
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(UserError::usage(format!(
                    "the prompt in `{}` is not UTF-8 (at byte {})",
                    file.display(),
                    error.utf8_error().valid_up_to()
                ))),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {
                if self.task.is_some() {
                    return Ok(None);
                }
                Err(UserError::usage("there is no prompt, and no PROMPT.md here")
                    .hint("`dacapo run \"what to do\"`, `-P FILE`, or `-P -` for standard input"))
            }
            Err(error) => {
                Err(UserError::usage(format!("cannot read the prompt `{}`: {error}", file.display())))
            }
        }
    }
}

pub(super) fn run(cx: &Context, args: &RunArgs) -> Result<u8, UserError> {
    if args.detach && args.prompt_file.as_deref() == Some(std::path::Path::new("-")) {
        return Err(UserError::usage("`--detach` cannot read the prompt from standard input")
            .hint("write it to a file and give that with `-P FILE`"));
    }
    // Also before going to the background, so that mistakes and questions show up where they were typed.
    let Plan { new, configured, obstacle, warnings, .. } = args.plan()?;
    if let Some(obstacle) = obstacle {
        return Err(obstacle);
    }
    consent::require(&cx.home, &configured, args.trust)?;
    if !is_background() {
        configured::warn(&warnings);
        if args.detach {
            return detach::detach();
        }
    }
    let mut observer = reporter(&args.style);
    let finished = supervisor::run(&cx.home, new, observer.as_mut())?;
    drop(observer);
    Ok(crate::report::last_line(&finished))
}
