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

