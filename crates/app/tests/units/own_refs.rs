//! Agents of units have refs of their own: what they do to other branches, tags, remotes and settings stays with them.
//!
//! Only mounts can hold that. Where the system allows none, the journal has to say that the refs are shared.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::world::World;

/// What an agent does to the repository beside its work, in a script that says what failed.
const MEDDLING: &str = r#"do: touch done.txt
do: git tag planted && git branch -f other HEAD && git update-ref refs/heads/main HEAD && git config diff.external /bin/false && git remote add evil /nowhere && echo planted > "$(git rev-parse --git-common-dir)/config.worktree"; true
do: git branch -D kept; true
do: git push -q origin HEAD:refs/heads/pushed 2> push.txt; git push -q "$BARE" HEAD:refs/heads/pushed; git gc -q --prune=now; true
do: git add -A && git -c user.name=a -c user.email=a@b commit -q -m "the agent's own"
"#;

fn is_held(world: &World) -> bool {
    let loops = world.env.run(["events", "--json"]).stdout;
    loops.lines().any(|line| line.contains(r#""tier":"namespaces""#))
}

fn config_of_git(world: &World) -> String {
    fs::read_to_string(world.env.workspace().join(".git/config")).unwrap()
}

#[test]
fn what_an_agent_does_to_other_refs_and_settings_stays_with_it_and_its_commits_are_brought_over() {
    let world = World::new();
    let bare = world.env.root().join("bare.git");
    world.plan("auth", &[]);
    let meddling = MEDDLING.replace("$BARE", &bare.display().to_string());
    world.task("auth", 1, &[], "test -f done.txt", &meddling);
    world.task(
        "auth",
        2,
        &[1],
        "git status --short && test -f seen.txt",
        "do: git log --format=%s > seen.txt",
    );
    world.commit();
    world.env.git(["init", "-q", "--bare", bare.to_str().unwrap()]);
    world.env.git(["remote", "add", "origin", bare.to_str().unwrap()]);
    world.env.git(["branch", "kept"]);
    let (main, config) = (world.env.git(["rev-parse", "main"]), config_of_git(&world));
    world.run(&[]).assert_code(0);
    if !is_held(&world) {
        let events = world.env.run(["events", "--json"]).stdout;
        assert!(events.contains("agents share the repository's branches"), "{events}");
        return;
    }
    let branches = world.env.git(["for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"]);
    assert_eq!(branches, "refs/heads/kept\nrefs/heads/main\n");
    assert_eq!(config_of_git(&world), config);
    let pushed = fs::read_dir(bare.join("refs/heads")).unwrap().count();
    assert_eq!(pushed, 0, "nothing was pushed");
    // Its commit is in the history of the target, below dacapo's own.
    let subjects = world.env.git(["log", "--format=%s", "main", &format!("^{}", main.trim())]);
    assert!(subjects.contains("the agent's own"), "{subjects}");
    let told = world.env.git(["show", "main:push.txt"]);
    assert!(told.contains("an agent of a unit or a task pushes nothing"), "{told}");
    let seen = world.env.git(["show", "main:seen.txt"]);
    assert!(seen.starts_with("feat(auth): complete task #1"), "dacapo's commit is seen next: {seen}");
    // Snapshots of other loops lie in no ref that the agent's git saw.
    world.env.git(["fsck", "--no-dangling"]);
    let left = fs::read_dir(world.env.dacapo_home().join("refs")).map(Iterator::count).unwrap_or(0);
    assert_eq!(left, 0, "the agents' refs are gone with their loops");
}

#[test]
fn an_agent_on_another_branch_is_brought_back_with_what_it_committed() {
    let world = World::new();
    world.plan("auth", &[]);
    let elsewhere = "do: git switch -q -c mine && touch done.txt && git add -A && git -c user.name=a -c user.email=a@b commit -q -m elsewhere\n";
    world.task("auth", 1, &[], "test -f done.txt", elsewhere);
    world.commit();
    world.run(&[]).assert_code(0);
    let subjects = world.env.git(["log", "--format=%s", "main"]);
    assert!(subjects.contains("elsewhere"), "{subjects}");
    if is_held(&world) {
        let branches = world.env.git(["for-each-ref", "--format=%(refname)", "refs/heads"]);
        assert_eq!(branches, "refs/heads/main\n");
    }
}

#[test]
fn commits_of_an_attempt_without_a_claim_and_hooks_that_are_a_link_stay() {
    let world = World::new();
    world.plan("auth", &[]);
    let began = world.env.root().join("began").display().to_string();
    // The first attempt commits and claims nothing; the second makes a pipe of its branch, which nothing may wait for.
    let body = format!(
        "do: if test -e {began}; then git log --format=%s > seen.txt; ref=$(git symbolic-ref HEAD); rm \"$(git rev-parse --git-common-dir)/$ref\"; mkfifo \"$(git rev-parse --git-common-dir)/$ref\"; fi\n\
         do: touch {began} done.txt\n\
         do: test -e seen.txt || {{ git add -A && git -c user.name=a -c user.email=a@b commit -q -m first && exit 1; }}\n"
    );
    world.task("auth", 1, &[], "test -f seen.txt", &body);
    world.commit();
    let hooks = world.env.workspace().join(".git/hooks");
    let elsewhere = world.env.root().join("hooks");
    let _ = fs::remove_dir_all(&hooks);
    fs::create_dir_all(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &hooks).unwrap();
    let hook = elsewhere.join("post-commit");
    fs::write(&hook, "#!/bin/sh\necho hooked >> hooked.txt\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    world.run(&[]).assert_code(0);
    let seen = world.env.git(["show", "main:seen.txt"]);
    assert!(seen.starts_with("first\n"), "the second attempt sees what the first committed: {seen}");
    assert!(world.env.git(["log", "--format=%s", "main"]).contains("first"));
    assert_eq!(world.env.git(["show", "main:hooked.txt"]), "hooked\n");
}

/// What an agent has a command do that dacapo runs outside of loops.
const PLANT: &str = "ran() { echo $1 >> $HOME/ran; echo $1 >> $HOME/.bashrc; git config core.fsmonitor planted; git branch -f planted HEAD; true; }\n";

#[test]
fn commands_of_worktrees_run_what_agents_wrote_and_are_held_as_gates_are() {
    let world = World::new();
    world.env.write("setup.sh", PLANT);
    std::fs::write(world.env.home().join(".bashrc"), "# mine\n").unwrap();
    let step = |name: &str| format!("[{{run: '. ./setup.sh; ran {name}'}}]");
    // A gate of the merged tree, which is on no branch, does the same.
    let baseline = "{name: b, run: '. ./setup.sh; case $PWD in */.merge-*) ran merge;; esac'}";
    world.config(&format!(
        "worktree: {{setup: {}, teardown: {}}}\nunits: {{baseline: [{baseline}]}}\n",
        step("setup"),
        step("teardown")
    ));
    world.unit("a", 1, &[]).commit();
    let config = config_of_git(&world);
    world.run(&[]).assert_code(0);
    let home = |name: &str| fs::read_to_string(world.env.home().join(name)).unwrap();
    // The worktree, the merged tree, its gate, and the worktree before it went.
    assert_eq!(home("ran"), "setup\nsetup\nmerge\nteardown\n");
    if !is_held(&world) {
        return;
    }
    assert_eq!(home(".bashrc"), "# mine\n");
    assert_eq!(config_of_git(&world), config);
    assert_eq!(world.env.git(["for-each-ref", "--format=%(refname)", "refs/heads"]), "refs/heads/main\n");
    let left = fs::read_dir(world.env.dacapo_home().join("refs")).map(Iterator::count).unwrap_or(0);
    assert_eq!(left, 0, "the refs that the commands saw are gone");
}

#[test]
fn without_a_sandbox_commands_of_worktrees_do_what_the_user_may() {
    let world = World::new();
    world.env.write("setup.sh", PLANT);
    world.config("worktree: {setup: [{run: '. ./setup.sh; ran setup'}]}\n");
    world.unit("a", 1, &[]).commit();
    let output = world.run(&["--sandbox", "off"]).assert_code(0);
    assert!(output.stdout.contains("\n  no sandbox\n"), "{}", output.stdout);
    assert!(fs::read_to_string(world.env.home().join(".bashrc")).unwrap().contains("setup"));
    assert!(config_of_git(&world).contains("planted"));
}
