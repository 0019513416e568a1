//! The board by table: which lane, which words, who needs a person; and the pages that are folded from events.

use serde_json::{Value, json};

use super::*;
use crate::{
    event::{
        AgentExit, Envelope, Grant, IterationOutcome, LoopEvent, OutputMarks, Reason, RunEnvelope, RunEvent,
        Spend, UnitEnd,
    },
    judge::{claim::RefusalReason, signal::Signal},
    loop_machine::decide_tests::{agent_exit, gate_result},
    view::{
        RunView, StageTaskView, UnitView, WorkflowView,
        view_tests::{at, iteration, over, refused, view},
    },
};

fn named(id: &str, view: LoopView) -> LoopView {
    LoopView { id: id.parse().unwrap(), task: id.parse().unwrap(), ..view }
}

fn facts() -> BoardFacts {
    BoardFacts { since: at(0), marked_since: at(0), ..BoardFacts::default() }
}

fn board_of(loops: Vec<LoopView>) -> Board {
    board(&AllViews { loops, ..AllViews::default() }, &facts(), at(100_000))
}

fn parked() -> LoopEvent {
    LoopEvent::Parked { until: at(9000), why: "claude is at its limit".into() }
}

fn run_view(changes: Value) -> RunView {
    let mut value = json!({
        "id": "rrrrrrrrrr", "project": "p", "root": "/src/shop", "target": "main", "merge": "merge", "parallel": 2,
        "units": 3, "state": "running", "reason": null, "detail": null, "exit_code": null,
        "started_at": at(0), "ended_at": null, "pid": 7,
    });
    merge(&mut value, changes);
    serde_json::from_value(value).unwrap()
}

fn unit_view(name: &str, changes: Value) -> UnitView {
    let mut value = json!({
        "unit": name, "run": "rrrrrrrrrr", "project": "p", "status": "queued", "tasks": [
            {"task": 1, "title": "One", "status": "complete"}, {"task": 2, "title": "Two", "status": "in_progress"},
        ],
        "slot": null, "branch": null, "worktree": null, "loop": null, "depends_on": [], "blocked_by": [], "detail": null,
        "reason": null, "receipts": [], "pr": null, "merged": null, "left_on": null, "started_at": null, "ended_at": null,
        "merge": "merge",
    });
    merge(&mut value, changes);
    serde_json::from_value(value).unwrap()
}

fn workflow_view(changes: Value) -> WorkflowView {
    let step = |id: &str, state: &str| json!({"id": id, "kind": "loop", "state": state, "attempt": 1, "iterations": null, "max_iterations": 5});
    let mut value = json!({
        "id": "wwwwwwwwww", "workflow": "ralph", "project": "p", "root": "/src/shop", "digest": "d", "state": "running",
        "reason": null, "detail": null, "exit_code": null, "is_over": false, "started_at": at(0), "ended_at": null, "pid": 7,
        "current_step_index": 2, "steps": [step("plan", "completed"), step("build", "running"), step("ship", "pending")],
        "question": null, "is_paused": false, "exceeded": null, "refused_answer": null, "is_audited": false,
    });
    merge(&mut value, changes);
    serde_json::from_value(value).unwrap()
}

fn task_view(changes: Value) -> StageTaskView {
    let mut value = json!({
        "id": "tttttttttt", "task": "TASK-001", "title": "Implement authentication", "file": ".dacapo/tasks/TASK-001.md",
        "project": "p", "root": "/src/shop", "target": "main", "state": "running", "reason": null, "detail": null,
        "exit_code": null, "is_over": false, "started_at": at(0), "ended_at": null, "pid": 7, "status": "implementing",
        "ralph": {"stage": "coder", "iteration": 3, "max_iterations": 15, "started_at": at(60), "completion_promise": "X"},
        "ralph_failure": null, "question": null, "stages": [], "worktree": null, "branch": null, "commit": null,
    });
    merge(&mut value, changes);
    serde_json::from_value(value).unwrap()
}

