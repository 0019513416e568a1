//! A task that has a file and no run: what `why`, `status` and every other command say of it.

use dacapo_core::{
    stages::{StageTask, StageTaskList, StageTaskStatus},
    view::{StageTaskView, Why},
};
use dacapo_engine::{client::Client, stage_tasks, units};

use crate::{
    context::{Context, PREFIX},
    error::UserError,
};

/// A task of this repository that was never run.
pub(crate) struct TaskNotBegun {
    pub(crate) task: StageTask,
    /// What it depends on that is not done.
    waits_for: Vec<OpenDependency>,
}

struct OpenDependency {
    id: String,
    /// How far it is, in one word.
    status: String,
    /// Whether `dacapo why` can tell more of it.
    is_begun: bool,
}

impl TaskNotBegun {
    /// The task of this repository that `text` means, if it was never run and nothing else here has that name.
    pub(crate) fn find(cx: &Context, client: Option<&Client>, text: &str) -> Result<Option<Self>, UserError> {
        // An agent sees its own loop and its children alone.
        let Ok(folder) = Context::folder(None) else { return Ok(None) };
        if cx.inside.is_some() {
            return Ok(None);
        }
        let root = units::top(&folder);
        let found = stage_tasks::load(&root);
        let Some(task) = meant(&found, text) else { return Ok(None) };
        let project = Context::project_of(&root);
        let runs: Vec<StageTaskView> = match client {
            Some(client) => {
                let is_exact = task.spec.id.as_str() == text;
                if is_known(client, &project, text, is_exact)? {
                    return Ok(None);
                }
                client.newest_tasks(Some(&project))?.into_iter().map(|seen| seen.view).collect()
            }
            None => Vec::new(),
        };
        let run_of = |id: &str| runs.iter().find(|view| view.task.as_str() == id);
        if run_of(task.spec.id.as_str()).is_some() {
            return Ok(None);
        }
        let waits_for = task.spec.depends_on.iter().filter_map(|id| {
            let of_file = found.tasks.iter().find(|other| other.spec.id == *id).map(|other| other.status);
            let run = run_of(id.as_str());
            let status = run.filter(|run| !run.is_over).map(|run| run.status).or(of_file);
            (status != Some(StageTaskStatus::Done)).then(|| OpenDependency {
                id: id.to_string(),
                status: status.map_or("unknown", |status| status.as_str()).to_owned(),
                is_begun: run.is_some(),
            })
        });
        Ok(Some(Self { task: task.clone(), waits_for: waits_for.collect() }))
    }

    /// One word for scripts: `done`, `waiting` or `todo`.
    pub(crate) fn state(&self) -> &'static str {
        match self.task.status {
            StageTaskStatus::Done => "done",
            _ if self.waits_for.is_empty() => "todo",
            _ => "waiting",
        }
    }

    /// Why it was never run, and what comes next.
    pub(crate) fn why(&self) -> Why {
        let (id, status) = (&self.task.spec.id, self.task.status);
        if status == StageTaskStatus::Done {
            return Why {
                because: format!("Task {id} is done: its file says so, and it was never run here."),
                next: "nothing".to_owned(),
            };
        }
        let begun = format!("Task {id} is {status} and was not begun");
        if self.waits_for.is_empty() {
            return Why { because: format!("{begun}."), next: format!("`dacapo task run {id}` begins it") };
        }
        let names: Vec<String> =
            self.waits_for.iter().map(|first| format!("{} ({})", first.id, first.status)).collect();
        let next = match self.waits_for.iter().find(|first| first.is_begun) {
            Some(first) => format!("`dacapo why {}` says how that one stands", first.id),
            None => format!("`dacapo task run {id}` works off what it waits for, and then the task"),
        };
        Why { because: format!("{begun}: it waits for {}.", names.join(", ")), next }
    }

    /// For a command that needs a run of the task.
    pub(crate) fn error(&self) -> UserError {
        let Why { because, next } = self.why();
        UserError::failed(because.trim_end_matches('.')).hint(next)
    }
}

/// The task with this id, or the only one whose id begins so.
fn meant<'a>(found: &'a StageTaskList, text: &str) -> Option<&'a StageTask> {
    let exact = found.tasks.iter().find(|task| task.spec.id.as_str() == text);
    let mut alike =
        found.tasks.iter().filter(|task| text.len() >= PREFIX && task.spec.id.as_str().starts_with(text));
    exact.or_else(|| alike.next().filter(|_| alike.next().is_none()))
}

/// Whether a loop, a unit or a run of this project has the name; those of other projects count where it is only a beginning.
fn is_known(
    client: &Client,
    project: &dacapo_core::ids::ProjectId,
    text: &str,
    is_exact: bool,
) -> Result<bool, UserError> {
    if !client.newest_of_task(Some(project), text)?.is_empty()
        || !client.units_of_name(Some(project), text)?.is_empty()
    {
        return Ok(true);
    }
    Ok(!is_exact
        && !(client.newest_of_task(None, text)?.is_empty()
            && client.units_of_name(None, text)?.is_empty()
            && client.stage_tasks_with_prefix(Some(project), text)?.is_empty()
            && client.tasks_with_prefix(Some(project), text)?.is_empty()
            && client.loops_with_prefix(text)?.is_empty()
            && client.runs_with_prefix(text)?.is_empty()
            && client.workflows_with_prefix(text)?.is_empty()))
}
