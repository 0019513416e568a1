//! What must come first, and what a crash leaves behind.

use super::*;

#[test]
fn a_loop_starts_once_the_tasks_before_it_are_done() {
    // req 99
    let after = vec![task_id("a"), task_id("b")];
    let mut sim = Sim::default();
    let started = LoopStarted { after: after.clone(), ..started(policy(|_| {})) };
    assert_eq!(
        sim.work(Input::Begin(Box::new(Begin { started, warnings: vec![] }))),
        [Effect::ConsumeWaitMarker, Effect::AwaitTasks { tasks: after, every: Millis::from_secs(1) }]
    );
    let missing = vec![task_id("b")];
    assert_eq!(
        sim.feed(Input::TasksLookedAt { missing: missing.clone() }),
        Step { events: vec![LoopEvent::TasksAwaited { tasks: missing }], effects: vec![] }
    );
    assert_eq!(sim.feed(no_markers()), Step::default());
    // A loop that died waiting waits again.
    let mut died = sim.clone().after([Input::OwnerDied]);
    assert!(matches!(died.work(resume())[..], [Effect::ConsumeWaitMarker, Effect::AwaitTasks { .. }]));
    assert_eq!(sim.work(Input::TasksLookedAt { missing: vec![] }), [Effect::ReadMarkers]);
    assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { iteration: 1, .. }]));
    assert_eq!(sim.feed(Input::TasksLookedAt { missing: vec![] }), Step::default());
    // Once it has begun it does not wait for them again.
    let mut died = sim.after([Input::OwnerDied]);
    assert_eq!(died.work(resume()), [Effect::ConsumeWaitMarker, Effect::ReadMarkers]);
}

#[test]
fn a_crash_is_recorded_in_every_phase() {
    // req 203, fault B7: a running iteration is closed as interrupted and stays charged.
    for (name, mut sim) in in_every_phase() {
        let (iterations, claim) = (charged(&sim), sim.state.phase.claim().cloned());
        let step = sim.feed(Input::OwnerDied);
        let end = finished(Reason::Interrupted, "dacapo died while the loop was running", iterations);
        let cut = matches!(name, "running" | "until");
        assert_eq!(names(&step.events).len(), if cut { 2 } else { 1 }, "{name}");
        assert_eq!(step.events.last(), Some(&end), "{name}");
        assert_eq!(work(&step), [], "{name}: no supervisor is there to do it");
        assert_eq!(sim.state.phase.claim().cloned(), claim, "{name}");
        if cut {
            assert_eq!(sim.outcomes(), [(1, IterationOutcome::Interrupted)], "{name}");
        }
        assert_eq!(sim.feed(Input::OwnerDied), Step::default(), "{name}: said once");
        let step = sim.feed(resume());
        assert_eq!(names(&step.events)[0], "loop_resumed", "{name}");
        let says_more = matches!(name, "baseline" | "parked");
        assert_eq!(step.events.len(), if says_more { 2 } else { 1 }, "{name}");
        let goes_on = match name {
            "baseline" => runs_baseline("g"),
            "awaiting" => Effect::AwaitTasks { tasks: vec![task_id("first")], every: Millis::from_secs(1) },
            name if has_claim(name) => AWAIT_CHILDREN,
            "parked" => parks(),
            _ => Effect::ReadMarkers,
        };
        assert_eq!(work(&step), [Effect::ConsumeWaitMarker, goes_on], "{name}");
    }
}

#[test]
fn no_number_is_used_twice_and_no_counter_is_reset() {
    // req 203, fault B7: killed and resumed ten times, the limit still bites.
    let mut sim = Sim::new(policy(|p| p.limits.max_iterations = 10));
    for iteration in 1..=10 {
        assert!(matches!(sim.work(no_markers())[..],
            [Effect::StartAgent { iteration: i, attempt: a, .. }] if i == iteration && a == iteration));
        sim.feed(Input::OwnerDied);
        sim.feed(resume());
    }
    assert_eq!(sim.work(no_markers()), []);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::MaxIterations), 10));
}

