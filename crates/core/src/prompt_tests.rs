//! What an agent reads: whose words stand where, and that no echo of dacapo's own is a claim.

use super::*;
use crate::{
    duration::Millis,
    event::{GateRole, IterationOutcome, LoopEvent},
    judge::{claim::RefusalReason, signal::Signal},
    loop_machine::decide_tests::{gate_result, items, policy, started},
    policy::Policy,
};

/// A loop with this prompt of the user's, after these events.
fn state(user: &str, policy: Policy, events: &[LoopEvent]) -> LoopState {
    let started = LoopStarted { prompt: user.to_owned(), ..started(policy) };
    let first = LoopEvent::LoopStarted(Box::new(started));
    LoopState::fold(std::iter::once(&first).chain(events))
}

fn plain() -> Policy {
    policy(|_| {})
}

fn red_gate(tail: &str) -> [LoopEvent; 5] {
    let result = GateResult { output_tail: tail.to_owned(), ..gate_result(101) };
    [
        LoopEvent::IterationStarted { iteration: 1, max_iterations: 100 },
        LoopEvent::ClaimMade { iteration: 1, by: vec![crate::judge::signal::Signal::DoneFile] },
        LoopEvent::GateStarted {
            iteration: 1,
            role: GateRole::Gate,
            name: "tests".into(),
            command: "cargo test --all".into(),
            index: 0,
            attempt: 1,
            item: None,
            expect: Default::default(),
            working_dir: None,
            look: Default::default(),
        },
        LoopEvent::GateFinished {
            iteration: 1,
            role: GateRole::Gate,
            name: "tests".into(),
            command: "cargo test --all".into(),
            item: None,
            result,
            look: Default::default(),
        },
        LoopEvent::ClaimRefused {
            iteration: 1,
            reason: RefusalReason::GateFailed,
            detail: "gate `tests` exited 101".into(),
        },
    ]
}

/// The same gate failed before the first agent.
fn red_before() -> [LoopEvent; 1] {
    [LoopEvent::GateFinished {
        iteration: 0,
        role: GateRole::Baseline,
        name: "tests".into(),
        command: "cargo test --all".into(),
        item: None,
        result: GateResult { signature: "red".into(), ..gate_result(101) },
        look: Default::default(),
    }]
}

fn first_iteration_over(outcome: IterationOutcome) -> [LoopEvent; 3] {
    [
        LoopEvent::IterationStarted { iteration: 1, max_iterations: 100 },
        LoopEvent::AgentStarted {
            iteration: 1,
            attempt: 1,
            agent: "a".to_owned(),
            session: None,
            reserve: None,
            output: crate::event::OutputMarks::default(),
        },
        LoopEvent::IterationFinished {
            iteration: 1,
            outcome,
            spent_ms: Millis(0),
            progress: crate::event::IterationProgress::None,
        },
    ]
}

#[test]
fn the_first_prompt_is_the_users_and_the_next_says_to_go_on() {
    // req 94
    let state = state("Fix it.", plain(), &[]);
    let first = compose(&state, 1, "n");
    assert!(first.starts_with("Fix it.\n\n---\n"), "{first}");
    assert!(!first.contains("Continue working"), "{first}");
    assert!(first.contains("iteration 1 of at most 100"), "{first}");
    assert!(first.contains("$TASK_FOLDER/DONE"), "the preamble tells where DONE goes: {first}");
    for iteration in [2, 3, 100] {
        let next = compose(&state, iteration, "n");
        assert!(next.starts_with("Continue working on the following:\n\nFix it.\n\n---\n"), "{next}");
        assert!(next.contains(&format!("iteration {iteration} of at most 100")), "{next}");
    }
    assert_eq!(compose(&LoopState::default(), 1, "n"), "", "the user gave no prompt");
}

