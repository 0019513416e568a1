//! A life as people see it: the line of `status`, the fold behind it, and one reason with one next step.

use super::*;
use crate::{
    event::{AgentExit, Grant, IterationOutcome, LoopStarted, OutputMarks, Spend, StopCause},
    judge::{claim::RefusalReason, signal::Signal},
    loop_machine::decide_tests::{agent_exit, every_event, gate_result, policy, receipts, started},
    policy::GateSpec,
};

pub(crate) const START: i64 = 1_000_000_000;

/// An instant this many seconds after the loop began.
pub(crate) fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(START + secs).unwrap()
}

fn envelope(secs: i64, event: LoopEvent) -> Envelope {
    Envelope { seq: 1, at: at(secs), loop_id: "abcdefghjk".parse().unwrap(), event }
}

/// The view of a loop with one gate and 15 iterations after these events, a minute apart.
pub(crate) fn view(events: impl IntoIterator<Item = LoopEvent>) -> LoopView {
    let mut started = started(policy(|p| {
        p.limits.max_iterations = 15;
        p.gates.specs = vec![GateSpec::of_command("cargo test")];
    }));
    started.policy.agent.command.name = "coder".into();
    let mut view = LoopView::begin(&envelope(0, LoopEvent::LoopStarted(Box::new(started)))).unwrap();
    for (minute, event) in (1..).zip(events) {
        view.apply(&envelope(60 * minute, event));
    }
    view
}

pub(crate) fn iteration(iteration: u32) -> LoopEvent {
    LoopEvent::IterationStarted { iteration, max_iterations: 15 }
}

pub(crate) fn over(reason: Reason, detail: &str) -> LoopEvent {
    LoopEvent::LoopFinished {
        state: reason.state(),
        reason,
        detail: detail.to_owned(),
        exit_code: reason.exit_code(),
        iterations: 3,
    }
}

fn claim_made() -> LoopEvent {
    LoopEvent::ClaimMade { iteration: 3, by: vec![Signal::DoneFile] }
}

pub(crate) fn refused() -> LoopEvent {
    LoopEvent::ClaimRefused {
        iteration: 3,
        reason: RefusalReason::GateFailed,
        detail: "gate `cargo test` exited 101".into(),
    }
}

fn iteration_finished(spent: u64) -> LoopEvent {
    LoopEvent::IterationFinished {
        iteration: 3,
        outcome: IterationOutcome::NoClaim,
        spent_ms: Millis(spent),
        progress: crate::event::IterationProgress::None,
    }
}

#[test]
fn the_status_line_keeps_its_words() {
    // req 193
    let running = view([iteration(3)]);
    for (secs, line) in [
        (0, "TASK-001 (coder): iteration 3/15, started 0s ago"),
        (59, "TASK-001 (coder): iteration 3/15, started 59s ago"),
        (300, "TASK-001 (coder): iteration 3/15, started 5m ago"),
        (359, "TASK-001 (coder): iteration 3/15, started 5m ago"),
        (7200, "TASK-001 (coder): iteration 3/15, started 2h ago"),
        (3 * 86_400, "TASK-001 (coder): iteration 3/15, started 3d ago"),
        // fault F10: the clock was set back.
        (-3600, "TASK-001 (coder): iteration 3/15, started 0s ago"),
    ] {
        assert_eq!(status_line(&running, at(secs)), line);
    }
    let staged = LoopView { stage: Some("reviewer".into()), ..running };
    assert_eq!(status_line(&staged, at(300)), "TASK-001 (reviewer): iteration 3/15, started 5m ago");
    assert_eq!(
        status_line(&view([]), at(1)),
        "TASK-001 (coder): iteration 0/15, started 1s ago",
        "before the first iteration"
    );
}

#[test]
fn the_farthest_times_there_are_do_no_harm() {
    // fault F10: 1970 and the last instant there is
    let first = Envelope {
        at: Timestamp::MIN,
        ..envelope(0, LoopEvent::LoopStarted(Box::new(started(policy(|_| {})))))
    };
    let view = LoopView::begin(&first).unwrap();
    assert!(status_line(&view, Timestamp::MAX).ends_with("d ago"));
    assert!(
        status_line(&LoopView { started_at: Timestamp::MAX, ..view }, Timestamp::MIN)
            .ends_with("started 0s ago")
    );
}

