use serde_json::{Value, json};

use super::*;
use crate::{
    item::{ItemKey, ItemSource},
    loop_machine::decide_tests::{policy, started},
    policy::GateSpec,
    unit::{
        Task, TaskSet, TaskSpec, TaskStatus,
        items::{UnitSource, items},
    },
};

/// The beginning of a turn of three tasks, 1 and 2 ready.
fn begins(commits: bool) -> LoopEvent {
    let gate =
        |task: u32| GateSpec { item: Some(ItemKey(task)), ..GateSpec::of_command(&format!("check {task}")) };
    let task = |number: u32| Task {
        spec: TaskSpec {
            number,
            title: format!("Task {number}"),
            file: format!("specs/tasks/u/0{number}-x.md"),
            backpressure: format!("check {number}"),
            line: 3,
            depends_on: Vec::new(),
            writes: Vec::new(),
            frozen: String::new(),
        },
        status: TaskStatus::Pending,
    };
    let set = TaskSet { unit: "u".parse().unwrap(), tasks: (1..=3).map(task).collect(), ready: vec![1, 2] };
    LoopEvent::LoopStarted(Box::new(started(policy(|p| {
        p.gates.specs = vec![gate(1), gate(2), GateSpec::of_command("lint")];
        p.items = items(&set);
        if !commits {
            p.items.iter_mut().for_each(|item| item.commit = None);
        }
        p.source = Some(ItemSource::Unit(UnitSource { dir: "specs/tasks".to_owned(), turn: Some(set) }));
    }))))
}

fn event(value: Value) -> LoopEvent {
    serde_json::from_value(value).unwrap()
}

const MARKS: [(&str, u64); 4] = [("stdout", 0), ("stderr", 0), ("prompt", 0), ("gates", 0)];

fn marks() -> Value {
    MARKS.into_iter().map(|(name, at)| (name.to_owned(), json!(at))).collect::<serde_json::Map<_, _>>().into()
}

fn iteration(n: u32) -> LoopEvent {
    LoopEvent::IterationStarted { iteration: n, max_iterations: 3 }
}

fn agent(attempt: u32) -> LoopEvent {
    event(
        json!({"type": "agent_started", "iteration": 1, "attempt": attempt, "agent": "mine", "output": marks()}),
    )
}

fn exits(attempt: u32, code: i32, outcome: &str) -> LoopEvent {
    event(
        json!({"type": "agent_exited", "iteration": 1, "attempt": attempt, "exit_code": code, "signal": null,
        "duration_ms": 7, "outcome": outcome, "stdout_bytes": 0, "stderr_bytes": 0, "leftovers": 0, "session": null,
        "usage": null, "cost_usd": null, "reset_at": null, "output": marks()}),
    )
}

fn claims() -> LoopEvent {
    event(json!({"type": "claim_made", "iteration": 1, "by": []}))
}

fn gate_starts(command: &str) -> LoopEvent {
    event(
        json!({"type": "gate_started", "iteration": 1, "role": "gate", "name": command, "command": command}),
    )
}

fn gate_ends(command: &str, code: i32) -> LoopEvent {
    event(
        json!({"type": "gate_finished", "iteration": 1, "role": "gate", "name": command, "command": command,
        "exit_code": code, "passed": code == 0, "flaky": false, "duration_ms": 5, "output_bytes": 3,
        "output_tail": if code == 0 { "" } else { "no\n" }, "output": marks()}),
    )
}

fn commits(commit: &str) -> LoopEvent {
    event(json!({"type": "committed", "iteration": 1, "commit": commit}))
}

fn accepted() -> LoopEvent {
    LoopEvent::ClaimAccepted { iteration: 1, verified: true }
}

fn finishes(iteration: u32, outcome: IterationOutcome) -> LoopEvent {
    LoopEvent::IterationFinished {
        iteration,
        outcome,
        spent_ms: crate::duration::Millis(0),
        progress: crate::event::IterationProgress::None,
    }
}

