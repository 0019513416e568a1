//! What somebody who was killed leaves behind, and who removes it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use dacapo_testkit::{Signal, wait_until};
use serde_json::{Value, json};

use crate::{control::wait_for_file, world::World};

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
    let hang = "case \"$*\" in *.merge-*) ;; *) \"$git\" \"$@\"; touch \"$root\"/gone; until test -e \"$root\"/on; do sleep 0.05; done; exit;; esac";
    wrap_git(world, "worktree remove", hang);
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
    assert!(
        output.stderr.lines().last().unwrap().contains("`main` is left where it was"),
        "{}",
        output.stderr
    );
    assert!(!output.stderr.contains("somebody, maybe an agent"), "{}", output.stderr);
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
