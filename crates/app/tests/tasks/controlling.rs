//! Several tasks at once: cancelled together, shown with all their stages, and tidied up after a kill.

use super::support::{SOON, Tasks};

#[test]
fn several_tasks_are_cancelled_by_their_ids_or_all_together() {
    // req 194
    let tasks = Tasks::new();
    let ids: Vec<String> = (0..4).map(|number| tasks.add(&format!("T{number}"), &[])).collect();
    tasks.role("Review", r#"echo "REVIEW FAILED"; echo "- finding $number""#);
    tasks.run(&[]).assert_code(4);
    let output = tasks.dacapo(&["cancel", &ids[0], &ids[1], "NO-SUCH"]);
    assert_ne!(output.code, Some(0));
    assert!(output.stderr.contains("NO-SUCH"), "{}", output.stderr);
    for id in &ids[..2] {
        assert_eq!(tasks.show(id)["state"], "cancelled", "one that is unknown keeps the others from nothing");
    }
    let output = tasks.dacapo(&["cancel", "--all"]).assert_code(0);
    assert!(output.stdout.contains(ids[2].as_str()), "{}", output.stdout);
    for id in &ids {
        assert_eq!(tasks.show(id)["state"], "cancelled");
    }
    tasks.dacapo(&["cancel", "--all"]).assert_code(1);
}

#[test]
fn the_snapshots_of_a_task_are_those_of_all_its_stages() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.role("Testing", "echo x >tests.txt; commit tests; echo '3 passed'; promise TESTS_COMPLETE");
    tasks.run(&[]).assert_code(0);
    let output = tasks.dacapo(&["snapshots", &id, "--json"]).assert_code(0);
    let lines: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap();
    let found: Vec<(&str, u64)> = lines
        .iter()
        .map(|line| (line["stage"].as_str().unwrap(), line["iteration"].as_u64().unwrap()))
        .collect();
    let stages = ["coder", "reviewer", "tester", "qa"];
    let expected: Vec<(&str, u64)> = stages.into_iter().flat_map(|stage| [(stage, 0), (stage, 1)]).collect();
    assert_eq!(found, expected);
    let text = tasks.dacapo(&["snapshots", &id]).assert_code(0).stdout;
    assert!(text.contains("(coder)") && text.contains("(qa)"), "{text}");
}

#[test]
fn what_is_left_of_a_done_task_goes_when_tasks_are_run_again() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    // The place of a performer that was killed before it tidied: the worktree and the branch are there again.
    tasks.run(&[]).assert_code(0);
    let worktree = tasks.of_type(&id, "worktree_made")[0]["path"].as_str().unwrap().to_owned();
    tasks.env.wait_until("the worktree is gone", SOON, || !std::path::Path::new(&worktree).exists());
    let branch = format!("task/{id}");
    tasks.env.git(["worktree", "add", "-q", "-b", &branch, &worktree, "main^2"]);
    tasks.add("U", &[]);
    tasks.run(&[]).assert_code(0);
    assert!(!std::path::Path::new(&worktree).exists(), "the worktree is gone");
    assert_eq!(tasks.env.git(["branch", "--list", &branch]), "", "and so is the branch");
    assert_eq!(tasks.show(&id)["status"], "done");
}
