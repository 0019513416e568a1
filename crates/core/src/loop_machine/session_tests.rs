//! Loops inside chat sessions: every event of the seed as a table over the machine, then any order of them.

use jiff::{SignedDuration, Timestamp};

use super::{
    decide_tests::{agent_exit, base, examination, seal, started},
    *,
};
use crate::{
    chance_tests::Chance,
    duration::Millis,
    event::{GateResult, IdleSkip, LoopStarted, Outcome, OutputMarks, Reason, StopCause},
    judge::{promise::PromiseRule, signal::Facts},
    policy::{GateRules, GateSpec, Policy},
    session::{
        CONTINUATION_PROMPT_TEMPLATE, Host, HostSession, SessionSummary, Toast, ToastKind, TranscriptMark,
        TurnEnd, fill,
    },
};

const SESSION: &str = "ses_1";

fn policy(max: u32, gates: &[&str]) -> Policy {
    let specs = gates.iter().map(|run| GateSpec::of_command(run)).collect();
    Policy::session(
        Host::Claude,
        PromiseRule::new("ALL_FIXED").unwrap(),
        max,
        GateRules { specs, ..GateRules::default() },
    )
}

/// A session with a host that does what the loop wants.
#[derive(Clone)]
struct Session {
    state: LoopState,
    journal: Vec<LoopEvent>,
    prompts: Vec<String>,
    toasts: Vec<Toast>,
    now: Timestamp,
    /// When the hook looks again.
    recovery: Option<Timestamp>,
    /// What gates come to, the next one last.
    red: Vec<&'static str>,
    turns: u32,
    trees: u32,
}

/// The beginning of a loop in a session.
fn session_of(policy: Policy) -> LoopStarted {
    let session = HostSession {
        host: "claude".into(),
        id: SESSION.into(),
        description: Some("the nightly one".into()),
        transcript: TranscriptMark::default(),
        verify: false,
        seal: None,
    };
    LoopStarted { session: Some(session), base: Some(base()), ..started(policy) }
}

impl Session {
    fn begun(policy: Policy) -> Self {
        Self::of(session_of(policy))
    }

    fn of(begun: LoopStarted) -> Self {
        let mut it = Self {
            state: LoopState::default(),
            journal: vec![],
            prompts: vec![],
            toasts: vec![],
            now: "2026-11-17T10:00:00Z".parse().unwrap(),
            recovery: None,
            red: vec![],
            turns: 0,
            trees: 0,
        };
        it.send(Input::Begin(Box::new(Begin { started: begun, warnings: vec![] })));
        it
    }

    fn send(&mut self, input: Input) {
        let step = decide(&self.state, input);
        for event in &step.events {
            self.state.apply(event);
            if let Some(started) = &self.state.started {
                self.toasts.extend(Toast::of(event, started));
            }
        }
        self.journal.extend(step.events);
        for effect in step.effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::StartAgent { prompt, .. } => self.prompts.push(prompt),
            Effect::ReadMarkers => self.send(Input::MarkersRead(Facts::default(), Box::default())),
            Effect::AwaitChildren { .. } => {
                self.send(Input::ChildrenWaitedFor { left: vec![], waited: Millis(0) });
            }
            Effect::Examine => {
                let found =
                    crate::event::Examination { tree: format!("tree{}", self.trees), ..examination() };
                self.send(Input::Examined(Some(Box::new(found))));
            }
            Effect::RunGate { .. } => {
                let tail = self.red.pop();
                self.send(Input::GateFinished(Box::new(gate(tail))));
            }
            Effect::Recheck { .. } => {
                self.send(Input::Rechecked(Recheck { disturbed: vec![], seal: seal() }));
            }
            Effect::AwaitRecovery { until } => self.recovery = Some(until),
            _ => {}
        }
    }

    /// What a hook finds when the agent stops after it said `words`.
    fn stopped(&mut self, words: &str, changes: bool) -> SessionIdle {
        self.turns += 1;
        self.trees += u32::from(changes);
        let promise = (words == "ALL_FIXED").then(|| words.to_owned());
        let blocked = words.strip_prefix("blocked: ").map(str::to_owned);
        let snapshot = changes.then(|| (format!("snap{}", self.trees), format!("tree{}", self.trees)));
        let report = AgentReport {
            at: self.now,
            exit: AgentExitOf(Outcome::Completed).exit(),
            facts: Facts { promise, blocked, ..Facts::default() },
            snapshot,
            outline: None,
            warnings: vec![],
            stderr: String::new(),
        };
        SessionIdle {
            report,
            turn: TurnEnd::ending_with(&format!("{words} {}", self.turns), true),
            transcript: TranscriptMark::default(),
            has_news: true,
            background: vec![],
            unpriced: None,
            seal: None,
        }
    }

    fn idle(&mut self, words: &str, changes: bool) -> &mut Self {
        self.now = self.now.checked_add(SignedDuration::from_secs(60)).unwrap();
        let idle = self.stopped(words, changes);
        self.send(Input::SessionIdle(Box::new(idle)));
        self
    }

    fn error(&mut self, is_abort: bool) -> &mut Self {
        let error = HostSessionError { at: self.now, words: "it broke".into(), is_abort };
        self.send(Input::SessionFailed(error));
        self
    }

    fn iteration(&self) -> u32 {
        self.state.counters.iterations
    }

    fn toast(&self) -> (&str, &str, ToastKind, Option<u32>) {
        let toast = self.toasts.last().unwrap();
        (&toast.title, &toast.message, toast.kind, toast.duration_ms)
    }
}