#[test]
fn a_life_is_folded_into_its_states() {
    // req 193, req 202; each event with the state it leads to
    let exit = |cost, tokens| AgentExit {
        cost_usd: Some(cost),
        usage: Some(Usage { input: tokens, output: 1, cache_read: 2, cache_write: 3, reasoning: 4 }),
        ..agent_exit(0)
    };
    let exited = |cost, tokens| LoopEvent::AgentExited {
        iteration: 3,
        attempt: 3,
        exit: exit(cost, tokens),
        judged: crate::event::AttemptJudgement::default(),
    };
    let gate_started = || LoopEvent::GateStarted {
        iteration: 3,
        role: GateRole::Gate,
        name: "cargo test".into(),
        command: "cargo test".into(),
        index: 0,
        attempt: 1,
        item: None,
        expect: Default::default(),
        working_dir: None,
        look: Default::default(),
    };
    let gate_finished = |code| LoopEvent::GateFinished {
        iteration: 3,
        role: GateRole::Gate,
        name: "cargo test".into(),
        command: "cargo test".into(),
        item: None,
        result: gate_result(code),
        look: Default::default(),
    };
    let life = [
        (LoopEvent::TasksAwaited { tasks: vec!["first".parse().unwrap()] }, "parked"),
        (LoopEvent::TasksAwaited { tasks: vec![] }, "running"),
        (iteration(3), "running"),
        (exited(0.25, 10), "running"),
        (claim_made(), "gating"),
        (gate_started(), "gating"),
        (gate_finished(101), "gating"),
        (refused(), "running"),
        (iteration_finished(9000), "running"),
        (LoopEvent::PauseRequested { now: false }, "running"),
        (LoopEvent::Paused, "paused"),
        (LoopEvent::Unpaused, "running"),
        (LoopEvent::Parked { until: at(9000), why: "rate limit".into() }, "parked"),
        (iteration(4), "running"),
        (LoopEvent::QuestionAsked { text: "Which port?".into() }, "running"),
        (exited(0.5, 20), "running"),
        (LoopEvent::StopRequested { by: StopCause::Interrupt }, "running"),
        (over(Reason::Interrupted, "interrupted by Ctrl-C"), "stopped"),
        (LoopEvent::Steered { text: "8080".into() }, "stopped"),
        (
            LoopEvent::LoopResumed {
                grant: Grant { extra_iterations: 5, ..Grant::default() },
                output: OutputMarks::default(),
                pid: 9,
                counts_anew: false,
            },
            "running",
        ),
        (LoopEvent::IterationStarted { iteration: 5, max_iterations: 20 }, "running"),
        (claim_made(), "gating"),
        (LoopEvent::ClaimAccepted { iteration: 5, verified: true }, "gating"),
        (iteration_finished(12_000), "running"),
        (over(Reason::Done, "task completed"), "completed"),
    ];
    for length in 1..=life.len() {
        let view = view(life[..length].iter().map(|(event, _)| event.clone()));
        assert_eq!(view.state, life[length - 1].1, "after {:?}", life[length - 1].0);
        assert_eq!(view.is_over(), matches!(view.state.as_str(), "stopped" | "completed"));
        assert_eq!(
            view.until.is_some(),
            length == 13,
            "only a parked loop has a time: {:?}",
            life[length - 1].0
        );
        assert_eq!(view.pid.is_none(), view.is_over());
        assert_eq!(view.question.is_some(), (15..19).contains(&length));
    }
    let end = view(life.into_iter().map(|(event, _)| event));
    let whole = LoopView {
        state: "completed".into(),
        reason: Some(Reason::Done),
        iteration: 5,
        max_iterations: 20,
        ended_at: Some(at(25 * 60)),
        cost_usd: Some(0.75),
        tokens: Some(Usage { input: 30, output: 2, cache_read: 4, cache_write: 6, reasoning: 8 }),
        pid: None,
        detail: Some("task completed".into()),
        refused: Some((3, "gate `cargo test` exited 101".into())),
        refused_by: Some(RefusedBy::RedGate),
        verified: Some(true),
        exit_code: Some(0),
        charged: Some(3),
        spent_ms: Millis(12_000),
        ledger: end.ledger,
        tally: end.tally.clone(),
        ..view([])
    };
    assert_eq!(end, whole);
}

#[test]
fn a_change_that_was_refused_is_shown_by_what_works_in_its_folder() {
    for (is_plain, shows) in
        [(true, "`dacapo logs abcdefghjk` shows"), (false, "`dacapo diff abcdefghjk` shows")]
    {
        for refused_by in [RefusedBy::ChangedTests, RefusedBy::ApprovableChange] {
            let (reason, refused_by) = (Some(Reason::MaxIterations), Some(refused_by));
            let failed = LoopView { state: "failed".into(), reason, refused_by, is_plain, ..view([]) };
            let next = why(&failed).next;
            assert!(next.starts_with(shows), "{next}");
        }
        let (reason, verified) = (Some(Reason::Done), Some(true));
        let done = LoopView { state: "completed".into(), reason, verified, is_plain, ..view([]) };
        assert_eq!(why(&done).next.contains("dacapo diff"), !is_plain);
    }
}

