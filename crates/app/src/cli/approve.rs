//! `dacapo approve` and `dacapo reject`: the answer of a person to the question of a run.

use std::time::{Duration, Instant};

use clap::Args;
use dacapo_core::{
    event::LoopEvent,
    ids::LoopId,
    judge::claim::RefusalReason,
    loop_machine::Request,
    view::{LoopView, QuestionView, StageTaskView, WorkflowView, refused_answer},
    workflow::{
        StepKind,
        machine::{self, Answer},
    },
};
use dacapo_engine::{
    client::{Client, StreamId, TaskSeen, WorkflowSeen},
    observer::NoObserver,
    performer::{self, ResumeWorkflow},
};

use super::{detach, say, task, value, workflow};
use crate::{context::Context, error::UserError};

/// How long a process that performs a run may take to read an answer.
const READING: Duration = Duration::from_secs(3);
/// How often it is looked whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long the ids of runs are.
const ID_LENGTH: usize = 10;

/// Approve what a workflow or a task asks about, or a claim that was refused for its tests
///
/// If the newest claim of a loop was refused as `narrowed`, this accepts exactly that tree; look at the difference first. The same
/// holds if the claim was refused because a test runner, a program or a setting outside of the workspace changed. If the workspace
/// has changed since, nothing is approved.
///
/// Of a task whose review does not come to an end, this takes the work as it is; an agent that is blocked goes on with what you
/// say. The approval holds for the files that the question is about; if they have changed since, it does not count, the checks run
/// again, and the question is asked again. A run that no process performs goes on in the background.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo approve\n  dacapo approve k3f9x2 \"also update the docs\"\n  dacapo approve TASK-001 \"use postgres\""
)]
pub(super) struct ApproveArgs {
    /// The task, or the run of a workflow: its id or the beginning of it (default: the one in this folder that asks). A word that
    /// names none of them is taken for TEXT
    id: Option<String>,
    /// Words for the agent that goes on
    text: Option<String>,
    /// One of the decisions of the question, by its name
    #[arg(long, value_name = "NAME", value_parser = value::not_blank)]
    decision: Option<String>,
}

/// Reject what a workflow or a task asks about
///
/// The coder of a task goes on with what you say, and the review begins anew; a task whose agent is blocked is given up.
/// A run of a workflow makes the changes that the workflow has for this case, and asks again; without any it ends.
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  dacapo reject k3f9x2 \"the tests are missing\"\n  dacapo reject TASK-001 \"keep the old route\""
)]
pub(super) struct RejectArgs {
    /// The task, or the run of a workflow: its id or the beginning of it (default: the one in this folder that asks). A word that
    /// names none of them is taken for TEXT
    id: Option<String>,
    /// What is wrong: the agent that goes on reads it
    text: Option<String>,
}

pub(super) fn approve(cx: &Context, args: &ApproveArgs) -> Result<u8, UserError> {
    let decision = args.decision.as_deref().unwrap_or("approve");
    answer(cx, args.id.as_deref(), args.text.as_deref(), decision)
}

pub(super) fn reject(cx: &Context, args: &RejectArgs) -> Result<u8, UserError> {
    answer(cx, args.id.as_deref(), args.text.as_deref(), "reject")
}

