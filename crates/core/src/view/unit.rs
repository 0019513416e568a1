//! What people see of a run and of its units: folds of the run's stream.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Why;
use crate::{
    duration::Millis,
    event::{Grant, MergeMode, PlannedUnit, RunEnvelope, RunEvent, RunStarted, UnitEnd},
    ids::{LoopId, ProjectId, RunId, UnitId},
    text::shell::word,
    unit::TaskStatus,
};

fn is_zero(time: &Millis) -> bool {
    time.is_zero()
}

fn between(from: Timestamp, to: Timestamp) -> Millis {
    Millis(u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0))
}

/// One run of units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    pub id: RunId,
    pub project: ProjectId,
    /// The top of its repository.
    pub root: PathBuf,
    /// The branch that finished units go into.
    pub target: String,
    /// What becomes of a finished unit.
    pub merge: MergeMode,
    /// How many units are worked on at once.
    pub parallel: u32,
    /// How many units it is about.
    pub units: u32,
    /// `running`, `stopping`, `completed`, `failed` or `stopped`.
    pub state: String,
    pub reason: Option<String>,
    /// One line about how it ended.
    pub detail: Option<String>,
    /// What the command exited with.
    pub exit_code: Option<u8>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub pid: Option<u32>,
    /// How long a person held it, without the hold that goes on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_ms: Millis,
    /// Since when a person holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_since: Option<Timestamp>,
    /// What a person granted when it went on after a hold, all grants together.
    #[serde(default, skip_serializing_if = "Grant::is_nothing")]
    pub granted: Grant,
    /// What a person said to the run as a whole, oldest first: every loop that begins later reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steers: Vec<String>,
}

impl RunView {
    /// The view of a run whose first event is `first`; `None` if that is not a beginning.
    pub fn begin(first: &RunEnvelope) -> Option<Self> {
        let RunEvent::OrchStarted(started) = &first.event else { return None };
        Some(Self {
            id: first.run.clone(),
            project: started.project.clone(),
            root: started.root.clone(),
            target: started.target.clone(),
            merge: started.merge,
            parallel: started.parallel,
            units: u32::try_from(started.units.len()).unwrap_or(u32::MAX),
            state: "running".to_owned(),
            reason: None,
            detail: None,
            exit_code: None,
            started_at: first.at,
            ended_at: None,
            pid: Some(started.pid),
            held_ms: Millis(0),
            held_since: None,
            granted: Grant::default(),
            steers: Vec::new(),
        })
    }

    /// How long it has been going on at `at`, without the time that a person held it.
    pub fn lasted(&self, at: Timestamp) -> Millis {
        let held = self.held_since.map_or(Millis(0), |since| between(since, at));
        between(self.started_at, at).minus(self.held_ms).minus(held)
    }

    /// Takes in one fact.
    pub fn apply(&mut self, envelope: &RunEnvelope) {
        match &envelope.event {
            RunEvent::OrchStopping { .. } => "stopping".clone_into(&mut self.state),
            RunEvent::OrchPaused { .. } => {
                "paused".clone_into(&mut self.state);
                self.held_since.get_or_insert(envelope.at);
            }
            RunEvent::OrchUnpaused { grant } => {
                "running".clone_into(&mut self.state);
                if let Some(since) = self.held_since.take() {
                    self.held_ms = self.held_ms.plus(between(since, envelope.at));
                }
                self.take_grant(grant, envelope.at);
            }
            RunEvent::OrchSteered { text } => self.steers.push(text.clone()),
            RunEvent::OrchCompleted { detail } => self.end(envelope.at, "completed", "completed", detail, 0),
            RunEvent::OrchFailed { reason, detail, exit_code } => {
                let state = if is_stopped(reason) { "stopped" } else { "failed" };
                self.end(envelope.at, state, reason, detail, *exit_code);
            }
            _ => {}
        }
    }

