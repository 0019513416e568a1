//! How a run stands: a fold of its events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::Job;
use crate::{
    event::{MergeMode, RunEvent, RunStarted, RunStop, UnitEnd},
    ids::UnitId,
    unit::account::RecordedLoops,
};

/// A run as its journal has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub(super) parallel: u32,
    pub(super) merge: MergeMode,
    /// In the order of the plan.
    pub(super) units: Vec<UnitState>,
    pub(super) index: BTreeMap<UnitId, usize>,
    /// Units that could be worked on, those that were sent back first.
    pub(super) ready: BTreeSet<(bool, usize)>,
    /// Completed units that wait to be merged or published, in the order of their completion.
    pub(super) lane: VecDeque<usize>,
    /// Units with a job.
    pub(super) busy: BTreeSet<usize>,
    pub(super) free_slots: BTreeSet<u32>,
    /// Units that have not come to an end.
    pub(super) open: usize,
    pub(super) stopping: Option<RunStop>,
    /// Whether a person holds it; true for now, not after the iteration.
    pub(super) paused: Option<bool>,
    /// The unit whose end holds for all others, and why.
    pub(super) dry: Option<String>,
    /// The first thing that went wrong: the unit, the kind, one line.
    pub(super) first_failure: Option<(UnitId, UnitEnd, String)>,
    /// Where the newest merge waits, if the target could not be moved, and the command that moves it.
    pub(super) left_on: Option<(String, String)>,
    over: Option<RunOver>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOver {
    /// `completed`, or the reason of `orch.failed`.
    pub reason: String,
    pub detail: String,
    /// What the command exits with.
    pub exit_code: u8,
}

/// A unit of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct UnitState {
    pub(super) id: UnitId,
    pub(super) standing: UnitStanding,
    /// How many units must still come first.
    pub(super) waits_for: usize,
    /// The units that wait for this one.
    pub(super) behind: Vec<usize>,
    /// The units of this run that this one waits for.
    pub(super) first: Vec<usize>,
    /// The slot of its work; 0 for a job in the lane.
    pub(super) slot: u32,
    pub(super) sent_back: u32,
    pub(super) back: Option<String>,
    /// Whether its branch or pull request is out.
    pub(super) is_out: bool,
    /// The commit that holds it in the target.
    pub(super) merged: Option<String>,
    /// What was told of its loops.
    pub(super) told: RecordedLoops,
}

/// How a unit stands in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitStanding {
    /// It waits for others or for a slot.
    Queued,
    /// A job works on it.
    Working,
    /// Its work is done; where that is not the end, it waits for its turn to be merged or published.
    Completed,
    /// It is being merged.
    Merging,
    /// It is being published.
    Publishing,
    /// The merged tree was red: it will be worked on again.
    SentBack,
    /// The target holds it.
    Merged,
    /// Its branch is out.
    Published,
    /// It came to no good end, or was stopped.
    Failed(UnitEnd),
    Blocked,
}

impl RunState {
    /// Whether there is a run at all.
    pub(super) fn has_begun(&self) -> bool {
        self.parallel > 0
    }

    /// How it ended, if it did.
    pub fn over(&self) -> Option<&RunOver> {
        self.over.as_ref()
    }

    /// Whether a unit other than this one is being merged, so that the target may move at any moment.
    pub fn merges_another_than(&self, unit: &UnitId) -> bool {
        let own = self.index.get(unit);
        let mut busy = self.busy.iter().filter(|at| Some(*at) != own);
        busy.any(|at| self.units[*at].standing == UnitStanding::Merging)
    }

    /// Whether a person holds it, and if so, whether agents are stopped for that.
    pub fn paused(&self) -> Option<bool> {
        self.paused
    }

    /// Who or what wants it to end.
    pub fn stopping(&self) -> Option<RunStop> {
        self.stopping
    }

    /// How a unit stands.
    pub fn standing(&self, unit: &UnitId) -> Option<UnitStanding> {
        self.get(unit).map(|unit| unit.standing)
    }

