//! What can be done with a run from outside, how it ends, and what it may cost.

use dacapo_testkit::TestEnv;
use serde_json::Value;

use crate::support::{
    LOOP, SOON, args, events, message, mine, result, run, run_id, script, status, types, with,
    with_events_agent,
};

fn state(env: &TestEnv, id: &str) -> String {
    status(env, id)["state"].as_str().unwrap().to_owned()
}

/// The id of the only run, once there is one.
fn only_run(env: &TestEnv) -> String {
    let mut id = None;
    env.wait_until("there is a run", SOON, || {
        let text = env.run(["status", "--workflows", "--json"]).stdout;
        let runs: Value = serde_json::from_str(&text).unwrap_or_default();
        id = runs[0]["id"].as_str().map(str::to_owned);
        id.is_some()
    });
    id.unwrap()
}

#[test]
fn a_run_comes_to_one_of_four_ends_each_with_its_code_and_message() {
    // req 202
    for (text, agent, code, state, said, detail) in [
        ("steps: [{id: a, prompt: p}]\n", "say fine", 0, "completed", "**Workflow complete**: w\n\n", "fine"),
        (
            "steps: [{id: a, bash: 'echo no; exit 7'}]\n",
            "",
            1,
            "failed",
            "**Workflow failed**: w\n\nstep `a`: the script exited with 7: no\n\n",
            "step `a`: the script exited with 7: no",
        ),
        (
            "steps: [{id: a, bash: 'echo wrong branch'}, {id: b, cancel: 'Stop: $a.output'}]\n",
            "",
            130,
            "cancelled",
            "**Workflow cancelled**: w\n\nStop: wrong branch\n\n",
            "Stop: wrong branch",
        ),
        (
            "steps: [{id: a, prompt: p}, {id: b, bash: 'touch .git/after'}]\n",
            "say <blocked>there is no such API</blocked>",
            4,
            "blocked",
            "**Workflow blocked**: w\n\nstep `a`: the agent is blocked: there is no such API\n\n",
            "step `a`: the agent is blocked: there is no such API",
        ),
        (
            "loop: {until: COMPLETE, max_iterations: 5}\nprompt: p\n",
            "say <blocked>there is no such API</blocked>",
            4,
            "blocked",
            "**Workflow blocked**: w\n\nthe agent is blocked: there is no such API\n\n",
            "the agent is blocked: there is no such API",
        ),
    ] {
        let env = with(text);
        env.script(agent);
        let output = run(&env, &[]).assert_code(code);
        assert!(output.stdout.ends_with(said), "{text}: {}", output.stdout);
        let id = run_id(&output);
        let seen = status(&env, &id);
        assert_eq!((&seen["state"], &seen["detail"]), (&state.into(), &detail.into()), "{text}");
        assert_eq!(seen["exit_code"], code, "{text}");
        assert!(
            output.stderr.ends_with(&format!("dacapo: w {state}: {detail} [run {id}]\n")),
            "{}",
            output.stderr
        );
        assert!(!env.workspace().join(".git/after").exists());
        let all = events(&env, &id);
        let ends =
            types(&all).into_iter().filter(|kind| ["workflow_complete", "workflow_error"].contains(kind));
        assert_eq!(ends.count(), 1, "{text}");
    }
}

#[test]
fn runs_are_listed_from_anywhere_with_what_they_ask() {
    let env = with("steps: [{id: a, bash: 'true'}, {id: ask, approval: {message: 'Ship it?'}}]\n");
    assert_eq!(env.run(["status", "--workflows"]).assert_code(0).stdout, "No runs of workflows.\n");
    let id = run_id(&run(&env, &[]).assert_code(4));
    let mut elsewhere = env.dacapo(["status"]);
    elsewhere.current_dir(env.home());
    let text = env.run_command(elsewhere).assert_code(0).stdout;
    let (_, section) = text.split_once("\nRuns of workflows:\n").expect("a section");
    assert!(
        section.starts_with(&format!("  {id}  w: stopped (question), step 2/2 `ask`, started ")),
        "{text}"
    );
    assert!(section.ends_with(" ago\n    asks: Ship it?\n"), "{text}");
    env.run(["reject", &id, "not now"]).assert_code(0);
    env.wait_until("the end", SOON, || state(&env, &id) == "cancelled");
    let runs: Value =
        serde_json::from_str(&env.run(["status", "--workflows", "--json"]).assert_code(0).stdout).unwrap();
    assert_eq!((&runs[0]["id"], &runs[0]["state"]), (&id.as_str().into(), &"cancelled".into()));
    assert_eq!(runs[0]["detail"], "rejected at step `ask`: not now");
}