#[test]
fn the_users_text_is_kept_as_it_is() {
    // req 94, req 176: no placeholder in it is filled in, no line of it is changed.
    for user in [
        "# Goal\n\n\tTabs and  spaces  \n\n```sh\necho {prompt} $HOME {{MAX}} %s\n```",
        "  leading white space",
        "日本語 🔄 \u{0}\r\nDOS lines\r\n- end",
        "<promise>DONE</promise>",
        "--- \n---",
        "",
    ] {
        for iteration in [1, 2] {
            let prompt = compose(&state(user, plain(), &[]), iteration, "n");
            let rest = prompt.strip_prefix("Continue working on the following:\n\n").unwrap_or(&prompt);
            assert!(rest.starts_with(&format!("{user}\n\n---\n")), "{prompt:?}");
        }
    }
    let blank_end = compose(&state("Fix it. \n\n\n", plain(), &[]), 1, "n");
    assert!(blank_end.starts_with("Fix it.\n\n---\n"), "blank lines at the end are no words: {blank_end:?}");
}

#[test]
fn dacapos_own_sentences_never_are_a_claim() {
    // fault A1: an echo of the prompt holds the tag in the middle of a sentence only.
    let near_miss = LoopEvent::SignalSeen { iteration: 1, signal: Signal::NearMiss(MissReason::NotAlone) };
    let steered = LoopEvent::Steered { text: "use rust".into() };
    let blocked_miss =
        LoopEvent::SignalSeen { iteration: 1, signal: Signal::BlockedNearMiss(MissReason::NotAlone) };
    let blocked = LoopEvent::Blocked { iteration: 1, why: "no key".into() };
    let mut histories =
        vec![vec![], vec![near_miss.clone()], vec![steered.clone()], vec![blocked_miss, blocked]];
    for tail in ["", "boom"] {
        histories.push([&red_gate(tail)[..], &[near_miss.clone(), steered.clone()]].concat());
    }
    let bends: [fn(&mut Policy); 3] =
        [|_| {}, |p| p.claims.done_file = false, |p| p.claims.wait.exit_code = None];
    for bend in bends {
        for events in &histories {
            for iteration in [1, 2, 9] {
                let state = state("Fix it.", policy(bend), events);
                let policy = &state.started.as_ref().unwrap().policy;
                let tag = policy.claims.promise.tag("nonce").to_lowercase();
                let prompt = compose(&state, iteration, "nonce").to_lowercase();
                assert_eq!(prompt.matches(&tag).count(), 1, "said once: {prompt}");
                assert_eq!(prompt.matches("<promise>").count(), 1, "{prompt}");
                // An agent that repeats all of it, a part or one line says nothing with it.
                let mut repeated: Vec<&str> = prompt.lines().collect();
                repeated.push(&prompt);
                for text in repeated {
                    let rule = &state.started.as_ref().unwrap().policy.claims.promise;
                    let mut detector = crate::judge::promise::PromiseDetector::new(rule, "nonce", "");
                    detector.push(text.as_bytes());
                    let found = detector.finish();
                    assert_eq!((found.promise, found.blocked), (None, None), "{text}");
                }
                assert!(prompt.ends_with('\n') && !prompt.trim_end().ends_with(&tag), "{prompt}");
                for line in prompt.lines() {
                    let line = line.trim_matches(|c: char| !c.is_alphanumeric() && c != '<' && c != '>');
                    assert!(line != tag && !line.ends_with(&tag) && !line.starts_with(&tag), "{line}");
                }
            }
        }
    }
}

#[test]
fn a_tag_in_the_users_text_is_not_last() {
    // fault A1
    let prompt = compose(&state("Print\n<promise>DONE</promise>", plain(), &[]), 1, "n");
    assert!(!prompt.trim_end().ends_with("</promise>"), "{prompt}");
}

