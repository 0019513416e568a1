//! The runs of the gates beyond the first: in a fresh checkout, again, and with the tests as they were.

use super::*;
use crate::{
    event::{Look, TriedGate, UseOfCheckout},
    goalposts::{GoalpostKind, GoalpostSeal, Moved, MovedGoalpost, MustFailRun, MustFailTest, TestReport},
    judge::claim::RefusalReason::{GateFailed, Narrowed, Tampered, TreeChanged},
    policy::{GateIn, TestsMode},
};

fn policy_of(run_in: GateIn, tests: TestsMode) -> Policy {
    gated(&["g"]).with(|p| (p.gates.run_in, p.gates.tests) = (run_in, tests))
}

fn moved(path: &str, how: Moved) -> MovedGoalpost {
    MovedGoalpost { path: path.into(), kind: GoalpostKind::Test, how }
}

/// A claim that moved these goalposts, up to its first gate.
fn claimed(
    policy: Policy,
    checkout: UseOfCheckout,
    before: Option<TestReport>,
    moved: Vec<MovedGoalpost>,
) -> Sim {
    let goalposts = Some(GoalpostSeal { files: 1, tests: 1, sha256: "x".into() });
    let mut sim = Sim::begun(LoopStarted { goalposts, ..started(policy) });
    let tried = TriedGate { exit_code: 1, checkout, tests: before, ..TriedGate::default() };
    sim.feed(Input::GateTried { index: 0, tried: Box::new(tried) });
    let mut sim = Sim { is_told: true, ..sim }.after([no_markers(), promises(0), no_children()]);
    sim.feed(Input::Examined(Some(Box::new(Examination { moved, ..examination() }))));
    sim
}

fn ran(passed: u32) -> TestReport {
    TestReport { passed, ..TestReport::default() }
}

fn look_of(sim: &Sim) -> Option<Look> {
    match sim.state.phase {
        Phase::Judging(JudgeStep::Gate { look, .. }, _) => Some(look),
        _ => None,
    }
}

#[test]
fn a_claim_passes_its_gates_in_the_workspace_in_a_checkout_and_with_the_tests_as_they_were() {
    let changed = || vec![moved("tests/a.py", Moved::Changed)];
    let added = || vec![moved("tests/b.py", Moved::Added)];
    use UseOfCheckout::{Unknown, Works};
    for (name, run_in, tests, before, moved, looks) in [
        ("workspace", GateIn::Workspace, TestsMode::Free, None, changed(), vec![Look::WORKSPACE]),
        (
            "both",
            GateIn::Both,
            TestsMode::Checked,
            None,
            vec![],
            vec![Look::WORKSPACE, Look::CLEAN, Look::AGAIN],
        ),
        ("clean", GateIn::Clean, TestsMode::Checked, None, vec![], vec![Look::CLEAN]),
        (
            "both ways",
            GateIn::Both,
            TestsMode::Checked,
            None,
            changed(),
            vec![Look::WORKSPACE, Look::CLEAN, Look::AS_BEFORE],
        ),
        (
            "units",
            GateIn::Workspace,
            TestsMode::Checked,
            None,
            changed(),
            vec![Look::WORKSPACE, Look::AS_BEFORE],
        ),
        ("a first test", GateIn::Workspace, TestsMode::Checked, Some(ran(0)), added(), vec![Look::WORKSPACE]),
        (
            "a new test",
            GateIn::Workspace,
            TestsMode::Checked,
            Some(ran(2)),
            added(),
            vec![Look::WORKSPACE, Look::AS_BEFORE],
        ),
        (
            "free",
            GateIn::Both,
            TestsMode::Free,
            Some(ran(2)),
            changed(),
            vec![Look::WORKSPACE, Look::CLEAN, Look::AGAIN],
        ),
    ] {
        let has_before = before.clone();
        let mut sim = claimed(
            policy_of(run_in, tests),
            if run_in == GateIn::Both { Works } else { Unknown },
            before,
            moved,
        );
        let mut seen = Vec::new();
        while let Some(look) = look_of(&sim) {
            seen.push(look);
            let result = GateResult { tests: has_before.clone(), ..gate_result(0) };
            sim.feed(Input::GateFinished(Box::new(result)));
        }
        assert_eq!(seen, looks, "{name}");
        sim.feed(rechecked(&[]));
        assert_eq!(sim.over(), Some(Reason::Done), "{name}");
    }
}

