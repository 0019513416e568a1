//! What people see of a task on its way through the stages: a fold of its stream.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Why;
use crate::{
    duration::Millis,
    event::Reason,
    ids::{LoopId, ProjectId, RunId, TaskId},
    stages::{
        FindingState, Ralph, RalphFailure, ReviewLedger, StageName, StageTaskStatus,
        machine::{QuestionAbout, TaskEndReason, TaskEnvelope, TaskEvent},
    },
    text::count,
};

/// One run of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTaskView {
    pub id: RunId,
    pub task: TaskId,
    pub title: String,
    /// The task's file, from the top of the repository.
    pub file: String,
    pub project: ProjectId,
    /// The top of the repository.
    pub root: PathBuf,
    /// The branch that it is merged into.
    pub target: String,
    /// `running`, `paused`, `stopped`, `completed`, `failed` or `cancelled`.
    pub state: String,
    /// Why it is over, or why it does not go on by itself.
    pub reason: Option<String>,
    /// One line about that.
    pub detail: Option<String>,
    /// What the command exits with, or exited with where the task does not go on by itself.
    pub exit_code: Option<u8>,
    /// Whether it has come to its end; a run that is stopped has not.
    pub is_over: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub pid: Option<u32>,
    pub status: StageTaskStatus,
    /// The stage that is under way.
    pub ralph: Option<Ralph>,
    /// Why the task is `todo` again.
    pub ralph_failure: Option<RalphFailure>,
    /// What the user has to answer.
    pub question: Option<TaskQuestionView>,
    /// The runs of stages, in their order.
    pub stages: Vec<StageRunView>,
    #[serde(default)]
    pub ledger: ReviewLedger,
    pub worktree: Option<PathBuf>,
    pub branch: Option<String>,
    /// The commit that holds it in the target.
    pub commit: Option<String>,
    /// Why the last promise was refused in the stage that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<String>,
    /// Whether the task is being merged.
    #[serde(default)]
    pub is_merging: bool,
    /// Since when it stands as it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageRunView {
    pub stage: StageName,
    /// Counts the runs of all stages of the task.
    pub run: u32,
    /// `running`, `held`, `passed`, `refused`, `asking`, `failed` or `cancelled`.
    pub state: String,
    pub iterations: u32,
    pub max_iterations: u32,
    /// Why it failed or does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The loop whose receipt proves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_id: Option<LoopId>,
    /// Files that it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Those of them that no role has reviewed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreviewed: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_tests: Vec<String>,
}

/// A question that the user has not answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskQuestionView {
    pub question: u32,
    pub stage: StageName,
    pub text: String,
    /// Whether the agent says that it cannot be done as asked; otherwise the review does not come to an end.
    #[serde(default)]
    pub is_blocked: bool,
    /// Why the newest answer did not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
}

impl StageTaskView {
    /// The view of a run whose first event is `first`; `None` if that is not a beginning.
    pub fn begin(first: &TaskEnvelope) -> Option<Self> {
        let TaskEvent::TaskStarted(started) = &first.event else { return None };
        let settings = started.settings.as_deref()?;
        Some(Self {
            id: first.run.clone(),
            task: started.task.id.clone(),
            title: started.task.title.clone(),
            file: started.task.file.clone(),
            project: settings.project.clone(),
            root: settings.root.clone(),
            target: settings.target.clone(),
            state: "running".to_owned(),
            reason: None,
            detail: None,
            exit_code: None,
            is_over: false,
            started_at: first.at,
            ended_at: None,
            pid: Some(settings.pid),
            status: StageTaskStatus::Todo,
            ralph: None,
            ralph_failure: None,
            question: None,
            stages: Vec::new(),
            ledger: ReviewLedger::with_earlier(&started.past_findings),
            worktree: None,
            branch: None,
            commit: None,
            last_refusal: None,
            is_merging: false,
            waits_since: None,
        })
    }

