//! What stands between a claim and "done": the look at the workspace, the gates, the second look, the commit.

use super::*;
use crate::policy::GateFrom;

type Bend = fn(&mut Policy);

fn claimed(policy: Policy) -> Sim {
    Sim::told(policy).after([promises(0), no_children()])
}

/// A gate that is tried again so many times.
fn retried(run: &str, retries: u32) -> Policy {
    policy(|p| p.gates.specs = vec![GateSpec { retries, ..GateSpec::of_command(run) }])
}

/// What was found out about the claim that is open so far: the look at the workspace, and how many gates have spoken.
fn found(sim: &Sim) -> (Option<Box<Examination>>, usize) {
    sim.state.judging().map_or((None, 0), |judging| (judging.examined.clone(), judging.tries.len()))
}

fn commits() -> Policy {
    gated(&["g"]).with(|p| p.items[0].commit = Some(CommitRule { message: None }))
}

/// A red check that printed this.
fn red(tail: &str) -> Input {
    Input::GateFinished(Box::new(GateResult { output_tail: tail.into(), ..gate_result(1) }))
}

#[test]
fn a_claim_goes_its_way_step_by_step() {
    // req 32, req 34, faults A10 and A11: look, check, look again, commit, and only then done.
    let mut sim = Sim::told(commits());
    assert_eq!(sim.work(promises(0)), [AWAIT_CHILDREN]);
    assert_eq!(sim.work(no_children()), [Effect::Examine]);
    let step = sim.feed(examined());
    assert_eq!(names(&step.events), ["claim_examined", "gate_started"]);
    assert_eq!(work(&step), [runs_gate("g")]);
    let step = sim.feed(gate(0));
    assert_eq!(names(&step.events), ["gate_finished", "gates_passed"]);
    assert_eq!(work(&step), [Effect::Recheck { snapshot: Some("snap1".into()) }]);
    let step = sim.feed(rechecked(&[]));
    assert_eq!(step.events, [LoopEvent::TreeHeld { iteration: 1 }]);
    let commit =
        Effect::Commit { snapshot: "snap1".into(), iteration: 1, message: "TASK-001: complete".into() };
    assert_eq!(work(&step), [commit]);
    let step = sim.feed(commit_done(Ok(Some("c0ffee"))));
    assert_eq!(
        names(&step.events),
        ["committed", "claim_accepted", "iteration_finished", "receipt_issued", "loop_finished"]
    );
    assert_eq!((sim.over(), work(&step)), (Some(Reason::Done), vec![]));
}

#[test]
fn every_refusal_has_its_reason_and_its_words() {
    // req 180, req 185, faults A10, A11 and A12
    let fifo = exits_with(0, |r| r.facts.done = DoneFact::NotAFile("fifo"));
    let claims = || vec![promises(0), no_children()];
    let then = |inputs: Vec<Input>| [claims(), inputs].concat();
    let lacks = |reason| vec![MissingEvidence { item: None, reason }];
    let two = examined_with(|e| e.tampered = vec!["tests/a.rs".into(), "tests/b.rs".into()]);
    for (inputs, reason, detail) in [
        (vec![fifo], RefusalReason::Malformed, "DONE is a fifo, not a regular file"),
        (
            vec![promises(0), children(&["c1"], 1), children(&["c1"], 1)],
            RefusalReason::TreeChanged,
            "child loops would not end: c1",
        ),
        (
            then(vec![examined_with(|e| e.tampered = vec!["tests/a.rs".into()])]),
            RefusalReason::Tampered,
            "the protected path `tests/a.rs` was changed",
        ),
        (then(vec![two]), RefusalReason::Tampered, "the protected path `tests/a.rs` and 1 more was changed"),
        (
            then(vec![examined_with(|e| e.changed = 0)]),
            RefusalReason::Empty,
            "nothing was changed since the loop began",
        ),
        (
            then(vec![examined_with(|e| e.contradiction = Some("TODO: the rest".into()))]),
            RefusalReason::Contradiction,
            "Output contains contradictions to promise: TODO: the rest",
        ),
        (
            then(vec![examined_with(|e| e.missing_evidence = lacks(NoCommit))]),
            RefusalReason::NoEvidence,
            "No commit detected in coder output",
        ),
        (
            then(vec![examined_with(|e| e.missing_evidence = lacks(NoPassingTests))]),
            RefusalReason::NoEvidence,
            "No passing tests detected",
        ),
        (
            then(vec![examined_with(|e| e.missing_evidence = lacks(NoApproval))]),
            RefusalReason::NoEvidence,
            "No review approval detected",
        ),
        (then(vec![examined(), gate(2)]), RefusalReason::GateFailed, "gate `g` exited 2"),
        (
            then(vec![examined(), gate(0), rechecked(&["src/lib.rs", "b"])]),
            RefusalReason::TreeChanged,
            "`src/lib.rs` was changed while the claim was being checked; a gate that rewrites files on purpose, as a formatter does, has to check them instead",
        ),
    ] {
        let mut sim = Sim::told(gated(&["g"])).after(inputs);
        assert_eq!(sim.refusals(), [(reason, detail)]);
        assert_eq!(sim.outcomes(), [(1, IterationOutcome::Refused)], "{reason:?}");
        assert_eq!((sim.times("claim_accepted"), sim.times("receipt_issued")), (0, 0), "{reason:?}");
        assert_eq!((sim.state.phase.claim(), sim.state.phase.clone()), (None, Phase::Delaying), "{reason:?}");
        sim.feed(Input::DelayOver);
        let step = sim.feed(no_markers());
        let words = detail.strip_prefix("gate").unwrap_or(detail);
        assert!(prompts(&step)[0].contains(words), "{reason:?} is told: {}", prompts(&step)[0]);
    }
}

