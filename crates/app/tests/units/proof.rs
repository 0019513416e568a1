//! What counts as proven, across turns, runs and whatever agents do to files and branches in between.

use dacapo_testkit::unit_agent;

use crate::world::{World, types_of};

#[test]
fn what_a_refused_turn_tampered_with_is_not_laundered_by_the_next() {
    // fault A12, fault K2: the work of a turn is measured from the last accepted commit.
    let world = World::new();
    world.plan("a", &[]);
    let other = "specs/tasks/b/01-step.md";
    let cheat = format!("do: sed -i 's/^status: .*/status: complete/' {other} && touch done");
    world.task("a", 1, &[], "test -f done", &cheat);
    world.unit("b", 1, &[]);
    world.commit();
    world.run(&["--unit", "a", "-n", "1"]).assert_code(1);
    // The agent is honest from here on; what the first one changed is still there.
    let honest = world.env.root().join("honest.sh");
    std::fs::write(
        &honest,
        "touch more && sed -i 's/^status: .*/status: complete/' specs/tasks/a/01-step.md\n",
    )
    .unwrap();
    let agent = format!("sh {}", honest.display());
    let again = ["unit", "run", "--unit", "a", "--trust", "--retry-failed", "-n", "1", "--agent-cmd", &agent];
    world.env.run(again).assert_code(1);
    assert!(world.at("main", "done").is_none());
    assert!(world.at("main", other).unwrap().contains("status: pending"));
}

#[test]
fn work_that_a_failed_turn_left_counts_for_the_next() {
    // The check was red because of something else; the work is there and may be claimed.
    let world = World::new();
    let flag = world.env.root().join("flag");
    world.plan("a", &[]);
    world.task("a", 1, &[], &format!("test -f work && test -f {}", flag.display()), "do: touch work");
    world.commit();
    world.run(&["-n", "1"]).assert_code(1);
    std::fs::write(&flag, "").unwrap();
    world.run(&["-n", "1", "--retry-failed"]).assert_code(0);
    assert!(world.at("main", "work").is_some());
}

#[test]
fn staged_files_of_a_failed_turn_hold_nothing_up() {
    let world = World::new();
    let flag = world.env.root().join("flag");
    world.plan("a", &[]);
    world.task("a", 1, &[], &format!("test -f {}", flag.display()), "do: date > work && git add -A");
    world.commit();
    world.run(&["-n", "1"]).assert_code(1);
    std::fs::write(&flag, "").unwrap();
    world.run(&["-n", "1", "--retry-failed"]).assert_code(0);
}

#[test]
fn a_check_that_a_task_runs_is_protected_unless_the_task_writes_it() {
    // fault A12
    for (head, code) in [("", 1), ("writes: [check.sh]\n", 0)] {
        let world = World::new();
        world.plan("a", &[]);
        world.env.write("check.sh", "exit 1\n");
        let task = format!(
            "---\ntask: 1\nstatus: pending\nbackpressure: sh check.sh\n{head}---\n\n# Step 1\n\ncheck.sh\ndo: echo exit 0 > check.sh\n"
        );
        world.env.write("specs/tasks/a/01-step.md", task);
        world.commit();
        world.run(&["-n", "1"]).assert_code(code);
    }
}

#[test]
fn a_unit_that_was_merged_gets_its_new_tasks_done() {
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    world.run(&[]).assert_code(0);
    world.task("a", 2, &[1], "test -f src/a-2.txt", "do: touch src/a-2.txt").commit();
    world.run(&[]).assert_code(0);
    assert!(world.at("main", "src/a-2.txt").is_some());
}

/// The unit is merged, with each of its tasks in a commit of its own.
fn assert_merged(world: &World, case: &str) {
    for task in 1..=2 {
        assert!(world.at("main", &format!("src/a-{task}.txt")).is_some(), "{case}");
        let subject = format!("feat(a): complete task #{task} - Step {task}");
        let of_main = world.env.git(["log", "--format=%s", "main"]);
        assert_eq!(of_main.lines().filter(|line| *line == subject).count(), 1, "{case}: {of_main}");
    }
    assert!(types_of(&world.run_events(), "a").contains(&"unit.merged"), "{case}");
}