struct AgentExitOf(Outcome);

impl AgentExitOf {
    fn exit(&self) -> crate::event::AgentExit {
        crate::event::AgentExit { outcome: self.0, ..agent_exit(0) }
    }
}

/// A gate that printed this and is red, or that passed.
fn gate(red: Option<&str>) -> GateResult {
    GateResult {
        exit_code: i32::from(red.is_some()),
        passed: false,
        flaky: false,
        duration_ms: Millis(1),
        laid_out_ms: Millis(0),
        output_bytes: 0,
        output_sha256: String::new(),
        tolerated: false,
        signature: String::new(),
        output_tail: red.unwrap_or_default().to_owned(),
        failure: None,
        found: Default::default(),
        answer: None,
        spend: None,
        tests: None,
        disturbed: vec![],
        must_fail_tests: None,
        missing_program: None,
        lacks: Box::default(),
        not_started: Default::default(),
        output: OutputMarks::default(),
    }
}

fn continuation(iteration: u32, max: u32) -> String {
    let (i, m) = (iteration.to_string(), max.to_string());
    let values = [
        ("{{ITERATION}}", i.as_str()),
        ("{{MAX}}", &m),
        ("{{PROMISE}}", "ALL_FIXED"),
        ("{{PROMPT}}", "Fix it."),
    ];
    fill(CONTINUATION_PROMPT_TEMPLATE, &values)
}

#[test]
fn a_loop_begins_at_iteration_1_with_its_task_and_its_toast() {
    // req 103, req 108, req 130
    let it = Session::begun(policy(25, &[]));
    assert_eq!(it.prompts.len(), 1);
    assert!(it.prompts[0].starts_with("Fix it.\n"), "{}", it.prompts[0]);
    let message = "Max 25 iterations. Complete with <promise>ALL_FIXED</promise>";
    assert_eq!(it.toast(), ("Ralph Loop Started", message, ToastKind::Info, Some(3000)));
    let state = SessionSummary::of(&it.state, it.now).unwrap();
    let json = serde_json::json!({"active": true, "iteration": 1, "maxIterations": 25, "completionPromise": "ALL_FIXED",
        "startedAt": "2026-11-17T10:00:00Z", "prompt": "Fix it.", "sessionId": "ses_1", "description": "the nightly one"});
    assert_eq!(serde_json::to_value(state).unwrap(), json);
}

