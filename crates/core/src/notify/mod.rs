//! Notifications: which recorded events a person may want to hear of, in which words, and whether they are sent now.
//!
//! ```text
//! event + view ──notice_of_…──► Notice ──judge(rule, memory, time)──► Delivery ──► a channel sends it
//!                                                  └► held back: quiet hours, too many at once
//! ```
//!
//! Sending is the engine's: `crates/engine/src/notify/`.

mod judge;
mod rules;

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use judge::{
    ChannelMemory, Delivery, HeldBack, MOST, REPEAT_AFTER, STALE_AFTER, Sent, WINDOW, due_at, judge, overdue,
};
pub use rules::{NotifyChannel, NotifyRule, QuietHours, WebhookUrl};

use crate::{
    event::{Envelope, LoopEvent, Reason, RunEnvelope, RunEvent, UnitEnd},
    ids::ProjectId,
    limits::Share,
    stages::machine::{TaskEndReason, TaskEnvelope, TaskEvent},
    view::{
        LoopView, RunView, StageTaskView, StreamKind, Why, WorkflowView, why, why_run, why_task, why_workflow,
    },
    workflow::machine::{EndReason, WorkflowEnvelope, WorkflowEvent},
};

/// A wait that is shorter than this is not worth a notice.
const SHORT_PARK: SignedDuration = SignedDuration::from_mins(5);
/// How much of a question or a reason a notice repeats.
const LONGEST: usize = 500;

/// What a notice is about; the words are those of `on` in a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A loop, a run of units or of a workflow, or a task is over.
    LoopFinished,
    /// A person is asked something, or nothing goes on before a person has done something.
    Question,
    /// Three claims in a row were refused.
    Refused,
    /// The loop waits for a limit or an outage to end.
    Parked,
    /// 80 % of a loop's budget are used.
    Budget,
}

impl NoticeKind {
    pub const ALL: [Self; 5] =
        [Self::LoopFinished, Self::Question, Self::Refused, Self::Parked, Self::Budget];
    pub const WORDS: [&str; 5] = ["loop_finished", "question", "refused", "parked", "budget"];

    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    pub fn find(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// One thing that a person may want to hear of. As JSON it is what webhooks and commands get.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    pub event: NoticeKind,
    /// Whether the loop or run is over with it.
    pub is_end: bool,
    /// The event's place in the journal.
    pub seq: u64,
    pub at: Timestamp,
    pub kind: StreamKind,
    pub id: String,
    /// What people call it: its task or workflow.
    pub name: String,
    pub project: ProjectId,
    pub folder: PathBuf,
    pub state: String,
    pub reason: Option<String>,
    /// What happened, in a few words.
    pub title: String,
    /// The question or the reason, in one line.
    pub text: String,
    /// The next command.
    pub command: Option<String>,
    pub cost_usd: Option<f64>,
    /// What the notice repeats if another one has the same: the loop or run, and the question.
    #[serde(skip)]
    pub subject: String,
}

impl Notice {
    /// Whether one of these events is what it is about. An end at which a person is asked is both.
    pub fn is_wanted(&self, on: &[NoticeKind]) -> bool {
        on.contains(&self.event) || (self.is_end && on.contains(&NoticeKind::LoopFinished))
    }

    /// A made-up one, for `dacapo notify test`.
    pub fn sample(event: NoticeKind, at: Timestamp, project: ProjectId, folder: PathBuf) -> Self {
        let title = "dacapo: this is a test";
        Self {
            event,
            is_end: event == NoticeKind::LoopFinished,
            seq: 0,
            at,
            kind: StreamKind::Loop,
            id: "test".to_owned(),
            name: "test".to_owned(),
            project,
            folder,
            state: "completed".to_owned(),
            reason: Some("done".to_owned()),
            title: title.to_owned(),
            text: "Notifications reach you by this channel.".to_owned(),
            command: Some("dacapo report".to_owned()),
            cost_usd: None,
            subject: "test".to_owned(),
        }
    }
}

/// Where a stream stands, for its notices.
struct NoticeOrigin<'a> {
    kind: StreamKind,
    id: &'a str,
    name: &'a str,
    project: &'a ProjectId,
    folder: &'a Path,
    state: &'a str,
    cost_usd: Option<f64>,
    /// The loop or run that the user started.
    subject: &'a str,
}

