//! Budgets that cannot be held are refused before anything is spent.

use serde_json::json;

use crate::{CURIOUS, assert_has, install, json, last_line, run, user, world};

#[test]
fn a_budget_that_nobody_can_hold_is_refused() {
    let env = world();
    for name in ["claude", "codex", "copilot"] {
        install(&env, name, CURIOUS);
    }
    for (args, message, hint) in [
        (
            vec!["--agent-cmd", "true", "--max-cost", "5"],
            "`--max-cost` cannot be held: `true` does not say what it used",
            "limit its time with `--max-time 8h`",
        ),
        (
            vec!["--agent-cmd", "true", "--max-tokens", "5"],
            "`--max-tokens` cannot be held: `true` does not say what it used",
            "`--max-time 8h`",
        ),
        (
            vec!["-a", "copilot", "--max-tokens", "5"],
            "`--max-tokens` cannot be held: `copilot` does not say what it used",
            "`--max-time 8h`",
        ),
        (
            vec!["-a", "claude", "--model", "no-such-model", "--max-cost", "5"],
            "`--max-cost` cannot be held: model `no-such-model` has no price",
            "`prices: {no-such-model: {input: USD, output: USD}}`",
        ),
        (
            vec!["-a", "codex", "--max-cost", "5"],
            "`--max-cost` cannot be held: `codex` does not say which model it uses",
            "name the model with `--model M`, or give `--max-tokens N`",
        ),
        (vec!["--max-cost", "0"], "is not an amount of US dollars", ""),
        (vec!["--max-cost", "-1"], "is not an amount of US dollars", ""),
        (vec!["--max-cost", "nan"], "is not an amount of US dollars", ""),
        (vec!["--max-tokens", "0"], "is not a whole number of tokens", ""),
    ] {
        let output = run(&env, ["run", "x"].iter().chain(&args)).assert_code(2);
        assert_has(&output.stderr, message);
        assert_has(&output.stderr, hint);
    }
    assert!(!env.workspace().join("args").exists());
}

#[test]
fn a_budget_that_can_be_held_is_in_force() {
    let env = world();
    install(&env, "claude", CURIOUS);
    install(&env, "codex", CURIOUS);
    let policy =
        |extra: &[&str]| json(&env, ["explain", "run", "x", "--json"].iter().chain(extra))["policy"].clone();
    let claude = policy(&["--max-cost", "2.50"]);
    assert_eq!(claude["max_cost"], json!({"value": 2.5, "from": "--max-cost"}));
    // Tokens can be counted although nobody knows what they cost.
    let codex = policy(&["-a", "codex", "--max-cost=5", "--max-tokens=1000000"]);
    assert_eq!(codex["max_tokens"], json!({"value": 1_000_000, "from": "--max-tokens"}));
    user(
        &env,
        "permissions: {allow_root: true}\nlimits: {max_cost: 20, per_day: {max_cost: 50}}\n\
         prices: {my-model: {input: 3, output: 15}}\n",
    );
    env.write(".dacapo/config.yaml", "limits: {max_cost: 5, per_project: {max_tokens: 9}}\n");
    let mine = policy(&["-a", "codex", "--model", "my-model"]);
    assert_eq!(mine["max_cost"], json!({"value": 5.0, "from": ".dacapo/config.yaml:1"}));
    assert_eq!(mine["prices"]["value"]["my-model"]["output"], 15.0);
    let told = json(&env, ["explain", "run", "x", "--json", "-a", "codex", "--model", "my-model"]);
    let file = env.home().join(".config/dacapo/config.yaml:3");
    assert_eq!((&told["price"]["price"]["output"], &told["price"]["from"]), (&json!(15.0), &json!(file)));
    assert_eq!(mine["per_day"]["value"]["max_cost"], 50.0);
    assert_eq!(mine["per_project"]["value"]["max_tokens"], 9);
}

#[test]
fn a_repository_s_budget_does_not_keep_a_plain_command_from_running() {
    let env = world();
    install(&env, "plain", CURIOUS);
    env.write(".dacapo/config.yaml", "limits: {max_cost: 5, per_day: {max_cost: 9}}\n");
    let output = run(&env, ["run", "x", "--agent-cmd", "plain"]).assert_code(0);
    assert_has(&output.stderr, "WARNING: `limits.max_cost` (.dacapo/config.yaml:1) cannot be held: `plain`");
    assert_has(&output.stderr, "WARNING: `limits.per_day` does not count this loop");
    user(&env, "limits: {max_cost: 5}\n");
    env.write(".dacapo/config.yaml", "\n");
    let output = run(&env, ["run", "x", "--agent-cmd", "plain"]).assert_code(2);
    assert_has(last_line(&output), "`limits.max_cost` (");
}

#[test]
fn a_shared_budget_of_money_needs_a_price_too() {
    let env = world();
    install(&env, "codex", CURIOUS);
    user(&env, "limits: {per_day: {max_cost: 50}}\n");
    let output = run(&env, ["run", "x"]).assert_code(2);
    assert_has(last_line(&output), "`limits.per_day.max_cost` (");
    assert_has(last_line(&output), "`codex` does not say which model it uses");
    run(&env, ["run", "x", "--max-tokens", "9"]).assert_code(0);
    // What a repository asks for beyond the user's word is told, no more.
    user(&env, "");
    env.write(".dacapo/config.yaml", "limits: {per_project: {max_cost: 9}}\n");
    let output = run(&env, ["run", "x"]).assert_code(0);
    assert_has(
        &output.stderr,
        "WARNING: `limits.per_project.max_cost` (.dacapo/config.yaml:1) cannot be held",
    );
}