#[test]
fn what_passes_only_with_the_agents_own_tests_is_narrowed() {
    let changed = || vec![moved("tests/a.py", Moved::Changed)];
    // The checkout is known to work, or shows that it does.
    let sim =
        claimed(policy_of(GateIn::Workspace, TestsMode::Checked), UseOfCheckout::Works, None, changed());
    let sim = sim.after([gate(0), gate(1), gate(1)]);
    assert_eq!(sim.refusals()[0].0, Narrowed);
    assert!(sim.refusals()[0].1.contains("`tests/a.py`") && sim.refusals()[0].1.contains("<blocked>"));
    let sim =
        claimed(policy_of(GateIn::Workspace, TestsMode::Checked), UseOfCheckout::Unknown, None, changed());
    let sim = sim.after([gate(0), gate(1), gate(1), gate(0)]);
    assert_eq!(sim.refusals()[0].0, Narrowed);
    // It does not work there at all: the claim is believed, and people are told.
    let sim =
        claimed(policy_of(GateIn::Workspace, TestsMode::Checked), UseOfCheckout::Unknown, None, changed());
    let sim = sim.after([gate(0), gate(1), gate(1), gate(1), gate(1), rechecked(&[])]);
    assert_eq!((sim.over(), sim.times("warned")), (Some(Reason::Done), 2));
    // A person may accept that very tree.
    let sim =
        claimed(policy_of(GateIn::Workspace, TestsMode::Checked), UseOfCheckout::Works, None, changed());
    let approve = |tree: &str| Input::Requested(Request::ApproveTree { tree: tree.into(), by: "ada".into() });
    let mut sim = sim.after([gate(0), gate(1), gate(1), approve("another"), approve("tree1")]);
    assert_eq!(sim.times("tree_approved"), 1);
    sim = sim.after([Input::DelayOver, no_markers(), promises(0), no_children()]);
    let found = Examination { moved: changed(), ..examination() };
    sim = sim.after([Input::Examined(Some(Box::new(found))), gate(0), rechecked(&[])]);
    assert_eq!(sim.over(), Some(Reason::Done));
    let receipt = sim.journal.iter().find_map(|event| match event {
        LoopEvent::ReceiptIssued { receipt } => Some(receipt),
        _ => None,
    });
    assert_eq!(receipt.unwrap().approved_by.as_deref(), Some("ada"));
    // Sealed tests may not be changed at all.
    let sim = claimed(policy_of(GateIn::Workspace, TestsMode::Sealed), UseOfCheckout::Works, None, changed());
    assert_eq!(sim.refusals()[0].0, Tampered);
}