    /// Takes in one fact.
    pub fn apply(&mut self, envelope: &TaskEnvelope) {
        let before = (self.state.clone(), self.reason.clone());
        self.take(envelope);
        if before != (self.state.clone(), self.reason.clone()) {
            self.waits_since = Some(envelope.at).filter(|_| self.state != "running" && !self.is_over);
        }
    }

    fn take(&mut self, envelope: &TaskEnvelope) {
        match &envelope.event {
            TaskEvent::TaskStarted(_)
            | TaskEvent::CancelRequested
            | TaskEvent::PauseRequested
            | TaskEvent::Warned { .. } => {}
            TaskEvent::TaskPaused { next, .. } => {
                let what = next.map_or("merge".to_owned(), |next| format!("{next} stage"));
                self.stop(Reason::Waiting, &format!("paused before the {what}"));
                "paused".clone_into(&mut self.state);
                self.reason = Some("paused".to_owned());
            }
            TaskEvent::TaskUnpaused => {
                if self.state == "paused" {
                    self.go_on(self.status);
                }
            }
            TaskEvent::WorktreeMade { path, branch, .. } => {
                (self.worktree, self.branch) = (Some(path.clone()), Some(branch.clone()));
            }
            TaskEvent::StageStarted { stage, run, max_iterations, promise, at, .. } => {
                self.stages.push(StageRunView {
                    stage: *stage,
                    run: *run,
                    state: "running".to_owned(),
                    iterations: 0,
                    max_iterations: *max_iterations,
                    detail: None,
                    loop_id: None,
                    changed: Vec::new(),
                    unreviewed: Vec::new(),
                    deleted_tests: Vec::new(),
                });
                self.ralph = Some(Ralph {
                    stage: *stage,
                    iteration: 1,
                    max_iterations: *max_iterations,
                    started_at: *at,
                    completion_promise: promise.clone(),
                });
                self.go_on(StageTaskStatus::of_stage(*stage));
            }
            TaskEvent::StageIteration { run, entry } => {
                self.of_run(*run, |own| own.iterations = own.iterations.max(entry.ralph_iteration));
                if let Some(ralph) = self.ralph.as_mut().filter(|_| entry.continuing) {
                    ralph.iteration = entry.ralph_iteration.saturating_add(1);
                }
            }
            TaskEvent::StageHeld { run, reason, detail, .. } => {
                self.of_run(*run, |own| {
                    (own.state, own.detail) = ("held".to_owned(), Some(detail.clone()));
                });
                self.stop(*reason, detail);
            }
            TaskEvent::StageResumed { stage, run, .. } => {
                self.of_run(*run, |own| (own.state, own.detail) = ("running".to_owned(), None));
                self.go_on(StageTaskStatus::of_stage(*stage));
            }
            TaskEvent::StagePassed {
                run, iterations, changed, unreviewed, deleted_tests, loop_id, ..
            } => {
                self.of_run(*run, |own| {
                    own.state = "passed".to_owned();
                    own.iterations = own.iterations.max(*iterations);
                    (own.changed, own.unreviewed) = (changed.clone(), unreviewed.clone());
                    own.deleted_tests.clone_from(deleted_tests);
                    own.loop_id.clone_from(loop_id);
                });
                self.ralph = None;
            }
            TaskEvent::CoderReplied { replies } => {
                replies.iter().for_each(|reply| self.ledger.take_reply(reply));
            }
            TaskEvent::ReviewRound { round } => self.ledger.take_round(round),
            TaskEvent::SentBack { .. } => {
                if let Some(own) = self.stages.last_mut() {
                    own.state = "refused".to_owned();
                }
                self.ralph = None;
            }
            TaskEvent::QuestionAsked { number, question, failure } => {
                self.of_run(question.run, |own| own.state = "asking".to_owned());
                self.question = Some(TaskQuestionView {
                    question: *number,
                    stage: question.stage,
                    text: question.text.clone(),
                    is_blocked: question.about == QuestionAbout::Blocked,
                    again: None,
                });
                self.ralph_failure = Some(failure.clone());
                self.stop(Reason::Question, &question.text);
                (self.status, self.ralph) = (StageTaskStatus::Todo, None);
            }
            TaskEvent::AnswerRefused { why, .. } => {
                if let Some(question) = &mut self.question {
                    question.again = Some(why.clone());
                }
            }
            TaskEvent::QuestionAnswered { decisions, .. } => {
                self.ledger.take_answer(decisions);
                (self.question, self.ralph_failure) = (None, None);
                if let Some(own) = self.stages.last_mut() {
                    own.state = "refused".to_owned();
                }
            }
            TaskEvent::StageFailed { run, failure, refusals, .. } => {
                self.last_refusal = refusals.last().cloned();
                self.of_run(*run, |own| {
                    (own.state, own.detail) = ("failed".to_owned(), Some(failure.reason.clone()));
                });
                self.ralph_failure = Some(failure.clone());
                (self.ralph, self.status) = (None, StageTaskStatus::Todo);
            }
            TaskEvent::MergeStarted { .. } | TaskEvent::MergeResumed => {
                self.ralph = None;
                self.is_merging = true;
                self.go_on(StageTaskStatus::Testing);
                self.is_merging = true;
            }
            TaskEvent::MergeHeld { reason, detail } => self.stop(*reason, detail),
            TaskEvent::MergeConflicted { .. } => self.is_merging = false,
            TaskEvent::TaskMerged { commit, .. } => self.commit = Some(commit.clone()),
            TaskEvent::TaskFinished(end) => {
                let state = match end.end {
                    TaskEndReason::Done => "completed",
                    TaskEndReason::Failed => "failed",
                    TaskEndReason::Cancelled => "cancelled",
                };
                state.clone_into(&mut self.state);
                self.status = match end.end {
                    TaskEndReason::Done => StageTaskStatus::Done,
                    TaskEndReason::Failed | TaskEndReason::Cancelled => StageTaskStatus::Todo,
                };
                if end.end == TaskEndReason::Cancelled
                    && let Some(own) = self.stages.last_mut().filter(|own| own.state == "running")
                {
                    own.state = "cancelled".to_owned();
                }
                (self.reason, self.detail) = (Some(state.to_owned()), Some(end.detail.clone()));
                (self.exit_code, self.ended_at, self.pid) = (Some(end.exit_code), Some(envelope.at), None);
                (self.is_over, self.ralph, self.question) = (true, None, None);
                self.is_merging = false;
            }
        }
    }

