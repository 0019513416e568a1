//! The flags that loops of `run` and of units have in common, and the policy they make with the configuration.

use std::path::Path;

use clap::Args;
use dacapo_core::{
    config::{Effective, EffectiveSandbox, SettingSource, Sourced, Typed, optional_pattern},
    duration::Millis,
    item::Item,
    judge::{contradiction::Patterns, promise::PromiseRule},
    policy::{AgentSettings, ClaimRules, GateRules, GateSpec, Limits, Pace, Policy, SetupCommand, TestsMode},
    sandbox::{SandboxMode, SandboxRules},
};
use dacapo_engine::{config_files::ConfigFiles, process::Programs, supervisor::StartError};

use super::{
    agents::{self, AgentFlags, Chosen},
    budget, value,
};
use crate::{
    error::{USAGE, UserError},
    report::Style,
};

/// The variable that names the agent when the user types none: it outranks files, but not what a unit's plan asks for (req 59).
const AGENT_VARIABLE: &str = "DACAPO_AGENT";

/// What can be said about every loop.
#[derive(Args, Debug, Clone)]
pub(super) struct LoopFlags {
    /// The agent: claude, codex, gemini, opencode, qwen, copilot, pi, or one of your own (default: DACAPO_AGENT,
    /// else as configured, else the first installed of claude, codex, gemini, opencode)
    #[arg(short = 'a', long, value_name = "NAME", value_parser = value::not_blank, conflicts_with = "agent_cmd")]
    pub(super) agent: Option<String>,
    /// The model the agent is to use, as the agent names it (default: the agent's own choice)
    #[arg(long, value_name = "M", value_parser = value::one_line, conflicts_with = "agent_cmd")]
    pub(super) model: Option<String>,
    /// Any program as agent: split like a shell would, no shell started; the prompt goes to its standard input, or
    /// where {prompt_file} or {prompt} stands
    #[arg(long, value_name = "CMD", value_parser = value::not_blank)]
    pub(super) agent_cmd: Option<String>,
    /// How the agent is spoken to: started for each iteration, or kept for the whole loop in one session, over the Agent
    /// Client Protocol (claude and codex by their adapters, gemini, opencode, qwen and copilot by themselves)
    #[arg(long, value_enum, value_name = "HOW", default_value_t = value::TransportFlag::Stdio)]
    pub(super) transport: value::TransportFlag,
    /// Give the agent the tools of `dacapo mcp`, where the agent takes them on its command line (claude, codex) or over ACP
    #[arg(long)]
    pub(super) mcp: bool,
    /// Arguments appended to the agent's own
    #[arg(last = true, value_name = "ARGS")]
    pub(super) agent_args: Vec<String>,
    /// CMD must exit 0 before a claim is believed, after the configured gates; its output is fed back when it does not
    #[arg(long, value_name = "CMD", value_parser = value::not_blank)]
    pub(super) gate: Vec<String>,
    /// A path, as a glob, that the agent may not change if its claim is to count, beside the configured ones; scripts
    /// that a gate names are protected by themselves
    #[arg(long, value_name = "GLOB", value_parser = value::not_blank)]
    protect: Vec<String>,
    /// What the agent may do with tests that are there already, and with what decides which of them run; a file may ask for
    /// more (default: as configured, else checked)
    #[arg(long, value_enum, value_name = "MODE")]
    tests: Option<value::TestsFlag>,
    /// Let the agent change tests freely: the same as `--tests free`
    #[arg(long, conflicts_with = "tests")]
    may_edit_tests: bool,
    /// What the agent and the gates may write: everything; everything but dacapo's own state, your startup and tool
    /// configuration and programs on PATH; or only the workspace, temporary files and the agent's own folders. A file may ask for
    /// more (default: as configured, else guard)
    #[arg(long, value_enum, value_name = "MODE")]
    sandbox: Option<value::SandboxFlag>,
    /// How long a gate may take that has no timeout of its own
    #[arg(long, value_name = "DUR", default_value = "5m")]
    pub(super) gate_timeout: Millis,
    /// Try a red gate again up to N times; what passes then is called flaky
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) gate_retries: u32,
    /// Believe a claim although nothing was changed
    #[arg(long)]
    allow_empty: bool,
    /// Leave what a red gate printed, and why a claim was refused, out of the next prompt
    #[arg(long)]
    no_feedback: bool,
    /// Refuse a claim whose own words contradict it ("still need to", "tests fail", …)
    #[arg(long)]
    contradictions: bool,
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
    /// How often dacapo looks whether the child loops have ended
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
    /// Agree to the commands that this repository's files define, for this run only
    #[arg(long)]
    pub(super) trust: bool,
    /// Run in the background and print how to follow it
    #[arg(long)]
    pub(super) detach: bool,
    #[command(flatten)]
    pub(super) style: Style,
}

