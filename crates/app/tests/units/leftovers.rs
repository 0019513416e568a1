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
