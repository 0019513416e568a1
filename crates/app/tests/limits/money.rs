//! What agents cost, while they run and after; and where that ends a loop.

use dacapo_testkit::{Signal, Terminal, TestEnv, live_part};
use serde_json::json;

use crate::{
    events::{MODEL, begins, done, ends, event, message, says, script},
    support::{LONG, Limits, assert_has, last_line, world, world_of},
};

/// A message of two cents after each of the files `step-1`, `step-2` and so on.
fn steps(count: u32) -> String {
    let step = |number: u32| {
        script(&[format!("wait-file step-{number}"), message(&format!("m{number}"), "On it.", 1000)])
    };
    let mut commands = vec![begins("s1")];
    commands.extend((1..=count).map(step));
    script(&commands)
}

fn take_steps(env: &TestEnv, steps: std::ops::RangeInclusive<u32>) {
    for step in steps {
        env.write(format!("step-{step}"), "");
    }
}

fn cost(env: &TestEnv) -> Option<f64> {
    env.cost("t")
}

/// Without what a few words are guessed to cost, if they were seen before the agent had ended.
fn about(cost: Option<f64>) -> Option<f64> {
    cost.map(|cost| (cost * 1000.0).round() / 1000.0)
}

#[test]
fn what_it_costs_is_known_while_it_runs_and_corrected_by_its_own_figure() {
    // req 192, fault J2, fault J3
    let result = event(&json!({
        "type": "result", "is_error": false, "session_id": "s1", "total_cost_usd": 0.07,
        "usage": {"input_tokens": 500, "output_tokens": 2000, "cache_read_input_tokens": 10_000},
    }));
    let env =
        world_of(&[&script(&[steps(2), "wait-file go".to_owned(), says("<promise>DONE</promise>"), result])]);
    let running = env.start_mine(&["-n", "1"]);
    take_steps(&env, 1..=1);
    env.wait_until("the first message is counted", LONG, || cost(&env) == Some(0.02));
    let status = env.status("t");
    assert_eq!((&status["tokens"]["output"], &status["cost_estimated"]), (&json!(1000), &json!(false)));
    assert_eq!(status["model"], MODEL, "also while the first agent works");
    take_steps(&env, 2..=2);
    env.wait_until("the second message is counted", LONG, || cost(&env) == Some(0.04));
    assert_has(&env.run(["status", "t"]).stdout, "used so far: $0.0400");
    env.write("go", "");
    let output = running.wait(LONG).assert_code(0);
    assert_has(&output.stdout, "$0.0700");
    let seen = env.events_of("t", "usage_seen");
    assert_eq!((&seen[0]["cost_usd"], &seen[0]["model"]), (&json!(0.02), &json!(MODEL)), "{seen:?}");
    let exited = &env.events_of("t", "agent_exited")[0];
    assert_eq!(exited["cost_usd"], 0.07);
    let usage = json!({"input": 500, "output": 2000, "cache_read": 10_000, "cache_write": 0, "reasoning": 0});
    assert_eq!(exited["usage"], usage);
    assert_eq!((cost(&env), env.status("t")["tokens"].clone()), (Some(0.07), usage));
}

#[test]
fn the_model_that_an_agent_names_is_recorded_and_stands_in_the_receipt() {
    let env = world_of(&[&script(&[begins("s1"), says("<promise>DONE</promise>"), done()])]);
    env.run_mine(&["-n", "1", "--gate", "true", "--allow-empty"]).assert_code(0);
    assert_eq!(env.status("t")["model"], MODEL);
    assert_eq!(env.events_of("t", "agent_exited")[0]["model"], MODEL);
    assert_has(&env.run(["receipt", "t"]).assert_code(0).stdout, &format!("mine, model {MODEL}"));
}

#[test]
fn the_live_view_names_the_model_while_the_first_agent_works() {
    let env = world_of(&[&script(&[steps(1), "wait-file go".to_owned(), done()])]);
    let running = env.start_mine(&["-n", "1", "--max-cost", "5"]);
    take_steps(&env, 1..=1);
    env.wait_until("the first message is counted", LONG, || cost(&env) == Some(0.02));
    let attach = format!("{} attach t", env!("CARGO_BIN_EXE_dacapo"));
    let mut views = Vec::new();
    for columns in [40, 80, 160] {
        let terminal = Terminal::open(&env, columns, 30, &attach);
        terminal.wait_for("p pause");
        views.push(format!("{columns} columns:\n{}", live_part(&env, &terminal.wait_for("of $5"))));
    }
    insta::assert_snapshot!(views.join("\n\n"));
    env.write("go", "");
    running.wait(LONG).assert_code(0);
}

#[test]
fn a_budget_ends_the_agent_in_the_middle_of_its_work() {
    // req 192, fault J1, fault J2, fault J4: one message too many, whatever the agent does about being stopped
    let stubborn = script(&["ignore TERM".to_owned(), steps(4), "touch over".to_owned(), ends("s1")]);
    for (limit, line) in [
        (["--max-cost", "0.05"], "cost 0.0600 of 0.0500 USD"),
        (["--max-tokens", "2500"], "3000 of 2500 tokens"),
    ] {
        let env = world_of(&[&stubborn]);
        let extra = [&limit[..], &["--kill-grace", "10m"]].concat();
        let running = env.start_mine(&extra);
        take_steps(&env, 1..=3);
        let output = running.wait(LONG).assert_code(3);
        assert_has(&output.stdout, &format!("budget reached: {line}"));
        assert_has(last_line(&output), &format!("failed (budget): {line}"));
        assert_has(&env.why("t"), line);
        assert_has(&env.why("t"), "--max-cost USD");
        assert_eq!(env.outcomes(), ["killed"]);
        assert_eq!(env.events_of("t", "budget_reached")[0]["detail"], line);
        assert_eq!(cost(&env), Some(0.06));
        assert!(!env.workspace().join("over").exists());
        assert_eq!(env.survivors(), [0_u32; 0]);
    }
}

