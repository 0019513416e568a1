//! Tasks whose dacapo is killed at any moment come to the same end.

use std::collections::BTreeSet;

use dacapo_testkit::{Running, Signal};

use crate::support::{SOON, Tasks};

/// How often it is killed.
const KILLS: usize = 20;

#[test]
fn six_tasks_at_once_killed_twenty_times_come_to_the_same_end_and_each_is_merged_once() {
    let tasks = Tasks::new();
    for (title, first) in [
        ("One", &[][..]),
        ("Two", &[]),
        ("Three", &["1"]),
        ("Four", &["2"]),
        ("Five", &["3", "4"]),
        ("Six", &[]),
    ] {
        let first: Vec<String> = first.iter().map(|number| format!("TASK-00{number}")).collect();
        let args: Vec<&str> = first.iter().flat_map(|id| ["--depends-on", id.as_str()]).collect();
        tasks.add(title, &args);
    }
    tasks.env.git(["add", "-A"]);
    tasks.env.git(["commit", "-qm", "tasks"]);
    // Each refuses once, so that there is something to be killed in.
    tasks.role("Review.1", "echo 'REVIEW FAILED'; echo '- once more'");
    let mut killed = 0;
    let mut dice: usize = 7;
    let mut lines = BTreeSet::new();
    loop {
        let mut running = Running::start(tasks.command(&tasks.args(&["--json"])));
        if killed == KILLS {
            running.wait(SOON * 2).assert_code(0);
            break;
        }
        // Behind the n-th fact that it records; how many there are is not known.
        dice = dice.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let mut left = 1 + (dice >> 16) % 14;
        let is_there = |_: &str| {
            left = left.saturating_sub(1);
            left == 0
        };
        running.wait_for_line(is_there, SOON);
        lines.insert(running.stdout().lines().last().unwrap_or_default().to_owned());
        assert!(running.is_running(), "it ended before it was killed {KILLS} times: {}", running.stdout());
        running.signal(Signal::KILL);
        running.wait(SOON);
        killed += 1;
    }
    assert_eq!(tasks.env.survivors(), Vec::<u32>::new());
    let mut merges = tasks.merges();
    merges.sort();
    let expected: Vec<String> = ["One", "Two", "Three", "Four", "Five", "Six"]
        .iter()
        .enumerate()
        .map(|(at, title)| format!("Merge task TASK-00{}: {title}", at + 1))
        .collect();
    assert_eq!(merges, expected, "each is merged once");
    assert_eq!(tasks.env.git(["status", "--porcelain"]), "");
    for number in 1..=6 {
        let id = format!("TASK-00{number}");
        assert_eq!(tasks.show(&id)["status"], "done");
        assert_eq!(tasks.status_in_file(&id), "done");
        assert!(tasks.env.workspace().join(format!("work-{id}.txt")).exists());
        // A task begins when those that it depends on are merged.
        let finished = tasks.of_type(&id, "task_finished");
        assert_eq!(finished.len(), 1, "{finished:#?}");
    }
    let place =
        |title: &str| tasks.merges().iter().rev().position(|subject| subject.ends_with(title)).unwrap();
    for (first, then) in [("One", "Three"), ("Two", "Four"), ("Three", "Five"), ("Four", "Five")] {
        assert!(place(first) < place(then), "{first} before {then}");
    }
}
