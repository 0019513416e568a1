//! The loop of a unit: what is believed, what is taken back, what is committed, how it ends.

use std::fs;

use dacapo_testkit::unit_agent;
use serde_json::json;

use crate::world::{World, types_of};

#[test]
fn a_task_goes_from_pending_to_a_commit_and_says_so_step_by_step() {
    // req 25, req 32, req 34, req 42, req 43, req 44, req 46, req 47, req 48, req 57
    let world = World::new();
    world.unit("auth", 2, &[]).commit();
    world.run(&[]).assert_code(0);
    let events = world.run_events();
    let turn = [
        "task.started",
        "task.claude.invoke",
        "task.claude.done",
        "task.backpressure",
        "task.validation.ok",
        "task.committed",
        "task.completed",
    ];
    let mut expected = vec!["unit.queued", "unit.started", "worktree.created"];
    expected.extend(turn);
    expected.extend(turn);
    let ours = |kind: &&str| !["unit.merging", "unit.job_ended"].contains(kind);
    expected.extend(["unit.completed", "pr.merged", "unit.merged", "worktree.removed"]);
    assert_eq!(types_of(&events, "auth").into_iter().filter(ours).collect::<Vec<_>>(), expected);
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"orch.started"), Some(&"orch.completed")));
    // The commit holds the task's work, its status, and nothing of dacapo's.
    let files = world.env.git(["show", "--format=%B", "--name-only", "main^2"]);
    assert!(files.starts_with("feat(auth): complete task #2 - Step 2\n\nDacapo: "), "{files}");
    let names: Vec<&str> = files.trim().lines().rev().take(2).collect();
    assert_eq!(names, ["src/auth-2.txt", "specs/tasks/auth/02-step.md"]);
}

#[test]
fn a_false_claim_is_taken_back_tried_again_and_given_up_after_three() {
    // req 35, req 36, req 37, req 38, req 39, req 40, req 41; fault A10, fault B6
    let world = World::new();
    world.plan("auth", &[]);
    world.task("auth", 1, &[], "echo nothing there >&2; test -f never", "do: echo tried >> tries.txt");
    world.task("auth", 2, &[1], "true", "do: touch x");
    world.commit();
    let output = world.run(&[]).assert_code(1);
    assert!(output.stderr.contains("auth"), "{}", output.stderr);
    let events = world.run_events();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!(of("task.claude.invoke").len(), 3);
    let fails = of("task.validation.fail");
    assert_eq!(fails.len(), 3);
    assert_eq!((&fails[0]["exit_code"], &fails[0]["output"]), (&json!(1), &json!("nothing there\n")));
    let retries: Vec<_> =
        of("task.retry").iter().map(|e| (e["attempt"].clone(), e["reason"].clone())).collect();
    assert_eq!(retries, [(json!(1), json!("backpressure_failed")), (json!(2), json!("backpressure_failed"))]);
    assert_eq!(of("task.failed")[0]["task"], 1);
    assert_eq!(of("unit.failed")[0]["reason"], "exhausted");
    assert_eq!(world.subjects().len(), 2, "nothing was committed but what the test did");
    // The file in the worktree says so, and the next prompt of the same turn had the failure in it.
    let worktree = of("worktree.created")[0]["path"].as_str().unwrap().to_owned();
    let task = std::fs::read_to_string(format!("{worktree}/specs/tasks/auth/01-step.md")).unwrap();
    assert!(task.contains("\nstatus: failed\n"), "{task}");
    // Run again, it is not tried again: a different end. Only a person's word starts over.
    world.run(&[]).assert_code(1);
    let again = world.run_events();
    assert_eq!(again.iter().filter(|event| event["type"] == "task.claude.invoke").count(), 3);
    assert_eq!(again.iter().rev().find(|event| event["type"] == "unit.failed").unwrap()["reason"], "failed");
    world.run(&["--retry-failed", "-n", "1"]).assert_code(1);
    let third = world.run_events();
    assert_eq!(third.iter().filter(|event| event["type"] == "task.claude.invoke").count(), 4);
}

#[test]
fn a_circle_of_tasks_and_a_failed_one_are_found_before_or_told_apart() {
    // req 7, req 17
    let world = World::new();
    world.plan("auth", &[]);
    world.task("auth", 1, &[2], "true", "").task("auth", 2, &[1], "true", "");
    world.commit();
    let output = world.run(&[]).assert_code(2);
    assert!(output.stderr.contains("01-step.md"), "{}", output.stderr);
}

