use super::*;
use crate::workflow::{ParseSettings, machine::EndReason, parse};

fn started(yaml: &str) -> WorkflowStarted {
    let text = format!("name: x\ndescription: y\n{yaml}");
    let parsed = parse(".dacapo/workflows/x.yaml", text.as_bytes(), ParseSettings::default());
    assert_eq!(parsed.problems, [], "{text}");
    WorkflowStarted {
        run: "dry".to_owned(),
        workflow: parsed.workflow.unwrap(),
        digest: String::new(),
        files: Vec::new(),
        left_out: Vec::new(),
        message: "hello".to_owned(),
        conversation: None,
        parallel: 4,
        settings: None,
    }
}

fn dry(yaml: &str, stubs: &str) -> (Vec<String>, String) {
    let started = started(yaml);
    let stubs = read_stubs(&started.workflow, "stubs.yaml", stubs.as_bytes()).unwrap();
    let DryRun { lines, end } = walk(started, &stubs);
    let lines = lines
        .iter()
        .map(|line| format!("{}#{} {} {}: {}", line.step, line.attempt, line.kind, line.what, line.text));
    (lines.collect(), format!("{:?}: {}", end.end, end.detail))
}

const FLOW: &str = "steps:\n- {id: sort, prompt: 'What is $ARGUMENTS?', output_format: {properties: {kind: {enum: [bug, wish]}}}}\n- {id: fix, prompt: Fix it, when: \"$sort.output.kind == 'bug'\"}\n- {id: test, bash: make test}\n- {id: wait, wait: {for: 2d}}\n- id: ask\n  approval: {message: ok?, on_reject: {prompt: Change $REJECTION_REASON}}\n";

#[test]
fn a_workflow_is_walked_with_answers_made_from_its_schemas() {
    let (lines, end) = dry(FLOW, "");
    assert_eq!(
        lines,
        [
            "sort#1 prompt began: What is hello?\n\nEnd with your answer as JSON that fits this JSON Schema, and with nothing behind it:\n\n```json\n{\n  \"properties\": {\n    \"kind\": {\n      \"enum\": [\n        \"bug\",\n        \"wish\"\n      ]\n    }\n  }\n}\n```\n",
            "sort#1 prompt completed: {\"kind\":\"bug\"}",
            "fix#1 prompt began: Fix it",
            "fix#1 prompt completed: answer of fix",
            "test#1 bash began: make test",
            "test#1 bash completed: ",
            "wait#1 wait waited: 48h0m0s",
            "wait#1 wait completed: ",
            "ask#1 approval answered: approve",
            "ask#1 approval completed: ",
        ]
    );
    assert_eq!(end, "Completed: ");
}

#[test]
fn stubs_say_what_a_step_answers() {
    let stubs = "sort: {output: {kind: wish}}\ntest: [{exit_code: 0}]\n";
    let (lines, end) = dry(FLOW, stubs);
    assert!(
        lines.contains(&"fix#0 prompt skipped: `$sort.output.kind == 'bug'` does not hold".to_owned()),
        "{lines:?}"
    );
    assert_eq!(end, "Completed: answer of sort".replace("answer of sort", "{\"kind\":\"wish\"}"));
    let (_, end) = dry(FLOW, "test: {exit_code: 2, output: red}\n");
    assert_eq!(end, "Failed: step `test`: the script exited with 2: red");
    let (_, end) = dry(FLOW, "fix: {error: no}\n");
    assert_eq!(end, "Failed: step `fix`: no");
    // Rejected once, then approved: the check runs again in between.
    let (lines, end) = dry(FLOW, "ask: [{decision: reject, text: all}, {}, {decision: approve}]\n");
    assert!(lines.contains(&"ask#2 rework began: Change all".to_owned()), "{lines:?}");
    assert!(lines.contains(&"test#2 bash completed: ".to_owned()), "{lines:?}");
    assert_eq!(end, "Completed: ");
    let (_, end) = dry(FLOW, "ask: {decision: perhaps}\n");
    assert_eq!(end, "Cancelled: stub of `ask`: `perhaps` is no answer here; approve or reject");
}

#[test]
fn a_stub_for_a_step_that_is_not_there_is_named() {
    let workflow = started(FLOW).workflow;
    let problems = |text: &str| {
        let problems = read_stubs(&workflow, "stubs.yaml", text.as_bytes()).unwrap_err();
        problems.iter().map(Problem::line).collect::<Vec<_>>()
    };
    assert_eq!(
        problems("tset: x\n"),
        ["`stubs.yaml`, line 1: there is no step `tset`; did you mean `test`?"]
    );
    assert_eq!(
        problems("test: {exit: 1}\n"),
        ["`stubs.yaml`, line 1: unknown key `exit`; known here: output, exit_code, error, decision, text"]
    );
    assert_eq!(
        problems("- x\n"),
        ["`stubs.yaml`, line 1: stubs must be a map from steps to answers; write `plan: text`"]
    );
    assert_eq!(problems("test: {exit_code: x}\n").len(), 1);
}

#[test]
fn a_loop_and_every_end_can_be_walked() {
    let (lines, end) = dry("loop: {until: X, max_iterations: 3}\nprompt: Do $USER_MESSAGE\n", "");
    assert_eq!(lines, ["loop#1 loop began: Do hello", "loop#1 loop completed: answer of loop"]);
    assert_eq!(end, "Completed: answer of loop");
    let (_, end) = dry("steps: [{cancel: stop}]\n", "");
    assert_eq!(end, "Cancelled: stop");
    assert_eq!(
        walk(started("steps: [{wait: {signal: go}}, {wait: {file: f}}]\n"), &Stubs::new()).end.end,
        EndReason::Completed
    );
}
