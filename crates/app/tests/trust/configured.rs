//! What configuration files change about a loop, and how `explain` tells it.

use std::fs;

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

use crate::{CONFIG, configured, run};

fn user(env: &TestEnv, config: &str) {
    let folder = env.home().join(".config/dacapo");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), config).unwrap();
}

fn explained(env: &TestEnv, extra: &[&str]) -> Value {
    let agent = env.agent_cmd();
    let args = [&["explain", "run", "do it", "--json", "--agent-cmd", &agent], extra].concat();
    serde_json::from_str(&env.run(args).assert_code(0).stdout).unwrap()
}

#[test]
fn gates_of_the_user_then_of_the_repository_then_typed() {
    let env = configured("gates: [echo repository >> order]\n");
    user(&env, "gates: [echo user >> order]\n");
    let output = run(&env, &["--gate", "echo typed >> order", "--trust"]).assert_code(0);
    assert_eq!(env.read("order"), "user\nrepository\ntyped\n", "{}", output.stderr);
    let gates = explained(&env, &["--gate", "x"])["gates"].clone();
    let told: Vec<_> =
        gates.as_array().unwrap().iter().map(|g| (g["origin"].clone(), g["from"].clone())).collect();
    let home = env.home().join(".config/dacapo/config.yaml:1");
    assert_eq!(
        told,
        [
            (json!("user"), json!(home)),
            (json!("repository"), json!(".dacapo/config.yaml:1")),
            (json!("typed"), json!("--gate")),
        ]
    );
    // The user's own gates need no consent.
    fs::remove_file(env.workspace().join(CONFIG)).unwrap();
    // A gate that changes a file it finds would spoil its own verdict.
    fs::remove_file(env.workspace().join("order")).unwrap();
    run(&env, &[]).assert_code(0);
}

#[test]
fn limits_are_the_smaller_and_explain_says_whose() {
    let env = configured("\nlimits: {max_iterations: 3, max_time: 9h}\n");
    user(&env, "limits: {max_iterations: 500, max_time: 2h}\n");
    let limits = |extra: &[&str]| {
        let policy = explained(&env, extra)["policy"].clone();
        (policy["max_iterations"].clone(), policy["max_time"].clone())
    };
    let home = env.home().join(".config/dacapo/config.yaml:1");
    assert_eq!(
        limits(&[]),
        (json!({"value": 3, "from": ".dacapo/config.yaml:2"}), json!({"value": 7_200_000, "from": home}))
    );
    assert_eq!(limits(&["-n", "9"]).0, json!({"value": 9, "from": "--max-iterations"}));
    env.run_agent("exit 1", [""; 0]).assert_code(3);
    assert_eq!(env.ledger().len(), 6, "three iterations, each with a start and an end");
}

#[test]
fn explain_shows_trust_and_asks_nobody() {
    let env = configured("gates: [touch canary]\nprotect: [tests/**]\n");
    let agent = env.agent_cmd();
    let explain =
        || env.redact(&env.run(["explain", "run", "do it", "--agent-cmd", &agent]).assert_code(0).stdout);
    let trust = |text: &str| {
        let wanted = |line: &&str| ["gate ", "trust", "protect"].iter().any(|word| line.starts_with(word));
        text.lines().filter(wanted).map(|line| line.to_owned() + "\n").collect::<String>()
    };
    insta::assert_snapshot!(trust(&explain()), @"
    gate               touch canary                                                 .dacapo/config.yaml:1
    protect            tests/**                                                     .dacapo/config.yaml:2
    trust              not trusted; `dacapo run` would ask                          [WORKSPACE]
    ");
    env.run(["trust", "--yes"]).assert_code(0);
    assert!(explain().contains("trust              trusted "), "{}", explain());
    env.write(CONFIG, "gates: [touch canarY]\n");
    assert!(explain().contains("changed since you trusted it"), "{}", explain());
    assert!(!crate::has_canary(&env));
}

#[test]
fn mistakes_are_told_with_their_places_before_anything_starts() {
    // req 201
    let env = configured("gate: x\nlimits: {max_iterations: 0}\n");
    let output = run(&env, &[]).assert_code(2);
    insta::assert_snapshot!(output.stderr, @r"
    .dacapo/config.yaml:1:1: unknown key `gate`; did you mean `gates`?
      1 | gate: x
        | ^
    .dacapo/config.yaml:2:26: `limits.max_iterations` must be a whole number, 1 or more
      2 | limits: {max_iterations: 0}
        |                          ^
    dacapo: 2 mistakes in `.dacapo/config.yaml`; nothing was started
    ");
    assert!(env.ledger().is_empty());
    fs::remove_file(env.workspace().join(CONFIG)).unwrap();
    user(&env, "limit: {}\n");
    let output = run(&env, &[]).assert_code(2);
    assert!(output.stderr.contains("dacapo/config.yaml:1:1: unknown key `limit`; did you mean `limits`?"));
}

#[test]
fn what_a_repository_protects_is_protected() {
    let env = configured("gates: ['true']\nprotect: [spec/**]\n");
    env.write("spec/a", "as agreed");
    env.script("write spec/a otherwise\nsay '<promise>DONE</promise>'");
    let agent = env.agent_cmd();
    let output = env
        .run(["run", "do it", "--agent-cmd", &agent, "--trust", "-n", "1", "--restart-delay", "0s"])
        .assert_code(3);
    assert!(output.stdout.contains("refused: the protected path `spec/a` was changed"), "{}", output.stdout);
}

#[test]
fn a_flag_that_asks_for_less_than_a_file_is_said_not_to_count() {
    for (flags, is_weaker) in [
        (&["--may-edit-tests"][..], true),
        (&["--tests", "free"], true),
        (&["--tests", "sealed"], false),
        (&[], false),
    ] {
        let env = configured("tests: {mode: sealed}\n");
        let output = run(&env, flags).assert_code(0);
        let said = "does not count: .dacapo/config.yaml:1 asks for stricter `tests`";
        assert_eq!(output.stderr.contains(said), is_weaker, "{flags:?}: {}", output.stderr);
    }
}

#[test]
fn explain_says_of_tests_that_are_only_checked_that_they_are() {
    let env = configured("gates: [sh tests/check.sh]\n");
    env.write("tests/check.sh", "test -f done\n");
    let agent = env.agent_cmd();
    for (mode, word) in [("sealed", "sealed  "), ("checked", "checked  ")] {
        let told =
            env.run(["explain", "run", "x", "--tests", mode, "--agent-cmd", &agent]).assert_code(0).stdout;
        let line = told.lines().find(|line| line.contains("tests/check.sh") && !line.starts_with("gate "));
        let lines: Vec<&str> = told.lines().filter(|line| line.starts_with(word)).collect();
        assert!(lines.iter().any(|line| line.contains(" tests/check.sh ")), "{mode}: {line:?}");
    }
}
