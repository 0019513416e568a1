//! Who needs a person, by table: what a view comes to, in which order, and what is left out.

use serde_json::json;

use super::*;
use crate::{
    event::{Grant, IterationOutcome, LoopEvent, OutputMarks},
    view::view_tests::{at, iteration, over, refused, view},
};

fn question(text: &str) -> LoopEvent {
    LoopEvent::QuestionAsked { text: text.into() }
}

fn resumed() -> LoopEvent {
    LoopEvent::LoopResumed {
        grant: Grant::default(),
        output: OutputMarks::default(),
        pid: 7,
        counts_anew: false,
    }
}

fn parked() -> LoopEvent {
    LoopEvent::Parked { until: at(9000), why: "claude is at its limit".into() }
}

fn finished() -> LoopEvent {
    LoopEvent::IterationFinished {
        iteration: 3,
        outcome: IterationOutcome::NoClaim,
        spent_ms: crate::duration::Millis(1),
        progress: crate::event::IterationProgress::None,
    }
}

fn of_loops(loops: impl IntoIterator<Item = LoopView>) -> Vec<Need> {
    attention(&AllViews { loops: loops.into_iter().collect(), ..AllViews::default() }, at(0))
}

#[test]
fn each_way_in_which_a_loop_waits_has_its_urgency_its_words_and_its_command() {
    let steer = "dacapo steer abcdefghjk \"…\"";
    let resume = "dacapo resume abcdefghjk";
    for (events, expected) in [
        (vec![iteration(1)], None),
        (vec![iteration(1), question("which one?")], Some((Urgency::Question, "which one?", steer))),
        (vec![question("which one?"), LoopEvent::Steered { text: "b".into() }], None),
        (vec![question("a\n  b"), over(Reason::Question, "x")], Some((Urgency::Question, "a b", steer))),
        (vec![over(Reason::Waiting, "exited 42")], Some((Urgency::Question, "exited 42", steer))),
        (vec![over(Reason::Blocked, "no access")], Some((Urgency::Question, "no access", steer))),
        (vec![over(Reason::Auth, "signed out")], Some((Urgency::SignIn, "signed out", resume))),
        (vec![over(Reason::Billing, "no credit")], Some((Urgency::SignIn, "no credit", resume))),
        (vec![refused(), refused()], None),
        (
            vec![refused(), finished(), refused(), refused(), iteration(4)],
            Some((Urgency::Refused, "gate `cargo test` exited 101", steer)),
        ),
        (vec![refused(), refused(), LoopEvent::Steered { text: "b".into() }, refused()], None),
        (vec![refused(), refused(), refused(), over(Reason::Error, "x"), resumed()], None),
        (vec![parked()], Some((Urgency::Parked, "claude is at its limit", "dacapo why abcdefghjk"))),
        (vec![parked(), iteration(2)], None),
        (vec![LoopEvent::Paused], Some((Urgency::Paused, "a person paused it", resume))),
        (
            vec![over(Reason::MaxIterations, "all 15 are used")],
            Some((Urgency::Failed, "all 15 are used", "dacapo resume abcdefghjk -n +10")),
        ),
        (
            vec![over(Reason::Stuck, "no progress")],
            Some((Urgency::Failed, "no progress", "dacapo logs abcdefghjk")),
        ),
        (vec![over(Reason::Disk, "full")], Some((Urgency::Failed, "full", resume))),
        (vec![over(Reason::Interrupted, "Ctrl-C")], Some((Urgency::Interrupted, "Ctrl-C", resume))),
        (vec![over(Reason::Done, "done")], None),
        (vec![over(Reason::Cancelled, "gone")], None),
        (vec![over(Reason::Error, "x"), resumed()], None),
    ] {
        let shown = format!("{events:?}");
        let found = of_loops([view(events)]).pop();
        let found = found.as_ref().map(|need| (need.urgency, need.what.as_str(), need.command.as_str()));
        assert_eq!(found, expected, "{shown}");
    }
    let dead = view([iteration(1)]).with_dead_owner();
    assert_eq!(of_loops([dead])[0].urgency, Urgency::Interrupted);
}

fn named(id: &str, task: &str, started: i64, view: LoopView) -> LoopView {
    LoopView { id: id.parse().unwrap(), task: task.parse().unwrap(), started_at: at(started), ..view }
}

#[test]
fn the_most_urgent_comes_first_and_among_equals_the_newest() {
    let all = [
        named("aaaaaaaaaa", "paused", 0, view([LoopEvent::Paused])),
        named("bbbbbbbbbb", "failed", 0, view([over(Reason::Error, "x")])),
        named("cccccccccc", "parked", 0, view([parked()])),
        named("dddddddddd", "signed-out", 0, view([over(Reason::Auth, "x")])),
        named("eeeeeeeeee", "refused", 0, view([refused(), refused(), refused()])),
        named("ffffffffff", "asks", 0, view([question("x")])),
        named("gggggggggg", "asks-later", 0, view([iteration(1), question("x")])),
        named("hhhhhhhhhh", "fine", 0, view([iteration(1)])),
    ];
    let names: Vec<String> = of_loops(all).into_iter().map(|need| need.name).collect();
    assert_eq!(names, ["asks-later", "asks", "refused", "signed-out", "parked", "failed", "paused"]);
}

