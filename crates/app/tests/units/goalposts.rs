//! Tests that the agents of units change: what passes only with their own version is refused, `writes:` frees what it names, and a
//! target that other hands moved is not what the tests of the next run start from.

use std::time::Duration;

use dacapo_testkit::{Signal, wait_until};

use crate::{control::wait_for_file, world::World};

const TEST: &str = "tests/a.sh";

/// A repository whose only test is red, with one task that it proves and whose agent does what `body` says.
fn world(writes: &str, body: &str) -> World {
    let world = World::new();
    world.env.write(TEST, "grep -q fixed src/work.txt\n");
    world.env.write("src/work.txt", "broken\n");
    world.plan("a", &[]);
    let text = format!(
        "---\ntask: 1\nstatus: pending\nbackpressure: for t in tests/*.sh; do sh $t || exit 1; done\nwrites: [{writes}]\n---\n\n\
         # Step\n\ndo: {body}\n"
    );
    world.env.write("specs/tasks/a/01-step.md", text);
    world.commit();
    world
}

fn refusals(world: &World) -> Vec<String> {
    let events = world.env.events(None);
    let refused = events.iter().filter(|event| event["type"] == "claim_refused");
    refused.map(|event| format!("{}: {}", event["reason"], event["detail"])).collect()
}

#[test]
fn a_task_is_proven_by_the_tests_as_they_were_unless_it_is_to_write_them() {
    for (name, writes, body, is_believed) in [
        ("a weaker test", "", "echo true > tests/a.sh", false),
        ("a test deleted", "", "rm tests/a.sh; echo true > tests/b.sh", false),
        ("the work", "", "echo fixed > src/work.txt", true),
        ("the work and a case more", "", "echo fixed > src/work.txt; echo 'test -d src' >> tests/a.sh", true),
        ("a test that the task names", "tests/a.sh", "echo 'test -s src/work.txt' > tests/a.sh", true),
        ("a folder that the task names", "tests/**", "mkdir -p tests; echo true > tests/a.sh", true),
    ] {
        let world = world(writes, body);
        let output = world.run(&["--max-retries", "1"]);
        assert_eq!(output.code == Some(0), is_believed, "{name}: {}\n{:?}", output.stderr, refusals(&world));
        if !is_believed {
            let refused = refusals(&world);
            assert!(
                refused[0].starts_with("\"narrowed\"") && refused[0].contains(TEST),
                "{name}: {refused:?}"
            );
            assert!(!refused[0].contains("specs/"), "the task's own file is no test: {refused:?}");
        }
    }
    // A user who wants it so says so.
    let world = world("", "echo true > tests/a.sh");
    world.run(&["--max-retries", "1", "--tests", "free"]).assert_code(0);
}

#[test]
fn a_try_does_not_start_from_the_tests_that_the_try_before_left() {
    // The first claim is refused for its test, which stays in the worktree; the second changes nothing of it.
    let world = world("", "echo true > tests/a.sh; echo x >> src/more.txt");
    world.run(&["--max-retries", "1"]).assert_code(1);
    world.run(&["--max-retries", "1", "--retry-failed"]).assert_code(1);
    let refused = refusals(&world);
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused.iter().all(|refusal| refusal.starts_with("\"narrowed\"")), "{refused:?}");
}

#[test]
fn a_weaker_test_that_an_agent_commits_to_the_target_is_said_and_not_believed() {
    let world = world("", "true");
    // In a sandbox its commit would be on a branch of its own.
    world.env.without_sandbox();
    // The agent knows the path of the checkout.
    let checkout = world.env.workspace().display().to_string();
    let weaken = format!(
        "cd {checkout} && echo true > tests/a.sh && git commit -qam weaker; cd -; echo x >> src/more.txt"
    );
    let text = world.env.read("specs/tasks/a/01-step.md").replace("do: true", &format!("do: {weaken}"));
    world.env.write("specs/tasks/a/01-step.md", text);
    world.commit();
    let output = world.run(&["--max-retries", "1"]).assert_code(1);
    assert!(
        output.stderr.contains("commits while agents worked that dacapo did not make"),
        "{}",
        output.stderr
    );
    let moved =
        |world: &World| world.run_events().into_iter().find(|event| event["type"] == "unit.target_moved");
    let event = moved(&world).expect("it is recorded");
    assert_eq!((&event["target"], &event["paths"][0]), (&"main".into(), &TEST.into()), "{event}");
    assert_eq!(world.at("main", TEST).unwrap(), "true\n");
    // The next try takes the target as it is, and has to pass the test as it was.
    world.run(&["--max-retries", "1", "--retry-failed"]).assert_code(1);
    let refused = refusals(&world);
    assert!(refused.last().unwrap().starts_with("\"narrowed\""), "{refused:?}");
    assert!(refused.last().unwrap().contains(TEST), "{refused:?}");
    // The user looks at the test and agrees to it.
    let shown = world.env.run(["trust", "--show"]);
    assert!(format!("{}{}", shown.stdout, shown.stderr).contains(TEST), "{}{}", shown.stdout, shown.stderr);
    world.env.run(["trust", "--yes"]).assert_code(0);
    world.run(&["--max-retries", "1", "--retry-failed"]).assert_code(0);
}

#[test]
fn a_weaker_test_that_came_to_the_target_when_the_scheduler_was_killed_is_said_and_not_believed() {
    const LONG: Duration = Duration::from_secs(25);
    let world = world("", "true");
    // In a sandbox its commit would be on a branch of its own.
    world.env.without_sandbox();
    let checkout = world.env.workspace().display().to_string();
    let began = world.env.root().join("began").display().to_string();
    // The first agent commits to the target and lives until its scheduler is killed; the second does nothing of use.
    let body = format!(
        "echo x >> src/more.txt; test -e {began} || {{ cd {checkout}; echo true > tests/a.sh; git commit -qam weaker; \
         touch {began}; sleep 100; }}"
    );
    let text = world.env.read("specs/tasks/a/01-step.md").replace("do: true", &format!("do: {body}"));
    world.env.write("specs/tasks/a/01-step.md", text);
    world.commit();
    let running = world.env.spawn(world.args(&["--max-retries", "1"]));
    wait_for_file(&world, "began");
    running.signal(Signal::KILL);
    running.wait(LONG);
    wait_until("nothing is left", LONG, || world.env.survivors().is_empty());
    let output = world.run(&["--max-retries", "1", "--retry-failed"]).assert_code(1);
    assert!(
        output.stderr.contains("commits while agents worked that dacapo did not make"),
        "{}",
        output.stderr
    );
    assert!(world.run_events().iter().any(|event| event["type"] == "unit.target_moved"));
    let refused = refusals(&world);
    assert!(refused.last().is_some_and(|refusal| refusal.starts_with("\"narrowed\"")), "{refused:?}");
    world.env.run(["trust", "--yes"]).assert_code(0);
    world.run(&["--max-retries", "1", "--retry-failed"]).assert_code(0);
}