#[test]
fn consent_to_workflows_is_given_shown_and_withdrawn() {
    let env = with("steps: [{id: a, bash: 'touch .git/ran'}]\n");
    let shown = env.run(["trust", "--show"]).assert_code(0).stdout;
    assert!(shown.contains("touch .git/ran") && shown.contains(".dacapo/workflows/w.yaml"), "{shown}");
    let json = || -> Value {
        serde_json::from_str(&env.run(["trust", "--show", "--json"]).assert_code(0).stdout).unwrap()
    };
    assert_eq!(json()["workflows"]["state"], "untrusted");
    env.run(["trust", "--yes"]).assert_code(0);
    assert_eq!(json()["workflows"]["state"], "trusted");
    env.run(["workflow", "run", "w"]).assert_code(0);
    assert!(env.workspace().join(".git/ran").exists());
    // Another command is another question.
    env.write(
        ".dacapo/workflows/w.yaml",
        "name: w\ndescription: d\nsteps: [{id: a, bash: 'touch .git/other'}]\n",
    );
    assert_eq!(json()["workflows"]["state"], "changed");
    env.run(["workflow", "run", "w"]).assert_code(4);
    env.run(["trust", "--yes"]).assert_code(0);
    assert_eq!(env.run(["trust", "--revoke"]).assert_code(0).stdout, "Consent is withdrawn.\n");
    env.run(["workflow", "run", "w"]).assert_code(4);
    assert!(!env.workspace().join(".git/other").exists());
}

#[test]
fn a_paused_run_begins_no_step_and_goes_on_when_it_is_told() {
    // req 166
    let env = with(
        "steps: [{id: a, bash: 'touch .git/a; while [ ! -e .git/go ]; do sleep 0.05; done'}, {id: b, bash: 'touch .git/b'}]\n",
    );
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the first step runs", SOON, || env.workspace().join(".git/a").exists());
    let id = only_run(&env);
    env.run(["pause", &id]).assert_code(0);
    env.wait_until("it pauses", SOON, || state(&env, &id) == "paused");
    env.write(".git/go", "");
    env.wait_until("the step is done", SOON, || status(&env, &id)["steps"][0]["state"] == "completed");
    assert_eq!((state(&env, &id).as_str(), env.workspace().join(".git/b").exists()), ("paused", false));
    env.run(["resume", &id]).assert_code(0);
    running.wait(SOON).assert_code(0);
    assert!(env.workspace().join(".git/b").exists());
}

#[test]
fn a_paused_run_holds_its_loop_after_the_iteration_and_survives_a_restart() {
    // req 166
    let env = with(LOOP);
    env.script("append .git/calls x; touch .git/started; wait-file .git/go\n@2+: promise COMPLETE");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the agent runs", SOON, || env.workspace().join(".git/started").exists());
    let id = only_run(&env);
    env.run(["pause", &id]).assert_code(0);
    let has = |kind: &str| events(&env, &id).iter().any(|event| event["type"] == kind);
    env.wait_until("the loop knows it", SOON, || has("pause_requested"));
    env.write(".git/go", "");
    env.wait_until("the loop holds", SOON, || has("paused"));
    assert_eq!(env.read(".git/calls").lines().count(), 1);
    running.signal(rustix::process::Signal::KILL);
    let _ = running.wait(SOON);
    env.wait_until("all of it is dead", SOON, || env.survivors().is_empty());
    let output = env.run(["resume", &id, "--trust"]).assert_code(0);
    assert!(output.stdout.ends_with("**Loop complete**: w (2 iterations)\n\n"), "{}", output.stdout);
    assert_eq!(env.read(".git/calls").lines().count(), 2);
}

#[test]
fn a_failed_step_is_tried_again_as_often_as_its_file_says() {
    let flaky = "echo x >> .git/tries; test $(wc -l < .git/tries) -ge 3";
    for (attempts, code, tries) in [(1, 1, 2), (2, 0, 3)] {
        let env = with(&format!(
            "steps: [{{id: a, bash: '{flaky}', retry: {{max_attempts: {attempts}, delay_ms: 1000, on_error: all}}}}]\n"
        ));
        let output = run(&env, &[]).assert_code(code);
        assert_eq!(env.read(".git/tries").lines().count(), tries);
        let said = output.stdout.matches("**Failed, and is tried again**: a").count();
        assert_eq!(said, attempts, "{}", output.stdout);
    }
}