    /// A limit of time counts from now on; kept is what it makes of all the time of the run.
    fn take_grant(&mut self, grant: &Grant, at: Timestamp) {
        let granted = &mut self.granted;
        granted.extra_iterations = granted.extra_iterations.saturating_add(grant.extra_iterations);
        granted.max_cost = grant.max_cost.or(granted.max_cost);
        granted.max_tokens = grant.max_tokens.or(granted.max_tokens);
        if let Some(more) = grant.max_time_ms {
            self.granted.max_time_ms = Some(self.lasted(at).plus(more));
        }
    }

    fn end(&mut self, at: Timestamp, state: &str, reason: &str, detail: &str, exit_code: u8) {
        state.clone_into(&mut self.state);
        (self.reason, self.detail) = (Some(reason.to_owned()), Some(detail.to_owned()));
        (self.exit_code, self.ended_at, self.pid) = (Some(exit_code), Some(at), None);
    }

    /// Whether its journal has come to an end.
    pub fn is_over(&self) -> bool {
        self.reason.is_some()
    }

    /// A run whose scheduler is gone although its journal has no end.
    #[must_use]
    pub fn with_dead_owner(mut self) -> Self {
        "stopped".clone_into(&mut self.state);
        self.reason = Some("interrupted".to_owned());
        self.detail = Some("dacapo died while the run was going on".to_owned());
        self.pid = None;
        self
    }
}

/// One unit as `status --units --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitView {
    pub unit: UnitId,
    /// The newest run that was about it.
    pub run: RunId,
    pub project: ProjectId,
    pub status: UnitStatus,
    pub tasks: Vec<TaskView>,
    /// The slot it is worked on in.
    pub slot: Option<u32>,
    pub branch: Option<String>,
    pub worktree: Option<PathBuf>,
    /// The loop that it failed in; before that, the newest that worked on a task of it.
    #[serde(rename = "loop")]
    pub loop_id: Option<LoopId>,
    /// Units that must come first.
    pub depends_on: Vec<UnitId>,
    /// Units that failed and that it waits for.
    pub blocked_by: Vec<UnitId>,
    /// Why it came to no good end, or was sent back.
    pub detail: Option<String>,
    /// The kind of its bad end.
    pub reason: Option<UnitEnd>,
    /// Loops whose receipts prove its tasks.
    pub receipts: Vec<LoopId>,
    pub pr: Option<String>,
    /// The commit of the target that holds it.
    pub merged: Option<String>,
    /// The branch that commit was left on, if the target could not be moved, and the command that moves it.
    pub left_on: Option<(String, String)>,
    /// When its first job of this run began.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// What becomes of it when its work is done.
    pub merge: MergeMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_target: Option<String>,
}

/// How a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitStatus {
    /// It waits for others, or for a slot.
    Queued,
    Working,
    /// Its work is done, and it waits for its turn to be merged or published.
    WaitingToMerge,
    Merging,
    Publishing,
    Merged,
    /// Its work is done, and its branch stays or is out.
    Completed,
    /// It came to no good end.
    Failed,
    /// Something it waits for failed.
    Blocked,
    /// It was stopped, and the next run goes on with it.
    Stopped,
}

impl UnitStatus {
    pub fn words(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Working => "working",
            Self::WaitingToMerge => "waiting to merge",
            Self::Merging => "merging",
            Self::Publishing => "publishing",
            Self::Merged => "merged",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Stopped => "stopped",
        }
    }

    /// Whether nothing more happens to it in its run.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Merged | Self::Completed | Self::Failed | Self::Blocked | Self::Stopped)
    }

    /// Whether that is the end it was begun for.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Merged | Self::Completed)
    }
}

/// One task of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    pub task: u32,
    pub title: String,
    /// How it stands. Begun is one that an agent claimed, or that was the only one it could choose.
    pub status: TaskStatus,
    /// Whether it was offered to an agent, and is neither complete nor failed.
    #[serde(default)]
    pub ready: bool,
}