#[test]
fn of_several_refusals_the_first_of_the_order_is_told() {
    // req 179: tampered, empty, contradiction, evidence, then gates in their order, then the second look
    let all = |tampered: bool, empty: bool, contradicts: bool| {
        examined_with(|e| {
            e.missing_evidence = vec![MissingEvidence { item: None, reason: NoCommit }];
            e.tampered = if tampered { vec!["tests/a.rs".into()] } else { vec![] };
            e.changed = u64::from(!empty);
            e.contradiction = contradicts.then(|| "TODO: x".into());
        })
    };
    for (found, reason) in [
        (all(true, true, true), RefusalReason::Tampered),
        (all(true, false, true), RefusalReason::Tampered),
        (all(false, true, true), RefusalReason::Empty),
        (all(false, false, true), RefusalReason::Contradiction),
        (all(false, false, false), RefusalReason::NoEvidence),
    ] {
        let mut sim = claimed(gated(&["g"]));
        assert_eq!(sim.work(found), [DELAY], "no gate runs for a claim that is refused anyway");
        assert_eq!(sim.refusals()[0].0, reason);
        assert_eq!(sim.times("gate_started"), 0);
    }
    let sim = claimed(gated(&["a", "b"])).after([examined(), gate(0), gate(3)]);
    assert_eq!(sim.refusals(), [(RefusalReason::GateFailed, "gate `b` exited 3")]);
}

#[test]
fn a_claim_without_a_change_needs_leave_where_gates_are() {
    // fault A10
    let empty = || examined_with(|e| e.changed = 0);
    let until = |policy: Policy| {
        Sim::told(policy.with(|p| p.claims.until = vec!["u".into()])).after([
            exits(0),
            gate(0),
            no_children(),
        ])
    };
    let beside = exits_with(0, |r| (r.facts.promise, r.facts.done) = (Some("DONE".into()), DoneFact::File));
    for (mut sim, is_refused) in [
        (claimed(gated(&["g"])), true),
        (Sim::told(gated(&["g"])).after([beside, no_children()]), true),
        (claimed(policy(|_| {})), false),
        (claimed(gated(&["g"]).with(|p| p.claims.allow_empty = true)), false),
        (until(gated(&["g"])), false),
        (until(policy(|_| {})), false),
    ] {
        sim.feed(empty());
        assert_eq!(sim.refusals().len(), usize::from(is_refused));
        if !is_refused {
            let sim = sim.after([gate(0), rechecked(&[])]);
            assert_eq!(sim.over(), Some(Reason::Done));
        }
    }
    // Where dacapo looks after the branch, an agent may have moved it under the same files.
    let base = Base { branch: Some("unit/app".into()), ..base() };
    let policy = commits().with(|p| p.claims.allow_empty = true);
    let mut sim = Sim { is_told: true, ..Sim::begun(LoopStarted { base: Some(base), ..started(policy) }) };
    sim = sim.after([no_markers(), promises(0), no_children(), empty(), gate(0)]);
    assert!(matches!(sim.work(rechecked(&[]))[..], [Effect::Commit { .. }]));
    // Nothing changed, nothing to commit.
    let mut sim = claimed(commits().with(|p| p.claims.allow_empty = true)).after([empty(), gate(0)]);
    assert_eq!((sim.work(rechecked(&[])), sim.over()), (vec![], Some(Reason::Done)));
    // Where the workspace cannot be looked at, gates decide alone.
    let sim = claimed(gated(&["g"])).after([Input::Examined(None), gate(0), rechecked(&[])]);
    assert_eq!((sim.over(), sim.times("claim_examined")), (Some(Reason::Done), 0));
}

