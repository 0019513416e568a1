//! Tasks of a unit as items: their marks are the status lines of task files in the workspace.

use std::io;

use dacapo_core::{
    event::ForbiddenChange,
    item::{ItemFacts, ItemKey, Marks},
    unit::{
        TaskSet, TaskStatus,
        check::Problem,
        files::{self, UnitFileVerdict, committed, restated},
        items::{self, UnitSource},
    },
};

use crate::{
    git::WorkspaceError,
    items::{ChangedFile, ChangesJudged, FileContent, ItemMarks, MarkedPlace, MarksSet},
    snapshots::Workspace,
    task_files,
};

/// The task files of a unit that a loop works on.
pub(crate) struct UnitItems<'a>(pub(crate) &'a UnitSource);

impl ItemMarks for UnitItems<'_> {
    /// What the files of all tasks of the turn say (req 28); one that cannot be read is passed over (req 30).
    fn look(&self, place: MarkedPlace<'_>) -> ItemFacts {
        let Some(set) = &self.0.turn else { return ItemFacts::default() };
        let (mut statuses, mut broken) = (Vec::new(), Vec::new());
        for task in &set.tasks {
            let found = task_files::look(place.top, &task.spec.file);
            broken.extend(found.as_ref().err().map(Problem::line));
            statuses.push((task.spec.number, found.ok()));
        }
        if let Some((plan, error, _)) = lost_plan(set, place) {
            broken.push(task_files::unreadable(&plan, &error).line());
        }
        items::facts(set, &statuses, broken)
    }

    fn set(&self, place: MarkedPlace<'_>, of: &Marks, done: &[ItemKey]) -> MarksSet {
        let mut result = MarksSet::default();
        let Some(set) = &self.0.turn else { return result };
        let top = place.top;
        if let Some((plan, _, bytes)) = lost_plan(set, place) {
            result.is_changed = true;
            result.problems.extend(task_files::put_back(top, &plan, &bytes).err().map(|e| e.to_string()));
        }
        let statuses = items::statuses(set, of, done);
        let status_of = |number| statuses.iter().find(|(n, _)| *n == number).map(|(_, status)| *status);
        // A file that cannot be read is put back, too: a claim after this one would be refused for it.
        let wanted = set.tasks.iter().filter_map(|task| {
            let file = task.spec.file.as_str();
            let said = task_files::status(top, file);
            let wanted = status_of(task.spec.number).or(said.is_none().then_some(task.status))?;
            (said != Some(wanted)).then_some((file, wanted))
        });
        let wanted: Vec<(&str, TaskStatus)> = wanted.collect();
        if wanted.is_empty() {
            return result;
        }
        result.is_changed = true;
        let paths: Vec<&[u8]> = wanted.iter().map(|(file, _)| file.as_bytes()).collect();
        let base = place.at_base(&paths);
        for (at, (file, status)) in wanted.into_iter().enumerate() {
            let before = base.get(at).and_then(Option::as_deref);
            if let Err(error) = task_files::set_status(top, file, status, before) {
                result.problems.push(error.to_string());
            }
        }
        result
    }

    fn committed_files<'s>(
        &'s self,
        workspace: &Workspace,
        snapshots: [&str; 2],
        commits: &[&[ItemKey]],
    ) -> Result<Vec<Result<Vec<FileContent<'s>>, String>>, WorkspaceError> {
        let Some(set) = &self.0.turn else { return Ok(vec![Ok(Vec::new()); commits.len()]) };
        let paths: Vec<&[u8]> = set.tasks.iter().map(|task| task.spec.file.as_bytes()).collect();
        let [base, now] = workspace.files_of_both(snapshots, &paths)?;
        let held = TaskFileContents { set, base, now };
        Ok(commits.iter().map(|done| held.with(&items::statuses(set, &Marks::All, done))).collect())
    }

    fn watches(&self, path: &str) -> bool {
        files::is_below(&self.0.dir, path)
    }

    fn judge(&self, changes: Vec<ChangedFile<'_>>) -> ChangesJudged {
        let mut judged = ChangesJudged::default();
        for ChangedFile { path, before, after } in changes {
            match files::judge(&path, before, after, self.0.tasks()) {
                UnitFileVerdict::Fine => {}
                UnitFileVerdict::OnlyStatus => {
                    judged.only_marks.insert(path);
                }
                UnitFileVerdict::Forbidden(kind) => {
                    judged.forbidden.push(ForbiddenChange { why: kind.describe(&path), path });
                }
            }
        }
        judged
    }
}

/// The unit's plan, if it was there when the loop began and cannot be read now: where, why, and what it held.
fn lost_plan(set: &TaskSet, place: MarkedPlace<'_>) -> Option<(String, io::Error, Vec<u8>)> {
    let plan = task_files::plan_of(&set.tasks.first()?.spec.file);
    let error = task_files::read(place.top, &plan).err()?;
    let held = place.at_base(&[plan.as_bytes()]).pop()??;
    Some((plan, error, held))
}

/// What the files of tasks held before the first agent and hold in the snapshot that is kept.
struct TaskFileContents<'a> {
    set: &'a TaskSet,
    base: Vec<Option<Vec<u8>>>,
    now: Vec<Option<Vec<u8>>>,
}

impl<'a> TaskFileContents<'a> {
    /// The files that must be others than in the snapshot for the tasks to stand like this in a commit.
    fn with(&self, statuses: &[(u32, TaskStatus)]) -> Result<Vec<FileContent<'a>>, String> {
        let mut changed = Vec::new();
        for (task, (base, now)) in self.set.tasks.iter().zip(self.base.iter().zip(&self.now)) {
            let Some((_, status)) = statuses.iter().find(|(number, _)| *number == task.spec.number) else {
                continue;
            };
            let file = task.spec.file.as_str();
            let status = committed(file, base.as_deref(), *status);
            let wanted = restated(file, base.as_deref(), now.as_deref(), status)
                .ok_or_else(|| format!("the status in `{file}` cannot be set"))?;
            if now.as_ref() != Some(&wanted) {
                changed.push((file, wanted));
            }
        }
        Ok(changed)
    }
}
