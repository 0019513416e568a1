//! What follows from each input, as tables of a run's news and what its performer is told.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::{
    machine::InMemory,
    workflow::{ParseSettings, parse},
};

/// A run of the workflow with these steps, and everything that was told about it.
pub(super) struct Run {
    pub(super) machine: InMemory<WorkflowMachine>,
    pub(super) events: Vec<WorkflowEvent>,
    pub(super) effects: Vec<WorkflowEffect>,
    now: Timestamp,
}

pub(super) fn started(yaml: &str) -> WorkflowStarted {
    let text = format!("name: x\ndescription: y\n{yaml}");
    let parsed = parse(".dacapo/workflows/x.yaml", text.as_bytes(), ParseSettings::default());
    assert_eq!(parsed.problems, [], "{text}");
    WorkflowStarted {
        run: "r1".to_owned(),
        workflow: parsed.workflow.unwrap(),
        digest: "d".to_owned(),
        files: Vec::new(),
        left_out: Vec::new(),
        message: "hello".to_owned(),
        conversation: None,
        parallel: 2,
        settings: None,
    }
}

pub(super) fn id(text: &str) -> StepId {
    StepId::new(text).unwrap()
}

impl Run {
    pub(super) fn new() -> Self {
        let (events, effects) = (Vec::new(), Vec::new());
        Self { machine: InMemory::default(), events, effects, now: Timestamp::UNIX_EPOCH }
    }

    /// A run that has begun.
    fn of(yaml: &str) -> Self {
        let mut run = Self::new();
        run.tell(WorkflowNews::Begin(Box::new(started(yaml))));
        run
    }

    /// What the performer is told then, each in a few words.
    fn tell(&mut self, news: WorkflowNews) -> Vec<String> {
        let step = self.machine.step(WorkflowInput { now: self.now, news });
        self.events.extend(step.events);
        self.effects.extend(step.effects.clone());
        step.effects.iter().map(words).collect()
    }

    fn later(&mut self, secs: i64) -> &mut Self {
        self.now = self.now.checked_add(SignedDuration::from_secs(secs)).unwrap();
        self
    }

    fn attempt(&self, step: &str) -> u32 {
        self.machine.state().step(&id(step)).unwrap().attempt
    }

    fn done(&mut self, step: &str, output: &str) -> Vec<String> {
        self.loop_ends(step, Reason::Done, output, true)
    }

    fn loop_ends(&mut self, step: &str, reason: Reason, output: &str, is_changed: bool) -> Vec<String> {
        let end = LoopResult {
            reason,
            detail: format!("because {}", reason.as_str()),
            output: output.to_owned(),
            tree: "t1".to_owned(),
            is_changed,
            session: Some(format!("session-{step}")),
            refused: None,
            repeats: false,
        };
        let attempt = self.attempt(step);
        self.tell(WorkflowNews::LoopEnded { step: id(step), attempt, end: Box::new(end) })
    }

    fn exits(&mut self, step: &str, code: i32, output: &str) -> Vec<String> {
        let end = ScriptResult { end: ScriptEnd::Exited(code), output: output.to_owned(), is_changed: false };
        let attempt = self.attempt(step);
        self.tell(WorkflowNews::ScriptEnded { step: id(step), attempt, end })
    }

    fn sees(&mut self, step: &str, tree: &str) -> Vec<String> {
        let attempt = self.attempt(step);
        self.tell(WorkflowNews::TreeSeen { step: id(step), attempt, tree: tree.to_owned() })
    }

    fn merges(&mut self, step: &str, end: Result<(), &str>) -> Vec<String> {
        let attempt = self.attempt(step);
        self.tell(WorkflowNews::Merged { step: id(step), attempt, end: end.map_err(str::to_owned) })
    }

    fn answers(&mut self, question: u32, answer: Answer, text: &str, tree: &str) -> Vec<String> {
        self.tell(WorkflowNews::Answered { question, answer, text: text.to_owned(), tree: tree.to_owned() })
    }

    /// The prompt that the last loop was ordered with.
    fn prompt(&self) -> String {
        let order = self.effects.iter().rev().find_map(|effect| match effect {
            WorkflowEffect::RunLoop(order) => Some(order.prompt(None)),
            _ => None,
        });
        order.unwrap()
    }

    fn session(&self) -> Option<String> {
        self.effects.iter().rev().find_map(|effect| match effect {
            WorkflowEffect::RunLoop(order) => Some(order.session.clone()),
            _ => None,
        })?
    }

    fn skipped(&self) -> Vec<String> {
        let said = self.events.iter().filter_map(|event| match event {
            WorkflowEvent::StepSkipped { step, why } => Some(format!("{step}: {why}")),
            _ => None,
        });
        said.collect()
    }
}