fn merge(value: &mut Value, changes: Value) {
    for (key, change) in changes.as_object().unwrap() {
        value[key] = change.clone();
    }
}

#[test]
fn every_way_in_which_a_loop_stands_has_its_lane_and_its_words() {
    // req 195
    let question = LoopEvent::QuestionAsked { text: "which one?".into() };
    for (events, is_dead, lane, state, words, need) in [
        (vec![iteration(3)], false, Lane::Running, "running", "running", None),
        (
            vec![iteration(3), LoopEvent::ClaimMade { iteration: 3, by: vec![Signal::DoneFile] }],
            false,
            Lane::Running,
            "gating",
            "checking",
            None,
        ),
        (
            vec![iteration(3), question.clone()],
            false,
            Lane::Running,
            "running",
            "asks",
            Some(Urgency::Question),
        ),
        (
            vec![refused(), refused(), refused(), iteration(4)],
            false,
            Lane::Running,
            "running",
            "refused 3 times",
            Some(Urgency::Refused),
        ),
        (vec![iteration(3), parked()], false, Lane::Waiting, "parked", "parked", Some(Urgency::Parked)),
        (
            vec![iteration(3), LoopEvent::Paused],
            false,
            Lane::Waiting,
            "paused",
            "paused",
            Some(Urgency::Paused),
        ),
        (
            vec![question, over(Reason::Question, "x")],
            false,
            Lane::Waiting,
            "stopped",
            "asks",
            Some(Urgency::Question),
        ),
        (
            vec![over(Reason::Auth, "signed out")],
            false,
            Lane::Waiting,
            "stopped",
            "signed out",
            Some(Urgency::SignIn),
        ),
        (
            vec![over(Reason::Interrupted, "Ctrl-C")],
            false,
            Lane::Waiting,
            "interrupted",
            "interrupted",
            Some(Urgency::Interrupted),
        ),
        (vec![over(Reason::Done, "done")], false, Lane::Done, "completed", "done", None),
        (
            vec![over(Reason::MaxIterations, "15 of 15")],
            false,
            Lane::Done,
            "failed",
            "out of iterations",
            Some(Urgency::Failed),
        ),
        (vec![over(Reason::Cancelled, "gone")], false, Lane::Done, "cancelled", "cancelled", None),
        // A process that should be there and is gone is never shown as running.
        (vec![iteration(3)], true, Lane::Waiting, "interrupted", "interrupted", Some(Urgency::Interrupted)),
        (
            vec![iteration(3), LoopEvent::ClaimMade { iteration: 3, by: vec![] }],
            true,
            Lane::Waiting,
            "interrupted",
            "interrupted",
            Some(Urgency::Interrupted),
        ),
    ] {
        let mut own = view(events.clone());
        if is_dead {
            own = own.with_dead_owner();
        }
        let board = board_of(vec![own]);
        let card = board.cards().next().unwrap();
        assert_eq!(
            (card.lane, card.state.as_str(), card.words(), card.need),
            (lane, state, words, need),
            "{events:?}"
        );
        assert_eq!(board.lane(lane).len(), 1);
        let is_at_work = !is_dead && matches!(state, "running" | "gating");
        assert_eq!(
            (board.slots.len(), card.is_at_work()),
            (usize::from(is_at_work), is_at_work),
            "{events:?}"
        );
        serde_json::to_string(&board).unwrap();
    }
}

#[test]
fn a_session_between_two_turns_has_no_owner_and_keeps_its_state() {
    let mut own = view([iteration(3)]);
    own.session = Some("s1".into());
    let board = board_of(vec![own.with_dead_owner()]);
    let card = board.cards().next().unwrap();
    assert_eq!((card.kind, card.lane, card.state.as_str()), (CardKind::Session, Lane::Running, "running"));
    // No process of dacapo's works for it.
    assert_eq!((board.slots.len(), board.totals.needs), (0, 0));
}

