//! Which gates a claim must pass, and what those that have run say about it.

use super::phase::{GateTry, Judging};
use crate::{
    duration::Millis,
    judge::{
        claim::{Refusal, RefusalReason, refused_by_gate},
        signal::Signal,
    },
    policy::Policy,
};

impl Judging {
    /// The gates of the claim in the order they run, by their place in the policy: first those that are about all of it,
    /// then those of each claimed task.
    pub(super) fn gates(&self, policy: &Policy) -> Vec<usize> {
        let specs = &policy.gates.specs;
        if policy.tasks.is_none() {
            return (0..specs.len()).collect();
        }
        let of = |task: Option<u32>| (0..specs.len()).filter(move |index| specs[*index].task == task);
        of(None).chain(self.claimed_tasks().into_iter().flat_map(|task| of(Some(task)))).collect()
    }

    /// The gate that follows the one at `index`; those of a task that is out already are left out.
    pub(super) fn next_gate(&self, policy: &Policy, index: usize) -> Option<usize> {
        let order = self.gates(policy);
        let at = order.iter().position(|i| *i == index)? + 1;
        let out = if policy.gates.run_all { Vec::new() } else { self.refused_tasks(policy) };
        let is_out = |index: &usize| task_of(policy, *index).is_some_and(|task| out.contains(&task));
        order[at..].iter().copied().find(|index| !is_out(index))
    }

    pub(super) fn claimed_tasks(&self) -> Vec<u32> {
        tasks_of(&self.claim.by)
    }

    /// Claimed tasks that no gate has refused.
    pub(super) fn standing_tasks(&self, policy: &Policy) -> Vec<u32> {
        let refused = self.refused_tasks(policy);
        self.claimed_tasks().into_iter().filter(|task| !refused.contains(task)).collect()
    }

    /// What a claim that is accepted now rests on: a task that is out is no part of it.
    pub(super) fn standing_signals(&self, policy: &Policy) -> Vec<Signal> {
        let refused = self.refused_tasks(policy);
        let by = self.claim.by.iter();
        by.filter(|s| !matches!(s, Signal::Task(n) if refused.contains(n))).cloned().collect()
    }

    /// The tasks that a red gate of theirs has taken out of the claim.
    pub(super) fn refused_tasks(&self, policy: &Policy) -> Vec<u32> {
        self.red().filter_map(|red| task_of(policy, red.index)).collect()
    }

    /// Why the gates that have run refuse the whole claim, if they do.
    pub(super) fn refused_by_gates(&self, policy: &Policy) -> Option<Refusal> {
        let is_whole = self.red().any(|red| task_of(policy, red.index).is_none());
        let none_left = policy.tasks.is_some() && self.standing_tasks(policy).is_empty();
        if !is_whole && !none_left {
            return None;
        }
        let lines = self.red().filter_map(|red| {
            let line = refused_by_gate(&red.name, &red.result)?.1;
            Some(match task_of(policy, red.index) {
                Some(task) => format!("task #{task}: {line}"),
                None => line,
            })
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| (RefusalReason::GateFailed, lines.join("; ")))
    }

    /// How long the gates of the claim took so far.
    pub(super) fn gates_took(&self) -> Millis {
        self.tries.iter().fold(Millis(0), |sum, tried| sum.plus(tried.result.duration_ms))
    }

    /// The gates that are red by their newest try, in the order of those tries.
    pub(super) fn red(&self) -> impl Iterator<Item = &GateTry> {
        let is_newest =
            |at: usize| self.tries[at + 1..].iter().all(|later| later.index != self.tries[at].index);
        let tries = self.tries.iter().enumerate();
        tries.filter(move |(at, tried)| !tried.holds() && is_newest(*at)).map(|(_, tried)| tried)
    }

    /// What tells the failure of these gates from others; `None` while none is red.
    pub(super) fn failure(&self) -> Option<String> {
        let signatures: Vec<&str> = self.red().map(|red| red.result.signature.as_str()).collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}

/// The task that the gate at `index` decides about alone.
pub(super) fn task_of(policy: &Policy, index: usize) -> Option<u32> {
    policy.tasks.as_ref()?;
    policy.gates.specs.get(index)?.task
}

/// The tasks among signals.
pub(super) fn tasks_of(by: &[Signal]) -> Vec<u32> {
    let task = |signal: &Signal| match signal {
        Signal::Task(number) => Some(*number),
        _ => None,
    };
    by.iter().filter_map(task).collect()
}
