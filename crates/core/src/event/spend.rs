//! What agents use and cost: tokens, money, and the sum of both over a loop's attempts.

use serde::{Deserialize, Serialize};

use super::{AgentExit, LoopEvent};
use crate::limits::Spent;

/// Tokens, by what they cost. Each is counted once, so all but `reasoning` add up to the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Read by the model, neither from the provider's cache nor into it.
    pub input: u64,
    /// Written by the model, thoughts included.
    pub output: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    pub cache_write: u64,
    /// Thought, not shown: a part of `output`, told apart for people.
    pub reasoning: u64,
}

impl Usage {
    /// All of them; what was thought is a part of what was written.
    pub fn total(&self) -> u64 {
        [self.output, self.cache_read, self.cache_write].into_iter().fold(self.input, u64::saturating_add)
    }

    /// Takes another process's tokens in.
    pub fn add(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// What agents used and cost; nothing where the agent does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spend {
    pub usage: Option<Usage>,
    pub cost_usd: Option<f64>,
    /// Whether either is an estimate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Spend {
    /// What counts against budgets: a guess as much as a figure.
    pub fn spent(&self) -> Spent {
        Spent { cost_usd: self.cost_usd.unwrap_or(0.0), tokens: self.usage.map_or(0, |usage| usage.total()) }
    }

    /// Takes another one in.
    pub fn add(&mut self, other: &Self) {
        if let Some(usage) = other.usage {
            self.usage.get_or_insert_default().add(usage);
        }
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
        self.estimated |= other.estimated;
    }
}

/// The spend of a loop: agents that have ended, and the one at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    settled: Spend,
    newest: Spend,
}

impl Ledger {
    /// Takes in one fact. What a crash cut short counts with what was last seen of it.
    pub fn apply(&mut self, event: &LoopEvent) {
        match event {
            LoopEvent::AgentStarted { .. } => self.settle(),
            LoopEvent::UsageSeen { spend, .. } => self.newest = *spend,
            LoopEvent::AgentExited { exit, .. } => {
                if exit.usage.is_some() || exit.cost_usd.is_some() {
                    self.newest = exit.spend();
                }
                self.settle();
            }
            LoopEvent::GateFinished { result, .. } => {
                if let Some(spend) = &result.spend {
                    self.settled.add(spend);
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self) {
        self.settled.add(&std::mem::take(&mut self.newest));
    }

    /// What was seen of an agent that has not ended: one that is at work, or that a crash cut short.
    pub fn newest(&self) -> Spend {
        self.newest
    }

    pub fn total(&self) -> Spend {
        self.with(&self.newest)
    }

    /// All of it, if the agent at work has used this much.
    pub fn with(&self, newest: &Spend) -> Spend {
        let mut total = self.settled;
        total.add(newest);
        total
    }
}

impl AgentExit {
    /// What the process used and cost.
    pub fn spend(&self) -> Spend {
        Spend { usage: self.usage, cost_usd: self.cost_usd, estimated: self.estimated }
    }
}
