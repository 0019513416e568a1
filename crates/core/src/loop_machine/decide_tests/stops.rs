//! Every reason to stop, in every phase, and their order.

use super::*;

#[test]
fn every_reason_to_stop_is_recorded_once_and_last() {
    // req 63, req 65, req 66, req 68, req 74, req 86, req 87, req 88, req 90, req 202, fault B12
    type Bend = fn(&mut AgentReport);
    let facts = |bend: Bend| vec![exits_with(1, bend)];
    let broken =
        |is_fatal| Input::AgentNotStarted(StartFailure { detail: "no `x` on PATH".into(), is_fatal });
    let done = "the claim was accepted (DONE marker present)";
    for (inputs, reason, detail) in [
        (vec![writes_done(1), no_children()], Reason::Done, done),
        (vec![promises(1), no_children()], Reason::Done, "the claim was accepted (promise)"),
        (facts(|r| r.facts.done = DoneFact::Directory), Reason::Error, "DONE is a directory"),
        (facts(|r| r.facts.done = DoneFact::Unreadable("denied".into())), Reason::Error, "stat DONE: denied"),
        (vec![broken(true)], Reason::Agent, "no `x` on PATH"),
        (vec![Input::DiskFailed("no space".into())], Reason::Disk, "no space"),
        (vec![exits(42)], Reason::Waiting, "the agent waits (wait exit code)"),
        (facts(|r| r.facts.wait_marker = true), Reason::Waiting, "the agent waits (WAIT_WITHOUT_RESTART)"),
        (
            facts(|r| r.facts.messages = vec![("wait_without_restart".into(), " \n".into())]),
            Reason::Waiting,
            "the agent waits (wait message)",
        ),
        (
            facts(|r| {
                let words = "the password of the database\nor another one";
                r.facts.messages = vec![("wait_without_restart".into(), words.into())];
            }),
            Reason::Waiting,
            "the agent waits: the password of the database",
        ),
        (
            facts(|r| {
                r.facts.wait_marker = true;
                r.facts.messages = vec![("QUESTION".into(), "Which port?".into())];
            }),
            Reason::Question,
            "Which port?",
        ),
        (facts(|r| r.facts.blocked = Some("no key".into())), Reason::Blocked, "the agent is blocked: no key"),
        (
            facts(|r| {
                (r.facts.blocked, r.facts.wait_marker) = (Some("no key".into()), true);
                r.facts.messages = vec![("QUESTION".into(), "Which port?".into())];
            }),
            Reason::Blocked,
            "the agent is blocked: no key",
        ),
        (vec![CTRL_C, killed()], Reason::Interrupted, "interrupted by Ctrl-C"),
        (vec![Input::Signalled(StopCause::Terminate), killed()], Reason::Terminated, "terminated by SIGTERM"),
        (
            vec![Input::Signalled(StopCause::Hangup), killed()],
            Reason::Terminated,
            "the terminal is gone (SIGHUP)",
        ),
        (vec![CANCEL, killed()], Reason::Cancelled, "Cancelled Ralph loop for TASK-001 at iteration 1/100"),
        (vec![Input::OwnerDied], Reason::Interrupted, "dacapo died while the loop was running"),
    ] {
        let mut sim = Sim::running(policy(|_| {})).after(inputs.clone());
        assert_eq!(sim.journal.last(), Some(&finished(reason, detail, 1)), "{inputs:?}");
        let ends = sim.journal.iter().filter(|e| matches!(e, LoopEvent::LoopFinished { .. })).count();
        assert_eq!(ends, 1, "{inputs:?}");
        assert!(sim.state.iteration == Iteration::Closed, "{inputs:?}");
        for late in [exits(0), gate(0), no_children(), Input::DelayOver, no_markers(), CTRL_C, PAUSE, UNPAUSE]
        {
            assert_eq!(sim.feed(late), Step::default(), "nothing follows an end: {inputs:?}");
        }
    }
    // A start that may work next time is a failed iteration, no end.
    let mut sim = Sim::running(policy(|_| {}));
    assert_eq!(sim.work(broken(false)), [DELAY]);
    // A question alone holds nothing up.
    let asks = exits_with(0, |r| r.facts.messages = vec![("QUESTION".into(), "Which port?".into())]);
    let mut sim = Sim::running(policy(|_| {}));
    assert_eq!(sim.work(asks), [DELAY]);
    assert_eq!(sim.state.conversation.question.as_deref(), Some("Which port?"));
}

