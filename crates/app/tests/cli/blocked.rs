//! The honest way out: an agent that cannot do what it was asked says so, and a person decides.

use serde_json::json;

use crate::support::{LONG, Task, assert_has, last_line, world};

#[test]
fn an_agent_that_is_blocked_stops_the_loop_and_everybody_is_told_why() {
    let env = world();
    let script = "say I looked everywhere.; say <blocked>there is no key for the provider</blocked>";
    let output = env.run_loop(script, &["-n", "5", "--gate", "true"]).assert_code(4);
    insta::assert_snapshot!(env.redact(&output.stdout), @r#"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · 1 gate · at most 5 iterations
    iteration 1/5  exit 0, [DURATION] · is blocked
      the agent is blocked: there is no key for the provider
    stopped after 1 iteration, [DURATION]
      why      Stopped: the agent is blocked: there is no key for the provider.
      next     `dacapo steer [LOOP] "…"` says how to go on, and goes on; `dacapo resume [LOOP]` goes on without a word.
    "#);
    insta::assert_snapshot!(
        env.redact(&output.stderr),
        @"dacapo: stopped (blocked): the agent is blocked: there is no key for the provider [loop [LOOP]]"
    );
    insta::assert_snapshot!(env.redact(&env.run(["why", "t"]).assert_code(0).stdout), @r#"
    Stopped: the agent is blocked: there is no key for the provider.
    Next: `dacapo steer [LOOP] "…"` says how to go on, and goes on; `dacapo resume [LOOP]` goes on without a word.
    "#);
    let all = env.run(["status"]).assert_code(0).stdout;
    assert_has(&all, " ago\n    the agent is blocked: there is no key");
    assert_has(
        &env.run(["status", "t"]).assert_code(0).stdout,
        "  the agent is blocked: there is no key for the provider",
    );
    let status = env.status("t");
    assert_eq!(
        (&status["state"], &status["reason"], &status["exit_code"], &status["detail"]),
        (
            &json!("stopped"),
            &json!("blocked"),
            &json!(4),
            &json!("the agent is blocked: there is no key for the provider")
        )
    );
    let event = &env.events_of("t", "blocked")[0];
    assert_eq!((&event["iteration"], &event["why"]), (&json!(1), &json!("there is no key for the provider")));
    assert_eq!(env.events_of("t", "signal_seen")[0]["signal"], "blocked");
    assert_eq!(env.events_of("t", "iteration_finished")[0]["outcome"], "blocked");
    assert_has(&env.run(["events", "t"]).assert_code(0).stdout, "blocked: there is no key for the provider");
    env.assert_on_bus("WARNING", "the agent is blocked: there is no key for the provider");
    assert_eq!(env.starts(), 1);
}

#[test]
fn every_prompt_offers_the_way_out_and_repeating_it_is_no_use_of_it() {
    let env = world();
    env.run_loop("echo-prompt; say That is what I was told.", &["-n", "2"]).assert_code(3);
    for iteration in [1, 2] {
        assert_has(&env.prompt(iteration), "If it cannot be done as asked, do not pretend that it is");
        assert_has(&env.prompt(iteration), "<blocked>your reason</blocked> and nothing else on it");
    }
    assert_eq!(env.events_of("t", "signal_seen"), [json!(null); 0]);
    for (script, explained) in [
        ("say I could print <blocked>no key</blocked> here.", "other text stood on its line"),
        ("say `<blocked>no key</blocked>`", "it stood in code"),
        ("say ```; say <blocked>no key</blocked>; say ```; say and more", "it stood in code"),
        ("say > <blocked>no key</blocked>; say and more", "it stood in a quotation"),
    ] {
        let env = world();
        let output = env.run_loop(script, &["-n", "2"]).assert_code(3);
        assert_has(&output.stdout, &format!("  a blocked tag that does not count: {explained}"));
        let words = format!("What you said in iteration 1 about being blocked did not count: {explained}");
        assert_has(&env.prompt(2), &words);
        assert_eq!(env.events_of("t", "signal_seen")[0]["signal"], "blocked_near_miss");
    }
    // Neither are other streams, nor a tag that says nothing.
    for script in
        ["err <blocked>no key</blocked>", "say <blocked></blocked>", "say <blocked>your reason</blocked>"]
    {
        let env = world();
        env.run_loop(script, &["-n", "1"]).assert_code(3);
        assert_eq!(env.events_of("t", "signal_seen"), [json!(null); 0], "{script}");
    }
}

#[test]
fn a_blocked_loop_is_resumed_by_a_word_or_without_one() {
    let env = world();
    env.run_loop("@1: say <blocked>no key</blocked>; @2: promise", &[]).assert_code(4);
    assert_has(&env.run(["steer", "t", "use the test key"]).assert_code(0).stdout, "runs in the background");
    env.wait_until("it is done", LONG, || env.status("t")["state"] == "completed");
    let prompt = env.prompt(2);
    assert_has(&prompt, "In iteration 1 the agent said that it cannot be done as asked: no key\n");
    assert_has(&prompt, "The person you work for says:\nuse the test key\n");
    assert_eq!(env.starts(), 2);

    let env = world();
    env.run_loop("@1: say <blocked>no key</blocked>; @2: exit 0; @3: promise", &[]).assert_code(4);
    env.run(["resume", "t"]).assert_code(0);
    assert_has(&env.prompt(2), "A person has read that and lets the loop go on.");
    assert!(!env.prompt(3).contains("no key"), "{}", env.prompt(3));
    assert_eq!(env.starts(), 3);
}

#[test]
fn an_agent_that_claims_and_is_blocked_is_not_believed() {
    let env = world();
    let script =
        "write work; done; say <promise>DONE</promise>; say <blocked>the tests cannot be run</blocked>";
    let output = env.run_loop(script, &["--gate", "true"]).assert_code(4);
    insta::assert_snapshot!(env.redact(&output.stdout), @r#"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · 1 gate · at most 100 iterations
    iteration 1/100  exit 0, [DURATION] · claims to be done (promise and DONE file)
      the agent is blocked: the tests cannot be run
      refused: the agent claims to be done and says that it is blocked: the tests cannot be run
    stopped after 1 iteration, [DURATION]
      why      Stopped: the agent is blocked: the tests cannot be run. The last claim was refused in iteration 1: the agent claims to be done and says that it is blocked: the tests cannot be run.
      next     `dacapo steer [LOOP] "…"` says how to go on, and goes on; `dacapo resume [LOOP]` goes on without a word.
    "#);
    assert_eq!(env.events_of("t", "claim_refused")[0]["reason"], "contradiction");
    assert_eq!(env.events_of("t", "gate_started"), [json!(null); 0], "nothing is worth a check");
    assert!(env.folder("t").join("DONE.refused").exists() && !env.folder("t").join("DONE").exists());
    assert_has(&env.run(["why", "t"]).assert_code(0).stdout, "claims to be done and says that it is blocked");
    // What dacapo finds out by itself is not the agent's word.
    let env = world();
    env.run_loop("say <blocked>no key</blocked>", &["--until-cmd", "true"]).assert_code(0);
}

#[test]
fn a_reason_is_one_short_line_without_secrets() {
    let env = world();
    let long = "word ".repeat(400);
    let script = format!("say <blocked>; say The key is sk-ant-REDACTED; say {long}; say </blocked>");
    let key = format!("sk-ant-api03-{}", "a1B2".repeat(20));
    let output = env.run_loop(&script.replace("sk-ant-REDACTED", &key), &[]).assert_code(4);
    let event = &env.events_of("t", "blocked")[0];
    let why = event["why"].as_str().unwrap();
    assert!(why.starts_with("The key is [redacted] word word"), "{why}");
    assert!(why.ends_with(" word…") && why.len() < 600, "{why}");
    assert!(!format!("{}{}", output.stdout, output.stderr).contains(&key[13..]));
    assert_has(last_line(&output), "stopped (blocked): the agent is blocked: The key is [redacted] word");
}
