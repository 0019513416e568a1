//! Checks of a claim: what they refuse, what they are told, what they leave behind.

use dacapo_testkit::Signal;
use serde_json::Value;

use crate::support::{LONG, Task, assert_has, world};

#[test]
fn a_claim_that_a_gate_refuses_is_fed_back_and_the_next_one_may_hold() {
    // fault A10
    let env = world();
    let script = "@1: promise; @2: write fixed; promise";
    let gate = "test -e fixed || { echo the fix is missing; exit 3; }";
    env.run_loop(script, &["-n", "5", "--allow-empty", "--gate", gate]).assert_code(0);
    assert_eq!(env.starts(), 2);
    let results: Vec<(Value, Value)> = env
        .events_of("t", "gate_finished")
        .iter()
        .map(|event| (event["exit_code"].clone(), event["passed"].clone()))
        .collect();
    assert_eq!(results, [(3.into(), false.into()), (0.into(), true.into())]);
    assert_eq!(env.events_of("t", "claim_refused")[0]["reason"], "gate_failed");
    assert_eq!(env.events_of("t", "claim_accepted")[0]["verified"], true);
    // req 94
    let (first, second) = (env.prompt(1), env.prompt(2));
    assert!(!first.contains("the fix is missing"), "{first}");
    assert_has(&second, "Continue working on the following:\n\ndo it\n");
    assert_has(&second, "exited 3");
    assert_has(&second, "the fix is missing");
    assert_has(&env.run(["logs", "t", "--gates"]).assert_code(0).stdout, "the fix is missing");
}

#[test]
fn a_refused_done_file_is_moved_so_that_it_does_not_claim_twice() {
    let env = world();
    env.run_loop("@1: done; @2: exit 0", &["-n", "2", "--gate", "false"]).assert_code(3);
    assert_eq!(env.events_of("t", "claim_made").len(), 1);
    assert!(env.folder("t").join("DONE.refused").exists());
}

#[test]
fn gates_run_in_their_order_and_the_first_red_one_is_the_last() {
    let env = world();
    let gates = [
        "-n",
        "2",
        "--allow-empty",
        "--gate",
        "echo 1 >>../order",
        "--gate",
        "echo 2 >>../order; test -e fixed",
        "--gate",
        "echo 3 >>../order",
    ];
    env.run_loop("@1: promise; @2: write fixed; promise", &gates).assert_code(0);
    assert_eq!(env.read("../order"), "1\n2\n1\n2\n3\n");
}

#[test]
fn no_gate_runs_without_a_claim() {
    let env = world();
    env.run_loop("exit 0", &["-n", "2", "--gate", "touch gated"]).assert_code(3);
    assert!(!env.workspace().join("gated").exists());
}

#[test]
fn a_gate_that_takes_too_long_is_killed_and_refuses() {
    // req 83
    let env = world();
    env.run_loop("promise", &["-n", "1", "--allow-empty", "--gate", "sleep 1000", "--gate-timeout", "150ms"])
        .assert_code(3);
    let result = &env.events_of("t", "gate_finished")[0];
    assert_eq!((&result["exit_code"], &result["passed"]), (&Value::from(-1), &Value::from(false)));
    assert_has(env.events_of("t", "claim_refused")[0]["detail"].as_str().unwrap(), "timed out after 150ms");
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn what_a_gate_leaves_behind_is_ended() {
    // req 83, fault F3
    let env = world();
    let gate = "(setsid sleep 1000 & ) ; sleep 1000 & exit 0";
    env.run_loop("promise", &["-n", "1", "--allow-empty", "--gate", gate]).assert_code(0);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn a_gate_has_the_users_environment_without_provider_keys_and_without_a_word_of_dacapo() {
    // fault C11
    let env = world();
    let mut command = env.dacapo(env.loop_args("env-to agent-env; promise", &["--gate", "env >gate-env"]));
    command.env("ANTHROPIC_API_KEY", "secret").env("CLAUDECODE", "1").env("DACAPO_STRAY", "1");
    env.run_command(command).assert_code(0);
    let (agent, gate) = (env.read("agent-env"), env.read("gate-env"));
    assert_has(&agent, "ANTHROPIC_API_KEY=secret\n");
    assert!(!gate.contains("secret"), "{gate}");
    assert_has(&agent, "DACAPO_TASK=t\n");
    assert!(!gate.contains("DACAPO_"), "{gate}");
    for environment in [agent, gate] {
        assert!(
            !environment.contains("CLAUDECODE") && !environment.contains("DACAPO_STRAY"),
            "{environment}"
        );
    }
}

#[test]
fn an_until_command_makes_the_claim_itself_and_gates_check_it() {
    let env = world();
    let until = ["-n", "5", "--until-cmd", "test -e two", "--gate", "test -e one"];
    env.run_loop("@1: write one; @2: write two", &until).assert_code(0);
    assert_eq!(env.starts(), 2);
    let by = env.events_of("t", "claim_made")[0]["by"].clone();
    assert_eq!(by[0]["signal"], "until_command");
    let roles: Vec<Value> = env.events_of("t", "gate_finished").iter().map(|e| e["role"].clone()).collect();
    assert_eq!(roles, ["until", "until", "gate"]);
}

#[test]
fn of_two_until_commands_both_must_hold() {
    let env = world();
    let until = ["-n", "5", "--until-cmd", "test -e one", "--until-cmd", "test -e two"];
    env.run_loop("@1: write one; @2: rm one; write two; @3: write one", &until).assert_code(0);
    assert_eq!(env.starts(), 3);
}

#[test]
fn a_cancel_ends_a_running_gate() {
    // req 83
    let env = world();
    let running = env.start_loop("promise", &["--allow-empty", "--gate", "touch ready; sleep 1000"]);
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    assert_eq!(env.survivors(), Vec::<u32>::new());
}

#[test]
fn a_claim_whose_check_was_cut_short_is_judged_again_without_another_agent() {
    // req 203, fault G7
    for signal in [Signal::KILL, Signal::INT] {
        let env = world();
        let running =
            env.start_loop("write work; promise", &["--gate", "touch ready; test -e go || sleep 1000"]);
        running.signal(signal);
        env.wait_until("all of it is dead", LONG, || {
            running.stderr().contains("stopped") || env.survivors().is_empty()
        });
        drop(running);
        env.write("go", "");
        env.run(["resume", "t"]).assert_code(0);
        assert_eq!(env.starts(), 1, "{signal:?}");
    }
}

#[test]
fn a_gate_that_does_not_know_its_target_is_told_before_the_first_agent_and_ends_the_loop_at_the_first_claim()
{
    let env = world();
    env.write("Makefile", "test:\n\ttrue\n").git_init();
    let output = env.run_loop("write fixed; promise", &["-n", "9", "--gate", "make tst"]).assert_code(5);
    let told: Vec<&str> = output.stdout.lines().take_while(|line| !line.starts_with("iteration")).collect();
    assert_has(
        &told.join("\n"),
        "  warning: gate `make tst` does not know what it is told to run, so every claim will be refused: \
         make: *** No rule to make target 'tst'.  Stop.",
    );
    assert_eq!(env.starts(), 1);
    let why = env.run(["why", "t"]).assert_code(0).stdout;
    assert_has(&why, "with the same words as before the first agent");
    assert_has(&why, "Next: Install what the gate needs, then `dacapo resume ");
}