#[test]
fn fewer_tests_than_before_are_narrowed_and_a_red_checkout_refuses_where_it_is_known_to_work() {
    let result = |tests| Input::GateFinished(Box::new(GateResult { tests, ..gate_result(0) }));
    for (now, refused) in [(Some(ran(3)), false), (Some(ran(2)), true), (None, true)] {
        let sim = claimed(
            policy_of(GateIn::Workspace, TestsMode::Checked),
            UseOfCheckout::Works,
            Some(ran(3)),
            vec![],
        );
        let sim = sim.after([result(now)]);
        assert_eq!(sim.refusals().first().map(|refusal| refusal.0), refused.then_some(Narrowed));
    }
    let both = || policy_of(GateIn::Both, TestsMode::Checked);
    let sim = claimed(both(), UseOfCheckout::Works, None, vec![]).after([gate(0), gate(1), gate(1)]);
    assert_eq!(
        sim.refusals()[0],
        (GateFailed, "gate `g` exited 1 in a fresh checkout of what would be kept")
    );
    let sim = claimed(both(), UseOfCheckout::Works, None, vec![]).after([gate(0), gate(0), gate(1), gate(1)]);
    assert_eq!(sim.refusals()[0].0, GateFailed, "right only once");
    let sim = claimed(both(), UseOfCheckout::Unknown, None, vec![]);
    let sim = sim.after([gate(0), gate(1), gate(1), rechecked(&[])]);
    assert_eq!((sim.over(), sim.times("warned")), (Some(Reason::Done), 1));
    let rewritten = GateResult { disturbed: vec!["tests/a.py".into()], ..gate_result(0) };
    let sim = claimed(both(), UseOfCheckout::Works, None, vec![]);
    let sim = sim.after([gate(0), Input::GateFinished(Box::new(rewritten))]);
    assert_eq!(sim.refusals()[0].0, TreeChanged);
}

#[test]
fn gates_are_tried_before_the_first_agent_and_one_that_cannot_run_ends_the_loop() {
    let policy = || gated(&["nope"]).with(|p| p.gates.probe = true);
    let mut sim = Sim::default();
    let begin = Input::Begin(Box::new(Begin { started: started(policy()), warnings: vec![] }));
    let step = sim.feed(begin);
    assert!(step.effects.contains(&Effect::TryGates { gates: policy().gates.specs }), "{step:?}");
    let missing = TriedGate { exit_code: 127, missing_program: Some("nope".into()), ..TriedGate::default() };
    let tried = |tried: &TriedGate| Input::GateTried { index: 0, tried: Box::new(tried.clone()) };
    let stopped = sim.clone().after([tried(&missing)]);
    assert_eq!((stopped.over(), stopped.starts), (Some(Reason::Gate), 0));
    assert_eq!(Reason::Gate.exit_code(), 5);
    assert!(stopped.detail().contains("no `nope` on PATH"));
    // A red gate is what one expects, and the agent waits no longer than it must.
    let red = TriedGate { exit_code: 1, ..TriedGate::default() };
    let going = sim.clone().after([tried(&red), Input::TrialWaitOver, no_markers()]);
    assert_eq!((going.over(), going.starts), (None, 1));
    // The program is there, and the gate ends in the same way after the agent.
    let broken = TriedGate { exit_code: 127, output_sha256: "e3b0c442".into(), ..TriedGate::default() };
    let sim = sim.after([
        tried(&broken),
        Input::TrialWaitOver,
        no_markers(),
        promises(0),
        no_children(),
        gate(127),
    ]);
    assert_eq!(sim.over(), Some(Reason::Gate));
    let missing = GateResult { missing_program: Some("nope".into()), ..gate_result(127) };
    let missing =
        |sim: Sim| sim.after([promises(0), no_children(), Input::GateFinished(Box::new(missing.clone()))]);
    let tried_late = Sim::default().after([
        Input::Begin(Box::new(Begin { started: started(policy()), warnings: vec![] })),
        Input::TrialWaitOver,
        no_markers(),
    ]);
    assert_eq!(missing(tried_late).over(), Some(Reason::Gate));
    // Unless gates are tried, it is a red gate like any other.
    assert_eq!(missing(Sim::running(gated(&["nope"]))).over(), None);
}