#[test]
fn commits_that_an_agent_takes_off_its_branch_in_the_last_checks_are_put_back() {
    // fault A10: what they proved stays proven, and what is on no branch then is kept on one.
    for (taking, is_aside) in [
        ("git reset -q --soft main", false),
        ("git reset -q --soft main && git add -A && git commit -qm all", true),
        ("git checkout -q --orphan mine && git commit -qm orphan", false),
        ("git checkout -q --detach && git reset -q --soft main && git commit -qam off", true),
        ("git symbolic-ref HEAD refs/heads/main", false),
        ("git update-ref -d \"$(git symbolic-ref HEAD)\"", false),
    ] {
        let world = World::new();
        // In a sandbox what is taken off the branch is taken off the agent's own.
        world.env.without_sandbox();
        world.config("units: {baseline: [{name: flag, run: test -f flag}]}\n");
        world.unit("a", 2, &[]);
        world.env.write("fix.sh", format!("touch flag; {taking}\n"));
        world.commit();
        let output = world.run(&["-v"]).assert_code(0);
        assert!(output.stdout.contains("`dacapo/a-"), "{taking}: {}", output.stdout);
        assert_merged(&world, taking);
        assert!(world.at("main", "flag").is_some(), "{taking}");
        let branches = world.env.git(["branch", "--list", "dacapo/aside-*"]);
        assert_eq!(!branches.is_empty(), is_aside, "{taking}: {branches}");
    }
}

#[test]
fn commits_that_an_agent_takes_off_its_branch_in_a_turn_are_put_back() {
    // fault A10
    for taking in ["git reset -q --soft main", "git symbolic-ref HEAD refs/heads/main"] {
        let world = World::new();
        world.unit("a", 1, &[]);
        let body = format!("do: echo two > src/a-2.txt && {taking}");
        world.task("a", 2, &[1], "test -f src/a-2.txt", &body).commit();
        world.run(&[]).assert_code(0);
        assert_merged(&world, taking);
    }
}

#[test]
fn a_task_is_never_committed_to_the_target_itself() {
    // fault A10: the very first turn, in which branch and target are the same commit.
    let world = World::new();
    let body = "do: touch done && git symbolic-ref HEAD refs/heads/main";
    world.plan("a", &[]).task("a", 1, &[], "test -f done", body).commit();
    let before = world.env.git(["rev-parse", "main"]);
    world.run(&["--no-merge"]).assert_code(0);
    assert_eq!(world.env.git(["rev-parse", "main"]), before);
}

#[test]
fn what_was_taken_off_a_branch_between_runs_is_put_back() {
    // fault A10: the agent squashes and fails, or somebody takes everything back; the next run needs no help.
    let squash =
        "do: echo wip > wip && git reset -q --soft main && git add -A && git commit -qm all\nclaim: no";
    for (body, is_reset, is_aside) in [(squash, false, true), ("claim: no", true, false)] {
        let world = World::new();
        world.unit("a", 1, &[]);
        world.task("a", 2, &[1], "test -f src/a-2.txt", body).commit();
        world.run(&[]).assert_code(1);
        if is_reset {
            let events = world.run_events();
            let made = events.iter().find(|event| event["type"] == "worktree.created").unwrap();
            world.env.git(["-C", made["path"].as_str().unwrap(), "reset", "-q", "--hard", "main"]);
        }
        let honest = world.env.root().join("honest.sh");
        std::fs::write(
            &honest,
            "test -f src/a-1.txt && echo two > src/a-2.txt && sed -i 's/^status: .*/status: complete/' specs/tasks/a/02-step.md\n",
        )
        .unwrap();
        let agent = format!("sh {}", honest.display());
        let again = ["unit", "run", "--trust", "--retry-failed", "--agent-cmd", &agent];
        let output = world.env.run(again).assert_code(0);
        assert!(output.stdout.contains("took accepted commits off `dacapo/a-"), "{}", output.stdout);
        assert_merged(&world, body);
        let branches = world.env.git(["branch", "--list", "dacapo/aside-*"]);
        assert_eq!(!branches.is_empty(), is_aside, "{body}: {branches}");
    }
}

