//! The next step fits the cause: more iterations are offered only where they could help.

use crate::support::{Task, assert_has, world};

/// What `why` and the end of `run` say to do next; both say the same.
fn next_step(script: &str, flags: &[&str], code: i32) -> String {
    let env = world();
    env.git_init();
    env.write("notes.txt", "one\n");
    env.git(["add", "-A"]);
    env.git(["commit", "-q", "-m", "start"]);
    let output = env.run_loop(script, flags).assert_code(code);
    let why = env.run(["why", "t"]).assert_code(0).stdout;
    let next = why.lines().find_map(|line| line.strip_prefix("Next: ")).expect("a next step").to_owned();
    assert_has(&output.stdout, &format!("  next     {next}"));
    let id = env.status("t")["id"].as_str().expect("an id").to_owned();
    env.redact(&next.replace(&id, "[LOOP]"))
}

#[test]
fn a_gate_that_cannot_run_is_mended_and_not_given_more_iterations() {
    let script = "append notes.txt two; promise";
    insta::assert_snapshot!(next_step(script, &["-n", "2", "--no-probe", "--gate", "no-such-program"], 3), @"The gate itself cannot run. Install or write what it needs, then `dacapo resume [LOOP] -n +1`; if its command is wrong, correct it and begin anew with `dacapo run`.");
    insta::assert_snapshot!(next_step(script, &["-n", "2", "--gate", "./later.sh"], 3), @"The gate itself cannot run. Install or write what it needs, then `dacapo resume [LOOP] -n +1`; if its command is wrong, correct it and begin anew with `dacapo run`.");
    insta::assert_snapshot!(next_step(script, &["-n", "1", "--no-probe", "--gate", "sleep 9", "--gate-timeout", "100ms"], 3), @"The gate needs more time than it has. Make it faster, then `dacapo resume [LOOP] -n +1`; or begin anew with a longer `--gate-timeout`.");
    insta::assert_snapshot!(next_step(script, &["-n", "2", "--gate", "no-such-program"], 5), @"Install what the gate needs, then `dacapo resume [LOOP]`; if its command is wrong, correct it and begin anew with `dacapo run`.");
}

#[test]
fn a_missing_commit_changed_tests_and_work_that_was_done_before_are_told_as_such() {
    let script = "append notes.txt two; promise";
    insta::assert_snapshot!(next_step(script, &["-n", "1", "--gate", "true", "--evidence", "commit"], 3), @r#"`dacapo steer [LOOP] "commit your work"`, then `dacapo resume [LOOP] -n +1`; or begin anew with `--commit`: then dacapo commits."#);
    insta::assert_snapshot!(next_step(script, &["-n", "1", "--gate", "true", "--protect", "notes.txt"], 3), @r#"`dacapo diff [LOOP]` shows what was changed; `dacapo steer [LOOP] "…"` says what is to stay, then `dacapo resume [LOOP] -n +1`."#);
    let empty = "If the work was done before the loop began, run it with `--allow-empty`: then the gates alone decide. Else \
                 `dacapo logs [LOOP]` shows what the agent said.";
    assert_eq!(next_step("promise", &["-n", "1", "--gate", "true"], 3), empty);
    assert_eq!(next_step("promise", &["--stuck-after", "2", "--gate", "true"], 3), empty);
    // A red gate means that there is work left, and an agent that never claims may need more time.
    let more =
        "`dacapo resume [LOOP] -n +10` grants ten more; `dacapo logs [LOOP]` shows what the agent said.";
    assert_eq!(next_step(script, &["-n", "1", "--gate", "grep -q three notes.txt"], 3), more);
    let never = format!("{more} An agent that is done has to print `<promise>DONE</promise>`.");
    assert_eq!(next_step("say hm", &["-n", "1"], 3), never);
}

#[test]
fn a_gate_that_cannot_run_yet_is_told_before_the_first_agent() {
    let env = world();
    env.git_init();
    env.write("check.sh", "exit 0\n").write("a", "a\n");
    env.git(["add", "-A"]);
    env.git(["commit", "-q", "-m", "start"]);
    let output = env.run_loop("append a b; promise", &["--gate", "./check.sh"]).assert_code(5);
    insta::assert_snapshot!(env.redact(&output.stdout), @r"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · 1 gate · at most 100 iterations
      gate `./check.sh` exited 126 before the first agent
      │ /bin/sh: 1: ./check.sh: Permission denied
    iteration 1/100  exit 0, [DURATION] · claims to be done (promise)
      gate `./check.sh` exited 126, [DURATION]
      │ /bin/sh: 1: ./check.sh: Permission denied
    failed after 1 iteration, [DURATION]
      changed  a | 1 +
               1 file changed, 1 insertion(+); not committed
      why      Failed: gate `./check.sh` cannot run: it exits 126 with the same words as before the first agent.
      next     Make the gate's program executable (`chmod +x`), then `dacapo resume [LOOP]`; if its command is wrong, correct it and begin anew with `dacapo run`.
    ");
    // The agent may be about to write it.
    let output = env.run_loop("append a c; promise", &["-n", "1", "--gate", "./later.sh"]).assert_code(3);
    assert_has(
        &output.stdout,
        "  gate `./later.sh` has no program yet: the agent may write it\niteration 1/1",
    );
}

#[test]
fn the_end_of_a_loop_in_a_plain_folder_offers_nothing_that_cannot_work_there() {
    let env = world();
    let output = env.run_loop("write new.txt x; promise", &["--gate", "true"]).assert_code(0);
    let end = output.stdout.find("  changed").expect("what changed is told");
    insta::assert_snapshot!(env.redact(&output.stdout[end..]), @r"
      changed  new.txt
               1 file changed; in no git repository, so nothing can be put back
      verified by `true`
      next     `dacapo receipt [LOOP]` shows the proof
    ");
    assert!(!env.run(["why", "t"]).assert_code(0).stdout.contains("dacapo diff"));
}

#[test]
fn an_agent_that_fails_at_once_three_times_in_the_same_words_stops_the_loop() {
    let env = world();
    let output = env.run_loop("err cannot find module x; exit 3", &[]).assert_code(1);
    insta::assert_snapshot!(env.redact(&output.stdout), @r"
    dacapo: loop [LOOP] · task t · agent fake-agent
      in [WORKSPACE] · no gate: a claim is believed · at most 100 iterations
    iteration 1/100  exit 3, [DURATION] · no claim
      ! cannot find module x
    iteration 2/100  exit 3, [DURATION] · no claim
      ! cannot find module x
    iteration 3/100  exit 3, [DURATION] · no claim
      ! cannot find module x
    failed after 3 iterations, [DURATION]
      why      Failed: the agent failed at once 3 times in a row and changed nothing: cannot find module x.
      next     Mend that, then `dacapo resume [LOOP]`.
    ");
    // Each of these keeps a loop going to its limit: other words, no words, output, a changed file, exit 0.
    for script in [
        "@1: err a; exit 1; @2: err b; exit 1; @3+: err a; exit 1",
        "exit 1",
        "say something; err a; exit 1",
        "@1: write new.txt 1; err a; exit 1; @2: write new.txt 2; err a; exit 1; @3+: write new.txt 3; err a; exit 1",
        "err a",
    ] {
        let env = world();
        env.git_init();
        env.run_loop(script, &["-n", "3"]).assert_code(3);
    }
}
