//! What somebody who was killed leaves behind, and who removes it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use dacapo_testkit::{Signal, wait_until};
use serde_json::{Value, json};

use crate::{
    control::{go, slow_unit, wait_for_file},
    world::World,
};

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Makes every `git` whose arguments hold `words` do `script` instead; `"$git" "$@"` is what it would have done.
pub(crate) fn wrap_git(world: &World, words: &str, script: &str) {
    let path = std::env::var_os("PATH").unwrap();
    let git: PathBuf =
        std::env::split_paths(&path).map(|folder| folder.join("git")).find(|file| file.is_file()).unwrap();
    let text = format!(
        "#!/bin/sh\ngit='{}'\nroot='{}'\ncase \" $* \" in *'{words}'*) {script};; esac\nexec \"$git\" \"$@\"\n",
        git.display(),
        world.env.root().display()
    );
    let wrapper = world.env.root().join("bin/git");
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(wrapper, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn unwrap_git(world: &World) {
    fs::remove_file(world.env.root().join("bin/git")).unwrap();
}

fn branches(world: &World) -> String {
    world.env.git(["branch", "--list", "dacapo/*", "--format=%(refname:short)"])
}

/// A unit that is merged, whose worktree is gone, and whose branch was left by SIGKILL.
fn cut_short(world: &World) -> String {
    world.unit("a", 1, &[]).commit();
    let hang = "touch \"$root\"/gone; until test -e \"$root\"/on; do sleep 0.05; done; exit 1";
    wrap_git(world, "update-ref -d refs/heads/dacapo/a-", hang);
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(world, "gone");
    let is_recorded = || world.run_events().iter().any(|event| event["type"] == "unit.merged");
    wait_until("it is merged", LONG, is_recorded);
    running.signal(Signal::KILL);
    running.wait(LONG);
    fs::write(world.env.root().join("on"), "").unwrap();
    wait_until("nothing is left", LONG, || world.env.survivors().is_empty());
    unwrap_git(world);
    let branch = branches(world).trim().to_owned();
    assert!(branch.starts_with("dacapo/a-"), "{branch}");
    branch
}

#[test]
fn a_branch_that_is_merged_goes_though_its_worktree_went_before() {
    // req 50
    let world = World::new();
    cut_short(&world);
    world.run(&[]).assert_code(0);
    assert_eq!(branches(&world), "");

    let world = World::new();
    let branch = cut_short(&world);
    let clean = |extra: &[&str]| {
        let args = ["clean", "--older-than", "0s"].iter().chain(extra);
        world.env.run(args).assert_code(0).stdout
    };
    let dry: Value = serde_json::from_str(&clean(&["--dry-run", "--json"])).unwrap();
    assert_eq!(dry["branches"], json!([branch]));
    assert_eq!(branches(&world).trim(), branch);
    // Somebody works on it, or it holds something that the target does not: it stays.
    world.env.git(["switch", "-q", &branch]);
    clean(&[]);
    world.env.git(["commit", "-q", "--allow-empty", "-m", "more"]);
    world.env.git(["switch", "-q", "main"]);
    clean(&[]);
    assert_eq!(branches(&world).trim(), branch);
    world.env.git(["branch", "-qf", &branch, "main"]);
    assert!(clean(&[]).contains(&format!("Removed the branch `{branch}`")));
    assert_eq!(branches(&world), "");
}

#[test]
fn a_merge_whose_files_cannot_be_written_leaves_nothing_half_done() {
    let world = World::new();
    world.unit("a", 1, &[]).unit("b", 1, &[]).commit();
    let before = world.env.git(["rev-parse", "main"]);
    let fail = "case \"$PWD $*\" in *.merge-*) ;; *'read-tree -m -u --no-recurse'*|*checkout-index*) echo 'fatal: no room' >&2; exit 128;; esac";
    wrap_git(&world, "", fail);
    let output = world.run(&[]).assert_code(1);
    unwrap_git(&world);
    assert!(output.reason().contains("`main` is left where it was"), "{}", output.stderr);
    assert!(!output.stderr.contains("an agent or a person changed files"), "{}", output.stderr);
    assert_eq!(world.env.git(["rev-parse", "main"]), before);
    assert_eq!(world.env.git(["status", "--porcelain"]), "");
    assert_eq!(branches(&world).lines().count(), 2);
    let failed: Vec<Value> =
        world.run_events().into_iter().filter(|event| event["type"] == "unit.failed").collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|event| event["detail"].as_str().unwrap().contains("no room")), "{failed:?}");
    world.run(&[]).assert_code(0);
    for unit in ["a", "b"] {
        assert_eq!(world.subjects()[&format!("feat({unit}): complete task #1 - Step 1")], 1);
        assert_eq!(world.subjects()[&format!("Merge unit {unit}")], 1);
    }
    assert_eq!(branches(&world), "");
}