fn words(effect: &WorkflowEffect) -> String {
    match effect {
        WorkflowEffect::RunLoop(order) => {
            let kind = match order.work {
                StepWorkKind::Rework => "rework",
                StepWorkKind::Check => "check",
                _ => "loop",
            };
            format!("{kind} {}#{}", order.step, order.attempt)
        }
        WorkflowEffect::RunScript(order) => format!("bash {}#{}", order.step, order.attempt),
        WorkflowEffect::MergeWorktree { step, attempt } => format!("merge {step}#{attempt}"),
        WorkflowEffect::LookAtTree { step, .. } => format!("look {step}"),
        WorkflowEffect::Ask { question } => format!("ask {question}"),
        WorkflowEffect::Wait { step, due, .. } => {
            format!("wait {step}{}", due.map(|due| format!(" until {due}")).unwrap_or_default())
        }
        WorkflowEffect::WakeAt(at) => format!("wake {at}"),
        WorkflowEffect::Stop { step, .. } => format!("stop {step}"),
        WorkflowEffect::HoldLoops { .. } => "hold".to_owned(),
        WorkflowEffect::ReleaseLoops => "release".to_owned(),
        WorkflowEffect::Warn(what) => format!("warn {what}"),
        WorkflowEffect::End(end) => format!("end {:?} {} {}", end.end, end.exit_code, end.detail),
    }
}

#[test]
fn steps_follow_each_other_and_answers_reach_the_next() {
    let mut run = Run::new();
    let steps = "steps:\n- {id: plan, prompt: Plan $ARGUMENTS}\n- {id: build, prompt: 'Build $plan.output in $WORKFLOW_ID'}\n- {id: test, bash: make test}\n";
    assert_eq!(run.tell(WorkflowNews::Begin(Box::new(started(steps)))), ["loop plan#1"]);
    assert_eq!((run.prompt().as_str(), run.session()), ("Plan hello", None));
    assert_eq!(run.done("plan", "the $ARGUMENTS plan"), ["loop build#1"]);
    assert_eq!(run.prompt(), "Build the $ARGUMENTS plan in r1");
    assert_eq!(run.session().as_deref(), Some("session-plan"));
    assert_eq!(run.done("build", "built"), ["bash test#1"]);
    assert_eq!(run.exits("test", 0, "12 passed\n"), ["end Completed 0 12 passed"]);
    assert_eq!(run.events.len(), 8);
    // A run that is over hears nothing any more, and one that has begun does not begin again.
    let len = run.events.len();
    for news in [
        WorkflowNews::Begin(Box::new(started(steps))),
        WorkflowNews::TakenUp,
        WorkflowNews::Due,
        WorkflowNews::Pause { now: true },
    ] {
        assert_eq!(run.tell(news), [""; 0]);
    }
    assert_eq!(run.tell(WorkflowNews::Cancel { why: "x".to_owned() }), [""; 0]);
    assert_eq!(run.tell(WorkflowNews::Resumed { raise: Raise::default() }), [""; 0]);
    assert_eq!(run.events.len(), len);
}

#[test]
fn trigger_rules_and_conditions_decide_what_is_taken() {
    let graph = |rule: &str| {
        format!(
            "nodes:\n- {{id: a, bash: a}}\n- {{id: b, bash: b}}\n- {{id: c, bash: c, depends_on: [a, b], trigger_rule: {rule}}}\n"
        )
    };
    for (rule, a, b, expected) in [
        ("all_success", 0, 0, "bash c#1"),
        ("all_success", 0, 1, "end Failed 1 step `b`: the script exited with 1"),
        ("one_success", 1, 0, "bash c#1"),
        ("one_success", 1, 1, "end Failed 1 step `a`: the script exited with 1"),
        ("none_failed_min_one_success", 0, 1, "end Failed 1 step `b`: the script exited with 1"),
        ("none_failed_min_one_success", 0, 0, "bash c#1"),
        ("all_done", 1, 1, "bash c#1"),
    ] {
        let mut run = Run::of(&graph(rule));
        assert_eq!(run.exits("a", a, ""), ["bash b#1"], "one at a time");
        assert_eq!(run.exits("b", b, ""), [expected], "{rule} {a} {b}");
    }
    // A failure that `one_success` made up for is none; one that `all_done` came behind is one.
    let mut run = Run::of(&graph("one_success"));
    run.exits("a", 1, "");
    run.exits("b", 0, "");
    assert_eq!(run.exits("c", 0, ""), ["end Completed 0 "]);
    let mut run = Run::of(&graph("all_done"));
    run.exits("a", 1, "");
    run.exits("b", 0, "");
    assert_eq!(run.exits("c", 0, ""), ["end Failed 1 step `a`: the script exited with 1"]);

    let mut run = Run::of(
        "steps:\n- {id: t, bash: t}\n- {id: fix, prompt: p, when: \"$t.output == 'red'\"}\n- {id: after, bash: a}\n- {id: all, bash: a, trigger_rule: all_done}\n",
    );
    assert_eq!(run.exits("t", 0, "green\n"), ["bash all#1"]);
    assert_eq!(run.skipped(), ["fix: `$t.output == 'red'` does not hold", "after: `fix` was skipped"]);
    assert_eq!(run.exits("all", 0, ""), ["end Completed 0 "]);
}

