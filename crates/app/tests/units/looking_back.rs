//! What a person has after a run of units, without typing an id: its end, its proofs, its changes, and the view of it.

use dacapo_testkit::wait_until;

use crate::{
    control::{go, slow_unit, wait_for_file},
    world::World,
};

#[test]
fn the_end_of_a_run_says_what_there_is_now() {
    let world = World::new();
    world.unit("a", 2, &[]).commit();
    let output = world.run(&[]).assert_code(0);
    let end = output.stdout.split_once("\ncompleted: ").expect("an end").1;
    insta::assert_snapshot!(world.env.redact(end), @r"
    1 unit merged, [DURATION]
      changed  specs/tasks/a/01-step.md | 2 +-
               specs/tasks/a/02-step.md | 2 +-
               src/a-1.txt              | 1 +
               src/a-2.txt              | 1 +
               4 files changed, 4 insertions(+), 2 deletions(-); merged into main
      verified by `test -f src/a-1.txt`, `test -f src/a-2.txt`
      next     `dacapo receipt [LOOP]` shows the proofs, `dacapo status` the units
    ");
    // Every command that takes an id takes none after a run, too.
    let without_id = |command: &[&str]| {
        let output = world.env.run(command).assert_code(0);
        assert!(output.stderr.starts_with("(run "), "{command:?}: {}", output.stderr);
        output.stdout
    };
    let receipts = without_id(&["receipt"]);
    assert_eq!(receipts.matches("Receipt of loop ").count(), 2, "{receipts}");
    for words in ["agent       unit-agent", "`test -f src/a-1.txt` exited 0", "files       src/a-2.txt"] {
        assert!(receipts.contains(words), "{words}: {receipts}");
    }
    assert!(without_id(&["receipt", "--json"]).starts_with('['));
    assert!(without_id(&["diff"]).contains("+a 2"), "the worktree is gone, its states are kept");
    without_id(&["logs"]);
    without_id(&["snapshots"]);
    assert!(without_id(&["verify"]).contains("is sound."));
    without_id(&["why"]);
    world.env.run(["status", "-"]).assert_code(0);
}

#[test]
fn attach_shows_what_the_agents_of_a_run_print() {
    let world = World::new();
    slow_unit(&world, "a", &[], "echo reading the tests;");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    let attached = world.env.spawn(["attach"]);
    attached.wait_for_line(|line| line.contains("│ reading the tests"), std::time::Duration::from_secs(25));
    go(&world);
    world.env.run(["cancel"]).assert_code(0);
    wait_until("both have ended", std::time::Duration::from_secs(25), || world.env.survivors().is_empty());
    drop((running, attached));
}
