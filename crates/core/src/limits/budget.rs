//! Whether there is money and are tokens left: for a loop, a run, a project, a day.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::meter::{Metered, tokens};

/// What may be spent at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    pub max_cost: Option<f64>,
    /// Tokens of every kind: input, output, written to the cache and read from it.
    pub max_tokens: Option<u64>,
}

impl Budget {
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// This budget with what `newer` limits anew.
    #[must_use]
    pub fn raised_to(self, newer: Self) -> Self {
        Self { max_cost: newer.max_cost.or(self.max_cost), max_tokens: newer.max_tokens.or(self.max_tokens) }
    }
}

/// What was spent, or will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Money, in USD; what has no price adds nothing, and no budget of money lets it start.
    pub cost_usd: f64,
    pub tokens: u64,
}

impl Spent {
    /// What a ledger counts against budgets, a guess as much as a figure.
    pub fn of(metered: &Metered) -> Self {
        Self { cost_usd: metered.cost_usd.unwrap_or(0.0), tokens: tokens(&metered.usage) }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { cost_usd: self.cost_usd + other.cost_usd, tokens: self.tokens.saturating_add(other.tokens) }
    }
}

/// Who shares a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    Loop,
    /// All loops of the run of units.
    Run,
    /// All loops of the project.
    Project,
    /// All loops on the machine, since midnight.
    Day,
}

/// A budget, and what the loops that share it have spent together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    pub share: Share,
    pub budget: Budget,
    /// What was spent, by agents that run as well.
    pub spent: Spent,
    /// What agents that run have reserved and not yet spent.
    pub reserved: Spent,
}

/// A budget that is used up, in words: `cost 5.03 of 5.00 USD`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Exceeded {
    Cost { spent: f64, max: f64 },
    Tokens { spent: u64, max: u64 },
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // A budget of cents is told in fractions of them.
            Self::Cost { spent, max } if max < 0.1 => write!(f, "cost {spent:.4} of {max:.4} USD"),
            Self::Cost { spent, max } => write!(f, "cost {spent:.2} of {max:.2} USD"),
            Self::Tokens { spent, max } => write!(f, "{spent} of {max} tokens"),
        }
    }
}

/// Which budget stands in the way, in words: `cost 5.03 of 5.00 USD today`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetRefusal {
    pub share: Share,
    /// What is used up, reservations included.
    pub exceeded: Exceeded,
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.share {
            Share::Loop => "",
            Share::Run => " in this run",
            Share::Project => " in this project",
            Share::Day => " today",
        };
        write!(f, "{}{whose}", self.exceeded)
    }
}

/// Whether a budget is used up: what may be spent was spent, to the cent or beyond. Then the agent is
/// stopped; it is not made cheaper.
pub fn exceeded(budget: &Budget, spent: &Spent) -> Option<Exceeded> {
    if let Some(max) = budget.max_cost
        && spent.cost_usd >= max
    {
        return Some(Exceeded::Cost { spent: spent.cost_usd, max });
    }
    let max = budget.max_tokens.filter(|max| spent.tokens >= *max)?;
    Some(Exceeded::Tokens { spent: spent.tokens, max })
}

/// The first budget that an agent which runs has used up. Reservations do not count: they are the agent's
/// own.
pub fn first_exceeded(accounts: &[Account]) -> Option<BudgetRefusal> {
    accounts.iter().find_map(|account| {
        let exceeded = exceeded(&account.budget, &account.spent)?;
        Some(BudgetRefusal { share: account.share, exceeded })
    })
}

/// The budgets that several loops share and of which `percent` or more are used.
pub fn shared_low(accounts: &[Account], percent: u32) -> Vec<BudgetRefusal> {
    let is_low = |spent: f64, max: f64| max > 0.0 && spent * 100.0 >= max * f64::from(percent);
    let low = |account: &Account| {
        let Account { share, budget, spent, .. } = *account;
        let cost = budget.max_cost.filter(|max| is_low(spent.cost_usd, *max));
        let tokens = budget.max_tokens.filter(|max| is_low(spent.tokens as f64, *max as f64));
        let exceeded = cost
            .map(|max| Exceeded::Cost { spent: spent.cost_usd, max })
            .or(tokens.map(|max| Exceeded::Tokens { spent: spent.tokens, max }))?;
        Some(BudgetRefusal { share, exceeded })
    };
    accounts.iter().filter(|account| account.share != Share::Loop).filter_map(low).collect()
}

/// Whether an agent may start: in every account something is left, and at least `reserve` beside what others
/// have reserved. A loop that starts reserves it in the same step, or two loops would start on the same last
/// dollar.
///
/// Reserve what the largest message so far cost ([`largest`]); nothing is known before the first.
pub fn may_start(accounts: &[Account], reserve: &Spent) -> Result<(), BudgetRefusal> {
    for account in accounts {
        let taken = account.spent.plus(account.reserved);
        let refused = exceeded(&account.budget, &taken).or_else(|| {
            let wanted = taken.plus(*reserve);
            // As much as is left may be reserved; `exceeded` would refuse the last cent of it.
            let (cost, tokens) = (account.budget.max_cost, account.budget.max_tokens);
            let too_dear = cost.filter(|max| wanted.cost_usd > *max);
            let too_many = tokens.filter(|max| wanted.tokens > *max);
            too_dear
                .map(|max| Exceeded::Cost { spent: wanted.cost_usd, max })
                .or(too_many.map(|max| Exceeded::Tokens { spent: wanted.tokens, max }))
        });
        if let Some(exceeded) = refused {
            return Err(BudgetRefusal { share: account.share, exceeded });
        }
    }
    Ok(())
}

/// The largest of what earlier attempts' messages took, to be reserved for the next.
pub fn largest(messages: impl IntoIterator<Item = Spent>) -> Spent {
    messages.into_iter().fold(Spent::default(), |most, message| Spent {
        cost_usd: most.cost_usd.max(message.cost_usd),
        tokens: most.tokens.max(message.tokens),
    })
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