#[test]
fn a_card_and_a_slot_say_what_the_seed_has() {
    // req 195
    let mut coder = named("aaaaaaaaaa", view([iteration(3)]));
    coder.stage = Some("coder".into());
    coder.tally.run = Some("tttttttttt".parse().unwrap());
    coder.tally.runs_since = Some(at(0));
    let standing = AllViews { loops: vec![coder], tasks: vec![task_view(json!({}))], ..AllViews::default() };
    let board = board(&standing, &facts(), at(323));
    let card = &board.lane(Lane::Coder)[0];
    assert_eq!(card.progress().unwrap(), "Coder (3/15)");
    assert_eq!((card.name.as_str(), card.title.as_deref()), ("TASK-001", Some("Implement authentication")));
    let slot = &board.slots[0];
    assert_eq!((slot.number, slot.role.as_str(), slot.card.as_str()), (1, "coder", "tttttttttt"));
    assert_eq!(slot.iteration_line(), "Ralph: iteration 3/15");
    assert_eq!(slot.time_line(at(323)), "Running: 5m 23s");
    assert_eq!(slot.time_line(at(5)), "Running: 5s");
    assert_eq!(headline(&board.totals), "dacapo 1 running");
}

#[test]
fn tasks_stand_in_the_lane_of_their_stage_and_failed_ones_are_to_be_done_again() {
    let ralph = |stage: &str| json!({"stage": stage, "iteration": 1, "max_iterations": 5, "started_at": at(60), "completion_promise": "X"});
    let question = json!({"question": 1, "stage": "reviewer", "text": "F1: keep it?"});
    for (changes, lane, state, need) in [
        (json!({}), Lane::Coder, "running", None),
        (json!({"status": "reviewing", "ralph": ralph("reviewer")}), Lane::Reviewer, "running", None),
        (json!({"status": "testing", "ralph": ralph("tester")}), Lane::Tester, "running", None),
        (json!({"status": "testing", "ralph": ralph("qa")}), Lane::Qa, "running", None),
        (json!({"status": "testing", "ralph": null, "is_merging": true}), Lane::Tester, "merging", None),
        (json!({"status": "todo", "ralph": null}), Lane::Todo, "running", None),
        (
            json!({"state": "stopped", "reason": "question", "status": "todo", "ralph": null, "question": question}),
            Lane::Waiting,
            "waiting",
            Some(Urgency::Approval),
        ),
        (json!({"state": "paused", "reason": "paused"}), Lane::Waiting, "paused", Some(Urgency::Paused)),
        (
            json!({"state": "completed", "reason": "completed", "is_over": true, "status": "done", "ralph": null, "ended_at": at(9)}),
            Lane::Done,
            "completed",
            None,
        ),
        (
            json!({"state": "failed", "reason": "failed", "is_over": true, "status": "todo", "ralph": null, "ended_at": at(9)}),
            Lane::Todo,
            "failed",
            Some(Urgency::Failed),
        ),
    ] {
        let standing = AllViews { tasks: vec![task_view(changes.clone())], ..AllViews::default() };
        let board = board(&standing, &facts(), at(1000));
        let card = board.cards().next().unwrap();
        assert_eq!((card.lane, card.state.as_str(), card.need), (lane, state, need), "{changes}");
    }
    // Of a task the newest run counts, and a file that was never run is to be done.
    let older = task_view(
        json!({"id": "oooooooooo", "started_at": at(-5), "state": "failed", "is_over": true, "reason": "failed"}),
    );
    let todo = |task: &str, waits: &[&str]| TodoTask {
        project: "p".parse().unwrap(),
        root: "/src/shop".into(),
        task: task.parse().unwrap(),
        title: "Next\u{1b}[31m".into(),
        waits_for: waits.iter().map(|task| task.parse().unwrap()).collect(),
    };
    let facts = BoardFacts { todo: vec![todo("TASK-001", &[]), todo("TASK-002", &["TASK-001"])], ..facts() };
    let standing = AllViews { tasks: vec![older, task_view(json!({}))], ..AllViews::default() };
    let all = board(&standing, &facts, at(1000));
    assert_eq!(all.cards().count(), 2);
    let next = &all.lane(Lane::Todo)[0];
    assert_eq!((next.id.as_str(), next.state.as_str()), ("todo/p/TASK-002", "todo"));
    assert_eq!(
        (next.title.as_deref(), next.detail.as_deref()),
        (Some("Next\\u{1b}[31m"), Some("after TASK-001"))
    );
}

