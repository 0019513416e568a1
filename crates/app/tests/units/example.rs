//! The unit that `dacapo init --unit` writes.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use crate::world::World;

/// An agent that does what the example asks for, a task at a time.
const AGENT: &str = r#"#!/bin/sh
cat >/dev/null
mkdir -p examples
if grep -q '^status: complete' specs/tasks/hello/01-greet.md; then
    task=02-guests
    for name in Ada Grace; do sh examples/hello.sh $name; done >examples/hello.txt
else
    task=01-greet
    printf 'echo "Hello, $1!"\n' >examples/hello.sh
fi
sed -i 's/^status: .*/status: complete/' specs/tasks/hello/$task.md
"#;

fn init(world: &World, args: &[&str]) -> Value {
    let output = world.env.run(["init", "--json"].iter().chain(args)).assert_code(0);
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn the_example_is_worked_off_by_the_commands_that_are_printed() {
    // req 1, 2
    let world = World::new();
    let output = world.env.run(["init", "--unit", "hello"]).assert_code(0);
    insta::assert_snapshot!(
        world.env.redact(&output.stdout).lines().filter(|line| !line.starts_with("agent")).collect::<Vec<_>>().join("\n"),
        @r#"
    Wrote [WORKSPACE]/.dacapo/config.yaml
    Wrote [WORKSPACE]/specs/tasks/hello/01-greet.md
    Wrote [WORKSPACE]/specs/tasks/hello/02-guests.md
    Wrote [WORKSPACE]/specs/tasks/hello/IMPLEMENTATION_PLAN.md
    gates    none: dacapo could not guess how the tests are run; add `gates` to that file, or type `--gate CMD`
    next     `git add .dacapo/config.yaml specs/tasks/hello && git commit -m "Add unit hello"`, then `dacapo unit run --unit hello`. It asks before it runs the commands of the tasks; `dacapo trust` agrees to them now.
    "#
    );
    let output = world.env.run(["unit", "check"]).assert_code(0);
    assert_eq!(output.stdout, "1 unit, 2 tasks: no problems\n");
    let mut commit = world.env.command("sh");
    commit
        .args(["-c", r#"git add .dacapo/config.yaml specs/tasks/hello && git commit -qm "Add unit hello""#])
        .current_dir(world.env.workspace());
    assert!(commit.status().unwrap().success());
    assert_eq!(world.env.git(["status", "--porcelain"]), "");
    let agent = world.env.root().join("agent");
    fs::write(&agent, AGENT).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.display().to_string();
    let args = ["unit", "run", "--unit", "hello", "--trust", "--restart-delay", "0s", "--agent-cmd", &agent];
    world.env.run(args).assert_code(0);
    assert_eq!(world.at("main", "examples/hello.txt").unwrap(), "Hello, Ada!\nHello, Grace!\n");
    // Neither proof was true from the beginning.
    let started = world.run_events().into_iter().filter(|event| event["type"] == "task.completed").count();
    assert_eq!(started, 2);
}

#[test]
fn what_is_there_is_left_alone() {
    let world = World::new();
    world.config("units: {dir: work}\n");
    let first = init(&world, &["--unit", "hello"]);
    assert_eq!(first["kept"], json!([".dacapo/config.yaml"]));
    assert_eq!(
        first["written"],
        json!(["work/hello/01-greet.md", "work/hello/02-guests.md", "work/hello/IMPLEMENTATION_PLAN.md"])
    );
    assert_eq!(
        first["next"],
        json!(["git add work/hello && git commit -m \"Add unit hello\"", "dacapo unit run --unit hello"])
    );
    world.env.write("work/hello/01-greet.md", "mine");
    let again = init(&world, &["--unit", "hello"]);
    assert_eq!(
        (&again["written"], &again["kept"]),
        (&json!([]), &json!([".dacapo/config.yaml", "work/hello"]))
    );
    assert_eq!(again["next"], json!(["dacapo unit run --unit hello"]));
    assert_eq!(world.env.read("work/hello/01-greet.md"), "mine");
    // A plan may give its unit another name than its folder's.
    world.env.write("work/shop/IMPLEMENTATION_PLAN.md", "---\nunit: mail\n---\n# Shop\n");
    world.env.write("work/shop/01-a.md", "---\ntask: 1\nbackpressure: \"false\"\n---\n# A\n");
    let output = world.env.run(["init", "--unit", "mail"]).assert_code(2);
    assert!(output.stderr.contains("there is a unit `mail` already, with the task `work/shop/01-a.md`"));
    assert!(!world.env.workspace().join("work/mail").exists());
    let output = world.env.run(["init", "--unit", "../x"]).assert_code(2);
    assert!(output.stderr.contains("is not a valid unit id"), "{}", output.stderr);
}

#[test]
fn it_lies_at_the_top_of_the_repository_and_the_commands_say_how_to_get_there() {
    let world = World::new();
    fs::create_dir(world.env.workspace().join("deep")).unwrap();
    let told = |folder: &str| -> Value {
        let mut dacapo = world.env.dacapo(["init", "--unit", "hello", "--json"]);
        dacapo.current_dir(folder);
        serde_json::from_str(&world.env.run_command(dacapo).assert_code(0).stdout).unwrap()
    };
    let deep = told(world.env.workspace().join("deep").to_str().unwrap());
    assert_eq!(
        deep["next"][0],
        "git add :/.dacapo/config.yaml :/specs/tasks/hello && git commit -m \"Add unit hello\""
    );
    assert!(world.env.workspace().join("specs/tasks/hello/01-greet.md").exists());
    let plain = world.env.root().join("plain");
    fs::create_dir(&plain).unwrap();
    assert_eq!(told(plain.to_str().unwrap())["next"][0], "git init");
}