#[test]
fn an_idle_without_the_promise_sends_the_continuation_to_the_letter() {
    // req 103, req 106, req 125, req 128
    let mut it = Session::begun(policy(25, &[]));
    it.idle("working", true);
    assert_eq!((it.iteration(), it.prompts.len()), (2, 2));
    // Written out, so that a change of the template shows: the blanks of the seed are in it too.
    let seed = "[RALPH LOOP - ITERATION 2/25]\n\n\
        Your previous attempt did not output the completion promise. Continue working on the task.\n\n\
        IMPORTANT:\n\
        - Review your progress so far\n\
        - Continue from where you left off  \n\
        - When FULLY complete, output: <promise>ALL_FIXED</promise>\n\
        - Do not stop until the task is truly done\n\n\
        Original task:\n\
        Fix it.\n";
    let offer = "\nIf it cannot be done as asked, print the line <blocked>your reason</blocked> with the reason in your own words, \
        and stop: a person reads it and decides.\n";
    assert_eq!(it.prompts[1], format!("{seed}{offer}"));
    assert_eq!(it.toast(), ("Ralph Loop", "Iteration 2/25", ToastKind::Info, Some(2000)));
    let state = SessionSummary::of(&it.state, it.now).unwrap();
    assert_eq!((state.iteration, state.last_iteration_at), (2, Some(it.now)));
    let json = serde_json::to_value(state).unwrap();
    assert_eq!(json["lastIterationAt"], "2026-11-17T10:01:00Z", "{json}");
}

#[test]
fn values_are_put_in_once_and_as_they_are() {
    // req 128: literal, every place, and no value is looked at again
    let task = "Replace {{MAX}} by $& and {{PROMPT}} by \\1";
    let begun = LoopStarted { prompt: task.into(), ..session_of(policy(9, &[])) };
    let mut it = Session::of(begun);
    it.idle("working", true);
    assert!(it.prompts[1].contains(&format!("\n\nOriginal task:\n{task}\n")), "{}", it.prompts[1]);
    let values = [("{{A}}", "{{B}} $& \\1"), ("{{B}}", "b")];
    assert_eq!(fill("{{A}}-{{B}}-{{A}}-{{C}}-{{", &values), "{{B}} $& \\1-b-{{B}} $& \\1-{{C}}-{{");
}

#[test]
fn the_promise_ends_the_loop_also_in_its_last_iteration() {
    // req 122, req 124
    for max in [1, 3] {
        let mut it = Session::begun(policy(max, &[]));
        for _ in 1..max {
            it.idle("working", true);
        }
        it.idle("ALL_FIXED", true);
        assert_eq!(it.state.over(), Some(Reason::Done));
        let message = format!("Task completed after {max} iteration(s)");
        assert_eq!(it.toast(), ("Ralph Loop Complete!", message.as_str(), ToastKind::Success, Some(5000)));
        assert_eq!(it.prompts.len(), max as usize, "nothing is injected");
        assert_eq!(SessionSummary::of(&it.state, it.now), None, "cleared");
    }
}

#[test]
fn the_limit_ends_the_loop_after_as_many_prompts() {
    // req 123
    let mut it = Session::begun(policy(2, &[]));
    it.idle("one", true).idle("two", true);
    assert_eq!((it.state.over(), it.prompts.len()), (Some(Reason::MaxIterations), 2));
    let message = "Max iterations (2) reached without completion";
    assert_eq!(it.toast(), ("Ralph Loop Stopped", message, ToastKind::Warning, Some(5000)));
}

#[test]
fn an_abort_and_a_deleted_session_clear_the_loop() {
    // req 116, req 117, req 120
    for deleted in [false, true] {
        let mut it = Session::begun(policy(9, &[]));
        it.idle("working", true);
        let shown = it.toasts.len();
        if deleted {
            it.send(Input::SessionGone("the session was deleted".into()));
        } else {
            it.error(true);
        }
        assert_eq!(it.state.over(), Some(Reason::Cancelled));
        assert_eq!(
            (it.toasts.len(), SessionSummary::of(&it.state, it.now)),
            (shown, None),
            "no toast in the seed"
        );
        let events = it.journal.len();
        it.idle("more", true).error(false);
        assert_eq!((it.journal.len(), it.prompts.len()), (events, 2), "nothing follows");
        // The next loop of the session knows nothing of an error of this one.
        let mut memory = it.state.session.clone();
        memory.recovering_until = Some(it.now);
        let next = session_of(policy(9, &[]));
        memory.apply(&LoopEvent::LoopStarted(Box::new(next)), &it.state);
        assert_eq!(memory, crate::session::SessionState::default(), "the memory of the session is dropped");
    }
}