#[test]
fn of_several_reasons_the_first_of_the_order_counts() {
    // req 92: cancelled > done > fatal > waiting > limit, over verdicts; the only iteration is always the last one.
    type Bend = fn(&mut AgentReport);
    let done: Bend = |r| r.facts.done = DoneFact::File;
    let fatal: Bend = |r| r.facts.done = DoneFact::Directory;
    let waits: Bend = |r| r.facts.wait_marker = true;
    let nothing: Bend = |_| {};
    let both: Bend = |r| (r.facts.done, r.facts.wait_marker) = (DoneFact::File, true);
    let fatal_and_waits: Bend = |r| (r.facts.done, r.facts.wait_marker) = (DoneFact::Directory, true);
    let blocked: Bend = |r| r.facts.blocked = Some("no key".into());
    let done_and_blocked: Bend =
        |r| (r.facts.done, r.facts.blocked) = (DoneFact::File, Some("no key".into()));
    let fatal_and_blocked: Bend =
        |r| (r.facts.done, r.facts.blocked) = (DoneFact::Directory, Some("no key".into()));
    for (asked, bend, gate_exits, reason) in [
        (Some(CANCEL), blocked, 0, Reason::Cancelled),
        (Some(CTRL_C), blocked, 0, Reason::Interrupted),
        (None, blocked, 0, Reason::Blocked),
        (None, done_and_blocked, 0, Reason::Blocked),
        (None, fatal_and_blocked, 0, Reason::Error),
        (Some(CANCEL), done, 0, Reason::Cancelled),
        (Some(CANCEL), fatal, 0, Reason::Cancelled),
        (Some(CANCEL), waits, 0, Reason::Cancelled),
        (Some(CANCEL), nothing, 0, Reason::Cancelled),
        (Some(CTRL_C), done, 0, Reason::Interrupted),
        (None, done, 0, Reason::Done),
        (None, both, 0, Reason::Done),
        (None, fatal, 0, Reason::Error),
        (None, fatal_and_waits, 0, Reason::Error),
        (None, waits, 0, Reason::Waiting),
        (None, nothing, 0, Reason::MaxIterations),
        // A refused claim drops out and the next reason applies.
        (None, both, 1, Reason::Waiting),
        (None, done, 1, Reason::MaxIterations),
    ] {
        let mut policy = gated(&["g"]);
        policy.limits.max_iterations = 1;
        let sim =
            Sim::running(policy).after(asked).after([exits_with(0, bend), no_children(), gate(gate_exits)]);
        assert_eq!(sim.over(), Some(reason));
    }
    // A DONE that is a directory fails the loop, even beside a promise.
    let promise_beside_directory =
        exits_with(0, |r| (r.facts.promise, r.facts.done) = (Some("DONE".into()), DoneFact::Directory));
    assert_eq!(Sim::running(policy(|_| {})).after([promise_beside_directory]).over(), Some(Reason::Error));
}

#[test]
fn a_wait_is_said_on_the_bus() {
    // req 89
    let mut sim = Sim::running(policy(|_| {}));
    let step = sim.feed(exits(42));
    assert!(posts(&step).contains(&("INFO", "Wait-without-restart signal detected")));
    assert_eq!(sim.outcomes(), [(1, IterationOutcome::Waiting)]);
    assert_eq!(Reason::Waiting.exit_code(), 4);
}

