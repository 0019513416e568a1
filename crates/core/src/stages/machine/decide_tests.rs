use std::collections::BTreeMap;

use jiff::Timestamp;

use super::*;
use crate::{
    judge::evidence::{Evidence, EvidenceReason as Verified},
    stages::{FindingDecision, FindingState, RalphFailure, StageName, Stalemate, task},
};
use StageName::{Coder, Qa, Reviewer, Tester};

pub(super) const NOW: Timestamp = Timestamp::UNIX_EPOCH;

pub(in crate::stages) fn started() -> Box<TaskStarted> {
    let text = "---\nid: TASK-001\ntitle: T\ncompletion: {stages: {qa: {promise: FINE}}}\n---\nDo it.\n";
    let stages = StageName::ALL.map(|name| PlannedStage {
        stage: Stage::of(name),
        max_iterations: name.role().max_iterations,
        why: String::new(),
    });
    let task = task::parse("TASK-001.md", text.as_bytes()).unwrap().spec;
    Box::new(TaskStarted {
        task,
        stages: stages.into(),
        past_refusals: BTreeMap::new(),
        past_findings: Vec::new(),
        settings: None,
    })
}

pub(super) fn end(reason: Reason, answer: &str, tree: &str) -> Box<StageEnd> {
    Box::new(StageEnd {
        reason,
        detail: reason.as_str().to_owned(),
        answer: answer.to_owned(),
        began_with: String::new(),
        tree: tree.to_owned(),
        has_committed: false,
        changed: Vec::new(),
        deleted: Vec::new(),
        iterations: 2,
        refusals: Vec::new(),
        loop_id: None,
    })
}

/// A task, everything it has recorded, and what it wanted done last.
struct Run {
    state: TaskProgress,
    events: Vec<TaskEvent>,
    effects: Vec<TaskEffect>,
}

impl Run {
    fn begun() -> Self {
        let mut run = Self { state: TaskProgress::default(), events: Vec::new(), effects: Vec::new() };
        run.tell(TaskNews::Begin(started()));
        run
    }

    fn tell(&mut self, news: TaskNews) {
        let step = TaskMachine::decide(&self.state, TaskInput { now: NOW, news });
        for event in &step.events {
            TaskMachine::apply(&mut self.state, event);
        }
        assert_ne!(self.state.phase, TaskPhase::Between, "no decision ends between two steps");
        self.events.extend(step.events);
        self.effects = step.effects;
        assert_eq!(TaskMachine::fold(&self.events), self.state);
    }

    /// The stage that runs ends like this.
    fn ends(&mut self, reason: Reason, answer: &str, tree: &str) {
        let TaskPhase::InStage { run, .. } = self.state.phase else { panic!("{:?}", self.state.phase) };
        self.tell(TaskNews::StageEnded { run, end: end(reason, answer, tree) });
    }

    fn stage(&self) -> Option<StageName> {
        match self.state.phase {
            TaskPhase::InStage { stage, .. } => Some(stage),
            _ => None,
        }
    }

    /// The coder is done, and the reviewer says this about its tree.
    fn round(&mut self, tree: &str, answer: &str) {
        self.ends(Reason::Done, "committed", tree);
        self.ends(Reason::Done, answer, tree);
    }

    fn warnings(&self) -> Vec<&str> {
        let warnings = self.events.iter().filter_map(|event| match event {
            TaskEvent::Warned { text } => Some(text.as_str()),
            _ => None,
        });
        warnings.collect()
    }

    fn words(&self) -> Vec<String> {
        self.events
            .iter()
            .map(|event| {
                let value = serde_json::to_value(event).unwrap();
                let of = |key: &str| value[key].as_str().map(|word| format!(" {word}")).unwrap_or_default();
                format!("{}{}{}", value["type"].as_str().unwrap(), of("stage"), of("end"))
            })
            .collect()
    }
}

fn order(run: u32, name: StageName, user_says: Option<&str>) -> TaskEffect {
    let mut stage = Stage::of(name);
    if name == Qa {
        stage.promise = "FINE".to_owned();
    }
    TaskEffect::RunStage(Box::new(StageOrder {
        run,
        stage,
        max_iterations: name.role().max_iterations,
        user_says: user_says.map(str::to_owned),
        answered_blocks: 0,
    }))
}

/// The same once the user has let a blocked agent go on.
fn order_again(run: u32, name: StageName, user_says: Option<&str>) -> TaskEffect {
    match order(run, name, user_says) {
        TaskEffect::RunStage(order) => {
            TaskEffect::RunStage(Box::new(StageOrder { answered_blocks: 1, ..*order }))
        }
        other => other,
    }
}

