//! What becomes of finished units: merged on a green tree, sent back, left alone, or a pull request.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use crate::world::{World, types_of};

#[test]
fn a_red_merge_sends_the_unit_back_and_the_target_never_sees_it() {
    // req 54; fault H11: each is green alone, both together are not.
    let world = World::new();
    world.config(
        "units: {baseline: [{name: count, run: 'test $(ls parts | wc -l) -le 1 || test -f merged'}]}\n",
    );
    world.env.write("parts/.keep", "");
    world.env.write("fix.sh", "touch merged\n");
    world.plan("a", &[]).task("a", 1, &[], "test -f parts/a", "do: touch parts/a");
    world.plan("b", &[]).task("b", 1, &[], "test -f parts/b", "do: touch parts/b");
    world.commit();
    world.run(&[]).assert_code(0);
    let events = world.run_events();
    let back: Vec<_> = events.iter().filter(|event| event["type"] == "unit.sent_back").collect();
    assert_eq!(back.len(), 1);
    assert!(back[0]["detail"].as_str().unwrap().contains("count"), "{}", back[0]);
    for commit in world.env.git(["log", "-g", "--format=%H", "main"]).lines() {
        let parts = ["parts/a", "parts/b"].iter().filter(|part| world.at(commit, part).is_some()).count();
        assert!(parts <= 1 || world.at(commit, "merged").is_some(), "{commit} is red");
    }
    assert!(world.at("main", "parts/a").is_some() && world.at("main", "parts/b").is_some());
}

#[test]
fn a_conflict_nobody_resolves_leaves_both_branches_as_they_were() {
    // req 54
    let world = World::new();
    world.env.write("shared.txt", "first\n");
    for unit in ["a", "b"] {
        world.plan(unit, &[]).task(unit, 1, &[], "true", &format!("do: echo {unit} > shared.txt"));
    }
    world.config("gates: [{name: one line, run: 'test $(wc -l < shared.txt) = 1'}]\n");
    world.commit();
    let output = world.run(&["--parallel", "1"]).assert_code(1);
    assert!(output.stderr.contains("conflict"), "{}", output.stderr);
    let events = world.run_events();
    let failed = events.iter().find(|event| event["type"] == "unit.failed").unwrap();
    assert_eq!((&failed["unit"], &failed["reason"]), (&json!("b"), &json!("merge")));
    assert!(types_of(&events, "b").contains(&"pr.conflict"));
    assert_eq!(world.at("main", "shared.txt").unwrap(), "a\n");
    let branch = world.env.git(["branch", "--list", "dacapo/b-*", "--format=%(refname:short)"]);
    assert_eq!(world.at(branch.trim(), "shared.txt").unwrap(), "b\n");
    assert_eq!(world.env.git(["status", "--porcelain"]), "");
}

#[test]
fn without_merging_branches_stay_and_units_build_on_each_other() {
    // req 54
    let world = World::new();
    world.unit("a", 1, &[]).unit("b", 1, &["a"]).commit();
    world.run(&["--no-merge"]).assert_code(0);
    assert!(world.at("main", "src/a-1.txt").is_none());
    let branch = |unit: &str| {
        let pattern = format!("dacapo/{unit}-*");
        world.env.git(["branch", "--list", &pattern, "--format=%(refname:short)"]).trim().to_owned()
    };
    assert!(world.at(&branch("a"), "src/a-1.txt").is_some());
    assert!(
        world.at(&branch("b"), "src/a-1.txt").is_some() && world.at(&branch("b"), "src/b-1.txt").is_some()
    );
    // Merged later, without working again.
    world.run(&[]).assert_code(0);
    assert!(world.at("main", "src/b-1.txt").is_some());
    let agents = world.env.events(None).iter().filter(|event| event["type"] == "agent_started").count();
    assert_eq!(agents, 2);
}