    /// Units that this run has merged, and the commit that holds each.
    pub fn merged(&self) -> impl Iterator<Item = (&UnitId, &str)> {
        self.units.iter().filter_map(|unit| Some((&unit.id, unit.merged.as_deref()?)))
    }

    /// All units in the order of the plan, and how they stand.
    pub fn standings(&self) -> impl Iterator<Item = (&UnitId, UnitStanding)> {
        self.units.iter().map(|unit| (&unit.id, unit.standing))
    }

    /// Units whose job runs.
    pub fn busy(&self) -> impl Iterator<Item = &UnitId> {
        self.busy.iter().filter_map(|index| self.units.get(*index)).map(|unit| &unit.id)
    }

    /// What was told of a unit's loops.
    pub(super) fn told(&self, unit: &UnitId) -> Option<&RecordedLoops> {
        self.get(unit).map(|unit| &unit.told)
    }

    /// Takes in one fact.
    pub fn apply(&mut self, unit: Option<&UnitId>, event: &RunEvent) {
        match event {
            RunEvent::OrchStarted(started) => self.begin(started),
            RunEvent::OrchStopping { by } => self.stopping = Some(*by),
            RunEvent::OrchPaused { now } => self.paused = Some(*now),
            RunEvent::OrchUnpaused { .. } => self.paused = None,
            RunEvent::OrchCompleted { detail } => {
                self.over =
                    Some(RunOver { reason: "completed".to_owned(), detail: detail.clone(), exit_code: 0 });
            }
            RunEvent::OrchFailed { reason, detail, exit_code } => {
                self.over =
                    Some(RunOver { reason: reason.clone(), detail: detail.clone(), exit_code: *exit_code });
            }
            _ => {
                if let Some(index) = unit.and_then(|unit| self.index.get(unit)).copied() {
                    self.apply_to(index, event);
                }
            }
        }
    }

    fn begin(&mut self, started: &RunStarted) {
        self.parallel = started.parallel.max(1);
        self.merge = started.merge;
        // A slot more than units is never used, and a slip of the finger is not a million of them.
        let slots = self.parallel.min(u32::try_from(started.units.len()).unwrap_or(u32::MAX));
        self.free_slots = (1..=slots).collect();
        for plan in &started.units {
            let at = self.units.len();
            if self.index.contains_key(&plan.unit) {
                continue;
            }
            self.index.insert(plan.unit.clone(), at);
            self.units.push(UnitState {
                id: plan.unit.clone(),
                standing: UnitStanding::Queued,
                waits_for: 0,
                behind: Vec::new(),
                first: Vec::new(),
                slot: 0,
                sent_back: 0,
                back: None,
                is_out: false,
                merged: None,
                told: RecordedLoops::default(),
            });
        }
        for plan in &started.units {
            let Some(at) = self.index.get(&plan.unit).copied() else { continue };
            let first: BTreeSet<usize> =
                plan.depends_on.iter().filter_map(|unit| self.index.get(unit)).copied().collect();
            for before in &first {
                self.units[*before].behind.push(at);
            }
            self.units[at].waits_for = first.len();
            self.units[at].first = first.into_iter().collect();
        }
        self.open = self.units.len();
        let free = self.units.iter().enumerate().filter(|(_, unit)| unit.waits_for == 0);
        self.ready = free.map(|(at, _)| (true, at)).collect();
    }

