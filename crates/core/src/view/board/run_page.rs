//! The pages of runs: the graph of units with the merge train and the slots over time, the steps of a workflow, the stages of a
//! task. Folds of views and of the run's events.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;

use super::{Card, card_of_loop, clean, small};
use crate::{
    event::{RunEnvelope, RunEvent, Spend},
    ids::{LoopId, UnitId},
    stages::StageName,
    unit::TaskStatus,
    view::{LoopView, RunView, StageTaskView, StepView, UnitStatus, UnitView, WorkflowView},
    workflow::machine::WorkflowStarted,
};

/// How many of the parts of something are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartsDone {
    pub done: u32,
    pub all: u32,
}

/// One unit in the graph of its run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitNode {
    pub unit: UnitId,
    /// 0 without dependencies, else one more than the deepest unit that it waits for.
    pub level: u32,
    pub depends_on: Vec<UnitId>,
    pub blocked_by: Vec<UnitId>,
    pub status: UnitStatus,
    pub words: String,
    pub tasks: PartsDone,
    pub slot: Option<u32>,
    pub branch: Option<String>,
    pub detail: Option<String>,
    #[serde(rename = "loop")]
    pub loop_id: Option<LoopId>,
    pub iteration: u32,
    pub max_iterations: u32,
    pub cost_usd: Option<f64>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub receipts: Vec<LoopId>,
}

/// One unit in the merge train: the first goes, or went, into the target first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainCar {
    pub unit: UnitId,
    /// `merged`, `merging`, `waiting`, `sent_back`, `working`.
    pub state: String,
    pub commit: Option<String>,
    /// Since when.
    pub at: Option<Timestamp>,
    pub detail: Option<String>,
}

/// A time in which a slot, a step or a stage was taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The row: `slot 1`, `merge`, a step or a stage.
    pub row: String,
    /// What took it.
    pub label: String,
    /// `work`, `merge` or `publish`, or the state of a loop.
    pub kind: String,
    pub from: Timestamp,
    /// Nothing while it goes on.
    pub to: Option<Timestamp>,
    #[serde(rename = "loop")]
    pub loop_id: Option<LoopId>,
}

/// The page of a run of units beside its view.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunPage {
    /// In the order of the plan.
    pub units: Vec<UnitNode>,
    pub train: Vec<TrainCar>,
    pub intervals: Vec<Interval>,
    /// Its loops, oldest first.
    pub loops: Vec<Card>,
}

impl RunPage {
    pub fn of(run: &RunView, units: &[UnitView], loops: &[LoopView], events: &[RunEnvelope]) -> Self {
        let levels = levels(units.iter().map(|unit| (&unit.unit, unit.depends_on.as_slice())));
        let node = |unit: &UnitView| {
            let own: Vec<&LoopView> =
                loops.iter().filter(|view| view.task.as_str() == unit.unit.as_str()).collect();
            let at_work = own.iter().rev().find(|view| !view.is_over());
            UnitNode {
                unit: unit.unit.clone(),
                level: levels.get(&unit.unit).copied().unwrap_or(0),
                depends_on: unit.depends_on.clone(),
                blocked_by: unit.blocked_by.clone(),
                status: unit.status,
                words: unit.words().to_owned(),
                tasks: PartsDone {
                    done: small(unit.tasks.iter().filter(|task| task.status == TaskStatus::Complete).count()),
                    all: small(unit.tasks.len()),
                },
                slot: unit.slot,
                branch: unit.branch.as_deref().map(clean),
                detail: unit.detail.as_deref().map(clean),
                loop_id: at_work.map(|view| view.id.clone()).or_else(|| unit.loop_id.clone()),
                iteration: at_work.map_or(0, |view| view.iteration),
                max_iterations: at_work.map_or(0, |view| view.max_iterations),
                cost_usd: cost_of(own.iter().copied()),
                started_at: unit.started_at,
                ended_at: unit.ended_at,
                receipts: unit.receipts.clone(),
            }
        };
        Self {
            units: units.iter().map(node).collect(),
            train: train(units, events),
            intervals: intervals(run, events),
            loops: loops.iter().map(card_of_loop).collect(),
        }
    }
}

fn cost_of<'a>(loops: impl Iterator<Item = &'a LoopView>) -> Option<f64> {
    let mut sum = Spend::default();
    loops.for_each(|view| sum.add(&view.ledger.total()));
    sum.cost_usd
}

/// How deep each is below those that wait for nothing. A circle, which no plan has, ends where it is found.
fn levels<'a, T: Eq + std::hash::Hash + Clone + 'a>(
    all: impl Iterator<Item = (&'a T, &'a [T])>,
) -> HashMap<T, u32> {
    let all: Vec<(&T, &[T])> = all.collect();
    let mut levels: HashMap<T, u32> = all.iter().map(|(id, _)| ((*id).clone(), 0)).collect();
    for _ in 0..all.len() {
        let mut is_changed = false;
        for (id, depends_on) in &all {
            let below = depends_on.iter().filter_map(|other| levels.get(other)).max();
            let level = below.map_or(0, |deepest| deepest + 1).min(small(all.len()));
            if let Some(own) = levels.get_mut(*id).filter(|own| **own < level) {
                *own = level;
                is_changed = true;
            }
        }
        if !is_changed {
            break;
        }
    }
    levels
}