impl NoticeOrigin<'_> {
    fn notice(&self, seq: u64, at: Timestamp, event: NoticeKind, what: &str, text: &str) -> Notice {
        let text = one_line(text);
        let of_text = if event == NoticeKind::Question { text.as_str() } else { "" };
        Notice {
            event,
            is_end: false,
            seq,
            at,
            kind: self.kind,
            id: self.id.to_owned(),
            name: self.name.to_owned(),
            project: self.project.clone(),
            folder: self.folder.to_owned(),
            state: self.state.to_owned(),
            reason: None,
            title: format!("{} {what}", self.name),
            subject: format!("{} {of_text}", self.subject),
            text,
            command: None,
            cost_usd: self.cost_usd,
        }
    }
}

/// The text in one line that is not too long.
fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn next(why: &Why, id: &str) -> Option<String> {
    Some(why.command().map_or_else(|| format!("dacapo why {id}"), str::to_owned))
}

/// What a person may want to hear of this event of a loop. `view` is the view after the event, or after later ones.
///
/// How the loops of runs and of agents end is told by what they work for.
pub fn notice_of_loop(envelope: &Envelope, view: &LoopView) -> Option<Notice> {
    let is_own = view.tally.run.is_none() && view.parent.is_none();
    let place = NoticeOrigin {
        kind: StreamKind::Loop,
        id: view.id.as_str(),
        name: view.task.as_str(),
        project: &view.project,
        folder: &view.workspace,
        state: &view.state,
        cost_usd: view.cost_usd,
        subject: view.tally.run.as_ref().map_or(view.id.as_str(), |run| run.as_str()),
    };
    let notice = |event, what: &str, text: &str| place.notice(envelope.seq, envelope.at, event, what, text);
    let steer = || Some(format!("dacapo steer {} \"…\"", view.id));
    match &envelope.event {
        // A person who typed that knows it.
        LoopEvent::LoopFinished { reason: Reason::Cancelled | Reason::Interrupted, .. } => None,
        LoopEvent::LoopFinished { state, reason, detail, .. } if is_own => {
            let (event, what, text) = match reason {
                Reason::Done => (NoticeKind::LoopFinished, "is done".to_owned(), detail.as_str()),
                Reason::Question => {
                    (NoticeKind::Question, "asks".to_owned(), view.question.as_deref().unwrap_or(detail))
                }
                Reason::Waiting => (NoticeKind::Question, "waits for you".to_owned(), detail.as_str()),
                Reason::Blocked => (NoticeKind::Question, "is blocked".to_owned(), detail.as_str()),
                Reason::Auth => (NoticeKind::Question, "is not signed in".to_owned(), detail.as_str()),
                Reason::Billing => {
                    (NoticeKind::Question, "has no money in its account".to_owned(), detail.as_str())
                }
                reason => {
                    let what = format!("{} ({})", state.as_str(), reason.as_str());
                    (NoticeKind::LoopFinished, what, detail.as_str())
                }
            };
            let command = match reason {
                Reason::Done => Some(format!("dacapo receipt {}", view.id)),
                _ => next(&why(view), view.id.as_str()),
            };
            let reason = Some(reason.as_str().to_owned());
            let state = state.as_str().to_owned();
            Some(Notice { is_end: true, reason, state, command, ..notice(event, &what, text) })
        }
        LoopEvent::QuestionAsked { text } => {
            Some(Notice { command: steer(), ..notice(NoticeKind::Question, "asks", text) })
        }
        LoopEvent::ClaimRefused { detail, .. } if view.tally.refused_often_at == Some(envelope.seq) => {
            let what = "was refused three times in a row";
            Some(Notice { command: steer(), ..notice(NoticeKind::Refused, what, detail) })
        }
        LoopEvent::Parked { until, why } if until.duration_since(envelope.at) >= SHORT_PARK => {
            let what = format!("is parked until {}", until.strftime("%Y-%m-%d %H:%M UTC"));
            let command = Some(format!("dacapo why {}", view.id));
            Some(Notice { command, ..notice(NoticeKind::Parked, &what, why) })
        }
        LoopEvent::BudgetLow { share, detail } => {
            // One word for all loops that share it, whichever of them noticed.
            let (whose, subject) = match share {
                Share::Loop => (view.task.to_string(), format!("budget {}", view.id)),
                Share::Run => ("this run".to_owned(), format!("budget of run {}", place.subject)),
                Share::Project => {
                    (format!("project {}", view.project), format!("budget of {}", view.project))
                }
                Share::Day => ("all loops of today".to_owned(), "budget of the day".to_owned()),
            };
            let title = format!("80 % of the budget of {whose} are used");
            let command = Some("dacapo report".to_owned());
            Some(Notice { title, subject, command, ..notice(NoticeKind::Budget, "", detail) })
        }
        LoopEvent::UsageSeen { .. } | LoopEvent::AgentExited { .. }
            if view.tally.budget_low_at == Some(envelope.seq) =>
        {
            let budget = &view.tally.budget;
            let spent = view.ledger.total().spent();
            let money = budget.max_cost.map(|most| format!("${:.2} of ${most:.2}", spent.cost_usd));
            let tokens = budget.max_tokens.map(|most| format!("{} of {most} tokens", spent.tokens));
            let text: Vec<String> = money.into_iter().chain(tokens).collect();
            let command = Some(format!("dacapo status {}", view.id));
            let what = "has used 80 % of its budget";
            Some(Notice { command, ..notice(NoticeKind::Budget, what, &text.join(", ")) })
        }
        _ => None,
    }
}

