//! `workflow run`, and what can be done with a run.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{LOOP, SOON, args, events, run, run_id, status, types, with};

#[test]
fn a_loop_that_completes_on_the_third_call_makes_three_and_says_so() {
    // req 147, req 149, req 156, req 157, req 160, req 165
    let env = with(LOOP);
    env.script("say working\nappend calls x\n@3: promise COMPLETE");
    let output = run(&env, &["things"]).assert_code(0);
    assert_eq!(
        output.stdout,
        "**Starting workflow**: w\n\nd\n\nAt most 5 iterations, until \"COMPLETE\"\n\n\
         **Iteration 1/5**\n\nworking\n\n**Iteration 2/5**\n\nworking\n\n**Iteration 3/5**\n\nworking\n\n\
         **Loop complete**: w (3 iterations)\n\n"
    );
    assert_eq!(env.read("calls").lines().count(), 3);
    let id = run_id(&output);
    let seen = status(&env, &id);
    assert_eq!((&seen["state"], &seen["current_step_index"]), (&"completed".into(), &1.into()));
    assert_eq!(seen["metadata"]["iteration_count"], 3);
    assert_eq!(seen["metadata"]["max_iterations"], 5);
    let all = events(&env, &id);
    assert!(all.iter().all(|event| event["run"] == id.as_str() && event["at"].is_string()), "{all:#?}");
    let own = types(&all);
    for name in ["workflow_start", "step_start", "step_complete", "workflow_complete"] {
        assert_eq!(own.iter().filter(|known| **known == name).count(), 1, "{name}");
    }
    let ended: Vec<(&str, u64, &str)> = all
        .iter()
        .filter(|event| event["type"] == "iteration_finished")
        .map(|event| {
            let (step, outcome) = (event["step"].as_str().unwrap(), event["outcome"].as_str().unwrap());
            (step, event["index"].as_u64().unwrap(), outcome)
        })
        .collect();
    assert_eq!(
        ended,
        [("iteration-1", 0, "no_claim"), ("iteration-2", 1, "no_claim"), ("iteration-3", 2, "accepted")]
    );
}

#[test]
fn a_loop_that_never_completes_runs_as_often_as_it_may_and_fails() {
    // req 159, req 160
    for max in [1, 3] {
        let env = with(&format!("loop: {{until: COMPLETE, max_iterations: {max}}}\nprompt: p\n"));
        env.script("append calls x");
        let output = run(&env, &[]).assert_code(3);
        let why = format!("Max iterations ({max}) reached without completion signal \"COMPLETE\"");
        assert!(
            output.stdout.ends_with(&format!("**Loop incomplete**: w\n\n{why}\n\n")),
            "{}",
            output.stdout
        );
        assert_eq!(env.read("calls").lines().count(), max);
        let seen = status(&env, &run_id(&output));
        assert_eq!((&seen["state"], &seen["detail"]), (&"failed".into(), &why.as_str().into()));
    }
}

#[test]
fn an_error_in_an_iteration_fails_the_run() {
    // req 158
    let env = with(LOOP);
    env.script("append calls x\n@2: err it broke; exit 3");
    let output = run(&env, &[]).assert_code(1);
    let last = output.stdout.trim_end().lines().last().unwrap().to_owned();
    let error = last.strip_prefix("**Loop failed** at iteration 2: ").expect("the words");
    assert_eq!(env.read("calls").lines().count(), 2);
    let seen = status(&env, &run_id(&output));
    assert_eq!(seen["detail"], format!("Iteration 2: {error}"));
}

#[test]
fn steps_follow_each_other_and_hand_on_what_they_said() {
    let env = with(
        "steps:\n  - {id: look, bash: 'echo \"found $USER_MESSAGE\"'}\n  - {id: fix, prompt: 'fix $look.output'}\n\
         \u{20} - {id: check, bash: 'test \"$fix.output\" = fixed && echo good'}\n",
    );
    env.script("prompt-to prompt.txt; say fixed");
    let output = run(&env, &["a \"bug\"; touch hacked"]).assert_code(0);
    assert!(env.read("prompt.txt").contains("fix found a \"bug\"; touch hacked"));
    assert!(!env.workspace().join("hacked").exists());
    for block in ["**Step 1/3**: look (bash)", "**Step 2/3**: fix (prompt)", "**Step 3/3**: check (bash)"] {
        assert!(output.stdout.contains(block), "{}", output.stdout);
    }
    assert!(output.stdout.ends_with("**Workflow complete**: w\n\n"), "{}", output.stdout);
    assert_eq!(status(&env, &run_id(&output))["detail"], "good");
}

