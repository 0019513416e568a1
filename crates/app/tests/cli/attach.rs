//! `dacapo attach` in a real terminal: tmux draws what a person would see.

use dacapo_testkit::{Terminal, wait_until};

use crate::{
    output::without_hash,
    support::{LONG, Task, assert_has, world},
};

/// The lines with letters in them, without what turns and counts.
fn steady(screen: &str) -> Vec<String> {
    let lines = screen.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(
            |line| {
                if line.contains(" · ") && line.contains("iteration ") { "…".into() } else { line.into() }
            },
        )
        .collect()
}

#[test]
fn the_live_view_fits_40_80_and_160_columns_and_enter_and_resize_leave_no_traces() {
    let env = world();
    let running =
        env.start_loop("say reading the tests of this project; write ready; wait-file go; promise", &[]);
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    for columns in [40, 80, 160] {
        let terminal = Terminal::open(&env, columns, 40, &format!("{dacapo} attach t"));
        terminal.wait_for("reading the tests of this project");
        let screen = terminal.wait_for("p pause");
        for words in ["task t", "iteration 1/100", "fake-agent"] {
            assert_has(&screen, words);
        }
        let before = steady(&screen);
        terminal.press(&["Enter", "Enter", "x"]);
        // `?` is answered after the keys before it.
        terminal.press(&["?"]);
        terminal.wait_for("this list");
        let screen = terminal.wait_for("Ctrl-Z stops only");
        assert!(screen.lines().all(|line| line.chars().count() <= columns as usize), "{screen}");
        // The list stands where the keys did, and goes without a trace.
        terminal.press(&["?"]);
        wait_until("the list is gone", LONG, || !terminal.screen().contains("this list"));
        assert_eq!(steady(&terminal.wait_for("p pause")), before);
        let (narrow, wide) = ((columns - 8).to_string(), columns.to_string());
        for size in [&narrow, &wide, &narrow] {
            assert!(terminal.tmux().args(["resize-window", "-x", size]).status().unwrap().success());
            terminal.wait_for("p pause");
        }
        let footers = || terminal.screen().lines().filter(|line| line.contains("p pause ·")).count();
        wait_until("one line of keys", LONG, || footers() == 1);
        terminal.press(&["d"]);
        terminal.wait_for("left with 0");
        assert_has(&terminal.screen(), "Detached");
        assert!(!terminal.screen().contains("p pause ·"), "{}", terminal.screen());
    }
    env.write("go", "");
    running.wait(LONG).assert_code(0);
}

#[test]
fn keys_steer_pause_and_cancel_and_the_end_gives_its_exit_code() {
    let env = world();
    let running = env
        .start_loop("@1: write ready; wait-file go; @2+: prompt-to second; write later; hang", &["-n", "9"]);
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    let terminal = Terminal::open(&env, 100, 30, &format!("{dacapo} watch t"));
    terminal.wait_for("p pause");
    terminal.press(&["s"]);
    terminal.wait_for("steer: ");
    terminal.press(&["-l", "use the second waz"]);
    terminal.press(&["BSpace"]);
    terminal.press(&["-l", "y"]);
    terminal.wait_for("steer: use the second way");
    terminal.press(&["Enter"]);
    env.wait_for_event("t", "steered");
    terminal.press(&["p"]);
    env.wait_for_event("t", "pause_requested");
    env.write("go", "");
    env.wait_for_event("t", "paused");
    terminal.wait_for(" paused · ");
    terminal.press(&["p"]);
    env.wait_for_file("later");
    assert_has(&env.read("second"), "use the second way");
    terminal.press(&["c"]);
    terminal.wait_for("Cancel it for good?");
    terminal.press(&["n"]);
    terminal.wait_for("p pause");
    terminal.press(&["c"]);
    terminal.wait_for("Cancel it for good?");
    terminal.press(&["y"]);
    let screen = terminal.wait_for("left with 130");
    assert_has(&screen, "cancelled after 2 iterations");
    running.wait(LONG).assert_code(130);
}

#[test]
fn a_pipe_is_told_the_whole_of_a_loop_that_is_over() {
    let env = world();
    env.run_loop("promise", &[]).assert_code(0);
    let shown = env.run(["attach", "t"]).assert_code(0);
    insta::assert_snapshot!(without_hash(&env.redact(&shown.stdout)), @"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · no gate: a claim is believed · at most 100 iterations
    iteration 1/100  exit 0, [DURATION] · claims to be done (promise)
      accepted, unverified: no gate stood behind it
      receipt [SHA] · `dacapo receipt [LOOP]`
    completed after 1 iteration, [DURATION]
      verified by nothing: no gate checked it
      next     Check the work yourself; next time give `--gate CMD`.
    ");
    env.run_loop("exit 1", &["-n", "1"]).assert_code(3);
    env.run(["attach", "t"]).assert_code(3);
}
