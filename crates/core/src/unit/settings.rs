//! What a run of units was told before it began, and the policies of the loops that follow from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Task, TaskSet, TaskSpec,
    items::{self, UnitSource},
};
use crate::{
    agent::AgentCommand,
    duration::Millis,
    ids::UnitId,
    item::{Item, ItemKey, ItemSource},
    judge::gate_scripts::named_files,
    policy::{CommitRule, GateIn, GateSpec, Origin, OwnClaim, Policy, SetupCommand, TestsMode},
};

/// How often an agent may try to resolve a conflict, or to turn red checks green (req 53, req 54).
pub const FIXES: u32 = 3;
/// How long the checks after all tasks may take together (req 52).
pub const BASELINE_TIMEOUT: Millis = Millis::from_mins(10);
/// The pause between two tries at a conflict, at first and at most (req 54).
const CONFLICT_DELAY: (Millis, Millis) = (Millis::from_secs(1), Millis::from_secs(30));

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// What all its loops have in common; its gates come before those of tasks.
    pub policy: Policy,
    /// The folder of units, from the top of the repository.
    pub units_dir: String,
    /// Agents that units ask for themselves.
    pub providers: BTreeMap<UnitId, AgentCommand>,
    pub max_retries: u32,
    /// How long a task's backpressure may take (req 33).
    #[serde(default = "backpressure_timeout")]
    pub backpressure_timeout: Millis,
    /// How often a red backpressure is tried again.
    #[serde(default)]
    pub backpressure_retries: u32,
    /// Whether tasks that failed before are tried again.
    pub retry_failed: bool,
    /// The target that was typed; without one it follows from the configuration or the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_target: Option<String>,
    /// How long the run may take.
    #[serde(default)]
    pub max_time: Option<Millis>,
    /// What makes a fresh worktree ready.
    pub setup: Vec<SetupCommand>,
    /// What runs before a worktree goes.
    pub teardown: Vec<SetupCommand>,
    /// Whether submodules are fetched into a fresh worktree.
    pub submodules: bool,
    /// What must hold when all tasks of a unit are complete.
    pub baseline: Vec<BaselineCheck>,
}

/// A check of a whole unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineCheck {
    /// What people call it.
    pub name: String,
    pub run: String,
    /// Only if a file of the unit's tree matches this glob.
    pub pattern: Option<String>,
    /// How long it may take.
    pub timeout: Option<Millis>,
}

/// What a unit's work has to pass where it meets the work of others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MustHold {
    pub tasks: Vec<TaskSpec>,
    /// Tasks of units that were merged before and whose files it changes, too: what is proven stays so.
    pub others: Vec<(UnitId, TaskSpec)>,
    /// The checks of the whole repository.
    pub checks: Vec<BaselineCheck>,
}

fn backpressure_timeout() -> Millis {
    GateSpec::TIMEOUT
}