fn answer(cx: &Context, id: Option<&str>, text: Option<&str>, decision: &str) -> Result<u8, UserError> {
    let mut client = cx.client()?;
    if let Some(loop_id) =
        id.filter(|id| *id != "-" && decision == "approve").and_then(|id| cx.find(&client, id).ok())
        && let Some(narrowed) = narrowed(&client, &loop_id.view.id)?
    {
        return approve_narrowed(&mut client, &loop_id.view, narrowed);
    }
    if let Some((seen, said)) = asking_task(cx, &client, id, text)? {
        return answer_task(cx, &mut client, &seen, said, decision);
    }
    let named = match id {
        Some(id) if id != "-" => cx.find_workflow(&client, id)?,
        _ => None,
    };
    let (run, text) = match (named, id, text) {
        (Some(run), _, text) => (Some(run), text.unwrap_or_default()),
        (None, Some(id), text) if id != "-" && (text.is_some() || looks_like_id(id)) => {
            return Err(no_run(&client, id)?);
        }
        (None, id, text) => {
            let said = text.or(id.filter(|id| *id != "-")).unwrap_or_default();
            let is_anything_here = match Context::here() {
                Some(project) => client.default_stream(Some(&project))?.is_some(),
                None => false,
            };
            let run = if id == Some("-") || is_anything_here {
                cx.find_workflow(&client, &cx.name(&client, id.filter(|id| *id == "-"))?)?
            } else {
                None
            };
            (run, said)
        }
    };
    let Some(run) = run else {
        return Err(nothing_asks(&client, id.filter(|id| *id != "-"))?);
    };
    let view = run.view;
    let id = view.id.clone();
    let Some(question) = view.question.clone() else { return Err(asks_nothing(&view)) };
    let answer = match decision {
        "approve" => Answer::Approve,
        "reject" => Answer::Reject,
        other => Answer::Choose(other.to_owned()),
    };
    let (_, is_rework) = machine::decision(&question.decisions, &answer)
        .map_err(|why| UserError::usage(why).hint(question.how_to_answer(&id)))?;
    workflow::require_consent_to_answer(cx, &client, &id)?;
    // The run looks by itself, and refuses it; here the person is told at once.
    let started = client.workflow_started(&id)?;
    let settings = started.as_ref().and_then(|started| started.settings.as_deref());
    let is_stale = match settings.filter(|_| !is_rework) {
        Some(settings) => performer::tree_of(&cx.home, &id, settings)? != question.tree,
        None => false,
    };
    let request =
        Request::Answer { decision: decision.to_owned(), text: text.to_owned(), question: question.question };
    let asked = question.question;
    let is_performed = client.request(&StreamId::Run(id.clone()), &request)?
        && is_read(|| {
            let seen = client.workflow_of_id(&id)?;
            let is_open =
                |seen: &WorkflowSeen| seen.view.question.as_ref().is_some_and(|q| q.question == asked);
            Ok(seen.map(|seen| (is_open(&seen), seen.is_running)))
        })?;
    if is_stale {
        if !is_performed {
            client.start(["resume", id.as_str(), "--is-answer"])?;
        }
        return Err(UserError::needs_person(format!(
            "run {id} does not take this: {}",
            refused_answer(question.question)
        ))
        .hint(format!(
            "its checks run again, and it asks again about the files as they are; `dacapo status {id}` shows the question"
        )));
    }
    if is_performed {
        say(format!("Run {id} has the answer."));
        return Ok(0);
    }
    if is_rework && ends_with_rejection(&client, &view, &question)? {
        let wanted = ResumeWorkflow { id: id.clone(), resumed: None, is_detached: true };
        performer::resume(&cx.home, wanted, &mut NoObserver)?;
        let seen = client.workflow_of_id(&id)?.map(|seen| seen.view);
        let state = seen.as_ref().map_or("gone", |view| view.state.as_str());
        let detail = seen.as_ref().and_then(|view| view.detail.as_deref()).unwrap_or_default();
        say(format!("Run {id} is {state}: {detail}"));
        return Ok(0);
    }
    detach::start_run(&client, ["resume", id.as_str(), "--is-answer"])
}

