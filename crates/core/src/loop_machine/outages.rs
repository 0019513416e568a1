//! What follows when an agent meets a limit, an outage, a closed account or the end of a budget: nothing of it is the
//! agent's fault, so nothing of it uses up an iteration (req 206).

use jiff::Timestamp;

use super::{
    after_agent::BLOCKED_ATTEMPTS,
    decide::Decision,
    effect::Effect,
    input::{SharedBudget, SharedSpend, Supply},
    state::LoopState,
};
use crate::{
    agent::catalog,
    duration::Millis,
    event::{AgentExit, AttemptJudgement, LoopEvent, NextSession, Outcome, Reason, Spend},
    ids::fingerprint,
    limits::{Account, Budget, PROBE_EVERY, Share, Spent, backoff, first_exceeded, may_start, shared_low},
    view::BUDGET_LOW,
};

/// How long an agent may take to end when a budget is used up.
const BUDGET_GRACE: Millis = Millis::from_secs(1);

/// After this many tries, which take about an hour, the loop waits for the end of an outage as for that of a limit.
const RETRIES: u32 = 16;

impl Decision {
    /// Warns of an obstacle that the agent met, where the loop goes on all the same.
    pub(super) fn warn_of_obstacle(&mut self, exit: &AgentExit, judged: AttemptJudgement) {
        let is_fresh = judged.next_session == NextSession::Fresh;
        match exit.outcome {
            Outcome::Misuse | Outcome::Crash if is_fresh && !judged.charged => {
                self.warn(format!("a fresh session begins: {}", self.what_happened(exit)));
            }
            Outcome::Permission | Outcome::Context
                if self.state.counters.blocked_attempts < BLOCKED_ATTEMPTS =>
            {
                self.warn(self.what_happened(exit));
            }
            _ => {}
        }
    }

    /// The user's plan is used up: the loop waits until the time that the agent named, or looks every quarter of an
    /// hour.
    pub(super) fn await_reset(&mut self, at: Timestamp, exit: &AgentExit) {
        let until = match exit.reset_at {
            Some(reset) if reset > at => later(reset, self.spread(since(at, reset))),
            // The named time is past, so the limit may be over. If the next attempt meets it again, the time means
            // nothing.
            Some(_) if self.state.counters.usage_limits <= 1 => later(at, self.spread(Millis(0))),
            _ => later(at, PROBE_EVERY),
        };
        self.provider_is_closed(until, self.what_happened(exit));
    }

    /// What happened, and what the user can do about it, if the agent's definition says that.
    pub(super) fn what_happened(&self, exit: &AgentExit) -> String {
        let detail = exit.detail.clone().unwrap_or_else(|| exit.outcome.as_str().replace('_', " "));
        let name = &self.policy().agent.at(self.state.sessions.agent).name;
        match catalog::find(name).and_then(|agent| agent.remedy(exit.outcome)) {
            Some(remedy) => format!("{}; {remedy}", detail.trim_end_matches('.')),
            None => detail,
        }
    }

    /// The provider has an outage: the loop waits a little longer after each try, and in the end a quarter of an hour.
    pub(super) fn back_off(&mut self, at: Timestamp, exit: &AgentExit) {
        let detail = self.what_happened(exit);
        let outages = self.state.counters.outages;
        let suggested = exit.reset_at.map(|reset| since(at, reset));
        if outages > RETRIES {
            let wait = PROBE_EVERY.max(suggested.unwrap_or_default());
            return self.provider_is_closed(later(at, wait), detail);
        }
        let wait = backoff(self.policy().pace.backoff, outages, &self.started().seed, suggested);
        self.park(later(at, wait), format!("{detail}; try {} follows", outages + 1));
    }

    /// The provider is at its limit: every loop that uses it waits, or this loop switches to another agent.
    fn provider_is_closed(&mut self, until: Timestamp, why: String) {
        let agent = self.state.sessions.agent;
        self.perform(Effect::CloseProvider { agent, until, why: why.clone() });
        if self.policy().agent.fallback.is_empty() {
            self.park(until, why);
        } else {
            self.perform(Effect::ReadMarkers);
        }
    }

    pub(super) fn park(&mut self, until: Timestamp, why: String) {
        self.record(LoopEvent::Parked { until, why });
        if self.state.orders.pause {
            self.record(LoopEvent::Paused);
        } else {
            self.perform(Effect::Park { until });
        }
    }

    /// Whether an agent may be started: there is money, and a provider that can be asked. If not, the loop ends or
    /// parks.
    pub(super) fn may_draw_on(&mut self, supply: &Supply) -> bool {
        // Where loops share a budget, this loop sets aside what one message of the model takes.
        let reserve = if self.policy().limits.shares_budgets() {
            self.state.spending.largest
        } else {
            Spent::default()
        };
        self.tell_low(&supply.shared);
        if let Err(refusal) =
            may_start(&accounts(&self.state, self.state.spending.ledger.total(), &supply.shared), &reserve)
        {
            self.finish(Reason::Budget, refusal.to_string());
            return false;
        }
        let policy = self.policy();
        let open = (0..=policy.agent.fallback.len()).find(|index| !supply.closed.contains_key(index));
        match (open, &supply.signed_out) {
            // The loop ends before anything is spent; `resume` goes on once the user has signed in.
            (Some(0), Some(said)) => {
                let (agent, said) = (&policy.agent.at(0).name, said.trim_end_matches('.'));
                let remedy = catalog::find(agent).and_then(|known| known.remedy(Outcome::Auth));
                let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
                self.finish(
                    Reason::Auth,
                    format!("{agent} says that it is not signed in (`{said}`){remedy}"),
                );
                false
            }
            (Some(index), _) => {
                self.switch_to(index, supply);
                true
            }
            (None, _) => {
                let first = supply.closed.values().min_by_key(|(until, _)| *until).cloned();
                let (until, why) = first.unwrap_or((Timestamp::MAX, "no agent is left".to_owned()));
                self.park(until, why);
                false
            }
        }
    }