impl RunSettings {
    /// Defaults around a policy.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            units_dir: "specs/tasks".to_owned(),
            providers: BTreeMap::new(),
            max_retries: 3,
            backpressure_timeout: backpressure_timeout(),
            backpressure_retries: 0,
            retry_failed: false,
            typed_target: None,
            max_time: None,
            setup: Vec::new(),
            teardown: Vec::new(),
            submodules: false,
            baseline: Vec::new(),
        }
    }

    fn agent(&self, unit: &UnitId) -> AgentCommand {
        self.providers.get(unit).unwrap_or(&self.policy.agent.command).clone()
    }

    /// The files that every loop of a unit leaves alone, and the tasks whose status is a mark.
    pub fn source(&self, turn: Option<TaskSet>) -> ItemSource {
        ItemSource::Unit(UnitSource { dir: self.units_dir.clone(), turn })
    }

    /// What every loop of a unit has in common: its claims are never words.
    fn of_unit(&self, unit: &UnitId) -> Policy {
        self.policy.clone().with(|p| {
            p.agent.command = self.agent(unit);
            p.items = vec![Item::whole()];
            p.claims.done_file = false;
            p.claims.until = Vec::new();
            p.gates.baseline = false;
            p.gates.red_first = false;
            p.gates.tolerate_baseline = false;
            // Tasks often write what proves them, and what is merged is checked in a fresh checkout of its own.
            p.gates.probe = false;
            if p.gates.run_in == GateIn::Both {
                p.gates.run_in = GateIn::Workspace;
            }
            p.source = Some(self.source(None));
        })
    }

    /// A turn: one of the ready tasks, proven and committed. `has_work` says that the unit's branch holds proven work already:
    /// agents do more than the one task they claim, and what they did then needs no change any more.
    pub fn turn(&self, set: TaskSet, has_work: bool) -> Policy {
        let ready = set.tasks.iter().filter(|task| set.ready.contains(&task.spec.number));
        let proofs = ready.map(|task| self.task_gate(&task.spec, Some(items::key(&task.spec))));
        self.of_unit(&set.unit).with(|p| {
            p.claims.allow_empty = self.policy.claims.allow_empty || has_work;
            p.gates.named_later = self.named_later(&set.tasks);
            p.gates.specs = self.policy.gates.specs.iter().cloned().chain(proofs).collect();
            p.limits.max_iterations = self.max_retries.max(1);
            p.items = items::items(&set);
            p.source = Some(self.source(Some(set.clone())));
        })
    }

    /// The checks after all tasks: first as things stand, then after each of a few fixes. All of them run.
    pub fn baseline(&self, unit: &UnitId, tasks: &[Task], checks: &[BaselineCheck]) -> Policy {
        self.fixing(unit).with(|p| {
            p.gates.named_later = self.named_later(tasks);
            p.gates.specs = checks.iter().map(baseline_gate).collect();
            p.gates.timeout = Some(BASELINE_TIMEOUT);
            p.items = committed(
                format!("fix({unit}): baseline checks"),
                written(tasks.iter().map(|task| &task.spec)),
            );
        })
    }

    /// A unit that was sent back: everything that the merged tree had to pass, in its own worktree.
    pub fn sent_back(&self, unit: &UnitId, must_hold: &MustHold) -> Policy {
        self.fixing(unit).with(|p| {
            p.gates.specs = self.proofs(must_hold);
            p.items =
                committed(format!("fix({unit}): what the merge broke"), written(must_hold.tasks.iter()));
        })
    }

    /// The merged tree: no agent works on it, it passes or it does not.
    pub fn merged(&self, unit: &UnitId, must_hold: &MustHold) -> Policy {
        self.fixing(unit).with(|p| {
            p.gates.specs = self.proofs(must_hold);
            // No agent works here: what its tasks changed was judged with each of them.
            p.gates.tests = TestsMode::Free;
            p.limits.max_iterations = 0;
        })
    }

    /// A tree with conflicts in `paths`, for an agent to resolve.
    pub fn conflict(&self, unit: &UnitId, must_hold: &MustHold, paths: &[String]) -> Policy {
        let (delay, most) = CONFLICT_DELAY;
        let markers = GateSpec::no_markers(paths);
        // A test with markers of a conflict in it passes nothing.
        let writes = paths.iter().cloned().chain(written(must_hold.tasks.iter())).collect();
        self.fixing(unit).with(|p| {
            p.gates.specs = std::iter::once(markers).chain(self.proofs(must_hold)).collect();
            p.items = vec![Item { writes, ..Item::whole() }];
            p.claims.own_claim = OwnClaim::AfterAgent;
            p.pace.restart_delay = delay;
            p.pace.delay_limit = Some(most);
        })
    }

    /// The files that the checks of the unit name, those of this loop and those that its work meets later. What a task is to write
    /// is none of them.
    fn named_later(&self, tasks: &[Task]) -> Vec<String> {
        let checks = self.baseline.iter().map(|check| &check.run);
        let commands = tasks.iter().map(|task| &task.spec.backpressure).chain(checks);
        let is_written = |file: &String| tasks.iter().any(|task| task.spec.writes.contains(file));
        let mut files: Vec<String> =
            commands.flat_map(|command| named_files(command)).filter(|file| !is_written(file)).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    fn fixing(&self, unit: &UnitId) -> Policy {
        self.of_unit(unit).with(|p| {
            p.limits.max_iterations = FIXES;
            p.claims.own_claim = OwnClaim::Always;
            p.gates.run_all = true;
            p.claims.allow_empty = true;
        })
    }

    /// Everything that must hold, each command once.
    fn proofs(&self, must_hold: &MustHold) -> Vec<GateSpec> {
        let MustHold { tasks, others, checks } = must_hold;
        let tasks = tasks.iter().map(|task| self.task_gate(task, None));
        let others = others.iter().map(|(unit, task)| GateSpec {
            name: format!("task #{} of {unit}", task.number),
            ..self.task_gate(task, None)
        });
        let checks = checks.iter().map(baseline_gate);
        let mut gates: Vec<GateSpec> = Vec::new();
        for gate in self.policy.gates.specs.iter().cloned().chain(tasks).chain(others).chain(checks) {
            if !gates.iter().any(|known| known.run == gate.run) {
                gates.push(gate);
            }
        }
        gates
    }

    /// The gate that proves a task; `item` is what it decides about, if it decides about that alone.
    fn task_gate(&self, task: &TaskSpec, item: Option<ItemKey>) -> GateSpec {
        GateSpec {
            name: format!("task #{}", task.number),
            timeout: self.backpressure_timeout,
            retries: self.backpressure_retries,
            origin: Origin::Repository,
            item,
            ..GateSpec::of_command(&task.backpressure)
        }
    }
}

/// The whole work, committed in these words; `writes` are the tests that it may change.
fn committed(message: String, writes: Vec<String>) -> Vec<Item> {
    vec![Item { commit: Some(CommitRule { message: Some(message) }), writes, ..Item::whole() }]
}

/// What tasks are to write: where their work is mended, it may be mended too.
fn written<'a>(tasks: impl Iterator<Item = &'a TaskSpec>) -> Vec<String> {
    tasks.flat_map(|task| task.writes.iter().cloned()).collect()
}

fn baseline_gate(check: &BaselineCheck) -> GateSpec {
    GateSpec {
        name: check.name.clone(),
        timeout: check.timeout.unwrap_or(BASELINE_TIMEOUT),
        origin: Origin::Repository,
        ..GateSpec::of_command(&check.run)
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
