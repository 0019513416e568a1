//! A machine or a terminal that is not what dacapo expects: one clear line, and never a panic.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, process::Command};

use dacapo_testkit::{Output, Terminal, TestEnv};

use crate::support::{Task, assert_has, last_line, world};

/// The command without the places that the environment names for state.
fn without_places(mut command: Command) -> Command {
    for name in ["DACAPO_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
    command
}

/// Runs a line of a shell in which `dacapo` is the program under test.
fn shell(env: &TestEnv, line: &str) -> Output {
    let mut command = env.command("bash");
    let line = format!("dacapo() {{ {} \"$@\"; }}; {line}", env!("CARGO_BIN_EXE_dacapo"));
    command.args(["-c", &line]);
    env.run_command(command)
}

fn assert_no_panic(output: &Output) {
    for text in [&output.stdout, &output.stderr] {
        assert!(!text.contains("panicked") && !text.contains("bug in dacapo"), "{output:?}");
    }
}

#[test]
fn without_a_home_there_is_no_place_for_state_and_the_demo_needs_none() {
    let env = world();
    for args in [vec!["status"], vec!["report"], vec!["run", "do it", "--agent-cmd", "true"], vec!["init"]] {
        let mut command = without_places(env.dacapo(&args));
        command.env_remove("HOME");
        let output = env.run_command(command).assert_code(5);
        assert_eq!(output.stdout, "", "{args:?}");
        assert_eq!(
            output.stderr,
            "dacapo: no place for state: neither DACAPO_HOME, XDG_STATE_HOME nor HOME is set\n\
             hint: set DACAPO_HOME to a folder you can write to\n",
            "{args:?}"
        );
    }
    for args in [["completions", "bash"].as_slice(), &["--version"], &["demo", "-q"]] {
        let mut command = without_places(env.dacapo(args));
        command.env_remove("HOME");
        assert_no_panic(&env.run_command(command).assert_code(0));
    }
}

#[test]
fn a_read_only_home_is_named_with_a_way_out() {
    let env = world();
    let home = env.home();
    let dacapo = |args: &str| {
        let mount = format!(
            "mount --make-rprivate / && mount -t tmpfs -o ro,mode=700 none {} && exec {} {args}",
            home.display(),
            env!("CARGO_BIN_EXE_dacapo")
        );
        // As root a mount namespace is enough; others need one for users around it.
        let namespaces = if is_root() { "-m" } else { "-rm" };
        let mut command = without_places(env.command("unshare"));
        command.args([namespaces, "sh", "-c", &mount]);
        env.run_command(command)
    };
    for args in ["run 'do it' --agent-cmd true", "resume x", "report"] {
        let output = dacapo(args);
        assert_no_panic(&output);
        if args != "resume x" {
            assert_eq!(output.code, Some(5), "{args}: {output:?}");
            assert_has(&output.stderr, "dacapo: cannot write to the state folder");
            assert_has(&output.stderr, "Read-only file system");
            assert_has(&output.stderr, "hint: set DACAPO_HOME to a folder you can write to");
        }
    }
    assert_eq!(dacapo("status").assert_code(0).stdout, "No active Ralph loops.\n");
    let doctor = dacapo("doctor");
    assert_has(&doctor.stdout, "bad  journal      cannot write to the state folder");
    assert_no_panic(&dacapo("demo -q").assert_code(0));
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id runs");
    output.stdout == b"0\n"
}

#[test]
fn a_terminal_of_20_columns_and_5_lines_shows_words_and_no_traces() {
    let env = world();
    let agent = env
        .script("say a long line of words that does not fit; write ready; wait-file go; promise")
        .agent_cmd();
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    let line = format!("{dacapo} run 'do it' --project p --task t --agent-cmd '{agent}' --gate true");
    let terminal = Terminal::open(&env, 20, 5, &line);
    env.wait_for_file("ready");
    let screen = terminal.wait_for("iteration 1/");
    assert!(screen.lines().all(|line| line.chars().count() <= 20), "{screen}");
    {
        let attached = Terminal::open_as(&env, "second", 20, 5, &format!("{dacapo} attach t"));
        let screen = attached.wait_for("iteration 1/");
        assert!(screen.lines().all(|line| line.chars().count() <= 20), "{screen}");
        attached.press(&["d"]);
        attached.wait_for("left with 0");
    }
    env.write("go", "");
    terminal.wait_for("left with 0");
    let history = terminal.tmux().args(["capture-pane", "-p", "-S", "-200"]).output().unwrap().stdout;
    let history = String::from_utf8(history).unwrap();
    assert!(history.lines().all(|line| line.chars().count() <= 20), "{history}");
    assert!(!history.contains("panicked"), "{history}");
    assert_has(&history, "accepted");
}

#[test]
fn a_reader_that_has_seen_enough_changes_no_exit_code_of_a_loop() {
    let env = world();
    let agent = env.script("say working").agent_cmd();
    let run = format!("dacapo run x --task t --agent-cmd '{agent}' -n 2 --restart-delay 0s");
    for style in ["", " --json", " -v"] {
        let output = shell(&env, &format!("{run}{style} | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}"));
        assert_eq!(output.stdout, "3\n", "{style}: {output:?}");
        assert_no_panic(&output);
        assert_eq!(
            last_line(&output).split(" [loop").next(),
            Some("dacapo: failed (max_iterations): 2 iterations used without an accepted claim"),
            "{style}"
        );
    }
    // What only prints has done its work.
    for command in [
        "--help",
        "run --help",
        "completions bash",
        "status --all",
        "events t",
        "logs t",
        "doctor",
        "receipt t",
    ] {
        let output = shell(&env, &format!("dacapo {command} | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}"));
        assert_no_panic(&output);
        assert!(["0\n", "1\n"].contains(&output.stdout.as_str()), "{command}: {output:?}");
        assert!(output.stderr.lines().count() <= 2, "{command}: {output:?}");
    }
}

#[test]
fn a_prompt_of_three_megabytes_goes_by_standard_input_and_fills_no_screen() {
    let env = world();
    let huge = "word ".repeat(600 * 1024);
    env.write("PROMPT.md", &huge);
    let agent = env.script("prompt-to prompt; promise").agent_cmd();
    let output = env.run(["run", "--agent-cmd", &agent, "--project", "p", "--task", "t"]).assert_code(0);
    assert!(env.read("prompt").starts_with(huge.trim_end()));
    let mut shown = vec![output];
    shown.extend(["status", "why", "events"].map(|command| env.run([command, "t"]).assert_code(0)));
    for output in &shown {
        assert!(
            output.stdout.lines().chain(output.stderr.lines()).all(|line| line.len() < 300),
            "a long line"
        );
    }
    let agent = format!("{agent} {{prompt}}");
    let output = env.run(["run", "--agent-cmd", &agent, "--project", "p", "--task", "u"]).assert_code(2);
    assert_has(last_line(&output), "the prompt has 3072000 bytes, and `{prompt}` in the command line");
    assert_has(last_line(&output), "with neither it goes by standard input");
    assert_eq!(env.starts(), 1);
}

#[test]
fn words_that_are_no_text_are_refused_by_every_command() {
    let env = world();
    let odd = OsStr::from_bytes(b"\xff\xfe");
    for command in [
        "status",
        "why",
        "logs",
        "events",
        "receipt",
        "diff",
        "attach",
        "resume",
        "steer",
        "cancel",
        "pause",
        "approve",
        "verify",
        "restore",
        "snapshots",
        "trust",
        "explain",
        "import",
        "ask",
        "signal",
    ] {
        let output = env.run([OsStr::new(command), odd]);
        assert_eq!(output.code, Some(2), "{command}: {output:?}");
        assert_no_panic(&output);
        let first = output.stderr.lines().next().unwrap_or_default();
        assert!(first.starts_with("error: ") || first.starts_with("dacapo: "), "{command}: {output:?}");
    }
    let output = env.run([OsStr::new("run"), OsStr::new("x"), OsStr::new("--dir"), odd]).assert_code(2);
    assert_has(&output.stderr, "dacapo: cannot work in");
}

#[test]
fn no_color_takes_every_colour_out_of_a_terminal() {
    let env = world();
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    let colours = |name: &str, setting: &str| {
        let line = format!("env {setting} {dacapo} demo");
        let terminal = Terminal::open_as(&env, name, 100, 40, &line);
        terminal.wait_for("left with 0");
        let screen = terminal.tmux().args(["capture-pane", "-p", "-e"]).output().unwrap().stdout;
        String::from_utf8(screen).unwrap().matches("\u{1b}[").count()
    };
    let with = colours("with", "-u NO_COLOR");
    assert!(with > 10, "{with}");
    assert_eq!(colours("empty", "NO_COLOR="), with, "an empty one counts as none");
    assert_eq!(colours("without", "NO_COLOR=1"), 0);
}

#[test]
fn a_task_whose_name_begins_the_id_of_a_loop_is_meant_in_its_folder_and_asked_about_elsewhere() {
    let env = world();
    env.run_loop("promise", &[]).assert_code(0);
    let first = env.status("t")["id"].as_str().unwrap().to_owned();
    let name = &first[..4];
    env.run_agent("promise", ["--task", name]).assert_code(0);
    let output = env.run(["status", name]).assert_code(0);
    assert_has(&output.stdout, &format!("{name} ("));
    assert!(!output.stdout.contains(&first), "{}", output.stdout);
    assert_has(&env.run(["status", &first[..5]]).assert_code(0).stdout, &first);
    let mut elsewhere = env.dacapo(["status", name]);
    elsewhere.current_dir(env.root());
    let output = env.run_command(elsewhere).assert_code(2);
    assert_has(&output.stderr, &format!("dacapo: `{name}` could mean several loops: "));
    assert_has(&output.stderr, &first);
    assert_has(&output.stderr, "hint: give more of the id");
}