#[test]
fn gates_that_run_before_the_first_agent_anyway_are_not_tried() {
    let policy = || {
        gated(&["nope"]).with(|p| {
            p.gates.probe = true;
            p.gates.baseline = true;
        })
    };
    let mut sim = Sim::default();
    let begin = Input::Begin(Box::new(Begin { started: started(policy()), warnings: vec![] }));
    let step = sim.feed(begin);
    let is_tried = |effect: &Effect| matches!(effect, Effect::TryGates { .. });
    assert!(!step.effects.iter().any(is_tried), "{step:?}");
    assert_eq!(sim.state.phase, Phase::Checking { role: GateRole::Baseline, index: 0 });
    // What the run showed is known as if the gate had been tried.
    let tried = TriedGate { exit_code: 1, tests: Some(ran(3)), ..TriedGate::default() };
    let going =
        sim.clone().after([Input::GateTried { index: 0, tried: Box::new(tried) }, gate(1), no_markers()]);
    assert_eq!((going.over(), going.starts, going.times("gate_tried")), (None, 1, 1));
    assert_eq!(going.state.trials["nope"].tests, Some(ran(3)));
    let missing = GateResult { missing_program: Some("nope".into()), ..gate_result(127) };
    let stopped = sim.after([Input::GateFinished(Box::new(missing))]);
    assert_eq!((stopped.over(), stopped.starts), (Some(Reason::Gate), 0));
}

#[test]
fn a_gate_that_agrees_although_its_tests_fail_is_warned_about() {
    let report = |failed| Some(TestReport { passed: 3, failed, ..TestReport::default() });
    for (passed, tests, is_warned) in
        [(true, report(2), true), (true, report(0), false), (true, None, false), (false, report(2), false)]
    {
        let mut sim = Sim::begun(started(policy_of(GateIn::Workspace, TestsMode::Checked)));
        let tried = TriedGate { passed, tests: tests.clone(), ..TriedGate::default() };
        sim.feed(Input::GateTried { index: 0, tried: Box::new(tried) });
        assert_eq!(sim.times("warned"), usize::from(is_warned), "{passed} {tests:?}");
    }
}

#[test]
fn a_gate_whose_tests_were_not_there_before_need_not_pass_without_them() {
    let none = |exit_code| {
        Input::GateFinished(Box::new(GateResult { tests: Some(ran(0)), ..gate_result(exit_code) }))
    };
    let failed = |exit_code| {
        let tests = Some(TestReport { failed: 1, ..TestReport::default() });
        Input::GateFinished(Box::new(GateResult { tests, ..gate_result(exit_code) }))
    };
    // Nothing was tried ahead, as in units.
    let begun = || {
        let goalposts = Some(GoalpostSeal { files: 1, tests: 1, sha256: "x".into() });
        let policy = policy_of(GateIn::Workspace, TestsMode::Checked);
        let sim = Sim::begun(LoopStarted { goalposts, ..started(policy) });
        let mut sim = Sim { is_told: true, ..sim }.after([no_markers(), promises(0), no_children()]);
        let moved = vec![moved("tests/a.py", Moved::Changed)];
        sim.feed(Input::Examined(Some(Box::new(Examination { moved, ..examination() }))));
        sim
    };
    let sim = begun().after([gate(0), none(5), none(5), rechecked(&[])]);
    assert_eq!(sim.over(), Some(Reason::Done));
    // It ran tests, and they fail: whether that is for the checkout shows when it runs there with the agent's tests.
    let sim = begun().after([gate(0), failed(1), failed(1)]);
    assert_eq!(look_of(&sim), Some(Look::CLEAN));
    assert_eq!(sim.after([gate(0)]).refusals()[0].0, Narrowed);
}

fn must_fail_test(path: &str) -> MustFailTest {
    MustFailTest { path: path.into(), by: "assert".into() }
}

/// A claim of a loop whose gate noticed must-fail tests in `a.py` and `b.py` before the first agent.
fn claimed_where_noticed(policy: Policy, moved: Vec<MovedGoalpost>) -> Sim {
    let goalposts = Some(GoalpostSeal { files: 1, tests: 1, sha256: "x".into() });
    let mut sim = Sim::begun(LoopStarted { goalposts, ..started(policy) });
    let notices = vec![must_fail_test("a.py"), must_fail_test("b.py")];
    let tried = TriedGate { exit_code: 1, checkout: UseOfCheckout::Works, notices, ..TriedGate::default() };
    sim.feed(Input::GateTried { index: 0, tried: Box::new(tried) });
    let mut sim = Sim { is_told: true, ..sim }.after([no_markers(), promises(0), no_children()]);
    sim.feed(Input::Examined(Some(Box::new(Examination { moved, ..examination() }))));
    sim
}