#[test]
fn a_failed_script_fails_the_run_and_resume_tries_only_that_again() {
    let env = with(
        "steps:\n  - {id: a, bash: 'echo a >> done'}\n  - {id: b, bash: 'test -f go || { echo not yet; exit 7; }'}\n\
         \u{20} - {id: c, bash: 'echo c >> done'}\n",
    );
    let output = run(&env, &[]).assert_code(1);
    let id = run_id(&output);
    assert!(output.stderr.contains("step `b`: the script exited with 7: not yet"), "{}", output.stderr);
    env.write("go", "");
    // What was started with counts, not what the file says now.
    env.write(".dacapo/workflows/w.yaml", "name: w\ndescription: d\nsteps: [{bash: 'touch other'}]\n");
    env.run(["resume", &id, "--trust"]).assert_code(0);
    assert_eq!(env.read("done"), "a\nc\n");
    assert!(!env.workspace().join("other").exists());
    assert_eq!(status(&env, &id)["state"], "completed");
}

#[test]
fn the_answer_before_is_in_the_prompt_and_checks_get_words_by_their_environment() {
    // req 146, req 166
    let env = with(
        "loop: {until: COMPLETE, until_bash: 'test \"$USER_MESSAGE\" = hello', max_iterations: 4}\n\
         prompt: 'before: [$LOOP_PREV_OUTPUT] for $USER_MESSAGE'\n",
    );
    env.script("env-to env.txt\n@1: prompt-to p1; say first\n@2: prompt-to p2; say second\n@3: prompt-to p3; promise COMPLETE");
    let output = run(&env, &["hello"]).assert_code(0);
    assert!(env.read("p1").contains("before: [] for hello"), "{}", env.read("p1"));
    assert!(env.read("p2").contains("before: [first] for hello"), "{}", env.read("p2"));
    assert!(env.read("p3").contains("before: [second] for hello"), "{}", env.read("p3"));
    assert!(!env.read("env.txt").contains("USER_MESSAGE"));
    assert!(!output.stdout.contains("<promise>"), "{}", output.stdout);
}

#[test]
fn a_run_that_is_killed_goes_on_without_repeating_what_is_recorded() {
    let env = with(
        "steps:\n  - {id: a, bash: 'echo a >> done'}\n  - {id: b, prompt: work}\n  - {id: c, bash: 'echo c >> done'}\n",
    );
    env.script("append calls x; touch started; hang");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the agent runs", SOON, || env.workspace().join("started").exists());
    running.signal(Signal::KILL);
    let _ = running.wait(SOON);
    env.script("append calls y; say done");
    let output = env.run(["resume", "--trust"]).assert_code(0);
    assert_eq!(env.read("done"), "a\nc\n");
    assert_eq!(env.read("calls"), "x\ny\n");
    assert_eq!(status(&env, &run_id(&output))["state"], "completed");
    assert!(env.survivors().is_empty());
}

#[test]
fn ctrl_c_stops_a_run_and_resume_goes_on() {
    let env = with(LOOP);
    env.script("append calls x\n@2: touch started; hang");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the second iteration", SOON, || env.workspace().join("started").exists());
    running.signal(Signal::INT);
    let output = running.wait(SOON).assert_code(130);
    let id = run_id(&output);
    let seen = status(&env, &id);
    assert_eq!((&seen["state"], &seen["reason"]), (&"stopped".into(), &"interrupted".into()));
    env.script("append calls x; promise COMPLETE");
    env.run(["resume", &id, "--trust"]).assert_code(0);
    assert_eq!(env.read("calls").lines().count(), 3);
}

const ASKS: &str = "steps:\n  - {id: make, prompt: make it}\n  - {id: check, bash: 'echo run >> .git/checks'}\n\
    \u{20} - {id: ask, approval: {message: 'May it go out?', on_reject: {prompt: 'Change it: $REJECTION_REASON'}}}\n\
    \u{20} - {id: ship, bash: 'touch .git/shipped'}\n";