/// The task that an answer is for, if it names one, or names nothing and the newest of this folder is one; and what is said.
fn asking_task<'a>(
    cx: &Context,
    client: &Client,
    id: Option<&'a str>,
    text: Option<&'a str>,
) -> Result<Option<(TaskSeen, &'a str)>, UserError> {
    let named = id.filter(|id| *id != "-");
    if let Some(id) = named {
        if let Some(seen) = cx.task_of(client, id)? {
            return Ok(Some((seen, text.unwrap_or_default())));
        }
        // What is no id is what the user says to the task that asks here.
        if text.is_some() || looks_like_id(id) || cx.find_workflow(client, id)?.is_some() {
            return Ok(None);
        }
    }
    let said = text.or(named).unwrap_or_default();
    let newest = match id {
        Some("-") => client.newest_stream()?,
        _ => match Context::here() {
            Some(project) => client.default_stream(Some(&project))?,
            None => None,
        },
    };
    let (task, is_workflow_asking) = match newest {
        Some(StreamId::Run(run)) => {
            let workflow = client.workflow_of_id(&run)?;
            (client.task_of_id(&run)?, workflow.is_some_and(|seen| seen.view.question.is_some()))
        }
        _ => (None, false),
    };
    if is_workflow_asking || id == Some("-") || task.as_ref().is_some_and(|seen| seen.view.question.is_some())
    {
        return Ok(task.map(|seen| (seen, said)));
    }
    // The newest of this folder asks nothing; a task that does is meant.
    let mut asking = cx.tasks_here(client)?;
    asking.retain(|seen| seen.view.question.is_some());
    if asking.len() > 1 {
        let names: Vec<&str> = asking.iter().map(|seen| seen.view.task.as_str()).collect();
        return Err(UserError::usage(format!("several tasks ask here: {}", names.join(", ")))
            .hint("name the one that you answer"));
    }
    Ok(asking.pop().or(task).map(|seen| (seen, said)))
}

/// Leaves the answer to the task, and has it go on in the background if no process performs it.
fn answer_task(
    cx: &Context,
    client: &mut Client,
    seen: &TaskSeen,
    text: &str,
    decision: &str,
) -> Result<u8, UserError> {
    let StageTaskView { id, task, question, .. } = &seen.view;
    let Some(question) = question else {
        return Err(UserError::failed(format!("task {task} asks nothing: it is {}", seen.view.state)));
    };
    if !matches!(decision, "approve" | "reject") {
        return Err(UserError::usage(format!("task {task} offers no decision `{decision}`"))
            .hint(seen.view.how_to_answer()));
    }
    let request =
        Request::Answer { decision: decision.to_owned(), text: text.to_owned(), question: question.question };
    let asked = question.question;
    let is_performed = client.request(&StreamId::Run(id.clone()), &request)?
        && is_read(|| {
            let seen = client.task_of_id(id)?;
            let is_open = |seen: &TaskSeen| seen.view.question.as_ref().is_some_and(|q| q.question == asked);
            Ok(seen.map(|seen| (is_open(&seen), seen.is_running)))
        })?;
    if is_performed {
        say(format!("Task {task} has the answer."));
        return Ok(0);
    }
    task::run::require_consent_to_answer(cx, client, &seen.view)?;
    detach::start_tasks(client, ["resume", id.as_str(), "--is-answer"], &[task.as_str()])
}

/// Whether the process that performs a run reads the answer that was left for it. One that was about to leave, because it has just
/// asked, reads nothing more: then another one has to go on. `look` says whether the question is open and whether a process
/// performs the run.
fn is_read(look: impl Fn() -> Result<Option<(bool, bool)>, UserError>) -> Result<bool, UserError> {
    let until = Instant::now() + READING;
    loop {
        match look()? {
            Some((true, false)) => return Ok(false),
            Some((true, true)) if Instant::now() < until => std::thread::sleep(LOOK_AGAIN),
            _ => return Ok(true),
        }
    }
}

/// Whether the workflow has no changes for a rejection.
fn ends_with_rejection(
    client: &Client,
    view: &WorkflowView,
    question: &QuestionView,
) -> Result<bool, UserError> {
    let started = client.workflow_started(&view.id)?;
    let step = started.as_ref().and_then(|started| started.workflow.step(&question.step));
    Ok(step.is_some_and(|step| match &step.kind {
        StepKind::Approval(approval) => approval.on_reject.is_none(),
        kind => kind.has_agent(),
    }))
}

fn asks_nothing(view: &WorkflowView) -> UserError {
    let id = &view.id;
    if view.reason.as_deref() == Some("question") {
        let detail = view.detail.as_deref().unwrap_or_default();
        return UserError::failed(format!("run {id} asks for no approval; its agent asks: {detail}"))
            .hint(format!("`dacapo steer {id} \"the answer\"` answers, and the run goes on"));
    }
    UserError::failed(format!("run {id} asks nothing: it is {}", view.state))
}

/// Whether one word was rather meant as the id of a run than as something to say.
fn looks_like_id(word: &str) -> bool {
    let is_word = word.len() >= 4 && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    is_word && (word.bytes().any(|b| b.is_ascii_digit()) || word.len() == ID_LENGTH)
}

