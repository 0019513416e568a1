//! What a user can get wrong, and what the machine can: refused before an agent runs, in words that help.

use std::fs;

use crate::support::{LONG, Task, assert_has, last_line, world};

#[test]
fn values_that_make_no_sense_are_refused_before_anything_starts() {
    // req 62, req 201, fault A5, fault B1
    for arg in [
        "--max-iterations=0",
        "--max-iterations=-1",
        "--max-iterations=",
        "--max-iterations=many",
        "--max-restarts=0",
        "--wait-timeout=0s",
        "--wait-timeout=-5s",
        "--poll-interval=0",
        "--restart-delay=-1s",
        "--restart-delay=",
        "--restart-delay=10",
        "--iteration-timeout=0s",
        "--idle-timeout=0s",
        "--gate-timeout=0s",
        "--max-time=0s",
        "--kill-grace=soon",
        "--completion-promise=",
        "--completion-promise=  ",
        "--gate=",
        "--gate= ",
        "--until-cmd=",
        "--agent-cmd=",
        "--agent-cmd='open",
        "--task=",
        "--task=../t",
        "--task=a/b",
        "--task=.hidden",
        "--task=a b",
        "--project=..",
        "--project=a/b",
        "--after=../t",
        "--dir=",
        "--dir=/no/such/folder",
        "--prompt-file=",
    ] {
        let env = world();
        let agent = env.script("promise").agent_cmd();
        let own = if arg.starts_with("--agent-cmd") { vec![] } else { vec!["--agent-cmd", &agent] };
        let prompt = if arg.starts_with("--prompt-file") { vec!["run"] } else { vec!["run", "do it"] };
        // `--gate-timeout` means something only with a gate.
        let args = [prompt, own, vec!["--gate", "true", arg]].concat();
        let output = env.run(&args);
        assert_eq!(output.code, Some(2), "{arg}: {output:?}");
        assert!(!output.stderr.is_empty() && !output.stderr.contains("panicked"), "{arg}: {output:?}");
        assert_eq!(env.starts(), 0, "{arg}");
    }
}

#[test]
fn a_blank_prompt_and_a_missing_agent_are_refused() {
    // req 62, req 95
    let env = world();
    let agent = env.agent_cmd();
    for prompt in ["", " \n"] {
        env.run(["run", prompt, "--agent-cmd", &agent]).assert_code(2);
    }
    env.write("PROMPT.md", " \n");
    assert_has(last_line(&env.run(["run", "--agent-cmd", &agent]).assert_code(2)), "is blank");
    env.run(["run", "a", "-P", "PROMPT.md", "--agent-cmd", &agent]).assert_code(2);
    // Whoever runs this may have an agent installed.
    let mut command = env.dacapo(["run", "do it"]);
    command.env("PATH", env.root().join("bin"));
    assert_has(&env.run_command(command).assert_code(5).stderr, "--agent-cmd");
}

#[test]
fn a_missing_program_is_told_before_anything_is_asked() {
    let env = world();
    env.git_init();
    env.write(".dacapo/config.yaml", "gates: ['true']\n");
    let output = env.run(["run", "do it", "--agent-cmd", "./no-such-agent"]).assert_code(5);
    assert_has(last_line(&output), "no-such-agent` is not there: no such file");
    assert!(!output.stderr.contains("untrusted"), "{}", output.stderr);
}

#[test]
fn a_folder_whose_name_is_no_text_is_refused_with_a_way_out() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let env = world();
    let odd = env.root().join(OsStr::from_bytes(b"bad\xff"));
    fs::create_dir(&odd).unwrap();
    for args in [&["run", "do it", "--agent-cmd", "true"][..], &["unit", "run"]] {
        let mut command = env.dacapo(args);
        command.current_dir(&odd);
        let output = env.run_command(command).assert_code(2);
        assert_has(last_line(&output), "the path of this folder is not UTF-8: `");
        assert_has(&output.stderr, "hint: ");
    }
}

#[test]
fn an_unknown_flag_or_command_names_the_nearest() {
    // req 201
    let env = world();
    for (args, nearest) in [
        (vec!["run", "do it", "--max-iteration", "3"], "--max-iterations"),
        (vec!["run", "do it", "--gates", "true"], "--gate"),
        (vec!["status", "--jsn"], "--json"),
        (vec!["resum", "t"], "resume"),
    ] {
        let output = env.run(&args).assert_code(2);
        assert_has(&output.stderr, nearest);
    }
}