/// The events of one loop, from this place in the journal on.
fn stream(id: &str, from: u64, events: Vec<LoopEvent>) -> Vec<Envelope> {
    let at = jiff::Timestamp::UNIX_EPOCH;
    let place = (from..).zip(events);
    place.map(|(seq, event)| Envelope { seq, at, loop_id: id.parse().unwrap(), event }).collect()
}

/// What a process tells of a stream if it dies after each event and reads the stream again.
fn tell(stream: &[Envelope]) -> Vec<String> {
    let mut told_before: Vec<RunEvent> = Vec::new();
    for end in 1..=stream.len() {
        let (mut told, mut account) = (RecordedLoops::default(), UnitAccount::default());
        for event in &told_before {
            told.record(event);
        }
        for envelope in &stream[..end] {
            for event in told.news(account.see(envelope)) {
                told.record(&event);
                told_before.push(event);
            }
            assert_eq!(account.see(envelope), [], "what was seen is not told again");
        }
    }
    told_before.iter().map(short).collect()
}

fn short(event: &RunEvent) -> String {
    let mut value = serde_json::to_value(event).unwrap();
    let fields = value.as_object_mut().unwrap();
    let kind = fields.remove("type").unwrap();
    assert_eq!(kind, event.kind());
    for known in ["of", "loop", "agent", "duration_ms", "title", "command"] {
        fields.remove(known);
    }
    format!("{} {}", event.kind(), value)
}

#[test]
fn a_turn_is_told_as_what_happens_to_its_tasks_each_fact_once() {
    // req 25, req 38, req 42, req 46, req 57
    let turn = stream(
        "turn1",
        5,
        vec![
            begins(true),
            iteration(1),
            agent(1),
            exits(1, 1, "completed"),
            finishes(1, IterationOutcome::NoClaim),
            iteration(2),
            agent(2),
            exits(2, 0, "completed"),
            claims(),
            gate_starts("check 1"),
            gate_ends("check 1", 2),
            finishes(2, IterationOutcome::Refused),
            iteration(3),
            agent(3),
            exits(3, 0, "completed"),
            claims(),
            gate_starts("check 1"),
            gate_ends("check 1", 0),
            gate_starts("check 2"),
            gate_ends("check 2", 0),
            gate_starts("lint"),
            gate_ends("lint", 0),
            commits("c1"),
            commits("c2"),
            accepted(),
            finishes(3, IterationOutcome::Accepted),
        ],
    );
    assert_eq!(
        tell(&turn),
        [
            r#"task.started {"task":1}"#,
            r#"task.started {"task":2}"#,
            r#"task.claude.invoke {"attempt":1}"#,
            r#"task.claude.done {"attempt":1,"error":"exit code 1","exit_code":1}"#,
            r#"task.retry {"attempt":1,"reason":"claude_invocation_failed"}"#,
            r#"task.claude.invoke {"attempt":2}"#,
            r#"task.claude.done {"attempt":2,"error":null,"exit_code":0}"#,
            r#"task.backpressure {"task":1}"#,
            r#"task.validation.fail {"exit_code":2,"output":"no\n","task":1}"#,
            r#"task.retry {"attempt":2,"reason":"backpressure_failed"}"#,
            r#"task.claude.invoke {"attempt":3}"#,
            r#"task.claude.done {"attempt":3,"error":null,"exit_code":0}"#,
            r#"task.backpressure {"task":1}"#,
            r#"task.validation.ok {"task":1}"#,
            r#"task.backpressure {"task":2}"#,
            r#"task.validation.ok {"task":2}"#,
            r#"task.committed {"commit":"c1","empty":false,"task":1}"#,
            r#"task.committed {"commit":"c2","empty":false,"task":2}"#,
            r#"task.completed {"task":1}"#,
            r#"task.completed {"task":2}"#,
        ]
    );
}

