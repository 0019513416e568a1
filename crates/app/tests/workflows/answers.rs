//! What people say to a run: answers to its questions and to its agents, and what a run says about that.

use serde_json::Value;

use crate::support::{LOOP, SOON, args, events, run, run_id, status, with};

const REWORK: &str = "steps:\n  - {id: fix, loop: {prompt: p, until_bash: 'echo x >> .git/checks; ! test -f changes', max_iterations: 3}}\n\
    \u{20} - {id: ask, approval: {message: 'The check passes. Stay?', on_reject: {prompt: 'Rework it'}}}\n";

#[test]
fn the_check_of_a_loop_runs_again_after_rework_and_its_agent_goes_on_if_it_is_red() {
    let env = with(REWORK);
    env.script("append .git/calls x");
    let id = run_id(&run(&env, &[]).assert_code(4));
    assert_eq!((env.read(".git/calls").lines().count(), env.read(".git/checks").lines().count()), (1, 1));
    let asks = |number: u64| status(&env, &id)["question"]["question"] == number;
    // The rework breaks the check; the loop's own agent mends it before the person is asked.
    env.script("append .git/calls x; sh 'if [ $(wc -l < .git/calls) = 2 ]; then touch changes; else rm -f changes; fi'; prompt-to .git/prompt");
    env.run(["reject", &id, "no"]).assert_code(0);
    env.wait_until("the next question", SOON, || asks(2));
    assert!(!env.workspace().join("changes").exists(), "no person is asked about a red check");
    assert_eq!((env.read(".git/calls").lines().count(), env.read(".git/checks").lines().count()), (3, 3));
    let prompt = env.read(".git/prompt");
    assert!(prompt.contains("What was there was not accepted") && prompt.contains("until_bash"), "{prompt}");
    // A rework that leaves it green: the check runs, and no agent but the one of the rework.
    env.script("append .git/calls x; append notes y");
    env.run(["reject", &id, "no"]).assert_code(0);
    env.wait_until("the third question", SOON, || asks(3));
    assert_eq!((env.read(".git/calls").lines().count(), env.read(".git/checks").lines().count()), (4, 4));
    env.run(["approve", &id]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
}

#[test]
fn an_approval_of_other_files_is_refused_where_it_was_typed_and_the_reason_stays_visible() {
    let env =
        with("steps: [{id: a, bash: 'echo x >> .git/checks'}, {id: ask, approval: {message: 'Ship it?'}}]\n");
    let output = run(&env, &[]).assert_code(4);
    let id = run_id(&output);
    assert!(output.stderr.contains("stopped (question): Ship it?"), "{}", output.stderr);
    env.write("README", "changed\n");
    let output = env.run(["approve", &id, "ship it"]).assert_code(4);
    let why = "the files have changed since question 1 was asked, so that its approval did not count";
    assert_eq!(output.reason(), format!("dacapo: run {id} does not take this: {why}"));
    assert!(output.stderr.contains("hint: its checks run again, and it asks again"), "{}", output.stderr);
    assert_eq!(output.stdout, "");
    env.wait_until("it asks again", SOON, || status(&env, &id)["question"]["question"] == 2);
    assert_eq!(status(&env, &id)["question"]["again"], why);
    assert_eq!(env.read(".git/checks").lines().count(), 2);
    for command in [["status", &id], ["why", &id]] {
        let text = env.run(command).assert_code(0).stdout;
        assert!(text.contains(why), "{text}");
    }
    let text = env.run(["events", &id]).assert_code(0).stdout;
    assert!(text.contains(&format!("step ask: the answer does not count: {why}\n")), "{text}");
    assert!(!text.lines().any(|line| line.ends_with(' ')), "{text}");
    env.run(["approve", &id]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
}

#[test]
fn one_word_that_looks_like_an_id_and_names_no_run_answers_nothing() {
    let env = with("steps: [{id: ask, approval: {message: 'Ship it?'}}]\n");
    let id = run_id(&run(&env, &[]).assert_code(4));
    for command in ["approve", "reject"] {
        let output = env.run([command, "typo123"]).assert_code(2);
        assert!(output.stderr.contains("no run of a workflow is called `typo123`"), "{}", output.stderr);
        assert!(output.stderr.contains(&format!("these ask: {id} (Ship it?)")), "{}", output.stderr);
    }
    assert_eq!(status(&env, &id)["question"]["question"], 1);
    env.run(["approve", "lgtm"]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
}

#[test]
fn the_question_of_an_agent_is_answered_through_its_run() {
    for text in [LOOP, "steps: [{id: a, prompt: p}, {id: b, bash: 'touch .git/after'}]\n"] {
        let env = with(text);
        env.script("append .git/calls x; sh 'dacapo ask \"Red or blue?\"'; exit 42");
        let output = run(&env, &[]).assert_code(4);
        let id = run_id(&output);
        assert!(output.stderr.contains(&format!("`dacapo steer {id} \"the answer\"`")), "{}", output.stderr);
        let why = env.run(["why", &id]).assert_code(0).stdout;
        assert!(why.contains("Red or blue?") && why.contains(&format!("dacapo steer {id}")), "{why}");
        let output = env.run(["approve", &id, "red"]).assert_code(1);
        assert!(output.stderr.contains(&format!("`dacapo steer {id}")), "{}", output.stderr);
        env.script("append .git/calls x; prompt-to .git/prompt; promise COMPLETE");
        let output = env.run(["steer", &id, "red"]).assert_code(0);
        assert!(
            output.stdout.starts_with(&format!("Run {id} goes on in the background.")),
            "{}",
            output.stdout
        );
        env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
        assert!(
            env.read(".git/prompt").contains("The person you work for says:\nred\n"),
            "{}",
            env.read(".git/prompt")
        );
        assert_eq!(env.read(".git/calls").lines().count(), 2);
        let began = events(&env, &id).into_iter().filter(|event| event["type"] == "loop_started").count();
        assert_eq!(began, 1, "the loop that asked goes on");
    }
}

#[test]
fn a_blocked_agent_is_told_what_to_do_and_goes_on_where_it_was() {
    let env = with(LOOP);
    env.script("append .git/calls x; say <blocked>there is no such API</blocked>");
    let id = run_id(&run(&env, &[]).assert_code(4));
    env.script("append .git/calls x; prompt-to .git/prompt; promise COMPLETE");
    env.run(["steer", &id, "use the other one"]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
    let prompt = env.read(".git/prompt");
    assert!(prompt.contains("iteration 2 of at most 5") && prompt.contains("use the other one"), "{prompt}");
    let output = env.run(["steer", &id, "more"]).assert_code(1);
    assert!(output.stderr.contains("no agent would read it"), "{}", output.stderr);
}

#[test]
fn logs_and_receipt_of_a_run_are_those_of_its_newest_loop() {
    let env = with("steps: [{id: a, prompt: p}, {id: b, prompt: p}]\n");
    env.script("say hello from $DACAPO_LOOP");
    let id = run_id(&run(&env, &[]).assert_code(0));
    let newest = status(&env, &id)["metadata"]["loop"].as_str().unwrap().to_owned();
    let output = env.run(["logs", &id]).assert_code(0);
    assert!(output.stdout.contains(&format!("hello from {newest}")), "{}", output.stdout);
    assert!(output.stderr.contains(&format!("(loop {newest}, the newest of 2;")), "{}", output.stderr);
    let output = env.run(["receipt", &id]).assert_code(0);
    assert!(output.stdout.contains(&format!("Receipt of loop {newest}")), "{}", output.stdout);
}

#[test]
fn what_refused_a_claim_is_told_while_it_happens_and_at_the_end() {
    let env =
        with("loop: {until: COMPLETE, until_bash: 'echo looked; exit 7', max_iterations: 2}\nprompt: p\n");
    env.script("promise COMPLETE");
    let output = run(&env, &[]).assert_code(3);
    let text = &output.stdout;
    assert_eq!(text.matches("**Not done**: ").count(), 2, "{text}");
    assert!(text.contains("check `until_bash`:\nlooked\n"), "{text}");
    assert!(
        text.contains(
            "**Loop incomplete**: w\n\nMax iterations (2) reached, and the last claim was refused: "
        ),
        "{text}"
    );
    let detail = status(&env, &run_id(&output))["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("until_bash") && !detail.contains("without completion signal"), "{detail}");
}

const DECIDES: &str = "steps:\n  - {id: ask, approval: {message: 'Where to?', decisions: [{id: ship, label: Ship it}, {id: hold}]}}\n\
    \u{20} - {id: out, bash: 'touch .git/held', when: \"$ask.output.decision == 'hold'\"}\n";

#[test]
fn decisions_are_listed_wherever_the_question_is_and_have_to_be_chosen() {
    let env = with(DECIDES);
    let output = run(&env, &[]).assert_code(4);
    let id = run_id(&output);
    let how = format!("`dacapo approve {id} --decision NAME`, with one of: ship (Ship it), hold");
    assert!(output.stdout.contains("**Question**: Where to?\n  ship Ship it\n  hold\n"), "{}", output.stdout);
    assert!(output.stderr.contains(&how), "{}", output.stderr);
    assert!(!output.stdout.contains("dacapo approve"), "the hint is given once");
    for command in [["why", &id], ["status", &id]] {
        let text = env.run(command).assert_code(0).stdout;
        assert!(text.contains(&how), "{text}");
    }
    let output = env.run(["approve", &id]).assert_code(2);
    assert!(
        output.stderr.contains("choose one of ship, hold") && output.stderr.contains(&how),
        "{}",
        output.stderr
    );
    env.run(["approve", &id, "--decision", "hold"]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
    assert!(env.workspace().join(".git/held").exists());
}

#[test]
fn a_rejection_without_rework_says_that_the_run_is_cancelled() {
    let env = with("steps: [{id: ask, approval: {message: 'Ship it?'}}]\n");
    let id = run_id(&run(&env, &[]).assert_code(4));
    let output = env.run(["steer", &id, "hm"]).assert_code(1);
    assert!(
        output.stderr.contains(&format!("`dacapo approve {id}` or `dacapo reject {id}")),
        "{}",
        output.stderr
    );
    let output = env.run(["reject", &id, "not now"]).assert_code(0);
    assert_eq!(output.stdout, format!("Run {id} is cancelled: rejected at step `ask`: not now\n"));
    let seen = status(&env, &id);
    assert_eq!((&seen["state"], &seen["steps"][0]["state"]), (&"cancelled".into(), &"rejected".into()));
    assert!(env.survivors().is_empty());
    // It is over, with or without trust.
    for extra in [&[][..], &["--trust"]] {
        let output = env.run(["resume", &id].into_iter().chain(extra.iter().copied())).assert_code(1);
        assert!(output.stderr.contains(&format!("run {id} is over: it is cancelled")), "{}", output.stderr);
    }
    let output = env.run(["resume", &id, "-n", "+2"]).assert_code(2);
    assert!(output.stderr.contains("takes no `-n`"), "{}", output.stderr);
}

#[test]
fn scripts_and_waits_are_seen_and_a_wait_says_what_for() {
    let env = with("steps: [{id: say, bash: 'echo hello there'}, {id: hold, wait: {signal: go}}]\n");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("it waits", SOON, || running.stdout().contains("**Waits**"));
    let text = running.stdout();
    assert!(
        text.contains("**Step 1/2**: say (bash)\n\nhello there\n\n**Waits**: hold for the signal `go`\n"),
        "{text}"
    );
    let why = env.run(["why"]).assert_code(0).stdout;
    assert!(why.contains("step `hold` waits for the signal `go`"), "{why}");
    env.run(["signal", "go"]).assert_code(0);
    running.wait(SOON).assert_code(0);
}

#[test]
fn a_step_alone_shows_no_iterations_also_when_it_goes_on() {
    let env = with("steps: [{id: a, prompt: p}]\n");
    env.script("sh 'dacapo ask \"Which?\"'; exit 42");
    let output = run(&env, &[]).assert_code(4);
    let id = run_id(&output);
    env.script("say done");
    let again = env.run(["resume", &id, "--trust"]).assert_code(0);
    assert!(!output.stdout.contains("Iteration") && !again.stdout.contains("Iteration"), "{}", again.stdout);
}

#[test]
fn no_line_of_json_has_a_key_twice() {
    let env = with("steps: [{id: a, bash: 'true'}]\n");
    let output = run(&env, &["--json"]).assert_code(0);
    let first = output.stdout.lines().next().unwrap();
    assert_eq!(first.matches("\"run\":").count(), 1, "{first}");
    let first: Value = serde_json::from_str(first).unwrap();
    assert_eq!(first["type"], "workflow_start");
}

#[test]
fn a_loop_that_finds_its_folder_held_ends_the_run_with_that_code() {
    let checked = "loop: {until: COMPLETE, until_bash: 'true', max_iterations: 5}\nprompt: p\n";
    let env = with(checked);
    env.script("touch .git/started; hang");
    let holder = env.spawn(args(&env, &[]));
    env.wait_until("the loop works", SOON, || env.workspace().join(".git/started").exists());
    let output = run(&env, &[]).assert_code(5);
    assert!(output.stderr.contains("works in"), "{}", output.stderr);
    holder.signal(rustix::process::Signal::INT);
    let _ = holder.wait(SOON);
}

#[test]
fn a_budget_that_cannot_be_held_is_warned_of() {
    let env = with("budget: {max_cost: 1}\nsteps: [{id: a, prompt: p}]\n");
    env.script("prompt-to .git/prompt; say done");
    let output = run(&env, &[]).assert_code(0);
    assert!(output.stderr.contains("WARNING: the `budget` of w cannot be held: "), "{}", output.stderr);
    let prompt = env.read(".git/prompt");
    assert!(!prompt.contains("You work in a loop") && !prompt.contains("checks are run"), "{prompt}");
}

#[test]
fn a_word_that_nothing_here_asked_for_is_told_so() {
    let env = with("steps: [{id: ask, approval: 'Go?'}]\n");
    for (args, said) in [
        (&["approve", "lgtm"][..], "nothing here asks, and no task or run is called `lgtm`"),
        (&["reject", "typo1234", "too long"], "no task and no run of a workflow is called `typo1234`"),
        (&["approve"], "nothing here asks"),
    ] {
        let output = env.run(args.iter().copied());
        assert_eq!(output.reason(), format!("dacapo: {said}"), "{args:?}: {output:?}");
    }
}