#[test]
fn a_question_is_answered_later_and_rework_is_checked_again() {
    let env = with(ASKS);
    env.write(".gitignore", "*.log\n").script("prompt-to prompt.txt; append made x; say ok");
    let output = run(&env, &[]).assert_code(4);
    let id = run_id(&output);
    assert!(output.stdout.contains("**Question**: May it go out?"), "{}", output.stdout);
    let seen = status(&env, &id);
    assert_eq!((&seen["state"], &seen["reason"]), (&"stopped".into(), &"question".into()));
    assert_eq!(env.read(".git/checks").lines().count(), 1);
    let is_asking = || status(&env, &id)["question"]["question"].as_u64();
    let tree = status(&env, &id)["question"]["tree"].as_str().unwrap().to_owned();
    let made = env.git(["show", &format!("{tree}:made")]);
    assert_eq!(made, "x\n", "the question names the tree that it is about");
    assert_eq!(is_asking(), Some(1));

    env.run(["reject", &id, "too short"]).assert_code(0);
    env.wait_until("the next question", SOON, || is_asking() == Some(2));
    assert!(env.read("prompt.txt").contains("Change it: too short"));
    assert_eq!(env.read(".git/checks").lines().count(), 2);
    assert!(!env.workspace().join(".git/shipped").exists());

    // An approval is of the tree that the question named.
    env.write("made", "something else\n");
    env.run(["approve", &id]).assert_code(4);
    env.wait_until("the third question", SOON, || is_asking() == Some(3));
    assert_eq!(
        env.read(".git/checks").lines().count(),
        3,
        "other files are checked before a person is asked about them"
    );
    assert!(!env.workspace().join(".git/shipped").exists());

    // What git ignores, and when a file was written, are of no account.
    env.write("ignored.log", "a log\n").write("made", env.read("made"));
    env.run(["approve", &id]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
    assert!(env.workspace().join(".git/shipped").exists());
}

#[test]
fn a_run_and_its_loop_are_cancelled_together() {
    let env = with(LOOP);
    env.script("touch started; hang");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the agent runs", SOON, || env.workspace().join("started").exists());
    env.run(["cancel"]).assert_code(0);
    let output = running.wait(SOON);
    let id = run_id(&output);
    assert_eq!(status(&env, &id)["state"], "cancelled");
    let finished: Vec<Value> =
        events(&env, &id).into_iter().filter(|event| event["type"] == "loop_finished").collect();
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0]["reason"], "cancelled");
}

#[test]
fn commands_of_a_repositorys_workflow_need_consent_and_built_in_ones_do_not() {
    let env = with("steps: [{bash: 'touch ran'}]\n");
    let output = env.run(["workflow", "run", "w"]).assert_code(4);
    assert!(
        output.stderr.contains("the workflow files of this repository define commands"),
        "{}",
        output.stderr
    );
    assert!(!env.workspace().join("ran").exists());
    env.write("prd.json", "{\"userStories\": [{\"id\": \"a\", \"passes\": true}]}\n");
    env.script("promise COMPLETE");
    env.run(["workflow", "run", "prompt", "--agent-cmd", &env.agent_cmd()]).assert_code(0);
}

#[test]
fn an_answer_runs_nothing_that_the_user_does_not_trust_any_more() {
    let env = with("steps: [{approval: Now?}, {bash: 'touch .git/ran'}]\n");
    env.run(["trust", "--yes"]).assert_code(0);
    let output = env.run(["workflow", "run", "w"]).assert_code(4);
    let id = run_id(&output);
    env.run(["trust", "--revoke"]).assert_code(0);
    for answer in ["approve", "reject"] {
        let output = env.run([answer, &id]).assert_code(4);
        assert!(output.stderr.contains("untrusted: "), "{}", output.stderr);
    }
    assert_eq!(status(&env, &id)["reason"], "question", "the question is still open");
    env.run(["trust", "--yes"]).assert_code(0);
    env.run(["approve", &id]).assert_code(0);
    env.wait_until("the end", SOON, || status(&env, &id)["state"] == "completed");
    assert!(env.workspace().join(".git/ran").exists());
}

#[test]
fn a_dry_run_walks_with_stubs_and_starts_nothing() {
    let env = with(ASKS);
    env.write("stubs.yaml", "make: made\n");
    let output = env.run(["workflow", "run", "w", "--dry-run", "--stubs", "stubs.yaml"]).assert_code(0);
    assert!(output.stdout.contains("make (prompt): completed"), "{}", output.stdout);
    assert!(!env.dacapo_home().exists());
}

#[test]
fn a_wait_holds_the_foreground_until_its_file_is_there() {
    let env = with("steps: [{id: hold, wait: {file: go}}, {bash: 'touch .git/after'}]\n");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("it waits", SOON, || {
        env.run(["status", "-"]).stdout.contains("hold") || running.stdout().contains("Starting")
    });
    env.write("go", "");
    running.wait(SOON).assert_code(0);
    assert!(env.workspace().join(".git/after").exists());
}

