//! What a person has when a loop is over: what changed, what checked it, and the words for mistakes.

use crate::support::{Task, assert_has, world};

/// Files of a project, committed.
fn repository() -> dacapo_testkit::TestEnv {
    let env = world();
    env.git_init();
    env.write("notes.txt", "one\n");
    env.git(["add", "-A"]);
    env.git(["commit", "-q", "-m", "start"]);
    env
}

#[test]
fn the_end_lists_the_files_what_checked_them_and_the_next_command() {
    let env = repository();
    let script = "@1: append notes.txt two; @2: append notes.txt three; write new.txt x; promise";
    let end = |stdout: &str| env.redact(stdout.split_once("\ncompleted after ").unwrap().1);
    let output = env.run_loop(script, &["--gate", "grep -q three notes.txt"]).assert_code(0);
    insta::assert_snapshot!(end(&output.stdout), @"
    2 iterations, [DURATION]
      changed  new.txt   | 1 +
               notes.txt | 2 ++
               2 files changed, 3 insertions(+); not committed
      verified by `grep -q three notes.txt`
      next     `dacapo diff [LOOP]` shows the change; `git add -A && git commit` keeps it, `dacapo restore [LOOP]@0` takes it back
    ");
    let diff = |what: &str| env.run(["diff", what]).assert_code(0).stdout;
    assert_has(&diff("t"), "+two\n+three\n");
    assert_has(&diff("t@1"), "+two\n");
    assert!(!diff("t@1").contains("three"), "{}", diff("t@1"));
    assert_has(&diff("t@2"), "+three\n");
    assert_has(&env.run(["diff", "t", "--stat"]).assert_code(0).stdout, "2 files changed, 3 insertions(+)");
    assert_has(env.run(["diff", "t@9"]).assert_code(2).reason(), "has no iteration 9: it came to 2");
    assert_has(env.run(["diff", "t@x"]).assert_code(2).reason(), "`@x` is no iteration");
    // Committed by dacapo.
    let output = env
        .run_loop("append notes.txt four; promise", &["--gate", "grep -q four notes.txt", "--commit"])
        .assert_code(0);
    assert_has(&output.stdout, "1 file changed, 1 insertion(+); committed");
    // Nothing changed, nothing to list.
    let output = env.run_loop("promise", &[]).assert_code(0);
    assert!(!output.stdout.contains("  changed "), "{}", output.stdout);
    let nothing = env.run(["diff", "t"]).assert_code(0);
    assert_eq!(nothing.stdout, "");
    assert_has(&nothing.stderr, "has changed no file");
}

#[test]
fn a_hint_stands_below_its_error_and_suggests_nothing_that_changes_files() {
    let env = world();
    let output = env.run(["why", "nothing-like-it"]).assert_code(2);
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(lines[0].starts_with("dacapo: no loop") && lines[1].starts_with("hint: "), "{}", output.stderr);
    for (typed, suggested) in
        [("stauts", Some("'status'")), ("clea", None), ("restor", None), ("canel", None), ("trus", None)]
    {
        let output = env.run([typed]).assert_code(2);
        match suggested {
            Some(word) => assert_has(&output.stderr, word),
            None => assert!(!output.stderr.contains("similar"), "{typed}: {}", output.stderr),
        }
    }
}

#[test]
fn a_task_is_called_by_its_first_words_while_that_name_is_free() {
    let env = world();
    env.script("promise");
    let agent = env.agent_cmd();
    let run = || env.run(["run", "Fix the tests", "--agent-cmd", &agent]).assert_code(0).stdout;
    assert_has(&run(), " · task fix-the-tests · ");
    assert_has(&run(), " · task fix-the-tests-");
    let logs = env.run(["tail", "fix-the-tests"]).assert_code(0).stdout;
    assert_has(&logs, "<promise>DONE</promise>");
    let status = env.run(["status"]).assert_code(0).stdout;
    assert_has(&status, " ago\n");
    // From another folder, the lines say which folder they are about.
    let mut elsewhere = env.dacapo(["status"]);
    elsewhere.current_dir(env.root());
    let status = env.run_command(elsewhere).assert_code(0).stdout;
    assert!(!status.contains(", in "), "what lies below this folder is no other folder: {status}");
    let mut elsewhere = env.dacapo(["status"]);
    elsewhere.current_dir(env.home());
    assert_has(
        &env.run_command(elsewhere).assert_code(0).stdout,
        &format!(" ago, in {}", env.workspace().display()),
    );
}

#[test]
fn a_start_without_a_gate_and_a_budget_is_warned_once_where_it_was_typed() {
    let env = world();
    env.write("Makefile", "test:\n\ttrue\n").git_init();
    let warnings = |flags: &[&str]| {
        let output = env.run_loop("write work; promise", flags).assert_code(0);
        let is_warning = |line: &&str| line.starts_with("WARNING: no gate checks what the agent claims");
        output.stderr.lines().filter(is_warning).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        warnings(&[]),
        [
            "WARNING: no gate checks what the agent claims, and nothing limits what it may cost: `--gate \"make test\"` and \
          `--max-cost USD` or `--max-time 8h` do; `dacapo init` writes them down"
        ]
    );
    assert_eq!(warnings(&["--detach"]).len(), 1);
    env.run(["attach", "t"]).assert_code(0);
    for flags in
        [vec!["-q"], vec!["--max-time", "1h"], vec!["-n", "2"], vec!["--gate", "true", "--allow-empty"]]
    {
        assert_eq!(warnings(&flags), [""; 0], "{flags:?}");
    }
}
