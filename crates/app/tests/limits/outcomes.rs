//! Every way an agent can end: what is recorded, what becomes of the loop, what a person reads.

use serde_json::json;

use crate::{
    events::{begins, done, ends, event, fails, overload, says, script, usage_limit, works},
    support::{LONG, Limits, assert_has, in_seconds, last_line, world_of},
};

/// One end of an agent and all that follows from it.
struct Case {
    outcome: &'static str,
    script: String,
    exit: i32,
    reason: &'static str,
    /// Iterations that were charged.
    iterations: u32,
    /// On the screen.
    line: &'static str,
    /// In `dacapo why`.
    why: &'static str,
}

#[test]
fn each_outcome_has_its_fate_its_exit_code_and_its_words() {
    // req 206, fault C6, fault C7, fault C10, fault E3, fault E6, fault E7
    let refused = "err error: unknown option \"--output-format\"\nexit 1";
    let cases = [
        Case {
            outcome: "completed",
            script: done(),
            exit: 0,
            reason: "done",
            iterations: 1,
            line: "claims to be done",
            why: "Completed",
        },
        Case {
            outcome: "max_turns",
            script: fails("", &json!({"subtype": "error_max_turns", "terminal_reason": "max_turns"})),
            exit: 3,
            reason: "max_iterations",
            iterations: 1,
            line: "iteration 1/1  max turns",
            why: "1 iteration used",
        },
        Case {
            outcome: "auth",
            script: fails("Invalid API key · Fix external API key", &json!({"api_error_status": 401})),
            exit: 4,
            reason: "auth",
            iterations: 0,
            line: "iteration 1/1  auth: Invalid API key",
            why: "Stopped: Invalid API key · Fix external API key",
        },
        Case {
            outcome: "billing",
            script: fails("Credit balance is too low", &json!({"api_error_status": 400})),
            exit: 4,
            reason: "billing",
            iterations: 0,
            line: "iteration 1/1  billing: Credit balance is too low",
            why: "Mend the account, then `dacapo resume",
        },
        Case {
            outcome: "context",
            script: fails("Prompt is too long", &json!({"terminal_reason": "prompt_too_long"})),
            exit: 3,
            reason: "max_iterations",
            iterations: 1,
            line: "iteration 1/1  context: Prompt is too long",
            why: "1 iteration used",
        },
        Case {
            outcome: "permission",
            script: fails("This command requires approval", &json!({})),
            exit: 3,
            reason: "max_iterations",
            iterations: 1,
            line: "iteration 1/1  permission: This command requires approval",
            why: "1 iteration used",
        },
        Case {
            outcome: "misuse",
            script: refused.to_owned(),
            exit: 5,
            reason: "agent",
            iterations: 0,
            line: "`dacapo doctor` names it",
            why: "Failed: error: unknown option",
        },
        Case {
            outcome: "hang",
            script: script(&[begins("s1"), says("Let me think."), "hang".to_owned()]),
            exit: 3,
            reason: "max_iterations",
            iterations: 1,
            line: "was silent for too long",
            why: "1 iteration used",
        },
        Case {
            outcome: "crash",
            script: script(&[begins("s1"), "kill SEGV".to_owned()]),
            exit: 3,
            reason: "max_iterations",
            iterations: 1,
            line: "ended by signal 11",
            why: "1 iteration used",
        },
        Case {
            // It exits 0 and has not finished.
            outcome: "crash",
            script: script(&[begins("s1"), says("I begin.")]),
            exit: 3,
            reason: "max_iterations",
            iterations: 1,
            line: "without a final event",
            why: "1 iteration used",
        },
    ];
    for case in cases {
        let env = world_of(&[&case.script]);
        // An agent that works is not silent for so long, even here.
        let output = env.run_mine(&["-n", "1", "--idle-timeout", "2s"]).assert_code(case.exit);
        let name = case.outcome;
        assert_eq!(env.outcomes(), [name]);
        let finished = &env.events_of("t", "loop_finished")[0];
        assert_eq!(
            (&finished["reason"], &finished["iterations"]),
            (&json!(case.reason), &json!(case.iterations))
        );
        assert_has(&format!("{}{}", output.stdout, output.stderr), case.line);
        assert_has(&env.why("t"), case.why);
        assert_has(last_line(&output), case.reason);
        assert_eq!(env.starts(), 1, "{name}");
    }
}

#[test]
fn who_must_sign_in_is_told_how_and_goes_on_where_it_was() {
    // fault E6: nothing is tried again before a person has acted
    let env = world_of(&[]);
    let signed_out = fails("Failed to authenticate. API Error: 401", &json!({"api_error_status": 401}));
    env.configure(
        &[("claude", "claude", "anthropic", &[&signed_out, &done()])],
        "permissions: {allow_root: true}",
    );
    let output = env.run(["run", "x", "-a", "claude", "--task", "t", "-n", "1"]).assert_code(4);
    assert_has(last_line(&output), "(auth): Failed to authenticate");
    assert_has(last_line(&output), "run `claude`, then `/login`");
    assert_has(&env.why("t"), "Next: Sign in, then `dacapo resume");
    env.run(["resume", "t"]).assert_code(0);
    assert_eq!(env.outcomes(), ["auth", "completed"]);
    assert_eq!(env.status("t")["iteration"], 1);
}