/// What a gate comes to that ran with must-fail tests in these files, and said that those in `noticed` failed.
fn with_must_fail(exit_code: i32, put: &[&str], noticed: &[&str], tests: Option<TestReport>) -> GateResult {
    let of = |paths: &[&str]| paths.iter().map(|path| must_fail_test(path)).collect();
    let run = MustFailRun { put: of(put), noticed: of(noticed), ..MustFailRun::default() };
    GateResult { must_fail_tests: Some(Box::new(run)), tests, ..gate_result(exit_code) }
}

/// As [`with_must_fail`], where the tests of these names failed, too.
fn with_others(put: &[&str], others: &[&str]) -> GateResult {
    let mut result = with_must_fail(1, put, put, None);
    let run = result.must_fail_tests.as_mut().unwrap();
    run.others = others.iter().map(|name| (*name).to_owned()).collect();
    result
}

const MUST_FAIL: Look = Look { must_fail: true, ..Look::CLEAN };
const MUST_FAIL_AS_BEFORE: Look = Look { must_fail: true, ..Look::AS_BEFORE };

#[test]
fn tests_that_fail_whenever_a_must_fail_test_is_there_refuse_the_claim() {
    let all = &["a.py", "b.py"][..];
    let both = vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL, MUST_FAIL];
    let again = [both.clone(), vec![Look::AGAIN]].concat();
    for (name, runs, looks, refused) in [
        ("each time", [with_others(all, &["adds", "x"]), with_others(all, &["adds"])], both, Some("adds")),
        ("once", [with_others(all, &["adds"]), with_others(all, &[])], again.clone(), None),
        ("another one each time", [with_others(all, &["adds"]), with_others(all, &["x"])], again, None),
    ] {
        let mut sim = claimed_where_noticed(policy_of(GateIn::Both, TestsMode::Checked), vec![]);
        let mut runs = runs.into_iter();
        let mut seen = Vec::new();
        while let Some(look) = look_of(&sim) {
            seen.push(look);
            let result = if look.must_fail { runs.next().unwrap() } else { gate_result(0) };
            sim.feed(Input::GateFinished(Box::new(result)));
        }
        assert_eq!(seen, looks, "{name}");
        match refused {
            Some(test) => {
                let refusal = sim.state.refusals.last().unwrap();
                assert_eq!(refusal.reason, Narrowed, "{name}");
                assert!(
                    refusal.detail.contains(&format!("its test `{test}` fails each time")),
                    "{}",
                    refusal.detail
                );
            }
            None => {
                sim.feed(rechecked(&[]));
                assert_eq!(sim.over(), Some(Reason::Done), "{name}");
            }
        }
    }
}