#[test]
fn steps_share_the_workspace_and_worktrees_run_beside() {
    let mut run = Run::new();
    let nodes = "nodes:\n- {id: a, bash: a}\n- {id: b, bash: b}\n- {id: w1, prompt: p, worktree: true}\n- {id: w2, prompt: p, worktree: true}\n- {id: w3, prompt: p, worktree: true}\n- {id: ask, approval: ok?}\n- {id: wait, wait: {signal: go}}\n";
    assert_eq!(
        run.tell(WorkflowNews::Begin(Box::new(started(nodes)))),
        ["bash a#1", "loop w1#1", "loop w2#1", "wait wait"]
    );
    // What was done in a worktree comes into the workspace when nothing works there, before another step begins.
    assert_eq!(run.done("w1", ""), ["loop w3#1"]);
    assert_eq!(run.exits("a", 0, ""), ["merge w1#2"]);
    assert_eq!(run.merges("w1", Ok(())), ["bash b#1"]);
    // A person is asked when the files are at rest, and until they answer nothing is merged.
    assert_eq!(run.exits("b", 0, ""), ["look ask"]);
    assert_eq!(run.sees("ask", "t"), ["ask 1"]);
    assert_eq!(run.done("w2", ""), [""; 0]);
    assert_eq!(run.done("w3", ""), [""; 0]);
    assert_eq!(run.machine.state().standing(), WorkflowStanding::Question(1));
    assert_eq!(run.answers(1, Answer::Approve, "", "t"), ["merge w2#2"]);
    assert_eq!(run.merges("w2", Ok(())), ["merge w3#2"]);
    assert_eq!(run.merges("w3", Ok(())), [""; 0]);
    assert_eq!(run.machine.state().standing(), WorkflowStanding::Waiting(None));
    assert_eq!(run.tell(WorkflowNews::Signalled { name: "stop".to_owned() }), [""; 0]);
    assert_eq!(run.tell(WorkflowNews::Signalled { name: "go".to_owned() }), ["end Completed 0 "]);
}

#[test]
fn a_step_whose_work_cannot_be_merged_has_failed() {
    let steps =
        "nodes:\n- {id: w, prompt: p, worktree: true}\n- {id: s, bash: 'echo $w.output', depends_on: [w]}\n";
    let mut run = Run::of(steps);
    assert_eq!(run.done("w", "the answer"), ["merge w#2"]);
    assert_eq!(run.tell(WorkflowNews::TakenUp), ["merge w#2"], "a merge that was cut short is done again");
    assert_eq!(run.merges("w", Err("both changed `x`")), ["end Failed 1 step `w`: both changed `x`"]);
    let mut run = Run::of(steps);
    run.done("w", "the answer");
    assert_eq!(run.merges("w", Ok(())), ["bash s#1"]);
    let complete = run.events.iter().find_map(|event| match event {
        WorkflowEvent::StepComplete { output, is_changed, .. } => Some((output.as_str(), *is_changed)),
        _ => None,
    });
    assert_eq!(complete, Some(("the answer", true)));
}

#[test]
fn a_failed_step_is_tried_again_as_often_as_it_may() {
    let mut run = Run::of("steps:\n- {id: a, prompt: p, retry: {max_attempts: 2, delay_ms: 1000}}\n");
    assert_eq!(run.loop_ends("a", Reason::Error, "", false), ["wake 1970-01-01T00:00:01Z"]);
    assert_eq!(run.tell(WorkflowNews::Due), ["wake 1970-01-01T00:00:01Z"]);
    assert_eq!(run.later(1).tell(WorkflowNews::Due), ["loop a#2"]);
    assert_eq!(run.loop_ends("a", Reason::Error, "", false), ["wake 1970-01-01T00:00:03Z"]);
    assert_eq!(run.later(2).tell(WorkflowNews::Due), ["loop a#3"]);
    assert_eq!(run.loop_ends("a", Reason::Error, "", false), ["end Failed 1 step `a`: because error"]);
    // What a retry cannot mend is not tried again.
    for reason in [Reason::MaxIterations, Reason::Blocked, Reason::Cancelled, Reason::Agent] {
        let mut run = Run::of("steps:\n- {id: a, prompt: p, retry: {max_attempts: 2}}\n");
        assert!(run.loop_ends("a", reason, "", false)[0].starts_with("end "), "{reason:?}");
    }
    let mut run = Run::of("steps:\n- {id: a, bash: b, retry: {max_attempts: 1}}\n");
    assert_eq!(run.exits("a", 1, "x\n"), ["end Failed 1 step `a`: the script exited with 1: x"]);
    let mut run = Run::of("steps:\n- {id: a, bash: b, retry: {max_attempts: 1, on_error: all}}\n");
    assert_eq!(run.exits("a", 1, "x\n"), ["wake 1970-01-01T00:00:03Z"]);
}

