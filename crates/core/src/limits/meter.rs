//! The live ledger of one attempt: tokens and money from what an agent reports, of a step, a message or the whole session.

use memchr::memchr_iter;
use serde::{Deserialize, Serialize};

use super::{budget::Spent, price::Price};
use crate::{event::Usage, ids::fingerprint};

/// What a reported figure covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScope {
    /// One call of a model: figures add up.
    Call,
    /// All of this process so far: a later figure takes the place of an earlier one.
    Process,
    /// All of a session, also what earlier processes spent in it: that is taken off.
    Session,
}

/// What a session had spent before this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionTotals {
    pub usage: Usage,
    /// Its money, where it was known.
    pub cost_usd: Option<f64>,
}

/// What an attempt has spent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metered {
    pub usage: Usage,
    /// Its money: the agent's own figure where it has one, else by price; `None` without either.
    pub cost_usd: Option<f64>,
    /// Whether a part of it is guessed from the length of what was written.
    pub is_estimate: bool,
}

/// How many tokens a text of this many bytes has, roughly.
pub fn estimate_tokens(text_bytes: u64) -> u64 {
    text_bytes.div_ceil(4)
}

/// Messages that may be reported again: those of an agent and of its sub-agents, which take turns.
const RECENT: usize = 256;

/// Adds up what one attempt reports.
///
/// Exact figures are never taken back: of two that cover the same, the higher counts. Only a guess is
/// corrected downwards, by the figure that takes its place.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    price: Option<Price>,
    before: SessionTotals,
    calls: Usage,
    /// Messages, which are reported again and again under the same name.
    messages: RecentMessages,
    messages_total: Usage,
    /// The highest figure for the whole process.
    whole: Usage,
    /// Money that came with calls, and the calls that came without.
    calls_cost: f64,
    calls_unpaid: Usage,
    /// Money reported for the whole process, and what had been used by then.
    whole_cost: Option<(f64, Usage)>,
    /// Bytes of output that no exact figure covers yet, and the output of messages before them.
    guessed_bytes: u64,
    settled_output: u64,
    largest: Spent,
}

/// What the newest messages were reported with. Only those are reported again; the sum has them all.
#[derive(Clone, Debug, Default)]
struct RecentMessages {
    /// Hashes of their names, in a ring: an agent may write hundreds of thousands of messages.
    names: Vec<u64>,
    /// The first byte of each hash, where most names are soon found not to be known.
    first_bytes: Vec<u8>,
    usages: Vec<Usage>,
    /// Where the newest is.
    newest: usize,
}

impl RecentMessages {
    /// What is known of the message called `id`, which takes the place of the oldest if it is new.
    fn of(&mut self, id: &str) -> &mut Usage {
        let name = fingerprint(id.as_bytes());
        if self.names.get(self.newest) != Some(&name) {
            let [first, ..] = name.to_le_bytes();
            let known = memchr_iter(first, &self.first_bytes).find(|at| self.names[*at] == name);
            self.newest = match known {
                Some(known) => return &mut self.usages[known],
                None if self.names.len() < RECENT => {
                    self.names.push(name);
                    self.first_bytes.push(first);
                    self.usages.push(Usage::default());
                    self.names.len() - 1
                }
                None => {
                    let oldest = (self.newest + 1) % RECENT;
                    (self.names[oldest], self.first_bytes[oldest]) = (name, first);
                    self.usages[oldest] = Usage::default();
                    oldest
                }
            };
        }
        &mut self.usages[self.newest]
    }
}

impl Meter {
    /// A ledger for a process that continues a session which had spent `before`.
    pub fn new(price: Option<Price>, before: Option<SessionTotals>) -> Self {
        Self { price, before: before.unwrap_or_default(), ..Self::default() }
    }

    /// The price is known, or known better: an agent may name its model only once it runs.
    pub fn set_price(&mut self, price: Price) {
        self.price = Some(price);
    }

    /// Takes a figure in. Money of another scope than its tokens goes to [`Meter::report_cost`].
    pub fn report(&mut self, scope: UsageScope, usage: Usage, cost_usd: Option<f64>) {
        // A sum of nothing for something only means that the agent knows no price.
        let cost = known(cost_usd).filter(|cost| *cost > 0.0 || usage == Usage::default());
        match scope {
            UsageScope::Call => {
                self.calls = plus(self.calls, usage);
                match cost {
                    Some(cost) => self.calls_cost += cost,
                    None => self.calls_unpaid = plus(self.calls_unpaid, usage),
                }
                self.saw_message(&usage, cost);
            }
            UsageScope::Process => self.whole = highest(self.whole, usage),
            UsageScope::Session => self.whole = highest(self.whole, self.own_part(usage)),
        }
        self.guessed_bytes = 0;
        self.settled_output = self.messages_total.output;
        if let (UsageScope::Process | UsageScope::Session, Some(cost)) = (scope, cost) {
            self.report_cost(scope, cost);
        }
    }

