//! The kinds of streams: what the journal has to know about a machine to keep its events and its view.

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use dacapo_core::{
    event::{Envelope, LoopEvent, RunEnvelope, RunEvent},
    ids::{LoopId, ProjectId, RunId, TaskId, UnitId},
    loop_machine::LoopMachine,
    machine::Machine,
    receipt::Receipt,
    stages::{
        StageName,
        machine::{TaskEnvelope, TaskEvent, TaskMachine},
    },
    unit::schedule::{RunFact, RunMachine},
    view::{LoopView, RunView, StageTaskView, UnitView, WorkflowView},
    workflow::{
        StepId,
        machine::{WorkflowEnvelope, WorkflowEvent, WorkflowMachine},
    },
};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Channel, StoreError,
    read::{LoopRow, json, loop_rows_in, to_json},
    supply::take_spend,
};
use crate::secrets::secrets;

/// A machine whose events are kept in the journal.
pub trait JournalMachine: Machine<State: Serialize + DeserializeOwned> + Sized {
    /// The name of the kind in the journal and in messages.
    const NAME: &'static str;

    type Id: Clone + Display + AsRef<str>;
    type Envelope: Clone + Serialize;
    /// What people see of a stream: a fold of its events, kept in its row.
    type View: Clone + Serialize + DeserializeOwned;
    /// What observers are told about the origin of output.
    type Source: ?Sized;
    /// Other streams that a new one may share its folder with.
    type Kin: ?Sized;

    fn without_secrets(event: Self::Event) -> Result<Self::Event, serde_json::Error>;

    /// The event as it is written: the unit that it is about, if it is not about the whole stream, and its
    /// JSON.
    fn written(event: &Self::Event) -> Result<(Option<&str>, String), serde_json::Error>;

    /// The event with its stream, its place in the journal and its time.
    fn placed(id: &Self::Id, seq: u64, at: Timestamp, event: Self::Event) -> Self::Envelope;

    /// Reads back what [`JournalMachine::written`] and [`JournalMachine::placed`] gave.
    fn read(
        id: &str,
        seq: u64,
        at: Timestamp,
        subject: Option<&str>,
        body: &str,
    ) -> Result<Self::Envelope, String>;

    /// The receipt that the event issues, which is signed where it is recorded.
    fn receipt(event: &Self::Event) -> Option<&Receipt> {
        let _ = event;
        None
    }

    /// Takes a recorded event into the state.
    fn apply_recorded(state: &mut Self::State, envelope: &Self::Envelope);

    /// Puts back into a stored state what it leaves out, because the first event of the stream has it.
    fn complete(state: &mut Self::State, first: Self::Envelope);

    /// The view of a stream that begins with this event, if a stream can begin with it.
    fn first_view(envelope: &Self::Envelope) -> Option<Self::View>;

    /// Takes a recorded event into the view.
    fn see(view: &mut Self::View, envelope: &Self::Envelope);

    /// Whether the stream has come to its end.
    fn is_over(view: &Self::View) -> bool;

    /// Whether a process must own the stream while it is not over.
    fn needs_owner(view: &Self::View) -> bool {
        let _ = view;
        true
    }

    /// The view of a stream whose owner died without writing its end.
    fn with_dead_owner(view: Self::View) -> Self::View;

    fn row_columns(view: &Self::View, first: &Self::Envelope) -> RowColumns;

    /// Whether the stream may begin or go on beside the streams that run. It is called in the transaction that
    /// records the beginning.
    fn admit(transaction: &Transaction<'_>, view: &Self::View, kin: &Self::Kin) -> Result<(), StoreError>;

    /// Updates tables that are folds of events, in the transaction that records the events.
    fn index(
        transaction: &Transaction<'_>,
        key: i64,
        view: &Self::View,
        envelopes: &[Self::Envelope],
    ) -> Result<(), StoreError>;
}

/// The columns by which the row of a stream is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowColumns {
    pub(super) project: String,
    pub(super) parent: Option<String>,
    pub(super) task: Option<String>,
    pub(super) workspace: String,
    pub(super) run: Option<String>,
}

impl JournalMachine for LoopMachine {
    const NAME: &'static str = "loop";

    type Id = LoopId;
    type Envelope = Envelope;
    type View = LoopView;
    type Source = Channel;
    type Kin = [LoopId];

