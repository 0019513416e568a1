//! What an agent can draw on: money that all loops share, and providers that answer.

use std::time::{Duration, Instant};

use dacapo_core::{
    agent::{account_of, agent_environment},
    event::Spend,
    judge::signal::DoneFact,
    loop_machine::{Input, Phase, SharedSpend, Supply},
};
use jiff::{Timestamp, Zoned};

use super::{SuperviseError, Supervisor, observe};

/// A wait that is this short is no news.
const SOON: Duration = Duration::from_secs(30);

impl Supervisor<'_> {
    /// What there is, for an agent that is about to start; nothing is asked where nothing is limited.
    pub(super) fn supply(&mut self) -> Result<Supply, SuperviseError> {
        let policy = &self.started.policy;
        if !policy.needs_supply() {
            return Ok(Supply::default());
        }
        let accounts = self.accounts();
        let names: Vec<&str> = accounts.iter().map(String::as_str).collect();
        let (closed, probes) = self.store.closed_providers(&self.id, &names, Timestamp::now())?;
        self.probes = probes;
        let by_agent = accounts.iter().enumerate();
        let closed = by_agent.filter_map(|(index, name)| Some((index, closed.get(name)?.clone()))).collect();
        let shared = self.shared_spend(&Spend::default())?;
        Ok(Supply { closed, shared, signed_out: self.signed_out.clone() })
    }

    /// The account that the agent of this index draws on.
    pub(super) fn account(&self, index: usize) -> String {
        let policy = &self.started.policy.agent;
        let agent = policy.at(index);
        account_of(agent, &agent_environment(&self.inherited, policy.environment, &agent.env, &[]))
    }

    fn accounts(&self) -> Vec<String> {
        (0..=self.started.policy.agent.fallback.len()).map(|index| self.account(index)).collect()
    }

    /// The user does not want to wait: this loop asks its providers, and others wait for the result.
    pub(super) fn ask_providers(&mut self) -> Result<(), SuperviseError> {
        for account in self.accounts() {
            self.store.ask_provider(&self.id, &account, Timestamp::now())?;
        }
        Ok(())
    }

    /// Notes which accounts the loop waits for. One that parks for an outage of its own, which closed no account, waits for its
    /// own time alone.
    pub(super) fn await_providers(&mut self) -> Result<(), SuperviseError> {
        let accounts = self.accounts();
        self.awaited_accounts = if self.store.is_any_open(&accounts)? { Vec::new() } else { accounts };
        Ok(())
    }

    /// Reads the markers before an agent starts, unless it is not known yet whether the agent is signed in.
    pub(super) fn read_markers(&mut self) -> Result<(), SuperviseError> {
        if let Some(check) = &mut self.sign_in {
            match check.look(Instant::now()) {
                Some(signed_out) => {
                    self.signed_out = signed_out;
                    self.sign_in = None;
                }
                None => {
                    self.awaits_sign_in = true;
                    return Ok(());
                }
            }
        }
        let facts = observe::markers(&self.task_folder());
        let supply = Box::new(self.supply()?);
        self.inbox.push_back(Input::MarkersRead(facts, supply).into());
        Ok(())
    }

    /// Takes the answer of an agent that was asked whether it is signed in; what has waited for it goes on.
    pub(super) fn look_at_sign_in(&mut self, now: Instant) -> Result<(), SuperviseError> {
        let Some(check) = &mut self.sign_in else { return Ok(()) };
        let Some(signed_out) = check.look(now) else { return Ok(()) };
        self.signed_out = signed_out;
        self.sign_in = None;
        if std::mem::take(&mut self.awaits_sign_in) { self.read_markers() } else { Ok(()) }
    }

    /// What all loops have used together: as it is recorded, and `running` for the agent of this one that is at work.
    pub(super) fn shared_spend(&self, running: &Spend) -> Result<SharedSpend, SuperviseError> {
        if !self.started.policy.limits.shares_budgets() {
            return Ok(SharedSpend::default());
        }
        let own = self.work.is_some().then_some((self.stream.key(), self.stream.state().counters.attempts));
        let mut shared =
            self.store.shared_spend(midnight(), &self.started.project, self.started.run.as_ref(), own)?;
        for budget in [&mut shared.day, &mut shared.project, &mut shared.run] {
            budget.spent = budget.spent.plus(running.spent());
        }
        Ok(shared)
    }

    /// The agent got an answer: loops that wait for its provider need not wait any longer.
    pub(super) fn provider_answers(&mut self) -> Result<(), SuperviseError> {
        if let Some(provider) = self.probes.take() {
            self.store.open_provider(&provider)?;
        }
        Ok(())
    }

    /// It was stopped before there was an answer: another loop may ask in its place.
    pub(super) fn ask_no_more(&mut self) {
        if self.probes.take().is_some() {
            // After a while they do so without being told.
            let _ = self.store.release_probe(&self.id);
        }
    }

    /// The time a parked loop waited for has come: it goes on, unless another one is asked to go first. A DONE that a
    /// person wrote meanwhile is judged even if every provider is closed.
    pub(super) fn end_park(&mut self) -> Result<(), SuperviseError> {
        if !matches!(self.stream.state().phase, Phase::Parked(_)) {
            return Ok(());
        }
        let supply = self.supply()?;
        let first = supply.closed.values().map(|(until, _)| *until).min();
        let policy = &self.started.policy;
        let all_are_closed =
            (0..=policy.agent.fallback.len()).all(|index| supply.closed.contains_key(&index));
        let is_done = observe::markers(&self.task_folder()).done != DoneFact::Absent;
        let soon = Timestamp::now().checked_add(SOON).unwrap_or(Timestamp::MAX);
        match first.filter(|until| all_are_closed && !is_done && *until < soon) {
            Some(until) => self.timers.park(until),
            // The loop decides again, also where it has to wait much longer than it said, so that people are told.
            None => self.inbox.push_back(Input::ParkOver.into()),
        }
        Ok(())
    }
}

/// When the user's day began, not the meridian's.
pub(super) fn midnight() -> Timestamp {
    let now = Zoned::now();
    now.start_of_day().unwrap_or(now).timestamp()
}
