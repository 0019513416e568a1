//! One turn of the loop, and the limits that end it.

use super::*;

#[test]
fn a_loop_begins_by_looking_for_a_done() {
    // req 60: the DONE check comes before the first run.
    let begin = Begin { started: started(policy(|_| {})), warnings: vec!["careful".into()] };
    assert_eq!(
        decide(&LoopState::default(), Input::Begin(Box::new(begin.clone()))),
        Step {
            events: vec![
                LoopEvent::LoopStarted(Box::new(begin.started)),
                LoopEvent::Warned { text: "careful".into() },
            ],
            effects: vec![Effect::ConsumeWaitMarker, Effect::ReadMarkers],
        }
    );
}

#[test]
fn an_iteration_is_recorded_before_its_agent_is_started() {
    // req 60, req 79, req 203: the trace of a start is there before the start.
    let mut sim = Sim::new(policy(|_| {}));
    let before = sim.state.clone();
    let nonce = prompt::nonce(&started(policy(|_| {})), 1);
    let step = sim.feed(no_markers());
    assert_eq!(
        step.events,
        [
            LoopEvent::IterationStarted { iteration: 1, max_iterations: 100 },
            LoopEvent::AgentStarted {
                iteration: 1,
                attempt: 1,
                agent: "fake-agent".into(),
                session: None,
                reserve: None,
                output: OutputMarks::default(),
            },
        ]
    );
    assert_eq!(posts(&step), [("RUN_START", "starting agent, restart #0")]);
    assert_eq!(
        work(&step),
        [Effect::StartAgent {
            agent: 0,
            session: None,
            iteration: 1,
            attempt: 1,
            prompt: prompt::compose(&before, 1, &nonce),
            nonce,
            time_left: None
        }]
    );
}

#[test]
fn a_turn_is_run_count_look_delay_look() {
    // req 60, req 78: run, count, DONE check, delay, DONE check, run; also after exit 0.
    let mut sim = Sim::running(policy(|_| {}));
    for iteration in 1..=4 {
        assert_eq!(sim.state.counters.iterations, iteration);
        let step = sim.feed(exits(0));
        assert_eq!(names(&step.events), ["agent_exited", "iteration_finished"]);
        assert_eq!(work(&step), [DELAY]);
        assert_eq!(sim.feed(Input::DelayOver), Step { events: vec![], effects: vec![Effect::ReadMarkers] });
        assert_eq!(names(&sim.feed(no_markers()).events), ["iteration_started", "agent_started"]);
    }
}

#[test]
fn no_exit_by_itself_stops_a_loop() {
    // req 76, req 77, req 79, req 80, req 84, req 91: every end of an agent is told on the bus, and the loop goes on.
    type Bend = fn(&mut AgentReport);
    type Posts = Vec<(&'static str, &'static str)>;
    let signalled: Bend =
        |r| (r.exit.exit_code, r.exit.signal, r.exit.outcome) = (None, Some(9), Outcome::Crash);
    let timeout: Bend =
        |r| (r.exit.exit_code, r.exit.signal, r.exit.outcome) = (None, Some(15), Outcome::Timeout);
    let restarting = ("INFO", "restarting (attempt 2/100)");
    let table: [(i32, Bend, Posts); 6] = [
        (0, |_| {}, vec![("RUN_STOP", "agent exited with code 0, restart #0"), restarting]),
        (
            1,
            |_| {},
            vec![
                ("RUN_STOP", "agent ended: exit code 1, restart #0"),
                ("WARNING", "agent failed on restart #0: exit code 1 (attempt 1/100)"),
                restarting,
            ],
        ),
        (
            127,
            |_| {},
            vec![
                ("RUN_STOP", "agent ended: exit code 127, restart #0"),
                ("WARNING", "agent failed on restart #0: exit code 127 (attempt 1/100)"),
                restarting,
            ],
        ),
        (
            0,
            signalled,
            vec![
                ("RUN_CRASH", "agent ended: signal 9, restart #0"),
                ("WARNING", "agent failed on restart #0: signal 9 (attempt 1/100)"),
                restarting,
            ],
        ),
        (
            0,
            timeout,
            vec![
                ("WARNING", "Agent timeout after 5m0s, killing process group"),
                ("RUN_CRASH", "agent ended: timeout, restart #0"),
                ("WARNING", "agent failed on restart #0: timeout (attempt 1/100)"),
                restarting,
            ],
        ),
        (
            3,
            |r| r.exit.outcome = Outcome::Hang,
            vec![
                ("RUN_STOP", "agent ended: no output for too long, restart #0"),
                ("WARNING", "agent failed on restart #0: no output for too long (attempt 1/100)"),
                restarting,
            ],
        ),
    ];
    for (code, bend, told) in table {
        let mut sim = Sim::running(policy(|p| p.limits.iteration_timeout = Some(Millis::from_mins(5))));
        let step = sim.feed(exits_with(code, bend));
        assert_eq!(work(&step), [DELAY], "{told:?}");
        assert_eq!(posts(&step), told);
    }
}

#[test]
fn without_a_delay_the_next_agent_starts_at_once() {
    // req 78
    let mut sim = Sim::running(policy(|p| p.pace.restart_delay = Millis(0)));
    let step = sim.feed(exits(0));
    assert_eq!(
        names(&step.events),
        ["agent_exited", "iteration_finished", "iteration_started", "agent_started"]
    );
    assert!(matches!(work(&step)[..], [Effect::StartAgent { iteration: 2, attempt: 2, .. }]));
}

