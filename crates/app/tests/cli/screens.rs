//! Every screen that a person reads, whole: what a command prints about a loop, and the live view at three widths.

use std::{env, fs::create_dir_all, os::unix::fs::symlink};

use dacapo_testkit::{Terminal, TestEnv, live_part};

use crate::support::{LONG, Task, world};

/// The text without what differs from run to run.
fn masked(env: &TestEnv, text: &str) -> String {
    let is_hash = |word: &str| {
        word.len() >= 7
            && word.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
            && word.bytes().any(|b| b.is_ascii_digit())
    };
    let mut masked = String::new();
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let rest = &piece[word.len()..];
        masked += if is_hash(word) { "[HASH]" } else { word };
        masked += rest;
    }
    // The ids of loops may look like short hashes, and the beginning of a hash like a duration.
    let masked = env.redact(&masked).replace("[HASH]", "[ID]").replace("[LOOP]", "[ID]");
    masked.replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
}

/// A repository with a loop that was refused once and then accepted.
fn after_a_loop() -> TestEnv {
    let env = world();
    env.write("check.sh", "test -f b && echo checked\n").git_init();
    let script = "@1: say the first half; touch a; promise; @2: say the second half; touch b; promise";
    env.run_loop(script, &["--gate", "sh check.sh"]).assert_code(0);
    env
}

#[test]
fn what_commands_say_about_a_loop_that_is_done() {
    let env = after_a_loop();
    for (name, args) in [
        ("status", vec!["status"]),
        ("status_of_loop", vec!["status", "t"]),
        ("why", vec!["why", "t"]),
        ("receipt", vec!["receipt", "t"]),
        ("logs", vec!["logs", "t"]),
        ("events", vec!["events", "t"]),
        ("diff", vec!["diff", "t"]),
        ("snapshots", vec!["snapshots", "t"]),
        ("verify", vec!["verify", "t"]),
    ] {
        let output = env.run(&args).assert_code(0);
        insta::assert_snapshot!(name, masked(&env, &output.stdout));
    }
}

#[test]
fn a_narrow_terminal_gets_sentences_broken_between_words_and_json_whole() {
    let env = after_a_loop();
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    for (columns, command) in
        [(40, format!("{dacapo} why t")), (80, format!("{dacapo} why t; {dacapo} receipt t"))]
    {
        let terminal = Terminal::open(&env, columns, 60, &command);
        terminal.wait_for("left with 0");
        insta::assert_snapshot!(format!("broken_between_words_{columns}"), masked(&env, &terminal.screen()));
    }
    // tmux joins what it had to break itself: a line that dacapo broke stays broken.
    let terminal = Terminal::open_as(&env, "json", 40, 100, &format!("{dacapo} why t --json"));
    terminal.wait_for("left with 0");
    let output = terminal.tmux().args(["capture-pane", "-p", "-J"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = shown.lines().next().unwrap_or_default();
    assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{shown}");
}

#[test]
fn what_explain_and_doctor_say_before_a_loop() {
    let env = world();
    env.git_init();
    let output = env.run(["explain", "run", "do it", "--agent-cmd", "my-agent", "--gate", "make test"]);
    insta::assert_snapshot!("explain_run", masked(&env, &output.assert_code(0).stdout));
    // Nothing of this machine's but git.
    let bin = env.root().join("only-git");
    create_dir_all(&bin).unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let git = env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.exists()).unwrap();
    symlink(git, bin.join("git")).unwrap();
    let mut command = env.dacapo(["doctor"]);
    command.env("PATH", &bin);
    let output = env.run_command(command);
    let lines: Vec<String> = masked(&env, &output.stdout)
        .lines()
        .map(|line| match line.split_once("GiB free") {
            Some((before, rest)) => {
                let before = before.trim_end().trim_end_matches(|c: char| c.is_ascii_digit());
                format!("{before}[N] GiB free{rest}")
            }
            None => line.to_owned(),
        })
        .collect();
    insta::assert_snapshot!("doctor", lines.join("\n"));
}

#[test]
fn the_live_view_of_an_agent_and_of_a_gate_at_three_widths() {
    let env = world();
    env.write(
        "check.sh",
        "echo the first test passes; touch gated; while [ ! -e go ]; do sleep 0.05; done\n",
    );
    let script = "say reading the tests of this project, all of them; write ready; wait-file ask; promise";
    let running =
        env.start_loop(script, &["--gate", "sh check.sh", "--gate-in", "workspace", "--tests", "free"]);
    let shown = |moment: &str, words: &str| {
        for columns in [40, 80, 160] {
            let dacapo = env!("CARGO_BIN_EXE_dacapo");
            let name = format!("{moment}_{columns}");
            let terminal = Terminal::open_as(&env, &name, columns, 40, &format!("{dacapo} attach t"));
            terminal.wait_for(words);
            let screen = terminal.wait_for("p pause");
            insta::assert_snapshot!(format!("live_{name}"), masked(&env, &live_part(&env, &screen)));
            terminal.press(&["d"]);
            terminal.wait_for("left with 0");
        }
    };
    shown("agent", "reading the tests");
    env.write("ask", "");
    env.wait_for_file("gated");
    shown("gate", "the first test passes");
    env.write("go", "");
    running.wait(LONG).assert_code(0);
}

#[test]
fn what_the_first_commands_say_in_a_repository() {
    let env = world();
    env.write("Makefile", "test:\n\t@grep -qx 42 answer\n").write("answer", "41\n").git_init();
    let empty = env.root().join("no-agents");
    create_dir_all(&empty).unwrap();
    for program in ["git", "sh", "make", "grep"] {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|folder| folder.join(program)).find(|found| found.exists());
        symlink(found.expect(program), empty.join(program)).unwrap();
    }
    for (name, args) in [
        ("init", vec!["init"]),
        ("trust_show", vec!["trust", "--show"]),
        ("trust_yes", vec!["trust", "--yes"]),
        ("run_without_agent", vec!["run", "make it 42"]),
        ("why_before_a_loop", vec!["why"]),
        ("report_of_nothing", vec!["report"]),
        ("clean", vec!["clean", "--dry-run"]),
        ("wrong_word", vec!["stauts"]),
        ("wrong_word_for_a_command_that_changes_files", vec!["runn"]),
    ] {
        let mut command = env.dacapo(&args);
        command.env("PATH", &empty);
        let output = env.run_command(command);
        let code = output.code.expect("it exits");
        let shown = format!("exit {code}\n{}{}", output.stdout, output.stderr);
        // A report begins with the time from which on it tells.
        let is_since = |line: &&str| line.starts_with("Since ");
        let since = shown.lines().find(is_since).and_then(|line| line.split(" (").next()).unwrap_or("\0");
        insta::assert_snapshot!(name, masked(&env, &shown.replace(since, "Since [TIME]")));
    }
}

