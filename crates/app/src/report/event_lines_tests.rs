//! What people read of every event and of every reason. The variants come from the types: one without a sample fails.

use std::fmt::Display;

use dacapo_core::{
    agent::AgentCommand,
    event::{FinishState, LoopStarted, PlannedUnit, Reason, RunStarted, UnitEnd},
    judge::{
        claim::RefusalReason,
        promise::{MissReason, PromiseRule},
    },
    policy::Policy,
    prompt,
    unit::settings::RunSettings,
    view::{LoopView, why},
};
use dacapo_testkit::{samples_of_every_variant, values_of_every_variant};
use serde::de::DeserializeOwned;

use super::*;

/// The samples in a file of `tests/fixtures/events`, after those that are too large for it.
fn described<T: DeserializeOwned>(large: &[String], file: &str, describe: impl Fn(&T) -> String) -> String {
    let path = format!("{}/tests/fixtures/events/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let samples = format!("{}\n{file}", large.join("\n"));
    table(samples_of_every_variant::<T>(samples.trim()).iter().map(|(kind, event)| (kind, describe(event))))
}

/// A line for each pair.
fn table(rows: impl IntoIterator<Item = (impl Display, impl Display)>) -> String {
    let rows: Vec<(String, String)> =
        rows.into_iter().map(|(name, words)| (name.to_string(), words.to_string())).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.iter().map(|(name, words)| format!("{name:width$}  {words}\n")).collect()
}

fn with_type(kind: &str, value: &impl serde::Serialize) -> String {
    let mut value = serde_json::to_value(value).unwrap();
    value["type"] = kind.into();
    value.to_string()
}

fn policy() -> Policy {
    let agent = AgentCommand::parse("claude -p", &[]).unwrap();
    Policy::restart(agent, PromiseRule::new("DONE").unwrap())
}

fn loop_started() -> LoopStarted {
    LoopStarted {
        project: "shop".parse().unwrap(),
        task: "fix-tests".parse().unwrap(),
        workspace: "/home/me/shop".into(),
        parent: None,
        run: None,
        purpose: None,
        session: None,
        depth: 0,
        after: Vec::new(),
        prompt: "Make the tests pass.".to_owned(),
        seed: "seed".to_owned(),
        policy: policy(),
        base: None,
        outline: None,
        protected: Vec::new(),
        goalposts: None,
        sandbox: None,
        outside: Vec::new(),
        pid: 7,
        version: "0".to_owned(),
    }
}

/// A loop after `event`.
pub(crate) fn view_after(event: LoopEvent) -> LoopView {
    let envelope = |event| Envelope {
        seq: 1,
        at: "2026-11-15T14:00:00Z".parse().unwrap(),
        loop_id: "abcdefghjk".parse().unwrap(),
        event,
    };
    let mut view = LoopView::begin(&envelope(LoopEvent::LoopStarted(Box::new(loop_started())))).unwrap();
    view.apply(&envelope(LoopEvent::IterationStarted { iteration: 3, max_iterations: 15 }));
    view.apply(&envelope(event));
    view
}

#[test]
fn every_event_of_a_loop_has_its_line() {
    let large = [with_type("loop_started", &loop_started())];
    let lines = described(&large, "loop", describe);
    insta::assert_snapshot!(lines);
}

#[test]
fn every_event_of_a_run_of_units_has_its_line() {
    let started = |merge| RunStarted {
        project: "shop".parse().unwrap(),
        root: "/home/me/shop".into(),
        target: "main".to_owned(),
        merge,
        parallel: 4,
        units: vec![PlannedUnit {
            unit: "api".parse().unwrap(),
            depends_on: Vec::new(),
            tasks: vec![(1, "One".to_owned())],
            complete: Vec::new(),
        }],
        settings: Box::new(RunSettings::new(policy())),
        tip: None,
        budget_of: "abcdefghjk".parse().unwrap(),
        pid: 7,
        version: "0".to_owned(),
    };
    let large: Vec<String> = values_of_every_variant::<MergeMode>()
        .into_iter()
        .map(|(_, merge)| with_type("orch.started", &started(merge)))
        .collect();
    let lines = described(&large, "run", describe_run);
    insta::assert_snapshot!(lines);
}

#[test]
fn every_event_of_a_workflow_has_its_line() {
    insta::assert_snapshot!(described(&[], "workflow", describe_workflow));
}

#[test]
fn every_event_of_a_task_has_its_line() {
    insta::assert_snapshot!(described(&[], "task", describe_task));
}

#[test]
fn every_reason_of_a_loops_end_has_its_sentence_and_its_next_step() {
    let rows = values_of_every_variant::<Reason>().into_iter().map(|(name, reason)| {
        let detail = "what happened".to_owned();
        let (state, exit_code) = (reason.state(), reason.exit_code());
        let end = LoopEvent::LoopFinished { state, reason, detail, exit_code, iterations: 3 };
        let why = why(&view_after(end));
        (name, format!("exit {exit_code}, {}: {} {}", state.as_str(), why.because, why.next))
    });
    insta::assert_snapshot!(table(rows));
}

#[test]
fn every_kind_of_refusal_and_of_end_has_its_words() {
    let mut all = String::new();
    let mut add = |name: &str, rows: Vec<(String, String)>| all += &format!("{name}\n{}\n", table(rows));
    fn rows<T: DeserializeOwned>(words: impl Fn(T) -> String) -> Vec<(String, String)> {
        values_of_every_variant().into_iter().map(|(name, value)| (name, words(value))).collect()
    }
    add("RefusalReason", rows(|reason: RefusalReason| reason.words().to_owned()));
    add("EvidenceReason", rows(|reason: EvidenceReason| reason.to_string()));
    add("MissReason", rows(|reason: MissReason| prompt::hint(reason).to_string()));
    add("FinishState", rows(|state: FinishState| state.as_str().to_owned()));
    add("IterationOutcome", rows(|outcome: IterationOutcome| outcome_words(outcome).to_owned()));
    add("StopCause", rows(|cause: StopCause| stopping(cause).to_owned()));
    add("UnitEnd", rows(|end: UnitEnd| end.as_str().to_owned()));
    let exit = |outcome: Outcome| AgentExit { outcome, detail: None, ..agent_exit() };
    add("Outcome", rows(|outcome: Outcome| super::exit(&exit(outcome))));
    insta::assert_snapshot!(all);
}

fn agent_exit() -> AgentExit {
    AgentExit {
        exit_code: Some(1),
        signal: None,
        duration_ms: dacapo_core::duration::Millis(2000),
        outcome: Outcome::Completed,
        stdout_bytes: 0,
        stderr_bytes: 0,
        dropped_bytes: 0,
        leftovers: 0,
        session: None,
        model: None,
        usage: None,
        cost_usd: None,
        estimated: false,
        reset_at: None,
        detail: None,
        output: dacapo_core::event::OutputMarks::default(),
    }
}

#[test]
fn tasks_are_named_by_number() {
    let by = [Signal::Item(ItemKey(2)), Signal::Item(ItemKey(5))];
    assert_eq!(claim(&by), "claims to be done (task #2 and task #5)");
    assert_eq!(claim(&[Signal::OwnClaim]), "is checked as it stands");
    assert_eq!(claim(&[Signal::DoneFile]), "claims to be done (DONE file)");
    let commit = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(committed(commit, Some(ItemKey(2))), format!("task #2 {}", committed(commit, None)));
}