#[test]
fn output_over_the_cap_is_said() {
    let mut sim = Sim::running(policy(|_| {}));
    let step = sim.feed(exits_with(0, |r| r.exit.dropped_bytes = 5));
    assert_eq!(
        step.events[1],
        LoopEvent::Warned { text: "output over the cap: 5 bytes were read but not kept".into() }
    );
}

#[test]
fn max_n_means_exactly_n_runs() {
    // req 74, req 75, req 186, fault B1, fault B2: nothing but a person raises the limit.
    for max in [1, 2, 3, 7] {
        for delay in [0, 1000] {
            let sim =
                Sim::new(policy(|p| (p.limits.max_iterations, p.pace.restart_delay) = (max, Millis(delay))))
                    .run_out();
            assert_eq!(sim.starts, max);
            assert_eq!(
                sim.journal.last(),
                Some(&finished(
                    Reason::MaxIterations,
                    &format!("{} used without an accepted claim", crate::text::count(max, "iteration")),
                    max
                ))
            );
        }
    }
    let mut sim = Sim::running(policy(|p| p.limits.max_iterations = 1));
    assert_eq!(
        posts(&sim.feed(exits(0))).last(),
        Some(&("ERROR", "max restarts exceeded: 1 iteration used without an accepted claim"))
    );
}

#[test]
fn refused_and_failed_starts_count_too() {
    // req 75, fault B1
    let mut promise_only = gated(&["g"]);
    (promise_only.limits.max_iterations, promise_only.pace.restart_delay) = (3, Millis(0));
    let mut sim = Sim::running(promise_only);
    while sim.over().is_none() {
        sim.feed(promises(0));
        sim.feed(no_children());
        sim.feed(gate(1));
    }
    assert_eq!((sim.starts, sim.over()), (3, Some(Reason::MaxIterations)));

    let mut sim = Sim::running(policy(|p| (p.limits.max_iterations, p.pace.restart_delay) = (3, Millis(0))));
    while sim.over().is_none() {
        sim.feed(Input::AgentNotStarted(StartFailure { detail: "busy".into(), is_fatal: false }));
    }
    assert_eq!((sim.starts, sim.over()), (3, Some(Reason::MaxIterations)));
}

#[test]
fn a_claim_in_the_last_allowed_iteration_counts() {
    // req 60, req 66: the DONE check comes before the max check.
    for claims in [promises(0), promises(1), writes_done(0), writes_done(137)] {
        for policy in [policy(|p| p.limits.max_iterations = 1), {
            let mut policy = gated(&["g"]);
            (policy.limits.max_iterations, policy.limits.max_time) = (1, Some(Millis(1)));
            policy
        }] {
            let sim = Sim::running(policy).after([claims.clone(), no_children(), gate(0)]);
            assert_eq!((sim.over(), sim.starts), (Some(Reason::Done), 1), "{claims:?}");
            assert_eq!(sim.outcomes(), [(1, IterationOutcome::Accepted)]);
        }
    }
}

#[test]
fn time_is_spent_by_agents_checks_children_and_delays() {
    // B1 row 16: one budget over all of it; a delay is charged when it begins.
    let mut policy = gated(&["g"]);
    policy.limits.max_time = Some(Millis(20_000));
    let mut sim = Sim::running(policy);
    for (input, spent) in [
        (promises(0), 1000),
        (children(&[], 2000), 3000),
        (gate(1), 5000), // the check, then the delay
        (Input::DelayOver, 5000),
    ] {
        sim.feed(input);
        assert_eq!(sim.state.counters.spent, Millis(spent));
    }
    assert!(
        matches!(sim.work(no_markers())[..], [Effect::StartAgent { time_left: Some(Millis(15_000)), .. }]),
        "the next agent is told what is left"
    );
    sim.feed(exits_with(0, |r| (r.exit.duration_ms, r.exit.outcome) = (Millis(15_000), Outcome::OutOfTime)));
    assert_eq!((sim.over(), sim.starts), (Some(Reason::MaxTime), 2));
    assert_eq!(sim.detail(), "20s of work used without an accepted claim; the limit is 20s");
}

#[test]
fn a_delay_can_use_up_the_time() {
    // fault B1: a loop of short agents and long delays ends too.
    let sim = Sim::new(policy(|p| {
        (p.limits.max_time, p.pace.restart_delay) = (Some(Millis::from_mins(10)), Millis::from_mins(5));
    }))
    .run_out();
    assert_eq!((sim.over(), sim.starts), (Some(Reason::MaxTime), 2));
}

#[test]
fn time_does_not_run_while_paused_and_never_backwards() {
    // fault F10: the longest durations there are add up to the longest there is.
    let mut sim = Sim::running(policy(|_| {})).after([exits(0), PAUSE, UNPAUSE]);
    assert_eq!(sim.state.counters.spent, Millis(2000));
    sim.feed(no_markers());
    sim.feed(exits_with(0, |r| r.exit.duration_ms = Millis(u64::MAX)));
    assert_eq!(sim.state.counters.spent, Millis(u64::MAX));
    sim.feed(Input::Requested(Request::Cancel));
    assert_eq!(sim.over(), Some(Reason::Cancelled));
}