#[test]
fn another_error_opens_a_window_of_five_seconds_and_the_idle_in_it_counts_at_its_end() {
    // req 118, req 119
    let mut it = Session::begun(policy(9, &[]));
    it.error(false);
    let until = it.now.checked_add(SignedDuration::from_secs(5)).unwrap();
    it.now = it.now.checked_add(SignedDuration::from_millis(4999)).unwrap();
    let idle = it.stopped("working", true);
    it.send(Input::SessionIdle(Box::new(idle.clone())));
    assert_eq!((it.prompts.len(), it.recovery), (1, Some(until)), "skipped, and looked at again");
    let skipped = LoopEvent::IdleSkipped { iteration: 1, why: IdleSkip::Recovering { until } };
    assert_eq!(it.journal.last(), Some(&skipped), "with a log");
    it.now = until;
    let again = SessionIdle { report: AgentReport { at: until, ..idle.report.clone() }, ..idle };
    it.send(Input::SessionIdle(Box::new(again)));
    assert_eq!((it.prompts.len(), it.iteration()), (2, 2), "never swallowed");
}

#[test]
fn duplicate_idles_are_ignored_and_background_work_is_waited_for() {
    // req 134
    let mut it = Session::begun(policy(9, &[]));
    it.idle("working", true);
    let events = it.journal.len();
    let mut same = it.stopped("working", false);
    same.turn = it.state.session.last_idle.unwrap().1;
    same.has_news = false;
    for ms in [0, 499] {
        let mut again = same.clone();
        again.report.at = it.now.checked_add(SignedDuration::from_millis(ms)).unwrap();
        it.send(Input::SessionIdle(Box::new(again)));
        assert_eq!(it.journal.len(), events, "{ms}");
    }
    // The agent of a fast model may stop twice in that time; then it has said something.
    let mut fast = it.stopped("quick", true);
    fast.report.at = it.now.checked_add(SignedDuration::from_millis(100)).unwrap();
    it.send(Input::SessionIdle(Box::new(fast)));
    assert_eq!(it.iteration(), 3);

    it.now = it.now.checked_add(SignedDuration::from_secs(60)).unwrap();
    let mut busy = it.stopped("waiting", false);
    busy.background = vec!["make".into()];
    it.send(Input::SessionIdle(Box::new(busy)));
    assert_eq!(it.prompts.len(), 3, "not sent back");
    let why = IdleSkip::Background { tasks: vec!["make".into()] };
    assert_eq!(it.journal.last(), Some(&LoopEvent::IdleSkipped { iteration: 3, why }));
    it.idle("ALL_FIXED", true);
    assert_eq!(it.state.over(), Some(Reason::Done), "and looked at again when they end");
}

#[test]
fn a_refused_promise_is_answered_with_the_reason_and_never_twice_with_the_same() {
    // req 125
    let mut it = Session::begun(policy(9, &["cargo test"]));
    it.red = vec!["2 tests failed", "2 tests failed", "1 test failed: a_b"];
    it.idle("ALL_FIXED", true);
    let first = it.prompts[1].clone();
    assert!(
        first.contains("1 test failed: a_b") && first.contains("[RALPH LOOP - ITERATION 2/9]"),
        "{first}"
    );
    assert!(!first.contains("did not output the completion promise"), "{first}");
    it.idle("ALL_FIXED", true);
    assert!(it.prompts[2].contains("2 tests failed"), "another refusal is told: {}", it.prompts[2]);
    it.idle("ALL_FIXED", true);
    let again = &it.prompts[3];
    assert!(again.starts_with(&continuation(4, 9)), "the continuation instead: {again}");
    assert!(
        !again.contains("2 tests failed") && again.contains("files have changed since the refusal before"),
        "{again}"
    );
    it.idle("ALL_FIXED", true);
    assert_eq!(it.state.over(), Some(Reason::Done), "the gate passes in the end");
}

#[test]
fn three_idles_in_a_row_without_a_change_let_the_session_go_and_say_why() {
    // req 125
    let mut it = Session::begun(policy(50, &[]));
    it.idle("a", false).idle("b", false).idle("c", true).idle("d", false).idle("e", false);
    assert_eq!((it.state.over(), it.prompts.len()), (None, 6), "the continuation is always sent");
    it.idle("f", false);
    assert_eq!((it.state.over(), it.prompts.len()), (Some(Reason::Stuck), 6));
    let message = "the agent stopped 3 times in a row without a change of any file";
    assert_eq!(it.toast(), ("Ralph Loop Stopped", message, ToastKind::Warning, Some(5000)));
}

