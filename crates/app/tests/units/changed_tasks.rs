//! Tasks that somebody changed in the target after their unit's worktree was made.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::world::World;

const FILE: &str = "specs/tasks/a/02-step.md";

/// A unit whose first task is done and whose second nobody can do as it is written; `half` is what its agent leaves.
fn world(half: &str) -> World {
    let world = World::new();
    world.env.write("tracked.txt", "theirs\n");
    world.unit("a", 1, &[]).task("a", 2, &[1], "test -f right.txt", &format!("do: {half}"));
    world.commit();
    world.run(&["-n", "1"]).assert_code(1);
    assert!(fs::read_to_string(worktree(&world).join(FILE)).unwrap().contains("\nstatus: failed\n"));
    world
}

fn worktree(world: &World) -> PathBuf {
    let events = world.run_events();
    let created = events.iter().find(|event| event["type"] == "worktree.created").unwrap();
    created["path"].as_str().unwrap().into()
}

/// Somebody sees what was wrong, and commits it to the target.
fn change(world: &World, from: &str, to: &str) {
    let text = world.env.read(FILE);
    assert!(text.contains(from), "{text}");
    world.env.write(FILE, text.replace(from, to));
    world.commit();
}

fn warnings(world: &World) -> Vec<Value> {
    let of_unit = |event: &Value| event["type"] == "unit.warned" && event["unit"] == "a";
    world.run_events().into_iter().filter(of_unit).collect()
}

#[test]
fn a_changed_task_comes_into_a_worktree_that_holds_nothing_else() {
    // Marked `failed`, and with files that nobody tracks: neither is anybody's work on a task.
    for half in ["touch wrong.txt", "true"] {
        let world = world(half);
        change(&world, &format!("do: {half}"), "do: touch right.txt");
        // Nobody said that it shall be tried again: it is as failed as it was.
        world.run(&["-n", "1"]).assert_code(1);
        let text = fs::read_to_string(worktree(&world).join(FILE)).unwrap();
        assert!(text.contains("do: touch right.txt") && text.contains("\nstatus: failed\n"), "{text}");
        world.run(&["-n", "1", "--retry-failed"]).assert_code(0);
        assert_eq!(warnings(&world), Vec::<Value>::new(), "{half}");
        assert!(world.at("main", "right.txt").is_some(), "{half}");
        assert!(world.at("main", FILE).unwrap().contains("do: touch right.txt"), "{half}");
        for number in 1..=2 {
            let subject = format!("feat(a): complete task #{number} - Step {number}");
            assert_eq!(world.subjects()[&subject], 1, "{half}: {subject}");
        }
    }
}

#[test]
fn a_changed_command_comes_into_it_as_well() {
    let world = world("touch wrong.txt");
    change(&world, "test -f right.txt", "test -f wrong.txt");
    world.run(&["-n", "1", "--retry-failed"]).assert_code(0);
    assert!(world.at("main", "wrong.txt").is_some());
    assert!(world.at("main", FILE).unwrap().contains("test -f wrong.txt"));
}

#[test]
fn a_worktree_with_work_in_it_keeps_its_bytes_and_says_so() {
    let world = world("echo half > tracked.txt");
    change(&world, "do: echo half > tracked.txt", "do: touch right.txt");
    world.run(&["-n", "1", "--retry-failed"]).assert_code(1);
    let told = warnings(&world);
    assert_eq!(told.len(), 1, "{told:#?}");
    let text = told[0]["text"].as_str().unwrap();
    let folder = worktree(&world);
    assert!(text.contains("task files have changed in `main`"), "{text}");
    assert!(text.contains(folder.to_str().unwrap()), "{text}");
    let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
    assert_eq!(read("tracked.txt"), "half\n");
    assert!(read(FILE).contains("do: echo half > tracked.txt"), "{}", read(FILE));
    // A command that nobody agreed to is not run in it, and nothing is lost either.
    change(&world, "test -f right.txt", "test -f right.txt && true");
    let output = world.run(&["-n", "1", "--retry-failed"]).assert_code(1);
    assert!(output.stderr.contains("is not what you agreed to"), "{}", output.stderr);
    assert_eq!(read("tracked.txt"), "half\n");
    // As the warning says: what is in it is committed or stashed, and the target merged.
    let path = folder.to_str().unwrap();
    world.env.git(["-C", path, "checkout", "-q", "--", "."]);
    world.run(&["-n", "1", "--retry-failed"]).assert_code(0);
    assert!(world.at("main", "right.txt").is_some());
}