#[test]
fn an_agent_that_fails_is_tried_again_by_another_loop() {
    let env = with("steps: [{id: a, prompt: p, retry: {max_attempts: 2, delay_ms: 1000, on_error: all}}]\n");
    env.script("append .git/calls x; sh 'test $(wc -l < .git/calls) -ge 2 || touch .git/fail'\nsh 'test -e .git/fail && rm .git/fail && kill -9 $PPID'\nsay ok");
    let output = run(&env, &[]).assert_code(0);
    let all = events(&env, &run_id(&output));
    let count = |kind: &str| types(&all).into_iter().filter(|known| *known == kind).count();
    assert_eq!((count("loop_started"), count("step_error"), count("step_complete")), (2, 1, 1));
}

#[test]
fn the_steps_of_a_run_share_one_budget_that_resume_raises() {
    let env = with(
        "budget: {max_cost: 0.10}\nsteps: [{id: a, prompt: p}, {id: b, prompt: p}, {id: c, prompt: p}, {id: d, bash: 'touch .git/end'}]\n",
    );
    let turn = script(&["append .git/calls x".to_owned(), message("Done."), result("s1", 0.06)]);
    with_events_agent(&env, &[&turn]);
    let output = env.run(mine(&[])).assert_code(3);
    let id = run_id(&output);
    assert_eq!(env.read(".git/calls").lines().count(), 2, "the third step is not begun");
    assert!(output.stdout.contains("**Budget**: $0.12 of $0.10 are spent"), "{}", output.stdout);
    let seen = status(&env, &id);
    assert_eq!((&seen["state"], &seen["reason"]), (&"stopped".into(), &"budget".into()));
    let why = env.run(["why", &id]).assert_code(0).stdout;
    assert!(why.contains("--max-cost"), "{why}");
    env.run(["resume", &id, "--trust", "--max-cost", "0.11"]).assert_code(3);
    assert_eq!(env.read(".git/calls").lines().count(), 2, "it is spent already");
    env.run(["resume", &id, "--trust", "--max-cost", "1"]).assert_code(0);
    assert_eq!(env.read(".git/calls").lines().count(), 3);
    assert!(env.workspace().join(".git/end").exists());
}

#[test]
fn a_budget_that_is_only_audited_warns_once_and_stops_nothing() {
    let env = with(
        "budget: {max_cost: 0.10, mode: audit}\nsteps: [{id: a, prompt: p}, {id: b, prompt: p}, {id: c, prompt: p}]\n",
    );
    with_events_agent(&env, &[&script(&[message("Done."), result("s1", 0.06)])]);
    let output = env.run(mine(&[])).assert_code(0);
    assert_eq!(output.stdout.matches("**Budget**: ").count(), 1, "{}", output.stdout);
}

#[test]
fn a_loop_that_uses_up_the_budget_of_its_run_goes_on_when_it_is_raised() {
    let env = with("budget: {max_cost: 0.10}\nloop: {until: COMPLETE, max_iterations: 9}\nprompt: p\n");
    let turn = script(&["append .git/calls x".to_owned(), message("So far."), result("s1", 0.06)]);
    let done = script(&[message("<promise>COMPLETE</promise>"), result("s1", 0.06)]);
    with_events_agent(&env, &[&turn, &turn, &turn, &done]);
    let output = env.run(mine(&[])).assert_code(3);
    let id = run_id(&output);
    // As much as the first iteration took is set aside for the second, and that is not there.
    assert_eq!(env.read(".git/calls").lines().count(), 1);
    assert_eq!(status(&env, &id)["reason"], "budget");
    let output = env.run(["resume", &id, "--trust", "--max-cost", "1"]).assert_code(0);
    assert!(output.stdout.ends_with("**Loop complete**: w (4 iterations)\n\n"), "{}", output.stdout);
}