#[test]
fn several_tasks_completed_in_one_turn_are_each_proven_and_committed() {
    // req 28, req 31; a red one among them is taken back alone.
    let world = World::new();
    world.plan("auth", &[]);
    world.task("auth", 1, &[], "test -f one", "do: touch one");
    world.task("auth", 2, &[], "test -f two", "do: touch zwei");
    world.task("auth", 3, &[], "test -f three", "do: touch three");
    world.task("auth", 4, &[1], "test -f four", "do: touch four");
    world.commit();
    let agent = format!("{} all", unit_agent().display());
    let args = ["unit", "run", "--trust", "--restart-delay", "0s", "--agent-cmd", &agent];
    world.env.run(args).assert_code(1);
    let log = world.env.git(["log", "--branches", "--reverse", "--format=%s"]);
    let feats: Vec<&str> = log.lines().filter(|line| line.starts_with("feat(")).collect();
    let expected = [1, 3, 4].map(|n| format!("feat(auth): complete task #{n} - Step {n}"));
    assert_eq!(feats, expected);
    // The first commit of the turn holds the work, each its own status line.
    let events = world.run_events();
    let commits: Vec<&str> = events
        .iter()
        .filter(|event| event["type"] == "task.committed")
        .filter_map(|event| event["commit"].as_str())
        .collect();
    let status = |commit: &str, n: u32| {
        let file = world.at(commit, &format!("specs/tasks/auth/{n:02}-step.md")).unwrap();
        file.lines().find_map(|line| line.strip_prefix("status: ")).unwrap().to_owned()
    };
    let table: Vec<Vec<String>> =
        commits.iter().map(|commit| (1..=4).map(|n| status(commit, n)).collect()).collect();
    assert_eq!(
        table,
        [
            ["complete", "pending", "pending", "pending"],
            ["complete", "pending", "complete", "pending"],
            ["complete", "pending", "complete", "complete"],
        ]
    );
}

#[test]
fn completion_is_looked_for_after_a_failing_exit_and_the_frontmatter_is_frozen() {
    // req 26, req 29; fault A12, fault K2: an agent that edits its proof, or that of another, is refused.
    let world = World::new();
    world.plan("auth", &[]);
    world.task("auth", 1, &[], "test -f one", "do: touch one");
    let edit = |n: u32| {
        format!("do: sed -i 's/^backpressure: .*/backpressure: \"true\"/' specs/tasks/auth/{n:02}-step.md")
    };
    world.task("auth", 2, &[1], "test -f two", &edit(2));
    world.commit();
    let script = format!("sh -c '{}; exit 3'", unit_agent().display());
    let args = ["unit", "run", "--trust", "--restart-delay", "0s", "--agent-cmd", &script];
    world.env.run(args).assert_code(1);
    let events = world.run_events();
    let failed: Vec<_> = events.iter().filter(|event| event["type"] == "task.completed").collect();
    assert_eq!(failed.len(), 1, "{events:#?}");
    let end = events.iter().find(|event| event["type"] == "unit.failed").unwrap();
    assert_eq!(end["reason"], "exhausted");
    let worktree = events.iter().find(|event| event["type"] == "worktree.created").unwrap();
    let refused = world.env.events(None).into_iter().find(|event| event["type"] == "claim_refused").unwrap();
    assert_eq!(refused["reason"], "tampered", "{refused}");
    assert!(worktree["branch"].as_str().unwrap().starts_with("dacapo/auth-"));
}

#[test]
fn an_agent_that_commits_its_own_claim_is_not_believed() {
    // fault A10: the word of a file is a claim, committed or not.
    let world = World::new();
    world.plan("auth", &[]);
    let lie = "do: sed -i 's/^status: .*/status: complete/' specs/tasks/auth/01-step.md && git commit -qam 'done, believe me'";
    world.task("auth", 1, &[], "test -f never", &format!("{lie}\nclaim: no"));
    world.commit();
    world.run(&["-n", "1"]).assert_code(1);
    world.run(&["-n", "1", "--retry-failed"]).assert_code(1);
    let events = world.run_events();
    assert!(!events.iter().any(|event| event["type"] == "task.completed"));
    assert!(!events.iter().any(|event| event["type"] == "unit.completed"));
    assert_eq!(world.env.git(["log", "--format=%s", "main"]).lines().count(), 2);
}