#[test]
fn an_agent_of_one_step_does_not_choose_what_git_starts_in_the_next() {
    // fault K3
    let env = with(
        "steps:\n  - {id: one, prompt: make it}\n  - {id: two, prompt: go on}\n  - {id: ask, approval: {message: 'Ok?'}}\n",
    );
    env.write("made", "x\n");
    env.git(["config", "filter.own.clean", "tr a-z A-Z"]);
    env.write(".gitattributes", "kept filter=own\n");
    env.git(["add", "--all"]);
    env.git(["commit", "-q", "-m", "files"]);
    let ran = env.root().join("ran");
    let plant = format!("git config filter.e.clean \"touch {}; cat\"", ran.display());
    env.script(&format!(
        "sh '{plant}; git config filter.own.clean cat; mkdir -p .git/info; echo \"made filter=e\" > .git/info/attributes; echo y >> made; echo word > kept'"
    ));
    let output = run(&env, &[]).assert_code(4);
    assert!(!ran.exists(), "a program of the agent was started by dacapo's git");
    let tree = status(&env, &run_id(&output))["question"]["tree"].as_str().unwrap().to_owned();
    let kept = env.git(["show", &format!("{tree}:kept")]);
    assert_eq!(kept, "WORD\n", "what the user has set up goes on to hold");
}

#[test]
fn an_approval_is_void_when_a_file_has_changed_that_looks_the_same_from_outside() {
    let env =
        with("steps:\n  - {id: make, bash: 'echo x > made'}\n  - {id: ask, approval: {message: 'Ok?'}}\n");
    let id = run_id(&run(&env, &[]).assert_code(4));
    let made = env.workspace().join("made");
    let written = made.metadata().unwrap().modified().unwrap();
    env.write("made", "y\n");
    std::fs::File::options().append(true).open(&made).unwrap().set_modified(written).unwrap();
    env.run(["approve", &id]);
    env.wait_until("the question is asked again", SOON, || {
        status(&env, &id)["question"]["question"].as_u64() == Some(2)
    });
    assert_ne!(status(&env, &id)["state"], "completed");
}

#[test]
fn scripts_of_two_runs_work_in_their_folder_one_after_the_other() {
    let env = with(
        "nodes:\n- {id: a, bash: 'echo begin >> log; touch began; while [ ! -e go ]; do sleep 0.02; done; echo end >> log'}\n",
    );
    let first = env.spawn(args(&env, &[]));
    env.wait_until("the first script works", SOON, || env.workspace().join("began").exists());
    let second = env.spawn(args(&env, &[]));
    second.wait_for_line(|line| line.contains("waits: a script of another run works in this folder"), SOON);
    assert_eq!(env.read("log"), "begin\n");
    env.write("go", "");
    first.wait(SOON).assert_code(0);
    second.wait(SOON).assert_code(0);
    assert_eq!(env.read("log"), "begin\nend\nbegin\nend\n");
}

#[test]
fn a_prompt_that_is_too_long_for_its_agent_is_not_tried_again_and_resume_is_not_the_way_out() {
    let env = with(
        "steps:\n  - id: words\n    bash: \"head -c 60000 /dev/zero | tr '\\\\0' x\"\n  - id: work\n    depends_on: [words]\n    \
         retry: {max_attempts: 3, delay_ms: 1000, on_error: all}\n    prompt: Do $words.output $words.output\n",
    );
    let agent = format!("{} {{prompt}}", env.script("promise DONE").agent_cmd());
    let output = env.run(["workflow", "run", "w", "--trust", "--agent-cmd", &agent]).assert_code(5);
    let id = run_id(&output);
    let told = output.stderr.replace(&id, "[ID]");
    insta::assert_snapshot!(told, @r"
    hint: mend that, then `dacapo workflow run w` begins anew; `dacapo resume` would fail in the same way
    dacapo: w failed: step `work`: the prompt has 120002 bytes, and `{prompt}` in the command line of `fake-agent` takes at most 102400; `{prompt_file}` in its place hands over a file, and with neither it goes by standard input (`--agent-cmd` or `agents.fake-agent.command`) [run [ID]]
    ");
    let why = env.run(["why", &id]).assert_code(0).stdout;
    assert!(why.contains("Next: mend that, then `dacapo workflow run w` begins anew"), "{why}");
    let all = events(&env, &id);
    assert!(!types(&all).contains(&"agent_started"));
    let errors: Vec<&Value> = all.iter().filter(|event| event["type"] == "step_error").collect();
    assert_eq!(
        (errors.len(), &errors[0]["repeats"], &errors[0]["reason"]),
        (1, &true.into(), &"agent".into())
    );
}

#[test]
fn why_shows_the_last_lines_of_the_gate_that_refused_a_run() {
    let env = with(
        "loop: {until: COMPLETE, max_iterations: 1, gates: ['echo expected 42, got 41; exit 3']}\nprompt: p\n",
    );
    env.script("touch one; promise COMPLETE");
    let id = run_id(&run(&env, &[]).assert_code(3));
    let why = env.run(["why", &id]).assert_code(0).stdout;
    assert!(why.ends_with("printed:\n  expected 42, got 41\n"), "{why}");
}
