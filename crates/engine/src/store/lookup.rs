//! Finding streams: by the beginning of a name, as a family, or by the folder in which the user runs a command.

use dacapo_core::ids::{LoopId, ProjectId, RunId};
use rusqlite::params;

use super::{LoopRow, RunRow, Store, StoreError, TaskRow, WorkflowRow};

/// At most this many loops of a family are read.
const MOST: u32 = 1000;

/// A loop or a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamId {
    Loop(LoopId),
    /// A run of units, of a workflow or of a task.
    Run(RunId),
}

impl StreamId {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Loop(id) => id.as_str(),
            Self::Run(id) => id.as_str(),
        }
    }
}

/// Streams that the user has started: not the loops of a run, and no child loops.
const STARTED: &str = "s.run IS NULL AND s.parent IS NULL";

impl Store {
    /// The loop `id` and all loops below it, oldest first.
    pub fn family(&self, id: &LoopId) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(
            &format!(
                "s.key IN (
                    WITH RECURSIVE family (id, key) AS (
                        SELECT id, key FROM streams WHERE id = ?1
                        UNION SELECT l.id, l.key FROM family f JOIN streams l ON l.parent = f.id
                    )
                    SELECT key FROM family
                 ) ORDER BY s.key LIMIT {MOST}"
            ),
            [id.as_str()],
        )
    }

    /// The newest loop of each task whose name begins with `prefix`, in one project or in all; at most a few.
    pub fn tasks_with_prefix(
        &self,
        project: Option<&ProjectId>,
        prefix: &str,
    ) -> Result<Vec<LoopRow>, StoreError> {
        self.rows(
            "s.key IN (SELECT MAX(key) FROM streams WHERE kind = 'loop' AND substr(task, 1, length(?1)) = ?1
             AND (?2 IS NULL OR project = ?2) GROUP BY project, task) ORDER BY s.key LIMIT 9",
            params![prefix, project.map(ProjectId::as_str)],
        )
    }

    /// Runs whose id begins with `prefix`; at most a few.
    pub fn runs_with_prefix(&self, prefix: &str) -> Result<Vec<RunRow>, StoreError> {
        self.rows("s.id GLOB ?1 || '*' ORDER BY s.key LIMIT 9", [prefix])
    }

    /// Runs of workflows whose id begins with `prefix`; at most a few.
    pub fn workflows_with_prefix(&self, prefix: &str) -> Result<Vec<WorkflowRow>, StoreError> {
        self.rows("s.id GLOB ?1 || '*' ORDER BY s.key LIMIT 9", [prefix])
    }

    /// Runs of tasks whose id begins with `prefix`, or the newest of tasks whose name does; at most a few.
    pub fn stage_tasks_with_prefix(
        &self,
        project: Option<&ProjectId>,
        prefix: &str,
    ) -> Result<Vec<TaskRow>, StoreError> {
        self.rows(
            "s.key IN (SELECT MAX(key) FROM streams WHERE kind = 'task' AND (?2 IS NULL OR project = ?2)
             AND substr(task, 1, length(?1)) = ?1 GROUP BY project, task
             UNION SELECT key FROM streams WHERE kind = 'task' AND id GLOB ?1 || '*') ORDER BY s.key LIMIT 9",
            params![prefix, project.map(ProjectId::as_str)],
        )
    }

    /// The only loop or run that runs, of one project or of all, else the newest. Only what the user has started counts.
    pub fn default_stream(&self, project: Option<&ProjectId>) -> Result<Option<StreamId>, StoreError> {
        let which = format!("s.over = 0 AND {STARTED} AND (?1 IS NULL OR s.project = ?1)");
        let of = [project.map(ProjectId::as_str)];
        let loops: Vec<LoopRow> = self.rows(&which, of)?;
        let runs: Vec<RunRow> = self.rows(&which, of)?;
        let workflows: Vec<WorkflowRow> = self.rows(&which, of)?;
        let tasks: Vec<TaskRow> = self.rows(&which, of)?;
        let mut running = loops
            .into_iter()
            .filter(LoopRow::is_running)
            .map(|row| StreamId::Loop(row.view.id))
            .chain(runs.into_iter().filter(RunRow::is_running).map(|row| StreamId::Run(row.view.id)))
            .chain(
                workflows.into_iter().filter(WorkflowRow::is_running).map(|row| StreamId::Run(row.view.id)),
            )
            .chain(tasks.into_iter().filter(TaskRow::is_running).map(|row| StreamId::Run(row.view.id)));
        match (running.next(), running.next()) {
            (Some(only), None) => Ok(Some(only)),
            _ => self.newest_stream(project),
        }
    }

    /// The newest loop or run that the user has started, of one project or of all.
    pub fn newest_stream(&self, project: Option<&ProjectId>) -> Result<Option<StreamId>, StoreError> {
        let sql = format!(
            "SELECT s.kind, s.id FROM streams s WHERE {STARTED} AND (?1 IS NULL OR s.project = ?1)
             ORDER BY s.key DESC LIMIT 1"
        );
        let found: Option<(String, String)> =
            self.query_row(&sql, [project.map(ProjectId::as_str)], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.and_then(|(kind, id)| match kind.as_str() {
            "run" | "workflow" | "task" => id.parse().ok().map(StreamId::Run),
            _ => id.parse().ok().map(StreamId::Loop),
        }))
    }
}