#[test]
fn checks_after_all_tasks_are_all_run_and_may_be_fixed() {
    // req 52, req 53
    let world = World::new();
    world.config(
        "units:\n  baseline:\n    - {name: lint, run: test -f linted}\n    - {name: format, run: echo ugly; test -f formatted}\n    - {name: rust, run: 'false', pattern: '**/*.rs'}\n",
    );
    world.unit("auth", 1, &[]);
    world.env.write("fix.sh", "touch linted formatted\n");
    world.commit();
    world.run(&[]).assert_code(0);
    let loops = world.env.events(None);
    let checks: Vec<(String, bool)> = loops
        .iter()
        .filter(|event| event["type"] == "gate_finished" && event["name"] != "task #1")
        .map(|event| (event["name"].as_str().unwrap().to_owned(), event["passed"].as_bool().unwrap()))
        .collect();
    let both = |passed| [("lint".to_owned(), passed), ("format".to_owned(), passed)];
    assert_eq!(
        checks,
        [both(false), both(true), both(true)].concat(),
        "before, after the fix, on the merged tree"
    );
    assert_eq!(world.subjects()["fix(auth): baseline checks"], 1);
    assert!(world.at("main", "formatted").is_some());
}

#[test]
fn checks_that_stay_red_fail_the_unit_after_three_fixes() {
    // req 53
    let world = World::new();
    world.config("units: {baseline: [{name: lint, run: 'false'}]}\n");
    world.unit("auth", 1, &[]).unit("late", 1, &["auth"]).commit();
    world.run(&[]).assert_code(1);
    let events = world.run_events();
    let failed = events.iter().find(|event| event["type"] == "unit.failed").unwrap();
    assert_eq!((&failed["unit"], &failed["reason"]), (&json!("auth"), &json!("baseline")));
    assert!(failed["detail"].as_str().unwrap().contains("lint"), "{failed}");
    let agents = world.env.events(None).iter().filter(|event| event["type"] == "agent_started").count();
    assert_eq!(agents, 1 + 3);
}

#[test]
fn a_job_that_runs_many_loops_has_as_many_descriptors_open_as_with_one() {
    // Each check looks at the process that supervises its loop: the parent of the keeper that started it.
    let world = World::new();
    // In a sandbox it could not be seen.
    world.env.without_sandbox();
    let (seen, tasks) = (world.env.root().join("seen"), 8);
    let look = format!(
        "job=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status); case $PWD in */.merge-*) exit;; esac; \
         echo $job $(tr '\\0' ' ' < /proc/$job/cmdline) $(ls /proc/$job/fd | wc -l) >> {}",
        seen.display()
    );
    world.plan("auth", &[]);
    for number in 1..=tasks {
        let before = [number - 1];
        let before = if number == 1 { &[][..] } else { &before };
        world.task(
            "auth",
            number,
            before,
            &format!("{look}; test -f {number}"),
            &format!("do: touch {number}"),
        );
    }
    world.commit();
    world.run(&[]).assert_code(0);
    let seen = fs::read_to_string(seen).unwrap();
    let seen: Vec<&str> = seen.lines().collect();
    assert_eq!(seen.len(), tasks as usize, "{seen:#?}");
    assert!(seen[0].contains("unit-job"), "{seen:#?}");
    assert!(seen.iter().all(|line| *line == seen[0]), "{seen:#?}");
}

#[test]
fn a_task_that_was_given_up_leaves_no_trace_in_the_commits_of_others() {
    // req 41, req 44: nor does one that was begun.
    let world = World::new();
    let go = world.env.root().join("go");
    world.plan("auth", &[]);
    let late = format!("do: test -f '{}' && touch one", go.display());
    world.task("auth", 1, &[], "test -f one", &late);
    let file = |number: u32| format!("specs/tasks/auth/{number:02}-step.md");
    let begins = format!("do: sed -i 's/^status: .*/status: in_progress/' {}", file(3));
    world.task("auth", 2, &[], "test -f two", &format!("{begins}\ndo: touch two"));
    world.task("auth", 3, &[2], "test -f three", "do: touch three");
    world.commit();
    world.run(&["-n", "1"]).assert_code(1);
    // The others are worked on, and the first is as failed as it was.
    world.run(&["-n", "1"]).assert_code(1);
    let events = world.run_events();
    let created = events.iter().find(|event| event["type"] == "worktree.created").unwrap();
    let text = fs::read_to_string(format!("{}/{}", created["path"].as_str().unwrap(), file(1))).unwrap();
    assert!(text.contains("\nstatus: failed\n"), "{text}");
    fs::write(go, "").unwrap();
    world.run(&["-n", "1", "--retry-failed"]).assert_code(0);
    for (number, work) in [(1, "one"), (2, "two"), (3, "three")] {
        let subject = format!("feat(auth): complete task #{number} - Step {number}");
        let commit = world.env.git(["log", "--fixed-strings", "--grep", &subject, "--format=%H", "main"]);
        let names = world.env.git(["show", "--format=", "--name-only", commit.trim()]);
        let mut names: Vec<&str> = names.lines().collect();
        names.sort_unstable_by_key(|name| !name.starts_with("specs/"));
        assert_eq!(names, [&*file(number), work]);
    }
}
