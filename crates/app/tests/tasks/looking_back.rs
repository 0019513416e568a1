//! What a person has after tasks were run, without typing an id: their end, their changes, and the view of a task that runs.

use dacapo_testkit::{Terminal, live_part, wait_until};

use crate::support::{SOON, Tasks};

#[test]
fn the_end_of_tasks_says_what_there_is_now_and_diff_shows_all_of_it() {
    let tasks = Tasks::new();
    let id = tasks.add("Say hello", &[]);
    // The reviewer sends it back once, so that two loops of the coder come to one change.
    tasks.role("Review.1", "echo 'CHANGES REQUESTED:'; echo '- it says nothing'");
    tasks.role("Implementation.2", "work; echo 'FIXED F1'; promise IMPLEMENTATION_COMPLETE");
    tasks.role("Testing", "mkdir -p tests; touch tests/t; commit tests; echo passed; promise TESTS_COMPLETE");
    let output = tasks.run(&[]).assert_code(0);
    assert!(output.stdout.contains("TASK-001  started: Say hello\n"), "{}", output.stdout);
    let end = output.stdout.split_once("  changed ").expect("an end");
    insta::assert_snapshot!(tasks.env.redact(&format!("  changed {}", end.1)), @"
    changed  tests/t           | 0
             work-TASK-001.txt | 2 ++
             2 files changed, 2 insertions(+); merged into main
    verified by its stages alone: no gate checked it
    time     [DURATION]
    next     `dacapo diff TASK-001` shows the change, `dacapo receipt TASK-001` the proof
    ");
    let stat = tasks.dacapo(&["diff", &id, "--stat"]).assert_code(0).stdout;
    insta::assert_snapshot!(stat, @"
     tests/t           | 0
     work-TASK-001.txt | 2 ++
     2 files changed, 2 insertions(+)
    ");
    let whole = tasks.dacapo(&["diff", &id]).assert_code(0).stdout;
    assert!(whole.contains("+TASK-001 1\n+TASK-001 2\n"), "both loops of the coder: {whole}");
    let without_id = tasks.dacapo(&["diff"]).assert_code(0);
    assert_eq!(without_id.stdout, whole, "{}", without_id.stderr);
}

#[test]
fn the_end_of_a_task_that_stops_names_the_cause_and_the_next_command() {
    let tasks = Tasks::new();
    let id = tasks.add("Say hello", &[]);
    tasks.role("Implementation", "work; echo '<blocked>there is no one to greet</blocked>'");
    let output = tasks.run(&[]).assert_code(4);
    let end = output.stdout.split_once("  changed ").expect("an end");
    insta::assert_snapshot!(tasks.env.redact(&format!("  changed {}", end.1)), @r#"
    changed  work-TASK-001.txt | 1 +
             1 file changed, 1 insertion(+); not merged
    time     [DURATION]
    why      Task TASK-001 asks: The coder says that it cannot be done as asked: there is no one to greet
    next     `dacapo approve TASK-001 "the answer"` gives the coder your answer, and it goes on; `dacapo reject TASK-001` gives the task up, and it is `todo` again
    "#);
    // Not merged, and yet there to look at.
    let whole = tasks.dacapo(&["diff", &id]).assert_code(0).stdout;
    assert!(whole.contains("+TASK-001 1\n"), "{whole}");
}

#[test]
fn what_a_coder_commits_below_an_ignored_path_is_said_to_be_left_out() {
    let tasks = Tasks::new();
    tasks.env.write(".gitignore", "build/\n");
    tasks.env.git(["add", ".gitignore"]);
    tasks.env.git(["commit", "-qm", "rules"]);
    tasks.add("Build it", &[]);
    tasks.role(
        "Implementation",
        "mkdir build; echo x >build/out; echo '*.log' >>.gitignore; echo y >made.log; git add -f build/out made.log; work; promise IMPLEMENTATION_COMPLETE",
    );
    let output = tasks.run(&[]).assert_code(0).stdout;
    for words in [
        "warning: `build/out` is in a commit of the agent and left out of the commit of what was proven: an ignore rule hides the path",
        "warning: `made.log` is kept although new ignore rules hide it: rules that a loop changes count from the next loop on",
    ] {
        assert!(output.contains(words), "{words}: {output}");
    }
    assert!(
        !tasks.env.workspace().join("build/out").exists() && tasks.env.workspace().join("made.log").exists()
    );
}

#[test]
fn attach_shows_a_task_that_runs_at_three_widths_and_its_end() {
    let tasks = Tasks::new();
    let id = tasks.add("Say hello", &[]);
    tasks.role(
        "Implementation",
        "echo reading the tests of this project; touch \"$ROLES/ready\"; while [ ! -e \"$ROLES/go\" ]; do sleep 0.05; done; work; promise IMPLEMENTATION_COMPLETE",
    );
    let mut command = tasks.command(&tasks.args(&["--detach"]));
    command.stdin(std::process::Stdio::null());
    tasks.env.run_command(command).assert_code(0);
    let roles = tasks.env.root().join("roles");
    wait_until("the coder works", SOON, || roles.join("ready").exists());
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    for columns in [40, 80, 160] {
        let terminal = Terminal::open(&tasks.env, columns, 30, &format!("{dacapo} attach {id}"));
        let screen = terminal.wait_for("p pause");
        assert!(screen.lines().all(|line| line.chars().count() <= columns as usize), "{screen}");
        let screen = if screen.contains("reading the") { screen } else { terminal.wait_for("reading the") };
        for words in ["TASK-001", "coder", "iteration 1/15"] {
            assert!(screen.contains(words), "{words}: {screen}");
        }
        insta::assert_snapshot!(format!("live_task_{columns}"), live_part(&tasks.env, &screen));
        terminal.press(&["d"]);
        terminal.wait_for("left with 0");
    }
    let terminal = Terminal::open_as(&tasks.env, "end", 100, 40, &format!("{dacapo} attach"));
    terminal.wait_for("p pause");
    std::fs::write(roles.join("go"), "").unwrap();
    let screen = terminal.wait_for("left with 0");
    assert!(screen.contains("merged into main"), "{screen}");
}

#[test]
fn a_red_check_of_a_stage_shows_its_last_lines() {
    let tasks = Tasks::new();
    let id = tasks.add("T", &[]);
    tasks.env.write(
        ".dacapo/config.yaml",
        "stages: {coder: {gates: ['echo expected 42, got 41; exit 3']}}\nralph: {coder: {max_iterations: 1}}\n",
    );
    tasks.env.git(["add", ".dacapo/config.yaml"]);
    tasks.env.git(["commit", "-qm", "config"]);
    let output = tasks.run(&["--trust"]).assert_code(3);
    assert!(output.stdout.contains(&format!("\n{id}  │ expected 42, got 41\n")), "{}", output.stdout);
    let why = tasks.dacapo(&["why", &id]).assert_code(0).stdout;
    assert!(why.ends_with("printed:\n  expected 42, got 41\n"), "{why}");
}
