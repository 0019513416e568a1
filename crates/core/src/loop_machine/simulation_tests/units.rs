//! Loops of units in the world: tasks that agents complete or say so, and their commits.

use super::{
    super::{
        Input, TaskCommits,
        decide_tests::{
            seal,
            tasks::{proof, task_set},
        },
    },
    Chance,
    world::World,
};
use crate::{
    duration::Millis,
    policy::{OwnClaim, Policy},
    unit::TaskStatus,
};

impl World {
    /// What the files of tasks say when an agent has ended that may have completed any of them.
    pub(super) fn look_at_tasks(&mut self) -> Vec<(u32, Option<TaskStatus>)> {
        if self.policy.tasks.is_none() {
            return vec![];
        }
        let numbers: Vec<u32> = self.tasks.keys().copied().collect();
        let mut said = vec![];
        for number in numbers {
            if self.chance.percent(30) {
                let status =
                    self.chance.of(&[TaskStatus::Complete, TaskStatus::Complete, TaskStatus::InProgress]);
                self.tasks.insert(number, status);
            }
            let status = self.tasks[&number];
            said.push((number, (!self.chance.percent(5)).then_some(status)));
        }
        said
    }

    pub(super) fn tasks_committed(&mut self) -> Input {
        let (asked, count) = std::mem::take(&mut self.asked);
        let failed = (count < asked.len()).then(|| "locked".to_owned());
        // Nothing to commit is an answer too.
        let commit = |name: String, is_new: bool| is_new.then_some(name);
        let mut made = vec![];
        for (task, name) in asked.into_iter().take(count) {
            let is_new = !self.chance.percent(5);
            made.push((task, commit(name, is_new)));
        }
        let tree = failed.is_none().then(|| "tree of tasks".to_owned());
        Input::TasksCommitted(TaskCommits { made, tree, failed }, seal())
    }

    /// After a loop of tasks no file says more than was proven.
    pub(super) fn no_task_is_falsely_complete(&self) {
        let Some(set) = &self.policy.tasks else { return };
        let proven = self.auditor.proven_tasks();
        for task in &set.tasks {
            let number = task.spec.number;
            let is_complete = self.tasks[&number] == TaskStatus::Complete;
            let may_be = task.status == TaskStatus::Complete || proven.contains(&number);
            assert_eq!(is_complete, may_be, "#{number} after {:?}", self.state.over());
        }
    }
}

/// Some loops are those of units: of tasks, or of checks that dacapo itself wants.
pub(super) fn unit_policy(mut policy: Policy, chance: &mut Chance) -> Policy {
    match chance.below(100) {
        0..=24 => {
            policy.tasks = Some(task_set());
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