/// The same for a run of units.
pub fn notice_of_run(envelope: &RunEnvelope, view: &RunView) -> Option<Notice> {
    let name = format!("the run of units in {}", folder_name(&view.root));
    let place = NoticeOrigin {
        kind: StreamKind::Run,
        id: view.id.as_str(),
        name: &name,
        project: &view.project,
        folder: &view.root,
        state: &view.state,
        cost_usd: None,
        subject: view.id.as_str(),
    };
    let notice = |event, what: &str, text: &str| place.notice(envelope.seq, envelope.at, event, what, text);
    match &envelope.event {
        RunEvent::OrchCompleted { detail } => Some(Notice {
            is_end: true,
            reason: Some("completed".to_owned()),
            command: Some("dacapo status".to_owned()),
            ..notice(NoticeKind::LoopFinished, "is done", detail)
        }),
        RunEvent::OrchFailed { reason, .. } if matches!(reason.as_str(), "cancelled" | "interrupted") => None,
        RunEvent::OrchFailed { reason, detail, .. } => {
            let event = if reason == "person" { NoticeKind::Question } else { NoticeKind::LoopFinished };
            let what =
                if reason == "person" { "waits for you".to_owned() } else { format!("failed ({reason})") };
            Some(Notice {
                is_end: true,
                reason: Some(reason.clone()),
                command: next(&why_run(view, &[]), view.id.as_str()),
                ..notice(event, &what, detail)
            })
        }
        RunEvent::UnitFailed { reason: reason @ (UnitEnd::Person | UnitEnd::Auth), detail, loop_id } => {
            let unit = envelope.unit.as_ref().map(|unit| unit.as_str()).unwrap_or_default();
            let command = match (reason, loop_id) {
                (UnitEnd::Person, Some(id)) => format!("dacapo steer {id} \"…\""),
                _ => format!("dacapo why {unit}"),
            };
            let what = if *reason == UnitEnd::Person { "waits for you" } else { "is not signed in" };
            let asked = notice(NoticeKind::Question, what, detail);
            Some(Notice { title: format!("unit {unit} {what}"), command: Some(command), ..asked })
        }
        _ => None,
    }
}