    fn without_secrets(event: LoopEvent) -> Result<LoopEvent, serde_json::Error> {
        secrets().redact_event(event)
    }

    fn written(event: &LoopEvent) -> Result<(Option<&str>, String), serde_json::Error> {
        Ok((None, serde_json::to_string(event)?))
    }

    fn receipt(event: &LoopEvent) -> Option<&Receipt> {
        match event {
            LoopEvent::ReceiptIssued { receipt } => Some(receipt),
            _ => None,
        }
    }

    fn placed(id: &LoopId, seq: u64, at: Timestamp, event: LoopEvent) -> Envelope {
        Envelope { seq, at, loop_id: id.clone(), event }
    }

    fn read(id: &str, seq: u64, at: Timestamp, _: Option<&str>, body: &str) -> Result<Envelope, String> {
        let loop_id = id.parse().map_err(|_| format!("`{id}` is no loop id"))?;
        let event = serde_json::from_slice(body.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Envelope { seq, at, loop_id, event })
    }

    fn apply_recorded(state: &mut Self::State, envelope: &Envelope) {
        Self::apply(state, &envelope.event);
    }

    fn complete(state: &mut Self::State, first: Envelope) {
        if let LoopEvent::LoopStarted(started) = first.event {
            state.started = Some(Arc::new(*started));
        }
    }

    fn first_view(envelope: &Envelope) -> Option<LoopView> {
        LoopView::begin(envelope)
    }

    fn see(view: &mut LoopView, envelope: &Envelope) {
        view.apply(envelope);
    }

    fn is_over(view: &LoopView) -> bool {
        view.is_over()
    }

    fn needs_owner(view: &LoopView) -> bool {
        view.needs_owner()
    }

    fn with_dead_owner(view: LoopView) -> LoopView {
        view.with_dead_owner()
    }

    fn row_columns(view: &LoopView, first: &Envelope) -> RowColumns {
        let run = match &first.event {
            LoopEvent::LoopStarted(started) => started.run.as_ref(),
            _ => None,
        };
        RowColumns {
            project: view.project.to_string(),
            parent: view.parent.as_ref().map(LoopId::to_string),
            task: Some(view.task.to_string()),
            workspace: view.workspace.to_string_lossy().into_owned(),
            run: run.map(RunId::to_string),
        }
    }

    /// A loop with gates needs its folder for itself; only loops of its own family may work there too.
    fn admit(transaction: &Transaction<'_>, view: &LoopView, kin: &[LoopId]) -> Result<(), StoreError> {
        let is_kin = |row: &LoopRow| {
            kin.contains(&row.view.id) || row.view.parent.as_ref().is_some_and(|parent| kin.contains(parent))
        };
        let holder = loop_rows_in(transaction, &view.workspace)?.into_iter().find(|row| {
            row.view.id != view.id
                && (row.view.gates > 0 || view.gates > 0)
                && !is_kin(row)
                && row.is_running()
        });
        match holder {
            Some(holder) => Err(StoreError::FolderHeld(Box::new(holder))),
            None => Ok(()),
        }
    }

    fn index(
        transaction: &Transaction<'_>,
        key: i64,
        view: &LoopView,
        envelopes: &[Envelope],
    ) -> Result<(), StoreError> {
        envelopes.iter().try_for_each(|envelope| take_spend(transaction, key, &view.project, envelope))
    }
}

impl JournalMachine for RunMachine {
    const NAME: &'static str = "run";

    type Id = RunId;
    type Envelope = RunEnvelope;
    type View = RunView;
    type Source = UnitId;
    type Kin = ();

    fn without_secrets((unit, event): RunFact) -> Result<RunFact, serde_json::Error> {
        Ok((unit, secrets().redact_run_event(event)?))
    }

    fn written((unit, event): &RunFact) -> Result<(Option<&str>, String), serde_json::Error> {
        Ok((unit.as_ref().map(UnitId::as_str), serde_json::to_string(event)?))
    }

    fn placed(id: &RunId, seq: u64, at: Timestamp, (unit, event): RunFact) -> RunEnvelope {
        RunEnvelope { seq, at, run: id.clone(), unit, event }
    }

