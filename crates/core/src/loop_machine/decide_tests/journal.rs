//! Inputs that the loop does not wait for, and events as they are serialised.

use super::*;
use crate::event::{ForbiddenChange, NextSession, Obstacle, ProtectedFile};

#[test]
fn news_a_loop_does_not_wait_for_changes_nothing() {
    // Every phase answers every input, if only with nothing.
    let begin = Input::Begin(Box::new(Begin { started: started(policy(|_| {})), warnings: vec![] }));
    let not_started = Input::AgentNotStarted(StartFailure { detail: "x".into(), is_fatal: true });
    let looked = Input::ExaminationFailed("no git".into());
    let news: [(Input, &[&str]); 15] = [
        (begin, &[]),
        (Input::TasksLookedAt { missing: vec![] }, &["awaiting"]),
        (no_markers(), &["looking", "delaying", "parked"]),
        (Input::ParkOver, &["parked"]),
        (uses(1.0), &["running"]),
        (exits(0), &["running"]),
        (not_started, &["running"]),
        (Input::ChildrenFound(vec![loop_id("c")]), &["children", "examining"]),
        (no_children(), &["children", "examining"]),
        (examined(), &["children", "examining"]),
        (looked, &["children", "examining", "rechecking"]),
        (gate(0), &["baseline", "until", "gate"]),
        (rechecked(&[]), &["rechecking"]),
        (commit_done(Ok(None)), &["committing"]),
        (Input::DelayOver, &["delaying"]),
    ];
    for (input, awaited_in) in news {
        for (name, mut sim) in in_every_phase() {
            let step = sim.feed(input.clone());
            assert_eq!(step != Step::default(), awaited_in.contains(&name), "{name} + {input:?}");
        }
        if !matches!(input, Input::Begin(_)) {
            assert_eq!(decide(&LoopState::default(), input), Step::default());
        }
    }
    for input in [Input::OwnerDied, CTRL_C, CANCEL, PAUSE, UNPAUSE, Input::DiskFailed("x".into())] {
        assert_eq!(decide(&LoopState::default(), input), Step::default(), "nothing has begun");
    }
}

