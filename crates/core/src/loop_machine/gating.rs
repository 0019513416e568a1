//! Which gates stand before a claim, and what they have said so far: a fold of events like the rest of the state.

use super::state::{LoopState, signature};
use crate::{
    duration::Millis,
    event::{GateResult, GateRole},
    judge::{
        claim::{Refusal, RefusalReason, refused_by_gate},
        signal::Signal,
    },
    prompt::{Feedback, GateFeedback},
};

/// A gate's name, its command line, and what it came to.
type Spoken = (String, String, GateResult);

impl LoopState {
    /// The checks of this role in the order they run, by their place in the policy.
    pub(super) fn order(&self, role: GateRole) -> Vec<usize> {
        let Some(started) = &self.started else { return Vec::new() };
        let policy = &started.policy;
        let claimed = match role {
            GateRole::Until => return (0..policy.claims.until.len()).collect(),
            GateRole::Gate if policy.tasks.is_some() => self.claimed_tasks(),
            // Without tasks to choose from every gate is for all of it.
            GateRole::Gate | GateRole::Baseline => return (0..policy.gates.specs.len()).collect(),
        };
        let of = |task: Option<u32>| {
            policy
                .gates
                .specs
                .iter()
                .enumerate()
                .filter(move |(_, gate)| gate.task == task)
                .map(|(index, _)| index)
        };
        of(None).chain(claimed.into_iter().flat_map(|task| of(Some(task)))).collect()
    }

    /// The check that follows the one at `index`; those of a task that is out already are left out.
    pub(super) fn next_check(&self, role: GateRole, index: usize) -> Option<usize> {
        let order = self.order(role);
        let at = order.iter().position(|i| *i == index)? + 1;
        let runs_all = self.started.as_ref().is_some_and(|started| started.policy.gates.run_all);
        let out = if runs_all || role != GateRole::Gate { Vec::new() } else { self.refused_tasks() };
        let is_out = |index: &usize| self.task_of(*index).is_some_and(|task| out.contains(&task));
        order[at..].iter().copied().find(|index| !is_out(index))
    }

    /// The index of the check with this command line, from the one that ran last on: commands may repeat.
    pub(super) fn index_of(&self, role: GateRole, command: &str, task: Option<u32>, attempt: u32) -> usize {
        use super::state::{JudgeStep, Phase};
        let Some(started) = &self.started else { return 0 };
        let order = self.order(role);
        let from = match self.phase {
            Phase::Judging(JudgeStep::Check { role: last, index, .. }) if last == role => {
                let at = order.iter().position(|i| *i == index).unwrap_or(0);
                if attempt > 1 { at } else { at + 1 }
            }
            _ => 0,
        };
        let is_it = |index: usize| match role {
            GateRole::Until => started.policy.claims.until[index] == command,
            GateRole::Gate | GateRole::Baseline => {
                let gate = &started.policy.gates.specs[index];
                gate.run == command && gate.task == task
            }
        };
        let rest = order.get(from..).unwrap_or_default();
        rest.iter().copied().find(|index| is_it(*index)).or(order.get(from).copied()).unwrap_or(from)
    }

    /// The tasks that are claimed.
    pub(super) fn claimed_tasks(&self) -> Vec<u32> {
        self.claim.as_ref().map_or_else(Vec::new, |claim| tasks_of(&claim.by))
    }

    /// Claimed tasks that no gate has refused.
    pub(super) fn standing_tasks(&self) -> Vec<u32> {
        let refused = self.refused_tasks();
        self.claimed_tasks().into_iter().filter(|task| !refused.contains(task)).collect()
    }

    /// What a claim that is accepted now rests on: a task that is out is no part of it.
    pub(super) fn standing_signals(&self) -> Vec<Signal> {
        let refused = self.refused_tasks();
        let by = self.claim.as_ref().map_or(&[][..], |claim| &claim.by);
        by.iter().filter(|s| !matches!(s, Signal::Task(n) if refused.contains(n))).cloned().collect()
    }

    /// The tasks that a red gate of theirs has taken out of the claim.
    pub(super) fn refused_tasks(&self) -> Vec<u32> {
        self.red_gates().filter_map(|(index, _)| self.task_of(index)).collect()
    }

    /// Why the gates that have run refuse the whole claim, if they do.
    pub(super) fn refused_by_gates(&self) -> Option<Refusal> {
        let is_whole = self.red_gates().any(|(index, _)| self.task_of(index).is_none());
        let none_left = self.has_tasks() && self.standing_tasks().is_empty();
        if !is_whole && !none_left {
            return None;
        }
        let lines = self.red_gates().filter_map(|(index, (name, _, result))| {
            let line = refused_by_gate(name, result)?.1;
            Some(match self.task_of(index) {
                Some(task) => format!("task #{task}: {line}"),
                None => line,
            })
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| (RefusalReason::GateFailed, lines.join("; ")))
    }

    /// How long the gates of the claim took so far.
    pub(super) fn gates_took(&self) -> Millis {
        self.gates.iter().fold(Millis(0), |sum, (_, _, result)| sum.plus(result.duration_ms))
    }

    /// Takes in what a gate of the claim came to.
    pub(super) fn take_gate(&mut self, index: usize, name: &str, command: &str, result: &GateResult) {
        self.verdicts.insert(index, self.gates.len());
        self.gates.push((name.to_owned(), command.to_owned(), result.clone()));
        let signatures: Vec<String> =
            self.red_gates().map(|(_, (name, _, result))| signature(name, result)).collect();
        // A gate may have been red when it was tried before.
        self.failure = (!signatures.is_empty()).then(|| signatures.join(" "));
        if !result.passed && !result.tolerated {
            let gates = self.red_gates().map(|(index, gate)| self.feedback_of(index, gate)).collect();
            self.feedback = Some(Feedback::of_gates(self.iterations, gates));
        }
    }

    fn feedback_of(&self, index: usize, (name, command, result): &Spoken) -> GateFeedback {
        let was_red = self.baseline.get(name).is_some_and(|seen| !seen.is_empty());
        GateFeedback::new(name, command, self.task_of(index), result, was_red)
    }

    /// The gates that are red by their newest try, in the order of those tries.
    fn red_gates(&self) -> impl Iterator<Item = (usize, &Spoken)> {
        let mut newest: Vec<(usize, usize)> = self.verdicts.iter().map(|(index, at)| (*at, *index)).collect();
        newest.sort_unstable();
        newest
            .into_iter()
            .filter_map(|(at, index)| Some((index, self.gates.get(at)?)))
            .filter(|(_, (_, _, result))| !result.passed && !result.tolerated)
    }

    /// The task that the gate at `index` decides about alone.
    fn task_of(&self, index: usize) -> Option<u32> {
        let policy = &self.started.as_ref()?.policy;
        policy.tasks.as_ref()?;
        policy.gates.specs.get(index)?.task
    }

    fn has_tasks(&self) -> bool {
        self.started.as_ref().is_some_and(|started| started.policy.tasks.is_some())
    }
}

/// The tasks among signals.
pub(super) fn tasks_of(by: &[Signal]) -> Vec<u32> {
    let task = |signal: &Signal| match signal {
        Signal::Task(number) => Some(*number),
        _ => None,
    };
    by.iter().filter_map(task).collect()
}