    fn read(
        id: &str,
        seq: u64,
        at: Timestamp,
        subject: Option<&str>,
        body: &str,
    ) -> Result<RunEnvelope, String> {
        let unit =
            subject.map(|unit| unit.parse().map_err(|_| format!("`{unit}` is no unit"))).transpose()?;
        let run = id.parse().map_err(|_| format!("`{id}` is no run id"))?;
        let event = serde_json::from_slice(body.as_bytes()).map_err(|error| error.to_string())?;
        Ok(RunEnvelope { seq, at, run, unit, event })
    }

    fn apply_recorded(state: &mut Self::State, envelope: &RunEnvelope) {
        state.apply(envelope.unit.as_ref(), &envelope.event);
    }

    fn complete(_: &mut Self::State, _: RunEnvelope) {}

    fn first_view(envelope: &RunEnvelope) -> Option<RunView> {
        RunView::begin(envelope)
    }

    fn see(view: &mut RunView, envelope: &RunEnvelope) {
        view.apply(envelope);
    }

    fn is_over(view: &RunView) -> bool {
        view.is_over()
    }

    fn with_dead_owner(view: RunView) -> RunView {
        view.with_dead_owner()
    }

    fn row_columns(view: &RunView, _: &RunEnvelope) -> RowColumns {
        RowColumns {
            project: view.project.to_string(),
            workspace: view.root.to_string_lossy().into_owned(),
            ..RowColumns::default()
        }
    }

    fn admit(_: &Transaction<'_>, _: &RunView, (): &()) -> Result<(), StoreError> {
        Ok(())
    }

    fn index(
        transaction: &Transaction<'_>,
        key: i64,
        view: &RunView,
        envelopes: &[RunEnvelope],
    ) -> Result<(), StoreError> {
        index_units(transaction, key, &view.project, envelopes)
    }
}

impl JournalMachine for WorkflowMachine {
    const NAME: &'static str = "workflow";

    type Id = RunId;
    type Envelope = WorkflowEnvelope;
    type View = WorkflowView;
    type Source = StepId;
    type Kin = ();

    fn without_secrets(event: WorkflowEvent) -> Result<WorkflowEvent, serde_json::Error> {
        secrets().redact_workflow_event(event)
    }

    fn written(event: &WorkflowEvent) -> Result<(Option<&str>, String), serde_json::Error> {
        Ok((None, serde_json::to_string(event)?))
    }

    fn placed(id: &RunId, seq: u64, at: Timestamp, event: WorkflowEvent) -> WorkflowEnvelope {
        WorkflowEnvelope { seq, at, run: id.clone(), event }
    }

    fn read(
        id: &str,
        seq: u64,
        at: Timestamp,
        _: Option<&str>,
        body: &str,
    ) -> Result<WorkflowEnvelope, String> {
        let run = id.parse().map_err(|_| format!("`{id}` is no run id"))?;
        let event = serde_json::from_slice(body.as_bytes()).map_err(|error| error.to_string())?;
        Ok(WorkflowEnvelope { seq, at, run, event })
    }

    fn apply_recorded(state: &mut Self::State, envelope: &WorkflowEnvelope) {
        Self::apply(state, &envelope.event);
    }

    fn complete(state: &mut Self::State, first: WorkflowEnvelope) {
        if let WorkflowEvent::WorkflowStart(started) = first.event {
            state.complete(*started);
        }
    }

    fn first_view(envelope: &WorkflowEnvelope) -> Option<WorkflowView> {
        WorkflowView::begin(envelope)
    }

    fn see(view: &mut WorkflowView, envelope: &WorkflowEnvelope) {
        view.apply(envelope);
    }

    fn is_over(view: &WorkflowView) -> bool {
        view.is_over
    }

    fn with_dead_owner(view: WorkflowView) -> WorkflowView {
        view.with_dead_owner()
    }

    fn row_columns(view: &WorkflowView, _: &WorkflowEnvelope) -> RowColumns {
        RowColumns {
            project: view.project.to_string(),
            workspace: view.root.to_string_lossy().into_owned(),
            ..RowColumns::default()
        }
    }

    fn admit(_: &Transaction<'_>, _: &WorkflowView, (): &()) -> Result<(), StoreError> {
        Ok(())
    }

    fn index(
        _: &Transaction<'_>,
        _: i64,
        _: &WorkflowView,
        _: &[WorkflowEnvelope],
    ) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A stage of a task, as the origin of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSource {
    pub task: TaskId,
    /// None where the task is being merged.
    pub stage: Option<StageName>,
}

impl JournalMachine for TaskMachine {
    const NAME: &'static str = "task";

