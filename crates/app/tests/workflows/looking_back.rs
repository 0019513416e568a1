//! What a person has after a run of a workflow, without typing an id: its end, its changes, and the view of a run.

use dacapo_testkit::{Terminal, live_part, wait_until};

use crate::support::{SOON, args, run, run_id, with};

const STEPS: &str = "nodes:\n\
    - {id: one, prompt: write one}\n\
    - {id: beside, prompt: write beside, worktree: true, depends_on: [one]}\n\
    - {id: two, prompt: write two, depends_on: [beside]}\n";

/// Each step writes a file of its own, and a line into one of all.
const WRITES: &str =
    r#"sh 'me=$(echo "$DACAPO_TASK" | sed "s/.*\.//"); echo "$me" > "$me.txt"; echo "$me" >> all.txt'"#;

#[test]
fn the_end_of_a_run_says_what_there_is_now_and_diff_shows_all_of_it() {
    let env = with(STEPS);
    env.write("all.txt", "start\n");
    env.git(["add", "--all"]);
    env.git(["commit", "-q", "-m", "files"]);
    env.script(WRITES);
    let output = run(&env, &[]).assert_code(0);
    let end = output.stderr.split_once("  changed ").expect("an end");
    insta::assert_snapshot!(env.redact(&format!("  changed {}", end.1)), @"
      changed  all.txt    | 3 +++
               beside.txt | 1 +
               one.txt    | 1 +
               two.txt    | 1 +
               4 files changed, 6 insertions(+); not committed
      time     [DURATION]
      next     `dacapo diff [LOOP]` shows the change, `dacapo receipt [LOOP]` the proof
    dacapo: w completed [run [LOOP]]
    ");
    let whole = env.run(["diff"]).assert_code(0);
    for line in ["+one\n+beside\n+two\n", "b/one.txt", "b/beside.txt", "b/two.txt"] {
        assert_eq!(
            whole.stdout.matches(line).count(),
            if line.starts_with('b') { 2 } else { 1 },
            "{line}: {}",
            whole.stdout
        );
    }
    let by_id = env.run(["diff", &run_id(&output), "--stat"]).assert_code(0);
    assert!(by_id.stdout.ends_with(" 4 files changed, 6 insertions(+)\n"), "{}", by_id.stdout);
}

#[test]
fn the_diff_of_worktrees_that_end_the_run_has_a_part_for_each() {
    let env = with(
        "nodes:\n- {id: a, prompt: write a, worktree: true}\n- {id: b, prompt: write b, worktree: true}\n",
    );
    env.write("README.md", "read me\n");
    env.git(["add", "--all"]);
    env.git(["commit", "-q", "-m", "files"]);
    env.script(r#"sh 'me=$(echo "$DACAPO_TASK" | sed "s/.*\.//"); echo "$me" > "$me.txt"'"#);
    run(&env, &[]).assert_code(0);
    let whole = env.run(["diff"]).assert_code(0).stdout;
    for line in ["+++ b/a.txt", "+++ b/b.txt"] {
        assert_eq!(whole.matches(line).count(), 1, "{line}: {whole}");
    }
}

#[test]
fn attach_shows_a_run_at_three_widths_and_its_end() {
    let env =
        with("nodes:\n- {id: one, prompt: write one}\n- {id: two, bash: cat one.txt, depends_on: [one]}\n");
    env.script("say reading the tests of this project; write ready; wait-file go; write one.txt 1");
    let running = env.spawn(args(&env, &[]));
    wait_until("the agent works", SOON, || env.workspace().join("ready").exists());
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    for columns in [40, 80, 160] {
        let terminal = Terminal::open(&env, columns, 30, &format!("{dacapo} attach"));
        terminal.wait_for("p pause");
        // The step is told when the agent's loop was seen.
        let screen = terminal.wait_for("step one");
        assert!(screen.lines().all(|line| line.chars().count() <= columns as usize), "{screen}");
        assert!(screen.contains("one"), "{screen}");
        insta::assert_snapshot!(format!("live_workflow_{columns}"), live_part(&env, &screen));
        terminal.press(&["d"]);
        terminal.wait_for("left with 0");
    }
    let terminal = Terminal::open_as(&env, "end", 100, 40, &format!("{dacapo} attach"));
    terminal.wait_for("p pause");
    env.write("go", "");
    let screen = terminal.wait_for("left with 0");
    assert!(screen.contains("one.txt"), "what it has changed: {screen}");
    running.wait(SOON).assert_code(0);
}