#[test]
fn a_resume_raises_limits_only_by_what_is_typed() {
    // req 203, fault B2
    let spent = Sim::new(policy(|p| p.limits.max_iterations = 2)).run_out();
    let mut same = spent.clone().after([resume()]);
    assert_eq!((same.work(no_markers()), same.over()), (vec![], Some(Reason::MaxIterations)));
    let extra = Input::Resume {
        grant: Grant { extra_iterations: 3, ..NOTHING },
        output: OutputMarks::default(),
        pid: 9,
    };
    let more = spent.after([extra.clone()]).run_out();
    assert_eq!((more.starts, more.state.counters.iterations), (5, 5));
    assert_eq!(more.after([extra]).run_out().starts, 8);

    let out_of_time = Sim::new(policy(|p| p.limits.max_time = Some(Millis(1)))).run_out();
    assert_eq!((out_of_time.over(), out_of_time.starts), (Some(Reason::MaxTime), 1));
    let mut same = out_of_time.clone().after([resume()]);
    assert_eq!((same.work(no_markers()), same.over()), (vec![], Some(Reason::MaxTime)));
    let longer = Input::Resume {
        grant: Grant { max_time_ms: Some(Millis(5000)), ..NOTHING },
        output: OutputMarks { stdout: 9, ..OutputMarks::default() },
        pid: 9,
    };
    let mut sim = out_of_time.after([longer]);
    assert_eq!((sim.state.limits.max_time, sim.state.output.end.stdout), (Some(Millis(5000)), 9));
    assert!(matches!(sim.work(no_markers())[..], [Effect::StartAgent { time_left: Some(Millis(4000)), .. }]));
}

#[test]
fn only_what_is_resumable_is_resumed() {
    // req 203
    assert_eq!(decide(&LoopState::default(), resume()), Step::default());
    for (name, mut sim) in in_every_phase() {
        assert_eq!(sim.feed(resume()), Step::default(), "{name}: alive");
    }
    for reason in [Reason::Done, Reason::Cancelled] {
        let mut sim = Sim::new(policy(|_| {}));
        sim.state.apply(&finished(reason, "", 0));
        assert_eq!(decide(&sim.state, resume()), Step::default(), "{reason:?}");
    }
    for reason in [
        Reason::Error,
        Reason::Agent,
        Reason::Disk,
        Reason::Lock,
        Reason::MaxIterations,
        Reason::MaxTime,
        Reason::Stuck,
        Reason::Waiting,
        Reason::Question,
        Reason::Blocked,
        Reason::Interrupted,
        Reason::Terminated,
    ] {
        let mut sim = Sim::new(policy(|_| {}));
        sim.state.apply(&finished(reason, "", 0));
        assert_eq!(names(&decide(&sim.state, resume()).events), ["loop_resumed"], "{reason:?}");
    }
}

#[test]
fn a_claim_without_verdict_survives_and_is_judged_again() {
    // req 203: from its first gate on, in its own iteration, and only once.
    let judging = || Sim::running(gated(&["a", "b"])).after([promises(0), no_children(), gate(0)]);
    for cut in [vec![Input::OwnerDied], vec![CTRL_C, gate(-1)], vec![Input::DiskFailed("full".into())]] {
        let mut sim = judging().after(cut.clone());
        assert!(sim.state.phase.claim().is_some(), "{cut:?}");
        assert_eq!(sim.work(resume()), [Effect::ConsumeWaitMarker, AWAIT_CHILDREN], "{cut:?}");
        assert_eq!(sim.work(no_children()), [runs_gate("a")], "{cut:?}");
        assert_eq!(sim.work(gate(0)), [runs_gate("b")], "{cut:?}");
        let red = sim.clone().after([gate(1)]);
        assert_eq!(red.outcomes(), [(1, IterationOutcome::Refused)], "{cut:?}");
        let green = sim.after([gate(0)]);
        assert_eq!((green.over(), green.starts), (Some(Reason::Done), 1), "{cut:?}");
        let claims = green.journal.iter().filter(|e| matches!(e, LoopEvent::ClaimMade { .. })).count();
        assert_eq!(claims, 1, "{cut:?}");
    }
}

#[test]
fn a_check_that_was_cut_short_says_nothing() {
    // Killed by our own signal, a gate is not red and an until command not either.
    let sim = Sim::running(gated(&["g"])).after([writes_done(0), no_children(), CTRL_C, gate(-1)]);
    assert!(!names(&sim.journal).iter().any(|n| n == "claim_refused" || n == "gate_finished"));
    let until = policy(|p| p.claims.until = vec!["u".into()]);
    let sim = Sim::running(until).after([exits(0), CTRL_C, gate(0)]);
    assert_eq!(
        (sim.over(), sim.outcomes()),
        (Some(Reason::Interrupted), vec![(1, IterationOutcome::Interrupted)])
    );
}

#[test]
fn a_cancel_under_way_is_carried_out_after_a_crash() {
    // req 194, req 203
    for (name, sim) in in_every_phase().into_iter().filter(|(name, _)| has_process(name)) {
        let mut sim = sim.after([CANCEL]);
        assert_eq!(sim.work(Input::OwnerDied), [Effect::CancelChildren], "{name}");
        assert_eq!(sim.over(), Some(Reason::Cancelled), "{name}");
        let sim = Sim::running(policy(|_| {})).after([CTRL_C, Input::OwnerDied]);
        assert_eq!(sim.over(), Some(Reason::Interrupted));
    }
}