#[test]
fn every_end_has_its_reason_and_its_code() {
    for (reason, expected) in [
        (Reason::Error, "end Failed 1 step `a`: because error"),
        (Reason::MaxIterations, "end Failed 3 step `a`: because max_iterations"),
        (Reason::Agent, "end Failed 5 step `a`: because agent"),
        (Reason::Blocked, "end Blocked 4 step `a`: because blocked"),
    ] {
        let mut run = Run::of("steps:\n- {id: a, prompt: p}\n- {id: b, bash: b}\n");
        assert_eq!(run.loop_ends("a", reason, "", false), [expected]);
    }
    let mut run =
        Run::of("steps:\n- {id: a, bash: a}\n- {id: stop, cancel: 'no: $a.output'}\n- {id: c, bash: c}\n");
    assert_eq!(run.exits("a", 0, "why\n"), ["end Cancelled 130 no: why"]);
    // What has stopped a loop from outside can go on.
    for reason in [Reason::Interrupted, Reason::Terminated, Reason::Auth, Reason::Billing, Reason::Budget] {
        let mut run = Run::of("steps:\n- {id: a, prompt: p}\n");
        assert_eq!(run.loop_ends("a", reason, "", false), [""; 0]);
        let detail = format!("because {}", reason.as_str());
        assert_eq!(run.machine.state().standing(), WorkflowStanding::Held { reason, detail });
        assert_eq!(run.tell(WorkflowNews::TakenUp), [""; 0], "the user has to say so");
        assert_eq!(
            run.tell(WorkflowNews::Resumed { raise: Raise::default() }),
            ["loop a#1"],
            "the same loop"
        );
        assert_eq!(run.done("a", "x"), ["end Completed 0 x"]);
    }
}

#[test]
fn cancelling_waits_for_what_runs_and_ends_once() {
    let mut run =
        Run::of("nodes:\n- {id: a, bash: a}\n- {id: w, prompt: p, worktree: true}\n- {id: b, bash: b}\n");
    assert_eq!(run.tell(WorkflowNews::Cancel { why: "by the user".to_owned() }), ["stop a", "stop w"]);
    assert_eq!(run.tell(WorkflowNews::Cancel { why: "again".to_owned() }), [""; 0]);
    assert_eq!(run.loop_ends("w", Reason::Cancelled, "", false), [""; 0]);
    assert_eq!(run.exits("a", 0, ""), ["end Cancelled 130 by the user"]);
    // One that waits for a person ends at once.
    let mut run = Run::of("steps:\n- {id: ask, approval: ok?}\n");
    run.sees("ask", "t");
    assert_eq!(run.tell(WorkflowNews::Cancel { why: "no".to_owned() }), ["end Cancelled 130 no"]);
    assert_eq!(run.answers(1, Answer::Approve, "", "t"), [""; 0]);
}

const APPROVAL: &str = "steps:\n- {id: plan, prompt: p}\n- {id: build, prompt: p}\n- {id: test, bash: make test}\n- {id: review, prompt: p}\n- id: ask\n  approval: {message: 'ok? $test.output', on_reject: {prompt: 'Change $REJECTION_REASON', max_attempts: 1}}\n- {id: last, bash: ship}\n";

/// A run that has asked about tree `t1`; the reviewer changed nothing, the others did.
fn asking() -> Run {
    let mut run = Run::of(APPROVAL);
    run.done("plan", "");
    run.done("build", "");
    run.exits("test", 0, "green\n");
    assert_eq!(run.loop_ends("review", Reason::Done, "fine", false), ["look ask"]);
    assert_eq!(run.sees("ask", "t1"), ["ask 1"]);
    run
}

#[test]
fn an_approval_holds_for_the_tree_it_named() {
    let mut run = asking();
    let asked = run.events.iter().find_map(|event| match event {
        WorkflowEvent::QuestionAsked { message, tree, .. } => Some((message.as_str(), tree.as_str())),
        _ => None,
    });
    assert_eq!(asked, Some(("ok? green", "t1")));
    assert_eq!(run.answers(1, Answer::Approve, "", "t1"), ["bash last#1"]);

    // Files that changed since are checked again, and asked about again.
    let mut run = asking();
    assert_eq!(run.answers(1, Answer::Approve, "", "t2"), ["bash test#2"]);
    assert_eq!(run.exits("test", 0, "green\n"), ["loop review#2"]);
    assert_eq!(run.loop_ends("review", Reason::Done, "", false), ["look ask"]);
    assert_eq!(run.sees("ask", "t2"), ["ask 2"]);
    assert_eq!(run.answers(1, Answer::Approve, "", "t2"), [""; 0], "the first question is closed");
    assert_eq!(run.answers(2, Answer::Approve, "", "t2"), ["bash last#1"]);
}