impl TaskView {
    pub fn words(&self) -> &'static str {
        match self.status {
            TaskStatus::Pending if self.ready => "ready",
            status => status.as_str(),
        }
    }

    fn set(&mut self, status: TaskStatus) {
        self.status = status;
        self.ready &= matches!(status, TaskStatus::Pending | TaskStatus::InProgress);
    }
}

impl UnitView {
    /// The view of a unit of a run that begins.
    pub fn begin(run: &RunId, started: &RunStarted, plan: &PlannedUnit) -> Self {
        let task = |(number, title): &(u32, String)| TaskView {
            task: *number,
            title: title.clone(),
            status: if plan.complete.contains(number) { TaskStatus::Complete } else { TaskStatus::Pending },
            ready: false,
        };
        Self {
            unit: plan.unit.clone(),
            run: run.clone(),
            project: started.project.clone(),
            status: UnitStatus::Queued,
            tasks: plan.tasks.iter().map(task).collect(),
            slot: None,
            branch: None,
            worktree: None,
            loop_id: None,
            depends_on: plan.depends_on.clone(),
            blocked_by: Vec::new(),
            detail: None,
            reason: None,
            receipts: Vec::new(),
            pr: None,
            merged: None,
            left_on: None,
            started_at: None,
            ended_at: None,
            merge: started.merge,
            typed_target: started.settings.typed_target.clone(),
        }
    }

    /// The view of a unit whose worktree an earlier run has left: what was done there is done.
    #[must_use]
    pub fn going_on(self, before: Self) -> Self {
        if before.worktree.is_none() {
            return self;
        }
        let mut tasks = self.tasks;
        for task in &mut tasks {
            let Some(old) = before.tasks.iter().find(|old| old.task == task.task) else { continue };
            task.ready = old.ready && task.status == TaskStatus::Pending;
            if old.status == TaskStatus::Complete {
                task.set(TaskStatus::Complete);
            }
        }
        Self {
            tasks,
            branch: before.branch,
            worktree: before.worktree,
            receipts: before.receipts,
            pr: before.pr,
            ..self
        }
    }

    /// Takes in one fact about it.
    pub fn apply(&mut self, envelope: &RunEnvelope) {
        match &envelope.event {
            RunEvent::UnitStarted { slot } => {
                self.status = UnitStatus::Working;
                self.slot = Some(*slot);
                self.started_at.get_or_insert(envelope.at);
            }
            RunEvent::UnitCompleted { .. } if self.merge == MergeMode::Leave => {
                self.end(envelope.at, UnitStatus::Completed);
            }
            RunEvent::UnitCompleted { .. } => {
                self.status = UnitStatus::WaitingToMerge;
                self.detail = None;
            }
            RunEvent::UnitMerging => self.status = UnitStatus::Merging,
            RunEvent::UnitPublishing => self.status = UnitStatus::Publishing,
            RunEvent::UnitJobEnded => {
                self.slot = None;
                if self.status == UnitStatus::Publishing {
                    self.end(envelope.at, UnitStatus::Completed);
                }
            }
            RunEvent::UnitMerged { commit, left_on, .. } => {
                self.merged = Some(commit.clone());
                self.left_on.clone_from(left_on);
                self.detail = None;
                self.end(envelope.at, UnitStatus::Merged);
            }
            RunEvent::UnitSentBack { detail } => {
                self.status = UnitStatus::Queued;
                self.detail = Some(format!("sent back: {detail}"));
            }
            RunEvent::UnitFailed { reason, detail, loop_id } => {
                if loop_id.is_some() {
                    self.loop_id.clone_from(loop_id);
                }
                (self.reason, self.detail) = (Some(*reason), Some(detail.clone()));
                if *reason == UnitEnd::Person {
                    // No agent works on it before a person has answered, and the task is not blamed.
                    let begun = self.tasks.iter_mut().filter(|task| task.status == TaskStatus::InProgress);
                    begun.for_each(|task| task.set(TaskStatus::Pending));
                }
                let is_stopped = *reason == UnitEnd::Stopped;
                self.end(envelope.at, if is_stopped { UnitStatus::Stopped } else { UnitStatus::Failed });
            }
            RunEvent::UnitBlocked { by } => {
                self.blocked_by.clone_from(by);
                self.end(envelope.at, UnitStatus::Blocked);
            }
            // An agent chooses among those that it was offered: which one, only its claim tells.
            RunEvent::TaskStarted { task, .. } => {
                self.tasks
                    .iter_mut()
                    .filter(|known| known.task == *task)
                    .for_each(|known| known.ready = true);
            }
            RunEvent::TaskBackpressure { task, .. } => self.set(*task, TaskStatus::InProgress),
            RunEvent::TaskCompleted { task, loop_id, .. } => {
                self.set(*task, TaskStatus::Complete);
                if !self.receipts.contains(loop_id) {
                    self.receipts.push(loop_id.clone());
                }
            }
            RunEvent::TaskFailed { task, .. } => self.set(*task, TaskStatus::Failed),
            RunEvent::TaskClaudeInvoke { loop_id, .. } => {
                self.loop_id = Some(loop_id.clone());
                let mut ready = self.tasks.iter_mut().filter(|task| task.ready);
                if let (Some(only), None) = (ready.next(), ready.next()) {
                    only.set(TaskStatus::InProgress);
                }
            }
            RunEvent::PrCreated { url } => self.pr = Some(url.clone()),
            RunEvent::WorktreeCreated { path, branch, .. } => {
                (self.worktree, self.branch) = (Some(path.clone()), Some(branch.clone()));
            }
            RunEvent::WorktreeRemoved { .. } => self.worktree = None,
            _ => {}
        }
    }

