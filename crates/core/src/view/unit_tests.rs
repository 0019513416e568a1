use super::*;
use crate::event::RunStop;

fn run() -> RunId {
    "r1".parse().unwrap()
}

fn begun(merge: MergeMode) -> RunStarted {
    RunStarted {
        project: "p".parse().unwrap(),
        root: "/repository".into(),
        target: "main".to_owned(),
        merge,
        parallel: 2,
        units: vec![PlannedUnit {
            unit: "auth".parse().unwrap(),
            depends_on: vec!["core".parse().unwrap()],
            tasks: vec![(1, "One".to_owned()), (2, "Two".to_owned())],
            complete: vec![1],
        }],
        settings: Box::new(crate::unit::settings::RunSettings::new(crate::policy::Policy::restart(
            crate::agent::AgentCommand::parse("agent", &[]).unwrap(),
            crate::judge::promise::PromiseRule::new("DONE").unwrap(),
        ))),
        tip: None,
        budget_of: "r1".parse().unwrap(),
        pid: 7,
        version: "0".to_owned(),
    }
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_000_000_000 + secs).unwrap()
}

fn envelope(secs: i64, event: RunEvent) -> RunEnvelope {
    RunEnvelope { seq: 1, at: at(secs), run: run(), unit: None, event }
}

/// A unit after these events, a second apart.
fn seen(merge: MergeMode, events: Vec<RunEvent>) -> UnitView {
    let started = begun(merge);
    let mut view = UnitView::begin(&run(), &started, &started.units[0]);
    for (secs, event) in (1..).zip(events) {
        view.apply(&envelope(secs, event));
    }
    view
}

fn works() -> Vec<RunEvent> {
    vec![
        RunEvent::UnitStarted { slot: 1 },
        RunEvent::WorktreeCreated {
            path: "/w/auth".into(),
            branch: "dacapo/auth-1a2b3c".to_owned(),
            base: "b".to_owned(),
        },
        RunEvent::TaskStarted { task: 2, title: "Two".to_owned(), of: 1 },
        RunEvent::TaskClaudeInvoke {
            loop_id: "l1".parse().unwrap(),
            attempt: 1,
            agent: "mine".to_owned(),
            of: 2,
        },
    ]
}

fn done() -> Vec<RunEvent> {
    let mut events = works();
    events.push(RunEvent::TaskCompleted { task: 2, loop_id: "l1".parse().unwrap(), of: 3 });
    events.push(RunEvent::UnitCompleted { commit: "c".to_owned() });
    events.push(RunEvent::UnitJobEnded);
    events
}

fn with(mut events: Vec<RunEvent>, more: impl IntoIterator<Item = RunEvent>) -> Vec<RunEvent> {
    events.extend(more);
    events
}

fn merged(left_on: Option<(&str, &str)>) -> RunEvent {
    RunEvent::UnitMerged {
        target: "main".to_owned(),
        commit: "m".to_owned(),
        left_on: left_on.map(|(branch, command)| (branch.to_owned(), command.to_owned())),
    }
}

fn fails(reason: UnitEnd, detail: &str) -> RunEvent {
    RunEvent::UnitFailed { reason, detail: detail.to_owned(), loop_id: None }
}