#[test]
fn what_the_demo_shows_and_leaves_to_be_read() {
    let env = world();
    let demo = env.run(["demo"]).assert_code(0);
    // The folder of the demo has a name of its own each time.
    let without_folder = |text: &str| {
        let mut parts = text.split("dacapo-demo-");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| format!("{all}dacapo-demo-[ID]{}", part.get(8..).unwrap_or_default()))
    };
    let masked = |env: &TestEnv, text: &str| masked(env, &without_folder(text));
    insta::assert_snapshot!("demo", masked(&env, &demo.stdout));
    for (name, args) in [("demo_why", ["why", "-"]), ("demo_receipt", ["receipt", "-"])] {
        let output = env.run(args).assert_code(0);
        insta::assert_snapshot!(name, masked(&env, &output.stdout));
    }
}

#[test]
fn what_a_new_user_mistypes_is_answered_with_the_way_out() {
    let env = world();
    env.write("agent.sh", "echo hello\n").write(".dacapo/config.yaml", "gates: make test\n").git_init();
    env.write("notes.json", "# no receipt\n");
    let bare = env.root().join("bare.git");
    env.git(["init", "-q", "--bare", bare.to_str().unwrap()]);
    let (here, home) = (env.workspace(), env.home());
    let mut shown = String::new();
    for (folder, args) in [
        (&here, &["why"][..]),
        (&here, &["why", "-"]),
        (&here, &["steer"]),
        (&here, &["signal"]),
        (&here, &["run", "make", "the", "tests", "pass"]),
        (&here, &["steer", "use", "the", "other", "one"]),
        (&here, &["run", "x", "--agent-cmd", "true"]),
        (&bare, &["init"]),
        (&bare, &["task", "run"]),
        (&home, &["init"]),
        (&home, &["run", "x", "--agent-cmd", "./no-such-agent"]),
        (&here, &["verify", "notes.json"]),
        (&here, &["verify", "nowhere.json"]),
        (&here, &["verify", "nowhere"]),
    ] {
        let mut command = env.dacapo(args);
        command.current_dir(folder);
        let output = env.run_command(command);
        shown +=
            &format!("$ dacapo {}   [exit {}]\n{}\n", args.join(" "), output.code.unwrap(), output.stderr);
    }
    env.write(".dacapo/config.yaml", "");
    for program in ["agent.sh", "./agent.sh"] {
        let output = env.run(["run", "x", "--agent-cmd", program]);
        shown += &format!("$ --agent-cmd {program}   [exit {}]\n{}\n", output.code.unwrap(), output.stderr);
    }
    insta::assert_snapshot!("mistyped", masked(&env, &shown));
}