    fn end(&mut self, at: Timestamp, status: UnitStatus) {
        self.status = status;
        self.slot = None;
        self.ended_at = Some(at);
    }

    fn set(&mut self, number: u32, status: TaskStatus) {
        if let Some(task) = self.tasks.iter_mut().find(|task| task.task == number) {
            task.set(status);
        }
    }

    /// Whether its agent asked a person, and goes on with the answer.
    pub fn asks(&self) -> bool {
        self.status == UnitStatus::Failed && self.reason == Some(UnitEnd::Person)
    }

    /// How it stands, in words.
    pub fn words(&self) -> &'static str {
        if self.asks() { "waits for a person" } else { self.status.words() }
    }

    /// Whether it failed because a task was tried as often as it may be: only `--retry-failed` tries that again.
    pub fn has_given_up_a_task(&self) -> bool {
        self.status == UnitStatus::Failed
            && matches!(self.reason, Some(UnitEnd::Exhausted | UnitEnd::Failed))
            && !self.asks()
    }

    /// How many of its tasks are complete, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        (self.tasks.iter().filter(|task| task.status == TaskStatus::Complete).count(), self.tasks.len())
    }

    /// The command that goes on with it, and treats its merge as its run was told to.
    pub fn run_again(&self) -> String {
        run_again(Some(&self.unit), self.merge, self.typed_target.as_deref())
    }

    /// A unit of a run whose scheduler is gone although its journal has no end.
    #[must_use]
    pub fn with_dead_owner(mut self) -> Self {
        if !self.status.is_over() {
            self.status = UnitStatus::Stopped;
            self.reason = Some(UnitEnd::Stopped);
            self.detail = Some("dacapo died while the run was going on".to_owned());
            self.slot = None;
        }
        self
    }
}

/// The command that goes on with a unit, or with all of them: without the flags that a run was given, finished units would
/// be merged where they were not to be.
pub fn run_again(unit: Option<&UnitId>, merge: MergeMode, target: Option<&str>) -> String {
    let mut command = "dacapo unit run".to_owned();
    if let Some(unit) = unit {
        command.push_str(&format!(" --unit {unit}"));
    }
    if let Some(target) = target {
        command.push_str(&format!(" --target {}", word(target)));
    }
    command.push_str(match merge {
        MergeMode::Merge => "",
        MergeMode::Leave => " --no-merge",
        MergeMode::PullRequest => " --pr",
    });
    command
}

