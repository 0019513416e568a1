//! Every screen as a picture, and every key by table. A picture is what a terminal would show, without its colours.

use std::collections::HashSet;

use dacapo_core::{
    duration::Millis,
    event::Envelope,
    text::columns::columns,
    view::{
        AllViews, Board, BoardFacts, CardKind, Costs, IterationRow, Lane, LoopPage, LoopView, RunPage,
        RunView, SpendRow, StageTaskView, TaskPage, TodoTask, UnitView, WorkflowPage, WorkflowView, board,
        costs,
    },
};
use jiff::{Timestamp, tz::TimeZone};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer, style::Color};
use serde_json::{Value, json};

use super::{
    look::Theme,
    state::{Act, BoardEffect, BoardKey, BoardState, Data, LoopData, Sheet, Span, Tab, Typing},
    view::{self, Scene},
};

const PLAIN: Theme = Theme { is_ascii: false, is_coloured: true };

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_000_000_000 + secs).unwrap()
}

const NOW: i64 = 323;

fn merged(mut value: Value, changes: Value) -> Value {
    for (key, change) in changes.as_object().unwrap() {
        value[key] = change.clone();
    }
    value
}

fn loop_view(id: &str, task: &str, changes: Value) -> LoopView {
    let value = json!({
        "id": id, "project": "shop", "task": task, "stage": null, "agent": "claude", "state": "running", "reason": null,
        "iteration": 3, "max_iterations": 15, "completion_promise": "DONE", "workspace": "/src/shop", "started_at": at(0),
        "ended_at": null, "cost_usd": null, "cost_estimated": false, "tokens": null, "pid": 7, "parent": null, "until": null,
        "detail": null, "question": null, "refused": null, "verified": null, "exit_code": null, "after": [], "gates": 1,
        "spent_ms": 0, "tally": {"title": "Make the tests pass", "refused_in_a_row": 0},
    });
    serde_json::from_value(merged(value, changes)).unwrap()
}

fn spent(cost: f64) -> Value {
    json!({"settled": {"usage": null, "cost_usd": cost}, "newest": {"usage": null, "cost_usd": null}})
}

fn task(id: &str, task: &str, title: &str, changes: Value) -> StageTaskView {
    let value = json!({
        "id": id, "task": task, "title": title, "file": "f", "project": "shop", "root": "/src/shop", "target": "main",
        "state": "running", "reason": null, "detail": null, "exit_code": null, "is_over": false, "started_at": at(0),
        "ended_at": null, "pid": 7, "status": "implementing",
        "ralph": {"stage": "coder", "iteration": 3, "max_iterations": 15, "started_at": at(0), "completion_promise": "X"},
        "ralph_failure": null, "question": null, "stages": [], "worktree": null, "branch": null, "commit": null,
    });
    serde_json::from_value(merged(value, changes)).unwrap()
}

fn run() -> RunView {
    serde_json::from_value(json!({
        "id": "rrrrrrrrrr", "project": "shop", "root": "/src/shop", "target": "main", "merge": "merge", "parallel": 2,
        "units": 3, "state": "running", "reason": null, "detail": null, "exit_code": null, "started_at": at(0),
        "ended_at": null, "pid": 7,
    }))
    .unwrap()
}

fn unit(name: &str, changes: Value) -> UnitView {
    let value = json!({
        "unit": name, "run": "rrrrrrrrrr", "project": "shop", "status": "queued", "tasks": [
            {"task": 1, "title": "Read the token", "status": "complete"}, {"task": 2, "title": "Refuse old ones", "status": "in_progress"},
        ],
        "slot": null, "branch": null, "worktree": null, "loop": null, "depends_on": [], "blocked_by": [], "detail": null,
        "reason": null, "receipts": [], "pr": null, "merged": null, "left_on": null, "started_at": null, "ended_at": null,
        "merge": "merge",
    });
    serde_json::from_value(merged(value, changes)).unwrap()
}