#[test]
fn workflows_that_wait_for_a_person_or_a_time_keep_their_state_without_a_process() {
    let question = json!({"question": 1, "step": "build", "message": "Ship it?", "tree": "t", "decisions": [{"id": "ship", "label": "Ship it"}, {"id": "hold"}]});
    for (changes, lane, state, need) in [
        (json!({}), Lane::Running, "running", None),
        (
            json!({"state": "stopped", "reason": "question", "question": question, "pid": null}),
            Lane::Waiting,
            "waiting",
            Some(Urgency::Approval),
        ),
        (json!({"state": "stopped", "reason": "waiting", "pid": null}), Lane::Waiting, "waiting", None),
        (
            json!({"state": "completed", "reason": "completed", "is_over": true, "ended_at": at(9)}),
            Lane::Done,
            "completed",
            None,
        ),
        (
            json!({"state": "failed", "reason": "failed", "is_over": true, "ended_at": at(9)}),
            Lane::Done,
            "failed",
            Some(Urgency::Failed),
        ),
    ] {
        let own = workflow_view(changes.clone());
        let own = if own.state == "stopped" { own.with_dead_owner() } else { own };
        let standing = AllViews { workflows: vec![own], ..AllViews::default() };
        let board = board(&standing, &facts(), at(1000));
        let card = board.cards().next().unwrap();
        assert_eq!((card.lane, card.state.as_str(), card.need), (lane, state, need), "{changes}");
        if need == Some(Urgency::Approval) {
            assert_eq!(card.decisions, ["ship", "hold"]);
            assert_eq!(card.decision_labels, ["Ship it", "hold"]);
            assert_eq!(
                card.actions,
                [Action::Cancel, Action::Approve, Action::Reject],
                "what commands refuse is not offered"
            );
        }
    }
    let dead = workflow_view(json!({})).with_dead_owner();
    let board = board(&AllViews { workflows: vec![dead], ..AllViews::default() }, &facts(), at(1000));
    assert_eq!(board.lane(Lane::Waiting)[0].state, "interrupted");
    assert_eq!(board.totals.running, 0);
}

#[test]
fn units_of_a_run_that_goes_on_are_cards_and_those_of_one_that_is_over_are_told_on_its_page() {
    let units = vec![
        unit_view("auth", json!({"status": "working", "slot": 2, "started_at": at(5)})),
        unit_view("billing", json!({"status": "queued", "depends_on": ["auth"]})),
        unit_view("core", json!({"status": "merged", "ended_at": at(50)})),
        unit_view("docs", json!({"status": "waiting_to_merge"})),
        unit_view(
            "edge",
            json!({"status": "failed", "reason": UnitEnd::Person, "detail": "which port?", "ended_at": at(60)}),
        ),
    ];
    let mut auth = named("aaaaaaaaaa", view([iteration(2)]));
    auth.task = "auth".parse().unwrap();
    auth.tally.run = Some("rrrrrrrrrr".parse().unwrap());
    let standing =
        AllViews { loops: vec![auth], runs: vec![(run_view(json!({})), units)], ..AllViews::default() };
    let all = board(&standing, &facts(), at(1000));
    let shown: Vec<(&str, Lane, &str)> =
        all.cards().map(|card| (card.name.as_str(), card.lane, card.state.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("billing", Lane::Todo, "queued"),
            ("units of shop", Lane::Running, "running"),
            ("auth", Lane::Running, "running"),
            ("edge", Lane::Waiting, "failed"),
            ("docs", Lane::Waiting, "waiting"),
            ("core", Lane::Done, "completed"),
        ]
    );
    // Two runs may each have a first slot; on the board every number is there once.
    let slot = &all.slots[0];
    assert_eq!((slot.number, slot.card.as_str()), (1, "rrrrrrrrrr/auth"));
    assert_eq!(all.card("aaaaaaaaaa").unwrap().name, "auth", "found by its loop");
    let (_, units) = standing.runs.into_iter().next().unwrap();
    let over = run_view(json!({"state": "failed", "reason": "failed", "ended_at": at(70)}));
    let all = board(&AllViews { runs: vec![(over, units)], ..AllViews::default() }, &facts(), at(1000));
    let names: Vec<&str> = all.cards().map(|card| card.name.as_str()).collect();
    assert_eq!(names, ["edge", "units of shop"], "one that needs a person stays");
}