#[test]
fn a_prompt_that_was_not_delivered_does_not_count_and_is_tried_again() {
    // req 127
    let mut it = Session::begun(policy(3, &[]));
    it.idle("one", true);
    it.send(Input::PromptNotDelivered("broken pipe".into()));
    assert_eq!((it.iteration(), it.state.charged()), (2, 1));
    it.idle("the user talked to it", true);
    assert_eq!((it.iteration(), it.state.charged(), it.prompts.len()), (2, 2, 3));
    assert!(
        it.prompts[2].starts_with("[RALPH LOOP - ITERATION 2/3]"),
        "the same iteration: {}",
        it.prompts[2]
    );
    it.idle("two", true);
    assert_eq!(it.iteration(), 3);
    it.send(Input::PromptNotDelivered("broken pipe".into()));
    it.idle("ALL_FIXED", true);
    assert_eq!(it.state.over(), Some(Reason::Done), "a claim counts all the same");
}

#[test]
fn a_blocked_agent_stops_the_loop_for_the_user() {
    let mut it = Session::begun(policy(9, &[]));
    it.idle("blocked: no key", true);
    assert_eq!((it.state.over(), it.prompts.len()), (Some(Reason::Blocked), 1));
    assert_eq!(it.toast().1, "the agent is blocked: no key");
}

#[test]
fn a_cancelled_loop_takes_nothing_up_again() {
    // req 109, req 131, req 134
    let mut it = Session::begun(policy(9, &[]));
    it.idle("working", true);
    it.send(Input::Requested(Request::Cancel));
    assert_eq!(it.state.over(), Some(Reason::Cancelled));
    let shown = |toast: Toast| serde_json::to_value(toast).unwrap();
    let cancelled = serde_json::json!({"title": "Ralph Loop Cancelled", "message": "Stopped at iteration 2", "variant": "info",
        "duration": 2000});
    assert_eq!(shown(Toast::cancelled(it.iteration())), cancelled);
    let none = serde_json::json!({"title": "No Active Loop", "message": "No Ralph Loop is currently running", "variant": "info"});
    assert_eq!(shown(Toast::no_active_loop()), none);
    let events = it.journal.len();
    it.idle("ALL_FIXED", true);
    it.send(Input::Resume { grant: Default::default(), output: OutputMarks::default(), pid: 1 });
    assert_eq!(it.journal.len(), events);
}

#[test]
fn words_and_a_pause_of_the_user_hold_in_a_session() {
    let mut it = Session::begun(policy(9, &[]));
    it.send(Input::Requested(Request::Steer { text: "use the second approach".into() }));
    it.idle("one", true);
    assert!(it.prompts[1].contains("use the second approach"));
    it.idle("two", true);
    assert!(!it.prompts[2].contains("use the second approach"), "once");
    it.send(Input::Requested(Request::Pause { now: false }));
    it.idle("three", true);
    assert_eq!((it.prompts.len(), SessionSummary::of(&it.state, it.now).unwrap().active), (3, false));
    it.idle("four", true);
    assert_eq!(it.prompts.len(), 3, "an inactive loop does nothing (req 120)");
    it.send(Input::Requested(Request::Unpause { grant: Default::default() }));
    it.prompts.clear();
    it.idle("five", true);
    assert_eq!(it.prompts.len(), 1);
}

#[test]
fn a_limit_parks_the_loop_and_a_turn_that_ends_well_takes_it_up() {
    let mut it = Session::begun(policy(9, &[]));
    it.idle("one", true);
    let reset = it.now.checked_add(SignedDuration::from_hours(2)).unwrap();
    let exit = crate::event::AgentExit { reset_at: Some(reset), ..AgentExitOf(Outcome::UsageLimit).exit() };
    let report = AgentReport { exit, ..it.stopped("", false).report };
    it.send(Input::AgentExited(Box::new(report)));
    assert!(matches!(it.state.phase, Phase::Parked(_)), "{:?}", it.state.phase);
    assert_eq!(it.state.charged(), 1, "not charged");
    let mut silent = it.stopped("", false);
    silent.has_news = false;
    it.send(Input::SessionIdle(Box::new(silent)));
    assert_eq!(it.prompts.len(), 2, "the idle of the failed turn changes nothing");
    it.idle("works again", true);
    assert_eq!((it.prompts.len(), it.iteration()), (3, 2));
}