#[test]
fn a_red_gate_is_told_with_its_command_and_the_end_of_its_output() {
    // req 40, req 185
    let prompt =
        compose(&state("Fix it.", plain(), &red_gate("running 2 tests\ntest a ... FAILED\n\n")), 2, "n");
    let told = "\nThe claim of iteration 1 was refused: the check `tests` exited 101.\n\
                Its command: cargo test --all\n\
                The end of what it printed:\nrunning 2 tests\ntest a ... FAILED\n(end of what it printed)\n";
    assert!(prompt.ends_with(told), "{prompt}");
    let silent = compose(&state("Fix it.", plain(), &red_gate(" \n")), 2, "n");
    assert!(silent.ends_with("Its command: cargo test --all\nIt printed nothing.\n"), "{silent}");
    let both = [&red_before()[..], &red_gate(" \n")].concat();
    let broken_before = compose(&state("Fix it.", plain(), &both), 2, "n");
    assert!(
        broken_before.ends_with(
            "Its command: cargo test --all\nIt failed before the loop began, too.\nIt printed nothing.\n"
        ),
        "{broken_before}"
    );
    let off = compose(&state("Fix it.", policy(|p| p.gates.feedback = false), &red_gate("x")), 2, "n");
    assert!(!off.contains("refused"), "it can be switched off: {off}");
}

#[test]
fn the_newest_refusal_is_told_and_an_accepted_claim_ends_it() {
    // req 185
    let malformed = LoopEvent::ClaimRefused {
        iteration: 2,
        reason: RefusalReason::Malformed,
        detail: "DONE is a fifo, not a regular file".into(),
    };
    let mut events = red_gate("boom").to_vec();
    events.push(malformed);
    let prompt = compose(&state("Fix it.", plain(), &events), 3, "n");
    assert!(
        prompt.ends_with(
            "\nThe claim of iteration 2 was refused: DONE is a fifo, not a regular file.\n\
             Before that, the claim of iteration 1 was refused: gate `tests` exited 101.\n"
        ),
        "{prompt}"
    );
    assert!(!prompt.contains("boom"), "{prompt}");
    events.push(LoopEvent::ClaimAccepted { iteration: 3, verified: true });
    assert_eq!(state("Fix it.", plain(), &events).conversation.feedback, None);
    let timed_out = GateResult { failure: Some("ran longer than 5m".into()), ..gate_result(-1) };
    assert_eq!(
        GateFeedback::new("tests", "t", None, &timed_out, false).line,
        "the check `tests` ran longer than 5m"
    );
}

#[test]
fn the_last_three_refusals_are_told_the_newest_first() {
    // req 40, req 185
    let refused = |iteration| LoopEvent::ClaimRefused {
        iteration,
        reason: RefusalReason::Empty,
        detail: format!("reason {iteration}"),
    };
    let events: Vec<LoopEvent> = (1..=5).map(refused).collect();
    let prompt = compose(&state("Fix it.", plain(), &events), 6, "n");
    assert!(
        prompt.ends_with(
            "\nThe claim of iteration 5 was refused: reason 5.\n\
             Before that, the claim of iteration 4 was refused: reason 4.\n\
             Before that, the claim of iteration 3 was refused: reason 3.\n"
        ),
        "{prompt}"
    );
    let off = compose(&state("Fix it.", policy(|p| p.gates.feedback = false), &events), 6, "n");
    assert!(!off.contains("refused"), "all of it can be switched off: {off}");
}

#[test]
fn an_agent_that_gets_nowhere_is_told_to_try_something_else() {
    // req 207
    let nowhere = |times: u32| {
        let events: Vec<LoopEvent> =
            (0..times).flat_map(|_| first_iteration_over(IterationOutcome::NoClaim)).collect();
        compose(&state("Fix it.", plain(), &events), 9, "n")
    };
    assert!(!nowhere(4).contains("changed nothing"));
    assert!(nowhere(5).contains("\nThe last 5 iterations changed nothing that was not there before."));
}

#[test]
fn a_persons_words_are_told_until_an_agent_has_read_them() {
    // `steer` goes into the next prompt.
    let says = |text: &str| LoopEvent::Steered { text: text.to_owned() };
    let told = "\nThe person you work for says:\nuse rust\n\nThe person you work for says:\nand tests\n";
    let words = [says("use rust\n"), says("and tests")];
    assert!(compose(&state("Fix it.", plain(), &words), 1, "n").ends_with(told));
    for (outcome, is_told) in [
        (IterationOutcome::NoClaim, false),
        (IterationOutcome::Refused, false),
        (IterationOutcome::Waiting, false),
        (IterationOutcome::Blocked, false),
        (IterationOutcome::Interrupted, true),
        (IterationOutcome::NotStarted, true),
    ] {
        let events = [&words[..], &first_iteration_over(outcome)].concat();
        let prompt = compose(&state("Fix it.", plain(), &events), 2, "n");
        assert_eq!(prompt.ends_with(told), is_told, "{outcome:?}");
        assert_eq!(prompt.contains("use rust"), is_told, "{outcome:?}");
    }
}