#[test]
fn a_fatal_start_stops_or_restarts_as_the_policy_says() {
    // req 90, B1 row 8
    let fatal = || Input::AgentNotStarted(StartFailure { detail: "no `x` on PATH".into(), is_fatal: true });
    let mut sim = Sim::running(policy(|_| {}));
    let step = sim.feed(fatal());
    assert_eq!(
        step.events,
        [
            LoopEvent::IterationFinished {
                iteration: 1,
                outcome: IterationOutcome::NotStarted,
                spent_ms: Millis(0),
                progress: IterationProgress::None
            },
            finished(Reason::Agent, "no `x` on PATH", 1),
        ]
    );
    let mut sim = Sim::running(policy(|p| p.agent.fatal = OnFatal::Restart));
    let step = sim.feed(fatal());
    assert_eq!(names(&step.events), ["warned", "iteration_finished"]);
    assert_eq!(work(&step), [DELAY]);
}

#[test]
fn no_start_follows_a_stop_although_the_agent_never_started() {
    // req 63, req 92: asked to stop while a start fails; a stop outranks both.
    for is_fatal in [true, false] {
        for (asked, reason) in [(CANCEL, Reason::Cancelled), (CTRL_C, Reason::Interrupted)] {
            let mut sim = Sim::running(policy(|p| p.pace.restart_delay = Millis(0))).after([asked]);
            let failed = Input::AgentNotStarted(StartFailure { detail: "busy".into(), is_fatal });
            assert_eq!(sim.work(failed), []);
            assert_eq!(sim.over(), Some(reason));
            assert_eq!(sim.outcomes(), [(1, IterationOutcome::NotStarted)]);
        }
    }
}

#[test]
fn a_disk_that_fails_ends_the_loop_in_every_phase() {
    // req 90, req 202, fault B12
    for (name, mut sim) in in_every_phase() {
        let claim = sim.state.phase.claim().cloned();
        let step = sim.feed(Input::DiskFailed("full".into()));
        assert_eq!(work(&step), [KILL], "{name}");
        assert_eq!(sim.over(), Some(Reason::Disk), "{name}");
        assert_eq!(sim.state.phase.claim().cloned(), claim, "a claim without verdict stays: {name}");
        assert_eq!(sim.state.iteration != Iteration::Closed, claim.is_some() || name == "parked", "{name}");
    }
}

#[test]
fn a_cancel_ends_a_loop_in_every_phase() {
    // req 63, req 64, req 71, req 194, B1 row 18
    for (name, mut sim) in in_every_phase() {
        let line =
            format!("Cancelled Ralph loop for TASK-001 at iteration {}/100", sim.state.counters.iterations);
        let step = sim.feed(CANCEL);
        assert_eq!(step.events[0], LoopEvent::StopRequested { by: StopCause::Cancel }, "{name}");
        if has_process(name) {
            assert_eq!(work(&step), [Effect::CancelChildren, GRACE], "{name}");
            assert_eq!(sim.over(), None, "{name}: not before its process has ended");
            assert_eq!(sim.work(process_ends(name)), [], "{name}");
        } else {
            assert_eq!(work(&step), [Effect::CancelChildren], "{name}");
        }
        assert_eq!(sim.journal.last(), Some(&finished(Reason::Cancelled, &line, charged(&sim))), "{name}");
        assert_eq!(sim.state.phase.claim(), None, "{name}");
        for late in [resume(), CANCEL, steer("x"), Input::OwnerDied] {
            assert_eq!(sim.feed(late), Step::default(), "{name}: cancelled is for good");
        }
    }
}

