//! `dacapo status`: loops, then runs of workflows and of units.

use clap::Args;
use dacapo_core::{
    duration::Millis,
    event::{MergeMode, Reason},
    text::count,
    view::{
        LoopView, Need, RunView, StageTaskView, StatusShown, UnitView, WorkflowView, status_line, task_line,
        unit_line, why_task, workflow_line,
    },
};
use dacapo_engine::client::{Client, LoopSeen};
use jiff::Timestamp;
use serde_json::Value;

use super::{say, say_json};
use crate::{
    context::Context,
    error::UserError,
    not_begun::TaskNotBegun,
    report::{clock, money},
};

/// How many ended loops are worth a look.
const RECENT: u32 = 10;

/// How many ended runs of workflows are shown beside loops.
const RECENT_RUNS: u32 = 3;

/// Show what runs, then what ended lately
#[derive(Args, Debug, Clone)]
#[command(after_help = "Example:\n  dacapo status --json\n  dacapo status TASK-001\n  dacapo status --tasks")]
pub(super) struct StatusArgs {
    /// One loop, task, run of a workflow, or unit: its id, the beginning of it, a loop's task, or a unit's name
    id: Option<String>,
    /// Units instead of loops
    #[arg(long)]
    units: bool,
    /// Runs of workflows instead of loops
    #[arg(long, conflicts_with = "units")]
    workflows: bool,
    /// Tasks that were run instead of loops
    #[arg(long, conflicts_with_all = ["units", "workflows"])]
    tasks: bool,
    /// All that ended, not only the newest, and the loops of the stages of tasks
    #[arg(long)]
    all: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn status(cx: &Context, args: &StatusArgs) -> Result<u8, UserError> {
    // Looking makes nothing: no journal means no loops.
    let nothing_there = cx.inside.is_none() && !cx.home.path().exists();
    let mut client = if nothing_there { None } else { Some(cx.client()?) };
    let mut args = args.clone();
    if let (Some(client), Some("-")) = (&client, args.id.as_deref()) {
        args.id = Some(cx.name(client, Some("-"))?);
    }
    let args = &args;
    if let Some(id) = &args.id
        && !(args.units || args.workflows)
        && let Some(task) = TaskNotBegun::find(cx, client.as_ref(), id)?
    {
        return task_not_begun(&task, args.json);
    }
    if args.tasks {
        return tasks(cx, client.as_mut(), args);
    }
    if let Some(client) = &mut client
        && let Some(code) = units(cx, client, args)?
    {
        return Ok(code);
    }
    let told = StatusShown::Asked { is_json: args.json };
    if let (Some(client), Some(id)) = (&mut client, &args.id)
        && let Some(seen) = cx.find_workflow(client, id)?
    {
        Context::remember_look(client, seen.view.id.as_str(), told);
        return workflow(client, &seen.view, args.json);
    }
    if args.workflows {
        return workflows(client.as_ref(), args);
    }
    if let (Some(client), Some(id)) = (&mut client, &args.id)
        && let Some(seen) = cx.find_task(client, id)?
    {
        Context::remember_look(client, seen.view.id.as_str(), told);
        return task(&seen.view, args.json);
    }
    let (active, ended) = match (&client, &args.id) {
        (Some(client), Some(id)) => (vec![cx.find(client, id)?.view], Vec::new()),
        (Some(client), None) => views(client, args)?,
        (None, Some(id)) => return Err(UserError::usage(format!("no loop and no task is called `{id}`"))),
        (None, None) => (Vec::new(), Vec::new()),
    };
    if args.json {
        let all: Vec<Value> = active.iter().chain(&ended).map(LoopView::for_scripts).collect();
        return say_json(&all);
    }
    if args.units {
        say("No units.");
        return Ok(0);
    }
    let now = Timestamp::now();
    let here = Context::folder(None).ok();
    let elsewhere = |view: &LoopView| !here.as_ref().is_some_and(|here| view.workspace.starts_with(here));
    // What belongs to this folder comes first; the order is kept otherwise.
    let (mut active, mut ended) = (active, ended);
    active.sort_by_key(&elsewhere);
    ended.sort_by_key(&elsewhere);
    let folder = |view: &LoopView| match elsewhere(view) {
        true => format!(", in {}", view.workspace.display()),
        false => String::new(),
    };
    if args.id.is_some() {
        for view in &active {
            loop_detail(view, now);
            if let Some(client) = &mut client {
                Context::remember_look(client, view.id.as_str(), told);
            }
        }
        return Ok(0);
    }
    if active.is_empty() {
        say("No active Ralph loops.");
    } else {
        say("Active Ralph Loops:");
        for view in &active {
            say(format!("  {}{} [{}]", status_line(view, now), folder(view), view.id));
            if view.state != "running" {
                let detail = view.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
                say(format!("    {}{detail}", state(view)));
            }
            if let Some(question) = &view.question {
                say(format!("    asks: {question}"));
            }
        }
    }
    if let Some(client) = &client {
        // The list of the board, which needs nothing of what has ended but that which needs a person.
        needs(&client.board(0)?.board(now).needs, if args.all { usize::MAX } else { RECENT as usize }, now);
    }
    let shown_tasks = match &client {
        Some(client) => tasks_to_show(client, if args.all { usize::MAX } else { RECENT_RUNS as usize })?,
        None => Vec::new(),
    };
    if !shown_tasks.is_empty() {
        say("\nTasks:");
        shown_tasks.iter().for_each(|view| task_row(view, now));
    }
    if !ended.is_empty() {
        say("\nEnded:");
        for view in &ended {
            let reason = view.reason.map_or("", |reason| reason.as_str());
            // A check without an agent has no iterations to speak of.
            if view.max_iterations == 0 {
                let detail = view.detail.as_deref().filter(|_| view.verified != Some(true));
                let how = detail.map_or_else(|| "passed".to_owned(), |detail| format!("red: {detail}"));
                let ago = view.ended_at.map(|at| format!(", {} ago", age(at, now))).unwrap_or_default();
                say(format!("  {}  {} (checks of a merge): {how}{ago}", view.id, view.task));
                continue;
            }
            say(format!(
                "  {}  {} ({}): {} ({reason}){} after {}{}{}{}",
                view.id,
                view.task,
                view.role(),
                view.state,
                if view.verified == Some(false) { ", unverified," } else { "" },
                count(view.charged.unwrap_or(view.iteration), "iteration"),
                money(&view.ledger.total()).map(|cost| format!(", {cost}")).unwrap_or_default(),
                view.ended_at.map(|at| format!(", {} ago", age(at, now))).unwrap_or_default(),
                folder(view),
            ));
            if let Some(detail) = view
                .detail
                .as_ref()
                .filter(|_| matches!(view.reason, Some(Reason::Blocked | Reason::Refused)))
            {
                say(format!("    {detail}"));
            }
        }
    }
    if let Some(client) = &client {
        let runs = client.workflows_to_show(if args.all { u32::MAX } else { RECENT_RUNS })?;
        if !runs.is_empty() {
            say("\nRuns of workflows:");
            runs.iter().for_each(|seen| workflow_row(&seen.view, now));
        }
        unit_sections(client, true)?;
    }
    Ok(0)
}

/// Who needs a person, most urgent first, each with the command that helps.
fn needs(needs: &[Need], most: usize, now: Timestamp) {
    if needs.is_empty() {
        return;
    }
    say("\nNeeds you:");
    for need in needs.iter().take(most) {
        let what = if need.what.is_empty() { String::new() } else { format!(": {}", need.what) };
        say(format!("  {}, {} ago{what}", need.headline(), age(need.since, now)));
        say(format!("    {}", need.command));
    }
    if needs.len() > most {
        say(format!("  and {} more: `dacapo status --all`", needs.len() - most));
    }
}

/// The tasks that are not over, and the newest `most` of those that are.
fn tasks_to_show(client: &Client, most: usize) -> Result<Vec<StageTaskView>, UserError> {
    let all = client.newest_tasks(None)?.into_iter().map(|seen| seen.view);
    let (mut open, mut ended): (Vec<_>, Vec<_>) = all.partition(|view| !view.is_over);
    ended.reverse();
    ended.truncate(most);
    open.extend(ended);
    Ok(open)
}

/// Tasks and nothing else.
fn tasks(cx: &Context, client: Option<&mut Client>, args: &StatusArgs) -> Result<u8, UserError> {
    let most = if args.all { usize::MAX } else { RECENT as usize };
    let views = match (client, &args.id) {
        (Some(client), Some(id)) => match cx.find_task(client, id)? {
            Some(seen) => {
                let told = StatusShown::Asked { is_json: args.json };
                Context::remember_look(client, seen.view.id.as_str(), told);
                return task(&seen.view, args.json);
            }
            None => return Err(no_task(id)),
        },
        (None, Some(id)) => return Err(no_task(id)),
        (Some(client), None) => tasks_to_show(client, most)?,
        (None, None) => Vec::new(),
    };
    if args.json {
        return say_json(&views);
    }
    if views.is_empty() {
        say("No task was run yet.");
    }
    let now = Timestamp::now();
    for view in &views {
        task_row(view, now);
        say(format!("    run {} of {}", view.id, view.root.display()));
    }
    Ok(0)
}

fn no_task(id: &str) -> UserError {
    UserError::usage(format!("no task is called `{id}`")).hint(
        "`dacapo task list` shows the tasks of this repository, `dacapo status --tasks` those that were run",
    )
}

/// A task that has a file and no run.
fn task_not_begun(task: &TaskNotBegun, is_json: bool) -> Result<u8, UserError> {
    let why = task.why();
    let spec = &task.task.spec;
    if is_json {
        return say_json(&[serde_json::json!({
            "task": spec.id,
            "title": spec.title,
            "file": spec.file,
            "id": null,
            "state": task.state(),
            "status": task.task.status,
            "detail": why.because,
        })]);
    }
    say(format!("{}  {}: {}, not begun", spec.id, spec.title, task.task.status));
    say(why.because);
    say(format!("Next: {}", why.next));
    Ok(0)
}

fn task_row(view: &StageTaskView, now: Timestamp) {
    say(format!("  {}", task_line(view, now)));
    let text = view.question.as_ref().map(|question| question.text.as_str()).or(view.detail.as_deref());
    let text = text.and_then(|text| text.lines().next()).filter(|_| view.state != "completed");
    if let Some(text) = text {
        say(format!("    {}{text}", if view.question.is_some() { "asks: " } else { "" }));
    }
}

/// One task: where it stands, each run of a stage, and what its reviewer found.
fn task(view: &StageTaskView, is_json: bool) -> Result<u8, UserError> {
    if is_json {
        return say_json(&[view]);
    }
    say(task_line(view, Timestamp::now()));
    for own in &view.stages {
        let detail = own.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        say(format!(
            "  {:<9} {}, {} of {}{detail}",
            own.stage.as_str(),
            own.state,
            own.iterations,
            count(own.max_iterations, "iteration")
        ));
        if !own.unreviewed.is_empty() {
            say(format!("            not reviewed: {}", own.unreviewed.join(", ")));
        }
        if !own.deleted_tests.is_empty() {
            say(format!("            deleted tests: {}", own.deleted_tests.join(", ")));
        }
    }
    let asked = view.question.as_ref().map(|question| question.text.as_str()).unwrap_or_default();
    let is_asked =
        |number: u32| asked.lines().any(|line| line.trim_start().starts_with(&format!("F{number}: ")));
    for finding in view.ledger.findings.iter().filter(|finding| !is_asked(finding.number)) {
        say(format!("  F{} ({}): {}", finding.number, finding.state.as_str(), finding.text));
    }
    if let Some(worktree) = view.worktree.as_ref().filter(|_| view.state != "completed") {
        say(format!("  worktree {}", worktree.display()));
    }
    let why = why_task(view);
    if view.question.is_some() {
        say(&why.because);
    }
    say(format!("Next: {}", why.next));
    Ok(0)
}

/// Runs of workflows and nothing else.
fn workflows(client: Option<&Client>, args: &StatusArgs) -> Result<u8, UserError> {
    if let Some(id) = &args.id {
        return Err(UserError::usage(format!("no run of a workflow is called `{id}`")));
    }
    let most = if args.all { u32::MAX } else { RECENT };
    let runs = client.map(|client| client.workflows_to_show(most)).transpose()?.unwrap_or_default();
    let views: Vec<&WorkflowView> = runs.iter().map(|seen| &seen.view).collect();
    if args.json {
        return say_json(&views);
    }
    if views.is_empty() {
        say("No runs of workflows.");
    }
    let now = Timestamp::now();
    views.into_iter().for_each(|view| workflow_row(view, now));
    Ok(0)
}

fn workflow_row(view: &WorkflowView, now: Timestamp) {
    say(format!("  {}", workflow_line(view, now)));
    if let Some(question) = &view.question {
        say(format!("    asks: {}", question.message));
        if let Some(why) = &question.again {
            say(format!("    asked again: {why}"));
        }
    } else if let Some(detail) = view.detail.as_ref().filter(|_| !view.is_over || view.state != "completed") {
        say(format!("    {detail}"));
    }
}

/// One run of a workflow. What its newest loop counts is told with it.
fn workflow(client: &Client, view: &WorkflowView, is_json: bool) -> Result<u8, UserError> {
    let newest = client.newest_loop_of_run(&view.id)?.map(|seen| seen.view);
    if is_json {
        let mut value = serde_json::to_value(view).map_err(UserError::failed)?;
        if let (Some(keys), Some(newest)) = (value.as_object_mut(), newest) {
            let step =
                client.loop_started(&newest.id)?.and_then(|started| started.purpose?.as_workflow_step());
            let step = step.and_then(|(step, _)| view.steps.iter().find(|known| known.id == step));
            // Each iteration of an interactive loop is a loop of its own.
            let ended = step.and_then(|step| step.iterations);
            let is_running = step.is_some_and(|step| step.state == "running");
            let metadata = serde_json::json!({
                "iteration_count": ended.map_or(newest.iteration, |ended| ended + u32::from(is_running)),
                "max_iterations": step.and_then(|step| step.max_iterations).unwrap_or(newest.max_iterations),
                "last_output": client.last_answer(&newest.id)?.unwrap_or_default(),
                "loop": newest.id,
            });
            keys.insert("metadata".to_owned(), metadata);
        }
        return say_json(&[value]);
    }
    let detail = view.detail.as_ref().filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {detail}")).unwrap_or_default();
    let reason = view.reason.as_ref().filter(|reason| **reason != view.state);
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    say(format!("Run {} of workflow {}: {}{reason}{detail}", view.id, view.workflow, view.state));
    if let Some(question) = &view.question {
        if let Some(why) = &question.again {
            say(format!("  asked again: {why}"));
        }
        say(format!("  {} answers", question.how_to_answer(&view.id)));
    }
    for step in &view.steps {
        let detail = step.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        say(format!("  {} ({}): {}{detail}", step.id, step.kind, step.state));
    }
    Ok(0)
}

/// Answers where units are asked for; `None` if loops are.
fn units(cx: &Context, client: &mut Client, args: &StatusArgs) -> Result<Option<u8>, UserError> {
    if let Some(name) = &args.id
        && let Some(run) = cx.find_run(client, name)?
    {
        Context::remember_look(client, run.view.id.as_str(), StatusShown::Asked { is_json: args.json });
        let units = client.units_of_run(&run.view.id)?;
        if args.json {
            return say_json(&units).map(Some);
        }
        unit_section(&run.view, &units, "");
        return Ok(Some(0));
    }
    let views = match &args.id {
        // A script that asks for a task is answered with its loop, even if a unit has the same name.
        Some(_) if args.json && !args.units => return Ok(None),
        Some(name) => match cx.find_unit(client, name)? {
            Some(view) => vec![view],
            None if args.units => return Err(UserError::usage(format!("no unit is called `{name}`"))),
            None => return Ok(None),
        },
        None if args.units => client.units(None)?,
        None => return Ok(None),
    };
    if args.json {
        return say_json(&views).map(Some);
    }
    match &args.id {
        Some(_) => views.iter().for_each(unit_detail),
        None if views.is_empty() => return Ok(None),
        None => unit_sections(client, false)?,
    }
    Ok(Some(0))
}

/// The loops that run, and those that do not.
fn views(client: &Client, args: &StatusArgs) -> Result<(Vec<LoopView>, Vec<LoopView>), UserError> {
    let (active, dead): (Vec<LoopSeen>, Vec<LoopSeen>) =
        client.active()?.into_iter().partition(|seen| seen.is_running);
    // People see the tasks instead; scripts get every loop.
    let is_short = !args.all && !args.json;
    let most = match (args.all, is_short) {
        (true, _) => u32::MAX,
        // Each task has some for one that is shown.
        (_, true) => RECENT * 8,
        (_, false) => RECENT,
    };
    let is_shown = |view: &LoopView| !is_short || !is_of_task(view);
    let recent = client.recent(most)?.into_iter().filter(|seen| is_shown(&seen.view));
    let recent = recent.take(if is_short { RECENT as usize } else { usize::MAX });
    let dead = dead.into_iter().rev().filter(|seen| is_shown(&seen.view));
    let ended = dead.chain(recent).map(|seen| seen.view);
    Ok((active.into_iter().map(|seen| seen.view).collect(), ended.collect()))
}

/// Whether a loop is a stage of a task, or checks what a task and its target come to.
fn is_of_task(view: &LoopView) -> bool {
    let folder = view.workspace.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    view.stage.is_some() || (view.max_iterations == 0 && folder.starts_with(".merge-task-"))
}

/// How long ago something was, roughly.
fn age(at: Timestamp, now: Timestamp) -> String {
    Millis(u64::try_from(now.duration_since(at).as_millis()).unwrap_or(0)).coarse()
}

/// How it stands, and until when.
fn state(view: &LoopView) -> String {
    let until = view.until.map(|until| format!(" until {}", clock(until))).unwrap_or_default();
    format!("{}{until}", view.state)
}

fn loop_detail(view: &LoopView, now: Timestamp) {
    say(format!("Loop {}: {}", view.id, state(view)));
    say(format!("  {}", status_line(view, now)));
    say(format!("  project {}, in {}", view.project, view.workspace.display()));
    if let Some(detail) = &view.detail {
        say(format!("  {detail}"));
    }
    if let Some(cost) = money(&view.ledger.total()) {
        say(format!("  used so far: {cost}"));
    }
    if let Some((iteration, line)) = &view.refused {
        say(format!("  last refusal, iteration {iteration}: {line}"));
    }
    if let Some(question) = &view.question {
        say(format!("  asks: {question}"));
    }
    if let Some(parent) = &view.parent {
        say(format!("  started by loop {parent}"));
    }
}

// --- units ------------------------------------------------------------------------------------------------

/// A section for each run that goes on, and for the newest that has ended, here if there is one, `below` what was said
/// before.
fn unit_sections(client: &Client, below: bool) -> Result<(), UserError> {
    let mut gap = if below { "\n" } else { "" };
    for run in client.runs_to_show(Context::here().as_ref())?.into_iter().map(|seen| seen.view) {
        let units = client.units_of_run(&run.id)?;
        if units.is_empty() {
            continue;
        }
        unit_section(&run, &units, gap);
        gap = "\n";
    }
    Ok(())
}

fn unit_section(run: &RunView, units: &[UnitView], gap: &str) {
    say(format!("{gap}{}", heading(run, units)));
    let width = units.iter().map(|view| view.unit.as_str().len()).max().unwrap_or(0);
    for unit in units {
        say(format!("  {}", unit_line(unit, width)));
    }
}

fn heading(run: &RunView, units: &[UnitView]) -> String {
    let good = units.iter().filter(|view| view.status.is_good()).count();
    let word = match run.merge {
        MergeMode::Merge => "merged",
        MergeMode::Leave => "completed",
        MergeMode::PullRequest => "published",
    };
    let state = if run.state == "running" { String::new() } else { format!(", {}", run.state) };
    let (root, all) = (run.root.display(), units.len());
    format!("Units of {root} (run {}, target {}{state}): {good} of {all} {word}", run.id, run.target)
}

fn unit_detail(view: &UnitView) {
    let (done, all) = view.progress();
    say(format!("Unit {}: {}", view.unit, view.words()));
    say(format!("  project {}, run {}", view.project, view.run));
    if let Some(detail) = &view.detail {
        say(format!("  {detail}"));
    }
    if !view.blocked_by.is_empty() {
        say(format!("  blocked by {}", list(&view.blocked_by)));
    }
    if !view.depends_on.is_empty() {
        say(format!("  depends on {}", list(&view.depends_on)));
    }
    say(format!("  tasks {done}/{all}"));
    for task in &view.tasks {
        say(format!("    {:>2}  {:<11}  {}", task.task, task.words(), task.title));
    }
    for (what, value) in [
        ("slot", view.slot.map(|slot| slot.to_string())),
        ("branch", view.branch.clone()),
        ("worktree", view.worktree.as_ref().map(|path| path.display().to_string())),
        ("loop", view.loop_id.as_ref().map(ToString::to_string)),
        ("pull request", view.pr.clone()),
        ("merged as", view.merged.clone()),
        (
            "left on",
            view.left_on.as_ref().map(|(branch, command)| format!("{branch}; `{command}` moves the target")),
        ),
    ] {
        if let Some(value) = value {
            say(format!("  {what} {value}"));
        }
    }
    if !view.receipts.is_empty() {
        say(format!("  receipts: {}", list(&view.receipts)));
    }
}

fn list(ids: &[impl ToString]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