#[test]
fn a_gate_that_noticed_must_fail_tests_has_to_notice_them_again() {
    let all = &["a.py", "b.py"][..];
    let report = |passed, failed| Some(TestReport { passed, failed, ..TestReport::default() });
    let changed = || vec![moved("tests/a.py", Moved::Changed)];
    let both = || policy_of(GateIn::Both, TestsMode::Checked);
    for (name, policy, moved, runs, looks, is_accepted) in [
        (
            "the report shows that the others passed",
            both(),
            vec![],
            vec![with_must_fail(1, all, all, report(3, 2))],
            vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL],
            true,
        ),
        (
            "the report does not show it: once more without them",
            both(),
            vec![],
            vec![with_must_fail(1, all, all, report(2, 3))],
            vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL, Look::AGAIN],
            true,
        ),
        (
            "with the tests as they were",
            both(),
            changed(),
            vec![with_must_fail(1, all, all, report(3, 2))],
            vec![Look::WORKSPACE, Look::CLEAN, Look::AS_BEFORE, MUST_FAIL_AS_BEFORE],
            true,
        ),
        (
            "in a checkout alone",
            policy_of(GateIn::Clean, TestsMode::Checked),
            vec![],
            vec![with_must_fail(1, all, all, report(3, 2))],
            vec![Look::CLEAN, MUST_FAIL],
            true,
        ),
        (
            "it passes, and passes again",
            both(),
            vec![],
            vec![with_must_fail(0, all, all, report(5, 0)), with_must_fail(0, all, &[], report(5, 0))],
            vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL, MUST_FAIL],
            false,
        ),
        (
            "one program stops at its first failure: the others are asked alone",
            both(),
            vec![],
            vec![
                with_must_fail(1, all, &["a.py"], report(1, 1)),
                with_must_fail(1, &["b.py"], &["b.py"], report(3, 1)),
            ],
            vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL, MUST_FAIL],
            true,
        ),
        (
            "only one of the programs notices",
            both(),
            vec![],
            vec![with_must_fail(1, all, &["a.py"], None), with_must_fail(0, &["b.py"], &[], None)],
            vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL, MUST_FAIL],
            false,
        ),
        (
            "it is red and names none: nothing is shown, and it runs once more without them",
            both(),
            vec![],
            vec![with_must_fail(2, all, &[], None), with_must_fail(2, all, &[], None)],
            vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL, MUST_FAIL, Look::AGAIN],
            true,
        ),
        (
            "the files have no place for them any more",
            both(),
            vec![],
            vec![with_must_fail(0, &[], &[], None)],
            vec![Look::WORKSPACE, Look::CLEAN, MUST_FAIL, Look::AGAIN],
            true,
        ),
        (
            "free tests",
            policy_of(GateIn::Both, TestsMode::Free),
            vec![],
            vec![],
            vec![Look::WORKSPACE, Look::CLEAN, Look::AGAIN],
            true,
        ),
    ] {
        let mut sim = claimed_where_noticed(policy, moved);
        let mut runs = runs.into_iter();
        let mut seen = Vec::new();
        while let Some(look) = look_of(&sim) {
            seen.push(look);
            let plain = GateResult { tests: report(3, 0), ..gate_result(0) };
            let result = if look.must_fail { runs.next().unwrap() } else { plain };
            sim.feed(Input::GateFinished(Box::new(result)));
        }
        assert_eq!(seen, looks, "{name}");
        assert!(runs.next().is_none(), "{name}");
        if is_accepted {
            sim.feed(rechecked(&[]));
            assert_eq!(sim.over(), Some(Reason::Done), "{name}");
        } else {
            let refused = sim.state.refusals.last().unwrap();
            assert_eq!(refused.reason, Narrowed, "{name}");
            assert!(
                refused.detail.contains("b.py` has to fail")
                    || refused.detail.contains("and 1 more has to fail"),
                "{name}: {}",
                refused.detail
            );
        }
    }
}

#[test]
fn a_slow_gate_or_one_whose_checkout_is_laid_out_slowly_runs_once_in_it_without_must_fail_tests() {
    for (duration_ms, laid_out_ms) in [(Millis::from_mins(2), Millis(0)), (Millis(5), Millis::from_mins(2))] {
        let mut sim = claimed_where_noticed(policy_of(GateIn::Both, TestsMode::Checked), vec![]);
        let mut seen = Vec::new();
        while let Some(look) = look_of(&sim) {
            seen.push(look);
            let laid_out_ms = if look == Look::CLEAN { laid_out_ms } else { Millis(0) };
            let slow = GateResult { duration_ms, laid_out_ms, ..gate_result(0) };
            sim.feed(Input::GateFinished(Box::new(slow)));
        }
        assert_eq!(seen, [Look::WORKSPACE, Look::CLEAN], "{duration_ms} {laid_out_ms}");
    }
}