    fn apply_to(&mut self, at: usize, event: &RunEvent) {
        self.units[at].told.record(event);
        match event {
            RunEvent::UnitStarted { slot } => {
                self.ready.remove(&(true, at));
                self.ready.remove(&(false, at));
                self.free_slots.remove(slot);
                self.begin_job(at, UnitStanding::Working, *slot);
            }
            RunEvent::UnitMerging => self.begin_job(at, UnitStanding::Merging, 0),
            RunEvent::UnitPublishing => self.begin_job(at, UnitStanding::Publishing, 0),
            RunEvent::UnitCompleted { .. } => {
                self.units[at].standing = UnitStanding::Completed;
                if self.merge == MergeMode::Leave {
                    self.end_well(at);
                } else {
                    self.lane.push_back(at);
                }
            }
            RunEvent::UnitMerged { commit, left_on, .. } => {
                self.left_on.clone_from(left_on);
                self.units[at].standing = UnitStanding::Merged;
                self.units[at].merged = Some(commit.clone());
                self.end_well(at);
            }
            RunEvent::UnitSentBack { detail } => {
                let unit = &mut self.units[at];
                unit.standing = UnitStanding::SentBack;
                unit.sent_back += 1;
                unit.back = Some(detail.clone());
            }
            RunEvent::UnitFailed { reason, detail, .. } => self.end_badly(at, *reason, detail),
            RunEvent::UnitBlocked { .. } => {
                self.ready.remove(&(true, at));
                self.units[at].standing = UnitStanding::Blocked;
                self.open = self.open.saturating_sub(1);
            }
            RunEvent::PrCreated { .. } | RunEvent::BranchPushed { .. } => self.units[at].is_out = true,
            RunEvent::UnitJobEnded => self.end_job(at),
            _ => {}
        }
    }

    fn begin_job(&mut self, at: usize, standing: UnitStanding, slot: u32) {
        self.lane.retain(|other| *other != at);
        self.busy.insert(at);
        let unit = &mut self.units[at];
        (unit.standing, unit.slot, unit.is_out) = (standing, slot, false);
    }

    fn end_job(&mut self, at: usize) {
        self.busy.remove(&at);
        let unit = &mut self.units[at];
        if unit.slot > 0 {
            self.free_slots.insert(unit.slot);
            unit.slot = 0;
        }
        match unit.standing {
            UnitStanding::SentBack => {
                self.ready.insert((false, at));
            }
            UnitStanding::Publishing if unit.is_out => {
                unit.standing = UnitStanding::Published;
                self.end_well(at);
            }
            _ => {}
        }
    }

    fn end_well(&mut self, at: usize) {
        self.open = self.open.saturating_sub(1);
        for behind in self.units[at].behind.clone() {
            let unit = &mut self.units[behind];
            unit.waits_for = unit.waits_for.saturating_sub(1);
            if unit.waits_for == 0 && unit.standing == UnitStanding::Queued {
                self.ready.insert((true, behind));
            }
        }
    }

    fn end_badly(&mut self, at: usize, reason: UnitEnd, detail: &str) {
        self.lane.retain(|other| *other != at);
        self.ready.remove(&(true, at));
        self.ready.remove(&(false, at));
        self.open = self.open.saturating_sub(1);
        let unit = &mut self.units[at];
        unit.standing = UnitStanding::Failed(reason);
        if matches!(reason, UnitEnd::Budget | UnitEnd::Auth) && self.dry.is_none() {
            self.dry = Some(format!("{}: {detail}", unit.id));
        }
        if self.first_failure.is_none() {
            self.first_failure = Some((unit.id.clone(), reason, detail.to_owned()));
        }
    }

    fn get(&self, unit: &UnitId) -> Option<&UnitState> {
        self.units.get(*self.index.get(unit)?)
    }
}

impl UnitState {
    /// Whether nothing more will happen to it in this run.
    pub(super) fn is_over(&self, merge: MergeMode) -> bool {
        match self.standing {
            UnitStanding::Merged
            | UnitStanding::Published
            | UnitStanding::Failed(_)
            | UnitStanding::Blocked => true,
            UnitStanding::Completed => merge == MergeMode::Leave,
            UnitStanding::Queued
            | UnitStanding::Working
            | UnitStanding::Merging
            | UnitStanding::Publishing
            | UnitStanding::SentBack => false,
        }
    }

    /// The work that is due.
    pub(super) fn work(&self) -> Job {
        Job::Work { back: self.back.clone() }
    }
}