    /// Takes a sum of money in, where an agent's scopes for tokens and money differ.
    pub fn report_cost(&mut self, scope: UsageScope, cost_usd: f64) {
        let Some(cost) = known(Some(cost_usd)) else { return };
        if scope == UsageScope::Call {
            self.calls_cost += cost;
            return;
        }
        let before = self.before.cost_usd.filter(|before| scope == UsageScope::Session && *before <= cost);
        let own = cost - before.unwrap_or(0.0);
        let used = self.exact();
        if own > 0.0 || used == Usage::default() {
            let earlier = self.whole_cost.map_or(0.0, |(cost, _)| cost);
            self.whole_cost = Some((own.max(earlier), used));
        }
    }

    /// Takes a message in, or what is newly known of one: several lines of output may carry the same.
    pub fn report_message(&mut self, id: &str, usage: Usage) {
        let known = self.messages.of(id);
        let now = highest(*known, usage);
        self.messages_total = plus(minus(self.messages_total, *known), now);
        *known = now;
        self.saw_message(&now, None);
    }

    /// Takes in that this many more bytes were written by the model, until a figure says how many tokens they
    /// were.
    pub fn estimate(&mut self, output_bytes: u64) {
        self.guessed_bytes = self.guessed_bytes.saturating_add(output_bytes);
    }

    /// What was spent so far.
    pub fn total(&self) -> Metered {
        let exact = self.exact();
        let reported = self.messages_total.output.saturating_sub(self.settled_output);
        let guessed = estimate_tokens(self.guessed_bytes).saturating_sub(reported);
        let guess = Usage { output: guessed, ..Usage::default() };
        let cost_usd = self.exact_cost(exact).and_then(|cost| Some(cost + self.priced(guess)?));
        Metered { usage: plus(exact, guess), cost_usd, is_estimate: guessed > 0 }
    }

    /// The largest message of this attempt, to reserve as much before the next.
    pub fn largest_message(&self) -> Spent {
        self.largest
    }

    /// What the session has spent with this process: `before` of the one that continues it.
    pub fn session(&self) -> SessionTotals {
        let Metered { usage, cost_usd, .. } = self.total();
        let cost_usd = cost_usd.map(|cost| cost + self.before.cost_usd.unwrap_or(0.0));
        SessionTotals { usage: plus(self.before.usage, usage), cost_usd }
    }

    fn exact(&self) -> Usage {
        highest(self.whole, plus(self.calls, self.messages_total))
    }

    /// The agent's own figure before ours; what was used after it by price.
    fn exact_cost(&self, exact: Usage) -> Option<f64> {
        if let Some((cost, used)) = self.whole_cost {
            let since = minus(exact, used);
            return Some(cost.max(self.calls_cost) + self.priced(since).unwrap_or(0.0));
        }
        if self.calls_cost == 0.0 {
            return self.priced(exact);
        }
        // Everything but the calls that were paid for has our price.
        let paid = minus(self.calls, self.calls_unpaid);
        Some(self.calls_cost + self.priced(minus(exact, paid))?)
    }

    fn priced(&self, usage: Usage) -> Option<f64> {
        if usage == Usage::default() && self.whole_cost.is_some() | (self.calls_cost > 0.0) {
            return Some(0.0);
        }
        self.price.map(|price| price.cost(&usage))
    }

    /// A session's figure without what the session had used before this attempt. A figure that is smaller than that
    /// covers the attempt alone, even if the agent's adapter says that it covers the session, and is taken as it is.
    fn own_part(&self, usage: Usage) -> Usage {
        let before = self.before.usage;
        if tokens(&usage) < tokens(&before) { usage } else { minus(usage, before) }
    }

    fn saw_message(&mut self, usage: &Usage, cost: Option<f64>) {
        let cost = cost.or(self.price.map(|price| price.cost(usage))).unwrap_or(0.0);
        self.largest.cost_usd = self.largest.cost_usd.max(cost);
        self.largest.tokens = self.largest.tokens.max(tokens(usage));
    }
}

/// Tokens that count against a budget: all that were read, written, cached and read from the cache. Reasoning
/// is a part of the output.
pub fn tokens(usage: &Usage) -> u64 {
    [usage.output, usage.cache_read, usage.cache_write].into_iter().fold(usage.input, u64::saturating_add)
}

/// A sum of money that can be one.
fn known(cost_usd: Option<f64>) -> Option<f64> {
    cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

fn plus(a: Usage, b: Usage) -> Usage {
    each(a, b, u64::saturating_add)
}

fn minus(a: Usage, b: Usage) -> Usage {
    each(a, b, u64::saturating_sub)
}

fn highest(a: Usage, b: Usage) -> Usage {
    each(a, b, u64::max)
}

fn each(a: Usage, b: Usage, both: fn(u64, u64) -> u64) -> Usage {
    Usage {
        input: both(a.input, b.input),
        output: both(a.output, b.output),
        cache_read: both(a.cache_read, b.cache_read),
        cache_write: both(a.cache_write, b.cache_write),
        reasoning: both(a.reasoning, b.reasoning),
    }
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
