//! The test environment keeps what it promises; the fake agent stands in for dacapo.

use std::{fs, panic, path::Path, time::Duration};

use dacapo_testkit::{LedgerEvent, LedgerLine, Signal, TestEnv, fake_agent};

const SOON: Duration = Duration::from_secs(20);

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fake-agent"))
}

#[test]
fn the_fake_agent_is_found_beside_the_tests() {
    assert_eq!(fake_agent(), Path::new(env!("CARGO_BIN_EXE_fake-agent")));
}

#[test]
fn a_command_sees_nothing_of_the_outside() {
    let env = env();
    env.run(["--do", "env-to env; cwd-to cwd"]).assert_code(0);
    assert_eq!(Path::new(env.read("cwd").trim_end()), env.workspace());
    let variables = env.read("env");
    let root = env.root().to_str().unwrap();
    for line in variables.lines() {
        let (name, value) = line.split_once('=').unwrap();
        let known = match name {
            "PATH" => value.starts_with(root),
            "LD_LIBRARY_PATH" | "LLVM_PROFILE_FILE" | "RUST_BACKTRACE" => true,
            "GIT_CONFIG_NOSYSTEM" | "NO_COLOR" => value == "1",
            "GIT_TERMINAL_PROMPT" => value == "0",
            "LANG" => value == "C.UTF-8",
            "TZ" => value == "UTC",
            _ => value.starts_with(root),
        };
        assert!(known, "{line}");
    }
    assert!(variables.contains(&format!("DACAPO_HOME={}\n", env.dacapo_home().display())));
}

#[test]
fn git_is_isolated_and_ready() {
    let env = env();
    env.write("src/a.txt", "a\n").git_init();
    assert_eq!(env.git(["log", "--format=%an %s", "--name-only"]), "Test start\n\nsrc/a.txt\n");
    assert_eq!(env.git(["branch", "--show-current"]), "main\n");
}

#[test]
fn output_code_and_signal_are_reported() {
    let env = env();
    let output = env.run(["--do", "say out; err oh; exit 3"]).assert_code(3);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.signal), ("out\n", "oh\n", None));
    let killed = env.run(["--do", "kill KILL"]);
    assert_eq!((killed.code, killed.signal), (None, Some(9)));
    let message =
        panic::catch_unwind(|| env.run(["--do", "say out; err oh; exit 3"]).assert_code(0)).unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("expected exit code 0, got Some(3)"), "{message}");
    assert!(message.contains("out\n") && message.contains("oh\n"), "{message}");
}

#[test]
fn an_agent_command_is_a_line_for_a_shell() {
    let env = env();
    env.script("say default");
    let own = env.agent_cmd_for("say own");
    for (command, said) in [(env.agent_cmd(), "default\n"), (own, "own\n")] {
        let mut shell = env.command("sh");
        shell.args(["-c", &command]);
        assert_eq!(env.run_command(shell).assert_code(0).stdout, said);
    }
    env.install_agent("claude");
    let mut claude = env.command("sh");
    claude.args(["-c", "claude -p --output-format stream-json"]);
    assert_eq!(env.run_command(claude).stdout, "default\n");
}

#[test]
fn run_agent_writes_the_script_and_the_usual_arguments() {
    let env = env();
    let output = env.run_agent("args-to args; say ran; exit 4", ["--max-iterations", "2"]).assert_code(4);
    assert_eq!(output.stdout, "ran\n");
    let expected = format!(
        "run\ndo it\n--agent-cmd\n{}\n--restart-delay\n0s\n--kill-grace\n100ms\n--max-iterations\n2\n",
        env.agent_cmd()
    );
    assert_eq!(env.read("args"), expected);
}

#[test]
fn a_running_process_can_be_read_signalled_and_waited_for() {
    let env = env();
    let running =
        env.spawn(["--do", "on-term 'say bye; exit 7'; say ready; err warned; print partial; hang"]);
    assert_eq!(running.wait_for_line(|line| line.starts_with("rea"), SOON), "ready");
    running.wait_for_line(|line| line == "warned", SOON);
    env.wait_until("the partial line is there", SOON, || running.stdout() == "ready\npartial");
    running.signal(Signal::TERM);
    let output = running.wait(SOON).assert_code(7);
    assert_eq!(output.stdout, "ready\npartialbye\n");
}