#[test]
fn a_wait_in_the_background_holds_no_process_and_resume_goes_on_when_it_is_due() {
    let env = with("steps: [{id: hold, wait: {file: go}}, {id: b, bash: 'touch .git/after'}]\n");
    let output = run(&env, &["--detach"]).assert_code(0);
    assert!(output.stdout.contains("goes on in the background"), "{}", output.stdout);
    let id = only_run(&env);
    env.wait_until("it has stopped", SOON, || env.survivors().is_empty());
    let seen = status(&env, &id);
    assert_eq!((&seen["state"], &seen["reason"]), (&"stopped".into(), &"waiting".into()));
    assert_eq!(seen["steps"][0]["state"], "waiting");
    // Not yet: a resume in the background looks, and leaves again.
    env.run(["resume", &id, "--trust", "--detach"]).assert_code(0);
    env.wait_until("it has stopped again", SOON, || env.survivors().is_empty());
    assert!(!env.workspace().join(".git/after").exists());
    env.write("go", "");
    env.run(["resume", &id, "--trust"]).assert_code(0);
    assert!(env.workspace().join(".git/after").exists());
}

#[test]
fn an_interactive_loop_asks_after_each_iteration_and_counts_them() {
    // req 148, req 149, req 166
    let env = with(
        "loop: {until: COMPLETE, max_iterations: 5, interactive: true, gate_message: 'Good so far?'}\n\
         prompt: 'They say [$LOOP_USER_INPUT] about [$LOOP_PREV_OUTPUT]'\n",
    );
    env.script("prompt-to .git/prompt; say a draft");
    let output = run(&env, &[]).assert_code(4);
    let id = run_id(&output);
    assert!(output.stdout.contains("**Iteration 1/5**"), "{}", output.stdout);
    assert!(output.stdout.contains("**Question**: Good so far?"), "{}", output.stdout);
    let asks = |number: u64| status(&env, &id)["question"]["question"] == number;
    env.script("prompt-to .git/prompt; promise COMPLETE");
    env.run(["approve", &id, "shorter"]).assert_code(0);
    env.wait_until("the second question", SOON, || asks(2));
    assert!(
        env.read(".git/prompt").contains("They say [shorter] about [a draft]"),
        "{}",
        env.read(".git/prompt")
    );
    let metadata = status(&env, &id)["metadata"].clone();
    assert_eq!((&metadata["iteration_count"], &metadata["max_iterations"]), (&2.into(), &5.into()));
    // The condition was met, and now the person agrees.
    env.run(["approve", &id]).assert_code(0);
    env.wait_until("the end", SOON, || state(&env, &id) == "completed");
}

#[test]
fn a_run_has_not_ended_before_what_its_script_started_is_dead() {
    let stubborn = "trap \"\" TERM INT; touch .git/started; while true; do sleep 0.1; done";
    let env = with(&format!("steps: [{{id: a, bash: '{stubborn}'}}, {{id: b, bash: 'touch .git/after'}}]\n"));
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the script runs", SOON, || env.workspace().join(".git/started").exists());
    running.signal(rustix::process::Signal::INT);
    let output = running.wait(SOON).assert_code(130);
    assert_eq!(env.survivors(), Vec::<u32>::new());
    let seen = status(&env, &run_id(&output));
    assert_eq!((&seen["state"], &seen["reason"]), (&"stopped".into(), &"interrupted".into()));
}

#[test]
fn a_loop_that_cannot_go_on_says_why() {
    let env = with("steps: [{id: a, prompt: p}]\n");
    env.script("touch .git/started; hang");
    // An agent that is gone when the run goes on.
    let agent = env.root().join("agent");
    std::os::unix::fs::symlink(dacapo_testkit::fake_agent(), &agent).unwrap();
    let command =
        env.agent_cmd().replace(dacapo_testkit::fake_agent().to_str().unwrap(), agent.to_str().unwrap());
    let running = env.spawn(["workflow", "run", "w", "--trust", "--agent-cmd", &command]);
    env.wait_until("the agent runs", SOON, || env.workspace().join(".git/started").exists());
    running.signal(rustix::process::Signal::INT);
    running.wait(SOON).assert_code(130);
    std::fs::remove_file(&agent).unwrap();
    let output = env.run(["resume", "--trust"]);
    assert!(output.stderr.contains(agent.to_str().unwrap()), "{}", output.stderr);
}

fn loop_of(env: &TestEnv, id: &str) -> String {
    let all = events(env, id);
    let began = all.iter().find(|event| event["type"] == "loop_started").expect("a loop");
    began["loop"].as_str().unwrap().to_owned()
}