#[test]
fn after_rework_every_check_runs_again_before_the_person_is_asked() {
    let mut run = asking();
    assert_eq!(run.answers(1, Answer::Reject, "the name", "t1"), ["rework ask#2"]);
    assert_eq!(run.prompt(), "Change the name");
    assert_eq!(run.done("ask", ""), ["bash test#2"], "not the plan, not the build");
    assert_eq!(run.exits("test", 0, ""), ["loop review#2"]);
    assert_eq!(run.loop_ends("review", Reason::Done, "", false), ["look ask"]);
    assert_eq!(run.sees("ask", "t3"), ["ask 2"]);
    // Once is what the file allows.
    assert_eq!(
        run.answers(2, Answer::Reject, "still\nno", "t3"),
        ["end Cancelled 130 rejected at step `ask`: still"]
    );

    // A check that is red after the rework: the person is not asked.
    let mut run = asking();
    run.answers(1, Answer::Reject, "x", "t1");
    run.done("ask", "");
    let end = run.exits("test", 1, "");
    assert_eq!(end, ["end Failed 1 step `test`: the script exited with 1"]);
    // A script beside the change has looked at the same files; one above it has not.
    let mut run = Run::of(
        "nodes:\n- {id: install, bash: i}\n- {id: lint, bash: l}\n- {id: build, prompt: p, depends_on: [install]}\n- {id: ask, depends_on: [build, lint], approval: {message: m, on_reject: {prompt: p}}}\n",
    );
    run.exits("install", 0, "");
    run.exits("lint", 0, "");
    run.done("build", "");
    run.sees("ask", "t1");
    run.answers(1, Answer::Reject, "x", "t1");
    assert_eq!(run.done("ask", ""), ["bash lint#2"]);
    // A person can reject also if the files changed since the question.
    let mut run = asking();
    assert_eq!(run.answers(1, Answer::Reject, "x", "other"), ["rework ask#2"]);
}

#[test]
fn after_rework_the_checks_of_an_agent_and_of_a_loop_run_again_too() {
    let asked = "- {id: ask, approval: {message: m, on_reject: {prompt: p}}}\n";
    // What the step does, whether its agent changed something, and what follows from the rework.
    for (step, is_changed, expected) in [
        ("loop: {prompt: p, until_bash: make, max_iterations: 3}", true, "check a#2"),
        ("loop: {prompt: p, until_bash: make, max_iterations: 3}", false, "check a#2"),
        ("loop: {prompt: p, until: X, until_bash: make, max_iterations: 3}", true, "check a#2"),
        ("loop: {prompt: p, until: X, gates: [make], max_iterations: 3}", true, "check a#2"),
        ("prompt: p\n  gates: [make]", true, "check a#2"),
        ("loop: {prompt: p, until: X, max_iterations: 3}", true, "look ask"),
        // Here the words alone could have been enough.
        ("loop: {prompt: p, until: X, until_bash: make, any: true, max_iterations: 3}", true, "look ask"),
        ("prompt: p", true, "look ask"),
    ] {
        let mut run = Run::of(&format!("steps:\n- id: a\n  {step}\n{asked}"));
        run.loop_ends("a", Reason::Done, "said", is_changed);
        run.sees("ask", "t1");
        run.answers(1, Answer::Reject, "x", "t1");
        assert_eq!(run.done("ask", ""), [expected], "{step}");
        if expected == "check a#2" {
            assert_eq!(run.tell(WorkflowNews::TakenUp), [expected], "{step}: the same loop after a crash");
            assert_eq!(run.loop_ends("a", Reason::Done, "", false), ["look ask"], "{step}");
            assert_eq!(run.machine.state().step(&id("a")).unwrap().output, "said");
        }
    }
    // An approval of other files: the same checks, and a red one ends the run before the person is asked.
    let steps = format!(
        "steps:\n- {{id: a, loop: {{prompt: p, until_bash: make, max_iterations: 3}}}}\n- {{id: t, bash: t}}\n{asked}"
    );
    let mut run = Run::of(&steps);
    run.done("a", "");
    run.exits("t", 0, "");
    run.sees("ask", "t1");
    assert_eq!(run.answers(1, Answer::Approve, "", "t2"), ["check a#2"]);
    assert_eq!(run.loop_ends("a", Reason::Done, "", false), ["bash t#2"], "in the order of the file");
    assert_eq!(run.exits("t", 0, ""), ["look ask"]);
    run.sees("ask", "t2");
    run.answers(2, Answer::Approve, "", "t3");
    let end = "end Failed 3 step `a`: Max iterations (3) reached without completion signal \"make\"";
    assert_eq!(run.loop_ends("a", Reason::MaxIterations, "", false), [end]);
    // A loop that asks is asked about again if its check is red.
    let talk = "- {id: a, loop: {prompt: p, until: X, until_bash: make, max_iterations: 3, interactive: true, gate_message: m}}\n";
    let mut run = Run::of(&format!("steps:\n{talk}{asked}"));
    run.done("a", "");
    run.answers(1, Answer::Approve, "", "t1");
    run.sees("ask", "t1");
    run.answers(2, Answer::Reject, "", "t1");
    assert_eq!(run.done("ask", ""), ["check a#2"]);
    assert_eq!(run.loop_ends("a", Reason::MaxIterations, "", false), ["ask 3"]);
    assert_eq!(run.answers(3, Answer::Approve, "", "t1"), ["loop a#3"]);
}

