//! From a claim to its verdict: children, until commands, gates, markers.

use super::*;

#[test]
fn a_claim_without_gates_is_believed_once_children_have_ended() {
    // req 66, req 69, req 70, req 73
    let mut sim = Sim::running(policy(|_| {}));
    let step = sim.feed(writes_done(1));
    assert_eq!(
        step.events[1..],
        [
            LoopEvent::SignalSeen { iteration: 1, signal: Signal::DoneFile },
            LoopEvent::ClaimMade { iteration: 1, by: vec![Signal::DoneFile] },
        ]
    );
    assert_eq!(work(&step), [AWAIT_CHILDREN]);
    let step = sim.feed(no_children());
    let done = "task completed (DONE marker present, no active children)";
    assert_eq!(
        step.events[..5],
        [
            LoopEvent::ClaimExamined { iteration: 1, found: Box::new(examination()) },
            LoopEvent::GatesPassed { iteration: 1 },
            LoopEvent::TreeHeld { iteration: 1 },
            LoopEvent::ClaimAccepted { iteration: 1, verified: false },
            LoopEvent::IterationFinished {
                iteration: 1,
                outcome: IterationOutcome::Accepted,
                spent_ms: Millis(1000),
                progress: IterationProgress::Made
            },
        ]
    );
    assert_eq!(names(&step.events[5..]), ["receipt_issued", "loop_finished"]);
    let accepted = finished(Reason::Done, "the claim was accepted (DONE marker present)", 1);
    assert_eq!(step.events.last(), Some(&accepted));
    assert_eq!(posts(&step), [("FACT", "task TASK-001 completed after 1 iteration"), ("INFO", done)]);
    let to_project = |e: &Effect| matches!(e, Effect::Post(post) if post.to == BusTarget::Project);
    assert_eq!(step.effects.iter().map(to_project).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn children_that_end_in_time_are_waited_for() {
    // req 69, req 71
    let mut sim = Sim::running(policy(|_| {})).after([promises(0)]);
    let step = sim.feed(Input::ChildrenFound(vec![loop_id("c1"), loop_id("c2")]));
    assert_eq!(step.events, [LoopEvent::ChildrenAwaited { children: vec![loop_id("c1"), loop_id("c2")] }]);
    assert_eq!(posts(&step), [("INFO", "waiting for child loops: c1, c2")]);
    let step = sim.feed(children(&[], 3000));
    assert_eq!(
        step.events[0],
        LoopEvent::ChildrenFinished { left: vec![], cancelled: false, waited_ms: Millis(3000) }
    );
    assert_eq!(
        (sim.over(), sim.detail()),
        (Some(Reason::Done), "the claim was accepted (promise); its child loops have ended")
    );
}

#[test]
fn children_that_outlast_the_wait_are_left_alone_without_gates() {
    // req 71, B2 001/8 and 9: a WARNING and success, and no word of their having ended.
    let mut sim = Sim::running(policy(|_| {})).after([promises(0)]);
    let step = sim.feed(children(&["c1"], 300_000));
    assert_eq!(
        step.events[..2],
        [
            LoopEvent::ChildrenFinished {
                left: vec![loop_id("c1")],
                cancelled: false,
                waited_ms: Millis(300_000)
            },
            LoopEvent::Warned { text: "child loops still running, left alone: c1".into() },
        ]
    );
    assert_eq!(posts(&step)[0], ("WARNING", "child loops still running after the wait: c1"));
    assert_eq!(work(&step), []);
    assert_eq!(
        (sim.over(), sim.detail()),
        (Some(Reason::Done), "the claim was accepted (promise); its child loops still run")
    );
}

#[test]
fn children_that_outlast_the_wait_are_cancelled_before_gates() {
    // Child loops and gates.
    let waits = || Sim::running(gated(&["g"])).after([promises(0)]);
    let mut sim = waits();
    let step = sim.feed(children(&["c1"], 300_000));
    let cancelled = LoopEvent::ChildrenFinished {
        left: vec![loop_id("c1")],
        cancelled: true,
        waited_ms: Millis(300_000),
    };
    let told = LoopEvent::Warned { text: "child loops outlast the wait and are cancelled: c1".into() };
    assert_eq!(step.events, [cancelled, told]);
    let shorter = Effect::AwaitChildren { timeout: Millis::from_secs(20), every: Millis::from_secs(1) };
    assert_eq!(step.effects, [Effect::CancelChildren, shorter]);
    assert_eq!(sim.clone().work(no_children()), [runs_gate("g")]);
    assert_eq!(sim.clone().work(children(&[], 500)), [runs_gate("g")]);
    // The children would not end: they may still write, so nothing can be checked.
    let step = sim.feed(children(&["c1"], 20_000));
    assert_eq!(
        step.events[1],
        LoopEvent::ClaimRefused {
            iteration: 1,
            reason: RefusalReason::TreeChanged,
            detail: "child loops would not end: c1".into()
        }
    );
    assert_eq!(work(&step), [DELAY]);
    // Cancelled meanwhile: no success (req 71).
    let mut sim = waits();
    sim.feed(CTRL_C);
    assert_eq!(sim.over(), Some(Reason::Interrupted));
    assert_eq!(sim.feed(no_children()), Step::default());
}

#[test]
fn gates_run_one_after_the_other_and_all_must_pass() {
    // also when two have the same command line
    let mut sim = Sim::running(gated(&["a", "b", "a"])).after([promises(0)]);
    assert_eq!(sim.work(no_children()), [runs_gate("a")]);
    assert_eq!(sim.work(gate(0)), [runs_gate("b")]);
    let step = sim.feed(gate(0));
    assert_eq!(
        step.events,
        [
            LoopEvent::GateFinished {
                iteration: 1,
                role: GateRole::Gate,
                name: "b".into(),
                command: "b".into(),
                item: None,
                result: gate_result(0),
                look: Default::default(),
            },
            LoopEvent::GateStarted {
                iteration: 1,
                role: GateRole::Gate,
                name: "a".into(),
                command: "a".into(),
                index: 2,
                attempt: 1,
                item: None,
                expect: Default::default(),
                working_dir: None,
                look: Default::default(),
            },
        ]
    );
    assert!(matches!(sim.state.phase, Phase::Judging(JudgeStep::Gate { index: 2, attempt: 1, .. }, _)));
    let step = sim.feed(gate(0));
    assert_eq!(
        names(&step.events),
        [
            "gate_finished",
            "gates_passed",
            "tree_held",
            "claim_accepted",
            "iteration_finished",
            "receipt_issued",
            "loop_finished"
        ]
    );
    assert_eq!(step.events[3], LoopEvent::ClaimAccepted { iteration: 1, verified: true });
}

#[test]
fn a_red_gate_refuses_the_claim_and_the_next_ones_do_not_run() {
    let judged = || Sim::running(gated(&["a", "b"]));
    for (claims, aside) in [(promises(0), vec![]), (writes_done(0), vec![Effect::SetDoneAside])] {
        let mut sim = judged().after([claims, no_children()]);
        let step = sim.feed(gate(2));
        assert_eq!(
            step.events[1],
            LoopEvent::ClaimRefused {
                iteration: 1,
                reason: RefusalReason::GateFailed,
                detail: "gate `a` exited 2".into()
            }
        );
        assert_eq!(sim.outcomes(), [(1, IterationOutcome::Refused)]);
        assert_eq!(posts(&step)[0], ("WARNING", "claim refused: gate `a` exited 2"));
        assert_eq!(work(&step), [aside, vec![DELAY]].concat(), "a refused DONE is set aside");
        sim.feed(Input::DelayOver);
        assert!(prompts(&sim.feed(no_markers()))[0].contains("the check `a` exited 2"));
    }
    let mut sim = judged().after([promises(0), no_children()]);
    let timed_out = GateResult { failure: Some("ran longer than 5m".into()), ..gate_result(-1) };
    sim.feed(Input::GateFinished(Box::new(timed_out)));
    assert!(sim.journal.iter().any(|e| matches!(e, LoopEvent::ClaimRefused { detail, .. }
        if detail == "gate `a` ran longer than 5m")));
}

#[test]
fn until_commands_make_a_claim_when_all_exit_zero() {
    // A claim of dacapo: gates apply.
    let until = |gates: &[&str]| {
        let mut policy = gated(gates);
        policy.claims.until = vec!["u1 ".into(), "u2".into()];
        policy
    };
    let check = |run: &str| Effect::RunGate {
        gate: GateSpec::of_command(run),
        role: GateRole::Until,
        snapshot: None,
        look: Default::default(),
    };
    let mut sim = Sim::running(until(&["g"]));
    assert_eq!(sim.work(exits(1)), [check("u1 ")]);
    assert_eq!(sim.clone().work(gate(1)), [DELAY], "one red command is enough to go on");
    assert_eq!(sim.work(gate(0)), [check("u2")]);
    assert_eq!(sim.clone().work(gate(1)), [DELAY]);
    let step = sim.feed(gate(0));
    assert_eq!(
        step.events[1..],
        [
            LoopEvent::SignalSeen { iteration: 1, signal: Signal::UntilCommand },
            LoopEvent::ClaimMade { iteration: 1, by: vec![Signal::UntilCommand] },
        ]
    );
    assert_eq!(work(&step), [AWAIT_CHILDREN]);
    assert_eq!(sim.work(no_children()), [runs_gate("g")]);
    sim.feed(gate(0));
    assert_eq!((sim.over(), sim.detail()), (Some(Reason::Done), "the claim was accepted (until command)"));
    // Without gates it is believed; beside an agent's claim it is not asked; a wait still counts if it is red.
    let all_green = Sim::running(until(&[])).after([exits(1), gate(0), gate(0), no_children()]);
    assert_eq!(all_green.over(), Some(Reason::Done));
    assert_eq!(Sim::running(until(&["g"])).work(promises(0)), [AWAIT_CHILDREN]);
    assert_eq!(Sim::running(until(&[])).after([exits(42), gate(1)]).over(), Some(Reason::Waiting));
    assert_eq!(
        Sim::running(until(&[])).after([exits(42), gate(0), gate(0), no_children()]).over(),
        Some(Reason::Done)
    );
}

#[test]
fn an_old_done_is_believed_without_gates_and_refused_with_them() {
    // req 65, req 67
    let mut sim = Sim::new(policy(|_| {}));
    assert_eq!(
        sim.feed(done_is(DoneFact::File)),
        Step {
            events: vec![LoopEvent::ClaimMade { iteration: 0, by: vec![Signal::DoneFile] }],
            effects: vec![AWAIT_CHILDREN]
        }
    );
    let step = sim.feed(no_children());
    assert_eq!(
        names(&step.events),
        ["claim_examined", "gates_passed", "tree_held", "claim_accepted", "receipt_issued", "loop_finished"]
    );
    assert_eq!((sim.over(), sim.starts, sim.state.counters.iterations), (Some(Reason::Done), 0, 0));

    let mut sim = Sim::new(gated(&["g"]));
    let step = sim.feed(done_is(DoneFact::File));
    assert_eq!(names(&step.events), ["claim_made", "claim_refused", "iteration_started", "agent_started"]);
    assert!(matches!(&step.events[1], LoopEvent::ClaimRefused { reason: RefusalReason::Empty, .. }));
    assert!(matches!(work(&step)[..], [Effect::SetDoneAside, Effect::StartAgent { iteration: 1, .. }]));
}

#[test]
fn a_done_between_two_iterations_is_a_claim_too() {
    // req 60, req 98: a person touched DONE during the delay.
    let delaying = |policy| Sim::running(policy).after([exits(0), Input::DelayOver]);
    let sim = delaying(policy(|_| {})).after([done_is(DoneFact::File), no_children()]);
    assert_eq!((sim.over(), sim.starts), (Some(Reason::Done), 1));
    let mut sim = delaying(gated(&["g"])).after([done_is(DoneFact::File), no_children()]);
    let step = sim.feed(gate(1));
    assert_eq!(names(&step.events), ["gate_finished", "claim_refused", "iteration_started", "agent_started"]);
    assert!(matches!(work(&step)[..], [Effect::SetDoneAside, Effect::StartAgent { iteration: 2, .. }]));
    assert_eq!(sim.outcomes(), [(1, IterationOutcome::NoClaim)], "an iteration is closed once");
}

#[test]
fn a_done_that_cannot_be_looked_at_fails_the_loop() {
    // req 68: before the first run, between two and after one
    for (done, detail) in [
        (DoneFact::Directory, "DONE is a directory"),
        (DoneFact::Unreadable("permission denied".into()), "stat DONE: permission denied"),
    ] {
        let before = Sim::new(gated(&["g"])).after([done_is(done.clone())]);
        assert_eq!((before.over(), before.detail(), before.starts), (Some(Reason::Error), detail, 0));
        let between = Sim::running(policy(|_| {})).after([exits(0), Input::DelayOver, done_is(done.clone())]);
        assert_eq!((between.over(), between.detail(), between.starts), (Some(Reason::Error), detail, 1));
        let after = Sim::running(policy(|_| {})).after([exits_with(0, |r| r.facts.done = done.clone())]);
        assert_eq!((after.over(), after.detail()), (Some(Reason::Error), detail));
        assert_eq!(after.outcomes(), [(1, IterationOutcome::NoClaim)]);
        // Where the DONE file is no signal, what stands in its place does not matter.
        let mut deaf = Sim::new(policy(|p| p.claims.done_file = false));
        assert!(matches!(deaf.work(done_is(done.clone()))[..], [Effect::StartAgent { .. }]));
        assert_eq!(deaf.work(exits_with(0, |r| r.facts.done = done)), [DELAY]);
    }
}

#[test]
fn a_malformed_done_is_refused_unless_a_better_signal_stands_beside_it() {
    // A link, FIFO or device is a refused claim.
    let fifo = || DoneFact::NotAFile("fifo");
    let mut sim = Sim::new(policy(|_| {}));
    let step = sim.feed(done_is(fifo()));
    assert!(matches!(work(&step)[..], [Effect::SetDoneAside, Effect::StartAgent { iteration: 1, .. }]));
    let step = sim.feed(exits_with(0, |r| r.facts.done = fifo()));
    assert_eq!(
        names(&step.events),
        ["agent_exited", "signal_seen", "claim_made", "claim_refused", "iteration_finished"]
    );
    assert_eq!(
        step.events[3],
        LoopEvent::ClaimRefused {
            iteration: 1,
            reason: RefusalReason::Malformed,
            detail: "DONE is a fifo, not a regular file".into()
        }
    );
    assert_eq!(work(&step), [Effect::SetDoneAside, DELAY]);
    let both = exits_with(0, |r| (r.facts.promise, r.facts.done) = (Some("DONE".into()), fifo()));
    assert_eq!(Sim::running(policy(|_| {})).after([both, no_children()]).over(), Some(Reason::Done));
}

#[test]
fn a_near_miss_is_told_to_the_next_agent_and_forgotten() {
    let misses = exits_with(0, |r| r.facts.near_miss = Some(MissReason::InCode));
    let mut sim = Sim::running(policy(|_| {})).after([misses, Input::DelayOver]);
    assert!(prompts(&sim.feed(no_markers()))[0].contains("Your promise in iteration 1 did not count"));
    let mut sim = sim.after([exits(0), Input::DelayOver]);
    assert!(!prompts(&sim.feed(no_markers()))[0].contains("did not count"));
}