/// The newest claim of a loop that was refused because its tests are narrower than they were.
struct NarrowedClaim {
    tree: String,
    detail: String,
    /// Whether an agent has changed the files since.
    is_past: bool,
}

fn narrowed(client: &Client, id: &LoopId) -> Result<Option<NarrowedClaim>, UserError> {
    let (mut examined, mut found) = (None, None);
    for envelope in client.events_of_loop(id, 0)? {
        match envelope.event {
            LoopEvent::ClaimExamined { found, .. } => examined = Some(found),
            LoopEvent::ClaimRefused { reason, detail, .. } => {
                let claim = examined.take().filter(|claim| match reason {
                    RefusalReason::Narrowed => true,
                    RefusalReason::Tampered => claim.is_tampered_outside_alone(),
                    _ => false,
                });
                found =
                    claim.map(|claim| claim.tree).map(|tree| NarrowedClaim { tree, detail, is_past: false });
            }
            LoopEvent::SnapshotTaken { tree, .. } => {
                if let Some(claim) = found.as_mut() {
                    claim.is_past = claim.tree != tree;
                }
            }
            LoopEvent::ClaimAccepted { .. } => found = None,
            _ => {}
        }
    }
    Ok(found)
}

/// Accepts the tree of a claim that was refused for its tests: the next verdict about that very tree does not ask about them.
fn approve_narrowed(client: &mut Client, view: &LoopView, claim: NarrowedClaim) -> Result<u8, UserError> {
    let id = &view.id;
    // While no agent works there, the user may have.
    let is_past = claim.is_past || client.tree_now(view)?.is_some_and(|tree| tree != claim.tree);
    if is_past {
        return Err(UserError::needs_person(format!(
            "the workspace of loop {id} has moved on since its claim was refused; nothing is approved"
        ))
        .hint(format!("`dacapo why {id}` says how it stands")));
    }
    let by =
        std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "the user".to_owned());
    let request = Request::ApproveTree { tree: claim.tree.clone(), by };
    let is_running = client.request(&StreamId::Loop(id.clone()), &request)?;
    let short: String = claim.tree.chars().take(12).collect();
    say(format!(
        "The tree {short} is approved, although {}.",
        claim.detail.split(';').next().unwrap_or_default()
    ));
    if !is_running {
        say(format!("`dacapo resume {id}` checks it once more and accepts it."));
    }
    Ok(0)
}

/// No task and no run of this folder waits for an answer; `word` was said to one, or names none.
fn nothing_asks(client: &Client, word: Option<&str>) -> Result<UserError, UserError> {
    let message = match word {
        Some(word) => format!("nothing here asks, and no task or run is called `{word}`"),
        None => "nothing here asks".to_owned(),
    };
    Ok(UserError::failed(message).hint(who_asks(client)?))
}

fn no_run(client: &Client, id: &str) -> Result<UserError, UserError> {
    Ok(UserError::usage(format!("no task and no run of a workflow is called `{id}`")).hint(who_asks(client)?))
}

/// The runs of workflows that ask something, as a hint.
fn who_asks(client: &Client) -> Result<String, UserError> {
    let asking: Vec<String> = client
        .workflows_to_show(0)?
        .into_iter()
        .filter_map(|seen| {
            let question = seen.view.question?;
            Some(format!("{} ({})", seen.view.id, question.message.lines().next().unwrap_or_default()))
        })
        .collect();
    Ok(match asking.as_slice() {
        [] => "`dacapo status` lists what needs you, each with its command".to_owned(),
        asking => format!("these ask: {}; what you say stands behind the id", asking.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_that_looks_like_an_id_is_no_remark() {
        for (word, expected) in [
            ("typo123", true),
            ("mgkc0v4zkv", true),
            ("abcdefghij", true),
            ("lgtm", false),
            ("ok", false),
            ("k3", false),
            ("looks good to me 2", false),
            ("Ship-1", false),
            ("", false),
        ] {
            assert_eq!(looks_like_id(word), expected, "{word}");
        }
    }
}