    type Id = RunId;
    type Envelope = TaskEnvelope;
    type View = StageTaskView;
    type Source = StageSource;
    type Kin = ();

    fn without_secrets(event: TaskEvent) -> Result<TaskEvent, serde_json::Error> {
        secrets().redact_task_event(event)
    }

    fn written(event: &TaskEvent) -> Result<(Option<&str>, String), serde_json::Error> {
        Ok((None, serde_json::to_string(event)?))
    }

    fn placed(id: &RunId, seq: u64, at: Timestamp, event: TaskEvent) -> TaskEnvelope {
        TaskEnvelope { seq, at, run: id.clone(), event }
    }

    fn read(id: &str, seq: u64, at: Timestamp, _: Option<&str>, body: &str) -> Result<TaskEnvelope, String> {
        let run = id.parse().map_err(|_| format!("`{id}` is no run id"))?;
        let event = serde_json::from_slice(body.as_bytes()).map_err(|error| error.to_string())?;
        Ok(TaskEnvelope { seq, at, run, event })
    }

    fn apply_recorded(state: &mut Self::State, envelope: &TaskEnvelope) {
        Self::apply(state, &envelope.event);
    }

    fn complete(state: &mut Self::State, first: TaskEnvelope) {
        if let TaskEvent::TaskStarted(started) = first.event {
            state.complete(*started);
        }
    }

    fn first_view(envelope: &TaskEnvelope) -> Option<StageTaskView> {
        StageTaskView::begin(envelope)
    }

    fn see(view: &mut StageTaskView, envelope: &TaskEnvelope) {
        view.apply(envelope);
    }

    fn is_over(view: &StageTaskView) -> bool {
        view.is_over
    }

    fn with_dead_owner(view: StageTaskView) -> StageTaskView {
        view.with_dead_owner()
    }

    fn row_columns(view: &StageTaskView, _: &TaskEnvelope) -> RowColumns {
        RowColumns {
            project: view.project.to_string(),
            task: Some(view.task.to_string()),
            workspace: view.root.to_string_lossy().into_owned(),
            ..RowColumns::default()
        }
    }

    fn admit(_: &Transaction<'_>, _: &StageTaskView, (): &()) -> Result<(), StoreError> {
        Ok(())
    }

    fn index(_: &Transaction<'_>, _: i64, _: &StageTaskView, _: &[TaskEnvelope]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Updates the views of units with the events that are recorded about them.
fn index_units(
    transaction: &Transaction<'_>,
    run: i64,
    project: &ProjectId,
    envelopes: &[RunEnvelope],
) -> Result<(), StoreError> {
    let mut views: Vec<UnitView> = Vec::new();
    let mut places = BTreeMap::new();
    for envelope in envelopes {
        if let RunEvent::OrchStarted(started) = &envelope.event {
            for plan in &started.units {
                let before: Option<UnitView> = transaction
                    .prepare_cached("SELECT view FROM units WHERE project = ?1 AND unit = ?2")?
                    .query_row(params![project.as_str(), plan.unit.as_str()], |row| json(row, 0))
                    .optional()?;
                let view = UnitView::begin(&envelope.run, started, plan);
                let view = before.map_or(view.clone(), |before| view.going_on(before));
                // The row is deleted and inserted, not updated: rows are in the order of the plan.
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO units (project, unit, run, view) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![project.as_str(), plan.unit.as_str(), run, to_json(&view)?])?;
                places.insert(plan.unit.clone(), views.len());
                views.push(view);
            }
        }
        let Some(unit) = &envelope.unit else { continue };
        if !places.contains_key(unit) {
            let found: Option<UnitView> = transaction
                .prepare_cached("SELECT view FROM units WHERE project = ?1 AND unit = ?2 AND run = ?3")?
                .query_row(params![project.as_str(), unit.as_str(), run], |row| json(row, 0))
                .optional()?;
            let Some(view) = found else { continue };
            places.insert(unit.clone(), views.len());
            views.push(view);
        }
        if let Some(view) = places.get(unit).and_then(|place| views.get_mut(*place)) {
            view.apply(envelope);
        }
    }
    for view in &views {
        transaction
            .prepare_cached("UPDATE units SET view = ?4 WHERE project = ?1 AND unit = ?2 AND run = ?3")?
            .execute(params![project.as_str(), view.unit.as_str(), run, to_json(view)?])?;
    }
    Ok(())
}