    fn of_run(&mut self, run: u32, change: impl FnOnce(&mut StageRunView)) {
        if let Some(own) = self.stages.iter_mut().find(|own| own.run == run) {
            change(own);
        }
    }

    fn go_on(&mut self, status: StageTaskStatus) {
        "running".clone_into(&mut self.state);
        (self.reason, self.detail, self.status, self.is_merging) = (None, None, status, false);
        self.exit_code = None;
    }

    fn stop(&mut self, reason: Reason, detail: &str) {
        "stopped".clone_into(&mut self.state);
        let line = detail.lines().next().unwrap_or_default().to_owned();
        (self.reason, self.detail) = (Some(reason.as_str().to_owned()), Some(line));
        self.exit_code = Some(reason.exit_code());
    }

    /// A task that no process performs any more. One that waits for the user is as it should be.
    #[must_use]
    pub fn with_dead_owner(mut self) -> Self {
        self.pid = None;
        if self.state == "running" {
            "stopped".clone_into(&mut self.state);
            self.reason = Some(Reason::Interrupted.as_str().to_owned());
            self.detail = Some("dacapo died while the task was going on".to_owned());
        }
        self
    }

    /// The commands that answer what the task asks, and what each of them does.
    pub fn how_to_answer(&self) -> String {
        let task = &self.task;
        match self.question.as_ref().filter(|question| question.is_blocked) {
            Some(question) => format!(
                "`dacapo approve {task} \"the answer\"` gives the {} your answer, and it goes on; `dacapo reject {task}` gives the \
                 task up, and it is `todo` again",
                question.stage
            ),
            None => format!("`dacapo approve {task}` or `dacapo reject {task} \"what has to change\"`"),
        }
    }

