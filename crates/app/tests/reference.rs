//! The hand-written pages in `docs/reference/` name exactly what there is.

use std::{collections::BTreeSet, fs};

use dacapo_core::{
    agent::AgentCommand,
    event::{LoopEvent, Reason, RunEvent},
    judge::promise::PromiseRule,
    policy::Policy,
    stages::machine::TaskEvent,
    unit::settings::RunSettings,
    workflow::machine::WorkflowEvent,
};
use dacapo_testkit::{TestEnv, names_of_variants};
use serde_json::json;

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// The names in headings `### \`name\`` with the text below each.
fn sections(page: &str) -> Vec<(String, &str)> {
    page.split("\n### `")
        .skip(1)
        .map(|section| {
            let (name, text) = section.split_once('`').expect("a heading ends");
            (name.to_owned(), text.split("\n## ").next().unwrap_or(text))
        })
        .collect()
}

#[test]
fn every_event_has_its_section_and_every_section_its_event() {
    let page = page("events.md");
    let documented: BTreeSet<String> = sections(&page).into_iter().map(|(name, _)| name).collect();
    let mut known = names_of_variants::<LoopEvent>(r#"{"type": "?"}"#);
    known.extend(names_of_variants::<RunEvent>(r#"{"type": "?"}"#));
    known.extend(names_of_variants::<WorkflowEvent>(r#"{"type": "?"}"#));
    known.extend(names_of_variants::<TaskEvent>(r#"{"type": "?"}"#));
    known.extend(["assistant", "tool"].map(str::to_owned));
    assert_eq!(documented, known);
}

#[test]
fn every_field_that_a_loop_records_is_named_in_its_section() {
    let page = page("events.md");
    let sections = sections(&page);
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.run_agent("@1: say working; @2: promise; @3: promise", ["--gate", "test -f ok", "-n", "2"])
        .assert_code(3);
    env.write("ok", "");
    let id = env.events(None)[0]["loop"].as_str().unwrap().to_owned();
    env.run(["resume", &id, "-n", "+1"]).assert_code(0);
    for event in env.events(None) {
        let kind = event["type"].as_str().unwrap();
        let (_, section) = sections.iter().find(|(name, _)| name == kind).unwrap();
        for field in event.as_object().unwrap().keys() {
            let is_common = ["seq", "at", "loop", "type"].contains(&field.as_str());
            assert!(is_common || section.contains(&format!("`{field}`")), "{kind} has no word about {field}");
        }
    }
}

#[test]
fn every_field_of_a_runs_events_is_named_in_its_section() {
    // req 57
    let page = page("events.md");
    let sections = sections(&page);
    let agent = AgentCommand::parse("agent", &[]).unwrap();
    let policy = Policy::restart(agent, PromiseRule::new("DONE").unwrap());
    let settings = serde_json::to_value(RunSettings::new(policy)).unwrap();
    let samples = [
        json!({"type": "orch.started", "project": "p", "root": "/r", "target": "main", "merge": "merge", "parallel": 4,
            "units": [{"unit": "u", "depends_on": [], "tasks": [[1, "One"]], "complete": []}], "settings": settings,
            "budget_of": "r1", "pid": 1, "version": "0"}),
        json!({"type": "orch.stopping", "by": "max_time"}),
        json!({"type": "orch.paused", "now": false}),
        json!({"type": "orch.unpaused"}),
        json!({"type": "orch.unpaused", "grant": {"extra_iterations": 1, "max_time_ms": null, "max_cost": 2.5}}),
        json!({"type": "orch.steered", "text": "use the old API"}),
        json!({"type": "orch.completed", "detail": "d"}),
        json!({"type": "orch.failed", "reason": "failed", "detail": "d", "exit_code": 1}),
        json!({"type": "unit.queued", "depends_on": ["u"]}),
        json!({"type": "unit.started", "slot": 1}),
        json!({"type": "unit.completed", "commit": "c"}),
        json!({"type": "unit.merging"}),
        json!({"type": "unit.publishing"}),
        json!({"type": "unit.job_ended"}),
        json!({"type": "unit.merged", "target": "main", "commit": "c", "left_on": ["b", "git merge b"]}),
        json!({"type": "unit.sent_back", "detail": "d"}),
        json!({"type": "unit.failed", "reason": "auth", "detail": "d"}),
        json!({"type": "unit.blocked", "by": ["u"]}),
        json!({"type": "unit.warned", "text": "t"}),
        json!({"type": "unit.target_moved", "target": "main", "from": "c", "to": "d", "paths": ["p"]}),
        json!({"type": "task.started", "task": 1, "title": "t", "of": 1}),
        json!({"type": "task.claude.invoke", "loop": "l", "attempt": 1, "agent": "a", "of": 1}),
        json!({"type": "task.claude.done", "loop": "l", "attempt": 1, "exit_code": 0, "duration_ms": 1, "error": null, "of": 1}),
        json!({"type": "task.backpressure", "task": 1, "command": "c", "of": 1}),
        json!({"type": "task.validation.ok", "task": 1, "duration_ms": 1, "of": 1}),
        json!({"type": "task.validation.fail", "task": 1, "exit_code": 1, "output": "o", "of": 1}),
        json!({"type": "task.committed", "task": 1, "commit": "c", "empty": false, "of": 1}),
        json!({"type": "task.completed", "task": 1, "loop": "l", "of": 1}),
        json!({"type": "task.retry", "attempt": 1, "reason": "no_task_completed", "of": 1}),
        json!({"type": "task.failed", "task": 1, "detail": "d"}),
        json!({"type": "pr.created", "url": "u"}),
        json!({"type": "pr.merged", "commit": "c"}),
        json!({"type": "pr.failed", "detail": "d"}),
        json!({"type": "pr.conflict", "paths": ["p"]}),
        json!({"type": "worktree.created", "path": "/w", "branch": "b", "base": "c"}),
        json!({"type": "worktree.removed", "path": "/w"}),
        json!({"type": "branch.pushed", "branch": "b", "remote": "origin"}),
    ];
    let known = names_of_variants::<RunEvent>(r#"{"type": "?"}"#);
    assert_eq!(
        samples.iter().map(|sample| sample["type"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>(),
        known
    );
    for sample in samples {
        let event: RunEvent = serde_json::from_value(sample.clone()).unwrap();
        assert_eq!(
            (serde_json::to_value(&event).unwrap(), event.kind()),
            (sample.clone(), sample["type"].as_str().unwrap())
        );
        let (_, section) = sections.iter().find(|(name, _)| name == event.kind()).unwrap();
        for field in sample.as_object().unwrap().keys().filter(|field| *field != "type") {
            assert!(section.contains(&format!("`{field}`")), "{} has no word about {field}", event.kind());
        }
    }
}

#[test]
fn every_reason_stands_in_the_table_with_its_state_and_code() {
    // req 202
    let page = page("exit-codes.md");
    let reasons = names_of_variants::<Reason>(r#""?""#);
    for name in &reasons {
        let reason: Reason = serde_json::from_str(&format!("\"{name}\"")).unwrap();
        let row = format!("| `{name}` | {} | {} |", reason.state().as_str(), reason.exit_code());
        assert!(page.contains(&row), "no row begins {row}");
    }
}

#[test]
fn every_variable_that_an_agent_finds_is_named_and_nothing_else() {
    // req 93
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    let output = env.run(["run", "x", "--agent-cmd", "env", "-n", "1", "-v"]).assert_code(3).stdout;
    let is_ours = |name: &str| name.starts_with("DACAPO_") || name == "TASK_FOLDER";
    let found: BTreeSet<String> = output
        .lines()
        .filter_map(|line| line.trim_start_matches([' ', '│']).split_once('='))
        .map(|(name, _)| name.to_owned())
        .filter(|name| is_ours(name))
        .collect();
    let page = page("environment.md");
    let (given, _) = page.split_once("\n## What dacapo itself reads").expect("its own section");
    let named: BTreeSet<String> = given
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .filter(|name| is_ours(name))
        .collect();
    assert_eq!(named, found);
}