/// One sample of every event, in a journal's order; an end of every kind of value in it.
pub(crate) fn every_event() -> Vec<LoopEvent> {
    let exit = AgentExit {
        exit_code: None,
        signal: Some(9),
        usage: Some(crate::event::Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, reasoning: 5 }),
        cost_usd: Some(0.25),
        session: Some("s".into()),
        model: Some("m".into()),
        reset_at: Some(Timestamp::UNIX_EPOCH),
        output: OutputMarks { stdout: 1, stderr: 2, prompt: 3, gates: 4 },
        ..agent_exit(0)
    };
    let red =
        GateResult { output_tail: "boom\n".into(), failure: Some("timed out".into()), ..gate_result(-1) };
    let signals = [
        Signal::Promise("DONE".into()),
        Signal::DoneFile,
        Signal::MalformedDone("fifo".into()),
        Signal::UntilCommand,
        Signal::WaitExitCode(42),
        Signal::WaitMarker,
        Signal::WaitMessage("b".into()),
        Signal::Question("q".into()),
        Signal::NearMiss(MissReason::InCode),
        Signal::Blocked("no key".into()),
        Signal::Refusal("REVIEW FAILED".into()),
        Signal::BlockedNearMiss(MissReason::NotAlone),
        Signal::Item(crate::item::ItemKey(2)),
        Signal::MalformedItem("torn".into()),
        Signal::OwnClaim,
    ];
    let found = Examination {
        tampered: vec!["tests/a.rs".into()],
        commits: vec!["c1".into()],
        forbidden: vec![ForbiddenChange { path: "u/01.md".into(), why: "it is frozen".into() }],
        contradiction: Some("TODO: the rest".into()),
        missing_evidence: vec![
            MissingEvidence { item: None, reason: NoApproval },
            MissingEvidence { item: Some(crate::item::ItemKey(2)), reason: NoCommit },
        ],
        ..examination()
    };
    let mut started = started(gated(&["g"]));
    started.protected =
        vec![ProtectedFile { path: "tests/a.rs".into(), sha256: "ab".into(), ignored: false }];
    (started.parent, started.after) = (Some(loop_id("p")), vec![task_id("a")]);
    let mut events = vec![
        LoopEvent::LoopStarted(Box::new(started)),
        LoopEvent::TasksAwaited { tasks: vec![task_id("a")] },
        LoopEvent::TasksAwaited { tasks: vec![] },
        LoopEvent::IterationStarted { iteration: 1, max_iterations: 3 },
        LoopEvent::AgentStarted {
            iteration: 1,
            attempt: 1,
            agent: "coder".into(),
            session: Some("s".into()),
            reserve: Some(crate::limits::Spent { cost_usd: 0.5, tokens: 9 }),
            output: OutputMarks::default(),
        },
        LoopEvent::Warned { text: "w".into() },
        LoopEvent::UsageSeen {
            iteration: 1,
            attempt: 1,
            spend: Spend { usage: exit.usage, cost_usd: Some(0.1), estimated: true },
            model: None,
        },
        LoopEvent::BudgetReached { detail: "cost 5.03 of 5.00 USD".into() },
        LoopEvent::QuestionAsked { text: "q".into() },
        LoopEvent::Blocked { iteration: 1, why: "no key".into() },
        LoopEvent::AgentExited { iteration: 1, attempt: 1, exit, judged: AttemptJudgement::default() },
        LoopEvent::SnapshotTaken { iteration: 1, id: "snap1".into(), tree: "tree1".into() },
        LoopEvent::OutlineTaken { iteration: 1, outline: Some("outline1".into()) },
    ];
    events.extend(signals.iter().cloned().map(|signal| LoopEvent::SignalSeen { iteration: 1, signal }));
    events.extend([
        LoopEvent::ClaimMade { iteration: 1, by: signals.to_vec() },
        LoopEvent::ChildrenAwaited { children: vec![loop_id("c")] },
        LoopEvent::ChildrenFinished { left: vec![loop_id("c")], cancelled: true, waited_ms: Millis(5) },
        LoopEvent::ClaimExamined { iteration: 1, found: Box::new(found) },
        LoopEvent::GateStarted {
            iteration: 1,
            role: GateRole::Gate,
            name: "g".into(),
            command: "g".into(),
            index: 0,
            attempt: 2,
            item: None,
            expect: Default::default(),
            working_dir: None,
            look: Default::default(),
        },
        LoopEvent::GateFinished {
            iteration: 1,
            role: GateRole::Gate,
            name: "g".into(),
            command: "g".into(),
            item: None,
            result: red,
            look: Default::default(),
        },
        LoopEvent::ClaimRefused { iteration: 1, reason: RefusalReason::GateFailed, detail: "d".into() },
        LoopEvent::IterationFinished {
            iteration: 1,
            outcome: IterationOutcome::Refused,
            spent_ms: Millis(9),
            progress: IterationProgress::None,
        },
        LoopEvent::AgentSwitched { agent: "stand-in".into(), index: 1, why: "limit".into() },
        LoopEvent::Parked { until: Timestamp::UNIX_EPOCH, why: "limit".into() },
        LoopEvent::Steered { text: "use rust".into() },
        LoopEvent::PauseRequested { now: true },
        LoopEvent::Paused,
        LoopEvent::Unpaused,
        LoopEvent::LimitsRaised {
            grant: Grant { extra_iterations: 2, max_time_ms: Some(Millis(5)), ..NOTHING },
        },
        LoopEvent::StopRequested { by: StopCause::Hangup },
        finished(Reason::Terminated, "the terminal is gone (SIGHUP)", 1),
        LoopEvent::LoopResumed {
            grant: Grant { extra_iterations: 1, max_cost: Some(2.5), max_tokens: Some(7), ..NOTHING },
            output: OutputMarks::default(),
            pid: 9,
            counts_anew: false,
        },
        LoopEvent::GateStarted {
            iteration: 1,
            role: GateRole::Until,
            name: "u".into(),
            command: "u".into(),
            index: 0,
            attempt: 1,
            item: None,
            expect: Default::default(),
            working_dir: None,
            look: Default::default(),
        },
        LoopEvent::GatesPassed { iteration: 1 },
        LoopEvent::TreeHeld { iteration: 1 },
        LoopEvent::Committed { iteration: 1, commit: "c0ffee".into(), item: None },
        LoopEvent::Committed { iteration: 1, commit: "c0ffee2".into(), item: Some(crate::item::ItemKey(2)) },
        LoopEvent::ClaimAccepted { iteration: 1, verified: true },
        LoopEvent::ReceiptIssued { receipt: Box::new(receipts::receipt()) },
        finished(Reason::Done, "task completed", 1),
    ]);
    events
}