/// What flags and configuration come to.
pub(super) struct ChosenSettings {
    pub(super) policy: Policy,
    /// The programs of its agents, as far as they were looked for.
    pub(super) programs: Programs,
    /// Everything that is in force, the parts that loops do not follow included.
    pub(super) effective: Effective,
    /// The flag, file or variable that names the agent.
    pub(super) agent_from: SettingSource,
    /// Why it would not start after all.
    pub(super) obstacle: Option<UserError>,
    /// What is left out, and why.
    pub(super) warnings: Vec<String>,
}

impl LoopFlags {
    /// What is typed about agents, whichever they are.
    pub(super) fn wanted(&self) -> AgentFlags<'_> {
        AgentFlags {
            model: self.model.as_ref(),
            extra: &self.agent_args,
            transport: self.transport.into(),
            tools: self.mcp,
        }
    }

    /// The stricter of what was typed and what is configured.
    fn tests_mode(&self, configured: &Sourced<TestsMode>) -> TestsMode {
        let typed = if self.may_edit_tests { Some(TestsMode::Free) } else { self.tests.map(TestsMode::from) };
        typed.unwrap_or_default().max(configured.value)
    }

    /// What an agent may do with tests of a loop with gates.
    fn tests_of_gates(&self, configured: &Sourced<TestsMode>) -> TestsMode {
        if self.tests.is_none() && !self.may_edit_tests {
            return tests_where_nothing_is_typed(configured);
        }
        self.tests_mode(configured)
    }

    /// What to say of a flag that asks for less than a file does, and so does not count.
    fn weaker_tests(&self, configured: &Sourced<TestsMode>) -> Option<String> {
        let flag = if self.may_edit_tests { "--may-edit-tests" } else { "--tests" };
        let typed = if self.may_edit_tests { Some(TestsMode::Free) } else { self.tests.map(TestsMode::from) };
        let is_weaker = typed.is_some_and(|typed| typed < configured.value);
        let is_of_file = matches!(configured.from, SettingSource::File { .. });
        (is_weaker && is_of_file)
            .then(|| format!("`{flag}` does not count: {} asks for stricter `tests`", configured.from))
    }

    /// What agents and gates may write and reach.
    fn sandbox_rules(&self, configured: &EffectiveSandbox) -> SandboxRules {
        sandbox_rules(configured, self.sandbox.map(SandboxMode::from))
    }

    /// What to say of `--sandbox` if the repository asks for more.
    fn weaker_sandbox(&self, configured: &EffectiveSandbox) -> Option<String> {
        let typed = SandboxMode::from(self.sandbox?);
        let least = configured.least.as_ref().filter(|least| least.value > typed)?;
        Some(format!("`--sandbox {typed}` does not count: {} asks for `{}`", least.from, least.value))
    }

    /// The policy that these flags make; the caller adds what is its own. `stand_in` is the agent that takes the place of one
    /// that cannot be started, where no agent will be started.
    pub(super) fn base(
        &self,
        configured: &ConfigFiles,
        max_iterations: Option<u32>,
        promise: PromiseRule,
        stand_in: Option<Sourced<String>>,
    ) -> Result<ChosenSettings, UserError> {
        let mut effective = configured.effective(&Typed {
            agent: self.agent.clone(),
            max_iterations,
            max_time: self.max_time,
            max_cost: self.max_cost,
            max_tokens: self.max_tokens,
            gates: self.gate.clone(),
            gate_timeout: self.gate_timeout,
        });
        if let (None, Some(name)) = (&self.agent, agent_of_environment()?) {
            effective.agent = Sourced { value: Some(name), from: SettingSource::Variable(AGENT_VARIABLE) };
        }
        let mut programs = Programs::default();
        let Chosen { command: agent, from: agent_from, mut fallback, obstacle, mut warnings } =
            match &self.agent_cmd {
                Some(line) => Chosen::typed(line, self.wanted(), &mut programs)?,
                None => {
                    let mut choose = |asked: &Effective| agents::choose(asked, self.wanted(), &mut programs);
                    let chosen = choose(&effective);
                    let is_missing = match &chosen {
                        Ok(chosen) => chosen.obstacle.is_some(),
                        Err(error) => error.exit != USAGE,
                    };
                    match stand_in.filter(|_| is_missing) {
                        Some(Sourced { value, from }) => {
                            effective.agent = Sourced { value: Some(value), from };
                            choose(&effective)?
                        }
                        None => chosen?,
                    }
                }
            };
        let budget = budget::allow(&effective, &agent)?;
        fallback.retain(|other| {
            let why = budget::unfit(&effective, &budget, other);
            warnings.extend(why.iter().map(|why| format!("fallback `{}` is left out: {why}", other.name)));
            why.is_none()
        });
        warnings.extend(budget.warnings);
        warnings.extend(self.weaker_tests(&effective.tests));
        warnings.extend(self.weaker_sandbox(&effective.sandbox));
        let contradictions =
            if self.contradictions { Patterns::default() } else { effective.contradictions.value.patterns() };
        let policy = Policy {
            agent: AgentSettings {
                fallback,
                // To keep one session is what an agent that stays is for.
                continue_session: agent.acp.is_some(),
                prices: effective.own_prices(),
                environment: effective.environment.value,
                ..AgentSettings::of(agent)
            },
            limits: Limits {
                max_iterations: effective.max_iterations.value,
                max_time: effective.max_time.value,
                max_cost: budget.max_cost,
                max_tokens: budget.max_tokens,
                per_day: budget.per_day,
                per_project: budget.per_project,
                iteration_timeout: self.iteration_timeout,
                idle_timeout: Some(self.idle_timeout),
                stuck_after: effective.stuck_after.value,
                ..Limits::default()
            },
            claims: ClaimRules { allow_empty: self.allow_empty, contradictions, ..ClaimRules::of(promise) },
            gates: GateRules {
                tests: self.tests_of_gates(&effective.tests),
                test_paths: effective.test_paths.iter().map(|path| path.value.clone()).collect(),
                ..gate_rules(&effective, self.gate_retries, &self.protect, !self.no_feedback)
            },
            pace: Pace {
                restart_delay: self.restart_delay,
                wait_timeout: self.wait_timeout,
                poll_interval: self.poll_interval,
                kill_grace: self.kill_grace,
                backoff: effective.backoff.value,
                ..Pace::default()
            },
            items: vec![Item::whole()],
            source: None,
            sandbox: self.sandbox_rules(&effective.sandbox),
        };
        Ok(ChosenSettings { policy, programs, effective, agent_from, obstacle, warnings })
    }
}

