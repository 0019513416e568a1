//! Repositories in every state: worked in, or refused before an agent starts, in words.

use dacapo_testkit::TestEnv;

use crate::support::{PROMISE, World, assert_has, project, repository};

/// Brings a project into a state; then a loop with a gate is run, with these arguments besides.
struct State {
    name: &'static str,
    make: &'static str,
    extra: &'static [&'static str],
    /// `Ok` if the loop works; else the exit code and words of the refusal.
    expected: Result<(), (i32, &'static str)>,
}

const fn handled(name: &'static str, make: &'static str) -> State {
    State { name, make, extra: &[], expected: Ok(()) }
}

const fn refused(name: &'static str, make: &'static str, words: &'static str) -> State {
    State { name, make, extra: &[], expected: Err((5, words)) }
}

const TWO_BRANCHES: &str = "git checkout -qb other; echo theirs >work.txt; git commit -qam theirs; \
                            git checkout -q main; echo ours >work.txt; git commit -qam ours; ";

const STATES: &[State] = &[
    handled("clean", ""),
    handled("unborn branch", "rm -rf .git; git init -q"),
    handled("detached HEAD", "git checkout -q --detach"),
    handled("dirty files", "echo dirty >>work.txt; echo new >new"),
    handled("staged changes", "echo staged >>work.txt; git add work.txt"),
    handled(
        "a shallow clone",
        "git commit -q --allow-empty -m two; git clone -q --depth 1 file://$PWD ../s; rm -rf .git; mv ../s/.git .",
    ),
    handled("packed refs", "git pack-refs --all; git gc -q"),
    handled("a nested repository", "git init -q inner; touch inner/x"),
    handled(
        "names with blanks and newlines",
        "touch \"a b\" \"$(printf 'x\\ny')\"; git add -A; git commit -qm names",
    ),
    handled(
        "a linked worktree",
        "git worktree add -q ../wt; mv .git ../git; mv ../wt/.git .git; sed -i \"s#$PWD/.git#$PWD/../git#\" .git; echo $PWD/.git >../git/worktrees/wt/gitdir",
    ),
    handled(
        "a stale submodule entry",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ./x\\n' >.gitmodules; git add -A; git commit -qm sub",
    ),
    handled(
        "a submodule",
        "git init -q ../m; git -C ../m commit -q --allow-empty -m m; \
         git -c protocol.file.allow=always submodule --quiet add file://$PWD/../m sub; git commit -qm sub; echo x >sub/x",
    ),
    handled("a sparse checkout", "git sparse-checkout set scripts 2>/dev/null"),
    handled("5,000 files", "mkdir many; cd many; seq 5000 | xargs touch; git add -A; git commit -qm many"),
    handled(
        "other objects",
        "rm -rf .git; git init -q --object-format=sha256; git add -A; git commit -qm start",
    ),
    handled(
        "refs in tables",
        "git init -q --ref-format=reftable ../r 2>/dev/null || exit 0; \
         rm -rf .git; mv ../r/.git .; git add -A; git commit -qm start",
    ),
    handled("no repository at all", "rm -rf .git"),
    handled("assume-unchanged files", "git update-index --assume-unchanged work.txt"),
    refused(
        "a bare repository",
        "rm -rf *; mv .git/* .; rm -rf .git; git config core.bare true; rm -f index",
        "bare",
    ),
    refused("a merge", "TWO git merge other >&2 || true", "merge is in progress"),
    refused("a rebase", "TWO git rebase other >&2 || true", "rebase is in progress"),
    refused("a cherry-pick", "TWO git cherry-pick other >&2 || true", "cherry-pick is in progress"),
    refused(
        "a revert",
        "TWO git revert --no-commit HEAD; git revert --quit; echo x >.git/REVERT_HEAD",
        "revert is in progress",
    ),
    refused("a bisect", "git bisect start", "bisect is in progress"),
    refused("a locked index", "touch .git/index.lock", "index is locked"),
    refused("a corrupt HEAD", "echo nonsense >.git/HEAD", "HEAD is corrupt"),
    refused(
        "a broken .git file",
        "rm -rf .git; echo 'gitdir: /nowhere' >.git",
        "not a usable git repository",
    ),
    State {
        name: "commit with staged changes",
        make: "echo x >>work.txt; git add work.txt",
        extra: &["--commit"],
        expected: Err((2, "staged changes")),
    },
    State {
        name: "commit in a plain folder",
        make: "rm -rf .git",
        extra: &["--commit"],
        expected: Err((2, "not in a git repository; `git init` makes it one")),
    },
    State {
        name: "commit with files that are not committed",
        make: "echo dirty >>lib.sh",
        extra: &["--commit"],
        expected: Ok(()),
    },
    State { name: "a bad pattern", make: "", extra: &["--protect", "[a"], expected: Err((2, "--protect")) },
];

