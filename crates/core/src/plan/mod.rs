//! Plans: what comes next, decided from facts.
//!
//! A plan is a pure machine in the manner of `loop_machine`. Its inputs are facts that a worker has gathered, or the ends of
//! what it has performed; its effects say what to perform next: look at something, run a loop, merge, end. The worker knows
//! how to do each of these and never which of them comes next. [`mod@unit`] is the plan of a unit.
//!
//! What a plan hands to the worker as a loop, and what it wants to know of one that ended, is the same for every plan:
//! [`LoopOrder`], [`LoopEnd`], [`CutLoop`].

mod purpose;
pub mod unit;

use std::collections::BTreeMap;

pub use purpose::{PlanStep, Purpose};

use crate::{
    event::{Envelope, Grant, IterationOutcome, LoopEvent, LoopStarted, Reason},
    ids::LoopId,
    item::claimed_items,
    judge::signal::Signal,
    policy::Policy,
    unit::{TaskSet, account, items::turn_of},
};

/// A loop that a plan wants to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopOrder {
    /// What the loop is for; recorded when it starts, so that it is recognised if it is cut short.
    pub purpose: Purpose,
    pub policy: Policy,
    /// What its agent is asked to do.
    pub prompt: String,
    /// The commit that its changes count from; without one they count from the files as they are.
    pub base: Option<String>,
}

/// What a plan has to know about a loop that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopEnd {
    pub id: LoopId,
    pub reason: Reason,
    pub detail: String,
    /// What its receipt proves, if it has one.
    pub proof: Option<LoopProof>,
    /// What the gates of tasks printed at their last try; nothing where they passed without a word.
    pub outputs: BTreeMap<u32, String>,
    /// Whether the user asked it to pause and it ended before it could.
    pub is_paused: bool,
    /// Why its last claim was refused, if nothing was accepted after that.
    pub refusal: Option<String>,
    /// How its last agent failed, if it did.
    pub agent_error: Option<String>,
    /// The last task that was claimed in it.
    pub last_claimed: Option<u32>,
}

/// What the receipt of a loop proves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopProof {
    /// The tasks of its claim.
    pub tasks: Vec<u32>,
    /// The newest commit that it made or found.
    pub commit: Option<String>,
    /// The tree that was kept.
    pub tree: Option<String>,
}

impl LoopEnd {
    /// The same from what the loop has recorded. `refusal` is what its view says about its last claim.
    pub fn of(
        id: LoopId,
        reason: Reason,
        detail: String,
        refusal: Option<String>,
        history: &[Envelope],
    ) -> Self {
        let mut end = Self {
            id,
            reason,
            detail,
            proof: None,
            outputs: BTreeMap::new(),
            is_paused: false,
            refusal,
            agent_error: None,
            last_claimed: None,
        };
        for Envelope { event, .. } in history {
            match event {
                LoopEvent::ReceiptIssued { receipt } => {
                    end.proof = Some(LoopProof {
                        tasks: claimed_tasks(&receipt.claim).collect(),
                        commit: receipt.commits.last().cloned(),
                        tree: receipt.tree.clone(),
                    });
                }
                LoopEvent::GateFinished { item: Some(item), result, .. } => {
                    end.outputs.insert(item.0, result.output_tail.clone());
                }
                LoopEvent::PauseRequested { .. } => end.is_paused = true,
                LoopEvent::Paused | LoopEvent::Unpaused => end.is_paused = false,
                LoopEvent::AgentExited { exit, .. } => end.agent_error = account::error(exit),
                LoopEvent::ClaimMade { by, .. } => {
                    end.last_claimed = claimed_tasks(by).next_back().or(end.last_claimed);
                }
                _ => {}
            }
        }
        end
    }
}

/// A loop that was cut short, as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct CutLoop {
    pub id: LoopId,
    /// What it was started for; a plan started it if this is known.
    pub purpose: Option<Purpose>,
    /// The tasks that it may complete.
    pub tasks: Option<TaskSet>,
    /// Whether dacapo's own end cut an iteration short.
    pub is_mid_iteration: bool,
    /// What the user said to it and no agent has heard.
    pub unheard: Vec<String>,
}

impl CutLoop {
    /// The same from what the loop has recorded; `requested` are words of the user's that it has not taken in yet.
    pub fn of(id: LoopId, history: &[Envelope], requested: Vec<String>) -> Self {
        let mut cut = Self { id, purpose: None, tasks: None, is_mid_iteration: false, unheard: Vec::new() };
        for Envelope { event, .. } in history {
            match event {
                LoopEvent::LoopStarted(started) => {
                    let LoopStarted { purpose, policy, .. } = started.as_ref();
                    (cut.purpose, cut.tasks) = (purpose.clone(), turn_of(policy).cloned());
                }
                LoopEvent::IterationStarted { .. } => {
                    cut.is_mid_iteration = true;
                    cut.unheard.clear();
                }
                LoopEvent::IterationFinished { outcome, .. } => {
                    cut.is_mid_iteration = *outcome == IterationOutcome::Interrupted;
                }
                LoopEvent::Steered { text } => cut.unheard.push(text.clone()),
                _ => {}
            }
        }
        cut.unheard.extend(requested);
        cut
    }

    /// What it is granted to go on: an iteration that dacapo's own end cut short is no failure of the agent's.
    pub fn grant(&self) -> Grant {
        Grant { extra_iterations: u32::from(self.is_mid_iteration), ..Grant::default() }
    }
}

/// Whether a loop that ended like this is continued when its plan goes on: its claim or its agent was cut short by something
/// outside of it. A limit that was reached stays reached; a new loop has limits of its own. An agent that refuses the work has
/// done its own: the loop came to its end.
pub fn goes_on(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Interrupted
            | Reason::Terminated
            | Reason::Waiting
            | Reason::Question
            | Reason::Blocked
            | Reason::Auth
            | Reason::Billing
            | Reason::Agent
            | Reason::Disk
            | Reason::Lock
            | Reason::Error
    )
}

/// The tasks among the signals of a claim.
pub fn claimed_tasks(by: &[Signal]) -> impl DoubleEndedIterator<Item = u32> {
    claimed_items(by).map(|item| item.0)
}

#[cfg(test)]
#[path = "loop_facts_tests.rs"]
mod tests;