#[test]
fn every_event_is_read_back_as_it_was_written() {
    // req 203: resuming folds what the journal says, so nothing may be lost on the way.
    for (seq, event) in (1_u64..).zip(every_event()) {
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<LoopEvent>(&text).unwrap(), event, "{text}");
        let envelope =
            crate::event::Envelope { seq, at: Timestamp::UNIX_EPOCH, loop_id: loop_id("abcdefghjk"), event };
        let text = serde_json::to_string(&envelope).unwrap();
        assert_eq!(serde_json::from_str::<crate::event::Envelope>(&text).unwrap(), envelope, "{text}");
        assert!(text.starts_with(&format!(
            r#"{{"seq":{seq},"at":"1970-01-01T00:00:00Z","loop":"abcdefghjk","type":"#
        )));
    }
    let mut kinds = names(&every_event());
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds.len(), 36, "a new event needs a sample: {kinds:?}");
}

#[test]
fn items_have_the_names_that_scripts_know() {
    let json = |event: &LoopEvent| serde_json::to_value(event).unwrap();
    let key = Some(crate::item::ItemKey(2));
    let made = json(&LoopEvent::ClaimMade {
        iteration: 1,
        by: vec![Signal::Item(crate::item::ItemKey(2)), Signal::MalformedItem("torn".into())],
    });
    assert_eq!(
        made["by"],
        serde_json::json!([{"signal": "task", "detail": 2}, {"signal": "malformed_task", "detail": "torn"}])
    );
    assert_eq!(json(&LoopEvent::Committed { iteration: 1, commit: "c".into(), item: key })["task"], 2);
    let (name, command): (String, String) = ("g".into(), "g".into());
    let gate = LoopEvent::GateStarted {
        iteration: 1,
        role: GateRole::Gate,
        name: name.clone(),
        command: command.clone(),
        index: 0,
        attempt: 1,
        item: key,
        expect: Default::default(),
        working_dir: None,
        look: Default::default(),
    };
    assert_eq!(json(&gate)["task"], 2);
    let (role, result) = (GateRole::Gate, gate_result(0));
    let gate = LoopEvent::GateFinished {
        iteration: 1,
        role,
        name,
        command,
        item: key,
        result,
        look: Default::default(),
    };
    assert_eq!(json(&gate)["task"], 2);
    // What is recorded of them in `loop_started`; from here on a new field has a default.
    let policy = serde_json::to_value(items::turn(|p| p.items.truncate(1))).unwrap();
    let message = "feat(app): complete task #2 - Title 2";
    assert_eq!(
        policy["items"],
        serde_json::json!([{"key": 2, "noun": "task", "commit": {"message": message}}])
    );
    assert_eq!(
        (&policy["source"]["kind"], &policy["source"]["dir"]),
        (&"unit".into(), &"specs/tasks".into())
    );
    assert_eq!(policy["source"]["turn"]["ready"], serde_json::json!([2, 3]));
    assert_eq!(policy["gates"]["specs"][0]["item"], 3);
    let asks = super::policy(|p| p.items[0].evidence = vec![crate::judge::evidence::Evidence::Commit]);
    let asks = serde_json::to_value(asks).unwrap();
    assert_eq!(asks["items"], serde_json::json!([{"noun": "work", "evidence": ["commit"]}]));
    let mut before_items = serde_json::to_value(super::policy(|_| {})).unwrap();
    before_items.as_object_mut().unwrap().remove("items");
    assert_eq!(serde_json::from_value::<Policy>(before_items).unwrap(), super::policy(|_| {}));
}