fn todo_and_end(reason: TaskEndReason, detail: &str, exit_code: u8) -> Vec<TaskEffect> {
    let end = TaskEnd { end: reason, detail: detail.to_owned(), exit_code };
    vec![TaskEffect::SetStatus(StageTaskStatus::Todo), TaskEffect::End(end)]
}

#[test]
fn a_task_passes_its_stages_in_their_order_and_is_merged_and_done() {
    // req 196
    let mut run = Run::begun();
    let answers = ["committed", "REVIEW PASSED", "3 passed", "fine"];
    let statuses = [
        StageTaskStatus::Implementing,
        StageTaskStatus::Reviewing,
        StageTaskStatus::Testing,
        StageTaskStatus::Testing,
    ];
    for (at, ((stage, answer), status)) in StageName::ALL.into_iter().zip(answers).zip(statuses).enumerate() {
        assert_eq!(run.stage(), Some(stage));
        let number = u32::try_from(at + 1).unwrap();
        assert_eq!(run.effects, [TaskEffect::SetStatus(status), order(number, stage, None)]);
        assert_eq!(run.state.status(), status);
        run.ends(Reason::Done, answer, &format!("t{at}"));
    }
    assert_eq!(run.effects, [TaskEffect::Merge { tree: "t3".to_owned() }]);
    run.tell(TaskNews::MergeEnded(MergeEnd::Merged { commit: "c".to_owned() }));
    let done = TaskEnd { end: TaskEndReason::Done, detail: "done".to_owned(), exit_code: 0 };
    let tidy = TaskEffect::Tidy { commit: "c".to_owned() };
    assert_eq!(run.effects, [TaskEffect::SetStatus(StageTaskStatus::Done), tidy, TaskEffect::End(done)]);
    assert_eq!(
        run.words(),
        [
            "task_started",
            "stage_started coder",
            "stage_passed coder",
            "stage_started reviewer",
            "review_round",
            "stage_passed reviewer",
            "stage_started tester",
            "stage_passed tester",
            "stage_started qa",
            "stage_passed qa",
            "merge_started",
            "task_merged",
            "task_finished done",
        ]
    );
    let before = run.events.len();
    for news in [TaskNews::Begin(started()), TaskNews::TakenUp, TaskNews::Resumed, TaskNews::Cancel] {
        run.tell(news);
    }
    assert_eq!((run.events.len(), run.effects.as_slice()), (before, &[][..]), "an end is an end");
}

#[test]
fn a_refusal_returns_to_the_coder_with_what_is_open() {
    let mut run = Run::begun();
    run.round("t1", "CHANGES REQUESTED:\n- it leaks\n- no test");
    assert_eq!(run.effects, [TaskEffect::SetStatus(StageTaskStatus::Implementing), order(3, Coder, None)]);
    assert_eq!(run.events[run.events.len() - 2], TaskEvent::SentBack { from: Reviewer, open: 2 });
    // The coder declares one of them refuted: it stays open, and the reviewer reads it.
    run.ends(Reason::Done, "committed\nREFUTED F1: it does not\nFIXED F2", "t2");
    let open: Vec<u32> = run.state.ledger().open().map(|finding| finding.number).collect();
    assert_eq!((run.stage(), open), (Some(Reviewer), vec![1, 2]));
    assert_eq!(run.state.ledger().findings[0].coder_says.as_ref().unwrap().state, FindingState::Refuted);
    run.ends(Reason::Done, "REFUTED F1: right\nFIXED F2\nREVIEW PASSED", "t2");
    assert_eq!((run.stage(), run.state.ledger().open().count()), (Some(Tester), 0));
}

#[test]
fn a_reviewer_at_its_limit_that_refuses_has_refused_and_one_that_says_nothing_has_failed() {
    for (answer, expected) in [("REVIEW FAILED: leaks", Some(Coder)), ("hm", None)] {
        let mut run = Run::begun();
        run.ends(Reason::Done, "committed", "t1");
        run.ends(Reason::MaxIterations, answer, "t1");
        assert_eq!(run.stage(), expected, "{answer}");
    }
    // One that refuses ends its loop at once; what is kept of its answer may lack the words.
    for (answer, finding) in [("REVIEW FAILED: leaks", "leaks"), ("…and so on", "refused")] {
        let mut run = Run::begun();
        run.ends(Reason::Done, "committed", "t1");
        run.ends(Reason::Refused, answer, "t1");
        assert_eq!(run.stage(), Some(Coder), "{answer}");
        assert_eq!(run.state.ledger().findings[0].text, finding);
    }
    // One that was interrupted has not come to a verdict.
    let mut run = Run::begun();
    run.ends(Reason::Done, "committed", "t1");
    run.ends(Reason::Interrupted, "REVIEW FAILED: so far", "t1");
    assert_eq!((run.stage(), run.state.ledger().rounds.len()), (Some(Reviewer), 0));
}