#[test]
fn an_end_stays_marked_until_it_was_looked_at() {
    let done = named("aaaaaaaaaa", view([over(Reason::Done, "done")]));
    let failed = named("bbbbbbbbbb", view([over(Reason::Stuck, "no progress")]));
    let standing = AllViews { loops: vec![done, failed], ..AllViews::default() };
    let new = board(&standing, &facts(), at(1000));
    assert_eq!((new.totals.unseen, new.totals.needs), (2, 1));
    let mut looked = facts();
    looked.looked_at.insert("bbbbbbbbbb".to_owned());
    let seen = board(&standing, &looked, at(1000));
    assert_eq!((seen.totals.unseen, seen.totals.needs), (1, 0), "a failure that was seen needs nobody");
    assert!(seen.card("aaaaaaaaaa").unwrap().is_unseen);
    let old = BoardFacts { since: at(500), marked_since: at(500), ..facts() };
    assert_eq!(board(&standing, &old, at(1000)).totals.unseen, 0);
}

#[test]
fn the_order_is_that_of_urgency_where_it_waits_and_of_time_elsewhere() {
    let loops = vec![
        named("aaaaaaaaaa", view([iteration(1), parked()])),
        named("bbbbbbbbbb", view([over(Reason::Question, "which?")])),
        named("cccccccccc", LoopView { started_at: at(-10), ..view([iteration(1)]) }),
        named("dddddddddd", view([iteration(1)])),
        named("eeeeeeeeee", view([over(Reason::Done, "x")])),
        named("ffffffffff", view([iteration(1), over(Reason::Done, "x")])),
    ];
    let all = board_of(loops);
    let ids = |lane: Lane| all.lane(lane).iter().map(|card| card.id.as_str()).collect::<Vec<_>>();
    assert_eq!(ids(Lane::Waiting), ["bbbbbbbbbb", "aaaaaaaaaa"]);
    assert_eq!(ids(Lane::Running), ["cccccccccc", "dddddddddd"]);
    assert_eq!(ids(Lane::Done), ["ffffffffff", "eeeeeeeeee"]);
    assert_eq!(all.needs[0].id, "bbbbbbbbbb");
    let totals = BoardTotals { running: 3, needs: 1, cost_today: 2.1, ..BoardTotals::default() };
    assert_eq!(headline(&totals), "dacapo 3 running · 1 needs you · $2.10");
}

#[test]
fn hostile_words_are_one_line_that_is_what_it_looks_like() {
    // fault D8
    let mut own =
        view([iteration(1), LoopEvent::QuestionAsked { text: "a\u{1b}]0;x\u{7}\r\n\u{202e}b".into() }]);
    own.tally.title = Some("x".repeat(1_000_000));
    own.agent = "\u{1b}[2J".into();
    let card = card_of_loop(&own);
    assert_eq!(card.asks.as_deref(), Some("a\\u{1b}]0;x\\u{7} \\u{202e}b"));
    assert_eq!(card.agent.as_deref(), Some("\\u{1b}[2J"));
    assert!(card.title.unwrap().chars().count() <= 400);
}