/// The line of one unit in `status`, its name as wide as `width`.
pub fn unit_line(view: &UnitView, width: usize) -> String {
    let (done, all) = view.progress();
    let mut parts = vec![format!("{:width$}", view.unit.as_str())];
    if view.status == UnitStatus::Blocked {
        parts.push(format!("blocked by {}", names(&view.blocked_by)));
        return parts.join("  ");
    }
    parts.push(view.words().to_owned());
    parts.push(format!("tasks {done}/{all}"));
    if let Some(slot) = view.slot {
        parts.push(format!("slot {slot}"));
    }
    let where_it_is = match view.status {
        UnitStatus::Merged => view.left_on.as_ref().map(|(branch, _)| format!("left on {branch}")),
        _ => view.pr.clone().or_else(|| view.branch.clone()),
    };
    parts.extend(where_it_is);
    parts.extend(view.detail.clone().filter(|_| !view.status.is_good()));
    parts.join("  ")
}

/// Why a unit failed, is blocked or waits, and the one next step.
pub fn why_unit(view: &UnitView) -> Why {
    let (done, all) = view.progress();
    let detail = view.detail.as_deref().unwrap_or_default().trim_end_matches('.');
    let tasks = format!("{done} of {all} tasks complete");
    let logs = match &view.loop_id {
        Some(id) => format!("`dacapo logs {id}` shows what the agent said; "),
        None => String::new(),
    };
    let again = format!("`{}`", view.run_again());
    let all_again = run_again(None, view.merge, view.typed_target.as_deref());
    let (because, next) = match view.status {
        UnitStatus::Queued if detail.is_empty() => {
            let first = if view.depends_on.is_empty() {
                "a free slot".to_owned()
            } else {
                format!("{} and a free slot", names(&view.depends_on))
            };
            (format!("Queued: it waits for {first}."), "It goes on by itself.".to_owned())
        }
        UnitStatus::Queued => (format!("Queued again, {detail}."), "It goes on by itself.".to_owned()),
        UnitStatus::Working => (
            format!("Working: {tasks}."),
            match &view.loop_id {
                Some(id) => format!("`dacapo logs {id} -f` follows its agent."),
                None => "It goes on by itself.".to_owned(),
            },
        ),
        UnitStatus::WaitingToMerge => (
            "Its work is done; it waits for its turn to be merged.".to_owned(),
            "It goes on by itself.".to_owned(),
        ),
        UnitStatus::Merging => ("It is being merged.".to_owned(), "It goes on by itself.".to_owned()),
        UnitStatus::Publishing => ("It is being published.".to_owned(), "It goes on by itself.".to_owned()),
        UnitStatus::Merged => match &view.left_on {
            Some((branch, command)) => (
                format!("Merged, on `{branch}`: the target could not be moved."),
                format!("`{command}` moves it."),
            ),
            None => (format!("Merged: {tasks}."), "Nothing is left to do.".to_owned()),
        },
        UnitStatus::Completed => (
            format!("Completed: {tasks}."),
            match (&view.pr, &view.branch) {
                (Some(pr), _) => format!("Its pull request is {pr}."),
                (None, Some(branch)) => format!("Its branch is `{branch}`."),
                (None, None) => "Nothing is left to do.".to_owned(),
            },
        ),
        UnitStatus::Blocked => (
            format!("Blocked: {} came to no good end.", names(&view.blocked_by)),
            match view.blocked_by.first() {
                Some(first) => {
                    format!("`dacapo why {first}` says why; after that `{all_again}` goes on.")
                }
                None => again,
            },
        ),
        UnitStatus::Stopped => {
            (format!("Stopped: {detail}; {tasks}."), format!("`{all_again}` goes on with it."))
        }
        UnitStatus::Failed => (
            format!("{}: {detail}; {tasks}.", if view.asks() { "A person is needed" } else { "Failed" }),
            match view.reason {
                Some(UnitEnd::Exhausted | UnitEnd::Failed) => {
                    format!("{logs}`{} --retry-failed` tries again.", view.run_again())
                }
                Some(UnitEnd::Auth) => format!("Sign in or mend the account, then {again}."),
                Some(UnitEnd::Budget) => {
                    format!("`dacapo resume {}{}` goes on.", view.run, more_of("budget", detail))
                }
                Some(UnitEnd::Person) => match &view.loop_id {
                    Some(id) => format!("`dacapo steer {id} \"…\"` answers; then {again}."),
                    None => format!("Answer it, then {again}."),
                },
                Some(UnitEnd::Blocked) => {
                    "`dacapo unit check` says which tasks wait for each other.".to_owned()
                }
                _ => format!("{logs}mend that, then {again}."),
            },
        ),
    };
    Why { because, next }
}

