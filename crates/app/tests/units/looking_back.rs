//! What a person has after a run of units, without typing an id: its end, its proofs, its changes, and the view of it.

use dacapo_testkit::{Terminal, live_part, wait_until};

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
    let run = end.split_once("dacapo receipt ").and_then(|(_, rest)| rest.split_once('`')).expect("an id").0;
    insta::assert_snapshot!(world.env.redact(&end.replace(run, "[RUN]")), @r"
    1 unit merged, [DURATION]
      changed  specs/tasks/a/01-step.md | 2 +-
               specs/tasks/a/02-step.md | 2 +-
               src/a-1.txt              | 1 +
               src/a-2.txt              | 1 +
               4 files changed, 4 insertions(+), 2 deletions(-); merged into main
      verified by `test -f src/a-1.txt`, `test -f src/a-2.txt`
      next     `dacapo receipt [RUN]` shows the proofs, `dacapo status` the units
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
    let whole = without_id(&["diff"]);
    assert!(whole.contains("+a 1") && whole.contains("+a 2"), "the whole run, not its newest loop: {whole}");
    without_id(&["logs"]);
    without_id(&["snapshots"]);
    assert!(without_id(&["verify"]).contains("is sound."));
    without_id(&["why"]);
    world.env.run(["status", "-"]).assert_code(0);
}

#[test]
fn a_red_check_shows_its_last_lines_and_what_tries_again_is_the_next_step() {
    let world = World::new();
    let check = "seq 9; echo expected 42, got 41; exit 3";
    world.plan("a", &[]).task("a", 1, &[], check, "do: touch one").commit();
    let output = world.run(&["-n", "1"]).assert_code(1);
    let shown: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("  a  ")).collect();
    insta::assert_snapshot!(world.env.redact(&shown[1..].join("\n")), @"
    a  #1 Step 1: refused, its backpressure exited 3
    a  │ 6
    a  │ 7
    a  │ 8
    a  │ 9
    a  │ expected 42, got 41
    a  #1 Step 1: given up
    a  exhausted: task #1 was given up: 1 iteration used without an accepted claim; the last was refused: task #1: gate `task #1` exited 3
    ");
    let unit = world.env.run(["why", "a"]).assert_code(0).stdout;
    let run = world.env.run(["why"]).assert_code(0).stdout;
    for why in [&unit, &run] {
        let (_, quoted) =
            why.split_once("The end of what the gate `task #1` printed:\n").expect("the gate's words");
        assert!(quoted.starts_with("  1\n") && quoted.ends_with("  9\n  expected 42, got 41\n"), "{why}");
    }
    assert!(
        run.contains(
            "Next: `dacapo why a` shows what its gate said; `dacapo unit run --retry-failed` tries again."
        ),
        "{run}"
    );
}

#[test]
fn the_diff_of_a_run_is_what_came_to_the_target_and_what_did_not() {
    let world = World::new();
    world.unit("a", 1, &[]).unit("b", 2, &[]).plan("c", &[]);
    // The third unit changes a file and comes to no good end.
    world.task("c", 1, &[], "test -f never", "do: echo half > c.txt && exit 1");
    world.commit();
    world.run(&["--max-retries", "1"]).assert_code(1);
    let diff = |args: &[&str]| world.env.run([&["diff"], args].concat()).assert_code(0).stdout;
    let stat = diff(&["--stat"]);
    let heads: Vec<&str> = stat.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(heads, ["# merged work, merged into main", "# unit c, not merged"], "{stat}");
    for file in ["src/a-1.txt", "src/b-1.txt", "src/b-2.txt", "c.txt"] {
        assert_eq!(stat.matches(&format!(" {file} ")).count(), 1, "{file}: {stat}");
    }
    // A commit of other hands is none of the run's.
    world.env.write("by-the-user.txt", "x\n");
    world.commit();
    assert_eq!(diff(&["--stat"]), stat);
    let one = diff(&["b", "--stat"]);
    assert!(one.contains("src/b-2.txt") && !one.contains("src/a-1.txt"), "{one}");
    assert!(diff(&["c"]).contains("+half"));
}

#[test]
fn attach_shows_what_the_agents_of_a_run_print() {
    let world = World::new();
    slow_unit(&world, "a", &[], "echo reading the tests;");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    let attached = world.env.spawn(["attach", "-v"]);
    attached.wait_for_line(|line| line.contains("│ reading the tests"), std::time::Duration::from_secs(25));
    go(&world);
    world.env.run(["cancel"]).assert_code(0);
    wait_until("both have ended", std::time::Duration::from_secs(25), || world.env.survivors().is_empty());
    drop((running, attached));
}

#[test]
fn the_live_view_of_units_fits_three_widths() {
    let world = World::new();
    slow_unit(&world, "a", &[], "echo reading the tests;");
    world.commit();
    let running = world.env.spawn(world.args(&[]));
    wait_for_file(&world, "began-a");
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    for columns in [40, 80, 160] {
        let terminal = Terminal::open(&world.env, columns, 30, &format!("{dacapo} attach"));
        terminal.wait_for("p pause");
        let screen = terminal.wait_for("  reading the tests");
        assert!(screen.lines().all(|line| line.chars().count() <= columns as usize), "{screen}");
        insta::assert_snapshot!(format!("live_units_{columns}"), live_part(&world.env, &screen));
        terminal.press(&["d"]);
        terminal.wait_for("left with 0");
    }
    go(&world);
    world.env.run(["cancel"]).assert_code(0);
    drop(running);
}
