//! How many git processes a task starts. The machine may be busy; the number stays.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use super::support::Tasks;

/// Puts a `git` before the real one that counts its calls.
fn counting(tasks: &Tasks) -> (PathBuf, PathBuf) {
    let (folder, log) = (tasks.env.root().join("counting"), tasks.env.root().join("calls-of-git"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
    let real = real.expect("git is needed on PATH: `apt install git`");
    fs::create_dir(&folder).unwrap();
    let script = format!("#!/bin/sh\necho \"$*\" >>{}\nexec {} \"$@\"\n", log.display(), real.display());
    fs::write(folder.join("git"), script).unwrap();
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    (folder, log)
}

/// Calls of git by dacapo in a run of so many tasks whose agents call none.
fn calls_of(many: u32) -> (usize, String) {
    let tasks = Tasks::new();
    tasks.env.write(".dacapo/config.yaml", "ralph: {verify_promises: false}\n");
    for number in 0..many {
        tasks.add(&format!("T{number}"), &[]);
    }
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "tasks"]);
    for (role, promise) in [("Implementation", "IMPLEMENTATION_COMPLETE"), ("Review", "REVIEW_COMPLETE")] {
        tasks.role(role, &format!("promise {promise}"));
    }
    let (folder, log) = counting(&tasks);
    let mut command = tasks.command(&tasks.args(&["--trust", "--slots", "1"]));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).unwrap());
    tasks.env.run_command(command).assert_code(0);
    let text = fs::read_to_string(log).unwrap();
    (text.lines().count(), text)
}

#[test]
fn a_task_starts_at_most_twenty_two_git_processes_for_its_four_stages() {
    let ((one, _), (three, log)) = (calls_of(1), calls_of(3));
    // Five for the first stage and two for each other, two to make the worktree, six to merge, three to tidy up. A job that tidies up and
    // did not merge asks for one more.
    assert!(three - one <= 2 * 22 + 1, "{} for two more tasks:\n{log}", three - one);
    assert!(one <= 22 + 8, "{one} for one task");
}
