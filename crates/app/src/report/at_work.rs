//! What one loop of a run does at the moment, for the lines that are drawn over: its agent with its model, the cost of the budget,
//! the gate that runs, and the newest lines that were printed.

use std::collections::{BTreeMap, VecDeque};

use dacapo_core::{
    event::{Envelope, LoopEvent},
    text::ansi::readable,
    view::LoopView,
};

use super::{event_lines, screen::Coloured};

/// How many of the newest lines of a gate that runs are shown; of an agent it is one.
pub(super) const LINES_OF_GATE: usize = 3;

/// A loop of a run, folded from its events and from what its agents and gates print.
#[derive(Default)]
pub(super) struct AtWork {
    view: Option<LoopView>,
    models: BTreeMap<String, String>,
    /// The agent that works, with its model if it was told to use one.
    worker: Option<String>,
    gate: Option<String>,
    parked: Option<String>,
    last: VecDeque<String>,
}

impl AtWork {
    pub(super) fn take(&mut self, envelope: &Envelope) {
        match &envelope.event {
            LoopEvent::LoopStarted(started) => {
                let agent = &started.policy.agent;
                let agents = (0..=agent.fallback.len()).map(|index| agent.at(index));
                let models = agents.filter_map(|agent| Some((agent.name.clone(), agent.model.clone()?)));
                *self = Self { models: models.collect(), ..Self::default() };
            }
            LoopEvent::AgentStarted { agent, .. } => {
                let worker = match self.models.get(agent) {
                    Some(model) => format!("{agent} {model}"),
                    None => agent.clone(),
                };
                (self.worker, self.gate, self.parked) = (Some(worker), None, None);
                self.last.clear();
            }
            LoopEvent::UsageSeen { model: Some(model), .. } => {
                if let Some(view) = &self.view {
                    self.worker = Some(format!("{} {model}", view.agent));
                    self.models.insert(view.agent.clone(), model.clone());
                }
            }
            LoopEvent::AgentExited { exit, .. } => {
                self.worker = None;
                let agent = self.view.as_ref().map(|view| view.agent.clone());
                self.models.extend(agent.zip(exit.model.clone()));
                self.last.clear();
            }
            LoopEvent::GateStarted { name, .. } => {
                self.gate = Some(name.clone());
                self.last.clear();
            }
            LoopEvent::GateFinished { .. } => {
                self.gate = None;
                self.last.clear();
            }
            LoopEvent::Parked { until, .. } => self.parked = Some(event_lines::clock(*until)),
            LoopEvent::LoopFinished { .. } => *self = Self::default(),
            _ => {}
        }
        match &mut self.view {
            Some(view) => view.apply(envelope),
            None => self.view = LoopView::begin(envelope),
        }
    }

    /// Takes in lines that the agent or the gate printed.
    pub(super) fn printed(&mut self, bytes: &[u8]) {
        let most = if self.gate.is_some() { LINES_OF_GATE } else { 1 };
        for line in readable(bytes).lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.last.push_back(line.to_owned());
            while self.last.len() > most {
                self.last.pop_front();
            }
        }
    }

    /// Who works and at what cost, each with the dot that parts it from what stands before: ` · claude sonnet · $0.16 of $5`.
    pub(super) fn details(&self) -> String {
        let view = self.view.as_ref();
        let cost =
            view.and_then(|view| event_lines::cost_of_budget(&view.ledger.total(), &view.tally.budget));
        let gate = self.gate.as_ref().map(|name| format!("gate `{name}`"));
        let parked = self.parked.as_ref().map(|until| format!("parked until {until}"));
        let parts = [parked, gate, self.worker.clone(), cost].into_iter().flatten();
        parts.map(|part| format!(" · {part}")).collect()
    }

    /// The newest lines that were printed, as they stand below the line of the loop.
    pub(super) fn last_lines(&self) -> impl Iterator<Item = Coloured> {
        self.last.iter().map(|line| ("2", format!("  {line}")))
    }
}
