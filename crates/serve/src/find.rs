//! What an id in a path means.

use dacapo_core::{
    ids::{LoopId, RunId},
    receipt::Receipt,
    view::{LoopView, RunView, StageTaskView, WorkflowView},
};
use dacapo_engine::{
    client::{AnyView, Client, ClientError},
    store::EventScope,
};
use serde_json::{Value, json};

use crate::ApiError;

/// A loop or a run, as it stands now.
pub enum FoundView {
    Loop(Box<LoopView>),
    Units(Box<RunView>),
    Workflow(Box<WorkflowView>),
    /// A run of a task through its stages.
    Task(Box<StageTaskView>),
}

impl From<AnyView> for FoundView {
    fn from(view: AnyView) -> Self {
        match view {
            AnyView::Loop(view) => Self::Loop(view),
            AnyView::Run(view, _) => Self::Units(view),
            AnyView::Workflow(view) => Self::Workflow(view),
            AnyView::Task(view) => Self::Task(view),
        }
    }
}

impl FoundView {
    /// The loop or run that has this id, whose id alone begins with it, or the newest loop of the only task of this name.
    pub fn of(client: &Client, text: &str) -> Result<Self, ApiError> {
        if let Ok(id) = text.parse::<LoopId>()
            && let Some(seen) = client.loop_of_id(&id)?
        {
            return Ok(Self::Loop(Box::new(seen.view)));
        }
        if let Ok(id) = text.parse::<RunId>()
            && let Some(found) = Self::run(client, &id)?
        {
            return Ok(found);
        }
        let mut found = Self::named(client, text)?;
        match (found.pop(), found.len()) {
            (Some(one), 0) => Ok(one),
            (None, _) => Err(ApiError::not_found("no loop and no run is called that")
                .hint("`dacapo status --all` lists them")),
            (Some(_), _) => {
                Err(ApiError::not_found("several loops or runs are called that").hint("give the whole id"))
            }
        }
    }

    fn run(client: &Client, id: &RunId) -> Result<Option<Self>, ClientError> {
        if let Some(seen) = client.run_of_id(id)? {
            return Ok(Some(Self::Units(Box::new(seen.view))));
        }
        if let Some(seen) = client.workflow_of_id(id)? {
            return Ok(Some(Self::Workflow(Box::new(seen.view))));
        }
        Ok(client.task_of_id(id)?.map(|seen| Self::Task(Box::new(seen.view))))
    }

    fn named(client: &Client, text: &str) -> Result<Vec<Self>, ClientError> {
        // A wildcard would be a name of everything.
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if text.len() < 2 || text.len() > 64 || !text.bytes().all(is_name) {
            return Ok(Vec::new());
        }
        let tasks = client.newest_run_of_task(None, text)?;
        if !tasks.is_empty() {
            return Ok(tasks.into_iter().map(|seen| Self::Task(Box::new(seen.view))).collect());
        }
        let loops = client.newest_of_task(None, text)?;
        let mut found: Vec<Self> = loops.into_iter().map(|seen| Self::Loop(Box::new(seen.view))).collect();
        if found.is_empty() {
            let loops = client.loops_with_prefix(text)?.into_iter();
            found.extend(loops.map(|seen| Self::Loop(Box::new(seen.view))));
            found.extend(
                client.runs_with_prefix(text)?.into_iter().map(|seen| Self::Units(Box::new(seen.view))),
            );
            let workflows = client.workflows_with_prefix(text)?.into_iter();
            found.extend(workflows.map(|seen| Self::Workflow(Box::new(seen.view))));
        }
        Ok(found)
    }

    pub fn id(&self) -> &str {
        match self {
            Self::Loop(view) => view.id.as_str(),
            Self::Units(view) => view.id.as_str(),
            Self::Workflow(view) => view.id.as_str(),
            Self::Task(view) => view.id.as_str(),
        }
    }

    /// Whose events are meant.
    pub fn scope(&self) -> EventScope {
        match self {
            Self::Loop(view) => EventScope::Loop(view.id.clone()),
            Self::Units(view) => EventScope::Run(view.id.clone()),
            Self::Workflow(view) => EventScope::Run(view.id.clone()),
            Self::Task(view) => EventScope::Run(view.id.clone()),
        }
    }

    /// The loop, or the newest loop of the run that an agent worked in.
    pub fn worked(self, client: &Client) -> Result<LoopView, ApiError> {
        let run = match self {
            Self::Loop(view) => return Ok(*view),
            Self::Units(view) => view.id,
            Self::Workflow(view) => view.id,
            Self::Task(view) => view.id,
        };
        let newest = client.loops_of_run(&run)?.into_iter().rev().find(|seen| seen.view.iteration > 0);
        newest
            .map(|seen| seen.view)
            .ok_or_else(|| ApiError::not_found(format!("no agent has worked in run {run} yet")))
    }

    /// As `status --json` shows it; a run says of what kind it is.
    pub fn for_scripts(&self) -> Value {
        match self {
            Self::Loop(view) => view.for_scripts(),
            Self::Units(view) => of_kind("units", json!(view)),
            Self::Workflow(view) => of_kind("workflow", json!(view)),
            Self::Task(view) => of_kind("task", json!(view)),
        }
    }
}

/// The proof of a loop.
pub(crate) fn receipt_of(client: &Client, view: &LoopView) -> Result<Receipt, ApiError> {
    client.receipt(&view.id)?.ok_or_else(|| {
        ApiError::not_found(format!("loop {} has no receipt: no claim of it was accepted", view.id))
            .hint(format!("`dacapo why {}` says more", view.id))
    })
}

fn of_kind(kind: &str, mut value: Value) -> Value {
    if let Some(keys) = value.as_object_mut() {
        keys.insert("kind".to_owned(), kind.into());
    }
    value
}