/// What an agent may do with tests where no flag says so. Where no file does, either, the gates have to pass with them as they were.
pub(super) fn tests_where_nothing_is_typed(configured: &Sourced<TestsMode>) -> TestsMode {
    if configured.from == SettingSource::Default { TestsMode::Checked } else { configured.value }
}

/// What agents and gates may write and reach, by the configuration and by the mode that was typed.
pub(super) fn sandbox_rules(configured: &EffectiveSandbox, typed: Option<SandboxMode>) -> SandboxRules {
    let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
    configured.rules(typed, home.as_deref())
}

/// The gates and protected paths of the configuration and of what was typed. Each gate is tried again as often as `retries` or its
/// own setting says.
pub(super) fn gate_rules(
    effective: &Effective,
    retries: u32,
    protect: &[String],
    feedback: bool,
) -> GateRules {
    let specs = effective
        .gates
        .iter()
        .map(|gate| GateSpec { retries: gate.spec.retries.max(retries), ..gate.spec.clone() });
    let setup = effective
        .setup
        .iter()
        .map(|step| SetupCommand { run: step.value.run.clone(), only_if: step.value.condition.clone() });
    let patterns = || effective.protect.iter().map(|glob| &glob.value).chain(protect);
    GateRules {
        specs: specs.collect(),
        run_in: effective.gate_in.value,
        from: effective.gate_from.value,
        setup: setup.collect(),
        must_match: patterns().filter(|pattern| optional_pattern(pattern).is_none()).cloned().collect(),
        protect: patterns().map(|pattern| optional_pattern(pattern).unwrap_or(pattern).to_owned()).collect(),
        baseline: effective.baseline.value,
        tolerate_baseline: effective.tolerate_baseline.value,
        red_first: effective.red_first.value,
        feedback,
        ..GateRules::default()
    }
}

/// Refuses patterns that protect nothing of the repository at `root`, before a run of several loops begins. One loop looks by itself.
pub(super) fn refuse_idle_patterns(
    root: &Path,
    policy: &Policy,
    configured: &ConfigFiles,
) -> Result<(), UserError> {
    match dacapo_engine::goalposts::idle_pattern(root, &policy.gates.must_match) {
        Some(pattern) => Err(not_started(StartError::ProtectsNothing(pattern), configured)),
        None => Ok(()),
    }
}

/// Why no loop began. A mistake that stands in a configuration file is shown there.
pub(super) fn not_started(error: StartError, configured: &ConfigFiles) -> UserError {
    let problem = match &error {
        StartError::ProtectsNothing(pattern) => {
            let files = [&configured.repository, &configured.user];
            files.into_iter().find_map(|file| file.protects_nothing(pattern))
        }
        _ => None,
    };
    match problem {
        Some(problem) => UserError::mistake(&problem),
        None => error.into(),
    }
}

/// What the environment says about the agent; a blank value says nothing.
fn agent_of_environment() -> Result<Option<String>, UserError> {
    let Some(value) = std::env::var_os(AGENT_VARIABLE) else { return Ok(None) };
    let name = value.to_str().ok_or_else(|| UserError::usage(format!("{AGENT_VARIABLE} is not text")))?;
    Ok(Some(name.trim()).filter(|name| !name.is_empty()).map(str::to_owned))
}