#[test]
fn a_loop_that_was_cut_short_goes_on_only_as_this_run_would_have_it() {
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    let slow = format!("sh -c 'touch {}/began; sleep 60'", world.env.root().display());
    let running = world.env.spawn(["unit", "run", "--trust", "--agent-cmd", &slow, "--kill-grace", "1s"]);
    let began = world.env.root().join("began");
    dacapo_testkit::wait_until("the agent runs", std::time::Duration::from_secs(60), || began.exists());
    running.signal(dacapo_testkit::Signal::INT);
    running.wait(std::time::Duration::from_secs(60));
    let output = world.run(&[]).assert_code(0);
    assert!(output.stdout.contains(&format!("agent {}", unit_agent().file_name().unwrap().display())));
    assert!(world.at("main", "src/a-1.txt").is_some());
}

#[test]
fn a_merged_units_proof_can_be_checked_again() {
    // The worktree is gone; the repository has everything.
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    world.run(&[]).assert_code(0);
    let events = world.run_events();
    let done = events.iter().find(|event| event["type"] == "task.completed").unwrap();
    let output = world.env.run(["verify", done["loop"].as_str().unwrap()]).assert_code(0);
    assert!(output.stdout.contains("sound"), "{}", output.stdout);
    let logs = world.env.run(["receipt", "a"]).assert_code(0);
    assert!(logs.stdout.contains("task status"), "{}", logs.stdout);
}

#[test]
fn names_mean_what_is_in_this_repository() {
    let world = World::new();
    world.unit("a", 1, &[]).commit();
    let elsewhere = world.env.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut other = world.env.dacapo(["run", "say nothing", "--task", "a", "-n", "1", "--agent-cmd", "true"]);
    other.current_dir(&elsewhere);
    world.env.run_command(other).assert_code(3);
    // Blocked by nothing, worked on by nobody: its loop is none of another folder's.
    let broken = ["unit", "run", "--trust", "--agent-cmd", "true", "--target", "main"];
    world.config("worktree: {setup: [{run: 'exit 1'}]}\n").commit();
    world.env.run(broken).assert_code(1);
    let output = world.env.run(["cancel", "a"]).assert_code(2);
    assert!(output.stderr.contains("no loop has worked on unit `a`"), "{}", output.stderr);
}

#[test]
fn what_agents_print_is_shown_to_whoever_asks() {
    let world = World::new();
    world.plan("a", &[]).task("a", 1, &[], "true", "do: echo hello from inside && touch x").commit();
    let output = world.run(&["-v"]).assert_code(0);
    assert!(output.stdout.contains("│ hello from inside"), "{}", output.stdout);
}

#[test]
fn clean_names_the_worktree_of_a_unit_that_was_renamed() {
    let world = World::new();
    world.plan("a", &[]).task("a", 1, &[], "test -f done", "claim: no").commit();
    world.run(&["-n", "1"]).assert_code(1);
    let clean = || world.env.run(["clean", "--dry-run"]).assert_code(0).stdout;
    assert!(!clean().contains("worktree"), "{}", clean());
    world.env.git(["mv", "specs/tasks/a", "specs/tasks/b"]);
    std::fs::remove_dir(world.env.workspace().join("specs/tasks/a")).ok();
    // Its plan still calls it `a`.
    assert!(!clean().contains("worktree"), "{}", clean());
    world.plan("b", &[]).commit();
    let said = clean();
    let branch = world.env.git(["branch", "--list", "dacapo/a-*", "--format=%(refname:short)"]);
    for part in
        ["there is no unit `a` in `", "worktree remove --force ", &format!("branch -D {}", branch.trim())]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    // What it says to type does it.
    let command = said.split('`').find(|part| part.starts_with("git -C")).unwrap().to_owned();
    let mut shell = world.env.command("sh");
    assert!(shell.args(["-c", &command]).output().unwrap().status.success(), "{command}");
    assert!(!clean().contains("worktree"), "{}", clean());
}