#[test]
fn a_commit_that_was_not_needed_is_told_as_empty() {
    // req 47
    let accepts = || {
        vec![iteration(1), agent(1), exits(1, 0, "completed"), claims(), gate_ends("check 2", 0), accepted()]
    };
    let told = tell(&stream("turn1", 1, [vec![begins(true)], accepts()].concat()));
    assert_eq!(
        told[told.len() - 2..],
        [r#"task.committed {"commit":null,"empty":true,"task":2}"#, r#"task.completed {"task":2}"#]
    );
    let told = tell(&stream("turn1", 1, [vec![begins(false)], accepts()].concat()));
    assert!(!told.iter().any(|event| event.starts_with("task.committed")), "{told:?}");
}

#[test]
fn the_last_attempt_is_no_retry_and_what_is_no_turn_tells_nothing() {
    // req 37, req 38: a retry is told when there is one.
    let baseline = vec![
        LoopEvent::LoopStarted(Box::new(started(policy(|p| {
            p.gates.specs = vec![GateSpec::of_command("lint")]
        })))),
        iteration(1),
        agent(1),
        exits(1, 0, "completed"),
        gate_starts("lint"),
        gate_ends("lint", 0),
        accepted(),
    ];
    assert_eq!(tell(&stream("base1", 1, baseline.clone())), [""; 0]);

    let first = vec![
        begins(true),
        iteration(1),
        agent(1),
        exits(1, 0, "hang"),
        finishes(1, IterationOutcome::NoClaim),
    ];
    let again = vec![
        begins(true),
        iteration(1),
        agent(1),
        exits(1, 0, "completed"),
        finishes(1, IterationOutcome::NoClaim),
    ];
    let more = vec![iteration(2)];
    let mut journal = stream("turn1", 1, first);
    journal.extend(stream("base1", 20, baseline));
    journal.extend(stream("turn2", 40, [again, more].concat()));
    assert_eq!(
        tell(&journal),
        [
            r#"task.started {"task":1}"#,
            r#"task.started {"task":2}"#,
            r#"task.claude.invoke {"attempt":1}"#,
            r#"task.claude.done {"attempt":1,"error":"hang","exit_code":0}"#,
            r#"task.claude.invoke {"attempt":1}"#,
            r#"task.claude.done {"attempt":1,"error":null,"exit_code":0}"#,
            r#"task.retry {"attempt":1,"reason":"no_task_completed"}"#,
        ],
        "a task is started once, however often it is offered"
    );
}

#[test]
fn a_claim_that_is_none_is_no_red_backpressure() {
    // req 37
    let malformed = event(json!({"type": "claim_made", "iteration": 1,
        "by": [{"signal": "malformed_task", "detail": "gone"}]}));
    let journal = stream(
        "turn1",
        1,
        vec![
            begins(true),
            iteration(1),
            agent(1),
            exits(1, 0, "completed"),
            malformed,
            finishes(1, IterationOutcome::Refused),
            iteration(2),
        ],
    );
    let told = tell(&journal);
    assert_eq!(told.last().unwrap(), r#"task.retry {"attempt":1,"reason":"no_task_completed"}"#);
}

#[test]
fn a_claim_refused_for_changed_protected_files_is_no_red_backpressure() {
    // req 38
    let refused = |reason: &str| {
        event(json!({"type": "claim_refused", "iteration": 1, "reason": reason, "detail": "no"}))
    };
    let attempt = |n: u32, reason: &str| {
        vec![
            iteration(n),
            agent(n),
            exits(n, 0, "completed"),
            claims(),
            refused(reason),
            finishes(n, IterationOutcome::Refused),
        ]
    };
    let turns = [vec![begins(true)], attempt(1, "tampered"), attempt(2, "gate_failed"), vec![iteration(3)]];
    let told = tell(&stream("turn1", 1, turns.concat()));
    let retries: Vec<&String> = told.iter().filter(|event| event.starts_with("task.retry")).collect();
    assert_eq!(
        retries,
        [
            r#"task.retry {"attempt":1,"reason":"tampered"}"#,
            r#"task.retry {"attempt":2,"reason":"backpressure_failed"}"#,
        ]
    );
}