    fn switch_to(&mut self, index: usize, supply: &Supply) {
        if index == self.state.sessions.agent {
            return;
        }
        let policy = self.policy();
        let agent = policy.agent.at(index).name.clone();
        let left = policy.agent.at(self.state.sessions.agent);
        let why = match supply.closed.get(&self.state.sessions.agent) {
            Some((until, why)) => format!("{} is at its limit until {until}: {why}", left.name),
            None => format!("{agent} can be asked again"),
        };
        self.record(LoopEvent::AgentSwitched { agent, index, why });
    }

    /// The running agent has used `spend` so far.
    pub(super) fn usage_seen(
        &mut self,
        spend: Spend,
        shared: &SharedSpend,
        model: Option<String>,
        is_unpriced: bool,
    ) {
        let (iteration, attempt) = (self.state.counters.iterations, self.state.counters.attempts);
        self.record(LoopEvent::UsageSeen { iteration, attempt, spend, model: model.clone() });
        if self.state.spending.exhausted.is_some() || self.state.orders.stop.is_some() {
            return;
        }
        // Without a price dacapo cannot hold a budget of money, so a budget of money alone stops the loop (fault J5).
        let run = self.state.limits.per_run;
        let is_fiction = (self.state.limits.max_cost.is_some() && self.state.limits.max_tokens.is_none())
            || (run.max_cost.is_some() && run.max_tokens.is_none());
        let accounts = accounts(&self.state, self.state.spending.ledger.total(), shared);
        let detail = match first_exceeded(&accounts) {
            Some(refusal) => Some(refusal.to_string()),
            None => model
                .filter(|_| is_unpriced && is_fiction)
                .map(|model| format!("model `{model}` has no price, so `--max-cost` cannot be held")),
        };
        if let Some(detail) = detail {
            self.record(LoopEvent::BudgetReached { detail });
            let grace = self.policy().pace.kill_grace.min(BUDGET_GRACE);
            self.perform(Effect::StopWork { grace });
            return;
        }
        self.tell_low(shared);
    }

    /// Says that most of a budget is used that this loop shares with others. Its own is told from what is recorded anyway.
    fn tell_low(&mut self, shared: &SharedSpend) {
        if !self.policy().limits.shares_budgets() {
            return;
        }
        let own = self.state.spending.ledger.total();
        let low_with = |shared: &SharedSpend| shared_low(&accounts(&self.state, own, shared), BUDGET_LOW);
        // Where the others had used that much before, one of them has said so.
        let others = [shared.run, shared.project, shared.day].map(|budget| without(budget, own.spent()));
        let [run, project, day] = others;
        let (low_before, low_now) = (low_with(&SharedSpend { run, project, day }), low_with(shared));
        for low in low_now {
            let is_known = low_before.iter().any(|before| before.share == low.share);
            if !is_known && !self.state.spending.told_low.contains(&low.share) {
                self.record(LoopEvent::BudgetLow { share: low.share, detail: low.to_string() });
            }
        }
    }

    /// A delay that differs from loop to loop, so that loops that wait for the same reset do not all come back in the
    /// same second. It is at most a quarter of a short wait.
    fn spread(&self, wait: Millis) -> Millis {
        let seed = format!("{}/{}", self.started().seed, self.state.counters.attempts);
        let backoff = self.policy().pace.backoff;
        // For a reset that is past there is no wait to take a quarter of.
        let most = if wait.is_zero() { backoff } else { backoff.min(Millis(wait.0 / 4 + 1)) };
        Millis(fingerprint(seed.as_bytes()) % most.0.max(1))
    }
}

/// Whether a budget is used up if the agent at work has used `running`. The supervisor reports that at once.
pub fn is_broke(state: &LoopState, running: &Spend, shared: &SharedSpend) -> bool {
    first_exceeded(&accounts(state, state.spending.ledger.with(running), shared)).is_some()
}

/// Every budget that applies to a loop that has used `own`, and what was taken out of it.
fn accounts(state: &LoopState, own: Spend, shared: &SharedSpend) -> Vec<Account> {
    let Some(started) = &state.started else { return Vec::new() };
    let policy = &started.policy;
    let account = |share, budget, used: SharedBudget| Account {
        share,
        budget,
        spent: used.spent,
        reserved: used.reserved,
    };
    let budget = Budget { max_cost: state.limits.max_cost, max_tokens: state.limits.max_tokens };
    vec![
        account(Share::Loop, budget, SharedBudget { spent: own.spent(), reserved: Spent::default() }),
        account(Share::Run, state.limits.per_run, shared.run),
        account(Share::Project, policy.limits.per_project, shared.project),
        account(Share::Day, policy.limits.per_day, shared.day),
    ]
}

/// What the other loops have used of a budget.
fn without(budget: SharedBudget, own: Spent) -> SharedBudget {
    let SharedBudget { spent, reserved } = budget;
    let cost_usd = (spent.cost_usd - own.cost_usd).max(0.0);
    SharedBudget { spent: Spent { cost_usd, tokens: spent.tokens.saturating_sub(own.tokens) }, reserved }
}

fn later(at: Timestamp, wait: Millis) -> Timestamp {
    at.checked_add(wait.std()).unwrap_or(Timestamp::MAX)
}

fn since(at: Timestamp, later: Timestamp) -> Millis {
    Millis(u64::try_from(later.duration_since(at).as_millis()).unwrap_or(0))
}