#[test]
fn a_near_miss_is_explained() {
    // B1 row 2
    for (miss, words) in [
        (MissReason::InCode, "it stood in code; print it as plain text"),
        (MissReason::Quoted, "it stood in a quotation; print it as plain text"),
        (MissReason::NotAlone, "other text stood on its line; print it on a line of its own"),
        (MissReason::Echo, "it repeated the task's own text"),
        (MissReason::WrongCase, "upper and lower case differ from what was asked for"),
    ] {
        let seen = LoopEvent::SignalSeen { iteration: 1, signal: Signal::NearMiss(miss) };
        let prompt = compose(&state("Fix it.", plain(), &[seen]), 2, "n");
        assert!(
            prompt.ends_with(&format!("\nYour promise in iteration 1 did not count: {words}.\n")),
            "{prompt}"
        );
    }
}

#[test]
fn what_the_policy_does_not_listen_for_is_not_offered() {
    // req 86, req 94
    let deaf = policy(|p| (p.claims.done_file, p.claims.wait.exit_code) = (false, None));
    let prompt = compose(&state("Fix it.", deaf, &[]), 1, "n");
    assert!(!prompt.contains("TASK_FOLDER") && !prompt.contains("exit with code"), "{prompt}");
    assert!(
        prompt.contains("<blocked>your reason</blocked>"),
        "an honest way out is always offered: {prompt}"
    );
    let other = policy(|p| p.claims.wait.exit_code = Some(77));
    assert!(compose(&state("Fix it.", other, &[]), 1, "n").contains("exit with code 77"));
}

#[test]
fn a_nonce_is_the_same_for_an_iteration_and_for_no_other() {
    // fault A1: no earlier text can hold it.
    let one = started(plain());
    let other = LoopStarted { seed: "other".into(), ..one.clone() };
    let mut all: Vec<String> = (1..=500).flat_map(|i| [nonce(&one, i), nonce(&other, i)]).collect();
    assert_eq!(all[0], nonce(&one, 1), "a resumed loop asks for the same");
    assert!(all.iter().all(|n| n.len() == 8 && n.bytes().all(|b| b.is_ascii_alphanumeric())), "{all:?}");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 1000);
}

#[test]
fn where_tasks_are_their_status_is_asked_for_and_no_promise() {
    // req 40
    let of_tasks = compose(&state("Do one.", items::turn(|_| {}), &[]), 1, "n");
    assert!(
        of_tasks.contains("The `status` in the frontmatter of a task's file is what says that it is done")
    );
    assert!(of_tasks.contains("Its backpressure will be run then"));
    let checked =
        compose(&state("Mend it.", policy(|p| p.claims.own_claim = OwnClaim::AfterAgent), &[]), 1, "n");
    assert!(checked.contains("When you end, checks are run on what you leave behind."));
    for prompt in [of_tasks, checked] {
        assert!(prompt.contains("<blocked>your reason</blocked>"), "every prompt offers it: {prompt}");
        assert!(!prompt.contains("<promise>") && !prompt.contains("/DONE"), "{prompt}");
        assert!(prompt.contains("WAIT_WITHOUT_RESTART"), "waiting is as ever: {prompt}");
    }
}

