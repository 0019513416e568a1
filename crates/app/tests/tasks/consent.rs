//! What tasks and stages of a repository could run is shown by `trust`, agreed to and withdrawn.

use dacapo_testkit::TestEnv;
use serde_json::{Value, json};

fn task(command: &str) -> String {
    format!(
        "---\nid: LOGIN\ntitle: Add a login page\nstatus: todo\ncompletion:\n  stages:\n    coder:\n      verify: {{method: external, command: {command}, \
         working_dir: web}}\n---\nx\n"
    )
}

fn env() -> TestEnv {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_dacapo"));
    env.git_init();
    env.write(".dacapo/config.yaml", "stages:\n  tester: {gates: [{name: all, run: make test}]}\n");
    env.write(".dacapo/tasks/login.md", task("make login"));
    env
}

fn shown(env: &TestEnv) -> Value {
    serde_json::from_str(&env.run(["trust", "--show", "--json"]).assert_code(0).stdout).unwrap()
}

#[test]
fn commands_of_tasks_and_gates_of_stages_are_agreed_to_and_asked_about_again() {
    // fault K1, fault K2
    let env = env();
    insta::assert_snapshot!(env.redact(&env.run(["trust", "--show"]).assert_code(0).stdout), @r"
    [WORKSPACE] can make dacapo run:
      tester gate all: make test  (.dacapo/config.yaml:2)
    The tasks of [WORKSPACE] can make dacapo run:
      verify LOGIN coder in web: make login  (.dacapo/tasks/login.md:8, at most [DURATION])
    Not trusted: none of it runs. `dacapo trust` agrees to it.
    ");
    env.run(["trust"]).assert_code(4);
    assert_eq!(shown(&env)["tasks"]["state"], "untrusted");
    env.run(["trust", "--yes"]).assert_code(0);
    let all = shown(&env);
    assert_eq!((&all["state"], &all["tasks"]["state"]), (&json!("trusted"), &json!("trusted")));
    assert_eq!(all["tasks"]["commands"][0]["line"], 8);
    // Its status, its title and its text are none of consent's business; neither is another task without a command.
    env.write(
        ".dacapo/tasks/login.md",
        task("make login").replace("todo", "reviewing").replace("Add", "Build").replace("\nx", "\ny"),
    );
    env.run(["task", "add", "--title", "T"]).assert_code(0);
    assert_eq!(shown(&env)["tasks"]["state"], "trusted");
    // One byte of the command is, and where it runs.
    env.write(".dacapo/tasks/login.md", task("make logiN"));
    assert_eq!(shown(&env)["tasks"]["state"], "changed");
    insta::assert_snapshot!(env.redact(&env.run(["trust", "--show"]).assert_code(0).stdout), @r"
    You have trusted [WORKSPACE]. It can make dacapo run:
      tester gate all: make test  (.dacapo/config.yaml:2)
    The tasks of [WORKSPACE] hold commands that you have not trusted:
      - verify LOGIN coder in web: make login  (.dacapo/tasks/login.md:8, at most [DURATION])
      + verify LOGIN coder in web: make logiN  (.dacapo/tasks/login.md:8, at most [DURATION])
    Not trusted: none of it runs. `dacapo trust` agrees to it.
    ");
    env.write(".dacapo/tasks/login.md", task("make login").replace("web", "app"));
    assert_eq!(shown(&env)["tasks"]["state"], "changed");
    env.write(".dacapo/tasks/login.md", task("make login"));
    assert_eq!(shown(&env)["tasks"]["state"], "trusted");
    assert_eq!(env.run(["trust", "--revoke"]).assert_code(0).stdout, "Consent is withdrawn.\n");
    let all = shown(&env);
    assert_eq!((&all["state"], &all["tasks"]["state"]), (&json!("untrusted"), &json!("untrusted")));
}

#[test]
fn a_gate_of_a_stage_is_a_command_of_the_configuration() {
    // fault K1
    let env = env();
    let refused = env.run_agent("promise", ["--max-iterations", "1"]).assert_code(4);
    insta::assert_snapshot!(env.redact(&refused.stderr), @r"
    [WORKSPACE] can make dacapo run:
      tester gate all: make test  (.dacapo/config.yaml:2)
    dacapo: untrusted: this repository defines commands, and you have not trusted it
    hint: `dacapo trust` shows and asks; `--trust` agrees for this run only
    ");
    assert!(env.ledger().is_empty());
}

#[test]
fn a_task_that_cannot_be_read_does_not_keep_the_user_from_agreeing_to_the_rest() {
    let env = env();
    env.write(".dacapo/tasks/torn.md", "torn");
    let output = env.run(["trust", "--yes"]).assert_code(0);
    assert!(
        output.stderr.contains("not all tasks can be read; `dacapo task check` says why"),
        "{}",
        output.stderr
    );
    assert_eq!(shown(&env)["tasks"]["state"], "trusted");
}