#[test]
fn the_first_signal_asks_and_the_second_kills() {
    // req 63, req 64, req 82
    for (cause, reason) in [
        (StopCause::Interrupt, Reason::Interrupted),
        (StopCause::Terminate, Reason::Terminated),
        (StopCause::Hangup, Reason::Terminated),
    ] {
        for (name, mut sim) in in_every_phase() {
            let step = sim.feed(Input::Signalled(cause));
            assert_eq!(step.events[0], LoopEvent::StopRequested { by: cause }, "{name}");
            if has_process(name) {
                assert_eq!(work(&step), [Effect::CancelChildren, GRACE], "{name}");
                for _ in 0..2 {
                    let second = sim.feed(CTRL_C);
                    assert_eq!(second, Step { events: vec![], effects: vec![KILL] }, "{name}");
                }
                assert_eq!(sim.over(), None, "{name}");
                assert_eq!(sim.work(process_ends(name)), [], "{name}");
            } else {
                assert_eq!(work(&step), [Effect::CancelChildren], "{name}");
                assert_eq!(sim.over(), Some(reason), "{name}: nothing runs, it is over at once");
                assert_eq!(sim.feed(CTRL_C), Step::default(), "{name}");
            }
            assert_eq!(sim.over(), Some(reason), "{name}");
            // A claim without verdict stays open with its iteration, and so does one that was not charged; any other
            // iteration is closed.
            assert_eq!(
                (sim.state.phase.claim().is_some(), sim.state.iteration != Iteration::Closed),
                (has_claim(name), has_claim(name) || name == "parked"),
                "{name}"
            );
        }
    }
}

#[test]
fn a_cancel_outranks_a_signal_and_not_the_other_way_round() {
    // req 92
    let mut sim = Sim::running(policy(|_| {})).after([CTRL_C]);
    let step = sim.feed(CANCEL);
    assert_eq!(step.events, [LoopEvent::StopRequested { by: StopCause::Cancel }]);
    assert_eq!(step.effects, [Effect::CancelChildren, GRACE]);
    assert_eq!(sim.after([killed()]).over(), Some(Reason::Cancelled));
    let sim = Sim::running(policy(|_| {})).after([CANCEL, CTRL_C, killed()]);
    assert_eq!(sim.over(), Some(Reason::Cancelled));
}

#[test]
fn a_stopped_loop_can_be_cancelled_without_a_supervisor() {
    // req 194; its children may still run.
    let mut sim = Sim::running(policy(|_| {})).after([CTRL_C, killed()]);
    let step = sim.feed(CANCEL);
    assert_eq!(
        step.events,
        [finished(Reason::Cancelled, "Cancelled Ralph loop for TASK-001 at iteration 1/100", 1)]
    );
    assert_eq!(work(&step), [Effect::CancelChildren]);
    assert_eq!(sim.feed(resume()), Step::default());
    // What is done stays done.
    let mut sim = Sim::running(policy(|_| {})).after([promises(0), no_children()]);
    assert_eq!(sim.feed(CANCEL), Step::default());
}

#[test]
fn an_agent_that_fails_at_once_three_times_with_the_same_words_ends_the_loop() {
    // req 91
    let fails = |words: &'static str| {
        exits_with(2, move |r| {
            (r.exit.stdout_bytes, r.exit.duration_ms, r.stderr) = (0, Millis(40), words.to_owned());
        })
    };
    let next = || [Input::DelayOver, no_markers()];
    let rounds = |words: [&'static str; 3]| {
        let mut sim = Sim::running(policy(|_| {}));
        for (index, words) in words.into_iter().enumerate() {
            if index > 0 {
                sim = sim.after(next());
            }
            sim = sim.after([fails(words)]);
        }
        sim
    };
    let same = rounds(["usage: agent [-p]\nno option --yolo\n"; 3]);
    let detail = "the agent failed at once 3 times in a row and changed nothing: no option --yolo";
    assert_eq!(same.journal.last(), Some(&finished(Reason::Error, detail, 3)));
    assert!(matches!(rounds(["one", "other", "one"]).state.phase, Phase::Delaying));
    // A changed file is work.
    let mut sim = Sim::running(policy(|_| {}));
    for round in 0..3 {
        let works = exits_with(2, |r| {
            (r.exit.stdout_bytes, r.exit.duration_ms, r.stderr) = (0, Millis(40), "no".to_owned());
            r.snapshot = Some((format!("s{round}"), format!("t{round}")));
        });
        sim = sim.after([works]);
        assert!(matches!(sim.state.phase, Phase::Delaying), "round {round}");
        sim = sim.after(next());
    }
}