#[test]
fn decisions_are_chosen_by_their_id_and_nothing_else() {
    let mut run = Run::of(
        "steps:\n- id: ask\n  approval:\n    message: m\n    decisions: [{id: ship}, {id: hold}, {id: fix, rework: true}]\n    on_reject: {prompt: p}\n- {id: out, bash: x, when: \"$ask.output.decision == 'ship'\"}\n",
    );
    run.sees("ask", "t");
    let state = run.machine.state().clone();
    let choose = |name: &str| Answer::Choose(name.to_owned());
    assert_eq!(accepts(&state, 1, &choose("ship")), Ok(()));
    assert_eq!(accepts(&state, 1, &Answer::Reject), Ok(()));
    assert_eq!(accepts(&state, 1, &Answer::Approve), Err("choose one of ship, hold, fix".to_owned()));
    let no = "`yes` is no answer here; choose one of ship, hold, fix".to_owned();
    assert_eq!(accepts(&state, 1, &choose("yes")), Err(no));
    assert_eq!(accepts(&state, 2, &Answer::Approve), Err("this question is no longer open".to_owned()));
    assert_eq!(run.answers(1, Answer::Approve, "", "t"), [""; 0]);
    assert_eq!(run.answers(1, choose("yes"), "", "t"), [""; 0]);
    assert_eq!(run.answers(1, choose("ship"), "a comment", "t"), ["bash out#1"]);
    let output = &run.machine.state().step(&id("ask")).unwrap().output;
    assert_eq!(output, r#"{"comment":"a comment","decision":"ship"}"#);
}

#[test]
fn a_blocked_agent_goes_on_in_its_own_loop_when_the_user_says_so() {
    let mut run = Run::of("steps:\n- {id: a, prompt: p}\n- {id: b, bash: b}\n");
    assert_eq!(run.loop_ends("a", Reason::Blocked, "", false), ["end Blocked 4 step `a`: because blocked"]);
    assert_eq!(run.tell(WorkflowNews::Resumed { raise: Raise::default() }), ["loop a#1"], "the same loop");
    assert_eq!(run.done("a", ""), ["bash b#1"], "what was skipped for it is not skipped now");
    // One with a worktree of its own begins anew.
    let mut run = Run::of("steps:\n- {id: a, prompt: p, worktree: true}\n");
    run.loop_ends("a", Reason::Blocked, "", false);
    assert_eq!(run.tell(WorkflowNews::Resumed { raise: Raise::default() }), ["loop a#2"]);
}

#[test]
fn a_loop_that_is_out_of_iterations_says_what_refused_its_last_claim() {
    let ends = |refused: Option<&str>| {
        let mut run = Run::of("loop: {until: X, until_bash: make, max_iterations: 2}\nprompt: p\n");
        let step = run.machine.state().steps().next().unwrap().0.clone();
        let end = LoopResult {
            reason: Reason::MaxIterations,
            detail: String::new(),
            output: String::new(),
            tree: String::new(),
            is_changed: false,
            session: None,
            refused: refused.map(str::to_owned),
            repeats: false,
        };
        run.tell(WorkflowNews::LoopEnded { step, attempt: 1, end: Box::new(end) })
    };
    assert_eq!(ends(None), ["end Failed 3 Max iterations (2) reached without completion signal \"X\""]);
    assert_eq!(
        ends(Some("gate `until_bash` exited 1")),
        [
            "end Failed 3 Max iterations (2) reached, and the last claim was refused: gate `until_bash` exited 1"
        ]
    );
}

const INTERACTIVE: &str = "steps:\n- id: talk\n  loop: {prompt: 'Do it. $LOOP_USER_INPUT ($LOOP_PREV_OUTPUT)', until: X, max_iterations: 2, interactive: true, gate_message: 'So far $LOOP_PREV_OUTPUT'}\n";

#[test]
fn an_interactive_loop_asks_after_each_iteration() {
    // Met, approved without words: done.
    let mut run = Run::of(INTERACTIVE);
    assert_eq!(run.prompt(), "Do it.  ()");
    assert_eq!(run.done("talk", "one"), ["ask 1"]);
    assert_eq!(run.answers(1, Answer::Approve, " ", "t1"), ["end Completed 0 one"]);
    // Approved with words: another iteration, with them, in the same session.
    let mut run = Run::of(INTERACTIVE);
    run.loop_ends("talk", Reason::MaxIterations, "one", true);
    assert_eq!(run.answers(1, Answer::Approve, "more", "t1"), ["loop talk#2"]);
    assert_eq!(
        (run.prompt().as_str(), run.session().as_deref()),
        ("Do it. more (one)", Some("session-talk"))
    );
    // Not met and no iteration left: failed, in the seed's words.
    let expected = "end Failed 3 step `talk`: Max iterations (2) reached without completion signal \"X\"";
    assert_eq!(run.loop_ends("talk", Reason::MaxIterations, "two", true), [expected]);
    // Met in the last one, but the person wants more.
    let mut run = Run::of(INTERACTIVE);
    run.loop_ends("talk", Reason::MaxIterations, "one", true);
    run.answers(1, Answer::Approve, "", "t1");
    assert_eq!(run.done("talk", "two"), ["ask 2"]);
    assert_eq!(run.answers(2, Answer::Approve, "more", "t1"), [expected]);
    // Rejected: it stops.
    let mut run = Run::of(INTERACTIVE);
    run.done("talk", "one");
    assert_eq!(run.answers(1, Answer::Reject, "no", "t1"), ["end Cancelled 130 rejected at step `talk`: no"]);
    // Approved, but the files are others: it is asked again, and what was met is so no longer.
    let mut run = Run::of(INTERACTIVE);
    run.done("talk", "one");
    assert_eq!(run.answers(1, Answer::Approve, "", "t9"), ["ask 2"]);
    assert_eq!(run.answers(2, Answer::Approve, "", "t9"), ["loop talk#2"]);
    // `signal_completes`: the person is not asked when it is met.
    let mut run =
        Run::of(&INTERACTIVE.replace("interactive: true", "interactive: true, signal_completes: true"));
    assert_eq!(run.done("talk", "one"), ["end Completed 0 one"]);
}

#[test]
fn waits_hold_nothing_and_are_over_when_they_are_due() {
    let mut run = Run::new();
    let nodes = "nodes:\n- {id: a, wait: {for: 10s}}\n- {id: b, wait: {until: '1970-01-01T00:00:05Z'}}\n- {id: c, wait: {file: out}}\n- {id: past, wait: {until: '1960-01-01T00:00:00Z'}}\n";
    assert_eq!(
        run.tell(WorkflowNews::Begin(Box::new(started(nodes)))),
        ["wait a until 1970-01-01T00:00:10Z", "wait b until 1970-01-01T00:00:05Z", "wait c"]
    );
    let at = |secs| WorkflowStanding::Waiting(Some(Timestamp::from_second(secs).unwrap()));
    assert_eq!(run.machine.state().standing(), at(5));
    run.later(5).tell(WorkflowNews::Due);
    assert_eq!(run.machine.state().standing(), at(10));
    // A reboot later, another process is told what is waited for.
    assert_eq!(run.tell(WorkflowNews::TakenUp), ["wait a until 1970-01-01T00:00:10Z", "wait c"]);
    assert_eq!(run.tell(WorkflowNews::FileSeen { step: id("c") }), [""; 0]);
    assert_eq!(run.later(5).tell(WorkflowNews::Due), ["end Completed 0 "]);
}

#[test]
fn a_pause_begins_nothing_and_money_that_is_spent_stays_spent() {
    let mut run = Run::of("steps:\n- {id: a, bash: a}\n- {id: b, bash: b}\n");
    assert_eq!(run.tell(WorkflowNews::Pause { now: false }), ["hold"]);
    assert_eq!(run.exits("a", 0, ""), [""; 0]);
    assert_eq!(run.machine.state().standing(), WorkflowStanding::Paused);
    assert_eq!(run.tell(WorkflowNews::Unpause), ["release", "bash b#1"]);

    let yaml = |mode: &str| {
        format!(
            "budget: {{max_cost: 2, mode: {mode}}}\nsteps:\n- {{id: a, prompt: p}}\n- {{id: b, prompt: p}}\n"
        )
    };
    let spent = |cost_usd| WorkflowNews::Spent { cost_usd, tokens: 1, time_ms: 1 };
    let mut run = Run::of(&yaml("enforce"));
    assert_eq!(run.tell(spent(1.99)), [""; 0]);
    assert_eq!(run.tell(spent(2.5)), ["warn $2.50 of $2.00 are spent"]);
    assert_eq!(run.tell(spent(2.6)), [""; 0], "said once");
    assert_eq!(run.done("a", ""), [""; 0], "nothing more begins");
    let detail = "$2.50 of $2.00 are spent".to_owned();
    assert_eq!(run.machine.state().standing(), WorkflowStanding::Held { reason: Reason::Budget, detail });
    let raise = Raise { max_cost: Some(5.0), ..Raise::default() };
    assert_eq!(run.tell(WorkflowNews::Resumed { raise }), ["loop b#1"]);
    assert_eq!(run.machine.state().budget().unwrap().max_cost, Some(5.0));
    // `audit` only says so.
    let mut run = Run::of(&yaml("audit"));
    assert_eq!(run.tell(spent(2.5)), ["warn $2.50 of $2.00 are spent"]);
    assert_eq!(run.done("a", ""), ["loop b#1"]);
}

#[test]
fn an_answer_that_does_not_fit_its_format_fails_the_step() {
    let yaml = "steps:\n- {id: a, prompt: p, output_format: {type: object, required: [n], properties: {n: {type: integer}}}}\n- {id: b, prompt: 'n is $a.output.n'}\n";
    let mut run = Run::of(yaml);
    assert_eq!(run.done("a", "Sure:\n```json\n{\"n\": 3}\n```"), ["loop b#1"]);
    assert_eq!(run.prompt(), "n is 3");
    let mut run = Run::of(yaml);
    let expected = "end Failed 1 step `a`: the answer is not JSON, as `output_format` wants it";
    assert_eq!(run.done("a", "three"), [expected]);
}

#[test]
fn a_run_that_failed_goes_on_where_it_failed() {
    let mut run = Run::of("steps:\n- {id: a, bash: a}\n- {id: b, bash: b}\n- {id: c, bash: c}\n");
    run.exits("a", 0, "");
    run.exits("b", 1, "");
    assert_eq!(run.skipped(), ["c: `b` failed"]);
    assert_eq!(run.tell(WorkflowNews::Resumed { raise: Raise::default() }), ["bash b#2"]);
    assert_eq!(run.exits("b", 0, ""), ["bash c#1"], "not `a` again");
    assert_eq!(run.exits("c", 0, ""), ["end Completed 0 "]);
}

#[test]
fn the_sandbox_of_a_script_is_recorded_while_the_script_runs_and_not_later() {
    let mut run = Run::of("nodes:\n- {id: a, bash: a}\n- {id: b, bash: b, depends_on: [a]}\n");
    let told = |attempt| WorkflowNews::ScriptStarted { step: id("a"), attempt, sandbox: SandboxHeld::off() };
    assert_eq!(run.tell(told(2)), [""; 0]);
    assert_eq!(run.tell(told(1)), [""; 0]);
    run.exits("a", 0, "");
    assert_eq!(run.tell(told(1)), [""; 0]);
    let recorded: Vec<_> =
        run.events.iter().filter(|event| matches!(event, WorkflowEvent::ScriptStarted { .. })).collect();
    let expected = WorkflowEvent::ScriptStarted { step: id("a"), attempt: 1, sandbox: SandboxHeld::off() };
    assert_eq!(recorded, [&expected]);
}

#[test]
fn a_new_performer_is_told_what_is_under_way() {
    let mut run = Run::of(
        "nodes:\n- {id: a, bash: a}\n- {id: w, prompt: p, worktree: true}\n- {id: ask, approval: ok?}\n",
    );
    // The script has no answer, so it runs again; the loop is the same one.
    assert_eq!(run.tell(WorkflowNews::TakenUp), ["bash a#2", "loop w#1"]);
    let late = ScriptResult { end: ScriptEnd::Exited(0), output: String::new(), is_changed: false };
    let late = WorkflowNews::ScriptEnded { step: id("a"), attempt: 1, end: late };
    assert_eq!(run.tell(late), [""; 0], "news of an attempt that does not count");
    assert_eq!(run.exits("a", 0, ""), ["look ask"]);
    assert_eq!(run.tell(WorkflowNews::TakenUp), ["loop w#1", "look ask"]);
    run.sees("ask", "t");
    assert_eq!(run.tell(WorkflowNews::TakenUp), ["loop w#1"], "no question is asked twice");
    // A run that is to end tells to stop what was cut short.
    let mut run = Run::of("nodes:\n- {id: a, bash: a}\n- {id: w, prompt: p, worktree: true}\n");
    run.tell(WorkflowNews::Cancel { why: "no".to_owned() });
    assert_eq!(run.tell(WorkflowNews::TakenUp), ["stop w"]);
    assert_eq!(run.loop_ends("w", Reason::Cancelled, "", false), ["end Cancelled 130 no"]);
}

#[test]
fn events_have_the_names_that_scripts_rely_on() {
    // req 163
    let mut run = Run::of("steps:\n- {id: a, bash: a}\n- {id: b, bash: b}\n");
    run.exits("a", 0, "x\n");
    run.exits("b", 3, "");
    let names: Vec<String> = run
        .events
        .iter()
        .map(|event| {
            let json = serde_json::to_value(event).unwrap();
            assert_eq!(serde_json::from_value::<WorkflowEvent>(json.clone()).unwrap(), *event);
            json["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        names,
        ["workflow_start", "step_start", "step_complete", "step_start", "step_error", "workflow_error"]
    );
    let mut run = Run::of("steps:\n- {id: a, bash: a}\n");
    run.exits("a", 0, "");
    assert_eq!(serde_json::to_value(run.events.last().unwrap()).unwrap()["type"], "workflow_complete");
}