#[test]
fn the_model_is_the_one_that_the_agent_named_last_and_goes_with_its_agent() {
    let exited = |model: Option<&str>| LoopEvent::AgentExited {
        iteration: 1,
        attempt: 1,
        exit: AgentExit { model: model.map(str::to_owned), ..agent_exit(0) },
        judged: crate::event::AttemptJudgement::default(),
    };
    let used = |model: Option<&str>| LoopEvent::UsageSeen {
        iteration: 1,
        attempt: 1,
        spend: Spend::default(),
        model: model.map(str::to_owned),
    };
    let switched = || LoopEvent::AgentSwitched { agent: "other".into(), index: 1, why: "a limit".into() };
    for (events, model) in [
        (vec![exited(None)], None),
        (vec![exited(Some("m1")), exited(None)], Some("m1")),
        (vec![used(Some("m1"))], Some("m1")),
        (vec![exited(Some("m1")), used(None)], Some("m1")),
        (vec![exited(Some("m1")), exited(Some("m2"))], Some("m2")),
        (vec![exited(Some("m1")), switched()], None),
        (vec![exited(Some("m1")), switched(), exited(Some("m2"))], Some("m2")),
    ] {
        assert_eq!(view(events).model.as_deref(), model);
    }
}

#[test]
fn every_event_is_taken_and_nothing_else_begins_a_view() {
    let mut events = every_event().into_iter().map(|event| envelope(0, event));
    let mut view = LoopView::begin(&events.next().unwrap()).unwrap();
    for envelope in events {
        assert_eq!(LoopView::begin(&envelope), None);
        view.apply(&envelope);
    }
    assert_eq!((view.state.as_str(), view.exit_code), ("completed", Some(0)));
    let json = serde_json::to_string(&view).unwrap();
    assert_eq!(serde_json::from_str::<LoopView>(&json).unwrap(), view);
}

#[test]
fn a_loop_without_a_supervisor_is_shown_as_what_resume_will_find() {
    // req 203
    let dead = view([iteration(3)]).with_dead_owner();
    assert_eq!((dead.state.as_str(), dead.reason, dead.pid), ("stopped", Some(Reason::Interrupted), None));
    assert_eq!(
        why(&dead),
        Why {
            because: "Stopped: dacapo died while the loop was running.".into(),
            next: "`dacapo resume abcdefghjk` goes on at the next iteration.".into(),
        }
    );
}

