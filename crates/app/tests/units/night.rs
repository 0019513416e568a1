//! A whole night: six units, twenty-four tasks, a diamond, one impossible task, one conflict.

use std::{collections::BTreeSet, time::Duration};

use dacapo_testkit::{Signal, wait_until};

use crate::world::World;

const DONE: [&str; 4] = ["api", "app", "core", "web"];

/// core → (api, web) → app; api and web change the same file; hard has a task nobody can do, and late waits for it.
pub(crate) fn night() -> World {
    let world = World::new();
    world.unit("core", 4, &[]).unit("app", 4, &["api", "web"]).unit("late", 4, &["hard"]);
    world.env.write("shared.txt", "first\n");
    for (unit, number) in [("api", 2), ("web", 3)] {
        world.unit(unit, 4, &["core"]);
        world.task(
            unit,
            number,
            &[number - 1],
            &format!("grep -q '^{unit}$' shared.txt && test -f src/{unit}-{number}.txt"),
            // Sorted, as the agent resolves the conflict: the order of merges leaves no trace.
            &format!(
                "do: (cat shared.txt; echo {unit}) | sort -u -o shared.txt && touch src/{unit}-{number}.txt"
            ),
        );
    }
    world.unit("hard", 4, &["core"]);
    world.task("hard", 3, &[2], "test -f never.txt", "do: echo I did it");
    world.commit();
    world
}

/// What must be true when the night is over, however often it was interrupted.
pub(crate) fn assert_morning(world: &World) {
    let subjects = world.subjects();
    let tasks: Vec<(&String, &usize)> =
        subjects.iter().filter(|(subject, _)| subject.starts_with("feat(")).collect();
    let mut expected: BTreeSet<String> = DONE
        .iter()
        .flat_map(|unit| (1..=4).map(move |n| format!("feat({unit}): complete task #{n} - Step {n}")))
        .collect();
    expected.extend((1..=2).map(|n| format!("feat(hard): complete task #{n} - Step {n}")));
    // req 44: every commit exactly once, in exactly these words.
    assert_eq!(tasks.iter().map(|(subject, _)| (*subject).clone()).collect::<BTreeSet<_>>(), expected);
    assert!(tasks.iter().all(|(_, times)| **times == 1), "{tasks:?}");
    for unit in DONE {
        for number in 1..=4 {
            let file = world.at("main", &format!("specs/tasks/{unit}/{number:02}-step.md")).unwrap();
            assert!(file.contains("\nstatus: complete\n"), "{unit} #{number}: {file}");
        }
    }
    // No task file is left falsely complete (req 41), and nothing of what failed is in the target.
    assert!(world.at("main", "src/hard-1.txt").is_none());
    assert!(!world.at("main", "specs/tasks/hard/03-step.md").unwrap().contains("status: complete"));
    assert_eq!(world.at("main", "shared.txt").unwrap(), "api\nfirst\nweb\n");
    assert_green(world);
    assert_eq!(world.env.git(["status", "--porcelain"]), "");
    let units: serde_json::Value =
        serde_json::from_str(&world.env.run(["status", "--units", "--json"]).assert_code(0).stdout).unwrap();
    let status = |name: &str| {
        let unit = units.as_array().unwrap().iter().find(|unit| unit["unit"] == name).cloned().unwrap();
        (unit["status"].as_str().unwrap().to_owned(), unit["blocked_by"].clone())
    };
    for unit in DONE {
        assert_eq!(status(unit).0, "merged", "{unit}");
    }
    assert_eq!(status("hard").0, "failed");
    assert_eq!(status("late"), ("blocked".to_owned(), serde_json::json!(["hard"])));
    // Merged units leave neither a branch nor a worktree; the failed one keeps both.
    let branches = world.env.git(["branch", "--list", "dacapo/*", "--format=%(refname:short)"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    assert!(branches.starts_with("dacapo/hard-"), "{branches}");
    assert_eq!(world.env.git(["worktree", "list"]).lines().count(), 2);
}

/// Every commit the target ever was at passes everything that was complete in it.
fn assert_green(world: &World) {
    let seen = world.env.git(["log", "-g", "--format=%H", "main"]);
    for commit in seen.lines() {
        for unit in ["api", "app", "core", "web", "hard", "late"] {
            for number in 1..=4 {
                let task = world.at(commit, &format!("specs/tasks/{unit}/{number:02}-step.md"));
                if task.is_some_and(|task| task.contains("\nstatus: complete\n")) {
                    assert!(
                        world.at(commit, &format!("src/{unit}-{number}.txt")).is_some(),
                        "{commit}: {unit} #{number}"
                    );
                }
            }
        }
    }
}

fn assert_receipts(world: &World) {
    let events = world.run_events();
    let mut proven = BTreeSet::new();
    for event in events.iter().filter(|event| event["type"] == "task.completed") {
        let id = event["loop"].as_str().unwrap();
        let receipt: serde_json::Value =
            serde_json::from_str(&world.env.run(["receipt", id, "--json"]).assert_code(0).stdout).unwrap();
        assert_eq!(receipt["verdict"], "verified");
        proven.insert((event["unit"].as_str().unwrap().to_owned(), event["task"].as_u64().unwrap()));
    }
    assert_eq!(proven.len(), 18, "{proven:?}");
}

#[test]
fn a_night_comes_to_the_same_morning_at_any_parallelism() {
    // req 20, req 32, req 35, req 39, req 41, req 43, req 44, req 46,
    // req 48, req 50, req 54, req 55; fault H11
    let mut trees = BTreeSet::new();
    for parallel in ["1", "4"] {
        let world = night();
        let output = world.run(&["--parallel", parallel]).assert_code(1);
        assert!(output.stderr.contains("hard: "), "{}", output.stderr);
        assert_morning(&world);
        assert_receipts(&world);
        trees.insert(world.env.git(["rev-parse", "main^{tree}"]));
        assert_eq!(world.env.survivors(), Vec::<u32>::new());
    }
    assert_eq!(trees.len(), 1);
}

#[test]
fn nights_that_are_killed_fifty_times_come_to_the_same_morning() {
    // fault B7, fault F14, fault H2: SIGKILL at random moments, and the same command again.
    let (mut kills, mut nights) = (0, 0);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    while kills < 50 {
        let world = night();
        nights += 1;
        loop {
            // xorshift: a moment that differs from kill to kill, and is the same in each run of this test.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let moment = usize::try_from(random % 32).unwrap();
            let mut running = world.env.spawn(world.args(&["--parallel", "4", "--json"]));
            let limit = Duration::from_secs(60);
            wait_until("enough events, or the end", limit, || {
                running.stdout().lines().count() > moment || !running.is_running()
            });
            let is_cut_short = running.is_running() && kills < 50;
            if is_cut_short {
                running.signal(Signal::KILL);
                kills += 1;
            }
            running.wait(limit);
            if !is_cut_short && world.at("main", "src/app-4.txt").is_some() {
                break;
            }
        }
        world.run(&["--retry-failed"]);
        assert_morning(&world);
        assert_eq!(world.env.survivors(), Vec::<u32>::new());
    }
    assert!(nights < 25, "hardly a kill came before the end");
}