#[test]
fn a_reviewer_that_says_both_is_warned_about_and_refuses() {
    let mut run = Run::begun();
    run.round("t1", "REVIEW PASSED\nREVIEW FAILED: no");
    let warning = "the reviewer both approves and refuses the work; the refusal counts";
    assert_eq!(run.warnings(), [warning]);
    assert_eq!(run.stage(), Some(Coder));
}

#[test]
fn a_reviewer_that_invents_a_finding_every_round_ends_with_a_question_after_three() {
    let mut run = Run::begun();
    for (at, new) in ["a", "b", "c"].into_iter().enumerate() {
        run.round(&format!("t{at}"), &format!("FIXED F{at}\nREVIEW FAILED\n- {new}"));
    }
    assert_eq!(run.effects, [TaskEffect::SetStatus(StageTaskStatus::Todo), TaskEffect::Ask { question: 1 }]);
    let TaskPhase::Asking { number: 1, question } = run.state.phase() else {
        panic!("{:?}", run.state.phase())
    };
    let stalemate = Stalemate::StillFinding { per_round: vec![1, 1, 1] };
    assert_eq!(question.about, QuestionAbout::Review { stalemate, tree: "t2".to_owned() });
    let reason = "The review does not come to an end: 3 rounds have brought findings (1, 1, 1).";
    assert_eq!(run.state.ralph_failure().map(|failure| failure.reason.as_str()), Some(reason));
    assert_eq!((run.state.status(), run.state.ralph(), run.state.end()), (StageTaskStatus::Todo, None, None));
}

/// A task whose user is asked, because the coder has changed nothing.
fn asking() -> Run {
    let mut run = Run::begun();
    run.round("t1", "REVIEW FAILED\n- a");
    run.round("t1", "REVIEW FAILED\n- a");
    assert_eq!(run.effects.last(), Some(&TaskEffect::Ask { question: 1 }));
    run
}

#[test]
fn the_user_takes_the_work_as_it_is_or_sends_it_back() {
    let answer = |question, answer, text: &str| TaskNews::Answered {
        question,
        answer,
        text: text.to_owned(),
        tree: "t1".to_owned(),
    };
    let mut run = asking();
    run.tell(answer(2, UserAnswer::Approve, ""));
    assert_eq!(run.effects, [], "an answer to a question that was not asked");
    run.tell(TaskNews::TakenUp);
    assert_eq!(run.effects, [TaskEffect::Ask { question: 1 }]);
    run.tell(answer(1, UserAnswer::Approve, "ship it"));
    assert_eq!(run.stage(), Some(Tester));
    let finding = &run.state.ledger().findings[0];
    assert_eq!(finding.state, FindingState::Deferred);
    assert_eq!(finding.decided, Some((crate::stages::Decider::User, "ship it".to_owned())));
    assert_eq!(run.state.ralph_failure(), None);

    let mut run = asking();
    run.tell(answer(1, UserAnswer::Reject, "use argon2"));
    assert_eq!(
        run.effects,
        [TaskEffect::SetStatus(StageTaskStatus::Implementing), order(5, Coder, Some("use argon2"))]
    );
    assert_eq!(run.state.ledger().open().count(), 1);
    run.tell(answer(1, UserAnswer::Approve, ""));
    assert_eq!(run.effects, [], "it was answered already");
}

#[test]
fn a_stage_that_reached_a_limit_sends_the_task_back_to_todo() {
    // req 186, req 187, req 196
    for (before, stage) in [(0, Coder), (1, Reviewer), (2, Tester), (3, Qa)] {
        let mut run = Run::begun();
        for answer in ["committed", "REVIEW PASSED", "passed"].iter().take(before) {
            run.ends(Reason::Done, answer, "t");
        }
        run.ends(Reason::MaxIterations, "almost", "t");
        let failure = RalphFailure {
            stage,
            iterations_used: 2,
            last_output: "almost".to_owned(),
            reason: "Max iterations reached without completion promise".to_owned(),
        };
        assert_eq!(run.state.ralph_failure(), Some(&failure));
        assert_eq!(run.warnings(), ["Ralph loop exceeded 2 iterations"]);
        let ended =
            todo_and_end(TaskEndReason::Failed, "Max iterations reached without completion promise", 3);
        assert_eq!(run.effects, ended);
    }
    for reason in [Reason::MaxTime, Reason::Budget, Reason::Stuck] {
        // req 192
        let mut run = Run::begun();
        run.ends(reason, "", "t");
        assert_eq!(
            run.effects,
            todo_and_end(TaskEndReason::Failed, reason.as_str(), reason.exit_code()),
            "{reason:?}"
        );
    }
}