fn envelope(seq: u64, event: LoopEvent) -> Envelope {
    Envelope { seq, at: at(60 * i64::try_from(seq).unwrap()), loop_id: "abcdefghjk".parse().unwrap(), event }
}

fn gate_started(name: &str) -> LoopEvent {
    serde_json::from_value(json!({
        "type": "gate_started", "iteration": 1, "role": "gate", "name": name, "command": name,
    }))
    .unwrap()
}

#[test]
fn a_page_tells_each_iteration_with_its_claim_gates_verdict_and_cost() {
    let exit = AgentExit { cost_usd: Some(0.25), ..agent_exit(0) };
    let agent = |attempt| LoopEvent::AgentStarted {
        iteration: attempt,
        attempt,
        agent: "claude".into(),
        session: None,
        reserve: None,
        output: OutputMarks::default(),
    };
    let gate = |is_passed| LoopEvent::GateFinished {
        iteration: 1,
        role: crate::event::GateRole::Gate,
        name: "tests".into(),
        command: "cargo test".into(),
        item: None,
        result: crate::event::GateResult { passed: is_passed, ..gate_result(i32::from(!is_passed)) },
        look: Default::default(),
    };
    let events = [
        iteration(1),
        agent(1),
        LoopEvent::UsageSeen {
            iteration: 1,
            attempt: 1,
            spend: Spend { cost_usd: Some(0.1), ..Spend::default() },
            model: None,
        },
        LoopEvent::AgentExited { iteration: 1, attempt: 1, exit, judged: Default::default() },
        LoopEvent::ClaimMade { iteration: 1, by: vec![Signal::Promise("DONE".into())] },
        gate_started("tests"),
        gate(false),
        LoopEvent::ClaimRefused {
            iteration: 1,
            reason: RefusalReason::GateFailed,
            detail: "gate `tests` exited 1".into(),
        },
        LoopEvent::IterationFinished {
            iteration: 1,
            outcome: IterationOutcome::Refused,
            spent_ms: Millis(1),
            progress: Default::default(),
        },
        iteration(2),
        agent(2),
        LoopEvent::Steered { text: "use pnpm".into() },
        // A crash: what was begun ends when the next begins.
        LoopEvent::LoopResumed {
            grant: Grant::default(),
            output: OutputMarks::default(),
            pid: 7,
            counts_anew: false,
        },
        iteration(3),
    ];
    let events: Vec<Envelope> = (1..).zip(events).map(|(seq, event)| envelope(seq, event)).collect();
    let page = LoopPage::of(&events);
    let told: Vec<(u32, &str, Option<f64>)> =
        page.iterations.iter().map(|line| (line.iteration, line.words(), line.cost_usd)).collect();
    assert_eq!(told, [(1, "refused", Some(0.25)), (2, "working", None), (3, "working", None)]);
    let first = &page.iterations[0];
    assert_eq!(first.claim, ["promise `DONE`"]);
    assert_eq!((first.gates[0].passed, first.gates[0].exit_code), (Some(false), Some(1)));
    assert!(
        matches!(&first.verdict, Some(Verdict::Refused { detail, .. }) if detail == "gate `tests` exited 1")
    );
    assert_eq!(page.iterations[1].ended_at, Some(at(60 * 14)));
    assert_eq!(page.iterations[1].notes.len(), 2);
    // What is known already changes nothing; what is new is taken in from there.
    let mut again = LoopPage::of(&events[..5]);
    events.iter().for_each(|event| again.apply(event));
    assert_eq!(again, page);
    serde_json::to_string(&page).unwrap();
}

