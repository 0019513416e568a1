//! Who decides what: what was typed, what the user's file says, what the repository's says, and the defaults.
//!
//! A repository may ask for less of the user's time and for more checking, never for the opposite: limits are the
//! smaller of the two, checks the stricter, lists are added up.

use std::fmt;

use super::{
    AgentSection, At, BudgetSetting, Config, Contradictions, EffectiveSandbox, EffectiveSession,
    EffectiveStages, EffectiveUnits, PriceSetting, SetupStep, sandbox, session, stages, units, workflows,
};
use crate::{
    agent::EnvironmentRule,
    duration::Millis,
    judge::evidence::Evidence,
    limits::{self, Budget, Prices},
    notify::NotifyRule,
    policy::{GateFrom, GateIn, GateSpec, Origin, TestsMode},
};

/// How many iterations a loop has unless a flag or a file says otherwise.
const DEFAULT_ITERATIONS: u32 = 100;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingSource {
    Default,
    Flag(&'static str),
    /// It is in the environment.
    Variable(&'static str),
    /// It stands in a file.
    File {
        /// As it is shown to people.
        file: String,
        line: u32,
    },
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Flag(name) | Self::Variable(name) => f.write_str(name),
            Self::File { file, line } => write!(f, "{file}:{line}"),
        }
    }
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub from: SettingSource,
}

/// What was typed and has a place in configuration files, too.
#[derive(Clone, Debug, PartialEq)]
pub struct Typed {
    pub agent: Option<String>,
    pub max_iterations: Option<u32>,
    pub max_time: Option<Millis>,
    pub max_cost: Option<f64>,
    pub max_tokens: Option<u64>,
    pub gates: Vec<String>,
    /// `--gate-timeout`, for gates that have no timeout of their own.
    pub gate_timeout: Millis,
}

impl Default for Typed {
    fn default() -> Self {
        Self {
            agent: None,
            max_iterations: None,
            max_time: None,
            max_cost: None,
            max_tokens: None,
            gates: Vec::new(),
            gate_timeout: GateSpec::TIMEOUT,
        }
    }
}

/// A gate that is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveGate {
    pub spec: GateSpec,
    pub from: SettingSource,
}

/// What may be spent, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    pub max_cost: Sourced<Option<f64>>,
    pub max_tokens: Sourced<Option<u64>>,
}

impl Allowance {
    pub fn budget(&self) -> Budget {
        Budget { max_cost: self.max_cost.value, max_tokens: self.max_tokens.value }
    }

    /// Who says so; of two the one who limits money.
    pub fn from(&self) -> &SettingSource {
        if self.max_cost.value.is_some() { &self.max_cost.from } else { &self.max_tokens.from }
    }
}

/// What is in force, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The agent to use, if a flag or a file names one.
    pub agent: Sourced<Option<String>>,
    /// Agents that the user defines or changes.
    pub agents: Vec<Sourced<AgentSection>>,
    /// Agents to go to when a provider is at its limit.
    pub fallback: Sourced<Vec<String>>,
    pub environment: Sourced<EnvironmentRule>,
    /// Whether agents are started in the mode in which they ask the user nothing.
    pub unattended: Sourced<bool>,
    /// Whether every agent may do so as root.
    pub allow_root: Sourced<bool>,
    /// Prices that the user gives.
    pub prices: Vec<Sourced<PriceSetting>>,
    /// What one loop may spend.
    pub budget: Allowance,
    /// What all loops may spend in a day.
    pub per_day: Allowance,
    /// What all loops of a project may spend.
    pub per_project: Allowance,
    /// How long an outage is waited out at first.
    pub backoff: Sourced<Millis>,
    /// Charged iterations at most.
    pub max_iterations: Sourced<u32>,
    /// How long agents, checks and delays may take together.
    pub max_time: Sourced<Option<Millis>>,
    /// Iterations without progress after which a loop stops.
    pub stuck_after: Sourced<Option<u32>>,
    /// The user's, then the repository's, then those that were typed.
    pub gates: Vec<EffectiveGate>,
    /// Paths the agent may not change.
    pub protect: Vec<Sourced<String>>,
    /// What makes a fresh checkout ready.
    pub setup: Vec<Sourced<SetupStep>>,
    /// What ends with a checkout.
    pub teardown: Vec<Sourced<SetupStep>>,
    pub units: EffectiveUnits,
    pub sandbox: EffectiveSandbox,
    pub session: EffectiveSession,
    pub stages: EffectiveStages,
    /// A folder of command files beside those that are always looked into, from the top of the repository.
    pub commands: Sourced<Option<String>>,
    /// Whether gates run once before the first agent.
    pub baseline: Sourced<bool>,
    /// Whether a gate must have been red on the base.
    pub red_first: Sourced<bool>,
    pub gate_in: Sourced<GateIn>,
    /// What an agent may do with tests that are there already.
    pub tests: Sourced<TestsMode>,
    /// Tests beside those that are known by convention.
    pub test_paths: Vec<Sourced<String>>,
    /// With whose protected paths gates run.
    pub gate_from: Sourced<GateFrom>,
    /// Whether a gate that was red before may stay red.
    pub tolerate_baseline: Sourced<bool>,
    /// Which words speak against a claim.
    pub contradictions: Sourced<Contradictions>,
    /// What an agent must show beside its claim.
    pub evidence: Vec<Sourced<Evidence>>,
    /// How long snapshots are kept, if a flag or a file says so.
    pub snapshots_keep: Sourced<Option<Millis>>,
    /// Whom to tell of what: the user's, then the repository's.
    pub notify: Vec<Sourced<NotifyRule>>,
}