#[test]
fn old_failures_taken_up_tasks_and_loops_of_others_are_left_out() {
    let failed = || view([over(Reason::Error, "x")]);
    let standing = |loops: Vec<LoopView>| AllViews { loops, ..AllViews::default() };
    // It failed a minute after the beginning.
    assert_eq!(attention(&standing(vec![failed()]), at(60)).len(), 1);
    assert_eq!(attention(&standing(vec![failed()]), at(61)).len(), 0);
    // A question does not age.
    assert_eq!(attention(&standing(vec![view([over(Reason::Question, "x")])]), at(9999)).len(), 1);
    let later = named("bbbbbbbbbb", "TASK-001", 100, view([iteration(1)]));
    assert_eq!(attention(&standing(vec![failed(), later]), at(0)).len(), 0);
    let mut of_run = failed();
    of_run.tally.run = Some("rrrrrrrrrr".parse().unwrap());
    assert_eq!(attention(&standing(vec![of_run]), at(0)).len(), 0);
    let mut asks = view([question("x")]);
    asks.tally.run = Some("rrrrrrrrrr".parse().unwrap());
    assert_eq!(attention(&standing(vec![asks]), at(0)).len(), 1, "its run does not know the question");
    let child = LoopView { parent: Some("pppppppppp".parse().unwrap()), ..failed() };
    assert_eq!(attention(&standing(vec![child]), at(0)).len(), 0);
}

fn run(state: &str, reason: Option<&str>) -> RunView {
    serde_json::from_value(json!({
        "id": "rrrrrrrrrr", "project": "p", "root": "/src/shop", "target": "main", "merge": "merge", "parallel": 2,
        "units": 2, "state": state, "reason": reason, "detail": "unit a failed", "exit_code": 1,
        "started_at": at(0), "ended_at": reason.map(|_| at(600)), "pid": null,
    }))
    .unwrap()
}

fn unit(name: &str, status: &str, reason: Option<&str>, left_on: Option<(&str, &str)>) -> UnitView {
    serde_json::from_value(json!({
        "unit": name, "run": "rrrrrrrrrr", "project": "p", "status": status, "tasks": [], "slot": null, "branch": null,
        "worktree": null, "loop": "abcdefghjk", "depends_on": [], "blocked_by": [], "detail": "the reason",
        "reason": reason, "receipts": [], "pr": null, "merged": null, "left_on": left_on, "started_at": at(0),
        "ended_at": at(300), "merge": "merge",
    }))
    .unwrap()
}

#[test]
fn a_run_is_told_by_its_units_or_by_itself() {
    let found = |run: RunView, units: Vec<UnitView>| -> Vec<(Urgency, String, String)> {
        let standing = AllViews { runs: vec![(run, units)], ..AllViews::default() };
        attention(&standing, at(0)).into_iter().map(|need| (need.urgency, need.name, need.command)).collect()
    };
    assert_eq!(found(run("running", None), vec![]), []);
    assert_eq!(found(run("completed", Some("completed")), vec![]), []);
    assert_eq!(found(run("stopped", Some("cancelled")), vec![]), []);
    assert_eq!(
        found(run("stopped", Some("interrupted")), vec![unit("a", "stopped", Some("stopped"), None)]),
        [(Urgency::Interrupted, "units of shop".to_owned(), "dacapo resume rrrrrrrrrr".to_owned())]
    );
    assert_eq!(
        found(
            run("failed", Some("failed")),
            vec![
                unit("a", "failed", Some("exhausted"), None),
                unit("b", "failed", Some("person"), None),
                unit("c", "blocked", None, None),
                unit("d", "merged", None, Some(("dacapo/merged-x", "git merge --ff-only x"))),
                unit("e", "merged", None, None),
                unit("f", "failed", Some("auth"), None),
            ]
        ),
        [
            (Urgency::Question, "b", "dacapo steer abcdefghjk \"…\""),
            (Urgency::Approval, "d", "git merge --ff-only x"),
            (Urgency::SignIn, "f", "dacapo unit run --unit f"),
            (Urgency::Failed, "a", "dacapo logs abcdefghjk"),
        ]
        .map(|(urgency, name, command)| (urgency, name.to_owned(), command.to_owned()))
    );
}

