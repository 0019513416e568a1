//! Budgets that can be held: one that cannot is refused before anything is spent.

use dacapo_core::{
    agent::{AgentCommand, Format},
    config::{Allowance, Effective, SettingSource, Sourced},
    event::Grant,
    limits::{self, Prices},
    policy::{Policy, PromptForm},
};

use super::agents::reports_usage;
use crate::error::UserError;

/// What one loop may spend.
#[derive(Debug)]
pub(super) struct LoopBudget {
    pub(super) max_cost: Option<f64>,
    pub(super) max_tokens: Option<u64>,
    /// What it shares with all loops, and with those of its project; nothing where it does not count there.
    pub(super) per_day: limits::Budget,
    pub(super) per_project: limits::Budget,
    /// What is not held, and why.
    pub(super) warnings: Vec<String>,
}

/// The budget in force, if `agent` says enough for it to be held.
pub(super) fn allow(effective: &Effective, agent: &AgentCommand) -> Result<LoopBudget, UserError> {
    let (cost, tokens) = (&effective.budget.max_cost, &effective.budget.max_tokens);
    let mut budget = LoopBudget {
        max_cost: cost.value,
        max_tokens: tokens.value,
        per_day: effective.per_day.budget(),
        per_project: effective.per_project.budget(),
        warnings: Vec::new(),
    };
    if !reports_usage(agent) {
        let named = [
            cost.value.map(|_| name("max_cost", &cost.from)),
            tokens.value.map(|_| name("max_tokens", &tokens.from)),
        ];
        if let Some(setting) = named.into_iter().flatten().next() {
            let message = format!("{setting} cannot be held: `{}` does not say what it used", agent.name);
            // A repository that asks for less than the user can have is told so, no more.
            if is_users(cost) || is_users(tokens) {
                return Err(UserError::usage(message)
                    .hint("limit its time with `--max-time 8h`, or take an agent that says what it uses: claude, codex, gemini, opencode, qwen or pi"));
            }
            budget.warnings.push(message);
            (budget.max_cost, budget.max_tokens) = (None, None);
        }
        for (allowance, scope) in [(&effective.per_day, "per_day"), (&effective.per_project, "per_project")] {
            if allowance.max_cost.value.is_some() || allowance.max_tokens.value.is_some() {
                budget.warnings.push(format!(
                    "`limits.{scope}` does not count this loop: `{}` does not say what it used",
                    agent.name
                ));
            }
        }
        (budget.per_day, budget.per_project) = Default::default();
        return Ok(budget);
    }
    if tokens.value.is_none()
        && let Err(why) = price(&effective.own_prices(), agent)
    {
        let shared =
            [("per_day.max_cost", &effective.per_day), ("per_project.max_cost", &effective.per_project)];
        for (key, allowance) in [("max_cost", &effective.budget)].into_iter().chain(shared) {
            if allowance.max_cost.value.is_none() || allowance.max_tokens.value.is_some() {
                continue;
            }
            let message = format!("{} cannot be held: {why}", name(key, &allowance.max_cost.from));
            // Money is certain to be spent here, so a shared budget is not let go of either.
            if is_users(&allowance.max_cost) || key == "max_cost" {
                return Err(UserError::usage(message).hint(way_out(agent)));
            }
            budget.warnings.push(message);
        }
    }
    Ok(budget)
}

/// Refuses a new limit for a loop that is resumed if it could not be held.
pub(super) fn allow_more(policy: &Policy, grant: &Grant) -> Result<(), UserError> {
    let agent = &policy.agent.command;
    let Some(flag) = grant.max_cost.map(|_| "--max-cost").or(grant.max_tokens.map(|_| "--max-tokens")) else {
        return Ok(());
    };
    // The host of a session writes down what its agent used, whatever its format.
    let is_in_session = policy.agent.prompt_form == PromptForm::Session;
    let why = if !is_in_session && !reports_usage(agent) {
        Err(format!("`{}` does not say what it used", agent.name))
    } else if grant.max_cost.is_some() && grant.max_tokens.or(policy.limits.max_tokens).is_none() {
        price(&policy.agent.prices, agent)
    } else {
        Ok(())
    };
    why.map_err(|why| UserError::usage(format!("`{flag}` cannot be held: {why}")))
}

/// What makes a budget of money possible.
fn way_out(agent: &AgentCommand) -> String {
    match &agent.model {
        Some(model) => format!(
            "give `--max-tokens N`, or its price: `prices: {{{model}: {{input: USD, output: USD}}}}`, per million tokens, in \
             ~/.config/dacapo/config.yaml"
        ),
        None => "name the model with `--model M`, or give `--max-tokens N`".to_owned(),
    }
}

/// Why an agent to fall back to would make the budget fiction, if it would.
pub(super) fn unfit(effective: &Effective, budget: &LoopBudget, agent: &AgentCommand) -> Option<String> {
    let shared = [&effective.per_day, &effective.per_project];
    let shares = |limit: fn(&Allowance) -> bool| shared.into_iter().any(limit);
    let is_limited = budget.max_cost.is_some()
        || budget.max_tokens.is_some()
        || shares(|allowance| allowance.max_cost.value.is_some() || allowance.max_tokens.value.is_some());
    if is_limited && !reports_usage(agent) {
        return Some("it does not say what it used, and there is a budget".to_owned());
    }
    let counts_money = (budget.max_cost.is_some() && budget.max_tokens.is_none())
        || shares(|allowance| allowance.max_cost.value.is_some() && allowance.max_tokens.value.is_none());
    if counts_money { price(&effective.own_prices(), agent).err() } else { None }
}

/// Whether what it uses can be turned into money.
fn price(prices: &Prices, agent: &AgentCommand) -> Result<(), String> {
    match &agent.model {
        Some(model) if prices.price_of(model).is_some() => Ok(()),
        // `opus` and the like mean the newest of a kind; which that is, it says as soon as it runs.
        Some(model) if matches!(agent.format, Format::Claude | Format::Acp(_)) && is_kind(model) => Ok(()),
        Some(model) => Err(format!("model `{model}` has no price")),
        // All others name the model in what they print.
        None if agent.format == Format::Codex => {
            Err(format!("`{}` does not say which model it uses", agent.name))
        }
        None => Ok(()),
    }
}

/// Whether a name means the newest of a kind; the size of its context window does not matter.
fn is_kind(model: &str) -> bool {
    let name = model.split('[').next().unwrap_or_default();
    ["default", "opus", "sonnet", "haiku", "opusplan"].contains(&name)
}

fn is_users<T>(limit: &Sourced<Option<T>>) -> bool {
    let is_repositorys = matches!(&limit.from, SettingSource::File { file, .. } if file == dacapo_engine::config_files::REPOSITORY_FILE);
    limit.value.is_some() && !is_repositorys
}

fn name(key: &str, from: &SettingSource) -> String {
    match from {
        SettingSource::Flag(flag) => format!("`{flag}`"),
        _ => format!("`limits.{key}` ({from})"),
    }
}