#[test]
fn a_stage_that_was_interrupted_goes_on_with_the_same_loop() {
    for reason in [Reason::Interrupted, Reason::Terminated, Reason::Waiting, Reason::Auth, Reason::Billing] {
        let mut run = Run::begun();
        run.ends(reason, "", "t");
        let held = TaskEffect::Hold { reason, detail: reason.as_str().to_owned() };
        assert_eq!(run.effects, [held]);
        run.tell(TaskNews::TakenUp);
        assert_eq!(run.effects, [], "the user has to resume it");
        run.tell(TaskNews::StageEnded { run: 1, end: end(Reason::Done, "committed", "t") });
        assert_eq!(run.effects, [], "nothing runs");
        run.tell(TaskNews::Resumed);
        assert_eq!(
            run.effects,
            [TaskEffect::SetStatus(StageTaskStatus::Implementing), order(1, Coder, None)]
        );
    }
    // After a crash the loop that was under way is told again.
    let mut run = Run::begun();
    run.tell(TaskNews::TakenUp);
    assert_eq!(run.effects, [order(1, Coder, None)]);
    run.tell(TaskNews::Resumed);
    assert_eq!(run.effects, []);
    run.tell(TaskNews::StageEnded { run: 7, end: end(Reason::Done, "", "t") });
    assert_eq!(run.effects, [], "the end of another run");
}

#[test]
fn an_agent_that_is_blocked_asks_the_user() {
    for (answer, text, expected) in [
        (UserAnswer::Approve, "the key is in the safe", None),
        (UserAnswer::Reject, "", Some("the user gave it up")),
    ] {
        let mut run = Run::begun();
        run.ends(Reason::Blocked, "", "t");
        assert_eq!(
            run.effects,
            [TaskEffect::SetStatus(StageTaskStatus::Todo), TaskEffect::Ask { question: 1 }]
        );
        let reason = "The coder says that it cannot be done as asked: blocked";
        assert_eq!(run.state.ralph_failure().unwrap().reason, reason);
        run.tell(TaskNews::Answered { question: 1, answer, text: text.to_owned(), tree: String::new() });
        match expected {
            None => assert_eq!(
                run.effects,
                [TaskEffect::SetStatus(StageTaskStatus::Implementing), order_again(1, Coder, Some(text))]
            ),
            Some(why) => assert_eq!(run.effects, todo_and_end(TaskEndReason::Failed, why, 1)),
        }
    }
}

#[test]
fn a_block_that_the_user_has_not_answered_is_asked_about_also_after_a_crash() {
    let order = |answered_blocks| StageOrder {
        run: 1,
        stage: Stage::of(Coder),
        max_iterations: 15,
        user_says: None,
        answered_blocks,
    };
    for (reason, blocks, answered, expected) in [
        (None, 0, 0, KnownLoop::GoOn { is_told: false }),
        (Some(Reason::Interrupted), 0, 0, KnownLoop::GoOn { is_told: false }),
        (Some(Reason::Interrupted), 1, 1, KnownLoop::GoOn { is_told: false }),
        (Some(Reason::Done), 0, 0, KnownLoop::Report),
        (Some(Reason::MaxIterations), 1, 1, KnownLoop::Report),
        (Some(Reason::Blocked), 1, 0, KnownLoop::Report),
        (Some(Reason::Blocked), 1, 1, KnownLoop::GoOn { is_told: true }),
        // Answered once, it was blocked anew before the performer was killed.
        (Some(Reason::Blocked), 2, 1, KnownLoop::Report),
        (Some(Reason::Blocked), 2, 2, KnownLoop::GoOn { is_told: true }),
    ] {
        assert_eq!(order(answered).about(reason, blocks), expected, "{reason:?}, {blocks} of {answered}");
    }
    let mut run = Run::begun();
    for question in 1..=2 {
        run.ends(Reason::Blocked, "", "t");
        run.tell(TaskNews::Answered {
            question,
            answer: UserAnswer::Approve,
            text: String::new(),
            tree: String::new(),
        });
    }
    run.tell(TaskNews::TakenUp);
    let [TaskEffect::RunStage(told)] = &run.effects[..] else { panic!("{:?}", run.effects) };
    assert_eq!(told.answered_blocks, 2);
}