/// The same for a run of a workflow.
pub fn notice_of_workflow(envelope: &WorkflowEnvelope, view: &WorkflowView) -> Option<Notice> {
    let place = NoticeOrigin {
        kind: StreamKind::Workflow,
        id: view.id.as_str(),
        name: &view.workflow,
        project: &view.project,
        folder: &view.root,
        state: &view.state,
        cost_usd: None,
        subject: view.id.as_str(),
    };
    let notice = |event, what: &str, text: &str| place.notice(envelope.seq, envelope.at, event, what, text);
    let command = || next(&why_workflow(view), view.id.as_str());
    match &envelope.event {
        WorkflowEvent::WorkflowComplete { output } => Some(Notice {
            is_end: true,
            reason: Some("completed".to_owned()),
            command: Some(format!("dacapo status {}", view.id)),
            ..notice(NoticeKind::LoopFinished, "is done", output)
        }),
        WorkflowEvent::WorkflowError(end) => {
            let (event, what) = match end.end {
                EndReason::Cancelled => return None,
                EndReason::Blocked => (NoticeKind::Question, "is blocked"),
                EndReason::Failed | EndReason::Completed => (NoticeKind::LoopFinished, "failed"),
            };
            let reason = view.reason.clone();
            Some(Notice { is_end: true, reason, command: command(), ..notice(event, what, &end.detail) })
        }
        WorkflowEvent::QuestionAsked { message, .. } => Some(Notice {
            command: command(),
            ..notice(NoticeKind::Question, "waits for your decision", message)
        }),
        WorkflowEvent::StepHeld { reason, detail, .. }
            if reason.exit_code() == Reason::Question.exit_code() =>
        {
            let reason = Some(reason.as_str().to_owned());
            Some(Notice {
                reason,
                command: command(),
                ..notice(NoticeKind::Question, "waits for you", detail)
            })
        }
        _ => None,
    }
}

/// The same for a task on its way through the stages.
pub fn notice_of_task(envelope: &TaskEnvelope, view: &StageTaskView) -> Option<Notice> {
    let place = NoticeOrigin {
        kind: StreamKind::Task,
        id: view.id.as_str(),
        name: view.task.as_str(),
        project: &view.project,
        folder: &view.root,
        state: &view.state,
        cost_usd: None,
        subject: view.id.as_str(),
    };
    let notice = |event, what: &str, text: &str| place.notice(envelope.seq, envelope.at, event, what, text);
    let command = || next(&why_task(view), view.task.as_str());
    match &envelope.event {
        TaskEvent::TaskFinished(end) => {
            let (what, command) = match end.end {
                TaskEndReason::Cancelled => return None,
                TaskEndReason::Done => ("is done", Some(format!("dacapo receipt {}", view.task))),
                TaskEndReason::Failed => ("failed", command()),
            };
            let reason = view.reason.clone();
            let ended = notice(NoticeKind::LoopFinished, what, &end.detail);
            Some(Notice { is_end: true, reason, command, ..ended })
        }
        TaskEvent::QuestionAsked { question, .. } => {
            Some(Notice { command: command(), ..notice(NoticeKind::Question, "asks", &question.text) })
        }
        TaskEvent::StageHeld { reason, detail, .. } if reason.exit_code() == Reason::Question.exit_code() => {
            let reason = Some(reason.as_str().to_owned());
            Some(Notice {
                reason,
                command: command(),
                ..notice(NoticeKind::Question, "waits for you", detail)
            })
        }
        _ => None,
    }
}

fn folder_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "notice_tests.rs"]
mod tests;
