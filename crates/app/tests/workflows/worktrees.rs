//! Steps in worktrees of their own: beside each other, and merged.

use rustix::process::Signal;

use crate::support::{SOON, args, run, run_id, status, with};

const BESIDE: &str = "nodes:\n\
    - {id: a, prompt: write a, worktree: true}\n\
    - {id: b, prompt: write b, worktree: true}\n\
    - {id: check, bash: 'cat a b draft README.md', depends_on: [a, b]}\n";

/// An agent that begins when the other one has begun, too; `$1` is the file that it writes.
const MEETS: &str = r#"sh 'me=$(echo "$DACAPO_TASK" | sed "s/.*\.//"); pwd > "$MARKS/$me"; for i in a b; do while [ ! -e "$MARKS/$i" ]; do sleep 0.02; done; done; echo "by $me" > $me; echo "$me" >> draft; git status --short > "$MARKS/status-$me"'"#;

#[test]
fn steps_in_worktrees_run_beside_each_other_and_their_changes_are_merged() {
    let env = with(BESIDE);
    env.write("README.md", "read me\n");
    env.git(["add", "--all"]);
    env.git(["commit", "-q", "-m", "files"]);
    // What is not committed is there, too.
    env.write("draft", "one\ntwo\nthree\n");
    let marks = env.root().join("marks");
    std::fs::create_dir_all(&marks).unwrap();
    let script = MEETS.replace("$MARKS", marks.to_str().unwrap()).replace(
        "echo \"$me\" >> draft",
        "case $me in a) sed -i 1s/.*/ONE/ draft;; b) sed -i 3s/.*/THREE/ draft;; esac",
    );
    env.script(&script);
    let head = env.git(["rev-parse", "HEAD"]);
    let output = run(&env, &[]).assert_code(0);
    assert_eq!(status(&env, &run_id(&output))["detail"], "by a");
    assert_eq!(env.read("draft"), "ONE\ntwo\nTHREE\n");
    assert_eq!((env.read("a"), env.read("b")), ("by a\n".to_owned(), "by b\n".to_owned()));
    assert_eq!(env.git(["rev-parse", "HEAD"]), head, "what comes back are files");
    let seen = |name: &str| std::fs::read_to_string(marks.join(name)).unwrap();
    assert_ne!(seen("a"), seen("b"));
    assert!(seen("status-a").contains("?? draft"), "{}", seen("status-a"));
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1, "they are removed");
    assert!(!env.dacapo_home().join("workflows").join(run_id(&output)).exists());
}

#[test]
fn changes_to_the_same_lines_fail_the_later_step_and_its_worktree_stays() {
    let env = with(BESIDE);
    env.write("README.md", "read me\n");
    env.git(["add", "--all"]);
    env.git(["commit", "-q", "-m", "files"]);
    env.script("sh 'echo \"$DACAPO_TASK\" > README.md'");
    let output = run(&env, &[]).assert_code(1);
    let detail = status(&env, &run_id(&output))["detail"].as_str().unwrap().to_owned();
    let (why, worktree) = detail.split_once("; its worktree is ").expect("where it is");
    assert!(why.ends_with("it cannot be merged: `README.md` was changed here and in the workspace"), "{why}");
    assert!(std::path::Path::new(worktree).join("README.md").exists());
    // `clean` does not remove what was not merged: it names it, and the command that does.
    let cleaned = env.run(["clean"]).assert_code(0).stdout;
    let line = cleaned.lines().find(|line| line.contains(worktree)).expect("the worktree is named");
    assert!(line.contains("of the workflow w (run ") && line.contains("was not merged"), "{line}");
    let command = line.split('`').find(|part| part.starts_with("git -C")).expect("a command");
    let mut shell = env.command("sh");
    shell.args(["-c", command]);
    env.run_command(shell).assert_code(0);
    assert!(!std::path::Path::new(worktree).exists());
    assert!(!env.run(["clean"]).assert_code(0).stdout.contains("was not merged"));
}

#[test]
fn a_run_that_is_killed_goes_on_in_its_worktrees() {
    let env = with(
        "nodes:\n- {id: a, prompt: write a, worktree: true}\n- {id: check, bash: cat a, depends_on: [a]}\n",
    );
    let started = env.root().join("started");
    env.script(&format!("append a first; touch {}; hang", started.display()));
    let running = env.spawn(args(&env, &[]));
    env.wait_until("the agent runs", SOON, || started.exists());
    running.signal(Signal::KILL);
    let _ = running.wait(SOON);
    env.wait_until("all of it is dead", SOON, || env.survivors().is_empty());
    assert!(!env.workspace().join("a").exists());
    env.script("append a second; sh 'git add a; git commit -q -m mine'");
    let output = env.run(["resume", "--trust"]).assert_code(0);
    assert_eq!(env.read("a"), "first\nsecond\n");
    // Commits of the step are kept.
    let branch = format!("dacapo/{}/a", run_id(&output));
    assert_eq!(env.git(["log", "--format=%s", "-1", &branch]), "mine\n");
}