#[test]
fn an_old_done_is_left_to_the_gates_where_no_change_is_needed() {
    // fault A8; a claim of iteration 0.
    let begun = |red: bool| {
        let policy = gated(&["g"]).with(|p| p.claims.allow_empty = true);
        let mut sim = Sim { is_told: true, ..Sim::new(policy) };
        assert_eq!(sim.work(done_is(DoneFact::File)), [AWAIT_CHILDREN]);
        sim.after([no_children(), examined_with(|e| e.changed = 0), gate(i32::from(red))])
    };
    let done = begun(false).after([rechecked(&[])]);
    assert_eq!((done.over(), done.starts, done.outcomes()), (Some(Reason::Done), 0, vec![]));
    assert_eq!(done.times("receipt_issued"), 1);
    let red = begun(true);
    assert_eq!((red.over(), red.starts, red.times("iteration_finished")), (None, 1, 0));
    assert_eq!(
        red.state.conversation.feedback.as_ref().map(|f| (f.iteration, !f.gates.is_empty())),
        Some((0, true))
    );
    // Interrupted, it is judged again and not run twice.
    let mut cut = begun(false).after([CTRL_C]);
    assert_eq!(cut.work(resume()), [Effect::ConsumeWaitMarker, AWAIT_CHILDREN]);
    let cut = cut.after([no_children(), examined(), gate(0), rechecked(&[])]);
    assert_eq!((cut.over(), cut.starts), (Some(Reason::Done), 0));
}

#[test]
fn a_changed_protected_path_refuses_unless_gates_see_the_old_one() {
    // fault A12; protection holds without gates too, and for dacapo's own claims.
    let tampered = || examined_with(|e| e.tampered = vec!["tests/a.rs".into()]);
    let table: [(Bend, bool); 4] = [
        (|_| {}, true),
        (|p| p.gates.specs = vec![GateSpec::of_command("g")], true),
        (|p| p.claims.allow_empty = true, true),
        (|p| (p.gates.specs, p.gates.from) = (vec![GateSpec::of_command("g")], GateFrom::Base), false),
    ];
    for (bend, is_refused) in table {
        let sim = claimed(policy(bend)).after([tampered()]);
        assert_eq!(sim.refusals().len(), usize::from(is_refused));
        let until = Sim::told(policy(|p| {
            bend(p);
            p.claims.until = vec!["u".into()];
        }));
        let until = until.after([exits(0), gate(0), no_children(), tampered()]);
        assert_eq!(until.refusals().len(), usize::from(is_refused));
    }
}

#[test]
fn a_red_gate_is_tried_again_and_called_flaky_if_it_passes_then() {
    // req 33, req 34, req 35
    let mut sim = claimed(retried("g", 2)).after([examined()]);
    for attempt in 2..=3 {
        let step = sim.feed(gate(1));
        assert_eq!(names(&step.events), ["gate_finished", "gate_started"]);
        assert!(
            matches!(&step.events[1], LoopEvent::GateStarted { index: 0, attempt: a, .. } if *a == attempt)
        );
        assert!(matches!(&work(&step)[..], [Effect::RunGate { role: GateRole::Gate, .. }]));
    }
    let mut red = sim.clone();
    red.feed(gate(1));
    assert_eq!(
        red.refusals(),
        [(RefusalReason::GateFailed, "gate `g` exited 1")],
        "refused once, at the end"
    );
    let step = sim.feed(gate(0));
    assert!(
        matches!(&step.events[0], LoopEvent::GateFinished { result, .. } if result.passed && result.flaky)
    );
    assert_eq!(sim.state.progress.failure, None, "what passed in the end failed nothing");
    let sim = sim.after([rechecked(&[])]);
    assert_eq!((sim.over(), sim.times("gate_started")), (Some(Reason::Done), 3));
    // One that passes at once is not flaky; without retries one red is enough.
    let mut once = claimed(retried("g", 2)).after([examined()]);
    let step = once.feed(gate(0));
    assert!(matches!(&step.events[0], LoopEvent::GateFinished { result, .. } if !result.flaky));
    assert_eq!(claimed(retried("g", 0)).after([examined(), gate(1)]).refusals().len(), 1);
}