#[test]
fn a_script_of_a_later_check_is_protected_unless_a_task_writes_it() {
    // The baseline and the backpressure of a task that is not ready run on what this turn leaves.
    for (later, head, code) in [
        ("baseline", "", 1),
        ("baseline", "writes: [later.sh]\n", 0),
        ("task", "", 1),
        ("task", "writes: [later.sh]\n", 0),
    ] {
        let world = World::new();
        world.plan("a", &[]);
        world.env.write("later.sh", "test -f never\n");
        let task = format!(
            "---\ntask: 1\nstatus: pending\nbackpressure: test -f one\n{head}---\n\n# Step 1\n\ndo: touch one && echo exit 0 > later.sh\n"
        );
        world.env.write("specs/tasks/a/01-step.md", task);
        match later {
            "baseline" => {
                world.config("units: {baseline: [{name: later, run: sh later.sh}]}\n");
            }
            _ => {
                world.task("a", 2, &[1], "sh later.sh", "do: touch two");
            }
        }
        world.commit();
        let output = world.run(&["-n", "1"]).assert_code(code);
        let is_named = output.stderr.contains("later.sh") || output.stdout.contains("later.sh");
        assert!(is_named || code == 0, "{later}: {}{}", output.stdout, output.stderr);
    }
}

#[test]
fn a_task_that_is_complete_on_the_target_without_a_receipt_is_not_believed() {
    // A run worked on it in vain, and then the target says that it is done.
    let world = World::new();
    world.plan("a", &[]);
    world.task("a", 1, &[], "test -f one", "do: true");
    world.unit("b", 1, &[]).commit();
    world.run(&["-n", "1"]).assert_code(1);
    world.env.git(["checkout", "-q", "main"]);
    let done = std::fs::read_to_string(world.env.workspace().join("specs/tasks/a/01-step.md")).unwrap();
    world.env.write("specs/tasks/a/01-step.md", done.replace("status: pending", "status: complete"));
    world.env.write("one", "");
    world.commit();
    let output = world.run(&["-n", "1"]).assert_code(1);
    let said = "task #1 of a is `complete` in its file, and no receipt proves it";
    assert!(output.stderr.contains(said), "{}", output.stderr);
    // What has a receipt is believed as before.
    assert!(!output.stderr.contains("of b is"), "{}", output.stderr);
    // The user did it by hand, and says so.
    let shown = world.env.run(["trust", "--yes"]).assert_code(0).stdout;
    assert!(shown.contains("done a #1 without a receipt"), "{shown}");
    let output = world.run(&["-n", "1"]).assert_code(0);
    assert!(!output.stderr.contains(said), "{}", output.stderr);
}

#[test]
fn what_became_complete_since_the_first_run_without_a_loop_is_said_and_not_believed() {
    let world = World::new();
    // Complete before the first run: that is how the user's work stands.
    world.unit("old", 1, &[]);
    let file = |unit: &str| format!("specs/tasks/{unit}/01-step.md");
    let complete = |unit: &str| {
        let text = std::fs::read_to_string(world.env.workspace().join(file(unit))).unwrap();
        world.env.write(file(unit), text.replace("status: pending", "status: complete"));
    };
    complete("old");
    world.unit("a", 1, &[]).unit("later", 1, &[]).unit("last", 1, &[]).commit();
    world.run(&["--unit", "a"]).assert_code(0);
    let output = world.run(&["--unit", "old"]);
    assert!(!output.stderr.contains("no receipt proves it"), "{}", output.stderr);
    // No loop has worked on this one, and by now its file says that it is done.
    complete("later");
    world.commit();
    let output = world.run(&["--unit", "later"]).assert_code(0);
    let said = "task #1 of later is `complete` in its file, and no receipt proves it: it is worked on again";
    assert!(output.stderr.contains(said), "{}", output.stderr);
    assert!(world.at("main", "src/later-1.txt").is_some(), "{}", output.stdout);
    let has_receipt = |unit: &str| {
        world.run_events().iter().any(|event| event["type"] == "task.completed" && event["unit"] == unit)
    };
    assert!(has_receipt("later"));
    // From now on a receipt proves it.
    let output = world.run(&["--unit", "later"]).assert_code(0);
    assert!(!output.stderr.contains("no receipt proves it"), "{}", output.stderr);
    // The user did this one by hand, and says so.
    complete("last");
    world.commit();
    world.env.run(["trust", "--yes"]).assert_code(0);
    let output = world.run(&["--unit", "last"]).assert_code(0);
    assert!(!output.stderr.contains("no receipt proves it"), "{}", output.stderr);
    assert!(world.at("main", "src/last-1.txt").is_none());
}