fn workflow() -> WorkflowView {
    let step = |id: &str, kind: &str, state: &str| json!({"id": id, "kind": kind, "state": state, "attempt": 1, "iterations": null, "max_iterations": null});
    serde_json::from_value(json!({
        "id": "wwwwwwwwww", "workflow": "release", "project": "shop", "root": "/src/shop", "digest": "d", "state": "stopped",
        "reason": "question", "detail": "Ship it?", "exit_code": null, "is_over": false, "started_at": at(0), "ended_at": null,
        "pid": null, "current_step_index": 2,
        "steps": [step("build", "loop", "completed"), step("approve", "approval", "asking"), step("ship", "shell", "pending")],
        "question": {"question": 1, "step": "approve", "message": "Ship it?\nThe tests pass.", "tree": "t",
            "decisions": [{"id": "ship", "label": "to everybody"}, {"id": "hold"}]},
        "is_paused": false, "exceeded": null, "refused_answer": null, "is_audited": false, "waits_since": at(200),
    }))
    .unwrap()
}

/// A day in a shop: something in each lane.
fn standing() -> AllViews {
    let of_task = |id: &str, name: &str, stage: &str, run: &str| {
        loop_view(
            id,
            name,
            json!({"stage": stage, "tally": {"run": run, "refused_in_a_row": 0}, "ledger": spent(0.42), "cost_usd": 0.42}),
        )
    };
    let ralph = json!({"stage": "reviewer", "iteration": 1, "max_iterations": 5, "started_at": at(100), "completion_promise": "X"});
    AllViews {
        loops: vec![
            of_task("cccccccccc", "TASK-001", "coder", "tttttttttt"),
            of_task("dddddddddd", "TASK-002", "reviewer", "uuuuuuuuuu"),
            loop_view(
                "aaaaaaaaaa",
                "fix-tests",
                json!({"state": "gating", "ledger": spent(1.5), "cost_usd": 1.5, "started_at": at(10)}),
            ),
            loop_view(
                "bbbbbbbbbb",
                "docs",
                json!({
                    "state": "stopped", "reason": "question", "question": "Which of the two formats?", "exit_code": 4,
                    "ended_at": at(120), "pid": null, "detail": "asks",
                }),
            ),
            loop_view(
                "eeeeeeeeee",
                "login",
                json!({
                    "state": "completed", "reason": "done", "verified": true, "exit_code": 0, "ended_at": at(240), "pid": null, "ledger": spent(0.18),
                }),
            ),
            loop_view(
                "ffffffffff",
                "cache",
                json!({
                    "state": "failed", "reason": "max_iterations", "exit_code": 3, "ended_at": at(60), "pid": null, "detail": "15 of 15 iterations",
                }),
            ),
            loop_view(
                "gggggggggg",
                "api",
                json!({"state": "parked", "until": at(4000), "detail": "claude is at its limit"}),
            ),
        ],
        tasks: vec![
            task("tttttttttt", "TASK-001", "Implement authentication", json!({})),
            task(
                "uuuuuuuuuu",
                "TASK-002",
                "Rate limits for the public routes",
                json!({"status": "reviewing", "ralph": ralph}),
            ),
        ],
        ..AllViews::default()
    }
}

fn facts() -> BoardFacts {
    let todo = TodoTask {
        project: "shop".parse().unwrap(),
        root: "/src/shop".into(),
        task: "TASK-003".parse().unwrap(),
        title: "Dark mode".into(),
        waits_for: vec!["TASK-001".parse().unwrap()],
    };
    BoardFacts {
        seq: 9,
        looked_at: HashSet::from(["ffffffffff".to_owned()]),
        todo: vec![todo],
        cost_today: 2.1,
        has_more: false,
        since: at(-1000),
        marked_since: at(-1000),
    }
}

fn shop() -> Board {
    board(&standing(), &facts(), at(NOW))
}

fn state() -> BoardState {
    BoardState::new(shop())
}

fn scene(look: Theme) -> Scene {
    Scene { look, now: at(NOW), zone: TimeZone::UTC }
}

fn buffer(state: &mut BoardState, columns: u16, rows: u16, look: Theme) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| {
            let (lines, cards) = view::room(frame.area(), state.board.slots.len());
            state.set_room(lines, cards);
            let (_, lines) = view::draw(frame.buffer_mut(), state, &scene(look));
            state.lines = lines;
        })
        .unwrap();
    terminal.backend().buffer().clone()
}

