//! Loops with items in the world, here tasks of a unit: agents complete them or say so, and they are committed.

use super::{
    super::{
        Input, ItemCommits, Phase,
        decide_tests::{
            items::{proof, source, task_set},
            seal,
        },
    },
    Chance,
    world::World,
};
use crate::{
    duration::Millis,
    item::{ItemFacts, ItemKey},
    judge::evidence::Evidence,
    policy::{OwnClaim, Policy},
    unit::{
        TaskStatus,
        items::{facts, items},
    },
};

impl World {
    /// What the files of tasks say when an agent has ended that may have completed any of them.
    pub(super) fn look_at_items(&mut self) -> ItemFacts {
        if !self.policy.marks_items() {
            return ItemFacts::default();
        }
        // News that come out of turn tell of an agent that is not there: it changes no file.
        let is_at_work = self.state.phase == Phase::Running;
        let numbers: Vec<u32> = self.tasks.keys().copied().collect();
        let mut said = vec![];
        for number in numbers {
            if self.chance.percent(30) && is_at_work {
                let status =
                    self.chance.of(&[TaskStatus::Complete, TaskStatus::Complete, TaskStatus::InProgress]);
                self.tasks.insert(number, status);
            }
            let status = self.tasks[&number];
            said.push((number, (!self.chance.percent(5)).then_some(status)));
        }
        facts(&task_set(), &said, vec![])
    }

    pub(super) fn items_committed(&mut self) -> Input {
        let (asked, count) = std::mem::take(&mut self.asked);
        let failed = (count < asked.len()).then(|| "locked".to_owned());
        // Nothing to commit is an answer too.
        let commit = |name: String, is_new: bool| is_new.then_some(name);
        let mut made = vec![];
        for (item, name) in asked.into_iter().take(count) {
            let is_new = !self.chance.percent(5);
            made.push((item, commit(name, is_new)));
        }
        let tree = failed.is_none().then(|| "tree of tasks".to_owned());
        Input::ItemsCommitted(ItemCommits { made, tree, failed }, seal())
    }

    /// After a loop with items no mark says more than was proven.
    pub(super) fn no_item_is_falsely_done(&self) {
        if !self.policy.marks_items() {
            return;
        }
        let proven = self.auditor.proven_items();
        for task in &task_set().tasks {
            let number = task.spec.number;
            let is_complete = self.tasks[&number] == TaskStatus::Complete;
            let may_be = task.status == TaskStatus::Complete || proven.contains(&ItemKey(number));
            assert_eq!(is_complete, may_be, "#{number} after {:?}", self.state.over());
        }
    }
}

/// Most items ask for nothing.
pub(super) fn some_evidence(chance: &mut Chance) -> Vec<Evidence> {
    Evidence::ALL.into_iter().filter(|_| chance.percent(8)).collect()
}

/// Some loops have items that are marked, and in some dacapo itself claims.
pub(super) fn with_items(mut policy: Policy, chance: &mut Chance) -> Policy {
    match chance.below(100) {
        0..=24 => {
            let commits = policy.commits();
            (policy.items, policy.source) = (items(&task_set()), Some(source()));
            for item in &mut policy.items {
                item.commit = item.commit.take().filter(|_| commits);
                item.evidence = some_evidence(chance);
            }
            let at = chance.below(policy.gates.specs.len() + 1);
            policy.gates.specs.insert(at, proof(3));
            policy.gates.specs.push(proof(2));
            for gate in &mut policy.gates.specs {
                gate.retries = chance.of(&[0, 0, 1]);
            }
        }
        25..=39 => {
            policy.claims.own_claim = chance.of(&[OwnClaim::AfterAgent, OwnClaim::Always]);
            if policy.claims.own_claim == OwnClaim::Always && chance.percent(40) {
                policy.limits.max_iterations = 0;
            }
        }
        _ => return policy,
    }
    policy.gates.run_all = chance.percent(50);
    policy.gates.timeout = chance.percent(30).then_some(Millis(2000));
    policy.pace.delay_limit = chance.percent(30).then_some(Millis(4000));
    policy
}