#[test]
fn the_train_and_the_slots_of_a_run_follow_its_events() {
    let event = |secs: i64, unit: &str, event: RunEvent| RunEnvelope {
        seq: 1,
        at: at(secs),
        run: "rrrrrrrrrr".parse().unwrap(),
        unit: Some(unit.parse().unwrap()),
        event,
    };
    let merged =
        |commit: &str| RunEvent::UnitMerged { target: "main".into(), commit: commit.into(), left_on: None };
    let events = [
        event(1, "core", RunEvent::UnitStarted { slot: 1 }),
        event(2, "auth", RunEvent::UnitStarted { slot: 2 }),
        event(10, "core", RunEvent::UnitCompleted { commit: "c".into() }),
        event(11, "core", RunEvent::UnitJobEnded),
        event(12, "core", RunEvent::UnitMerging),
        event(15, "core", merged("m1")),
        event(16, "docs", RunEvent::UnitStarted { slot: 1 }),
        event(20, "auth", RunEvent::UnitCompleted { commit: "c".into() }),
        event(21, "docs", RunEvent::UnitCompleted { commit: "c".into() }),
        event(22, "docs", RunEvent::UnitMerging),
    ];
    let units = [
        unit_view("core", json!({"status": "merged"})),
        unit_view("auth", json!({"status": "waiting_to_merge", "depends_on": ["core"]})),
        unit_view("docs", json!({"status": "merging"})),
        unit_view("last", json!({"depends_on": ["auth", "docs"]})),
    ];
    let page = RunPage::of(&run_view(json!({})), &units, &[], &events);
    let levels: Vec<(&str, u32)> = page.units.iter().map(|unit| (unit.unit.as_str(), unit.level)).collect();
    assert_eq!(levels, [("core", 0), ("auth", 1), ("docs", 0), ("last", 2)]);
    let train: Vec<(&str, &str)> =
        page.train.iter().map(|car| (car.unit.as_str(), car.state.as_str())).collect();
    assert_eq!(train, [("core", "merged"), ("docs", "merging"), ("auth", "waiting")]);
    let shown = |own: &Interval| (own.row.clone(), own.label.clone(), own.from, own.to);
    let intervals: Vec<_> = page.intervals.iter().map(shown).collect();
    assert_eq!(
        intervals,
        [
            ("slot 1".into(), "core".into(), at(1), Some(at(11))),
            ("slot 2".into(), "auth".into(), at(2), None),
            ("merge".into(), "core".into(), at(12), Some(at(15))),
            ("slot 1".into(), "docs".into(), at(16), Some(at(22))),
            ("merge".into(), "docs".into(), at(22), None),
        ]
    );
    // A circle is no plan, and does no harm.
    let circle = [
        unit_view("core", json!({"depends_on": ["auth"]})),
        unit_view("auth", json!({"depends_on": ["core"]})),
    ];
    assert_eq!(RunPage::of(&run_view(json!({})), &circle, &[], &[]).units.len(), 2);
}