#[test]
fn a_unit_is_one_line_and_one_reason_with_one_next_step() {
    // req 58
    let left = Some(("dacapo/merged-auth", "git merge --ff-only dacapo/merged-auth"));
    let table = [
        (seen(MergeMode::Merge, vec![]), "auth  queued  tasks 1/2", "it waits for core", "by itself"),
        (
            seen(MergeMode::Merge, works()),
            "auth  working  tasks 1/2  slot 1  dacapo/auth-1a2b3c",
            "Working: 1 of 2 tasks complete.",
            "`dacapo logs l1 -f`",
        ),
        (
            seen(MergeMode::Merge, done()),
            "auth  waiting to merge  tasks 2/2  dacapo/auth-1a2b3c",
            "waits for its turn",
            "by itself",
        ),
        (
            seen(MergeMode::Merge, with(done(), [RunEvent::UnitMerging])),
            "auth  merging  tasks 2/2  dacapo/auth-1a2b3c",
            "being merged",
            "by itself",
        ),
        (
            seen(MergeMode::Merge, with(done(), [RunEvent::UnitMerging, merged(None)])),
            "auth  merged  tasks 2/2",
            "Merged: 2 of 2 tasks complete.",
            "Nothing is left to do.",
        ),
        (
            seen(MergeMode::Merge, with(done(), [RunEvent::UnitMerging, merged(left)])),
            "auth  merged  tasks 2/2  left on dacapo/merged-auth",
            "the target could not be moved",
            "`git merge --ff-only dacapo/merged-auth` moves it.",
        ),
        (
            seen(
                MergeMode::Merge,
                with(
                    done(),
                    [RunEvent::UnitMerging, RunEvent::UnitSentBack { detail: "lint is red".to_owned() }],
                ),
            ),
            "auth  queued  tasks 2/2  dacapo/auth-1a2b3c  sent back: lint is red",
            "sent back: lint is red",
            "by itself",
        ),
        (
            seen(MergeMode::Leave, done()),
            "auth  completed  tasks 2/2  dacapo/auth-1a2b3c",
            "Completed",
            "`dacapo/auth-1a2b3c`",
        ),
        (
            seen(
                MergeMode::PullRequest,
                with(
                    done(),
                    [
                        RunEvent::UnitPublishing,
                        RunEvent::PrCreated { url: "https://example.invalid/1".to_owned() },
                        RunEvent::UnitJobEnded,
                    ],
                ),
            ),
            "auth  completed  tasks 2/2  https://example.invalid/1",
            "Completed",
            "https://example.invalid/1",
        ),
        (
            seen(MergeMode::Merge, vec![RunEvent::UnitBlocked { by: vec!["core".parse().unwrap()] }]),
            "auth  blocked by core",
            "core came to no good end",
            "`dacapo why core`",
        ),
        (
            seen(MergeMode::Merge, with(works(), [fails(UnitEnd::Exhausted, "3 tries were not enough.")])),
            "auth  failed  tasks 1/2  dacapo/auth-1a2b3c  3 tries were not enough.",
            "Failed: 3 tries were not enough; 1 of 2 tasks complete.",
            "--retry-failed",
        ),
        (
            seen(
                MergeMode::Merge,
                with(works(), [fails(UnitEnd::Budget, "cost 5.03 of 5.00 USD in this run")]),
            ),
            "auth  failed  tasks 1/2  dacapo/auth-1a2b3c  cost 5.03 of 5.00 USD in this run",
            "cost 5.03",
            "`dacapo resume r1 --max-cost USD` goes on.",
        ),
        (
            seen(MergeMode::Merge, with(works(), [fails(UnitEnd::Auth, "not signed in")])),
            "auth  failed  tasks 1/2  dacapo/auth-1a2b3c  not signed in",
            "not signed in",
            "Sign in",
        ),
        (
            seen(MergeMode::Merge, with(works(), [fails(UnitEnd::Stopped, "the run was stopped")])),
            "auth  stopped  tasks 1/2  dacapo/auth-1a2b3c  the run was stopped",
            "Stopped: the run was stopped",
            "`dacapo unit run` goes on with it.",
        ),
    ];
    for (view, line, because, next) in table {
        assert_eq!(unit_line(&view, 4), line);
        let why = why_unit(&view);
        assert!(why.because.contains(because), "{because}: {why:?}");
        assert!(why.next.contains(next), "{next}: {why:?}");
    }
}