/// Why a run ended or goes on, and the one next step; `units` are those of it that no later run worked on.
pub fn why_run(view: &RunView, units: &[UnitView]) -> Why {
    let id = &view.id;
    let detail = view.detail.as_deref().unwrap_or_default().trim_end_matches('.');
    let (because, next) = match (view.state.as_str(), view.reason.as_deref()) {
        ("completed", _) => (format!("Completed: {detail}."), "`dacapo status` shows its units.".to_owned()),
        (state, Some(reason)) => {
            let because = match (state, reason) {
                // A question ends with its own mark.
                (_, "person") if detail.ends_with(['?', '!']) => format!("A person is needed: {detail}"),
                (_, "person") => format!("A person is needed: {detail}."),
                ("stopped", _) => format!("Stopped ({reason}): {detail}."),
                (_, "failed") => format!("Failed: {detail}."),
                _ => format!("Failed ({reason}): {detail}."),
            };
            (because, format!("{}.", after_run(id, reason, detail, units)))
        }
        (state, None) => (
            format!("The run is {state}: {} units, {} at once.", view.units, view.parallel),
            format!("`dacapo events {id} -f` follows it; `dacapo cancel {id}` ends it."),
        ),
    };
    Why { because, next }
}

/// Whether a run that ended for this reason was stopped; otherwise it failed.
pub fn is_stopped(reason: &str) -> bool {
    matches!(reason, "interrupted" | "terminated" | "cancelled" | "person")
}

/// The one next step after a run that came to no good end; `units` are those of it that no later run worked on, where they are
/// known.
pub fn after_run(run: &RunId, reason: &str, detail: &str, units: &[UnitView]) -> String {
    let more = more_of(reason, detail);
    if let Some(unit) = units.iter().find(|unit| unit.asks()).map(|unit| &unit.unit) {
        return format!("`dacapo steer {unit} \"…\"` answers; then `dacapo resume {run}{more}` goes on");
    }
    if let Some(unit) = units.iter().find(|unit| unit.has_given_up_a_task()) {
        let again = run_again(None, unit.merge, unit.typed_target.as_deref());
        let said = match unit.loop_id {
            Some(_) => format!("`dacapo why {}` shows what its gate said; ", unit.unit),
            None => String::new(),
        };
        return format!("{said}`{again} --retry-failed` tries again");
    }
    format!("`dacapo status` shows how each unit stands; `dacapo resume {run}{more}` goes on")
}

/// The flag without which a run whose limit is reached would end again at once.
fn more_of(reason: &str, detail: &str) -> &'static str {
    match reason {
        "max_time" => " --max-time DUR",
        // What several runs share is not this one's to raise.
        "budget" if detail.ends_with(" today") || detail.ends_with(" in this project") => "",
        "budget" if detail.contains(" tokens") => " --max-tokens N",
        "budget" => " --max-cost USD",
        _ => "",
    }
}

fn names(units: &[UnitId]) -> String {
    units.iter().map(UnitId::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "unit_tests.rs"]
mod tests;
