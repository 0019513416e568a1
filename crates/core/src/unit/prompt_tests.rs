use super::*;
use crate::unit::{TaskSpec, TaskStatus};

fn set() -> TaskSet {
    let task = |number, title: &str, backpressure: &str| Task {
        spec: TaskSpec {
            number,
            title: title.to_owned(),
            file: format!("specs/tasks/shell/{number:02}-x.md"),
            backpressure: backpressure.to_owned(),
            line: 4,
            depends_on: Vec::new(),
            writes: Vec::new(),
            frozen: String::new(),
        },
        status: TaskStatus::Pending,
    };
    TaskSet {
        unit: "shell".parse().unwrap(),
        tasks: vec![
            task(1, "Read the file", "cargo test reads"),
            task(2, "Write it", "cargo test"),
            task(3, "Show it", "set -e\nmake\nmake test\n"),
        ],
        ready: vec![1, 3],
    }
}

#[test]
fn a_turn_offers_all_ready_tasks_and_asks_for_one() {
    // req 18, req 19
    assert_eq!(
        turn(&set()),
        "\
You work on the unit `shell`. These of its tasks are ready:

- Task #1: Read the file
  file: specs/tasks/shell/01-x.md
  backpressure: cargo test reads

- Task #3: Show it
  file: specs/tasks/shell/03-x.md
  backpressure:
    set -e
    make
    make test

Choose ONE of them and complete it:
1. Read its file fully before you change anything.
2. Implement what it asks for, and only that: no unrelated refactoring, no work on other tasks.
3. Run its backpressure command, and go on until it passes. Never start tests in watch mode: the command must end by itself.
4. In the frontmatter of its file, set `status` to `complete`, whatever it is now. Change nothing else in the frontmatter of any task file or plan.
5. Stop after this one task.

The backpressure is run again when you stop. A status that it does not confirm is taken back.
"
    );
}

#[test]
fn a_fix_may_not_weaken_the_checks() {
    // req 53
    let unit = "shell".parse().unwrap();
    assert_eq!(
        fix_baseline(&unit, &[("lint", "cargo clippy"), ("all", "a\nb")]),
        "\
All tasks of the unit `shell` are complete, but the checks of the whole repository do not pass. They are:

- lint: cargo clippy
- all:
    a
    b

Run them, find out why they fail, and fix it. Correct what is wrong; do not make the checks weaker. Do not delete or skip tests, do not change what the check commands are or do, and do not switch off a lint to silence it. Change nothing in the frontmatter of any task file or plan.
The checks are run again when you stop.
"
    );
}

#[test]
fn a_conflict_is_explained() {
    // req 54
    let unit = "shell".parse().unwrap();
    assert_eq!(
        resolve_conflict(&unit, "main", &["src/a.rs".to_owned(), "b c.md".to_owned()]),
        "\
The unit `shell` was merged with `main`, and both have changed the same places. Conflict markers (`<<<<<<<`, `=======`, `>>>>>>>`) stand in these files:

- src/a.rs
- b c.md

Resolve every conflict so that the intent of both sides is kept, and remove all markers. A file that one side deleted and the other changed needs a decision: keep it or delete it. Change nothing that the conflicts do not concern. Do not run `git merge`, `git rebase`, `git commit` or `git checkout`: the files as you leave them are the result.
Correct what is wrong; do not make the checks weaker. Do not delete or skip tests, do not change what the check commands are or do, and do not switch off a lint to silence it. Change nothing in the frontmatter of any task file or plan.
The checks are run on the result when you stop.
"
    );
    assert_eq!(
        fix_merge(&unit, "main"),
        "\
The unit `shell` passed its checks alone, but not together with what `main` holds by now. The newest state of `main` has been merged into this directory. Run the checks, find out why they fail here, and fix it so that what both sides meant still works. Do not run `git merge`, `git rebase` or `git commit`.
Correct what is wrong; do not make the checks weaker. Do not delete or skip tests, do not change what the check commands are or do, and do not switch off a lint to silence it. Change nothing in the frontmatter of any task file or plan.
The checks are run again when you stop.
"
    );
}