#[test]
fn a_role_that_reaches_beyond_itself_is_refused_or_warned_about() {
    let changed = |files: &[&str], answer: &str, tree: &str| {
        let mut end = end(Reason::Done, answer, tree);
        end.changed = files.iter().map(|file| (*file).to_owned()).collect();
        end
    };
    let mut run = Run::begun();
    run.ends(Reason::Done, "committed", "t1");
    run.tell(TaskNews::StageEnded { run: 2, end: changed(&["src/a.rs"], "REVIEW PASSED", "t2") });
    let why = "The reviewer changed files, which is not its role: src/a.rs";
    assert_eq!(run.effects, todo_and_end(TaskEndReason::Failed, why, 1));
    assert_eq!(run.state.ledger().rounds, [], "what it says does not count");

    let mut run = Run::begun();
    run.ends(Reason::Done, "committed", "t1");
    run.ends(Reason::Done, "REVIEW PASSED", "t1");
    run.tell(TaskNews::StageEnded { run: 3, end: changed(&["tests/a.rs", "src/a.rs"], "1 passed", "t2") });
    let why = "the tester changed files that are not tests, and no role reviews them: src/a.rs";
    assert_eq!((run.stage(), run.warnings()), (Some(Qa), vec![why]));
    let passed = run.events.iter().rev().find_map(|event| match event {
        TaskEvent::StagePassed { changed, unreviewed, .. } => Some((changed.len(), unreviewed.clone())),
        _ => None,
    });
    assert_eq!(passed, Some((2, vec!["src/a.rs".to_owned()])));
    run.tell(TaskNews::StageEnded { run: 4, end: changed(&["x"], "fine", "t3") });
    let why = "The qa changed files, which is not its role: x";
    assert_eq!(run.effects, todo_and_end(TaskEndReason::Failed, why, 1));
}

#[test]
fn a_task_is_cancelled_wherever_it_is() {
    let cancelled = todo_and_end(TaskEndReason::Cancelled, "cancelled", 130);
    // While a stage runs, its loop is stopped first.
    let mut run = Run::begun();
    run.tell(TaskNews::Cancel);
    assert_eq!(run.effects, [TaskEffect::StopStage { run: 1 }]);
    run.tell(TaskNews::Cancel);
    assert_eq!(run.effects, []);
    let mut killed = Run { state: run.state.clone(), events: run.events.clone(), effects: Vec::new() };
    run.ends(Reason::Done, "committed", "t");
    assert_eq!(run.effects, cancelled);
    killed.tell(TaskNews::TakenUp);
    assert_eq!(killed.effects, cancelled, "its loop died with the performer");
    let mut held = Run::begun();
    held.ends(Reason::Interrupted, "", "t");
    held.tell(TaskNews::Cancel);
    assert_eq!(held.effects, cancelled);
    let mut asked = asking();
    asked.tell(TaskNews::Cancel);
    assert_eq!(asked.effects, cancelled);
}

/// A task whose stages are all passed.
fn merging() -> Run {
    let mut run = Run::begun();
    for answer in ["committed", "REVIEW PASSED", "passed", "fine"] {
        run.ends(Reason::Done, answer, "t");
    }
    run
}

#[test]
fn a_merge_is_done_refused_or_held() {
    let merge = TaskEffect::Merge { tree: "t".to_owned() };
    let mut run = merging();
    run.tell(TaskNews::TakenUp);
    assert_eq!(run.effects.first(), Some(&merge));
    run.tell(TaskNews::MergeEnded(MergeEnd::Held { reason: Reason::Lock, detail: "held".to_owned() }));
    run.tell(TaskNews::TakenUp);
    assert_eq!(run.effects, []);
    run.tell(TaskNews::Resumed);
    assert_eq!(run.effects, [merge]);
    run.tell(TaskNews::MergeEnded(MergeEnd::Refused { why: "conflicts in a.rs".to_owned() }));
    assert_eq!(run.effects, todo_and_end(TaskEndReason::Failed, "conflicts in a.rs", 1));
    assert_eq!(run.state.ralph_failure().unwrap().reason, "conflicts in a.rs");
    // What is merged is done, though the user wanted to cancel it.
    for (end, expected) in [
        (MergeEnd::Merged { commit: "c".to_owned() }, TaskEndReason::Done),
        (MergeEnd::Refused { why: "no".to_owned() }, TaskEndReason::Cancelled),
    ] {
        let mut run = merging();
        run.tell(TaskNews::Cancel);
        assert_eq!(run.effects, []);
        run.tell(TaskNews::MergeEnded(end));
        assert_eq!(run.state.end().map(|end| end.end), Some(expected));
    }
}