#[test]
fn why_gives_one_reason_and_one_next_step_for_every_end() {
    // req 202, fault B12
    let accepted = |verified| LoopEvent::ClaimAccepted { iteration: 3, verified };
    let refusal = " The last claim was refused in iteration 3: gate `cargo test` exited 101.";
    let resume = "`dacapo resume abcdefghjk` goes on at the next iteration.";
    let table = [
        (
            vec![accepted(true)],
            Reason::Done,
            "task completed",
            "Completed: the claim of iteration 3 passed 1 gate.".to_owned(),
            "`dacapo receipt abcdefghjk` shows the proof, `dacapo diff abcdefghjk` what was changed.",
        ),
        (
            vec![accepted(false)],
            Reason::Done,
            "task completed",
            "Completed, unverified: no gate stood behind the claim.".to_owned(),
            "Check the work yourself; next time give `--gate CMD`.",
        ),
        (
            vec![accepted(false)],
            Reason::Done,
            "the claim was accepted (until command)",
            "Completed: the until command passed, and no gate stood behind it.".to_owned(),
            "Look at what was changed; a `--gate CMD` also looks whether tests were weakened.",
        ),
        (vec![], Reason::Error, "DONE is a directory", "Failed: DONE is a directory.".to_owned(), {
            "Mend that, then `dacapo resume abcdefghjk`."
        }),
        (
            vec![],
            Reason::Agent,
            "no `x` on PATH",
            "Failed: no `x` on PATH.".to_owned(),
            "Mend that, then `dacapo resume abcdefghjk`; `dacapo doctor` lists the agents that are there.",
        ),
        (vec![], Reason::Disk, "no space", "Failed: no space.".to_owned(), {
            "Make room (`df -h` shows which disk is full), then `dacapo resume abcdefghjk`."
        }),
        (vec![], Reason::Lock, "held by x", "Failed: held by x.".to_owned(), {
            "`dacapo status` shows who holds it."
        }),
        (
            vec![],
            Reason::MaxIterations,
            "3 iterations used",
            "Failed: 3 iterations used. The agent never claimed to be done.".to_owned(),
            "`dacapo resume abcdefghjk -n +10` grants ten more; `dacapo logs abcdefghjk` shows what the agent said. An agent that is \
             done has to print `<promise>DONE</promise>`.",
        ),
        (
            vec![],
            Reason::Gate,
            "gate `./c.sh` cannot run: it exits 126 with the same words as before the first agent",
            "Failed: gate `./c.sh` cannot run: it exits 126 with the same words as before the first agent.".to_owned(),
            "Make the gate's program executable (`chmod +x`), then `dacapo resume abcdefghjk`; if its command is wrong, correct it \
             and begin anew with `dacapo run`.",
        ),
        (
            vec![refused()],
            Reason::MaxIterations,
            "3 iterations used",
            format!("Failed: 3 iterations used.{refusal}"),
            "`dacapo resume abcdefghjk -n +10` grants ten more; `dacapo logs abcdefghjk` shows what the agent said.",
        ),
        (
            vec![LoopEvent::ClaimRefused {
                iteration: 3,
                reason: RefusalReason::TreeChanged,
                detail: "`a` was changed while the claim was being checked".into(),
            }],
            Reason::MaxIterations,
            "3 iterations used",
            "Failed: 3 iterations used. The last claim was refused in iteration 3: `a` was changed while the claim was being checked."
                .to_owned(),
            "If the gate rewrites files, begin anew with one that only checks them; if something else does, end that, then \
             `dacapo resume abcdefghjk -n +1`.",
        ),
        (vec![refused()], Reason::MaxTime, "8h used", format!("Failed: 8h used.{refusal}"), {
            "`dacapo resume abcdefghjk --max-time 8h` sets a new limit."
        }),
        (
            vec![refused()],
            Reason::Stuck,
            "10 iterations in a row without progress",
            format!("Failed: 10 iterations in a row without progress.{refusal}"),
            "`dacapo logs abcdefghjk` shows what it kept trying; `dacapo steer abcdefghjk \"…\"` then \
             `dacapo resume abcdefghjk` helps it out.",
        ),
        (
            vec![],
            Reason::Waiting,
            "the agent waits",
            "Stopped: the agent waits.".to_owned(),
            "`dacapo steer abcdefghjk \"…\"` answers and goes on; `dacapo resume abcdefghjk` goes on without a word.",
        ),
        (vec![], Reason::Question, "Which port?", "Stopped: the agent asks: Which port?".to_owned(), {
            "`dacapo steer abcdefghjk \"…\"` answers and goes on."
        }),
        (
            vec![],
            Reason::Blocked,
            "the agent is blocked: no key",
            "Stopped: the agent is blocked: no key.".to_owned(),
            "`dacapo steer abcdefghjk \"…\"` says how to go on, and goes on; `dacapo resume abcdefghjk` goes on without a \
             word.",
        ),
        (
            vec![refused()],
            Reason::Blocked,
            "the agent is blocked: no key",
            format!("Stopped: the agent is blocked: no key.{refusal}"),
            "`dacapo steer abcdefghjk \"…\"` says how to go on, and goes on; `dacapo resume abcdefghjk` goes on without a \
             word.",
        ),
        (
            vec![],
            Reason::Refused,
            "the agent refuses the work: REVIEW FAILED: no tests",
            "Stopped: the agent refuses the work: REVIEW FAILED: no tests.".to_owned(),
            "`dacapo logs abcdefghjk` shows what it found; once that is mended, `dacapo resume abcdefghjk` has it look again.",
        ),
        (
            vec![],
            Reason::Interrupted,
            "interrupted by Ctrl-C",
            "Stopped: interrupted by Ctrl-C.".to_owned(),
            resume,
        ),
        (
            vec![],
            Reason::Terminated,
            "terminated by SIGTERM",
            "Stopped: terminated by SIGTERM.".to_owned(),
            resume,
        ),
        (vec![], Reason::Cancelled, "Cancelled Ralph loop", "Cancelled Ralph loop.".to_owned(), {
            "A new `dacapo run` starts over."
        }),
    ];
    for (events, reason, detail, because, next) in table {
        let view = view([vec![iteration(3)], events, vec![over(reason, detail)]].concat());
        assert_eq!(why(&view), Why { because, next: next.to_owned() }, "{reason:?}");
    }
}