#[test]
fn both_ways_to_give_a_value_work() {
    // req 61
    let env = world();
    for args in
        [["--max-iterations", "2"].as_slice(), &["--max-iterations=2"], &["-n2"], &["--max-restarts=2"]]
    {
        env.run_loop("exit 0", args).assert_code(3);
    }
    assert_eq!(env.starts(), 8);
}

#[test]
fn a_prompt_that_cannot_be_read_is_named() {
    let env = world();
    let agent = env.agent_cmd();
    env.write("binary.md", b"ab\xff\xfe".as_slice()).write("folder/x", "");
    for (file, words) in [
        ("missing.md", "cannot read the prompt `missing.md`"),
        ("folder", "cannot read the prompt `folder`"),
        ("binary.md", "is not UTF-8 (at byte 2)"),
    ] {
        let output = env.run(["run", "-P", file, "--agent-cmd", &agent]).assert_code(2);
        assert_has(last_line(&output), words);
    }
}

#[test]
fn an_argument_that_is_no_text_is_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let env = world();
    let agent = env.agent_cmd();
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let output =
        env.run([OsStr::new("run"), odd, OsStr::new("--agent-cmd"), OsStr::new(&agent)]).assert_code(2);
    assert_has(&output.stderr, "UTF-8");
}

#[test]
fn a_state_folder_that_cannot_be_used_is_named_with_a_way_out() {
    // fault G6
    let env = world();
    fs::write(env.root().join("file"), "").unwrap();
    let under_file = env.root().join("file/state");
    let home = |value: &str| {
        let mut command = env.dacapo(env.loop_args("promise", &[]));
        command.env("DACAPO_HOME", value);
        env.run_command(command)
    };
    for (value, words) in [
        (under_file.to_str().unwrap(), "cannot write to the state folder"),
        ("/proc/state", "cannot write to the state folder"),
        ("relative/state", "DACAPO_HOME is not an absolute path"),
    ] {
        let output = home(value).assert_code(5);
        assert_has(last_line(&output), words);
        assert_has(&output.stderr, "hint: set DACAPO_HOME");
    }
    let mut command = env.dacapo(["status"]);
    command.env_remove("DACAPO_HOME").env_remove("XDG_STATE_HOME").env("HOME", "relative");
    let output = env.run_command(command).assert_code(5);
    assert_has(&output.stderr, "dacapo: HOME is not an absolute path: `relative`\nhint: set DACAPO_HOME");
    assert!(!env.workspace().join("relative").exists());
    assert_eq!(env.starts(), 0);
}

#[test]
fn a_damaged_journal_is_reported_with_the_way_out() {
    // fault G3
    let env = world();
    env.run_loop("promise", &[]).assert_code(0);
    let database = env.dacapo_home().join("dacapo.db");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(env.dacapo_home().join(format!("dacapo.db{suffix}")));
    }
    fs::write(&database, "this is no database, and long enough to be looked at as one ".repeat(100)).unwrap();
    for args in [env.loop_args("promise", &[]), vec!["status".into()], vec!["resume".into(), "t".into()]] {
        let output = env.run(args).assert_code(5);
        assert_has(last_line(&output), "is damaged");
        assert_has(&output.stderr, ".damaged");
    }
    env.run(["doctor"]).assert_code(5);
    // The way out works.
    fs::rename(&database, database.with_extension("damaged")).unwrap();
    env.run_loop("promise", &[]).assert_code(0);
}

#[test]
fn a_journal_of_a_newer_dacapo_is_left_alone() {
    let env = world();
    env.run_loop("promise", &[]).assert_code(0);
    let database = env.dacapo_home().join("dacapo.db");
    // The format's number stands in the header, big-endian, at byte 60.
    let mut bytes = fs::read(&database).unwrap();
    bytes[60..64].copy_from_slice(&999_u32.to_be_bytes());
    fs::write(&database, &bytes).unwrap();
    let output = env.run_loop("promise", &[]).assert_code(5);
    assert_has(last_line(&output), "was written by a newer dacapo (format 999");
    assert_eq!(fs::read(&database).unwrap()[60..64], 999_u32.to_be_bytes());
    assert_eq!(env.starts(), 1);
}