#[test]
fn costs_fall_into_equal_steps_and_their_shares_are_ordered() {
    let row = |secs: i64, cost: f64, project: &str| SpendRow {
        at: at(secs),
        cost_usd: cost,
        tokens: 10,
        project: project.to_owned(),
        loop_id: "l".to_owned(),
        task: "t".to_owned(),
        run: None,
    };
    let rows = [
        row(-5, 100.0, "old"),
        row(0, 1.0, "a"),
        row(59, 0.5, "b"),
        row(60, 2.0, "b"),
        row(500, 100.0, "late"),
    ];
    let iteration = |secs: i64, loop_id: &str, number: u32| IterationRow {
        at: at(secs),
        number,
        project: if loop_id == "l" { "a" } else { "silent" }.to_owned(),
        loop_id: loop_id.to_owned(),
        task: "t".to_owned(),
    };
    // The second of `l` was begun again by a resumed loop. An agent that says nothing of its spend counts too.
    let iterations = [
        iteration(-1, "l", 1),
        iteration(1, "l", 2),
        iteration(61, "l", 2),
        iteration(62, "l", 3),
        iteration(179, "m", 2),
        iteration(500, "m", 3),
    ];
    let found = costs(rows, iterations, (at(0), at(180)), 60_000);
    let series: Vec<(Timestamp, f64, u32)> =
        found.points.iter().map(|p| (p.at, p.cost_usd, p.iterations)).collect();
    assert_eq!(series, [(at(0), 1.5, 1), (at(60), 2.0, 1), (at(120), 0.0, 1)]);
    assert_eq!((found.cost_usd, found.tokens, found.iterations), (3.5, 30, 3));
    let iterations: Vec<(&str, u32)> =
        found.projects.iter().map(|share| (share.name.as_str(), share.iterations)).collect();
    assert_eq!(iterations, [("b", 0), ("a", 2), ("silent", 1)]);
    let shares: Vec<(&str, f64)> =
        found.projects.iter().map(|share| (share.name.as_str(), share.cost_usd)).collect();
    assert_eq!(shares, [("b", 2.5), ("a", 1.0), ("silent", 0.0)]);
    let rows = [
        row(0, 4.0, "shop-00ff00"),
        row(0, 3.0, "shop-00ff01"),
        row(0, 2.0, "api-123456"),
        row(0, 1.0, "own-name"),
    ];
    let names: Vec<String> =
        costs(rows, [], (at(0), at(180)), 60_000).projects.into_iter().map(|share| share.name).collect();
    assert_eq!(names, ["shop-00ff00", "shop-00ff01", "api", "own-name"], "short where no other is called so");
    // A step that is too fine, or none at all, does no harm.
    assert!(costs([], [], (Timestamp::MIN, Timestamp::MAX), 1).points.len() <= 2001);
    assert_eq!(costs([], [], (at(0), at(0)), 0).points.len(), 1);
    assert_eq!(costs([], [], (at(9), at(0)), 5).points.len(), 1);
}

#[test]
fn a_loop_whose_limit_is_used_up_is_not_offered_to_go_on_as_it_is() {
    for (reason, can_resume) in [
        (Reason::MaxIterations, false),
        (Reason::MaxTime, false),
        (Reason::Budget, true),
        (Reason::Disk, true),
    ] {
        let board = board_of(vec![named("aaaaaaaaaa", view([iteration(1), over(reason, "x")]))]);
        assert_eq!(board.card("aaaaaaaaaa").unwrap().can(Action::Resume), can_resume, "{reason:?}");
    }
}

#[test]
fn the_page_of_a_task_shows_the_stages_that_are_still_to_come() {
    let stages = |changes: Value| -> Vec<(String, String)> {
        let page = TaskPage::of(&task_view(changes), &[]);
        page.stages.into_iter().map(|own| (own.stage, own.state)).collect()
    };
    let pair = |stage: &str, state: &str| (stage.to_owned(), state.to_owned());
    let run = |stage: &str, state: &str| json!({"stage": stage, "run": 1, "state": state, "iterations": 1, "max_iterations": 5});
    let sent_back = json!([run("coder", "passed"), run("reviewer", "refused"), run("coder", "running")]);
    assert_eq!(
        stages(json!({"stages": sent_back})),
        [
            pair("coder", "passed"),
            pair("reviewer", "refused"),
            pair("coder", "running"),
            pair("tester", "todo"),
            pair("qa", "todo"),
        ]
    );
    let ended = json!({"stages": [run("coder", "failed")], "is_over": true});
    assert_eq!(stages(ended), [pair("coder", "failed")]);
}

#[test]
fn what_a_person_has_looked_at() {
    for (told, is_look) in [
        (StatusShown::Asked { is_json: false }, true),
        (StatusShown::Asked { is_json: true }, false),
        (StatusShown::AtItsEnd { is_terminal: true }, true),
        (StatusShown::AtItsEnd { is_terminal: false }, false),
    ] {
        assert_eq!(told.is_look(), is_look, "{told:?}");
    }
}
