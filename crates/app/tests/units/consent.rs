//! Consent to the commands of task files: kept apart from that to the configuration.

use serde_json::Value;

use crate::{env, plan, task};

#[test]
fn commands_of_task_files_are_shown_and_agreed_to() {
    // fault K1, fault K2
    let env = env();
    plan(&env, "u", "");
    task(&env, "u", 1, "status: pending\nbackpressure: make one");
    plan(&env, "v", "");
    task(&env, "v", 1, "backpressure: make other");
    env.write(
        ".dacapo/config.yaml",
        "gates: [make gate]\nunits: {baseline: [{name: lint, run: make lint}]}\n",
    );
    let output = env.run(["trust"]).assert_code(4);
    insta::assert_snapshot!(env.redact(&output.stdout), @r"
    [WORKSPACE] can make dacapo run:
      gate: make gate  (.dacapo/config.yaml:1)
      baseline lint: make lint  (.dacapo/config.yaml:2)
    The task files of [WORKSPACE] can make dacapo run:
      backpressure u #1: make one  (specs/tasks/u/01-task.md:4)
      backpressure v #1: make other  (specs/tasks/v/01-task.md:3)
    ");
    env.run(["trust", "--yes"]).assert_code(0);
    let output = env.run(["trust", "--show"]).assert_code(0);
    assert!(output.stdout.contains("Trusted since "), "{}", output.stdout);
    // A status, a title and a sentence are none of consent's business.
    task(&env, "u", 1, "# words\nstatus: complete\nbackpressure: make one");
    assert!(env.run(["trust", "--show"]).assert_code(0).stdout.contains("Trusted since "));
    // A byte of a command is, and says nothing about the configuration.
    task(&env, "u", 1, "status: complete\nbackpressure: make onE");
    let output = env.run(["trust"]).assert_code(4);
    insta::assert_snapshot!(env.redact(&output.stdout), @r"
    You have trusted [WORKSPACE]. It can make dacapo run:
      gate: make gate  (.dacapo/config.yaml:1)
      baseline lint: make lint  (.dacapo/config.yaml:2)
    The task files of [WORKSPACE] hold commands that you have not trusted:
      - backpressure u #1: make one  (specs/tasks/u/01-task.md:4)
      + backpressure u #1: make onE  (specs/tasks/u/01-task.md:4)
    ");
    let shown: Value =
        serde_json::from_str(&env.run(["trust", "--show", "--json"]).assert_code(0).stdout).unwrap();
    assert_eq!((&shown["state"], &shown["units"]["state"]), (&"trusted".into(), &"changed".into()));
    assert_eq!(shown["units"]["commands"][0]["name"], "u #1");
    env.run(["trust", "--yes"]).assert_code(0);
    assert!(env.run(["trust", "--show"]).assert_code(0).stdout.contains("Trusted since "));
    assert_eq!(env.run(["trust", "--revoke"]).assert_code(0).stdout, "Consent is withdrawn.\n");
    assert!(env.run(["trust", "--show"]).assert_code(0).stdout.contains("Not trusted"));
}

#[test]
fn a_plain_loop_does_not_ask_about_tasks() {
    // fault K1
    let env = env();
    plan(&env, "u", "");
    task(&env, "u", 1, "backpressure: touch canary");
    env.write(".dacapo/config.yaml", "gates: ['true']\n");
    env.git(["add", "-A"]);
    env.git(["commit", "-qm", "tasks"]);
    env.run(["trust", "--yes"]).assert_code(0);
    task(&env, "u", 1, "backpressure: touch canary2");
    env.run_agent("append work more\nsay '<promise>DONE</promise>'", ["-n", "1"]).assert_code(0);
    assert!(!env.workspace().join("canary").exists());
}

#[test]
fn broken_task_files_do_not_stand_in_the_way() {
    let env = env();
    plan(&env, "u", "");
    env.write("specs/tasks/u/01-x.md", "---\n");
    env.write(".dacapo/config.yaml", "gates: ['true']\n");
    let output = env.run(["trust", "--yes"]).assert_code(0);
    assert!(output.stderr.contains("`dacapo unit check` says why"), "{}", output.stderr);
}

#[test]
fn whoever_stands_in_the_repository_need_not_name_it() {
    let env = env();
    plan(&env, "u", "");
    task(&env, "u", 1, "backpressure: make one");
    env.write("deep/x", "");
    for (folder, command) in [
        (env.workspace(), "dacapo trust".to_owned()),
        (env.workspace().join("deep"), "dacapo trust".to_owned()),
        (env.root().to_owned(), format!("dacapo trust --dir {}", env.workspace().display())),
    ] {
        let mut dacapo = env.dacapo(["unit", "run", "--agent-cmd", "true", "--dir"]);
        dacapo.arg(env.workspace()).current_dir(&folder);
        let output = env.run_command(dacapo).assert_code(4);
        assert!(output.stderr.contains(&format!("\nhint: `{command}` shows and asks")), "{}", output.stderr);
    }
}