    /// What the task is doing, in a few words.
    pub fn doing(&self) -> String {
        match &self.ralph {
            Some(ralph) if !self.is_over => {
                format!("{}, iteration {}/{}", ralph.stage, ralph.iteration, ralph.max_iterations)
            }
            _ if self.is_merging => "merging".to_owned(),
            _ => self.status.to_string(),
        }
    }
}

/// One line of a list of tasks: how it stands, where, and for how long.
pub fn task_line(view: &StageTaskView, now: Timestamp) -> String {
    let since = view.ended_at.unwrap_or(view.started_at);
    let age = Millis(u64::try_from(now.duration_since(since).as_millis()).unwrap_or(0)).coarse();
    let word = if view.is_over { "ended" } else { "started" };
    let reason = view.reason.as_ref().filter(|reason| **reason != view.state);
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let doing = if view.is_over { String::new() } else { format!(", {}", view.doing()) };
    format!("{}  {}: {}{reason}{doing}, {word} {age} ago", view.task, view.title, view.state)
}

/// Why a task is as it is, and what comes next.
pub fn why_task(view: &StageTaskView) -> Why {
    let StageTaskView { task, state, .. } = view;
    let detail = view.detail.as_deref().unwrap_or_default();
    let mut because = match (state.as_str(), view.reason.as_deref()) {
        ("running", _) => format!("Task {task} is running: {}.", view.doing()),
        ("stopped", Some("question")) => {
            let text = view.question.as_ref().map_or(detail, |question| question.text.as_str());
            format!("Task {task} asks: {text}")
        }
        ("completed", _) => match &view.commit {
            Some(commit) => format!(
                "Task {task} is done: all stages passed, merged into `{}` as {}.",
                view.target,
                &commit[..commit.len().min(10)]
            ),
            None => format!("Task {task} is done."),
        },
        ("cancelled", _) => format!("Task {task} is cancelled; it is `todo` again."),
        (state, Some(reason)) if state != reason => format!("Task {task} is {state} ({reason}): {detail}"),
        (state, _) => format!("Task {task} is {state}: {detail}"),
    };
    if let Some(again) = view.question.as_ref().and_then(|question| question.again.as_ref()) {
        because += &format!("\nThe newest answer did not count: {again}.");
    }
    if let Some(failure) = view.ralph_failure.as_ref().filter(|_| state == "failed") {
        because += &format!(
            "\nIt failed in the {} stage after {}; the task is `todo` again.",
            failure.stage,
            count(failure.iterations_used, "iteration")
        );
        if let Some(refusal) = &view.last_refusal {
            because += &format!("\nIts last promise was refused: {refusal}.");
        } else if let Some(line) = failure.last_output.lines().rev().find(|line| !line.trim().is_empty()) {
            because += &format!("\nIts agent said last: {line}");
        }
    }
    let open = view.ledger.findings.iter().filter(|finding| finding.state == FindingState::Open);
    for finding in open.filter(|_| state != "completed") {
        let line = format!("\n  F{}: {}", finding.number, finding.text);
        // The question names those that it is about.
        if !because.contains(&line) {
            because += &line;
        }
    }
    let next = match (state.as_str(), view.reason.as_deref()) {
        ("completed", _) => format!("nothing; `dacapo receipt {task}` has the proof of each stage"),
        ("running", _) => format!("`dacapo events {task} -f` follows it"),
        ("stopped", Some("question")) => view.how_to_answer(),
        ("failed" | "cancelled", _) => {
            format!("`dacapo task run {task}` starts it again, with what is in its worktree")
        }
        _ => format!("`dacapo resume {task}` goes on with it"),
    };
    Why { because, next }
}