#[test]
fn a_view_keeps_times_receipts_and_tasks() {
    let view =
        seen(MergeMode::Merge, with(done(), [RunEvent::UnitMerging, merged(None), RunEvent::UnitJobEnded]));
    assert_eq!((view.started_at, view.ended_at), (Some(at(1)), Some(at(9))));
    assert_eq!((view.receipts.len(), view.merged.as_deref(), view.slot), (1, Some("m"), None));
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(
        (&json["status"], &json["loop"], &json["tasks"][1]["status"]),
        (&"merged".into(), &"l1".into(), &"complete".into())
    );
    assert_eq!(view.clone().with_dead_owner(), view, "what has ended stays as it ended");
}

#[test]
fn a_task_is_begun_when_somebody_claims_it_or_has_no_other_choice() {
    // req 58: an agent is offered all that are ready, and says at last which one it chose.
    let offered = |task| RunEvent::TaskStarted { task, title: String::new(), of: 1 };
    let works = || RunEvent::TaskClaudeInvoke {
        loop_id: "l1".parse().unwrap(),
        attempt: 1,
        agent: "agent".to_owned(),
        of: 2,
    };
    let claimed = |task| RunEvent::TaskBackpressure { task, command: "make".to_owned(), of: 3 };
    let refused = |task| RunEvent::TaskValidationFail { task, output: String::new(), exit_code: 1, of: 4 };
    let proven = |task| RunEvent::TaskCompleted { task, loop_id: "l1".parse().unwrap(), of: 5 };
    let given_up = |task| RunEvent::TaskFailed { task, detail: String::new() };
    for (events, expected) in [
        (vec![], ["pending", "pending", "pending"]),
        (vec![offered(1), offered(2)], ["ready", "ready", "pending"]),
        (vec![offered(1), offered(2), works()], ["ready", "ready", "pending"]),
        (vec![offered(1), offered(2), works(), claimed(2)], ["ready", "in_progress", "pending"]),
        (vec![offered(1), offered(2), works(), claimed(2), refused(2)], ["ready", "in_progress", "pending"]),
        (vec![offered(1), offered(2), works(), claimed(2), proven(2)], ["ready", "complete", "pending"]),
        // The next turn has one left, and a third that waited for the second.
        (vec![offered(1), offered(2), proven(2), works()], ["in_progress", "complete", "pending"]),
        (vec![offered(1), offered(2), proven(2), offered(3), works()], ["ready", "complete", "ready"]),
        (vec![offered(1), works(), given_up(1)], ["failed", "pending", "pending"]),
    ] {
        let mut started = begun(MergeMode::Merge);
        started.units[0].tasks = (1..=3).map(|number| (number, String::new())).collect();
        started.units[0].complete.clear();
        let mut view = UnitView::begin(&run(), &started, &started.units[0]);
        events.iter().for_each(|event| view.apply(&envelope(1, event.clone())));
        let words: Vec<&str> = view.tasks.iter().map(TaskView::words).collect();
        assert_eq!(words, expected, "{events:?}");
        // The next run knows what was offered, and what is complete.
        view.worktree = Some("/w/auth".into());
        let next = UnitView::begin(&run(), &started, &started.units[0]).going_on(view);
        let word = |word: &'static str| match word {
            "in_progress" => "ready",
            "failed" => "pending",
            same => same,
        };
        let words: Vec<&str> = next.tasks.iter().map(TaskView::words).collect();
        assert_eq!(words, expected.map(word), "{events:?}");
    }
}

#[test]
fn a_run_ends_as_its_last_event_says() {
    // req 202
    let failed = |reason: &str, exit_code| RunEvent::OrchFailed {
        reason: reason.to_owned(),
        detail: "why".to_owned(),
        exit_code,
    };
    for (event, state, exit) in [
        (RunEvent::OrchCompleted { detail: "1 unit merged".to_owned() }, "completed", 0),
        (failed("failed", 1), "failed", 1),
        (failed("budget", 3), "failed", 3),
        (failed("max_time", 3), "failed", 3),
        (failed("person", 4), "stopped", 4),
        (failed("interrupted", 130), "stopped", 130),
    ] {
        let first = envelope(0, RunEvent::OrchStarted(Box::new(begun(MergeMode::Merge))));
        let mut view = RunView::begin(&first).unwrap();
        assert_eq!((view.state.as_str(), view.units, view.is_over()), ("running", 1, false));
        view.apply(&envelope(1, RunEvent::OrchStopping { by: RunStop::Interrupt }));
        assert_eq!(view.state, "stopping");
        view.apply(&envelope(2, event));
        assert_eq!((view.state.as_str(), view.exit_code, view.ended_at), (state, Some(exit), Some(at(2))));
        assert!(view.is_over() && view.pid.is_none());
    }
}

