//! A target that somebody else commits to while units wait to be merged into it, or while their merge is being checked.

use std::{fs, time::Duration};

use dacapo_testkit::{Running, wait_until};
use serde_json::json;

use crate::{control::wait_for_file, world::World};

const LONG: Duration = Duration::from_secs(25);

/// A repository whose first check of a merged tree waits until it is let go. Every check of one notes whether it has the
/// commit that somebody made meanwhile, and then `rule` decides.
fn world(units: &[&str], rule: &str) -> World {
    let world = World::new();
    let root = world.env.root().display().to_string();
    let mut mkfifo = world.env.command("mkfifo");
    mkfifo.arg(world.env.root().join("hold"));
    world.env.run_command(mkfifo).assert_code(0);
    let check = format!(
        "case $PWD in */.merge-*) (test -f theirs.txt && echo with || echo without) >> {root}/checks; \
         mkdir {root}/held 2>/dev/null && cat {root}/hold;; esac; {rule}"
    );
    world.config(&format!("units: {{baseline: [{{name: rule, run: {}}}]}}\n", json!(check)));
    for unit in units {
        world.unit(unit, 1, &[]);
    }
    world.commit();
    world
}

/// Starts a run into `target` and has somebody commit to that while the first merge is checked and all others wait.
fn run_with_theirs(world: &World, units: &[&str], target: &str) -> Running {
    let running = world.env.spawn(world.args(&["--target", target]));
    wait_for_file(world, "held");
    wait_until("all are finished", LONG, || {
        let events = world.run_events();
        events.iter().filter(|event| event["type"] == "unit.completed").count() == units.len()
    });
    if target == "main" {
        world.env.write("theirs.txt", "theirs\n");
        world.env.git(["add", "theirs.txt"]);
        world.env.git(["commit", "-qm", "theirs"]);
    } else {
        // In another checkout of theirs, which is gone when the target is to move.
        let theirs = world.env.root().join("theirs");
        let theirs = theirs.to_str().unwrap();
        world.env.git(["worktree", "add", "-q", theirs, target]);
        fs::write(world.env.root().join("theirs/theirs.txt"), "theirs\n").unwrap();
        world.env.git(["-C", theirs, "add", "theirs.txt"]);
        world.env.git(["-C", theirs, "commit", "-qm", "theirs"]);
        world.env.git(["worktree", "remove", theirs]);
    }
    fs::write(world.env.root().join("hold"), "").unwrap();
    running
}

fn first_parents(world: &World, target: &str) -> Vec<String> {
    world.env.git(["log", "--first-parent", "--format=%s", target]).lines().map(str::to_owned).collect()
}

#[test]
fn a_merge_is_made_and_checked_again_on_a_target_that_moved_on() {
    // req 54: alone while its merge is checked, and two of which one waits for its turn.
    for target in ["main", "release"] {
        for units in [&["a"][..], &["a", "b"]] {
            let world = world(units, "true");
            world.env.git(["branch", "release"]);
            let before = world.env.git(["rev-parse", "main"]);
            run_with_theirs(&world, units, target).wait(LONG).assert_code(0);
            let subjects = first_parents(&world, target);
            let (merges, below) = subjects.split_at(units.len());
            assert!(merges.iter().all(|subject| subject.starts_with("Merge unit ")), "{subjects:?}");
            assert_eq!(below[0], "theirs", "{target} {units:?}");
            // What was checked without it is not what was merged.
            let checks = fs::read_to_string(world.env.root().join("checks")).unwrap();
            let expected: Vec<&str> =
                std::iter::once("without").chain(units.iter().map(|_| "with")).collect();
            assert_eq!(checks.lines().collect::<Vec<_>>(), expected, "{target} {units:?}");
            assert_eq!(world.at(target, "theirs.txt").unwrap(), "theirs\n");
            for unit in units {
                assert!(world.at(target, &format!("src/{unit}-1.txt")).is_some(), "{target} {unit}");
            }
            // The checkout is that of whoever works there: moved with its branch, or left alone.
            assert_eq!(world.env.git(["status", "--porcelain"]), "", "{target} {units:?}");
            assert_eq!(world.env.git(["rev-parse", "main"]) == before, target == "release");
            assert_eq!(world.env.survivors(), Vec::<u32>::new());
        }
    }
}

#[test]
fn a_unit_that_is_red_with_what_came_meanwhile_is_sent_back() {
    // req 54, fault H11
    for target in ["main", "release"] {
        let world = world(&["a"], "! { test -f theirs.txt && test -f src/a-1.txt; } || test -f fixed");
        world.env.write("fix.sh", "touch fixed\n");
        world.commit();
        world.env.git(["branch", "release"]);
        run_with_theirs(&world, &["a"], target).wait(LONG).assert_code(0);
        let back = world.run_events().iter().filter(|event| event["type"] == "unit.sent_back").count();
        assert_eq!(back, 1, "{target}");
        assert_eq!(first_parents(&world, target)[..2], ["Merge unit a", "theirs"]);
        for commit in world.env.git(["log", "--first-parent", "--format=%H", target]).lines() {
            let is_red = world.at(commit, "theirs.txt").is_some()
                && world.at(commit, "src/a-1.txt").is_some()
                && world.at(commit, "fixed").is_none();
            assert!(!is_red, "{commit} is red");
        }
        assert_eq!(world.env.git(["status", "--porcelain"]), "", "{target}");
    }
}