#[test]
fn a_state_read_back_from_json_is_the_state() {
    // req 203
    for (name, sim) in in_every_phase() {
        let lines: Vec<String> = sim.journal.iter().map(|e| serde_json::to_string(e).unwrap()).collect();
        let read: Vec<LoopEvent> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(LoopState::fold(&read), sim.state, "{name}");
    }
}

#[test]
fn a_changed_rule_does_not_reinterpret_what_was_recorded() {
    // Every judgement here is the opposite of what today's rules say. The fold believes the journal.
    let base = [
        LoopEvent::LoopStarted(Box::new(started(policy(|_| {})))),
        LoopEvent::IterationStarted { iteration: 1, max_iterations: 100 },
    ];
    let after = |events: &[LoopEvent]| LoopState::fold(base.iter().chain(events));
    let exited = |outcome, session: Option<&str>, judged| LoopEvent::AgentExited {
        iteration: 1,
        attempt: 1,
        exit: AgentExit { outcome, session: session.map(str::to_owned), ..agent_exit(0) },
        judged,
    };
    let charged = AttemptJudgement { obstacle: Some(Obstacle::UsageLimit), ..AttemptJudgement::default() };
    let state = after(&[exited(Outcome::Network, None, charged)]);
    assert_eq!(
        (state.iteration, state.counters.outages, state.counters.usage_limits),
        (Iteration::Open, 0, 1),
        "an outage that was charged, and counted as a limit"
    );
    let free =
        AttemptJudgement { charged: false, next_session: NextSession::Fresh, ..AttemptJudgement::default() };
    let state = after(&[exited(Outcome::Completed, Some("s"), free)]);
    assert_eq!(
        (state.iteration, state.sessions.next),
        (Iteration::AwaitsRetry, None),
        "a completion that was not"
    );
    let finished = |progress| LoopEvent::IterationFinished {
        iteration: 1,
        outcome: IterationOutcome::NoClaim,
        spent_ms: Millis(0),
        progress,
    };
    let taken = LoopEvent::SnapshotTaken { iteration: 1, id: "s".into(), tree: "a new one".into() };
    let state = after(&[taken, finished(IterationProgress::None)]);
    assert_eq!(state.progress.log.without_progress(), 1, "a new tree that was no progress");
    let state = after(&[finished(IterationProgress::None), finished(IterationProgress::Made)]);
    assert_eq!(state.progress.log.without_progress(), 0, "nothing new that was progress");
    let red = GateResult { signature: "of an older version".into(), ..gate_result(1) };
    let baseline = LoopEvent::GateFinished {
        iteration: 0,
        role: GateRole::Baseline,
        name: "g".into(),
        command: "g".into(),
        item: None,
        result: red,
        look: Default::default(),
    };
    assert_eq!(after(&[baseline]).baseline["g"], "of an older version");
    let resumed = |counts_anew| LoopEvent::LoopResumed {
        grant: NOTHING,
        output: OutputMarks::default(),
        pid: 9,
        counts_anew,
    };
    let stuck = [finished(IterationProgress::None), super::finished(Reason::Stuck, "stuck", 1)];
    for (counts_anew, without) in [(true, 0), (false, 1)] {
        let events = [&stuck[..], &[resumed(counts_anew)]].concat();
        assert_eq!(after(&events).progress.log.without_progress(), without);
    }
}

#[test]
fn the_fold_asks_no_rule() {
    // What `decide` asks of `judge`, of `limits` and of the policy is recorded; the fold may not ask it again.
    let fold = [include_str!("../state.rs"), include_str!("../phase.rs")].concat();
    for rule in [
        "is_charged",
        "is_wait(",
        "is_claim(",
        ".judge(",
        "failure_signature",
        "signals(",
        "premature(",
        "refused_",
        "first_exceeded",
        "may_start",
        "backoff(",
        "needs_supply",
        "index_of(",
        "is_resumable",
    ] {
        assert!(!fold.contains(rule), "`{rule}` is a rule, and the fold would ask it");
    }
}