fn workflow(state: &str, reason: Option<&str>, question: Option<&str>, step: &str) -> WorkflowView {
    serde_json::from_value(json!({
        "id": "wwwwwwwwww", "workflow": "ship", "project": "p", "root": "/src/shop", "digest": "", "state": state,
        "reason": reason, "detail": "the detail", "exit_code": null, "is_over": false, "started_at": at(0),
        "ended_at": null, "pid": null, "current_step_index": 1,
        "steps": [{"id": "s", "kind": "agent", "state": step, "attempt": 1}],
        "question": question.map(|text| json!({"question": 1, "step": "s", "message": text, "tree": "t"})),
        "waits_since": at(60),
    }))
    .unwrap()
}

#[test]
fn a_workflow_waits_for_a_person_or_for_the_world() {
    for (view, expected) in [
        (workflow("running", None, None, "running"), None),
        (workflow("completed", Some("completed"), None, "completed"), None),
        (
            workflow("stopped", Some("question"), Some("Ship it?"), "asking"),
            Some((Urgency::Approval, "Ship it?", "dacapo approve wwwwwwwwww")),
        ),
        (
            workflow("stopped", Some("question"), None, "held"),
            Some((Urgency::Question, "the detail", "dacapo steer wwwwwwwwww \"the answer\"")),
        ),
        (
            workflow("blocked", Some("blocked"), None, "failed"),
            Some((Urgency::Question, "the detail", "dacapo steer wwwwwwwwww \"what to do\"")),
        ),
        (workflow("stopped", Some("waiting"), None, "waiting"), None),
        (
            workflow("stopped", Some("waiting"), None, "held"),
            Some((Urgency::Question, "the detail", "dacapo resume wwwwwwwwww")),
        ),
        (
            workflow("stopped", Some("auth"), None, "held"),
            Some((Urgency::SignIn, "the detail", "dacapo resume wwwwwwwwww")),
        ),
        (
            workflow("stopped", Some("budget"), None, "pending"),
            Some((Urgency::Failed, "the detail", "dacapo resume wwwwwwwwww --max-cost USD")),
        ),
        (
            workflow("failed", Some("failed"), None, "failed"),
            Some((Urgency::Failed, "the detail", "dacapo resume wwwwwwwwww")),
        ),
        (
            workflow("paused", None, None, "pending"),
            Some((Urgency::Paused, "a person paused it", "dacapo resume wwwwwwwwww")),
        ),
    ] {
        let shown = format!("{:?} {:?}", view.state, view.reason);
        let standing = AllViews { workflows: vec![view], ..AllViews::default() };
        let found = attention(&standing, at(0)).pop();
        let found = found.as_ref().map(|need| (need.urgency, need.what.as_str(), need.command.as_str()));
        assert_eq!(found, expected, "{shown}");
    }
}

fn task(state: &str, reason: Option<&str>, question: Option<(&str, bool)>) -> StageTaskView {
    serde_json::from_value(json!({
        "id": "tttttttttt", "task": "TASK-007", "title": "Search", "file": ".dacapo/tasks/TASK-007.md", "project": "p",
        "root": "/src/shop", "target": "main", "state": state, "reason": reason, "detail": "the detail",
        "exit_code": null, "is_over": state == "failed" || state == "completed", "started_at": at(0),
        "ended_at": null, "pid": null, "status": "todo", "ralph": null, "ralph_failure": null,
        "question": question.map(|(text, is_blocked)| json!({
            "question": 1, "stage": "reviewer", "text": text, "is_blocked": is_blocked
        })),
        "stages": [], "worktree": null, "branch": null, "commit": null,
    }))
    .unwrap()
}

#[test]
fn a_task_asks_or_wants_a_decision() {
    for (view, expected) in [
        (task("running", None, None), None),
        (task("completed", Some("completed"), None), None),
        (task("cancelled", Some("cancelled"), None), None),
        (
            task("stopped", Some("question"), Some(("F1 or not?", false))),
            Some((Urgency::Approval, "F1 or not?", "dacapo approve TASK-007")),
        ),
        (
            task("stopped", Some("question"), Some(("no access", true))),
            Some((Urgency::Question, "no access", "dacapo approve TASK-007 \"the answer\"")),
        ),
        (
            task("stopped", Some("auth"), None),
            Some((Urgency::SignIn, "the detail", "dacapo resume TASK-007")),
        ),
        (
            task("stopped", Some("interrupted"), None),
            Some((Urgency::Interrupted, "the detail", "dacapo resume TASK-007")),
        ),
        (
            task("paused", Some("paused"), None),
            Some((Urgency::Paused, "a person paused it", "dacapo resume TASK-007")),
        ),
        (
            task("failed", Some("failed"), None),
            Some((Urgency::Failed, "the detail", "dacapo task run TASK-007")),
        ),
    ] {
        let shown = format!("{:?} {:?}", view.state, view.reason);
        let standing = AllViews { tasks: vec![view], ..AllViews::default() };
        let found = attention(&standing, at(0)).pop();
        let found = found.as_ref().map(|need| (need.urgency, need.what.as_str(), need.command.as_str()));
        assert_eq!(found, expected, "{shown}");
    }
}
