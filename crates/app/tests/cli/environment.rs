//! What an agent is given: its prompt, its environment, its place among processes.

use std::fs;

use crate::support::{Task, assert_has, last_line, world};

fn variable(environment: &str, name: &str) -> Option<String> {
    let mark = format!("{name}=");
    environment.lines().find_map(|line| line.strip_prefix(&mark).map(str::to_owned))
}

#[test]
fn the_environment_names_the_loop_the_task_and_its_folder() {
    // req 79, req 93
    let env = world();
    let mut command = env.dacapo(env.loop_args("env-to env-$DACAPO_ITERATION; @2: promise", &["-n", "7"]));
    // What the caller sets does not outrank it.
    command
        .env("TASK_FOLDER", "/elsewhere")
        .env("DACAPO_ITERATION", "99")
        .env("CLAUDE_CODE_ENTRYPOINT", "cli");
    env.run_command(command).assert_code(0);
    let id = env.status("t")["id"].as_str().unwrap().to_owned();
    let folder = env.folder("t");
    for (iteration, restart) in [("1", "0"), ("2", "1")] {
        let environment = env.read(format!("env-{iteration}"));
        for (name, value) in [
            ("TASK_FOLDER", folder.to_str().unwrap()),
            ("DACAPO_LOOP", &id),
            ("DACAPO_PROJECT", "p"),
            ("DACAPO_TASK", "t"),
            ("DACAPO_STAGE", ""),
            ("DACAPO_ITERATION", iteration),
            ("DACAPO_MAX_ITERATIONS", "7"),
            ("DACAPO_RESTART", restart),
            ("DACAPO_PROMISE", "DONE"),
            ("DACAPO_BUS", folder.join("TASK-MESSAGE-BUS.md").to_str().unwrap()),
            ("DACAPO_PARENT", ""),
            ("DACAPO_HOME", env.dacapo_home().to_str().unwrap()),
            ("DACAPO_SOCKET", env.dacapo_home().join("sockets").join(&id).to_str().unwrap()),
        ] {
            assert_eq!(variable(&environment, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(variable(&environment, "CLAUDE_CODE_ENTRYPOINT"), None);
    }
}

#[test]
fn dacapo_itself_is_on_the_agent_s_path() {
    // req 93
    let env = world();
    env.run_loop("run dacapo bus post --type INFO hello; promise", &[]).assert_code(0);
    env.assert_on_bus("INFO", "hello");
}

#[test]
fn standard_input_is_the_prompt_then_its_end_and_never_a_terminal() {
    // req 94, req 96, fault C4
    let env = world();
    env.run_loop("prompt-to prompt; fds-to fds; promise", &[]).assert_code(0);
    let prompt = env.read("prompt");
    assert!(prompt.starts_with("do it\n"), "{prompt}");
    assert_has(&prompt, "$TASK_FOLDER/DONE");
    assert_has(&env.prompt(1), prompt.trim_end());
    let fds = env.read("fds");
    assert!(!fds.contains("/dev/pts") && !fds.contains("/dev/tty"), "{fds}");
    assert_eq!(beyond_standard(&fds), Vec::<&str>::new());
}

/// Open descriptors but for the standard three, and for the one that the folder is read by.
fn beyond_standard(fds: &str) -> Vec<&str> {
    let is_other = |line: &&str| {
        let Some((fd, target)) = line.split_once(" -> ") else { return true };
        let is_of_the_look = target.starts_with("/proc/") && target.ends_with("/fd");
        !(is_of_the_look || matches!(fd, "0" | "1" | "2"))
    };
    fds.lines().filter(is_other).collect()
}

#[test]
fn what_the_caller_left_open_reaches_neither_agents_nor_gates() {
    // A prompt can still come by a descriptor: dacapo itself may read it.
    let env = world();
    let agent = env.script("prompt-to prompt; fds-to fds; append work more; promise").agent_cmd();
    let dacapo = env!("CARGO_BIN_EXE_dacapo");
    let line = format!(
        "exec 5</etc/passwd 9>>secret; echo do it | {{ exec {dacapo} run -P /dev/fd/7 --task t --agent-cmd \"$AGENT\" \
         --gate 'for fd in /proc/self/fd/*; do readlink $fd || true; done >../gate-fds'; }} 7<&0 </dev/null"
    );
    let mut command = env.command("sh");
    command.args(["-c", &line]).env("AGENT", agent).current_dir(env.workspace());
    env.run_command(command).assert_code(0);
    assert!(env.read("prompt").starts_with("do it\n"), "{}", env.read("prompt"));
    assert_eq!(beyond_standard(&env.read("fds")), Vec::<&str>::new());
    let of_gate = fs::read_to_string(env.root().join("gate-fds")).unwrap();
    assert!(!of_gate.contains("passwd") && !of_gate.contains("secret"), "{of_gate}");
}

#[test]
fn the_prompt_goes_into_a_file_or_an_argument_where_the_command_says_so() {
    // fault I2
    for (placeholder, is_file) in [("{prompt_file}", true), ("{prompt}", false)] {
        let env = world();
        let agent = env.script("args-to args; fds-to fds; prompt-to stdin; promise").agent_cmd();
        let agent = format!("{agent} --ask {placeholder}");
        env.run(["run", "do {prompt_file} it", "--task", "t", "--agent-cmd", &agent]).assert_code(0);
        let args = env.read("args");
        let asked = args.lines().skip_while(|arg| *arg != "--ask").nth(1).unwrap().to_owned();
        let prompt = if is_file { fs::read_to_string(&asked).unwrap() } else { asked.replace("\\n", "\n") };
        assert!(prompt.starts_with("do {prompt_file} it\n"), "{prompt}");
        assert_eq!(env.read("stdin"), "");
        assert_has(&env.read("fds"), "0 -> /dev/null");
    }
}

#[test]
fn the_prompt_comes_from_a_file_from_standard_input_or_from_prompt_md() {
    for (args, expected) in [(vec!["-P", "-"], "typed"), (vec!["-P", "a.md"], "file"), (vec![], "default")] {
        let env = world();
        env.write("a.md", "file").write("PROMPT.md", "default").write("in", "typed");
        let agent = env.script("prompt-to prompt; promise").agent_cmd();
        let mut command = env.dacapo(["run", "--agent-cmd", &agent].iter().chain(&args));
        command.stdin(fs::File::open(env.workspace().join("in")).unwrap());
        env.run_command(command).assert_code(0);
        assert!(env.read("prompt").starts_with(&format!("{expected}\n")), "{args:?}");
    }
}

#[test]
fn a_huge_prompt_goes_by_standard_input_and_is_refused_as_an_argument() {
    // fault I1
    let env = world();
    let huge = "word ".repeat(60 * 1024);
    env.write("PROMPT.md", &huge);
    let agent = env.script("prompt-to prompt; promise").agent_cmd();
    env.run(["run", "--agent-cmd", &agent, "--task", "t"]).assert_code(0);
    assert!(env.read("prompt").starts_with(huge.trim_end()));

    env.write("long.md", &huge[..200 * 1024]);
    let agent = format!("{agent} {{prompt}}");
    for mode in [&[][..], &["--detach"]] {
        let args = ["run", "-P", "long.md", "--agent-cmd", &agent, "--task", "u"];
        let output = env.run(args.iter().chain(mode)).assert_code(2);
        assert_has(
            &output.stderr,
            "the prompt has 204800 bytes, and `{prompt}` in the command line of `fake-agent` takes at most 102400",
        );
        assert_has(&output.stderr, "`{prompt_file}` in its place hands over a file");
    }
    assert_eq!(env.starts(), 1);
    assert!(!env.folder("u").exists(), "a loop that is refused leaves no task");

    // The way that is named works.
    let agent = agent.replace("{prompt}", "{prompt_file}");
    env.run(["run", "-P", "long.md", "--agent-cmd", &agent, "--task", "u"]).assert_code(0);
}

#[test]
fn in_a_plain_folder_the_end_of_a_loop_offers_no_difference() {
    let env = world();
    env.write("kept.txt", "1");
    let args = ["--protect", "kept.txt", "--gate", "true", "-n", "1"];
    let output = env.run_loop("write kept.txt; promise", &args);
    let next = output.stdout.lines().find(|line| line.starts_with("  next")).unwrap_or_default();
    assert!(next.contains("`dacapo logs ") && !output.stdout.contains("dacapo diff"), "{}", output.stdout);
}

#[test]
fn where_the_state_cannot_be_written_doctor_says_that_of_the_sandbox_too() {
    let env = world();
    env.write("file", "");
    let mut command = env.dacapo(["doctor"]);
    command.env("DACAPO_HOME", env.workspace().join("file/home"));
    let output = env.run_command(command).assert_code(5);
    assert_has(&output.stdout, "warn sandbox      not tried, because the state folder cannot be written\n");
    assert_eq!(output.stdout.matches("cannot write to the state folder").count(), 1, "{}", output.stdout);
    assert_eq!(output.stdout.matches("hint: set DACAPO_HOME to a folder").count(), 1, "{}", output.stdout);
    assert_has(&output.stdout, " GiB free");
    assert!(!output.stdout.contains("made to allow more"), "{}", output.stdout);
}

#[test]
fn an_agent_leads_a_process_group_of_its_own() {
    // req 81, req 102
    let env = world();
    env.run_loop("pid-to pid; sh 'ps -o pgid= -p $PPID >pgid'; promise", &[]).assert_code(0);
    assert_eq!(env.read("pid").trim(), env.read("pgid").trim());
}

#[test]
fn the_prompt_is_kept_as_task_md_and_used_again_by_the_task_s_next_loop() {
    // req 95
    let env = world();
    env.run_loop("promise", &[]).assert_code(0);
    assert_eq!(fs::read_to_string(env.folder("t").join("TASK.md")).unwrap(), "do it");
    let agent = env.script("prompt-to prompt; promise").agent_cmd();
    env.run(["run", "--project", "p", "--task", "t", "--agent-cmd", &agent]).assert_code(0);
    assert!(env.read("prompt").starts_with("do it\n"));
    let output = env.run(["run", "--project", "p", "--task", "new", "--agent-cmd", &agent]).assert_code(2);
    assert_has(last_line(&output), "no prompt");
    let output = env.run(["run", "--agent-cmd", &agent]).assert_code(2);
    assert_has(last_line(&output), "no prompt");
}

#[test]
fn each_attempt_keeps_what_it_was_given_and_what_it_printed_for_its_owner_alone() {
    // req 96, fault G8
    use std::os::unix::fs::PermissionsExt as _;
    let env = world();
    env.run_loop("say out $DACAPO_ITERATION; err err $DACAPO_ITERATION; @2: promise", &[]).assert_code(0);
    for iteration in ["1", "2"] {
        let logs = |extra: &[&str]| {
            env.run(["logs", "t", "--iteration", iteration].iter().chain(extra)).assert_code(0).stdout
        };
        assert_has(&logs(&[]), &format!("out {iteration}\n"));
        assert_has(&logs(&["--stderr"]), &format!("err {iteration}\n"));
        assert_has(&logs(&["--prompt"]), &format!("this is iteration {iteration} of at most"));
    }
    let attempts: Vec<u64> =
        env.events_of("t", "agent_started").iter().filter_map(|event| event["attempt"].as_u64()).collect();
    assert_eq!(attempts, [1, 2]);
    let runs = env.folder("t").join("runs");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&runs), 0o700);
    for file in fs::read_dir(&runs).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
}