#[test]
fn iterations_are_logged_once_and_told_as_ralph() {
    // req 188, req 189, req 190, req 191
    let mut run = Run::begun();
    let ralph =
        |run: &Run| run.state.ralph().map(|ralph| (ralph.stage, ralph.iteration, ralph.max_iterations));
    assert_eq!(ralph(&run), Some((Coder, 1, 15)));
    let entry = |number, promise_found, timed_out| StageIteration {
        task_id: "TASK-001".to_owned(),
        stage: Coder,
        ralph_iteration: number,
        ralph_max: 15,
        promise_found,
        continuing: true,
        duration_ms: 1,
        exit_code: None,
        timed_out,
        verification: promise_found.then_some(Verified::NoCommit),
        gated: false,
        refusal: None,
        cost_usd: None,
    };
    // A promise that was not believed and an agent that timed out are entries like any other.
    for entry in [entry(1, true, false), entry(1, true, false), entry(2, false, true)] {
        run.tell(TaskNews::IterationEnded { run: 1, entry: Box::new(entry) });
    }
    run.tell(TaskNews::IterationEnded { run: 9, entry: Box::new(entry(3, false, false)) });
    assert_eq!(run.words()[2..], ["stage_iteration coder", "stage_iteration coder"]);
    assert_eq!(ralph(&run), Some((Coder, 3, 15)));
    let written = serde_json::to_value(&run.events[2]).unwrap();
    assert_eq!(
        (&written["type"], &written["run"], &written["ralph_iteration"], &written["verification"]),
        (&"stage_iteration".into(), &1.into(), &1.into(), &"No commit detected in coder output".into())
    );
    let promise = run.state.ralph().unwrap().completion_promise;
    assert_eq!((promise.as_str(), run.state.ralph().unwrap().started_at), ("IMPLEMENTATION_COMPLETE", NOW));
    run.ends(Reason::MaxIterations, "", "t");
    assert_eq!(ralph(&run), None, "it is gone with the stage");
}

#[test]
fn every_event_is_read_as_it_was_written() {
    let mut runs = [asking(), merging()];
    let (answer, text, tree) = (UserAnswer::Reject, "x".to_owned(), String::new());
    runs[0].tell(TaskNews::Answered { question: 1, answer, text, tree });
    runs[0].ends(Reason::Done, "FIXED F1", "t9");
    runs[0].ends(Reason::Interrupted, "", "t9");
    runs[0].tell(TaskNews::Resumed);
    runs[0].ends(Reason::MaxTime, "", "t9");
    runs[1].tell(TaskNews::MergeEnded(MergeEnd::Held { reason: Reason::Lock, detail: String::new() }));
    runs[1].tell(TaskNews::Resumed);
    runs[1].tell(TaskNews::Cancel);
    runs[1].tell(TaskNews::MergeEnded(MergeEnd::Merged { commit: "c".to_owned() }));
    for event in runs.iter().flat_map(|run| &run.events) {
        let text = serde_json::to_string(event).unwrap();
        assert_eq!(serde_json::from_str::<TaskEvent>(&text).unwrap(), *event, "{text}");
    }
    let decided = FindingDecision { number: 1, state: FindingState::Fixed, why: String::new() };
    assert!(runs[0].events.contains(&TaskEvent::CoderReplied { replies: vec![decided] }));
}

#[test]
fn an_approval_counts_for_the_tree_that_was_asked_about() {
    let mut run = asking();
    let approve = |tree: &str| TaskNews::Answered {
        question: 1,
        answer: UserAnswer::Approve,
        text: String::new(),
        tree: tree.to_owned(),
    };
    run.tell(approve("t2"));
    assert!(matches!(run.state.phase, TaskPhase::Asking { number: 1, .. }));
    let why = "the files in its worktree are not those that the question is about";
    assert_eq!(run.effects, [TaskEffect::Ask { question: 1 }]);
    assert_eq!(run.events.last(), Some(&TaskEvent::AnswerRefused { number: 1, why: why.to_owned() }));
    run.tell(approve("t1"));
    assert_eq!(run.stage(), Some(Tester));
}

#[test]
fn a_merge_in_conflict_goes_back_to_the_coder_and_fails_at_the_third_time() {
    // req 197
    let mut run = Run::begun();
    for _ in 1..MAX_CONFLICTS {
        for answer in ["committed", "REVIEW PASSED", "passed", "fine"] {
            run.ends(Reason::Done, answer, "t");
        }
        run.tell(TaskNews::MergeEnded(MergeEnd::Conflict { paths: vec!["a.rs".to_owned()] }));
        assert_eq!(run.stage(), Some(Coder));
        let Some(TaskEffect::RunStage(order)) = run.effects.last() else { panic!("{:?}", run.effects) };
        assert!(order.user_says.as_ref().unwrap().contains("conflict marks between them: a.rs."));
    }
    for answer in ["committed", "REVIEW PASSED", "passed", "fine"] {
        run.ends(Reason::Done, answer, "t");
    }
    run.tell(TaskNews::MergeEnded(MergeEnd::Conflict { paths: vec!["a.rs".to_owned()] }));
    let why = "it cannot be merged: the target has changed in the same places: a.rs";
    assert_eq!(run.effects, todo_and_end(TaskEndReason::Failed, why, 1));
}