#[test]
fn what_goes_on_merges_as_the_run_was_told_to() {
    let typed = |merge, target: Option<&str>| {
        let mut view = seen(merge, with(works(), [fails(UnitEnd::Baseline, "red")]));
        view.typed_target = target.map(str::to_owned);
        view
    };
    for (view, command) in [
        (typed(MergeMode::Merge, None), "dacapo unit run --unit auth"),
        (typed(MergeMode::Leave, None), "dacapo unit run --unit auth --no-merge"),
        (typed(MergeMode::PullRequest, Some("next")), "dacapo unit run --unit auth --target next --pr"),
    ] {
        assert!(why_unit(&view).next.ends_with(&format!("then `{command}`.")), "{:?}", why_unit(&view));
        let mut given_up = view.clone();
        given_up.reason = Some(UnitEnd::Exhausted);
        assert!(why_unit(&given_up).next.contains(&format!("`{command} --retry-failed`")));
        let mut stopped = view;
        stopped.status = UnitStatus::Stopped;
        assert!(why_unit(&stopped).next.starts_with(&format!("`{}`", command.replace(" --unit auth", ""))));
    }
    let mut started = begun(MergeMode::Merge);
    started.settings.typed_target = Some("next".to_owned());
    let view = UnitView::begin(&run(), &started, &started.units[0]);
    assert_eq!(view.typed_target.as_deref(), Some("next"));
}

#[test]
fn a_unit_names_the_loop_that_it_failed_in() {
    let fails = |loop_id: Option<&str>| RunEvent::UnitFailed {
        reason: UnitEnd::Baseline,
        detail: "red".to_owned(),
        loop_id: loop_id.map(|id| id.parse().unwrap()),
    };
    for (loop_id, expected) in [(Some("base1"), "base1"), (None, "l1")] {
        let view = seen(MergeMode::Merge, with(works(), [fails(loop_id)]));
        assert_eq!(view.loop_id.as_ref().unwrap().as_str(), expected);
        assert!(why_unit(&view).next.contains(&format!("`dacapo logs {expected}`")));
    }
}

#[test]
fn a_run_has_a_reason_and_a_step_that_works() {
    let failed = |reason: &str, detail: &str| RunEvent::OrchFailed {
        reason: reason.to_owned(),
        detail: detail.to_owned(),
        exit_code: 1,
    };
    for (event, because, next) in [
        (None, "The run is running: 1 units, 2 at once.", "`dacapo events r1 -f` follows it"),
        (
            Some(RunEvent::OrchCompleted { detail: "1 unit merged".to_owned() }),
            "Completed: 1 unit merged.",
            "`dacapo status` shows its units.",
        ),
        (Some(failed("failed", "auth: red")), "Failed: auth: red.", "`dacapo resume r1` goes on."),
        (
            Some(failed("budget", "auth: cost 1.00 of 1.00 USD in this run")),
            "Failed (budget)",
            "`dacapo resume r1 --max-cost USD` goes on.",
        ),
        (
            Some(failed("budget", "auth: 9 of 8 tokens in this run")),
            "Failed (budget)",
            "`dacapo resume r1 --max-tokens N` goes on.",
        ),
        (Some(failed("budget", "auth: cost 1 of 1 USD today")), "today", "`dacapo resume r1` goes on."),
        (
            Some(failed("person", "auth: which port?")),
            "A person is needed: auth: which port?",
            "`dacapo resume r1` goes on.",
        ),
        (Some(failed("max_time", "used up")), "used up", "`dacapo resume r1 --max-time DUR` goes on."),
    ] {
        let first = envelope(0, RunEvent::OrchStarted(Box::new(begun(MergeMode::Merge))));
        let mut view = RunView::begin(&first).unwrap();
        event.into_iter().for_each(|event| view.apply(&envelope(1, event)));
        let why = why_run(&view, &[]);
        assert!(why.because.contains(because) && why.next.contains(next), "{why:?}");
        assert!(!why.because.contains("?."), "{why:?}");
    }
}