#[test]
fn a_process_that_takes_too_long_is_killed_and_shown() {
    let env = env();
    let running = env.spawn(["--do", "spawn 'pid-to child; hang'; wait-file child; say stuck; hang"]);
    running.wait_for_line(|line| line == "stuck", SOON);
    let message = panic::catch_unwind(|| running.wait(Duration::from_millis(1))).unwrap_err();
    assert!(message.downcast_ref::<String>().unwrap().contains("stuck"));
    env.wait_until("its group is gone", SOON, || env.survivors().is_empty());
}

#[test]
fn a_line_that_never_comes_is_told_at_the_end_of_the_output() {
    let env = env();
    let running = env.spawn(["--do", "say something else"]);
    let wait = panic::AssertUnwindSafe(|| running.wait_for_line(|line| line == "never", SOON));
    let message = panic::catch_unwind(wait).unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.contains("its output ended") && message.contains("something else"), "{message}");
}

#[test]
fn survivors_are_found_and_die_with_the_environment() {
    let env = env();
    let script =
        "daemonize 'pid-to one; hang'; sh 'env -i sleep 1000 >/dev/null 2>&1 & echo $! > two'; wait-file one";
    env.run(["--do", script]).assert_code(0);
    let mut expected: Vec<u32> = ["one", "two"].map(|file| env.read(file).trim().parse().unwrap()).into();
    expected.sort_unstable();
    assert_eq!(env.survivors(), expected);
    drop(env);
    for pid in expected {
        // Killed; whoever reaps it may take a moment.
        assert_eq!(fs::read(format!("/proc/{pid}/environ")).unwrap_or_default(), b"");
    }
}

#[test]
fn the_ledger_is_read_back() {
    let env = env();
    for iteration in ["1", "2"] {
        let mut command = env.dacapo(["--do", "exit 0"]);
        command.env("DACAPO_LOOP", "abcdefghij").env("DACAPO_ITERATION", iteration);
        env.run_command(command).assert_code(0);
    }
    let facts: Vec<_> =
        env.ledger().into_iter().map(|LedgerLine { event, iteration, .. }| (event, iteration)).collect();
    use LedgerEvent::{End, Start};
    assert_eq!(facts, [(Start, 1), (End, 1), (Start, 2), (End, 2)]);
    let text = format!("loop abcdefghij in {}: iterations", env.workspace().display());
    assert_eq!(env.redact(&text), "loop [LOOP] in [WORKSPACE]: iterations");
}

#[test]
fn events_are_parsed_line_by_line() {
    let env = env();
    env.script("args-to args\nsay '{\"seq\":1,\"loop\":\"zyxwvutsrq\"}'\nsay '{\"seq\":2}'");
    let seqs: Vec<_> = env.events(Some("zyx")).iter().map(|event| event["seq"].as_u64()).collect();
    assert_eq!(seqs, [Some(1), Some(2)]);
    assert_eq!(env.read("args"), "events\nzyx\n--json\n");
    assert_eq!(env.redact("zyxwvutsrq"), "[LOOP]");
}

#[test]
fn a_storm_is_as_many_daemons_and_a_chain_ends_in_one() {
    for (script, left) in [("storm 12", 12), ("forkchain 5", 1)] {
        let env = env();
        // A chain holds the output to its end, and its end never comes.
        env.run(["--do", &format!("close-out; close-err; {script}")]).assert_code(0);
        env.wait_until(&format!("{left} of `{script}` are left"), SOON, || env.survivors().len() == left);
    }
}

#[test]
fn a_chain_cannot_outrun_the_end_of_the_environment() {
    let env = env();
    env.run(["--do", "close-out; close-err; forkchain 20"]).assert_code(0);
    let marker = [b"DACAPO_HOME=", env.dacapo_home().as_os_str().as_encoded_bytes()].concat();
    drop(env);
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        assert!(
            environment.split(|b| *b == 0).all(|variable| variable != marker),
            "{}",
            entry.path().display()
        );
    }
}