#[test]
fn an_outage_is_tried_again_in_the_same_iteration() {
    // req 206, fault E4, fault E5
    let cases = [
        ("rate_limit", fails("API Error: Request rejected (429)", &json!({"api_error_status": 429}))),
        ("overload", overload()),
        ("overload", fails("API Error: 500 Internal server error", &json!({"api_error_status": 500}))),
        ("network", fails("API Error: Unable to connect (ECONNREFUSED)", &json!({}))),
    ];
    for (outcome, failure) in cases {
        let env = world_of(&[&failure, &failure, &done()]);
        let output = env.run_mine(&["-n", "1"]).assert_code(0);
        assert_eq!(env.outcomes(), [outcome, outcome, "completed"]);
        assert_has(&output.stdout, "try 2 follows");
        assert_has(&output.stdout, "try 3 follows");
        let attempts: Vec<_> =
            env.events_of("t", "agent_started").iter().map(|e| e["attempt"].clone()).collect();
        assert_eq!(attempts, [1, 2, 3]);
        assert_eq!(env.events_of("t", "iteration_started").len(), 1);
        assert_eq!(env.events_of("t", "loop_finished")[0]["iterations"], 1);
        assert_eq!(env.events_of("t", "parked").len(), 2);
    }
}

#[test]
fn what_dacapo_ends_is_killed_and_never_taken_for_a_limit() {
    // fault E3: its own kill is known before the classes are asked
    let busy = script(&[begins("s1"), says("rate limit"), "touch ready\nhang".to_owned()]);
    let env = world_of(&[&busy, &done()]);
    let running = env.start_mine(&["-n", "2"]);
    env.wait_for_file("ready");
    env.run(["pause", "t", "--now"]).assert_code(0);
    env.wait_for_state("t", "paused");
    assert_eq!(env.outcomes(), ["killed"]);
    env.run(["resume", "t"]).assert_code(0);
    running.wait(LONG).assert_code(0);
    assert_eq!(env.outcomes(), ["killed", "completed"]);
}

#[test]
fn three_walls_in_a_row_need_a_person() {
    // fault C6, fault C10
    let wall = fails("This command requires approval", &json!({}));
    let env = world_of(&[&wall]);
    let output = env.run_mine(&["-n", "9"]).assert_code(4);
    assert_has(last_line(&output), "stopped (waiting): This command requires approval");
    assert_eq!(env.starts(), 3);
}

#[test]
fn what_it_says_about_limits_is_no_limit() {
    // fault E2: neither prose nor a tool's output parks a loop
    let words = "You've hit your 5-hour limit · resets 8:25pm (UTC). 429 rate limit, 529 overloaded, 401 Unauthorized";
    let tool = event(&json!({"type": "user", "message": {"role": "user", "content": [
        {"type": "tool_result", "content": words, "is_error": true}]}}));
    let chatty = script(&[begins("s1"), says(words), tool, format!("err {words}"), ends("s1")]);
    let env = world_of(&[&chatty, &done()]);
    env.run_mine(&["-n", "2"]).assert_code(0);
    assert_eq!(env.outcomes(), ["completed", "completed"]);
    assert!(env.events_of("t", "parked").is_empty());
}

#[test]
fn the_final_event_outranks_the_exit_code() {
    // fault C7, fault C8
    let fine = script(&[done(), "exit 7".to_owned()]);
    let env = world_of(&[&fine]);
    env.run_mine(&["-n", "1"]).assert_code(0);
    assert_eq!(env.outcomes(), ["completed"]);
    assert_eq!(env.events_of("t", "agent_exited")[0]["exit_code"], 7);
    // And an error is one although the process says that all is well.
    let banner = script(&[usage_limit(in_seconds(0)).replace("exit 1", "exit 0")]);
    let env = world_of(&[&banner, &works("s1")]);
    env.run_mine(&["-n", "1"]).assert_code(3);
    assert_eq!(env.outcomes(), ["usage_limit", "completed"]);
}

#[test]
fn a_promise_beside_an_error_is_a_claim_all_the_same() {
    // req 29: it was said in a whole message
    let broke = script(&[says("<promise>DONE</promise>"), overload()]);
    let env = world_of(&[&broke]);
    env.run_mine(&["-n", "1"]).assert_code(0);
    assert_eq!(env.outcomes(), ["overload"]);
}

#[test]
fn an_agent_that_prints_events_is_blocked_by_a_whole_message_of_its_own() {
    let tool = |text: &str| {
        event(&json!({"type": "user", "session_id": "s1", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": text}]}}))
    };
    let thinks =
        event(&json!({"type": "assistant", "session_id": "s1", "message": {"id": "m2", "role": "assistant",
        "content": [{"type": "thinking", "thinking": "<blocked>no key</blocked>"}]}}));
    for (words, code, why) in [
        (says("I looked.\n<blocked>no key</blocked>"), 4, Some("no key")),
        (says("I looked.\n\n<blocked>\nno key,\nand no door\n</blocked>\n"), 4, Some("no key, and no door")),
        (says("I stop here: <blocked>no key</blocked>"), 4, Some("no key")),
        (script(&[says("I stop here: <blocked>no key</blocked>"), says("No, I go on.")]), 3, None),
        (says("```\n<blocked>no key</blocked>\n```"), 3, None),
        // Neither a tool's output nor a thought is what it says.
        (script(&[tool("<blocked>no key</blocked>"), says("I go on.")]), 3, None),
        (script(&[thinks, says("I go on.")]), 3, None),
        // Without its final event as well: what it said was whole.
        (script(&[says("<blocked>no key</blocked>"), "kill SEGV".to_owned()]), 4, Some("no key")),
    ] {
        let env = world_of(&[&script(&[begins("s1"), words.clone(), ends("s1")])]);
        let output = env.run_mine(&["-n", "1"]).assert_code(code);
        let whys: Vec<_> = env.events_of("t", "blocked").iter().map(|event| event["why"].clone()).collect();
        assert_eq!(whys, why.iter().map(|why| json!(why)).collect::<Vec<_>>(), "{words}");
        if let Some(why) = why {
            assert_has(last_line(&output), &format!("stopped (blocked): the agent is blocked: {why}"));
        }
    }
}
