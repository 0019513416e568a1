//! What is said when something goes wrong, and whether what it tells to type helps.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use dacapo_testkit::Signal;
use serde_json::Value;

use crate::{
    control::{slow_unit, wait_for_file},
    world::World,
};

/// The last line on standard error that begins with `lead`.
fn line_of(text: &str, lead: &str) -> String {
    let line = text.lines().rev().find(|line| line.starts_with(lead));
    line.unwrap_or_else(|| panic!("no `{lead}` in {text}")).to_owned()
}

#[test]
fn a_claim_that_is_lost_is_explained() {
    // req 30
    let file = "specs/tasks/a/01-step.md";
    for (does, said) in [
        (
            format!("sed -i 's/^status:.*/status: done/' {file}"),
            "refused: `specs/tasks/a/01-step.md`, line 3: `done` is not a status",
        ),
        (
            format!("sed -i 's/^task: 1/task: 1\\nstatus: complete/' {file}"),
            "refused: `specs/tasks/a/01-step.md`, line 4: `status` is there twice, first in line 3",
        ),
        (
            "sed -i 's/^status:.*/status: complete/' specs/tasks/a/02-step.md".to_owned(),
            "refused: task #2 was set to `complete`, and #1 must come first",
        ),
        ("rm -r specs/tasks/a".to_owned(), "refused: `specs/tasks/a/01-step.md`: it is gone"),
        (
            "rm specs/tasks/a/IMPLEMENTATION_PLAN.md".to_owned(),
            "refused: `specs/tasks/a/IMPLEMENTATION_PLAN.md`: it is gone",
        ),
        (
            format!("mv {file} elsewhere.md && ln -s ../../../elsewhere.md {file}"),
            "refused: `specs/tasks/a/01-step.md`: a link, or behind one, and links are not followed",
        ),
    ] {
        let world = World::new();
        world.plan("a", &[]);
        world.task("a", 1, &[], "test -f done.txt", &format!("do: touch work; {does}\nclaim: no"));
        world.task("a", 2, &[1], "true", "do: true");
        world.commit();
        let output = world.run(&["-n", "1"]).assert_code(1);
        assert!(output.stdout.contains(said), "{does}: {}", output.stdout);
        let why = world.env.run(["why", "a"]).assert_code(0).stdout;
        assert!(why.contains("the last was refused: "), "{why}");
    }
}

#[test]
fn an_honest_agent_finds_what_the_one_before_has_deleted() {
    // req 36; fault A10
    for (does, is_claimed) in [
        ("rm -r specs/tasks/a", false),
        ("rm specs/tasks/a/IMPLEMENTATION_PLAN.md", true),
        ("rm specs/tasks/a/02-step.md", true),
        ("sed -i 's/^task: 2/task: 2\\ntask: 2/' specs/tasks/a/02-step.md", true),
    ] {
        let world = World::new();
        world.plan("a", &[]);
        let once = world.env.root().join("once");
        let first = format!("test -f {0} || {{ touch {0}; {does}; }}", once.display());
        // An agent whose own task is gone fails before it claims.
        let claims = if is_claimed { "" } else { "\ndo: test -f specs/tasks/a/01-step.md" };
        world.task("a", 1, &[], "test -f done.txt", &format!("do: touch done.txt\ndo: {first}{claims}"));
        world.task("a", 2, &[1], "test -f two.txt", "do: touch two.txt");
        world.commit();
        let output = world.run(&["-n", "2"]).assert_code(0);
        assert!(output.stdout.contains("refused: "), "{does}: {}", output.stdout);
        assert!(world.at("main", "two.txt").is_some(), "{does}");
        assert!(world.at("main", "specs/tasks/a/IMPLEMENTATION_PLAN.md").is_some(), "{does}");
    }
}

#[test]
fn an_agent_that_nobody_has_is_found_in_its_plan() {
    let world = World::new();
    world.unit("a", 1, &[]);
    world.env.write("specs/tasks/a/IMPLEMENTATION_PLAN.md", "---\nunit: a\nprovider: nosuch\n---\n");
    world.commit();
    let place = "specs/tasks/a/IMPLEMENTATION_PLAN.md";
    let output = world.env.run(["unit", "check"]).assert_code(0);
    let note = format!("`{place}`, line 3: no agent is called `nosuch`");
    assert!(output.stderr.contains(&note), "{}", output.stderr);
    let mut args: Vec<String> = world.args(&[]);
    let at = args.iter().position(|word| word == "--agent-cmd").unwrap();
    args.drain(at..at + 2);
    let program = world.env.root().join("bin/claude");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = world.env.run(args).assert_code(2);
    assert!(output.stderr.contains(&format!("({place}:3)")), "{}", output.stderr);
}