/// What follows from both files and from what was typed.
pub fn resolve(user: &Config, repository: &Config, typed: &Typed) -> Effective {
    let both = Both { user, repository };
    let contradictions = both.pick(
        |c| c.contradictions.clone(),
        |user, repository| {
            // Both lists count; `off` of either adds nothing.
            let mut phrases = user.phrases.clone();
            phrases
                .extend(repository.phrases.iter().filter(|phrase| !user.phrases.contains(phrase)).cloned());
            Contradictions { defaults: user.defaults || repository.defaults, phrases }
        },
    );
    let mut budget = both.allowance(|c| &c.limits.budget);
    if let Some(cost) = typed.max_cost {
        budget.max_cost = Sourced { value: Some(cost), from: SettingSource::Flag("--max-cost") };
    }
    if let Some(tokens) = typed.max_tokens {
        budget.max_tokens = Sourced { value: Some(tokens), from: SettingSource::Flag("--max-tokens") };
    }
    let users = |value| Sourced { value, from: SettingSource::Default };
    let max_iterations = match typed.max_iterations {
        Some(value) => Sourced { value, from: SettingSource::Flag("--max-iterations") },
        None => {
            let limit = both.limit(|c| c.limits.max_iterations.clone(), Some(DEFAULT_ITERATIONS));
            Sourced { value: limit.value.unwrap_or(DEFAULT_ITERATIONS), from: limit.from }
        }
    };
    Effective {
        agent: match &typed.agent {
            Some(agent) => Sourced { value: Some(agent.clone()), from: SettingSource::Flag("--agent") },
            // The user pays, so the user's choice outranks the repository's.
            None => both.pick(|c| c.agents.agent.clone().map(some), |user, _| user.clone()),
        },
        agents: both.all(|c| &c.agents.agents),
        fallback: both.pick(|c| c.agents.fallback.clone(), |user, _| user.clone()),
        environment: both.pick(|c| c.agents.environment.clone(), |user, _| *user),
        unattended: user.permissions.unattended.as_ref().map_or(users(true), |at| at.sourced(user)),
        allow_root: user.permissions.allow_root.as_ref().map_or(users(false), |at| at.sourced(user)),
        prices: both.all(|c| &c.prices),
        budget,
        per_day: both.allowance(|c| &c.limits.per_day),
        per_project: both.allowance(|c| &c.limits.per_project),
        backoff: user
            .limits
            .backoff
            .as_ref()
            .map_or(Sourced { value: limits::backoff::FIRST, from: SettingSource::Default }, |at| {
                at.sourced(user)
            }),
        max_time: match typed.max_time {
            Some(value) => Sourced { value: Some(value), from: SettingSource::Flag("--max-time") },
            None => both.limit(|c| c.limits.max_time.clone(), None),
        },
        stuck_after: both.limit(|c| c.limits.stuck_after.clone(), None),
        gates: gates(&both, typed),
        protect: both.all(|c| &c.protect),
        setup: both.all(|c| &c.worktree.setup),
        teardown: both.all(|c| &c.worktree.teardown),
        units: units::resolve(&both),
        sandbox: sandbox::resolve(user, repository),
        session: session::resolve(&both),
        stages: stages::resolve(&both, max_iterations.value),
        max_iterations,
        commands: workflows::resolve(&both),
        baseline: both.pick(|c| c.checks.baseline.clone(), |a, b| *a || *b),
        red_first: both.pick(|c| c.checks.red_first.clone(), |a, b| *a || *b),
        gate_in: both.pick(|c| c.checks.gate_in.clone(), |a, b| *a.max(b)),
        tests: both.pick(|c| c.checks.tests_mode.clone(), |a, b| *a.max(b)),
        test_paths: both.all(|c| &c.checks.test_paths),
        gate_from: both.pick(|c| c.checks.gate_from.clone(), |a, b| *a.max(b)),
        tolerate_baseline: both.pick(|c| c.checks.tolerate_baseline.clone(), |a, b| *a && *b),
        contradictions,
        evidence: both.all(|c| &c.evidence),
        // The disk is the user's.
        snapshots_keep: both.pick(|c| c.snapshots.keep.clone().map(some), |user, _| *user),
        notify: both.all(|c| &c.notify),
    }
}

