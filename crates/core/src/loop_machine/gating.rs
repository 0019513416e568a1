//! Which gates a claim must pass, and what those that have run say about it.

use super::{
    looks::first_look,
    phase::{GateTry, Judging},
};
use crate::{
    duration::Millis,
    event::Look,
    item::{Item, ItemKey, claimed_items},
    judge::{
        claim::{Refusal, RefusalReason, refused_by_gate},
        evidence::MissingEvidence,
        signal::Signal,
    },
    policy::Policy,
};

impl Judging {
    /// The gates of the claim in the order they run, by their place in the policy: first those that are about all of it,
    /// then those of each claimed item that shows its evidence.
    pub(super) fn gates(&self, policy: &Policy) -> Vec<usize> {
        let specs = &policy.gates.specs;
        let of = |item: Option<ItemKey>| (0..specs.len()).filter(move |index| specs[*index].item == item);
        let lacks = |item: &ItemKey| self.missing_evidence().any(|missing| missing.item == Some(*item));
        let shown = claimed_items(&self.claim.by).filter(|item| !lacks(item));
        of(None).chain(shown.flat_map(|item| of(Some(item)))).collect()
    }

    /// The gate that follows the one at `index`. Gates of an item that was refused already are left out.
    pub(super) fn next_gate(&self, policy: &Policy, index: usize) -> Option<usize> {
        let order = self.gates(policy);
        let at = order.iter().position(|i| *i == index)? + 1;
        let out = if policy.gates.run_all { Vec::new() } else { self.refused_items(policy) };
        let is_out = |index: &usize| item_of(policy, *index).is_some_and(|item| out.contains(&item));
        order[at..].iter().copied().find(|index| !is_out(index))
    }

    /// Claimed items that nothing has refused.
    pub(super) fn standing_items(&self, policy: &Policy) -> Vec<ItemKey> {
        let refused = self.refused_items(policy);
        claimed_items(&self.claim.by).filter(|item| !refused.contains(item)).collect()
    }

    /// The signals of the claim without those of refused items.
    pub(super) fn standing_signals(&self, policy: &Policy) -> Vec<Signal> {
        let refused = self.refused_items(policy);
        let by = self.claim.by.iter();
        by.filter(|s| !matches!(s, Signal::Item(key) if refused.contains(key))).cloned().collect()
    }

    /// The claimed items whose evidence is missing or one of whose gates is red.
    fn refused_items(&self, policy: &Policy) -> Vec<ItemKey> {
        let red = self.red_in(first_look(policy)).filter_map(|red| item_of(policy, red.index));
        self.missing_evidence().filter_map(|missing| missing.item).chain(red).collect()
    }

    fn missing_evidence(&self) -> impl Iterator<Item = &MissingEvidence> {
        self.examined.iter().flat_map(|found| &found.missing_evidence)
    }

    /// Why the gates that have run refuse the whole claim, if they do.
    pub(super) fn refused_by_gates(&self, policy: &Policy) -> Option<Refusal> {
        let first = first_look(policy);
        let is_whole = self.red_in(first).any(|red| item_of(policy, red.index).is_none());
        let none_left = policy.marks_items() && self.standing_items(policy).is_empty();
        if !is_whole && !none_left {
            return None;
        }
        let lines = self.red_in(first).filter_map(|red| {
            let line = refused_by_gate(&red.name, &red.result)?.1;
            Some(match label_of(policy, red.index) {
                Some(item) => format!("{item}: {line}"),
                None => line,
            })
        });
        let without_evidence = self.missing_evidence().filter_map(|missing| {
            let item = policy.item(missing.item?)?;
            Some(format!("{}: {}", item.label(), missing.reason))
        });
        let lines: Vec<String> = lines.chain(without_evidence).collect();
        (!lines.is_empty()).then(|| (RefusalReason::GateFailed, lines.join("; ")))
    }

    /// How long the gates of the claim took so far.
    pub(super) fn gates_took(&self) -> Millis {
        self.tries.iter().fold(Millis(0), |sum, tried| sum.plus(tried.result.duration_ms))
    }

    /// The gates that are red by their newest try, in the run of the gates that is the newest.
    pub(super) fn red(&self) -> impl Iterator<Item = &GateTry> {
        let look = self.tries.last().map(|tried| tried.look);
        look.into_iter().flat_map(|look| self.red_in(look))
    }

    /// The gates that are red by their newest try in `look`, in the order of those tries.
    pub(super) fn red_in(&self, look: Look) -> impl Iterator<Item = &GateTry> {
        let is_newest = move |at: usize| {
            let index = self.tries[at].index;
            self.tries[at + 1..].iter().all(|later| later.index != index || later.look != look)
        };
        let tries = self.tries.iter().enumerate();
        tries
            .filter(move |(at, tried)| tried.look == look && !tried.holds() && is_newest(*at))
            .map(|(_, tried)| tried)
    }

    /// Whether every gate of `look` has run and passed.
    pub(crate) fn has_passed(&self, look: Look) -> bool {
        self.tries.iter().any(|tried| tried.look == look) && self.red_in(look).next().is_none()
    }

    /// The signatures of the red gates; `None` while none is red.
    pub(crate) fn failure(&self) -> Option<String> {
        let signatures: Vec<&str> = self.red().map(|red| red.result.signature.as_str()).collect();
        (!signatures.is_empty()).then(|| signatures.join(" "))
    }
}

/// The item that the gate at `index` is about; `None` if the gate is about the whole claim.
fn item_of(policy: &Policy, index: usize) -> Option<ItemKey> {
    policy.gates.specs.get(index)?.item
}

/// The name, for people, of the item that the gate at `index` is about.
pub(super) fn label_of(policy: &Policy, index: usize) -> Option<String> {
    policy.item(item_of(policy, index)?).map(Item::label)
}