#[test]
fn the_worktree_of_a_task_is_recorded_once() {
    let mut run = Run::begun();
    let made = TaskNews::WorktreeMade {
        path: "/w".into(),
        branch: "task/TASK-001".to_owned(),
        target: "c1".to_owned(),
    };
    run.tell(made.clone());
    run.tell(made);
    let recorded = run.events.iter().filter(|event| matches!(event, TaskEvent::WorktreeMade { .. }));
    assert_eq!(recorded.count(), 1);
    assert_eq!(run.state.worktree(), Some((std::path::Path::new("/w"), "task/TASK-001")));
}

fn agent(name: &str) -> crate::agent::AgentCommand {
    crate::agent::AgentCommand::parse(name, &[]).unwrap()
}

fn settings(agents: BTreeMap<StageName, crate::agent::AgentCommand>) -> TaskSettings {
    let promise = crate::judge::promise::PromiseRule::new("DONE").unwrap();
    TaskSettings {
        project: "p".parse().unwrap(),
        root: "/r".into(),
        target: "main".to_owned(),
        policy: crate::policy::Policy::restart(agent("one"), promise),
        agents,
        setup: Vec::new(),
        teardown: Vec::new(),
        steps_of_repository: vec![],
        submodules: false,
        is_trusted_once: false,
        filters: None,
        pid: 1,
        version: String::new(),
    }
}

#[test]
fn the_loop_of_a_stage_has_the_agent_of_the_stage_and_is_told_why_claims_were_refused() {
    let mut started = started();
    started.past_refusals.insert(Coder, vec!["no tests".to_owned()]);
    started.settings = Some(Box::new(settings(BTreeMap::from([(Reviewer, agent("two"))]))));
    let mut run = Run { state: TaskProgress::default(), events: Vec::new(), effects: Vec::new() };
    run.tell(TaskNews::Begin(started));
    let setup = |run: &Run| {
        let Some(TaskEffect::RunStage(order)) = run.effects.last() else { panic!("{:?}", run.effects) };
        run.state.setup(order).unwrap().unwrap()
    };
    let coder = setup(&run);
    assert_eq!(coder.policy.agent.command, agent("one"));
    assert!(coder.prompt.contains("## Why Earlier Claims Were Refused\n- no tests\n"), "{}", coder.prompt);
    let commit = coder.policy.whole().unwrap().commit.as_ref().unwrap();
    assert_eq!(commit.message.as_deref(), Some("TASK-001: T (coder)"));
    let mut end = end(Reason::Done, "committed", "t");
    end.refusals = vec!["no commit".to_owned()];
    run.tell(TaskNews::StageEnded { run: 1, end });
    let reviewer = setup(&run);
    assert_eq!(reviewer.policy.agent.command, agent("two"));
    assert_eq!(reviewer.policy.whole().unwrap().commit, None);
    run.ends(Reason::Done, "REVIEW FAILED\n- a", "t");
    assert!(setup(&run).prompt.contains("- no tests\n- no commit\n"));
}

#[test]
fn a_task_that_the_user_pauses_holds_before_its_next_stage() {
    let mut run = Run::begun();
    run.tell(TaskNews::Pause);
    run.tell(TaskNews::Pause);
    run.ends(Reason::Done, "committed", "t1");
    assert_eq!(run.effects, [], "the reviewer is not begun");
    assert!(matches!(run.state.phase, TaskPhase::Paused { next: Some(Reviewer), .. }));
    assert_eq!(run.state.status(), StageTaskStatus::Reviewing);
    run.tell(TaskNews::TakenUp);
    assert_eq!(run.effects, [], "also another process holds it");
    run.tell(TaskNews::Unpause);
    assert_eq!(run.stage(), Some(Reviewer));
    for answer in ["REVIEW PASSED", "passed"] {
        run.ends(Reason::Done, answer, "t1");
    }
    // One that is let go on before it came to hold does not hold.
    run.tell(TaskNews::Pause);
    run.tell(TaskNews::Unpause);
    run.tell(TaskNews::Pause);
    run.ends(Reason::Done, "fine", "t1");
    assert!(matches!(run.state.phase, TaskPhase::Paused { next: None, .. }));
    run.tell(TaskNews::Resumed);
    assert_eq!(run.effects, [TaskEffect::Merge { tree: "t1".to_owned() }]);
}