#[test]
fn words_for_the_loop_of_a_step_go_on_with_its_run() {
    let env = with("steps: [{id: a, prompt: p}, {id: b, bash: 'touch .git/after'}]\n");
    env.script("wait-marker which API?");
    let id = run_id(&run(&env, &[]).assert_code(4));
    let seen = status(&env, &id);
    assert_eq!((&seen["state"], &seen["reason"]), (&"stopped".into(), &"waiting".into()));
    env.script("prompt-to .git/prompt; say done");
    let output = env.run(["steer", &loop_of(&env, &id), "the old API"]).assert_code(0);
    assert!(output.stdout.contains(&format!("Run {id} goes on in the background")), "{}", output.stdout);
    env.wait_until("the end", SOON, || state(&env, &id) == "completed");
    assert!(env.read(".git/prompt").contains("the old API"));
    assert!(env.workspace().join(".git/after").exists());
}

#[test]
fn a_blocked_run_goes_on_with_what_a_person_says() {
    let env = with("steps: [{id: a, prompt: p}]\n");
    env.script("say <blocked>there is no key</blocked>");
    let id = run_id(&run(&env, &[]).assert_code(4));
    assert_eq!(state(&env, &id), "blocked");
    env.script("prompt-to .git/prompt; say done");
    env.run(["steer", &id, "it is in the safe"]).assert_code(0);
    env.wait_until("the end", SOON, || state(&env, &id) == "completed");
    assert!(env.read(".git/prompt").contains("it is in the safe"));
    let refused = env.run(["steer", &id, "more"]).assert_code(1);
    assert!(refused.stderr.contains("no agent would read it"), "{}", refused.stderr);
}

#[test]
fn words_for_a_run_that_works_reach_its_loop() {
    let env = with(LOOP);
    env.script("@1: touch .git/started; wait-file .git/go\n@2: prompt-to .git/prompt; promise COMPLETE");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the agent runs", SOON, || env.workspace().join(".git/started").exists());
    let id = only_run(&env);
    env.run(["steer", &id, "use the old API"]).assert_code(0);
    let is_told = || events(&env, &id).iter().any(|event| event["type"] == "steered");
    env.wait_until("the loop knows it", SOON, is_told);
    env.write(".git/go", "");
    running.wait(SOON).assert_code(0);
    assert!(env.read(".git/prompt").contains("use the old API"));
}

#[test]
fn cancelling_or_resuming_the_loop_of_a_step_is_done_to_its_run() {
    let env = with("steps: [{id: a, prompt: p}, {id: b, bash: 'touch .git/after'}]\n");
    env.script("touch .git/started; hang");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the agent runs", SOON, || env.workspace().join(".git/started").exists());
    let id = only_run(&env);
    running.signal(rustix::process::Signal::INT);
    running.wait(SOON).assert_code(130);
    env.script("say done");
    env.run(["resume", &loop_of(&env, &id), "--trust"]).assert_code(0);
    assert!(env.workspace().join(".git/after").exists(), "the run goes on, not the loop alone");

    let env = with("steps: [{id: a, prompt: p}]\n");
    env.script("touch .git/started; hang");
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the agent runs", SOON, || env.workspace().join(".git/started").exists());
    let id = only_run(&env);
    let output = env.run(["cancel", &loop_of(&env, &id)]).assert_code(0);
    assert_eq!(output.stdout, format!("Cancelled run {id}.\n"));
    running.wait(SOON).assert_code(130);
    assert_eq!(state(&env, &id), "cancelled");
}

#[test]
fn an_iteration_that_was_cut_short_counts_and_an_agent_that_works_once_works_again() {
    // req 160
    let kill_when_started = |env: &TestEnv| {
        let running = env.spawn(args(env, &[]));
        env.wait_until("the agent hangs", SOON, || env.workspace().join(".git/hangs").exists());
        running.signal(rustix::process::Signal::KILL);
        let _ = running.wait(SOON);
        env.wait_until("all of it is dead", SOON, || env.survivors().is_empty());
    };
    let env = with("loop: {until: COMPLETE, max_iterations: 2}\nprompt: p\n");
    env.script("append .git/calls x\n@2: touch .git/hangs; hang");
    kill_when_started(&env);
    let output = env.run(["resume", "--trust"]).assert_code(3);
    assert_eq!(env.read(".git/calls").lines().count(), 2);
    assert!(output.stdout.contains("**Loop incomplete**: w"), "{}", output.stdout);

    let env = with("steps: [{id: a, prompt: p}]\n");
    env.script("append .git/calls x; touch .git/hangs; hang");
    kill_when_started(&env);
    env.script("append .git/calls y; say done");
    let output = env.run(["resume", "--trust"]).assert_code(0);
    assert_eq!(env.read(".git/calls"), "x\ny\n");
    assert!(!output.stdout.contains("**Iteration"), "{}", output.stdout);
}