#[test]
fn a_unit_that_is_reset_begins_anew_and_nothing_of_it_is_lost() {
    // req 58
    let world = World::new();
    world.plan("a", &[]).task("a", 1, &[], "test -f one.txt", "do: touch one.txt");
    world.task("a", 2, &[1], "test -f two.txt", "do: echo half > half.txt");
    world.unit("b", 1, &[]).commit();
    world.run(&["-n", "1"]).assert_code(1);
    let branch = branches(&world).trim().to_owned();
    let tip = world.env.git(["rev-parse", &branch]);
    let worktree = PathBuf::from(unit(&world, "a").unwrap()["worktree"].as_str().unwrap());
    let reset = |extra: &[&str]| {
        let args = ["clean", "--reset", "a"].iter().chain(extra);
        world.env.run(args)
    };
    world.env.run(["clean", "--reset", "x"]).assert_code(2);
    world.env.run(["clean", "--reset", "b"]).assert_code(1);
    // What is not committed is in the way, and a look changes nothing.
    let output = reset(&[]).assert_code(5);
    assert!(output.stderr.contains("half.txt") && output.stderr.contains("--force"), "{}", output.stderr);
    let dry: Value =
        serde_json::from_str(&reset(&["--force", "--dry-run", "--json"]).assert_code(0).stdout).unwrap();
    let kept = branch.replace("dacapo/", "dacapo/old/");
    assert_eq!((&dry[0]["kept"], &dry[0]["unit"]), (&json!(kept), &json!("a")));
    assert_eq!((branches(&world).trim(), worktree.join("half.txt").exists()), (branch.as_str(), true));
    // Of a repository inside, no commit would hold the files.
    let inner = worktree.join("inner");
    for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "inner"]] {
        fs::create_dir_all(&inner).unwrap();
        world.env.git(["-C", inner.to_str().unwrap()].iter().chain(args));
    }
    let output = reset(&["--force"]).assert_code(5);
    assert!(output.stderr.contains("repository of its own"), "{}", output.stderr);
    fs::remove_dir_all(&inner).unwrap();
    let output = reset(&["--force"]).assert_code(0);
    assert!(
        output.stdout.contains(&kept) && output.stdout.contains("Unit a begins anew."),
        "{}",
        output.stdout
    );
    assert!(!worktree.exists());
    assert_eq!(branches(&world).trim(), kept);
    assert_eq!(world.env.git(["rev-parse", &format!("{kept}^")]), tip);
    assert_eq!(world.at(&kept, "half.txt").as_deref(), Some("half\n"));
    assert!(world.at(&kept, "one.txt").is_some());
    assert_eq!(unit(&world, "a"), None);
    reset(&[]).assert_code(2);
    // From the beginning, with what the target says now.
    world.task("a", 2, &[1], "test -f two.txt", "do: touch two.txt").commit();
    world.run(&[]).assert_code(0);
    assert_eq!(branches(&world).trim(), kept);
    assert!(world.at("main", "two.txt").is_some() && world.at("main", "half.txt").is_none());
    assert_eq!(
        world.subjects()["feat(a): complete task #1 - Step 1"],
        2,
        "once more, and once on what is kept"
    );
}

#[test]
fn a_unit_is_not_reset_while_somebody_works_on_it() {
    // req 58
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    let output = world.env.run(["clean", "--reset", "a", "--force"]).assert_code(5);
    assert!(output.stderr.contains("are being run"), "{}", output.stderr);
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    // Nothing was done yet: nothing is to be kept. The loop that was cut short is not gone on with.
    world.env.run(["clean", "--reset", "a"]).assert_code(0);
    assert_eq!(branches(&world), "");
    go(&world);
    world.run(&[]).assert_code(0);
    let loops = world.env.events(None).into_iter();
    let begun = loops.filter(|event| event["type"] == "loop_started" && event["task"] == "a").count();
    assert!(begun >= 2, "{begun}");
    assert!(world.at("main", "a.txt").is_some());
}

/// A unit as `status` knows it.
fn unit(world: &World, name: &str) -> Option<Value> {
    let output = world.env.run(["status", "--units", "--json"]).assert_code(0);
    let units: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    units.into_iter().find(|unit| unit["unit"] == name)
}

#[test]
fn a_unit_is_not_reset_under_a_loop_that_somebody_resumed_by_itself() {
    // fault H2: the loop holds neither the run's lock nor the repository's.
    let world = World::new();
    slow_unit(&world, "a", &[], "");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    running.signal(Signal::INT);
    running.wait(LONG).assert_code(130);
    fs::remove_file(world.env.root().join("began-a")).unwrap();
    let id = world
        .env
        .events(Some("a"))
        .iter()
        .find_map(|event| event["loop"].as_str().map(str::to_owned))
        .unwrap();
    let resumed = world.env.spawn(["resume", &id, "--trust", "-n", "+1"]);
    wait_for_file(&world, "began-a");
    let output = world.env.run(["clean", "--reset", "a", "--force"]).assert_code(5);
    assert!(output.stderr.contains(&format!("loop {id} works on unit `a`")), "{}", output.stderr);
    assert_eq!(world.env.git(["worktree", "list"]).lines().count(), 2, "its worktree is there");
    resumed.signal(Signal::INT);
    resumed.wait(LONG).assert_code(130);
    world.env.run(["clean", "--reset", "a", "--force"]).assert_code(0);
    assert_eq!(world.env.git(["worktree", "list"]).lines().count(), 1);
}
