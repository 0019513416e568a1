//! `dacapo init`.

use std::fs;

use serde_json::json;

use crate::{CURIOUS, assert_has, install, json, run, world};

#[test]
fn a_first_configuration_is_written_and_works() {
    let env = world();
    install(&env, "codex", CURIOUS);
    env.write("Makefile", "test:\n\ttrue\n").git_init();
    let output = run(&env, ["init"]).assert_code(0);
    assert_has(&output.stdout, &format!("Wrote {}/.dacapo/config.yaml", env.workspace().display()));
    // The example workflow runs the same tests, and is a workflow as it is.
    let example = ".dacapo/workflows/fix-tests.yaml";
    assert_has(&output.stdout, &format!("Wrote {}/{example}", env.workspace().display()));
    assert_has(&env.read(example), "until_bash: \"make test\"");
    assert_has(&run(&env, ["workflow", "check", "fix-tests"]).assert_code(0).stdout, "no problems");
    assert_has(&output.stdout, "agent    codex 9.9.9 (Test)");
    assert_has(&output.stdout, "gate     make test (guessed from Makefile)");
    assert_has(&output.stdout, "`dacapo trust`");
    let policy = json(&env, ["explain", "run", "x", "--json"])["policy"].clone();
    assert_eq!(policy["gates"]["value"][0]["run"], "make test");
    assert_eq!(policy["max_iterations"], json!({"value": 30, "from": ".dacapo/config.yaml:9"}));
    // The gate needs consent, like that of any repository.
    run(&env, ["run", "x"]).assert_code(4);
    assert!(!env.workspace().join("args").exists());
}

#[test]
fn what_is_there_is_told_and_left_alone() {
    let env = world();
    let mine = "gates: [./check.sh]\n";
    env.write(".dacapo/config.yaml", mine).write("go.mod", "module x").write("deep/x", "");
    let output = run(&env, ["init"]).assert_code(0);
    assert_has(&output.stdout, "is there already; it was left as it is");
    assert_has(&output.stdout, "gate     ./check.sh");
    assert_has(&output.stdout, "tests    go test ./... (guessed from go.mod) is no gate there");
    assert_has(
        &output.stdout,
        "agents   none is installed: `npm install -g @anthropic-ai/claude-code` installs one",
    );
    let told = json(&env, ["init", "--json"]);
    assert_eq!((&told["written"], &told["kept"]), (&json!([]), &json!([".dacapo/config.yaml"])));
    assert_eq!(told["tests"], json!([{"run": "go test ./...", "from": "go.mod"}]));
    assert_eq!(env.read(".dacapo/config.yaml"), mine);
    // A mistake in it is told at once.
    env.write(".dacapo/config.yaml", "gate: x\n");
    let output = run(&env, ["init"]).assert_code(2);
    assert_has(&output.stderr, "unknown key `gate`; did you mean `gates`?");
}

#[test]
fn where_nothing_can_be_guessed_no_gate_is_made_up() {
    let env = world();
    let told = json(&env, ["init", "--json"]);
    let written = json!([".dacapo/config.yaml", ".dacapo/workflows/fix-tests.yaml"]);
    assert_eq!((&told["written"], &told["gates"]), (&written, &json!([])));
    assert_has(&env.read(".dacapo/config.yaml"), "# gates:");
    assert_eq!(fs::read_dir(env.workspace().join(".dacapo")).unwrap().count(), 2);
}

#[test]
fn tests_that_no_convention_knows_are_proposed() {
    let env = world();
    env.write(
        "checks/login.py",
        "import unittest\n\nclass Login(unittest.TestCase):\n    def test_it(self): pass\n",
    )
    .write("app.py", "x = 1\n")
    .git_init();
    let output = run(&env, ["init"]).assert_code(0);
    assert_has(
        &output.stdout,
        "tests    also `checks/**`, although no name says so; `tests.paths` lists them",
    );
    assert_has(&env.read(".dacapo/config.yaml"), "tests:\n  paths: ['checks/**']\n");
}