#[test]
fn a_pull_request_holds_the_receipts_and_without_gh_the_branch_is_pushed() {
    // req 54
    let world = World::new();
    let remote = world.env.root().join("remote.git");
    world.env.git(["init", "-q", "--bare", remote.to_str().unwrap()]);
    world.env.git(["remote", "add", "origin", remote.to_str().unwrap()]);
    world.unit("a", 2, &[]).commit();
    let output = world.run(&["--pr"]).assert_code(0);
    assert!(output.stdout.contains("no `gh` on PATH"), "{}", output.stdout);
    let pushed = world.env.git(["ls-remote", "--heads", "origin", "dacapo/a-*"]);
    assert_eq!(pushed.lines().count(), 1);
    let gh = world.env.root().join("bin/gh");
    let said = world.env.root().join("gh.txt");
    let script = format!(
        "#!/bin/sh\n{{ printf '%s\\n' \"$@\"; cat; }} > '{}'\necho https://example.invalid/pull/7\n",
        said.display()
    );
    fs::write(&gh, script).unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    world.run(&["--pr"]).assert_code(0);
    let events = world.run_events();
    let created = events.iter().find(|event| event["type"] == "pr.created").unwrap();
    assert_eq!(created["url"], "https://example.invalid/pull/7");
    let said = fs::read_to_string(said).unwrap();
    for part in ["pr\ncreate\n", "--base\nmain\n", "#1 Step 1", "#2 Step 2", "verified", "receipt `"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(world.at("main", "src/a-1.txt").is_none());
}

#[test]
fn a_branch_is_pushed_to_where_the_remote_led_when_the_run_began_or_not_at_all() {
    // fault K3
    for turning in ["remote set-url origin EVIL", "config url.EVIL.insteadOf GOOD"] {
        let world = World::new();
        // In a sandbox it would be its own configuration that the agent changes.
        world.env.without_sandbox();
        let bare = |name: &str| {
            let path = world.env.root().join(name).display().to_string();
            world.env.git(["init", "-q", "--bare", &path]);
            path
        };
        let (good, evil) = (bare("good.git"), bare("evil.git"));
        world.env.git(["remote", "add", "origin", &good]);
        let turning = turning.replace("EVIL", &evil).replace("GOOD", &good);
        let body = format!("do: touch done && git {turning}");
        world.plan("a", &[]).task("a", 1, &[], "test -f done", &body).commit();
        let output = world.run(&["--pr"]).assert_code(1);
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(said.contains("was not pushed: an agent or a person changed where"), "{turning}: {said}");
        for remote in [&good, &evil] {
            assert_eq!(world.env.git(["-C", remote, "for-each-ref"]), "", "{turning}");
        }
        assert!(!world.env.git(["branch", "--list", "dacapo/a-*"]).is_empty(), "{turning}");
    }
}

#[test]
fn what_nobody_proved_is_not_pushed() {
    // req 54: somebody commits to the second branch while the first is published.
    let world = World::new();
    let remote = world.env.root().join("remote.git").display().to_string();
    world.env.git(["init", "-q", "--bare", &remote]);
    world.env.git(["remote", "add", "origin", &remote]);
    world.unit("a", 1, &[]).unit("b", 1, &[]).commit();
    let gh = world.env.root().join("bin/gh");
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\ntries=0\n\
         until [ \"$({} events --json | grep -c '\"unit.completed\"')\" = 2 ] || [ $tries = 300 ]; do\n\
         tries=$((tries + 1)); sleep 0.1; done\n\
         for tree in \"$DACAPO_HOME\"/worktrees/*/*; do git -C \"$tree\" commit -q --allow-empty -m mine; done\n\
         echo https://example.invalid/pull/7\n",
        env!("CARGO_BIN_EXE_dacapo")
    );
    fs::write(&gh, script).unwrap();
    fs::set_permissions(&gh, fs::Permissions::from_mode(0o755)).unwrap();
    let output = world.run(&["--pr"]).assert_code(1);
    assert!(output.stdout.contains("holds commits after the last that was proven"), "{}", output.stdout);
    assert_eq!(world.env.git(["ls-remote", "--heads", "origin"]).lines().count(), 1);
}

#[test]
fn a_dirty_checkout_is_refused_and_forced_it_is_left_alone() {
    // req 58; the result waits on a branch.
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    world.env.write("mine.txt", "not yours\n");
    let output = world.run(&[]).assert_code(5);
    assert!(output.stderr.contains("mine.txt") && output.stderr.contains("--force"), "{}", output.stderr);
    assert_eq!(world.run_events().len(), 0);
    world.env.write("shared", "mine\n");
    world.run(&["--force"]).assert_code(0);
    assert_eq!(
        (world.env.read("mine.txt"), world.env.read("shared")),
        ("not yours\n".into(), "mine\n".into())
    );
    // Untracked files that the merge does not touch are no obstacle; a changed file is.
    assert!(world.at("main", "src/a-1.txt").is_some());
}

#[test]
fn a_target_that_cannot_be_moved_keeps_the_result_on_a_branch() {
    let world = World::new();
    world.unit("a", 1, &[]).unit("b", 1, &["a"]).commit();
    world.env.write("specs/tasks/a/01-step.md", "I am writing here\n");
    let output = world.env.run(["unit", "run", "--force"]);
    assert_ne!(output.code, Some(0));
    world.env.git(["checkout", "-q", "--", "."]);
    world.env.write("README.md", "tracked\n");
    world.env.git(["add", "-A"]);
    world.env.git(["commit", "-qm", "readme"]);
    world.env.write("README.md", "my own words\n");
    let output = world.run(&["--force"]).assert_code(0);
    let end = output.stdout.split_once("\ncompleted: ").expect("an end").1;
    assert!(!end.contains("merged into main"), "{end}");
    assert!(end.contains("waits on dacapo/merged-"), "{end}");
    assert!(end.contains("  next     `git merge --ff-only dacapo/merged-"), "{end}");
    assert_eq!(world.env.read("README.md"), "my own words\n");
    let events = world.run_events();
    let merged: Vec<_> = events.iter().filter(|event| event["type"] == "unit.merged").collect();
    assert_eq!(merged.len(), 2);
    let waiting = world.env.git(["branch", "--list", "dacapo/merged-*", "--format=%(refname:short)"]);
    assert!(world.at("main", "src/a-1.txt").is_none());
    assert!(
        world.at(waiting.trim(), "src/a-1.txt").is_some()
            && world.at(waiting.trim(), "src/b-1.txt").is_some()
    );
    let output = world.run(&["--force"]).assert_code(5);
    assert!(output.stderr.contains("git merge --ff-only"), "{}", output.stderr);
}

#[test]
fn worktrees_are_set_up_and_torn_down_if_there_is_reason_to() {
    // req 51
    let world = World::new();
    let seen = world.env.root().join("seen.txt");
    let seen = seen.display();
    world.config(&format!(
        "worktree:\n  setup:\n    - {{run: 'echo up >> {seen}'}}\n    - {{run: 'echo npm >> {seen}', if: package.json}}\n  teardown:\n    - {{run: 'echo down >> {seen}'}}\n"
    ));
    world.unit("a", 1, &[]).commit();
    world.run(&[]).assert_code(0);
    let seen = fs::read_to_string(world.env.root().join("seen.txt")).unwrap();
    assert_eq!(seen, "up\nup\ndown\n", "the worktree, the merged tree, the end");
}

#[test]
fn a_setup_that_fails_fails_the_unit_with_what_it_said() {
    let world = World::new();
    world.config("worktree: {setup: [{run: 'echo no such package >&2; exit 7'}]}\n");
    world.unit("a", 1, &[]).commit();
    let output = world.run(&[]).assert_code(1);
    assert!(output.stderr.contains("no such package"), "{}", output.stderr);
    let events = world.run_events();
    assert_eq!(events.iter().find(|event| event["type"] == "unit.failed").unwrap()["reason"], "setup");
}

#[test]
fn the_files_of_the_merged_tree_decide_which_checks_concern_it() {
    // req 52, req 54: what the target has gained or lost since the unit began counts there, and not in its worktree.
    type Change = fn(&World);
    let cases: &[(&str, Change, [bool; 2])] = &[
        ("one.txt", |_| {}, [false, false]),
        ("one.rs", |_| {}, [true, true]),
        (
            "one.txt",
            |world| {
                world.env.write("src/lib.rs", "");
                world.commit();
            },
            [false, true],
        ),
        (
            "old.rs",
            |world| {
                world.env.git(["rm", "-q", "old.rs"]);
                world.commit();
            },
            [true, false],
        ),
    ];
    for (file, change, expected) in cases {
        let world = World::new();
        let root = world.env.root().display().to_string();
        let run = format!("case $PWD in */.merge-*) touch {root}/merged;; *) touch {root}/alone;; esac");
        world.config(&format!(
            "units: {{baseline: [{{name: rust, run: {}, pattern: '**/*.rs'}}]}}\n",
            json!(run)
        ));
        if *file == "old.rs" {
            world.env.write(file, "");
        }
        world.plan("a", &[]).task("a", 1, &[], "test -f done", &format!("do: touch done {file}")).commit();
        world.run(&["--no-merge"]).assert_code(0);
        change(&world);
        world.run(&[]).assert_code(0);
        assert!(world.at("main", "done").is_some(), "{file}");
        let ran = ["alone", "merged"].map(|name| world.env.root().join(name).exists());
        assert_eq!(ran, *expected, "{file}");
    }
}
