//! What configuration files say: a repository's `.dacapo/config.yaml` and the user's own, read alike.
//!
//! Each section has its file with its keys, its checks and its tests. [`resolve`] says who may decide what.

mod agents;
mod checks;
mod chosen;
mod contradictions;
mod evidence;
mod gates;
mod layers;
mod limits;
mod notify;
mod paths;
mod permissions;
mod prices;
mod problem;
mod sandbox;
mod section;
mod serve;
mod session;
mod snapshots;
mod stages;
mod starter;
mod units;
mod workflows;
mod worktree;

pub use agents::{AgentSection, Agents};
pub use checks::ChecksSection;
pub use chosen::ChoiceError;
pub use contradictions::Contradictions;
pub use gates::Gate;
pub use layers::{Allowance, Effective, EffectiveGate, SettingSource, Sourced, Typed, resolve};
pub use limits::{BudgetSetting, LimitsSection};
pub use paths::optional_pattern;
pub use permissions::PermissionsSection;
pub use prices::PriceSetting;
pub(crate) use problem::write_problem;
pub use problem::{ConfigProblem, Problems};
pub use sandbox::{EffectiveSandbox, SandboxSection};
pub use serve::{ChatService, SecretFrom, ServeSection, WebhookService};
pub use session::{EffectiveSession, SessionSection};
pub use snapshots::Snapshots;
pub use stages::{EffectiveStage, EffectiveStages, StageSection, Stages, self_review};
pub use starter::{Tests, guess_tests, starter};
pub use units::{CheckSetting, EffectiveCheck, EffectiveUnits, Units, is_branch};
pub use workflows::Workflows;
pub use worktree::{SetupStep, WorktreeSection};

use layers::Both;
use section::ConfigSection;

use crate::{judge::evidence::Evidence, notify::NotifyRule, problem::Spot, stages::StageName};

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The person who runs dacapo.
    User,
    /// The authors of the repository, who decide about nothing but its own checks.
    Repository,
}

/// A value and the line it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    pub value: T,
    pub line: u32,
}

/// One configuration file; everything in it is optional.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The file, as it is shown to people.
    pub file: String,
    pub limits: LimitsSection,
    pub gates: Vec<At<Gate>>,
    pub protect: Vec<At<String>>,
    /// Where each pattern of `protect` stands.
    protect_spots: Vec<Spot>,
    pub worktree: WorktreeSection,
    pub units: Units,
    pub workflows: Workflows,
    /// `baseline`, `red_first`, `gate_in`, `gate_from`, `tolerate_baseline`.
    pub checks: ChecksSection,
    pub contradictions: Option<At<Contradictions>>,
    pub evidence: Vec<At<Evidence>>,
    pub session: SessionSection,
    pub sandbox: SandboxSection,
    pub snapshots: Snapshots,
    pub notify: Vec<At<NotifyRule>>,
    /// `ralph` and `stages`.
    pub stages: Stages,
    /// `agent`, `agents`, `fallback`, `environment`.
    pub agents: Agents,
    pub prices: Vec<At<PriceSetting>>,
    pub permissions: PermissionsSection,
    pub serve: ServeSection,
}

/// The keys of a file; those from `agents` on are the user's alone.
pub const KEYS: [&str; 27] = [
    "limits",
    "agent",
    "gates",
    "protect",
    "worktree",
    "units",
    "workflows",
    "ralph",
    "stages",
    "baseline",
    "red_first",
    "gate_in",
    "gate_from",
    "tolerate_baseline",
    "tests",
    "contradictions",
    "evidence",
    "sandbox",
    "session",
    "snapshots",
    "notify",
    "agents",
    "fallback",
    "environment",
    "permissions",
    "prices",
    "serve",
];

/// Every key there is, written as a path, for the documentation to be held against.
pub fn all_keys() -> Vec<String> {
    let below = |section: &str, keys: &[&str]| keys.iter().map(|key| format!("{section}.{key}")).collect();
    let parts: [Vec<String>; 29] = [
        KEYS.map(str::to_owned).into(),
        below("limits", &limits::KEYS),
        below("limits.per_day", &limits::BUDGET_KEYS),
        below("limits.per_project", &limits::BUDGET_KEYS),
        below("gates[]", &gates::KEYS),
        below("tests", &checks::TESTS_KEYS),
        below("worktree", &worktree::KEYS),
        below("worktree.setup[]", &worktree::STEP_KEYS),
        below("worktree.teardown[]", &worktree::STEP_KEYS),
        below("units", &units::KEYS),
        below("units.baseline[]", &units::BASELINE_KEYS),
        below("workflows", &workflows::KEYS),
        below("ralph", &stages::RALPH_KEYS),
        below("ralph.STAGE", &stages::LOOP_KEYS),
        below("stages", &StageName::WORDS),
        below("stages.STAGE", &stages::STAGE_KEYS),
        below("stages.STAGE.gates[]", &gates::KEYS),
        below("sandbox", &sandbox::KEYS),
        below("session", &session::KEYS),
        below("snapshots", &snapshots::KEYS),
        below("notify[]", &notify::KEYS),
        below("agents.NAME", &agents::KEYS),
        below("permissions", &permissions::KEYS),
        below("prices.MODEL", &prices::KEYS),
        below("serve", &serve::KEYS),
        below("serve.webhook", &serve::WEBHOOK_KEYS),
        below("serve.slack", &serve::SERVICE_KEYS),
        below("serve.telegram", &serve::SERVICE_KEYS),
        below("serve.discord", &serve::SERVICE_KEYS),
    ];
    parts.concat()
}

/// Reads a file's bytes, or says everything that is wrong with them.
pub fn parse(file: &str, bytes: &[u8], author: Author) -> Result<Config, Problems> {
    let (root, wrong) = crate::yaml::read(bytes);
    let mut problems = Problems::new(file, bytes);
    problems.extend(wrong);
    let mut config = Config { file: file.to_owned(), ..Config::default() };
    let mut known = KEYS.to_vec();
    if author == Author::Repository {
        known.retain(|key| !section::USERS_OWN.contains(key));
    }
    if let Some(root) = root
        && !section::is_nothing(&root)
        && let Some(mut top) = ConfigSection::of("the file", root, &known, author, &mut problems)
    {
        config.limits = limits::read(&mut top);
        config.gates = gates::read(&mut top);
        let source = crate::problem::CheckedFile { file, bytes };
        (config.protect, config.protect_spots) = paths::read_protect(&mut top, source);
        config.worktree = worktree::read(&mut top);
        config.units = units::read(&mut top);
        config.workflows = workflows::read(&mut top);
        config.checks = checks::read(&mut top);
        config.contradictions = contradictions::read(&mut top);
        config.evidence = evidence::read(&mut top);
        config.sandbox = sandbox::read(&mut top);
        config.session = session::read(&mut top);
        config.snapshots = snapshots::read(&mut top);
        config.notify = notify::read(&mut top);
        config.stages = stages::read(&mut top);
        config.agents = agents::read(&mut top);
        config.prices = prices::read(&mut top);
        config.permissions = permissions::read(&mut top);
        config.serve = serve::read(&mut top);
    }
    problems.or(config)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;

#[cfg(test)]
mod users_tests;