#[test]
fn several_red_gates_share_the_room() {
    let gate = |n: usize| GateFeedback {
        line: format!("the check `{n}` exited 1"),
        command: "c".into(),
        tail: format!("{}é{n}", "x".repeat(10_000)),
        was_red: false,
    };
    let one = Feedback::of_gates(1, vec![gate(0)]);
    assert_eq!(one.gates[0].tail, gate(0).tail, "one alone has all of it");
    let many = Feedback::of_gates(1, (0..9).map(gate).collect());
    assert!(many.gates.iter().all(|gate| gate.tail.len() <= 4096));
    assert!(many.gates[..4].iter().all(|gate| gate.tail.len() > 4000));
    assert!(many.gates[3].tail.ends_with("é3"), "its end");
    assert_eq!(many.gates[8].tail, LEFT_OUT);
    assert!(many.gates.iter().map(|gate| gate.tail.len()).sum::<usize>() < 16_500);
    assert!(many.line.starts_with("the check `0` exited 1; the check `1` exited 1; "));
}

#[test]
fn an_agent_that_works_once_reads_nothing_about_a_loop_and_of_checks_only_if_there_are_some() {
    let once = |gates: usize| {
        let policy = policy(|p| {
            p.claims.own_claim = OwnClaim::WithAgent;
            p.gates.specs.truncate(gates);
            if gates > p.gates.specs.len() {
                p.gates.specs.push(crate::policy::GateSpec::of_command("make"));
            }
        });
        compose(&state("Mend it.", policy, &[]), 1, "n")
    };
    for gates in [0, 1] {
        let prompt = once(gates);
        assert!(!prompt.contains("loop") && !prompt.contains("iteration"), "{prompt}");
        assert_eq!(prompt.contains("checks are run"), gates > 0, "{prompt}");
    }
}

fn as_written() -> Policy {
    policy(|p| p.agent.prompt_form = PromptForm::AsWritten { count_mark: "(n/m)".to_owned() })
}

#[test]
fn a_prompt_as_it_is_written_differs_between_iterations_in_their_number_alone() {
    // req 176
    let state_of = |events: &[LoopEvent]| state("# Work\nIteration: (n/m)\n\nEnd.\n\n", as_written(), events);
    let of = |iteration| compose(&state_of(&[]), iteration, "n");
    assert!(
        of(3).starts_with("# Work\nIteration: 3/100\n\nEnd.\n\n---\nIf it cannot be done as asked"),
        "{}",
        of(3)
    );
    assert_eq!(of(1).replace("1/100", "2/100"), of(2));
    for words in ["Continue working", "You work in a loop", "<promise>", "TASK_FOLDER", "DONE"] {
        assert!(!of(2).contains(words), "the prompt says it itself: {}", of(2));
    }
    assert!(of(1).contains("<blocked>your reason</blocked>"), "every prompt offers it: {}", of(1));
    let raised =
        LoopEvent::LimitsRaised { grant: crate::event::Grant { extra_iterations: 5, ..Default::default() } };
    assert!(compose(&state_of(&[raised]), 3, "n").contains("Iteration: 3/105\n"), "the limit in force");
    let unmarked = policy(|p| p.agent.prompt_form = PromptForm::AsWritten { count_mark: String::new() });
    assert!(compose(&state("Fix it.", unmarked, &[]), 2, "n").starts_with("Fix it.\n\n---\n"));
}

#[test]
fn a_prompt_as_it_is_written_is_followed_by_what_has_happened() {
    // req 40, req 185
    let miss = LoopEvent::SignalSeen { iteration: 1, signal: Signal::NearMiss(MissReason::InCode) };
    let says = LoopEvent::Steered { text: "use rust".into() };
    let events = [&red_gate("boom")[..], &[miss, says]].concat();
    let prompt = compose(&state("Work (n/m).", as_written(), &events), 2, "n");
    for words in [
        "Work 2/100.",
        "The person you work for says:\nuse rust\n",
        "The claim of iteration 1 was refused: the check `tests` exited 101.\n",
        "The end of what it printed:\nboom\n",
        "Your promise in iteration 1 did not count: it stood in code; print it as plain text.\n",
    ] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    let stuck: Vec<LoopEvent> =
        (0..9).flat_map(|_| first_iteration_over(IterationOutcome::NoClaim)).collect();
    let prompt = compose(&state("Read.", as_written(), &stuck), 10, "n");
    assert!(!prompt.contains("changed nothing"), "it may have been asked to change nothing: {prompt}");
}