fn some<T>(at: At<T>) -> At<Option<T>> {
    At { value: Some(at.value), line: at.line }
}

fn gates(both: &Both<'_>, typed: &Typed) -> Vec<EffectiveGate> {
    let configured = |config: &Config, origin| -> Vec<EffectiveGate> {
        config
            .gates
            .iter()
            .map(|At { value: gate, line }| EffectiveGate {
                spec: GateSpec {
                    name: gate.name.clone(),
                    timeout: gate.timeout.unwrap_or(typed.gate_timeout),
                    retries: gate.retries,
                    origin,
                    ..GateSpec::of_command(&gate.run)
                },
                from: SettingSource::File { file: config.file.clone(), line: *line },
            })
            .collect()
    };
    let mut gates = configured(both.user, Origin::User);
    gates.extend(configured(both.repository, Origin::Repository));
    gates.extend(typed.gates.iter().map(|run| EffectiveGate {
        spec: GateSpec { timeout: typed.gate_timeout, ..GateSpec::of_command(run) },
        from: SettingSource::Flag("--gate"),
    }));
    gates
}

pub(super) struct Both<'a> {
    pub(super) user: &'a Config,
    pub(super) repository: &'a Config,
}

impl Both<'_> {
    /// The user's word or the default, unless the repository's is smaller.
    pub(super) fn limit<T: Copy + PartialOrd>(
        &self,
        of: impl Fn(&Config) -> Option<At<T>>,
        default: Option<T>,
    ) -> Sourced<Option<T>> {
        let users = match of(self.user) {
            Some(at) => Sourced { value: Some(at.value), from: source(self.user, at.line) },
            None => Sourced { value: default, from: SettingSource::Default },
        };
        match of(self.repository) {
            Some(at) if users.value.is_none_or(|limit| at.value < limit) => {
                Sourced { value: Some(at.value), from: source(self.repository, at.line) }
            }
            _ => users,
        }
    }

    /// Money and tokens, each as a limit of its own.
    fn allowance(&self, of: impl Fn(&Config) -> &BudgetSetting) -> Allowance {
        Allowance {
            max_cost: self.limit(|c| of(c).max_cost.clone(), None),
            max_tokens: self.limit(|c| of(c).max_tokens.clone(), None),
        }
    }

    /// The user's value or the repository's; if both have one, what `settle` makes of the two.
    pub(super) fn pick<T: Clone + Default + PartialEq>(
        &self,
        of: impl Fn(&Config) -> Option<At<T>>,
        settle: impl Fn(&T, &T) -> T,
    ) -> Sourced<T> {
        match (of(self.user), of(self.repository)) {
            (None, None) => Sourced { value: T::default(), from: SettingSource::Default },
            (Some(at), None) => Sourced { value: at.value, from: source(self.user, at.line) },
            (None, Some(at)) => Sourced { value: at.value, from: source(self.repository, at.line) },
            (Some(user), Some(repository)) => {
                let value = settle(&user.value, &repository.value);
                let from = if value == user.value {
                    source(self.user, user.line)
                } else {
                    source(self.repository, repository.line)
                };
                Sourced { value, from }
            }
        }
    }

    fn all<T: Clone>(&self, of: impl Fn(&Config) -> &Vec<At<T>>) -> Vec<Sourced<T>> {
        [self.user, self.repository]
            .into_iter()
            .flat_map(|config| {
                of(config)
                    .iter()
                    .map(|at| Sourced { value: at.value.clone(), from: source(config, at.line) })
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

impl Effective {
    /// Whether the repository's own configuration says what is checked. An agent that empties it would have no checks the next time.
    pub fn is_checked_by_repository(&self) -> bool {
        let gates = self.gates.iter().map(|gate| gate.spec.origin);
        gates
            .chain(self.units.baseline.iter().map(|check| check.origin))
            .chain(
                self.stages.stages.iter().flat_map(|known| known.stage.gates.iter().map(|gate| gate.origin)),
            )
            .any(|from| from == Origin::Repository)
    }

    /// Prices that go before the ones that are built in.
    pub fn own_prices(&self) -> Prices {
        Prices(self.prices.iter().map(|price| (price.value.model.clone(), price.value.price)).collect())
    }
}

impl<T: Clone> At<T> {
    fn sourced(&self, config: &Config) -> Sourced<T> {
        Sourced { value: self.value.clone(), from: source(config, self.line) }
    }
}

pub(super) fn source(config: &Config, line: u32) -> SettingSource {
    SettingSource::File { file: config.file.clone(), line }
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