#[test]
fn gates_run_before_the_first_agent_where_their_past_counts() {
    let table: [(Bend, bool); 5] = [
        (|_| {}, false),
        (|p| p.gates.baseline = true, true),
        (|p| p.gates.red_first = true, true),
        (|p| p.gates.tolerate_baseline = true, true),
        (|p| (p.gates.baseline, p.gates.specs) = (true, vec![]), false),
    ];
    for (bend, runs) in table {
        let mut policy = gated(&["a", "a", "b"]);
        bend(&mut policy);
        let mut sim = Sim::new(policy);
        assert_eq!(sim.times("gate_started"), usize::from(runs));
        if runs {
            // They run with any result, and also where two have the same command line.
            assert_eq!(sim.work(red("boom")), [runs_baseline("a")]);
            assert_eq!(sim.work(gate(1)), [runs_baseline("b")]);
            assert_eq!(sim.work(gate(1)), [Effect::ReadMarkers]);
            assert_eq!(sim.state.baseline.len(), 2, "by name");
        }
        assert_eq!(sim.state.phase, Phase::Looking);
        assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, .. }]));
        assert_eq!(sim.outcomes(), [], "nothing is charged for it");
        // Not again when the loop has begun.
        let mut again = sim.after([Input::OwnerDied]);
        assert_eq!(again.work(resume()), [Effect::ConsumeWaitMarker, Effect::ReadMarkers]);
    }
}

#[test]
fn a_baseline_that_was_cut_short_begins_anew() {
    // req 203: a stop, a crash and a full disk between its gates
    for cut in [vec![CTRL_C, gate(-1)], vec![Input::OwnerDied], vec![Input::DiskFailed("full".into())]] {
        let mut sim = Sim::new(gated(&["a", "b"]).with(|p| p.gates.baseline = true)).after([gate(1)]);
        let before = sim.times("gate_finished");
        sim = sim.after(cut.clone());
        assert_eq!((sim.times("gate_finished"), sim.outcomes()), (before, vec![]), "{cut:?}");
        assert_eq!(sim.work(resume()), [Effect::ConsumeWaitMarker, runs_baseline("a")], "{cut:?}");
        assert_eq!(sim.work(gate(0)), [runs_baseline("b")], "{cut:?}");
        assert_eq!(sim.work(gate(0)), [Effect::ReadMarkers], "{cut:?}");
        assert_eq!(sim.state.baseline.values().collect::<Vec<_>>(), ["", ""], "{cut:?}");
    }
    // A pause lets it end and holds before the first agent; then it does not run again.
    let mut sim = Sim::new(gated(&["a"]).with(|p| p.gates.baseline = true));
    for pause in [PAUSE, PAUSE_NOW] {
        assert_eq!(sim.work(pause), []);
    }
    assert_eq!(sim.work(gate(1)), [Effect::ReadMarkers]);
    assert_eq!(names(&sim.feed(no_markers()).events), ["paused"]);
    assert_eq!(sim.work(UNPAUSE), [Effect::ReadMarkers]);
    assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, .. }]));
    // An old DONE waits for it like an agent does.
    let sim =
        Sim::new(gated(&["a"]).with(|p| p.gates.baseline = true)).after([gate(1), done_is(DoneFact::File)]);
    assert_eq!((sim.refusals()[0].0, sim.starts), (RefusalReason::Empty, 1));
}