#[test]
fn why_gives_one_reason_and_one_next_step_for_every_live_state() {
    // req 202, fault B12
    let follows = "`dacapo logs abcdefghjk -f` follows it.";
    let running = "`dacapo logs abcdefghjk -f` follows it; `dacapo cancel abcdefghjk` ends it.";
    let question = LoopEvent::QuestionAsked { text: "Which port?".into() };
    let baseline = LoopEvent::GateStarted {
        iteration: 0,
        role: GateRole::Baseline,
        name: "cargo test".into(),
        command: "cargo test".into(),
        index: 0,
        attempt: 1,
        item: None,
        expect: Default::default(),
        working_dir: None,
        look: Default::default(),
    };
    for (events, because, next) in [
        (vec![], "Running: iteration 0/15, no accepted claim yet.", running),
        (vec![baseline], "Running: iteration 0/15, no accepted claim yet.", running),
        (vec![iteration(3)], "Running: iteration 3/15, no accepted claim yet.", running),
        (
            vec![iteration(3), claim_made(), refused(), iteration_finished(1), question],
            "Running: iteration 3/15, no accepted claim yet. The last claim was refused in iteration 3: \
             gate `cargo test` exited 101. The agent asks: Which port?",
            running,
        ),
        (vec![iteration(3), claim_made()], "A claim of iteration 3 is being checked.", follows),
        (vec![LoopEvent::Paused], "Paused by a person.", "`dacapo resume abcdefghjk` goes on."),
        (
            vec![LoopEvent::Parked { until: at(0), why: "rate limit".into() }],
            "Parked until 2001-09-09 01:46:40Z: rate limit.",
            "It goes on by itself. `dacapo resume abcdefghjk --now` asks at once; another agent (`dacapo run --agent codex …`) need not wait.",
        ),
        (
            vec![LoopEvent::TasksAwaited { tasks: vec!["a".parse().unwrap(), "b".parse().unwrap()] }],
            "Parked: waits for a, b.",
            "It goes on by itself.",
        ),
    ] {
        assert_eq!(why(&view(events)), Why { because: because.to_owned(), next: next.to_owned() });
    }
}

#[test]
fn a_view_says_the_same_as_the_machine_of_whether_it_is_over() {
    // req 202: two folds of one journal cannot disagree.
    let started = LoopStarted { after: vec![], ..started(policy(|_| {})) };
    let mut journal = vec![LoopEvent::LoopStarted(Box::new(started))];
    journal.extend([iteration(1), claim_made(), over(Reason::Waiting, "w")]);
    for length in 1..=journal.len() {
        let state = crate::loop_machine::LoopState::fold(&journal[..length]);
        let mut view = LoopView::begin(&envelope(0, journal[0].clone())).unwrap();
        journal[1..length].iter().for_each(|event| view.apply(&envelope(0, event.clone())));
        assert_eq!((view.reason, view.iteration), (state.over(), state.counters.iterations));
    }
}

#[test]
fn what_helps_against_a_budget_that_is_used_up_depends_on_whose_it_is() {
    for (detail, step) in [
        ("cost 5.03 of 5.00 USD", "--max-cost USD"),
        ("cost 5.03 of 5.00 USD today", "goes on tomorrow"),
        ("cost 5.03 of 5.00 USD in this project", "`limits.per_project`"),
        ("cost 5.03 of 5.00 USD in this run", "`dacapo unit run` with a higher `--max-cost`"),
    ] {
        let why = why(&view([iteration(3), over(Reason::Budget, detail)]));
        assert_eq!(why.because, format!("Failed: {detail}."));
        assert!(why.next.contains(step), "{}", why.next);
    }
}

#[test]
fn loops_of_units_say_what_was_proven_and_what_was_red() {
    // Checks without an agent: more iterations would not help.
    let mut alone = view([over(Reason::MaxIterations, "gate `lint` exited 1")]);
    alone.max_iterations = 0;
    assert_eq!(
        why(&alone),
        Why {
            because: "Failed: gate `lint` exited 1.".into(),
            next: "`dacapo events abcdefghjk` shows what each check came to.".into(),
        }
    );
    // Of all gates of a unit those of the claimed tasks ran.
    let mut receipt = receipts::receipt();
    receipt.claim = vec![Signal::Item(crate::item::ItemKey(2))];
    receipt.gates.truncate(1);
    let mut view = view([iteration(1), LoopEvent::ReceiptIssued { receipt: Box::new(receipt) }]);
    assert_eq!(view.gates, 1);
    view.gates = 9;
    let ordinary = LoopEvent::ReceiptIssued { receipt: Box::new(receipts::receipt()) };
    view.apply(&envelope(600, ordinary));
    assert_eq!(view.gates, 9);
}