/// Units in the order in which they went into the target, then the one that does, then those that wait in the order in which
/// they came, then those that were sent back or are still worked on.
fn train(units: &[UnitView], events: &[RunEnvelope]) -> Vec<TrainCar> {
    let mut cars: Vec<TrainCar> = Vec::new();
    let mut put = |unit: &UnitId, state: &str, commit: Option<String>, at, detail: Option<&str>| {
        cars.retain(|car| car.unit != *unit);
        cars.push(TrainCar {
            unit: unit.clone(),
            state: state.to_owned(),
            commit,
            at: Some(at),
            detail: detail.map(clean),
        });
    };
    for envelope in events {
        let (Some(unit), at) = (&envelope.unit, envelope.at) else { continue };
        match &envelope.event {
            RunEvent::UnitStarted { .. } => put(unit, "working", None, at, None),
            RunEvent::UnitCompleted { .. } => put(unit, "waiting", None, at, None),
            RunEvent::UnitMerging | RunEvent::UnitPublishing => put(unit, "merging", None, at, None),
            RunEvent::UnitMerged { commit, .. } => put(unit, "merged", Some(commit.clone()), at, None),
            RunEvent::UnitSentBack { detail } => put(unit, "sent_back", None, at, Some(detail)),
            RunEvent::UnitFailed { detail, .. } => put(unit, "failed", None, at, Some(detail)),
            _ => {}
        }
    }
    // Units that ended without a merge are no part of it.
    cars.retain(|car| {
        let status = units.iter().find(|unit| unit.unit == car.unit).map(|unit| unit.status);
        car.state != "failed"
            && !(car.state == "waiting" && status == Some(UnitStatus::Completed))
            && !(car.state != "merged" && status.is_some_and(UnitStatus::is_over))
    });
    let rank = |car: &TrainCar| match car.state.as_str() {
        "merged" => 0,
        "merging" => 1,
        "waiting" => 2,
        "sent_back" => 3,
        _ => 4,
    };
    cars.sort_by_key(|car| (rank(car), car.at));
    cars
}

/// When each slot was taken, and when something was merged.
fn intervals(run: &RunView, events: &[RunEnvelope]) -> Vec<Interval> {
    let mut intervals: Vec<Interval> = Vec::new();
    let close = |intervals: &mut Vec<Interval>, unit: Option<&UnitId>, at: Timestamp| {
        for open in intervals.iter_mut().filter(|open| open.to.is_none()) {
            if unit.is_none_or(|unit| open.label == unit.as_str()) {
                open.to = Some(at);
            }
        }
    };
    for envelope in events {
        let at = envelope.at;
        let mut begin = |row: String, kind: &str| {
            if let Some(unit) = &envelope.unit {
                close(&mut intervals, Some(unit), at);
                intervals.push(Interval {
                    row,
                    label: unit.to_string(),
                    kind: kind.to_owned(),
                    from: at,
                    to: None,
                    loop_id: None,
                });
            }
        };
        match &envelope.event {
            RunEvent::UnitStarted { slot } => begin(format!("slot {slot}"), "work"),
            RunEvent::UnitMerging => begin("merge".to_owned(), "merge"),
            RunEvent::UnitPublishing => begin("merge".to_owned(), "publish"),
            RunEvent::UnitJobEnded
            | RunEvent::UnitMerged { .. }
            | RunEvent::UnitFailed { .. }
            | RunEvent::UnitSentBack { .. } => close(&mut intervals, envelope.unit.as_ref(), at),
            RunEvent::OrchCompleted { .. } | RunEvent::OrchFailed { .. } => close(&mut intervals, None, at),
            _ => {}
        }
    }
    // What a dead scheduler left open ended at its last sign.
    if run.is_over()
        && let Some(last) = events.last()
    {
        close(&mut intervals, None, last.at);
    }
    intervals
}

/// One step of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepNode {
    #[serde(flatten)]
    pub view: StepView,
    pub level: u32,
    pub depends_on: Vec<String>,
    /// The loop that works on it, or worked on it last.
    #[serde(rename = "loop")]
    pub loop_id: Option<LoopId>,
    pub iteration: u32,
    pub cost_usd: Option<f64>,
}

/// The page of a run of a workflow beside its view.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkflowPage {
    pub steps: Vec<StepNode>,
    pub intervals: Vec<Interval>,
    pub loops: Vec<Card>,
}