#[test]
fn red_first_ends_a_loop_whose_gate_is_green_already() {
    // fault A10: a gate that passes without work proves nothing.
    let red_first = || Sim::new(gated(&["a", "b"]).with(|p| p.gates.red_first = true));
    let mut sim = red_first().after([gate(1)]);
    assert_eq!(sim.work(gate(0)), []);
    let detail = "gate `b` passes before any work was done; red-first demands that it fails";
    assert_eq!((sim.over(), sim.detail(), sim.starts), (Some(Reason::Error), detail, 0));
    // A resume does not get round it.
    assert_eq!(sim.work(resume()), [Effect::ConsumeWaitMarker, runs_baseline("a")]);
    let sim = sim.after([gate(1), gate(0)]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::Error), 0));
    let sim = red_first().after([gate(1), gate(1), no_markers()]);
    assert_eq!((sim.over(), sim.starts), (None, 1));
}

#[test]
fn a_gate_may_stay_red_as_it_was_if_that_is_tolerated() {
    // The same failure only, run after run.
    let before = "test a ... FAILED in 0.31s";
    let judged = |tolerates: bool, now: Input| {
        let policy = gated(&["a"]).with(|p| {
            p.gates.baseline = true;
            p.gates.tolerate_baseline = tolerates;
        });
        Sim::new(policy).after([red(before), no_markers(), promises(0), no_children(), now])
    };
    let same = || red("test a ... FAILED in 7.2s");
    let tolerated = judged(true, same());
    assert_eq!(tolerated.over(), Some(Reason::Done));
    assert!(tolerated.journal.iter().any(
        |e| matches!(e, LoopEvent::GateFinished { role: GateRole::Gate, result, .. } if result.tolerated)
    ));
    assert_eq!(judged(true, gate(0)).over(), Some(Reason::Done));
    for sim in [judged(false, same()), judged(true, red("test b ... FAILED"))] {
        assert_eq!((sim.over(), sim.refusals()[0].0), (None, RefusalReason::GateFailed));
        // The agent is told that it did not break it.
        let mut sim = sim.after([Input::DelayOver]);
        assert!(prompts(&sim.feed(no_markers()))[0].contains("It failed before the loop began, too.\n"));
    }
    let policy = gated(&["a"]).with(|p| p.gates.baseline = true);
    let mut sim = Sim::new(policy).after([gate(0), no_markers(), promises(0), no_children(), gate(1)]);
    sim.feed(Input::DelayOver);
    assert!(!prompts(&sim.feed(no_markers()))[0].contains("before the loop began, too"), "it broke it");
}

#[test]
fn a_commit_is_told_once_however_often_it_is_tried() {
    // fault G7: the crash may fall before or behind the commit itself.
    let committing = || claimed(commits()).after([examined(), gate(0), rechecked(&[])]);
    let again = |found: Input| [resume(), no_children(), found, gate(0), rechecked(&[])];
    let own = || examined_with(|e| e.commits = vec!["c0ffee".into()]);
    for cut in [Input::OwnerDied, CTRL_C, Input::DiskFailed("full".into()), commit_done(Err("locked"))] {
        for found in [examined(), own()] {
            let mut sim = committing().after([cut.clone()]);
            assert!(sim.over().is_some_and(Reason::is_resumable), "{cut:?}");
            assert_eq!(sim.times("claim_accepted"), 0, "{cut:?}");
            sim = sim.after(again(found));
            assert_eq!(sim.over(), None, "{cut:?}: it is committed first");
            sim.feed(commit_done(Ok(Some("c0ffee"))));
            assert_eq!(sim.over(), Some(Reason::Done), "{cut:?}");
            for (name, times) in [("committed", 1), ("claim_made", 1), ("receipt_issued", 1)] {
                assert_eq!(sim.times(name), times, "{cut:?}: {name}");
            }
            let receipt = receipts::of(&sim);
            assert_eq!(receipt.commits, ["c0ffee"], "{cut:?}");
            assert_eq!(receipt.gates.len(), 1, "{cut:?}: each gate once, however often it ran");
        }
    }
    let failed = committing().after([commit_done(Err("locked"))]);
    assert_eq!(
        (failed.over(), failed.detail()),
        (Some(Reason::Error), "the kept tree could not be committed: locked")
    );
    // Written down, but not the end of the loop: it is not written down again.
    let mut sim = committing();
    let torn = LoopEvent::Committed { iteration: 1, commit: "c0ffee".into(), item: None };
    sim.state.apply(&torn);
    sim.journal.push(torn);
    let sim = sim.after([Input::OwnerDied]).after(again(own())).after([commit_done(Ok(Some("c0ffee")))]);
    assert_eq!((sim.over(), sim.times("committed")), (Some(Reason::Done), 1));
    assert_eq!(receipts::of(&sim).commits, ["c0ffee"]);
    // There already, by the agent's own hand.
    let sim = committing().after([commit_done(Ok(None))]);
    assert_eq!((sim.over(), sim.times("committed")), (Some(Reason::Done), 0));
    let worded = CommitRule { message: Some("feat: x".into()) };
    let mut sim = claimed(policy(|_| {}).with(|p| p.items[0].commit = Some(worded))).after([examined()]);
    assert!(matches!(&work(&sim.feed(rechecked(&[])))[..],
        [Effect::Commit { message, .. }] if message == "feat: x"));
}