#[test]
fn a_coder_may_answer_that_a_finding_is_none_without_a_commit() {
    let mut started = started();
    started.settings = Some(Box::new(settings(BTreeMap::new())));
    let mut run = Run { state: TaskProgress::default(), events: Vec::new(), effects: Vec::new() };
    run.tell(TaskNews::Begin(started));
    let evidence = |run: &Run| {
        let Some(TaskEffect::RunStage(order)) = run.effects.last() else { panic!("{:?}", run.effects) };
        let policy = run.state.setup(order).unwrap().unwrap().policy;
        (policy.whole().unwrap().evidence.clone(), policy.claims.allow_empty)
    };
    assert_eq!(evidence(&run), (vec![Evidence::Commit], false));
    run.round("t1", "REVIEW FAILED\n- a");
    assert_eq!(evidence(&run), (vec![], true));
}

#[test]
fn a_tree_that_changed_between_stages_and_commits_of_a_reader_fail_the_stage() {
    let mut run = Run::begun();
    run.ends(Reason::Done, "committed", "t1");
    let mut other = end(Reason::Done, "REVIEW PASSED", "t2");
    other.began_with = "t2".to_owned();
    run.tell(TaskNews::StageEnded { run: 2, end: other });
    let why = "The files have changed between the stage before and the reviewer";
    assert_eq!(run.effects, todo_and_end(TaskEndReason::Failed, why, 1));

    let mut run = Run::begun();
    run.ends(Reason::Done, "committed", "t1");
    let mut other = end(Reason::Done, "REVIEW PASSED", "t1");
    (other.began_with, other.has_committed) = ("t1".to_owned(), true);
    run.tell(TaskNews::StageEnded { run: 2, end: other });
    let why = "The reviewer made commits, which is not its role";
    assert_eq!(run.effects, todo_and_end(TaskEndReason::Failed, why, 1));
}

#[test]
fn tests_that_the_tester_deletes_are_listed_with_a_warning() {
    let mut run = Run::begun();
    for tree in ["a", "b"] {
        let stage =
            if tree == "a" { end(Reason::Done, "", "t") } else { end(Reason::Done, "REVIEW PASSED", "t") };
        let number = run.state.runs;
        run.tell(TaskNews::StageEnded { run: number, end: stage });
    }
    let mut tested = end(Reason::Done, "3 passed", "u");
    tested.changed = vec!["tests/a.rs".into(), "tests/b.rs".into(), "old.txt".into()];
    tested.deleted = vec!["tests/b.rs".into(), "old.txt".into()];
    run.tell(TaskNews::StageEnded { run: 3, end: tested });
    let warned: Vec<&str> = run
        .events
        .iter()
        .filter_map(|event| match event {
            TaskEvent::Warned { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        warned,
        [
            "the tester changed files that are not tests, and no role reviews them: old.txt",
            "the tester deleted tests, and no role reviews that: tests/b.rs"
        ]
    );
    let deleted = run.events.iter().find_map(|event| match event {
        TaskEvent::StagePassed { stage: Tester, deleted_tests, .. } => Some(deleted_tests.clone()),
        _ => None,
    });
    assert_eq!(deleted, Some(vec!["tests/b.rs".to_owned()]));
}

#[test]
fn what_an_earlier_run_has_left_open_keeps_a_number_in_the_next_one() {
    let mut begun = started();
    begun.past_findings = vec!["it leaks".to_owned()];
    let mut run = Run { state: TaskProgress::default(), events: Vec::new(), effects: Vec::new() };
    run.tell(TaskNews::Begin(begun));
    run.tell(TaskNews::StageEnded { run: 1, end: end(Reason::Done, "FIXED F1: closed", "a") });
    // The first review may insist on it; the coder is told, and only then the user is asked.
    run.tell(TaskNews::StageEnded { run: 2, end: end(Reason::Done, "REVIEW FAILED\n- it leaks", "a") });
    let open: Vec<(u32, &str)> =
        run.state.ledger().open().map(|finding| (finding.number, finding.text.as_str())).collect();
    assert_eq!(open, [(1, "it leaks")]);
    assert!(matches!(run.state.phase, TaskPhase::InStage { stage: Coder, .. }), "{:?}", run.state.phase);
    run.tell(TaskNews::StageEnded { run: 3, end: end(Reason::Done, "", "b") });
    run.tell(TaskNews::StageEnded { run: 4, end: end(Reason::Done, "REVIEW PASSED", "b") });
    assert_eq!(run.state.ledger().open().count(), 0);
}