#[test]
fn a_run_that_gave_up_a_task_is_gone_on_with_by_what_tries_it_again() {
    let end = RunEvent::OrchFailed {
        reason: "failed".to_owned(),
        detail: "auth: task #1 was given up".to_owned(),
        exit_code: 1,
    };
    let first = envelope(0, RunEvent::OrchStarted(Box::new(begun(MergeMode::Merge))));
    let mut run = RunView::begin(&first).unwrap();
    run.apply(&envelope(1, end));
    let given_up = seen(MergeMode::Merge, with(works(), [fails(UnitEnd::Exhausted, "task #1 was given up")]));
    let no_loop = UnitView { loop_id: None, ..given_up.clone() };
    let red = seen(MergeMode::Merge, with(works(), [fails(UnitEnd::Baseline, "red")]));
    for (unit, next) in [
        (
            given_up,
            "`dacapo why auth` shows what its gate said; `dacapo unit run --retry-failed` tries again.",
        ),
        (no_loop, "`dacapo unit run --retry-failed` tries again."),
        (red, "`dacapo status` shows how each unit stands; `dacapo resume r1` goes on."),
    ] {
        assert_eq!(why_run(&run, &[unit]).next, next);
    }
}

#[test]
fn the_time_that_a_person_holds_a_run_is_not_its_own() {
    let view = |events: Vec<(i64, RunEvent)>| {
        let first = envelope(0, RunEvent::OrchStarted(Box::new(begun(MergeMode::Merge))));
        let mut view = RunView::begin(&first).unwrap();
        events.into_iter().for_each(|(secs, event)| view.apply(&envelope(secs, event)));
        view
    };
    let pauses = |secs| (secs, RunEvent::OrchPaused { now: false });
    let goes_on = |secs, max_time: Option<u64>| {
        let grant = Grant { max_time_ms: max_time.map(Millis::from_secs), ..Grant::default() };
        (secs, RunEvent::OrchUnpaused { grant })
    };
    let secs = Millis::from_secs;
    assert_eq!(view(vec![]).lasted(at(100)), secs(100));
    assert_eq!(view(vec![pauses(10)]).lasted(at(100)), secs(10), "it is held still");
    // Asked again to hold, now: it has been held all the time.
    let twice = vec![pauses(10), pauses(20), goes_on(40, None), pauses(50), goes_on(60, None)];
    assert_eq!(view(twice).lasted(at(100)), secs(60));
    assert_eq!(view(vec![pauses(10), goes_on(40, None)]).granted, Grant::default());
    // From then on, and ten seconds were used before.
    let granted = view(vec![pauses(10), goes_on(40, Some(30))]).granted;
    assert_eq!(granted.max_time_ms, Some(secs(40)));
    let more = Grant { extra_iterations: 1, max_cost: Some(2.0), ..Grant::default() };
    let all = view(vec![
        pauses(1),
        (2, RunEvent::OrchUnpaused { grant: more }),
        pauses(3),
        (4, RunEvent::OrchUnpaused { grant: Grant { max_cost: None, ..more } }),
        (5, RunEvent::OrchSteered { text: "mind the gap".to_owned() }),
    ]);
    assert_eq!((all.granted.extra_iterations, all.granted.max_cost), (2, Some(2.0)));
    assert_eq!(all.steers, ["mind the gap"]);
}
