//! What an agent can draw on: money that all loops share, and providers that answer.

use std::time::Duration;

use dacapo_core::{
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
        let providers: Vec<&str> =
            (0..=policy.agent.fallback.len()).map(|index| policy.agent.at(index).provider.as_str()).collect();
        let (closed, probes) = self.store.closed_providers(&self.id, &providers, Timestamp::now())?;
        self.probes = probes;
        Ok(Supply { closed, shared: self.shared_spend(&Spend::default())? })
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
        let all_are_closed = (0..=policy.agent.fallback.len())
            .all(|index| supply.closed.contains_key(&policy.agent.at(index).provider));
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