impl WorkflowPage {
    pub fn of(view: &WorkflowView, started: Option<&WorkflowStarted>, loops: &[LoopView]) -> Self {
        let written = |id: &str| {
            started.and_then(|started| started.workflow.steps.iter().find(|step| step.id.as_str() == id))
        };
        let depends_on = |id: &str| -> Vec<String> {
            written(id)
                .map_or_else(Vec::new, |step| step.depends_on.iter().map(ToString::to_string).collect())
        };
        let all: Vec<(String, Vec<String>)> =
            view.steps.iter().map(|step| (step.id.to_string(), depends_on(step.id.as_str()))).collect();
        let levels = levels(all.iter().map(|(id, depends_on)| (id, depends_on.as_slice())));
        let node = |step: &StepView| {
            let own: Vec<&LoopView> =
                loops.iter().filter(|own| own.tally.part.as_deref() == Some(step.id.as_str())).collect();
            StepNode {
                view: step.clone(),
                level: levels.get(step.id.as_str()).copied().unwrap_or(0),
                depends_on: depends_on(step.id.as_str()),
                loop_id: own.last().map(|own| own.id.clone()),
                iteration: own.last().map_or(step.iterations.unwrap_or(0), |own| own.iteration),
                cost_usd: cost_of(own.into_iter()),
            }
        };
        Self {
            steps: view.steps.iter().map(node).collect(),
            intervals: of_loops(loops),
            loops: loops.iter().map(card_of_loop).collect(),
        }
    }
}

/// One run of a stage of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageOfTask {
    pub stage: String,
    pub run: u32,
    pub state: String,
    pub iterations: u32,
    pub max_iterations: u32,
    pub detail: Option<String>,
    #[serde(rename = "loop")]
    pub loop_id: Option<LoopId>,
    pub cost_usd: Option<f64>,
}

/// The page of a task beside its view.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TaskPage {
    pub stages: Vec<StageOfTask>,
    /// What reviewers found: number, state and text.
    pub findings: Vec<(u32, String, String)>,
    pub intervals: Vec<Interval>,
    pub loops: Vec<Card>,
}

impl TaskPage {
    pub fn of(view: &StageTaskView, loops: &[LoopView]) -> Self {
        // Loops of one stage come in the order of its runs.
        let mut of_stage: HashMap<&str, Vec<&LoopView>> = HashMap::new();
        for own in loops {
            if let Some(stage) = own.stage.as_deref() {
                of_stage.entry(stage).or_default().push(own);
            }
        }
        let mut counted: HashMap<&str, usize> = HashMap::new();
        let stages = view.stages.iter().map(|own| {
            let place = counted.entry(own.stage.as_str()).or_default();
            let newest = of_stage.get(own.stage.as_str()).and_then(|loops| loops.get(*place).copied());
            *place += 1;
            let proven = own.loop_id.as_ref().and_then(|id| loops.iter().find(|view| view.id == *id));
            let newest = proven.or(newest);
            StageOfTask {
                stage: own.stage.as_str().to_owned(),
                run: own.run,
                state: own.state.clone(),
                iterations: own.iterations.max(newest.map_or(0, |view| view.iteration)),
                max_iterations: own.max_iterations,
                detail: own.detail.as_deref().map(clean),
                loop_id: newest.map(|view| view.id.clone()).or_else(|| own.loop_id.clone()),
                cost_usd: newest.and_then(|view| view.cost_usd),
            }
        });
        let mut stages: Vec<StageOfTask> = stages.collect();
        // What is still to come, so that the whole way is seen.
        if !view.is_over {
            let is_begun = |stage: &&StageName| view.stages.iter().any(|own| own.stage == **stage);
            let coming: Vec<StageName> =
                StageName::ALL.iter().rev().take_while(|stage| !is_begun(stage)).copied().collect();
            stages.extend(coming.into_iter().rev().map(|stage| StageOfTask {
                stage: stage.as_str().to_owned(),
                run: 0,
                state: "todo".to_owned(),
                iterations: 0,
                max_iterations: 0,
                detail: None,
                loop_id: None,
                cost_usd: None,
            }));
        }
        let findings = view.ledger.findings.iter();
        let findings = findings
            .map(|finding| (finding.number, finding.state.as_str().to_owned(), clean(&finding.text)))
            .collect();
        Self { stages, findings, intervals: of_loops(loops), loops: loops.iter().map(card_of_loop).collect() }
    }
}

/// When each loop of a run worked, in rows by the part that it worked for.
fn of_loops(loops: &[LoopView]) -> Vec<Interval> {
    let interval = |view: &LoopView| Interval {
        row: view.stage.clone().or_else(|| view.tally.part.clone()).unwrap_or_else(|| view.task.to_string()),
        label: view.task.to_string(),
        kind: view.state.clone(),
        from: view.started_at,
        to: view.ended_at,
        loop_id: Some(view.id.clone()),
    };
    loops.iter().map(interval).collect()
}