/// The text of a screen. What a wide character covers is not there twice.
fn text(buffer: &Buffer) -> String {
    let mut lines = Vec::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..buffer.area.width {
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            covered = columns(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n").trim_end().to_owned()
}

fn picture(state: &mut BoardState, columns: u16, rows: u16) -> String {
    text(&buffer(state, columns, rows, PLAIN))
}

fn type_keys(state: &mut BoardState, keys: &str) -> Vec<BoardEffect> {
    keys.chars()
        .flat_map(|c| state.press(if c == '\n' { BoardKey::Enter } else { BoardKey::Char(c) }))
        .collect()
}

fn events() -> Vec<Envelope> {
    let event = |seq: u64, secs: i64, body: Value| -> Envelope {
        serde_json::from_value(merged(json!({"seq": seq, "at": at(secs), "loop": "aaaaaaaaaa"}), body))
            .unwrap()
    };
    let marks = json!({"stdout": 0, "stderr": 0, "prompt": 0, "gates": 0});
    let agent = |iteration: u32| json!({"type": "agent_started", "iteration": iteration, "attempt": iteration, "agent": "claude", "output": marks});
    let exit = |iteration: u32, cost: f64| {
        json!({
            "type": "agent_exited", "iteration": iteration, "attempt": iteration, "exit_code": 0, "signal": null, "duration_ms": 40_000,
            "outcome": "completed", "stdout_bytes": 9, "stderr_bytes": 0, "leftovers": 0, "session": null, "usage": null,
            "cost_usd": cost, "reset_at": null, "output": marks,
        })
    };
    let gate = |passed: bool| {
        json!({
            "type": "gate_finished", "iteration": 1, "role": "gate", "name": "cargo test", "command": "cargo test",
            "exit_code": if passed { 0 } else { 101 }, "passed": passed, "flaky": false, "duration_ms": 8_400, "output_bytes": 10, "output": marks,
        })
    };
    let gate_started = json!({"type": "gate_started", "iteration": 1, "role": "gate", "name": "cargo test", "command": "cargo test"});
    let bodies = [
        (0, json!({"type": "iteration_started", "iteration": 1, "max_iterations": 15})),
        (0, agent(1)),
        (40, exit(1, 0.5)),
        (41, json!({"type": "claim_made", "iteration": 1, "by": [{"signal": "promise", "detail": "DONE"}]})),
        (41, gate_started.clone()),
        (50, gate(false)),
        (
            50,
            json!({"type": "claim_refused", "iteration": 1, "reason": "gate_failed", "detail": "gate `cargo test` exited 101"}),
        ),
        (51, json!({"type": "iteration_finished", "iteration": 1, "outcome": "refused", "spent_ms": 51_000})),
        (52, json!({"type": "iteration_started", "iteration": 2, "max_iterations": 15})),
        (52, agent(2)),
        (70, json!({"type": "steered", "text": "look at the parser"})),
        (90, exit(2, 1.0)),
        (
            91,
            json!({"type": "iteration_finished", "iteration": 2, "outcome": "no_claim", "spent_ms": 90_000}),
        ),
        (92, json!({"type": "iteration_started", "iteration": 3, "max_iterations": 15})),
        (92, agent(3)),
    ];
    (1..).zip(bodies).map(|(seq, (secs, body))| event(seq, secs, body)).collect()
}

fn loop_data() -> LoopData {
    let log = [
        "── iteration 3 ──",
        "Reading the tests of this project",
        "$ cargo test",
        "test parser::empty ... FAILED",
    ];
    LoopData {
        view: standing().loops.into_iter().find(|view| view.id.as_str() == "aaaaaaaaaa").unwrap(),
        page: LoopPage::of(&events()),
        log: log.iter().map(|line| (*line).to_owned()).collect(),
        log_dropped: 0,
        prompt: vec!["# Task".into(), String::new(), "Make the tests pass.".into()],
        diff: Ok("diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-old\n+new"
            .lines()
            .map(str::to_owned)
            .collect()),
        diff_of: None,
    }
}

fn on_loop(tab: Tab) -> BoardState {
    let mut state = state();
    state.stack.push(Sheet::Loop { id: "aaaaaaaaaa".parse().unwrap(), tab });
    state.data = Data::Loop(Box::new(loop_data()));
    state
}

#[test]
fn a_long_name_gives_way_to_how_far_an_agent_has_come() {
    let mut state = state();
    let name = "refactor-the-whole-of-the-payment-and-invoicing-subsystem-and-its-tests";
    state.board.slots[0].task = name.to_owned();
    let shown = picture(&mut state, 80, 24);
    let line = shown.lines().find(|line| line.starts_with(" Slot 1:")).unwrap();
    assert!(line.contains("Task: refactor-the-") && line.contains('…'), "{line}");
    let told = [state.board.slots[0].iteration_line(), state.board.slots[0].time_line(at(1000))];
    assert!(line.contains(&told[0]) && line.contains("Running: "), "{line} without {told:?}");
}

#[test]
fn the_board_fits_an_ordinary_terminal() {
    // req 195
    insta::assert_snapshot!("board_80x24", picture(&mut state(), 80, 24));
}

#[test]
fn a_wide_terminal_has_every_lane_and_a_box_for_each_agent() {
    // req 195
    let shown = picture(&mut state(), 200, 40);
    for words in
        ["🔄 Coder (3/15)", "Slot 1: coder", "Task: TASK-001", "Ralph: iteration 3/15", "Running: 5m 23s"]
    {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    insta::assert_snapshot!("board_200x40", shown);
}

#[test]
fn a_board_without_cards_says_how_to_begin() {
    let mut empty = BoardState::new(board(&AllViews::default(), &BoardFacts::default(), at(0)));
    insta::assert_snapshot!("board_empty", picture(&mut empty, 80, 24));
}

#[test]
fn ascii_and_no_colours_say_the_same() {
    let ascii = Theme { is_ascii: true, is_coloured: false };
    let drawn = buffer(&mut state(), 80, 24, ascii);
    let shown = text(&drawn);
    assert!(shown.is_ascii(), "{shown}");
    for cell in drawn.content() {
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
    }
    insta::assert_snapshot!("board_ascii", shown);
    // Without its colours the ordinary board says as much.
    let dull = text(&buffer(&mut state(), 80, 24, Theme { is_coloured: false, ..PLAIN }));
    assert_eq!(dull, picture(&mut state(), 80, 24));
}

#[test]
fn a_tiny_terminal_gets_one_clear_line_and_no_size_does_harm() {
    assert_eq!(picture(&mut state(), 20, 5), "20x5: needs 40x10");
    assert_eq!(picture(&mut state(), 39, 24), "39x24: needs 40x10");
    for screen in [
        None,
        Some(Sheet::Help),
        Some(Sheet::Needs),
        Some(Sheet::Costs { span: Span::Week }),
        Some(Sheet::Loop { id: "aaaaaaaaaa".parse().unwrap(), tab: Tab::Timeline }),
    ] {
        for (columns, rows) in
            [(1, 1), (2, 40), (40, 10), (41, 11), (79, 23), (118, 12), (500, 10), (60, 120)]
        {
            let mut state = state();
            state.stack.extend(screen.clone());
            if matches!(screen, Some(Sheet::Loop { .. })) {
                state.data = Data::Loop(Box::new(loop_data()));
            }
            picture(&mut state, columns, rows);
        }
    }
}

#[test]
fn a_loop_has_its_iterations_its_log_its_prompt_its_difference_and_its_receipt() {
    for (name, tab) in [
        ("loop_timeline", Tab::Timeline),
        ("loop_log", Tab::Log),
        ("loop_prompt", Tab::Prompt),
        ("loop_diff", Tab::Diff),
        ("loop_receipt", Tab::Receipt),
    ] {
        insta::assert_snapshot!(name, picture(&mut on_loop(tab), 90, 24));
    }
}

#[test]
fn a_run_of_units_has_its_graph_and_its_train() {
    let mut auth = loop_view("hhhhhhhhhh", "auth", json!({"iteration": 2, "max_iterations": 10}));
    auth.tally.run = Some("rrrrrrrrrr".parse().unwrap());
    let units = vec![
        unit("core", json!({"status": "merged", "ended_at": at(50), "merged": "c1"})),
        unit(
            "auth",
            json!({"status": "working", "slot": 2, "depends_on": ["core"], "started_at": at(60), "loop": "hhhhhhhhhh"}),
        ),
        unit("billing", json!({"status": "queued", "depends_on": ["auth"]})),
        unit(
            "docs",
            json!({"status": "failed", "reason": "person", "detail": "which port?", "ended_at": at(80)}),
        ),
    ];
    let event = |secs: i64, unit: &str, body: Value| {
        serde_json::from_value(merged(
            json!({"seq": 1, "at": at(secs), "run": "rrrrrrrrrr", "unit": unit}),
            body,
        ))
        .unwrap()
    };
    let events = [
        event(1, "core", json!({"type": "unit.started", "slot": 1})),
        event(40, "core", json!({"type": "unit.completed", "commit": "c1"})),
        event(41, "core", json!({"type": "unit.merging"})),
        event(50, "core", json!({"type": "unit.merged", "target": "main", "commit": "c1"})),
        event(60, "auth", json!({"type": "unit.started", "slot": 2})),
    ];
    let standing =
        AllViews { loops: vec![auth.clone()], runs: vec![(run(), units.clone())], ..AllViews::default() };
    let mut state = BoardState::new(board(
        &standing,
        &BoardFacts { since: at(-9), marked_since: at(-9), ..BoardFacts::default() },
        at(NOW),
    ));
    insta::assert_snapshot!("board_of_units", picture(&mut state, 120, 26));
    state.stack.push(Sheet::Run { id: "rrrrrrrrrr".into(), kind: CardKind::Run });
    let page = RunPage::of(&run(), &units, &[auth], &events);
    state.data = Data::Units(Box::new((run(), page)));
    insta::assert_snapshot!("run_of_units", picture(&mut state, 90, 20));
    state.press(BoardKey::Char('j'));
    assert_eq!(state.press(BoardKey::Enter), [BoardEffect::Look("hhhhhhhhhh".into())]);
    assert_eq!(state.screen(), Some(&Sheet::Loop { id: "hhhhhhhhhh".parse().unwrap(), tab: Tab::Timeline }));
}

#[test]
fn a_workflow_has_its_steps_and_its_question_and_a_decision_is_one_that_is_offered() {
    let standing = AllViews { workflows: vec![workflow()], ..AllViews::default() };
    let mut state = BoardState::new(board(&standing, &facts(), at(NOW)));
    state.stack.push(Sheet::Run { id: "wwwwwwwwww".into(), kind: CardKind::Workflow });
    state.data = Data::Workflow(Box::new((workflow(), WorkflowPage::of(&workflow(), None, &[]))));
    insta::assert_snapshot!("workflow", picture(&mut state, 80, 18));
    assert_eq!(type_keys(&mut state, "ano, stop\n"), []);
    assert_eq!(state.message, Some((true, "`no,` is none of: ship, hold".to_owned())));
    let act = Act {
        doing: "answering release".into(),
        args: ["approve", "wwwwwwwwww", "--decision", "ship"].map(str::to_owned).to_vec(),
    };
    assert_eq!(type_keys(&mut state, "aship\n"), [BoardEffect::Act(act)]);
}

#[test]
fn a_task_has_its_stages() {
    let stages = json!([
        {"stage": "coder", "run": 1, "state": "passed", "iterations": 4, "max_iterations": 15},
        {"stage": "reviewer", "run": 2, "state": "refused", "iterations": 1, "max_iterations": 5, "detail": "CHANGES REQUESTED: F1"},
    ]);
    let own = task("tttttttttt", "TASK-001", "Implement authentication", json!({"stages": stages}));
    let mut state = state();
    state.stack.push(Sheet::Run { id: "tttttttttt".into(), kind: CardKind::Task });
    state.data = Data::Task(Box::new((own.clone(), TaskPage::of(&own, &[]))));
    insta::assert_snapshot!("task", picture(&mut state, 80, 12));
}

fn day() -> Costs {
    let row = |secs: i64, cost: f64, task: &str| SpendRow {
        at: at(secs),
        cost_usd: cost,
        tokens: 12_000,
        project: "shop".into(),
        loop_id: "l".into(),
        task: task.into(),
        run: None,
    };
    let iteration = |secs: i64, task: &str| IterationRow {
        at: at(secs),
        number: 1,
        project: "shop".into(),
        loop_id: task.into(),
        task: task.into(),
    };
    costs(
        [row(-3600 * 5, 0.5, "login"), row(-3600 * 2, 2.0, "fix-tests"), row(-10, 0.25, "docs")],
        [iteration(-3600 * 5, "login"), iteration(-3600 * 2, "fix-tests"), iteration(-10, "docs")],
        (at(-86_400), at(0)),
        Millis::from_secs(4 * 3600).0,
    )
}

#[test]
fn costs_needs_and_help_are_screens_of_their_own() {
    let mut own = state();
    own.press(BoardKey::Char('$'));
    own.data = Data::Costs(Box::new(day()));
    insta::assert_snapshot!("costs", picture(&mut own, 80, 24));
    let mut own = state();
    own.press(BoardKey::Char('!'));
    insta::assert_snapshot!("needs", picture(&mut own, 80, 24));
    let mut own = state();
    own.press(BoardKey::Char('?'));
    insta::assert_snapshot!("help", picture(&mut own, 80, 34));
}

#[test]
fn what_is_typed_stands_in_the_last_line() {
    let mut own = state();
    type_keys(&mut own, "/log");
    insta::assert_snapshot!("filter", picture(&mut own, 80, 24));
    let last = |own: &mut BoardState| picture(own, 80, 24).lines().last().unwrap_or_default().to_owned();
    for (keys, line) in [
        (":open TASK-001", ":open TASK-001"),
        ("c", "Cancel fix-tests for good? (its agent is ended; its fil…y yes, any other key no"),
        ("suse the second approach", "steer fix-tests: use the second approach"),
        ("a", "! fix-tests is checking; it cannot be asked to approve"),
        (":nonsense\n", "! there is no command `nonsense`; `?` lists them"),
    ] {
        let mut own = state();
        type_keys(&mut own, keys);
        let shown = last(&mut own);
        let same: Vec<char> = shown.chars().filter(|c| *c != ' ').collect();
        let wanted: Vec<char> = line.chars().filter(|c| *c != ' ').collect();
        assert_eq!(same, wanted, "{keys:?}: {shown}");
    }
}

#[test]
fn keys_move_open_and_ask() {
    let select = |state: &BoardState| state.selected.clone().unwrap_or_default();
    let act = |doing: &str, args: &[&str]| {
        vec![BoardEffect::Act(Act {
            doing: doing.into(),
            args: args.iter().map(|word| (*word).to_owned()).collect(),
        })]
    };
    // What is at work is under the cursor at first.
    let mut own = state();
    assert_eq!(select(&own), "aaaaaaaaaa");
    for (key, id) in [
        (BoardKey::Tab, "bbbbbbbbbb"),
        (BoardKey::Char('j'), "gggggggggg"),
        (BoardKey::Char('j'), "gggggggggg"),
        (BoardKey::Char('k'), "bbbbbbbbbb"),
        (BoardKey::Tab, "eeeeeeeeee"),
        (BoardKey::Tab, "todo/shop/TASK-003"),
        (BoardKey::BackTab, "eeeeeeeeee"),
        (BoardKey::Char('G'), "ffffffffff"),
        (BoardKey::Char('g'), "eeeeeeeeee"),
        (BoardKey::Left, "bbbbbbbbbb"),
        (BoardKey::Char('h'), "aaaaaaaaaa"),
        (BoardKey::Char('n'), "bbbbbbbbbb"),
    ] {
        assert_eq!(own.press(key), [], "{key:?}");
        assert_eq!(select(&own), id, "{key:?}");
    }
    for (keys, effects) in [
        ("p", act("pausing fix-tests", &["pause", "aaaaaaaaaa"])),
        ("cy", act("cancelling fix-tests", &["cancel", "aaaaaaaaaa"])),
        ("cn", vec![]),
        ("c\n", vec![]),
        ("suse pnpm\n", act("steering fix-tests", &["steer", "aaaaaaaaaa", "use pnpm"])),
        ("s\n", vec![]),
        ("uy", act("restoring fix-tests", &["restore", "aaaaaaaaaa@0"])),
        (":steer use pnpm\n", act("steering fix-tests", &["steer", "aaaaaaaaaa", "use pnpm"])),
        (":cancel\ny", act("cancelling fix-tests", &["cancel", "aaaaaaaaaa"])),
        ("r", vec![]),
        ("q", vec![BoardEffect::Quit]),
        (":q\n", vec![BoardEffect::Quit]),
        ("\n", vec![BoardEffect::Look("aaaaaaaaaa".into())]),
        ("l", vec![BoardEffect::Look("aaaaaaaaaa".into())]),
    ] {
        let mut own = state();
        assert_eq!(type_keys(&mut own, keys), effects, "{keys:?}");
        assert_eq!(own.typing, Typing::Nothing, "{keys:?}");
    }
    let mut own = state();
    own.press(BoardKey::Tab);
    assert_eq!(own.press(BoardKey::Char('r')), act("resuming docs", &["resume", "bbbbbbbbbb", "--detach"]));
    assert_eq!(own.press(BoardKey::Ctrl('z')), [BoardEffect::Suspend]);
    own.press(BoardKey::Char('s'));
    own.press(BoardKey::Esc);
    assert_eq!(
        (own.press(BoardKey::Char('d')), own.typing.clone()),
        (vec![BoardEffect::Look("bbbbbbbbbb".into())], Typing::Nothing)
    );
    assert!(matches!(own.screen(), Some(Sheet::Loop { tab: Tab::Diff, .. })));
    own.press(BoardKey::Char('l'));
    assert!(matches!(own.screen(), Some(Sheet::Loop { tab: Tab::Log, .. })));
    own.press(BoardKey::Esc);
    assert_eq!(own.screen(), None);
    own.press(BoardKey::Char('/'));
    type_keys(&mut own, "dark\n");
    assert_eq!((own.lanes(), select(&own)), (vec![Lane::Todo], "todo/shop/TASK-003".to_owned()));
    assert_eq!(own.press(BoardKey::Enter), []);
    assert_eq!(
        own.message.as_ref().map(|(_, words)| words.as_str()),
        Some("TASK-003 was not run yet; `dacapo task run TASK-003`")
    );
    own.press(BoardKey::Esc);
    assert_eq!(own.lanes().len(), 6);
}

#[test]
fn the_cursor_stays_on_its_card_wherever_the_card_goes() {
    let mut own = state();
    own.press(BoardKey::Tab);
    own.press(BoardKey::Tab);
    assert_eq!(own.selected.as_deref(), Some("eeeeeeeeee"));
    let before = picture(&mut own, 80, 24);
    // Something else ends: it stands above, and what is read stays where it is.
    let mut standing = standing();
    standing.loops.push(loop_view(
        "jjjjjjjjjj",
        "newer",
        json!({"state": "completed", "reason": "done", "ended_at": at(300), "pid": null, "verified": true}),
    ));
    own.set_board(board(&standing, &facts(), at(NOW)));
    assert_eq!(own.selected.as_deref(), Some("eeeeeeeeee"));
    let after = picture(&mut own, 80, 24);
    let row = |shown: &str| shown.lines().position(|line| line.contains("login"));
    assert_eq!(row(&before), row(&after), "{before}\n{after}");
    assert!(after.contains("↑1"), "{after}");
    // It goes on: the cursor goes with it.
    for view in &mut standing.loops {
        if view.id.as_str() == "eeeeeeeeee" {
            (view.state, view.reason, view.ended_at, view.pid) = ("running".into(), None, None, Some(7));
        }
    }
    own.set_board(board(&standing, &facts(), at(NOW)));
    assert_eq!(own.selected_card().map(|card| card.lane), Some(Lane::Running));
    // It is gone: its neighbour is under the cursor.
    standing.loops.retain(|view| view.id.as_str() != "eeeeeeeeee");
    own.set_board(board(&standing, &facts(), at(NOW)));
    assert_eq!(own.selected_card().map(|card| card.lane), Some(Lane::Running));
}

#[test]
fn a_log_that_is_read_does_not_move_and_one_that_is_followed_does() {
    let mut own = on_loop(Tab::Log);
    let fill = |own: &mut BoardState, count: usize| {
        if let Data::Loop(data) = &mut own.data {
            data.log = (0..count).map(|number| format!("line {number}")).collect();
        }
    };
    fill(&mut own, 100);
    assert!(picture(&mut own, 80, 24).contains("line 99"));
    own.press(BoardKey::Char('k'));
    let read = picture(&mut own, 80, 24);
    assert!(!read.contains("line 99") && read.contains("line 98"), "{read}");
    fill(&mut own, 200);
    let later = picture(&mut own, 80, 24);
    assert_eq!(read, later, "not moved");
    own.press(BoardKey::Char('f'));
    assert!(picture(&mut own, 80, 24).contains("line 199"));
}

#[test]
fn a_loop_that_vanishes_while_it_is_open_is_told() {
    let mut own = on_loop(Tab::Timeline);
    own.data = Data::Gone("aaaaaaaaaa is not in the journal any more; Esc goes back".into());
    assert!(picture(&mut own, 80, 24).contains("is not in the journal any more"));
    own.set_board(board(&AllViews::default(), &BoardFacts::default(), at(NOW)));
    assert_eq!(own.press(BoardKey::Char('p')), []);
    assert!(picture(&mut own, 80, 24).contains("nothing here to pause"));
}

#[test]
fn nothing_hostile_reaches_the_terminal() {
    // fault D8
    let hostile = "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}b\u{200b}";
    let mut standing = standing();
    for view in &mut standing.loops {
        view.agent = hostile.into();
        view.detail = Some(hostile.repeat(1000));
        view.question = Some(hostile.into());
        view.tally.title = Some(hostile.into());
    }
    standing.tasks[0].title = hostile.into();
    standing.tasks[0].branch = Some(hostile.into());
    let all = board(&standing, &facts(), at(NOW));
    let mut screens = vec![None, Some(Sheet::Needs)];
    screens.push(Some(Sheet::Loop { id: "aaaaaaaaaa".parse().unwrap(), tab: Tab::Timeline }));
    for screen in screens {
        let mut own = BoardState::new(all.clone());
        own.stack.extend(screen);
        let mut data = loop_data();
        data.view = standing.loops[2].clone();
        own.data = Data::Loop(Box::new(data));
        let shown = picture(&mut own, 120, 40);
        let bad =
            shown.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}'));
        assert_eq!(bad, None, "{shown}");
    }
}

/// Says that the process of a test is to panic while the board is drawn.
const PANICS: &str = "DACAPO_TEST_PANICS_WHILE_IT_DRAWS";

/// What the test below runs in a terminal of its own: this process draws a board and panics in the middle of it.
#[test]
fn panics_while_it_draws() {
    if std::env::var_os(PANICS).is_none() {
        return;
    }
    crate::set_panic_hook();
    let mut own = super::terminal::OwnTerminal::take().expect("a terminal");
    own.set_title("a board");
    let half = |frame: &mut ratatui::Frame<'_>| {
        frame.buffer_mut().set_string(0, 0, "half a board", ratatui::style::Style::new());
    };
    own.screen.draw(half).expect("drawn");
    // A place outside of the screen is a panic of the library.
    let outside = |frame: &mut ratatui::Frame<'_>| {
        let area = frame.area();
        frame.buffer_mut()[(area.width, area.height)].set_symbol("x");
    };
    own.screen.draw(outside).expect("never");
}

#[test]
fn a_panic_while_the_board_is_drawn_leaves_the_terminal_as_it_was() {
    let program = std::env::current_exe().unwrap();
    let env = dacapo_testkit::TestEnv::new(&program);
    let test = "tui::tui_tests::panics_while_it_draws";
    let line = format!(
        "echo the line before; stty -a >before; {PANICS}=1 {} --exact {test} --nocapture; code=$?; stty -a >after; \
         cmp before after && echo the same settings; (exit $code)",
        program.display()
    );
    let terminal = dacapo_testkit::Terminal::open(&env, 120, 30, &line);
    let screen = terminal.wait_for("left with 70");
    for words in ["the line before", "this is a bug in dacapo", "the same settings"] {
        assert!(screen.contains(words), "{screen}");
    }
    assert!(!screen.contains("half a board"), "{screen}");
    let shown =
        terminal.tmux().args(["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), "0 1", "the shell's screen, with a cursor");
}