#[test]
fn several_may_make_the_journal_at_once() {
    for _ in 0..10 {
        let env = world();
        let all: Vec<_> = (0..8).map(|_| env.spawn(["events"])).collect();
        for running in all {
            running.wait(LONG).assert_code(0);
        }
    }
}

#[test]
fn a_task_is_run_by_one_loop_at_a_time() {
    // fault G10
    let env = world();
    let running = env.start_loop("write ready; hang", &[]);
    let id = env.status("t")["id"].as_str().unwrap().to_owned();
    let output = env.run_loop("promise", &[]).assert_code(5);
    assert_has(last_line(&output), &format!("task t is already run by loop {id}"));
    env.run(["cancel", "t"]).assert_code(0);
    running.wait(LONG).assert_code(130);
    env.run_loop("promise", &[]).assert_code(0);
}

#[test]
fn of_loops_that_start_on_a_task_at_once_one_wins() {
    // fault G10
    let env = world();
    let args = env.loop_args("wait-file go; promise", &[]);
    let all: Vec<_> = (0..4).map(|_| env.spawn(&args)).collect();
    let told = |running: &dacapo_testkit::Running| running.stderr().contains("already run by loop");
    env.wait_until("three are refused", LONG, || all.iter().filter(|running| told(running)).count() == 3);
    env.write("go", "");
    let mut codes: Vec<_> = all.into_iter().map(|running| running.wait(LONG).code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(5), Some(5), Some(5)]);
    assert_eq!(env.starts(), 1);
}

#[test]
fn a_gated_loop_has_its_workspace_for_itself() {
    // fault G10, fault B11
    for (first, second, code) in
        [(vec!["--gate", "true"], vec![], 5), (vec![], vec!["--gate", "true"], 5), (vec![], vec![], 0)]
    {
        let env = world();
        let agent = env.agent_cmd_for("write work; promise");
        let _running = env.start_loop("write ready; hang", &first);
        let id = env.status("t")["id"].as_str().unwrap().to_owned();
        let other = ["run", "do it", "--project", "p", "--task", "u", "--agent-cmd", &agent];
        let output = env.run(other.iter().chain(&second)).assert_code(code);
        if code == 5 {
            assert_has(last_line(&output), &format!("loop {id} (task t) works in "));
        } else {
            assert_has(&output.stdout, &format!("warning: loop {id} (task t) works in the same folder"));
        }
        // Elsewhere there is room.
        fs::create_dir(env.workspace().join("elsewhere")).unwrap();
        let dir = ["--dir", "elsewhere", "--task", "v"];
        env.run(["run", "do it", "--agent-cmd", &agent].iter().chain(&dir).chain(&second)).assert_code(0);
    }
}

#[test]
fn of_several_gated_loops_that_start_at_once_in_one_folder_one_runs() {
    // fault G10: whether the folder is free is looked at where nobody can come in between.
    let env = world();
    env.script("wait-file go; promise");
    let mut runs: Vec<_> = (0..4)
        .map(|n| {
            let task = format!("t{n}");
            env.spawn([
                "run",
                "x",
                "--task",
                &task,
                "--gate",
                "true",
                "--agent-cmd",
                &env.agent_cmd(),
                "--kill-grace",
                "50ms",
            ])
        })
        .collect();
    // Also the slowest to start must have looked before the first is done.
    let is_running = |run: &mut dacapo_testkit::Running| u32::from(run.is_running());
    env.wait_until("three are refused", LONG, || runs.iter_mut().map(is_running).sum::<u32>() == 1);
    env.write("go", "");
    let codes: Vec<Option<i32>> = runs.into_iter().map(|run| run.wait(LONG).code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(5)).count(), 3, "{codes:?}");
    // The fourth changed nothing, but its gate agrees.
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
}

#[test]
fn a_bus_that_somebody_holds_does_not_hold_the_loop() {
    let env = world();
    env.write(
        "hold.sh",
        "(flock 9; touch held; sleep 30) 9>>\"$DACAPO_BUS\" &\nwhile [ ! -e held ]; do sleep 0.01; done\n",
    );
    env.script("sh sh hold.sh; promise");
    env.run(["run", "x", "--task", "t", "--agent-cmd", &env.agent_cmd(), "--kill-grace", "50ms"])
        .assert_code(0);
}
