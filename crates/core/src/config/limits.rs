//! `limits`: where a loop ends at the latest, and what all loops together may cost.

use super::{At, ConfigSection};
use crate::duration::Millis;

/// The last one is the user's alone: who is asked how often is not for a repository to say.
pub(super) const KEYS: [&str; 8] = [
    "max_iterations",
    "max_time",
    "max_cost",
    "max_tokens",
    "stuck_after",
    "per_day",
    "per_project",
    "backoff",
];
pub(super) const BUDGET_KEYS: [&str; 2] = ["max_cost", "max_tokens"];

/// What a file says about limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitsSection {
    /// Charged iterations at most.
    pub max_iterations: Option<At<u32>>,
    /// How long agents, checks and delays may take together.
    pub max_time: Option<At<Millis>>,
    /// What one loop may cost.
    pub budget: BudgetSetting,
    /// Iterations without progress after which a loop stops.
    pub stuck_after: Option<At<u32>>,
    /// What all loops together may cost in a day.
    pub per_day: BudgetSetting,
    /// What all loops of a project together may cost.
    pub per_project: BudgetSetting,
    /// How long an outage is waited out at first.
    pub backoff: Option<At<Millis>>,
}

/// What a file says about money and tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BudgetSetting {
    pub max_cost: Option<At<f64>>,
    pub max_tokens: Option<At<u64>>,
}

pub(super) fn read(top: &mut ConfigSection<'_>) -> LimitsSection {
    let known = if top.is_users() { &KEYS[..] } else { &KEYS[..KEYS.len() - 1] };
    let Some(mut section) = top.section("limits", known) else { return LimitsSection::default() };
    let of = |section: &mut ConfigSection<'_>, key| {
        section.section(key, &BUDGET_KEYS).map(|mut below| budget(&mut below)).unwrap_or_default()
    };
    LimitsSection {
        max_iterations: section.count("max_iterations", 1),
        max_time: section.duration("max_time"),
        budget: budget(&mut section),
        stuck_after: section.count("stuck_after", 1),
        per_day: of(&mut section, "per_day"),
        per_project: of(&mut section, "per_project"),
        backoff: section.duration("backoff"),
    }
}

fn budget(section: &mut ConfigSection<'_>) -> BudgetSetting {
    BudgetSetting { max_cost: section.dollars("max_cost", false), max_tokens: section.tokens("max_tokens") }
}