#[test]
fn a_claim_in_the_message_that_was_too_much_is_judged() {
    // Precedence: done before a limit.
    let last = message("m1", "<promise>DONE</promise>", 9000);
    let env = world_of(&[&script(&[begins("s1"), last, "wait-file never".to_owned()])]);
    env.run_mine(&["--max-cost", "0.05"]).assert_code(0);
}

#[test]
fn what_was_spent_survives_a_kill_and_only_a_person_raises_the_limit() {
    // fault J6, req 203
    let env = world_of(&[&script(&[steps(2), "wait-file never".to_owned()]), &done()]);
    let running = env.start_mine(&["--max-cost", "0.05"]);
    take_steps(&env, 1..=2);
    env.wait_until("both are counted", LONG, || cost(&env) == Some(0.04));
    running.signal(Signal::KILL);
    running.wait(LONG);
    assert_eq!(cost(&env), Some(0.04));
    // What is set on top is judged by it.
    let output = env.run(["resume", "t", "--max-cost", "0.03"]).assert_code(3);
    assert_has(last_line(&output), "failed (budget): cost 0.0400 of 0.0300 USD");
    assert_eq!(env.starts(), 1);
    env.run(["resume", "t"]).assert_code(3);
    // A cent is left, so another message may be asked for.
    env.run(["resume", "t", "--max-cost", "0.05"]).assert_code(0);
    assert_eq!(about(cost(&env)), Some(0.04));

    let env = world_of(&[&script(&[steps(3), "wait-file never".to_owned()]), &done()]);
    let running = env.start_mine(&["--max-cost", "0.06"]);
    take_steps(&env, 1..=3);
    running.wait(LONG).assert_code(3);
    let output = env.run(["resume", "t"]).assert_code(3);
    assert_has(last_line(&output), "failed (budget): cost 0.0600 of 0.0600 USD");
    assert_eq!(env.starts(), 1, "no agent without money");
    let output = env.run(["resume", "t", "--max-cost", "0"]).assert_code(2);
    assert_has(&output.stderr, "is not an amount of US dollars");
    env.run(["resume", "t", "--max-cost", "0.50"]).assert_code(0);
    assert_eq!((env.starts(), about(cost(&env))), (2, Some(0.06)));
    assert_eq!(env.events_of("t", "loop_resumed")[1]["max_cost"], 0.5);
}

#[test]
fn a_budget_that_could_not_be_held_is_not_granted_afterwards_either() {
    let env = world_of(&[]);
    env.run_agent("exit 0", ["--task", "t", "-n", "1"]).assert_code(3);
    for flag in ["--max-cost", "--max-tokens"] {
        let output = env.run(["resume", "t", flag, "5"]).assert_code(2);
        assert_has(
            last_line(&output),
            &format!("`{flag}` cannot be held: `fake-agent` does not say what it used"),
        );
    }
}

#[test]
fn a_model_without_a_price_is_not_started_on_a_budget_of_money() {
    // fault J5
    let env = world_of(&[&done()]);
    let output = env.run_mine(&["--model", "nobody-1", "--max-cost", "5"]).assert_code(2);
    assert_has(&output.stderr, "model `nobody-1` has no price");
    assert_eq!(env.starts(), 0);
    env.run_mine(&["--model", "nobody-1", "--max-cost", "5", "--max-tokens", "1000"]).assert_code(0);
}

#[test]
fn a_model_without_a_price_that_turns_up_ends_the_loop_before_its_next_message() {
    // fault J5: the CLI chose it by itself
    let unknown = begins("s1").replace(crate::events::MODEL, "nobody-1");
    let words = message("m1", "On it.", 1000).replace(crate::events::MODEL, "nobody-1");
    let env = world_of(&[&script(&[unknown, words, "wait-file never".to_owned()])]);
    let output = env.run_mine(&["--max-cost", "5", "-n", "1"]).assert_code(3);
    assert_has(
        last_line(&output),
        "failed (budget): model `nobody-1` has no price, so `--max-cost` cannot be held",
    );
}

#[test]
fn who_reports_at_the_end_is_estimated_until_then() {
    // fault J2, fault J5
    let text = "On it. ".repeat(100);
    let work = script(&[
        event(&json!({"type": "thread.started", "thread_id": "s1"})),
        event(&json!({"type": "turn.started"})),
        event(
            &json!({"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": text}}),
        ),
        "wait-file go".to_owned(),
        event(&json!({"type": "turn.completed", "usage": {"input_tokens": 900, "output_tokens": 100}})),
    ]);
    let env = world();
    env.configure(&[("mine", "codex", "openai", &[&work])], "prices: {own: {input: 1, output: 10}}");
    let running = env.start_mine(&["--model", "own", "--max-cost", "5", "-n", "1"]);
    env.wait_for_event("t", "usage_seen");
    let status = env.status("t");
    assert_eq!(status["cost_estimated"], true);
    assert_eq!(status["tokens"]["output"], 175, "four bytes are about a token");
    assert_has(&env.run(["status", "t"]).stdout, "used so far: about $");
    env.write("go", "");
    running.wait(LONG).assert_code(3);
    let status = env.status("t");
    assert_eq!((&status["cost_estimated"], &status["cost_usd"]), (&json!(false), &json!(0.0019)));
    assert_eq!(status["tokens"]["output"], 100);
}