#[test]
fn a_stop_between_a_look_and_its_answer_leaves_the_claim_open() {
    // req 92, fault A11: late answers say nothing, and the claim is judged anew on what is there then.
    let looks = |gates: usize| match gates {
        0 => (claimed(gated(&["g"])), examined()),
        1 => (claimed(gated(&["g"])).after([examined(), gate(0)]), rechecked(&[])),
        _ => {
            (claimed(commits()).after([examined(), gate(0), rechecked(&[])]), commit_done(Ok(Some("c0ffee"))))
        }
    };
    for at in 0..3 {
        for cut in [CTRL_C, Input::OwnerDied, Input::DiskFailed("full".into())] {
            let (sim, late) = looks(at);
            let mut sim = sim.after([cut.clone()]);
            assert!(sim.over().is_some() && sim.state.phase.claim().is_some(), "{cut:?}");
            assert_eq!(sim.feed(late), Step::default(), "{cut:?}");
            let mut sim = sim.after([resume(), no_children()]);
            assert_eq!(found(&sim), (None, 0), "{cut:?}");
            sim.feed(examined_with(|e| e.tampered = vec!["tests/a.rs".into()]));
            assert_eq!(sim.refusals()[0].0, RefusalReason::Tampered, "{cut:?}");
            assert_eq!(sim.outcomes(), [(1, IterationOutcome::Refused)], "{cut:?}");
        }
        let (sim, late) = looks(at);
        let mut sim = sim.after([CANCEL]);
        assert_eq!((sim.over(), sim.state.phase.claim().cloned()), (Some(Reason::Cancelled), None));
        assert_eq!(sim.feed(late), Step::default());
    }
}

#[test]
fn nothing_of_an_older_claim_speaks_for_a_newer_one() {
    // faults A8 and A11
    let mut sim = claimed(gated(&["g"])).after([examined(), gate(0), rechecked(&["x"])]);
    sim = sim.after([Input::DelayOver, no_markers(), promises(0)]);
    assert_eq!(found(&sim), (None, 0));
    for stale in [rechecked(&[]), gate(0), commit_done(Ok(None))] {
        assert_eq!(sim.feed(stale), Step::default());
    }
    let other = examined_with(|e| (e.snapshot, e.tree) = ("snap2".into(), "tree2".into()));
    let mut sim = sim.after([no_children(), other]);
    assert_eq!(sim.work(gate(0)), [Effect::Recheck { snapshot: Some("snap2".into()) }]);
    let receipt = receipts::of(&sim.after([rechecked(&[])]));
    assert_eq!((receipt.tree.as_deref(), receipt.gates.len()), (Some("tree2"), 1));
}

#[test]
fn a_workspace_that_cannot_be_looked_at_ends_the_loop_and_keeps_the_claim() {
    // fault A11: nothing can be proven about it.
    let fails = || Input::ExaminationFailed("no git".into());
    for sim in [claimed(gated(&["g"])), claimed(gated(&["g"])).after([examined(), gate(0)])] {
        let mut sim = sim.after([fails()]);
        assert_eq!(
            (sim.over(), sim.detail()),
            (Some(Reason::Error), "the workspace cannot be looked at: no git")
        );
        assert_eq!(sim.work(resume()), [Effect::ConsumeWaitMarker, AWAIT_CHILDREN]);
        let sim = sim.after([no_children(), examined(), gate(0), rechecked(&[])]);
        assert_eq!((sim.over(), sim.outcomes()), (Some(Reason::Done), vec![(1, IterationOutcome::Accepted)]));
    }
    let mut running = claimed(gated(&["g"])).after([examined()]);
    assert_eq!(running.feed(fails()), Step::default(), "a gate runs: it would be left alone");
}