fn in_state(state: &State) -> TestEnv {
    let env = repository();
    let make = state.make.replace("TWO", TWO_BRANCHES);
    if !make.is_empty() {
        env.sh(&make).assert_code(0);
    }
    env
}

#[test]
fn every_state_is_worked_in_or_refused_before_an_agent_starts() {
    let mut wrong = Vec::new();
    for state in STATES {
        let env = in_state(state);
        let agent = format!("echo fixed >work.txt; {PROMISE}");
        let mut extra = vec!["-n", "1", "--gate", "grep -q fixed work.txt"];
        extra.extend(state.extra);
        let output = env.loop_of(&agent, &extra);
        let is_right = match state.expected {
            Ok(()) => output.code == Some(0) && env.agents() == 1,
            Err((code, words)) => {
                output.code == Some(code) && output.stderr.contains(words) && env.agents() == 0
            }
        };
        if !is_right {
            wrong.push(format!(
                "{}: exit {:?}, {} agents\n{}",
                state.name,
                output.code,
                env.agents(),
                output.stderr
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn git_s_own_folder_is_no_place_for_an_agent() {
    let env = repository();
    let output = env.loop_of(PROMISE, &["-n", "1", "--gate", "true", "--dir", ".git"]).assert_code(5);
    assert_has(&output.stderr, "inside git's own folder");
    assert_eq!(env.agents(), 0);
}

#[test]
fn a_subfolder_is_judged_by_its_own_gate_and_the_whole_repository_is_kept() {
    let env = project();
    env.write("sub/check.sh", "grep -q fixed work.txt\n").write("sub/work.txt", "broken\n");
    env.git_init();
    let cheat = format!("echo fixed >work.txt; echo true >check.sh; {PROMISE}");
    env.loop_of(&cheat, &["-n", "1", "--gate", "sh check.sh", "--dir", "sub"]).assert_code(3);
    assert_eq!(env.of_type("claim_refused")[0]["reason"], "tampered");
    env.sh("git checkout -q .").assert_code(0);
    let honest = format!("echo fixed >work.txt; echo x >../above; {PROMISE}");
    env.loop_of(&honest, &["-n", "1", "--gate", "sh check.sh", "--dir", "sub", "--gate-in", "clean"])
        .assert_code(0);
    env.run(["verify", "t"]).assert_code(0);
}

#[test]
fn the_user_s_index_head_and_branch_stay_as_they_were() {
    let env = repository();
    env.sh("echo staged >>lib.sh; git add lib.sh; echo dirty >>lint.cfg; git stash list >/dev/null")
        .assert_code(0);
    let before = (env.git(["diff", "--cached"]), env.git(["rev-parse", "HEAD"]), env.git(["branch", "-a"]));
    let agent = format!("echo fixed >work.txt; {PROMISE}");
    env.loop_of(&agent, &["-n", "1", "--gate", "./check.sh"]).assert_code(0);
    let after = (env.git(["diff", "--cached"]), env.git(["rev-parse", "HEAD"]), env.git(["branch", "-a"]));
    assert_eq!(before, after);
}