#[test]
fn a_hook_that_the_host_ended_while_it_judged_refuses_the_claim() {
    // a gate that the host killed is a refusal, never a release
    let mut it = Session::begun(policy(9, &["cargo test"]));
    it.now = it.now.checked_add(SignedDuration::from_secs(60)).unwrap();
    let idle = it.stopped("ALL_FIXED", true);
    // As far as the gate, and then the hook is killed.
    for input in [
        Input::SessionIdle(Box::new(idle)),
        Input::ChildrenWaitedFor { left: vec![], waited: Millis(0) },
        Input::Examined(Some(Box::new(examination()))),
    ] {
        let step = decide(&it.state, input);
        step.events.iter().for_each(|event| it.state.apply(event));
        it.journal.extend(step.events);
    }
    assert!(matches!(it.state.phase, Phase::Judging(JudgeStep::Gate { .. }, _)));
    // A signal does not end the loop either.
    let step = decide(&it.state, Input::Signalled(StopCause::Terminate));
    assert_eq!((step.events, step.effects.len()), (vec![], 1));
    it.idle("still here", true);
    assert_eq!((it.state.over(), it.iteration(), it.prompts.len()), (None, 2, 2));
    let why = "the host ended the hook before the check `cargo test` had finished";
    assert!(it.prompts[1].contains(why), "{}", it.prompts[1]);
}

#[test]
fn any_order_of_events_keeps_what_sessions_rely_on() {
    // req 134: one continuation for each idle, never more prompts than the limit, nothing after a cancel
    for seed in 0..3000 {
        let mut chance = Chance(seed);
        let max = 1 + chance.below(6) as u32;
        let mut it = Session::begun(policy(max, if chance.below(2) == 0 { &[] } else { &["make"] }));
        let mut last: Option<SessionIdle> = None;
        for _ in 0..30 {
            let before = (it.prompts.len(), it.state.over(), it.journal.len());
            let mut is_idle = false;
            match chance.below(12) {
                0..=4 => {
                    if chance.below(2) == 0 {
                        it.red.push("red");
                    }
                    is_idle = true;
                    it.now =
                        it.now.checked_add(SignedDuration::from_millis(chance.below(9000) as i64)).unwrap();
                    let words = if chance.below(5) == 0 { "ALL_FIXED" } else { "working" };
                    let idle = it.stopped(words, chance.below(3) > 0);
                    last = Some(idle.clone());
                    it.send(Input::SessionIdle(Box::new(idle)));
                }
                5 | 6 => {
                    if let Some(mut again) = last.clone() {
                        is_idle = true;
                        again.has_news = false;
                        again.report.at = it.now;
                        it.send(Input::SessionIdle(Box::new(again)));
                        let was_taken = it.state.session.last_idle.is_some_and(|(at, _)| at == it.now);
                        if was_taken && it.recovery.is_none() {
                            assert_eq!(
                                it.prompts.len(),
                                before.0,
                                "seed {seed}: one continuation for each idle"
                            );
                        }
                    }
                }
                7 => drop(it.error(false)),
                8 => it.send(Input::PromptNotDelivered("gone".into())),
                9 => it.send(Input::Requested(Request::Steer { text: "hm".into() })),
                10 if chance.below(6) == 0 => drop(it.error(true)),
                11 if chance.below(4) == 0 => it.send(Input::Requested(Request::Cancel)),
                _ => {}
            }
            assert!(it.prompts.len() <= before.0 + 1, "seed {seed}: at most one prompt at a time");
            assert!(is_idle || it.prompts.len() == before.0, "seed {seed}: no prompt without an idle");
            assert!(it.iteration() <= max && it.state.charged() <= max, "seed {seed}");
            let delivered = it.prompts.len()
                - it.journal
                    .iter()
                    .filter(|event| matches!(event, LoopEvent::PromptNotDelivered { .. }))
                    .count()
                    .min(it.prompts.len());
            assert!(delivered <= max as usize, "seed {seed}: never more prompts than the limit");
            if before.1.is_some() {
                assert!(
                    before.1 != Some(Reason::Cancelled) || it.journal.len() == before.2,
                    "seed {seed}: nothing after a cancel"
                );
                assert_eq!(it.prompts.len(), before.0, "seed {seed}: nothing after the end");
            }
            assert_eq!(
                it.state.session,
                LoopState::fold(&it.journal).session,
                "seed {seed}: a fold and nothing else"
            );
        }
    }
}
